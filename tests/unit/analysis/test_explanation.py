"""Contributions of features to the utility difference of two items."""

import dataclasses
import json
import math
import re

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy import special

import sparse_prefgp as spg
from sparse_prefgp.analysis import explanation as room
from sparse_prefgp.analysis.explanation import EXACT, ITEM_EFFECT, PATH, explain
from sparse_prefgp.analysis.items import UNKNOWN_LEVEL
from sparse_prefgp.io import read_duels
from tests.tolerances import IDENTITY, ROUNDING

KINDS = gpflow.kernels
SE = KINDS.SquaredExponential


def duels_of(dimensions, seed=0):
    """150 noisy votes between 20 items, with a utility in which features act together."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20, dimensions))
    utility = np.sin(2.0 * x[:, 0]) + x.prod(axis=1)
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(150)])
    noisy = utility[pairs] + 0.5 * rng.normal(size=pairs.shape)
    ahead = noisy[:, 0] > noisy[:, 1]
    return spg.Duels(
        x,
        np.where(ahead, *pairs.T),
        np.where(ahead, *pairs.T[::-1]),
        feature_names=NAMES[:dimensions],
    )


NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def duels():
    return duels_of(2)


@pytest.fixture(scope="module")
def additive(duels):
    """An additive utility, whose contributions both methods give."""
    kernel = SE(active_dims=[0]) + KINDS.Matern52(active_dims=[1])
    return spg.PreferenceGP(duels, kernel)


@pytest.fixture(scope="module")
def joint(duels):
    return spg.PreferenceGP(duels, SE(lengthscales=[1.0, 0.7]))


def contributions(found):
    return found.frame.set_index("feature")["contribution"]


def test_linear_utility_has_weights(duels):
    """E f = w'x, with w from the Gaussian posterior of the weights: a closed form."""
    model = spg.PreferenceGP(duels, KINDS.Linear(variance=[1.0, 2.0]))
    weights = np.asarray(model.predict_f(np.eye(2))[0])[:, 0]
    sd = np.sqrt(np.asarray(model.predict_f(np.eye(2))[1])[:, 0])
    found = explain(model, 3, 8)
    step = duels.items[3] - duels.items[8]
    np.testing.assert_allclose(
        contributions(found)[["a", "b"]], weights * step, rtol=0, atol=IDENTITY
    )
    np.testing.assert_allclose(
        found.frame.set_index("feature")["sd"][["a", "b"]], sd * np.abs(step), atol=IDENTITY
    )
    assert found.method == EXACT and found.converged and found.steps is None
    assert abs(found.residual) < IDENTITY
    mean, variance = model.predict_difference(duels.items[[3]], duels.items[[8]])
    assert found.difference == float(mean[0]) and found.sd == float(variance[0]) ** 0.5
    assert found.probability == float(model.predict_duel(duels.items[[3]], duels.items[[8]])[0])
    assert found.frame["contribution"].abs().is_monotonic_decreasing


def test_both_methods_agree_on_an_additive_utility(additive):
    exact = explain(additive, 0, 5)
    assert exact.method == EXACT
    # Each part depends on its own feature alone.
    x = additive.duels.items
    hybrid = np.array([[x[0, 0], x[5, 1]]])
    alone = float(additive.predict_difference(hybrid, x[[5]])[0][0])
    assert abs(contributions(exact)["a"] - alone) < IDENTITY
    changed = np.stack([[x[0, 0], x[5, 1]], [x[5, 0], x[0, 1]]])
    path, _, converged = room._path(
        additive, x[[0, 5]], changed, exact.difference, room.STEPS, exact.tolerance
    )
    assert converged
    assert np.abs(path - contributions(exact)[["a", "b"]]).max() <= exact.tolerance


def test_integrated_path_is_complete(joint):
    found = explain(joint, 2, 11)
    assert found.method == PATH and found.converged
    assert abs(found.residual) <= found.tolerance
    total = found.frame["contribution"].sum()
    assert abs(total + found.residual - found.difference) < ROUNDING
    turned = explain(joint, 11, 2)
    assert (contributions(turned) + contributions(found)).abs().max() <= found.tolerance
    coarse = explain(joint, 2, 11, steps=1)
    assert coarse.converged and coarse.steps < found.steps
    assert f"{found.steps} points" in str(found) and PATH in str(found)


