"""`plan`: from a workload and a budget or targets to a plan. Reads no data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, final

from noiseplan.errors import PlanError, remedy, setting
from noiseplan.mechanisms.measured_series import SeriesMechanism
from noiseplan.noise.law import Law
from noiseplan.planning import limits, noise_choice
from noiseplan.planning.candidate import ASKED, Candidate, Planner
from noiseplan.planning.finish import finish
from noiseplan.planning.least_cost import least_cost, least_epsilon
from noiseplan.planning.limits import EXPLICIT_CELLS, LAPLACE_CELLS
from noiseplan.planning.objectives import (
    RMSE,
    ConvexLoss,
    Objective,
    PNormVariance,
    RelativeError,
    TotalVariance,
    as_objective,
)
from noiseplan.planning.plan import Plan
from noiseplan.planning.planners import (
    automatic,
    beside_levels,
    laplace_matrix,
    long_plans,
    long_refusals,
    named,
    noise_on_rows,
    optimal,
    replaced_optimum,
    residual_family,
    series_plans,
    table_plans,
    tree_plans,
)
from noiseplan.planning.problem import Problem, allowed_cost
from noiseplan.planning.reductions import (
    Persons,
    ReplacedRecords,
    Targets,
    Unweighted,
)
from noiseplan.planning.smaller_domain import few_groups, smaller
from noiseplan.planning.solve import searches_rows
from noiseplan.privacy import Budget, Neighbours, PureDP
from noiseplan.privacy.rounding import text_of
from noiseplan.queries import Query, Workload
from noiseplan.queries.workload import as_workload
from noiseplan.strategies.catalogue import (
    PURE_STRATEGIES,
    STRATEGIES,
    eigen_weights,
    unknown_planner,
)
from noiseplan.strategies.given_rows import Strategy

if TYPE_CHECKING:
    from noiseplan.mechanisms.partition.partition_settings import Dawa

# Variances go as 1/ε², and their squares must be numbers too.
LEAST_EPSILON, MOST_EPSILON = 1e-60, 1e60


@dataclass(frozen=True)
class Family(ABC):
    """What plans with noise of a law, and what is said of it before and where nobody does."""

    scaled: named.Scaled  # strategies by name
    every: tuple[Planner, ...]
    strategies: Iterable[str]
    replaced: tuple[Planner, ...] = ()  # which come first where a record is replaced

    @property
    def names(self) -> tuple[str, ...]:
        """All that can be asked for by name."""
        return (*(name for planner in self.every for name in planner.names), *self.strategies)

    def planned(self, problem: Problem) -> Candidate:
        """What is proposed, with a budget or without."""
        reach = problem.goal.at_most
        return self.solve(problem) if reach is None else least_cost(problem, reach, self.solve)

    def solve(self, problem: Problem) -> Candidate:
        """What the planner that is asked for proposes."""
        if problem.max_rows > 1:
            persons = Persons(int(problem.max_rows))
            return persons.back(self.solve(persons.forward(problem)))
        best = self.together(problem)
        # Plain tables are as good as can be; nor is there anything else for who asks by name.
        asked = problem.planner == "auto" and not problem.strategies
        plain = not (problem.design.free or problem.design.joints)
        return self.or_apart(problem, best) if asked and not plain else best

    def or_apart(self, problem: Problem, best: Candidate) -> Candidate:
        """What is planned for all queries as one, or for parts of them where that is better."""
        return best

    def together(self, problem: Problem, planner: Planner | None = None) -> Candidate:
        """What the planner that is asked for, or another, proposes for all queries as one."""
        long = max(problem.workload.schema.shape, default=0) > limits.LONG_VALUES
        along = (tree_plans.solve(problem) or series_plans.solve(problem)) if long else None
        if along is not None:
            return along
        planner = planner or self._asked_for(problem)
        if (refusal := planner.refuses(problem)) is not None:
            raise PlanError(refusal)
        if long:
            beside = beside_levels.solve(problem, lambda some: self.together(some, planner))
            if beside is not None:
                return beside
            long_refusals.require_short(problem)
            groups = few_groups(problem) if problem.planner in long_plans.NAMES else None
            if groups is not None:
                return groups.back(self.together(groups.forward(problem), planner))
        if planner.most_cells is not None and problem.size > planner.most_cells:
            candidate = over_classes(problem, planner)
        else:
            candidate = planner.solve(problem)
        remarks = () if problem.strategy is None else named.remarks(problem, candidate)
        asked = ((problem.name, ASKED), *remarks)
        return replace(candidate, considered=candidate.considered or asked)

    def _asked_for(self, problem: Problem) -> Planner:
        if problem.planner == "workload" and not self.one_matrix_of_rows(problem):
            return noise_on_rows.PLANNER
        if problem.strategies:
            return residual_family.PLANNER
        if problem.strategy is not None:
            if problem.factors is not None:
                return self.scaled.product
            return self.by_strategy(problem)
        first = self.replaced if problem.neighbours == "replace" else ()
        for planner in (*first, *self.every):
            if problem.planner in planner.names:
                return planner
        raise self.unknown(problem)

    @abstractmethod
    def one_matrix_of_rows(self, problem: Problem) -> bool:
        """Whether the workload's rows are measured as one matrix, with noise of one size."""

    def by_strategy(self, problem: Problem) -> Planner:
        """What plans with a strategy by name."""
        return self.scaled.planner

    @abstractmethod
    def unknown(self, problem: Problem) -> PlanError:
        """What is said of a planner that nobody knows."""


