"""What a saved thing says of itself, as JSON: made once by `make_saved.py`, compared ever after.

Four kinds of facts, by where they stand:

    told      texts, names, counts, hashes, and numbers as they were written: equal to the last bit
    answers   from the numbers that were written: equal to the last bit
    errors    variances, covariances and all that follows from them: to 1e-12
    bounds    numbers by iteration: to 1e-9

That is on a machine that computes matrices to the same last digits as the one that made them. On
any other, numbers that are solved for differ by what their equations make of last digits: by up to
1e-9 of the largest of their kind (what should be zero is a few last digits of that).
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import noiseplan as nz
from noiseplan.errors import NoiseplanError
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.server.aggregator import Aggregator
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise import SeededSource
from noiseplan.storage.table_files import MARK

KINDS = Path(__file__).parent / "kinds"
MOST = 20  # numbers of a list that are kept; of more, these and the sum of all
NOT_THERE = "not there"  # what one kind has and another lacks: nothing is compared
Facts = dict[str, Any]


def arithmetic() -> str:
    """The same on machines and libraries that compute matrices to the same last digits."""
    digest = hashlib.sha256(f"{np.__version__} {zlib.ZLIB_RUNTIME_VERSION}".encode())
    rng = np.random.default_rng(0)
    for rows, columns in pairwise((1, 2, 3, 5, 8, 13, 24, 60, 130)):
        one, other = rng.random((rows, columns)), rng.random((columns, rows))
        square = one @ other + np.eye(rows)
        for made in (square, np.linalg.inv(square), np.linalg.svd(one)[1], np.exp(one)):
            digest.update(np.ascontiguousarray(made).tobytes())
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """As JSON holds it; floats keep every digit."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) > MOST:
        return plain([*value[:MOST].tolist(), value.sum()])
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | None) else str(value)


# Said since behind a refusal: what is measured at that level, and what is asked for beyond it.
CAUSES = re.compile(r"(?<=add the query to the workload)\. (The cause is|By \S+ it measures) .*$")


def asked(call: Callable[[], Any]) -> Any:
    """What is answered, or refused in which words; some things some kinds do not have at all."""
    try:
        return plain(call())
    except NoiseplanError as refused:
        said = str(refused).replace(";\n  ", "; ")  # which were on one line when these were made
        said = CAUSES.sub("", said)
        return {"refused": f"{type(refused).__name__}: {said}"}
    except AttributeError as missing:
        return {"refused": str(missing)} if str(missing).startswith("no ") else NOT_THERE