def test_what_is_not_met_is_said(joint, monkeypatch):
    monkeypatch.setattr(room, "MOST_STEPS", 2)
    found = explain(joint, 2, 11, steps=1)
    assert not found.converged and found.steps == 2
    assert "tolerance of" in str(found) and "was not met" in str(found)
    assert "Contributions add up to the difference;" in str(found)
    # What does not add up is not said to.
    off = dataclasses.replace(found, residual=2e-6 * found.difference)
    assert f"Contributions miss the difference by {abs(off.residual):.0e};" in str(off)
    assert "add up" not in str(off)


def test_what_is_explained_is_the_utility_that_is_asked_for():
    """Of a person whose taste is not additive, where what all share is; and of nobody."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2))
    first = rng.integers(0, 12, 60)
    second = (first + rng.integers(1, 12, 60)) % 12
    ahead = x[first].prod(1) > x[second].prod(1)
    duels = spg.Duels(
        x,
        np.where(ahead, first, second),
        np.where(ahead, second, first),
        people=[f"p{k}" for k in rng.integers(0, 3, 60)],
        feature_names=["a", "b"],
    )
    model = spg.PreferenceGP(
        duels, KINDS.Linear([1.0, 1.0]), terms=[spg.Taste(SE(lengthscales=[1.0, 1.0]))]
    )
    found = explain(model, 0, 5, person="p0")
    assert found.method == PATH and found.converged
    assert abs(found.difference - contributions(found).sum()) <= 1e-6 * abs(found.difference)
    nobody = explain(model, 0, 5)
    assert nobody.method == EXACT and abs(nobody.residual) < IDENTITY
    # The sd of a contribution is of whom the probability is: with a taste besides.
    alone = np.array([[x[0, 0], x[5, 1]]])
    sd = float(model.predict_difference(alone, x[[5]])[1][0]) ** 0.5
    assert nobody.frame.set_index("feature")["sd"]["a"] == pytest.approx(sd, abs=IDENTITY)


def test_symmetric_features_get_equal_shares():
    # Every vote also with the two features swapped, so that the posterior is symmetric.
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 2))
    both = np.concatenate([x, x[:, ::-1]])
    winners = rng.integers(12, size=40)
    losers = (winners + rng.integers(1, 12, size=40)) % 12
    model = spg.PreferenceGP(
        spg.Duels(both, np.append(winners, winners + 12), np.append(losers, losers + 12)),
        SE(lengthscales=[1.0, 1.0]),
    )
    found = explain(model, np.array([1.5, 1.5]), np.array([-0.5, -0.5]))
    shares = found.frame["contribution"]
    assert found.method == PATH and abs(found.difference) > 0.1
    assert abs(shares[0] - shares[1]) <= found.tolerance
    assert sorted(found.frame["feature"]) == ["column 0", "column 1"]


@pytest.mark.parametrize(
    ("kernel", "additive"),
    [
        (lambda: KINDS.Linear() + KINDS.Constant(), True),
        (lambda: SE(active_dims=[0]) * SE(active_dims=[0]) + KINDS.Linear(), True),
        (lambda: KINDS.Constant() * SE(active_dims=slice(1, 2)), True),
        (lambda: KINDS.Linear() + spg.ItemEffect() + SE(active_dims=[1]), True),
        (lambda: KINDS.Periodic(SE(active_dims=[1])) + KINDS.Linear(), True),
        (lambda: SE(active_dims=[0]) * SE(active_dims=[1]), False),
        (lambda: KINDS.Linear() * KINDS.Linear(), False),
        (lambda: KINDS.Linear() + SE(), False),
        (lambda: KINDS.Polynomial(degree=2), False),
        (lambda: SE(active_dims=[0, 1]) + KINDS.Linear(), False),
    ],
)
@pytest.mark.filterwarnings("ignore:.*cancels:UserWarning")
@pytest.mark.covering(every=12)
def test_what_is_additive(duels, kernel, additive):
    model = spg.PreferenceGP(duels, kernel())
    found = explain(model, 1, 2)
    assert (found.method == EXACT) is additive
    if additive:
        assert abs(found.residual) < IDENTITY


def test_mean_functions(duels):
    mean = gpflow.functions.Linear(A=[[0.3], [-0.2]]) + gpflow.functions.Constant(1.0)
    model = spg.PreferenceGP(duels, KINDS.Linear(), mean_function=mean)
    found = explain(model, 3, 8)
    assert found.method == EXACT and abs(found.residual) < IDENTITY
    curved = gpflow.functions.Linear(A=[[0.3], [-0.2]]) * gpflow.functions.Linear(A=[[1.0], [1.0]])
    found = explain(spg.PreferenceGP(duels, KINDS.Linear(), mean_function=curved), 3, 8)
    assert found.method == PATH and found.converged


def test_one_feature_is_always_exact():
    found = explain(spg.PreferenceGP(duels_of(1), SE()), 0, 1)
    assert found.method == EXACT and abs(found.residual) < IDENTITY


def test_item_effects_are_a_contribution(duels):
    model = spg.PreferenceGP(duels, KINDS.Linear() + spg.ItemEffect(variance=0.5))
    found = explain(model, 3, 8)
    x = np.column_stack([duels.items, np.arange(20)])
    assert found.difference == float(model.predict_difference(x[[3]], x[[8]])[0][0])
    assert abs(found.residual) < IDENTITY
    # With the same features, only the effects differ.
    apart = x[[8, 8]]
    apart[0, 2] = 3
    mean, variance = (np.asarray(v)[0] for v in model.predict_difference(apart[:1], apart[1:]))
    row = found.frame.set_index("feature").loc[ITEM_EFFECT]
    assert abs(row["contribution"] - mean) < IDENTITY
    assert abs(row["sd"] ** 2 - variance) < IDENTITY
    assert row["first"] == row["second"] == "known"

    # Of unknown items nothing is expected, but they differ; their features weigh as before.
    unknown = explain(model, duels.items[3], np.append(duels.items[8], -1.0))
    row = unknown.frame.set_index("feature").loc[ITEM_EFFECT]
    assert row["contribution"] == 0.0 and row["first"] == "unknown"
    assert abs(row["sd"] ** 2 - 1.0) < IDENTITY
    gap = contributions(unknown)[["a", "b"]] - contributions(found)[["a", "b"]]
    assert gap.abs().max() < IDENTITY
    assert abs(unknown.residual) < IDENTITY

    curved = spg.PreferenceGP(
        duels,
        SE() + spg.ItemEffect(variance=0.5),
        approximation=spg.VFE(),
        inducing_variable=duels.items[:8],
    )
    found = explain(curved, 3, 8)
    assert found.method == PATH and abs(found.residual) <= found.tolerance
    assert found.frame["sd"].notna().sum() == 1 and ITEM_EFFECT in str(found)


@pytest.fixture(scope="module")
def cars():
    """Items with a categorical column, whose levels are columns of their own in the model."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "item_id": [f"car {i}" for i in range(15)],
            "price": rng.uniform(10, 50, 15).round(1),
            "fuel": [("petrol", "diesel", "electric")[i % 3] for i in range(15)],
        }
    )
    winner = rng.integers(15, size=60)
    loser = (winner + rng.integers(1, 15, size=60)) % 15
    ids = frame["item_id"].to_numpy()
    votes = pd.DataFrame({"winner": ids[winner], "loser": ids[loser]})
    model = spg.PreferenceGP(
        read_duels(frame, votes), KINDS.Linear() + KINDS.Matern52(lengthscales=2.0)
    )
    return frame, model


