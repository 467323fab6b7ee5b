"""One model in a process of its own, so that its memory is its own too.

    python -m sparse_prefgp.lab.benchmarks.point '{"t": 10000, "n": 2000, "m": 64}'

prints its figures as one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import VFE
from sparse_prefgp.engines import ParallelEP, PartitionedEP
from sparse_prefgp.io.streams import stream_duels
from sparse_prefgp.lab.benchmarks.problems import LENGTHSCALES, NOISE_VARIANCE, SPREAD, make_problem
from sparse_prefgp.lab.benchmarks.report import seconds
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.streaming import StreamedGP
from sparse_prefgp.support.machine import free_memory, largest_resident

TOLERANCE = 1e-4
# A gradient keeps some fourteen (n, m) arrays of the kernel between the items and inducing inputs.
_ARRAYS_OF_A_GRADIENT = 14
# Duels of a stream up to which it is inferred twice.
_COMPILED_BEFORE = 1_000_000


@dataclass(frozen=True)
class BenchmarkPoint:
    """t duels between n items (2 t: all distinct) with m inducing inputs, VFE."""

    t: int
    n: int
    m: int
    parts: int = 0
    """0 for `ParallelEP`, else P of `PartitionedEP`."""
    folder: str = ""
    """Of `problems.write_duels`, whose duels `StreamedGP` reads; empty for duels in memory."""
    scheduler: str = ""
    """Of its parts, "local" for Dask workers on this machine; empty for parts one after the other
    in one process.
    """

    @property
    def compiles_before(self) -> bool:
        """Whether a stream is inferred once before the time begins."""
        return bool(self.scheduler) or self.t <= _COMPILED_BEFORE

    def run(self) -> dict[str, Any]:
        """The figures, measured in another process.

        :raises RuntimeError: the process failed, for example for want of memory.
        """
        words = [sys.executable, "-m", __spec__.name, json.dumps(asdict(self))]
        found = subprocess.run(
            words, check=False, capture_output=True, text=True, env=_same_threads()
        )
        if found.returncode:
            last = (found.stderr.strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"{self} ended with code {found.returncode}: {last}")
        figures: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
        return figures


def _same_threads() -> dict[str, str]:
    """The environment in which another process takes as many threads as this one was set to."""
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    return {**os.environ, **({name: str(threads) for name in names} if threads else {})}


def measure(point: BenchmarkPoint) -> dict[str, Any]:
    """From cold sites to 1e-4, kernel matrices included, compilation apart; memory above imports.

    sweep_seconds is the whole divided by the sweeps. gradient_seconds: of the evidence with its
    gradient, from converged sites, and gradient_memory_bytes the peak with it; None in parts, and
    where it would take more than half of the free memory. Of a stream of many duels the first
    inference is taken, compilation included. Memory is without that of workers.
    """
    imported = _memory("VmRSS")
    duels: Any
    if point.folder:
        items = np.load(Path(point.folder) / "items.npy")
        duels = stream_duels(Path(point.folder) / "duels", items)
    else:
        duels = make_problem(point.t, point.n, held_out=1).duels
        items = duels.items
    z = items[np.random.default_rng(0).choice(point.n, point.m, replace=False)]
    kernel = gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES))
    engine: Any = ParallelEP(tolerance=TOLERANCE)
    if point.parts:
        engine = PartitionedEP(parts=point.parts, tolerance=TOLERANCE)
    settings: dict[str, Any] = {"inducing_variable": z, "noise_variance": NOISE_VARIANCE}
    rounds: list[Any]
    if not point.folder:
        model: Any = PreferenceGP(duels, kernel, approximation=VFE(), engine=engine, **settings)
        model.infer()  # compiles
        taken = seconds(lambda: model.infer(restart=True))
        result, rounds = model.infer(), []
    else:
        place = point.scheduler or None
        model = StreamedGP(duels, kernel, engine=engine, scheduler=place, **settings)
        if point.compiles_before:
            model.infer()  # starts workers, too
        taken = seconds(lambda: model.infer(restart=True))
        result = model.infer()
        rounds = list(result.rounds)
    evidence, memory = model.log_evidence(), _memory("VmHWM") - imported
    gradient = _gradient_seconds(model, point)
    if point.folder:
        model.close()
    return {
        **asdict(point),
        "folder": "files" if point.folder else "",  # not the place of a folder that is gone
        "seconds": taken,
        "sweeps": result.sweeps,
        "sweep_seconds": taken / result.sweeps,
        "converged": result.converged,
        "log_evidence": evidence,
        "memory_bytes": memory,
        "gradient_seconds": gradient,
        "gradient_memory_bytes": None if gradient is None else _memory("VmHWM") - imported,
        "bytes_sent": [max(each.bytes_sent) for each in rounds],
        "bytes_received": [max(each.bytes_received) for each in rounds],
    }


def _gradient_seconds(model: Any, point: BenchmarkPoint) -> float | None:
    free = free_memory()
    needed = _ARRAYS_OF_A_GRADIENT * 8 * point.n * point.m
    if point.parts or point.folder or (free is not None and needed > free // 2):
        return None

    @tf.function(autograph=False)
    def gradient() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        found: list[tf.Tensor] = tape.gradient(loss, model.trainable_variables)
        return found

    gradient()  # compiles
    return seconds(gradient)


def _memory(kind: str) -> int:
    """Bytes in memory now (VmRSS), or at most so far (VmHWM)."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return largest_resident()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(kind))


if __name__ == "__main__":
    print(json.dumps(measure(BenchmarkPoint(**json.loads(sys.argv[1])))))
