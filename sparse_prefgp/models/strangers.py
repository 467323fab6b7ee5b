"""People of whom a model has no duels: nobody yet, one of known features, and one who is met.

A new person's sites join those of all others, which stay: EP on them alone, with the posterior of
the inducing values for a prior (`models/tastes.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.approximations.base import FeaturesOfItems
from sparse_prefgp.approximations.people import over_people
from sparse_prefgp.covariances.low_rank_base import InducingPosterior, Sums
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import Engine, FixedPoint
from sparse_prefgp.factors.sites import Sites, totals
from sparse_prefgp.models.posterior import Posterior, moments_of_pairs
from sparse_prefgp.models.tastes import KnownPeople, PairsBefore
from sparse_prefgp.support.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Strangers:
    """People of whom nothing is known, as a model with tastes expects them."""

    problem: DuelProblem
    """Kernels, mean function and noise; of whatever duels."""
    basis: FeaturesOfItems
    """Features of what all share."""
    known: Sums
    """What the sites of all known people say of the inducing values."""

    @classmethod
    def of(cls, people: KnownPeople) -> Strangers:
        """Strangers to a model with these people."""
        sums = people.covariance.sums(people.precision, people.shift, people.kept.own)
        return cls(people.problem, people.shared, sums)

    def nobody(self, consensus: Posterior) -> Posterior:
        """q(f) of a person of whom nothing is known.

        :param consensus: q(g).
        """
        kernel = gpflow.kernels.Sum([self.problem.kernel, self._somebodys])
        return Posterior(kernel, consensus.mean_function, consensus.features, consensus.terms)

    def described(self, features: FloatArray, consensus: Posterior) -> Posterior:
        """q(f) of a person of whom features alone are known.

        :param features: (S,) about the mean of people with duels.
        :param consensus: q(g).
        """
        problem, by_features = self.problem, self.problem.by_features
        assert problem.taste is not None and by_features is not None

        def of(inputs: tf.Tensor) -> tf.Tensor:
            own = by_features.with_features(features, inputs)
            return tf.concat([self.basis.of_inputs(inputs), own], 1)

        kernel = gpflow.kernels.Sum([problem.kernel, problem.taste, *by_features.prior(features)])
        return Posterior(kernel, consensus.mean_function, of, consensus.terms)

    def described_differences(self, pairs: tf.Tensor, numbers: IntArray) -> FloatArray:
        """Mean and variance of f(x) - f(x') for stacked pairs (N, 2, D), (N, 2), of people of whom
        features alone are known.

        :param numbers: (N,) of the people.
        """
        before = PairsBefore.of(self.problem, self.basis, self._u, pairs, numbers)
        variance = tf.reduce_sum(before.white**2, -1) + before.left
        found = moments_of_pairs(pairs[:, 0], pairs[:, 1], before.mean, variance)
        return np.asarray(found)

    @cached_property
    def _u(self) -> InducingPosterior:
        return self.known.posterior()

    @cached_property
    def _somebodys(self) -> gpflow.kernels.Kernel:
        """The taste of a person drawn from all: what features of people would say is part of it."""
        assert self.problem.taste is not None
        by_features = self.problem.by_features
        if by_features is None:
            return self.problem.taste
        more = by_features.spread(self._u)
        return gpflow.kernels.Sum([self.problem.taste, *more])

    def meet(
        self,
        graph: DuelGraph,
        engine: Engine,
        share: float,
        features: FloatArray | None = None,
    ) -> tuple[Posterior, FixedPoint]:
        """q(f) of a new person, and what EP did on the person's own sites.

        :param graph: of duels that are all this person's, on rows as the model has them.
        :param share: of what the inducing values leave of g that is noise to these duels.
        :param features: (S,) of the person, about the mean of people with duels; None where they
            are not known.
        """
        problem = self.problem._replace(graph=graph)
        if problem.by_features is not None:
            mean = np.zeros(problem.by_features.people.shape[1])
            own = (mean if features is None else features)[None]
            problem = problem._replace(
                taste=self._somebodys if features is None else problem.taste,
                by_features=problem.by_features._replace(people=own, known=1),
            )
        prior = over_people(problem, self.basis, share)
        assert prior.people is not None
        prior.people.known = self.known
        zeros = tf.zeros([graph.num_sites], prior.offset.dtype)
        point = engine.run(prior.covariance, prior.factors, Sites(zeros, zeros))
        counted = totals(point.sites, prior.factors.counts)
        return KnownPeople(problem, prior, *counted).group(np.zeros(1, np.int64)), point
