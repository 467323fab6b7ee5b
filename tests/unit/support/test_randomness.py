"""Generators as people give them, and the seeds that functions took before."""

from __future__ import annotations

import numpy as np
import pytest

from sparse_prefgp.support.randomness import generator, seed_of, seeded, takes_seed


@takes_seed
def drawn(count: int, *, rng: np.random.Generator | None = None) -> list[float]:
    return generator(rng).random(count).tolist()


def test_a_seed_gives_the_numbers_that_it_gave_and_warns() -> None:
    expected = np.random.default_rng(3).random(2).tolist()
    assert drawn(2, rng=np.random.default_rng(3)) == expected
    with pytest.warns(DeprecationWarning, match=r"give rng=np\.random\.default_rng\(3\)"):
        assert drawn(2, seed=3) == expected
    with pytest.warns(DeprecationWarning, match="rng=the generator"):
        assert drawn(2, seed=np.random.default_rng(3)) == expected
    assert drawn(2) == drawn(2, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rng": 3}, r"rng is 3; give a generator, such as np\.random\.default_rng\(0\)"),
        ({"seed": -1}, "seed is -1; give a whole number, at least 0"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"seed": 1, "rng": np.random.default_rng(1)}, "both given; give rng alone"),
    ],
)
def test_what_is_no_generator_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(1, **given)


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
