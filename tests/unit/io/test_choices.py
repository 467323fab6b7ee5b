"""Choices from sets and rankings, expanded to duels."""

import re
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.data.answers import KINDS
from sparse_prefgp.io import (
    read_best_worst,
    read_choices,
    read_duels,
    read_rankings,
)
from tests.together import sentence

ITEMS = pd.DataFrame({"item_id": list("abcde"), "x": [0.5, 1.5, -1.0, 2.0, 4.0]})
LONG = pd.DataFrame(
    {
        "choice_set": [7, 7, 7, 9, 9],
        "item_id": list("abcbd"),
        "chosen": [0, 1, 0, 1, 0],
        "person": ["p", "p", "p", "q", "q"],
        "place": [1, 2, 3, 1, 2],
    }
)
WIDE = pd.DataFrame(
    {
        "choice_set": [7, 9],
        "chosen": ["b", "b"],
        "option_1": ["a", "b"],
        "option_2": ["b", "d"],
        "option_3": ["c", None],
        "person": ["p", "q"],
    }
)
RANKED = pd.DataFrame(
    {"rank_1": ["b", "d"], "rank_2": ["a", "e"], "rank_3": ["c", None], "person": ["p", "q"]}
)
PLACES = pd.DataFrame(
    {
        "ranking": ["r2", "r1", "r1", "r2", "r1"],
        "item_id": list("dcbea"),
        "rank": [1, 9, 1, 2, 4],
        "person": ["q", "p", "p", "q", "p"],
    }
)
CHOICES = {("b", "a"), ("b", "c"), ("b", "d")}
RANKS = {("b", "a"), ("b", "c"), ("a", "c"), ("d", "e")}

expanded = pytest.mark.filterwarnings("ignore:.*were expanded to:UserWarning")


def said(table):
    """The alternatives of each answer, best first, by kind."""
    ids, at = table.item_ids, table.given.offsets
    sides = ["".join(str(ids[i]) for i in table.given.sides[a:b]) for a, b in pairwise(at)]
    return [(KINDS[k].name, side) for k, side in zip(table.given.kind, sides, strict=True)]


def pairs(table):
    ids = table.item_ids
    return {(ids[w], ids[k]) for w, k in zip(table.winners, table.losers, strict=True)}


def refused(read, frame, *words, **options):
    with pytest.raises(ValueError) as error:
        read(ITEMS, frame, **options)
    message = str(error.value)
    assert message.endswith(".") and not re.search(r"\.\s+[A-Z]|\n", message), message
    for word in words:
        assert word in message, message


@expanded
def test_the_chosen_item_beats_each_other_option():
    for frame in (LONG, WIDE):
        table = read_choices(ITEMS, frame, as_duels=True)
        assert pairs(table) == CHOICES and table.num_rows == 3
        assert table.set_column == "choice_set"
        assert table.context["choice_set"].tolist() == [7, 7, 9]
        # What differs within a choice is not a property of its duels.
        assert table.context.columns.tolist() == ["choice_set", "person"]
        assert table.context["person"].tolist() == ["p", "p", "q"]
        assert table.sets().tolist() == [0, 0, 1]
        assert table.select([2]).set_column == "choice_set"
        assert read_choices(ITEMS, frame, as_duels=True).num_duels == 3


def test_columns_of_the_choices_that_nobody_named():
    assert read_choices(None, LONG, features=[]).unused_columns == ("person", "place")
    assert read_choices(None, LONG, person="person").unused_columns == ()  # places are features
    wide = read_choices(None, WIDE.assign(note="x"), options=["option_1", "option_2"])
    assert "note" in wide.unused_columns and "option_1" not in wide.unused_columns
    said = dict(wide.summary().rows())
    assert "note" in said["columns of the choices not used"]


@expanded
def test_an_item_beats_all_below_it():
    for frame in (RANKED, PLACES):
        table = read_rankings(ITEMS, frame, as_duels=True)
        assert pairs(table) == RANKS and table.num_rows == 4
        assert table.set_column == "ranking"
        assert table.context["person"].tolist().count("p") == 3
        assert read_rankings(ITEMS, frame, as_duels=True).num_duels == 4
    assert read_rankings(ITEMS, RANKED, as_duels=True).context["ranking"].tolist() == [
        0,
        0,
        0,
        1,
    ]
    five = pd.DataFrame([list("edcba")], columns=[f"rank_{k}" for k in range(1, 6)])
    table = read_rankings(ITEMS, five, as_duels=True)
    assert table.num_rows == 10 and (table.winners > table.losers).all()


