"""Fixtures shared by the tests of units."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with items.csv (14 items, two features) and duels.csv (90 duels)."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(14, 2))
    rows = [f"i{i},{a:.6f},{b:.6f}" for i, (a, b) in enumerate(x)]
    (folder / "items.csv").write_text("item_id,a,b\n" + "\n".join(rows) + "\n")
    pairs = rng.permuted(np.tile(np.arange(14), (90, 1)), axis=1)[:, :2]
    order = np.argsort(np.sin(x[:, 0])[pairs] + 0.5 * rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    duels = [f"i{w},i{loser}" for w, loser in zip(winners, losers, strict=True)]
    (folder / "duels.csv").write_text("winner,loser\n" + "\n".join(duels) + "\n")
    return folder
