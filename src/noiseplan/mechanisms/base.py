"""What every mechanism is asked, whatever it is made of."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json, immutable
from noiseplan.errors import NoiseplanError, PlanError, StorageError, UnanswerableError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.cost import for_person, require_sizes
from noiseplan.noise.law import Drawn, Noise, Sampler
from noiseplan.privacy import Guarantee, Neighbours
from noiseplan.privacy.conversions import lattice_loss
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.domain.cells import Cells
    from noiseplan.mechanisms.basis import Basis
    from noiseplan.mechanisms.blocks import Blocks
    from noiseplan.mechanisms.crossed_pieces import Piece
    from noiseplan.mechanisms.crossed_queries import Frame
    from noiseplan.mechanisms.partition.mechanism import PartitionMeasurements

Marginals = Callable[[IntArray], NDArray[np.number]]
Progress = Callable[[int], None]
Told = TypeVar("Told")

NOT_COMPARED = (
    "one of the plans is neither a matrix nor of the residual family, and has nothing to be "
    "compared by: plan it with "
    + setting("planner", "auto")
    + " or "
    + setting("planner", "optimal")
)
NO_FREE_ROWS = (
    "free queries are for plans by one matrix over all cells, with Gaussian noise: plan "
    "with planner='optimal' or planner='refined'"
)
ONE_MATRIX = "one of the plans is one matrix over the whole domain"


@immutable
@dataclass(frozen=True, eq=False, repr=False)
class Measurements:
    """The noisy numbers, in arrays whose layout the mechanism knows."""

    values: tuple[NDArray[np.number], ...]

    @property
    def partition(self) -> PartitionMeasurements:
        """Themselves, where they are of buckets that the data chose."""
        raise AttributeError(
            "buckets are of data-aware releases, and this plan looked at no data: ask "
            ".answer(query) or .table(…)"
        )

    def __repr__(self) -> str:
        return f"Measurements({counted(sum(each.size for each in self.values), 'noisy number')})"


class Errors(NamedTuple):
    """The errors of an answer's rows: the standard error of the noise, and of a bias if any."""

    noise: Array
    bias: Array | None = None  # estimated; None where answers are unbiased
    approximate: bool = False  # of most rows even the noise is read between others


