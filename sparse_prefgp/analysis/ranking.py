"""Ranking of items: centred utilities, and how probably each is the best or in the top k.

Utilities are relative, so all figures are of g_i = f_i - sum_j w_j f_j, the average taken over
reference items (those in the context of i, where it is of each). With q(f) = m(x) + a w and
Cov f = k - a R a' (docs/method.md, section 6),

    Cov[g_i, g_l] = k_il - k̄_i - k̄_l + k̄ - (a_i - ā) R (a_l - ā)'

with bars for averages over the reference: exact, and computed in chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from scipy import special

from sparse_prefgp.analysis.boards import at_a_date, board_of
from sparse_prefgp.analysis.items import ItemSet, far_sentences, is_array, own_items
from sparse_prefgp.analysis.people import Person, seen_by
from sparse_prefgp.analysis.rank_sets import (
    MOST_ITEMS,
    JointUtilities,
    about_ranks,
    points_per_unit,
    rank_sets,
    some_draws,
)
from sparse_prefgp.covariances.finite import parts_of
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.io.files import id_text
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import (
    check_choice,
    check_number,
    level_of_interval,
    whole_number,
)
from sparse_prefgp.support.linalg import factorised
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.normals import Normals, allotted
from sparse_prefgp.support.randomness import seed_of
from sparse_prefgp.support.words import agreeing, counted, spelt_like
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import (
    MISSING,
    Column,
    Table,
    chance,
    first_of,
    flag,
    interval,
    records,
    with_intervals,
)

Report = Callable[[int, int], None]

# What items are ordered by: expected utility, or the lower end of its interval.
MEAN, LOWER = ORDERS = ("mean", "lower")
# How to get the other order, behind what says which it is.
BY_MEAN = " (order mean orders by utility)"
# Rows that utilities are centred on, and items where these have several rows.
MAX_REFERENCE, LEAST_REFERENCE = 2000, 200
DEFAULT_TOP_K = 10
MIN_SAMPLES = 100
# Elo points of the average, or of an anchor without a number.
ANCHORED = 1000.0
BOUND_CONFIDENCE = 0.99
_PILOT_SHARE = 0.1
# Numbers in one temporary array: about 16 MB.
_CHUNK_NUMBERS = 2_000_000
# From so many chunks on, tracing the computation once costs less than running it op by op.
_TRACE_FROM = 16
# Below, it is no more than the rounding of the sums that a covariance is made of.
JITTER_WORTH_A_NOTE = 1e-10


def known_number(value: float) -> str:
    """A whole number; a dash where it is not known."""
    return MISSING if math.isnan(value) else f"{value:.0f}"


def range_of_ranks(ends: tuple[float, float]) -> str:
    """Such as 2–5, or 2; a dash where it is not known."""
    low, high = map(known_number, ends)
    return low if low == high else f"{low}–{high}"


COLUMNS = (
    Column("rank", "rank", ","),
    Column("item_id", "item", str, left=True),
    Column("utility", "utility", "z.3f"),
    Column("elo", "Elo", ".0f"),
    Column("interval", "interval", interval, spare=10),
    Column("p_best", "best", chance, spare=9),
    Column("p_top_k", "top {top}", chance, spare=8),
    Column("ranks", "not ruled out", str, spare=11),
    Column("likely", "likely ranks", str, spare=6),
    Column("group", "group", known_number, spare=7),
    Column("comparisons", "{unit}s", ",", spare=5),
    Column("copies", "copies", ",", spare=4),
    Column("outside_range", "outside", flag, spare=3),
)
# Columns of a ranking's frame, by the fields of `RankSets`.
_RANK_COLUMNS = {
    "rank_low": "low",
    "rank_high": "high",
    "likely_low": "likely_low",
    "likely_high": "likely_high",
    "group": "group",
}
# Of these a table tells where somebody asks for them.
_OF_RANKS, _ELO = ("ranks", "likely", "group"), "elo"
# Utilities that differ by less do by rounding, in standard deviations of the noise of a side.
ROUNDING = 1e-9


def on_rounding(jitter: float, negative_variances: int) -> list[str]:
    """What rounding did to variances of joint draws, in sentences."""
    text = []
    if jitter > JITTER_WORTH_A_NOTE:
        text.append(f"A jitter of {jitter:.1e} was added to the variances of the draws.")
    if negative_variances:
        text.append(
            f"{counted(negative_variances, 'variance')} that rounding had made negative "
            f"{agreeing(negative_variances)} set to 0."
        )
    return text


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Result):
    """Items, the best first, and how the figures were made; `print` shows it as text."""

    rows_name, also, aside = "ranking", ("rows",), ("frame", "joint", "shows_ranks")

    frame: Any
    """Data frame with one row for all items that have equal features: `rank` (one more than there
    are rows above it: what is equal but for rounding shares a rank, as in 1, 2, 2, 4, and stays in
    the order given), `item_id` (of the first of them), `utility` (expected, less the average of the
    reference), `sd`, `lower` and `upper` (its interval at `level`), `p_best`, `p_top_k` (that they
    are the best or in the top k, among the candidates; NaN for all others), `rank_low` and
    `rank_high` (ranks by expected utility that are not ruled out at `level`), `likely_low` and
    `likely_high` (quantiles of its ranks in the joint samples), `group` (whose first cannot be told
    apart from any other in it; all NaN where not every row is a candidate, or there are more than
    300), `elo` (points, see `elo` below; NaN for logistic noise), `comparisons` (their
    training duels, in the contexts asked for, each one whatever its weight), `outside_range` (a
    feature outside the range of the training items), `copies` (how many items they are), `same_as`
    (ids of all but the first, separated by "; ").
    """
    items: int
    """How many items are ranked, equal ones included."""
    order: str
    """What ranks go by: `mean`, the expected utility, or `lower`, the lower end of its interval."""
    unequal: bool
    """Whether some rows have more duels than others."""
    min_comparisons: int
    """Items with fewer duels are left out."""
    left_out: int
    """How many items were left out for that."""
    level: float
    """Level of the intervals."""
    top_k: int
    """The k of `p_top_k`."""
    reference_items: int
    """How many items utilities are centred on."""
    reference: str
    """Which items utilities are centred on, in words."""
    candidates: int
    """Rows among which the probabilities were sampled."""
    samples: int
    """Number of joint samples."""
    seed: int
    """Seed of samples and reference."""
    standard_error: float
    """Largest possible Monte Carlo standard error of `p_best` and `p_top_k`."""
    bound_best: float
    """Bound, with 99 % confidence over the sampling, of the probability that any item which is not
    a candidate is the best. By no more than that the `p_best` of the candidates are too large. 0
    when all items are candidates.
    """
    bound_top_k: float
    """The same for being in the top k, and `p_top_k`."""
    jitter: float
    """What was added to the diagonal of the candidates' covariance to factorise it."""
    negative_variances: int
    """How many variances rounding had made negative; their sd is 0."""
    outside_items: int
    """Items outside the training range."""
    outside_features: dict[str, int]
    """How many items are outside the training range, per feature."""
    unknown_levels: dict[str, dict[str, int]]
    """Levels never seen, per categorical column, with their numbers of items."""
    noise_variance: float | None = None
    """Of one side of a duel: with twice as much luck is added to a difference of utilities."""
    averaged: str = ""
    """Over which rows of an item its utility is averaged, in words; empty where an item has one."""
    unit: str = "duel"
    """What one of the comparisons is called: a duel, a choice, an answer."""
    elo: EloScale | None = None
    """What the column `elo` is on."""
    joint: JointUtilities | None = None
    """Of the rows of `frame`; None where `rank_low` is not known."""
    shows_ranks: bool = False
    """Whether tables have the ranks, groups and Elo points of the items."""
    without_own: str = ""
    """That only given items are ranked, not those of the model, in words; else empty."""

    @property
    def rows(self) -> int:
        """How many there are in the ranking."""
        return len(self.frame)

    def table(self, most: int | None = None) -> Table:
        """The items, or the first of them."""
        shown = with_intervals(self.frame.iloc[:most])
        title = first_of(len(shown), len(self.frame), "items")
        if self.left_out:
            title += f" with {counted(self.min_comparisons, self.unit)} or more"
        # Of these a column of nothing else is left out.
        silent = {"copies"} if self._all_single else set()
        silent |= set() if self.shows_ranks else {*_OF_RANKS, _ELO}
        silent |= set() if shown["outside_range"].any() else {"outside_range"}
        silent |= {"p_top_k"} if self.top_k == self.items else set()  # certain
        columns = [
            column._replace(heading=column.heading.format(top=self.top_k, unit=self.unit))
            for column in COLUMNS
            if column.key not in silent
        ]
        for name, of in (("ranks", "rank"), ("likely", "likely")):
            ends = zip(shown[f"{of}_low"], shown[f"{of}_high"], strict=True)
            shown[name] = list(map(range_of_ranks, ends))
        return Table("ranking", title, columns, records(shown))

    def sentences(self) -> list[str]:
        """What to know about the figures, one sentence each."""
        text = [self.without_own] if self.without_own else []
        text.append(self._order_note())
        if self.averaged:
            text.append(self.averaged)
        if self.left_out:
            text.append(
                f"{counted(self.left_out, 'item')} with fewer than "
                f"{counted(self.min_comparisons, self.unit)} {agreeing(self.left_out)} left out. "
                "Average and probabilities are those among the kept."
            )
        if self.items > len(self.frame):
            text.append(
                f"Items with equal features share a row, {self.items:,} items on "
                f"{len(self.frame):,} rows; chances and {self.unit}s are those of all its copies."
            )
        text += [
            f"Utilities are relative to the average of {self.reference}; intervals hold "
            f"{100 * self.level:g} %.",
            f"Probabilities are from {self.samples:,} joint samples of "
            f"{counted(self.candidates, 'candidate' if self._all_single else 'candidate row')} "
            f"(standard error at most {self.standard_error:.2g}).",
        ]
        others = len(self.frame) - self.candidates
        if others:
            text.append(
                f"That any of the other {counted(others, 'item' if self._all_single else 'row')} "
                "is the best "
                f"has a probability of at most {self.bound_best:.2g}, that any is in the top "
                f"{self.top_k} of at most {self.bound_top_k:.2g}; more candidates lower both."
            )
        text += self._about_ranks()
        text += on_rounding(self.jitter, self.negative_variances)
        far = self.outside_items, self.outside_features, self.unknown_levels
        return text + far_sentences(*far, "item")

    def _about_ranks(self) -> list[str]:
        """On the columns of ranks and Elo points, where tables have them."""
        if not self.shows_ranks or self.elo is None:
            return []
        if self.frame["rank_low"].isna().any():
            few = f"of at most {MOST_ITEMS} items, all of them candidates"
            return [f"Sets of ranks are {few}.", self.elo.sentence()]
        return [about_ranks(self.level), self.elo.sentence()]

    def _order_note(self) -> str:
        if self.order == MEAN:
            return "Ordered by expected utility."
        if not self.unequal:
            return "Ordered by the lower end of the interval."
        return (
            f"Ordered by the lower end of the interval, so that no item with few {self.unit}s "
            f"comes first by luck{BY_MEAN}."
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"A ranking has no {name!r}; its table, a data frame, is `.frame`."
            )

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def _all_single(self) -> bool:
        return self.items == len(self.frame)


