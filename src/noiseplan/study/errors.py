"""What is wrong in a study file, and where."""

from __future__ import annotations

from noiseplan.errors import NoiseplanError


class StudyError(NoiseplanError, ValueError):
    """A study file cannot be followed: the message names the file, the line and what is allowed.

    The same as data, for those who show it beside the file: `said` is the message without the
    place, `line` the line from 1 (None for the whole file), and `place` the keys and positions,
    from 0, that lead to what is at fault.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from noiseplan.study import read_study
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = Path(folder, "study.toml")
    ...     _ = study.write_text('titel = "Wages"')
    ...     try:
    ...         read_study(study)
    ...     except StudyError as error:
    ...         print("titel" in str(error))
    True
    """

    def __init__(
        self,
        message: str,
        *,
        said: str = "",
        line: int | None = None,
        place: tuple[str | int, ...] = (),
    ) -> None:
        super().__init__(message)
        self.said, self.line, self.place = said or message, line, place


class NotCalledPublic(StudyError):
    """A code list was not read, since nobody has said yet that what it holds is public."""
