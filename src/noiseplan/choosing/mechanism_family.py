"""How mechanisms are compared: what is common to some, and what is left of one after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, Generic, TypeVar

from noiseplan.mechanisms.base import Measurements, Mechanism

# Variances that agree to this are the same; beyond, the release states its own.
SAME: Final = 1e-9

M = TypeVar("M", bound=Mechanism)


class Family(ABC, Generic[M]):
    """How mechanisms are compared, split and put together."""

    # Whether the common part of fewer mechanisms contains that of more, whichever are left out,
    # and every rest can be measured. Otherwise only as the mechanisms were given, and as it is.
    nested: ClassVar[bool]

    @abstractmethod
    def common(self, mechanisms: Sequence[M], sequential: bool = False) -> Mechanism:
        """What all mechanisms tell; `sequential`: so that leaving out the first tells more."""

    def span(self, mechanisms: Sequence[M]) -> Mechanism | None:
        """What decides which queries the common mechanism answers, if not that itself."""
        return None

    @abstractmethod
    def rest(self, target: M, have: M) -> Mechanism | None:
        """What is still to be measured of `target` after `have`; None if that is nothing."""

    @abstractmethod
    def shared(self, target: M, have: M) -> Mechanism:
        """What `have` tells of `target`, as `rest` needs it; nothing is measured of it."""

    def covers(self, target: M, united: M) -> bool:
        """Whether mechanisms that recreate the target tell nothing beside it."""
        return target.numbers == united.numbers

    @abstractmethod
    def together(self, parts: Sequence[M]) -> Mechanism:
        """All that the parts tell, as one mechanism with the variances it really has."""

    @abstractmethod
    def recreated(
        self, target: M, parts: Sequence[tuple[M, Measurements]]
    ) -> tuple[Measurements, Mechanism | None]:
        """What `target` would have measured, from the parts; and, where its law is not the
        target's to many digits, the mechanism that states it."""
