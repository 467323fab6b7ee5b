"""Internationals since 2006, the last 30 % held out: grades of the goal difference, win, draw and
loss, and decided matches alone.

    python experiments/grades/football.py DATA OUT [--iterations 60]

Teams have independent effects; home is a covariate: 1 for the team at home, 0 on neutral ground.
Next to them Davidson's model with home (Davidson 1970, "On extending the Bradley-Terry model to
accommodate ties in paired comparison experiments"), by SciPy, whose normal prior of strengths the
last fifth of the training matches chooses.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import logsumexp

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score
from sparse_prefgp.models.questions import forecast_of
from sparse_prefgp.support.plain import as_json_text

# Largest level of the goal difference: 3 is "by three or more"; 0 ignores draws.
LEVELS = (0, 1, 2, 3, 5)
SINCE, HELD_OUT = "2006", 0.3
DAVIDSON_SDS = (0.5, 1.0, 2.0, 4.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--iterations", type=int, default=60)
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
    log, sd = davidson(matches, test)
    outcome = (matches["home_score"] - matches["away_score"]).to_numpy()[test]
    turned = np.where(outcome[:, None] < 0, log[:, ::-1], log)
    decided = (turned[:, 0] - np.logaddexp(turned[:, 0], turned[:, 2]))[outcome != 0]
    theirs = -turned[np.arange(len(log)), np.where(outcome == 0, 1, 0)]
    gain = theirs - nats[1]
    row = {
        "model": "Davidson with home",
        "sd": sd,
        "outcomes": float(theirs.mean()),
        "decided": float(-decided.mean()),
        "above win, draw and loss": {
            "mean": float(gain.mean()),
            "error": float(gain.std(ddof=1) / np.sqrt(len(gain))),
        },
    }
    print(as_json_text(row), flush=True)
    given.out.write_text(as_json_text({"rows": [*rows, row]}))


def davidson(matches: Any, test: np.ndarray) -> tuple[np.ndarray, float]:
    """Log probabilities (n, 3) that the home side wins, draws, loses the test matches, and the
    standard deviation of strengths that was chosen."""
    names = np.concatenate([matches["home"], matches["away"]])
    number = np.unique(names, return_inverse=True)[1].reshape(2, -1)
    teams, at_home = int(number.max()) + 1, 1.0 - matches["neutral"].to_numpy()
    goals = (matches["home_score"] - matches["away_score"]).to_numpy()
    place = np.where(goals > 0, 0, np.where(goals == 0, 1, 2))

    def logs(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        lead = x[number[0, rows]] - x[number[1, rows]] + x[teams] * at_home[rows]
        logits = np.column_stack([lead / 2, np.full(len(lead), x[teams + 1]), -lead / 2])
        return np.asarray(logits - logsumexp(logits, axis=1, keepdims=True))

    def fitted(rows: np.ndarray, sd: float) -> np.ndarray:
        precision = np.append(np.full(teams, sd**-2.0), [0.0, 0.0])

        def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
            log = logs(x, rows)
            off = np.exp(log)
            off[np.arange(len(log)), place[rows]] -= 1.0
            lead = (off[:, 0] - off[:, 2]) / 2
            slope = np.bincount(number[0, rows], lead, teams)
            slope -= np.bincount(number[1, rows], lead, teams)
            slope = np.append(slope, [lead @ at_home[rows], off[:, 1].sum()])
            value = -log[np.arange(len(log)), place[rows]].sum() + 0.5 * precision @ x**2
            return float(value), slope + precision * x

        found = minimize(loss, np.zeros(teams + 2), jac=True, method="L-BFGS-B")
        return np.asarray(found.x)

    train = np.flatnonzero(~test)
    early, late = np.split(train, [4 * len(train) // 5])

    def held_out(sd: float) -> float:
        return float(-logs(fitted(early, sd), late)[np.arange(len(late)), place[late]].mean())

    sd = min(DAVIDSON_SDS, key=held_out)
    return logs(fitted(train, sd), np.flatnonzero(test)), sd


def one(
    matches: Any, test: np.ndarray, largest: int, given: Any
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit with grades up to a level, and score win, draw and loss of the last matches, with the
    nats of each."""
    home, away = matches["home"].to_numpy(), matches["away"].to_numpy()
    teams, number = np.unique(np.concatenate([home, away]), return_inverse=True)
    inputs, t = np.eye(len(teams)), len(matches)
    at_home = 1.0 - matches["neutral"].to_numpy()[:, None]
    one_side, other = number[:t], number[t:]
    goals = (matches["home_score"] - matches["away_score"]).to_numpy().astype(int)
    grade = np.clip(goals, -largest, largest)
    train = ~test if largest else ~test & (goals != 0)
    if largest:
        said: dict[str, Any] = {"grades": grade[train], "covariates": at_home[train]}
        sides = one_side[train], other[train]
    else:
        won = (goals[train] > 0)[:, None]
        both = np.stack([one_side[train], other[train]], 1)
        sides = tuple(np.where(won, both, both[:, ::-1]).T)
        said = {"covariates": np.where(won, at_home[train], -at_home[train])}
    duels = spg.Duels(inputs, *sides, covariate_names=["home"], **said)
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.Linear(),
        likelihood=spg.Probit(margin=0.3 if largest else None),
        approximation=spg.Exact(),
    )
    report = spg.optimise(model, max_iterations=given.iterations)
    mean, variance = model.predict_difference(
        inputs[one_side[test]], inputs[other[test]], at_home[test]
    )
    won, tied, lost = forecast_of(model, mean, variance).results.T
    if not largest:  # the share of draws in training
        share = float(np.mean(goals[~test] == 0))
        tied = np.full(len(won), np.log(share))
        won, lost = won + np.log1p(-share), lost + np.log1p(-share)
    outcome = goals[test]
    turned = outcome < 0
    three = np.column_stack([np.where(turned, lost, won), tied, np.where(turned, won, lost)])
    decided = (three[:, 0] - np.logaddexp(three[:, 0], three[:, 2]))[outcome != 0]
    scores = score(three, (outcome == 0).astype(int), of="outcomes")
    figures = {
        "train": int(train.sum()),
        "test": int(test.sum()),
        "outcomes": scores["nlp_nats"],
        "accuracy": scores["accuracy"],
        "tie_calibration_error": scores["tie_calibration_error"],
        "decided": score(decided)["nlp_nats"],
        "cuts": None
        if model.likelihood.heights is None
        else model.likelihood.heights.numpy().tolist(),
        "variance": float(np.mean(model.kernel.variance.numpy())),
        "home": model.coefficients().table().rows[0],
        "iterations": report.iterations,
        "seconds": report.seconds,
    }
    return figures, -three[np.arange(len(three)), np.where(outcome == 0, 1, 0)]


if __name__ == "__main__":
    main()
