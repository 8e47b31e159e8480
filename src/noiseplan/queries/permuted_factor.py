"""A factor over the values of an attribute in another order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import final

from noiseplan.errors import QueryError
from noiseplan.matrices import Matrix, PermutedMatrix
from noiseplan.queries.factors import Factor
from noiseplan.schema import Attribute


@final
@dataclass(frozen=True)
class Permuted(Factor):
    """What `factor` asks, as if the values came in the order `order`, given by their codes.

    Examples
    --------
    >>> from noiseplan.queries import Prefix
    >>> from noiseplan.schema import Ordinal
    >>> Permuted(Prefix(), (2, 0, 1)).matrix(Ordinal(range(3))).dense().astype(int).tolist()
    [[0, 0, 1], [1, 0, 1], [1, 1, 1]]
    """

    factor: Factor
    order: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"permuted {self.factor.label}".rstrip()

    def matrix(self, attribute: Attribute) -> Matrix:
        return PermutedMatrix(self.factor.matrix(attribute), self.order)

    def row_labels(self, attribute: Attribute) -> Sequence[Hashable]:
        return [f"row {i}" for i in range(self.factor.matrix(attribute).shape[0])]

    def check(self, name: str, attribute: Attribute) -> None:
        self.factor.check(name, attribute)
        if sorted(self.order) != list(range(attribute.size)):
            raise QueryError(
                f"the order of the values of {name!r} names each code from 0 to "
                f"{attribute.size - 1} once, found {len(self.order)} numbers"
            )
