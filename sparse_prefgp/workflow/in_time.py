"""What a fit of duels with dates decides with the training duels alone: in which slices of time
they are taken together, by which kernel utilities move, and whether newcomers come in at a level of
their own."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparse_prefgp.data.answers import TIE
from sparse_prefgp.data.slices import AUTO, DAYS_A_YEAR, SLICES, date_text
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.plain import Record
from sparse_prefgp.workflow.holdout import FitCallbacks, Holdout
from sparse_prefgp.workflow.kernel_grammar import Moving

if TYPE_CHECKING:
    from sparse_prefgp.covariances.markov import MarkovKernel
    from sparse_prefgp.learning.report import OptimisationReport, Progress
    from sparse_prefgp.models import PreferenceGP

# Nats of evidence for which another kernel, or a coefficient more, is taken.
WORTH = 2.0
# How often slices are asked for again with what was learned.
TIMES_AGAIN = 2
# A kernel is tried for so many steps, and from the second number on for fewer, where gains like the
# last one would not do.
TRIAL_STEPS, TRIAL_LEAST = 10, 3
# Of a Wiener process that hardly moves, a year: so that no lengthscale is endless.
LEAST_RATE = 1e-4
# The last share of the training duels, at which an entry level has to be better too.
LAST = 0.2
WIENER = "wiener"
# What is tried after it, in this order.
OTHERS = ("matern12", "constant+matern12")
# Of two numbers an item a sweep costs six times as much, and form of weeks is lost in slices of a
# year: tried on so many of the last duels, on slices as fine as these, and between so many items
# that have most duels, which tell most of form.
SLOW, MOST_TRIED, TRIAL_SLICES, TRIAL_ITEMS = ("constant+matern12",), 1500, "quarter", 200


class Decided(NamedTuple):
    """What was decided, and the fit that came of it."""

    holdout: Holdout
    """Its settings name the kernel."""
    model: PreferenceGP
    report: OptimisationReport
    """Of the model; iterations, evaluations, sweeps and seconds are those of all that was tried."""
    told: Record
    """Plain values for `metrics.json`."""


def decide_in_time(
    holdout: Holdout,
    model: PreferenceGP,
    report: OptimisationReport,
    watch: FitCallbacks,
    is_open: bool,
) -> Decided:
    """Go on from a fit of utilities that move in time.

    Slices that were `auto` are asked for again with the learned kernel, at most twice, and learning
    resumes from the learned values where finer ones are answered. Where the kernel is open,
    `matern12` and `constant+matern12` take the place of `wiener` for 2 nats of evidence, and an
    entry level of newcomers is kept for 2 nats and better forecasts of the last fifth of the
    training duels by those before.

    :param holdout: with the settings of the fit.
    :param model: fitted to its training duels.
    :param report: what the optimiser said of it.
    :param is_open: no kernel was named, and the model has the default.
    """
    work = _Deciding(holdout, watch)
    work.reports.append(report)
    moving = next(term for term in holdout.settings.kernel_choice.terms if isinstance(term, Moving))
    best = _Fitted(model, report, "+".join(moving.kernels), (str(model.in_time.slices),))
    told: Record = {}
    if is_open:
        best, told["kernels"] = work.kernel(best)
    if moving.slices == AUTO:
        best = work.asked_again(best)
    if is_open:
        best, told["entry_level"] = work.entry_level(best)
        kernel = str(holdout.settings.kernel_choice).replace(WIENER, best.kernel)
        holdout = replace(holdout, settings=replace(holdout.settings, kernel=kernel))
    told |= {"kernel": best.kernel, "learned_on": list(best.slices)}
    return Decided(holdout, best.model, work.counted(best.report), told)


class _Fitted(NamedTuple):
    model: Any
    report: Any
    kernel: str
    slices: tuple[str, ...]
    """On which it was learned, one after the other."""
    gain: float = 0.0
    """In nats of evidence over a Wiener process."""
    hopeful: bool = True
    """Whether more steps may be worth it."""

    def told(self) -> Record:
        """Plain values for `metrics.json`."""
        return {"kernel": self.kernel, "slices": self.slices[0], "gain": self.gain}


def _is_finer(one: str, other: str) -> bool:
    return [*SLICES].index(one) > [*SLICES].index(other)


class _Deciding:
    """The decisions of one fit, and what they cost."""

    def __init__(self, holdout: Holdout, watch: FitCallbacks) -> None:
        self._holdout, self._watch, self.reports = holdout, watch, list[Any]()

    def counted(self, report: OptimisationReport) -> OptimisationReport:
        """A report, of the effort of all."""
        names = ("iterations", "evaluations", "failed_evaluations", "sweeps", "seconds")
        sums = {name: sum(getattr(one, name) for one in self.reports) for name in names}
        return replace(report, **sums)

    def learned(self, model: Any, trial: Callable[[Progress], None] | None = None) -> Any:
        """What the optimiser says after it resumed from where a model is."""
        from sparse_prefgp.learning.optimise import optimise

        settings, watch = self._holdout.settings, self._watch.step

        def step(progress: Progress) -> None:
            if watch is not None:
                watch(progress)
            if trial is not None:
                trial(progress)

        report = optimise(
            model, settings.max_iterations, callback=step, least_gain=settings.least_gain
        )
        self.reports.append(report)
        return report

    def asked_again(self, fitted: _Fitted) -> _Fitted:
        """Learned on in the slices that the learned kernel asks for, if these are finer."""
        for _ in range(TIMES_AGAIN):
            model = fitted.model
            term, noise = model.in_time.term, float(np.sqrt(2.0 * model.likelihood.noise.numpy()))
            wanted = term.asked_for(model.duels.times, noise)
            if not _is_finer(wanted, fitted.slices[-1]):
                break
            finer = model.in_time.with_slices(wanted)
            report = self.learned(finer)
            fitted = _Fitted(finer, report, fitted.kernel, (*fitted.slices, wanted))
        return fitted

    def kernel(self, first: _Fitted) -> tuple[_Fitted, list[Record]]:
        """The kernel on which no other one is worth its parameters, or comes back to a mean only
        after all duels; what is to be told.

        :param first: of a Wiener process.
        """
        from sparse_prefgp.learning.limits import hardly_returning

        best, told = first, [first.told()]
        for name in OTHERS:
            other = self.tried(name, best)
            if name not in SLOW and other.hopeful and not other.report.converged:
                report = self.learned(other.model)
                gain = other.gain + report.log_evidence - other.report.log_evidence
                other = other._replace(report=report, gain=gain)
            told.append(other.told())
            if other.gain >= best.gain + WORTH:
                told[-1]["returns"] = not any(hardly_returning(other.model))
                best = other if told[-1]["returns"] else best
        return best, told

    def tried(self, name: str, best: _Fitted) -> _Fitted:
        """Another kernel after some steps from the values of the best one so far."""
        base, to_beat = best.model, best.report.log_evidence
        if name not in SLOW:
            model, trial = self._with_kernel(base, name), _Trial(to_beat + WORTH)
            report = self.learned(model, trial)
            gain = best.gain + report.log_evidence - to_beat
            return _Fitted(model, report, name, best.slices, gain, trial.hopeful)
        # What costs many times as much is tried on a part of the duels, next to the best one.
        if _is_finer(TRIAL_SLICES, best.slices[-1]):
            base = base.in_time.with_slices(TRIAL_SLICES)
        # The last training rows between the items that have most duels.
        sides = self._holdout.table.given.take(self._holdout.split.train_rows).pairs
        duels_of_item = np.bincount(sides.reshape(-1))
        busy = np.isin(sides, duels_of_item.argsort(kind="stable")[-TRIAL_ITEMS:]).all(1)
        by_date = self._days.argsort(kind="stable")
        part = self._of_rows(base, by_date[busy[by_date]][-MOST_TRIED:])
        to_beat = self.learned(part).log_evidence
        report = self.learned(self._with_kernel(part, name), _Trial(to_beat + WORTH))
        slices = (str(base.in_time.slices),)
        gain = best.gain + report.log_evidence - to_beat
        if gain < best.gain + WORTH:
            return _Fitted(part, report, name, slices, gain)
        model = self._with_kernel(base, name)
        report = self.learned(model)
        gain = best.gain + report.log_evidence - base.log_evidence()
        return _Fitted(model, report, name, slices, gain)

    def _with_kernel(self, base: Any, name: str) -> Any:
        """A model with another kernel in time, before anything is learned."""
        from sparse_prefgp.covariances.item_in_time import time_term
        from sparse_prefgp.learning.priors import WEAK, default_priors
        from sparse_prefgp.models import replace as replace_parts

        kernel = copy.deepcopy(base.kernel)
        term = time_term(kernel)
        assert term is not None
        term.kernel = begun(name, term.kernel, float(np.ptp(base.duels.times)) / DAYS_A_YEAR)
        model = replace_parts(base, kernel=kernel)
        if self._holdout.settings.priors == WEAK:
            default_priors(model)
        model.inference.start_from(*base.inference.sites())
        return model

    @property
    def _days(self) -> FloatArray:
        """Of the training rows of the table."""
        time = self._holdout.table.given.time
        assert time is not None
        return time[self._holdout.split.train_rows]

    def _of_rows(self, model: Any, some: IntArray) -> Any:
        """The model of some of the training rows, with copies of its parameters; inference begins
        from its sites."""
        from sparse_prefgp.models import replace as replace_parts

        holdout, some = self._holdout, np.sort(some)
        rows = holdout.split.train_rows[some]
        with warnings.catch_warnings(action="ignore"):  # what was said of the whole
            duels = holdout.table.standardised(rows, transform=holdout.train.transform)
            part = replace_parts(model, duels)
        sites = np.zeros((part.graph.num_sites, 2))
        found = np.column_stack(model.inference.sites())
        sites[part.graph.sites_of_duels] = found[model.graph.sites_of_duels[some]]
        part.inference.start_from(*sites.T)
        return part

    def entry_level(self, fitted: _Fitted) -> tuple[_Fitted, Record]:
        """With a level at which newcomers come in, where that is worth it; what is to be told."""
        from sparse_prefgp.models import EntryLevel
        from sparse_prefgp.models import replace as replace_parts

        model = fitted.model
        made = replace_parts(model, terms=[*model.terms, EntryLevel()])
        (term,) = made.terms.parts(EntryLevel)
        number = int(np.sum(model.in_time.known.begin > term.after))
        told: Record = {"after": date_text(term.after), "newcomers": number, "kept": False}
        if not number:
            return fitted, told
        made.inference.start_from(*model.inference.sites())
        told["gain"] = made.log_evidence() - fitted.report.log_evidence
        if told["gain"] <= 0.0:
            return fitted, told
        found = [self.frozen_at_the_end(one) for one in (made, model)]
        told |= {"last_fifth": found[0], "last_fifth_without": found[1]}
        if found[0] is None or found[1] is None or not found[0] < found[1]:
            return fitted, told
        report = self.learned(made)
        told["gain"] = report.log_evidence - fitted.report.log_evidence
        if told["gain"] < WORTH:
            return fitted, told
        told |= {"kept": True, "level": level_of(made)}
        return fitted._replace(model=made, report=report), told

    def frozen_at_the_end(self, model: Any) -> float | None:
        """Nats of the last fifth of the training duels, of those that one side won, by a model of
        those before at the same hyperparameters; None where no day parts them."""
        from sparse_prefgp.analysis.metrics import MODEL
        from sparse_prefgp.analysis.scoring import Asked, score_events

        days, events = self._days, self._holdout.table.given
        late = days > np.quantile(days, 1.0 - LAST)
        rows = self._holdout.split.train_rows
        won = events.kind != TIE
        if not won[rows[late]].any() or not won[rows[~late]].any():
            return None
        before = self._of_rows(model, np.flatnonzero(~late))
        asked = Asked(events.take(rows[late]), before.inputs.of_items())
        with warnings.catch_warnings(action="ignore"):
            scores = score_events(before, {}, [asked]).scores()
        return float(scores[MODEL]["nlp_nats"])


class _Trial:
    """Ends some steps of the optimiser, sooner where their gains would not do."""

    def __init__(self, to_beat: float) -> None:
        self._to_beat, self._values = to_beat, list[float]()
        self.hopeful = True

    def __call__(self, progress: Progress) -> None:
        values = self._values
        values.append(progress.log_evidence)
        left, missing = TRIAL_STEPS - len(values), self._to_beat - values[-1]
        if left > 0 and len(values) >= TRIAL_LEAST:
            self.hopeful = left * (values[-1] - values[-2]) >= missing
        if left <= 0 or not self.hopeful:
            raise StopIteration


def begun(name: str, known: MarkovKernel, span: float) -> MarkovKernel:
    """Another kernel that begins as a learned one moves from day to day.

    :param name: one of `OTHERS`.
    :param known: a Wiener process or, for `constant+matern12`, a `Matern12`.
    :param span: of the duels, in years.
    """
    from sparse_prefgp.covariances import markov

    variance = float(known.variance.numpy())
    if isinstance(known, markov.Matern12):
        length = float(known.lengthscale.numpy())
        return markov.Constant(variance / 2.0) + markov.Matern12(variance / 2.0, length / 2.0)
    assert isinstance(known, markov.Wiener)
    rate = float(known.rate.numpy())
    if name == "matern12":
        everything = variance + rate * span / 4.0
        return markov.Matern12(everything, 2.0 * everything / max(rate, LEAST_RATE))
    length = min(1.0, span / 8.0)
    return markov.Constant(variance) + markov.Matern12(max(rate * length / 2.0, 1e-3), length)


def level_of(model: PreferenceGP) -> float:
    """What newcomers come in at, less what others did, in units of the noise of a duel."""
    from sparse_prefgp.models import EntryLevel

    (term,) = model.terms.parts(EntryLevel)
    rows = np.repeat(model.duels.items[:1], 2, axis=0)  # of nobody that the model knows
    at = [term.after, max(model.in_time.last_date, term.after + 1.0)]
    (before, now), _ = (x.numpy().reshape(-1) for x in model.predict_f(rows, at=at))
    return float((now - before) / np.sqrt(2.0 * model.likelihood.noise.numpy()))
