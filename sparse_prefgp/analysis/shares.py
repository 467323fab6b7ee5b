"""Shares of new sets: how many would choose each alternative, and how well that is known.

For utilities that are known, an alternative's share is an integral over its noise; a posterior of
utilities is a posterior of shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.alternatives import Shown, load_sets, shown_sets
from sparse_prefgp.data.events import CHOICE, Events
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.factors.choices import independent_choice_log_probabilities
from sparse_prefgp.io.answers import numbered
from sparse_prefgp.io.choices import CHOICE_SET, OPTION
from sparse_prefgp.io.files import ITEM_ID
from sparse_prefgp.models.posterior import SetPosterior
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import level_of_interval
from sparse_prefgp.support.randomness import generator, takes_seed

DRAWS = 2000
ADDED = ("share", "lower", "upper", "sd")
# Sets times draws times alternatives, at a time.
_AT_ONCE = 200_000


@dataclass(frozen=True, eq=False, repr=False)
class Shares:
    """Shares of the alternatives of sets; `print` shows them as text."""

    frame: Any
    """Data frame with a row for each alternative: what was given of it, and `share`, `lower`,
    `upper` (of the interval) and `sd`."""
    level: float
    """What share of the posterior the intervals hold."""
    draws: int
    """Of the posterior; the shares err by `sd / sqrt(draws)`."""
    sets: tuple[int, ...]
    """(rows,) the number of the set of each row."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings, ready for JSON."""
        return {
            "level": self.level,
            "draws": self.draws,
            "alternatives": self.frame.to_dict("records"),
        }

    def __repr__(self) -> str:
        return f"Shares({len(self.frame)} alternatives of {max(self.sets) + 1} sets)"

    def __str__(self) -> str:
        text = self.frame.to_string(index=False, float_format=lambda value: f"{value:.4g}")
        return (
            f"{text}\nShares with their {100 * self.level:g} % intervals, from {self.draws:,} draws"
        )


@takes_seed
def shares(
    model: Predicts,
    alternatives: Any,
    items: Any = None,
    *,
    level: float = 0.9,
    draws: int = DRAWS,
    rng: np.random.Generator | None = None,
    groups: str | None = None,
) -> Shares:
    """How many would choose each alternative of sets that nobody needs to have seen.

    Each of `draws` posterior draws of the utilities of a set gives the shares of its alternatives
    by one integral each (Train 2009, section 5.6): their mean is the share, their quantiles are the
    interval. "None of these" is an alternative like others. What the model has learned of noise is
    taken as it is.

    :param model: of choices, or of duels.
    :param alternatives: path or data frame with a row for each alternative: ids (`item_id`) or
        features, in one set, or in those that a column `choice_set` names; or columns `option_1`,
        `option_2`, …; or a list of ids, one set; or an array (k, D) or (sets, k, D) of features in
        the units of `model.duels.items`.
    :param items: raw items, as `predict` takes them.
    :param level: of the intervals.
    :param draws: how many.
    :param rng: draws them; by default a generator with seed 0.
    :param groups: name of the column that says who chooses, for a model with noise by group; by
        default shares are averaged over the prior of a group's noise.
    :return: The alternatives, their shares and intervals.
    :raises ValueError: a set of one alternative, `draws` below 2, a level outside (0, 1), columns
        named like those that are added, and what `predict` raises.
    """
    level = level_of_interval(level)
    if draws < 2:
        raise ValueError(f"draws is {draws}; give a whole number of at least 2.")
    rng = generator(np.random.default_rng(0) if rng is None else rng)
    if _is_array(alternatives):
        return _of_array(model, np.asarray(alternatives, np.float64), level, draws, rng)
    shown = _shown(model, alternatives, items, groups)
    found = shown.found
    who = found.groups_for(model)
    sets = model.set_posterior(found.items.inputs, found.events, who)
    each = _drawn(model, sets, who, draws, rng)
    columns = [shown.in_rows(values) for values in _summed(each, level)]
    frame = shown.frame.assign(**dict(zip(ADDED, columns, strict=True)))
    event = np.repeat(np.arange(len(found.events)), np.diff(found.events.offsets))
    number = np.empty(len(event), np.int64)
    number[shown.place] = event
    return Shares(frame, level, draws, tuple(number.tolist()))


