"""Choices and rankings that models predict."""

from __future__ import annotations

from itertools import permutations

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.answers import BEST_WORST, CHOICE, RANKING, TOP, Answers, Codes
from sparse_prefgp.models import choosing
from tests.together import apart
from tests.tolerances import IDENTITY, ROUNDING


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
        noise_by_group=True,
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
    order = y.argsort(1)[:, ::-1]
    ranked = np.mean(np.all(order == [2, 0, 3, 1], 1))
    found = float(np.exp(plain.predict_ranking(items[None, [2, 0, 3, 1]], method="points"))[0])
    assert abs(found - ranked) < 5.0 * np.sqrt(ranked / len(y)) + 3e-4


def test_all_rankings_add_up(plain: spg.PreferenceGP, items: np.ndarray) -> None:
    orders = np.array(list(permutations(range(4))))
    every = np.exp(plain.predict_ranking(items[orders], method="points", points=2048).numpy())
    assert abs(every.sum() - 1.0) < 1e-3  # of 24, each to 1e-4 or so
    by_ep = np.exp(plain.predict_ranking(items[orders]).numpy())
    assert np.abs(by_ep - every).max() < 0.002


def test_a_set_of_two_is_a_duel(model: spg.PreferenceGP, items: np.ndarray) -> None:
    pairs = np.stack([items[:4], items[5:]], 1)
    for groups in (None, "Ann", ["Ann", "Ben", None, "Ann"]):
        won = model.predict_duel(pairs[:, 0], pairs[:, 1], groups=groups).numpy()
        for method in ("ep", "points"):
            found = model.predict_choice(pairs, groups=groups, method=method).numpy()
            np.testing.assert_allclose(found, np.stack([won, 1.0 - won], 1), rtol=1e-9)
        ranked = np.exp(model.predict_ranking(pairs, groups=groups).numpy())
        np.testing.assert_allclose(ranked, won, rtol=1e-9)


def test_sets_of_different_sizes(plain: spg.PreferenceGP, items: np.ndarray) -> None:
    X = np.stack([items[:4], items[4:8]])
    mask = np.array([[True, True, True, False], [True, False, True, True]])
    found = plain.predict_choice(X, mask).numpy()
    np.testing.assert_allclose(found[0, :3], plain.predict_choice(X[:1, :3]).numpy()[0], rtol=1e-9)
    alone = plain.predict_choice(X[1:, [0, 2, 3]]).numpy()[0]
    np.testing.assert_allclose(found[1, [0, 2, 3]], alone, rtol=1e-9)
    assert found[0, 3] == found[1, 1] == 0.0
    ranked = plain.predict_ranking(X[:1], mask[:1]).numpy()
    np.testing.assert_allclose(ranked, plain.predict_ranking(X[:1, :3]).numpy(), rtol=1e-9)


def test_answers_between_known_rows(model: spg.PreferenceGP, items: np.ndarray) -> None:
    answers = Answers(
        np.array([3, 1, 4, 0, 2, 5, 7, 6, 8, 1, 2, 3]),
        np.array([0, 3, 5, 9, 12]),
        kind=np.array([CHOICE, RANKING, TOP, BEST_WORST], np.int8),
        ordered=np.array([0, 0, 2, 0]),
    )
    groups = np.array(["Ann", "Ben", "Ann", "Ben"], object)
    found = model.log_answers(items, answers, groups)
    chosen = np.log(model.predict_choice(items[None, [3, 1, 4]], groups="Ann").numpy()[0, 0])
    np.testing.assert_allclose(found[0], chosen, rtol=1e-9)
    ranked = model.predict_ranking(items[None, [0, 2]], groups="Ben").numpy()[0]
    np.testing.assert_allclose(found[1], ranked, rtol=1e-9)
    # The first two of four in order: one of the two rankings that say so, or the other.
    both = items[np.array([[5, 7, 6, 8], [5, 7, 8, 6]])]
    every = model.predict_ranking(both, groups="Ann", method="points", points=4096).numpy()
    assert abs(np.exp(found[2]) - np.exp(every).sum()) < 0.003
    shares = model.log_choices(items, answers, groups)
    assert shares.shape == (4, 4) and np.all(shares[0, 3:] == -np.inf)
    np.testing.assert_allclose(np.exp(shares).sum(1), 1.0, rtol=1e-9)


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


def test_a_ranking_without_gaps_alone(plain: spg.PreferenceGP, items: np.ndarray) -> None:
    with pytest.raises(ValueError, match="mask has gaps"):
        plain.predict_ranking(items[None, :3], np.array([[True, False, True]]))


def test_sets_at_a_time_do_not_matter(
    model: spg.PreferenceGP, items: np.ndarray, said: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said.judge is not None

    def every() -> list[np.ndarray]:
        return [f(items, said, said.judge.labels) for f in (model.log_choices, model.log_answers)]

    whole = every()
    monkeypatch.setattr(choosing, "_AT_ONCE", 7 * 2 * 4**2)
    for found, expected in zip(every(), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING)
