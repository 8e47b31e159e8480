"""Which way mechanisms are compared: by precisions, by matrices, or crossed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noiseplan.choosing.common_and_rest import ByMatrices
from noiseplan.choosing.crossing import ByCrossing, Splitting
from noiseplan.choosing.integer_cost_matrix import EXPLICIT_CELLS, require_few_cells
from noiseplan.choosing.mechanism_family import Family
from noiseplan.choosing.precisions import ByPrecisions, SharedBases, measured_differently
from noiseplan.errors import PlanError, setting
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.crossed import CrossedMechanism
from noiseplan.mechanisms.long_attribute import LongMechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism


def family_for(mechanisms: Sequence[Mechanism], neighbours: str, integer: bool) -> Family[Any]:
    """The way to compare these mechanisms; raises `PlanError` where there is none."""
    size = mechanisms[0].schema.size
    explicit = size <= EXPLICIT_CELLS and neighbours == "add-remove"
    splitting = [m for m in mechanisms if isinstance(m, ResidualMechanism | CrossedMechanism)]
    if len(splitting) == len(mechanisms):
        same_bases, different = _same_rows(splitting)
        if same_bases and not different:
            return ByPrecisions()
        if not explicit and neighbours == "add-remove":
            try:
                return ByCrossing.of(splitting, integer)
            except PlanError:
                if not same_bases:
                    raise
        if not explicit and same_bases:
            return ByPrecisions()
    elif any(isinstance(m, LongMechanism) for m in mechanisms):
        raise PlanError(
            "one of the plans measures along a long attribute, by the nodes of a tree or by a "
            "series, and such plans are not compared or continued: release one of them on its own"
        )
    elif any(isinstance(m, WorkloadRowsMechanism) for m in mechanisms):
        different = "one of the plans measures the rows of its queries"
    else:
        different = "one of the plans is one matrix over the whole domain"
    if neighbours != "add-remove":
        raise PlanError(
            f"{different}, and explicit matrices are for neighbours that add or remove a record; "
            f"plans without them have " + setting("planner", "residual")
        )
    require_few_cells(size, f"{different}, and ")
    for mechanism in mechanisms:
        mechanism.unit_rows()  # refused by those that have none
    return ByMatrices(integer)


def _same_rows(mechanisms: Sequence[Splitting]) -> tuple[bool, str]:
    """Whether all split every attribute by the same rows; and what differs, in words."""
    residual = [m for m in mechanisms if isinstance(m, ResidualMechanism)]
    if len(residual) < len(mechanisms):
        return False, "one of the plans holds what others had in common"
    try:
        SharedBases.of(residual)
    except PlanError as error:
        return False, str(error)
    different = measured_differently(residual)
    return True, different and f"the plans measure {different} by different rows"
