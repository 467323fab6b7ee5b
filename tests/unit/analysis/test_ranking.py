"""Rankings against dense matrices, closed forms and brute-force sampling."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.analysis import ranking as module
from sparse_prefgp.analysis.items import resolve_items
from sparse_prefgp.analysis.ranking import (
    factorised,
    likely_rows,
    outside_bound,
    rank,
    sample_places,
)
from sparse_prefgp.support.normals import Normals
from tests.cases import random_duels
from tests.together import refused
from tests.tolerances import IDENTITY, MONTE_CARLO_STANDARD_ERRORS, ROUNDING, SINGLE

DUELS = random_duels(6, items=8, duels=14)
NEW_IDS = pd.DataFrame({"item_id": [f"team {i}" for i in range(6)]})
NEW = np.random.default_rng(3).normal(size=(12, 2))


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.Matern52(variance=1.5, lengthscales=[0.7, 1.2]) + gpflow.kernels.Linear(
        variance=0.3
    )


def build(approximation: Any = None, k: Any = None, **settings: Any) -> spg.PreferenceGP:
    approximation = spg.VFE() if approximation is None else approximation
    return spg.PreferenceGP(
        DUELS,
        kernel() if k is None else k,
        approximation=approximation,
        inducing_variable=DUELS.items[:4] + 0.05 if approximation.needs_inducing else None,
        noise_variance=0.2,
        **settings,
    )


CASES: dict[str, Callable[[], spg.PreferenceGP]] = {
    "vfe": build,
    "exact-items": lambda: build(spg.Exact(over="items")),
    "exact-duels": lambda: build(spg.Exact(over="duels")),
    "mean-function": lambda: build(mean_function=gpflow.functions.Linear([[0.5], [-1.0]])),
    "white": lambda: build(spg.Exact(), kernel() + gpflow.kernels.White(0.4)),
    "product": lambda: build(
        k=gpflow.kernels.SquaredExponential(active_dims=[1])
        * gpflow.kernels.Linear(active_dims=[0])
        + gpflow.kernels.Matern32(active_dims=[0])
    ),
    "item-effect": lambda: build(spg.FITC(), kernel() + spg.ItemEffect(0.6)),
}


def centred_joint(
    model: spg.PreferenceGP, inputs: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f - weights' f from the dense joint posterior."""
    mean, covariance = model.predict_f(inputs, full_cov=True)
    n = len(inputs)
    centring = np.eye(n) - np.ones((n, 1)) * weights[None, :]
    return centring @ mean.numpy()[:, 0], centring @ covariance.numpy()[0] @ centring.T


def by_id(frame: Any) -> Any:
    return frame.sort_values("item_id").reset_index(drop=True)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.covering(every=4)
def test_utility_and_sd_are_those_of_the_dense_joint(name: str) -> None:
    model = CASES[name]()
    for items in (None, NEW):
        found = rank(model, items, samples=100, level=0.9)
        inputs = resolve_items(model, items).inputs
        n = len(inputs)
        mean, covariance = centred_joint(model, inputs, np.full(n, 1.0 / n))
        table = by_id(found.frame)
        sd = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(table["utility"], mean, atol=IDENTITY)
        np.testing.assert_allclose(table["sd"], sd, atol=IDENTITY)
        np.testing.assert_allclose(table["upper"], mean + norm.ppf(0.95) * sd, atol=IDENTITY)
        np.testing.assert_allclose(table["lower"], mean - norm.ppf(0.95) * sd, atol=IDENTITY)
        assert found.reference == f"all {n} items"
        assert found.negative_variances == 0


@pytest.mark.parametrize("trace_from", [2, 99])
def test_a_drawn_reference_and_chunks_change_only_the_reference(
    monkeypatch: pytest.MonkeyPatch, trace_from: int
) -> None:
    model = build()
    monkeypatch.setattr(module, "MAX_REFERENCE", 7)
    monkeypatch.setattr(module, "_CHUNK_NUMBERS", 7 * 5)
    monkeypatch.setattr(module, "_TRACE_FROM", trace_from)
    items = np.concatenate([NEW, NEW[:3]])
    found = rank(model, items, top_k=2, samples=100, rng=np.random.default_rng(4))
    assert found.reference == "7 items drawn with seed 4"
    assert found.reference_items == 7
    weights = np.zeros(15)
    weights[np.random.default_rng(4).choice(15, 7, replace=False)] = 1.0 / 7.0
    mean, covariance = centred_joint(model, items, weights)
    table, sd = by_id(found.frame), np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(table["utility"], mean[:12], atol=IDENTITY)
    np.testing.assert_allclose(table["sd"], sd[:12], atol=IDENTITY)
    assert table["copies"].tolist() == [2] * 3 + [1] * 9


