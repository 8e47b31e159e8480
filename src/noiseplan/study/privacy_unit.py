"""The privacy unit of a study: one record, or all records of one person, at most so many.

A plan is priced for one record. Where a person may have up to k, it is planned with what one record
may then cost, and priced k² times that (`noiseplan.privacy.people` has the proof).
"""

from __future__ import annotations

from dataclasses import dataclass

from noiseplan.privacy import Neighbours


@dataclass(frozen=True)
class People:
    """`[people]`: the column that says whose record it is, and how many of each count."""

    person: str
    max_rows: int = 1

    def check(self, neighbours: Neighbours) -> None:
        """Refuse what has no proof: replacing a person who has several records."""
        from noiseplan.planning.problem import check_people

        check_people(self.max_rows, neighbours)