def test_says_that_duels_of_one_set_are_not_independent():
    with pytest.warns(UserWarning, match="^2 choices were expanded to 3 duels; .*not independent"):
        read_choices(ITEMS, LONG, as_duels=True)
    with pytest.warns(UserWarning, match="2 rankings were expanded to 4 duels; .*understated"):
        read_rankings(ITEMS, PLACES, as_duels=True)
    with pytest.warns(UserWarning, match="among the options in option_1, option_2, option_3"):
        read_choices(ITEMS, WIDE, as_duels=True)


@expanded
def test_other_forms_of_wide_choices():
    told = dict(options=["left", "right", "third"], as_duels=True)
    plain = WIDE.rename(columns={"option_1": "left", "option_2": "right", "option_3": "third"})
    assert pairs(read_choices(ITEMS, plain, **told)) == CHOICES
    for names in ("Option {}", "OPTION{}", "option-{}", "option_0{}"):
        renamed = WIDE.rename(columns={f"option_{k}": names.format(k) for k in (1, 2, 3)})
        assert pairs(read_choices(ITEMS, renamed, as_duels=True)) == CHOICES
    # No column is an option because nobody named it.
    for frame in (plain, plain.drop(columns="choice_set"), plain.drop(columns="person")):
        refused(read_choices, frame, "no column", "'item_id'", "'option_1', 'option_2', …")


def test_a_code_is_never_an_item():
    """Letters, positions and names of columns are read where all are, never next to names; whatever
    else is none of the options is refused by row and value, whether or not there is a table of
    items."""
    rng = np.random.default_rng(0)
    rows = [rng.permutation(list("abcde"))[:3] for _ in range(6)]
    options = pd.DataFrame(rows, columns=["option_1", "option_2", "option_3"])
    first, last = options["option_1"], options["option_3"]
    forms = [
        (read_choices, {"chosen": first}),
        (read_best_worst, {"best": first, "worst": last}),
        (read_rankings, {"rank_1": first, "rank_2": last}),
    ]
    of_third = {"letter": "C", "position": 3, "column": "option_3", "Other": "Z"}
    for read, named in forms:
        for items in (ITEMS, None):
            good = read(items, options.assign(**named))
            assert set(good.item_ids) == set("abcde")
            for code in (*of_third.values(), 0, last[4].upper()):
                for name in named:
                    bad = options.assign(**named).astype(object)
                    bad.loc[4, name] = code
                    words = [repr(str(code)), "row 4", f"'{first[4]}', '{rows[4][1]}', '{last[4]}'"]
                    with pytest.raises(ValueError, match="not among its options") as error:
                        read(items, bad)
                    assert all(word in str(error.value) for word in words), error.value
    fruit = pd.DataFrame({"option_1": ["plum"], "option_2": ["pear"], "option_3": ["fig"]})
    for code in ("Fig", "figg"):
        refused_alone(fruit.assign(chosen=code), repr(code), "row 0", "did you mean 'fig'?")


def test_numbers_that_may_be_items_or_positions():
    shown = pd.DataFrame({"option_1": [1, 2, 3], "option_2": [2, 3, 1], "option_3": [3, 1, 2]})
    refused_alone(shown.assign(chosen=[1, 2, 1]), "2 in row 1", "item '2'", "position, '3'")
    zero = (shown - 1).assign(chosen=[0, 2, 1])
    refused_alone(zero, "in row 1", "item '2'", "position, '0'")
    # Both say the same, or some can only be ids.
    same = shown.assign(option_1=1, option_2=2, option_3=3, chosen=[1, 2, 1])
    assert read_choices(None, same).num_rows == 3
    more = shown.replace(3, 4).assign(chosen=[1, 2, 4])
    assert read_choices(None, more).num_rows == 3


def test_the_name_of_a_column_is_no_item():
    rows = pd.DataFrame({"Home": ["x"], "away": ["y"], "winner": ["home"], "loser": ["away"]})
    with pytest.raises(ValueError, match=r"winner 'home' in row 0 .* name of a column \('Home'\)"):
        read_duels(None, rows)
    named = pd.DataFrame({"item_id": ["home", "away"]})
    assert read_duels(named, rows).num_rows == 1


