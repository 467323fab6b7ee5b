"""Choices and rankings that models predict."""

from __future__ import annotations

from itertools import permutations

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, RANKING, Answers, Codes
from tests.together import apart
from tests.tolerances import IDENTITY


@pytest.fixture(scope="module")
def items() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((9, 2))


@pytest.fixture(scope="module")
def said() -> Answers:
    """Twelve choices among three, rankings of four, of two judges."""
    rng = np.random.default_rng(1)
    sides = [rng.permutation(9)[:k] for k in (3,) * 12 + (4,) * 6]
    return Answers(
        np.concatenate(sides),
        np.append(0, np.cumsum([len(side) for side in sides])),
        kind=np.array([CHOICE] * 12 + [RANKING] * 6, np.int8),
        judge=Codes.of(["Ann", "Ben"] * 9),
    )


@pytest.fixture(scope="module")
def model(items: np.ndarray, said: Answers) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        spg.Duels.from_events(items, said),
        gpflow.kernels.SquaredExponential(variance=2.0),
        approximation=spg.VFE(),
        inducing_variable=items[:6],
        likelihood=spg.Probit(by="judge"),
    )


def drawn(model: spg.PreferenceGP, rows: np.ndarray, number: int = 400_000) -> np.ndarray:
    """Utilities with noise, (number, k), of one look at a set."""
    mean, covariance = model.predict_f(rows, full_cov=True)
    rng = np.random.default_rng(3)
    root = np.linalg.cholesky(covariance.numpy()[0] + 1e-9 * np.eye(len(rows)))
    noise = np.sqrt(0.5) * rng.standard_normal((number, len(rows)))
    return mean.numpy()[:, 0] + rng.standard_normal((number, len(rows))) @ root.T + noise


@pytest.fixture(scope="module")
def plain(items: np.ndarray, said: Answers) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        spg.Duels.from_events(items, said),
        gpflow.kernels.SquaredExponential(variance=2.0),
        approximation=spg.Exact(),
    )


def test_shares_of_draws(plain: spg.PreferenceGP, items: np.ndarray) -> None:
    y = drawn(plain, items[:4])
    best = np.bincount(y.argmax(1), minlength=4) / len(y)
    error = np.sqrt(best * (1 - best) / len(y))
    by_points = plain.predict_choice(items[None, :4], method="points", points=4096).numpy()[0]
    assert np.all(np.abs(by_points - best) < 5.0 * error)
    by_ep = plain.predict_choice(items[None, :4]).numpy()[0]
    np.testing.assert_allclose(by_ep.sum(), 1.0, rtol=IDENTITY)
    assert np.abs(by_ep - by_points).max() < 0.004


def test_all_rankings_add_up(plain: spg.PreferenceGP, items: np.ndarray) -> None:
    orders = np.array(list(permutations(range(4))))
    kind = np.full(24, RANKING, np.int8)
    every = Answers(orders.reshape(-1), np.arange(0, 97, 4), kind=kind)
    assert abs(plain.predict(every).p.sum() - 1.0) < 0.005


def test_a_set_of_two_is_a_duel(model: spg.PreferenceGP, items: np.ndarray) -> None:
    pairs = np.stack([items[:4], items[5:]], 1)
    for groups in (None, "Ann", ["Ann", "Ben", None, "Ann"]):
        won = model.predict_duel(pairs[:, 0], pairs[:, 1], groups=groups).numpy()
        for method in ("ep", "points"):
            found = model.predict_choice(pairs, groups=groups, method=method).numpy()
            np.testing.assert_allclose(found, np.stack([won, 1.0 - won], 1), rtol=1e-9)


def test_sets_of_different_sizes(plain: spg.PreferenceGP, items: np.ndarray) -> None:
    X = np.stack([items[:4], items[4:8]])
    mask = np.array([[True, True, True, False], [True, False, True, True]])
    found = plain.predict_choice(X, mask).numpy()
    np.testing.assert_allclose(found[0, :3], plain.predict_choice(X[:1, :3]).numpy()[0], rtol=1e-9)
    alone = plain.predict_choice(X[1:, [0, 2, 3]]).numpy()[0]
    np.testing.assert_allclose(found[1, [0, 2, 3]], alone, rtol=1e-9)
    assert found[0, 3] == found[1, 1] == 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.zeros((3, 2))}, r"X has shape \(3, 2\); give \(b, k, D\)"),
        ({"mask": np.ones((1, 4))}, "mask has shape .* float64 for 1 sets of 4"),
        ({"mask": np.zeros((1, 4), bool)}, "Set 0 has no alternative"),
        ({"method": "exact"}, "method is 'exact'; choose from ep, points"),
        ({"method": "points", "points": 100}, "points is 100; give a power of two"),
        ({"covariates": np.zeros((1, 4, 1))}, r"covariates has shape \(1, 4, 1\)"),
        ({"groups": "Ann"}, apart("groups", "one_noise")),
    ],
)
def test_refused(plain: spg.PreferenceGP, items: np.ndarray, change: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plain.predict_choice(**{"X": items[None, :4], **change})
