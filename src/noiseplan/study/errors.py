"""What is wrong in a study file, and where."""

from __future__ import annotations

from noiseplan.errors import NoiseplanError


class StudyError(NoiseplanError, ValueError):
    """A study file cannot be followed: the message names the file, the line and what is allowed.

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
