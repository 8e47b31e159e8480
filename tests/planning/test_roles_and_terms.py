"""Roles and terms against brute force: swap attributes, list all subsets, add up one by one."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations, product
from math import comb, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from depth import examples
from noiseplan.planning.symmetry import Roles, find_roles
from noiseplan.planning.variance_terms import Terms, build_terms
from noiseplan.queries import (
    Custom,
    Factor,
    Identity,
    Levels,
    Prefix,
    Query,
    Ranges,
    Total,
    Workload,
)
from noiseplan.schema import Ordinal, Schema

repeatable = examples(80)

NAMES = "abcde"
# Given by label: on attributes with other labels, or the same in another order, other groups.
BY_LABEL = Levels({"x": 0, "y": 0, "z": 1, "w": 1}, leaves=False)


def attribute(kind: str) -> Ordinal:
    return Ordinal({"xy": ["x", "y"], "xz": ["x", "z"], "xyz": ["x", "y", "z"], "w": ["w"]}[kind])


def factors_for(size: int) -> list[Factor]:
    weighted = Custom([[1] * (size - 1) + [2]])
    return [Identity(), Identity(), Prefix(), weighted, BY_LABEL]


@st.composite
def workloads(draw: st.DrawFn, symmetric: bool = False) -> Workload:
    """A few queries; often all their images under exchanges of alike attributes as well."""
    count = draw(st.integers(1, 5))
    if symmetric:
        kinds = [draw(st.sampled_from(["xy", "xyz"]))] * count
    else:
        kind = st.sampled_from(["xy", "xy", "xz", "xyz", "w"])
        kinds = draw(st.lists(kind, min_size=count, max_size=count))
    schema = Schema({n: attribute(k) for n, k in zip(NAMES, kinds, strict=False)})
    classes = [0] * count if symmetric else draw(st.lists(st.integers(0, 1), min_size=count))
    keys = list(zip(kinds, classes, strict=False))
    closed = symmetric or draw(st.booleans())
    queries = []
    for _ in range(draw(st.integers(1, 4))):
        on = draw(st.lists(st.sampled_from(schema.names), max_size=4, unique=True))
        factors = {n: draw(st.sampled_from(factors_for(schema[n].size))) for n in on}
        weight = draw(st.sampled_from([1.0, 1.0, 2.0]))
        images = _images(list(schema.names), keys) if closed else [dict.fromkeys(on)]
        for image in images:
            moved = {image[n] or n: f for n, f in factors.items()}
            queries.append(Query(schema, moved, weight=weight))
    return Workload(queries)


def _images(names: list[str], keys: list[Any]) -> list[dict[str, str]]:
    """All ways to exchange names of equal key."""
    return [
        {names[i]: names[j] for i, j in enumerate(order)}
        for order in permutations(range(len(names)))
        if all(keys[i] == keys[j] for i, j in enumerate(order))
    ]


# What a query asks: {(attribute, matrix as bytes)}, its weight and its priority.
Asked = tuple[frozenset[tuple[int, bytes]], float, float]


def asked(workload: Workload, priorities: NDArray[np.float64]) -> Counter[Asked]:
    found: Counter[Asked] = Counter()
    for query, priority in zip(workload, priorities, strict=True):
        pieces = zip(query.attributes, query.matrices(), strict=True)
        on = frozenset((workload.schema.index(n), m.dense().tobytes()) for n, m in pieces)
        found[on, query.weight, float(priority)] += 1
    return found


def swapped(queries: Counter[Asked], i: int, j: int) -> Counter[Asked]:
    other = {i: j, j: i}
    return Counter(
        {
            (frozenset((other.get(a, a), m) for a, m in on), weight, priority): count
            for (on, weight, priority), count in queries.items()
        }
    )


def is_symmetry(workload: Workload, priorities: NDArray[np.float64], i: int, j: int) -> bool:
    if workload.schema.shape[i] != workload.schema.shape[j]:
        return False
    queries = asked(workload, priorities)
    return swapped(queries, i, j) == queries


def check_roles(workload: Workload, priorities: NDArray[np.float64], roles: Roles) -> None:
    """Roles are exchangeable, complete, and queries of one type are alike."""
    named = {workload.schema.index(n) for query in workload for n in query.attributes}
    assert sorted(m for role in roles.roles for m in role.members) == sorted(named)
    for r, role in enumerate(roles.roles):
        assert (roles.of_attribute[role.members] == r).all()
        for i, j in combinations(role.members.tolist(), 2):
            assert is_symmetry(workload, priorities, i, j)
    assert [a for a in range(len(workload.schema)) if roles.of_attribute[a] < 0] == [
        a for a in range(len(workload.schema)) if a not in named
    ]
    for t in range(len(roles.types)):
        mine = np.flatnonzero(roles.type_of_query == t)
        assert len(mine) == roles.type_count[t] > 0
        for q in mine.tolist():
            assert roles.type_weight[t] == workload[q].weight
            assert roles.type_priority[t] == priorities[q]
            pairs = [p for p in roles.types[t] if p >= 0]
            matrices = sorted(roles.pair_matrix(int(p)).dense().tobytes() for p in pairs)
            assert matrices == sorted(m.dense().tobytes() for m in workload[q].matrices())
            on = sorted(
                roles.of_attribute[workload.schema.index(n)] for n in workload[q].attributes
            )
            assert on == sorted(roles.pair_role[p] for p in pairs)


# ---------------------------------------------------------------- roles


@repeatable
@given(workloads())
def test_attributes_of_one_role_can_be_exchanged(workload: Workload) -> None:
    weights = workload.columns.weights
    check_roles(workload, weights, find_roles(workload, weights))


@repeatable
@given(workloads(), st.data())
def test_priorities_count_as_weights_do(workload: Workload, data: st.DataObject) -> None:
    few = st.sampled_from([1.0, 1.0, 1.0, 3.0])
    drawn = data.draw(st.lists(few, min_size=len(workload), max_size=len(workload)))
    priorities = np.array(drawn)
    check_roles(workload, priorities, find_roles(workload, priorities))


@repeatable
@given(workloads(symmetric=True))
def test_full_symmetry_gives_one_role(workload: Workload) -> None:
    weights = workload.columns.weights
    roles = find_roles(workload, weights)
    check_roles(workload, weights, roles)
    named = {n for query in workload for n in query.attributes}
    assert len(roles.roles) == (1 if named else 0)


@repeatable
@given(workloads())
def test_without_sharing_every_attribute_stands_alone(workload: Workload) -> None:
    weights = workload.columns.weights
    roles = find_roles(workload, weights, share=False)
    check_roles(workload, weights, roles)
    assert all(len(role.members) == 1 for role in roles.roles)
    assert roles.type_count.tolist() == [1] * len(workload)


SAME = Schema.from_sizes(dict.fromkeys("abcd", 3))


def members(workload: Workload) -> list[list[int]]:
    roles = find_roles(workload, workload.columns.weights)
    check_roles(workload, workload.columns.weights, roles)
    return sorted(role.members.tolist() for role in roles.roles)


def tables(*names: str, schema: Schema = SAME) -> Workload:
    return Workload([Query(schema, list(name)) for name in names])


@pytest.mark.parametrize("ways", [{"k": 1}, {"k": 3}, {"up_to": 2}, {"up_to": 4}, {"k": 4}])
@pytest.mark.parametrize("factor", [Identity(), Prefix(), Custom([[1, 0, 1]])])
def test_families_of_alike_attributes(ways: dict[str, int], factor: Factor) -> None:
    factors = dict.fromkeys("abcd", factor)
    assert members(Workload.marginals(SAME, factors=factors, **ways)) == [[0, 1, 2, 3]]


def test_a_factor_of_its_own_is_a_role_of_its_own() -> None:
    workload = Workload.marginals(SAME, up_to=2, factors={"b": Prefix(), "d": Prefix()})
    assert members(workload) == [[0, 2], [1, 3]]
    assert members(workload + Query(SAME, {"d": Ranges()})) == [[0, 2], [1], [3]]


def test_sizes_tell_roles_apart() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 3, "c": 2, "d": 3})
    assert members(Workload.marginals(schema, k=2)) == [[0, 2], [1, 3]]


def test_weights_tell_roles_apart() -> None:
    family = Workload.marginals(SAME, k=2)
    assert members(family + Query(SAME, ["a"])) == [[0], [1, 2, 3]]
    assert members(family + Query(SAME, ["a", "b"], weight=2)) == [[0, 1], [2, 3]]


def test_priorities_tell_roles_apart() -> None:
    family = Workload.marginals(SAME, k=1)
    roles = find_roles(family, np.array([1.0, 1.0, 2.0, 1.0]))
    assert sorted(role.members.tolist() for role in roles.roles) == [[0, 1, 3], [2]]


def test_attributes_without_queries_have_no_role() -> None:
    assert members(tables("ab", "bc")) == [[0, 2], [1]]
    assert members(tables("")) == []
    assert members(Workload([Query(SAME, {"a": Total()})])) == []


def test_tables_that_are_not_alike_fall_apart() -> None:
    """A path a–b–c–d: its ends cannot be exchanged without exchanging the middle."""
    assert members(tables("ab", "bc", "cd")) == [[0], [1], [2], [3]]
    # Every attribute occurs twice, but no exchange of two leaves a ring of five as it is.
    five = Schema.from_sizes(dict.fromkeys("abcde", 3))
    ring = tables("ab", "bc", "cd", "de", "ea", schema=five)
    assert members(ring) == [[0], [1], [2], [3], [4]]


def test_queries_kept_apart_by_name_do_not_make_up_for_missing_ones() -> None:
    """Six queries of two attributes, each attribute in three of them, but not the six pairs."""
    twice = [Query(SAME, list(on), name=f"{on}{i}") for on in ("ab", "cd") for i in (1, 2)]
    workload = tables("bc", "ad") + Workload(twice)
    assert len(workload) == comb(4, 2)
    members(workload)


def test_groups_given_by_label_tell_roles_apart() -> None:
    schema = Schema({"a": attribute("xy"), "b": attribute("xz"), "c": attribute("xy")})
    workload = Workload.marginals(schema, up_to=2, factors=dict.fromkeys("abc", BY_LABEL))
    assert members(workload) == [[0, 2], [1]]


def test_attributes_of_a_dense_matrix_stand_alone() -> None:
    joint = Query(SAME, ["a", "b"], matrix=np.ones((1, 9)))
    roles = find_roles(Workload.marginals(SAME, k=2) + joint, np.ones(7))
    assert sorted(role.members.tolist() for role in roles.roles) == [[0], [1], [2, 3]]
    assert (roles.type_joint >= 0).sum() == 1
    plain = {tuple(role.members.tolist()): role.plain for role in roles.roles}
    assert plain == {(0,): False, (1,): False, (2, 3): True}


def test_plain_roles_are_asked_by_value_only() -> None:
    workload = Workload.marginals(SAME, k=1, factors={"d": Prefix()}) + Query(SAME, {"c": Prefix()})
    roles = find_roles(workload, workload.columns.weights)
    plain = {tuple(role.members.tolist()): role.plain for role in roles.roles}
    assert plain == {(0, 1): True, (2,): False, (3,): False}


# ---------------------------------------------------------------- terms


def terms_of(workload: Workload) -> tuple[Roles, Terms, NDArray[np.int64]]:
    roles = find_roles(workload, workload.columns.weights)
    measurable = np.array([role.size - 1 for role in roles.roles], dtype=np.int64)
    return roles, build_terms(roles, measurable), measurable


def subset_number(roles: Roles, terms: Terms) -> dict[tuple[int, ...], int]:
    """The number of a subset type by its roles, ascending."""
    listed = [tuple(sorted(r for r in row if r >= 0)) for row in terms.subset_roles.tolist()]
    assert len(set(listed)) == len(listed)
    return {row: number for number, row in enumerate(listed)}


def subsets(items: list[int]) -> list[tuple[int, ...]]:
    return [c for k in range(len(items) + 1) for c in combinations(items, k)]


def closure(workload: Workload) -> set[tuple[int, ...]]:
    """All sets of attributes inside a query, without attributes of one value."""
    shape = workload.schema.shape
    found = set()
    for query in workload:
        on = [workload.schema.index(n) for n in query.attributes]
        found |= set(subsets([a for a in on if shape[a] > 1]))
    return found


@repeatable
@given(workloads())
def test_subset_types_count_the_downward_closure(workload: Workload) -> None:
    roles, terms, _ = terms_of(workload)
    expected: Counter[tuple[int, ...]] = Counter(
        tuple(sorted(int(roles.of_attribute[a]) for a in subset)) for subset in closure(workload)
    )
    found = {row: terms.subset_count[number] for row, number in subset_number(roles, terms).items()}
    assert found == expected
    assert terms.subset_count.sum() == len(closure(workload))


@pytest.mark.parametrize(("d", "largest"), [(4, 2), (10, 3), (30, 4), (100, 3)])
def test_size_of_the_closure_of_a_family(d: int, largest: int) -> None:
    """Spec R5: Σ_j C(d, j), counted without listing."""
    schema = Schema.from_sizes({f"a{i}": 3 for i in range(d)})
    only, at_most = (largest, None) if d > 40 else (None, largest)
    roles, terms, _ = terms_of(Workload.marginals(schema, k=only, up_to=at_most))
    expected = [comb(d, j) for j in range(largest + 1)]
    np.testing.assert_allclose(terms.subset_count, expected, rtol=1e-14)
    assert len(roles.roles) == 1


def numbers(seed: int, count: int) -> NDArray[np.float64]:
    return np.exp(np.random.default_rng(seed).normal(size=count))


@repeatable
@given(workloads(), st.integers(0, 10**6))
def test_variances_are_sums_over_all_subsets(workload: Workload, seed: int) -> None:
    """Σ_{A⊆B} σ²_A ∏_{i∈A} R_i ∏_{i∈B∖A} m_i, one subset at a time, for every query."""
    roles, terms, measurable = terms_of(workload)
    residual, mean = numbers(seed, len(roles.pair_role)), numbers(seed + 1, len(roles.pair_role))
    sigma2 = numbers(seed + 2, terms.subsets)
    number = subset_number(roles, terms)
    matrix = terms.matrix(terms.coefficients(residual, mean, np.zeros(0)))
    assert matrix.shape == (len(roles.types), terms.subsets)
    found = (matrix @ sigma2)[roles.type_of_query]
    pair_of = {
        (int(r), int(f)): p
        for p, (r, f) in enumerate(zip(roles.pair_role, roles.pair_factor, strict=True))
    }
    for q, query in enumerate(workload):
        on = [workload.schema.index(n) for n in query.attributes]
        kinds = workload.columns.factors[q][: len(on)].tolist()
        role = {a: int(roles.of_attribute[a]) for a in on}
        pair = {a: pair_of[role[a], f] for a, f in zip(on, kinds, strict=True)}
        total = 0.0
        for inside in subsets(on):
            if any(measurable[role[a]] == 0 for a in inside):
                continue
            measured = prod(residual[pair[a]] for a in inside)
            summed = prod(mean[pair[a]] for a in on if a not in inside)
            total += sigma2[number[tuple(sorted(role[a] for a in inside))]] * measured * summed
        assert found[q] == pytest.approx(total, rel=1e-12)


@repeatable
@given(workloads(), st.integers(0, 10**6))
def test_gradient_against_finite_differences(workload: Workload, seed: int) -> None:
    roles, terms, _ = terms_of(workload)
    count = len(roles.pair_role)
    at = np.concatenate([numbers(seed, count), numbers(seed + 1, count)])
    slope = np.random.default_rng(seed + 2).normal(size=len(terms.query))

    def value(x: NDArray[np.float64]) -> float:
        return float(slope @ terms.coefficients(x[:count], x[count:], np.zeros(0)))

    weighted = slope * terms.coefficients(at[:count], at[count:], np.zeros(0))
    found = np.concatenate(terms.gradient(weighted, at[:count], at[count:]))
    scale = np.abs(weighted).sum() + 1
    for i in range(2 * count):
        step = np.zeros(2 * count)
        step[i] = 1e-5 * at[i]
        expected = (value(at + step) - value(at - step)) / (2 * step[i])
        assert found[i] == pytest.approx(expected, rel=1e-5, abs=1e-8 * scale / at[i])


def test_terms_where_nothing_is_left_to_measure() -> None:
    """R = 0 or m = 0 leaves only the other part, not NaN."""
    roles, terms, _ = terms_of(tables("ab"))
    number = subset_number(roles, terms)
    pair = np.array([2.0])
    for residual, mean, kept in [(pair, 0 * pair, (0, 0)), (0 * pair, pair, ())]:
        row = terms.matrix(terms.coefficients(residual, mean, np.zeros(0))).toarray()[0]
        expected = np.zeros(3)
        expected[number[kept]] = 4.0
        np.testing.assert_allclose(row, expected, atol=1e-100)


def test_terms_of_a_dense_matrix() -> None:
    """One coefficient from outside per subset of its attributes, the last attribute fastest."""
    joint = Query(SAME, ["c", "a", "d"], matrix=np.ones((2, 27)))
    workload = Workload([joint, Query(SAME, ["a", "b"])])
    roles, terms, _ = terms_of(workload)
    number = subset_number(roles, terms)
    assert len(terms.joint) == 8
    given_numbers = numbers(0, 8)
    residual, mean = numbers(1, len(roles.pair_role)), numbers(2, len(roles.pair_role))
    matrix = terms.matrix(terms.coefficients(residual, mean, given_numbers)).toarray()
    row = matrix[roles.type_of_query[0]]
    expected = np.zeros(terms.subsets)
    for value, inside in zip(given_numbers, product([False, True], repeat=3), strict=True):
        kept = [roles.of_attribute[a] for a, yes in zip([0, 2, 3], inside, strict=True) if yes]
        expected[number[tuple(sorted(int(r) for r in kept))]] = value
    np.testing.assert_allclose(row, expected)
    # The other query is as without it, and the gradient does not see the matrix.
    a, b = (int(roles.of_attribute[i]) for i in (0, 1))
    pair = {int(roles.pair_role[p]): int(p) for p in roles.types[roles.type_of_query[1]] if p >= 0}
    other = matrix[roles.type_of_query[1]]
    assert other[number[tuple(sorted((a, b)))]] == pytest.approx(
        residual[pair[a]] * residual[pair[b]]
    )
    assert other[number[(a,)]] == pytest.approx(residual[pair[a]] * mean[pair[b]])
    weights = np.zeros(len(terms.query))
    weights[terms.joint] = 1.0
    assert not np.concatenate(terms.gradient(weights, residual, mean)).any()


def test_terms_of_seventy_attributes_of_one_role() -> None:
    """One row, seventy-one subset types: small, although its subsets are many."""
    schema = Schema.from_sizes({f"a{i}": 2 for i in range(70)})
    query = Query(schema, dict.fromkeys(schema.names, Custom([[1, -1]])))
    terms = terms_of(Workload([query]))[1]
    expected = [float(comb(70, j)) for j in range(71)]
    np.testing.assert_allclose(terms.subset_count, expected, rtol=1e-12)


# ---------------------------------------------------------------- published numbers


def plain_moments(roles: Roles) -> tuple[NDArray[np.float64], ...]:
    """ResidualPlanner's R = n − 1 and m = 1/n of each pair, β = (n − 1)/n of each role."""
    sizes = np.array([float(role.size) for role in roles.roles])
    of_pair = sizes[roles.pair_role]
    return of_pair - 1, 1 / of_pair, (sizes - 1) / sizes


