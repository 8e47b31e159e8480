"""Samplers and their randomness."""

from noiseplan.noise.discrete import discrete_gaussian, discrete_laplace
from noiseplan.noise.gaussian import NormalSampler
from noiseplan.noise.laplace import LaplaceSampler
from noiseplan.noise.randomness import SeededSource, Source, StreamSource, SystemSource
from noiseplan.noise.samplers import (
    DiscreteLaplaceSampler,
    DiscreteSampler,
    NoiseSampler,
    is_simulation,
    simulation_warning,
)

__all__ = [
    "DiscreteLaplaceSampler",
    "DiscreteSampler",
    "LaplaceSampler",
    "NoiseSampler",
    "NormalSampler",
    "SeededSource",
    "Source",
    "StreamSource",
    "SystemSource",
    "discrete_gaussian",
    "discrete_laplace",
    "is_simulation",
    "simulation_warning",
]
