"""Contradictions and cycles in duels, and whether a model explains them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from scipy.sparse import csr_array
from scipy.special import log_ndtr, logsumexp

from sparse_prefgp.analysis.items import ItemSet, items_of
from sparse_prefgp.covariances.kernels import kernel_matrix, pair_difference_variance
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.factors.noise import ONE_NOISE
from sparse_prefgp.models.likelihood import BOX
from sparse_prefgp.models.outcomes import group_numbers
from sparse_prefgp.models.posterior import in_chunks
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.linalg import cholesky_with_jitter
from sparse_prefgp.support.randomness import generator
from sparse_prefgp.tell.result import Figures, Result
from sparse_prefgp.tell.tables import Column, Table, facts_table

JOINT_UP_TO = 2000
WORST_SHOWN = 5
# Among equally strong cycles so many are compared by all their majorities.
CYCLES_RANKED = 10_000
TAIL = 0.025
# Fewer cannot tell where the outer 2.5 % begin.
MIN_SIMULATIONS = 100
JOINTLY = "utilities of all items drawn jointly"
BY_PAIR = "the utility difference of each pair drawn by itself"
ONCE, EACH_TIME = ", once", ", again for each set"
RESIDUAL_NOISE = "; what inducing inputs leave unexplained is noise of each vote, as in the fit"

CHECKS = (
    Column("what", "", left=True),
    Column("observed", "observed", ","),
    Column("expected", "expected", ",.1f"),
    Column("low", "from", ",.0f"),
    Column("high", "to", ",.0f"),
    Column("tail", "share with more", ".3f"),
    Column("verdict", "", left=True),
)


@dataclass(frozen=True)
class Cycle:
    """Three items of which the first beat the second, the second the third, the third the first."""

    items: tuple[Hashable, Hashable, Hashable]
    """Their ids, or row numbers where they have none."""
    margins: tuple[int, int, int]
    """By how many votes, in that order."""

    def __str__(self) -> str:
        a, b, c = map(str, self.items)
        return f"{a} > {b} > {c} > {a} (by {', '.join(map(str, self.margins))} votes)"


@dataclass(frozen=True)
class Check(Figures):
    """One figure of the data next to the same figure of data redrawn from the model."""

    also = ("verdict",)

    what: str
    """Name of the figure."""
    observed: int
    """The figure in the data."""
    expected: float
    """Its mean over the redrawn data."""
    low: float
    """Lower end of the interval that holds 95 % of the redrawn figures."""
    high: float
    """Upper end of that interval."""
    tail: float
    """Share of the redrawn figures above the one observed, equal ones, of which there are many, in
    random order: (number above + u (1 + number equal)) / (1 + simulations), u uniform on (0, 1).
    """

    @property
    def verdict(self) -> str:
        """`explained`, `more than the model explains` or `fewer than the model expects`."""
        if self.observed > self.high:
            return "more than the model explains"
        if self.observed < self.low:
            return "fewer than the model expects"
        return "explained"


@dataclass(frozen=True)
class Consistency(Result):
    """How far duels contradict each other. `print` shows it as text.

    A pair is two items that were compared, in either order; the majority of its votes is a
    preference, equal votes are none.
    """

    also = ("share_intransitive", "explained", "conclusion")

    votes: int
    """Number of duels that one side won."""
    pairs: int
    """Distinct unordered pairs of items in them."""
    contradicted_pairs: int
    """Pairs won by both sides at least once."""
    minority_votes: int
    """Votes against the majority of their pair, half of them where votes are equal."""
    tied_pairs: int
    """Pairs with equal votes for both sides."""
    triples: int
    """Three items compared in all three pairs."""
    decided_triples: int
    """Triples with a preference in all three pairs."""
    cycles: int
    """Decided triples a > b > c > a, which no order of the items agrees with."""
    worst: tuple[Cycle, ...]
    """The cycles whose weakest majority is strongest."""
    checks: tuple[Check, ...] = ()
    """Contradicted pairs, minority votes and cycles against data redrawn from the model; empty
    without a model.
    """
    simulations: int = 0
    """How often data were redrawn."""
    draws: str | None = None
    """How the utilities for that were drawn."""
    jitter: float = 0.0
    """What was added to the diagonal of the posterior covariance to factorise it."""
    negative_variances: int = 0
    """How many variances rounding had made negative; their sd is 0."""
    ties: int = 0
    """Duels left out because they were tied."""

    @property
    def share_intransitive(self) -> float:
        """Cycles per decided triple, NaN without any; coins in place of voters give 1/4."""
        return self.cycles / self.decided_triples if self.decided_triples else float("nan")

    @property
    def explained(self) -> bool | None:
        """Whether no figure is above what the model explains; None without a model."""
        if not self.checks:
            return None
        return all(check.verdict != "more than the model explains" for check in self.checks)

    @property
    def conclusion(self) -> str:
        """What the checks say, in plain words; empty without a model."""
        if not self.checks:
            return ""
        contradictions, minority, cycles = self.checks
        if not self.contradicted_pairs and not self.decided_triples:
            return (
                "No pair was won by both sides and no three items were compared in all three "
                "pairs, so there is nothing for the model to explain."
            )
        more = "more than the model explains"
        said = []
        if more in (contradictions.verdict, minority.verdict):
            said.append(
                "Votes contradict each other more than the model's noise explains: voters may "
                "differ, or votes may depend on something that is not a feature of the items."
            )
        elif "fewer than the model expects" in (contradictions.verdict, minority.verdict):
            said.append(
                "Votes contradict each other less than the model expects: votes on one pair may "
                "not be independent, or the model smooths over differences between items."
            )
        else:
            said.append("The model explains the contradictions between votes by its noise.")
        if cycles.verdict == more:
            said.append(
                "There are more cycles than the model explains: one utility for all gives cycles "
                "only by noise, so what wins may depend on what it is compared with, or there are "
                "several kinds of voters."
            )
        elif not self.decided_triples:
            said.append("No three items have a preference in all three pairs, so none can cycle.")
        elif cycles.verdict == "fewer than the model expects":
            few = "There are fewer cycles than noise alone would give in the model"
            jointly = self.draws is not None and self.draws.startswith(JOINTLY)
            # Where pairs are drawn by themselves, uncertain utilities make cycles of their own.
            said.append(f"{few}{'' if jointly else ', or drawing each pair by itself adds some'}.")
        else:
            said.append("The model explains the cycles: noise alone gives as many.")
        return " ".join(said)

    def table(self, most: int | None = None) -> Table:
        """The counts."""
        share = f" ({100 * self.share_intransitive:.2f} % of these)" if self.decided_triples else ""
        rows = [
            ("votes", self.votes),
            ("ties, left out", self.ties or None),
            ("pairs compared", self.pairs),
            ("pairs won by both sides", self.contradicted_pairs),
            ("votes in the minority of their pair", self.minority_votes),
            ("pairs with equal votes", self.tied_pairs),
            ("triples compared in all three pairs", self.triples),
            ("triples with three preferences", self.decided_triples),
            ("cycles a > b > c > a", f"{self.cycles:,}{share}"),
        ]
        return facts_table("", rows)

    def parts(self, most: int | None = None) -> list[str | Table]:
        """The counts, the strongest cycles, and what the model says of them."""
        parts: list[str | Table] = [self.table()]
        if self.worst:
            parts += ["Cycles with the strongest majorities:", *map(str, self.worst)]
        if self.checks:
            title = f"Against {self.simulations:,} redrawn sets of votes ({self.draws})"
            parts += [
                Table("checks", title, CHECKS, [check.to_dict() for check in self.checks]),
                self.conclusion,
            ]
        return parts


def consistency(
    duels: Duels,
    model: Predicts | None = None,
    *,
    simulations: int = 200,
    rng: np.random.Generator | None = None,
) -> Consistency:
    """Count contradictions and intransitive triples; with a model, say whether it explains them.

    Utilities are drawn from the model's posterior, every vote is redrawn with its noise on the same
    pairs with the same totals, and the figures are counted again. If the model is true, the tail of
    each figure is uniform on (0, 1), for which it takes two things besides random order of equal
    figures:

    - Votes that the model has learned from, `model.duels`, are redrawn from *one* draw of the
      utilities. That draw and the votes are related as the true utilities and the votes are, so
      that votes redrawn from it are votes like those seen (sampled posterior p-values, Johnson
      2004, Gosselin 2011). With new utilities for each set, as in a posterior predictive check
      (Gelman, Meng & Stern 1996), votes are compared with utilities that were fitted to them, and
      tails crowd about ½: their standard deviation is 0.2 in place of 0.29 (docs/method.md, 7).
    - Other votes are new to the model, and redrawn with new utilities for each set: their
      predictive distribution. Duels of which only some are the model's are neither, and their
      tails are too near to ½.

    Another seed is another draw of the utilities; misfit that only some seeds show is slight. The
    tail is uniform at true hyperparameters under exact inference: learned ones make tails a little
    too near to ½, and a poor approximation shows here as misfit. Utilities of up to 2,000 distinct
    items are drawn jointly; above that, only the difference of each pair, by itself, which brings
    tails nearer to ½ and lets cycles be more frequent. What FITC and its relatives count as noise
    of each duel (`residual_share`) is noise here too. Ties are left out, and votes are redrawn
    given that they are not ties; with noise by group each has that of its own group,
    or any by the prior where that is unknown.

    Warns of groups that a model with noise by group does not know, and of covariates, with which
    there is no check.

    :param duels: the votes.
    :param model: its features must be those of `duels`, which are converted to its units where they
        record another transform; usually `duels` is `model.duels`.
    :param simulations: how often data are redrawn.
    :param rng: of the draws, and of the order of equal figures.
    :raises ValueError: fewer than 100 simulations, which decide nothing; an `rng` that is none;
        features that are not the model's, or cannot be converted to its units; only ties.
    """
    simulations = whole_number("simulations", simulations, MIN_SIMULATIONS)
    rng = generator(rng)
    if duels.events.has_sets:
        raise together.refused(consistency=True, sets=f"{duels.events.noun} from sets")
    together.check(only_ties=not duels.decided.any(), consistency=True)
    graph = _Pairs.of(duels)
    contradicted, minority, cycles = graph.figures(graph.wins)
    result = Consistency(
        votes=int(graph.totals.sum()),
        ties=duels.num_ties,
        pairs=len(graph.wins),
        contradicted_pairs=contradicted,
        minority_votes=minority,
        tied_pairs=int((2 * graph.wins == graph.totals).sum()),
        triples=graph.triangles(),
        decided_triples=graph.triangles(2 * graph.wins != graph.totals),
        cycles=cycles,
        worst=_worst(graph, duels),
    )
    if model is not None and (duels.covariate_names or model.duels.covariate_names):
        of, names = "duels", duels.covariate_names
        if not names:
            of, names = "duels of the model", model.duels.covariate_names
        warnings.warn(
            f"The {of} have covariates ({', '.join(names)}), which redrawn votes would not know; "
            "contradictions are counted, and not compared with the model's.",
            stacklevel=3,
        )
        model = None
    if model is None:
        return result
    draws = _draws(graph, duels, model, rng)
    votes = _Votes.of(graph, duels, model, draws.residual)
    fixed = draws.draw() if draws.once else None
    redrawn = np.array(
        [
            graph.figures(votes.wins(draws.draw() if fixed is None else fixed, rng))
            for _ in range(simulations)
        ]
    )
    names = ("pairs won by both sides", "votes in the minority", "cycles")
    observed = (contradicted, minority, cycles)
    among_equal = rng.uniform(size=3)
    checks = tuple(
        _check(*each) for each in zip(names, observed, redrawn.T, among_equal, strict=True)
    )
    return replace(
        result,
        checks=checks,
        simulations=simulations,
        draws=draws.how,
        jitter=draws.jitter,
        negative_variances=draws.negative_variances,
    )


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Unordered pairs, of which the first has the smaller number by `order`.

    Items are renumbered by how many others they were compared with: then each has few neighbours
    with larger numbers, at most sqrt(2 pairs), whatever hubs there are, and triangles are counted
    in bounded memory.
    """

    first: IntArray
    """(p,) new numbers, first < second."""
    second: IntArray
    """(p,) new numbers, first < second."""
    wins: IntArray
    """(p,) votes for the first."""
    totals: IntArray
    """(p,) votes."""
    items: IntArray
    """(k,) item of each new number."""
    pair: IntArray
    """(v,) the pair of each row of duels that is not a tie."""

    @classmethod
    def of(cls, duels: Duels) -> _Pairs:
        n, decided = duels.num_items, duels.decided
        winners, losers, counts = (x[decided] for x in (duels.winners, duels.losers, duels.counts))
        low = np.minimum(winners, losers)
        key, pair = np.unique(low * n + np.maximum(winners, losers), return_inverse=True)
        pair = pair.reshape(-1)
        ends = np.stack(np.divmod(key, n))
        degree = np.bincount(ends.ravel(), minlength=n)
        items = np.argsort(degree, kind="stable")[int((degree == 0).sum()) :]
        number = np.zeros(n, dtype=np.int64)
        number[items] = np.arange(len(items))
        first = number[ends].min(axis=0)
        second = number[ends].max(axis=0)
        won = np.where(number[winners] == first[pair], counts, 0)
        return cls(first, second, _sums(pair, won), _sums(pair, counts), items, pair)

    def figures(self, wins: IntArray) -> tuple[int, int, int]:
        """Contradicted pairs, minority votes and cycles if the first of each pair won `wins`."""
        lost = self.totals - wins
        contradicted = int(((wins > 0) & (lost > 0)).sum())
        forward, backward = self._matrix(wins > lost), self._matrix(wins < lost)
        # i > j > k > i for i < j < k, or the other way round.
        cycles = _closed(forward, backward) + _closed(backward, forward)
        return contradicted, int(np.minimum(wins, lost).sum()), cycles

    def triangles(self, mask: BoolArray | None = None) -> int:
        """Triples compared in all three pairs, or in three pairs of a mask."""
        matrix = self._matrix(np.ones(len(self.wins), dtype=bool) if mask is None else mask)
        return _closed(matrix, matrix)

    def cycles_of(self, at_least: int, limit: int) -> list[tuple[int, int, int]]:
        """Up to `limit` cycles (a, b, c) of majorities by at least so many votes."""
        margin = 2 * self.wins - self.totals
        forward, backward = self._matrix(margin >= at_least), self._matrix(-margin >= at_least)
        found: list[tuple[int, int, int]] = []
        for step, back, turn in ((forward, backward, False), (backward, forward, True)):
            closing = ((step @ step) * back).tocoo()
            columns = step.tocsc()
            for i, k in zip(closing.row, closing.col, strict=True):
                out = step.indices[step.indptr[i] : step.indptr[i + 1]]
                into = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
                for j in np.intersect1d(out, into):
                    found.append((int(k), int(j), int(i)) if turn else (int(i), int(j), int(k)))
                    if len(found) >= limit:
                        return found
        return found

    def margin(self, winner: int, loser: int) -> int:
        """By how many votes one item, by its new number, is preferred to another."""
        low, high = min(winner, loser), max(winner, loser)
        at = int(np.flatnonzero((self.first == low) & (self.second == high))[0])
        margin = int(2 * self.wins[at] - self.totals[at])
        return margin if winner == low else -margin

    def _matrix(self, mask: BoolArray) -> Any:
        """Sparse (k, k) with 1 at (first, second) of the pairs of a mask."""
        k = len(self.items)
        ones = np.ones(int(mask.sum()), dtype=np.int64)
        return csr_array((ones, (self.first[mask], self.second[mask])), shape=(k, k))


