"""From an unbiased release to valid tables: what is asked and known, the solution, what changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseplan.errors import DataError, NoiseplanError, PlanError, remedy
from noiseplan.matrices.base import Array
from noiseplan.planning.threads import one_thread_below
from noiseplan.progress import progress
from noiseplan.schema import Schema
from noiseplan.valid.asked_sums import Sums, asked_sums
from noiseplan.valid.even_population import Anchor, Mask, make_anchor
from noiseplan.valid.family import NAMED_TABLES, Set, TableFamily, centred, margin
from noiseplan.valid.filling import AskedRows, Solved, filled_in
from noiseplan.valid.result import Changes, ValidTables
from noiseplan.valid.settle import settle
from noiseplan.valid.solver import Dual, Effort, NearestTables, maximise
from noiseplan.valid.unbiased_tables import NamedTables, Table, Unbiased, deviations
from noiseplan.valid.whole_numbers import whole_tables
from noiseplan.words.hints import quoted

if TYPE_CHECKING:
    from noiseplan.local.server.aggregator import Aggregator
    from noiseplan.release.release import Release

Named = Mapping[Sequence[str] | str, ArrayLike]

VALID_COMMAND = "noiseplan valid RELEASE -o FOLDER"
MOST_ASKED = 200_000_000
# Tables of so many cells may miss each other's margins by this share of all records before they
# are settled, and take so many steps; smaller problems are cheap and solved further.
LARGE = 10_000_000
TOLERANCE = 5e-5
FINEST = 1e-10
# Moves that differ by less are the same: the first of them is named.
ROUNDING = 1e-9
STEPS, MOST_STEPS = 800, 3000


@one_thread_below(1, 0)  # tables have threads of their own, which those of BLAS wait for
def valid_tables(
    release: Release | Aggregator,
    *,
    tables: NamedTables | None = None,
    total: float | None = None,
    public: Named | None = None,
    impossible: Named | None = None,
    integers: bool = False,
    schema: Schema | None = None,
) -> ValidTables:
    """Tables without negative counts that agree with each other, near the unbiased ones.

    Among all such tables, those at the least distance: every table and margin counts by its squared
    distance over the sum of its variances, times √T where it is a margin of T of the largest
    tables; and so do levels, ranges, conditions and whatever else the workload sums up. Measured
    like this, all together, the error is never larger than that of the unbiased tables, whatever
    the data. It is far smaller in sparse tables; sums that count stay within their noise.

    Parameters
    ----------
    release
        A release of any plan, or the aggregator of local reports.
    tables
        The attributes of each table; those of the workload unless given. Margins come with them.
        A level named instead of its attribute, or a query of the workload by its name, makes a
        table of groups: its cells are the counties, or the bands of ages, and nothing finer.
    total
        The number of records, where it is public.
    public
        Tables known without noise: attributes → counts, axes in the order the attributes are named.
    impossible
        Cells that no record can be in: attributes → an array that is true there.
    integers
        Whole numbers: tables of up to two attributes agree; wider ones are rounded each for itself.
    schema
        Of an aggregator's plan, where it has more attributes than its file says.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 3, "sex": 2})
    >>> release = nz.from_noisy_tables(schema, [
    ...     nz.NoisyTable(["age", "sex"], [[9, 7], [4, -2], [1, 0]], variance=2.0),
    ... ])
    >>> valid = valid_tables(release, total=20)
    >>> valid.values("age", "sex").round(2).tolist()
    [[9.55, 6.18], [3.14, 0.0], [1.14, 0.0]]
    """
    started = time.perf_counter()
    source, named = Unbiased.of(release, schema).grouped(tables)
    asked = source.sets(named)
    known = _public_tables(source, total, public, integers)
    closed = _impossible_cells(source, impossible)
    if not known and any(mask.all() for mask in closed.values()):
        known[()] = np.array(0.0)  # nobody can be anywhere
    unknown = [one for one in asked if _margin_of(known, one) is None]
    family = TableFamily.of(source.schema.shape, unknown, known)
    _require_room(family)
    for one in closed:
        if not any(set(one) <= set(s) for s in (*asked, *known)):
            raise DataError(
                f"impossible cells of {list(source.names(one))} belong to no table "
                f"that is asked for; add it: tables=[…]"
            )
    variances = {s: float(source.variance(s).sum()) for s in family.every}
    exact = [s for s, v in variances.items() if v <= 0 and _margin_of(known, s) is None]
    known = known | {s: source.estimate(s) for s in exact}
    anchor = make_anchor(source.schema.shape, source.schema.names, known, closed)
    noisy = [s for s in family.every if _margin_of(known, s) is None]
    filled = {s: AskedRows.of(source, s) for s in noisy if not source.determined(s)}
    sums = [s for s in asked_sums(source, family) if _margin_of(known, s.inside) is None]
    told = {**variances, **{s: rows.variance for s, rows in filled.items()}}
    given = _margins_of(known, family.margins)
    setting = _Setting(family, given, anchor, told, sums)
    most = setting.most_steps * (2 if filled else 1)
    with progress("making tables valid", most) as advance:
        effort = Effort(0.0, most, advance)
        solved = _solved(source, setting, filled, effort)
    found = solved.tables | _margins_of(known, asked)
    kept: Mapping[Set, Table] = found
    if integers:
        kept = whole_tables(found, round(float(found[()])), anchor.possible)
    apart = _apart(family, kept)
    spent = time.perf_counter() - started
    changes = _changes(source, kept, list(filled), solved, apart, spent)
    margins = [s for s in family.margins if s in noisy and s not in filled]
    moved, where = _largest_sum(source, kept, margins, sums)
    changes = replace(
        changes,
        largest_sum=moved,
        largest_sum_at=where,
        steps=most - effort.left,
        solved=solved.done,
        missed=effort.missed,
    )
    return ValidTables(source, kept, known, integers, changes)


def valid_command(release: Release) -> str:
    """The command that makes valid tables of a saved release: all, or some where it must be some.

    Nothing where it makes none.
    """
    if _can_be_made(release):
        return VALID_COMMAND
    try:
        together, apart = Unbiased.of(release).held()
    except PlanError:  # a data-aware release
        return ""
    options: list[Sequence[str | list[str]]] = [together, *([name] for name in apart)]
    for named in options:
        tables = [name if isinstance(name, str) else ", ".join(name) for name in named]
        if tables and _can_be_made(release, tables):
            return " ".join([VALID_COMMAND, *(f"--table {quoted(name)}" for name in tables)])
    return ""


def _can_be_made(release: Release, tables: list[str] | None = None) -> bool:
    """Whether tables of a release are not refused before the work begins."""
    try:
        source, named = Unbiased.of(release).grouped(tables)
        _require_room(TableFamily.of(source.schema.shape, source.sets(named)))
    except NoiseplanError:
        return False
    return True


def _margin_of(known: Mapping[Set, Array], one: Set) -> Array | None:
    """The table of a set that is known, as the margin of another or itself; None if it is not."""
    outer = next((s for s in known if set(one) <= set(s)), None)
    return None if outer is None else margin(known[outer], outer, one)


def _margins_of(known: Mapping[Set, Array], sets: Iterable[Set]) -> dict[Set, Array]:
    return {s: table for s in sets if (table := _margin_of(known, s)) is not None}


@dataclass(frozen=True, eq=False)
class _Setting:
    """What the tables are, what is known of them, and how much everything counts."""

    family: TableFamily
    given: Mapping[Set, Array]  # margins that are known
    anchor: Anchor
    variances: Mapping[Set, float]  # of all cells together
    sums: Sequence[Sums]

    def nearest(self, effort: Effort, estimates: Mapping[Set, Array]) -> Solved:
        """The valid tables nearest to some estimates, and to the sums."""
        dual = Dual(self._problem(estimates))
        effort.tolerance = self._tolerance(float(dual.problem.centre[()]))
        try:
            multipliers = maximise(dual, effort)
            tables = {s: dual.table(multipliers, s) for s in self.family.tables}
        finally:
            dual.close()
        total = float(self.given[()]) if () in self.given else None
        return Solved(*settle(self.family, tables, self.given, self.anchor, total), effort.done)

    def _problem(self, estimates: Mapping[Set, Array]) -> NearestTables:
        family = self.family
        return NearestTables(
            family,
            estimates=estimates,
            weights={s: family.pull(s) / v if v > 0 else 1.0 for s, v in self.variances.items()},
            fixed={s: centred(table) for s, table in self.given.items()},
            possible={s: m for s in family.tables if (m := self.anchor.possible(s)) is not None},
            sums=self.sums,
        )

    @property
    def _size(self) -> float:
        return max(sum(map(self.family.cells, self.family.tables)), 1) / LARGE

    @property
    def most_steps(self) -> int:
        """Of one problem."""
        return int(min(max(STEPS / np.sqrt(self._size), STEPS), MOST_STEPS))

    def _tolerance(self, records: float) -> float:
        """How many records margins may miss."""
        # Where the total may be nothing, what noise makes of it is the measure.
        scale = max(records, float(np.sqrt(self.variances[()])), 1e-300)
        return max(TOLERANCE * min(self._size, 1.0), FINEST) * scale


def _solved(
    source: Unbiased, setting: _Setting, filled: Mapping[Set, AskedRows], effort: Effort
) -> Solved:
    """The nearest valid tables."""
    family, given = setting.family, setting.given
    estimates = {s: given[s] if s in given else source.estimate(s) for s in family.every}
    if not family.tables:  # the total alone
        return Solved({(): np.maximum(estimates[()], 0.0)}, 0.0, True)
    return filled_in(estimates, filled, setting.variances, partial(setting.nearest, effort))


def _require_room(family: TableFamily) -> None:
    cells = sum(map(family.cells, family.tables))
    if cells > MOST_ASKED:
        raise PlanError(
            f"these tables have {cells:,} cells together; the limit is {MOST_ASKED:,}. Name some "
            f"of them: " + NAMED_TABLES
        )


def _public_tables(
    source: Unbiased, total: float | None, public: Named | None, integers: bool
) -> dict[Set, Array]:
    """What is public, by attribute numbers, each table with its axes in the schema's order."""
    known: dict[Set, Array] = {}
    if total is not None:
        known[()] = np.array(checked_total(total))
        _require_own_total(source, float(total))
    for names, counts in _mapping("public", public).items():
        one, table = _in_order(source, names, counts, "the public table")
        counts_in_order = table.astype(np.float64)
        if not np.isfinite(counts_in_order).all() or (counts_in_order < 0).any():
            raise DataError(f"the public table of {_list(names)} holds counts, none negative")
        if one in known and (known[one] != counts_in_order).any():
            what = f"table of {_list(names)}" if one else "total"
            raise DataError(
                f"the public {what} was given twice, with different counts: once is enough"
            )
        known[one] = counts_in_order
    if integers and any((table != np.round(table)).any() for table in known.values()):
        whole = remedy("argument", "integers=True", "--integers")
        raise DataError(whole + " needs public tables and a total in whole numbers")
    return known


