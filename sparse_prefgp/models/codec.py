"""GPflow kernels, mean functions and parameters as JSON and back, without pickle.

A kernel is rebuilt by its constructor, from what its attributes of the same names hold, and then
given its parameters, whose unconstrained values keep every bit, infinite ones too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from sparse_prefgp.covariances import markov
from sparse_prefgp.models.outcomes import GroupRatios
from sparse_prefgp.models.registry import class_of, named
from sparse_prefgp.support.plain import plain
from sparse_prefgp.support.registry import IN_TIME, KERNEL, MEAN_FUNCTION

Json = dict[str, Any]


# Arguments that GPflow's own functions keep under other names.
_KEPT_ELSEWHERE: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("Additive", "first_part"): lambda f: f.add_1,
    ("Additive", "second_part"): lambda f: f.add_2,
    ("Product", "first_part"): lambda f: f.prod_1,
    ("Product", "second_part"): lambda f: f.prod_2,
    ("Polynomial", "degree"): lambda f: int(tf.reduce_max(tf.reduce_sum(f.powers, -1))),
    ("Polynomial", "input_dim"): lambda f: int(f.powers.shape[1]),
    ("Polynomial", "output_dim"): lambda f: int(f.w.shape[0]),
}
# What the class lists of TensorFlow Probability know besides numbers and each other.
_NOT_ARGUMENTS = ("name", "validate_args", "allow_nan_stats", "dtype", "parameters", "self")


class Encoder:
    """Collects parameters and arrays while objects become JSON; equal objects stay one.

    :ivar parameters: one entry for each `gpflow.Parameter`; objects refer to its number.
    :ivar arrays: what does not belong into JSON, by name.
    """

    def __init__(self) -> None:
        self.parameters: list[Json] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # alive, so that their ids stay theirs

    def module(self, value: Any, role: str) -> Json:
        """A kernel or a mean function; `role` names it in messages.

        :raises ValueError: a class that is not known, or something in it that cannot be written.
        """
        kind = type(value)
        result: Json = {**named(value, role), "arguments": {}, "parameters": {}}
        where = f"{role} ({kind.__name__})"
        for name, argument in _constructor(kind).items():
            elsewhere = _KEPT_ELSEWHERE.get((kind.__name__, name))
            if elsewhere is not None and isinstance(value, gpflow.functions.MeanFunction):
                result["arguments"][name] = self._argument(
                    elsewhere(value), f"{where}, argument {name!r}", role
                )
                continue
            if not hasattr(value, name):
                if argument.default is inspect.Parameter.empty:
                    raise ValueError(
                        f"{where} does not keep its constructor's argument {name!r}; store it as "
                        f"self.{name}, so that a saved model can be rebuilt."
                    )
                continue
            result["arguments"][name] = self._argument(
                getattr(value, name), f"{where}, argument {name!r}", role
            )
        if isinstance(value, gpflow.kernels.Kernel):
            result["active_dims"] = _encode_dims(value.active_dims)
        if isinstance(value, markov.MarkovKernel):
            result["in_time"] = True
        for name, attribute in vars(value).items():
            if isinstance(attribute, gpflow.Parameter):
                result["parameters"][name] = self.parameter(attribute, f"{where}, {name}")
        return result

    def parameter(self, value: gpflow.Parameter, where: str) -> int:
        """The number of a parameter, which is written when it is first seen."""
        if id(value) not in self._numbers:
            number = len(self.parameters)
            self._numbers[id(value)] = number
            self._kept.append(value)
            self.arrays[f"parameter_{number}"] = value.unconstrained_variable.numpy()
            transform, prior = value.transform, value.prior
            self.parameters.append(
                {
                    "what": where,
                    "trainable": bool(value.trainable),
                    "transform": _encode_tfp(transform, tfp.bijectors, f"the transform of {where}"),
                    "prior": _encode_tfp(prior, tfp.distributions, f"the prior of {where}"),
                    "prior_on": None if value.prior_on is None else value.prior_on.value,
                }
            )
        return self._numbers[id(value)]

    def _argument(self, value: Any, where: str, role: str) -> Json:
        if isinstance(value, gpflow.Parameter):
            return {"parameter": self.parameter(value, where)}
        modules = gpflow.kernels.Kernel, gpflow.functions.Function, markov.MarkovKernel
        if isinstance(value, modules):
            return {"module": self.module(value, role)}
        if isinstance(value, (list, tuple)) and not all(_is_plain(entry) for entry in value):
            return {"list": [self._argument(entry, where, role) for entry in value]}
        if isinstance(value, (np.ndarray, tf.Tensor, tf.Variable)):
            name = f"array_{len(self.arrays)}"
            self.arrays[name] = _numbers(np.asarray(value), where)
            return {"array": name}
        if _is_plain(value) or isinstance(value, (list, tuple)):
            return {"value": plain(value, float)}
        raise ValueError(
            f"{where} has {value!r} of type {type(value).__name__}, which a saved model cannot "
            "hold; use numbers, text, arrays, parameters or kernels."
        )


class Decoder:
    """The inverse of `Encoder`; parameters that were one object are one object again."""

    def __init__(self, parameters: list[Json], arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays, self._entries = arrays, parameters
        self._parameters: dict[int, gpflow.Parameter] = {}

    def parameter(self, number: int) -> gpflow.Parameter:
        if number not in self._parameters:
            self._parameters[number] = self._read(number, self._entries[number])
        return self._parameters[number]

    def module(self, entry: Json) -> Any:
        """:raises UnknownClass: one that this process does not know."""
        kind = KERNEL if "active_dims" in entry else MEAN_FUNCTION
        made = class_of(IN_TIME if entry.get("in_time") else kind, entry)
        result = made(**{name: self._value(a) for name, a in entry["arguments"].items()})
        for name, number in entry["parameters"].items():
            setattr(result, name, self.parameter(number))
        if "active_dims" in entry:
            result.active_dims = _decode_dims(entry["active_dims"])
        return result

    def _value(self, entry: Json) -> Any:
        ((kind, value),) = entry.items()
        if kind == "parameter":
            return _for_constructor(self.parameter(value))
        if kind == "module":
            return self.module(value)
        if kind == "list":
            return [self._value(each) for each in value]
        return self._arrays[value] if kind == "array" else value

    def _read(self, number: int, entry: Json) -> gpflow.Parameter:
        unconstrained = self._arrays[f"parameter_{number}"]
        transform = _decode_tfp(entry["transform"], tfp.bijectors)
        # Whatever the transform can take; a value at the end of its range has no way back.
        within = np.zeros_like(unconstrained)
        prior_on = entry["prior_on"]
        parameter = gpflow.Parameter(
            within if transform is None else transform.forward(within),
            transform=transform,
            prior=_decode_tfp(entry["prior"], tfp.distributions),
            prior_on=None if prior_on is None else gpflow.base.PriorOn(prior_on),
            trainable=entry["trainable"],
            dtype=unconstrained.dtype,
        )
        parameter.unconstrained_variable.assign(unconstrained)  # every bit, not the way round
        return parameter


def _for_constructor(parameter: gpflow.Parameter) -> np.ndarray:
    """The values, or some that a constructor takes where a transform has no way back from them.

    A softplus is 0 from some -745 on, where no positive parameter can be made again. The parameter
    itself takes the place of what the constructor makes.
    """
    values: np.ndarray = parameter.numpy()
    if parameter.transform is None:
        return values
    # As new tensors: a bijector remembers what it was given, and where from.
    back = parameter.transform.inverse(tf.constant(values)).numpy()
    if np.all(np.isfinite(back)):
        return values
    other = parameter.transform.forward(np.zeros_like(back)).numpy()
    return np.where(np.isfinite(back), values, other) if back.shape == values.shape else other


def _constructor(kind: type) -> dict[str, inspect.Parameter]:
    """Arguments that describe an object of the class, without those every kernel has."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(kind).parameters
    return {
        name: argument
        for name, argument in parameters.items()
        if argument.kind not in variable and name not in ("active_dims", "name")
    }


