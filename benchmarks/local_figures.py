"""The published experiments over 512 types, remade with classical mechanisms in their best form."""

from __future__ import annotations

import time

import noiseplan as nz
from benchmarks.local_published import WORKLOADS
from benchmarks.local_recipe import Recipe
from benchmarks.local_workloads import local_workload
from benchmarks.tables import Cell, Claim, Table, all_rows, brief

TYPES = 512
EPSILONS = (0.5, 1.0, 2.0, 4.0)
# Plans for ordered workloads take minutes at this size; a shorter search shows the same.
ORDERED, ORDERED_EFFORT = ("Prefix", "AllRange"), 0.5
AGAINST_RECIPE = 0.9


def figure_one() -> Table:
    """Every workload and ε: users needed, beside the best classical mechanism and the bound."""
    rows: list[tuple[Cell, ...]] = []
    ratios = []
    for name in WORKLOADS:
        workload = local_workload(name, TYPES)
        for epsilon in EPSILONS:
            effort = ORDERED_EFFORT if name in ORDERED else 1.0
            started = time.process_time()
            plan = nz.local.plan(workload, epsilon, effort=effort)
            took = time.process_time() - started
            classical = nz.local.compare(workload, epsilon)
            best = min(classical, key=lambda key: classical[key])
            samples, bound = plan.samples(), plan.samples(case="bound")
            ratios.append(classical[best] / samples)
            good = samples <= classical[best] * (1 + 1e-9) and samples >= bound * (1 - 1e-9)
            figures = classical[best], samples, classical[best] / samples, bound, samples / bound
            rows.append((f"{name}, ε = {epsilon:g}", best, *map(brief, (*figures, took)), good))
    return Table(
        title="Local plans: 512 types, as in the published Figure 1",
        sentence=(
            "Users needed for a normalized variance of 0.01 in the worst case; CPU seconds of one "
            "core. Published: optimised strategies are best everywhere, by factors of 1.0 "
            "(Histogram, ε = 0.5) to 14.6 (AllRange, ε = 4); the latter against Hadamard response "
            "in its weaker form, and without subset selection, which is optimal for Histogram."
        ),
        source="every classical mechanism of `noiseplan.local.compare`, and the lower bound.",
        columns=(
            "workload | best classical | needs | measured | ratio | bound | over bound | seconds | "
            "verdict"
        ),
        rows=tuple(rows),
        claims=(
            all_rows("no classical mechanism better, none below the bound", rows),
            Claim(
                f"best classical over measured from {min(ratios):.2f} to {max(ratios):.2f}",
                min(ratios) >= 1 - 1e-9,
            ),
        ),
    )


def against_recipe() -> Table:
    """Prefix and AllRange at ε = 1: the published recipe, run here."""
    rows: list[tuple[Cell, ...]] = []
    for name in ORDERED:
        workload = local_workload(name, TYPES)
        plan = nz.local.plan(workload, 1.0, effort=ORDERED_EFFORT)
        started = time.process_time()
        recipe = Recipe(plan.types.gram, 1.0).samples(plan.types.rows)  # type: ignore[union-attr]
        took = time.process_time() - started
        ratio = plan.samples() / recipe
        rows.append(
            (name, *map(brief, (recipe, took, plan.samples(), ratio)), ratio <= AGAINST_RECIPE)
        )
    return Table(
        title="Local plans: 512 types against the published recipe",
        sentence="Users needed at ε = 1, worst case; CPU seconds of the recipe.",
        source="the published optimiser, re-implemented step by step and run in the same process.",
        columns="workload | recipe | its seconds | measured | ratio | verdict",
        rows=tuple(rows),
        claims=(all_rows(f"at most {AGAINST_RECIPE:g} × the recipe", rows),),
    )
