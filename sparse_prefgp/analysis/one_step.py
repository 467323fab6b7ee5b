"""A fitted board in columns: what another column, or fewer votes, would change, sites held.

A vote is about v = x u + noise, of the winner less the loser, u being utilities of items,
coefficients and leans. Sites tau, nu on x u make the posterior of u a normal N(m, C), which one
more column or votes left out change by linear algebra alone: one step from the fit, nothing is
fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag, cholesky, solve_triangular
from scipy.special import ndtr

from sparse_prefgp.analysis.board_votes import LeanOfVotes, Votes
from sparse_prefgp.analysis.verdict_scores import Verdicts, agreement
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

# Rows whose variances are computed at a time.
_AT_ONCE = 20_000
# Of a column's own information what others leave of it, below which they say the same as it.
_LEFT = 1e-8


@dataclass(frozen=True, eq=False)
class Added:
    """Columns that a board has not, each asked about alone, with a flat prior of its number."""

    gradient: FloatArray
    """(k,) of the log evidence in the number of each column, at 0."""
    own: FloatArray
    """(k,) the information of a column by itself."""
    through_border: FloatArray
    """(k, p) what others know of it: the sum of squares is taken off."""
    through_leans: sparse.csr_array
    """(k, J), the same by leans."""
    votes: IntArray
    """(k,) how many votes a column is not zero for."""

    def combined(self, weights: sparse.csr_array) -> Added:
        """Columns made of these, of which no two share a vote.

        :param weights: (m, k).
        """
        squares, used = weights.multiply(weights), abs(weights).sign()
        return Added(
            weights @ self.gradient,
            squares @ self.own,
            weights @ self.through_border,
            weights @ self.through_leans,
            (used @ self.votes).astype(np.int64),
        )

    @cached_property
    def information(self) -> FloatArray:
        """(k,); NaN of columns that others leave nothing of."""
        through = np.einsum("kp,kp->k", self.through_border, self.through_border)
        leans = self.through_leans.multiply(self.through_leans).sum(1)
        left = self.own - through - leans
        return np.where(left > _LEFT * self.own, left, np.nan)

    @property
    def size(self) -> FloatArray:
        """(k,) the number of each column by one step."""
        return self.gradient / self.information

    @property
    def sd(self) -> FloatArray:
        """(k,) of it."""
        return 1.0 / np.sqrt(self.information)

    @property
    def p(self) -> FloatArray:
        """(k,) two-sided."""
        return 2.0 * ndtr(-np.abs(self.gradient) / np.sqrt(self.information))


@dataclass(frozen=True, eq=False)
class Board:
    """The posterior of a board by its sites: of all votes or some, with columns added or not.

    Numbers of the border are utilities of rows, coefficients, leans by other columns than who
    judged, and the columns added; leans of judges are eliminated (Schur complement).
    """

    votes: Votes
    kept: BoolArray
    """(t,) which votes count."""
    added: sparse.csr_array
    """(t, k) columns whose numbers have no prior."""

    @classmethod
    def of(cls, votes: Votes) -> Board:
        """All votes, as they were fitted."""
        t = len(votes.ahead)
        return cls(votes, np.ones(t, bool), sparse.csr_array((t, 0)))

    def with_column(self, column: sparse.csr_array) -> Board:
        """The same with a column (t, 1) more."""
        return replace(self, added=sparse.csr_array(sparse.hstack([self.added, column])))

    def without(self, which: BoolArray) -> Board:
        """The same without some votes (t,)."""
        return replace(self, kept=self.kept & ~which)

    @cached_property
    def of_judges(self) -> LeanOfVotes | None:
        """The lean that is eliminated: the first one of judges."""
        return next((lean for lean in self.votes.leans if lean.of_judges), None)

    @cached_property
    def _leans_of_border(self) -> list[LeanOfVotes]:
        return [lean for lean in self.votes.leans if lean is not self.of_judges]

    @cached_property
    def precision(self) -> FloatArray:
        """(t,) of all copies of each vote that counts."""
        return self.votes.tau * self.votes.counts * self.kept

    @cached_property
    def shift(self) -> FloatArray:
        """(t,) precision times mean."""
        return self.votes.nu * self.votes.counts * self.kept

    @cached_property
    def columns(self) -> sparse.csr_array:
        """(t, q) of the border."""
        votes, others = self.votes, self._leans_of_border
        leans = [votes.whose(one.labels, votes.covariates[:, one.covariate]) for one in others]
        parts = [votes.incidence, sparse.csr_array(votes.covariates), *leans, self.added]
        return sparse.csr_array(sparse.hstack(parts))

    @cached_property
    def _weighted(self) -> sparse.csr_array:
        return sparse.csr_array(self.columns.multiply(self.precision[:, None]))

    @cached_property
    def _root(self) -> FloatArray:
        """(q, p) what numbers of the border are made of: those of the prior, then those without."""
        votes, others = self.votes, self._leans_of_border
        spread = [np.full(len(one.labels.names), np.sqrt(one.variance)) for one in others]
        spread = np.concatenate([np.sqrt(votes.variances), *spread, np.ones(self.added.shape[1])])
        return block_diag(votes.prior, np.diag(spread))

    @property
    def lean_variance(self) -> float:
        """Of the leans that are eliminated; 1 without any."""
        return 1.0 if self.of_judges is None else self.of_judges.variance

    @cached_property
    def lean_columns(self) -> FloatArray:
        """(t,) by what the lean of its judge is multiplied in each vote; zeros without leans."""
        if self.of_judges is None:
            return np.zeros(len(self.kept))
        return self.votes.covariates[:, self.of_judges.covariate]

    @cached_property
    def _place(self) -> IntArray:
        if self.of_judges is None:
            return np.zeros(len(self.kept), dtype=np.int64)
        return self.of_judges.labels.numbers

    @cached_property
    def _whose(self) -> sparse.csr_array:
        """(t, J), `lean_columns` in the columns of the judges; J is 1 without leans."""
        size = 1 if self.of_judges is None else len(self.of_judges.labels.names)
        where = np.arange(len(self.kept)), self._place
        return sparse.csr_array((self.lean_columns, where), (len(self.kept), size))

    @cached_property
    def _of_leans(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Precision (J,) and shift (J,) of leans by themselves, and (q, J) between these and the
        border, over the precision."""
        place, x, size = self._place, self.lean_columns, self._whose.shape[1]
        alone = np.bincount(place, self.precision * x**2, size) + 1.0 / self.lean_variance
        shift = np.bincount(place, self.shift * x, size)
        between = self._weighted.T @ self._whose
        return alone, np.asarray(shift, float), between.toarray() / alone

    @cached_property
    def _system(self) -> tuple[FloatArray, FloatArray]:
        """Precision (q, q) and shift (q,) of the border by the votes, leans eliminated."""
        alone, shift, share = self._of_leans
        matrix = (self.columns.T @ self._weighted).toarray()
        return matrix - (share * alone) @ share.T, self.columns.T @ self.shift - share @ shift

    @cached_property
    def _own_information(self) -> FloatArray:
        """(k,) of the columns added, by themselves, of all votes."""
        weight = self.votes.tau * self.votes.counts
        return self.added.multiply(self.added).T @ weight

    def _solved(self, matrix: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (q,) and a root (q, p) of the covariance, of a system as `_system` gives it."""
        root, own = self._root, self._own_information
        p, flat = root.shape[1], len(own)
        # Of columns whose votes are all left out nothing is known, whatever prior they have.
        left = np.diag(matrix)[len(matrix) - flat :] > _LEFT * own
        precision = np.append(np.ones(p - flat), np.where(left, 0.0, 1.0))
        whole = root.T @ matrix @ root
        whole[np.diag_indices_from(whole)] += precision
        half = solve_triangular(cholesky(whole, lower=True), root.T, lower=True).T
        return half @ (half.T @ shift), half

    @cached_property
    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Mean (q,) of the border and a root (q, p) of its covariance."""
        return self._solved(*self._system)

    @cached_property
    def leans(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the leans that are eliminated, (J,) each."""
        alone, shift, share = self._of_leans
        mean, half = self.posterior
        through = share.T @ half
        variance = 1.0 / alone + np.einsum("jp,jp->j", through, through)
        return shift / alone - share.T @ mean, variance

    @cached_property
    def marginals(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of x u of each vote, (t,) each."""
        mean, half = self.posterior
        alone, _, share = self._of_leans
        x, place = self.lean_columns, self._place
        centre = self.columns @ mean + x * self.leans[0][place]
        variance = x**2 / alone[place]
        for start in range(0, len(x), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            rows = self.columns[some] @ half - x[some, None] * (share.T @ half)[place[some]]
            variance[some] += np.einsum("tp,tp->t", rows, rows)
        return centre, variance

    @cached_property
    def cavities(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of x u without one copy of the vote itself, (t,) each."""
        mean, variance = self.marginals
        left = 1.0 - self.votes.tau * self.kept * variance
        return (mean - self.votes.nu * self.kept * variance) / left, variance / left

    @cached_property
    def verdicts(self) -> Verdicts:
        """Of all votes, each without itself, at the noise and margin of their judges."""
        votes = self.votes
        place, margin = votes.by_judge, votes.margin
        box = None if margin is None else margin[place]
        return Verdicts.of(*self.cavities, votes.noise[place], box)

    def asked(self, columns: sparse.csr_array) -> Added:
        """Columns (t, k), each alone."""
        alone, _, share = self._of_leans
        x = sparse.csr_array(columns)
        weighted = sparse.csr_array(x.multiply(self.precision[:, None])).T
        with_leans = weighted @ self._whose
        reduced = (weighted @ self.columns).toarray() - with_leans @ share.T
        used = x.astype(bool).astype(float).T @ (self.votes.counts * self.kept)
        return Added(
            x.T @ (self.shift - self.precision * self.marginals[0]),
            x.multiply(x).T @ self.precision,
            reduced @ self.posterior[1],
            sparse.csr_array(with_leans.multiply(1.0 / np.sqrt(alone)[None])),
            used.astype(np.int64),
        )

    def _of_border(self) -> list[tuple[FloatArray, FloatArray]]:
        """Mean and variance of utilities, coefficients, and each lean that is not eliminated."""
        mean, half = self.posterior
        sizes = [len(self.votes.prior), self.votes.covariates.shape[1]]
        sizes += [len(lean.labels.names) for lean in self._leans_of_border]
        both = mean, np.einsum("cp,cp->c", half, half)
        return [*zip(*(np.split(each, np.cumsum(sizes)) for each in both), strict=True)]

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the coefficients of the covariates, (C,) each."""
        return self._of_border()[1]

    def leans_of(self, lean: LeanOfVotes) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the numbers of a lean, (J,) each."""
        if lean is self.of_judges:
            return self.leans
        return self._of_border()[2 + self._leans_of_border.index(lean)]

    # Votes left out.

    @cached_property
    def centring(self) -> FloatArray:
        """(n, r) utilities of models, less their mean, from those of rows, of which each counts as
        often as it was compared."""
        votes = self.votes
        of_model = votes.model_of_row == np.arange(len(votes.names))[:, None]
        onto = of_model * (abs(votes.incidence).T @ votes.counts)
        onto /= onto.sum(1, keepdims=True)
        return onto - onto.mean(0)

    def utilities(self, solved: tuple[FloatArray, FloatArray] | None = None) -> Any:
        """Mean and variance of utilities of models, less their mean, (n,) each.

        :param solved: of a system in place of the board's own.
        """
        mean, half = self.posterior if solved is None else solved
        rows = self.centring.shape[1]
        through = self.centring @ half[:rows]
        return self.centring @ mean[:rows], np.einsum("np,np->n", through, through)

    def without_judge(self, judge: int) -> tuple[FloatArray, FloatArray]:
        """Mean (q,) of the border and a root of its covariance without the votes of a judge."""
        rows = self.votes.rows_of_judge[judge]
        x = self.columns[rows].toarray()
        matrix, shift = x.T @ (x * self.precision[rows, None]), x.T @ self.shift[rows]
        if self.of_judges is not None:
            alone, own, share = self._of_leans
            between = share[:, judge]
            matrix -= alone[judge] * np.outer(between, between)
            shift = shift - own[judge] * between
        whole, total = self._system
        return self._solved(whole - matrix, total - shift)

    def by_others(self, judge: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """Decided votes of a judge that count, (v,), and mean and variance of x u of each by the
        votes of all others, his lean left out."""
        own = self.votes.rows_of_judge[judge]
        own = own[self.kept[own]]
        x, (mean, half) = self.columns[own], self.posterior
        if len(own) > len(mean):
            mean, half = self.without_judge(judge)
            centre, variance = x @ mean, ((x @ half) ** 2).sum(1)
        else:  # in his votes, which are fewer than the numbers of the border
            own_precision, z = self.precision[own], self.lean_columns[own]
            by_lean, root = own_precision * z, x @ half
            alone = z @ by_lean + 1.0 / self.lean_variance
            precision = np.diag(own_precision) - np.outer(by_lean, by_lean) / alone
            shift = self.shift[own] - by_lean * (z @ self.shift[own]) / alone
            between = root @ root.T
            back = np.linalg.inv(np.eye(len(own)) - between @ precision)
            centre, variance = back @ (x @ mean - between @ shift), np.diag(back @ between)
        decided = ~self.votes.tied[own]
        return own[decided], centre[decided], variance[decided]

    def agreement(self, judge: int) -> tuple[float, float, float]:
        """The `agreement` of a judge with all others, nothing being fitted again."""
        rows, mean, variance = self.by_others(judge)
        votes = self.votes
        at = judge if len(votes.noise) > 1 else 0  # one for all
        margin = 0.0 if votes.margin is None else votes.margin[at]
        return agreement(mean, variance, votes.noise[at], margin, votes.counts[rows])
