"""What a model and its rivals give to answers about sets that are known: choices, rankings, ….

`sparse_prefgp.analysis.scoring` is the same of duels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.alternatives import read_sets
from sparse_prefgp.analysis.conditional_logit import (
    ConditionalLogit,
    EqualShares,
    conditional_logit,
)
from sparse_prefgp.analysis.metrics import score_answers, score_choices, with_errors
from sparse_prefgp.analysis.scoring import MODEL, ROWS_AT_ONCE, Scores, rows_at_once
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.events import CHOICE, WIN, Codes, Events
from sparse_prefgp.io.streams import StreamedDuels
from sparse_prefgp.models.choosing import padded
from sparse_prefgp.models.outcomes import known_labels, labelled_for
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.support.arrays import BoolArray, FloatArray
from sparse_prefgp.support.randomness import generator

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
    parts: Mapping[str, BoolArray] = field(default_factory=dict)
    """Masks (rows,) of `known_people` and `new_people`; empty where nobody has a taste."""

    def scores(self, rows: BoolArray | None = None) -> dict[str, Scores]:
        """`choices`, of choices: the figures of `metrics.score_choices` for each predictor;
        `rankings`, of all other answers, those of `metrics.score_answers`; each where there are
        any, of all rows or those of a mask."""
        found: dict[str, Scores] = {}
        kept = np.ones(len(self.counts), dtype=bool) if rows is None else rows
        here, others = self.is_choice & kept, ~self.is_choice & kept
        if here.any():
            chosen, counts = np.zeros(int(here.sum()), np.int64), self.counts[here]
            among = kept[self.is_choice]
            given = {name: logs[among] for name, logs in self.shares.items()}
            scores = {
                name: score_choices(None, chosen, counts, log_probabilities=logs)
                for name, logs in given.items()
            }
            of_chosen = {name: logs[:, 0] for name, logs in given.items()}
            found[CHOICES] = with_errors(scores, of_chosen, counts)
        if others.any():
            logs_of = {name: logs[others] for name, logs in self.log_probabilities.items()}
            counts = self.counts[others]
            scores = {name: score_answers(logs, counts) for name, logs in logs_of.items()}
            found[RANKINGS] = with_errors(scores, logs_of, counts)
        return found

    def with_model(self, other: HeldOutAnswers, name: str) -> HeldOutAnswers:
        """With what another model gave to the same answers, next after the model."""

        def joined(ours: dict[str, FloatArray], theirs: dict[str, FloatArray]) -> Any:
            rest = {key: logs for key, logs in ours.items() if key != MODEL}
            return {MODEL: ours[MODEL], name: theirs[MODEL], **rest} if ours else {}

        return replace(
            self,
            log_probabilities=joined(self.log_probabilities, other.log_probabilities),
            shares=joined(self.shares, other.shares),
        )

    def part_scores(self) -> dict[str, dict[str, Scores]]:
        """Scores of each part that has rows."""
        return {name: self.scores(mask) for name, mask in self.parts.items() if mask.any()}

    def unseen_scores(self) -> dict[str, Scores]:
        """Sets are not told apart from those of training."""
        return {}


def rivals_of(
    train: Duels, rng: np.random.Generator, people: npt.ArrayLike | None = None
) -> dict[str, Rival]:
    """What a model of sets is scored next to: a conditional logit on its training answers, its
    ridge chosen by cross-validation, and equal shares.

    :param train: answers about sets; without features, equal shares alone.
    :param people: label of who gave each answer, as given: then folds leave people whole.
    """
    found: dict[str, Rival] = {}
    if train.num_features or train.covariate_names:
        found[CONDITIONAL_LOGIT] = conditional_logit(train, people=people, rng=rng)
    return {**found, EQUAL_SHARES: EqualShares()}


def score_sets(
    model: Predicts | None,
    rivals: Mapping[str, Rival],
    events: Events,
    features: FloatArray,
    inputs: FloatArray | None = None,
) -> HeldOutAnswers:
    """Let a model and its rivals predict answers about sets.

    Warns of judges and labels that the model does not know.

    :param model: whose predictions are scored; None for the rivals alone.
    :param rivals: by name.
    :param events: the answers, between rows of the features.
    :param features: (n, D) in the units of the model.
    :param inputs: (n, D) or (n, D + 1), as the model takes them; by default the features.
    """
    is_choice = np.isin(events.kind, (CHOICE, WIN))
    logs: dict[str, list[FloatArray]] = {} if model is None else {MODEL: []}
    logs |= {name: [] for name in rivals}
    shares: dict[str, list[FloatArray]] = {name: [] for name in logs}
    widest = int(np.diff(events.offsets)[is_choice].max(initial=1))
    groups = None
    if model is not None:
        events = labelled_for(model, events)
        if model.noise_ratio is not None and events.judge is not None:
            groups = known_labels(model, events.judge.labels)
    rows = features if inputs is None else inputs
    sides = int(np.diff(events.offsets).max(initial=1))
    step = rows_at_once(sides * (features.shape[1] + len(events.covariate_names)))
    for start in range(0, len(events), step):
        part = slice(start, start + step)
        some = events.take(part)
        choices, others = (np.flatnonzero(is_choice[part] == flag) for flag in (True, False))
        chosen = some.take(choices)
        if model is not None:
            given, who = np.empty(len(some)), None if groups is None else groups[part]
            if len(choices):
                found = model.log_choices(rows, chosen, None if who is None else who[choices])
                shares[MODEL].append(_to_width(found, widest))
                given[choices] = found[:, 0]
            if len(others):
                whose = None if who is None else who[others]
                given[others] = model.log_answers(rows, some.take(others), whose)
            logs[MODEL].append(given)
        for name, rival in rivals.items():
            if len(choices):
                places, there = padded(chosen)
                x = features[places]
                if chosen.covariates is not None:
                    x = np.concatenate([x, _covariates(chosen)], 2)
                with np.errstate(divide="ignore"):
                    found = np.log(rival.predict_choice(x, there))
                shares[name].append(_to_width(found, widest))
            logs[name].append(rival.log_answers(features, some))
    return HeldOutAnswers(
        {name: np.concatenate(values) for name, values in logs.items()},
        events.counts,
        is_choice,
        {name: np.concatenate(values) for name, values in shares.items() if values},
    )


def score_streamed_sets(
    model: Predicts, rivals: Mapping[str, Rival], answers: StreamedDuels
) -> HeldOutAnswers:
    """`score_sets` of answers that are read in chunks, between items in the units of the stream."""
    found = []
    for chunk in answers.chunks(ROWS_AT_ONCE):
        features = chunk.features if answers.items is None else answers.items.features
        assert features is not None
        events = chunk.events
        if events.judge is not None and answers.judges is not None:
            names = np.array([*answers.judges], dtype=object)[events.judge.numbers]
            events = replace(events, judge=Codes.of(names.tolist(), events.judge.column))
        found.append(score_sets(model, rivals, events, features))
    width = max(logs.shape[1] for one in found for logs in one.shares.values())
    return HeldOutAnswers(
        {
            name: np.concatenate([one.log_probabilities[name] for one in found])
            for name in found[0].log_probabilities
        },
        np.concatenate([one.counts for one in found]),
        np.concatenate([one.is_choice for one in found]),
        {
            name: np.concatenate([_to_width(one.shares[name], width) for one in found])
            for name in found[0].shares
        },
    )


def evaluate_sets(
    model: Predicts,
    kind: str,
    source: Any,
    items: Any = None,
    *,
    rng: np.random.Generator | None = None,
    groups: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Score a model on a table of answers about sets, along with a conditional logit on its
    training answers and equal shares.

    :param model: whose predictions are scored. One that learned from duels, or from a stream, is
        scored along with equal shares alone.
    :param kind: `choices`, `rankings` or `best_worst`.
    :param source: as for `alternatives.read_sets`.
    :param items: as for `alternatives.read_sets`.
    :param rng: of the folds that choose the ridge of the conditional logit.
    :param groups: as for `alternatives.read_sets`.
    :param options: of the reader.
    :return: `held_out`: what `HeldOutAnswers.scores` gives; `answers`, how many there are; and of
        the alternatives in them `items_outside_range`, `outside_features` and `unknown_levels`.
    :raises ValueError: what `alternatives.read_sets` raises.
    """
    read = read_sets(model, kind, source, items, groups=groups, **options)
    features = read.items.inputs[:, : model.duels.num_features]
    rivals: dict[str, Rival] = {EQUAL_SHARES: EqualShares()}
    if model.duels.held and holding_duels(model).duels.events.has_sets:
        rivals = rivals_of(holding_duels(model).duels, generator(rng))
    found = score_sets(model, rivals, read.events, features, read.items.inputs)
    there = read.items.select(np.unique(read.events.sides))
    return {
        "held_out": found.scores(),
        "answers": read.events.num_events,
        "items_outside_range": int(there.outside.sum()),
        "outside_features": there.outside_features,
        "unknown_levels": there.unknown_levels,
    }


def _covariates(events: Events) -> FloatArray:
    """(e, k, C) of the sides of each event, 0 where there are none."""
    sizes = np.diff(events.offsets)
    place = np.arange(int(sizes.max(initial=1)))
    there = place < sizes[:, None]
    at = events.offsets[:-1, None] + np.where(there, place, 0)
    assert events.covariates is not None
    return np.asarray(np.where(there[:, :, None], events.covariates[at], 0.0))


def _to_width(logs: FloatArray, width: int) -> FloatArray:
    more = width - logs.shape[1]
    return np.pad(logs, ((0, 0), (0, more)), constant_values=-np.inf)
