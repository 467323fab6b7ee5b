"""Which pictures a fit gets, and the files they become."""

import threading
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.ranking import rank
from sparse_prefgp.analysis.scoring import HeldOut, Scored
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.workflow.pictures import write_pictures
from tests.cases import random_duels

PNG = b"\x89PNG\r\n\x1a\n"


def fitted(features, approximation):
    duels = random_duels(features, items=12, duels=40, features=features)
    inducing = duels.items[:4].copy() if approximation.needs_inducing else None
    return spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(),
        approximation=approximation,
        inducing_variable=inducing,
    )


@pytest.fixture(scope="module")
def flat():
    return fitted(2, spg.VFE())


def names(pictures):
    return [picture.name for picture in pictures]


def test_everything_that_applies(tmp_path, flat):
    rows = np.arange(3)
    logs = {"model": np.log([0.7, 0.6, 0.9])}
    held_out = HeldOut({"duels": Scored("duels", logs, 0 * rows, np.array([1, 2, 1]), rows)})
    pictures = write_pictures(
        tmp_path / "new" / "pictures", flat, rank(flat), report=[-30.0, -29.0], held_out=held_out
    )
    assert names(pictures) == [
        "reliability",
        "utilities",
        "relevance",
        "utility_2d",
        "utility_2d_sd",
        "probability_to_beat",
        "evidence",
        "inducing_inputs",
    ]
    for picture in pictures:
        data = picture.source.read_bytes()
        assert data.startswith(PNG) and b"Software" not in data
        assert int.from_bytes(data[16:20], "big") == 1050  # 7 inches at 150 dots each
        assert picture.title and picture.caption.endswith(".")
    files = {path.stem for path in (tmp_path / "new" / "pictures").iterdir()}
    assert files == {picture.name for picture in pictures}


def test_nothing_held_out_no_inducing_inputs_one_feature(tmp_path):
    model = fitted(1, spg.Exact())
    pictures = write_pictures(tmp_path, model, rank(model))
    assert names(pictures) == ["utilities", "relevance", "utility_1d", "probability_to_beat"]


def test_inducing_inputs_that_are_all_items_are_not_drawn(tmp_path, flat):
    duels = flat.duels
    model = spg.PreferenceGP(
        duels,
        flat.kernel,
        approximation=spg.VFE(),
        inducing_variable=np.unique(duels.items, axis=0),
    )
    assert "inducing_inputs" not in names(write_pictures(tmp_path, model, None))


def test_features_that_move_nothing_are_not_drawn(tmp_path):
    model = spg.PreferenceGP(random_duels(1, items=6, duels=20, features=1), spg.ItemEffect())
    assert names(write_pictures(tmp_path, model, rank(model))) == ["utilities"]


@pytest.mark.parametrize("leaning", [False, True])
@pytest.mark.covering(every=2)
def test_coefficients_of_covariates(tmp_path, leaning):
    rng = np.random.default_rng(3)
    first = rng.choice([-1.0, 1.0], (40, 1))
    more = {"labels": {"judge": ["Ann", "\U000e0001"] * 20}} if leaning else {}
    duels = spg.Duels(
        rng.normal(size=(5, 1)),
        np.arange(40) % 4,
        1 + np.arange(40) % 4,
        covariates=first,
        covariate_names=["shown_first"],
        **more,
    )
    model = spg.PreferenceGP(duels, gpflow.kernels.Linear(), terms=[spg.Lean()] if leaning else [])
    captions = {f"{p.name}.png": p.caption for p in write_pictures(tmp_path, model, None)}
    assert (tmp_path / "coefficients.png").read_bytes().startswith(PNG)
    assert ("how the labels in judge lean" in captions["coefficients.png"]) == leaning
    assert ("□ stands for" in captions["coefficients.png"]) == leaning


def test_no_surface_over_the_levels_of_a_column(tmp_path, flat):
    levels = np.repeat(np.eye(2), 3, axis=0)
    transform = FeatureTransform((), (), (), ("colour",), (("red", "blue"),))
    duels = spg.Duels(
        levels, [0, 1, 2], [3, 4, 5], feature_names=transform.feature_names, transform=transform
    )
    model = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential())
    assert names(write_pictures(tmp_path, model, rank(model))) == ["utilities", "relevance"]


def test_the_best_item_is_the_one_ranked_first_whatever_the_order(tmp_path, flat, monkeypatch):
    from sparse_prefgp import plotting

    asked = []
    draw = plotting.probability_to_beat
    monkeypatch.setattr(
        plotting, "probability_to_beat", lambda model, item: asked.append(item) or draw(model, item)
    )
    frame = rank(flat).frame.iloc[::-1]
    write_pictures(tmp_path, flat, frame)
    assert asked == [frame["item_id"].iloc[-1]]


def test_characters_without_a_font_are_said(tmp_path, flat):
    frame = rank(flat).frame
    frame["item_id"] = ["\U000e0001 tag", *range(1, len(frame))]
    duels = flat.duels
    ids = [*frame["item_id"]]
    model = spg.PreferenceGP(
        spg.Duels(
            np.column_stack([duels.items, duels.items[:, :1]]),
            [str(ids[i]) for i in duels.winners],
            [str(ids[i]) for i in duels.losers],
            item_ids=[str(i) for i in ids],
        ),
        gpflow.kernels.SquaredExponential(),
    )
    captions = {f"{p.name}.png": p.caption for p in write_pictures(tmp_path, model, frame)}
    assert "□ stands for" in captions["utilities.png"]
    assert "□" not in captions["relevance.png"]


@pytest.mark.slow
def test_same_bytes_in_any_thread(tmp_path, flat):
    ranking = rank(flat)
    flat.infer()
    folders = [tmp_path / f"{i}" for i in range(2)]
    threads = [
        threading.Thread(target=write_pictures, args=(folder, flat, ranking)) for folder in folders
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders)
    assert first == second and len(first) >= 5


@pytest.mark.slow
def test_items_in_states_are_drawn(tmp_path: Path) -> None:
    """A long table whose items change from set to set has a feature, and no one row an item."""
    rng = np.random.default_rng(0)
    rows = [
        (s, f"i{j}", place, int(place == 0))
        for s in range(20)
        for place, j in enumerate(rng.choice(6, 3, replace=False))
    ]
    table = pd.DataFrame(rows, columns=["choice_set", "item_id", "place", "chosen"])
    fitted = spg.fit(choices=table, max_iterations=2, test_fraction=0, out=tmp_path / "out")
    assert "not_written" not in fitted.figures
    assert (tmp_path / "out" / "pictures" / "utility_1d.png").is_file()