def _sums(pair: IntArray, values: IntArray) -> IntArray:
    """Sums of whole numbers for each pair, exact up to 2**63."""
    result = np.zeros(int(pair.max()) + 1, dtype=np.int64)
    np.add.at(result, pair, values)
    return result


def _closed(step: Any, close: Any) -> int:
    """Paths i, j, k of two steps whose ends i, k are in `close`."""
    return int(((step @ step) * close).sum())


def _worst(graph: _Pairs, duels: Duels) -> tuple[Cycle, ...]:
    """The cycles with the strongest weakest majority, then with the strongest in all."""
    levels = np.unique(np.abs(2 * graph.wins - graph.totals))
    levels = levels[levels > 0]
    # The largest level with enough cycles; levels above it have fewer, all of which are listed.
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        enough = len(graph.cycles_of(int(levels[middle]), WORST_SHOWN)) == WORST_SHOWN
        low, high = (middle + 1, high) if enough else (low, middle)
    found = [] if low == len(levels) else graph.cycles_of(int(levels[low]), WORST_SHOWN)
    if low:
        found += graph.cycles_of(int(levels[low - 1]), CYCLES_RANKED)
    ids = duels.item_ids
    cycles = []
    for a, b, c in dict.fromkeys(found):
        margins = graph.margin(a, b), graph.margin(b, c), graph.margin(c, a)
        names = [int(i) if ids is None else ids[i] for i in graph.items[[a, b, c]]]
        # From its strongest majority on.
        start = int(np.argmax(margins))
        turned = [(start + step) % 3 for step in range(3)]
        cycles.append(
            Cycle(
                (names[turned[0]], names[turned[1]], names[turned[2]]),
                (margins[turned[0]], margins[turned[1]], margins[turned[2]]),
            )
        )
    cycles.sort(key=lambda cycle: (-min(cycle.margins), -sum(cycle.margins), str(cycle)))
    return tuple(cycles[:WORST_SHOWN])


