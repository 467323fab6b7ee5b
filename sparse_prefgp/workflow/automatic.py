"""`--kernel auto` and `--approximation auto`: the choice made with the training duels alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.splits import says_itself, split_duels
from sparse_prefgp.io import DuelTable
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.defaults import INDUCING
from sparse_prefgp.workflow.comparison import (
    CompareProgress,
    Comparison,
    compare,
    refuse_without_features,
)
from sparse_prefgp.workflow.folds import plan_folds
from sparse_prefgp.workflow.kernel_grammar import DIRECTIONS, Plain
from sparse_prefgp.workflow.kernel_names import (
    MANY_DEFAULT,
    OWN_VARIANCES,
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
    is_auto,
)

# Fewer folds than for a table that a person reads: the choice is between large differences.
FOLDS = 3
# The kernel `linear` is the linear probit itself, with its weights' prior learned.
KERNELS = ("linear", "linear+se", "linear+matern52", "se", "matern32", "matern52")
ADDITIVE_KERNEL = "additive-matern52"
# Next to those of `of_scores`, where texts have scores of their words.
SCORED_KERNELS = ("linear", "linear+iso(matern52)", "iso(matern52)")
MANY_KERNELS = (
    *("linear", "linear+iso(se)", "linear+iso(matern52)", "iso(se)", "iso(matern52)"),
    "linear+ard(matern52)",
)
# What is compared for features that were reduced, and with what each does best.
WIDE_APPROXIMATIONS = {"iso(matern52)": "prior-power:0.5"}
# Directions are learned from the votes on each item, not from items: where there are more of these
# than so many, an effect of each item keeps them from learning its quirks (docs/embeddings.md).
MANY_VOTES = 20
# Of the choice among these: a step or so from the start tells them apart.
WIDE_ITERATIONS, WIDE_FOLDS, WIDE_SCORED = 15, 5, 2_000
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


@dataclass(frozen=True, eq=False)
class Automatic:
    """What was chosen, and why."""

    settings: FitSettings
    """Those given, with kernel and approximation by name."""
    comparison: Comparison
    """Of the candidates."""
    reason: str
    """One or two sentences to show."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `metrics.json`."""
        return {**self.comparison.to_dict(), "reason": self.reason}


def automatic_candidates(
    table: DuelTable,
    kernel: str = AUTO,
    approximation: str = AUTO,
    inducing: int | str | None = None,
) -> tuple[Candidate, ...]:
    """The candidates for these duels; what is not `auto` stays as it is.

    Kernels: linear, squared exponential, Matern 3/2 and 5/2, linear + squared exponential and
    linear + Matern 5/2, and additive Matern 5/2 where there are 2 to 8 groups of features.
    Approximations: exact up to 300 distinct items, VFE and FITC above, and up to 1,200 also exact
    with the kernels (linear +) Matern 5/2; with the linear kernel VFE alone, since both are exact
    there, and never FITC where choices share columns of people who choose again and again, whom it
    remembers. With `inducing` given never exact; where it is `auto`, to be found for the fit alone,
    candidates have the usual number.

    :raises ValueError: an unknown name; items without features, or features that cannot be read.
    """
    refuse_without_features(table)
    transform = _transform(table, np.arange(table.num_rows))
    return _candidates(table, transform, kernel, approximation, inducing)


def _candidates(
    table: DuelTable,
    transform: FeatureTransform,
    kernel: str,
    approximation: str,
    inducing: int | str | None,
) -> tuple[Candidate, ...]:
    kernels: tuple[str, ...] = (kernel,)
    number = inducing if isinstance(inducing, int) else None
    if is_auto(kernel) and transform.reduction is not None:
        return wide_candidates(table, transform, approximation, number)
    if is_auto(kernel) and transform.scores:
        kernels = (*of_scores(transform), *SCORED_KERNELS)
    elif is_auto(kernel) and len(transform.feature_names) > OWN_VARIANCES:
        kernels = MANY_KERNELS
    elif is_auto(kernel):
        several = 2 <= len(feature_groups(transform)) <= MAX_GROUPS
        kernels = (*KERNELS, ADDITIVE_KERNEL) if several else KERNELS
    if not is_auto(approximation):
        return candidates_from(kernels, (approximation,), (number,))
    compared = table.items.iloc[np.unique(table.events.sides)]
    distinct = len(np.unique(transform.apply(compared), axis=0))
    if inducing is None and distinct <= EXACT_ITEMS:
        return candidates_from(kernels, ("exact",))
    known = tuple(
        name
        for name in APPROXIMATIONS
        if not (table.described_people and ApproximationChoice.parse(name).remembers_people)
    )
    found = candidates_from(kernels, known, (number,))
    found = tuple(c for c in found if c.kernel != "linear" or c.approximation == "vfe")
    if inducing is None and distinct <= EXACT_TOO_ITEMS:
        worth_it = tuple(k for k in kernels if len(kernels) == 1 or k in EXACT_TOO_KERNELS)
        found += candidates_from(worth_it, ("exact",))
    return found


