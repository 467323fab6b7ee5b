"""What each engine takes to its fixed point, as ratios to `ParallelEP`."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import VFE
from sparse_prefgp.engines import Engine, Laplace, ParallelEP, SequentialEP, Variational
from sparse_prefgp.lab.benchmarks.problems import LENGTHSCALES, NOISE_VARIANCE, SPREAD, make_problem
from sparse_prefgp.lab.benchmarks.report import Bars, BenchmarkTable, Report, milliseconds, seconds
from sparse_prefgp.models import PreferenceGP, kmeans_inputs

BASE = "ParallelEP"
# One site after the other takes t small steps a sweep: it is timed once, on so many duels.
SEQUENTIAL_T = 10_000
_SEQUENTIAL = {
    "SequentialEP": SequentialEP(),
    "SequentialEP, power 0.5": SequentialEP(site_power=0.5),
}


def engines() -> dict[str, Engine]:
    """The engines that take all sites at once, `ParallelEP` first."""
    return {
        BASE: ParallelEP(),
        "ParallelEP, power 0.5": ParallelEP(site_power=0.5),
        "Variational": Variational(),
        "Laplace, probit": Laplace(),
        "Laplace, logit": Laplace(link="logit"),
    }


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """To the fixed point from zero, at 10,000 duels between 2,000 items, 200 inducing inputs."""
    del budget  # nothing here is stopped by time
    return (
        measure(1_000, 200, 20, 100, 1) if quick else measure(10_000, 2_000, 200, SEQUENTIAL_T, 5)
    )


def measure(t: int, n: int, m: int, sequential_t: int, repeats: int) -> Report:
    """With `sequential_t` duels for the sequential engines, and one repeat."""
    many = _times(t, n, m, engines(), repeats)
    few = _times(
        sequential_t,
        max(n * sequential_t // t, 20),
        min(m, max(n * sequential_t // t, 20) // 2),
        {BASE: ParallelEP(), **_SEQUENTIAL},
        1,
    )
    notes = (
        f"medians of {repeats}, from zero to the engine's own tolerance; a first call, which "
        "traces and compiles, is not counted",
    )
    tables = [_table(many, notes), _table(few, ("one repeat",))]
    panels = (_bars(many), _bars(few))
    return Report("engines", tuple(tables), {"parallel": many, "sequential": few}, panels=panels)


def _times(t: int, n: int, m: int, given: dict[str, Engine], repeats: int) -> dict[str, Any]:
    duels = make_problem(t, n, held_out=1).duels
    model = PreferenceGP(
        duels,
        gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES)),
        approximation=VFE(),
        inducing_variable=kmeans_inputs(duels.items, m, np.random.default_rng(0)),
        noise_variance=NOISE_VARIANCE,
    )
    found: dict[str, dict[str, Any]] = {}
    for name, engine in given.items():
        model.engine = engine
        first, *others = (seconds(lambda: model.infer(restart=True)) for _ in range(repeats + 1))
        taken = float(np.median(others))
        result = model.infer()
        found[name] = {
            "first_seconds": first,
            "seconds": taken,
            "ratio": taken / (found[BASE]["seconds"] if found else taken),
            "sweeps": result.sweeps,
            "converged": result.converged,
            "log_evidence": model.log_evidence(),
        }
    return {"t": t, "n": n, "m": m, "engines": found}


def _bars(figures: dict[str, Any]) -> Bars:
    values = {name: float(each["ratio"]) for name, each in figures["engines"].items()}
    return Bars(f"time, of {BASE}; {figures['t']:,} duels", values)


def _table(figures: dict[str, Any], notes: tuple[str, ...]) -> BenchmarkTable:
    rows = tuple(
        (
            name,
            milliseconds(each["seconds"]),
            f"{each['ratio']:.2f}",
            str(each["sweeps"]),
            milliseconds(each["seconds"] / each["sweeps"]),
            "yes" if each["converged"] else "no",
        )
        for name, each in figures["engines"].items()
    )
    return BenchmarkTable(
        title=f"To the fixed point, {figures['t']:,} duels, {figures['n']:,} items, "
        f"{figures['m']} inducing inputs",
        columns=("engine", "time", f"of {BASE}", "sweeps", "a sweep", "converged"),
        rows=rows,
        notes=notes,
    )
