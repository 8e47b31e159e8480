"""The best product strategy ⊗X_i (the template of HDMM), as a member of the residual family.

A product strategy of cost ⊗X_i with diag X_i = 1 answers a query on B with the sum of variances

    ∏_{i∈B} tr(W_i X_i⁻¹ W_iᵀ) ∏_{i∉B} 1ᵀX_i⁻¹1 .

X = c·11ᵀ + UᵀU with c = 1/(1ᵀX⁻¹1) puts it into the family, with σ²_A proportional to ∏_{i∈A} c_i.
Subsets that no query needs are not measured, which makes the plan a little better than the
template.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import minimise
from noiseplan.planning.workload_types import Design

# Carries slopes with respect to errors (per pair) and totals (per role) back to a role's variables.
Carry = Callable[[Array, Array], Array]


def optimise_product(design: Design) -> tuple[dict[int, Array], Array]:
    """U of every free role, and σ² of every subset type up to a common scale."""
    if not design.roles.roles:  # nothing but the total
        return {}, np.ones(design.terms.subsets)
    problem = _Product(design)
    _, best = minimise(problem.value, problem.start(), steps=1000, gain=1e-13)
    return problem.family_member(best)


class _Product:
    """log of the sum of variances as a function of all strategies, with its gradient.

    Variables: for a free role an n × n matrix A with columns scaled to length one, X = AᵀA; for a
    plain role one number z, X = (1 − b) I + b 11ᵀ with b = 1/(1 + e^{−z}).
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        roles = design.roles
        self.kron = np.flatnonzero(roles.type_joint < 0)
        self.pair_power = np.zeros((len(self.kron), len(roles.pair_role)))
        for row, number in enumerate(self.kron):
            pairs = roles.types[number]
            np.add.at(self.pair_power[row], pairs[pairs >= 0], 1.0)
        members = np.array([float(len(role.members)) for role in roles.roles])
        in_role = (roles.pair_role[:, None] == np.arange(len(members))).astype(float)
        self.sum_power = members - self.pair_power @ in_role
        self.log_weight = np.log(design.type_weight[self.kron])

    def sizes(self) -> list[int]:
        every, free = range(len(self.design.roles.roles)), self.design.free
        return [self.design.group_count(r) ** 2 if r in free else 1 for r in every]

    def start(self) -> Array:
        pieces = []
        for r in range(len(self.design.roles.roles)):
            n = self.design.group_count(r)
            if r in self.design.free:
                grams = [self.design.grams[p] for p in self.design.pairs_of[r]]
                gram = np.sum([g for g in grams if g is not None], axis=0)
                values, vectors = np.linalg.eigh(gram + 1e-9 * np.trace(gram) * np.eye(n))
                pieces.append(((vectors * values**0.25) @ vectors.T).ravel())
            else:
                pieces.append(np.full(1, -np.log(max(n, 2))))
        return np.concatenate(pieces)

    def value(self, x: Array) -> tuple[float, Array]:
        roles = self.design.roles
        error = np.ones(len(roles.pair_role))  # tr(W X⁻¹ Wᵀ) of each pair
        total = np.ones(len(roles.roles))  # 1ᵀX⁻¹1 of each role
        back = []
        for r, part in enumerate(np.split(x, np.cumsum(self.sizes())[:-1])):
            back.append(self._forward(r, part, error, total))
        logs = self.log_weight + self.pair_power @ np.log(error) + self.sum_power @ np.log(total)
        top = logs.max()
        share = np.exp(logs - top)
        by_error = (share @ self.pair_power) / error / share.sum()
        by_total = (share @ self.sum_power) / total / share.sum()
        gradient = [step(by_error, by_total) for step in back]
        return float(top + np.log(share.sum())), np.concatenate(gradient)

    def _forward(self, r: int, part: Array, error: Array, total: Array) -> Carry:
        """Fill in one role's numbers; return the function that carries slopes back to its
        variables."""
        if r in self.design.free:
            return self._forward_free(r, part, error, total)
        return self._forward_plain(r, part, error, total)

    def _forward_plain(self, r: int, part: Array, error: Array, total: Array) -> Carry:
        n, pairs = self.design.group_count(r), self.design.pairs_of[r]
        share = 1.0 / (1.0 + np.exp(-part[0]))
        alone, whole = 1.0 - share, 1.0 + (n - 1) * share
        # A role that is not plain has one group here, and its Gram matrix is one number.
        scale = np.array([1.0 if (g := self.design.grams[p]) is None else g[0, 0] for p in pairs])
        error[pairs] = scale * ((n - 1) / alone + 1.0 / whole)
        total[r] = n / whole
        d_error = scale * ((n - 1) / alone**2 - (n - 1) / whole**2)
        d_total = -n * (n - 1) / whole**2
        slope = share * (1.0 - share)
        return lambda by_error, by_total: np.array(
            [slope * (by_error[pairs] @ d_error + by_total[r] * d_total)]
        )

    def _forward_free(self, r: int, part: Array, error: Array, total: Array) -> Carry:
        n = self.design.group_count(r)
        raw = part.reshape(n, n)
        lengths = np.sqrt(np.einsum("ri,ri->i", raw, raw))
        strategy = raw / lengths
        inverse = np.linalg.inv(strategy)
        products = self.design.products({r: inverse})
        for p, product in products.items():
            error[p] = np.einsum("ij,ij->", inverse, product)
        total[r] = float((inverse.sum(axis=0) ** 2).sum())

        def carry(by_error: Array, by_total: Array) -> Array:
            d_inverse = by_total[r] * 2.0 * np.broadcast_to(inverse.sum(axis=0), inverse.shape)
            for p, product in products.items():
                d_inverse = d_inverse + by_error[p] * 2.0 * product
            d_strategy = -(inverse.T @ d_inverse @ inverse.T)
            along = np.einsum("ri,ri->i", strategy, d_strategy)
            return np.asarray((d_strategy - strategy * along) / lengths).ravel()

        return carry

    def family_member(self, x: Array) -> tuple[dict[int, Array], Array]:
        rows: dict[int, Array] = {}
        log_noise = np.zeros(len(self.design.roles.roles))
        for r, part in enumerate(np.split(x, np.cumsum(self.sizes())[:-1])):
            n = self.design.group_count(r)
            if r in self.design.free:
                strategy = part.reshape(n, n)
                strategy = strategy / np.sqrt(np.einsum("ri,ri->i", strategy, strategy))
                cost = strategy.T @ strategy
                sum_part = 1.0 / np.linalg.solve(cost, np.ones(n)).sum()
                values, vectors = np.linalg.eigh(cost - sum_part)
                rows[r] = np.sqrt(np.maximum(values[1:], 0.0))[:, None] * vectors[:, 1:].T
                log_noise[r] = np.log(sum_part)
            else:
                share = 1.0 / (1.0 + np.exp(-part[0]))
                # X − c11ᵀ = (1 − b)(I − 11ᵀ/n): the orthogonal basis, with noise 1/(1 − b)
                log_noise[r] = np.log((1.0 + (n - 1) * share) / n / (1.0 - share))
        return rows, np.exp(self.design.terms.privacy_powers @ log_noise)
