"""From surveys of choices to profiles and duels between them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas

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
    _require(raw, [*_CARS.values(), "id", "obsnum", "choice", "weights"], path)
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
    _require(raw, ["id", "choice", *columns[0], *columns[1]], path)
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


def _distinct(profiles: Any) -> tuple[Any, Any]:
    """Each profile once, by first appearance, and the number of the profile of each row."""
    numbers = profiles.groupby(list(profiles.columns), sort=False).ngroup().to_numpy()
    items = profiles.drop_duplicates().reset_index(drop=True)
    items.insert(0, "item_id", np.arange(len(items)))
    return items, numbers


def _require(frame: Any, columns: list[str], path: Path) -> None:
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{path.name} has no column {missing[0]!r}; give the public file, or one with its "
            "columns."
        )
