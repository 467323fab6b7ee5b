"""When duels were: columns of dates, in whatever form they come."""

import datetime
import warnings

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.io import read_table

ITEMS = pd.DataFrame({"item_id": list("abcd"), "size": [1.0, 2.0, 4.0, 3.0]})
TEXTS = ["2020-01-31", "2020-01-31", "2021-06-01", "2020-02-01"]
DAYS = [18292.0, 18292.0, 18779.0, 18293.0]
DUELS = pd.DataFrame({"winner": list("aaba"), "loser": list("bbcb"), "date": TEXTS})


def read(values, **more):
    return spg.read_duels(ITEMS, DUELS.assign(date=values), time="date", **more)


@pytest.mark.parametrize(
    "values",
    [
        TEXTS,
        pd.to_datetime(TEXTS),
        np.array(TEXTS, "datetime64[s]"),
        [datetime.date.fromisoformat(text) for text in TEXTS],
        [f"{text}T00:00:00Z" for text in TEXTS],
        [f"{text} 05:00+05:00" for text in TEXTS],
        pd.to_datetime(TEXTS).tz_localize("UTC"),
        [int(text.replace("-", "")) for text in TEXTS],
        DAYS,
        list(map(str, DAYS)),
    ],
)
def test_forms_of_dates(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        duels = read(values)
    # Equal duels are one within a date alone.
    assert dict(zip(duels.times, duels.counts, strict=True)) == {18292.0: 2, 18779.0: 1, 18293.0: 1}


def test_a_time_of_day_is_kept_and_zones_are_told_apart():
    duels = read(["2020-01-31T12:00:00+02:00", *[f"{text}T00:00:00Z" for text in TEXTS[1:]]])
    assert duels.times[0] == pytest.approx(DAYS[0] + 10 / 24, abs=1e-9)


def test_years_alone_are_their_middle_and_a_warning_says_so():
    with pytest.warns(UserWarning, match="years alone"):
        duels = read([2019, 2020, 2020, 2021])
    middle = (np.datetime64("2020-07-02", "D") - np.datetime64("1970-01-01", "D")).astype(int)
    assert sorted(set(duels.times))[1] == middle


def test_dates_to_come_are_said():
    with pytest.warns(UserWarning, match=r"The date 2199-01-01 .* in row 2 .* 1 of 4 rows"):
        read([*TEXTS[:2], "2199-01-01", TEXTS[3]])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([TEXTS[0], None, *TEXTS[2:]], r"The date .column 'date'. is missing in row 1"),
        ([TEXTS[0], "31/01/2020", *TEXTS[2:]], "'31/01/2020' in row 1 .* one form 2024-01-31"),
        (["2020-13-01", *TEXTS[1:]], "'2020-13-01' in row 0"),
        (["2020", *TEXTS[1:]], "'2020' in row 0 .* one form"),
        ([20201301, 20200101, 20200101, 20200101], "'2020-13-01' in row 0"),
        ([1.0, np.inf, 2.0, 3.0], "inf in row 1"),
        ([True, False, True, True], "True in row 0"),
        (["2020-01-31T10:00Z", *TEXTS[1:]], "with a time zone in row 0 .* without one in row 1"),
    ],
)
def test_what_is_no_date(values, words):
    with pytest.raises(ValueError, match=words):
        read(values)


def test_no_such_column():
    with pytest.raises(ValueError, match="no column 'when'"):
        read_table(ITEMS, DUELS, time="when")


def test_a_date_is_no_feature_and_states_know_their_item():
    states = ITEMS.assign(date=TEXTS, player=["Ann", "Ann", "Bob", "Cy"])
    duels = spg.read_duels(states, DUELS[2:], time="date", item="player")
    assert duels.feature_names == ("size",)
    np.testing.assert_array_equal(duels.item, [0, 0, 1, 2])
    named = DUELS[["winner", "loser", "date"]].replace("c", "A")
    with pytest.warns(UserWarning, match="items 'a' .* and 'A' .* differ in case alone"):
        read_table(None, named, time="date")
