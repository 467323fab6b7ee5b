"""What a default fit with dates makes of utilities that move in different ways.

50 items over 8 years, of which two thirds come in later, and about 4,000 duels, of which the last
fifth is held out. Utilities are in units of the noise of a duel.

    python experiments/time/defaults.py [--sets form climb] [--seeds 0 1 2]
    python experiments/time/defaults.py --data $SPARSE_PREFGP_DATA    # football and tennis too
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import sparse_prefgp as spg

ITEMS, YEARS, DUELS = 50, 8, 4000
GRID = np.linspace(0.0, YEARS, 365 * YEARS + 1)


def wiener(rng: np.random.Generator, rate: float) -> np.ndarray:
    """(ITEMS, days) of a process from 0 whose variance grows by the rate a year."""
    steps = rng.normal(size=(ITEMS, len(GRID))) * np.sqrt(rate * GRID[1])
    return np.cumsum(steps, 1)


def form(rng: np.random.Generator, variance: float, years: float) -> np.ndarray:
    """(ITEMS, days) that comes back to 0."""
    fading = np.exp(-GRID[1] / years)
    found = np.zeros((ITEMS, len(GRID)))
    found[:, 0] = rng.normal(size=ITEMS) * variance**0.5
    shocks = rng.normal(size=found.shape) * np.sqrt(variance * (1.0 - fading**2))
    for day in range(1, len(GRID)):
        found[:, day] = fading * found[:, day - 1] + shocks[:, day]
    return found


# By name, utilities (ITEMS, days) of a generator and the ages (ITEMS, days) of the items in years.
SETS: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "fast": lambda rng, age: rng.normal(size=(ITEMS, 1)) + wiener(rng, 2.0),
    "form": lambda rng, age: 1.5 * rng.normal(size=(ITEMS, 1)) + form(rng, 0.8, 0.25),
    "age": lambda rng, age: (
        rng.normal(size=(ITEMS, 1)) + 4 * np.exp(-0.5 * ((age - 2.5) / 1.5) ** 2)
    ),
    "climb": lambda rng, age: (
        rng.normal(size=(ITEMS, 1)) + 2.5 * np.log1p(np.maximum(age, 0.0)) + wiener(rng, 0.3)
    ),
    "static": lambda rng, age: 1.5 * rng.normal(size=(ITEMS, 1)) + 0.0 * age,
}


def drawn(name: str, seed: int) -> pd.DataFrame:
    """Duels in the order of their dates."""
    rng = np.random.default_rng(seed)
    later = rng.uniform(0, YEARS * 0.95, ITEMS)
    start = np.where(np.arange(ITEMS) < ITEMS // 3, 0.0, later)
    end = np.minimum(start + rng.uniform(2, YEARS, ITEMS), YEARS)
    times = np.sort(rng.uniform(0, YEARS, DUELS))
    utility = SETS[name](rng, GRID[None] - start[:, None])
    rows = []
    for when in times:
        there = np.flatnonzero((start <= when) & (end >= when))
        if len(there) < 2:
            continue
        i, j = rng.choice(there, 2, replace=False)
        day = min(int(when / GRID[1]), len(GRID) - 1)
        won = utility[i, day] - utility[j, day] + rng.normal() > 0
        rows.append((f"i{i}", f"i{j}", when) if won else (f"i{j}", f"i{i}", when))
    duels = pd.DataFrame(rows, columns=["winner", "loser", "date"])
    days = pd.to_timedelta(duels["date"] * 365.25, unit="D")
    duels["date"] = (pd.Timestamp("2000-01-01") + days).dt.strftime("%Y-%m-%d")
    return duels


def football(data: Path) -> pd.DataFrame:
    """Decided matches since 2008, with who played at home."""
    matches = pd.read_csv(data / "football_internationals" / "matches.csv.gz")
    matches = matches[(matches["date"] >= "2008") & (matches.home_score != matches.away_score)]
    won = matches.home_score > matches.away_score
    at_home = 1 - matches["neutral"]
    return pd.DataFrame(
        {
            "winner": np.where(won, matches["home"], matches["away"]),
            "loser": np.where(won, matches["away"], matches["home"]),
            "date": matches["date"],
            "winner_home": np.where(won, at_home, 0),
            "loser_home": np.where(won, 0, at_home),
        }
    )


def tennis(data: Path, points: bool) -> pd.DataFrame:
    """The tour since 2016 between players, with the logarithms of their points or without."""
    items = pd.read_csv(data / "tennis_atp" / "items.csv.gz", index_col="item_id")
    duels = pd.read_csv(data / "tennis_atp" / "duels.csv.gz")
    duels = duels[duels["level"].isin(list("ADFGMO")) & (duels["date"] >= "2016")]
    sides = {side: items.loc[duels[side]] for side in ("winner", "loser")}
    table = {side: "p" + of["player_id"].astype(str).to_numpy() for side, of in sides.items()}
    table["date"] = duels["date"].to_numpy()
    if points:
        table |= {f"{side}_points": of["log_points"].to_numpy() for side, of in sides.items()}
    return pd.DataFrame(table)


def tables(given: argparse.Namespace) -> Iterator[tuple[str, pd.DataFrame, dict[str, object]]]:
    for name in given.sets:
        for seed in given.seeds:
            yield f"{name} {seed}", drawn(name, seed), {}
    if given.data is not None:
        yield "football since 2008", football(given.data), {"covariate": ["home"]}
        yield "tennis without points", tennis(given.data, points=False), {}
        yield "tennis with points", tennis(given.data, points=True), {"covariate": ["points"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--data", type=Path, help="the folder of the data sets")
    parser.add_argument("--kernel", help="in place of the default")
    given = parser.parse_args()
    for name, table, options in tables(given):
        table = table.sort_values("date", kind="stable").reset_index(drop=True)
        table["later"] = (table["date"] > table["date"][int(0.8 * len(table))]).astype(int)
        begun = time.process_time()
        found = spg.fit(
            duels=table, time="date", split="given:later", kernel=given.kernel, **options
        )
        used, told = time.process_time() - begun, found.figures["in_time"]
        scores = {who: round(score["nlp_nats"], 4) for who, score in found.scores.items()}
        entry = told.get("entry_level", {})
        print(f"{name}: {told['kernel']} on {told['learned_on']}, {used:.0f} s of processor time")
        print(f"  evidence {found.figures['fit']['log_evidence']:.1f}; {scores}")
        print(f"  kernels {told.get('kernels')}; entry level {entry}", flush=True)


if __name__ == "__main__":
    main()
