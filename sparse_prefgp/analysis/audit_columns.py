"""What an audit asks of columns that a board has not, each with a flat prior of its number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from sparse_prefgp.analysis.audit_families import (
    FEWEST_VOTES,
    UTILITY,
    Family,
    Pairs,
    Round,
)
from sparse_prefgp.analysis.board_votes import LeanOfVotes, Votes
from sparse_prefgp.analysis.one_step import Added, Board
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.support.arrays import FloatArray, IntArray


class OfColumns(Family):
    """Numbers of columns that the board has not."""

    columns: sparse.csr_array
    """(t, k)."""

    def _added(self, board: Board) -> Added:
        return board.asked(self.columns)

    def _ask(self, now: Round) -> FloatArray:
        found = self._added(now.board)
        self.number, self.sd = found.size, found.sd
        return np.where(found.votes >= FEWEST_VOTES, found.p, np.nan)

    def column(self, test: int) -> sparse.csr_array | None:
        return sparse.csr_array(sparse.csc_array(self.columns)[:, [test]])


class ByKind(OfColumns):
    """How much more a covariate counts with a kind of judges."""

    kind = "side"
    says = "{} of {}"
    advises = "Let {} count differently with {} (lean_by), or rank by kind."

    def __init__(self, votes: Votes, labels: Codes) -> None:
        super().__init__()
        x, names = votes.covariates, votes.covariate_names
        self.tests = [(name, of) for name in names for of in labels.names]
        of_kind = labels.numbers[:, None] == np.arange(len(labels.names))
        self.columns = sparse.csr_array((x[:, :, None] * of_kind[:, None]).reshape(len(x), -1))
        self.what = f"side and style by kind: {', '.join(names)}"


class Leans(OfColumns):
    """By how much each judge leans beyond all others: without the prior of leans where the board
    has them, which draws a single judge to the others."""

    kind = "lean"
    says = "{} of {}"
    advises = "Show {1} both orders of each pair, or leave these votes out."

    def __init__(self, votes: Votes, lean: LeanOfVotes, in_board: bool) -> None:
        super().__init__()
        self._lean, self._in_board = lean, in_board
        self.of_judges = lean.of_judges
        name = votes.covariate_names[lean.covariate]
        self.tests = [(name, label) for label in lean.labels.names]
        self.columns = votes.whose(lean.labels, votes.covariates[:, lean.covariate])
        self.what = f"lean: {name} of each of {len(lean.labels.names):,} {lean.by}s"

    def _ask(self, now: Round) -> FloatArray:
        if not self._in_board:
            return super()._ask(now)
        mean, variance = now.board.leans_of(self._lean)
        precision = 1.0 / variance - 1.0 / self._lean.variance
        labels = self._lean.labels
        votes = np.bincount(labels.numbers, now.counts, len(labels.names))
        told = (votes >= FEWEST_VOTES) & (precision > 0.0)
        precision = np.where(told, precision, np.nan)
        return self._two_sided(mean / variance / precision, 1.0 / np.sqrt(precision))

    def beside(self, test: int) -> tuple[str, str, str] | None:
        name, label = self.tests[test]
        return (name, self._lean.by, str(label)) if self._in_board else None


class Drifts(OfColumns):
    """By how much each model rises or falls in a year."""

    kind, unit = "drift", "utility a year"
    by_itself = False
    advises = "Take {} before and after for two models, or let utilities move in time (--time)."

    def __init__(self, votes: Votes, years: FloatArray) -> None:
        super().__init__()
        years = (years - np.average(years, weights=votes.counts))[:, None]
        self.columns = sparse.csr_array(votes.of_models.multiply(years))
        self.tests = [(name,) for name in votes.names]
        self.what = f"drift: each of {len(votes.names):,} models in time"


class Categories(OfColumns):
    """How much better each model is in a category than elsewhere."""

    kind = "category"
    by_itself = False
    says = "{} in {}"
    advises = "Rank {1} by itself (kernel='item+item*category'): {0} differs."

    def __init__(self, votes: Votes, labels: Codes) -> None:
        super().__init__()
        self.tests = [(name, label) for label in labels.names for name in votes.names]
        number, models, size = labels.numbers, len(votes.names), len(labels.names)
        entries = votes.of_models.tocoo()
        row, model = entries.coords
        where = row, number[row] * models + model
        self.columns = sparse.csr_array((entries.data, where), (len(number), size * models))
        self.what = f"category: each of {models:,} models in each of {size:,} categories"


class CategoriesOfBoard(Categories):
    """How much better each model is in a category than in its others, of a board that has these as
    effects: the differences between its categories without their prior, which draws them to 0."""

    advises = "Read the board of {1} by itself: {0} differs there."

    def __init__(self, votes: Votes, labels: Codes, label_of_row: IntArray) -> None:
        super().__init__(votes, labels)
        self._test_of_row = label_of_row * len(votes.names) + votes.model_of_row

    def _ask(self, now: Round) -> FloatArray:
        votes, tests = now.board.votes, self._test_of_row
        mean, half = now.board.posterior
        enough = abs(votes.incidence).T @ now.counts >= FEWEST_VOTES
        asked = enough & ~np.isin(tests, [*self.settled])
        number, sd = np.full((2, len(self.tests)), np.nan)
        for model in range(len(votes.names)):
            rows = np.flatnonzero(asked & (votes.model_of_row == model))
            if len(rows) > 1:
                found = _less_others(mean[rows], half[rows], votes.prior[rows])
                number[tests[rows]], sd[tests[rows]] = found
        return self._two_sided(number, sd)

    def column(self, test: int) -> sparse.csr_array | None:
        return None  # the board has it

    def settle(self, now: Round, test: int) -> Round:
        column = super().column(test)
        assert column is not None
        return replace(now, board=now.board.with_column(column))


def _less_others(
    mean: FloatArray, half: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Each of k numbers less the average of the others, and the sd of that, without what the prior
    says of their differences.

    :param mean: (k,).
    :param half: (k, p) a root of their covariance.
    :param prior: (k, m) the same of the prior.
    """
    k = len(mean)
    centred = np.eye(k) - 1.0 / k
    contrasts = np.linalg.svd(centred)[0][:, :-1]
    known, before = (np.linalg.inv(x @ x.T) for x in (contrasts.T @ half, contrasts.T @ prior))
    covariance = np.linalg.inv(known - before)
    weights = k / (k - 1.0) * contrasts
    found = weights @ covariance @ known @ contrasts.T @ mean
    return found, np.sqrt(np.einsum("ki,ij,kj->k", weights, covariance, weights))


