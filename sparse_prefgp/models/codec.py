"""What a model is made of as JSON and back, without pickle: kernels, terms, a likelihood.

A kernel or a term is rebuilt by its constructor, from what its attributes of the same names hold,
and then given its parameters, whose unconstrained values keep every bit, infinite ones too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from gpflow import functions

from sparse_prefgp.covariances import markov
from sparse_prefgp.covariances.projected import num_features_of, points_of
from sparse_prefgp.models.known import Written
from sparse_prefgp.models.parameters import LogParameter
from sparse_prefgp.models.registry import class_of, kind_of, named
from sparse_prefgp.models.terms import Term, Terms
from sparse_prefgp.support.plain import plain
from sparse_prefgp.support.registry import IN_TIME, KERNEL, MEAN_FUNCTION

Json = dict[str, Any]

# Arguments that GPflow's own functions keep under other names.
_KEPT_ELSEWHERE: dict[tuple[type, str], Callable[[Any], Any]] = {
    (functions.Additive, "first_part"): lambda f: f.add_1,
    (functions.Additive, "second_part"): lambda f: f.add_2,
    (functions.Product, "first_part"): lambda f: f.prod_1,
    (functions.Product, "second_part"): lambda f: f.prod_2,
    (functions.Polynomial, "degree"): lambda f: int(tf.reduce_max(tf.reduce_sum(f.powers, -1))),
    (functions.Polynomial, "input_dim"): lambda f: int(f.powers.shape[1]),
    (functions.Polynomial, "output_dim"): lambda f: int(f.w.shape[0]),
}
_ARRAYS = (np.ndarray, tf.Tensor, tf.Variable)
_INNER = (gpflow.kernels.Kernel, functions.Function, markov.MarkovKernel, Term)
# What of TensorFlow Probability parameters may have, and its base class.
_TFP: dict[str, tuple[Any, type]] = {
    "bijectors": (tfp.bijectors, tfp.bijectors.Bijector),
    "distributions": (tfp.distributions, tfp.distributions.Distribution),
}
# What the class lists of TensorFlow Probability know besides numbers and each other.
_NOT_ARGUMENTS = ("name", "validate_args", "allow_nan_stats", "dtype", "parameters", "self")
# What of a model is one module or none, by the names of its attributes.
_MODULES = ("kernel", "mean_function", "likelihood")


class Encoder:
    """Collects parameters and arrays while objects become JSON; equal objects stay one.

    :ivar parameters: one entry for each `gpflow.Parameter`; objects refer to its number.
    :ivar arrays: what does not belong into JSON, by name.
    """

    def __init__(self) -> None:
        self.parameters: list[Json] = []
        self.arrays: dict[str, np.ndarray] = {}
        # By their ids, with each, so that these stay theirs.
        self._numbers: dict[int, tuple[int, gpflow.Parameter]] = {}

    def module(self, value: Any, role: str) -> Json:
        """A kernel or whatever else a model is made of; `role` names it in messages.

        :raises ValueError: a class that is not known, or something in it that cannot be written.
        """
        made, arguments, parameters = type(value), dict[str, Json](), dict[str, Any]()
        where = f"{role} ({made.__name__})"
        for name, argument in _constructor(made).items():
            try:
                held = _KEPT_ELSEWHERE.get((made, name), attrgetter(name))(value)
            except AttributeError:
                if argument.default is inspect.Parameter.empty:
                    raise ValueError(
                        f"{where} does not keep its constructor's argument {name!r}; store it as "
                        f"self.{name}, so that a saved model can be rebuilt."
                    ) from None
                continue
            arguments[name] = self._value(held, f"{where}, argument {name!r}", role)
        for name, held in vars(value).items():
            if _is_parameter(held):
                parameters[name] = self.parameter(held, f"{where}, {name}")
            elif isinstance(held, tuple) and any(map(_is_parameter, held)):
                parameters[name] = [self.parameter(one, f"{where}, {name}") for one in held]
        result: Json = {"kind": kind_of(made), **named(value, role)}
        result |= {"arguments": arguments, "parameters": parameters}
        if isinstance(value, gpflow.kernels.Kernel):
            dims, columns = value.active_dims, isinstance(value.active_dims, slice)
            ends = plain([dims.start, dims.stop, dims.step]) if columns else None
            result["active_dims"] = {"slice": ends} if columns else {"columns": plain(dims)}
        return result

    def parameter(self, value: gpflow.Parameter, where: str) -> int:
        """The number of a parameter, which is written when it is first seen."""
        if id(value) not in self._numbers:
            number = len(self.parameters)
            self._numbers[id(value)] = number, value
            self.arrays[f"parameter_{number}"] = value.unconstrained_variable.numpy()
            beside = {name: getattr(value, name) for name in ("transform", "prior")}
            self.parameters.append(
                {
                    "what": where,
                    "power": value.power if isinstance(value, LogParameter) else None,
                    "trainable": bool(value.trainable),
                    **{
                        name: None if held is None else self._of_tfp(held, f"the {name} of {where}")
                        for name, held in beside.items()
                    },
                    "prior_on": None if value.prior_on is None else value.prior_on.value,
                }
            )
        return self._numbers[id(value)][0]

    def _value(self, value: Any, where: str, role: str | None = None) -> Json:
        """What is in the argument of a module.

        :param role: of this module; None in transforms and priors, which have no parameters and no
            modules.
        """
        if role is not None and _is_parameter(value):
            return {"parameter": self.parameter(value, where)}
        if role is not None and isinstance(value, _INNER):
            return {"module": self.module(value, role)}
        if isinstance(value, tuple(base for _, base in _TFP.values())):
            return self._of_tfp(value, where)
        if isinstance(value, _ARRAYS):
            name = f"array_{len(self.arrays)}"
            self.arrays[name] = _numbers(np.asarray(value), where)
            return {"array": name}
        several = isinstance(value, list | tuple)
        if several and not all(map(_is_plain, value)):
            return {"list": [self._value(one, where, role) for one in value]}
        if several or _is_plain(value):
            return {"value": plain(value, float)}
        raise ValueError(
            f"{where} has {value!r} of type {type(value).__name__}, which a saved model cannot "
            "hold; use numbers, text, arrays, parameters or kernels."
        )

    def _of_tfp(self, value: Any, where: str) -> Json:
        """A bijector or a distribution by its class and its numbers, whose types decide its own."""
        name = type(value).__name__
        for kind, (module, _) in _TFP.items():
            if getattr(module, name, None) is type(value):
                arguments = {
                    key: np.asarray(held) if isinstance(held, np.generic) else held
                    for key, held in value.parameters.items()
                    if key not in _NOT_ARGUMENTS
                }
                each = {k: self._value(x, f"{where} ({name}, {k})") for k, x in arguments.items()}
                return {"of": kind, "class": name, "arguments": each}
        raise ValueError(
            f"{where} is of the class {name}, which a saved model cannot name; use one of the "
            f"{' or '.join(_TFP)} of TensorFlow Probability."
        )


class Decoder:
    """The inverse of `Encoder`; parameters that were one object are one object again."""

    def __init__(self, parameters: list[Json], arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays, self._entries = arrays, parameters
        self.parameter = cache(self._read)

    def module(self, entry: Json) -> Any:
        """:raises UnknownClass: one that this process does not know."""
        # Kinds of kernels and mean functions were not always written.
        before = KERNEL if "active_dims" in entry else MEAN_FUNCTION
        made = class_of(entry.get("kind", IN_TIME if entry.get("in_time") else before), entry)
        result = made(**{name: self._value(a) for name, a in entry["arguments"].items()})
        for name, number in entry["parameters"].items():
            one = isinstance(number, int)
            if not one and isinstance(getattr(result, name, None), gpflow.Parameter):
                raise ValueError(f"{name} is one parameter, and no list")
            value = self.parameter(number) if one else tuple(map(self.parameter, number))
            setattr(result, name, value)
        if "active_dims" in entry:
            ((kind, dims),) = entry["active_dims"].items()
            result.active_dims = slice(*dims) if kind == "slice" else np.asarray(dims, dtype=int)
        return result

    def _value(self, entry: Json) -> Any:
        if "of" in entry:
            return self._of_tfp(entry, entry["of"])
        if "numbers" in entry:  # as those of transforms and priors were written before
            # Read as they are, since nothing at all would pass for NaN.
            return _numbers(np.asarray(entry["numbers"]), "What they are").astype(entry["dtype"])
        ((kind, value),) = entry.items()
        if kind == "parameter":
            return _for_constructor(self.parameter(value))
        if kind == "module":
            return self.module(value)
        if kind == "list":
            return [self._value(each) for each in value]
        return self._arrays[value] if kind == "array" else value

    def _of_tfp(self, entry: Json | None, kind: str) -> Any:
        """:raises ValueError: a class that is none of the bijectors or distributions."""
        if entry is None:
            return None
        module, base = _TFP.get(kind, (None, ()))  # of nothing else there is any class
        made = getattr(module, entry["class"], None)
        # A file may name nothing else of the module: what it names is called with what it holds.
        if not (inspect.isclass(made) and issubclass(made, base)):
            raise ValueError(
                f"The model has a parameter with {entry['class']!r}, which is none of the {kind} "
                "of TensorFlow Probability; save it again."
            )
        return made(**{key: self._value(value) for key, value in entry["arguments"].items()})

    def _read(self, number: int) -> gpflow.Parameter:
        entry, unconstrained = self._entries[number], self._arrays[f"parameter_{number}"]
        transform = self._of_tfp(entry["transform"], "bijectors")
        # Whatever the transform can take; a value at the end of its range has no way back.
        within = np.zeros_like(unconstrained)
        prior_on, power = entry["prior_on"], entry["power"]
        parameter = (gpflow.Parameter if power is None else LogParameter)(
            within if transform is None else transform.forward(within),
            transform=transform,
            prior=self._of_tfp(entry["prior"], "distributions"),
            prior_on=None if prior_on is None else gpflow.base.PriorOn(prior_on),
            trainable=entry["trainable"],
            dtype=unconstrained.dtype,
        )
        parameter.unconstrained_variable.assign(unconstrained)  # every bit, not the way round
        if power is not None:
            parameter.power = power
        return parameter


def _for_constructor(parameter: gpflow.Parameter) -> Any:
    """The values, a number or an array, or some that a constructor takes where a transform has no
    way back from them.

    A softplus is 0 from some -745 on, where no positive parameter can be made again. The parameter
    itself takes the place of what the constructor makes.
    """
    values: np.ndarray = parameter.numpy()
    if parameter.transform is not None:
        # As new tensors: a bijector remembers what it was given, and where from.
        back = parameter.transform.inverse(tf.constant(values)).numpy()
        other = parameter.transform.forward(np.zeros_like(back)).numpy()
        if back.shape == values.shape:
            values = np.where(np.isfinite(back), values, other)
    return values if values.ndim else values.item()


def _constructor(kind: type) -> dict[str, inspect.Parameter]:
    """Arguments that describe an object of the class, without those every kernel has."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(kind).parameters
    return {
        name: argument
        for name, argument in parameters.items()
        if argument.kind not in variable and name not in ("active_dims", "name")
    }


