"""A comparison in words and figures: what `print(comparison)` shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from noiseplan.escaping import visible
from noiseplan.noise.moments import half_width_factor
from noiseplan.privacy.people import unit_text
from noiseplan.texts import counted, duration
from noiseplan.words.privacy import brief_cost

if TYPE_CHECKING:
    from noiseplan.comparing.comparison import Comparison, Contender
    from noiseplan.comparing.error_figures import Figure

# Plans whose errors are fewer Monte Carlo standard errors apart are not told apart, and those that
# differ by less than this share are as good as each other.
APART = 2.0
ALIKE = 0.005
# Standard errors from fewer runs are themselves far off.
FEW_RUNS = 20
# Of the interval around a simulated figure, half of which is its ±.
LEVEL = 0.95


COLUMNS = ("plan", "rmse", "worst", "bias", "planned", "release", "privacy")


def described(comparison: Comparison) -> str:
    """Head, one line per plan, and what to keep in mind."""
    lines = [COLUMNS, *plan_lines(comparison)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    shown = ["  " + "  ".join(_aligned(line, widths)).rstrip() for line in lines]
    return visible("\n".join([*heads(comparison), "", *shown, "", *notes(comparison)]))


def plan_lines(comparison: Comparison) -> list[tuple[str, ...]]:
    """What is told of each plan, under `COLUMNS`."""
    return [_line(each, comparison.figures[each.name]) for each in comparison.contenders]


def _aligned(line: tuple[str, ...], widths: list[int]) -> list[str]:
    last = len(line) - 1
    return [
        f"{cell:<{width}}" if i in (0, last) else f"{cell:>{width}}"
        for i, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _line(each: Contender, figure: Figure) -> tuple[str, ...]:
    bias, half = "0", ""
    if each.simulated:
        half = f" ± {_two_digits(half_width_factor(LEVEL, 1) * figure.rmse_error)}"
        bias = f"{figure.bias:.3g}" if figure.bias_seen else f"< {figure.bias:.2g}"
    return (
        each.name,
        f"{figure.rmse:.4g}{half}",
        f"{figure.worst:.4g}",
        bias,
        duration(each.planned),
        "" if each.run is None else duration(each.run),
        _privacy(each),
    )


def _privacy(each: Contender) -> str:
    """What is promised, in a few words."""
    privacy = each.privacy
    unit = unit_text(each.max_rows, each.unit)
    whom = f", for {unit}" if unit else ""
    if not math.isfinite(privacy.pcost):
        return "not known"
    return brief_cost(privacy, 4) + whom


def _two_digits(value: float) -> str:
    """Two significant digits, 23 and not 2.3e+01."""
    return f"{float(f'{value:.2g}'):g}"


def heads(comparison: Comparison) -> list[str]:
    """What is compared, and on which data."""
    plans = counted(len(comparison.contenders), "plan")
    queries = counted(len(comparison.workload), "query", "queries")
    lines = [f"Comparison of {plans} over {queries}, {comparison.workload.rows:,} rows"]
    if comparison.size is not None:
        lines.append(
            f"  example data: {comparison.records:,} records, taken to be public; root mean square "
            f"of the true answers {comparison.size:.4g}"
        )
    return lines


def notes(comparison: Comparison) -> list[str]:
    """What to keep in mind, the verdict first."""
    said = [_verdict(comparison)]
    if any(each.simulated for each in comparison.contenders):
        said += [
            f"  ± half of the {100 * LEVEL:g} % interval over {comparison.runs} simulated runs on "
            f"the example data;",
            "  on other data these errors are others. Those without ± are exact, for any data",
        ]
        if comparison.runs < FEW_RUNS:
            said.append(f"  so few runs may mislead, ± included: runs={5 * FEW_RUNS} tells more")
    else:
        said.append("  all errors are exact, for any data")
    if not comparison.same_privacy:
        said.append("  the plans do not promise the same privacy: not only their errors differ")
    return said


def _verdict(comparison: Comparison) -> str:
    if len(comparison.contenders) == 1:
        return "  there is nothing to compare it with"
    figures = comparison.figures
    first, second = sorted(figures, key=lambda name: figures[name].rmse)[:2]
    low, high = figures[first], figures[second]
    noise = (low.rmse_error**2 + high.rmse_error**2) ** 0.5
    if noise and high.rmse - low.rmse <= APART * noise:
        return f"  {first} and {second} are not told apart by their rmse; more runs= may"
    if high.rmse - low.rmse <= ALIKE * high.rmse:
        return f"  lowest rmse: {first}, and {second} alike"
    return f"  lowest rmse: {first}, {low.rmse / high.rmse:.2g} of that of {second}"
