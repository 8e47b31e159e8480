"""Planners, and what they propose: a mechanism, its price, its errors, how good it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from noiseplan.errors import UnanswerableError
from noiseplan.mechanisms.base import Mechanism
from noiseplan.planning.certificates import Optimality
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_errors import Figures
from noiseplan.privacy import Guarantee

ASKED: Final = "asked for"
# Planners by name, each with the reason why it was taken, or was not.
Considered = tuple[tuple[str, str], ...]
# Of so many kinds of queries one each is checked to be answerable; beyond, an even sample.
CHECKED_TYPES = 1000


@dataclass(frozen=True, eq=False)
class Candidate:
    """A mechanism for a problem, by the planner of this name. `loss`: of variance, for integers."""

    name: str
    mechanism: Mechanism
    privacy: Guarantee
    figures: Figures
    optimality: Optimality
    loss: float = 0.0
    considered: Considered = ()


@dataclass(frozen=True)
class Planner:
    """A way to plan: what it is called, what it proposes, and why it cannot plan a problem.

    Over more than `most_cells` it is given the classes of cells that queries tell apart; where
    these are more too, `beyond` plans.
    """

    names: tuple[str, ...]
    solve: Callable[[Problem], Candidate]
    refuses: Callable[[Problem], str | None] = lambda problem: None
    most_cells: int | None = None
    beyond: Planner | None = None


def require_answers(figures: Figures, mechanism: Mechanism) -> None:
    """Refuse a plan that cannot answer its own workload, before anything is spent on it."""
    first = figures.first_of_types()
    step = -(-len(first) // CHECKED_TYPES)
    for number in first[::step]:
        query = figures.workload.query(int(number))
        try:
            mechanism.require(query)
        except UnanswerableError:
            raise UnanswerableError(
                f"the plan does not determine {query.name!r}, which it was made for: the sizes of "
                f"weights or of entries differ too much for double precision; bring them nearer "
                f"to each other, or leave out what is negligible"
            ) from None
