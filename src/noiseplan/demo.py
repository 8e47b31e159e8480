"""A tour in one command: plan and release tables of 61,395 workers, and look at what came out.

Run it with ``python -m noiseplan.demo``. The survey is public, so the demonstration can do what no
custodian can: compare the noisy answers with the true ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import click
import numpy as np

import noiseplan as nz
from noiseplan._charts import ForestRow, MissingExtraError, error_bar_chart, forest_chart
from noiseplan.counting import Projectable, open_source
from noiseplan.data import cpssw8_path, cpssw8_schema
from noiseplan.matrices.base import Array
from noiseplan.release.answer import Answer

BUDGET = nz.ApproxDP(epsilon=1.0, delta=1e-9)
LEVEL = 0.95


@click.command()
@click.option("--seed", type=int, help="Draw the same noise every time; for trying things out only.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    help="Folder for the pictures.",
)
def main(seed: int | None, out: Path) -> None:
    """Plan and release tables of a survey of 61,395 workers."""
    schema = cpssw8_schema()
    _heading("1  Declare what is public", "61,395 US workers in 2004; earnings in dollars an hour")
    click.echo(schema)

    workload = labour_workload(schema)
    _heading("2  Say what people want to know", "every table counts the same, whatever its size")
    click.echo(workload)

    plan = nz.plan(workload.weighted("tables"), budget=BUDGET)
    _heading("3  Plan the noise", f"within {BUDGET}; every error is known before any data is read")
    click.echo(plan)

    started = perf_counter()
    release = plan.release(cpssw8_path(), seed=seed)
    seconds = perf_counter() - started
    counted = f"DuckDB counted {cpssw8_path().name}, noise was added once: {seconds:.2f} s"
    _heading("4  Release", counted)
    click.echo(release)

    earnings = release.answer(nz.Query(schema, ["gender", "earnings"]), level=LEVEL)
    _heading("5  Read a table", f"dollars an hour by gender, ± half a {LEVEL:.0%} interval")
    click.echo(earnings_table(earnings))

    _heading("6  Ask something else", "no further privacy is spent, and the error is exact")
    question = young_women_above_twenty(schema)
    click.echo(_sentence(release.answer(question, level=LEVEL)))

    _heading("7  Check", "possible here because this survey is public")
    source = open_source(cpssw8_path(), schema)
    click.echo(check_sums(release))
    click.echo(check_intervals(release, source))

    _heading("8  Look", "")
    for line in draw(plan, earnings, out):
        click.echo(line)


def labour_workload(schema: nz.Schema) -> nz.Workload:
    """What a labour statistician might want of the survey."""
    by_value, up_to, ranges = nz.Identity(), nz.Prefix(), nz.Ranges()
    bands = nz.Levels({age: age_band(age) for age in range(21, 65)}, leaves=False, total=False)
    chosen = [
        nz.Query(
            schema,
            {"gender": by_value, "age": up_to, "region": by_value},
            name="up to each age, by gender and region",
        ),
        nz.Query(
            schema,
            {"gender": by_value, "earnings": ranges},
            name="every range of earnings, by gender",
        ),
        nz.Query(
            schema,
            {"gender": by_value, "age": bands, "earnings": up_to},
            name="up to each earnings, by gender and age band",
        ),
        nz.Query(schema, ["gender", "education", "earnings"]),
    ]
    return nz.Workload(chosen) + nz.Workload.marginals(schema, up_to=2)


def age_band(age: int) -> str:
    """The statistical office's age band: 21–24, then ten years each."""
    if age < 25:
        return "21–24"
    first = (age - 5) // 10 * 10 + 5
    return f"{first}–{first + 9}"


def young_women_above_twenty(schema: nz.Schema) -> nz.Query:
    """Women aged 25 to 34 who earn 20 dollars an hour or more: one row, not in the workload."""
    ages = [[25 <= age <= 34 for age in range(21, 65)]]
    bins = [[low >= 20 for low in range(0, 80, 5)]]
    factors = {"gender": [[True, False]], "age": ages, "earnings": bins}
    return nz.Query(
        schema,
        {attribute: nz.Custom(row) for attribute, row in factors.items()},
        name="women aged 25 to 34 who earn 20 dollars an hour or more",
    )


def _sentence(answer: Answer) -> str:
    return (
        f"How many {answer.query.name}?\n"
        f"  {answer.estimate[0]:,.0f}, standard error {answer.std_error[0]:.1f}, "
        f"{answer.level:.0%} interval {answer.lower[0]:,.0f} to {answer.upper[0]:,.0f} (noise only)"
    )