def _encode_dims(dims: Any) -> Json:
    if isinstance(dims, slice):
        parts = (dims.start, dims.stop, dims.step)
        return {"slice": [None if part is None else int(part) for part in parts]}
    return {"columns": np.asarray(dims).tolist()}


def _decode_dims(entry: Json) -> Any:
    return slice(*entry["slice"]) if "slice" in entry else np.asarray(entry["columns"], dtype=int)


def _encode_tfp(value: Any, module: Any, where: str) -> Json | None:
    """A bijector or a distribution by its class and its numbers."""
    if value is None:
        return None
    name = type(value).__name__
    if getattr(module, name, None) is not type(value):
        raise ValueError(
            f"{where} is of the class {name}, which a saved model cannot name; use one of "
            f"{module.__name__.removeprefix('tensorflow_probability.python.')} of TensorFlow "
            "Probability."
        )
    arguments = {
        key: _encode_number(argument, module, f"{where} ({name}, {key})")
        for key, argument in value.parameters.items()
        if key not in _NOT_ARGUMENTS
    }
    return {"class": name, "arguments": arguments}


def _encode_number(value: Any, module: Any, where: str) -> Any:
    for other in (tfp.bijectors, tfp.distributions):
        base = other.Bijector if other is tfp.bijectors else other.Distribution
        if isinstance(value, base):
            return {"of": _short(other), **(_encode_tfp(value, other, where) or {})}
    if isinstance(value, (list, tuple)) and not all(_is_plain(entry) for entry in value):
        return {"list": [_encode_number(entry, module, where) for entry in value]}
    if isinstance(value, (np.ndarray, np.generic, tf.Tensor, tf.Variable)):
        array = _numbers(np.asarray(value), where)
        return {"numbers": array.tolist(), "dtype": array.dtype.name}
    if _is_plain(value) or isinstance(value, (list, tuple)):
        return {"value": plain(value, float)}
    raise ValueError(
        f"{where} has {value!r} of type {type(value).__name__}, which a saved model cannot hold; "
        "use numbers."
    )


