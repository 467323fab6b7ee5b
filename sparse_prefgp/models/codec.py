"""What a model is made of as JSON and back, without pickle: kernels, terms, a likelihood.

A kernel or a term is rebuilt by its constructor, from what its attributes of the same names hold,
and then given its parameters, whose unconstrained values keep every bit, infinite ones too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
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
from sparse_prefgp.models.likelihood import BOX, JUDGE, Probit
from sparse_prefgp.models.parameters import LogParameter
from sparse_prefgp.models.registry import class_of, kind_of, named
from sparse_prefgp.models.terms import Coefficients, Lean, Taste, Term, Terms
from sparse_prefgp.support.plain import plain
from sparse_prefgp.support.registry import IN_TIME, KERNEL, MEAN_FUNCTION

Json = dict[str, Any]
# The column of labels of groups that leaned in models of before and came from no table.
GROUPS = "group"


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
# What of TensorFlow Probability parameters may have, and its base class.
_TFP: dict[str, tuple[Any, type]] = {
    "bijectors": (tfp.bijectors, tfp.bijectors.Bijector),
    "distributions": (tfp.distributions, tfp.distributions.Distribution),
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
        # By their ids, with each, so that these stay theirs.
        self._numbers: dict[int, tuple[int, gpflow.Parameter]] = {}

    def module(self, value: Any, role: str) -> Json:
        """A kernel or a mean function; `role` names it in messages.

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
            arguments[name] = self._argument(held, f"{where}, argument {name!r}", role)
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
            self.parameters.append(
                {
                    "what": where,
                    "power": value.power if isinstance(value, LogParameter) else None,
                    "trainable": bool(value.trainable),
                    "transform": _encode_tfp(value.transform, f"the transform of {where}"),
                    "prior": _encode_tfp(value.prior, f"the prior of {where}"),
                    "prior_on": None if value.prior_on is None else value.prior_on.value,
                }
            )
        return self._numbers[id(value)][0]

    def _argument(self, value: Any, where: str, role: str) -> Json:
        if _is_parameter(value):
            return {"parameter": self.parameter(value, where)}
        modules = gpflow.kernels.Kernel, gpflow.functions.Function, markov.MarkovKernel, Term
        if isinstance(value, modules):
            return {"module": self.module(value, role)}
        if isinstance(value, _ARRAYS):
            name = f"array_{len(self.arrays)}"
            self.arrays[name] = _numbers(np.asarray(value), where)
            return {"array": name}
        hint = "numbers, text, arrays, parameters or kernels"
        return _encode_plain(value, where, hint, lambda one: self._argument(one, where, role))


class Decoder:
    """The inverse of `Encoder`; parameters that were one object are one object again."""

    def __init__(self, parameters: list[Json], arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays, self._entries = arrays, parameters
        self.parameter = cache(self._read)

    def module(self, entry: Json) -> Any:
        """:raises UnknownClass: one that this process does not know."""
        before = KERNEL if "active_dims" in entry else MEAN_FUNCTION
        kind = entry.get("kind", IN_TIME if entry.get("in_time") else before)
        made = class_of(kind, entry)
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
        ((kind, value),) = entry.items()
        if kind == "parameter":
            return _for_constructor(self.parameter(value))
        if kind == "module":
            return self.module(value)
        if kind == "list":
            return [self._value(each) for each in value]
        return self._arrays[value] if kind == "array" else value

    def _read(self, number: int) -> gpflow.Parameter:
        entry, unconstrained = self._entries[number], self._arrays[f"parameter_{number}"]
        transform = _decode_tfp(entry["transform"], "bijectors")
        # Whatever the transform can take; a value at the end of its range has no way back.
        within = np.zeros_like(unconstrained)
        prior_on = entry["prior_on"]
        power = entry.get("power", 1.0 if entry["what"] in _OF_JUDGES_BEFORE else None)
        parameter = (gpflow.Parameter if power is None else LogParameter)(
            within if transform is None else transform.forward(within),
            transform=transform,
            prior=_decode_tfp(entry["prior"], "distributions"),
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


def _encode_tfp(value: Any, where: str) -> Json | None:
    """A bijector or a distribution by its class and its numbers."""
    if value is None:
        return None
    name = type(value).__name__
    if not any(getattr(module, name, None) is type(value) for module, _ in _TFP.values()):
        raise ValueError(
            f"{where} is of the class {name}, which a saved model cannot name; use one of the "
            f"{' or '.join(_TFP)} of TensorFlow Probability."
        )
    arguments = {
        key: _encode_number(argument, f"{where} ({name}, {key})")
        for key, argument in value.parameters.items()
        if key not in _NOT_ARGUMENTS
    }
    return {"class": name, "arguments": arguments}


def _encode_number(value: Any, where: str) -> Any:
    for kind, (_, base) in _TFP.items():
        if isinstance(value, base):
            return {"of": kind, **(_encode_tfp(value, where) or {})}
    if isinstance(value, (np.generic, *_ARRAYS)):
        array = _numbers(np.asarray(value), where)
        return {"numbers": array.tolist(), "dtype": array.dtype.name}
    return _encode_plain(value, where, "numbers", lambda one: _encode_number(one, where))


def _encode_plain(value: Any, where: str, hint: str, each: Callable[[Any], Any]) -> Json:
    """A plain value, or several, each of which `each` writes where one is not plain."""
    several = isinstance(value, list | tuple)
    if several and not all(map(_is_plain, value)):
        return {"list": [each(one) for one in value]}
    if several or _is_plain(value):
        return {"value": plain(value, float)}
    raise ValueError(
        f"{where} has {value!r} of type {type(value).__name__}, which a saved model cannot hold; "
        f"use {hint}."
    )


def _decode_tfp(entry: Json | None, kind: str) -> Any:
    """:raises ValueError: a class that is none of the bijectors or distributions."""
    if entry is None:
        return None
    module, base = _TFP.get(kind, (None, ()))  # of nothing else there is any class
    made = getattr(module, entry["class"], None)
    # A file may name nothing else of the module: what it names is called with what it holds.
    if not (inspect.isclass(made) and issubclass(made, base)):
        raise ValueError(
            f"The model has a parameter with {entry['class']!r}, which is none of the {kind} of "
            "TensorFlow Probability; save it again."
        )
    return made(**{key: _decode_number(value) for key, value in entry["arguments"].items()})


def _decode_number(entry: Json) -> Any:
    if "of" in entry:
        return _decode_tfp(entry, entry["of"])
    if "list" in entry:
        return [_decode_number(value) for value in entry["list"]]
    if "numbers" in entry:
        # Read as they are, since nothing at all would pass for NaN.
        numbers = _numbers(np.asarray(entry["numbers"]), "What a transform or a prior is made of")
        return numbers.astype(entry["dtype"])
    return entry["value"]


def _numbers(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where} is an array of {array.dtype}, not of numbers.")
    return array


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))


