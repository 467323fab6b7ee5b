"""What a fit chooses by itself, by how many features there are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.workflow.automatic import automatic_candidates, settled
from sparse_prefgp.workflow.settings import FitSettings


def table(
    width: int, items: int = 80, duels: int = 200, vector: bool = False, factors: int = 0
) -> spg.io.DuelTable:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(items, width))
    if factors:
        x = 0.1 * x + rng.normal(size=(items, factors)) @ rng.normal(size=(factors, width))
    columns = {"v": list(x)} if vector else {f"x{j}": x[:, j] for j in range(width)}
    ids = [f"i{k}" for k in range(items)]
    pairs = np.array([rng.choice(items, 2, replace=False) for _ in range(duels)])
    said = pd.DataFrame(np.array(ids)[pairs], columns=["winner", "loser"])
    return spg.read_table(pd.DataFrame({"item_id": ids, **columns}), said)


@pytest.mark.parametrize(
    ("width", "vector", "kernel"),
    [
        (16, False, None),
        (17, False, "linear+iso(matern52)"),
        (64, False, "linear+iso(matern52)"),
        (65, False, "auto"),
        (3, True, "auto"),
    ],
)
def test_the_kernel_of_a_fit_goes_by_the_features(
    width: int, vector: bool, kernel: str | None
) -> None:
    assert settled(table(width, vector=vector), FitSettings()).kernel == kernel
    assert settled(table(width, vector=vector), FitSettings(kernel="se")).kernel == "se"


def test_the_kernel_for_vectors_needs_no_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(3, vector=True)
    monkeypatch.setattr(spg.io.DuelTable, "transform_of", None)  # takes seconds for large vectors
    assert settled(made, FitSettings()).kernel == "auto"


def test_streams_of_many_features_have_one_lengthscale() -> None:
    settings = FitSettings(stream=True)
    assert settled(table(100, vector=True), settings).kernel == "linear+iso(matern52)"
    assert settled(table(5), settings).kernel is None


def names(made: spg.io.DuelTable, **options: str) -> list[str]:
    return [str(candidate) for candidate in automatic_candidates(made, **options)]


def test_candidates_of_reduced_features() -> None:
    assert names(table(100, vector=True)) == [
        "linear/vfe",
        "iso(matern52)/prior-power:0.5",
        "projected(matern52, 4)/vfe",
    ]
    assert names(table(100, 80, 900, vector=True, factors=6))[2] == (
        "projected(matern52, 4, 6)+item/vfe"
    )
    assert names(table(2, vector=True))[2] == "projected(matern52, 2)/vfe"
    assert names(table(100, vector=True), approximation="fitc")[1] == "iso(matern52)/fitc"


def test_candidates_of_many_features_have_one_lengthscale() -> None:
    found = names(table(20, items=400))
    assert "linear+iso(matern52)/exact" in found
    assert not any("additive" in name or "+matern52" in name for name in found)


@pytest.mark.slow
def test_a_fit_of_vectors_chooses_on_held_out_items() -> None:
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=(300, 3))
    vectors = hidden @ rng.normal(size=(3, 80)) + 0.1 * rng.normal(size=(300, 80))
    utility = 2.0 * np.sin(2.0 * hidden[:, 0])
    pairs = np.array([rng.choice(300, 2, replace=False) for _ in range(3000)])
    ahead = utility[pairs[:, 0]] - utility[pairs[:, 1]] + rng.normal(size=3000) > 0.0
    duels = np.where(ahead[:, None], pairs, pairs[:, ::-1])
    items = pd.DataFrame({"item_id": range(300), "v": list(vectors)})
    found = spg.fit(
        items, pd.DataFrame(duels, columns=["winner", "loser"]), split="items", max_iterations=30
    )
    chosen = found.figures["automatic"]
    assert "over 240 items" in chosen["description"]
    assert found.settings.kernel.startswith("projected(matern52")
    scores = found.figures["held_out"]
    assert scores["model"]["nlp_nats"] < scores["linear_probit"]["nlp_nats"] - 0.05
    assert all(one["reliability"] for one in chosen["candidates"])
