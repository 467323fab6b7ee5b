"""Whose utility a model is asked for: that of all people, of one of them, of a group, of nobody."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import gpflow
import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import FixedPoint, ParallelEP
from sparse_prefgp.engines.base import describe
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.models.strangers import Strangers
from sparse_prefgp.support.arrays import FloatArray, IntArray

M = TypeVar("M")


class View:
    """Whose utility it is. A view knows no model, and follows the parameters of the one it is
    asked about."""

    of_nobody: ClassVar[bool] = False
    """Whether outcomes, of a model with tastes, are those of somebody who may have any."""
    of_each: ClassVar[bool] = False
    """Whether each question may say whom it is about."""

    def utility(self, model: Any) -> Posterior:
        """q(f) of the utility."""
        raise NotImplementedError

    def of_outcomes(self, model: Any) -> Posterior:
        """q(f) of whom outcomes are predicted for."""
        return self.utility(model)

    def kernels(self, model: Any) -> tuple[gpflow.kernels.Kernel, ...]:
        """Whose sum the utility has."""
        return model.kernel, model.terms.taste

    def on(self, model: M) -> M:
        """A model of the same parameters, sites and duels, seen like this."""
        found: Any = copy.copy(model)
        found.view = self
        return found


class Consensus(View):
    """What all share."""

    def utility(self, model: Any) -> Posterior:
        if model.inputs.layout.dated:
            return model.in_time.posterior()
        return model._solution().posterior

    def kernels(self, model: Any) -> tuple[gpflow.kernels.Kernel, ...]:
        return (model.kernel,)


class Nobody(View):
    """Somebody of whom nothing is known."""

    of_nobody = True

    def utility(self, model: Any) -> Posterior:
        model.allow(people=model.terms.by_features is not None)
        solution = model._solution()
        return solution.strangers.nobody(solution.posterior)


class Everybody(Consensus):
    """The model as it is: what all share, but outcomes of whom is named, by default of nobody."""

    of_nobody = of_each = True

    def of_outcomes(self, model: Any) -> Posterior:
        return self.utility(model) if model.terms.taste is None else NOBODY.utility(model)


CONSENSUS, NOBODY, EVERYBODY = Consensus(), Nobody(), Everybody()


@dataclass(frozen=True, eq=False)
class Group(View):
    """The average of people with duels; one of them alone is a group of one."""

    numbers: IntArray
    """(K,) among `model.people.names`."""

    def utility(self, model: Any) -> Posterior:
        model.allow(people=True)
        return model.people.known().group(self.numbers)


@dataclass(frozen=True, eq=False)
class Described(View):
    """A person of whom features alone are known."""

    features: FloatArray
    """(S,) about the mean of people with duels."""

    def utility(self, model: Any) -> Posterior:
        model.allow(people=True)
        solution = model._solution()
        return solution.strangers.described(self.features, solution.posterior)


@dataclass(frozen=True, eq=False)
class Met(View):
    """A new person of whom duels are known."""

    meet: Callable[[Strangers], tuple[Posterior, FixedPoint]]
    strangers: Strangers
    """Whom the model expected then."""
    found: Posterior
    """Of the person, by what was expected then."""

    def utility(self, model: Any) -> Posterior:
        model.allow(people=True)
        strangers = model._solution().strangers
        return self.found if strangers is self.strangers else self.meet(strangers)[0]

    @classmethod
    def by(cls, model: Any, duels: Duels, features: FloatArray | None) -> Met:
        """By the person's own duels, after inference on these.

        :param features: (S,) about the mean of people with duels; None where they are not known.
        :raises ValueError: duels of several people, or with other features or covariates than
            those of the model.
        """
        names = duels.people_names
        if names is not None and len(names) > 1:
            raise ValueError(
                f"The duels are of {len(names)} people, {names[0]!r} among them, but one is met at "
                "a time; give those of one."
            )
        if duels.num_features != model.duels.num_features:
            raise ValueError(
                f"The duels have {duels.num_features} features, but the model has "
                f"{model.duels.num_features}; give items in its units."
            )
        layout = model.inputs.layout
        graph = DuelGraph.from_duels(duels, layout.numbered, model.terms.names(model.duels))
        if graph.layout != layout:
            raise ValueError(
                "The duels have other covariates than those of the model; give the same."
            )
        graph = graph.one_by_one()
        graph = replace(graph, people=np.zeros(graph.num_sites, np.int64))
        tolerance, approximation = model.engine.tolerance, model.approximation
        share = 1.0 if approximation.has_blocks else approximation.residual_share

        def meet(strangers: Strangers) -> tuple[Posterior, FixedPoint]:
            return strangers.meet(graph, ParallelEP(tolerance=tolerance), share, features)

        strangers = model._solution().strangers
        found, point = meet(strangers)
        result = describe(point, tolerance)
        if not result.converged:
            warnings.warn(
                f"Inference for the new person did not converge: {result}.",
                stacklevel=3,
            )
        return cls(meet, strangers, found)
