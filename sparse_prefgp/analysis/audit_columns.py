"""What an audit asks of columns that a board has not, each with a flat prior of its number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from sparse_prefgp.analysis.audit_families import (
    FEWEST_VOTES,
    UTILITY,
    Family,
    Pairs,
    Round,
    Size,
)
from sparse_prefgp.analysis.board_votes import LeanOfVotes, Votes
from sparse_prefgp.analysis.one_step import Added, Board
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.support.arrays import FloatArray, IntArray


class OfColumns(Family):
    """Numbers of columns that the board has not."""

    found: Added
    unit = UTILITY

    @abstractmethod
    def columns(self, board: Board) -> sparse.csr_array:
        """(t, k)."""

    def _ask(self, now: Round) -> FloatArray:
        self.found = now.board.asked(self.columns(now.board))
        return np.where(self.found.votes >= FEWEST_VOTES, self.found.p, np.nan)

    def size(self, test: int, level: float) -> Size:
        return Size.normal(self.found.size[test], self.found.sd[test], level, self.unit)

    def column(self, board: Board, test: int) -> sparse.csr_array | None:
        return sparse.csr_array(sparse.csc_array(self.columns(board))[:, [test]])


class ByKind(OfColumns):
    """How much more a covariate counts with a kind of judges."""

    kind = "side"

    def __init__(self, votes: Votes, labels: Codes, places: Sequence[int]) -> None:
        super().__init__()
        self._labels = labels
        self._tests = [(place, label) for place in places for label in range(len(labels.names))]
        self._names = votes.covariate_names
        names = ", ".join(self._names[place] for place in places)
        self.what = f"side and style by kind of judge: {names}"

    def columns(self, board: Board) -> sparse.csr_array:
        x, numbers = board.votes.covariates, self._labels.numbers
        each = [x[:, place] * (numbers == label) for place, label in self._tests]
        return sparse.csr_array(np.stack(each, 1))

    def about(self, test: int) -> str:
        place, label = self._tests[test]
        return f"{self._names[place]} of {self._labels.names[label]}"

    def advice(self, test: int) -> str:
        place, label = self._tests[test]
        name, of = self._names[place], self._labels.names[label]
        return f"Let {name} count differently with {of} (lean_by), or rank by kind of judge."


class Leans(OfColumns):
    """By how much each judge leans beyond all others: without the prior of leans where the board
    has them, which draws a single judge to the others."""

    kind = "lean"

    def __init__(self, votes: Votes, lean: LeanOfVotes, in_board: bool) -> None:
        super().__init__()
        self._lean, self._in_board = lean, in_board
        judge = votes.judge
        self._by_judge = judge is not None and np.array_equal(judge.numbers, lean.labels.numbers)
        self._name = votes.covariate_names[lean.covariate]
        self.what = f"lean: {self._name} of each of {len(lean.labels.names):,} {lean.by}s"

    @property
    def of_judges(self) -> bool:
        return self._by_judge

    def columns(self, board: Board) -> sparse.csr_array:
        return board.votes.whose(self._lean.labels, board.votes.covariates[:, self._lean.covariate])

    def _ask(self, now: Round) -> FloatArray:
        if not self._in_board:
            return super()._ask(now)
        mean, variance = now.board.leans_of(self._lean)
        precision = 1.0 / variance - 1.0 / self._lean.variance
        labels = self._lean.labels
        votes = np.bincount(labels.numbers, now.counts, len(labels.names))
        told = (votes >= FEWEST_VOTES) & (precision > 0.0)
        precision = np.where(told, precision, np.nan)
        self._free = mean / variance / precision, 1.0 / np.sqrt(precision)
        return np.asarray(2.0 * ndtr(-np.abs(self._free[0]) / self._free[1]))

    def size(self, test: int, level: float) -> Size:
        if not self._in_board:
            return super().size(test, level)
        return Size.normal(self._free[0][test], self._free[1][test], level, UTILITY)

    def beside(self, test: int) -> tuple[str, str, str] | None:
        label = str(self._lean.labels.names[test])
        return (self._name, self._lean.by, label) if self._in_board else None

    def about(self, test: int) -> str:
        return f"{self._name} of {self._lean.labels.names[test]}"

    def advice(self, test: int) -> str:
        who = self._lean.labels.names[test]
        return f"Show {who} both orders of each pair, or leave these votes out."


class Drifts(OfColumns):
    """By how much each model rises or falls in a year."""

    kind = "drift"
    at_once = False
    unit = "utility a year"

    def __init__(self, votes: Votes, years: FloatArray) -> None:
        super().__init__()
        self._years = (years - np.average(years, weights=votes.counts))[:, None]
        self._names = votes.names
        self.what = f"drift: each of {len(votes.names):,} models in time"

    def columns(self, board: Board) -> sparse.csr_array:
        return sparse.csr_array(board.votes.of_models.multiply(self._years))

    def about(self, test: int) -> str:
        return str(self._names[test])

    def advice(self, test: int) -> str:
        return (
            f"Take {self._names[test]} before and after for two models, or let utilities move in "
            "time (--time)."
        )


class Categories(OfColumns):
    """How much better each model is in a category than elsewhere."""

    kind = "category"
    at_once = False

    def __init__(self, votes: Votes, labels: Codes) -> None:
        super().__init__()
        self._names, self._labels = votes.names, labels
        sizes = f"{len(votes.names):,} models in each of {len(labels.names):,} categories"
        self.what = f"category: each of {sizes}"

    def columns(self, board: Board) -> sparse.csr_array:
        votes, labels = board.votes, self._labels
        number = np.asarray(labels.numbers, dtype=np.int64)
        models, size = len(self._names), len(labels.names)
        entries = votes.of_models.tocoo()
        row, model = entries.coords
        where = row, number[row] * models + model
        return sparse.csr_array((entries.data, where), (len(number), size * models))

    def about(self, test: int) -> str:
        label, model = divmod(test, len(self._names))
        return f"{self._names[model]} in {self._labels.names[label]}"

    def advice(self, test: int) -> str:
        label, model = divmod(test, len(self._names))
        name = self._labels.names[label]
        return f"Rank {name} by itself (kernel='item+item*category'): {self._names[model]} differs."


class CategoriesOfBoard(Categories):
    """How much better each model is in a category than in its others, of a board that has these as
    effects: the differences between its categories without their prior, which draws them to 0."""

    def __init__(self, votes: Votes, labels: Codes, label_of_row: IntArray) -> None:
        super().__init__(votes, labels)
        self._test_of_row = label_of_row * len(votes.names) + votes.model_of_row

    def _ask(self, now: Round) -> FloatArray:
        votes, tests = now.board.votes, self._test_of_row
        mean, half = now.board.posterior
        counts = np.tile(now.counts, 2)
        each = np.bincount(np.concatenate([votes.ahead, votes.behind]), counts, len(tests))
        asked = (each >= FEWEST_VOTES) & ~np.isin(tests, [*self.settled])
        size = len(votes.names) * len(self._labels.names)
        self._found, self._sd = np.full((2, size), np.nan)
        for model in range(len(votes.names)):
            rows = np.flatnonzero(asked & (votes.model_of_row == model))
            if len(rows) > 1:
                found = _less_others(mean[rows], half[rows], votes.prior[rows])
                self._found[tests[rows]], self._sd[tests[rows]] = found
        return np.asarray(2.0 * ndtr(-np.abs(self._found) / self._sd))

    def size(self, test: int, level: float) -> Size:
        return Size.normal(self._found[test], self._sd[test], level, self.unit)

    def column(self, board: Board, test: int) -> sparse.csr_array | None:
        return None  # the board has it

    def settle(self, board: Board, test: int) -> Board:
        column = super().column(board, test)
        assert column is not None
        return board.with_column(column)

    def advice(self, test: int) -> str:
        label, model = divmod(test, len(self._names))
        name = self._labels.names[label]
        return f"Read the board of {name} by itself: {self._names[model]} differs there."


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
    numbers = labels.numbers.astype(np.int64)
    found = np.zeros(len(votes.model_of_row), np.int64)
    found[votes.ahead] = found[votes.behind] = numbers
    each = {*zip(votes.model_of_row.tolist(), found.tolist(), strict=True)}
    ends = np.concatenate([found[votes.ahead], found[votes.behind]])
    alike = np.array_equal(ends, np.tile(numbers, 2)) and len(each) == len(found)
    return found if alike else None


class Circles(OfColumns):
    """Three models of which each does better against the next than one scale allows."""

    kind = "circle"
    at_once = False

    def __init__(self, votes: Votes, pairs: Pairs) -> None:
        super().__init__()
        self._names, self._of_pairs = votes.names, pairs.columns(votes)
        self._triples, ends = pairs.triples(votes)
        self.count = count = len(self._triples)
        """How many triples there are."""
        signs = np.tile([1.0, 1.0, -1.0], count)
        where = np.repeat(np.arange(count), 3), ends.reshape(-1)
        self._weights = sparse.csr_array((signs, where), (count, len(pairs.ends)))
        self.what = f"circle: {count:,} triples of models"

    def columns(self, board: Board) -> sparse.csr_array:
        return sparse.csr_array(self._of_pairs @ self._weights.T)

    def column(self, board: Board, test: int) -> sparse.csr_array | None:
        return sparse.csr_array(self._of_pairs @ self._weights[[test]].T)

    def _ask(self, now: Round) -> FloatArray:
        # With the columns of pairs once, all triples cost next to nothing.
        self.found = now.board.asked(self._of_pairs).combined(self._weights)
        return np.where(self.found.votes >= FEWEST_VOTES, self.found.p, np.nan)

    def sign(self, test: int) -> float:
        return float(np.sign(self.found.size[test]))

    def about(self, test: int) -> str:
        names = [str(self._names[i]) for i in self._triples[test]]
        if self.found.size[test] < 0.0:
            names.reverse()
        return f"{' over '.join(names)} over {names[0]}"

    def size(self, test: int, level: float) -> Size:
        value, sd = abs(self.found.size[test]), self.found.sd[test]
        return Size.normal(value, sd, level, f"{UTILITY} each")

    def advice(self, test: int) -> str:
        del test
        return "Look at the battles of these three by task: no one scale orders them."
