"""A fitted board in columns: what another column, or fewer votes, would change, sites held.

A vote is about v = x u + noise, of the winner less the loser, u being utilities of items,
coefficients and leans. Sites tau, nu on x u make the posterior of u a normal N(m, C), which one
more column or votes left out change by linear algebra alone: one step from the fit, nothing is
fitted again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import gpflow
import numpy as np
from scipy import sparse
from scipy.linalg import block_diag, cholesky, solve_triangular
from scipy.special import ndtr

from sparse_prefgp.covariances.coefficients import terms_of_duels
from sparse_prefgp.covariances.kernels import kernel_matrix
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.contexts import names_of_rows
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.likelihood import MARGIN_ONLY
from sparse_prefgp.models.terms import Coefficients, Lean
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_kind

# Rows whose variances are computed at a time.
_AT_ONCE = 20_000
# Of a column's own information what others leave of it, below which they say the same as it.
_LEFT = 1e-8
# Eigenvalues of a prior covariance below this share of the largest are rounding of zeros.
_ROUNDING = 1e-12


class LeanOfVotes(NamedTuple):
    """A number of each label of a column, times a covariate."""

    covariate: int
    by: str
    labels: Codes
    variance: float


@dataclass(frozen=True, eq=False)
class Votes:
    """The votes of a fitted model, in the order in which they were given, winner less loser."""

    names: tuple[Hashable, ...]
    """(n,) of the models."""
    model_of_row: IntArray
    """(r,) which model each row of the items is of; one row each, but for contexts."""
    row_of_item: IntArray
    """The row of each row of the items of the duels, -1 where it takes no part."""
    ahead: IntArray
    """(t,) the row of the winner; of a tie either one."""
    behind: IntArray
    """(t,) the row of the loser."""
    tied: BoolArray
    """(t,)."""
    counts: IntArray
    """(t,) how often each was said."""
    tau: FloatArray
    """(t,) precision of the site of one copy."""
    nu: FloatArray
    """(t,) precision times mean."""
    covariates: FloatArray
    """(t, C), winner less loser."""
    covariate_names: tuple[str, ...]
    judge: Codes | None
    """Who judged; None where nobody knows."""
    noise: FloatArray
    """(J,) variance of the noise of a vote of each judge, (1,) of all."""
    margin: FloatArray | None
    """(J,) or (1,) margin of each judge; None without ties."""
    common: tuple[float, float | None]
    """Noise and margin before judges multiply them."""
    prior: FloatArray
    """(r, p) a root of the prior covariance of the utilities of rows."""
    variances: FloatArray
    """(C,) prior variances of the coefficients."""
    leans: tuple[LeanOfVotes, ...]

    @property
    def by_judge(self) -> IntArray:
        """(t,) the place of each vote in `noise` and `margin`."""
        if len(self.noise) == 1 or self.judge is None:
            return np.zeros(len(self.ahead), dtype=np.int64)
        return self.judge.numbers.astype(np.int64)

    @cached_property
    def incidence(self) -> sparse.csr_array:
        """(t, r), 1 of the winner's row and -1 of the loser's."""
        t, one = len(self.ahead), np.ones(len(self.ahead))
        where = np.tile(np.arange(t), 2), np.concatenate([self.ahead, self.behind])
        return sparse.csr_array((np.concatenate([one, -one]), where), (t, len(self.prior)))

    @cached_property
    def of_models(self) -> sparse.csr_array:
        """(t, n), the same of models."""
        one = np.ones(len(self.model_of_row))
        where = np.arange(len(one)), self.model_of_row
        onto = sparse.csr_array((one, where), (len(one), len(self.names)))
        return sparse.csr_array(self.incidence @ onto)

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Which two models each vote is between, the lower first, (t, 2), and (t,) 1 where that
        one won and -1 where the other did."""
        ends = np.stack([self.model_of_row[self.ahead], self.model_of_row[self.behind]], 1)
        return np.sort(ends, 1), np.where(ends[:, 0] < ends[:, 1], 1, -1)

    def whose(self, labels: Codes, values: FloatArray | None = None) -> sparse.csr_array:
        """(t, number of labels), a value, by default 1, in the column of the label."""
        t = len(self.ahead)
        given = np.ones(t) if values is None else values
        where = np.arange(t), labels.numbers.astype(np.int64)
        return sparse.csr_array((given, where), (t, len(labels.names)))

    @classmethod
    def of(cls, model: Any) -> Votes:
        """Those of a model, inference being run where it was not.

        :raises ValueError: what is no board: a streamed model, one whose items have features, other
            terms, weights, grades or answers about sets; votes of which the judge is not known.
        """
        check_kind("model", model, PreferenceGP, "a PreferenceGP, whose votes are in memory")
        model = model.at_mode
        _check_board(model)
        model.infer()
        graph, duels, likelihood = model.graph, model.duels, model.likelihood
        layout, site = graph.layout, graph.event_of_duel
        nu, tau = model.inference.sites()
        distinct, row = graph.items
        number = distinct[:, layout.number].astype(np.int64)
        named = dict(zip(duels.item.tolist(), _names(duels), strict=True))
        names = Codes.of([named[i] for i in np.unique(number).tolist()])
        place = {name: i for i, name in enumerate(names.names)}
        won, lost = graph.of_sides(range(layout.first_covariate, layout.first_level))
        _, others = terms_of_duels(model.problem().kernel)
        judge = _judges(duels)
        noise, margin = 2.0 * float(likelihood.noise.numpy()), None
        if likelihood.margin is not None and duels.num_ties:
            margin = float(likelihood.margin.numpy())
        ratio, scale = likelihood.noise_ratio, likelihood.cut_scale
        of_judge = np.ones(1 if ratio is None and scale is None else len(judge.names))
        ratios = of_judge if ratio is None else ratio.numpy()
        scales = of_judge if scale is None else scale.numpy()
        (coefficients,) = model.terms.parts(Coefficients) or (None,)
        return cls(
            names=names.names,
            model_of_row=np.array([place[named[i]] for i in number.tolist()]),
            row_of_item=duels.distinct_rows(numbered=True)[1],  # in the order of `distinct`
            ahead=row[graph.winners[site]],
            behind=row[graph.losers[site]],
            tied=~graph.won[site],
            counts=np.asarray(duels.counts_given).astype(np.int64),
            tau=tau[site],
            nu=-nu[site],
            covariates=(won - lost)[site],
            covariate_names=duels.covariate_names,
            judge=judge,
            noise=noise * ratios,
            margin=None if margin is None else margin * scales,
            common=(noise, margin),
            prior=_root(others, distinct),
            variances=np.zeros(0) if coefficients is None else coefficients.variance.numpy(),
            leans=tuple(_lean(model, lean) for lean in model.terms.parts(Lean)),
        )


