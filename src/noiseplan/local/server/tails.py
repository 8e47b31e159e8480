"""How far answers may lie from the truth: tails of sums of independent, bounded scores.

An answer's error S is the sum over users of scores less their means, independent, of variance V
together and none farther than M from its mean. Bentkus (2004) bounds its tail by that of a centred
Poisson number of jumps M with the same variance,

    P(S ≥ M (k − ν)) ≤ (e²/2) P(Poisson(ν) ≥ k) ,   ν = V/M² ,

which holds for every N and ε. The factor e²/2 is what is paid for knowing no more of the scores
than V and M. Where there are many jumps, ν ≥ 500, the law is all but normal and the factor is left
out: what remains is the normal law with the skewness of jumps M, the largest there can be. That is
no bound any more; tails of binomial numbers exceed it by 3 % of their chance at most.

V depends on who the users are. It is a linear function of their counts, estimated from the same
reports, and exceeds V̂ + √(2 V₂ L) + M₂L/3, L = ln(1/α), with chance α at most (Bernstein), V₂ and
M₂ being those of its own estimate, for the least favourable users.

References
----------
Bentkus (2004), "On Hoeffding's inequalities", Annals of Probability 32.
"""

from __future__ import annotations

from math import e, log

import numpy as np

from noiseplan.matrices.base import Array

# From so many jumps on the normal law is right, but for the skewness that is counted.
MANY_JUMPS = 500.0
# Beyond so many jumps skewness is nothing either.
NORMAL = 1e8
# The part of the chance of an error that goes to an error in the variance.
VARIANCE_SHARE = 0.05
HALVINGS = 40


def poisson_reach(variance: Array, jump: Array, outside: float) -> Array:
    """s of each row with P(S ≥ s) ≤ `outside`, no score more than `jump` above its mean."""
    from scipy.special import ndtri

    reach = -float(ndtri(outside)) * np.sqrt(variance)
    jumps = np.full(len(reach), np.inf)
    np.divide(variance, jump**2, out=jumps, where=(variance > 0) & (jump > 0))
    few, many = jumps < MANY_JUMPS, (jumps >= MANY_JUMPS) & (jumps < NORMAL)
    for rows, factor in ((few, e**2 / 2), (many, 1.0)):
        bound = jump[rows] * _poisson_above(jumps[rows], outside / factor)
        reach[rows] = np.maximum(bound, reach[rows])
    return reach


def _poisson_above(mean: Array, outside: float) -> Array:
    """k − ν with P(Poisson(ν) ≥ k) = `outside`.

    Between whole numbers by the gamma function, which lies above the straight lines between their
    logarithms that the bound asks for, being log-concave in k.
    """
    from scipy.special import gammainc

    low, high = np.zeros_like(mean), 10 * np.sqrt(mean) - 10 * log(outside)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        inside = gammainc(mean + middle, mean) > outside
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def bernstein(variance: Array, jump: Array, outside: float) -> Array:
    """s with P(S ≥ s) ≤ `outside`."""
    needed = -log(outside)
    return np.asarray(np.sqrt(2 * variance * needed) + jump * needed / 3)
