"""Items of a raw table, an array or the model itself, ready for its predictions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import NO_FEATURES, FeatureTransform, text_column, texts_in
from sparse_prefgp.data.items import check_features
from sparse_prefgp.data.roles import ORDER
from sparse_prefgp.io.answers import NONE
from sparse_prefgp.io.files import Table, id_text, load_items
from sparse_prefgp.io.ids import Ids, rows_by_number
from sparse_prefgp.io.judgements import item_names
from sparse_prefgp.io.texts import features_like
from sparse_prefgp.io.values import OWN_ITEMS
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.words import agreeing, counted

Texts = npt.NDArray[np.object_]
# Standardised values of one raw value, read or computed twice, differ by less.
ROUNDING = 1e-9
UNKNOWN_LEVEL = "(none of the known levels)"
RAW_DIGITS = 12
# Scores of a reduction, which are rounded to single precision.
SINGLE = 1e-6
# So many training items stand for all, and so many others say how far is usual: an item is far if
# it is farther from its nearest one than this share of the training items.
REFERENCES, OTHERS, USUAL = 5000, 2000, 0.99


@dataclass(frozen=True, eq=False, repr=False)
class ItemSet:
    """Items in the form a model predicts them, with what the model knows about each."""

    ids: tuple[Hashable, ...]
    """n ids, in row order."""
    inputs: FloatArray
    """(n, D) features in model units; (n, D + 1) for a model with item effects, the last column
    being `numbers`. Ready for `predict_f`, `predict_duel`, `predict_difference`.
    """
    numbers: IntArray
    """(n,) row of each item in `model.duels.items`, -1 where the model does not know it."""
    comparisons: IntArray
    """(n,) training duels of each item, counts included."""
    outside_by_feature: Mapping[str, BoolArray]
    """For each raw feature, (n,) whether the item lies outside the range of the training items that
    took part in duels, or has a level that none of them had; features without such an item are left
    out. Of reduced features, whether it is farther from these items than they are from each other,
    see `far_from`.
    """
    levels_never_seen: Mapping[str, Texts] = field(default_factory=dict)
    """For each categorical column with some, (n,) the levels that the model does not know, else
    empty."""
    name: str = "the items"
    """How a message names where the items are from."""
    rows: ItemRows | None = None
    """Of which item each row is, and in which context; None where each is an item."""
    texts: Mapping[str, Texts] = field(default_factory=dict)
    """For each column of texts, (n,) those of the items, empty of items that the model alone knows,
    as it keeps none; without columns where no table gave any.
    """

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def names(self) -> Sequence[Hashable]:
        """(n,) the name of the item of each row."""
        return self.ids if self.rows is None else self.rows.names

    def __repr__(self) -> str:
        known, outside = int((self.numbers >= 0).sum()), int(self.outside.sum())
        return (
            f"ItemSet({len(self)} items, {known} known to the model, {outside} outside its range)"
        )

    @cached_property
    def outside(self) -> BoolArray:
        """(n,) whether any feature lies outside the range of the training items."""
        nowhere = np.zeros(len(self), dtype=bool)
        return np.logical_or.reduce([nowhere, *self.outside_by_feature.values()])

    @property
    def outside_features(self) -> dict[str, int]:
        """How many items lie outside, for each raw feature that has any."""
        return {name: int(mask.sum()) for name, mask in self.outside_by_feature.items()}

    @property
    def outside_of_items(self) -> dict[str, list[str]]:
        """The raw features in which each item lies outside, for each item that does in any."""
        found: dict[str, list[str]] = {}
        for name, mask in self.outside_by_feature.items():
            for i in np.flatnonzero(mask):
                found.setdefault(id_text(self.ids[i]), []).append(name)
        return found

    @property
    def unknown_levels(self) -> dict[str, dict[str, int]]:
        """How many items have each level that the model does not know, per categorical column."""
        return {
            name: dict(Counter(filter(None, levels)))
            for name, levels in self.levels_never_seen.items()
        }

    @cached_property
    def lookup(self) -> dict[str, int]:
        """Row of each id as text.

        :raises ValueError: two ids that read alike.
        """
        rows: dict[str, int] = {}
        for i, value in enumerate(self.ids):
            text = id_text(value)
            if text in rows:
                raise ValueError(
                    f"The ids {self.ids[rows[text]]!r} and {value!r} of {self.name} read alike as "
                    "text; rename one of them."
                )
            rows[text] = i
        return rows

    @cached_property
    def by_id(self) -> Ids:
        """Finds the row of an id, by the rule for the ids of files.

        :raises ValueError: two ids that read alike.
        """
        return Ids(self.lookup, self.name)

    def select(self, rows: npt.ArrayLike) -> ItemSet:
        """The items in these rows (numbers, or a mask of length n), in that order."""
        index = np.asarray(rows)
        chosen = np.arange(len(self))[index if index.size else np.empty(0, dtype=np.int64)]
        return replace(
            self,
            ids=tuple(self.ids[i] for i in chosen),
            inputs=self.inputs[chosen],
            numbers=self.numbers[chosen],
            comparisons=self.comparisons[chosen],
            outside_by_feature=_with_any(self.outside_by_feature, chosen),
            levels_never_seen=_with_any(self.levels_never_seen, chosen),
            rows=None if self.rows is None else self.rows.select(chosen),
            texts=_with_any(self.texts, chosen),
        )

    def followed_by(self, other: ItemSet) -> ItemSet:
        """These items and then those of `other` that are not among them, by id and by number."""
        known = set(self.lookup)
        here = (other.numbers >= 0) & np.isin(other.numbers, self.numbers)
        more = other.select(
            [i for i, id in enumerate(other.ids) if not here[i] and id_text(id) not in known]
        )
        if len(more) == 0:
            return self

        def joined(field: str, fill: Any) -> dict[str, Any]:
            each = [(getattr(part, field), np.full(len(part), fill)) for part in (self, more)]
            return {
                name: np.concatenate([columns.get(name, nothing) for columns, nothing in each])
                for name in dict.fromkeys([*each[0][0], *each[1][0]])
            }

        return ItemSet(
            self.ids + more.ids,
            np.concatenate([self.inputs, more.inputs]),
            np.concatenate([self.numbers, more.numbers]),
            np.concatenate([self.comparisons, more.comparisons]),
            joined("outside_by_feature", False),
            joined("levels_never_seen", ""),
            f"{self.name} or {other.name}",
            self.rows
            if self.rows is None or more.rows is None
            else self.rows.followed_by(more.rows),
            joined("texts", ""),
        )


def resolve_items(model: Predicts, items: Any = None) -> ItemSet:
    """Items as the model takes them.

    An id of a raw table that the model knows (compared as text) names the known item, with the
    features of the table.

    :param model: whose features, known ids, duels and recorded transform count.
    :param items: None for the model's own; a path or data frame of raw items, as `read_items`; an
        (n, D) array of unknown items in the units of `model.duels.items`, with ids 0, 1, …; or an
        `ItemSet`, which is returned as it is.
    :raises ValueError: a raw table for a model that records no transform; the wrong number of
        columns; what `read_items` raises.
    """
    if isinstance(items, ItemSet):
        return items
    if items is None:
        return own_items(model)
    duels = model.duels
    if is_array(items):
        lacking = not duels.num_features
        features = check_features(items, "items", duels.feature_names, may_lack=lacking)
        if features.shape[1] != duels.num_features:
            raise ValueError(
                f"items has {features.shape[1]} columns, but the model has {duels.num_features} "
                "features; give the same columns in the units of model.duels.items."
            )
        n = len(features)
        return _item_set(model, tuple(range(n)), features, np.full(n, -1), "the array of items")
    transform = NO_FEATURES if duels.num_features == 0 else duels.transform
    if transform is None:
        raise together.refused(no_transform=True, raw_items=True)
    table, own = load_items(items, transform.categorical_columns), duels.item_rows
    if NONE not in table.frame.columns and len(none_of(duels)) == 1:
        table = replace(table, frame=table.frame.assign(**{NONE: 0.0}))
    ids, lookup = table.ids()
    features = features_like(table, transform, duels.roles.get(ORDER))
    said: dict[str, Any] = {"levels_never_seen": unknown_levels(duels, features, table.frame)}
    if own is None:
        said["texts"] = {
            name: np.array(texts_in(table.frame, name), dtype=object)
            for name in transform.text_columns
        }
    else:
        values = np.empty((len(ids), len(own.columns)), dtype=object)
        for j, name in enumerate(own.columns):
            values[:, j] = [id_text(value) for value in table.frame[name]]
        named = named_rows(duels, table, ids)
        said["rows"] = replace(own, names=named, bases=ids, values=values)
    return _item_set(model, ids, features, _known_numbers(model, lookup), table.name, **said)


def described_items(model: Predicts, table: Table, none: BoolArray) -> ItemSet:
    """Items that a raw table describes and names only by the numbers of its rows.

    One with the features of an item that the model knows, and the same name where items have one,
    is that item.

    :param none: (n,) which are "none of these", whose features are those that the model has of it.
    :raises ValueError: a model that records no feature transform, and what it raises; a model in
        which not exactly one item is none.
    """
    duels = model.duels
    if duels.transform is None:
        raise together.refused(no_transform=True, raw_items="a raw table of alternatives")
    ids, _ = table.ids()
    features = features_like(table, duels.transform, duels.roles.get(ORDER))
    if none.any():
        own_none = none_of(duels)
        if len(own_none) != 1:
            raise ValueError(
                f"There is no attribute in {table.row(int(np.argmax(none)))}, which may be none of "
                f"these, but {len(own_none) or 'no'} items of the model are; give its attributes."
            )
        features[none] = own_none
    rows, own = None, duels.item_rows
    said, own_said = [""] * len(ids), [""] * duels.num_items
    if own is not None and own.column is not None:
        names, no_context = named_rows(duels, table, ids), np.empty((len(ids), 0), dtype=object)
        rows = ItemRows(names, ids, (), (), no_context, own.column)
        said, own_said = list(map(id_text, names)), list(map(id_text, own.names))
    known = {}
    if duels.has_items:
        each = zip(own_said, duels.items + 0.0, strict=True)
        known = {(name, row.tobytes()): i for i, (name, row) in enumerate(each)}
    each = zip(said, features + 0.0, strict=True)
    numbers = np.array([known.get((name, row.tobytes()), -1) for name, row in each], np.int64)
    unknown = unknown_levels(duels, features, table.frame)
    return _item_set(model, ids, features, numbers, table.name, rows, levels_never_seen=unknown)


def none_of(duels: Duels) -> FloatArray:
    """The features of the items of a model that are "none of these", (0 or more, D)."""
    transform = duels.transform or NO_FEATURES
    if NONE not in transform.numeric or not duels.has_items:
        return np.empty((0, duels.num_features))
    j = transform.numeric.index(NONE)
    is_none = duels.items[:, j] * transform.scale[j] + transform.mean[j] > 0.5
    return np.unique(duels.items[is_none], axis=0)


def far_sentences(
    outside: int, features: Mapping[str, int], levels: Mapping[str, Mapping[str, int]], what: str
) -> list[str]:
    """That items lie outside the range of the training items, or have levels never seen.

    :param outside: how many, in any of the `features`, of which each has so many.
    :param levels: how many have each, per column.
    :param what: one of the items, in words.
    """
    each = ", ".join(f"{name} {count:,}" for name, count in features.items())
    told = [
        f"{counted(outside, what)} {agreeing(outside, 'lies', 'lie')} outside the range of the "
        f"training items ({each})."
    ]
    for name, counts in levels.items():
        shown = ", ".join(f"{level!r} {count:,}" for level, count in list(counts.items())[:5])
        told.append(f"Levels of {name} never seen in training count as none of the known: {shown}.")
    return told if outside else told[1:]


def unknown_levels(duels: Duels, features: FloatArray, frame: Any) -> dict[str, Texts]:
    """`levels_never_seen` of the items of a data frame."""
    known = [(name, block.any(1)) for name, block in _level_blocks(duels, features)]
    reduced = (duels.transform or NO_FEATURES).reduced
    if reduced is not None:
        inputs = reduced.inputs
        for name, levels in zip(inputs.categorical, inputs.categories, strict=True):
            text = text_column(frame, name, levels=levels).astype(str)
            known.append((name, np.isin(text, levels)))
    return {
        name: np.where(there, "", [*map(str, frame[name])]).astype(object)
        for name, there in known
        if not there.all()
    }


def named_rows(duels: Duels, table: Table, ids: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """The item that each row of a raw table is of.

    :raises ValueError: no such column, where the model has items by a column.
    """
    column = None if duels.item_rows is None else duels.item_rows.column
    return ids if column is None else item_names(table, column)


def of_rows(
    model: Predicts,
    ids: tuple[Hashable, ...],
    features: FloatArray,
    rows: ItemRows,
    unknown: Mapping[str, Texts],
    name: str,
) -> ItemSet:
    """Items in contexts, known by the ids of their rows."""
    texts = [id_text(value) for value in ids]  # some may be there several times
    lookup = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    numbers = _known_numbers(model, lookup)[[lookup[text] for text in texts]]
    unknown = _with_any(unknown)
    return _item_set(model, ids, features, numbers, name, rows, levels_never_seen=unknown)


def is_array(items: Any) -> bool:
    """Whether items are given as an array, a tensor or lists, not as a table or its path."""
    return isinstance(items, (np.ndarray, list, tuple)) or hasattr(items, "numpy")


def known_items(model: Predicts, items: Any = None) -> ItemSet:
    """The given items, and after them those of the model that are not among them."""
    if items is None:
        return own_items(model)
    given = resolve_items(model, items)
    return given.followed_by(own_items(model)) if model.duels.has_items else given


def items_of(model: Predicts, duels: Duels) -> ItemSet:
    """The items of other duels in model units: known by id where both have ids, or as a whole
    where both have equal items and no ids, else unknown.

    :raises ValueError: another number of features, and what `features_in_units_of` raises.
    """
    own, numbers = model.duels, np.full(duels.num_items, -1)
    features = features_in_units_of(own, duels.items, duels.transform)
    given = resolve_items(model, features)
    if duels.item_ids is not None and own.item_ids is not None:
        numbers = _known_numbers(model, {id_text(id): i for i, id in enumerate(duels.item_ids)})
    elif duels.item_ids is None and own.item_ids is None and np.array_equal(features, own.items):
        numbers = np.arange(duels.num_items)
    ids = given.ids if duels.item_ids is None else duels.item_ids
    rows = duels.item_rows
    return _item_set(model, ids, features, numbers, "the items of the duels", rows)


def numbered_inputs(model: Predicts, items: ItemSet) -> FloatArray:
    """Inputs of the items; each unknown one has an effect, and so a number, of its own."""
    if not model.inputs.layout.numbered:
        return items.inputs
    item = np.arange(len(items))
    if items.rows is not None:
        item = np.unique([id_text(name) for name in items.rows.names], return_inverse=True)[1]
    numbers = items.inputs[:, -1]
    own = np.where(numbers < 0, -1.0 - item.reshape(-1), numbers)
    found = np.column_stack([items.inputs[:, :-1], own])
    return model.in_time.with_dates(found) if model.inputs.layout.dated else found


def features_in_units_of(
    own: Duels, features: FloatArray, transform: FeatureTransform | None
) -> FloatArray:
    """Features of other items, (n, D), in the units of a model's duels.

    Features that another transform made are converted by way of the raw values; equal ones of the
    model and of the new items come out equal to the bit.

    :param own: the duels of the model, or what stands for them where they are streamed.
    :param features: (n, E).
    :param transform: how they were made, as recorded next to them; None says that they are in the
        units of the model.
    :raises ValueError: a recorded transform along with a model that has none, unless the items are
        the model's own; what `FeatureTransform.convert` raises.
    """
    if transform is None or transform == own.transform:
        return features
    if own.transform is None:
        if np.array_equal(features, own.items):
            return features
        raise together.refused(no_transform=True, raw_items="duels that record a transform")
    converted = own.transform.convert(features, transform)
    for values, known in zip(converted.T, own.items.T, strict=True):  # the columns, in place
        levels = np.unique(known)
        place = np.searchsorted(levels, values)
        for near in (np.minimum(place, len(levels) - 1), np.maximum(place - 1, 0)):
            equal = np.abs(values - levels[near]) <= ROUNDING * (1.0 + np.abs(values))
            values[equal] = levels[near][equal]
    return converted


def own_items(model: Predicts) -> ItemSet:
    """The items of `model.duels`, compared or not.

    :raises ValueError: a model of streamed duels with inline features, which have no items.
    """
    together.check(features_of_sides=not model.duels.has_items, own_items=True)
    n = model.duels.num_items
    ids = tuple(range(n)) if model.duels.item_ids is None else model.duels.item_ids
    numbers, rows = np.arange(n), model.duels.item_rows
    return _item_set(model, ids, model.duels.items, numbers, OWN_ITEMS, rows)


def feature_columns(duels: Duels) -> tuple[str, ...]:
    """The raw feature that each of the D columns of `duels.items` belongs to."""
    if duels.transform is not None:
        return duels.transform.columns_made_of
    if duels.feature_names is not None:
        return duels.feature_names
    return tuple(f"column {j}" for j in range(duels.num_features))


class FeaturePart(NamedTuple):
    """What a raw feature is of the columns of `duels.items`."""

    name: str
    columns: IntArray
    """The columns that it has a part in."""
    own: FloatArray | None = None
    """Its part of a step in these columns is the step times this matrix, as they are directions
    that several features have made; None where the columns are its own.
    """

    def taken_over(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Items (…, D) `start` with this feature of the items `end`."""
        found, here = np.array(start), self.columns
        if self.own is None:
            found[..., here] = end[..., here]
        else:
            found[..., here] += (end[..., here] - start[..., here]) @ self.own
        return found


