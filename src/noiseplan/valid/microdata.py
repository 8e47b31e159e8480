"""Made-up records whose tables are near the released ones, by a graphical model.

The model is a distribution over all attributes that factors over the tables it is fitted to; it is
estimated and sampled by the library mbi (McKenna, Sheldon, Miklau, "Graphical-model based
estimation and inference for differential privacy", 2019). It computes only with released answers:
records cost no privacy. What tables do not tell, records do not know either.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import MissingExtraError, PlanError, StorageError
from noiseplan.escaping import visible
from noiseplan.matrices.base import Array
from noiseplan.paths import checked_path, new_path
from noiseplan.queries import Query
from noiseplan.release.answers import tidy_frame
from noiseplan.storage.table_files import MARK, write_csv
from noiseplan.valid.family import Set, TableFamily
from noiseplan.valid.refining import counted, refine
from noiseplan.valid.solve_tables import checked_total
from noiseplan.valid.unbiased_tables import Unbiased

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from noiseplan.release.release import Release

# Cells of the model's junction tree: 200 MB, and a few minutes of fitting.
LARGEST_MODEL = 25_000_000
# Of a model made of the most telling tables: seconds of fitting.
SMALL_MODEL = 2_500_000
STEPS = 1_000
SUFFIXES = (".parquet", ".csv")


@dataclass(frozen=True)
class TableFidelity:
    """One table of the records against its unbiased estimate.

    Deviations are in standard errors of the estimate. The mean size of noise alone is 0.8. Where
    not every cell was told apart, the model has `filled` it in, and deviations are those of the
    workload's answers.
    """

    names: tuple[str, ...]
    cells: int
    mean: float
    largest: float
    filled: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Microdata:
    """Made-up records: a data frame, and how near their tables are to the released ones."""

    frame: Any
    rows: int
    fidelity: tuple[TableFidelity, ...]
    path: Path | None
    warning: str = ""  # where the release they are made of is not for publishing, nor are they

    def __repr__(self) -> str:
        return f"Microdata({self.rows:,} made-up records)"

    def __str__(self) -> str:
        worst = sorted(self.fidelity, key=lambda told: -told.mean)
        lines = [f"{self.rows:,} made-up records" + (f", in {self.path}" if self.path else "")]
        lines.append("deviation from the released tables, in standard errors of these:")
        lines.append(f"  {'mean':>7}  {'largest':>7}  {'cells':>9}  table")
        for told in worst[:12]:
            name = (" × ".join(told.names) or "total") + (" (answers)" if told.filled else "")
            lines.append(f"  {told.mean:7.2f}  {told.largest:7.2f}  {told.cells:9,}  {name}")
        if len(worst) > 12:
            lines.append(f"  … and {len(worst) - 12:,} tables that are nearer")
        lines.append("noise alone deviates by 0.80 in the mean: at that or below, they are as near")
        lines.append("to the tables as noise allows; .fidelity has all tables")
        if any(told.filled for told in self.fidelity):
            lines.append(
                "(answers): not every cell of the table was told apart, and the model filled"
            )
            lines.append("it in; deviations are those of the workload's answers about it")
        if self.warning:
            lines.append(self.warning)
        return visible("\n".join(lines))


def make_microdata(
    release: Release,
    *,
    rows: int | None = None,
    path: str | PathLike[str] | None = None,
    tables: Iterable[Sequence[str] | str] | str | None = None,
    total: float | None = None,
    seed: int | None = None,
    frame: str | None = None,
) -> Microdata:
    """Records with tables near the released ones.

    Parameters
    ----------
    release
        Whose tables the records should have.
    rows
        How many; as many as the release says there are unless given.
    path
        A new file, ``.parquet`` or ``.csv``.
    tables
        The tables the model is fitted to: those of the workload unless given; "auto" for those
        that tell most, as many as a model can hold.
    total
        The number of records of the data, where it is public.
    seed
        For the same records every time.
    frame
        "pandas", "polars" or "pyarrow".
    """
    target, seed = _checked_path(path), _checked_seed(seed)
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int | np.integer)):
        raise PlanError(f"rows is a whole number of records to make, found {rows!r}")
    source = Unbiased.of(release)
    if tables == "auto":
        sets = telling_tables(source)
    elif isinstance(tables, str):
        raise PlanError(f'tables is a list of tables or "auto", found {tables!r}')
    else:
        sets = source.sets(tables)
    with _modelling() as mbi:
        _require_tractable(mbi, source, sets)
        records = checked_total(total) if total is not None else float(source.estimate(()))
        records = max(records, 1.0)
        wanted = int(rows) if rows is not None else round(records)
        if wanted < 1:
            raise PlanError(f"rows is how many records to make, at least 1, found {rows!r}")
        model = _fitted(mbi, source, sets, records)
        codes = _sampled(model, source, wanted, seed)
        goals = _model_tables(model, source, sets, wanted)
    spreads = {one: float(source.variance(one).mean()) for one in goals}
    refine(codes, goals, {s: 1.0 / v if v > 0 else 1.0 for s, v in spreads.items()}, seed)
    told = fidelity(source, codes, source.sets(None), records)
    columns = {
        name: _labelled(source.schema[name].labels, codes[i])
        for i, name in enumerate(source.schema.names)
    }
    made = tidy_frame(columns, frame or release.origin, source.warning)
    if target is not None:
        _write(made, columns, target)
        if source.warning:
            target.with_name(f"{target.name}.{MARK}").write_text(f"{source.warning}\n", "utf-8")
    return Microdata(made, wanted, tuple(told), target, source.warning)


# --------------------------------------------------------------------------- the model


@contextmanager
def _modelling() -> Iterator[Any]:
    """The library mbi, computing in double precision as long as it is used here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about single precision, which is not used here
            import jax
            import mbi
    except ImportError as error:
        raise MissingExtraError(
            f"made-up records need the library mbi ({error}): pip install 'noiseplan[microdata]'"
        ) from None
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore")
        yield mbi


