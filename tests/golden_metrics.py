"""`metrics.json` of a dozen kinds of fit: no key goes, and values stay what they were.

`python -m tests.golden_metrics` writes `tests/golden` anew; what a change adds is
named in its commit.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sparse_prefgp as spg

GOLDEN = Path(__file__).parent / "golden"
# Of a run and a machine, not of a fit.
PASSING = ("seconds", "version", "memory", "threads", "python", "platform", "machine", "started")
ITEMS, ANSWERS = 24, 240


@lru_cache
def world() -> tuple[pd.DataFrame, np.ndarray]:
    """Items of two numbers and a kind, and their utilities."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, ITEMS))
    items = pd.DataFrame({"item_id": [f"i{k:02d}" for k in range(ITEMS)], "x": x, "y": y})
    items["kind"] = rng.choice(["red", "blue"], ITEMS)
    return items, np.sin(2.0 * x) + 0.5 * y + 0.3 * (items["kind"] == "red").to_numpy()


def duels(seed: int = 1) -> pd.DataFrame:
    """Duels with all that may be said; `level` is by how much the winner is better."""
    items, utility = world()
    rng = np.random.default_rng(seed)
    first = rng.integers(0, ITEMS, ANSWERS)
    second = (first + rng.integers(1, ITEMS, ANSWERS)) % ITEMS
    judge, person = rng.integers(0, 6, ANSWERS), rng.integers(0, 12, ANSWERS)
    home = rng.choice([0.0, 1.0], ANSWERS)
    taste = (
        np.random.default_rng(3).normal(size=12)[person] * items["x"].to_numpy()[[first, second]]
    )
    ahead = utility[first] - utility[second] + 0.4 * home + 0.5 * (taste[0] - taste[1])
    ahead += (0.3 + 0.2 * judge) * rng.normal(size=ANSWERS)
    name = items["item_id"].to_numpy()
    winner, loser = (np.where(ahead > 0.0, *pair) for pair in ((first, second), (second, first)))
    table = pd.DataFrame({"winner": name[winner], "loser": name[loser]})
    table["winner_home"] = np.where(ahead > 0.0, home, 0.0)
    table["loser_home"] = np.where(ahead > 0.0, 0.0, home)
    table["judge"], table["who"] = [f"j{k}" for k in judge], [f"p{k}" for k in person]
    table["tie"] = (np.abs(ahead) < 0.25).astype(int)
    table["level"] = np.select([np.abs(ahead) < 0.6, np.abs(ahead) < 1.4], [1, 2], 3)
    table["date"] = [f"2024-{1 + k // 40:02d}-{1 + k % 28:02d}" for k in range(ANSWERS)]
    table["weight"] = rng.choice([0.5, 1.0, 2.0], ANSWERS)
    return table


def rankings(of: int = 4) -> pd.DataFrame:
    """Rankings of sets of items."""
    items, utility = world()
    rng = np.random.default_rng(2)
    sets = np.stack([rng.permutation(ITEMS)[:of] for _ in range(ANSWERS)])
    order = np.argsort(-(utility[sets] + rng.gumbel(size=sets.shape) * 0.5), 1)
    ranked = items["item_id"].to_numpy()[np.take_along_axis(sets, order, 1)]
    return pd.DataFrame(ranked, columns=[f"rank_{k + 1}" for k in range(of)])


def as_choices(ranked: pd.DataFrame) -> pd.DataFrame:
    """The best of each set, of which the others come in another order."""
    options = ranked.iloc[:, [2, 0, 3, 1]].set_axis([f"option_{k}" for k in range(1, 5)], axis=1)
    return options.assign(chosen=ranked["rank_1"], who=[f"p{k % 12}" for k in range(len(ranked))])


PLAIN = ["winner", "loser"]
KINDS: dict[str, Any] = {
    "duels": lambda: dict(duels=duels()[PLAIN]),
    "players": lambda: dict(items=None, duels=duels()[PLAIN]),
    "exact": lambda: dict(duels=duels()[PLAIN], approximation="exact", split="items"),
    "ties": lambda: dict(duels=duels()[[*PLAIN, "tie"]]),
    "grades": lambda: dict(
        duels=duels()[[*PLAIN, "level"]], grade="level", grades=["1", "2", "3"], kernel="linear"
    ),
    "judges": lambda: dict(
        duels=duels()[[*PLAIN, "judge", "winner_home", "loser_home"]],
        noise_by="judge",
        covariate=["home"],
        lean_by="judge",
    ),
    "people": lambda: dict(duels=duels()[[*PLAIN, "who"]], person="who", kernel="linear"),
    "new_people": lambda: dict(
        duels=duels()[[*PLAIN, "who"]], person="who", split="group:who", taste="se", kernel="linear"
    ),
    "dates": lambda: dict(items=None, duels=duels()[[*PLAIN, "date"]], time="date"),
    "weights": lambda: dict(duels=duels()[[*PLAIN, "weight"]], weight="weight", refit=True),
    "choices": lambda: dict(choices=as_choices(rankings())),
    "rankings": lambda: dict(rankings=rankings()),
    "streamed": lambda: dict(duels=duels()[PLAIN], stream=True, chunk=10_000),
}
QUICK = ("duels",)


def figures_of(kind: str) -> dict[str, Any]:
    """What `metrics.json` of a small fit holds, but for what passes."""
    given: dict[str, Any] = {"items": world()[0], "max_iterations": 4, "seed": 0} | KINDS[kind]()
    with tempfile.TemporaryDirectory() as folder:
        if given.get("stream"):
            given["duels"].to_parquet(f"{folder}/duels.parquet", index=False)
            given["duels"] = f"{folder}/duels.parquet"
        spg.fit(out=f"{folder}/fit", **given)
        found: dict[str, Any] = json.loads(Path(folder, "fit", "metrics.json").read_text())
    return {key: value for key, value in found.items() if not _passes(key)}


def _passes(key: str) -> bool:
    return any(word in key for word in PASSING)


def differences(found: Any, golden: Any, at: str = "") -> Iterator[str]:
    """Where something is gone, or another value; keys may be added."""
    if isinstance(golden, dict):
        for key in golden:
            if _passes(key):
                continue
            if not isinstance(found, dict) or key not in found:
                yield f"{at}.{key} is gone"
            else:
                yield from differences(found[key], golden[key], f"{at}.{key}")
    elif isinstance(golden, list) and isinstance(found, list) and len(found) == len(golden):
        for k, (one, other) in enumerate(zip(found, golden, strict=True)):
            yield from differences(one, other, f"{at}[{k}]")
    elif isinstance(golden, float) and isinstance(found, int | float):
        if not (found == golden or math.isclose(found, golden, rel_tol=1e-6, abs_tol=1e-9)):
            yield f"{at} is {found}, and was {golden}"
    elif found != golden:
        yield f"{at} is {found!r}, and was {golden!r}"


if __name__ == "__main__":
    import sys

    for name in sys.argv[1:] or KINDS:
        text = json.dumps(figures_of(name), indent=1)
        (GOLDEN / f"{name}.json").write_text(text + "\n")
        print(name, len(text), flush=True)
