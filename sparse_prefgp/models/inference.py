"""Where inference of a model begins, how it went, and where it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import Approximation, DuelPrior, DuelProblem
from sparse_prefgp.engines import Engine, FixedPoint, InferenceResult
from sparse_prefgp.factors.sites import Sites, totals
from sparse_prefgp.models.base import Fingerprint, Inferred
from sparse_prefgp.models.pair_posterior import pair_posterior
from sparse_prefgp.models.posterior import Blocks, Posterior
from sparse_prefgp.models.strangers import Strangers
from sparse_prefgp.models.tastes import KnownPeople
from sparse_prefgp.models.time_posterior import TimePosterior
from sparse_prefgp.support.checks import check_finite, check_shape


@dataclass(frozen=True, eq=False)
class Solved:
    """Where inference ended: what predictions and bounds are made of."""

    problem: DuelProblem
    approximation: Approximation
    engine: Engine
    sites: Sites
    evidence: tf.Tensor | None = None
    """Log evidence there; None of a model that was read, which finds it when asked."""

    @cached_property
    def prior(self) -> DuelPrior:
        return self.approximation.prior(self.problem)

    def with_prior(self, prior: DuelPrior) -> Solved:
        """The same, its prior being there already."""
        vars(self)["prior"] = prior
        return self

    @cached_property
    def _under_sites(self) -> tuple[DuelProblem, DuelPrior, tf.Tensor, tf.Tensor]:
        return self.problem, self.prior, *totals(self.sites, self.prior.factors.counts)

    @cached_property
    def posterior(self) -> Posterior:
        problem, prior, *counted = self._under_sites
        if prior.in_time is not None:
            return TimePosterior(*self._under_sites)
        return Posterior(
            problem.kernel,
            problem.mean_function,
            prior.features,
            prior.covariance.predict(*counted),
            pair_posterior(*self._under_sites),
            prior.beside,
            None if prior.blocks is None else Blocks(*self._under_sites),
        )

    @cached_property
    def people(self) -> KnownPeople:
        """Of a problem with tastes."""
        return KnownPeople(*self._under_sites)

    @cached_property
    def strangers(self) -> Strangers:
        """People of whom nothing is known, of a problem with tastes."""
        return Strangers.of(self.people)

    @cached_property
    def log_evidence(self) -> float:
        if self.evidence is not None:
            return float(self.evidence)
        prior = self.prior
        point = self.engine.at(prior.covariance, prior.factors, self.sites)
        return float(point.log_evidence(prior.correction))


class SitesMemory:
    """Sites that the next inference begins from, and how inference in compiled functions went.

    A plain object, so that its variables do not show up among the model's parameters.
    """

    def __init__(self, num_sites: int) -> None:
        dtype = gpflow.default_float()
        # nu and tau.
        self.values = tf.Variable(tf.zeros([2, num_sites], dtype), trainable=False)
        self.change = tf.Variable(tf.zeros([], dtype), trainable=False)
        self.sweeps = tf.Variable(0, trainable=False)

    def sites(self) -> Sites:
        return Sites(*tf.unstack(self.values.read_value()))

    def keep(self, point: FixedPoint) -> None:
        """Those that an engine found, where they are finite."""
        sites = tf.stack(point.sites)
        good = tf.reduce_all(tf.math.is_finite(sites))
        self.values.assign(tf.where(good, sites, self.values))
        self.change.assign(point.found.change)
        self.sweeps.assign_add(point.sweeps)

    def clear(self) -> None:
        self.values.assign(tf.zeros_like(self.values))


@dataclass(frozen=True, eq=False)
class Inference:
    """The sites of a model, `model.inference`: the next inference begins from them."""

    model: Any
    memory: SitesMemory

    def run(self, prior: DuelPrior) -> FixedPoint:
        """The engine on a prior, from the last sites, which stay as they are."""
        return self.model.engine.run(prior.covariance, prior.factors, self.memory.sites())

    def sites(self) -> tuple[np.ndarray, np.ndarray]:
        """nu and tau of one copy of each site, (t,) each, in the order of `graph`."""
        nu, tau = self.memory.sites()
        return nu.numpy(), tau.numpy()

    def start_from(self, nu: np.ndarray, tau: np.ndarray) -> None:
        """Let the next inference begin from these sites, (t,) each, in the order of `graph`.

        :raises ValueError: of another length, not finite, or a negative tau.
        """
        number = int(self.memory.values.shape[1])
        for name, values in (("nu", nu), ("tau", tau)):
            check_shape(name, values, number, hint=", one for each site")
            check_finite(name, values)
        if np.any(np.asarray(tau) < 0.0):
            raise ValueError(f"tau has {np.min(tau)}, but a precision is at least 0.")
        self.memory.values.assign(np.stack([nu, tau]))
        self.model._known = None

    def restore(
        self,
        nu: np.ndarray,
        tau: np.ndarray,
        result: InferenceResult,
        prior: DuelPrior | None = None,
    ) -> None:
        """Take sites (t,), (t,) and the result that inference once gave, without a sweep.

        :param prior: of the model as it is; by default it is made.
        :raises ValueError: what `start_from` raises.
        """
        self.start_from(nu, tau)
        model = self.model
        problem = model.problem(frozen=True)
        # Predictions need the sites alone; what else is known at them is computed when asked for.
        solved = Solved(problem, model.approximation, model.engine, self.memory.sites())
        if prior is not None:
            solved = solved.with_prior(prior)
        model._known = Inferred(Fingerprint.of(model), solved, result)

    def keep_for_predictions(self) -> None:
        """Let go of what is known that predictions do not need; it is made again when asked for."""
        known = self.model._known
        # Equal sites, but without the prior, which has arrays of all of them.
        solution = replace(known.solution, sites=self.memory.sites())
        vars(solution)["posterior"] = known.solution.posterior
        self.model._known = replace(known, solution=solution)

    @property
    def last_change(self) -> float:
        """Largest change of the last inference, within `training_loss` too."""
        return float(self.memory.change)

    @property
    def total_sweeps(self) -> int:
        """Sweeps of all inference on this model so far."""
        return int(self.memory.sweeps)