def _domain(mbi: Any, source: Unbiased) -> Any:
    return mbi.Domain(_clique(source, range(len(source.schema))), source.schema.shape)


def _clique(source: Unbiased, attributes: Iterable[int]) -> tuple[int, ...]:
    """Attributes as mbi is told of them: by the places of their names in the alphabet.

    It draws records in the order of a set of what attributes are called; a set of texts has
    another order in every process.
    """
    names = source.schema.names
    places = {name: place for place, name in enumerate(sorted(names))}
    return tuple(places[names[i]] for i in attributes)


def model_cells(mbi: Any, source: Unbiased, sets: Iterable[Set]) -> tuple[int, tuple[str, ...]]:
    """Cells of the junction tree of a model of these tables, and its largest clique."""
    domain = _domain(mbi, source)
    tree, _ = mbi.junction_tree.make_junction_tree(domain, [_clique(source, one) for one in sets])
    sizes = {clique: domain.size(clique) for clique in mbi.junction_tree.maximal_cliques(tree)}
    largest = max(sizes, key=lambda clique: sizes[clique])
    alphabet = sorted(source.schema.names)
    return sum(sizes.values()), tuple(alphabet[called] for called in largest)


def _require_tractable(mbi: Any, source: Unbiased, sets: Sequence[Set]) -> None:
    cells, clique = model_cells(mbi, source, sets)
    if cells <= LARGEST_MODEL:
        return
    fitting = [list(source.names(one)) for one in telling_tables(source)]
    shown = ", ".join(map(str, fitting[:6])) + (", …" if len(fitting) > 6 else "")
    raise PlanError(
        f"a model of these {len(sets):,} tables needs {cells:,} cells ({' × '.join(clique)} become "
        f"one table), and the limit is {LARGEST_MODEL:,}. Give fewer tables, such as the "
        f'{len(fitting):,} that tables="auto" takes: tables=[{shown}]'
    )


def telling_tables(source: Unbiased) -> list[Set]:
    """Tables whose attributes depend most on each other, as many as one model can hold.

    How much a table of two attributes tells is its distance from independence, Σ|y − y_i y_j / y|,
    less what noise alone would make of it; the most telling come first, and each is taken that
    keeps the model small. All of it is computed from what is released.
    """
    asked = source.sets(None)
    pairs = {pair for one in asked for pair in combinations(one, 2)}
    strength = {pair: _dependence(source, pair) for pair in pairs}
    chosen: list[Set] = sorted({(i,) for one in asked for i in one})
    with _modelling() as mbi:
        for pair in sorted((p for p in pairs if strength[p] > 0), key=lambda p: -strength[p]):
            cells, _ = model_cells(mbi, source, [*chosen, pair])
            if cells <= SMALL_MODEL:
                chosen.append(pair)
    return chosen


def _dependence(source: Unbiased, pair: Set) -> float:
    table = source.estimate(pair)
    total = max(float(table.sum()), 1.0)
    independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    noise = np.sqrt(2 / np.pi) * np.sqrt(source.variance(pair)).sum()
    return float(np.abs(table - independent).sum() - noise)