def feature_parts(duels: Duels) -> list[FeaturePart]:
    """All raw features; those that were reduced share their directions.

    An item keeps no more of them than its scores y = x V, where the rows V_b of the directions
    belong to the feature b. The columns of b that the scores tell are y V_b', so that taking b
    over from another item is a step of (y' - y) V_b' V_b.
    """
    names = np.array(feature_columns(duels), dtype=object)
    reduced = (duels.transform or NO_FEATURES).reduced
    found: list[FeaturePart] = []
    for name in dict.fromkeys(names):
        columns = np.flatnonzero(names == name)
        if reduced is None or name != reduced.label:
            found.append(FeaturePart(str(name), columns))
            continue
        parts = reduced.reduction.projectors()
        found += [FeaturePart(block, columns, own) for block, own in parts.items()]
    return found


def _item_set(
    model: Predicts,
    ids: tuple[Hashable, ...],
    features: FloatArray,
    numbers: IntArray,
    name: str,
    rows: ItemRows | None = None,
    **said: Any,
) -> ItemSet:
    duels, inputs = model.duels, features
    compared = duels.comparisons
    comparisons = np.where(numbers >= 0, compared[np.maximum(numbers, 0)], 0)
    if model.inputs.layout.numbered:
        inputs = np.column_stack([features, numbers_in_training(duels, numbers, rows)])
    outside = _outside(duels, features, numbers, np.flatnonzero(compared))
    return ItemSet(ids, inputs, numbers, comparisons, outside, name=name, rows=rows, **said)


