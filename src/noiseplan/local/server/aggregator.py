"""The server's side: reports counted, merged, kept, and turned into answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from noiseplan._doors import through
from noiseplan.arrays import Arrays, IntArray, Json
from noiseplan.errors import DataError, QueryError, StorageError, UnanswerableError
from noiseplan.local.device.randomizer import Randomizer, Reports
from noiseplan.local.device.wire import TAG_BYTES, Payloads
from noiseplan.local.server.consistency import Consistent
from noiseplan.local.server.packets import packets_of
from noiseplan.local.server.reconstruction import Reconstruction
from noiseplan.local.server.saved_reconstruction import Answering, read_whole, write_whole
from noiseplan.local.server.tails import VARIANCE_SHARE, poisson_reach
from noiseplan.matrices.base import Array
from noiseplan.noise.moments import half_width_factor
from noiseplan.planning.threads import LARGE, one_thread_below
from noiseplan.queries import Query, Workload
from noiseplan.release.answers import Answer, Limits
from noiseplan.schema import Schema

if TYPE_CHECKING:
    from noiseplan.valid.result import ValidTables

# The second keeps the workload too.
FORMATS = ("noiseplan local aggregator 2", "noiseplan local aggregator 1")
FOREIGN, MALFORMED = "foreign", "malformed"
ERRORS = ("estimated", "worst")
# Reports counted at a time, in so many pieces, which may have one each: what they need stays small.
COUNTED_AT_ONCE, PIECES_AT_ONCE = 1 << 20, 1 << 16


@dataclass(eq=False, repr=False)
class Aggregator:
    """Reports of one plan, counted.

    Counting is all there is: aggregators of parts add up in any order to the aggregator of the
    whole. What is no report of this plan is left out and counted in `rejected`; the others stay.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"seconds": 4})
    >>> plan = nz.local.plan(nz.Query(schema, ["seconds"]), epsilon=1.0)
    >>> device, server = plan.randomizer(), plan.aggregator()
    >>> for value in (0, 1, 1, 3):
    ...     _ = server.add(device.report(value))
    >>> server.users, server.answer(nz.Query(schema, ["seconds"])).estimate.shape
    (4, (4,))
    """

    randomizer: Randomizer
    reconstruction: Reconstruction
    tally: IntArray
    users: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    brand: str = ""
    workload: Workload | None = None
    """What was asked; None if it was read from a file that did not keep it yet."""
    sources: frozenset[str] = frozenset()
    """Digests of the files that `noiseplan local aggregate` counted, so that none is twice."""

    @property
    def schema(self) -> Schema:
        """The attributes that queries may be about."""
        return self.randomizer.schema if self.workload is None else self.workload.schema

    # ------------------------------------------------------------------ collecting

    def add(self, report: bytes) -> bool:
        """One report with its tag; False if it was rejected."""
        return self._add_pieces(self._payloads([report])) == 1

    def _payloads(self, reports: Iterable[bytes]) -> Iterator[Payloads]:
        """The payloads of single reports; what is none is rejected."""
        for report in reports:
            reason = self._flaw(report)
            if reason:
                self.rejected[reason] += 1
            else:
                yield np.frombuffer(report, np.uint8)[None, TAG_BYTES:]

    def _flaw(self, report: object) -> str:
        """Why this is no report of the plan; empty if it may be one."""
        if not isinstance(report, (bytes, bytearray, memoryview)):
            return MALFORMED
        report = bytes(report)
        if report[:TAG_BYTES] != self.randomizer.tag:
            return FOREIGN if len(report) > TAG_BYTES else MALFORMED
        return "" if len(report) == self.randomizer.report_bytes else MALFORMED

    def add_many(self, reports: Reports | Iterable[bytes]) -> int:
        """Many reports, as `Randomizer.reports` returns them or as bytes with tags.

        Returns how many were good. Arrays carry no tag: that they are of this plan is taken on
        trust, where bytes and packets of another plan are told and left out.
        """
        if isinstance(reports, (bytes, bytearray, memoryview, str)) or not hasattr(
            reports, "__iter__"
        ):
            raise DataError(
                f"add_many takes an array of reports or several of them as bytes, found "
                f"{type(reports).__name__}; for one report use add(report), for packets add_packet"
            )
        if not isinstance(reports, np.ndarray):
            return self._add_pieces(self._payloads(reports))
        like = self.randomizer.no_reports
        if not np.can_cast(reports.dtype, like.dtype, "safe") or reports.ndim != like.ndim:
            raise DataError(
                f"reports are an array as randomizer.reports(values) returns it, {like.dtype} of "
                f"{like.ndim} dimensions; found {reports.dtype} of {reports.ndim}"
            )
        if reports.shape[1:] != like.shape[1:]:
            raise DataError(f"a report has {like.shape[1]} entries, found {reports.shape[1]}")
        good = 0
        for start in range(0, len(reports), COUNTED_AT_ONCE):
            piece = reports[start : start + COUNTED_AT_ONCE]
            valid = self.randomizer.valid(piece)
            good += self._count(piece if valid.all() else piece[valid], len(piece))
        return good

    def add_packet(self, packet: bytes) -> int:
        """Packets made by `Randomizer.packet`, one or several in a row; how many reports were
        good."""
        if not isinstance(packet, (bytes, bytearray, memoryview)):
            raise DataError(f"a packet is made of bytes, found {type(packet).__name__}")
        return self.read(BytesIO(packet))

    def read(self, source: str | Path | BinaryIO) -> int:
        """All packets of a file or stream; how many reports were good."""
        if isinstance(source, (str, Path)):
            with Path(source).open("rb") as stream:
                return self.read(stream)
        if not source.seekable():  # behind a damaged packet one must go back to look for the next
            with TemporaryFile() as held:
                copyfileobj(source, held)
                held.seek(0)
                return self.read(held)
        return self._add_pieces(self._packets(source))

    def _packets(self, source: BinaryIO) -> Iterator[Payloads]:
        """The payloads of whole packets of this plan; the others are rejected."""
        own = self.randomizer.digest
        for packet in packets_of(source, own, self.randomizer.payload_bytes):
            if packet.payloads is not None:
                yield packet.payloads
            else:
                foreign = packet.digest not in (b"", own)
                self.rejected[FOREIGN if foreign else MALFORMED] += packet.count

    def _add_pieces(self, payloads: Iterable[Payloads]) -> int:
        """Counting costs as much as there are possible reports: never for every piece alone."""
        good, held, rows = 0, [], 0
        for piece in payloads:
            for start in range(0, len(piece), COUNTED_AT_ONCE):
                held.append(piece[start : start + COUNTED_AT_ONCE])
                rows += len(held[-1])
                if rows >= COUNTED_AT_ONCE or len(held) >= PIECES_AT_ONCE:
                    good, held, rows = good + self._add_payloads(held), [], 0
        return good + self._add_payloads(held)

    def _add_payloads(self, held: list[Payloads]) -> int:
        if not held:
            return 0
        reports, valid = self.randomizer.unpack(np.concatenate(held))
        return self._count(reports if valid.all() else reports[valid], len(reports))

    def _count(self, valid: Reports, given: int) -> int:
        if len(valid) < given:
            self.rejected[MALFORMED] += given - len(valid)
        self.tally = _sum(self.tally, self.randomizer.tally(valid))
        self.users += len(valid)
        return len(valid)

    def merge(self, *others: Aggregator) -> Aggregator:
        """The reports of this one and the others together, as a new aggregator."""
        total = self.tally
        users, rejected, brands = self.users, Counter(self.rejected), {self.brand}
        for other in others:
            if not isinstance(other, Aggregator):
                raise DataError(f"aggregators merge with others, found {type(other).__name__}")
            if other.randomizer.digest != self.randomizer.digest:
                raise DataError(
                    f"aggregators of different plans do not merge: {self.randomizer.hash[:12]} and "
                    f"{other.randomizer.hash[:12]}"
                )
            total = _sum(total, other.tally)
            users += other.users
            rejected += other.rejected
            brands.add(other.brand)
        brand = "; ".join(sorted(brands - {""}))
        sources = self.sources.union(*(other.sources for other in others))
        return replace(
            self, tally=total, users=users, rejected=rejected, brand=brand, sources=sources
        )

    def __add__(self, other: Aggregator) -> Aggregator:
        return self.merge(other)

    def __radd__(self, other: object) -> Aggregator:
        """What `sum(aggregators)` starts from is 0."""
        if isinstance(other, int) and other == 0:
            return self.merge()
        raise DataError(f"aggregators merge with others, found {type(other).__name__}")

    # ------------------------------------------------------------------ answers

    def answer(
        self,
        query: Query | str | Sequence[str],
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        errors: str = "estimated",
    ) -> Answer:
        """The unbiased answer with its standard errors; a query of the workload by its name too.

        A name is as the plan prints it, "os × version", or its parts in any order, "version, os" or
        ["version", "os"].

        A variance depends on who the users are, which only the reports tell. "estimated" gives the
        exact standard error for data like the estimate (counts made non-negative that add up to
        the number of users), "worst" the largest that any so many users could cause. Intervals are
        not made of standard errors but of bounds on tails, which hold at every ε and number of
        users; see `noiseplan.local.server.tails`.
        """
        half_width_factor(level, 1)  # refuses what is no level
        query = self._asked(query)
        estimate = self.reconstruction.estimate(query, self.tally, self.users)
        error = np.sqrt(self.variance(query, errors=errors))
        outside = (1 - level) / (query.rows if simultaneous else 1)
        limits = self._reach(query, error, outside, errors == "worst")
        return Answer(query, estimate, error, level, simultaneous, brand=self.brand, limits=limits)

    def _reach(self, query: Query, error: Array, outside: float, known: bool) -> Limits:
        """How far the interval of each row reaches down and up; see `tails`."""
        made = self.reconstruction
        variance, spent = error**2, 0.0
        if made.tells_all_apart and not known:  # otherwise it is the largest there can be
            spent = VARIANCE_SHARE * outside
            variance = made.variance_above(query, self.tally, self.users, spent)
        above, below = made.jumps(query)
        tail = (outside - spent) / 2
        return poisson_reach(variance, above, tail), poisson_reach(variance, below, tail)

    def _asked(self, query: Query | str | Sequence[str]) -> Query:
        """A query as it is, or one of the workload by its name, once there are reports."""
        if not self.users:
            raise DataError(f"there is nothing to answer from: {self._why_empty()}")
        if self.workload is not None:
            return self.workload.asked(query)
        if not isinstance(query, Query):
            raise QueryError(
                f"an aggregator answers queries, as in answer(Query(schema, ['age'])), and those "
                f"of its workload by name, which files of older versions do not have; found "
                f"{type(query).__name__}"
            )
        return query

    def _why_empty(self) -> str:
        rejected = ", ".join(f"{count:,} {why}" for why, count in sorted(self.rejected.items()))
        if not rejected:
            return "no report was added yet"
        advice = (
            "; foreign ones were randomized by another plan: plan once, save the plan, and let all "
            "devices and servers use the files that were saved"
        )
        told = advice if self.rejected[FOREIGN] else ""
        return f"no report was accepted, all were rejected ({rejected}){told}"

    def variance(self, query: Query | str | Sequence[str], *, errors: str = "estimated") -> Array:
        """The variance of each row; see `answer`."""
        query = self._asked(query)
        if errors not in ERRORS:
            raise QueryError(f"errors is one of {list(ERRORS)}, found {errors!r}")
        made = self.reconstruction
        if errors == "worst" or not made.tells_all_apart:
            return made.variance(query, None, users=self.users)
        return made.variance(query, made.likely(query, self.tally, self.users))

    def covariance(self, query: Query | str, other: Query | str) -> Array:
        """The covariance of all rows of two queries, exact for data like the estimate."""
        query, other = self._asked(query), self._asked(other)
        made = self.reconstruction
        if not made.tells_all_apart:
            raise UnanswerableError(
                "reports of this plan do not tell all types of users apart, so that covariances "
                "cannot be estimated from them: use plan.covariance(query, other, counts) for "
                "given counts, or variance(query, errors='worst')"
            )
        likely = made.likely(query, self.tally, self.users)
        return made.covariance(query, other, likely)

    def consistent(self, *, total: bool = True) -> Consistent | ValidTables:
        """Answers of one table of non-negative counts, as near to the unbiased ones as can be.

        Fewer errors where users are few or the table is sparse, but no longer unbiased. With
        `total` the counts add up to the number of users, which is public. Where users are split
        over tables these are made non-negative and agree with each other.
        """
        if not self.users:
            raise DataError(f"there is nothing to make consistent: {self._why_empty()}")
        users = float(self.users) if total else None
        if not self.reconstruction.split:
            with one_thread_below(LARGE, self.reconstruction.parts[0].types.count):
                return self.reconstruction.consistent(self.tally, users, self.workload)
        tables = self.reconstruction.told(self.schema, self.workload)
        valid: ValidTables = through("aggregator.valid")(self, tables=tables, total=users)
        return valid

    # ------------------------------------------------------------------ keeping

    def save(self, path: str | Path) -> Path:
        """Write everything answers need, in one step: a crash leaves the old file whole."""
        facts, arrays = Answering(self.randomizer, self.reconstruction, self.workload).parts()
        facts |= {
            "format": FORMATS[self.workload is None],
            "users": self.users,
            "rejected": dict(self.rejected),
            "brand": self.brand,
        }
        if self.sources:
            facts["sources"] = sorted(self.sources)
        first = {"randomizer": arrays["randomizer"], "tally": self.tally}
        return write_whole(path, facts, first | arrays)

    def __repr__(self) -> str:
        lost = f", {self.rejected.total():,} rejected" if self.rejected else ""
        brand = f", {self.brand}" if self.brand else ""
        return f"Aggregator({self.users:,} reports{lost}, plan {self.randomizer.hash[:12]}{brand})"


def _sum(counted: IntArray, more: IntArray) -> IntArray:
    """Two tallies together, as a new array; refused where a sum would not fit 64 bits."""
    total: IntArray = counted + more
    if (((counted ^ total) & (more ^ total)) < 0).any():  # a sign that neither of the two had
        raise DataError(
            "the sums of so many reports do not fit 64 bits, and were not added: collect in "
            "several aggregators and add up their answers"
        )
    return total


# ---------------------------------------------------------------------- from files


def load_aggregator(path: str | Path) -> Aggregator:
    """Read an aggregator written by `Aggregator.save`; the plan is not needed.

    Examples
    --------
    >>> import tempfile
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"seconds": 4})
    >>> plan = nz.local.plan(nz.Query(schema, ["seconds"]), epsilon=1.0)
    >>> server = plan.aggregator()
    >>> _ = server.add(plan.randomizer().report(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load_aggregator(server.save(f"{folder}/servers.npz"))
    >>> again.users
    1
    """
    return read_whole(path, "aggregator", FORMATS, _rebuilt)


def _rebuilt(facts: Json, arrays: Arrays) -> Aggregator:
    known = Answering.of(facts, arrays)
    randomizer, tally = known.randomizer, arrays["tally"].astype(np.int64)
    shape = randomizer.tally(randomizer.no_reports).shape
    if tally.shape != shape:
        raise StorageError(f"reports are counted in shape {tally.shape}, not {shape}")
    users = int(facts["users"])
    if users < 0 or (randomizer.kind != "sums" and (tally < 0).any()):
        raise StorageError("reports are counted by numbers of at least 0")
    rejected = Counter({str(why): int(count) for why, count in facts["rejected"].items()})
    counted = tally, users, rejected, str(facts["brand"])
    sources = frozenset(map(str, facts.get("sources", ())))
    return Aggregator(randomizer, known.reconstruction, *counted, known.workload, sources)
