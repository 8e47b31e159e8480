"""Errors in the words of the command line: the library's name calls, and here there are commands.

Where a message ends with the Python call that would work, that call is replaced by the command, or
by the line of a study file, that says the same.
"""

from __future__ import annotations

import re
from typing import Final

# What Python calls something, and what it is called here; the first that fit are replaced first.
_NAME = r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_WORDS: Final[tuple[tuple[str, str], ...]] = (
    # ledgers
    (rf"ledger\.open_dataset\({_NAME}, zCDP\(…\)\)", r"noiseplan ledger open LEDGER \1 --zcdp RHO"),
    (
        rf"ledger\.change_budget\({_NAME}, …, reason=…, max_rows=…\)",
        r"noiseplan ledger change LEDGER \1 --zcdp RHO --reason WHY --max-rows ROWS",
    ),
    (
        rf"ledger\.change_budget\({_NAME}, (?:zCDP\()?…\)?, reason=…\)",
        r"noiseplan ledger change LEDGER \1 --zcdp RHO --reason WHY",
    ),
    (r"change_budget\(…, reason=…\)", "noiseplan ledger change … --reason WHY"),
    (r"Ledger\(path, create=True\),\s+noiseplan ledger init", "noiseplan ledger init LEDGER"),
    (r"Try again, or wait longer: Ledger\(path, timeout=…\)", "Try again"),
    (r"ledger\.entries\(\)", "noiseplan ledger show LEDGER"),
    (r"print\(ledger\.head\(\)\)", "noiseplan ledger verify LEDGER"),
    (r"a plan with budget=zCDP\(([^)]*)\) fits", r"[budget] zcdp = \1 in the study fits"),
    (r"Plan with max_rows=(\d+)", r"Write [people] max_rows = \1 in the study"),
    (r"Plan it with neighbours='([^']*)'", r'Write [plan] neighbours = "\1" in the study'),
    (r"state the budget as zCDP\(rho=…\)", "state the budget in zCDP: --zcdp RHO"),
    (r"read_study\(path, allow_outside=True\)", "--allow-outside"),
    # what a column may hold
    (r"Categorical\(\[\.\.\.\], other='other'\)", '{ categorical = [...], other = "other" }'),
    (r"Categorical\(\[\.\.\.\], other=([^)]*)\)", r"{ categorical = [...], other = \1 }"),
    (r"Binned\(\[\.\.\.\], clip=True\)", "{ binned = [...], clip = true }"),
    (r"\bCategorical\(\[\.\.\.\]\)", "{ categorical = [...] }"),
    (r"\bOrdinal\(\[\.\.\.\]\)", "{ ordinal = [...] }"),
    (r"\bBinned\(\[\.\.\.\]\)", "{ binned = [...] }"),
    # what is asked
    (r", or use Identity\(\) or Levels\(\{value: group, \.\.\.\}\)", ", or leave out its factor"),
    (r"Query\(\.\.\., name=\.\.\.\)", 'name = "…"'),
    (r"Query\(\.\.\., weight=\.\.\.\)", "weight = …"),
    # plans and releases
    (r"shown to those who ask for them: details=True", "shown to those who ask: --details"),
    (
        r"save\(folder, tables=\[query, …\]\), or none: tables=\[\]",
        "[output] tables = […] in the study, or none: tables = []",
    ),
    (r"\(budget=zCDP\(0\.5\)\)", "([budget] zcdp = 0.5)"),
    (r"a budget of at least zCDP\(([^)]*)\)", r"at least [budget] zcdp = \1"),
    (r"\(targets=\{\.\.\.\}\)", "([targets])"),
    (r"Other files: duckdb\.sql\(.*?\) and pass that\.", "Convert other files to one of these."),
    (
        r"release\.answer\(query\)\.estimated_error estimates it",
        "noiseplan answer RELEASE QUESTION prints an estimate",
    ),
    (r"nz\.compare\(\[plan, …\], example_data\)", "noiseplan compare STUDY EXAMPLE"),
    (r"compare\(plans, example_data\)", "noiseplan compare STUDY EXAMPLE"),
    (r"release\(data, person='id'\)", '[people] person = "id" in the study'),
    (
        r"leave out seed= to publish, or ledger= to test",
        "leave out --seed to publish, or [ledger] to test",
    ),
    (r"\bnoise=(['\"])(\w+)\1", r'[plan] noise = "\2"'),
    (r"\bplanner=(['\"])([\w+-]+)\1", r'[plan] planner = "\2"'),
    (r"\bneighbours=(['\"])([\w-]+)\1", r'[plan] neighbours = "\2"'),
)
WORDS: Final = tuple((re.compile(python), here) for python, here in _WORDS)


def in_words(message: str) -> str:
    """A message of the library as the command line says it.

    Examples
    --------
    >>> in_words("'age' is Categorical: declare it as Ordinal([...])")
    "'age' is Categorical: declare it as { ordinal = [...] }"
    """
    for python, here in WORDS:
        message = python.sub(here, message)
    return message
