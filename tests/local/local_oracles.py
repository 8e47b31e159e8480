"""Slow twins and published numbers for local plans: explicit matrices, enumeration, sorting."""

from __future__ import annotations

from itertools import combinations, product
from math import comb, exp, log

import numpy as np

import noiseplan as nz
from noiseplan.local.user_types import Types, types_of

Array = np.ndarray
WORKLOADS = (
    "histogram",
    "prefix",
    "ranges",
    "all marginals",
    "3-way",
    "parity up to 3",
    "parity 3",
)


def one(n: int, factor: nz.Factor) -> nz.Workload:
    """One query on one attribute of n values."""
    return nz.Workload([nz.Query(nz.Schema.from_sizes({"v": n}), {"v": factor})])


def bits(n: int) -> nz.Schema:
    return nz.Schema.from_sizes({f"b{i}": 2 for i in range(n.bit_length() - 1)})


def parities(n: int, sizes: set[int]) -> nz.Workload:
    """±1 characters of so many bits, as one dense matrix over the bits."""
    chosen = [s for s in range(n) if s.bit_count() in sizes]
    rows = [[(-1.0) ** (s & u).bit_count() for u in range(n)] for s in chosen]
    schema = bits(n)
    return nz.Workload([nz.Query(schema, list(schema.names), matrix=rows)])


def workload(name: str, n: int) -> nz.Workload:
    """The workloads of the paper's experiments by name."""
    match name:
        case "histogram":
            return one(n, nz.Identity())
        case "prefix":
            return one(n, nz.Prefix())
        case "ranges":
            return one(n, nz.Ranges())
        case "all marginals":
            return nz.Workload.marginals(bits(n), up_to=n.bit_length() - 1)
        case "3-way":
            return nz.Workload.marginals(bits(n), k=3)
        case "parity up to 3":
            return parities(n, {0, 1, 2, 3})
        case "parity 3":
            return parities(n, {3})
    raise KeyError(name)


def gram_of(made: nz.Workload) -> Array:
    """WᵀW from explicit matrices."""
    rows = np.vstack([np.sqrt(q.weight) * q.dense() for q in made])
    return rows.T @ rows


def per_cell(types: Types, values: Array) -> Array:
    return values[types.kind]


def brute_variances(chances: Array, rows: Array, prior: Array | None = None) -> Array:
    """t[u] from V = W X⁺QᵀD⁻¹, entry by entry as in the definition."""
    n = chances.shape[1]
    prior = np.full(n, 1 / n) if prior is None else prior
    d = chances @ prior
    x = chances.T @ (chances / d[:, None])
    v = rows @ np.linalg.pinv(x, hermitian=True) @ (chances / d[:, None]).T
    assert np.allclose(v @ chances, rows, atol=1e-7 * np.abs(rows).max())
    second = np.array(
        [sum(chances[o, u] * v[:, o] @ v[:, o] for o in range(len(d))) for u in range(n)]
    )
    return second - (rows**2).sum(axis=0)


def subset_table(n: int, k: int, epsilon: float) -> Array:
    """Subset selection as a matrix."""
    e = exp(epsilon)
    rows = [[e if u in chosen else 1.0 for u in range(n)] for chosen in combinations(range(n), k)]
    return np.array(rows) / (comb(n - 1, k - 1) * e + comb(n - 1, k))


def rappor_table(n: int, epsilon: float) -> Array:
    """RAPPOR as a matrix: bit vectors near the one-hot vector are likelier."""
    half = exp(epsilon / 2)
    rows = []
    for output in product((0, 1), repeat=n):
        apart = [sum(abs(b - (i == u)) for i, b in enumerate(output)) for u in range(n)]
        rows.append([half ** (n - a) / (1 + half) ** n for a in apart])
    return np.array(rows)


def sorted_projection(r: Array, z: Array, ratio: float) -> Array:
    """The projection of one column by sorting breakpoints (the corrected algorithm)."""
    m = len(r)
    points = np.concatenate([z - r, ratio * z - r])
    sign = np.concatenate([np.ones(m), -np.ones(m)])
    order = np.argsort(points, kind="stable")
    u, s = points[order], sign[order]
    free = np.concatenate([[0], np.cumsum(s)[:-1]])
    before = np.concatenate([[0], np.cumsum(s * u)[:-1]])
    phi = z.sum() + free * u - before
    reached = np.flatnonzero((phi >= 1 - 1e-14) & (free > 0))
    j = reached[0] if len(reached) else 2 * m - 1
    shift = u[j] + (1 - phi[j]) / max(free[j], 1)
    return np.clip(r + shift, z, ratio * z)


def types_for(name: str, n: int) -> Types:
    return types_of(workload(name, n))


def svd_bound(gram: Array, prior: Array, epsilon: float) -> float:
    """The bound of the paper on Σ π_u t_u: ‖W Diag(√π)‖_*²/e^ε − Σ π_u ‖W e_u‖²."""
    root = np.sqrt(prior)
    values = np.linalg.eigvalsh(gram * np.outer(root, root))
    nuclear = float(np.sqrt(np.maximum(values, 0.0)).sum())
    return nuclear**2 / exp(epsilon) - float(prior @ np.diagonal(gram))


def tightest_epsilon(chances: Array) -> float:
    """ln max_o (max_u Q[o, u] / min_u Q[o, u]) over the outputs that occur."""
    occurs = chances.max(axis=1) > 0
    low, high = chances[occurs].min(axis=1), chances[occurs].max(axis=1)
    if (low <= 0).any():
        return float("inf")
    return log(float((high / low).max()))
