"""Checks of the values that people give: each refuses what it is not by a `ValueError`."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.words import counted, listing, shortened, spelt_like


def is_number(value: Any) -> bool:
    """Whether it is a real number, and not a truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def plain_scalars(settings: Any) -> None:
    """Make Python's own of the NumPy scalars in the fields of a frozen dataclass.

    NumPy 1 and 2 write them in different ways, and what is written is compared when a run resumes.
    """
    for one in fields(settings):
        value = getattr(settings, one.name)
        if isinstance(value, np.generic):
            object.__setattr__(settings, one.name, value.item())


def check_number(
    label: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    whole: bool = False,
    hint: str = "",
) -> None:
    """Refuse what is no finite number within these bounds.

    :param label: what the sentence calls it.
    :param hint: what the sentence ends with.
    """
    fine = is_number(value) and math.isfinite(value) and (not whole or float(value).is_integer())
    words = []
    for bound, word, holds in (
        (least, "at least", operator.ge),
        (above, "above", operator.gt),
        (most, "at most", operator.le),
        (below, "below", operator.lt),
    ):
        if bound is not None:
            fine = fine and holds(value, bound)
            if word != "at most" or not is_number(value) or value > bound:  # often huge
                words.append(f"{word} {bound:,}".removesuffix(".0"))
    if not fine:
        kind = f"a{' whole' * whole} number{', ' * bool(words)}"
        raise ValueError(f"{label} is {shortened(value)}; give {kind}{' and '.join(words)}{hint}.")


def whole_number(label: str, value: Any, least: int) -> int:
    """A whole number of at least `least`."""
    check_number(label, value, least=least, whole=True)
    return int(value)


def level_of_interval(value: Any) -> float:
    """The share that an interval holds, strictly between 0 and 1."""
    check_number("level", value, above=0.0, below=1.0, hint=", such as 0.95")
    return float(value)


def check_choice(label: str, value: Any, choices: Iterable[Any], hint: str = "") -> None:
    """Refuse what is none of a few values.

    :param hint: what else there is, in the sentence.
    """
    known = [str(choice) for choice in choices]
    if isinstance(value, str) and value in known:
        return
    near = spelt_like(value, known) if isinstance(value, str) else None
    guess = f"did you mean {near}? Otherwise " if near else ""
    raise ValueError(
        f"{label} is {shortened(value)}; {guess}choose from {listing(known) or 'none'}{hint}."
    )


def check_kind(label: str, value: Any, kind: Any, hint: str) -> None:
    """Refuse what is no such object; `hint` says what to give."""
    if not isinstance(value, kind):
        raise ValueError(f"{label} is of type {type(value).__name__}; give {hint}.")


def check_shape(label: str, array: Any, *lengths: int | str, hint: str = "") -> None:
    """Refuse an array of another shape.

    :param lengths: of its axes, a letter for any but 0.
    :param hint: what the sentence ends with.
    """
    found = np.shape(array)
    if len(found) != len(lengths) or not all(
        size > 0 if isinstance(wanted, str) else size == wanted
        for size, wanted in zip(found, lengths, strict=True)
    ):
        wanted = f"({', '.join(map(str, lengths))}{',' * (len(lengths) == 1)})"
        raise ValueError(f"{label} has shape {found}; give {wanted}{hint}.")


def one_each(label: str, values: Any, count: int) -> npt.NDArray[Any]:
    """(count,), a value that is given once being that of all."""
    given = np.asarray(values)
    if given.ndim:
        check_shape(label, given, count, hint=", or one for all")
    return np.broadcast_to(given, (count,))


def numbers(label: str, values: Any, hint: str = "") -> FloatArray:
    """An array of numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{label} is {shortened(values)}; give numbers{hint}.") from None


def as_numbers(label: str, values: Any, *lengths: int | str, hint: str = "") -> FloatArray:
    """Finite numbers of a shape, as `check_shape` takes it."""
    array = numbers(label, values, hint)
    check_shape(label, array, *lengths, hint=hint)
    check_finite(label, array)
    return array


def check_finite(label: str, array: Any) -> None:
    """Refuse numbers that are not finite."""
    values = np.asarray(array)
    for place in np.argwhere(~np.isfinite(values))[:1]:
        where = ", ".join(map(str, place))
        raise ValueError(f"{label} has {values[tuple(place)]} at {where}; give finite numbers.")


def check_inducing_count(count: int, distinct: int) -> None:
    """Of inducing inputs, among so many distinct items."""
    check_number("The number of inducing inputs", count, least=1, whole=True)
    if count > distinct:
        raise ValueError(
            f"{count} inducing inputs are more than the {distinct} distinct items; "
            f"use at most {distinct}, or Exact()."
        )


class Mistakes:
    """What is wrong with a table, told all at once."""

    most = 5

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def add(self, sentences: str) -> None:
        """One more in each line, unless it is there already."""
        new = [sentence for sentence in sentences.split("\n") if sentence not in self.sentences]
        self.sentences += new

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A mistake in here is kept, and what comes after it is done."""
        try:
            yield
        except ValueError as error:
            self.add(str(error))

    def stop(self) -> None:
        """:raises ValueError: there are some; a line each, at most five."""
        if not self.sentences:
            return
        shown, more = self.sentences[: self.most], len(self.sentences) - self.most
        rest = [f"And {counted(more, 'more mistake')}."] if more > 0 else []
        raise ValueError("\n".join([*shown, *rest]))
