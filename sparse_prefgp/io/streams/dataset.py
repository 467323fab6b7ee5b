"""Rows of a `tf.data.Dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparse_prefgp.io.judgements import (
    COUNT,
    LOSER,
    WINNER,
    Roles,
    context_columns,
    covariate_columns,
)
from sparse_prefgp.io.streams.blocks import (
    NO_ROLES,
    SIDES,
    UNREAD,
    Rows,
    Source,
    named_columns,
    remedy,
)
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_choice

# Counted at a time, where a dataset does not know how many it has.
_ROWS = 1 << 18


class DatasetRows(Source):
    """The elements of a `tf.data.Dataset`: mappings with the keys `winner`, `loser` and perhaps
    `count` and `tie`, or tuples of the first three; the sides are ids or (D,) features. Batched or
    not. roles: the keys that say more."""

    def __init__(
        self, dataset: Any, roles: Roles = NO_ROLES, context: tuple[str, ...] = ()
    ) -> None:
        spec = dataset.element_spec
        if isinstance(spec, tuple) and len(spec) in (2, 3):
            dataset = dataset.map(lambda *x: dict(zip((*SIDES, COUNT), x, strict=False)))
            spec = dataset.element_spec
        if not isinstance(spec, dict) or not {*SIDES} <= set(spec):
            raise ValueError(
                f"The dataset has elements {spec}; give mappings with the keys 'winner' and "
                "'loser', or tuples of both."
            )
        for name, what in named_columns(roles):
            check_choice(f"The key of {what}", name, sorted(spec), " (the dataset)")
        self.covariate_columns = covariate_columns(sorted(spec), roles.covariates, self.name)
        lost = next((key for key in UNREAD if key in spec and key != roles.weight), None)
        if lost is not None:
            raise ValueError(
                f"The dataset has elements with {lost!r}, which nothing was said of; "
                f"{remedy(lost)}, or leave it out with dataset.map."
            )
        self.roles, self.context = roles, context
        self.context_pairs = context_columns(sorted(spec), context, self.name)
        rank = spec[WINNER].shape.rank
        numeric = spec[WINNER].dtype.is_floating
        if rank is None or rank - numeric not in (0, 1) or spec[LOSER].shape.rank != rank:
            raise ValueError(
                f"The dataset has winners of shape {spec[WINNER].shape} and losers of shape "
                f"{spec[LOSER].shape}; give ids, or vectors of features of floating type."
            )
        self._dataset = dataset.unbatch() if rank - numeric == 1 else dataset
        if numeric:
            winner, loser = (spec[side].shape[-1] for side in SIDES)
            if winner is None or winner != loser:
                raise ValueError(
                    f"The dataset has winners of {winner} features and losers of {loser}; give "
                    "both sides the same features, and their number with tf.ensure_shape."
                )
            self.inline = tuple(f"x{j}" for j in range(winner))
        self._rows: int | None = None

    name = "the dataset"

    def count_rows(self) -> int:
        if self._rows is None:
            known = int(self._dataset.cardinality())
            if known < 0:  # unknown, or infinite
                if known == -1:
                    raise ValueError("The dataset never ends; take(n) a number of duels of it.")
                known = sum(len(next(iter(batch.values()))) for batch in self._batched(_ROWS))
            self._rows = known
        return self._rows

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        for batch in self._batched(size, start, stop - start):
            if self.inline is None:
                yield {name: _texts(values) for name, values in batch.items()}
                continue
            columns = {name: _texts(values) for name, values in batch.items() if name not in SIDES}
            for side in SIDES:
                columns |= {
                    f"{side}_{x}": v for x, v in zip(self.inline, batch[side].T, strict=True)
                }
            yield columns

    def _batched(self, size: int, skip: int = 0, take: int = -1) -> Iterator[dict[str, Any]]:
        import tensorflow as tf

        try:
            yield from self._dataset.skip(skip).take(take).batch(size).as_numpy_iterator()
        except tf.errors.OpError as error:
            # Without the node of the graph that TensorFlow begins with.
            reason = error.message.strip().partition("\n")[0].rpartition("}} ")[2].rstrip(".")
            raise ValueError(
                f"The dataset fails while it is read ({reason}); make it give all of its duels."
            ) from None

    def where(self, row: int) -> str:
        return f"element {row} of the dataset (counted from 0)"

    def __reduce__(self) -> Any:
        raise together.refused(scheduler=True, held_here="a tf.data.Dataset")


def _texts(values: Any) -> Any:
    """Bytes as texts, and all else as it is."""
    if values.dtype.kind not in "OS":
        return values
    return np.array([x.decode() if isinstance(x, bytes) else x for x in values])
