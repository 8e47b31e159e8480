"""Valid answers: no negative counts, consistent tables, whole numbers, made-up records."""

from noiseplan.valid.making import valid_tables
from noiseplan.valid.tables import Changes, ValidTables

__all__ = ["Changes", "ValidTables", "valid_tables"]
