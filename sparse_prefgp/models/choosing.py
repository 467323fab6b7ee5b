"""What models of duels say of sets of alternatives: who is chosen, and how they are ranked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from scipy.special import logsumexp

from sparse_prefgp.data.answers import CHOICE, WIN, Answers, Covariates
from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.data.sets import SetForm
from sparse_prefgp.factors.choice_probabilities import (
    answer_log_probability,
    choice_log_probabilities,
)
from sparse_prefgp.models.posterior import CHUNK, SetPosterior
from sparse_prefgp.models.questions import as_known
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_shape
from sparse_prefgp.support.machine import ask

# Kinds of answers that say who was chosen, first.
CHOSEN = (CHOICE, WIN)
EP, BY_POINTS = "ep", "points"
METHODS = (EP, BY_POINTS)
# Numbers of pairs of rows at once: 64 MB, of which a handful of copies are made.
_AT_ONCE = 2**23
# Of the size of the covariances of sets: these, their pairs, which of them are equal.
_ARRAYS_OF_SETS = 10


def forecast_of_sets(model: Any, inputs: FloatArray, events: Answers, choices: bool) -> Forecast:
    """What `predict` says of some questions about sets as the model knows them, by expectation
    propagation.

    :param choices: whether of each alternative; else of each answer.
    """
    sets = set_posterior(model, inputs, events)
    number = judge_numbers(events)

    def shares(of: IntArray) -> FloatArray:
        """(b, k) log probabilities that each alternative is chosen."""

        def at(noise: FloatArray, which: IntArray) -> FloatArray:
            some = sets.take(of[which])
            return choice_log_probabilities(some.mean, some.covariance, noise, some.mask)

        return over_noises(model, at, number[of])

    if choices:
        return Forecast.of_choices(shares(np.arange(len(events))))
    found, chosen = np.empty(len(events)), np.isin(events.kind, CHOSEN)
    if chosen.any():
        found[chosen] = shares(np.flatnonzero(chosen))[:, 0]
    others = np.flatnonzero(~chosen)
    for _, form, place in events.take(others).forms():
        of, k = others[place], len(form.level)

        def at(
            noise: FloatArray,
            which: IntArray,
            of: IntArray = of,
            k: int = k,
            form: SetForm = form,
        ) -> FloatArray:
            some = of[which]
            mean, covariance = sets.mean[some, :k], sets.covariance[some, :k, :k]
            return answer_log_probability(mean, covariance, noise, form)

        found[of] = over_noises(model, at, number[of])
    return Forecast.of_answers(found)


def set_posterior(model: Any, inputs: FloatArray, events: Answers) -> SetPosterior:
    """What is known of the alternatives of sets between rows, whatever was answered: from
    differences of two alone, each pair once.

    With tastes those are of the person of each event; of somebody of whom nothing is known
    where events are nobody's.

    :param inputs: (n, D) rows as `predict_f` takes them.
    :raises NotEnoughMemory: more than is free.
    """
    model.allow(choice=True)
    events = as_known(model, events)
    at, mask = events.padded()
    b, k = at.shape
    ask(
        _ARRAYS_OF_SETS * 8 * b * k**2,
        f"Covariances of {b:,} sets of {k:,} alternatives",
        "ask about fewer sets at a time",
    )
    places = events.sides[at]
    if events.covariates is not None:  # a row for each side
        numbers = model.inputs.levels_of(events.labels, len(events))
        # An unknown label is one for all alternatives of its set.
        numbers = np.where(numbers < 0.0, -2.0 - np.arange(len(events))[:, None], numbers)
        numbers = np.repeat(numbers, events.sizes, axis=0)
        inputs = model.inputs.before_covariates(inputs[events.sides])
        inputs, places = np.column_stack([inputs, events.covariates, numbers]), at
    rows = np.asarray(model.inputs.rows(inputs))
    people = None if events.person is None else events.person.numbers
    first, second = np.triu_indices(k, 1)
    pairs = np.stack([places[:, first], places[:, second]], -1).reshape(-1, 2)
    turned = pairs[:, 0] > pairs[:, 1]
    keys = np.sort(pairs, 1)
    if people is not None:
        keys = np.column_stack([keys, np.repeat(people, len(first))])
    each, number = np.unique(keys, axis=0, return_inverse=True)
    found = np.zeros((len(each), 2))
    step = CHUNK * max(1, _AT_ONCE // (2 * rows.shape[1] * CHUNK))
    for start in range(0, len(each), step):
        some = each[start : start + step]
        whose = None if people is None else some[:, 2]
        ends = tf.gather(rows, some[:, :2])
        found[start : start + step] = model.people.differences(ends, whose).numpy()
    lead = np.where(turned, -1.0, 1.0) * found[number.reshape(-1), 0]
    spread = found[number.reshape(-1), 1]
    mean, apart = np.zeros((b, k)), np.zeros((b, k, k))
    lead, spread = lead.reshape(b, -1), spread.reshape(b, -1)
    apart[:, first, second] = apart[:, second, first] = spread
    mean[:, 1:] = -lead[:, : k - 1]  # the pairs with the first one come first
    covariance = 0.5 * (apart[:, :1, :] + apart[:, :, :1] - apart)
    return SetPosterior(mean, covariance, mask)


def judge_numbers(events: Answers) -> IntArray:
    """The number of who judged each event as the model knows it, below 0 for unknown ones."""
    return np.full(len(events), -1) if events.judge is None else events.judge.numbers


def look_noise(model: Any, number: IntArray) -> tuple[FloatArray, FloatArray]:
    """Noise variances of the alternatives of sets, and their weights, (K, sets) each: that of
    a known group, or K of the prior of an unknown one.

    :param number: (sets,) of the group of each, below 0 for unknown ones.
    """
    sets, known = len(number), number >= 0
    noise = np.full(sets, float(model.likelihood.noise.numpy()))
    if model.likelihood.noise_ratio is None:
        return noise[None], np.ones((1, sets))
    each = model.likelihood.noise_ratio.numpy()[np.maximum(number, 0)]
    if known.all():
        return (noise * each)[None], np.ones((1, sets))
    prior = model.likelihood.new_ratios(with_cuts=False)
    ratios = np.where(known, each, prior.ratios[:, None])
    return noise * ratios, np.broadcast_to(prior.weights[:, None], ratios.shape)


def sets_given(
    model: Any, X: Any, mask: Any, covariates: Any, labels: Any
) -> tuple[FloatArray, Answers, BoolArray]:
    """The alternatives that there are, sets of them, and which these are, (b, k)."""
    model.allow(choice=True)
    given = np.asarray(X, np.float64)
    if given.ndim != 3 or 0 in given.shape[:2]:
        raise ValueError(
            f"X has shape {given.shape}; give (b, k, D), k alternatives of each of b sets."
        )
    b, k = given.shape[:2]
    there = np.ones((b, k), bool) if mask is None else np.asarray(mask)
    if there.shape != (b, k) or there.dtype != bool:
        raise ValueError(
            f"mask has shape {there.shape} and type {there.dtype} for {b} sets of {k}; give "
            "truth values of that shape."
        )
    empty = np.flatnonzero(~there.any(1))
    if empty.size:
        raise ValueError(f"Set {empty[0]} has no alternative; leave it out, or mask fewer.")
    sizes, said = there.sum(1), None
    if covariates is not None:
        c = model.inputs.layout.covariates
        values = np.asarray(covariates, np.float64)
        check_shape("covariates", values, b, k, c, hint=", of each alternative")
        said = Covariates(values[there], model.duels.covariate_names)
    events = Answers(
        np.arange(sizes.sum()),
        np.append(0, np.cumsum(sizes)),
        kind=np.full(b, CHOICE, np.int8),
        covariates=said,
        labels=model.inputs.known_labels(labels, b),
    )
    return given[there], events, there


def over_noises(
    model: Any, at: Callable[[FloatArray, IntArray], FloatArray], number: IntArray
) -> FloatArray:
    """Log probabilities of sets at the noise of known groups, averaged over that of others.

    :param at: of noise variances (b,) and the numbers of b sets.
    :param number: as of `look_noise`.
    """
    parts = []
    for which in (np.flatnonzero(number >= 0), np.flatnonzero(number < 0)):
        if len(which):
            noises, weights = look_noise(model, number[which])
            logs = np.stack([at(noise, which) for noise in noises])
            shape = weights.shape + (1,) * (logs.ndim - 2)
            parts.append((which, logsumexp(logs + np.log(weights).reshape(shape), axis=0)))
    found = np.empty((len(number), *parts[0][1].shape[1:]))
    for which, values in parts:
        found[which] = values
    return found