def test_levels_of_a_column_count_together(cars):
    frame, model = cars
    found = explain(model, "car 0", "car 1")
    table = found.frame.set_index("feature")
    assert sorted(table.index) == ["fuel", "price"]
    assert table.loc["fuel", ["first", "second"]].tolist() == ["petrol", "diesel"]
    # Rounding noise of standardising and back is gone.
    assert table.loc["price", ["first", "second"]].tolist() == frame["price"][:2].tolist()
    assert found.converged and (found.first, found.second) == ("car 0", "car 1")
    assert "petrol" in str(found) and "The probability that car 0 beats car 1 is" in str(found)
    same = explain(model, "car 0", "car 3")
    assert contributions(same)["fuel"] == 0.0
    assert "\nand 1 that contributes nothing\nContributions add up" in str(same)
    assert "fuel" not in str(same)
    # What one feature changes alone is all, and has an sd; a path has none, and no empty column.
    assert same.method == EXACT and "contribution\n" in str(found)
    assert str(same).startswith(same.headline) and "price" not in same.headline
    linear = spg.PreferenceGP(
        model.duels,
        KINDS.Linear() + SE(active_dims=[1, 2, 3]) + SE(active_dims=[0]),
    )
    exact = explain(linear, "car 0", "car 1")
    # The three columns are one feature, so a kernel on all of them is still additive.
    assert exact.method == EXACT and abs(exact.residual) < IDENTITY


