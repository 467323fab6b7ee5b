"""What every model of duels is: parameters, and what inference found at them, kept until they move.

What a model knows at its parameters is one frozen value, made and replaced as a whole.
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.models import BayesianModel, InternalDataTrainingLossMixin

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import FixedPoint, InferenceResult, ParallelEP
from sparse_prefgp.engines.base import describe
from sparse_prefgp.models.choosing import CHOSEN, ChoicePredictions
from sparse_prefgp.models.outcomes import places_of
from sparse_prefgp.models.posterior import Posterior, each_difference
from sparse_prefgp.models.predicting import DuelPredictions
from sparse_prefgp.models.strangers import Strangers
from sparse_prefgp.models.tastes import KnownPeople
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import as_numbers, check_kind
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.words import shortened

# Questions predicted at a time; and numbers of these, 64 MB, of which a handful of copies are made.
_QUESTIONS_AT_ONCE, _NUMBERS_AT_ONCE = 50_000, 2**23


# Views, by name: what all share, and somebody of whom nothing is known.
def _shared(model: DuelGP[Any, Any]) -> Posterior:
    return model._shared()


def _nobody(model: DuelGP[Any, Any]) -> Posterior:
    return model._nobody()


class Solution(Protocol):
    """Where inference ended; what follows from that is computed when it is first asked for."""

    @property
    def posterior(self) -> Posterior:
        """q(f), of what all share where people have tastes."""

    @property
    def strangers(self) -> Strangers:
        """People of whom nothing is known, where people have tastes."""

    @property
    def log_evidence(self) -> float:
        """In nats, with the approximation's correction."""


