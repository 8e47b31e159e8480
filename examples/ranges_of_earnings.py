"""Ranges and prefix sums of an attribute with 256 values, and why to plan for them.

A plan for single values makes long ranges noisy: their errors add up. A plan for ranges does not.
"""

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
print("standard error of a range of so many bins")
print("  planned for   " + "".join(f"{length:>7}" for length in lengths))
for name, plan in plans.items():
    print(f"  {name:<14}" + "".join(f"{error_of_length(plan, n):>7.1f}" for n in lengths))

# Quantiles are read off the noisy prefix sums.
upto = plans["ranges"].release(cpssw8_path()).answer(prefix)
edges = np.array(schema["earnings"].edges[1:])
for share in (0.1, 0.5, 0.9):
    place = int(np.abs(upto.estimate - share * upto.estimate[-1]).argmin())
    count = f"{upto.estimate[place]:,.0f} ± {1.96 * upto.std_error[place]:.0f} workers"
    print(f"{share:.0%} earn up to {edges[place]:.2f} dollars an hour: {count}")
