"""One run: its duels, its model, its figures; whatever happens, there is a record."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.analysis.metrics import (
    auc,
    calibration_bins,
    confident_errors,
    kendall_tau,
    median_nlp,
    score,
)
from sparse_prefgp.analysis.rivals import KNOWS_NOTHING, linear_probit
from sparse_prefgp.lab.ablation.configuration import Study
from sparse_prefgp.lab.ablation.data import COINS, stream
from sparse_prefgp.lab.ablation.fitting import (
    Predictions,
    compared_items,
    held_out,
    left_out,
    predictions,
)
from sparse_prefgp.lab.ablation.measures import PeakMemory, Phases, commit, hardware, metrics_of
from sparse_prefgp.lab.ablation.reference import LearningRecord, Reference, learned
from sparse_prefgp.lab.ablation.runs import COIN, RunSettings
from sparse_prefgp.lab.kl import divergences
from sparse_prefgp.lab.layout import DONE, FAILED
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.mistakes import is_mistake
from sparse_prefgp.support.versions import versions
from sparse_prefgp.workflow.failures import failures, reason_of
from sparse_prefgp.workflow.holdout import Holdout

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP


Record = dict[str, Any]

PACKAGES = ("pandas", "scikit-learn", "dask", "distributed")
_SWEEP_TIMES = 3
SCORES = ("accuracy", "nlp_nats", "nlp_bits", "brier", "calibration_error")


@dataclass(eq=False)
class _RunRecord:
    """What came of a run so far."""

    figures: dict[str, float] = field(default_factory=dict)
    sweeps: int = 0
    converged: bool | None = None
    duels: int | None = None
    items: int | None = None
    test_duels: int | None = None
    split: str = ""
    group: str | None = None
    optimiser: str = ""
    bins: list[dict[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def execute(study: Study, run: RunSettings, reference: Reference | None = None) -> Record:
    """Do one run.

    :param study: it belongs to.
    :param run: which one.
    :param reference: the exact model of the same training duels, if the study has one.
    :return: A record of plain values; one that failed says why. Only an interruption is raised.
    """
    found, clock = _RunRecord(), Phases()
    status, reason, trace, fault = DONE, "", "", False
    started = time.time()
    with PeakMemory() as memory, _warnings_as_notes(found.notes):
        try:
            if run.is_baseline:
                _baseline(study, run, found, clock)
            else:
                _model(study, run, reference, found, clock)
        except Exception as error:  # a row of the table, never the end of the study
            status, reason, fault = FAILED, one_sentence(error), is_fault(error)
            trace = traceback.format_exc()
            found.figures.clear()
    if status == DONE:
        found.figures["peak_memory_bytes"] = memory.growth
    return {
        "name": run.name,
        "study": study.name,
        "settings": run.to_dict(),
        "configuration": study.resolved(),
        "seed": run.seed,
        "status": status,
        "reason": reason,
        "fault": fault,
        "traceback": trace,
        "commit": commit(),
        "versions": versions(PACKAGES),
        "hardware": hardware(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "phases": clock.seconds,
        "peak_memory_bytes": memory.growth,
        "memory_at_start_bytes": memory.start,
        "largest_memory_bytes": memory.largest,
        "memory_is": memory.how,
        "sweeps": found.sweeps,
        "converged": found.converged,
        "duels": found.duels,
        "items": found.items,
        "test_duels": found.test_duels,
        "split": found.split,
        "left_out_group": found.group,
        "optimiser": found.optimiser,
        "notes": found.notes,
        "calibration_bins": found.bins,
        "metrics": [one._asdict() for one in metrics_of(found.figures)],
    }


def failed_record(study: Study, run: RunSettings, reason: str, fault: bool = False) -> Record:
    """The record of a run that never came back."""
    return {
        "name": run.name,
        "study": study.name,
        "settings": run.to_dict(),
        "configuration": study.resolved(),
        "seed": run.seed,
        "status": FAILED,
        "reason": reason,
        "fault": fault,
        "commit": commit(),
        "versions": versions(PACKAGES),
        "hardware": hardware(),
        "phases": {},
        "peak_memory_bytes": None,
        "sweeps": 0,
        "converged": None,
        "duels": None,
        "items": None,
        "metrics": [],
    }


def one_sentence(error: BaseException) -> str:
    """Why a run failed, on one line; with the kind of error where it is none of the usual ones."""
    if not isinstance(error, Exception):
        return type(error).__name__
    text = " ".join(reason_of(error).split())
    usual = (ValueError, ArithmeticError, MemoryError, OSError, RuntimeError)
    return text if isinstance(error, usual) else f"{type(error).__name__}: {text}"


def is_fault(error: BaseException) -> bool:
    """Whether the program is to blame, not data, settings or the machine."""
    if isinstance(error, ValueError):
        return not is_mistake(error)
    return not isinstance(error, (*failures(), OSError))


@contextmanager
def _warnings_as_notes(notes: list[str]) -> Iterator[None]:
    """What the package warns of is kept in the record, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning)
        try:
            yield
        finally:
            for one in caught:
                text = str(one.message)
                if "sparse_prefgp" in one.filename and text not in notes:
                    notes.append(text)


