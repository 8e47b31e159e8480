"""Study files: schema, tables, budget and the rest, from one TOML file."""

from noiseplan.study.nodes import StudyError
from noiseplan.study.study import Study, read_study

__all__ = ["Study", "StudyError", "read_study"]