def test_nobody_is_not_the_item_0():
    rows = pd.DataFrame({"rank1": [12, 7, 31], "rank 2": [7, 12, 0], "rank_3": [31, 0, 0]})
    read = read_rankings
    table = read(None, rows[:2])
    assert said(table) == [("ranking", "12731"), ("ranking", "712")]
    assert "0 stands at the ends of rows alone (1 row)" in str(table.read_as)
    between = pd.DataFrame({"rank_1": [12, 7], "rank_2": [0, 12], "rank_3": [7, 0]})
    refused(lambda _, x: read(None, x), between, "Row 0", "0 in 'rank_2'", "--empty 0")
    gaps = read(None, between, empty=["0"])
    assert said(gaps) == [("ranking", "127"), ("ranking", "712")]
    assert "in 1 of them between others, whose order is kept" in str(gaps.read_as)
    items = pd.DataFrame({"item_id": [7, 12, 31], "x": [1.0, 2.0, 4.0]})
    assert said(read(items, rows[:2])) == said(table)
    with_0 = pd.concat([items, pd.DataFrame({"item_id": [0], "x": [0.0]})])
    assert said(read(with_0, rows[:2])) == [("ranking", "12731"), ("ranking", "7120")]
    # In front of others it is somebody.
    first = pd.DataFrame({"rank_1": [0, 1], "rank_2": [1, 0]})
    assert read(None, first).item_ids == (0, 1)
    chosen = pd.DataFrame({"option_1": [5, 5], "option_2": [6, 6], "option_3": [7, 0]})
    assert said(read_choices(None, chosen.assign(chosen=5))) == [
        ("choice", "567"),
        ("choice", "56"),
    ]
    assert read_choices(None, chosen.assign(chosen=[7, 0])).num_rows == 2


def test_all_columns_that_are_missing_are_named_at_once():
    scores = pd.DataFrame({"pid": [1, 1], "part": 1, "name": ["a", "b"], "mark": [1, -1]})
    names = "'choice_set' and 'item_id'"
    refused(read_best_worst, scores, names, "of its own", "'option_1'")
    unnamed = scores.drop(columns="name")
    refused(read_rankings, unnamed, "'ranking', 'rank' and 'item_id'", "'rank_1', 'rank_2'")


@expanded
def test_other_names_and_counts():
    columns = {"choice_set": "group", "item_id": "car", "chosen": "mark"}
    renamed = LONG.rename(columns=columns).assign(mark=LONG["chosen"] == 1)
    table = read_choices(ITEMS, renamed, columns=columns, as_duels=True)
    assert pairs(table) == CHOICES and table.set_column == "choice_set"
    # Names that are usual are found.
    usual = {"choice_set": "Task", "item_id": "Alternative", "chosen": "Choice"}
    table = read_choices(ITEMS, LONG.rename(columns=usual), as_duels=True)
    assert pairs(table) == CHOICES
    columns = {"ranking": "list", "item_id": "car", "rank": "mark"}
    renamed = PLACES.rename(columns=columns)
    assert pairs(read_rankings(ITEMS, renamed, columns=columns, as_duels=True)) == RANKS
    assert read_choices(ITEMS, WIDE.assign(count=[5, 2]), as_duels=True).num_duels == 12
    assert read_choices(ITEMS, LONG.assign(count=[5, 5, 5, 2, 2]), as_duels=True).num_duels == 12
    refused(read_choices, LONG.assign(count=[5, 5, 1, 2, 2]), "'count'", "same count")
    refused(read_choices, WIDE.assign(count=[5, 0]), "'count'", "row 1")


@expanded
def test_files_keep_ids_as_written(tmp_path):
    (tmp_path / "i.csv").write_text("item_id,x\n007,1\nNA,2\n3,4\n")
    (tmp_path / "w.csv").write_text("chosen,option_1,option_2\nNA,007,NA\n\n3,3,007\n")
    (tmp_path / "l.csv").write_text("choice_set,item_id,chosen\n1,NA,1\n\n1,007,0\n2,3,0\n2,8,1\n")
    (tmp_path / "r.csv").write_text("rank_1,rank_2\nNA,007\n3,\n")
    table = read_choices(tmp_path / "i.csv", tmp_path / "w.csv", as_duels=True)
    assert pairs(table) == {("NA", "007"), ("3", "007")}
    with pytest.raises(ValueError, match=r"Row 6 of l.csv \(the header is row 1\) has the item_id"):
        read_choices(tmp_path / "i.csv", tmp_path / "l.csv")
    assert read_rankings(tmp_path / "i.csv", tmp_path / "r.csv").num_rows == 1


