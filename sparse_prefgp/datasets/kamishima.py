"""Kamishima's sushi: what 5,000 people prefer, from a folder of the user's own.

The set is for research and must not be passed on, so that nothing downloads it; who has it names
the folder. Source: T. Kamishima, "Nantonac collaborative filtering", KDD 2003, 583-588.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.frames import numbered
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.words import shortened

ITEMS, PEOPLE = "sushi3.idata", "sushi3.udata"
RANKINGS = {"a": "sushi3a.5000.10.order", "b": "sushi3b.5000.10.order"}
RANKED = 10  # by each person, in either set
# The ten kinds of set A, by their numbers among all.
SET_A = (0, 1, 2, 3, 4, 6, 7, 8, 26, 29)
GROUPS = (
    "blue-skinned fish",
    "red fish",
    "white fish",
    "eel",
    "shellfish",
    "squid or octopus",
    "shrimp or crab",
    "roe",
    "other seafood",
    "egg",
    "meat",
    "vegetables",
)
REGIONS = (
    "Hokkaido",
    "Tohoku",
    "Hokuriku",
    "Kanto",
    "Nagano",
    "Chukyo",
    "Kinki",
    "Chugoku",
    "Shikoku",
    "Kyushu",
    "Okinawa",
    "abroad",
)
# What the codes of columns stand for, from 0.
LABELS = {
    "style": ("roll", "other"),
    "major_group": ("seafood", "other"),
    "minor_group": GROUPS,
    "gender": ("male", "female"),
    "age": ("15-19", "20-29", "30-39", "40-49", "50-59", "60-"),
    "grew_up": REGIONS,
    "lives": REGIONS,
}
# All columns of the files; those with a number for a name are left out.
OF_ITEMS = [1, "item_id", "style", "major_group", "minor_group", "oiliness", "eaten", "price"]
OF_ITEMS += ["sold"]
OF_PEOPLE = [1, "gender", "age", 4, 5, "grew_up", 7, 8, "lives", 10, 11]


@dataclass(frozen=True, eq=False, repr=False)
class Sushi:
    """Kinds of sushi, people, and how each of these ranked ten kinds, twice."""

    items: Any
    """Data frame, a row for each of 100 kinds: `item_id` (its name), `style`, `major_group`,
    `minor_group` (texts), `oiliness` (0 is heavy), `eaten`, `price` and `sold`."""
    people: Any
    """Data frame, a row a person: `person_id` (the row), `gender`, `age`, and the regions of
    childhood, `grew_up`, and of today, `lives`."""
    orders: dict[str, IntArray]
    """(people, 10) rows of `items`, best first: by the sets `a`, ten kinds that all ranked, and
    `b`, ten of 100 for each."""

    def rankings(self, which: str) -> Any:
        """Data frame with columns `person_id`, `rank_1`, … `rank_10`, as `read_rankings` takes.

        :param which: the set, `a` or `b`.
        :raises ValueError: another set.
        """
        if which not in self.orders:
            raise ValueError(f"There is no set {which!r} of sushi; choose a or b.")
        order = self.orders[which]
        names = self.items["item_id"].to_numpy()[order]
        frame = require_pandas().DataFrame(names, columns=[f"rank_{j + 1}" for j in range(RANKED)])
        frame.insert(0, "person_id", self.people["person_id"].to_numpy())
        return frame

    def __repr__(self) -> str:
        return f"Sushi(items={len(self.items)}, people={len(self.people)})"


def sushi(folder: str | os.PathLike[str]) -> Sushi:
    """Read Kamishima's set, the version of 2016, from a folder that holds its files.

    :param folder: with `sushi3.idata`, `sushi3.udata`, `sushi3a.5000.10.order` and
        `sushi3b.5000.10.order`.
    :raises ValueError: a file that is missing or is not as its authors describe it.
    """
    place = Path(folder)
    for name in (ITEMS, PEOPLE, *RANKINGS.values()):
        if not (place / name).is_file():
            raise ValueError(
                f"The folder {str(place)!r} has no {name}; give the folder of Kamishima's sushi "
                "set, which its author hands out for research."
            )
    items = _table(place / ITEMS, OF_ITEMS)
    people = numbered(_table(place / PEOPLE, OF_PEOPLE), "person_id")
    orders = {which: _orders(place / name, len(people)) for which, name in RANKINGS.items()}
    of_a = np.array(SET_A)
    if orders["a"].max(initial=0) >= len(of_a) or orders["b"].max(initial=0) >= len(items):
        raise ValueError(
            f"The rankings in {str(place)!r} name kinds of sushi that are not in {ITEMS}; give "
            "the files of one version of the set."
        )
    return Sushi(items, people, {"a": of_a[orders["a"]], "b": orders["b"]})


def _orders(path: Path, people: int) -> IntArray:
    """(people, 10), of a file whose first line says how many kinds there are."""
    lines = path.read_text(encoding="utf-8").split("\n")[1:]
    rows = [line.split() for line in lines if line.strip()]
    for i, row in enumerate(rows):
        if len(row) != RANKED + 2 or not all(word.isdecimal() for word in row):
            raise ValueError(
                f"Line {i + 2} of {path.name} is {shortened(' '.join(row))}, but a ranking is 0, "
                f"{RANKED} and {RANKED} numbers of sushi; give the file as its author hands it out."
            )
    if len(rows) != people:
        raise ValueError(
            f"{path.name} has {len(rows):,} rankings, but {PEOPLE} has {people:,} people; give the "
            "files of one version of the set."
        )
    return np.array([row[2:] for row in rows], dtype=np.int64)


def _table(path: Path, columns: list[Any]) -> Any:
    """The columns of a file that have names, labels in place of codes."""
    pd = require_pandas()
    raw = pd.read_csv(path, sep="\t", header=None)
    if len(raw.columns) == len(columns):
        raw = raw.set_axis(columns, axis=1).apply(
            lambda x: x if x.name == "item_id" else pd.to_numeric(x, errors="coerce")
        )
        for name in raw.columns.intersection(list(LABELS)):
            raw[name] = raw[name].map(dict(enumerate(LABELS[name])))
    if len(raw.columns) != len(columns) or raw.isna().any(axis=None):
        raise ValueError(
            f"{path.name} has {len(raw.columns)} columns in place of {len(columns)}, or cells that "
            "are not numbers with a meaning; give the file as its author hands it out."
        )
    return raw[[name for name in columns if isinstance(name, str)]]
