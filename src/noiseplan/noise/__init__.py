"""Samplers and their randomness."""

from noiseplan.noise.gaussian import NormalSampler

__all__ = ["NormalSampler"]
