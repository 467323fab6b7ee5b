"""From surveys of choices to profiles and duels between them, or to tables of choices from sets."""

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
_OFFERS = ("pf", "cl", "loc", "wk", "tod", "seas")
_MODES = ("dist", "cost", "ivt", "ovt", "freq", "income", "urban", "noalt")
_TRIPS = {"price": "price", "time_min": "time", "changes": "change", "comfort_class": "comfort"}


def tidy_cars(files: Mapping[str, Path]) -> dict[str, Any]:
    """Car profiles and duels: of three cars, the chosen one beats each of the others.

    A row of the public file is a car in a question (`obsnum`) to a person (`id`), with `choice` 1
    for the chosen one.
    """
    pd = require_pandas()
    (path,) = files.values()
    raw = pd.read_csv(path)
    items, item = _distinct(raw[list(_CARS.values())].set_axis(list(_CARS), axis=1))
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
    return {"items.csv": items, "duels.csv.gz": _of_unlike(duels)}


def tidy_trains(files: Mapping[str, Path]) -> dict[str, Any]:
    """Train trips and duels: one for each row of the public file.

    Its columns are `price1`, `time1`, `change1`, `comfort1`, the same with 2, and `choice`, which
    ends in 1 or 2. Prices are in cents.
    """
    pd = require_pandas()
    (path,) = files.values()
    raw = pd.read_csv(path)
    sides = [
        raw[[f"{name}{side}" for name in _TRIPS.values()]].set_axis(list(_TRIPS), axis=1)
        for side in "12"
    ]
    trips = pd.concat(sides, ignore_index=True)
    trips["price"] /= CENTS
    items, item = _distinct(trips)
    first, second = item.reshape(2, -1)
    one = raw["choice"].astype(str).str[-1] == "1"
    duels = pd.DataFrame(
        {
            "winner": np.where(one, first, second),
            "loser": np.where(one, second, first),
            "person": pd.factorize(raw["id"])[0],
        }
    )
    return {"items.csv": items, "duels.csv": _of_unlike(duels)}


def tidy_offers(files: Mapping[str, Path]) -> dict[str, Any]:
    """Choices among offers of electricity suppliers, in the order of the public file."""
    return _long(files, "chid", "id", _OFFERS)


def tidy_modes(files: Mapping[str, Path]) -> dict[str, Any]:
    """Choices among train, air, bus and car, of travellers (`case`) who chose once."""
    return _long(files, "case", "case", _MODES)


def _long(
    files: Mapping[str, Path], choice_set: str, person: str, attributes: tuple[str, ...]
) -> dict[str, Any]:
    """A row for each alternative: set, person, alternative, whether it was chosen, attributes."""
    (path,) = files.values()
    raw = require_pandas().read_csv(path)
    names = {"choice_set": choice_set, "person": person, "alternative": "alt", "chosen": "choice"}
    found = raw[[*names.values(), *attributes]].set_axis([*names, *attributes], axis=1)
    return {"choices.csv.gz": found.assign(chosen=found["chosen"].astype(int))}


def _of_unlike(duels: Any) -> Any:
    """Without comparisons of two equal profiles."""
    return duels[duels["winner"] != duels["loser"]].reset_index(drop=True)


def _distinct(profiles: Any) -> tuple[Any, Any]:
    """Each profile once, by first appearance, and the number of the profile of each row."""
    numbers = profiles.groupby(list(profiles.columns), sort=False).ngroup().to_numpy()
    items = profiles.drop_duplicates().reset_index(drop=True)
    items.insert(0, "item_id", np.arange(len(items)))
    return items, numbers
