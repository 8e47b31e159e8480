"""What a study asks, as a workload: tables of some size, single ones, and conditions."""

from __future__ import annotations

from noiseplan.errors import NoiseplanError
from noiseplan.queries import Factor, Identity, Query, Workload
from noiseplan.queries.predicates import predicate_queries
from noiseplan.queries.questions import read_question
from noiseplan.schema import Schema
from noiseplan.study.factor_words import read_factors, read_matrix
from noiseplan.study.nodes import Node
from noiseplan.texts import suggestion, unknown_attribute

_WAYS = ("k", "up_to", "query")
_KEYS = (*_WAYS, "factors", "matrix", "weight", "name")
_PREDICATE_KEYS = ("where", "name", "weight")
_PREDICATE = "[[predicates]] with where = \"age < 18 and sex = 'F'\""
_EXAMPLE = '[[tables]] with up_to = 2, k = 3 or query = "age, sex"'


def read_workload(node: Node, schema: Schema) -> Workload:
    """The sum of all `[[tables]]`."""
    entries = node.items(_EXAMPLE)
    if not entries:
        node.fail(f"no tables are asked for; write {_EXAMPLE}")
    workload: Workload | None = None
    for entry in entries:
        piece = read_tables(entry, schema)
        with entry.blamed():
            workload = piece if workload is None else workload + piece
    assert workload is not None
    return workload


def read_tables(node: Node, schema: Schema) -> Workload:
    """The tables of one entry of `[[tables]]`."""
    keys = node.table(_KEYS, _EXAMPLE)
    chosen = node.exactly_one(keys, _WAYS, "which tables")
    factors = read_factors(keys["factors"], schema) if "factors" in keys else {}
    weight = keys["weight"].positive("a weight") if "weight" in keys else 1.0
    if chosen is keys.get("query"):
        return Workload([_query(node, keys, schema, factors, weight)])
    for key in ("name", "matrix"):
        if key in keys:
            keys[key].fail(f"{key} is for a single table: query = …, not {chosen.place[-1]} = …")
    ways = chosen.integer("how many attributes a table has", 0)
    if ways > len(schema):
        chosen.fail(f"tables of {ways} attributes: the schema has {len(schema)}")
    with node.blamed():
        if "k" in keys:
            return Workload.marginals(schema, k=ways, factors=factors, weight=weight)
        return Workload.marginals(schema, up_to=ways, factors=factors, weight=weight)


def _query(
    node: Node, keys: dict[str, Node], schema: Schema, factors: dict[str, Factor], weight: float
) -> Query:
    name = keys["name"].text("ages by sex") if "name" in keys else None
    plain = read_query(keys["query"], schema)
    for attribute in factors:
        if attribute not in plain.factors:
            keys["factors"].child(attribute).fail(
                f"the query does not name {attribute!r}; add it: query = "
                f'"{", ".join([*plain.factors, attribute])}"'
            )
        if not isinstance(plain.factors[attribute], Identity):
            keys["factors"].child(attribute).fail(
                f"what is asked of {attribute!r} is said twice: here and in the query"
            )
    if "matrix" in keys:
        matrix, names = read_matrix(keys["matrix"]), keys["query"].value
        if not isinstance(names, list):
            keys["query"].expected(
                'a list beside a matrix, as in ["age", "sex"]: its order is that of the columns'
            )
        with keys["matrix"].blamed():
            return Query(schema, names, matrix=matrix, weight=weight, name=name)
    with node.blamed():
        return Query(schema, {**plain.factors, **factors}, weight=weight, name=name)


def read_query(node: Node, schema: Schema) -> Query:
    """A query as text or as a list of attributes."""
    if isinstance(node.value, list):
        names = [item.text("age") for item in node.items('["age", "sex"]')]
        for name, item in zip(names, node.items(""), strict=True):
            if name not in schema and name not in schema.levels:
                item.fail(unknown_attribute(name, schema, schema.level_names))
        with node.blamed():
            return Query(schema, names)
    if not isinstance(node.value, str):
        node.expected('attributes, as in "age, sex" or ["age", "sex"]')
    with node.blamed():
        return read_question(node.value, schema)


def read_predicates(node: Node, schema: Schema) -> Workload:
    """All `[[predicates]]`: each one condition, or a list of them, with a weight."""
    entries = node.items(_PREDICATE)
    if not entries:
        node.fail(f"no predicates are given; write {_PREDICATE}")
    queries = [query for entry in entries for query in read_conditions(entry, schema)]
    with node.blamed():
        return Workload(queries)


def read_conditions(node: Node, schema: Schema) -> list[Query]:
    """The conditions of one entry of `[[predicates]]`."""
    keys = node.table(_PREDICATE_KEYS, _PREDICATE)
    if "where" not in keys:
        node.fail(f"a predicate needs a condition, as in {_PREDICATE}")
    where = keys["where"]
    weight = keys["weight"].positive("a weight") if "weight" in keys else 1.0
    if isinstance(where.value, list):
        texts = where.items('["age < 18", "sex = \'F\'"]')
        if "name" in keys:
            keys["name"].fail("a name is for a single condition: where = …, not where = […]")
        return [_condition(text, None, weight, schema) for text in texts]
    name = keys["name"].text("minors") if "name" in keys else None
    return [_condition(where, name, weight, schema)]


def _condition(node: Node, name: str | None, weight: float, schema: Schema) -> Query:
    text = node.text("age < 18 and sex = 'F'")
    with node.blamed():
        (query,) = predicate_queries(schema, [text] if name is None else {name: text}, weight)
    return query


def find_query(workload: Workload, name: str) -> Query:
    """The query of that name, or an error with the nearest one."""
    try:
        return workload[name]
    except NoiseplanError as error:
        names = [workload.query(i).name for i in range(min(len(workload), 1000))]
        close = suggestion(name, names)
        if not close:
            raise
        raise type(error)(f"no query is called {name!r}{close}") from None
