"""Decision rules: by hand on counts that are known, by their definitions, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing import ConfidenceRegion, Posterior, Recommendation, SignalToNoise
from noiseplan.choosing.workload_answers import estimates, require_all, variances
from noiseplan.counting import CountTensor
from noiseplan.planning.plan import Plan
from oracles import probe

SCHEMA = nz.Schema.from_sizes({"age": 4, "sex": 2, "region": 3})


def plan(k: int, rho: float = 0.5, **options: object) -> Plan:
    workload = nz.Workload.marginals(SCHEMA, k=k, factors=options.pop("factors", None))  # type: ignore[arg-type]
    return nz.plan(workload, budget=nz.zCDP(rho), **options)  # type: ignore[arg-type]


def counts(each: float) -> CountTensor:
    return CountTensor(SCHEMA, np.full(SCHEMA.shape, int(each)))


CHOICE = nz.adaptive([plan(1), plan(2)])


# ---------------------------------------------------------------------- rows in bulk


@pytest.mark.parametrize("planner", ["residual", "optimal"])
def test_rows_in_bulk_are_those_one_by_one(planner: str) -> None:
    workload = nz.Workload.marginals(SCHEMA, up_to=2, factors={"age": nz.Ranges()})
    workload += nz.Query(SCHEMA, ["age", "sex"], matrix=np.arange(16.0).reshape(2, 8))
    made = nz.plan(workload, budget=nz.zCDP(0.5), planner=planner)
    release = made.release(counts(20), seed=1)
    assert np.allclose(
        variances(made.mechanism, workload), np.concatenate([made.variance(q) for q in workload])
    )
    one_by_one = np.concatenate([release.answer(q).estimate for q in workload])
    assert np.allclose(estimates(release, workload), one_by_one)


def test_a_query_that_one_of_many_cannot_answer_is_noticed() -> None:
    schema = nz.Schema.from_sizes({"x": 3, "y": 3, "z": 3})
    pairs = nz.Workload([nz.Query(schema, list(n)) for n in ("xy", "xz", "yz")])
    some = nz.plan(pairs.subset([0, 1]) + nz.Query(schema, ["z"]), budget=nz.zCDP(0.5))
    require_all(some.mechanism, pairs.subset([0, 1]))
    with pytest.raises(nz.NoiseplanError, match="'y × z'"):
        require_all(some.mechanism, pairs)


# ---------------------------------------------------------------------- signal to noise


def test_large_counts_need_no_coarse_plan() -> None:
    look = CHOICE.look(counts(1000), seed=1)
    advice = look.recommend(SignalToNoise(share=0.9, ratio=20))
    assert (advice.action, advice.number) == ("choose", 1)
    assert advice.figures["share surely precise enough with the second"] == 1.0
    assert "choose plan 1" in str(advice)
    assert look.choose(advice).plan is CHOICE.plans[1]


def test_middling_counts_take_the_coarse_plan_and_small_ones_stop() -> None:
    first = np.sqrt(variances(CHOICE.plans[0].mechanism, CHOICE.plans[0].workload))
    second = np.sqrt(variances(CHOICE.plans[1].mechanism, CHOICE.plans[0].workload))
    look = CHOICE.look(counts(20), seed=1)
    found = estimates(look.release, CHOICE.plans[0].workload)
    # A ratio that the estimates reach with the first plan and miss with the second.
    ratio = float(np.median(found / first))
    assert np.mean(found >= ratio * second) < 0.5
    advice = look.recommend(SignalToNoise(0.5, ratio, sigmas=0.0))
    assert (advice.action, advice.number) == ("choose", 0)
    stop = look.recommend(SignalToNoise(0.5, 1e6))
    assert (stop.action, stop.number) == ("stop", None)
    assert str(stop).startswith("stop here")
    with pytest.raises(nz.NoiseplanError, match="stop here"):
        look.choose(stop)


def test_bounds_are_three_standard_errors_of_the_look() -> None:
    look = CHOICE.look(counts(20), seed=3)
    cells = CHOICE.plans[0].workload
    truth = np.concatenate([look.answer(q).estimate for q in cells])
    own = np.concatenate([np.sqrt(look.variance(q)) for q in cells])
    errors = [np.concatenate([p.std_error(q) for q in cells]) for p in CHOICE.plans]
    for ratio in np.linspace(5, 60, 12):
        figures = look.recommend(SignalToNoise(0.5, ratio)).figures
        lower, upper = (truth - 3 * own) / errors[1], (truth + 3 * own) / errors[1]
        first = (truth + 3 * own) / errors[0]
        expected = [len(truth), *(np.mean(v >= ratio) for v in (lower, upper, first))]
        assert list(figures.values()) == pytest.approx(expected)


def test_doubt_is_told() -> None:
    look = CHOICE.look(counts(20), seed=3)
    cells = CHOICE.plans[0].workload
    error = np.sqrt(variances(CHOICE.plans[1].mechanism, cells))
    ratio = float(np.median(estimates(look.release, cells) / error))
    advice = look.recommend(SignalToNoise(0.5, ratio))
    assert advice.number == 0
    assert "it might" in advice.reasons


def test_a_rule_may_judge_by_other_cells() -> None:
    look = CHOICE.look(counts(20), seed=3)
    regions = nz.Workload([nz.Query(SCHEMA, ["region"])])
    figures = look.recommend(SignalToNoise(0.5, 5, cells=regions)).figures
    assert figures["cells judged"] == 3


def test_sequences_pass_plans_over() -> None:
    choice = nz.adaptive([plan(1), plan(2), plan(3)])
    rule = SignalToNoise(0.5, 5)
    look = choice.look(counts(1000), seed=1)
    advice = look.recommend(rule)
    assert (advice.action, advice.number) == ("pass over", 0)
    assert "look.without(0)" in str(advice)
    closer = look.without(0)
    assert closer.recommend(rule).number == 1
    # The same in one go.
    release = choice.look(counts(1000), seed=1).follow(rule)
    assert release.plan is choice.plans[2]
    small = choice.look(counts(0), seed=1)
    assert small.follow(SignalToNoise(0.5, 50)) is small.release


def test_plans_that_are_not_nested_are_refused() -> None:
    tables = [[["age", "sex"]], [["age", "region"]]]
    plans = [
        nz.plan(nz.Workload([nz.Query(SCHEMA, n) for n in names]), budget=nz.zCDP(0.5))
        for names in tables
    ]
    look = nz.adaptive(plans).look(counts(20), seed=1)
    with pytest.raises(nz.NoiseplanError, match="not nested"):
        look.recommend(SignalToNoise(0.5, 5))


@pytest.mark.parametrize("bad", [(0, 5, 3), (1.1, 5, 3), (0.5, -1, 3), (0.5, 5, -1)])
def test_bad_parameters(bad: tuple[float, float, float]) -> None:
    with pytest.raises(nz.NoiseplanError, match="SignalToNoise takes"):
        SignalToNoise(*bad)


# ---------------------------------------------------------------------- functions of one's own


def test_functions_as_rules() -> None:
    look = CHOICE.look(counts(20), seed=1)

    def by_total(look):  # type: ignore[no-untyped-def]
        total = look.answer(nz.Query(SCHEMA, {})).estimate[0]
        return CHOICE.plans[1] if total > 100 else CHOICE.plans[0]

    assert look.recommend(by_total) == Recommendation("choose", 1, "by_total says so")
    assert look.recommend(lambda look: 0).number == 0
    assert look.recommend(lambda look: None).action == "stop"
    own = Recommendation("choose", 0, "because")
    assert look.recommend(lambda look: own) is own
    with pytest.raises(nz.NoiseplanError, match="none of the 2 plans"):
        look.recommend(lambda look: 7)
    with pytest.raises(nz.NoiseplanError, match="a rule is"):
        look.recommend("best")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- what is uncertain


def test_posterior_variances_by_the_formula() -> None:
    look = CHOICE.look(counts(20), seed=1)
    prior = np.linspace(1.0, 9.0, SCHEMA.size)
    advice = look.recommend(Posterior(prior))
    # Oracle: a Gaussian vector conditioned on measurements, one after the other.
    conditioned = np.diag(prior)
    for b, sigma2 in zip(*probe(look.plan), strict=True):
        gain = conditioned @ b / (b @ conditioned @ b + sigma2)
        conditioned = conditioned - np.outer(gain, b @ conditioned)
    gains = []
    for number, made in enumerate(CHOICE.plans):
        w = np.vstack([q.dense() for q in made.workload])
        now = np.diagonal(w @ conditioned @ w.T)
        assert advice.figures[f"plan {number}: variance of a row now"] == pytest.approx(now.mean())
        then = np.concatenate([made.variance(q) for q in made.workload])
        for name, value in {"with it": np.minimum(now, then), "by its own noise": then}.items():
            found = advice.figures[f"plan {number}: variance of a row {name}"]
            assert found == pytest.approx(value.mean())
        gains.append(np.maximum(now - then, 0).mean())
    assert advice.number == int(np.argmax(gains))


def test_a_vague_prior_learns_most_from_the_finer_plan_and_a_sharp_one_nothing() -> None:
    look = CHOICE.look(counts(20), seed=1)
    assert look.recommend(Posterior(1e4)).number == 1
    assert look.recommend(Posterior(1e-3)).action == "stop"
    assert look.recommend(Posterior()).action in ("choose", "stop")


def test_samples_of_ones_own_posterior() -> None:
    look = CHOICE.look(counts(20), seed=1)
    rng = np.random.default_rng(0)
    wide = look.recommend(Posterior(samples=lambda look: rng.normal(0, 50, (400, SCHEMA.size))))
    assert wide.action == "choose"
    with pytest.raises(nz.NoiseplanError, match="draws × 24 cells"):
        look.recommend(Posterior(samples=lambda look: np.zeros((5, 3))))
    with pytest.raises(nz.NoiseplanError, match="positive and finite"):
        look.recommend(Posterior(0.0))


SMALL = nz.Schema.from_sizes({"a": 2})


def small_look(counts: list[int], seed: int = 1):  # type: ignore[no-untyped-def]
    """Two plans over two cells whose common part is the total, known precisely."""
    total, cells = (
        nz.plan(nz.Workload([nz.Query(SMALL, asked)]), budget=nz.zCDP(5.0), noise="gaussian")
        for asked in ([], ["a"])
    )
    return nz.adaptive([total, cells]).look(CountTensor(SMALL, np.array(counts)), seed=seed)


def test_a_region_without_a_total_has_no_end() -> None:
    plans = [
        nz.plan(
            nz.Workload([nz.Query(SMALL, {"a": nz.Custom([[1.0, -1.0]])})]), budget=nz.zCDP(r),
            planner="residual",
        )
        for r in (0.1, 0.5)
    ]  # fmt: skip
    look = nz.adaptive(plans).look(CountTensor(SMALL, np.array([3, 4])), seed=1)
    with pytest.raises(nz.NoiseplanError, match="has no end"):
        look.recommend(ConfidenceRegion())
    with pytest.raises(nz.NoiseplanError, match="between 0 and 1"):
        small_look([3, 4]).recommend(ConfidenceRegion(level=1.0))


@pytest.mark.few(1)
@pytest.mark.parametrize("rule", [ConfidenceRegion(), Posterior()])
@pytest.mark.parametrize("people", [0, 3, 400])
def test_reasons_agree_with_their_figures(rule: ConfidenceRegion | Posterior, people: int) -> None:
    """With hardly any data the region is smaller than the noise: more noise takes nothing back."""
    advice = CHOICE.look(counts(people), seed=3).recommend(rule)
    gains = [
        advice.figures[f"plan {n}: variance of a row now"]
        - advice.figures[f"plan {n}: variance of a row with it"]
        for n in range(len(CHOICE.plans))
    ]
    assert min(gains) >= 0
    if advice.number is None:
        assert max(gains) == 0
    else:
        assert advice.number == int(np.argmax(gains))
        assert f"it takes {max(gains):.4g} off" in advice.reasons
