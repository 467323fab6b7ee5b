"""The model: composes a prior, duels, an approximation and an engine; computes nothing itself."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import (
    VFE,
    Approximation,
    DuelPrior,
    DuelProblem,
    Exact,
)
from sparse_prefgp.approximations.base import build_factors, prior_variance
from sparse_prefgp.approximations.in_time import exact_in_time
from sparse_prefgp.covariances.by_features import ByFeatures
from sparse_prefgp.covariances.coefficients import mean_on_rows, on_rows
from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.covariances.item_effect import (
    ItemEffect,
    check_number_of_effects,
    held_effects,
    item_effects,
    numbered_kernel,
)
from sparse_prefgp.covariances.item_in_time import time_term
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.pair_effect import pair_effect
from sparse_prefgp.covariances.projected import seen_by_inducing
from sparse_prefgp.data.answers import TIE
from sparse_prefgp.data.dated import Dated
from sparse_prefgp.data.duels import OF_DUELS, Duels
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.data.joining import joined_duels
from sparse_prefgp.data.leaning import Leaning
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.data.slices import (
    DAYS_A_YEAR,
    check_slices,
    date_text,
    day_of,
    rows_in_force,
)
from sparse_prefgp.engines import Engine, FixedPoint, InferenceResult, ParallelEP, Status
from sparse_prefgp.engines.base import describe
from sparse_prefgp.evidence import (
    FullMarginals,
    InducingValues,
    LowerBounds,
    differentiable_log_evidence,
    lower_bounds,
)
from sparse_prefgp.factors.sites import Sites, totals
from sparse_prefgp.models.base import DuelGP, Fingerprint, Inferred
from sparse_prefgp.models.checks import (
    check_engine,
    check_parts,
    check_size_of_people,
    check_time_memory,
    check_together,
    inducing_points,
    noise_parameter,
    warn_of_cancelling,
)
from sparse_prefgp.models.coefficients import (
    Coefficients,
    covariate_parameter,
    lean_parameters,
    lean_terms,
    people_parameter,
)
from sparse_prefgp.models.describing import described
from sparse_prefgp.models.filtering import Filtering, edges_of, one_pass
from sparse_prefgp.models.inducing_inputs import kmeans_inputs
from sparse_prefgp.models.outcomes import (
    BOX,
    MARGIN_ONLY,
    check_tie_model,
    margin_parameter,
    ratio_parameter,
    scale_parameter,
    step_parameters,
)
from sparse_prefgp.models.pair_posterior import pair_posterior
from sparse_prefgp.models.posterior import (
    Posterior,
    in_chunks,
    posteriors_in_blocks,
)
from sparse_prefgp.models.protocols import SampledWins
from sparse_prefgp.models.sites_memory import SitesMemory
from sparse_prefgp.models.strangers import Strangers
from sparse_prefgp.models.tastes import KnownPeople
from sparse_prefgp.models.time_posterior import TimePosterior
from sparse_prefgp.models.trajectories import Trajectories, trajectories_of
from sparse_prefgp.sampling import PosteriorDraws, SamplingCheck, check_against_sampling
from sparse_prefgp.sampling.people import by_person
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_kind, check_number
from sparse_prefgp.support.defaults import number_of_inducing
from sparse_prefgp.support.shapes import as_written
from sparse_prefgp.support.words import id_text

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


@dataclass(frozen=True, eq=False)
class Solved:
    """Where inference ended: what predictions and bounds are made of."""

    problem: DuelProblem
    prior: DuelPrior
    engine: Engine
    sites: Sites
    point: FixedPoint | None = None
    """What the engine found there; None of a model that was read, which predicts without."""

    @cached_property
    def posterior(self) -> Posterior:
        problem, prior = self.problem, self.prior
        counted = totals(self.sites, prior.factors.counts)
        if prior.in_time is not None:
            return TimePosterior(problem, prior, *counted)
        terms = prior.covariance.predict(*counted)
        pairs = pair_posterior(problem, prior, *counted)
        return Posterior(
            problem.kernel, problem.mean_function, prior.features, terms, pairs, prior.beside
        )

    @cached_property
    def people(self) -> KnownPeople:
        """Of a problem with tastes."""
        counted = totals(self.sites, self.prior.factors.counts)
        return KnownPeople(self.problem, self.prior, *counted)

    @cached_property
    def strangers(self) -> Strangers:
        """People of whom nothing is known, of a problem with tastes."""
        return Strangers.of(self.people)

    @cached_property
    def log_evidence(self) -> float:
        prior, point = self.prior, self.point
        if point is None:
            point = self.engine.at(prior.covariance, prior.factors, self.sites)
        return float(point.log_evidence(prior.correction))


class PreferenceGP(DuelGP[Solved, InferenceResult]):
    """A Gaussian-process utility learned from duels.

    :param duels: `Duels`; t duels between n items with D features.
    :param kernel: any GPflow kernel on D inputs; may be left out for items without features, which
        then have an `ItemEffect()` each.
    :param approximation: `Exact()`, `VFE()`, `FITC()`, …; by default `Exact()` up to 1,000
        distinct items and for item effects alone, and `VFE()` otherwise.
    :param inducing_variable: (m, D) array or GPflow `InducingPoints`, in the units of
        `duels.items`; by default k-means centres, at most 128. Not for `Exact()`.
    :param engine: `ParallelEP()` by default, `SequentialEP()`, `Variational()` or `Laplace()`.
    :param noise_variance: sigma² per side of a duel, not trainable at first, because duels
        determine only its ratio to the kernel variance; 0.5 is the standard probit scale.
    :param mean_function: any GPflow mean function; None is zero.
    :param margin: by how much a utility, noise included, must exceed the other for a win; within
        it the duel is a tie. Needed where there are ties, and then learned from this value
        (`gpflow.set_trainable(model.margin, False)` keeps it); None is not a margin.
    :param noise_by_group: learn for each group of the duels by what it multiplies `noise_variance`,
        `noise_ratio`, one number r each with log r ~ N(0, 1). Predictions for nobody in
        particular are averaged over that prior.
    :param cut_steps: where duels are graded, by how much each cut lies above the one before, the
        margin being the first; K - 1 positive numbers for K levels on either side of a tie, from
        which they are learned, by default 0.7 each. Those next to a grade that nobody used have a
        prior about that, with a warning.
    :param covariate_variance: where duels have covariates, (C,) prior variances of their
        coefficients to begin from, or one for all; by default 0.25 over the mean square of each
        covariate. They are learned, the log of each with a prior N(log of that, 1).
    :param lean_by: "COLUMN:COVARIATE", or several: by the covariate each level j of a column of
        labels (`Duels(labels=)`), such as each judge, leans to a side beyond the common
        coefficient: a number b_j each, `b_j ~ N(0, v)`, with v in `lean_variances`, learned.
    :param cuts_by_group: learn for each group by what it multiplies margin and cuts, `cut_scale`,
        one number s each with log s ~ N(0, 0.5²); averaged over like the noise, jointly.
    :param tie_model: "box": a tie says that two utilities are close. "margin-only": ties tell
        nothing of the utilities, which are learned from the others alone; afterwards
        `learning.ties.fit_tie_margin`, by which `optimise` ends, finds the margin (docs/ties.md).
    :param taste: the kernel of what each person of the duels (`Duels(people=)`) prefers besides
        what all do: `f_u = g + h_u`, `g ~ GP(0, kernel)` shared and `h_u ~ GP(0, taste)`
        independent between people, integrated out. None is one utility for all.
    :param people_variance: where people have features (`Duels(people_features=)`) and tastes, the
        prior variance v of the coefficients of `s_u' W x`, which they then prefer besides, `W_jd ~
        N(0, v)`, for features s_u of a person, less their mean, and x of an item; learned, its log
        with a prior N(log of this, 1), by default 0.25 over what the features make of it.
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
        noise_variance: float = 0.5,
        mean_function: gpflow.functions.MeanFunction | None = None,
        margin: float | None = None,
        noise_by_group: bool = False,
        cut_steps: Any = None,
        cuts_by_group: bool = False,
        tie_model: str = BOX,
        covariate_variance: Any = None,
        lean_by: Any = None,
        taste: gpflow.kernels.Kernel | None = None,
        people_variance: float | None = None,
    ) -> None:
        super().__init__()
        check_kind("duels", duels, Duels, OF_DUELS)
        if kernel is None:
            if duels.num_features:
                raise ValueError(
                    f"The items have {duels.num_features} features, but no kernel was given; give "
                    "one, such as gpflow.kernels.Matern52()."
                )
            kernel = ItemEffect()
        check_parts(kernel, mean_function, approximation or Exact(), engine or ParallelEP(), duels)
        warn_of_cancelling(kernel)
        check_tie_model(tie_model)
        asked: dict[str, Any] = {
            "taste": taste,
            "people": duels.people_names,
            "about": duels.events.about_sets,
            "margin": margin,
            "margin_only": tie_model == MARGIN_ONLY,
            "grades": duels.levels is not None and len(duels.levels) > 3,
            "noise_by_group": noise_by_group,
            "one_noise": not noise_by_group,
            "own_cuts": cuts_by_group,
            "covariate_variance": covariate_variance is not None,
            "people_variance": people_variance is not None,
            "no_tastes_by_features": taste is None or duels.people_features is None,
        }
        check_together(kernel, approximation, engine or ParallelEP(), duels, **asked)
        self.covariate_variance = covariate_parameter(covariate_variance, duels)
        self.leaning = Leaning.of(lean_by, duels.covariate_names, duels.label_names)
        self.lean_variances = lean_parameters(self.leaning, duels)
        pairs = pair_effect(kernel)
        numbered = any(map(item_effects, [kernel, *([taste] if taste else [])]))
        numbered = numbered or pairs is not None
        term, noise = time_term(kernel), noise_parameter(noise_variance)
        self._dated = None
        if term is not None and duels.times is not None:
            term.settle(duels.times, float(np.sqrt(2.0 * noise.numpy())))
            self._dated, numbered = Dated.of(duels, term.slices), True
        full = DuelGraph.from_duels(
            duels, numbered, self.leaning.names(duels.label_names), self._dated
        )
        if term is not None:
            check_time_memory(full, duels, kernel)
        if tie_model == MARGIN_ONLY:
            full = _without_ties(full)
        if approximation is None:
            small = inducing_variable is None and full.num_rows <= EXACT_UP_TO
            small = exact_in_time(kernel) if term is not None else small
            approximation = Exact() if small or feature_part(kernel) is None else VFE()
            check_together(kernel, approximation, engine or ParallelEP(), duels, **asked)
        self.kernel, self.taste = kernel, taste
        self.people_variance = people_parameter(people_variance, duels, taste is not None)
        self.mean_function = mean_function
        self.noise_variance = noise
        self.margin = margin_parameter(margin, duels)
        self.tie_model, self.tie_share = tie_model, None
        if tie_model == MARGIN_ONLY:
            gpflow.set_trainable(self.margin, False)  # no gradient tells of it
        self.cut_steps = step_parameters(cut_steps, duels)
        self.noise_ratio = ratio_parameter(duels) if noise_by_group else None
        self.cut_scale = scale_parameter(duels, cuts_by_group)
        self._check_engine(engine or ParallelEP(), full)
        if taste is not None:
            check_size_of_people(full, duels.people_names or ())
        if approximation.needs_inducing and not approximation.has_blocks:
            check_number_of_effects(
                numbered_kernel(kernel, full.layout.features), full, approximation.name
            )
        if approximation.needs_inducing and inducing_variable is None:
            inducing_variable = _first_inputs(duels, kernel)
        self.inducing_variable = inducing_points(
            approximation, inducing_variable, duels.num_features, duels.items, kernel
        )
        graph = _used(full, approximation, engine or ParallelEP(), taste is not None)
        # Neither these nor the sites are parameters, nor does tf.Module look for any in them.
        self._given = _Given(duels, approximation, full, graph)
        self._engine = engine or ParallelEP()
        self._sites_memory = SitesMemory(graph.num_sites)
        self._warned_about_scale = False
        self.centre = np.mean(duels.items, 0, dtype=np.float64)

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
            left_out = self.duels.num_ties if self.tie_model == MARGIN_ONLY else 0
            return self.duels.num_duels - left_out
        return int(self.graph.weight)

    @property
    def weight_used(self) -> float:
        """As how many duels these count: the sum of their weights, each 1 where none is given."""
        return self.graph.weight

    @property
    def approximation(self) -> Approximation:
        return self._given.approximation

    @property
    def engine(self) -> Engine:
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._check_engine(engine, self.graph)
        if self.graph.noises is not None and engine.one_by_one != self._engine.one_by_one:
            graph = _used(self.all_duels, self.approximation, engine, self.taste is not None)
            self._given = replace(self._given, graph=graph)
            self._sites_memory = SitesMemory(graph.num_sites)
        self._engine, self._known = engine, None

    def _check_engine(self, engine: Engine, graph: DuelGraph) -> None:
        noises = graph.noises
        check_engine(
            engine,
            in_time=self._dated is not None,
            sets=noises is not None,
            best_and_worst_at_once=noises is not None and bool(np.any(noises.own == 0.0)),
            margin_only=self.tie_model == MARGIN_ONLY,
            noise_by_group=self.noise_ratio is not None,
        )

    @property
    def has_item_effect(self) -> bool:
        """Whether the kernel holds an `ItemEffect` or a `PairEffect`, so that inputs may name
        items."""
        return self.row_layout.numbered

    @property
    def pair_share(self) -> float | None:
        """What share of the prior variance of a duel, noise apart, is of its pair (`PairEffect`):
        the average over the duels; None without."""
        effect = pair_effect(self.kernel)
        if effect is None:
            return None
        variance = float(effect.variance.numpy())
        of_items = prior_variance(self.problem()).numpy()
        return float(np.average(variance / (variance + of_items), weights=self.graph.counts))

    @property
    def row_layout(self) -> RowLayout:
        """What the columns of the rows of `graph` are."""
        return self.graph.layout

    @property
    def slices(self) -> Any:
        """The slices of time in which duels are taken together, as `ItemInTime` has them; None
        where utilities do not move."""
        term = time_term(self.kernel)
        return None if term is None else term.slices

    def with_slices(self, slices: Any) -> PreferenceGP:
        """The same model, its duels taken together in other slices of time.

        What was learned on coarse slices holds on finer ones, which follow the latest duels
        closer. Parameters are copies; inference begins from the sites of this model.

        :param slices: as `ItemInTime` takes them.
        :raises ValueError: utilities that do not move in time; what `PreferenceGP` raises.
        """
        self.allow(slices=True)
        made = on_other_duels(self, self.duels, self.engine, slices=check_slices(slices))
        keep_ratios(self, made)
        if self.graph.event_of_duel is not None and made.graph.event_of_duel is not None:
            made.start_from(*(_on_graph(self.graph, made.graph, x) for x in self.sites()))
        return made

    def posterior_in_time(self) -> TimePosterior:
        """`posterior`, with what only utilities in time have: the end, any date, jointly.

        :raises ValueError: utilities that do not move in time.
        """
        self.allow(trajectories=True)
        found = self._inferred().solution.posterior
        assert isinstance(found, TimePosterior)
        return found.with_date(self.date)

    def at_date(self, date: Any) -> PreferenceGP:
        """This model, its utilities being those of a date.

        A view: parameters and what inference found are those of this model, and all that asks for a
        utility, a prediction or a posterior without a date gets that of this one.

        :param date: as `Duels(times=)` has them.
        :raises ValueError: utilities that do not move in time; a date that is none.
        """
        self.allow(date=True)
        found = copy.copy(self)
        found._date = day_of(date)
        return found

    def active_items(self, at: Any = None, within: float = 2.0) -> IntArray:
        """Numbers of the items that are active at a date: from the first duel of each on, until so
        many years after its last one.

        :param at: the date; by default `date`.
        :param within: years.
        :raises ValueError: utilities that do not move in time; a date that is none, or of nobody.
        """
        self.allow(trajectories=True)
        known, date = self._dated, self.date
        assert known is not None
        check_number("active_within", within, least=0.0, hint=", of years")
        if at is not None:
            date = day_of(at)
        there = (known.from_when <= date) & (date <= known.last + within * DAYS_A_YEAR)
        if not there.any():
            end = float(np.nanmax(known.last)) + within * DAYS_A_YEAR
            raise ValueError(
                f"No item is active on {date_text(date)}, from its first duel on until {within:g} "
                f"years after its last one; give a date from {date_text(self.first_date + 1.0)} "
                f"to {date_text(end)}, or more years (active_within=)."
            )
        return np.flatnonzero(there)

    @property
    def first_date(self) -> float:
        """The first day, since 1970, on which an item is active.

        :raises ValueError: utilities that do not move in time.
        """
        self.allow(trajectories=True)
        assert self._dated is not None
        return float(np.nanmin(self._dated.from_when))

    @property
    def row_starts(self) -> FloatArray:
        """(n,) of each row of `duels.items` the day, since 1970, of its first duel; NaN where it
        has none.

        :raises ValueError: utilities that do not move in time.
        """
        self.allow(trajectories=True)
        assert self._dated is not None
        return self._dated.starts

    def rows_at(self, at: Any = None) -> IntArray:
        """Of each item by its number, (I,), its row of `duels.items` at a date: where an item has
        several, that which its latest duel by then had.

        :param at: the date; by default `date`.
        :raises ValueError: utilities that do not move in time; a date that is none.
        """
        day = self.date if at is None else day_of(at)
        return rows_in_force(self.duels.item, self.row_starts, day)

    def moved_in(self, years: float) -> float:
        """Standard deviation of what joins the utility of an item in so many years.

        :raises ValueError: utilities that do not move in time.
        """
        self.allow(trajectories=True)
        term = time_term(self.kernel)
        assert term is not None
        h = term.kernel.observed
        added = np.asarray(term.kernel.added(as_float(np.array([years]))))[0]
        return float(np.sqrt(h @ added @ h))

    def trajectories(self, items: Any, dates: Any, active_within: float = 2.0) -> Trajectories:
        """How utilities of items moved, less the average of the items active at each date.

        Levels alone are not known: only differences are, and their bands are of these. An item with
        several rows is followed through them, by `rows_at`; of items in contexts
        `analysis.history` takes the average.

        :param items: (n,) rows of `duels.items`, each of which stands for its item.
        :param dates: (d,) as `Duels(times=)` has them, ascending.
        :param active_within: years after its last duel for which an item counts as active.
        :raises ValueError: utilities that do not move in time; items in contexts; dates that are
            none, or of nobody.
        """
        self.allow(trajectories=True)
        rows = self.duels.item_rows
        if rows is not None and rows.columns:
            raise ValueError(
                "The items of the model stand in contexts, at which a trajectory is an average; "
                "take spg.analysis.history.history(model, names)."
            )
        given, n = np.asarray(items), self.duels.num_items
        for i in given[(given < 0) | (given >= n)][:1]:
            raise ValueError(f"items has {i}, which is no row of the items; give 0 to {n - 1}.")
        found = trajectories_of(self, self.duels.item[given], dates, active_within)
        return found._replace(items=given)

    def filter(self, duels: Duels | None = None, slices: Any = None) -> Filtering:
        """This model and later duels, in one pass: nothing before is done again.

        Each slice is predicted from those before, inference runs within it, and its sites are kept.
        As good ahead as inference on all duels, at about a millisecond a slice; the past is not
        redrawn and nothing is learned (docs/time.md).

        :param duels: none before the last one of the model. Items are the same by their ids, or
            without ids by features and number. None for the duels of the model themselves, from
            the first on, at its parameters.
        :param slices: of the later duels, as `ItemInTime` takes them; by default as before.
        :raises ValueError: utilities that do not move in time, earlier duels, duels without dates,
            other features, ties that tell only the margin.
        """
        self.allow(filter=True)
        if slices is not None:
            slices = check_slices(slices)
        everything, edges, old = self.duels, slices, 0
        told = [np.zeros(0), np.zeros(0)]
        if duels is not None:
            edges, old = edges_of(self, duels, slices), len(self.duels.rows_given)
            everything = joined_duels(self.duels, duels)
            self._inferred()
            told = [values[self.graph.sites_of_duels] for values in reversed(self.sites())]
        made = on_other_duels(self, everything, self.engine, slices=edges)
        keep_ratios(self, made)
        event, count = made.graph.event_of_duel, made.graph.count_of_duel
        assert event is not None and count is not None

        def total(values: FloatArray, some: slice) -> FloatArray:
            each = count[some] * values
            return np.bincount(event[some], each, made.graph.num_sites).astype(np.float64)

        early, late = slice(0, old), slice(old, None)
        problem = made._frozen_problem()
        prior = made.approximation.prior(problem)
        found = one_pass(
            problem,
            prior,
            made.engine,
            (total(told[0], early), total(told[1], early)),
            total(np.ones(old), early) > 0,
            total(np.ones(len(event) - old), late),
        )
        counts, place, graph = made.graph.counts, event[late], made.graph
        # A tie has its sides in the order of the rows of the graph.
        first = everything.item[everything.given.sides.reshape(-1, 2)[late, 0]]
        turned = graph.rows[graph.winners[place], graph.layout.number] != first
        mean = -(found.mean + np.asarray(prior.offset))[place]
        made.start_from(found.shift / counts, found.precision / counts)
        result = InferenceResult(
            False, found.slices, Status.FILTERED, found.change, 1.0, float(prior.jitter)
        )
        solved = Solved(problem, prior, made.engine, made._sites_memory.sites())
        made._known = Inferred(Fingerprint.of(made), solved, result)
        return Filtering(
            made,
            np.where(turned, -mean, mean),
            found.variance[place],
            found.log_probabilities[place],
            found.log_predictive,
            found.slices,
            found.unsettled,
        )

    def log_evidence(self) -> float:
        """Log evidence in nats, with the approximation's correction, over all duels.

        :raises ValueError: the sites of a filter, at which it is none.
        """
        if self._inferred().result.status is Status.FILTERED:
            raise ValueError(
                "The sites are those of a filter, at which the log evidence is none; look at the "
                "log predictive of the filter, or infer(restart=True) first."
            )
        return super().log_evidence()

    @property
    def row_kernel(self) -> gpflow.kernels.Kernel:
        """The kernel on the rows of `graph`: of items, and of what else their columns say."""
        leans = lean_terms(self.leaning, self.lean_variances, self.duels)
        return on_rows(self.kernel, self.row_layout, self.covariate_variance, leans)

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
            f"{self.graph.num_rows} distinct items)"
        )

    def described(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `save` writes: a description for JSON, and the arrays that it names.

        :raises ValueError: what a saved model cannot hold.
        """
        return described(self)

    # Evidence and training.

    def problem(self) -> DuelProblem:
        """The model before any approximation, in tensors that follow the parameters."""
        return DuelProblem(
            self.graph,
            self.row_kernel,
            mean_on_rows(self.mean_function, self.row_layout),
            tf.convert_to_tensor(self.noise_variance),
            self.inducing_variable,
            None if self.noise_ratio is None else tf.convert_to_tensor(self.noise_ratio),
            self.cuts if self.tie_model == BOX else None,
            self.has_logit_factors,
            cut_scale=None if self.cut_scale is None else tf.convert_to_tensor(self.cut_scale),
            taste=None if self.taste is None else on_rows(self.taste, self.row_layout),
            by_features=self._by_features(),
            centre=self.centre,
        )

    @as_written
    def maximum_log_likelihood_objective(self) -> tf.Tensor:
        """Log evidence with its exact gradient; runs inference inside, from the last sites."""
        self.warn_about_scale()
        prior = self.approximation.prior(self.problem())
        memory = self._sites_memory
        point = self.engine.run(prior.covariance, prior.factors, memory.sites())
        memory.keep(point)
        value = point.log_evidence(prior.correction)
        return differentiable_log_evidence(
            prior, point.sites, point.slopes, point.found.kept, value
        )

    def infer(self, restart: bool = False) -> InferenceResult:
        """Find the sites for the parameters as they are.

        :param restart: forget the sites of earlier calls and begin at zero.
        """
        return self._inferred(restart, warn=False).result

    def lower_bound(self) -> float:
        """Rigorous lower bound of the exact log evidence of all duels, in nats.

        The largest of `lower_bounds().rows`, for the q that inference found. It holds for every
        approximation and engine, converged or not, and makes them comparable on one scale; only
        where exact inference took jitter (`infer().jitter`) it is about the kernel with it.
        (docs/method.md, section 3)
        """
        return self._lower_bounds(self._inferred().solution).value

    def lower_bounds(self) -> LowerBounds:
        """All rigorous lower bounds, and which is the largest.

        :raises ValueError: logit factors, or answers of best and worst at once.
        """
        return self._lower_bounds(self._inferred().solution)

    def _lower_bounds(self, at: Solved) -> LowerBounds:
        self.allow(lower_bounds=True)
        problem, prior, sites = at.problem, at.prior, at.sites
        if prior.blocks is not None and problem.graph.noises is None:
            values = prior.blocks.inducing_values(*totals(sites, prior.factors.counts))
            return lower_bounds(problem, sites, inducing=InducingValues.of(*values))
        everything = None
        if not self.approximation.uses_all_duels:
            everything = _marginals_of(problem._replace(graph=self.all_duels), at.posterior)
        return lower_bounds(problem, sites, everything)

    # Prediction.

    def _shared(self) -> Posterior:
        return self.posterior_in_time() if self._dated is not None else super()._shared()

    def _solution(self) -> Solved:
        return super()._solution() if tf.executing_eagerly() else self._traced()

    @property
    def people(self) -> tuple[Hashable, ...]:
        return (self.duels.people_names or ()) if self.taste is not None else ()

    @cached_property
    def _centred_people(self) -> FloatArray:
        """(K, S) features of `described_people`, less the mean of those of people with duels."""
        features = self.duels.people_features
        assert features is not None
        return np.asarray(features.of(self.described_people) - self._mean_of_people)

    @property
    def described_people(self) -> tuple[Hashable, ...]:
        if self.people_variance is None or self.duels.people_features is None:
            return self.people
        known = set(map(id_text, self.people))
        others = (name for name in self.duels.people_features.names if id_text(name) not in known)
        return self.people + tuple(others)

    @property
    def _mean_of_people(self) -> FloatArray:
        features = self.duels.people_features
        assert features is not None
        return np.asarray(features.of(self.people).mean(0))

    def _known_people(self) -> KnownPeople:
        return self._solution().people

    def posterior_in_block(self, block: Any) -> Posterior:
        """q(f) of items that join a block of `PITC`: they share the block's residuals (PIC).

        `posterior` uses what the inducing values know alone. This adds what the duels of the block
        say besides, so that items of the block, and new ones near them, are predicted as exactly as
        the duels within the block allow; with one block, as by `Exact()`.

        It is computed at every call, at the cost of a sweep. (docs/method.md, section 10)

        :param block: its label, or its number for blocks by k-means (`graph.blocks`).
        :raises ValueError: another approximation, or no such block.
        """
        number = self.approximation.number_of(block, self.graph)
        return self._in_blocks()(number)

    def _in_blocks(self) -> Callable[[int], Posterior]:
        at = self._solution()
        counted = totals(at.sites, at.prior.factors.counts)
        return posteriors_in_blocks(at.problem, at.prior, *counted)

    def _differences_in_blocks(self, pairs: tf.Tensor, blocks: IntArray) -> tf.Tensor:
        """Mean and variance (N, 2) of pairs (N, 2, D), each of which joins a block of `PITC`, by
        its number, at the cost of one sweep; see `posterior_in_block`."""
        joining = self._in_blocks() if np.any(blocks >= 0) else None
        where, found = np.maximum(blocks, -1), np.empty(pairs.shape[:2])
        for block in np.unique(where):
            here = np.flatnonzero(where == block)
            posterior = self.posterior() if joining is None or block < 0 else joining(int(block))
            found[here] = in_chunks(posterior.difference, tf.gather(pairs, here))
        return tf.constant(found)

    def coefficients(self, level: float = 0.9) -> Coefficients:
        """What the duels say of the coefficients of covariates, and of leans by these.

        :param level: of the intervals.
        :raises ValueError: a model without covariates, or a level outside (0, 1).
        """
        return Coefficients.of(self, level)

    # Against the truth.

    def exact_problem(self) -> DuelProblem:
        """All duels under the exact prior, on copies of the parameters as they are.

        Where people have tastes, rows name the person.

        :raises ValueError: the engine has logit factors.
        """
        self.allow(sampling=True)
        problem = self._frozen_problem()._replace(graph=self.all_duels, inducing_variable=None)
        return problem if problem.taste is None else by_person(problem)

    def kernel_inputs(self, items: Any, before: int = 0, people: Any = None) -> tf.Tensor:
        """Items (N, D) as the kernel of `exact_problem` takes them.

        :param before: how many items of the same call come before them; those the model does not
            know are all different.
        :param people: whose utility it is, as for `predict_difference`; all of whom nothing is
            known are one person.
        :raises ValueError: somebody of whom nothing is known, where people have features.
        """
        inputs = self._inputs(items, before)
        numbers = self._person_numbers(people, len(inputs))
        if self.taste is None:
            return inputs
        person = np.full(len(inputs), -1) if numbers is None else numbers
        if self.people_variance is not None and np.any(person < 0):
            raise ValueError(
                "Utilities are drawn of people with known features, but some pairs are somebody's "
                "of whom nothing is known; name a person of each (people=)."
            )
        return tf.concat([inputs, as_float(person)[:, None]], 1)

    def check_against_sampling(
        self,
        Xa: Any = None,
        Xb: Any = None,
        *,
        num_draws: int = 2000,
        rng: np.random.Generator | None = None,
        chains: int = 4,
        draws: PosteriorDraws | None = None,
        people: Any = None,
    ) -> SamplingCheck:
        """How far engine and approximation are from the exact posterior, by draws from it.

        (docs/method.md, section 11)

        :param Xa: (N, D) first items of new pairs to check on besides the model's own.
        :param Xb: (N, D) their second items.
        :param num_draws: of each chain.
        :param rng: of all draws.
        :param chains: how many, at least 2.
        :param draws: in place of rng, what `sample_posterior` drew for another engine on the same
            duels, kernel, mean and noise.
        :param people: whose utility the new pairs are of, as for `predict_difference`.
        :raises ValueError: more than 2,000 duels, draws of another posterior, and what else
            `sample_posterior` raises.
        """
        self.allow(check_against_sampling=True)
        return check_against_sampling(
            self, Xa, Xb, num_draws=num_draws, rng=rng, chains=chains, draws=draws, people=people
        )

    # Inside.

    def _infer(
        self, fingerprint: Fingerprint, restart: bool, watch: Any
    ) -> Inferred[Solved, InferenceResult]:
        self._known = None  # its prior may be as large as the new one: let go of it first
        memory = self._sites_memory
        if restart:
            memory.clear()
        problem = self._frozen_problem()
        prior = self.approximation.prior(problem)
        point = self.engine.run(prior.covariance, prior.factors, memory.sites())
        memory.keep(point)
        result = describe(
            point,
            self.engine.tolerance,
            prior.correction,
            jitter=float(prior.jitter),
            clipped=float(prior.clipped),
        )
        solved = Solved(problem, prior, self.engine, point.sites, point)
        return Inferred(fingerprint, solved, result)

    @as_written  # AutoGraph knows no := and says so at every call
    def _traced(self) -> Solved:
        """The same as part of the graph that is being traced."""
        problem = self.problem()
        prior = self.approximation.prior(problem)
        point = self.engine.run(prior.covariance, prior.factors, self._sites_memory.sites())
        return Solved(problem, prior, self.engine, point.sites)

    def _frozen_problem(self) -> DuelProblem:
        """On copies, so that nothing kept from it changes when a parameter is assigned."""
        return DuelProblem(
            self.graph,
            copy.deepcopy(self.row_kernel),
            mean_on_rows(copy.deepcopy(self.mean_function), self.row_layout),
            tf.constant(self.noise_variance.numpy()),
            copy.deepcopy(self.inducing_variable),
            None if self.noise_ratio is None else tf.constant(self.noise_ratio.numpy()),
            None if self.cuts is None or self.tie_model != BOX else tf.constant(self.cuts.numpy()),
            self.has_logit_factors,
            cut_scale=None if self.cut_scale is None else tf.constant(self.cut_scale.numpy()),
            taste=copy.deepcopy(
                None if self.taste is None else on_rows(self.taste, self.row_layout)
            ),
            by_features=self._by_features(frozen=True),
            centre=self.centre,
        )

    def _by_features(self, frozen: bool = False) -> ByFeatures | None:
        """What features of people say; `frozen`: with the variance as it is."""
        if self.people_variance is None:
            return None
        variance = self.people_variance.numpy() if frozen else self.people_variance
        return ByFeatures(
            self._centred_people,
            len(self.people),
            tf.convert_to_tensor(variance),
            self.duels.num_features,
        )

    def restore(self, nu: np.ndarray, tau: np.ndarray, result: InferenceResult) -> None:
        """Take sites (t,), (t,) and the result that inference once gave, without a sweep.

        :raises ValueError: what `start_from` raises.
        """
        self.start_from(nu, tau)
        problem = self._frozen_problem()
        prior = self.approximation.prior(problem)
        # Predictions need the sites alone; what else is known at them is computed when asked for.
        solved = Solved(problem, prior, self.engine, self._sites_memory.sites())
        self._known = Inferred(Fingerprint.of(self), solved, result)

    def take(self, problem: DuelProblem, other: PreferenceGP) -> None:
        """Predict by this problem at the sites of another model of the same graph."""
        known = other._inferred()
        prior = self.approximation.prior(problem)
        solved = replace(known.solution, problem=problem, prior=prior)
        self._known = Inferred(Fingerprint.of(self), solved, known.result)

    def silence_scale_warning(self) -> None:
        """Whoever frees the scale on purpose need not be warned."""
        self._warned_about_scale = True

    def sites(self) -> tuple[np.ndarray, np.ndarray]:
        """nu and tau of one copy of each site, (t,) each, in the order of `graph`."""
        nu, tau = self._sites_memory.sites()
        return nu.numpy(), tau.numpy()

    def start_from(self, nu: np.ndarray, tau: np.ndarray) -> None:
        """Let the next inference begin from these sites, (t,) each, in the order of `graph`.

        :raises ValueError: of another length, not finite, or a negative tau.
        """
        self._sites_memory.start_from(nu, tau)
        self._known = None

    def last_change(self) -> float:
        """Largest change of the last inference, within `training_loss` too."""
        return float(self._sites_memory.change)

    def total_sweeps(self) -> int:
        """Sweeps of all inference on this model so far."""
        return int(self._sites_memory.sweeps)

    def warn_about_scale(self) -> None:
        """Once for each model."""
        if self.scale_is_free() and not self._warned_about_scale:
            self._warned_about_scale = True
            warnings.warn(
                "Kernel variance and noise variance are both trainable, but duels determine only "
                "their ratio; fix one with gpflow.set_trainable, or give one a prior.",
                stacklevel=3,
            )


def _marginals_of(problem: DuelProblem, posterior: Posterior) -> FullMarginals:
    """q(z) of each site of the problem's graph, without the prior mean, and its exact factors.

    Noise that sites share is as it was before anybody answered.
    """
    graph = problem.graph
    factors, offset = build_factors(problem, problem.own_noise)
    ends = tf.constant(graph.rows[np.stack([graph.losers, graph.winners], 1)], offset.dtype)
    both = in_chunks(posterior.difference, ends).numpy()
    variance = np.maximum(both[:, 1], 0.0) + (problem.noise - problem.own_noise).numpy()
    return FullMarginals(both[:, 0] - offset.numpy(), variance, factors)


def on_other_duels(
    model: DuelGP[Any, Any],
    duels: Duels,
    engine: Engine,
    approximation: Approximation | None = None,
    shared: bool = False,
    slices: Any = None,
) -> PreferenceGP:
    """A model of these duels with the parameters of another one, in memory or streamed.

    :param approximation: in place of that of `model`.
    :param shared: the parameters are the very same, and not copies.
    :param slices: of time, in place of those of `model`.
    """
    given = (
        model.kernel,
        model.inducing_variable,
        model.mean_function,
        model.noise_variance,
        model.margin,
        model.cut_steps,
        model.covariate_variance,
        model.lean_variances,
        model.taste,
        model.people_variance,
    )
    kernel, inducing, mean_function, noise, margin, steps, covariate, leans, taste, people = (
        given if shared else copy.deepcopy(given)
    )
    if slices is not None and (term := time_term(kernel)) is not None:
        term.slices = slices
    made = PreferenceGP(
        duels,
        kernel,
        approximation=model.approximation if approximation is None else approximation,
        inducing_variable=inducing,
        engine=engine,
        mean_function=mean_function,
        margin=None if margin is None else 1.0,  # its own, below
        covariate_variance=None if covariate is None or duels.covariate_squares is None else 1.0,
        noise_by_group=model.noise_ratio is not None,
        cuts_by_group=model.cut_scale is not None,
        tie_model=model.tie_model,
        lean_by=model.leaning.pairs,
        taste=taste,
        people_variance=None if people is None or duels.people_features is None else 1.0,
    )
    # With their transforms, priors and whether they are trainable.
    made.noise_variance, made.margin = noise, margin
    if len(made.cut_steps) == len(steps):
        made.cut_steps = steps
    if covariate is not None:
        made.covariate_variance, made.lean_variances = covariate, leans
    if made.people_variance is not None and people is not None:
        made.people_variance = people
    made.tie_share, made.centre = copy.deepcopy(model.tie_share), model.centre
    return made


def _on_graph(old: DuelGraph, new: DuelGraph, values: FloatArray) -> FloatArray:
    """Values of the sites of a graph as those of another one of the same duels: where it takes
    more duels together, of the last of these."""
    found = np.zeros(new.num_sites)
    found[new.sites_of_duels] = values[old.sites_of_duels]
    return found


def keep_ratios(old: DuelGP[Any, Any], new: PreferenceGP) -> None:
    """Ratios and scales of the old groups and their priors; new groups begin at 1."""
    for name in ("noise_ratio", "cut_scale"):
        before, after = getattr(old, name), getattr(new, name)
        if before is None or after is None:
            continue
        known = dict(zip(old.duels.group_names or (), before.numpy(), strict=True))
        after.assign([known.get(group, 1.0) for group in new.duels.group_names or ()])
        after.prior, after.prior_on = before.prior, before.prior_on
        gpflow.set_trainable(after, before.trainable)


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


def _first_inputs(duels: Duels, kernel: gpflow.kernels.Kernel) -> FloatArray:
    rows = seen_by_inducing(kernel, duels.distinct_rows()[0])
    return kmeans_inputs(rows, number_of_inducing(len(rows)), np.random.default_rng(0))
