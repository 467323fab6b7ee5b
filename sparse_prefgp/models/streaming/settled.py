"""Sites of a stream as those of the same duels in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparse_prefgp.data.answers import Answers, Covariates
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import FloatArray, IntArray, runs


def sites_of_graph(
    graph: DuelGraph, whole: Duels, about_sets: bool, sites: Sequence[FloatArray]
) -> tuple[FloatArray, ...]:
    """nu and tau of a stream, (t,) each, as those of the graph of the same duels in memory.

    Sides between which there is no order have one there. Equal duels have equal sites at the fixed
    point; before it their mean is as good as any.

    :param whole: the stream as one chunk.
    :param about_sets: whether there are answers about sets, of which each copy has its sites.
    """
    events, s = whole.given, len(whole.given.sides)
    rows = whole.items[events.sides]
    if events.covariates is not None:  # labels are numbered as there
        labels = {column: codes.used() for column, codes in events.labels.items()}
        rows = np.column_stack([rows, events.saying(labels=labels).side_columns()])
    every = np.unique(np.concatenate([graph.rows, rows + 0.0]), axis=0, return_inverse=True)[1]
    here = events.saying(np.arange(s), covariates=None)
    # Covariates are moved as the sides are: they tell where each went.
    numbers = np.arange(s, dtype=np.float64)[:, None]
    rows_there = every.reshape(-1)[graph.num_rows :]
    placed = events.saying(rows_there, covariates=Covariates(numbers)).in_order()
    assert placed.covariates is not None
    came_from = placed.covariates[:, 0].astype(np.int64)
    ends = here.doors().features
    their_ends = came_from[placed.saying(np.arange(s), covariates=None).doors().features]
    keys, their_keys = (np.sort(x, 1) @ np.array([s, 1]) for x in (ends, their_ends))
    order = np.argsort(keys)
    match = order[np.searchsorted(keys, their_keys, sorter=order)]
    turned = ends[match, 0] != their_ends[:, 0]
    # Copies of an answer about a set may have sites of their own, in either place.
    z, site = _z_of_sites(events, about_sets), graph.sites_of_duels
    number = np.bincount(site, minlength=graph.num_sites)
    known = number[graph.first_sites] > 0
    like = graph.sites_of(np.maximum.accumulate(np.where(known, np.arange(len(known)), 0)))
    found = []
    for values, sign in zip(sites, (np.where(turned, -1.0, 1.0), 1.0), strict=True):
        of_z = np.bincount(z, values) / np.bincount(z)
        summed = np.bincount(site, of_z[match] * sign, graph.num_sites)
        found.append(summed[like] / number[like])
    return tuple(found)


def _z_of_sites(events: Answers, about_sets: bool) -> IntArray:
    """Which z behind the doors of events each site is of."""
    copies = events.copies if about_sets else np.ones(len(events), np.int64)
    event, sites = np.repeat(np.arange(len(events)), copies), events.sites
    return runs((np.cumsum(sites) - sites)[event], sites[event])
