"""A model of one run: training duels, hyperparameters, inducing inputs; and what it predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparse_prefgp.lab.ablation.configuration import METHODS, Study
from sparse_prefgp.lab.ablation.data import INPUTS, ITEMS, stream
from sparse_prefgp.lab.ablation.parting import parted
from sparse_prefgp.lab.ablation.runs import RunSettings
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.workflow.holdout import Holdout, prepare
from sparse_prefgp.workflow.kernel_names import KernelChoice
from sparse_prefgp.workflow.settings import FitSettings

if TYPE_CHECKING:
    from gpflow.kernels import Kernel

    from sparse_prefgp.models import PreferenceGP


# Distinct test items on which predictive distributions are compared.
COMPARED_ITEMS = 500


@dataclass(frozen=True, eq=False)
class KernelValues:
    """Unconstrained values of the kernel's parameters by GPflow's paths, as one at a limit has no
    other, and the margin of ties, if any."""

    kernel: Mapping[str, FloatArray]
    margin: float | None = None

    @classmethod
    def of(cls, model: PreferenceGP) -> KernelValues:
        """Those that a model has."""
        import gpflow

        parameters = gpflow.utilities.parameter_dict(model.kernel)
        margin = None if model.margin is None else float(model.margin.numpy())
        values = {name: p.unconstrained_variable.numpy() for name, p in parameters.items()}
        return cls(values, margin)

    def give(self, kernel: Kernel) -> None:
        """Let a kernel of the same make have them."""
        import gpflow

        for name, parameter in gpflow.utilities.parameter_dict(kernel).items():
            parameter.unconstrained_variable.assign(self.kernel[name])


class Predictions(NamedTuple):
    """For the held-out duels and the test items that are compared."""

    log_probabilities: FloatArray
    """(k,) that the observed winner wins, in nats."""
    mean: FloatArray
    """(N,), (N, N) of the utilities of the compared items."""
    covariance: FloatArray
    """(N,), (N, N) of the utilities of the compared items."""


def left_out(study: Study, run: RunSettings) -> str | None:
    """The label of the group that is left out, None where none is.

    :raises ValueError: what `parted` raises.
    """
    return parted(study.data, study.split, run.max_train, run.seed).group


def held_out(study: Study, run: RunSettings) -> tuple[Holdout, FloatArray | None]:
    """Training and test duels of a run, and the utilities of all items where they are known.

    :raises ValueError: what `parted` and `prepare` raise.
    """
    part = parted(study.data, study.split, run.max_train, run.seed)
    gp = not run.is_baseline
    settings = FitSettings(
        split=run.split,
        seed=run.seed,
        approximation=run.approximation if gp else "exact",
        kernel=run.kernel if gp else "linear",
        inducing=run.inducing,
        max_iterations=study.iterations,
        noise_variance=study.noise_variance,
        engine=run.engine if gp else "ep",
    )
    return prepare(part.table, settings, part.split), part.utilities


def start_model(
    study: Study, run: RunSettings, holdout: Holdout, given: KernelValues | None
) -> PreferenceGP:
    """The model before anything is learned.

    :param given: hyperparameters to begin with; with a `fixed` run they stay. None are those that
        the kernel starts with.
    :raises ValueError: what `initial_inputs` and `PreferenceGP` raise, and values under `at` of
        another length than there are features.
    """
    import gpflow

    from sparse_prefgp.learning.initial import initial_inputs

    kernel = holdout.kernel()
    if given is not None:
        given.give(kernel)
    elif run.is_fixed and study.at is not None:
        _assign(holdout.settings.kernel_choice, kernel, study.at)
    inputs = None
    if run.inducing is not None:
        method, rng = METHODS[run.inducing_inputs], stream(run.seed, INPUTS)
        inputs = initial_inputs(method, holdout.train, kernel, run.inducing, rng)
    model = holdout.model(inputs, kernel, None if given is None else given.margin)
    if run.is_fixed:
        gpflow.set_trainable(model.kernel, False)
        if model.margin is not None:
            gpflow.set_trainable(model.margin, False)
    if model.inducing_variable is not None:
        gpflow.set_trainable(model.inducing_variable, run.learns_inputs)
    return model


def _assign(choice: KernelChoice, kernel: Kernel, at: Mapping[str, Mapping[str, Any]]) -> None:
    terms = kernel.kernels if len(choice.parts) > 1 else [kernel]
    for part, term in zip(choice.parts, terms, strict=True):
        for name, value in at[part].items():
            parameter = getattr(term, name)
            shape = parameter.shape
            given = np.asarray(value, dtype=float)
            if given.ndim and given.shape != tuple(shape):
                raise ValueError(
                    f"There are {given.size} values for the {name} of {part} under at, but it has "
                    f"{int(np.prod(shape))} of them; give as many, or one for all."
                )
            parameter.assign(np.broadcast_to(given, tuple(shape)))


def predictions(model: PreferenceGP, holdout: Holdout, rows: IntArray) -> Predictions:
    """What a model says of the held-out duels and of the items in these rows."""
    from sparse_prefgp.analysis.scoring import pair_log_probabilities

    log_p = pair_log_probabilities(model, *holdout.test_sides())
    mean, covariance = model.predict_f(model.item_inputs(rows), full_cov=True)
    return Predictions(log_p, mean.numpy()[:, 0], covariance.numpy()[0])


def compared_items(holdout: Holdout, seed: int) -> IntArray:
    """Rows of at most 500 distinct test items, drawn at random where there are more.

    Items with equal features are one, unless the kernel gives every item an effect of its own.
    """
    rows = np.unique(np.concatenate(holdout.test_sides()))
    if not holdout.settings.kernel_choice.has_items:
        _, first = np.unique(holdout.train.items[rows] + 0.0, axis=0, return_index=True)
        rows = rows[np.sort(first)]
    if len(rows) > COMPARED_ITEMS:
        rows = np.sort(stream(seed, ITEMS).choice(rows, COMPARED_ITEMS, replace=False))
    return rows.astype(np.int64)
