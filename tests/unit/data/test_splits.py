"""Parting duels into a training and a test part."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.answers import BEST_WORST, CHOICE, RANKING, Answers, Codes
from sparse_prefgp.data.splits import (
    RULES,
    Rule,
    Units,
    given_units,
    grouping_of,
    leave_one_out,
    says_itself,
    split_columns,
    split_duels,
    units_of,
)
from sparse_prefgp.io import read_duels, read_rankings


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    n, t = 30, 400
    items = pd.DataFrame(
        {
            "item_id": range(n),
            "x": rng.normal(size=n),
            "maker": rng.integers(5, size=n),
            "made": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
        }
    )
    winner = rng.integers(n, size=t)
    duels = pd.DataFrame(
        {
            "winner": winner,
            "loser": (winner + rng.integers(1, n, size=t)) % n,
            "person": rng.integers(20, size=t),
            "day": [f"2021-01-{d:02d}" for d in rng.integers(1, 11, size=t)],
        }
    )
    return read_duels(items, duels, ignore=["maker", "made"])


def split(table, how, fraction=0.2, seed=0, **options):
    parts = split_duels(table, how, fraction, np.random.default_rng(seed), **options)
    both = np.concatenate([parts.train_rows, parts.test_rows])
    assert len(np.unique(both)) == len(both)
    assert len(both) + parts.dropped + parts.unused == table.num_rows
    assert (np.diff(parts.train_rows) > 0).all() and (np.diff(parts.test_rows) > 0).all()
    assert parts.description.endswith(".")
    return parts


def test_duels(table):
    parts = split(table, "duels")
    assert len(parts.test_rows) == 80 and parts.dropped == 0
    np.testing.assert_array_equal(parts.test_rows, split(table, "duels").test_rows)
    assert not np.array_equal(parts.test_rows, split(table, "duels", seed=1).test_rows)


def test_items(table):
    parts = split(table, "items", 0.4)
    sides = table.given.pairs.T
    held = set(sides[:, parts.test_rows].ravel())
    assert len(held) <= 12 and held.isdisjoint(sides[:, parts.train_rows].ravel())
    assert parts.dropped > 0 and f"{parts.dropped:,} mixed" in parts.description


def test_group_of_duels(table):
    parts = split(table, "group:person", 0.25)
    person = table.context["person"].to_numpy()
    held = set(person[parts.test_rows])
    assert len(held) == 5 and held.isdisjoint(person[parts.train_rows]) and parts.dropped == 0


def test_group_of_items(table):
    parts = split(table, "group:maker", 0.4)
    maker = table.raw.frame["maker"].to_numpy()
    sides = np.stack([maker[table.given.pairs[:, 0]], maker[table.given.pairs[:, 1]]])
    assert set(sides[:, parts.test_rows].ravel()).isdisjoint(sides[:, parts.train_rows].ravel())
    assert parts.dropped > 0


def test_time_of_duels(table):
    parts = split(table, "time:day")
    day = table.context["day"].to_numpy()
    assert max(day[parts.train_rows]) < min(day[parts.test_rows])
    assert abs(len(parts.test_rows) - 80) <= 25  # about 40 duels a day


def test_time_of_items_is_the_later_of_the_two(table):
    parts = split(table, "time:made")
    later = table.given.pairs.max(1)  # items were made in order
    assert later[parts.train_rows].max() < later[parts.test_rows].min()


def test_time_as_numbers(table):
    day = table.context["day"].str[-2:].astype(float)
    table = table.replacing(frame=table.context.assign(number=day))
    np.testing.assert_array_equal(
        split(table, "time:number").test_rows, split(table, "time:day").test_rows
    )


@pytest.mark.filterwarnings("error")
def test_times_as_text(table):
    day = table.context["day"]
    mixed = day.where(day < "2021-01-05", day + " 10:00:00")
    # As text, 10 would come before 9.
    columns = {"mixed": mixed, "stamp": pd.to_datetime(day), "text": day.str[-2:].str.lstrip("0")}
    columns["zone"] = columns["stamp"].dt.tz_localize("Europe/Paris")
    columns["python"] = columns["stamp"].dt.date.astype(object)
    table = table.replacing(frame=table.context.assign(**columns))
    expected = split(table, "time:day").test_rows
    for name in columns:
        np.testing.assert_array_equal(split(table, f"time:{name}").test_rows, expected)


def test_rows_are_named_as_in_the_file(tmp_path):
    (tmp_path / "i.csv").write_text("item_id,x\na,1\nb,2\n")
    (tmp_path / "d.csv").write_text("winner,loser,day\na,b,2020-01-01\n\nb,a,1/2/2020\n")
    table = read_duels(tmp_path / "i.csv", tmp_path / "d.csv")
    for part in (table, table.select([1])):
        with pytest.raises(ValueError, match=r"'1/2/2020' in row 4 of d.csv \(the header is row 1"):
            split_duels(part, "time:day", 0.5, np.random.default_rng(0))


def test_max_train(table):
    parts = split(table, "time:day", max_train=50)
    day = table.context["day"].to_numpy()
    assert len(parts.train_rows) == 50 and parts.unused > 0
    everything = split(table, "time:day").train_rows
    left_out = np.setdiff1d(everything, parts.train_rows)
    assert max(day[left_out]) <= min(day[parts.train_rows])
    assert len(split(table, "duels", max_train=50).train_rows) == 50
    assert split(table, "duels", max_train=5000).unused == 0


@pytest.fixture
def rankings(table):
    """150 rankings of two to five items, by thirty people on ten days."""
    rng = np.random.default_rng(1)
    places = np.array([rng.permutation(30)[:5] for _ in range(150)])
    frame = pd.DataFrame(places, columns=[f"rank_{k}" for k in range(1, 6)]).astype(object)
    for row, size in enumerate(rng.integers(2, 6, size=150)):
        frame.iloc[row, size:] = None
    frame["person"] = rng.integers(20, size=150)
    frame["day"] = rng.integers(1, 11, size=150)
    items = table.raw.frame.assign(item_id=range(30))
    with pytest.warns(UserWarning, match="150 rankings"):
        return read_rankings(items, frame, ignore=["maker", "made"], as_duels=True)


HOWS = ["duels", "items", "group:person", "group:maker", "time:day", "time:made"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("max_train", [None, 120])
def test_sets_stay_whole(rankings, how, max_train):
    by_items = how in ("items", "group:maker")
    parts = split(rankings, how, 0.6 if by_items else 0.3, max_train=max_train)
    number = rankings.context["ranking"].to_numpy()
    size = np.bincount(number)
    for rows in (parts.train_rows, parts.test_rows):
        found = np.bincount(number[rows], minlength=150)
        assert ((found == 0) | (found == size)).all() and found.any()
    if max_train is not None:
        assert len(parts.train_rows) <= 120
        assert by_items or (parts.unused and len(parts.train_rows) > 110)
    elif how == "duels":
        assert len(np.unique(number[parts.test_rows])) == 45
        assert "45 of 150 values of 'ranking'" in parts.description
    if by_items:
        assert parts.dropped and "with all others of their 'ranking'" in parts.description
    if how == "time:made":
        latest = pd.Series(rankings.given.pairs.max(1)).groupby(number).max()
        held = np.unique(number[parts.test_rows])
        kept = np.unique(number[parts.train_rows])
        assert latest[kept].max() < latest[held].min()


def test_a_set_larger_than_max_train(rankings):
    with pytest.raises(ValueError, match=r"max_train is 1, fewer than .* 'ranking'"):
        biggest = np.bincount(rankings.sets()).argmax()
        one = rankings.select(rankings.sets() == biggest)
        split_duels(one, "duels", 0.0, np.random.default_rng(0), max_train=1)


# As they were drawn when these splits were first made.
DRAWN = {
    "duels": [2, 5, 18, 19, 36, 38],
    "items": [7, 35, 64, 78, 94, 98],
    "group:person": [3, 5, 6, 10, 11, 28],
    "group:maker": [3, 4, 15, 22, 23, 24],
}


@pytest.mark.parametrize("how", list(DRAWN))
def test_a_seed_draws_the_same_rows_for_ever(table, how):
    assert split(table, how).test_rows[:6].tolist() == DRAWN[how]


def test_one_left_out_keeps_sets_whole(rankings):
    parts = leave_one_out(rankings, "group:maker", "2", np.random.default_rng(0), max_train=100)
    sets, maker = rankings.sets(), rankings.raw.frame["maker"].to_numpy()
    sides = maker[rankings.given.pairs.T]
    assert set(sides[:, parts.test_rows].ravel()) == {2}
    assert 2 not in sides[:, parts.train_rows]
    size = np.bincount(sets)
    for rows in (parts.train_rows, parts.test_rows):
        found = np.bincount(sets[rows], minlength=len(size))
        assert found.any() and np.all((found == 0) | (found == size))
    assert len(parts.train_rows) <= 100 and parts.unused


def test_duels_of_an_item_in_several_contexts_are_split_by_the_item():
    """Rows 2k and 2k + 1 are item k, in two contexts."""
    rng = np.random.default_rng(0)
    winner = rng.integers(20, size=200)
    loser = (winner + 2 * rng.integers(1, 10, size=200)) % 20
    duels = spg.Duels.from_events(
        rng.normal(size=(20, 2)), Answers.between(winner, loser), item=np.arange(20) // 2
    )
    table = duels.one_by_one()
    parts = split_duels(table, "items", 0.4, rng)
    sides = table.given.pairs.T // 2
    held = set(sides[:, parts.test_rows].ravel())
    assert held and held.isdisjoint(sides[:, parts.train_rows].ravel())


def test_a_rule_is_one_function_and_one_entry(table, monkeypatch):
    """Here by the parity of the loser."""

    def by_parity(table, column):
        return Units(table.given.pairs[:, 1] % 2, np.arange(table.num_rows), "parities")

    monkeypatch.setitem(RULES, "parity", Rule(by_parity))
    parts = split(table, "parity", 0.5)
    assert len({*(table.given.pairs[:, 1][parts.test_rows] % 2)}) == 1 and parts.dropped == 0
    assert parts.description == "1 of 2 parities held out."
    with pytest.raises(ValueError, match="given:COLUMN or parity"):
        split_columns("parities")


def test_given_groups_need_a_value():
    with pytest.raises(ValueError, match=r"no value .* for row 1 of the duels"):
        given_units(np.array(["a", None, "b"], dtype=object), 3)


@pytest.mark.parametrize("values", [int, float, str, bool])
def test_given(table, values):
    """Whatever the share and the seed, unless nothing is to be held out."""
    flags = np.random.default_rng(4).uniform(size=400) < 0.3
    table = table.replacing(frame=table.context.assign(test=flags.astype(values)))
    parts = split(table, "given:test")
    np.testing.assert_array_equal(parts.test_rows, np.flatnonzero(flags))
    np.testing.assert_array_equal(parts.train_rows, np.flatnonzero(~flags))
    held = f"{flags.sum()} of 400 duels"
    assert parts.description == f"Held out by the column 'test': {held}."
    np.testing.assert_array_equal(split(table, "given:test", 0.7, 3).test_rows, parts.test_rows)
    assert len(split(table, "given:test", 0.0).test_rows) == 0
    few = split(table, "given:test", max_train=20)
    np.testing.assert_array_equal(few.test_rows, parts.test_rows)
    assert len(few.train_rows) == 20


def test_given_by_items(table):
    """Both sides held out, or neither."""
    held = np.arange(30) % 3 == 0
    frame = table.raw.frame.assign(held=held.astype(int))
    table = table.replacing(described=replace(table.raw, frame=frame))
    parts = split(table, "given:held")
    sides = held[table.given.pairs.T]
    np.testing.assert_array_equal(parts.test_rows, np.flatnonzero(sides.all(0)))
    np.testing.assert_array_equal(parts.train_rows, np.flatnonzero(~sides.any(0)))
    assert parts.dropped > 0


def test_given_keeps_sets_whole(rankings):
    """A set that has both values is in neither part."""
    sets = rankings.sets()
    flags = sets % 3 == 0
    flags[np.flatnonzero(sets == 1)[0]] = True
    rankings = rankings.replacing(frame=rankings.context.assign(test=flags.astype(int)))
    parts = split(rankings, "given:test")
    assert {*sets[parts.test_rows]} == {*sets[sets % 3 == 0]}
    assert {*sets[parts.train_rows]} == {*sets[(sets % 3 != 0) & (sets != 1)]}


@pytest.fixture
def answers():
    """Sets as events, a row for each, in turn of six people."""
    rng = np.random.default_rng(1)
    n, e, k = 12, 60, 4
    sides = np.concatenate([rng.permutation(n)[:k] for _ in range(e)])
    events = Answers(sides, np.arange(0, k * e + 1, k), kind=np.full(e, CHOICE, np.int8))
    table = spg.Duels.from_events(rng.normal(size=(n, 2)), events).one_by_one()
    context = pd.DataFrame(
        {"person": np.arange(e) % 6, "test": (np.arange(e) % 5 == 0).astype(int)}
    )
    table = table.replacing(frame=context)
    return table


@pytest.mark.parametrize("how", ["duels", "items", "group:person", "given:test"])
def test_answers_are_never_cut(answers, how):
    parts = split(answers, how, 0.4)
    assert len(parts.test_rows) > 0
    assert "duels" not in parts.description
    assert ("choices" in parts.description.lower()) == (how != "group:person")
    if how == "group:person":
        people = answers.context["person"].to_numpy()
        assert not {*people[parts.test_rows]} & {*people[parts.train_rows]}
    if how == "items":
        test, train = (
            {*answers.given.take(rows).sides} for rows in (parts.test_rows, parts.train_rows)
        )
        assert not test & train
    if how == "given:test":
        np.testing.assert_array_equal(parts.test_rows, np.arange(0, 60, 5))


def over(table, how):
    """What errors of the scores of all rows are over, and who is in a group with whom, (e, e)."""
    units = None if how is None else units_of(table, how)
    found = grouping_of(table, np.arange(table.num_rows), units)
    if found is None:
        return None, None
    codes = found.codes.reshape(table.num_rows, -1)
    shared = (codes[:, None, :, None] == codes[None, :, None, :]) & (codes >= 0)[:, None, :, None]
    return found.what, shared.any((2, 3))


def test_errors_are_over_what_is_held_out_whole(table, rankings, answers):
    """Which are items, the values of a column, or people; else people, sets or nothing."""
    sides, context = table.given.pairs, table.context
    what, together = over(table, "items")
    assert what == "items"
    np.testing.assert_array_equal(
        together, (sides[:, None, :, None] == sides[None, :, None, :]).any((2, 3))
    )
    what, together = over(table, "group:maker")
    makers = table.raw.frame["maker"].to_numpy()[sides]
    assert what == "values of 'maker'"
    np.testing.assert_array_equal(
        together, (makers[:, None, :, None] == makers[None, :, None, :]).any((2, 3))
    )
    person = context["person"].to_numpy()
    by_person = person[:, None] == person
    assert over(table, "group:person")[0] == "values of 'person'"
    assert over(table, "duels") == over(table, "time:day") == over(table, None) == (None, None)
    known = table.saying(person=Codes.of(person.tolist()))
    for how in ("duels", "time:day", "group:person", None):
        what, together = over(known, how)
        assert what == "people"
        np.testing.assert_array_equal(together, by_person)
    assert over(known, "group:day")[0] == "values of 'day'"
    for sets in (rankings, answers):  # whose column of people is known by its name
        what, together = over(sets, "duels")
        people = sets.context["person"].to_numpy()
        assert what == "people"
        np.testing.assert_array_equal(together, people[:, None] == people)
    nobody = rankings.replacing(frame=rankings.context.drop(columns="person"))
    what, together = over(nobody, "duels")
    assert what == f"values of {rankings.set_column!r}"
    np.testing.assert_array_equal(together, nobody.sets()[:, None] == nobody.sets())
    alone = table.saying(person=Codes.of(["ann"] * table.num_rows))
    assert over(alone, "duels") == (None, None)


def test_what_answers_are_called(answers):
    for kind, noun in ((CHOICE, "choices"), (RANKING, "rankings"), (BEST_WORST, "answers")):
        events = answers.given.saying(kind=np.full(60, kind, np.int8))
        assert events.noun == noun
    half = np.where(np.arange(60) < 30, CHOICE, RANKING).astype(np.int8)
    assert answers.given.saying(kind=half).noun == "answers"


@pytest.mark.parametrize("how", ["duels", "items", "group:person", "time:day"])
def test_nothing_held_out(table, how):
    parts = split(table, how, 0.0)
    assert len(parts.train_rows) == table.num_rows and len(parts.test_rows) == 0


@pytest.mark.parametrize(
    ("how", "fraction", "words"),
    [
        ("rows", 0.2, "'rows' is unknown"),
        ("group", 0.2, "'group' is unknown"),
        ("time:", 0.2, "'time:' is unknown"),
        ("duels:person", 0.2, "unknown"),
        ("group:town", 0.2, "column is 'town'"),
        ("group:town", 0.0, "column is 'town'"),
        ("time:x", 0.99999, None),
        ("duels", 1.0, "test fraction is 1.0"),
        ("duels", -0.1, "test fraction is -0.1"),
        ("duels", float("nan"), "test fraction is nan"),
        ("items", 0.01, "test part of the split 'items'"),
        ("time:text", 0.2, "'so' in row 0"),
        ("time:slashes", 0.2, "'05/03/2020' in row 0 of .*2024-01-31"),
        ("time:odd", 0.2, "'soon' in row 3 of .*numbers"),
        ("time:gap", 0.2, "a missing value in row 1"),
        ("group:same", 0.2, "at least two different"),
        ("time:same", 0.2, "at least two different"),
        ("given:town", 0.2, "column is 'town'"),
        ("given", 0.2, "'given' is unknown"),
        (
            "given:person",
            0.2,
            r"'person' has \d+ in row \d+ of .*give 1 for what",
        ),
        ("given:text", 0.2, "'text' has 'so' in row 0 of .*give 1 for what is held out"),
        ("given:gap", 0.2, "a missing value in row 1"),
        ("given:same", 0.2, "1 in all duels, so that nothing is left to learn from"),
        ("given:none", 0.2, "0 in all duels, so that nothing is held out"),
    ],
)
def test_bad_input(table, how, fraction, words):
    extra = {"text": "so", "gap": np.where(np.arange(400) == 1, np.nan, 1.0), "same": 1, "none": 0}
    extra["slashes"] = "05/03/2020"
    extra["odd"] = ["soon" if i == 3 else str(i) for i in range(400)]
    table = table.replacing(frame=table.context.assign(**extra))
    if words is None:
        split(table, how, fraction)
        return
    with pytest.raises(ValueError, match=words) as error:
        split_duels(table, how, fraction, np.random.default_rng(0))
    assert str(error.value).endswith(".") and ". " not in str(error.value)


def test_bad_max_train(table):
    with pytest.raises(ValueError, match="max_train is 0"):
        split_duels(table, "duels", 0.2, np.random.default_rng(0), max_train=0)


def test_split_columns():
    assert split_columns("time:date") == ("date",) and split_columns("duels") == ()
    assert split_columns("given:test") == ("test",)
    assert says_itself("given:test") and not says_itself("group:test")
    with pytest.raises(ValueError, match="unknown"):
        split_columns("by date")


@pytest.mark.slow
def test_tennis_by_date(data_dir):
    folder = data_dir / "tennis_atp"
    table = read_duels(
        folder / "items.csv.gz", folder / "duels.csv.gz", ignore=["player_id", "date"]
    )
    parts = split(table, "time:date", 0.15, max_train=50_000)
    date = table.context["date"].to_numpy()
    assert max(date[parts.train_rows]) < min(date[parts.test_rows])
    assert len(parts.train_rows) == 50_000
    assert abs(len(parts.test_rows) / table.num_rows - 0.15) < 0.002
