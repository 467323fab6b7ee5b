"""What is answered for a row, or a set, does not depend on what else is in its table."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.answers import read_answers
from sparse_prefgp.analysis.items import none_of

SETS = 40


def scenario(rng: np.random.Generator, number: int, of: int, none: bool) -> pd.DataFrame:
    """Alternatives whose sizes look like numbers, but for one."""
    rows = pd.DataFrame(
        {
            "choice_set": number,
            "price": rng.uniform(1, 9, of).round(2) + 0.001 * np.arange(of),
            "brand": rng.choice(list("ABC"), of),
            "size": rng.choice(["01", "2", "XL", "S", "M"], of),
        }
    )
    blank = pd.DataFrame([{"choice_set": number}])
    return pd.concat([rows, blank]) if none else rows


def unfitted(duels: spg.Duels) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.Linear(np.full(duels.num_features, 0.5)),
        approximation=spg.VFE(),
        inducing_variable=duels.items[:4],
    )


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    """Of choices among rows that describe themselves, with none of these."""
    rng = np.random.default_rng(0)
    table = pd.concat([scenario(rng, k, 3, True) for k in range(SETS)])
    chosen = np.arange(len(table)) % 4 == np.repeat(rng.integers(0, 4, SETS), 4)
    return unfitted(spg.read_choices(None, table.assign(chosen=chosen)))


@pytest.fixture(scope="module")
def named_model() -> spg.PreferenceGP:
    """Of choices among items of a table, which has no row of none of these."""
    rng = np.random.default_rng(1)
    items = scenario(rng, 0, 30, False).drop(columns="choice_set")
    items.insert(0, "item_id", range(30))
    shown = [rng.permutation(30)[:3] for _ in range(SETS)]
    choices = pd.DataFrame(shown, columns=["option_1", "option_2", "option_3"]).astype(str)
    chosen = choices["option_1"].where(np.arange(SETS) % 4 > 0, "none")
    choices = choices.assign(option_4="none", chosen=chosen)
    return unfitted(spg.read_choices(items, choices, none="none"))


@pytest.mark.parametrize("which", ["model", "named_model"])
@pytest.mark.covering(every=2)
def test_sets_next_to_others(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Alone and beside others, in a frame and in files, whose columns of words are numbers alone in
    some of them."""
    model, rng = request.getfixturevalue(which), np.random.default_rng(2)
    sets = [
        scenario(rng, k, of, none) for k, of, none in ((0, 3, True), (1, 5, True), (2, 2, False))
    ]
    sets[0]["size"] = ["01", "2", "2", None]
    beside = pd.concat(sets).sample(frac=1.0, random_state=0)
    beside.to_csv(tmp_path / "all.csv", index=False)
    if which == "model":  # "none" said by a column of its own
        flagged = pd.concat(sets).assign(none=lambda rows: rows["price"].isna().astype(int))
        for table in (flagged, flagged.assign(none=flagged["none"].astype(str))):
            found, same = (spg.predict(model, choices=x) for x in (table, pd.concat(sets)))
            assert found["probability"].tolist() == same["probability"].tolist()
    # In the order in which they stand beside others.
    one = beside[beside["choice_set"] == 0].drop(columns="choice_set")
    one.to_csv(tmp_path / "one.csv", index=False)

    def answers(table: Any) -> pd.DataFrame:
        found = spg.shares(model, table, draws=50).frame
        predicted = spg.predict(model, choices=table)["probability"]
        return found.assign(probability=predicted.to_numpy()).reset_index(drop=True)

    expected = answers(one)
    assert len(expected) == 4  # the blank row is none, and there
    for table in (tmp_path / "one.csv", tmp_path / "all.csv"):
        found = answers(table)
        if "choice_set" in found:
            found = found[found["choice_set"].astype(str) == "0"]
        for column in ("share", "lower", "upper", "sd", "probability"):
            np.testing.assert_allclose(found[column], expected[column], atol=1e-12)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_rows_of_a_file_with_empty_lines(
    model: spg.PreferenceGP, tmp_path: Path, packed: str
) -> None:
    """Messages number them as the file does, cells with ends of lines and blank rows among them."""
    path = tmp_path / f"sets.csv{packed}"
    text = 'choice_set,price,brand,size\n1,3,A,"S\n"\n\n,,,\n  \n1,oops,A,M\n1,2,B,S\n'
    opened: Any = gzip.open if packed else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(text)
    for ask in (spg.shares, lambda model, table: spg.predict(model, choices=table)):
        with pytest.raises(ValueError, match=r"row 4 of sets.csv"):
            ask(model, path)
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(text.replace(",,,\n", ""))
    with pytest.raises(ValueError, match=r"row 5 of sets.csv"):
        spg.shares(model, path)


