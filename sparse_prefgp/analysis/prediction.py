"""Predicted duels between the items of a table of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import special

from sparse_prefgp.checks import level_of_interval
from sparse_prefgp.io.files import load
from sparse_prefgp.io.reading import LOSER, WINNER
from sparse_prefgp.models.items import ItemSet, known_items

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FIRST, SECOND = "first", "second"
ADDED = ("probability", "difference", "sd", "lower", "upper", "outside_range")
# Pairs that are in TensorFlow at a time.
_PAIRS_AT_ONCE = 50_000


def predict(model: PreferenceGP, pairs: Any, items: Any = None, *, level: float = 0.95) -> Any:
    """Who wins, for pairs of items.

    Args:
        model: whose posterior counts.
        pairs: path or data frame with the columns `first` and `second`, or else `winner` and
            `loser`, which hold item ids.
        items: raw items, as `resolve_items` takes them; ids are looked up there first and then
            among the model's own items. By default the model's own alone.
        level: of the intervals.

    Returns:
        The pairs as a data frame, all columns as they are, with `probability` (that the first, or
        the winner, beats the second), `difference` (expected utility of the first less that of
        the second), `sd`, `lower` and `upper` (of that difference) and `outside_range` (either
        item outside the range of the training items). `frame.attrs` holds `level`,
        `negative_variances` (how many variances rounding had made negative; their sd is 0), and
        of the items in the pairs `outside_features` and `unknown_levels`.

    An item against itself has probability ½ and sd 0.

    Raises:
        ValueError: a missing column, one named like a column that is added, an unknown id (with
            its row), a level outside (0, 1), and what `resolve_items` raises.
    """
    level = level_of_interval(level)
    table = load(pairs, "pairs", sides_of)
    sides = sides_of(list(table.frame.columns))
    for name in sides:
        table.require(name)
    taken = next((name for name in ADDED if name in table.frame.columns), None)
    if taken is not None:
        raise ValueError(
            f"{table.name} has a column {taken!r}, which is the name of a column that is added; "
            "rename it."
        )
    found = known_items(model, items)
    first, second = (found.rows_in(table, name, "pair") for name in sides)
    log_p, mean, variance = predicted(model, found, first, second)
    negative = variance < 0.0
    sd = np.sqrt(np.where(negative, 0.0, variance))
    half_width = float(special.ndtri(0.5 + 0.5 * level)) * sd
    frame = table.frame.assign(
        probability=np.exp(log_p),
        difference=mean,
        sd=sd,
        lower=mean - half_width,
        upper=mean + half_width,
        outside_range=found.outside[first] | found.outside[second],
    )
    there = found.select(np.unique(np.concatenate([first, second])))
    frame.attrs = {
        "level": float(level),
        "negative_variances": int(negative.sum()),
        "outside_features": there.outside_features,
        "unknown_levels": there.unknown_levels,
    }
    return frame


def predicted(
    model: PreferenceGP, items: ItemSet, first: IntArray, second: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For pairs of rows of `items`: log probability that the first wins, in nats, and mean and
    variance of the difference of utilities, (N,) each, in bounded memory."""
    count = len(first)
    log_p, mean, variance = np.empty(count), np.empty(count), np.empty(count)
    twice_noise = 2.0 * float(model.noise_variance.numpy())
    for start in range(0, count, _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        a, b = items.inputs[first[part]], items.inputs[second[part]]
        found = model.predict_difference(a, b)
        # Not even rounding, nor an effect of its own for either side, parts an item from itself.
        same = first[part] == second[part]
        mean[part] = np.where(same, 0.0, found[0].numpy())
        variance[part] = np.where(same, 0.0, found[1].numpy())
        log_p[part] = special.log_ndtr(mean[part] / np.sqrt(variance[part] + twice_noise))
    return log_p, mean, variance


def sides_of(header: list[str]) -> tuple[str, str]:
    """Names of the columns with the two ids."""
    if FIRST not in header and SECOND not in header and (WINNER in header or LOSER in header):
        return WINNER, LOSER
    return FIRST, SECOND
