"""How a fit is made, as one value. Everything is checked here without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.splits import says_itself
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_choice, check_number, is_number
from sparse_prefgp.support.defaults import LEAST_GAIN, SHARE
from sparse_prefgp.support.options import (
    check_fields,
    held_out,
    is_default,
    names,
    of_fitting,
    of_model,
    of_streams,
    option,
    option_of,
    same_as,
)
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import dashed, shortened, spelt_like
from sparse_prefgp.workflow.kernel_names import KernelChoice
from sparse_prefgp.workflow.model_names import (
    AUTO,
    DEFAULT_APPROXIMATION,
    DEFAULT_ENGINE,
    DEFAULT_IN_TIME,
    DEFAULT_KERNEL,
    ITEM_IN_TIME,
    ApproximationChoice,
    Candidate,
    EngineChoice,
)

DEFAULT_ITERATIONS = 100
DEFAULT_SPLIT = "duels"
# What is held out of a fit, and in how many folds of a comparison, unless somebody says.
DEFAULT_SHARE, DEFAULT_FOLDS = 0.2, 5
# For each fit of a comparison.
COMPARE_ITERATIONS = 45
# Of the difference between noisy utilities, whose noise has variance 1 as a rule.
DEFAULT_MARGIN = 0.3
# Whether hyperparameters are integrated out, besides auto.
YES, NO = "yes", "no"
# Of a fit in chunks.
CHUNKS, SUBSET = "chunks", "subset"
# What a field of the settings takes, by its type.
KINDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("bool", lambda value: isinstance(value, bool), "True or False"),
    ("int", lambda value: is_number(value) and float(value).is_integer(), "a whole number"),
    ("float", is_number, "a number"),
    ("str", lambda value: isinstance(value, str), "text"),
    ("Path", lambda value: isinstance(value, Path), "a path"),
    ("Sequence", lambda value: isinstance(value, list | tuple), "a list"),
)


def _number_if_one(text: str) -> int | str:
    """The settings say what is wrong with anything else."""
    try:
        return int(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class FitSettings:
    """How to split, what to fit and how long.

    :raises ValueError: an unknown name, a number that makes no sense, what a stream cannot do, or
        an option of streams without one.
    """

    split: str = held_out(DEFAULT_SPLIT)
    """What to hold out: duels, items, group:COLUMN, time:COLUMN or given:COLUMN (what has 1 there,
    and not what has 0). With --time the last dates."""
    test_fraction: float = held_out(DEFAULT_SHARE, least=0.0, below=1.0)
    """Share to hold out; 0 fits to everything and scores nothing."""
    seed: int = option(0, least=0, most=2**63 - 1)
    """Seed of everything drawn at random: the same seed gives the same numbers."""
    approximation: str | None = of_model()
    """How the covariance is approximated: exact, dtc, vfe, tight-vfe, tight-vfe-rank,
    tight-vfe-logdet, fitc, hetero-vfe, prior-power:P, pitc:BLOCKS, pitc:COLUMN of the duels or
    subset:SIZE; auto compares some on the training duels. By default vfe, or exact for item effects
    alone."""
    kernel: str | None = of_model()
    """Kernel of the utility: se, matern32, matern52, linear, or item (an effect of each item,
    whatever its features). Also additive-se (a sum over the columns), linear(price, age) (of these
    columns alone), iso(se) (one lengthscale for all), ard(se) (the same, and
    from there one for each column), projected(matern52, 4) (of 4 learned
    directions), item-in-time(wiener) (an effect of each item that moves in time), and sums and
    products of all these, such as linear+se or item+item*surface (an effect of each item, and one
    in each context). auto compares some on the training duels. By default linear+matern52, or
    linear where that is as good, above 16 features linear+ard(matern52), above 64 and for vectors
    auto, or item for items without features; with --time linear+item-in-time(wiener), or
    item-in-time(wiener)."""
    inducing: int | str | None = of_model(kind=str, parse=_number_if_one, least=1)
    """Number of inducing inputs; 128, or all distinct items if fewer. auto takes as many as leave
    0.01 of the variance of the duels unexplained at first, auto:SHARE another share.

    m; None is 128, or all distinct training items where they are fewer; `auto`, or `auto:SHARE`, as
    many as leave that share (0.01) of the prior variance of the training duels unexplained under
    the kernel as it starts, up to 1,024.
    """
    fixed_inducing: bool = of_model(False)
    """Leave inducing inputs where k-means puts them."""
    max_iterations: int = of_fitting(DEFAULT_ITERATIONS, least=1)
    """Largest number of optimiser steps."""
    least_gain: float | None = of_fitting(
        LEAST_GAIN, kind=float, parse=lambda number: number or None, above=0.0
    )
    """Stop where ten steps together gain less than this, in nats per duel; 0 continues to the
    optimum or to --max-iterations."""
    max_train: int | None = of_fitting(least=1)
    """Use at most this many training duels: the last ones of a time split, else a random sample."""
    noise_variance: float = of_model(0.5, above=0.0)
    """Variance of the noise of each side of a duel; 0.5 is the standard probit scale."""
    refit: bool = of_fitting(False)
    """After scoring, fit once more, to all duels, and keep that model."""
    starts: int = of_fitting(1, least=1, most=10_000)
    """Fit from this many different starting values and keep the best.

    Of `optimise`; a refit has one start, the fitted model.
    """
    margin: float | None = of_model(above=0.0)
    """By how much a noisy utility must exceed the other for a win; within it a duel is a tie. With
    ties it is learned, from 0.3 by default; without it stays as given."""
    fixed_margin: bool = of_model(False)
    """Keep the margin as given."""
    tie_model: str = of_model("box")
    """box (a tie says that two items are close) or margin-only (ties tell only how often duels are
    tied, and nothing of who is better)."""
    priors: str = of_fitting("weak")
    """weak (weak priors of all that is learned, so that few duels do not make anything certain) or
    none (the evidence alone decides)."""
    integrate: str = of_fitting(AUTO)
    """auto, yes or no: predictions average over what is not known of the hyperparameters; auto does
    so where intervals would be longer by 1 % or more, of duels in memory and without dates."""
    noise_by_group: bool = option(False, flag="noise-by", of_command=False)
    """Learn the noise of each group."""
    leans: str | Sequence[Any] = option((), flag="lean-by", of_command=False)
    """Which labels lean by which covariates, as `Lean` takes them."""
    terms: Sequence[str] = option((), flag="term", of_command=False)
    """Terms of one's own, by name."""
    shared_cuts: bool = of_model(False, needs="noise_by_group")
    """With --noise-by: one margin of ties, and the same cuts of grades, for all judges; by default
    each has a factor of its own."""
    tastes: bool = option(False, flag="person", of_command=False)
    """Learn a taste of each person besides what all prefer."""
    taste: str | None = of_model(needs="tastes")
    """Kernel of each person's own taste, in the words of --kernel; by default the stationary part
    of --kernel, or the linear one, and an effect of each item."""
    dated: bool = option(False, flag="time", of_command=False)
    """Let the utilities of items move in time, unless the kernel says otherwise."""
    engine: str = of_model(DEFAULT_ENGINE)
    """How inference is done: ep, laplace, laplace-logit (logistic noise), variational or
    power-ep:P. What auto compares is fitted by ep.

    Engine of inference, by name; with `laplace-logit` the noise variance is ignored.
    """
    stream: bool = of_streams(False)
    """Read the duels in chunks, for more than fit into memory: --duels is a Parquet file or a
    folder of such files, with columns winner and loser, or winner_x and loser_x for every feature x
    and no --items. A folder is always read so. The last rows are held out. Tables that are not
    Parquet are read whole, split as asked, and the model is computed in chunks."""
    parts: int = of_streams(1, least=1, most=100_000, needs="stream")
    """With --stream: cut the duels into this many parts."""
    scheduler: str | None = of_streams(needs="stream")
    """With --stream: where the parts work, local or the address of a Dask scheduler.

    Where the parts are: `local`, an address, or None for this process.
    """
    gradients: str = of_streams(CHUNKS, needs="stream")
    """With --stream: chunks, exact, or subset:ROWS, of random rows, with inference on all duels at
    the end."""
    polish: int = of_streams(0, least=0, needs="gradients")
    """With --gradients subset: this many exact steps on all duels after it."""
    sites: Path | None = of_streams(needs="stream")
    """With --stream: a new .npy file for two numbers for each duel, in place of memory."""
    local_sweeps: int = of_streams(1, least=0, needs="parts")
    """With --parts: sweeps of a part over its own duels in a round; 0 until it has settled, at most
    50."""
    chunk: int | None = of_streams(least=1, needs="stream")
    """With --stream: duels worked on at a time; by default chosen by sizes and free memory."""
    timeout: float | None = of_streams(above=0.0, needs="scheduler")
    """With --scheduler: seconds after which a part that has not answered is rebuilt on another
    worker; by default ten times what the slowest took in the last round, at least 60."""

    @cached_property
    def inducing_share(self) -> float | None:
        """What `auto` may leave unexplained; None for a number."""
        if not isinstance(self.inducing, str):
            return None
        name, colon, number = self.inducing.strip().lower().partition(":")
        try:
            share = float(number) if colon else SHARE
        except ValueError:
            share = math.nan
        if name != AUTO:
            check_number("inducing", self.inducing, least=1, whole=True, hint=f", or {AUTO}")
        label, hint = f"The share of inducing {self.inducing!r}", f", such as {AUTO}:0.1"
        check_number(label, share, above=0.0, below=1.0, hint=hint)
        return share

    @cached_property
    def kernel_choice(self) -> KernelChoice:
        """That of the settings, by default one for all."""
        usual = DEFAULT_IN_TIME if self.dated else DEFAULT_KERNEL
        return KernelChoice.parse(_named(self.kernel) or usual)

    @cached_property
    def taste_choice(self) -> KernelChoice | None:
        """None without tastes."""
        own = None if self.taste is None else KernelChoice.parse(self.taste)
        return (own or self.kernel_choice.taste) if self.tastes else None

    @cached_property
    def approximation_choice(self) -> ApproximationChoice:
        """That of the settings, by default exact where that costs nothing."""
        exact = self.kernel_choice.only_items or self.kernel_choice.finite_in_time
        usual = "exact" if exact else DEFAULT_APPROXIMATION
        return ApproximationChoice.parse(_named(self.approximation) or usual)

    @cached_property
    def engine_choice(self) -> EngineChoice:
        """That of the settings."""
        return EngineChoice.parse(self.engine)

    def first_margin(self, duels: Any) -> float | None:
        """The margin to start from, for duels of which some may be ties, also as grades."""
        tied = duels.num_ties or (duels.levels is not None and len(duels.levels) % 2)
        return DEFAULT_MARGIN if self.margin is None and tied else self.margin

    def __post_init__(self) -> None:
        if isinstance(self.integrate, bool):
            object.__setattr__(self, "integrate", YES if self.integrate else NO)
        check_choice("tie_model", self.tie_model, ("box", "margin-only"))
        check_choice("priors", self.priors, ("none", "weak"))
        check_choice("integrate", self.integrate, (AUTO, YES, NO))
        self._check_kinds()
        needing_memory = {}  # that were given, and what they are called
        for one in fields(self):
            value = getattr(self, one.name)
            name = (option_of(one).flag or one.name).replace("-", "_")
            if name in together.IN_MEMORY and not is_default(one, value):
                shown = "" if value is True else f" {value}"
                needing_memory[name] = f"the option --{dashed(name)}{shown}"
        together.check(chunks=self.stream, **needing_memory)
        check_fields(self)
        engine, share = self.engine_choice, self.inducing_share
        kernel, approximation = self.kernel_choice, self.approximation_choice
        called, inducing = f"the approximation {approximation}", approximation.needs_inducing
        subset = self.gradients_kind == SUBSET and f"the gradients {self.gradients}"
        together.check(
            stated_split=says_itself(self.split) and f"the split {self.split!r}",
            test_fraction=self.test_fraction not in (0.0, DEFAULT_SHARE)
            and f"the test fraction {self.test_fraction}",
            logistic=engine.name == "laplace-logit" and f"the engine {engine}",
            noise_variance=self.noise_variance != 0.5,
            noise_by_group=self.noise_by_group,
            own_terms=bool(self.terms),
            integrate=self.integrate == YES,
            margin_only=self.tie_model != "box",
            fixed_margin=self.fixed_margin,
            in_time=self.dated and self.is_automatic,
            auto=self.is_automatic,
            effects_of_items_alone=kernel.only_items and f"the kernel {kernel}",
            inducing=inducing and called,
            no_inducing=not inducing and called,
            inducing_variable=self.inducing is not None and f"--inducing {self.inducing}",
            chunks=self.stream,
            auto_inducing=share is not None,
            blocks=approximation.name == "pitc" and called,
            whole=not approximation.summed_over_duels and called,
            gradients_of_a_subset=self.stream and subset,
            sites=self.sites is not None,
            scheduler=self.scheduler is not None,
        )
        if self.taste is not None:
            KernelChoice.parse(self.taste)
        if self.stream and (self.gradients_kind != SUBSET or self.subset is None):
            check_choice("gradients", self.gradients, (CHUNKS, SUBSET), ", subset:ROWS")

    def of(self, table: Duels) -> FitSettings:
        """The settings for a table, whose items may have no features.

        :raises ValueError: a kernel on features that there are not.
        """
        if table.only_contexts and not self.kernel_choice.has_items:
            names = ", ".join(map(repr, table.item_rows.columns if table.item_rows else ()))
            raise together.refused(
                features_of_contexts=f"features of the context alone ({names})",
                kernel_of_features=f"the kernel {self.kernel_choice}",
            )
        if table.has_features:
            return self
        if _named(self.kernel) is not None:
            if self.kernel_choice.only_items and not self.kernel_choice.named_columns:
                return self
            name = f"the kernel {self.kernel_choice}, which looks at features,"
            raise together.refused(items_without_features=True, kernel_of_features=name)
        return replace(self, kernel=ITEM_IN_TIME if self.dated and not self.kernel else "item")

    @property
    def is_automatic(self) -> bool:
        """Whether kernel or approximation are to be chosen."""
        return is_auto(self.kernel) or is_auto(self.approximation)

    # Of streams.

    @property
    def sites_files(self) -> tuple[Path, ...]:
        """The files that the sites are to be in, one for each part."""
        path = self.sites
        if path is None or self.parts == 1:
            return () if path is None else (path,)
        return tuple(path.with_name(f"{path.stem}.{k}{path.suffix}") for k in range(self.parts))

    @property
    def gradients_kind(self) -> str:
        """`chunks` or `subset`."""
        return self.gradients.partition(":")[0]

    @property
    def subset(self) -> int | None:
        """Rows of the subset; None for the default."""
        _, colon, number = self.gradients.partition(":")
        if not colon:
            return None
        hint = ", of rows, such as subset:20000"
        label = f"The number of the gradients {self.gradients!r}"
        rows = int(number) if number.isdecimal() else number
        check_number(label, rows, least=1, whole=True, hint=hint)
        return int(rows)

    def _check_kinds(self) -> None:
        if isinstance(self.sites, str):
            object.__setattr__(self, "sites", Path(self.sites))
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.generic):
                value = value.item()
                object.__setattr__(self, one.name, value)
            may_lack, kinds = "None" in str(one.type), str(one.type)
            fine = (value is None and may_lack) or any(
                word in kinds and test(value) for word, test, _ in KINDS
            )
            if not fine:
                wanted = " or ".join(words for word, _, words in KINDS if word in kinds)
                none = ", or None" if may_lack else ""
                raise ValueError(f"{one.name} is {shortened(value)}; give {wanted}{none}.")
            if "int" in kinds and isinstance(value, float):
                object.__setattr__(self, one.name, int(value))


