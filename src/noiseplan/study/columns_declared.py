"""The schema of a study: what each column may hold, in the file or from a public code list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isnan

from noiseplan.schema import Attribute, Binned, Categorical, Hierarchical, Label, Ordinal, Schema
from noiseplan.schema.code_files import read_code_columns
from noiseplan.schema.labels import number_text
from noiseplan.study.code_lists import public_file, read_code_list
from noiseplan.study.nodes import Node
from noiseplan.texts import suggestion

KINDS = ("categorical", "ordinal", "binned", "hierarchical")
# What goes with some kinds only.
EXTRAS = {
    "other": ("categorical", "hierarchical"),
    "clip": ("ordinal", "binned"),
    "missing": KINDS,
}
MOST_VALUES = 10_000_000
_EXAMPLES = {
    "categorical": 'sex = { categorical = ["F", "M"] }',
    "ordinal": "age = { ordinal = { from = 0, to = 99 } }",
    "binned": "income = { binned = [0, 10000, 50000] }",
    "hierarchical": 'geo = { hierarchical = { file = "a.csv", levels = ["tract", "county"] } }',
}

_KEYS = ("file", "levels", "column", "codes", "prefixes", "leaf", "ignore", "separator", "paths")
_LEVELS = '{ file = "places.csv", levels = ["tract", "county"] }'
_CODES = '{ file = "places.csv", column = "code", prefixes = { state = 2, county = 5 } }'
# Which keys go with levels by columns, and which with prefixes.
_BY_COLUMNS = ("file", "levels", "separator", "paths")
_BY_PREFIXES = ("file", "column", "codes", "prefixes", "leaf", "ignore", "separator")


def read_schema(node: Node) -> Schema:
    """Every attribute of `[schema]`, in the order written."""
    columns = node.keys(f"[schema] with lines such as {_EXAMPLES['ordinal']}")
    if not columns:
        node.fail(f"no attributes are declared; write lines such as {_EXAMPLES['ordinal']}")
    attributes = {name: read_attribute(column) for name, column in columns.items()}
    with node.blamed():
        return Schema(attributes)


def read_attribute(node: Node) -> Attribute:
    """What one column may hold."""
    example = " or ".join(text.partition(" = ")[2] for text in _EXAMPLES.values())
    keys = node.keys(example)
    for key, child in keys.items():
        if key not in (*KINDS, *EXTRAS):
            child.fail(
                f"unknown kind or option {key!r}; an attribute is {example}"
                f"{suggestion(key, (*KINDS, *EXTRAS))}"
            )
    values = node.exactly_one(keys, KINDS, "what the column holds")
    kind = str(values.place[-1])
    for key, child in keys.items():
        if kind not in EXTRAS.get(key, KINDS):
            child.fail(f"{key} does not go with {kind}; it belongs to {' or '.join(EXTRAS[key])}")
    missing = keys["missing"].text("not stated") if "missing" in keys else None
    blamed = keys.get("missing") or keys.get("other") or values
    clip = keys["clip"].boolean() if "clip" in keys else False
    if kind == "binned":
        edges = _edges(values)
        with values.blamed():
            Binned(edges, clip=clip)
        with blamed.blamed():
            return Binned(edges, clip=clip, missing=missing)
    other = keys["other"].label() if "other" in keys else None
    if kind == "hierarchical":
        return read_hierarchy(values, Beside(other, missing))
    labels = _labels(values)
    if kind == "ordinal":
        with blamed.blamed():
            return Ordinal(labels, missing=missing, clip=clip)
    with blamed.blamed():
        return Categorical(labels, other=other, missing=missing)


def _labels(node: Node) -> list[object] | range:
    """Values as a list, as whole numbers or days from … to …, or from a code list."""
    if isinstance(node.value, dict) and ("from" in node.value or "to" in node.value):
        return _days(node) if isinstance(node.value.get("from"), date) else _whole_numbers(node)
    if isinstance(node.value, dict):
        return list(read_code_list(node))
    items = node.items(
        '["F", "M"], { from = 0, to = 99 } or { file = "codes.csv", column = "code" }'
    )
    if not items:
        node.fail('no values are declared; list them from a code book, as in ["F", "M"]')
    labels = [item.label() for item in items]
    first: dict[object, int] = {}
    for position, (label, item) in enumerate(zip(labels, items, strict=True)):
        if label in first:
            item.fail(f"{label!r} is declared twice; it is already number {first[label] + 1}")
        if isinstance(label, float) and isnan(label):
            item.fail('nan stands for a missing value; declare a cell: missing = "not stated"')
        first[label] = position
    return list(labels)


def _whole_numbers(node: Node) -> range:
    ends = ("from", "to")
    keys = node.table(ends, "{ from = 0, to = 99 }", needed=ends)
    first, last = (_integer(keys[key]) for key in ends)
    if first > last:
        keys["to"].fail(f"to = {last} is below from = {first}; both ends are values")
    if last - first >= MOST_VALUES:
        keys["to"].fail(
            f"{last - first + 1:,} values are too many for one attribute (at most "
            f"{MOST_VALUES:,}); put the numbers into bins: {_EXAMPLES['binned']}"
        )
    return range(first, last + 1)


def _days(node: Node) -> list[object]:
    ends = ("from", "to")
    keys = node.table(ends, "{ from = 2020-01-01, to = 2020-12-31 }", needed=ends)
    first, last = (_day(keys[key]) for key in ends)
    if first > last:
        keys["to"].fail(f"to = {last} is before from = {first}; both ends are values")
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _day(node: Node) -> date:
    if not isinstance(node.value, date) or isinstance(node.value, datetime):
        node.expected("a day, as in 2020-01-31; for times use binned")
    return node.value


def _integer(node: Node) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        node.expected("a whole number; for other numbers use binned")
    return node.value


def _edges(node: Node) -> list[float | date]:
    """Edges as a list, or from … to … by steps."""
    if isinstance(node.value, dict) and {"from", "to", "step"} & set(node.value):
        return list(_steps(node))
    if isinstance(node.value, dict):
        edges = read_code_list(node)
        return [edge if isinstance(edge, int | float) else _number(edge, node) for edge in edges]
    items = node.items("[0, 10000, 50000] or { from = 0, to = 80, step = 5 }")
    for item in items:
        if isinstance(item.value, bool) or not isinstance(item.value, int | float | date):
            item.expected("a number, the edge of a bin")
    return [item.value for item in items]  # type: ignore[misc]


def _number(text: str, node: Node) -> float:
    try:
        return float(text)
    except ValueError:
        node.fail(f'{text!r} is no number; edges of bins from a file need type = "number"')


def _decimal(number: float) -> Decimal:
    """The decimal number that was written."""
    return Decimal(number_text(number))


def _steps(node: Node) -> list[float]:
    """Edges in decimals: three steps of 0.1 from 0 end at 0.3, not at 0.30000000000000004."""
    needed = ("from", "to", "step")
    keys = node.table(needed, "{ from = 0, to = 80, step = 5 }", needed)
    first, last = (_decimal(keys[key].number("a number")) for key in ("from", "to"))
    step = _decimal(keys["step"].positive("a number"))
    if last <= first:
        keys["to"].fail(f"to = {last} must be above from = {first}")
    count, rest = divmod(last - first, step)
    if count >= MOST_VALUES:
        keys["step"].fail(f"{count:,} bins are too many (at most {MOST_VALUES:,})")
    if rest:
        keys["step"].fail(
            f"steps of {step:f} from {first:f} do not reach {last:f}: the last whole one ends at "
            f"{first + count * step:f}"
        )
    return [float(first + step * i) for i in range(int(count) + 1)]


# ---------------------------------------------------------------------- hierarchies
#
# Hierarchical attributes of a study: levels by columns of a code list, or by prefixes of codes.
#
# geo = { hierarchical = { file = "places.csv", levels = ["block", "tract", "county"] } }
# geo = { hierarchical = { file = "places.csv", levels = { block = "GEOID", county = "name" } } }
# job = { hierarchical = { file = "jobs.csv", column = "code", prefixes = { section = 1 } } }
# job = { hierarchical = { codes = ["A01", "A02", "B05"], prefixes = { section = 1 } } }


@dataclass(frozen=True)
class Beside:
    """The names of the leaves for other and for missing values, where declared."""

    other: Label | None
    missing: str | None


def read_hierarchy(node: Node, beside: Beside) -> Hierarchical:
    """The attribute that a table of `[schema]` declares."""
    keys = node.table(_KEYS, f"{_LEVELS} or {_CODES}")
    chosen = node.exactly_one(keys, ("levels", "prefixes"), "what the levels are")
    by_columns = chosen is keys.get("levels")
    for key, child in keys.items():
        if key not in (_BY_COLUMNS if by_columns else _BY_PREFIXES):
            child.fail(f"{key} does not go with {chosen.place[-1]}")
    return _by_columns(node, keys, beside) if by_columns else _by_prefixes(node, keys, beside)


def _by_columns(node: Node, keys: Mapping[str, Node], beside: Beside) -> Hierarchical:
    if "file" not in keys:
        node.fail(f"levels are columns of a file, as in {_LEVELS}")
    path = public_file(keys["file"])
    levels = _columns(keys["levels"])
    paths = keys["paths"].boolean() if "paths" in keys else False
    with node.blamed():
        return Hierarchical.from_file(
            path, levels, separator=_separator(keys), paths=paths, **asdict(beside)
        )


def _columns(node: Node) -> Sequence[str] | Mapping[str, str]:
    if isinstance(node.value, dict):
        return {name: column.text("GEOID") for name, column in node.keys("").items()}
    return [item.text("county") for item in node.items('["tract", "county"], from fine to coarse')]


def _by_prefixes(node: Node, keys: Mapping[str, Node], beside: Beside) -> Hierarchical:
    codes = _codes(node, keys)
    prefixes = {
        name: length.integer("how many signs of the code the level has", 1)
        for name, length in keys["prefixes"].keys("{ state = 2, county = 5 }").items()
    }
    named = keys.get("leaf", keys.get("column"))  # leaves are called as their column is
    leaf = "code" if named is None else named.text("tract")
    ignore = keys["ignore"].text(".") if "ignore" in keys else ""
    with node.blamed():
        return Hierarchical.from_codes(codes, prefixes, leaf=leaf, ignore=ignore, **asdict(beside))


def _codes(node: Node, keys: Mapping[str, Node]) -> Sequence[str]:
    """The codes listed, or the different ones of a column."""
    given = node.exactly_one(dict(keys), ("codes", "file"), "where the codes are")
    if given is keys.get("codes"):
        return [item.text("06037") for item in given.items('["06037", "41051"]')]
    if "column" not in keys:
        node.fail(f"codes of a file need their column, as in {_CODES}")
    path, column = public_file(given), keys["column"].text("code")
    with node.blamed():
        (found,) = read_code_columns(path, [column], _separator(keys))
    return list(dict.fromkeys(found))  # type: ignore[arg-type]  # checked by the attribute


def _separator(keys: Mapping[str, Node]) -> str:
    return keys["separator"].text(";") if "separator" in keys else ","
