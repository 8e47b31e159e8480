"""Levels with rows of their own, written out over all cells, node by node; queries to ask them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import noiseplan as nz
from noiseplan.domain.tree import Tree
from noiseplan.mechanisms.measured_levels import Level, LevelsMechanism
from noiseplan.noise import Noise

# The long attribute between two others, and one that no level asks for, so that nothing is in order
# by chance.
SCHEMA = nz.Schema.from_sizes({"a": 2, "t": 7, "unasked": 2, "b": 3})
PLACE, OTHERS, VALUES, CELLS = 1, (0, 3), 7, 6
# Values in no order; an only child of the root's, one below several, and a chain of both.
FINE, COARSE = np.array([2, 0, 1, 0, 3, 3, 4]), np.array([1, 0, 0, 0, 1, 1, 2])
EVERY = np.arange(VALUES)


def tree_of(*partitions: np.ndarray) -> Tree:
    found = Tree.of([np.zeros(len(partitions[0]), dtype=int), *partitions])
    assert found is not None
    return found


TREE = tree_of(EVERY, FINE, COARSE)
assert TREE.sizes == (1, 3, 5, 7)

SEX, BAND = np.kron(np.eye(2), np.ones((1, 3))), np.kron(np.ones((1, 2)), [[1.0, 1, 0], [0, 0, 1]])
TOLD: list[np.ndarray] = [
    np.eye(6) + 0.3 * np.tri(6),  # everything of the whole
    np.vstack([np.eye(6), np.ones((1, 6))]),
    np.vstack([SEX, 2 * BAND]),
    np.vstack([SEX, [[1.0, 2, 2, 1, 2, 2]]]),
]


def levels_of(
    tree: Tree,
    told: list[np.ndarray],
    *,
    whole: bool = False,
    least_squares: bool = False,
    seed: int = 1,
) -> tuple[Level, ...]:
    """Any parts and noise; noise in proportion to the parts where it is to be least squares."""
    rng, found = np.random.default_rng(seed), []
    for level, rows in enumerate(told):
        parts = rng.integers(1, 9, tree.sizes[level]).astype(float)
        if not whole:
            parts *= rng.uniform(0.3, 0.7)
        kept = np.ones(1, dtype=bool)
        if level:
            parent = tree.parents[level - 1]
            kept = (np.bincount(parent) > 1)[parent]
        sizes = rng.uniform(2, 9, len(parts))
        if least_squares and level:
            parent = tree.parents[level - 1]
            sizes = parts * rng.uniform(2, 9, tree.sizes[level - 1])[parent]
        own = np.rint(2 * rows) if whole else rows
        found.append(Level(own, parts, Noise("gaussian", sizes[kept], whole)))
    return tuple(found)


def made(told: list[np.ndarray] = TOLD, **how: Any) -> LevelsMechanism:
    levels = levels_of(TREE, told, **how)
    return LevelsMechanism(SCHEMA, PLACE, OTHERS, TREE, levels, how.get("whole", False))


# ---------------------------------------------------------------------- the oracle


def nodes_of(mechanism: LevelsMechanism, level: int) -> np.ndarray:
    """Nodes × values, zero or one."""
    node = mechanism.tree.node_of_value(level)
    return (node == np.arange(mechanism.tree.sizes[level])[:, None]).astype(float)


def families(mechanism: LevelsMechanism, level: int) -> Iterator[tuple[int, list[int]]]:
    """Every parent of a level with its children, those with siblings."""
    parents = mechanism.tree.parents[level - 1].tolist()
    for parent in sorted(set(parents)):
        children = [node for node, above in enumerate(parents) if above == parent]
        if len(children) > 1:
            yield parent, children


def written_out(mechanism: LevelsMechanism) -> list[np.ndarray]:
    """Of every level what is measured: measured rows × nodes with siblings × values × cells."""
    found = [np.einsum("rx,v->rvx", mechanism.levels[0].rows, np.ones(VALUES))[:, None]]
    for level, own in enumerate(mechanism.levels[1:], 1):
        nodes, along = nodes_of(mechanism, level), []
        for parent, children in families(mechanism, level):
            above, total = nodes_of(mechanism, level - 1)[parent], own.parts[children].sum()
            along += [(child, total * nodes[child] - own.parts[child] * above)
                      for child in children]  # fmt: skip
        rows = [each for _, each in sorted(along, key=lambda pair: pair[0])]
        found.append(np.einsum("rx,jv->rjvx", own.rows, np.array(rows)))
    return found


def estimates(mechanism: LevelsMechanism) -> list[np.ndarray]:
    """Of every level, nodes × cells × all measured numbers: x̂ by its definition, node by node."""
    shapes = mechanism.shapes
    begins = np.cumsum([0, *(r * n for r, n in shapes)])

    def numbers(level: int, place: int) -> np.ndarray:
        """ω of one node among all numbers, through B⁺."""
        rows, count = shapes[level]
        taken = np.zeros((rows, begins[-1]))
        taken[np.arange(rows), begins[level] + np.arange(rows) * count + place] = 1.0
        return np.asarray(np.linalg.pinv(mechanism.levels[level].rows) @ taken)

    found = [numbers(0, 0)[None]]
    for level, own in enumerate(mechanism.levels[1:], 1):
        above, here = found[-1], {}
        parents = mechanism.tree.parents[level - 1]
        kept = sorted(child for _, mine in families(mechanism, level) for child in mine)
        at = {child: place for place, child in enumerate(kept)}
        for parent in range(len(above)):
            children = np.flatnonzero(parents == parent).tolist()
            total = own.parts[children].sum()
            measured = {c: numbers(level, at[c]) if c in at else 0.0 for c in children}
            for child in children:
                share = own.parts[child] / total
                rest = measured[child] - share * sum(measured.values())
                here[child] = share * above[parent] + rest / total
        found.append(np.array([here[node] for node in sorted(here)]))
    return found


def noise_of(mechanism: LevelsMechanism) -> np.ndarray:
    """The variance of every measured number."""
    pairs = zip(mechanism.shapes, mechanism.levels, strict=True)
    return np.concatenate([np.tile(own.noise.variance, shape[0]) for shape, own in pairs])


def flat(found: list[np.ndarray]) -> np.ndarray:
    """All measured numbers × cells of the schema's order: the unasked attribute is summed over."""
    rows = np.concatenate([each.reshape(-1, VALUES, 2, 3) for each in found])
    rows = rows.transpose(0, 2, 1, 3)[:, :, :, None]  # a, t, unasked, b
    return np.broadcast_to(rows, (len(rows), 2, VALUES, 2, 3)).reshape(len(rows), -1)