def rank(
    model: Predicts,
    items: Any = None,
    *,
    with_own: bool = False,
    order: str | None = None,
    min_comparisons: int = 0,
    top_k: int | None = None,
    level: float = 0.95,
    candidates: int = 1000,
    samples: int = 10_000,
    rng: np.random.Generator | None = None,
    at: Any = (),
    active_within: float = 2.0,
    person: Person = None,
    anchor: str | tuple[Hashable, float] | None = None,
    with_ranks: bool = False,
    progress: Report | None = None,
) -> Ranking:
    """Rank items by utility, with uncertainty.

    An item with several rows, in contexts or at dates, is ranked by the average of its utilities
    there, under their joint posterior. In contexts it is the same average for every item: over
    those of the training duels, each weighted by how often it occurs. Over dates or states (`item=`
    of `read_duels`) it is over the item's own rows, weighted by the duels of each; but where
    utilities move in time it is at the one row that the item's latest duel by the date had.

    Utilities are centred on all items that are ranked up to 2,000, else on 2,000 drawn by
    `rng`; where an item has several rows, these are 2,000 rows, of 200 items at least. With
    `at="each"` a utility is less the average of the items in its own context of the duel. Items
    with equal inputs have one utility, and so one row. Memory does not grow with the number of
    items beyond some columns of numbers.

    :param model: whose posterior counts.
    :param items: the model's own by default, or anything `resolve_items` takes.
    :param with_own: rank the model's own items along with these, which come first where both have
        an id.
    :param order: `mean`, by expected utility; `lower`, by the lower end of its interval, where only
        those come first of whom it is known that they are good. By default `lower` where some have
        more duels than others, else `mean`.
    :param min_comparisons: leave out items with fewer training duels, those of equal items counted
        together, and in contexts (`at`) those there alone; every duel counts as one, whatever its
        weight, which shows in the interval.
    :param top_k: the k of `p_top_k`; by default 10, or all where there are fewer.
    :param level: of the intervals.
    :param candidates: how many distinct items are sampled jointly, namely those most likely to
        exceed the `top_k`-th largest expected utility; takes memory by its square, time by its
        cube.
    :param samples: joint samples.
    :param rng: of samples and reference.
    :param at: where items are ranked, such as `surface=clay` or `surface=clay,home=1`, as text or
        as a mapping, or several of these: averaged over the contexts seen that agree with any of
        them. "each": every item in every context seen is ranked on its own, by how far it is above
        the average of those that it can meet there. "last": at the last row
        of each item, in the order of the table of items. Where utilities move in time, a date, as
        `Duels(times=)` has them or as `date=2014-07-13`; by default that of the last duel.
    :param active_within: where utilities move in time, for how many years after its last duel an
        item counts as active: of the model's own items those are ranked that are active then.
    :param person: whose utility it is, for a model with tastes: a name, or a list of names for what
        these people prefer on average; by default what all share.
    :param anchor: the item, and the Elo points that it has (1,000 where an item alone is given);
        by default the average of the items has 1,000.
    :param with_ranks: show the ranks of each item too, in tables.
    :param progress: called with how much is done and the total, now and then.
    :raises ValueError: an unknown order; `top_k` above the number of rows or of candidates, another
        number that makes no sense; no item with so many duels; the model's own items along with
        none, or with an array; what `resolve_items` raises.
    """
    array = items is not None and is_array(items)
    together.check(with_own=with_own, no_items=items is None, items_without_ids=array)
    if order is not None:
        check_choice("order", order, ORDERS)
    min_comparisons = whole_number("min_comparisons", min_comparisons, 0)
    level = level_of_interval(level)
    if top_k is not None:
        top_k = whole_number("top_k", top_k, 1)
    candidates = whole_number("candidates", candidates, 1)
    samples = whole_number("samples", samples, MIN_SAMPLES)
    seed = seed_of(rng)
    model, at = at_a_date(seen_by(model, person), at)
    board = board_of(model, items, at, active_within, with_own)
    found, inputs = board.items, board.inputs
    first, row_of_item, multiplicity = distinct_rows(inputs)
    given = len(found)
    # Whole numbers in doubles are exact up to 2**53, as are those of all duels.
    duels = np.bincount(row_of_item, weights=found.comparisons).astype(np.int64)
    enough = duels >= min_comparisons
    kept = enough[row_of_item]
    if not kept.any():
        raise ValueError(
            f"min_comparisons is {min_comparisons}, but no item has more than {duels.max()} "
            "duels; give a smaller number."
        )
    if not kept.all():  # items of equal features go together
        found, duels = found.select(kept), duels[enough]
        inputs = inputs[kept]
        first, row_of_item, multiplicity = distinct_rows(inputs)
    rows, n, number = inputs[first], len(found), len(first)
    k = min(DEFAULT_TOP_K, number) if top_k is None else top_k
    if k > number:
        what = "items" if number == n else "items that can be told apart"
        raise ValueError(
            f"top_k is {k}, but there are only {number} {what}; give at most {number}."
        )
    if k > candidates and candidates < number:
        raise ValueError(
            f"top_k is {k}, but only {candidates} candidates are sampled; give at least {k} "
            "candidates, or a smaller top_k."
        )

    rng = np.random.default_rng(seed)
    group = np.zeros(n, dtype=np.int64)
    if board.contexts is not None:  # numbered again, as some may have been left out
        group = np.unique(board.contexts[kept], return_inverse=True)[1].reshape(-1)
    limit = MAX_REFERENCE
    if board.rows_of_each > 1:
        limit = max(LEAST_REFERENCE, MAX_REFERENCE // board.rows_of_each)
    chosen = _reference(group, limit, rng)

    def done(count: int) -> None:
        if progress is not None:
            progress(count, number + samples)

    group_of_row = np.zeros(number, dtype=np.int64)
    group_of_row[row_of_item] = group
    weights, units = board.posterior.weights, model.mixture.units
    each = [
        Centred.on(part, rows, row_of_item[chosen], group_of_row) for part in board.posterior.parts
    ]
    utilities = Normals.mixed([part.marginals(rows, done) for part in each], weights).times(units)
    mean, variance = utilities.mean, utilities.variance
    negative = variance < 0.0
    sd = np.sqrt(np.where(negative, 0.0, variance))

    inside = likely_rows(mean, sd, k, candidates)
    ask(
        6 * 8 * len(inside) ** 2,
        f"Joint covariances of {len(inside):,} candidates",
        "take fewer (--candidates)",
    )
    factors = [factorised(*part.covariance(rows, inside)) for part in each]
    joint = [unit * factor for unit, (factor, _) in zip(units, factors, strict=True)]
    has_sets = len(inside) == number <= MOST_ITEMS
    chances = sample_places(
        utilities.means[:, inside],
        joint,
        weights,
        k,
        samples,
        rng,
        lambda i: done(number + i),
        some_draws(samples) if has_sets else np.empty(0, np.int64),
    )
    sets = known = None
    if has_sets:
        covariances = np.array([factor @ factor.T for factor in joint])
        known = JointUtilities(utilities.means, covariances, weights)
        sets = rank_sets(*known.moments(), chances.draws, level)
    beyond = utilities.take(np.setdiff1d(np.arange(number), inside))
    unknown = np.full(number, np.nan)
    p_best, p_top_k = unknown.copy(), unknown.copy()
    p_best[inside], p_top_k[inside] = chances.p_best, chances.p_top_k

    lower, upper = utilities.interval(level).T
    unequal = bool((duels != duels[0]).any())
    if order is None:
        order = LOWER if unequal else MEAN
    same_as: dict[int, list[str]] = {}
    for i in np.setdiff1d(np.flatnonzero(multiplicity[row_of_item] > 1), first):
        same_as.setdefault(int(row_of_item[i]), []).append(str(found.ids[i]))
    elo = _elo_of(model, anchor, found.ids, mean[row_of_item])
    noise = 0.5 * model.likelihood.duel_noise
    ranks = ranks_of(lower if order == LOWER else mean, noise)
    by = np.lexsort((first, ranks))
    frame = require_pandas().DataFrame(
        {
            "rank": ranks,
            "item_id": [found.ids[i] for i in first],
            "utility": mean,
            "sd": sd,
            "lower": lower,
            "upper": upper,
            "p_best": p_best,
            "p_top_k": p_top_k,
            **{
                name: unknown if sets is None else getattr(sets, field)
                for name, field in _RANK_COLUMNS.items()
            },
            "elo": elo.of(mean),
            "comparisons": duels,
            "outside_range": found.outside[first],
            "copies": multiplicity,
            "same_as": ["; ".join(same_as.get(i, ())) for i in range(number)],
        }
    )
    every = len(chosen) == n
    return Ranking(
        frame=frame.iloc[by].reset_index(drop=True),
        items=n,
        order=order,
        unequal=unequal,
        min_comparisons=min_comparisons,
        left_out=given - n,
        level=level,
        top_k=k,
        reference_items=len(chosen),
        reference=(_all_of(n, given) if every else f"{len(chosen):,} items drawn with seed {seed}")
        + (" in the same context" if group.any() else ""),
        candidates=len(inside),
        samples=samples,
        seed=seed,
        standard_error=0.5 / math.sqrt(samples),
        bound_best=outside_bound(chances.best, beyond),
        bound_top_k=outside_bound(chances.kth, beyond),
        jitter=max(jitter for _, jitter in factors),
        negative_variances=int(negative[row_of_item].sum()),
        outside_items=int(found.outside.sum()),
        outside_features=found.outside_features,
        unknown_levels=found.unknown_levels,
        noise_variance=noise,
        averaged=board.averaged,
        unit=model.duels.unit,
        elo=elo,
        joint=None if known is None else known.take(by),
        shows_ranks=with_ranks,
        without_own="" if with_own or is_array(items) else _without_own(model, board.items),
    )


@dataclass(frozen=True)
class EloScale:
    """Points are `zero` and `points` for each unit of utility."""

    points: float
    margin: float | None
    """Of a tie, in standard deviations of the noise of a difference; None where all are ties."""
    anchor: str
    """What has `anchor_points`: an item, or the average."""
    anchor_points: float
    zero: float

    def of(self, utility: FloatArray) -> FloatArray:
        """The points of items."""
        return self.zero + self.points * utility

    def sentence(self) -> str:
        """How points are made."""
        ties = (
            "as if nothing were a tie, of whose margin ties alone say no more than that it is wide"
        )
        if self.margin is not None:
            ties = f"where a tie is half a point (margin {self.margin:.3g} sd of the noise)"
        return (
            f"Elo: {self.points:.1f} points for each unit of utility, the slope of the expected "
            f"score at even odds {ties}; {self.anchor} has {self.anchor_points:,.0f}."
        )


def _elo_of(model: Any, anchor: Any, ids: Sequence[Hashable], utility: FloatArray) -> EloScale:
    """The scale on which the anchor has its points.

    :raises ValueError: an anchor that is none of the items, or whose points are no number.
    """
    likelihood = model.at_mode.likelihood
    only_ties = 0 < model.duels.num_ties == model.duels.num_duels
    # Which nothing but ties says to be large, so that nobody gains points.
    margin = 0.0 if only_ties else likelihood.tie_margin
    points = points_per_unit(0.5 * likelihood.duel_noise, margin)
    if not model.at_mode.engine.link_function.has_normal_noise:
        points = math.nan
    name, at = (anchor, ANCHORED) if isinstance(anchor, str) or anchor is None else anchor
    check_number("The Elo points of the anchor", at)
    in_sd = None if only_ties else margin / math.sqrt(likelihood.duel_noise)
    if name is None:
        return EloScale(points, in_sd, "the average", at, at)
    numbers = {id_text(one): i for i, one in enumerate(ids)}
    if id_text(name) not in numbers:
        near = spelt_like(id_text(name), numbers)
        hint = f"did you mean {near!r}?" if near else "give the id of one."
        raise ValueError(f"The anchor {name!r} is none of the items that are ranked; {hint}")
    zero = at - points * float(utility[numbers[id_text(name)]])
    return EloScale(points, in_sd, str(name), at, zero)


def _without_own(model: Predicts, given: ItemSet) -> str:
    """That only these items are ranked, in words, where some are not the model's."""
    if not model.duels.has_items:
        return ""
    own = {id_text(name) for name in own_items(model).names}
    names = {id_text(name) for name in given.names}
    if names <= own:
        return ""
    n = len(names)
    return (
        f"Only the {counted(n, 'item')} of {given.name} {agreeing(n)} ranked; --with-own "
        f"(with_own=True) ranks {agreeing(n, 'it', 'them')} among the model's {len(own):,}."
    )


def ranks_of(values: FloatArray, noise_variance: float) -> IntArray:
    """Of each value (u,), one more than there are larger ones, but for rounding."""
    order = np.argsort(-values, kind="stable")
    scale = max(math.sqrt(noise_variance), float(np.abs(values).max()))
    below = -np.diff(values[order]) > ROUNDING * scale
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = 1 + np.maximum.accumulate(np.where([False, *below], np.arange(len(values)), 0))
    return ranks


def _reference(group: IntArray, limit: int, rng: np.random.Generator) -> IntArray:
    """Numbers of the items that utilities are centred on: all, or so many of each group (n,) that
    they are about `limit`."""
    if len(group) <= limit:
        return np.arange(len(group))
    each = max(1, limit // (int(group.max()) + 1))
    drawn = []
    for number in range(int(group.max()) + 1):
        own = np.flatnonzero(group == number)
        drawn.append(own if len(own) <= each else rng.choice(own, each, replace=False))
    return np.sort(np.concatenate(drawn))


def _all_of(items: int, given: int) -> str:
    """In words, all items that are ranked."""
    if items == given:
        return "all items" if items == 1 else f"all {items:,} items"
    return "the one item kept" if items == 1 else f"the {items:,} items kept"


def distinct_rows(inputs: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Of the u distinct rows of inputs (n, D) the first of each, (u,), the number of that of every
    input, (n,), and how often each is there."""
    # Adding zero makes -0.0 and 0.0 the same row. As bytes, which sort faster than fields do.
    plain = np.ascontiguousarray(inputs + 0.0)
    packed = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1])))[:, 0]
    _, first, inverse, counts = np.unique(
        packed, return_index=True, return_inverse=True, return_counts=True
    )
    return first, inverse.reshape(-1), counts


# ---- centred utilities -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Centred:
    """Utilities less their average over reference rows, under a posterior.

    Rows are in groups, such as contexts, and each is less the average of its own group.
    """

    posterior: Posterior
    reference: FloatArray
    """(r, D) distinct rows."""
    weights: FloatArray
    """(r, G) their shares of the average of each group."""
    mean: Any
    features: Any
    kernel: Any
    """Averages of mean (G,) and posterior features (G, p) over the reference of each group, and the
    prior covariances (G, G) of these averages.
    """
    nugget: FloatArray
    """(u,) for every distinct row, its share times what its prior variance has beyond its
    covariance with an equal row, as white noise does; 0 where it is not a reference.
    """
    group: IntArray
    """(u,) the group of every distinct row."""

    @classmethod
    def on(
        cls, posterior: Posterior, rows: FloatArray, chosen: IntArray, group: IntArray
    ) -> Centred:
        """Centred on the rows (u, D) named by `chosen` (numbers, repeated for repeated items).

        :param group: (u,) of each row, numbers from 0, each among those of `chosen`.
        """
        posterior = posterior.seen_by(as_float(rows))
        index, counts = np.unique(chosen, return_counts=True)
        share = counts / np.bincount(group[index], counts)[group[index]]
        weights = np.zeros((len(index), int(group.max()) + 1))
        weights[np.arange(len(index)), group[index]] = share
        reference = rows[index]
        mean: Any = 0.0
        features: Any = 0.0
        for part in _chunks(len(index), posterior.terms.weights.shape[0]):
            x, w = as_float(reference[part]), as_float(weights[part])
            a = posterior.features(x)
            mean += tf.linalg.matvec(w, posterior.mean_of(a, x), transpose_a=True)
            features += tf.matmul(w, a, transpose_a=True)
        x, w = as_float(reference), as_float(weights)
        between = kernel_matrix(posterior.kernel, x, x)
        beyond = posterior.kernel(x, full_cov=False) - tf.linalg.diag_part(between)
        average = tf.matmul(w, tf.matmul(between, w) + beyond[:, None] * w, transpose_a=True)
        nugget = np.zeros(len(rows))
        nugget[index] = share * beyond.numpy()
        return cls(posterior, reference, weights, mean, features, average, nugget, group)

    def marginals(self, rows: FloatArray, done: Callable[[int], None]) -> Normals:
        """Of the utilities (u,) of the distinct rows (u, D) that this was made with."""
        widest = max(len(self.reference), self.posterior.terms.weights.shape[0])
        parts = _chunks(len(rows), widest)
        compute = self._moments
        if len(parts) >= _TRACE_FROM:
            compute = tf.function(compute, autograph=False)
        result = np.empty((len(rows), 2))
        for part in parts:
            x, own = rows[part], self.group[part]
            missing = parts[0].stop - len(x)
            if missing:  # one shape, one trace
                x = np.concatenate([x, np.repeat(x[:1], missing, axis=0)])
                own = np.concatenate([own, np.repeat(own[:1], missing)])
            found = compute(as_float(x), tf.constant(own)).numpy()
            result[part] = found[: part.stop - part.start]
            done(part.stop)
        return Normals.of(result[:, 0], result[:, 1] - 2.0 * self.nugget)

    def _moments(self, x: Any, own: Any) -> Any:
        """Mean and variance without nugget, (N, 2), of rows x (N, D) of groups `own` (N,)."""
        posterior = self.posterior
        a = posterior.features(x)
        mean = posterior.mean_of(a, x) - tf.gather(self.mean, own)
        a -= tf.gather(self.features, own)
        with_own = tf.gather(self._with(x), own, axis=1, batch_dims=1)
        of_averages = tf.gather(tf.linalg.diag_part(self.kernel), own)
        prior = posterior.kernel(x, full_cov=False) + of_averages - 2.0 * with_own
        return tf.stack([mean, prior - posterior.explained(a)], -1)

    def covariance(self, rows: FloatArray, chosen: IntArray) -> tuple[FloatArray, float]:
        """Joint covariance (c, c) of some rows, and the prior variance that rounding goes by."""
        x, own = as_float(rows[chosen]), self.group[chosen]
        a = self.posterior.features(x) - tf.gather(self.features, own)
        explained = tf.matmul(tf.matmul(a, self.posterior.terms.reduction), a, transpose_b=True)
        with_averages = self._with(x).numpy()
        with_averages[np.arange(len(own)), own] += self.nugget[chosen]
        with_reference = with_averages[:, own]  # of row i, with the average that row j is less of
        of_averages = tf.gather(tf.gather(self.kernel, own), own, axis=1)
        prior = kernel_matrix(self.posterior.kernel, x) + of_averages
        prior -= with_reference + with_reference.T
        scale = float(tf.reduce_mean(self.posterior.kernel(x, full_cov=False)))
        return (prior - explained).numpy(), scale

    def _with(self, x: Any) -> Any:
        """Prior covariance (N, G) of rows x with the average over each group's reference, without
        nugget."""
        total = tf.zeros([x.shape[0], self.weights.shape[1]], x.dtype)
        for part in parts_of(self.posterior.kernel):
            if type(part) is gpflow.kernels.Linear:
                # Linear in the other input too: the average is the covariance with the average.
                total += part(x, as_float(self.weights.T @ self.reference))
            else:
                between = kernel_matrix(part, x, as_float(self.reference))
                total += tf.matmul(between, as_float(self.weights))
        return total


def _chunks(count: int, width: int) -> list[slice]:
    """Slices of `count` rows such that a chunk times `width` stays bounded."""
    size = max(1, _CHUNK_NUMBERS // max(width, 1))
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]


# ---- who is on top -----------------------------------------------------------------------------


class BestProbabilities(NamedTuple):
    """What the joint samples say: probabilities of each candidate row being the best or in the top
    k, (c,); the largest and the k-th largest utility, (samples,)."""

    p_best: FloatArray
    p_top_k: FloatArray
    best: FloatArray
    kth: FloatArray
    draws: FloatArray
    """Some of the samples, (kept, c)."""


def likely_rows(mean: FloatArray, sd: FloatArray, top_k: int, count: int) -> IntArray:
    """Numbers of the `count` rows most likely to exceed the k-th largest mean, in ascending order.

    Ranking by an upper quantile instead would fill up with items of which little is known.
    """
    limit = -np.partition(-mean, top_k - 1)[top_k - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(mean == limit, 0.0, (mean - limit) / sd)
    # Those at or above the limit come first, whatever their sd.
    chosen = np.lexsort((-mean, -distance, mean < limit))
    return np.sort(chosen[:count])


def sample_places(
    means: FloatArray,
    factors: Sequence[FloatArray],
    weights: FloatArray,
    top_k: int,
    samples: int,
    rng: np.random.Generator,
    done: Callable[[int], None],
    kept: IntArray,
) -> BestProbabilities:
    """Joint samples of c candidate rows under a mixture of S normals.

    :param means: (S, c).
    :param factors: S of (c, c), covariance = factor factor'.
    :param weights: (S,), by which each has its share of the samples.
    :param top_k: at most c.
    :param kept: numbers of the samples to give back, ascending.
    """
    c = means.shape[1]
    some = np.empty((len(kept), c))
    p_best, p_top_k = np.zeros(c), np.zeros(c)
    best, kth = np.empty(samples), np.empty(samples)
    ends = np.cumsum(allotted(weights, samples))
    for part in _chunks(samples, c):
        size = part.stop - part.start
        draws = rng.standard_normal((size, c))
        which = np.searchsorted(ends, np.arange(part.start, part.stop), side="right")
        for i in np.unique(which):
            draws[which == i] = means[i] + draws[which == i] @ factors[i].T
        top = np.argpartition(-draws, top_k - 1, axis=1)[:, :top_k]
        values = np.take_along_axis(draws, top, 1)
        first = values.argmax(1)
        p_best += np.bincount(top[np.arange(size), first], minlength=c)
        p_top_k += np.bincount(top.reshape(-1), minlength=c)
        best[part], kth[part] = values.max(1), values.min(1)
        here = slice(*np.searchsorted(kept, [part.start, part.stop]))
        some[here] = draws[kept[here] - part.start]
        done(part.stop)
    if len(factors) > 1:  # no longer by parts
        mixed = rng.permutation(samples)
        best, kth = best[mixed], kth[mixed]
    return BestProbabilities(p_best / samples, p_top_k / samples, best, kth, some)


def outside_bound(threshold: FloatArray, outside: Normals) -> float:
    """Bound of the probability that any outside item exceeds a random threshold.

    For every c it is at most P(threshold < c) + sum_j P(f_j > c), whatever the correlations. c is
    chosen by the first tenth of the samples `threshold`; the first term is then the one-sided 99 %
    Clopper-Pearson limit from the other samples, so that the choice does not flatter the bound.
    """
    mean, sd = outside.means, np.sqrt(np.maximum(outside.variances, 0.0))
    if mean.shape[1] == 0:
        return 0.0
    pilot = max(2, int(_PILOT_SHARE * len(threshold)))
    rest = threshold[pilot:]
    centre, spread = float(threshold[:pilot].mean()), float(threshold[:pilot].std(ddof=1))

    def exceed(c: float) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (mean - c) / sd
        # Without variance an item exceeds c or does not; on c itself it may.
        beyond = special.ndtr(np.where(sd > 0.0, z, np.where(mean >= c, np.inf, -np.inf)))
        return float(outside.weights @ beyond.sum(1))

    steps = np.linspace(-6.0, 2.0, 33)
    guesses = [special.ndtr(step) + exceed(centre + spread * step) for step in steps]
    c = centre + spread * float(steps[int(np.argmin(guesses))])
    below = int(np.count_nonzero(rest < c))
    limit = 1.0
    if below < len(rest):
        limit = float(special.betaincinv(below + 1, len(rest) - below, BOUND_CONFIDENCE))
    return min(1.0, limit + exceed(c))
