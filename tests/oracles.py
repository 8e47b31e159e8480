"""Independent oracles on small domains: dense matrices, brute force, convex programming.

Nothing here uses the planner's formulas. What a mechanism measures is found by probing it: unit
vectors without noise give the rows of B, unit noise without data gives their standard deviations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, combinations, pairwise
from math import prod

import cvxpy as cp
import numpy as np

import noiseplan as nz
from noiseplan.noise import Noise

Array = np.ndarray
Sets = Sequence[tuple[int, ...]]


# --------------------------------------------------------------------------- queries, by hand


def table_counts(x: Array) -> Callable[[Array], Array]:
    """`marginals(sets)` of a tensor of counts, by plain summation."""

    def marginals(sets: Array) -> Array:
        return np.array([x.sum(axis=tuple(set(range(x.ndim)) - set(s))) for s in sets.tolist()])

    return marginals


def prefix(n: int) -> Array:
    return np.array([[1.0 if j <= i else 0.0 for j in range(n)] for i in range(n)])


def ranges(n: int) -> Array:
    """Intervals by length, then by start: those of length 1 first, the total last."""
    return np.array(
        [
            [1.0 if start <= j < start + length else 0.0 for j in range(n)]
            for length in range(1, n + 1)
            for start in range(n - length + 1)
        ]
    )


def kron(*factors: Array) -> Array:
    """Kronecker product, the last factor fastest."""
    result = np.ones((1, 1))
    for factor in factors:
        result = np.kron(result, factor)
    return result


def marginal_matrix(sizes: Sequence[int], attributes: Iterable[int]) -> Array:
    """The plain table on these attributes as a 0/1 matrix over the domain."""
    kept = set(attributes)
    return kron(*(np.eye(n) if i in kept else np.ones((1, n)) for i, n in enumerate(sizes)))


def weighted_rows(workload: nz.Workload) -> Array:
    """All rows of a workload over the domain, each times the root of its query's weight."""
    return np.vstack([np.sqrt(q.weight) * q.dense() for q in workload])


# --------------------------------------------------------------------------- dense mechanisms


def flat(measured: object) -> Array:
    return np.concatenate([values.ravel() for values in measured.values])


class Numbered:
    """Noise 0, 1, 2, … in whole numbers, and the variance that was asked for with each."""

    def __init__(self) -> None:
        self.variances: list[float] = []

    def __call__(self, shape: tuple[int, ...], noise: Noise) -> Array:
        start = len(self.variances)
        self.variances += np.broadcast_to(noise.size, shape).ravel().tolist()
        return np.arange(start, len(self.variances), dtype=np.int64).reshape(shape)


def silent(shape: tuple[int, ...], noise: Noise) -> Array:
    return np.zeros(shape, dtype=np.int64 if noise.exact else np.float64)


def probe(plan: nz.Plan) -> tuple[Array, Array]:
    """B (measured rows × domain) and the noise variance of every measured row, by experiment.

    Of discrete noise it is the parameter σ², which counts for privacy; from the variance it differs
    by less than 10⁻¹⁴ where σ² > 2, and visibly near 0.
    """
    shape = plan.workload.schema.shape
    size = prod(shape)
    columns = []
    for record in range(size):
        x = np.zeros(size, dtype=np.int64)
        x[record] = 1
        columns.append(flat(plan.mechanism.measure(table_counts(x.reshape(shape)), silent)))
    empty = table_counts(np.zeros(shape, dtype=np.int64))
    numbered = Numbered()
    places = flat(plan.mechanism.measure(empty, numbered)).astype(np.int64)
    sigma2 = np.array(numbered.variances)[places]
    return np.array(columns, dtype=float).T.reshape(len(sigma2), size), sigma2


def cost_of(b: Array, sigma2: Array) -> Array:
    """BᵀΣ⁻¹B; rows without noise are left out (the total, when one record replaces another)."""
    noisy = sigma2 > 0
    return (b[noisy].T / sigma2[noisy]) @ b[noisy]


def blue_covariance(w: Array, v: Array, b: Array, sigma2: Array) -> Array:
    """Cov(Wx̂, Vx̂) of the best linear unbiased estimates from Bx + N(0, diag σ²).

    W (BᵀΣ⁻¹B)⁺ Vᵀ, with (BᵀΣ⁻¹B)⁺ = S⁺S⁺ᵀ for S = Σ^{−1/2}B. Where a row has no noise the rows
    must be linearly independent; then the only unbiased estimate is WB⁺ times the measurement.
    """
    if (sigma2 > 0).all():
        inverse = np.linalg.pinv(b / np.sqrt(sigma2)[:, None], rcond=1e-12)
        return (w @ inverse) @ (v @ inverse).T
    assert np.linalg.matrix_rank(b) == len(b)
    inverse = np.linalg.pinv(b, rcond=1e-12)
    return (w @ inverse * sigma2) @ (v @ inverse).T


