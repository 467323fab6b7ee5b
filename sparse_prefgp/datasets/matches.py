"""From scores of international football to teams, matches, and duels between teams."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas

HIGHEST_GRADE = 3
_SCORES = ["home_score", "away_score"]


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """Teams in the order of their names, and one row for each match in the order of the file."""
    pd = require_pandas()
    (path,) = files.values()
    raw = pd.read_csv(path, keep_default_na=False)
    names = sorted({*raw["home_team"], *raw["away_team"]})
    number = {name: i for i, name in enumerate(names)}
    matches = pd.DataFrame(
        {
            "home": raw["home_team"].map(number),
            "away": raw["away_team"].map(number),
            **raw[_SCORES].astype(int),
            "date": raw["date"],
            "tournament": raw["tournament"],
            "neutral": (raw["neutral"].astype(str).str.upper() == "TRUE").astype(int),
        }
    )
    teams = pd.DataFrame({"item_id": range(len(names)), "team": names})
    return {"teams.csv": teams, "matches.csv.gz": matches}


def as_duels(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Items and duels, in which teams go by their names.

    The higher score wins; `grade` is by how many goals, 3 for three and more. A draw has `tie` 1
    and stands with the side named first as the winner, so called. `winner_home` and `loser_home`
    say who played at home: neither does on neutral ground.
    """
    teams, matches = tables["teams"], tables["matches"]
    name = teams.set_index("item_id")["team"]
    home, away = (name.loc[matches[side]].to_numpy() for side in ("home", "away"))
    lead = (matches["home_score"] - matches["away_score"]).to_numpy()
    won, at_home = lead >= 0, 1 - matches["neutral"].to_numpy()
    duels = require_pandas().DataFrame(
        {
            "winner": np.where(won, home, away),
            "loser": np.where(won, away, home),
            "tie": (lead == 0).astype(int),
            "date": matches["date"],
            "winner_home": np.where(won, at_home, 0),
            "loser_home": np.where(won, 0, at_home),
            "grade": np.minimum(np.abs(lead), HIGHEST_GRADE),
            "winner_score": matches[_SCORES].max(axis=1),
            "loser_score": matches[_SCORES].min(axis=1),
            "tournament": matches["tournament"],
        }
    )
    return {"items": teams[["team"]].set_axis(["item_id"], axis=1), "duels": duels}
