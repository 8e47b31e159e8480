"""Tables of which not every cell was told apart: the rest is filled in as valid tables have it.

With P_S t what measuring keeps of a table, tables count by their distance in what was told,

    minimise   Σ_S w_S ‖y_S − ŷ_S − f_S‖²   over valid tables y and all f with P_S f_S = 0 .

By turns: the valid tables nearest to ŷ + f, then f_S = (1 − P_S)(y_S − ŷ_S), and a little beyond
it, by Nesterov's momentum. An f that stayed zero would hold the answers to guesses: the cells of
ŷ that nobody measured are often negative where all that was measured is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.valid.family import Set

MOST_TURNS: Final = 40
# A turn that changes what is filled in by less than this share of the noise is the last.
SETTLED: Final = 1e-2


class Solved(NamedTuple):
    """Valid tables, the share of evenness in them, and the steps it took."""

    tables: dict[Set, Array]
    evened: float
    steps: int


def filled_in(
    estimates: Mapping[Set, Array],
    telling: Mapping[Set, Callable[[Array], Array]],
    variances: Mapping[Set, float],
    nearest: Callable[[Mapping[Set, Array]], Solved],
) -> Solved:
    """The valid tables nearest to the estimates in what was told; `telling` has P of some."""
    solved, pace = nearest(estimates), 1.0
    filling = {s: np.zeros_like(estimates[s]) for s in telling}
    for _ in range(MOST_TURNS):
        gaps = {s: solved.tables[s] - estimates[s] for s in telling}
        following = {s: gap - telling[s](gap) for s, gap in gaps.items()}
        changed = {s: f - filling[s] for s, f in following.items()}
        filling = following
        if all(float((c**2).sum()) <= SETTLED**2 * variances[s] for s, c in changed.items()):
            break
        faster = (1.0 + np.sqrt(1.0 + 4.0 * pace**2)) / 2.0
        ahead, pace = (pace - 1.0) / faster, faster
        start = {s: estimates[s] + filling[s] + ahead * changed[s] for s in telling}
        turned = nearest({**estimates, **start})
        solved = Solved(turned.tables, turned.evened, solved.steps + turned.steps)
    return solved
