"""One answered query of a data-aware release: estimates with estimated errors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.queries import Query
from noiseplan.release.answer import Answer, aligned, tidy_frame


@dataclass(frozen=True, eq=False)
class AwareAnswer:
    """Estimates of a query's rows with an estimate of their error.

    `noise_error` is the standard error of the noise, exact for the buckets that were drawn (unless
    `approximate`: very large queries have it computed for 512 rows, and read between them);
    `bias_error` estimates what even sharing within buckets does to the answer, which only the data
    know. `lower` and `upper` reach as far as an unbiased answer with the error of both would; they
    are a guide, no confidence interval.
    """

    query: Query
    estimate: Array
    noise_error: Array
    bias_error: Array
    level: float = 0.95
    simultaneous: bool = False
    origin: str = ""
    laplace: bool = False
    approximate: bool = False  # of most rows even the noise is read between others
    brand: str = ""  # what a reader must know, where the answer is not for publishing

    @property
    def std_error(self) -> NoReturn:
        """Refused: nobody knows it exactly."""
        raise AttributeError(
            "no std_error here: the answer is biased, and its error an estimate, .estimated_error; "
            ".noise_error is the part of the noise"
        )

    @property
    def estimated_error(self) -> Array:
        """√(noise² + bias²): an estimate, because the bias depends on the data."""
        return np.hypot(self.noise_error, self.bias_error)

    @cached_property
    def _as_answer(self) -> Answer:
        return Answer(
            self.query, self.estimate, self.estimated_error, self.level, self.simultaneous,
            self.origin, self.laplace,
        )  # fmt: skip

    @property
    def lower(self) -> Array:
        return self._as_answer.lower

    @property
    def upper(self) -> Array:
        return self._as_answer.upper

    def columns(self, order: Sequence[str] | None = None) -> dict[str, list[Hashable] | Array]:
        """The tidy table as columns: the cells, estimate, estimated_error, lower, upper."""
        columns = self._as_answer.columns(order)
        return {
            "estimated_error" if name == "std_error" else name: values
            for name, values in columns.items()
        }

    def frame(self, library: str | None = None, order: Sequence[str] | None = None) -> Any:
        """The tidy table as a data frame of "pandas", "polars" or "pyarrow"."""
        return tidy_frame(self.columns(order), library or self.origin)

    def __str__(self) -> str:
        return self.text(20)

    def text(self, most: int | None = None) -> str:
        """The table in aligned columns: its first rows, or all."""
        lines = aligned(self.columns(), self.query.rows, most)
        kind = "all rows together" if self.simultaneous else "each row"
        noise = "approximate" if self.approximate else "exact"
        note = (
            f"estimated errors: {noise} noise and an estimated bias; limits at "
            f"{100 * self.level:g}% for {kind} if the estimates hold"
        )
        return "\n".join([*lines, f"{note}; {self.brand}" if self.brand else note])


class StatedError(NamedTuple):
    """What the error of an answer is called, its size in every row, and what its limits cover."""

    name: str
    size: Array
    covers: str

    @property
    def typical(self) -> float:
        """The root mean square over all rows."""
        return float(np.sqrt(np.mean(self.size**2)))


def stated_error(answer: Answer | AwareAnswer) -> StatedError:
    """The error of any answer, named for what it is: known, or estimated."""
    if isinstance(answer, AwareAnswer):
        return StatedError("estimated error", answer.estimated_error, "noise, bias as estimated")
    return StatedError("standard error", answer.std_error, "noise only")
