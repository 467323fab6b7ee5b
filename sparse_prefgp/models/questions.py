"""Questions as a model knows them, and what it says of those about duels."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.answers import Answers, Codes, Covariates
from sparse_prefgp.data.forecast import DUELS, FIRST, GRADES, OUTCOMES, SECOND, TIE, Forecast
from sparse_prefgp.models.likelihood import Outcomes
from sparse_prefgp.models.outcomes import LEANS, NOISE, known_blocks, known_codes, label_columns
from sparse_prefgp.models.people import UNKNOWN_PERSON
from sparse_prefgp.models.posterior import differences_in_blocks
from sparse_prefgp.support.arrays import FloatArray

# What is said of those that a model does not know.
_UNKNOWN_JUDGE = "group", NOISE


def as_known(model: Any, events: Answers) -> Answers:
    """Questions with what is of account to the model alone: judges, people, blocks and labels by
    its own numbers, those that it does not know, of which warnings tell, below 0; its covariates.

    :raises ValueError: some of the covariates alone.
    """
    duels, judge, person, said = model.duels, None, None, None
    if model.likelihood.noise_ratio is not None and events.judge is not None:
        judge = known_codes(events.judge, duels.group_names or (), *_UNKNOWN_JUDGE)
    if model.people.names and model.view.of_each and events.person is not None:
        person = known_codes(events.person, model.people.described, *UNKNOWN_PERSON)
    labels = {
        column: known_codes(events.labels[column], duels.label_names[column], column, LEANS)
        for column in label_columns(model, events.labels)
    }
    names, there = duels.covariate_names, events.covariate_names
    missing = [name for name in names if name not in there]
    if len(missing) < len(names):
        for name in missing:
            raise ValueError(
                f"The duels have no {name!r}, a covariate of the model, but "
                f"{', '.join(map(repr, there))}; give them the covariates of the model, or "
                "none."
            )
        assert events.covariates is not None
        values = events.covariates[:, [there.index(name) for name in names]]
        said = Covariates(values, names)
    block = known_blocks(model, events)
    return events.saying(judge=judge, person=person, labels=labels, covariates=said, block=block)


def forecast_of_duels(model: Any, inputs: FloatArray, events: Answers) -> Forecast:
    """What `predict` says of some duels as the model knows them."""
    ends, layout = events.pairs.T, model.inputs.layout
    Xa, Xb = (inputs[end] for end in ends)
    if events.time is not None and layout.dated:
        Xa, Xb = model.in_time.dated(Xa, events.time), model.in_time.dated(Xb, events.time)
    # Not even rounding parts an item from itself.
    said, same = events.covariate_differences, ends[0] == ends[1]
    if said is not None:
        Xa, Xb = model.inputs.in_duels(Xa, Xb, said, events.labels)
        same &= ~said.any(1)
    pairs = model.inputs.pairs(Xa, Xb)
    if layout.numbered and said is not None:  # nor an effect of its own
        number = np.arange(pairs.shape[2]) == layout.number
        again = (ends[0] == ends[1])[:, None, None]
        pairs = tf.where(again & number, pairs[:, :1], pairs)
    if events.block is None:
        people = None if events.person is None else events.person.numbers
        moments = model.people.differences(pairs, people)
    else:
        moments = differences_in_blocks(model.posterior(), pairs, events.block.numbers)
    mean, variance = np.where(same, 0.0, moments.numpy().T)
    return forecast_of(model, mean, variance, events.judge)


def forecast_of(model: Any, mean: Any, variance: Any, judge: Codes | None = None) -> Forecast:
    """What `predict` says of duels, from mean and variance of f(first) - f(second), (t,) each.

    :param judge: of each duel, where the model has noise by group.
    """
    number = None
    if judge is not None and model.likelihood.noise_ratio is not None:
        number = known_codes(judge, model.duels.group_names or (), *_UNKNOWN_JUDGE).numbers
    m, v = as_float(mean), as_float(variance)
    found = Outcomes(model.likelihood, model.engine.link_function, m, v, number)
    if model.duels.levels is not None:
        of, names, logs = GRADES, model.duels.levels, found.grades
    elif model.likelihood.margin is not None:
        of, names, logs = OUTCOMES, (FIRST, TIE, SECOND), found.win_tie_loss
    else:
        of, names, logs = DUELS, (FIRST, SECOND), tf.stack([found.win, found.turned.win], 1)
    return Forecast(of, logs.numpy(), names, m.numpy(), v.numpy())
