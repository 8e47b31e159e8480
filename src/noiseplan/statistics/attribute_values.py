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


def numbers_of(name: str, attribute: Attribute, given: Values | None) -> tuple[Array, Array, str]:
    """The least and the largest number of every value in the order, and in words what they are.

    Numbers are exactly themselves and a bin has any number between its edges, but for values that
    `given` maps to one number, by their labels or the texts of these; a sequence has a number for
    each value.
    """
    labels = [attribute.labels[code] for code in ordered_codes(attribute)]
    if given is not None and not isinstance(given, Mapping):
        numbers = _checked(name, labels, given)
        return numbers, numbers, "values as given"
    own = _own_numbers(attribute, labels)
    named = {} if given is None else _named(attribute, labels, given)
    if given is None and isinstance(attribute, Binned):
        edge_numbers(attribute)  # refuses dates
    lacking = [label for label in labels if label not in named and label not in own]
    if lacking and given is None:
        raise _without_number(name, attribute, lacking)
    rest = any(label not in named for label in labels)
    if rest and given:
        _require_values(name, attribute, labels, given)
    if lacking:
        raise QueryError(VALUES + f" has no number for {lacking[0]!r} of {name!r}")
    means = ", as the means of their bins" if isinstance(attribute, Binned) else ""
    about = [f"values as given{means}"] if named else []
    about += [about_labels(name, attribute)] if rest else []
    ends = own | {label: (number, number) for label, number in named.items()}
    least, most = (_checked(name, labels, [ends[label][i] for label in labels]) for i in (0, 1))
    return least, most, "; ".join(filter(None, about))


def _own_numbers(attribute: Attribute, labels: Sequence[Label]) -> dict[Label, tuple[float, float]]:
    """What the numbers of values are between: labels themselves, and the edges of closed bins."""
    if not isinstance(attribute, Binned):
        numbers = [cast("float", each) for each in labels if attribute.ordered and _is_number(each)]
        return {number: (float(number), float(number)) for number in numbers}
    if attribute.dated:
        return {}
    ends = zip(*(each.tolist() for each in bin_ends(attribute)), strict=True)
    return {label: end for label, end in zip(labels, ends, strict=True) if all(map(isfinite, end))}


def bin_ends(attribute: Binned) -> tuple[Array, Array]:
    """Where the numbers of every bin begin and end; infinite at an end that is open.

    An end bin is open if its edge is infinite, or if it takes numbers beyond the edges.
    """
    edges = edge_numbers(attribute)
    left, right = edges[:-1].copy(), edges[1:].copy()
    if attribute.clip:
        left[0], right[-1] = -np.inf, np.inf
    return left, right


def _is_number(label: object) -> bool:
    if isinstance(label, bool) or not isinstance(label, Real):
        return False
    return isfinite(label)


def about_labels(name: str, attribute: Attribute) -> str:
    """That numbers as labels are taken to be exact, in words; nothing for bins and words."""
    numbers = [attribute.labels[code] for code in ordered_codes(attribute)[:1]]
    if isinstance(attribute, Binned) or not all(map(_is_number, numbers)):
        return ""
    return f"the numbers of {name!r} taken as exact"


def _without_number(name: str, attribute: Attribute, lacking: Sequence[Label]) -> QueryError:
    if isinstance(attribute, Binned):
        bins = " and ".join(map(str, lacking))
        beyond = "take numbers beyond the edges" if attribute.clip else "end at infinity"
        why = f"{name!r} has no mean where bins {beyond}: {bins}; give the mean in each"
    else:
        why = (
            f"the mean of {name!r} needs a number for each value, and {name!r} is "
            f"{attribute.describe()}: {lacking[0]!r} has none; give it one"
        )
    call = f"mean({name!r}, values={{{lacking[0]!r}: 1.0, …}})"
    median = f", or ask for the median: median({name})" if attribute.ordered else ""
    return QueryError(f"{why}: " + remedy("give values", call, f"{lacking[0]}=NUMBER") + median)


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
