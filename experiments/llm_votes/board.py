"""The leaderboard of the crowd's votes on held-out tasks, next to the rivals of `rivals.py`.

    python experiments/llm_votes/board.py DATA OUT [--splits 0 1 2 3 4]

DATA is the folder of the data sets. A board is made of `battles.csv`, as `sparse-prefgp datasets
llm_votes --out` writes it, without the held-out tasks; differences are paired, with errors over
tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from rivals import RIVALS, crowd, paired, predictions, scores, splits

import sparse_prefgp as spg
from sparse_prefgp.analysis.answers import read_answers
from sparse_prefgp.data.answers import TIE
from sparse_prefgp.support.plain import as_json_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, nargs="+", default=range(5))
    given = parser.parse_args()
    os.environ["SPARSE_PREFGP_DATA"] = str(given.data)
    battles = spg.datasets.llm_votes().battles
    battles = battles[battles["judge_kind"] == "crowd"].reset_index(drop=True)
    for side in "ab":  # which a board makes of its own battles, and held-out ones need too
        battles[f"no_length_{side}"] = (battles[f"length_{side}"] == 0.0).astype(int)
    votes, rows = crowd(given.data), []
    for seed, held in enumerate(splits(votes, max(given.splits) + 1)):
        if seed not in given.splits:
            continue
        begun, used = time.perf_counter(), time.process_time()
        board = spg.leaderboard(battles[~held], style=["length", "no_length"], category="prompt")
        took = time.perf_counter() - begun, time.process_time() - used
        outcomes, decided = board_scores(board.model, battles[held])
        row = {
            "split": seed,
            "decided": float(np.nanmean(decided)),
            "outcomes": float(outcomes.mean()),
            "seconds": took[0],
            "processor_seconds": took[1],
            "less": {
                rival: {
                    "outcomes": paired(outcomes, theirs[0], votes[held].task),
                    "decided": paired(decided, theirs[1], votes[held].task),
                }
                for rival, theirs in (
                    (name, scores(predictions(name, votes, held)[1], votes[held]))
                    for name in RIVALS
                )
            },
        }
        rows.append(json.loads(as_json_text(row)))
        print(json.dumps(rows[-1]), flush=True)
        given.out.write_text(as_json_text({"rows": rows}))


def board_scores(model: spg.PreferenceGP, held: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Nats of each held-out vote, as `rivals.scores` has them."""
    read = read_answers(model, "duels", held.reset_index(drop=True))
    log, tied = model.predict(read.events, read.items.inputs).log_p, read.events.kind == TIE
    if not np.array_equal(tied, held["winner"] == "tie"):
        raise AssertionError("The votes came back in another order.")
    outcomes = -np.where(tied, log[:, 1], log[:, 0])
    return outcomes, np.where(tied, np.nan, outcomes + np.logaddexp(log[:, 0], log[:, 2]))


if __name__ == "__main__":
    main()
