"""Look first, choose after: what several plans have in common, measured before choosing."""

from noiseplan.choosing.choice import Choice, Look, adaptive
from noiseplan.choosing.continuation import Continuation, joint_covariance
from noiseplan.choosing.linear_gaussian import (
    LinearGaussian,
    Recreation,
    chain,
    common_mechanism,
    residual,
)
from noiseplan.choosing.rules import (
    ConfidenceRegion,
    DecisionRule,
    Posterior,
    Recommendation,
    SignalToNoise,
)
from noiseplan.choosing.usefulness import Usefulness

__all__ = [
    "Choice",
    "ConfidenceRegion",
    "Continuation",
    "DecisionRule",
    "LinearGaussian",
    "Look",
    "Posterior",
    "Recommendation",
    "Recreation",
    "SignalToNoise",
    "Usefulness",
    "adaptive",
    "chain",
    "common_mechanism",
    "joint_covariance",
    "residual",
]
