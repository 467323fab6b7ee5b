"""Tables of sets of alternatives, between items as a model takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.analysis.items import ItemSet, described_items, known_items
from sparse_prefgp.analysis.roles import OF_SETS, Columns, roles_in
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.features import NO_FEATURES, require_pandas
from sparse_prefgp.data.table import DuelTable
from sparse_prefgp.io.answers import NONE, numbered
from sparse_prefgp.io.choices import (
    CHOICE_SET,
    OPTION,
    read_best_worst_table,
    read_choice_table,
    read_ranking_table,
)
from sparse_prefgp.io.files import ITEM_ID, Table, id_text, load
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.words import one_of

READERS: dict[str, Callable[..., DuelTable]] = {
    "choices": read_choice_table,
    "rankings": read_ranking_table,
    "best_worst": read_best_worst_table,
}
PROBABILITY, LOG_PROBABILITY = "probability", "log_probability"


def only_one(**sources: Any) -> tuple[str, Any]:
    """The one source that was given, and its name.

    :raises ValueError: none, or several.
    """
    given = [(name, source) for name, source in sources.items() if source is not None]
    if len(given) != 1:
        raise ValueError(one_of(list(sources), [name for name, _ in given]))
    return given[0]


def refuse_options(kind: str, options: Iterable[str]) -> None:
    """Refuse options of readers of sets that were given with something else.

    :param kind: what they were given with.
    :raises ValueError: one that goes with other answers.
    :raises TypeError: one that there is not.
    """
    taken = {name: signature(reader).parameters for name, reader in READERS.items()}
    for option in options:
        others = [name for name, known in taken.items() if option in known and name != kind]
        if option in taken.get(kind, ()):
            continue
        if not others:
            raise TypeError(f"There is no option {option!r} of {kind}; leave it out.")
        raise ValueError(
            f"{option} was given with {kind}, but goes with {' or '.join(others)} alone; leave it "
            "out."
        )


@dataclass(frozen=True, eq=False)
class SetsFound:
    """Answers about sets between items that a model knows how to take."""

    table: DuelTable
    """A row for each answer; its events are between the rows of `items`."""
    items: ItemSet
    described: bool = False
    """Whether alternatives are described by features alone, so that ids are numbers of rows."""

    @property
    def events(self) -> Answers:
        """What was answered."""
        return self.table.events


def read_sets(
    model: Predicts,
    kind: str,
    source: Any,
    items: Any = None,
    columns: Columns = None,
    *,
    learning: bool = False,
    **options: Any,
) -> SetsFound:
    """Read a table of answers, whose items are those of the model or given, or its own rows.

    :param kind: `choices`, `rankings` or `best_worst`.
    :param source: as `read_choice_table`, `read_ranking_table` or `read_best_worst_table` takes it.
        Ids are those of items as `predict` finds them; a long form without ids has the features of
        the model as columns.
    :param items: raw items, as `resolve_items` takes them.
    :param columns: as for `roles_in`.
    :param learning: the same.
    :param options: of the reader.
    :raises ValueError: what the reader, `resolve_items` and `roles_in` raise; a model with
        contexts.
    """
    own = model.duels
    rows = own.item_rows
    context = ", ".join(() if rows is None else rows.columns)
    together.check(answers=True, contexts=context and f"items in contexts ({context})")
    loaded = load(source, kind.replace("_", "-"), lambda header: ())
    header = list(loaded.frame.columns)
    roles = roles_in(model, header, loaded.name, columns, among=OF_SETS, learning=learning)
    made = () if own.transform is None else own.transform.raw_columns
    wanted = tuple(name for name in made if name != NONE)  # which is made of empty rows
    named = items is not None or ITEM_ID in header or any(name not in header for name in wanted)
    there = [name for name in own.covariate_names if name in header]
    if rows is not None and rows.column is not None and rows.column in header and items is None:
        named = named and any(name not in header for name in wanted)
    more: dict[str, Any] = {"counts": roles.count, "weights": roles.weight, "labels": roles.labels}
    more |= {"groups": roles.codes.get("judge"), "person": roles.codes.get("person")}
    more |= {"covariates": there, **options}
    read = READERS[kind]
    if named or not wanted:
        found = known_items(model, items)
        ids = require_pandas().DataFrame({ITEM_ID: [id_text(value) for value in found.ids]})
        return SetsFound(read(ids, source, **more), found)
    item = None if rows is None else rows.column
    table = read(None, source, like=own.transform, item=item, **more)
    none = np.zeros(len(table.items), dtype=bool)
    if own.transform is not None and NONE in made and NONE in table.items:
        # Those without attributes, which were filled in.
        none = table.items[NONE].to_numpy() == 1.0
        for attribute in wanted if none.any() else ():
            stands_in = own.transform.stand_in(attribute)
            none &= [isinstance(x, str | float) and x == stands_in for x in table.items[attribute]]
    name = "row_of_alternative"  # a column of ids that is none of the table's
    described = Table(
        table.items.assign(**{name: list(table.item_ids)}),
        "the alternatives",
        table.row_names,
        name,
        found=loaded.found,
    )
    return SetsFound(table, described_items(model, described, none), described=True)


def predict_sets(
    model: Predicts,
    kind: str,
    source: Any,
    items: Any = None,
    columns: Columns = None,
    **options: Any,
) -> Any:
    """What is chosen of sets, or how probable rankings are.

    :param kind: `choices`, whose table needs no column of what was chosen; `rankings` or
        `best_worst`, of which the probability of the answer is found.
    :param source: as for `read_sets`.
    :param items: as for `read_sets`.
    :param columns: as for `read_sets`.
    :param options: of the reader.
    :return: For `choices` in the long form the table with a column `probability`, of each
        alternative to be chosen, which add up to 1 in each set; in the wide form a row for each
        alternative with the columns `choice_set`, `item_id` and `probability`. Otherwise a row for
        each answer, with its columns, `probability` and `log_probability` (nats).
        `frame.attrs["outside_features"]` says how many alternatives lie outside the range of
        training, by feature.
    :raises ValueError: what `read_sets` raises; a column named like one that is added.
    """
    table = load_sets(model, source, kind.replace("_", "-"))
    table.refuse_added((PROBABILITY, LOG_PROBABILITY))
    if kind != "choices":
        found = read_sets(model, kind, source, items, columns, **options)
        logs = model.predict(found.events, found.items.inputs).log_first
        frame = found.table.context.assign(**{PROBABILITY: np.exp(logs), LOG_PROBABILITY: logs})
        return _with_notes(frame, found)
    shown = shown_sets(model, table, items, columns, options)
    forecast = model.predict(shown.found.events, shown.found.items.inputs)
    frame = shown.frame.assign(**{PROBABILITY: shown.in_rows(forecast.p)})
    return _with_notes(frame, shown.found)


def load_sets(model: Predicts, source: Any, role: str) -> Table:
    """A table of sets of alternatives, read as the model knows its columns: where it knows "none of
    these", a row of nothing but separators is that.

    :raises ValueError: what `load` raises.
    """
    transform = model.duels.transform or NO_FEATURES
    return load(
        source,
        role,
        lambda header: (CHOICE_SET, ITEM_ID, *numbered(header, OPTION)),
        transform.categorical_columns,
        NONE in transform.raw_columns,
    )


class Shown(NamedTuple):
    """Sets of alternatives, a row of a table for each alternative."""

    frame: Any
    """The rows: those of a long table as they are; else the set, its columns and `item_id`."""
    found: SetsFound
    """The sets."""
    place: IntArray
    """(s,) the row of each side."""

    def in_rows(self, values: FloatArray) -> FloatArray:
        """Values (e, k) of the sides of each set as those of rows, (s,)."""
        there = np.arange(values.shape[1]) < np.diff(self.found.events.offsets)[:, None]
        result = np.empty(len(self.place))
        result[self.place] = values[there]
        return result


def shown_sets(
    model: Predicts, table: Table, items: Any, columns: Columns, options: dict[str, Any]
) -> Shown:
    """Sets in a table in which nobody needs to have chosen.

    :param table: without a column `choice_set` and without columns of options all its rows are one
        set.
    :param items: as for `read_sets`.
    :param columns: as for `read_sets`.
    :param options: of `read_choice_table`.
    :raises ValueError: what `read_sets` raises.
    """
    frame, name = table.frame, options.get(CHOICE_SET, CHOICE_SET)
    wide = options.get("options", numbered(list(frame.columns), OPTION))
    if not wide and name not in frame.columns:
        table = replace(table, frame=frame.assign(**{name: 1}))
    found = read_sets(model, "choices", table, items, columns, asked=True, **options)
    events = found.events
    if not wide:
        code, _ = require_pandas().factorize(table.frame[name].astype(str))
        return Shown(frame, found, np.argsort(code, kind="stable"))
    event = np.repeat(np.arange(len(events)), np.diff(events.offsets))
    rows = found.table.context.iloc[event].reset_index(drop=True)
    ids = [found.items.ids[i] for i in events.sides]
    return Shown(rows.assign(**{ITEM_ID: ids}), found, np.arange(len(rows)))


def _with_notes(frame: Any, found: SetsFound) -> Any:
    there = found.items.select(np.unique(found.events.sides))
    frame.attrs = {
        "outside_features": there.outside_features,
        "unknown_levels": there.unknown_levels,
    }
    return frame
