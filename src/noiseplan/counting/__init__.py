"""Counting: tables of counts from files, frames, relations, arrays and ready-made counts."""

from noiseplan.counting.projectable import Counts, Projectable
from noiseplan.counting.records import Records
from noiseplan.counting.source import open_source
from noiseplan.counting.tensor import CountTensor

__all__ = ["CountTensor", "Counts", "Projectable", "Records", "open_source"]
