"""Elo's ratings with learned constants, against twenty plain lines."""

from __future__ import annotations

import numpy as np
import pytest

from sparse_prefgp.analysis.elo import Elo, _run
from sparse_prefgp.data.answers import TIE, WIN, Answers


def _drawn(ties: bool, seed: int = 0) -> Answers:
    rng = np.random.default_rng(seed)
    n, t = 6, 300
    strength = rng.normal(size=n)
    first = rng.integers(n, size=t)
    second = (first + rng.integers(1, n, size=t)) % n
    home = rng.integers(-1, 2, size=t).astype(float)
    ahead = strength[first] - strength[second] + 0.4 * home + rng.logistic(size=t)
    tied = (np.abs(ahead) < 0.5) & ties
    swapped = ahead < 0
    columns = np.where(swapped, -home, home)[:, None]
    date = np.sort(rng.integers(80, size=t)).astype(float)
    sides = np.where(swapped, second, first), np.where(swapped, first, second)
    return Answers.between(
        *sides,
        kind=np.where(tied, TIE, WIN).astype(np.int8),
        time=date,
        counts=rng.integers(1, 3, size=t),
        covariates=columns,
        covariate_names=["home"],
    )


def _plainly(matches: Answers, rate: float, home: float, tie: float) -> np.ndarray:
    """(t, 3) forecasts, a date ahead."""
    ratings: dict[int, float] = {}
    forecasts = []
    for date in np.unique(matches.time):
        before = dict(ratings)
        for i in np.flatnonzero(matches.time == date):
            a, b = matches.pairs[i]
            d = before.get(a, 0.0) - before.get(b, 0.0) + home * matches.covariate_differences[i, 0]
            p = np.array([np.exp(d / 2), tie, np.exp(-d / 2)])
            p /= p.sum()
            forecasts.append(p)
            score = 0.5 if matches.kind[i] == TIE else 1.0
            move = rate * matches.counts[i] * (score - p[0] - p[1] / 2)
            ratings[a], ratings[b] = ratings.get(a, 0.0) + move, ratings.get(b, 0.0) - move
    return np.array(forecasts)


@pytest.mark.parametrize("ties", [False, True])
def test_forecasts_are_those_of_twenty_lines(ties):
    matches, tie = _drawn(ties), 0.6 if ties else 0.0
    elo = Elo(0.3, np.array([0.4]), tie, np.zeros(6))
    forecasts = elo.ahead(matches)
    np.testing.assert_allclose(forecasts, _plainly(matches, 0.3, 0.4, tie), rtol=1e-12)
    first = np.flatnonzero(matches.time == matches.time[0])
    np.testing.assert_allclose(elo.frozen(matches)[first], forecasts[first], rtol=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_slopes_are_those_of_differences(ties):
    matches, at = _drawn(ties), np.array([-1.2, 0.3, -0.4][: 2 + ties])

    def loss(at):
        return _run(matches, at, ties, np.zeros(6), 100).loss

    slope = _run(matches, at, ties, np.zeros(6), 100).slope
    for j in range(len(at)):
        step = 1e-5 * np.eye(len(at))[j]
        assert slope[j] == pytest.approx((loss(at + step) - loss(at - step)) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("ties", [False, True])
def test_learned_constants_forecast_best(ties):
    matches = _drawn(ties)
    elo = Elo.learned(matches, 6)
    since = len(matches) // 2
    outcome = (matches.kind == TIE).astype(int)

    def nats(rate, home, tie):
        p = _plainly(matches, rate, home, tie)[np.arange(len(matches)), outcome]
        return -np.average(np.log(p)[since:], weights=matches.counts[since:])

    best = nats(elo.rate, elo.advantages[0], elo.tie)
    for step in (0.9, 1.1):
        assert nats(elo.rate * step, elo.advantages[0], elo.tie) > best
        assert nats(elo.rate, elo.advantages[0] * step, elo.tie) > best
        assert not ties or nats(elo.rate, elo.advantages[0], elo.tie * step) > best
    assert 0.1 < elo.advantages[0] < 0.9


def test_who_always_wins_breaks_nothing() -> None:
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.permuted(np.tile(np.arange(6), (300, 1)), axis=1)[:, :2], axis=1)
    matches = Answers.between(*pairs.T, time=np.arange(300.0))
    elo = Elo.learned(matches, 6)
    assert 0.0 < elo.rate <= 5.0 * (1 + 1e-12)
    np.testing.assert_allclose(elo.ahead(matches).sum(1), 1.0)
    assert np.all(np.isfinite(elo.ratings)) and np.all(np.isfinite(elo.frozen(matches)))
