"""Privacy: budgets, what a mechanism costs, and conversions that always round to the safe side."""

from noiseplan.privacy.budgets import GDP, ApproxDP, Budget, Law, PureDP, zCDP
from noiseplan.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_pcost,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from noiseplan.privacy.guarantee import Guarantee, Neighbours

__all__ = [
    "GDP",
    "ApproxDP",
    "Budget",
    "Guarantee",
    "Law",
    "Neighbours",
    "PureDP",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_pcost",
    "zCDP",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
