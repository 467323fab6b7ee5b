"""What z has besides the inducing values: a sum of terms, done in blocks (docs/method.md, 10).

z = Phi u + r. The covariance of r is a sum of terms, each between the sites of one *group* alone:
those of a block of PITC, and in time of a pair of items, a judge, a person, a set. Groups that
have a site in common, whatever their terms, are joined; each connected component is one block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import gpflow
import numpy as np
import tensorflow as tf
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sparse_prefgp.covariances.kernels import as_float, stacked_covariance, with_rows
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import IntArray

# A block is an array of its sites squared: 200 MB at so many.
MAX_BLOCK = 5000
# The name of the groups within which `Unexplained` keeps the residual.
BLOCKS = "blocks of PITC"
# Of those with a taste of their own.
PEOPLE = "people"


class Term(Protocol):
    """A covariance between sites of one group."""

    @property
    def name(self) -> str:
        """Of its groups, in the plural."""

    @property
    def groups(self) -> IntArray:
        """(t,) the group of each site, -1 for none."""

    def within(self, bucket: Bucket, features: tf.Tensor) -> tf.Tensor:
        """Covariances (g, b, b) of the sites of each block, 0 where there is none.

        Between sites of different groups they do not count.

        :param features: (g, b, m), the rows of Phi.
        """


class Unexplained(NamedTuple):
    """`K_vv - Phi Phi'` within groups of sites, such as blocks of PITC; or `A_u K_1 A_u'` of what
    people prefer besides what all do, of which Phi explains nothing."""

    kernel: gpflow.kernels.Kernel
    """What K_vv is made of."""
    graph: DuelGraph
    """What K_vv is made of."""
    groups: IntArray
    name: str = BLOCKS
    share: float = 1.0
    """Of the residual."""
    columns: int | None = None
    """How many columns of Phi are of the kernel; None for all."""

    def within(self, bucket: Bucket, features: tf.Tensor) -> tf.Tensor:
        rows = tf.gather(as_float(self.graph.rows), bucket.rows)
        # Whole rows are gathered twice as fast as single entries, and three times in the gradient.
        half = ends_apart(stacked_covariance(self.kernel, rows), bucket)
        return self._left(ends_apart(tf.linalg.matrix_transpose(half), bucket), features, features)

    def with_inputs(
        self, inputs: tf.Tensor, features: tf.Tensor, sites: IntArray, theirs: tf.Tensor
    ) -> tf.Tensor:
        """Covariance (N, b) of the utility of inputs (N, D) that join a group with its sites.

        :param features: (N, m) of the inputs.
        :param sites: (b,).
        :param theirs: (b, m), their rows of Phi.
        """
        graph = self.graph
        winners, losers = (as_float(graph.rows[e[sites]]) for e in (graph.winners, graph.losers))
        related = with_rows(self.kernel, inputs, losers)
        return self._left(related - with_rows(self.kernel, inputs, winners), features, theirs)

    def _left(self, covariance: tf.Tensor, *features: tf.Tensor) -> tf.Tensor:
        if self.columns == 0:
            return covariance
        own = (values[..., : self.columns] for values in features)
        left = covariance - tf.matmul(*own, transpose_b=True)
        return left if self.share == 1.0 else self.share * left


def ends_apart(values: tf.Tensor, bucket: Bucket) -> tf.Tensor:
    """Loser minus winner: (g, p, k) per row to (g, b, k) per site."""
    first = tf.gather(values, bucket.winners, axis=1, batch_dims=1)
    return tf.gather(values, bucket.losers, axis=1, batch_dims=1) - first


def joined(groups: Mapping[str, IntArray]) -> IntArray:
    """The block of each site, (t,), without a gap: connected components of sites and groups.

    :param groups: by name, the group of each site, (t,), -1 for none.
    :raises ValueError: a block of more than 5,000 sites.
    """
    blocks, *others = groups.values()
    if others or blocks.min() < 0 or np.bincount(blocks).min() == 0:
        t = len(blocks)
        ends, nodes = [], t
        for group in groups.values():
            site = np.flatnonzero(group >= 0)
            ends.append(np.stack([site, nodes + group[site]]))
            nodes += int(group.max()) + 1
        edges = np.concatenate(ends, 1)
        graph = sparse.coo_matrix((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes))
        component = connected_components(graph, directed=False)[1][:t]
        blocks = np.unique(component, return_inverse=True)[1].reshape(-1)
    largest = int(np.bincount(blocks).max())
    if largest > MAX_BLOCK:
        names = " and ".join(groups)
        raise ValueError(
            f"The {names} make one block of {largest:,} rows of duels, and a block has at most "
            f"{MAX_BLOCK:,}; take smaller {names}, or another approximation, such as FITC()."
        )
    return blocks


def summed(
    terms: Sequence[Term], buckets: Sequence[Bucket], features: Sequence[tf.Tensor]
) -> tuple[tuple[tf.Tensor, ...], tf.Tensor]:
    """The residual of each bucket, (g, b, b), and by how much rounding had made one negative.

    :param features: for each bucket (g, b, m), the rows of Phi.
    """
    residuals = []
    clipped = tf.zeros([], features[0].dtype)
    for bucket, rows in zip(buckets, features, strict=True):
        raw = tf.add_n([_of_one_group(term, bucket, term.within(bucket, rows)) for term in terms])
        diagonal = tf.linalg.diag_part(raw)
        kept = tf.maximum(diagonal, tf.zeros_like(diagonal))
        clipped = tf.maximum(clipped, tf.stop_gradient(tf.reduce_max(kept - diagonal)))
        residuals.append(tf.linalg.set_diag(raw, kept))
    return tuple(residuals), clipped


def _of_one_group(term: Term, bucket: Bucket, matrix: tf.Tensor) -> tf.Tensor:
    """The matrix (g, b, b) between sites of one group, 0 elsewhere."""
    groups = np.append(term.groups, -1)[bucket.sites]
    nowhere = bucket.sites == len(term.groups)
    if np.all((groups == groups[:, :1]) & (groups >= 0) | nowhere):
        return matrix  # every block is of one group
    same = (groups[:, :, None] == groups[:, None, :]) & (groups[:, :, None] >= 0)
    return tf.where(same, matrix, tf.zeros_like(matrix))
