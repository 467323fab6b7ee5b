"""From files of tennis matches to players' states at tournaments and duels between them.

Columns are those of <https://github.com/JeffSackmann/tennis_atp>; one row per match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.frames import numbered
from sparse_prefgp.datasets.registry import DataSet
from sparse_prefgp.support.arrays import IntArray

FIRST_YEAR = 1991  # ranking points begin in the year before, and are missing on its last days
SURFACES = ("hard", "clay", "grass", "carpet")
YEAR_DAYS, SURFACE_DAYS = 364, 728
BROKEN_OFF = re.compile(r"RET|DEF|AB[DN]|UNF", re.IGNORECASE)

_MATCH = ("tourney_id", "surface", "tourney_level", "tourney_date", "score", "best_of", "round")
_PLAYER = ("id", "hand", "ht", "age", "rank", "rank_points")
_ENTRY = ["day", "place", "id"]  # by which entries of players are in order


def tidy(known: DataSet, files: Mapping[str, Path]) -> dict[str, Any]:
    """Items and duels from all files: those of the tour first, each kind by year."""
    pd = require_pandas()
    columns = [*_MATCH, *(f"{side}_{name}" for side in ("winner", "loser") for name in _PLAYER)]
    texts = {"tourney_id": str, "score": str, "surface": str, "round": str}
    order = sorted(files, key=lambda name: ("qual" in name, name))
    frames = [pd.read_csv(files[name], usecols=columns, dtype=texts) for name in order]
    return convert(pd.concat(frames, ignore_index=True))


def convert(matches: Any) -> dict[str, Any]:
    """Items and duels from a data frame of matches.

    An item is one player at one tournament. Left out of the duels: matches that were not played,
    that have no surface, or in which either player has no ranking, points or age. The rolling
    columns count all played matches of the player with a strictly earlier date.
    """
    pd = require_pandas()
    score = matches["score"]
    played = score.str.contains(r"\d").eq(True) & ~score.str.contains("W/O", case=False).eq(True)
    matches = matches[played].sort_values("tourney_date", kind="stable", ignore_index=True)
    date = pd.to_datetime(matches["tourney_date"].astype(str), format="%Y%m%d")
    needed = [f"{side}_{x}" for side in ("winner", "loser") for x in ("rank", "rank_points", "age")]
    matches = matches.assign(
        day=date.to_numpy().astype("datetime64[D]").astype(np.int64),
        date=date.dt.strftime("%Y-%m-%d"),
        place=pd.factorize(matches["tourney_id"])[0],
        surface=matches["surface"].str.lower(),
    )
    matches["kept"] = matches[needed].notna().all(axis=1) & matches["surface"].isin(SURFACES)
    matches["kept"] &= matches["tourney_date"] >= FIRST_YEAR * 10_000

    # A row per player and match: all winners, then all losers.
    shared = ["day", "date", "place", "surface", "kept"]
    sides = pd.concat(
        [
            matches[[*shared, *(f"{side}_{name}" for name in _PLAYER)]]
            .set_axis([*shared, *_PLAYER], axis=1)
            .assign(won=won)
            for side, won in (("winner", 1), ("loser", 0))
        ],
        ignore_index=True,
    )
    heights = sides["ht"].fillna(sides.groupby("id")["ht"].transform("first"))
    sides["height"] = heights.fillna(sides["ht"].median())
    # Entries: players at a tournament, by date, then tournament, then player.
    used = sides[sides["kept"]]
    winners, losers = used.groupby(_ENTRY).ngroup().to_numpy().reshape(2, -1)
    entries = used.drop_duplicates(_ENTRY).sort_values(_ENTRY)
    player, day, won = pd.factorize(sides["id"])[0], sides["day"].to_numpy(), sides["won"]
    on_surface = sides.groupby(["id", "surface"], dropna=False).ngroup().to_numpy()
    rows = entries.index.to_numpy()
    matches_52w, wins_52w = _before(player, day, won, rows, YEAR_DAYS)
    matches_104w, wins_104w = _before(on_surface, day, won, rows, SURFACE_DAYS)
    items = pd.DataFrame(
        {
            "player_id": entries["id"],
            "date": entries["date"],
            "log_rank": np.log(entries["rank"].astype(float)).round(4),
            "log_points": np.log1p(entries["rank_points"].astype(float)).round(4),
            "age": entries["age"].astype(float).round(1),
            "height_cm": entries["height"].astype(float),
            "height_known": entries["ht"].notna().astype(int),
            "left_handed": (entries["hand"] == "L").astype(int),
            "matches_52w": matches_52w,
            "win_rate_52w": ((wins_52w + 1) / (matches_52w + 2)).round(4),
            "surface_matches_104w": matches_104w,
            "surface_win_rate_104w": ((wins_104w + 1) / (matches_104w + 2)).round(4),
            **{name: (entries["surface"] == name).astype(int) for name in SURFACES},
        }
    )
    fought = matches[matches["kept"]].reset_index(drop=True)
    # Qualifying for anything above challengers is a level of its own.
    qualifying = fought["round"].str.fullmatch(r"Q\d").eq(True) & (fought["tourney_level"] != "C")
    duels = pd.DataFrame(
        {
            "winner": winners,
            "loser": losers,
            "date": fought["date"],
            "level": fought["tourney_level"].mask(qualifying, "Q"),
            "round": fought["round"],
            "best_of": fought["best_of"],
            "retired": fought["score"].str.contains(BROKEN_OFF).astype(int),
        }
    )
    return {"items.csv.gz": numbered(items), "duels.csv.gz": duels}


def _before(
    unit: IntArray, day: IntArray, won: Any, rows: IntArray, days: int
) -> tuple[IntArray, IntArray]:
    """Results and wins of the units of some rows in so many days before, that day excluded.

    :param unit: (k,) a number for each result: of a player, or of a player on a surface.
    :param day: (k,) when it was.
    :param won: (k,) 1 for a win.
    """
    # One number per unit and day, larger for later days; a window fits between two units.
    moment = unit * (int(day.max() - day.min()) + days + 1) + day
    order = np.argsort(moment, kind="stable")
    wins = np.concatenate([[0], np.cumsum(np.asarray(won)[order])])
    low, high = (np.searchsorted(moment[order], moment[rows] - back) for back in (days, 0))
    return high - low, wins[high] - wins[low]
