"""What has tables to show, and what answers queries with their errors: the tables come with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

from noiseplan.matrices.base import Array
from noiseplan.queries import Query
from noiseplan.queries.query import attribute_names
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

        Attributes are named one by one, in a list or in one text, "age, sex". Columns and rows
        follow the order in which they are named. A release also takes the name of one of its
        queries, in the query's order. `frame` chooses
        "pandas", "polars" or "pyarrow"; by default the library the data came in.
        """
        columns = self.columns(*attributes, level=level, simultaneous=simultaneous)
        return tidy_frame(columns, frame or self.origin)


class Answers(Tables):
    """Answers to queries with what is known of their errors: a release, a look, counted reports."""

    @abstractmethod
    def answer(self, query: Query, *, level: float = 0.95, simultaneous: bool = False) -> Answer:
        """The answer to a query, and its error."""

    def named(self, name: str) -> Query | None:
        """The query of that name, where queries have names."""
        return None

    def columns(self, *attributes: str, level: float = 0.95, simultaneous: bool = False) -> Columns:
        (name,) = attributes if len(attributes) == 1 else (None,)
        if isinstance(name, str) and name not in self.schema:
            query = self.named(name)
            if query is not None:
                return self.answer(query, level=level, simultaneous=simultaneous).columns()
        names = attribute_names(attributes, self.schema)
        query = Query(self.schema, names)
        return self.answer(query, level=level, simultaneous=simultaneous).columns(names)