def in_row_space(w: Array, b: Array) -> bool:
    return bool(np.allclose(w @ np.linalg.pinv(b, rcond=1e-12) @ b, w, atol=1e-9 * abs(w).max()))


def add_remove_cost(cost: Array) -> float:
    """The largest squared shift, in standard deviations, that one record more can cause."""
    return float(max(cost[r, r] for r in range(len(cost))))


def replace_cost(cost: Array) -> float:
    """The largest squared shift over all pairs of records, one in the place of the other."""
    size = len(cost)
    pairs = ((r, s) for r in range(size) for s in range(size) if r != s)
    return float(max((cost[r, r] + cost[s, s] - 2 * cost[r, s] for r, s in pairs), default=0.0))


# --------------------------------------------------------------------------- exact optima


def optimal_total(
    workload: nz.Workload, gap: float = 1e-6, steps: int = 20_000
) -> tuple[float, float]:
    """Lower and upper bounds on the least Σ weight · variance at pcost 1 over *all* mechanisms.

    Dual: ‖WΛ^{1/2}‖²_* for any probabilities λ on the records. Primal: the strategy
    X = Λ^{−1/2}(Λ^{1/2}WᵀWΛ^{1/2})^{1/2}Λ^{−1/2}, scaled to a largest diagonal of 1, has the
    variance tr(WᵀW X⁻¹). λ ← λ · diag X makes them meet.
    """
    w = weighted_rows(workload)
    weights = np.full(w.shape[1], 1.0 / w.shape[1])
    low, high = 0.0, np.inf
    for _ in range(steps):
        root = np.sqrt(weights)
        _, singular, vectors = np.linalg.svd(w * root, full_matrices=False)
        low = max(low, float(singular.sum()) ** 2)
        half = np.einsum("si,s->i", vectors**2, singular)  # the diagonal of Λ^{1/2}XΛ^{1/2}
        # tr(WᵀW X⁻¹) = Σ singular, on the row space of W
        high = min(high, float((half / weights).max()) * float(singular.sum()))
        if high <= low * (1 + gap):
            break
        weights = np.maximum(half, 1e-14)
        weights = weights / weights.sum()
    return low, high


def optimal_total_sdp(workload: nz.Workload) -> float:
    """The same by a conic solver: min tr(W X⁻¹ Wᵀ) over X ⪰ 0 with diag X ≤ 1."""
    w = weighted_rows(workload)
    values, vectors = np.linalg.eigh(w.T @ w)
    keep = values > 1e-12 * values[-1]
    root = vectors[:, keep] * np.sqrt(values[keep])
    x = cp.Variable((len(w.T), len(w.T)), PSD=True)
    return _solved(cp.Problem(cp.Minimize(cp.matrix_frac(root, x)), [cp.diag(x) <= 1]))


def optimal_worst_sdp(workload: nz.Workload) -> float:
    """The least possible largest weighted row variance at pcost 1, over all mechanisms."""
    w = weighted_rows(workload)
    w = w[np.unique(w.round(12), axis=0, return_index=True)[1]]
    x = cp.Variable((len(w.T), len(w.T)), PSD=True)
    worst = cp.maximum(0.0, *(cp.matrix_frac(row, x) for row in w))
    return _solved(cp.Problem(cp.Minimize(worst), [cp.diag(x) <= 1]), tolerance=1e-7)


def optimal_norm_sdp(workload: nz.Workload, power: float) -> float:
    """The least possible p-norm of all weighted row variances at pcost 1, over all mechanisms."""
    w = weighted_rows(workload)
    x = cp.Variable((len(w.T), len(w.T)), PSD=True)
    each = cp.hstack([cp.matrix_frac(row, x) for row in w])
    return _solved(cp.Problem(cp.Minimize(cp.pnorm(each, power)), [cp.diag(x) <= 1]), 1e-7)


# A convex function of the variances of all rows, as one list for each query, in a conic program.
ConicLoss = Callable[[list[list[cp.Expression]]], cp.Expression]


def least_replaced_sdp(
    workload: nz.Workload, worst: bool = False, loss: ConicLoss | None = None
) -> float:
    """Over all mechanisms that know the total: min tr(WO K⁻¹ OᵀWᵀ), cost OKOᵀ, O a basis of 1^⊥.

    Pairs of records are at most one apart; `worst`: the largest variance instead of their sum;
    `loss`: any function of weight · variance.
    """
    w = weighted_rows(workload)
    size = w.shape[1]
    basis = np.linalg.svd(np.ones((1, size)))[2][1:].T
    kernel = cp.Variable((size - 1, size - 1), PSD=True)
    ends = [np.eye(size)[r] - np.eye(size)[s] for r in range(size) for s in range(r)]
    pairs = np.array(ends) @ basis
    limits = [cp.sum(cp.multiply(pairs @ kernel, pairs), axis=1) <= 1]
    rows = w @ basis
    if loss is not None:
        each = [cp.matrix_frac(row, kernel) if row.any() else 0.0 for row in rows.round(12)]
        places = np.cumsum([0, *workload.sizes]).tolist()
        aim = loss([each[start:end] for start, end in pairwise(places)])
        return _solved(cp.Problem(cp.Minimize(aim), limits), tolerance=1e-7)
    if worst:
        asked = [row for row in np.unique(rows.round(12), axis=0) if np.abs(row).max() > 1e-9]
        aim = cp.maximum(0.0, *(cp.matrix_frac(row, kernel) for row in asked))
        return _solved(cp.Problem(cp.Minimize(aim), limits), tolerance=1e-7)
    values, vectors = np.linalg.eigh(rows.T @ rows)
    keep = values > 1e-12 * values[-1]
    root = vectors[:, keep] * np.sqrt(values[keep])
    return _solved(cp.Problem(cp.Minimize(cp.matrix_frac(root, kernel)), limits), tolerance=1e-8)


