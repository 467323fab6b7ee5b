"""Looks at sets under sites, against dense matrices of all of them."""

import numpy as np
import pytest

from sparse_prefgp.covariances.looks_under_sites import (
    marginals_of_looks,
    packed_under_sites,
    slopes_of_looks,
    unpacked,
)
from sparse_prefgp.data.graph import ChunkLinks, Noises, PassingLaplacian
from sparse_prefgp.data.looks import Looks
from sparse_prefgp.data.sets import (
    best_worst,
    best_worst_at_once,
    choice,
    ranking,
    set_form,
    shared_noise,
    top,
)
from tests.tolerances import IDENTITY

N = 12
S2 = 0.3


def looks(covering: object, size: int, count: int, rng: np.random.Generator) -> Looks:
    """Answers to `count` sets of `size` alternatives, and one with two alternatives alike."""
    form = set_form(covering, size, 2)
    sides = np.stack([rng.choice(N, size, replace=False) for _ in range(count)])
    sides[0, 1] = sides[0, 2]
    ends = sides[:, form.places].reshape(-1, 2)
    draws = np.tile(form.draws, (count, 1))
    per_set = form.look.max() + 1
    look = (form.look + per_set * np.arange(count)[:, None]).reshape(-1)
    own = np.tile(form.own, count)
    # A site order in which looks are mixed.
    order = rng.permutation(len(look))
    links = ChunkLinks(N, *ends[order].T)
    links.passing = False
    return Looks.of(links, Noises(draws[order], look[order], own[order]))


@pytest.mark.parametrize(
    ("covering", "size"),
    [(choice, 4), (ranking, 5), (top, 5), (best_worst, 5), (best_worst_at_once, 5), (choice, 12)],
)
def test_against_dense_matrices(covering: object, size: int) -> None:
    rng = np.random.default_rng(size)
    found = looks(covering, size, 300, rng)
    root = rng.standard_normal((N, N))
    explained, mean = root @ root.T, rng.standard_normal(N)
    pairs = found.pairs
    step = root[pairs.losers] - root[pairs.winners]
    distances = np.sum(step**2, 1)
    assert len(distances) <= N * (N + 1) // 2
    dense, edges = np.zeros((N, N)), np.zeros(pairs.num_sites)
    sites = []
    for form in found.forms:
        r, g = len(form.places), len(form.bucket.numbers)
        sites.append(form.bucket.sites.reshape(-1))
        tau, nu = rng.gamma(1.0, 2.0, (r, g)), rng.standard_normal((r, g))
        residual = S2 * np.broadcast_to(form.noise[..., None], (r, r, g))
        packed = packed_under_sites(form, residual, tau, nu)
        under = unpacked(form, packed)
        marginals = marginals_of_looks(form, residual, packed, mean, distances)
        slopes = slopes_of_looks(form, packed, mean, distances)
        np.add.at(edges, form.pairs, under.edges)
        for i in range(0, g, 29):
            a = np.zeros((r, N))
            for row, site in enumerate(form.bucket.sites[i]):
                a[row, found.sites.losers[site]] += 1.0
                a[row, found.sites.winners[site]] -= 1.0
            noise = S2 * shared_noise(form.places)
            t = np.diag(tau[:, i])
            gain = np.linalg.inv(np.diag(1.0 / tau[:, i]) + noise)
            z = a @ explained @ a.T
            np.testing.assert_allclose(under.gain[..., i], gain, rtol=IDENTITY, atol=1e-11)
            natural = nu[:, i] - gain @ noise @ nu[:, i]
            np.testing.assert_allclose(under.natural[:, i], natural, rtol=IDENTITY, atol=1e-11)
            half = 0.5 * np.linalg.slogdet(np.eye(r) + noise @ t)[1]
            np.testing.assert_allclose(under.half_log_det[i], half, rtol=IDENTITY)
            left = np.eye(r) - noise @ gain
            np.testing.assert_allclose(
                marginals[0, :, i], left @ a @ mean + noise @ natural, rtol=IDENTITY, atol=1e-11
            )
            variance = np.diag(left @ z @ left.T + noise - noise @ gain @ noise)
            np.testing.assert_allclose(marginals[1, :, i], variance, rtol=IDENTITY)
            weights = natural - gain @ a @ mean
            slope = 0.5 * (np.outer(weights, weights) - gain + gain @ z @ gain)
            np.testing.assert_allclose(slopes[..., i], slope, rtol=IDENTITY, atol=1e-10)
        for i in range(g):
            a = np.zeros((r, N))
            for row, site in enumerate(form.bucket.sites[i]):
                a[row, found.sites.losers[site]] += 1.0
                a[row, found.sites.winners[site]] -= 1.0
            dense += a.T @ under.gain[..., i] @ a
    np.testing.assert_array_equal(np.sort(np.concatenate(sites)), np.arange(found.sites.num_sites))
    laplacian = PassingLaplacian(N, pairs.winners, pairs.losers)
    np.testing.assert_allclose(laplacian.dense(edges), dense, rtol=IDENTITY, atol=IDENTITY)
