"""ε by brute force over every report and every pair of types, and files that must be refused."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, permutations
from math import comb, inf, isclose
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_oracles import one, workload

import noiseplan as nz
from depth import examples
from noiseplan.errors import DataError
from noiseplan.local.device.counting_randomizers import (
    ShiftRandomizer,
    SplitRandomizer,
    SubsetRandomizer,
    TableRandomizer,
)
from noiseplan.local.device.integer_chances import WHOLE, high_chance, high_epsilon
from noiseplan.local.device.noisy_sums import SumRandomizer, largest_distance
from noiseplan.local.device.randomizer import LENGTHS, MAGIC, VERSION
from noiseplan.local.device.randomizer_file import randomizer_from_bytes
from noiseplan.local.device.wire import ReportError
from noiseplan.local.split_planner import plan_split
from noiseplan.noise import SeededSource
from noiseplan.privacy import gaussian_epsilon

MECHANISMS = (
    "auto", "randomized response", "hadamard", "hadamard blocks", "hierarchical",
    "subset selection", "rappor",
)  # fmt: skip

# ------------------------------------------------------------------------------ brute force


def rows_of(randomizer: object) -> Iterator[list[Fraction]]:
    """The exact chance of every report for every type, from the integers alone."""
    if isinstance(randomizer, TableRandomizer):
        for row in randomizer.table.tolist():
            yield [Fraction(entry, WHOLE) for entry in row]
    elif isinstance(randomizer, ShiftRandomizer):
        n, cells = randomizer.types, list(np.ndindex(*randomizer.shape))
        for pattern, share, high in zip(
            randomizer.patterns, randomizer.shares.tolist(), randomizer.high.tolist(), strict=True
        ):
            k = int(pattern.sum())
            inside = Fraction(high, WHOLE * k) if k else Fraction(0)
            outside = Fraction(WHOLE - high, WHOLE * (n - k)) if k < n else Fraction(0)
            for shift in cells:
                places = [
                    tuple((a - b) % m for a, b, m in zip(u, shift, randomizer.shape, strict=True))
                    for u in cells
                ]
                hit = pattern.reshape(randomizer.shape)
                yield [Fraction(share, WHOLE) * (inside if hit[p] else outside) for p in places]
    elif isinstance(randomizer, SubsetRandomizer):
        n = randomizer.count
        for k, share, high in zip(
            randomizer.sizes.tolist(), randomizer.shares.tolist(), randomizer.high.tolist(),
            strict=True,
        ):  # fmt: skip
            inside = Fraction(high, WHOLE * comb(n - 1, k - 1)) if k else Fraction(0)
            outside = Fraction(WHOLE - high, WHOLE * comb(n - 1, k)) if k < n else Fraction(0)
            for chosen in combinations(range(n), k):
                each = [inside if u in chosen else outside for u in range(n)]
                yield [Fraction(share, WHOLE) * chance for chance in each]
    elif isinstance(randomizer, SplitRandomizer):
        names, shape = randomizer.schema.names, randomizer.schema.shape
        for share, table in zip(randomizer.shares.tolist(), randomizer.tables, strict=True):
            kinds = []
            for cell in np.ndindex(*shape):
                codes = dict(zip(names, cell, strict=True))
                inner = 0
                for name in table.schema.names:
                    inner = inner * table.schema[name].size + codes[name]
                kinds.append(inner if table.cells is None else int(table.cells[inner]))
            for row in rows_of(table):
                yield [Fraction(share, WHOLE) * row[kind] for kind in kinds]
    else:
        raise TypeError(type(randomizer))


def largest_loss(rows: list[list[Fraction]]) -> Decimal:
    """max over reports and pairs of types of ln(chance ÷ chance), to fifty digits."""
    ratio = Fraction(1)
    for row in rows:
        if not any(row):
            continue
        assert all(row), "a report that only some types give says who they are not"
        ratio = max(ratio, *(a / b for a, b in permutations(row, 2)))
    with localcontext() as context:
        context.prec = 50
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


def check(randomizer: object, asked: float) -> None:
    rows = list(rows_of(randomizer))
    assert all(sum(column) == 1 for column in zip(*rows, strict=True))
    loss = largest_loss(rows)
    stated = Decimal(randomizer.epsilon)
    assert loss <= stated <= Decimal(asked)
    assert stated - loss <= Decimal("1e-12") * max(stated, Decimal("1e-3"))  # up, but not far up


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.7])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_report_is_private(mechanism: str, epsilon: float) -> None:
    check(nz.local.plan(one(6, nz.Prefix()), epsilon, mechanism=mechanism).randomizer(), epsilon)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_every_report_of_structured_plans_is_private(epsilon: float) -> None:
    histogram = nz.local.plan(one(7, nz.Identity()), epsilon).randomizer()
    assert isinstance(histogram, ShiftRandomizer)
    check(histogram, epsilon)
    schema = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 2})
    marginals = nz.local.plan(nz.Workload.marginals(schema, k=2), epsilon).randomizer()
    assert isinstance(marginals, ShiftRandomizer)
    check(marginals, epsilon)
    for mechanism in ("fourier", "weighted fourier"):
        made = nz.local.plan(workload("3-way", 8), epsilon, mechanism=mechanism)
        check(made.randomizer(), epsilon)


def test_every_report_of_a_split_is_private() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 2})
    asked = [nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()}), nz.Query(schema, ["b", "c"])]
    made = plan_split(nz.Workload(asked), 1.0, cells=6)
    assert len(made.parts) == 2
    check(made.randomizer(), 1.0)


def test_the_check_of_privacy_can_fail() -> None:
    plan = nz.local.plan(one(4, nz.Prefix()), 1.0, mechanism="randomized response")
    table = plan.randomizer().table.copy()
    table[0, 0] += 2**20
    table[1, 0] -= 2**20
    made = TableRandomizer(plan.types.schema, None, table)
    with pytest.raises(AssertionError):
        check(made, 1.0)
    assert made.epsilon > 1.0


@examples(60)
@given(st.integers(2, 40), st.data())
def test_chances_of_shapes_are_judged_from_both_sides(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n - 1))
    high = data.draw(st.integers(1, WHOLE - 1))
    ratio = Fraction(high, k) / Fraction(WHOLE - high, n - k)
    stated = high_epsilon(high, k, n)
    with localcontext() as context:
        context.prec = 50
        exact = abs((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())
    assert exact <= Decimal(stated) <= exact + Decimal("1e-12") * (1 + exact)


@pytest.mark.parametrize("mechanism", ["matrix l1", "matrix l2"])
def test_added_noise_is_as_large_as_the_distance_of_types(mechanism: str) -> None:
    randomizer = nz.local.plan(one(5, nz.Prefix()), 1.0, mechanism=mechanism).randomizer()
    assert isinstance(randomizer, SumRandomizer)
    assert randomizer.epsilon <= 1.0
    columns = [[int(entry) for entry in column] for column in randomizer.rows.T]
    power = 1 if mechanism == "matrix l1" else 2
    farthest = max(
        sum(abs(a - b) ** power for a, b in zip(u, v, strict=True))
        for u, v in permutations(columns, 2)
    )
    assert largest_distance(randomizer.rows, power) == farthest
    if power == 1:  # the loss of discrete Laplace noise is distance ÷ scale
        assert Fraction(farthest) / randomizer.scale <= Fraction(randomizer.epsilon)
    else:  # the exact curve of continuous noise: hardly less, and not more than was asked for
        pcost = float(farthest / randomizer.scale)
        exact = gaussian_epsilon(pcost, randomizer.delta)
        assert exact * (1 - 1e-12) <= randomizer.epsilon <= exact * (1 + 1e-9)


def test_distances_have_no_largest_number() -> None:
    rows = np.array([[2**60, -(2**60)], [2**60, 0]])
    assert largest_distance(rows, 1) == 2**61 + 2**60
    assert largest_distance(rows, 2) == 2**122 + 2**120


# ------------------------------------------------------------------------------ forged files

SCHEMA = nz.Schema.from_sizes({"v": 3})
EVEN = np.array([[WHOLE // 2] * 3, [WHOLE - WHOLE // 2] * 3])


def test_tables_must_be_chances() -> None:
    assert TableRandomizer(SCHEMA, None, EVEN).epsilon == 0.0
    quarter = np.full((4, 3), WHOLE // 4)
    wrapped = np.vstack([np.full((16, 3), WHOLE), quarter])  # a multiple of 2⁶⁴ too much
    for table in (
        EVEN[:1],
        EVEN * 2,
        EVEN.astype(float),
        EVEN[:, 0],
        wrapped,
        np.zeros((0, 3), int),
    ):
        with pytest.raises(ReportError):
            TableRandomizer(SCHEMA, None, table)
    sure = EVEN.copy()
    sure[0, 0], sure[1, 0] = WHOLE, 0
    with pytest.raises(ReportError):
        TableRandomizer(SCHEMA, None, sure)


def test_shapes_must_be_chances() -> None:
    all_ = np.array([WHOLE])
    for sizes, high in (([3], [WHOLE - 1]), ([0], [1])):  # a subset of all, without the user's type
        made = SubsetRandomizer(SCHEMA, None, 3, np.array(sizes), all_, np.array(high))
        assert made.epsilon == inf
        with pytest.raises(ReportError, match="not private at any"):
            randomizer_from_bytes(made.to_bytes())
    for sizes, shares in (([4], all_), ([-1], all_), ([1], all_ - 1), ([1], np.array([WHOLE, 0]))):
        with pytest.raises(ReportError):
            SubsetRandomizer(SCHEMA, None, 3, np.array(sizes), shares, all_ // 2)
    pattern = np.array([[True, False, False]])
    high = np.array([high_chance(1, 3, 1.0)])
    assert ShiftRandomizer(SCHEMA, None, (3,), pattern, all_, high).epsilon <= 1.0
    for shape, shares in (((4,), all_), ((3,), all_ - 1)):
        with pytest.raises(ReportError):
            ShiftRandomizer(SCHEMA, None, shape, pattern, shares, high)


def test_files_of_other_numbers_are_refused() -> None:
    """Whoever can write a right hash can write any file: its content is judged as well."""
    content = TableRandomizer(SCHEMA, None, EVEN)._content
    forged = (
        content.replace(b'"<i8"', b'"<f8"'),
        content.replace(b'"kind": "table"', b'"kind": "tabby"'),
        content.replace(b'"types"', b'"tubes"'),
        content[:-8],
        b"",
    )
    for text in (content, *forged):
        body = zlib.compress(text)
        head = LENGTHS.pack(MAGIC, VERSION, len(body))
        data = head + body + hashlib.sha256(text).digest()
        if text is content:
            assert randomizer_from_bytes(data).epsilon == 0.0
        else:
            with pytest.raises(ReportError):
                randomizer_from_bytes(data)
    assert struct.unpack_from("<I", content)[0] < len(content)


# ------------------------------------------------------------------------------ values and arrays


def test_columns_of_different_lengths_are_refused() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    randomizer = nz.local.plan(nz.Query(schema, ["a", "b"]), 1.0).randomizer()
    with pytest.raises(ReportError, match=r"one value per user each, found \{'a': 1, 'b': 3\}"):
        randomizer.reports({"a": [1], "b": [0, 1, 1]})


def test_arrays_that_are_no_reports_are_refused() -> None:
    table = nz.local.plan(one(6, nz.Prefix()), 1.5)
    subset = nz.local.plan(one(6, nz.Prefix()), 1.5, mechanism="subset selection")
    for plan, arrays in (
        (table, (np.zeros((3, 2), dtype=int), np.zeros(3), np.zeros(3, dtype=np.uint64))),
        (subset, (np.zeros((3, 5), dtype=bool), np.zeros((3, 6), dtype=int), np.zeros(6, bool))),
    ):
        aggregator = plan.aggregator()
        for array in arrays:
            with pytest.raises(DataError):
                aggregator.add_many(array)
        assert aggregator.users == 0
        assert not aggregator.tally.any()
    narrow = table.randomizer().reports([0, 1, 2]).astype(np.uint16)
    assert table.aggregator().add_many(narrow) == 3


# ------------------------------------------------------------------------------ repeated reports


def test_a_report_that_could_not_be_kept_is_not_sent(tmp_path: Path) -> None:
    randomizer = nz.local.plan(one(50, nz.Prefix()), 1.0, mechanism="hierarchical").randomizer()
    folder = tmp_path / "missing"
    folder.mkdir()
    nowhere = nz.local.Memory(randomizer, folder / "memory.json")
    folder.rmdir()
    for _ in range(2):
        with pytest.raises(ReportError, match=r"memory\.json.*nothing was reported"):
            nowhere.report(7)
    assert nowhere.spent == 0


def test_what_is_spent_is_rounded_up() -> None:
    randomizer = nz.local.plan(one(20, nz.Prefix()), 0.1, mechanism="hadamard").randomizer()
    memory = nz.local.Memory(randomizer)
    for value in range(17):
        memory.report(value)
        assert Fraction(memory.spent) >= (value + 1) * Fraction(randomizer.epsilon)
        assert isclose(memory.spent, (value + 1) * randomizer.epsilon, rel_tol=1e-15)


def test_memory_of_a_split_tells_all_cells_apart() -> None:
    schema = nz.Schema.from_sizes({f"a{i}": 8 for i in range(22)})  # 2⁶⁶ cells
    asked = nz.Workload([nz.Query(schema, [name]) for name in schema.names])
    randomizer = nz.local.plan(asked, 1.0, mechanism="split", cells=8).randomizer()
    memory = nz.local.Memory(randomizer)
    low = dict.fromkeys(schema.names, 0)
    first = memory.report(low, source=SeededSource(1))
    memory.report(low | {"a0": 4}, source=SeededSource(2))  # 2⁶⁵ cells away
    assert memory.spent == 2 * randomizer.epsilon
    assert memory.report(low) == first
