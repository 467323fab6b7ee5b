"""What the benchmarks share: made-up duels with a known utility, clocks, memory, tables and files.

Each script has `measure`, which takes sizes and returns a table and the figures behind it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

import sparse_prefgp as spg
from sparse_prefgp.support.versions import versions
from sparse_prefgp.tell.markup import as_markdown
from sparse_prefgp.tell.tables import Table

FEATURES = 4
# Standard deviation of the utility and lengthscales of the process it is drawn from.
SPREAD = 3.0
LENGTHSCALES = (1.5, 2.0, 3.0, 4.0)
NOISE_VARIANCE = 0.5  # per side, so 2 sigma² = 1
_CHUNK = 20_000  # items whose utilities are computed at once

Utility = Callable[[np.ndarray], np.ndarray]
Measured = tuple[Table, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Problem:
    """Training duels, and held-out duels between items of which none is in training."""

    duels: spg.Duels
    winners: np.ndarray
    """(held-out duels, D) features."""
    losers: np.ndarray
    """(held-out duels, D) features."""


def random_utility(rng: np.random.Generator, smooth: bool = False, waves: int = 500) -> Utility:
    """A draw from a Matérn-5/2 process, by random Fourier features.

    :param smooth: from a squared-exponential process instead, which few inducing inputs explain.
    """
    frequencies = rng.standard_normal((FEATURES, waves)) / np.asarray(LENGTHSCALES)[:, None]
    if not smooth:
        # The spectral density of Matérn nu is a multivariate t with 2 nu degrees of freedom.
        frequencies *= np.sqrt(5.0 / rng.chisquare(5.0, waves))
    phases = rng.uniform(0.0, 2.0 * np.pi, waves)
    weights = rng.standard_normal(waves) * SPREAD * np.sqrt(2.0 / waves)

    def utility(x: np.ndarray) -> np.ndarray:
        found = np.empty(len(x))
        for start in range(0, len(x), _CHUNK):  # (n, waves) numbers are too many at once
            at = slice(start, start + _CHUNK)
            found[at] = np.cos(x[at] @ frequencies + phases) @ weights
        return found

    return utility


def make_problem(t: int, n: int, held_out: int = 1, smooth: bool = False, seed: int = 0) -> Problem:
    """`t` distinct duels between `n` items, normal features.

    With n = 2t every item has one duel; with fewer items the pairs are drawn at random. `smooth` as
    for `random_utility`.
    """
    rng = np.random.default_rng(seed)
    utility = random_utility(rng, smooth)
    items = rng.standard_normal((n, FEATURES))
    pairs = np.arange(n).reshape(t, 2) if n == 2 * t else _random_pairs(t, n, rng)
    first, second = decide(utility(items)[pairs], rng)
    rows = np.arange(t)
    duels = spg.Duels(items, pairs[rows, first], pairs[rows, second])

    fresh = rng.standard_normal((held_out, 2, FEATURES))
    values = utility(fresh.reshape(-1, FEATURES)).reshape(held_out, 2)
    first, second = decide(values, rng)
    rows = np.arange(held_out)
    return Problem(duels, fresh[rows, first], fresh[rows, second])


def _random_pairs(t: int, n: int, rng: np.random.Generator) -> np.ndarray:
    if t > n * (n - 1) // 2:
        raise ValueError(f"{n} items have fewer than {t} distinct pairs.")
    keys = np.zeros(0, dtype=np.int64)
    while len(keys) < t:
        low, high = np.sort(rng.integers(0, n, (2, t)), axis=0)
        keys = np.unique(np.concatenate([keys, (low * n + high)[low != high]]))
    keys = rng.permutation(keys)[:t]
    return np.stack(np.divmod(keys, n), 1)


def decide(values: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Position, 0 or 1, of the winner and of the loser of each pair of utilities (t, 2)."""
    noisy = values + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(values.shape)
    winner = np.argmax(noisy, 1)
    return winner, 1 - winner


def true_kernel() -> gpflow.kernels.Kernel:
    """That of the utility."""
    return gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES))


def some_items(items: np.ndarray, m: int) -> np.ndarray:
    """(m, D) different ones."""
    return items[np.random.default_rng(0).choice(len(items), m, replace=False)]


def seconds(function: Callable[[], Any]) -> float:
    """Time of one call."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def median_seconds(function: Callable[[], Any], repeats: int = 5) -> float:
    """Median time of a call. The first call, which may trace and compile, is not counted."""
    return float(np.median(in_turns({"": function}, repeats)[""]))


def in_turns(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Times of each function, called in turns, so that what else the machine does meets all alike.

    A first call of each, which may trace and compile, is not counted.
    """
    for function in functions.values():
        function()
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            taken[name].append(seconds(function))
    return taken


def in_own_process(function: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """What it returns, called in a fresh process, so that its memory is its own too."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *given).result()


def memory(kind: str) -> int:
    """Bytes of this process in memory now (VmRSS), or at most so far (VmHWM), on Linux."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(kind))


def milliseconds(value: float) -> str:
    return f"{1e3 * value:.1f} ms"


def gibibytes(count: int) -> str:
    return f"{count / 2**30:.2f} GiB"


def main(
    about: str | None,
    run: Callable[[bool], Measured],
    draw: Callable[[dict[str, Any], Path], None] | None = None,
) -> None:
    """Run a benchmark from the command line: print its table, keep it and the figures.

    :param about: the docstring of the script.
    :param run: called with whether sizes are to be small.
    :param draw: writes a picture of the figures.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--out", type=Path, help="folder for the table and the figures")
    chosen = parser.parse_args()
    table, figures = run(chosen.quick)
    print(table, flush=True)
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        path = chosen.out / f"{table.name}.json"
        machine = {"system": platform.platform(), "cores": os.cpu_count(), **versions()}
        told = {"name": table.name, "machine": machine, "figures": figures}
        path.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(as_markdown(table), encoding="utf-8")
        if draw is not None:
            draw(figures, path.with_suffix(".png"))
