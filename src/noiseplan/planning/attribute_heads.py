"""Each attribute's part in the bound: a few coordinates kept whole, and one number for the rest.

With record weights d and u = √d, a factor W is W' = W D^{1/2} with the Gram matrix g. Its columns
are turned into a frame [u | heads | tail]. For a matrix Y with orthonormal columns, Z = YᵀW' and

    H = Z_hhᵀ Z_hh  (u and heads),      s = ‖Z_tt‖_*  (tail)

are what is left when the columns of heads and of tail are looked at from orthogonal sides: that
never raises a nuclear norm (pinching), and with all columns as heads it loses nothing. What is left
out counts to the second order only, and heads that start with u, √g u, … make it small: of prefix
sums two leave 0.2 %.

Y is the polar factor of W' with u scaled by κ; any κ is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.planning.workload_types import Design, without_rounding

# Eigenvalues below this fraction of the largest are taken for rounding.
NOISE_FLOOR = 1e-11
# What is left of a direction that is no more than rounding.
SPENT = 1e-7


@dataclass(frozen=True, eq=False)
class Heads:
    """Of one role: H and s² of each pair, over the same columns."""

    size: int  # of H: one more than there are heads
    kept: dict[int, Array]
    rest: dict[int, float]
    whole: bool  # nothing is left out


def plain_heads(pairs: list[int], size: int) -> Heads:
    """An attribute asked by value, every record alike: g = I/n, and no column touches another."""
    kept = dict.fromkeys(pairs, np.full((1, 1), 1.0 / size))
    return Heads(1, kept, dict.fromkeys(pairs, (size - 1) ** 2 / size), True)


class PricedFactors:
    """The Gram matrices g of one role's factors under its record weights."""

    def __init__(self, design: Design, role: int, weights: Array) -> None:
        self.unit = np.sqrt(weights)
        pairs = design.pairs_of[role]
        scale = np.outer(self.unit, self.unit)
        grams = {p: design.grams[p] for p in pairs}
        self.grams = {p: g * scale for p, g in grams.items() if g is not None}
        self.roots = [_root(g) for p, g in self.grams.items() if p not in design.constant]

    @property
    def values(self) -> int:
        return len(self.unit)

    def heads(self, count: int, kappa: float) -> Heads:
        """At most `count` heads, and Y with u scaled by κ."""
        frame, size = self._frame(count)
        moments = {p: _seen(frame.T @ g @ frame, size, kappa) for p, g in self.grams.items()}
        kept = {p: kept for p, (kept, _) in moments.items()}
        rest = {p: rest for p, (_, rest) in moments.items()}
        whole = not any(rest.values()) or (len(self.roots) < 2 and size <= count)
        return Heads(size, kept, rest, whole)

    def _frame(self, count: int) -> tuple[Array, int]:
        """[u | heads | tail], and the size of the first two: u, then √g of what is there.

        Where nothing new comes of that, the tail is apart for one kind of factor; several may
        still touch within it, so that heads are taken from anywhere.
        """
        found, place, most = [self.unit], 0, min(count + 1, self.values)
        while len(found) < most:
            if place < len(found):
                trials = [root @ found[place] for root in self.roots]
                place += 1
            elif len(self.roots) > 1:
                basis = np.column_stack(found)
                trials = [np.eye(self.values)[int(np.argmin((basis**2).sum(axis=1)))]]
            else:
                break
            for trial in trials:
                if (new := _orthogonal(trial, found)) is not None:
                    found.append(new)
        first = np.column_stack(found[:most])
        full = np.linalg.qr(np.column_stack([first, np.eye(self.values)]))[0]
        return np.asarray(full[:, : self.values]), first.shape[1]


def _orthogonal(vector: Array, others: list[Array]) -> Array | None:
    """What the others leave of a direction, of length one; None if that is nothing."""
    basis, length = np.column_stack(others), np.linalg.norm(vector)
    left = vector - basis @ (basis.T @ vector)
    left -= basis @ (basis.T @ left)
    size = np.linalg.norm(left)
    return left / size if size > SPENT * length else None


def _root(gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _seen(gram: Array, size: int, kappa: float) -> tuple[Array, float]:
    """H and s² in the frame.

    Y = W'C K^{−1/2} with C = diag(κ, 1, …) and K = C g C, so Z = YᵀW' = K^{−1/2} C g.
    """
    scale = np.ones(len(gram))
    scale[0] = kappa
    values, vectors = np.linalg.eigh(gram * np.outer(scale, scale))
    # Without what rounding may have made up: dropping directions only lowers the bound.
    keep = values > NOISE_FLOOR * values[-1]
    inverse = (vectors[:, keep] / np.sqrt(values[keep])) @ vectors[:, keep].T
    seen = inverse @ (scale[:, None] * gram)
    head, tail = seen[:size, :size], seen[size:, size:]
    rest = float(np.linalg.svd(tail, compute_uv=False).sum()) if tail.size else 0.0
    return head.T @ head, without_rounding(np.array(rest**2), np.trace(gram)).item()
