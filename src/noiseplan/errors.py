"""Every error the package raises on purpose: one root, and each also a built-in.

A message names the thing at fault, what was found, what is allowed, and the call that would work.
That call is data where a study file or a command can do the same: see :class:`Message`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [  # the errors; what words them is for those who write messages
    "BudgetError",
    "DataError",
    "DataRefused",
    "DependsOnData",
    "MissingExtraError",
    "NoiseError",
    "NoiseplanError",
    "PlanError",
    "QueryError",
    "SchemaError",
    "StorageError",
    "TooManyValues",
    "UnanswerableError",
]


@dataclass(frozen=True)
class Remedy:
    """What would work: the call as Python writes it, and what others need to word it their way."""

    kind: str
    python: str
    values: tuple[object, ...] = ()

    def __str__(self) -> str:
        return self.python


class Message(str):
    """A text for Python that knows which pieces of it are remedies.

    Texts are put before and behind it with `+`, also where an error is explained further up; all
    else that is done to a text makes it a plain one, which is worded as in Python everywhere.

    Examples
    --------
    >>> text = "too large; use " + setting("planner", "auto") + ", which measures tables"
    >>> print(text)
    too large; use planner='auto', which measures tables
    >>> text.pieces[1].values
    ('planner', 'auto')
    """

    pieces: tuple[str | Remedy, ...]

    def __new__(cls, *pieces: str | Remedy) -> Message:
        made = super().__new__(cls, "".join(map(str, pieces)))
        made.pieces = pieces
        return made

    def __add__(self, behind: str) -> Message:
        return Message(*self.pieces, *_pieces(behind))

    def __radd__(self, before: str) -> Message:
        return Message(*_pieces(before), *self.pieces)


def _pieces(text: str) -> tuple[str | Remedy, ...]:
    return text.pieces if isinstance(text, Message) else (text,)


def remedy(kind: str, python: str, *values: object) -> Message:
    """A remedy alone, to be put into a sentence."""
    return Message(Remedy(kind, python, values))


def setting(name: str, value: str) -> Message:
    """An argument of `plan`, which a study file sets."""
    return remedy("setting", f"{name}={value!r}", name, value)


class NoiseplanError(Exception):
    """Root of all errors raised on purpose by noiseplan.

    Examples
    --------
    >>> import noiseplan as nz
    >>> try:
    ...     nz.zCDP(-1.0)
    ... except nz.NoiseplanError as error:
    ...     print(type(error).__name__)
    BudgetError
    """

    @property
    def message(self) -> str:
        """What it says, with its remedies as data: for errors that explain this one further."""
        return self.args[0] if self.args and isinstance(self.args[0], Message) else str(self)


class SchemaError(NoiseplanError, ValueError):
    """A schema or one of its attributes is not well formed.

    Examples
    --------
    >>> import noiseplan as nz
    >>> try:
    ...     nz.Ordinal([1, 1])
    ... except SchemaError as error:
    ...     print(isinstance(error, nz.NoiseplanError))
    True
    """


class QueryError(NoiseplanError, ValueError):
    """A factor, query or workload is not well formed.

    Examples
    --------
    >>> import noiseplan as nz
    >>> try:
    ...     nz.Workload([])
    ... except QueryError as error:
    ...     print(isinstance(error, nz.NoiseplanError))
    True
    """


class BudgetError(NoiseplanError, ValueError):
    """A privacy budget is not well formed, or cannot be met.

    Examples
    --------
    >>> import noiseplan as nz
    >>> try:
    ...     nz.zCDP(-1.0)
    ... except BudgetError as error:
    ...     print(isinstance(error, nz.NoiseplanError))
    True
    """


class PlanError(NoiseplanError, ValueError):
    """No plan can be made from what was asked.

    Examples
    --------
    >>> import noiseplan as nz
    >>> try:
    ...     nz.plan(nz.Workload.marginals(nz.Schema.from_sizes({"age": 5}), k=1))
    ... except PlanError as error:
    ...     print(isinstance(error, nz.NoiseplanError))
    True
    """


class TooManyValues(PlanError):
    """An attribute has more values than can be planned for what is asked of it.

    `attribute` is its name.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"minute": 525_600})
    >>> workload = nz.Workload([nz.Query(schema, {"minute": nz.Prefix()})])
    >>> try:
    ...     nz.plan(workload, budget=nz.PureDP(1.0))
    ... except TooManyValues as error:
    ...     print(error.attribute)
    minute
    """

    def __init__(self, message: str, attribute: str) -> None:
        super().__init__(message)
        self.attribute = attribute

    def __reduce__(self) -> tuple[type[TooManyValues], tuple[str, str]]:
        return TooManyValues, (self.message, self.attribute)


class DependsOnData(PlanError, AttributeError):
    """Asked of a plan what only the data know: also an attribute that is not there.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 64})
    >>> workload = nz.Workload([nz.Query(schema, {"age": nz.Prefix()})])
    >>> plan = nz.plan(workload, budget=nz.PureDP(1.0), planner="dawa")
    >>> try:
    ...     plan.rmse
    ... except DependsOnData:
    ...     print("only the data know")
    only the data know
    """

    def __init__(self) -> None:
        super().__init__(
            'the error of planner="dawa" depends on the data, so it is not known. '
            "release.answer(query).estimated_error estimates it from a release; "
            "nz.compare([plan, …], example_data) simulates it before, on public data"
        )

    def __reduce__(self) -> tuple[type[DependsOnData], tuple[()]]:
        return DependsOnData, ()


class DataError(NoiseplanError, ValueError):
    """The data do not fit the declared schema. Nothing was released and nothing was spent.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.5))
    >>> try:
    ...     plan.release({"sex": [0, 1]})
    ... except DataError as error:
    ...     print("age" in str(error))
    True
    """


class DataRefused(DataError):
    """Data were refused for what their records hold.

    `kind` says what sort of thing that was, and `detailed` whether the message shows private
    values. Where a ledger is in use, both are entered there: refusals tell something of the data.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.5))
    >>> try:
    ...     plan.release({"age": [0, 99], "sex": [0, 1]})
    ... except DataRefused as error:
    ...     print("99" in str(error))  # values are told with details=True alone
    False
    """

    def __init__(self, message: str, kind: str, detailed: bool = False) -> None:
        super().__init__(message)
        self.kind, self.detailed = kind, detailed

    def __reduce__(self) -> tuple[type[DataRefused], tuple[str, str, bool]]:
        return DataRefused, (self.message, self.kind, self.detailed)  # survives a worker process


class UnanswerableError(NoiseplanError, ValueError):
    """A query lies outside the span of what the plan measures.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.5))
    >>> release = plan.release({"age": [0, 1, 1], "sex": [0, 1, 1]})
    >>> try:
    ...     release.answer(nz.Query(schema, ["sex"]))
    ... except UnanswerableError as error:
    ...     print("sex" in str(error))
    True
    """


class NoiseError(NoiseplanError, ValueError):
    """Noise was asked for that no sampler here draws: a bad variance, scale, size or source.

    Examples
    --------
    >>> import noiseplan as nz
    >>> from noiseplan import noise
    >>> try:
    ...     noise.discrete_gaussian(-1.0, 3)
    ... except NoiseError as error:
    ...     print(isinstance(error, nz.NoiseplanError))
    True
    """


class StorageError(NoiseplanError, ValueError):
    """A saved plan or release cannot be written here, or what is read is damaged.

    Examples
    --------
    >>> import noiseplan as nz
    >>> try:
    ...     nz.load("not there")
    ... except StorageError as error:
    ...     print(isinstance(error, nz.NoiseplanError))
    True
    """


class MissingExtraError(NoiseplanError, ImportError):
    """An optional dependency is not installed.

    Examples
    --------
    >>> issubclass(MissingExtraError, ImportError)
    True
    """