def _solved(problem: cp.Problem, tolerance: float = 1e-9) -> float:
    """The optimum; where last digits do not allow the tolerance, to a hundred times that."""
    for near in (tolerance, 10 * tolerance, 100 * tolerance):
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Solution may be inaccurate"
            )  # then it is tried again
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=near, tol_gap_rel=near, max_iter=500)
        if problem.status == "optimal":
            return float(problem.value)
    raise AssertionError(problem.status)


# --------------------------------------------------------------------------- plain marginals


def closure(sets: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """Every subset of every set, by enumeration."""
    every = set()
    for one in sets:
        every |= set(chain.from_iterable(combinations(sorted(one), k) for k in range(len(one) + 1)))
    return sorted(every, key=lambda s: (len(s), s))


class Marginals:
    """ResidualPlanner's problem written out: Var = M u, cost = Σ p/u, u = σ² of each residual."""

    def __init__(self, sizes: Sequence[int], tables: Sets) -> None:
        self.sizes, self.tables = list(sizes), list(tables)
        self.inner = [a for a in closure(tables) if all(sizes[i] > 1 for i in a)]
        self.p = np.array([prod((sizes[i] - 1) / sizes[i] for i in a) for a in self.inner])
        self.m = np.array([[self._part(a, b) for a in self.inner] for b in self.tables])
        self.cells = np.array([prod(sizes[i] for i in b) for b in self.tables])

    def _part(self, a: tuple[int, ...], b: tuple[int, ...]) -> float:
        if not set(a) <= set(b):
            return 0.0
        inside = prod((self.sizes[i] - 1) / self.sizes[i] for i in a)
        return inside * prod(self.sizes[j] ** -2.0 for j in set(b) - set(a))

    def lemma_2(self, importance: Array, budget: float = 1.0) -> tuple[float, Array]:
        """The least Σ importance · variance, and the σ² that reach it."""
        v = self.m.T @ importance
        t = float(np.sqrt(v * self.p).sum()) ** 2 / budget
        return t, np.sqrt(t * self.p / (budget * v))

    def replace_rows(self) -> Array:
        """Each set of attributes on which records agree: the cost of each residual at σ² = 1."""
        named = sorted(set(chain.from_iterable(self.tables)))
        rows = []
        for agree in chain.from_iterable(combinations(named, k) for k in range(len(named))):
            overlap = [prod((i in agree) - 1 / self.sizes[i] for i in a) for a in self.inner]
            rows.append(2 * np.maximum(self.p - np.array(overlap), 0.0))
        return np.array(rows)

    def solve(
        self,
        loss: Callable[[cp.Expression], cp.Expression],
        budget: float = 1.0,
        neighbours: str = "add-remove",
    ) -> tuple[float, Array]:
        """Minimise a convex loss of the variances by a conic solver; the value and variances."""
        u = cp.Variable(len(self.p))
        variances = self.m @ u
        if neighbours == "add-remove":
            limits = [self.p @ cp.inv_pos(u) <= budget]
        else:
            paid = np.array([len(a) > 0 for a in self.inner])
            rows = self.replace_rows()[:, paid]
            limits = [rows @ cp.inv_pos(u[np.flatnonzero(paid)]) <= budget, u >= 0]
        value = _solved(cp.Problem(cp.Minimize(loss(variances)), limits))
        return value, self.m @ u.value

    def least_cost(self, targets: Array) -> float:
        """The least cost at which no variance exceeds its target."""
        u = cp.Variable(len(self.p))
        return _solved(cp.Problem(cp.Minimize(self.p @ cp.inv_pos(u)), [self.m @ u <= targets]))


def conic_least_trace(matrices: Sequence[Array]) -> Array:
    """The matrix of least trace above all others in the Loewner order, by a conic solver."""
    x = cp.Variable(matrices[0].shape, symmetric=True)
    problem = cp.Problem(cp.Minimize(cp.trace(x)), [x >> p for p in matrices])
    problem.solve(solver=cp.CLARABEL)
    return np.asarray(x.value)
