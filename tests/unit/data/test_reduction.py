"""Directions of many columns, against a whole decomposition."""

import json

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.data import reduction, vectors
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.reduction import Reduction
from sparse_prefgp.data.vectors import VectorRows
from sparse_prefgp.support import machine
from tests.reference.slow_reduction import reduced
from tests.tolerances import ROUNDING

# Scores are rounded to single precision.
SINGLE = 1e-6


def made(n, width, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    sizes = np.geomspace(1.0, spread, width)
    wide = rng.normal(size=(n, 6)) @ rng.normal(size=(6, width)) + rng.normal(size=(n, width))
    return (3.0 + wide * sizes).astype(np.float32)


@pytest.mark.parametrize("kind", ["a column each", "falling sizes", "scores"])
@pytest.mark.parametrize(("n", "width"), [(400, 30), (60, 90)], ids=["by columns", "by rows"])
def test_directions_are_those_of_a_whole_decomposition(n, width, kind):
    spread = 0.03 if kind == "falling sizes" else 3.0
    training, new = made(n, width, spread=spread), made(17, width, 1, spread)
    if kind == "scores":
        turn = np.linalg.svd(training - training.mean(0), full_matrices=False)[2].T[:, : n // 2]
        training, new = ((x @ turn) * np.linspace(1.0, 0.4, turn.shape[1]) for x in (training, new))
        training, new = training.astype(np.float32), new.astype(np.float32)
    transform = FeatureTransform.fit({"v": training}, [], vectors=["v"])
    both = np.concatenate([training, new])
    expected, explained = reduced(training.astype(float), both.astype(float), [slice(None)])
    found = transform.apply({"v": both})
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=SINGLE * np.abs(expected).max())
    assert transform.reduction.explained == pytest.approx(explained, rel=ROUNDING)
    np.testing.assert_allclose(found[:n].var(0).mean(), 1.0, rtol=SINGLE)
    size = min(training.shape[1], n // 8)
    assert transform.feature_names == tuple(f"pc_{j + 1}" for j in range(size))
    assert (len(set(transform.reduction.scale)) == 1) == (kind != "a column each")


def test_very_many_numbers_go_with_a_vector_and_few_stay():
    rng, matrix = np.random.default_rng(0), made(900, 12)
    numbers = rng.normal(size=(900, 66)) @ rng.normal(size=(66, 66)) + 5.0
    names = [f"x{j}" for j in range(66)]
    frame = {**dict(zip(names, numbers.T, strict=True)), "v": matrix}
    found = FeatureTransform.fit(frame, names, vectors=["v"])
    assert [block.kind for block in found.blocks] == 66 * ["numbers"] + ["vector"]
    wide = np.column_stack([(numbers - numbers.mean(0)) / numbers.std(0), matrix])
    expected, _ = reduced(wide, wide, [slice(66, None)])
    np.testing.assert_allclose(found.apply(frame), expected, atol=SINGLE * np.abs(expected).max())
    few = FeatureTransform.fit(frame, names[:64], vectors=["v"])
    alone = FeatureTransform.fit(frame, [], vectors=["v"])
    assert few.numeric == tuple(names[:64]) and few.reduction == alone.reduction
    assert np.array_equal(few.apply(frame)[:, 64:], alone.apply(frame))


def test_products_of_very_many_columns_are_in_single_precision(monkeypatch):
    matrix = made(400, 30)
    exact = FeatureTransform.fit({"v": matrix}, [], vectors=["v"])
    monkeypatch.setattr(reduction, "_DOUBLE", 20)
    single = FeatureTransform.fit({"v": matrix}, [], vectors=["v"])
    found = [one.reduction.variances for one in (single, exact)]
    np.testing.assert_allclose(*found, rtol=0.0, atol=SINGLE * found[1].max())
    assert not np.array_equal(*found)


def test_chunks_change_nothing(monkeypatch):
    matrix = made(90, 20)
    whole = FeatureTransform.fit({"v": matrix}, [], vectors=["v"])
    for module in (reduction, vectors):
        monkeypatch.setattr(module, "rows_at_a_time", lambda width: 7)
    parts = FeatureTransform.fit({"v": matrix}, [], vectors=["v"])
    for name, array in whole.arrays().items():
        np.testing.assert_allclose(parts.arrays()[name], array, rtol=1e-9, atol=1e-9)
    assert np.array_equal(parts.apply({"v": matrix}), whole.apply({"v": matrix}))


def test_rows_of_a_file_are_taken_without_a_copy(tmp_path):
    matrix = made(90, 20)
    np.save(tmp_path / "v.npy", matrix)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    order = np.random.default_rng(0).permutation(90)[:50]
    rows = VectorRows(mapped).select(order)
    assert rows.matrix is mapped and np.array_equal(rows.chunk(3, 9), matrix[order[3:9]])
    found = FeatureTransform.fit({"v": rows}, [], vectors=["v"])
    assert found == FeatureTransform.fit({"v": matrix[order]}, [], vectors=["v"])


def test_half_precision_is_computed_in_single():
    half = made(90, 20).astype(np.float16)
    fits = [FeatureTransform.fit({"v": half.astype(t)}, [], vectors=["v"]) for t in ("f2", "f4")]
    assert fits[0] == fits[1]


def test_more_than_64_features_are_reduced_but_those_apart():
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(64)]
    frame = {name: rng.normal(size=200) for name in [*names, "y", "z"]}
    frame["colour"] = rng.choice(["red", "blue"], 200)
    assert FeatureTransform.fit(frame, names).reduction is None
    found = FeatureTransform.fit(frame, [*names, "y", "z"], ["colour"], apart=["y", "colour"])
    assert found.feature_names[:3] == ("y", "colour=blue", "colour=red")
    assert found.feature_names[3:] == tuple(f"pc_{j + 1}" for j in range(25))
    assert [block.name for block in found.blocks] == [*names, "z"]
    plain = FeatureTransform.fit(frame, ["y"], ["colour"])
    assert np.array_equal(found.apply(frame)[:, :3], plain.apply(frame))
    assert FeatureTransform.fit(frame, [*names, "y"], apart=["y"]).reduction is None


def test_constant_dead_and_repeated_columns_have_no_part():
    matrix = made(200, 20)
    matrix[:, 7] = 1e-6 * matrix[:, 7] - 1e-6 * matrix[:, 7].mean()
    matrix[:, 3] = 7.0
    matrix[:, 5] = matrix[:, 4]
    found = FeatureTransform.fit({"v": matrix}, [], vectors=["v"])
    assert found.reduction.size == 17  # of 25 allowed
    other = matrix.copy()
    other[:, [3, 7]] = -1.0
    assert np.array_equal(found.apply({"v": other}), found.apply({"v": matrix}))
    shares = found.reduction.shares()
    assert shares["v"] == pytest.approx(1.0, rel=ROUNDING)
    with pytest.raises(ValueError, match="constant over the training items"):
        FeatureTransform.fit({"v": np.ones((90, 3))}, [], vectors=["v"])


def test_parts_of_blocks_add_up():
    frame = {"v": made(300, 9), "w": made(300, 5)}
    found = FeatureTransform.fit(frame, [], vectors=["v", "w"]).reduction
    parts = found.projectors()
    assert list(parts) == ["v", "w"]
    np.testing.assert_allclose(sum(parts.values()), np.eye(found.size), atol=1e-12)


def test_written_and_read_again():
    frame = {"a": np.random.default_rng(0).normal(size=300), "v": made(300, 9)}
    found = FeatureTransform.fit(frame, ["a"], vectors=["v"])
    again = FeatureTransform.from_dict(json.loads(json.dumps(found.to_dict())), found.arrays())
    assert again == found and hash(again) == hash(found)
    assert np.array_equal(again.apply(frame), found.apply(frame))
    assert found != FeatureTransform.fit({**frame, "v": made(300, 9, 1)}, ["a"], vectors=["v"])


def test_convert_takes_only_what_was_reduced_alike():
    frame = {"a": np.random.default_rng(0).normal(size=300), "v": made(300, 9)}
    found = FeatureTransform.fit(frame, ["a"], vectors=["v"])
    other = FeatureTransform.fit({**frame, "v": made(300, 9, 1)}, ["a"], vectors=["v"])
    features = found.apply(frame)
    assert found.convert(features, found) is features
    with pytest.raises(ValueError, match="not reduced to the same"):
        found.convert(features, other)
    assert np.array_equal(
        FeatureTransform.fit(frame, ["a"]).convert(features, other)[:, 0], found.apply(frame)[:, 0]
    )
    many = {f"x{j}": made(300, 1, j)[:, 0] for j in range(70)}
    wide = FeatureTransform.fit(many, list(many))
    with pytest.raises(ValueError, match="reduced it along with others"):
        FeatureTransform.fit(many, ["x3"]).convert(wide.apply(many), wide)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (np.ones((2, 8)), "'v' have 8 numbers, but the model was fitted to 9"),
        (np.full((2, 9), np.nan), r"missing value \(NaN\) in row 0"),
        (np.full((2, 9), np.inf), "inf in row 0"),
        (np.full((2, 9), 1e300), "1e.300, too large for single precision in row 0"),
        (pd.Series([[1.0] * 9, [1.0] * 8]), "8 numbers in row 1"),
        (pd.Series([[1.0] * 9, None]), "no vector in row 1"),
        (pd.Series([[1.0] * 9, "text"]), "'text', no vector of numbers, in row 1"),
    ],
)
def test_bad_vectors_of_new_items(new, words):
    found = FeatureTransform.fit({"v": made(90, 9)}, [], vectors=["v"])
    with pytest.raises(ValueError, match=words):
        found.apply({"v": new})
    with pytest.raises(ValueError, match="have no vectors 'v'"):
        found.apply({"w": new})


def test_memory_is_said_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(reduction, "_MUCH", 1000)
    with pytest.warns(UserWarning, match="Reductions of 30 columns take some"):
        Reduction.fit([VectorRows(made(90, 30))], [reduction.InputBlock("v", "vector", 30)], str)
    monkeypatch.setattr(machine, "ASKED_ABOVE", 0)
    monkeypatch.setattr(machine, "free_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="are free; give shorter vectors"):
        FeatureTransform.fit({"v": made(90, 30)}, [], vectors=["v"])


def test_directions_before_a_gap():
    rng = np.random.default_rng(0)
    block = [reduction.InputBlock("v", "vector", 256)]
    noise = rng.normal(size=(2000, 256))
    signal = rng.normal(size=(2000, 6)) @ rng.normal(size=(6, 256))
    clear = Reduction.fit([VectorRows(signal + 0.5 * noise)], block, str)
    assert clear.size == 128 and clear.before_gap() == clear.before_gap(4) == 6
    assert clear.before_gap(7) == 128
    smooth = noise @ np.diag(np.arange(1.0, 257.0) ** -0.5)
    assert Reduction.fit([VectorRows(smooth)], block, str).before_gap() == 128
