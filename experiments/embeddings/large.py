"""What commands cost with 200,000 items of 768 numbers, in a memory-mapped file, and 500,000 duels.

    python experiments/embeddings/large.py --folder out/large

Writes vectors and duels if they are not there, then runs `fit` and `rank` on the command line and
prints seconds, peak memory (Linux) and scores next to those of the true utilities. The items are
those of `synthetic.py`.
"""

import argparse
import json
import os
import resource
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

NOISE, WIDTH, CHUNK = 0.7, 768, 10_000


def write(folder: Path, items: int, duels: int) -> None:
    """Vectors, duels and true utilities."""
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(16, WIDTH)) / 4.0
    found = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (items, WIDTH))
    hidden = rng.normal(size=(items, 16))
    for start in range(0, items, CHUNK):
        part = hidden[start : start + CHUNK]
        found[start : start + CHUNK] = part @ basis + 0.3 * rng.normal(size=(len(part), WIDTH))
    found.flush()
    utility = np.tanh(1.5 * hidden[:, 0]) + 0.5 * hidden[:, 1] * hidden[:, 2] + 0.5 * hidden[:, 3]
    both = rng.integers(items, size=(duels, 2))
    both = both[both[:, 0] != both[:, 1]]
    order = np.argsort(utility[both] + NOISE * rng.normal(size=both.shape), axis=1)
    losers, winners = np.take_along_axis(both, order, axis=1).T
    pd.DataFrame({"winner": winners, "loser": losers}).to_csv(folder / "duels.csv", index=False)
    np.save(folder / "utility.npy", utility)


def run(words: list[str]) -> tuple[float, float]:
    """Seconds and peak GB of a command."""
    begun = time.perf_counter()
    child = subprocess.Popen(words)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} failed.")
    return time.perf_counter() - begun, usage.ru_maxrss * resource.getpagesize() / 4096 / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--duels", type=int, default=500_000)
    parser.add_argument("fit", nargs="*", help="more words for fit, after --")
    given = parser.parse_args()
    folder, model = given.folder, given.folder / "fitted"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "utility.npy").exists():
        write(folder, given.items, given.duels)
    vectors, duels = str(folder / "vectors.npy"), str(folder / "duels.csv")
    words = ["--embedding", vectors, "--duels", duels, "--split", "items", "--out", str(model)]
    seconds, peak = run(["sparse-prefgp", "fit", *words, "--overwrite", *given.fit])
    utility = np.load(folder / "utility.npy")
    found = json.loads((model / "metrics.json").read_text())["held_out"]
    ends = utility[pd.read_csv(duels).to_numpy()]
    true = -norm.logcdf((ends[:, 0] - ends[:, 1]) / (NOISE * np.sqrt(2.0))).mean()
    ours, probit = (found[name]["nlp_nats"] for name in ("model", "linear_probit"))
    print(
        f"fit: {seconds:.0f} s, peak {peak:.1f} GB; {ours:.4f} nats, linear probit {probit:.4f}, "
        f"the true utilities {true:.4f} on all duels"
    )
    out = folder / "ranking.csv"
    words = ["--model", str(model / "model"), "--embedding", vectors, "--out", str(out)]
    seconds, peak = run(["sparse-prefgp", "rank", *words])
    ranking = pd.read_csv(out)
    means = ranking.set_index("item_id").sort_index()["utility"].to_numpy()
    print(
        f"rank: {seconds:.0f} s, peak {peak:.1f} GB; correlation of "
        f"{len(ranking):,} means with the true utilities {np.corrcoef(means, utility)[0, 1]:.3f}"
    )


if __name__ == "__main__":
    main()
