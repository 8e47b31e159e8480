"""Which tables may be measured, by type, and what each tells of every residual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb, prod

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.laplace_allocation import Law, Loss, Spending, best_spending
from noiseplan.planning.attribute_strategies import RoleStrategy, bases_of
from noiseplan.planning.solve import type_matrix
from noiseplan.planning.workload_types import Design

# Tables larger than any that is asked for are tried where all types of tables are no more than so
# many; of those, the ones with few cells, each and all of a type together.
MOST_TYPES = 1 << 15
MOST_CELLS = 1 << 14
MOST_NUMBERS = 1 << 24


@dataclass(frozen=True, eq=False)
class TableTypes:
    """Types of tables: their attributes' roles, how many there are, their L1 norms, what they tell.

    `strategies` say how attributes of each role are measured.

    `told[a, m] · Σ over tables of type m of 1/v` is the precision of a residual of type a from all
    tables of type m with noise variance v. `difference` marks types that measure attributes of two
    values by their difference alone.
    """

    design: Design
    strategies: dict[int, RoleStrategy]
    roles: IntArray  # types × slots, padded with −1
    difference: np.ndarray
    tables: tuple[int, ...]
    norms: tuple[Fraction, ...]
    told: sp.csr_array

    @property
    def price(self) -> Array:
        """ε of all tables of a type at noise scale one."""
        return np.array([float(n * q) for n, q in zip(self.tables, self.norms, strict=True)])

    def law(self, epsilon: float, exact: bool) -> Law:
        """Noise within ε; of integers if it is `exact`."""
        scaled = [r for r, s in self.strategies.items() if not s.counts]
        counts = np.asarray(exact & ~np.isin(self.roles, scaled).any(axis=1))
        return Law(epsilon, counts)

    def spend(self, loss: Loss, law: Law, start: Array | None = None) -> Spending:
        """How ε is shared among them, for the least loss: from several starts, or from one."""
        starts = (start,) if start is not None else (self.asked_alone(),)
        return best_spending(loss, self.told, self.price, law, starts, others=start is None)

    def asked_alone(self) -> Array:
        """Shares of ε where the tables that are asked for are measured, and nothing else.

        With v the weighted variance of what is asked of a table at b = 1, they are (p²v)^{1/3}.
        """
        design, count = self.design, len(self.tables)
        rows, terms = type_matrix(design, bases_of(self.strategies)), design.terms
        slots = (terms.subset_roles >= 0).sum(axis=1)
        order = np.argsort(slots[terms.subset], kind="stable")
        whole = np.zeros(terms.queries, dtype=np.int64)
        whole[terms.query[order]] = terms.subset[order]  # the last is the largest set of each
        heard = self.told[:, whole].T.tocsr()
        heard.data = 1.0 / heard.data
        alone = np.asarray(rows.multiply(heard).sum(axis=1)).ravel() * design.type_weight
        variance = np.bincount(whole, alone, minlength=count)
        roots = np.cbrt(self.price**2 * variance)
        return np.asarray(roots / roots.sum())


def variances(design: Design, strategies: dict[int, RoleStrategy]) -> Array:
    """V of every residual type: what its variance counts in the total."""
    return np.asarray(design.type_weight @ type_matrix(design, bases_of(strategies)))


def find_table_types(
    design: Design,
    strategies: dict[int, RoleStrategy],
    larger: Iterable[tuple[int, ...]] | None = None,
) -> TableTypes:
    """Every set of attributes that is needed, and larger ones: as given, or while they are few."""
    sets = design.terms.subset_roles
    needed = {tuple(sorted(row[row >= 0].tolist())): a for a, row in enumerate(sets)}
    halved = {r for r, s in strategies.items() if s.difference is not None}
    if larger is None:
        larger = _larger(design, strategies, needed)
    chosen = [(key, False) for key in [*needed, *(key for key in larger if key not in needed)]]
    chosen += [(key, True) for key in needed if halved & set(key)]
    entries: list[tuple[int, int, float]] = []
    for column, (key, difference) in enumerate(chosen):
        fixed = halved if difference else set()
        entries += [(a, column, c) for a, c in _tells(design, strategies, key, fixed, needed)]
    rows, columns, values = map(np.array, zip(*entries, strict=True))
    slots = max((len(key) for key, _ in chosen), default=0)
    padded = [[*key, *[-1] * (slots - len(key))] for key, _ in chosen]
    return TableTypes(
        design,
        strategies,
        np.array(padded, dtype=np.int64).reshape(len(chosen), slots),
        np.array([difference for _, difference in chosen]),
        tuple(_count(design, key) for key, _ in chosen),
        tuple(_norm(key, halved if d else set(), strategies) for key, d in chosen),
        sp.csr_array((values, (rows, columns)), shape=(len(needed), len(chosen))),
    )


def _members(design: Design, role: int) -> int:
    return len(design.roles.roles[role].members)


def _count(design: Design, key: tuple[int, ...]) -> int:
    return prod(comb(_members(design, r), k) for r, k in Counter(key).items())


def _norm(key: tuple[int, ...], halved: set[int], strategies: dict[int, RoleStrategy]) -> Fraction:
    """∏ of the L1 norms; that of a difference is one."""
    return prod((strategies[r].norm for r in key if r not in halved), start=Fraction(1))


def _larger(
    design: Design, strategies: dict[int, RoleStrategy], needed: dict[tuple[int, ...], int]
) -> Iterator[tuple[int, ...]]:
    """Types of tables that nobody asks for, which may tell several that are asked for at once."""
    used = sorted({r for key in needed for r in key})
    whole = tuple(r for r in used for _ in range(_members(design, r)))
    if whole not in needed and prod(strategies[r].view.rows for r in whole) <= MOST_NUMBERS:
        yield whole
    if prod(_members(design, r) + 1 for r in used) > MOST_TYPES:
        return
    for powers in product(*(range(_members(design, r) + 1) for r in used)):
        key = tuple(r for r, k in zip(used, powers, strict=True) for _ in range(k))
        cells = prod(strategies[r].view.rows for r in key)
        few = cells <= MOST_CELLS and cells * _count(design, key) <= MOST_NUMBERS
        if few and key not in needed and key != whole:
            yield key


def _tells(
    design: Design,
    strategies: dict[int, RoleStrategy],
    key: tuple[int, ...],
    fixed: set[int],
    needed: dict[tuple[int, ...], int],
) -> Iterator[tuple[int, float]]:
    """The residual types inside a table type, each with its precision in units of 1/v.

    A residual with a_r of its attributes in role r lies in C(N_r − a_r, k_r − a_r) tables with k_r
    of them; summing the others out multiplies the variance by 1/c each.
    """
    often = Counter(key)
    for a, powers in _inside(often, fixed, needed):
        precision = 1.0
        for r, k in often.items():
            left = k - powers[r]
            view = strategies[r].difference if r in fixed else strategies[r].view
            assert view is not None  # fixed roles have one
            precision *= comb(_members(design, r) - powers[r], left) / view.residual ** powers[r]
            if left:
                assert view.total is not None  # only fixed roles have none, and they leave nothing
                precision /= view.total**left
        yield a, precision


def _inside(
    often: Counter[int], fixed: set[int], needed: dict[tuple[int, ...], int]
) -> Iterator[tuple[int, dict[int, int]]]:
    """The residual types inside a table type, and how many attributes of each role they have."""
    if prod(k + 1 for k in often.values()) > len(needed):  # a large table: fewer are needed
        for residual, a in needed.items():
            powers = {r: residual.count(r) for r in often}
            inside = sum(powers.values()) == len(residual)
            whole = all(powers[r] == often[r] for r in fixed & set(often))
            if inside and whole and all(powers[r] <= k for r, k in often.items()):
                yield a, powers
        return
    ranges = [range(k if r in fixed else 0, k + 1) for r, k in often.items()]
    for each in product(*ranges):
        powers = dict(zip(often, each, strict=True))
        place = needed.get(tuple(sorted(r for r, j in powers.items() for _ in range(j))))
        if place is not None:
            yield place, powers
