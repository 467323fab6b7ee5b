"""How much the resident set of a process grows while models that nearly need it infer and score.

`python -m tests.memory_growth APPROXIMATION` tells the package that 1 GB is free, and prints a line
of JSON for each model, engine and size: the bytes by which memory grew, or what was refused.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

import sparse_prefgp as spg
from sparse_prefgp.approximations import layout
from sparse_prefgp.data.answers import BEST_WORST, BEST_WORST_AT_ONCE, Answers
from sparse_prefgp.support import machine

GIB = 1 << 30
ENGINES = (spg.ParallelEP, spg.Laplace, spg.Variational, spg.SequentialEP)
APPROXIMATIONS = {
    "exact": spg.Exact(),
    "dtc": spg.DTC(),
    "vfe": spg.VFE(),
    "vfe over duels": spg.VFE(over="duels"),
    "tight-vfe": spg.TightVFE(),
    "fitc": spg.FITC(),
    "pitc": spg.PITC(200),
}
CLEAR = Path("/proc/self/clear_refs")


def resident(name: str) -> int:
    """Bytes of a line of /proc/self/status: VmRSS, or VmHWM for the most since `forget`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise OSError(name)


def forget() -> None:
    """Give back what is free, so that all that is taken from here on counts."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    CLEAR.write_text("5")


def duels(n: int, t: int) -> spg.Duels:
    rng = np.random.default_rng(0)
    winners = rng.integers(n, size=t)
    return spg.Duels(rng.normal(size=(n, 2)), winners, (winners + rng.integers(1, n, t)) % n)


def answers(n: int, sets: int, k: int, kind: int) -> Answers:
    rng = np.random.default_rng(1)
    sides = np.concatenate([rng.choice(n, k, replace=False) for _ in range(sets)])
    each = np.arange(sets + 1) * k
    return Answers(sides, each, kind=np.full(sets, kind, np.int8))


def sizes(exact: bool, sequential: bool) -> Iterator[tuple[int, int, int]]:
    """Items, duels and inducing inputs, below what fits and above."""
    if exact:
        yield from ((1_000, 2_000, 0), (3_400, 9_000, 0), (5_500, 9_000, 0))
    elif sequential:
        yield from ((1_000, 2_000, 64), (2_000, 4_900, 128))
    else:
        yield from ((20_000, 40_000, 64), (70_000, 150_000, 256), (100_000, 90_000, 256))
        yield 200_000, 300_000, 256


def grown(model: spg.PreferenceGP) -> dict[str, Any]:
    forget()
    before = resident("VmRSS")
    try:
        model.infer()
        n = len(model.duels.items)
        for kind in (BEST_WORST, BEST_WORST_AT_ONCE):
            model.predict(answers(n, 500, 5, kind))
    except MemoryError as error:
        return {"refused": str(error)}
    return {"grown": resident("VmHWM") - before}


def main(name: str) -> None:
    for module in (machine, layout):
        module.free_memory = lambda: GIB  # type: ignore[attr-defined]
    approximation = APPROXIMATIONS[name]
    for engine in ENGINES:
        for n, t, m in sizes(name == "exact", engine is spg.SequentialEP):
            data = duels(n, t)
            model = spg.PreferenceGP(
                data,
                gpflow.kernels.SquaredExponential(),
                approximation=approximation,
                inducing_variable=data.items[:m].copy() if m else None,
                engine=engine(max_sweeps=2),
            )
            found = grown(model)
            del model
            print(json.dumps({"engine": engine.__name__, "size": [n, t, m], **found}), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1])
