"""Kamishima's sushi, made small by hand in its own form."""

import numpy as np
import pytest

pytest.importorskip("pandas")

from sparse_prefgp import datasets

ITEM = "{0}\tkind{0}\t1\t0\t{1}\t2.5\t1.5\t1.25\t0.5"
PERSON = "77\t1\t2\t300\t13\t3\t0\t26\t6\t1\t1"
FILES = {
    "sushi3.idata": [ITEM.format(i, i % 12) for i in range(40)],
    "sushi3.udata": [PERSON, PERSON.replace("\t1\t2", "\t0\t0", 1)],
    "sushi3a.5000.10.order": ["10 1", "0 10 9 8 7 6 5 4 3 2 1 0", "0 10 0 1 2 3 4 5 6 7 8 9"],
    "sushi3b.5000.10.order": [
        "40 1",
        "0 10 30 31 32 33 34 35 36 37 38 39",
        "0 10 0 2 4 6 8 1 3 5 7 9",
    ],
}


@pytest.fixture
def folder(tmp_path):
    for name, lines in FILES.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_items_people_and_both_rankings(folder):
    found = datasets.sushi(folder)
    assert found.items.loc[5].to_dict() == {
        "item_id": "kind5",
        "style": "other",
        "major_group": "seafood",
        "minor_group": "squid or octopus",
        "oiliness": 2.5,
        "eaten": 1.5,
        "price": 1.25,
        "sold": 0.5,
    }
    assert found.people.to_dict("records") == [
        dict(person_id=0, gender="female", age="30-39", grew_up="Kanto", lives="Kinki"),
        dict(person_id=1, gender="male", age="15-19", grew_up="Kanto", lives="Kinki"),
    ]
    # Of set A the number 9 is the last of the ten kinds, which is number 29 of all.
    assert found.rankings("a").loc[0, ["person_id", "rank_1", "rank_2"]].tolist() == [
        0,
        "kind29",
        "kind26",
    ]
    assert found.rankings("b").loc[1, "rank_2"] == "kind2"
    np.testing.assert_array_equal(found.orders["b"][0], np.arange(30, 40))
    with pytest.raises(ValueError, match="no set 'c' of sushi; choose a or b"):
        found.rankings("c")


@pytest.mark.parametrize(
    ("name", "lines", "words"),
    [
        ("sushi3.udata", None, "has no sushi3.udata"),
        ("sushi3.udata", [PERSON], "2 rankings, but sushi3.udata has 1 people"),
        ("sushi3.udata", ["77\t1\t2", "77\t1\t2"], "has 3 columns in place of 11"),
        ("sushi3.udata", [PERSON, PERSON.replace("26", "x")], "cells that are not numbers"),
        ("sushi3.idata", FILES["sushi3.idata"][:39], "kinds of sushi that are not in sushi3.idata"),
        ("sushi3a.5000.10.order", ["10 1", "0 10 1 2 3"], "Line 2 of sushi3a"),
    ],
)
def test_damaged_files(folder, name, lines, words):
    (folder / name).unlink()
    if lines is not None:
        (folder / name).write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=words):
        datasets.sushi(folder)
