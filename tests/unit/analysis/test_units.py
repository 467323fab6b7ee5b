"""Duels whose features were made by another transform than the model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis.items import features_in_units_of
from sparse_prefgp.data.features import FeatureTransform
from tests.cases import assert_same_scores
from tests.together import refused
from tests.tolerances import FIXED_POINT, IDENTITY, ROUNDING

N = 40
RNG = np.random.default_rng(11)
HEIGHT, WIDTH = RNG.normal(170.0, 12.0, N), RNG.gamma(2.0, 3.0, N)
COLOUR = RNG.choice(["red", "green", "blue"], N)
ITEMS = pd.DataFrame({"item_id": range(N), "height": HEIGHT, "width": WIDTH, "colour": COLOUR})
UTILITY = (HEIGHT - 170.0) / 8.0 - WIDTH / 5.0 + (COLOUR == "red")


def played(seed: int, low: int, high: int, number: int) -> pd.DataFrame:
    """Duels between some of the items."""
    rng = np.random.default_rng(seed)
    first = rng.integers(low, high, number)
    second = low + (first - low + rng.integers(1, high - low, number)) % (high - low)
    won = UTILITY[first] - UTILITY[second] + rng.normal(size=number) > 0.0
    return pd.DataFrame(
        {"winner": np.where(won, first, second), "loser": np.where(won, second, first)}
    )


TRAINING, TEST = played(0, 0, 25, 200), played(1, 12, N, 120)


def read(duels: pd.DataFrame, items: pd.DataFrame = ITEMS) -> spg.Duels:
    """With the means, scales and levels of the items in these duels alone."""
    used = items["item_id"].isin(duels.to_numpy().ravel())
    return spg.read_duels(items[used], duels).standardised()


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    kernel = gpflow.kernels.SquaredExponential(variance=4.0, lengthscales=1.5)
    return spg.PreferenceGP(read(TRAINING), kernel)


@pytest.fixture(scope="module")
def expected(model: spg.PreferenceGP) -> float:
    """Mean nats of TEST, standardised by hand as the training items were."""
    used = ITEMS["item_id"].isin(TRAINING.to_numpy().ravel())
    there = ITEMS[used]
    columns = [(ITEMS[c] - there[c].mean()) / there[c].std(ddof=0) for c in ("height", "width")]
    columns += [(ITEMS["colour"] == c).astype(float) for c in sorted(there["colour"].unique())]
    x = np.column_stack(columns)
    mean, variance = model.predict_difference(x[TEST["winner"]], x[TEST["loser"]])
    z = mean.numpy() / np.sqrt(variance.numpy() + 2.0 * float(model.likelihood.noise.numpy()))
    return float(-log_ndtr(z).mean())


def test_evaluate_converts_by_way_of_the_raw_values(
    model: spg.PreferenceGP, expected: float
) -> None:
    other = read(TEST)
    assert other.transform != model.duels.transform
    found = spg.evaluate(model, other)
    assert found["held_out"]["model"]["nlp_nats"] == pytest.approx(expected, rel=IDENTITY)
    # As from the tables, to the last figure: equal raw values are equal numbers.
    table = spg.evaluate(model, TEST, ITEMS)
    for part in ("items_outside_range", "outside_features", "duels"):
        assert found[part] == table[part]
    for part in ("held_out", "held_out_unseen_pairs"):
        for name, scores in _flat(table[part]).items():
            assert _flat(found[part])[name] == pytest.approx(scores, rel=ROUNDING), name


def test_duels_as_they_are_read_are_made_as_those_of_the_model(
    model: spg.PreferenceGP, expected: float
) -> None:
    """Whatever else is constant or unknown among their items."""
    other = spg.read_duels(ITEMS.iloc[12:].assign(extra=1.0), TEST)
    found = spg.evaluate(model, other)
    assert found["held_out"]["model"]["nlp_nats"] == pytest.approx(expected, rel=IDENTITY)
    log_p = model.predict(other).log_p
    assert -log_p[:, 0].mean() == pytest.approx(expected, rel=IDENTITY)


def test_duels_as_they_are_read_are_scored_by_a_model_in_chunks(tmp_path: Path) -> None:
    kernel = gpflow.kernels.SquaredExponential(variance=4.0, lengthscales=1.5)
    TRAINING.to_parquet(tmp_path / "duels.parquet")
    model = spg.StreamedGP(spg.stream_duels(tmp_path / "duels.parquet", ITEMS), kernel)
    other = spg.read_duels(ITEMS, TEST)
    found, same = spg.evaluate(model, other), spg.evaluate(model, TEST, ITEMS)
    nats = [each["held_out"]["model"]["nlp_nats"] for each in (found, same)]
    assert nats[0] == pytest.approx(nats[1], rel=ROUNDING)


def _flat(scores: dict[str, Any]) -> dict[str, float]:
    rows = pd.json_normalize(scores).iloc[0]
    return {name: float(value) for name, value in rows.items() if not isinstance(value, list | str)}


def test_streams_of_items_and_inline_are_converted(
    model: spg.PreferenceGP, expected: float, tmp_path: Path
) -> None:
    stream = spg.stream_duels(read(TEST))
    scores = spg.evaluate(model, stream)["held_out"]["model"]
    assert scores["nlp_nats"] == pytest.approx(expected, rel=IDENTITY)

    def inline(duels: pd.DataFrame, name: str) -> spg.Duels:
        sides = {
            f"{side}_{column}": ITEMS[column].to_numpy()[duels[side]]
            for side in ("winner", "loser")
            for column in ("height", "width")
        }
        pd.DataFrame(sides).to_parquet(tmp_path / name, index=False)
        return spg.stream_duels(tmp_path / name)

    training, test = inline(TRAINING, "a.parquet"), inline(TEST, "b.parquet")
    kernel = gpflow.kernels.SquaredExponential(variance=4.0, lengthscales=1.5)
    z = np.random.default_rng(0).normal(size=(8, 2))
    wide = spg.StreamedGP(training, kernel, inducing_variable=z)
    wide.infer()
    found = spg.evaluate(wide, test)["held_out"]["model"]
    assert test.transform != training.transform
    like = spg.stream_duels(tmp_path / "b.parquet", standardise=training.transform)
    assert found == spg.evaluate(wide, like)["held_out"]["model"]
    narrow = spg.stream_duels(tmp_path / "b.parquet", features=["width"])
    with pytest.raises(ValueError, match=r"features width, .* height, width; .*standardise="):
        spg.evaluate(wide, narrow)


def test_the_same_transform_and_none_change_nothing(model: spg.PreferenceGP) -> None:
    own, x = model.duels, np.ones((3, model.duels.num_features)) / 7.0
    assert features_in_units_of(own, x, None) is x
    assert features_in_units_of(own, x, FeatureTransform.from_dict(own.transform.to_dict())) is x  # type: ignore[union-attr]
    bare = spg.Duels(own.items, own.winners, own.losers, own.counts)
    found = spg.evaluate(spg.PreferenceGP(bare, model.kernel), own)  # its own items, to the bit
    score = spg.evaluate(model, own)["held_out"]["model"]["nlp_nats"]
    assert found["held_out"]["model"]["nlp_nats"] == pytest.approx(score, rel=FIXED_POINT)


def test_levels_are_found_by_name(model: spg.PreferenceGP) -> None:
    items = ITEMS.assign(colour=np.where(COLOUR == "blue", "azure", COLOUR))
    with pytest.warns(UserWarning, match="'colour': .* levels not seen in training .'azure'"):
        found = spg.evaluate(model, read(TEST, items))
    assert found["outside_features"]["colour"] == int((COLOUR[12:] == "blue").sum())
    reordered = ITEMS[["item_id", "colour", "width", "height"]].assign(extra=np.arange(N))
    same = spg.evaluate(model, read(TEST, reordered))["held_out"]["model"]
    expected = spg.evaluate(model, read(TEST))["held_out"]["model"]
    assert_same_scores(same, expected, rel=IDENTITY)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (ITEMS.drop(columns="width"), "feature 'width', but the duels have none of that name"),
        (ITEMS.assign(width=3.0), "feature 'width', but the duels left it out as constant"),
        (ITEMS.assign(width=COLOUR), "feature 'width', but the duels have it as categories"),
        (ITEMS.assign(colour=HEIGHT), "feature 'colour', but the duels have it as numbers"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    model: spg.PreferenceGP, items: pd.DataFrame, message: str
) -> None:
    with pytest.raises(ValueError, match=message + ".*give the items as a raw table"):
        spg.evaluate(model, read(TEST, items))


def test_levels_and_columns_that_nobody_knows_are_refused(model: spg.PreferenceGP) -> None:
    other = read(TEST, ITEMS.assign(colour=np.where(COLOUR == "blue", "azure", COLOUR)))
    lost = other.items.copy()
    lost[3, 2:] = 0.0  # a level that the transform of these duels did not know
    duels = spg.Duels(lost, other.winners, other.losers, transform=other.transform)
    with pytest.raises(ValueError, match=r"Item 3 .* has a level of 'colour' that its duels"):
        spg.evaluate(model, duels)
    duels = spg.Duels(lost[:, :2], other.winners, other.losers, transform=other.transform)
    with pytest.raises(ValueError, match="The items have 2 columns, but the transform"):
        spg.evaluate(model, duels)


def test_a_transform_beside_a_model_without_one_is_refused() -> None:
    own = read(TRAINING)
    bare = spg.Duels(own.items, own.winners, own.losers)
    model = spg.PreferenceGP(bare, gpflow.kernels.SquaredExponential())
    with refused("no_transform", "raw_items"):
        spg.evaluate(model, read(TEST))
    with refused("no_transform", "raw_items"):
        spg.replace(model, spg.read_duels(ITEMS, TEST))
