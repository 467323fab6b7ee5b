"""`--kernel auto` and `--approximation auto`: the choice made with the training duels alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import default_rng

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.splits import Split, says_itself, split_duels
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.defaults import INDUCING
from sparse_prefgp.support.plain import Record
from sparse_prefgp.workflow.comparison import (
    MOST_TIED,
    CompareProgress,
    Comparison,
    compare,
    refuse_without_features,
)
from sparse_prefgp.workflow.folds import plan_folds
from sparse_prefgp.workflow.holdout import Holdout, fit_model
from sparse_prefgp.workflow.in_time import Decided
from sparse_prefgp.workflow.kernel_grammar import DIRECTIONS, Plain
from sparse_prefgp.workflow.kernel_names import (
    MANY_DEFAULT,
    MANY_OWN,
    OWN_VARIANCES,
    KernelChoice,
    default_for,
    feature_groups,
    of_scores,
)
from sparse_prefgp.workflow.model_names import (
    AUTO,
    DEFAULT_APPROXIMATION,
    DEFAULT_KERNEL,
    ApproximationChoice,
    Candidate,
    candidates_from,
)
from sparse_prefgp.workflow.settings import (
    COMPARE_ITERATIONS,
    CompareSettings,
    FitSettings,
    alike,
    is_auto,
)

if TYPE_CHECKING:
    from sparse_prefgp.learning.initial import AutoInputs
    from sparse_prefgp.learning.report import OptimisationReport
    from sparse_prefgp.models import PreferenceGP

# Fewer folds than for a table that a person reads, and no more of them than tell large differences.
FOLDS, ENOUGH = 3, 2_000
# The kernel `linear` is the linear probit itself, with its weights' prior learned: the simple rival
# of whatever else there is, of choices too, as `item` is where items have many votes.
KERNELS = ("linear", "linear+se", "linear+matern52", "se", "matern32", "matern52")
ADDITIVE_KERNEL = "additive-matern52"
# Next to those of `of_scores`, where texts have scores of their words.
SCORED_KERNELS = ("linear", "iso(matern52)")
# What has a lengthscale for each column keeps one for all where evidence does not gain.
MANY_KERNELS = ("linear", "linear+iso(se)", "iso(se)", "iso(matern52)", MANY_OWN)
# `linear` takes the place of the default kernel where this has less than so many nats of evidence
# more, for each parameter more and for each event: half of what a tie may cost on new events, as
# evidence is the mean gain from the first event on. Of fewer than `ENOUGH` events that is nothing.
WORTH_A_PARAMETER, WORTH_AN_EVENT = 1.0, MOST_TIED / 2.0
# Of features that were reduced, and effects of items: what each does best with.
HALF_WAY, OF_ITEMS = "prior-power:0.5", "exact"
# Where items have more than so many votes, on average, and are no more than a model takes, effects
# of each item are tried. They keep learned directions from learning what is special about known
# items (docs/embeddings.md).
MANY_VOTES, MOST_EFFECTS = 20, 5000
# Each group of features costs as much as a kernel of its own.
MAX_GROUPS = 8
APPROXIMATIONS = ("vfe", "fitc")
NUMBER_NOTE = (
    f"Candidates were compared with {INDUCING} inducing inputs, or all distinct items "
    "where they are fewer; the number for the fit is found afterwards."
)
# Up to so many distinct items exact inference costs less than the choice, and up to so many it is
# worth its cost (some minutes) with a kernel or two: inducing inputs can lose what it finds.
EXACT_ITEMS, EXACT_TOO_ITEMS = 300, 1200
EXACT_TOO_KERNELS = ("linear+matern52", "matern52")


class Automatic(NamedTuple):
    """What was chosen, and why."""

    settings: FitSettings
    """Those given, with kernel and approximation by name."""
    comparison: Comparison
    """Of the candidates."""
    reason: str
    """One or two sentences to show."""

    def to_dict(self) -> Record:
        """Plain values for `metrics.json`."""
        return {**self.comparison.to_dict(), "reason": self.reason}


def automatic_candidates(
    table: Duels,
    kernel: str = AUTO,
    approximation: str = AUTO,
    inducing: int | str | None = None,
    transform: FeatureTransform | None = None,
) -> tuple[Candidate, ...]:
    """The candidates for these duels; what is not `auto` stays as it is.

    Kernels: linear, squared exponential, Matern 3/2 and 5/2, linear + squared exponential and
    linear + Matern 5/2, and additive Matern 5/2 where there are 2 to 8 groups of features; where
    items have more than 20 votes each, also effects of items next to the default kernel and, of up
    to 1,200 items, alone, which is exact. Approximations of the others: exact up to 300 distinct
    items, VFE and FITC above, and up to 1,200 also exact with the kernels (linear +) Matern 5/2;
    with the linear kernel and next to effects of items VFE alone, and never FITC where choices
    share columns of people who choose again and again, whom it remembers. With `inducing` given
    never exact; where it is `auto`, to be found for the fit alone, candidates have the usual
    number.

    Of features that were reduced to directions: linear, also in scores of words alone where texts
    have any; one lengthscale for all directions before the first gap in their variances, under the
    half-way approximation `prior-power:0.5`; and a kernel on four learned directions of these,
    where items have more than 20 votes each with an effect of each item, which then are also tried
    alone. The approximation of the others is VFE, unless one is given.

    :param transform: of the items, where that is known.
    :raises ValueError: an unknown name; items without features, or features that cannot be read.
    """
    refuse_without_features(table)
    if transform is None:
        transform = _transform(table)
    number = inducing if isinstance(inducing, int) else None
    given = None if is_auto(approximation) else (approximation,)

    def each_with(kernels: Iterable[str], *approximations: str) -> tuple[Candidate, ...]:
        """Effects of items alone have one that needs no inducing inputs, with which they do not go
        together."""
        found: list[Candidate] = []
        for one in kernels:
            alone = KernelChoice.parse(one).only_items
            names = (OF_ITEMS,) if alone else given or approximations
            found += candidates_from((one,), names, (number,))
        return tuple(found)

    def with_effects(one: str) -> tuple[str, ...]:
        """A kernel with effects of items, and these alone where exact inference is worth its cost;
        none where items have few votes or are too many."""
        items = len(np.unique(table.item[table.given.pairs]))
        votes = float(table.given.sizes @ table.given.totals)
        if votes <= MANY_VOTES * items or items > MOST_EFFECTS:
            return ()
        alone = ("item",) if inducing is None and items <= EXACT_TOO_ITEMS else ()
        return (f"{one}+item", *alone)

    features, reduction = len(transform.feature_names), transform.reduction
    kernels: tuple[str, ...] = (kernel,)
    if is_auto(kernel) and reduction is not None:
        before_gap = features - reduction.size + reduction.before_gap(DIRECTIONS)
        leading = before_gap if before_gap < features else 0
        smooth = str(Plain("matern52", iso=True, leading=leading))
        projected = str(Plain("matern52", directions=min(DIRECTIONS, before_gap), leading=leading))
        return (
            *each_with((*of_scores(transform)[:1], "linear"), DEFAULT_APPROXIMATION),
            *each_with((smooth,), HALF_WAY),
            *each_with(with_effects(projected) or (projected,), DEFAULT_APPROXIMATION),
        )
    if is_auto(kernel):
        several = 2 <= len(feature_groups(transform)) <= MAX_GROUPS
        kernels = (*KERNELS, ADDITIVE_KERNEL) if several else KERNELS
        if transform.scores:
            kernels = (*of_scores(transform), *SCORED_KERNELS)
        elif features > OWN_VARIANCES:
            kernels = MANY_KERNELS
        kernels += with_effects(default_for(transform) or DEFAULT_KERNEL)
    if given:
        return each_with(kernels)
    compared = table.raw.frame.iloc[np.unique(table.given.sides)]
    distinct = len(np.unique(transform.apply(compared), axis=0))
    if inducing is None and distinct <= EXACT_ITEMS:
        return each_with(kernels, OF_ITEMS)
    forgetful = [
        name
        for name in APPROXIMATIONS
        if not (table.described_people and ApproximationChoice.parse(name).remembers_people)
    ]
    found: tuple[Candidate, ...] = ()
    for one in kernels:
        finite = one == "linear" or KernelChoice.parse(one).has_items
        found += each_with((one,), *(forgetful[:1] if finite else forgetful))
    if inducing is None and distinct <= EXACT_TOO_ITEMS:
        worth_it = [k for k in kernels if len(kernels) == 1 or k in EXACT_TOO_KERNELS]
        found += candidates_from(worth_it, (OF_ITEMS,))
    return found


def settled(table: Any, settings: FitSettings) -> FitSettings:
    """The settings with the kernel that the features ask for, where none was named.

    Up to 16 features: as ever. Above: one variance of the linear term, and one lengthscale, from
    whose optimum, but for a fit in chunks, each column gets its own; and `auto` for features that
    were reduced to directions, unless the fit is in chunks. Of texts that are not reduced along
    with vectors `prepare` says it, by `default_for`.

    :param table: what `Sources.read` gives, a table or a stream.
    """
    if settings.kernel is not None or settings.dated:
        return settings
    if not table.held:
        many = table.num_features > OWN_VARIANCES
        return replace(settings, kernel=MANY_DEFAULT) if many else settings
    if not table.has_features or table.only_contexts:
        return settings
    transform = None
    if not table.raw.vectors:  # which are always reduced
        transform = _transform(table, scored=False)
    if transform is None or transform.reduction is not None:
        return replace(settings, kernel=MANY_DEFAULT if settings.stream else AUTO)
    if transform.texts:  # whether they have scores is known when training duels are
        return settings
    return replace(settings, kernel=default_for(transform, settings.stream))


def choose(
    table: Duels,
    settings: FitSettings,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    callback: Callable[[CompareProgress], None] | None = None,
) -> Automatic:
    """Choose kernel and approximation with the training duels of the settings' split.

    The held-out duels of `settings` are never looked at. The training duels are split again in the
    same manner: three folds over duels, items or groups, of which the first two are scored where
    these have 2,000 duels; where a column says what is held out, over items if none is on both
    sides of that, else over duels; for a time split the last third of the training duels is scored
    after a fit to those before.

    :param table: all duels. Ties are left out of the comparison, and groups share one noise in it.
    :param settings: the split, the seed, m, whether inducing inputs stay, the noise, the least gain
        and the most iterations, of which a fit of the comparison takes no more than 45. Fits of the
        comparison are nested, with one start, by EP. Of kernel and approximation one is `auto` or
        both. No kernel is what `default_for` says, else the default; no approximation is what each
        kernel does best with where features were reduced, else the default.
    :param checkpoint: as for `compare`.
    :param resume: as for `compare`.
    :param callback: as for `compare`.
    :raises ValueError: what `compare` and `split_duels` raise; no candidate could be scored.
    """
    refuse_without_features(table)
    outer = split_duels(
        table,
        settings.split,
        settings.test_fraction,
        default_rng(settings.seed),
        max_train=settings.max_train,
    )
    train = table.select(outer.train_rows)
    train = train.replacing(answers=train.given.without_grades())
    if train.given.ties is not None:
        train = train.select(~train.given.ties)
    transform = _transform(train)
    kernel = settings.kernel or default_for(transform) or DEFAULT_KERNEL
    wide = is_auto(kernel) and transform.reduction is not None
    approximation = settings.approximation or (AUTO if wide else DEFAULT_APPROXIMATION)
    comparison = compare(
        automatic_candidates(train, kernel, approximation, settings.inducing, transform),
        train,
        CompareSettings(
            folds=FOLDS,
            by=split_within(table, outer, train, settings),
            enough=ENOUGH,
            max_iterations=min(settings.max_iterations, COMPARE_ITERATIONS),
            **alike(settings),
        ),
        checkpoint=checkpoint,
        resume=resume,
        callback=callback,
    )
    chosen = comparison.chosen
    if chosen is None:
        reasons = {score.reason for score in comparison.scores}
        raise ValueError(
            f"None of the {len(comparison.scores)} candidates could be compared "
            f"({'; '.join(sorted(reasons))}); name a kernel and an approximation."
        )
    gain, error = comparison.gain
    word = "better" if gain >= 0.0 else "worse"
    reason = (
        f"Chosen on the training {table.given.noun} alone: {comparison.reason} That is "
        f"{abs(gain):.4f} nats per {comparison.unit} (standard error {error:.4f}) {word} than the "
        f"{comparison.rival}."
    )
    if table.num_ties:
        reason += " Ties were left out of the comparison."
    if settings.inducing_share is not None:
        reason += f" {NUMBER_NOTE}"
    settings = replace(settings, kernel=chosen.kernel, approximation=chosen.approximation)
    return Automatic(settings, comparison, reason)


def linear_if_as_good(
    holdout: Holdout,
    model: PreferenceGP,
    report: OptimisationReport,
    inputs: FloatArray | AutoInputs | None,
) -> Decided:
    """The fit with the default kernel, or with `linear` where that is as good.

    The linear kernel is the simple rival of most columns. Folds of the training events say little
    of it: where several events are of one choice or person, as good as the same ones are on both
    sides. Evidence does: the default has to be worth a nat for each of its parameters more, or
    .0015 nats an event.

    :param model: fitted with the default kernel, though none was named.
    :param report: what the optimiser said of it.
    :param inputs: from which inducing inputs began.
    :return: what was decided, with nothing to be told where `linear` was not tried: of fits that
        are on their way, of fewer than 2,000 events, with tastes, or where evidence is no bound.
    """
    events = model.graph.weight
    is_bound = holdout.settings.approximation_choice.is_bound
    if not (report.converged and is_bound) or events < ENOUGH or model.terms.taste is not None:
        return Decided(holdout, model, report, {})
    plain = replace(holdout, settings=replace(holdout.settings, kernel="linear"))
    other, said = fit_model(plain, inputs=inputs)  # in silence, after the steps that were shown
    sizes = [sum(x.numpy().size for x in m.kernel.trainable_parameters) for m in (model, other)]
    gain, parameters = report.log_evidence - said.log_evidence, sizes[0] - sizes[1]
    taken = gain < min(WORTH_A_PARAMETER * parameters, WORTH_AN_EVENT * events)
    told = {"kernel": str(holdout.settings.kernel_choice), "gain": gain, "parameters": parameters}
    told["linear_taken"] = bool(taken)
    return Decided(plain, other, said, told) if taken else Decided(holdout, model, report, told)


def _transform(table: Duels, scored: bool = True) -> FeatureTransform:
    """Of the items that are in a duel, as `Duels.transform_of`."""
    return table.transform_of(np.unique(table.given.sides), scored)


def split_within(table: Duels, outer: Split, train: Duels, settings: FitSettings) -> str:
    """How to split the training duels again as they were split from the others."""
    if not says_itself(settings.split):
        return settings.split
    known, asked = (table.given.take(x).sides for x in (outer.train_rows, outer.test_rows))
    if np.isin(asked, known).any():
        return "duels"
    try:
        plan_folds(train, FOLDS, "items", default_rng(settings.seed), None)
    except ValueError:  # too few of them
        return "duels"
    return "items"
