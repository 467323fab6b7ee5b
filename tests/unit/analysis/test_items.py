"""Items of raw tables, arrays and models: ids, known ones, and what lies outside the range."""

from __future__ import annotations

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.items import feature_columns, resolve_items
from sparse_prefgp.io.files import load
from tests.cases import random_duels
from tests.tolerances import ROUNDING

ITEMS = pd.DataFrame(
    {
        "item_id": ["a", "b", "c", "007", "never"],
        "size": [1.0, 2.0, 3.0, 4.0, 9.0],
        "colour": ["red", "blue", "red", "blue", "green"],
        "weight": [0.5, 0.1, 0.9, 0.3, 0.4],
    }
)
DUELS = pd.DataFrame(
    {"winner": ["a", "b", "c", "a"], "loser": ["b", "c", "007", "007"], "count": [2, 1, 1, 3]}
)


def build(items: pd.DataFrame = ITEMS, duels: pd.DataFrame = DUELS) -> spg.PreferenceGP:
    data = spg.read_duels(items, duels)
    return spg.PreferenceGP(data, gpflow.kernels.SquaredExponential(lengthscales=2.0))


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return build()


def test_the_models_own_items(model: spg.PreferenceGP) -> None:
    found = resolve_items(model)
    assert found.ids == ("a", "b", "c", "007", "never")
    np.testing.assert_array_equal(found.inputs, model.duels.items)
    np.testing.assert_array_equal(found.numbers, range(5))
    np.testing.assert_array_equal(found.comparisons, [5, 3, 2, 4, 0])
    # Only the item that took part in no duel can lie outside: size 9, and a colour of its own.
    np.testing.assert_array_equal(found.outside, [False] * 4 + [True])
    assert found.outside_features == {"size": 1, "colour": 1}
    assert found.unknown_levels == {}
    assert resolve_items(model, found) is found
    assert "5 items, 5 known to the model, 1 outside" in repr(found)


def test_a_raw_table_finds_what_the_model_knows(model: spg.PreferenceGP) -> None:
    table = pd.DataFrame(
        {
            "colour": ["blue", "pink", "red", "pink"],
            "weight": [0.1, 0.2, 0.1 - 1e-3, 0.3],
            "size": [2.0, 2.5, 2.0, 4.0],
            "item_id": ["b", "new", "newer", "007"],
            "note": ["x", "y", "z", "w"],
        }
    )
    with pytest.warns(UserWarning, match=r"'colour': 2 of 4 items have levels not seen .*'pink'"):
        found = resolve_items(model, table)
    assert found.ids == ("b", "new", "newer", "007")
    np.testing.assert_array_equal(found.numbers, [1, -1, -1, 3])
    np.testing.assert_array_equal(found.comparisons, [3, 0, 0, 4])
    np.testing.assert_array_equal(found.outside, [False, True, True, True])
    assert found.outside_features == {"colour": 2, "weight": 1}
    assert found.unknown_levels == {"colour": {"pink": 2}}
    np.testing.assert_allclose(found.inputs[0], model.duels.items[1], rtol=ROUNDING)
    # The known item is there with the features of the table.
    assert found.inputs[3, 0] == model.duels.items[3, 0]
    assert not np.array_equal(found.inputs[3], model.duels.items[3])


def test_ids_are_read_as_written_and_compared_as_text(
    model: spg.PreferenceGP, tmp_path: object
) -> None:
    path = tmp_path / "new.csv"  # type: ignore[operator]
    path.write_text("item_id,size,colour,weight\n007,1,red,0.5\n7,1,red,0.5\n")
    found = resolve_items(model, path)
    assert found.ids == ("007", "7")
    np.testing.assert_array_equal(found.numbers, [3, -1])  # 7 would leave a doubt


@pytest.mark.parametrize(
    ("known", "given", "numbers"),
    [
        (["007", "8", "9"], ["7", "8"], [0, 1]),
        ([7, 8, 9], ["007", "08", "010"], [0, 1, -1]),
        ([7, 8, 9], ["7", "007"], [0, -1]),
        (["07", "007", "9"], ["7", "9.0"], [-1, 2]),
        ([7, 8, 9], [7.0, 10.0], [0, -1]),
    ],
)
@pytest.mark.covering(every=4)
def test_whole_numbers_are_the_same_only_where_that_leaves_no_doubt(
    known: list[object], given: list[object], numbers: list[int]
) -> None:
    duels = spg.Duels(
        [[0.0], [1.0], [2.0]],
        [0, 1],
        [1, 2],
        item_ids=[str(value) for value in known],
        feature_names=["x"],
        transform=spg.read_duels(
            pd.DataFrame({"id": [1, 2], "x": [0.0, 1.0]}),
            pd.DataFrame({"winner": [1], "loser": [2]}),
        ).transform,
    )
    model = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential())
    table = pd.DataFrame({"item_id": given, "x": np.arange(len(given)) / 2})
    np.testing.assert_array_equal(resolve_items(model, table).numbers, numbers)


def test_an_array_holds_unknown_items() -> None:
    duels = random_duels(0)
    model = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential())
    given = np.array([[0.0, 0.0], [99.0, 0.0], [0.0, -99.0]])
    found = resolve_items(model, given)
    assert found.ids == (0, 1, 2)
    np.testing.assert_array_equal(found.inputs, given)
    np.testing.assert_array_equal(found.numbers, -1)
    np.testing.assert_array_equal(found.comparisons, 0)
    np.testing.assert_array_equal(found.outside, [False, True, True])
    assert found.outside_features == {"column 0": 1, "column 1": 1}
    assert resolve_items(model).ids == tuple(range(duels.num_items))


