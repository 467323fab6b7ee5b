"""Items as rows of features, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.flags import IMPUTATION_HINT
from sparse_prefgp.support.arrays import AnyArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_shape
from sparse_prefgp.support.words import shortened

if TYPE_CHECKING:
    from sparse_prefgp.data.features import FeatureTransform


@dataclass(frozen=True, eq=False)
class Items:
    """n rows between which answers are, and what is known of them."""

    features: FloatArray
    """(n, D) in model units."""
    ids: tuple[Hashable, ...] | None = None
    """n distinct names of the rows; None without."""
    feature_names: tuple[str, ...] | None = None
    """D names; None without."""
    transform: FeatureTransform | None = None
    """How the features were made of a raw table; None where they were given as they are."""
    item: IntArray | None = None
    """(n,) which item each row is of, where an item in several contexts or at several dates has
    several rows; None where each is one.
    """
    item_rows: ItemRows | None = None
    """Names of these items, and the context of each row; None where each row is an item."""
    origin: tuple[Callable[..., Items], tuple[Any, ...]] | None = None
    """A function and the path and options of a file by which other processes read them again rather
    than being sent the features; None where they are sent."""

    @classmethod
    def of(
        cls,
        features: npt.ArrayLike,
        item_ids: Sequence[Hashable] | AnyArray | None = None,
        feature_names: Sequence[str] | None = None,
        transform: FeatureTransform | None = None,
        item: npt.ArrayLike | None = None,
        item_rows: ItemRows | None = None,
    ) -> Items:
        """The same, checked; features are a read-only copy.

        :raises ValueError: features that are not (n, D) finite numbers; names of the wrong number,
            or an id twice; `item` that is no whole number for each row.
        """
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        values = check_features(features, "items", names, may_lack=True)
        n, d = values.shape
        if names is not None and len(names) != d:
            raise ValueError(
                f"feature_names has {len(names)} names for {d} columns of items; give one per "
                "column."
            )
        ids = None if item_ids is None else _checked_ids(item_ids, n)
        values.setflags(write=False)
        return cls(values, ids, names, transform, _checked_item(item, n), item_rows)

    def __len__(self) -> int:
        return len(self.features)

    def __reduce__(self) -> Any:
        return self.origin or (type(self), tuple(getattr(self, one.name) for one in fields(self)))

    @property
    def num_features(self) -> int:
        """D, the number of feature columns."""
        return int(self.features.shape[1])

    def shown(self, row: int) -> str:
        """How a message names the item of a row."""
        return shortened(row if self.ids is None else self.ids[row])


def check_features(
    values: npt.ArrayLike,
    label: str,
    names: Sequence[str] | None = None,
    *,
    may_lack: bool = False,
) -> FloatArray:
    """A float64 copy of an (n, D) array of finite numbers; `may_lack`: D may be 0.

    :raises ValueError: not two-dimensional, no rows, no columns, text, or a value that is not
        finite; rows and columns are counted from 0.
    """
    try:
        raw = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{label} has rows of unequal length; give a two-dimensional array (rows, features)."
        ) from None
    lacking = may_lack and raw.ndim == 2 and raw.shape[1] == 0
    check_shape(label, raw, "rows", 0 if lacking else "features")

    def column(j: int) -> str:
        named = names is not None and j < len(names)
        return f"column {j} ({names[j]!r})" if named and names is not None else f"column {j}"

    if raw.dtype.kind in "biuf":
        result = np.array(raw, dtype=np.float64, order="C")
    else:
        result = np.empty(raw.shape, dtype=np.float64)
        for (i, j), value in np.ndenumerate(raw):
            try:
                if isinstance(value, complex):  # numpy would drop the imaginary part
                    raise TypeError
                result[i, j] = float(value)
            except (OverflowError, TypeError, ValueError):
                raise ValueError(
                    f"{label} has {shortened(value)} in row {i}, {column(j)}; give numbers of "
                    "double precision, or read a table with categories through read_duels."
                ) from None
    bad = np.argwhere(~np.isfinite(result))
    if len(bad):
        i, j = (int(k) for k in bad[0])
        raise ValueError(f"{label} has {result[i, j]} in row {i}, {column(j)}; {IMPUTATION_HINT}.")
    return result


def _checked_ids(item_ids: Sequence[Hashable] | AnyArray, n: int) -> tuple[Hashable, ...]:
    try:
        ids = tuple(item_ids.tolist() if isinstance(item_ids, np.ndarray) else item_ids)
    except TypeError:
        raise ValueError(
            f"item_ids is of type {type(item_ids).__name__}; give a list with one id per item."
        ) from None
    if len(ids) != n:
        raise ValueError(f"item_ids has {len(ids)} entries for {n} items; give one per item.")
    seen: set[Hashable] = set()
    for i, value in enumerate(ids):
        try:
            repeated = value in seen
        except TypeError:
            raise ValueError(
                f"item_ids has {shortened(value)} of type {type(value).__name__} in row {i}, which "
                "cannot be an id; give texts or integers."
            ) from None
        if repeated:
            raise ValueError(
                f"item_ids has {shortened(value)} more than once; give every item its own id."
            )
        seen.add(value)
    return ids


def _checked_item(item: npt.ArrayLike | None, n: int) -> IntArray | None:
    if item is None:
        return None
    found = np.asarray(item)
    if found.shape != (n,) or found.dtype.kind not in "iu":
        raise ValueError(
            f"item has shape {found.shape} and type {found.dtype} for {n} rows; give the number of "
            "the item of each."
        )
    number = found.astype(np.int64)
    number.setflags(write=False)
    return None if np.array_equal(number, np.arange(n)) else number
