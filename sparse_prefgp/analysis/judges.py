"""Judges: how noisy each is, what he calls a tie, where he leans, and whether the others agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from scipy import sparse, special

from sparse_prefgp.analysis.board_votes import incidence
from sparse_prefgp.analysis.verdict_scores import Verdicts, agreement, ends_of_share
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.io.sides import SIDE
from sparse_prefgp.models.likelihood import usual
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import level_of_interval
from sparse_prefgp.support.words import agreeing, and_so, counted
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import MISSING, Column, Table, ends_in, flag, records

# A judge whose votes are as rare as that among those of a coin is told to reverse, over all judges.
REVERSED_BELOW = 0.01
_NAMED = 5


_INTERVALS = ("noise", "margin", "lean", "agreement")
COLUMNS = (
    Column("judge", "judge", str, left=True),
    Column("votes", "votes", ",.0f"),
    Column("noise", "noise", "z.2f"),
    Column("noise_interval", "noise interval", ends_in("z.2f"), spare=5),
    Column("margin", "margin", "z.2f"),
    Column("margin_interval", "margin interval", ends_in("z.2f"), spare=3),
    Column("lean", "lean", "z.2f"),
    Column("lean_interval", "lean interval", ends_in("z.2f"), spare=4),
    Column("agreement", "agrees", "z.2f"),
    Column("agreement_interval", "interval", ends_in("z.2f"), spare=6),
    Column("expected", "expected", "z.2f", spare=7),
    Column("reversed", "reversed", flag),
)


@dataclass(frozen=True, eq=False, repr=False)
class Judges(Result):
    """Those of a model, the busiest first."""

    rows_name = "judges"

    frame: Any
    """Data frame, a row for each: `judge`, `votes`, `noise` (variance of the noise, times that of
    the usual judge: the geometric mean of all by votes), `margin` (the same of the margin of ties;
    NaN without), `lean` (to the side of more of the covariate beyond that of all, in utility; NaN
    without), `decided` (votes that are no ties), `agreement` (the share of them that names the side
    which all other judges' votes call the better one), `expected` (what his noise lets expect of
    it), `reversed`; and `_lower` and `_upper` of each of `noise`, `margin`, `lean` and `agreement`.
    """
    level: float
    """Of the intervals."""
    lean_by: str = ""
    """The covariate by which judges lean; empty where they do not."""

    def table(self, most: int | None = None) -> Table:
        """The judges, or the busiest of them."""
        shown = self.frame if most is None else self.frame.head(most)
        silent = set() if shown["reversed"].any() else {"reversed"}
        for name in ("margin", "lean"):
            if self.frame[name].isna().all():
                silent |= {name, f"{name}_interval"}
        ends = {
            f"{name}_interval": [*zip(shown[f"{name}_lower"], shown[f"{name}_upper"], strict=True)]
            for name in _INTERVALS
        }
        columns = [column for column in COLUMNS if column.key not in silent]
        of = "" if len(shown) == len(self.frame) else f", the first {len(shown):,}"
        title = f"{counted(len(self.frame), 'judge')}{of}"
        return Table("judges", title, columns, records(shown.assign(**ends)))

    def sentences(self) -> list[str]:
        """What the columns are, and whose votes seem reversed."""
        lean = ""
        if self.lean_by:
            where = "first side" if self.lean_by == SIDE else f"side of more {self.lean_by}"
            lean = f"lean: to the {where} beyond that of all, in utility; "
        text = [
            "Noise (above 1 is careless) and margin of ties: times those of the usual judge, the "
            "geometric mean by votes; "
            f"{lean}agrees: the share of decided votes for the side that the votes of all others "
            "call the better one, next to what the noise lets expect; intervals hold "
            f"{100 * self.level:g} %."
        ]
        odd = self.frame.loc[self.frame["reversed"], "judge"].tolist()
        if odd:
            names = and_so([*map(str, odd[:_NAMED]), *([MISSING] if len(odd) > _NAMED else [])])
            text.append(
                f"{counted(len(odd), 'judge')} {agreeing(len(odd), 'seems', 'seem')} to name the "
                f"worse side ({names}); look whether the sides are in the right columns."
            )
        return text


def judges(model: Any, *, level: float = 0.9) -> Judges:
    """What a model has learned of its judges.

    Intervals of noise and margin are by the information of the votes at the cavities of expectation
    propagation, and their prior; those of leans are of the posterior; those of agreement are
    Clopper-Pearson's. For the agreement the sites of a judge are removed from the posterior, and
    nothing is fitted again. A judge is `reversed` where a coin agrees so rarely with a probability
    below 0.01, divided by the number of judges.

    :param model: of duels in memory, with noise by judge.
    :param level: of the intervals.
    :raises ValueError: a level outside (0, 1); a model without noise by judge, or of a stream.
    """
    level = level_of_interval(level)
    at_mode = model.at_mode
    if at_mode.likelihood.noise_ratio is None or not at_mode.duels.held:
        raise ValueError(
            "The model has no noise of each judge of duels in memory; fit with --noise-by "
            "(noise_by=) and without --stream."
        )
    names, graph = at_mode.duels.group_names, at_mode.graph
    votes = np.bincount(graph.groups, graph.counts, len(names))
    lean_by, leans = _leans(model, level, len(names))
    decided, agreed, expected = agreements(at_mode)
    known = np.where(decided > 0.0, decided, np.nan)
    ends = ends_of_share(agreed, decided, level)
    lower, upper = (np.where(decided > 0.0, end, np.nan) for end in ends)
    by_chance = special.bdtr(np.floor(agreed), np.ceil(np.maximum(decided, 1.0)).astype(int), 0.5)
    frame = {
        "judge": [*names],
        "votes": votes,
        **_noises(at_mode, level, votes.astype(np.float64)),
        **leans,
        "decided": decided,
        "agreement": agreed / known,
        "agreement_lower": lower,
        "agreement_upper": upper,
        "expected": expected,
        "reversed": (decided > 0.0) & (by_chance < REVERSED_BELOW / len(names)),
    }
    table = require_pandas().DataFrame(frame).sort_values("votes", ascending=False, kind="stable")
    return Judges(table.reset_index(drop=True), level, lean_by)


def _noises(model: Any, level: float, votes: FloatArray) -> dict[str, FloatArray]:
    """Noise and margin of each judge, times those of the usual judge, with intervals."""
    parameters = model.likelihood.noise_ratio, model.likelihood.cut_scale
    information = _information(model)
    for place, parameter in enumerate(parameters):
        if parameter is not None and parameter.prior is not None:
            information[:, place, place] += float(np.asarray(parameter.prior.scale)) ** -2.0
    if parameters[1] is None:
        information = information[:, :1, :1]
    with np.errstate(divide="ignore"):
        covariance = np.linalg.inv(information)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    reach = float(special.ndtri(0.5 + 0.5 * level)) * sd
    found: dict[str, FloatArray] = {}
    far = {"noise": reach[:, 0], "margin": reach[:, -1]}  # which is of no use without margins
    for name, parameter in zip(far, parameters, strict=True):
        values = np.full(len(votes), np.nan) if parameter is None else parameter.numpy()
        values = values / usual(values, votes)
        found |= {name: values, f"{name}_lower": values * np.exp(-far[name])}
        found[f"{name}_upper"] = values * np.exp(far[name])
    return found


def _information(model: Any) -> FloatArray:
    """Of the logarithms of noise and margin of each judge, (J, 2, 2): the Fisher information of a
    vote at its cavity, added up."""
    graph, solution = model.graph, model._inferred().solution
    prior = solution.prior
    point = solution.engine.at(prior.covariance, prior.factors, solution.sites)
    nu, tau = (part.numpy() for part in solution.sites)
    mean, variance = point.found.mean.numpy(), point.found.variance.numpy()
    cavity = variance / (1.0 - tau * variance)
    mean = cavity * (mean / variance - nu)
    noise, margin = (each[graph.groups] for each in model.likelihood.of_judges)
    votes = Verdicts.of(mean, cavity, noise, margin if margin.any() else None)
    return votes.informations(graph.counts, graph.groups, len(model.duels.group_names))


def _leans(model: Any, level: float, number: int) -> tuple[str, dict[str, FloatArray]]:
    """By which covariate judges lean, the first if by several, and how far each."""
    own = _leans_of_judges(model)
    nothing = np.full(number, np.nan)
    if not own:
        return "", dict.fromkeys(("lean", "lean_lower", "lean_upper"), nothing)
    known, effect = model.coefficients(level), own[0]
    place = {name: row for row, name in enumerate(known.names)}
    several = f"{effect.by} " if len(model.terms.labels) > 1 else ""
    rows = [place[f"{effect.covariate} of {several}{name}"] for name in model.duels.group_names]
    lower, upper = known.interval[rows].T
    values = {"lean": known.mean[rows], "lean_lower": lower, "lean_upper": upper}
    return effect.covariate, values


def _leans_of_judges(model: Any) -> list[Any]:
    """The leans of labels that are the judges."""
    judge = model.duels.roles.get("judge")
    effects = model.terms.effects(model.inputs.columns)
    return [one for one in effects if one.by == judge]


@dataclass(frozen=True, eq=False)
class LinearForm:
    """Every site as a sum of p parameters, of which the posterior is one normal, and of leans of
    its judge: z = X u + Z l."""

    mean: FloatArray
    covariance: FloatArray
    """Of u: utilities of the distinct rows of items, coefficients, leans of other labels."""
    of_sites: Any
    """X, (t, p), sparse."""
    leans: FloatArray
    """Z, (t, q), a column for each covariate by which judges lean."""
    variances: FloatArray
    """(q,), of the leans."""

    @classmethod
    def of(cls, model: Any) -> LinearForm:
        """That of a model of duels in memory, at one set of hyperparameters."""
        graph, layout = model.graph, model.graph.layout
        items, item = graph.items
        effects, own = model.terms.effects(model.inputs.columns), _leans_of_judges(model)
        others = [one for one in effects if one not in own]
        levels = {one.by: range(len(model.duels.label_names[one.by])) for one in others}
        labels = [(one, level) for one in others for level in levels[one.by]]
        n, c = len(items), layout.covariates
        rows = np.zeros((n + c + len(labels), layout.width))
        rows[:, : layout.first_covariate] = items[0]
        rows[:n, : layout.first_covariate] = items
        rows[:, layout.first_level :] = -1.0 - np.arange(len(rows))[:, None]
        rows[n + np.arange(c), layout.first_covariate + np.arange(c)] = 1.0
        for row, (one, level) in enumerate(labels, n + c):
            rows[row, one.place], rows[row, one.level] = 1.0, level
        joint = model.posterior().joint(tf.constant(rows, gpflow.default_float()))
        mean, covariance = (part.numpy() for part in joint)
        for one in effects:  # whatever is not known leans too, independently of all else
            unknown = rows[:, one.level] < 0.0
            covariance -= np.diag(one.variance.numpy() * rows[:, one.place] ** 2 * unknown)
        step = np.eye(len(rows))
        step[n : n + c, 0] = -1.0
        for row, (one, _) in enumerate(labels, n + c):
            step[row, n + one.place - layout.first_covariate] = -1.0
        mean, covariance = step @ mean, step @ covariance @ step.T
        sides = graph.rows[graph.losers], graph.rows[graph.winners]
        places = slice(layout.first_covariate, layout.first_level)
        between = incidence(item[graph.losers], item[graph.winners], n)
        parts = [between, sides[0][:, places] - sides[1][:, places]]
        for one, level in labels:
            at = [side[:, one.place] * (side[:, one.level] == level) for side in sides]
            parts.append((at[0] - at[1])[:, None])
        of_own = [one.place for one in own]
        return cls(
            mean,
            covariance,
            sparse.hstack([sparse.csr_array(part) for part in parts]).tocsr(),
            sides[0][:, of_own] - sides[1][:, of_own],
            np.array([float(one.variance.numpy()) for one in own]),
        )

    def without(
        self, tau: FloatArray, nu: FloatArray, which: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of X u of the sites of one judge, as if he had not voted.

        :param tau: (t,) of all copies of each site, as `nu`.
        :param which: the numbers of his sites.
        """
        x, z = self.of_sites[which], self.leans[which]
        t, r = tau[which], nu[which]
        by_lean = t[:, None] * z
        known = np.linalg.inv(z.T @ by_lean + np.diag(1.0 / self.variances))
        shift = r - by_lean @ known @ (z.T @ r)
        if len(t) <= len(self.mean):
            mean, between = x @ self.mean, x @ (x @ self.covariance).T
            precision: FloatArray = np.diag(t) - by_lean @ known @ by_lean.T
            back = np.linalg.inv(np.eye(len(t)) - between @ precision)
            apart = back @ between
            return back @ mean - apart @ shift, np.diag(apart)
        information = (x.T @ x.multiply(t[:, None])).toarray()
        through = x.T @ by_lean
        information -= through @ known @ through.T
        own = np.linalg.inv(self.covariance)
        apart = np.linalg.inv(own - information)
        mean = apart @ (own @ self.mean - x.T @ shift)
        return x @ mean, x.multiply(x @ apart).sum(1)


def agreements(model: Any) -> FloatArray:
    """(3, J), the `agreement` of each judge in the order of `group_names` with all others, side and
    style included.

    :param model: at one set of hyperparameters, of duels in memory, with noise by judge.
    """
    graph = model.graph
    form = LinearForm.of(model)
    nu, tau = (part * graph.counts for part in model.inference.sites())
    noises, margins = model.likelihood.of_judges
    order = np.argsort(graph.groups, kind="stable")
    ends = np.cumsum(np.bincount(graph.groups, minlength=len(noises)))
    found = np.empty((3, len(noises)))
    for judge, which in enumerate(np.split(order, ends[:-1])):
        mean, variance = form.without(tau, nu, which)
        won, counts = graph.won[which], graph.counts[which]
        # z is what the loser is above the winner.
        found[:, judge] = agreement(
            -mean[won], variance[won], noises[judge], margins[judge], counts[won]
        )
    return found
