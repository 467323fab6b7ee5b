"""Are intervals and probabilities right on average? Utilities and duels drawn from the prior.

    python experiments/calibration/run.py
    python experiments/calibration/run.py --judged

Every repetition draws utilities from the Gaussian process that the model assumes, and duels with
its noise. Over many, an interval of 90 % of the exact posterior holds the truth 90 times in 100
whatever the data, so what is off is the approximation or the engine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sparse_prefgp.approximations import Approximation
    from sparse_prefgp.engines import Engine

HERE = Path(__file__).resolve().parent
DESIGNS, REPETITIONS = 2, 150  # sets of items and pairs, and draws of utilities and duels on each
# Draws on each set of items where inference takes ten times as long as EP.
FEWER = {"power EP 0.5": 20, "Variational": 20}
ITEMS, DUELS, INPUTS = 100, 300, 2
NEW_PAIRS = 100
VARIANCE, LENGTHSCALE = 1.0, 0.25  # inputs are uniform in the unit box
NOISES = (0.02, 0.2)  # sigma² per side
INDUCING = (8, 16, 32, 64)
TOLERANCE = 1e-4  # of the sites: far below what coverage of 300 draws can tell
OTHERS_M = 16  # of engines other than EP
LEVELS = {"50": 0.6744897501960817, "90": 1.6448536269514722}
PITC_BLOCKS = 15
# Duels with ties between fewer items, by judges who differ, all at known parameters.
JUDGED_SETS, JUDGED_ITEMS, JUDGED_DUELS, JUDGES = 100, 60, 200, 10
JUDGED_NOISES = (0.01, 0.5)  # sigma² per side of a judge of ratio 1
MARGIN = 0.25  # in standard deviations of a difference and its noise: some 20 % are ties
RATIO_LOG_SD = 0.7
DRAWS = 500  # of the sampler, of each of four chains

Array = npt.NDArray[np.float64]


def approximations() -> dict[str, Approximation]:
    import sparse_prefgp as spg

    return {
        "Exact": spg.Exact(),
        "VFE": spg.VFE(),
        "FITC": spg.FITC(),
        "PriorPower 0.5": spg.PriorPower(0.5),
        "HeteroscedasticVFE": spg.HeteroscedasticVFE(),
        "PITC": spg.PITC(PITC_BLOCKS),
        "SubsetOfData": spg.SubsetOfData(DUELS // 4),
    }


def engines() -> dict[str, Engine]:
    import sparse_prefgp as spg

    return {
        "EP": spg.ParallelEP(tolerance=TOLERANCE, max_sweeps=1000),
        "power EP 0.5": spg.ParallelEP(site_power=0.5, tolerance=TOLERANCE, max_sweeps=1000),
        "Variational": spg.Variational(tolerance=TOLERANCE, max_sweeps=1000),
        "Laplace": spg.Laplace(),
    }


@dataclass(frozen=True)
class Setting:
    """One line of the table. DTC and TightVFE have the q(u) of VFE at fixed hyperparameters."""

    approximation: str
    engine: str
    inducing: int | None
    noise: float


def settings() -> list[Setting]:
    """Every approximation with EP at every m, and with every other engine at one; EP first."""
    found = []
    for noise, approximation, engine in product(NOISES, approximations(), engines()):
        sparse = approximation not in ("Exact", "SubsetOfData")
        ms = INDUCING if engine == "EP" else (OTHERS_M,)
        found += [Setting(approximation, engine, m, noise) for m in (ms if sparse else (None,))]
    return sorted(found, key=lambda setting: setting.engine != "EP")


@dataclass(frozen=True, eq=False)
class World:
    """Items, duels without their outcome, new pairs, and what is drawn for them."""

    items: Array
    pairs: npt.NDArray[np.int64]
    """(t, 2) rows of items."""
    ends: Array
    """(N, 2, D) of the pairs that are predicted, seen ones first."""
    truth: Array
    """(R, n + 2 N_new) utilities."""
    wins: npt.NDArray[np.bool_]
    """(R, t) whether the first of a pair won."""
    outcomes: npt.NDArray[np.bool_]


def world(design: int, noise: float) -> World:
    rng = np.random.default_rng([design, int(1e6 * noise)])
    items = rng.random((ITEMS, INPUTS))
    every = np.stack(np.triu_indices(ITEMS, 1), 1)
    pairs = rng.permuted(every[rng.choice(len(every), DUELS, replace=False)], axis=1)
    new = rng.random((2 * NEW_PAIRS, INPUTS))
    places = np.concatenate([items, new])
    squares = np.sum((places[:, None] - places) ** 2, -1) / LENGTHSCALE**2
    covariance = VARIANCE * np.exp(-0.5 * squares) + 1e-10 * np.eye(len(places))
    root = np.linalg.cholesky(covariance)
    f = rng.standard_normal((REPETITIONS, len(places))) @ root.T
    seen = every[rng.choice(len(every), NEW_PAIRS, replace=False)]
    fresh = ITEMS + np.arange(2 * NEW_PAIRS).reshape(-1, 2)
    asked = np.concatenate([seen, fresh])

    def decided(which: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        eps = np.sqrt(2.0 * noise) * rng.standard_normal((REPETITIONS, len(which)))
        return f[:, which[:, 0]] - f[:, which[:, 1]] + eps > 0.0

    wins = decided(pairs)
    truth = f[:, asked[:, 0]] - f[:, asked[:, 1]]
    return World(items, pairs, places[asked], truth, wins, decided(asked))


def predictor(setting: Setting, given: World) -> Callable[[npt.NDArray[np.bool_]], Any]:
    """From the outcomes of the duels to mean and variance of every asked difference.

    What won is in the limits, so that the graph, the prior and the compiled engine are the same for
    all repetitions.
    """
    import gpflow
    import tensorflow as tf

    import sparse_prefgp as spg
    from sparse_prefgp.approximations import DuelProblem
    from sparse_prefgp.covariances.kernels import as_float
    from sparse_prefgp.data.graph import DuelGraph
    from sparse_prefgp.factors.sites import Sites, totals
    from sparse_prefgp.models.posterior import Posterior

    approximation = approximations()[setting.approximation]
    engine = engines()[setting.engine]
    graph = DuelGraph.from_duels(spg.Duels(given.items, given.pairs[:, 0], given.pairs[:, 1]))
    graph = approximation.select(graph)
    kernel = gpflow.kernels.SquaredExponential(VARIANCE, np.full(INPUTS, LENGTHSCALE))
    inducing = None
    if setting.inducing is not None:
        z = spg.kmeans_inputs(given.items, setting.inducing, np.random.default_rng(0))
        inducing = gpflow.inducing_variables.InducingPoints(z)
    problem = DuelProblem(graph, kernel, None, as_float(setting.noise), inducing)
    prior = approximation.prior(problem)
    # Which of the pairs a site is: the graph has sorted them, and may have left some out.
    item = np.flatnonzero(graph.row_of_item >= 0)[
        np.argsort(graph.row_of_item[graph.row_of_item >= 0])
    ]
    keys = {tuple(pair): i for i, pair in enumerate(given.pairs.tolist())}
    of_site = [
        keys[(int(item[w]), int(item[loser]))]
        for w, loser in zip(graph.winners, graph.losers, strict=True)
    ]
    ends = as_float(given.ends)

    @tf.function(autograph=False)
    def run(lower: tf.Tensor, upper: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        factors = prior.factors._replace(lower=lower, upper=upper)
        point = engine.run(prior.covariance, factors, Sites.zeros(graph.num_sites, lower.dtype))
        terms = prior.covariance.predict(*totals(point.sites, factors.counts))
        posterior = Posterior(kernel, None, prior.features, terms)
        return posterior.difference(ends), point.found.change

    def predict(wins: npt.NDArray[np.bool_]) -> tuple[Array, Array, bool]:
        won = wins[of_site]
        lower, upper = np.where(won, -np.inf, 0.0), np.where(won, 0.0, np.inf)
        both, change = run(as_float(lower), as_float(upper))
        mean, variance = both.numpy().T
        return mean, np.maximum(variance, 0.0), bool(change <= engine.tolerance)

    return predict


def measured(setting: Setting) -> dict[str, Any]:
    """Coverage, reliability and cost in nats of one line, over all designs and repetitions."""
    from scipy.special import log_ndtr, ndtr

    started = time.perf_counter()
    inside: dict[str, list[Array]] = {
        f"{kind} {level}": [] for kind in ("seen", "new") for level in LEVELS
    }
    lost, chances, outcomes, unsettled = [], [], [], 0
    for design in range(DESIGNS):
        given = world(design, setting.noise)
        predict = predictor(setting, given)
        for r in range(FEWER.get(setting.engine, REPETITIONS)):
            mean, variance, settled = predict(given.wins[r])
            unsettled += not settled
            away = np.abs(given.truth[r] - mean) / np.sqrt(variance)
            for level, reach in LEVELS.items():
                inside[f"seen {level}"].append(away[:NEW_PAIRS] < reach)
                inside[f"new {level}"].append(away[NEW_PAIRS:] < reach)
            z = mean / np.sqrt(variance + 2.0 * setting.noise)
            true = given.truth[r] / np.sqrt(2.0 * setting.noise)
            p = ndtr(true)
            # What a duel costs beyond what it must: KL of the true chance from the predicted one.
            excess = p * (log_ndtr(true) - log_ndtr(z)) + (1 - p) * (log_ndtr(-true) - log_ndtr(-z))
            lost.append(excess.mean())
            chances.append(ndtr(z))
            outcomes.append(given.outcomes[r])
    row: dict[str, Any] = {
        "approximation": setting.approximation,
        "engine": setting.engine,
        "m": "" if setting.inducing is None else setting.inducing,
        "noise": setting.noise,
        "draws": len(lost),
    }
    for name, hits in inside.items():
        share = np.mean(hits, axis=1)
        row[f"coverage {name}"] = float(share.mean())
        row[f"error {name}"] = float(share.std(ddof=1) / np.sqrt(len(share)))
    row["excess nats"] = float(np.mean(lost))
    row["calibration error"] = calibration_error(np.concatenate(chances), np.concatenate(outcomes))
    row["unsettled"] = unsettled
    row["seconds"] = time.perf_counter() - started
    return row


def calibration_error(p: Array, won: npt.NDArray[np.bool_]) -> float:
    """Mean distance of share right from mean confidence, over ten equal bins of the confidence."""
    confidence, right = np.maximum(p, 1.0 - p), (p >= 0.5) == won
    bins = np.minimum(((confidence - 0.5) / 0.05).astype(int), 9)
    parts = [bins == b for b in range(10) if np.any(bins == b)]
    gaps = [here.mean() * abs(confidence[here].mean() - right[here].mean()) for here in parts]
    return float(np.sum(gaps))


@dataclass(frozen=True, eq=False)
class JudgedWorld:
    """Duels with ties by judges, and the utility differences that are asked for."""

    items: Array
    winners: npt.NDArray[np.int64]
    losers: npt.NDArray[np.int64]
    ties: npt.NDArray[np.bool_]
    judges: npt.NDArray[np.int64]
    ratios: Array
    margin: float
    ends: Array
    """(N, 2, D) of the pairs, first between the compared items."""
    truth: Array
    """(N,)."""


def judged_world(seed: int, noise: float) -> JudgedWorld:
    """Drawn with NumPy alone: utilities from the prior, ratios of the noise, outcomes."""
    rng = np.random.default_rng([seed, int(1e6 * noise), 15])
    places = rng.random((JUDGED_ITEMS + NEW_PAIRS, INPUTS))
    squares = np.sum((places[:, None] - places) ** 2, -1) / LENGTHSCALE**2
    covariance = VARIANCE * np.exp(-0.5 * squares) + 1e-10 * np.eye(len(places))
    f = np.linalg.cholesky(covariance) @ rng.standard_normal(len(places))
    ratios = np.exp(RATIO_LOG_SD * rng.standard_normal(JUDGES))
    first = rng.integers(JUDGED_ITEMS, size=JUDGED_DUELS)
    second = (first + rng.integers(1, JUDGED_ITEMS, size=JUDGED_DUELS)) % JUDGED_ITEMS
    judges = np.concatenate([np.arange(JUDGES), rng.integers(JUDGES, size=JUDGED_DUELS - JUDGES)])
    sd = np.sqrt(2.0 * noise * ratios[judges])
    v = f[first] - f[second] + sd * rng.standard_normal(JUDGED_DUELS)
    # A margin that is part of the world, not of what was drawn of it.
    margin = MARGIN * float(np.sqrt(2.0 * VARIANCE + 2.0 * noise))
    seen = rng.integers(JUDGED_ITEMS, size=(NEW_PAIRS // 2, 2))
    seen[:, 1] = (seen[:, 0] + rng.integers(1, JUDGED_ITEMS, NEW_PAIRS // 2)) % JUDGED_ITEMS
    asked = np.concatenate([seen, JUDGED_ITEMS + np.arange(NEW_PAIRS).reshape(-1, 2)])
    won = v > 0.0
    return JudgedWorld(
        items=places[:JUDGED_ITEMS],
        winners=np.where(won, first, second),
        losers=np.where(won, second, first),
        ties=np.abs(v) < margin,
        judges=judges,
        ratios=ratios,
        margin=margin,
        ends=places[asked],
        truth=f[asked[:, 0]] - f[asked[:, 1]],
    )


def judged(setting: tuple[float, str, int]) -> dict[str, Any]:
    """Coverage of 90 % intervals: of a normal by mean and sd, or of the draws of the sampler."""
    import gpflow

    import sparse_prefgp as spg

    noise, how, sets = setting
    started = time.perf_counter()
    seen, new, ties, unsettled = [], [], 0, 0
    for seed in range(sets):
        given = judged_world(seed, noise)
        sparse = how == "VFE"
        model = spg.PreferenceGP(
            spg.Duels(
                given.items, given.winners, given.losers, ties=given.ties, groups=given.judges
            ),
            gpflow.kernels.SquaredExponential(VARIANCE, np.full(INPUTS, LENGTHSCALE)),
            approximation=spg.VFE() if sparse else spg.Exact(),
            inducing_variable=given.items if sparse else None,
            engine=spg.ParallelEP(tolerance=TOLERANCE, max_sweeps=1000),
            likelihood=spg.Probit(noise, by="judge", margin=given.margin),
        )
        assert model.likelihood.noise_ratio is not None
        names = [int(name) for name in model.duels.group_names or ()]
        model.likelihood.noise_ratio.assign(given.ratios[names])
        first, second = given.ends[:, 0], given.ends[:, 1]
        if how == "sampler":
            rng = np.random.default_rng(seed)
            draws = spg.sample_posterior(model, DRAWS, rng)
            low, high = draws.quantiles(first, second, [0.05, 0.95], rng)[0]
            inside = (low < given.truth) & (given.truth < high)
            unsettled += not draws.converged
        else:
            mean, variance = (x.numpy() for x in model.predict_difference(first, second))
            inside = np.abs(given.truth - mean) < LEVELS["90"] * np.sqrt(variance)
            unsettled += not model.infer().converged
        seen.append(inside[: NEW_PAIRS // 2].mean())
        new.append(inside[NEW_PAIRS // 2 :].mean())
        ties += int(given.ties.sum())
    row = {"noise": noise, "how": how, "sets": sets, "ties": ties / (sets * JUDGED_DUELS)}
    for name, shares in (("seen", seen), ("new", new)):
        row[name] = float(np.mean(shares))
        row[f"{name} error"] = float(np.std(shares, ddof=1) / np.sqrt(sets))
    return {**row, "unsettled": unsettled, "seconds": time.perf_counter() - started}


def judged_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| noise | intervals of | sets | compared items | new items | ties |",
        "|" + "---|" * 6,
    ]
    for row in rows:
        shares = [f"{100 * row[k]:.1f} ± {100 * row[k + ' error']:.1f}" for k in ("seen", "new")]
        lines.append(
            f"| {row['noise']:g} | {row['how']} | {row['sets']} | {' | '.join(shares)} | "
            f"{row['ties']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| noise | approximation | engine | m | draws | 50 %, seen | 50 %, new | 90 %, seen | "
        "90 %, new | calibration error | excess nats | not settled |",
        "|" + "---|" * 12,
    ]
    for row in rows:
        parts = [f"{kind} {level}" for level in LEVELS for kind in ("seen", "new")]
        shares = [
            f"{100 * row[f'coverage {part}']:.1f} ± {100 * row[f'error {part}']:.1f}"
            for part in parts
        ]
        lines.append(
            f"| {row['noise']:g} | {row['approximation']} | {row['engine']} | {row['m']} | "
            f"{row['draws']} | "
            f"{' | '.join(shares)} | {row['calibration error']:.4f} | {row['excess nats']:.4f} | "
            f"{row['unsettled'] or ''} |"
        )
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Coverage of 90 % intervals, and what duels cost in nats beyond what they must, against m."""
    from sparse_prefgp.plotting.canvas import GREY, new_figure, save

    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
    figure = new_figure((11.0, 7.5))
    axes = figure.subplots(2, 2)
    names = [n for n in approximations() if n not in ("Exact", "SubsetOfData")]
    for column, noise in zip(axes.T, NOISES, strict=True):
        own = [r for r in rows if r["noise"] == noise and r["engine"] == "EP"]
        top, bottom = column
        for name, colour in zip(names, colours, strict=False):
            line = [r for r in own if r["approximation"] == name]
            x = [r["m"] for r in line]
            y = [100 * r["coverage new 90"] for r in line]
            error = [100 * r["error new 90"] for r in line]
            look: dict[str, Any] = {"color": colour, "label": name, "markersize": 4}
            top.errorbar(x, y, error, fmt="o-", **look)
            bottom.plot(x, [r["excess nats"] for r in line], "o-", **look)
        for name, style in (("Exact", "--"), ("SubsetOfData", ":")):
            (whole,) = (r for r in own if r["approximation"] == name)
            top.axhline(100 * whole["coverage new 90"], color=GREY, linestyle=style, label=name)
            bottom.axhline(whole["excess nats"], color=GREY, linestyle=style, label=name)
        top.axhline(90, color="black", linewidth=0.8)
        for ax in column:
            ax.set_xscale("log", base=2)
            ax.set_xticks(INDUCING, [str(m) for m in INDUCING])
            ax.set_xlabel("inducing inputs")
        top.set_ylabel("90 % intervals of new pairs\nthat hold the truth, %")
        top.set_title(f"noise variance {noise:g}", fontsize=11)
        bottom.set_ylabel("excess nats of a duel")
        bottom.set_ylim(bottom=0.0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=9)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--judged", action="store_true", help="duels with ties and judges instead")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    if given.judged:
        lines = product(JUDGED_NOISES, ("sampler", "Exact", "VFE"), (JUDGED_SETS,))
        with ProcessPoolExecutor(given.workers) as pool:
            for row in pool.map(judged, lines):
                rows.append(row)
                print(judged_table([row]).splitlines()[-1], f"{row['seconds']:.1f} s", flush=True)
        (given.out / "judged.md").write_text(judged_table(rows), encoding="utf-8")
        (given.out / "judged.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
        return
    with ProcessPoolExecutor(given.workers) as pool:
        for row in pool.map(measured, settings()):
            rows.append(row)
            print(table([row]).splitlines()[-1], f"{row['seconds']:.1f} s", flush=True)
            (given.out / "table.md").write_text(table(rows), encoding="utf-8")
            (given.out / "lines.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    draw(rows, given.out / "calibration.png")


if __name__ == "__main__":
    main()