@dataclass(frozen=True, eq=False)
class _Draws:
    """Draws of the utility differences (p,) of the pairs, and how they are made."""

    draw: Callable[[], FloatArray]
    residual: FloatArray
    """(p,) variance that inducing inputs leave, which is noise of each vote."""
    how: str
    once: bool
    """Whether all votes are redrawn from one draw, as the model has learned from them."""
    jitter: float = 0.0
    negative_variances: int = 0


def _draws(graph: _Pairs, duels: Duels, model: Predicts, rng: np.random.Generator) -> _Draws:
    model.allow(consistency=True)
    items = items_of(model, duels)
    once = _has_learned_from(model, duels, items)
    inputs, row = items.inputs[graph.items], np.arange(len(graph.items))
    if not model.inputs.layout.numbered:
        # Items with equal features have one utility.
        inputs, row = np.unique(inputs + 0.0, axis=0, return_inverse=True)
    else:
        # Each unknown item has a number, and so an effect, of its own.
        unknown = -1.0 - np.arange(len(inputs))
        inputs[:, -1] = np.where(inputs[:, -1] < 0, unknown, inputs[:, -1])
    first, second = (row.reshape(-1)[end] for end in (graph.first, graph.second))
    share = model.approximation.residual_share
    # To an approximation that adds residuals to the noise, they are drawn again for each vote.
    residual = np.zeros(len(first))
    if share:
        residual = share * _residuals(model, inputs[first], inputs[second])
    added = (ONCE if once else EACH_TIME) + (RESIDUAL_NOISE if share else "")
    if len(inputs) > JOINT_UP_TO:
        mean, variance = (
            np.asarray(x) for x in model.predict_difference(inputs[first], inputs[second])
        )
        variance = variance - residual
        sd = np.sqrt(np.maximum(variance, 0.0))
        negative = int((variance < 0.0).sum())
        return _Draws(
            lambda: mean + sd * rng.normal(size=len(mean)),
            residual,
            BY_PAIR + added,
            once,
            negative_variances=negative,
        )
    mean, covariance = (np.asarray(x) for x in model.predict_f(inputs, full_cov=True))
    shared = covariance[0]
    if share:
        posterior = model.at_mode.posterior()
        a = np.asarray(posterior.features(inputs))
        shared = shared - share * (np.asarray(kernel_matrix(posterior.kernel, inputs)) - a @ a.T)
    factor, jitter = (np.asarray(x) for x in cholesky_with_jitter(shared))
    if not np.isfinite(factor).all():
        raise ValueError(
            f"The posterior covariance of the {len(inputs)} items cannot be factorised, even with "
            f"{float(jitter):.1e} added to its diagonal; check the model's parameters."
        )

    def draw() -> FloatArray:
        utility = mean[:, 0] + factor @ rng.normal(size=len(inputs))
        return np.asarray(utility[first] - utility[second])

    return _Draws(draw, residual, JOINTLY + added, once, jitter=float(jitter))


