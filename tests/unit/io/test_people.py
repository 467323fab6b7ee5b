"""Whose preference a duel is, and what is known of the people."""

import warnings

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.io import read_choices, read_duels, read_rankings
from tests.together import refused

ITEMS = pd.DataFrame({"item_id": list("abcd"), "size": [1.0, 2.0, 4.0, 3.0]})
DUELS = pd.DataFrame(
    {
        "winner": list("aabac"),
        "loser": list("bbcbd"),
        "worker": ["Ann", "Bob", "Ann", "Ann", "Cy"],
    }
)
PEOPLE = pd.DataFrame(
    {
        "person_id": ["Cy", "Bob", "Ann", "Dan"],
        "age": [30, 40, 20, 90],
        "town": ["x", "y", "x", "y"],
    }
)


def test_duels_of_people():
    duels = spg.read_duels(ITEMS, DUELS, person="worker")
    person = duels.events.person
    assert person.names == ("Ann", "Bob", "Cy")
    assert person.column == "worker"
    # Equal duels are one within a person alone.
    np.testing.assert_array_equal(person.numbers, [0, 1, 0, 2])
    np.testing.assert_array_equal(duels.counts, [2, 1, 1, 1])
    assert spg.read_duels(ITEMS, DUELS).events.person is None


def test_sets_and_rankings_of_people():
    rankings = pd.DataFrame(
        {"rank_1": ["a", "b"], "rank_2": ["b", "c"], "rank_3": ["c", "d"], "who": [7, 8]}
    )
    table = read_rankings(ITEMS, rankings, person="who")
    assert table.events.person.names == (7, 8)
    choices = pd.DataFrame(
        {
            "choice_set": [1, 1, 1, 2, 2],
            "item_id": list("abcad"),
            "chosen": [1, 0, 0, 0, 1],
            "who": ["Ann"] * 3 + ["Bob"] * 2,
        }
    )
    table = read_choices(ITEMS, choices, person="who", people=PEOPLE)
    assert table.events.person.labels.tolist() == ["Ann", "Bob"]
    assert table.people_table.ids == ("Cy", "Bob", "Ann", "Dan")
    choices.loc[1, "who"] = "Bob"
    with pytest.raises(ValueError, match="'who' of the choices frame differs within a set"):
        read_choices(ITEMS, choices, person="who")


def test_features_of_people_are_those_of_the_training_people():
    table = read_duels(ITEMS, DUELS, person="worker", people=PEOPLE)
    found = PeopleFeatures.of_table(table.people_table, ("Ann", "Cy"))
    assert found.feature_names[0] == "age"
    np.testing.assert_allclose(found.of(["Ann", "Cy"])[:, 0], [-1.0, 1.0])
    with pytest.raises(ValueError, match="person 'Eve' has no features"):
        found.of(["Eve"])
    duels = table.standardised([0, 4])
    np.testing.assert_array_equal(duels.people_features.values, found.values)
    test = table.standardised([1], transform=duels.transform, people_features=duels.people_features)
    np.testing.assert_array_equal(test.people_features.of(["Bob"]), found.of(["Bob"]))


@pytest.mark.parametrize(
    ("people", "words"),
    [
        (PEOPLE[1:], "'Cy' .column 'worker' of the duels. has no row in the people frame; add one"),
        (PEOPLE.replace("Ann", "ann"), "no row in the people frame, which spells 'ann'"),
        (PEOPLE.replace("Dan", "Ann"), "The person id 'Ann' in row 3 .* was used before"),
        (PEOPLE[["person_id"]], "has no column but the id 'person_id'"),
        (PEOPLE.assign(age=[1, 2, None, 3]), "column 'age' has a missing value in row 2"),
        (PEOPLE[:0], "There are no people"),
    ],
)
def test_people_that_cannot_be_read(people, words):
    with pytest.raises(ValueError, match=words):
        read_duels(ITEMS, DUELS, person="worker", people=people)


def test_people_of_duels_of_nobody():
    with refused("features_of_people", "duels_of_nobody"):
        read_duels(ITEMS, DUELS, people=PEOPLE)
    with pytest.raises(ValueError, match=r"The person .column 'worker'. is missing in row 1"):
        read_duels(ITEMS, DUELS.assign(worker=["Ann", None, "B", "C", "D"]), person="worker")
    with pytest.raises(ValueError, match="no column 'rater'"):
        read_duels(ITEMS, DUELS, person="rater")


def test_names_that_differ_in_case_alone():
    with pytest.warns(UserWarning, match="'Ann' .* and 'ann' .* taken for two"):
        table = read_duels(ITEMS, DUELS.replace("Cy", "ann"), person="worker")
    assert len(table.events.person.names) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_duels(ITEMS, DUELS, person="worker")


@pytest.fixture(params=["files", "dataset", "memory"])
def streamed(request, tmp_path):
    if request.param == "memory":
        return spg.stream_duels(spg.read_duels(ITEMS, DUELS, person="worker"))
    x = ITEMS[["size"]].to_numpy()
    rows = DUELS.assign(
        **{side: DUELS[side].map(list("abcd").index) for side in ("winner", "loser")}
    )
    if request.param == "files":
        for k, part in enumerate((rows[:2], rows[2:])):
            part.to_parquet(tmp_path / f"{k}.parquet", index=False)
        return spg.stream_duels(tmp_path, x, person="worker")
    tf = pytest.importorskip("tensorflow")
    columns = {name: column.to_numpy().astype(object) for name, column in rows.items()}
    columns |= {side: rows[side].to_numpy() for side in ("winner", "loser")}
    return spg.stream_duels(tf.data.Dataset.from_tensor_slices(columns), x, person="worker")


def test_people_of_streams(streamed):
    assert streamed.people_names == ("Ann", "Bob", "Cy")
    assert streamed.said.person.column == "worker"
    labels = [label for chunk in streamed.chunks(2) for label in chunk.given.person.labels.tolist()]
    assert sorted(set(labels)) == ["Ann", "Bob", "Cy"]
    assert all(chunk.given.person.names == ("Ann", "Bob", "Cy") for chunk in streamed.chunks(2))
    duels = streamed.select(np.arange(1, streamed.num_rows))
    assert sorted(duels.events.person.names)[-2:] == ["Bob", "Cy"]
    part = streamed.part(1, streamed.num_rows)
    assert next(part.chunks(9)).given.person.labels[0] == "Bob"
    if not hasattr(streamed.batches.source, "duels"):
        assert labels == DUELS["worker"].tolist()


def test_a_stream_without_a_person(tmp_path):
    frame = DUELS.assign(worker=["Ann", None, "B", "C", "D"])
    frame.to_parquet(tmp_path / "duels.parquet", index=False)
    with pytest.raises(ValueError, match=r"The person .* is missing in row 1 of duels.parquet"):
        spg.stream_duels(tmp_path / "duels.parquet", ITEMS, person="worker")
    with pytest.raises(ValueError, match="column of people is 'rater'"):
        spg.stream_duels(tmp_path / "duels.parquet", ITEMS, person="rater")
