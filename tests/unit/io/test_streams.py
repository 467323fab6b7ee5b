"""Reading duels in chunks: both schemas, any cut, and what is wrong with a file in one sentence."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.items import Items
from sparse_prefgp.io.streams import scan
from tests.together import apart
from tests.tolerances import ROUNDING

T = 100


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    winner = rng.integers(10, size=T)
    return pd.DataFrame({"winner": winner, "loser": (winner + 1 + rng.integers(9, size=T)) % 10})


@pytest.fixture
def inline() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    names = ["winner_a", "winner_b", "loser_a", "loser_b"]
    return pd.DataFrame(rng.normal(3.0, 2.0, size=(T, 4)), columns=names)


@pytest.fixture
def items() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(10, 2))


def write(frame: pd.DataFrame, path: Path, rows: int = 13) -> Path:
    frame.to_parquet(path, row_group_size=rows, index=False)
    return path


def all_rows(stream: spg.Duels, size: int) -> list[np.ndarray]:
    chunks = list(stream.chunks(size))
    lengths = [len(c.given.counts) for c in chunks]
    assert all(length == size for length in lengths[:-1]) and 0 < lengths[-1] <= size
    return [np.concatenate([side(c, which) for c in chunks]) for which in (0, 1)]


def side(chunk: spg.Duels, which: int) -> np.ndarray:
    """Winners (0) or losers (1): rows of the items, or features where sides have their own."""
    rows = chunk.given.pairs[:, which]
    inline = len(chunk.items) == len(chunk.given.sides) and chunk.item_ids is None
    return chunk.items[rows] if inline else rows


@pytest.mark.parametrize("size", [1, 7, 40, 100, 1000])
def test_chunks_have_all_rows_in_order_whatever_their_size(
    frame, items, tmp_path, monkeypatch, size
) -> None:
    monkeypatch.setattr(scan, "READ_ROWS", 16)  # several blocks for so few rows
    paths = [write(frame[:55], tmp_path / "0.parquet"), write(frame[55:], tmp_path / "1.parquet")]
    for source in (paths, tmp_path):
        stream = spg.stream_duels(source, items)
        assert stream.num_rows == stream.num_duels == T
        winners, losers = all_rows(stream, size)
        np.testing.assert_array_equal(winners, frame.winner)
        np.testing.assert_array_equal(losers, frame.loser)


@pytest.mark.parametrize("parts", [1, 3, 8, 100])
def test_parts_are_all_rows_once(frame, items, tmp_path, monkeypatch, parts) -> None:
    monkeypatch.setattr(scan, "READ_ROWS", 16)
    stream = spg.stream_duels(write(frame, tmp_path / "a.parquet"), items)
    cut = stream.cut(parts)
    assert max(p.num_rows for p in cut) - min(p.num_rows for p in cut) <= 1
    # Also as another process sees them.
    cut = pickle.loads(pickle.dumps(cut))
    winners = np.concatenate([all_rows(p, 9)[0] for p in cut])
    np.testing.assert_array_equal(winners, frame.winner)


def test_parts_are_whole_files_where_these_are_of_one_size(frame, items, tmp_path) -> None:
    ends = [0, 24, 52, 75, 100]
    paths = [write(frame[a:b], tmp_path / f"{a}.parquet") for a, b in pairwise(ends)]
    stream = spg.stream_duels(paths, items)
    assert [p.num_rows for p in stream.cut(4)] == [24, 28, 23, 25]
    assert [p.num_rows for p in stream.cut(2)] == [52, 48]
    assert [p.num_rows for p in stream.cut(3)] == [33, 33, 34]  # files would be too uneven
    paths[3].write_text("spoilt")  # which only its own part sees
    list(stream.cut(4)[2].chunks(9))
    with pytest.raises(ValueError, match=r"75\.parquet"):
        list(stream.cut(4)[3].chunks(9))


@pytest.mark.parametrize("kind", ["numbers", "texts", "categories", "bytes", "as text"])
def test_ids_are_found_however_they_are_written(frame, tmp_path, kind) -> None:
    table = pd.DataFrame({"item_id": np.arange(10) * 3 + 5, "x": np.arange(10.0)})
    duels = frame * 3 + 5
    if kind in ("texts", "categories", "bytes"):
        table["item_id"] = [f"item {i}" for i in table.item_id]
        duels = duels.map(lambda i: f"item {i}")
    if kind == "categories":
        duels = duels.astype("category")
    if kind == "bytes":
        duels = duels.map(lambda text: text.encode())
    if kind == "as text":
        duels = duels.astype(str)
    stream = spg.stream_duels(write(duels, tmp_path / "a.parquet"), table)
    np.testing.assert_array_equal(all_rows(stream, T)[0], frame.winner)
    assert stream.item_ids is not None
    comparisons = np.bincount(np.concatenate([frame.winner, frame.loser]), minlength=10)
    np.testing.assert_array_equal(stream.comparisons, comparisons)


def test_a_table_from_a_file_is_read_again_elsewhere_rather_than_sent(frame, tmp_path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"item_id": np.arange(10), "x": rng.normal(size=10)})
    table.to_csv(tmp_path / "items.csv", index=False)
    stream = spg.stream_duels(write(frame, tmp_path / "a.parquet"), tmp_path / "items.csv")
    sent = pickle.dumps(stream)
    assert stream.items.tobytes() not in sent
    assert np.array_equal(pickle.loads(sent).items, stream.items)
    duels = spg.read_duels(tmp_path / "items.csv", frame)
    assert np.array_equal(duels.items, stream.items)


def test_inline_features_are_standardised_over_both_sides(inline, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(scan, "_READ_NUMBERS", 32)
    stream = spg.stream_duels(write(inline, tmp_path / "a.parquet"))
    a = np.concatenate([inline.winner_a, inline.loser_a])
    assert stream.transform is not None
    assert stream.transform.mean[0] == pytest.approx(a.mean(), rel=ROUNDING)
    assert stream.transform.scale[0] == pytest.approx(a.std(), rel=ROUNDING)
    winners, _ = all_rows(stream, 30)
    expected = (inline.winner_a - a.mean()) / a.std()
    np.testing.assert_allclose(winners[:, 0], expected, atol=ROUNDING)
    new = pd.DataFrame({"a": [a.mean()], "b": [3.0]})
    np.testing.assert_allclose(spg.read_items(new, like=stream)[0, 0], 0.0, atol=ROUNDING)
    raw = spg.stream_duels(tmp_path / "a.parquet", standardise=False, ignore=["b"])
    np.testing.assert_array_equal(all_rows(raw, 30)[0], inline[["winner_a"]])


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("as_tuple", [False, True])
@pytest.mark.covering(every=4)
def test_a_dataset_gives_the_same_duels(frame, inline, items, batched, as_tuple) -> None:
    columns = (frame.winner.to_numpy(), frame.loser.to_numpy())
    wide = (inline[["winner_a", "winner_b"]].to_numpy(), inline[["loser_a", "loser_b"]].to_numpy())
    for sides, table in ((columns, items), (wide, None)):
        data: Any = sides if as_tuple else dict(zip(("winner", "loser"), sides, strict=True))
        dataset = tf.data.Dataset.from_tensor_slices(data)
        dataset = dataset.batch(7) if batched else dataset
        stream = spg.stream_duels(dataset, table, standardise=False)
        np.testing.assert_array_equal(all_rows(stream, 30)[0], sides[0])
        np.testing.assert_array_equal(all_rows(stream.cut(3)[1], 9)[1], sides[1][33:66])


def test_a_sample_is_of_rows_without_replacement(frame, items, inline, tmp_path) -> None:
    stream = spg.stream_duels(write(frame, tmp_path / "a.parquet"), items)
    rng = np.random.default_rng(0)
    assert stream.sample(30, rng).num_duels == 30
    assert stream.sample(10_000, rng).num_duels == T
    wide = spg.stream_duels(write(inline, tmp_path / "b.parquet"))
    assert wide.sample(20, rng).num_items == 40


def test_counts_are_read(frame, items, tmp_path) -> None:
    counts = np.arange(1, T + 1)
    stream = spg.stream_duels(write(frame.assign(count=counts), tmp_path / "a.parquet"), items)
    assert stream.num_duels == counts.sum() and stream.num_rows == T
    (chunk,) = stream.chunks(T)
    np.testing.assert_array_equal(chunk.given.counts, counts)


def test_a_part_knows_its_own_totals(frame, inline, items, tmp_path) -> None:
    counts = np.arange(1, T + 1)
    stream = spg.stream_duels(write(frame.assign(count=counts), tmp_path / "a.parquet"), items)
    part = stream.part(20, 60)
    assert part.num_duels == counts[20:60].sum()
    ends = np.concatenate([frame.winner[20:60], frame.loser[20:60]])
    expected = np.bincount(ends, np.tile(counts[20:60], 2), minlength=10)
    np.testing.assert_array_equal(part.comparisons, expected)
    wide = spg.stream_duels(write(inline, tmp_path / "b.parquet"))
    for some, rows in ((wide, slice(None)), (wide.part(20, 60), slice(20, 60))):
        winners, losers = all_rows(wide, T)
        both = np.concatenate([winners[rows], losers[rows]])
        np.testing.assert_allclose(some.seen.items, [both.min(0), both.max(0)], atol=ROUNDING)


def test_progress_tells_of_the_rows_read(frame, items, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(scan, "READ_ROWS", 40)
    seen: list[tuple[int, int]] = []
    path = write(frame, tmp_path / "a.parquet")
    spg.stream_duels(path, items, progress=lambda *x: seen.append(x))
    assert seen == [(40, T), (80, T), (T, T)]


# What is wrong, in one sentence.


def refused(words: str, *arguments: Any, **more: Any) -> None:
    with pytest.raises(ValueError, match=words) as error:
        spg.stream_duels(*arguments, **more)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_the_id_that_was_meant_is_proposed(frame, items, tmp_path) -> None:
    named = frame.replace({i: f"item {i}" for i in range(10)})
    named.loc[17, "winner"] = "Item 7"
    table = Items(items, [f"item {i}" for i in range(10)])
    refused("'Item 7', .*; did you mean 'item 7'", write(named, tmp_path / "a.parquet"), table)


def test_bad_rows_are_named(frame, inline, items, tmp_path) -> None:
    path = tmp_path / "a.parquet"

    def changed(data: pd.DataFrame, column: str, value: Any) -> Path:
        data = data.copy()
        data.loc[17, column] = value
        return write(data, path)

    refused(
        "ow 17 of a.parquet .* has the winner '10', which is not an item id",
        changed(frame, "winner", 10),
        items,
    )
    refused(r"ow 17 .* the loser '-1'", changed(frame, "loser", -1), items)
    texts = frame.astype(str)
    refused("ow 17 .* the winner 'Ann'", changed(texts, "winner", "Ann"), items)
    refused("ow 17 .* a missing winner", changed(texts, "winner", None), items)
    same = frame.copy()
    same.loc[17, "winner"] = same.loc[17, "loser"]
    refused("row 17 of a.parquet .* with itself", write(same, path), items)
    refused("'loser_a' has a missing value in row 17", changed(inline, "loser_a", np.nan))
    for count in (0, 1.5, np.nan, np.inf):
        counted = frame.assign(count=2.0)
        refused("'count' has .* in row 17 of a.parquet", changed(counted, "count", count), items)
    texts = frame.assign(count="2")
    refused("'count' has 'two' in row 17 of a.parquet", changed(texts, "count", "two"), items)
    wide = inline.astype({"loser_b": str})
    refused("'loser_b' has 'x' in row 17 of a.parquet", changed(wide, "loser_b", "x"))
    both = [write(frame, tmp_path / "b.parquet"), changed(frame, "winner", 10)]
    refused("ow 17 of a.parquet", both, items)


@pytest.mark.parametrize("kind", ["Int64", "float", "str"])
def test_a_missing_id_is_no_item_whatever_the_ids(frame, tmp_path, kind) -> None:
    table = pd.DataFrame({"item_id": np.arange(10) - 1, "x": np.arange(10.0) ** 2})
    duels = (frame - 1).astype(kind)
    duels.loc[17, "winner"] = None
    path = write(duels, tmp_path / "a.parquet")
    refused("ow 17 of a.parquet .* a missing winner, which is not an item id", path, table)
    with pytest.raises(ValueError, match="missing winner, which is not an item id"):
        spg.read_duels(table, path)


def test_bad_schemas_are_named(frame, inline, items, tmp_path) -> None:
    path = tmp_path / "a.parquet"
    refused("neither the columns 'winner' and 'loser'", write(frame[["winner"]], path), items)
    refused("'b' of one side only", write(inline.drop(columns="loser_b"), path))
    refused(apart("no_items", "named_items"), write(frame, path))
    refused(apart("features_of_sides", "items"), write(inline, path), items)
    assert spg.stream_duels(write(frame.assign(tie=0), path), items).num_ties == 0
    for name in ("ties", "weight", "weights"):
        words = f"has a column '{name}', which nothing was said of"
        refused(words, write(frame.assign(**{name: 1}), path), items)
        refused(words, write(inline.assign(**{name: 1}), path))
        assert spg.stream_duels(path, ignore=[name]).num_features == 2
    table = pd.DataFrame({"item_id": range(10), "x": items[:, 0], "y": items[:, 1]})
    both = write(frame.assign(weight=1), path)
    assert spg.stream_duels(both, table, ignore=["weight", "y"]).num_features == 1
    refused("to ignore is 'z'", both, table, ignore=["weight", "z"])
    refused("feature 'a' of .* is constant", write(inline.assign(winner_a=1.0, loser_a=1.0), path))
    refused("'winner_a' has 'x' in row 0", write(inline.assign(winner_a="x"), path))
    refused("A feature is 'z'; choose from", write(inline, path), features=["z"])
    refused("All features are ignored", path, ignore=["a", "b"])
    refused("There are no duels in", write(frame[:0], path), items)
    other = write(inline, tmp_path / "b.parquet")
    refused("is not in all of the files", [write(frame, path), other], items)


def test_bad_files_are_named(frame, items, tmp_path) -> None:
    refused("does not exist", tmp_path / "no.parquet", items)
    (tmp_path / "a.parquet").write_text("no Parquet")
    refused("cannot be read", tmp_path / "a.parquet", items)
    refused("list of files is empty", [], items)
    (tmp_path / "empty").mkdir()
    refused("has no Parquet files", tmp_path / "empty", items)
    refused("of type int", 7, items)
    refused("holds 1 of type int; give paths", [1], items)


def test_bad_datasets_are_named(items) -> None:
    numbers = tf.data.Dataset.range(5)
    refused("mappings with the keys", numbers, items)
    pairs = tf.data.Dataset.zip((numbers, numbers.map(lambda i: i + 1)))
    refused("never ends", pairs.repeat(), items)
    ragged = tf.data.Dataset.from_generator(
        lambda: iter([]), output_signature=(tf.TensorSpec([None]), tf.TensorSpec([None]))
    )
    refused("winners of None features", ragged)
    uneven = tf.data.Dataset.from_tensor_slices((np.zeros((3, 2)), np.ones((3, 3))))
    refused("winners of 2 features and losers of 3", uneven)
    pair = (tf.TensorSpec((2,)), tf.TensorSpec((2,)))
    failing = tf.data.Dataset.from_generator(lambda: (1 / 0 for _ in "a"), output_signature=pair)
    refused(r"fails while it is read \(ZeroDivisionError: division by zero", failing)
    weighed = pairs.map(lambda won, lost: {"winner": won, "loser": lost, "weight": 0.5})
    refused("elements with 'weight', which nothing was said of; give weights='weight'", weighed)
    with pytest.raises(ValueError, match="leave the scheduler out"):
        pickle.dumps(spg.stream_duels(pairs, items))


def test_other_duels_than_before_are_noticed(frame, items, tmp_path) -> None:
    path = write(frame, tmp_path / "a.parquet")
    stream = spg.stream_duels(path, items)
    write(frame.assign(winner=frame.loser, loser=frame.winner), path)
    with pytest.raises(ValueError, match=r"other duels from row 0 of a\.parquet"):
        list(stream.chunks(10))
    write(frame[:50], path)
    with pytest.raises(ValueError, match=r"other duels|rows where it gave"):
        list(stream.chunks(10))
    write(frame[["winner"]], path)
    with pytest.raises(ValueError, match="has no column 'loser' any more"):
        list(stream.chunks(10))
    path.unlink()
    with pytest.raises(ValueError, match="does not exist"):
        list(stream.chunks(10))
    both = [write(frame, tmp_path / f"{k}.parquet") for k in "bc"]
    stream = spg.stream_duels(both, items)
    write(frame[::-1], both[1])
    with pytest.raises(ValueError, match=r"other duels from row 0 of c\.parquet"):
        list(stream.chunks(10))
    data = tf.data.Dataset.from_tensor_slices((frame.winner.to_numpy(), frame.loser.to_numpy()))
    shuffled = spg.stream_duels(data.shuffle(T, seed=1, reshuffle_each_iteration=True), items)
    with pytest.raises(ValueError, match="do not shuffle a dataset"):
        list(shuffled.chunks(10))


# Duels in memory.


def test_duels_in_memory_are_streamed_with_their_items_and_counts(frame, items) -> None:
    ids = [f"item {i}" for i in range(len(items))]
    events = Answers.between(frame.winner.to_numpy(), frame.loser.to_numpy())
    duels = spg.Duels.from_events(items, events, item_ids=ids)
    stream = spg.stream_duels(duels)
    assert stream.num_duels == T and stream.num_rows == len(duels.winners) < T
    assert stream.item_ids == duels.item_ids
    winners, losers = all_rows(stream, 7)
    np.testing.assert_array_equal(winners, duels.winners)
    np.testing.assert_array_equal(losers, duels.losers)
    counts = np.concatenate([chunk.given.counts for chunk in stream.chunks(7)])
    np.testing.assert_array_equal(counts, duels.counts)


def test_duels_in_memory_have_their_own_items_and_stay_here(items) -> None:
    duels = spg.Duels(items, np.array([0, 1]), np.array([2, 3]))
    refused("and items do not go together", duels, items)
    refused("and ignore do not go together", duels, ignore=["a"])
    with pytest.raises(ValueError, match="leave the scheduler out"):
        pickle.dumps(spg.stream_duels(duels))


def test_ids_are_found_by_the_rule_of_tables(tmp_path) -> None:
    """Whole numbers are alike however they are written, where that leaves no doubt."""
    table = pd.DataFrame({"item_id": ["007", "A", "12"], "x": [1.0, 2.0, 4.0]})
    for ids in (["7", "A", "12.0"], ["007", " A", "012"]):
        duels = pd.DataFrame({"winner": ids, "loser": np.roll(ids, 1)})
        stream = spg.stream_duels(write(duels, tmp_path / "a.parquet"), table)
        whole = spg.read_duels(table, duels)
        taken = stream.select(np.arange(3))
        np.testing.assert_array_equal(taken.events.pairs, whole.events.pairs)
    refused(
        "the winner '8', which", write(duels.replace("007", "8"), tmp_path / "a.parquet"), table
    )


def test_inline_dates_are_days(tmp_path) -> None:
    days = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-05"])
    frame = pd.DataFrame({"winner_day": days, "loser_day": days[[1, 2, 0]]})
    stream = spg.stream_duels(write(frame, tmp_path / "a.parquet"), standardise=False)
    (chunk,) = stream.chunks(10)
    np.testing.assert_array_equal(side(chunk, 0)[:, 0], 50 * 365 + 12 + np.array([0.0, 1.0, 4.0]))
