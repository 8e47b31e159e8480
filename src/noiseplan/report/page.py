"""One page about a release, from the saved folder alone: it opens anywhere, and asks nobody."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan.draw.html import Column, Markup, element, escaped, joined, table
from noiseplan.draw.svg import budget_chart, level_bars, share_bar
from noiseplan.privacy import Guarantee
from noiseplan.privacy.guarantee import CONVERSION, SHOWN_DELTA
from noiseplan.privacy.rounding import product_up, text_up
from noiseplan.report.released_tables import released_tables
from noiseplan.storage.folder import certificate_words
from noiseplan.texts import counted
from noiseplan.words.level_errors import level_errors
from noiseplan.words.plan import aim, kind_name, largest_text, proved_sentence
from noiseplan.words.privacy import currencies, promise

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan, TableKind
    from noiseplan.release.release import Release

MOST_KINDS = 200
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)
SECTIONS = {
    "privacy": "What is promised",
    "errors": "How precise the tables are",
    "budget": "What another budget would buy",
    "tables": "The tables",
    "certificate": "Certificate",
}


def report_page(
    release: Release, certificate: Mapping[str, Any], *, title: str = "", level: float = 0.95
) -> str:
    """The page as HTML: privacy, expected errors, budget, every table, the certificate.

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
    heading = title or "A differentially private release"
    parts = {
        "privacy": _privacy(release, str(certificate["privacy"]["unit"])),
        "errors": _estimated() if plan.data_aware else _errors(plan),
        "budget": "" if plan.data_aware else _budget(plan),
        "tables": element("div", released_tables(release, level), id="released"),
        "certificate": element("pre", certificate_words(release, dict(certificate))),
    }
    parts = {key: content for key, content in parts.items() if content}
    links = [element("li", element("a", SECTIONS[key], href=f"#{key}")) for key in parts]
    header = element(
        "header",
        element("h1", heading),
        element("p", _summary(release, certificate)),
        _warning(release),
        element("nav", element("ul", joined(links)), aria_label="Sections"),
    )
    sections = [
        element(
            "section",
            element("h2", SECTIONS[key], id=f"{key}-title"),
            content,
            id=key,
            aria_labelledby=f"{key}-title",
        )
        for key, content in parts.items()
    ]
    footer = element(
        "footer",
        element(
            "p", "Made by noiseplan. The page holds everything that it shows, and loads nothing."
        ),
    )
    return _whole_page(heading, joined([header, element("main", *sections, id="main"), footer]))


def _summary(release: Release, certificate: Mapping[str, Any]) -> str:
    workload = release.plan.workload
    made = str(certificate.get("made", ""))[:10]
    return f"{counted(len(workload), 'table')}, {workload.rows:,} numbers, made {made}."


def _warning(release: Release) -> Markup | str:
    warning = release.provenance.warning
    if not warning:
        return ""
    return element("p", f"{warning[0].upper()}{warning[1:]}.", class_="warning")


# ---------------------------------------------------------------------- privacy


def _privacy(release: Release, protected: str) -> Markup:
    guarantee = release.plan.privacy
    unit = "record" if protected == "one record" else release.plan.unit
    words = [
        element("p", sentence, class_="lead" if i == 0 else None)
        for i, sentence in enumerate(promise(guarantee, unit))
    ]
    difference = {
        "add-remove": f"{protected}, there or not there",
        "replace": f"{protected}, replaced by another; how many there are is public",
    }[guarantee.neighbours]
    facts = {
        "What is protected": difference,
        "Noise": release.brand,
        "Ledger": release.recorded or "not recorded in a ledger",
    }
    cards = element(
        "dl", joined(_card(name, value) for name, value in facts.items()), class_="cards"
    )
    rows = [(each.name, each.value, each.meaning) for each in currencies(guarantee)]
    columns = [Column("currency"), Column("cost, rounded up"), Column("note", spare=True)]
    if not rows:
        return joined([*words, cards])
    priced = table("The same promise in every currency", columns, rows)
    how = element("p", f"ε by {CONVERSION[guarantee.law]}.", class_="muted")
    return joined([*words, cards, priced, how])


def _card(name: str, value: object) -> Markup:
    return element("div", element("dt", name), element("dd", value))


# ---------------------------------------------------------------------- errors


def _errors(plan: Plan) -> Markup:
    rows = plan.fairness()
    average = plan.rmse
    largest = max((row["std_error"] for row in rows), default=1.0) or 1.0
    shown = rows[:MOST_KINDS]
    body = []
    for row in shown:
        error = row["std_error"]
        ratio = error / average if average > 0 else 1.0
        numbers = [f"{row['rows']:,}", f"{error:.4g}", largest_text(row["worst_std_error"])]
        bar = share_bar(error / largest, over=ratio > 1)
        body.append([kind_name(row), *numbers, f"{ratio:.2f}", bar])
    columns = [
        Column("table"),
        Column("rows", number=True),
        Column("std. error", number=True),
        Column("largest", number=True, spare=True),
        Column("× average", number=True, spare=True),
        Column("standard error", hidden=True),
    ]
    caption = "Expected standard error of each kind of table, known before any data was read"
    more: Markup | str = ""
    if len(shown) < len(rows):
        more = element("p", f"… and {len(rows) - len(shown):,} kinds with smaller errors.")
    return joined([*_aims(plan, rows), _by_level(plan), table(caption, columns, body), more])