def test_the_table_is_sorted_and_knows_the_items() -> None:
    model = build()
    far = np.array([[50.0, 0.0]])
    found = rank(model, np.concatenate([NEW, far]), samples=100)
    frame = found.frame
    assert list(frame.columns) == [
        "rank",
        "item_id",
        "utility",
        "sd",
        "lower",
        "upper",
        "p_best",
        "p_top_k",
        "rank_low",
        "rank_high",
        "likely_low",
        "likely_high",
        "group",
        "elo",
        "comparisons",
        "outside_range",
        "copies",
        "same_as",
    ]
    assert (frame["copies"] == 1).all() and (frame["same_as"] == "").all()
    assert frame["rank"].tolist() == list(range(1, 14))
    assert frame["utility"].is_monotonic_decreasing
    assert bool(by_id(frame)["outside_range"][12])
    assert found.outside_items == frame["outside_range"].sum()
    assert found.outside_features["column 0"] >= 1
    assert (frame["comparisons"] == 0).all()
    own = by_id(rank(model, samples=100).frame)
    np.testing.assert_array_equal(own["comparisons"], resolve_items(model).comparisons)
    assert own["comparisons"].sum() == 2 * DUELS.num_duels


def test_the_better_of_two() -> None:
    model, pair = build(), NEW[:2]
    found = rank(model, pair, top_k=1, samples=20_000)
    mean, variance = model.predict_difference(pair[:1], pair[1:])
    expected = norm.cdf(float(mean[0]) / np.sqrt(float(variance[0])))
    error = np.sqrt(expected * (1 - expected) / 20_000)
    table = by_id(found.frame)
    assert abs(table["p_best"][0] - expected) < MONTE_CARLO_STANDARD_ERRORS * error
    np.testing.assert_allclose(table["p_best"].sum(), 1.0, rtol=ROUNDING)
    np.testing.assert_array_equal(table["p_best"], table["p_top_k"])
    # Two utilities centred on their average are exact opposites, a singular covariance.
    assert 0.0 < found.jitter < 1e-12


def test_probabilities_against_brute_force() -> None:
    model, k, samples = build(), 4, 40_000
    mean, covariance = model.predict_f(NEW, full_cov=True)
    draws = np.random.default_rng(8).multivariate_normal(mean[:, 0], covariance[0], size=samples)
    best, top = np.zeros(len(NEW)), np.zeros(len(NEW))
    for row in np.argsort(-draws, axis=1):
        best[row[0]] += 1.0 / samples
        top[row[:k]] += 1.0 / samples
    found = rank(model, NEW, top_k=k, samples=samples, rng=np.random.default_rng(1))
    table = by_id(found.frame)
    for name, expected in (("p_best", best), ("p_top_k", top)):
        error = np.sqrt(2 * expected * (1 - expected) / samples) + 1.0 / samples
        assert np.all(np.abs(table[name] - expected) < MONTE_CARLO_STANDARD_ERRORS * error)
    np.testing.assert_allclose(table["p_top_k"].sum(), k, rtol=ROUNDING)
    assert found.bound_best == found.bound_top_k == 0.0
    assert found.candidates == len(NEW)
    assert found.standard_error == 0.5 / np.sqrt(samples)