def label_of_row(votes: Votes, labels: Codes) -> IntArray | None:
    """(r,) the label of each row of a board whose rows are models by this label; None where they
    are not.

    :param labels: of each vote.
    """
    found = np.zeros(len(votes.model_of_row), np.int64)
    found[votes.ahead] = found[votes.behind] = labels.numbers
    one_each = len({*zip(votes.model_of_row.tolist(), found.tolist(), strict=True)}) == len(found)
    alike = all(np.array_equal(found[end], labels.numbers) for end in (votes.ahead, votes.behind))
    return found if one_each and alike else None


class Circles(OfColumns):
    """Three models of which each does better against the next than one scale allows."""

    kind, unit = "circle", f"{UTILITY} each"
    by_itself = False
    says = "{0} over {1} over {2} over {0}"
    advises = "Look at the battles of these three by task: no one scale orders them."

    def __init__(self, votes: Votes, pairs: Pairs) -> None:
        super().__init__()
        self._names, self.columns = votes.names, pairs.columns(votes)
        """Of the columns of pairs, which triples add up."""
        self._triples, ends = pairs.triples(votes)
        self.count = count = len(self._triples)
        """How many triples there are."""
        signs = np.tile([1.0, 1.0, -1.0], count)
        where = np.repeat(np.arange(count), 3), ends.reshape(-1)
        self._weights = sparse.csr_array((signs, where), (count, len(pairs.ends)))
        self.what = f"circle: {count:,} triples of models"

    def _added(self, board: Board) -> Added:
        # With the columns of pairs once, all triples cost next to nothing.
        return super()._added(board).combined(self._weights)

    def _ask(self, now: Round) -> FloatArray:
        p = super()._ask(now)
        self._turn = np.sign(self.number)
        self.number = np.abs(self.number)
        return p

    def column(self, test: int) -> sparse.csr_array | None:
        return sparse.csr_array(self.columns @ self._weights[[test]].T * self._turn[test])

    def parts(self, test: int) -> tuple[Any, ...]:
        names = [self._names[i] for i in self._triples[test]]
        return tuple(names if self._turn[test] > 0.0 else names[::-1])
