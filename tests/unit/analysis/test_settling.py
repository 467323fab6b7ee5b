"""Whether the first k are settled, when they will be, and what to ask for that."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.acquisition import doubt_left, doubt_slope, expected_reduction
from sparse_prefgp.analysis.items import numbered_inputs, own_items
from sparse_prefgp.analysis.settling import TIMES, chances_settled, expected_noise, judges_of
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.models.integrated import IntegratedGP
from sparse_prefgp.models.preference_gp import copied
from tests.reference import slow_settling as slow
from tests.together import refused
from tests.tolerances import IDENTITY, MONTE_CARLO_STANDARD_ERRORS

ITEMS, VOTES, NOISE, MARGIN = 7, 60, 0.3, 0.4
JUDGES = ("ann", "ben", "cem")
RATIOS = (0.2, 1.0, 3.0)


def made(
    judges: bool = False, spread: float = 0.5, margin: float | None = MARGIN, votes: int = VOTES
):
    rng = np.random.default_rng(3)
    truth = spread * np.linspace(1.5, -1.5, ITEMS)
    first = rng.integers(0, ITEMS, votes)
    second = (first + rng.integers(1, ITEMS, votes)) % ITEMS
    d = truth[first] - truth[second] + math.sqrt(2.0 * NOISE) * rng.normal(size=votes)
    ties = np.abs(d) < (margin or 0.0)
    winner, loser = np.where(d > 0.0, first, second), np.where(d > 0.0, second, first)
    ids = [f"m{i}" for i in range(ITEMS)]
    duels = spg.Duels(
        np.zeros((ITEMS, 0)),
        [ids[i] for i in winner],
        [ids[i] for i in loser],
        ties=ties,
        item_ids=ids,
        groups=[JUDGES[i % 3] for i in range(votes)] if judges else None,
    )
    likelihood = spg.Probit(NOISE, by="judge" if judges else None, margin=margin)
    model = spg.PreferenceGP(duels, spg.ItemEffect(1.0), likelihood=likelihood)
    if judges:
        model.likelihood.noise_ratio.assign(
            [RATIOS[JUDGES.index(name)] for name in model.duels.group_names]
        )
    return model


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return made()


@pytest.fixture(scope="module")
def judged() -> spg.PreferenceGP:
    return made(judges=True)


def both(model: spg.PreferenceGP) -> tuple[np.ndarray, np.ndarray]:
    inputs = as_float(numbered_inputs(model, own_items(model)))
    mean, covariance = model.posterior().joint(inputs)
    return mean.numpy(), covariance.numpy()


# ---- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [0.0, 0.3, 1.2])
def test_the_information_of_a_battle(margin: float) -> None:
    d = np.array([-3.0, -0.7, 0.0, 0.2, 1.5])
    found = expected_reduction(d, np.zeros(5), 0.8, margin)
    wanted = [slow.battle_information(x, 0.8, margin) for x in d]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    # Noises and margins of each are those of all.
    some = expected_reduction(d, np.zeros(5), np.full(5, 0.8), np.full(5, margin))
    np.testing.assert_allclose(some, found, rtol=IDENTITY)
    if margin == 0.3:
        at_even_odds = expected_reduction(np.zeros(1), np.zeros(1), 1.0, margin)
        assert at_even_odds[0] == pytest.approx(0.76, abs=0.005)


@pytest.mark.parametrize("mean", [0.0, 0.3, -1.4, 4.0])
@pytest.mark.parametrize("variance", [0.04, 1.0, 9.0])
@pytest.mark.parametrize("share", [1.0, 0.7, 0.01])
def test_the_doubt_that_is_left(mean: float, variance: float, share: float) -> None:
    found = doubt_left(*(np.array([x]) for x in (mean, variance, share * variance)))
    wanted = slow.doubt_left(mean, variance, share * variance)
    assert found[0] == pytest.approx(wanted, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.3, -1.4, 4.0])
@pytest.mark.parametrize("variance", [0.04, 1.0])
@pytest.mark.parametrize("share", [1.0, 0.7, 0.01])
def test_the_slope_of_doubt_is_its_difference_quotient(
    mean: float, variance: float, share: float
) -> None:
    left, step = share * variance, 1e-5 * share * variance
    ends = np.array([left - step, left + step])
    low, high = doubt_left(np.full(2, mean), np.full(2, variance), ends)
    slope = doubt_slope(*(np.array([x]) for x in (mean, variance, left)))
    assert slope[0] == pytest.approx((high - low) / (2.0 * step), rel=1e-5, abs=1e-9)


def test_no_doubt_of_what_has_no_variance() -> None:
    zero = np.zeros(2)
    assert not doubt_left(np.array([0.0, 1.0]), zero, zero).any()
    assert not doubt_slope(np.array([0.0, 1.0]), zero, zero).any()
    assert doubt_left(zero, np.ones(2), np.ones(2)) == pytest.approx(0.25)


# ---- settled -----------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [1, 3, 6])
def test_the_forecast_is_that_of_searching_for_each_draw(model: spg.PreferenceGP, top: int) -> None:
    mean, covariance = both(model)
    drawn = np.random.default_rng(0).multivariate_normal(mean, covariance, size=60)
    own = np.diag(covariance)
    found = chances_settled(drawn, own[:, None] + own - 2.0 * covariance, top)
    needed = np.array([slow.votes_needed(one, covariance, top) for one in drawn])
    assert found == tuple(float((needed <= times).mean()) for times in TIMES)
    assert any(0.0 < share < 1.0 for share in found)


def test_who_is_first_and_by_what_chance(model: spg.PreferenceGP) -> None:
    found = spg.settled(model, 2)
    mean, covariance = both(model)
    order = np.argsort(-mean)
    assert found.first == tuple(model.duels.item_ids[i] for i in order[:2])
    drawn = np.random.default_rng(1).multivariate_normal(mean, covariance, size=20_000)
    top = np.argsort(-drawn, axis=1)[:, :2]
    share = np.mean([set(row) == set(order[:2]) for row in top])
    assert found.chance_now == pytest.approx(share, abs=MONTE_CARLO_STANDARD_ERRORS * 0.01)
    assert not found.settled and "are not settled" in found.conclusion
    assert found.votes == VOTES and found.looked_at == found.items == ITEMS
    assert list(found.chances) == sorted(found.chances)
    row = found.frame.iloc[0]
    i, j = (list(model.duels.item_ids).index(row[side]) for side in ("first", "second"))
    sd = math.sqrt(covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j])
    assert row["sd"] == pytest.approx(sd, rel=1e-6)
    assert row["doubt"] == pytest.approx(slow.ndtr(-(mean[i] - mean[j]) / sd), rel=1e-6)
    assert len(found.frame) == 10 and found.frame["doubt"].is_monotonic_decreasing
    assert "judge" not in found.frame
    again = spg.settled(model, 2)
    assert again.to_dict() == found.to_dict()
    told = json.loads(json.dumps(found.to_dict()))
    assert told["forecast"][0]["votes"] == 2 * VOTES and len(told["pairs"]) == 10
    text = str(found)
    assert "times today's votes" in text and "second is ahead" in text
    assert "asked as those were, would leave a chance of a mistake of at most 5 %" in text
    assert found.outlook == (
        "Which ones are the first 2 is not settled; with 8 times today's votes (480) it is with a "
        f"chance of {found.chances[2]:.2f}."
    )


def test_far_apart_is_settled() -> None:
    found = spg.settled(made(spread=4.0, votes=900), 3)
    assert found.settled and "The first 3 are settled: that they are m0, m1 and m2" in str(found)
    assert found.chances == (1.0, 1.0, 1.0, 1.0)
    assert "times today's votes" not in str(found), "one chance, and none to come"
    assert found.outlook == "Which ones are the first 3 is settled."
    one = spg.settled(made(spread=4.0, votes=900), 1)
    assert one.conclusion.startswith("The first one is settled: that it is m0 has a probability of")


def test_of_a_mixture_each_part_is_drawn(model: spg.PreferenceGP) -> None:
    wide = copied(model)
    wide.kernel.variance.assign(9.0)
    mixed = IntegratedGP(model, [model, wide], np.array([0.5, 0.5]))
    alone, other, found = (spg.settled(each, 2, draws=20_000) for each in (model, wide, mixed))
    middle = 0.5 * (alone.chance_now + other.chance_now)
    assert found.first == alone.first == other.first
    assert found.chance_now == pytest.approx(middle, abs=MONTE_CARLO_STANDARD_ERRORS * 0.005)
    assert abs(alone.chance_now - other.chance_now) > 0.01


def test_the_likely_first_of_many(model: spg.PreferenceGP, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparse_prefgp.analysis.settling.JOINTLY", 5)
    found = spg.settled(model, 2)
    assert (found.looked_at, found.items) == (5, ITEMS)
    assert found.first == spg.settled(model, 2, rng=np.random.default_rng(4)).first
    assert "Of 7 items the 5 most likely among the first were looked at." in found.sentences()


# ---- judges and prices -------------------------------------------------------------------------


def test_the_judge_who_tells_most_for_the_price(judged: spg.PreferenceGP, tmp_path: Path) -> None:
    found = spg.settled(judged, 2)
    row = found.frame.iloc[0]
    assert row["judge"] == "ann" and "price" not in found.frame
    noise = expected_noise(judged)[judged.duels.group_names.index("ann")]
    assert noise > 2 * NOISE * 0.2, "likeliest, and not expected"
    wanted = expected_reduction(
        np.array([row["difference"]]), np.array([row["sd"] ** 2]), noise, MARGIN
    )
    assert row["information"] == pytest.approx(wanted[0], rel=1e-9)
    dear = {"ann": 100.0, "ben": 1.0, "cem": 1.0}
    asked = spg.settled(judged, 2, prices=dear).frame
    assert (asked["judge"][0], asked["price"][0]) == ("ben", 1.0)
    only = spg.settled(judged, 2, prices={"cem": 2}).frame
    assert set(only["judge"]) == {"cem"}
    path = tmp_path / "prices.csv"
    pd.DataFrame({"judge": list(dear), "price": list(dear.values())}).to_csv(path, index=False)
    pd.testing.assert_frame_equal(spg.settled(judged, 2, prices=path).frame, asked)
    picks = spg.suggest(judged, score="settle", top=2, batch=3, prices=path)
    assert set(picks.frame["judge"]) == {"ben"} and set(picks.frame["price"]) == {1.0}
    free = spg.suggest(judged, score="settle", top=2, batch=3)
    assert set(free.frame["judge"]) == {"ann"} and "price" not in free.frame
    assert "asked of the judge" in str(free) and "ann" in str(free)
    half = spg.suggest(judged, score="settle", top=2, prices={"ann": 4.0})
    assert half.frame["score"][0] == pytest.approx(free.frame["score"][0] / 4.0, rel=IDENTITY)


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ({"dan": 1.0}, "The prices have 'dan', who is no judge of the votes"),
        ({"ann": 0.0}, "The price of ann is 0.0; give a number, above 0"),
        ({}, "There are no prices"),
        (
            pd.DataFrame({"judge": ["ann", "cem"], "price": ["1", "much"]}),
            "The price of cem is 'much'; give a number",
        ),
        (pd.DataFrame({"judge": ["ann", "ann"], "price": [1, 2]}), "The prices have 'ann' twice"),
        (pd.DataFrame({"judge": ["ann"]}), "no column 'price'"),
    ],
)
def test_prices_that_make_no_sense(judged: spg.PreferenceGP, prices: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        judges_of(judged, prices)


def test_a_judge_of_one_vote_is_no_better_than_the_usual_one() -> None:
    """Though what is likeliest of his noise is what the prior says of all."""
    duels = spg.Duels(
        np.zeros((2, 0)),
        [0, 1, 0] * 40 + [0],
        [1, 0, 1] * 40 + [1],
        groups=["ann", "ben", "cem"] * 40 + ["once"],
    )
    model = spg.PreferenceGP(duels, spg.ItemEffect(), likelihood=spg.Probit(NOISE, by="judge"))
    names = model.duels.group_names
    ratios = {"ann": 2.0, "ben": 3.0, "cem": 4.0, "once": 1.0}
    model.likelihood.noise_ratio.assign([ratios[name] for name in names])
    noise = dict(zip(names, expected_noise(model) / (2 * NOISE), strict=True))
    usual = 24.0 ** (40 / 121)
    open_still = 1.0 / 1.152
    assert noise["once"] == pytest.approx(np.exp(open_still * (np.log(usual) + 0.5)), rel=1e-9)
    assert noise["once"] > usual and min(noise, key=noise.__getitem__) == "ann"
    gpflow.set_trainable(model.likelihood.noise_ratio, False)
    np.testing.assert_allclose(expected_noise(model), model.likelihood.of_judges[0])


def test_of_few_items_all_but_one_are_the_first_ones() -> None:
    few = spg.PreferenceGP(spg.Duels(np.eye(3), [0, 1, 0], [1, 2, 2]), gpflow.kernels.Linear())
    assert set(spg.settled(few).first) == {0, 1}
    assert "who the first 2 are" in spg.suggest(few, score="settle").meaning
    alone = spg.PreferenceGP(spg.Duels(np.eye(2), [0], [1]), gpflow.kernels.Linear())
    with pytest.raises(ValueError, match="No two items can be told apart"):
        spg.settled(alone, items=np.ones((2, 2)))


def test_mistakes(model: spg.PreferenceGP) -> None:
    with pytest.raises(ValueError, match=r"only 7 items .* at most 6 \(--top, top=\)"):
        spg.settled(model, 7)
    with pytest.raises(ValueError, match=r"top is 7, but there are only 7 items"):
        spg.suggest(model, score="settle", top=7)
    with pytest.raises(ValueError, match="top is 0; give a whole number, at least 1"):
        spg.settled(model, 0)
    with pytest.raises(ValueError, match="draws is 99"):
        spg.settled(model, 2, draws=99)
    with refused("prices", "one_noise"):
        spg.settled(model, 2, prices={"ann": 1.0})
    with refused("not_settle", "top"):
        spg.suggest(model, top=3)
    with refused("not_settle", "of_prices"):
        spg.suggest(model, score="eubo", prices={"ann": 1.0})


# ---- asking ------------------------------------------------------------------------------------


def test_a_batch_is_what_loops_choose() -> None:
    model = made(margin=None)
    utility, covariance = both(model)
    found = spg.suggest(model, score="settle", top=2, batch=4)
    expected = slow.settle_batch(utility, covariance, 2.0 * NOISE, 4, 2)
    names = model.duels.item_ids
    chosen = [{names[i], names[j]} for i, j, _ in expected]
    assert [{*pair} for pair in found.frame[["first", "second"]].to_numpy()] == chosen
    np.testing.assert_allclose(found.frame["score"], [gain for *_, gain in expected], rtol=1e-6)
    assert "doubt about who the first 2 are" in str(found)
    assert found.looked_at == 21


def test_of_a_list_and_of_many(model: spg.PreferenceGP, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = pd.DataFrame({"first": ["m0", "m1", "m5"], "second": ["m1", "m2", "m6"]})
    found = spg.suggest(model, pairs=pairs, score="settle", top=2, batch=3)
    assert found.looked_at == 3 and found.candidates == 5
    few = spg.suggest(model, score="settle", top=2, max_pairs=10)
    assert few.looked_at == 10 and "5 items most likely among the first 2" in few.chosen
    assert set(few.frame["first"]) | set(few.frame["second"]) <= {"m0", "m1", "m2", "m3", "m4"}
    # However many pairs are looked at at a time.
    whole = spg.suggest(model, score="settle", top=2, batch=3)
    monkeypatch.setattr("sparse_prefgp.analysis.settling._AT_ONCE", 1)
    pd.testing.assert_frame_equal(
        spg.suggest(model, score="settle", top=2, batch=3).frame, whole.frame, rtol=1e-12
    )
    assert spg.settled(model, 2).chances == spg.settled(model, 2).chances
