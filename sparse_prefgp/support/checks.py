"""Checks of the numbers that people give."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np

from sparse_prefgp.support.words import shortened


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


def whole_number(label: str, value: Any, least: int) -> int:
    """A whole number of at least `least`.

    :raises ValueError: anything else; `label` names it.
    """
    number = is_number(value) and float(value).is_integer()
    if not number or value < least:
        raise ValueError(f"{label} is {shortened(value)}; give a whole number of at least {least}.")
    return int(value)


def level_of_interval(value: Any) -> float:
    """The share that an interval holds, strictly between 0 and 1.

    :raises ValueError: anything else.
    """
    if not is_number(value) or not 0.0 < value < 1.0:
        raise ValueError(
            f"level is {shortened(value)}; give a number between 0 and 1, such as 0.95."
        )
    return float(value)


def check_least_gain(value: float | None) -> None:
    """Refuse a least gain of ten iterations that is neither None nor positive and finite.

    :raises ValueError: it is not.
    """
    if value is not None and not (is_number(value) and value > 0.0 and math.isfinite(value)):
        raise ValueError(
            f"The least gain of ten iterations is {value!r}; give a positive number of nats per "
            "duel, such as 1e-5, or none to continue to the optimum (None; on the command line 0)."
        )


def check_noise_variance(value: float) -> None:
    """Refuse a noise variance that is not positive and finite.

    :raises ValueError: it is not.
    """
    if not (value > 0.0 and math.isfinite(value)):
        raise ValueError(
            f"The noise variance is {value}; give a positive number (0.5 is the standard probit "
            "scale)."
        )
