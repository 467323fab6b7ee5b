"""From surveys of choices to profiles and duels between them, or to tables of choices from sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.columns import require_columns

CENTS = 100

# In the order of the tidy form, with the names of the public files of the car surveys.
_CARS = {
    **{name: name for name in ("hev", "phev10", "phev20", "phev40", "bev75", "bev100", "bev150")},
    "phev_fastcharge": "phevFastcharge",
    "bev_fastcharge": "bevFastcharge",
    "price": "price",
    "op_cost": "opCost",
    "accel_time": "accelTime",
    "american": "american",
    "japanese": "japanese",
    "chinese": "chinese",
    "s_korean": "skorean",
}
_OFFERS = ("pf", "cl", "loc", "wk", "tod", "seas")
_MODES = ("dist", "cost", "ivt", "ovt", "freq", "income", "urban", "noalt")
_TRIPS = {"price": "price", "time_min": "time", "changes": "change", "comfort_class": "comfort"}


def tidy_cars(files: Mapping[str, Path]) -> dict[str, Any]:
    """Car profiles and duels: of three cars, the chosen one beats each of the others.

    A row of the public file is a car in a question (`obsnum`) to a person (`id`), with `choice` 1
    for the chosen one. Comparisons of two equal profiles are left out.

    :raises ValueError: a missing column, or a question without exactly one chosen car.
    """
    pd = require_pandas()
    (path,) = files.values()
    raw = pd.read_csv(path)
    require_columns(raw, [*_CARS.values(), "id", "obsnum", "choice", "weights"], path)
    chosen = raw["choice"].groupby(raw["obsnum"]).transform("sum")
    if (chosen != 1).any():
        question = raw["obsnum"][chosen != 1].iloc[0]
        raise ValueError(
            f"{path.name} has {chosen[chosen != 1].iloc[0]} chosen cars in question {question}; "
            "give one in each."
        )
    profiles = raw[list(_CARS.values())].set_axis(list(_CARS), axis=1)
    items, item = _distinct(profiles)
    raw = raw.assign(item=item, person=pd.factorize(raw["id"])[0])
    winners = raw[raw["choice"] == 1].set_index("obsnum")["item"]
    losers = raw[raw["choice"] == 0]
    duels = pd.DataFrame(
        {
            "winner": winners[losers["obsnum"]].to_numpy(),
            "loser": losers["item"].to_numpy(),
            "person": losers["person"].to_numpy(),
            "choice_set": losers["obsnum"].to_numpy(),
            "person_weight": losers["weights"].to_numpy(),
        }
    )
    duels = duels[duels["winner"] != duels["loser"]].reset_index(drop=True)
    return {"items.csv": items, "duels.csv.gz": duels}


def tidy_trains(files: Mapping[str, Path]) -> dict[str, Any]:
    """Train trips and duels: one for each row of the public file.

    Its columns are `price1`, `time1`, `change1`, `comfort1`, the same with 2, and `choice`, which
    ends in 1 or 2; or with `_A` and `_B`, as the R package mlogit has them. Prices are in cents.

    :raises ValueError: a missing column, or a choice that is neither.
    """
    pd = require_pandas()
    (path,) = files.values()
    raw = pd.read_csv(path)
    ends = ("_A", "_B") if "price_A" in raw.columns else ("1", "2")
    columns = [[f"{name}{end}" for name in _TRIPS.values()] for end in ends]
    require_columns(raw, ["id", "choice", *columns[0], *columns[1]], path)
    sides = [raw[names].set_axis(list(_TRIPS), axis=1) for names in columns]
    trips = pd.concat(sides, ignore_index=True)
    trips["price"] /= CENTS
    items, item = _distinct(trips)
    first, second = item.reshape(2, -1)
    answer = raw["choice"].astype(str).str[-1]
    one, two = (answer == end[-1] for end in ends)
    if not (one | two).all():
        wrong = raw["choice"][~(one | two)].iloc[0]
        raise ValueError(
            f"{path.name} has the choice {wrong!r}; it must end in {ends[0][-1]} or {ends[1][-1]}."
        )
    duels = pd.DataFrame(
        {
            "winner": np.where(one, first, second),
            "loser": np.where(one, second, first),
            "person": pd.factorize(raw["id"])[0],
        }
    )
    duels = duels[duels["winner"] != duels["loser"]].reset_index(drop=True)
    return {"items.csv": items, "duels.csv": duels}


def tidy_offers(files: Mapping[str, Path]) -> dict[str, Any]:
    """Choices among offers of electricity suppliers, in the order of the public file.

    Its columns are `chid` (the choice), `id` (the person), `alt`, `choice` (TRUE for the chosen
    offer) and the attributes.

    :raises ValueError: a missing column, or a set without exactly one chosen alternative.
    """
    (path,) = files.values()
    return {"choices.csv.gz": _long(path, "chid", "id", _OFFERS)}


def tidy_modes(files: Mapping[str, Path]) -> dict[str, Any]:
    """Choices among train, air, bus and car, in the order of the public file.

    Its columns are `case` (the traveller, who chose once), `alt`, `choice` (1 for the chosen mode)
    and the attributes.

    :raises ValueError: a missing column, or a set without exactly one chosen alternative.
    """
    (path,) = files.values()
    return {"choices.csv.gz": _long(path, "case", "case", _MODES)}


def _long(path: Path, choice_set: str, person: str, attributes: tuple[str, ...]) -> Any:
    """A row for each alternative: set, person, alternative, whether it was chosen, attributes."""
    pd = require_pandas()
    raw = pd.read_csv(path)
    require_columns(raw, [choice_set, person, "alt", "choice", *attributes], path)
    chosen = raw["choice"].astype(int)
    many = chosen.groupby(raw[choice_set]).transform("sum")
    if (many != 1).any():
        raise ValueError(
            f"{path.name} has {many[many != 1].iloc[0]} chosen alternatives in set "
            f"{raw[choice_set][many != 1].iloc[0]}; give one in each."
        )
    said = {"choice_set": raw[choice_set], "person": raw[person], "alternative": raw["alt"]}
    return pd.DataFrame({**said, "chosen": chosen, **{name: raw[name] for name in attributes}})


def _distinct(profiles: Any) -> tuple[Any, Any]:
    """Each profile once, by first appearance, and the number of the profile of each row."""
    numbers = profiles.groupby(list(profiles.columns), sort=False).ngroup().to_numpy()
    items = profiles.drop_duplicates().reset_index(drop=True)
    items.insert(0, "item_id", np.arange(len(items)))
    return items, numbers
