"""Candidates (kernel, approximation and m) compared by what they predict for held-out duels.

Everything is checked before TensorFlow is imported for the first fit.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from sparse_prefgp.analysis.metrics import (
    CalibrationBin,
    abstention_curve,
    calibration_bins,
    calibration_error,
    standard_error,
)
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.disk.kept_file import KeptFile
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.defaults import number_of_inducing
from sparse_prefgp.support.plain import Record, plain
from sparse_prefgp.support.randomness import seed_of
from sparse_prefgp.support.words import listing
from sparse_prefgp.tell.result import Figures, Result
from sparse_prefgp.tell.tables import Column, Table, score_text, with_error
from sparse_prefgp.workflow.failures import failures, reason_of
from sparse_prefgp.workflow.finished import (
    MEANINGS,
    FinishedFit,
    FinishedFits,
    FitKey,
    fingerprints_of,
)
from sparse_prefgp.workflow.folds import FoldPlan, plan_folds
from sparse_prefgp.workflow.holdout import Training, fit_model, groups_of
from sparse_prefgp.workflow.kernel_names import FeatureGroup
from sparse_prefgp.workflow.model_names import Candidate
from sparse_prefgp.workflow.settings import CompareSettings, settings_from

# So many nats a duel are nothing, however sure.
NEGLIGIBLE = 1e-4
# A tie costs no more than so many, however rough the standard error is.
MOST_TIED = 0.003
# Steps of the first round, on one fold; and by how many standard errors and nats a candidate is
# behind that is given up, there and after each fold. So few steps tell large differences alone.
FIRST_STEPS, BEHIND_ERRORS, BEHIND_NATS = 15, 2.0, 0.015
# With fewer folds, and normal scores, a standard error over folds is itself off by 1 / sqrt(2
# (folds - 1)) of it or more, half with three, so that errors are over duels.
FEWEST_FOLDS = 5

RULE = (
    "lowest held-out negative log probability; candidates that are behind by no more than one "
    f"standard error of the paired difference and {MOST_TIED:g} nats per duel (or by "
    f"{NEGLIGIBLE:g}) are tied with the best, and of those the simplest is taken: fewest inducing "
    "inputs (exact inference counts the items), then fewest kernel parameters, then first in the "
    "list"
)

CANDIDATES = (
    Column("candidate", "candidate", left=True),
    Column("nlp", "nlp nats ± se", with_error),
    Column("behind", "behind ± se", with_error),
)
COST = (Column("log_evidence_per_duel", "evidence", "z.4f"), Column("seconds", "s", ".0f"))
CERTAINTY = (
    Column("calibration_error", "calibration error", score_text),
    Column("right_1", "right of all", score_text),
    Column("right_0.5", "of the surest half", score_text),
    Column("right_0.1", "of the surest tenth", score_text),
)
# What a candidate has of its folds or answers, a list each.
OF_FOLDS = ("fold_nlp_nats", "reliability", "abstention")
OK, FAILED, BEHIND, NOT_REACHED = "ok", "failed", "behind", "not reached"


@dataclass(frozen=True)
class CandidateScore(Figures):
    """What became of a candidate."""

    also, aside = (
        ("kernel", "approximation", "folds", "calibration_error"),
        ("candidate", "abstention"),
    )

    candidate: Candidate
    status: str
    """`ok` (scored on every fold), `behind` (given up, as `reason` says), `failed` or `not reached`
    (the time was over).
    """
    reason: str
    inducing: int | None
    """m of the first fold, None where there is none."""
    parameters: int
    """Parameters of the kernel."""
    nlp_nats: float
    """Mean negative log probability of held-out duels over folds, in nats per duel, with its
    standard error `nlp_se`, over folds if there are five, else over duels or what they are of.
    """
    nlp_se: float
    difference: float
    """To the best candidate on the folds that both have, with the standard error of the paired
    differences.
    """
    difference_se: float
    log_evidence_per_duel: float
    """Of the training duels (by the sum of weights), mean over folds. All are NaN where nothing is
    known.
    """
    fold_nlp_nats: tuple[float, ...]
    """Negative log predictive of each fold, in nats; of the first round if it was given up then."""
    unconverged: int
    """Folds whose last inference had not converged."""
    seconds: float
    """Of all its fits."""
    reliability: tuple[CalibrationBin, ...] = ()
    """Of its calibration on all folds together; none for answers about sets."""
    abstention: Mapping[float, float] = field(default_factory=dict)
    """By the share of the duels that are answered, the surest ones, the share that is right."""

    @property
    def kernel(self) -> str:
        """Of the candidate."""
        return self.candidate.kernel

    @property
    def approximation(self) -> str:
        """Of the candidate."""
        return self.candidate.approximation

    @property
    def folds(self) -> int:
        """On how many it was scored."""
        return len(self.fold_nlp_nats)

    @property
    def calibration_error(self) -> float:
        """Mean gap between confidence and accuracy; NaN where nothing is known."""
        return calibration_error(self.reliability)

    def to_dict(self) -> Record:
        """Plain values; `candidate` is its kernel, approximation and m."""
        abstention = {f"{share:g}": right for share, right in self.abstention.items()}
        return {"candidate": str(self.candidate), **self.figures(), "abstention": abstention}


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """Candidates, best first, and which one to take."""

    aside = ("scores", "chosen", "best", "linear_probit", "gain", "unit", "rival")

    scores: tuple[CandidateScore, ...]
    """Those with a score first, by it; then the others in the order of the list."""
    chosen: Candidate | None
    best: Candidate | None
    """Taken by `rule`, and the one with the lowest score; None when every candidate failed."""
    reason: str
    """One sentence on the choice."""
    linear_probit: tuple[float, float]
    """Nats a duel of the reference with its standard error."""
    gain: tuple[float, float]
    """By how many nats the chosen candidate is better, with the standard error."""
    folds: int
    description: str
    """How duels were held out."""
    notes: tuple[str, ...]
    """What else to know."""
    seconds: float
    """With those of fits that came from a checkpoint, of which there are `resumed_fits`."""
    resumed_fits: int = 0
    rule: str = RULE
    unit: str = "duel"
    """What one of those that are scored is called."""
    rival: str = "linear probit"
    """What the reference is; a conditional logit where answers about sets are scored."""

    def to_frame(self) -> Any:
        """A data frame with a row for each candidate, and the linear probit at its end."""
        pd = require_pandas()
        rows = [
            {**score.to_dict(), "chosen": score.candidate == self.chosen} for score in self.scores
        ]
        nlp, error = self.linear_probit
        reference = {"candidate": self.rival, "status": "reference", "reason": ""}
        figures = {"nlp_nats": nlp, "nlp_se": error, "folds": self.folds, "chosen": False}
        frame = pd.DataFrame(
            [*rows, {**reference, **figures}],
            columns=[name for name in rows[0] if name not in OF_FOLDS],
        )
        whole = ["inducing", "folds", "parameters", "unconverged"]
        return frame.astype({name: "Int64" for name in whole})

    def to_dict(self) -> Record:
        """All of it in plain values, ready for JSON."""
        nlp, gain = self.linear_probit, self.gain
        return {
            **self.figures(),
            "chosen": None if self.chosen is None else str(self.chosen),
            "best": None if self.best is None else str(self.best),
            "candidates": [score.to_dict() for score in self.scores],
            self._key: plain({"nlp_nats": nlp[0], "nlp_se": nlp[1]}),
            f"gain_on_{self._key}": plain({"nats": gain[0], "se": gain[1]}),
        }

    @property
    def _key(self) -> str:
        return self.rival.replace(" ", "_")

    def table(self, most: int | None = None) -> Table:
        """The candidates, best first, and the reference."""
        return candidates_table(self.to_dict(), self.unit)

    def parts(self, most: int | None = None) -> list[str | Table]:
        """The table, the choice, and what else to know."""
        statuses = [
            f"{one.candidate}: {one.status}, {one.reason}" for one in self.scores if one.reason
        ]
        gain, error = self.gain
        better = (
            f"Held out, it is better than the {self.rival} by {gain:.4f} nats per {self.unit} "
            f"(standard error {error:.4f})."
        )
        return [
            self.table(),
            self.description,
            *statuses,
            self.reason,
            *([better] if gain >= 0.0 else []),  # a note says so where it is worse
            *(f"Note: {note}" for note in self.notes),
            f"The rule: {self.rule}.",
        ]


def candidates_table(figures: Record, unit: str, certainty: bool = False) -> Table:
    """Candidates and the reference.

    :param figures: as `Comparison.to_dict` has them.
    :param unit: what one of those that were scored is called.
    :param certainty: how far each could be trusted, in place of evidence and time.
    """
    rows = []
    for one in figures["candidates"]:
        chosen = one["candidate"] == figures["chosen"]
        right = {f"right_{share}": value for share, value in (one.get("abstention") or {}).items()}
        rows.append({**one, **right, "status": "chosen" if chosen else one["status"]})
    for key in ("linear_probit", "conditional_logit"):
        if key in figures:
            rows.append({"candidate": key.replace("_", " "), **figures[key]})
    for row in rows:
        row["nlp"] = (row["nlp_nats"], row["nlp_se"])
        if "difference" in row:
            row["behind"] = (row["difference"], row["difference_se"])
    more = CERTAINTY if certainty else COST
    title = f"Held-out {unit}s, best first"
    if certainty:
        title = f"What was compared, on {unit}s held out from the training part"
    columns = (*CANDIDATES, *more, Column("status", "", left=True))
    return Table("candidates", title, columns, rows, close=True)


class CompareProgress(NamedTuple):
    """Before each fit: which it is, of how many at most, and how long all took so far."""

    candidate: Candidate
    fold: int
    folds: int
    done: int
    total: int
    seconds: float


def refuse_without_features(duels: Duels) -> None:
    """Refuse a comparison for items of which only one model is to be made.

    :raises ValueError: items without features.
    """
    together.check(comparison=True, items_without_features=not duels.has_features)


def compare(
    candidates: Iterable[Candidate | str],
    duels: Duels,
    settings: CompareSettings | None = None,
    *,
    rng: Generator | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    callback: Callable[[CompareProgress], None] | None = None,
    **options: Any,
) -> Comparison:
    """Score candidates on held-out duels, along with a linear probit, and say which to take.

    On the first fold each candidate makes 15 steps; those that are clearly behind are given up, and
    the others continue from there. Nothing is carried from one fold to another: hyperparameters
    learned with the duels of other folds would have seen the held-out ones. Features that are yet
    to be made are standardised on each fold's training items.

    A candidate that fails stays in the table with the reason.

    :param candidates: at least one, as `Candidate` or as text, `kernel/approximation/m`.
    :param duels: `Duels`, read from a table where `by` names one of its columns; without ties.
        Their weights count in the fits; all groups share one noise. Held-out duels have their
        covariates.
    :param settings: how they are compared; by default made of the options.
    :param rng: of folds, thinning and first inducing inputs, in place of the seed of the settings.
    :param checkpoint: a file of lines of JSON in which finished fits are kept, whole after each.
    :param resume: take those that are there, which must be of the same duels, folds and settings;
        the candidates may be others.
    :param callback: called with a `CompareProgress` before each fit.
    :param options: fields of `CompareSettings`, such as `folds=10`, `by="items"`, `race=False`.
    :return: The table, the choice and why.
    :raises ValueError: no candidates, or one twice; m above the distinct items of the smallest
        training part; more folds than groups, items or duels; a column that is not there; numbers
        that make no sense; ties, of which no side won; items without features; `resume` without a
        place; a checkpoint that is damaged or of something else.
    :raises KeyboardInterrupt: Ctrl-C; the message says what was kept, and where.
    """
    if rng is not None:
        options["seed"] = seed_of(rng)
    settings = settings_from(CompareSettings, settings, options, "a comparison")
    together.check(resume=resume, no_checkpoint=checkpoint is None)
    listed = [c if isinstance(c, Candidate) else Candidate.parse(c) for c in candidates]
    refuse_without_features(duels)
    drawn = default_rng(settings.seed)
    named = [name for candidate in listed for name in candidate.kernel_choice.named_columns]
    named += [name for group in settings.groups or () for name in group]
    duels = duels.keeping_apart(named)
    plan = plan_folds(duels, settings.folds, settings.by, drawn, settings.max_train, settings.leans)
    if settings.enough is not None:
        plan.stop_after(settings.enough)
    _check(listed, plan, settings.groups)
    finished = FinishedFits()
    if checkpoint is not None:
        groups = [
            [(group.name, group.columns) for group in groups_of(plan.train(fold), settings.groups)]
            for fold in plan.folds
        ]
        # What a fit depends on besides its candidate and duels.
        numbers = (settings.seed, settings.max_iterations, float(settings.noise_variance))
        ends = (settings.least_gain, settings.fixed_inducing, groups, *plan.leaning.pairs)
        prints = fingerprints_of(plan, (*numbers, *ends))
        finished = FinishedFits(KeptFile(Path(checkpoint), prints, MEANINGS), resume)
    return _Run(listed, plan, settings, finished, callback).finish()


def _check(
    listed: Sequence[Candidate], plan: FoldPlan, groups: Sequence[Sequence[str]] | None
) -> None:
    """Refuse what no fold can do."""
    if not listed:
        raise ValueError("There are no candidates; give at least one, such as linear+matern52/vfe.")
    parts = [plan.train(fold) for fold in plan.folds]
    distinct = min(len(train.distinct_rows()[0]) for train in parts)
    fewest = min(train.num_duels for train in parts)
    seen: dict[Hashable, Candidate] = {}
    for candidate in listed:
        number, choice = candidate.inducing, candidate.approximation_choice
        column = choice.column is not None and f"the candidate {candidate}"
        together.check(comparison=True, block_column=column)
        if number is not None and number > distinct:
            raise ValueError(
                f"The candidate {candidate} has more inducing inputs than the {distinct:,} "
                f"distinct items of a training part; use at most {distinct}, or the approximation "
                "exact."
            )
        if choice.size is not None and choice.size > fewest:
            raise ValueError(
                f"The candidate {candidate} asks for more than the {fewest:,} duels of a training "
                "part; lower the number, or use exact."
            )
        # A number left out is the same as that number given.
        if choice.needs_inducing:
            number = number_of_inducing(distinct, number)
        key = (candidate.kernel, candidate.approximation, number)
        if key in seen:
            other = "" if seen[key] == candidate else f" (as {seen[key]} too)"
            raise ValueError(
                f"The candidate {candidate} is in the list twice{other}; once is enough."
            )
        seen[key] = candidate
    kernels = [candidate.kernel_choice for candidate in listed]
    additive = any(kernel.is_additive for kernel in kernels)
    together.check(feature_groups=groups is not None, no_additive_kernel=not additive)
    for train in parts:
        if groups is not None:
            groups_of(train, groups)
        for kernel in kernels:
            # What the texts of a fold lack fails there.
            if kernel.named_columns and kernel.lacking(train.transform) is None:
                kernel.check_columns(train.transform, train.covariate_names)


# Fitting.


def fit_candidate(
    candidate: Candidate,
    train: Duels,
    test: Answers,
    *,
    settings: CompareSettings,
    inducing: int | None,
    groups: Sequence[FeatureGroup],
    first: bool = False,
    start: FloatArray | None = None,
) -> FinishedFit:
    """Fit a candidate to training duels, and predict others.

    :param candidate: kernel and approximation.
    :param train: training duels.
    :param test: (k,) duels to be predicted, between items of `train`.
    :param settings: of the comparison.
    :param inducing: m, None where there is none.
    :param groups: of features, for additive kernels.
    :param first: in the first round, where no column gets a lengthscale of its own.
    :param start: the `position` of a fit of the first round, from which it continues; by default it
        begins at starting values.
    :raises ValueError: what model and optimiser raise; a result that is not finite.
    """
    from sparse_prefgp.learning.objective import InMemory

    whole = candidate.kernel_choice
    kernel = whole.first_stage if first else whole
    chosen = replace(settings.of(candidate), kernel=str(kernel), inducing=inducing)
    # Whether it converged is in the result.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        model, report = fit_model(Training(chosen, train, groups=groups), start=start)
        found = model.predict(test).log_first
    evidence = report.log_evidence / model.graph.weight
    if not (np.all(np.isfinite(found)) and math.isfinite(evidence)):
        raise ValueError("A prediction or the evidence is not a finite number.")
    goes_on = first and not (report.converged and kernel == whole)
    position = InMemory(model, list(model.trainable_variables)).get() if goes_on else None
    return FinishedFit(found, evidence, report.inference.converged, position=position)


@dataclass(eq=False)
class _Entry:
    """A candidate while the comparison runs."""

    candidate: Candidate
    status: str = NOT_REACHED
    reason: str = ""
    inducing: int | None = None
    parameters: int = 0
    first: FinishedFit | None = None
    """Of the first round."""
    fits: list[FinishedFit] = field(default_factory=list)
    """Of each fold."""
    seconds: float = 0.0
    cost: int = 0

    @property
    def scored(self) -> list[FinishedFit]:
        """What there are scores of, on the first folds."""
        return self.fits or ([] if self.first is None else [self.first])

    @property
    def values(self) -> list[FloatArray]:
        """Log probabilities of the scored rows of each fold."""
        logs = [fit.log_probabilities for fit in self.scored]
        return [x for x in logs if x is not None]

    @property
    def evidence(self) -> float:
        """A duel, mean over folds."""
        each = [fit.log_evidence_per_duel for fit in self.scored]
        return float(np.mean(each)) if each else math.nan

    def take(self, found: FinishedFit, fold: int, first: bool) -> None:
        """What came of the first round, or of one more fold, numbered from 0."""
        self.seconds += 0.0 if found is self.first else found.seconds
        if found.log_probabilities is None:
            self.status, self.reason = FAILED, f"fold {fold + 1}: {found.reason}"
            return
        self.status = OK
        if first:
            self.first = found
        else:
            self.fits.append(found)


class _Run:
    """One comparison, fold by fold."""

    def __init__(
        self,
        listed: Sequence[Candidate],
        plan: FoldPlan,
        settings: CompareSettings,
        finished: FinishedFits,
        callback: Callable[[CompareProgress], None] | None,
    ) -> None:
        self._started = perf_counter()
        self._entries = [_Entry(candidate) for candidate in listed]
        self._plan, self._settings, self._unit = plan, settings, plan.events.unit
        self._finished, self._callback = finished, callback
        self._probit: list[FloatArray] = []
        self._notes: list[str] = []
        several, steps = len(listed) > 1, settings.max_iterations
        self._in_rounds = settings.race and several and steps > FIRST_STEPS
        self._fits = self._done = 0
        self._total = len(listed) * (len(plan.folds) + self._in_rounds)

    def finish(self) -> Comparison:
        """Fit on all folds, and say what came of it."""
        try:
            self._fit_folds()
        except KeyboardInterrupt as error:
            place = self._finished.kept()
            if place is None:
                raise
            raise KeyboardInterrupt(
                f"Interrupted after {len(self._finished)} fits; they are kept in {str(place)!r}, "
                "and the same call with resume=True resumes from there."
            ) from error
        return self._result()

    @property
    def _elapsed(self) -> float:
        return perf_counter() - self._started

    @property
    def _running(self) -> list[_Entry]:
        return [entry for entry in self._entries if entry.status == OK]

    def _fit_folds(self) -> None:
        folds = len(self._plan.folds)
        if self._in_rounds:
            if not self._fit_fold(0, first=True):
                return
            self._give_up(f"{FIRST_STEPS} steps on the first of {folds} folds", folds, first=True)
        for k in range(folds):
            one_left = len(self._running) == 1 and len(self._entries) > 1
            if one_left and self._probit and self._settings.enough is not None:
                return
            if not self._fit_fold(k):
                return
            if self._settings.race and k + 1 < folds:
                self._give_up(f"{k + 1} of {folds} folds", folds - k - 1)

    def _fit_fold(self, k: int, first: bool = False) -> bool:
        """Fit all that are left; whether there was time for it."""
        fold, budget = self._plan.folds[k], self._settings.time_budget
        train = self._plan.train(fold)
        if len(self._probit) == k:
            from sparse_prefgp.analysis.rivals import conditional_logit, linear_probit

            test, rng = self._plan.events.take(fold.test), default_rng(self._settings.seed)
            sets = test.has_sets or train.events.has_sets
            rival = (conditional_logit if sets else linear_probit)(train, rng=rng)
            self._probit.append(rival.predict(test, train.items).log_first)
        for entry in [e for e in self._entries if e.status in (OK, NOT_REACHED)]:
            if budget is not None and self._elapsed > budget:
                # Only folds that all have count, or the first round; without either, those that
                # it reached.
                for one in self._entries:
                    if one.status == NOT_REACHED:
                        one.reason = f"the {budget:g} s were over"
                    elif k or one.first is not None:
                        one.fits = one.fits[:k]
                self._probit = self._probit[: max(k, 1)]
                self._notes.append(
                    f"The time budget of {budget:g} s ended the comparison after {k} of "
                    f"{len(self._plan.folds)} folds; another machine may choose otherwise."
                )
                return False
            self._fit(entry, train, k, first)
            self._done += 1
        return True

    def _fit(self, entry: _Entry, train: Duels, k: int, first: bool) -> None:
        """Fit a candidate on a fold, unless that has been done or has ended in the first round."""
        candidate, settings = entry.candidate, self._settings
        rows = len(train.distinct_rows()[0])
        lacking = candidate.kernel_choice.lacking(train.transform)
        if lacking is not None:
            entry.take(FinishedFit(None, reason=f"it names {lacking}"), k, first)
            return
        before = None if first or k else entry.first
        if before is not None and before.position is None:
            entry.take(before, k, first)
            return
        kernel, approximation = candidate.kernel_choice, candidate.approximation_choice
        groups = groups_of(train, settings.groups) if kernel.is_additive else ()
        number = None
        if approximation.needs_inducing:
            number = number_of_inducing(rows, candidate.inducing)
        if not entry.values:
            entry.inducing = number
            named = groups_of(train)
            entry.parameters = kernel.num_parameters(train.num_features, groups or named, named)
            entry.cost = number or approximation.size or rows
        begun = 0 if before is None else FIRST_STEPS
        steps = FIRST_STEPS if first else settings.max_iterations
        key = FitKey(candidate.kernel, candidate.approximation, number, k, begun, steps)
        found, folds = self._finished.find(key), self._plan.folds
        if found is not None:
            self._started -= found.seconds
        else:
            if self._callback is not None:
                at = k + 1, len(folds), self._done, self._total, self._elapsed
                self._callback(CompareProgress(candidate, *at))
            started = perf_counter()
            try:
                found = fit_candidate(
                    candidate,
                    train,
                    self._plan.events.take(folds[k].test),
                    settings=replace(settings, max_iterations=steps - begun),
                    inducing=number,
                    groups=groups,
                    first=first,
                    start=None if before is None else before.position,
                )
            except failures() as error:
                found = FinishedFit(None, reason=reason_of(error))
            found = found._replace(seconds=perf_counter() - started)
            self._finished.add(key, found)
        self._fits += 1
        entry.take(found, k, first)

    # Scores.

    def _means(self, values: Sequence[FloatArray]) -> list[float]:
        """Minus the mean over duels of each fold."""
        counts = [self._plan.counts[fold.test] for fold in self._plan.folds]
        return [-float(c @ v / c.sum()) for c, v in zip(counts, values, strict=False)]

    def _mean(self, values: Sequence[FloatArray]) -> tuple[float, float]:
        """Mean over folds of the mean over duels of minus these, and its standard error.

        Over folds; with few of them over groups of their duels, as for a ratio of sums.
        """
        means = self._means(values)
        mean = float(np.mean(means))
        if len(means) >= FEWEST_FOLDS:
            return mean, float(np.std(means, ddof=1) / math.sqrt(len(means)))
        return mean, self._error_over_rows(values)

    def _error_over_rows(self, values: Sequence[FloatArray]) -> float:
        """Standard error of the mean of these over all duels of the folds, by their groups."""
        counts, groups = (self._of_rows(x, values) for x in (self._plan.counts, self._plan.groups))
        return standard_error(np.concatenate(values), counts, groups)

    def _of_rows(self, each: IntArray, values: Sequence[FloatArray]) -> IntArray:
        """Of the scored rows of the folds that there are values of."""
        folds = self._plan.folds[: len(values)]
        return np.concatenate([each[fold.test] for fold in folds])

    def _nlp(self, entry: _Entry) -> float:
        return self._mean(entry.values)[0]

    def _apart(
        self, values: Sequence[FloatArray], others: Sequence[FloatArray]
    ) -> tuple[float, float]:
        """By how much the first predict worse on the folds that both have; the standard error."""
        return self._mean([a - b for a, b in zip(values, others, strict=False)])

    def _give_up(self, where: str, folds_left: int, first: bool = False) -> None:
        """Give up who is clearly behind; after the first round not the one of the best evidence,
        which may have been on its way, where evidence is no bound from above and not about effects
        of the items that are known.

        :param where: after which fits.
        :param folds_left: on which no more is to be fitted.
        """
        running = self._running
        if len(running) < 2:
            return
        best = min(running, key=self._nlp)
        bounds = [
            entry
            for entry in running
            if entry.candidate.approximation_choice.is_bound
            and not entry.candidate.kernel_choice.has_items
        ]
        spared = max(bounds, key=lambda e: e.evidence, default=None) if first else None
        for entry in running:
            apart = [a - b for a, b in zip(entry.values, best.values, strict=True)]
            behind, error = self._mean(apart)[0], self._error_over_rows(apart)
            if behind > max(BEHIND_NATS, BEHIND_ERRORS * error) and entry is not spared:
                entry.status = BEHIND
                entry.reason = (
                    f"by {behind:.4f} nats per {self._unit} (standard error "
                    f"{error:.4f} over {self._plan.se_over}) after {where}, given up"
                )
                self._total -= folds_left

    def _result(self) -> Comparison:
        scored = [e for e in self._entries if e.values]
        good = self._of_no_people([e for e in scored if e.status == OK])
        best = min(good, key=self._nlp, default=None)
        chosen, reason = self._choose(good, best)
        reference = self._mean(self._probit)
        gain = (math.nan, math.nan)
        if chosen is not None:
            # How far the linear probit is behind the chosen candidate.
            gain = self._apart(self._probit, chosen.values)
            if gain[0] < 0.0:
                remedy = "." if chosen.candidate.kernel == "linear" else "; try the kernel linear."
                self._notes.append(
                    f"The {self._rival} predicts better than the chosen candidate, by "
                    f"{-gain[0]:.4f} nats per {self._unit} (standard error "
                    f"{gain[1]:.4f}){remedy}"
                )
        if self._plan.thinned:
            most = max(len(fold.train) for fold in self._plan.folds)
            self._notes.append(
                f"Each fit of the comparison took at most {most:,} training "
                f"{self._plan.events.noun}; up to {self._plan.thinned:,} in a fold were left out."
            )
        number = len(self._probit)
        if number < FEWEST_FOLDS:
            folds = "One fold was" if number == 1 else f"{number} folds were"
            self._notes.append(f"{folds} scored, so standard errors are over {self._plan.se_over}.")
        if self._finished.reused:
            self._notes.append(
                f"{self._finished.reused} of {self._fits} fits came from a checkpoint."
            )
        place = {OK: 0, BEHIND: 1, FAILED: 2, NOT_REACHED: 0}
        scored.sort(key=lambda e: (place[e.status], self._nlp(e)))
        order = [*scored, *(e for e in self._entries if not e.values)]
        return Comparison(
            scores=tuple(self._score(entry, best) for entry in order),
            chosen=None if chosen is None else chosen.candidate,
            best=None if best is None else best.candidate,
            reason=reason,
            linear_probit=reference,
            gain=gain,
            folds=len(self._probit),
            description=self._plan.description,
            notes=tuple(self._notes),
            seconds=self._elapsed,
            resumed_fits=self._finished.reused,
            unit=self._unit,
            rival=self._rival,
        )

    @property
    def _rival(self) -> str:
        return "conditional logit" if self._plan.events.has_sets else "linear probit"

    def _of_no_people(self, good: list[_Entry]) -> list[_Entry]:
        """Those that may be chosen: none that remembers people where others were scored."""
        people = self._plan.described_people
        out = [e for e in good if people and e.candidate.approximation_choice.remembers_people]
        if not out:
            return good
        left = [e for e in good if e not in out]
        self._notes.append(
            f"{listing([str(e.candidate) for e in out])} may predict the {people:,} people well "
            "whose columns both sides share, as it remembers them, and new people badly; "
            + ("others are chosen among." if left else "compare vfe too.")
        )
        return left or good

    def _choose(self, good: list[_Entry], best: _Entry | None) -> tuple[_Entry | None, str]:
        if best is None:
            return None, "No candidate could be scored; the table says why."
        tied = []
        for entry in good:
            behind, error = self._apart(entry.values, best.values)
            if entry is best or behind <= max(min(error, MOST_TIED), NEGLIGIBLE):
                tied.append(entry)
        chosen = min(tied, key=lambda e: (e.cost, e.parameters, self._entries.index(e)))
        nlp = self._nlp(chosen)
        if chosen is best:
            others = len(tied) - 1
            more = f"; {others} tied with it, none simpler" if others else ""
            unit = self._unit
            return chosen, f"{chosen.candidate} predicts best, {nlp:.4f} nats per {unit}{more}."
        behind, error = self._apart(chosen.values, best.values)
        return chosen, (
            f"{chosen.candidate} is taken at {nlp:.4f} nats per {self._unit}: it is "
            f"the simplest of {len(tied)} that are tied, {behind:.4f} (standard error {error:.4f}) "
            f"behind {best.candidate}."
        )

    def _score(self, entry: _Entry, best: _Entry | None) -> CandidateScore:
        values, apart = entry.values, (math.nan, math.nan)
        nlp = self._mean(values) if values else apart
        if entry is best:
            apart = (0.0, 0.0)
        elif values and best is not None:
            apart = self._apart(values, best.values)
        # How far its probabilities can be trusted, over all folds that it was scored on.
        trust: Record = {}
        if values and not self._plan.events.has_sets:
            logs, counts = np.concatenate(values), self._of_rows(self._plan.counts, values)
            trust["reliability"] = calibration_bins(logs, counts=counts)
            trust["abstention"] = abstention_curve(logs, counts)
        same = ("candidate", "status", "reason", "inducing", "parameters", "seconds")
        return CandidateScore(
            **{name: getattr(entry, name) for name in same},
            nlp_nats=nlp[0],
            nlp_se=nlp[1],
            difference=apart[0],
            difference_se=apart[1],
            log_evidence_per_duel=entry.evidence,
            fold_nlp_nats=tuple(self._means(values)),
            unconverged=sum(not fit.converged for fit in entry.scored),
            **trust,
        )
