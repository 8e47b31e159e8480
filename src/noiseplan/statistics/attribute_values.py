"""Which values of an attribute have an order, and which numbers stand for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import TypeAlias

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array
from noiseplan.schema import Attribute, Binned, Label, Ordinal

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
    """The number of every value in the order, and in words where it comes from."""
    codes = ordered_codes(attribute)
    if given is not None:
        return _given(name, attribute, given, codes), "values as given"
    if isinstance(attribute, Binned):
        return _midpoints(name, attribute), _about_midpoints(name, attribute)
    labels = [attribute.labels[code] for code in codes]
    if not attribute.ordered or not all(map(_is_number, labels)):
        raise QueryError(
            f"the mean of {name!r} needs a number for each value, and {name!r} is "
            f"{attribute.describe()}; give them in Python, release.mean({name!r}, "
            f"values={{{labels[0]!r}: 1.0, …}})"
            + (f", or ask for the median: median({name})" if attribute.ordered else "")
        )
    return np.array([float(label) for label in labels]), f"values: the numbers of {name!r}"


def _is_number(label: object) -> bool:
    if isinstance(label, bool) or not isinstance(label, Real):
        return False
    return isfinite(label)


def edge_numbers(attribute: Binned) -> Array:
    """The edges of bins of numbers; those of dates and times are refused."""
    if attribute.dated:
        raise QueryError(
            f"means and quantiles are of numbers, and this is {attribute.describe()}: ask for the "
            f"table, or for how many come before each date, Prefix()"
        )
    return np.array(attribute.places)


def _midpoints(name: str, attribute: Binned) -> Array:
    edges = edge_numbers(attribute)
    if not np.isfinite(edges).all():
        last = attribute.stated - 1
        open_bins = [(0, edges[0]), (last, edges[-1])]
        ends = [str(attribute.labels[i]) for i, edge in open_bins if not isfinite(edge)]
        raise QueryError(
            f"the mean of {name!r} needs a number for each bin, and {' and '.join(ends)} has no "
            f"middle: give one for each of the {attribute.stated} bins, mean({name!r}, "
            f"values=[…]), or ask for the median"
        )
    return np.asarray((edges[:-1] + edges[1:]) / 2)


def _about_midpoints(name: str, attribute: Binned) -> str:
    beyond = ", also for numbers beyond the edges" if attribute.clip else ""
    return f"values: the midpoints of the bins of {name!r}{beyond}"


def _given(name: str, attribute: Attribute, given: Values, codes: IntArray) -> Array:
    labels = [attribute.labels[code] for code in codes]
    if isinstance(given, Mapping):
        last = attribute.values[-1] if isinstance(attribute, Ordinal) and attribute.clip else None
        if last is not None and last in given:  # 99 stands for 99+
            given = {attribute.labels[attribute.stated - 1]: given[last], **given}
        missing = [label for label in labels if label not in given]
        if missing:
            raise QueryError(f"values= has no number for {missing[0]!r} of {name!r}")
        given = [given[label] for label in labels]
    numbers = np.asarray(given)
    if numbers.shape != (len(labels),) or numbers.dtype.kind not in "iuf":
        raise QueryError(
            f"values= is one number for each of the {len(labels)} values of {name!r}, or a "
            f"mapping from them; found {given!r}"
        )
    if not np.isfinite(numbers).all():
        raise QueryError(f"values= of {name!r} are finite numbers")
    return numbers.astype(float)
