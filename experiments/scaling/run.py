"""Time and memory against the number of duels and of inducing inputs, with fitted exponents.

    python experiments/scaling/run.py

Every point is a process of its own, so that memory is its own too.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DUELS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
INDUCING = (32, 64, 128, 256, 512)
MIDDLE_M, MIDDLE_T = 128, 100_000
# Items of a shape of data: of few, compared again and again, and of items that are all different.
SHAPES = {"shared": lambda t: max(t // 20, 600), "distinct": lambda t: 2 * t}
FIGURES = {
    "infer_seconds": "from cold sites to 1e-4, s",
    "sweep_seconds": "a sweep, s",
    "gradient_seconds": "evidence and gradient, s",
    "memory_bytes": "memory above imports, bytes",
}


def point(shape: str, t: int, m: int) -> dict[str, Any]:
    """One model, with compilation apart."""
    import gpflow
    import tensorflow as tf

    import sparse_prefgp as spg
    from sparse_prefgp.benchmarks.problems import LENGTHSCALES, NOISE_VARIANCE, make_problem

    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n = SHAPES[shape](t)
    duels = make_problem(t, n, held_out=1).duels
    rng = np.random.default_rng(0)
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.Matern52(variance=9.0, lengthscales=np.asarray(LENGTHSCALES)),
        approximation=spg.VFE(),
        inducing_variable=duels.items[rng.choice(n, m, replace=False)],
        engine=spg.ParallelEP(tolerance=1e-4),
        noise_variance=NOISE_VARIANCE,
    )
    model.infer()  # compiles
    started = time.perf_counter()
    result = model.infer(restart=True)
    infer = time.perf_counter() - started

    @tf.function(autograph=False)
    def gradient() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return tape.gradient(loss, model.trainable_variables)

    gradient()
    started = time.perf_counter()
    gradient()
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "shape": shape, "t": t, "n": n, "m": m, "sweeps": result.sweeps,
        "converged": result.converged, "infer_seconds": infer,
        "sweep_seconds": infer / result.sweeps, "gradient_seconds": seconds,
        "memory_bytes": 1024 * (peak - base),
    }  # fmt: skip


def exponent(x: list[float], y: list[float]) -> tuple[float, float]:
    """Slope on log-log axes by least squares, and its standard error."""
    a, b = np.log(x), np.log(y)
    a = a - a.mean()
    slope = float(a @ b / (a @ a))
    left = b - b.mean() - slope * a
    return slope, float(np.sqrt(left @ left / (len(a) - 2) / (a @ a)))


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| items | t | n | m | sweeps | " + " | ".join(FIGURES.values()) + " |"]
    lines.append("|" + "---|" * (5 + len(FIGURES)))
    for r in rows:
        values = [f"{r[f]:.3g}" for f in FIGURES]
        start = f"| {r['shape']} | {r['t']:,} | {r['n']:,} | {r['m']} | {r['sweeps']} | "
        lines.append(start + " | ".join(values) + " |")
    lines += ["", "| items | in | from | " + " | ".join(FIGURES.values()) + " |"]
    lines.append("|" + "---|" * (3 + len(FIGURES)))
    for shape in SHAPES:
        for axis, least in (("t", 10_000), ("m", 32)):
            own = _series(rows, shape, axis, least)
            if len(own) < 3:
                continue
            x = [r[axis] for r in own]
            found = [exponent(x, [max(r[f], 1e-12) for r in own]) for f in FIGURES]
            cells = " | ".join(f"{slope:.2f} ± {error:.2f}" for slope, error in found)
            lines.append(f"| {shape} | {axis} | {x[0]:,} to {x[-1]:,} | {cells} |")
    return "\n".join(lines) + "\n"


def _series(rows: list[dict[str, Any]], shape: str, axis: str, least: int) -> list[dict[str, Any]]:
    other, middle = ("m", MIDDLE_M) if axis == "t" else ("t", MIDDLE_T)
    own = [r for r in rows if r["shape"] == shape and r[other] == middle and r[axis] >= least]
    return sorted({r[axis]: r for r in own}.values(), key=lambda r: r[axis])


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    from sparse_prefgp.plotting.canvas import new_figure, save

    figure = new_figure((11.0, 7.0))
    axes = figure.subplots(2, 2)
    looks = {"shared": ("#0072B2", "o"), "distinct": ("#D55E00", "s")}
    kinds = ("infer_seconds", "memory_bytes")
    for row, axis in zip(axes, ("t", "m"), strict=True):
        for ax, kind in zip(row, kinds, strict=True):
            for shape, (colour, marker) in looks.items():
                own = _series(rows, shape, axis, 0)
                if not own:
                    continue
                x, y = [r[axis] for r in own], [r[kind] for r in own]
                tail = [(a, b) for a, b in zip(x, y, strict=True) if axis == "m" or a >= 10_000]
                label = shape
                if len(tail) > 2:
                    slope, error = exponent(*map(list, zip(*tail, strict=True)))
                    label = f"{shape}: {axis}^({slope:.2f} ± {error:.2f})"
                ax.loglog(x, y, marker + "-", color=colour, label=label)
            if axis == "m":
                ax.set_xticks(INDUCING, [str(m) for m in INDUCING])
                ax.minorticks_off()
            rest = f"m = {MIDDLE_M}" if axis == "t" else f"t = {MIDDLE_T:,}"
            ax.set_xlabel(("duels" if axis == "t" else "inducing inputs") + f", {rest}")
            ax.set_ylabel(FIGURES[kind])
            ax.legend(fontsize=9)
            ax.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--largest", type=int, default=DUELS[-1])
    parser.add_argument("--point", nargs=3, metavar=("SHAPE", "T", "M"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        shape, t, m = given.point
        print(json.dumps(point(shape, int(t), int(m))))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    asked = [(t, MIDDLE_M) for t in DUELS if t <= given.largest]
    asked += [(MIDDLE_T, m) for m in INDUCING if m != MIDDLE_M and given.largest >= MIDDLE_T]
    rows = []
    for shape in SHAPES:
        for t, m in asked:
            words = [sys.executable, __file__, "--point", shape, str(t), str(m)]
            found = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True)
            if found.returncode:
                print(f"{shape}, t = {t:,}, m = {m}: failed ({found.returncode})", flush=True)
                continue
            rows.append(json.loads(found.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
    with (given.out / "points.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    text = table(rows)
    (given.out / "table.md").write_text(text, encoding="utf-8")
    print(text)
    draw(rows, given.out / "scaling.png")


if __name__ == "__main__":
    main()