def _require_own_total(source: Unbiased, total: float) -> None:
    """Refuse another total than the one that the release tells without noise."""
    if source.plan is None or source.plan.privacy.neighbours != "replace":
        return
    told, noise = float(source.estimate(())), float(source.variance(()))
    if noise == 0 and abs(told - total) > 0.5:
        raise DataError(f"the release itself tells the total, {told:,.0f}, and not {total:,.6g}")


def checked_total(total: float) -> float:
    """A number of records."""
    plain = isinstance(total, int | float | np.integer | np.floating)
    if isinstance(total, bool) or not plain or not isfinite(total) or total < 0:
        example = remedy("argument", "total=1200", "--total 1200")
        raise DataError("total is a number of records, such as " + example + f", found {total!r}")
    return float(total)


def _mapping(what: str, given: Named | None) -> Named:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise DataError(
            f"{what} says of which attributes each table is: {what}={{('age', 'sex'): table}}, "
            f"found {type(given).__name__}"
        )
    return given


def _impossible_cells(source: Unbiased, impossible: Named | None) -> dict[Set, Mask]:
    found: dict[Set, Mask] = {}
    for names, cells in _mapping("impossible", impossible).items():
        one, mask = _in_order(source, names, cells, "impossible cells")
        told = mask.astype(bool)
        if (mask != told).any():
            raise DataError(
                f"impossible cells of {_list(names)} are true, or 1, where no record can be, and "
                f"false, or 0, elsewhere; found other numbers"
            )
        found[one] = found[one] | told if one in found else told
    return found


