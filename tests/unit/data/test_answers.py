"""The table of events: merged, taken apart and joined as a plain loop over events would."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import gpflow
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparse_prefgp as spg
from sparse_prefgp.data import answers as events_module
from sparse_prefgp.data.answers import (
    BEST_WORST,
    CHOICE,
    COLUMNS,
    GRADE,
    RANKING,
    TIE,
    TOP,
    WIN,
    Answers,
    Codes,
    Covariates,
    Doors,
    Grades,
    Kind,
    arrays_of,
)
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.disk.describing import described_events, events_of_arrays
from tests.tolerances import EVIDENCE, FIXED_POINT

N = 9


def made(seed: int, e: int = 40, pairs: bool = False) -> Answers:
    """Events with a random choice of the columns that there are, each of few values."""
    rng = np.random.default_rng(seed)
    kinds = [WIN, TIE, GRADE, CHOICE, RANKING, TOP, BEST_WORST][: 2 if pairs else None]
    kinds = rng.permutation(kinds)[: rng.integers(1, 4)]
    kind = rng.choice(kinds, e).astype(np.int8)
    sizes = np.where(kind <= GRADE, 2, 3 + rng.integers(0, 2, e))
    sides = np.concatenate([rng.permutation(4)[:k] for k in sizes])
    levels = np.where(kind == GRADE, rng.choice([-2, -1, 1, 2], e), 0)
    few = rng.integers(1, 3, (len(sides), 2)) / 2
    of = {
        "code": lambda name: Codes.of(rng.choice(["ann", "bob", "7"], e).tolist(), f"the {name}"),
        "labels": lambda name: {"where": Codes.of(rng.choice(["here", None], e).tolist(), "where")},
        "number": lambda name: few[:e, 0],
        "covariate": lambda name: Covariates(few, ("slot", "length")),
    }
    columns = {name: of[c.holds](name) for name, c in COLUMNS.items() if c.holds in of}
    columns["counts"] = rng.integers(1, 4, e)
    kept = {name: values for name, values in columns.items() if rng.uniform() < 0.6}
    if np.any(kind == GRADE):
        kept["answer"] = Grades.of(levels, ["--", "-", "0", "+", "++"])
    if np.any(kind == TOP):
        kept["ordered"] = np.where(kind == TOP, 1, 0)
    if np.any(kind != WIN):
        kept["kind"] = kind
    return Answers(sides, np.append(0, np.cumsum(sizes)), **kept)


def rows(events: Answers) -> list[tuple[tuple, tuple]]:
    """What makes each event what it is, and what is added up of equal ones."""
    columns = []
    for name, column in COLUMNS.items():
        values = events.whole(name)
        for each in values.values() if isinstance(values, Mapping) else [values]:
            each = each.labels if isinstance(each, Codes) else each
            each = each.numbers if isinstance(each, tuple) else each
            if each is not None:
                columns.append((name, column, np.asarray(each).tolist()))
    table = []
    for i, (a, b) in enumerate(pairwise(events.offsets)):
        said = [
            (name, str(values[a:b] if column.per == "side" else values[i]))
            for name, column, values in columns
            if not column.added
        ]
        added = tuple(values[i] for _, column, values in columns if column.added)
        table.append(((*events.sides[a:b].tolist(), *said), added))
    return table


any_table = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)


@any_table
@given(seeds)
def test_events_are_taken_and_joined_whole(seed):
    events, rng = made(seed), np.random.default_rng(seed)
    every = rows(events)
    chosen, mask = rng.integers(0, len(events), 9), rng.uniform(size=len(events)) < 0.5
    assert rows(events.take(chosen)) == [every[i] for i in chosen]
    assert rows(events.take(mask)) == [every[i] for i in np.flatnonzero(mask)]
    assert rows(events.take(slice(30, None, 3))) == every[30::3]
    assert len(events.take(slice(9, 9))) == 0
    first, *others = (
        events.take(slice(a, b)) for a, b in pairwise([0, *sorted(rng.integers(0, 40, 3)), 40])
    )
    assert rows(first.followed_by(*others)) == every


@any_table
@given(seeds)
def test_equal_events_are_merged_in_whatever_order(seed):
    events = made(seed).in_order()
    if "where" in events.labels:  # each that nobody knows is another
        events = events.take(events.labels["where"].numbers >= 0)
    sums: dict[tuple, np.ndarray] = {}
    for said, added in rows(events):
        sums[said] = sums.get(said, 0) + np.array(added)
    for order in (np.arange(len(events)), np.random.default_rng(seed).permutation(len(events))):
        shuffled = events.take(order)
        merged = rows(shuffled.merged(*shuffled.alike()))
        assert len(merged) == len(sums)
        for said, added in merged:
            np.testing.assert_allclose(added, sums[said], rtol=1e-14)


@any_table
@given(seeds)
def test_events_are_saved_checked_and_turned_about_as_they_are(seed):
    events = made(seed)
    names, arrays = described_events(events)
    assert rows(events_of_arrays(json.loads(json.dumps(names)), arrays)) == rows(events)
    assert rows(events.checked()) == rows(events)
    assert rows(events.in_order().in_order()) == rows(events.in_order())
    assert not any(array.flags.writeable for array in arrays_of(events.frozen().columns))


@any_table
@given(seeds, st.integers(1, 200))
def test_chunks_joined_are_the_whole(seed, size):
    duels = Duels.from_events(np.eye(4), made(seed))
    first, *others = (chunk.given for chunk in spg.stream_duels(duels).chunks(size))
    assert rows(first.followed_by(*others)) == rows(duels.events)
    again = Duels.from_events(np.eye(4), duels.given)
    assert rows(again.events) == rows(duels.events)


def test_alike_is_in_the_order_of_the_sides():
    events = made(0, 50, pairs=True)
    first, number = events.alike()
    assert np.all(np.diff(events.pairs[first] @ [N, 1]) >= 0)
    np.testing.assert_array_equal(events.pairs[first][number], events.pairs)


@pytest.mark.parametrize("name", ["counts", "weights", "time"])
def test_columns_of_other_widths_are_joined_as_they_are(name):
    few, many = (Answers.between(np.array([0, 1]), np.array([1, 2])) for _ in range(2))
    few, many = few.saying(**{name: np.array([1, 2], np.int8)}), many.saying(**{name: [1000, 3]})
    for one, other in ((few, many), (many, few)):
        joined = getattr(one.followed_by(other), name)
        expected = [*getattr(one, name), *getattr(other, name)]
        np.testing.assert_array_equal(joined, expected)
    if name != "counts":
        half = few.saying(**{name: [0.5, 2.5]})
        np.testing.assert_array_equal(getattr(few.followed_by(half), name), [1, 2, 0.5, 2.5])


def test_labels_of_others_are_joined_by_name():
    first, second = (Answers.between(np.array([0]), np.array([1])) for _ in range(2))
    one = first.saying(judge=Codes.of(["ann"]))
    two = second.saying(judge=Codes.of(["bob"]))
    assert one.followed_by(two, one).judge.labels.tolist() == ["ann", "bob", "ann"]
    with pytest.raises(ValueError, match="Some of the events have a judge and others have none"):
        one.followed_by(second)


def test_codes():
    codes = Codes.of(["b", "a", "b", "c"])
    assert codes.names == ("b", "a", "c") and codes.labels.tolist() == ["b", "a", "b", "c"]
    later = codes.take([3, 1]).used()
    assert later.names == ("c", "a") and later.labels.tolist() == ["c", "a"]


def test_copies_can_be_parted():
    events = made(1, 20)
    copies = events.one_by_one()
    assert len(copies) == events.num_events and np.all(copies.counts == 1)
    np.testing.assert_allclose(copies.totals.sum(), events.totals.sum(), rtol=1e-14)


def test_what_is_compared_is_counted():
    events = made(2, 30)
    expected = np.zeros(N, dtype=int)
    for i in range(len(events)):
        expected[events.sides[events.offsets[i] : events.offsets[i + 1]]] += events.counts[i]
    np.testing.assert_array_equal(events.compared(N), expected)


def test_wins_and_ties_behind_their_doors():
    events = Answers.between(np.array([3, 1, 2]), np.array([0, 2, 4]), kind=[WIN, TIE, WIN])
    doors = events.doors()
    np.testing.assert_array_equal(doors.features, [[3, 0], [1, 2], [2, 4]])
    np.testing.assert_array_equal(doors.limits, [[-np.inf, 0], [0, 0], [-np.inf, 0]])
    np.testing.assert_array_equal(doors.cuts, [[0, -1], [-1, 1], [0, -1]])
    np.testing.assert_array_equal(doors.event, [0, 1, 2])
    assert np.all(doors.weight == 1.0) and np.all(events.sites == 1)


# A kind with several z: half a win of each, here next to the kinds that there are.


def halves(events: Answers) -> Doors:
    e = len(events)
    return Doors(
        np.stack([events.pairs, events.pairs[:, ::-1]], 1).reshape(-1, 2),
        np.tile([-np.inf, 0.0], (2 * e, 1)),
        np.tile(np.array([0, -1], np.int8), (2 * e, 1)),
        np.repeat(np.arange(e), 2),
        np.full(2 * e, 0.5),
    )


HALF = len(events_module.KINDS)


@pytest.fixture
def with_halves(monkeypatch):
    kind = Kind("half", halves, several=True, unordered=True)
    monkeypatch.setattr(events_module, "KINDS", (*events_module.KINDS, kind))
    monkeypatch.setattr(events_module, "_SEVERAL", np.append(events_module._SEVERAL, True))
    monkeypatch.setattr(events_module, "_UNORDERED", np.append(events_module._UNORDERED, True))
    monkeypatch.setattr(events_module, "_COVERING", np.append(events_module._COVERING, False))


def half_duels(t: int = 30) -> tuple[spg.Duels, spg.Duels]:
    """Wins and halves as events, and the same as wins with weights."""
    rng = np.random.default_rng(3)
    items = rng.normal(size=(N, 2))
    every = np.array([(i, j) for i in range(N) for j in range(i)])
    won, lost = rng.permuted(rng.permutation(every)[:t], axis=1).T
    kind = np.where(rng.uniform(size=t) < 0.4, HALF, WIN)
    events = Answers.between(won, lost, kind=kind)
    half = kind == HALF
    plain = spg.Duels(
        items,
        np.concatenate([won, lost[half]]),
        np.concatenate([lost, won[half]]),
        weights=np.concatenate([np.where(half, 0.5, 1.0), np.full(half.sum(), 0.5)]),
    )
    return spg.Duels.from_events(items, events), plain


def test_an_event_of_several_sites(with_halves):
    duels, _ = half_duels()
    graph = DuelGraph.from_duels(duels)
    assert graph.num_sites == len(duels.events.doors().event) > len(duels.events)
    assert graph.counts.sum() == pytest.approx(30.0)
    number = np.bincount(graph.event)
    np.testing.assert_array_equal(number, np.where(graph.events.kind == HALF, 2, 1))
    # The sites of a duel are those of the event that it became.
    owner = np.repeat(graph.event_of_duel, number[graph.event_of_duel])
    np.testing.assert_array_equal(graph.event[graph.sites_of_duels], owner)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("every", [1, 4, 1000])
def test_chunks_never_cut_an_event(with_halves, monkeypatch, size, every):
    from sparse_prefgp.io.streams import scan

    monkeypatch.setattr(scan, "READ_ROWS", every)
    duels, _ = half_duels()
    stream = spg.stream_duels(duels)
    assert stream.batches.num_sites == len(duels.events.doors().event) > stream.num_rows
    chunks = list(stream.chunks(size))
    sites = [int(chunk.given.sites.sum()) for chunk in chunks]
    assert sum(sites) == stream.batches.num_sites
    assert all(here <= size or len(c.given) == 1 for here, c in zip(sites, chunks, strict=True))
    following = [int(chunk.given.sites[0]) for chunk in chunks[1:]]
    for here, more in zip(sites, following, strict=False):  # one more would not have fitted
        assert here + more > size
    kinds = np.concatenate([chunk.given.kind for chunk in chunks])
    np.testing.assert_array_equal(kinds, duels.events.kind)


def close(found, expected, within=EVIDENCE):
    np.testing.assert_allclose(found, expected, rtol=0, atol=within)


@pytest.mark.slow
def test_an_event_of_several_sites_in_memory_streamed_and_in_parts(with_halves):
    duels, plain = half_duels()
    z, kernel = duels.items[:5], gpflow.kernels.Matern52(variance=1.3)
    settings = {"inducing_variable": z, "approximation": spg.VFE()}
    engine = spg.ParallelEP(tolerance=1e-11)
    whole, same = (
        spg.PreferenceGP(d, copy.deepcopy(kernel), engine=engine, **settings)
        for d in (duels, plain)
    )
    close(whole.log_evidence(), same.log_evidence())
    mean, variance = same.predict_f(duels.items)
    for parts in (1, 3):
        streamed = spg.StreamedGP(
            spg.stream_duels(duels),
            copy.deepcopy(kernel),
            engine=spg.PartitionedEP(parts=parts, tolerance=1e-11),
            chunk=8,
            **settings,
        )
        close(streamed.log_evidence(), same.log_evidence())
        for found, expected in zip(streamed.predict_f(duels.items), (mean, variance), strict=True):
            close(found, expected, FIXED_POINT)


@pytest.mark.parametrize(
    ("sides", "offsets", "message"),
    [
        ([], [0], "There are no events; give at least one"),
        ([0, 1, 2], [0, 2, 3], "Event 1 is a win of 1 sides; give it 2"),
        (
            [0, 1, 2, 9],
            [0, 2, 4],
            "Event 1 has the row 9, which is not an item; give rows from 0 to 8",
        ),
        ([0, 1, 3, 3], [0, 2, 4], "Duel 1 is of item 'd' with itself"),
    ],
)
def test_what_events_must_be(sides, offsets, message):
    events = Answers(np.array(sides, np.int64), np.array(offsets))
    with pytest.raises(ValueError, match=message):
        spg.Duels.from_events(np.eye(N), events, item_ids=tuple("abcdefghi"))


def test_rows_say_which_item_they_are_of():
    events = Answers.between(np.array([0, 3]), np.array([1, 2]))
    duels = spg.Duels.from_events(np.eye(4), events, item=[0, 0, 1, 1])
    assert duels.item.tolist() == [0, 0, 1, 1]
    assert spg.Duels(np.eye(4), [0], [1]).item.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"item has shape \(3,\) and type int64 for 4 rows"):
        spg.Duels.from_events(np.eye(4), events, item=[0, 0, 1])


def between(**columns) -> Answers:
    return Answers([0, 1, 1, 2, 2, 3], **columns)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (between(weights=np.array([1.0, np.nan, 1.0])), "weights has nan at 1; give finite"),
        (between(weights=np.array([1.0, 1.0, -1.0])), "The weight of duel 2 is -1.0; give a pos"),
        (between(weights=np.ones(2)), r"weights has shape \(2,\); give \(3,\)"),
        (between(kind=np.array([0, 9, 0])), r"Event 1 has the kind 9; give 0 \(win\) or 1 \(tie"),
        (between(kind=np.array([0, -1, 0])), "Event 1 has the kind -1"),
        (between(kind=np.array([0, 0.5, 1])), "kind is an array of shape .* give whole numbers"),
        (between(kind=np.zeros(2, int)), r"kind has shape \(2,\); give \(3,\)"),
        (between(kind=np.array(["win", "tie", "win"])), "kind is an array .* give whole numbers"),
        (between(time=np.zeros(2)), r"time has shape \(2,\)"),
        (between(time=np.array([0.0, np.inf, 1.0])), "time has inf at 1"),
        (between(covariates=Covariates(np.zeros((3, 1)))), r"covariates .* give \(6, C\)"),
        (between(covariates=Covariates(np.zeros(6))), r"covariates .* give \(6, C\)"),
        (
            between(covariates=Covariates(np.zeros((6, 2)), ("a",))),
            "covariate_names are 'a' for 2 covariates; give each a name of its own",
        ),
        (
            between(covariates=Covariates(np.zeros((6, 2)), ("a", "a"))),
            "covariate_names are 'a', 'a' for 2",
        ),
        (between(labels=Codes.of(["a", "b", "a"])), "labels is of type Codes; give Codes by the"),
        (Answers(np.array([0.0, 1.5] * 3)), "sides is an array .* give whole numbers"),
        (between(offsets=[0, 2, 4, 8]), "offsets run from 0 to 8, for 6 sides"),
        (between(offsets=[0, 3, 4, 6]), "Event 0 is a win of 3 sides; give it 2"),
        (between(judge=["a", "b", "a"]), r"judge is of type list; give Codes.of\(labels\)"),
        (between(judge=Codes(np.array([0, 1, 5]), ("a", "b"))), "Event 2 has the judge 5, of 2"),
        (between(judge=Codes(np.zeros(3, int), ("a", "a"))), "Two of the judge names are 'a'"),
        (
            between(person=Codes(np.zeros(3, int), (None,))),
            "The person of duel 0 is None; name each",
        ),
        (between(counts=np.ones(2, int)), r"counts has shape \(2,\); give \(3,\)"),
        ([(0, 1)], "events is of type list; give Answers, as Answers.between"),
    ],
)
def test_columns_that_make_no_sense(events, message):
    with pytest.raises(ValueError, match=message):
        spg.Duels.from_events(np.eye(N), events)


def test_what_is_known_of_items_and_judges_comes_back_from_a_stream():
    said = between(judge=Codes.of(["ann", "bob", "ann"]))
    duels = spg.Duels.from_events(np.eye(4), said, item=[0, 0, 1, 1])
    stream = spg.stream_duels(duels)
    again = stream.select(stream.draw(10, np.random.default_rng(0)))
    assert again.item.tolist() == [0, 0, 1, 1] and again.group_names == ("ann", "bob")
    assert list(again.events.judge.labels) == ["ann", "bob", "ann"]


def _sets(kinds: list[int], sides: list[list[int]], **more: Any) -> Answers:
    offsets = np.append(0, np.cumsum([len(one) for one in sides]))
    return Answers(np.concatenate(sides), offsets, kind=np.array(kinds, np.int8), **more)


def test_equal_answers_about_sets_are_one() -> None:
    """What has no order is in the order of its rows; what has keeps it."""
    said = _sets(
        [CHOICE, CHOICE, RANKING, RANKING, TOP, TOP, BEST_WORST, BEST_WORST],
        [
            [3, 1, 2],
            [3, 2, 1],
            [3, 1, 2],
            [3, 2, 1],
            [4, 0, 2, 1],
            [4, 0, 1, 2],
            [4, 2, 1, 0],
            [4, 1, 2, 0],
        ],
        ordered=np.array([0, 0, 0, 0, 2, 2, 0, 0]),
    )
    duels = Duels.from_events(np.arange(5.0)[:, None], said)
    assert duels.counts.tolist() == [2, 1, 1, 2, 2]
    assert duels.events.take([0]).sides.tolist() == [3, 1, 2]
    assert duels.events.take([3]).sides.tolist() == [4, 0, 1, 2]


def test_doors_of_sets() -> None:
    said = _sets(
        [BEST_WORST, WIN, TOP], [[4, 2, 1], [0, 3], [3, 0, 2, 1]], ordered=np.array([0, 0, 2])
    )
    doors = said.doors()
    assert doors.features.tolist() == [[4, 2], [4, 1], [2, 1], [0, 3], [3, 0], [0, 2], [0, 1]]
    assert doors.event.tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert doors.look.tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert doors.draws.tolist() == [[0, 1], [0, 2], [4, 5], [0, 1], [0, 1], [1, 2], [1, 3]]
    assert doors.own[:4].tolist() == [1.0, 1.0, 2.0, 2.0]
    noise = np.array([[2.0, -1.0, -1.0], [-1.0, 2.0, 1.0], [-1.0, 1.0, 2.0]])
    np.testing.assert_allclose(doors.own[4:], np.linalg.eigvalsh(noise)[0])


@pytest.mark.parametrize(
    ("events", "match"),
    [
        (_sets([CHOICE], [[1]]), "at least 2"),
        (_sets([BEST_WORST], [[1, 0]]), "at least 3"),
        (_sets([CHOICE], [[1, 0, 1]]), "with itself"),
        (_sets([CHOICE], [[1, 9]]), "row 9"),
        (_sets([TOP], [[1, 0, 2]]), "0 of 3 sides in order"),
        (_sets([TOP], [[1, 0, 2]], ordered=np.array([2])), "call all but one"),
        (_sets([CHOICE], [[1, 0, 2]], ordered=np.array([1])), "make it a top"),
    ],
)
def test_sets_that_are_none(events: Answers, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Duels.from_events(np.arange(4.0)[:, None], events)