def _is_array(alternatives: Any) -> bool:
    return isinstance(alternatives, np.ndarray) and alternatives.dtype.kind in "fiu"


def _shown(model: Predicts, alternatives: Any, items: Any, groups: str | None) -> Shown:
    pd = require_pandas()
    if isinstance(alternatives, Sequence) and not isinstance(alternatives, str):
        alternatives = pd.DataFrame({ITEM_ID: list(alternatives)})
    table = load_sets(model, alternatives, "alternatives")
    taken = next((name for name in ADDED if name in table.frame.columns), None)
    if taken is not None:
        raise ValueError(
            f"{table.name} has a column {taken!r}, which is the name of a column that is added; "
            "rename it."
        )
    table.refuse_empty("alternatives")
    wide = numbered(list(table.frame.columns), OPTION)
    if not wide and CHOICE_SET not in table.frame.columns and len(table.frame) < 2:
        raise ValueError(
            f"There is one alternative in {table.name}, which everybody chooses; give two or more."
        )
    return shown_sets(model, table, items, groups, {})


def _of_array(
    model: Predicts, x: FloatArray, level: float, draws: int, rng: np.random.Generator
) -> Shares:
    if x.ndim == 2:
        x = x[None]
    if x.ndim != 3 or x.shape[1] < 2 or not len(x):
        raise ValueError(
            f"alternatives has shape {x.shape}; give (k, D) or (sets, k, D), k of at least 2."
        )
    b, k = x.shape[:2]
    events = Events(
        np.arange(b * k),
        np.arange(0, b * k + 1, k),
        np.full(b, CHOICE, np.int8),
        np.ones(b, np.int64),
    )
    sets = model.set_posterior(x.reshape(b * k, -1), events)
    found = _summed(_drawn(model, sets, None, draws, rng), level)
    which, number = np.divmod(np.arange(b * k), k)
    frame = require_pandas().DataFrame({"set": which, "alternative": number})
    frame = frame.assign(**{name: v.reshape(-1) for name, v in zip(ADDED, found, strict=True)})
    return Shares(frame, level, draws, tuple(which.tolist()))


def _drawn(
    model: Predicts, sets: SetPosterior, groups: Any, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Shares of each alternative by draw, (draws, b, k)."""
    b, k = sets.mean.shape
    noise, weights = model.look_noise(groups, b)
    values, vectors = np.linalg.eigh(sets.covariance)
    # What is below 0 is rounding: a covariance of differences has at least one value of 0.
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    # The symmetric root and the same draws for each set: what else is in the table changes nothing.
    root = scaled @ vectors.transpose(0, 2, 1)
    normal = rng.standard_normal((k, draws)).T
    found = np.empty((draws, b, k))
    step = max(1, _AT_ONCE // (b * k))
    for start in range(0, draws, step):
        number = min(step, draws - start)
        z = normal[start : start + number]
        f = (sets.mean + np.einsum("bij,dj->dbi", root, z)).reshape(-1, k)
        mask = np.broadcast_to(sets.mask, (number, b, k)).reshape(-1, k)
        total = np.zeros((number, b, k))
        for each, weight in zip(noise, weights, strict=True):
            s = np.broadcast_to(each, (number, b)).reshape(-1)
            logs = independent_choice_log_probabilities(f, np.zeros_like(f), s, mask)
            total += weight[:, None] * np.exp(logs).reshape(number, b, k)
        found[start : start + number] = total
    return found


def _summed(each: FloatArray, level: float) -> tuple[npt.NDArray[Any], ...]:
    """Mean, lower and upper quantile and standard deviation over draws, (b, k) each."""
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(each, [tail, 1.0 - tail], axis=0)
    return each.mean(0), low, high, each.std(0, ddof=1)
