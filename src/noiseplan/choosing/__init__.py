"""Look first, choose after: what several plans have in common, measured before choosing."""