def _has_learned_from(model: Predicts, duels: Duels, items: ItemSet) -> bool:
    """Whether these are the duels that the model has learned from, all of them and no others.

    Of streamed ones, which are not kept, it is known how often each item was compared; of a subset
    (`SubsetOfData`) most are new.
    """
    own = model.duels
    if not own.has_items or not np.array_equal(items.numbers, np.arange(own.num_items)):
        return False
    if not own.held:
        as_often = np.array_equal(duels.comparisons, own.comparisons)
        return as_often and duels.num_ties == own.num_ties
    all_used = model.num_duels_used == own.num_duels
    return all_used and (
        duels is own or np.array_equal(_ends(duels), _ends(holding_duels(model).duels))
    )


def _ends(duels: Duels) -> IntArray:
    """Winner, loser, outcome and count of each row, in one order whatever theirs is."""
    rows = np.column_stack([duels.winners, duels.losers, duels.decided, duels.counts])
    return rows[np.lexsort(rows.T)]


def _residuals(model: Predicts, first: FloatArray, second: FloatArray) -> FloatArray:
    """Prior variance of f(first) - f(second) that the inducing variables leave, (p,)."""
    posterior = model.posterior()

    def residual(pairs: Any) -> Any:
        explained = posterior.features(pairs[:, 0]) - posterior.features(pairs[:, 1])
        prior = pair_difference_variance(posterior.kernel, pairs[:, 0], pairs[:, 1])
        return prior - tf.reduce_sum(explained**2, -1)

    pairs = tf.constant(np.stack([first, second], axis=1), gpflow.default_float())
    # As in the fit, residuals that rounding made negative count as 0.
    return np.maximum(in_chunks(residual, pairs).numpy(), 0.0)


