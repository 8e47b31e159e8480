"""One page about a release, from the saved folder alone: it opens anywhere, and asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from noiseplan.draw.html import Markup, element, joined
from noiseplan.errors import QueryError
from noiseplan.mechanisms.agreement import cautions
from noiseplan.report.budgets import difference, other_budgets, privacy_in_detail, promise_box
from noiseplan.report.offline_page import offline_page
from noiseplan.report.plan_errors import plan_errors
from noiseplan.report.released_tables import Tables
from noiseplan.report.table_cells import Cells
from noiseplan.storage.folder import certificate_words
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan
    from noiseplan.queries import Query
    from noiseplan.release.release import Release
    from noiseplan.valid.result import ValidTables

UNTITLED = "A differentially private release"


def report_page(
    release: Release,
    certificate: Mapping[str, Any],
    *,
    title: str = "",
    level: float = 0.95,
    files: Mapping[str, str] | None = None,
    valid: ValidTables | None = None,
) -> str:
    """The page as HTML: the promise, every table, expected errors, budget, the certificate.

    Parameters
    ----------
    release
        A release, such as `noiseplan.load` returns.
    certificate
        What `certificate.json` of the saved release holds.
    title
        What it is about, unless the release knows it better; shown on top.
    level
        Level of the intervals.
    files
        Addresses of the tables that were written as files, without endings, to link to.
    valid
        Tables made of the release that are shown in place of the unbiased ones.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     plan.release({"age": [0, 1, 1], "sex": [0, 1, 1]}).save(f"{parent}/out")
    ...     certificate = json.loads(Path(parent, "out", "certificate.json").read_text("utf-8"))
    ...     page = report_page(nz.load(f"{parent}/out"), certificate, title="People")
    >>> page[:15].lower()
    '<!doctype html>'
    """
    plan = release.plan
    heading = title or release.title or UNTITLED
    tables = Tables(
        plan.workload, _cells(release, level, valid), files or {}, partial(_mend, release)
    )
    facts = {
        "What is protected": difference(plan.privacy, str(certificate["privacy"]["unit"])),
        "Noise": release.brand,
        "Ledger": release.recorded or "not recorded in a ledger",
    }
    sections = {
        "The tables": element(
            "div", _left_out(release), _agreement(plan, valid), tables.markup(), id="released"
        ),
        "How precise the tables are": plan_errors(plan),
        "What another budget would buy": other_budgets(plan),
        "The promise in every currency": privacy_in_detail(plan.privacy, facts),
        "Certificate": _certificate(release, certificate),
    }
    shown = {name: content for name, content in sections.items() if content.text}
    return offline_page(heading, _header(release, certificate, heading), shown)


def _header(release: Release, certificate: Mapping[str, Any], heading: str) -> Markup:
    plan = release.plan
    workload, made = plan.workload, str(certificate.get("made", ""))[:10]
    warning = release.provenance.warning
    size = f"{counted(len(workload), 'table')}, {counted(workload.rows, 'number')}"
    parts: list[object] = [
        element("h1", heading),
        element("p", release.purpose, class_="lead") if release.purpose else "",
        element("p", f"{size}, made {made}.", class_="muted"),
        element("p", f"{warning[0].upper()}{warning[1:]}.", class_="warning") if warning else "",
        promise_box(plan.privacy, str(certificate["privacy"]["unit"]), plan.unit),
    ]  # fmt: skip
    return joined(parts)


def _certificate(release: Release, certificate: Mapping[str, Any]) -> Markup:
    command = element("code", "noiseplan show RELEASE --check")
    words = element(
        "p",
        "To check it, and every file of the folder, and to compute the cost anew: ",
        command,
        ". It says whether the release is private, and fails where anything was changed.",
    )
    return joined([words, element("pre", certificate_words(release, dict(certificate)))])


# ---------------------------------------------------------------------- the numbers


def _mend(release: Release) -> str:
    """The command that makes tables of a release without negative counts; nothing if none does."""
    from noiseplan.valid.solve_tables import valid_command  # only where a count is negative

    return valid_command(release)


def _cells(
    release: Release, level: float, valid: ValidTables | None
) -> Callable[[Query], Cells | None]:
    """What has the numbers of a query: the release, or valid tables where they hold it."""

    def cells(query: Query) -> Cells | None:
        unbiased = Cells.of(release.answer(query, level=level))
        if valid is None:
            return unbiased
        try:
            return unbiased.made_valid(valid.answer(query))
        except QueryError:
            return None

    return cells


def _left_out(release: Release) -> Markup | str:
    """That records were left out, where at most some of each person were counted."""
    return element("p", " ".join(release.left_out), class_="box") if release.left_out else ""


def _agreement(plan: Plan, valid: ValidTables | None) -> Markup | str:
    """Which tables agree where not all do; or what was done to the numbers of valid tables."""
    if valid is None:
        told = " ".join(cautions(plan.mechanism, plan.workload))
        return element("p", told, class_="box") if told else ""
    done = valid.changes
    words = (
        f"These are valid tables: no count is negative, and they agree: {valid.agreement}. "
        f"{done.negative:,} of {done.cells:,} cells were negative before; cells moved by "
        f"{done.mean_move:.2g} standard errors in the mean, at most by {done.largest_move:.2g}; "
        f"margins and sums asked for by at most {done.largest_sum:.2g} of their own. The nearest "
        f"such tables were looked for {done.solved_in_words}. They are "
        f"biased: nearer to the truth where tables are sparse, but not in every cell or table. "
        f"Intervals are those of the unbiased estimates they were made of, which the release and "
        f"its files have."
    )
    return element("p", words, class_="box")
