"""Several levels of one attribute in a question: `county=01001, tract`, the tracts of a county."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.queries.factors import Custom, Factor, Identity, Total
from noiseplan.queries.named_levels import Level
from noiseplan.schema import Hierarchical
from noiseplan.schema.nested_columns import PATH

# What is said of a row, part by part, and its weights on the leaves.
_Row = tuple[tuple[str, ...], Array]


@dataclass(frozen=True)
class AskedLevel:
    """What a question asks of one level: how the part was written, the level, and its factor."""

    written: str
    level: str
    factor: Factor

    @property
    def plain(self) -> bool:
        """Whether every group is asked for."""
        return isinstance(self.factor, Level | Identity)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels whose groups are asked for, where all of them are."""
        return self.factor.levels if isinstance(self.factor, Level) else (self.level,)


def within(parts: Sequence[AskedLevel], attribute: Hierarchical) -> Factor:
    """The rows that lie in a row of every part: those of the finer levels within the coarser ones.

    Examples
    --------
    >>> geo = Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]})
    >>> county = Custom([[1, 1, 0]], "county=a", ["county a"])
    >>> found = within([AskedLevel("tract", "tract", Level("tract")),
    ...                 AskedLevel("county=a", "county", county)], geo)
    >>> found.row_labels(geo), found.matrix(geo).dense().tolist()
    (('a1', 'a2'), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    """
    ordered = sorted(parts, key=lambda part: -attribute.level_index(part.level))
    told = [part for part in ordered if not isinstance(part.factor, Total)]
    if not told:
        return parts[0].factor
    if all(part.plain and len(part.levels) == 1 for part in told):
        return told[-1].factor  # each of its groups lies in one of every coarser level
    name = ", ".join(part.written for part in ordered)
    chosen = [part for part in told if not part.plain] + [part for part in told if part.plain]
    rows: list[_Row] = [((), np.ones(attribute.size))]
    for part in chosen:
        rows = list(_written_down(rows, part, attribute, name))
    if not rows:
        raise QueryError(f"{name}: no value lies in all of these, so there is nothing to count")
    return Custom(np.array([mask for _, mask in rows]), name, _labels([said for said, _ in rows]))


def _written_down(
    rows: list[_Row], part: AskedLevel, attribute: Hierarchical, name: str
) -> Iterator[_Row]:
    """What is left of all rows within each row of a part, unless that is too much."""
    most = DENSE_LIMIT // attribute.size
    for number, piece in enumerate(
        piece for row in rows for piece in _pieces(row, part, attribute)
    ):
        if number >= most:
            raise QueryError(
                f"{name}: more than {most:,} rows over {attribute.size:,} values, which are too "
                f"many to choose; ask for the whole level, {part.level}, or for fewer groups"
            )
        yield piece


def _pieces(row: _Row, part: AskedLevel, attribute: Hierarchical) -> Iterator[_Row]:
    """What is left of a row within each row of a part."""
    said, mask = row
    if not part.plain:
        labels = part.factor.row_labels(attribute)
        for label, own in zip(labels, part.factor.matrix(attribute).dense(), strict=True):
            if (mask * own).any():
                yield (*said, str(label)), mask * own
        return
    for level in part.levels:
        group, labels = attribute.group_of(level), attribute.level_labels(level)
        several = len(part.levels) > 1
        for number in np.unique(group[mask != 0]).tolist():
            label = f"{level} {labels[number]}" if several else str(labels[number])
            yield (*said, label), mask * (group == number)


def _labels(said: Sequence[tuple[str, ...]]) -> list[str]:
    """The labels of the rows; what all of them have in common is said by the question itself."""
    columns = list(zip(*said, strict=True))
    telling = [column for column in columns if len(set(column)) > 1] or columns[-1:]
    return [PATH.join(parts) for parts in zip(*telling, strict=True)]