def array_hash(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        little = np.ascontiguousarray(array)
        digest.update(f"{little.dtype.str}{little.shape}".encode() + little.tobytes())
    return digest.hexdigest()


# ------------------------------------------------------------------------------ releases


def cost_diagonal(plan: nz.Plan) -> np.ndarray:
    """The diagonal of the cost matrix, without the matrix where that has 24,000² numbers.

    `test_conformance_written_out.py` compares the two where the matrix is small.
    """
    if isinstance(plan.mechanism, WorkloadRowsMechanism) and plan.schema.size > 10_000:
        return plan.mechanism.cell_costs()
    return np.diagonal(plan.cost_matrix())


def queries_of(schema: nz.Schema) -> list[nz.Query]:
    """Queries that not every plan has heard of: some are answered, some refused in words."""
    names = list(schema.names)
    first = schema[names[0]]
    asked = [nz.Query(schema, []), nz.Query(schema, names[:1]), nz.Query(schema, names[-2:])]
    if first.ordered:
        asked.append(nz.Query(schema, {names[0]: nz.Prefix()}))
    ends = [[1.0] + [0.0] * (first.size - 2) + [-1.0]]
    return [*asked, nz.Query(schema, {names[0]: nz.Custom(ends)}, name="first less last")]


def release_facts(release: Any) -> Facts:
    """Everything a reader of a folder can ask."""
    plan, privacy = release.plan, release.plan.privacy
    workload = list(plan.workload)
    others = queries_of(plan.schema)
    queries = workload + others
    pairs = [(workload[0], workload[-1]), (workload[-1], workload[0]), (others[0], workload[0])]
    return {
        "told": {
            "texts": {
                "release": str(release),
                "release, short": repr(release),
                "plan": str(plan),
                "plan, short": repr(plan),
                "privacy": privacy.describe(),
                "privacy, short": repr(privacy),
                "workload": str(plan.workload),
                "objective": asked(lambda: str(plan.objective)),
                "noise": [release.brand, release.recorded, plan.noise, plan.planner],
                "queries": [[q.name, q.rows, q.weight] for q in queries],
                "labels": [plain(q.row_labels()) for q in workload[:2]],
            },
            "privacy": {
                "pcost": privacy.pcost,
                "law": privacy.law,
                "neighbours": privacy.neighbours,
                "pure": privacy.pure_epsilon,
                "max_rows": plan.max_rows,
                "rho": asked(lambda: privacy.rho),
                "epsilon": [asked(lambda d=d: privacy.epsilon(d)) for d in (1e-3, 1e-9)],
            },
            "hash": asked(plan.hash) if hasattr(plan, "hash") else None,
            "schema": plan.schema.to_dict(),
            "targets": asked(lambda: plan.targets),
            "measured": array_hash(release.measurements.values),
            "numbers": asked(lambda: plan.measured_numbers),
            "optimal": asked(lambda: plan.optimal),
        },
        "answers": {
            "queries": [asked(lambda q=q: release.answer(q).estimate) for q in queries],
            "batches": [float(estimate.sum()) for _, estimate in release.answers()],
            "counts": asked(lambda: release.counts),
        },
        "errors": {
            "error": asked(lambda: release.answer(workload[-1]).std_error[:4]),
            "estimated": [asked(lambda q=q: release.answer(q).estimated_error) for q in queries],
            "interval": [
                asked(lambda e=e: getattr(release.answer(workload[-1], level=0.9), e)[:4])
                for e in ("lower", "upper")
            ],
            "simultaneous": asked(
                lambda: release.answer(workload[-1], level=0.9, simultaneous=True).upper[:4]
            ),
            "variances": [asked(lambda q=q: plan.variance(q)) for q in queries],
            "covariances": [
                asked(lambda q=q, r=r: plan.covariance(q, r)[:4, :4]) for q, r in pairs
            ],
            "figures": {
                name: asked(lambda name=name: getattr(plan, name))
                for name in ("rmse", "total_variance", "worst_variance", "gap", "target_scale")
            },
            "cost matrix": asked(lambda: cost_diagonal(plan)[:8]),
        },
        "bounds": {
            name: asked(lambda name=name: getattr(plan, name))
            for name in ("lower_bound", "efficiency")
        },
    }


def _grammar(line: str) -> str:
    """Certificates once said "1 queries"."""
    line = re.sub(r"(?<![\d,.])1 queries\b", "1 query", line)
    return re.sub(r"(?<![\d,.])1 (row|noisy number|bucket)s\b", r"1 \1", line)


def certificate_facts(folder: Path) -> Facts:
    """The certificate without its date and versions, and the files that a folder lists."""
    content = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    words = (folder / "certificate.txt").read_text(encoding="utf-8").splitlines()
    names = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    files = sorted(name for name in names if name != f"tables/{MARK}")  # which came later
    return {
        "certificate": {k: v for k, v in content.items() if k not in ("made", "software")},
        "certificate in words": [_grammar(line) for line in words if not _since(line)],
        "files": files,
    }


def _since(line: str) -> bool:
    """Whether a line is a date, or said since of records that are not counted."""
    return line.startswith(("Made ", "Of each ", "Numbers may be lower "))


def same_folders(one: Path, other: Path) -> None:
    """Two folders with the same plan, numbers and tables, to the last byte where bytes are sure.

    The certificate has errors too, whose last digit is a planner's or a reader's.
    """
    told = differences(certificate_facts(one), certificate_facts(other), 1e-9)
    assert not told, "\n".join(told)
    for name in certificate_facts(one)["files"]:
        if name.endswith((".json", ".npz")) and name != "certificate.json":
            assert (one / name).read_bytes() == (other / name).read_bytes(), name
        if name.endswith(".csv"):
            same_tables(one / name, other / name)
        if name.endswith(".parquet"):
            (columns, rows), (theirs, others) = parquet(one / name), parquet(other / name)
            assert columns == theirs, name
            told = differences(list(map(list, rows)), list(map(list, others)), 1e-12)
            assert not told, "\n".join(told)


def same_tables(one: Path, other: Path) -> None:
    """Two CSV files of the same cells and numbers; early ones have more digits than their errors
    leave a meaning: what was cut off is less than a hundred-thousandth of the smallest error."""
    with (
        one.open(encoding="utf-8", newline="") as file,
        other.open(encoding="utf-8", newline="") as second,
    ):
        rows, others = list(csv.DictReader(file)), list(csv.DictReader(second))
    assert [list(row) for row in rows] == [list(row) for row in others], one
    errors = [float(row.get("std_error") or row.get("estimated_error") or 0) for row in others]
    near = 1e-5 * min((error for error in errors if error > 0), default=0.0)
    for row, then in zip(rows, others, strict=True):
        for name, text in row.items():
            assert text == then[name] or abs(float(text) - float(then[name])) <= near, (one, name)


def parquet(path: Path) -> tuple[Any, Any]:
    """Columns and rows; the bytes depend on the library that wrote them."""
    with duckdb.connect() as connection:
        read = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
        return read.description, read.fetchall()


def made_up_records(release: Path, path: Path) -> str:
    """Records made up from a saved release into a CSV file, and how they call themselves.

    In a process of its own, since the library that fits the model starts threads; and with an order
    of Python's sets of texts in which that library, told the attributes' names, draws others.
    """
    program = (
        "import sys, noiseplan as nz\n"
        "release = nz.load(sys.argv[1])\n"
        "print(repr(release.microdata(rows=40, seed=3, path=sys.argv[2])))\n"
    )
    run = [sys.executable, "-W", "ignore", "-c", program, str(release), str(path)]
    order = os.environ | {"PYTHONHASHSEED": "3"}
    made = subprocess.run(run, capture_output=True, text=True, check=True, env=order)
    return made.stdout.strip()


# ------------------------------------------------------------------------------ local


def randomizer_facts(made: Randomizer) -> Facts:
    """What a device knows, and the reports it draws from given bits."""
    schema = made.schema
    codes = np.random.default_rng(5).integers(0, schema.size, 50)
    values = {
        name: [attribute.labels[c] for c in part]
        for name, attribute, part in zip(
            schema.names, schema.attributes, np.unravel_index(codes, schema.shape), strict=True
        )
    }
    reports = made.reports(values, source=SeededSource(3))
    return {
        "told": {
            "text": repr(made),
            "hash": made.hash,
            "epsilon": made.epsilon,
            "delta": getattr(made, "delta", 0.0),
            "sizes": [made.types, made.payload_bytes, made.report_bytes],
            "schema": schema.to_dict(),
            "reports": array_hash([made.pack(reports)]),
            "packet": hashlib.sha256(made.packet(reports)).hexdigest(),
            "tally": plain(made.tally(reports)),
        }
    }


def aggregator_facts(made: Aggregator, queries: list[nz.Query]) -> Facts:
    """What a server knows, and answers."""
    every = [*queries, *queries_of(queries[0].schema)]
    return {
        "told": {
            "text": repr(made),
            "brand": made.brand,
            "users": made.users,
            "rejected": plain(dict(made.rejected)),
            "tally": plain(made.tally),
            "randomizer": made.randomizer.hash,
        },
        "answers": {"queries": [asked(lambda q=q: made.answer(q).estimate) for q in every]},
        "errors": {
            "worst": [asked(lambda q=q: made.variance(q, errors="worst")) for q in every],
        },
        "bounds": {
            "errors": [asked(lambda q=q: made.answer(q).std_error) for q in every],
            "covariance": asked(lambda: made.covariance(every[0], every[-1])),
            "consistent": asked(lambda: made.consistent().answer(every[0])),
        },
    }


# ------------------------------------------------------------------------------ ledgers


def ledger_facts(ledger: nz.Ledger) -> Facts:
    """Balances, entries, refusals and every row, in every format; where the file lies left out."""

    def text(told: object) -> str:
        return str(told).replace(str(ledger.path), "PATH")

    datasets = ledger.datasets()
    entries = ledger.entries()
    return {
        "told": {
            "text": text(ledger),
            "datasets": plain(datasets),
            "balances": [text(ledger.balance(name)) for name in datasets],
            "entries": [text(entry) for entry in entries],
            "entries, short": [text(repr(entry)) for entry in entries],
            "refusals": [text(repr(each)) for each in ledger.refusals()],
            "history": [text(repr(record)) for record in ledger.history()],
            "head": text(ledger.verify()),
            "exports": {
                kind: text(ledger.export(kind)) for kind in ("json", "csv", "dp-accounting")
            },
            "too much": [
                asked(lambda name=name: ledger.ask(name, nz.Guarantee(1e3, "zcdp")))
                for name in datasets
            ],
            "a little": [
                asked(lambda name=name: ledger.ask(name, nz.Guarantee(1e-9, "zcdp"), max_rows=2))
                for name in datasets
            ],
            "unknown": asked(lambda: ledger.balance("no such data")),
        }
    }


# ------------------------------------------------------------------------------ comparing


def differences(
    found: Any, expected: Any, near: float, where: str = "", least: float = 0.0
) -> list[str]:
    """Where facts differ; numbers by more than `near`, relative to the largest of their list, or to
    `least` if that is more."""
    if expected == NOT_THERE:
        return []
    if isinstance(expected, dict) and isinstance(found, dict) and set(expected) == set(found):
        each = ((found[key], expected[key], near, f"{where}/{key}", least) for key in expected)
        return [difference for one in each for difference in differences(*one)]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        if near and expected and all(isinstance(e, float) for e in (*expected, *found)):
            return _far(np.array(found), np.array(expected), near, where, least)
        pairs = enumerate(zip(found, expected, strict=True))
        return [d for i, (f, e) in pairs for d in differences(f, e, near, f"{where}/{i}", least)]
    if near and isinstance(expected, float) and isinstance(found, float):
        return _far(np.array([found]), np.array([expected]), near, where, least)
    same = found == expected and type(found) is type(expected)
    both_nan = (
        isinstance(expected, float)
        and isinstance(found, float)
        and (math.isnan(expected) and math.isnan(found))
    )
    return [] if same or both_nan else [f"{where}: {found!r} is not {expected!r}"]


def _far(
    found: np.ndarray, expected: np.ndarray, near: float, where: str, least: float
) -> list[str]:
    size = np.abs(expected[np.isfinite(expected)]).max(initial=least)
    same = np.isclose(found, expected, rtol=near, atol=near * size, equal_nan=True)
    return [] if same.all() else [f"{where}: {found.tolist()} is not {expected.tolist()}"]


# The line that begins with the word, and those below it that stand further to the right.
OPTIMALITY = re.compile(r"^  optimality .*\n(?: {14}.*\n)*", re.MULTILINE)


# Shares of variance that were told by powers of ten when the examples were made.
# Said since of figures that are what they were: whether weights are in them, what a cost is, and
# that records of a person beyond so many are left out.
SINCE = re.compile(
    r"weighted (?=total variance|worst variance|[\d.]+-norm)|(?<=privacy cost) 2ρ ="
    r"|\n  counted  of each [^\n]*"
)
TINY = re.compile(r"costs \d+e-\d+% of")

# What these lines tell: the figure that was reached, and what none can be below.
REACHED = re.compile(r"(?:variance|privacy cost|rows of their own) ([\d.e+-]*\d)")
BOUND = re.compile(r"lower bound ([\d.e+-]*\d)")


# All values together were counted as one more level, though nobody had declared it.
LEVELS = re.compile(r"at (\d+) levels? of (\w+) and in total")


def _with_the_whole(told: re.Match[str]) -> str:
    return f"at {int(told[1]) + 1} levels of {told[2]}"


def compare(found: Facts, expected: Facts) -> None:
    """Fail with everything that moved. Bounds may only rise, and the lines that tell them move with
    them: better ones are found, and told in better words, of the same figure."""
    found, expected = json.loads(json.dumps(found)), json.loads(json.dumps(expected))
    for facts in (found, expected["facts"]):  # of examples before and after the words changed
        texts = facts.get("told", {}).get("texts", {})
        for name, text in texts.items():
            if isinstance(text, str):
                texts[name] = LEVELS.sub(_with_the_whole, SINCE.sub("", text))
    expected = _with_better_bounds(found, expected)
    if arithmetic() == expected["arithmetic"]:
        near, sizes = {"told": 0.0, "answers": 0.0, "errors": 1e-12, "bounds": 1e-9}, {}
    else:
        near = {"told": 0.0} | dict.fromkeys(("answers", "errors", "bounds"), 1e-9)
        sizes = {part: _largest(expected["facts"].get(part)) for part in near}
    told = [
        difference
        for part, facts in expected["facts"].items()
        for difference in differences(found[part], facts, near[part], part, sizes.get(part, 0.0))
    ]
    assert not told, "\n".join(told)


def _largest(facts: Any) -> float:
    """The largest variance of some facts, or the largest number of all."""
    if isinstance(facts, dict):
        own = [facts[key] for key in ("variances",) if key in facts]
        return max(map(_largest, own or facts.values()), default=0.0)
    if isinstance(facts, list):
        return max(map(_largest, facts), default=0.0)
    return abs(facts) if isinstance(facts, float) and math.isfinite(facts) else 0.0


def _with_better_bounds(found: Facts, expected: Facts) -> Facts:
    """What was expected, with the bounds that rose since, and the lines that tell no lower ones."""
    facts = json.loads(json.dumps(expected["facts"]))
    for name, value in facts.get("bounds", {}).items():
        now = found["bounds"][name]
        if name in ("lower_bound", "efficiency") and isinstance(value, float) and now > value:
            facts["bounds"][name] = now
    texts = facts["told"].get("texts", {})
    for name, then in texts.items():
        if isinstance(then, str):
            then = texts[name] = TINY.sub("costs < 0.0001% of", then)
        now = found["told"].get("texts", {}).get(name)
        if isinstance(then, str) and isinstance(now, str) and _tells_no_less(now, then):
            texts[name] = OPTIMALITY.sub(lambda _, now=now: OPTIMALITY.search(now)[0], then)
    return {**expected, "facts": facts}


def _tells_no_less(now: str, then: str) -> bool:
    """Whether lines on optimality are of the same figure, and of a bound that is no lower."""
    both = [OPTIMALITY.search(text) for text in (now, then)]
    if any(line is None for line in both):
        return False
    reached, bounds = ([kind.findall(line[0]) for line in both] for kind in (REACHED, BOUND))
    least = [float(told[0]) if told else 0.0 for told in bounds]
    same = reached[0] == reached[1] or not reached[1]  # some told a share and no figure
    return same and least[0] >= least[1] * (1 - 1e-5)
