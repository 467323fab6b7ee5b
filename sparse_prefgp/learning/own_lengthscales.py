"""A lengthscale for each column, begun at the optimum of one for all columns.

Many lengthscales from the start let a stationary term die under a bound next to a linear one
(`learning/dying.py`); from the optimum of one they do not meet the residual that makes it die
(docs/choosing.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from sparse_prefgp.covariances.finite import parts_of
from sparse_prefgp.covariances.kernels import variance_of
from sparse_prefgp.learning.dying import DEAD
from sparse_prefgp.learning.notes import OWN_LENGTHSCALES
from sparse_prefgp.learning.report import OptimisationReport
from sparse_prefgp.models.parameters import LogParameter
from sparse_prefgp.support.arrays import IntArray, distinct

# Steps at most, nats of log evidence that many lengthscales have to bring, and what a linear term
# begins with at least, over the number of its features: nothing brings back one that has less.
STEPS, LEAST_GAIN, LEAST_LINEAR = 40, 2.0, 1e-3


class SharedWithin(tfp.bijectors.Bijector):
    """(D,) values that are the same within groups: each is the mean of what is free in its group.

    :param group: (D,) the number of the group of each, from 0.
    """

    def __init__(self, group: IntArray) -> None:
        self._group, self._number = tf.constant(group), int(group.max()) + 1
        super().__init__(forward_min_event_ndims=1, name="shared_within")

    def _forward(self, x: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.math.unsorted_segment_mean(x, self._group, self._number), self._group)

    def _inverse(self, y: tf.Tensor) -> tf.Tensor:
        return y


def begin_own(
    model: Any, kernels: Sequence[gpflow.kernels.Stationary], attributes: Sequence[Sequence[int]]
) -> int:
    """Give kernels with one lengthscale l for all features one for each attribute, at l, where the
    log density of each is that of N(log l, 1) if that of l had any; and linear terms of one
    variance at least 0.001 over the number of their features.

    :param model: at the optimum of one lengthscale; the covariance stays as it is, where no linear
        variance was below that.
    :param attributes: features that have a lengthscale in common, such as those of the categories
        of one column; each feature is in one of them.
    :return: How many lengthscales there are now.
    """
    width, made = sum(map(len, attributes)), 0
    of = np.zeros(width, dtype=int)
    for number, features in enumerate(attributes):
        of[list(features)] = number
    for part in parts_of(model.kernel):
        if type(part) is gpflow.kernels.Linear and part.variance.shape.rank == 0:
            least = LEAST_LINEAR / len(np.arange(width)[part.active_dims])
            if part.variance.trainable and part.variance.numpy() < least:
                part.variance.assign(least)
    for kernel in kernels:
        one = kernel.lengthscales
        group = distinct(of[kernel.active_dims])[1]
        sizes, centre = np.bincount(group), float(one.numpy())
        prior, transform = None, one.transform
        if one.prior is not None:  # counted once for each feature
            sd = np.sqrt(sizes[group].astype(float))
            prior = tfp.distributions.LogNormal(np.log(np.full(len(group), centre)), sd)
        if len(sizes) < len(group):
            transform = tfp.bijectors.Chain([transform, SharedWithin(group)])
        first = np.full(len(group), centre)
        kernel.lengthscales = LogParameter(first, transform=transform, prior=prior)
        kernel.lengthscales.unconstrained_variable.assign(
            tf.fill([len(group)], one.unconstrained_variable)
        )
        made += len(sizes)
    return made


def learn_own(
    model: Any,
    kernels: Sequence[gpflow.kernels.Stationary],
    attributes: Sequence[Sequence[int]],
    first: OptimisationReport,
    learn: Callable[[int], OptimisationReport],
) -> OptimisationReport:
    """Learn a lengthscale for each attribute after one for all, and keep it where log evidence
    gains 2 nats or more; else the model is left at the optimum of one.

    :param model: at that optimum.
    :param kernels: terms of its kernel with one lengthscale for all features.
    :param attributes: as for `begin_own`.
    :param first: what the optimiser said of it.
    :param learn: climbs on in so many steps at most.
    :return: The report of both; its `own_lengthscales` is one sentence on what was done.
    """
    alive = [kernel for kernel in kernels if variance_of(kernel)[1] >= DEAD]
    if not alive or len(attributes) < 2:
        why = "there is one" if alive else "hardly any variance was left to their term"
        told = f"{OWN_LENGTHSCALES} {len(attributes)} columns were not learned, as {why}."
        return replace(first, own_lengthscales=told)
    before = [(kernel, kernel.lengthscales) for kernel in alive]
    reached = [(one, one.numpy()) for one in model.trainable_variables]
    number = begin_own(model, alive, attributes)
    second = learn(STEPS)
    gain = second.log_evidence - first.log_evidence
    told = (
        f"{OWN_LENGTHSCALES} {number} columns, begun at the optimum of one for all, brought "
        f"{gain:,.1f} nats of log evidence in {second.iterations} steps"
    )
    costs = {
        name: getattr(first, name) + getattr(second, name)
        for name in ("evaluations", "sweeps", "seconds", "compile_seconds", "failed_evaluations")
    }
    both = replace(first, **costs)
    if gain < LEAST_GAIN:
        for kernel, one in before:
            kernel.lengthscales = one
        for variable, value in reached:
            variable.assign(value)
        model.infer(restart=True)
        kept = f"{told}, fewer than {LEAST_GAIN:g}, so that one for all is kept."
        return replace(both, own_lengthscales=kept)
    for kernel, one in before:
        own = kernel.lengthscales
        if own.transform is not one.transform:  # shared within groups, which no saved model names
            plain = LogParameter(own.numpy(), transform=one.transform, prior=own.prior)
            kernel.lengthscales = plain
    return replace(
        both,
        iterations=first.iterations + second.iterations,
        history=(*first.history, *second.history),
        log_evidence=second.log_evidence,
        log_prior=second.log_prior,
        inference=second.inference,
        limits=second.limits,
        own_lengthscales=f"{told}, and are kept.",
    )
