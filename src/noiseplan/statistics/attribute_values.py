"""Which values of an attribute have an order, and which numbers stand for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import TypeAlias, cast

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError, remedy
from noiseplan.matrices.base import Array
from noiseplan.schema import Attribute, Binned, Label, Ordinal, Schema
from noiseplan.schema.labels import IN_ORDER
from noiseplan.texts import suggestion

VALUES = remedy("argument", "values=", "--value")

Values: TypeAlias = Mapping[Label, float] | Sequence[float] | Array


def ordered_codes(attribute: Attribute) -> IntArray:
    """The codes of the values that have a place in the order, from the first to the last.

    Means and quantiles are of the records with these values, and of no others: a declared cell for
    missing values is left out.
    """
    return np.arange(attribute.stated)


def about_missing(name: str, attribute: Attribute) -> str:
    """Which records are left out, in words; nothing where none are."""
    if attribute.missing is None:
        return ""
    return f"of the records whose {name!r} is not {attribute.missing!r}"


def counted(attribute: Attribute) -> Array:
    """One row: 1 for every value in the order."""
    row = np.zeros(attribute.size)
    row[ordered_codes(attribute)] = 1.0
    return row


def numbers_of(name: str, attribute: Attribute, given: Values | None) -> tuple[Array, str]:
    """The number of every value in the order, and in words where it comes from.

    Numbers stand for themselves and bins for their midpoints, but for those that `given` maps to
    other numbers, by their labels or the texts of these; a sequence has a number for each value.
    """
    labels = [attribute.labels[code] for code in ordered_codes(attribute)]
    if given is not None and not isinstance(given, Mapping):
        return _checked(name, labels, given), "values as given"
    own = _own_numbers(attribute, labels)
    named = {} if given is None else _named(attribute, labels, given)
    if given is None and isinstance(attribute, Binned):
        edge_numbers(attribute)  # refuses dates
    lacking = [label for label in labels if label not in named and label not in own]
    if lacking and given is None:
        raise _without_number(name, attribute, lacking[0])
    rest = any(label not in named for label in labels)
    if rest and given:
        _require_values(name, attribute, labels, given)
    if lacking:
        raise QueryError(VALUES + f" has no number for {lacking[0]!r} of {name!r}")
    about = [*(["values as given"] if named else []), *([_about(name, attribute)] if rest else [])]
    return _checked(name, labels, [(own | named)[label] for label in labels]), "; ".join(about)


def _own_numbers(attribute: Attribute, labels: Sequence[Label]) -> dict[Label, float]:
    """The numbers that values stand for by themselves: those of an order, and middles of bins."""
    if isinstance(attribute, Binned):
        edges = np.array([] if attribute.dated else attribute.places)
        middles = ((edges[:-1] + edges[1:]) / 2).tolist()
        return {label: x for label, x in zip(labels, middles, strict=False) if isfinite(x)}
    numbers = filter(_is_number, labels if attribute.ordered else ())
    return {label: float(cast("float", label)) for label in numbers}


def _is_number(label: object) -> bool:
    if isinstance(label, bool) or not isinstance(label, Real):
        return False
    return isfinite(label)


def _about(name: str, attribute: Attribute) -> str:
    if not isinstance(attribute, Binned):
        return f"values: the numbers of {name!r}"
    beyond = ", also for numbers beyond the edges" if attribute.clip else ""
    return f"values: the midpoints of the bins of {name!r}{beyond}"


def _without_number(name: str, attribute: Attribute, lacking: Label) -> QueryError:
    if isinstance(attribute, Binned):
        why = f"bin, and {lacking} has no middle"
    else:
        why = f"value, and {name!r} is {attribute.describe()}: {lacking!r} has none"
    call = f"mean({name!r}, values={{{lacking!r}: 1.0, …}})"
    median = f", or ask for the median: median({name})" if attribute.ordered else ""
    return QueryError(
        f"the mean of {name!r} needs a number for each {why}; give it one: "
        + remedy("give values", call, f"{lacking}=NUMBER")
        + median
    )


def measured_attribute(schema: Schema, name: str) -> Attribute:
    """The attribute that a statistic is of; a level is none."""
    if name not in schema and name in schema.levels:
        raise of_a_hierarchy(schema, name)
    return schema[name]


def of_a_hierarchy(schema: Schema, name: str) -> QueryError:
    """Why there is no median of places, and what may be asked and declared instead."""
    other = next((each for each in schema.names if schema[each].ordered), "age")
    call = remedy("argument", f"median({other!r}, by={name!r})", f'"median({other}), {name}"')
    return QueryError(
        f"the values of {name!r} are places of a hierarchy and have no order; what is in order has "
        f"a median in each of them: "
        + call
        + ". If they are in order themselves, declare "
        + IN_ORDER
        + " in place of the hierarchy, whose groups of neighbours are asked for as "
        + remedy("argument", "Levels([…])", "{ levels = [...] }")
    )


def edge_numbers(attribute: Binned) -> Array:
    """The edges of bins of numbers; those of dates and times are refused."""
    if attribute.dated:
        raise QueryError(
            f"means and quantiles are of numbers, and this is {attribute.describe()}: ask for the "
            f"table, or for how many come before each date, as prefix sums"
        )
    return np.array(attribute.places)


def _named(
    attribute: Attribute, labels: Sequence[Label], given: Mapping[Label, float]
) -> dict[Label, float]:
    """The numbers that are given for some labels; 99 stands for 99+."""
    names: dict[Label, Sequence[Label]] = {label: (label, str(label)) for label in labels}
    if isinstance(attribute, Ordinal) and attribute.clip:
        names[labels[-1]] = (labels[-1], attribute.values[-1], str(attribute.values[-1]))
    found = {
        label: [given[each] for each in called if each in given] for label, called in names.items()
    }
    for label, numbers in found.items():
        if len(set(numbers)) > 1:
            raise QueryError(VALUES + f" has two numbers for {label!r}")
    return {label: numbers[0] for label, numbers in found.items() if numbers}


def _require_values(
    name: str, attribute: Attribute, labels: Sequence[Label], given: Mapping[Label, float]
) -> None:
    """Refuse a number for what is no value: beside values that keep theirs it would be lost."""
    known = [*labels, *(attribute.values if isinstance(attribute, Ordinal) else ())]
    texts = {str(label) for label in known}
    for key in given:
        if key not in known and key not in texts:
            meant = suggestion(key, texts)
            raise QueryError(VALUES + f" names {key!r}, no value of {name!r}{meant}")


def _checked(name: str, labels: Sequence[Label], given: Sequence[float] | Array) -> Array:
    numbers = np.asarray(given)
    if numbers.shape != (len(labels),) or numbers.dtype.kind not in "iuf":
        raise QueryError(
            VALUES + f" is one number for each of the {len(labels)} values of {name!r}, or a "
            f"mapping from them; found {given!r}"
        )
    if not np.isfinite(numbers).all():
        raise QueryError(VALUES + f" of {name!r} are finite numbers")
    return numbers.astype(float)
