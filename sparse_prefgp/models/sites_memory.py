"""The sites of a model between calls."""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.engines import FixedPoint
from sparse_prefgp.factors.sites import Sites
from sparse_prefgp.support.checks import check_finite, check_shape


class SitesMemory:
    """Sites that the next inference begins from, and how inference in compiled functions went.

    A plain object, so that its variables do not show up among the model's parameters.
    """

    def __init__(self, num_sites: int) -> None:
        dtype = gpflow.default_float()
        self._nu = tf.Variable(tf.zeros([num_sites], dtype), trainable=False)
        self._tau = tf.Variable(tf.zeros([num_sites], dtype), trainable=False)
        self.change = tf.Variable(tf.zeros([], dtype), trainable=False)
        self.sweeps = tf.Variable(0, trainable=False)

    def sites(self) -> Sites:
        return Sites(self._nu.read_value(), self._tau.read_value())

    def keep(self, point: FixedPoint) -> None:
        """Those that an engine found, where they are finite."""
        nu, tau = point.sites
        good = tf.reduce_all(tf.math.is_finite(nu)) & tf.reduce_all(tf.math.is_finite(tau))
        self._nu.assign(tf.where(good, nu, self._nu))
        self._tau.assign(tf.where(good, tau, self._tau))
        self.change.assign(point.found.change)
        self.sweeps.assign_add(point.sweeps)

    def clear(self) -> None:
        self._nu.assign(tf.zeros_like(self._nu))
        self._tau.assign(tf.zeros_like(self._tau))

    def start_from(self, nu: np.ndarray, tau: np.ndarray) -> None:
        """Take these, (t,) each.

        :raises ValueError: of another length, not finite, or a negative tau.
        """
        number = int(self._nu.shape[0])
        for name, values in (("nu", nu), ("tau", tau)):
            check_shape(name, values, number, hint=", one for each site")
            check_finite(name, values)
        if np.any(np.asarray(tau) < 0.0):
            raise ValueError(f"tau has {np.min(tau)}, but a precision is at least 0.")
        self._nu.assign(nu)
        self._tau.assign(tau)
