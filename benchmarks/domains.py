"""The domains and workloads of the literature. Errors depend on sizes only, never on records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import noiseplan as nz

# Privacy cost 1: ½-zCDP, 1-GDP. All published figures are at this budget.
BUDGET: Final = nz.zCDP(0.5)
SMALL_CELLS: Final = 5000


@dataclass(frozen=True)
class Domain:
    """Attribute sizes; the first `numeric` attributes are ordered numbers."""

    name: str
    sizes: tuple[int, ...]
    numeric: int

    @cached_property
    def schema(self) -> nz.Schema:
        """Attributes a0, a1, …"""
        return nz.Schema.from_sizes({f"a{i}": size for i, size in enumerate(self.sizes)})

    def factors(self, factor: nz.Factor) -> dict[str, nz.Factor]:
        """The factor on every numeric attribute."""
        return dict.fromkeys(self.schema.names[: self.numeric], factor)

    def workload(self, ways: str, factor: nz.Factor | None = None) -> nz.Workload:
        """All tables of "3" or "≤3" attributes, or the "small" ones; `factor` where numeric."""
        if ways == "small":
            return nz.Workload([nz.Query(self.schema, names) for names in self._small()])
        factors = self.factors(factor) if factor else None
        if ways.startswith("≤"):
            most = min(int(ways[1:]), len(self.sizes))
            return nz.Workload.marginals(self.schema, up_to=most, factors=factors)
        return nz.Workload.marginals(self.schema, k=int(ways), factors=factors)

    def _small(self) -> Iterator[list[str]]:
        """Every table of at most 5000 cells, the total included."""

        def grow(start: int, names: list[str], cells: int) -> Iterator[list[str]]:
            yield names
            for i in range(start, len(self.sizes)):
                if cells * self.sizes[i] <= SMALL_CELLS:
                    grown = [*names, self.schema.names[i]]
                    yield from grow(i + 1, grown, cells * self.sizes[i])

        return grow(0, [], 1)


def synth(size: int, count: int) -> Domain:
    """`count` ordered attributes of `size` values."""
    return Domain(f"{size}^{count}", (size,) * count, count)


ADULT: Final = Domain("Adult", (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2), 5)
CPS: Final = Domain("CPS", (100, 50, 7, 4, 2), 2)
LOANS: Final = Domain("Loans", (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15), 4)
REAL: Final = (ADULT, CPS, LOANS)
