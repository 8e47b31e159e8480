"""The crossproduct of two workloads: every query of one with every query of the other.

Over disjoint attributes a row v of one and a row w of the other become v ⊗ w, which counts the
records that both describe. Products of factors stay products of factors; only where one of the two
is a dense matrix over several attributes is the other written out beside it.

References
----------
C. Li, dissertation, 2013, Definition 4.12 and Theorem 4.13: crossproduct and conjunction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from noiseplan.errors import QueryError
from noiseplan.matrices import KroneckerMatrix
from noiseplan.queries.query import SEPARATOR, Query
from noiseplan.schema import Schema


def joined_schema(one: Schema, other: Schema) -> Schema:
    """The attributes of one, then those of the other that are new."""
    if one == other:
        return one
    for name in one.names:
        if name in other and one[name] != other[name]:
            raise QueryError(
                f"workloads that are crossed declare alike what they share, and {name!r} is "
                f"{one[name]!r} in one and {other[name]!r} in the other"
            )
    pairs = zip(other.names + one.names, other.attributes + one.attributes, strict=True)
    found = dict(pairs)
    return Schema({name: found[name] for name in dict.fromkeys(one.names + other.names)})


def crossed(schema: Schema, one: Sequence[Query], other: Sequence[Query]) -> list[Query]:
    """Every query of one with every query of the other, over the joined schema."""
    unclear = _repeated(one) | _repeated(other)
    return [_product(schema, a, b, unclear) for a in one for b in other]


def _repeated(queries: Sequence[Query]) -> set[str]:
    """Names that several queries have, since they were made from attributes."""
    return {name for name, often in Counter(query.name for query in queries).items() if often > 1}


def _product(schema: Schema, one: Query, other: Query, unclear: set[str]) -> Query:
    both = [name for name in one.attributes if name in other.factors]
    if both:
        raise QueryError(
            f"{one.name!r} and {other.name!r} both ask about {', '.join(map(repr, both))}: queries "
            f"that are crossed ask about different attributes"
        )
    # A name that was given stays, beside that of the other; a total without one says nothing.
    parts = [query.name for query in (one, other) if query.named or query.attributes]
    given = (one.named or other.named) and not unclear.intersection(parts)
    weight, name = one.weight * other.weight, SEPARATOR.join(parts) if given else None
    if one.joint is None and other.joint is None:
        return Query(schema, {**one.factors, **other.factors}, weight=weight, name=name)
    matrix = KroneckerMatrix((*one.pieces, *other.pieces)).dense()
    names = (*one.attributes, *other.attributes)
    return Query(schema, names, matrix=matrix, weight=weight, name=name)