@final
class GaussianFamily(Family):
    """Residuals, and the best matrix."""

    def by_strategy(self, problem: Problem) -> Planner:
        weigh = eigen_weights(problem.strategy)
        return self.scaled.planner if weigh is None else named.eigen_planner(problem.name, weigh)

    def or_apart(self, problem: Problem, best: Candidate) -> Candidate:
        best = automatic.or_apart(problem, automatic.or_optimum(problem, best), self._part)
        # Plans along a long attribute know nothing of faint noise; nor do shares of parts, which
        # go by variances at the whole budget, so that it comes last.
        return automatic.or_faint(problem, best)

    def _part(self, problem: Problem) -> Candidate:
        return self.together(problem, automatic.PART)

    def one_matrix_of_rows(self, problem: Problem) -> bool:
        plain = problem.budget is not None and isinstance(problem.goal, TotalVariance)
        return plain and problem.size <= EXPLICIT_CELLS

    def unknown(self, problem: Problem) -> PlanError:
        if isinstance(problem.budget, PureDP):
            allowed_cost(problem.budget, problem.noise)  # which says that no such noise meets it
        return PlanError(unknown_planner(problem.planner, self.names))


@final
class LaplaceFamily(Family):
    """Tables, and one matrix, of pure DP."""

    def planned(self, problem: Problem) -> Candidate:
        if problem.budget is not None:
            return super().planned(problem)
        if problem.goal.at_most is not None:
            raise PlanError(
                remedy("argument", "at_most=", "[plan] at_most")
                + " is planned for with Gaussian noise: leave out "
                + remedy("argument", "noise=, or give targets=", "[plan] noise, or give [targets]")
            )
        with laplace_matrix.searched_once():
            return least_epsilon(problem, self.solve)

    def together(self, problem: Problem, planner: Planner | None = None) -> Candidate:
        _check_pure(problem)
        if problem.neighbours != "replace" or problem.planner not in table_plans.PLANNER.names:
            return super().together(problem, planner)
        replaced = ReplacedRecords(problem)
        return replaced.back(self.solve(replaced.forward(problem)))

    def one_matrix_of_rows(self, problem: Problem) -> bool:
        return problem.size <= LAPLACE_CELLS and isinstance(problem.goal, TotalVariance)

    def unknown(self, problem: Problem) -> PlanError:
        return PlanError(
            f"planner {problem.planner!r} does not plan pure DP; choose from "
            f"{', '.join(self.names)}"
        )


# What plans with noise of each law.
FAMILIES: Final[dict[Law, Family]] = {
    "gaussian": GaussianFamily(
        named.GAUSSIAN,
        (automatic.PLANNER, residual_family.PLANNER, optimal.PLANNER),
        STRATEGIES,
        (replaced_optimum.PLANNER,),
    ),
    "laplace": LaplaceFamily(
        named.LAPLACE,
        (automatic.PLANNER, table_plans.PLANNER, laplace_matrix.PLANNER),
        PURE_STRATEGIES,
    ),
}
PLANNERS: Final = FAMILIES["gaussian"].names
PURE_PLANNERS: Final = FAMILIES["laplace"].names