def _names(duels: Any) -> Sequence[Hashable]:
    names = names_of_rows(duels.item_ids, duels.item_rows)
    return range(duels.num_items) if names is None else names


def _check_board(model: Any) -> None:
    duels, likelihood = model.duels, model.likelihood
    others = [term for term in model.terms if not isinstance(term, Coefficients | Lean)]
    reasons = {
        "is of answers about sets": duels.events.has_sets,
        "is of graded votes": bool(likelihood.steps),
        "is of votes with weights": duels.weights_given is not None,
        f"has the term {type(others[0]).__name__ if others else ''}": bool(others),
        "has utilities that move in time": model.graph.layout.dated,
        "has a mean function": model.mean_function is not None,
        "has ties that tell the margin alone": likelihood.ties == MARGIN_ONLY,
        "has logistic noise": not model.engine.link_function.has_normal_noise,
        f"is approximate ({model.approximation.name})": not model.approximation.is_exact,
        "has no effects of items": not model.graph.layout.numbered,
    }
    for reason in (reason for reason, there in reasons.items() if there):
        raise ValueError(
            f"The model {reason}, and an audit is of a board: wins and ties between items with "
            "effects, with covariates and leans; fit one (kernel='item')."
        )


def _judges(duels: Any) -> Codes | None:
    """Who judged each vote as given.

    :raises ValueError: it is not known of all.
    """
    events = duels.events
    codes = events.judge if events.judge is not None else events.labels.get("judge")
    return None if codes is None else _known(codes.take(duels.rows_given), "judge")


