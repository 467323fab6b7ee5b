"""The votes of a fitted board as numbers, winner less loser, with their sites."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import gpflow
import numpy as np
from scipy import sparse

from sparse_prefgp.analysis.boards import names_of
from sparse_prefgp.covariances.coefficients import terms_of_duels
from sparse_prefgp.covariances.kernels import kernel_matrix
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.terms import Coefficients, Lean
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_kind

# Eigenvalues of a prior covariance below this share of the largest are rounding of zeros.
_ROUNDING = 1e-12


class LeanOfVotes(NamedTuple):
    """A number of each label of a column, times a covariate."""

    covariate: int
    by: str
    labels: Codes
    variance: float
    of_judges: bool
    """Whether these are who judged."""


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
        return self.judge.numbers

    @cached_property
    def incidence(self) -> sparse.csr_array:
        """(t, r), 1 of the winner's row and -1 of the loser's."""
        t = len(self.ahead)
        where = np.tile(np.arange(t), 2), np.concatenate([self.ahead, self.behind])
        return sparse.csr_array((np.repeat([1.0, -1.0], t), where), (t, len(self.prior)))

    @cached_property
    def of_models(self) -> sparse.csr_array:
        """(t, n), the same of models."""
        number = np.arange(len(self.names))
        return self.incidence @ sparse.csr_array(self.model_of_row[:, None] == number, dtype=float)

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Which two models each vote is between, the lower first, (t, 2), and (t,) 1 where that
        one won and -1 where the other did."""
        ends = np.stack([self.model_of_row[self.ahead], self.model_of_row[self.behind]], 1)
        return np.sort(ends, 1), np.where(ends[:, 0] < ends[:, 1], 1, -1)

    @cached_property
    def rows_of_judge(self) -> list[IntArray]:
        """The votes of each judge, in their order."""
        assert self.judge is not None
        ends = np.cumsum(np.bincount(self.judge.numbers, minlength=len(self.judge.names)))
        return np.split(np.argsort(self.judge.numbers, kind="stable"), ends[:-1])

    @cached_property
    def tie_all(self) -> BoolArray:
        """(J,) judges who called everything a tie."""
        assert self.judge is not None
        judge, size = self.judge.numbers, len(self.judge.names)
        ties, all_of_them = (np.bincount(judge, x, size) for x in (self.tied, None))
        return (ties == all_of_them) & (ties > 0)

    def whose(self, labels: Codes, values: FloatArray) -> sparse.csr_array:
        """(t, number of labels), a value (t,) in the column of the label."""
        where = np.arange(len(values)), labels.numbers
        return sparse.csr_array((values, where), (len(values), len(labels.names)))

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
        named = dict(zip(duels.item.tolist(), names_of(duels), strict=True))
        names = Codes.of([named[i] for i in np.unique(number).tolist()])
        place = {name: i for i, name in enumerate(names.names)}
        won, lost = graph.of_sides(range(layout.first_covariate, layout.first_level))
        _, others = terms_of_duels(model.problem().kernel)
        judge = duels.events.judge or duels.events.labels.get("judge")
        if judge is not None:
            judge = _known(judge.take(duels.merged.rows), "judge")
        (noise, margin), (noises, margins) = likelihood.of_duels, likelihood.of_judges
        margin = margin if duels.num_ties else None
        (coefficients,) = model.terms.parts(Coefficients) or (None,)
        return cls(
            names=names.names,
            model_of_row=np.array([place[named[i]] for i in number.tolist()]),
            row_of_item=duels.distinct_rows(numbered=True)[1],  # in the order of `distinct`
            ahead=row[graph.winners[site]],
            behind=row[graph.losers[site]],
            tied=~graph.won[site],
            counts=np.asarray(duels.merged.counts).astype(np.int64),
            tau=tau[site],
            nu=-nu[site],
            covariates=(won - lost)[site],
            covariate_names=duels.covariate_names,
            judge=judge,
            noise=noises,
            margin=None if margin is None else margins,
            common=(noise, margin),
            prior=_root(others, distinct),
            variances=np.zeros(0) if coefficients is None else coefficients.variance.numpy(),
            leans=tuple(_lean(duels, lean, judge) for lean in model.terms.parts(Lean)),
        )


def _check_board(model: Any) -> None:
    duels, likelihood = model.duels, model.likelihood
    others = [term for term in model.terms if not isinstance(term, Coefficients | Lean)]
    model.allow(
        audit=True,
        sets=duels.events.has_sets,
        grades=bool(likelihood.steps),
        weights=duels.merged.weights is not None,
        other_terms="".join(f"the term {type(term).__name__}" for term in others[:1]),
        mean_function=model.mean_function is not None,
        no_exact_inference=not model.approximation.is_exact and model.approximation.name,
        no_item_effects=not model.graph.layout.numbered,
    )


def _known(codes: Codes, what: str) -> Codes:
    for i in np.flatnonzero(codes.numbers < 0)[:1]:
        raise ValueError(
            f"The {what} of vote {i} is not known, and an audit is of what is said by whom; name "
            "it, or leave the vote out."
        )
    return codes._replace(numbers=codes.numbers.astype(np.int64))


def _lean(duels: Any, lean: Lean, judge: Codes | None) -> LeanOfVotes:
    codes = _known(duels.events.labels[lean.by].take(duels.merged.rows), lean.by)
    place = duels.covariate_names.index(lean.covariate)
    of_judges = judge is not None and np.array_equal(judge.numbers, codes.numbers)
    return LeanOfVotes(place, lean.by, codes, float(lean.variance.numpy()), of_judges)


def _root(kernel: gpflow.kernels.Kernel | None, rows: FloatArray) -> FloatArray:
    """(r, p) with root root' the covariance of the utilities of rows."""
    assert kernel is not None
    covariance = kernel_matrix(kernel, rows).numpy()
    values, vectors = np.linalg.eigh(covariance)
    there = values > _ROUNDING * values[-1]
    if there.all() and not np.any(covariance - np.diag(np.diag(covariance))):
        return np.diag(np.sqrt(np.diag(covariance)))
    return vectors[:, there] * np.sqrt(values[there])
