"""The search for the best strategy: descents, column generation, shifted patterns, bounds."""