def test_equal_items_share_a_row() -> None:
    """Its chances are those that any of them has, under the centring of all items."""
    model, samples = build(), 20_000
    items = np.concatenate([NEW[:3], NEW[[0, 0]]])
    found = rank(model, items, top_k=2, samples=samples)
    table = by_id(found.frame)
    assert table["item_id"].tolist() == [0, 1, 2]
    assert table["copies"].tolist() == [3, 1, 1] and table["same_as"].tolist() == ["3; 4", "", ""]
    mean, covariance = centred_joint(model, items, np.full(5, 0.2))
    np.testing.assert_allclose(table["utility"], mean[:3], atol=IDENTITY)
    np.testing.assert_allclose(table["sd"], np.sqrt(np.diag(covariance)[:3]), atol=IDENTITY)
    draws = np.random.default_rng(8).multivariate_normal(mean[:3], covariance[:3, :3], samples)
    best = np.bincount(draws.argmax(1), minlength=3) / samples
    top = 1.0 - np.bincount(draws.argmin(1), minlength=3) / samples
    for name, expected in (("p_best", best), ("p_top_k", top)):
        error = np.sqrt(2 * expected * (1 - expected) / samples) + 1.0 / samples
        assert np.all(np.abs(table[name] - expected) < MONTE_CARLO_STANDARD_ERRORS * error)
    np.testing.assert_allclose(table["p_best"].sum(), 1.0, rtol=ROUNDING)
    np.testing.assert_allclose(table["p_top_k"].sum(), 2.0, rtol=ROUNDING)
    assert found.items == 5 and found.figures()["rows"] == 3
    assert "5 items on 3 rows" in str(found) and "copies" in str(found)
    same = rank(model, NEW[[0, 0, 0, 0]], samples=100)
    assert same.top_k == 1 and same.frame["p_best"].tolist() == [1.0]
    with pytest.raises(ValueError, match="only 1 items that can be told apart; give at most 1"):
        rank(model, NEW[[0, 0, 0, 0]], top_k=2)


