"""Valid tables beside the unbiased ones they were made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from noiseplan.engine import engine
from noiseplan.errors import QueryError, StorageError, remedy
from noiseplan.escaping import visible
from noiseplan.matrices.base import Array
from noiseplan.paths import new_path
from noiseplan.queries import Query
from noiseplan.queries.level_parts import level_parts
from noiseplan.queries.query import attribute_names
from noiseplan.release.answers import Columns, Tables
from noiseplan.schema import Schema
from noiseplan.storage.files import whole_folder, write_json
from noiseplan.storage.table_files import MARK, MOST_TABLES, table_stems, write_csv, write_parquet
from noiseplan.valid.family import Set, margin
from noiseplan.valid.unbiased_tables import (
    Table,
    Unbiased,
    is_by_level,
    is_plain,
    valid_beside,
)

# Tables named where some were filled in.
SHOWN = 6


@dataclass(frozen=True)
class Changes:
    """What making tables valid changed, against the unbiased ones.

    `mean_move` and `largest_move` are of cells, in standard errors; `largest_sum` is the most that
    a margin, or another sum that counts, moved in its own, beyond rising to zero; `evened` is the
    share of an even population that was mixed in so that no cell is negative; `apart` the most by
    which two tables differ on a common margin, relative to all records. `filled` are tables of
    which not every cell was told apart by what was measured; their moves are those of the
    workload's answers, and none of their cells counts among those that were `negative`. `solved`
    says whether these are the nearest tables; where the work was given up before, after `steps`,
    they still missed a margin or sums by `missed` records all together.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["age"], [7.0, -2.0, 4.0], 2.0)])
    >>> changes = release.valid().changes
    >>> changes.cells, changes.negative  # the total is a table too
    (4, 1)
    """

    tables: int
    cells: int
    negative: int
    mean_move: float
    largest_move: float
    largest_at: str
    evened: float
    apart: float
    steps: int
    seconds: float
    filled: tuple[str, ...] = ()
    largest_sum: float = 0.0
    largest_sum_at: str = ""
    solved: bool = True
    missed: float = 0.0

    @property
    def solved_in_words(self) -> str:
        """Whether the nearest tables were found, and what it means if not."""
        if self.solved:
            return "to the end: no other valid tables are nearer"
        return (
            f"not to the end, given up after {self.steps:,} steps: tables are valid and agree, but "
            f"others are nearer, and sums may have moved further than they need"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ValidTables(Tables):
    """Tables that could be true: no count negative, and any two agree on what they share.

    All together they are never further from the truth than the unbiased tables, in the measure of
    `valid_tables`, and much nearer where tables are sparse; a single table or cell may be further
    from it. They are biased, and have no standard errors of their own. The unbiased estimates with
    their exact standard errors and intervals stand beside them.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3})
    >>> release = nz.from_noisy_tables(schema, [nz.NoisyTable(["age"], [7.0, -2.0, 4.0], 2.0)])
    >>> valid = release.valid(total=10)
    >>> valid.values("age").round(6).tolist()
    [6.5, 0.0, 3.5]
    """

    source: Unbiased
    tables: Mapping[Set, Table]
    public: Mapping[Set, Array]
    integers: bool
    changes: Changes

    @property
    def schema(self) -> Schema:
        """The attributes that may be asked about."""
        return self.source.schema

    @property
    def origin(self) -> str:
        return self.source.origin

    @property
    def total(self) -> float:
        """The number of records they are tables of."""
        return float(self.tables[()])

    @property
    def names(self) -> list[tuple[str, ...]]:
        """The attributes of every table, the smallest first."""
        order = sorted(self.tables, key=lambda s: (len(s), s))
        return [self.source.names(one) for one in order]

    def values(self, *attributes: str) -> Table:
        """A table as an array, one axis per attribute in the order they are named."""
        attributes = tuple(attribute_names(attributes, self.schema))
        one = self.source.numbers(attributes)
        held = [s for s in self.tables if set(one) <= set(s)]
        if not held:
            raise QueryError(
                f"no valid table holds {list(attributes)}; make it with the others: "
                f"valid(tables=[{list(attributes)}, …])"
            )
        outer = min(held, key=lambda s: self.tables[s].size)
        table = margin(self.tables[outer], outer, one)  # type: ignore[arg-type]
        axes = [one.index(self.schema.index(name)) for name in attributes]
        return np.transpose(table, axes)

    def answer(self, query: Query | str) -> Table:
        """The answer to a query about the attributes of one table, from that table.

        A query of the workload may be given by its name.
        """
        asked = self.source.asked(query)
        table = np.asarray(self.values(*asked.attributes), dtype=np.float64)
        return asked.apply(table)

    def columns(self, *attributes: str, level: float = 0.95, simultaneous: bool = False) -> Columns:
        """The cells, valid, and the unbiased estimate, std_error, lower, upper.

        The interval is that of the unbiased estimate, and covers noise only. Where cells were
        filled in there is no unbiased estimate, and these are NaN.
        """
        attributes = tuple(attribute_names(attributes, self.schema))
        values = self.values(*attributes).ravel()
        answer = self.source.answer(self.source.numbers(attributes), level, simultaneous)
        return valid_beside(values, answer.columns(attributes))

    def left_out(self, tables: Iterable[Sequence[str]] | None = None) -> list[str]:
        """The workload's queries that are none of these tables, or of all, by their names.

        Conditions, ranges and groups have no table of their own; `answer` tells them where a valid
        table holds their attributes.
        """
        kept = self._numbers(tables)
        other = [
            query.name
            for one, queries in self.source.queries.items()
            for query in queries
            if one not in kept or not is_by_level(query)
        ]
        return [*other, *(query.name for query in self.source.finer)]

    def by_level(self, tables: Iterable[Sequence[str]] | None = None) -> list[Query]:
        """The workload's tables at levels of hierarchies that sum up these tables, or all.

        One query for each level; `answer` tells its valid counts, which agree with the table.

        Examples
        --------
        >>> import noiseplan as nz
        >>> geo = nz.Hierarchical({"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]})
        >>> schema = nz.Schema({"geo": geo})
        >>> asked = nz.Workload([nz.Query(schema, ["county"]), nz.Query(schema, ["tract"])])
        >>> release = nz.plan(asked, budget=nz.zCDP(0.5)).release({"geo": ["a1", "b1"]}, seed=1)
        >>> [query.name for query in release.valid().by_level()]
        ['county']
        """
        kept = self._numbers(tables)
        return [
            part.query
            for one, queries in self.source.queries.items()
            for query in queries
            if one in kept and is_by_level(query)
            for part in level_parts(query)
            if not is_plain(part.query)
        ]

    def _numbers(self, tables: Iterable[Sequence[str]] | None) -> set[Set]:
        named = self.names if tables is None else tables
        return {self.source.numbers(tuple(names)) for names in named}

    def plot(
        self, attribute: str, path: str | PathLike[str] | None = None, *, level: float = 0.95
    ) -> Any:
        """Draw the table of one attribute, unbiased with its intervals next to valid.

        Returns a picture for a notebook. With a `path` it is drawn to that file (.svg or .html),
        whose path is returned.
        """
        from noiseplan.draw.picture import shown
        from noiseplan.draw.table_svg import FEW, Along, Line, table_picture

        columns, kind = self.columns(attribute, level=level), self.schema[attribute]
        valid = self.values(attribute).astype(float).tolist()
        lines = [Line("valid", valid, valid, valid)]
        if self.source.determined(self.source.numbers(attribute)):
            ends = [np.asarray(columns[name]) for name in ("lower", "estimate", "upper")]
            lines.insert(0, Line("unbiased", *(numbers.tolist() for numbers in ends)))
        ordered = kind.ordered and len(valid) >= FEW
        along = Along.of(attribute, list(next(iter(columns.values()))), ordered)
        title = f"Records by {attribute}: unbiased, and valid"
        notes = [f"{100 * level:g} % intervals, noise only", *filter(None, [self.source.warning])]
        return shown(table_picture(title, along, lines, ordered, notes), path)

    draw = plot  # its former name

    def save(
        self, folder: str | PathLike[str], *, tables: Iterable[Sequence[str] | str] | None = None
    ) -> None:
        """Write the tables, or some, to a new folder as CSV and Parquet."""
        target = new_path(folder, StorageError)
        named = self.names if tables is None else tables
        chosen = [(one,) if isinstance(one, str) else tuple(one) for one in named]
        levels = self.by_level(chosen)
        if (many := len(chosen) + len(levels)) > MOST_TABLES:
            raise StorageError(
                f"{many:,} tables are too many files, above the limit of {MOST_TABLES:,}; choose "
                f"some: "
                + remedy(
                    "argument", "save(folder, tables=[('age', 'sex'), …])", '--table "age, sex"'
                )
            )
        with whole_folder(target) as part:
            self._write(part, chosen, levels)

    def _level_columns(self, query: Query) -> Columns:
        """As :meth:`columns`, of a query."""
        values = self.answer(query)
        counts = np.rint(values).astype(np.int64) if self.integers else values
        return valid_beside(counts, self.source.answered(query).columns())

    def _write(self, folder: Path, chosen: list[tuple[str, ...]], levels: list[Query]) -> None:
        titles = [" × ".join(names) or "total" for names in chosen]
        titles += [query.name for query in levels]
        stems = table_stems(titles)
        made = chain((self.columns(*names) for names in chosen), map(self._level_columns, levels))
        with engine() as connection:
            for stem, columns in zip(stems, made, strict=True):
                write_csv(folder / f"{stem}.csv", columns)
                write_parquet(folder / f"{stem}.parquet", columns, connection)
        write_csv(folder / "index.csv", {"file": stems, "table": titles})
        if self.source.warning:
            (folder / MARK).write_text(f"{self.source.warning}\n", encoding="utf-8")
        told = {
            "integers": self.integers,
            "biased": True,
            "total": self.total,
            "public": [list(self.source.names(one)) for one in self.public],
            "left_out": self.left_out(chosen),
            "solved_in_words": self.changes.solved_in_words,
            **({"warning": self.source.warning} if self.source.warning else {}),
        }
        write_json(folder / "changes.json", asdict(self.changes) | told)

    def __repr__(self) -> str:
        kind = "whole numbers" if self.integers else "numbers"
        return f"ValidTables({self.changes.tables:,} tables, {self.changes.cells:,} {kind})"

    def __str__(self) -> str:
        told = self.changes
        lines = [
            f"Valid tables: {told.tables:,} of {self.total:,.0f} records, {told.cells:,} cells",
            f"  negative    {told.negative:,} cells were negative "
            f"({told.negative / max(told.cells, 1):.1%}), none is now",
            f"  moved       {told.mean_move:.2g} standard errors in the mean of all cells, at most "
            f"{told.largest_move:.2g} ({told.largest_at})",
            *self._moved_sums(),
            f"  agree       {self.agreement}",
            f"  solved      {told.solved_in_words}",
        ]
        if self.public:
            lines.append(f"  public      {', '.join(map(self.source.title, self.public))}")
        if told.filled:
            named = ", ".join(told.filled[:SHOWN]) + (", …" if len(told.filled) > SHOWN else "")
            lines.append(f"  filled in   {named}: not every cell was told apart")
            lines.append("              by the workload; moves are those of its answers")
        if told.evened >= 5e-5:
            lines.append(f"  evened out  {told.evened:.2%} of all records")
        if self.integers:
            lines.append("  rounded     to whole numbers")
        lines.append("  biased      intervals are those of the unbiased estimates beside them")
        if self.source.warning:
            lines.append(f"  warning     {self.source.warning}")
        return visible("\n".join(lines))

    def _moved_sums(self) -> list[str]:
        told = self.changes
        if not told.largest_sum_at:
            return []
        return [
            f"  sums        margins and sums asked for by at most {told.largest_sum:.2g} of their "
            f"own ({told.largest_sum_at})"
        ]

    @property
    def agreement(self) -> str:
        """Which tables agree, and how well."""
        told = self.changes
        if self.integers and any(len(s) > 2 for s in self.tables):
            return (
                f"tables of up to two attributes; wider ones are rounded each for itself, and miss "
                f"margins by at most {told.apart * max(self.total, 1.0):,.0f}"
            )
        return f"on every common margin, to {max(told.apart, 1e-16):.0e} of all records"
