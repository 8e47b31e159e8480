"""The device's side of a split: draw a table, then report on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.local.devices import Numbered
from noiseplan.local.drawing import chances
from noiseplan.local.integers import WHOLE, rounded_shares
from noiseplan.local.randomizer import Reports, randomizer_from_bytes
from noiseplan.local.wire import ReportError
from noiseplan.noise.randomness import Source, SystemSource
from noiseplan.schema import Schema

if TYPE_CHECKING:
    from noiseplan.local.splitplan import SplitPlan


@final
@dataclass(frozen=True, eq=False, repr=False)
class SplitRandomizer(Numbered):
    """One of several randomizers, drawn with public chances; reports are numbered through."""

    kind = "split"
    schema: Schema
    cells: IntArray | None
    tables: tuple[Numbered, ...]
    shares: IntArray  # of sum 2⁶²

    def __post_init__(self) -> None:
        if int(self.shares.sum()) != WHOLE or len(self.shares) != len(self.tables):
            raise ReportError("a split has one share per table, of sum 2^62")

    @property
    def types(self) -> int:
        return self.schema.size

    @cached_property
    def _starts(self) -> IntArray:
        return np.concatenate([[0], np.cumsum([table.outputs for table in self.tables])])

    @property
    def outputs(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def epsilon(self) -> float:
        """Which table it is tells nothing, so the largest ε of the tables."""
        return max(table.epsilon for table in self.tables)

    def draw(self, types: IntArray, source: Source) -> Reports:
        axes = np.unravel_index(types, self.schema.shape)
        columns = dict(zip(self.schema.names, axes, strict=True))
        return self._draw(columns, source)

    def reports(self, values: Any, *, source: Source | None = None) -> Reports:
        if not isinstance(values, Mapping):
            raise ReportError(f"values map each of {list(self.schema.names)} to a column of values")
        codes = {name: self._codes(name, values) for name in self.schema.names}
        return self._draw(codes, source or SystemSource())

    def _codes(self, name: str, values: Mapping[str, Any]) -> IntArray:
        if name not in values:
            raise ReportError(f"no values of {name!r}; a report needs {list(self.schema.names)}")
        codes = self.schema[name].encode(values[name])
        if (codes < 0).any():
            raise ReportError(
                f"{int((codes < 0).sum())} of {codes.size} values of {name!r} are not in its "
                f"domain ({self.schema[name].describe()}); nothing was reported"
            )
        return codes

    def _draw(self, codes: Mapping[str, IntArray], source: Source) -> Reports:
        count = len(next(iter(codes.values())))
        which = np.searchsorted(np.cumsum(self.shares), chances(source, count), side="right")
        reports = np.empty(count, dtype=np.int64)
        for j, table in enumerate(self.tables):
            mine = np.flatnonzero(which == j)
            cell = np.zeros(len(mine), dtype=np.int64)
            for name in table.schema.names:
                cell = cell * table.schema[name].size + codes[name][mine]
            kinds = cell if table.cells is None else table.cells[cell]
            reports[mine] = table.draw(kinds, source) + self._starts[j]
        return reports

    def tally(self, reports: Reports) -> IntArray:
        return self._counted(reports)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        files = {
            f"table_{j}": np.frombuffer(table.to_bytes(), np.uint8)
            for j, table in enumerate(self.tables)
        }
        return {"shares": self.shares, **files}

    def _facts(self) -> dict[str, Any]:
        return {"tables": len(self.tables)}

    @classmethod
    def _rebuilt(
        cls,
        schema: Schema,
        cells: IntArray | None,
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> SplitRandomizer:
        tables = []
        for j in range(int(facts["tables"])):
            table = randomizer_from_bytes(arrays[f"table_{j}"].tobytes())
            if not isinstance(table, Numbered):
                raise ReportError(f"table {j} of a split has reports without numbers")
            tables.append(table)
        return cls(schema, cells, tuple(tables), arrays["shares"])


def make_split_randomizer(plan: SplitPlan) -> SplitRandomizer:
    """The randomizers of all tables, with their shares as integers."""
    from noiseplan.local.making import make_randomizer

    tables = []
    for part in plan.parts:
        made = make_randomizer(part.reconstruction.types, part.reconstruction.strategy)
        assert isinstance(made, Numbered)
        tables.append(made)
    shares = rounded_shares(np.array([part.share for part in plan.parts]))
    return SplitRandomizer(plan.workload.schema, None, tuple(tables), shares)
