"""Valid answers: no negative counts, consistent tables, whole numbers, made-up records."""

from noiseplan.valid.nonnegative_answers import (
    ClippedAnswer,
    ValidAnswers,
    clipped_answer,
    valid_answers,
)
from noiseplan.valid.result import Changes, ValidTables
from noiseplan.valid.solve_tables import valid_tables

__all__ = [
    "Changes",
    "ClippedAnswer",
    "ValidAnswers",
    "ValidTables",
    "clipped_answer",
    "valid_answers",
    "valid_tables",
]
