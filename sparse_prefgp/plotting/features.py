"""Features: their names and raw units, and how much each matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import NO_FEATURES
from sparse_prefgp.plotting.canvas import (
    BLUE,
    GREY,
    NAME_WIDTH,
    PALE,
    SMALL,
    FloatArray,
    axes_or_new,
    draw_intervals,
    set_rows,
    shortened_name,
    utility_label,
)
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.randomness import generator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparse_prefgp.models import PreferenceGP

SWAPS, LEAST_SWAPS = 2000, 200
MOST_PREDICTIONS = 200_000
_AT_ONCE = 16_384
LEANS_AT_AN_END = 10


@dataclass(frozen=True)
class FeatureScale:
    """A column of `duels.items`: its name, and how to bring values back to raw units."""

    name: str
    mean: float = 0.0
    scale: float = 1.0

    def raw(self, values: npt.ArrayLike) -> FloatArray:
        """Values in raw units, of the same shape; as they are without a transform."""
        return np.asarray(values, dtype=np.float64) * self.scale + self.mean


def feature_scales(duels: Duels) -> list[FeatureScale]:
    """One per column of `duels.items`; levels of categorical columns stay 0 and 1."""
    names = duels.feature_names or [f"feature {j + 1}" for j in range(duels.num_features)]
    transform = duels.transform or NO_FEATURES
    units = dict(enumerate(zip(transform.mean, transform.scale, strict=True)))
    return [FeatureScale(name, *units.get(j, ())) for j, name in enumerate(names)]


def compared_items(duels: Duels) -> IntArray:
    """Rows of the items that took part in at least one duel, ascending."""
    return np.unique(duels.events.sides)


def feature_relevance(
    model: PreferenceGP, *, swaps: int | None = None, rng: np.random.Generator | None = None
) -> tuple[tuple[str, ...], FloatArray]:
    """How much the mean utility depends on each feature, in units of utility.

    A compared item gets the value of another one in one feature alone; half the mean square of
    the change of its posterior mean utility is the variance that this feature brings in, alone and
    through interactions (the total effect, Jansen 1999). Its square root is the relevance. For a
    linear utility it is |weight| times the standard deviation of the feature over the items, and
    it means the same for any kernel or sum of kernels. The levels of a categorical column are
    swapped together, and so are the numbers of a vector; of what was reduced that part is swapped
    which the scores tell. Swaps may make items that nobody has seen where features hang together.

    :param model: any model; with item effects each item keeps its own.
    :param swaps: pairs of items per feature; when all pairs are no more than that, each is used.
        None is 2,000, and fewer, at least 200, from 100 features on.
    :param rng: of the choice of pairs.
    :return: Names (G,) and relevances (G,), raw columns in the order of the features.
    :raises ValueError: fewer than 1 swap.
    """
    from sparse_prefgp.analysis.items import feature_parts

    groups = feature_parts(model.duels)
    if swaps is None:
        swaps = max(LEAST_SWAPS, min(SWAPS, MOST_PREDICTIONS // len(groups)))
    swaps = whole_number("swaps", swaps, 1)
    rows = generator(rng).permutation(compared_items(model.duels))
    n = len(rows)
    # Neighbours at distance 1, 2, … in random order: all pairs are distinct, none is of one item.
    rounds = min(n - 1, max(1, swaps // n))
    first = np.tile(rows, rounds)[:swaps]
    partner = np.concatenate([np.roll(rows, shift) for shift in range(1, rounds + 1)])[:swaps]
    items = model.inputs.of_items()
    base, other = items[first], items[partner]
    before = model.predict_f(base)[0].numpy()
    values = np.empty(len(groups))
    at_once = max(1, _AT_ONCE // len(base))  # a call costs more than the rows of a small one
    for start in range(0, len(groups), at_once):
        part = groups[start : start + at_once]
        swapped = np.concatenate([feature.taken_over(base, other) for feature in part])
        after = model.predict_f(swapped)[0].numpy()
        change = after.reshape(len(part), -1) - before[:, 0]
        values[start : start + at_once] = np.sqrt(0.5 * np.mean(change**2, axis=1))
    if model.duels.transform is None:
        return tuple(scale.name for scale in feature_scales(model.duels)), values
    return tuple(feature.name for feature in groups), values


def relevance(
    model: PreferenceGP,
    *,
    top: int = 20,
    rng: np.random.Generator | None = None,
    found: tuple[tuple[str, ...], FloatArray] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Bars of `feature_relevance`, the largest on top.

    :param model: any model.
    :param top: at most so many features; the title says how many there are.
    :param rng: of `feature_relevance`.
    :param found: what `feature_relevance` returned, which is then drawn as it is.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: fewer than 1 feature asked for; items without features.
    """
    top = whole_number("top", top, 1)
    together.check(items_without_features=not model.duels.num_features, picture_of_features=True)
    names, values = feature_relevance(model, rng=rng) if found is None else found
    order = np.argsort(-values, kind="stable")[:top]
    ax = axes_or_new(ax, len(order))
    ax.grid(visible=False, axis="y")
    ax.barh(np.arange(len(order)), values[order], height=0.7, color=BLUE)
    set_rows(ax, [names[j] for j in order])
    # Rounding is not blown up to bars.
    ax.set_xlim(0.0, 1.05 * values.max() if any_matters(model, values) else 1.0)
    what = "how far utility moves with this feature alone, sd"
    ax.set_xlabel(utility_label(what, noise_of(model)))
    if len(order) < len(names):
        ax.set_title(
            f"the {len(order)} most relevant of {len(names)} features", fontsize=SMALL, loc="right"
        )
    return ax


