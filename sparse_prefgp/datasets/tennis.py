"""From files of tennis matches to players' states at tournaments and duels between them.

Columns are those of <https://github.com/JeffSackmann/tennis_atp>; one row per match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

FIRST_YEAR = 1991  # ranking points begin in the year before, and are missing on its last days
SURFACES = ("hard", "clay", "grass", "carpet")
YEAR_DAYS, SURFACE_DAYS = 364, 728
QUALIFYING = re.compile(r"Q\d")
BROKEN_OFF = re.compile(r"RET|DEF|AB[DN]|UNF", re.IGNORECASE)

_MATCH = ("tourney_id", "surface", "tourney_level", "tourney_date", "score", "best_of", "round")
_PLAYER = ("id", "hand", "ht", "age", "rank", "rank_points")


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
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
    matches = matches[_played(matches["score"])]
    matches = matches.iloc[np.argsort(matches["tourney_date"].to_numpy(), kind="stable")]
    matches = matches.reset_index(drop=True)
    day = _days(matches["tourney_date"])
    surface = matches["surface"].str.lower()
    sides = _sides(matches)
    known = sides[["rank", "rank_points", "age"]].notna().all(axis=1).to_numpy().reshape(2, -1)
    kept = known.all(axis=0) & surface.isin(SURFACES).to_numpy()
    kept &= matches["tourney_date"].to_numpy() >= FIRST_YEAR * 10_000

    players, place = (pd.factorize(ids)[0] for ids in (sides["id"], matches["tourney_id"]))
    surfaces = pd.Categorical(surface, categories=SURFACES).codes.astype(np.int64)
    both_days, won = np.tile(day, 2), np.repeat([1, 0], len(matches))
    played = _Results(players, both_days, won)
    on_surface = _Results(players * (len(SURFACES) + 1) + np.tile(surfaces, 2), both_days, won)
    heights = _heights(sides["id"], sides["ht"])

    # Entries: players at a tournament, by date, then tournament, then player.
    use = np.tile(kept, 2)
    key = np.column_stack([both_days, np.tile(place, 2), sides["id"].to_numpy()])[use]
    _, first, entry = np.unique(key, axis=0, return_index=True, return_inverse=True)
    rows = np.flatnonzero(use)[first]  # a row of `sides` for each entry
    chosen = sides.iloc[rows]
    matches_52w, wins_52w = played.before(rows, YEAR_DAYS)
    matches_104w, wins_104w = on_surface.before(rows, SURFACE_DAYS)
    items = pd.DataFrame(
        {
            "item_id": np.arange(len(rows)),
            "player_id": chosen["id"].to_numpy(),
            "date": _iso(matches["tourney_date"].to_numpy()[rows % len(matches)]),
            "log_rank": np.log(chosen["rank"].to_numpy(float)).round(4),
            "log_points": np.log1p(chosen["rank_points"].to_numpy(float)).round(4),
            "age": chosen["age"].to_numpy(float).round(1),
            "height_cm": heights[rows],
            "height_known": chosen["ht"].notna().to_numpy().astype(int),
            "left_handed": (chosen["hand"] == "L").to_numpy().astype(int),
            "matches_52w": matches_52w,
            "win_rate_52w": _rate(wins_52w, matches_52w),
            "surface_matches_104w": matches_104w,
            "surface_win_rate_104w": _rate(wins_104w, matches_104w),
        }
    )
    for name in SURFACES:
        items[name] = (surface.to_numpy()[rows % len(matches)] == name).astype(int)
    winners, losers = entry.reshape(2, -1)
    used = matches[kept]
    duels = pd.DataFrame(
        {
            "winner": winners,
            "loser": losers,
            "date": _iso(used["tourney_date"].to_numpy()),
            "level": _levels(used),
            "round": used["round"].to_numpy(),
            "best_of": used["best_of"].to_numpy(),
            "retired": used["score"].str.contains(BROKEN_OFF).astype(int).to_numpy(),
        }
    )
    return {"items.csv.gz": items, "duels.csv.gz": duels}


class _Results:
    """Results of units (a player, or a player on a surface) by day, for sums over time.

    :param unit: (k,) a number for each result.
    :param day: (k,) when it was.
    :param won: (k,) 1 for a win.
    """

    def __init__(self, unit: IntArray, day: IntArray, won: IntArray) -> None:
        # One number per unit and day, larger for later days; two windows fit between two units.
        span = int(day.max() - day.min()) + 2 * SURFACE_DAYS if len(day) else 1
        self._moment = unit * span + day
        order = np.argsort(self._moment, kind="stable")
        self._sorted = self._moment[order]
        self._wins = np.concatenate([[0], np.cumsum(won[order])])

    def before(self, rows: IntArray, days: int) -> tuple[IntArray, IntArray]:
        """Results and wins of the units of some rows in so many days before, that day excluded."""
        moment = self._moment[rows]
        low = np.searchsorted(self._sorted, moment - days)
        high = np.searchsorted(self._sorted, moment)
        return high - low, self._wins[high] - self._wins[low]


def _played(score: Any) -> BoolArray:
    """Whether a score has any game and is not a walkover."""
    games = score.str.contains(r"\d").eq(True)
    return np.asarray(games & ~score.str.contains("W/O", case=False).eq(True), dtype=bool)


def _days(dates: Any) -> IntArray:
    """Dates such as 19910107 as days."""
    found = require_pandas().to_datetime(dates.astype(str), format="%Y%m%d")
    return np.asarray(found.to_numpy().astype("datetime64[D]").astype(np.int64))


def _iso(dates: IntArray) -> list[str]:
    return [f"{date // 10_000:04d}-{date // 100 % 100:02d}-{date % 100:02d}" for date in dates]


def _sides(matches: Any) -> Any:
    """One row per player and match: all winners, then all losers."""
    parts = [
        matches[[f"{side}_{name}" for name in _PLAYER]].set_axis(list(_PLAYER), axis=1)
        for side in ("winner", "loser")
    ]
    return require_pandas().concat(parts, ignore_index=True)


def _heights(players: Any, heights: Any) -> FloatArray:
    """Heights in cm; where missing the player's first known one, else the overall median."""
    own = heights.groupby(players).transform("first")
    return np.asarray(heights.fillna(own).fillna(heights.median()), dtype=np.float64)


def _rate(wins: IntArray, matches: IntArray) -> FloatArray:
    return np.asarray(((wins + 1) / (matches + 2)).round(4), dtype=np.float64)


def _levels(matches: Any) -> npt.NDArray[np.object_]:
    """The level, with Q for qualifying for anything above challengers."""
    qualifying = matches["round"].str.fullmatch(QUALIFYING).eq(True)
    levels = matches["tourney_level"].where(~qualifying | (matches["tourney_level"] == "C"), "Q")
    return np.asarray(levels, dtype=object)
