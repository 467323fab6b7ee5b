"""What models of duels say of sets of alternatives: who is chosen, and how they are ranked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gpflow
import numpy as np
import tensorflow as tf
from scipy.special import logsumexp

from sparse_prefgp.data.answers import CHOICE, WIN, Answers, Codes, Covariates
from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.data.sets import SetForm
from sparse_prefgp.factors.choices import answer_log_probability, choice_log_probabilities
from sparse_prefgp.factors.orthants import POINTS, sobol_points
from sparse_prefgp.models.inputs import Inputs
from sparse_prefgp.models.outcomes import group_numbers, new_ratios
from sparse_prefgp.models.people import People
from sparse_prefgp.models.posterior import CHUNK, Posterior, SetPosterior
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice, check_shape, one_each
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.shapes import as_written

# Kinds of answers that say who was chosen, first.
CHOSEN = (CHOICE, WIN)
EP, BY_POINTS = "ep", "points"
METHODS = (EP, BY_POINTS)
# Numbers of pairs of rows at once: 64 MB, of which a handful of copies are made.
_AT_ONCE = 2**23
# Of the size of the covariances of sets: these, their pairs, which of them are equal.
_ARRAYS_OF_SETS = 10


class ChoicePredictions:
    """Choices and rankings: what `PreferenceGP` and `StreamedGP` share beyond duels."""

    noise_variance: gpflow.Parameter
    noise_ratio: gpflow.Parameter | None

    if TYPE_CHECKING:

        @property
        def duels(self) -> Any: ...

        @property
        def engine(self) -> Any: ...

        @property
        def inputs(self) -> Inputs: ...

        @property
        def people(self) -> People: ...

        def posterior(self) -> Posterior: ...

        def as_known(self, events: Answers) -> Answers: ...

        def allow(self, **asked: Any) -> None: ...

    @as_written
    def predict_choice(
        self,
        X: Any,
        mask: Any = None,
        groups: Any = None,
        covariates: Any = None,
        *,
        people: Any = None,
        labels: Any = None,
        method: str = EP,
        points: int = POINTS,
        rng: np.random.Generator | None = None,
    ) -> tf.Tensor:
        """Probability of each alternative to be chosen of its set, (b, k).

        "None of these" is an alternative like others. (docs/events.md)

        :param X: (b, k, D), the alternatives in the units of `duels.items`, or with the number of
            the item last, as for `predict_duel`.
        :param mask: (b, k), which of them there are, in sets of different sizes; the others are not
            looked at, and have probability 0. All, by default.
        :param groups: who chooses: a label for all sets or (b,) labels, where the model has noise
            by group. For None and unknown ones the probability is averaged, as for `predict_duel`.
        :param covariates: (b, k, C) of each alternative, where the model has any. By default 0.
        :param people: whose choices they are, as for `predict_difference`, of b sets.
        :param labels: as for `predict_difference`, of b sets.
        :param method: `ep`, expectation propagation, within 0.0075 in 95 % of random sets and 0.02
            in the worst; or `points`, separation of variables (Genz 1992) at `points` Sobol points,
            within 3e-4 at 256 points and four alternatives. Either is divided by its sum over the
            alternatives.
        :param points: a power of two.
        :param rng: shifts the points; by default seed 0.
        :raises ValueError: shapes that do not fit; a set without alternatives; a model with
            logistic noise.
        """
        rows, events, there = self._sets_given(X, mask, covariates, labels)
        if people is not None:
            self.allow(people=True)
            whose = one_each("people", people, len(there)).tolist()
            events = events.saying(person=Codes.of(whose))
        sets = self.set_posterior(rows, events)
        sobol = self._points(method, points, sets.mask.shape[1] - 1, rng)

        def at(noise: FloatArray, which: IntArray) -> FloatArray:
            found = choice_log_probabilities(*sets.take(which)[:2], noise, sets.mask[which], sobol)
            # What the points err by is much the same for all alternatives.
            return found - logsumexp(found, axis=1, keepdims=True)

        number = None
        if groups is not None:
            number = group_numbers(groups, len(there), self.duels, self.noise_ratio is not None)
        shares = np.zeros(there.shape)
        shares[there] = np.exp(self._over_noises(at, number, len(there)))[sets.mask]
        return tf.constant(shares)

    def _forecast_of_sets(self, inputs: FloatArray, events: Answers, choices: bool) -> Forecast:
        """What `predict` says of some questions about sets as the model knows them, by expectation
        propagation.

        :param choices: whether of each alternative; else of each answer.
        """
        sets = self.set_posterior(inputs, events)
        judge = None if events.judge is None else events.judge.numbers

        def shares(of: IntArray) -> FloatArray:
            """(b, k) log probabilities that each alternative is chosen."""

            def at(noise: FloatArray, which: IntArray) -> FloatArray:
                some = sets.take(of[which])
                return choice_log_probabilities(some.mean, some.covariance, noise, some.mask)

            return self._over_noises(at, None if judge is None else judge[of], len(of))

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

            found[of] = self._over_noises(at, None if judge is None else judge[of], len(of))
        return Forecast.of_answers(found)

    def set_posterior(self, inputs: FloatArray, events: Answers) -> SetPosterior:
        """What is known of the alternatives of sets between rows, whatever was answered: from
        differences of two alone, each pair once.

        With tastes those are of the person of each event; of somebody of whom nothing is known
        where events are nobody's.

        :param inputs: (n, D) rows as `predict_f` takes them.
        :raises NotEnoughMemory: more than is free.
        """
        self._check_noise()
        events = self.as_known(events)
        at, mask = events.padded()
        b, k = at.shape
        ask(
            _ARRAYS_OF_SETS * 8 * b * k**2,
            f"Covariances of {b:,} sets of {k:,} alternatives",
            "ask about fewer sets at a time",
        )
        places = events.sides[at]
        if events.covariates is not None:  # a row for each side
            numbers = np.repeat(
                self.inputs.levels_of(events.labels, len(events)), events.sizes, axis=0
            )
            inputs = self.inputs.before_covariates(inputs[events.sides])
            inputs, places = np.column_stack([inputs, events.covariates, numbers]), at
        rows = np.asarray(self.inputs.rows(inputs))
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
            found[start : start + step] = self.people.differences(ends, whose).numpy()
        lead = np.where(turned, -1.0, 1.0) * found[number.reshape(-1), 0]
        spread = found[number.reshape(-1), 1]
        mean, apart = np.zeros((b, k)), np.zeros((b, k, k))
        lead, spread = lead.reshape(b, -1), spread.reshape(b, -1)
        apart[:, first, second] = apart[:, second, first] = spread
        mean[:, 1:] = -lead[:, : k - 1]  # the pairs with the first one come first
        covariance = 0.5 * (apart[:, :1, :] + apart[:, :, :1] - apart)
        return SetPosterior(mean, covariance, mask)

    def look_noise(self, events: Answers) -> tuple[FloatArray, FloatArray]:
        """Noise variances of the alternatives of sets, and their weights, (K, sets) each: that of
        a known group, or K of the prior of an unknown one."""
        sets, judge = len(events), self.as_known(events).judge
        noise = np.full(sets, float(self.noise_variance.numpy()))
        if self.noise_ratio is None:
            return noise[None], np.ones((1, sets))
        number = np.full(sets, -1) if judge is None else judge.numbers
        known = number >= 0
        each = self.noise_ratio.numpy()[np.maximum(number, 0)]
        if known.all():
            return (noise * each)[None], np.ones((1, sets))
        prior = new_ratios(self.noise_ratio)
        ratios = np.where(known, each, prior.ratios[:, None])
        return noise * ratios, np.broadcast_to(prior.weights[:, None], ratios.shape)

    # Inside.

    def _check_noise(self) -> None:
        self.allow(choice=True, compiled=not tf.executing_eagerly())

    def _sets_given(
        self, X: Any, mask: Any, covariates: Any, labels: Any
    ) -> tuple[FloatArray, Answers, BoolArray]:
        """The alternatives that there are, sets of them, and which these are, (b, k)."""
        self._check_noise()
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
            c = self.inputs.layout.covariates
            values = np.asarray(covariates, np.float64)
            check_shape("covariates", values, b, k, c, hint=", of each alternative")
            said = Covariates(values[there], self.duels.covariate_names)
        events = Answers(
            np.arange(sizes.sum()),
            np.append(0, np.cumsum(sizes)),
            kind=np.full(b, CHOICE, np.int8),
            covariates=said,
            labels=self.inputs.known_labels(labels, b),
        )
        return given[there], events, there

    def _points(
        self, method: str, points: int, size: int, rng: np.random.Generator | None
    ) -> FloatArray | None:
        check_choice("method", method, METHODS)
        if method == EP:
            return None
        return sobol_points(points, max(size, 0), np.random.default_rng(0) if rng is None else rng)

    def _over_noises(
        self,
        at: Callable[[FloatArray, IntArray], FloatArray],
        number: IntArray | None,
        sets: int,
    ) -> FloatArray:
        """Log probabilities of sets at the noise of known groups, averaged over that of others.

        :param at: of noise variances (b,) and the numbers of b sets.
        :param number: (sets,) of the group of each, below 0 for unknown ones; None where all are.
        """
        noise = np.full(sets, float(self.noise_variance.numpy()))
        everyone = np.arange(sets)
        ratio = self.noise_ratio
        if ratio is None:
            return at(noise, everyone)
        number = np.full(sets, -1) if number is None else number
        known, new = np.flatnonzero(number >= 0), np.flatnonzero(number < 0)
        each = noise * ratio.numpy()[np.maximum(number, 0)]
        parts = []
        if len(known):
            parts.append((known, at(each[known], known)))
        if len(new):
            ratios = new_ratios(ratio)
            logs = [at(noise[new] * by, new) for by in ratios.ratios]
            shape = (-1,) + (1,) * logs[0].ndim
            weights = np.log(ratios.weights).reshape(shape)
            parts.append((new, np.asarray(logsumexp(np.stack(logs) + weights, axis=0))))
        found = np.empty((sets, *parts[0][1].shape[1:]))
        for which, values in parts:
            found[which] = values
        return found
