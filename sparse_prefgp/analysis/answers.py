"""What a model and its rivals give to answers about sets that are known: choices, rankings, ….

`sparse_prefgp.analysis.scoring` is the same of duels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from sparse_prefgp.analysis.alternatives import read_sets
from sparse_prefgp.analysis.metrics import CHOICES, RANKINGS
from sparse_prefgp.analysis.rivals import (
    EQUAL_SHARES,
    KNOWS_NOTHING,
    LinearRival,
    rivals_of,
)
from sparse_prefgp.analysis.roles import Columns
from sparse_prefgp.analysis.scoring import (
    ROWS_AT_ONCE,
    Known,
    rows_at_once,
    score_events,
)
from sparse_prefgp.data.events import CHOICE, WIN, Codes, Events
from sparse_prefgp.data.splits import grouping_of
from sparse_prefgp.io.streams import StreamedDuels
from sparse_prefgp.models.outcomes import known_labels, labelled_for
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.randomness import generator


class ScoredSets(NamedTuple):
    """Some answers about sets, between rows of features."""

    events: Events
    features: FloatArray
    """(n, D) in the units of the model."""
    inputs: FloatArray
    """(n, D) or (n, D + 1), as the model takes them."""
    groups: npt.NDArray[np.object_] | None = None
    """(e,) labels of who judged, for a model with noise by group."""
    first: int = 0
    """Number of the first event among all."""

    def known(self, model: Predicts | None, outcomes: bool) -> dict[str, Known]:
        """Which are choices of one, and which other answers; each where there are any."""
        is_choice = np.isin(self.events.kind, (CHOICE, WIN))
        both = {CHOICES: np.flatnonzero(is_choice), RANKINGS: np.flatnonzero(~is_choice)}
        return {
            of: Known(rows, np.zeros_like(rows), self.events.counts[rows], self.first + rows)
            for of, rows in both.items()
            if len(rows)
        }

    def by_model(self, model: Predicts, known: Mapping[str, Known]) -> dict[str, FloatArray]:
        """Log probabilities of each alternative of choices, and of other answers."""
        how = {CHOICES: model.log_choices, RANKINGS: model.log_answers}
        return {
            of: how[of](
                self.inputs,
                self.events.take(each.rows),
                None if self.groups is None else self.groups[each.rows],
            )
            for of, each in known.items()
        }

    def by_rival(self, rival: LinearRival, known: Mapping[str, Known]) -> dict[str, FloatArray]:
        """The same of a rival."""
        found = {}
        if CHOICES in known:
            chosen = self.events.take(known[CHOICES].rows)
            at, there = chosen.padded()
            utility = rival.utilities(self.features, chosen)[at]
            found[CHOICES] = special.log_softmax(np.where(there, utility, -np.inf), 1)
        if RANKINGS in known:
            others = self.events.take(known[RANKINGS].rows)
            found[RANKINGS] = rival.log_answers(self.features, others)
        return found


def sets_between(
    model: Predicts, events: Events, features: FloatArray, inputs: FloatArray | None = None
) -> Iterator[ScoredSets]:
    """Answers about sets in memory, in bounded chunks.

    Warns of judges and labels that the model does not know.

    :param features: (n, D) in the units of the model.
    :param inputs: (n, D) or (n, D + 1), as the model takes them; by default the features.
    """
    return _in_chunks(model, events, features, features if inputs is None else inputs)


def sets_of_stream(model: Predicts, answers: StreamedDuels) -> Iterator[ScoredSets]:
    """The same of answers that are read in chunks, between items in the units of the stream."""
    first = 0
    for chunk in answers.chunks(ROWS_AT_ONCE):
        features = chunk.features if answers.items is None else answers.items.features
        assert features is not None
        events = chunk.events
        if events.judge is not None and answers.judges is not None:
            names = np.array([*answers.judges], dtype=object)[events.judge.numbers]
            events = replace(events, judge=Codes.of(names.tolist(), events.judge.column))
        yield from _in_chunks(model, events, features, features, first)
        first += len(events)


def _in_chunks(
    model: Predicts, events: Events, features: FloatArray, inputs: FloatArray, first: int = 0
) -> Iterator[ScoredSets]:
    """:param first: number of the first event."""
    events, groups = labelled_for(model, events), None
    if model.noise_ratio is not None and events.judge is not None:
        groups = known_labels(model, events.judge.labels)
    sides = int(np.diff(events.offsets).max(initial=1))
    step = rows_at_once(sides * (features.shape[1] + len(events.covariate_names)))
    for start in range(0, len(events), step):
        part = slice(start, start + step)
        who = None if groups is None else groups[part]
        yield ScoredSets(events.take(part), features, inputs, who, first + start)


def evaluate_sets(
    model: Predicts,
    kind: str,
    source: Any,
    items: Any = None,
    *,
    rng: np.random.Generator | None = None,
    columns: Columns = None,
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
    :param columns: as for `alternatives.read_sets`.
    :param options: of the reader.
    :return: `held_out`: what `HeldOut.scores` gives; `answers`, how many there are; and of
        the alternatives in them `items_outside_range`, `outside_features` and `unknown_levels`.
    :raises ValueError: what `alternatives.read_sets` raises.
    """
    read = read_sets(model, kind, source, items, columns, **options)
    features = read.items.inputs[:, : model.duels.num_features]
    rivals = {EQUAL_SHARES: KNOWS_NOTHING}
    if model.duels.held and holding_duels(model).duels.events.has_sets:
        rivals = rivals_of(holding_duels(model).duels, generator(rng))
    chunks = sets_between(model, read.events, features, read.items.inputs)
    grouping = grouping_of(read.table, np.arange(len(read.events)))
    found = score_events(model, rivals, chunks, grouping=grouping)
    there = read.items.select(np.unique(read.events.sides))
    return {
        "held_out": found.scores(),
        "answers": read.events.num_events,
        "items_outside_range": int(there.outside.sum()),
        "outside_features": there.outside_features,
        "unknown_levels": there.unknown_levels,
    }
