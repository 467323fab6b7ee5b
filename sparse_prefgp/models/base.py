"""What every model of duels is: parameters, and what inference found at them, kept until they move.

What a model knows at its parameters is one frozen value, made and replaced as a whole.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import tensorflow as tf
from gpflow.models import BayesianModel, InternalDataTrainingLossMixin

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.engines import InferenceResult
from sparse_prefgp.models.choosing import CHOSEN, forecast_of_sets
from sparse_prefgp.models.coefficients import KnownCoefficients
from sparse_prefgp.models.outcomes import places_of
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.models.predicting import DuelPredictions
from sparse_prefgp.models.questions import as_known, forecast_of_duels
from sparse_prefgp.models.views import CONSENSUS, NOBODY, Described, Group, Met
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import as_numbers, check_kind
from sparse_prefgp.support.words import shortened

# Questions predicted at a time; and numbers of these, 64 MB, of which a handful of copies are made.
_QUESTIONS_AT_ONCE, _NUMBERS_AT_ONCE = 50_000, 2**23


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What a model computes with: its parts, and the values of all parameters."""

    parts: tuple[Any, ...]
    values: bytes

    @classmethod
    def of(cls, model: DuelGP) -> Fingerprint:
        # One walk in place of one for the modules and one for the variables.
        parts = [*model._flatten(predicate=lambda x: isinstance(x, tf.Module | tf.Variable))]
        variables = [part for part in parts if isinstance(part, tf.Variable)]
        values = b"".join(variable.numpy().tobytes() for variable in variables)
        # A mean function may be any function, which is not a module.
        return cls((model.mean_function, *parts), values)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Fingerprint)
            and self.values == other.values
            and same_objects(self.parts, other.parts)
        )


