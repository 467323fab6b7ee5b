"""The model of a run, what it predicts, and the exact model that it is compared with."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparse_prefgp.lab.ablation.duels import INPUTS, ITEMS, PartedDuels, parted, stream
from sparse_prefgp.lab.ablation.runs import ReferenceKey, RunSettings
from sparse_prefgp.lab.ablation.study import FIXED, JOINT, LEARNED, Study
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.numpy_files import read_archive
from sparse_prefgp.workflow.failures import reason_of
from sparse_prefgp.workflow.holdout import Holdout, prepare
from sparse_prefgp.workflow.settings import FitSettings

if TYPE_CHECKING:
    from gpflow.kernels import Kernel

    from sparse_prefgp.models import PreferenceGP


# Distinct test items on which predictive distributions are compared.
COMPARED_ITEMS = 500
# Where ways of choosing inducing inputs start, if `initial_inputs` calls it otherwise.
METHODS = {"greedy": "variance", LEARNED: "kmeans"}
# Unconstrained values of a kernel's parameters by GPflow's paths: one at a limit has no other.
FreeValues = Mapping[str, FloatArray]


class Predictions(NamedTuple):
    """For the held-out duels and the test items that are compared."""

    log_probabilities: FloatArray
    """(k,) that the observed winner wins, in nats."""
    mean: FloatArray
    covariance: FloatArray
    """(N,) and (N, N) of the utilities of the compared items."""


class Learned(NamedTuple):
    """How a model was learned."""

    figures: dict[str, float]
    """`fit_seconds`, from the training duels to converged sites, `sweeps`, and where something was
    learned `iterations` and `gradient_seconds`: of an evaluation of evidence and gradient, without
    compilation.
    """
    optimiser: str = ""
    """What it says of itself."""
    notes: Sequence[str] = ()
    """What is odd."""


@dataclass(frozen=True, eq=False)
class Reference:
    """An exact model, or one sentence why there is none."""

    key: ReferenceKey
    reason: str = ""
    kernel: FreeValues = field(default_factory=dict)
    margin: float | None = None
    """Of ties, if any."""
    predictions: Predictions | None = None
    """None without a model, as is what `learning` has."""
    log_evidence: float = float("nan")
    learning: Learned | None = None

    def to_bytes(self) -> bytes:
        """For a file, which `read_reference` reads."""
        assert self.predictions is not None
        about = (self.key, self.margin, self.log_evidence, self.learning)
        buffer = io.BytesIO()
        arrays = {**self.predictions._asdict(), **self.kernel}
        np.savez(buffer, about=np.array(json.dumps(about)), **arrays)
        return buffer.getvalue()


def read_reference(path: Path) -> Reference | None:
    """The exact model of a file, None where there is none.

    :raises ValueError: a damaged file.
    """
    try:
        arrays = read_archive(path.read_bytes())
        key, margin, evidence, learning = json.loads(str(arrays.pop("about")))
        values = Predictions(*(arrays.pop(name) for name in Predictions._fields))
        told = Learned(*learning)
        return Reference(ReferenceKey(*key), "", arrays, margin, values, evidence, told)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"The exact model in {str(path)!r} is damaged; remove that file, and it is made again."
        ) from None


class Clock:
    """Wall seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        started = perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + perf_counter() - started


def held_out(study: Study, run: RunSettings) -> tuple[Holdout, PartedDuels]:
    """Training and test duels of a run.

    :raises ValueError: what `parted` and `prepare` raise.
    """
    parts = parted(study.data, study.split, run.max_train, run.seed)
    settings = FitSettings(
        split=run.split,
        seed=run.seed,
        approximation="exact" if run.is_baseline else run.approximation,
        kernel="linear" if run.is_baseline else run.kernel,
        inducing=run.inducing,
        max_iterations=study.iterations,
        noise_variance=study.noise_variance,
        terms=study.terms,
        engine="ep" if run.is_baseline else run.engine,
    )
    return prepare(parts.table, settings, parts.split), parts


def start_model(
    study: Study, run: RunSettings, holdout: Holdout, reference: Reference | None
) -> PreferenceGP:
    """The model before anything is learned.

    :param reference: whose hyperparameters to begin with, and to stay with in a fixed run; None
        for those that the kernel starts with, in a fixed run those under `at`.
    :raises ValueError: what `initial_inputs`, `PreferenceGP` and `Study.check_features` raise.
    """
    import gpflow

    from sparse_prefgp.learning.initial import initial_inputs

    kernel = holdout.kernel()
    if reference is not None:
        give(reference.kernel, kernel)
    elif run.is_fixed and study.at is not None:
        study.check_features(holdout.train.num_features)
        parts = holdout.settings.kernel_choice.parts
        terms = kernel.kernels if len(parts) > 1 else [kernel]
        for part, term in zip(parts, terms, strict=True):
            for name, value in study.at[part].items():
                parameter = getattr(term, name)
                parameter.assign(np.broadcast_to(np.asarray(value, dtype=float), parameter.shape))
    inputs = None
    if run.inducing is not None:
        how, rng = run.inducing_inputs, stream(run.seed, INPUTS)
        inputs = initial_inputs(METHODS.get(how, how), holdout.train, kernel, run.inducing, rng)
    model = holdout.model(inputs, kernel, None if reference is None else reference.margin)
    if run.is_fixed:
        gpflow.set_trainable(model.kernel, False)
        if model.likelihood.margin is not None:
            gpflow.set_trainable(model.likelihood.margin, False)
    if model.inducing_variable is not None:
        gpflow.set_trainable(model.inducing_variable, run.inducing_inputs == LEARNED)
    return model


