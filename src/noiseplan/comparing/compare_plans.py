"""`compare`: what plans would have for errors on data like these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from noiseplan.comparing.comparison import Comparison, Contender
from noiseplan.comparing.error_figures import exact_errors
from noiseplan.comparing.simulating import Example, simulated_errors
from noiseplan.counting import Projectable
from noiseplan.errors import PlanError, remedy
from noiseplan.planning.plan import Plan
from noiseplan.privacy.people import PERSON
from noiseplan.queries import Workload

# A plan, or one with a function of its release that gives other answers.
After = Callable[[Any], Any]


def compare(
    plans: Iterable[Any] | Mapping[str, Any],
    example_data: object = None,
    *,
    workload: Workload | None = None,
    runs: int = 100,
    seed: int = 0,
    person: str | None = None,
    simulate: bool = False,
) -> Comparison:
    """The errors of several plans side by side: exact where they can be, simulated where not.

    Plans that do not look at the data have exact errors, the same on any data. A data-aware plan
    (planner="dawa") has an error that depends on the data, and is simulated on an example.

    Privacy
    -------
    The example data are read without any protection, and what is shown of them is exact: use
    public data, an earlier year that was published, or made-up data. Never choose a plan by what
    it does on the confidential data: the choice would tell of them, and nothing would account for
    it.

    Parameters
    ----------
    plans
        Several plans, or a mapping of names to plans. Instead of a plan also a pair (plan,
        function): the function takes the plan's release and gives back what answers the queries
        instead of it, for example tables made non-negative. Pairs are always simulated.
    example_data
        Public data, whatever `Plan.release` takes. Needed only where something is simulated.
    workload
        What is asked of all plans; the first plan's own unless given. Every plan must be able to
        answer it.
    runs
        How many releases are simulated, at least 2.
    seed
        The same figures every time.
    person
        The column of the example data that says whose record it is, for plans with `max_rows`.
        Then all plans are simulated, and judged against all records: those left out of the counts
        are errors too.
    simulate
        Simulate all plans, also those whose errors are known.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 16})
    >>> asked = nz.Workload([nz.Query(schema, {"age": nz.Prefix()})])
    >>> plans = [nz.plan(asked, budget=nz.zCDP(0.5), planner=p) for p in ("optimal", "identity")]
    >>> comparison = nz.compare(plans)
    >>> comparison.best, round(comparison.figures["identity"].rmse, 3)
    ('optimal', 2.915)
    """
    entries = _entries(plans)
    asked = _asked(entries, workload)
    _check_numbers(runs, seed)
    everything = simulate or person is not None
    needed = [
        name for name, (plan, after) in entries.items() if everything or _unknown(plan, after)
    ]
    if needed and example_data is None:
        raise PlanError(
            f"the error of {needed[0]!r} is simulated, on public data: "
            + remedy("give example", "compare(plans, example_data)")
        )
    example = None if example_data is None else Example.of(example_data, asked, person)
    contenders = []
    for number, (name, (plan, after)) in enumerate(entries.items()):
        run = None
        if example is not None and name in needed:
            _require_person(name, plan, example)
            found = simulated_errors(plan, after, example, runs, seed, number)
            errors, run = found.errors, found.seconds
        else:
            errors = exact_errors(plan, asked)
        planned, unit = float(getattr(plan, "seconds", 0.0)), getattr(plan, "unit", PERSON)
        contenders.append(
            Contender(name, plan.privacy, getattr(plan, "max_rows", 1), errors, planned, run, unit)
        )
    return Comparison(
        tuple(contenders),
        asked,
        runs,
        None if example is None else example.records,
        None if example is None else example.size,
    )


def _unknown(plan: Any, after: After | None) -> bool:
    """Whether errors are not known without data."""
    return after is not None or not isinstance(plan, Plan) or plan.data_aware


def _entries(plans: object) -> dict[str, tuple[Any, After | None]]:
    """Names, plans and what is done to their releases."""
    if isinstance(plans, Mapping):
        named = [(_checked_name(name), _pair(given)) for name, given in plans.items()]
    elif isinstance(plans, Iterable) and not isinstance(plans, str | bytes):
        pairs = [_pair(given) for given in plans]
        names = _numbered([str(getattr(plan, "planner", "plan")) for plan, _ in pairs])
        named = list(zip(names, pairs, strict=True))
    else:
        named = []
    if not named:
        raise PlanError(
            f"compare() takes plans, compare([plan_a, plan_b], example), or a mapping of names to "
            f"plans; found {plans!r}"
        )
    return dict(named)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise PlanError(f"a plan is named by a text that is not empty, found {name!r}")
    return name


def _pair(given: object) -> tuple[Any, After | None]:
    plan, after = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if after is not None and not callable(after):
        raise PlanError(
            f"beside a plan stands a function of its release, (plan, function); found {after!r}"
        )
    for needed in ("workload", "privacy", "release"):
        if not hasattr(plan, needed):
            raise PlanError(
                f"compare() takes plans that release data, as nz.plan(…) makes them; found "
                f"{plan!r}, which has no .{needed}"
            )
    return plan, after


def _numbered(names: list[str]) -> list[str]:
    """Plans of the same planner are told apart by their place: residual, residual 2."""
    taken: dict[str, int] = {}
    found = []
    for name in names:
        taken[name] = taken.get(name, 0) + 1
        found.append(name if taken[name] == 1 else f"{name} {taken[name]}")
    return found


def _asked(entries: dict[str, tuple[Any, After | None]], workload: object) -> Workload:
    if workload is not None and not isinstance(workload, Workload):
        raise PlanError(
            f"workload= is a Workload, found {type(workload).__name__}; write "
            f"compare(plans, data, workload=Workload([query, …]))"
        )
    plans = [plan for plan, _ in entries.values()]
    asked = workload or plans[0].workload
    for name, (plan, _) in entries.items():
        if plan.workload.schema != asked.schema:
            raise PlanError(
                f"plan {name!r} is about another schema than the first: compare plans for the same "
                f"data"
            )
    return asked


def _check_numbers(runs: object, seed: object) -> None:
    if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 2:
        raise PlanError(f"runs is how many releases are simulated, at least 2; found {runs!r}")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise PlanError(f"a seed is a whole number, not negative; found {seed!r}")


def _require_person(name: str, plan: Any, example: Example) -> None:
    rows = getattr(plan, "max_rows", 1)
    if rows > 1 and example.person is None and not isinstance(example.data, Projectable):
        raise PlanError(
            f"plan {name!r} is for each {plan.unit} with up to {rows} records: say whose record "
            f"each is, " + remedy("name person", "compare(…, person='id')")
        )
