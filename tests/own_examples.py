"""Small mechanisms in which some blocks have rows of their own, with whole numbers throughout.

For schemas of three attributes of n, 2 and 3 values. τ is even on the first, (1, 2)/3 on the second
and (1, 1, 2)/4 on the third; rows with Uτ = 0 are made of any rows by U ← U·1ᵀτ − (Uτ)1ᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

import noiseplan as nz
from noiseplan.choosing.joined_plans import Origin, Union, described
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import (
    Blocks,
    OwnRows,
    group_blocks,
    own_basis,
    whole_basis,
    with_own,
)
from noiseplan.mechanisms.cost import cost_of
from noiseplan.mechanisms.residual import ResidualMechanism

Array = np.ndarray[Any, Any]
SCHEMA = nz.Schema(
    {"a": nz.Ordinal(range(4)), "b": nz.Categorical(["x", "y"]), "c": nz.Ordinal(range(3))}
)
SIZES = (2, 3, 2, 4)  # of the attributes of random blocks
SHARED: dict[tuple[int, ...], float] = {(): 2.0, (1,): 3.0, (2,): 5.0, (1, 2): 7.0}


def bases_of(values: int = 4) -> tuple[Basis, ...]:
    """Integer rows with these τ."""
    third = np.array([[1.0, -1.0, 0.0], [2.0, 0.0, -1.0]])
    return (
        Basis.integer(values),
        Basis.from_rows(np.array([[2.0, -1.0]])),
        Basis.from_rows(third),
    )


def centred(rows: Array, attribute: int) -> Array:
    """Whole rows with Uτ = 0 out of any whole rows."""
    tau = (np.ones(rows.shape[1]), np.array([1.0, 2.0]), np.array([1.0, 1.0, 2.0]))[attribute]
    return np.asarray(rows * tau.sum() - (rows @ tau)[:, None])


def product(rows: Sequence[Any], attributes: Sequence[int]) -> OwnRows:
    parts = []
    for u, attribute in zip(rows, attributes, strict=True):
        own = centred(np.array(u, float), attribute)
        parts.append(own_basis(own, bases_of(own.shape[1])[attribute].centre))
    return OwnRows(tuple(parts))


def whole(rows: Array, attributes: Sequence[int], bases: tuple[Basis, ...]) -> OwnRows:
    cube = rows.reshape(-1, *(bases[i].size for i in attributes)).astype(float)
    for axis, i in enumerate(attributes, start=1):
        cube = np.moveaxis(cube, axis, -1)
        flat = centred(cube.reshape(-1, cube.shape[-1]), i)
        cube = np.moveaxis(flat.reshape(cube.shape), -1, axis)
    centres = [bases[i].centre for i in attributes]
    return OwnRows((whole_basis(cube.reshape(len(cube), -1), centres),), whole=True)


def blocks_of(noise: dict[tuple[int, ...], float], exact: bool = False, values: int = 4) -> Blocks:
    by_width = {len(each): [s for s in noise if len(s) == len(each)] for each in noise}
    sets = [np.array(s, dtype=np.int64).reshape(len(s), w) for w, s in by_width.items()]
    sizes = [np.array([noise[s] for s in mine]) for mine in by_width.values()]
    return group_blocks(sets, sizes, bases_of(values), np.arange(3), exact)


def mixed(
    kind: str = "both", exact: bool = False, schema: nz.Schema = SCHEMA, noise: float = 1.0
) -> ResidualMechanism:
    """Shared rows on some sets; halves of the first attribute, and its sets with the second, by a
    product of low rank, or with the third, by a matrix."""
    values = schema.shape[0]
    blocks = blocks_of({each: noise * size for each, size in SHARED.items()}, exact, values)
    half, one = np.arange(values) < values // 2, np.arange(values) < 1
    own = [((0,), 40.0, product([half[None]], [0]))]
    if kind in ("product", "both"):
        own.append(((0, 1), 90.0, product([[half, one], [[1, 0]]], [0, 1])))
    if kind in ("whole", "both"):
        rows = np.random.default_rng(4).integers(-2, 3, (3, values * 3))
        own.append(((0, 2), 700.0, whole(rows, [0, 2], blocks.bases)))
    for each, size, rows_of in own:
        blocks = with_own(blocks, np.array([each]), np.array([noise * size]), rows_of)
    return ResidualMechanism(schema, blocks)


def random_blocks(seed: int) -> Blocks:
    """Random τ; shared rows on some sets, products of low rank and one matrix on others."""
    rng = np.random.default_rng(seed)
    bases = tuple(Basis.from_rows(rng.standard_normal((n - 1, n))) for n in SIZES)
    every = [c for width in range(3) for c in combinations(range(4), width)]
    kind = rng.integers(0, 3, len(every))
    shared = [each for each, k in zip(every, kind, strict=True) if k == 0 or not each]
    sets = [np.array([each], dtype=np.int64).reshape(1, len(each)) for each in shared]
    blocks = group_blocks(sets, [rng.uniform(1, 3, 1) for _ in sets], bases, np.arange(4))
    for each, k in zip(every, kind, strict=True):
        if k and each:
            own = random_rows(rng, [bases[i].centre for i in each], bool(k == 2))
            blocks = with_own(blocks, np.array([each]), rng.uniform(1, 3, 1), own)
    return blocks


def random_rows(rng: np.random.Generator, centres: list[Array], whole: bool) -> OwnRows:
    out = [np.eye(len(c)) - np.outer(c, np.ones(len(c))) for c in centres]
    if whole:
        both = out[0] if len(out) == 1 else np.kron(*out)
        rows = rng.standard_normal((int(rng.integers(1, 3)), len(both))) @ both
        while np.linalg.matrix_rank(rows) < len(rows):
            rows = rows[1:]
        return OwnRows((whole_basis(rows, centres),), whole=True)
    ranks = [int(rng.integers(1, len(c))) for c in centres]
    rows = [rng.standard_normal((r, len(o))) @ o for r, o in zip(ranks, out, strict=True)]
    return OwnRows(tuple(own_basis(u, c) for u, c in zip(rows, centres, strict=True)))


def own_plan(mechanism: ResidualMechanism, neighbours: Any = "add-remove") -> nz.Plan:
    """A plan of all that such a mechanism answers of tables, halves and some matrices."""
    schema, noise = mechanism.schema, "discrete" if mechanism.noise.exact else "gaussian"
    first, second, third = schema.names
    half = nz.Custom([1 * (np.arange(schema.shape[0]) < schema.shape[0] // 2)])
    asked = [nz.Query(schema, names) for names in ([], [second], [third], [second, third])]
    asked += [
        nz.Query(schema, {first: half}),
        nz.Query(schema, {first: half, second: nz.Identity()}),
    ]
    for block in mechanism.blocks:
        if block.whole:
            names = [schema.names[i] for i in block.sets[0]]
            rows = np.asarray(block.axes[0].measure) + 1.0
            asked.append(nz.Query(schema, names, matrix=rows, name="rows of a matrix"))
    union = Union(nz.Workload(asked), np.arange(1.0, len(asked) + 1.0))
    origin = Origin("residual", "none: rows of their own", noise, 1)
    return described(union, mechanism, cost_of([mechanism], neighbours), origin)
