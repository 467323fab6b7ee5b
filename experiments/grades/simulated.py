"""Grades, ties and winners alone on simulated duels; and ties that are a coin or a margin.

    python experiments/grades/simulated.py OUT [--runs 60]

300 duels between 40 items, utilities from a known kernel, of which only the cuts are learned. All
errors are standard errors over runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

import sparse_prefgp as spg
from sparse_prefgp.support.plain import as_json_text

ITEMS, DUELS, NEW, LENGTHSCALE, CUTS = 40, 300, 2000, 1.0, (0.3, 1.2)
MARGIN, COIN, Z = 0.6, 0.3, 1.6448536269514722


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for run in range(given.runs):
        rows += [*graded(run), *tied(run, "margin"), *tied(run, "coin")]
        given.out.write_text(as_json_text({"summary": summary(rows), "paired": paired(rows)}))
    print(given.out.read_text())


class World:
    """Items, utilities, and duels with their noisy differences."""

    def __init__(self, run: int, study: int) -> None:
        rng = np.random.default_rng([study, run])
        self.rng, self.x = rng, rng.uniform(-1.5, 1.5, (ITEMS, 2))
        gap = ((self.x[:, None] - self.x) ** 2).sum(-1)
        root = np.linalg.cholesky(np.exp(-0.5 * gap / LENGTHSCALE**2) + 1e-9 * np.eye(ITEMS))
        self.f = root @ rng.normal(size=ITEMS)
        self.first, self.second, self.ahead = self.duels(DUELS)

    def duels(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs, and by how much the first is ahead, noise included."""
        every = np.tile(np.arange(ITEMS), (number, 1))
        first, second = self.rng.permuted(every, axis=1)[:, :2].T
        noise = self.rng.normal(size=number)
        return first, second, self.f[first] - self.f[second] + noise

    def model(self, duels: spg.Duels, likelihood: spg.Probit) -> spg.PreferenceGP:
        """The kernel that the utilities are of, held."""
        kernel = gpflow.kernels.SquaredExponential(lengthscales=LENGTHSCALE)
        gpflow.set_trainable(kernel, False)
        model = spg.PreferenceGP(duels, kernel, approximation=spg.Exact(), likelihood=likelihood)
        if model.trainable_variables:
            spg.optimise(model, max_iterations=30)
        elif likelihood.ties == "margin-only":
            from sparse_prefgp.learning.ties import fit_tie_margin

            fit_tie_margin(model)
        return model

    def figures(self, model: spg.PreferenceGP) -> dict[str, float]:
        """Error of the utilities, and coverage of differences by 90 % intervals."""
        mean = model.predict_f(self.x)[0].numpy()[:, 0]
        error = (mean - mean.mean()) - (self.f - self.f.mean())
        a, b = np.triu_indices(ITEMS, 1)
        m, v = (x.numpy() for x in model.predict_difference(self.x[a], self.x[b]))
        inside = np.abs(m - self.f[a] + self.f[b]) < Z * np.sqrt(v)
        return {"rmse": float(np.sqrt(np.mean(error**2))), "coverage": float(inside.mean())}


def graded(run: int) -> list[dict[str, Any]]:
    """Five grades, win, tie and loss, and winners alone of the same duels."""
    world = World(run, 0)
    levels = np.digitize(world.ahead, [-CUTS[1], -CUTS[0], CUTS[0], CUTS[1]]) - 2
    won = np.where(world.ahead > 0, world.first, world.second)
    lost = np.where(world.ahead > 0, world.second, world.first)
    sides = world.first, world.second
    fits = {
        "five grades": (spg.Duels(world.x, *sides, grades=levels), 0.5),
        "win, tie, loss": (spg.Duels(world.x, *sides, grades=np.sign(levels)), 0.5),
        "winner alone": (spg.Duels(world.x, won, lost), None),
    }
    rows = []
    for name, (duels, margin) in fits.items():
        model = world.model(duels, spg.Probit(margin=margin))
        heights = model.likelihood.heights
        cuts = [] if heights is None else heights.numpy().tolist()
        named = {f"cut {i + 1}": cut for i, cut in enumerate(cuts)}
        rows.append({"study": "grades", "model": name, **world.figures(model), **named})
    return rows


def tied(run: int, kind: str) -> list[dict[str, Any]]:
    """Ties by a margin or by a coin, and both models of them, scored on new duels."""
    world = World(run, 1 if kind == "margin" else 2)

    def outcomes(ahead: np.ndarray) -> np.ndarray:
        by_coin = world.rng.uniform(size=len(ahead)) < COIN
        return by_coin if kind == "coin" else np.abs(ahead) < MARGIN

    tie = outcomes(world.ahead)
    won = np.where(world.ahead > 0, world.first, world.second)
    lost = np.where(world.ahead > 0, world.second, world.first)
    first, second, ahead = world.duels(NEW)
    new = outcomes(ahead)
    rows = []
    for name in ("box", "margin-only"):
        duels = spg.Duels(world.x, won, lost, ties=tie)
        model = world.model(duels, spg.Probit(margin=0.5, ties=name))
        p = model.predict_outcome(world.x[first], world.x[second]).numpy()
        said = np.where(new, 1, np.where(ahead > 0, 0, 2))
        seen = p[np.arange(NEW), said]
        decided = seen[~new] / (p[~new, 0] + p[~new, 2])
        rows.append(
            {
                "study": f"ties by a {kind}",
                "model": name,
                **world.figures(model),
                "decided": float(-np.log(decided).mean()),
                "outcomes": float(-np.log(seen).mean()),
                "constant share": float(model.likelihood.tie_share is not None),
            }
        )
    return rows


def paired(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """First model less second, run by run."""
    found = []
    for study, first, second in (
        ("grades", "win, tie, loss", "five grades"),
        ("grades", "winner alone", "win, tie, loss"),
        ("ties by a margin", "box", "margin-only"),
        ("ties by a coin", "box", "margin-only"),
    ):
        a, b = (
            [r for r in rows if (r["study"], r["model"]) == (study, m)] for m in (first, second)
        )
        for name in ("rmse", "decided", "outcomes"):
            if name in a[0]:
                gap = np.array([x[name] - y[name] for x, y in zip(a, b, strict=True)])
                error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
                what = {"study": study, "first": first, "second": second, "figure": name}
                found.append({**what, "mean": gap.mean(), "error": error})
    return found


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means, standard deviations and standard errors over runs."""
    found = []
    for key in dict.fromkeys((row["study"], row["model"]) for row in rows):
        mine = [row for row in rows if (row["study"], row["model"]) == key]
        figures: dict[str, Any] = {"study": key[0], "model": key[1], "runs": len(mine)}
        for name in mine[0]:
            if name not in ("study", "model"):
                values = np.array([row[name] for row in mine])
                error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                figures[name] = {"mean": values.mean(), "sd": values.std(), "error": error}
        found.append(figures)
    return found


if __name__ == "__main__":
    main()
