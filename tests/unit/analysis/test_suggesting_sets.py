"""Sets to ask next: what a choice tells, what asking leaves, and which sets that makes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis import suggestion as module
from sparse_prefgp.analysis.acquisition import expected_reduction
from sparse_prefgp.analysis.asked_sets import AskedSets
from sparse_prefgp.data.answers import CHOICE, Answers, Codes
from sparse_prefgp.factors.choice_probabilities import (
    choices_of_known,
    independent_choice_log_probabilities,
    slopes_of_known,
)
from sparse_prefgp.factors.noise import ONE_NOISE, NoiseRatios, ratios_of_unknown
from tests.reference import slow_suggestion as slow
from tests.together import sentence
from tests.tolerances import GRADIENT, IDENTITY, MONTE_CARLO_STANDARD_ERRORS, ROUNDING

NOISE = 0.5


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def choices(sets: np.ndarray) -> Answers:
    sides = np.arange(0, sets.size + 1, sets.shape[1])
    return Answers(sets.reshape(-1), sides, kind=np.full(len(sets), CHOICE, np.int8))


def asked(items: int, number: int, seed: int = 0) -> np.ndarray:
    generator = rng(seed)
    return np.array([generator.permutation(items)[:3] for _ in range(number)])


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return spg.PreferenceGP(
        spg.Duels.from_events(rng(1).normal(size=(9, 2)), choices(asked(9, 12))),
        gpflow.kernels.SquaredExponential(variance=1.5),
        approximation=spg.Exact(),
        noise_variance=NOISE,
    )


def state_of(
    model: spg.PreferenceGP, seed: int, points: int = 256, ratios: NoiseRatios = ONE_NOISE
) -> AskedSets:
    mean, covariance = model.predict_f(model.duels.items, full_cov=True)
    known = mean.numpy()[:, 0], covariance.numpy()[0]
    return AskedSets(*known, NOISE, ratios, rng(seed), points=points)


def over_shifts(value: Callable[[int], Any], expected: Any) -> None:
    """Points are shifted at random: the mean over shifts is the integral."""
    found = np.array([value(seed) for seed in range(16)])
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(0) - expected) < MONTE_CARLO_STANDARD_ERRORS * error + ROUNDING)


# ---- choices at known utilities ----------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 4, 10])
def test_choices_at_known_utilities(size: int) -> None:
    f = 2.0 * rng(size).normal(size=(20, size))
    f[0] = 0.0
    f[1, 0] += 300.0
    found = choices_of_known(f, NOISE)
    everyone, none = np.ones(f.shape, bool), np.zeros(f.shape)
    logs = independent_choice_log_probabilities(f, none, NOISE, everyone)
    np.testing.assert_allclose(found, np.exp(logs), rtol=IDENTITY, atol=ROUNDING)
    slopes = slopes_of_known(f, NOISE)
    for j in range(size):
        step = np.eye(size)[j] * 1e-5
        ahead, behind = choices_of_known(f + step, NOISE), choices_of_known(f - step, NOISE)
        np.testing.assert_allclose(slopes[:, :, j], (ahead - behind) / 2e-5, atol=GRADIENT)


# ---- what a choice tells, and leaves -----------------------------------------------------------


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.covering(every=2)
def test_information_is_that_of_integrals(model: spg.PreferenceGP, averaged: bool) -> None:
    ratios = ONE_NOISE
    if averaged:
        few = ratios_of_unknown(0.2, 0.8)
        ratios = NoiseRatios(few.ratios[[5, 14]], np.array([0.3, 0.7]), np.ones(2))
    items = np.array([[0, 4, 7]])
    state = state_of(model, 0)
    inside = np.ix_(items[0], items[0])
    expected = slow.information_of_three(
        state.mean[items[0]],
        state.covariance[inside],
        list(NOISE * ratios.ratios),
        list(ratios.weights),
    )
    over_shifts(lambda seed: state_of(model, seed, 256, ratios).of_sets(items)[0], expected)
    # What the report says of one set of points.
    found = [state_of(model, seed, 256, ratios).of_sets(items)[0] for seed in range(16)]
    assert np.sqrt(np.mean((np.array(found) - expected) ** 2)) < 0.005


def test_a_set_of_two_is_a_duel(model: spg.PreferenceGP) -> None:
    pair = np.array([[2, 5]])
    expected = state_of(model, 0).of_pairs(pair[:, 0], pair[:, 1])[0]
    over_shifts(lambda seed: state_of(model, seed).of_sets(pair)[0], expected)
    given = spg.suggest(model, rng=rng()).frame
    state = state_of(model, 0)
    first, second = np.triu_indices(9, 1)
    values = state.of_pairs(first, second)
    best = int(np.argmax(values))
    assert (given["first"][0], given["second"][0]) == (first[best], second[best])
    np.testing.assert_allclose(given["score"][0], values[best], rtol=IDENTITY)

    def taken(seed: int) -> np.ndarray:
        now = state_of(model, seed)
        now.ask(pair[0])
        return now.covariance - state.covariance

    lead = state.mean[2] - state.mean[5]
    column = state.covariance[:, 2] - state.covariance[:, 5]
    variance = column[2] - column[5]
    reduction = expected_reduction(np.array([lead]), np.array([variance]), 2.0 * NOISE)
    over_shifts(taken, -reduction * np.outer(column, column))


def test_what_asking_leaves_is_the_average_over_answers(model: spg.PreferenceGP) -> None:
    before = state_of(model, 0)
    expected = slow.covariance_once_chosen(before.mean, before.covariance, [1, 3, 8], NOISE)

    def left(seed: int) -> np.ndarray:
        state = state_of(model, seed)
        state.ask(np.array([1, 3, 8]))
        return state.covariance

    over_shifts(left, expected)


def test_the_same_set_tells_less_the_second_time(model: spg.PreferenceGP) -> None:
    state, items = state_of(model, 0), np.array([0, 4, 7])
    before = state.of_sets(items[None])[0]
    state.ask(items)
    assert state.of_sets(items[None])[0] < before


# ---- the sets ----------------------------------------------------------------------------------


def test_a_set_that_grows_tells_nearly_as_much_as_any(model: spg.PreferenceGP) -> None:
    state = state_of(model, 0)
    first, second = np.triu_indices(9, 1)
    for size in (3, 4):
        every = state.of_sets(np.array(list(combinations(range(9), size))))
        items, score = state.grown(size, np.stack([first, second], 1), set())
        assert len(set(items.tolist())) == size
        assert score == pytest.approx(state.of_sets(items[None])[0], rel=IDENTITY)
        assert score > 0.9 * every.max() > every.mean()


def test_a_batch_of_sets(model: spg.PreferenceGP) -> None:
    found = spg.suggest(model, batch=4, set_size=3, rng=rng())
    sets = found.frame[["option_1", "option_2", "option_3"]].to_numpy()
    before = {frozenset(row) for row in asked(9, 12).tolist()}
    each = [frozenset(row) for row in sets.tolist()]
    assert len(set(each)) == 4 and not before & set(each)
    assert (found.possible, found.set_size, found.candidates) == (84, 3, 9)
    shares = found.frame[["probability_1", "probability_2", "probability_3"]].to_numpy()
    expected = model.predict_choice(model.duels.items[sets]).numpy()
    np.testing.assert_allclose(shares, expected, rtol=IDENTITY)
    text = str(found)
    assert text.startswith("Ask next") and len(found.table().rows) == 4
    assert f"{found.looked_at} of 84 sets were looked at: grown from the pair" in text
    told = json.loads(json.dumps(found.to_dict()))
    assert len(told["sets"]) == 4 and "pairs" not in told
    assert spg.rank(model, samples=100).table().headings[-1] == "choices"
    again = spg.suggest(model, batch=4, set_size=3, rng=rng())
    pd.testing.assert_frame_equal(found.frame, again.frame)


def test_answers_to_a_batch_are_a_table_of_choices(model: spg.PreferenceGP) -> None:
    frame = spg.suggest(model, batch=4, set_size=3, rng=rng()).frame
    answers = frame.assign(chosen=frame["option_2"])
    updated, report = spg.update(model, choices=answers)
    assert updated.duels.num_duels == model.duels.num_duels + 4 and report.converged
    following = spg.suggest(updated, batch=4, set_size=3, rng=rng()).frame
    names = ["option_1", "option_2", "option_3"]
    old, new = (
        {frozenset(row) for row in f[names].to_numpy().tolist()} for f in (frame, following)
    )
    assert not old & new


def test_sets_that_are_all_asked_are_refused(model: spg.PreferenceGP) -> None:
    few = model.duels.items[:4]
    assert len(spg.suggest(model, few, batch=4, set_size=3, rng=rng()).frame) == 4
    every = choices(np.array(list(combinations(range(4), 3))))
    done = spg.PreferenceGP(spg.Duels.from_events(few, every), gpflow.kernels.SquaredExponential())
    with pytest.raises(ValueError, match="All sets of 3 candidates were asked already"):
        spg.suggest(done, set_size=3, rng=rng())


def test_sets_of_many_items_are_looked_at_in_part(
    model: spg.PreferenceGP, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "JOINTLY", 12)
    new = rng(4).normal(size=(40, 2))
    found = spg.suggest(model, new, batch=2, set_size=3, max_pairs=20, rng=rng())
    assert (found.candidates, found.possible) == (12, 9880)
    assert "among 12 items drawn at random" in found.chosen


def test_effects_of_their_own_and_judges(model: spg.PreferenceGP) -> None:
    """Unknown items differ by their effects, and nobody in particular answers."""
    said = choices(asked(9, 12))
    judged = said.saying(judge=Codes.of(["Ann", "Ben"] * 6))
    own = spg.PreferenceGP(
        spg.Duels.from_events(rng(1).normal(size=(9, 2)), judged),
        gpflow.kernels.SquaredExponential() + spg.ItemEffect(0.4),
        approximation=spg.Exact(),
        likelihood=spg.Probit(by="judge"),
    )
    found = spg.suggest(own, np.zeros((4, 2)), batch=2, set_size=3, rng=rng())
    assert (found.frame["score"] > 0.0).all()
    shares = found.frame[["probability_1", "probability_2", "probability_3"]].to_numpy()
    np.testing.assert_allclose(shares, 1.0 / 3.0, rtol=IDENTITY)


def test_streams_say_that_sets_are_not_looked_up(model: spg.PreferenceGP) -> None:
    streamed = spg.StreamedGP(
        spg.stream_duels(model.duels),
        gpflow.kernels.SquaredExponential(),
        inducing_variable=model.duels.items[:5],
    )
    found = spg.suggest(streamed, batch=2, set_size=3, rng=rng())
    assert "Sets of the stream may be among them." in found.sentences()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"set_size": 1}, "set_size is 1; give a whole number, at least 2"),
        ({"set_size": 10}, "only 9 items that differ"),
        ({"batch": 85}, "only 84 sets"),
        ({"score": "eubo"}, sentence("set_size", "other_score")),
        ({"pairs": pd.DataFrame({"first": [0], "second": [1]})}, sentence("set_size", "pairs")),
        ({"candidates": np.zeros((4, 2))}, "cannot tell the candidates apart"),
    ],
)
def test_mistakes(model: spg.PreferenceGP, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        spg.suggest(model, **{"rng": rng(), "set_size": 3, **options})


def answered(truth: np.ndarray, sets: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The chosen one of each set."""
    y = truth[sets] + np.sqrt(NOISE) * generator.standard_normal(sets.shape)
    return np.take_along_axis(sets, y.argmax(1)[:, None], 1)[:, 0]


