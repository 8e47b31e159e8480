"""Which way mechanisms are compared: row by row, by precisions, by matrices, or crossed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noiseplan.choosing.common_and_rest import EXPLICIT_CELLS, ByMatrices, require_few_cells
from noiseplan.choosing.crossing import ByCrossing
from noiseplan.choosing.mechanism_family import Family
from noiseplan.choosing.precisions import ByPrecisions, SharedBases, measured_differently
from noiseplan.choosing.same_rows import same_rows
from noiseplan.errors import PlanError, setting
from noiseplan.mechanisms.base import ONE_MATRIX, Mechanism
from noiseplan.planning.measured_numbers import numbers_of


def family_for(mechanisms: Sequence[Mechanism], neighbours: str) -> Family[Any]:
    """The way to compare these mechanisms; raises `PlanError` where there is none."""
    alike = same_rows(mechanisms)
    if alike is not None:
        return alike
    size = mechanisms[0].schema.size
    explicit = size <= EXPLICIT_CELLS and neighbours == "add-remove"
    for mechanism in mechanisms:
        mechanism.require_comparable()
    undivided = [m.undivided for m in mechanisms if m.undivided is not None]
    if not undivided:
        same_bases, different = _same_rows(mechanisms)
        if same_bases and not different:
            return ByPrecisions()
        if not explicit and neighbours == "add-remove":
            try:
                return ByCrossing.of(mechanisms, numbers_of(mechanisms[0].noise))
            except PlanError:
                if not same_bases:
                    raise
        if not explicit and same_bases:
            return ByPrecisions()
    else:
        different = next((words for words in undivided if words != ONE_MATRIX), ONE_MATRIX)
    if neighbours != "add-remove":
        raise PlanError(
            different
            + "; explicit matrices are for neighbours that add or remove a record, and plans "
            + "without them have "
            + setting("planner", "residual")
        )
    require_few_cells(size, different + "; ")
    for mechanism in mechanisms:
        mechanism.unit_rows()  # refused by those that have none
    return ByMatrices(numbers_of(mechanisms[0].noise))


def _same_rows(mechanisms: Sequence[Mechanism]) -> tuple[bool, str]:
    """Whether all split every attribute by the same rows; and what differs, in words."""
    try:
        for mechanism in mechanisms:
            mechanism.residual_blocks()  # refused by those that have none
        SharedBases.of(mechanisms)
    except PlanError as error:
        return False, error.message
    different = measured_differently(mechanisms)
    return True, different and f"the plans measure {different} by different rows"
