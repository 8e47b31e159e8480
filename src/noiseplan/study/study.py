"""A study: one file that says what is public, what is asked, and what it may cost."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

from noiseplan.errors import BudgetError, NoiseplanError, PlanError, TooManyValues
from noiseplan.noise.law import SIMULATED
from noiseplan.paths import checked_path
from noiseplan.planning.objectives import Objective
from noiseplan.privacy import ApproxDP, Budget, Neighbours, PureDP
from noiseplan.privacy.doubts import doubts
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema
from noiseplan.schema.spelling import AS_USUAL, Spelling
from noiseplan.study.columns_declared import read_schema
from noiseplan.study.nodes import Node, StudyError, read_document
from noiseplan.study.settings import (
    LedgerEntry,
    People,
    Settings,
    read_budget,
    read_ledger,
    read_people,
    read_settings,
    read_spelling,
    read_targets,
)
from noiseplan.study.tables_asked import find_query, read_predicates, read_query, read_workload

if TYPE_CHECKING:
    from noiseplan.choosing.continuation import Continuation
    from noiseplan.planning.plan import Plan
    from noiseplan.release.open_data import CheckOptions, ReleaseOptions
    from noiseplan.release.rehearsal import Checked
    from noiseplan.release.release import Release

ASKED = ("title", "purpose", "schema", "tables", "predicates", "budget", "targets")
SECTIONS = (*ASKED, "plan", "data", "people", "ledger", "output")
CODE_LIST = "a code list that is the data"  # as a ledger keeps what was told


@dataclass(frozen=True, eq=False)
class Study:
    """What a study file says, checked. Nothing else was read but its code lists.

    Examples
    --------
    >>> from noiseplan.data import example_study
    >>> study = read_study(example_study("wages"))
    >>> study.title, len(study.workload)
    ('Wages of workers, March 2005', 20)
    """

    title: str
    purpose: str  # what the tables are for: published, and told to a ledger that is told no other
    schema: Schema
    workload: Workload
    budget: Budget | None
    targets: Mapping[str, float] | float | None
    settings: Settings
    spelling: Spelling  # of text files
    people: People | None
    ledger: LedgerEntry | None
    folder: Path | None
    tables: tuple[Query, ...] | None  # written as files; None for all
    root: Node = field(repr=False)

    @property
    def code_lists(self) -> tuple[Path, ...]:
        """The files that were read beside the study, which are taken to be public."""
        return tuple(self.root.document.files)

    def digest(self) -> str:
        """SHA-256 of its text and of its code lists, as they are now on the disk."""
        parts = [self.root.document.text.encode(), *(p.read_bytes() for p in self.code_lists)]
        return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()

    @property
    def objective(self) -> Objective | None:
        """What the plan minimises, where it was said."""
        return self.settings.objective

    @property
    def neighbours(self) -> Neighbours:
        """What one record may change."""
        return self.settings.neighbours

    def plan(self, planner_named: str | None = None) -> Plan:
        """Design the noise; errors name the line that they are about.

        `planner_named` is one that stands in no line: what is wrong with it is a `PlanError`.
        """
        from noiseplan.planning import planner

        settings = self.settings
        try:
            made = planner.plan(
                self.workload,
                budget=self.budget,
                targets=self.targets,
                objective=settings.objective,
                planner=planner_named or settings.planner,
                neighbours=settings.neighbours,
                noise=settings.noise,
                max_rows=1 if self.people is None else self.people.max_rows,
            )
        except BudgetError as error:
            self._section("budget").fail(error.message)
        except PlanError as error:
            if planner_named is not None:
                raise
            if isinstance(error, TooManyValues):
                self.root.child("schema").child(error.attribute).fail(error.message)
            self._section("plan", "budget", "targets").fail(error.message)
        except NoiseplanError as error:
            self._section("tables", "predicates").fail(error.message)
        for query in self.tables or ():
            with self.root.child("output").child("tables").blamed():
                made.mechanism.require(query)
        return made if self.people is None else made.with_unit(self.people.unit)

    def require_ledger(self) -> None:
        """Refuse a ledger or dataset that is not there, before anybody waits for a plan."""
        if self.ledger is not None:
            from noiseplan.ledger import Ledger

            Ledger(self.ledger.path).balance(self.ledger.dataset)

    def release(
        self,
        plan: Plan | Continuation,
        data: object,
        seed: int | None = None,
        *,
        details: bool = False,
        again: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> Release:
        """Spend the budget once, on record where the study names a ledger.

        A plan that this ledger was charged for already is refused, unless it is to be released
        `again` at the same cost.

        `tell` is called, before the data are read, with what speaks against it and does not stop
        it: a budget that promises little, an earlier release that will disagree. With
        `plan.given(earlier)`, only what that release lacks is measured.
        """
        # Not needed to plan.
        from noiseplan.choosing.continuation import Continuation
        from noiseplan.release.open_data import Admission

        how = self._on_record(details)
        how["seed"] = seed
        if isinstance(plan, Continuation):
            whole, left, built_on = plan.plan, plan.rest, plan.earlier.recorded
        else:
            whole, left, built_on = plan, plan, ""
        for each in doubts(whole.budget or whole.privacy):
            tell(each)
        if left is not None:
            admission = Admission.of(left, how)  # before the data are compared
            if not again:
                admission.account.require_first(left, built_on)
            for each in admission.account.disagreeing(left, built_on):
                tell(each)
            if told := self._published_data(data):
                admission.account.note_refusal(left, CODE_LIST, False)
                raise StudyError(f"{told} Nothing was spent")
        made: Release = plan.release(self.as_declared(data), **how)
        return replace(made, title=self.title, purpose=self.purpose)

    def as_declared(self, data: object) -> object:
        """Data to be opened: a path of text together with what `[data]` says of such files."""
        if not isinstance(data, str | os.PathLike) or self.spelling == AS_USUAL:
            return data
        from noiseplan.counting.database import is_text_file
        from noiseplan.counting.text_files import TextFile

        if not is_text_file(os.fspath(data)):
            return data
        own = self.spelling
        return TextFile(data, missing=own.missing, decimal=own.decimal, thousands=own.thousands)

    def check(
        self,
        plan: Plan | Continuation,
        data: object,
        *,
        details: bool = False,
        again: bool = False,
    ) -> Checked:
        """Look for all that would stop `release`; spends nothing."""
        from noiseplan.choosing.continuation import Continuation
        from noiseplan.ledger import AlreadyReleased
        from noiseplan.release.open_data import Admission
        from noiseplan.release.rehearsal import refused_by_ledger

        how = self._on_record(details)
        left, built_on = (
            (plan.rest, plan.earlier.recorded) if isinstance(plan, Continuation) else (plan, "")
        )
        if left is not None and not again:
            try:
                Admission.of(left, how).account.require_first(left, built_on)
            except AlreadyReleased as error:
                return refused_by_ledger(error)
            except NoiseplanError:  # which the check finds, and words for what is left
                pass
        checked: Checked = plan.check(self.as_declared(data), **cast("CheckOptions", how))
        told = self._published_data(data) if checked.read else ""
        if not told:
            return checked
        assert left is not None  # or no record would have been read
        Admission.of(left, how).account.note_check(left, CODE_LIST, False)
        return checked.with_problem("code lists", StudyError(told))

    def _on_record(self, details: bool) -> ReleaseOptions:
        """What data are looked at or released with: for whom, and where it is entered."""
        how: ReleaseOptions = {"details": details}
        if self.people is not None:
            how["person"] = self.people.person
        if self.ledger is not None:
            named = self.ledger
            purpose = named.purpose or self.purpose
            how |= {"ledger": named.path, "dataset": named.dataset, "purpose": purpose}
        return how

    def new_folder(self) -> Path | None:
        """Where a release goes, if the study says so: within its own folder, unless allowed."""
        if self.folder is None:
            return None
        return self.root.child("output").child("folder").path_inside("out", "the output folder")

    def _published_data(self, data: object) -> str:
        """What is wrong where the data are a code list too: values would be published as labels."""
        if not self.code_lists or not isinstance(data, str | os.PathLike):
            return ""
        from noiseplan.counting.database import files_of

        for file in files_of(data):
            for found in self.code_lists:
                if _same_content(found, file):
                    return (
                        f"the code list {str(found)!r} is the data itself, {str(file)!r}, and what "
                        f"a code list holds is published; declare the values from a public source."
                    )
        return ""

    def _section(self, *names: str) -> Node:
        present = self.root.value
        assert isinstance(present, dict)
        return next((self.root.child(name) for name in names if name in present), self.root)


def _same_content(one: Path, other: Path) -> bool:
    """Whether two names are of one file, or of a copy of it."""
    return one.samefile(other) or (
        one.stat().st_size == other.stat().st_size and filecmp.cmp(one, other, shallow=False)
    )


def read_study(
    path: str | os.PathLike[str], *, allow_outside: bool = False, priced: bool = True
) -> Study:
    """Read and check a study file.

    Code lists and the output folder lie within the study's folder; `allow_outside` allows others.
    What it may cost must be said there unless it is said elsewhere: `priced=False`.

    Raises
    ------
    StudyError
        With the file, the line, what was found there, what is allowed, and what was probably meant.

    Examples
    --------
    >>> from noiseplan.data import example_study
    >>> read_study(example_study("wages")).schema.shape
    (2, 44, 4, 12, 16)
    """
    return study_of(read_document(checked_path(path, StudyError), allow_outside), priced)


def study_of(root: Node, priced: bool = True) -> Study:
    """A study whose text has been read already."""
    sections = root.table(SECTIONS, "[schema], [[tables]] and [budget]")
    for example, *needed in (("[schema]", "schema"), ("[[tables]]", "tables", "predicates")):
        if not any(name in sections for name in needed):
            root.fail(
                f"the section {example} is missing; a study has [schema], [[tables]] or "
                f"[[predicates]], and [budget] or [targets]"
            )
    schema = read_schema(sections["schema"])
    workload = _workload(sections, schema)
    settings = read_settings(sections.get("plan"))
    if settings.weighting is not None:
        workload = workload.weighted(settings.weighting)
    reach = settings.objective is not None and settings.objective.at_most is not None
    if priced and "budget" not in sections and "targets" not in sections and not reach:
        root.fail(
            "say how much privacy to spend, as in [budget] with zcdp = 0.5, or what to "
            'reach, as in [targets], or [plan] with objective = "rmse" and at_most = 2.0'
        )
    if "budget" in sections and reach:
        sections["plan"].child("at_most").fail(
            "at_most asks for the least privacy cost that reaches it: leave out [budget], or this"
        )
    budget = read_budget(sections["budget"]) if "budget" in sections else None
    targets = None
    if "targets" in sections:
        # Within (ε, δ) the noise is chosen later: a half width holds for both kinds.
        gaussian = settings.noise in ("discrete Gaussian", "gaussian")
        either = isinstance(budget, ApproxDP) and not gaussian
        wide = isinstance(budget, PureDP) or either
        targets = read_targets(sections["targets"], workload, wide)
    if targets is not None and settings.objective is not None:
        root.child("plan").child("objective").fail(
            "targets are an objective of their own: give one or the other"
        )
    ledger = read_ledger(sections["ledger"]) if "ledger" in sections else None
    if ledger is not None and settings.noise in SIMULATED:
        sections["ledger"].fail(
            f'a ledger records releases to be published, and noise = "{settings.noise}" is for '
            f'simulation: take noise = "discrete", or leave out [ledger]'
        )
    folder, tables = _output(sections.get("output"), workload)
    return Study(
        title=sections["title"].text("Wages 2005") if "title" in sections else "",
        purpose=sections["purpose"].text("Yearly report") if "purpose" in sections else "",
        schema=schema,
        workload=workload,
        budget=budget,
        targets=targets,
        settings=settings,
        spelling=_spelling(sections.get("data"), schema),
        people=read_people(sections["people"]) if "people" in sections else None,
        ledger=ledger,
        folder=folder,
        tables=tables,
        root=root,
    )


def _spelling(node: Node | None, schema: Schema) -> Spelling:
    if node is None:
        return AS_USUAL
    spelling = read_spelling(node)
    with node.blamed():
        spelling.require_unambiguous(schema)
    return spelling


def _workload(sections: Mapping[str, Node], schema: Schema) -> Workload:
    """What is asked: the tables, and the predicates after them."""
    if "predicates" not in sections:
        return read_workload(sections["tables"], schema)
    predicates = read_predicates(sections["predicates"], schema)
    if "tables" not in sections:
        return predicates
    tables = read_workload(sections["tables"], schema)
    with sections["predicates"].blamed():
        return tables + predicates


def _output(node: Node | None, workload: Workload) -> tuple[Path | None, tuple[Query, ...] | None]:
    """Where a release goes, and which tables are written as files."""
    if node is None:
        return None, None
    keys = node.table(("folder", "tables"), 'folder = "out"')
    folder = keys["folder"].path("out") if "folder" in keys else None
    if "tables" not in keys:
        return folder, None
    queries = []
    for item in keys["tables"].items('["age × sex"]'):
        with item.blamed():
            name = item.text("age × sex")
            try:
                queries.append(find_query(workload, name))
            except NoiseplanError:
                if not _is_question(name, workload.schema):
                    raise
                queries.append(read_query(item, workload.schema))
    return folder, tuple(queries)


def _is_question(name: str, schema: Schema) -> bool:
    """Whether a text that is no name of a table can be a question."""
    return "=" in name or "," in name or name in schema or name in schema.levels
