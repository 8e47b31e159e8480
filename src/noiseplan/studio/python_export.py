"""A study as a program: the Python that makes the same plan, complete in itself."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, Final

from noiseplan.errors import NoiseplanError
from noiseplan.queries import Custom, Factor, Identity, Level, Levels, Prefix, Query, Ranges
from noiseplan.queries.factor_text import read_factor
from noiseplan.schema import Attribute, Binned, Categorical, Hierarchical, Ordinal, Schema
from noiseplan.studio.views import entry_workload
from noiseplan.study import Study, StudyError
from noiseplan.study.nodes import Node
from noiseplan.study.tables_asked import read_factors

WIDTH: Final = 96
_HEAD: Final = '''"""{title}

Made by noiseplan from a study; run it in the folder of the study. No data is read.
"""
'''


def python_of(study: Study) -> str:
    """A program that makes the plan of a study and prints it."""
    sections = study.root.keys("")
    parts = [
        _call("schema", "nz.Schema", [_schema(study.schema, sections["schema"])]),
        _workload(study, sections),
        _plan(study),
        "print(plan)\n",
    ]
    body = "\n".join(parts)
    days = [name for name in ("date", "datetime", "timedelta") if f"{name}(" in body]
    imports = [f"from datetime import {', '.join(days)}\n"] if days else []
    head = _HEAD.format(title=_in_docstring(study.title) or "A plan.")
    return "\n".join([head, *imports, "import noiseplan as nz\n", body])


def _in_docstring(title: str) -> str:
    """A title that ends no docstring and holds no sign that source cannot."""
    escaped = title.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in escaped)


def _call(name: str, function: str, arguments: Sequence[str]) -> str:
    """`name = function(…)`, over several lines where one is too short."""
    line = f"{name} = {function}({', '.join(arguments)})"
    if len(line) <= WIDTH and "\n" not in line:
        return line + "\n"
    if len(arguments) == 1:
        return f"{name} = {function}({arguments[0]})\n"
    inner = "".join(f"    {each},\n" for each in arguments)
    return f"{name} = {function}(\n{inner})\n"


# ---------------------------------------------------------------------- what is public


def _schema(schema: Schema, node: Node) -> str:
    declared = node.keys("")
    lines = [f"    {name!r}: {_attribute(schema[name], declared[name])},\n" for name in schema]
    return "{\n" + "".join(lines) + "}"


def _attribute(attribute: Attribute, node: Node) -> str:
    if isinstance(attribute, Hierarchical):
        return _hierarchical(attribute, node.keys("")["hierarchical"])
    arguments = [_values(attribute)]
    for name in ("other", "missing"):
        given = getattr(attribute, name, None)
        arguments += [f"{name}={value(given)}"] if given is not None else []
    arguments += ["clip=True"] if getattr(attribute, "clip", False) else []
    return f"nz.{type(attribute).__name__}({', '.join(arguments)})"


def _values(attribute: Attribute) -> str:
    if isinstance(attribute, Binned):
        return value(list(attribute.edges))
    assert isinstance(attribute, Categorical | Ordinal)
    labels = attribute.values
    if isinstance(labels, range):
        return f"range({labels.start}, {labels.stop})"
    return _days(labels) or value(list(labels))


def _days(labels: Sequence[object]) -> str | None:
    """Days one after the other, as they would be counted."""
    first = labels[0] if labels else None
    if len(labels) < 5 or not isinstance(first, date) or isinstance(first, datetime):
        return None
    if list(labels) != [first + timedelta(days=n) for n in range(len(labels))]:
        return None
    return f"[{value(first)} + timedelta(days=n) for n in range({len(labels)})]"


def _hierarchical(attribute: Hierarchical, node: Node) -> str:
    said: dict[str, Any] = node.value  # type: ignore[assignment]  # it was read
    others = [] if attribute.other is None else [f"other={value(attribute.other)}"]
    if "levels" in said:
        options = [f"{key}={said[key]!r}" for key in ("separator", "paths") if key in said]
        arguments = [repr(said["file"]), repr(said["levels"]), *options, *others]
        return f"nz.Hierarchical.from_file({', '.join(arguments)})"
    codes = [label for label in attribute.labels if label != attribute.other]
    leaf = said.get("leaf", said.get("column", "code"))
    options = [f"leaf={leaf!r}"] + ([f"ignore={said['ignore']!r}"] if "ignore" in said else [])
    arguments = [value(codes), repr(said["prefixes"]), *options, *others]
    return f"nz.Hierarchical.from_codes({', '.join(arguments)})"


def value(given: object) -> str:
    """A label, a number or a list of them, as Python writes them."""
    if isinstance(given, list | tuple):
        return f"[{', '.join(value(each) for each in given)}]"
    if isinstance(given, datetime):
        parts = [given.year, given.month, given.day, given.hour, given.minute, given.second]
        more = [given.microsecond] if given.microsecond else []
        return f"datetime({', '.join(map(str, [*parts, *more]))})"
    if isinstance(given, date):
        return f"date({given.year}, {given.month}, {given.day})"
    if isinstance(given, float) and not math.isfinite(given):
        return f'float("{given}")'
    return repr(given)


# ---------------------------------------------------------------------- what is asked


def _workload(study: Study, sections: Mapping[str, Node]) -> str:
    pieces = [
        _piece(section, node, study.schema)
        for section in ("tables", "predicates")
        if section in sections
        for node in sections[section].items("")
    ]
    weighting = study.settings.weighting
    behind = "" if weighting is None else f".weighted({weighting!r})"
    if len(pieces) == 1 and not pieces[0].startswith("nz.Query"):
        return f"workload = {pieces[0]}{behind}\n"
    first = pieces[0] if not pieces[0].startswith("nz.Query") else f"nz.Workload([{pieces[0]}])"
    inner = f"    {first}\n" + "".join(f"    + {piece}\n" for piece in pieces[1:])
    return f"workload = (\n{inner}){behind}\n"


def _piece(section: str, node: Node, schema: Schema) -> str:
    keys = node.keys("")
    weight = [f"weight={keys['weight'].value!r}"] if "weight" in keys else []
    if section == "predicates":
        where, name = keys["where"].value, keys["name"].value if "name" in keys else None
        asked = where if isinstance(where, list) else [where] if name is None else {name: where}
        return f"nz.Workload.predicates({', '.join(['schema', repr(asked), *weight])})"
    if "query" in keys:
        (query,) = entry_workload(section, node, schema)
        return _query(query, weight)
    how = "k" if "k" in keys else "up_to"
    factors = read_factors(keys["factors"], schema) if "factors" in keys else {}
    given = [f"factors={_factors(factors, schema)}"] if factors else []
    size = f"{how}={keys[how].value}"
    return f"nz.Workload.marginals({', '.join(['schema', size, *given, *weight])})"


def _query(query: Query, weight: list[str]) -> str:
    name = [f"name={query.named!r}"] if query.named else []
    if query.joint is not None:
        matrix = f"matrix={query.joint.tolist()!r}"
        return (
            f"nz.Query({', '.join(['schema', repr(list(query.factors)), matrix, *weight, *name])})"
        )
    plain = all(isinstance(factor, Identity) for factor in query.factors.values())
    asked = repr(list(query.factors)) if plain else _factors(query.factors, query.schema)
    return f"nz.Query({', '.join(['schema', asked, *weight, *name])})"


def _factors(factors: Mapping[str, Factor], schema: Schema) -> str:
    each = [f"{name!r}: {_factor(factor, name, schema)}" for name, factor in factors.items()]
    return "{" + ", ".join(each) + "}"


def _factor(factor: Factor, name: str, schema: Schema) -> str:
    if isinstance(factor, Identity | Prefix | Ranges | Level):
        return f"nz.{factor!r}"
    if isinstance(factor, Levels):
        levels = [_level(level) for level in factor.groups]
        flags = [f"{flag}=False" for flag in ("leaves", "total") if not getattr(factor, flag)]
        return f"nz.Levels({', '.join([*levels, *flags])})"
    if isinstance(factor, Custom):
        with suppress(NoiseplanError):
            if read_factor(factor.name, name, schema[name]) == factor:
                return repr(factor.name)
        matrix, labels = repr(factor.values.tolist()), value(factor.labels)
        return f"nz.Custom({matrix}, name={factor.name!r}, labels={labels})"
    raise StudyError(f"what is asked of {name!r} cannot be written in Python here")


def _level(level: object) -> str:
    if isinstance(level, int):
        return str(level)
    if isinstance(level, tuple):
        return value(level)
    assert isinstance(level, frozenset)
    pairs: list[tuple[Hashable, Hashable]] = sorted(
        level, key=lambda pair: (str(type(pair[0])), pair)
    )
    return "{" + ", ".join(f"{value(each)}: {value(group)}" for each, group in pairs) + "}"


# ---------------------------------------------------------------------- what it may cost


def _plan(study: Study) -> str:
    settings = study.settings
    arguments = ["workload"]
    if study.budget is not None:
        arguments.append(f"budget=nz.{study.budget!r}")
    if study.targets is not None:
        targets = study.targets
        given = dict(targets) if isinstance(targets, Mapping) else targets
        arguments.append(f"targets={given!r}")
    if settings.objective is not None:
        arguments.append(f"objective={_objective(settings.objective)}")
    for name, usual in (("planner", "auto"), ("neighbours", "add-remove"), ("noise", None)):
        given = getattr(settings, name)
        arguments += [f"{name}={given!r}"] if given != usual else []
    if study.people is not None and study.people.max_rows != 1:
        arguments.append(f"max_rows={study.people.max_rows}")
    made = _call("plan", "nz.plan", arguments)
    if study.people is None:
        return made
    return made + f"plan = plan.with_unit({study.people.unit!r})\n"


def _objective(objective: object) -> str:
    given = {
        name: getattr(objective, name) for name in ("p", "at_most") if hasattr(objective, name)
    }
    said = [f"{name}={each!r}" for name, each in given.items() if each is not None]
    return f"nz.{type(objective).__name__}({', '.join(said)})"