def wide_candidates(
    table: DuelTable,
    transform: FeatureTransform,
    approximation: str = AUTO,
    inducing: int | None = None,
) -> tuple[Candidate, ...]:
    """The candidates for features that were reduced to directions.

    Linear, also in scores of words alone where texts have any; one lengthscale for all directions,
    under the half-way approximation `prior-power:0.5`; and a kernel on four learned directions of
    those before the first gap in their variances, with an effect of each item where items have more
    than 20 votes each. The approximation of the others is VFE, unless one is given.

    :param table: training duels.
    :param transform: of their items.
    """
    reduction = transform.reduction
    assert reduction is not None
    own = len(transform.feature_names) - reduction.size
    found = Plain("matern52", directions=min(DIRECTIONS, own + reduction.size))
    first = own + reduction.before_gap(DIRECTIONS)
    if first < own + reduction.size:
        found = replace(found, leading=first)
    votes = 2.0 * float(table.events.totals.sum()) / len(np.unique(table.sides()))
    projected = f"{found}+item" if votes > MANY_VOTES else str(found)
    kernels = (*of_scores(transform)[:1], "linear", "iso(matern52)", projected)
    return tuple(
        candidate
        for kernel in kernels
        for candidate in candidates_from(
            (kernel,),
            (WIDE_APPROXIMATIONS.get(kernel, "vfe") if is_auto(approximation) else approximation,),
            (inducing,),
        )
    )


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
    if not isinstance(table, DuelTable):
        many = table.num_features > OWN_VARIANCES
        return replace(settings, kernel=MANY_DEFAULT) if many else settings
    if not table.has_features or table.only_contexts:
        return settings
    transform = None if table.vectors else _transform(table)  # vectors are always reduced
    if transform is None or transform.reduction is not None:
        return replace(settings, kernel=MANY_DEFAULT if settings.stream else AUTO)
    if transform.texts:  # whether they have scores is known when training duels are
        return settings
    return replace(settings, kernel=default_for(transform, settings.stream))


def choose(
    table: DuelTable,
    settings: FitSettings,
    *,
    kernel: str | None = AUTO,
    approximation: str | None = AUTO,
    time_budget: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    callback: Callable[[CompareProgress], None] | None = None,
) -> Automatic:
    """Choose kernel and approximation with the training duels of the settings' split.

    The held-out duels of `settings` are never looked at. The training duels are split again in the
    same manner: three folds over duels, items or groups, over duels too where a column says what is
    held out; for a time split the last third of the training duels is scored after a fit to those
    before. Of features that were reduced, five folds over items, as what is learned of directions
    is to hold for new items; folds end when 2,000 duels were scored, and fits after 15 steps.

    :param table: all duels. Ties are left out of the comparison, and groups share one noise in it.
    :param settings: the split, the seed, m, whether inducing inputs stay, the noise, the least gain
        and the most iterations, of which a fit of the comparison takes no more than 60. Fits of the
        comparison are nested, with one start, by EP.
    :param kernel: `auto`, or what is given; None is what `default_for` says, else the default.
    :param approximation: `auto`, or what is given; None is what each kernel does best with where
        features were reduced, else the default.
    :param time_budget: as for `compare`.
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
        np.random.default_rng(settings.seed),
        max_train=settings.max_train,
    )
    train = table.select(outer.train_rows).without_grades()
    if train.ties is not None:
        train = train.select(~train.ties)
    transform = _transform(train, np.arange(train.num_rows))
    if kernel is None:
        kernel = default_for(transform) or DEFAULT_KERNEL
    wide = is_auto(kernel) and transform.reduction is not None
    if approximation is None:
        approximation = AUTO if wide else DEFAULT_APPROXIMATION
    folds, by, most = FOLDS, settings.split, COMPARE_ITERATIONS
    if says_itself(settings.split):
        by = "duels"
    if wide:
        folds, most = WIDE_FOLDS, WIDE_ITERATIONS
        by = "items" if _parts_items(train, folds, settings.seed) else by
    comparison = compare(
        _candidates(train, transform, kernel, approximation, settings.inducing),
        train,
        CompareSettings(
            folds=folds,
            by=by,
            enough=WIDE_SCORED if wide else None,
            seed=settings.seed,
            max_iterations=min(settings.max_iterations, most),
            least_gain=settings.least_gain,
            noise_variance=settings.noise_variance,
            fixed_inducing=settings.fixed_inducing,
            leans=settings.leans,
            time_budget=time_budget,
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
        f"Chosen on the training {table.events.noun} alone: {comparison.reason} That is "
        f"{abs(gain):.4f} nats per {comparison.unit} (standard error {error:.4f}) {word} than the "
        f"{comparison.rival}."
    )
    if table.num_ties:
        reason += " Ties were left out of the comparison."
    if settings.inducing_share is not None:
        reason += f" {NUMBER_NOTE}"
    settings = replace(settings, kernel=chosen.kernel, approximation=chosen.approximation)
    return Automatic(settings, comparison, reason)


def _transform(table: DuelTable, told: IntArray | None = None) -> FeatureTransform:
    """Of the items that are in a duel.

    :param told: training rows, of which texts have scores of their words.
    """
    return table.transform_of(np.unique(table.events.sides), told)


def _parts_items(table: DuelTable, folds: int, seed: int) -> bool:
    """Whether there are duels to fit to and to score in each of so many parts of the items."""
    try:
        plan_folds(table, folds, "items", np.random.default_rng(seed), None)
    except ValueError:
        return False
    return True
