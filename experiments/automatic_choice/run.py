"""The automatic choice on three real data sets, next to every candidate it could have taken.

python experiments/automatic_choice/run.py DATA OUT [--only arguments,cars,tennis] [--choice-only]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.splits import split_columns
from sparse_prefgp.io import read_duels
from sparse_prefgp.support.plain import as_json_text
from sparse_prefgp.workflow.automatic import automatic_candidates, choose
from sparse_prefgp.workflow.holdout import fit_model, predict_held_out, prepare
from sparse_prefgp.workflow.settings import FitSettings

SETS: dict[str, tuple[str, list[str], FitSettings]] = {
    "arguments": ("ukp_convincing", ["source_id", "debate"], FitSettings()),
    "cars": ("ev_choice_us", [], FitSettings(split="group:person")),
    "tennis": (
        "tennis_atp",
        ["player_id"],
        FitSettings(split="time:date", test_fraction=0.15, max_train=50_000),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--choice-only", action="store_true", help="fit no other candidate")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.only.split(","):
        folder, ignore, settings = SETS[name]
        items, duels = (
            next((given.data / folder).glob(f"{part}.csv*")) for part in ("items", "duels")
        )
        table = read_duels(
            items, duels, ignore=ignore, never_features=split_columns(settings.split)
        )
        result = measure(table, settings, given.choice_only)
        (given.out / f"{name}.json").write_text(as_json_text(result), encoding="utf-8")
        print(name, json.dumps({key: result[key] for key in ("reason", "seconds", "held_out")}))


def measure(table: Duels, settings: FitSettings, choice_only: bool) -> dict[str, Any]:
    """The choice, its score on the held-out duels, and those of the other candidates."""
    started = time.perf_counter()
    asked = replace(settings, kernel="auto", approximation="auto")
    found = choose(table, asked, callback=lambda p: print(p.fold, p.candidate, flush=True))
    seconds = time.perf_counter() - started
    result = {
        "reason": found.reason,
        "seconds": seconds,
        "comparison": found.comparison.to_dict(),
        "held_out": score(table, found.settings),
    }
    if not choice_only:
        train = table.select(prepare(table, settings).split.train_rows)
        result["candidates"] = {
            str(c): score(table, replace(settings, kernel=c.kernel, approximation=c.approximation))
            for c in automatic_candidates(train)
        }
    return result


def score(table: Duels, settings: FitSettings) -> dict[str, Any]:
    """What `sparse-prefgp fit` reports on the held-out duels, and the seconds of the fit."""
    holdout = prepare(table, settings)
    model, report = fit_model(holdout)
    scores = predict_held_out(holdout, model).scores()
    return {
        **{name: figures["nlp_nats"] for name, figures in scores.items()},
        "kernel": settings.kernel,
        "approximation": settings.approximation,
        "seconds": report.seconds,
    }


if __name__ == "__main__":
    main()
