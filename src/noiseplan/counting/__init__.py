"""Counting: tables of counts from files, frames, databases, Spark, arrays and counts."""

from noiseplan.counting.counted_tables import count_tables
from noiseplan.counting.projectable import Countable, Counts, Projectable
from noiseplan.counting.records import Records
from noiseplan.counting.source import open_source
from noiseplan.counting.tensor import CountTensor
from noiseplan.counting.text_files import TextFile

__all__ = [
    "CountTensor",
    "Countable",
    "Counts",
    "Projectable",
    "Records",
    "TextFile",
    "count_tables",
    "open_source",
]
