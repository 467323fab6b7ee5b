"""One table in every format is the same table."""

import gzip

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io import read_duels, read_items, read_table

ITEMS = """item_id,height,made,n,note
007,1.5,2020-01-01,1,NA
8,2,2020-01-02 12:00,2,a

9,-3.25,2021-03-01,4,NA
A,.5,2021-03-02,5,a
"""
DUELS = "winner,loser,worth,count\n007,8,1.5,2\n9,A,2.25,1\n8,9,1,1\n"


def semicolons(text):
    return text.replace(",", ";").replace(".", ",")


def write(folder, name, text):
    """A CSV text in the format of the ending."""
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    elif name.endswith((".parquet", ".xlsx")):
        lines = [line.split(",") for line in text.splitlines() if line]
        frame = pd.DataFrame(lines[1:], columns=lines[0])
        for column in ("height", "worth", "n", "count"):
            if column in frame:
                frame[column] = frame[column].astype(float)
        if "made" in frame:
            frame["made"] = pd.to_datetime(frame["made"], format="ISO8601")
        if name.endswith(".parquet"):
            frame.to_parquet(path, index=False)
        else:
            pytest.importorskip("openpyxl")
            frame.to_excel(path, index=False)
    else:
        path.write_text(text)
    return path


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("ending", "form"),
    [
        (".csv.gz", str),
        (".csv", semicolons),
        (".csv.gz", semicolons),
        (".txt", lambda text: text.replace(",", "\t")),
        (".parquet", str),
        (".xlsx", str),
    ],
)
def test_every_format_gives_the_same_duels(tmp_path, ending, form):
    plain = write(tmp_path, "items.csv", ITEMS), write(tmp_path, "duels.csv", DUELS)
    other = (
        write(tmp_path, f"other_items{ending}", form(ITEMS)),
        write(tmp_path, f"other_duels{ending}", form(DUELS)),
    )
    expected, found = (read_duels(*paths, weights="worth") for paths in (plain, other))
    assert found.transform == expected.transform and found.item_ids == ("007", "8", "9", "A")
    np.testing.assert_array_equal(found.items, expected.items)
    np.testing.assert_array_equal(found.events.pairs, expected.events.pairs)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_array_equal(found.weights, [3.0, 2.25, 1.0])
    # In the order of the items, by hand.
    height = np.array([1.5, 2.0, -3.25, 0.5])
    np.testing.assert_allclose(found.items[:, 0], (height - height.mean()) / height.std())
    np.testing.assert_array_equal(read_items(other[0], found), found.items)


def test_what_is_recognised_is_said(tmp_path):
    items = write(tmp_path, "i.csv", semicolons(ITEMS))
    with pytest.warns(UserWarning) as said:
        read_table(items, write(tmp_path, "d.tsv", DUELS.replace(",", "\t")))
    assert [str(one.message) for one in said] == [
        "i.csv is read as separated by semicolons, with decimal commas in 'height'.",
        "d.tsv is read as separated by tabs.",
        "The dates in 'made' of i.csv are read as days since 1970-01-01.",
    ]


def test_the_first_of_several_sheets(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"item_id": ["NA", "b"], "x": [1, 2]})
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        frame.to_excel(book, sheet_name="Items", index=False)
        frame.assign(x=[3, 4]).to_excel(book, sheet_name="Old", index=False)
    duels = pd.DataFrame({"winner": ["NA"], "loser": ["b"]})
    with pytest.warns(UserWarning, match=r"Of the 2 sheets of book.xlsx the first, 'Items', is"):
        table = read_table(tmp_path / "book.xlsx", duels)
    assert table.items["x"].tolist() == [1, 2] and table.item_ids == ("NA", "b")


def test_commas_within_texts_are_no_decimals(tmp_path):
    """A column is numbers as a whole, or not at all."""
    path = tmp_path / "i.csv"
    path.write_text("item_id;size;tags\na;1;1,2\nb;2;x\nc;3;1,2\nd;4;x\n")
    duels = pd.DataFrame({"winner": ["a"], "loser": ["b"]})
    with pytest.warns(UserWarning, match=r"separated by semicolons\.$"):
        table = read_table(path, duels)
    assert table.categorical == ("tags",) and table.numeric == ("size",)


def test_the_separator_that_makes_most_columns(tmp_path):
    path = tmp_path / "i.csv"
    path.write_text('item_id,"height; in m",size\na,1,2\nb,2,5\n')
    table = read_table(path, pd.DataFrame({"winner": ["a"], "loser": ["b"]}))
    assert table.numeric == ("height; in m", "size")


@pytest.mark.filterwarnings("ignore:The dates")
@pytest.mark.parametrize(
    "days",
    [
        ["2020-01-01", "2020-03-01", "2021-01-01 12:00"],
        pd.to_datetime(["2020-01-01", "2020-03-01", "2021-01-01T12:00"], format="ISO8601"),
        pd.to_datetime(
            ["2020-01-01", "2020-03-01", "2021-01-01T12:00"], format="ISO8601"
        ).tz_localize("UTC"),
    ],
)
def test_dates_are_days(days):
    items = pd.DataFrame({"item_id": [1, 2, 3], "day": days})
    duels = read_duels(items, pd.DataFrame({"winner": [1, 2], "loser": [2, 3]}))
    # 50 years with 12 leap days, 31 + 29 days, and a leap year and a half day.
    expected = np.array([0.0, 60.0, 366.5]) + 50 * 365 + 12
    assert duels.transform.dates == ("day",) and duels.feature_names == ("day",)
    np.testing.assert_allclose(duels.transform.mean, [expected.mean()], rtol=1e-15)
    scaled = (expected - expected.mean()) / expected.std()
    np.testing.assert_allclose(duels.items[:, 0], scaled, rtol=1e-12)
    # New items need not say it in the same form.
    new = pd.DataFrame({"day": ["2020-03-01T00:00:00"]})
    np.testing.assert_allclose(read_items(new, duels), duels.items[[1]], rtol=1e-12)
    for bad, words in (([18262.0], "give dates"), (["soon"], "'soon' in row 0")):
        with pytest.raises(ValueError, match=words):
            read_items(pd.DataFrame({"day": bad}), duels)
    again = FeatureTransform.from_dict(duels.transform.to_dict())
    assert again == duels.transform


def test_transforms_saved_before_have_no_dates():
    values = FeatureTransform(("x",), (0.0,), (1.0,)).to_dict()
    del values["dates"]
    assert FeatureTransform.from_dict(values).dates == ()


def test_dates_are_not_taken_for_numbers_by_a_model_of_numbers():
    transform = FeatureTransform(("x",), (0.0,), (1.0,))
    with pytest.raises(ValueError, match=r"'2020-01-01' in row 0 .* numbers"):
        transform.apply(pd.DataFrame({"x": ["2020-01-01"]}))
