"""Vectors of items: list columns, arrays and NumPy files."""

import re

import numpy as np
import pandas as pd
import pytest

from sparse_prefgp.data.vectors import vector_rows
from sparse_prefgp.io import (
    read_choices,
    read_duels,
    read_items,
    stream_duels,
)
from sparse_prefgp.io.vectors import with_embedding
from tests.unit.data.test_reduction import made

N, WIDTH = 40, 6
IDS = [f"i{k}" for k in range(N)]
VECTORS = made(N, WIDTH)
ITEMS = pd.DataFrame({"item_id": IDS, "price": np.linspace(0.0, 1.0, N) ** 2})
DUELS = pd.DataFrame({"winner": IDS[1:], "loser": IDS[:-1]})


@pytest.fixture
def expected():
    return read_duels(ITEMS.assign(e=list(VECTORS)), DUELS)


def write_npz(path, ids, **arrays):
    np.savez(path, ids=ids, **arrays)
    return path


@pytest.mark.parametrize("kind", ["lists", "large", "fixed", "halves"])
def test_list_columns_are_found(kind, tmp_path, expected):
    pa = pytest.importorskip("pyarrow")
    lists = {
        "lists": pa.array(VECTORS.tolist(), pa.list_(pa.float64())),
        "large": pa.array(VECTORS.tolist(), pa.large_list(pa.float32())),
        "fixed": pa.array(VECTORS.tolist(), pa.list_(pa.float32(), WIDTH)),
        "halves": pa.array([list(v) for v in VECTORS.astype("f2")], pa.list_(pa.float16())),
    }[kind]
    table = pa.table({"item_id": IDS, "e": lists, "price": ITEMS["price"]})
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(table, tmp_path / "i.parquet")
    found = read_duels(tmp_path / "i.parquet", DUELS)
    if kind != "halves":
        assert np.array_equal(found.items, expected.items)
    assert found.feature_names == expected.feature_names
    assert np.array_equal(read_items(tmp_path / "i.parquet", found), found.items)


def test_arrays_and_files_are_the_same_as_a_column(tmp_path, expected):
    np.save(tmp_path / "e.npy", VECTORS)
    order = np.random.default_rng(0).permutation(N)
    extra = np.concatenate([VECTORS[order], VECTORS[:1] + 9.0])
    ids = [*np.array(IDS)[order], "nobody"]
    write_npz(tmp_path / "e.npz", ids, anything=extra)
    for source in (str(tmp_path / "e.npy"), tmp_path / "e.npz", {"e": VECTORS}):
        table = with_embedding(ITEMS, source)
        assert np.array_equal(read_duels(table, DUELS).items, expected.items)
        assert np.array_equal(read_items(table, expected), expected.items)
    mapped = with_embedding(ITEMS, tmp_path / "e.npy").frame["e"]
    kept = read_duels(with_embedding(ITEMS, tmp_path / "e.npy"), DUELS).raw.frame["e"]
    assert vector_rows(kept).matrix is not None and isinstance(vector_rows(kept).matrix, np.memmap)
    assert vector_rows(mapped.iloc[[3, 1]]).chunk(0, 2).tolist() == VECTORS[[3, 1]].tolist()


def test_vectors_alone_are_items(tmp_path):
    write_npz(tmp_path / "e.npz", IDS, e=VECTORS)
    named = read_duels(with_embedding(None, tmp_path / "e.npz"), DUELS)
    assert named.item_ids == tuple(IDS)
    numbered = DUELS.map(lambda name: int(name[1:]))
    assert np.array_equal(read_duels(with_embedding(None, VECTORS), numbered).items, named.items)


def test_several_blocks(tmp_path):
    np.save(tmp_path / "a.npy", VECTORS)
    np.save(tmp_path / "b.npy", made(N, 4, 3))
    files = [tmp_path / "a.npy", f"c={tmp_path / 'b.npy'}"]
    found = read_duels(with_embedding(ITEMS, files), DUELS)
    assert found.transform.numeric == ("price",)
    assert [tuple(b) for b in found.transform.blocks] == [
        ("a", "vector", WIDTH),
        ("c", "vector", 4),
    ]


def test_vectors_that_were_given_are_features_whichever_columns_are():
    table = with_embedding(ITEMS.assign(age=1.0 + ITEMS["price"] ** 2), {"e": VECTORS})
    found = read_duels(table, DUELS, features=["price"])
    assert found.raw.numeric == ("price",) and found.raw.vectors == ("e",)
    assert read_duels(table, DUELS, ignore=["e"]).raw.vectors == ()


