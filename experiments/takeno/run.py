"""Engines against draws of the exact posterior, on fifty duels of standard test functions.

    python experiments/takeno/run.py

The protocol is that of Takeno, Nomura & Karasuyama (2023), section 3.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sparse_prefgp import PreferenceGP
    from sparse_prefgp.engines import Engine

HERE = Path(__file__).resolve().parent
DUELS = 50  # to learn from, and as many new ones
NOISE_VARIANCE = 1e-2  # on either side of a duel, for utilities of variance 1
LENGTHSCALE = 0.25  # times the root of the number of inputs
SEEDS = 10
DRAWS = 2500  # of each of 4 chains
STANDARDISED_ON = 10_000  # points
KINDS = ("seen", "new")
FIGURES = ("mean", "sd", "probability")
COLUMNS = (
    "function", "seed", "engine", "kind",
    *(f"{name}_{what}" for name in FIGURES for what in ("rmse", "largest", "monte_carlo")),
    "skewness_rms", "skewness_largest", "engine_converged", "chains_converged", "rhat", "ess",
)  # fmt: skip
LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))

Array = npt.NDArray[np.float64]


def engines() -> dict[str, Engine]:
    """What is compared; another engine is one more entry."""
    import sparse_prefgp as spg

    return {
        "EP": spg.ParallelEP(max_sweeps=1000),
        "Laplace": spg.Laplace(),
        "variational": spg.Variational(max_sweeps=1000),
    }


# Test functions on the unit box, larger is better; their definitions are those of Surjanovic &
# Bingham's Virtual Library of Simulation Experiments.


@dataclass(frozen=True)
class Function:
    name: str
    inputs: int
    value: Callable[[Array], Array]


def branin(u: Array) -> Array:
    x, y = 15 * u[:, 0] - 5, 15 * u[:, 1]
    parabola = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return -(parabola**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x) + 10)


def holder_table(u: Array) -> Array:
    x, y = (20 * u - 10).T
    return np.abs(np.sin(x) * np.cos(y) * np.exp(np.abs(1 - np.hypot(x, y) / math.pi)))


def bukin(u: Array) -> Array:
    x, y = 10 * u[:, 0] - 15, 6 * u[:, 1] - 3
    return -(100 * np.sqrt(np.abs(y - 0.01 * x**2)) + 0.01 * np.abs(x + 10))


def cross_in_tray(u: Array) -> Array:
    x, y = (20 * u - 10).T
    waves = np.abs(np.sin(x) * np.sin(y) * np.exp(np.abs(100 - np.hypot(x, y) / math.pi)))
    return 1e-4 * (waves + 1) ** 0.1


def ackley(u: Array) -> Array:
    x = 65.536 * u - 32.768
    waves = np.exp(np.mean(np.cos(2 * math.pi * x), 1))
    return 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2, 1))) + waves - 20 - math.e


HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN3 = (
    np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]]),
    1e-4
    * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
)
HARTMANN6 = (
    np.array([
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]),
    1e-4 * np.array([
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]),
)  # fmt: skip


def hartmann(parts: tuple[Array, Array]) -> Callable[[Array], Array]:
    rates, centres = parts
    return lambda u: np.exp(-np.sum(rates * (u[:, None] - centres) ** 2, -1)) @ HEIGHTS


FUNCTIONS = (
    Function("Branin", 2, branin),
    Function("Holder table", 2, holder_table),
    Function("Bukin", 2, bukin),
    Function("Cross-in-tray", 2, cross_in_tray),
    Function("Hartmann-3", 3, hartmann(HARTMANN3)),
    Function("Hartmann-6", 6, hartmann(HARTMANN6)),
    Function("Ackley", 4, ackley),
)


def standardised(function: Function) -> Callable[[Array], Array]:
    """With mean 0 and variance 1 over uniform inputs."""
    rng = np.random.default_rng(0)
    values = function.value(rng.random((STANDARDISED_ON, function.inputs)))
    return lambda u: (function.value(u) - values.mean()) / values.std()


def problem(
    function: Function, seed: int, engine: Engine | None = None
) -> tuple[PreferenceGP, Array, Array]:
    """A model of 50 duels between uniform inputs, and the two sides of 50 new ones."""
    import gpflow

    import sparse_prefgp as spg

    rng = np.random.default_rng([seed, FUNCTIONS.index(function)])
    utility = standardised(function)
    a, b, new_a, new_b = rng.random((4, DUELS, function.inputs))
    noise = math.sqrt(NOISE_VARIANCE) * rng.normal(size=(2, DUELS))
    wins = (utility(a) + noise[0] > utility(b) + noise[1])[:, None]
    scale = LENGTHSCALE * math.sqrt(function.inputs)
    model = spg.PreferenceGP(
        spg.Duels.from_pairs(np.where(wins, a, b), np.where(wins, b, a)),
        gpflow.kernels.SquaredExponential(lengthscales=np.full(function.inputs, scale)),
        approximation=spg.Exact(),
        engine=engine,
        noise_variance=NOISE_VARIANCE,
    )
    return model, new_a, new_b


def compare(function: Function, seed: int, draws: int) -> list[dict[str, Any]]:
    """One row for each engine on seen and on new duels; all against the same draws."""
    import sparse_prefgp as spg

    rows = []
    model, new_a, new_b = problem(function, seed)
    truth = spg.sample_posterior(model, draws, np.random.default_rng(seed))
    for name, engine in engines().items():
        model, _, _ = problem(function, seed, engine)
        check = spg.check_against_sampling(model, new_a, new_b, draws=truth)
        for kind, part in zip(KINDS, (check.own, check.new), strict=True):
            assert part is not None
            row = {"function": function.name, "seed": seed, "engine": name, "kind": kind}
            for figure in FIGURES:
                deviation = getattr(part, figure)
                for what in ("rmse", "largest", "monte_carlo"):
                    row[f"{figure}_{what}"] = getattr(deviation, what)
            row |= {
                "skewness_rms": part.skewness.rmse,
                "skewness_largest": part.skewness.largest,
                "engine_converged": check.engine_converged,
                "chains_converged": check.converged,
                "rhat": max(part.rhat, float(np.max(check.draws.rhat))),
                "ess": min(part.ess, float(np.min(check.draws.ess))),
            }
            rows.append(row)
    return rows


def averaged(rows: list[dict[str, Any]], name: str) -> float:
    """Root of the mean over seeds of squares, as for all duels of all seeds together."""
    return math.sqrt(float(np.mean([row[name] ** 2 for row in rows])))


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| function | engine | duels | mean | sd | probability | largest in probability | "
        "Monte Carlo (mean, sd, probability) | skewness |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for function in FUNCTIONS:
        for engine in engines():
            for kind in KINDS:
                key = (function.name, engine, kind)
                own = [r for r in rows if (r["function"], r["engine"], r["kind"]) == key]
                if not own:
                    continue
                errors = [f"{averaged(own, f'{f}_rmse'):.4f}" for f in FIGURES]
                carlo = ", ".join(f"{averaged(own, f'{f}_monte_carlo'):.4f}" for f in FIGURES)
                largest = max(row["probability_largest"] for row in own)
                skewness = averaged(own, "skewness_rms")
                lines.append(
                    f"| {function.name} ({function.inputs}) | {engine} | {kind} | "
                    f"{' | '.join(errors)} | {largest:.4f} | {carlo} | {skewness:.2f} |"
                )
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Root-mean-square errors of every seed, by function, with their Monte Carlo error."""
    from sparse_prefgp.plotting.canvas import GREY, new_figure, save

    names = [f.name for f in FUNCTIONS]
    figure = new_figure((11.0, 6.0))
    axes = figure.subplots(2, 2, sharex=True)
    titles = {"mean": "error of the posterior mean", "probability": "error of duel probability"}
    for column, (what, label) in zip(axes.T, titles.items(), strict=True):
        for ax, kind in zip(column, KINDS, strict=True):
            for i, engine in enumerate(engines()):
                own = [r for r in rows if r["engine"] == engine and r["kind"] == kind]
                colour, marker = LOOKS[i % len(LOOKS)]
                x = np.array([names.index(r["function"]) for r in own]) + 0.15 * i
                y = [r[f"{what}_rmse"] for r in own]
                ax.plot(x, y, marker, color=colour, alpha=0.6, markersize=5, label=engine)
                carlo = [r[f"{what}_monte_carlo"] for r in own]
                ax.plot(x, carlo, "_", color=GREY, label="Monte Carlo error" if i == 0 else None)
            ax.set_yscale("log")
            ax.set_ylabel(f"{label},\n{kind} duels")
            ax.spines[["top", "right"]].set_visible(False)
        column[-1].set_xticks(range(len(names)), names, rotation=25, ha="right")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9)
    save(figure, path)


def study(settings: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    for function in FUNCTIONS:
        started = time.perf_counter()
        for seed in range(settings.seeds):
            rows += compare(function, seed, settings.draws)
        print(f"{function.name}: {time.perf_counter() - started:.1f} s", flush=True)
    with (settings.out / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    text = table(rows)
    (settings.out / "table.md").write_text(text, encoding="utf-8")
    print(text)
    for name, words in (("chains", "chains, met by each engine,"), ("engine", "inference")):
        failed = [r for r in rows if not r[f"{name}_converged"] and r["kind"] == "seen"]
        runs = sum(r["kind"] == "seen" for r in rows)
        print(f"{words} converged in {runs - len(failed)} of {runs} runs")
    print(f"largest R-hat {max(r['rhat'] for r in rows):.4f}, "
          f"smallest effective sample size {min(r['ess'] for r in rows):,.0f}")  # fmt: skip
    draw(rows, settings.out / "takeno.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE, help="where tables and figure go")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--draws", type=int, default=DRAWS, help="of each of 4 chains")
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    study(settings)


if __name__ == "__main__":
    main()
