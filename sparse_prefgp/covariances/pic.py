"""PIC: what the sites say of new inputs that join a block (docs/method.md, section 10).

With a their features, r their residual covariance `k(x, z) - a Phi'` with the sites of the block,
and G, n of `low_rank_blocks`,

    E f = a E u + r (n - H E u)              H = G Phi of the block
    Cov f = k - a a' - r G r' + (a - r H) P⁻¹ (a - r H)'

the partially independent conditional (Snelson & Ghahramani 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from sparse_prefgp.covariances.base import PosteriorTerms, WholeTerms
from sparse_prefgp.covariances.low_rank_base import LowRankIntermediates
from sparse_prefgp.covariances.low_rank_blocks import LowRankPlusBlocks


class PICTerms(NamedTuple):
    """The posterior with blocks joined to the inducing values, and the features it needs."""

    posterior: PosteriorTerms
    """For the features [a, r] that `features` makes, (N, m + b)."""
    features: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    """Of inputs (N, D) and their features a (N, m)."""


def pic_terms(
    blocks: LowRankPlusBlocks, groups: Mapping[str, int], kept: LowRankIntermediates
) -> PICTerms:
    """Of new inputs that join the group of each of these terms, by its name.

    `kept` is what `blocks.conditioned` gave under the sites.
    """
    u = kept[0]
    block = blocks.block(groups, kept)
    reduction = tf.concat(
        [
            tf.concat([u.terms.reduction, tf.transpose(block.crossed)], 1),
            tf.concat([block.crossed, block.explained], 1),
        ],
        0,
    )
    posterior = WholeTerms(tf.concat([u.mean, block.weights], 0)[:, 0], reduction)

    def joined(inputs: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        each = [
            term.with_inputs(inputs, features, block.sites, block.features)
            * tf.cast(term.groups[block.sites] == groups[term.name], features.dtype)
            for term in block.terms
        ]
        return tf.concat([features, tf.add_n(each)], 1)

    return PICTerms(posterior, joined)
