"""Generators of random numbers, as people give them."""

from __future__ import annotations

from typing import Any, ParamSpec, TypeVar

import numpy as np

from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.words import shortened

P = ParamSpec("P")
R = TypeVar("R")


def seeded(seed: Any) -> np.random.Generator:
    """A generator that a seed begins.

    :raises ValueError: no whole number of at least 0.
    """
    return np.random.default_rng(whole_number("seed", seed, 0))


def generator(rng: Any) -> np.random.Generator:
    """What was given for `rng`; None is a generator begun by seed 0.

    :raises ValueError: something else.
    """
    if rng is None:
        return np.random.default_rng(0)
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng is {shortened(rng)}; give a generator, such as np.random.default_rng(0)."
        )
    return rng


def seed_of(rng: Any) -> int:
    """A number that stands for what a generator would draw, where several must begin alike.

    A generator that nothing was drawn from gives its own seed, any other one a number it draws;
    either way the next call gives another number.
    """
    rng = generator(rng)
    entropy: Any = getattr(rng.bit_generator.seed_seq, "entropy", None)
    fresh = (
        isinstance(entropy, int)
        and rng.bit_generator.state == np.random.default_rng(entropy).bit_generator.state
    )
    drawn = int(rng.integers(2**63))
    return int(entropy) if fresh else drawn
