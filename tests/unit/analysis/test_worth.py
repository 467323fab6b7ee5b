"""What attributes are worth, against slopes of a dense reference and drawn ratios."""

from __future__ import annotations

import math

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.analysis.worth import ratio
from tests.together import refused

SETS = 60


def survey() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for i in range(SETS):
        price, time = rng.uniform(2, 12, 3).round(1), rng.uniform(10, 90, 3).round()
        mode = rng.permutation(["bus", "car", "train"])
        f = -0.5 * price - 0.04 * time + 0.8 * (mode == "train")
        best = int((f + 0.7 * rng.standard_normal(3)).argmax())
        rows += [(i, int(j == best), price[j], time[j], mode[j]) for j in range(3)]
    return pd.DataFrame(rows, columns=["choice_set", "chosen", "price", "time", "mode"])


@pytest.fixture(scope="module")
def linear() -> spg.PreferenceGP:
    duels = spg.read_choices(None, survey())
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.Linear(variance=1.0),
        approximation=spg.DTC(),
        inducing_variable=np.eye(duels.num_features),
    )


@pytest.fixture(scope="module")
def curved() -> spg.PreferenceGP:
    duels = spg.read_choices(None, survey())
    kernel = gpflow.kernels.SquaredExponential(lengthscales=2.0, variance=2.0)
    kernel = kernel + gpflow.kernels.Linear(variance=0.5)
    rng = np.random.default_rng(1)
    inputs = duels.items[rng.permutation(len(duels.items))[:30]]
    return spg.PreferenceGP(duels, kernel, approximation=spg.VFE(), inducing_variable=inputs)


def weights(model: spg.PreferenceGP) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the slopes of a linear utility, in standard units."""
    d = model.duels.num_features
    at = np.vstack([np.eye(d), np.zeros((1, d))])
    mean, covariance = model.predict_f(at, full_cov=True)
    signs = np.hstack([np.eye(d), -np.ones((d, 1))])
    return signs @ mean.numpy()[:, 0], signs @ covariance.numpy()[0] @ signs.T


def test_a_linear_utility_has_ratios_of_slopes(linear: spg.PreferenceGP) -> None:
    found = spg.worth(linear, steps={"time": 10.0})
    transform = linear.duels.transform
    mean, covariance = weights(linear)
    names = list(linear.duels.feature_names)
    price, time = names.index("price"), names.index("time")
    scale = dict(zip(transform.numeric, transform.scale, strict=True))
    row = found.frame[found.frame["attribute"] == "time"].iloc[0]
    expected = -(10.0 * mean[time] / scale["time"]) / (mean[price] / scale["price"])
    np.testing.assert_allclose(row["worth"], expected, rtol=1e-6)
    assert row["step"] == "+10" and found.linear and row["bounded"]
    modes = found.frame[found.frame["attribute"] == "mode"]
    usual = max(("bus", "car", "train"), key=list(survey()["mode"]).count)
    assert len(modes) == 2 and all(f"for {usual}" in step for step in modes["step"])
    one = names.index("mode=train") if "mode=train" in names else None
    if one is not None and usual != "train":
        other = names.index(f"mode={usual}")
        step = modes[modes["step"].str.startswith("train")].iloc[0]
        by_hand = -(mean[one] - mean[other]) / (mean[price] / scale["price"])
        np.testing.assert_allclose(step["worth"], by_hand, rtol=1e-6)
    slope = found.unit_slope
    np.testing.assert_allclose(slope[0], mean[price] / scale["price"], rtol=1e-6)
    sd = math.sqrt(covariance[price, price]) / scale["price"]
    np.testing.assert_allclose(slope[2] - slope[0], 1.6448536269514722 * sd, rtol=1e-5)
    # Ten minutes are worth 0.8 of the price in truth.
    assert row["lower"] < -0.8 < row["upper"]


def test_intervals_of_ratios_that_are_drawn() -> None:
    """Where the divisor is far from 0, Fieller's interval holds what drawn ratios do."""
    mean, covariance = np.array([1.0, -2.0]), np.array([[0.04, 0.01], [0.01, 0.02]])
    found = ratio(mean, covariance, 0.9)
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, 400_000)
    low, high = np.quantile(-draws[:, 0] / draws[:, 1], [0.05, 0.95])
    assert abs(found.value - 0.5) < 1e-12 and found.bounded
    assert abs(found.lower - low) < 0.003 and abs(found.upper - high) < 0.003
    # At either end 0 is just inside the interval of a + w b.
    for end in (found.lower, found.upper):
        along = np.array([1.0, end])
        z = (along @ mean) / math.sqrt(along @ covariance @ along)
        np.testing.assert_allclose(abs(z), 1.6448536269514722, rtol=1e-9)
    wide = ratio(np.array([1.0, 0.1]), covariance, 0.9)
    assert not wide.bounded and wide.lower == -math.inf and wide.upper == math.inf


