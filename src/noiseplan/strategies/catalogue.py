"""Strategies by name: what `planner="hierarchical-4"` measures.

| name | what is measured |
| --- | --- |
| `identity` | every cell |
| `hierarchical`, `hierarchical-B` | sums of trees over ordered attributes, branching in 2 or B |
| `wavelet` (Laplace: `privelet`) | the Haar wavelets of every attribute |
| `fourier` | the Fourier rows that some query needs |
| `workload` | the workload's own rows |
| `singular-value` | the closed form by singular values, its columns filled up |
| `eigen` | the eigen-design |
| `eigen-separated`, `eigen-separated-G` | the same, weighed in groups of n^⅓, or of G |
| `eigen-principal`, `eigen-principal-P` | the same, 10 %, or P %, of the rows weighed one by one |
| `weighted-` and `wavelet`, `hierarchical`, `hierarchical-B`, `fourier` | with the best weights |
| `least-sensitivity` (Laplace) | the Gaussian optimum's AᵀA, with small L1 columns |

The first three are products over attributes, measured and solved by fast transforms; the others are
one matrix over all cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, remedy, setting
from noiseplan.matrices import HaarMatrix, IdentityMatrix, TreeMatrix, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.product import Factor
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.schema import Schema
from noiseplan.strategies.column_norms import Norm, completed, scaled, supports
from noiseplan.strategies.eigen import (
    PRINCIPAL_PERCENT,
    Weigh,
    designed,
    each,
    fourier_strategy,
    in_groups,
    principal,
    singular_value_strategy,
    workload_root,
)
from noiseplan.strategies.given_rows import Strategy, least_sensitivity
from noiseplan.strategies.weighting import weighted_rows


@dataclass(frozen=True)
class StrategyName:
    """A name taken apart: "hierarchical-4" is "hierarchical" with the number 4."""

    name: str
    base: str
    number: float | None

    def whole(self, least: int) -> int | None:
        """The number as an integer, refused below `least`."""
        if self.number is None:
            return None
        if self.number != int(self.number) or self.number < least:
            raise PlanError(
                setting("planner", self.name)
                + f": the number is an integer of at least {least}, as in "
                f"{self.base}-{max(4, least)}"
            )
        return int(self.number)


Builder = Callable[[Schema, Array, Norm, StrategyName], Array]


def product_factors(asked: StrategyName, schema: Schema) -> tuple[Factor, ...] | None:
    """The factor of every attribute, for strategies that are products; None for others."""
    if asked.base == "identity":
        return tuple(IdentityMatrix(n) for n in schema.shape)
    if asked.base in ("wavelet", "privelet"):
        return tuple(HaarMatrix(n) for n in schema.shape)
    if asked.base == "hierarchical":
        branching = asked.whole(least=2) or 2
        # Values without an order have no neighbours: their tree is the total and the values.
        return tuple(
            TreeMatrix(a.size, branching if a.ordered else max(a.size, 2))
            for a in schema.attributes
        )
    return None


def _percent(asked: StrategyName) -> float:
    percent = PRINCIPAL_PERCENT if asked.number is None else asked.number
    if not 0 < percent <= 100:
        raise PlanError(
            setting("planner", asked.name) + ": the number is a percentage, above 0 up to 100"
        )
    return percent


def eigen_weights(asked: StrategyName | Strategy | None) -> Weigh | None:
    """How the rows of an eigen-design are weighed; None for other strategies."""
    if not isinstance(asked, StrategyName) or asked.base not in EIGEN:
        return None
    return EIGEN[asked.base](asked)


EIGEN: Final[dict[str, Callable[[StrategyName], Weigh]]] = {
    "eigen": lambda asked: each,
    "eigen-separated": lambda asked: partial(in_groups, group=asked.whole(least=1)),
    "eigen-principal": lambda asked: partial(principal, percent=_percent(asked)),
}


def _eigen(schema: Schema, gram: Array, norm: Norm, asked: StrategyName) -> Array:
    return designed(gram, norm, True, EIGEN[asked.base](asked))


def _weighted(schema: Schema, gram: Array, norm: Norm, asked: StrategyName) -> Array:
    """The best weights of the rows of another strategy, columns filled up."""
    inner = StrategyName(asked.name, asked.base.removeprefix("weighted-"), asked.number)
    factors = product_factors(inner, schema)
    if factors is None:
        rows = fourier_strategy(schema.shape, gram)
    else:
        rows = kronecker_dense([factor.dense() for factor in factors])
    return completed(weighted_rows(rows, gram, norm)[0], norm)


def _least_sensitivity(schema: Schema, gram: Array, norm: Norm, asked: StrategyName) -> Array:
    best = dense_optimum(gram).strategy
    return completed(least_sensitivity(best.T @ best), norm)


BUILDERS: Final[dict[str, Builder]] = {
    "workload": lambda schema, gram, norm, asked: workload_root(gram),
    "fourier": lambda schema, gram, norm, asked: fourier_strategy(schema.shape, gram),
    "singular-value": lambda schema, gram, norm, asked: singular_value_strategy(gram, norm),
    **dict.fromkeys(EIGEN, _eigen),
    "weighted-hierarchical": _weighted,
    "weighted-wavelet": _weighted,
    "weighted-fourier": _weighted,
    "least-sensitivity": _least_sensitivity,
}
# By the noise: some names of Laplace plans mean plans of tables and are made elsewhere.
STRATEGIES: Final = ("identity", "hierarchical", "wavelet", *list(BUILDERS)[:-1])
PURE_STRATEGIES: Final = ("hierarchical", "privelet", *list(BUILDERS)[1:])
NUMBERED: Final = (
    "hierarchical",
    "weighted-hierarchical",
    "eigen-separated",
    "eigen-principal",
)


# Planners for Laplace noise only.
LAPLACE_ONLY: Final = ("least-sensitivity", "privelet", "matrix", "p-identity", "tree")


def unknown_planner(planner: object, known: tuple[str, ...]) -> str:
    """What to say of a planner that is none, or none for Gaussian noise.

    Examples
    --------
    >>> unknown_planner("tree", ("auto",))
    "planner='tree' is for Laplace noise, budget=PureDP(1.0), only; choose from auto, dawa"
    >>> unknown_planner("atuo", ("auto",))
    "unknown planner 'atuo'; choose from auto, dawa; did you mean 'auto'?"
    """
    listed = [*known, "dawa"]
    numbered = [f"{name}-4" for name in NUMBERED if name in known]
    choice = f"choose from {', '.join(listed)}"
    if numbered:
        choice += f", or with a number, as in {', '.join(numbered)}"
    if planner in LAPLACE_ONLY:
        pure = remedy("pure budget", "budget=PureDP(1.0)", "1.0")
        laplace = " is for Laplace noise, " + pure + ", only; "
        return setting("planner", str(planner)) + laplace + choice
    near = get_close_matches(str(planner), listed + numbered, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown planner {planner!r}; {choice}{meant}"


def asked_by(planner: object, names: tuple[str, ...] = STRATEGIES) -> StrategyName | None:
    """The strategy that a name stands for; None if it stands for none.

    Examples
    --------
    >>> asked_by("hierarchical-4")
    StrategyName(name='hierarchical-4', base='hierarchical', number=4.0)
    >>> asked_by("residual") is None
    True
    """
    if not isinstance(planner, str):
        return None
    if planner in names:
        return StrategyName(planner, planner, None)
    found = re.fullmatch(r"(?P<base>.+)-(?P<number>\d+(\.\d+)?)", planner)
    if found and found["base"] in NUMBERED and found["base"] in names:
        return StrategyName(planner, found["base"], float(found["number"]))
    return None


def strategy_matrix(
    asked: StrategyName | Strategy, schema: Schema, gram: Array, norm: Norm
) -> Array:
    """A with a largest column norm of one; refused where it cannot answer the workload."""
    if isinstance(asked, Strategy):
        rows = asked.matrix(gram, norm)
    else:
        rows = BUILDERS[asked.base](schema, gram, norm, asked)
    strategy = scaled(np.asarray(rows), norm)
    if not supports(strategy, gram):
        raise PlanError(
            f"the {asked.name} does not determine every query of the workload: add rows, or use "
            f"planner='optimal'"
            if isinstance(asked, Strategy)
            else setting("planner", asked.name)
            + " does not determine every query of this workload; use "
            + setting("planner", "optimal")
        )
    return strategy
