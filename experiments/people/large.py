"""Time and memory of tastes of many people.

    python experiments/people/large.py small      # 5,000 people x 10 duels, 100 items: a whole fit
    python experiments/people/large.py large      # 100,000 x 10, 10,000 items, m = 128
    python experiments/people/large.py streamed   # the same as a stream, tastes of features alone
    python experiments/people/large.py one        # one of 50 with 50,000 duels between 300 items

Duels are made of a shared utility and one of each person's own, random functions of three
features, at 2 sigma² = 1. Peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd

import sparse_prefgp as spg

SIZES = {
    "small": (5_000, 10, 100),
    "large": (100_000, 10, 10_000),
    "streamed": (100_000, 10, 10_000),
    "one": (50, 20, 300),
}
FEATURES, WAVES, ONE = 3, 64, 50_000


def drawn(people: int, each: int, items: int, rng: np.random.Generator, more: int = 0):
    """Items (n, 3), duels (t, 2), winner first, and whose each is; one person has `more` duels.

    A utility is a sum of random waves, which is close to a draw with the kernel se.
    """
    x = rng.normal(size=(items, FEATURES))
    waves = np.sqrt(2.0 / WAVES) * np.cos(
        x @ rng.normal(size=(FEATURES, WAVES)) + rng.uniform(0.0, 2.0 * np.pi, WAVES)
    )
    shared = 1.5 * waves @ rng.normal(size=WAVES)
    who = np.concatenate([np.repeat(np.arange(people), each), np.zeros(more, int)])
    own = 1.5 * rng.normal(size=(people, WAVES))
    ends = rng.integers(items, size=(len(who), 2))
    ends[:, 1] = (ends[:, 0] + rng.integers(1, items, size=len(who))) % items
    step = shared[ends[:, 0]] - shared[ends[:, 1]] + rng.normal(size=len(who))
    for start in range(0, len(who), 100_000):
        some = slice(start, start + 100_000)
        apart = waves[ends[some, 0]] - waves[ends[some, 1]]
        step[some] += np.sum(own[who[some]] * apart, 1)
    return x, np.where(step[:, None] > 0.0, ends, ends[:, ::-1]), who


def kernel(effect: float | None) -> gpflow.kernels.Kernel:
    squared = gpflow.kernels.SquaredExponential(1.0, float(np.sqrt(FEATURES)))
    gpflow.set_trainable(squared.lengthscales, False)
    return squared if effect is None else squared + spg.ItemEffect(effect)


def peak() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB"


class Watch:
    def __init__(self) -> None:
        self.start = time.perf_counter()

    def say(self, what: str) -> None:
        seconds, self.start = time.perf_counter() - self.start, time.perf_counter()
        print(f"{what}: {seconds:.1f} s, peak {peak()}", flush=True)
        self.start = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--iterations", type=int, default=5, help="but for `small`, a whole fit")
    given = parser.parse_args()
    people, each, items = SIZES[given.size]
    rng, watch = np.random.default_rng(0), Watch()
    x, ends, who = drawn(people, each, items, rng, ONE if given.size == "one" else 0)
    watch.say(f"{len(who):,} duels of {people:,} people drawn")
    if given.size == "streamed":
        streamed(x, ends, who, given.iterations, watch)
        return
    duels = spg.Duels(x, *ends.T, people=who)
    exact = items <= 300
    model = spg.PreferenceGP(
        duels,
        kernel(None if items > 300 else 0.1),
        terms=[spg.Taste(kernel(0.1))],
        approximation=spg.Exact() if exact else spg.VFE(),
        inducing_variable=None if exact else x[rng.choice(items, 128, replace=False)],
    )
    if not exact:
        gpflow.set_trainable(model.inducing_variable, False)
    watch.say("model made")
    spg.default_priors(model)
    kept = spg.begin_tastes(model)
    watch.say(f"both starts compared, {kept} kept")
    before = model.inference.total_sweeps
    report = spg.optimise(model, *(() if given.size == "small" else (given.iterations,)))
    watch.say(
        f"{report.iterations} iterations, {report.evaluations} evaluations, "
        f"{model.inference.total_sweeps - before} sweeps; evidence {report.log_evidence:,.0f} nats"
    )
    some = rng.integers(people, size=10_000)
    pairs = rng.integers(items, size=(2, len(some)))
    inputs = model.inputs.of_items()
    model.predict_duel(inputs[pairs[0]], inputs[pairs[1]], people=some)
    watch.say("10,000 pairs of known people predicted")
    found = model.people.tastes(inputs[:200])
    watch.say(f"tastes of all people for 200 items, {found.shape}")
    if given.size == "large":
        found = model.people.tastes(inputs[:2_000])
        watch.say(f"tastes of all people for 2,000 items, {found.nbytes / 2**30:.2f} GB of numbers")


def streamed(
    x: np.ndarray, ends: np.ndarray, who: np.ndarray, iterations: int, watch: Watch
) -> None:
    with tempfile.TemporaryDirectory() as name:
        frame = pd.DataFrame({"winner": ends[:, 0], "loser": ends[:, 1], "who": who})
        frame.to_parquet(Path(name) / "duels.parquet", index=False)
        duels = spg.stream_duels(Path(name) / "duels.parquet", x, person="who")
        watch.say("stream opened")
        model = spg.StreamedGP(
            duels,
            kernel(None),
            terms=[spg.Taste(kernel(None))],
            inducing_variable=x[np.random.default_rng(0).choice(len(x), 128, replace=False)],
        )
        gpflow.set_trainable(model.inducing_variable, False)
        watch.say("model made")
        report = spg.optimise(model, iterations)
        watch.say(
            f"{report.iterations} iterations, {report.evaluations} evaluations; evidence "
            f"{report.log_evidence:,.0f} nats"
        )
        model.close()


if __name__ == "__main__":
    main()
