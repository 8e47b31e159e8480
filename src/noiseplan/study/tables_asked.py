"""What a study asks, as a workload: tables of some size, single ones, and conditions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from noiseplan.errors import NoiseplanError
from noiseplan.queries import Custom, Factor, Identity, Levels, Query, Workload
from noiseplan.queries.factor_text import codes_of, read_factor
from noiseplan.queries.predicates import predicate_queries
from noiseplan.queries.query import as_factor
from noiseplan.queries.questions import read_question
from noiseplan.schema import Attribute, Schema
from noiseplan.study.code_lists import read_grouping
from noiseplan.study.nodes import Node
from noiseplan.texts import suggestion, unknown_attribute

_WAYS = ("k", "up_to", "query")
_KEYS = (*_WAYS, "factors", "matrix", "weight", "name")
_PREDICATE_KEYS = ("where", "name", "weight")
_PREDICATE = "[[predicates]] with where = \"age < 18 and sex = 'F'\""
_EXAMPLE = '[[tables]] with up_to = 2, k = 3 or query = "age, sex"'

_FACTORS = '"prefix", "25..34 | 35..44", { levels = [5, 10] } or { custom = [[1, 0, 0]] }'
_Level: TypeAlias = int | Mapping[Hashable, Hashable] | Sequence[Hashable]


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


# ---------------------------------------------------------------------- factors


def read_factors(node: Node, schema: Schema) -> dict[str, Factor]:
    """`factors = { age = "prefix" }`: what is asked of an attribute, by its name."""
    found = {}
    for name, child in node.keys('factors = { age = "prefix" }').items():
        if name not in schema:
            child.fail(unknown_attribute(name, schema, schema.level_names))
        found[name] = _factor(child, name, schema[name])
        with child.blamed():
            as_factor(schema, name, found[name])
    return found


def _factor(node: Node, name: str, attribute: Attribute) -> Factor:
    if isinstance(node.value, str):
        with node.blamed():
            return read_factor(node.value, name, attribute)
    if not isinstance(node.value, dict):
        node.expected(f"what is asked of {name!r}: {_FACTORS}")
    keys = node.table(("levels", "leaves", "total", "custom", "name", "labels"), _FACTORS)
    chosen = node.exactly_one(keys, ("levels", "custom"), f"what is asked of {name!r}")
    own = (
        ("levels", "leaves", "total")
        if chosen is keys.get("levels")
        else ("custom", "name", "labels")
    )
    for key in keys:
        if key not in own:
            keys[key].fail(f"{key} does not go with {own[0]}, which takes {', '.join(own[1:])}")
    return _levels(keys, attribute, name) if "levels" in keys else _custom(keys, attribute, name)


def _levels(keys: dict[str, Node], attribute: Attribute, name: str) -> Levels:
    levels = [
        _level(item, attribute, name)
        for item in keys["levels"].items('[5, 10] or [{ young = "0..17", old = "18.." }]')
    ]
    flags = {key: keys[key].boolean() for key in ("leaves", "total") if key in keys}
    with keys["levels"].blamed():
        return Levels(*levels, **flags)


def _level(node: Node, attribute: Attribute, name: str) -> _Level:
    """A width, groups with their values, a list of groups, or two columns of a file."""
    if isinstance(node.value, dict):
        if isinstance(node.value.get("file"), str):
            return read_grouping(node)  # type: ignore[return-value]
        return _groups(node, attribute, name)
    if isinstance(node.value, list):
        return [item.label() for item in node.items("a list of groups")]
    return node.integer("a number of values, a table of groups, or a list of groups", 1)


def _groups(node: Node, attribute: Attribute, name: str) -> dict[Hashable, Hashable]:
    """`{ young = "0..17", old = [65, 66] }`: the group of each value."""
    group_of: dict[Hashable, Hashable] = {}
    for group, values in node.keys('{ young = "0..17", old = "18.." }').items():
        for code in _codes(values, attribute, name):
            label = attribute.labels[code]
            if group_of.setdefault(label, group) != group:
                values.fail(
                    f"{label!r} is in group {group!r} and in {group_of[label]!r}; a value has one "
                    f"group at each level"
                )
    missing = [label for label in attribute.labels if label not in group_of]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + " …" * (len(missing) > 5)
        node.fail(f"no group for {shown}: every value of {name!r} needs one")
    return group_of


def _codes(node: Node, attribute: Attribute, name: str) -> list[int]:
    """The values of one group or row: a span as text, or a list."""
    if isinstance(node.value, str):
        with node.blamed():
            return codes_of(node.value, name, attribute)
    codes = []
    for item in node.items('"25..34", or a list of values'):
        try:
            codes.append(attribute.labels.index(item.label()))
        except ValueError:
            item.fail(
                f"{item.value!r} is no value of {name!r}, which is {attribute.describe()}"
                f"{suggestion(item.value, attribute.labels)}"
            )
    return codes


def _custom(keys: dict[str, Node], attribute: Attribute, name: str) -> Custom:
    node = keys["custom"]
    title = keys["name"].text("age groups") if "name" in keys else None
    labels = None
    if "labels" in keys:
        labels = [item.label() for item in keys["labels"].items('["young", "old"]')]
    if isinstance(node.value, dict):  # rows by their values, with their labels as keys
        if labels is not None:
            keys["labels"].fail("the rows have labels already: the keys of custom")
        rows = {label: set(_codes(row, attribute, name)) for label, row in node.keys("").items()}
        matrix: object = [[c in codes for c in range(attribute.size)] for codes in rows.values()]
        labels = list(rows)
    else:
        matrix = read_matrix(node)
    with node.blamed():
        return Custom(matrix, name=title, labels=labels)


def read_matrix(node: Node) -> list[list[float]]:
    """Rows of numbers, all of one length."""
    rows = []
    for row in node.items("[[1, 0, 0], [0, 1, 1]]"):
        rows.append([cell.number("a number") for cell in row.items("[1, 0, 0]")])
        if len(rows[-1]) != len(rows[0]):
            row.fail(f"{len(rows[-1])} numbers, and {len(rows[0])} in the first row")
    return rows