def test_the_only_block_of_a_model_needs_no_name(tmp_path, expected):
    np.save(tmp_path / "other.npy", VECTORS)
    with_it = with_embedding(ITEMS, tmp_path / "other.npy", like=expected.transform)
    assert np.array_equal(read_items(with_it, expected), expected.items)
    with pytest.raises(ValueError, match="have no vectors 'e'"):
        read_items(with_embedding(ITEMS, tmp_path / "other.npy"), expected)
    both = {"e": VECTORS, "f": VECTORS}
    with pytest.raises(ValueError, match="'f' are none of the model's, which has 'e'"):
        with_embedding(ITEMS, both, like=expected.transform)


def test_a_stream_has_the_features_of_a_table(tmp_path, expected):
    pytest.importorskip("pyarrow")
    DUELS.to_parquet(tmp_path / "d.parquet")
    found = stream_duels(tmp_path / "d.parquet", with_embedding(ITEMS, {"e": VECTORS}))
    assert found.transform == expected.transform
    assert np.array_equal(found.items, expected.items)
    duels = DUELS.assign(surface=np.where(np.arange(N - 1) % 2, "clay", "grass"))
    duels.to_parquet(tmp_path / "s.parquet")
    items = with_embedding(ITEMS, {"e": VECTORS})
    placed = stream_duels(tmp_path / "s.parquet", items, context=["surface"])
    table = read_duels(ITEMS, duels, context=["surface"], embedding={"e": VECTORS})
    assert placed.transform.reduction.size == table.transform.reduction.size == N // 8
    assert placed.transform.feature_names == table.transform.feature_names
    np.testing.assert_allclose(placed.items, table.items, atol=1e-6)


def test_choices_described_by_vectors_and_none_of_these():
    rng = np.random.default_rng(0)
    rows = [(s, int(j == 0), k) for s in range(60) for j, k in enumerate(rng.permutation(N)[:3])]
    table = pd.DataFrame(rows, columns=["choice_set", "chosen", "item_id"])
    described = table.drop(columns="item_id").assign(e=list(VECTORS[table["item_id"]]))
    found = read_choices(None, described)
    assert found.num_items == table["item_id"].nunique() and found.transform.vectors == ("e",)
    named = table.assign(item_id=[IDS[k] for k in table["item_id"]])
    by_id = read_choices(ITEMS, named, embedding={"e": VECTORS})
    assert by_id.transform.vectors == ("e",) and by_id.num_items == N
    named.loc[0, "item_id"] = "nothing"
    with_none = read_choices(ITEMS, named, embedding={"e": VECTORS}, none="nothing")
    usual = vector_rows(with_none.raw.frame["e"]).chunk(N, N + 1)[0]
    np.testing.assert_allclose(usual, VECTORS.mean(0), rtol=1e-6)


def test_what_moves_rows_keeps_vectors():
    frame = with_embedding(ITEMS, {"e": VECTORS}).frame
    for found, rows in (
        (frame.iloc[[5, 2]].reset_index(drop=True), [5, 2]),
        (frame[frame["price"] > 0.5], np.flatnonzero(ITEMS["price"] > 0.5)),
        (pd.concat([frame, frame.iloc[:2]], ignore_index=True), [*range(N), 0, 1]),
        (frame.sort_values("price", ascending=False), np.arange(N)[::-1]),
        (frame.copy(), np.arange(N)),
    ):
        held = vector_rows(found["e"])
        assert held.matrix is VECTORS
        assert np.array_equal(held.chunk(0, len(held)), VECTORS[rows])
    other = pd.concat([frame, with_embedding(ITEMS, {"e": VECTORS + 1}).frame])
    assert np.array_equal(np.stack(list(other["e"])), np.concatenate([VECTORS, VECTORS + 1]))
    assert frame["e"].iloc[-1].tolist() == VECTORS[-1].tolist() and "vector of 6" in repr(frame)