def _numbers(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where} is an array of {array.dtype}, not of numbers.")
    return array


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))


def _is_parameter(value: Any) -> bool:
    return isinstance(value, gpflow.Parameter)


def encoded(model: Any, **more: Any) -> Written:
    """What a model is made of, and its parameters; None where it has none of something.

    :param more: what else, by its name.
    :raises ValueError: what `Encoder.module` raises.
    """
    encoder = Encoder()
    parts: Json = {"centre": None if model.centre is None else model.centre.tolist()}
    for name, value in ({name: getattr(model, name) for name in _MODULES} | more).items():
        role = f"The {name.replace('_', ' ')}"
        parts[name] = None if value is None else encoder.module(value, role)
    parts["terms"] = [encoder.module(term, "A term") for term in model.terms]
    points = model.inducing_variable
    if points is not None:
        number = encoder.parameter(points.Z, "the inducing inputs")
        points = {"parameter": number, "num_features": num_features_of(points)}
    parts |= {"inducing_variable": points, "parameters": encoder.parameters}
    return parts, encoder.arrays


def decoded(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *more: str) -> Json:
    """The inverse of `encoded`: `centre`, which is no argument of a model, besides what is.

    :param more: names of what else there is.
    """
    decoder = Decoder(description["parameters"], arrays)
    parts: Json = {}
    for name in (*_MODULES, *more):
        entry = description[name]
        parts[name] = None if entry is None else decoder.module(entry)
    points, centre = description["inducing_variable"], description["centre"]
    if points is not None:
        z = decoder.parameter(points["parameter"])
        points = points_of(parts["kernel"], z, points["num_features"])
    return parts | {
        "terms": Terms(map(decoder.module, description["terms"])),
        "inducing_variable": points,
        "centre": None if centre is None else np.array(centre),
    }
