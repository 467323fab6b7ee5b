"""A new person, known from some answers or features, without fitting again."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparse_prefgp.analysis.answers import only_one, read_answers
from sparse_prefgp.analysis.roles import OF_SETS, Columns
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.io.people import people_like
from sparse_prefgp.support import together


def meet(
    model: Any,
    duels: Any = None,
    items: Any = None,
    people: Any = None,
    *,
    columns: Columns = None,
    choices: Any = None,
    rankings: Any = None,
    best_worst: Any = None,
    **options: Any,
) -> Any:
    """The model whose utility is that of a new person, of whom answers or features are known.

    Nothing is learned again: inference runs for the answers of the new person alone, in
    milliseconds.

    :param model: a `PreferenceGP` with tastes.
    :param duels: path or data frame with the columns `winner` and `loser`, which hold ids, and
        perhaps `count` and `tie`; all of one person.
    :param items: raw items, as `resolve_items` takes them; by default the model's own.
    :param people: path or data frame of one row, the features of the person as in the table of
        people that the model was fitted with; None where they are not known.
    :param columns: those that are called otherwise than in training, as for `evaluate`.
    :param choices: in place of duels, choices from sets, as `read_choices` takes them; without item
        ids, alternatives with the features of an item that is known are that item.
    :param rankings: the same, as `read_rankings` takes them.
    :param best_worst: the same, as `read_best_worst` takes them.
    :param options: of these readers, such as `at_once=True`.
    :return: a view of the model: whatever takes a model takes it, and speaks of this person.
    :raises ValueError: a model without tastes, or with contexts; answers of several people, or of
        several kinds; features of none or of several, or for a model without them; nothing at all;
        what the readers raise.
    """
    features = None
    if people is not None:
        table = people_like(people, model.duels.people_features)
        if len(table.names) != 1:
            raise ValueError(
                f"The table of people has {len(table.names):,} rows, but one person is met at a "
                "time; give the row of that one."
            )
        features = table.values[0]
    sources = {"duels": duels, "choices": choices, "rankings": rankings, "best_worst": best_worst}
    if features is not None and all(source is None for source in sources.values()):
        return model.meet(None, features)
    kind, source = only_one(options, **sources)
    rows = model.duels.item_rows
    in_contexts = rows is not None and (rows.columns or kind == "duels")
    together.check(meeting=True, contexts=bool(in_contexts))
    how = {"among": OF_SETS, "unsaid": ("judge", "person")}
    read = read_answers(model, kind, source, items, columns, how, **options)
    _, new, events = read.placed(model)
    own = model.duels.items
    inputs = np.concatenate([own, new.inputs[:, : own.shape[1]]])
    return model.meet(Duels.from_events(inputs, events.saying(judge=None)), features)