@pytest.mark.slow
def test_slopes_of_a_curved_utility(curved: spg.PreferenceGP) -> None:
    """Against derivatives by automatic differentiation, at the average and by item."""
    found = spg.worth(curved, by_item=True)
    assert not found.linear and "from place to place" in str(found)
    x = curved.duels.items[:3]
    with tf.GradientTape() as tape:
        points = tf.constant(x)
        tape.watch(points)
        mean = curved.posterior().marginal(points)[:, 0]
    gradient = tape.gradient(mean, points).numpy()
    names = list(curved.duels.feature_names)
    scale = dict(zip(curved.duels.transform.numeric, curved.duels.transform.scale, strict=True))
    times = found.frame[found.frame["attribute"] == "time"].reset_index(drop=True)
    ids = list(curved.duels.item_ids)
    for i in range(3):
        row = times[times["item"] == ids[i]].iloc[0]
        by_hand = gradient[i, names.index("time")] / scale["time"]
        np.testing.assert_allclose(row["slope"], by_hand, rtol=1e-5)
        price = gradient[i, names.index("price")] / scale["price"]
        np.testing.assert_allclose(row["worth"], -by_hand / price, rtol=1e-4)


def test_the_plane_closest_to_a_curved_utility(curved: spg.PreferenceGP) -> None:
    """Least squares of the mean, and of draws, over the items by their comparisons."""
    found = spg.worth(curved)
    assert "item" not in found.frame and set(found.frame["attribute"]) == {"time", "mode"}
    assert "plane" in str(found)
    duels = curved.duels
    names, scale = list(duels.feature_names), duels.transform.scale
    price, time = names.index("price"), names.index("time")
    x = duels.items
    levels = [j for j in range(x.shape[1]) if j not in (price, time)]
    usual = max(levels, key=lambda j: duels.comparisons @ x[:, j])
    kept = [price, time, *(j for j in levels if j != usual)]
    design = np.column_stack([x[:, kept], np.ones(len(x))]) * np.sqrt(duels.comparisons)[:, None]
    mean, covariance = curved.predict_f(x, full_cov=True)
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(mean.numpy()[:, 0], covariance.numpy()[0], 4000)
    every = np.vstack([mean.numpy()[:, 0], draws]) * np.sqrt(duels.comparisons)
    slopes = np.linalg.lstsq(design, every.T, rcond=None)[0][:2]
    ratios = -(slopes[1] / scale[1]) / (slopes[0] / scale[0])
    row = found.frame.set_index("attribute").loc["time"]
    np.testing.assert_allclose(row["worth"], ratios[0], rtol=1e-6)
    low, high = np.quantile(ratios[1:], [0.05, 0.95])
    assert abs(row["lower"] - low) < 0.2 * (high - low)
    assert abs(row["upper"] - high) < 0.2 * (high - low)
    few = pd.DataFrame({"price": [1.0, 2.0], "time": [3.0, 4.0], "mode": "bus"})
    with pytest.raises(ValueError, match="too few items"):
        spg.worth(curved, items=few.assign(item_id=[901, 902]))


