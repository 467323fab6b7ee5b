"""The package on the crowd's votes: side, noise, margin and lean of each judge, beside the rivals.

    python experiments/llm_votes/ours.py DATA OUT [--splits 5] [--iterations 40]

The splits and the rivals are those of `rivals.py`; differences are paired, with errors over tasks.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
from rivals import RIVALS, Votes, crowd, paired, predictions, scores, splits

import sparse_prefgp as spg
from sparse_prefgp.support.plain import as_json_text

# What each judge has of his own besides noise. The last is that of all three.
MODELS: dict[str, dict[str, Any]] = {
    "side; noise by judge": {},
    "side; noise and margin by judge": {"cuts_by_group": True},
    "side; noise, margin and lean by judge": {"cuts_by_group": True, "lean_by_group": "first"},
}
# Standard deviation of the log of a judge's scale of the margin, before anything is seen.
SCALE = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=40)
    given = parser.parse_args()
    votes = crowd(given.data)
    rows = []
    for seed, held in enumerate(splits(votes, given.splits)):
        test = votes[held]
        theirs = {name: scores(predictions(name, votes, held)[1], test) for name in RIVALS}
        for name, options in MODELS.items():
            log, report = fitted(votes, held, options, given.iterations)
            outcomes, decided = scores(log, test)
            row = {
                "split": seed,
                "model": name,
                "decided": float(np.nanmean(decided)),
                "outcomes": float(outcomes.mean()),
                "iterations": report.iterations,
                "log_evidence": report.log_evidence,
                "less": {
                    rival: {
                        "outcomes": paired(outcomes, of_all, test.task),
                        "decided": paired(decided, of_decided, test.task),
                    }
                    for rival, (of_all, of_decided) in theirs.items()
                },
            }
            rows.append(json.loads(as_json_text(row)))
            print(json.dumps(rows[-1]), flush=True)
            given.out.write_text(as_json_text({"rows": rows}))


def fitted(votes: Votes, held: np.ndarray, options: dict[str, Any], iterations: int) -> Any:
    """Log probabilities (n, 3) of the first, a tie, the second, of what is held out."""
    train, test, items = votes[~held], votes[held], np.eye(votes.models)
    second = train.outcome == 2
    duels = spg.Duels(
        items,
        np.where(second, train.second, train.first),
        np.where(second, train.first, train.second),
        ties=train.outcome == 1,
        groups=train.judge,
        covariates=np.where(second, -1.0, 1.0)[:, None],
        covariate_names=["first"],
    )
    model = spg.PreferenceGP(
        duels, gpflow.kernels.Linear(), margin=0.3, noise_by_group=True, **options
    )
    if model.cut_scale is not None:
        model.cut_scale.prior = type(model.cut_scale.prior)(np.float64(0.0), np.float64(SCALE))
    report = spg.optimise(model, max_iterations=iterations)
    log = []
    a, b, shown = items[test.first], items[test.second], np.ones((len(test.task), 1))
    there = model.predict_difference(a, b, shown, test.judge)
    back = model.predict_difference(b, a, -shown, test.judge)
    for method, moments in ((model.log_win, there), (model.log_tie, there), (model.log_win, back)):
        log.append(method(*moments, test.judge).numpy())
    return np.column_stack(log), report


if __name__ == "__main__":
    main()
