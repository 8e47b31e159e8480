"""`python -m benchmarks [--write docs/results.md] [--only NAME ...] [--quick]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from benchmarks.pages import write_pages
from benchmarks.tables import Table


@dataclass(frozen=True)
class Tables:
    """The tables of a module, which is loaded when they are asked for: some need packages that
    others do without."""

    module: str

    def __call__(self, quick: bool) -> Iterator[Table]:
        made: Iterator[Table] = import_module(f"benchmarks.{self.module}").tables(quick)
        return made


@dataclass(frozen=True)
class Group:
    """Some tables under one heading."""

    title: str
    tables: Callable[[bool], Iterator[Table]]


GROUPS: Final = {
    "marginals": Group("Plain marginals", Tables("marginals")),
    "default": Group("Prefix sums and ranges: the default planner", Tables("default")),
    "reproduced": Group("The rivals, reproduced", Tables("reproduced")),
    "worst": Group("The largest variance", Tables("worst")),
    "ordered": Group("One ordered attribute", Tables("ordered")),
    "pure": Group("Pure differential privacy", Tables("pure")),
    "budget": Group("What a budget buys", Tables("budget")),
    "predicates": Group("Predicates and named workloads", Tables("predicates")),
    "small": Group("The exact optimum, and exact errors", Tables("small_domains")),
    "near_optimum": Group("Several factors on one attribute", Tables("near_optimum")),
    "replaced": Group("Records that are replaced", Tables("replaced")),
    "trees": Group("Levels of long attributes", Tables("trees")),
    "series": Group("Prefix sums and ranges over very many values", Tables("series")),
    "explicit": Group("Explicit matrices", Tables("explicit_group")),
    "explicit_figures": Group(
        "Explicit matrices: figures, low rank, many rows", Tables("explicit_figures")
    ),
    "selection": Group("Speed of planning", Tables("selection")),
    "scale": Group("Releases at scale", Tables("at_scale")),
    "counting": Group("Counting", Tables("counting")),
    "aware": Group("Data-aware answers", Tables("aware")),
    "aware_steps": Group("Data-aware answers: the steps taken apart", Tables("aware_section")),
    "adaptive": Group("Adaptive releases", Tables("adaptive")),
    "local": Group("Local differential privacy", Tables("local_group")),
    "valid": Group("Valid tables and made-up records", Tables("valid")),
    "noise": Group("Exact discrete noise", Tables("noise_speed")),
    "ledger": Group("The ledger under stress", Tables("ledger")),
    "attacks": Group("Attacks on privacy, budgets and data", Tables("attacks")),
    "cli": Group("The command line", Tables("cli")),
    "import": Group("Importing", Tables("importing")),
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
