"""Reading items and duels."""

import json
import re
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io import read_duels, read_items

ITEMS = pd.DataFrame(
    {
        "item_id": [10, 11, 12, 13],
        "price": [1.0, 2.0, 3.0, 6.0],
        "colour": ["red", "blue", "red", "red"],
        "new": [True, False, True, True],
        "wheels": [4, 4, 4, 4],
    }
)
DUELS = pd.DataFrame(
    {"winner": [10, 12, 10], "loser": [11, 13, 11], "person": ["a", "b", "b"], "day": [1, 2, 3]}
)


def write(path, text):
    path.write_text(text)
    return path


def message_of(error):
    message = str(error.value)
    assert message.endswith(".") and not re.search(r"\.\s+[A-Z]|\n", message), message
    return message


def refused(items, duels, *words, **options):
    with pytest.raises(ValueError) as error:
        read_duels(items, duels, **options).standardised()
    message = message_of(error)
    for word in words:
        assert word in message, message


def test_frame_to_duels():
    duels = read_duels(ITEMS, DUELS)
    assert duels.feature_names == ("price", "new", "colour=blue", "colour=red")
    assert duels.transform.dropped == ("wheels",)
    assert duels.item_ids == (10, 11, 12, 13)
    np.testing.assert_allclose(duels.items[:, :2].mean(axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose(duels.items[:, :2].std(axis=0), 1.0)
    np.testing.assert_array_equal(duels.items[:, 2], [0, 1, 0, 0])
    assert duels.counts.tolist() == [2, 1] and duels.num_duels == 3
    assert "wheels" in str(duels.summary())


@pytest.mark.parametrize("values", [[0, 1, 0], [1.0, 0.0, 1.0], [True, False, False]])
def test_a_column_that_may_say_who_drew_is_named(values):
    more = DUELS.assign(same=values, winner_home=[0, 1, 1], note="x", all_won=1)
    with pytest.warns(UserWarning) as caught:
        read_duels(ITEMS, more)
    assert [str(one.message) for one in caught] == [
        "Column 'same' holds only 0 and 1 and is not used: if 1 is a draw, rename it to tie, else "
        "such rows count as wins."
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_duels(ITEMS, more.rename(columns={"same": "tie"}))
        read_duels(ITEMS, more.assign(tie=0))
        read_duels(ITEMS, more, ignore=["same"])
        read_duels(ITEMS, more.assign(same=[0, 2, 0]))
        read_duels(ITEMS, more.assign(same=[0, None, 1]))
    with pytest.warns(UserWarning, match="Columns 'same', 'other' hold only 0 and 1 and are not"):
        read_duels(ITEMS, more.assign(other=[1, 0, 0]))


@pytest.mark.parametrize("values", [["first", "Second", "same"], ["left", "right ", "left"]])
def test_a_column_that_may_say_which_side_won_is_named(values):
    """As where the sides were renamed to winner and loser."""
    both = DUELS[["winner", "loser"]]
    with pytest.warns(UserWarning, match="Column 'choice' holds '.*' and '.*' and is not used: if"):
        read_duels(ITEMS, both.assign(choice=values))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_duels(ITEMS, both.assign(choice=values), ignore=["choice"])
        read_duels(ITEMS, both.assign(choice=["a", "b", "same"], note=["left", "up", "down"]))


def test_columns_of_the_duels_that_nobody_named():
    more = DUELS.assign(winner_home=[1, 0, 1], loser_home=0, count=1, tie=0, note="x")
    assert read_duels(ITEMS, DUELS[["winner", "loser"]]).unused_columns == ()
    duels = read_duels(ITEMS, more)
    assert duels.unused_columns == ("person", "day", "winner_home", "loser_home", "note")
    rows = dict(duels.summary().rows())
    assert rows["columns of the duels not used"] == "person, day, winner_home, loser_home, note"
    named = dict(person="person", time="day", context=["home"], ignore=["note"])
    assert read_duels(ITEMS, more, **named).unused_columns == ()
    assert not any(
        "not used" in row[0] for row in read_duels(ITEMS, more, **named).summary().rows()
    )
    weighed = read_duels(ITEMS, more, weights="day", groups="person", covariates=["home"])
    assert weighed.unused_columns == ("note",)
    many = DUELS.assign(**{f"c{i}": i for i in range(20)})
    assert "c7 and 12 more" in str(read_duels(ITEMS, many).summary())


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_files_read_like_frames(tmp_path, kind):
    paths = []
    for name, frame in (("items", ITEMS), ("duels", DUELS)):
        paths.append(tmp_path / f"{name}.{kind}")
        if kind == "parquet":
            frame.to_parquet(paths[-1])
        else:
            frame.to_csv(paths[-1], index=False)
    expected, found = read_duels(ITEMS, DUELS), read_duels(*map(str, paths))
    np.testing.assert_array_equal(found.items, expected.items)
    np.testing.assert_array_equal(found.winners, expected.winners)
    assert found.item_ids == expected.item_ids
    assert found.feature_names == expected.feature_names
    np.testing.assert_array_equal(read_items(paths[0], like=found), expected.items)


def test_ids_match_across_types(tmp_path):
    items = ITEMS.astype({"item_id": str})
    expected = read_duels(ITEMS, DUELS).winners
    np.testing.assert_array_equal(read_duels(items, DUELS).winners, expected)
    as_float = DUELS.astype({"winner": float})
    np.testing.assert_array_equal(read_duels(items, as_float).winners, expected)
    padded = write(tmp_path / "i.csv", "id,x\n007,1\n008,2\n")
    duels = read_duels(padded, pd.DataFrame({"winner": [7], "loser": [8]}))
    assert duels.winners.tolist() == [0] and duels.item_ids == ("007", "008")
    # 7 and 007 are two items here, so 7.0 would be a guess; 7 is exact.
    both = write(tmp_path / "b.csv", "id,x\n007,1\n7,2\n")
    assert read_duels(both, write(tmp_path / "d.csv", "winner,loser\n7,007\n")).winners[0] == 1
    refused(both, write(tmp_path / "e.csv", "winner,loser\n7.0,007\n"), "'7.0'", "Row 2")


def test_text_ids_and_first_column_as_id(tmp_path):
    items = write(tmp_path / "i.csv", "name,x\nNA,1\n b,2\n")
    duels = read_duels(items, write(tmp_path / "d.csv", "loser,winner\nNA,b\n"))
    assert duels.item_ids == ("NA", "b") and duels.winners.tolist() == [1]


def test_levels_named_like_missing_values(tmp_path):
    duels = write(tmp_path / "d.csv", "winner,loser\n1,2\n")
    lines = "item_id,x,kind ,y\n1,1,NA,p\n\n2,2,None,q\n3,3,null,q\n4,4,NA,p\n5,5,big,p\n"
    found = read_duels(write(tmp_path / "i.csv", lines), duels)
    assert found.feature_names[1:5] == ("kind=NA", "kind=None", "kind=big", "kind=null")
    np.testing.assert_array_equal(found.items[:, 1], [1, 0, 0, 1, 0])
    refused(write(tmp_path / "i.csv", lines.replace("null", "")), duels, "'kind'", "row 5")
    # Among numbers it is a missing value still.
    refused(
        write(tmp_path / "i.csv", lines.replace("3,3", "3,NA")), duels, "'x'", "missing", "row 5"
    )
    odd = lines.replace("1,1,", "1,NA,").replace("5,5", "5,oops")
    refused(write(tmp_path / "i.csv", odd), duels, "'x'", "'oops'", "row 7")


def test_item_id_column_need_not_be_first():
    frame = ITEMS[["price", "item_id", "new"]]
    assert read_duels(frame, DUELS).feature_names == ("price", "new")
    assert read_duels(frame.set_index("item_id"), DUELS).item_ids == (10, 11, 12, 13)


def test_features_and_ignore():
    assert read_duels(ITEMS, DUELS, features=["new"]).feature_names == ("new",)
    names = read_duels(ITEMS, DUELS, ignore=["colour", "wheels", "person"]).feature_names
    assert names == ("price", "new")
    # What is ignored is not a feature even when it is asked for, but stays at hand for a split.
    table = read_duels(ITEMS, DUELS, features=["price", "new"], ignore=["new"])
    assert table.raw.numeric == ("price",) and "new" in table.raw.frame.columns
    refused(ITEMS, DUELS, "'pric'", "price", features=["pric"])
    refused(ITEMS, DUELS, "'pric'", "price", ignore=["pric"])
    refused(ITEMS, DUELS, "'price'", "list", ignore="price")


def test_counts():
    with_counts = DUELS.assign(count=[1, 2, 3])
    duels = read_duels(ITEMS, with_counts)
    assert duels.counts.tolist() == [4, 2]
    assert "count" not in read_duels(ITEMS, with_counts).context.columns
    assert read_duels(ITEMS, DUELS, counts="day").counts.tolist() == [4, 2]
    assert read_duels(ITEMS, DUELS, counts=[1, 2, 3]).counts.tolist() == [4, 2]
    refused(ITEMS, DUELS.assign(count=[1, 0, 3]), "'count'", "has 0", "row 1")
    refused(ITEMS, DUELS.assign(count=[1, 1.5, 3]), "has 1.5", "row 1")
    refused(ITEMS, DUELS, "'nope'", counts="nope")
    refused(ITEMS, DUELS.assign(count=[1, 1e19, 3]), "'count'", "1e+19", "row 1", "2**53")
    refused(ITEMS, DUELS, "row 2", "2**53", counts=[2**53 - 1, 1, 1])
    refused(ITEMS, DUELS, "(2,)", counts=[1, 2])


def test_training_items_alone_set_the_scale():
    table = read_duels(ITEMS, DUELS, ignore=["wheels", "colour"])
    train = table.select([0, 2]).without_idle_items().standardised()
    assert train.item_ids == (10, 11)
    np.testing.assert_allclose(train.items[:, 0], [-1.0, 1.0])
    test = table.standardised([1], transform=train.transform)
    assert test.num_items == 4
    np.testing.assert_allclose(test.items[:, 0], [-1.0, 1.0, 3.0, 9.0])
    mask = np.array([True, False, True])
    assert table.standardised(mask).num_duels == 2
    part = table.select(mask)
    assert part.num_rows == 2 and part.context["day"].tolist() == [1, 3]
    for rows in ([3], [0.5], []):
        with pytest.raises(ValueError):
            table.standardised(rows)


def test_new_items_in_the_same_units(tmp_path):
    duels = read_duels(ITEMS, DUELS)
    model = SimpleNamespace(duels=duels)
    new = write(tmp_path / "n.csv", "new,extra,colour,price\nTrue,9,blue,2.0\n")
    row = read_items(new, like=model)
    assert row.shape == (1, 4)
    np.testing.assert_allclose(row[0, 0], (2.0 - 3.0) / np.std([1, 2, 3, 6]))
    np.testing.assert_array_equal(row[0, 2:], [1, 0])
    np.testing.assert_array_equal(read_items(ITEMS, like=duels), duels.items)
    with pytest.raises(ValueError, match="no column 'colour'") as error:
        read_items(ITEMS.drop(columns="colour"), like=duels)
    message_of(error)
    with pytest.raises(ValueError, match="records no feature transform") as error:
        read_items(ITEMS, like=Duels([[0.0], [1.0]], [0], [1]))
    message_of(error)
    with pytest.raises(ValueError, match=r"row 1 .*imputation"):
        read_items(ITEMS.assign(price=[1.0, np.nan, 1.0, 1.0]), like=duels)


def test_unknown_level_is_none_of_the_known():
    duels = read_duels(ITEMS, DUELS)
    new = ITEMS.assign(colour=["green", "blue", "green", "red"])
    with pytest.warns(UserWarning, match="2 of 4 items.*'green'"):
        rows = read_items(new, like=duels)
    np.testing.assert_array_equal(rows[:, 2:], [[0, 0], [1, 0], [0, 0], [0, 1]])


def test_transform_survives_json():
    transform = read_duels(ITEMS.assign(price=[0.1, 0.2, 0.7, 1 / 3]), DUELS).transform
    again = FeatureTransform.from_dict(json.loads(json.dumps(transform.to_dict())))
    assert again == transform
    with pytest.raises(ValueError, match="'scale'"):
        FeatureTransform.from_dict({"numeric": [], "mean": []})
    columns = {"price": [0.5], "new": [True], "colour": ["red"]}
    assert again.apply(columns).shape == (1, 4)


def test_categorical_dtype_and_nullable_numbers():
    items = ITEMS.assign(
        wheels=pd.Categorical([2, 4, 4, 2]), price=pd.array([1, 2, 3, 6], dtype="Int64")
    )
    names = read_duels(items, DUELS).feature_names
    assert names == ("price", "new", "colour=blue", "colour=red", "wheels=2", "wheels=4")
    refused(ITEMS.assign(price=pd.array([1, None, 3, 6], dtype="Int64")), DUELS, "'price'", "row 1")


def test_numbers_stored_as_text_are_numbers():
    table = read_duels(ITEMS.assign(price=["1", "2.5", "3e0", "4"]), DUELS)
    assert table.raw.numeric == ("price", "new", "wheels")


def test_text_columns_that_are_no_features():
    names = [f"name {i}" for i in range(4)]
    refused(ITEMS.assign(title=names), DUELS, "'title'", "--ignore", "ignore=", "each of its 4")
    many = pd.DataFrame(
        {"id": range(200), "x": np.arange(200) / 7, "town": [f"town {i % 51}" for i in range(200)]}
    )
    duels = pd.DataFrame({"winner": [0], "loser": [1]})
    refused(many, duels, "'town'", "51", "--ignore")
    assert read_duels(many, duels, ignore=["town"]).num_features == 1
    fifty = many.assign(town=[f"town {i % 50}" for i in range(200)])
    assert read_duels(fifty, duels).num_features == 51
    spans = many.assign(town=pd.Timedelta(days=1))
    refused(spans, duels, "'town'", "timedelta64", "--ignore")


def table_of(values):
    """Items with a column of text, so many of them that no level is alone."""
    column = [*values, *values]
    items = pd.DataFrame(
        {"item_id": range(len(column)), "price": column, "size": range(len(column))}
    )
    return items.assign(size=items["size"] ** 2), pd.DataFrame({"winner": [0, 2], "loser": [1, 3]})


@pytest.mark.parametrize(
    ("values", "example"),
    [
        ([f"${i}.63" for i in range(12)], "$0.63"),
        ([*[f"{i} %" for i in range(9)], *"abc"], "0 %"),
        ([f"1,204,{i}00" for i in range(1, 12)], "1,204,100"),
        ([f"{i / 10} kg" for i in range(12)], "0.0 kg"),
        ([f"-CHF {i}" for i in range(12)], "-CHF 0"),
        ([f"{i} years old" for i in range(12)], "0 years old"),
    ],
)
def test_numbers_with_something_around_them_are_said(values, example):
    items, duels = table_of(values)
    with pytest.warns(UserWarning, match="'price' of the items frame is read as") as said:
        found = read_duels(items, duels)
    assert repr(example) in message_of(SimpleNamespace(value=said[0].message))
    assert "str.replace" in str(said[0].message) and len(said) == 1
    assert found.transform.categorical == ("price",)  # nothing is converted
    refused(items[: len(values)], duels, "'price'", repr(example), "make it a number")


@pytest.mark.parametrize(
    "values",
    [
        ["3 kg", "4 kg"],  # few levels
        [f"{i}{letter}" for i in range(3, 8) for letter in "abc"],  # grades of climbs
        [f"room {i}" for i in range(12)],
        [f"1.{i}.3" for i in range(12)],
        [f"{i}-{i + 10} %" for i in range(12)],
    ],
)
def test_categories_with_numbers_in_them_are_categories(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_duels(*table_of(values))


def test_levels_that_are_nearly_as_many_as_the_items_are_said():
    items, duels = table_of([f"name {i}" for i in range(12)])
    names = [*items["price"][:12], "name 11", "name 10"]
    with pytest.warns(UserWarning, match="12 categories, but these are nearly as many as its 14"):
        read_duels(items[:14].assign(price=names), duels)


def test_commas_between_thousands():
    items, duels = table_of([f"1,20{i}" for i in range(9)])
    refused(items, duels, "'1,200'", "leave commas between thousands out")
    refused(items.replace("1,208", "1,5"), duels, "write decimal points")


def test_an_id_is_no_feature():
    kept = ("along with", "kernel + spg.ItemEffect()", "linear+matern52+item")
    assert read_duels(ITEMS[["item_id"]], DUELS).num_features == 0
    refused(ITEMS, DUELS, "asked for is the id 'item_id'", *kept, features=["item_id"])
    refused(ITEMS, DUELS, "A feature is 'item_id'", features=["item_id", "price"])
    for name in ("car_id", "ID", "index", "row number", "key", "Unnamed: 0"):
        items = ITEMS[["item_id"]].assign(**{name: [7, 3, 5, 11]})
        refused(items, DUELS, repr(name), "by its name and values", *kept)
        refused(items, DUELS, repr(name), "by its name and values", features=[name])
        # A repeated or a broken number says something about more than one item.
        assert read_duels(items.assign(**{name: [7, 3, 7, 11]}), DUELS).num_features == 1
        assert read_duels(items.assign(**{name: [7, 3, 5.5, 11]}), DUELS).num_features == 1
        assert read_duels(items.assign(price=[1, 2, 3, 5]), DUELS).num_features == 2
    rows = pd.DataFrame({"item_id": range(20), "x": range(1, 21)})
    duels = pd.DataFrame({"winner": [0], "loser": [1]})
    refused(rows, duels, "'x'", "from 1 to 20", "--features x", *kept)
    assert read_duels(rows, duels, features=["x"]).num_features == 1
    assert read_duels(rows[::-1], duels).num_features == 1
    assert read_duels(rows[:19], duels).num_features == 1


def test_bad_values(tmp_path):
    lines = ["item_id,x,y", "a,1,2", "", "b,oops,3", "c,3,4", "d,4,5"]
    duels = write(tmp_path / "d.csv", "winner,loser\na,b\n")
    # The blank line counts: the message gives the row a spreadsheet shows.
    refused(write(tmp_path / "i.csv", "\n".join(lines)), duels, "'x'", "'oops'", "row 4 of i.csv")
    lines[3] = "b,,3"
    refused(
        write(tmp_path / "i.csv", "\n".join(lines)), duels, "'x'", "missing", "row 4", "imputation"
    )
    lines[3] = "b,inf,3"
    refused(write(tmp_path / "i.csv", "\n".join(lines)), duels, "inf", "row 4", "imputation")
    refused(ITEMS.assign(colour=["red", None, "red", "red"]), DUELS, "'colour'", "row 1")


def test_cells_that_are_neither_numbers_nor_text():
    duels = DUELS
    refused(ITEMS.assign(price=[{1}, {2}, {3}, {4}]), duels, "'price'", "row 0", "set")
    refused(
        ITEMS.assign(price=pd.Series([1, 10**400, 3, 4], dtype=object)),
        duels,
        "'price'",
        "row 1",
        "too large",
    )


def test_bad_ids(tmp_path):
    items = write(tmp_path / "i.csv", "item_id,x\n1,1\n2,2\n")

    def duels(text):
        return write(tmp_path / "d.csv", text)

    refused(items, duels("winner,loser\n1,2\n1,9\n"), "Row 3 of d.csv", "loser '9'", "i.csv")
    refused(items, duels("winner,loser\n1,2\n,2\n"), "Row 3 of d.csv", "missing winner")
    refused(items, duels("winner,loser\n1,2\n2,2\n"), "row 3 of d.csv", "'2'", "itself")
    refused(items, duels("winner,loser\n"), "no duels", "d.csv")
    refused(items, duels("a,b\n1,2\n"), "'winner'", "a, b")
    refused(items, duels("winner:loser\n1:2\n"), "d.csv", "'winner'", "winner:loser")
    refused(ITEMS, DUELS.assign(winner=[99, 10, 12]), "99", "Row 0")
    twice = write(tmp_path / "t.csv", "item_id,x\n1,1\n2,2\n1,3\n")
    refused(twice, duels("winner,loser\n1,2\n"), "'1'", "row 4", "row 2")
    unnamed = write(tmp_path / "u.csv", "item_id,x\n1,1\n,2\n")
    refused(unnamed, duels("winner,loser\n1,2\n"), "id", "row 3")


def test_bad_files(tmp_path):
    good = write(tmp_path / "i.csv", "item_id,x\n1,1\n2,2\n")
    duels = write(tmp_path / "d.csv", "winner,loser\n1,2\n")
    refused(tmp_path / "none.csv", duels, "none.csv", "does not exist")
    refused(good, tmp_path, "is a folder; give one table")
    refused(write(tmp_path / "e.csv", ""), duels, "e.csv", "empty")
    refused(write(tmp_path / "e.csv", "\n\n"), duels, "e.csv", "empty")
    refused(write(tmp_path / "h.csv", "item_id,x\n"), duels, "no items")
    refused(write(tmp_path / "g.csv.gz", "item_id,x\n"), duels, "cannot be read")
    refused(write(tmp_path / "p.parquet", "item_id,x\n"), duels, "cannot be read")
    (tmp_path / "l.csv").write_bytes(b"item_id,x\n1,\xff\xfe\n")
    refused(tmp_path / "l.csv", duels, "cannot be read")
    refused(write(tmp_path / "r.csv", "item_id,x\n1,2\n2,3,4\n"), duels, "cannot be read")
    refused(write(tmp_path / "s.csv", "item_id,x\n1,2,9\n2,3,4\n"), duels, "cannot be read")
    refused(write(tmp_path / "c.csv", "item_id,x,x\n1,2,9\n2,3,4\n"), duels, "'x' twice")
    refused(3, duels, "int")


def test_spaces_and_marks_around_names(tmp_path):
    items = write(tmp_path / "i.csv", "\ufeffitem_id, x\n1, 1\n2, 2\n")
    assert read_duels(items, write(tmp_path / "d.csv", "winner, loser\n1, 2\n")).num_duels == 1

    items = write(tmp_path / "i.csv", "item_id ,x \n007 ,1\n2,2\n")
    duels = read_duels(items, write(tmp_path / "d.csv", "winner ,loser , count \n007,2,3\n"))
    assert duels.num_duels == 3 and duels.feature_names == ("x",) and duels.item_ids[0] == "007"
    refused(write(tmp_path / "t.csv", "item_id,x,x \n1,1,1\n2,2,2\n"), tmp_path / "d.csv", "twice")


def test_commas_that_are_not_separators(tmp_path):
    duels = write(tmp_path / "d.csv", "winner,loser\n1,2\n")
    lines = 'item_id,x\n1,"1,5"\n2,"-2,5"\n3,3\n'
    refused(write(tmp_path / "i.csv", lines), duels, "'x'", "'1,5'", "row 2", "decimal points")


def test_constant_features_are_refused():
    huge = ITEMS.assign(price=[1e308, -1e308, 1.0, 1.0])
    refused(huge, DUELS, "'price'", "rescale")
    refused(ITEMS[["item_id", "wheels"]], DUELS, "constant", "wheels")
    near = ITEMS.assign(price=1.0 + np.array([0, 1, 0, 1]) * 2.0**-52)
    assert "price" in read_duels(near, DUELS).transform.dropped


def test_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "\.\[cli\]"'):
        read_duels(ITEMS, DUELS)


@pytest.mark.slow
def test_tennis(data_dir):
    folder = data_dir / "tennis_atp"
    paths = folder / "items.csv.gz", folder / "duels.csv.gz"
    table = read_duels(*paths, ignore=["player_id", "date"])
    assert table.num_items == 304_881 and table.num_rows == 296_256
    assert len(table.raw.numeric) == 14 and not table.raw.categorical
    with pytest.warns(UserWarning, match="dates in 'date' of items"):
        assert "date" in read_duels(*paths, ignore=["player_id"]).raw.numeric


def test_convincing_arguments(data_dir):
    folder = data_dir / "ukp_convincing"
    duels = read_duels(
        folder / "items.csv.gz", folder / "duels.csv.gz", ignore=["source_id", "debate"]
    )
    assert duels.num_duels == 65_340 and duels.num_items == 1_052 and duels.num_features == 56
    summary = duels.summary()
    assert summary.components == 32 and summary.contradicted_pairs > 1_000
    assert summary.num_items - summary.distinct_feature_rows == 14
