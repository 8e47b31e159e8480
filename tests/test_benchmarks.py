"""The figures that depend on arithmetic alone, from the same tables that the benchmarks print."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `benchmarks` is not installed

from benchmarks import (
    default,
    explicit_figures,
    house,
    marginals,
    pages,
    published,
    reproduced,
    small_domains,
    worst,
)
from benchmarks.__main__ import GROUPS, main
from benchmarks.bruteforce import largest_difference, measured
from benchmarks.domains import ADULT, BUDGET, CPS, LOANS, synth
from benchmarks.optimum import dual_optimum, solver_optimum
from benchmarks.tables import Claim, Table, all_rows
from benchmarks.timing import in_own_process

# ---------------------------------------------------------------------- published figures

TABLES: dict[str, Callable[[], Table]] = {
    "marginals, real domains": marginals.real_domains,
    "marginals, growing sizes": marginals.growing_sizes,
    "marginals, growing counts": lambda: marginals.growing_counts(quick=True),
    "residual+ and product, ranges": lambda: reproduced.products(
        "ranges", nz.Ranges(), published.RANGE_PRODUCTS
    ),
    "residual+ and product, prefix": lambda: reproduced.products(
        "prefix", nz.Prefix(), published.PREFIX_PRODUCTS
    ),
    "residual+ and product, k-way": reproduced.k_way,
    "residual+, mixed": reproduced.mixed,
    "default, k-way": default.k_way,
    "default, mixed": default.mixed,
    "default, ranges": lambda: default.products("ranges", nz.Ranges(), published.RANGE_PRODUCTS),
    "default, prefix": lambda: default.products("prefix", nz.Prefix(), published.PREFIX_PRODUCTS),
    "largest variance, 1-way": worst.one_way,
    "largest variance, one attribute": worst.one_attribute,
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", TABLES)
def test_every_published_figure_is_met(name: str) -> None:
    table = TABLES[name]()
    assert table.met, f"\n{table}"


def test_eigen_designs_are_planned_by_what_their_rows_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six in a hundred vectors lose a sixth on marginals; all of them nothing."""
    planned, plan = [], nz.plan

    def noted(*asked: object, planner: str, **how: object) -> nz.Plan:
        planned.append(planner)
        return plan(*asked, planner=planner, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(nz, "plan", noted)
    rows = {str(row[0]): row for row in explicit_figures._pairs_of_twos()}
    assert list(rows) == [f"marginals, {planner}" for planner in planned]
    assert float(str(rows["marginals, eigen-principal-6"][3])) == pytest.approx(1.166, abs=5e-4)
    assert rows["marginals, eigen-principal-6"][-1] is False
    assert rows["marginals, eigen"][-1] is True


def test_pages_of_other_code_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of two pages are compared on the same code alone."""
    index, titles = tmp_path / "results.md", {"first": "The first", "second": "The second"}
    pages.write_pages(index, titles, {name: [] for name in titles}, quick=False)
    assert "other code" not in index.read_text(encoding="utf-8")
    monkeypatch.setattr(pages, "measured_code", lambda: "0123456789ab")
    pages.write_pages(index, titles, {"second": []}, quick=False)
    first, second = index.read_text(encoding="utf-8").split("## [The second]")
    assert "other code" in first
    assert "other code" not in second


# ---------------------------------------------------------------------- the exact optimum

SEEDS = seeds(12)


@pytest.mark.parametrize(
    ("draw", "limit"),
    [
        (small_domains.one_factor, small_domains.ONE_FACTOR_LIMIT),
        (small_domains.several_factors, small_domains.SEVERAL_FACTORS_LIMIT),
    ],
)
def test_plans_are_near_the_exact_optimum(draw: Callable[[int], nz.Workload], limit: float) -> None:
    gaps = [small_domains.judged(draw(seed)).gap for seed in SEEDS]
    assert max(gaps) <= limit
    assert min(gaps) >= -1e-9, "nothing can be below a lower bound"


def test_the_hardest_known_workload() -> None:
    gap = small_domains.judged(small_domains.all_two_way_prefix()).gap
    assert gap <= small_domains.ONE_FACTOR_LIMIT


@pytest.mark.parametrize(
    "draw", [small_domains.one_factor, small_domains.several_factors, small_domains.low_rank]
)
def test_privacy_and_errors_are_exact(draw: Callable[[int], nz.Workload]) -> None:
    for seed in SEEDS:
        plan = nz.plan(draw(seed), budget=BUDGET, noise="gaussian")
        truth = measured(plan)
        assert truth.pcost == pytest.approx(1.0, abs=1e-9)
        assert truth.pcost <= 1.0 + 1e-12
        assert largest_difference(plan, truth) <= small_domains.EXACTNESS


# ---------------------------------------------------------------------- the judges themselves


def test_the_dual_optimum_brackets_known_values() -> None:
    # Identity: nothing beats plain counts. φ² is the optimum of two prefix sums.
    assert dual_optimum(np.eye(5)) == pytest.approx((5.0, 5.0))
    prefix = np.tril(np.ones((2, 2)))
    golden = ((1 + 5**0.5) / 2) ** 2
    lower, upper = dual_optimum(prefix.T @ prefix, gap=1e-9)
    assert lower <= golden * (1 + 1e-12)
    assert upper >= golden * (1 - 1e-12)
    assert lower == pytest.approx(golden, rel=1e-8)


def test_the_two_ways_to_the_optimum_agree() -> None:
    pytest.importorskip("cvxpy")
    rows = np.random.default_rng(0).integers(0, 2, size=(7, 6)).astype(float)
    gram = rows.T @ rows
    lower, upper = dual_optimum(gram, gap=1e-6)
    assert lower * (1 - 1e-5) <= solver_optimum(gram) <= upper * (1 + 1e-5)


def test_brute_force_finds_an_overspent_plan() -> None:
    workload = synth(3, 2).workload("2", nz.Prefix())
    plan = nz.plan(workload, budget=nz.zCDP(1.0), noise="gaussian")
    assert measured(plan).pcost == pytest.approx(2.0, abs=1e-9)


# ---------------------------------------------------------------------- domains, tables, command


@pytest.mark.parametrize(
    ("domain", "ways", "tables", "rows"),
    [
        (ADULT, "≤3", 470, 21_043_262),
        (ADULT, "small", 379, 551_626),
        (CPS, "small", 24, 17_520),
        (LOANS, "small", 188, 279_751),
        (synth(10, 2), "≤3", 4, 121),
    ],
)
def test_workloads_have_the_published_sizes(domain, ways, tables, rows) -> None:  # type: ignore[no-untyped-def]
    workload = domain.workload(ways)
    assert (len(workload), workload.rows) == (tables, rows)


def _table(*verdicts: bool) -> Table:
    rows = tuple((f"case {i}", verdict) for i, verdict in enumerate(verdicts))
    return Table(
        "Title", "A sentence.", "a paper.", "what | verdict", rows, (all_rows("as", rows),)
    )


def test_a_table_is_met_only_if_every_row_is() -> None:
    assert _table(True, True).met
    assert not _table(True, False).met
    assert not Table("", "", "", "a", (), (Claim("no", False),)).met


def test_a_table_as_markdown() -> None:
    lines = _table(True, False).markdown().splitlines()
    assert lines[0] == "### Title"
    assert "| what | verdict |" in lines
    assert "| case 0 | met |" in lines
    assert "| case 1 | **NOT met** |" in lines
    assert "- **NOT met**: as: 1 of 2 rows" in lines


# What developers install beside the package: the extra `dev` and all that it brings.
DEVELOPERS = [
    "pandas",
    "polars",
    "pyarrow",
    "numba",
    "pyspark",
    "ibis",
    "mbi",
    "jax",
    "torch",
    "pytest",
    "hypothesis",
    "cvxpy",
    "clarabel",
    "dp_accounting",
    "mpmath",
    "opendp",
    "cryptography",
    "playwright",
]


def test_the_command_prints_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = GROUPS["marginals"]
    one = type(group)(group.title, lambda quick: iter([_table(True)]))
    monkeypatch.setitem(GROUPS, "marginals", one)
    page = tmp_path / "results.md"
    assert main(["--only", "marginals", "--quick", "--write", str(page)]) == 0
    printed, written = capsys.readouterr().out, page.read_text(encoding="utf-8")
    assert "### Title" in printed
    assert "1 of 1 tables met" in printed
    assert "python -m benchmarks --write docs/results.md" in written
    assert "| Title | as: 1 of 1 rows | met |" in written
    assert "From a quick run." in written
    own = (tmp_path / "results" / "marginals.md").read_text(encoding="utf-8")
    assert "### Title" in own and "**From a quick run.**" in own
    # Another group adds its page and leaves this one as it is.
    other = GROUPS["import"]
    late = type(other)(other.title, lambda quick: iter([_table(False)]))
    monkeypatch.setitem(GROUPS, "import", late)
    assert main(["--only", "import", "--write", str(page)]) == 1
    both = page.read_text(encoding="utf-8")
    assert "| Title | as: 1 of 1 rows | met |" in both
    assert "| Title | as: 0 of 1 rows | **NOT met** |" in both
    assert (tmp_path / "results" / "marginals.md").read_text(encoding="utf-8") == own


def test_the_command_fails_when_a_figure_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GROUPS["marginals"]
    monkeypatch.setitem(
        GROUPS, "marginals", type(group)(group.title, lambda quick: iter([_table(False)]))
    )
    assert main(["--only", "marginals"]) == 1


def test_published_tables_are_made_with_what_the_package_needs_alone() -> None:
    """A package that is only for developing is an error there, and so is a group not asked for."""
    code = (
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {DEVELOPERS!r}: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "from benchmarks.__main__ import GROUPS, main\n"
        "assert not [name for name in sys.modules if name == 'benchmarks.marginals']\n"
        "from importlib import import_module\n"
        "for name in ('marginals', 'default', 'worst', 'ordered', 'predicates', 'pure'):\n"
        "    import_module(f'benchmarks.{GROUPS[name].tables.module}')\n"
        "sys.exit(main(['--only', 'reproduced', '--quick']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "4 of 4 tables met" in done.stdout


def test_work_in_a_process_of_its_own_reports_its_own_peak() -> None:
    ballast = np.ones(40_000_000)  # 320 MB that the child must not be charged for
    peak = in_own_process("benchmarks.timing", "peak_bytes")
    assert 0 < peak < ballast.nbytes


# ---------------------------------------------------------------------- the house


def test_house_verdicts_are_computed() -> None:
    assert house.Figure("files", 9, 5, 5).met
    assert not house.Figure("files", 9, 6, 5).met
    assert house.Figure("tests", 0.3, 1.01, 1, more=True).met
    assert not house.Figure("tests", 0.3, 1.0, 1, more=True).met
    assert house.Figure("tests", 0.33, 1.5, 1, more=True).row == (
        "tests", "0.33", "1.50", "above 1", True,
    )  # fmt: skip


def test_house_counts_what_it_says(tmp_path: Path) -> None:
    tree = ast.parse(
        "def six(self, a, b, c, *, d, e, f): ...\n"
        "def seven(a, b, c, d, /, e, *, f, g): ...\n"
        "if plan.noise == 'gaussian' or x in ('a', 'laplace'): ...\n"
        "y = 1 if noise.exact else 2\n"
        "z = [q for q in w if q.integer]\n"
        "if isinstance(n, np.integer): name = 'gaussian'\n"
        "if isinstance(m, DenseMechanism | Other) or isinstance(m, Matrix): ...\n"
    )
    assert house.long_signatures(tree) == ["seven"]
    assert house.noise_lines(tree) == {3, 4, 5}
    assert house.mechanism_lines(tree) == {7}
    assert house.disguised_noise(tree) == {4, 5}
    paths = [Path(p) for p in ("a/x.py", "b/x.py", "b/y.py", "a/__init__.py", "b/__init__.py")]
    assert house.repeated_names(paths) == {"x"}


def test_house_finds_questions_in_other_words() -> None:
    tree = ast.parse(
        "a = FAMILIES[problem.drawn.law]\n"
        "b = noise.power == 1\n"
        "c = problem.laplace or small\n"
        "d = {'gaussian': 1, 'laplace': 2}\n"
        "e = {'gaussian': 1, 'other': 2}\n"
        "f = queries.power == 1, law == 'zcdp'\n"
        "g = 1 if privacy.pure_epsilon is None else isinstance(budget, PureDP)\n"
        "if plan.data_aware or m.alike_by == 'type': ...\n"
        "h = plan.data_aware, isinstance(budget, zCDP), privacy.pure_epsilon, noise.power\n"
    )
    assert house.noise_lines(tree) == set()
    assert house.disguised_noise(tree) == {1, 2, 3, 4}
    assert house.pure_lines(tree) == {7}
    assert (house.mechanism_lines(tree), house.disguised_mechanisms(tree)) == (set(), {8})


class Rooms:
    """A few modules in place of all; which of them reach themselves is worked out as ever."""

    EXEMPT = frozenset({"__init__"})
    room = staticmethod(lambda module: module.partition(".")[0])
    arrows = staticmethod(
        lambda: {"a.one": {"b.two"}, "b.other": {"a.three"}, "c": {"a.one", "__init__"}}
    )
    upward = staticmethod(lambda: {("a.one", "b"), ("a.two", "b")})
    cyclic = staticmethod(house._rooms().cyclic)


def test_house_figures_follow_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with two lines and one of tests: counted, not remembered."""
    monkeypatch.setattr(house, "_rooms", lambda: Rooms)  # which would read the whole package
    room, tests = tmp_path / "src" / "mechanisms", tmp_path / "tests" / "mechanisms"
    room.mkdir(parents=True)
    tests.mkdir(parents=True)
    (room / "one.py").write_text("x = (1,\n     2)  # fmt: skip\n")
    (tests / "test_one.py").write_text("\n\n\n")
    found = {f.what: f for f in house.source_figures(tmp_path / "src", tmp_path / "tests")}
    assert (found["files"].now, found["lines"].now) == (1, 2)
    assert found["places where the formatter is told to look away"].now == 1
    assert found["lines of test for a line of mechanisms"].now == 1.5


def test_house_cycles_are_of_rooms() -> None:
    assert house.rooms_in_cycles(Rooms) == {"a", "b"}  # type: ignore[arg-type]
    assert house.arrows_upward(Rooms) == {("a", "b")}  # type: ignore[arg-type]
