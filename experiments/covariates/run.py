"""Do intervals of coefficients and utilities hold the truth as often as they say?

    python experiments/covariates/run.py OUT [--runs 1000] [--first 0] [--learn 0]

Each run draws 30 items, 400 duels and six judges from the model: utilities from the Gaussian
process, coefficients of two covariates and the lean of each judge from their normal priors. The
length of an item follows one of its features, so that a model without that column takes length for
quality.
With hyperparameters at their true values, an interval of 90 % of the exact posterior holds the
truth in 90 of 100 runs. In the first `--learn` runs they are also learned with weak priors, and
integrated out, as users do, and once more learned without the prior of coefficients' variances.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

import sparse_prefgp as spg
from sparse_prefgp.support.plain import as_json_text

ITEMS, DUELS, JUDGES = 30, 400, 6
LENGTHSCALE, NOISE = 0.5, 0.5  # inputs are uniform in the unit square; sigma² per side
NAMES = ("shown_first", "length")
SDS, LEAN = (0.5, 0.5), 0.5  # prior standard deviations
Z90 = 1.6448536269514722
WITH, WITHOUT = "with the columns", "without"
KNOWN, LEARNED, INTEGRATED = "known", "learned", "integrated out"
NO_PRIOR = "learned, variances without prior"


def simulated(rng: np.random.Generator) -> dict[str, Any]:
    """Duels in the order in which their sides were shown, and the truth."""
    x = rng.uniform(size=(ITEMS, 2))
    kernel = gpflow.kernels.SquaredExponential(lengthscales=LENGTHSCALE)
    cov = kernel(x).numpy() + 1e-10 * np.eye(ITEMS)
    f = np.linalg.cholesky(cov) @ rng.standard_normal(ITEMS)
    length = 3.0 * x[:, 0] + rng.standard_normal(ITEMS)
    first = rng.integers(ITEMS, size=DUELS)
    second = (first + rng.integers(1, ITEMS, size=DUELS)) % ITEMS
    said = np.column_stack([np.ones(DUELS), length[first] - length[second]])
    judge = rng.integers(JUDGES, size=DUELS)
    beta = np.array(SDS) * rng.standard_normal(2)
    lean = LEAN * rng.standard_normal(JUDGES)
    lead = f[first] - f[second] + said @ beta + lean[judge] * said[:, 0]
    won = lead + np.sqrt(2.0 * NOISE) * rng.standard_normal(DUELS) > 0.0
    sign = np.where(won, 1.0, -1.0)
    return {
        "items": x,
        "winners": np.where(won, first, second),
        "losers": np.where(won, second, first),
        "covariates": sign[:, None] * said,
        "judge": judge,
        "f": f,
        "beta": beta,
        "lean": lean,
    }


def model_of(data: dict[str, Any], columns: bool) -> spg.PreferenceGP:
    """The model at the true hyperparameters."""
    more: dict[str, Any] = {}
    terms: list[spg.Term] = []
    if columns:
        more = {"covariates": data["covariates"], "covariate_names": NAMES}
        more["labels"] = {"judge": data["judge"]}
        terms = [spg.Coefficients(np.array(SDS) ** 2), spg.Lean(NAMES[0], variance=LEAN**2)]
    duels = spg.Duels(data["items"], data["winners"], data["losers"], **more)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=LENGTHSCALE)
    return spg.PreferenceGP(
        duels, kernel, approximation=spg.Exact(), terms=terms, noise_variance=NOISE
    )


def judged(model: spg.PreferenceGP, data: dict[str, Any]) -> dict[str, Any]:
    """Whether intervals hold the truth, and how far off the means are."""
    mean, covariance = model.predict_f(data["items"], full_cov=True)
    centre = np.eye(ITEMS) - 1.0 / ITEMS
    off = centre @ (mean.numpy()[:, 0] - data["f"])
    sd = np.sqrt(np.diag(centre @ covariance.numpy()[0] @ centre))
    found = {"utilities": np.mean(np.abs(off) < Z90 * sd), "rmse": np.sqrt(np.mean(off**2))}
    if model.duels.covariates is not None:
        said = model.coefficients()
        order = [int(label) for label in model.duels.label_names["judge"]]
        truth = np.concatenate([data["beta"], data["lean"][order]])
        error = said.mean - truth
        found["inside"] = np.abs(error) < Z90 * said.sd
        found["error"] = error
    return found


def table(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares and means over runs, with standard errors."""
    found: dict[str, Any] = {"runs": len(runs)}
    for name in ("utilities", "rmse"):
        values = np.array([run[name] for run in runs])
        found[name] = [values.mean(), values.std(ddof=1) / np.sqrt(len(values))]
    if "inside" in runs[0]:
        for j, name in enumerate((*NAMES, "lean")):
            part = slice(j, j + 1) if j < 2 else slice(2, None)
            inside = np.array([run["inside"][part].mean() for run in runs])
            error = np.array([run["error"][part].mean() for run in runs])
            root = np.sqrt(len(runs))
            found[name] = {
                "inside": [inside.mean(), inside.std(ddof=1) / root],
                "error": [error.mean(), error.std(ddof=1) / root],
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--learn", type=int, default=0)
    given = parser.parse_args()
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def note(arm: str, name: str, model: spg.PreferenceGP, data: dict[str, Any]) -> None:
        found.setdefault(arm, {}).setdefault(name, []).append(judged(model, data))

    for run in range(given.runs):
        data = simulated(np.random.default_rng(given.first + run))
        for name in (WITH, WITHOUT):
            model = model_of(data, name == WITH)
            model.infer()
            note(KNOWN, name, model, data)
            if run < given.learn:
                spg.default_priors(model)
                spg.optimise(model)
                note(LEARNED, name, model, data)
                note(INTEGRATED, name, spg.integrate(model), data)
        if run < given.learn:
            model = model_of(data, True)
            for term in model.terms:
                term.variance.prior = None
            spg.optimise(model)
            note(NO_PRIOR, WITH, model, data)
        if (run + 1) % 50 == 0 or run + 1 == given.runs:
            tables = {
                arm: {name: table(runs) for name, runs in by.items()} for arm, by in found.items()
            }
            given.out.write_text(as_json_text(json.loads(as_json_text(tables))))
            print(f"{run + 1} runs", flush=True)


if __name__ == "__main__":
    main()
