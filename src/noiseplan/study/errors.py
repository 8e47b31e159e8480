"""What is wrong in a study file, and where."""

from __future__ import annotations

from noiseplan.errors import NoiseplanError


class StudyError(NoiseplanError, ValueError):
    """A study file cannot be followed: the message names the file, the line and what is allowed."""