def _is_parameter(value: Any) -> bool:
    return isinstance(value, gpflow.Parameter)


# What of a model is one module or none, by the names of its attributes.
_MODULES = ("kernel", "mean_function", "likelihood")
# What messages of before called the parameters that judges have one each of.
_OF_JUDGES_BEFORE = ("the noise ratios", "the scales of the cuts")


def encoded(model: Any) -> Written:
    """What a model is made of, and its parameters; None where it has none of something.

    :raises ValueError: what `Encoder.module` raises.
    """
    encoder = Encoder()
    parts: Json = {"centre": None if model.centre is None else model.centre.tolist()}
    for name in _MODULES:
        value, role = getattr(model, name), f"The {name.replace('_', ' ')}"
        parts[name] = None if value is None else encoder.module(value, role)
    parts["terms"] = [encoder.module(term, "A term") for term in model.terms]
    points = model.inducing_variable
    if points is not None:
        number = encoder.parameter(points.Z, "the inducing inputs")
        points = {"parameter": number, "num_features": num_features_of(points)}
    parts |= {"inducing_variable": points, "parameters": encoder.parameters}
    return parts, encoder.arrays


def decoded(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Json:
    """The inverse of `encoded`, of files of whichever format: `centre`, which is no argument of a
    model, besides what is."""
    decoder = Decoder(description["parameters"], arrays)
    if "terms" not in description:
        description = {**description, **_parts_before(description, decoder, arrays)}
    parts: Json = {}
    for name in _MODULES:
        entry = description[name]
        parts[name] = decoder.module(entry) if isinstance(entry, dict) else entry
    terms = (decoder.module(e) if isinstance(e, dict) else e for e in description["terms"])
    points = description["inducing_variable"]
    if points is not None:
        z = decoder.parameter(points["parameter"])
        points = points_of(parts["kernel"], z, points["num_features"])
    centre = description.get("centre")
    return parts | {
        "terms": Terms(terms),
        "inducing_variable": points,
        "centre": None if centre is None else np.array(centre),
    }


def _parts_before(
    description: Mapping[str, Any], decoder: Decoder, arrays: Mapping[str, np.ndarray]
) -> Json:
    """Terms, likelihood and inducing inputs of a file that has each parameter by its name."""

    def parameter(name: str) -> Any:
        number = description.get(name)
        return None if number is None else decoder.parameter(number)

    taste, ratio, scale = description.get("taste"), parameter("noise_ratio"), parameter("cut_scale")
    likelihood = Probit(
        decoder.parameter(description["noise_variance"]),
        by=None if ratio is None else JUDGE,
        margin=parameter("margin"),
        cuts_by=None if scale is None else JUDGE,
        ties=description.get("tie_model", BOX),
    )
    likelihood.steps = tuple(map(decoder.parameter, description.get("cut_steps", ())))
    likelihood.noise_ratio, likelihood.cut_scale = ratio, scale
    likelihood.tie_share = parameter("tie_share")
    variance = parameter("covariate_variance")
    terms: list[Term] = [] if variance is None else [Coefficients(variance)]
    # Before, there was one lean at most.
    one = description.get("lean_variance")
    variances = description.get("lean_variances", () if one is None else (one,))
    for (column, covariate), number in zip(_leans_before(description), variances, strict=True):
        terms.append(Lean(covariate, column, decoder.parameter(number)))
    if taste is not None:
        terms.append(Taste(decoder.module(taste), parameter("people_variance")))
    number = description.get("inducing", description.get("inducing_inputs"))
    width = description.get("num_features", arrays["items"].shape[1])
    return {
        "mean_function": description.get("mean_function"),
        "likelihood": likelihood,
        "terms": terms,
        "inducing_variable": None
        if number is None
        else {"parameter": number, "num_features": width},
    }


def _leans_before(description: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    """Columns of labels and covariates; before there were columns, groups leaned."""
    duels, covariate = description["duels"], description.get("lean_by_group")
    if covariate is None and description.get("lean_variance") is not None:
        covariate = duels["covariates"][description["leaning"][0]]
    if covariate is not None:
        return [(duels.get("group_column") or GROUPS, covariate)]
    return description.get("lean_by", ())
