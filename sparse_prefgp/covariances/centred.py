"""Linear terms about a centre: what duels see of them, without the cancellation of far features.

A difference of utilities under a linear kernel is one of features, whatever is added to all of
them; in a matrix over items, what is added costs its square in digits. So rows of duels and
inducing inputs are taken about a centre wherever a linear kernel stands alone or as a term of a
sum. With `f(x) = w'x` that is `f(x) - f(centre)`; a single utility has `f(centre)` besides, which
`of_the_centre` relates to them.
"""

from __future__ import annotations

import gpflow
import tensorflow as tf

from sparse_prefgp.covariances.finite import parts_of, sum_of
from sparse_prefgp.support.arrays import FloatArray


class CentredLinear(gpflow.kernels.Linear):
    """A linear kernel of `x - centre`.

    :param linear: the kernel, whose parameters it has.
    :param centre: (D,).
    """

    def __init__(self, linear: gpflow.kernels.Linear, centre: FloatArray) -> None:
        gpflow.kernels.Kernel.__init__(self, active_dims=linear.active_dims)
        self.variance = linear.variance
        point = tf.constant(centre[None], gpflow.default_float())
        self.centre, _ = super().slice(point)  # (1, active)

    def slice(
        self, X: tf.Tensor, X2: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        one, other = super().slice(X, X2)
        return one - self.centre, None if other is None else other - self.centre


def centred(
    kernel: gpflow.kernels.Kernel | None, centre: FloatArray | None
) -> gpflow.kernels.Kernel | None:
    """The kernel with its linear terms about the centre; itself where there are none.

    :param centre: (D,); None for the kernel as it is.
    """
    if kernel is None or centre is None:
        return kernel
    parts = parts_of(kernel)
    about = [
        CentredLinear(part, centre) if type(part) is gpflow.kernels.Linear else part
        for part in parts
    ]
    if all(new is old for new, old in zip(about, parts, strict=True)):
        return kernel
    return sum_of(about)


def of_the_centre(kernel: gpflow.kernels.Kernel, rows: tf.Tensor) -> tf.Tensor | None:
    """Covariance (N,) of f(centre) under the linear terms of a `centred` kernel with its values at
    rows (N, D); None where nothing is centred."""
    found = []
    for part in parts_of(kernel):
        if isinstance(part, CentredLinear):
            step, _ = part.slice(rows)
            found.append(tf.linalg.matvec(step, part.variance * part.centre[0]))
    return tf.add_n(found) if found else None
