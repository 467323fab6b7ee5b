"""One table in every format is the same table."""

import gzip
import json
import warnings

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io import read_duels, read_items
from sparse_prefgp.io.files import load

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
        read_duels(items, write(tmp_path, "d.tsv", DUELS.replace(",", "\t")))
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
        table = read_duels(tmp_path / "book.xlsx", duels)
    assert table.raw.frame["x"].tolist() == [1, 2] and table.item_ids == ("NA", "b")


def test_commas_within_texts_are_no_decimals(tmp_path):
    """A column is numbers as a whole, or not at all."""
    path = tmp_path / "i.csv"
    path.write_text("item_id;size;tags\na;1;1,2\nb;2;x\nc;3;1,2\nd;4;x\n")
    duels = pd.DataFrame({"winner": ["a"], "loser": ["b"]})
    with pytest.warns(UserWarning, match=r"separated by semicolons\.$"):
        table = read_duels(path, duels)
    assert table.raw.categorical == ("tags",) and table.raw.numeric == ("size",)


def test_the_separator_that_makes_most_columns(tmp_path):
    path = tmp_path / "i.csv"
    path.write_text('item_id,"height; in m",size\na,1,2\nb,2,5\n')
    table = read_duels(path, pd.DataFrame({"winner": ["a"], "loser": ["b"]}))
    assert table.raw.numeric == ("height; in m", "size")


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


RECORDS = [
    {"winner": "007", "loser": 7, "by": {"name": "Ann", "age": 31}},
    {"winner": "NA", "loser": 9007199254740993, "by": {"name": "Bob", "age": None}},
]


LINES = "\n\n".join(json.dumps(one) for one in RECORDS)


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (".jsonl", LINES),
        (".ndjson", LINES),
        (".json", LINES),
        (".jsonl.gz", LINES),
        (".json", json.dumps(RECORDS, indent=1)),
        (".json.gz", json.dumps(RECORDS)),
        (".json", json.dumps({"of": 2024, "rows": RECORDS})),
    ],
)
def test_records_in_json(tmp_path, ending, text):
    path = write(tmp_path, f"d{ending}", text)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        table = load(path, "duels", lambda header: ("winner", "loser"))
    assert table.frame["winner"].tolist() == ["007", "NA"]
    assert table.frame["loser"].tolist() == [7, 9007199254740993]
    assert table.frame["by.name"].tolist() == ["Ann", "Bob"]
    assert table.frame["by.age"][0] == 31.0 and np.isnan(table.frame["by.age"][1])
    where = "line 3 of {}" if text == LINES else "record 1 of {} (counted from 0)"
    assert table.row(1) == where.format(path.name)
    assert len(said) == ("2024" in text)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("d.jsonl", '{"a": 1}\n{"a": b}\n', r"Expecting value in line 2\)"),
        ("d.jsonl", '{"a": 1}\n[1, 2]\n', r"line 2 is '\[1, 2\]', and no object"),
        ("d.jsonl", '{"a.b": 1, "a": {"b": 2}}\n', "two fields of one name"),
        ("d.jsonl", "{}\n", "is empty"),
        ("d.json", '[{"a": 1}\n{"a": 2}]', "in line 2"),
        ("d.json", '{"a": {"0": 1}}', "no list of objects, .* orient='records'"),
        ("d.json", '{"a": [{"x": 1}], "b": [{"x": 1}]}', "several lists of objects, a, b"),
        ("d.json", "[1]", "no list of objects, one for each row"),
        ("d.json", "[" * 100_000, "nested too deeply"),
        ("d.json", "[\0]", "a NUL byte in line 1"),
        ("d.pgn", "[White]", "chess games .* chess.pgn.read_headers"),
        ("d.rds", "x", "data of R .* write.csv"),
        ("d.sav", "x", r"pandas.read_spss\('d.sav'\).to_csv\('d.csv', index=False\)"),
        ("d.db", "x", "read_sql"),
        ("d.zip", "x", "unpack it"),
        ("d.ods", "x", "save it as .xlsx or as CSV"),
        ("d.png", "x", "is a picture"),
        ("d.csv", "PK\3\4", "let its name end in .xlsx"),
        ("d.csv", "%PDF-1.7", r"a document \(PDF\) by its first bytes"),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, text, words):
    with pytest.raises(ValueError, match=words):
        load(write(tmp_path, name, text), "duels", lambda header: ())


def sheet(folder, rows, *merged):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cells in merged:
        book.active.merge_cells(cells)
    book.save(folder / "s.xlsx")
    return load(folder / "s.xlsx", "duels", lambda header: ())


DUEL = ["winner", "loser", "count"]


def test_titles_above_the_header_of_a_sheet(tmp_path):
    rows = [["Survey 2024"], [], ["By", "Ann"], DUEL, ["a", "b", 3], [], ["b", "c", 4]]
    with pytest.warns(
        UserWarning, match=r"header of s.xlsx is row 4; the 3 rows above it are left"
    ):
        table = sheet(tmp_path, rows, "A1:C1")
    assert list(table.frame.columns) == DUEL and table.frame["count"].tolist() == [3, 4]
    assert table.row(1) == "row 7 of s.xlsx (the header is row 4)"


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([[None, *DUEL], ["r1", "a", "b", "c"]], ["Unnamed: 0", *DUEL]),  # names of rows
        ([["name", 2023, 2024], ["a", "b", "c"]], ["name", "2023", "2024"]),
        ([["name", "size"], [None, "b"], ["a", "c"]], ["name", "size"]),
    ],
)
def test_a_first_row_that_is_the_header(tmp_path, rows, columns):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(sheet(tmp_path, rows).frame.columns) == columns


def test_merged_names_of_columns_are_refused_with_their_row(tmp_path):
    rows = [["Survey"], ["judge", "pair", None], ["J1", "a", "b"], ["J2", "b", "c"]]
    with pytest.raises(ValueError, match=r"Row 2 of s.xlsx has cells that are merged .*B2:C2"):
        sheet(tmp_path, rows, "B2:C2")


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("sep=;\nwinner;loser;n\na;b;3\nc;d;4\n", 2),
        ("# Ann's votes\n# of May\nwinner,loser,n\na,b,3\nc,d,4\n", 3),
        ("Votes of May\n\nwinner,loser,n\na,b,3\nc,d,4\n", 3),
    ],
)
@pytest.mark.parametrize("blank_rows", [False, True])
def test_titles_above_the_header_of_a_csv_file(tmp_path, text, header, blank_rows):
    path = write(tmp_path, "d.csv", text)
    with pytest.warns(UserWarning, match=f"The header of d.csv is row {header}; "):
        table = load(path, "duels", lambda header: ("winner",), blank_rows=blank_rows)
    assert table.frame.to_dict("list") == {"winner": ["a", "c"], "loser": ["b", "d"], "n": [3, 4]}
    assert table.row(1) == f"row {header + 2} of d.csv (the header is row {header})"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("#,winner\nx,b\n", ["#", "winner"]),
        ("item_id\na\n\nb\n", ["item_id"]),
        ("item_id,size\n\na,x\nb,y\n", ["item_id", "size"]),
    ],
)
def test_a_first_line_that_is_the_header(tmp_path, text, columns):
    table = load(write(tmp_path, "d.csv", text), "items", lambda header: ())
    assert list(table.frame.columns) == columns and not table.row(0).endswith("row 2)")


def test_lines_of_one_name_with_a_comma_are_no_table(tmp_path):
    path = write(tmp_path, "d.csv", "item_id\nParis, France\nRome, Italy\n")
    with pytest.raises(ValueError, match="cannot be read"):
        load(path, "items", lambda header: ())
