"""Before NumPy is imported: one thread for small matrices, or busy machines wait for each other."""

import atexit
import gc
import os
import sys
from tempfile import TemporaryDirectory

for _library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_library, "1")
# Tests start some hundred processes; each would compile the package anew, for a second.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# JAX, which draws records, compiles for longer than it computes: once in a run, for all processes.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _compiled = TemporaryDirectory(prefix="noiseplan-tests-jax-")  # gone when the run ends
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from depth import FULL, examples, some, spread  # noqa: E402

# The same examples on every run of the same tests, on fast machines and slow ones.
settings.register_profile("repeatable", examples(100))
settings.load_profile("repeatable")

# Files that take more than a second each; `pytest --quick` does not even import them.
TESTS = Path(__file__).parent
TOO_SLOW = 2.0  # seconds, on a machine that may be busy
SLOW = {TESTS / name for name in (TESTS / "slow_files.txt").read_text(encoding="utf-8").split()}

# Files of few tests that take ten seconds and more each.
LONGEST = {"test_site.py", "test_readme.py", "test_package.py", "test_valid_microdata.py"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out tests/slow_files.txt")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "grid: a sample of combinations every day (tests/depth.py)")
    config.addinivalue_line("markers", "few(number): so many of its cases every day")
    gone = sorted(str(path.relative_to(TESTS)) for path in SLOW if not path.exists())
    if gone:
        raise pytest.UsageError(f"tests/slow_files.txt names files that are not there: {gone}")


def pytest_collection() -> None:
    """Modules and tests stay to the end: to look through them for garbage, again and again while
    they are collected and then beside every test, takes a twentieth of all the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20)  # what tests leave is little: looked for thirty times as rarely
    # What is left in the end is taken down as ever, but after pytest has looked for garbage five
    # times: in what tests left, not in what was there before them.
    atexit.register(gc.unfreeze)


@pytest.hookimpl(trylast=True)  # of what -k and -m leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Grids are sampled. Single tests that take long begin first, or one worker is still busy when
    others are done."""
    left = set() if FULL else left_out(items)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: item.path.name not in LONGEST)


def left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """The combinations of each marked grid, and of each test marked `few`, for full depth."""
    grids: dict[tuple[Path, str, int | None], list[pytest.Item]] = {}
    for item in items:
        few, grid = item.get_closest_marker("few"), item.get_closest_marker("grid")
        if few or grid:
            number = few.args[0] if few else None
            grids.setdefault((item.path, item.originalname, number), []).append(item)
    found = set()
    for (_, _, number), cases in grids.items():
        if number is None:
            kept = spread([values_of(item) for item in cases])
        else:
            kept = some(range(len(cases)), number)
        found |= set(cases) - {cases[place] for place in kept}
    return found


def values_of(item: pytest.Item) -> tuple[tuple[int, ...], ...]:
    """Which value a case has of each of its parameters; names of one mark go together."""
    params = item.callspec.params  # type: ignore[attr-defined]
    marks = [mark.args[0] for mark in item.iter_markers("parametrize")]
    names = [mark.replace(",", " ").split() if isinstance(mark, str) else mark for mark in marks]
    names += [[name] for name in params if not any(name in own for own in names)]  # of fixtures
    return tuple(tuple(id(params[name]) for name in own) for own in names)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("quick") and collection_path in SLOW else None


# Seconds of each file in this run, by its name from the root.
_TAKEN: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.partition("::")[0]
    _TAKEN[name] = _TAKEN.get(name, 0.0) + report.duration


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """What has become slow and still runs with the fast tests, or these would not stay fast."""
    slow = sorted(name for name, seconds in _TAKEN.items() if seconds > TOO_SLOW)
    if config.getoption("quick") and slow:
        terminalreporter.write_line(f"belong into tests/slow_files.txt: {', '.join(slow)}")
