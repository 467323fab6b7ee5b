"""Duels to ask next: the right pairs, the right scores, in bounded memory."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis import asked as asked_module
from sparse_prefgp.analysis import suggestion as module
from sparse_prefgp.analysis.asked import AskedPairs
from sparse_prefgp.analysis.candidates import likely_best, listed_pairs, pool, random_pairs
from sparse_prefgp.analysis.items import own_items
from tests.cases import ALL, random_duels
from tests.reference import slow_suggestion as slow
from tests.together import refused
from tests.tolerances import IDENTITY

ASKED = ("bald", "variance", "eubo")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def made(name: str = "Exact", kernel: Any = None, **options: Any) -> spg.PreferenceGP:
    duels = random_duels(0, items=9, duels=24)
    approximation = ALL[name]()
    return spg.PreferenceGP(
        duels,
        kernel or gpflow.kernels.SquaredExponential(variance=1.5, lengthscales=[1.0, 0.7]),
        approximation=approximation,
        inducing_variable=duels.items[:4] + 0.1 if approximation.needs_inducing else None,
        noise_variance=0.3,
        **options,
    )


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return made()


def chosen(found: spg.results.Suggestions) -> list[tuple[int, int]]:
    return list(zip(found.frame["first"], found.frame["second"], strict=True))


def both(model: spg.PreferenceGP, items: Any) -> tuple[np.ndarray, np.ndarray]:
    """Utilities (n,) and their covariance (n, n), dense."""
    mean, covariance = model.predict_f(items, full_cov=True)
    return mean.numpy()[:, 0], covariance.numpy()[0]


# ---- the greedy batch --------------------------------------------------------------------------


@pytest.mark.parametrize("score", ASKED)
@pytest.mark.parametrize("name", ["Exact", "VFE", "FITC"])
@pytest.mark.covering(every=12)
def test_a_batch_is_what_loops_over_dense_matrices_choose(name: str, score: str) -> None:
    model = made(name, mean_function=gpflow.functions.Linear(np.array([[0.4], [-0.2]])))
    found = spg.suggest(model, batch=5, score=score, rng=rng())
    utility, covariance = both(model, model.duels.items)
    expected = slow.greedy_batch(utility, covariance, 0.6, 5, score)
    assert chosen(found) == [pick[:2] for pick in expected]
    assert chosen(spg.suggest(model, batch=5, score=score)) == chosen(found)
    assert ("to find the best item" in str(found).lower()) == (score == "bald")
    np.testing.assert_allclose(
        found.frame["score"], [pick[2] for pick in expected], rtol=IDENTITY, atol=IDENTITY
    )
    assert (found.looked_at, found.possible, found.candidates) == (36, 36, 9)


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.covering(every=20)
def test_covariances_with_a_pair(name: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kept:
        monkeypatch.setattr(asked_module, "_KEPT_NUMBERS", 0)
    monkeypatch.setattr(asked_module, "_CHUNK", 4)
    model = made(name)
    new = rng(1).normal(size=(6, 2))
    state = AskedPairs(model, random_pairs(pool(model, new)[0], 100, rng()))
    utility, covariance = both(model, new)
    difference = np.array(
        [[float(k == i) - float(k == j) for k in range(6)] for i, j in pairs_of(state)]
    )
    np.testing.assert_allclose(state.mean, difference @ utility, atol=IDENTITY)
    variance = np.diag(difference @ covariance @ difference.T)
    np.testing.assert_allclose(state.variance, variance, atol=IDENTITY)
    np.testing.assert_allclose(
        state.covariance_with(4, 1), covariance[:, 4] - covariance[:, 1], atol=IDENTITY
    )


def pairs_of(state: AskedPairs) -> list[tuple[int, int]]:
    return list(zip(state.pairs.first, state.pairs.second, strict=True))


@pytest.mark.parametrize(
    "extra", [gpflow.kernels.White(0.4), spg.ItemEffect(0.4)], ids=["white", "effect"]
)
def test_what_items_have_of_their_own_counts_as_theirs(extra: gpflow.kernels.Kernel) -> None:
    kernel = gpflow.kernels.SquaredExponential(variance=1.5) + extra
    model = made(kernel=kernel)
    new = rng(2).normal(size=(5, 2))
    state = AskedPairs(model, random_pairs(pool(model, new)[0], 100, rng()))
    column = state.covariance_with(3, 0)
    # The variance of a difference is its covariance with both ends.
    place = pairs_of(state).index((0, 3))
    assert column[3] - column[0] == pytest.approx(state.variance[place], rel=IDENTITY)
    _, covariance = both(model, new)
    np.testing.assert_allclose(column, covariance[:, 3] - covariance[:, 0], atol=IDENTITY)


@pytest.mark.parametrize("score", ["variance", "eubo"])
@pytest.mark.covering(every=2)
def test_scores_fall_along_a_batch(score: str) -> None:
    model = made("VFE")
    found = spg.suggest(model, rng(3).normal(size=(20, 2)), batch=15, score=score, rng=rng())
    assert (np.diff(found.frame["score"]) <= IDENTITY).all()
    assert len({frozenset(pair) for pair in chosen(found)}) == 15


@pytest.mark.parametrize("score", ASKED)
@pytest.mark.covering(every=3)
def test_a_batch_is_diverse(model: spg.PreferenceGP, score: str) -> None:
    """Two twins of the most wanted pair, a hair apart: after one, the others are asked and done."""
    base = rng(4).normal(size=(6, 2)) * 1.5
    first, second = chosen(spg.suggest(model, base, score=score, rng=rng()))[0]
    items = np.concatenate([base, base[[first, second]] + 1e-4])
    twins = {first: 0, second: 1, 6: 0, 7: 1}
    picks = chosen(spg.suggest(model, items, batch=2, score=score, rng=rng()))
    assert {twins.get(i, i + 10) for i in picks[0]} == {0, 1}
    assert {twins.get(i, i + 10) for i in picks[1]} != {0, 1}
    alone = pd.DataFrame(combinations(range(8), 2), columns=["first", "second"])
    state = AskedPairs(model, listed_pairs(model_of(model, items), alone))
    value = module._score(model_of(model, items), state, score)
    # Without asking the first pick, a twin of it would have been the second.
    order = np.argsort(-value())
    assert {twins.get(int(i), i + 10) for i in pairs_of(state)[order[1]]} == {0, 1}


def model_of(model: spg.PreferenceGP, items: np.ndarray) -> spg.PreferenceGP:
    """The same duels in a model that holds further items."""
    old = model.duels
    more = np.concatenate([items, old.items])
    n = len(items)
    duels = spg.Duels(more, old.winners + n, old.losers + n, old.counts)
    return spg.PreferenceGP(
        duels, model.kernel, approximation=spg.Exact(), noise_variance=0.3, engine=model.engine
    )


# ---- Thompson ----------------------------------------------------------------------------------


def test_thompson_takes_the_best_of_two_draws() -> None:
    model = made("VFE")
    found = spg.suggest(model, batch=3, score="thompson", rng=rng(7))
    utility, covariance = both(model, model.duels.items)
    again = rng(7)
    root = np.linalg.cholesky(covariance)
    for (first, second), score in zip(chosen(found)[:1], found.frame["score"], strict=False):
        one, other = utility + again.standard_normal((2, 9)) @ root.T
        i, j, value = slow.thompson_pair(one - one.mean(), other - other.mean())
        assert (first, second) == (i, j)
        assert score == pytest.approx(value, abs=IDENTITY)
    assert len({frozenset(pair) for pair in chosen(found)}) == 3


def test_thompson_on_more_items_than_are_drawn(
    model: spg.PreferenceGP, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "JOINTLY", 3)
    best = {int(i) for i in likely_best(model, own_items(model))[:3]}
    pool_of = spg.suggest(model, batch=3, score="thompson", rng=rng())
    every = pd.DataFrame(combinations(range(9), 2), columns=["first", "second"])
    listed = spg.suggest(model, pairs=every, batch=3, score="thompson", rng=rng())
    for found in (pool_of, listed):
        assert set(found.frame["first"]) | set(found.frame["second"]) == best
        assert (found.looked_at, found.possible) == (3, 36)
        assert "3 items most likely to beat the best" in found.chosen
    others = sorted(set(range(9)) - best)[:3]
    worst = pd.DataFrame({"first": sorted(best), "second": others})
    with pytest.raises(ValueError, match="None of the pairs is between two of the items"):
        spg.suggest(model, pairs=worst, score="thompson", rng=rng())


def test_likely_best_are_ordered_by_the_chance_to_exceed_the_best(model: spg.PreferenceGP) -> None:
    utility, covariance = both(model, model.duels.items)
    best = int(np.argmax(utility))
    order = likely_best(model, own_items(model))
    assert order[0] == best

    def chance(i: int) -> float:
        variance = covariance[i, i] + covariance[best, best] - 2.0 * covariance[i, best]
        return float(ndtr((utility[i] - utility[best]) / np.sqrt(variance)))

    chances = [chance(int(i)) for i in order[1:]]
    assert chances == sorted(chances, reverse=True)


# ---- candidates --------------------------------------------------------------------------------


def test_random_pairs_are_different_pairs_of_different_items(model: spg.PreferenceGP) -> None:
    items, _ = pool(model, rng(5).normal(size=(40, 2)))
    for limit in (1, 50, 779):
        found = random_pairs(items, limit, rng(limit))
        ends = [
            (found.items.ids[i], found.items.ids[j])
            for i, j in zip(found.first, found.second, strict=True)
        ]
        assert len(found) == limit == len(set(ends))
        assert all(a < b for a, b in ends)
        assert found.possible == 780
    # All of them but one, in order: every place in the list is found.
    everyone = set(combinations(range(40), 2))
    assert len(everyone - set(ends)) == 1
    assert len(random_pairs(items, 780, rng())) == 780


def test_a_large_pool_is_looked_at_in_part(model: spg.PreferenceGP) -> None:
    items = rng(6).normal(size=(3000, 2))
    found = spg.suggest(model, items, batch=4, max_pairs=500, rng=rng())
    assert (found.looked_at, found.possible) == (500, 3000 * 2999 // 2)
    assert found.chosen == "drawn at random"
    assert "500 of 4,498,500 pairs were looked at: drawn at random." in found.sentences()
    best = spg.suggest(model, items, batch=4, max_pairs=500, score="eubo", rng=rng())
    # 32 items have 496 pairs, and 33 have 528.
    assert (best.looked_at, best.candidates) == (496, 32)
    whole = spg.suggest(model, items[:300], batch=4, score="eubo", rng=rng())
    part = spg.suggest(model, items[:300], batch=4, max_pairs=5000, score="eubo", rng=rng())
    assert chosen(whole) == chosen(part)


def test_a_list_of_pairs(model: spg.PreferenceGP, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("winner,loser,day\n3,1,x\n2,5,y\n1,3,z\n7,8,z\n")
    found = spg.suggest(model, pairs=path, batch=3, rng=rng())
    assert {frozenset(pair) for pair in chosen(found)} == {
        frozenset(pair) for pair in ((3, 1), (2, 5), (7, 8))
    }
    assert (3, 1) in chosen(found)
    assert (found.looked_at, found.possible, found.repeated) == (3, 3, 1)
    assert "1 repetitions of pairs count once." in found.sentences()
    given = spg.predict(model, found.frame[["first", "second"]])
    for name in ("probability", "difference", "sd"):
        np.testing.assert_allclose(found.frame[name], given[name], rtol=IDENTITY)


def test_items_with_equal_features_are_not_compared(model: spg.PreferenceGP) -> None:
    items = rng(8).normal(size=(5, 2))
    items[3] = items[0]
    found = spg.suggest(model, items, batch=6, rng=rng())
    assert (found.looked_at, found.equal_items) == (6, 1)
    assert 3 not in set(found.frame["first"]) | set(found.frame["second"])
    with pytest.raises(ValueError, match="cannot tell the candidates apart"):
        spg.suggest(model, items[[0, 3]], rng=rng())
    # With effects of their own they are different items.
    duels = random_duels(0, items=9, duels=24)
    effects = spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential() + spg.ItemEffect(0.5),
        approximation=spg.Exact(),
    )
    assert spg.suggest(effects, items[[0, 3]], rng=rng()).looked_at == 1


def test_equal_items_of_a_list_are_left_out() -> None:
    duels = random_duels(0, items=9, duels=24)
    items = duels.items.copy()
    items[4] = items[2]
    model = spg.PreferenceGP(
        spg.Duels(items, duels.winners, duels.losers), gpflow.kernels.SquaredExponential()
    )
    pairs = pd.DataFrame({"first": [2, 4, 2], "second": [4, 0, 0]})
    found = spg.suggest(model, pairs=pairs, rng=rng())
    assert (found.looked_at, found.equal, found.repeated) == (1, 1, 1)
    with pytest.raises(ValueError, match="no pairs of different items"):
        spg.suggest(model, pairs=pairs[:1], rng=rng())


# ---- the report, mistakes, and the loop --------------------------------------------------------


def test_the_report_says_everything_and_is_ready_for_json(model: spg.PreferenceGP) -> None:
    found = spg.suggest(model, rng().normal(size=(5, 2)) * 9.0, batch=2, rng=rng())
    told = json.loads(json.dumps(found.to_dict()))
    assert len(told["pairs"]) == 2 and told["score"] == "bald" and told["converged"]
    assert any(row["outside_range"] for row in told["pairs"])
    text = str(found)
    assert text.startswith("Ask next") and len(found.table().rows) == 2
    assert "information about the utilities, in nats" in text
    assert "10 of 10 pairs were looked at: all." in text


def test_what_did_not_converge_is_said() -> None:
    model = made(engine=spg.ParallelEP(max_sweeps=1))
    with pytest.warns(UserWarning, match="did not converge"):
        found = spg.suggest(model, rng=rng())
    assert not found.converged
    assert "Inference has NOT converged." in found.sentences()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": "magic"}, "score is 'magic'; choose from bald"),
        ({"batch": 0}, "batch is 0; give a whole number, at least 1"),
        ({"batch": 37}, "batch is 37, but there are only 36 pairs"),
        ({"max_pairs": 0}, "max_pairs is 0; give a whole number, at least 1"),
        ({"rng": 3}, "np.random.default_rng"),
        ({"pairs": pd.DataFrame({"first": [0]})}, "second"),
        ({"pairs": pd.DataFrame({"first": [2], "second": [2]})}, "with itself"),
        ({"pairs": pd.DataFrame({"first": [0], "second": [99]})}, "99"),
        ({"candidates": np.zeros((3, 5))}, "5 columns"),
    ],
)
def test_mistakes(model: spg.PreferenceGP, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        spg.suggest(model, **{"rng": rng(), **options})


def test_logit_factors_are_refused() -> None:
    model = made(engine=spg.Laplace(link="logit"))
    with refused("logistic", "suggestion"):
        spg.suggest(model, rng=rng())
    for call in (
        lambda: spg.sample_posterior(model, 10, rng()),
        lambda: spg.check_against_sampling(model, rng=rng()),
        lambda: spg.exact.importance_sampling(model),
    ):
        with refused("logistic", "sampling"):
            call()


def test_answers_continue_from_the_old_sites() -> None:
    model = made("VFE")
    before = model.infer()
    found = spg.suggest(model, batch=3, rng=rng())
    answers = found.frame.rename(columns={"first": "winner", "second": "loser"})
    updated, report = spg.update(model, answers[["winner", "loser"]])
    fresh = spg.PreferenceGP(
        updated.duels,
        model.kernel,
        approximation=model.approximation,
        inducing_variable=model.inducing_variable.Z.numpy(),
        noise_variance=0.3,
    ).infer()
    assert before.converged and report.converged and fresh.converged
    assert report.sweeps < fresh.sweeps
    # What was asked is known better now.
    after = spg.predict(updated, found.frame[["first", "second"]])
    assert (after["sd"] < found.frame["sd"]).all()


def simulated(seed: int) -> tuple[spg.PreferenceGP, np.ndarray, np.random.Generator]:
    """A model of 15 random duels between 40 items, its kernel that of the truth."""
    generator = rng(seed)
    items = generator.uniform(-2.0, 2.0, (40, 2))
    kernel = gpflow.kernels.SquaredExponential(variance=4.0, lengthscales=[0.9, 0.9])
    root = np.linalg.cholesky(kernel(items).numpy() + 1e-8 * np.eye(40))
    truth = root @ generator.normal(size=40)
    pairs = generator.permuted(np.tile(np.arange(40), (15, 1)), axis=1)[:, :2]
    winners, losers = answered(truth, pairs[:, 0], pairs[:, 1], generator)
    return spg.PreferenceGP(spg.Duels(items, winners, losers), kernel), truth, generator


def answered(
    truth: np.ndarray, first: Any, second: Any, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(first), np.asarray(second)
    won = generator.uniform(size=len(first)) < ndtr(truth[first] - truth[second])  # 2 sigma² = 1
    return np.where(won, first, second), np.where(won, second, first)


def collected(seed: int, score: str | None, rounds: int, batch: int) -> tuple[float, float]:
    """Score of all pairs in nats, and the regret of the item believed best, after some rounds."""
    model, truth, generator = simulated(seed)
    given = []
    for _ in range(rounds):
        if score is None:
            chance = generator.permuted(np.tile(np.arange(40), (batch, 1)), axis=1)
            first, second = chance[:, 0], chance[:, 1]
        else:
            for told in given:
                model, _ = spg.update(model, told)
            given.clear()
            frame = spg.suggest(model, batch=batch, score=score, rng=generator).frame
            first, second = frame["first"], frame["second"]
        winners, losers = answered(truth, first, second, generator)
        given.append(pd.DataFrame({"winner": winners, "loser": losers}))
    model, _ = spg.update(model, pd.concat(given))  # chance asks no model before
    i, j = np.triu_indices(40, 1)
    p = model.predict_duel(model.duels.items[i], model.duels.items[j]).numpy()
    true = ndtr(truth[i] - truth[j])
    nlp = -np.mean(true * np.log(p) + (1.0 - true) * np.log1p(-p))
    utility = model.predict_f(model.duels.items)[0].numpy()[:, 0]
    return float(nlp), float(truth.max() - truth[np.argmax(utility)])


@pytest.mark.slow
def test_asking_beats_random_pairs() -> None:
    """Sixty duels in six rounds of ten: what is asked for predicts better, or finds better.

    Differences of the same problems, which must be above zero by two standard errors. Regret is 0
    in most problems whatever is asked for, so that it takes more of them.
    """
    chance = np.array([collected(seed, None, 6, 10) for seed in range(32)])
    for score, column, problems in (("bald", 0, 16), ("eubo", 1, 32)):
        found = [collected(seed, score, 6, 10)[column] for seed in range(problems)]
        gain = chance[:problems, column] - found
        assert gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain)), score
