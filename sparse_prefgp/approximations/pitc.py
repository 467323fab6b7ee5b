"""PITC: exact within blocks of duels, through the inducing inputs between them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparse_prefgp.approximations.base import DuelPrior, DuelProblem
from sparse_prefgp.approximations.forms import SummedApproximation
from sparse_prefgp.approximations.people import features_of_sites, padded_for
from sparse_prefgp.approximations.whitened import Whitened, whitened
from sparse_prefgp.covariances import LowRankPlusBlocks
from sparse_prefgp.covariances.choice_likelihood import SharedNoise
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.residual import (
    BLOCKS,
    PEOPLE,
    Term,
    Unexplained,
    joined,
)
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.checks import is_number, plain_scalars, whole_number
from sparse_prefgp.support.kmeans import kmeans_labels

Label = int | str


@dataclass(frozen=True, repr=False)
class PITC(SummedApproximation):
    """Partially independent training conditional (Quiñonero-Candela & Rasmussen 2005):
    `Q + blockdiag(K_vv - Q) + 2s²I`, nothing added.

    Duels of one block are related as the kernel says, duels of different blocks through the
    inducing inputs alone. One block is `Exact()`. Blocks of one duel each are `FITC()` to EP; other
    engines see the residual as part of z here, and as noise there. A row with a count, or with a
    weight other than 1, is as many duels in one block, which share a residual, where `FITC()` gives
    each its own: for blocks of one, give each duel a row. Equal duels are merged within a block
    only. A sweep costs O(t b² + t m²) for blocks of b duels; evidence and its gradient need O(t b)
    memory.

    `predict_f` predicts from q(u), as for `FITC()`; `model.posterior().joining(block)` is
    that of items that share what a block knows besides u.

    :raises ValueError: no label for some duel, a number below 1; later, labels for more or fewer
        duels than there are, more blocks than pairs, or a block of more than 5,000 rows of duels.
    """

    has_blocks: ClassVar[bool] = True
    blocks: Any
    """One label, text or a whole number, for each duel as given to `Duels`, such as a column
    of a data frame; or how many blocks k-means makes, of the features of both items of a pair, so
    that a pair's duels stay together.
    """
    seed: int = 0
    """Of k-means."""

    def __post_init__(self) -> None:
        plain_scalars(self)
        blocks = self.blocks
        if is_number(blocks):
            object.__setattr__(self, "blocks", whole_number("The number of blocks", blocks, 1))
        else:
            object.__setattr__(self, "blocks", _labels(blocks))

    def __repr__(self) -> str:
        if self.labels is None:
            return f"PITC({self.blocks})" if not self.seed else f"PITC({self.blocks}, {self.seed})"
        # Which duel is in which block is part of what a model is, but too long to print.
        digest = hashlib.sha256(repr(self.blocks).encode("utf-8")).hexdigest()
        return f"PITC({len(self.labels):,} blocks of {len(self.blocks):,} duels, {digest[:8]})"

    @property
    def labels(self) -> tuple[Label, ...] | None:
        """The labels that were given, each once, in order of appearance; None for k-means."""
        given = self.block_of_duel
        return None if given is None else tuple(dict.fromkeys(given))

    @property
    def block_of_duel(self) -> tuple[Label, ...] | None:
        return None if isinstance(self.blocks, int) else self.blocks

    @property
    def summed_over_duels(self) -> bool:
        return self.labels is not None  # k-means looks at all pairs

    def select(self, graph: DuelGraph) -> DuelGraph:
        """The graph with its blocks; sites of different blocks are kept apart.

        :raises ValueError: blocks that do not cover the duels, more than there are pairs, or one of
            more than 5,000 rows of duels.
        """
        duels = graph.num_given
        if self.labels is None:
            of_site = _kmeans_blocks(graph, self.blocks, np.random.default_rng(self.seed))
            return _in_blocks(graph, graph.of_duels(of_site))
        if len(self.blocks) != duels:
            raise ValueError(
                f"PITC has blocks for {len(self.blocks):,} duels, but there are {duels:,}; give "
                "one block for each duel as given to Duels."
            )
        number = {label: i for i, label in enumerate(self.labels)}
        return _in_blocks(graph, np.array([number[label] for label in self.blocks]))

    def followed_by(self, blocks: Sequence[Label]) -> PITC:
        if self.labels is None:  # found by k-means
            super().followed_by(blocks)
        return PITC([*self.blocks, *blocks])

    def prior(self, problem: DuelProblem) -> DuelPrior:
        return self.over_duels(problem, whitened(problem), problem.graph.num_sites)

    def over_duels(
        self, problem: DuelProblem, basis: Whitened, chunk: int, look: bool = True
    ) -> DuelPrior:
        """The prior of the duels of a problem, whose graph has whole blocks of them."""
        del chunk, look  # blocks are done as one, residual and all
        graph, terms = problem.graph, self.residual_terms(problem, basis.size)
        assert graph.blocks is not None
        buckets = graph.buckets(joined({term.name: term.groups for term in terms}))
        features = basis.features(as_float(graph.rows))
        parts = [features_of_sites(problem, bucket, features) for bucket in buckets]
        covariance = LowRankPlusBlocks(parts, terms, buckets, graph.num_sites)
        return DuelPrior.of(
            problem,
            covariance,
            padded_for(problem, basis.of_inputs),
            basis.jitter,
            clipped=covariance.clipped,
            blocks=covariance,
            labels=self.labels or range(int(graph.blocks.max()) + 1),
            people=None if problem.taste is None else covariance,
            shared=basis,
        )

    def residual_terms(self, problem: DuelProblem, columns: int) -> tuple[Term, ...]:
        """What duels share besides the inducing values, of which so many are of the kernel."""
        graph = problem.graph
        assert graph.blocks is not None
        terms: list[Term] = [Unexplained(problem.of_rows, graph, graph.blocks, columns=columns)]
        if problem.taste is not None and graph.people is not None:
            taste = problem.taste_of_rows
            terms.append(Unexplained(taste, graph, graph.people, PEOPLE, columns=0))
        if graph.noises is not None:
            terms.append(SharedNoise(graph.noises, 0.5 * problem.noise))
        return tuple(terms)


def _in_blocks(graph: DuelGraph, blocks: IntArray) -> DuelGraph:
    found = graph.in_blocks(blocks).one_by_one()  # copies of an answer about a set share no noise
    assert found.blocks is not None
    joined({BLOCKS: found.blocks})  # refuses what is too large
    return found


def _kmeans_blocks(graph: DuelGraph, count: int, rng: np.random.Generator) -> IntArray:
    """Block of each site, (t,), without a gap."""
    # z of a pair is the same but for its sign in either direction: both belong together. Rows are
    # in ascending order, so that equal features stand on equal sides.
    ends = np.sort(np.stack([graph.winners, graph.losers], 1), 1)
    pairs, pair = np.unique(ends, axis=0, return_inverse=True)
    if count > len(pairs):
        raise ValueError(
            f"PITC({count}) asks for more blocks than the {len(pairs)} distinct pairs of items; "
            "lower the number, or use FITC()."
        )
    rows = graph.rows[:, : graph.layout.features]
    labels = np.arange(len(pairs))
    if count < len(pairs):
        labels = kmeans_labels(rows[pairs].reshape(len(pairs), -1), count, rng)
    _, number = np.unique(labels, return_inverse=True)
    blocks: IntArray = number.reshape(-1)[pair.reshape(-1)]
    return blocks


def _labels(blocks: Any) -> tuple[Label, ...]:
    """One label for each duel, checked."""
    array = np.asarray(blocks, dtype=object)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"blocks is {type(blocks).__name__} of shape {array.shape}; give one label for each "
            "duel, or how many blocks k-means is to make."
        )
    labels: list[Label] = []
    for duel, value in enumerate(array.tolist()):
        value = value.item() if isinstance(value, np.generic) else value
        if is_number(value) and math.isfinite(value) and float(value).is_integer():
            value = int(value)
        elif not isinstance(value, str):
            # What stands for a missing value in data frames and arrays.
            missing = value is None or str(value) in ("nan", "<NA>", "NaT")
            what = "no block" if missing else f"the block {value!r}"
            raise ValueError(
                f"Duel {duel} has {what}; give each duel a block, named by a text or a whole "
                "number."
            )
        labels.append(value)
    return tuple(labels)
