"""What models of duels predict, once they have a posterior of the utility."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from sparse_prefgp.models.outcomes import group_numbers
from sparse_prefgp.models.posterior import Posterior, in_chunks, predictions


class DuelPredictions:
    """Utilities, differences and outcomes of duels: what `PreferenceGP` and `StreamedGP` share.

    A model with a kernel, a noise variance, an engine, its `duels` and a `posterior`.
    """

    kernel: gpflow.kernels.Kernel
    noise_variance: gpflow.Parameter
    margin: gpflow.Parameter | None
    noise_ratio: gpflow.Parameter | None

    if TYPE_CHECKING:

        @property
        def duels(self) -> Any: ...

        @property
        def engine(self) -> Any: ...

        @property
        def has_item_effect(self) -> bool: ...

        @property
        def posterior(self) -> Posterior: ...

    @check_shapes(
        "Xnew: [N, D]",
        "return[0]: [N, 1]",
        "return[1]: [N, 1] if not full_cov",
        "return[1]: [1, N, N] if full_cov",
    )
    def predict_f(
        self, Xnew: Any, full_cov: bool = False, full_output_cov: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N, 1) and variance (N, 1) of the utility at new items, GPflow's shapes.

        :param Xnew: (N, D) in the units of `duels.items`.
        :param full_cov: the joint covariance (1, N, N) in place of the variances.
        :param full_output_cov: there is one output, so it changes nothing.

        Utilities are relative: only differences mean anything. Without `full_cov` any number of
        items takes bounded memory. (docs/method.md, section 6)
        """
        inputs = self._inputs(Xnew)  # told before anything slow, if it is wrong
        return predictions(self.posterior, inputs, full_cov)

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return: [N]")
    def predict_duel(self, Xa: Any, Xb: Any, groups: Any = None) -> tf.Tensor:
        """Probability that each item of Xa (N, D) beats its partner in Xb (N, D), (N,).

        :param groups: who judges: a label for all pairs or (N,) labels, where the model has noise
            by group. None and unknown ones, which are told, have the shared noise.
        """
        return tf.exp(self.predict_log_duel(Xa, Xb, groups))

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return: [N]")
    def predict_log_duel(self, Xa: Any, Xb: Any, groups: Any = None) -> tf.Tensor:
        """Log of `predict_duel`, finite however small the probability is, (N,).

        log Phi((E[f - f'] - margin) / sqrt(V[f - f'] + 2 sigma²)) with probit factors; with logit
        ones the logistic function is averaged over N(E[f - f'], V[f - f']).
        """
        return self.log_win(*self._predict_difference(Xa, Xb), groups)

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return: [N, 3]")
    def predict_outcome(self, Xa: Any, Xb: Any, groups: Any = None) -> tf.Tensor:
        """Probabilities that each item of Xa (N, D) wins, ties or loses against Xb's, (N, 3).

        :param groups: as for `predict_duel`.
        """
        mean, variance = self._predict_difference(Xa, Xb)
        won, tied, lost = (
            self.log_win(mean, variance, groups),
            self.log_tie(mean, variance, groups),
            self.log_win(-mean, variance, groups),
        )
        return tf.exp(tf.stack([won, tied, lost], 1))

    def log_win(self, mean: tf.Tensor, variance: tf.Tensor, groups: Any = None) -> tf.Tensor:
        """Log probability that a beats b, from mean and variance of f(a) - f(b), (N,) each.

        A variance that rounding has made negative counts as 0.
        """
        noise, margin = self._noise_and_margin(mean, groups)
        link, variance = self.engine.link_function, tf.maximum(variance, tf.zeros_like(variance))
        return link.log_probability(-mean, variance, noise, None, -margin)

    def log_tie(self, mean: tf.Tensor, variance: tf.Tensor, groups: Any = None) -> tf.Tensor:
        """The same of a tie; -inf without a margin."""
        noise, margin = self._noise_and_margin(mean, groups)
        if self.margin is None:
            return tf.fill(tf.shape(mean), tf.cast(-np.inf, mean.dtype))
        link, variance = self.engine.link_function, tf.maximum(variance, tf.zeros_like(variance))
        return link.log_probability(-mean, variance, noise, -margin, margin)

    def _noise_and_margin(self, like: tf.Tensor, groups: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """2 sigma² and the margin for each pair, (N,)."""
        margin = tf.zeros_like(like) if self.margin is None else self.margin + tf.zeros_like(like)
        noise = 2.0 * self.noise_variance + tf.zeros_like(like)
        if groups is not None:
            number = group_numbers(groups, like.shape[0], self.duels, self.noise_ratio is not None)
            shared = tf.ones([1], like.dtype)
            # -1 is the last entry: the shared noise of unknown groups.
            ratio = shared if self.noise_ratio is None else tf.concat([self.noise_ratio, shared], 0)
            noise *= tf.gather(ratio, number % ratio.shape[0])
        return noise, margin

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return[0]: [N]", "return[1]: [N]")
    def predict_difference(self, Xa: Any, Xb: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of f(a) - f(b) for pairs of items (N, D) and (N, D), (N,) each."""
        return self._predict_difference(Xa, Xb)

    def _predict_difference(self, Xa: Any, Xb: Any) -> tuple[tf.Tensor, tf.Tensor]:
        pairs = self._pairs(Xa, Xb)
        both = in_chunks(self.posterior.difference, pairs)
        return both[:, 0], both[:, 1]

    def scale_is_free(self) -> bool:
        """Whether kernel variance and noise are both trainable, though only their ratio counts."""
        names = gpflow.utilities.parameter_dict(self.kernel)
        free = any(p.trainable for name, p in names.items() if "variance" in name)
        return free and self.noise_variance.trainable

    # Inside.

    def _pairs(self, first: Any, second: Any) -> tf.Tensor:
        """Pairs of items as the kernel takes them, stacked: (N, 2, D)."""
        ahead = self._inputs(first)
        return tf.stack([ahead, self._inputs(second, before=tf.shape(ahead)[0])], 1)

    def _inputs(self, values: Any, before: Any = 0) -> tf.Tensor:
        """Items as the kernel takes them; `before` counts unknown items of the same call."""
        inputs = tf.convert_to_tensor(values, dtype=gpflow.default_float())
        columns, found = self.duels.num_features, inputs.shape[-1]
        if found != columns and not (self.has_item_effect and found == columns + 1):
            more = ", or these and the row number of the item" if self.has_item_effect else ""
            raise ValueError(
                f"Items have {columns} features, but the new ones have {found}; pass the same "
                f"columns in the same units{more}, for example with read_items(path, like=model)."
            )
        if not self.has_item_effect:
            return inputs
        # Each unknown item has a number, and so an effect, of its own.
        unknown = -1.0 - tf.cast(before + tf.range(tf.shape(inputs)[0]), inputs.dtype)[:, None]
        if found == columns:
            return tf.concat([inputs, unknown], 1)
        number = inputs[:, -1:]
        if tf.executing_eagerly():
            self._check_numbers(number.numpy()[:, 0])
        return tf.concat([inputs[:, :-1], tf.where(number < 0.0, unknown, number)], 1)

    def _check_numbers(self, numbers: np.ndarray) -> None:
        bad = np.flatnonzero((numbers >= self.duels.num_items) | (numbers != np.floor(numbers)))
        if bad.size:
            raise ValueError(
                f"The last column has {numbers[bad[0]]:g} in row {bad[0]}, which is no row number "
                f"of an item; give 0 to {self.duels.num_items - 1}, or -1 for an unknown item."
            )
