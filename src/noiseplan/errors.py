"""Every error the package raises on purpose: one root, and each also a built-in.

A message names the thing at fault, what was found, what is allowed, and the call that would work.
"""

from __future__ import annotations


class NoiseplanError(Exception):
    """Root of all errors raised on purpose by noiseplan."""


class SchemaError(NoiseplanError, ValueError):
    """A schema or one of its attributes is not well formed."""


class QueryError(NoiseplanError, ValueError):
    """A factor, query or workload is not well formed."""


class BudgetError(NoiseplanError, ValueError):
    """A privacy budget is not well formed, or cannot be met."""


class PlanError(NoiseplanError, ValueError):
    """No plan can be made from what was asked."""


class DataError(NoiseplanError, ValueError):
    """The data do not fit the declared schema. Nothing was released and nothing was spent."""


class DataRefused(DataError):
    """Data were refused for what their records hold.

    `kind` says what sort of thing that was, and `detailed` whether the message shows private
    values. Where a ledger is in use, both are entered there: refusals tell something of the data.
    """

    def __init__(self, message: str, kind: str, detailed: bool = False) -> None:
        super().__init__(message)
        self.kind, self.detailed = kind, detailed

    def __reduce__(self) -> tuple[type[DataRefused], tuple[str, str, bool]]:
        return DataRefused, (str(self), self.kind, self.detailed)  # survives a worker process


class UnanswerableError(NoiseplanError, ValueError):
    """A query lies outside the span of what the plan measures."""


class NoiseError(NoiseplanError, ValueError):
    """Noise was asked for that no sampler here draws: a bad variance, scale, size or source."""


class StorageError(NoiseplanError, ValueError):
    """A saved plan or release cannot be written here, or what is read is damaged."""