def numbers_by_name(duels: Duels) -> dict[str, int]:
    """The number of each item that has rows of its own, by its name as text; empty where each row
    is an item."""
    names = () if duels.item_rows is None else duels.item_rows.names
    return dict(zip(map(id_text, names), duels.item.tolist(), strict=False))


def numbers_in_training(duels: Duels, numbers: IntArray, rows: ItemRows | None) -> IntArray:
    """The number that training duels have for the item of each row, (n,); -1 for others.

    :param numbers: (n,) which of their rows each is, -1 for others.
    """
    found = np.where(numbers < 0, -1, duels.item[np.maximum(numbers, 0)])
    if rows is not None and duels.item_rows is not None:
        known = numbers_by_name(duels)
        for i in np.flatnonzero(numbers < 0):
            found[i] = known.get(id_text(rows.names[i]), -1)
    return found


def raw_value(duels: Duels, name: str, entries: FloatArray) -> float | str:
    """A feature of one item as it was in the raw table, where the transform allows; of what was
    reduced nothing, as the model does not keep it.

    :param entries: those of the columns that it has.
    """
    transform = duels.transform
    if transform is None:
        return float(entries[0]) + 0.0
    units = transform.units(name)
    if units is not None:
        mean, scale = units
        # Standardising keeps about so many digits; the others would be noise.
        decimals = RAW_DIGITS - math.floor(math.log10(abs(mean) + scale))
        return round(float(entries[0]) * scale + mean, decimals) + 0.0  # never -0.0
    if name not in transform.categorical:
        return ""
    levels = transform.levels(name)
    if not entries.any():
        return UNKNOWN_LEVEL
    if entries.sum() == 1.0 and entries.max() == 1.0:
        return levels[int(entries.argmax())]
    return ", ".join(f"{x:g} {level}" for x, level in zip(entries, levels, strict=True) if x)


