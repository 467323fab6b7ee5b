"""Passes over chunks of duels: what a part computes, whatever the number of its duels.

A chunk comes in and its prior is computed again, by the same functions as that of duels in memory;
its sites go out, and sums over inducing values stay (docs/method.md, sections 4 and 15). All
chunks have one size, the last one being filled up with duels that count 0, so that everything is
compiled once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparse_prefgp.approximations.base import CompiledKernel, DuelPrior, DuelProblem
from sparse_prefgp.approximations.duel_terms import TermsOfDuels, with_levels, without_levels
from sparse_prefgp.approximations.forms import SummedApproximation, over_items
from sparse_prefgp.approximations.layout import FeatureLayout
from sparse_prefgp.approximations.whitened import factorise, related_to_pairs, whitened
from sparse_prefgp.covariances import LowRank, Marginals
from sparse_prefgp.covariances.kernels import as_float, pair_difference_variance
from sparse_prefgp.covariances.low_rank_base import LowRankIntermediates
from sparse_prefgp.data.answers import Doors, with_noises
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.graph import DuelGraph, noises_of
from sparse_prefgp.engines.base import SweepState
from sparse_prefgp.engines.propagation import ends, log_z_of, step
from sparse_prefgp.evidence import differentiable_log_evidence
from sparse_prefgp.factors.sites import Factors, Sites, damp, totals
from sparse_prefgp.models.hyperparameters import Hyperparameters
from sparse_prefgp.models.parameters import flat_gradient
from sparse_prefgp.models.streaming.gaussian import Natural, Size
from sparse_prefgp.support.arrays import FloatArray

_log = logging.getLogger(__name__)


class SiteSums(NamedTuple):
    """Over the sites of a chunk or of a part."""

    change: float = 0.0
    """The largest change that an undamped sweep would make."""
    evidence: float = 0.0
    """What the sites add to log Z, -½ log|P| apart."""
    correction: float = 0.0
    """The approximation's, 0 where it was not asked for."""
    clipped: float = 0.0
    """The largest amount by which rounding had made a residual negative."""

    def plus(self, other: SiteSums) -> SiteSums:
        return SiteSums(
            float(np.maximum(self.change, other.change)),  # a NaN in either shows
            self.evidence + other.evidence,
            self.correction + other.correction,
            max(self.clipped, other.clipped),
        )