def _by_level(plan: Plan) -> Markup | str:
    """A picture of the errors of each level, where the levels of an attribute are asked."""
    groups: dict[str, list[tuple[str, float]]] = {}
    for each in level_errors(plan):
        groups.setdefault(each.level, []).append((each.table, each.std_error))
    if not groups:
        return ""
    words = "Standard error of every table, by level from the coarsest to the finest."
    return joined([element("p", words, class_="muted"), level_bars(groups)])


def _estimated() -> Markup:
    """What is said instead where buckets were chosen from the data."""
    words = (
        "Neighbouring values were put into buckets that were chosen from the data, privately, and "
        "the total of a bucket is shared evenly among its values. Answers are therefore biased "
        "where buckets are uneven, and every error on this page is estimated: the noise is known "
        "exactly, the bias is not. Intervals are a guide, no confidence intervals."
    )
    return element("p", words)


def _aims(plan: Plan, rows: list[TableKind]) -> list[Markup]:
    """What the plan minimised, and who gains and loses by it."""
    average = plan.rmse
    sentences = [
        f"The average error is {average:.4g}: the root mean square of the standard errors of all "
        f"{plan.workload.rows:,} numbers."
    ]
    if plan.noise == "given":
        sentences.append(
            "The measurements were made elsewhere; these are the best answers they allow."
        )
    elif plan.targets is not None:
        sentences.append(f"The plan is for {aim(plan)}.")
    elif plan.objective.at_most is not None:
        sentences.append(f"The plan is for the {aim(plan)}.")
    else:
        sentences.append(f"The plan aims at the least {plan.objective} at this cost.")
    favoured = [row["table"] for row in reversed(rows) if row["std_error"] < average]
    others = [row["table"] for row in rows if row["std_error"] > average]
    if favoured and others:
        sentences.append(
            f"Most favoured: {_some(favoured)}. Least: {_some(others)}. Weights and objectives "
            f"decide this; a table that matters more than its place needs a weight or a target."
        )
    if (proved := proved_sentence(plan)) is not None:
        sentences.append(proved)
    return [element("p", sentence) for sentence in sentences]


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(f"“{name}”" for name in names[:most])


# ---------------------------------------------------------------------- budget


def _budget(plan: Plan) -> Markup:
    """Variances are inversely proportional to ρ, whatever the plan: no planning is needed."""
    guarantee = plan.privacy
    if not (math.isfinite(guarantee.pcost) and guarantee.pcost > 0):
        return element("p", "The cost is not known or nothing, so there is nothing to compare.")
    costs = [guarantee.rho * times for times in TIMES]
    errors = [plan.rmse / math.sqrt(times) for times in TIMES]
    worst = float(np.sqrt(np.max(plan.type_worst)))
    rows = []
    for times, error in zip(TIMES, errors, strict=True):
        scaled = _scaled(guarantee, times)
        rows.append(
            [
                "this release" if times == 1 else f"{_times(times)} ×",
                text_up(scaled.rho, 4),
                text_up(scaled.epsilon(SHOWN_DELTA), 4),
                f"{error:.4g}",
                largest_text(worst / math.sqrt(times)),
            ]
        )
    columns = [
        Column("budget"),
        Column("ρ", number=True),
        Column(f"ε (δ = {text_up(SHOWN_DELTA)})", number=True),
        Column("error", number=True),
        Column("largest", number=True, spare=True),
    ]
    words = (
        "Variances fall as the budget ρ grows, in proportion: twice the budget makes every "
        "standard error smaller by the factor √2 = 1.41, half of it larger by the same. (Noise of "
        "whole numbers departs from this a little where it is smaller than a few counts.)"
    )
    return joined(
        [
            element("p", words),
            budget_chart(costs, errors, TIMES.index(1.0)),
            table("Average error against budget", columns, rows),
        ]
    )


def _scaled(guarantee: Guarantee, times: float) -> Guarantee:
    """The guarantee at so many times ρ; pure privacy has ρ = ε²/2."""
    if guarantee.pure_epsilon is not None:
        epsilon = product_up(guarantee.pure_epsilon, math.sqrt(times))
        return Guarantee.pure(epsilon, guarantee.neighbours)
    return Guarantee(product_up(guarantee.pcost, times), guarantee.law, guarantee.neighbours)


def _times(times: float) -> str:
    return {0.25: "¼", 0.5: "½"}.get(times, f"{times:g}")


# ---------------------------------------------------------------------- the file


def _whole_page(title: str, body: Markup) -> str:
    """The whole page: style and script inside, and a policy that lets nothing in or out."""
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{body}
<script>{script}</script>
</body>
</html>
"""


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"
