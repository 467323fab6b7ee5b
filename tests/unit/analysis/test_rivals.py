"""Linear rivals against loops over sets and duels, and against published figures."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special
from scipy.optimize import minimize
from scipy.special import log_ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis import rivals
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.analysis.rivals import (
    KNOWS_NOTHING,
    bradley_terry,
    features_of_people,
    linear_probit,
    loss_of,
    probit_derivatives,
    probit_of,
)
from sparse_prefgp.data.answers import (
    BEST_WORST,
    BEST_WORST_AT_ONCE,
    CHOICE,
    KINDS,
    RANKING,
    TIE,
    TOP,
    WIN,
    Answers,
    Codes,
    Covariates,
)
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.splits import split_duels
from sparse_prefgp.io import read_duels
from tests.reference import slow_choices
from tests.together import refused
from tests.tolerances import FIXED_POINT, IDENTITY, ROUNDING

DATA = Path(os.environ.get("SPARSE_PREFGP_DATA", "../shared/data"))


@pytest.fixture
def simulated():
    """Ragged sets of rows in any order: features, set and chosen."""
    rng = np.random.default_rng(5)
    sets = np.repeat(np.arange(150), rng.integers(2, 6, 150))
    x = rng.normal(size=(len(sets), 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 0.0]
    utility = x @ [1.0, -0.1, 0.0] + rng.gumbel(size=len(sets))
    chosen = np.zeros(len(sets), int)
    for one in range(150):
        rows = np.flatnonzero(sets == one)
        chosen[rows[np.argmax(utility[rows])]] = 1
    order = rng.permutation(len(sets))
    return x[order], np.array([f"s{one}" for one in sets])[order], chosen[order]


def _choices(x, sets, chosen):
    return [(x[sets == one], int(np.argmax(chosen[sets == one])), 1.0) for one in np.unique(sets)]


def _spread(choices):
    """Within choices."""
    inside = np.concatenate([one - one.mean(0) for one, _, _ in choices])
    return np.sqrt(np.mean(inside**2, axis=0))


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_is_the_maximum(simulated, ridge):
    choices = _choices(*simulated)
    penalties = ridge * _spread(choices) ** 2
    found = spg.conditional_logit(*simulated, ridge=ridge)
    w = found.coefficients
    np.testing.assert_allclose(
        found.log_likelihood, slow_choices.log_likelihood(w, choices), rtol=IDENTITY
    )
    np.testing.assert_allclose(w, slow_choices.fit(choices, penalties), rtol=FIXED_POINT)
    by_hand = np.linalg.inv(slow_choices.information(w, choices) + np.diag(penalties))
    np.testing.assert_allclose(found.covariance, by_hand, rtol=IDENTITY)
    np.testing.assert_allclose(found.standard_errors**2, np.diag(by_hand), rtol=IDENTITY)
    assert found.choices == 150 and found.ridge == ridge and found.cross_validation == ()


def test_units_of_the_features_do_not_matter(simulated):
    x, sets, chosen = simulated
    found = spg.conditional_logit(x, sets, chosen)
    other = spg.conditional_logit(x * [2.0, 0.5, 100.0] + [1.0, 2.0, 3.0], sets, chosen)
    np.testing.assert_allclose(
        other.coefficients * [2.0, 0.5, 100.0], found.coefficients, rtol=FIXED_POINT
    )
    assert other.ridge == found.ridge


def test_what_is_the_same_throughout_a_set_has_no_coefficient(simulated):
    x, sets, chosen = simulated
    of_set = np.array([0.1 + int(one[1:]) / 7.0 for one in sets])
    found = spg.conditional_logit(np.column_stack([x, of_set]), sets, chosen, ridge=0.01)
    alone = spg.conditional_logit(x, sets, chosen, ridge=0.01)
    assert found.coefficients[3] == 0.0
    np.testing.assert_allclose(found.coefficients[:3], alone.coefficients, rtol=IDENTITY)
    with pytest.raises(ValueError, match="The feature 'column 3' differs in no set"):
        spg.conditional_logit(np.column_stack([x, of_set]), sets, chosen, ridge=0.0)


def test_the_ridge_is_that_of_the_smallest_loss_of_whole_people_left_out(simulated):
    x, sets, chosen = simulated
    person = np.array([int(one[1:]) % 7 for one in sets])
    ridges = (0.1, 30.0)
    found = spg.conditional_logit(x, sets, chosen, people=person, ridge=ridges, folds=3)
    _, who = np.unique(pd.factorize(pd.Series(person))[0], return_index=True)
    fold = np.random.default_rng(0).permutation(len(who)) % 3
    # People are numbered as they first appear.
    of_row = fold[pd.factorize(pd.Series(person))[0]]
    scale = _spread(_choices(x, sets, chosen))
    losses = dict.fromkeys(ridges, 0.0)
    for k in range(3):
        kept, held = of_row != k, of_row == k
        for ridge in ridges:
            parts = [_choices(x[rows], sets[rows], chosen[rows]) for rows in (kept, held)]
            w = slow_choices.fit(parts[0], ridge * scale**2)
            losses[ridge] -= slow_choices.log_likelihood(w, parts[1]) / 150
    assert dict(found.cross_validation) == pytest.approx(losses, rel=FIXED_POINT)
    assert found.ridge == min(losses, key=losses.get)


SAID = [
    (CHOICE, [3, 0, 1, 2], 0),
    (CHOICE, [4, 1], 0),
    (RANKING, [2, 5, 0, 3], 0),
    (TOP, [1, 4, 0, 2, 5], 2),
    (BEST_WORST, [5, 1, 3, 0], 0),
    (BEST_WORST_AT_ONCE, [0, 2, 4, 1, 3], 0),
    (WIN, [2, 4], 0),
    (CHOICE, [0, 5, 3], 0),
    (RANKING, [4, 3, 2, 1, 0], 0),
    (WIN, [1, 3], 0),
]


@pytest.fixture
def said():
    """Answers of each kind between six items, with counts, weights, people and a covariate."""
    rng = np.random.default_rng(2)
    sides = np.concatenate([one for _, one, _ in SAID])
    counts = np.arange(len(SAID)) % 3 + 1
    events = Answers(
        sides,
        np.append(0, np.cumsum([len(one) for _, one, _ in SAID])),
        kind=np.array([kind for kind, _, _ in SAID], np.int8),
        counts=counts,
        weights=counts * np.linspace(0.5, 2.0, len(SAID)),
        person=Codes.of([f"p{i % 3}" for i in range(len(SAID))]),
        covariates=Covariates(rng.normal(size=(len(sides), 1)), ("shown first",)),
        ordered=np.array([j for _, _, j in SAID]),
    )
    return spg.Duels.from_events(rng.normal(size=(6, 2)), events, feature_names=["price", "weight"])


def test_answers_are_choices_one_after_the_other(said):
    found = spg.conditional_logit(said, ridge=2.0)
    assert found.names == ("price", "weight", "shown first")
    w, events = found.coefficients, said.events
    logs, every, weights = [], [], []
    for i, kind in enumerate(events.kind):
        place = slice(*events.offsets[i : i + 2])
        x = np.column_stack([said.items[events.sides[place]], events.covariates[place]])
        choices = slow_choices.choices_of(KINDS[kind].name, x, events.ordered[i])
        logs.append(slow_choices.log_likelihood(w, choices))
        every += choices
        weights += [events.weights[i]] * len(choices)
    forecast = found.predict(said.events, said.items)
    np.testing.assert_allclose(forecast.log_first, logs, rtol=ROUNDING)
    np.testing.assert_allclose(found.log_likelihood, events.weights @ logs, rtol=ROUNDING)
    assert found.choices == pytest.approx(events.weights.sum())
    slopes = sum(c * slow_choices.slope(w, [one]) for c, one in zip(weights, every, strict=True))
    np.testing.assert_allclose(slopes, 2.0 * _spread(every) ** 2 * w, atol=IDENTITY)


def test_people_are_left_out_whole(said):
    loss = loss_of(said.events, said.items[said.events.sides])
    np.testing.assert_array_equal(loss.unit, loss.event % 3)
    np.testing.assert_array_equal(np.bincount(loss.event), [1, 1, 3, 2, 2, 2, 1, 1, 4, 1])


def test_probabilities_of_new_sets(simulated):
    x, sets, chosen = simulated
    found = spg.conditional_logit(x, sets, chosen)
    rng = np.random.default_rng(1)
    new = rng.normal(size=(4, 5, 3))
    mask = rng.uniform(size=(4, 5)) < 0.7
    mask[:, 0] = True
    new[~mask] = np.nan
    p = found.predict_choice(new, mask)
    assert np.all(p[~mask] == 0.0)
    for i in range(4):
        share = np.exp(new[i][mask[i]] @ found.coefficients)
        np.testing.assert_allclose(p[i][mask[i]], share / share.sum(), rtol=ROUNDING)
    np.testing.assert_array_equal(
        found.predict_choice(np.ones((1, 3, 3))), KNOWS_NOTHING.predict_choice(np.ones((1, 3, 3)))
    )


def test_far_utilities_stay_finite():
    x = np.array([[1e6], [-1e6], [2e6], [0.0]])
    found = spg.conditional_logit(x, [0, 0, 1, 1], [1, 0, 1, 0], ridge=1e-3)
    assert np.isfinite(found.coefficients).all() and np.isfinite(found.log_likelihood)
    np.testing.assert_array_equal(found.predict_choice([[[1e12], [-1e12]]]), [[1.0, 0.0]])


def test_equal_shares_of_answers(said):
    logs = KNOWS_NOTHING.predict(said.events, said.items).log_first
    numbers = [4, 2, 24, 20, 12, 20, 2, 3, 120, 2]
    np.testing.assert_allclose(logs, -np.log(numbers), rtol=ROUNDING)


def test_shares_of_labels():
    rng = np.random.default_rng(0)
    sets, labels = np.repeat(np.arange(300), 3), np.tile(["air", "bus", "car"], 300)
    chosen = np.zeros((300, 3), int)
    chosen[np.arange(300), rng.choice(3, 300, p=[0.5, 0.1, 0.4])] = 1
    flags = pd.get_dummies(labels)
    found = spg.conditional_logit(flags, sets, chosen.reshape(-1), names=[*flags], ridge=1e-9)
    assert found.names == ("air", "bus", "car")
    shares = found.predict_choice(
        np.eye(3)[[[2, 1, 0], [0, 2, 0]]], [[True] * 3, [True, True, False]]
    )
    every = chosen.mean(0)
    np.testing.assert_allclose(shares[0], every[[2, 1, 0]], rtol=FIXED_POINT)
    np.testing.assert_allclose(
        shares[1], [*every[[0, 2]] / every[[0, 2]].sum(), 0.0], rtol=FIXED_POINT
    )


def test_prints_coefficients(simulated):
    text = str(spg.conditional_logit(*simulated, names=["price", "time", "comfort"], ridge=0.0))
    lines = text.splitlines()
    assert lines[0].startswith("Conditional logit of 150 choices: log-likelihood -")
    assert [line.split()[0] for line in lines[1:]] == ["feature", "price", "time", "comfort"]


X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 0.0]])
SETS, CHOSEN = [0, 0, 1, 1], [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": X[0]}, r"features has shape \(2,\)"),
        ({"features": np.where(X == 2.0, np.nan, X)}, "features has nan at 2, 0"),
        ({"sets": SETS[:3]}, r"sets has shape \(3,\)"),
        ({"sets": [0.0, 0.0, 1.0, np.nan]}, r"sets has no value \(NaN\) in row 3"),
        ({"chosen": [1, 0, 1]}, r"chosen has shape \(3,\)"),
        ({"chosen": [2, 0, 0, 1]}, "chosen has 2 in row 0; give 1 or 0"),
        ({"chosen": [1, 0, 0, 0]}, "The set 1 has 0 chosen rows; give it one"),
        ({"chosen": [1, 1, 0, 1]}, "The set 0 has 2 chosen rows; give it one"),
        ({"sets": [0, 0, 0, 1], "chosen": [1, 0, 0, 1]}, "The set 1 has one row"),
        ({"people": ["a", "b", "c", "c"]}, "The set 0 is of two people"),
        ({"names": ["one"]}, "1 names for 2 columns"),
        ({"ridge": -1.0}, "ridge is -1.0; give 0 alone"),
        ({"ridge": (0.0, 1.0)}, r"ridge is \(0.0, 1.0\); give 0 alone"),
        ({"folds": 1}, "folds is 1; give a whole number, at least 2"),
        ({"chosen": None}, "sets or chosen is missing"),
        ({"features": np.ones((4, 2)), "ridge": 0.0}, "differs in no set from a sum"),
        ({"features": np.column_stack([X[:, 1], 2 * X[:, 1]]), "ridge": 0.0}, "differs in no set"),
        ({"features": X[:, 1:] + [[1], [0], [-2], [0]], "ridge": 0.0}, "part the chosen"),
    ],
)
def test_refuses(change, message):
    given = {"features": X, "sets": SETS, "chosen": CHOSEN} | change
    with pytest.raises(ValueError, match=message):
        spg.conditional_logit(**given)


def test_refuses_what_it_knows_nothing_of(said):
    tied = said.events.take([6, 9])
    tied = Answers.between(*tied.pairs.T, kind=np.array([WIN, TIE]))
    duels = spg.Duels.from_events(said.items, tied)
    with pytest.raises(ValueError, match="Event 1 is a tie, of which a conditional logit"):
        spg.conditional_logit(duels)
    with refused("duels_object", "rows_of_sets"):
        spg.conditional_logit(said, [0])
    found = spg.conditional_logit(said)
    with pytest.raises(ValueError, match=r"features has shape \(1, 2, 2\)"):
        found.predict_choice(np.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="features has nan at 0, 1, 1"):
        found.predict_choice([[[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]]])
    with pytest.raises(ValueError, match="Set 1 has no alternatives"):
        found.predict_choice(np.ones((2, 1, 3)), [[True], [False]])
    with pytest.raises(ValueError, match=r"mask has shape \(2,\)"):
        found.predict_choice(np.ones((2, 1, 3)), [True, False])
    with pytest.raises(ValueError, match=r"features has shape \(2, 1\); give \(2, 2\), the col"):
        found.predict(Answers.between(np.array([0]), np.array([1])), np.array([[0.0], [1.0]]))


# ---- duels ---------------------------------------------------------------------------------------


@pytest.fixture
def drawn():
    rng = np.random.default_rng(3)
    weights = np.array([1.0, -0.5, 0.0])
    x = rng.normal(size=(2000, 3))
    x *= np.where(x @ weights + rng.normal(size=2000) > 0, 1.0, -1.0)[:, None]
    return x, weights


def test_finds_the_weights(drawn):
    x, weights = drawn
    model = probit_of(x)
    np.testing.assert_allclose(model.coefficients, weights, atol=0.12)
    assert len(model.cross_validation) == 8
    losses = dict(model.cross_validation)
    assert losses[model.ridge] == min(losses.values())


def test_a_probit_is_the_maximum(drawn):
    x, _ = drawn
    model = probit_of(x[:50], ridge=0.3**-2)
    assert model.ridge == 0.3**-2

    def loss(w):
        return -log_ndtr(x[:50] @ w).sum() + 0.5 * w @ w / 0.09

    best = minimize(loss, np.zeros(3), tol=1e-10)
    np.testing.assert_allclose(model.coefficients, best.x, atol=1e-5)


def test_counts_are_repeats(drawn):
    x, _ = drawn
    counts = np.arange(200) % 3 + 1
    merged = probit_of(x[:200], counts, ridge=1.0)
    repeated = probit_of(np.repeat(x[:200], counts, axis=0), ridge=1.0)
    np.testing.assert_allclose(merged.coefficients, repeated.coefficients, rtol=1e-8)


def test_separable_and_far_tails_stay_finite():
    x = np.array([[1e6], [2e6], [-1e6], [3e6]])
    model = probit_of(x, ridge=30.0**-2)
    assert np.isfinite(model.coefficients).all()
    pair = Answers.between(np.array([0]), np.array([1]))
    assert np.isfinite(model.predict(pair, np.array([[-1e6], [0.0]])).log_p).all()
    assert np.isfinite(probit_of(np.ones((40, 2))).coefficients).all()
    assert np.isfinite(probit_of(np.ones((1, 2))).coefficients).all()


def test_derivatives_in_the_tail():
    a = np.array([-1e8, -30.1, -29.9, -3.0, 0.0, 40.0])
    ratio, curvature = probit_derivatives(a)
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
    found = linear_probit(duels, rng=np.random.default_rng(1))
    scale = np.sqrt(np.mean(said**2))
    by_hand = probit_of(
        np.column_stack([items[won] - items[lost], said / scale]), rng=np.random.default_rng(1)
    )
    assert found.covariate_names == ("first",)
    np.testing.assert_allclose(found.coefficients[:2], by_hand.coefficients[:2], rtol=1e-9)
    np.testing.assert_allclose(found.coefficients[2:], by_hand.coefficients[2:] / scale, rtol=1e-9)
    lead = np.column_stack([items[won] - items[lost], said / scale]) @ by_hand.coefficients
    logs = found.predict(duels.given, items).log_first
    np.testing.assert_allclose(logs, special.log_ndtr(lead), rtol=1e-9)
    none = Answers.between(won, lost)
    zero = none.with_differences(0.0 * said, ["first"])
    held_at_0, at_0 = (found.predict(events, items).log_p for events in (none, zero))
    np.testing.assert_array_equal(held_at_0, at_0)


@pytest.mark.parametrize("shape", [(3, 1), (3, 3), (3,)])
def test_wrong_number_of_columns(shape):
    rival, pairs = (
        probit_of(np.ones((3, 2))),
        Answers.between(np.array([0, 1]), np.array([1, 2])),
    )
    with pytest.raises(ValueError, match=r"features has shape .*; give \(3, 2\), the columns that"):
        rival.predict(pairs, np.ones(shape))
    with pytest.raises(ValueError, match="features has nan at 1, 0"):
        rival.predict(pairs, np.array([[0.0, 0.0], [np.nan, 0.0], [1.0, 1.0]]))


def test_real_duels_with_people_held_out(data_dir):
    folder = data_dir / "ev_choice_us"
    table = read_duels(folder / "items.csv", folder / "duels.csv.gz")
    nats = []
    for seed in range(5):
        split = split_duels(table, "group:person", 0.2, np.random.default_rng(seed))
        train = table.select(split.train_rows).without_idle_items().standardised()
        test = table.select(split.test_rows).without_idle_items()
        test = test.standardised(transform=train.transform)
        model = linear_probit(train)
        log_p = model.predict(test.events, test.items).log_first
        nats.append(score(log_p, counts=test.counts)["nlp_nats"])
    # A linear logistic model gets 0.456 to 0.492 depending on the people drawn.
    assert 0.45 < np.mean(nats) < 0.50


def test_the_width_is_chosen_on_some_of_many_duels(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    x *= np.sign(x @ [1.0, 0.5, 0.0, -1.0] + rng.normal(size=3000))[:, None]
    whole = probit_of(x)
    monkeypatch.setattr(rivals, "MOST_WORK", 16_000)
    some = probit_of(x)
    assert [ridge for ridge, _ in some.cross_validation] == [r for r, _ in whole.cross_validation]
    assert some.cross_validation != whole.cross_validation
    np.testing.assert_allclose(some.coefficients, whole.coefficients, rtol=0.05, atol=0.02)


def test_strengths_of_bradley_and_terry_are_the_maximum() -> None:
    rng = np.random.default_rng(4)
    winner = rng.integers(0, 7, 90)
    loser = (winner + rng.integers(1, 7, 90)) % 7
    home = rng.choice([-2.0, 0.0, 2.0], (90, 1))
    duels = spg.Duels(
        np.zeros((9, 0)), winner, loser, counts=rng.integers(1, 4, 90), covariates=home
    )
    found = bradley_terry(duels)
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
    best = np.append(found.strengths, found.coefficients[1:] * spread)
    assert found.strengths[7] == found.strengths[8] == 0.0  # of whom nothing is known
    for step in np.eye(10) * 1e-3:
        assert minus_log(best) <= min(minus_log(best + step), minus_log(best - step))
    pairs = Answers.between(np.array([0, 1, 0]), np.array([1, 0, 2]))
    log_p = found.predict(pairs, np.array([[0], [1], [99]])).log_first
    assert np.exp(log_p[:2]).sum() == pytest.approx(1.0, abs=1e-12)
    assert np.exp(log_p[2]) == pytest.approx(1.0 / (1.0 + np.exp(-best[0])), abs=1e-12)


# ---- published figures -------------------------------------------------------------------------


def _table(name: str) -> pd.DataFrame:
    path = DATA / name / "choices.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not there; put the data there, or set SPARSE_PREFGP_DATA")
    return pd.read_csv(path)


def _modes(table: pd.DataFrame, more: bool) -> np.ndarray:
    """Columns of the published analysis: those of the alternative and of the trip, by mode."""
    flag = {
        mode: (table["alternative"] == mode).to_numpy(float)
        for mode in table["alternative"].unique()
    }
    columns = [table[name] for name in ("cost", "freq", "ovt")]
    for mode in ("bus", "car", "train"):
        columns += [flag[mode], flag[mode] * table["income"]]
    columns += [flag[mode] * table["ivt"] for mode in ("train", "air", "bus", "car")]
    if more:
        for mode in ("bus", "car", "train"):
            columns += [flag[mode] * table["dist"], flag[mode] * table["urban"]]
    return np.column_stack(columns)


def _held_out(x, table, ridge) -> float:
    """Nats a choice of those whose person is divisible by 5."""
    test = (table["person"] % 5 == 0).to_numpy()
    sets, chosen = table["choice_set"].to_numpy(), table["chosen"].to_numpy()
    found = spg.conditional_logit(
        x[~test], sets[~test], chosen[~test], people=table["person"][~test], ridge=ridge
    )
    k = np.bincount(sets[test]).max()
    p = found.predict_choice(x[test].reshape(-1, k, x.shape[1]))
    return float(-np.log(p[chosen[test].reshape(-1, k) == 1]).mean())


def test_electricity_has_the_published_likelihood():
    table = _table("electricity")
    x = table[["pf", "cl", "loc", "wk", "tod", "seas"]].to_numpy(float)
    found = spg.conditional_logit(x, table["choice_set"], table["chosen"], ridge=0.0)
    assert f"{found.log_likelihood:.3f}" == "-4958.649"
    assert f"{_held_out(x, table, 0.0):.4f}" == "1.1257"
    assert _held_out(x, table, (100.0, 0.1, 1e-3)) == pytest.approx(1.1257, abs=2e-4)


def test_mode_canada_has_the_published_likelihood():
    table = _table("mode_canada")
    table = table[table["noalt"] == 4]
    x = _modes(table, more=False)
    found = spg.conditional_logit(x, table["choice_set"], table["chosen"], ridge=0.0)
    assert f"{found.log_likelihood:.3f}" == "-1874.343"
    assert f"{_held_out(x, table, 0.0):.4f}" == "0.6975"
    assert f"{_held_out(_modes(table, more=True), table, 0.0):.4f}" == "0.6846"


def test_people_of_duels() -> None:
    """Folds leave the people of events as given whole: as with arrays."""
    rng = np.random.default_rng(5)
    items = rng.standard_normal((12, 2))
    shown = np.stack([rng.permutation(12)[:3] for _ in range(60)])
    events = Answers(
        shown.reshape(-1),
        np.arange(61) * 3,
        kind=np.full(60, CHOICE, np.int8),
    )
    people = np.repeat(np.arange(15), 4)
    duels = spg.Duels.from_events(items, events)
    found = spg.conditional_logit(duels, people=people)
    rows = items[shown.reshape(-1)]
    chosen = np.tile([1, 0, 0], 60)
    expected = spg.conditional_logit(
        rows, np.repeat(np.arange(60), 3), chosen, people=np.repeat(people, 3)
    )
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=1e-9)
    np.testing.assert_allclose(found.cross_validation, expected.cross_validation, rtol=1e-9)


def test_products_with_columns_of_people_are_columns() -> None:
    rng = np.random.default_rng(3)
    items, sets = rng.normal(size=(30, 2)), 80
    places = np.stack([rng.permutation(30)[:3] for _ in range(sets)])
    people = rng.integers(0, 8, sets)
    age = rng.normal(size=8)
    utility = items[places] @ [1.0, -0.5] + items[places][..., 0] * age[people][:, None]
    order = np.argsort(-(utility + rng.gumbel(size=utility.shape)), 1)
    places = np.take_along_axis(places, order, 1)
    events = Answers(
        places.reshape(-1),
        np.arange(sets + 1) * 3,
        kind=np.full(sets, CHOICE, np.int8),
        person=Codes.of(people.tolist()),
    )
    known = {k: [age[k]] for k in range(8)}
    duels = spg.Duels.from_events(items, events, people_features=known)
    found = spg.conditional_logit(duels, ridge=0.0)
    x = items[places].reshape(-1, 2)
    whose = np.repeat(age[people], 3)[:, None]
    by_hand = spg.conditional_logit(
        np.column_stack([x, x * whose]),
        np.repeat(np.arange(sets), 3),
        np.tile([1, 0, 0], sets),
        ridge=0.0,
    )
    assert found.names[2:] == ("column 0 × feature 0", "column 1 × feature 0")
    np.testing.assert_allclose(found.coefficients, by_hand.coefficients, rtol=FIXED_POINT)
    total = found.predict(duels.events, duels.items).log_first @ duels.events.totals
    assert total == pytest.approx(found.log_likelihood, rel=ROUNDING)
    for labels in ([f"new {k}" for k in people], [None] * sets):
        strangers = events.saying(person=Codes.of(labels))
        assert not np.any(features_of_people(duels.people_features, strangers))
    some = events.saying(person=Codes.of([None, None, *people[2:].tolist()]))
    np.testing.assert_array_equal(
        features_of_people(duels.people_features, some)[:3, 0], [0.0, 0.0, age[people[2]]]
    )


def test_folds_of_other_people_leave_products_as_they_are(said: Duels) -> None:
    whose = {f"p{k}": [float(k)] for k in range(3)}
    duels = spg.Duels.from_events(said.items, said.events, people_features=whose)
    one = spg.conditional_logit(duels, ridge=1.0)
    other = spg.conditional_logit(duels, ridge=1.0, people=np.arange(len(duels.given)) % 2)
    assert one.names == other.names and len(one.names) == 6
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=FIXED_POINT)


def test_of_ties_alone_nothing_is_learned() -> None:
    duels = spg.Duels(np.eye(3), [0, 1], [1, 2], ties=[True, True])
    assert list(rivals.rivals_of(duels, np.random.default_rng(0))) == [rivals.COIN]