def test_bad_choices():
    read = read_choices
    for i, words in ((1, ["'7'", "no chosen option", "row 0"]), (0, ["'7'", "two", "row 0", "1"])):
        flipped = LONG["chosen"].where(LONG.index != i, 1 - LONG["chosen"])
        refused(read, LONG.assign(chosen=flipped), *words)
    refused(read, LONG[:4], "'9' in row 3", "one item only")
    refused(
        read, LONG.assign(item_id=list("abcbz")), "Row 4", "'z'", "not an item id", "the choice"
    )
    refused(read, LONG.assign(item_id=["a", "b", "c", "b", None]), "Row 4", "missing item_id")
    refused(read, LONG.assign(item_id=list("abbbd")), "Row 2", "'b' a second time", "'7'")
    refused(read, LONG.assign(choice_set=[7, 7, None, 9, 9]), "choice_set", "missing in row 2")
    refused(read, LONG.assign(chosen=[0, 1, 2, 1, 0]), "'chosen' has 2 in row 2", "give 1")
    refused(read, LONG.assign(chosen=[0, 1, np.nan, 1, 0]), "'chosen' has a missing value in row 2")
    refused(read, LONG[:0], "no choices")
    refused(read, LONG.drop(columns="choice_set"), "no column 'choice_set'")
    refused(read, LONG.drop(columns="chosen"), "no column 'chosen'")
    refused(read, LONG.rename(columns={"item_id": "car"}), "no column 'item_id'")
    refused(read, WIDE.assign(chosen=["b", None]), "row 1", "missing chosen")
    refused(read, WIDE.assign(option_3=["z", None]), "Row 0", "item_id 'z'")
    refused(read, WIDE.assign(option_3=["b", None]), "Row 0", "'b' a second time")
    refused(read, WIDE.assign(option_2=["b", None]), "'9' in row 1", "one item only")
    refused(read, WIDE.assign(choice_set=[7, 7]), "'7' in row 1 ", "row 0", "across persons")
    refused(read, WIDE, "is called 'option_4'", options=["option_1", "option_4"])
    refused(read, WIDE, "to ignore is 'nobody'", ignore=["nobody"])


def test_each_answer_is_one_event():
    choices = [("choice", "bac"), ("choice", "bd")]
    for frame in (LONG, WIDE):
        table = read_choices(ITEMS, frame)
        assert said(table) == choices and table.num_rows == 2 and table.set_column is None
        assert table.context.to_dict("list") == {"choice_set": [7, 9], "person": ["p", "q"]}
        duels = read_choices(ITEMS, frame.assign(count=2))
        assert duels.num_duels == 4 and duels.events.has_sets
    assert said(read_rankings(ITEMS, RANKED)) == [("ranking", "bac"), ("ranking", "de")]
    places = read_rankings(ITEMS, PLACES)
    assert said(places) == [("ranking", "de"), ("ranking", "bac")]
    assert places.context["person"].tolist() == ["q", "p"]


def test_the_first_places_of_a_ranking():
    """Who was shown and has no rank stands below all others."""
    top = [("top", "bacd"), ("ranking", "de"), ("choice", "ebc")]
    wide = pd.DataFrame(
        {
            "rank_1": list("bde"),
            "rank_2": ["a", None, None],
            "option_1": list("ceb"),
            "option_2": list("bdc"),
            "option_3": ["a", None, "e"],
            "option_4": ["d", None, None],
        }
    )
    table = read_rankings(ITEMS, wide)
    # The unordered ones in the order in which they were listed.
    assert said(table) == top and table.given.ordered.tolist() == [2, 0, 0]
    long = pd.DataFrame(
        {
            "ranking": [0, 0, 0, 0, 1, 1, 2, 2, 2],
            "item_id": list("cbadedbce"),
            "rank": [None, 1, 2, None, None, 1, None, None, 3],
        }
    )
    assert said(read_rankings(ITEMS, long, unranked_last=True)) == top
    # As duels, only what the answer says.
    with pytest.warns(UserWarning, match="3 rankings were expanded to 8 duels"):
        duels = read_rankings(ITEMS, wide, as_duels=True)
    expected = {("b", "a"), ("b", "c"), ("b", "d"), ("a", "c"), ("a", "d"), ("d", "e")}
    assert pairs(duels) == expected | {("e", "b"), ("e", "c")}


