"""Test vectors for devices in other languages, and a device that was written from the page alone.

`python tests/local/test_local_vectors.py` writes the vectors anew: only with a new format.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import plain_device
import pytest

import noiseplan as nz
from noiseplan.noise.randomness import Source

VECTORS = Path(__file__).parent / "vectors"
PAIR = nz.Schema.from_sizes({"a": 4, "b": 3})
BINS = nz.Schema({"seconds": nz.Binned([0, 0.5, 1, 2, 5, 10])})
NAMES = nz.Schema({"colour": nz.Categorical(["red", "green", "blue", "grey"], other="other")})
PLANS: dict[str, tuple[Any, dict[str, Any]]] = {
    "table": (nz.Query(BINS, {"seconds": nz.Prefix()}), {}),
    "merged": (nz.Query(NAMES, ["colour"], matrix=[[1, 1, 0, 0, 2], [0, 0, 1, 1, 2]]), {}),
    "shifts": (nz.Query(PAIR, ["a", "b"]), {}),
    "subsets": (nz.Query(NAMES, ["colour"]), {"mechanism": "subset selection", "size": 2}),
    "split": (nz.Workload.marginals(PAIR, k=1), {"mechanism": "split", "cells": 4}),
}
KINDS = list(PLANS)


class Replayed(Source):
    """Bytes that were written down; too few of them are an error."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, count: int) -> bytes:
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count : self.at]

    @property
    def brand(self) -> str:
        return "for a test"

    @property
    def private(self) -> bool:
        return False


def codes_of(device: Any, value: dict[str, Any]) -> dict[str, int]:
    columns = device.codes_of({name: [one] for name, one in value.items()})
    return {name: int(code[0]) for name, code in columns.items()}


def vectors(name: str) -> tuple[Any, bytes, list[dict[str, Any]]]:
    data = (VECTORS / f"{name}.randomizer").read_bytes()
    cases = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return nz.local.load_randomizer(VECTORS / f"{name}.randomizer"), data, cases


@pytest.mark.parametrize("name", KINDS)
def test_the_vectors_are_what_devices_report(name: str) -> None:
    device, _, cases = vectors(name)
    for case in cases:
        source = Replayed(bytes.fromhex(case["random"]))
        assert codes_of(device, case["value"]) == case["codes"]
        assert device.report(case["value"], source=source).hex() == case["report"]
        assert source.at == len(source.data)
    kinds = {nz.local.load_randomizer(VECTORS / f"{n}.randomizer").kind for n in KINDS}
    assert kinds == {"table", "shifts", "subsets", "split"}


@pytest.mark.parametrize("name", KINDS)
def test_a_device_written_from_the_page_reports_the_same(name: str) -> None:
    device, data, cases = vectors(name)
    file = plain_device.read_file(data)
    sizes = {n: device.schema[n].size for n in device.schema.names}
    for case in cases:
        source = Replayed(bytes.fromhex(case["random"]))
        own = {n: plain_device.code_of(a, case["value"][n]) for n, a in file["attributes"].items()}
        assert own == case["codes"]
        found = plain_device.report(file, case["codes"], source.read)
        assert found.hex() == case["report"]
    rng = np.random.default_rng(5)
    for _ in range(200):
        codes = {n: int(rng.integers(size)) for n, size in sizes.items()}
        drawn = rng.bytes(200)
        columns = {n: np.array([code]) for n, code in codes.items()}
        expected = device.pack(device._draw(columns, Replayed(drawn))).tobytes()
        assert plain_device.draw(file, codes, Replayed(drawn).read) == expected


