"""Duels and later ones as one set, between the items of both."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.words import shortened


def joined_duels(old: Duels, new: Duels) -> Duels:
    """The old duels and then the new ones.

    Rows of items are the same by their ids, or where there are none by features and number of the
    item (`Duels.item`); all others follow the old ones.

    :raises ValueError: other features, or an item with others than before; ids in one of them only;
        what `Answers.followed_by` raises.
    """
    new = new.in_units_of(old)
    if new.num_features != old.num_features or new.feature_names != old.feature_names:
        raise ValueError(
            f"The new duels have {new.num_features} features where the old ones have "
            f"{old.num_features}; give the same columns, by the same names."
        )
    if (old.item_ids is None) != (new.item_ids is None):
        raise ValueError(
            f"The {'new' if new.item_ids is None else 'old'} duels have no item ids, and the "
            "others have; give both (Duels(…, item_ids=…)), or neither."
        )
    if old.item_ids is None:
        rows = [np.column_stack([duels.items + 0.0, duels.item]) for duels in (old, new)]
        place = _placed(*([row.tobytes() for row in each] for each in rows))
        item = new.item
    else:
        place, item = _by_ids(old, new)
    added = np.flatnonzero(place >= old.num_items)
    ids: tuple[Hashable, ...] | None = None
    if old.item_ids is not None and new.item_ids is not None:
        ids = (*old.item_ids, *(new.item_ids[i] for i in added))
    given, item_rows = new.given, old.item_rows
    if item_rows is not None:
        others = new.item_rows
        item_rows = None if others is None else item_rows.followed_by(others.select(added))
    return Duels.from_events(
        np.concatenate([old.items, new.items[added]]),
        old.given.followed_by(given.saying(place[given.sides])),
        item=np.append(old.item, item[added]),
        item_ids=ids,
        feature_names=old.feature_names,
        transform=old.transform,
        item_rows=item_rows,
        people_features=old.people_features,
        roles=old.roles,
    )


def _by_ids(old: Duels, new: Duels) -> tuple[IntArray, IntArray]:
    """The row of each new row among all, and the number of its item."""
    assert old.item_ids is not None and new.item_ids is not None
    place = _placed(old.item_ids, new.item_ids)
    same = np.flatnonzero(place < old.num_items)
    other = (old.items[place[same]] != new.items[same]).any(axis=1)
    for i in same[other][:1]:
        raise ValueError(
            f"The item {shortened(new.item_ids[i])} has other features than before; give it those "
            "that it had, or the row another id and the same number (Duels(…, item=…))."
        )
    # Rows of one item share a number: known by another row of it, or by the name of the item.
    number: dict[Hashable, int] = {}
    if old.item_rows is not None:
        number |= {name: int(i) for name, i in zip(old.item_rows.names, old.item, strict=True)}
    of_new = {int(new.item[i]): int(old.item[place[i]]) for i in same}
    free, item = 1 + int(old.item.max()), np.empty(len(place), np.int64)
    item[same] = old.item[place[same]]
    for i in np.flatnonzero(place >= old.num_items):
        mine = int(new.item[i])
        if mine not in of_new:
            name = None if new.item_rows is None else new.item_rows.names[i]
            of_new[mine] = number.get(name, free) if name is not None else free
            free = max(free, 1 + of_new[mine])
        item[i] = of_new[mine]
    return place, item


def _placed(old: Sequence[Hashable], new: Sequence[Hashable]) -> IntArray:
    """Where new keys are among the old ones, all others following on these."""
    known = {key: i for i, key in enumerate(old)}
    place = np.array([known.get(key, -1) for key in new])
    fresh = np.flatnonzero(place < 0)
    place[fresh] = len(old) + np.arange(len(fresh))
    return place
