"""The likelihood of an answer given utilities: normal noise, by judge or not, and the cuts of ties
and grades."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Self

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.factors.links import Link
from sparse_prefgp.factors.noise import ONE_NOISE, NoiseRatios, duel_noise, ratios_of_unknown
from sparse_prefgp.models.known import described_by
from sparse_prefgp.models.parameters import LogParameter, take_by_name
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice, check_number, check_shape
from sparse_prefgp.support.words import agreeing, shortened, some_of

USUAL_NOISE = " (0.5 is the standard probit scale)"
# What a tie tells: that v lies in a box, or how wide the box is and nothing of the utilities.
BOX, MARGIN_ONLY = "box", "margin-only"
# Of whom noise and cuts may be.
JUDGE = "judge"
# The step from one cut to the next, where learning starts.
FIRST_STEP = 0.7
# Standard deviation of the log of a step or margin next to a grade that nobody used.
CUT_WITHOUT_GRADES_SD = 1.0
# Cuts of judges differ by a factor of some e^0.5 from one another, as a rule.
CUT_LOG_SD = 0.5
# Noise variances of judges differ by a factor of some e² from one another, as a rule.
RATIO_LOG_SD = 1.0
# Pairs times noises of one step of an average.
_AVERAGED_AT_ONCE = 1 << 17
# Of judges who say one thing alone, so many are named.
_NAMED = 30


class Probit(gpflow.Module):
    """Which side wins, by how much or whether neither does, where both have normal noise.

    A model has its own copy, made for its duels (`on`), which shares the parameters that are there
    already: a number that is given is what a parameter begins from.

    :param noise: sigma² per side of a duel, a number or a parameter; not trainable at first,
        because duels determine only its ratio to the kernel variance. 0.5 is the standard probit
        scale.
    :param by: "judge": learn for each judge by what it multiplies the noise, `noise_ratio`, one
        number r each with log r ~ N(0, 1). Predictions for nobody in particular are averaged over
        that prior.
    :param margin: by how much a utility, noise included, must exceed the other for a win; within
        it the duel is a tie. Needed where there are ties, and then learned from this value
        (`gpflow.set_trainable(model.likelihood.margin, False)` keeps it); None is not a margin.
    :param cuts: where duels are graded, their number K on either side of a tie, the margin being
        the first, or by how much each lies above the one before, K - 1 positive numbers, from which
        these `steps` are learned; by default as many as the duels have, and steps of 0.7. Those
        next to a grade that nobody used have a prior about that, with a warning.
    :param cuts_by: "judge": learn for each judge by what it multiplies margin and cuts,
        `cut_scale`, one number s each with log s ~ N(0, 0.5²); averaged over like the noise,
        jointly.
    :param ties: "box": a tie says that two utilities are close. "margin-only": ties tell nothing of
        the utilities, which are learned from the others alone; afterwards
        `learning.ties.fit_tie_margin`, by which `optimise` ends, finds the margin (docs/ties.md).
    :raises ValueError: a value that makes no sense.
    """

    # Of a likelihood that was made for duels.
    steps: tuple[gpflow.Parameter, ...] = ()
    noise_ratio: LogParameter | None = None
    cut_scale: LogParameter | None = None
    tie_share: gpflow.Parameter | None = None
    """With "margin-only", the share of ties where one for all duels is likelier than a margin."""
    _judges: tuple[Hashable, ...] | None = None
    _margin_untold: bool = False
    """Whether the margin is held because no duel has told of it so far."""

    def __init__(
        self,
        noise: Any = 0.5,
        *,
        by: str | None = None,
        margin: Any = None,
        cuts: Any = None,
        cuts_by: str | None = None,
        ties: str = BOX,
    ) -> None:
        super().__init__()
        for label, column in (("by", by), ("cuts_by", cuts_by)):
            if column is not None:
                check_choice(label, column, (JUDGE,))
        check_choice("ties", ties, (BOX, MARGIN_ONLY))
        self.noise = noise
        if not isinstance(noise, gpflow.Parameter):
            check_number("noise", noise, above=0.0, hint=USUAL_NOISE)
            self.noise = _positive(noise, False)
        if margin is not None and not isinstance(margin, gpflow.Parameter):
            check_number("margin", margin, above=0.0, hint=", or None")
        if isinstance(cuts, bool | str) or (isinstance(cuts, int | np.integer) and cuts < 1):
            raise ValueError(
                f"cuts is {cuts!r}; give the number of grades on either side of a tie, or the "
                "steps from one cut to the next."
            )
        self.by, self.cuts_by, self.ties = by, cuts_by, ties
        self.margin, self.cuts = margin, cuts

    def on(self, duels: Duels) -> Self:
        """This likelihood with the parameters that some duels need.

        Those that are there stay what they are, with transforms, priors and whether they are
        trainable; of judges those that are known keep theirs, and new ones begin at 1.

        :param duels: `Duels`, or what stands for them where they are streamed.
        :raises ValueError: other cuts than the grades have.
        """
        made = copy.copy(self)
        told = duels.num_ties > 0 or duels.levels is not None
        made._margin_untold = not (told or isinstance(self.margin, gpflow.Parameter))
        made._margin_untold |= self._margin_untold and not told
        made.margin = self._margin_of(duels, told)
        made.steps = self._steps_of(duels)
        made._judges = duels.group_names
        if self.by is not None:
            made.noise_ratio = self._of_judges(self.noise_ratio, duels, RATIO_LOG_SD)
        if self.cuts_by is not None:
            if self.cut_scale is None:
                _warn_of_one_grade(duels)
            made.cut_scale = self._of_judges(self.cut_scale, duels, CUT_LOG_SD)
        return made

    def _margin_of(self, duels: Duels, told: bool) -> gpflow.Parameter | None:
        """The margin, trainable where ties or grades have told something of it.

        Where a tie is among the levels of the grades and nobody used it, there is a prior about the
        value given.
        """
        levels, margin = duels.levels, self.margin
        if margin is None or (levels is not None and len(levels) % 2 == 0):
            return None
        if isinstance(margin, gpflow.Parameter):
            if told and self._margin_untold:
                margin = copy.deepcopy(margin)
                gpflow.set_trainable(margin, self.ties == BOX)
            return margin
        prior = _about(margin) if levels is not None and not duels.num_ties else None
        # No gradient tells of a margin that is found after the utilities.
        return _positive(margin, told and self.ties == BOX, prior)

    def _steps_of(self, duels: Duels) -> tuple[gpflow.Parameter, ...]:
        """The steps from one cut to the next, (K - 1), all trainable.

        Where nobody used a grade on one side of it, likelihood alone would drive a step to 0 or to
        infinity: it gets a prior about its first value, and a warning. (Held there it would give
        the grade a share that the votes contradict.)
        """
        used, names, cuts = duels.grade_counts, duels.levels, self.cuts
        wanted = 0 if used is None else len(used) - 2
        if len(self.steps) == wanted and self.steps:
            return self.steps
        if cuts is None or self.steps:
            cuts = [FIRST_STEP] * wanted
        elif isinstance(cuts, int | np.integer):
            cuts = [FIRST_STEP] * (int(cuts) - 1)
        steps = np.atleast_1d(np.asarray(cuts)).tolist()
        cuts = bool(steps) and f"cuts={shortened(self.cuts)}"
        together.check(cuts=cuts, duels_without_grades=used is None)
        if len(steps) != wanted:
            raise ValueError(
                f"cuts has {len(steps)} steps, but the grades have {wanted + 1} levels on either "
                f"side of a tie, and so {wanted} steps; give as many, or the number "
                f"{wanted + 1} of levels."
            )
        for value in steps:
            check_number("Each of cuts", value, above=0.0)
        if used is None or names is None:
            return ()
        _warn_of_unused(used, names)
        return tuple(
            _positive(value, True, None if learned else _about(value))
            for value, learned in zip(steps, steps_to_learn(used), strict=True)
        )

    def _of_judges(self, known: LogParameter | None, duels: Duels, sd: float) -> LogParameter:
        names = duels.group_names or ()
        if known is not None and self._judges in (None, names):
            check_shape("What judges multiply", known.numpy(), len(names))
            return known
        dtype = gpflow.default_float()
        prior = tfp.distributions.LogNormal(dtype(0.0), dtype(sd))
        made = LogParameter.made(np.ones(len(names)), prior)
        if known is not None:
            take_by_name(made, names, known, self._judges)
            made.prior, made.prior_on = known.prior, known.prior_on
            gpflow.set_trainable(made, known.trainable)
        return made

    def continue_from(self, known: Probit) -> None:
        """Take the values of another one, of which these duels hold those of all.

        Judges are the same by their names; priors stay, but for that of a margin which no tie tells
        of: it is about where learning began.
        """
        if self.margin is not None and known.margin is not None:
            self.margin.assign(known.margin)
            if self.margin.prior is not None:
                self.margin.prior = known.margin.prior
        for step, value in zip(self.steps, known.steps, strict=True):
            step.assign(value)
        both = (self.noise_ratio, known.noise_ratio), (self.cut_scale, known.cut_scale)
        for ratios, before in both:
            if ratios is not None and before is not None:
                take_by_name(ratios, self._judges, before, known._judges)

    @property
    def of_duels(self) -> tuple[float, float | None]:
        """Variance of the noise of a duel, judges apart, and its margin, None without."""
        margin = None if self.margin is None else float(self.margin.numpy())
        return 2.0 * float(self.noise.numpy()), margin

    @property
    def of_judges(self) -> tuple[FloatArray, FloatArray]:
        """The same of each judge, (J,), a margin of 0 without any; (1,) where all are alike."""
        noise, margin = self.of_duels
        both = (self.noise_ratio, noise), (self.cut_scale, margin or 0.0)
        each = [np.full(1, x) if by is None else x * by.numpy() for by, x in both]
        noises, margins = np.broadcast_arrays(*each)
        return noises, margins

    def things(self) -> dict[str, Any]:
        """What it brings into a model, by the names of `support.together`."""
        return {
            "margin": self.margin is not None,
            "no_margin": self.margin is None,
            "margin_only": self.ties == MARGIN_ONLY,
            "noise_by_group": self.by is not None,
            "one_noise": self.by is None,
            "own_cuts": self.cuts_by is not None,
        }

    @property
    def duel_noise(self) -> float:
        """2 sigma², the variance of the noise of a duel."""
        return 2.0 * float(self.noise.numpy())

    @property
    def tie_margin(self) -> float:
        """The margin; 0 without one."""
        return 0.0 if self.margin is None else float(self.margin.numpy())

    def of_nobody(self) -> dict[str, Any]:
        """Noise and margin of a duel whose judge is nobody in particular, with the ratios that
        multiply them, by the names that `analysis.acquisition` has for them."""
        return {
            "duel_noise": self.duel_noise,
            "margin": self.tie_margin,
            "ratios": self.new_ratios(),
        }

    @property
    def heights(self) -> tf.Tensor | None:
        """(K,), ascending: by how much a utility, noise included, must exceed the other for each
        level of grades; the first is the margin, or 0 where ties are no level. None without."""
        if self.margin is None and not self.steps:
            return None
        first = 0.0 if self.margin is None else self.margin
        both = (first, *self.steps)
        return tf.cumsum(tf.stack([tf.convert_to_tensor(x, gpflow.default_float()) for x in both]))

    def tensors(self) -> dict[str, Any]:
        """What a `DuelProblem` takes of it, by the names there."""
        ratio, scale = self.noise_ratio, self.cut_scale
        return {
            "noise_variance": tf.convert_to_tensor(self.noise),
            "noise_ratio": None if ratio is None else tf.convert_to_tensor(ratio),
            "cuts": self.heights if self.ties == BOX else None,
            "cut_scale": None if scale is None else tf.convert_to_tensor(scale),
        }

    def new_ratios(self, with_cuts: bool = True) -> NoiseRatios:
        """By what noise and cuts of a duel to come are multiplied where its judge is not known, by
        the priors of the ratios.

        :param with_cuts: where there are any.
        :raises ValueError: `noise_ratio` or `cut_scale` with a prior that is not normal in its log.
        """
        if self.noise_ratio is None:
            return ONE_NOISE
        noise = prior_of_ratios(self.noise_ratio, "noise_ratio")
        scale = self.cut_scale if with_cuts else None
        return ratios_of_unknown(
            *noise, None if scale is None else prior_of_ratios(scale, "cut_scale")
        )

    def __repr__(self) -> str:
        return described_by(self)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What may come of duels between a and b: the natural logarithm of the probability of each."""

    likelihood: Probit
    link: Link
    mean: tf.Tensor
    """(N,) of f(a) - f(b)."""
    variance: tf.Tensor
    """(N,) of it; one that rounding has made negative counts as 0."""
    judge: IntArray | None = None
    """(N,) the number of each one's, -1 for an unknown one; None where all are."""

    @property
    def turned(self) -> Outcomes:
        """Of duels between b and a."""
        return replace(self, mean=-self.mean)

    @property
    def win(self) -> tf.Tensor:
        """That a beats b, (N,)."""
        if self.likelihood.ties == MARGIN_ONLY:
            ahead = self._within(None, tf.zeros_like(self.mean))
            return ahead + tf.math.log1p(-tf.exp(self.tie))
        return self._between(None, -1)

    @property
    def tie(self) -> tf.Tensor:
        """Of a tie, (N,); -inf without a margin."""
        mean, share = self.mean, self.likelihood.tie_share
        if self.likelihood.margin is None:
            return tf.fill(tf.shape(mean), tf.cast(-np.inf, mean.dtype))
        return self._between(-1, 1) if share is None else tf.math.log(share + tf.zeros_like(mean))

    @property
    def win_tie_loss(self) -> tf.Tensor:
        """Of a, (N, 3)."""
        return tf.stack([self.win, self.tie, self.turned.win], 1)

    @property
    def grades(self) -> tf.Tensor:
        """Of each grade of a over b, worst first: (N, 2K + 1), (N, 2K) where ties are no level."""
        if self.likelihood.ties == MARGIN_ONLY:
            return tf.stack([self.turned.win, self.tie, self.win], 1)
        top = len(self.likelihood.steps) + 1
        better: list[tuple[int | None, int]] = [(-k - 1, -k) for k in range(1, top)]
        better.append((None, -top))
        worse, best = ([side._between(*ends) for ends in better] for side in (self.turned, self))
        tied = [] if self.likelihood.margin is None else [self.tie]
        return tf.stack([*reversed(worse), *tied, *best], 1)

    def _between(self, lower: int | None, upper: int) -> tf.Tensor:
        """That f(b) - f(a), noise included, lies between two cuts, (N,).

        :param lower: the number of the cut with its sign; None for no limit.
        :param upper: the same.
        """
        heights, zeros = self.likelihood.heights, tf.zeros_like(self.mean)

        def at(cut: int | None) -> tf.Tensor | None:
            if cut is None or heights is None:
                return None if cut is None else zeros
            return float(np.sign(cut)) * heights[abs(cut) - 1] + zeros

        return self._within(at(lower), at(upper))

    def _within(self, lower: tf.Tensor | None, upper: tf.Tensor) -> tf.Tensor:
        """log P(lower < f(b) - f(a) + noise < upper), (N,): at the noise of known judges, averaged
        over that of unknown ones."""
        link, judge, ratios = self.link, self.judge, self.likelihood.noise_ratio
        mean, variance, noise = self._moments
        if ratios is None:
            return link.log_probability(mean, variance, noise, lower, upper)
        if judge is None:
            return self._averaged(lower, upper)
        new = np.flatnonzero(judge < 0)
        # Unknown judges stand as the first one until they are averaged.
        ratio = tf.gather(tf.convert_to_tensor(ratios), np.maximum(judge, 0))
        low, high = lower, upper
        if self.likelihood.cut_scale is not None:
            scale = tf.gather(tf.convert_to_tensor(self.likelihood.cut_scale), np.maximum(judge, 0))
            low, high = None if lower is None else scale * lower, scale * upper
        logs = link.log_probability(mean, variance, noise * ratio, low, high)
        if not len(new):
            return logs
        unknown = Outcomes(self.likelihood, link, tf.gather(-mean, new), tf.gather(variance, new))
        low = None if lower is None else tf.gather(lower, new)
        averaged = unknown._averaged(low, tf.gather(upper, new))
        return tf.tensor_scatter_nd_update(logs, new[:, None], averaged)

    @property
    def _moments(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Mean and variance of f(b) - f(a), and the variance of the usual noise, (N,) each."""
        variance = tf.maximum(self.variance, tf.zeros_like(self.variance))
        return -self.mean, variance, duel_noise(self.likelihood.noise) + tf.zeros_like(variance)

    def _averaged(self, lower: tf.Tensor | None, upper: tf.Tensor) -> tf.Tensor:
        """The same averaged over the ratios of noise and cuts of unknown judges."""
        ratios, (mean, variance, noise) = self.likelihood.new_ratios(), self._moments
        count, number = len(ratios.weights), mean.shape[0]
        # So many at once as take bounded memory; one where a graph does not know how many pairs.
        at_once = 1 if number is None else max(1, min(count, _AVERAGED_AT_ONCE // max(number, 1)))
        steps = -(-count // at_once)
        spare = steps * at_once - count
        factor, scale, weight = (
            tf.constant(
                np.pad(x, (0, spare), constant_values=by).reshape(steps, at_once), mean.dtype
            )
            for x, by in ((ratios.ratios, 1.0), (ratios.scales, 1.0), (ratios.weights, 0.0))
        )

        def tiled(values: tf.Tensor, by: tf.Tensor) -> tf.Tensor:
            return tf.reshape(by[:, None] * values, [-1])

        def add(k: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            one = tf.ones_like(factor[k])
            ends = (None if x is None else tiled(x, scale[k]) for x in (lower, upper))
            of_both = (tiled(mean, one), tiled(variance, one), tiled(noise, factor[k]))
            found = tf.reshape(self.link.log_probability(*of_both, *ends), [at_once, -1])
            found = tf.reduce_logsumexp(found + tf.math.log(weight[k])[:, None], 0)
            return k + 1, tfp.math.log_add_exp(total, found)

        nothing = tf.zeros_like(mean) - tf.constant(np.inf, mean.dtype)
        return tf.while_loop(lambda k, _: k < steps, add, (0, nothing))[1]


def usual(values: FloatArray, votes: FloatArray) -> float:
    """That of the usual judge, the geometric mean of values (J,) by votes (J,); NaN of NaN, which
    a model without margin has."""
    return float(np.exp(np.average(np.log(values), weights=votes)))


def steps_to_learn(used: IntArray) -> tuple[bool, ...]:
    """Which steps between cuts grades tell something of, (K - 1): those with grades on both sides.

    :param used: (K + 1,) how often each level was said, ties first.
    """
    inner = range(1, len(used) - 1)
    return tuple(bool(used[i] > 0 and used[i + 1 :].sum() > 0) for i in inner)


def _positive(value: float, trainable: bool, prior: Any = None) -> gpflow.Parameter:
    transform = gpflow.utilities.positive()
    return gpflow.Parameter(float(value), transform=transform, prior=prior, trainable=trainable)


def _about(value: float) -> tfp.distributions.Distribution:
    """The prior of a cut that no grade tells of."""
    return tfp.distributions.LogNormal(np.log(np.float64(value)), np.float64(CUT_WITHOUT_GRADES_SD))


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
            stacklevel=5,
        )


def _warn_of_one_grade(duels: Duels) -> None:
    """Say whose answers are all the same, whichever side was better."""
    names, levels = duels.group_names, duels.group_levels
    assert names is not None and levels is not None
    alone = np.flatnonzero((levels > 0).sum(1) == 1)
    said, scaled = "gave one grade only", "cuts"
    if duels.levels is None:
        said, scaled = "called everything a tie, or nothing", "margin of ties"
    if alone.size:
        who = some_of([repr(names[i]) for i in alone], _NAMED)
        warnings.warn(
            f"The {agreeing(alone.size, 'judge', 'judges')} {who} {said}, so that the prior "
            f"decides the scale of {agreeing(alone.size, 'his', 'their')} {scaled}.",
            stacklevel=4,
        )


def prior_of_ratios(parameter: gpflow.Parameter, name: str) -> tuple[float, float]:
    """Mean and sd of log r."""
    prior, distributions = parameter.prior, tfp.distributions
    free = parameter.prior_on is gpflow.base.PriorOn.UNCONSTRAINED
    if not isinstance(prior, distributions.Normal if free else distributions.LogNormal):
        kind = "no prior" if prior is None else f"the prior {type(prior).__name__}"
        what = "how noisy an unknown group is" if name == "noise_ratio" else "what cuts it has"
        raise ValueError(
            f"{name} has {kind}, which does not say {what}; name the group of each duel, or give "
            f"{name} a LogNormal prior."
        )
    return float(np.asarray(prior.loc)), float(np.asarray(prior.scale))
