"""Mechanisms read back from JSON and arrays: exactly what was measured, however it was planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Every kind there is, by its name in the registry.
import noiseplan.mechanisms.crossed
import noiseplan.mechanisms.matrix
import noiseplan.mechanisms.measured_levels
import noiseplan.mechanisms.measured_series
import noiseplan.mechanisms.measured_tree
import noiseplan.mechanisms.product
import noiseplan.mechanisms.reduced
import noiseplan.mechanisms.residual
import noiseplan.mechanisms.side_by_side
import noiseplan.mechanisms.tables
import noiseplan.mechanisms.workload_rows  # noqa: F401
from noiseplan.arrays import Arrays
from noiseplan.errors import PlanError, StorageError
from noiseplan.mechanisms.base import Mechanism, saved_kind
from noiseplan.schema import Schema


def read_mechanism(content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> Mechanism:
    """Undo `Mechanism.parts`."""
    try:
        return saved_kind(content["kind"]).from_parts(content, arrays, schema)
    except PlanError as refused:  # such as integers that are none
        raise StorageError(f"the plan's mechanism is none: {refused}") from None
