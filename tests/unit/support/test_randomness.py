"""Generators as people give them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sparse_prefgp.support.randomness import generator, seed_of, seeded


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda: generator(3), r"rng is 3; give a generator, such as np\.random\.default_rng\(0\)"),
        (lambda: seeded(-1), "seed is -1; give a whole number, at least 0"),
        (lambda: seeded(1.5), "seed is 1.5"),
    ],
)
def test_what_is_no_generator_is_refused(asked: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asked()


@pytest.mark.parametrize("seed", [0, 7, 2**70])
def test_a_fresh_generator_stands_for_its_seed_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert seed_of(rng) == seed
    assert len({seed, seed_of(rng), seed_of(rng)}) == 3
    child = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
    assert seed_of(child) != seed


def test_seeds_of_other_generators_are_drawn() -> None:
    rng = np.random.Generator(np.random.MT19937(5))
    assert 0 <= seed_of(rng) < 2**63
    assert seed_of(None) == 0 == seed_of(seeded(0))
    unseeded = np.random.default_rng()
    assert seed_of(unseeded) != seed_of(unseeded)
