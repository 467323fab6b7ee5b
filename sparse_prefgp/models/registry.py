"""Which classes a model may be made of: those of GPflow and of this package, and one's own."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from typing import Any, TypeVar

import gpflow

from sparse_prefgp import approximations, covariances, engines
from sparse_prefgp.covariances import markov
from sparse_prefgp.models import likelihood, terms
from sparse_prefgp.support.registry import (
    APPROXIMATION,
    ENGINE,
    IN_TIME,
    KERNEL,
    LIKELIHOOD,
    MEAN_FUNCTION,
    TERM,
    is_own,
    keep,
    known,
    own,
    spelt,
)

Class = TypeVar("Class", bound=type)

_BASES: dict[str, type] = {
    KERNEL: gpflow.kernels.Kernel,
    IN_TIME: markov.MarkovKernel,
    MEAN_FUNCTION: gpflow.functions.MeanFunction,
    APPROXIMATION: approximations.Approximation,
    TERM: terms.Term,
    LIKELIHOOD: likelihood.Probit,
}


class UnknownClass(ValueError):
    """A saved model names a class that is not registered here."""


def register(made: Class) -> Class:
    """Let a class of your own be saved, loaded, and named by commands and configurations.

    Also a decorator. `MyKernel` is `my-kernel` in `--kernel`, `MyApproximation` is
    `my-approximation`. Kernels and mean functions keep what their constructors take in attributes
    of the same names, and parameters that they make beyond these are saved too, as do terms;
    approximations are dataclasses with fields of numbers and text.

    :param made: a subclass of `gpflow.kernels.Kernel`, `gpflow.functions.MeanFunction`,
        `spg.markov.MarkovKernel`, `spg.Term` or `spg.InducingApproximation`.
    :return: the class itself.
    :raises ValueError: none of these, a class without one of their methods, or another class of
        that name is known already.
    """
    kind = kind_of(made)
    if kind is None:
        raise ValueError(
            "register takes a class of kernels (a subclass of gpflow.kernels.Kernel), of mean "
            f"functions, of terms or of approximations, not {made!r}."
        )
    missing = sorted(getattr(made, "__abstractmethods__", ()))
    if missing:
        raise ValueError(
            f"{made.__name__} lacks {', '.join(missing)}, without which it is nothing yet; write "
            "what is missing."
        )
    keep(kind, made)
    return made


def term_named(text: str) -> terms.Term:
    """A term of one's own as its constructor makes it without arguments.

    :param text: its name, `my-term` of the class MyTerm.
    :raises ValueError: none of that name; a constructor that needs arguments.
    """
    known, name = own(TERM), spelt(TERM, text)
    if name not in known:
        registered = f"choose from {', '.join(known)}" if known else "none is registered (--import)"
        raise ValueError(f"There is no term of your own {text!r}; {registered}.")
    try:
        made: terms.Term = known[name]()
    except TypeError as error:
        raise ValueError(
            f"The term {text!r} cannot be made without arguments ({error}); give each a default."
        ) from error
    return made


def named(value: Any, role: str) -> dict[str, Any]:
    """How a saved model names the class of a value, and the module of one's own.

    :param role: names the value in messages.
    :raises ValueError: a class that is not registered.
    """
    one = type(value)
    kind = kind_of(one)
    if kind is None or known(kind).get(one.__name__) is not one:
        raise ValueError(
            f"{role} has the class {one.__name__}, which a saved model cannot name; call "
            f"spg.register({one.__name__}) first."
        )
    return {"type": one.__name__, **({"module": one.__module__} if is_own(one) else {})}


def class_of(kind: str, entry: dict[str, Any]) -> Any:
    """The class that `named` has named.

    :raises UnknownClass: it is not registered here.
    """
    name, module = entry["type"], entry.get("module", "the module that registers it")
    if name not in known(kind):
        raise UnknownClass(
            f"The model has a {kind} of the class {name}, which is not registered here; import "
            f"{module} before loading (--import), which has to call spg.register({name})."
        )
    return known(kind)[name]


def kind_of(one: Any) -> str | None:
    """What a class is of; None for nothing that a model is made of."""
    if not inspect.isclass(one):
        return None
    if is_dataclass(one) and hasattr(one, "run"):
        return ENGINE
    return next((kind for kind, base in _BASES.items() if issubclass(one, base)), None)


_ROOMS = (
    gpflow.kernels,
    gpflow.functions,
    markov,
    covariances,
    approximations,
    engines,
    terms,
    likelihood,
)
for _room in _ROOMS:
    for _name in dir(_room):
        _class = getattr(_room, _name)
        if kind_of(_class) is not None and not inspect.isabstract(_class):
            register(_class)
