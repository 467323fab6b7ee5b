"""Duels from the targets of a regression set: the item with the larger target wins.

The protocol of Chu & Ghahramani, "Preference learning with Gaussian processes", ICML 2005: targets
are a hidden utility, items are parted, pairs are drawn at random within each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.frames import duels_frame, numbered
from sparse_prefgp.datasets.sets import RegressionSet, no_guess_of_draws
from sparse_prefgp.io import read_duels
from sparse_prefgp.support.arrays import FloatArray, IntArray, first_true
from sparse_prefgp.support.checks import check_number
from sparse_prefgp.support.words import shortened


@dataclass(frozen=True, eq=False, repr=False)
class TargetDuels:
    """Duels made from targets."""

    items: Any
    """Data frame with n rows: `item_id`, features."""
    duels: Any
    """Data frame with t rows: `winner`, `loser`, `part` (which part both items are of, from 0) and
    `win_probability` (the true probability that this winner wins; 1 without noise).
    """
    utilities: FloatArray
    """(n,) the targets, standardised over all n items, against which a fitted utility can be
    ranked.
    """
    noise: float
    """Standard deviation of the noise of each side, in standard deviations of the target."""
    never_drawn: int
    """How many items of the parts have no opponent to draw."""

    @property
    def win_probability(self) -> FloatArray:
        """(t,) the true probability that the winner of each duel wins."""
        return np.asarray(self.duels["win_probability"], dtype=np.float64)

    @property
    def part(self) -> IntArray:
        """(t,) the part that each duel is of."""
        return np.asarray(self.duels["part"], dtype=np.int64)

    def to_duels(
        self, part: int | None = None, *, standardise_on: int | None = None, **options: Any
    ) -> Duels:
        """All of them as they are read, or those of one part with standardised features.

        :param part: default all.
        :param standardise_on: the part whose items set means and standard deviations, usually the
            training part 0; default those of `part`.
        :param options: more of `read_duels`.
        :raises ValueError: a part without duels.
        """
        with no_guess_of_draws():
            duels = read_duels(self.items, self.duels, **options)
        if part is None:
            return duels
        transform = None
        if standardise_on is not None:
            transform = duels.standardised(self._rows(standardise_on)).transform
        found = duels.select(self._rows(part)).without_idle_items()
        return found.standardised(transform=transform)

    def _rows(self, part: int) -> IntArray:
        rows = np.flatnonzero(self.part == part)
        if not rows.size:
            raise ValueError(f"Part {part} has no duels; the parts go from 0 to {self.part.max()}.")
        return rows

    def __repr__(self) -> str:
        return (
            f"TargetDuels(items={len(self.items)}, duels={len(self.duels)}, "
            f"parts={self.part.max() + 1}, noise={self.noise:g})"
        )


def duels_from_targets(
    source: RegressionSet | tuple[Any, npt.ArrayLike],
    rng: np.random.Generator,
    *,
    duels: int | Sequence[int] | None = None,
    per_item: int | None = None,
    parts: Sequence[npt.ArrayLike] | None = None,
    noise: float = 0.0,
    closer_than: float = np.inf,
) -> TargetDuels:
    """Draw duels between items of a regression set.

    Each duel is between two items of one part whose targets differ; the larger one wins. Pairs are
    drawn independently, so that one may come twice.

    :param source: a regression set, or features (data frame or array) and targets.
    :param rng: draws pairs and noise.
    :param duels: how many, drawn uniformly from the pairs of each part: one number for every part,
        or one number each.
    :param per_item: instead of `duels`, how many opponents each item meets, drawn uniformly; a part
        of n items then has n times as many duels.
    :param parts: row numbers of the items of each part, such as the training and the test part;
        default the standard parts of the set, else all items as one part.
    :param noise: standard deviation of normal noise, in standard deviations of the target, that
        each side gets afresh in each duel before they are compared. An item then wins with
        probability `Phi(difference / (sqrt(2) noise))`, as in a model with `noise_variance =
        noise²` and the standardised target as its utility.
    :param closer_than: only pairs whose targets differ by at most this, in standard deviations.
    :raises ValueError: neither or both of `duels` and `per_item`; one that is not a whole number of
        at least 1; a noise that is negative or no number; a target that is not finite or never
        varies; parts that overlap or have rows that are not there; a part without any pair to draw.
    """
    features, target, standard = _source(source)
    n = len(target)
    groups = [np.asarray(rows) for rows in (parts if parts is not None else standard)]
    _check_parts(groups, n)
    numbers = _numbers(duels, per_item, len(groups))
    check_number("The noise", noise, least=0.0)
    if closer_than != np.inf:
        check_number("closer_than", closer_than, above=0.0)
    spread = target.std()
    if not spread > 0.0:
        raise ValueError("All targets are equal, so that no item wins; give targets that differ.")
    utilities = (target - target.mean()) / spread

    pairs, part, never = [], [], 0
    for number, rows in enumerate(groups):
        # Windows are compared in the units of the target: equal targets are equal there.
        allowed = _Pairs(target[rows], closer_than * spread, number)
        if per_item is None:
            ranks = allowed.draw(numbers[number], rng)
        else:
            ranks = allowed.opponents(per_item, rng)
        pairs.append(rows[np.stack(ranks)])
        part.append(np.full(len(ranks[0]), number))
        never += allowed.alone
    a, b = np.concatenate(pairs, axis=1)
    # Whether the first of each pair wins, and the probability of what happened.
    lead = utilities[a] - utilities[b]
    ahead, chance = lead > 0.0, np.ones(len(lead))
    if noise > 0.0:
        scale = np.sqrt(2.0) * noise
        ahead = lead + scale * rng.standard_normal(len(lead)) > 0.0
        chance = np.asarray(ndtr(np.where(ahead, lead, -lead) / scale))
    drawn = duels_frame(ahead, a, b, part=np.concatenate(part), win_probability=chance)
    return TargetDuels(numbered(features), drawn, utilities, float(noise), never)


class _Pairs:
    """Pairs of the items of one part whose targets differ, but by no more than a limit."""

    def __init__(self, target: FloatArray, limit: float, part: int) -> None:
        self._order = np.argsort(target, kind="stable")
        ranked = target[self._order]
        # Opponents of the item of rank i: ranks [below, lower) and [upper, above).
        self._below = np.searchsorted(ranked, ranked - limit, side="left")
        self._lower = np.searchsorted(ranked, ranked, side="left")
        self._upper = np.searchsorted(ranked, ranked, side="right")
        self._above = np.searchsorted(ranked, ranked + limit, side="right")
        both = (self._lower - self._below) + (self._above - self._upper)
        self.alone = int((both == 0).sum())
        if self.alone == len(target):
            limited = "" if np.isinf(limit) else " or are too far apart; let closer_than be larger"
            raise ValueError(
                f"Part {part} has no pair to draw: all its targets are equal{limited}."
            )

    def draw(self, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Pairs drawn uniformly, each side of a pair first half of the time."""
        # Each pair once: from its lower item.
        ends = np.cumsum(self._above - self._upper)
        drawn = rng.integers(ends[-1], size=count)
        low = np.searchsorted(ends, drawn, side="right")
        high = self._above[low] - (ends[low] - drawn)
        swap = rng.random(count) < 0.5
        a, b = np.where(swap, high, low), np.where(swap, low, high)
        return self._order[a], self._order[b]

    def opponents(self, each: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """For every item so many opponents, drawn uniformly from its own."""
        fewer = self._lower - self._below
        both = fewer + self._above - self._upper
        item = np.repeat(np.flatnonzero(both), each)
        drawn = rng.integers(both[item])
        low = self._below[item] + drawn
        high = self._upper[item] + drawn - fewer[item]
        opponent = np.where(drawn < fewer[item], low, high)
        return self._order[item], self._order[opponent]


def _source(
    source: RegressionSet | tuple[Any, npt.ArrayLike],
) -> tuple[Any, FloatArray, Sequence[IntArray]]:
    pd = require_pandas()
    standard: Sequence[IntArray] | None = None
    if isinstance(source, RegressionSet):
        features, target, standard = source.features, source.target, source.parts
    else:
        features, target = source[0], np.asarray(source[1], dtype=np.float64)
        if not isinstance(features, pd.DataFrame):
            features = pd.DataFrame(np.asarray(features)).rename(columns=lambda i: f"x{i + 1}")
    if target.shape != (len(features),):
        raise ValueError(
            f"The target has shape {target.shape} for {len(features)} rows of features; give one "
            "number for each row."
        )
    for i in first_true(~np.isfinite(target)):
        raise ValueError(
            f"The target in row {i} (counted from 0) is {target[i]}; leave out the row."
        )
    return features, target, [np.arange(len(target))] if standard is None else standard


def _numbers(duels: int | Sequence[int] | None, per_item: int | None, parts: int) -> list[int]:
    """How many duels each part gets; nothing where each item gets its own."""
    if (duels is None) == (per_item is None):
        raise ValueError("Give either duels or per_item, the number of duels or opponents.")
    numbers = np.atleast_1d(np.asarray(per_item if duels is None else duels))
    whole = numbers.dtype.kind in "iu" and numbers.ndim == 1 and numbers.min(initial=1) >= 1
    if not whole or len(numbers) not in (1, 1 if duels is None else parts):
        name, value = ("per_item", per_item) if duels is None else ("duels", duels)
        raise ValueError(
            f"{name} is {shortened(value)}; give a whole number of at least 1, or of duels one for "
            f"each of the {parts} parts."
        )
    return [] if duels is None else np.broadcast_to(numbers, parts).tolist()


def _check_parts(parts: Sequence[npt.NDArray[Any]], items: int) -> None:
    if not parts:
        raise ValueError("parts is empty; give the row numbers of at least one part.")
    for number, rows in enumerate(parts):
        numbers = rows.ndim == 1 and rows.dtype.kind in "iu" and rows.size > 0
        wrong = rows[(rows < 0) | (rows >= items)] if numbers else rows
        if wrong.size or not numbers:
            raise ValueError(
                f"Part {number} has {shortened(wrong[:1].tolist())}; give row numbers from 0 to "
                f"{items - 1}."
            )
    seen, times = np.unique(np.concatenate(parts), return_counts=True)
    if (times > 1).any():
        raise ValueError(
            f"The row {seen[times > 1][0]} is in the parts more than once; give each item one part."
        )