class Algebra:
    """What the parts of one process share: hyperparameters, and what follows for every chunk.

    Chunks differ in their duels alone. The *source* is what the prior of each is made of: L with
    K_uu = L L', and where sums go over shared items their features B.

    :param layout: over what sums go, how long chunks are, and how many are worked on at a time.
    :param stream: of a part: for its items.
    """

    def __init__(
        self,
        parameters: Hyperparameters,
        approximation: SummedApproximation,
        layout: FeatureLayout,
        stream: Duels,
    ) -> None:
        self.parameters = parameters
        self._compiled: CompiledKernel | None = None
        self.size, self.at_once, self.over_items = layout.chunk, layout.at_once, layout.over_items
        self.about_sets = stream.has_sets
        self._approximation = approximation
        self._terms = terms_apart(parameters, approximation, self.about_sets)
        self._rows = None
        if layout.over_items:
            self._rows = as_float(stream.items)
        problem = self._fixed = self._problem()
        self._compiled = CompiledKernel(
            *(
                _Fused(function, parameters.variables)
                for function in (
                    partial(related_to_pairs, problem),
                    partial(_difference_variance, problem.kernel),
                )
            )
        )
        self._factor = self._jitter = self._source = tf.zeros([])
        self.begin(Natural.prior(self.natural_size))
        self._values: FloatArray | None = None
        self.num_values = len(parameters.values())

    @property
    def jitter(self) -> float:
        """What was added to the diagonal of K_uu."""
        return float(self._jitter)

    @cached_property
    def natural_size(self) -> Size:
        """Of the Gaussian over inducing values, coefficients and leans."""
        return size_of(self.parameters, self._approximation, self.about_sets)

    @property
    def tastes(self) -> bool:
        """Whether people have tastes, each of whom is a block of the duels."""
        return self.parameters.terms.taste is not None

    def graph(self, chunk: Duels) -> DuelGraph:
        """A chunk filled up with duels of the first row against itself that count 0.

        A chunk of whole blocks, or of a stream with answers about sets, is left as it is, since its
        shapes are those of its blocks.
        """
        about_sets = self.about_sets  # then noises are of alternatives in all chunks
        events = chunk.given
        if about_sets:
            events = events.one_by_one(events.copies)
        doors = events.saying(np.arange(len(events.sides))).doors()
        noises = noises_of(with_noises(doors)) if about_sets else None
        whole = about_sets or events.block is not None
        spare = 0 if whole else self.size - len(doors.event)

        def fill(values: npt.NDArray[Any], by: Any = 0, each: int = 1) -> npt.NDArray[Any]:
            if not spare:
                return values
            added = np.full((each * spare, *values.shape[1:]), by, values.dtype)
            return np.concatenate([values, added])

        ends, said, rows = fill(doors.features), None, chunk.items
        beside = None if events.covariates is None else events.side_columns()
        if self.over_items:
            said = None if beside is None else beside[ends.T]
            ends = events.sides[ends]
        else:
            rows = rows[events.sides]
            if beside is not None:
                rows = np.column_stack([rows, beside])
            rows = fill(rows, rows[0], each=2)
        blocks, judge = None, events.judge
        if events.block is not None:  # within a block equal rows are one
            rows, place = np.unique(rows, axis=0, return_inverse=True)
            ends = place.reshape(-1)[ends]
            number = events.block.numbers.astype(np.int64)
            blocks = (number - number[0])[doors.event]
        return DuelGraph.behind(
            Doors(
                ends,
                fill(doors.limits, (-np.inf, 0.0)),
                fill(doors.cuts, (0, -1)),
                doors.event,
                fill(events.totals[doors.event] * doors.weight),
            ),
            rows,
            row_of_item=np.empty(0, np.int64),
            blocks=None if self.tastes else blocks,
            people=blocks if self.tastes else None,
            groups=None if judge is None else fill(judge.numbers[doors.event].astype(np.int64)),
            noises=noises,
            said=said,
            passing=True,
        )

    def _problem(self) -> DuelProblem:
        """That of all chunks, at the parameters as they are."""
        problem = self.parameters.problem(compiled=self._compiled)
        if self._terms is None:
            return problem
        if self.over_items:
            return problem._replace(kernel=TermsOfDuels.of(problem.kernel, None).others)
        return without_levels(problem, self._terms)

    def use(self, values: FloatArray) -> None:
        """Take these hyperparameters, unless they are those at hand."""
        if self._values is None or not np.array_equal(self._values, values):
            self._values = None  # until all that follows from them is there
            self.parameters.set(values)
            self._fixed, self._factor, self._jitter, self._source = self._make_source()
            self._values = values.copy()

    def _make_source(self) -> tuple[DuelProblem, tf.Tensor, tf.Tensor, tf.Tensor]:
        """The problem, L, its jitter, and the source, which is L where sums go over duels."""
        problem = self._problem()
        factor, jitter = factorise(problem)
        source = factor
        if self._rows is not None:
            source = whitened(problem, (factor, jitter)).features(self._rows)
        return problem, factor, jitter, source

    def begin(self, total: Natural) -> None:
        """Take the marginals of the coming pass from this posterior."""
        self._posterior = total.posterior()

    def _prior(
        self, problem: DuelProblem, graph: DuelGraph, look: bool
    ) -> tuple[DuelPrior, LowRank]:
        """The prior of a chunk, and its covariance, from the source."""
        problem, approximation = problem._replace(graph=graph), self._approximation
        look = look or approximation.residual_share > 0.0
        if self.over_items:
            basis = whitened(problem, (self._factor, self._jitter))
            border = None if self._terms is None else self._terms.border_beside(graph)
            prior = over_items(approximation, problem, basis, self._source, look, border)
        else:
            basis = whitened(problem, (self._source, self._jitter))
            prior = approximation.over_duels(problem, basis, self.size, look)
        if self._terms is not None and self._terms.leans:
            prior = with_levels(prior, self._terms, graph)
        return prior, cast(LowRank, prior.covariance)

    @staticmethod
    def _sums(covariance: LowRank, sites: Sites, counts: tf.Tensor) -> Natural:
        precision, shift = totals(sites, counts)
        return Natural.of(covariance.sums(precision, shift, covariance.own(precision, shift)))

    def hold(self, chunk: DuelGraph, sites: FloatArray) -> Natural:
        """The sums that the sites (2, c) of a chunk make as they are."""
        prior, covariance = self._prior(self._fixed, chunk, False)
        return self._sums(covariance, _sites(sites), prior.factors.counts)

    def sweep(
        self, chunk: DuelGraph, sites: FloatArray, damping: float, look: bool
    ) -> tuple[FloatArray, SiteSums, Natural]:
        """Sites (2, c) after a damped sweep, what was seen before it, and the sums they make."""
        prior, covariance = self._prior(self._fixed, chunk, look)
        factors = prior.factors
        found = self._step(covariance, factors, _sites(sites))
        new = damp(found.sites, found.proposal, tf.cast(damping, factors.upper.dtype))
        sums = self._sums(covariance, new, factors.counts)
        seen = _seen(found, log_z_of(found, factors), prior)
        return np.stack([new.nu.numpy(), new.tau.numpy()]), seen, sums

    def _step(self, covariance: LowRank, factors: Factors, sites: Sites) -> SweepState:
        """An undamped sweep under the posterior of this pass."""
        u, own = self._posterior, covariance.own(*totals(sites, factors.counts))
        mean, variance = covariance.marginals_under(u, own)
        # ½ log|P| of u is that of all chunks, and of all parts.
        half_log_det = covariance.own_half_log_det(own)
        marginals = Marginals(mean, variance, half_log_det, LowRankIntermediates(u, own))
        return step(marginals, factors, sites)

    def pull(self, chunk: DuelGraph, sites: FloatArray) -> tuple[FloatArray, SiteSums, FloatArray]:
        """The gradient of the evidence, the sites (2, c) held.

        :return: that in all hyperparameters but by the source, the sums over sites, and that in
            the source.
        """
        variables = self.parameters.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([*variables, self._source])
            prior, covariance = self._prior(self._problem(), chunk, True)
            with tape.stop_recording():
                found = self._step(covariance, prior.factors, _sites(sites))
                evidence, slopes = ends(found, prior.factors)
            zero = tf.zeros([], found.mean.dtype)
            target = differentiable_log_evidence(prior, found.sites, slopes, found.kept, zero)
        gradient = flat_gradient(tape, target, [*variables, self._source]).numpy()
        own, by_source = np.split(gradient, [self.num_values])
        return own, _seen(found, evidence, prior), by_source

    def pull_source(self, slope: FloatArray) -> FloatArray:
        """A derivative in the source as one in all hyperparameters."""
        variables = self.parameters.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            *_, source = self._make_source()
        upstream = tf.reshape(tf.constant(slope, source.dtype), source.shape)
        return flat_gradient(tape, source, variables, upstream).numpy()


