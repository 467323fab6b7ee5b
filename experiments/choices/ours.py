"""Linear utilities of choices in sets on two public surveys, next to a conditional logit.

    python experiments/choices/ours.py DATA [--out ours.json]

DATA as for `rivals.py`, with its columns and held-out people. Features are divided by their
standard deviation over the training rows and not centred; the prior of all weights is one normal,
whose variance is learned by the evidence of expectation propagation at 2 sigma² = 1. As many
inducing inputs as features span a linear kernel, so that nothing else is approximated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
from rivals import Survey, electricity, mode_canada
from scipy import optimize

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, Answers
from sparse_prefgp.support.plain import as_json_text

UNITS = {"electricity": "pf", "mode_canada": "cost"}


def duels_of(survey: Survey, x: np.ndarray, rows: np.ndarray) -> spg.Duels:
    """The choices of some rows, an event each."""
    table = survey.table[rows]
    order = np.lexsort((np.arange(len(table)), 1 - table["chosen"], table["choice_set"]))
    items, number = np.unique(x[rows][order], axis=0, return_inverse=True)
    _, size = np.unique(table["choice_set"].to_numpy()[order], return_counts=True)
    events = Answers(
        number.reshape(-1),
        np.append(0, np.cumsum(size)),
        kind=np.full(len(size), CHOICE, np.int8),
    )
    names = list(survey.columns["conditional logit"])
    return spg.Duels.from_events(items, events, feature_names=names)


def fitted(survey: Survey) -> tuple[spg.PreferenceGP, spg.Duels, np.ndarray]:
    """The model at the variance of the largest evidence, the held-out choices, and the scales."""
    x = np.column_stack(list(survey.columns["conditional logit"].values()))
    scale = x[~survey.held_out].std(0)
    train = duels_of(survey, x / scale, ~survey.held_out)
    test = duels_of(survey, x / scale, survey.held_out)
    model = spg.PreferenceGP(
        train,
        gpflow.kernels.Linear(variance=1.0),
        approximation=spg.DTC(),
        inducing_variable=np.eye(x.shape[1]),
        engine=spg.ParallelEP(tolerance=1e-10),
    )

    def loss(log_variance: float) -> float:
        model.kernel.variance.assign(np.exp(log_variance))
        return -float(model.log_evidence())

    found = optimize.minimize_scalar(loss, bracket=(-1.5, 0.0), tol=1e-8)
    model.kernel.variance.assign(np.exp(found.x))
    return model, test, scale


def held_out(model: spg.PreferenceGP, test: spg.Duels) -> tuple[float, float]:
    """Nats for each choice, by expectation propagation and by 4,096 points."""
    counts, (at, there) = test.events.counts, test.events.padded()
    places = test.events.sides[at]
    by_ep = model.predict(test.events, test.items).log_first
    by_points = np.concatenate(
        [
            model.predict_choice(test.items[p], t, method="points", points=4096).numpy()[:, 0]
            for p, t in zip(np.array_split(places, 8), np.array_split(there, 8), strict=True)
        ]
    )
    nats = (-float(counts @ logs) / counts.sum() for logs in (by_ep, np.log(by_points)))
    first, second = nats
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    for survey in (electricity(given.data), mode_canada(given.data)):
        model, test, scale = fitted(survey)
        unit = UNITS[survey.name]
        by_ep, by_points = held_out(model, test)
        found = {
            "variance": float(model.kernel.variance.numpy()),
            "log_evidence": float(model.log_evidence()),
            "sweeps": model.infer(restart=True).sweeps,
            "held_out_nats": by_ep,
            "held_out_nats_by_points": by_points,
        }
        figures[survey.name] = found
        print(
            f"{survey.name}: variance {found['variance']:.5f}, log evidence "
            f"{found['log_evidence']:.3f}, {found['sweeps']} sweeps; held out {by_ep:.4f} nats a "
            f"choice ({by_points:.4f} by points)"
        )
        # In standard deviations of the features, as both were fitted; then in raw units.
        logit = spg.conditional_logit(model.duels, ridge=0.0)
        both = [spg.worth(one, unit).frame.set_index("attribute") for one in (model, logit)]
        names = list(survey.columns["conditional logit"])
        by = {name: scale[names.index(unit)] / s for name, s in zip(names, scale, strict=True)}
        rows = []
        for name in both[0].index:
            cells = [
                [float(frame.loc[name, key]) * by[name] for key in ("worth", "lower", "upper")]
                for frame in both
            ]
            rows.append([name, *cells])
            ours, theirs = (f"{w:.3g} ({low:.3g} to {high:.3g})" for w, low, high in cells)
            print(f"  one more of {name} is worth {ours} in {unit}; conditional logit {theirs}")
        found["worth"] = rows
    if given.out is not None:
        given.out.write_text(as_json_text(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
