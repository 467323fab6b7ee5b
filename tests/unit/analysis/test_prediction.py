"""Predicted pairs: columns kept, ids found, numbers those of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.analysis import prediction as module
from sparse_prefgp.analysis.prediction import predict
from sparse_prefgp.models import base
from tests.tolerances import ROUNDING

RNG = np.random.default_rng(0)
ITEMS = pd.DataFrame(
    {
        "item_id": ["a", "b", "c", "d", "007"],
        "size": RNG.normal(size=5),
        "colour": ["red", "blue", "red", "blue", "blue"],
    }
)
DUELS = pd.DataFrame({"winner": ["a", "b", "c", "a", "d"], "loser": ["b", "c", "d", "007", "b"]})
PAIRS = pd.DataFrame(
    {
        "note": ["x", "y", "z"],
        "first": ["a", "c", "b"],
        "second": ["b", "a", "b"],
        "day": [3, 2, 1],
    }
)


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return spg.PreferenceGP(
        spg.read_duels(ITEMS, DUELS),
        gpflow.kernels.SquaredExponential(lengthscales=2.0),
        noise_variance=0.3,
    )


@pytest.fixture(scope="module")
def effects() -> spg.PreferenceGP:
    kernel = gpflow.kernels.SquaredExponential(lengthscales=2.0) + spg.ItemEffect(0.7)
    return spg.PreferenceGP(spg.read_duels(ITEMS, DUELS), kernel, approximation=spg.Exact())


def test_the_models_own_items(model: spg.PreferenceGP) -> None:
    frame = predict(model, PAIRS, level=0.8)
    pd.testing.assert_frame_equal(frame[PAIRS.columns], PAIRS)
    assert list(frame.columns) == [*PAIRS.columns, *module.ADDED]
    x = model.duels.items
    first, second = x[[0, 2, 1]], x[[1, 0, 1]]
    mean, variance = (value.numpy() for value in model.predict_difference(first, second))
    np.testing.assert_allclose(frame["difference"], mean, rtol=ROUNDING)
    np.testing.assert_allclose(frame["sd"] ** 2, variance, rtol=ROUNDING)
    np.testing.assert_allclose(
        frame["probability"], model.predict_duel(first, second), rtol=ROUNDING
    )
    half_width = norm.ppf(0.9) * np.sqrt(variance)
    np.testing.assert_allclose(frame["upper"], mean + half_width, rtol=ROUNDING)
    np.testing.assert_allclose(frame["lower"], mean - half_width, rtol=ROUNDING)
    assert not frame["outside_range"].any()
    assert frame.attrs == {
        "sides": ("first", "second"),
        "level": 0.8,
        "negative_variances": 0,
        "outside_items": {},
        "outside_features": {},
        "unknown_levels": {},
    }


def test_an_item_against_itself(model: spg.PreferenceGP, effects: spg.PreferenceGP) -> None:
    new = pd.DataFrame({"item_id": ["new"], "size": [0.2], "colour": ["red"]})
    pairs = pd.DataFrame({"first": ["b", "new"], "second": ["b", "new"]})
    for each in (model, effects):
        frame = predict(each, pairs, new)
        assert (frame["probability"] == 0.5).all()
        for name in ("difference", "sd", "lower", "upper"):
            assert (frame[name] == 0.0).all()


def test_winner_and_loser_from_a_file_with_ids_as_written(
    model: spg.PreferenceGP, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("winner,loser,who\na,007,Zoë\n\n7,a,\n")
    frame = predict(model, path)
    assert frame["winner"].tolist() == ["a", "7"]
    assert frame["loser"].tolist() == ["007", "a"]
    np.testing.assert_allclose(frame["probability"].sum(), 1.0, rtol=ROUNDING)
    both = PAIRS.assign(winner="nobody", loser="nobody")
    assert predict(model, both)["probability"].equals(predict(model, PAIRS)["probability"])


def test_given_items_come_first_and_the_models_own_after(model: spg.PreferenceGP) -> None:
    items = pd.DataFrame(
        {
            "item_id": ["b", "new", "idle"],
            "size": [ITEMS["size"][0], ITEMS["size"][2], 99.0],
            "colour": ["red", "pink", "grey"],
        }
    )
    pairs = pd.DataFrame({"first": ["b", "c"], "second": ["a", "new"]})
    with pytest.warns(UserWarning, match="levels not seen"):
        frame = predict(model, pairs, items)
    # b is now as a is; "new" is as c but for its colour.
    assert frame["probability"][0] == 0.5
    assert frame["probability"][1] != 0.5
    assert frame["outside_range"].tolist() == [False, True]
    # What is said is about the items in the pairs.
    assert frame.attrs["unknown_levels"] == {"colour": {"pink": 1}}
    assert frame.attrs["outside_features"] == {"colour": 1}
    assert frame.attrs["outside_items"] == {"new": ["colour"]}


def test_known_items_keep_their_effects(effects: spg.PreferenceGP) -> None:
    x = effects.duels.items
    renamed = ITEMS.replace({"item_id": {"a": "e"}})
    pairs = pd.DataFrame({"first": ["a", "e"], "second": ["b", "b"]})
    frame = predict(effects, pairs, renamed)
    known, unknown = np.column_stack([x, np.arange(5)]), np.column_stack([x, np.full(5, -1)])
    first, second = np.stack([known[0], unknown[0]]), known[[1, 1]]
    np.testing.assert_allclose(
        frame["probability"], effects.predict_duel(first, second), rtol=ROUNDING
    )
    assert frame["probability"][0] > frame["probability"][1]


@pytest.mark.slow
def test_chunks_change_nothing(model: spg.PreferenceGP, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = pd.concat([PAIRS] * 3, ignore_index=True)
    whole = predict(model, pairs)
    monkeypatch.setattr(base, "_QUESTIONS_AT_ONCE", 2)
    for name in module.ADDED[:-1]:
        np.testing.assert_allclose(
            predict(model, pairs)[name], whole[name], rtol=ROUNDING, atol=ROUNDING
        )
    assert len(predict(model, pairs.head(0))) == 0


@pytest.mark.parametrize(
    ("pairs", "settings", "message"),
    [
        (
            PAIRS.replace({"second": {"a": "zz"}}),
            {},
            r"Row 1 of the pairs frame .* second 'zz', .*own",
        ),
        (PAIRS.assign(first=["a", None, "b"]), {}, "Row 1 .* has a missing first"),
        (PAIRS.drop(columns="second"), {}, "The pairs frame has no column 'second'"),
        (PAIRS[["note"]], {}, "no columns 'first' and 'second'"),
        (DUELS[["winner"]], {}, "no column 'loser'"),
        (PAIRS.assign(sd=0.0), {}, "column 'sd', which is the name of a column that is added"),
        ("nowhere.csv", {}, "pairs file 'nowhere.csv' does not exist"),
        (PAIRS, {"level": 0.0}, "level is 0.0"),
        (PAIRS, {"items": ITEMS.drop(columns="size")}, "no column 'size'"),
    ],
)
def test_bad_pairs_are_refused(
    model: spg.PreferenceGP, pairs: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        predict(model, pairs, **settings)


def test_the_row_of_an_unknown_id_is_that_of_the_file(
    model: spg.PreferenceGP, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("first,second\na,b\n\nb,zz\n")
    remedy = r"add it in a table, --items new.csv \(items=\), or remove the pair\.$"
    with pytest.raises(
        ValueError, match=rf"Row 4 of pairs.csv \(the header is row 1\) .*'zz', .*; {remedy}"
    ):
        predict(model, path)


def test_what_is_no_number_in_a_column_that_the_model_needs(model: spg.PreferenceGP) -> None:
    for value, remedy in (
        ("€14.90", r"correct that value: make it a number, in pandas with str.replace and"),
        ("big", r"correct that value\.$"),
    ):
        new = pd.DataFrame({"item_id": ["new"], "size": [value], "colour": ["red"]})
        with pytest.raises(ValueError, match=f"numbers are needed; {remedy}") as told:
            predict(model, PAIRS, new)
        assert "ignore" not in str(told.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("Red Car", "did you mean 'red car'\\? Otherwise add that item"),
        (
            "blue cap",
            "did you mean 'blue car'\\? Otherwise add that item or remove the pair.$",
        ),
        ("x", "frame or the model.s own items; add that item"),
        (8, "'8', which is not an item id of .*; add that item"),
    ],
)
def test_the_id_that_was_meant_is_proposed(model: spg.PreferenceGP, given: Any, words: str) -> None:
    items = ITEMS.assign(item_id=["red car", "blue car", "c", "80", "007"])
    pairs = pd.DataFrame({"first": [given], "second": ["red car"]})
    with pytest.raises(ValueError, match=words):
        predict(model, pairs, items)