def test_places_by_hand() -> None:
    # Without spread: one item ahead of another, and of a third.
    chances = sample_places(
        np.array([[1.0, 3.0, 2.0]]),
        [np.zeros((3, 3))],
        np.ones(1),
        2,
        100,
        np.random.default_rng(0),
        done=lambda count: None,
        kept=np.array([3, 7]),
    )
    np.testing.assert_array_equal(chances.draws, [[1.0, 3.0, 2.0]] * 2)
    np.testing.assert_array_equal(chances.p_best, [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(chances.p_top_k, [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(chances.best, 3.0)
    np.testing.assert_array_equal(chances.kth, 2.0)


def test_what_ranks_go_by() -> None:
    """An item that nobody knows is an average one, and below all that are known to be better."""
    rng = np.random.default_rng(0)
    first, second = np.array([(i, j) for i in range(6) for j in range(i + 1, 6)] * 8).T
    won = first - second + 2.0 * rng.normal(size=len(first)) < 0.0
    duels = spg.Duels(
        np.empty((8, 0)),  # the seventh and the eighth never meet anybody
        np.where(won, first, second),
        np.where(won, second, first),
        item_ids=[f"team {i}" for i in range(8)],
    )
    model = spg.PreferenceGP(duels, spg.ItemEffect())
    found = rank(model, samples=100)
    assert found.order == "lower" and found.unequal
    assert found.frame["lower"].is_monotonic_decreasing
    assert found.frame["rank"].tolist() == [*range(1, 7), 7, 7], "nothing tells the last two apart"
    assert found.frame["item_id"][6:].tolist() == ["team 6", "team 7"]
    assert "lower end of the interval, so that no item with few duels" in str(found)
    by_mean = rank(model, order="mean", samples=100)
    assert by_mean.frame["utility"].is_monotonic_decreasing
    assert by_mean.frame["item_id"][7] not in ("team 6", "team 7")
    assert by_id(by_mean.frame).drop(columns="rank").equals(by_id(found.frame).drop(columns="rank"))

    known = rank(model, min_comparisons=1, samples=100)
    assert known.left_out == 2 and known.items == 6 and known.reference == "the 6 items kept"
    assert known.order == "mean" and not known.unequal, "all met as often"
    assert "2 items with fewer than 1 duel are left out." in str(known)
    alone = rank(model, NEW_IDS, samples=100)
    assert known.frame.equals(alone.frame)
    assert rank(model, order="lower", samples=100, min_comparisons=1).order == "lower"
    # Duels of equal items count together.
    total = resolve_items(build()).comparisons
    same = np.zeros((8, 2))
    alike = spg.Duels(same, DUELS.winners, DUELS.losers, DUELS.counts)
    copies = spg.PreferenceGP(alike, kernel())
    assert rank(copies, min_comparisons=int(total.sum())).frame["copies"].tolist() == [8]


@pytest.mark.parametrize("unknown_effects", [False, True])
def test_equal_utilities_share_a_rank(unknown_effects: bool) -> None:
    """Items that differ in what the kernel does not see, or in nothing but their unknown effects;
    ranks are those that pandas gives, in the table and in the JSON."""
    items = np.random.default_rng(0).integers(0, 3, size=(40, 2)).astype(float)
    seen = gpflow.kernels.Matern52(lengthscales=0.3, active_dims=[0])
    model = build(spg.FITC(), seen + spg.ItemEffect(0.6) if unknown_effects else seen)
    for order, by in (("mean", "utility"), ("lower", "lower")):
        found = rank(model, items, order=order, samples=100)
        assert len(found) == (40 if unknown_effects else 9)
        expected = found.frame[by].round(9).rank(method="min", ascending=False).astype(int)
        assert found.frame["rank"].tolist() == expected.tolist()
        assert expected.nunique() == 3 and expected.is_monotonic_increasing
        told = [row["rank"] for row in found.to_dict()["ranking"]]
        assert told == expected.tolist() and all(type(value) is int for value in told)
        same = found.frame.groupby("rank")["item_id"]
        assert all(ids.is_monotonic_increasing for _, ids in same), "in the order given"


def test_utilities_that_the_kernel_cannot_tell_apart_share_evenly() -> None:
    # The second column is invisible to the kernel: tied, though not equal.
    model = build(k=gpflow.kernels.SquaredExponential(active_dims=[0]))
    items = np.array([[0.3, 1.0], [0.3, 2.0]])
    found = rank(model, items, top_k=1, samples=10_000)
    assert found.jitter > 0.0
    assert abs(found.frame["p_best"][0] - 0.5) < MONTE_CARLO_STANDARD_ERRORS * found.standard_error


def test_unknown_items_have_effects_of_their_own() -> None:
    model = build(spg.FITC(), gpflow.kernels.SquaredExponential() + spg.ItemEffect(0.6))
    table = by_id(rank(model, np.zeros((2, 2)), top_k=1, samples=10_000).frame)
    # Each less the average of both: half the difference of two independent effects.
    np.testing.assert_allclose(table["sd"], np.sqrt(0.5 * 0.6), rtol=IDENTITY)
    assert table["p_best"].nunique() == 2


def test_new_items_along_with_the_models_own() -> None:
    items = pd.DataFrame({"item_id": ["a", "b", "c"], "size": [1.0, 2.0, 4.0]})
    duels = pd.DataFrame({"winner": ["a", "b"], "loser": ["b", "c"]})
    model = spg.PreferenceGP(spg.read_duels(items, duels), gpflow.kernels.Linear())
    new = pd.DataFrame({"item_id": ["x", "b"], "size": [9.0, 7.0]})
    found = rank(model, new, with_own=True, samples=100).frame.set_index("item_id")
    # An item that both have is ranked once, as it is given.
    inputs = spg.read_items(pd.DataFrame({"size": [1.0, 7.0, 4.0, 9.0]}), model)
    mean, sd = centred_joint(model, inputs, np.full(4, 0.25))
    np.testing.assert_allclose(found["utility"].loc[list("abcx")], mean, atol=IDENTITY)
    np.testing.assert_allclose(found["sd"].loc[list("abcx")] ** 2, np.diag(sd), atol=IDENTITY)
    assert found["comparisons"].loc[list("acx")].tolist() == [1, 1, 0]
    with refused("with_own", "no_items"):
        rank(model, with_own=True)
    with refused("with_own", "items_without_ids"):
        rank(build(), NEW, with_own=True)


def test_the_bound_holds_and_says_something() -> None:
    model, k, samples = build(), 2, 40_000
    items = np.concatenate([NEW, np.random.default_rng(5).normal(size=(30, 2))])
    found = rank(model, items, top_k=k, candidates=20, samples=samples)
    frame = found.frame
    outside = frame["item_id"][frame["p_best"].isna()].to_numpy()
    assert len(outside) == 22
    assert frame["p_top_k"].isna().sum() == 22
    mean, covariance = model.predict_f(items, full_cov=True)
    draws = np.random.default_rng(9).multivariate_normal(mean[:, 0], covariance[0], size=samples)
    order = np.argsort(-draws, axis=1)
    for bound, among in ((found.bound_best, order[:, :1]), (found.bound_top_k, order[:, :k])):
        happened = np.isin(among, outside).any(1).mean()
        error = MONTE_CARLO_STANDARD_ERRORS * np.sqrt(happened * (1 - happened) / samples)
        assert happened - error <= bound
    more = rank(model, items, top_k=k, candidates=30, samples=samples)
    assert more.bound_top_k < found.bound_top_k < 1.0
    assert more.bound_best <= more.bound_top_k
    assert "any of the other 22 items" in str(found)


def test_candidates_are_rows_where_items_share_them() -> None:
    """Three copies of each of twenty: what is not a candidate is a row too, and bounded."""
    model = build()
    items = np.repeat(np.random.default_rng(5).normal(size=(20, 2)), 3, axis=0)
    found = rank(model, items, top_k=2, candidates=8, samples=500)
    assert found.items == 60 and len(found.frame) == 20
    assert found.candidates == found.frame["p_best"].notna().sum() == 8
    text = " ".join(found.sentences())
    assert "joint samples of 8 candidate rows" in text and "any of the other 12 rows" in text
    # As many items as there are rows: nothing is outside then, and nothing is said.
    every = rank(model, items, top_k=2, candidates=20, samples=500)
    assert every.candidates == 20 and "any of the other" not in str(every)
    most = rank(model, items, top_k=2, candidates=19, samples=500)
    assert "any of the other 1 row is the best" in str(most)


def test_bound_of_one_outsider_in_closed_form() -> None:
    rng = np.random.default_rng(0)
    threshold = rng.normal(size=20_000)
    truth = norm.cdf(-6.0 / np.sqrt(1.0 + 0.25))
    bound = outside_bound(threshold, Normals.of(np.array([-6.0]), np.array([0.25])))
    # No count below c in 18,000 samples leaves 2.6e-4 at 99 %.
    assert truth <= bound
    assert bound < 1e-3
    assert outside_bound(threshold, Normals.of(np.array([9.0]), np.zeros(1))) == 1.0
    assert outside_bound(threshold, Normals.of(np.empty(0), np.empty(0))) == 0.0
    certain = outside_bound(threshold, Normals.of(np.array([-50.0]), np.zeros(1)))
    np.testing.assert_allclose(certain, 1.0 - 0.01 ** (1.0 / 18_000), rtol=IDENTITY)


def test_candidates_are_those_most_likely_above_the_kth_mean() -> None:
    mean = np.array([0.0, 1.0, 2.0, 3.0, -1.0])
    sd = np.array([9.0, 0.1, 0.1, 0.1, 0.1])
    np.testing.assert_array_equal(likely_rows(mean, sd, 1, 1), [3])
    np.testing.assert_array_equal(likely_rows(mean, sd, 1, 2), [0, 3])
    np.testing.assert_array_equal(likely_rows(mean, sd, 2, 2), [2, 3])
    np.testing.assert_array_equal(likely_rows(mean, sd, 2, 4), [0, 1, 2, 3])
    no_spread = likely_rows(mean, np.zeros(5), 2, 3)
    assert {2, 3} < set(no_spread)


def test_factors_of_singular_and_of_wrong_matrices() -> None:
    factor, jitter = factorised(np.array([[2.0, 0.0], [0.0, 3.0]]), 1.0)
    assert jitter == 0.0
    np.testing.assert_allclose(factor @ factor.T, np.diag([2.0, 3.0]), rtol=ROUNDING)
    factor, jitter = factorised(np.zeros((3, 3)), 2.0)
    assert jitter == 2e-14
    np.testing.assert_allclose(factor, np.sqrt(2e-14) * np.eye(3), rtol=ROUNDING)
    factor, jitter = factorised(np.zeros((3, 3)), 0.0)
    assert jitter == 0.0 and not factor.any()
    with pytest.raises(ValueError, match="2 candidates is not positive definite"):
        factorised(np.diag([1.0, -1.0]), 1.0)


def test_same_seed_same_numbers_and_progress() -> None:
    model = build()
    calls: list[tuple[int, int]] = []
    first = rank(
        model,
        NEW,
        samples=300,
        rng=np.random.default_rng(2),
        progress=lambda i, n: calls.append((i, n)),
    )
    again = rank(model, NEW, samples=300, rng=np.random.default_rng(2))
    assert first.frame.equals(again.frame)
    assert first.figures() == again.figures()
    other = rank(model, NEW, samples=300, rng=np.random.default_rng(3))
    assert not first.frame["p_best"].equals(other.frame["p_best"])
    assert calls == sorted(calls)
    assert calls[-1] == (312, 312)


def test_the_result_as_text_and_json() -> None:
    found = rank(build(), NEW, top_k=3, candidates=5, samples=200)
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert values["items"] == values["rows"] == len(values["ranking"]) == 12
    assert values["order"] == "mean" and values["left_out"] == 0
    assert values["ranking"][0]["rank"] == 1
    assert values["ranking"][-1]["p_best"] is None
    assert values["top_k"] == 3
    assert values["samples"] == 200
    text = str(found)
    assert text.startswith("All items\n")
    assert text.splitlines()[1].split()[-2:] == ["duels", "outside"]
    latex = found.to_latex(3)
    assert "The first 3 of 12 items" in latex and "top 3 & duels & outside" in latex
    assert "average of all 12 items" in text and "Ordered by expected utility." in text
    assert "copies" not in text and "same_as" not in text
    assert "joint samples of 5 candidates" in text


@pytest.mark.slow
def test_single_precision() -> None:
    double = by_id(rank(build(), NEW, samples=100).frame)
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        single = by_id(rank(build(engine=spg.ParallelEP(tolerance=SINGLE)), NEW, samples=100).frame)
    for name in ("utility", "sd"):
        np.testing.assert_allclose(single[name], double[name], atol=SINGLE)


def test_top_k_is_ten_or_all() -> None:
    model = build()
    for items, k in ((NEW, 10), (NEW[:4], 4)):
        found = rank(model, items, samples=100)
        assert found.top_k == k
        shown = {column.key for column in found.table().columns}
        assert ("p_top_k" in shown) is (k < len(items)), "all are among all"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 13}, "top_k is 13, but there are only 12 items; give at most 12"),
        ({"top_k": 0}, "top_k is 0; give a whole number, at least 1"),
        ({"top_k": 1.5}, "top_k is 1.5"),
        ({"top_k": 6, "candidates": 5}, "only 5 candidates are sampled; give at least 6"),
        ({"candidates": 0}, "candidates is 0"),
        ({"order": "median"}, "order is 'median'; .*choose from mean, lower"),
        ({"min_comparisons": -1}, "min_comparisons is -1"),
        ({"min_comparisons": 1}, "no item has more than 0 duels"),
        ({"samples": 99}, "samples is 99; give a whole number, at least 100"),
        ({"rng": -1}, r"rng is -1; give a generator"),
        ({"level": 1.0}, "level is 1.0; give a number, above 0 and below 1"),
        ({"level": float("nan")}, "level is nan"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rank(build(), NEW, **settings)


@pytest.mark.slow
def test_three_hundred_thousand_items_in_bounded_memory(data_dir: Path) -> None:
    folder = data_dir / "tennis_atp"
    program = f"""
import gpflow, numpy as np, sparse_prefgp as spg
from sparse_prefgp.analysis.ranking import rank
from pathlib import Path
from sparse_prefgp.io import read_duels
table = read_duels({str(folder / "items.csv.gz")!r}, {str(folder / "duels.csv.gz")!r},
                   ignore=["player_id", "date"])
duels = table.standardised(np.arange(20_000))
kernel = gpflow.kernels.Linear(0.1) + gpflow.kernels.SquaredExponential(
    0.1, lengthscales=np.full(duels.num_features, 3.0))
Z = spg.kmeans_inputs(duels.distinct_rows()[0], 128, np.random.default_rng(0))
model = spg.PreferenceGP(duels, kernel, approximation=spg.VFE(), inducing_variable=Z)
found = rank(model)
# Its own peak: that of getrusage is inherited from whoever started it.
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(found.items, status["VmHWM"].split()[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    items, kilobytes = (int(word) for word in done.stdout.split())
    assert items == 304_881
    assert kilobytes < 3 * 2**20