def earnings_table(answer: Answer) -> str:
    """Earnings down the page, women and men side by side."""
    genders = answer.query.schema["gender"].labels
    bins = answer.query.schema["earnings"].labels
    shape = len(genders), len(bins)
    estimate = answer.estimate.reshape(shape)
    half = ((answer.upper - answer.lower) / 2).reshape(shape)
    lines = [f"  {'earnings':<10}" + "".join(f"{gender:>19}" for gender in genders)]
    for column, label in enumerate(bins):
        cells = zip(estimate[:, column], half[:, column], strict=True)
        text = "".join(f"{value:>12,.0f} ± {reach:<4,.0f}" for value, reach in cells)
        lines.append(f"  {label:<10}{text}".rstrip())
    return "\n".join(lines)


def check_sums(release: nz.Release) -> str:
    """Put three tables that were never forced to agree side by side."""
    schema = release.plan.workload.schema
    by_both, by_region, total = (
        release.answer(nz.Query(schema, list(names))).estimate
        for names in (("gender", "region"), ("region",), ())
    )
    regions = schema["region"].labels
    women, men = by_both.reshape(2, len(regions))
    rows = {
        "gender × region: female": (*women, women.sum()),
        "gender × region: male": (*men, men.sum()),
        "their sum": (*(women + men), by_both.sum()),
        "region; total": (*by_region, total[0]),
    }
    wide = max(map(len, rows))
    lines = ["Tables add up:".ljust(wide + 2) + "".join(f"{r:>12}" for r in (*regions, "all"))]
    lines += [f"  {n:<{wide}}" + "".join(f"{v:>12,.2f}" for v in row) for n, row in rows.items()]
    gap = np.abs(np.subtract(rows["their sum"], rows["region; total"])).max()
    return "\n".join([*lines, f"  largest difference: {gap:.1g} (rounding of floating-point sums)"])


def check_intervals(release: nz.Release, source: Projectable) -> str:
    """Count how many of the workload's intervals hold the true count."""
    inside = rows = 0
    for query, truth in true_answers(release.plan.workload, source):
        answer = release.answer(query, level=LEVEL)
        inside += int(((answer.lower <= truth) & (truth <= answer.upper)).sum())
        rows += query.rows
    question = young_women_above_twenty(release.plan.workload.schema)
    ((_, truth),) = true_answers(nz.Workload([question]), source)
    return (
        f"Intervals hold: {inside:,} of {rows:,} rows ({inside / rows:.1%}) have their true count "
        f"within the {LEVEL:.0%} interval.\n"
        f"The true answer to the question of step 6: {truth[0]:,.0f}."
    )


def true_answers(workload: nz.Workload, source: Projectable) -> Iterator[tuple[nz.Query, Array]]:
    """The exact answers, which a custodian must never print."""
    schema = workload.schema
    for query in workload:
        attributes = np.array([[schema.index(name) for name in query.attributes]], dtype=np.int64)
        cells = source.marginals(attributes)[0].astype(float)
        for axis, factor in enumerate(query.matrices()):
            cells = np.moveaxis(factor.matmul(np.moveaxis(cells, axis, 0)), 0, axis)
        yield query, cells.ravel()


def draw(plan: nz.Plan, earnings: Answer, out: Path) -> list[str]:
    """Write the pictures; say where they are, or what is missing to draw them."""
    out.mkdir(parents=True, exist_ok=True)
    title = "US workers by hourly earnings (dollars), 2004"
    try:
        pictures = [
            error_bar_chart(
                earnings.columns(),
                "earnings",
                "gender",
                title,
                LEVEL,
                out / "earnings.png",
                unit="workers",
            ),
            forest_chart(list(expected_errors(plan)), out / "expected-errors.png", unit="workers"),
        ]
    except MissingExtraError as error:
        return [f"No pictures: {error}"]
    return [f"  {picture}" for picture in pictures]


def expected_errors(plan: nz.Plan) -> Iterator[ForestRow]:
    """The standard error of every table: root mean square, and of its best and worst row."""
    for query in plan.workload:
        errors = plan.std_error(query)
        overall = float(np.sqrt(np.mean(errors**2)))
        yield ForestRow(query.name, overall, float(errors.min()), float(errors.max()))


def _heading(title: str, note: str) -> None:
    click.echo()
    click.echo(click.style(title, bold=True) + (click.style(f"  ·  {note}", dim=True) if note else ""))


if __name__ == "__main__":
    main()
