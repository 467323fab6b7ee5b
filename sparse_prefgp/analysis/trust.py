"""Which verdicts to rely on: how sure a model must be so that few of them are wrong.

Of votes that were held out, those of which the model is surest come first. A threshold of its
confidence is tested, from the strictest on, for being wrong more often than the risk that is
borne: an exact binomial test of those above it, at one level for all, since testing ends with the
first that fails (Learn then Test, Angelopoulos et al. 2021, by a fixed sequence). So the one that
is taken keeps the risk, for new votes like these, with the confidence that was asked for. Which
thresholds there are is fixed by the forecasts alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.boards import names_of
from sparse_prefgp.analysis.items import numbered_inputs, own_items
from sparse_prefgp.analysis.metrics import MODEL
from sparse_prefgp.analysis.one_step import Board
from sparse_prefgp.analysis.scoring import HeldOut, Scored
from sparse_prefgp.analysis.verdict_scores import LOST, WON
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.forecast import DUELS, OUTCOMES
from sparse_prefgp.io.judgements import COUNT, LOSER, WINNER
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_number, check_shape
from sparse_prefgp.support.words import counted
from sparse_prefgp.tell.result import Figures

# Shares of the votes at which a threshold is tried, the surest ones first.
SHARES = tuple(k / 20 for k in range(2, 21))
CONFIDENCE = 0.95
PROBABILITY = "probability"


class Step(NamedTuple):
    """One threshold that was tried."""

    probability: float
    """Of the side that is named, at least."""
    votes: int
    """Tested ones that reach it."""
    wrong: int
    """Of these, how many the other side won, or where both were as probable."""
    p: float
    """Probability of no more wrong ones at the risk that is borne."""


@dataclass(frozen=True)
class Threshold(Figures):
    """From which confidence on verdicts of a model are wrong with the risk that is borne at most.

    It is about votes that one side won, drawn like those tested.
    """

    also = ("sentence",)

    risk: float
    """Share of wrong ones that is borne."""
    confidence: float
    """Of the threshold keeping it."""
    probability: float | None
    """The least of the side that is named; None where no threshold was accepted."""
    share: float
    """Of the tested votes, how many reach it; 0 without one."""
    tested: int
    """Votes that one side won, or one of each task."""
    tasks: bool
    """Whether it is one of each task."""
    steps: tuple[Step, ...]
    """Thresholds that were tried, up to the first that was not accepted."""

    @property
    def sentence(self) -> str:
        """What may be relied on, in words."""
        votes = counted(self.tested, "vote")
        of = f"{votes}, one of each task" if self.tasks else f"{votes} taken as independent"
        borne, sure = f"{100 * self.risk:g} %", f"{100 * self.confidence:g} %"
        if self.probability is None:
            return (
                f"No threshold keeps wrong verdicts below {borne} with {sure} confidence: of "
                f"{of}, too many of the surest are wrong, or there are too few to tell."
            )
        return (
            f"Verdicts with a probability of {self.probability:.3f} or more, {100 * self.share:.0f}"
            f" % of all, are wrong in at most {borne} of cases, with {sure} confidence (of {of})."
        )


def threshold(
    log_probabilities: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    risk: float,
    confidence: float = CONFIDENCE,
    tasks: bool = False,
) -> Threshold:
    """The least sure verdicts that may be relied on, see `Threshold`.

    Thresholds are at the confidence of the surest 10 %, 15 %, … 100 % of the votes. Those above
    which there are too few votes for any verdicts to pass are not tried. Verdicts on which both
    sides are as probable count as wrong.

    :param log_probabilities: (t,) natural logarithms of the probability of the winner, of votes
        that the model has not learned from.
    :param counts: (t,) how often each was seen, whole numbers; by default once.
    :param risk: the share of wrong verdicts that is borne, in (0, 1).
    :param confidence: with which it is kept, in (0, 1).
    :param tasks: whether the votes are one of each task, for the words.
    :raises ValueError: no votes, arrays of other shapes, numbers outside (0, 1).
    """
    check_risk(risk, confidence)
    log_p = np.asarray(log_probabilities, dtype=np.float64)
    check_shape("log_probabilities", log_p, "t", hint=", of at least one vote")
    number = np.ones(len(log_p), np.int64) if counts is None else np.asarray(counts)
    check_shape("counts", number, len(log_p))
    won = np.exp(log_p)
    sure = np.maximum(won, 1.0 - won)
    order = np.argsort(-sure, kind="stable")
    reached = np.cumsum(number[order])
    wrong = np.cumsum(np.where(won[order] <= 0.5, number[order], 0))
    total = int(reached[-1])
    at = np.searchsorted(reached, np.ceil(np.array(SHARES) * total - 1e-9))
    # Votes as sure as the last one of a share belong to it.
    ends = np.unique(np.searchsorted(-sure[order], -sure[order][at], side="right") - 1)
    # Where there are too few votes, whatever the verdicts, which nobody has looked at so far.
    ends = ends[binom.cdf(0, reached[ends], risk) <= 1.0 - confidence]
    p = binom.cdf(wrong[ends], reached[ends], risk)
    accepted = int(np.argmax([*(p > 1.0 - confidence), True]))
    columns = (each.tolist() for each in (sure[order][ends], reached[ends], wrong[ends], p))
    steps = [Step(*one) for one in zip(*columns, strict=True)]
    probability, share = None, 0.0
    if accepted:
        probability, share = steps[accepted - 1].probability, steps[accepted - 1].votes / total
    return Threshold(
        risk=float(risk),
        confidence=float(confidence),
        probability=probability,
        share=share,
        tested=total,
        tasks=tasks,
        steps=tuple(steps[: accepted + 1]),
    )


def check_risk(risk: Any, confidence: Any) -> None:
    """Refuse what are no shares between 0 and 1."""
    check_number("risk", risk, above=0.0, below=1.0, hint=", such as 0.1")
    check_number("confidence", confidence, above=0.0, below=1.0, hint=", such as 0.95")


def one_of_each(tasks: IntArray, rng: np.random.Generator) -> IntArray:
    """The number of one vote of each task (t,), drawn at random, in ascending order."""
    shuffled = rng.permutation(len(tasks))
    _, first = np.unique(tasks[shuffled], return_index=True)
    return np.sort(shuffled[first])


def threshold_of(
    found: HeldOut,
    risk: float,
    confidence: float,
    tasks: Codes | None,
    rng: np.random.Generator,
) -> Threshold:
    """That of duels that were scored.

    :param tasks: of all events, where it is known of which task each is: one vote of each is then
        tested, drawn by `rng`.
    """
    duels = found.forecasts[DUELS]
    log_p, counts = duels.log_probabilities[MODEL], duels.counts
    if tasks is not None:
        one = one_of_each(tasks.numbers[duels.event], rng)
        log_p, counts = log_p[one], np.ones(len(one), np.int64)
    return threshold(log_p, counts, risk=risk, confidence=confidence, tasks=tasks is not None)


def by_surprise(frame: Any, found: HeldOut) -> Any:
    """Votes with the `probability` that the model gave to what happened, the least probable first.

    :param frame: a row for each event that was scored. Ties have no probability for a model without
        a margin, and come last.
    """
    scored = found.forecasts.get(OUTCOMES, found.forecasts[DUELS])
    logs = scored.log_probabilities[MODEL]
    if logs.ndim == 2:
        logs = logs[np.arange(len(logs)), scored.happened]
    probability: FloatArray = np.full(len(frame), np.nan)
    probability[scored.event] = np.exp(logs)
    return _rated(frame, probability)


def votes_by_surprise(model: Any, **columns: Any) -> Any:
    """The same of the duels that a model has learned from, a row for each row of their table, with
    `winner`, `loser` and, where there are any, `tie`, `judge`, covariates (winner less loser) and
    `count`: what `trust.csv` of a board holds.

    They are less surprising to it than new ones are.

    :param columns: (t,) what else is known of each, such as its task.
    """
    duels, each = model.duels, model.duels.merged.rows
    asked = duels.events.in_order()
    forecast = model.predict(asked, numbered_inputs(model, own_items(model)))
    outcome = np.where(duels.decided, 0, 1)
    happened = np.exp(forecast.results[np.arange(len(outcome)), outcome])
    frame = frame_of(duels).iloc[each].drop(columns=COUNT, errors="ignore").assign(**columns)
    if (duels.merged.counts != 1).any():
        frame[COUNT] = duels.merged.counts
    return _rated(frame, happened[each])


def own_abstention(model: Any) -> dict[str, float]:
    """The curve of risk and coverage of the votes of a board (`HeldOut.abstention`), each predicted
    from all others: its site is left out, and nothing is fitted again.

    :raises ValueError: what `Votes.of` raises.
    """
    votes = Votes.of(model)
    won = np.flatnonzero(~votes.tied)
    log_p = Board.of(votes).verdicts.log_p[:, won]
    logs = {MODEL: log_p[WON] - np.logaddexp(log_p[WON], log_p[LOST])}
    scored = Scored(DUELS, logs, np.zeros_like(won), votes.counts[won], won)
    return HeldOut({DUELS: scored}).abstention()


def _rated(frame: Any, probability: FloatArray) -> Any:
    rated = frame.reset_index(drop=True).assign(**{PROBABILITY: probability})
    return rated.sort_values(PROBABILITY, kind="stable", ignore_index=True)


def frame_of(duels: Duels) -> Any:
    """A data frame of duels, a row for each; items in contexts go by their own names."""
    ids = names_of(duels)
    sides = {WINNER: duels.winners, LOSER: duels.losers}
    found: dict[str, Any] = {name: [ids[i] for i in side] for name, side in sides.items()}
    if duels.num_ties:
        found["tie"] = (~duels.decided).astype(int)
    if duels.groups is not None and duels.group_names is not None:
        found["judge"] = [duels.group_names[i] for i in duels.groups]
    if duels.covariates is not None:
        found |= dict(zip(duels.covariate_names, duels.covariates.T, strict=True))
    if (duels.counts != 1).any():
        found[COUNT] = duels.counts
    return require_pandas().DataFrame(found)
