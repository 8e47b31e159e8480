"""What notebooks show of schemas, workloads, plans, releases, answers and comparisons.

The same facts as `print` has, as tables with bars beside the numbers. Colours are those of the
notebook where possible, so that light and dark themes both read well; nothing is loaded and no
script runs. Every text is escaped: labels and names come from anywhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.draw.html import Column, Markup, element, joined, table
from noiseplan.draw.svg import interval_bar, share_bar
from noiseplan.escaping import visible_name
from noiseplan.matrices.base import Array
from noiseplan.release.answers import Answer, shown_columns
from noiseplan.texts import counted
from noiseplan.words import compared, plan
from noiseplan.words.printed import headline, named_facts, telling

if TYPE_CHECKING:
    from noiseplan.comparing.comparison import Comparison
    from noiseplan.planning.plan import Plan, TableKind
    from noiseplan.queries import Query, Workload
    from noiseplan.release.release import Release
    from noiseplan.schema import Schema
    from noiseplan.statistics.statistic import Statistic

EACH: Final = "each value"  # what a factor without a label asks for
SHOWN: Final = 20  # rows of a table; the others are counted
# Within a page that has a style of its own, so every rule is about what stands below `.nz`.
STYLE: Final = Markup(
    """<style>
.nz { font-size: .92em; line-height: 1.45; max-width: 58em; }
.nz p { margin: .2em 0; } .nz .head { font-weight: 600; font-size: 1.08em; }
.nz dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: .4em 0; }
.nz dt { opacity: .72; font-weight: 400; margin: 0; } .nz dd { margin: 0; overflow-wrap: anywhere; }
.nz .scroll { overflow-x: auto; }
.nz table { border-collapse: collapse; margin: .4em 0; font-size: 1em; table-layout: auto; }
.nz caption { text-align: left; padding: 0 0 .2em; font-weight: 600; caption-side: top; }
.nz th, .nz td { padding: .12em 1.1em .12em 0; text-align: left; background: none; border: 0;
  border-bottom: 1px solid rgba(128, 128, 128, .28); font-weight: 400; max-width: 24em;
  overflow-wrap: anywhere; }
