"""Do intervals hold the truth where hyperparameters are learned?

    python experiments/uncertainty/run.py OUT.jsonl [--row NAME ...] [--runs 100] [--first 0]

Each run of a row draws hyperparameters, utilities and answers, fits the model without priors, with
weak ones, and with hyperparameters integrated out, and writes a line: the share of 90 % intervals
of differences that hold the truth, their mean width, and the Kullback-Leibler divergence of duel
probabilities from the true ones, in nats. The variance of the noise of a difference is 1. `--table`
prints what OUT.jsonl holds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gpflow
import numpy as np
from scipy.special import ndtr, xlogy

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, Answers
from sparse_prefgp.models.inducing_inputs import kmeans_inputs

NOISE, Z90, PAIRS, DRAWS = 0.5, 1.6448536269514722, 200, 4000
TODAY, MODE, MIXTURE = "no priors", "weak priors", "integrated"
FEW, SHARE = "4 items", "least share of the width at variance 1"
Rng = np.random.Generator


class Truth(NamedTuple):
    """One data set, how it is fitted, and what is true."""

    duels: spg.Duels
    kernel: Callable[[], gpflow.kernels.Kernel]
    utility: np.ndarray
    """(n,), or (people, n)."""
    more: Callable[[], dict[str, Any]] = dict
    """What else `PreferenceGP` takes, made anew for each fit."""
    coefficients: np.ndarray | None = None
    inputs: bool = False
    """Whether inducing inputs are learned."""


def effects(rng: Rng, items: int, duels: int, sd: float | None = None) -> Truth:
    """Effects of items without features."""
    sd = float(np.exp(rng.normal(-0.2, 0.8))) if sd is None else sd
    f = sd * rng.standard_normal(items)
    return Truth(won(rng, np.zeros((items, 0)), f, duels), spg.ItemEffect, f)


def plane(
    rng: Rng, items: int, duels: int, inducing: int | None = None, form: Any = spg.VFE
) -> Truth:
    """A squared exponential on two features."""
    x, f = drawn_on_plane(rng, items)

    def more() -> dict[str, Any]:
        if inducing is None:
            return {"approximation": spg.Exact()}
        centres = kmeans_inputs(x, inducing, np.random.default_rng(0))
        return {"approximation": form(), "inducing_variable": centres}

    return Truth(won(rng, x, f, duels), on_plane, f, more)


def learned_inputs(rng: Rng, form: Any) -> Truth:
    """The same with inducing inputs that are learned."""
    return plane(rng, 100, 400, 20, form)._replace(inputs=True)


def judged(rng: Rng, items: int = 20, duels: int = 400, judges: int = 10) -> Truth:
    """Ten judges of different noise, and two covariates."""
    f = float(np.exp(rng.normal(-0.2, 0.8))) * rng.standard_normal(items)
    ratio = np.exp(0.7 * rng.standard_normal(judges))
    beta, said = 0.5 * rng.standard_normal(2), rng.standard_normal((duels, 2))
    judge, (first, second) = rng.integers(judges, size=duels), ends(rng, items, duels)
    ahead = f[first] - f[second] + said @ beta
    ahead += np.sqrt(ratio[judge]) * rng.standard_normal(duels)
    sign = np.where(ahead > 0.0, 1.0, -1.0)
    winners, losers = np.where(ahead > 0.0, first, second), np.where(ahead > 0.0, second, first)
    data = spg.Duels(
        np.zeros((items, 0)),
        winners,
        losers,
        groups=judge,
        covariates=sign[:, None] * said,
        covariate_names=["one", "two"],
    )
    more = lambda: {"likelihood": spg.Probit(NOISE, by="judge")}  # noqa: E731
    return Truth(data, spg.ItemEffect, f, more, beta)


def choices(rng: Rng, items: int = 40, sets: int = 100) -> Truth:
    """Choices of one of four, on two features."""
    x, f = drawn_on_plane(rng, items)
    shown = np.stack([rng.permutation(items)[:4] for _ in range(sets)])
    noisy = f[shown] + np.sqrt(NOISE) * rng.standard_normal(shown.shape)
    order = np.take_along_axis(shown, np.argsort(-noisy, 1), 1)
    kind = np.full(sets, CHOICE, np.int8)
    events = Answers(order.reshape(-1), 4 * np.arange(sets + 1), kind=kind)
    more = lambda: {"approximation": spg.Exact()}  # noqa: E731
    return Truth(spg.Duels.from_events(x, events), on_plane, f, more)


def graded(rng: Rng, items: int = 20, duels: int = 200) -> Truth:
    """Five grades, of which the middle one is a tie."""
    f = float(np.exp(rng.normal(-0.2, 0.8))) * rng.standard_normal(items)
    first, second = ends(rng, items, duels)
    ahead = f[first] - f[second] + rng.standard_normal(duels)
    cuts = np.cumsum(np.exp(np.log([0.5, 0.7]) + 0.5 * rng.standard_normal(2)))
    grade = np.sign(ahead).astype(int) * np.searchsorted(cuts, np.abs(ahead))
    levels = ["much worse", "worse", "tie", "better", "much better"]
    data = spg.Duels(np.zeros((items, 0)), first, second, grades=grade, levels=levels)
    return Truth(data, spg.ItemEffect, f, lambda: {"likelihood": spg.Probit(NOISE, margin=0.3)})


def tastes(rng: Rng, people: int = 40, duels: int = 10, items: int = 12) -> Truth:
    """What all prefer and what each does, on two features and by effects of items."""
    x = rng.standard_normal((items, 2))
    sds = np.exp(np.log([0.7, 0.7, 0.3, 0.3]) / 2.0 + 0.5 * rng.standard_normal(4))
    parts = rng.standard_normal((1 + people, 2)), rng.standard_normal((1 + people, items))
    scale = np.r_[sds[0], np.full(people, sds[2])], np.r_[sds[1], np.full(people, sds[3])]
    each = scale[0][:, None] * (parts[0] @ x.T) + scale[1][:, None] * parts[1]
    f = each[0] + each[1:]
    who = np.repeat(np.arange(people), duels)
    first, second = ends(rng, items, len(who))
    ahead = f[who, first] - f[who, second] + rng.standard_normal(len(who)) > 0.0
    winners, losers = np.where(ahead, first, second), np.where(ahead, second, first)
    kernel = lambda: gpflow.kernels.Linear() + spg.ItemEffect()  # noqa: E731
    data = spg.Duels(x, winners, losers, people=who)
    return Truth(data, kernel, f, lambda: {"terms": [spg.Taste(kernel())]})


ROWS: dict[str, Callable[[Rng], Truth]] = {
    "4 items, 10 duels": lambda rng: effects(rng, 4, 10),
    "4 items, 12 duels": lambda rng: effects(rng, 4, 12),
    "4 items, 12 duels, variance 1": lambda rng: effects(rng, 4, 12, 1.0),
    "10 items, 30 duels": lambda rng: effects(rng, 10, 30),
    "30 items, 300 duels": lambda rng: effects(rng, 30, 300),
    "SE, 50 items, 120 duels": lambda rng: plane(rng, 50, 120),
    "SE, 60 items, 400 duels": lambda rng: plane(rng, 60, 400),
    "SE, 60 items, 2,000 duels": lambda rng: plane(rng, 60, 2000),
    "VFE, 20 inputs, 100 items, 400 duels": lambda rng: plane(rng, 100, 400, 20),
    "… learned inputs": lambda rng: learned_inputs(rng, spg.VFE),
    "… learned inputs, FITC": lambda rng: learned_inputs(rng, spg.FITC),
    "10 judges, 400 duels": judged,
    "100 choices of 4 of 40 items": choices,
    "200 grades of 20 items": graded,
    "tastes of 40 people, 10 duels each": tastes,
    "tastes of 80 people, 15 duels each": lambda rng: tastes(rng, 80, 15),
}


def ends(rng: Rng, items: int, duels: int) -> tuple[np.ndarray, np.ndarray]:
    """Two different items each."""
    first = rng.integers(items, size=duels)
    return first, (first + rng.integers(1, items, size=duels)) % items


def won(rng: Rng, x: np.ndarray, f: np.ndarray, duels: int) -> spg.Duels:
    """Duels between random items, with noise of variance 1."""
    first, second = ends(rng, len(f), duels)
    ahead = f[first] - f[second] + rng.standard_normal(duels) > 0.0
    return spg.Duels(x, np.where(ahead, first, second), np.where(ahead, second, first))


def drawn_on_plane(rng: Rng, items: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_normal((items, 2))
    scales = np.sqrt(2.0) * np.exp(0.5 * rng.standard_normal(2))
    variance = float(np.exp(rng.standard_normal()))  # of which log sd ~ N(0, .5²)
    matrix = gpflow.kernels.SquaredExponential(variance, lengthscales=scales)(x).numpy()
    root = np.linalg.cholesky(matrix + 1e-9 * np.eye(items))
    return x, root @ rng.standard_normal(items)


def on_plane() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(lengthscales=[np.sqrt(2.0)] * 2)


def learned(truth: Truth, priors: bool) -> tuple[spg.PreferenceGP, float, int]:
    """The model at its optimum, seconds and sweeps."""
    started = time.perf_counter()
    model = spg.PreferenceGP(truth.duels, truth.kernel(), **truth.more())
    if model.inducing_variable is not None and not truth.inputs:
        gpflow.set_trainable(model.inducing_variable, False)
    if priors:
        spg.default_priors(model)
    report = spg.optimise(model, 100)
    return model, time.perf_counter() - started, report.sweeps


def figures(model: spg.PreferenceGP, truth: Truth, rng: Rng) -> dict[str, float]:
    """How well intervals and probabilities of random differences fit the truth."""
    f, n = truth.utility, truth.utility.shape[-1]
    first, second = ends(rng, n, PAIRS)
    people = None
    if f.ndim == 2:
        people = rng.integers(len(f), size=PAIRS)
        wanted = f[people, first] - f[people, second]
    else:
        wanted = f[first] - f[second]
    known = model.inputs.of_items()
    a, b = known[first], known[second]
    mean, variance = (x.numpy() for x in model.predict_difference(a, b, people=people))
    sd = np.sqrt(variance)
    q, p = ndtr(wanted), model.predict_duel(a, b, people=people).numpy()
    if truth.duels.group_names is not None or truth.duels.levels is not None:
        # With the noise of the model, and without ties.
        p = ndtr(mean / np.sqrt(variance + 1.0))
    said = {
        "coverage": float(np.mean(np.abs(mean - wanted) <= Z90 * sd)),
        "width": float(np.mean(2.0 * Z90 * sd)),
        "least width": float(np.min(2.0 * Z90 * sd)),
        "nats": float(np.mean(xlogy(q, q / p) + xlogy(1.0 - q, (1.0 - q) / (1.0 - p)))),
        "stated": float(np.mean(np.maximum(p, 1.0 - p))),
        "right": float(np.mean(np.where(p > 0.5, q, 1.0 - q))),
    }
    if people is None:
        mean, covariance = (np.asarray(x) for x in model.predict_f(known, full_cov=True))
        root = np.linalg.cholesky(covariance[0] + 1e-9 * np.trace(covariance[0]) * np.eye(n) / n)
        draws = mean[:, 0] + rng.standard_normal((DRAWS, n)) @ root.T
        best = np.bincount(draws.argmax(1), minlength=n) / DRAWS
        said |= {"stated best": float(best.max()), "best": float(best.argmax() == f.argmax())}
    if truth.coefficients is not None:
        known_ones = model.coefficients()
        off = np.abs(np.asarray(known_ones.mean) - truth.coefficients)
        said["coverage of coefficients"] = float(np.mean(off <= Z90 * np.asarray(known_ones.sd)))
    return said


def least_share(mixture: spg.PreferenceGP, truth: Truth) -> float:
    """The shortest interval of a difference, in widths that the same answers have at variance 1."""
    alone = spg.PreferenceGP(truth.duels, spg.ItemEffect(1.0), **truth.more())
    known = alone.inputs.of_items()
    a, b = (known[rows] for rows in np.triu_indices(len(known), 1))
    variance, fixed = (model.predict_difference(a, b)[1].numpy() for model in (mixture, alone))
    return float(np.sqrt(variance / fixed).min())


def one_run(name: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, *name.encode()])
    truth = ROWS[name](rng)
    line: dict[str, Any] = {"row": name, "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = rng.integers(2**31)
        for called, priors in ((TODAY, False), (MODE, True)):
            model, seconds, sweeps = learned(truth, priors)
            fit = {"seconds": seconds, "sweeps": sweeps}
            line[called] = fit | figures(model, truth, np.random.default_rng(pairs))
        started = time.perf_counter()
        mixture = spg.integrate(model)
        said = mixture.integration
        line[MIXTURE] = figures(mixture, truth, np.random.default_rng(pairs)) | {
            "seconds": time.perf_counter() - started,
            **{x: getattr(said, x) for x in ("used", "gain", "points", "sweeps", "evaluations")},
        }
        if name.startswith(FEW):
            line[MIXTURE][SHARE] = least_share(mixture, truth)
    return line


def table(path: Path) -> str:
    """Coverage ± standard error over runs, and means of the rest."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    text = [
        "| row (runs) | no priors | weak priors | integrated | widths | nats | stated less right | "
        "best: stated less right | sweeps |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(line["row"] for line in lines):
        some = [line for line in lines if line["row"] == name]

        def mean(way: str, what: str, some: list[Any] = some) -> float:
            return float(np.mean([line[way][what] for line in some]))

        ways = (TODAY, MODE, MIXTURE)
        for what in ("coverage", "coverage of coefficients"):
            if what not in some[0][MODE]:
                continue
            sd = np.std([line[MIXTURE][what] for line in some]) / np.sqrt(len(some))
            held = [f"{mean(way, what):.3f}" for way in ways]
            widths = " / ".join(f"{mean(way, 'width'):.3g}" for way in ways)
            nats = " / ".join(f"{mean(way, 'nats'):.4f}" for way in ways)
            surer = " / ".join(f"{mean(w, 'stated') - mean(w, 'right'):+.3f}" for w in ways)
            best = "-"
            if "best" in some[0][MODE]:
                best = " / ".join(f"{mean(w, 'stated best') - mean(w, 'best'):+.2f}" for w in ways)
            sweeps = f"{mean(MODE, 'sweeps'):.0f} + {mean(MIXTURE, 'sweeps'):.0f}"
            label = name if what == "coverage" else f"… {what.split()[-1]}"
            text.append(
                f"| {label} ({len(some)}) | {held[0]} | {held[1]} | {held[2]} ± {sd:.3f} | "
                f"{widths} | {nats} | {surer} | {best} | {sweeps} |"
            )
    shares = [line[MIXTURE][SHARE] for line in lines if SHARE in line[MIXTURE]]
    if shares:
        text += [
            f"\nOf {len(shares)} runs of {FEW} the shortest interval of a difference has at least "
            f"{min(shares):.3f} of the width that the same answers have at variance 1."
        ]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--row", action="append", choices=list(ROWS))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if not args.table:
        for name in args.row or ROWS:
            for seed in range(args.first, args.first + args.runs):
                with args.out.open("a") as file:
                    file.write(json.dumps(one_run(name, seed)) + "\n")
    print(table(args.out))


if __name__ == "__main__":
    main()