def free_values(kernel: Kernel) -> FreeValues:
    """What `give` gives to a kernel of the same make."""
    import gpflow

    parameters = gpflow.utilities.parameter_dict(kernel)
    return {name: p.unconstrained_variable.numpy() for name, p in parameters.items()}


def give(values: FreeValues, kernel: Kernel) -> None:
    """Let a kernel have the values of another."""
    import gpflow

    for name, parameter in gpflow.utilities.parameter_dict(kernel).items():
        parameter.unconstrained_variable.assign(values[name])


def learned(
    study: Study, run: RunSettings, holdout: Holdout, reference: Reference | None, clock: Clock
) -> tuple[PreferenceGP, Learned]:
    """A model with everything learned that the run learns, and with converged sites.

    :param reference: as for `start_model`.
    """
    from sparse_prefgp.learning.optimise import optimise

    before = sum(clock.seconds.values())
    with clock("start"):
        model = start_model(study, run, holdout, reference)
    report = None
    if model.trainable_variables:
        with clock("fit"):
            # Evidences are compared, so that what is left to the optimum counts.
            report = optimise(model, study.iterations, least_gain=None)
    with clock("infer"):
        result = model.infer()
    figures = {"fit_seconds": sum(clock.seconds.values()) - before}
    notes = [] if result.converged else [f"Inference {result}."]
    if result.jitter > 0.0:
        notes.append(f"{result.jitter:.1e} was added to a diagonal to factorise it.")
    if report is None:
        return model, Learned({**figures, "sweeps": model.inference.total_sweeps}, notes=notes)
    each = (report.seconds - report.compile_seconds) / max(report.evaluations, 1)
    figures |= {"sweeps": report.sweeps, "iterations": report.iterations, "gradient_seconds": each}
    notes += report.limits
    for number, words in (
        (report.failed_evaluations, "evaluations failed and were backed off from"),
        (report.unconverged_evaluations, "evaluations had inference that had not converged"),
    ):
        notes += [f"{number} {words}."] if number else []
    return model, Learned(figures, str(report), notes)


def predictions(model: PreferenceGP, holdout: Holdout, rows: IntArray) -> Predictions:
    """What a model says of the held-out duels and of the items in these rows (N,)."""
    log_p = model.predict(holdout.test_wins()).log_first
    mean, covariance = model.predict_f(model.inputs.of_items(rows), full_cov=True)
    return Predictions(log_p, mean.numpy()[:, 0], covariance.numpy()[0])


def compared_items(holdout: Holdout, seed: int) -> IntArray:
    """Rows of at most 500 distinct test items, drawn at random where there are more.

    Items with equal features are one, unless the kernel gives every item an effect of its own.
    """
    rows = np.unique(holdout.test_wins().sides)
    if not holdout.settings.kernel_choice.has_items:
        _, first = np.unique(holdout.train.items[rows] + 0.0, axis=0, return_index=True)
        rows = rows[np.sort(first)]
    if len(rows) > COMPARED_ITEMS:
        rows = np.sort(stream(seed, ITEMS).choice(rows, COMPARED_ITEMS, replace=False))
    return rows.astype(np.int64)


def make_reference(study: Study, key: ReferenceKey) -> Reference:
    """Fit the exact model, or say why not; only an interruption is raised.

    Nothing is learned where the key asks for the values under `at`.
    """
    duels = (study.data.label, study.split.by, key.max_train, key.seed)
    how = FIXED if key.at else JOINT
    run = RunSettings(*duels, "exact", key.kernel, "ep", hyperparameters=how)
    try:
        holdout, _ = held_out(study, run)
        items, pairs = len(holdout.train.distinct_rows()[0]), holdout.train.num_pairs
        if min(items, pairs) > study.exact_limit:
            raise ValueError(
                f"{items:,} distinct training items and {pairs:,} distinct pairs are more than "
                f"exact_limit, {study.exact_limit:,}."
            )
        model, told = learned(study, run, holdout, None, Clock())
        values = predictions(model, holdout, compared_items(holdout, run.seed))
        evidence = model.log_evidence()
        if not (np.isfinite(evidence) and all(np.all(np.isfinite(part)) for part in values)):
            raise ValueError("Its evidence or a prediction is not a finite number.")
    except Exception as error:  # whatever it was, it is the reason
        return Reference(key, reason=" ".join(reason_of(error).split()))
    margin = None if model.likelihood.margin is None else float(model.likelihood.margin.numpy())
    return Reference(key, "", free_values(model.kernel), margin, values, evidence, told)
