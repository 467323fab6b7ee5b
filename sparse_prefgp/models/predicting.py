"""What models of duels predict, once they have a posterior of the utility."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import gpflow
import numpy as np
import tensorflow as tf
from scipy.special import logsumexp

from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.dated import Dated
from sparse_prefgp.factors.choice_probabilities import choice_log_probabilities
from sparse_prefgp.factors.orthants import POINTS, sobol_points
from sparse_prefgp.models.checks import things_of
from sparse_prefgp.models.choosing import (
    BY_POINTS,
    EP,
    METHODS,
    over_noises,
    set_posterior,
    sets_given,
)
from sparse_prefgp.models.in_time import InTimeModel
from sparse_prefgp.models.inputs import Inputs
from sparse_prefgp.models.likelihood import Outcomes, Probit
from sparse_prefgp.models.outcomes import group_numbers
from sparse_prefgp.models.people import People
from sparse_prefgp.models.posterior import Posterior, predictions
from sparse_prefgp.models.terms import Terms
from sparse_prefgp.models.views import EVERYBODY, View
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice, one_each
from sparse_prefgp.support.shapes import as_written, check_shapes


class DuelPredictions:
    """Utilities, differences and outcomes of duels: what `PreferenceGP` and `StreamedGP` share.

    A model with a kernel, a noise variance, an engine, its `duels` and a `posterior`.
    """

    kernel: gpflow.kernels.Kernel
    likelihood: Probit
    terms: Terms
    # When duels were, where utilities move in time, and the date that a view is of.
    _dated: Dated | None = None
    _date: float | None = None
    # Whose utilities they are.
    view: View = EVERYBODY

    @property
    def in_time(self) -> InTimeModel[Self]:
        """What is asked about dates, where utilities move in time (`ItemInTime`)."""
        return InTimeModel(self)

    @property
    def people(self) -> People:
        """The people whose tastes are known."""
        return People(self)

    if TYPE_CHECKING:

        @property
        def duels(self) -> Any: ...

        @property
        def engine(self) -> Any: ...

        @property
        def approximation(self) -> Any: ...

        @property
        def inputs(self) -> Inputs:
            """How items become the rows that the kernel takes."""

        def posterior(self) -> Posterior: ...

    @check_shapes(
        "Xnew: [N, D]",
        "return[0]: [N, 1]",
        "return[1]: [N, 1] if not full_cov",
        "return[1]: [1, N, N] if full_cov",
    )
    def predict_f(
        self,
        Xnew: Any,
        full_cov: bool = False,
        full_output_cov: bool = False,
        at: Any = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N, 1) and variance (N, 1) of the utility at new items, GPflow's shapes.

        Effects of pairs (`PairEffect`) are no part of it.

        Utilities are relative: only differences mean anything. Without `full_cov` any number of
        items takes bounded memory. (docs/method.md, section 6)

        :param Xnew: (N, D) in the units of `duels.items`.
        :param full_cov: the joint covariance (1, N, N) in place of the variances.
        :param full_output_cov: there is one output, so it changes nothing.
        :param at: the date or (N,) dates of utilities that move in time, in days since 1970, as
            `datetime64` or as text; by default that of the last duel.
        """
        asked = Xnew if at is None else self.in_time.dated(Xnew, at)
        inputs = self.inputs.rows(asked)  # refused before anything slow
        return predictions(self.posterior(), inputs, full_cov)

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return: [N]")
    def predict_duel(
        self,
        Xa: Any,
        Xb: Any,
        groups: Any = None,
        covariates: Any = None,
        people: Any = None,
        at: Any = None,
        labels: Any = None,
    ) -> tf.Tensor:
        """Probability that each item of Xa (N, D) beats its partner in Xb (N, D), (N,).

        Phi((E[f - f'] - margin) / sqrt(V[f - f'] + 2 sigma²)) with probit factors; with logit ones
        the logistic function is averaged over N(E[f - f'], V[f - f']).

        :param groups: who judges: a label for all pairs or (N,) labels, where the model has noise
            by group. For None and unknown ones, of which a warning tells, the probability is
            averaged over the prior of the ratio of a group's noise (docs/method.md, section 14).
        :param covariates: as for `predict_difference`.
        :param people: as for `predict_difference`.
        :param at: as for `predict_difference`.
        :param labels: as for `predict_difference`.
        """
        return tf.exp(_outcomes(self, groups, Xa, Xb, covariates, labels, people, at).win)

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return: [N, 3]")
    def predict_outcome(
        self,
        Xa: Any,
        Xb: Any,
        groups: Any = None,
        covariates: Any = None,
        people: Any = None,
        at: Any = None,
        labels: Any = None,
    ) -> tf.Tensor:
        """Probabilities that each item of Xa (N, D) wins, ties or loses against Xb's, (N, 3).

        :param groups: as for `predict_duel`.
        """
        found = _outcomes(self, groups, Xa, Xb, covariates, labels, people, at)
        return tf.exp(found.win_tie_loss)

    def allow(self, **asked: Any) -> None:
        """Refuse what does not go together with this model, or with a `tf.function` that is being
        traced, see `together.check`.

        :param asked: things asked of it, by name.
        :raises ValueError: the model has no form of one of them.
        """
        parts = self.approximation, self.kernel, self.engine, self.terms, self.likelihood
        compiled = {"compiled": not tf.executing_eagerly()}
        together.check(**things_of(*parts) | compiled | asked)

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
        rows, events, there = sets_given(self, X, mask, covariates, labels)
        if people is not None:
            self.allow(people=True)
            whose = one_each("people", people, len(there)).tolist()
            events = events.saying(person=Codes.of(whose))
        sets = set_posterior(self, rows, events)
        check_choice("method", method, METHODS)
        sobol = None
        if method == BY_POINTS:
            rng = np.random.default_rng(0) if rng is None else rng
            sobol = sobol_points(points, sets.mask.shape[1] - 1, rng)

        def at(noise: FloatArray, which: IntArray) -> FloatArray:
            found = choice_log_probabilities(*sets.take(which)[:2], noise, sets.mask[which], sobol)
            # What the points err by is much the same for all alternatives.
            return found - logsumexp(found, axis=1, keepdims=True)

        judge = group_numbers(self, groups, len(there))
        number = np.full(len(there), -1) if judge is None else judge
        shares = np.zeros(there.shape)
        shares[there] = np.exp(over_noises(self, at, number))[sets.mask]
        return tf.constant(shares)

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return[0]: [N]", "return[1]: [N]")
    def predict_difference(
        self,
        Xa: Any,
        Xb: Any,
        covariates: Any = None,
        labels: Any = None,
        people: Any = None,
        at: Any = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of f(a) - f(b) for pairs of items (N, D) and (N, D), (N,) each.

        With tastes it is the utility of one person: of somebody of whom nothing is known, unless
        `people` says of whom.

        :param covariates: (N, C) of the first less those of the second, where the model has any:
            then what they add is part of the difference. By default 0.
        :param labels: where labels lean by a covariate, a label for all pairs or (N,) labels by the
            name of their column; those left out, None and unknown ones, of which a warning tells,
            lean as the prior says.
        :param people: whose utility it is, for a model with tastes: a name for all pairs or (N,)
            names, None and unknown ones, of which a warning tells, for somebody of whom nothing is
            known.
        :param at: the date or (N,) dates of utilities that move in time, in days since 1970, as
            `datetime64` or as text; by default that of the last duel.
        :raises ValueError: any of these while a `tf.function` is traced, which takes items alone.
        """
        together.check(
            compiled=not tf.executing_eagerly(),
            covariates=covariates is not None,
            people=people is not None,
            date=at is not None,
        )
        if at is not None:
            Xa, Xb = self.in_time.dated(Xa, at), self.in_time.dated(Xb, at)
        if covariates is not None:
            known = self.inputs.known_labels(labels, len(Xa))
            Xa, Xb = self.inputs.in_duels(Xa, Xb, covariates, known)
        pairs = self.inputs.pairs(Xa, Xb)
        # The number of pairs is not known while a prediction is compiled.
        whose = None if people is None else self.people.numbers(people, len(pairs))
        both = self.people.differences(pairs, whose)
        return both[:, 0], both[:, 1]


def _outcomes(model: DuelPredictions, groups: Any, *asked: Any) -> Outcomes:
    """Of duels as `predict_difference` takes them."""
    mean, variance = model.predict_difference(*asked)
    judge = group_numbers(model, groups, mean.shape[0])
    return Outcomes(model.likelihood, model.engine.link_function, mean, variance, judge)