def privacy_weights(terms: Terms, beta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Number of sets of each subset type times ∏ β, from the powers."""
    powers = terms.privacy_powers.toarray()
    return np.asarray(terms.subset_count * np.prod(beta[: powers.shape[1]] ** powers, axis=1))


def test_coefficients_of_the_paper() -> None:
    """Spec E2: privacy and variance coefficients of the toy workload {1}, {1,2}, {2,3}."""
    schema = Schema.from_sizes({"1": 2, "2": 2, "3": 3})
    roles, terms, _ = terms_of(tables("1", "12", "23", schema=schema))
    residual, mean, beta = plain_moments(roles)
    matrix = terms.matrix(terms.coefficients(residual, mean, np.zeros(0)))
    variance = matrix.T @ (roles.type_weight * roles.type_count)
    privacy = privacy_weights(terms, beta)
    number = subset_number(roles, terms)
    expected = {
        (): (1, 11 / 12),
        (0,): (1 / 2, 3 / 2),
        (1,): (1 / 2, 5 / 6),
        (2,): (2 / 3, 1),
        (0, 1): (1 / 4, 1),
        (1, 2): (1 / 3, 2),
    }
    assert len(number) == len(expected)
    for subset, (p, v) in expected.items():
        at = number[tuple(sorted(int(roles.of_attribute[a]) for a in subset))]
        assert (privacy[at], variance[at]) == (pytest.approx(p), pytest.approx(v))
    assert np.sqrt(privacy * variance).sum() == pytest.approx(4.601942897764132, rel=1e-14)


def test_sum_of_variances_of_a_family() -> None:
    """All tables of three of twenty attributes of ten values: Σ_A √(p_A v_A) by levels."""
    schema = Schema.from_sizes({f"a{i}": 10 for i in range(20)})
    roles, terms, _ = terms_of(Workload.marginals(schema, k=3))
    residual, mean, beta = plain_moments(roles)
    matrix = terms.matrix(terms.coefficients(residual, mean, np.zeros(0)))
    variance = matrix.T @ (roles.type_weight * roles.type_count)
    found = np.sqrt(privacy_weights(terms, beta) * variance).sum()
    # One subset of j attributes lies in C(20 − j, 3 − j) tables.
    expected = sum(
        comb(20, j) * np.sqrt(0.9**j * comb(20 - j, 3 - j) * 9.0**j * 0.1 ** (3 - j))
        for j in range(4)
    )
    assert found == pytest.approx(expected, rel=1e-12)


def test_privacy_weights_count_all_sets_of_a_type() -> None:
    schema = Schema.from_sizes({"a": 4, "b": 4, "c": 4, "d": 2, "e": 1})
    roles, terms, _ = terms_of(Workload.marginals(schema, up_to=3))
    expected = sum(
        prod(1 - 1 / schema.shape[a] for a in subset)
        for k in range(4)
        for subset in combinations(range(4), k)
    )
    weights = privacy_weights(terms, plain_moments(roles)[2])
    assert weights.sum() == pytest.approx(expected, rel=1e-14)
