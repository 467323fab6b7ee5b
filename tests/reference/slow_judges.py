"""What others' votes say of the pairs that a judge saw, and what a vote tells of its judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

Floats = npt.NDArray[np.float64]


def without(model: Any, judge: int) -> tuple[Floats, Floats]:
    """Mean and variance of what the loser of each site of a judge is above the winner, his lean
    left out, given the sites of all others: from the prior covariance of all sites."""
    graph, layout = model.graph, model.graph.layout
    nu, tau = (part * graph.counts for part in model.inference.sites())
    own = np.flatnonzero(graph.groups == judge)
    others = np.flatnonzero(graph.groups != judge)
    (lean,) = model.terms.effects(model.inputs.columns)
    sides = []
    for number, end in enumerate((graph.losers, graph.winners)):
        rows = graph.rows[end].copy()
        unknown = -10.0 - number * len(own) - np.arange(len(own))
        rows[own, lean.level] = unknown  # of labels that nobody has, a new one each
        sides.append(rows)
    everything = np.concatenate(sides)
    prior = model.problem().kernel(everything).numpy()
    known = np.isin(np.arange(graph.num_sites), own)
    extra = float(lean.variance.numpy()) * everything[:, lean.place] ** 2
    prior -= np.diag(extra * np.tile(known, 2))
    t = graph.num_sites
    step = np.hstack([np.eye(t), -np.eye(t)])
    of_sites = step @ prior @ step.T
    told = np.linalg.inv(of_sites[np.ix_(others, others)] + np.diag(1.0 / tau[others]))
    gain = of_sites[np.ix_(own, others)] @ told
    mean = gain @ (nu[others] / tau[others])
    variance = np.diag(of_sites[np.ix_(own, own)] - gain @ of_sites[np.ix_(others, own)])
    assert layout.levels == 1
    return mean, variance


def information(mean: float, variance: float, noise: float, margin: float) -> Floats:
    """Of log noise and log margin in one vote, by differences of the chances of its outcomes."""

    def chances(log_noise: float, log_margin: float) -> Floats:
        sd, cut = np.sqrt(variance + np.exp(log_noise)), np.exp(log_margin)
        won, lost = norm.sf((cut - mean) / sd), norm.cdf((-cut - mean) / sd)
        return np.array([won, 1.0 - won - lost, lost])

    at, step = np.log([noise, margin]), 1e-5
    slopes = [
        (chances(*(at + step * way)) - chances(*(at - step * way))) / (2 * step)
        for way in np.eye(2)
    ]
    return np.array([[np.sum(a * b / chances(*at)) for b in slopes] for a in slopes])