.nz thead th { opacity: .72; white-space: nowrap; }
.nz th.n, .nz td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.nz th.pic, .nz td.pic { min-width: 9em; padding-right: 1.1em; }
.nz svg.bar { display: block; width: 100%; height: .8em; overflow: visible; }
.nz svg .fill { fill: #2a78a8; } .nz svg .est { fill: #2a78a8; opacity: .3; }
.nz svg .ci { fill: #2a78a8; opacity: .45; }
.nz svg .zero { stroke: rgba(128, 128, 128, .6); } .nz svg .dot { stroke: currentColor; }
.nz svg line { stroke-width: 2; vector-effect: non-scaling-stroke; }
.nz .note { opacity: .72; } .nz .warn { border-left: .25em solid #c05a00; padding-left: .6em; }
</style>"""
)


def schema_html(schema: Schema) -> Markup:
    """Its attributes: names, sizes, what each may hold."""
    columns = (Column("attribute"), Column("values", number=True), Column("kind"))
    pairs = zip(schema.names, schema.attributes, strict=True)
    rows = [(visible_name(name), f"{each.size:,}", each.describe()) for name, each in pairs]
    caption = f"Schema of {counted(len(schema), 'attribute')}, {counted(schema.size, 'cell')}"
    return _framed(table(caption, columns, rows[:SHOWN]), _more(len(rows), "attributes"))


def workload_html(workload: Workload) -> Markup:
    """Its queries: what each asks of which attributes, and of how many rows it is."""
    queries = [workload.query(position) for position in range(min(SHOWN, len(workload)))]
    columns = (
        Column("query"),
        Column("asks"),
        Column("rows", number=True),
        Column("weight", number=True),
    )
    rows = [(visible_name(q.name), _asked(q), f"{q.rows:,}", f"{q.weight:g}") for q in queries]
    queries_text = counted(len(workload), "query", "queries")
    caption = f"Workload of {queries_text}, {counted(workload.rows, 'row')}"
    return _framed(table(caption, columns, rows), _more(len(workload), "queries"))


def _asked(query: Query) -> str:
    """The factors of a query by attribute."""
    if query.joint is not None:
        return f"a matrix over {visible_name(' × '.join(query.attributes))}"
    factors = (f"{visible_name(name)}: {f.label or EACH}" for name, f in query.factors.items())
    return ", ".join(factors) or "all records"


def plan_html(made: Plan) -> Markup:
    """What is known of a plan, and the errors of its tables as bars."""
    if telling(made).rmse(made) is None:  # its errors are not known before the data are
        return _framed(element("pre", str(made)))
    kinds = plan.shown_rows(made)
    columns = (
        Column("table"),
        Column("rows each", number=True),
        Column("std. error", number=True),
        Column("standard error as a bar", hidden=True),
        Column("largest", number=True),
    )
    most = max(kind["std_error"] for kind in kinds)
    rows = [_kind_row(kind, most) for kind in kinds[:SHOWN]]
    errors = table("Errors, the largest first", columns, rows)
    more = _more(len(kinds), "kinds of tables")
    return _framed(_head(plan.headline(made)), _facts(plan.named_facts(made)), errors, more)


def _kind_row(kind: TableKind, most: float) -> tuple[object, ...]:
    error = kind["std_error"]
    return (
        visible_name(plan.kind_name(kind)),
        f"{kind['rows']:,}",
        f"{error:.4g}",
        share_bar(error / most if most > 0 else 0.0, over=False),
        plan.largest_text(kind["worst_std_error"]),
    )


def release_html(made: Release) -> Markup:
    """What a release promises and holds; a warning where its noise protects nobody."""
    if telling(made.plan).rmse(made.plan) is None:
        return _framed(element("pre", str(made)))
    private = made.provenance.private
    warning = "" if private else element("p", f"Not for publishing: {made.brand}", class_="warn")
    facts = named_facts(made)
    return _framed(_head(headline(made)), warning, _facts(facts))


def answer_html(answer: Answer | Statistic) -> Markup:
    """Its rows with their intervals as pictures, and how these are to be read."""
    shown = min(SHOWN, answer.rows)
    columns = answer.columns()
    texts = shown_columns(columns, shown, answer.digits)
    numbers = [isinstance(values, np.ndarray) for values in columns.values()]
    heads = [Column(name, number=number) for name, number in zip(texts, numbers, strict=True)]
    bars = _interval_bars(columns, shown)
    picture = [Column("interval", hidden=True)] if bars else []
    cells = zip(*texts.values(), strict=True)
    rows = [(*row, *bar) for row, bar in zip(cells, bars or [()] * shown, strict=True)]
    whole = table(visible_name(answer.name), [*heads, *picture], rows)
    said = [answer.reading, answer.method, *answer.notes]
    notes = joined(element("p", text, class_="note") for text in said if text)
    brand = element("p", answer.brand, class_="warn") if answer.brand else ""
    return _framed(whole, _more(answer.rows, "rows"), notes, brand)


def _interval_bars(
    columns: Mapping[str, Sequence[Hashable] | Array], shown: int
) -> list[tuple[Markup, ...]]:
    """A picture of each interval on one scale; none where an end is no number, or not known."""
    inside = "estimate" if "estimate" in columns else "interpolated"
    every = [columns[name] for name in ("lower", inside, "upper")]
    if not all(isinstance(values, np.ndarray) and values.dtype.kind in "if" for values in every):
        return []
    low, middle, high = (np.asarray(values, dtype=np.float64)[:shown] for values in every)
    if not all(np.isfinite(values).all() for values in (low, middle, high)):
        return []
    ends = (min(0.0, float(low.min())), max(0.0, float(high.max())))
    rows = zip(low.tolist(), middle.tolist(), high.tolist(), strict=True)
    return [(interval_bar(*row, ends),) for row in rows]


def comparison_html(comparison: Comparison) -> Markup:
    """The plans with their errors as bars, and what to keep in mind."""
    name, *others = compared.COLUMNS
    columns = [Column(name), *(Column(other, number=other != "privacy") for other in others)]
    columns.insert(2, Column("rmse as a bar", hidden=True))
    errors = [comparison.figures[each.name].rmse for each in comparison.contenders]
    bars = [share_bar(error / max(errors) if max(errors) else 0.0, over=False) for error in errors]
    lines = compared.plan_lines(comparison)
    rows = [(*line[:2], bar, *line[2:]) for line, bar in zip(lines, bars, strict=True)]
    caption, *on = compared.heads(comparison)
    said = (element("p", text.strip(), class_="note") for text in compared.notes(comparison))
    about = joined(element("p", text.strip(), class_="note") for text in on)
    return _framed(about, table(caption, columns, rows), *said)


def _framed(*parts: object) -> Markup:
    return element("div", STYLE, *parts, class_="nz")


def _head(text: str) -> Markup:
    return element("p", text, class_="head")


def _facts(facts: Mapping[str, str]) -> Markup:
    pairs: Iterable[Markup] = (
        joined((element("dt", name), element("dd", _lines(text)))) for name, text in facts.items()
    )
    return element("dl", joined(pairs))


def _lines(text: str) -> Markup:
    return joined((line.strip() for line in text.splitlines()), "<br>")


def _more(rows: int, what: str) -> Markup | str:
    return element("p", f"… {rows - SHOWN:,} more {what}", class_="note") if rows > SHOWN else ""
