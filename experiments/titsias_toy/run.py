"""Titsias' tables on Snelson's data: ordinary regression through the code that fits duels.

python experiments/titsias_toy/run.py
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.reference.regression import RegressionGP

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PUBLISHED = ROOT / "tests" / "data" / "titsias2008_toy.json"
DATA = Path(os.environ.get("SPARSE_PREFGP_DATA", ROOT.parent / "shared" / "data"))
LABELS = {
    "full_gp": "full GP",
    "variational": "variational",
    "projected_process": "projected process",
    "fitc": "FITC",
}
PARAMETERS = ("lengthscale_squared", "variance", "noise_variance")
FIGURES = (*PARAMETERS, "log_evidence")
RESTARTS, SEED, MAX_ITERATIONS = 10, 0, 3000
SAME = 0.002  # nats: two restarts, or a restart and a table, that ended in one place


@dataclass(frozen=True, eq=False)
class Fit:
    """Where one optimisation ended; evidence in nats."""

    lengthscale_squared: float
    variance: float
    noise_variance: float
    log_evidence: float
    model: RegressionGP


@dataclass(frozen=True, eq=False)
class Line:
    """A line of the tables: what was published and what all restarts gave."""

    row: str
    points: int
    """200 or 20."""
    m: int
    """Inducing inputs, 0 for the full GP."""
    published: dict[str, float]
    """Figures by name."""
    fits: tuple[Fit, ...] = ()

    @property
    def best(self) -> Fit:
        return max(self.fits, key=lambda fit: fit.log_evidence)

    @property
    def nearest(self) -> Fit:
        """The restart whose evidence is nearest to the published one."""
        wanted = self.published["log_evidence"]
        return min(self.fits, key=lambda fit: abs(fit.log_evidence - wanted))

    def restarts_at(self, evidence: float) -> int:
        """How many restarts ended at this evidence."""
        return sum(abs(fit.log_evidence - evidence) < SAME for fit in self.fits)


def published() -> list[Line]:
    """All lines of the published tables."""
    tables = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    lines = []
    for row in LABELS:
        for points, entry in tables[row].items():
            by_m = {"0": entry} if row == "full_gp" else entry
            for m, figures in by_m.items():
                evidence = figures.get("bound", figures.get("log_evidence"))
                lines.append(Line(row, int(points), int(m), {**figures, "log_evidence": evidence}))
    return lines


def read_data(folder: Path, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, 1) and centred targets (N,); the 20 points are every tenth of the 200."""
    table = np.loadtxt(folder / "snelson1d" / "train.csv", delimiter=",", skiprows=1)
    table = table[:: len(table) // points]
    return table[:, :1], table[:, 1] - table[:, 1].mean()


def fit(line: Line, data: Path, restart: int, seed: int = SEED) -> Fit:
    """One joint optimisation from random training inputs.

    They are drawn by `default_rng([seed, points, m, restart])`. Lengthscale, kernel variance and
    noise variance begin at 1, 1 and 0.1; every other restart begins with half the lengthscale and
    half the noise.
    """
    import gpflow

    import sparse_prefgp as spg
    from tests.reference.regression import RegressionGP

    approximation = {
        "full_gp": spg.Exact(),
        "variational": spg.VFE(),
        "projected_process": spg.DTC(),
        "fitc": spg.FITC(),
    }[line.row]
    x, y = read_data(data, line.points)
    rng = np.random.default_rng([seed, line.points, line.m, restart])
    scale = 0.5 if restart % 2 else 1.0
    inducing = x[rng.choice(len(x), line.m, replace=False)] if line.m else None
    model = RegressionGP(
        x,
        y,
        gpflow.kernels.SquaredExponential(lengthscales=scale),
        approximation=approximation,
        inducing_variable=inducing,
        noise_variance=0.1 * scale,
    )
    evidence = spg.optimise(model, MAX_ITERATIONS).log_evidence
    return Fit(
        lengthscale_squared=float(model.kernel.lengthscales.numpy()) ** 2,
        variance=float(model.kernel.variance.numpy()),
        noise_variance=float(model.noise_variance.numpy()),
        log_evidence=evidence,
        model=model,
    )


def reproduce(line: Line, data: Path, restarts: int) -> Line:
    """The line with its fits; the full GP, which has no inducing inputs to draw, has two."""
    restarts = min(restarts, 2) if line.row == "full_gp" else restarts
    fits = tuple(fit(line, data, i) for i in range(restarts))
    return Line(line.row, line.points, line.m, line.published, fits)


def table(lines: list[Line], points: int) -> str:
    """One published table next to ours, in Markdown."""
    shown = [line for line in lines if line.points == points]
    text = [
        f"**{points} points** (lengthscale², kernel variance, noise variance, **evidence**)",
        "",
        "| | m | published | ours, nearest restart | ours, best restart | restarts at these two |",
        "|---|---|---|---|---|---|",
    ]
    for line in shown:
        near, best = line.nearest, line.best
        cells = [
            LABELS[line.row],
            str(line.m or ""),
            _figures(line.published),
            _figures(vars(near)),
            _figures(vars(best)),
            f"{line.restarts_at(near.log_evidence)}, {line.restarts_at(best.log_evidence)} "
            f"of {len(line.fits)}",
        ]
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def _figures(values: dict[str, Any]) -> str:
    parameters = [f"{values[name]:.4f}" for name in PARAMETERS]
    return " ".join([*parameters, f"**{values['log_evidence']:.4f}**"])


def write_csv(lines: list[Line], path: Path) -> None:
    """Every restart, a row each."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["row", "points", "m", "restart", *FIGURES, *(f"published_{name}" for name in FIGURES)]
        )
        for line in lines:
            for i, one in enumerate(line.fits):
                ours = [f"{getattr(one, name):.7g}" for name in FIGURES]
                theirs = [line.published[name] for name in FIGURES]
                writer.writerow([line.row, line.points, line.m, i, *ours, *theirs])


def draw(lines: list[Line], path: Path) -> None:
    """Data, the full GP, and what the best restarts make of them."""
    from sparse_prefgp.plotting.canvas import BLACK, BLUE, GREY, ORANGE, VERMILION, new_figure, save

    by_place = {(line.row, line.points, line.m): line for line in lines}
    figure = new_figure((12.0, 6.5))
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    grid = np.linspace(-0.7, 6.7, 300)[:, None]
    for row_of_axes, (points, m) in zip(axes, ((200, 10), (20, 8)), strict=True):
        full = by_place["full_gp", points, 0].best.model
        for ax, row in zip(row_of_axes, list(LABELS)[1:], strict=True):
            line = by_place.get((row, points, m))
            if line is None:
                ax.axis("off")
                continue
            model = line.best.model
            x, y = model.graph.rows[:-1, 0], model.graph.upper
            ax.plot(x, y, ".", color=GREY, markersize=4, label="data")
            for one, colour, style, name in (
                (full, BLACK, "--", "full GP"),
                (model, BLUE, "-", "sparse"),
            ):
                mean, variance = (v.numpy()[:, 0] for v in one.predict_f(grid))
                spread = 2.0 * np.sqrt(variance + float(one.noise_variance.numpy()))
                ax.plot(grid, mean, style, color=colour, linewidth=1.6, label=f"{name}, mean")
                for side in (-1.0, 1.0):
                    label = f"{name}, mean ± 2 sd of a new target" if side > 0 else None
                    ax.plot(
                        grid, mean + side * spread, style, color=colour, linewidth=0.8, label=label
                    )
            z = model.inducing_variable.Z.numpy()[:, 0]
            ax.plot(
                z,
                np.full(len(z), -3.2),
                "^",
                color=VERMILION,
                markeredgecolor=ORANGE,
                label="inducing inputs",
                clip_on=False,
            )
            ax.set_title(
                f"{LABELS[row]}, {points} points, m = {m}: {line.best.log_evidence:.2f} nats\n"
                f"(full GP {by_place['full_gp', points, 0].best.log_evidence:.2f})",
                fontsize=10,
            )
            ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylim(-3.2, 3.0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[0, 1].legend(handles, labels, loc="center", fontsize=10)
    for ax in axes[1]:
        ax.set_xlabel("input")
    for ax in axes[:, 0]:
        ax.set_ylabel("target")
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds snelson1d/")
    parser.add_argument("--out", type=Path, default=HERE, help="where tables and figure go")
    parser.add_argument("--restarts", type=int, default=RESTARTS)
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    lines = []
    for line in published():
        started = time.perf_counter()
        lines.append(reproduce(line, settings.data, settings.restarts))
        done = lines[-1]
        print(
            f"{LABELS[line.row]:18} {line.points:3d} points, m {line.m:2d}: published "
            f"{line.published['log_evidence']:9.4f}, nearest {done.nearest.log_evidence:9.4f}, "
            f"best {done.best.log_evidence:9.4f}  ({time.perf_counter() - started:.1f} s)",
            flush=True,
        )
    text = "\n".join(table(lines, points) for points in (200, 20))
    print("\n" + text)
    (settings.out / "table.md").write_text(text, encoding="utf-8")
    write_csv(lines, settings.out / "restarts.csv")
    draw(lines, settings.out / "titsias_toy.png")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # of tests/reference
    main()
