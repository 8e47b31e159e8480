"""Ranges and prefix sums of an attribute with 256 values, and a picture of why to plan for them.

A plan for single values makes long ranges noisy: their errors add up. A plan for ranges does not.
"""

from pathlib import Path

import altair as alt
import numpy as np

import noiseplan as nz
from noiseplan.data import cpssw8_path

BINS = 256
schema = nz.Schema({"earnings": nz.Binned(np.linspace(0, 80, BINS + 1))})  # dollars an hour
values = nz.Query(schema, ["earnings"])
prefix = nz.Query(schema, {"earnings": nz.Prefix()})
ranges = nz.Query(schema, {"earnings": nz.Ranges()})

budget = nz.zCDP(0.01)
plans = {
    "single values": nz.plan(nz.Workload([values]), budget=budget),
    "ranges": nz.plan(nz.Workload([prefix, ranges]), budget=budget),
}


def error_of_length(plan: nz.Plan, length: int) -> float:
    """Root mean squared error of all ranges of this many bins."""
    covariance = plan.covariance(prefix, prefix)
    ends = np.arange(length, BINS)
    variance = np.diag(covariance)[ends] + np.diag(covariance)[ends - length]
    variance = variance - 2 * covariance[ends, ends - length]
    return float(np.sqrt(np.append(variance, covariance[length - 1, length - 1]).mean()))


lengths = [1, 2, 4, 8, 16, 32, 64, 128, 256]
rows = [
    {"bins in the range": length, "standard error": error_of_length(plan, length), "planned for": n}
    for n, plan in plans.items()
    for length in lengths
]
print("standard error of a range of so many bins")
print("  planned for   " + "".join(f"{length:>7}" for length in lengths))
for name in plans:
    errors = [row["standard error"] for row in rows if row["planned for"] == name]
    print(f"  {name:<14}" + "".join(f"{error:>7.1f}" for error in errors))

# Quantiles are read off the noisy prefix sums.
upto = plans["ranges"].release(cpssw8_path()).answer(prefix)
edges = np.array(schema["earnings"].edges[1:])
for share in (0.1, 0.5, 0.9):
    place = int(np.abs(upto.estimate - share * upto.estimate[-1]).argmin())
    count = f"{upto.estimate[place]:,.0f} ± {1.96 * upto.std_error[place]:.0f} workers"
    print(f"{share:.0%} earn up to {edges[place]:.2f} dollars an hour: {count}")

folder = Path("pictures")
folder.mkdir(exist_ok=True)
chart = alt.Chart(alt.Data(values=rows), width=420, height=260, title="Plan for what you ask")
axis = alt.Scale(type="log", base=2)
lines = chart.mark_line(point=True).encode(
    alt.X("bins in the range:Q", scale=axis),
    alt.Y("standard error:Q", title="standard error (workers)"),
    alt.Color("planned for:N", scale=alt.Scale(range=["#D55E00", "#0072B2"])),
)
lines.save(folder / "ranges.png", scale_factor=2)
print(f"picture: {folder / 'ranges.png'}")
