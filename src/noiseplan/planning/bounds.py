"""How low can the total variance be, for any linear mechanism with Gaussian noise?

For any probability λ on the records, the least weighted sum of variances at privacy cost c is at
least ‖W Λ^{1/2}‖²_*/c, the squared nuclear norm (λ uniform: the SVD bound). The weights taken are
products λ = ⊗d_i, d_i what a longer column of the planned U_i would be worth: the optimal ones to
about three digits. The norm is taken, in this order, as far as it can be,

* over all cells that queries tell apart, where they are few, or over all rows, K = W Λ Wᵀ, where
  these are;
* from the structure, at any scale: heads and tails of attributes (`nuclear_norm`), with as many
  heads as the work allows.

On very small domains λ is improved by its own fixed point, which is exact.

*Replaced records.* Where cells are few, pairs of them have weights of their own
(`optimize.record_pairs`), and the bound is the optimum; it is that of tables of one attribute each
too (`replaced_split`). Else, of two records drawn from λ, (e_r − e_s)ᵀC(e_r − e_s) ≤ c in the mean,
which is 2 tr C(Λ − λλᵀ) ≤ c (1 − Σλ²): the same with W Λ^{1/2} less its direction √λ, and twice the
bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.cells import Classes
from noiseplan.matrices.base import Array
from noiseplan.optimize.allocation import share_for_total
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.record_pairs import replaced_optimum
from noiseplan.optimize.split_coordinates import Point
from noiseplan.planning.attribute_heads import Heads, PricedFactors, plain_heads
from noiseplan.planning.cell_classes import class_gram, classes_of, merged_values
from noiseplan.planning.free_split import cost_and_gradients
from noiseplan.planning.nuclear_norm import HeadedWorkload, root_trace, row_products
from noiseplan.planning.replaced_split import bound_alone
from noiseplan.planning.solve import role_bases, type_matrix
from noiseplan.planning.workload_types import Design, cost_is_exact, measured_alone, privacy_rows

# Up to so many cells the exact optimum is worked out.
DENSE_CELLS = 400
# The gap to which the optimum for pairs of cells is.
PAIRED_GAP = 1e-3
# Cells² × rows: a minute.
PAIRED_WORK = 1.5e9
# Cells times queries that are looked at to find which cells are told apart.
LOOKED_AT = 1 << 24
# Beyond this many values one eigendecomposition per trial is too slow to try several.
SEARCH_UP_TO = 256
# Heads of each attribute, as far as work allows.
LEVELS = (1, 2, 3, 4, 6, 12, 30, 100, 400)
# How much the sum direction counts when the partial isometry is chosen; any value is valid.
SOME_KAPPAS = (0.1, 0.2, 0.35, 0.6, 1.0)
WITHOUT_HEADS, ONE_KAPPA, WITH_HEADS = [*np.geomspace(0.1, 1.2, 13), 1.0], 0.5, (0.1, 0.25)


@dataclass(frozen=True)
class Effort:
    """How large matrices may be whose eigenvalues are worked out.

    One matrix over cells or rows has at most `size` rows; those from the structure have at most
    `work`, Σ rows³, in all, and are made of blocks of at most `largest` states. Attributes with
    one kind of factor have at most so many `heads`: more would bring hardly anything. Where records
    are replaced, all pairs of so many cells are looked at.
    """

    size: int
    work: float
    largest: int
    heads: int
    pairs: int


USUAL, THOROUGH = Effort(1500, 2e9, 500, 4, 400), Effort(5000, 4e10, 1500, 6, 2048)


def total_variance_bound(
    design: Design, rows: dict[int, Array], budget: float, neighbours: str, effort: Effort = USUAL
) -> float:
    """A lower bound on Σ weight · variance at a budget; `rows` are the U planned for the total."""
    if budget == 0:  # everything asked is public, and exact
        return 0.0
    if neighbours == "replace":
        return _replaced_bound(design, rows, effort) / budget * (1 - 1e-9)
    added = bool(design.free or design.joints)
    classes = _few_classes(design, effort) if added else None
    if classes is not None and classes.inner.size <= DENSE_CELLS:
        return dense_optimum(class_gram(design, classes)).bound / budget * (1 - 1e-9)
    if added:
        norm = _by_cells_or_rows(design, classes, _record_weights(design, rows), effort)
        if norm is not None:  # of the same weights of records the structure knows no more
            return norm**2 / budget * (1 - 1e-9)
    return weighted_sum_bound(design, rows, budget, neighbours, effort)


def _few_classes(design: Design, effort: Effort) -> Classes | None:
    """The classes of cells that queries tell apart: few, and found at once."""
    looked_at = merged_values(design).inner.size * len(design.workload)
    return classes_of(design, effort.size) if looked_at <= LOOKED_AT else None


def weighted_sum_bound(
    design: Design, rows: dict[int, Array], budget: float, neighbours: str, effort: Effort
) -> float:
    """The same from the structure alone, for factors with weights on their rows too."""
    records = _record_weights(design, rows)
    if neighbours == "add-remove":
        found = _structured(design, records, effort) ** 2
    elif (alone := bound_alone(design)) is not None:
        found = alone
    else:
        found = max(_replaced(design, some, effort) for some in ({}, records))
    return found / budget * (1 - 1e-9)


def _replaced_bound(design: Design, rows: dict[int, Array], effort: Effort) -> float:
    """At cost one: the optimum of plain tables or few cells, else from the structure.

    Plain tables do not tell values of an attribute from each other, so the mean of an optimum over
    all orders of values is one too: it is Σ_A c_A ⊗(I − 11ᵀ/n), and its noise is shared exactly.
    """
    plain = not (design.free or design.joints)
    if plain and cost_is_exact(design, "replace"):
        bases = role_bases(design, {})
        variance = type_matrix(design, bases).T @ design.type_weight
        return share_for_total(privacy_rows(design, bases, "replace"), variance, 1.0).bound
    cells = design.workload.schema.size
    few = cells <= effort.pairs and cells**2 * min(cells, design.workload.rows) <= PAIRED_WORK
    if few and not measured_alone(design):
        return replaced_optimum(design.gram(), PAIRED_GAP).bound
    return weighted_sum_bound(design, rows, 1.0, "replace", effort)


def centred_norm(design: Design) -> float:
    """A lower bound on ‖W(I − 11ᵀ/n)‖_* / √n: every record alike, and the total left out."""
    return _structured(design, {}, USUAL, centred=True) * (1 - 1e-9)


def _replaced(design: Design, records: dict[int, Array], effort: Effort) -> float:
    """2 ‖W Λ^{1/2}(I − √λ√λᵀ)‖_*² / (1 − Σλ²)."""
    same = 1.0
    for attribute, weights in _attribute_weights(design, records).items():
        same *= float(weights @ (weights / _members(design, attribute)))
    most = 1.0 - same if same < 1.0 else 1.0
    return 2.0 * _structured(design, records, effort, centred=True) ** 2 / most


def _by_cells_or_rows(
    design: Design, classes: Classes | None, records: dict[int, Array], effort: Effort
) -> float | None:
    """The norm itself, over classes of cells or over all rows, where these are few."""
    weights = _attribute_weights(design, records)
    if classes is not None:
        each = [weights[int(i)] for i in classes.values.positions]
        root = np.sqrt(np.bincount(classes.classes, reduce(np.multiply.outer, each).ravel()))
        return float(root_trace(class_gram(design, classes) * np.outer(root, root)))
    products = row_products(design, weights) if design.workload.rows <= effort.size else None
    return None if products is None else float(root_trace(products))


def _record_weights(design: Design, rows: dict[int, Array]) -> dict[int, Array]:
    """d_i of each free role: what a longer column of U_i would be worth."""
    points = {r: Point.at(u) for r, u in rows.items()}
    _, gradients = cost_and_gradients(design, points)
    result = {}
    for r, point in points.items():
        price = np.maximum(point.column_prices(gradients[r]), 0.0) + 1e-12
        result[r] = price / price.sum()
    return result


def _groups(design: Design, attribute: int) -> IntArray:
    """The group of each value; where no query names the attribute, every value its own."""
    role = int(design.roles.of_attribute[attribute])
    return design.groups[role] if role >= 0 else np.arange(design.workload.schema.shape[attribute])


def _members(design: Design, attribute: int) -> IntArray:
    return np.bincount(_groups(design, attribute))


def _attribute_weights(design: Design, records: dict[int, Array]) -> dict[int, Array]:
    """d of every attribute over its groups of values."""
    result = {}
    for attribute, size in enumerate(design.workload.schema.shape):
        role = int(design.roles.of_attribute[attribute])
        result[attribute] = records.get(role, _members(design, attribute) / size)
    return result


def _structured(
    design: Design, records: dict[int, Array], effort: Effort, centred: bool = False
) -> float:
    """With as many heads as the work allows, and with none: that is the better one now and then."""
    plain, factors = _attributes(design, records)

    def seen(count: int, kappa: float) -> HeadedWorkload:
        free = {r: f.heads(count, kappa) for r, f in factors.items()}
        return HeadedWorkload(design, plain | free, effort.largest, centred)

    several = any(len(f.roots) > 1 for f in factors.values())
    heads = 0
    for count in LEVELS if factors else ():
        if count > effort.heads and not several:
            break
        trial = seen(count, WITH_HEADS[0])
        if trial.work(effort.work) > effort.work:
            break
        heads = count
        if all(one.whole for one in trial.heads.values()):
            break
    few = max((f.values for f in factors.values()), default=0) <= SEARCH_UP_TO
    alone = WITHOUT_HEADS if few and factors else [ONE_KAPPA]
    best = max(seen(0, kappa).root() for kappa in alone)
    return max([best, *(seen(heads, kappa).root() for kappa in WITH_HEADS if heads)])


def _attributes(
    design: Design, records: dict[int, Array]
) -> tuple[dict[int, Heads], dict[int, PricedFactors]]:
    """Roles asked by value, which need no heads, and the others."""
    plain, factors = {}, {}
    for r, role in enumerate(design.roles.roles):
        if role.plain:
            plain[r] = plain_heads(design.pairs_of[r], role.size)
        else:
            uniform = np.bincount(design.groups[r]) / role.size  # over values, so by members
            factors[r] = PricedFactors(design, r, records.get(r, uniform))
    return plain, factors


def single_heads(design: Design, rows: dict[int, Array]) -> list[dict[int, Heads]]:
    """Attributes seen by their sums alone, for every κ worth trying."""
    plain, factors = _attributes(design, _record_weights(design, rows))
    choices = SOME_KAPPAS if factors else [ONE_KAPPA]
    return [plain | {r: f.heads(0, kappa) for r, f in factors.items()} for kappa in choices]