def asked_of_values(query: nz.Query) -> np.ndarray:
    """Rows × values × cells: all query rows, whose weights do not depend on what is unasked."""
    cube = query.dense().reshape(-1, 2, VALUES, 2, 3)
    assert (cube[:, :, :, :1] == cube).all()
    return cube[:, :, :, 0].transpose(0, 2, 1, 3).reshape(-1, VALUES, CELLS)


def oracle(mechanism: LevelsMechanism, query: nz.Query) -> np.ndarray:
    """Query rows × measured numbers."""
    first = np.unique(mechanism.tree.of_value, return_index=True)[1]  # all of a node are alike
    return np.einsum("qvx,vxm->qm", asked_of_values(query)[:, first], estimates(mechanism)[-1])


def told(mechanism: LevelsMechanism, query: nz.Query) -> bool:
    """Whether what is measured tells it at all, by the row space."""
    rows, measured = query.dense(), flat(written_out(mechanism))
    inside = rows @ np.linalg.pinv(measured, rcond=1e-11) @ measured
    return bool(np.allclose(inside, rows, atol=1e-8 * np.abs(rows).max()))


def groups(of_value: np.ndarray) -> nz.Levels:
    return nz.Levels(of_value.tolist(), leaves=False, total=False)


VALUE_OF_B = nz.Identity()
MATRIX = np.random.default_rng(5).integers(-2, 3, (4, 2, VALUES, 3)).astype(float)
SEX_BY_VALUE = np.zeros((2, 2, VALUES, 3))
SEX_BY_VALUE[0, 1, 4], SEX_BY_VALUE[1, 0, [0, 2]] = 1.0, 2.5
ASKED: dict[str, nz.Query] = {
    "values": nz.Query(SCHEMA, ["t"]),
    "values by one": nz.Query(SCHEMA, ["a", "t"]),
    "by the last": nz.Query(SCHEMA, {"t": groups(FINE), "b": nz.Custom([[1, 1, 0], [0, 0, 1]])}),
    "all at the middle": nz.Query(SCHEMA, {"t": groups(COARSE), "a": nz.Identity(),
                                           "b": nz.Prefix()}),
    "two levels": nz.Query(SCHEMA, {"t": nz.Levels(FINE.tolist(), leaves=True, total=True),
                                    "a": nz.Identity()}),
    "prefixes": nz.Query(SCHEMA, {"t": nz.Prefix(), "a": nz.Identity()}),
    "weights": nz.Query(SCHEMA, {"t": nz.Custom(np.arange(14.0).reshape(2, 7)),
                                 "a": nz.Custom([[1.0, -2.0]])}),
    "another grouping": nz.Query(SCHEMA, {"t": groups(EVERY % 2)}),
    "coarser than the tree": nz.Query(SCHEMA, {"t": nz.Custom([[1, 0, 0, 0, 1, 1, 0]]),
                                               "b": nz.Identity()}),
    "others alone": nz.Query(SCHEMA, ["a", "b"]),
    "one of them": nz.Query(SCHEMA, ["b"]),
    "total": nz.Query(SCHEMA, []),
    "joint": nz.Query(SCHEMA, ["a", "t"], matrix=SEX_BY_VALUE[..., 0].reshape(2, -1),
                      name="joint"),
    "joint, too fine": nz.Query(SCHEMA, ["a", "t", "b"], matrix=MATRIX.reshape(4, -1),
                                name="fine"),
    "joint, without t": nz.Query(SCHEMA, ["a", "b"], matrix=[[1.0, 2, 3, 4, 5, 6]], name="mix"),
    "too fine": nz.Query(SCHEMA, ["t", "b"]),
    "too fine below": nz.Query(SCHEMA, {"t": groups(FINE), "b": nz.Identity()}),
}  # fmt: skip
TOO_FINE = {"joint, too fine", "too fine", "too fine below"}