def _in_order(
    source: Unbiased, names: Sequence[str] | str, values: ArrayLike, what: str
) -> tuple[Set, NDArray[np.generic]]:
    """An array with its axes in the schema's order, and the numbers of its attributes."""
    given = _list(names)
    one = source.numbers(given)
    numbers = [source.schema.index(name) for name in given]
    shape = tuple(source.schema.shape[i] for i in numbers)
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise DataError(
            f"{what} of {given} should be numbers of shape {shape}, found {array.dtype} of shape "
            f"{array.shape}"
        )
    return one, array.transpose([numbers.index(i) for i in one])


def _list(names: Sequence[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _apart(family: TableFamily, found: Mapping[Set, Table]) -> float:
    """The most by which a table misses a margin, relative to all records."""
    worst = 0.0
    for one in family.every:
        table = np.asarray(found[one], dtype=np.float64)
        for facet in family.facets[one]:
            worst = max(worst, float(np.abs(margin(table, one, facet) - found[facet]).max()))
    return worst / max(float(found[()]), 1.0)


def _changes(
    source: Unbiased,
    found: Mapping[Set, Table],
    filled: Iterable[Set],
    solved: Solved,
    apart: float,
    seconds: float,
) -> Changes:
    """Every table against its unbiased twin."""
    cells = negative = moved = 0
    moves, largest = 0.0, 0.0
    where: Set = ()
    for one, table in found.items():
        estimate = source.estimate(one)
        move = source.moves(one, table, estimate)
        moved += move.size
        cells += table.size
        if source.determined(one):  # what is filled in has no estimate that could be negative
            negative += int((estimate < 0).sum())
        moves += float(move.sum())
        if (top := float(move.max(initial=0.0))) > largest * (1 + ROUNDING):
            largest, where = top, one
    return Changes(
        tables=len(found),
        cells=cells,
        negative=negative,
        mean_move=moves / max(moved, 1),
        largest_move=largest,
        largest_at=source.title(where),
        evened=solved.evened,
        apart=apart,
        steps=0,
        seconds=seconds,
        filled=tuple(map(source.title, filled)),
    )


def _largest_sum(
    source: Unbiased, found: Mapping[Set, Table], margins: Iterable[Set], sums: Iterable[Sums]
) -> tuple[float, str]:
    """The most by which a sum of cells moved, in its standard errors, and what it is called.

    What is negative must rise to zero; counted is what it moved beyond that.
    """
    largest, where = 0.0, ""
    for one in margins:
        near = np.maximum(source.estimate(one), 0.0)
        move = float(deviations(found[one], near, source.variance(one)).max(initial=0.0))
        if move > largest * (1 + ROUNDING):
            largest, where = move, source.title(one)
    for rows in sums:
        table = np.asarray(found[rows.table], dtype=np.float64)
        move = float(deviations(rows.of(table), rows.possible, rows.variance).max(initial=0.0))
        if move > largest * (1 + ROUNDING):
            largest, where = move, rows.title
    return largest, where
