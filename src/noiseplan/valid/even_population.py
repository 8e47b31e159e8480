"""A population that obeys everything public and is as even as that allows.

It has the public tables as its margins, no records in impossible cells, and otherwise spreads
records evenly: public tables that share attributes are put together by iterative proportional
fitting, all other attributes are independent and uniform. Every cell that can be positive is, so a
small share of this population mends cells that rounding or an early stop left negative; and where
it is zero, every valid table is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import DataError
from noiseplan.matrices.base import Array
from noiseplan.valid.family import Set, fit_margin, margin, spread

# Cells of the joint table of public tables that share attributes.
MOST_JOINED = 10_000_000
SOON, ROUNDS = 300, 5_000
FITTED = 1e-13
AGREE = 1e-9
# Up to so many cells those that public margins force to zero are looked for by a linear program.
MOST_FORCED = 200_000
# A cell with less than this share of an even one has been fitted away: it cannot be positive.
GONE = 1e-9
# The linear program decides between 0 and 1 for every cell; in between is rounding.
POSITIVE = 0.5

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Anchor:
    """Independent groups of attributes, each with its share of records in every cell."""

    sizes: tuple[int, ...]
    groups: tuple[tuple[Set, Array], ...]

    def shaped(self, weights: Mapping[int, Array]) -> Anchor:
        """The same with some attributes that nothing is known of spread by weights, not evenly."""
        bound = {i for group, _ in self.groups for i in group}
        free = [((i,), w / w.sum()) for i, w in weights.items() if i not in bound and w.sum() > 0]
        return Anchor(self.sizes, (*self.groups, *free))

    def table(self, one: Set, total: float) -> Array:
        """The table of some attributes of the population."""
        found = np.full((1,) * len(one), float(total))
        rest = prod(self.sizes[i] for i in one if not any(i in g for g, _ in self.groups))
        for group, shares in self.groups:
            inside = tuple(i for i in group if i in one)
            if inside:
                found = found * spread(margin(shares, group, inside), inside, one)
        return np.array(np.broadcast_to(found / rest, tuple(self.sizes[i] for i in one)))

    def possible(self, one: Set) -> Array | None:
        """1 where a cell may be positive, else 0; None where all may."""
        if not any(set(group) & set(one) for group, _ in self.groups):
            return None
        open_cells = (self.table(one, 1.0) > 0).astype(np.float64)
        return None if open_cells.all() else open_cells


def make_anchor(
    sizes: Sequence[int],
    names: Sequence[str],
    public: Mapping[Set, Array],
    impossible: Mapping[Set, Mask],
) -> Anchor:
    """The anchor of public tables and impossible cells; refuses what no population can obey."""
    _require_agreement(names, public)
    totals = [float(table.sum()) for table in public.values()]
    total = totals[0] if totals else 1.0
    if total <= 0:
        return Anchor(tuple(sizes), ())  # no records at all: every table is zero
    groups = []
    for group in _groups([s for s in (*public, *impossible) if s]):
        cells = prod(sizes[i] for i in group)
        called = ", ".join(names[i] for i in group)
        if cells > MOST_JOINED:
            raise DataError(
                f"public tables and impossible cells of {called} hang together over {cells:,} "
                f"cells; the limit is {MOST_JOINED:,}. Leave one of them out"
            )
        shares = np.ones([sizes[i] for i in group])
        for one, closed in impossible.items():
            if set(one) <= set(group):
                shares *= spread(np.where(closed, 0.0, 1.0), one, group)
        inside = {s: t / total for s, t in public.items() if s and set(s) <= set(group)}
        groups.append((group, _fitted(shares, group, inside, called)))
    return Anchor(tuple(sizes), tuple(groups))


def _fitted(shares: Array, group: Set, public: Mapping[Set, Array], called: str) -> Array:
    """Shares with the public margins, positive wherever that is possible.

    Proportional fitting takes for ever where margins force a cell to be zero; such cells are found
    by a linear program, and closed.
    """
    even = 1.0 / shares.size
    if not shares.sum() > 0:
        raise DataError(
            f"every cell of {called} was said to be impossible: there can be no records at all. "
            f"Leave some cells open, or say so: total=0"
        )
    found = _proportional(shares, group, public, SOON)
    if _missed(found, group, public) > FITTED:
        if shares.size > MOST_FORCED:
            found = _proportional(shares, group, public, ROUNDS)
            if _missed(found, group, public) > AGREE:
                raise DataError(
                    f"a table of {called} with all the public margins and impossible cells that "
                    f"were given was not found among {shares.size:,} cells, and perhaps there is "
                    f"none; leave one of them out"
                )
        else:
            inner = inner_point(shares > 0, group, public)
            if inner is None:
                raise DataError(
                    f"no table of {called} with counts that are not negative has all the public "
                    f"margins and impossible cells that were given; leave one of them out"
                )
            found = _proportional(np.where(inner > 0, shares, 0.0), group, public, ROUNDS)
            good = _missed(found, group, public) <= AGREE
            return np.where(inner > 0, found if good else inner, 0.0)
    return np.where(found > GONE * even, found, 0.0)


def inner_point(allowed: Mask, group: Set, public: Mapping[Set, Array]) -> Array | None:
    """A table with these margins, positive in every cell in which any such table is; None if none.

    Parameters
    ----------
    allowed
        True where a cell may be positive; one axis per attribute of the group.
    group, public
        The attributes, and margins on some of them, as shares that sum to one.

    Notes
    -----
    One linear program over x = t + u and a factor λ:

        max Σ t    subject to    A x = λ b,   0 ≤ t ≤ 1,   u ≥ 0,   λ ≥ 1 .

    Tables with these margins can be averaged and blown up, so at the optimum t is one in every cell
    that can be positive and zero in all others; x/λ is the table.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, csr_array, hstack, vstack

    shape, cells = allowed.shape, np.flatnonzero(allowed)
    places = np.unravel_index(cells, shape)
    rows, wanted = [], []
    for one, table in public.items():
        inside = tuple(places[group.index(i)] for i in one)
        at = np.ravel_multi_index(inside, table.shape) if one else np.zeros(len(cells), dtype=int)
        size = prod(table.shape)
        rows.append(
            coo_array((np.ones(len(cells)), (at, np.arange(len(cells)))), (size, len(cells)))
        )
        wanted.append(table.ravel())
    margins, b = vstack(rows).tocsr(), np.concatenate(wanted)
    both = hstack([margins, margins, csr_array(-b[:, None])]).tocsr()
    many = len(cells)
    least, most = np.r_[np.zeros(2 * many), 1.0], np.r_[np.ones(many), np.full(many + 1, np.inf)]
    solved = linprog(  # type: ignore[call-overload]
        np.concatenate([-np.ones(len(cells)), np.zeros(len(cells) + 1)]),
        A_eq=both,
        b_eq=np.zeros(len(b)),
        bounds=np.column_stack([least, most]),
        method="highs",
    )
    if solved.x is None:
        return None
    t, u, factor = solved.x[: len(cells)], solved.x[len(cells) : -1], solved.x[-1]
    found = np.zeros(allowed.size)
    found[cells] = np.where(t > POSITIVE, (t + u) / factor, 0.0)
    return found.reshape(shape)


