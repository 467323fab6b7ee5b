"""Internationals since 2006, the last 30 % held out: grades of the goal difference, win, draw and
loss, and decided matches alone.

    python experiments/grades/football.py DATA OUT [--iterations 40]

Teams have independent effects, the home side an advantage (none on neutral ground).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score, score_outcomes
from sparse_prefgp.support.plain import as_json_text

# Largest level of the goal difference: 3 is "by three or more"; 0 ignores draws.
LEVELS = (0, 1, 2, 3, 5)
SINCE, HELD_OUT = "2006", 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--iterations", type=int, default=40)
    given = parser.parse_args()
    matches = pd.read_csv(given.data / "football_internationals" / "matches.csv.gz")
    matches = matches[matches["date"] >= SINCE].sort_values("date", kind="stable")
    matches = matches.dropna(subset=["home_score", "away_score"])
    dates = matches["date"].to_numpy()
    first = dates[round((1.0 - HELD_OUT) * len(dates))]  # the cut falls between dates
    test = dates >= first
    rows: list[dict[str, Any]] = []
    nats: dict[int, np.ndarray] = {}
    for largest in LEVELS:
        figures, nats[largest] = one(matches, test, largest, given)
        rows.append({"levels": largest, "first": first, **figures})
        if largest > 1:  # by how much it is better than win, draw and loss, match by match
            gain = nats[1] - nats[largest]
            error = gain.std(ddof=1) / np.sqrt(len(gain))
            rows[-1]["gain"] = {"mean": float(gain.mean()), "error": float(error)}
        print(as_json_text(rows[-1]), flush=True)
        given.out.write_text(as_json_text({"rows": rows}))


def one(
    matches: Any, test: np.ndarray, largest: int, given: Any
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit with grades up to a level, and score win, draw and loss of the last matches, with the
    nats of each."""
    home, away = matches["home"].to_numpy(), matches["away"].to_numpy()
    teams, number = np.unique(np.concatenate([home, away]), return_inverse=True)
    n, t = len(teams), len(matches)
    at_home = 1 - matches["neutral"].to_numpy()
    inputs = np.zeros((2 * n, n + 1))
    inputs[np.arange(2 * n), np.arange(2 * n) % n] = 1.0
    inputs[n:, n] = 1.0  # the second n rows are the teams at home
    one_side, other = number[:t] + n * at_home, number[t:]
    goals = (matches["home_score"] - matches["away_score"]).to_numpy().astype(int)
    grade = np.clip(goals, -largest, largest)
    train = ~test if largest else ~test & (goals != 0)
    if largest:
        said: dict[str, Any] = {"grades": grade[train]}
        sides = one_side[train], other[train]
    else:
        won = goals[train] > 0
        both = np.stack([one_side[train], other[train]], 1)
        sides, said = tuple(np.where(won[:, None], both, both[:, ::-1]).T), {}
    duels = spg.Duels(inputs, *sides, **said)
    kernel = gpflow.kernels.Linear(active_dims=range(n)) + gpflow.kernels.Linear(active_dims=[n])
    model = spg.PreferenceGP(
        duels, kernel, margin=0.3 if largest else None, approximation=spg.Exact()
    )
    report = spg.optimise(model, max_iterations=given.iterations)
    moments = model.predict_difference(inputs[one_side[test]], inputs[other[test]])
    mean, variance = moments
    won, lost = model.log_win(mean, variance).numpy(), model.log_win(-mean, variance).numpy()
    if largest:
        tied = model.log_tie(mean, variance).numpy()
    else:  # the share of draws in training
        share = float(np.mean(goals[~test] == 0))
        tied = np.full(len(won), np.log(share))
        won, lost = won + np.log1p(-share), lost + np.log1p(-share)
    outcome = goals[test]
    turned = outcome < 0
    three = np.column_stack([np.where(turned, lost, won), tied, np.where(turned, won, lost)])
    decided = (three[:, 0] - np.logaddexp(three[:, 0], three[:, 2]))[outcome != 0]
    scores = score_outcomes(three, outcome == 0)
    figures = {
        "train": int(train.sum()),
        "test": int(test.sum()),
        "outcomes": scores["nlp_nats"],
        "accuracy": scores["accuracy"],
        "tie_calibration_error": scores["tie_calibration_error"],
        "decided": score(log_probabilities=decided)["nlp_nats"],
        "cuts": None if model.cuts is None else model.cuts.numpy().tolist(),
        "variances": [float(np.mean(k.variance.numpy())) for k in kernel.kernels],
        "iterations": report.iterations,
        "seconds": report.seconds,
    }
    return figures, -three[np.arange(len(three)), np.where(outcome == 0, 1, 0)]


if __name__ == "__main__":
    main()
