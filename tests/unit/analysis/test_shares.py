"""Shares of new sets, against brute force and identities."""

from __future__ import annotations

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis import shares
from sparse_prefgp.analysis.shares import OVER_PEOPLE as PEOPLE
from sparse_prefgp.data.answers import CHOICE, Answers, Codes
from sparse_prefgp.factors import choice_probabilities
from sparse_prefgp.factors.choice_probabilities import independent_choice_log_probabilities
from tests.tolerances import IDENTITY, ROUNDING

DRAWS = 4000


@pytest.fixture(scope="module")
def items() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((8, 2))


def model_of(items: np.ndarray, judged: bool = False) -> spg.PreferenceGP:
    rng = np.random.default_rng(1)
    shown = np.stack([rng.permutation(8)[:3] for _ in range(15)])
    events = Answers(
        shown.reshape(-1),
        np.arange(16) * 3,
        kind=np.full(15, CHOICE, np.int8),
        judge=Codes.of(["Ann", "Ben", "Cem"] * 5, "judge") if judged else None,
    )
    duels = spg.Duels.from_events(items, events, item_ids=list("abcdefgh"))
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(variance=2.0),
        approximation=spg.VFE(),
        inducing_variable=items[:5],
        likelihood=spg.Probit(by="judge" if judged else None),
    )
    if judged:
        assert model.likelihood.noise_ratio is not None
        model.likelihood.noise_ratio.assign([0.5, 1.0, 4.0])
    return model


@pytest.fixture(scope="module")
def model(items: np.ndarray) -> spg.PreferenceGP:
    return model_of(items)


def test_shares_and_intervals_of_draws(model: spg.PreferenceGP, items: np.ndarray) -> None:
    """Utilities and noises drawn, and counted."""
    found = spg.shares(model, items[:3], draws=DRAWS, rng=np.random.default_rng(2))
    rng = np.random.default_rng(3)
    mean, covariance = model.predict_f(items[:3], full_cov=True)
    f = rng.multivariate_normal(mean.numpy()[:, 0], covariance.numpy()[0], 500)
    y = f[:, None, :] + np.sqrt(0.5) * rng.standard_normal((500, 4000, 3))
    share = np.stack([(y.argmax(2) == j).mean(1) for j in range(3)], 1)
    error = share.std(0) * np.sqrt(1 / 500 + 1 / DRAWS)
    assert np.all(np.abs(found.frame["share"] - share.mean(0)) < 5.0 * error)
    low, high = np.quantile(share, [0.05, 0.95], axis=0)
    assert np.abs(found.frame["lower"] - low).max() < 0.05
    assert np.abs(found.frame["upper"] - high).max() < 0.05
    np.testing.assert_allclose(found.frame["share"].sum(), 1.0, rtol=1e-9)
    # A mean of draws is the prediction, but for what few draws err by.
    by_points = model.predict_choice(items[None, :3], method="points", points=4096).numpy()[0]
    sd = found.frame["sd"].to_numpy()
    assert np.all(np.abs(found.frame["share"] - by_points) < 5.0 * sd / np.sqrt(DRAWS) + 3e-4)


def test_ids_tables_and_arrays_agree(model: spg.PreferenceGP, items: np.ndarray) -> None:
    by_ids = spg.shares(model, ["a", "b", "c"], draws=50).frame
    assert by_ids["item_id"].tolist() == ["a", "b", "c"]
    by_array = spg.shares(model, items[:3], draws=50).frame
    np.testing.assert_allclose(by_ids["share"], by_array["share"], rtol=1e-9)
    table = pd.DataFrame({"choice_set": [2, 1, 2, 1], "item_id": list("adbe")})
    two = spg.shares(model, table, draws=50)
    assert two.frame["item_id"].tolist() == list("adbe") and two.sets == (0, 1, 0, 1)
    np.testing.assert_allclose(two.frame.groupby("choice_set")["share"].sum(), 1.0, rtol=1e-9)
    wide = spg.shares(model, pd.DataFrame({"option_1": ["a"], "option_2": ["b"]}), draws=50)
    assert wide.frame["item_id"].tolist() == ["a", "b"] and "50 draws" in str(wide)


def test_what_is_known_has_narrow_intervals(items: np.ndarray) -> None:
    """Equal items have equal shares, of which nothing is unsure."""
    model = model_of(items)
    same = np.repeat(items[:1], 3, axis=0)
    found = spg.shares(model, same, draws=20).frame
    np.testing.assert_allclose(found["share"], 1.0 / 3.0, rtol=1e-9)
    np.testing.assert_allclose(found["sd"], 0.0, atol=1e-6)


