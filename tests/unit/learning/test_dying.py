"""Terms of a kernel that die next to a linear one with many variances."""

from __future__ import annotations

from pathlib import Path

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.learning.dying import death_in


def bent_duels(width: int, items: int, duels: int) -> tuple[spg.Duels, spg.Duels]:
    """Items on 16 hidden directions, utilities that bend along three of them; some duels between
    other items."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(2 * items, 16))
    x = hidden @ rng.normal(size=(16, width)) / 4 + 0.3 * rng.normal(size=(2 * items, width))
    x = (x - x[:items].mean(0)) / x[:items].std(0)
    utility = np.tanh(1.5 * hidden[:, 0]) + 0.5 * hidden[:, 1] * hidden[:, 2] + 0.5 * hidden[:, 3]
    made = []
    for first in (0, items):
        pairs = rng.integers(first, first + items, size=(duels, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        noisy = utility[pairs] + 0.7 * rng.normal(size=pairs.shape)
        winners = np.where(noisy[:, 0] > noisy[:, 1], *pairs.T)
        made.append(spg.Duels(x, winners, pairs.sum(1) - winners))
    return made[0], made[1]


def collapsing(duels: spg.Duels, inducing: int, approximation: object) -> spg.PreferenceGP:
    width = duels.num_features
    kernel = gpflow.kernels.Linear(variance=np.full(width, 1 / width)) + gpflow.kernels.Matern52(
        lengthscales=np.full(width, np.sqrt(width))
    )
    rows = duels.items[: duels.num_items // 2]
    z = spg.kmeans_inputs(rows, inducing, np.random.default_rng(0))
    return spg.PreferenceGP(duels, kernel, approximation=approximation, inducing_variable=z)


@pytest.mark.slow
def test_a_worse_restart_is_told_and_not_kept() -> None:
    duels, _ = bent_duels(40, 300, 1600)
    model = collapsing(duels, 20, spg.VFE())
    with pytest.warns(UserWarning, match=r"of 40 features.*worse by .* the first result is kept"):
        report = spg.optimise(model, 40)
    assert report.kept == 0 and len(report.starts) == 2
    assert report.starts[1].log_evidence < report.starts[0].log_evidence
    assert report.restarted in str(report) and report.figures()["restarted"] == report.restarted
    assert float(model.kernel.kernels[1].variance.numpy()) < 1e-6


@pytest.mark.slow
def test_a_restart_without_the_linear_term_finds_the_better_optimum() -> None:
    duels, new = bent_duels(256, 4000, 16_000)
    model = collapsing(duels, 128, spg.VFE())
    with pytest.warns(UserWarning, match=r"better by .* and is kept"):
        report = spg.optimise(model, 25)
    assert report.kept == 1
    assert float(model.kernel.kernels[1].variance.numpy()) > 0.01
    assert np.all(model.kernel.kernels[0].variance.numpy() < 1e-6)
    p = model.predict_duel(new.items[new.winners], new.items[new.losers])
    assert -np.mean(np.log(p)) < 0.47, "0.497 at the other optimum"


def test_nothing_dies_where_nothing_is_paid_for_or_features_are_few() -> None:
    duels, _ = bent_duels(20, 60, 100)
    few, _ = bent_duels(16, 60, 100)
    for asked, approximation in ((duels, spg.FITC()), (duels, spg.Exact()), (few, spg.VFE())):
        kernel = gpflow.kernels.Linear() + gpflow.kernels.Matern52(variance=1e-9)
        assert death_in(spg.PreferenceGP(asked, kernel, approximation=approximation)) is None
    for variance, width in ((np.ones(20), 20), (1.0, 20)):
        dead = gpflow.kernels.Linear(variance=variance) + gpflow.kernels.Matern52(variance=1e-9)
        found = death_in(spg.PreferenceGP(duels, dead, approximation=spg.VFE()))
        assert found is not None and found.died == ("Matern52",) and found.width == width
    gpflow.set_trainable(dead.kernels[1], False)
    assert death_in(spg.PreferenceGP(duels, dead, approximation=spg.VFE())) is None


@pytest.mark.slow
@pytest.mark.parametrize("gradients", ["chunks", "subset"])
def test_of_duels_in_chunks_it_is_said(tmp_path: Path, gradients: str) -> None:
    duels, _ = bent_duels(17, 30, 60)
    items = pd.DataFrame(duels.items).rename(columns=str).assign(item_id=range(duels.num_items))
    table = pd.DataFrame({"winner": duels.winners, "loser": duels.losers})
    table.to_parquet(tmp_path / "duels.parquet", index=False)
    kernel = gpflow.kernels.Linear(variance=np.ones(17)) + gpflow.kernels.Matern52(variance=1e-9)
    stream = spg.stream_duels(tmp_path / "duels.parquet", items)
    model = spg.StreamedGP(stream, kernel, approximation=spg.VFE())
    with pytest.warns(UserWarning, match="ended below 0.0001 .* of 17 features.*compare"):
        report = spg.optimise(model, 1, gradients=gradients)
    assert any("ended below" in sentence for sentence in report.limits)
    assert not report.restarted