def test_rankings_next_to_longer_ones(named_model: spg.PreferenceGP) -> None:
    rng = np.random.default_rng(6)
    rows = pd.DataFrame([rng.permutation(30)[:4] for _ in range(4)]).astype(object)
    rows = rows.set_axis([f"rank_{k}" for k in (1, 2, 3, 4)], axis=1)
    rows.loc[:1, "rank_4"] = None
    columns = ["probability", "log_probability"]
    beside = spg.predict(named_model, rankings=rows.iloc[::-1])[columns].to_numpy()
    alone = spg.predict(named_model, rankings=rows.head(1))[columns].to_numpy()
    np.testing.assert_allclose(beside[-1:], alone, atol=1e-12)


def test_none_is_what_the_model_has_learned(model: spg.PreferenceGP) -> None:
    """To the bit the item of the training table."""
    own = none_of(model.duels)
    assert len(own) == 1
    table = scenario(np.random.default_rng(3), 1, 3, True).assign(chosen=[1, 0, 0, 0])
    found = read_answers(model, "choices", table)
    known = found.items.numbers >= 0
    assert known.sum() == 1
    np.testing.assert_array_equal(found.items.inputs[known][:, : own.shape[1]], own)


def test_new_items_next_to_others(named_model: spg.PreferenceGP, tmp_path: Path) -> None:
    """Predicted duels of new items, and their features, whatever else is in their table."""
    rng = np.random.default_rng(4)
    items = scenario(rng, 0, 8, False).drop(columns="choice_set")
    items.insert(0, "item_id", [f"new{k}" for k in range(8)])
    items["size"] = ["01", "2", "01", "2", "XL", "01", "XL", "2"]
    pairs = pd.DataFrame({"first": ["new0", "new2"], "second": ["new1", "new3"]})
    columns = ["probability", "difference", "sd"]
    found = []
    for rows in (items, items.head(4)):
        rows.to_csv(tmp_path / "items.csv", index=False)
        for table in (rows, tmp_path / "items.csv"):
            found.append(spg.predict(named_model, pairs, table)[columns].to_numpy())
            found.append(spg.predict(named_model, pairs.head(1), table)[columns].to_numpy())
    for other in found:
        np.testing.assert_allclose(other, found[0][: len(other)], atol=1e-12)


def test_columns_found_are_those_of_the_table(
    model: spg.PreferenceGP, named_model: spg.PreferenceGP
) -> None:
    """Not those that were added on the way."""
    table = scenario(np.random.default_rng(5), 0, 3, True).drop(columns=["choice_set", "size"])
    for ask in (spg.shares, lambda model, table: spg.predict(model, choices=table)):
        with pytest.raises(ValueError, match="'item_id'") as error:
            ask(model, table)
        assert "(columns found: price, brand)" in str(error.value)
    items = table.assign(item_id=list("abcd"))
    with pytest.raises(ValueError, match="no column 'size'") as error:
        spg.predict(named_model, pd.DataFrame({"first": ["a"], "second": ["b"]}), items)
    assert "(columns found: price, brand, item_id)" in str(error.value)
    ties = pd.DataFrame({"item_a": ["a"], "item_b": ["b"]})
    duels = pd.DataFrame({"winner": ["a"], "loser": ["b"]})
    with pytest.raises(ValueError, match=r"no column 'judge'.*columns found: winner, loser\)"):
        spg.read_duels(None, duels, ties=ties, groups="judge")