def _proportional(shares: Array, group: Set, public: Mapping[Set, Array], rounds: int) -> Array:
    """Iterative proportional fitting of shares to public margins."""
    for _ in range(rounds):
        if not shares.sum() > 0:
            break
        shares = shares / shares.sum()
        missed = 0.0
        for one, wanted in public.items():
            gap = fit_margin(shares, group, one, wanted)
            missed = max(missed, float(np.abs(gap).max()))
        if missed <= FITTED:
            break
    return shares


def _missed(shares: Array, group: Set, public: Mapping[Set, Array]) -> float:
    apart = [float(np.abs(margin(shares, group, s) - t).max()) for s, t in public.items()]
    return max(apart, default=0.0) if shares.sum() > 0 else np.inf


def _groups(sets: Sequence[Set]) -> list[Set]:
    """Attributes of sets that hang together."""
    groups: list[set[int]] = []
    for one in sets:
        touching = [g for g in groups if g & set(one)]
        groups = [g for g in groups if not g & set(one)]
        groups.append(set(one).union(*touching))
    return sorted(tuple(sorted(group)) for group in groups)


def _require_agreement(names: Sequence[str], public: Mapping[Set, Array]) -> None:
    """Public tables agree on what they have in common, their totals at least."""
    for (one, left), (other, right) in combinations(public.items(), 2):
        common = tuple(i for i in one if i in other)
        apart = np.abs(margin(left, one, common) - margin(right, other, common)).max()
        if apart > AGREE * max(1.0, float(left.sum())):
            told = ["total" if not s else " × ".join(names[i] for i in s) for s in (one, other)]
            what = "totals" if not common else "margins of " + ", ".join(names[i] for i in common)
            raise DataError(
                f"the public tables {told[0]!r} and {told[1]!r} have {what} that differ by up to "
                f"{apart:,.6g}; public tables must agree"
            )
