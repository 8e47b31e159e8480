"""Noise, what it is drawn from, and its randomness."""

from noiseplan.noise.discrete import discrete_gaussian, discrete_laplace
from noiseplan.noise.law import Noise
from noiseplan.noise.randomness import SeededSource, Source, StreamSource, SystemSource
from noiseplan.noise.samplers import (
    ExactSampler,
    NoiseSampler,
    SimulationSampler,
)

__all__ = [
    "ExactSampler",
    "Noise",
    "NoiseSampler",
    "SeededSource",
    "SimulationSampler",
    "Source",
    "StreamSource",
    "SystemSource",
    "discrete_gaussian",
    "discrete_laplace",
]