DAY = date(2020, 2, 27)
ATTRIBUTES: dict[str, tuple[nz.Attribute, list[Any]]] = {
    "listed": (nz.Categorical(["a", "b"]), ["a", "b", "c", None]),
    "other": (nz.Categorical(["a", "b"], other="o"), ["a", "b", "c", None]),
    "both": (nz.Categorical(["a", "b"], other="o", missing="m"), ["a", "b", "c", None]),
    "counts": (nz.Ordinal(range(3, 7), missing="m"), [2, 3, 6, 7, None]),
    "clipped": (nz.Ordinal(range(3, 7), clip=True), [2, 3, 6, 7, 99, None]),
    "words": (nz.Ordinal(["low", "high"]), ["low", "high", "higher", None]),
    "days": (nz.Ordinal([DAY + timedelta(n) for n in range(40)]), [DAY, DAY + timedelta(5), None]),
    "bins": (nz.Binned([0, 1.5, 3]), [-1, 0, 1.4, 1.5, 2, 3, 3.1, None]),
    "open": (nz.Binned([0, 1, np.inf], clip=True, missing="m"), [-5, 0.5, 1, 1e9, None]),
    "dated": (nz.Binned([DAY, date(2020, 3, 1)]), [date(2020, 2, 1), DAY, date(2020, 3, 1)]),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_codes_are_those_of_the_page(name: str) -> None:
    """Every kind of attribute, as a file of the format holds it."""
    attribute, values = ATTRIBUTES[name]
    schema = nz.Schema({"x": attribute})
    device = nz.local.plan(nz.Query(schema, ["x"]), 1.0, mechanism="randomized response")
    file = plain_device.read_file(device.randomizer().to_bytes())
    held = file["attributes"]["x"]
    assert plain_device.size_of(held) == attribute.size
    for value in values:
        expected = int(attribute.encode([value])[0])
        assert plain_device.code_of(held, value) == (None if expected < 0 else expected)


def test_the_device_needs_numpy_and_nothing_else() -> None:
    code = (
        "import sys\n"
        "allowed = set(sys.stdlib_module_names) | {'numpy', 'noiseplan'}\n"
        "class Refusing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] not in allowed:\n"
        "            raise ImportError(f'{name} is not on the device')\n"
        "sys.meta_path.insert(0, Refusing())\n"
        "from noiseplan.local import Memory, load_randomizer\n"
        f"for name in {KINDS!r}:\n"
        f"    device = load_randomizer({str(VECTORS)!r} + f'/{{name}}.randomizer')\n"
        "    first = {n: device.schema[n].labels[0] for n in device.schema.names}\n"
        "    first = {n: 0.2 if n == 'seconds' else v for n, v in first.items()}\n"
        "    memory = Memory(device)\n"
        "    assert memory.report(first) == memory.report(first)\n"
        "    device.packet(device.reports(device.columns_of(first)))\n"
        "print('good')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "good\n"


def test_commands_on_a_device_say_what_they_lack() -> None:
    code = "import sys\nsys.modules['click'] = None\nfrom noiseplan.cli import main\nmain()\n"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith("Error: the commands need the whole install")
    assert "nz.local.load_randomizer(file)" in run.stderr and "Traceback" not in run.stderr


def _write(name: str) -> None:
    workload, how = PLANS[name]
    device = nz.local.plan(workload, 1.2, **how).randomizer()
    device.save(VECTORS / f"{name}.randomizer")
    rng, cases = np.random.default_rng(len(name)), []
    labels = {n: list(device.schema[n].labels) for n in device.schema.names}
    if name == "table":
        labels = {"seconds": [0.0, 0.7, 1.99, 3.5, 10.0]}
    for i in range(12):
        value = {n: column[i % len(column)] for n, column in labels.items()}
        source = Replayed(rng.bytes(400))
        report = device.report(value, source=source)
        used = source.data[: source.at].hex()
        codes = codes_of(device, value)
        cases.append({"value": value, "codes": codes, "random": used, "report": report.hex()})
    text = json.dumps(cases, indent=1, ensure_ascii=False) + "\n"
    (VECTORS / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    VECTORS.mkdir(exist_ok=True)
    for each in KINDS:
        _write(each)
