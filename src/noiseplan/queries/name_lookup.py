"""Names made from attributes, read backwards: which queries of a workload are called so?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.queries.query import SEPARATOR, factor_name

if TYPE_CHECKING:
    from noiseplan.queries.workload import Workload


def positions_of_made_name(workload: Workload, name: str) -> list[int]:
    """Positions of the queries without a given name that are called `name`.

    The name is read rather than all names written: a workload may have a million tables.
    """
    c = workload.columns
    dense = np.flatnonzero(c.joint >= 0).tolist()
    found = [q for q in dense if workload.query(q).name == name]
    schema = workload.schema
    pieces = [(a, f, factor_name(schema.names[a], c.distinct[f])) for a, f in workload.pairs()]
    for spelling in _spellings(name, pieces):
        if len(spelling) > c.attributes.shape[1]:
            continue
        wanted = np.full((2, c.attributes.shape[1]), -1)
        wanted[:, : len(spelling)] = np.array(spelling, dtype=np.int64).reshape(-1, 2).T
        same = (c.attributes == wanted[0]).all(axis=1) & (c.factors == wanted[1]).all(axis=1)
        found += np.flatnonzero(same & (c.joint < 0)).tolist()
    return sorted(q for q in found if q not in c.names)


def _spellings(
    name: str, pieces: Sequence[tuple[int, int, str]], after: int = -1
) -> Iterator[list[tuple[int, int]]]:
    """All ways to read a name as (attribute, factor) numbers with the attributes ascending.

    There may be several, since the name of an attribute can hold any text.
    """
    if after < 0 and name == "total":
        yield []
    for a, f, text in pieces:
        if a > after and name == text:
            yield [(a, f)]
        if a > after and name.startswith(text + SEPARATOR):
            rest = name.removeprefix(text + SEPARATOR)
            yield from ([(a, f), *tail] for tail in _spellings(rest, pieces, a))
