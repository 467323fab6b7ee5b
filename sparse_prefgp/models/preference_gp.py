"""The model: composes a prior, duels, an approximation and an engine; computes nothing itself."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import VFE, Approximation, DuelProblem, Exact
from sparse_prefgp.approximations.base import build_factors
from sparse_prefgp.approximations.in_time import exact_in_time
from sparse_prefgp.covariances.by_features import ByFeatures
from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.covariances.item_effect import (
    ItemEffect,
    check_number_of_effects,
    held_effects,
    item_effects,
    numbered_kernel,
)
from sparse_prefgp.covariances.item_in_time import time_term
from sparse_prefgp.covariances.pair_effect import pair_effect
from sparse_prefgp.data.answers import TIE
from sparse_prefgp.data.dated import Dated
from sparse_prefgp.data.duels import OF_DUELS, Duels
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import Engine, InferenceResult, ParallelEP, Status
from sparse_prefgp.engines.base import describe
from sparse_prefgp.evidence import (
    FullMarginals,
    InducingValues,
    LowerBounds,
    differentiable_log_evidence,
    lower_bounds,
)
from sparse_prefgp.factors.sites import totals
from sparse_prefgp.models.base import DuelGP, Traced
from sparse_prefgp.models.checks import (
    check_parts,
    check_size_of_people,
    check_time_memory,
    check_together,
    checked_terms,
    effects_by_kernel,
    inducing_points,
    likelihood_of,
    of_engine,
    scale_is_free,
    warn_of_cancelling,
)
from sparse_prefgp.models.hyperparameters import Hyperparameters, parts_of
from sparse_prefgp.models.inducing_inputs import default_inputs
from sparse_prefgp.models.inference import Inference, SitesMemory, Solved
from sparse_prefgp.models.inputs import Inputs
from sparse_prefgp.models.known import SampledWins
from sparse_prefgp.models.likelihood import MARGIN_ONLY, Probit
from sparse_prefgp.models.posterior import Posterior, in_chunks
from sparse_prefgp.models.terms import Columns, Term, Terms
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_kind, check_number, check_shape
from sparse_prefgp.support.shapes import as_written
from sparse_prefgp.support.words import of_the_mode

EXACT_UP_TO = 1000


@dataclass(frozen=True)
class _Given:
    """What a model is made of that is not a parameter."""

    duels: Duels
    approximation: Approximation
    all_duels: DuelGraph
    """The graph of all duels."""
    graph: DuelGraph
    """That of those which the approximation takes."""


class PreferenceGP(DuelGP):
    """A Gaussian-process utility learned from duels.

    :param duels: `Duels`; t duels between n items with D features.
    :param kernel: any GPflow kernel on D inputs; may be left out for items without features, which
        then have an `ItemEffect()` each.
    :param approximation: `Exact()`, `VFE()`, `FITC()`, …; by default `Exact()` up to 1,000
        distinct items and for item effects alone, and `VFE()` otherwise.
    :param inducing_variable: (m, D) array or GPflow `InducingPoints`, in the units of
        `duels.items`; by default k-means centres, at most 128. Not for `Exact()`.
    :param engine: `ParallelEP()` by default, `SequentialEP()`, `Variational()` or `Laplace()`.
    :param mean_function: any GPflow mean function; None is zero.
    :param terms: of the prior besides the kernel: `Taste(kernel)` of each person, `Coefficients()`
        of covariates (there wherever duels have covariates), `Lean(covariate, by)` of the labels
        of a column, and terms of one's own (docs/write-your-own.md).
    :param likelihood: `Probit(noise, by="judge", margin=0.3, …)`; by default `Probit()`.
    :param noise_variance: short for `Probit(noise_variance)`.
    :raises ValueError: a value that makes no sense, named in the message.
    """

    def __init__(
        self,
        duels: Duels,
        kernel: gpflow.kernels.Kernel | None = None,
        *,
        approximation: Approximation | None = None,
        inducing_variable: Any = None,
        engine: Engine | None = None,
        mean_function: gpflow.functions.MeanFunction | None = None,
        terms: Iterable[Term] = (),
        likelihood: Probit | None = None,
        noise_variance: float | None = None,
    ) -> None:
        super().__init__()
        check_kind("duels", duels, Duels, OF_DUELS)
        duels = duels.with_features
        if kernel is None:
            if duels.num_features:
                features = f"items with {duels.num_features} features"
                raise together.refused(no_kernel=True, features_of_items=features)
            kernel = ItemEffect()
        engine = engine or ParallelEP()
        check_parts(kernel, mean_function, approximation or Exact(), engine, duels)
        warn_of_cancelling(kernel)
        likelihood, terms = likelihood_of(likelihood, noise_variance), checked_terms(terms)
        check_together(
            approximation,
            kernel,
            engine,
            duels,
            terms,
            likelihood,
            people=duels.people_names,
            about=duels.events.about_sets,
        )
        self.terms = Terms.of(terms, duels)
        taste = self.terms.taste
        pairs = pair_effect(kernel)
        numbered = any(map(item_effects, [kernel, *([taste] if taste else [])]))
        numbered = numbered or pairs is not None
        term, self._dated = time_term(kernel), None
        if term is not None and duels.times is not None:
            term.settle(duels.times, float(np.sqrt(2.0 * likelihood.noise.numpy())))
            learned = duels.events.kind != TIE if likelihood.ties == MARGIN_ONLY else None
            self._dated, numbered = Dated.of(duels, term.slices, learned), True
        full = DuelGraph.from_duels(duels, numbered, self.terms.names(duels), self._dated)
        self.terms.check(Columns(full.layout, duels.covariate_names, self.terms.labels))
        if term is not None:
            check_time_memory(full, duels, kernel)
        if likelihood.ties == MARGIN_ONLY:
            full = _without_ties(full)
        if approximation is None:
            small = inducing_variable is None and full.num_rows <= EXACT_UP_TO
            small = exact_in_time(kernel) if term is not None else small
            approximation = Exact() if small or feature_part(kernel) is None else VFE()
            inducing = approximation.needs_inducing and "the inducing inputs of VFE"
            together.check(effects_by_kernel=effects_by_kernel(kernel), inducing=inducing)
        self.kernel, self.mean_function = kernel, mean_function
        self.likelihood = likelihood.on(duels)
        if taste is not None:
            check_size_of_people(full, duels.people_names or ())
        if approximation.needs_inducing and not approximation.has_blocks:
            check_number_of_effects(
                numbered_kernel(kernel, full.layout.features), full, approximation.name
            )
        if approximation.needs_inducing and inducing_variable is None:
            inducing_variable = default_inputs(duels, kernel, np.random.default_rng(0))
        self.inducing_variable = inducing_points(
            approximation, inducing_variable, duels.num_features, duels.items, kernel
        )
        graph = _used(full, approximation, engine, taste is not None)
        # Neither these nor the sites are parameters, nor does tf.Module look for any in them.
        self._given = _Given(duels, approximation, full, graph)
        self._engine = engine
        self._sites_memory = SitesMemory(graph.num_sites)
        self.centre = duels.centre

    # What the model was made of.

    @property
    def duels(self) -> Duels:
        return self._given.duels

    @property
    def graph(self) -> DuelGraph:
        """The distinct items and sites that inference works on."""
        return self._given.graph

    @property
    def all_duels(self) -> DuelGraph:
        """The graph of all duels, which is `graph` unless the approximation takes a subset of them
        or keeps equal ones apart."""
        return self._given.all_duels

    @property
    def num_duels_used(self) -> int:
        """How many duels the log evidence is about: all, whatever their weights, or the subset."""
        if self.approximation.uses_all_duels:
            left_out = self.duels.num_ties if self.likelihood.ties == MARGIN_ONLY else 0
            return self.duels.num_duels - left_out
        return int(self.graph.weight)

    @property
    def approximation(self) -> Approximation:
        return self._given.approximation

    @property
    def engine(self) -> Engine:
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self.allow(**of_engine(engine), **self.duels.events.about_sets.things())
        if self.graph.noises is not None and engine.one_by_one != self._engine.one_by_one:
            graph = _used(self.all_duels, self.approximation, engine, self.terms.taste is not None)
            self._given = dataclasses.replace(self._given, graph=graph)
            self._sites_memory = SitesMemory(graph.num_sites)
        self._engine, self._known = engine, None

    @property
    def inference(self) -> Inference:
        """The sites, at which the last inference ended and the next one begins."""
        return Inference(self, self._sites_memory)

    @property
    def inputs(self) -> Inputs:
        return Inputs(self, self.graph.layout)

    def log_evidence(self) -> float:
        """Log evidence in nats, with the approximation's correction, over all duels.

        :raises ValueError: the sites of a filter, at which it is none.
        """
        filtered = self._inferred().result.status is Status.FILTERED
        together.check(filtered=filtered, log_evidence=True)
        return super().log_evidence()

    def sample_wins(self, size: int, rng: np.random.Generator, above: float = 0.0) -> SampledWins:
        """At most `size` of the duels that inference works on and one side won, equal ones once.

        :param above: of no account here, where nothing needs to be read.
        """
        del above
        graph, noise = self.graph, self.problem().noise.numpy()
        won = np.flatnonzero(graph.won)
        if len(won) > size:
            won = np.sort(rng.choice(won, size, replace=False))
        ahead, behind = (graph.rows[ends[won]] for ends in (graph.winners, graph.losers))
        return SampledWins(ahead, behind, noise[won])

    def __repr__(self) -> str:
        inducing = ""
        if self.inducing_variable is not None:
            inducing = f", {self.inducing_variable.num_inducing} inducing inputs"
            if item_effects(self.kernel):
                held, effects = held_effects(self.kernel, self.graph)
                inducing += f" and {held} of {effects} item effects"
        if self.graph.blocks is not None:
            sizes = np.bincount(self.graph.blocks)
            inducing += f", {len(sizes):,} blocks of up to {sizes.max():,} distinct duels"
        return (
            f"PreferenceGP({self.approximation!r}{inducing}, {self.engine!r}, "
            f"{type(self.kernel).__name__} kernel, {self.duels.num_duels} duels between "
            f"{self.graph.num_items} distinct items)"
        )

    # Evidence and training.

    def problem(self, frozen: bool = False) -> DuelProblem:
        """The model before any approximation, in tensors that follow the parameters.

        :param frozen: of copies, so that nothing kept from it changes when a parameter is assigned.
        """
        tree, by_features = Hyperparameters(**parts_of(self), columns=self.inputs.columns), None
        tree = copy.deepcopy(tree) if frozen else tree
        if tree.terms.by_features is not None:
            by_features = ByFeatures(
                self.duels.centred_people.values,
                len(self.people.names),
                tf.convert_to_tensor(tree.terms.by_features),
                self.duels.num_features,
            )
        logistic = not self.engine.link_function.has_normal_noise
        return tree.problem(self.graph, logistic=logistic, by_features=by_features)

    @as_written
    def maximum_log_likelihood_objective(self) -> tf.Tensor:
        """Log evidence with its exact gradient; runs inference inside, from the last sites."""
        if scale_is_free(self) and not self.warned_about_scale:
            self.warned_about_scale = True
            warnings.warn(
                "Kernel variance and noise variance are both trainable, but duels determine only "
                "their ratio; fix one with gpflow.set_trainable, or give one a prior.",
                stacklevel=2,
            )
        prior = self.approximation.prior(self.problem())
        point = self.inference.run(prior)
        self._sites_memory.keep(point)
        value = point.log_evidence(prior.correction)
        return differentiable_log_evidence(
            prior, point.sites, point.slopes, point.found.kept, value
        )

    def lower_bound(self) -> float:
        """Rigorous lower bound of the exact log evidence of all duels, in nats.

        The largest of `lower_bounds().rows`, for the q that inference found. It holds for every
        approximation and engine, converged or not, and makes them comparable on one scale; only
        where exact inference took jitter (`infer().jitter`) it is about the kernel with it.
        (docs/method.md, section 3)
        """
        return self.lower_bounds().value

    def lower_bounds(self) -> LowerBounds:
        """All rigorous lower bounds, and which is the largest.

        :raises ValueError: logit factors, or answers of best and worst at once.
        """
        self.allow(lower_bounds=True)
        at = self._inferred().solution
        problem, prior, sites = at.problem, at.prior, at.sites
        if prior.blocks is not None and problem.graph.noises is None:
            counted = totals(sites, prior.factors.counts)
            mean, variance, kl = prior.blocks.inducing_values(*counted)
            inducing = InducingValues(mean.numpy(), variance.numpy(), float(kl))
            return lower_bounds(problem, sites, inducing=inducing)
        everything = None
        if not self.approximation.uses_all_duels:
            everything = _marginals_of(problem._replace(graph=self.all_duels), at.posterior)
        return lower_bounds(problem, sites, everything)

    # Prediction.

    @as_written  # AutoGraph knows no := and says so at every call
    def _solution(self) -> Solved:
        if tf.executing_eagerly():
            return super()._solution()
        problem = self.problem()
        prior = self.approximation.prior(problem)
        sites = self.inference.run(prior).sites
        return Solved(problem, self.approximation, self.engine, sites).with_prior(prior)

    # Inside.

    def _on(self, duels: Duels, slices: Any) -> PreferenceGP:
        """The same model of these duels, in these slices of time, with copies of its parameters."""
        return replace(self, duels, slices=slices)

    def _infer(self, restart: bool, watch: Any) -> tuple[Solved, InferenceResult]:
        self._known = None  # its prior may be as large as the new one: let go of it first
        memory = self._sites_memory
        if restart:
            memory.clear()
        problem = self.problem(frozen=True)
        prior = self.approximation.prior(problem)
        point = self.inference.run(prior)
        memory.keep(point)
        result = describe(
            point,
            self.engine.tolerance,
            prior.correction,
            jitter=float(prior.jitter),
            clipped=float(prior.clipped),
        )
        evidence = point.log_evidence(prior.correction)
        solved = Solved(problem, self.approximation, self.engine, point.sites, evidence)
        return solved.with_prior(prior), result


def _marginals_of(problem: DuelProblem, posterior: Posterior) -> FullMarginals:
    """q(z) of each site of the problem's graph, without the prior mean, and its exact factors.

    Noise that sites share is as it was before anybody answered.
    """
    graph = problem.graph
    factors, offset = build_factors(problem)
    ends = tf.constant(graph.rows[np.stack([graph.losers, graph.winners], 1)], offset.dtype)
    both = in_chunks(posterior.difference, ends).numpy()
    variance = np.maximum(both[:, 1], 0.0) + (problem.noise - problem.own_noise).numpy()
    return FullMarginals(both[:, 0] - offset.numpy(), variance, factors)


def copied(model: PreferenceGP) -> PreferenceGP:
    """A model with copies of the parameters and sites of another one, of the same duels."""
    made = copy.copy(model)
    made.__dict__.update(copy.deepcopy(parts_of(model)))
    made._sites_memory, made._known = SitesMemory(model.graph.num_sites), None
    made.traced = Traced()
    made.inference.start_from(*model.inference.sites())
    return made


def replace(
    model: DuelGP,
    answers: Duels | None = None,
    *,
    shared: bool = False,
    slices: Any = None,
    **parts: Any,
) -> PreferenceGP:
    """A model with the parameters of another one, in memory or streamed, and other answers.

    Parameters are copies, with transforms, priors and whether they are trainable. Judges that are
    known keep their noise and covariates their variance; new ones begin as in any model. Of a model
    that integrates over its hyperparameters it is the one at the mode, as a warning says.

    :param answers: in place of those of `model`, whose items have the same features.
    :param shared: the parameters are the very same, and not copies, but for those that judges or
        covariates have one each of, where these are others.
    :param slices: of time, in place of those of `model`.
    :param parts: what `PreferenceGP` takes, in place of what `model` has.
    :raises ValueError: a stream without answers, and what `PreferenceGP` raises.
    """
    check_kind("model", model, DuelGP, "a PreferenceGP or a StreamedGP")
    if model.at_mode is not model:
        warnings.warn(of_the_mode("Predictions of what replace has made"), stacklevel=2)
    duels = model.duels if answers is None else answers
    check_kind("answers", duels, Duels, OF_DUELS)
    duels = duels.in_units_of(model.duels)
    if model.centre is not None:
        check_shape("The items of answers", duels.items, "n", len(model.centre))
    tree = parts_of(model) if shared else copy.deepcopy(parts_of(model))
    centre = tree.pop("centre")
    if slices is not None and (term := time_term(tree["kernel"])) is not None:
        term.slices = slices
    if parts.get("noise_variance") is not None and "likelihood" not in parts:
        noise = parts.pop("noise_variance")
        check_number("noise_variance", noise, above=0.0)
        likelihood = tree["likelihood"] = copy.copy(tree["likelihood"])
        likelihood.noise = copy.deepcopy(likelihood.noise)
        likelihood.noise.assign(noise)
    kept: dict[str, Any] = {"approximation": model.approximation}
    if model.duels.held:
        kept["engine"] = model.engine
    if not (parts.get("approximation") or model.approximation).needs_inducing:
        del tree["inducing_variable"]
    made = PreferenceGP(duels, **(tree | kept | parts))
    made.centre = centre
    return made


def _used(
    full: DuelGraph, approximation: Approximation, engine: Engine, in_blocks: bool
) -> DuelGraph:
    """The graph that inference works on.

    :param in_blocks: rows of answers about sets are done in blocks, one for each person.
    """
    graph = approximation.select(full)
    return graph.one_by_one() if engine.one_by_one or in_blocks else graph


def _without_ties(graph: DuelGraph) -> DuelGraph:
    """The graph of the duels that one side won, over the same rows.

    :raises ValueError: there are none.
    """
    events = graph.events
    assert events is not None
    decided = np.flatnonzero(events.kind != TIE)
    together.check(only_ties=not len(decided), margin_only=True)
    return graph.taking(decided, events.totals[decided])