def test_worth_of_a_conditional_logit(linear: spg.PreferenceGP) -> None:
    """The same ratio, of coefficients in raw units; the same in truth."""
    table = survey()
    x = table[["price", "time"]].to_numpy()
    train = (table["mode"] == "train").to_numpy(float)
    logit = spg.conditional_logit(
        np.column_stack([x, train]),
        table["choice_set"],
        table["chosen"],
        names=["price", "time", "train"],
        ridge=0.0,
    )
    found = spg.worth(logit, steps={"time": 10.0})
    row = found.frame.set_index("attribute").loc["time"]
    by_hand = -10.0 * logit.coefficients[1] / logit.coefficients[0]
    np.testing.assert_allclose(row["worth"], by_hand, rtol=1e-12)
    ours = spg.worth(linear, steps={"time": 10.0}).frame.set_index("attribute").loc["time"]
    assert abs(row["worth"] - ours["worth"]) < 0.15 and row["lower"] < -0.8 < row["upper"]
    with pytest.raises(ValueError, match="'cost' is no feature of the conditional logit"):
        spg.worth(logit, "cost")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unit": "cost"}, "The unit 'cost' is no feature of the model; choose from price, time"),
        ({"unit": "mode"}, "The unit 'mode' holds texts"),
        ({"steps": {"mode": 1.0}}, "feature of a step is 'mode'"),
        ({"steps": {"price": 1.0}}, "'price' is what worth is measured in"),
        ({"steps": {"time": 0.0}}, "The step of 'time' is 0.0"),
        ({"level": 2.0}, "2"),
    ],
)
def test_refused(linear: spg.PreferenceGP, options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spg.worth(linear, **options)


def test_a_model_without_anything_to_value() -> None:
    items = np.arange(4.0)[:, None]
    model = spg.PreferenceGP(spg.Duels(items, [0, 1], [1, 2]), gpflow.kernels.Linear())
    with pytest.raises(ValueError, match="one feature"):
        spg.worth(model, "column 0")
    bare = spg.PreferenceGP(spg.Duels(np.empty((3, 0)), [0, 1], [1, 2]))
    with pytest.raises(ValueError, match="no features"):
        spg.worth(bare)


@pytest.mark.slow
def test_pictures(linear: spg.PreferenceGP, curved: spg.PreferenceGP) -> None:
    pytest.importorskip("matplotlib")
    for found in (spg.worth(linear), spg.worth(curved, by_item=True)):
        assert "price" in spg.plotting.worth(found).get_xlabel()
    table = survey()[["price", "time", "mode"]].head(3)
    found = spg.shares(linear, table, draws=20)
    ax = spg.plotting.shares(found)
    assert "90 % interval" in ax.get_xlabel() and len(ax.get_yticklabels()) == 3
    np.testing.assert_array_equal([b.get_width() for b in ax.patches], 100 * found.frame["share"])
    with pytest.raises(ValueError, match="count from 0"):
        spg.plotting.shares(found, which=1)


@pytest.mark.slow
def test_worth_for_one_person() -> None:
    """Of a linear utility of a person, by the slopes that predictions tell."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10, 2))
    first = rng.integers(0, 10, 60)
    second = (first + rng.integers(1, 10, 60)) % 10
    who = rng.integers(0, 3, 60)
    slopes = np.array([[1.0, -1.0], [3.0, -1.0], [1.0, -3.0]])[who]
    ahead = (x[first] * slopes).sum(1) > (x[second] * slopes).sum(1)
    duels = spg.Duels(
        x,
        np.where(ahead, first, second),
        np.where(ahead, second, first),
        people=[f"p{k}" for k in who],
        feature_names=["speed", "price"],
    )
    kinds = gpflow.kernels
    model = spg.PreferenceGP(
        duels, kinds.Linear([1.0, 1.0]), terms=[spg.Taste(kinds.Linear([2.0, 2.0]))]
    )

    def expected(view: spg.PreferenceGP) -> float:
        speed, price = (float(view.predict_f(row[None])[0][0, 0]) for row in np.eye(2))
        return -speed / price

    found = {person: spg.worth(model, person=person) for person in (None, "p1", "p2")}
    for person, one in found.items():
        view = model if person is None else model.of_person(person)
        np.testing.assert_allclose(one.frame["worth"], [expected(view)], rtol=1e-6)
        assert one.linear
    assert found["p1"].frame["worth"][0] > found["p2"].frame["worth"][0]
    both = spg.worth(model, person=["p1", "p2"])
    assert both.linear
    model.terms.of_people.kernel = kinds.SquaredExponential()
    assert spg.worth(model).linear and not spg.worth(model, person="p1").linear
    with pytest.raises(ValueError, match="'p9' is unknown to the model"):
        spg.worth(model, person="p9")
    logit = spg.conditional_logit(spg.Duels(x, first, second, feature_names=["speed", "price"]))
    with refused("one_utility", "people"):
        spg.worth(logit, person="p1")


def test_choices_as_they_were_read_score_as_their_table_does(linear: spg.PreferenceGP) -> None:
    table = survey().query("choice_set < 20")
    with_person = table.assign(person=table["choice_set"] % 4)
    for some in (table, with_person):
        read = spg.evaluate(linear, spg.read_choices(None, some))
        assert read == spg.evaluate(linear, choices=some)
        over = read["held_out"]["choices"]["model"]["se_over"]
        assert over == ("people" if "person" in some else "choices")