@limits.double_precision()
def plan(
    workload: Workload | Query | Iterable[Query],
    *,
    budget: Budget | None = None,
    targets: Mapping[str, float] | float | None = None,
    objective: Objective | str | None = None,
    planner: str | Strategy | Dawa = "auto",
    neighbours: Neighbours = "add-remove",
    noise: str | None = None,
    max_rows: int = 1,
    strategies: Mapping[str, object] | None = None,
) -> Plan:
    """Design the noise for a workload, before any data is read.

    Parameters
    ----------
    workload
        What is to be answered: a workload, one query, or a list of queries.
    budget
        `zCDP(rho)`, `ApproxDP(epsilon, delta)`, `GDP(mu)` or `PureDP(epsilon)`: the best error
        within it.
    targets
        Variances that must be met, by query name or one for all queries: the least privacy cost
        that meets them, or with noise="discrete Laplace" the least ε of pure DP. With a budget
        too, all of it is spent for the smallest common scaling of the targets: above 1 they are
        relaxed, below 1 they are met with less variance.
    objective
        `TotalVariance()` (default), `RMSE()`, `WorstVariance()`, `PNormVariance(p)`,
        `ConvexLoss(function)` or, over small domains or of low rank, `RelativeError(expected)`;
        the first three also by a word, "total", "rmse", "worst".
        Any of them without a budget, as in `RMSE(at_most=2.0)`: the least privacy cost that
        reaches so much.
    planner
        "auto" takes the best. By name: "residual" (every split free), "residual+" (τ = 1/n),
        "product" (one strategy per attribute); the exact optimum over a small domain or, where
        queries span few dimensions, over up to ten million cells, "optimal"; for targets also
        "refined" (least cost to every cell) and "sm2" (for comparison);
        known strategies over it, such as "hierarchical-4", "wavelet", "eigen", "fourier"
        (`noiseplan.strategies.catalogue` lists them all); or a `Strategy`, rows of your own.
        "dawa", or a `Dawa` with its choices: buckets of an ordered attribute, chosen from the
        data. For `PureDP`: "identity", "p-identity", "tree", "wavelet", "matrix", "workload", and
        known strategies.
    neighbours
        "add-remove" one record, or "replace" one record by another (the total is then public, and
        exact but for one matrix of rows).
    noise
        "discrete" (default): exact discrete noise on integer measurements, Gaussian, or Laplace for
        `PureDP`; for `ApproxDP` whichever serves the objective better. "discrete Gaussian" and
        "discrete Laplace" force one, the latter also for targets at the least ε. "gaussian", and
        "laplace" for `PureDP` and `ApproxDP`: floating-point noise, for simulation; releases made
        with it say so.
    max_rows
        Records that one person may have. The budget is then a person's: neighbours differ by all
        of them. Release with `plan.release(data, person="id")`, which keeps at most so many.
    strategies
        What to measure of some attributes, each a matrix of rows over its values, a factor such as
        `Prefix()`, or a name: "identity", "prefix", "ranges", "hierarchical-4", "wavelet". The
        noise of every set of attributes is then chosen for these; other attributes are free.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 10, "sex": 2})
    >>> p = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> round(p.rmse, 4), p.privacy.rho <= 0.5
    (1.2493, True)
    """
    noise = "discrete" if noise is None else noise
    workload = workload if isinstance(workload, Workload) else as_workload(workload)
    objective = as_objective(objective) if isinstance(objective, str) else objective
    problem = Problem(
        workload, budget, targets, objective, planner, neighbours, noise, max_rows, strategies
    )
    problem.check()
    if problem.name == "dawa" and not isinstance(planner, Strategy):
        # Few plans draw partitions; the others start without loading what does.
        from noiseplan.planning.planners import dawa

        return finish(problem, dawa.solve(problem, plan))
    if problem.targets is not None:
        problem = Targets().forward(problem)
    if isinstance(problem.goal, RMSE):
        problem = Unweighted().forward(problem)
    within, candidate = noise_choice.planned(problem, _by_family)
    return replace(finish(within, candidate), budget=budget)


def _by_family(problem: Problem) -> Candidate:
    """Return what is planned with the noise of a problem."""
    return _shape_said(problem, FAMILIES[problem.drawn.law].planned(problem))


def _shape_said(problem: Problem, found: Candidate) -> Candidate:
    """Say where rows are those for the total variance, and the objective decides noise alone."""
    goal, (name, reason), *others = problem.goal, *found.considered
    if isinstance(goal, TotalVariance) or goal == PNormVariance(1, at_most=goal.at_most):
        return found
    # A loss of one query falls with its total.
    several = len(problem.workload) > 1 or not isinstance(goal, ConvexLoss)
    fixed = isinstance(found.mechanism, SeriesMechanism) and several
    if name in ("residual", "residual+") and problem.design.free and several:
        fixed = name == "residual+" or not searches_rows(problem.design, goal, problem.neighbours)
    said = f"{reason}, with the rows for the total variance"
    return replace(found, considered=((name, said), *others)) if fixed else found


def over_classes(problem: Problem, planner: Planner) -> Candidate:
    """The same over the classes of cells that queries tell apart."""
    most = planner.most_cells or problem.size
    found = smaller(problem, most)
    if isinstance(found, str) and planner.beyond and problem.planner in planner.beyond.names:
        _require(planner.beyond.refuses(problem))
        return planner.beyond.solve(problem)
    if isinstance(found, str):
        raise PlanError(
            setting("planner", problem.name)
            + f" plans domains of at most {most:,} cells, and {found}; use "
            + setting("planner", "auto")
        )
    small = found.forward(problem)
    _require(planner.refuses(small))
    candidate = planner.solve(small)
    candidate.figures.require_answers(candidate.mechanism)
    return found.back(candidate)


def _require(refusal: str | None) -> None:
    if refusal is not None:
        raise PlanError(refusal)


def _check_pure(problem: Problem) -> None:
    """Refuse what plans of pure DP cannot do, whatever the planner."""
    epsilon = text_of(problem.epsilon)
    if not LEAST_EPSILON <= problem.epsilon <= MOST_EPSILON:
        raise PlanError(
            f"plans of pure DP take ε from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, found "
            f"{epsilon}, for which variances are no numbers: try "
            + remedy("pure budget", "PureDP(1.0)", "1.0")
        )
    if isinstance(problem.goal, RelativeError):
        raise PlanError(
            f"plans of pure DP minimise variances, found the objective {problem.goal}: "
            f"write plan(workload, budget=PureDP({epsilon})), and give queries whose answers are "
            f"small a larger weight"
        )
