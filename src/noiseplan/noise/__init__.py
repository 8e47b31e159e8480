"""Samplers and their randomness."""

from noiseplan.noise.discrete import discrete_gaussian, discrete_laplace
from noiseplan.noise.gaussian import NormalSampler
from noiseplan.noise.randomness import SeededSource, Source, StreamSource, SystemSource
from noiseplan.noise.samplers import DiscreteSampler

__all__ = [
    "DiscreteSampler",
    "NormalSampler",
    "SeededSource",
    "Source",
    "StreamSource",
    "SystemSource",
    "discrete_gaussian",
    "discrete_laplace",
]
