"""Attacks on privacy, budgets and data, at random and for as long as they are given.

    python -m benchmarks.attacks --minutes 60 --seed 7

tries other cases with every seed, and prints what was tried and what held.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from benchmarks import attacks_costs, attacks_files, attacks_kills
from benchmarks.tables import Table


def tables(quick: bool, seed: int = 1, minutes: float = 8.0) -> Iterator[Table]:
    """Costs recomputed by brute force, files mutilated, releases killed."""
    yield attacks_costs.table(quick, seed, 30.0 * minutes)
    yield attacks_files.attacks(10 if quick else round(80 * minutes), seed)
    yield attacks_kills.table(quick, seed, round(25 * minutes))


def main(arguments: list[str] | None = None) -> int:
    """Run and print; 0 if everything held."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="about how long")
    parser.add_argument("--seed", type=int, default=1, help="other cases with every seed")
    options = parser.parse_args(arguments)
    held = True
    for table in tables(False, options.seed, options.minutes):
        print(table.markdown(), flush=True)
        held = held and table.met
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
