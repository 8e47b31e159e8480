"""Costs of rows of different lengths: against every record, every pair, and never below."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import dearest

import noiseplan as nz
from depth import seeds
from noiseplan.domain import largest_sum
from noiseplan.domain.largest_sum import Table
from noiseplan.errors import PlanError
from noiseplan.mechanisms import uneven_cost as uneven
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Block, Blocks, OwnRows, group_blocks, own_basis
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.residual_cost import residual_cost
from noiseplan.noise import Noise
from own_examples import SIZES, random_blocks, random_rows

Array = np.ndarray[Any, Any]
BOTH = ["add-remove", "replace"]


def tables_of(rng: np.random.Generator, many: int) -> list[Table]:
    """Some tables of random numbers over two or three of five variables."""
    every = [c for width in (1, 2, 3) for c in combinations(range(5), width)]
    chosen = [every[i] for i in rng.choice(len(every), many, replace=False)]
    sizes = (2, 3, 2, 4, 3)
    return [Table(scope, rng.random([sizes[a] for a in scope])) for scope in chosen]


def brute(tables: list[Table]) -> float:
    every = product(*(range(n) for n in (2, 3, 2, 4, 3)))
    return max(
        float(sum(t.values[tuple(x[a] for a in t.attributes)] for t in tables)) for x in every
    )


@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([1, 6, 24, 10**6]))
def test_the_largest_sum_of_tables(many: int, seed: int, limit: int) -> None:
    tables = tables_of(np.random.default_rng(seed), many)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(largest_sum, "MOST_CELLS", limit)
        found, truth = largest_sum.largest_sum(tables)[0], brute(tables)
    assert found >= truth * (1 - 1e-12)
    assert found <= sum(float(table.values.max()) for table in tables) * (1 + 1e-12)
    if limit == 10**6:
        assert found == pytest.approx(truth, rel=1e-12)


def test_no_tables_have_no_sum() -> None:
    assert largest_sum.largest_sum([])[0] == 0.0


# ---------------------------------------------------------------------- mechanisms


def written_out(blocks: Blocks) -> tuple[Array, Array]:
    """All rows over the 48 cells and their σ², by their definition."""
    rows, sizes = [], []
    for block in blocks:
        for row, sigma2 in zip(block.sets.tolist(), block.sigma2, strict=True):
            own = [np.asarray(axis.measure) for axis in block.axes]
            columns = []
            for cell in product(*(range(n) for n in SIZES)):
                places = [cell[a] for a in row]
                if block.whole:
                    flat = int(np.ravel_multi_index(places, [SIZES[a] for a in row]))
                    columns.append(own[0][:, flat])
                else:
                    column = np.ones(1)
                    for u, place in zip(own, places, strict=True):
                        column = np.kron(column, u[:, place])
                    columns.append(column)
            rows.append(np.array(columns).T)
            sizes += [sigma2] * len(rows[-1])
    return np.vstack(rows), np.array(sizes)


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("neighbours", BOTH)
def test_every_record_and_every_pair(seed: int, neighbours: str) -> None:
    blocks = random_blocks(seed)
    truth = dearest(*written_out(blocks), 2, neighbours)
    stated = residual_cost(blocks.blocks, neighbours)  # type: ignore[arg-type]
    assert truth <= stated <= truth * (1 + 3e-9)


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("limit", [1, 20])
def test_bounds_are_above_every_record_and_every_pair(
    seed: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With limits so low that hardly anything is listed."""
    blocks = random_blocks(seed)
    rows, sizes = written_out(blocks)
    monkeypatch.setattr(uneven, "LISTED", limit)
    monkeypatch.setattr(uneven, "PAIRED", limit)
    for patterns in (1, 1 << 26):
        monkeypatch.setattr(uneven, "PATTERNS", patterns)
        for neighbours, most in (("add-remove", 2.0), ("replace", 8.0)):
            truth = dearest(rows, sizes, 2, neighbours)
            stated = residual_cost(blocks.blocks, neighbours)  # type: ignore[arg-type]
            assert truth <= stated <= most * truth


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("limit", [1, 20, 4096])
def test_parts_cost_together_what_the_whole_does(
    seed: int, neighbours: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Precisions that add up to those of a mechanism: what a look and its rest are."""
    monkeypatch.setattr(uneven, "LISTED", limit)
    monkeypatch.setattr(uneven, "PAIRED", limit)
    blocks = random_blocks(seed).blocks
    part = tuple(replace(b, noise=Noise("gaussian", 3 * b.sigma2)) for b in blocks)
    rest = tuple(replace(b, noise=Noise("gaussian", 1.5 * b.sigma2)) for b in reversed(blocks))
    whole = residual_cost(blocks, neighbours)  # type: ignore[arg-type]
    assert residual_cost(part + rest, neighbours) == pytest.approx(whole, rel=1e-11)  # type: ignore[arg-type]


def even_blocks(own: bool, sizes: tuple[int, ...]) -> Blocks:
    """All singles and pairs of attributes, by columns of equal length: their own or not."""
    shared = {n: Basis.orthogonal(n) for n in set(sizes)}
    bases = tuple(shared.values())
    of = np.array([list(shared).index(n) for n in sizes])
    sets = [np.array(list(combinations(range(len(sizes)), k))) for k in (1, 2)]
    blocks = group_blocks(sets, [np.full(len(s), 2.0) for s in sets], bases, of)
    if not own:
        return blocks
    changed = tuple(
        replace(b, own=OwnRows(tuple(own_basis(np.asarray(a.measure), a.centre) for a in b.bases)))
        for b in blocks
    )
    return replace(blocks, blocks=changed)


@pytest.mark.parametrize("neighbours", BOTH)
def test_even_columns_cost_what_they_did_at_any_size(neighbours: str) -> None:
    """The same rows as a block's own: exact by formula without, and no more with them."""
    sizes = (10, 12, 10, 12, 10, 12, 10, 12, 10, 12)
    plain, own = (
        residual_cost(even_blocks(o, sizes).blocks, neighbours)  # type: ignore[arg-type]
        for o in (False, True)
    )
    assert own == pytest.approx(plain, rel=2e-9)
    assert own >= plain * (1 - 1e-12)


def test_many_uneven_attributes_take_no_time() -> None:
    """Thirty attributes of ten values: above what dear records pay, in a moment."""
    rng = np.random.default_rng(0)
    base = Basis.orthogonal(10)
    total = group_blocks([np.zeros((1, 0), int)], [np.ones(1)], (base,), np.zeros(30, int))
    blocks = list(total.blocks)
    every = np.array(list(combinations(range(30), 2)))
    for some in np.array_split(every[rng.permutation(len(every))], 40):
        rows = random_rows(rng, [base.centre] * 2, whole=False)
        ordered = some[np.lexsort(some.T[::-1])]
        blocks.append(Block(ordered, Noise("gaussian", np.ones(len(some))), (base,) * 2, rows))
    start = time.process_time()
    stated = {n: residual_cost(blocks, n) for n in ("add-remove", "replace")}
    assert time.process_time() - start < 10.0
    record = rng.integers(0, 10, 30)

    def cost(x: Array) -> float:
        found = 1.0
        for block in blocks[1:]:
            left, right = (np.asarray(axis.measure) for axis in block.axes)
            norms = [(u**2).sum(axis=0) for u in (left, right)]
            found += float((norms[0][x[block.sets[:, 0]]] * norms[1][x[block.sets[:, 1]]]).sum())
        return found

    for place in range(30):
        tried = [np.where(np.arange(30) == place, v, record) for v in range(10)]
        record = max(tried, key=cost)
    assert cost(record) <= stated["add-remove"]
    assert stated["replace"] <= 4 * stated["add-remove"]


def test_costs_that_are_no_numbers_are_refused() -> None:
    blocks = random_blocks(1)
    (one,) = [b for b in blocks if b.own is not None][:1]
    assert one.own is not None
    huge = tuple(replace(part, measure=part.measure * 1e200) for part in one.own.parts)
    changed = replace(one, own=replace(one.own, parts=huge))
    for neighbours in ("add-remove", "replace"):
        with (
            np.errstate(over="ignore", invalid="ignore"),
            pytest.raises(PlanError, match="no known"),
        ):
            residual_cost([changed], neighbours)
        with pytest.raises(PlanError, match="without noise"):
            residual_cost([replace(one, noise=Noise("gaussian", 0 * one.sigma2))], neighbours)


def test_different_mechanisms_are_added_up_by_their_rows() -> None:
    """One with rows of its own and one with other bases altogether: over the cells of both."""
    schema = nz.Schema.from_sizes(dict(zip("abcd", SIZES, strict=True)))
    one, other = (ResidualMechanism(schema, random_blocks(seed)) for seed in (3, 4))
    rows, sizes = (
        np.concatenate(parts)
        for parts in zip(written_out(one.blocks), written_out(other.blocks), strict=True)
    )
    for neighbours in ("add-remove", "replace"):
        truth = dearest(rows, sizes, 2, neighbours)
        stated = one.cost_with([other], neighbours)
        assert stated is not None and truth <= stated <= truth * (1 + 3e-9)