def _outside(
    duels: Duels, features: FloatArray, numbers: IntArray, compared: IntArray
) -> dict[str, BoolArray]:
    rows = duels.items[compared]
    low, high = rows.min(0), rows.max(0)
    found: dict[str, BoolArray] = {}
    columns, reduced = feature_columns(duels), (duels.transform or NO_FEATURES).reduced
    if reduced is not None:
        # Nearly every new item is the utmost in some of many directions.
        columns = columns[: -reduced.size]
        away = np.zeros(len(features), dtype=bool)
        new = duels.comparisons == 0
        if features is not duels.items:  # else they are training items as they were then
            known = np.flatnonzero(numbers >= 0)
            ours, place = features[known], numbers[known]
            new = np.ones(len(features), dtype=bool)
            new[known] = (duels.comparisons[place] == 0) | (ours != duels.items[place]).any(axis=1)
        away[new] = far_from(rows[:, -reduced.size :], features[new, -reduced.size :])
        found[reduced.label] = away
    for j, name in enumerate(columns):
        beyond = (features[:, j] < low[j]) | (features[:, j] > high[j])
        found[name] = found[name] | beyond if name in found else beyond
    for name, block in _level_blocks(duels, features):
        found[name] |= ~block.any(1)
    return _with_any(found)


def _with_any(columns: Mapping[str, Any], rows: Any = slice(None)) -> dict[str, Any]:
    """Some rows of columns, of those columns that say anything of these."""
    some = {name: values[rows] for name, values in columns.items()}
    return {name: values for name, values in some.items() if values.any()}


