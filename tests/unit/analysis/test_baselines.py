"""The linear probit baseline and the coin."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis.baselines import BradleyTerry, Coin, LinearProbit, _probit_derivatives
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.splits import split_duels
from sparse_prefgp.io import read_table


@pytest.fixture
def simulated():
    rng = np.random.default_rng(3)
    weights = np.array([1.0, -0.5, 0.0])
    x = rng.normal(size=(2000, 3))
    x *= np.where(x @ weights + rng.normal(size=2000) > 0, 1.0, -1.0)[:, None]
    return x, weights


def test_finds_the_weights(simulated):
    x, weights = simulated
    model = LinearProbit.fit(x)
    np.testing.assert_allclose(model.weights, weights, atol=0.12)
    assert len(model.cross_validation) == 8
    losses = dict(model.cross_validation)
    assert losses[model.prior_width] == min(losses.values())


def test_is_the_maximum(simulated):
    x, _ = simulated
    model = LinearProbit.fit(x[:50], widths=[0.3])
    assert model.prior_width == 0.3

    def loss(w):
        return -log_ndtr(x[:50] @ w).sum() + 0.5 * w @ w / 0.09

    best = minimize(loss, np.zeros(3), tol=1e-10)
    np.testing.assert_allclose(model.weights, best.x, atol=1e-5)


def test_counts_are_repeats(simulated):
    x, _ = simulated
    counts = np.arange(200) % 3 + 1
    merged = LinearProbit.fit(x[:200], counts, widths=[1.0])
    repeated = LinearProbit.fit(np.repeat(x[:200], counts, axis=0), widths=[1.0])
    np.testing.assert_allclose(merged.weights, repeated.weights, rtol=1e-8)


def test_separable_and_far_tails_stay_finite():
    x = np.array([[1e6], [2e6], [-1e6], [3e6]])
    model = LinearProbit.fit(x, widths=[30.0])
    assert np.isfinite(model.weights).all()
    assert np.isfinite(model.predict_log_proba(np.array([[-1e6]]))).all()
    assert np.isfinite(LinearProbit.fit(np.ones((40, 2))).weights).all()
    assert np.isfinite(LinearProbit.fit(np.ones((1, 2))).weights).all()


def test_derivatives_in_the_tail():
    a = np.array([-1e8, -30.1, -29.9, -3.0, 0.0, 40.0])
    ratio, curvature = _probit_derivatives(a)
    assert (curvature[:-1] > 0).all() and (curvature <= 1).all() and curvature[-1] < 1e-300
    assert ratio[0] == pytest.approx(1e8) and ratio[4] == pytest.approx(np.sqrt(2 / np.pi))
    # 1 - 1/a^2 + 6/a^4 - 50/a^6 is exact to rounding on either side of the change of form.
    np.testing.assert_allclose(
        curvature[1:3], 1 - a[1:3] ** -2 + 6 * a[1:3] ** -4 - 50 * a[1:3] ** -6, rtol=1e-9
    )


def test_covariates_are_columns():
    rng = np.random.default_rng(0)
    items, sides = rng.normal(size=(8, 2)), rng.integers(8, size=(200, 2))
    sides = sides[sides[:, 0] != sides[:, 1]]
    said = 3.0 * rng.normal(size=(len(sides), 1))
    ahead = (items[sides[:, 0]] - items[sides[:, 1]])[:, 0] + said[:, 0] / 2 > 0
    won, lost = np.where(ahead[:, None], sides, sides[:, ::-1]).T
    said = np.where(ahead[:, None], said, -said)
    duels = Duels(items, won, lost, covariates=said, covariate_names=["first"])
    found = LinearProbit.of(duels, np.random.default_rng(1))
    scale = np.sqrt(np.mean(said**2))
    by_hand = LinearProbit.fit(
        np.column_stack([items[won] - items[lost], said / scale]), rng=np.random.default_rng(1)
    )
    assert found.covariate_names == ("first",)
    np.testing.assert_allclose(found.weights, by_hand.weights[:2], rtol=1e-9)
    np.testing.assert_allclose(found.covariate_weights, by_hand.weights[2:] / scale, rtol=1e-9)
    apart = items[won] - items[lost]
    np.testing.assert_allclose(
        found.predict_log_proba(apart, said),
        by_hand.predict_log_proba(np.column_stack([apart, said / scale])),
        rtol=1e-9,
    )
    held_at_0 = found.predict_log_proba(apart)
    np.testing.assert_array_equal(held_at_0, found.predict_log_proba(apart, 0.0 * said))
    with pytest.raises(ValueError, match=r"covariates has shape \(\d+, 2\)"):
        found.predict_log_proba(apart, np.column_stack([said, said]))


def test_coin():
    np.testing.assert_array_equal(Coin().predict_log_proba(np.zeros((3, 2))), np.log(0.5))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(differences=np.empty((0, 2))), "at least one duel"),
        (dict(differences=[[np.nan]]), "nan in row 0"),
        (dict(differences=[[1.0]], counts=[0]), "0.0 in duel 0"),
        (dict(differences=[[1.0]], counts=[1, 1]), "1 duels"),
        (dict(differences=[[1.0]], widths=[-1.0]), "all positive"),
        (dict(differences=[[1.0]], folds=1), "at least 2"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(ValueError, match=words):
        LinearProbit.fit(**arguments)


def test_wrong_number_of_columns():
    with pytest.raises(ValueError, match=r"\(k, 2\)"):
        LinearProbit.fit(np.ones((3, 2))).predict_log_proba(np.ones((3, 1)))


def test_real_duels_with_people_held_out(data_dir):
    folder = data_dir / "ev_choice_us"
    table = read_table(folder / "items.csv", folder / "duels.csv.gz")
    nats = []
    for seed in range(5):
        split = split_duels(table, "group:person", 0.2, np.random.default_rng(seed))
        train = table.to_duels(split.train_rows, only_compared=True)
        test = table.to_duels(split.test_rows, transform=train.transform, only_compared=True)
        model = LinearProbit.fit(train.differences(), train.counts)
        log_p = model.predict_log_proba(test.differences())
        nats.append(score(log_p, counts=test.counts)["nlp_nats"])
    # A linear logistic model gets 0.456 to 0.492 depending on the people drawn.
    assert 0.45 < np.mean(nats) < 0.50


def test_the_width_is_chosen_on_some_of_many_duels(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    x *= np.sign(x @ [1.0, 0.5, 0.0, -1.0] + rng.normal(size=3000))[:, None]
    whole = LinearProbit.fit(x)
    monkeypatch.setattr("sparse_prefgp.analysis.linear_losses.MOST_WORK", 16_000)
    some = LinearProbit.fit(x)
    assert [width for width, _ in some.cross_validation] == [w for w, _ in whole.cross_validation]
    assert some.cross_validation != whole.cross_validation
    np.testing.assert_allclose(some.weights, whole.weights, rtol=0.05, atol=0.02)


def test_strengths_of_bradley_and_terry_are_the_maximum() -> None:
    rng = np.random.default_rng(4)
    winner = rng.integers(0, 7, 90)
    loser = (winner + rng.integers(1, 7, 90)) % 7
    home = rng.choice([-2.0, 0.0, 2.0], (90, 1))
    duels = spg.Duels(
        np.zeros((9, 0)), winner, loser, counts=rng.integers(1, 4, 90), covariates=home
    )
    found = BradleyTerry.of(duels)
    counts = duels.events.totals

    def minus_log(values: np.ndarray) -> float:
        total = 0.0
        said = duels.events.covariate_differences[:, 0] / np.sqrt(
            np.mean(duels.events.covariate_differences[:, 0] ** 2)
        )
        for (a, b), count, x in zip(duels.events.pairs, counts, said, strict=True):
            total += count * np.log1p(np.exp(-(values[a] - values[b] + x * values[9])))
        for value in values:
            total += 0.5 * np.log1p(np.exp(-value)) + 0.5 * np.log1p(np.exp(value))
        return total

    spread = np.sqrt(np.mean(duels.events.covariate_differences[:, 0] ** 2))
    best = np.append(found.strengths, found.covariate_weights * spread)
    assert found.strengths[7] == found.strengths[8] == 0.0  # of whom nothing is known
    for step in np.eye(10) * 1e-3:
        assert minus_log(best) <= min(minus_log(best + step), minus_log(best - step))
    log_p = found.predict_log_proba([[0, 1], [1, 0], [0, 99]], np.zeros((3, 1)))
    assert np.exp(log_p[:2]).sum() == pytest.approx(1.0, abs=1e-12)
    assert np.exp(log_p[2]) == pytest.approx(1.0 / (1.0 + np.exp(-best[0])), abs=1e-12)
