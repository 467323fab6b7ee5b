"""One run: its duels, its model, its figures; whatever happens, there is a record."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
import traceback
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import default_rng

from sparse_prefgp.analysis import metrics
from sparse_prefgp.analysis.rivals import KNOWS_NOTHING, linear_probit
from sparse_prefgp.lab.ablation import fitting
from sparse_prefgp.lab.ablation.duels import COINS, stream
from sparse_prefgp.lab.ablation.runs import COIN, RunSettings
from sparse_prefgp.lab.ablation.study import FIXED, Study
from sparse_prefgp.lab.kl import divergences
from sparse_prefgp.lab.measures import MEASURES
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.mistakes import is_mistake
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.registry import APPROXIMATION, own
from sparse_prefgp.support.versions import versions
from sparse_prefgp.support.words import counted
from sparse_prefgp.workflow.failures import failures, reason_of
from sparse_prefgp.workflow.holdout import Holdout

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

DONE, FAILED = "done", "failed"
SCORES = ("accuracy", "nlp_nats", "nlp_bits", "brier", "calibration_error")


def execute(study: Study, run: RunSettings, reference: fitting.Reference | None = None) -> Record:
    """Do one run.

    :param reference: the exact model of the same training duels, if the study has one.
    :return: A record of plain values; one that failed says why. Only an interruption is raised.
    """
    record, clock = new_record(study, run), fitting.Clock()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning)
        try:
            with clock("data"):
                holdout, parts = fitting.held_out(study, run)
            record |= {
                "duels": holdout.num_train,
                "items": len(holdout.train.distinct_rows()[0]),
                "test_duels": holdout.num_test,
                "held_out": holdout.split.description,
                "left_out_group": parts.group,
            }
            if run.is_baseline:
                figures = _baseline(run, holdout, parts.utilities, clock)
            else:
                figures = _model(study, run, reference, holdout, parts.utilities, record, clock)
            values = {name: float(figures[name]) for name in MEASURES if name in figures}
            record |= {"status": DONE, "metrics": values}
        except Exception as error:  # a row of the table, never the end of the study
            record |= failure(error)
            if run.approximation in own(APPROXIMATION):
                record["reason"] += f" ({run.approximation} is an approximation of your own.)"
    said = [str(one.message) for one in caught if "sparse_prefgp" in one.filename]
    notes = list(dict.fromkeys(record["notes"] + said))
    return record | {"notes": notes, "seconds": clock.seconds}


def new_record(study: Study, run: RunSettings) -> Record:
    """What is known of a run before it is done."""
    return {
        "study": study.name,
        "run": run.name,
        **run._asdict(),
        "duels": None,
        "items": None,
        "status": FAILED,
        "reason": "",
        "metrics": {},
        "notes": [],
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(("pandas", "scikit-learn")),
    }


def failure(error: BaseException) -> Record:
    """What a record says of an error; `fault` where the program is to blame, not data, settings or
    the machine."""
    text = " ".join(reason_of(error).split()) if isinstance(error, Exception) else ""
    usual = is_mistake(error) or isinstance(error, MemoryError | OSError)
    is_machine = isinstance(error, (*failures(), OSError))
    fault = not (is_mistake(error) if isinstance(error, ValueError) else is_machine)
    return {
        "reason": text if usual else f"{type(error).__name__}: {text}",
        "fault": fault,
        "traceback": "".join(traceback.format_exception(error)),
    }


def reasons(records: Iterable[Record]) -> dict[str, list[str]]:
    """Why runs failed, the most frequent reason first, each with the runs that it ended."""
    runs: dict[str, list[str]] = {}
    for record in records:
        if record["status"] == FAILED:
            runs.setdefault(record["reason"], []).append(record["run"])
    return dict(sorted(runs.items(), key=lambda pair: -len(pair[1])))


def failed_runs(records: Iterable[Record]) -> str:
    """How many of some runs failed, and why the first did; empty where none did."""
    failed = [record for record in records if record["status"] == FAILED]
    if not failed:
        return ""
    first = failed[0]
    return f"{counted(len(failed), 'run')} failed; {first['run']}, the first: {first['reason']}"


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of the checkout that the package runs from, with `-dirty` after it where files
    differ; empty outside a checkout."""
    root = Path(__file__).resolve().parents[3]
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    with suppress(OSError, subprocess.SubprocessError):
        if (root / "pyproject.toml").is_file():
            done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
            return done.stdout.strip()
    return ""


@lru_cache(maxsize=1)
def machine() -> str:
    """What times depend on besides the code."""
    text = ""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    name = re.search(r"model name\s*: (.*)", text)
    processor = platform.processor() if name is None else name[1]
    return f"{platform.node()}, {processor}, {os.cpu_count()} cores"


