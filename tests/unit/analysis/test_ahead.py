"""Scores one step ahead, from what a pass in time found."""

from __future__ import annotations

import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.models.questions import forecast_of
from tests.cases import assert_same_scores
from tests.tolerances import IDENTITY

RNG = np.random.default_rng(2)
DAYS = np.sort(RNG.integers(0, 900, 40)).astype(float)
PAIRS = np.array([RNG.permutation(5)[:2] for _ in DAYS])
TIED = np.arange(40) % 6 == 2


def duels(some: slice, ties: bool) -> spg.Duels:
    tied = TIED[some] if ties else None
    names = [str(i) for i in np.arange(40)[some] % 3]
    ends = PAIRS[some].T
    return spg.Duels(np.zeros((5, 0)), *ends, times=DAYS[some], ties=tied, groups=names)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.covering(every=2)
def test_scores_are_those_of_what_was_predicted_ahead(ties: bool) -> None:
    model = spg.PreferenceGP(
        duels(slice(0, 30), ties),
        spg.ItemInTime(spg.markov.Wiener(1.0, 0.5), "month"),
        likelihood=spg.Probit(by="judge", margin=0.3 if ties else None),
    )
    later = duels(slice(30, None), ties)
    found = spg.score_ahead(model, later, slices="day")
    pass_by = found.filtering
    tied = later.given.ties if ties else np.zeros(10, bool)
    assert found.num_duels == 10
    assert found.log_predictive == pass_by.log_predictive
    forecast = forecast_of(model, pass_by.mean, pass_by.variance, later.given.judge)
    logs = list(forecast.results.T)
    came = np.where(tied, logs[1], logs[0])
    np.testing.assert_allclose(came, pass_by.log_probabilities, rtol=0, atol=IDENTITY)
    winner = logs[0] - (np.logaddexp(logs[0], logs[2]) if ties else 0.0)
    assert_same_scores(found.scores, score(winner[~tied]))
    assert (found.nats, found.accuracy) == (found.scores["nlp_nats"], found.scores["accuracy"])
    if ties:
        expected = score(np.stack(logs, 1), tied.astype(int), of="outcomes")
        assert_same_scores(found.outcomes, expected)
    assert ("10 duels in" in str(found)) and found.to_dict()["num_duels"] == 10
    whole = spg.score_ahead(model)
    assert whole.num_duels == 30 and whole.log_predictive > 30 * np.log(0.2)


def test_without_a_winner_there_is_nothing_to_score() -> None:
    model = spg.PreferenceGP(
        duels(slice(0, 30), True),
        spg.ItemInTime(spg.markov.Wiener(), "month"),
        likelihood=spg.Probit(margin=0.3),
    )
    later = spg.Duels(np.zeros((5, 0)), [0], [1], times=[1000.0], ties=[True], groups=["0"])
    with pytest.raises(ValueError, match=r"all ties.*do not go together"):
        spg.score_ahead(model, later)


def test_rankings_are_of_a_date() -> None:
    model = spg.PreferenceGP(
        duels(slice(0, 40), False), spg.ItemInTime(spg.markov.Wiener(1.0, 0.5), "month")
    )
    for at in (None, DAYS[20]):
        more = {} if at is None else {"at": at}
        found = spg.rank(model, samples=100, **more).frame.set_index("item_id")
        active = model.in_time.active(at)
        assert sorted(found.index) == sorted(active)
        rows = model.inputs.of_items(active, at=DAYS[-1] if at is None else at)
        mean, covariance = (np.asarray(x) for x in model.predict_f(rows, full_cov=True))
        centre = np.eye(len(active)) - 1.0 / len(active)
        utility, sd = found.loc[active, "utility"], found.loc[active, "sd"]
        np.testing.assert_allclose(utility, centre @ mean[:, 0], rtol=0, atol=IDENTITY)
        variance = np.diag(centre @ covariance[0] @ centre)
        np.testing.assert_allclose(sd**2, variance, rtol=0, atol=IDENTITY)
    early = spg.rank(model.in_time.at(DAYS[20]), samples=100, top_k=1)
    assert early.averaged.startswith("Utilities are those of 19")
