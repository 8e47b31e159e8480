"""Which plan for these data? Expected errors side by side, exact or simulated on public data."""

from noiseplan.comparing.comparison import Comparison
from noiseplan.comparing.making import compare

__all__ = ["Comparison", "compare"]
