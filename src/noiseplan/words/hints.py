"""Remedies in the words of the command line: the library names calls, and here there are commands.

A message carries its remedies as data (`noiseplan.errors.Message`). Python shows the call; here it
is the command, or the line of a study file, that does the same.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from noiseplan.errors import Message, Remedy
from noiseplan.paths import near_files

# Kind of remedy → what it is called here; its values fill the braces, the first also `quoted`.
WORDS: Final = {
    "argument": "{0}",  # what a key of the study or an option is called that stands for it
    # ledgers
    "open dataset": "noiseplan ledger open LEDGER {0!r} --zcdp RHO",
    "change budget": "noiseplan ledger change LEDGER {0!r} {1} --reason WHY",
    "bound rows": "noiseplan ledger change LEDGER {0!r} {1} --reason WHY --max-rows ROWS",
    "state reason": "noiseplan ledger change … --reason WHY",
    "create ledger": "noiseplan ledger init LEDGER",
    "try again": "Try again",
    "list entries": "noiseplan ledger show LEDGER",
    "show head": "noiseplan ledger verify LEDGER",
    "budget that fits": "[budget] {0} in the study fits",
    "whole budget that fits": "[budget] {0} in the study fits, with the same --given",
    "plan with rows": "Write [people] max_rows = {0} in the study",
    "plan for people": 'Write [people] person = "id" and max_rows = {0} in the study',
    "plan for records": "Leave [people] out of the study",
    "plan with unit": '[people] unit = "{0}" in the study',
    "plan with neighbours": 'Write [plan] neighbours = "{0}" in the study',
    "state zCDP": "state the budget in zCDP: --zcdp RHO",
    # studies
    "allow outside": "--allow-outside",
    "declare other": "{{ categorical = [...], other = {0} }}",
    "declare missing": "missing = {0}",
    "declare other leaf": '{{ hierarchical = {{ ... }}, other = "other" }}',
    "declare clip": "{{ binned = [...], clip = true }}",
    "decimal commas": '[data] decimal = ","',
    "spellings of missing": '[data] missing = ["NA", "."]',
    "declare paths": "paths = true",
    "declare hierarchical": '{{ hierarchical = {{ file = "places.csv", levels = [...] }} }}',
    "declare ordinal": "{{ ordinal = [...] }}",
    "declare binned": "{{ binned = [...] }}",
    "other factor": "leave out its factor",
    "name query": 'name = "…"',
    "setting": '[plan] {0} = "{1}"',
    "zCDP budget": "[budget] zcdp = {0}",
    "pure budget": "[budget] pure_dp = {0}",
    "targets or worst": '[targets], or [plan] objective = "worst"',
    "total": '[plan] objective = "total"',
    "least budget": "at least [budget] zcdp = {0}",
    # data and releases
    "name database": "a database is named by env:VARIABLE --table NAME",
    "show details": "ask: --details",
    "ask condition": "--where {quoted}",
    "give values": "--value {quoted}",
    "add table": '[[tables]] query = "{0}" in the study',
    "choose tables": "[output] tables = […] in the study, or none: tables = []",
    "other files": "Tables of databases: --table or --query. Convert other files to one of these.",
    "give example": "noiseplan compare STUDY EXAMPLE",
    "name person": '[people] person = "id" in the study',
    "whole plan": "leave out --given",
    "read randomizer": "it is a device's, for noiseplan local randomize",
    "save randomizer": "noiseplan local plan STUDY -o PLAN --device DEVICE",
    "release again": "--again",
    "seed or ledger": "leave out --seed to publish, or [ledger] to test",
}


def in_command_line(error: Exception) -> str:
    """What an error says here.

    Examples
    --------
    >>> from noiseplan.errors import PlanError, setting
    >>> error = PlanError("no plan is that large; use " + setting("planner", "auto"))
    >>> str(error)
    "no plan is that large; use planner='auto'"
    >>> in_command_line(error)
    'no plan is that large; use [plan] planner = "auto"'
    """
    if isinstance(error, OSError) and error.filename is not None:
        return _of_a_file(error)
    message = error.args[0] if error.args else ""
    return worded(message) if isinstance(message, Message) else str(error)


def _of_a_file(error: OSError) -> str:
    """What the system says of a file, without its numbers; what was meant, if it is not there."""
    if isinstance(error, FileNotFoundError):
        return f"{str(error.filename)!r} is not there{near_files(Path(error.filename))}"
    return f"{str(error.filename)!r}: {error.strerror}"


def worded(message: str) -> str:
    """A message with its remedies as commands and lines of a study; a plain text stays itself."""
    if not isinstance(message, Message):
        return message
    return "".join(piece if isinstance(piece, str) else _worded(piece) for piece in message.pieces)


def _worded(piece: Remedy) -> str:
    first = quoted(str(piece.values[0])) if piece.values else ""
    return WORDS[piece.kind].format(*piece.values, quoted=first)


def quoted(text: str) -> str:
    """An argument of a command, in double quotes where these do."""
    return shlex.quote(text) if any(c in text for c in '"$`\\!') else f'"{text}"'
