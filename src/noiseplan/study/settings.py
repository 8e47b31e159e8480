"""What a study says beside its tables: budget, targets, how to plan, whose records, the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from noiseplan.noise.moments import half_width_factor
from noiseplan.planning.objectives import (
    WORDS,
    Objective,
    PNormVariance,
    TotalVariance,
)
from noiseplan.privacy import GDP, ApproxDP, Budget, Neighbours, PureDP, zCDP
from noiseplan.privacy.people import PERSON, checked_unit
from noiseplan.queries import Workload
from noiseplan.schema.spelling import DECIMALS, THOUSANDS, Spelling
from noiseplan.study.nodes import Node
from noiseplan.study.tables_asked import find_query

BUDGETS = ("zcdp", "gdp", "approx_dp", "pure_dp")
NEIGHBOURS = ("add-remove", "replace")
WEIGHTINGS = ("rows", "tables", "sqrt")
_OBJECTIVES = '"total", "rmse", "worst" or { p = 4 }'
_APPROX = "approx_dp = { epsilon = 1.0, delta = 1e-9 }"


@dataclass(frozen=True)
class Settings:
    """`[plan]`: how to plan."""

    objective: Objective | None = None
    planner: str = "auto"
    neighbours: Neighbours = "add-remove"
    noise: str | None = None
    weighting: str | None = None


@dataclass(frozen=True)
class People:
    """`[people]`: the column that says whose record it is, and how many of each count."""

    person: str
    max_rows: int = 1
    unit: str = PERSON


@dataclass(frozen=True)
class LedgerEntry:
    """`[ledger]`: where a release is recorded before its noise is drawn."""

    path: Path
    dataset: str
    purpose: str


def read_budget(node: Node) -> Budget:
    """One budget, in one of four currencies."""
    _require_currency(node)
    keys = node.table(BUDGETS, "[budget] with zcdp = 0.5")
    chosen = node.exactly_one(keys, BUDGETS, "the budget")
    if chosen is keys.get("approx_dp"):
        parts = chosen.table(("epsilon", "delta"), _APPROX, needed=("epsilon", "delta"))
        epsilon = parts["epsilon"].positive("ε, a number")
        delta = parts["delta"].positive("δ, a number")
        if delta >= 1:
            parts["delta"].fail(
                f"δ is a probability far below one over the number of people, as in 1e-9; "
                f"found {delta:g}"
            )
        return ApproxDP(epsilon, delta)
    amount = chosen.positive("the amount, a number")
    if chosen is keys.get("zcdp"):
        return zCDP(amount)
    return GDP(amount) if chosen is keys.get("gdp") else PureDP(amount)


def _require_currency(node: Node) -> None:
    """Say what a parameter belongs to that stands there alone, as ε does to two currencies."""
    found = node.keys("[budget] with zcdp = 0.5")
    if "epsilon" in found or "delta" in found:
        epsilon = found["epsilon"].value if "epsilon" in found else 1.0
        delta = found["delta"].value if "delta" in found else 1e-9
        pure = "" if "delta" in found else f", or without δ, for Laplace noise: pure_dp = {epsilon}"
        missing = next(
            (f"{name} is missing, and " for name in ("epsilon", "delta") if name not in found), ""
        )
        node.fail(
            f"{missing}ε and δ stand together: approx_dp = {{ epsilon = {epsilon}, "
            f"delta = {delta} }}{pure}"
        )
    for name, currency in (("rho", "zcdp"), ("mu", "gdp")):
        if name in found:
            found[name].fail(
                f"{name} belongs to {currency}: write {currency} = {found[name].value}"
            )


def read_targets(
    node: Node, workload: Workload, laplace: bool = False
) -> Mapping[str, float] | float:
    """Variances that must be met: one for all tables, or by the name of a table.

    `laplace` says that the noise is, or may be, Laplace noise, which has wider intervals.
    """
    if not isinstance(node.value, dict):
        return node.positive("a variance for all tables")
    if not node.value:
        node.fail('name at least one table, as in "age × sex" = 25.0')
    return {name: _target(child, name, workload, laplace) for name, child in node.keys("").items()}


def _target(node: Node, name: str, workload: Workload, laplace: bool) -> float:
    """A variance, or the standard error or half width that amounts to one."""
    with node.blamed():
        find_query(workload, name)
    if not isinstance(node.value, dict):
        return node.positive("a variance, as in 25.0 or { std_error = 5.0 },")
    ways = ("variance", "std_error", "half_width")
    keys = node.table((*ways, "level"), "{ half_width = 10, level = 0.95 }")
    chosen = node.exactly_one(keys, ways, "the target")
    amount = chosen.positive("a number")
    if "level" in keys and chosen is not keys.get("half_width"):
        keys["level"].fail("a level goes with half_width, as in { half_width = 10, level = 0.95 }")
    if chosen is keys.get("variance"):
        return amount
    if chosen is keys.get("std_error"):
        return amount**2
    level = keys["level"].positive("a level") if "level" in keys else 0.95
    if level >= 1:
        keys["level"].fail(f"a level lies between 0 and 1, as in 0.95; found {level:g}")
    return float((amount / half_width_factor(level, 1, laplace)) ** 2)


def read_settings(node: Node | None) -> Settings:
    """How to plan; everything has a default."""
    if node is None:
        return Settings()
    from noiseplan.planning.problem import NOISES

    allowed = ("objective", "at_most", "planner", "neighbours", "noise", "weighting")
    keys = node.table(allowed, '[plan] with objective = "worst"')

    def word(key: str, options: tuple[str, ...], default: str | None) -> str | None:
        return keys[key].choice(options) if key in keys else default

    return Settings(
        objective=_objective(keys.get("objective"), keys.get("at_most")),
        planner=_planner(keys["planner"]) if "planner" in keys else "auto",
        neighbours=cast(Neighbours, word("neighbours", NEIGHBOURS, "add-remove")),
        noise=word("noise", NOISES, None),
        weighting=word("weighting", WEIGHTINGS, None),
    )


def _planner(node: Node) -> str:
    """A planner's name; of some strategies, with a number, as in "hierarchical-4"."""
    from noiseplan.planning.planner import PLANNERS, PURE_PLANNERS
    from noiseplan.strategies.catalogue import PURE_STRATEGIES, asked_by

    if asked_by(node.value) or asked_by(node.value, PURE_STRATEGIES):
        return str(node.value)
    return node.choice((*dict.fromkeys((*PLANNERS, *PURE_PLANNERS)), "dawa"))


