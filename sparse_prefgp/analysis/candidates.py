"""Which pairs of items to look at before the next duels are chosen: all, some, or a given list."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparse_prefgp.analysis.boards import bases_now, own_active, rows_now
from sparse_prefgp.analysis.contexts import candidates_of, contexts_at, in_rows, met
from sparse_prefgp.analysis.items import ItemSet, numbered_inputs, resolve_items
from sparse_prefgp.analysis.ranking import distinct_rows, likely_rows
from sparse_prefgp.analysis.roles import Columns, read_by
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.io.judgements import load_pairs
from sparse_prefgp.models.posterior import Posterior, each_marginal
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.machine import ask


@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """Pairs of items that the model can tell apart, each pair once in either order."""

    items: ItemSet
    """u items with different inputs."""
    ends: IntArray
    """(N, 2) rows in `items` of the first and the second item of each pair."""
    possible: int
    """How many pairs there are to choose from."""
    chosen: str
    """In words, how the N were taken from them."""
    repeated: int = 0
    """Pairs of a given list that were left out as repetitions."""
    equal: int = 0
    """Pairs of a given list that were left out because their items have equal inputs."""
    equal_items: int = 0
    """Items of a pool that were left out, as others have the same inputs."""

    @classmethod
    def among(cls, items: ItemSet, ends: IntArray, *how: Any, **left_out: Any) -> CandidatePairs:
        """Pairs of some items, and of these those alone that pairs have."""
        used, places = np.unique(ends, return_inverse=True)
        return cls(items.select(used), places.reshape(-1, 2), *how, **left_out)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def first(self) -> IntArray:
        """(N,) the first ends."""
        return self.ends[:, 0]

    @property
    def second(self) -> IntArray:
        """(N,) the second ends."""
        return self.ends[:, 1]

    def where(self, kept: BoolArray) -> CandidatePairs:
        """Some of the pairs, (N,), in the same items."""
        return replace(self, ends=self.ends[kept])

    def narrowed(self, rows: IntArray) -> CandidatePairs:
        """The pairs between some of the items, in as many items."""
        row = np.full(len(self.items), -1)
        row[rows] = np.arange(len(rows))
        ends = row[self.ends]
        return replace(
            self,
            items=self.items.select(rows),
            ends=ends[(ends >= 0).all(1)],
            chosen=f"those among the {len(rows):,} items most likely to beat the best",
        )


def listed_pairs(
    model: Predicts, pairs: Any, items: Any = None, columns: Columns = None
) -> CandidatePairs:
    """The pairs of a table.

    :param model: whose items are known.
    :param pairs: path or data frame with the columns `first` and `second`, or else `winner` and
        `loser`, which hold item ids.
    :param items: raw items, where ids are looked up first, and then among the model's own.
    :param columns: as for `roles_in`, of which there are no roles.
    :raises ValueError: a missing column, no pair, an unknown id or an item against itself (with its
        row), nothing but items with equal inputs, and what `resolve_items` raises.
    """
    table, sides = load_pairs(pairs)
    roles, table = read_by(model, table, columns, among=(), sides=sides)
    if roles.covariates:
        warnings.warn(
            f"{table.name} has covariates, which count as 0 in what is suggested; `predict` takes "
            "them.",
            stacklevel=3,
        )
    found, table = met(model, items, table, sides, "pair")
    ends = np.stack([found.by_id.rows_in(table, name, "pair") for name in sides], 1)
    for i in np.flatnonzero(ends[:, 0] == ends[:, 1])[:1].tolist():
        raise ValueError(
            f"The pair in {table.row(i)} is of item {str(found.ids[ends[i, 0]])!r} with itself; "
            "remove it."
        )
    ends = representatives(numbered_inputs(model, found))[0][ends]
    apart = ends[:, 0] != ends[:, 1]
    if not apart.any():
        raise ValueError(
            f"There are no pairs of different items in {table.name}; give at least one pair of "
            "items whose features differ."
        )
    ends = ends[apart]
    once = np.sort(np.unique(np.sort(ends, 1), axis=0, return_index=True)[1])
    return CandidatePairs.among(
        found,
        ends[once],
        len(once),
        f"all of {table.name}",
        repeated=len(ends) - len(once),
        equal=int((~apart).sum()),
    )


def pool(model: Predicts, items: Any = None) -> tuple[ItemSet, int]:
    """The items to choose pairs from, one for each input, and how many were left out for that.

    :raises ValueError: fewer than two items that the model can tell apart, and what `resolve_items`
        raises.
    """
    found = resolve_items(model, items)
    if items is None:
        found, _ = own_active(model, found)
    if found.rows is not None and found.rows.column is not None:  # no item against itself
        found = found.select(rows_now(model, found.rows.bases, found.rows.names))
    kept = _that_differ(model, found)
    return found.select(kept), len(found) - len(kept)


def random_pairs(items: ItemSet, limit: int, rng: np.random.Generator) -> CandidatePairs:
    """All pairs of u items, or `limit` different ones at random if there are more."""
    u = len(items)
    possible = u * (u - 1) // 2
    if possible <= limit:
        return CandidatePairs(items, _all_pairs(u), possible, "all")
    # Of two numbers i < j, k = j (j - 1) / 2 + i is the place in a list by j and then by i.
    drawn = np.sort(rng.choice(possible, limit, replace=False))
    second = ((1.0 + np.sqrt(1.0 + 8.0 * drawn)) / 2.0).astype(np.int64)
    second -= second * (second - 1) // 2 > drawn  # where the root was rounded up
    first = drawn - second * (second - 1) // 2
    return CandidatePairs.among(items, np.stack([first, second], 1), possible, "drawn at random")


def pairs_in_contexts(
    model: Predicts, items: Any, limit: int, at: Any, rng: np.random.Generator
) -> CandidatePairs:
    """Pairs of items within a context that can occur, all of them or `limit` different ones at
    random: both sides share what belongs to the duel, and the contexts of the two sides are a pair
    that a training duel had.

    :param at: as for `contexts_at`, of either side.
    :raises ValueError: what `pool` and `contexts_at` raise; no pair of contexts that is left.
    """
    bases, contexts = candidates_of(model, items), contexts_at(model, at)
    duels = holding_duels(model).duels
    assert duels.item_rows is not None
    number = {tuple(value): i for i, value in enumerate(contexts.values.tolist())}
    of_row = np.array([number.get(tuple(row), -1) for row in duels.item_rows.values.tolist()])
    sides = of_row[duels.events.pair_doors().features]
    sides = sides[(sides >= 0).all(1)]
    # Of contexts, by number, that both sides of a duel had, in either order.
    together = np.unique(np.concatenate([sides, sides[:, ::-1]]), axis=0)
    if len(together) == 0:
        raise ValueError("No duel of the model had both its sides in these contexts; give others.")
    base, _ = bases_now(model, bases, 0 if items is None else len(bases.ids))
    alike = in_rows(model, bases, base, np.repeat(contexts.values[:1], len(base), axis=0))
    kept = _that_differ(model, alike)
    u, c = len(kept), len(contexts)
    rows = in_rows(model, bases, np.repeat(base[kept], c), np.tile(contexts.values, (u, 1)))
    pairs = _all_pairs(u)
    possible = len(pairs) * len(together)
    drawn, chosen = np.arange(possible), "all that can occur"
    if possible > limit:
        drawn = np.sort(rng.choice(possible, limit, replace=False))
        chosen = "drawn at random of those that can occur"
    pair, where = np.divmod(drawn, len(together))
    ends = pairs[pair] * c + together[where]
    return CandidatePairs.among(rows, ends, possible, chosen, equal_items=len(alike) - u)


def pairs_of_the_likely_best(
    model: Predicts,
    items: ItemSet,
    limit: int,
    most_items: int | None = None,
    top: int | None = None,
    posterior: Posterior | None = None,
) -> CandidatePairs:
    """All pairs of u items, or if these are more than `limit` pairs or `most_items` items, all
    pairs of as many items as these allow, those most likely to beat the best or, with `top`, to be
    among the first so many.

    :param posterior: of the utilities at the inputs of the items; by default that of the model.
    """
    u = len(items)
    possible = u * (u - 1) // 2
    most = int((1.0 + np.sqrt(1.0 + 8.0 * limit)) / 2.0)
    most = most if most_items is None else min(most, most_items)
    chosen = "all"
    if u > most:
        if top is None:
            likely, words = np.sort(likely_best(model, items)[:most]), "to beat the best"
        else:
            inputs = items.inputs if posterior is not None else numbered_inputs(model, items)
            likely = likely_first(posterior or model.posterior(), inputs, top, most)
            words = f"among the first {top:,}"
        items = items.select(likely)
        chosen = f"all of the {most:,} items most likely {words}"
    return CandidatePairs(items, _all_pairs(len(items)), possible, chosen)


def _all_pairs(items: int) -> IntArray:
    """Both sides of all pairs of so many items, (pairs, 2).

    :raises NotEnoughMemory: more than is free.
    """
    # With what is computed of each: probabilities, scores.
    ask(6 * 8 * items**2, f"All pairs of {items:,} items", "give fewer candidates")
    return np.transpose(np.triu_indices(items, 1))


def likely_best(model: Predicts, items: ItemSet) -> IntArray:
    """Rows of the items, first the one of largest expected utility, then by the probability that
    their utility is above its."""
    everyone = np.arange(len(items))
    best = int(np.argmax(model.predict_f(items.inputs)[0].numpy()))
    pairs = Answers.between(everyone, np.full_like(everyone, best))
    found = model.predict(pairs, items.inputs)
    behind, variance = found.mean, found.variance
    assert behind is not None and variance is not None
    z = np.full(len(items), -np.inf)
    np.divide(behind, np.sqrt(np.maximum(variance, 0.0)), out=z, where=variance > 0.0)
    z[best] = np.inf
    return np.argsort(-z, kind="stable")


def likely_first(posterior: Any, inputs: FloatArray, top: int, most: int) -> IntArray:
    """Rows of so many inputs (n, D), those most likely among the first k, in ascending order."""
    if len(inputs) <= most:
        return np.arange(len(inputs))
    mean, variance = each_marginal(posterior, as_float(inputs)).numpy().T
    return likely_rows(mean, np.sqrt(np.maximum(variance, 0.0)), top, most)


def representatives(inputs: FloatArray) -> tuple[IntArray, IntArray]:
    """For each of n inputs the first row that is equal to it, (n,), and all such rows, sorted."""
    first, row_of_item, _ = distinct_rows(inputs)
    return first[row_of_item], np.sort(first)


def _that_differ(model: Predicts, items: ItemSet) -> IntArray:
    """A row of each of those with equal features."""
    _, kept = representatives(numbered_inputs(model, items))
    if len(kept) < 2:
        raise ValueError(
            f"The model cannot tell the candidates apart ({len(items):,} items, with equal "
            "features); give at least two items whose features differ."
        )
    return kept
