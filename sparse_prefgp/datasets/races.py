"""Formula 1: who finished where, with driver and car, from F1DB, one file for each race."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.support.yaml_files import read_yaml

NOT_STARTED = "DNS"


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """Items, a driver in the car of a season, and rankings, a row for each who started in a race.

    Races come in the order of their files' names. Those who did not finish, or were disqualified,
    have no rank; those who did not start are left out. Who starts from the pit lane has as many
    before him on the grid as start at all.

    :raises ModuleNotFoundError: PyYAML is not installed.
    """
    rows = []
    for race, name in enumerate(sorted(files), 1):
        text = files[name].read_text(encoding="utf-8")
        results = read_yaml(text, name, "Reading the results of races")
        started = [result for result in results if result["position"] != NOT_STARTED]
        for result in started:
            place, grid = result["position"], result["gridPosition"]
            ranking = name.removesuffix(".yml")
            car = f"{result['constructorId']} {ranking[:4]}"
            rows.append(
                {
                    "item_id": f"{result['driverId']} {car}",
                    "driver": result["driverId"],
                    "car": car,
                    "ranking": ranking,
                    "race": race,
                    "rank": place if isinstance(place, int) else None,
                    "grid": grid if isinstance(grid, int) else len(started),
                }
            )
    every = require_pandas().DataFrame(rows).astype({"rank": "Int64"})
    items = every[["item_id", "driver", "car"]].drop_duplicates().reset_index(drop=True)
    rankings = every[["ranking", "race", "item_id", "rank", "grid"]]
    return {"items.csv": items, "rankings.csv": rankings}
