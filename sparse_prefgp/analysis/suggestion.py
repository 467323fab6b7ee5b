"""Duels, or sets, to ask next: a batch, each chosen as if those before it were asked already."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.analysis.acquisition import (
    expected_best,
    expected_reduction,
    information_rule,
)
from sparse_prefgp.analysis.asked import AskedPairs
from sparse_prefgp.analysis.asked_sets import AskedSets
from sparse_prefgp.analysis.boards import At, at_a_date, board_of
from sparse_prefgp.analysis.candidates import (
    CandidatePairs,
    likely_best,
    listed_pairs,
    pairs_in_contexts,
    pairs_of_the_likely_best,
    pool,
    random_pairs,
    representatives,
)
from sparse_prefgp.analysis.contexts import contexts_at, has_contexts
from sparse_prefgp.analysis.items import ItemSet, numbered_inputs
from sparse_prefgp.analysis.people import Person, seen_by
from sparse_prefgp.analysis.prediction import TIE
from sparse_prefgp.analysis.prices import JUDGE, PRICE
from sparse_prefgp.analysis.ranking import on_rounding
from sparse_prefgp.analysis.roles import Columns
from sparse_prefgp.analysis.settling import (
    JOINTLY,
    FirstOnes,
    Judges,
    judges_of,
    number_of_first,
)
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.answers import CHOICE, Answers
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.engines import Status
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.models.questions import forecast_of
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice, whole_number
from sparse_prefgp.support.linalg import factorised
from sparse_prefgp.support.randomness import generator
from sparse_prefgp.support.words import agreeing, counted, of_the_mode
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table, chance, first_of, flag, records

Report = Callable[[int, int], None]

MAX_PAIRS = 50_000
# Pairs whose gain by "settle" is computed in full: those that gain most to first order.
CLOSELY = 64
DEFAULT_SCORE, SETTLE = "bald", "settle"
# What the scores are, in words.
SCORES = {
    "bald": "information about the utilities, in nats",
    "variance": "variance of the difference of utilities",
    "eubo": "expected utility of the better one, above the average candidate",
    "thompson": "sum of two drawn utilities, one of each item, above the average candidate",
    "settle": "doubt about who the first {top} are that it takes away",
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Suggestions(Result):
    """Pairs or sets to ask next, in the order of choice; `print` shows it as text."""

    frame: Any
    """Data frame with one row per pair: `first` and `second` (ids), `score` (given that those
    before it are asked), `probability` (that the first beats the second), for a model with a margin
    `tie_probability`, `difference` and `sd` (of utilities, first less second) under the posterior
    as it is, `outside_range` (either item outside the range of the training items), and by "settle"
    for a model with noise by judge `judge` and, where prices are known, `price`. Of sets of k
    items a row for each: `option_1` to `option_k` (ids), `score`, `probability_1` to
    `probability_k` (that each is chosen), `outside_range`; with a column `chosen` it is a table of
    choices.
    """
    score: str
    """Name of the score."""
    meaning: str
    """What the score means, in words."""
    candidates: int
    """Different items of the pairs looked at."""
    looked_at: int
    """Pairs looked at, possible: pairs there were."""
    possible: int
    chosen: str
    """How those were taken from these, in words."""
    repeated: int = 0
    """Pairs of a given list left out as repetitions."""
    equal: int = 0
    """Pairs of a given list left out because their items have equal features."""
    equal_items: int
    """Items left out, as others have the same features."""
    converged: bool
    """Whether inference did."""
    jitter: float = 0.0
    """Largest that joint draws took."""
    negative_variances: int
    """Variances of pairs that rounding had made negative; they are set to 0."""
    about: str = ""
    """More to know, in words."""
    set_size: int = 2
    """How many items are asked about at a time."""
    filtered: bool = False
    """Whether the sites are those of a filter, of which no fixed point is asked."""
    at_mode: bool = False
    """Whether hyperparameters are the most likely ones, though the model integrates over them."""

    @property
    def rows_name(self) -> str:  # type: ignore[override]
        """Of what they are."""
        return "pairs" if self.set_size == 2 else "sets"

    def table(self, most: int | None = None) -> Table:
        """The pairs or sets, in the order of choice."""
        shown = self.frame.iloc[:most]
        title = "Ask next"
        if len(shown) < len(self.frame):
            title = first_of(len(shown), len(self.frame), f"{self.rows_name} to ask next")
        score = Column("score", "score", "z.4f")
        outside = [Column("outside_range", "outside", flag, spare=1)]
        if not shown["outside_range"].any():
            outside = []
        if self.set_size > 2:
            places = range(1, self.set_size + 1)
            options = [Column(f"option_{j}", f"option_{j}", str, left=True) for j in places]
            rows = [
                {**row, "shares": " ".join(chance(row[f"probability_{j}"]) for j in places)}
                for row in records(shown)
            ]
            columns = [*options, score, Column("shares", "probabilities", str), *outside]
            return Table("sets", title, columns, rows)
        context = shown.columns[2 : shown.columns.get_loc("score")]
        columns = [
            *(Column(name, name, str, left=True) for name in ("first", "second")),
            score,
            Column("probability", "probability", chance),
            Column("tie_probability", "tie", chance),
            Column("difference", "difference", "z.3f"),
            Column("sd", "sd", ".3f", spare=3),
            *outside,
            *(Column(name, name, str, left=True) for name in context),
            Column(JUDGE, "best asked of", str, left=True),
            Column(PRICE, "price", ",g"),
        ]
        return Table("pairs", title, columns, records(shown))

    def sentences(self) -> list[str]:
        """What to know about the figures, one sentence each."""
        text = [
            f"Score: {self.meaning}, as if the {self.rows_name} above were asked already.",
            f"{self.looked_at:,} of {self.possible:,} {self.rows_name} were looked at: "
            f"{self.chosen}.",
        ]
        if self.score == "thompson":
            text[0] = f"Score: {self.meaning}; other draws for each pair."
        if JUDGE in self.frame:
            text.append("Each is asked of the judge who tells most of it for the price.")
        if (self.score, self.set_size) == (DEFAULT_SCORE, 2):
            text.append('To find the best item, use --score eubo (score="eubo").')
        if self.repeated:
            text.append(f"{self.repeated:,} repetitions of pairs count once.")
        if self.equal:
            text.append(f"{self.equal:,} pairs of items with equal features are left out.")
        if self.equal_items:
            text.append(
                f"{counted(self.equal_items, 'item')} {agreeing(self.equal_items)} left out, as "
                "others have the same features."
            )
        if self.about:
            text.append(self.about)
        if self.at_mode:
            text.append(of_the_mode("Scores and figures"))
        if not (self.converged or self.filtered):
            text.append("Inference has NOT converged.")
        return text + on_rounding(self.jitter, self.negative_variances)


class _Picks(NamedTuple):
    """Rows of the items of each pick, its score, and what is reported on how they were found."""

    ends: IntArray
    score: FloatArray
    jitter: float = 0.0
    negative_variances: int = 0
    asked_of: Mapping[str, list[Any]] = {}
    """The judge of each, and the price."""


def suggest(
    model: Predicts,
    candidates: Any = None,
    *,
    pairs: Any = None,
    columns: Columns = None,
    batch: int = 1,
    set_size: int = 2,
    score: str = DEFAULT_SCORE,
    top: int | None = None,
    prices: Any = None,
    max_pairs: int = MAX_PAIRS,
    at: At = (),
    person: Person = None,
    rng: np.random.Generator | None = None,
    progress: Report | None = None,
) -> Suggestions:
    """Which pairs, or which sets, to ask about next.

    Answers are expected of nobody in particular: where groups have noises of their own, of one that
    is not known, averaged over the prior. A margin can make them ties.

    After each pick all scores but "thompson" take the covariances that are to be expected once it
    is answered, for which no answer is needed, and hold the means. For "eubo" that is a rule that
    makes a batch diverse: on average over the answers no expected utility of a best option changes.
    "thompson" draws again for each pick. (docs/method.md, section 12)

    :param model: whose posterior counts.
    :param candidates: items, as `resolve_items` takes them; by default the model's own.
    :param pairs: path or data frame with the columns `first` and `second`, or else `winner` and
        `loser`, which hold ids, to choose from these pairs alone.
    :param columns: of pairs, those that are called otherwise than in training, by their names
        there, such as `{"surface": "ground"}`.
    :param batch: how many pairs, or sets, all different.
    :param set_size: how many items are shown at a time, to choose one of. Sets above two are found
        by "bald" alone: each grows from the pair that tells most, one item more at a time, the one
        with which the choice tells most, and is none that was asked about already. A set's
        information is found at 256 even draws of its utilities, within some 0.005 nats.
    :param score: "bald", the information that the answer has about all utilities, and "variance",
        of the difference, learn the utilities of all items. "eubo", the expected utility of the
        better one, and "thompson", the best items of two joint draws of the utilities, look for
        the best item. "settle" looks for who the first k are: by how much the answer is expected to
        lower how probably pairs of one of the first k and one of the others would be mistaken,
        summed over these pairs (`settled`); of items in contexts, on average over these. Where
        judges have noises of their own, each pair is asked of the one who tells most of it for the
        price, and the score is for one unit of it. Of more than 64 pairs those that tell most to
        first order are looked at in full.
    :param top: the k of "settle", 5 by default, or one less than the items where these are fewer.
    :param prices: for "settle", what a vote of each judge costs, as for `settled`.
    :param person: whose utility it is, for a model with tastes: a name, or a list of names for what
        these people prefer on average; by default what all share, of which
        answers of anybody tell.
    :param max_pairs: how many pairs are looked at. Of more, "bald" and "variance" take some at
        random, "eubo" and "thompson" those of the items most likely to beat the best, "settle"
        those of the items most likely among the first k. A given list, of whose items the first k
        then are, is looked at whole, but "thompson" draws the utilities of at most 1,000 items.
        Sets grow from so many pairs at most, of 1,000 items.
    :param at: contexts of the sides of the duels to choose from, as in `rank`; by default those of
        the training duels. Both sides share what belongs to the duel, and have contexts that were
        seen together.
    :param rng: of all that is drawn.
    :param progress: called with picks done and the total.
    :raises ValueError: a model with logit factors; a score that there is not; more picks than
        pairs; numbers that make no sense; sets above two with another score than "bald", a list of
        pairs or contexts; and what `resolve_items` raises.
    """
    model, at = at_a_date(seen_by(model, person), at)
    model.allow(suggestion=True)
    mixed, model = model.at_mode is not model, model.at_mode
    check_choice("score", score, SCORES)
    rng = generator(rng)
    batch = whole_number("batch", batch, 1)
    max_pairs = whole_number("max_pairs", max_pairs, 1)
    done = progress or (lambda count, total: None)
    places = [at] if isinstance(at, str | Mapping) else at
    in_contexts = has_contexts(model, candidates)
    together.check(
        set_size=whole_number("set_size", set_size, 2) > 2,
        other_score=score != "bald" and f"the score {score!r} (--score)",
        not_settle=score != SETTLE and f"the score {score!r} (--score)",
        settle=score == SETTLE and pairs is not None,
        top=top is not None,
        of_prices=prices is not None,
        pairs=pairs is not None,
        column=bool(columns) and "names of columns (columns=, --columns)",
        no_pairs=pairs is None,
        context=bool(places) and f"the context {places[0]!r} (--at)",
        contexts=in_contexts,
        no_contexts=not in_contexts,
    )
    if set_size > 2:
        found_sets = _sets(model, candidates, batch, set_size, max_pairs, rng, done)
        return replace(found_sets, at_mode=mixed)
    over: Posterior | None = None
    about = ""
    if pairs is None and in_contexts and score == SETTLE:
        found, over, about = _over_contexts(model, candidates, places, max_pairs, top)
    elif pairs is None and not in_contexts:
        found = candidate_pairs(model, candidates, score, max_pairs, rng, top)
    else:
        found = (
            pairs_in_contexts(model, candidates, max_pairs, places, rng)
            if pairs is None
            else listed_pairs(model, pairs, candidates, columns)
        )
        if score == "thompson" and len(found.items) > JOINTLY:
            found = found.narrowed(np.sort(likely_best(model, found.items)[:JOINTLY]))
    if batch > len(found):
        raise ValueError(
            f"batch is {batch:,}, but there are only {len(found):,} pairs to choose from; give at "
            f"most {len(found):,}, or more candidates."
            if len(found)
            else "None of the pairs is between two of the items most likely to beat the best, "
            "which alone are drawn; give fewer pairs, or another score."
        )
    best = best_of(model, found, batch, score, top, prices, rng, done, over)
    return replace(best, about=about, at_mode=mixed)


def _over_contexts(
    model: Predicts, candidates: Any, places: Any, max_pairs: int, top: int | None
) -> tuple[CandidatePairs, Posterior, str]:
    """Pairs of items, each the average over its contexts, the posterior at these, and this in
    words."""
    contexts_at(model, places)  # which refuses what is none
    board = board_of(model, candidates, places)
    _, kept = representatives(board.inputs)
    items = replace(board.items.select(kept), rows=None)
    first = number_of_first(top, len(items))
    found = pairs_of_the_likely_best(model, items, max_pairs, JOINTLY, first, board.posterior)
    words = f"{board.averaged} Gains are as if a vote were on that; ask it in any of these."
    equal_items = len(board.items) - len(items)
    return replace(found, equal_items=equal_items), board.posterior, words


def candidate_pairs(
    model: Predicts,
    candidates: Any,
    score: str,
    max_pairs: int,
    rng: np.random.Generator,
    top: int | None,
) -> CandidatePairs:
    """The pairs that `suggest` looks at where it is given no list, by its arguments."""
    items, equal_items = pool(model, candidates)
    if score in ("bald", "variance"):
        found = random_pairs(items, max_pairs, rng)
    else:
        most = None if score == "eubo" else JOINTLY
        first = number_of_first(top, len(items)) if score == SETTLE else None
        found = pairs_of_the_likely_best(model, items, max_pairs, most, first)
    return replace(found, equal_items=equal_items)


def best_of(
    model: Predicts,
    found: CandidatePairs,
    batch: int,
    score: str,
    top: int | None,
    prices: Any,
    rng: np.random.Generator,
    done: Report,
    over: Posterior | None = None,
) -> Suggestions:
    """The batch that `suggest` chooses of these pairs, by its arguments; of "settle" the first ones
    are of all items of `found`, whichever its pairs have.

    :param over: of "settle", the posterior of the utilities at the inputs of the items; by default
        that of the model.
    """
    if score == "thompson":
        picks = _drawn(model, found, batch, rng, done)
    elif score == SETTLE:
        top = number_of_first(top, len(found.items))
        picks = _settling(model, found, batch, top, judges_of(model, prices), done, over)
    else:
        picks = _asked(model, found, batch, score, done)
    items = found.items
    if over is None:
        forecast = model.predict(Answers.between(*picks.ends.T), items.inputs)
    else:
        rows, ends = np.unique(picks.ends, return_inverse=True)
        mean, covariance = (x.numpy() for x in over.joint(as_float(items.inputs[rows])))
        first, second = ends.reshape(-1, 2).T
        variance = np.diag(covariance)[first] + np.diag(covariance)[second]
        variance = variance - 2.0 * covariance[first, second]
        forecast = forecast_of(model, mean[first] - mean[second], variance)
    won, tied, _ = np.exp(forecast.results).T
    assert forecast.variance is not None
    frame = require_pandas().DataFrame(
        {
            **_named(items, picks.ends),
            "score": picks.score,
            "probability": won,
            **({} if model.likelihood.margin is None else {TIE: tied}),
            "difference": forecast.mean,
            "sd": np.sqrt(np.maximum(forecast.variance, 0.0)),
            "outside_range": items.outside[picks.ends].any(1),
            **picks.asked_of,
        }
    )
    return Suggestions(
        frame=frame,
        score=score,
        meaning=SCORES[score].format(top=top),
        candidates=len(items),
        **_inferred(model),
        jitter=picks.jitter,
        negative_variances=picks.negative_variances,
        looked_at=len(found),
        possible=found.possible,
        chosen=found.chosen,
        repeated=found.repeated,
        equal=found.equal,
        equal_items=found.equal_items,
    )


def _inferred(model: Predicts) -> dict[str, Any]:
    """How inference went."""
    found = model.infer()
    return {"converged": found.converged, "filtered": found.status is Status.FILTERED}


def _named(items: ItemSet, ends: IntArray) -> dict[str, list[Any]]:
    """Ids of both sides, and their context by the columns that tables of pairs have."""
    sides = dict(zip(("first", "second"), ends.T, strict=True))
    rows = items.rows
    if rows is None or not rows.columns:
        return {side: [items.ids[i] for i in index] for side, index in sides.items()}
    found = {side: [rows.bases[i] for i in index] for side, index in sides.items()}
    for j, name in enumerate(rows.columns):
        for side, index in sides.items():
            column = name if name in rows.shared else f"{side}_{name}"
            found[column] = rows.values[index, j].tolist()
    return found


# ---- sets -----------------------------------------------------------------------------------


def _sets(
    model: Predicts,
    candidates: Any,
    batch: int,
    size: int,
    max_pairs: int,
    rng: np.random.Generator,
    done: Report,
) -> Suggestions:
    model.allow(worth=True)
    items, equal_items = pool(model, candidates)
    possible = math.comb(len(items), size)
    chosen = "grown from the pair that tells most, item by item"
    if len(items) > JOINTLY:
        items = items.select(np.sort(rng.choice(len(items), JOINTLY, replace=False)))
        chosen += f", among {JOINTLY:,} items drawn at random"
    if size > len(items):
        raise ValueError(
            f"set_size is {size}, but there are only {len(items):,} items that differ; give at "
            f"most {len(items)}, or more candidates."
        )
    if batch > possible:
        raise ValueError(
            f"batch is {batch:,}, but there are only {possible:,} sets to choose from; give at "
            f"most {possible:,}, or more candidates."
        )
    without = _asked_before(model, items)
    pairs = random_pairs(items, max_pairs, rng)
    inputs = as_float(numbered_inputs(model, items))
    mean, covariance = (x.numpy() for x in model.posterior().joint(inputs))
    apart = np.add.outer(np.diag(covariance), np.diag(covariance)) - 2.0 * covariance
    noise = 0.5 * model.likelihood.duel_noise
    state = AskedSets(mean, covariance, noise, model.likelihood.new_ratios(), rng)
    picked, scores = np.empty((batch, size), np.int64), np.empty(batch)
    row = {id: i for i, id in enumerate(items.ids)}
    start = np.array([row[id] for id in pairs.items.ids])[pairs.ends]
    for i in range(batch):
        picked[i], scores[i] = state.grown(size, start, without)
        without.add(frozenset(picked[i].tolist()))
        if i + 1 < batch:
            state.ask(picked[i])
        done(i + 1, batch)
    sides = np.arange(0, picked.size + 1, size)
    events = Answers(picked.reshape(-1), sides, kind=np.full(batch, CHOICE, np.int8))
    chance = model.predict(events, items.inputs).p
    columns = {f"option_{j + 1}": [items.ids[i] for i in picked[:, j]] for j in range(size)}
    shares = {f"probability_{j + 1}": chance[:, j] for j in range(size)}
    frame = require_pandas().DataFrame(
        {**columns, "score": scores, **shares, "outside_range": items.outside[picked].any(1)}
    )
    return Suggestions(
        frame=frame,
        score="bald",
        meaning=SCORES["bald"],
        candidates=len(items),
        looked_at=len(state.looked_at),
        possible=possible,
        chosen=chosen,
        equal_items=equal_items,
        **_inferred(model),
        negative_variances=int(np.triu(apart < 0.0, 1).sum()),
        about="" if model.duels.held else "Sets of the stream may be among them.",
        set_size=size,
    )


def _asked_before(model: Predicts, items: ItemSet) -> set[frozenset[int]]:
    """The sets of the training answers, as rows of the items."""
    if not model.duels.held:
        return set()
    events = holding_duels(model).duels.events
    row = {int(number): i for i, number in enumerate(items.numbers) if number >= 0}
    sides = [row.get(int(number), -1) for number in events.sides]
    ends = zip(events.offsets[:-1], events.offsets[1:], strict=True)
    return {frozenset(sides[a:b]) for a, b in ends if min(sides[a:b]) >= 0}


# ---- one pick after the other ------------------------------------------------------------------


def _asked(model: Predicts, pairs: CandidatePairs, batch: int, score: str, done: Report) -> _Picks:
    """Picks of a score of mean and variance, each asked before the next is chosen."""
    state = AskedPairs(model, pairs)
    value = _score(model, state, score)
    picked, scores = np.empty(batch, dtype=np.int64), np.empty(batch)
    for i in range(batch):
        values = value()
        values[picked[:i]] = -np.inf
        picked[i] = np.argmax(values)
        scores[i] = values[picked[i]]
        if i + 1 < batch:
            state.ask(int(picked[i]))
        done(i + 1, batch)
    return _Picks(pairs.ends[picked], scores, negative_variances=state.negative_variances)


def _score(model: Predicts, state: AskedPairs, score: str) -> Callable[[], FloatArray]:
    """What gives the score of all pairs, (N,), as things stand."""
    if score == "variance":
        return lambda: state.variance.copy()
    if score == "bald":
        told = information_rule(**state.noises)
        return lambda: told(state.mean, state.variance)
    utility = model.predict_f(state.pairs.items.inputs)[0].numpy()[:, 0]
    first, second = (utility - utility.mean())[state.pairs.ends.T]
    return lambda: expected_best(first, second, state.variance)


def _settling(
    model: Predicts,
    pairs: CandidatePairs,
    batch: int,
    top: int,
    judges: Judges | None,
    done: Report,
    over: Posterior | None = None,
) -> _Picks:
    """Picks that settle who the first k are, each asked before the next is chosen."""
    model.allow(worth=True)
    inputs = numbered_inputs(model, pairs.items) if over is None else pairs.items.inputs
    posterior = over or model.posterior()
    mean_of_all, covariance = (x.numpy() for x in posterior.joint(as_float(inputs)))
    state = FirstOnes(mean_of_all, covariance, top, 0.5 * model.likelihood.duel_noise)
    noises = model.likelihood.of_nobody()
    picked, scores = np.empty(batch, dtype=np.int64), np.empty(batch)
    asked_of: dict[str, list[Any]] = {}
    for i in range(batch):
        free = np.setdiff1d(np.arange(len(pairs)), picked[:i], assume_unique=True)
        first, second = pairs.ends[free].T
        reduction = expected_reduction(*state.difference(first, second), **noises)
        if len(free) > CLOSELY:  # Owen's function of each pair that straddles is what takes long
            rough = state.first_order_gains(first, second, reduction)
            most = np.argpartition(-rough, CLOSELY)[:CLOSELY]
            free, reduction = free[most], reduction[most]
            first, second = pairs.ends[free].T
        gains = state.gains(first, second, reduction)
        best = int(np.argmax(gains))
        picked[i], scores[i], taken = free[best], gains[best], float(reduction[best])
        pair = first[[best]], second[[best]]
        if judges is not None:
            judge, taken = judges.best(*(float(x[0]) for x in state.difference(*pair)))
            asked_of.setdefault(JUDGE, []).append(judges.names[judge])
            scores[i] = state.gains(*pair, np.array([taken]))[0]
            if judges.prices is not None:
                price = float(judges.prices[judge])
                asked_of.setdefault(PRICE, []).append(price)
                scores[i] /= price
        if i + 1 < batch:
            state.ask(int(pair[0][0]), int(pair[1][0]), taken)
        done(i + 1, batch)
    return _Picks(
        pairs.ends[picked],
        scores,
        negative_variances=state.negative_variances,
        asked_of=asked_of,
    )


def _drawn(
    model: Predicts,
    pairs: CandidatePairs,
    batch: int,
    rng: np.random.Generator,
    done: Report,
) -> _Picks:
    """For each pick two joint draws of the utilities, and the pair of the largest sum of both."""
    inputs = as_float(numbered_inputs(model, pairs.items))
    mean, covariance = (x.numpy() for x in model.posterior().joint(inputs))
    scale = float(np.mean(model.posterior().kernel(inputs, full_cov=False)))
    root, jitter = factorised(covariance, scale)
    picked, scores = np.empty(batch, dtype=np.int64), np.empty(batch)
    ends = np.empty((batch, 2), np.int64)
    for i in range(batch):
        one, other = mean + rng.standard_normal((2, len(mean))) @ root.T
        one, other = one - one.mean(), other - other.mean()
        ahead = one[pairs.first] + other[pairs.second]
        behind = other[pairs.first] + one[pairs.second]
        values = np.maximum(ahead, behind)
        values[picked[:i]] = -np.inf
        picked[i] = np.argmax(values)
        scores[i], best = values[picked[i]], pairs.ends[picked[i]]
        ends[i] = best[::-1] if behind[picked[i]] > ahead[picked[i]] else best
        done(i + 1, batch)
    return _Picks(ends, scores, jitter=jitter)
