"""What a model and its rivals give to answers about sets that are known: choices, rankings, ….

`sparse_prefgp.analysis.scoring` is the same of duels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.conditional_logit import (
    ConditionalLogit,
    EqualShares,
    conditional_logit,
)
from sparse_prefgp.analysis.metrics import score_answers, score_choices
from sparse_prefgp.analysis.scoring import MODEL, ROWS_AT_ONCE, Scores
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.events import CHOICE, WIN
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.choosing import padded
from sparse_prefgp.models.outcomes import known_labels
from sparse_prefgp.support.arrays import BoolArray, FloatArray

CONDITIONAL_LOGIT, EQUAL_SHARES = "conditional_logit", "equal_shares"
CHOICES, RANKINGS = "choices", "rankings"

Rival = ConditionalLogit | EqualShares


@dataclass(frozen=True, eq=False)
class HeldOutAnswers:
    """Log probabilities that each predictor gave to answers about sets."""

    log_probabilities: dict[str, FloatArray]
    """Predictor -> (rows,) in nats, of what was answered."""
    counts: npt.NDArray[Any]
    """(rows,)."""
    is_choice: BoolArray
    """(rows,) which are choices of one; the others are rankings, best and worst, and the like."""
    shares: dict[str, FloatArray]
    """Predictor -> (choices, k), log probability of each alternative, the chosen one first."""
    outcomes: Scores = field(default_factory=dict)
    """Empty: ties and grades are of duels."""
    grades: Scores = field(default_factory=dict)
    """The same."""

    def scores(self) -> dict[str, Scores]:
        """`choices`, of choices: the figures of `metrics.score_choices` for each predictor;
        `rankings`, of all other answers, those of `metrics.score_answers`; each where there are
        any."""
        found: dict[str, Scores] = {}
        here = self.is_choice
        if here.any():
            chosen, counts = np.zeros(int(here.sum()), np.int64), self.counts[here]
            found[CHOICES] = {
                name: score_choices(None, chosen, counts, log_probabilities=logs)
                for name, logs in self.shares.items()
            }
        if not here.all():
            found[RANKINGS] = {
                name: score_answers(logs[~here], self.counts[~here])
                for name, logs in self.log_probabilities.items()
            }
        return found

    def unseen_scores(self) -> dict[str, Scores]:
        """Sets are not told apart from those of training."""
        return {}


def rivals_of(train: Duels, rng: np.random.Generator) -> dict[str, Rival]:
    """What a model of sets is scored next to: a conditional logit on its training answers, its
    ridge chosen by cross-validation, and equal shares.

    :param train: answers about sets; without features, equal shares alone.
    """
    found: dict[str, Rival] = {}
    if train.num_features or train.covariate_names:
        found[CONDITIONAL_LOGIT] = conditional_logit(train, rng=rng)
    return {**found, EQUAL_SHARES: EqualShares()}


def score_sets(
    model: PreferenceGP | None,
    rivals: Mapping[str, Rival],
    answers: Duels,
    inputs: FloatArray | None = None,
) -> HeldOutAnswers:
    """Let a model and its rivals predict answers about sets.

    Warns of judges that the model does not know.

    :param model: whose predictions are scored; None for the rivals alone.
    :param rivals: by name, in the units of the answers.
    :param answers: in the units of the model.
    :param inputs: (n, D) rows of the items of the answers as the model takes them; by default their
        features.
    """
    events = answers.events
    is_choice = np.isin(events.kind, (CHOICE, WIN))
    logs: dict[str, list[FloatArray]] = {} if model is None else {MODEL: []}
    logs |= {name: [] for name in rivals}
    shares: dict[str, list[FloatArray]] = {name: [] for name in logs}
    widest = int(np.diff(events.offsets)[is_choice].max(initial=1))
    for part in _parts(len(events)):
        some, choices = events.take(part), np.flatnonzero(is_choice[part])
        if model is not None:
            rows = answers.items if inputs is None else inputs
            groups = None
            judged = model.noise_ratio is not None or model.row_layout.judged
            if judged and some.judge is not None:
                groups = known_labels(model, some.judge.labels)
            given = np.empty(len(some))
            if len(choices):
                who = None if groups is None else groups[choices]
                found = model.log_choices(rows, some.take(choices), who)
                shares[MODEL].append(_to_width(found, widest))
                given[choices] = found[:, 0]
            rest = np.flatnonzero(~is_choice[part])
            if len(rest):
                who = None if groups is None else groups[rest]
                given[rest] = model.log_answers(rows, some.take(rest), who)
            logs[MODEL].append(given)
        for name, rival in rivals.items():
            if len(choices):
                places, there = padded(some.take(choices))
                features = answers.items[places]
                if some.covariates is not None:
                    features = np.concatenate([features, _covariates(some.take(choices))], 2)
                with np.errstate(divide="ignore"):
                    found = np.log(rival.predict_choice(features, there))
                shares[name].append(_to_width(found, widest))
            logs[name].append(rival.log_answers(answers.items, some))
    return HeldOutAnswers(
        {name: np.concatenate(values) for name, values in logs.items()},
        events.counts,
        is_choice,
        {name: np.concatenate(values) for name, values in shares.items() if values},
    )


def lines_of(part: str, scores: Scores) -> list[str]:
    """A line for each predictor.

    :param part: `choices` or `rankings`.
    """
    found = []
    for name, values in scores.items():
        number = values["choices" if part == CHOICES else "answers"]
        right = f", {values['hit_rate']:.1%} right" if part == CHOICES else ""
        found.append(
            f"{name}: {values['nlp_nats']:.4f} nats each{right}, of {number:,} held-out {part}"
        )
    return found


def _parts(rows: int) -> Iterable[slice]:
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, rows, ROWS_AT_ONCE))


def _covariates(events: Any) -> FloatArray:
    """(e, k, C) of the sides of each event, 0 where there are none."""
    sizes = np.diff(events.offsets)
    place = np.arange(int(sizes.max(initial=1)))
    there = place < sizes[:, None]
    at = events.offsets[:-1, None] + np.where(there, place, 0)
    return np.asarray(np.where(there[:, :, None], events.covariates[at], 0.0))


def _to_width(logs: FloatArray, width: int) -> FloatArray:
    more = width - logs.shape[1]
    return np.pad(logs, ((0, 0), (0, more)), constant_values=-np.inf)
