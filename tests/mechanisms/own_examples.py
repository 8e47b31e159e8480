"""Small mechanisms in which some blocks have rows of their own, with whole numbers throughout.

τ of an attribute is that of its basis; rows with Uτ = 0 are made by U ← U − (Uτ)1ᵀ, times what
makes them whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import noiseplan as nz
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import (
    Blocks,
    OwnRows,
    group_blocks,
    own_basis,
    whole_basis,
    with_own,
)
from noiseplan.mechanisms.residual import ResidualMechanism

Array = np.ndarray[Any, Any]
SCHEMA = nz.Schema(
    {"a": nz.Ordinal(range(4)), "b": nz.Categorical(["x", "y"]), "c": nz.Ordinal(range(3))}
)
# Every τ is of simple fractions: those of the whole numbers below.
BASES = (
    Basis.integer(4),
    Basis.from_rows(np.array([[2.0, -1.0]])),
    Basis.from_rows(np.array([[1.0, -1.0, 0.0], [2.0, 0.0, -1.0]])),
)
WHOLE = (np.ones(4), np.array([1.0, 2.0]), np.array([1.0, 1.0, 2.0]))  # τ in whole numbers


def centred(rows: Array, attribute: int) -> Array:
    """Whole rows with Uτ = 0 out of any."""
    tau = WHOLE[attribute]
    return rows * tau.sum() - (rows @ tau)[:, None]


def product(rows: Sequence[Any], attributes: Sequence[int]) -> OwnRows:
    parts = [
        own_basis(centred(np.array(u, float), i), BASES[i].centre)
        for u, i in zip(rows, attributes, strict=True)
    ]
    return OwnRows(tuple(parts))


def whole(rows: Any, attributes: Sequence[int]) -> OwnRows:
    sizes = [SCHEMA.shape[i] for i in attributes]
    cube = np.array(rows, float).reshape(-1, *sizes)
    for axis, i in enumerate(attributes, start=1):
        cube = np.moveaxis(cube, axis, -1)
        flat = centred(cube.reshape(-1, cube.shape[-1]), i)
        cube = np.moveaxis(flat.reshape(cube.shape), -1, axis)
    centres = [BASES[i].centre for i in attributes]
    return OwnRows((whole_basis(cube.reshape(len(cube), -1), centres),), whole=True)


def mixed(kind: str = "both", exact: bool = False) -> ResidualMechanism:
    """Shared rows on most sets; those of (0,), (0, 1) and (0, 2) of low rank or a matrix."""
    shared: dict[tuple[int, ...], float] = {(): 2.0, (1,): 3.0, (2,): 5.0, (1, 2): 7.0}
    blocks = blocks_of(shared, exact)
    halves = product([[[1, 1, 0, 0]]], [0])
    blocks = with_own(blocks, np.array([[0]]), np.array([40.0]), halves)
    if kind in ("product", "both"):
        low = product([[[1, 1, 0, 0], [1, 0, 0, 0]], [[1, 0]]], [0, 1])
        blocks = with_own(blocks, np.array([[0, 1]]), np.array([90.0]), low)
    if kind in ("whole", "both"):
        rng = np.random.default_rng(4)
        dense = whole(rng.integers(-2, 3, (3, 12)), [0, 2])
        blocks = with_own(blocks, np.array([[0, 2]]), np.array([700.0]), dense)
    return ResidualMechanism(SCHEMA, blocks)


def blocks_of(noise: dict[tuple[int, ...], float], exact: bool = False) -> Blocks:
    by_width = {len(each): [s for s in noise if len(s) == len(each)] for each in noise}
    sets = [np.array(s, dtype=np.int64).reshape(len(s), w) for w, s in by_width.items()]
    sizes = [np.array([noise[s] for s in mine]) for mine in by_width.values()]
    return group_blocks(sets, sizes, BASES, np.arange(3), exact)
