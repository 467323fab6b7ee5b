"""All tennis matches in chunks against 50,000 of them: what more duels bring, and what they take.

    python experiments/tennis_in_chunks/run.py DATA

Each row is a fit of its own process with the same kernel, inducing inputs and held-out matches, the
last 15 in 100 by date.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
PART = 50_000
ROWS = {
    "all": "all matches before",
    "latest": f"the {PART:,} last of them",
    "random": f"{PART:,} of them at random",
}
SPLIT = {"split": "time:date", "test_fraction": 0.15}


def fitted(data: Path, which: str, inducing: int, steps: int, polish: int) -> dict[str, Any]:
    """One fit in this process: scores, seconds, memory above that after imports."""
    import sparse_prefgp as spg
    from sparse_prefgp.data.splits import split_duels
    from sparse_prefgp.io import read_duels
    from sparse_prefgp.workflow.holdout import StreamHoldout, fit_model
    from sparse_prefgp.workflow.settings import FitSettings

    assert spg.StreamedGP is not None  # TensorFlow and GPflow are here
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plain = FitSettings(
        **SPLIT,
        kernel="linear+matern52",
        approximation="vfe",
        inducing=inducing,
        max_iterations=steps,
        stream=True,
        gradients=f"subset:{PART}",
        polish=polish,
    )
    (items,), (duels,) = (list(data.glob(f"{name}.csv*")) for name in ("items", "duels"))
    table = read_duels(items, duels, ignore=["player_id"], never_features=["date"])
    rng = np.random.default_rng(0)
    most = PART if which == "latest" else None
    split = split_duels(table, plain.split, plain.test_fraction, rng, max_train=most)
    if which == "random":
        rows = np.sort(rng.choice(split.train_rows, PART, replace=False))
        split = replace(split, train_rows=rows)
    holdout = StreamHoldout.of_table(table, plain, split)
    started = time.perf_counter()
    model, report = fit_model(holdout)
    seconds = time.perf_counter() - started
    assert holdout.test is not None
    chunks = [chunk.given for chunk in holdout.test.chunks(PART)]
    log_p = [model.predict(events, holdout.test.items).log_first for events in chunks]
    nats = -np.repeat(
        np.concatenate(log_p),
        np.concatenate([events.counts for events in chunks]).astype(int),
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "nats": nats.tolist(),
        "duels": holdout.train.num_duels,
        "accuracy": float(np.mean(nats < np.log(2.0))),
        "evidence": report.log_evidence / holdout.train.num_duels,
        "seconds": seconds,
        "memory": (peak - before) * 1024,
        "converged": report.inference.converged,
        "said": str(report),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of tennis_atp")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--inducing", type=int, default=256)
    parser.add_argument("--steps", type=int, default=60, help=f"on {PART:,} matches at most")
    parser.add_argument("--polish", type=int, default=20, help="exact steps on all of a row's")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--only", choices=list(ROWS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    numbers = (given.inducing, given.steps, given.polish)
    if given.only:
        print(json.dumps(fitted(given.data, given.only, *numbers)))
        return
    found = {}
    for which in given.rows:
        command = [sys.executable, __file__, str(given.data), "--only", which]
        for name, value in zip(("inducing", "steps", "polish"), numbers, strict=True):
            command += [f"--{name}", str(value)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[which] = json.loads(done.stdout.splitlines()[-1])
        print(ROWS[which], found[which]["said"], sep=": ", flush=True)
    first = np.array(found[given.rows[0]]["nats"])
    lines = []
    for which, row in found.items():
        nats = np.array(row["nats"])
        less = nats - first
        error = less.std(ddof=1) / np.sqrt(len(less))
        lines.append(
            {
                "trained on": ROWS[which],
                "duels": f"{row['duels']:,}",
                "evidence per duel": f"{row['evidence']:.4f}",
                "accuracy": f"{row['accuracy']:.4f}",
                "held-out nats": f"{nats.mean():.5f}",
                "less the first row": ""
                if which == given.rows[0]
                else f"{less.mean():.5f} ± {error:.5f}",
                "fit, s": f"{row['seconds']:.0f}",
                "memory, GiB": f"{row['memory'] / 2**30:.2f}",
            }
        )
    text = pd.DataFrame(lines).to_markdown(index=False, disable_numparse=True) + "\n"
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "table.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
