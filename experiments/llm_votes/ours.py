"""The package on the crowd's votes: side, noise, margin and lean of each judge, next to rivals.

    python experiments/llm_votes/ours.py DATA OUT [--splits 0 1 2 3 4] [--iterations 60]

The splits and the rivals are those of `rivals.py`; differences are paired, with errors over tasks.
First the items are the 59 language models, as for the rivals. Then they are their 750 answers: each
has an effect of its own, added to that of its model, and length and blankness are features, which
are known before anybody votes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
from rivals import RIVALS, Votes, answers, crowd, paired, predictions, scores, splits

import sparse_prefgp as spg
from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.support.plain import as_json_text

# Standard deviation of the log of a judge's scale of the margin, before anything is seen.
SCALE = 0.7


@dataclass(frozen=True)
class Features:
    """Columns of the answers, (750, D)."""

    values: np.ndarray
    models: range
    length: list[int]
    blank: list[int]
    prompts: range

    @classmethod
    def of(cls, items: pd.DataFrame) -> Features:
        """One column for each model, log length, whether blank, and one for each prompt."""
        number, length = int(items["model"].max()) + 1, np.log1p(items["length_chars"].to_numpy())
        blank = (items["text"].str.strip() == "").to_numpy()
        length = np.where(blank, 0.0, (length - length[~blank].mean()) / length[~blank].std())
        prompts = np.eye(int(items["prompt"].max()) + 1)[items["prompt"]]
        values = np.column_stack([np.eye(number)[items["model"]], length, blank, prompts])
        return cls(
            values, range(number), [number], [number + 1], range(number + 2, values.shape[1])
        )


def _models(x: Features) -> gpflow.kernels.Kernel:
    return gpflow.kernels.Linear(active_dims=[*x.models])


def _answers(x: Features) -> gpflow.kernels.Kernel:
    return gpflow.kernels.Sum([_models(x), spg.ItemEffect()])


def _texts(x: Features) -> gpflow.kernels.Kernel:
    return gpflow.kernels.Sum(
        [
            _models(x),
            spg.ItemEffect(),
            gpflow.kernels.Linear(active_dims=x.blank),
            gpflow.kernels.Matern52(active_dims=x.length),
            gpflow.kernels.Matern52(active_dims=x.length)
            * gpflow.kernels.Linear(active_dims=[*x.prompts]),
        ]
    )


# The kernel, and whether judges have margins, and leans to the side, of their own.
MODELS: dict[str, tuple[Callable[[Features], gpflow.kernels.Kernel], bool, bool]] = {
    "noise": (_models, False, False),
    "margin": (_models, True, False),
    "lean": (_models, True, True),
    "answers": (_answers, True, True),
    "texts": (_texts, True, True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, nargs="+", default=range(5))
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    given = parser.parse_args()
    votes, features = crowd(given.data), Features.of(answers(given.data))
    rows = []
    for seed, held in enumerate(splits(votes, max(given.splits) + 1)):
        if seed not in given.splits:
            continue
        test = votes[held]
        theirs = {name: scores(predictions(name, votes, held)[1], test) for name in RIVALS}
        for name in given.models:
            log, report = fitted(votes, held, name, features, given.iterations)
            outcomes, decided = scores(log, test)
            row = {
                "split": seed,
                "model": name,
                "decided": float(np.nanmean(decided)),
                "outcomes": float(outcomes.mean()),
                "iterations": report.iterations,
                "converged": report.converged,
                "log_evidence": report.log_evidence,
                "less": {
                    rival: {
                        "outcomes": paired(outcomes, of_all, test.task),
                        "decided": paired(decided, of_decided, test.task),
                    }
                    for rival, (of_all, of_decided) in theirs.items()
                },
            }
            rows.append(json.loads(as_json_text(row)))
            print(json.dumps(rows[-1]), flush=True)
            given.out.write_text(as_json_text({"rows": rows}))


def fitted(votes: Votes, held: np.ndarray, name: str, x: Features, iterations: int) -> Any:
    """Log probabilities (n, 3) of the first, a tie, the second, of what is held out."""
    kernel, own_margins, leans = MODELS[name]
    train, test = votes[~held], votes[held]
    second = (train.outcome == 2)[:, None]
    sides = np.where(second, train.answers[:, ::-1], train.answers)
    duels = spg.Duels(
        x.values,
        *sides.T,
        ties=train.outcome == 1,
        groups=train.judge,
        labels={"judge": train.judge},
        covariates=np.where(second, -1.0, 1.0),
        covariate_names=["first"],
    )
    model = spg.PreferenceGP(
        duels,
        kernel(x),
        terms=[spg.Lean("first")] if leans else [],
        likelihood=spg.Probit(by="judge", margin=0.3, cuts_by="judge" if own_margins else None),
    )
    scale = model.likelihood.cut_scale
    if scale is not None:
        scale.prior = type(scale.prior)(np.float64(0.0), np.float64(SCALE))
    report = spg.optimise(model, max_iterations=iterations)
    judge = Codes.of(test.judge.tolist())
    shown = {"covariates": np.ones((len(test.task), 1)), "covariate_names": ("first",)}
    asked = Answers.between(*test.answers.T, judge=judge, **shown)
    return model.predict(asked.saying(labels={"judge": judge})).log_p, report


if __name__ == "__main__":
    main()
