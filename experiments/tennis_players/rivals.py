"""Bradley-Terry and Elo by player on the matches that the command of the README holds out.

    python experiments/tennis_players/rivals.py DATA OUT

Strengths of Bradley-Terry have a normal prior of precision 2. Elo (1978, "The rating of
chessplayers") begins at 0 and moves by K = 32 points of 400 / log(10) a nat.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit, log_expit

HELD_OUT, TRAIN, PRECISION, STEP = 0.15, 4000, 2.0, 32.0
SCALE = 400.0 / np.log(10.0)


def matches(data: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Winner and loser of each match by player (t,), earliest first, and which are held out."""
    folder = data / "tennis_atp"
    duels = pd.read_csv(folder / "duels.csv.gz").sort_values("date", kind="stable")
    items = pd.read_csv(folder / "items.csv.gz", usecols=["item_id", "player_id"])
    player = items.set_index("item_id")["player_id"]
    names = np.stack([player.loc[duels[side]].to_numpy() for side in ("winner", "loser")])
    number = np.unique(names, return_inverse=True)[1].reshape(2, -1)
    dates = duels["date"].to_numpy()
    first = dates[round((1.0 - HELD_OUT) * len(dates))]  # the cut falls between dates
    return number[0], number[1], dates >= first


def bradley_terry(won: np.ndarray, lost: np.ndarray, players: int) -> np.ndarray:
    """The most probable strengths, (players,)."""

    def loss(s: np.ndarray) -> tuple[float, np.ndarray]:
        lead = s[won] - s[lost]
        off = expit(-lead)
        slope = np.bincount(lost, off, players) - np.bincount(won, off, players)
        value = -log_expit(lead).sum() + 0.5 * PRECISION * s @ s
        return float(value), slope + PRECISION * s

    return np.asarray(minimize(loss, np.zeros(players), jac=True, method="L-BFGS-B").x)


def elo(won: np.ndarray, lost: np.ndarray, players: int) -> tuple[np.ndarray, np.ndarray]:
    """By how much the winner led before each match (t,), and ratings after the last, in nats."""
    rating, lead = np.zeros(players), np.empty(len(won))
    for i, (a, b) in enumerate(zip(won.tolist(), lost.tolist(), strict=True)):
        lead[i] = rating[a] - rating[b]
        step = STEP / SCALE * expit(-lead[i])
        rating[a] += step
        rating[b] -= step
    return lead, rating


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    won, lost, held = matches(given.data)
    players, earlier = int(max(won.max(), lost.max())) + 1, np.flatnonzero(~held)
    ahead, rating = elo(won, lost, players)
    rating = elo(won[earlier], lost[earlier], players)[1]
    strengths = {
        f"Bradley-Terry, {len(rows):,} matches": bradley_terry(won[rows], lost[rows], players)
        for rows in (earlier[-TRAIN:], earlier)
    }
    strengths["Elo, held during the test"] = rating
    leads = {name: s[won[held]] - s[lost[held]] for name, s in strengths.items()}
    leads["Elo, learning as it goes"] = ahead[held]
    found = {
        name: {
            "accuracy": float(np.mean((lead > 0.0) + 0.5 * (lead == 0.0))),
            "nats": float(-log_expit(lead).mean()),
        }
        for name, lead in leads.items()
    }
    given.out.write_text(json.dumps({"matches": int(held.sum()), "rivals": found}, indent=1))
    print(given.out.read_text())


if __name__ == "__main__":
    main()
