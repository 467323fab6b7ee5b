"""Folders as a runner of studies leaves them, with numbers that look like those of real ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sparse_prefgp.support.plain import plain

SETTINGS = [
    *("study", "data", "split", "max_train", "seed", "kernel", "approximation", "engine"),
    *("inducing", "inducing_inputs", "hyperparameters", "duels", "items", "status", "reason"),
]
MS = (8, 16, 32, 64, 128)
OFFSET = {"vfe": 0.05, "fitc": 0.02, "dtc": 0.06, "tight-vfe": 0.04, "prior-power:0.5": 0.03}


def made_frame(
    study: str = "made",
    data: str = "boston",
    *,
    approximations: Sequence[str] = ("exact", "vfe", "fitc", "dtc", "subset:200"),
    inputs: Sequence[str] = ("kmeans",),
    hyperparameters: Sequence[str] = ("joint",),
    engines: Sequence[str] = ("ep",),
    ms: Sequence[int] = MS,
    seeds: Iterable[int] = range(5),
    sizes: Sequence[int] = (1000,),
    fails: Iterable[tuple[str, int | None, int]] = (("fitc", 64, 3),),
    baselines: bool = True,
    noise: int = 0,
) -> pd.DataFrame:
    """Results in long form; `fails` are (approximation, m, seed) of runs that failed."""
    rng = np.random.default_rng(noise)
    bad = set(fails)
    rows: list[dict[str, Any]] = []
    for seed, t in itertools.product(seeds, sizes):
        luck = 0.01 * rng.normal()
        common = {
            "study": study,
            "data": data,
            "split": "duels",
            "seed": seed,
            "duels": t,
            "max_train": t if len(sizes) > 1 else None,
            "items": min(t, 500),
        }
        for name in ("linear-probit", "coin") if baselines else ():
            settings = {
                "kernel": "none",
                "approximation": name,
                "engine": "none",
                "inducing": None,
                "inducing_inputs": "none",
                "hyperparameters": "none",
            }
            nats = 0.6931 if name == "coin" else 0.52 + luck
            values = {"accuracy": 0.5 if name == "coin" else 0.74, "nlp_nats": nats, "brier": 0.2}
            values |= {"calibration_error": 0.0, "fit_seconds": 1e-3}
            rows += _rows(common | settings, f"{data}-{name}-t{t}-s{seed}", values)
        for approximation, engine, learning in itertools.product(
            approximations, engines, hyperparameters
        ):
            sparse = approximation != "exact" and not approximation.startswith("subset")
            for m, way in itertools.product(ms, inputs) if sparse else ((None, "none"),):
                settings = {
                    "kernel": "se",
                    "approximation": approximation,
                    "engine": engine,
                    "inducing": m,
                    "inducing_inputs": way,
                    "hyperparameters": learning,
                }
                run = f"{data}-{approximation}-{engine}-m{m}-{way}-{learning}-t{t}-s{seed}"
                if (approximation, m, seed) in bad:
                    reason = "The matrix could not be factorised; add noise."
                    rows.append(_row(common | settings, run, "failed", reason, "", np.nan))
                    continue
                rows += _rows(common | settings, run, _values(approximation, m, way, t, luck, rng))
    whole = dict.fromkeys(("inducing", "seed", "duels", "items", "max_train"), "Int64")
    return pd.DataFrame(rows).astype(whole)


def write_study(folder: Path, frame: pd.DataFrame, title: str = "Inducing points") -> Path:
    """The folder of a study with these results."""
    (folder / "runs").mkdir(parents=True)
    name = str(frame["study"].iloc[0])
    study = {"name": name, "title": title, "approximations": ["exact", "vfe"], "seeds": [0, 1]}
    about = {"program": "sparse-prefgp ablate", "study": study, "sources": {}}
    (folder / "study.json").write_text(json.dumps(about))
    for number, (run, part) in enumerate(frame.groupby("run", sort=False)):
        first = part.iloc[0]
        settings = {name: first[name] for name in SETTINGS}
        record = {
            **{name: None if pd.isna(value) else value for name, value in settings.items()},
            "run": str(run).replace(":", ""),
            "number": number,
            "metrics": dict(part.loc[part["metric"] != "", ["metric", "value"]].to_numpy()),
            "notes": [],
            "commit": "abc1234",
            "machine": "some processor, 2 cores",
            "versions": {"python": "3.11.7", "tensorflow": "2.16.1"},
            "seconds": {"data": 0.1, "fit": 2.0},
        }
        file = folder / "runs" / f"{record['run']}.json"
        file.write_text(json.dumps(plain(record)))
    return folder


def _values(
    approximation: str, m: int | None, way: str, t: int, luck: float, rng: np.random.Generator
) -> dict[str, float]:
    own = 0.002 * rng.normal()
    if m is None:
        best = 0.42 if approximation == "exact" else 0.47
        values = {"nlp_nats": best + luck + own, "fit_seconds": 1e-8 * t**3}
        error = 0.0
    else:
        error = OFFSET.get(approximation, 0.05) * (8 / m) * (2.0 if way == "random" else 1.0)
        values = {
            "nlp_nats": 0.42 + error + luck + own,
            "kl_from_exact": 0.0 if approximation == "vfe" and m == 128 else 300 * error**2,
            "evidence_gap": (1 if approximation == "dtc" else -1) * 2e4 * error**2,
            "probability_rmse": error,
            "fit_seconds": 1e-5 * t * (m / 8) ** 1.5 * float(np.exp(0.1 * rng.normal())),
        }
    values |= {
        "accuracy": 0.8 - error + luck,
        "brier": 0.14 + error / 2,
        "calibration_error": 0.02 + error / 3,
        "log_evidence_per_duel": -0.45 - error,
        "sweeps": 20.0 + round(10 * rng.uniform()),
    }
    return values


def _rows(common: dict[str, Any], run: str, values: dict[str, float]) -> list[dict[str, Any]]:
    return [_row(common, run, "done", "", name, value) for name, value in values.items()]


def _row(
    common: dict[str, Any], run: str, status: str, reason: str, metric: str, value: float
) -> dict[str, Any]:
    how = {"run": run, "status": status, "reason": reason}
    return {**common, **how, "metric": metric, "value": value}