S = TypeVar("S", bound=Solution)
R = TypeVar("R", bound=InferenceResult)


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What a model computes with: its parts, and the values of all parameters."""

    parts: tuple[Any, ...]
    values: bytes

    @classmethod
    def of(cls, model: DuelGP[Any, Any]) -> Fingerprint:
        values = b"".join(variable.numpy().tobytes() for variable in model.variables)
        # A mean function may be any function, which is not a module.
        return cls((model.mean_function, *model.submodules), values)

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
class Inferred(Generic[S, R]):
    """What a model knows at the parameters of the fingerprint."""

    fingerprint: Fingerprint
    solution: S
    """Where inference ended."""
    result: R
    """How, for people."""


class Learned(BayesianModel, InternalDataTrainingLossMixin):
    """A model whose objective is compiled as a function of the values of its parameters."""

    warned_about_scale = False
    """Whether it was said that nothing decides its scale, or need not be."""

    def leaves(self) -> list[gpflow.Parameter | tf.Variable]:
        """The parameters, and the variables that belong to none of them."""
        parameters = list(self.parameters)
        theirs = {id(each.unconstrained_variable) for each in parameters}
        return parameters + [each for each in self.variables if id(each) not in theirs]

    def with_values(self, values: Sequence[tf.Tensor]) -> Self:
        """The model with tensors in place of its `leaves`, which has the same sites."""
        result = copy.copy(self)
        known = {id(leaf): value for leaf, value in zip(self.leaves(), values, strict=True)}
        for name, part in vars(self).items():
            if isinstance(part, tf.Module | tuple):
                result.__dict__[name] = copy.deepcopy(part, known)
        return result


class DuelGP(
    DuelPredictions,
    ChoicePredictions,
    Learned,
    Generic[S, R],
):
    """Parameters, inference at them, and predictions: `PreferenceGP` and `StreamedGP`.

    A model of its own has `_infer`, and says what it is made of.
    """

    mean_function: Any
    centre: FloatArray | None
    """(D,) the mean of the items of the first duels, about which linear terms of the kernels are
    computed; None in models saved before, which have them about the origin."""
    people_variance: gpflow.Parameter | None = None
    # Of the last inference. Neither tf.Module nor GPflow looks for parameters in a dataclass.
    _known: Inferred[S, R] | None = None

    def _infer(self, fingerprint: Fingerprint, restart: bool, watch: Any) -> Inferred[S, R]:
        """Run inference at the parameters as they are, which have this fingerprint.

        :param watch: who looks on, None for nobody.
        """
        raise NotImplementedError

    def _inferred(
        self, restart: bool = False, warn: bool = True, watch: Any = None
    ) -> Inferred[S, R]:
        """What was found before, as long as it holds."""
        fingerprint = Fingerprint.of(self)
        if restart or self._known is None or self._known.fingerprint != fingerprint:
            # No name but the model's for what was known: `_infer` may let go of it first.
            self._known = self._infer(fingerprint, restart, watch)
            if warn and not self._known.result.converged:
                warnings.warn(f"Inference did not converge: {self._known.result}.", stacklevel=3)
        return self._known

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
            if inputs is None and questions is not self.duels:
                rows = questions.items
            questions = questions.given
            block = questions.labels.get(self.duels.roles["block"])
            questions = questions.saying(block=block)
        rows = self.item_inputs() if rows is None else as_numbers("inputs", rows, "n", "D")
        check_kind("questions", questions, Answers, "Duels or Answers (docs/events.md)")
        questions.check_questions(len(rows))
        events = self.as_known(questions)
        columns, choices = rows.shape[1] + len(events.covariate_names), False
        if events.has_sets:
            columns = 2 * int(events.sizes.max()) ** 2
            choices = bool(np.isin(events.kind, CHOSEN).all())
        step = max(1, min(_QUESTIONS_AT_ONCE, _NUMBERS_AT_ONCE // max(1, columns)))
        parts = []
        for start in range(0, max(1, len(events)), step):
            here = slice(start, start + step)
            if events.has_sets:
                parts.append(self._forecast_of_sets(rows, events.take(here), choices))
            else:
                parts.append(self._forecast_of_duels(rows, events.take(here)))
        return Forecast.joined(parts)

    # For whom. All that is predicted comes from one of these two posteriors, which differ only
    # where people have tastes and nobody is named.

    def posterior(self) -> Posterior:
        """q(f) of utilities, for the parameters as they are now: with tastes of what all share,
        unless the model is a view. What is held does not change with the parameters.

        While a `tf.function` is traced, inference becomes part of the graph, so that the compiled
        prediction follows the parameters.

        :raises ValueError: of one person, or of streamed duels, while a `tf.function` is traced.
        """
        return self._of(self._view or _shared)

    def posterior_of_outcomes(self) -> Posterior:
        """q(f) of whom outcomes are predicted for: `posterior`, but with tastes that of somebody of
        whom nothing is known, unless the model is a view.

        :raises ValueError: as `posterior`; while a `tf.function` is traced also where people have
            features.
        """
        return self._of(self._view or (_shared if self.taste is None else _nobody))

    @property
    def is_of_nobody(self) -> bool:
        """Whether outcomes are those of somebody of whom nothing is known, whose taste may be
        any."""
        return self.taste is not None and self._view in (None, _nobody)

    @property
    def kernels_of_utilities(self) -> tuple[gpflow.kernels.Kernel, ...]:
        """Whose sum `posterior` has: that of what all share, and in a view of people the taste."""
        if self.taste is None or self._view in (None, _shared):
            return (self.kernel,)
        return self.kernel, self.taste

    def _of(self, view: Callable[[Any], Posterior]) -> Posterior:
        if not tf.executing_eagerly() and (
            view not in (_shared, _nobody) or (view is _nobody and self.people_variance is not None)
        ):
            raise together.refused(compiled=True, people=True)
        return view(self)

    def _solution(self) -> S:
        """Where inference ended, or ends as part of the graph that is being traced."""
        together.check(compiled=not tf.executing_eagerly(), streamed=True)
        return self._inferred().solution

    def _shared(self) -> Posterior:
        return self._solution().posterior

    # People.

    def consensus(self) -> Self:
        """This model, all that is asked of it being asked of what all people share.

        A view, as of `of_person`. Utilities are those of the model itself, but outcomes are not:
        those are of somebody, who has a taste besides.

        :raises ValueError: a model without tastes.
        """
        self.allow(people=True)
        return self._seen_by(_shared)

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
            return self._seen_by(_nobody)
        (number,) = places_of([person], self.described_people)
        if number >= len(self.people):
            return self._seen_by(lambda model: model._described(int(number)))
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
        self._known_people()  # refuses where they are not kept
        numbers = np.unique([self._number_of(person) for person in people])
        return self._seen_by(lambda model: model._known_people().group(numbers))

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
        own = None if features is None else self._own_features(features)
        if duels is None:
            if own is None:
                raise ValueError(
                    "Nothing was given of the new person; give duels, features of the person, or "
                    "call of_person(None) for somebody of whom nothing is known."
                )
            return self._seen_by(lambda model: model._of_features(own))
        names = duels.people_names
        if names is not None and len(names) > 1:
            raise ValueError(
                f"The duels are of {len(names)} people, {names[0]!r} among them, but one is met at "
                "a time; give those of one."
            )
        if duels.num_features != self.duels.num_features:
            raise ValueError(
                f"The duels have {duels.num_features} features, but the model has "
                f"{self.duels.num_features}; give items in its units."
            )
        layout = self.row_layout
        graph = DuelGraph.from_duels(
            duels, layout.numbered, self.leaning.names(self.duels.label_names)
        )
        if graph.layout != layout:
            raise ValueError(
                "The duels have other covariates than those of the model; give the same."
            )
        graph = graph.one_by_one()
        graph = replace(graph, people=np.zeros(graph.num_sites, np.int64))
        tolerance, approximation = self.engine.tolerance, self.approximation
        share = 1.0 if approximation.has_blocks else approximation.residual_share

        def met(strangers: Strangers) -> tuple[Posterior, FixedPoint]:
            return strangers.meet(graph, ParallelEP(tolerance=tolerance), share, own)

        strangers = self._solution().strangers
        posterior, point = met(strangers)
        result = describe(point, tolerance)
        if not result.converged:
            warnings.warn(
                f"Inference for the new person did not converge: {result}.",
                stacklevel=2,
            )

        def view(model: Any) -> Posterior:
            now = model._solution().strangers
            return posterior if now is strangers else met(now)[0]

        return self._seen_by(view)

    def tastes(self, Xnew: Any = None) -> FloatArray:
        """Expected own utility of each person, beyond what all share: (P, N).

        :param Xnew: (N, D) as for `predict_f`; the items of the model by default.
        :raises ValueError: a model without tastes, or of streamed duels; more numbers than there is
            memory for.
        """
        self.allow(people=True)
        known = self._known_people()
        items = self.duels.items
        if self.has_item_effect:
            items = np.column_stack([items, self.duels.item])
        inputs = self._inputs(items if Xnew is None else Xnew)
        ask(
            8 * len(self.people) * len(inputs),
            f"Tastes of {len(self.people):,} people for {len(inputs):,} items",
            "give fewer items",
        )
        return known.tastes(inputs)

    def _known_people(self) -> KnownPeople:
        """The people whose duels the model keeps."""
        raise NotImplementedError

    def _nobody(self) -> Posterior:
        solution = self._solution()
        return solution.strangers.nobody(solution.posterior)

    def _described(self, number: int) -> Posterior:
        """q(f) of a person of whom features alone are known, by the place among all."""
        by_features = self._solution().strangers.problem.by_features
        assert by_features is not None
        return self._of_features(by_features.people[number])

    def _of_features(self, features: FloatArray) -> Posterior:
        solution = self._solution()
        return solution.strangers.described(features, solution.posterior)

    def _own_features(self, given: Any) -> FloatArray:
        """Features (S,) of a new person, less the mean of those of people with duels.

        :raises ValueError: of another number, not finite, or where people have none.
        """
        together.check(features_of_people=True, no_features_of_people=self.people_variance is None)
        mean = self._mean_of_people
        hint = ", of the new person, in the units of duels.people_features"
        return as_numbers("features", given, len(mean), hint=hint) - mean

    @property
    def _mean_of_people(self) -> FloatArray:
        """(S,) of the features of people with duels."""
        raise NotImplementedError

    def _number_of(self, person: Hashable) -> int:
        (number,) = places_of([person], self.people)
        if number < 0:
            shown = ", ".join(map(repr, self.people[:5]))
            more = ", …" if len(self.people) > 5 else ""
            raise ValueError(
                f"The person {shortened(person)} is unknown to the model, whose people are {shown}"
                f"{more}; give one of them, or meet the new one (model.meet(duels), "
                "sparse-prefgp meet)."
            )
        return int(number)

    def _seen_by(self, view: Callable[[Any], Posterior]) -> Self:
        found = copy.copy(self)
        found._view = view
        return found

    def _differences(self, pairs: tf.Tensor, people: IntArray | None = None) -> tf.Tensor:
        if people is None or self._view is not None:
            return each_difference(self.posterior_of_outcomes(), pairs)
        found = np.empty((len(people), 2))
        known = (people >= 0) & (people < len(self.people))
        if known.any():
            some = tf.boolean_mask(pairs, known)
            found[known] = self._known_people().differences(some, people[known])
        described = people >= len(self.people)
        if described.any():
            strangers = self._solution().strangers
            some = tf.boolean_mask(pairs, described)
            found[described] = strangers.described_differences(some, people[described])
        if (people < 0).any():
            some = tf.boolean_mask(pairs, people < 0)
            found[people < 0] = self._differences(some)
        return tf.constant(found)

    @property
    def has_logit_factors(self) -> bool:
        """Whether the engine takes logistic noise in place of the model's own."""
        return not self.engine.link_function.has_normal_noise

    @property
    def features(self) -> tuple[Any, tuple[str, ...] | None]:
        """(n, D) features of the items, or of a stream their lowest and highest values; and their
        names, if they have any."""
        return self.duels.items, self.duels.feature_names

    def __str__(self) -> str:
        return repr(self)