@dataclass(frozen=True, eq=False)
class _Votes:
    """Votes to be redrawn, each with one noise, or with any of several of an unknown judge."""

    pair: IntArray
    """(v,) the pair they are of."""
    totals: IntArray
    """(v,) how many."""
    noise: FloatArray
    """(K, v) standard deviation of the noise of each."""
    weights: FloatArray
    """(K, 1) of these in the probability of a vote."""
    margin: FloatArray
    """(K, v) by how much a difference must pass 0 to be a vote."""

    @classmethod
    def of(cls, graph: _Pairs, duels: Duels, model: Predicts, residual: FloatArray) -> _Votes:
        twice = 2.0 * float(model.likelihood.noise.numpy())
        # Whether a duel is tied tells nothing of who wins it where ties tell only the margin.
        margin = 0.0
        if model.likelihood.margin is not None and model.likelihood.ties == BOX:
            margin = float(model.likelihood.margin.numpy())
        pair, totals = np.arange(len(graph.totals)), graph.totals
        if model.likelihood.noise_ratio is None or duels.groups is None:
            new = model.likelihood.new_ratios()
            ratio, scale = new.ratios[:, None], new.scales[:, None]
        else:
            names = np.array([*(duels.group_names or ())], dtype=object)
            of_names = group_numbers(model, names, len(names))
            assert of_names is not None
            number = of_names[duels.groups]
            cells, cell = np.unique(
                np.stack([graph.pair, number[duels.decided]], 1), axis=0, return_inverse=True
            )
            pair, group = cells[:, 0], cells[:, 1]
            new = ONE_NOISE if np.all(group >= 0) else model.likelihood.new_ratios()
            known = model.likelihood.noise_ratio.numpy()[np.maximum(group, 0)]
            ratio = np.where(group >= 0, known, new.ratios[:, None])
            scale = np.ones_like(ratio)
            if model.likelihood.cut_scale is not None:
                known = model.likelihood.cut_scale.numpy()[np.maximum(group, 0)]
                scale = np.where(group >= 0, known, new.scales[:, None])
            totals = _sums(cell.reshape(-1), duels.counts[duels.decided])
        noise = np.sqrt(twice * ratio + residual[pair])
        return cls(pair, totals, noise, new.weights[:, None], margin * scale)

    def wins(self, difference: FloatArray, rng: np.random.Generator) -> IntArray:
        """Votes for the first of each pair, (p,), for utility differences (p,)."""
        z = difference[self.pair]
        won, lost = (
            logsumexp(log_ndtr((x - self.margin) / self.noise), axis=0, b=self.weights)
            for x in (z, -z)
        )
        # Given that it is not a tie; without a margin the two add up to 1.
        drawn = rng.binomial(self.totals, np.exp(won - np.logaddexp(won, lost)))
        return _sums(self.pair, drawn)


def _check(what: str, observed: int, redrawn: IntArray, among_equal: float) -> Check:
    low, high = np.quantile(redrawn, [TAIL, 1.0 - TAIL])
    above, equal = int((redrawn > observed).sum()), int((redrawn == observed).sum())
    tail = (above + among_equal * (1 + equal)) / (1 + len(redrawn))
    return Check(what, observed, float(redrawn.mean()), float(low), float(high), tail)