def _known(codes: Codes, what: str) -> Codes:
    for i in np.flatnonzero(codes.numbers < 0)[:1]:
        raise ValueError(
            f"The {what} of vote {i} is not known, and an audit is of what is said by whom; name "
            "it, or leave the vote out."
        )
    return codes


def _lean(model: Any, lean: Lean) -> LeanOfVotes:
    duels = model.duels
    assert lean.covariate is not None
    codes = _known(duels.events.labels[lean.by].take(duels.rows_given), lean.by)
    place = duels.covariate_names.index(lean.covariate)
    return LeanOfVotes(place, lean.by, codes, float(lean.variance.numpy()))


def _root(kernel: gpflow.kernels.Kernel | None, rows: FloatArray) -> FloatArray:
    """(r, p) with root root' the covariance of the utilities of rows."""
    assert kernel is not None
    covariance = kernel_matrix(kernel, rows).numpy()
    values, vectors = np.linalg.eigh(covariance)
    there = values > _ROUNDING * values[-1]
    if there.all() and not np.any(covariance - np.diag(np.diag(covariance))):
        return np.diag(np.sqrt(np.diag(covariance)))
    return np.asarray(vectors[:, there] * np.sqrt(values[there]))


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
            np.asarray(weights @ self.through_border),
            sparse.csr_array(weights @ self.through_leans),
            np.asarray(used @ self.votes).astype(np.int64),
        )

    @cached_property
    def information(self) -> FloatArray:
        """(k,); NaN of columns that others leave nothing of."""
        through = np.einsum("kp,kp->k", self.through_border, self.through_border)
        leans = np.asarray(self.through_leans.multiply(self.through_leans).sum(1)).reshape(-1)
        left = self.own - through - leans
        return np.where(left > _LEFT * self.own, left, np.nan)

    @property
    def size(self) -> FloatArray:
        """(k,) the number of each column by one step."""
        return np.asarray(self.gradient / self.information)

    @property
    def sd(self) -> FloatArray:
        """(k,) of it."""
        return np.asarray(1.0 / np.sqrt(self.information))

    @property
    def p(self) -> FloatArray:
        """(k,) two-sided."""
        return np.asarray(2.0 * ndtr(-np.abs(self.gradient) / np.sqrt(self.information)))


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
        judge = self.votes.judge
        for lean in self.votes.leans:
            if judge is not None and lean.labels.names == judge.names:
                if np.array_equal(lean.labels.numbers, judge.numbers):
                    return lean
        return None

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
        return np.asarray(block_diag(votes.prior, np.diag(spread)))

    @cached_property
    def lean_columns(self) -> FloatArray:
        """(t,) by what the lean of its judge is multiplied in each vote; zeros without leans."""
        if self.of_judges is None:
            return np.zeros(len(self.kept))
        return self.votes.covariates[:, self.of_judges.covariate]

    @cached_property
    def _of_leans(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Precision (J,) and shift (J,) of leans by themselves, and (q, J) between these and the
        border, over the precision; J is 1 without leans."""
        place, size, prior = self._place, 1, np.ones(1)
        if self.of_judges is not None:
            size = len(self.of_judges.labels.names)
            prior = np.full(size, 1.0 / self.of_judges.variance)
        x = self.lean_columns
        alone = np.bincount(place, self.precision * x**2, size) + prior
        shift = np.bincount(place, self.shift * x, size)
        where = np.arange(len(x)), place
        between = self._weighted.T @ sparse.csr_array((x, where), (len(x), size))
        return alone, shift, np.asarray(between.todense()) / alone

    @cached_property
    def _place(self) -> IntArray:
        if self.of_judges is None:
            return np.zeros(len(self.kept), dtype=np.int64)
        return self.of_judges.labels.numbers.astype(np.int64)

    @cached_property
    def _system(self) -> tuple[FloatArray, FloatArray]:
        """Precision (q, q) and shift (q,) of the border by the votes, leans eliminated."""
        alone, shift, share = self._of_leans
        matrix = np.asarray((self.columns.T @ self._weighted).todense())
        return matrix - (share * alone) @ share.T, self.columns.T @ self.shift - share @ shift

    @cached_property
    def _own_information(self) -> FloatArray:
        """(k,) of the columns added, by themselves, of all votes."""
        weight = self.votes.tau * self.votes.counts
        return np.asarray(self.added.multiply(self.added).T @ weight).reshape(-1)

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

    def asked(self, columns: sparse.csr_array) -> Added:
        """Columns (t, k), each alone."""
        alone, _, share = self._of_leans
        x = sparse.csr_array(columns)
        weighted = sparse.csr_array(x.multiply(self.precision[:, None])).T
        whose = sparse.csr_array(
            (self.lean_columns, (np.arange(len(self.kept)), self._place)),
            (len(self.kept), len(alone)),
        )
        with_leans = sparse.csr_array(weighted @ whose)
        reduced = (weighted @ self.columns).todense() - with_leans @ share.T
        used = x.astype(bool).astype(float).T @ (self.votes.counts * self.kept)
        return Added(
            x.T @ (self.shift - self.precision * self.marginals[0]),
            np.asarray(x.multiply(x).T @ self.precision).reshape(-1),
            np.asarray(reduced @ self.posterior[1]),
            sparse.csr_array(with_leans.multiply(1.0 / np.sqrt(alone)[None])),
            used.astype(np.int64),
        )

    def _in_border(self, first: int, count: int) -> tuple[FloatArray, FloatArray]:
        mean, half = self.posterior
        here = slice(first, first + count)
        return mean[here], np.einsum("cp,cp->c", half[here], half[here])

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the coefficients of the covariates, (C,) each."""
        return self._in_border(len(self.votes.prior), self.votes.covariates.shape[1])

    def leans_of(self, lean: LeanOfVotes) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the numbers of a lean, (J,) each."""
        if lean is self.of_judges:
            return self.leans
        first = len(self.votes.prior) + self.votes.covariates.shape[1]
        for other in self._leans_of_border:
            if other is lean:
                break
            first += len(other.labels.names)
        return self._in_border(first, len(lean.labels.names))

    # Votes left out.

    @cached_property
    def centring(self) -> FloatArray:
        """(n, r) utilities of models, less their mean, from those of rows, of which each counts as
        often as it was compared."""
        votes = self.votes
        ends = np.concatenate([votes.ahead, votes.behind])
        weight = np.bincount(ends, np.tile(votes.counts, 2), len(votes.prior)).astype(float)
        onto = np.zeros((len(votes.names), len(weight)))
        onto[votes.model_of_row, np.arange(len(weight))] = weight
        onto /= onto.sum(1, keepdims=True)
        return np.asarray(onto - onto.mean(0))

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
        assert self.votes.judge is not None
        rows = np.flatnonzero(self.votes.judge.numbers == judge)
        if self.of_judges is None:
            matrix, shift = self._of_votes(rows)
        else:
            alone, own, share = self._of_leans
            matrix, shift = self._of_votes(rows)
            between = share[:, judge]
            matrix -= alone[judge] * np.outer(between, between)
            shift = shift - own[judge] * between
        whole, total = self._system
        return self._solved(whole - matrix, total - shift)

    def _of_votes(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """What some votes say of the border."""
        x = self.columns[rows].toarray()
        return x.T @ (x * self.precision[rows, None]), x.T @ self.shift[rows]
