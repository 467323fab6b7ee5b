"""Where learning of tastes begins."""

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.learning.tastes import STARTS
from tests.together import refused

ITEMS = np.linspace(-1.5, 1.5, 6)[:, None]


def votes(strong):
    """Fifteen people, whose duels go by what all prefer, or by what each one does."""
    rng = np.random.default_rng(0)
    won, lost, who = [], [], []
    for person in range(15):
        utility = (20.0 if strong else 0.0) * rng.normal(size=6) + 2.0 * ITEMS[:, 0]
        for pair in rng.permuted(np.tile(np.arange(6), (10, 1)), axis=1)[:, :2]:
            a, b = pair if np.diff(utility[pair])[0] + rng.normal() < 0.0 else pair[::-1]
            won, lost, who = [*won, a], [*lost, b], [*who, person]
    return spg.Duels(ITEMS, won, lost, people=who)


@pytest.mark.covering("False")
@pytest.mark.parametrize("strong", [False, True])
def test_the_better_start(strong):
    kernels = [gpflow.kernels.SquaredExponential() + spg.ItemEffect() for _ in range(2)]
    gpflow.set_trainable(kernels[1].kernels[0].lengthscales, False)
    model = spg.PreferenceGP(
        votes(strong), kernels[0], terms=[spg.Taste(kernels[1])], noise_variance=1.0
    )
    spg.default_priors(model)
    engine = model.engine
    assert spg.begin_tastes(model) == ("strong" if strong else "weak")
    start = STARTS["strong"] if strong else STARTS["weak"]
    for kernel, name in zip(kernels, ("kernel", "taste"), strict=True):
        found = [part.variance.numpy() for part in kernel.kernels]
        np.testing.assert_allclose(found, np.multiply(2.0, start[name]))  # 2 sigma² is 2
    assert model.engine == engine
    # The prior alone is largest at a standard deviation of that of the noise, √2, over √2 terms.
    parameter = model.terms.taste.kernels[0].variance
    densities = []
    for value in (0.8, 1.0, 1.2):
        parameter.assign(value)
        densities.append(float(parameter.log_prior_density()))
    assert np.argmax(densities) == 1


def test_one_utility_has_no_tastes_to_begin():
    plain = spg.PreferenceGP(spg.Duels(ITEMS, [0], [1]), gpflow.kernels.Matern52())
    with refused("one_utility", "people"):
        spg.begin_tastes(plain)
