"""How long `import noiseplan` takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from benchmarks.tables import Claim, Table, decimals

LIMIT: Final = 0.5
STATEMENTS: Final = {
    "import numpy": "import numpy",
    "import noiseplan": "import noiseplan",
    "import noiseplan, then noiseplan.plan": "import noiseplan; noiseplan.plan",
}


def tables(quick: bool) -> Iterator[Table]:
    """One table."""
    runs = 2 if quick else 5
    seconds = {label: import_seconds(code, runs) for label, code in STATEMENTS.items()}
    ours = seconds["import noiseplan"]
    yield Table(
        title="Importing",
        sentence=(
            "CPU seconds in a fresh interpreter, its own start not counted; the best of several."
        ),
        source="NumPy's own import, which is part of it. Planning loads SciPy on first use.",
        columns="statement | CPU seconds",
        rows=tuple((label, decimals(spent, 3)) for label, spent in seconds.items()),
        claims=(Claim(f"`import noiseplan` below {LIMIT:g} s: {ours:.3f} s", ours < LIMIT),),
    )


def import_seconds(code: str, runs: int) -> float:
    """The fewest CPU seconds the statement took."""
    script = f"import time; t = time.process_time(); {code}; print(time.process_time() - t)"
    command = [sys.executable, "-c", script]
    outputs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for _ in range(runs)
    ]
    return min(float(output) for output in outputs)
