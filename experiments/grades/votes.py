"""Votes of a crowd on language models: noise of each judge, with one margin or one of his own.

    python experiments/grades/votes.py DATA OUT [--splits 5] [--iterations 60]

A fifth of the tasks (`pair_id`) is held out, by `default_rng(0)`, `default_rng(1)`, …
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.support.plain import as_json_text

# sd of the log of a judge's scale of the margin; None is one margin for all.
SCALES = (None, 0.5, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=60)
    given = parser.parse_args()
    folder = given.data / "llm_votes"
    votes = pd.read_csv(folder / "duels.csv.gz", keep_default_na=False)
    votes = votes[votes["judge_kind"] == "crowd"].reset_index(drop=True)
    items = pd.read_csv(folder / "items.csv.gz", keep_default_na=False).set_index("item_id")
    model_of = items["model"].to_numpy()
    rows = []
    for seed in range(given.splits):
        tasks = votes["pair_id"].unique()
        rng = np.random.default_rng(seed)
        held = set(rng.permutation(tasks)[: len(tasks) // 5])
        test = votes["pair_id"].isin(held).to_numpy()
        for sd in SCALES:
            rows.append({"split": seed, "sd": sd, **one(votes, model_of, test, sd, given)})
            print(as_json_text(rows[-1]), flush=True)
            given.out.write_text(as_json_text({"rows": rows}))


def sides(votes: pd.DataFrame, model_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each language model seen first or second is a row of its own: 2 * model + first."""
    first = votes["winner_first"].to_numpy()
    return (
        2 * model_of[votes["winner"].to_numpy()] + first,
        2 * model_of[votes["loser"].to_numpy()] + 1 - first,
    )


def one(votes: Any, model_of: np.ndarray, test: np.ndarray, sd: float | None, given: Any) -> Any:
    """Fit to the tasks that are not held out, and score the others."""
    n = int(model_of.max()) + 1
    inputs = np.zeros((2 * n, n + 1))  # which language model, and whether it was seen first
    inputs[np.arange(2 * n), np.arange(2 * n) // 2] = 1.0
    inputs[1::2, n] = 1.0
    won, lost = sides(votes, model_of)
    tied, judge = votes["tie"].to_numpy() == 1, votes["judge"].to_numpy()
    duels = spg.Duels(inputs, won[~test], lost[~test], ties=tied[~test], groups=judge[~test])
    kernel = gpflow.kernels.Linear(active_dims=range(n)) + gpflow.kernels.Linear(active_dims=[n])
    model = spg.PreferenceGP(
        duels,
        kernel,
        likelihood=spg.Probit(by="judge", margin=0.3, cuts_by="judge" if sd is not None else None),
    )
    scale = model.likelihood.cut_scale
    if scale is not None:
        scale.prior = type(scale.prior)(np.float64(0.0), np.float64(sd))
    report = spg.optimise(model, max_iterations=given.iterations)
    asked = Answers.between(won[test], lost[test], judge=Codes.of(judge[test].tolist()))
    forecast, ties = model.predict(asked, inputs), tied[test]
    three, decided = forecast.results, forecast.log_first[~ties]
    return {
        "decided": score(decided)["nlp_nats"],
        "outcomes": score(three, ties.astype(int), of="outcomes")["nlp_nats"],
        "duels": int(test.sum()),
        "log_evidence": report.log_evidence,
        "iterations": report.iterations,
        "margin": float(model.likelihood.margin.numpy()),
        "sd_of_log_scales": None if scale is None else float(np.std(np.log(scale.numpy()))),
    }


if __name__ == "__main__":
    main()