def _prepared(
    study: Study, run: RunSettings, found: _RunRecord, clock: Phases
) -> tuple[Holdout, FloatArray | None]:
    with clock("data"):
        holdout, utilities = held_out(study, run)
    found.duels, found.items = holdout.num_train, len(holdout.train.distinct_rows()[0])
    found.test_duels, found.split = holdout.num_test, holdout.split.description
    found.group = left_out(study, run)
    return holdout, utilities


def _score(run: RunSettings, holdout: Holdout, log_p: FloatArray, found: _RunRecord) -> None:
    if not np.all(log_p <= 0.0):  # NaN too
        raise ValueError("A prediction of a held-out duel is not a number.")
    counts = holdout.counts(holdout.decided_rows)
    scores = score(log_p, counts=counts)
    figures = {name: scores[name] for name in SCORES}
    figures["nlp_median_nats"] = median_nlp(log_p, counts)
    figures["confident_errors"] = confident_errors(log_p, counts)
    figures["auc"] = auc(log_p, counts, rng=stream(run.seed, COINS))
    found.figures |= figures
    found.bins = [asdict(one) for one in calibration_bins(log_p, counts=counts)]


def _baseline(study: Study, run: RunSettings, found: _RunRecord, clock: Phases) -> None:
    holdout, utilities = _prepared(study, run, found, clock)
    items = holdout.train.items
    with clock("fit"):
        rival = KNOWS_NOTHING
        if run.approximation != COIN:
            rival = linear_probit(holdout.train, rng=np.random.default_rng(run.seed))
    with clock("predict"):
        won, lost = holdout.test_sides()
        log_p = rival.log_wins(items[won], items[lost])
    _score(run, holdout, log_p, found)
    if utilities is not None and run.approximation != COIN:
        rows = compared_items(holdout, run.seed)
        weights = rival.coefficients[: items.shape[1]]
        found.figures["kendall_tau"] = kendall_tau(utilities[rows], items[rows] @ weights)
    found.figures["fit_seconds"] = clock.seconds["fit"]


def _model(
    study: Study, run: RunSettings, reference: Reference | None, found: _RunRecord, clock: Phases
) -> None:
    from sparse_prefgp.engines import Status

    holdout, utilities = _prepared(study, run, found, clock)
    exact = reference if reference is not None and reference.predictions is not None else None
    if reference is not None and exact is None:
        found.notes.append(f"There is no exact model to compare with: {reference.reason}")
    model, learning = _learned(study, run, holdout, reference, clock)
    found.notes += learning.notes
    found.optimiser = learning.optimiser
    inference = model.infer()
    if inference.status is Status.NOT_FINITE:
        raise ValueError(f"Inference {inference}.")
    found.converged, found.sweeps = inference.converged, learning.sweeps
    rows = compared_items(holdout, run.seed)
    with clock("predict"):
        here = predictions(model, holdout, rows)
    _score(run, holdout, here.log_probabilities, found)
    if utilities is not None:
        found.figures["kendall_tau"] = kendall_tau(utilities[rows], here.mean)
    with clock("evidence"):
        _evidence(model, found)
    if exact is not None and not _is_reference(run):
        with clock("exact"):
            _against_exact(model, holdout, here, exact, found)
    with clock("cost"):
        _cost(model, learning, found)


