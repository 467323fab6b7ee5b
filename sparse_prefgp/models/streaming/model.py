"""The model of duels that are never in memory: one sparse posterior, made by parts of them."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.models import BayesianModel

from sparse_prefgp.approximations import VFE, Approximation, DuelProblem, SummedApproximation
from sparse_prefgp.approximations.duel_terms import TermsOfDuels, without_levels
from sparse_prefgp.approximations.whitened import whitened
from sparse_prefgp.covariances.coefficients import widened
from sparse_prefgp.covariances.kernels import as_float, between_inducing
from sparse_prefgp.covariances.low_rank_base import Sums
from sparse_prefgp.covariances.residual import BLOCKS, MAX_BLOCK, joined
from sparse_prefgp.data.batches import NotInMemory
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.engines import InferenceResult, ParallelEP, PartitionedEP, Status
from sparse_prefgp.io.streams.scan import READ_ROWS
from sparse_prefgp.models.base import DuelGP, Fingerprint, Inferred
from sparse_prefgp.models.checks import (
    check_parts,
    check_together,
    checked_terms,
    inducing_points,
    likelihood_of,
    warn_of_cancelling,
)
from sparse_prefgp.models.hyperparameters import Hyperparameters, parts_of
from sparse_prefgp.models.inducing_inputs import default_inputs
from sparse_prefgp.models.inputs import Inputs
from sparse_prefgp.models.known import SampledWins
from sparse_prefgp.models.likelihood import Probit
from sparse_prefgp.models.outcomes import places_of
from sparse_prefgp.models.parameters import pieces_of
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.models.preference_gp import replace as replace_answers
from sparse_prefgp.models.strangers import Strangers
from sparse_prefgp.models.streaming.gaussian import Natural
from sparse_prefgp.models.streaming.inference import (
    PartsOptions,
    StreamInference,
    StreamProgress,
)
from sparse_prefgp.models.streaming.rounds import Outcome, Round
from sparse_prefgp.models.streaming.settled import sites_of_graph
from sparse_prefgp.models.terms import Term, Terms
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_kind, whole_number
from sparse_prefgp.support.words import shortened

# Rows that the default inducing inputs are placed by.
_PLACED_BY = 20_000


@dataclass(frozen=True)
class StreamedResult(InferenceResult):
    """What inference on streamed duels did, besides what `InferenceResult` says."""

    rounds: tuple[Round, ...] = field(default=(), repr=False)
    """Log of each round."""
    parts: int = 1
    """Number of parts."""
    sites: str = "in memory"
    """Where the sites are."""
    duels: int = 0
    """How many duels the posterior is made of, counts included."""

    @property
    def rebuilt(self) -> tuple[str, ...]:
        """What was lost on the way and rebuilt, in words."""
        return tuple(text for round_ in self.rounds for text in round_.rebuilt)

    def __str__(self) -> str:
        text = (
            f"{super().__str__()}; {self.duels:,} duels in {self.parts} "
            f"{'part' if self.parts == 1 else 'parts'}, sites {self.sites}"
        )
        return "; ".join([text, *self.rebuilt])


@dataclass(frozen=True, eq=False)
class SolvedParts:
    """Where inference in parts ended."""

    parameters: Hyperparameters
    """Copies, so that nothing follows when one of the model's is assigned."""
    total: Natural
    """Natural parameters of whitened u."""
    log_evidence: float
    """In nats, with the correction."""

    @cached_property
    def posterior(self) -> Posterior:
        problem, terms = self.parameters.problem(), self.total.posterior().terms
        kernel, mean_function = problem.kernel, problem.mean_function
        if not self.total.size.levels:
            return Posterior(kernel, mean_function, whitened(problem).of_inputs, terms)
        of_duels, layout = TermsOfDuels.of(kernel, None), self.parameters.columns.layout
        of_u = whitened(without_levels(problem, of_duels)).of_inputs
        beside = of_duels.features(lambda x: of_u(widened(x, layout)), None)
        return Posterior(kernel, mean_function, beside.whole, terms, beside=beside)

    @cached_property
    def strangers(self) -> Strangers:
        """People of whom nothing is known, where people have tastes."""
        problem = self.parameters.problem()
        # Of the sites alone, without the prior of u.
        told = self.total.minus(Natural.prior(self.total.size))
        known = Sums(as_float(told.precision), as_float(told.shift[:, None]))
        return Strangers(problem, whitened(problem), known)


