"""Sums of tensor products over all placements on factors that may be exchanged, block by block.

On N tensor factors of L letters each (letter 0 is "not there"), with matrices H_f for kinds f, let

    O_κ = Σ over placements of κ_f copies of each H_f:   ⊗ H_f (where placed) ⊗ e₀e₀ᵀ (elsewhere).

O_κ commutes with every permutation of the factors, so by Schur–Weyl duality it falls into one block
for each Young diagram λ of N boxes, which occurs as often as λ has standard fillings. A block is
grown box by box: that of λ lies in (one more factor) ⊗ (that of λ less its last box), where

    J = Σ_{ll'} E_{ll'} ⊗ E_{l'l}     has the eigenvalue   column − row   of the added box.

Only states with few letters other than 0 are kept; J does not change their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import factorial, prod

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array

Placed = tuple[int, ...]
Diagram = tuple[int, ...]


class TooLarge(PlanError):
    """A block has more states than are worked out."""


@dataclass(frozen=True, eq=False)
class States:
    """The states of one diagram, in terms of those of one box less."""

    present: IntArray  # of each state: letters other than 0
    basis: Array  # new letter × state before × state
    before: States | None = None

    @cached_property
    def units(self) -> Array:
        """E_{ll'} summed over the factors: letters × letters × states × states."""
        letters, states = len(self.basis), len(self.present)
        if self.before is None:
            return np.zeros((letters, letters, states, states))
        new = np.einsum("isn,jsm->ijnm", self.basis, self.basis, optimize=True)
        old = np.tensordot(self.before.units, self.basis, axes=(3, 1))  # i j s l m
        return np.asarray(new + np.einsum("lsn,ijslm->ijnm", self.basis, old, optimize=True))

    def grown(self, content: int, most: int) -> States:
        """One more box: the eigenvectors of J that belong to it."""
        letters, states = len(self.basis), len(self.present)
        present = np.add.outer(np.arange(letters) > 0, self.present).ravel()
        # J[(l, s), (l', s')] = E_{l'l}[s, s']
        moves = self.units.transpose(1, 2, 0, 3).reshape(letters * states, -1)
        vectors, kept = [], []
        for count in range(most + 1):
            at = np.flatnonzero(present == count)
            values, found = np.linalg.eigh(moves[np.ix_(at, at)])
            chosen = found[:, np.abs(values - content) < 0.25]
            columns = np.zeros((letters * states, chosen.shape[1]))
            columns[at] = chosen
            vectors.append(columns)
            kept += [count] * chosen.shape[1]
        basis = np.concatenate(vectors, axis=1).reshape(letters, states, -1)
        return States(np.array(kept, dtype=np.int64), basis, self)


class Tower:
    """The states of all diagrams, grown when asked for; they do not depend on the matrices."""

    def __init__(self, letters: int, most: int, largest: int) -> None:
        self.letters, self.most, self.largest = letters, most, largest
        start = States(np.zeros(1, dtype=np.int64), np.zeros((letters, 1, 1)))
        self._known: dict[Diagram, States] = {(): start}

    def states(self, diagram: Diagram) -> States:
        """Refused where growing them takes matrices of more than the largest size allowed."""
        path = [diagram]
        while path[-1] not in self._known:
            path.append(_smaller(path[-1]))
        for larger in reversed(path[:-1]):
            before = self._known[_smaller(larger)]
            if self.letters * len(before.present) > self.largest and before.before is not None:
                raise TooLarge(f"blocks of more than {self.largest:,} states")
            self._known[larger] = before.grown(larger[-1] - len(larger), self.most)
        return self._known[diagram]


tower = lru_cache(maxsize=16)(Tower)


@dataclass(frozen=True, eq=False)
class Block:
    """O_κ on the states of one diagram, which occurs so often."""

    often: float
    present: IntArray
    sums: dict[Placed, Array]


class ExchangeableSums:
    """Blocks of O_κ for one set of matrices, made when asked for."""

    def __init__(self, matrices: list[Array], placed: set[Placed], largest: int) -> None:
        self.kinds = matrices
        self.placed = _below(placed)
        self.tower = tower(len(matrices[0]), max(map(sum, placed)), largest)
        self._sums: dict[Diagram, dict[Placed, Array]] = {
            (): {(0,) * len(matrices): np.ones((1, 1))}
        }

    def blocks(self, factors: int) -> list[Block]:
        """Every block of this number of factors."""
        return [
            Block(float(fillings(diagram)), states.present, self._on(diagram))
            for diagram in diagrams(factors, self.tower.most, self.tower.letters)
            if len((states := self.tower.states(diagram)).present)
        ]

    def _on(self, diagram: Diagram) -> dict[Placed, Array]:
        path = [diagram]
        while path[-1] not in self._sums:
            path.append(_smaller(path[-1]))
        for larger in reversed(path[:-1]):
            self._sums[larger] = self._grown(larger)
        return self._sums[diagram]

    def _grown(self, diagram: Diagram) -> dict[Placed, Array]:
        """What is on the new factor, times what is on the others."""
        basis, before = self.tower.states(diagram).basis, self._sums[_smaller(diagram)]
        letters, states, count = basis.shape
        flat = basis.reshape(letters * states, count)

        def between(new: Array, old: Array) -> Array:
            half = np.tensordot(new, np.tensordot(old, basis, axes=(1, 1)), axes=(1, 1))
            return np.asarray(flat.T @ half.reshape(letters * states, count))

        absent, sums = np.zeros((letters, letters)), {}
        absent[0, 0] = 1.0
        for placed in self.placed:
            parts = [(absent, placed)] + [
                (matrix, (*placed[:f], placed[f] - 1, *placed[f + 1 :]))
                for f, matrix in enumerate(self.kinds)
            ]
            found = [between(new, before[rest]) for new, rest in parts if rest in before]
            if found:
                sums[placed] = np.sum(found, axis=0)
        return sums


def diagrams(boxes: int, below: int, rows: int) -> Iterator[Diagram]:
    """Young diagrams with at most so many boxes below the first row, and so many rows."""

    def partitions(left: int, largest: int, places: int) -> Iterator[Diagram]:
        if left == 0:
            yield ()
        elif places:
            for first in range(min(left, largest), 0, -1):
                for rest in partitions(left - first, first, places - 1):
                    yield (first, *rest)

    if boxes == 0:
        yield ()
        return
    for under in range(min(below, boxes // 2 if rows == 2 else boxes - 1) + 1):
        for rest in partitions(under, boxes - under, rows - 1):
            yield (boxes - under, *rest)


def fillings(diagram: Diagram) -> int:
    """Standard fillings of a diagram, by its hooks.

    Examples
    --------
    >>> fillings((2, 1)), fillings((3, 2))
    (2, 5)
    """
    down = [sum(row > c for row in diagram) for c in range(diagram[0])] if diagram else []
    hooks = prod(row - c + down[c] - r - 1 for r, row in enumerate(diagram) for c in range(row))
    return factorial(sum(diagram)) // hooks


def _smaller(diagram: Diagram) -> Diagram:
    """Without the last box of the last row."""
    return diagram[:-1] if diagram[-1] == 1 else (*diagram[:-1], diagram[-1] - 1)


def _below(placed: set[Placed]) -> list[Placed]:
    """These and all that have no entry larger."""
    found, left = set(placed), list(placed)
    while left:
        one = left.pop()
        for f, count in enumerate(one):
            fewer = (*one[:f], count - 1, *one[f + 1 :])
            if count and fewer not in found:
                found.add(fewer)
                left.append(fewer)
    return sorted(found)
