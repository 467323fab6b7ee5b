"""When duels were: columns of dates, in whatever form they come."""

import datetime
import warnings

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.io import read_duels

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


def test_seconds_since_1970_are_told():
    with pytest.warns(UserWarning, match=r"'date'\) are taken for seconds since 1970"):
        duels = read([86_400.0 * day + 43_200.0 for day in DAYS])
    assert {*duels.times} == {day + 0.5 for day in DAYS}


def test_dates_to_come_are_said():
    with pytest.warns(UserWarning, match=r"The date 2199-01-01 .* in row 2 .* 1 of 4 rows"):
        read([*TEXTS[:2], "2199-01-01", TEXTS[3]])


@pytest.mark.parametrize(
    ("values", "day_first", "order"),
    [
        (["31/01/2020", "31.1.2020", "01/06/2021", "1-2-20"], None, "day-first"),
        (["1/31/2020", "1/31/2020 12:00 AM", "6/1/2021 0:00", "02/01/20"], None, "month-first"),
        (["31/1/20", "31/01/20", "01/06/21", "01/02/20"], True, "day-first"),
        (["2020.01.31", "2020/1/31", "2021.06.01", "2020-02-01"], None, None),
    ],
)
@pytest.mark.filterwarnings("ignore:The dates in")
def test_dates_that_begin_otherwise(values, day_first, order):
    duels = read(values, day_first=day_first)
    assert dict(zip(duels.times, duels.counts, strict=True)) == {18292.0: 2, 18779.0: 1, 18293.0: 1}
    assert duels.roles.get("order_of_dates") == order


def test_what_shows_the_order_is_said():
    with pytest.warns(UserWarning) as said:
        read(["01/02/20", "31/01/20", "01/06/21", "01/02/99"])
    assert [str(one.message) for one in said] == [
        "The dates in 'date' are day/month/year, as '31/01/20' in row 1 of the duels frame "
        "(counted from 0) shows; years of two digits are from 1969 to 2068."
    ]


def test_dates_that_are_the_same_in_both_orders():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        duels = read(["01/01/2020", "02/02/2020", "02/02/2020", "03/03/2020"])
    assert "order_of_dates" not in duels.roles


def test_zones_by_name():
    duels = read(
        [
            "2020-01-31 13:00 Europe/Paris",
            "2020-01-31 12:00 UTC",
            "2020-07-01T08:00:00 America/New_York",
            "2020-01-31 12:00+00:00",
        ]
    )
    noon = DAYS[0] + 0.5
    assert sorted(set(duels.times)) == pytest.approx([noon, noon + 152], abs=1e-9)


def test_dates_of_items_in_another_order():
    items = ITEMS.assign(made=["31/01/2020", "01/02/2020", "03/02/2020", "04/02/2020"])
    with pytest.warns(UserWarning, match="'made' are day/month/year"):
        duels = spg.read_duels(items, DUELS[["winner", "loser"]])
    days = np.array([0.0, 1.0, 3.0, 4.0]) + DAYS[0]
    np.testing.assert_allclose(duels.transform.mean[1], days.mean())
    assert duels.transform.dates == ("made",) and duels.roles["order_of_dates"] == "day-first"


@pytest.mark.filterwarnings("ignore:The dates in")
def test_a_missing_date_of_an_item_is_named_as_such():
    items = ITEMS.assign(made=["31/01/2020", None, "03/02/2020", "04/02/2020"])
    with pytest.raises(ValueError, match=r"'made' has a missing value in row 1 .*imputation"):
        spg.read_duels(items, DUELS[["winner", "loser"]])


def test_a_model_reads_dates_as_those_it_has_learned_from():
    with pytest.warns(UserWarning, match="'date' are day/month/year"):
        duels = read(["31/01/2020", "31/01/2020", "01/06/2021", "01/02/2020"])
    model = spg.PreferenceGP(duels, spg.ItemInTime(spg.markov.Wiener(1.0, 0.2), "quarter"))
    pairs = pd.DataFrame({"first": ["a"], "second": ["b"], "date": ["05/06/2021"]})
    with pytest.warns(UserWarning, match="'date' are day/month/year"):
        found = spg.predict(model, pairs)
    expected = spg.predict(model, pairs.assign(date="2021-06-05"))
    np.testing.assert_array_equal(found["probability"], expected["probability"])
    later = DUELS[:1].assign(date="05/13/2021")
    with pytest.raises(ValueError, match="are to be day/month/year, which '05/13/2021' in row 0"):
        spg.evaluate(model, later)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["01/02/2020", "02/01/2020", "03/04/2020", "05/05/2020"], "2020-02-01 or 2020-01-02; say"),
        (["31/01/2020", "01/31/2020", *TEXTS[2:]], "one form 2024-01-31"),
        (
            ["31/01/2020", "01/31/2020", "01/02/2020", "01/02/2020"],
            "day in .* month in '01/31/2020'",
        ),
        (["20-01-31", "20-01-30", "21-06-01", "21-06-02"], "may stand first or last"),
        (["31/02/2020", "31/01/2020", "01/06/2021", "01/02/2020"], "'2020-02-31' in row 0"),
        ([f"{text} 10:00 CET" for text in TEXTS], "CET' in row 0 .* zone that is not known"),
        (
            [f"{text} 10:00 Europe/Pari" for text in TEXTS],
            "'2020-01-31 10:00 Europe/Pari' in row 0",
        ),
        ([f"{text} 25:00 UTC" for text in TEXTS], "time or zone that is not known"),
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
        read_duels(ITEMS, DUELS, time="when")


def test_a_date_is_no_feature_and_states_know_their_item():
    states = ITEMS.assign(date=TEXTS, player=["Ann", "Ann", "Bob", "Cy"])
    duels = spg.read_duels(states, DUELS[2:], time="date", item="player")
    assert duels.feature_names == ("size",)
    np.testing.assert_array_equal(duels.item, [0, 0, 1, 2])
    named = DUELS[["winner", "loser", "date"]].replace("c", "A")
    with pytest.warns(UserWarning, match="items 'a' .* and 'A' .* differ in case alone"):
        read_duels(None, named, time="date")