def _scores(run: RunSettings, holdout: Holdout, log_p: FloatArray) -> dict[str, float]:
    if not np.all(log_p <= 0.0):  # NaN too
        raise ValueError("A prediction of a held-out duel is not a number.")
    counts = holdout.counts(holdout.decided_rows)
    scores = metrics.score(log_p, counts=counts)
    return {
        **{name: scores[name] for name in SCORES},
        "nlp_median_nats": metrics.median_nlp(log_p, counts),
        "confident_errors": metrics.confident_errors(log_p, counts),
        "auc": metrics.auc(log_p, counts, rng=stream(run.seed, COINS)),
    }


def _baseline(
    run: RunSettings, holdout: Holdout, utilities: FloatArray | None, clock: fitting.Clock
) -> dict[str, float]:
    items = holdout.train.items
    is_coin, rng = run.approximation == COIN, default_rng(run.seed)
    with clock("fit"):
        rival = KNOWS_NOTHING if is_coin else linear_probit(holdout.train, rng=rng)
    log_p = rival.predict(holdout.test_wins(), items).log_first
    figures = _scores(run, holdout, log_p) | {"fit_seconds": clock.seconds["fit"]}
    if utilities is not None and not is_coin:
        rows = fitting.compared_items(holdout, run.seed)
        weights = rival.coefficients[: items.shape[1]]
        figures["kendall_tau"] = metrics.kendall_tau(utilities[rows], items[rows] @ weights)
    return figures


def _model(
    study: Study,
    run: RunSettings,
    reference: fitting.Reference | None,
    holdout: Holdout,
    utilities: FloatArray | None,
    record: Record,
    clock: fitting.Clock,
) -> dict[str, float]:
    from sparse_prefgp.engines import Status

    why = "" if reference is None else reference.reason
    exact = None if why else reference
    if why:
        record["notes"].append(f"There is no exact model to compare with: {why}")
    if run.is_fixed and study.at is None and exact is None:
        because = f" ({why.rstrip('.')})" if why else ""
        raise ValueError(
            f"There are no fixed hyperparameters without the exact model{because}; give values "
            "under at, or raise exact_limit."
        )
    is_reference = exact is not None and run.is_exact_ep and not run.is_fixed
    how = run._replace(hyperparameters=FIXED) if is_reference else run
    model, learning = fitting.learned(study, how, holdout, exact if how.is_fixed else None, clock)
    if is_reference:  # which is not learned again
        assert exact is not None and exact.learning is not None
        learning = exact.learning
    inference = model.infer()
    if inference.status is Status.NOT_FINITE:
        raise ValueError(f"Inference {inference}.")
    record["notes"] += learning.notes
    record |= {"optimiser": learning.optimiser, "converged": inference.converged}
    rows = fitting.compared_items(holdout, run.seed)
    with clock("predict"):
        here = fitting.predictions(model, holdout, rows)
    figures = _scores(run, holdout, here.log_probabilities)
    if utilities is not None:
        figures["kendall_tau"] = metrics.kendall_tau(utilities[rows], here.mean)
    figures["log_evidence"] = model.log_evidence()
    figures["log_evidence_per_duel"] = figures["log_evidence"] / model.num_duels_used
    if model.engine.link_function.has_normal_noise:
        figures["lower_bound"] = model.lower_bound()
    figures |= learning.figures
    if exact is not None and not run.is_exact_ep:
        # The evidence of a subset is that of other duels.
        gap = figures["log_evidence"] - exact.log_evidence
        if (
            model.num_duels_used == holdout.num_train
            and model.engine.link_function.has_normal_noise
        ):
            figures["evidence_gap"] = gap
        figures |= _against_exact(model, holdout, here, exact, record)
    return figures


def _against_exact(
    model: PreferenceGP,
    holdout: Holdout,
    here: fitting.Predictions,
    exact: fitting.Reference,
    record: Record,
) -> dict[str, float]:
    """Logit factors have utilities on another scale: probabilities only."""
    there = exact.predictions
    assert there is not None
    gap = np.exp(here.log_probabilities) - np.exp(there.log_probabilities)
    counts = holdout.counts(holdout.decided_rows)
    figures = {
        "probability_rmse": float(np.sqrt(counts @ gap**2 / counts.sum())),
        "probability_largest": float(np.abs(gap).max()),
    }
    if not model.engine.link_function.has_normal_noise:
        return figures
    noise = float(model.likelihood.noise.numpy())
    try:
        both = divergences(here.mean, here.covariance, there.mean, there.covariance, noise)
        figures |= both._asdict()
    except ValueError as error:  # all else that was measured is still worth a row
        record["notes"].append(f"No divergence from the exact model: {error}")
    sds = [np.sqrt(np.maximum(np.diag(one.covariance), 0.0)) for one in (here, there)]
    for name, apart in (("mean", here.mean - there.mean), ("sd", sds[0] - sds[1])):
        figures[f"{name}_rmse"] = float(np.sqrt(np.mean(apart**2)))
        figures[f"{name}_largest"] = float(np.abs(apart).max())
    return figures
