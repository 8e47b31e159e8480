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
from noiseplan.console import say
from noiseplan.counting import Projectable, open_source
from noiseplan.data import cpssw8_path, cpssw8_schema
from noiseplan.draw.error_dots import ForestRow, forest_picture
from noiseplan.draw.picture import Picture
from noiseplan.draw.table_svg import answer_picture
from noiseplan.release.answers import Answer

BUDGET = nz.ApproxDP(epsilon=1.0, delta=1e-9)
LEVEL = 0.95
TABLES_DRAWN = {"age": "age", "earnings": "hourly earnings in dollars"}


@click.command()
@click.option("--seed", type=int, help="Draw the same noise every time, which is not private.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("pictures"),
    show_default=True,
    help="Folder for the pictures.",
)
@click.option("--format", "kind", type=click.Choice(["svg", "html"]), default="svg")
def main(seed: int | None, out: Path, kind: str) -> None:
    """Plan and release tables of a survey of 61,395 workers."""
    schema = cpssw8_schema()
    _heading("1  Declare what is public", "a survey of US workers, March 2005")
    say(schema)

    workload = labour_workload(schema)
    _heading("2  Say what people want to know", "every table counts the same, whatever its size")
    say(workload)

    plan = nz.plan(workload.weighted("tables"), budget=BUDGET)
    _heading("3  Plan the noise", "every error is known before any data is read")
    say(plan)

    started = perf_counter()
    release = plan.release(cpssw8_path(), seed=seed)
    took = f"{perf_counter() - started:.2f} s"
    _heading("4  Release", f"counted by DuckDB in {cpssw8_path().name}, noise added once: {took}")
    say(release)

    earnings = release.answer(nz.Query(schema, ["gender", "earnings"]), level=LEVEL)
    _heading("5  Read a table", f"workers by dollars an hour, ± half the {LEVEL:.0%} interval")
    say(earnings_table(earnings))

    _heading("6  Ask something else", "no further privacy is spent, and the error is exact")
    say(_sentence(release.answer(young_women_above_twenty(schema), level=LEVEL)))

    _heading("7  Check", "against the true counts too, since this survey is public")
    say(check_sums(release))
    say(check_intervals(release, open_source(cpssw8_path(), schema)))

    _heading("8  Look", "the pictures")
    for line in draw(release, out, kind):
        say(f"  {line}")


def labour_workload(schema: nz.Schema) -> nz.Workload:
    """What a labour statistician might want of the survey."""
    by_value, up_to, ranges = nz.Identity(), nz.Prefix(), nz.Ranges()
    bands = nz.Levels({age: age_band(age) for age in range(21, 65)}, leaves=False, total=False)
    chosen = [
        nz.Query(
            schema,
            {"gender": by_value, "age": up_to, "region": by_value},
            name="ages up to, by gender and region",
        ),
        nz.Query(
            schema,
            {"gender": by_value, "earnings": ranges},
            name="earnings ranges by gender",
        ),
        nz.Query(
            schema,
            {"gender": by_value, "age": bands, "earnings": up_to},
            name="earnings up to, by gender and age band",
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
        name="women aged 25 to 34 with 20 dollars an hour or more",
    )


def _sentence(answer: Answer) -> str:
    return (
        f"{answer.query.name}:\n"
        f"  {answer.estimate[0]:,.0f}, standard error {answer.std_error[0]:.1f}, "
        f"{answer.level:.0%} interval {answer.lower[0]:,.0f} to {answer.upper[0]:,.0f} (noise only)"
    )


def earnings_table(answer: Answer) -> str:
    """Earnings down the page, women and men side by side."""
    schema = answer.query.schema
    genders, bins = schema["gender"].labels, schema["earnings"].labels
    estimates = answer.estimate.reshape(len(genders), len(bins))
    halves = ((answer.upper - answer.lower) / 2).reshape(estimates.shape)
    lines = [f"  {'earnings':<10}" + "".join(f"{gender:>10}{'':7}" for gender in genders)]
    for label, values, reaches in zip(bins, estimates.T, halves.T, strict=True):
        cells = zip(values, reaches, strict=True)
        text = "".join(f"{value:>z10,.0f} ± {reach:<4.0f}" for value, reach in cells)
        lines.append(f"  {label:<10}{text}")
    lines.append("  Answers are unbiased, so the noise may take a small count below zero.")
    return "\n".join(line.rstrip() for line in lines)


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
    from noiseplan.comparing.simulating import true_answer  # --help starts without it

    inside = rows = 0
    for query in release.plan.workload:
        truth = true_answer(source, query)  # which a custodian must never print
        answer = release.answer(query, level=LEVEL)
        inside += int(((answer.lower <= truth) & (truth <= answer.upper)).sum())
        rows += query.rows
    question = young_women_above_twenty(release.plan.workload.schema)
    truth = true_answer(source, question)
    return (
        f"Intervals hold: {inside:,} of {rows:,} rows ({inside / rows:.1%}) have their true count "
        f"within the {LEVEL:.0%} interval.\n"
        f"The true answer to the question of step 6: {truth[0]:,.0f}."
    )


def draw(release: nz.Release, out: Path, kind: str) -> list[str]:
    """Write the pictures and return where they are."""
    out.mkdir(parents=True, exist_ok=True)
    pictures = {other: _table_picture(release, other) for other in TABLES_DRAWN}
    errors = list(expected_errors(release.plan))
    pictures["expected-errors"] = forest_picture(errors, unit="workers")
    return [str(each.save(out / f"{name}.{kind}")) for name, each in pictures.items()]


def _table_picture(release: nz.Release, attribute: str) -> Picture:
    query = nz.Query(release.plan.workload.schema, ["gender", attribute])
    answer = release.answer(query, level=LEVEL)
    title = f"Workers in the survey, by {TABLES_DRAWN[attribute]} and gender"
    return answer_picture(answer, title, [attribute, "gender"], unit="workers")


def expected_errors(plan: nz.Plan) -> Iterator[ForestRow]:
    """The standard error of every table: root mean square, and of its best and worst row."""
    for query in plan.workload:
        errors = plan.std_error(query).round(9)  # equal errors may differ in the last bit
        overall = float(np.sqrt(np.mean(errors**2)))
        yield ForestRow(query.name, overall, float(errors.min()), float(errors.max()))


def _heading(title: str, note: str) -> None:
    click.echo()
    click.echo(click.style(title, bold=True) + click.style(f"  ·  {note}", dim=True))


if __name__ == "__main__":
    main()