def any_matters(model: PreferenceGP, values: FloatArray) -> bool:
    """Whether any of these relevances is more than rounding, so that a picture shows something."""
    from sparse_prefgp.analysis.ranking import ROUNDING

    return bool(values.max() > ROUNDING * noise_of(model) ** 0.5)


def noise_of(model: PreferenceGP) -> float:
    """sigma² per side of a duel."""
    return float(model.likelihood.noise.numpy())


def coefficients(model: PreferenceGP, *, level: float = 0.9, ax: Axes | None = None) -> Axes:
    """Coefficients of covariates with their intervals, as `model.coefficients` has them.

    Each is what one unit of its column adds to the utility of a side; the number in brackets is
    what is drawn. Below them the leans, in order; of many the ten furthest at either end.

    :param model: one whose duels have covariates.
    :param level: of the intervals.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: a model without covariates; a level that is not between 0 and 1.
    """
    found = model.coefficients(level)
    count = len(model.duels.covariate_names)
    leans = count + np.argsort(-found.mean[count:], kind="stable")
    shown = leans
    if len(leans) > 2 * LEANS_AT_AN_END:
        shown = np.concatenate([leans[:LEANS_AT_AN_END], leans[-LEANS_AT_AN_END:]])
    rows = np.concatenate([np.arange(count), shown])
    names = []
    for i in rows:
        # A long name gives way to its coefficient.
        said = f" ({found.mean[i]:.3g})" if i < count else ""
        names.append(shortened_name(found.names[i], NAME_WIDTH - len(said)) + said)
    ax = axes_or_new(ax, len(rows))
    ax.axvline(0.0, color=GREY, linewidth=1)
    for part, colour in ((rows < count, BLUE), (rows >= count, GREY)):
        at = rows[part]
        draw_intervals(
            ax, found.mean[at], np.flatnonzero(part), *found.interval[at].T, color=colour
        )
    set_rows(ax, names)
    if len(rows) > count:
        ax.axhline(count - 0.5, color=PALE, linewidth=1)
    ax.set_xlabel(f"utility of one unit of the column, {100 * level:g} % interval", fontsize=SMALL)
    if len(shown) < len(leans):
        ax.set_title(
            f"the {LEANS_AT_AN_END} leans furthest to either side of {len(leans):,}",
            fontsize=SMALL,
            loc="left",
        )
    return ax