def test_zeros_are_warned_of_and_equal_vectors_are_equal_items():
    some = VECTORS.copy()
    some[[4, 7]] = 0.0
    same = ITEMS.assign(price=0.5)
    with pytest.warns(UserWarning, match=r"2 of 40 vectors of 'e' are zero throughout.*row 4"):
        found = read_duels(same.assign(e=list(some)), DUELS)
    assert np.array_equal(found.items[4], found.items[7])
    with pytest.warns(UserWarning, match="2 of 2 vectors of 'e' are zero throughout"):
        read_items(pd.DataFrame({"price": [0.5, 0.5], "e": list(some[[4, 7]])}), found)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({3: [1.0] * 5}, "a vector of 5 numbers in row 3"),
        ({3: []}, "a vector without numbers in row 3"),
        ({3: None}, "no vector in row 3"),
        ({3: [[1.0] * WIDTH]}, "the list .* no vector of numbers, in row 3.*--ignore e"),
        ({0: ["a"] * WIDTH}, r"the list \['a', .* no vector of numbers, in row 0.*--ignore e"),
        ({3: "a"}, "'a', no vector of numbers, in row 3"),
        ({3: [np.nan] * WIDTH}, r"missing value \(NaN\) in row 3"),
        ({3: [1.0] * 5 + [np.inf]}, "inf in row 3.*at place 5"),
    ],
)
def test_bad_cells(cells, words):
    column = list(VECTORS)
    for row, cell in cells.items():
        column[row] = cell
    items = ITEMS.assign(e=pd.Series(column, dtype=object))
    with pytest.raises(ValueError, match=words):
        read_duels(items, DUELS)
    assert read_duels(items, DUELS, ignore=["e"]).feature_names == ("price",)


@pytest.mark.parametrize(
    ("made_of", "words"),
    [
        (VECTORS[:-1], "The array 'embedding' has 39 rows, but the items frame has 40 items"),
        (VECTORS[0], r"1 dimension \(6\)"),
        (VECTORS[None], r"3 dimensions \(1 x 40 x 6\)"),
        (VECTORS[:, :0], r"vectors without numbers \(40 x 0\)"),
        ([*VECTORS.tolist()[:-1], [1.0]], "different lengths"),
        (np.ma.masked_array(VECTORS, VECTORS > 1.0), "has masked numbers"),
        (VECTORS.astype(object), "type object"),
        (VECTORS.astype(complex), "type complex128"),
        (VECTORS.astype(str), "not numbers"),
        ({"price": VECTORS}, "'price' .* have the name of a column of the items frame"),
        ({}, "No vectors were given"),
    ],
)
def test_bad_arrays(made_of, words):
    with pytest.raises(ValueError, match=words):
        with_embedding(ITEMS, made_of)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda p: p.write_bytes(b"no array"), "cannot be read as vectors"),
        (lambda p: p.write_bytes(b""), "cannot be read as vectors"),
        (lambda p: p.write_bytes(b"PK\x03\x04 no archive"), "cannot be read as vectors"),
        (lambda p: p.mkdir(), "are a folder"),
        (lambda p: None, "does not exist"),
        (lambda p: save(p, np.array([1, "a"], dtype=object)), "Python objects"),
        (lambda p: savez(p, ids=IDS), "0 arrays besides 'ids'"),
        (lambda p: savez(p, ids=IDS, a=VECTORS, b=VECTORS), "2 arrays besides 'ids'"),
        (lambda p: savez(p, ids=IDS[:-1], a=VECTORS), "one for each of its 40 vectors"),
        (lambda p: savez(p, ids=np.zeros(N, bool), a=VECTORS), "type bool"),
        (lambda p: savez(p, ids=["i0", *IDS[:-1]], a=VECTORS), "the id 'i0' twice"),
        (lambda p: savez(p, ids=["", *IDS[1:]], a=VECTORS), "an empty id"),
        (lambda p: savez(p, ids=np.arange(N), a=VECTORS), "'i0' in row 0.*no vector.*40 of 40"),
        (lambda p: savez(p, ids=["x", *IDS[1:]], a=VECTORS), "'i0' in row 0.*1 of 40"),
    ],
)
def test_bad_files(write, words, tmp_path):
    path = tmp_path / "e.bin"
    write(path)
    with pytest.raises(ValueError, match=words) as error:
        with_embedding(ITEMS, path)
    assert re.search(r"\.$", str(error.value)) and "\n" not in str(error.value)


def save(path, array):
    with path.open("wb") as file:
        np.save(file, array)


def savez(path, **arrays):
    with path.open("wb") as file:
        np.savez(file, **arrays)
