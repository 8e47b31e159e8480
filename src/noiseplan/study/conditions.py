"""The predicates of a study: how many records satisfy a condition, as a workload."""

from __future__ import annotations

from noiseplan.errors import NoiseplanError
from noiseplan.queries import Query, Workload
from noiseplan.queries.predicates import predicate_queries
from noiseplan.schema import Schema
from noiseplan.study.nodes import Node

_KEYS = ("where", "name", "weight")
_EXAMPLE = "[[predicates]] with where = \"age < 18 and sex = 'F'\""


def read_predicates(node: Node, schema: Schema) -> Workload:
    """All `[[predicates]]`: each one condition, or a list of them, with a weight."""
    entries = node.items(_EXAMPLE)
    if not entries:
        node.fail(f"no predicates are given; write {_EXAMPLE}")
    queries = [query for entry in entries for query in _conditions(entry, schema)]
    try:
        return Workload(queries)
    except NoiseplanError as error:
        node.fail(error.message)


def _conditions(node: Node, schema: Schema) -> list[Query]:
    keys = node.table(_KEYS, _EXAMPLE)
    if "where" not in keys:
        node.fail(f"a predicate needs a condition, as in {_EXAMPLE}")
    where = keys["where"]
    weight = keys["weight"].positive("a weight") if "weight" in keys else 1.0
    if isinstance(where.value, list):
        texts = where.items('["age < 18", "sex = \'F\'"]')
        if "name" in keys:
            keys["name"].fail("a name is for a single condition: where = …, not where = […]")
        return [_query(text, None, weight, schema) for text in texts]
    name = keys["name"].text("minors") if "name" in keys else None
    return [_query(where, name, weight, schema)]


def _query(node: Node, name: str | None, weight: float, schema: Schema) -> Query:
    text = node.text("age < 18 and sex = 'F'")
    with node.blamed():
        (query,) = predicate_queries(schema, [text] if name is None else {name: text}, weight)
    return query
