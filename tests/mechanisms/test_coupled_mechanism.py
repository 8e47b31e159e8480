"""Coupled residuals against dense rows: answers, errors, what a record costs, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from coupled_oracles import exact_cost
from depth import seeds
from noiseplan.domain.cells import MergedValues
from noiseplan.errors import PlanError, QueryError, StorageError, UnanswerableError
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.cost import cost_of
from noiseplan.mechanisms.coupled import CoupledMechanism, Coupling
from noiseplan.mechanisms.coupled_cost import largest_cost
from noiseplan.mechanisms.price import Note, probed_cost, require_price
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.mechanisms.side_by_side import SideBySide
from noiseplan.noise import Noise
from noiseplan.privacy import Guarantee

Array = np.ndarray[Any, Any]
SCHEMA = nz.Schema(
    {"a": nz.Ordinal(range(4)), "b": nz.Ordinal(range(3)), "c": nz.Categorical(["x", "y"])}
)
HEADS = np.array([2, 1, 0])


def coupled(seed: int, exact: bool = True, most: int = 2) -> CoupledMechanism:
    """All sets of at most so many attributes, measured by any rows that there may be."""
    rng = np.random.default_rng(seed)
    bases = tuple(_basis(rng, size, exact) for size in SCHEMA.shape)
    couplings = []
    for tails in (set(t) for n in range(most + 1) for t in combinations(range(3), n)):
        beside = [i for i in np.flatnonzero(HEADS) if i not in tails]
        letters = product(*(range(HEADS[i] + 1) for i in beside))
        states = np.array([s for s in letters if np.count_nonzero(s) <= most - len(tails)])
        rows = np.triu(rng.integers(-4, 5, (len(states),) * 2)).astype(float)
        np.fill_diagonal(rows, rng.integers(1, 9, len(states)))
        sets = np.array([[*sorted(tails), *beside]], dtype=np.int64)
        noise = Noise("gaussian", float(rng.integers(20, 90)), exact)
        shaped = states.reshape(len(states), len(beside)).astype(np.int64)
        couplings.append(Coupling(sets, len(tails), shaped, rows, noise))
    return CoupledMechanism(SCHEMA, bases, np.arange(3), HEADS, tuple(couplings))


def _basis(rng: np.random.Generator, size: int, exact: bool) -> Basis:
    while True:
        rows = rng.integers(-5, 6, (size - 1, size)).astype(float)
        if np.linalg.matrix_rank(np.vstack([np.ones(size), rows])) == size:
            return Basis.from_rows(rows if exact else rows / 3)


def queries() -> list[nz.Query]:
    return [
        nz.Query(SCHEMA, {"a": nz.Prefix(), "b": nz.Ranges()}),
        nz.Query(SCHEMA, {"a": nz.Ranges(), "c": nz.Identity()}),
        nz.Query(SCHEMA, {"b": nz.Identity()}),
        nz.Query(SCHEMA, []),
        nz.Query(SCHEMA, ["b", "c"], matrix=np.arange(12.0).reshape(2, 6) - 4, name="joint"),
    ]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_answers_and_errors_are_those_of_the_dense_rows(seed: int, exact: bool) -> None:
    mechanism = coupled(seed, exact)
    rng = np.random.default_rng(seed)
    values = tuple(rng.normal(size=shape) * 9 for shape in mechanism.shapes)
    measured, rows = Measurements(values), mechanism.unit_rows()
    assert len(rows) == mechanism.numbers
    sizes = np.concatenate(
        [
            np.full(np.prod(s), n)
            for s, n in zip(mechanism.shapes, mechanism.noise.size, strict=True)
        ]
    )
    spread = (
        np.repeat(mechanism.noise.variance, [int(np.prod(s)) for s in mechanism.shapes]) / sizes
    )
    back = [query.dense() @ np.linalg.pinv(rows) for query in queries()]
    for query, undo in zip(queries(), back, strict=True):
        truth = undo @ mechanism.unit_values(measured)
        np.testing.assert_allclose(mechanism.answer(measured, query), truth, atol=1e-8)
        variance = (undo**2) @ spread
        np.testing.assert_allclose(mechanism.variance(query), variance, rtol=1e-8)
        for other, theirs in zip(queries(), back, strict=True):
            covariance = mechanism.covariance(query, other)
            scale = np.abs(undo * spread @ theirs.T).max()
            np.testing.assert_allclose(covariance, undo * spread @ theirs.T, atol=1e-9 * scale)


@pytest.mark.parametrize("exact", [True, False])
def test_what_is_measured_is_the_dense_rows(exact: bool) -> None:
    mechanism = coupled(5, exact)
    counts = np.random.default_rng(1).integers(0, 9, SCHEMA.shape)

    def marginals(sets: Array) -> Array:
        kept = [tuple(set(range(3)) - set(row)) for row in sets.tolist()]
        return np.array([counts.sum(axis=out) for out in kept])

    measured = mechanism.measure(marginals, lambda shape, noise: np.zeros(shape, noise.dtype))
    wanted = mechanism.unit_rows() @ counts.ravel()
    np.testing.assert_allclose(mechanism.unit_values(measured), wanted, atol=1e-9)
    kinds = {values.dtype.kind for values in measured.values}
    assert kinds == ({"i"} if exact else {"f"})


@pytest.mark.parametrize("seed", seeds(200))
def test_no_record_costs_more_than_the_bound_for_large_domains(seed: int) -> None:
    """Also where precisions are far from costing every record the same."""
    mechanism = coupled(seed, exact=bool(seed % 2), most=1 + seed % 3)
    bases = [mechanism.bases[b] for b in mechanism.basis_of]
    bound = largest_cost(bases, mechanism.heads, mechanism.couplings)
    dearest = np.einsum("ri,ri->i", *(mechanism.unit_rows(),) * 2)
    assert dearest.max() <= bound
    np.testing.assert_allclose(mechanism.cell_costs(), dearest, rtol=1e-10)


def test_the_bound_is_reached_where_every_record_costs_the_same() -> None:
    """The heads of one attribute, uncoupled, and tails that fill them up to one length."""
    rows = np.array([[3.0, 3.0, -3.0], [4.0, -4.0, 4.0]])  # columns of length 5
    schema = nz.Schema.from_sizes({"a": 3, "b": 3})
    noise = Noise("gaussian", 2.0, exact=True)
    states = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    couplings = (
        Coupling(np.array([[0, 1]]), 0, states, np.eye(4), noise),
        Coupling(np.array([[0, 1], [1, 0]]), 1, np.array([[0], [1]]), np.eye(2), noise),
        Coupling(np.array([[0, 1]]), 2, np.zeros((1, 0), dtype=np.int64), np.ones((1, 1)), noise),
    )
    basis = (Basis.from_rows(rows),)
    mechanism = CoupledMechanism(schema, basis, np.zeros(2, int), np.ones(2, int), couplings)
    bound = largest_cost([basis[0]] * 2, mechanism.heads, couplings)
    assert bound == pytest.approx((1 + 25) ** 2 / 2, rel=1e-10)  # (1 + |u|²) of each attribute
    assert probed_cost([mechanism], "add-remove") == pytest.approx(bound, rel=1e-10)


def test_to_replace_a_record_costs_what_pairs_differ_by_or_four_times_a_record() -> None:
    mechanism = coupled(3)
    rows = mechanism.unit_rows()
    apart = max(float(((x - y) ** 2).sum()) for x in rows.T for y in rows.T)
    found = mechanism.record_cost("replace")
    assert apart <= found <= apart * (1 + 1e-9)
    sizes = {"a": 4, "b": 3, "c": 2, "d": 300}  # too many cells to compare them two by two
    large = nz.Schema.from_sizes(sizes)
    wide = replace(
        mechanism,
        schema=large,
        basis_of=np.append(mechanism.basis_of, -1),
        heads=np.append(mechanism.heads, 0),
    )
    assert wide.record_cost("replace") == 4 * wide.record_cost("add-remove")
    assert apart <= wide.record_cost("replace")


def cancelling(attributes: int, bits: int, factor: int) -> CoupledMechanism:
    """One row mixes states so that all but nothing is left of numbers up to (2·2^bits)^attributes.

    The head of a value is N − 1, N or N + 1, and the row multiplies by −N where there is none: what
    is measured is ∏ (h_i − N) times the factor, over noise of that size.
    """
    middle, every = 2**bits + 1, range(attributes)
    rows = np.array([[middle - 1, middle, middle + 1], [1, -1, 0]], dtype=np.float64)
    couplings = []
    for tails in (list(t) for n in range(attributes + 1) for t in combinations(every, n)):
        beside = [i for i in every if i not in tails]
        states = np.array(list(product((0, 1), repeat=len(beside))), dtype=np.int64)
        mixing = np.eye(len(states))
        if not tails:
            mixing[0] = [factor * (-middle) ** int((state == 0).sum()) for state in states]
        noise = Noise("gaussian", float(factor) ** 2, exact=True)
        sets = np.array([[*tails, *beside]])
        couplings.append(Coupling(sets, len(tails), states, mixing, noise))
    schema = nz.Schema.from_sizes({f"a{i}": 3 for i in every})
    basis_of, heads = np.zeros(attributes, dtype=np.int64), np.ones(attributes, dtype=np.int64)
    return CoupledMechanism(schema, (Basis.from_rows(rows),), basis_of, heads, tuple(couplings))


# Of two attributes 10⁻⁷ of the cost was lost in rounding.
CANCELLING = [(2, 15, 1102221539277), (2, 15, 1821392583879), (3, 15, 1554213059515635)]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("attributes", "bits", "factor"), CANCELLING)
def test_no_cost_is_hidden_by_rounding_where_numbers_cancel(
    attributes: int, bits: int, factor: int, neighbours: Any
) -> None:
    mechanism = cancelling(attributes, bits, factor)
    exact = exact_cost(mechanism, neighbours)
    assert Fraction(mechanism.record_cost(neighbours)) >= exact
    every = np.arange(attributes)
    cells = MergedValues(mechanism.schema, every, (np.arange(3),) * attributes)
    reduced = ReducedMechanism(cells, replace(mechanism, schema=cells.inner))
    wrapped = SideBySide((mechanism, reduced))
    for several in ([mechanism] * 2, [mechanism, reduced], [reduced] * 2, [wrapped]):
        assert Fraction(cost_of(several, neighbours).pcost) >= 2 * exact
    assert Fraction(cost_of([wrapped] * 2, neighbours).pcost) >= 4 * exact


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("sigma2", [1e-300, 1e-306, 1e-310, 5e-324])
def test_with_hardly_any_noise_it_costs_very_much_or_without_end(
    sigma2: float, neighbours: Any
) -> None:
    """By cell and by bound: no number is left out because it is none."""
    mechanism = coupled(1)
    large = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2, "d": 300})
    faint = [replace(c, noise=Noise("gaussian", sigma2, exact=True)) for c in mechanism.couplings]
    small = replace(mechanism, couplings=tuple(faint))
    wide = replace(
        small,
        schema=large,
        basis_of=np.append(mechanism.basis_of, -1),
        heads=np.append(mechanism.heads, 0),
    )
    least = exact_cost(small, neighbours)
    bases = [mechanism.bases[b] for b in mechanism.basis_of]
    bound = largest_cost(bases, mechanism.heads, small.couplings)
    assert bound == np.inf or least <= 4 * Fraction(bound)
    for each in (small, wide):
        stated = each.record_cost(neighbours)
        assert stated == np.inf or (sigma2 == 1e-300 and Fraction(stated) >= least)
        with pytest.raises(PlanError, match="lower privacy cost than its noise has: 1,"):
            require_price(each, Guarantee(1.0, "zcdp", neighbours))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("seed", seeds(12))
def test_the_cost_is_that_of_the_dearest_in_whole_numbers(seed: int, neighbours: Any) -> None:
    mechanism = coupled(seed)
    exact = exact_cost(mechanism, neighbours)
    assert exact <= Fraction(mechanism.record_cost(neighbours)) <= exact * Fraction(1 + 1e-9)


def test_integers_beyond_64_bits_are_measured_without_rounding() -> None:
    mechanism = coupled(2)
    rows = [c.rows * 2.0 ** (40 * np.arange(len(c.rows))) for c in mechanism.couplings]
    couplings = [replace(c, rows=r) for c, r in zip(mechanism.couplings, rows, strict=True)]
    huge = replace(mechanism, couplings=tuple(couplings))
    counts = np.random.default_rng(1).integers(0, 10**6, SCHEMA.shape)

    def marginals(sets: Array) -> Array:
        kept = [tuple(set(range(3)) - set(row)) for row in sets.tolist()]
        return np.array([counts.sum(axis=out) for out in kept])

    def noted(shape: tuple[int, ...], noise: Noise) -> Note:
        return Note.of(np.ones(shape), lambda numbers, sizes: found.append(numbers))

    found: list[Array] = []
    huge.measure(marginals, noted)
    plain = mechanism.measure(marginals, lambda shape, noise: np.zeros(shape, dtype=np.int64))
    assert max(abs(int(n)) for each in found for n in each.ravel()) > 2**64
    both = zip(mechanism.couplings, couplings, strict=True)
    for (first, coupling), values, small in zip(both, found, plain.values, strict=True):
        parts = np.linalg.solve(first.rows, small.reshape(-1, len(first.rows)).T)
        whole = np.rint(parts).astype(np.int64).astype(object)
        exact = np.array([[int(x) for x in row] for row in coupling.rows], dtype=object) @ whole
        assert values.tolist() == exact.T.reshape(values.shape).tolist()


def test_saved_and_read_again_it_is_the_same_to_the_last_bit() -> None:
    mechanism = coupled(4)
    again = CoupledMechanism.from_parts(*mechanism.parts(), SCHEMA)
    for query in queries():
        np.testing.assert_array_equal(again.variance(query), mechanism.variance(query))
    assert again.record_cost("add-remove") == mechanism.record_cost("add-remove")


def changed(name: str, value: Any) -> Callable[[Any], None]:
    return lambda arrays: arrays.update({name: np.asarray(value)})


DAMAGE: dict[str, tuple[Callable[[Any], None], str]] = {
    "no noise": (changed("coupling_3_sigma2", [0.0]), "no noise"),
    "several sizes": (changed("coupling_3_sigma2", [1.0, 2.0]), "or several"),
    "noise that is no number": (changed("coupling_3_sigma2", [np.nan]), "finite"),
    "noise that is complex": (changed("coupling_3_sigma2", [1.0 + 2.0j]), "real numbers"),
    "rows that are true or false": (changed("coupling_1_rows", np.eye(2) == 1), "real numbers"),
    "rows in words": (changed("coupling_1_rows", [["1", "0"], ["0", "1"]]), "real numbers"),
    "no couplings": (changed("tails", np.zeros(0, dtype=np.int64)), "nothing is measured"),
    "heads of nothing": (changed("heads", [2, 1, -1]), "heads where nothing"),
    "heads of other attributes": (changed("heads", [2, 1]), "heads where nothing"),
    "parts of heads": (changed("heads", [2.0, 1.0, 0.0]), "whole numbers"),
    "tails without end": (changed("tails", [0, 1, 1, 9, 2, 2, 2]), "do not fit"),
    "attributes that are not there": (changed("coupling_0_sets", [[0, 7]]), "not there"),
    "twice the same attribute": (changed("coupling_4_sets", [[0, 0]]), "not in order"),
    "heads that are not there": (changed("coupling_2_states", [[0], [1], [3]]), "not there"),
    "no states": (changed("coupling_2_states", np.zeros((0, 1), int)), "no states"),
    "other states": (changed("coupling_2_states", [[0, 0], [1, 0], [2, 0]]), "do not fit"),
    "a part measured twice": (changed("coupling_2_states", [[0], [1], [1]]), "once each"),
    "a lower triangle": (changed("coupling_1_rows", [[1.0, 0.0], [1.0, 1.0]]), "triangle"),
    "nothing on the diagonal": (changed("coupling_1_rows", [[1.0, 0.0], [0.0, 0.0]]), "triangle"),
    "fractions": (changed("coupling_1_rows", [[1.0, 0.5], [0.0, 1.0]]), "whole numbers"),
    "rows for other states": (changed("coupling_1_rows", np.eye(3)), "triangle"),
}


def test_one_set_of_tails_in_two_couplings_is_refused() -> None:
    """Its parts would be measured once each, but as if they had no noise in common."""
    mechanism = coupled(1)
    first, *others = mechanism.couplings
    parts = [
        replace(first, states=first.states[kept], rows=first.rows[kept, kept])
        for kept in (slice(None, 1), slice(1, None))
    ]
    with pytest.raises(PlanError, match="two couplings"):
        replace(mechanism, couplings=(*parts, *others))


@pytest.mark.parametrize("name", DAMAGE)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    damage, words = DAMAGE[name]
    content, arrays = coupled(1).parts()
    damage(arrays)
    with pytest.raises((StorageError, PlanError), match=words):
        CoupledMechanism.from_parts(content, arrays, SCHEMA)


def test_sets_of_which_a_part_is_missing_are_refused() -> None:
    mechanism = coupled(1)
    with pytest.raises(PlanError, match="once each"):
        replace(mechanism, couplings=mechanism.couplings[1:])
    with pytest.raises(PlanError, match="heads that its rows are not"):
        replace(mechanism, heads=np.array([3, 1, 0]))


def test_what_is_not_measured_is_refused() -> None:
    mechanism = coupled(1)
    with pytest.raises(UnanswerableError, match="measured together"):
        mechanism.require(nz.Query(SCHEMA, ["a", "b", "c"]))
    many = nz.Query(SCHEMA, {"a": nz.Custom(np.ones((2000, 4))), "b": nz.Custom(np.ones((4, 3)))})
    with pytest.raises(QueryError, match="ask for fewer rows"):
        mechanism.covariance(many, many)
