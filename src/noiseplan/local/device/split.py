"""The device's side of a split: draw a table, then report on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.local.device.counting_randomizers import Numbered, check_shares
from noiseplan.local.device.drawing import chances
from noiseplan.local.device.integers import rounded_shares
from noiseplan.local.device.randomizer import SPLIT, Reports, Stored, read_randomizer
from noiseplan.local.device.wire import ReportError
from noiseplan.noise.randomness import Source, SystemSource

if TYPE_CHECKING:
    from noiseplan.local.splitplan import SplitPlan


@final
@dataclass(frozen=True, eq=False, repr=False)
class SplitRandomizer(Numbered):
    """One of several randomizers, drawn with public chances; reports are numbered through."""

    kind = SPLIT
    tables: tuple[Numbered, ...]
    shares: IntArray  # of sum 2⁶²

    def __post_init__(self) -> None:
        # The domain as a whole has no list of types: it may be of any size.
        self._check()

    def _check(self) -> None:
        check_shares(self.shares, len(self.tables))
        if self.cells is not None:
            raise ReportError("the types of a split are those of its tables, not of all cells")
        for table in self.tables:
            for name in table.schema.names:
                if name not in self.schema or table.schema[name] != self.schema[name]:
                    raise ReportError(
                        f"a table of the split has {name!r} with other values than the whole; "
                        f"attributes are those of {list(self.schema.names)}"
                    )

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
        return self._draw(self.codes_of(values), source or SystemSource())

    def _draw(self, codes: Mapping[str, IntArray], source: Source) -> Reports:
        count = len(next(iter(codes.values())))
        which = np.searchsorted(np.cumsum(self.shares), chances(source, count), side="right")
        reports = np.empty(count, dtype=np.int64)
        for j, table in enumerate(self.tables):
            mine = np.flatnonzero(which == j)
            types = table.types_from({name: codes[name][mine] for name in table.schema.names})
            reports[mine] = table.draw(types, source) + self._starts[j]
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
    def _rebuilt(cls, stored: Stored) -> SplitRandomizer:
        tables = []
        for j in range(int(stored.facts["tables"])):
            file = stored.arrays[f"table_{j}"].tobytes()
            table = read_randomizer(file, stored.room, in_split=True)
            if not isinstance(table, Numbered):
                raise ReportError(f"table {j} of a split has reports without numbers")
            tables.append(table)
        return cls(stored.schema, stored.cells, tuple(tables), stored.arrays["shares"])


def make_split_randomizer(plan: SplitPlan) -> SplitRandomizer:
    """The randomizers of all tables, with their shares as integers."""
    from noiseplan.local.device.strategy_integers import make_randomizer

    tables = []
    for part in plan.parts:
        made = make_randomizer(part.reconstruction.types, part.reconstruction.strategy)
        assert isinstance(made, Numbered)
        tables.append(made)
    shares = rounded_shares(np.array([part.share for part in plan.parts]))
    return SplitRandomizer(plan.workload.schema, None, tuple(tables), shares)
