"""What people would use instead, side by side on the same duels, machine and clock.

python experiments/peers/run.py --peers .venv-peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis.rivals import probit_of
from sparse_prefgp.models import kmeans_inputs
from sparse_prefgp.support.versions import versions

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.benchmarks.shared import (
    NOISE_VARIANCE,
    Problem,
    make_problem,
    random_utility,
)
from experiments.benchmarks.svgp import (
    RIVALS,
    Case,
    train_ours,
    train_rival,
)

HERE = Path(__file__).resolve().parent
HELD_OUT = 5_000
COLUMNS = ("method", "nats", "fit, s", "compiling, s", "what was done")
# A fit whose end is a budget counts as done when it is within so many nats of where it ended.
SETTLED = 3e-4


@dataclass
class Row:
    """One method on one problem, scored where it ends; nothing is chosen by the new duels."""

    method: str
    nats: float
    seconds: float
    """Of the fit, without compiling."""
    compile_seconds: float = 0.0
    note: str = ""
    curve: tuple[list[float], list[float]] | None = field(default=None, repr=False)
    """Seconds and nats along it."""


@dataclass(frozen=True)
class Setting:
    """A problem and who takes part."""

    name: str
    title: str
    duels: int
    items: int
    inducing: int
    peers: tuple[str, ...]
    svgp: bool
    same_items: bool = False


SETTINGS = (
    Setting(
        "pairwise_gp",
        "2,000 duels between 1,000 items; new duels between new items",
        2_000, 1_000, 100, ("botorch",), svgp=True,
    ),
    Setting(
        "svgp",
        "20,000 duels between 4,000 items; new duels between new items",
        20_000, 4_000, 100, (), svgp=True,
    ),
    Setting(
        "same_items",
        "4,000 duels between 200 items; new duels between the same items",
        4_000, 200, 100, ("botorch", "bradley-terry", "choix-ep"), svgp=False, same_items=True,
    ),
)  # fmt: skip


def made(setting: Setting) -> tuple[Problem, dict[str, np.ndarray]]:
    """The problem, and the same for the peers."""
    problem = make_problem(setting.duels, setting.items, HELD_OUT, smooth=True)
    duels = problem.duels
    arrays = {"items": duels.items, "winners": duels.winners, "losers": duels.losers}
    if setting.same_items:
        # The same utility, decided again between items that are known.
        rng = np.random.default_rng(0)
        utility = random_utility(rng, smooth=True)(duels.items)
        rng = np.random.default_rng(1)
        pairs = rng.permuted(np.tile(np.arange(setting.items), (HELD_OUT, 1)), axis=1)[:, :2]
        noisy = utility[pairs] + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(pairs.shape)
        order = np.argsort(-noisy, axis=1)
        won, lost = np.take_along_axis(pairs, order, axis=1).T
        arrays |= {"new_winners": won, "new_losers": lost}
        problem = Problem(duels, duels.items[won], duels.items[lost])
    arrays |= {"new_first": problem.winners, "new_second": problem.losers}
    return problem, arrays


def ours(setting: Setting, problem: Problem, budget: float) -> list[Row]:
    case = Case(setting.duels, setting.items, smooth=True)
    start = kmeans_inputs(problem.duels.items, setting.inducing, np.random.default_rng(0))
    rows = []
    for name, approximation in (("VFE", spg.VFE()), ("power ½", spg.PriorPower(0.5))):
        trace, (seconds, nats) = train_ours(case, problem, start, budget, approximation)
        rows.append(_last(f"sparse_prefgp, {name}", trace, seconds, nats, setting.inducing))
    if setting.svgp:
        for name in RIVALS:
            trace, (seconds, nats) = train_rival(case, problem, start, budget, name)
            rows.append(_last(f"GPflow {name}", trace, seconds, nats, setting.inducing))
    if setting.items <= 1_000:
        rows.append(_exact(problem, case))
    rows.append(_linear(problem))
    return rows


def _last(name: str, trace: Any, seconds: np.ndarray, nats: np.ndarray, m: int) -> Row:
    note = f"{m} inducing inputs, {trace.steps:,} steps, {trace.ended}"
    return Row(
        name, float(nats[-1]), float(seconds[-1]), trace.compile_seconds, note,
        (seconds.tolist(), nats.tolist()),
    )  # fmt: skip


def _exact(problem: Problem, case: Case) -> Row:
    model = spg.PreferenceGP(
        problem.duels, case.kernel(), approximation=spg.Exact(), noise_variance=NOISE_VARIANCE
    )
    started = time.perf_counter()
    report = spg.optimise(model, max_iterations=100)
    seconds = time.perf_counter() - started - report.compile_seconds
    log_p = np.log(model.predict_duel(problem.winners, problem.losers))
    note = f"{report.iterations} iterations"
    return Row("sparse_prefgp, exact", _nats(log_p), seconds, report.compile_seconds, note)


def _linear(problem: Problem) -> Row:
    duels = problem.duels
    differences = duels.items[duels.winners] - duels.items[duels.losers]
    started = time.perf_counter()
    probit = probit_of(differences)
    seconds = time.perf_counter() - started
    log_p = log_ndtr((problem.winners - problem.losers) @ probit.coefficients)
    return Row("linear probit", _nats(log_p), seconds)


def _nats(log_p: np.ndarray) -> float:
    return float(-log_p.mean())


def peer(
    python: Path, method: str, arrays: dict[str, np.ndarray], threads: int
) -> tuple[Row, dict[str, str]]:
    """A peer's row, and the versions that it ran with."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "problem.npz", Path(folder) / "answer.json"
        np.savez(source, **arrays)
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        command = [str(python), str(HERE / "worker.py"), method, str(source), str(target)]
        subprocess.run(command, check=True, env=environment)
        found = json.loads(target.read_text(encoding="utf-8"))
    names = {
        "botorch": "BoTorch PairwiseGP",
        "bradley-terry": "Bradley–Terry (choix)",
        "choix-ep": "choix EP",
    }
    note = "; ".join([found["note"], *found["warnings"]])
    return Row(names[method], found["nats"], found["seconds"], note=note), found["versions"]