def _level_blocks(duels: Duels, features: FloatArray) -> list[tuple[str, FloatArray]]:
    """The 0/1 columns of each categorical column; all zero where the level is unknown."""
    transform = duels.transform or NO_FEATURES
    ends = np.cumsum([len(transform.numeric), *map(len, transform.categories)])
    blocks = (features[:, start:end] for start, end in pairwise(ends))
    return list(zip(transform.categorical, blocks, strict=True))


def _known_numbers(model: Predicts, lookup: dict[str, int]) -> IntArray:
    """Row in the model's items of each row of a raw table, -1 for an id it does not know."""
    if not model.duels.has_items:
        return np.full(len(lookup), -1, dtype=np.int64)
    ids: Sequence[Hashable] = model.duels.item_ids or range(model.duels.num_items)
    known = {id_text(value): i for i, value in enumerate(ids)}
    # As for the ids of duels: 007 is 7 where neither side leaves a doubt.
    theirs, alone = Ids(known), set(rows_by_number(lookup).values())
    numbers = np.full(len(lookup), -1, dtype=np.int64)
    for text, row in lookup.items():
        found = theirs.find(text) if row in alone else known.get(text)
        numbers[row] = -1 if found is None else found
    return numbers


def far_from(training: FloatArray, features: FloatArray) -> BoolArray:
    """Which of N items have no training item as near as training items have.

    Of a hundred features one is always outside its range; what tells is the distance to the nearest
    training item, against those that training items have from each other.

    :param training: (n, D) features of the training items, in any order; of more than 7,000 some
        that are evenly spaced stand for all.
    :param features: (N, D).
    :return: (N,) whether the distance to the nearest training item is above that of 99 % of the
        training items to their nearest other one.
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(training)
    if n < 2 or not len(features):
        return np.zeros(len(features), dtype=bool)
    rows, others = training.astype(np.float32), None
    if n > REFERENCES:
        at = np.unique(np.linspace(0, n - 1, REFERENCES).astype(np.int64))
        rest = np.setdiff1d(np.arange(n), at)
        rows, others = rows[at], rows[rest[:: max(1, len(rest) // OTHERS)]]
    # Of training items themselves, where there are no others, the nearest is another one.
    nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(rows).kneighbors
    usual, away = (nearest(some)[0][:, 0] for some in (others, features.astype(np.float32)))
    found: BoolArray = away > np.quantile(usual.astype(np.float64), USUAL)
    return found
