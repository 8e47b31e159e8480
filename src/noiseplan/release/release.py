"""A release: the noisy measurements, and every answer that follows from them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from numpy.typing import ArrayLike

from noiseplan._doors import through
from noiseplan.arrays import IntArray
from noiseplan.counting import count_tables
from noiseplan.counting.person_cap import ChosenRecords
from noiseplan.counting.tensor import CountTensor
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.agreement import cautions
from noiseplan.mechanisms.base import Measurements, told
from noiseplan.mechanisms.price import NOTHING, Paid
from noiseplan.noise import Source
from noiseplan.noise.law import NAMED
from noiseplan.planning.plan import Plan
from noiseplan.privacy.people import left_out_text
from noiseplan.progress import progress
from noiseplan.queries import Query
from noiseplan.queries.questions import named_query
from noiseplan.release.answers import Answer, Answers
from noiseplan.release.open_data import (
    ReleaseOptions,
    admitted,
    opened,
    refuse_too_many,
    whose_records,
)
from noiseplan.release.provenance import Provenance
from noiseplan.schema import Schema
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.ledger import Ledger
    from noiseplan.mechanisms.base import Mechanism
    from noiseplan.queries import Workload
    from noiseplan.statistics.asked_groups import Asked
    from noiseplan.statistics.attribute_values import Values
    from noiseplan.statistics.statistic import Statistic
    from noiseplan.valid import ValidTables
    from noiseplan.valid.microdata import Microdata


__all__ = ["Release", "ReleaseOptions", "make_release"]


class Derived(Answers):
    """Answers that are more than counts. All of it is post-processing, and costs no privacy.

    Groups, `by`, and what is asked about are named as attributes, "region" or ["region", "sex"], as
    a question, "age=25..34 | 35..44, sex", or as a mapping to factors.
    """

    def ask(
        self,
        question: str,
        *,
        values: Values | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Answer | Statistic:
        """The answer to a question in a line of text, as the command line takes it.

        "sex, age=25..34 | 35..44", "median(income), region", "share(sex), region=North".
        `values` are for a mean, as `mean` takes them.
        """
        answered: Answer | Statistic = self._derived("ask", (question, values), level, simultaneous)
        return answered

    def mean(
        self,
        attribute: str,
        *,
        by: Asked = (),
        values: Values | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Statistic:
        """The mean of an attribute for every group.

        Numbers stand for themselves: an age of 34 for 34, not for 34½. Of bins the interval covers
        any place of records between the edges; open bins have no mean. `values` has other numbers:
        one for each value, or a mapping from some of them, as in {"99+": 104}.
        """
        found: Statistic = self._derived("mean", (attribute, by, values), level, simultaneous)
        return found

    def median(
        self, attribute: str, *, by: Asked = (), level: float = 0.95, simultaneous: bool = False
    ) -> Statistic:
        """The median of an ordered attribute for every group; see `quantile`."""
        found: Statistic = self._derived("quantile", (attribute, None, by), level, simultaneous)
        return found

    def quantile(
        self,
        attribute: str,
        probabilities: Sequence[float] | float,
        *,
        by: Asked = (),
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Statistic:
        """Quantiles of an ordered attribute for every group.

        Of values the first up to which there are enough records. Of bins the interval holds all
        that the quantile may be in; what is interpolated inside a bin is an extra.
        """
        found: Statistic = self._derived(
            "quantile", (attribute, probabilities, by), level, simultaneous
        )
        return found

    def share(
        self, what: Asked, *, by: Asked = (), level: float = 0.95, simultaneous: bool = False
    ) -> Statistic:
        """How much of each group has each value: share("sex", by="region") adds up to 1 in a
        region, share("region", by="sex") in a sex, and share(["sex", "region"]) over all."""
        found: Statistic = self._derived("share", (what, by), level, simultaneous)
        return found

    def ratio(
        self,
        what: Asked,
        other: Asked,
        *,
        by: Asked = (),
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Statistic:
        """One count over another, row by row or all over one: ratio("sex=F", "sex=M")."""
        found: Statistic = self._derived("ratio", (what, other, by), level, simultaneous)
        return found

    def _derived(self, kind: str, asked: tuple[object, ...], level: float, together: bool) -> Any:
        how = through("release.intervals")(level, together)
        return through(f"release.{kind}")(self, *asked, how)


@dataclass(frozen=True, eq=False, repr=False)
class Release(Derived):
    """Everything published: noisy measurements, and answers computed from them alone.

    All answers are linear in the same measurements, so they agree with each other: tables add up,
    and a query asked twice gets the same answer; only where a plan measures each query by itself,
    as it says, tables need not add up. Answering costs no privacy.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2)
    >>> plan = nz.plan(workload, budget=nz.zCDP(0.5))
    >>> release = plan.release({"age": [0, 1, 1], "sex": [0, 1, 1]})  # once, with secure noise
    >>> release.answer("sex").estimate.shape
    (2,)
    >>> by_age, total = release.answer("age"), release.answer("total")
    >>> bool(abs(by_age.estimate.sum() - total.estimate[0]) < 1e-9)  # answers agree
    True
    """

    plan: Plan
    measurements: Measurements
    provenance: Provenance
    origin: str = ""
    choice: ChosenRecords | None = None  # stands for which records of each person were counted
    title: str = ""  # what it is about and what it is for, in the words of its study; public
    purpose: str = ""

    def __getstate__(self) -> dict[str, Any]:
        """What pickles and copies are made of: which records were counted stays in this process."""
        forgotten = None if self.choice is None else ChosenRecords()
        return vars(self) | {"choice": forgotten}

    @property
    def brand(self) -> str:
        """What a reader must know about the noise."""
        return self.provenance.brand

    @property
    def recorded(self) -> str:
        """Where a ledger has the release; nothing if none has."""
        return self.provenance.recorded

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which records of each person were counted, where others may be left out; never how many
        were."""
        if self.choice is None:
            return ()
        return tuple(left_out_text(self.plan.max_rows, self.plan.unit))

    @property
    def schema(self) -> Schema:
        """The attributes that may be asked about."""
        return self.plan.workload.schema

    def answer(
        self,
        query: Query | str | Sequence[str],
        *,
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Answer:
        """The answer to any query in the span of what was measured, with its error.

        It is unbiased and its error exact, unless the data chose what was measured: see `Answer`.
        A query of the workload may be given by its name, "age × sex", or by the parts of it in any
        order: "sex, age" or ["sex", "age"].
        """
        if not isinstance(query, Query):
            query = self.plan.workload.asked(query)
        ask = partial(self.plan.mechanism.answer_with_errors, self.measurements)
        estimate, errors = told(query, ask)
        known = (
            self.plan.noise in NAMED and errors.bias is None
        )  # what was planned, before the data
        return Answer(
            query,
            estimate,
            errors.noise,
            level,
            simultaneous,
            self.origin,
            laplace=self.plan.privacy.laplace,
            brand=self.provenance.warning,
            bias_error=errors.bias,
            approximate=errors.approximate,
            planned=self.plan.figures if known else None,
            apart=self._apart,
            left_out=self.left_out,
        )

    def named(self, name: str) -> Query | None:
        """The query of the workload that is called so."""
        return named_query(name, self.plan.workload)

    def variance(self, query: Query | str) -> Array:
        """The exact variance of every row."""
        return self.plan.variance(query)

    def covariance(self, query: Query | str, other: Query | str) -> Array:
        """The exact covariance of every row of one query with every row of another."""
        return self.plan.covariance(query, other)

    @overload
    def answers(self, *, errors: Literal[False] = False) -> Iterator[tuple[Query, Array]]: ...

    @overload
    def answers(self, *, errors: Literal[True]) -> Iterator[tuple[Query, Answer]]: ...

    def answers(self, *, errors: bool = False) -> Iterator[tuple[Query, Array | Answer]]:
        """Every query of the workload with its estimates, computed in batches, one at a time in
        memory; or with its whole answer, estimates and errors, which takes longer."""
        for positions, estimates in self.batches():
            for i, position in enumerate(positions):
                query = self.plan.workload.query(int(position))
                yield query, self.answer(query) if errors else estimates[..., i].ravel()

    def batches(self) -> Iterator[tuple[IntArray, Array]]:
        """The workload's answers in batches of equal shape: positions and estimates, batch last."""
        return self.plan.mechanism.batches(self.measurements, self.plan.workload)

    def valid(
        self,
        *,
        tables: Iterable[Sequence[str] | str | Query] | None = None,
        total: float | None = None,
        public: Mapping[Sequence[str] | str, ArrayLike] | None = None,
        impossible: Mapping[Sequence[str] | str, ArrayLike] | None = None,
        integers: bool = False,
    ) -> ValidTables:
        """Tables without negative counts that agree with each other, near the unbiased ones.

        They are biased: nearer to the truth where tables are sparse, but not in every cell or
        table; see `noiseplan.valid.valid_tables`. The unbiased answers and their exact errors stand
        beside them.

        `tables` names the attributes of each, as in `[["age", "sex"]]`; a level, as in `[["county",
        "age"]]`, or a query of the workload by its name makes tables of those groups alone.
        """
        made: ValidTables = through("release.valid")(
            self, tables=tables, total=total, public=public, impossible=impossible,
            integers=integers,
        )  # fmt: skip
        return made

    def microdata(
        self,
        *,
        rows: int | None = None,
        path: str | os.PathLike[str] | None = None,
        tables: Iterable[Sequence[str] | str] | str | None = None,
        total: float | None = None,
        seed: int | None = None,
        frame: str | None = None,
    ) -> Microdata:
        """Made-up records whose tables are near the released ones, and how near.

        Needs the extra ``microdata``; see `noiseplan.valid.microdata.make_microdata`.
        """
        made: Microdata = through("release.microdata")(
            self, rows=rows, path=path, tables=tables, total=total, seed=seed, frame=frame
        )
        return made

    def plot(
        self,
        *attributes: str,
        level: float = 0.95,
        path: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Draw a table of one or two attributes with its intervals, as a picture for a notebook.

        The first attribute is laid out along the chart, the second distinguished by colour; the
        other way round where only the second has too many values for colours. With a `path` it is
        drawn to that file (.svg or .html), whose path is returned.
        """
        return through("release.plot")(self, *attributes, level=level, path=path)

    def save(
        self, folder: str | os.PathLike[str], *, tables: Sequence[Query | str] | None = None
    ) -> None:
        """Write everything to a new folder; `noiseplan.load` reads it back, without the data.

        It holds the answers to `tables` (the workload's queries unless given, without all ranges
        of very many values, which a warning names) as CSV and Parquet, the noisy measurements, the
        plan, a certificate as JSON and as text, and hashes of all files. The folder appears whole
        or not at all, and an existing one is never overwritten.
        """
        plan = self.plan
        if tables is not None:
            chosen = [plan.query(query) for query in tables]
        else:
            chosen = list(plan.mechanism.listed(plan.workload))
            if len(chosen) < len(plan.workload):
                self._warn_of_unlisted()
        through("release.save")(self, folder, chosen)

    def _derived(self, kind: str, asked: tuple[object, ...], level: float, together: bool) -> Any:
        found = super()._derived(kind, asked, level, together)
        if isinstance(found, Answer):  # whose notes say it already
            return found
        agreeing = () if self._apart is None else cautions(*self._apart)
        return replace(found, notes=(*found.notes, *agreeing)) if agreeing else found

    @property
    def _apart(self) -> tuple[Mechanism, Workload] | None:
        """What measured the queries, and which they are, where tables need not agree."""
        mechanism = self.plan.mechanism
        return (mechanism, self.plan.workload) if mechanism.caution else None

    def _warn_of_unlisted(self) -> None:
        """Say which of the workload's queries are not written as files."""
        reasons = map(self.plan.mechanism.unlisted, self.plan.workload)
        left = "; ".join(reason for reason in reasons if reason is not None)
        warnings.warn(f"left out of the saved tables: {left}", RuntimeWarning, stacklevel=3)

    def __repr__(self) -> str:
        queries = counted(len(self.plan.workload), "query", "queries")
        return f"Release({queries}; {self.brand})"

    def __str__(self) -> str:
        return str(through("release.describe")(self))

    def _repr_html_(self) -> str:
        return str(through("release.html")(self))

    # ------------------------------------------------------------------ of a data-aware release

    @property
    def edges(self) -> IntArray:
        """Where the buckets of a data-aware release begin and end along the line of cells."""
        return self.measurements.partition.buckets.edges

    @property
    def buckets(self) -> int:
        """How many buckets a data-aware release has."""
        return self.measurements.partition.buckets.buckets

    @property
    def counts(self) -> Array:
        """The estimated counts of all cells of a data-aware release, shared evenly within buckets;
        some may be negative."""
        return self.measurements.partition.estimates.cells


def make_release(
    plan: Plan,
    data: object,
    seed: int | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    purpose: str = "",
    randomness: Source | None = None,
    person: str | None = None,
    follows: str = "",
    details: bool = False,
    before: Paid = NOTHING,
) -> Release:
    """Ask the ledger, open the data, record the spend, add noise once.

    What the budget does not admit is refused before a record is read. Then the data are opened and
    checked: what cannot be read costs nothing. From the record on, the cost counts, whatever
    happens; it is on disk before the first noise is drawn.
    """
    how = ReleaseOptions(
        ledger=ledger, dataset=dataset, purpose=purpose, seed=seed, randomness=randomness,
        details=details,
    )  # fmt: skip
    with admitted(plan, how, follows, before) as admission:
        source = opened(admission, data, person)
        ready_made = isinstance(source, CountTensor)
        # Counted here: files and databases are checked as they are counted, in one pass.
        source = count_tables(source, plan.mechanism.sets)
        records = refuse_too_many(plan, source)
    if not records and not ready_made:
        admission.warn_of_nothing()
    measuring = progress("counting and measuring", plan.mechanism.steps)
    choice = getattr(source, "choice", None)
    whose = whose_records(data, person)
    with admission.charged(whose) as recorded, measuring as advance:
        measured = plan.mechanism.measure(source.marginals, admission.sampler, advance)
    made = Provenance.of(admission.sampler, recorded)
    return Release(plan, measured, made, source.origin, choice)