def same_objects(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether these are the very same: equal values of another kernel are another thing."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


@dataclass(frozen=True, eq=False)
class Inferred:
    """What a model knows at the parameters of the fingerprint."""

    fingerprint: Fingerprint
    solution: Any
    """Where inference ended, `Solved` or `SolvedParts`: `posterior`, `log_evidence`, and where
    people have tastes `strangers`, each of which is computed when it is first asked for."""
    result: Any
    """How, for people."""


class Traced:
    """The compiled objective of a model, which goes with the model and not with its copies."""

    def __init__(self, key: Any = None, function: Any = None) -> None:
        self.key, self.function = key, function

    def __deepcopy__(self, memo: Any) -> Traced:
        return Traced()

    def __reduce__(self) -> Any:
        return Traced, ()


class Learned(BayesianModel, InternalDataTrainingLossMixin):
    """A model whose objective is compiled as a function of the values of its parameters."""

    warned_about_scale = False
    """Whether it was said that nothing decides its scale, or need not be."""
    traced = Traced()


@dataclass(frozen=True, eq=False)
class Mixture:
    """The models whose predictions are averaged, each with hyperparameters and a posterior of its
    own. A plain object, so that their parameters are none of the model's that has it."""

    at_mode: Any
    """The model at its most likely hyperparameters."""
    points: tuple[Any, ...]
    weights: FloatArray
    """(S,) of the points, which add up to 1."""
    units: FloatArray
    """(S,), by what utilities of each point are multiplied to be in the unit of the mode, the
    noise of the usual judge: priors alone say how much noise judges have in common."""

    def averaged(self, asked: Callable[[Any], tf.Tensor]) -> tf.Tensor:
        """The average of a tensor that each point is asked for."""
        each = [asked(point) for point in self.points]
        return tf.tensordot(tf.stack(each, -1), tf.constant(self.weights), 1)


class DuelGP(DuelPredictions, Learned):
    """Parameters, inference at them, and predictions: `PreferenceGP` and `StreamedGP`.

    A model of its own has `_infer`, and says what it is made of.
    """

    mean_function: Any
    integration: Any = None
    """What `spg.integrate` did, and why; None where it was not asked for."""
    centre: FloatArray | None
    """(D,) the mean of the items of the first duels, about which linear terms of the kernels are
    computed; None in models saved before, which have them about the origin."""
    # Of the last inference. Neither tf.Module nor GPflow looks for parameters in a dataclass.
    _known: Inferred | None = None

    def _infer(self, restart: bool, watch: Any) -> tuple[Any, InferenceResult]:
        """Run inference at the parameters as they are: where it ended, and how.

        :param watch: who looks on, None for nobody.
        """
        raise NotImplementedError

    def _inferred(self, restart: bool = False, warn: bool = True, watch: Any = None) -> Inferred:
        """What was found before, as long as it holds."""
        fingerprint = Fingerprint.of(self)
        if restart or self._known is None or self._known.fingerprint != fingerprint:
            # No name but the model's for what was known: `_infer` may let go of it first.
            self._known = Inferred(fingerprint, *self._infer(restart, watch))
            if warn and not self._known.result.converged:
                warnings.warn(f"Inference did not converge: {self._known.result}.", stacklevel=3)
        return self._known

    def infer(self, restart: bool = False) -> InferenceResult:
        """Find the sites for the parameters as they are.

        :param restart: forget the sites of earlier calls and begin at zero.
        """
        return self._inferred(restart, warn=False).result

    @property
    def num_duels_used(self) -> int:
        """How many duels the log evidence is about."""
        return int(self.duels.num_duels)

    def log_evidence(self) -> float:
        """Log evidence in nats, with the approximation's correction, over all duels."""
        return self._inferred().solution.log_evidence

    def predict(self, questions: Duels | Answers, inputs: Any = None) -> Forecast:
        """Log probabilities of the outcomes of questions: answers whose outcome nobody looks at.

        Of duels, which side wins, with a margin whether they tie, with grades which one the first
        gets over the second; of choices, each alternative; where there are rankings or other
        answers about sets, each answer as it stands. Judges, people, dates, covariates,
        labels and blocks that were given count as far as the model has any (`Posterior.joining`).
        Memory is bounded.

        :param questions: t of them, between rows of `inputs`; a `Duels` as it was made, its blocks
            being the labels of their column (`labels={"block": …}`).
        :param inputs: (n, D) rows as `predict_f` takes them; by default those of the model, and of
            another `Duels` its items, without numbers.
        :raises ValueError: answers about sets for a model with logistic noise; some of the
            covariates of the model alone; what is no question, or between rows that are not there;
            inputs that are not finite numbers.
        """
        rows = inputs
        if isinstance(questions, Duels):
            questions = questions.in_units_of(self.duels)
            if inputs is None and questions is not self.duels:
                rows = questions.items
            questions = questions.given
            block = questions.labels.get(self.duels.roles["block"])
            questions = questions.saying(block=block)
        rows = self.inputs.of_items() if rows is None else as_numbers("inputs", rows, "n", "D")
        check_kind("questions", questions, Answers, "Duels or Answers (docs/events.md)")
        questions.check_questions(len(rows))
        events = as_known(self, questions)
        columns, choices = rows.shape[1] + len(events.covariate_names), False
        if events.has_sets:
            columns = 2 * int(events.sizes.max()) ** 2
            choices = bool(np.isin(events.kind, CHOSEN).all())
        step = max(1, min(_QUESTIONS_AT_ONCE, _NUMBERS_AT_ONCE // max(1, columns)))
        parts = []
        for start in range(0, max(1, len(events)), step):
            here = slice(start, start + step)
            if events.has_sets:
                parts.append(forecast_of_sets(self, rows, events.take(here), choices))
            else:
                parts.append(forecast_of_duels(self, rows, events.take(here)))
        return Forecast.joined(parts)

    def coefficients(self, level: float = 0.9) -> KnownCoefficients:
        """What the duels say of the coefficients of covariates, and of leans by these.

        :param level: of the intervals.
        :raises ValueError: a model without covariates, or a level outside (0, 1).
        """
        return KnownCoefficients.of(self, level)

    # For whom. All that is predicted comes from one of these two posteriors, which differ only
    # where people have tastes and nobody is named.

    def posterior(self) -> Posterior:
        """q(f) of utilities, for the parameters as they are now: with tastes of what all share,
        unless the model is a view. What is held does not change with the parameters.

        While a `tf.function` is traced, inference becomes part of the graph, so that the compiled
        prediction follows the parameters.

        :raises ValueError: of one person, or of streamed duels, while a `tf.function` is traced.
        """
        return self.view.utility(self)

    def posterior_of_outcomes(self) -> Posterior:
        """q(f) of whom outcomes are predicted for: `posterior`, but with tastes that of somebody of
        whom nothing is known, unless the model is a view.

        :raises ValueError: as `posterior`; while a `tf.function` is traced also where people have
            features.
        """
        return self.view.of_outcomes(self)

    def _solution(self) -> Any:
        """Where inference ended, or ends as part of the graph that is being traced."""
        together.check(compiled=not tf.executing_eagerly(), streamed=True)
        return self._inferred().solution

    # People.

    def consensus(self) -> Self:
        """This model, all that is asked of it being asked of what all people share.

        A view, as of `of_person`. Utilities are those of the model itself, but outcomes are not:
        those are of somebody, who has a taste besides.

        :raises ValueError: a model without tastes.
        """
        self.allow(people=True)
        return CONSENSUS.on(self)

    def of_person(self, person: Hashable | None) -> Self:
        """This model, its utility being that of one person.

        A view: parameters and what inference found are those of this model, and all that asks for a
        utility, a prediction or a posterior gets that of the person.

        :param person: by name, as in `Duels(people=)`, or of whom features alone are known; None
            for somebody of whom nothing is known.
        :raises ValueError: a model without tastes; a person that it does not know.
        """
        self.allow(people=True)
        if person is None:
            return NOBODY.on(self)
        people = self.people
        (number,) = places_of([person], people.described)
        if number >= len(people.names):
            return Described(self.duels.centred_people.values[number]).on(self)
        return self.of_people([person])

    def of_people(self, people: Sequence[Hashable]) -> Self:
        """This model, its utility being the average of that of some people.

        A view, as of `of_person`, in which only the utility is one; it is nobody's.

        :param people: by name, each of whom counts once.
        :raises ValueError: nobody; what `of_person` raises.
        """
        if isinstance(people, str) or not len(people):
            raise ValueError(
                f"The group of people is {shortened(people)}; give a list with the names of at "
                "least one."
            )
        self.allow(people=True)
        self.people.known()  # refuses where they are not kept
        return Group(np.unique([self.people.number_of(person) for person in people])).on(self)

    def meet(self, duels: Duels | None = None, features: Any = None) -> Self:
        """This model, its utility being that of a new person, of whom duels or features are known.

        Nothing is learned again: the sites of all others stay, and expectation propagation runs on
        those of the new person alone.

        :param duels: of the person, between items in the units of `duels.items`; their ids are not
            looked at, and items that the model knows are those with the numbers of its own, where
            items have effects. None where only features of the person are known.
        :param features: (S,) of the person, in the units of `duels.people_features`; None where
            they are not known.
        :raises ValueError: a model without tastes; duels of several people; other features, or none
            of either.
        """
        self.allow(people=True)
        own = None if features is None else self.people.features(features)
        if duels is None:
            if own is None:
                raise ValueError(
                    "Nothing was given of the new person; give duels, features of the person, or "
                    "call of_person(None) for somebody of whom nothing is known."
                )
            return Described(own).on(self)
        return Met.by(self, duels, own).on(self)

    @property
    def at_mode(self) -> Self:
        """The model at its most likely hyperparameters alone: itself, unless they are integrated
        out."""
        return self

    @property
    def mixture(self) -> Mixture:
        """What predictions are the average of: itself, unless hyperparameters are integrated
        out."""
        return Mixture(self, (self,), np.ones(1), np.ones(1))

    def __str__(self) -> str:
        return repr(self)
