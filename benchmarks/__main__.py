"""`python -m benchmarks [--write docs/results.md] [--only NAME ...] [--quick]`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import scipy

from benchmarks import (
    at_scale,
    default,
    importing,
    ledger,
    marginals,
    noise_speed,
    ordered,
    reproduced,
    selection,
    small_domains,
    worst,
)
from benchmarks.tables import Table, verdict


@dataclass(frozen=True)
class Group:
    """Some tables under one heading."""

    title: str
    tables: Callable[[bool], Iterator[Table]]


GROUPS: Final = {
    "marginals": Group("Plain marginals", marginals.tables),
    "default": Group("Prefix sums and ranges: the default planner", default.tables),
    "reproduced": Group("The rivals, reproduced", reproduced.tables),
    "worst": Group("The largest variance", worst.tables),
    "ordered": Group("One ordered attribute", ordered.tables),
    "small": Group("The exact optimum, and exact errors", small_domains.tables),
    "selection": Group("Speed of planning", selection.tables),
    "scale": Group("Releases at scale", at_scale.tables),
    "noise": Group("Exact discrete noise", noise_speed.tables),
    "ledger": Group("The ledger under stress", ledger.tables),
    "import": Group("Importing", importing.tables),
}

INTRO: Final = """\
# Results

Every published figure this package is measured by, beside its own. This page is made by

```
python -m benchmarks --write docs/results.md
```

and by nothing else: figures and verdicts are computed in one run, none is typed in. Add
`--only NAME` for some groups
({names})
and `--quick` to leave out what takes longest.

All plans have privacy cost 1 (½-zCDP, 1-GDP), and neighbours add or remove one record. RMSE is the
root of the mean variance over all rows of all queries; it is exact and depends on attribute sizes
only, so no data are needed. Times are CPU seconds of one core, from the run that made this page,
and the smallest of several where they are short. Times of papers were measured on their authors'
machines, those of other programs on one core of a shared machine (AMD EPYC, 2.6 GHz): they show
orders of magnitude.

{machine}{partial}
"""


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; 0 if every figure was met."""
    options = _options(arguments)
    started = time.perf_counter()
    found = {name: list(_run(name, options.quick)) for name in options.only or GROUPS}
    every = [table for tables in found.values() for table in tables]
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        partial = bool(options.only or options.quick)
        options.write.write_text(_page(found, partial), encoding="utf-8")
    missed = [table.title for table in every if not table.met]
    took = time.perf_counter() - started
    print(f"{len(every) - len(missed)} of {len(every)} tables met in {took:.0f} s", flush=True)
    for title in missed:
        print(f"NOT met: {title}")
    return 1 if missed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the page to FILE")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), metavar="NAME", default=None,
                        help=f"only these groups: {', '.join(GROUPS)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="leave out what takes longest")
    return parser.parse_args(arguments)


def _run(name: str, quick: bool) -> Iterator[Table]:
    print(f"## {GROUPS[name].title}\n", flush=True)
    for table in GROUPS[name].tables(quick):
        print(table.markdown(), flush=True)
        yield table


def _page(found: dict[str, list[Table]], partial: bool) -> str:
    names = ", ".join(f"`{name}`" for name in GROUPS)
    note = "\n\n**From a partial run** (`--only` or `--quick`)." if partial else ""
    parts = [INTRO.format(names=names, machine=_machine(), partial=note), _overview(found)]
    for name, tables in found.items():
        parts.append(f"## {GROUPS[name].title}\n")
        parts += [table.markdown() for table in tables]
    return "\n".join(parts)


def _overview(found: dict[str, list[Table]]) -> str:
    claims = [(t.title, claim) for tables in found.values() for t in tables for claim in t.claims]
    lines = ["| table | what it must show | verdict |", "| :--- | :--- | :--- |"]
    lines += [f"| {title} | {claim.text} | {verdict(claim.met)} |" for title, claim in claims]
    return "\n".join(["## At a glance\n", *lines, ""])


def _machine() -> str:
    return (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"one thread on a machine of {os.cpu_count()} cores."
    )


if __name__ == "__main__":
    sys.exit(main())
