"""Votes on arguments with their ties, and with noise of each annotator, next to votes alone.

python experiments/ties_and_annotators/run.py DATA OUT [--only fitc,vfe] [--iterations 60]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.metrics import constant_shares, score
from sparse_prefgp.analysis.rivals import linear_probit
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.data.splits import split_duels
from sparse_prefgp.io import read_duels
from sparse_prefgp.learning.report import OptimisationReport
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.support.plain import as_json_text
from sparse_prefgp.workflow.holdout import Training, fit_model
from sparse_prefgp.workflow.settings import FitSettings

INDUCING, MARGIN, SEED = 128, 0.3, 0
APPROXIMATIONS = ("fitc", "vfe")
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rows of the table: those to fit to, those to score, and which of these were won."""

    train: IntArray
    test: IntArray
    won: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Variant:
    """What a fit uses besides the votes."""

    name: str
    ties: bool
    annotators: bool


VARIANTS = (
    Variant("votes", ties=False, annotators=False),
    Variant("votes, annotators", ties=False, annotators=True),
    Variant("votes and ties", ties=True, annotators=False),
    Variant("votes and ties, annotators", ties=True, annotators=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(APPROXIMATIONS))
    parser.add_argument("--iterations", type=int, default=60)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    table = read_arguments(given.data / "ukp_convincing")
    rows = split(table)
    results = [baselines(table, rows)]
    for approximation in given.only.split(","):
        plain: dict[bool, FloatArray] = {}
        for variant in VARIANTS:
            model, report = fit(table, rows, variant, approximation, given.iterations)
            found = predict(model, table, rows)
            result = figures(model, report, found, table, rows)
            if variant.annotators:
                result |= gain(found.winner, plain[variant.ties], table, rows)
            else:
                plain[variant.ties] = found.winner
            results.append({"approximation": approximation, "variant": variant.name, **result})
            print(as_json_text(results[-1]), flush=True)
            (given.out / "results.json").write_text(as_json_text({"rows": results}))


def read_arguments(folder: Path) -> Duels:
    """Votes and ties with the annotator of each."""
    return read_duels(
        folder / "items.csv.gz",
        folder / "duels.csv.gz",
        ties=folder / "ties.csv.gz",
        groups="annotator",
        ignore=["source_id", "debate"],
    )


def split(table: Duels) -> Rows:
    """A fifth of votes and ties held out at random; scored are those of annotators of the rest."""
    parts = split_duels(table, "duels", 0.2, np.random.default_rng(SEED))
    assert table.given.judge is not None and table.given.ties is not None
    annotators = table.given.judge.numbers
    known = annotators[parts.train_rows[~table.given.ties[parts.train_rows]]]
    test = parts.test_rows[np.isin(annotators[parts.test_rows], known)]
    return Rows(parts.train_rows, test, ~table.given.ties[test])


def fit(
    table: Duels, rows: Rows, variant: Variant, approximation: str, iterations: int
) -> tuple[PreferenceGP, OptimisationReport]:
    """A model of the training rows, of which ties are left out where the variant has none."""
    assert table.given.ties is not None
    train = rows.train if variant.ties else rows.train[~table.given.ties[rows.train]]
    used = table if variant.annotators else table.saying(judge=None)
    duels = used.standardised(train)
    settings = FitSettings(
        kernel="matern52",
        approximation=approximation,
        inducing=INDUCING,
        seed=SEED,
        max_iterations=iterations,
        margin=MARGIN if variant.ties else None,
        noise_by_group=variant.annotators,
    )
    return fit_model(Training(settings, duels))


def predict(model: PreferenceGP, table: Duels, rows: Rows) -> Forecast:
    """Win, tie and loss of the held-out rows, each with the noise of its annotator."""
    return model.predict(table.given.take(rows.test))


def figures(
    model: PreferenceGP, report: OptimisationReport, found: Forecast, table: Duels, rows: Rows
) -> dict[str, Any]:
    """What a fit learned, and its scores."""
    duels = model.duels
    result: dict[str, Any] = {
        "seconds": report.seconds,
        "iterations": report.iterations,
        "sites": model.graph.num_sites,
        "converged": report.inference.converged,
        "log_evidence_per_duel": report.log_evidence / duels.num_duels,
        "held_out": score(found.log_first[rows.won]),
    }
    if model.likelihood.margin is not None:
        result["margin"] = float(model.likelihood.margin.numpy())
        result["outcomes"] = score(found.results, 1 - rows.won, of="outcomes")
    if model.likelihood.noise_ratio is not None and duels.groups is not None:
        votes = np.bincount(duels.groups, weights=duels.counts)
        shares = np.quantile(model.likelihood.noise_ratio.numpy(), [0.0, 0.1, 0.5, 0.9, 1.0])
        result["noise_ratios"] = {
            "groups": len(votes),
            "votes_of_the_median_group": float(np.median(votes)),
            "quantiles_0_10_50_90_100": shares.tolist(),
        }
    return result


def gain(found: FloatArray, plain: FloatArray, table: Duels, rows: Rows) -> dict[str, float]:
    """Nats a vote that the noise of annotators brings, and the standard error over annotators."""
    assert table.given.judge is not None
    difference = (found - plain)[rows.won]
    annotators = table.given.judge.labels[rows.test][rows.won]
    _, who = np.unique(annotators.astype(str), return_inverse=True)
    sums = np.bincount(who, weights=difference - difference.mean())
    return {
        "gain_nats": float(difference.mean()),
        "gain_standard_error": float(np.sqrt(np.sum(sums**2)) / len(difference)),
    }


def baselines(table: Duels, rows: Rows) -> dict[str, Any]:
    """The linear probit on votes, and who knows only how often duels are tied."""
    train = table.standardised(rows.train)
    won = table.given.take(rows.test[rows.won])
    rival = linear_probit(train, rng=np.random.default_rng(SEED))
    probit = rival.predict(won, train.items).log_first
    shares = constant_shares(train.num_ties / train.num_duels, len(rows.test))
    return {
        "train_votes": train.num_duels - train.num_ties,
        "train_ties": train.num_ties,
        "linear_probit": score(probit),
        "constant_shares": score(shares, 1 - rows.won, of="outcomes"),
    }


if __name__ == "__main__":
    main()