def _objective(node: Node | None, at_most: Node | None) -> Objective | None:
    """What is to be small, and what it must reach where that is said."""
    chosen = None if node is None else _named_objective(node)
    if at_most is None:
        return chosen
    most = at_most.positive('what the objective may be at most, as in 2.0 for "rmse",')
    return replace(chosen or TotalVariance(), at_most=most)


def _named_objective(node: Node) -> Objective:
    if isinstance(node.value, dict):
        keys = node.table(("p",), "{ p = 4 }")
        if "p" not in keys:
            node.fail(f"expected {_OBJECTIVES}, the p-norm of the variances")
        p = keys["p"].number("p, a number of at least 1")
        with keys["p"].blamed():
            return PNormVariance(int(p) if p.is_integer() else p)
    if not isinstance(node.value, str):
        node.expected(_OBJECTIVES)
    return WORDS[node.choice(tuple(WORDS))]


def read_people(node: Node) -> People:
    """Whose records they are, and the most of one person that are counted."""
    example = '[people] with person = "patient_id" and max_rows = 3'
    keys = node.table(("person", "max_rows", "unit"), example)
    if "person" not in keys:
        node.fail(f"person is missing: the column that says whose record it is, as in {example}")
    rows = keys["max_rows"].integer("the most rows of one person", 1) if "max_rows" in keys else 1
    unit = keys["unit"].text("household") if "unit" in keys else PERSON
    with keys.get("unit", node).blamed():
        return People(keys["person"].text("patient_id"), rows, checked_unit(unit))


def read_spelling(node: Node) -> Spelling:
    """`[data]`: how text files write missing values and numbers."""
    keys = node.table(("missing", "decimal", "thousands"), '[data] with missing = ["NA", "."]')
    spelled: tuple[str, ...] = ()
    if "missing" in keys:
        items = keys["missing"].items('["NA", "."]')
        spelled = tuple("" if item.value == "" else item.text("NA").strip() for item in items)
    decimal = keys["decimal"].choice(DECIMALS) if "decimal" in keys else "."
    thousands = keys["thousands"].choice(THOUSANDS) if "thousands" in keys else ""
    with (keys.get("thousands") or node).blamed():
        return Spelling(spelled, decimal, thousands)


def read_ledger(node: Node) -> LedgerEntry:
    """Where a release is recorded."""
    example = '[ledger] with file = "office.ledger" and dataset = "wages 2005"'
    keys = node.table(("file", "dataset", "purpose"), example, needed=("file", "dataset"))
    return LedgerEntry(
        path=keys["file"].path("office.ledger"),
        dataset=keys["dataset"].text("wages 2005"),
        purpose=keys["purpose"].text("yearly report") if "purpose" in keys else "",
    )
