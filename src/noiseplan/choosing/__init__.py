"""Look first, choose after: what several plans have in common, measured before choosing."""

from noiseplan.choosing.choice import Choice, adaptive

__all__ = ["Choice", "adaptive"]
