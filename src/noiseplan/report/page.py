"""One page about a release, from the saved folder alone: it opens anywhere, and asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noiseplan.draw.html import Markup, element, joined
from noiseplan.report.budgets import other_budgets
from noiseplan.report.offline_page import offline_page
from noiseplan.report.plan_errors import plan_errors
from noiseplan.report.privacy_box import difference, privacy_in_detail, promise_box
from noiseplan.report.released_tables import released_tables
from noiseplan.storage.folder import certificate_words
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.release.release import Release


def report_page(
    release: Release, certificate: Mapping[str, Any], *, title: str = "", level: float = 0.95
) -> str:
    """The page as HTML: the promise, every table, expected errors, budget, the certificate.

    Parameters
    ----------
    release
        A release, such as `noiseplan.load` returns.
    certificate
        What `certificate.json` of the saved release holds.
    title
        What it is about; shown on top.
    level
        Level of the intervals.
    """
    plan = release.plan
    protected = str(certificate["privacy"]["unit"])
    heading = title or "A differentially private release"
    header = joined(
        [
            element("h1", heading),
            element("p", _summary(release, certificate)),
            _warning(release),
            promise_box(plan.privacy, protected, plan.unit),
        ]
    )
    facts = {
        "What is protected": difference(plan.privacy, protected),
        "Noise": release.brand,
        "Ledger": release.recorded or "not recorded in a ledger",
    }
    sections = {
        "The tables": element("div", released_tables(release, level), id="released"),
        "How precise the tables are": plan_errors(plan),
        "What another budget would buy": Markup("") if plan.data_aware else other_budgets(plan),
        "The promise in every currency": privacy_in_detail(plan.privacy, facts),
        "Certificate": element("pre", certificate_words(release, dict(certificate))),
    }
    shown = {name: content for name, content in sections.items() if content.text}
    return offline_page(heading, header, shown)


def _summary(release: Release, certificate: Mapping[str, Any]) -> str:
    workload = release.plan.workload
    made = str(certificate.get("made", ""))[:10]
    return f"{counted(len(workload), 'table')}, {workload.rows:,} numbers, made {made}."


def _warning(release: Release) -> Markup | str:
    warning = release.provenance.warning
    if not warning:
        return ""
    return element("p", f"{warning[0].upper()}{warning[1:]}.", class_="warning")
