"""Effects of levels, eliminated: against the dense covariance of all sites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sparse_prefgp.covariances import (
    LowRankBesideColumns,
    LowRankOverDuels,
    LowRankOverItems,
    LowRankWithLevels,
)
from sparse_prefgp.covariances.base import WholeTerms
from sparse_prefgp.covariances.levels import Levels
from sparse_prefgp.data.graph import ChunkLinks
from sparse_prefgp.support import linalg

SITES, ITEMS, SIZE, LEVELS = 40, 7, 4, 5


class _Links(ChunkLinks):
    passing = False


class Case:
    """Phi of one kind, effects of levels of q numbers, and what all is made of."""

    def __init__(self, kind: str, q: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        winners = rng.integers(0, ITEMS, SITES)
        losers = (winners + rng.integers(1, ITEMS, SITES)) % ITEMS
        self.winners, self.losers = winners, losers
        self.kind, self.links = kind, _Links(ITEMS, winners, losers)
        rows = SITES if kind == "duels" else ITEMS
        self.features = tf.Variable(rng.normal(size=(rows, SIZE)))
        self.columns = rng.normal(size=(SITES, 2))
        self.scale = tf.Variable(np.exp(rng.normal(size=q)))
        self.border = tf.Variable(np.exp(rng.normal(size=2)))
        self.levels = Levels(rng.integers(0, LEVELS, SITES), rng.normal(size=(SITES, q)), LEVELS)
        self.precision = tf.constant(np.exp(rng.normal(size=SITES)))
        self.shift = tf.constant(rng.normal(size=SITES))
        self.left, self.right = (tf.constant(rng.normal(size=SITES)) for _ in range(2))

    @property
    def variables(self) -> list[tf.Variable]:
        found = [self.features, self.scale]
        return [*found, self.border] if self.kind == "columns" else found

    def covariance(self) -> LowRankWithLevels:
        features = tf.convert_to_tensor(self.features)
        base: Any
        if self.kind == "duels":
            base = LowRankOverDuels([features[:15], features[15:]])
        elif self.kind == "items":
            base = LowRankOverItems(features, self.links)
        else:
            border = tf.convert_to_tensor(self.border)
            base = LowRankBesideColumns(features, self.links, self.columns, border)
        return LowRankWithLevels(base, self.levels, tf.convert_to_tensor(self.scale))

    def whole(self) -> tf.Tensor:
        """Psi, (t, p), with z = Psi w, w ~ N(0, I)."""
        features = tf.convert_to_tensor(self.features)
        if self.kind != "duels":
            features = tf.gather(features, self.losers) - tf.gather(features, self.winners)
        if self.kind == "columns":
            features = tf.concat([features, self.columns * self.border], 1)
        same = tf.one_hot(self.levels.number, LEVELS, dtype=tf.float64)
        effects = same[:, :, None] * (self.levels.values * self.scale)[:, None, :]
        return tf.concat([features, tf.reshape(effects, [SITES, -1])], 1)

    def dense(self) -> tf.Tensor:
        return tf.matmul(self.whole(), self.whole(), transpose_b=True)


@pytest.fixture(params=["duels", "items", "columns"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("q", [1, 2])
def test_marginals_and_predictions(kind: str, q: int) -> None:
    case = Case(kind, q)
    found = case.covariance().marginals(case.precision, case.shift)
    prior, precision = case.dense().numpy(), np.diag(case.precision)
    posterior = np.linalg.solve(np.eye(SITES) + prior @ precision, prior)
    mean = posterior @ case.shift.numpy()
    np.testing.assert_allclose(found.variance, np.diag(posterior), atol=1e-9)
    np.testing.assert_allclose(found.mean, mean, atol=1e-9)
    wanted = 0.5 * np.linalg.slogdet(np.eye(SITES) + prior @ precision)[1]
    assert float(found.half_log_det) == pytest.approx(wanted, abs=1e-9)
    terms = case.covariance().predict(case.precision, case.shift)
    whole = case.whole()
    np.testing.assert_allclose(tf.linalg.matvec(whole, terms.weights), found.mean, atol=1e-9)
    explained = tf.matmul(tf.matmul(whole, terms.reduction), whole, transpose_b=True)
    np.testing.assert_allclose(prior - explained, posterior, atol=1e-9)


@pytest.mark.parametrize("q", [1, 3])
def test_parts_of_the_reduction_without_the_whole(kind: str, q: int) -> None:
    case = Case(kind, q)
    terms = case.covariance().predict(case.precision, case.shift)
    assert not isinstance(terms, WholeTerms)
    whole = WholeTerms(terms.weights, terms.reduction)
    m, effects = case.whole().shape[1] - LEVELS * q, np.arange(LEVELS * q)
    np.testing.assert_allclose(terms.of_u(m), whole.of_u(m), atol=1e-12)
    np.testing.assert_allclose(terms.with_u(m, effects), whole.with_u(m, effects), atol=1e-12)
    pairs = np.repeat(effects, len(effects)), np.tile(effects, len(effects))
    np.testing.assert_allclose(terms.between(m, *pairs), whole.between(m, *pairs), atol=1e-12)


@pytest.mark.parametrize(("q", "large"), [(1, False), (2, False), (2, True)])
def test_gradients(kind: str, q: int, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:  # products by chunks
        monkeypatch.setattr(linalg, "_LARGE_PRODUCT", 0)
    case = Case(kind, q)
    with tf.GradientTape(persistent=True) as tape:
        covariance, dense = case.covariance(), case.dense()
        kept = covariance.conditioned(case.precision, case.shift)
        surrogate = covariance.surrogate(case.precision, case.shift, kept)
        inside = tf.eye(SITES, dtype=tf.float64) + dense * case.precision
        half = 0.5 * tf.linalg.slogdet(inside).log_abs_determinant
        mean = tf.linalg.matvec(tf.matmul(tf.linalg.inv(inside), dense), case.shift)
        wanted = 0.5 * tf.reduce_sum(case.shift * mean) - half
        quadratic = covariance.quadratic(case.left, case.right)
        product = tf.reduce_sum(case.left * tf.linalg.matvec(dense, case.right))
    assert float(quadratic) == pytest.approx(float(product), rel=1e-12)
    for one, other in ((surrogate, wanted), (quadratic, product)):
        each = (tape.gradient(x, case.variables) for x in (one, other))
        for a, b in zip(*each, strict=True):
            np.testing.assert_allclose(*map(tf.convert_to_tensor, (a, b)), atol=1e-9)


@pytest.mark.parametrize("q", [1, 2])
def test_one_site_after_the_other(kind: str, q: int) -> None:
    case = Case(kind, q)
    covariance = case.covariance()
    found = covariance.marginals(case.precision, case.shift)
    state = covariance.start(case.precision, case.shift)
    for site in range(3):
        column = covariance.column(state, tf.constant(site))
        assert float(column.mean) == pytest.approx(float(found.mean[site]), abs=1e-12)
        assert float(column.variance) == pytest.approx(float(found.variance[site]), abs=1e-12)