def test_shares_of_known_and_of_unknown_people(items: np.ndarray) -> None:
    model = model_of(items, judged=True)
    table = pd.DataFrame(
        {"choice_set": [1, 1, 2, 2], "item_id": list("abab"), "judge": ["Ann", "Ann", "Cem", "Cem"]}
    )
    found = spg.shares(model, table, draws=2000).frame
    pair = items[None, :2]
    for who, rows in (("Ann", slice(0, 2)), ("Cem", slice(2, 4))):
        expected = model.predict_choice(pair, groups=who).numpy()[0]
        assert np.abs(found["share"].to_numpy()[rows] - expected).max() < 0.03
    nobody = spg.shares(model, table.drop(columns="judge"), draws=2000).frame
    expected = model.predict_choice(pair).numpy()[0]
    assert np.abs(nobody["share"].to_numpy()[:2] - expected).max() < 0.03


@pytest.fixture(scope="module")
def tastes(items: np.ndarray) -> spg.PreferenceGP:
    rng = np.random.default_rng(1)
    first = rng.integers(0, 8, 60)
    second = (first + rng.integers(1, 8, 60)) % 8
    duels = spg.Duels(items, first, second, people=np.arange(60) % 5, item_ids=list("abcdefgh"))
    kind = gpflow.kernels.SquaredExponential
    return spg.PreferenceGP(duels, kind(variance=1.0), terms=[spg.Taste(kind(variance=3.0))])


def test_how_sure_the_mean_share_is_and_how_people_differ(
    tastes: spg.PreferenceGP, items: np.ndarray
) -> None:
    found = spg.shares(tastes, items[:3], draws=1500, rng=np.random.default_rng(0))
    frame = found.frame
    # Brute force: chances of people, and the mean share over people, given what all share.
    rng = np.random.default_rng(2)
    mean, shared = (x.numpy() for x in tastes.consensus().predict_f(items[:3], full_cov=True))
    g = rng.multivariate_normal(mean[:, 0], shared[0], 3000)
    h = rng.multivariate_normal(np.zeros(3), tastes.terms.taste(items[:3]).numpy(), 3000)

    def chances(f: np.ndarray) -> np.ndarray:
        flat, half = f.reshape(-1, 3), np.full(f.size // 3, 0.5)
        logs = independent_choice_log_probabilities(flat, 0.0 * flat, half, flat == flat)
        return np.exp(logs).reshape(f.shape)

    of_all = chances(g[:80, None] + h[None, :80]).mean(1)
    for names, wanted in ((("lower", "upper"), of_all), (PEOPLE, chances(g + h))):
        ends = np.quantile(wanted, [0.05, 0.95], axis=0)
        for name, end in zip(names, ends, strict=True):
            np.testing.assert_allclose(frame[name], end, atol=0.08)
    by_points = tastes.predict_choice(items[None, :3], method="points", points=4096).numpy()[0]
    error = 4.0 * frame["sd"] / np.sqrt(1500) + 2e-3
    assert np.all(np.abs(frame["share"] - by_points) < error)
    assert np.all(frame["upper"] - frame["lower"] < frame[PEOPLE[1]] - frame[PEOPLE[0]])
    assert "how sure the share among all people is" in str(found)


def test_sets_at_a_time_do_not_matter(
    tastes: spg.PreferenceGP, items: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.DataFrame(
        {"option_1": list("abcd"), "option_2": list("efgh"), "person": [0, 7, 1, 7]}
    )
    some = (tastes, table), (tastes, items.reshape(4, 2, 2)), (model_of(items), table[:3])
    whole = [spg.shares(*one, draws=20).frame for one in some]
    monkeypatch.setattr(shares, "_NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr(choice_probabilities, "_AT_ONCE", 1)
    for one, expected in zip(some, whole, strict=True):
        found = spg.shares(*one, draws=20).frame
        pd.testing.assert_frame_equal(found, expected, rtol=ROUNDING, atol=ROUNDING)


def test_the_shares_of_one_person_have_one_interval(
    tastes: spg.PreferenceGP, items: np.ndarray
) -> None:
    view = spg.shares(tastes.of_person(1), items[:3], draws=50).frame
    assert PEOPLE[0] not in view
    nobody = spg.shares(tastes.of_person(None), items[:3], draws=50).frame
    alone = spg.shares(tastes, items[:3], draws=50).frame
    pd.testing.assert_frame_equal(nobody, alone)
    sets = pd.DataFrame({"choice_set": [1, 1, 1, 2, 2, 2, 2], "item_id": list("abcdefg")})
    beside = spg.shares(tastes, sets, draws=50).frame[:3]
    np.testing.assert_allclose(beside[list(alone)[2:]], alone[list(alone)[2:]], rtol=IDENTITY)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (["a"], {}, "There is one alternative"),
        (np.zeros((1, 2)), {}, r"shape \(1, 1, 2\); give \(k, D\)"),
        (["a", "zz"], {}, "'zz', which is not an item id"),
        (["a", "b"], {"draws": 1}, "draws is 1"),
        (["a", "b"], {"level": 1.5}, "1.5"),
        (pd.DataFrame({"item_id": ["a", "b"], "share": 1}), {}, "a column 'share'"),
    ],
)
def test_refused(model: spg.PreferenceGP, given: object, options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spg.shares(model, given, **options)
