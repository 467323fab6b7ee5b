"""The gradient of a model, against differences of an evidence that is found again."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import sparse_prefgp as spg
from tests.tolerances import GRADIENT


def check_slopes(model: spg.PreferenceGP) -> None:
    """Hold the slope of the training loss, along each parameter, against central differences."""
    free = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    for variable, slope in zip(free, tape.gradient(loss, free), strict=True):
        step = 1e-5 * np.ones(variable.shape) / np.sqrt(max(1, variable.numpy().size))
        before, ends = variable.numpy(), []
        for sign in (1.0, -1.0):
            variable.assign(before + sign * step)
            ends.append(-float(model.log_evidence()))
        variable.assign(before)
        np.testing.assert_allclose(
            np.sum(slope * step) * 2.0, ends[0] - ends[1], rtol=GRADIENT, atol=2e-5 * GRADIENT
        )
