"""Ties that tell only the margin: utilities from decided duels, the margin afterwards."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest
from scipy import optimize, stats

import sparse_prefgp as spg
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.learning.ties import fit_tie_margin
from tests.together import refused
from tests.tolerances import FIXED_POINT, IDENTITY

RNG = np.random.default_rng(5)
X = RNG.normal(size=(9, 2))
FIRST, SECOND = RNG.permuted(np.tile(np.arange(9), (80, 1)), axis=1)[:, :2].T
AHEAD = (X[FIRST] - X[SECOND]).sum(1) + RNG.normal(size=80)
BY_MARGIN = np.abs(AHEAD) < 0.6
BY_COIN = RNG.uniform(size=80) < 0.3
WINNER, LOSER = np.where(AHEAD > 0, FIRST, SECOND), np.where(AHEAD > 0, SECOND, FIRST)
JUDGE = np.where(np.arange(80) % 2, "Ann", "Ben")


def margin_only(by: str | None = None) -> spg.Probit:
    return spg.Probit(by=by, margin=0.3, ties="margin-only")


def model_of(tied: np.ndarray, **more: Any) -> spg.PreferenceGP:
    given = {"likelihood": margin_only(), **more}
    duels = spg.Duels(X, WINNER, LOSER, ties=tied, groups=JUDGE)
    return spg.PreferenceGP(duels, gpflow.kernels.Linear(), **given)


def log_likelihood(model: spg.PreferenceGP, tied: np.ndarray, margin: float) -> float:
    """Of tied or not, a duel at a time."""
    total = 0.0
    both = [x.numpy() for x in model.predict_difference(X[WINNER], X[LOSER])]
    for mean, variance, tie, who in zip(*both, tied, JUDGE, strict=True):
        ratio = 1.0
        if model.likelihood.noise_ratio is not None:
            place = model.duels.group_names.index(who)
            ratio = float(model.likelihood.noise_ratio.numpy()[place])
        normal = stats.norm(mean, np.sqrt(variance + ratio))
        p = normal.cdf(margin) - normal.cdf(-margin)
        total += np.log(p if tie else 1.0 - p)
    return total


def test_utilities_are_those_of_the_decided_duels():
    plain = spg.PreferenceGP(
        spg.Duels(X, WINNER[~BY_MARGIN], LOSER[~BY_MARGIN]), gpflow.kernels.Linear()
    )
    model = model_of(BY_MARGIN)
    assert model.log_evidence() == pytest.approx(plain.log_evidence(), abs=IDENTITY)
    for mine, theirs in zip(model.predict_f(X), plain.predict_f(X), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=IDENTITY)
    assert not model.likelihood.margin.trainable
    assert model.num_duels_used == int((~BY_MARGIN).sum())
    assert model.lower_bound() == pytest.approx(plain.lower_bound(), abs=IDENTITY)


def test_the_margin_knows_what_is_said_of_the_duels():
    """Of a duel decided by its covariate, utilities alone would say that it should be a tie."""
    side = np.where(np.arange(80) % 3, 2.0, -2.0)
    duels = spg.Duels(
        X,
        WINNER,
        LOSER,
        ties=BY_MARGIN,
        labels={"judge": JUDGE},
        covariates=side[:, None],
        covariate_names=["side"],
    )
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.Linear(),
        terms=[spg.Lean("side")],
        likelihood=margin_only(),
    )
    found = fit_tie_margin(model)
    asked = X[WINNER], X[LOSER], side[:, None], {"judge": JUDGE}
    mean, variance = (x.numpy() for x in model.predict_difference(*asked))
    normal = stats.norm(mean, np.sqrt(variance + 1.0))

    def loss(d: float) -> float:
        p = normal.cdf(d) - normal.cdf(-d)
        return -float(np.log(np.where(BY_MARGIN, p, 1.0 - p)).sum())

    best = optimize.minimize_scalar(
        loss, bounds=(0.01, 5.0), method="bounded", options={"xatol": 1e-9}
    )
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-6)


@pytest.mark.covering("False")
@pytest.mark.parametrize("by_group", [False, True])
def test_the_margin_is_the_most_likely_one(by_group):
    model = model_of(BY_MARGIN, likelihood=margin_only("judge" if by_group else None))
    if by_group:
        model.likelihood.noise_ratio.assign([0.5, 2.0])
    found = fit_tie_margin(model)
    best = optimize.minimize_scalar(
        lambda d: -log_likelihood(model, BY_MARGIN, d), bounds=(0.01, 5.0), method="bounded"
    )
    assert found.margin == pytest.approx(best.x, rel=1e-3)
    assert found.log_likelihood == pytest.approx(-best.fun, abs=FIXED_POINT)
    assert not found.is_constant and model.likelihood.tie_share is None
    share = BY_MARGIN.mean()
    n = len(BY_MARGIN)
    constant = n * (share * np.log(share) + (1.0 - share) * np.log(1.0 - share))
    assert found.log_likelihood_of_share == pytest.approx(constant)


def test_probabilities_by_the_formula():
    model = model_of(BY_MARGIN)
    found = fit_tie_margin(model)
    mean, variance = (x.numpy() for x in model.predict_difference(X[:4], X[4:8]))
    sd = np.sqrt(variance + 1.0)
    tie = stats.norm.cdf((found.margin - mean) / sd) - stats.norm.cdf((-found.margin - mean) / sd)
    expected = [
        (1.0 - tie) * stats.norm.cdf(mean / sd),
        tie,
        (1.0 - tie) * stats.norm.sf(mean / sd),
    ]
    outcome = model.predict_outcome(X[:4], X[4:8]).numpy()
    np.testing.assert_allclose(outcome.T, expected, atol=IDENTITY)
    pairs = Answers.between(np.arange(4), np.arange(4, 8))
    np.testing.assert_allclose(model.predict(pairs, X).p, outcome, atol=IDENTITY)


def test_ties_by_a_coin_have_one_share():
    model = model_of(BY_COIN)
    found = fit_tie_margin(model)
    assert found.is_constant
    outcome = model.predict_outcome(X[:4], X[4:8]).numpy()
    np.testing.assert_allclose(outcome[:, 1], BY_COIN.mean(), atol=IDENTITY)
    np.testing.assert_allclose(outcome.sum(1), 1.0, atol=IDENTITY)


@pytest.mark.slow
def test_optimise_ends_by_the_margin_and_files_keep_it(tmp_path):
    for tied in (BY_MARGIN, BY_COIN):
        model = model_of(tied)
        spg.optimise(model, max_iterations=5)
        after = fit_tie_margin(model)
        assert model.likelihood.margin.numpy() == pytest.approx(after.margin, rel=1e-6)
        assert (model.likelihood.tie_share is not None) == after.is_constant
        spg.save(model, tmp_path / "model")
        again = spg.load(tmp_path / "model")
        np.testing.assert_array_equal(
            again.predict_outcome(X[:4], X[4:8]), model.predict_outcome(X[:4], X[4:8])
        )


def test_what_it_has_no_meaning_for_is_refused():
    duels = spg.Duels(X, FIRST, SECOND, grades=np.where(BY_MARGIN, 0, 2))
    with refused("margin_only", "grades"):
        spg.PreferenceGP(duels, gpflow.kernels.Linear(), likelihood=margin_only())
    with refused("margin_only", "duels_without_ties"):
        wins = spg.Duels(X, WINNER, LOSER)
        spg.PreferenceGP(wins, gpflow.kernels.Linear(), likelihood=margin_only())
    with pytest.raises(ValueError, match="ties is 'coin'; choose from box, margin-only"):
        spg.Probit(margin=0.3, ties="coin")
    with refused("margin_only", "own_cuts"):
        by_judge = spg.Probit(by="judge", margin=0.3, cuts_by="judge", ties="margin-only")
        model_of(BY_MARGIN, likelihood=by_judge)
    with refused("margin_only", "labels"):
        model_of(BY_MARGIN, approximation=spg.PITC([0] * 80))
    with refused("ties_in_utilities", "tie_margin"):
        fit_tie_margin(model_of(BY_MARGIN, likelihood=spg.Probit(margin=0.3)))
    with refused("logistic", "margin_only"):
        model_of(BY_MARGIN, engine=spg.Laplace(link="logit"))
    model = model_of(BY_MARGIN)
    with refused("margin_only", "worth"):
        spg.suggest(model, rng=np.random.default_rng(0))
    with refused("margin_only", "worth"):
        spg.check_against_sampling(model, rng=np.random.default_rng(0))
