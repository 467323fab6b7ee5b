"""Players' states at tournaments by loops over all matches, one player and tournament at a time."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

SURFACES = ("hard", "clay", "grass", "carpet")


def day(number: int) -> int:
    """19910107 as days."""
    return date(number // 10_000, number // 100 % 100, number % 100).toordinal()


def record(
    matches: list[dict[str, Any]], player: int, before: int, days: int, surface: str | None
) -> tuple[int, int]:
    """Played matches and wins of a player in so many days before a day, which is excluded."""
    played = wins = 0
    for match in matches:
        when = day(match["tourney_date"])
        if not before - days <= when < before:
            continue
        if surface is not None and match["surface"] != surface:
            continue
        wins += match["winner_id"] == player
        played += player in (match["winner_id"], match["loser_id"])
    return played, wins


def tidy(matches: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[tuple[Any, Any]]]:
    """Items in no order, and duels as pairs of (date, tournament, player), in no order.

    Matches here were all played; ages, points and rankings that are missing are NaN.
    """
    kept = [
        match
        for match in matches
        if match["tourney_date"] >= 19910101
        and str(match["surface"]).lower() in SURFACES
        and not any(
            math.isnan(match[f"{side}_{name}"])
            for side in ("winner", "loser")
            for name in ("age", "rank", "rank_points")
        )
    ]
    items: dict[Any, dict[str, Any]] = {}
    duels = []
    for match in kept:
        ends = []
        for side in ("winner", "loser"):
            player, when = match[f"{side}_id"], day(match["tourney_date"])
            key = (match["tourney_date"], match["tourney_id"], player)
            ends.append(key)
            if key in items:
                continue
            played, wins = record(matches, player, when, 364, None)
            here, won = record(matches, player, when, 728, match["surface"])
            items[key] = {
                "key": key,
                "log_rank": round(math.log(match[f"{side}_rank"]), 4),
                "log_points": round(math.log(1 + match[f"{side}_rank_points"]), 4),
                "matches_52w": played,
                "win_rate_52w": round((wins + 1) / (played + 2), 4),
                "surface_matches_104w": here,
                "surface_win_rate_104w": round((won + 1) / (here + 2), 4),
                "surface": match["surface"].lower(),
            }
        duels.append((ends[0], ends[1]))
    return list(items.values()), duels