def _learned(
    study: Study,
    run: RunSettings,
    holdout: Holdout,
    reference: Reference | None,
    clock: Phases,
) -> tuple[PreferenceGP, LearningRecord]:
    """The model; exact EP with all learned is the reference, and not learned again."""
    given = None if reference is None else reference.hyperparameters
    if run.is_fixed and study.at is None and given is None:
        why = "" if reference is None else f" ({reference.reason.rstrip('.')})"
        raise ValueError(
            f"There are no fixed hyperparameters without the exact model{why}; give values under "
            "at, or raise exact_limit."
        )
    if reference is not None and given is not None and _is_reference(run):
        fixed = replace(run, hyperparameters="fixed")
        model, learning = learned(study, fixed, holdout, given, clock)
        return model, learning if run.is_fixed else reference.learning or learning
    return learned(study, run, holdout, given if run.is_fixed else None, clock)


def _is_reference(run: RunSettings) -> bool:
    """Whether a run is what others are compared with."""
    return run.approximation == "exact" and run.engine == "ep"


def _evidence(model: PreferenceGP, found: _RunRecord) -> None:
    value = model.log_evidence()
    found.figures["log_evidence"] = value
    found.figures["log_evidence_per_duel"] = value / model.num_duels_used
    if not model.has_logit_factors:
        found.figures["lower_bound"] = model.lower_bound()


def _against_exact(
    model: PreferenceGP,
    holdout: Holdout,
    here: Predictions,
    exact: Reference,
    found: _RunRecord,
) -> None:
    """Logit factors have utilities and an evidence on another scale: probabilities only."""
    there = exact.predictions
    assert there is not None
    gap = np.exp(here.log_probabilities) - np.exp(there.log_probabilities)
    counts = holdout.counts(holdout.decided_rows)
    found.figures["probability_rmse"] = float(np.sqrt(counts @ gap**2 / counts.sum()))
    found.figures["probability_largest"] = float(np.abs(gap).max())
    if model.has_logit_factors:
        return
    noise = float(model.noise_variance.numpy())
    try:
        both = divergences(here.mean, here.covariance, there.mean, there.covariance, noise)
        found.figures |= both._asdict()
    except ValueError as error:  # all else that was measured is still worth a row
        found.notes.append(f"No divergence from the exact model: {error}")
    sds = [np.sqrt(np.maximum(np.diag(one.covariance), 0.0)) for one in (here, there)]
    for name, apart in (("mean", here.mean - there.mean), ("sd", sds[0] - sds[1])):
        found.figures[f"{name}_rmse"] = float(np.sqrt(np.mean(apart**2)))
        found.figures[f"{name}_largest"] = float(np.abs(apart).max())
    if model.num_duels_used == holdout.num_train:  # that of a subset is of other duels
        found.figures["evidence_gap"] = found.figures["log_evidence"] - exact.log_evidence


def _cost(model: PreferenceGP, learning: LearningRecord, found: _RunRecord) -> None:
    found.figures["fit_seconds"] = learning.fit_seconds
    found.figures["sweep_seconds"] = sweep_seconds(model)
    if learning.evaluations:
        found.figures["gradient_seconds"] = learning.gradient_seconds
        found.figures["iterations"] = learning.iterations
    found.figures["sweeps"] = learning.sweeps


def sweep_seconds(model: PreferenceGP) -> float:
    """Median time of a sweep: inference from cold sites, compiled, over its sweeps.

    The covariance is built beforehand, as in inference.
    """
    import gpflow
    import tensorflow as tf

    from sparse_prefgp.factors.sites import Sites

    prior = model.approximation.prior(model.problem())
    cold = Sites.zeros(model.graph.num_sites, gpflow.default_float())

    @tf.function(autograph=False)
    def swept() -> Any:
        point = model.engine.run(prior.covariance, prior.factors, cold)
        # All of it, so that nothing is pruned away.
        return point.sweeps, point.log_z, point.sites

    sweeps = max(int(swept()[0]), 1)
    times = []
    for _ in range(_SWEEP_TIMES):
        started = time.perf_counter()
        swept()[1].numpy()
        times.append((time.perf_counter() - started) / sweeps)
    return float(np.median(times))