def _decode_tfp(entry: Json | None, module: Any) -> Any:
    """:raises ValueError: a class that is none of the module's bijectors or distributions."""
    if entry is None:
        return None
    base = module.Bijector if module is tfp.bijectors else module.Distribution
    kind = getattr(module, entry["class"], None)
    # A file may name nothing else of the module: what it names is called with what it holds.
    if not (inspect.isclass(kind) and issubclass(kind, base)):
        raise ValueError(
            f"The model has a parameter with {entry['class']!r}, which is none of "
            f"the {_short(module)} of TensorFlow Probability; save it again."
        )
    return kind(**{key: _decode_number(value) for key, value in entry["arguments"].items()})


def _decode_number(entry: Json) -> Any:
    if "of" in entry:
        return _decode_tfp(entry, _module_of(entry["of"]))
    if "list" in entry:
        return [_decode_number(value) for value in entry["list"]]
    if "numbers" in entry:
        # Read as they are, since nothing at all would pass for NaN.
        numbers = _numbers(np.asarray(entry["numbers"]), "What a transform or a prior is made of")
        return numbers.astype(entry["dtype"])
    return entry["value"]


def _module_of(name: str) -> Any:
    """The inverse of `_short`."""
    for module in (tfp.bijectors, tfp.distributions):
        if name == _short(module):
            return module
    raise ValueError(
        f"The model has a parameter with something of {name!r}, not of the bijectors or "
        "distributions of TensorFlow Probability; save it again."
    )


def _short(module: Any) -> str:
    return "bijectors" if module is tfp.bijectors else "distributions"


def _numbers(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where} is an array of {array.dtype}, not of numbers.")
    return array


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))


# What a model is made of by the names of its attributes, and what messages call it.
_MODULES = {
    "kernel": "The kernel",
    "mean_function": "The mean function",
    "taste": "The kernel of tastes",
}
PARAMETERS = {
    "noise_variance": "the noise variance",
    "margin": "the margin",
    "noise_ratio": "the noise ratios",
    "cut_scale": "the scales of the cuts",
    "tie_share": "the share of ties",
    "covariate_variance": "the variances of coefficients",
    "people_variance": "the variance of coefficients",
}
_SEVERAL = {"cut_steps": "a step of the cuts", "lean_variances": "the variance of the leans"}
_NEEDED = ("kernel", "noise_variance")
# A file names the prior, and the class what it is the density of.
_OF_GROUPS = ("noise_ratio", "cut_scale")


def encoded(model: Any, encoder: Encoder) -> Json:
    """What a model is made of, but for inducing inputs; None where it has none of something.

    :raises ValueError: what `Encoder.module` raises.
    """
    found: Json = {"centre": None if model.centre is None else model.centre.tolist()}
    for written, parts in ((encoder.module, _MODULES), (encoder.parameter, PARAMETERS)):
        for name, what in parts.items():
            if hasattr(model, name):
                value = getattr(model, name)
                found[name] = None if value is None else written(value, what)
    for name, what in _SEVERAL.items():
        found[name] = [encoder.parameter(value, what) for value in getattr(model, name)]
    return found


def decoded(description: Mapping[str, Any], decoder: Decoder) -> Json:
    """The inverse of `encoded`, of files of whichever format: before, there was one lean at most,
    and linear terms were about the origin."""
    found: Json = {}
    for read, names in ((decoder.module, _MODULES), (decoder.parameter, PARAMETERS)):
        for name in names:
            entry = description[name] if name in _NEEDED else description.get(name)
            found[name] = None if entry is None else read(entry)
    for name in _OF_GROUPS:
        found[name] = None if found[name] is None else GroupRatios.like(found[name])
    before = description.get("lean_variance")
    leans = description.get("lean_variances", () if before is None else (before,))
    found["lean_variances"] = tuple(map(decoder.parameter, leans))
    found["cut_steps"] = tuple(map(decoder.parameter, description.get("cut_steps", ())))
    centre = description.get("centre")
    found["centre"] = None if centre is None else np.array(centre)
    return found
