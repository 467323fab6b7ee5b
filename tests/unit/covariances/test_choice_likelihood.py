"""Looks at sets under sites, against dense matrices of all of them."""

import numpy as np
import pytest

from sparse_prefgp.covariances.choice_likelihood import (
    Form,
    Looks,
    LooksUnderSites,
    StarsUnderSites,
)
from sparse_prefgp.data.graph import ChunkLinks, Noises, PassingLaplacian
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


def rows_over_items(found: Looks, form: Form, i: int) -> np.ndarray:
    a = np.zeros((len(form.places), N))
    for row, site in enumerate(form.bucket.sites[i]):
        a[row, found.sites.losers[site]] += 1.0
        a[row, found.sites.winners[site]] -= 1.0
    return a


STARS = [(choice, 4), (choice, 12), (best_worst, 5)]
OTHERS = [(ranking, 5), (top, 5), (best_worst_at_once, 5)]


@pytest.mark.parametrize(
    ("covering", "size", "shared"),
    [(*one, False) for one in STARS + OTHERS] + [(*one, True) for one in STARS],
)
def test_against_dense_matrices(covering: object, size: int, shared: bool) -> None:
    """The noise of every alternative, or what rows with a place in common share of it."""
    rng = np.random.default_rng(size)
    found = looks(covering, size, 300, rng)
    root = rng.standard_normal((N, N))
    explained, mean = root @ root.T, rng.standard_normal(N)
    pairs = found.pairs
    distances = np.sum((root[pairs.losers] - root[pairs.winners]) ** 2, 1)
    assert len(distances) <= N * (N + 1) // 2
    dense, edges = np.zeros((N, N)), np.zeros(pairs.num_sites)
    for form in found.forms:
        r, g = len(form.places), len(form.bucket.numbers)
        tau, nu = rng.gamma(1.0, 2.0, (r, g)), rng.standard_normal((r, g))
        scale = rng.uniform(0.1, 0.5, g)
        copies = np.ones(found.sites.num_sites)
        algebra = (StarsUnderSites if shared else LooksUnderSites)(form, copies)
        residual = scale if shared else scale * form.noise[..., None]
        kept, between, half_log_dets = algebra.under_sites(residual, tau, nu)
        all_gains = algebra.gain(residual, kept)
        marginals = algebra.marginals(residual, kept, mean, distances)
        slopes = algebra.slopes(residual, kept, mean, distances)
        np.add.at(edges, form.pairs, between)
        for i in range(g):
            a = rows_over_items(found, form, i)
            dense += a.T @ all_gains[..., i] @ a
            if i % 29:
                continue
            noise = scale[i] * (np.ones((r, r)) if shared else shared_noise(form.places))
            t = np.diag(tau[:, i])
            gain = np.linalg.inv(np.diag(1.0 / tau[:, i]) + noise)
            z = a @ explained @ a.T
            np.testing.assert_allclose(all_gains[..., i], gain, rtol=IDENTITY, atol=1e-11)
            natural = nu[:, i] - gain @ noise @ nu[:, i]
            np.testing.assert_allclose(kept[algebra.natural, i], natural, rtol=IDENTITY, atol=1e-11)
            half = 0.5 * np.linalg.slogdet(np.eye(r) + noise @ t)[1]
            np.testing.assert_allclose(half_log_dets[i], half, rtol=IDENTITY)
            left = np.eye(r) - noise @ gain
            np.testing.assert_allclose(
                marginals[0, :, i], left @ a @ mean + noise @ natural, rtol=IDENTITY, atol=1e-11
            )
            variance = np.diag(left @ z @ left.T + noise - noise @ gain @ noise)
            np.testing.assert_allclose(marginals[1, :, i], variance, rtol=IDENTITY)
            weights = natural - gain @ a @ mean
            slope = 0.5 * (np.outer(weights, weights) - gain + gain @ z @ gain)
            if shared:
                slope = slope.sum()
            np.testing.assert_allclose(slopes[..., i], slope, rtol=IDENTITY, atol=1e-9)
    sites = np.concatenate([form.bucket.sites.reshape(-1) for form in found.forms])
    np.testing.assert_array_equal(np.sort(sites), np.arange(found.sites.num_sites))
    laplacian = PassingLaplacian(N, pairs.winners, pairs.losers)
    np.testing.assert_allclose(laplacian.dense(edges), dense, rtol=IDENTITY, atol=IDENTITY)
