"""From a record to a person: what a release costs someone who has several records.

A plan is priced for one record, pcost = max_r e_rᵀCe_r with the cost matrix C = BᵀΣ⁻¹B. When a
person may have up to k records, neighbouring data sets differ by all of them.

Gaussian noise, and the discrete Gaussian
    Adding or removing the records r_1, …, r_m of one person, m ≤ k, moves the data vector by
    d = Σ_j e_{r_j} up or down, and the cost of the move is its squared length ‖d‖²_C = dᵀCd. By the
    triangle inequality

        ‖d‖_C ≤ Σ_j ‖e_{r_j}‖_C ≤ m √pcost ≤ k √pcost,      so the cost is at most k² pcost,

    with equality when all k records lie in one cell of the largest diagonal entry: no smaller
    factor holds without a promise that a person's records differ. Both kinds of noise are priced by
    that length alone: N(Bx, Σ) and N(Bx + Bd, Σ) are told apart as N(0, 1) and N(‖d‖_C, 1), and for
    the discrete Gaussian the Rényi divergence of order α is at most α‖d‖²_C/2 for every integer
    shift (Canonne, Kamath and Steinke 2020, Proposition 5, one coordinate at a time). Hence
    μ_person = k μ, ρ_person = k² ρ.

Laplace noise
    The same with the L₁ norm, which is priced linearly: ε_person = k ε.

Random choice of the k records
    When a person with more records keeps k of them, drawn at random, let S be the choices of all
    others. They are drawn without regard to this person, so S has one law P for both neighbours,
    and the releases are mixtures ∫ M_S dP and ∫ M'_S dP with the bound above for every S. Hockey-
    stick divergences are jointly convex and Rényi divergences jointly quasi-convex, so the mixtures
    keep the bound: choosing costs nothing. Nor may it gain: amplification by sampling is not
    claimed.

Replacing a person's records
    Where the number of records is public (``neighbours="replace"``), neighbouring data sets differ
    in the values of up to k records of one person, and not in how many there are: d is a sum of
    m ≤ k differences e_{r_j} − e_{s_j}, each of length √pcost at most, and the triangle inequality
    gives k² pcost and k ε as above. Of a person with more records k are kept before and after.

One record replaced is one removed and another added
    So whatever is known to cost one record added or removed ρ, or ε, costs 4ρ, or 2ε, when it is
    replaced: k = 2 above.
"""

from __future__ import annotations

import math
import operator
import re
from fractions import Fraction
from typing import Final, SupportsIndex

from noiseplan.errors import BudgetError
from noiseplan.privacy.guarantee import Guarantee
from noiseplan.privacy.rounding import fraction_down, fraction_up, quotient_up

# Who has the records, unless it is said otherwise.
PERSON: Final = "person"
_UNIT: Final = re.compile(r"[^\W\d_]+([ -][^\W\d_]+)*")


def person_cost(cost: float, max_rows: SupportsIndex, power: int = 2) -> float:
    """The cost to a person with up to `max_rows` records of what costs one record `cost`.

    Rounded up: `max_rows²` times pcost, μ² or ρ; with the power 1, `max_rows` times ε.

    Examples
    --------
    >>> person_cost(0.5, 3), person_cost(0.5, 3, power=1)
    (4.5, 1.5)
    """
    factor = _records(max_rows) ** power
    return fraction_up(Fraction(cost) * factor) if math.isfinite(cost) else cost


def record_cost(allowed: float, max_rows: SupportsIndex, power: int = 2) -> float:
    """What one record may cost, so that a person with up to `max_rows` is within `allowed`.

    Rounded down, so that `person_cost(record_cost(allowed, k), k) <= allowed` for every k.

    Examples
    --------
    >>> record_cost(4.5, 3), person_cost(record_cost(1.0, 3), 3) <= 1.0
    (0.5, True)
    """
    factor = _records(max_rows) ** power
    return fraction_down(Fraction(allowed) / factor) if math.isfinite(allowed) else allowed


def _records(max_rows: SupportsIndex) -> int:
    if isinstance(max_rows, bool) or not isinstance(max_rows, SupportsIndex):
        raise BudgetError(f"max_rows is a whole number of records, as in 3; got {max_rows!r}")
    rows = operator.index(max_rows)
    if rows < 1:
        raise BudgetError(f"max_rows: a person has at least 1 record, as in max_rows=1; got {rows}")
    return rows


def person_price(record: Guarantee, max_rows: int) -> Guarantee:
    """What a person pays where one record costs so much; rounded up."""
    return record.at(person_cost(record.amount, max_rows, record.power))


def record_price(person: Guarantee, max_rows: int) -> Guarantee:
    """What one record costs at most where a person with so many pays this; rounded up."""
    if max_rows == 1 or not math.isfinite(person.pcost):
        return person
    return person.at(quotient_up(person.amount, max_rows**person.power))


def checked_unit(unit: object) -> str:
    """What has the records, as sentences call one of it, or what is wrong with that."""
    if not isinstance(unit, str) or len(unit) > 40 or not _UNIT.fullmatch(unit):
        raise BudgetError(
            f"a unit is a word or two for who has the records, as in 'household'; found {unit!r}"
        )
    return unit


def unit_text(max_rows: int, unit: str = PERSON) -> str:
    """What a cost is the price of, as reports and ledgers say it; nothing for one record.

    Examples
    --------
    >>> unit_text(3), unit_text(4, "household"), unit_text(1)
    ('one person, at most 3 records', 'one household, at most 4 records', '')
    >>> unit_text(1, "household")
    'one household, at most 1 record'
    """
    if max_rows == 1 and unit == PERSON:
        return ""
    return f"one {unit}, at most {max_rows} record{'s' * (max_rows != 1)}"


def left_out_text(max_rows: int, unit: str) -> list[str]:
    """What a publication says of those who have more records; never how many were left out.

    Examples
    --------
    >>> for line in left_out_text(3, "household"):
    ...     print(line)
    Of each household at most 3 records were counted, drawn at random; any others are left out.
    Numbers may be lower than those of all records; standard errors and intervals do not cover it.
    """
    some = "one record was" if max_rows == 1 else f"at most {max_rows} records were"
    return [
        f"Of each {unit} {some} counted, drawn at random; any others are left out.",
        "Numbers may be lower than those of all records; standard errors and intervals do not "
        "cover it.",
    ]
