"""The cost found by experiment, and the question before data are measured: neither is fooled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import dearest

import noiseplan as nz
from noiseplan.errors import PlanError
from noiseplan.mechanisms import price
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.price import (
    NOTHING,
    ROUNDING,
    Note,
    Probed,
    can_probe,
    probed_cost,
    require_formula,
    require_price,
)
from noiseplan.noise import Noise
from noiseplan.privacy import Guarantee

Array = np.ndarray[Any, Any]
SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2})


def dense(
    rows: Any, law: str = "gaussian", size: float = 2.0, exact: bool = True
) -> DenseMechanism:
    return DenseMechanism(SCHEMA, np.asarray(rows, dtype=float), Noise(law, size, exact))  # type: ignore[arg-type]


# ---------------------------------------------------------------------- notes


def test_a_note_tells_what_it_is_added_to_and_changes_nothing() -> None:
    told: list[tuple[list[Any], list[float]]] = []
    note = Note.of(np.array([1.0, 4.0]), lambda n, s: told.append((n.tolist(), s.tolist())))
    numbers = np.array([7, -2])
    assert (numbers + note).tolist() == [7, -2]
    assert (note + numbers).tolist() == [7, -2]
    total = np.array([5, 6])
    total += note
    assert total.tolist() == [5, 6]
    assert told == [([7, -2], [1.0, 4.0]), ([7, -2], [1.0, 4.0]), ([5, 6], [1.0, 4.0])]


@pytest.mark.parametrize("use", [np.subtract, np.multiply, np.maximum, np.true_divide])
def test_noise_that_is_not_added_is_noticed(use: Any) -> None:
    """A mechanism that scaled or cut its noise would not have the cost that is stated."""
    note = Note.of(np.ones(2), lambda numbers, sizes: None)
    with pytest.raises(TypeError, match="noise is added, and nothing else"):
        use(np.ones(2), note)


# ---------------------------------------------------------------------- probing


@given(st.integers(1, 5), st.sampled_from([1, 2]), st.integers(0, 10**6))
def test_probed_costs_are_those_of_the_definition(numbers: int, power: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, (6, numbers)).astype(float)
    sizes = rng.uniform(0.5, 3, numbers)
    probed = Probed(values, sizes)
    assert probed.added(power) == pytest.approx(dearest(values.T, sizes, power, "add-remove"))
    assert probed.replaced(power) == pytest.approx(dearest(values.T, sizes, power, "replace"))


def test_a_number_without_noise_costs_everything_unless_it_never_changes() -> None:
    sizes = np.array([0.0, 1.0])
    assert Probed(np.array([[1.0, 1.0], [0.0, 1.0]]), sizes).added(2) == np.inf
    assert Probed(np.array([[0.0, 1.0], [0.0, 2.0]]), sizes).added(2) == 4.0
    same = Probed(np.array([[1.0, 0.0], [1.0, 3.0]]), sizes)  # the number of records
    assert same.added(1) == np.inf and same.replaced(1) == 3.0


@given(st.sampled_from(["gaussian", "laplace"]), st.booleans(), st.integers(0, 10**6))
def test_several_mechanisms_are_probed_as_one(law: str, exact: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [dense(rng.integers(-2, 3, (2, 6)), law, size, exact) for size in (1.0, 5.0)]
    rows = np.vstack([part.strategy for part in parts])
    sizes = np.repeat([1.0, 5.0], 2)
    for neighbours in ("add-remove", "replace"):
        brute = dearest(rows, sizes, 2 if law == "gaussian" else 1, neighbours)
        assert probed_cost(parts, neighbours) == pytest.approx(brute, rel=1e-12)


def test_only_small_things_are_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = dense(np.eye(6))
    assert can_probe([one]) and can_probe([one, one])
    monkeypatch.setattr(price, "PROBED_NUMBERS", 11)
    assert can_probe([one]) and not can_probe([one, one])
    monkeypatch.setattr(price, "PROBED_CELLS", 5)
    assert not can_probe([one])


def test_what_depends_on_the_data_is_not_probed() -> None:
    class Looking(DenseMechanism):
        most_numbers = np.inf
        kind = ""

    assert not can_probe([Looking(SCHEMA, np.eye(6), Noise("gaussian", 1.0))])


@dataclass(frozen=True, eq=False)
class Twice(DenseMechanism):
    """States the cost of its rows, and measures them doubled."""

    kind = ""

    def measure(
        self, marginals: Any, sample: Any, progress: Any = lambda done: None
    ) -> Measurements:
        return super().measure(lambda sets: 2 * marginals(sets), sample, progress)


@dataclass(frozen=True, eq=False)
class Quiet(DenseMechanism):
    """States the cost of its noise, and asks for a tenth of it."""

    kind = ""

    def measure(
        self, marginals: Any, sample: Any, progress: Any = lambda done: None
    ) -> Measurements:
        less = replace(self.noise, size=self.noise.size / 10)
        return super().measure(marginals, lambda shape, noise: sample(shape, less), progress)


@pytest.mark.parametrize(("kind", "factor"), [(Twice, 4), (Quiet, 10)])
def test_a_mechanism_that_does_not_do_what_it_states_is_stopped(kind: Any, factor: float) -> None:
    mechanism = kind(SCHEMA, np.eye(6), Noise("gaussian", 2.0, exact=True))
    stated = mechanism.cost("add-remove")
    assert stated.pcost == pytest.approx(0.5)
    assert probed_cost([mechanism], "add-remove") == pytest.approx(0.5 * factor)
    with pytest.raises(PlanError, match=f"costs {0.5 * factor:g}"):
        require_price(mechanism, stated)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("entry", [1, 3, 2**24 + 1, 2**40 + 1])
def test_what_integers_cost_is_found_to_the_last_digit(law: str, entry: int) -> None:
    """By fractions, where squares are beyond 64 bits, too."""
    rng = np.random.default_rng(entry)
    rows = rng.integers(-entry, entry + 1, (5, 6))
    sizes = [Fraction(float(size)) for size in rng.uniform(0.5, 3, 2)]
    power = {"gaussian": 2, "laplace": 1}[law]
    parts = [
        dense(some, law, float(size)) for some, size in zip(np.split(rows, [2]), sizes, strict=True)
    ]
    each = np.repeat(np.array(sizes, dtype=object), [2, 3])
    columns = rows.T.astype(object)
    added = max((abs(column) ** power / each).sum() for column in columns)
    apart = max((abs(a - b) ** power / each).sum() for a in columns for b in columns)
    for neighbours, exact in (("add-remove", added), ("replace", apart)):
        assert 0 <= 1 - probed_cost(parts, neighbours) / exact < Fraction(1, 2**70)


# ---------------------------------------------------------------------- the price


@pytest.mark.parametrize("factor", [1e-9, 1e-11])
def test_a_mechanism_that_measures_a_little_more_than_it_states_is_stopped(factor: float) -> None:
    @dataclass(frozen=True, eq=False)
    class Quieter(Quiet):
        kind = ""

        def measure(
            self, marginals: Any, sample: Any, progress: Any = lambda done: None
        ) -> Measurements:
            less = replace(self.noise, size=self.noise.size * (1 - factor))
            return DenseMechanism.measure(
                self, marginals, lambda shape, noise: sample(shape, less), progress
            )

    mechanism = Quieter(SCHEMA, np.eye(6), Noise("gaussian", 2.0, exact=True))
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_price(mechanism, mechanism.cost("add-remove"))


def test_rounding_of_formulas_is_forgiven_and_nothing_that_is_measured() -> None:
    mechanism = dense(np.eye(6))
    fair = mechanism.cost("add-remove")
    require_price(mechanism, fair)
    less = replace(fair, pcost=0.5 * (1 - float(ROUNDING) / 2))
    require_formula(mechanism, less)
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_price(mechanism, less)
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_formula(mechanism, replace(fair, pcost=0.5 * (1 - 3 * float(ROUNDING))))


@pytest.mark.parametrize(("law", "power"), [("gaussian", 2), ("laplace", 1)])
def test_a_person_pays_for_all_records(law: str, power: int) -> None:
    mechanism = dense(np.eye(6), law, 4.0)
    for people in (1, 2, 5):
        fair = mechanism.cost("add-remove", people)
        amount = fair.pure_epsilon if law == "laplace" else fair.pcost
        assert amount == pytest.approx(people**power / 4)
        require_price(mechanism, fair, people)
        if people > 1:
            with pytest.raises(PlanError, match="lower privacy cost"):
                require_price(mechanism, mechanism.cost("add-remove", people - 1), people)
    replaced = mechanism.cost("replace", 2)
    amount = replaced.pure_epsilon if law == "laplace" else replaced.pcost
    assert amount == pytest.approx(2 * 2**power / 4)
    require_price(mechanism, replaced, 2)


def test_a_price_is_for_its_own_neighbours() -> None:
    """Replacing a record costs more than adding one; the price says which it is for."""
    mechanism = dense(np.eye(6))
    added, replaced = mechanism.cost("add-remove"), mechanism.cost("replace")
    assert replaced.pcost == pytest.approx(2 * added.pcost)
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_price(mechanism, replace(added, neighbours="replace"))


def test_what_was_paid_before_is_added_exactly() -> None:
    parts = [dense(np.eye(6)[[i]], size=3.0) for i in range(3)]
    paid = NOTHING
    for part in parts:
        price = part.cost("add-remove")
        paid = paid.and_for(part, price)
    assert paid.mechanisms == tuple(parts)
    assert paid.price == sum((Fraction(p.cost("add-remove").pcost) for p in parts), Fraction(0))
    assert NOTHING.price == 0 and NOTHING.mechanisms == ()
    # Different cells: together they cost no record more than one of them does.
    require_price(dense(np.eye(6)[[5]], size=3.0), Guarantee(0.0, "zcdp"), before=paid)
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_price(dense(4 * np.eye(6)[[0]], size=3.0), Guarantee(0.1, "zcdp"), before=paid)


def test_gaussian_and_laplace_noise_are_not_added_up() -> None:
    gaussian, laplace = dense(np.eye(6)), dense(np.eye(6), "laplace")
    paid = NOTHING.and_for(gaussian, gaussian.cost("add-remove"))
    with pytest.raises(PlanError, match="not added up"):
        require_price(laplace, laplace.cost("add-remove"), before=paid)


def test_without_an_experiment_the_formula_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over domains too large to measure every record, the computed cost alone refuses."""
    monkeypatch.setattr(price, "PROBED_CELLS", 0)
    mechanism = dense(np.eye(6))
    fair = mechanism.cost("add-remove")
    assert not can_probe([mechanism])
    require_price(mechanism, fair)
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_price(mechanism, replace(fair, pcost=fair.pcost / 2))