def test_best_and_worst():
    long = LONG.rename(columns={"chosen": "best"}).assign(worst=[1, 0, 0, 0, 1])
    wide = WIDE.rename(columns={"chosen": "best"}).assign(worst=["a", "d"])
    for frame in (long, wide):
        table = read_best_worst(ITEMS, frame)
        assert said(table) == [("best_worst", "bca"), ("choice", "bd")]
        at_once = read_best_worst(ITEMS, frame, at_once=True)
        assert said(at_once)[0] == ("best_worst_at_once", "bca")
        with pytest.warns(UserWarning, match="2 answers were expanded to 4 duels"):
            duels = read_best_worst(ITEMS, frame, as_duels=True)
        assert pairs(duels) == {("b", "c"), ("b", "a"), ("c", "a"), ("b", "d")}
    read = read_best_worst
    refused(read, long.assign(worst=[0, 1, 0, 0, 1]), "Row 1", "best and the worst")
    refused(read, wide.assign(worst=["b", "d"]), "Row 0", "'b' as the best and as the worst")
    refused(read, long.assign(worst=[0, 0, 0, 0, 1]), "'7'", "no worst option")
    refused(read, long.assign(best=[1, 1, 0, 1, 0]), "'7'", "two best options")
    refused(read, wide.assign(worst=["e", "d"]), "'e' in row 0", "not among its options")
    refused(read, long.drop(columns="worst"), "no column 'worst'")


def test_rows_that_describe_their_alternatives():
    """Without a table of items, equal rows are one item, and what is the same in a set is named."""
    rows = pd.DataFrame(
        {
            "choice_set": [1, 1, 2, 2, 2],
            "person": [5, 5, 6, 6, 6],
            "chosen": [1, 0, 0, 0, 1],
            "price": [3.0, 4.0, 4.0, 3.0, 3.0],
            "mode": ["bus", "car", "car", "bus", "car"],
            "income": [20, 20, 20, 20, 20],
        }
    )
    with pytest.warns(UserWarning, match="The column 'income' of .* is the same throughout each"):
        table = read_choices(None, rows)
    assert table.item_ids == ("3, bus", "4, car", "3, car") and table.given.sides.tolist() == [
        0,
        1,
        2,
        1,
        0,
    ]
    # What is the same throughout each set describes no alternative, unless it is named.
    assert (table.raw.numeric, table.raw.categorical) == (("price",), ("mode",))
    assert table.context.columns.tolist() == ["choice_set", "person", "income"]
    assert table.unused_columns == ("person", "income") and not table.shared
    named = read_choices(None, rows, features=["price", "mode", "income"])
    assert named.raw.numeric == ("price", "income") and named.shared == ("income",)
    assert named.item_ids == table.item_ids
    some = read_choices(None, rows, features=["price", "mode"])
    assert some.context["income"].tolist() == [20, 20]
    assert read_choices(None, rows, ignore=["income"]).raw.numeric == ("price",)
    # Two that are equal are two alternatives to ask of, and none to learn from.
    twice = rows.assign(price=[3.0, 4.0, 3.0, 3.0, 3.0])
    refused_alone(twice, "Row 4", "the attributes of row 2", "a second time")
    equal = read_choices(None, twice, like=table.standardised().transform)
    assert np.diff(equal.given.offsets).tolist() == [2, 3]
    assert len({*equal.given.sides[2:].tolist()}) == 2
    refused_alone(rows[["choice_set", "chosen", "person"]], "no column 'item_id'", "tells the rows")
    refused_alone(rows, "A feature is 'cost'", features=["price", "cost"])
    # Named alternatives with attributes are one item in several states.
    named = rows.assign(item_id=rows["mode"]).drop(columns="mode")
    table = read_choices(None, named)
    assert table.item_rows.names[:2] == ("bus", "car") and table.raw.numeric == ("price",)
    plain = read_choices(None, named[["choice_set", "chosen", "item_id"]][:2])
    assert plain.item_ids == ("bus", "car") and not plain.has_features


