"""Valid answers: no negative counts, consistent tables, whole numbers, made-up records."""

from noiseplan.valid.answers import ClippedAnswer, ValidAnswers, clipped_answer, valid_answers
from noiseplan.valid.making import valid_tables
from noiseplan.valid.tables import Changes, ValidTables

__all__ = [
    "Changes",
    "ClippedAnswer",
    "ValidAnswers",
    "ValidTables",
    "clipped_answer",
    "valid_answers",
    "valid_tables",
]
