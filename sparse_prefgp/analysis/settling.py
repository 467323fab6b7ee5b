"""Whether the first k items are settled, how many votes more it takes, and what they are best of.

A draw u of all utilities has an order of its own. Were it the truth, N votes in place of today's
n would leave a straddling pair, one of its first k and one of the others, a variance V n / N, and
the first k would be mistaken with a probability of at most sum Phi(-d_u / sqrt(V n / N)) over these
pairs, d_u > 0 their differences in u. Settled is where that is at most 5 %.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from sparse_prefgp.analysis.acquisition import doubt_left, doubt_slope, expected_reduction
from sparse_prefgp.analysis.boards import at_a_date, board_of
from sparse_prefgp.analysis.candidates import likely_first, representatives
from sparse_prefgp.analysis.people import seen_by
from sparse_prefgp.analysis.prices import JUDGE, PRICE, priced
from sparse_prefgp.analysis.rank_sets import JointUtilities
from sparse_prefgp.analysis.ranking import on_rounding, ranks_of
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.models.likelihood import prior_of_ratios, usual
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.linalg import factorised
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.normals import allotted
from sparse_prefgp.support.randomness import seed_of
from sparse_prefgp.support.words import and_so, counted
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table, chance, first_of, records

TOP = 5
# The first k are settled where the chance of a mistake is at most this.
MISTAKEN = 0.05
# Of today's votes.
TIMES = (2, 4, 8, 16)
# The one of them that a sentence tells of.
FORESEEN = 8
DRAWS = 4000
MIN_DRAWS = 100
# So many items are looked at jointly at most: time by the cube, memory by the square.
JOINTLY = 1000
# What a verdict says of the logarithm of its noise, as Fisher information, at most (at 1.58 sd).
TOLD_OF_NOISE = 0.152
# Numbers at a time: 4 MB an array.
_AT_ONCE = 2**19

FORECAST = (
    Column("times", "times today's votes", ",", left=True),
    Column("votes", "votes", ","),
    Column("chance", "chance", chance),
)
PAIRS = (
    Column("first", "first", str, left=True),
    Column("second", "second", str, left=True),
    Column("doubt", "second is ahead", chance),
    Column("difference", "difference", "z.3f", spare=2),
    Column("sd", "sd", ".3f", spare=3),
    Column("information", "information of a vote", ".3f", spare=4),
    Column(JUDGE, "best asked of", str, left=True),
    Column(PRICE, "price", ",g"),
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Settled(Result):
    """Whether the first k are settled, by when, and the pairs in doubt; `print` shows it."""

    rows_name, also = "pairs", ("settled", "forecast")

    frame: Any
    """Data frame with one row for each pair of one of the first k, `first`, and one of the others,
    `second` (ids), the most doubtful first: `doubt` (the probability that the second is ahead),
    `difference` and `sd` (of utilities, first less second) and `information` (of a vote on it about
    the difference: by how much one over its variance grows). Where judges have noises of their own
    it is that of the `judge` whose vote tells most, for its `price` where prices are known.
    """
    first: tuple[Hashable, ...]
    """Ids of the first k, by expected utility."""
    chance_now: float
    """Posterior probability that these are the first k, in whatever order."""
    chances: tuple[float, ...]
    """That they are settled at 2, 4, 8 and 16 times today's votes, asked as those were."""
    votes: int
    """Those of today."""
    items: int
    """How many there are."""
    looked_at: int
    """Of these, the items most likely among the first k that were drawn jointly."""
    draws: int
    """Joint draws of the utilities."""
    seed: int
    """Of the draws."""
    equal_items: int
    """Items that count once, as others have the same features."""
    jitter: float
    """Largest that joint draws took."""
    negative_variances: int
    """Variances of pairs that rounding had made negative; they are set to 0."""
    converged: bool
    """Whether inference did."""

    @property
    def settled(self) -> bool:
        """Whether they are today."""
        return self.chance_now >= 1.0 - MISTAKEN

    @property
    def forecast(self) -> list[dict[str, Any]]:
        """`times`, `votes` and `chance` that the first k are settled then."""
        return [
            {"times": times, "votes": times * self.votes, "chance": chance}
            for times, chance in zip(TIMES, self.chances, strict=True)
        ]

    @property
    def conclusion(self) -> str:
        """Who the first are, and whether that is settled, in a sentence."""
        k, names = len(self.first), and_so(map(str, self.first))
        which, they_are = ("one is", "it is") if k == 1 else (f"{k} are", "they are")
        not_yet = "" if self.settled else "not "
        return (
            f"The first {which} {not_yet}settled: that {they_are} {names} has a probability of "
            f"{self.chance_now:.3f}; settled is from {1.0 - MISTAKEN:g} on."
        )

    @property
    def outlook(self) -> str:
        """Whether the first are settled, or the chance that more votes settle them, in a
        sentence."""
        k = len(self.first)
        which = "Which one is the first" if k == 1 else f"Which ones are the first {k}"
        if self.settled:
            return f"{which} is settled."
        chance_then = self.chances[TIMES.index(FORESEEN)]
        return (
            f"{which} is not settled; with {FORESEEN} times today's votes "
            f"({FORESEEN * self.votes:,}) it is with a chance of {chance_then:.2f}."
        )

    def forecast_table(self) -> Table:
        """The chances to come."""
        which = "one" if len(self.first) == 1 else f"{len(self.first)}"
        caption = (
            "Not the probability above, that these are the first: the share of draws in which so "
            "many votes in place of today's, asked as those were, would leave a chance of a "
            f"mistake of at most {100 * MISTAKEN:g} %."
        )
        title = f"Chance that more votes settle the first {which}"
        return Table("settled", title, FORECAST, self.forecast, caption)

    def table(self, most: int | None = None) -> Table:
        """The pairs in doubt, or the first of them."""
        shown = self.frame if most is None else self.frame.head(most)
        title = first_of(
            len(shown),
            len(self.frame),
            f"pairs of one of the first {len(self.first)} and another one, the most doubtful first",
        )
        return Table("in_doubt", title, PAIRS, records(shown))

    def parts(self, most: int | None = None) -> list[str | Table]:
        """The conclusion, the forecast where they are not settled, and what is most in doubt."""
        forecast = [] if self.settled else [self.forecast_table()]
        return [self.conclusion, *forecast, self.table(most), *self.sentences()]

    def sentences(self) -> list[str]:
        """What to know about the figures, one sentence each."""
        known = (
            (True, f"Chances are from {self.draws:,} joint draws of the utilities."),
            (
                JUDGE in self.frame,
                "Best asked is the judge whose vote tells most of the pair"
                f"{' for its price' if PRICE in self.frame else ''}: one of little noise, as "
                "expected (of few votes that of the usual judge, and more), and few ties.",
            ),
            (
                self.looked_at < self.items,
                f"Of {self.items:,} items the {self.looked_at:,} most likely among the first were "
                "looked at.",
            ),
            (
                self.equal_items > 0,
                f"{counted(self.equal_items, 'item')} that cannot be told apart from others count "
                "once.",
            ),
            (not self.converged, "Inference has NOT converged."),
        )
        found = [sentence for holds, sentence in known if holds]
        return found + on_rounding(self.jitter, self.negative_variances)


