"""Parameters whose prior is a density of their logarithm."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from sparse_prefgp.support.arrays import FloatArray

M = TypeVar("M", bound=gpflow.Module)

# Degrees of freedom of the half-Student-t priors.
FREEDOM = 4.0


def half_t(scale: FloatArray) -> tfp.distributions.Distribution:
    """The half-Student-t distribution of a standard deviation, of that scale."""
    zero = np.float64(0.0)
    return tfp.distributions.HalfStudentT(np.float64(FREEDOM), zero, np.asarray(scale))


class LogParameter(gpflow.Parameter):
    """A positive parameter with a prior of the quantity q = value ** power, whose density counts
    as that of log q: `p(q) q`.

    GPflow takes a prior for the density of the constrained value and turns it into that of the
    unconstrained one, so that what is most likely depends on the transform, and with a log-normal
    prior lies below its centre by its variance. A prior on the unconstrained value is the density
    of that.

    :ivar power: of the value in what the prior is of: ½ where a variance has the prior of a
        standard deviation.
    """

    power = 1.0

    @classmethod
    def of(
        cls, parameter: gpflow.Parameter, prior: Any = None, power: float = 1.0, on: Any = None
    ) -> LogParameter:
        """With the value, the transform and the trainability of another one, to the bit.

        :param prior: a distribution of positive numbers; by default that of the other.
        """
        made = cls(parameter, prior=prior, prior_on=on)
        made.unconstrained_variable.assign(parameter.unconstrained_variable)
        made.power = power
        return made

    @classmethod
    def made(
        cls, value: Any, prior: Any, power: float = 1.0, *, trainable: bool = True
    ) -> LogParameter:
        """One that is learned by its log."""
        made = cls(value, transform=tfp.bijectors.Exp(), prior=prior, trainable=trainable)
        made.power = power
        return made

    def _value(self, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> tf.Tensor:
        """The value, without the record of inverses that TFP keeps, which takes ten times as long
        as the transform and is asked for whenever a kernel is evaluated."""
        value = tf.convert_to_tensor(self.unconstrained_variable)
        return tf.convert_to_tensor(_transformed(self.transform, value), dtype=dtype, name=name)

    @property
    def quantity(self) -> tf.Tensor:
        """What the prior is of."""
        return tf.convert_to_tensor(self) ** self.power

    def log_prior_density(self) -> tf.Tensor:
        """Log density of the logarithm, summed over the values, in nats."""
        if self.prior is None:
            return tf.zeros([], self.dtype)
        if self.prior_on is gpflow.base.PriorOn.UNCONSTRAINED:
            return tf.reduce_sum(self.prior.log_prob(self.unconstrained_variable))
        return tf.reduce_sum(self.prior.log_prob(self.quantity) + tf.math.log(self.quantity))


def _transformed(transform: Any, value: tf.Tensor) -> tf.Tensor:
    """What a bijector, or one after the other of a chain, makes of a value."""
    if transform is None:
        return value
    if isinstance(transform, tfp.bijectors.Chain):
        for one in reversed(transform.bijectors):
            value = _transformed(one, value)
        return value
    return transform._forward(value)


def take_by_name(
    made: gpflow.Parameter, names: Any, known: gpflow.Parameter, names_before: Any
) -> None:
    """Give a parameter, one value of each name, those of another one that has the name too."""
    values = dict(zip(names_before or (), known.numpy(), strict=True))
    first = zip(names or (), made.numpy(), strict=True)
    made.assign([values.get(name, value) for name, value in first])


def leaves_of(module: gpflow.Module) -> list[gpflow.Parameter | tf.Variable]:
    """The parameters of a module, and the variables that belong to none of them."""
    parameters = list(module.parameters)
    theirs = {id(each.unconstrained_variable) for each in parameters}
    return parameters + [each for each in module.variables if id(each) not in theirs]


def with_leaves(module: M, values: Sequence[tf.Tensor]) -> M:
    """The module with tensors in place of its leaves; a model has the same sites."""
    result = copy.copy(module)
    known = {id(leaf): value for leaf, value in zip(leaves_of(module), values, strict=True)}
    for name, part in vars(module).items():
        if isinstance(part, tf.Module | tuple):
            result.__dict__[name] = copy.deepcopy(part, known)
    return result


def flat_values(variables: Iterable[tf.Variable]) -> FloatArray:
    """All values of some variables, one after the other."""
    return np.concatenate([variable.numpy().reshape(-1) for variable in variables])


def pieces_of(values: FloatArray, variables: Sequence[tf.Variable]) -> list[FloatArray]:
    """Of what stands one after the other, that of each variable, in its shape."""
    ends = np.cumsum([int(np.prod(variable.shape)) for variable in variables])[:-1]
    pieces = zip(np.split(values, ends), variables, strict=True)
    return [piece.reshape(variable.shape) for piece, variable in pieces]


def assign_flat(values: FloatArray, variables: Sequence[tf.Variable]) -> None:
    """Give variables the values that `flat_values` gave."""
    for variable, piece in zip(variables, pieces_of(values, variables), strict=True):
        variable.assign(piece)


def flat_gradient(
    tape: tf.GradientTape, target: Any, variables: Any, upstream: Any = None
) -> tf.Tensor:
    """Gradient in all variables, one after the other, zero where there is none."""
    gradients = tape.gradient(
        target,
        variables,
        output_gradients=upstream,
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return tf.concat([tf.reshape(tf.convert_to_tensor(g), [-1]) for g in gradients], 0)


def reach_of(parameter: gpflow.Parameter) -> tuple[float, float]:
    """What its transform can reach; infinite where it has none."""
    ends = []
    for end, extreme in ((-np.inf, np.min), (np.inf, np.max)):
        free = np.full(parameter.unconstrained_variable.shape, end, parameter.dtype.as_numpy_dtype)
        reached = free if parameter.transform is None else parameter.transform.forward(free)
        found = float(extreme(np.asarray(reached)))
        ends.append(end if np.isnan(found) else found)
    return ends[0], ends[1]
