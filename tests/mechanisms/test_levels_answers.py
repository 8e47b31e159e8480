"""Levels with rows of their own: answers and errors are those written out over all cells."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from levels_oracles import (
    ASKED,
    TOO_FINE,
    flat,
    groups,
    levels_of,
    made,
    noise_of,
    oracle,
    told,
    tree_of,
    written_out,
)

import noiseplan as nz
from noiseplan.errors import QueryError, UnanswerableError
from noiseplan.mechanisms import tree_block
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.measured_levels import LevelsMechanism
from noiseplan.noise import Noise


@pytest.mark.parametrize("name", ASKED)
def test_answers_and_errors_are_those_of_the_estimates_written_out(name: str) -> None:
    mechanism, query = made(), ASKED[name]
    assert told(mechanism, query) == (name not in TOO_FINE)
    if name in TOO_FINE:
        for ask in (mechanism.require, mechanism.variance):
            with pytest.raises(UnanswerableError, match="add the query to the workload"):
                ask(query)
        return
    rows = oracle(mechanism, query)
    values = [np.random.default_rng(9).standard_normal(shape) for shape in mechanism.shapes]
    numbers = np.concatenate([value.ravel() for value in values])
    found = mechanism.answering(Measurements(tuple(values)))(query)
    np.testing.assert_allclose(found, rows @ numbers, atol=1e-9)
    # Without bias: what is measured of counts gives back the counts.
    np.testing.assert_allclose(rows @ flat(written_out(mechanism)), query.dense(), atol=1e-8)
    variances = np.einsum("qm,qm,m->q", rows, rows, noise_of(mechanism))
    np.testing.assert_allclose(mechanism.variance(query), variances, rtol=1e-9)


def test_covariances_of_any_two_queries() -> None:
    mechanism, noise = made(), noise_of(made())
    rows = {n: oracle(mechanism, query) for n, query in ASKED.items() if n not in TOO_FINE}
    for one, two in combinations_with_replacement(rows, 2):
        expected = (rows[one] * noise) @ rows[two].T
        for a, b, truth in ((one, two, expected), (two, one, expected.T)):
            found = mechanism.covariance(ASKED[a], ASKED[b])
            np.testing.assert_allclose(found, truth, atol=1e-9 * np.abs(truth).max())


def test_sums_and_largest_of_single_variances_are_those_of_all_rows() -> None:
    mechanism = made()
    answered = [query for name, query in ASKED.items() if name not in TOO_FINE]
    workload = nz.Workload(answered)
    sums, largest = mechanism.figures_alike(workload, np.arange(len(workload)))
    each = [mechanism.variance(query) for query in workload]
    np.testing.assert_allclose(sums, [v.sum() for v in each], rtol=1e-12)
    np.testing.assert_allclose(largest, [v.max() for v in each], rtol=1e-12)


def test_least_squares_where_noise_goes_with_the_parts() -> None:
    """No other unbiased estimate of any query has less variance then."""
    mechanism = made(least_squares=True)
    measured, noise = flat(written_out(mechanism)), noise_of(mechanism)
    spread = np.linalg.pinv((measured / noise[:, None]).T @ measured, rcond=1e-12)
    for name, query in ASKED.items():
        if name not in TOO_FINE:
            rows = query.dense()
            best = np.diagonal(rows @ spread @ rows.T)
            np.testing.assert_allclose(mechanism.variance(query), best, rtol=1e-7)


def test_faint_discrete_noise_has_the_variance_that_is_drawn() -> None:
    mechanism = made(whole=True)
    faint = tuple(
        replace(own, noise=Noise("gaussian", own.noise.size / 40, exact=True))
        for own in mechanism.levels
    )
    mechanism = replace(mechanism, levels=faint)
    assert noise_of(mechanism).min() < 0.5 * min(own.noise.size.min() for own in faint)
    names = ("values by one", "prefixes", "joint", "all at the middle")
    rows = {name: oracle(mechanism, ASKED[name]) for name in names}
    for one, two in product(names, names):
        both = (rows[one] * noise_of(mechanism)) @ rows[two].T
        found = mechanism.covariance(ASKED[one], ASKED[two])
        np.testing.assert_allclose(found, both, atol=1e-9 * np.abs(both).max())
        if one == two:
            variances = mechanism.variance(ASKED[one])
            np.testing.assert_allclose(variances, np.diagonal(both), rtol=1e-9)
            sums = mechanism.figures_alike(nz.Workload([ASKED[one]]), np.array([0]))
            expected = [np.trace(both)], [np.diagonal(both).max()]
            np.testing.assert_allclose(sums, expected, rtol=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_very_many_prefix_sums(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are not written down: estimates, variances and covariances are the same."""
    stated = 60 - missing
    t = nz.Ordinal(range(stated), missing="none") if missing else nz.Ordinal(range(stated))
    schema = nz.Schema({"g": nz.Categorical(["x", "y"]), "t": t})
    tree = tree_of(np.arange(60), np.arange(60) // 7, np.arange(60) // 21)
    told = [np.tri(2), np.eye(2), np.eye(2) + 1, np.eye(2)]
    mechanism = LevelsMechanism(schema, 1, (0,), tree, levels_of(tree, told), False)
    sums = nz.Query(schema, {"t": nz.Prefix(), "g": nz.Identity()})
    others = [
        nz.Query(schema, ["g"]),
        nz.Query(schema, {"t": nz.Custom(np.eye(60)[[0, 33, 59]])}),
        nz.Query(schema, {"t": groups(np.arange(stated) // 21)}),
        nz.Query(schema, {"t": nz.Custom(np.arange(60)[None] % 7.0), "g": nz.Custom([[1, 2]])}),
    ]
    values = [np.random.default_rng(2).standard_normal(shape) for shape in mechanism.shapes]
    measured = Measurements(tuple(values))

    def figures() -> list[np.ndarray]:
        shared = [mechanism.covariance(sums, other) for other in others]
        shared += [mechanism.covariance(other, sums) for other in others]
        figures = mechanism.figures_alike(nz.Workload([sums]), np.array([0]))
        return [mechanism.answering(measured)(sums), mechanism.variance(sums), *shared, *figures]

    written = figures()
    monkeypatch.setattr(tree_block, "MOST_WEIGHTS", 60 * 6)
    (piece,) = tree_block.node_rows(sums.matrices()[1], tree)
    assert piece is not None and piece.up_to is not None
    for found, expected in zip(figures(), written, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    with pytest.raises(QueryError, match="too many numbers to be written down"):
        mechanism.covariance(sums, sums)
