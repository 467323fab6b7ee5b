"""A sweep over answers about sets, next to one over as many rows of duels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import VFE
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.events import CHOICE, RANKING, WIN, Events
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.engines.propagation import evaluate
from sparse_prefgp.factors.sites import Sites
from sparse_prefgp.lab.benchmarks.problems import (
    FEATURES,
    LENGTHSCALES,
    NOISE_VARIANCE,
    SPREAD,
    random_utility,
)
from sparse_prefgp.lab.benchmarks.report import BenchmarkTable, Report, in_turns, milliseconds
from sparse_prefgp.models import PreferenceGP

DUELS = "duels"
_SETTLING_SWEEPS = 4


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """20,000 choices of 4 between 1,000 items with 128 inducing inputs, and 60,000 duels."""
    del budget  # nothing here is stopped by time
    return measure(300, 60, 16, 3) if quick else measure(20_000, 1_000, 128, 15)


def measure(count: int, n: int, m: int, repeats: int) -> Report:
    """Sweeps in turns, so that what else the machine does meets all alike."""
    rows = 3 * count
    said = {
        DUELS: answers(WIN, rows, 2, n),
        "choices of 4": answers(CHOICE, count, 4, n),
        "rankings of 4": answers(RANKING, count, 4, n),
        "choices of 4, in blocks of rows": answers(CHOICE, count, 4, n),
    }
    sweeps, sites = {}, {}
    for name, duels in said.items():
        over = "duels" if name.endswith("rows") else None
        sweeps[name], sites[name] = _sweep(duels, m, over)
    taken = {name: float(np.median(v)) for name, v in in_turns(sweeps, repeats).items()}
    ratio = {name: value / taken[DUELS] for name, value in taken.items()}
    table = BenchmarkTable(
        title=f"One sweep over {rows:,} rows, {n:,} items, {m} inducing inputs",
        columns=("answers", "sites", "time", "of duels"),
        rows=tuple(
            (name, f"{sites[name]:,}", milliseconds(value), f"{ratio[name]:.2f}")
            for name, value in taken.items()
        ),
        notes=(f"medians of {repeats}, compiled, one after the other in turns; VFE",),
    )
    figures = {"rows": rows, "n": n, "m": m, "seconds": taken, "ratio": ratio}
    return Report("sets", (table,), figures)


def answers(kind: int, count: int, size: int, n: int, seed: int = 0) -> Duels:
    """Answers about sets of different items, each with one noise for each alternative of a look."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n, FEATURES))
    utility = random_utility(rng)(items)
    drawn = rng.integers(n, size=(count, size))
    while len(again := np.flatnonzero(np.any(np.diff(np.sort(drawn, 1)) == 0, 1))):
        drawn[again] = rng.integers(n, size=(len(again), size))
    noisy = utility[drawn] + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(drawn.shape)
    sides = np.take_along_axis(drawn, np.argsort(-noisy, 1), 1)
    events = Events(
        sides.reshape(-1),
        np.arange(count + 1) * size,
        np.full(count, kind, np.int8),
        np.ones(count, np.int64),
        ordered=None if kind == WIN else np.zeros(count, np.int64),
    )
    return Duels.from_events(items, events)


def _sweep(duels: Duels, m: int, over: str | None) -> tuple[Callable[[], Any], int]:
    """A sweep from sites that have settled, and how many sites there are."""
    items = duels.items
    model = PreferenceGP(
        duels,
        gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES)),
        approximation=VFE(over=over),
        inducing_variable=items[np.random.default_rng(1).choice(len(items), m, replace=False)],
        noise_variance=NOISE_VARIANCE,
    )
    prior, t = model.approximation.prior(model.problem()), model.graph.num_sites
    engine = ParallelEP(max_sweeps=_SETTLING_SWEEPS)
    sites = engine.run(
        prior.covariance, prior.factors, Sites.zeros(t, gpflow.default_float())
    ).sites

    @tf.function(autograph=False)
    def compiled(nu: tf.Tensor, tau: tf.Tensor) -> tf.Tensor:
        result = evaluate(prior.covariance, prior.factors, Sites(nu, tau))
        # All that the next sweep needs, so that nothing is pruned away.
        return result.proposal, result.change, result.half_log_det

    return lambda: compiled(*sites)[1].numpy(), t
