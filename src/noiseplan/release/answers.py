"""What has tables to show, and what answers queries with their errors: the tables come with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array
from noiseplan.queries import Query
from noiseplan.release.answer import Answer, tidy_frame
from noiseplan.schema import Schema

Columns = dict[str, list[Hashable] | Array]


class Tables(ABC):
    """Tables of some attributes, whatever their numbers are."""

    @property
    def origin(self) -> str:
        """The library the data came in, which frames are made of unless another is named."""
        return ""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The attributes that may be asked about."""

    @abstractmethod
    def columns(self, *attributes: str, level: float = 0.95, simultaneous: bool = False) -> Columns:
        """The columns of `table`."""

    def table(
        self,
        *attributes: str,
        level: float = 0.95,
        simultaneous: bool = False,
        frame: str | None = None,
    ) -> Any:
        """The table of some attributes as a tidy frame: the cells, the numbers, lower, upper.

        Columns and rows follow the order in which the attributes are named. `frame` chooses
        "pandas", "polars" or "pyarrow"; by default the library the data came in.
        """
        columns = self.columns(*attributes, level=level, simultaneous=simultaneous)
        return tidy_frame(columns, frame or self.origin)


class Answers(Tables):
    """Answers to queries with what is known of their errors: a release, a look, counted reports."""

    @abstractmethod
    def answer(self, query: Query, *, level: float = 0.95, simultaneous: bool = False) -> Answer:
        """The answer to a query, and its error."""

    def columns(self, *attributes: str, level: float = 0.95, simultaneous: bool = False) -> Columns:
        if len(attributes) == 1 and isinstance(attributes[0], list | tuple):
            raise QueryError(
                f"table() takes names one by one: table({', '.join(map(repr, attributes[0]))})"
            )
        query = Query(self.schema, list(attributes))
        return self.answer(query, level=level, simultaneous=simultaneous).columns(attributes)