def settled(
    model: Predicts,
    top: int | None = None,
    items: Any = None,
    *,
    prices: Any = None,
    at: Any = (),
    person: Hashable | list[Hashable] | None = None,
    draws: int = DRAWS,
    rng: np.random.Generator | None = None,
) -> Settled:
    """Whether the first k items are settled, the chance that they will be, and what is in doubt.

    Settled are they where the posterior probability that it is these k is at least 0.95. The chance
    that they are at 2, 4, 8 and 16 times today's votes, on pairs asked as today's were, is the
    share of posterior draws for which such variances would suffice, in closed form. How many votes
    it takes on average cannot be said: two items may be equal, and that is never settled.

    :param model: whose posterior counts.
    :param top: k, 5 by default, or one less than the items where these are fewer.
    :param items: the model's own by default, or anything `resolve_items` takes.
    :param prices: what a vote of each judge costs, for a model with noise by judge: a mapping, or a
        path or data frame with the columns `judge` and `price`. Judges without one are not asked.
        By default all cost the same.
    :param at: as in `rank`.
    :param person: as in `rank`.
    :param draws: how many joint draws of the utilities.
    :param rng: of the draws.
    :raises ValueError: k that is not below the number of items; fewer than 100 draws; what
        `judges_of` and `resolve_items` raise; a model with logit factors, effects of pairs or ties
        that tell the margin alone.
    """
    draws = whole_number("draws", draws, MIN_DRAWS)
    seed = seed_of(rng)
    model, at = at_a_date(seen_by(model, person), at)
    model.allow(suggestion=True, worth=True)
    judges = judges_of(model, prices)
    board = board_of(model, items, at)
    _, kept = representatives(board.inputs)
    top = number_of_first(top, len(kept))
    inputs = board.inputs[kept]
    likely = likely_first(board.posterior, inputs, top, JOINTLY)
    equal_items, kept, inputs = len(board.items) - len(kept), kept[likely], inputs[likely]
    number = len(kept)
    held = 8 + len(board.posterior.parts)
    ask(8 * held * number**2, f"Joint covariances of {number:,} items", "give fewer items")
    x = as_float(inputs)
    generator, drawn, jitter = np.random.default_rng(seed), [], 0.0
    joint, weights, units = [], board.posterior.weights, model.mixture.units
    counts = allotted(weights, draws)
    for part, unit, count in zip(board.posterior.parts, units, counts.tolist(), strict=True):
        centre, own = (each.numpy() for each in part.joint(x))
        joint.append((unit * centre, unit**2 * own))
        root, added = factorised(own, float(np.mean(part.kernel(x, full_cov=False))))
        drawn.append(unit * (centre + generator.standard_normal((count, number)) @ root.T))
        jitter = max(jitter, added)
    means, covariances = map(np.array, zip(*joint, strict=True))
    mean, covariance = JointUtilities(means, covariances, weights).moments()
    first = FirstOnes(mean, covariance, top, 0.5 * model.likelihood.duel_noise)
    utilities = np.concatenate(drawn)
    is_first = np.zeros((draws, number), bool)
    of_draws = np.argpartition(-utilities, top - 1, axis=1)[:, :top]
    np.put_along_axis(is_first, of_draws, True, 1)
    names = [board.items.ids[i] for i in kept]
    return Settled(
        frame=_in_doubt(model, first, judges, names),
        first=tuple(names[i] for i in first.ahead),
        chance_now=float(is_first[:, first.ahead].all(1).mean()),
        chances=chances_settled(utilities, first.variances, top),
        votes=int(model.duels.num_duels),
        items=len(board.items),
        looked_at=number,
        draws=draws,
        seed=int(seed),
        equal_items=equal_items,
        jitter=jitter,
        negative_variances=first.negative_variances,
        converged=bool(model.infer().converged),
    )