def terms_apart(
    parameters: Hyperparameters, approximation: SummedApproximation, about_sets: bool
) -> TermsOfDuels | None:
    """The terms that see what is said of a duel; None without, or where they are features."""
    if about_sets or approximation.has_blocks or parameters.terms.taste is not None:
        return None
    terms = TermsOfDuels.of(parameters.problem().kernel, None)
    return terms if terms.border or terms.leans else None


def size_of(
    parameters: Hyperparameters, approximation: SummedApproximation, about_sets: bool
) -> Size:
    """Of the Gaussian over inducing values, coefficients and leans."""
    terms = terms_apart(parameters, approximation, about_sets)
    if terms is None or not terms.leans:
        return Size(parameters.size)
    levels, each = len(terms.numbers(None)), len(terms.leans)
    return Size(parameters.size - levels * each, levels, each)


def _sites(sites: FloatArray) -> Sites:
    return Sites(*map(as_float, sites))


def _seen(found: SweepState, evidence: tf.Tensor, prior: DuelPrior) -> SiteSums:
    return SiteSums(*map(float, (found.change, evidence, prior.correction, prior.clipped)))


def _difference_variance(
    kernel: gpflow.kernels.Kernel, losers: tf.Tensor, winners: tf.Tensor
) -> tf.Tensor:
    """`difference_variance` of a chunk, of which equal rows are not one."""
    variance = pair_difference_variance(kernel, losers, winners)
    same = tf.reduce_all(losers == winners, -1)
    return tf.where(same, tf.zeros_like(variance), variance)


class _Fused:
    """A function fused by the compiler, or as it is where a kernel holds what it cannot compile.

    Its gradient computes it again: kept for a backward pass, every step of a kernel is an array.
    """

    def __init__(self, function: Callable[..., tf.Tensor], variables: Sequence[tf.Variable]):
        again = partial(_computed_again, function, variables)
        self._plain = tf.function(again, autograph=False)
        self._chosen = tf.function(again, autograph=False, jit_compile=True)

    def __call__(self, *tensors: tf.Tensor) -> tf.Tensor:
        chosen = self._chosen  # which another thread may replace meanwhile
        try:
            return chosen(*tensors)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            if chosen is self._plain:
                raise
            _log.debug("The kernel is not compiled: %s", error.message.splitlines()[0])
            self._chosen = self._plain
            return self._plain(*tensors)


def _computed_again(
    function: Callable[..., tf.Tensor], variables: Sequence[tf.Variable], *tensors: tf.Tensor
) -> tf.Tensor:
    """`function(*tensors)`, which with its gradient in the variables is one pass.

    `tf.recompute_grad` leaves out variables that are not trainable.
    """

    # That of TensorFlow, though it keeps its graph: a function inside this one, whose gradient
    # several threads ask for at once, is not safe from them.
    @tf.custom_gradient
    def compute(*values: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        def gradient(upstream: tf.Tensor, variables: Any = None) -> Any:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(held)
                found = function(*tensors)
            zero = tf.UnconnectedGradients.ZERO
            by = tape.gradient(found, held, upstream, unconnected_gradients=zero)
            # Variables that TensorFlow saw being read are those of which the values are given.
            return by if variables is None else (by, [None] * len(variables))

        return function(*tensors), gradient

    held = list(variables)
    return compute(*map(tf.convert_to_tensor, held))
