"""`noiseplan demo`: the tour."""

from noiseplan.demo import main as command

__all__ = ["command"]