def test_names_of_raw_features(model: spg.PreferenceGP) -> None:
    assert feature_columns(model.duels) == ("size", "weight", "colour", "colour", "colour")
    named = spg.Duels([[0.0], [1.0]], [0], [1], feature_names=["x"])
    assert feature_columns(named) == ("x",)


def test_item_effects_get_the_number_of_the_item() -> None:
    data = spg.read_duels(ITEMS, DUELS)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=2.0) + spg.ItemEffect(0.3)
    model = spg.PreferenceGP(data, kernel, approximation=spg.Exact())
    found = resolve_items(model, ITEMS.replace({"item_id": {"b": "other"}}))
    assert found.inputs.shape == (5, data.num_features + 1)
    np.testing.assert_array_equal(found.inputs[:, -1], [0, -1, 2, 3, 4])
    assert resolve_items(model, data.items).inputs[:, -1].tolist() == [-1.0] * 5
    mean, variance = model.predict_f(found.inputs)
    # What the model learned about b's own effect does not carry over to an unknown item.
    assert variance[1, 0] > model.predict_f(resolve_items(model).inputs)[1][1, 0]
    assert mean.shape == (5, 1)


def test_rows_of_ids(model: spg.PreferenceGP) -> None:
    found = resolve_items(model)
    assert [found.by_id.find(str(value)) for value in ("c", "a", "007", 7, "7.0", "zz", 8)] == [
        *(2, 0, 3, 3, 3),
        *(None, None),
    ]
    pairs = load(pd.DataFrame({"first": ["a", "c"]}), "pairs", lambda header: ["first"])
    np.testing.assert_array_equal(found.by_id.rows_in(pairs, "first", "pair"), [0, 2])
    pairs.frame.loc[1, "first"] = "d"
    with pytest.raises(ValueError, match=r"Row 1 of the pairs frame .* the first 'd'.*the pair\."):
        found.by_id.rows_in(pairs, "first", "pair")


def test_select_and_follow(model: spg.PreferenceGP) -> None:
    table = ITEMS.assign(item_id=["x", "b", "y", "z", "w"], colour=["pink", *["red"] * 3, "odd"])
    with pytest.warns(UserWarning, match="levels not seen"):
        found = resolve_items(model, table)
    part = found.select([4, 1])
    assert part.ids == ("w", "b")
    assert part.unknown_levels == {"colour": {"odd": 1}}
    assert part.outside.tolist() == [True, False]
    assert found.select(found.numbers < 0).ids == ("x", "y", "z", "w")
    assert len(found.select([])) == 0
    both = found.followed_by(resolve_items(model))
    assert both.ids == ("x", "b", "y", "z", "w", "a", "c", "007", "never")
    np.testing.assert_array_equal(both.numbers, [-1, 1, -1, -1, -1, 0, 2, 3, 4])
    assert both.outside_features == {"colour": 3, "size": 2}
    assert both.unknown_levels == {"colour": {"pink": 1, "odd": 1}}
    assert both.name == "the items frame or the model's own items"
    back = resolve_items(model).followed_by(found)
    levels = dict(enumerate(back.levels_never_seen["colour"]))
    assert {row: level for row, level in levels.items() if level} == {5: "pink", 8: "odd"}
    assert back.followed_by(found) is back


def test_ids_that_read_alike_are_refused() -> None:
    data = spg.Duels([[0.0], [1.0], [2.0]], [0, 1], [1, 2], item_ids=[0, 1, "1"])
    found = resolve_items(spg.PreferenceGP(data, gpflow.kernels.SquaredExponential()))
    with pytest.raises(ValueError, match=r"ids 1 and '1' of the model's own items read alike"):
        found.by_id.find("0")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (ITEMS.drop(columns="weight"), "no column 'weight'"),
        (ITEMS.assign(size=["1", "2", "big", "4", "5"]), "'size' has 'big' in row 2"),
        (ITEMS.assign(size=[1.0, None, 2.0, 3.0, 4.0]), "'size' has a missing value in row 1"),
        (ITEMS.assign(colour=[None, "red", "red", "red", "red"]), "'colour' has a missing value"),
        (ITEMS.assign(item_id="a"), "'a' in row 1 .* was used before"),
        (ITEMS.head(0), "There are no items"),
        ("nowhere.csv", "items file 'nowhere.csv' does not exist"),
        (3, "items are of type int"),
        (np.zeros((2, 3)), "items has 3 columns, but the model has 5 features"),
        (np.zeros(5), "items has shape"),
        ([[0.0, 0.0, 0.0, 0.0, np.nan]], "nan in row 0"),
    ],
)
def test_bad_items_are_refused(model: spg.PreferenceGP, items: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_items(model, items)


def test_a_raw_table_needs_a_recorded_transform() -> None:
    model = spg.PreferenceGP(random_duels(0), gpflow.kernels.SquaredExponential())
    with pytest.raises(ValueError, match=r"records no feature transform.*give an \(n, D\) array"):
        resolve_items(model, ITEMS)
