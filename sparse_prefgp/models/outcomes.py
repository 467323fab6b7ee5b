"""What a model knows of duels besides the utilities: cuts of ties and grades, noise of groups."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp

from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.factors.noise import ONE_NOISE, NoiseRatios, ratios_of_unknown
from sparse_prefgp.io.files import id_text
from sparse_prefgp.models.protocols import KnownDuels, Predicts
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.checks import check_choice, check_number, one_each
from sparse_prefgp.support.words import shortened

# What a tie tells: that v lies in a box, or how wide the box is and nothing of the utilities.
BOX, MARGIN_ONLY = "box", "margin-only"
# The step from one cut to the next, where learning starts.
FIRST_STEP = 0.7
# Standard deviation of the log of a step or margin next to a grade that nobody used.
CUT_WITHOUT_GRADES_SD = 1.0
# Cuts of groups differ by a factor of some e^0.5 from one another, as a rule.
CUT_LOG_SD = 0.5
# What is done about labels that a model does not know.
LEANS, NOISE = "its lean is averaged over the prior", "noise is averaged over the prior"
# Noise variances of groups differ by a factor of some e² from one another, as a rule.
RATIO_LOG_SD = 1.0


def margin_parameter(margin: Any, duels: Any) -> gpflow.Parameter | None:
    """The margin, trainable where ties or grades tell something of it.

    Where a tie is among the levels of the grades and nobody used it, there is a prior about the
    value given.

    :param duels: `Duels`, or what stands for them where they are streamed.
    :raises ValueError: a margin that is not positive.
    """
    levels = duels.levels
    if margin is None or (levels is not None and len(levels) % 2 == 0):
        return None
    check_number("margin", margin, above=0.0, hint=", or None")
    value = float(margin)
    return gpflow.Parameter(
        value,
        transform=gpflow.utilities.positive(),
        prior=_about(value) if levels is not None and not duels.num_ties else None,
        trainable=duels.num_ties > 0 or levels is not None,
    )


def step_parameters(steps: Any, duels: Any) -> tuple[gpflow.Parameter, ...]:
    """The steps from one cut to the next, (K - 1), all trainable.

    Where nobody used a grade on one side of it, likelihood alone would drive a step to 0 or to
    infinity: it gets a prior about its first value, and a warning. (Held there it would give the
    grade a share that the votes contradict.)

    :param steps: as given; None where each is to start at 0.7.
    :param duels: `Duels`, or what stands for them where they are streamed.
    :raises ValueError: steps without grades, too many or too few; one that is not positive.
    """
    used, names = duels.grade_counts, duels.levels
    wanted = 0 if used is None else len(used) - 2
    given = [FIRST_STEP] * wanted if steps is None else list(np.atleast_1d(np.asarray(steps)))
    if len(given) != wanted:
        raise ValueError(
            f"cut_steps has {len(given)} entries, but the grades have {wanted + 1} levels on "
            f"either side of a tie, and so {wanted} steps; give as many."
        )
    free = () if used is None else steps_to_learn(used)
    if used is not None and names is not None:
        _warn_of_unused(used, names)
    for value in given:
        check_number("Each of cut_steps", value, above=0.0)
    values = [float(value) for value in given]
    return tuple(
        gpflow.Parameter(
            value,
            transform=gpflow.utilities.positive(),
            prior=None if learned else _about(value),
        )
        for value, learned in zip(values, free, strict=True)
    )


def _about(value: float) -> tfp.distributions.Distribution:
    """The prior of a cut that no grade tells of."""
    return tfp.distributions.LogNormal(np.log(np.float64(value)), np.float64(CUT_WITHOUT_GRADES_SD))


def steps_to_learn(used: IntArray) -> tuple[bool, ...]:
    """Which steps between cuts grades tell something of, (K - 1): those with grades on both sides.

    :param used: (K + 1,) how often each level was said, ties first.
    """
    inner = range(1, len(used) - 1)
    return tuple(bool(used[i] > 0 and used[i + 1 :].sum() > 0) for i in inner)


def cuts_of(
    margin: gpflow.Parameter | None, steps: tuple[gpflow.Parameter, ...]
) -> tf.Tensor | None:
    """(K,), ascending, the margin (or 0) and each step above the last; None without either."""
    if margin is None and not steps:
        return None
    first = 0.0 if margin is None else margin
    return tf.cumsum(
        tf.stack([tf.convert_to_tensor(x, gpflow.default_float()) for x in (first, *steps)])
    )


def check_tie_model(tie_model: Any) -> None:
    """:raises ValueError: a model of ties that there is not."""
    check_choice("tie_model", tie_model, (BOX, MARGIN_ONLY))


def _warn_of_unused(used: IntArray, names: tuple[str, ...]) -> None:
    """Say which grades nobody used, in either order of the two sides."""
    top = len(used) - 1
    ties = len(names) % 2 == 1
    for level in range(0 if ties else 1, top + 1):
        if used[level]:
            continue
        low, high = names[top - level], names[len(names) - 1 - top + level]
        what = repr(low) if level == 0 else f"{low!r} or {high!r}"
        warnings.warn(
            f"Nobody used the grade {what}, so that the prior decides how small its share is; "
            "leave that level out, or fix the cuts.",
            stacklevel=4,
        )


class GroupRatios(gpflow.Parameter):
    """By what each group multiplies the noise variance or the cuts, (number of groups,), held as
    log r.

    A prior on the unconstrained value is the density of log r, whose mode is that of the prior.
    GPflow turns it into the density of r, a factor 1 / r, which would move the mode of log r from
    its mean by its variance.
    """

    def log_prior_density(self) -> tf.Tensor:
        """Log density of the prior, summed over groups, in nats: of log r, or of r if it is on
        the constrained value."""
        if self.prior is None or self.prior_on is gpflow.base.PriorOn.CONSTRAINED:
            return super().log_prior_density()
        return tf.reduce_sum(self.prior.log_prob(self.unconstrained_variable))

    @classmethod
    def like(cls, parameter: gpflow.Parameter) -> GroupRatios:
        """With value, transform, prior and trainability of another parameter, to the bit."""
        result = cls(parameter)
        result.unconstrained_variable.assign(parameter.unconstrained_variable)
        return result


def ratio_parameter(duels: KnownDuels) -> GroupRatios:
    """The ratios of the groups of some duels, all 1, with the prior log r ~ N(0, 1)."""
    return _of_groups(len(duels.group_names or ()), RATIO_LOG_SD)


def scale_parameter(duels: KnownDuels, by_group: bool) -> GroupRatios | None:
    """By what each group multiplies the cuts, all 1, with the prior log ~ N(0, 0.25); or None.

    Warns of groups all of whose duels have one grade, of which the prior decides.
    """
    if not by_group:
        return None
    _warn_of_one_grade(duels)
    return _of_groups(len(duels.group_names or ()), CUT_LOG_SD)


def _warn_of_one_grade(duels: KnownDuels) -> None:
    """Say whose answers are all the same, whichever side was better."""
    names, levels = duels.group_names, duels.group_levels
    assert names is not None and levels is not None
    alone = np.flatnonzero((levels > 0).sum(1) == 1)
    if alone.size:
        warnings.warn(
            f"The group {names[alone[0]]!r} gave one grade only ({alone.size:,} of "
            f"{len(names):,} groups did), so that the prior decides the scale of its cuts.",
            stacklevel=4,
        )


def _of_groups(number: int, sd: float) -> GroupRatios:
    dtype = gpflow.default_float()
    return GroupRatios(
        np.ones(number),
        transform=tfp.bijectors.Exp(),
        prior=tfp.distributions.Normal(dtype(0.0), dtype(sd)),
        prior_on="unconstrained",
    )


def new_ratios(
    parameter: gpflow.Parameter | None, cut_scale: gpflow.Parameter | None = None
) -> NoiseRatios:
    """Noise and cuts of a duel to come whose group is unknown, by the priors of the ratios.

    :param parameter: the ratios of a model; None where all duels have one noise.
    :param cut_scale: those of the cuts; None where all have the same.
    :raises ValueError: a prior that says nothing of log r.
    """
    if parameter is None:
        return ONE_NOISE
    noise = _prior_of(parameter, "noise_ratio")
    return ratios_of_unknown(
        *noise, None if cut_scale is None else _prior_of(cut_scale, "cut_scale")
    )


def _prior_of(parameter: gpflow.Parameter, name: str) -> tuple[float, float]:
    """Mean and sd of log r."""
    prior = parameter.prior
    if not (
        isinstance(prior, tfp.distributions.Normal)
        and parameter.prior_on is gpflow.base.PriorOn.UNCONSTRAINED
    ):
        kind = "no prior" if prior is None else f"the prior {type(prior).__name__}"
        what = "how noisy an unknown group is" if name == "noise_ratio" else "what cuts it has"
        raise ValueError(
            f"{name} has {kind}, which does not say {what}; name the group of each duel, or give "
            f"{name} a normal prior on the unconstrained value."
        )
    return float(np.asarray(prior.loc)), float(np.asarray(prior.scale))


def label_columns(model: Any, columns: Any) -> tuple[str, ...]:
    """The columns of a table whose labels lean in a model."""
    return tuple(column for column in model.leaning.columns if column in columns)


def known_codes(
    codes: Codes,
    names: tuple[Hashable, ...],
    one: str,
    then: str,
    often: npt.NDArray[Any] | None = None,
) -> Codes:
    """Labels by the numbers that a model has for them, -1 for those that it does not know, of which
    one warning is given; of a label None none is.

    Labels are compared as they are, else as text: 7 and "7" are one group.

    :param names: those of the model.
    :param one: of them is, and `then` what is done about unknown ones.
    :param often: (e,) how often each was said, where these are the duels of a stream.
    """
    if codes.names == names:
        return codes._replace(numbers=codes.numbers.astype(np.int64))
    number = np.maximum(codes.numbers, -1)
    found = np.append(places_of(codes.names, names), -1)[number]
    named = np.array([*(name is not None for name in codes.names), False])[number]
    unknown = np.flatnonzero((found < 0) & named)
    if unknown.size:
        each, what = (np.ones(len(found), int), "pairs") if often is None else (often, "duels")
        warnings.warn(
            f"The {one} {shortened(codes.names[number[unknown[0]]])} is unknown to the model "
            f"({each[unknown].sum():,} of {each.sum():,} {what} have unknown ones); {then}.",
            stacklevel=4,
        )
    return Codes(found, names, codes.column)


def warn_without_blocks(model: Predicts, in_chunks: bool = False) -> None:
    """Say that a model with blocks predicts new duels from the inducing values alone, and why."""
    role = model.duels.roles["block"]
    why = f"there is no column {role!r} of their blocks; name it (columns=, --columns block=…)"
    if model.approximation.labels is None:
        why = "k-means, which made the blocks of the model, gives them none"
    elif not model.duels.held:
        why = "a model of streamed duels does not keep what its blocks know"
    elif in_chunks:
        why = "duels that are read in chunks join no block"
    warnings.warn(
        f"These duels are predicted from the inducing values alone, since {why}.", stacklevel=4
    )


def known_blocks(model: Any, events: Answers) -> Codes | None:
    """The blocks of duels by the numbers that the approximation has for them, as `known_codes`;
    None where it was given none, or the model does not keep what its blocks know.
    """
    labels = model.approximation.labels
    if events.block is None or labels is None or not model.duels.held or events.has_sets:
        return None
    then = "these duels are predicted from the inducing values alone"
    return known_codes(events.block, labels, "block", then)


def group_numbers(groups: Any, pairs: int, duels: KnownDuels, by_group: bool) -> IntArray:
    """The number of each pair's group, (pairs,), -1 where it is None or unknown, of which a warning
    is given.

    Labels are compared as they are, else as text: 7 and "7" are one group.

    :raises ValueError: labels of another length; a model without noise by group.
    """
    if not by_group:
        raise together.refused(groups=True, one_noise=True)
    names = duels.group_names or ()
    return numbers_of(groups, pairs, names, "groups", "group", NOISE)


def numbers_of(
    given: Any, pairs: int, names: Sequence[Hashable], what: str, one: str, then: str
) -> IntArray:
    """The place of each pair's label, (pairs,), -1 where it is None or unknown.

    :param what: the labels are, and `one` of them.
    :param then: what is done about unknown ones.
    """
    codes = Codes.of(one_each(what, given, pairs).tolist())
    return known_codes(codes, tuple(names), one, then).numbers


def places_of(labels: Sequence[Hashable], names: Sequence[Hashable]) -> IntArray:
    """The place of each label among some names, (k,), -1 where it is None or none of them.

    Labels are compared as they are, else as text: 7 and "7" are one group.
    """
    known: dict[Hashable, int] = {id_text(name): i for i, name in enumerate(names)}
    known.update({name: i for i, name in enumerate(names)})
    known.update({None: -1})
    return np.array([known.get(x, known.get(id_text(x), -1)) for x in labels], dtype=np.int64)