class Mechanism(ABC):
    """Measure once; then answer queries with their exact errors, from the measurements alone.

    Abstract here is what every mechanism says for itself; the rest follows from it, and is said
    otherwise only where a mechanism knows a faster way.
    """

    # Whether the data choose what is measured: then nobody knows its errors before.
    data_aware: ClassVar[bool] = False
    # The name it is saved under; a class without one is not saved.
    kind: ClassVar[str] = ""
    # What queries have in common that are measured alike: the roles their attributes play, a type
    # of query, or nothing.
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "role"
    # Whether it measures all attributes, and follows from their sizes.
    from_sizes: ClassVar[bool] = False
    # Whether the total is measured by itself, so that it costs nothing where it is public.
    public_total: ClassVar[bool] = False
    # Why it is no residuals of attributes, for whoever would compare them; None where it is.
    undivided: ClassVar[str | None] = ONE_MATRIX

    # What readers of its tables must know beside their errors, if anything.
    caution: str = ""
    schema: Schema
    noise: Noise  # on the numbers, its sizes in the order in which they are measured

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.kind:
            KINDS[cls.kind] = cls

    # ------------------------------------------------------------------ what is measured

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many noisy numbers are measured."""

    @property
    def most_numbers(self) -> float:
        """The same, where the data choose: infinite, as nobody knows before."""
        return self.numbers

    @property
    def sets(self) -> list[IntArray]:
        """The sets of attributes that measuring counts by, as it will ask for them: all together,
        unless a mechanism measures less."""
        return [np.arange(len(self.schema), dtype=np.int64)[None, :]]

    @property
    def steps(self) -> int:
        """In how many steps measuring reports its progress."""
        return 1

    @abstractmethod
    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """`marginals(sets)` gives counts (sets, n_1, …, n_k); `sample(shape, noise)` draws."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the measured arrays."""
        return [(self.numbers,)]

    def check(self, measured: Measurements) -> None:
        """Refuse numbers that this mechanism cannot have measured."""
        if [values.shape for values in measured.values] != self.shapes:
            raise StorageError("the measurements do not have the shapes that the plan measures")
        if not all(np.isfinite(values).all() for values in measured.values):
            raise StorageError("the measurements hold numbers that are not finite")
        # Integers that were put together from several measurements are means, and no integers.
        kinds = (np.dtype(self.noise.dtype).kind, "f")
        if any(values.dtype.kind not in kinds for values in measured.values):
            raise StorageError(
                "the measurements are not the kind of numbers that the plan measures"
            )

    def describe(self) -> str:
        """What is measured, in a few words."""
        return f"{counted(self.numbers, 'noisy number')} over all {self.schema.size:,} cells"

    @abstractmethod
    def on_lattice(self, exact: int) -> Mechanism:
        """Return the same rows with noise on multiples of 1/`exact`; continuous for 0."""

    def floating(self) -> Mechanism:
        """Return the same rows with continuous noise of the same sizes, which takes any counts."""
        return self.on_lattice(False)

    def measured_on_lattice(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """Measure, where noise is drawn on multiples of 1/k: k times the counts, over k at the end.

        Sums of integers stay exact, and what is divided is noisy already. Every way to data leads
        through here.
        """
        k = 1 if self.data_aware else self.noise.exact  # partitions count on integers
        if k <= 1:
            return self.measure(marginals, sample, progress)

        def drawn(shape: tuple[int, ...], noise: Noise) -> Drawn:
            if noise.exact != k:  # fail closed: noise of integers is too small for k times counts
                raise PlanError("a mechanism draws all noise on one lattice, and this one does not")
            return sample(shape, noise)

        found = self.measure(lambda sets: marginals(sets) * k, drawn, progress)
        return Measurements(tuple(values / k for values in found.values))

    # ------------------------------------------------------------------ privacy

    def cost(self, neighbours: Neighbours, max_rows: int = 1) -> Guarantee:
        """What measuring costs a person with up to `max_rows` records, rounded up."""
        return for_person([self], neighbours, max_rows)

    @property
    def least_steps(self) -> float:
        """Return the least σ² of all that is measured, in squared steps of its lattice."""
        return min([self.noise.least_steps, *(each.least_steps for each in self.inner)])

    @property
    def lattice_loss(self) -> float:
        """Return how many times 2ρ its μ² is at most; infinite where no μ is known."""
        if self.data_aware:  # its choice from the data costs something too
            return math.inf
        return lattice_loss(self.least_steps)

    @abstractmethod
    def record_cost(self, neighbours: Neighbours) -> float:
        """2ρ of one record, or ε of Laplace noise, rounded up."""

    def cost_with(self, others: list[Mechanism], neighbours: Neighbours) -> float | None:
        """2ρ of one record for this and others together, where they are of one kind; or None."""
        return None if others else self.record_cost(neighbours)

    @property
    def priced(self) -> Mechanism:
        """The mechanism whose cost this one has: itself, or that over a smaller domain."""
        return self

    @property
    def inner(self) -> tuple[Mechanism, ...]:
        """The mechanisms that measure for it; none where it measures itself."""
        return ()

    def with_inner(self, inner: tuple[Mechanism, ...]) -> Mechanism:
        """The same with others in their place."""
        raise PlanError("a mechanism that measures itself has no others: this is a bug")

    def require_noise(self, neighbours: Neighbours) -> None:
        """Refuse to leave anything without noise that depends on whose records are there."""
        require_sizes(self.noise.size)

    @abstractmethod
    def cost_matrix(self) -> Array:
        """BᵀΣ⁻¹B of what is measured, domain × domain, for small domains."""

    def cell_costs(self) -> Array:
        """Its diagonal, what a record in each cell costs; for domains whose cells can be listed."""
        return np.diagonal(self.cost_matrix())

    # ------------------------------------------------------------------ answering

    @abstractmethod
    def require(self, query: Query) -> None:
        """Raise `UnanswerableError` unless the query lies in the span of what is measured."""

    def determines(self, query: Query) -> bool:
        """Whether it does."""
        try:
            self.require(query)
        except UnanswerableError:
            return False
        return True

    def unlisted(self, query: Query) -> str | None:
        """Why rows of a query are too many to be written down one by one; None if they are not."""
        return None

    def listed(self, workload: Workload) -> Iterator[Query]:
        """The queries whose rows are written down."""
        return iter(workload)

    @abstractmethod
    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        """What answers a query from these measurements: unbiased estimates of every row."""

    def answer(self, measured: Measurements, query: Query) -> Array:
        """The unbiased estimate of every row."""
        return self.answering(measured)(query)

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        """All answers in batches of equal shape: positions, and estimates, the batch last."""
        answer = self.answering(measured)
        for position, query in enumerate(workload):
            yield np.array([position]), answer(query).reshape(*query.shape, 1)

    def agreeing(self, queries: Sequence[Query]) -> list[list[int]] | None:
        """Places of queries whose answers add up to each other, group by group; None where all do.

        A query that is in no group adds up to no other.
        """
        return None

    # ------------------------------------------------------------------ completed

    def require_completed(self, query: Query) -> None:
        """Raise `UnanswerableError` unless its attributes are measured together, by any rows."""
        self.require(query)

    def completed(self, measured: Measurements, query: Query) -> Array:
        """The estimates with what nobody measured taken as zero: unbiased where it is determined.

        Completed tables agree with each other, and with every answer.
        """
        return self.answer(measured, query)

    def completed_variance(self, query: Query) -> Array:
        """The variance of the noise in every completed row."""
        return self.variance(query)

    # ------------------------------------------------------------------ errors

    def require_unbiased(self, otherwise: NoiseplanError) -> None:
        """Raise this where answers may be biased, and nobody knows their errors before the data."""
        return

    @abstractmethod
    def variance(self, query: Query) -> Array:
        """The exact variance of every row."""

    @abstractmethod
    def covariance(self, query: Query, other: Query) -> Array:
        """The exact covariance of every row of one query with every row of another."""

    def errors(self, measured: Measurements, query: Query) -> Errors:
        """The errors of the answer that follows from these measurements."""
        return Errors(np.sqrt(self.variance(query)))

    def answer_with_errors(self, measured: Measurements, query: Query) -> tuple[Array, Errors]:
        """Both; mechanisms that can look once only for what a query is told by do so."""
        return self.answer(measured, query), self.errors(measured, query)

    def alike_queries(self, workload: Workload) -> list[IntArray]:
        """Queries with the same factors on attributes measured by the same rows."""
        return list(np.arange(len(workload))[:, None])

    def variances_alike(self, workload: Workload, group: IntArray) -> Array:
        """Row variances of queries alike, rows × queries."""
        return np.array([self.variance(workload.query(int(q))) for q in group]).T

    def figures_alike(self, workload: Workload, group: IntArray) -> tuple[Array, Array]:
        """Of some queries alike, the sum of row variances and the largest; NaN if nobody knows."""
        rows = self.variances_alike(workload, group)
        return rows.sum(axis=0), rows.max(axis=0)

    def noise_alike(self, workload: Workload, group: IntArray) -> IntArray:
        """A number for each of some queries alike: those that share it have the same variances."""
        return np.arange(len(group))

    def answered_alike(self, workload: Workload, group: IntArray) -> IntArray:
        """A number for each of some queries alike: those that share it are answered all or none.

        Below zero: none is.
        """
        return np.zeros(len(group), dtype=np.int64)

    # ------------------------------------------------------------------ written out

    def unit_rows(self) -> Array:
        """Every measured row over σ, or √2 b, of continuous noise of its size, rows × domain."""
        raise PlanError(NOT_COMPARED)

    def unit_values(self, measured: Measurements) -> Array:
        """The measured numbers in the order and the units of `unit_rows`."""
        raise PlanError(NOT_COMPARED)

    def measured_queries(self, most: int) -> list[Query]:
        """Tables that what is measured is about, some perhaps not answered; at most so many."""
        raise PlanError(NOT_COMPARED)

    def dense_rows(self) -> Array:
        """Every measured row over the size of its noise, rows × domain."""
        raise PlanError(NOT_COMPARED)

    def over_cells(self, cells: Cells) -> Mechanism | None:
        """The same rows over all cells of which its own are classes; None where it has no rows."""
        return None

    def free_rows(self, most: int) -> Array:
        """The rows over cells that more can be measured beside; `most` are planned explicitly."""
        raise PlanError(NO_FREE_ROWS)

    def with_rows(self, rows: Array) -> Mechanism:
        """The same noise on these rows."""
        raise PlanError(NO_FREE_ROWS)

    def with_noise_times(self, factor: float) -> Mechanism | None:
        """The same with noise of so many times the size, rounded up where integers are drawn.

        None where nobody has asked for it yet.
        """
        return None

    # ------------------------------------------------------------------ compared

    def require_comparable(self) -> None:
        """Raise `PlanError` where nothing is known of what it has in common with others."""
        return

    def residual_blocks(self) -> Blocks:
        """The residuals that are measured; refused where it is something else."""
        raise PlanError(self.undivided or NOT_COMPARED)

    def axes(self) -> Iterator[tuple[int, Basis | None, Basis]]:
        """Attributes, the rows they are measured by somewhere (none: with others), and their bases.

        Refused where attributes are not split.
        """
        raise PlanError(self.undivided or NOT_COMPARED)

    def pieces(self, frame: Frame) -> Iterator[Piece]:
        """What is measured, as residuals of the frame's times rows over its cells."""
        raise PlanError(self.undivided or NOT_COMPARED)

    def costs_in(self, frame: Frame) -> Array | None:
        """What no record of each of the frame's cells exceeds, where it is crossed with them."""
        return None

    def as_stated(self) -> Mechanism:
        """As it is priced where its sizes are the variances of discrete noise, not parameters."""
        return self

    # ------------------------------------------------------------------ saving

    @abstractmethod
    def parts(self) -> tuple[Json, Arrays]:
        """All that answers and errors are computed from, bit for bit."""

    @classmethod
    @abstractmethod
    def from_parts(cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> Mechanism:
        """Undo `parts`; whatever makes no sense is refused."""


KINDS: Final[dict[str, type[Mechanism]]] = {}


def told(query: Query, ask: Callable[[Query], Told]) -> Told:
    """What is asked of a query, or of the same rows without sums over attributes that nothing
    measured is about: a row of ones on such an attribute is the total, and asks nothing of it."""
    try:
        return ask(query)
    except UnanswerableError:
        plain = query.without_sums()
        if plain is query:
            raise
        return ask(plain)


def undetermined(query: Query, by: str) -> UnanswerableError:
    """The refusal of a query that does not follow from what is measured."""
    return UnanswerableError(
        f"{query.name!r} is not determined by {by}: add a query on {list(query.attributes)} with "
        f"these rows to the workload"
    )


def saved_kind(kind: str) -> type[Mechanism]:
    """The mechanism that is saved under this name."""
    if kind not in KINDS:
        raise StorageError(f"unknown mechanism {kind!r}: was it saved by a newer noiseplan?")
    return KINDS[kind]


def floats(arrays: Arrays, name: str, ndim: int) -> Array:
    """A saved array of finite real numbers with so many axes."""
    saved = np.asarray(arrays[name])
    if saved.dtype.kind not in "iuf":  # parts of others would be left out without a word
        raise StorageError(f"{name} should be real numbers, and is of {saved.dtype}")
    found = saved.astype(np.float64, copy=False)
    if found.ndim != ndim or not np.isfinite(found).all():
        raise StorageError(f"{name} should be {ndim}-dimensional finite numbers")
    return found
