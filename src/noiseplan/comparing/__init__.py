"""Which plan for these data? Expected errors side by side, exact or simulated on public data."""

from noiseplan.comparing.compare_plans import compare
from noiseplan.comparing.comparison import Comparison

__all__ = ["Comparison", "compare"]