def reached(row: Row, nats: float) -> float:
    """Seconds, without compiling, until a fit was at least so good, if ever; a step at least."""
    assert row.curve is not None
    seconds, scores = (np.asarray(x)[1:] for x in row.curve)
    hits = np.flatnonzero(scores <= nats)
    return float(seconds[hits[0]]) if len(hits) else float("nan")


def settled(row: Row) -> float:
    """When a fit was as good as where it ended."""
    return row.seconds if row.curve is None else reached(row, row.nats + SETTLED)


def table(setting: Setting, rows: list[Row]) -> str:
    lines = [
        f"### {setting.title}",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
    ]
    for row in rows:
        compiling = f"{row.compile_seconds:.1f}" if row.compile_seconds else ""
        cells = (row.method, f"{row.nats:.4f}", f"{row.seconds:.2f}", compiling, row.note)
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for row in (r for r in rows if r.method.startswith("sparse_prefgp") and r.curve):
        for other in rows:
            if other.method.startswith(("sparse_prefgp", "linear")):
                continue
            theirs, own = settled(other), reached(row, other.nats)
            if np.isnan(own):
                lines.append(f"- {row.method} does not come to the score of {other.method}.")
                continue
            whole, other_whole = own + row.compile_seconds, theirs + other.compile_seconds
            lines.append(
                f"- {row.method} is as good as {other.method} ({other.nats:.4f}) after "
                f"{own:.2f} s, "
                f"{whole:.2f} s with compiling; {other.method} takes {theirs:.2f} s, "
                f"{other_whole:.2f} s with compiling: {theirs / own:.1f} and "
                f"{other_whole / whole:.1f} times as long."
            )
    return "\n".join([*lines, ""])


def study(given: argparse.Namespace) -> None:
    parts, figures, ran = [], [], versions()
    chosen = [s for s in SETTINGS if not given.only or s.name in given.only]
    for setting in chosen:
        problem, arrays = made(setting)
        rows = ours(setting, problem, given.budget)
        for method in setting.peers:
            if given.peers is None:
                print(f"{method} left out: no --peers", flush=True)
                continue
            row, its = peer(given.peers, method, arrays, os.cpu_count() or 1)
            rows.append(row)
            ran |= its
        rows.sort(key=lambda row: row.nats)
        parts.append(table(setting, rows))
        print(parts[-1], flush=True)
        figures.append({"setting": setting.name, "rows": [vars(row) for row in rows]})
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "table.md").write_text("\n".join(parts), encoding="utf-8")
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    told = {"date": date, "versions": ran, "machine": platform.machine(), "cores": os.cpu_count()}
    (given.out / "peers.json").write_text(
        json.dumps({**told, "problems": figures}, indent=1), encoding="utf-8"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path, help="the Python in which choix and BoTorch are")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each optimiser")
    parser.add_argument("--only", nargs="*", choices=[s.name for s in SETTINGS])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    study(parser.parse_args())


if __name__ == "__main__":
    main()
