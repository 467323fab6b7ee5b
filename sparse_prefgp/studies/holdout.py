"""Hold out some duels, fit a model to the rest, and score it beside the baselines.

`prepare` does everything that needs no TensorFlow, so that bad input is found at once.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.baselines import Coin, LinearProbit
from sparse_prefgp.checks import check_least_gain, check_noise_variance
from sparse_prefgp.duels import Duels
from sparse_prefgp.io import DuelTable
from sparse_prefgp.io.files import id_text
from sparse_prefgp.splits import Split, split_columns, split_duels
from sparse_prefgp.studies.choices import (
    ADDITIVE,
    AUTO,
    DEFAULT_APPROXIMATION,
    DEFAULT_ENGINE,
    DEFAULT_KERNEL,
    ApproximationChoice,
    EngineChoice,
    FeatureGroup,
    KernelChoice,
    feature_groups,
)

if TYPE_CHECKING:
    from sparse_prefgp.analysis.scoring import HeldOut, Rows
    from sparse_prefgp.approximations import Approximation
    from sparse_prefgp.models import PreferenceGP
    from sparse_prefgp.parts import StreamedGP
    from sparse_prefgp.selection import AutoInputs, OptimisationReport, Progress
    from sparse_prefgp.selection.checkpoint import Checkpoint

FloatArray = npt.NDArray[np.float64]
Scores = dict[str, dict[str, float | int]]

DEFAULT_INDUCING = 128
DEFAULT_ITERATIONS = 100
# What ten iterations must bring, in nats a duel: that of `optimise`.
LEAST_GAIN = 1e-5
# Of the prior variance of the duels, what `auto` inducing inputs may leave unexplained.
DEFAULT_SHARE = 0.01
# Of the difference between noisy utilities, whose noise has variance 1 as a rule.
DEFAULT_MARGIN = 0.3
MODES = ("nested", "alternated")
# A term of the kernel whose variance is below this share of the noise's plays no part in a fit.
IDLE_SHARE = 1e-3


@dataclass(frozen=True)
class HoldoutSettings:
    """How to split, what to fit and how long.

    kernel, approximation: by name; None is `linear+matern52` and `vfe`, or `item` and `exact` for
    items without features; `item` alone is `exact` by default.
    inducing: m; None is 128, or all distinct training items where they are fewer; `auto`, or
    `auto:SHARE`, as many as leave that share (0.01) of the prior variance of the training duels
    unexplained under the kernel as it starts, up to 1,024.
    fixed_inducing: leave the inducing inputs where k-means puts them.
    least_gain, mode, starts: of `optimise`; a refit has one start, the fitted model.
    max_train: at most this many training duels. refit: fit again on all duels after scoring.
    margin: where learning it starts, for a table with ties by default at 0.3; without ties it stays
    as it is. fixed_margin: it stays in any case. noise_by_group: learn the noise of each group.
    noise_variance: sigma² per side of a duel; 0.5 is the standard probit scale. engine: of
    inference, by name; with `laplace-logit` the noise variance has no say.

    Raises:
        ValueError: an unknown name, or a number that makes no sense.
    """

    split: str = "duels"
    test_fraction: float = 0.2
    seed: int = 0
    approximation: str | None = None
    kernel: str | None = None
    inducing: int | str | None = None
    fixed_inducing: bool = False
    max_iterations: int = DEFAULT_ITERATIONS
    least_gain: float | None = LEAST_GAIN
    max_train: int | None = None
    noise_variance: float = 0.5
    refit: bool = False
    mode: str = MODES[0]
    starts: int = 1
    margin: float | None = None
    fixed_margin: bool = False
    noise_by_group: bool = False
    engine: str = DEFAULT_ENGINE
    inducing_share: float | None = field(init=False, repr=False)
    approximation_choice: ApproximationChoice = field(init=False, repr=False)
    kernel_choice: KernelChoice = field(init=False, repr=False)
    engine_choice: EngineChoice = field(init=False, repr=False)

    def first_margin(self, num_ties: int) -> float | None:
        """The margin to start from, for duels of which so many are ties."""
        return DEFAULT_MARGIN if self.margin is None and num_ties else self.margin

    def __post_init__(self) -> None:
        split_columns(self.split)
        engine = EngineChoice.parse(self.engine)
        if not 0.0 <= self.test_fraction < 1.0:
            raise ValueError(
                f"The test fraction is {self.test_fraction}; give a number of at least 0 and "
                "below 1."
            )
        if self.seed < 0:
            raise ValueError(f"The seed is {self.seed}; give a whole number of at least 0.")
        share = _share(self.inducing) if isinstance(self.inducing, str) else None
        if self.mode not in MODES:
            raise ValueError(f"The mode {self.mode!r} is unknown; choose from {', '.join(MODES)}.")
        if self.mode != MODES[0] and not engine.sweeps_singly:
            raise ValueError(
                f"The mode {self.mode} takes single sweeps of EP, which the engine {engine} does "
                f"not have; use the mode {MODES[0]}, or another engine such as ep."
            )
        for label, value in (
            ("The number of inducing inputs", None if share else self.inducing),
            ("The number of iterations", self.max_iterations),
            ("The largest number of training duels", self.max_train),
            ("The number of starts", self.starts),
        ):
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{label} is {value}; give a whole number of at least 1.")
        check_noise_variance(self.noise_variance)
        check_least_gain(self.least_gain)
        if self.margin is not None and not (self.margin > 0.0 and math.isfinite(self.margin)):
            raise ValueError(f"The margin is {self.margin}; give a positive number, such as 0.3.")
        if engine.name == "laplace-logit" and self.noise_variance != 0.5:
            raise ValueError(
                f"The noise variance {self.noise_variance} has no say with the engine {engine}, "
                "whose noise is logistic; leave it out, or use the engine laplace."
            )
        if engine.name == "laplace-logit" and self.noise_by_group:
            raise ValueError(
                f"Noise by group was asked for, but the engine {engine} has logistic noise, the "
                "same for all; leave it out, or use the engine laplace."
            )
        kernel = KernelChoice.parse(self.kernel or DEFAULT_KERNEL)
        alone = kernel.parts == ("item",)
        default = "exact" if alone else DEFAULT_APPROXIMATION
        approximation = ApproximationChoice.parse(self.approximation or default)
        if alone and (approximation.needs_inducing or self.inducing is not None):
            raise ValueError(
                "The kernel item leaves nothing for inducing inputs; use --approximation exact, "
                "which has none, or a sum such as --kernel linear+item."
            )
        if self.inducing is not None and not approximation.needs_inducing:
            asked = f"{self.inducing} were" if share is None else f"their number ({AUTO}) was"
            raise ValueError(
                f"The approximation {approximation} has no inducing inputs, but {asked} asked for; "
                "leave their number out, or choose another approximation such as vfe."
            )
        object.__setattr__(self, "inducing_share", share)
        object.__setattr__(self, "approximation_choice", approximation)
        object.__setattr__(self, "kernel_choice", kernel)
        object.__setattr__(self, "engine_choice", engine)

    def of(self, table: DuelTable) -> HoldoutSettings:
        """The settings for a table, whose items may have no features.

        Raises:
            ValueError: a kernel on features that there are not.
        """
        if table.has_features:
            return self
        if self.kernel is not None and self.kernel_choice.parts != ("item",):
            raise ValueError(
                f"The kernel {self.kernel_choice} looks at features, but the items have none; "
                "leave it out, for an effect of each item, or give items with features."
            )
        return replace(self, kernel="item")


@dataclass(frozen=True, eq=False)
class Holdout:
    """A table split into duels for training and for testing.

    train: training duels; `train.items` has every item of the table, standardised on the training
    items alone. everything: all duels of the table in the same units. num_inducing: m, None where
    the approximation has no inducing inputs, or where their number is yet to be found.
    """

    settings: HoldoutSettings
    table: DuelTable
    split: Split
    train: Duels
    everything: Duels
    num_inducing: int | None

    @property
    def margin(self) -> float | None:
        """The margin to start from."""
        return self.settings.first_margin(self.table.num_ties)

    @property
    def decided_rows(self) -> npt.NDArray[np.int64]:
        """Test rows that one side won."""
        rows, ties = self.split.test_rows, self.table.ties
        return rows if ties is None else rows[~ties[rows]]

    def counts(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How often each duel in these rows of the table was seen."""
        counts = self.table.counts
        return np.ones(len(rows), dtype=np.int64) if counts is None else counts[rows]

    @property
    def num_train(self) -> int:
        """Training duels, counts included."""
        return self.train.num_duels

    @property
    def num_test(self) -> int:
        """Test duels, counts and ties included."""
        return int(self.counts(self.split.test_rows).sum())

    def test_sides(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Items that won and items that lost, one entry per test row that one side won."""
        rows = self.decided_rows
        return self.table.winners[rows], self.table.losers[rows]

    def test_rows(self, model: PreferenceGP) -> Iterator[Rows]:
        """The test duels as the model takes them, ties too."""
        from sparse_prefgp.analysis.scoring import rows_between
        from sparse_prefgp.models.outcomes import known_labels

        table, rows = self.table, self.split.test_rows
        groups = None
        if model.noise_ratio is not None and table.groups is not None:
            groups = known_labels(model, table.groups[rows])
        ties = None if table.ties is None else table.ties[rows]
        sides = (table.winners[rows], table.losers[rows])
        return rows_between(model.item_inputs(), *sides, self.counts(rows), ties, groups)


def prepare(table: DuelTable, settings: HoldoutSettings, split: Split | None = None) -> Holdout:
    """Split the table, standardise on the training items, and check what can be checked.

    split: how, where that is known already; by default as the settings say.

    Raises:
        ValueError: what `split_duels`, `DuelTable.to_duels` and `HoldoutSettings.of` raise; more
            inducing inputs than distinct training items; a subset larger than the training duels;
            more blocks than distinct pairs; noise by group without groups; only ties in training
            or among the held-out duels.

    Warns:
        UserWarning: features that winner and loser share, which the kernel cannot use.
    """
    if settings.noise_by_group and table.groups is None:
        raise ValueError(
            "Noise by group was asked for, but the duels have no groups; name the column that says "
            "who judged (--noise-by, groups=)."
        )
    settings = settings.of(table)
    _warn_of_idle_context(table, settings)
    if split is None:
        rng = np.random.default_rng(settings.seed)
        split = split_duels(
            table, settings.split, settings.test_fraction, rng, max_train=settings.max_train
        )
    train = table.to_duels(split.train_rows)
    everything = table.to_duels(transform=train.transform)
    if not train.decided.any():
        raise ValueError(
            "All training duels are ties, which say nothing of who is better; give some that one "
            "side won."
        )
    choice = settings.approximation_choice
    if choice.size is not None and choice.size > train.num_duels:
        raise ValueError(
            f"The approximation {choice} asks for more than the {train.num_duels} training duels; "
            "lower the number, or use exact."
        )
    pairs = np.unique(np.sort(np.stack([train.winners, train.losers], 1), 1), axis=0)
    if choice.blocks is not None and choice.blocks > len(pairs):
        raise ValueError(
            f"The approximation {choice} asks for more blocks than the {len(pairs)} distinct pairs "
            "of the training duels; lower the number, or use fitc."
        )
    if choice.column is not None:
        _check_blocks(table, choice.column)
    count = None
    if choice.needs_inducing and settings.inducing_share is None:
        distinct = len(train.distinct_rows()[0])
        asked = settings.inducing
        count = asked if isinstance(asked, int) else min(DEFAULT_INDUCING, distinct)
        if count > distinct:
            raise ValueError(
                f"{count} inducing inputs are more than the {distinct} distinct training items; "
                f"use at most {distinct}, or the approximation exact."
            )
    holdout = Holdout(settings, table, split, train, everything, count)
    if len(split.test_rows) and not len(holdout.decided_rows):
        raise ValueError(
            "All held-out duels are ties, so there is no winner to predict; hold out more, or use "
            "another split."
        )
    return holdout


def _check_blocks(table: DuelTable, column: str) -> None:
    names = list(table.context.columns)
    if column not in names:
        raise ValueError(
            f"The blocks of pitc:{column} are no column of the duels; those are "
            f"{', '.join(map(repr, names)) or 'none'}, or give a number, such as pitc:20."
        )
    missing = np.flatnonzero(table.context[column].isna())
    if missing.size:
        raise ValueError(
            f"Row {missing[0]} of the duels has no {column!r}, which pitc:{column} takes for its "
            "block; fill it in, or give a number of blocks, such as pitc:20."
        )


def _warn_of_idle_context(table: DuelTable, settings: HoldoutSettings) -> None:
    parts = settings.kernel_choice.parts
    if not table.shared or not all(
        p in ("linear", "item") or p.startswith(ADDITIVE) for p in parts
    ):
        return
    names = ", ".join(repr(name) for name in table.shared)
    warnings.warn(
        f"Winner and loser share their {names}, which cancels in the kernel "
        f"{settings.kernel_choice}; use one that lets features act together, such as "
        "linear+matern52.",
        stacklevel=3,
    )


def first_inputs(holdout: Holdout) -> FloatArray | AutoInputs | None:
    """First inducing inputs, k-means centres of the training items; None where there are none.

    Where their number is `auto`, the kernel has its starting values; the `AutoInputs` says why it
    is that number.
    """
    from sparse_prefgp.models import kmeans_inputs
    from sparse_prefgp.selection import auto_inputs

    settings, train = holdout.settings, holdout.train
    rng = np.random.default_rng(settings.seed)
    if settings.inducing_share is not None:
        kernel = settings.kernel_choice.build(train.num_features, _groups(train))
        return auto_inputs("kmeans", train, kernel, rng, share=settings.inducing_share)
    if holdout.num_inducing is None:
        return None
    return kmeans_inputs(train.distinct_rows()[0], holdout.num_inducing, rng)


def fit_model(
    holdout: Holdout,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
    inputs: FloatArray | AutoInputs | None = None,
) -> tuple[PreferenceGP, OptimisationReport]:
    """Fit the model of the settings to the training duels.

    checkpoint: where the optimiser keeps what a killed fit goes on from. inputs: what
    `first_inputs` gives, if that was called already.
    """
    from sparse_prefgp.models import PreferenceGP
    from sparse_prefgp.selection import optimise

    settings, train = holdout.settings, holdout.train
    model = PreferenceGP(
        train,
        settings.kernel_choice.build(train.num_features, _groups(train)),
        approximation=approximation_of(holdout, holdout.split.train_rows),
        inducing_variable=first_inputs(holdout) if inputs is None else inputs,
        engine=settings.engine_choice.build(),
        noise_variance=settings.noise_variance,
        margin=holdout.margin,
        noise_by_group=settings.noise_by_group,
    )
    fix(model, settings)
    return model, optimise(
        model,
        settings.max_iterations,
        callback=callback,
        checkpoint=checkpoint,
        mode=settings.mode,
        starts=settings.starts,
        seed=settings.seed,
        least_gain=settings.least_gain,
    )


def approximation_of(holdout: Holdout, rows: Any = slice(None)) -> Approximation:
    """That of the settings for some rows of the table; blocks may be a column of it."""
    choice = holdout.settings.approximation_choice
    if choice.column is None:
        return choice.build(holdout.settings.seed)
    column = holdout.table.context[choice.column].to_numpy()[rows]
    return choice.build(labels=[id_text(x) for x in column.tolist()])


def refit_model(
    holdout: Holdout,
    model: PreferenceGP,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[PreferenceGP, OptimisationReport]:
    """Fit to all duels, going on from the parameters of a model fitted to the training duels."""
    from sparse_prefgp.models import PreferenceGP
    from sparse_prefgp.selection import optimise

    settings = holdout.settings
    again = PreferenceGP(
        holdout.everything,
        model.kernel,
        approximation=approximation_of(holdout),
        inducing_variable=model.inducing_variable,
        engine=model.engine,
        noise_variance=settings.noise_variance,
        margin=None if model.margin is None else float(model.margin.numpy()),
        noise_by_group=settings.noise_by_group,
    )
    fix(again, settings)
    if again.noise_ratio is not None and model.noise_ratio is not None:
        known = dict(zip(model.duels.group_names or (), model.noise_ratio.numpy(), strict=True))
        names = again.duels.group_names or ()
        again.noise_ratio.assign([known.get(name, 1.0) for name in names])
    return again, optimise(
        again,
        settings.max_iterations,
        callback=callback,
        checkpoint=checkpoint,
        mode=settings.mode,
        least_gain=settings.least_gain,
    )


def predict_held_out(holdout: Holdout, model: PreferenceGP) -> HeldOut:
    """Let the model, the linear probit and the coin predict the test duels.

    With noise by group each has that of its own group; for unknown groups, of which a warning
    tells, probabilities are averaged over the prior.
    """
    from sparse_prefgp.analysis.scoring import COIN, LINEAR_PROBIT, score_rows, unseen_pairs

    train, table = holdout.train, holdout.table
    probit = LinearProbit.of(train, np.random.default_rng(holdout.settings.seed))
    return score_rows(
        model,
        {LINEAR_PROBIT: probit, COIN: Coin()},
        holdout.test_rows(model),
        outcomes=table.num_ties > 0,
        unseen=unseen_pairs(train, *holdout.test_sides()),
    )


def idle_note(names: Sequence[str]) -> str:
    """What to know when terms of the kernel have lost their variance."""
    terms = f"term {names[0]}" if len(names) == 1 else f"terms {', '.join(names)}"
    return (
        f"Nearly no variance is left to the kernel {terms}, which is the same as leaving it out; "
        "another approximation or more inducing inputs may use it."
    )


def fit_figures(
    holdout: Holdout, model: PreferenceGP, report: OptimisationReport
) -> dict[str, Any]:
    """What was fitted and how it went, ready for JSON."""
    from sparse_prefgp.models.checks import lost_effects

    settings = holdout.settings
    # The duels of a subset are all that its evidence is about.
    train, duels = holdout.train, model.num_duels_used
    names = settings.kernel_choice.term_names(train.num_features, _groups(train))
    terms = model.kernel.kernels if len(names) > 1 else [model.kernel]
    variances = {name: term.variance.numpy() for name, term in zip(names, terms, strict=True)}
    return {
        "approximation": str(settings.approximation_choice),
        "engine": str(settings.engine_choice),
        "kernel": str(settings.kernel_choice),
        "kernel_variances": {name: float(np.mean(value)) for name, value in variances.items()},
        "idle_kernel_terms": [
            name
            for name, value in variances.items()
            if np.sum(value) < IDLE_SHARE * settings.noise_variance
        ],
        "inducing": None
        if model.inducing_variable is None
        else int(model.inducing_variable.num_inducing),
        "item_effects_warning": lost_effects(model),
        "fixed_inducing": settings.fixed_inducing,
        "noise_variance": settings.noise_variance,
        "margin": None if model.margin is None else float(model.margin.numpy()),
        "fixed_margin": None if model.margin is None else not model.margin.trainable,
        "noise_ratios": _noise_ratios(model),
        "duels": duels,
        "log_evidence": report.log_evidence,
        "log_evidence_per_duel": report.log_evidence / duels,
        "sweeps": report.sweeps,
        "converged": report.inference.converged,
        "inference": str(report.inference),
        "jitter": report.inference.jitter,
        "clipped": report.inference.clipped,
        "seconds": report.seconds,
        "iterations": report.iterations,
        "resumed_at": report.resumed_at,
        "max_iterations": settings.max_iterations,
        "least_gain": settings.least_gain,
        "optimiser_converged": report.converged,
        "optimiser_message": report.message,
        "limits": list(report.limits),
        "evaluations": report.evaluations,
        "failed_evaluations": report.failed_evaluations,
        "unconverged_evaluations": report.unconverged_evaluations,
        "mode": report.mode,
        "alternated_evaluations": report.alternated_evaluations,
        "setbacks": report.setbacks,
        "starts": [asdict(start) for start in report.starts],
        "kept_start": report.kept,
    }


def _share(text: str) -> float:
    name, colon, number = text.strip().lower().partition(":")
    try:
        share = float(number) if colon else DEFAULT_SHARE
    except ValueError:
        share = math.nan
    if name != AUTO:
        raise ValueError(
            f"The number of inducing inputs is {text!r}; give a whole number of at least 1, or "
            f"{AUTO}."
        )
    if not 0.0 < share < 1.0:
        raise ValueError(
            f"The number of inducing inputs is {text!r}; give {AUTO} a share between 0 and 1, such "
            f"as {AUTO}:0.1, or none."
        )
    return share


def _groups(train: Duels) -> tuple[FeatureGroup, ...] | None:
    """What an additive kernel sums over."""
    return None if train.transform is None else feature_groups(train.transform)


def _noise_ratios(model: PreferenceGP) -> dict[str, Any] | None:
    """By what the noise variances of the groups differ from that of the model, and of how many
    duels each is known."""
    duels = model.duels
    if model.noise_ratio is None or duels.groups is None:
        return None
    ratios = model.noise_ratio.numpy()
    names = [id_text(name) for name in duels.group_names or ()]
    counts = np.bincount(duels.groups, weights=duels.counts, minlength=len(names)).astype(int)
    return {
        "groups": len(ratios),
        "min": float(ratios.min()),
        "median": float(np.median(ratios)),
        "max": float(ratios.max()),
        "each": {
            name: {"ratio": ratio, "duels": count}
            for name, ratio, count in zip(names, ratios.tolist(), counts.tolist(), strict=True)
        },
    }


def fix(model: PreferenceGP | StreamedGP, settings: HoldoutSettings) -> None:
    """What the settings say is not to be learned."""
    import gpflow

    if settings.fixed_inducing and model.inducing_variable is not None:
        gpflow.set_trainable(model.inducing_variable, False)
    if settings.fixed_margin and model.margin is not None:
        gpflow.set_trainable(model.margin, False)