def number_of_first(top: int | None, items: int) -> int:
    """The k of the first k of n items: 5 where nobody says, or n - 1 where these are fewer.

    :raises ValueError: fewer than two items; k that leaves no others.
    """
    if items < 2:
        raise ValueError("No two items can be told apart, so that none is the first; give others.")
    top = min(TOP, items - 1) if top is None else whole_number("top", top, 1)
    if top >= items:
        raise ValueError(
            f"top is {top:,}, but there are only {items:,} items that can be told apart; give at "
            f"most {items - 1:,} (--top, top=)."
        )
    return top


def chances_settled(utilities: FloatArray, variances: FloatArray, top: int) -> tuple[float, ...]:
    """The share of draws for which the first k are settled at each of `TIMES` today's votes.

    :param utilities: (draws, n).
    :param variances: (n, n) of today's differences.
    """
    number = utilities.shape[1]
    size = max(1, _AT_ONCE // (top * (number - top)))
    settled_at = np.zeros(len(TIMES))
    for i in range(0, len(utilities), size):
        some = utilities[i : i + size]
        order = np.argsort(-some, axis=1)
        ahead, behind = order[:, :top, None], order[:, None, top:]
        rows = np.arange(len(some))[:, None, None]
        difference = some[rows, ahead] - some[rows, behind]
        variance = variances[ahead, behind]
        for j, times in enumerate(TIMES):
            mistaken = _below_zero(difference, variance / times).sum((1, 2))
            settled_at[j] += np.count_nonzero(mistaken <= MISTAKEN)
    return tuple((settled_at / len(utilities)).tolist())


def _below_zero(difference: FloatArray, variance: FloatArray) -> FloatArray:
    """P(d < 0) of normals; of a d of 0 without variance, of which nothing is known, one half."""
    sd = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(difference == 0.0, 0.0, -difference / sd)
    return ndtr(z)


class FirstOnes:
    """The first k of n items by expected utility, and what is in doubt about who they are.

    :param noise_variance: of an item, next to which means that differ by rounding are equal.
    :ivar ahead: (k,) their rows, the best first; of equals as they come, as `rank` has them.
    :ivar behind: (n - k,) those of the others, the best first.
    :ivar variances: (n, n) of the differences of all items.
    :ivar negative_variances: how many of these rounding had made negative; they are set to 0.
    """

    def __init__(
        self, mean: FloatArray, covariance: FloatArray, top: int, noise_variance: float
    ) -> None:
        order = np.argsort(ranks_of(mean, noise_variance), kind="stable")
        self.ahead, self.behind = order[:top], order[top:]
        self.mean, self._covariance = mean, covariance.copy()
        own = np.diag(covariance)
        variances = own[:, None] + own - covariance - covariance.T
        np.fill_diagonal(variances, 0.0)
        self.negative_variances = int(np.triu(variances < 0.0, 1).sum())
        self.variances = np.maximum(variances, 0.0)
        self.differences = mean[self.ahead][:, None] - mean[self.behind]
        self._before = self.variances[np.ix_(self.ahead, self.behind)]
        self._left = self._before.copy()

    def difference(self, first: IntArray, second: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance, (N,) each, of pairs of rows, given what was asked."""
        covariance = self._covariance
        own = covariance[first, first] + covariance[second, second]
        variance = own - 2.0 * covariance[first, second]
        # Negative only by rounding, of which those before any was asked are counted.
        return self.mean[first] - self.mean[second], np.maximum(variance, 0.0)

    def gains(self, first: IntArray, second: IntArray, reduction: FloatArray) -> FloatArray:
        """By how much the doubt about all pairs of one of the first and one of the others falls
        where a pair (N,) is asked, whose answer takes `reduction` Cov² off variances."""
        doubt = doubt_left(self.differences, self._before, self._left)

        def of_some(ahead: FloatArray, behind: FloatArray, taken: FloatArray) -> FloatArray:
            apart = ahead[:, None] - behind[None]
            left = np.maximum(self._left[..., None] - taken * apart**2, 0.0)
            before = np.broadcast_to(self._before[..., None], left.shape)
            after = doubt_left(self.differences[..., None], before, left)
            return (doubt[..., None] - after).sum((0, 1))

        return self._of_pairs(of_some, self._left.size, first, second, reduction)

    def first_order_gains(
        self, first: IntArray, second: IntArray, reduction: FloatArray
    ) -> FloatArray:
        """`gains` as they would be were doubts linear in variances: a hundredth of their cost."""
        slope = doubt_slope(self.differences, self._before, self._left)
        by_ahead, by_behind = slope.sum(1), slope.sum(0)

        def of_some(ahead: FloatArray, behind: FloatArray, taken: FloatArray) -> FloatArray:
            both = by_ahead @ ahead**2 + by_behind @ behind**2
            return taken * (both - 2.0 * (ahead * (slope @ behind)).sum(0))

        return self._of_pairs(of_some, len(self.mean), first, second, reduction)

    def _of_pairs(
        self,
        of_some: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
        numbers: int,
        first: IntArray,
        second: IntArray,
        reduction: FloatArray,
    ) -> FloatArray:
        """A value of each pair (N,) from its covariances with the first k and with the others,
        (k, N) and (n - k, N), so many pairs at a time that `numbers` of each fit."""
        size, values = max(1, _AT_ONCE // numbers), np.empty(len(first))
        for start in range(0, len(first), size):
            some = slice(start, start + size)
            columns = self._covariance[first[some]] - self._covariance[second[some]]
            values[some] = of_some(
                columns[:, self.ahead].T, columns[:, self.behind].T, reduction[some]
            )
        return values

    def ask(self, first: int, second: int, reduction: float) -> None:
        """Go on as if a pair were asked: variances fall as expected, means stay."""
        column = np.sqrt(reduction) * (self._covariance[:, first] - self._covariance[:, second])
        self._covariance = self._covariance - np.outer(column, column)
        taken = (column[self.ahead][:, None] - column[self.behind]) ** 2
        self._left = np.maximum(self._left - taken, 0.0)  # negative only by rounding


class Judges(NamedTuple):
    """Who may be asked."""

    names: tuple[Hashable, ...]
    noise: FloatArray
    """(J,) noise variances of a duel, see `expected_noise`."""
    margin: FloatArray
    """(J,), 0 without ties."""
    prices: FloatArray | None
    """(J,) of a vote; None where all cost the same."""

    def best(self, mean: float, variance: float) -> tuple[int, float]:
        """Who tells most of a difference for the price, by number, and the reduction of variances
        by an answer: `acquisition.expected_reduction`."""
        one = np.ones(len(self.names))
        found = expected_reduction(mean * one, variance * one, self.noise, self.margin)
        best = int(np.argmax(found if self.prices is None else found / self.prices))
        return best, float(found[best])


def judges_of(model: Predicts, prices: Any = None) -> Judges | None:
    """The judges of a model with noise by judge, those with a price where some have one.

    :param prices: as for `settled`.
    :raises ValueError: prices for a model with one noise for all; a judge that the model does not
        know, or who is there twice; what is no positive number.
    """
    likelihood = model.likelihood
    together.check(prices=prices is not None, one_noise=likelihood.noise_ratio is None)
    if likelihood.noise_ratio is None:
        return None
    names, margin = tuple(model.duels.group_names or ()), likelihood.of_judges[1]
    noise = expected_noise(model)
    if prices is None:
        return Judges(names, noise, margin, None)
    some, own = zip(*sorted(priced(names, prices).items()), strict=True)
    which = np.array(some)
    return Judges(tuple(names[i] for i in some), noise[which], margin[which], np.array(own))


def expected_noise(model: Predicts) -> FloatArray:
    """(J,) noise variances of judges, expected over what their votes leave open.

    What is likeliest draws whoever has few votes to the prior, though others may all be noisier,
    and is below the expectation. Here such a judge is drawn to the usual one instead, the geometric
    mean by votes, and the expectation is that of a log-normal: who has no votes is no better than
    the usual judge.
    """
    likelihood = model.likelihood
    ratio, noise = likelihood.noise_ratio, likelihood.of_judges[0]
    assert ratio is not None
    if ratio.prior is None or not ratio.trainable:  # as it is known
        return noise
    votes = model.duels.group_levels.sum(1)
    centre, sd = prior_of_ratios(ratio, "noise_ratio")
    open_still = 1.0 / (1.0 + votes * TOLD_OF_NOISE * sd**2)  # share of the prior variance
    usual_log = np.log(usual(ratio.numpy(), votes))
    return noise * np.exp(open_still * (usual_log - centre + 0.5 * sd**2))


def _in_doubt(
    model: Predicts, first: FirstOnes, judges: Judges | None, names: list[Hashable]
) -> Any:
    """The data frame of `Settled`."""
    ahead, behind = (x.ravel() for x in np.meshgrid(first.ahead, first.behind, indexing="ij"))
    mean, variance = first.difference(ahead, behind)
    doubt = _below_zero(mean, variance)
    order = np.argsort(-doubt, kind="stable")
    mean, variance = mean[order], variance[order]
    said: dict[str, Any] = {
        "first": [names[i] for i in ahead[order]],
        "second": [names[i] for i in behind[order]],
        "doubt": doubt[order],
        "difference": mean,
        "sd": np.sqrt(variance),
    }
    if judges is None:
        noise, margin = model.likelihood.of_duels
        said["information"] = expected_reduction(mean, variance, noise, margin or 0.0)
    else:
        best = [judges.best(*each) for each in zip(mean, variance, strict=True)]
        said["information"] = [information for _, information in best]
        said[JUDGE] = [judges.names[i] for i, _ in best]
        if judges.prices is not None:
            said[PRICE] = [float(judges.prices[i]) for i, _ in best]
    return require_pandas().DataFrame(said)