def test_what_is_the_same_throughout_each_set_is_no_attribute():
    """Whoever answered, and the number of the set, are written in every row, "none" too; the items
    are those of the same table without these columns."""
    rng = np.random.default_rng(0)
    code = np.repeat(np.arange(34), 3)
    rows = pd.DataFrame(
        {
            "choice_set": code,
            "brand": rng.choice(["Acme", "Bolt", "Cog"], 102),
            "size": np.tile(["large", "small", "tiny"], 34),
            "price": rng.choice([4.99, 5.99], 102),
            "chosen": np.tile([1, 0, 0], 34),
        }
    )
    blank = pd.DataFrame({"choice_set": range(34), "chosen": 0})
    for frame in (rows, pd.concat([rows, blank], ignore_index=True)):
        alone = read_choices(None, frame)
        numbers = frame["choice_set"] % 8
        beside = frame.assign(respondent=frame["choice_set"] // 8, set_number=numbers)
        with pytest.warns(UserWarning, match="columns 'respondent' and 'set_number' of .* are the"):
            table = read_choices(None, beside)
        assert table.item_ids == alone.item_ids and len(table.item_ids) < 20
        assert (table.raw.numeric, table.raw.categorical) == (
            alone.raw.numeric,
            alone.raw.categorical,
        )
        assert table.unused_columns == ("respondent", "set_number")
        assert table.given.sides.tolist() == alone.given.sides.tolist()
    assert "none" in table.item_ids


def test_a_column_none_says_which_row_is_none():
    rows = pd.DataFrame(
        {
            "choice_set": [1, 1, 1, 2, 2, 2],
            "chosen": [1, 0, 0, 0, 0, 1],
            "price": [3.0, 5.0, None, 4.0, 6.0, None],
            "mode": ["bus", "car", None, "bus", "car", None],
        }
    )
    flagged = rows.assign(none=[0, 0, 1] * 2)
    table, alone = read_choices(None, flagged), read_choices(None, rows)
    assert table.item_ids == alone.item_ids and table.raw.numeric == alone.raw.numeric
    assert table.raw.frame["price"].tolist() == alone.raw.frame["price"].tolist()
    like = alone.standardised().transform
    again = read_choices(None, flagged[:3], like=like)
    assert again.raw.frame["none"].tolist() == [0.0, 0.0, 1.0]
    for value in (2, 0.5, "maybe", None):
        bad = flagged.astype({"none": object})
        bad.loc[1, "none"] = value
        refused_alone(bad, "'none'", "row 1", "1 for none of these")
    refused_alone(flagged.assign(none=[0, 1, 0] * 2), "'price'", "row 2")


def test_alternatives_without_a_name_are_named_by_their_attributes():
    rows = pd.DataFrame(
        {
            "choice_set": [1, 1, 1, 2, 2, 2],
            "chosen": [1, 0, 0, 0, 0, 1],
            "brand": ["Acme", "Bolt", None, "Acme", "Cog", None],
            "size": ["large", "small", None, "small", "small", None],
            "price": [7.99, 5, None, 7.99, 0.1 + 0.2, None],
        }
    )

    def named(frame):
        return read_choices(None, frame).item_ids

    small = "Cog, small, 0.30000000000000004"
    assert named(rows) == (
        "Acme, large, 7.99",
        "Bolt, small, 5",
        "none",
        "Acme, small, 7.99",
        small,
    )
    numbers = rows.drop(columns=["brand", "size"])
    assert named(numbers)[:3] == ("price 7.99", "price 5", "none")
    # Where two would be called alike, or nothing can be shown, by a number.
    many = numbers.drop(columns="price").assign(**{f"x{k}": 1.0 * k for k in range(6)})
    many["x7"] = range(6)
    assert named(many)[1] == "x7 1"
    long = rows.assign(brand=[f"{'a' * 60}{k // 2}" for k in range(6)], size="s")
    long["price"] = [1, 2] * 3
    assert named(long)[1] == f"{'a' * 39}…, 2 (2)"
    vectors = numbers.drop(columns="price").assign(e=list(np.eye(6)))
    assert named(vectors)[:2] == ("alternative 1", "alternative 2")
    # In a model, and whatever else is in a new table.
    duels = read_choices(None, rows)
    assert duels.item_ids[0] == "Acme, large, 7.99"
    again = read_choices(None, rows[:3], like=duels.transform)
    assert again.item_ids == named(rows)[:3]


def test_covariates_of_each_alternative():
    rows = LONG.assign(first=[1, 0, 0, 1, 0])
    table = read_choices(ITEMS, rows, covariates=["first"])
    assert table.given.covariates.tolist() == [[0.0], [1.0], [0.0], [1.0], [0.0]]
    assert table.given.covariate_names == ("first",)
    with pytest.warns(UserWarning, match="expanded"):
        duels = read_choices(ITEMS, rows, covariates=["first"], as_duels=True)
    assert duels.events.covariate_differences.tolist() == [[-1.0], [0.0], [1.0]]
    same = LONG.assign(first=[1, 1, 1, 0, 0])
    refused(read_choices, same, "'first' is 0", covariates=["first"])
    refused(read_choices, WIDE, "'place' belongs to an option", covariates=["place"])


@pytest.mark.filterwarnings("ignore:1 of 5 items")
def test_sets_in_a_context():
    rows = LONG.assign(town=["x", "x", "x", "y", "y"])
    table = read_choices(ITEMS, rows, context=["town"])
    assert said(table) == [
        ("choice", "b @ town=xa @ town=xc @ town=x"),
        ("choice", "b @ town=yd @ town=y"),
    ]
    split = rows.assign(winner_town="x", loser_town="y").drop(columns="town")
    refused(read_choices, split, sentence("sets", "context_of_sides"), context=["town"])
    refused(read_choices, LONG, "'place' of", "differs within a set", context=["place"])


def test_none_of_these_is_an_item_like_the_average():
    """With a feature of its own, in tables of ids and in rows that describe themselves."""
    items = ITEMS.assign(colour=["red", "red", "blue", "red", "blue"])
    frame = WIDE.assign(option_3=["c", "none"])
    table = read_choices(items, frame, none="none")
    assert said(table) == [("choice", "bac"), ("choice", "bdnone")]
    assert (table.raw.numeric, table.raw.categorical) == (("x", "none"), ("colour",))
    last = table.raw.frame.iloc[-1]
    assert (last["x"], last["colour"], last["none"]) == (1.4, "red", 1.0)
    duels = table.standardised()
    at = duels.feature_names.index("x")
    np.testing.assert_allclose(duels.items[-1, at], 0.0, atol=1e-12)
    refused(read_choices, frame, "'none', which is not an item id")
    refused(read_choices, frame, "has as an item", none="a")
    named = read_choices(None, frame)
    assert "none" in named.item_ids and not named.has_features
    rows = pd.DataFrame(
        {
            "choice_set": [1, 1, 1, 2, 2, 2],
            "chosen": [1, 0, 0, 0, 0, 1],
            "price": [3.0, 5.0, None, 4.0, 4.0, None],
            "mode": ["bus", "car", None, "bus", "car", None],
        }
    )
    table = read_choices(None, rows)
    assert table.raw.numeric == ("price", "none") and table.given.sides.tolist() == [
        0,
        1,
        2,
        2,
        3,
        4,
    ]
    assert table.raw.frame["none"].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert table.raw.frame["price"].iloc[2] == 4.0
    like = table.standardised().transform
    again = read_choices(None, rows[:2], like=like)
    assert again.raw.frame["none"].tolist() == [0.0, 0.0]
    refused_alone(rows.assign(price=[3.0, None, None, 4.0, 4.0, None]), "'price'", "row 1")


def refused_alone(frame, *words, **options):
    refused(lambda _, rows, **more: read_choices(None, rows, **more), frame, *words, **options)


def test_bad_rankings():
    read = read_rankings
    refused(read, PLACES.assign(rank=[1, 1, 1, 2, 4]), "Row 2", "row 1", "same rank", "'r1'")
    refused(read, PLACES.assign(rank=[1, 9, 1, None, 4]), "'rank'", "row 3", "unranked_last=True")
    refused(read, PLACES.assign(rank=None), "'r2' has no item with a rank", unranked_last=True)
    shown = RANKED.assign(option_1=list("ae"), option_2=list("bd"), option_3=["e", None])
    refused(read, shown, "The rank_3 item 'c' in row 0", "not among its options 'a', 'b', 'e'")
    refused(read, PLACES.assign(item_id=list("dcbeb")), "'b' a second time", "'r1'", "Row 4")
    refused(read, PLACES[:3], "'r2' in row 0", "one item only")
    refused(read, PLACES.drop(columns="rank"), "no column 'rank'")
    refused(read, RANKED.drop(columns="rank_2"), "no column 'rank_2'")
    refused(read, RANKED.assign(rank_2=["b", "e"]), "Row 0", "'b' a second time")
    alone = read(ITEMS, RANKED.assign(rank_2=["a", None]))
    assert said(alone) == said(read(ITEMS, RANKED[:1].assign(rank_2="a")))
    assert "Left out: 1 row, of one item or none, which say nothing" in str(alone.read_as)
    refused(read, RANKED[1:].assign(rank_2=[None]), "one item only")
    refused(read, RANKED.assign(rank_1=[None, None])[["rank_1"]], "no item")
    refused(read, RANKED.assign(rank_1=["z", "d"]), "Row 0", "item_id 'z'", "the ranking")
    refused(read, RANKED[:0], "no rankings")
    zeros = pd.DataFrame({"rank_1": [7, 0], "rank_2": [0, 8], "rank_3": [0, 9]})
    with pytest.raises(
        ValueError, match=r"'0' a second time.*leave the cells empty if 0 is nobody"
    ):
        read(None, zeros)
    numbers = pd.DataFrame({"chosen": ["4"], "option_1": [10], "option_2": [20], "option_3": [30]})
    with pytest.raises(ValueError, match="not among its options '10', '20', '30'; write the id of"):
        read_choices(None, numbers)
    refused(read_choices, WIDE.assign(person=["p", None]), "give every row", person="person")


def test_real_choices_rebuilt_from_their_duels(data_dir):
    folder = data_dir / "ev_choice_us"
    known = read_duels(folder / "items.csv", folder / "duels.csv.gz")
    duels = pd.read_csv(folder / "duels.csv.gz")
    # One row for the chosen car, then the others in order.
    first = duels.drop_duplicates("choice_set").assign(item_id=lambda d: d["winner"], chosen=1)
    rest = duels.assign(item_id=duels["loser"], chosen=0)
    long = pd.concat([first, rest]).sort_values("choice_set", kind="stable")
    long = long.drop(columns=["winner", "loser"]).reset_index(drop=True)
    with pytest.warns(UserWarning, match=r"5,760 choices were expanded to 11,518 duels"):
        table = read_choices(folder / "items.csv", long, as_duels=True)
    np.testing.assert_array_equal(table.winners, known.winners)
    np.testing.assert_array_equal(table.losers, known.losers)
    pd.testing.assert_frame_equal(
        table.context[known.context.columns], known.context, check_dtype=False
    )
    wide = first[["choice_set", "person", "person_weight"]].assign(chosen=first["winner"])
    places = duels.groupby("choice_set").cumcount() + 1
    options = duels.assign(place=places).pivot(index="choice_set", columns="place", values="loser")
    options.columns = [f"option_{k + 1}" for k in options.columns]
    wide["option_1"] = wide["chosen"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = read_choices(
            folder / "items.csv", wide.join(options, on="choice_set"), as_duels=True
        )
    np.testing.assert_array_equal(again.winners, known.winners)
    np.testing.assert_array_equal(again.losers, known.losers)


@pytest.mark.filterwarnings("ignore:.*expanded to")
def test_choices_and_rankings_have_weights_groups_and_context():
    """Of three rankings of three, each three duels; and of choices without numbered options."""
    items = pd.DataFrame({"item_id": list("abcd"), "x": [0.0, 1.0, 3.0, 4.0]})
    places = pd.DataFrame(
        {"rank_1": list("abc"), "rank_2": list("bcd"), "rank_3": list("cda")}
    ).assign(judge=["p", "q", "p"], worth=[1.0, 0.5, 2.0], count=[1, 2, 1], day=[1, 2, 2])
    duels = read_rankings(
        items, places, weights="worth", groups="judge", context=["day"], as_duels=True
    )
    assert duels.group_names == ("p", "q") and duels.num_duels == 12
    given = duels.given
    np.testing.assert_array_equal(given.judge.numbers, [0] * 3 + [1] * 3 + [0] * 3)
    np.testing.assert_array_equal(given.totals, [1.0] * 6 + [2.0] * 3)
    assert duels.feature_names == ("x", "day") and "a @ day=1" in duels.item_ids
    wide = places.rename(columns={"rank_1": "chosen", "rank_2": "left", "rank_3": "right"})
    wide = wide.drop(columns="day").assign(option_3=wide["chosen"])
    wide = wide.rename(columns={"left": "option_1", "right": "option_2"})
    chosen = read_choices(items, wide, weights="worth", groups="judge", as_duels=True)
    assert chosen.num_duels == 8 and chosen.group_names == ("p", "q")
    assert chosen.effective_counts.sum() == 2 * (1.0 + 2 * 0.5 + 2.0)


def test_a_weight_that_differs_within_a_set_is_refused():
    items = pd.DataFrame({"item_id": list("ab"), "x": [0.0, 1.0]})
    long = pd.DataFrame(
        {"choice_set": 1, "item_id": list("ab"), "chosen": [1, 0], "worth": [1.0, 2.0]}
    )
    with pytest.raises(ValueError, match="'worth' of the choices frame differs within a set"):
        read_choices(items, long, weights="worth")


def test_names_of_alternatives_are_a_feature_where_they_are_asked_for() -> None:
    """As the modes of transport, of which each has a price that varies."""
    rng = np.random.default_rng(0)
    modes = ["air", "bus", "car"]
    rows = [(i, mode, rng.uniform()) for i in range(9) for mode in modes]
    table = pd.DataFrame(rows, columns=["choice_set", "alternative", "cost"])
    table["chosen"] = (table["alternative"] == "bus").astype(int)
    levels = tuple(f"item_id={mode}" for mode in modes)
    for features, names in (
        (None, ("cost",)),
        (["cost", "alternative"], ("cost", *levels)),
        (["cost", "item_id"], ("cost", *levels)),
    ):
        duels = read_choices(None, table, features=features)
        assert duels.with_features.feature_names == names
    with pytest.raises(ValueError, match="The only feature asked for is the id"):
        read_choices(None, table, features=["alternative"])