def error_after(seed: int, by_information: bool) -> float:
    """Of centred utilities of 30 items, after six rounds of five sets of four."""
    generator = rng(seed)
    items = generator.uniform(-2.0, 2.0, (30, 2))
    kernel = gpflow.kernels.SquaredExponential(variance=4.0, lengthscales=[0.9, 0.9])
    truth = np.linalg.cholesky(kernel(items).numpy() + 1e-8 * np.eye(30)) @ generator.normal(
        size=30
    )
    names = [f"option_{j}" for j in range(1, 5)]

    def at_random(number: int) -> np.ndarray:
        return generator.permuted(np.tile(np.arange(30), (number, 1)), axis=1)[:, :4]

    def in_order(sets: np.ndarray) -> np.ndarray:
        chosen = answered(truth, sets, generator)
        return np.array([[c, *row[row != c]] for c, row in zip(chosen, sets, strict=True)])

    told = in_order(at_random(10))

    def learned() -> spg.PreferenceGP:
        return spg.PreferenceGP(
            spg.Duels.from_events(items, choices(told)),
            kernel,
            approximation=spg.Exact(),
            noise_variance=NOISE,
        )

    for _ in range(6):
        if by_information:
            frame = spg.suggest(learned(), batch=5, set_size=4, rng=generator).frame
            sets = frame[names].to_numpy()
        else:
            sets = at_random(5)
        told = np.concatenate([told, in_order(sets)])
    wrong = learned().predict_f(items)[0].numpy()[:, 0] - truth
    return float(np.sqrt(np.mean((wrong - wrong.mean()) ** 2)))


@pytest.mark.slow
def test_asking_beats_random_sets() -> None:
    """Differences of the same problems, above zero by two standard errors."""
    found = np.array([[error_after(seed, flag) for flag in (False, True)] for seed in range(12)])
    gain = found[:, 0] - found[:, 1]
    assert gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain))