class StreamedGP(DuelGP):
    """A Gaussian-process utility learned from duels that are read in chunks, or by other machines.

    Only the sums over m inducing inputs and two numbers for each duel stay. The posterior is that
    of `PreferenceGP` with the same approximation by `ParallelEP`, except that each row of the
    stream keeps a site of its own, which changes nothing.

    :param duels: `stream_duels(...)`.
    :param kernel: any GPflow kernel on D inputs but `ItemEffect`.
    :param approximation: `VFE()` by default; one whose correction is a sum over duels. `PITC` with
        a block for each row of the stream, in which the rows of a block follow on one another; no
        chunk or part cuts one.
    :param inducing_variable: (m, D) array or `InducingPoints`, in the units of the stream; by
        default k-means centres of up to 20,000 rows, at most 128.
    :param engine: `PartitionedEP(parts=1)` by default: parts, local sweeps, damping, tolerance.
    :param mean_function: any GPflow mean function; None is zero.
    :param terms: as of `PreferenceGP`; a `Taste` without effects of items, where the rows of a
        person follow on one another in the stream, and no chunk or part cuts them. What is known of
        each person is not kept: `meet` takes a person's duels, known or not.
    :param likelihood: as of `PreferenceGP`; duels with ties need a margin.
    :param noise_variance: as of `PreferenceGP`.
    :param sites: path of a new `.npy` file for the sites (16 bytes a duel), memory-mapped; with
        several parts `.0`, `.1`, … join its name. None keeps them in memory.
    :param chunk: duels worked on at a time; by default 2^22 / m, as free memory allows, or 2^18
        where sums go over shared items. One that is given is kept to where all would fit into
        memory, too.
    :param scheduler: None works in this process; "local" starts a Dask cluster on this machine
        with as many workers as parts, at most one for each core; "tcp://…" is the address of a
        Dask scheduler. Parts read their own files there, with the sites in their memory.
    :param timeout: seconds for each part of a worker, after which those that have not answered
        count as lost and are rebuilt on another worker; None is ten times what the last round
        took, at least 60.
    :raises ValueError: a value that makes no sense, named in the message; an approximation that
        needs all duels at once.
    """

    def __init__(
        self,
        duels: Duels,
        kernel: gpflow.kernels.Kernel,
        *,
        approximation: Approximation | None = None,
        inducing_variable: Any = None,
        engine: PartitionedEP | None = None,
        mean_function: gpflow.functions.MeanFunction | None = None,
        terms: Iterable[Term] = (),
        likelihood: Probit | None = None,
        noise_variance: float | None = None,
        sites: str | os.PathLike[str] | None = None,
        chunk: int | None = None,
        scheduler: str | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        check_kind("duels", duels, Duels, "what stream_duels makes")
        approximation = VFE() if approximation is None else approximation
        engine = PartitionedEP(parts=1) if engine is None else engine
        seen = duels.seen
        check_parts(kernel, mean_function, approximation, engine, seen)
        partitioned = isinstance(engine, PartitionedEP)
        likelihood, terms = likelihood_of(likelihood, noise_variance), checked_terms(terms)
        check_together(
            approximation,
            kernel,
            engine,
            seen,
            terms,
            likelihood,
            people=duels.people_names,
            about=duels.batches.scan.totals.about_sets,
            streamed=True,
            whole=not approximation.summed_over_duels and repr(approximation),
            single_precision=getattr(approximation, "single_precision", False),
            other_engines=not partitioned and f"the engine {engine!r}",
            powers_of_sites=partitioned and engine.site_power != 1.0,
        )
        assert isinstance(approximation, SummedApproximation)  # the only ones that are such sums
        size = None if chunk is None else whole_number("chunk", chunk, 1)
        place = PartsOptions(sites, size, scheduler, timeout)
        if approximation.block_of_duel is not None:
            duels = duels.in_blocks(approximation.block_of_duel)
            # Refuses what is too large before anything is read.
            joined({BLOCKS: duels.batches.blocks.numbers.astype(np.int64)})
        self.terms = Terms.of(terms, seen)
        if self.terms.taste is not None:
            duels = _by_people(duels, approximation)
        warn_of_cancelling(kernel)
        self.kernel, self.mean_function, self.centre = kernel, mean_function, duels.centre
        self.likelihood = likelihood.on(seen)
        for column in self.terms.labels:
            if unknown := int(duels.batches.totals.label_counts[column][0]):
                raise ValueError(
                    f"Leans by {column!r} were asked for, but {unknown:,} of the streamed duels "
                    "have no such label; give all of them one, or make a PreferenceGP of duels in "
                    "memory."
                )
        said = seen.said.labelled_as(self.terms.names(seen))
        duels = duels.replacing(answers=replace(duels.batches, said=said))
        if inducing_variable is None:
            rng = np.random.default_rng(0)
            inducing_variable = default_inputs(duels.sample(_PLACED_BY, rng), kernel, rng)
        points = inducing_points(
            approximation, inducing_variable, duels.num_features, kernel=kernel
        )
        assert points is not None  # every approximation that is a sum has some
        self.inducing_variable = points
        # None of it is a parameter, nor does tf.Module look for any in it.
        self._work = StreamInference(duels, seen, approximation, engine, place)
        self.terms.check(self.hyperparameters().columns)

    # What the model was made of.

    @property
    def stream(self) -> Duels | None:
        """The duels; None for a model that was loaded, which can predict but not learn."""
        return self._work.stream

    @property
    def duels(self) -> Duels:
        """What is known of the duels without reading them."""
        return self._work.seen

    @property
    def approximation(self) -> SummedApproximation:
        return self._work.approximation

    @property
    def engine(self) -> PartitionedEP:
        return self._work.engine

    @property
    def rebuilt(self) -> tuple[str, ...]:
        """What was lost on other machines and rebuilt since the model was made, in words."""
        return tuple(self._work.rebuilt)

    @property
    def graph(self) -> Any:
        """Refused: streamed duels are never a graph as a whole.

        :raises ValueError: always; `in_memory` gives a model that has one.
        """
        raise NotInMemory

    @property
    def inputs(self) -> Inputs:
        return Inputs(self, self.hyperparameters().columns.layout)

    def problem(self) -> DuelProblem:
        """The model before any approximation, without a graph."""
        return self.hyperparameters().problem()

    def sample_wins(self, size: int, rng: np.random.Generator, above: float = 0.0) -> SampledWins:
        """Of `size` rows of the stream, which is read once for them, those that one side won.

        :param above: the stream is not read, and there are none, where the prior variance of a duel
            is not above so many times its noise.
        :raises ValueError: a loaded model.
        """
        stream = self._streamed("sample_wins")
        prior = np.diag(between_inducing(self.inducing_variable, self.kernel))
        noise, ratio = 2.0 * float(self.likelihood.noise.numpy()), self.likelihood.noise_ratio
        if 2.0 * np.max(prior) < above * noise:
            none = np.zeros((0, self.duels.num_features))
            return SampledWins(none, none, np.zeros(0))
        duels = stream.sample(size, rng)
        doors = duels.events.doors()
        won = doors.decided
        ahead, behind = (duels.items[ends] for ends in doors.features[won].T)
        each = np.full(len(ahead), noise)
        if ratio is not None and duels.groups is not None:
            judge = places_of(duels.group_names or (), self.duels.group_names or ())
            each *= ratio.numpy()[judge[duels.groups[doors.event[won]]]]
        return SampledWins(ahead, behind, each)

    def __repr__(self) -> str:
        return (
            f"StreamedGP({self.approximation!r}, {self.inducing_variable.num_inducing} inducing "
            f"inputs, {self.engine!r}, {type(self.kernel).__name__} kernel, "
            f"{self.duels.num_duels:,} duels)"
        )

    def hyperparameters(self) -> Hyperparameters:
        """All parameters, those of the model itself."""
        names = self.terms.names(self.duels)
        levels = tuple(map(len, names.values()))
        return Hyperparameters.of_stream(parts_of(self), self.duels.covariate_names, levels)

    # Evidence and training.

    @property
    def fits_in_memory(self) -> bool:
        """Whether `optimise` may read the duels once and learn in memory: duels between shared
        items of which that takes at most 256 MiB, and half of what is free.

        Not with a scheduler, a given `chunk`, weights, blocks, tastes, or covariates of answers
        about sets.
        """
        return self._work.fits_in_memory(self.hyperparameters())

    def infer(
        self,
        restart: bool = False,
        progress: Callable[[StreamProgress], None] | None = None,
        report: Callable[[Round], None] | None = None,
    ) -> StreamedResult:
        """Find the sites for the parameters as they are.

        Where a kernel, mean function or inducing variable was put in place of another, it begins
        at zero too.

        :param restart: forget the sites of earlier calls and begin at zero.
        :param progress: called after each chunk, or with a scheduler when a part has answered.
        :param report: after each round.
        :raises ValueError: a file that cannot be read or holds other duels than before; what a
            scheduler that cannot be reached says.
        """
        watch = progress, report
        return self._inferred(restart, warn=False, watch=watch).result

    def evidence_and_gradient(
        self,
        tolerance: float | None = None,
        progress: Callable[[StreamProgress], None] | None = None,
    ) -> tuple[float, list[FloatArray]]:
        """Log evidence and its exact gradient in each of `trainable_variables`, unconstrained.

        Begins at the sites of the last call.

        :param tolerance: of inference; by default the engine's.
        """
        self._streamed("learning")
        fingerprint, parameters = Fingerprint.of(self), self.hyperparameters()
        values = parameters.values()
        with self._work.telling(parameters, progress) as coordinator:
            outcome = coordinator.run(values, tolerance)
            self._known = Inferred(fingerprint, *self._ended(outcome))
            if outcome.result.status is Status.NOT_FINITE:
                return np.nan, [np.full(v.shape, np.nan) for v in self.trainable_variables]
            evidence, slopes, again = coordinator.gradient(values, tolerance)
            if again is not None:
                self._known = Inferred(fingerprint, *self._ended(again))
        variables = parameters.variables
        pieces = dict(zip(map(id, variables), pieces_of(slopes, variables), strict=True))
        return evidence, [pieces[id(v)] for v in self.trainable_variables]

    def maximum_log_likelihood_objective(self) -> tf.Tensor:
        """Log evidence with its exact gradient, for optimisers that do not compile."""
        together.check(compiled=not tf.executing_eagerly(), streamed=True)
        value, gradients = self.evidence_and_gradient()
        surrogate = tf.add_n(
            [tf.reduce_sum(g * v) for g, v in zip(gradients, self.trainable_variables, strict=True)]
        )
        return value + (surrogate - tf.stop_gradient(surrogate))

    # Beyond the stream.

    def in_memory(self) -> PreferenceGP:
        """An ordinary model of all duels, with the same parameters, at the same sites.

        For duels that fit, and for what needs them all: `update`, `suggest`, `lower_bound`. After
        `close` the sites are found again.

        :raises ValueError: a loaded model, or parts in other processes.
        """
        work, stream = self._work, self._streamed("in_memory")
        together.check(scheduler=work.place.scheduler is not None, sites_here=True)
        self._inferred(restart=not work.holds_sites)
        nu, tau = np.concatenate(work.parts(self.hyperparameters()).sites(), 1)
        (whole,) = stream.chunks(stream.batches.num_sites)
        duels = stream.in_memory(whole)
        engine = ParallelEP(tolerance=self.engine.tolerance)
        model = replace_answers(self, duels, engine=engine)
        of_site = sites_of_graph(model.graph, whole, stream.has_sets, (nu, tau))
        model.inference.start_from(*of_site)
        return model

    def close(self) -> None:
        """Let go of the parts: their sites, and the workers that were started for them."""
        self._work.close()

    # Inside.

    def _streamed(self, what: str) -> Duels:
        """The duels; a model that was loaded has none."""
        if self.stream is None:
            raise together.refused(loaded=True, duels_needed=what)
        return self.stream

    def _infer(self, restart: bool, watch: Any) -> tuple[SolvedParts, StreamedResult]:
        self._streamed("inference at other parameters")
        parameters, (progress, report) = self.hyperparameters(), watch or (None, None)
        with self._work.telling(parameters, progress) as coordinator:
            outcome = coordinator.run(parameters.values(), restart=restart, report=report)
        return self._ended(outcome)

    def _ended(self, outcome: Outcome) -> tuple[SolvedParts, StreamedResult]:
        work, parameters = self._work, self.hyperparameters()
        work.rebuilt += [text for round_ in outcome.rounds for text in round_.rebuilt]
        result = StreamedResult(
            **vars(outcome.result),
            rounds=outcome.rounds,
            parts=len(work.parts(parameters).rows),
            sites=work.place.of_sites,
            duels=self.duels.num_duels,
        )
        summed = SolvedParts(copy.deepcopy(parameters), outcome.total, outcome.log_evidence)
        return summed, result


def without_duels(
    seen: Duels,
    approximation: SummedApproximation,
    engine: PartitionedEP,
    solved: SolvedParts,
    result: StreamedResult,
) -> StreamedGP:
    """A model that predicts from what was kept, and cannot learn."""
    model = StreamedGP.__new__(StreamedGP)
    BayesianModel.__init__(model)
    for name, part in parts_of(solved.parameters).items():
        setattr(model, name, part)
    model._work = StreamInference(None, seen, approximation, engine)
    solved = replace(solved, parameters=copy.deepcopy(solved.parameters))
    model._known = Inferred(Fingerprint.of(model), solved, result)
    return model


def _by_people(duels: Duels, approximation: Approximation) -> Duels:
    """The stream with a block for each person; the rows are read once for that.

    :raises ValueError: a stream of nobody, or whose rows are not sorted by person; blocks already;
        effects of items in the taste; a person with more than 5,000 rows, unless items are fewer.
    """
    blocks = duels.batches.blocks is not None
    together.check(tastes_of_streamed_duels=True, blocks=blocks and repr(approximation))
    people = [chunk.given.columns["person"].numbers for chunk in duels.chunks(READ_ROWS)]
    names, numbers = duels.people_names or (), np.concatenate(people)
    each = np.bincount(numbers)
    if each.max() > MAX_BLOCK and not (duels.has_items and duels.num_items <= MAX_BLOCK):
        u = int(np.argmax(each))
        raise ValueError(
            f"The person {shortened(names[u])} has {int(each[u]):,} rows of duels between more "
            f"than {MAX_BLOCK:,} items, and in a stream a taste is learned of at most "
            f"{MAX_BLOCK:,}; keep fewer of these, or read the duels into memory."
        )
    return duels.in_blocks([names[i] for i in numbers], "person")
