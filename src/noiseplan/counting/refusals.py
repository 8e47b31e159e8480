"""What a refusal tells of the data: by default what kind of thing it was, and no more.

A refusal is seen by whoever asked, at no cost. How many records there are, how many of them do not
fit and what they hold is as private as any table; so all that depends on records is refused through
:func:`refused`, and its details are for custodians who ask for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from noiseplan.errors import DataRefused, NoiseplanError, remedy

# What kind of thing was refused, as a ledger keeps it.
UNDECLARED: Final = "values that the schema does not declare"
NOBODY: Final = "records that belong to nobody"
TOO_MANY: Final = "more records than are counted"
UNREADABLE: Final = "records that cannot be read"
UNCOUNTABLE: Final = "counts or codes that are none"
NO_RECORDS: Final = "no records"

ASK: Final = (
    "(The details are private, and shown to those who "
    + remedy("show details", "ask for them: details=True")
    + ".)"
)
SHOWN: Final = "(This message shows private values: do not publish it.)"

_DETAILS: ContextVar[bool] = ContextVar("details", default=False)


@contextmanager
def showing(details: bool) -> Iterator[None]:
    """Let refusals within the block tell their details, or not; those asked for around it stay."""
    before = _DETAILS.set(bool(details) or _DETAILS.get())
    try:
        yield
    finally:
        _DETAILS.reset(before)


@contextmanager
def reading(details: bool = False, fault: str = "") -> Iterator[None]:
    """Around all that reads records: whatever an engine says of them is a detail, too.

    `fault` is what is said of a failure, by default that the data cannot be read.
    """
    with showing(details):
        try:
            yield
        except NoiseplanError:
            raise
        except Exception as error:
            if was_interrupted(error):
                raise KeyboardInterrupt from None
            said = fault or f"the data cannot be read ({type(error).__name__})"
            raise unreadable(said, error) from cause(error)


def was_interrupted(error: BaseException) -> bool:
    """Whether an engine gave up because somebody pressed Ctrl-C: nothing is wrong with the data.

    DuckDB takes the interruption for itself, and tells of it by an error of its own.
    """
    return type(error).__name__ == "InterruptException" or str(error) == "Query interrupted"


def details_are_shown() -> bool:
    """Whether somebody has asked for the details."""
    return _DETAILS.get()


def refused(kind: str, message: str, detailed: str = "") -> DataRefused:
    """The refusal of data for what they hold.

    Parameters
    ----------
    kind
        One of the kinds above.
    message
        What is wrong and what to do, without a number or value of the data.
    detailed
        The same with numbers and values, for those who asked for them.

    Examples
    --------
    >>> print(refused(UNDECLARED, "column 'a' does not fit.", "column 'a': 3 rows hold 'x'."))
    column 'a' does not fit. (The details are private, and shown to those who ask for them: \
details=True.)
    """
    if not detailed:
        return DataRefused(message, kind)
    if details_are_shown():
        return DataRefused(detailed + f" {SHOWN}", kind, detailed=True)
    return DataRefused(message + " " + ASK, kind)


def unreadable(fault: str, reason: object) -> DataRefused:
    """The refusal of data that an engine could not read, for a reason that quotes them."""
    return refused(UNREADABLE, f"{fault}.", f"{fault}: {reason}")


def cause(error: BaseException) -> BaseException | None:
    """What a refusal is raised from: an engine's own error quotes records, and is a detail."""
    return error if details_are_shown() else None