def test_new_items_and_json(cars):
    frame, model = cars
    new = frame.assign(item_id=[f"new {i}" for i in range(15)], fuel="petrol")[:2]
    found = explain(model, "new 1", "car 1", new)
    assert contributions(found)["price"] == 0.0
    with pytest.warns(UserWarning, match="not seen in training"):
        found = explain(model, "new 1", "car 2", new.assign(fuel="steam"))
    assert found.frame.set_index("feature").loc["fuel", "first"] == UNKNOWN_LEVEL
    as_dict = json.loads(json.dumps(found.to_dict()))
    assert as_dict["method"] == PATH and as_dict["contributions"][0]["sd"] is None
    assert {row["feature"] for row in as_dict["contributions"]} == {"price", "fuel"}


def test_ties_have_a_probability(duels):
    model = spg.PreferenceGP(duels, KINDS.Linear(), likelihood=spg.Probit(margin=0.4))
    found = explain(model, 3, 8)
    scale = math.sqrt(found.sd**2 + 2.0 * float(model.likelihood.noise.numpy()))
    won, not_lost = special.ndtr((found.difference + np.array([-0.4, 0.4])) / scale)
    assert found.probability == pytest.approx(won, abs=IDENTITY)
    assert found.tie_probability == pytest.approx(not_lost - won, abs=IDENTITY)
    assert f"is {won:.3f}, and of a tie {not_lost - won:.3f}; its expected" in str(found)
    assert found.to_dict()["tie_probability"] == found.tie_probability
    plain = explain(spg.PreferenceGP(duels, KINDS.Linear()), 3, 8)
    assert plain.to_dict()["tie_probability"] is None and "tie" not in str(plain)


def test_zero_has_no_sign():
    items = pd.DataFrame({"item_id": ["a", "b", "c"], "x": [-0.1, 0.0, 0.4], "y": [0.0, 1.0, 0.0]})
    votes = pd.DataFrame({"winner": ["a", "b", "c"], "loser": ["b", "c", "a"]})
    data = read_duels(items, votes)
    for first, second in (("a", "b"), ("b", "c"), ("c", "a")):
        # The slope is zero but for rounding: votes in a circle.
        found = explain(spg.PreferenceGP(data, KINDS.Linear(1e-9)), first, second)
        values = found.frame[["first", "second", "contribution"]].to_numpy().astype(float)
        assert not np.signbit(values[values == 0.0]).any()
        assert not re.search(r"-0(\.0+)?( |$)", str(found), re.MULTILINE), str(found)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (0, 99, "second item 99 is not an item id"),
        (4, 4, "both 4"),
        ([1.0, 2.0, 3.0], 0, "first item has 3 features, but the model has 2"),
        ([1.0, np.nan], 0, "first has nan"),
    ],
)
def test_bad_input(additive, first, second, words):
    with pytest.raises(ValueError, match=words) as error:
        explain(additive, first, second)
    assert str(error.value).endswith(".") and ". " not in str(error.value)


def test_bad_steps(additive):
    with pytest.raises(ValueError, match="steps is 0"):
        explain(additive, 0, 1, steps=0)
