"""What a board of 140,000 battles costs: processor seconds of reading, fit and ranks, and memory.

    python experiments/leaderboard/size.py BOARDS [--parquet | --streamed] [--without-leans]

BOARDS is the folder with the simulator `boards.py`. Each judge has a noise, a margin and a lean to
the side. `--parquet` reads Parquet in place of CSV; `--streamed` fits in chunks of it, where models
are items with a column each.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.workflow.reporting import READING, Reporter


class Clock(Reporter):
    """Processor seconds of reading."""

    reading = 0.0

    @contextmanager
    def started(self, stage: str, about: Any = None) -> Iterator[None]:
        before = time.process_time()
        yield
        if stage == READING:
            self.reading += time.process_time() - before


def peak() -> float:
    """Of this process, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def written(said: argparse.Namespace, place: Path) -> dict[str, Any]:
    """What `spg.fit` takes of a simulated board that is written to a folder."""
    sys.path.insert(0, str(said.boards))
    from boards import board

    table, _ = board(0, battles=said.battles, models=said.models, judges=said.judges)
    if not said.streamed:
        path = place / f"battles.{'parquet' if said.parquet else 'csv'}"
        (table.to_parquet if said.parquet else table.to_csv)(path, index=False)
        return {"duels": path, "kernel": "item", "covariate": ["length"]}
    first = (table["winner"] != "model_b").to_numpy()
    ends = table["model_a"], table["model_b"]
    length = (table["length_a"] - table["length_b"]).to_numpy()
    rows = pd.DataFrame(
        {
            "winner": np.where(first, *ends),
            "loser": np.where(first, *ends[::-1]),
            "tie": (table["winner"] == "tie").astype(int),
            "judge": table["judge"],
            "side": np.where(first, 1.0, -1.0),
            "length": np.where(first, length, -length),
        }
    )
    rows.to_parquet(place / "battles.parquet", index=False)
    models = np.unique(np.concatenate(ends))
    columns = pd.DataFrame(np.eye(len(models)), columns=[f"is_{name}" for name in models])
    columns.insert(0, "item_id", models)
    return {
        "items": columns,
        "duels": place / "battles.parquet",
        "kernel": "linear",
        "approximation": "vfe",
        "covariate": ["side", "length"],
        "stream": True,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("boards", type=Path)
    parser.add_argument("--battles", type=int, default=140_000)
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--judges", type=int, default=2000)
    parser.add_argument("--parquet", action="store_true")
    parser.add_argument("--streamed", action="store_true")
    parser.add_argument("--without-leans", action="store_true")
    said = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(1) as pool:  # so that its memory is not counted
            given = pool.submit(written, said, Path(folder)).result()
        started = time.process_time()
        import gpflow  # noqa: F401

        imports, of_imports = time.process_time() - started, peak()
        clock, lean = Clock(), None if said.without_leans else "judge:side"
        fitted = spg.fit(**given, noise_by="judge", lean_by=lean, test_fraction=0.0, reporter=clock)
        fit = time.process_time() - started - imports - clock.reading
        ranked = time.process_time()
        spg.rank(fitted.model)
        ranks = time.process_time() - ranked
    whole = imports + clock.reading + fit + ranks
    print("| imports | reading | fit | ranks | in all | peak | of it after imports |")
    print("|---|---|---|---|---|---|---|")
    seconds = [f"{x:.1f} s" for x in (imports, clock.reading, fit, ranks, whole)]
    print("|", " | ".join([*seconds, f"{peak():.2f} GiB", f"{peak() - of_imports:.2f} GiB"]), "|")
    print(fitted.model, fitted.report, sep="\n")


if __name__ == "__main__":
    main()
