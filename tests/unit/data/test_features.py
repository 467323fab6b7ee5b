"""Raw columns to model features and back to the same ones for new items."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.data.features import FeatureTransform, numeric_column, text_column
from tests.tolerances import ROUNDING

RAW = {
    "price": [1.0, 2.0, 3.0, 6.0],
    "wheels": [4, 4, 4, 4],
    "colour": ["red", "blue", "red", "red"],
    "shape": ["round"] * 4,
}
NUMERIC, CATEGORICAL = ["price", "wheels"], ["colour", "shape"]


@pytest.fixture
def transform():
    return FeatureTransform.fit(RAW, NUMERIC, CATEGORICAL)


def test_fit_records_scale_levels_and_what_was_dropped(transform):
    assert transform.numeric == ("price",) and transform.mean == (3.0,)
    assert transform.scale == (pytest.approx(np.std([1, 2, 3, 6]), rel=ROUNDING),)
    assert transform.categorical == ("colour",) and transform.categories == (("blue", "red"),)
    assert transform.dropped == ("wheels", "shape")
    assert transform.feature_names == ("price", "colour=blue", "colour=red")


@pytest.mark.parametrize("frame", [RAW, pd.DataFrame(RAW)])
def test_apply_standardises_and_encodes(transform, frame):
    features = transform.apply(frame)
    assert features.shape == (4, 3) and features.flags.c_contiguous
    np.testing.assert_allclose(features[:, 0].mean(), 0.0, atol=ROUNDING)
    np.testing.assert_allclose(features[:, 0].std(), 1.0, rtol=ROUNDING)
    np.testing.assert_array_equal(features[:, 1:], [[0, 1], [1, 0], [0, 1], [0, 1]])
    # Columns that are not features need not be there, and the rows decide nothing by themselves.
    one = {"colour": ["blue"], "price": [3.0]}
    np.testing.assert_array_equal(transform.apply(one), [[0.0, 1.0, 0.0]])


def test_raw_values_come_back(transform):
    features = transform.apply(RAW)
    raw = features[:, 0] * transform.scale[0] + transform.mean[0]
    np.testing.assert_allclose(raw, RAW["price"], rtol=ROUNDING)


def test_a_level_never_seen_is_none_of_the_known(transform):
    new = RAW | {"colour": ["green", "blue", "green", "grey"]}
    with pytest.warns(UserWarning, match=r"'colour': 3 of 4 items .*'green', 'grey'.*none of the"):
        features = transform.apply(new)
    np.testing.assert_array_equal(features[:, 1:], [[0, 0], [1, 0], [0, 0], [0, 0]])


def test_survives_json_to_the_last_bit():
    awkward = {"x": [0.1, 1 / 3, 2e-17, 0.7], "c": ["é", "b=1", "", "b=1"]}
    transform = FeatureTransform.fit(awkward, ["x"], ["c"])
    again = FeatureTransform.from_dict(json.loads(json.dumps(transform.to_dict())))
    assert again == transform
    np.testing.assert_array_equal(again.apply(awkward), transform.apply(awkward))
    for name in set(transform.to_dict()) - {"dates"}:  # which models saved before lack
        entries = transform.to_dict()
        del entries[name]
        with pytest.raises(ValueError, match=f"no entry '{name}'"):
            FeatureTransform.from_dict(entries)


def test_only_the_training_rows_decide():
    train = {"price": [1.0, 3.0], "colour": ["red", "blue"]}
    transform = FeatureTransform.fit(train, ["price"], ["colour"])
    np.testing.assert_array_equal(
        transform.apply({"price": [5.0, 2.0], "colour": ["red", "blue"]}),
        [[3.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    )


def test_constant_columns():
    with pytest.raises(ValueError, match=r"constant over the training items \(wheels, shape\)"):
        FeatureTransform.fit(RAW, ["wheels"], ["shape"])
    # Rounding noise on one value is not a variation; small numbers that differ are.
    near = {"x": [1.0, 1.0 + 2.0**-52], "y": [0.0, 1.0]}
    assert FeatureTransform.fit(near, ["x", "y"]).dropped == ("x",)
    small = {"x": [1e-100, 3e-100]}
    features = FeatureTransform.fit(small, ["x"]).apply(small)
    np.testing.assert_allclose(features, [[-1.0], [1.0]], rtol=ROUNDING)
    with pytest.raises(ValueError, match="1e-200 to 3e-200, which cannot be standardised"):
        FeatureTransform.fit({"x": [1e-200, 3e-200]}, ["x"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"price": [1.0, None, 3.0, 6.0]}, r"'price' has a missing value in row 1.*imput"),
        ({"price": [1.0, 2.0, np.inf, 6.0]}, "'price' has inf in row 2"),
        ({"price": [1.0, 2.0, 3.0, "six"]}, "'price' has 'six' in row 3 .* where numbers"),
        ({"price": [1.0, 2.0, 3.0, 10**400]}, "'price' has an integer of 1329 bits in row 3"),
        ({"price": [1e308, -1e308, 0.0, 0.0]}, "'price' has values from .*rescale"),
        ({"colour": ["red", None, "red", "red"]}, "'colour' has a missing value in row 1"),
        ({"colour": ["red", pd.NA, "red", "red"]}, "'colour' has a missing value in row 1"),
    ],
)
def test_bad_values_name_column_and_row(change, words):
    with pytest.raises(ValueError, match=words) as error:
        FeatureTransform.fit(RAW | change, NUMERIC, CATEGORICAL)
    assert str(error.value).endswith(".")
    with pytest.raises(ValueError, match=r"in line \d of my file|values from"):
        FeatureTransform.fit(RAW | change, NUMERIC, CATEGORICAL, lambda i: f"line {i} of my file")


def test_bad_values_of_new_items(transform):
    with pytest.raises(ValueError, match=r"'colour' is missing; add it \(columns found: price\)"):
        transform.apply({"price": [1.0]})
    with pytest.raises(ValueError, match=r"'price' has a missing value.*row 0"):
        transform.apply({"price": [np.nan], "colour": ["red"]})
    with pytest.raises(ValueError, match="'colour' has a missing value in row 0"):
        transform.apply({"price": [1.0], "colour": [None]})


def test_one_column():
    frame = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    assert numeric_column(frame, "b").tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match=r"'n' has a missing value .* row 1"):
        numeric_column(frame, "n")
    assert text_column({"c": [1, "x", 2.5]}, "c").tolist() == ["1", "x", "2.5"]
    assert numeric_column({"c": ["1", " 2e1 "]}, "c").tolist() == [1.0, 20.0]


def test_numbers_alone_do_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.preprocessing", None)
    assert FeatureTransform.fit(RAW, ["price"]).feature_names == ("price",)