def _fitted(mbi: Any, source: Unbiased, sets: Sequence[Set], records: float) -> Any:
    """The model nearest to the tables and their margins, each weighted by its standard error."""
    family = TableFamily.of(source.schema.shape, sets)
    measurements = []
    for one in filter(None, family.every):
        clique, queries = _clique(source, one), source.queries.get(one, [])
        if source.determined(one) or (one in family.tables and not queries):
            spread = float(np.sqrt(source.variance(one).mean()))
            told = [mbi.LinearMeasurement(source.estimate(one).ravel(), clique, stddev=spread)]
        else:  # what was told of its cells, and the model fills in the rest
            told = [_measurement(mbi, source, query, clique) for query in queries]
        measurements += [each for each in told if each.stddev > 0]
    estimator = mbi.estimation.MirrorDescent()
    return estimator.estimate(
        _domain(mbi, source), measurements, known_total=records, iters=STEPS, tol=1e-7
    )


def _measurement(mbi: Any, source: Unbiased, query: Query, clique: tuple[int, ...]) -> Any:
    """The answer to a query about the attributes of one clique."""
    from jax import numpy as jnp

    pieces = [piece.dense() for piece in query.pieces]

    def asked(table: Any) -> Any:
        values = table.datavector(flatten=query.joint is not None)
        for axis, piece in enumerate(pieces):
            values = jnp.moveaxis(jnp.tensordot(piece, values, (1, axis)), 0, axis)
        return values.ravel()

    estimate = source.made.answer(query).estimate
    spread = float(np.sqrt(source.made.variance(query).mean()))
    return mbi.LinearMeasurement(estimate, clique, stddev=spread, query=asked)


def _model_tables(model: Any, source: Unbiased, sets: Sequence[Set], rows: int) -> dict[Set, Array]:
    """The model's own tables, of so many records."""
    found = {}
    for one in TableFamily.of(source.schema.shape, sets).every:
        if one:
            table = model.project(_clique(source, one)).datavector(flatten=False)
            table = np.asarray(table, dtype=np.float64)
            found[one] = table * (rows / table.sum())
    return found


def _sampled(model: Any, source: Unbiased, rows: int, seed: int | None) -> dict[int, IntArray]:
    """Codes of every attribute, drawn from the model so that its tables are rounded, not noisy."""
    state = np.random.get_state()  # noqa: NPY002 — the library draws from the global generator
    try:
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002
        data = model.synthetic_data(rows=rows)
    finally:
        if seed is not None:
            np.random.set_state(state)  # noqa: NPY002
    columns, called = data.to_dict(), _clique(source, range(len(source.schema)))
    return {i: np.asarray(columns[name]).astype(np.int64) for i, name in enumerate(called)}


def fidelity(
    source: Unbiased, codes: Mapping[int, IntArray], sets: Iterable[Set], records: float
) -> list[TableFidelity]:
    """Every table of the records, blown up to `records` of them, against the released one."""
    found = []
    rows = len(next(iter(codes.values())))
    for one in sets:
        shape = tuple(source.schema.shape[i] for i in one)
        table = np.asarray(counted(codes, one, shape) * (records / rows), dtype=np.float64)
        apart = source.moves(one, table, source.estimate(one))
        told = apart.size, float(apart.mean()), float(apart.max())
        found.append(TableFidelity(source.names(one), *told, not source.determined(one)))
    return found


# --------------------------------------------------------------------------- the file


def _labelled(labels: Sequence[Any], codes: NDArray[np.integer]) -> list[Any]:
    plain = [label if isinstance(label, int | float | str) else str(label) for label in labels]
    return [plain[code] for code in codes.tolist()]


def _checked_seed(seed: object) -> int | None:
    if seed is None:
        return None
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or not 0 <= int(seed) < 2**32:  # type: ignore[call-overload]
        raise PlanError(f"a seed is a whole number from 0 to 2**32 - 1, found {seed!r}")
    return int(seed)  # type: ignore[call-overload, no-any-return]


def _checked_path(path: str | PathLike[str] | None) -> Path | None:
    if path is None:
        return None
    target = checked_path(path, StorageError)
    if target.suffix not in SUFFIXES:
        raise StorageError(f"records are written to {' or '.join(SUFFIXES)}, found {target.name!r}")
    new_path(target, StorageError)
    if not target.parent.is_dir():
        raise StorageError(
            f"{str(target)!r} cannot be written: there is no folder {str(target.parent)!r}"
        )
    return target


def _write(frame: Any, columns: Mapping[str, Sequence[Any]], path: Path) -> None:
    import narwhals.stable.v2 as nw

    if path.suffix == ".csv":
        write_csv(path, columns)
    else:
        nw.from_native(frame).write_parquet(path)