@dataclass(frozen=True, eq=False)
class CompareSettings:
    """How candidates are compared.

    :raises ValueError: a number that makes no sense.
    """

    folds: int = option(DEFAULT_FOLDS, least=2)
    """Each part is held out once.

    In how many parts the duels, items or groups are cut, each held out once. Every fold counts the
    same in the mean. `time` has one fold, the last 1/folds of the duels, and `given` one of what is
    1 there; their standard errors are over duels (or over people, or the sets that duels come
    from).
    """
    by: str | npt.ArrayLike = option("duels", flag="--split", kind=str)
    """What a fold holds out: duels, items, group:COLUMN, or time:COLUMN (one fold, the last 1/folds
    of the duels) or given:COLUMN (one fold, what has 1 there).

    `duels`, `items` (duels between two items of the held-out part are scored, those between two
    others are fitted to, mixed ones left out), for a table `group:COLUMN`, `time:COLUMN` and
    `given:COLUMN`; or an array with the group of each row, which is `duels.winners`'.
    """
    seed: int = same_as(FitSettings, "seed")
    """Of folds, thinning and first inducing inputs."""
    max_iterations: int = option(COMPARE_ITERATIONS, least=1)
    """Largest number of optimiser steps of each fit.

    Of the optimiser, for each fit; see `optimise`.
    """
    least_gain: float | None = same_as(FitSettings, "least_gain")
    """Of the optimiser, for each fit; see `optimise`."""
    max_train: int | None = option(20_000, kind=int, least=1)
    """Use at most this many training duels for each fit.

    The training duels of a fold are thinned to so many at random, the latest ones for `time`; the
    held-out ones are all scored. None fits to all.
    """
    noise_variance: float = same_as(FitSettings, "noise_variance")
    """sigma² per side of a duel."""
    fixed_inducing: bool = same_as(FitSettings, "fixed_inducing")
    """Leave inducing inputs where k-means puts them."""
    groups: Sequence[Sequence[str]] | None = option(
        kind=str, parse=lambda text: [names(group) for group in text.split(";")]
    )
    """Columns that additive kernels take together: a,b;c,d. Others stay single.

    Columns that additive kernels take together; see `feature_groups`. `Duels` that did not come
    from a table have a group for each column.
    """
    race: bool = option(True, flag="--no-race")
    """Fit also those that are clearly behind on every fold.

    After 15 steps on the first fold, from where the others continue, and after each fold give up
    candidates that are clearly behind, by more than 0.015 nats and 2 standard errors of the paired
    differences between duels; after 15 steps not the one with the highest log evidence of those
    without effects of items whose evidence is exact or a bound.
    """
    leans: str | Sequence[Any] = option((), of_command=False)
    """Which labels lean by which covariates, as `Lean` takes them."""
    enough: int | None = option(least=1)
    """Stop after the fold with which so many duels were scored; by default all folds are.

    Stop after the fold with which so many duels were scored, the second one at least, or once all
    candidates but one were given up, as answers to a question that needs no more; None takes all
    folds.
    """
    time_budget: float | None = option(above=0.0)
    """Start no fit after this many seconds.

    Seconds; no fit begins after them. What is chosen then depends on the machine. Those of fits
    that came from a checkpoint count.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        stated = isinstance(self.by, str) and says_itself(self.by)
        together.check(
            stated_split=stated and f"the split {self.by!r}",
            folds=self.folds != DEFAULT_FOLDS and f"{self.folds} folds",
        )

    def of(self, candidate: Candidate) -> FitSettings:
        """Those of its fits."""
        return FitSettings(
            kernel=candidate.kernel,
            approximation=candidate.approximation,
            max_iterations=self.max_iterations,
            **alike(self),
        )


def alike(settings: FitSettings | CompareSettings) -> Record:
    """What a fit and a comparison that belong together have in common."""
    names = ("seed", "least_gain", "noise_variance", "fixed_inducing", "leans")
    return {name: getattr(settings, name) for name in names}


T = TypeVar("T")


def settings_from(
    kind: type[T],
    settings: T | None,
    options: Record,
    what: str,
    usual: Record | None = None,
    *,
    also: Sequence[str] = (),
) -> T:
    """`settings`, or a value of `kind` made of options by name.

    :param what: they are of, in sentences.
    :param usual: options that differ from the defaults of the fields, unless they are given.
    :param also: other options that there are, in sentences.
    :raises ValueError: an option that there is not, or one along with settings; settings of another
        kind.
    """
    known = [*also, *(one.name for one in fields(cast(Any, kind)))]
    for name in options:
        if name not in known:
            near = spelt_like(name, known)
            guess = f"did you mean {near}? Otherwise " if near else ""
            raise ValueError(
                f"There is no option {name!r} of {what}; {guess}choose from {', '.join(known)}."
            )
    if settings is None:
        return kind(**{**(usual or {}), **options})
    if not isinstance(settings, kind):
        raise ValueError(
            f"settings is a {type(settings).__name__}; give a {kind.__name__}, and other options "
            "by their names."
        )
    if options:
        raise ValueError(
            f"The option {next(iter(options))!r} was given along with settings; give it in these."
        )
    return settings


def is_auto(name: str | None) -> bool:
    """Whether a name is left to be chosen."""
    return name is not None and name.strip().lower() == AUTO


def _named(name: str | None) -> str | None:
    return None if is_auto(name) else name
