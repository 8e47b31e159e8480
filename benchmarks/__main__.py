"""`python -m benchmarks [--write docs/results.md] [--only NAME ...] [--quick]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import (
    adaptive,
    at_scale,
    attacks,
    aware,
    aware_section,
    cli,
    counting,
    default,
    explicit_figures,
    explicit_group,
    house,
    importing,
    ledger,
    local_group,
    marginals,
    near_optimum,
    noise_speed,
    ordered,
    predicates,
    pure,
    reproduced,
    selection,
    series,
    small_domains,
    trees,
    valid,
    worst,
)
from benchmarks.pages import write_pages
from benchmarks.tables import Table


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
    "pure": Group("Pure differential privacy", pure.tables),
    "predicates": Group("Predicates and named workloads", predicates.tables),
    "small": Group("The exact optimum, and exact errors", small_domains.tables),
    "near_optimum": Group("Several factors on one attribute", near_optimum.tables),
    "trees": Group("Levels of long attributes", trees.tables),
    "series": Group("Prefix sums and ranges over very many values", series.tables),
    "explicit": Group("Explicit matrices", explicit_group.tables),
    "explicit_figures": Group(
        "Explicit matrices: figures, low rank, many rows", explicit_figures.tables
    ),
    "selection": Group("Speed of planning", selection.tables),
    "scale": Group("Releases at scale", at_scale.tables),
    "counting": Group("Counting", counting.tables),
    "aware": Group("Data-aware answers", aware.tables),
    "aware_steps": Group("Data-aware answers: the steps taken apart", aware_section.tables),
    "adaptive": Group("Adaptive releases", adaptive.tables),
    "local": Group("Local differential privacy", local_group.tables),
    "valid": Group("Valid tables and made-up records", valid.tables),
    "noise": Group("Exact discrete noise", noise_speed.tables),
    "ledger": Group("The ledger under stress", ledger.tables),
    "attacks": Group("Attacks on privacy, budgets and data", attacks.tables),
    "cli": Group("The command line", cli.tables),
    "import": Group("Importing", importing.tables),
    "house": Group("The house: rooms, lines and ways", house.tables),
}


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; 0 if every figure was met."""
    options = _options(arguments)
    started = time.perf_counter()
    found = {name: list(_run(name, options.quick)) for name in options.only or GROUPS}
    every = [table for tables in found.values() for table in tables]
    if options.write:
        titles = {name: group.title for name, group in GROUPS.items()}
        write_pages(options.write, titles, found, options.quick)
    missed = [table.title for table in every if not table.met]
    took = time.perf_counter() - started
    print(f"{len(every) - len(missed)} of {len(every)} tables met in {took:.0f} s", flush=True)
    for title in missed:
        print(f"NOT met: {title}")
    return 1 if missed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE",
                        help="also write the pages, with FILE as their index")  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), metavar="NAME", default=None,
                        help=f"only these groups: {', '.join(GROUPS)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="leave out what takes longest")
    return parser.parse_args(arguments)


def _run(name: str, quick: bool) -> Iterator[Table]:
    print(f"## {GROUPS[name].title}\n", flush=True)
    for table in GROUPS[name].tables(quick):
        print(table.markdown(), flush=True)
        yield table


if __name__ == "__main__":
    sys.exit(main())
