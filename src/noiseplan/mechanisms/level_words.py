"""Levels of a long attribute in words: what they are called, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noiseplan.domain.tree import Tree
from noiseplan.matrices.base import Array
from noiseplan.schema import Hierarchical, Schema
from noiseplan.texts import counted


def called(schema: Schema, place: int, tree: Tree, level: int) -> str:
    """How what is asked at a level of the tree is told: "by county"; "over all of 'geo'"."""
    name = schema.names[place]
    declared = _declared(schema, place, tree, level)
    if declared is not None:
        return f"by {schema.level_name(name, declared)}"
    if level == 0:
        return f"over all of {name!r}"
    return f"by {name}" if tree.sizes[level] == schema.shape[place] else f"by groups of {name!r}"


def _declared(schema: Schema, place: int, tree: Tree, level: int) -> str | None:
    """The declared level that groups the values as a level of the tree does."""
    kind = schema.attributes[place]
    if not isinstance(kind, Hierarchical):
        return None
    size = tree.sizes[level]
    for each in kind.levels:
        found = tree.level_of(kind.group_of(each)) if len(kind.level_labels(each)) == size else None
        if found is not None and found[0] == level:
            return each
    return None


def levels_in_words(schema: Schema, place: int, tree: Tree) -> str:
    """How many levels are measured; all places together are no level, unless declared as one."""
    name, hierarchical = schema.names[place], isinstance(schema.attributes[place], Hierarchical)
    if hierarchical and _declared(schema, place, tree, 0) is None:
        return f"{counted(tree.depth, 'level')} of {name} and in total"
    return f"{counted(tree.depth + 1, 'level')} of {name}"


def told_apart(schema: Schema, others: Sequence[int], rows: Array) -> str:
    """What rows over the cells of the others tell apart: "'sex' and 10 groups of 'age'"."""
    cube, found = rows.reshape(-1, *(schema.shape[i] for i in others)), []
    for axis, i in enumerate(others, 1):
        slices = np.moveaxis(cube, axis, 0).reshape(schema.shape[i], -1)
        many = len(np.unique(np.round(slices / np.abs(slices).max(), 9), axis=0))
        if many > 1:
            name = repr(schema.names[i])
            found.append(name if many == schema.shape[i] else f"{many:,} groups of {name}")
    return listed_words(found) or "nothing of the other attributes"


def listed_words(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *before, last = words or [""]
    return f"{', '.join(before)} and {last}" if before else last
