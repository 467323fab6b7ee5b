"""Which form the algebra takes: by cost, by memory, as asked, and said so."""

from __future__ import annotations

import logging

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from threadpoolctl import threadpool_limits

import sparse_prefgp as spg
from sparse_prefgp.approximations import layout as form_module
from sparse_prefgp.approximations.layout import choose_layout, choose_stream_layout
from sparse_prefgp.approximations.whitened import Whitened, features_of_duels, whitened
from sparse_prefgp.data.graph import DuelGraph, differences
from sparse_prefgp.support import machine
from tests.cases import random_duels
from tests.tolerances import ROUNDING

GIB = 1 << 30


class Sizes:
    """As much of a graph as the choice looks at."""

    def __init__(self, n: int, t: int) -> None:
        self.num_rows, self.num_sites = n, t


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch):
    def say(value: int | None) -> None:
        for module in (form_module, machine):
            monkeypatch.setattr(module, "free_memory", lambda: value)

    say(64 * GIB)
    return say


@pytest.mark.parametrize(
    ("n", "t", "m", "over_items"),
    [
        (10_000, 1_000_000, 256, True),
        (2_000_000, 1_000_000, 128, False),
        (900_000, 1_000_000, 128, False),  # fewer items, but two products over them cost more
        (90, 100, 10, True),  # small: by items alone
    ],
)
def test_the_cheaper_form_is_taken(free, n: int, t: int, m: int, over_items: bool) -> None:
    assert choose_layout(None, Sizes(n, t), m, 8).over_items is over_items
    for over in ("items", "duels"):
        assert choose_layout(over, Sizes(n, t), m, 8).over_items is (over == "items")


def test_the_form_that_fits_into_memory_is_taken(free) -> None:
    sizes = Sizes(900_000, 1_000_000)
    assert not choose_layout(None, sizes, 128, 8).over_items
    free(16 * GIB // 3)  # three arrays of both do not fit, six of the items do
    assert choose_layout(None, sizes, 128, 8).over_items


def test_chunks_shrink_with_the_memory(free) -> None:
    plenty = choose_layout(None, Sizes(2000, 1000), 128, 8).chunk
    assert plenty == (96 << 20) // (2 * 128 * 8)
    free(GIB)
    assert choose_layout(None, Sizes(2000, 1000), 128, 8).chunk == GIB // 20 // (2 * 128 * 8)
    free(None)
    assert choose_layout(None, Sizes(2000, 1000), 128, 8).chunk == plenty


def test_the_choice_is_said_and_too_little_memory_too(free, caplog) -> None:
    with caplog.at_level(logging.DEBUG, logger="sparse_prefgp"):
        choose_layout(None, Sizes(10_000, 1_000_000), 256, 8)
    assert "over items: t = 1000000, n = 10000, m = 256, 0.11 GiB of 64.00 GiB" in caplog.text
    free(GIB // 2)
    with pytest.raises(MemoryError, match=r"take 1.2 GiB.*0.5 GiB are free.*StreamedGP"):
        choose_layout(None, Sizes(2_000_000, 1_000_000), 128, 8)


@pytest.mark.parametrize(
    ("n", "t", "m", "memory", "over_items", "chunk", "at_once"),
    [
        (10_000, 10_000_000, 128, 64 * GIB, True, 1 << 18, 4),
        (10_000, 10_000_000, 128, None, True, 1 << 18, 4),
        (10_000, 100_000, 128, 64 * GIB, True, 25_000, 4),  # a chunk for each thread
        (10_000, 30_000, 128, 64 * GIB, True, 1 << 14, 2),
        (1_000, 999, 4, 64 * GIB, False, 999, 1),  # more items than duels
        (None, 1_000_000, 128, 64 * GIB, False, (1 << 22) // 128, 4),  # features of their own
        (10**6, 10**7, 128, 8 * GIB, False, (1 << 22) // 128, 4),  # eight arrays take 7.6 GiB
        (10**6, 10**7, 128, 20 * GIB, True, 10**6, 2),  # for four threads it would be 13.4 GiB
        (10**6, 10**7, 128, 64 * GIB, True, 10**6, 4),
        (10**7, 10**8, 256, None, False, (1 << 22) // 256, 4),
        (None, 1_000_000, 4096, 64 * GIB, False, 1 << 12, 4),
        (None, 1_000_000, 4096, GIB, False, GIB // (16 * 10 * 4096), 1),
    ],
)
def test_forms_of_streams(free, monkeypatch, n, t, m, memory, over_items, chunk, at_once) -> None:
    monkeypatch.setattr(form_module, "usable_threads", lambda: 4)
    free(memory)
    form = choose_stream_layout(n, t, m, 1)
    assert (form.over_items, form.chunk, form.at_once) == (over_items, chunk, at_once)
    assert choose_stream_layout(n, t, m, 1, 17).chunk == 17


@pytest.mark.parametrize("n", [10_000, None])
def test_many_features_mean_shorter_chunks(free, monkeypatch, n: int | None) -> None:
    monkeypatch.setattr(form_module, "usable_threads", lambda: 4)
    free(4 * GIB)
    few, many = (choose_stream_layout(n, 10**7, 128, columns) for columns in (4, 768))
    assert many.over_items is few.over_items is (n is not None)
    assert many.at_once * many.chunk < few.at_once * few.chunk
    assert 4 * 768 * many.at_once * many.chunk <= 4 * GIB // 16 and many.bytes <= 2 * GIB


def test_threads_are_as_many_as_linear_algebra_takes() -> None:
    with threadpool_limits(1):
        assert machine.usable_threads() == 1


def test_features_in_chunks_are_those_of_the_whole() -> None:
    basis, graph = _basis(spg.Duels(*_distinct()))
    whole = features_of_duels(basis, graph, 100)
    parts = features_of_duels(basis, graph, 3)
    assert [len(x) for x in whole] == [8]
    assert [len(x) for x in parts] == [3, 3, 2]
    expected = differences(graph, basis.features(tf.constant(graph.rows)))
    np.testing.assert_allclose(whole[0], expected, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(tf.concat(parts, 0), expected, rtol=ROUNDING, atol=ROUNDING)
    assert len(features_of_duels(*_basis(random_duels(0, items=6, duels=20)), 1)) == 1


def _basis(duels: spg.Duels) -> tuple[Whitened, DuelGraph]:
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.Matern32(),
        approximation=spg.VFE(),
        inducing_variable=np.random.default_rng(1).normal(size=(3, 2)),
    )
    return whitened(model.problem()), model.graph


def _distinct() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    items = np.random.default_rng(0).normal(size=(16, 2))
    return items, np.arange(0, 16, 2), np.arange(1, 16, 2)


def test_cores_go_by_the_limit_of_the_container(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    for limit, cores in (("max 100000", 4), ("250000 100000", 3), ("50000 100000", 1)):
        (tmp_path / "cpu.max").write_text(limit + "\n")
        assert machine.usable_cores() == cores
    (tmp_path / "cpu.max").write_text("900000 100000\n")
    assert machine.usable_cores() == 4


def test_free_memory(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(machine, "_STATUS", tmp_path / "status")
    assert machine.free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert machine.free_memory() == 2 << 20
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1048576\n")
    assert machine.free_memory() == 2 << 20
    (tmp_path / "memory.max").write_text("2097152\n")
    assert machine.free_memory() == 1 << 20
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 524288\n")  # is given back
    assert machine.free_memory() == 3 << 19
    (tmp_path / "memory").mkdir()  # the first version
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("1310720\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text("1048576\n")
    assert machine.free_memory() == 1 << 18
    (tmp_path / "status").write_text("Name: x\nVmSize:  1000 kB\nVmData:   500 kB\n")
    limits = {machine.resource.RLIMIT_AS: 1100 << 10, machine.resource.RLIMIT_DATA: 550 << 10}
    monkeypatch.setattr(machine.resource, "getrlimit", lambda kind: (limits[kind], -1))
    assert machine.free_memory() == 50 << 10


def test_memory_is_asked_for_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(free: int | None, needed: int) -> None:
        monkeypatch.setattr(machine, "free_memory", lambda: free)
        machine.ask(needed, "Matrices", "give fewer")

    told(0, machine.ASKED_ABOVE)
    told(GIB, GIB)
    with pytest.raises(
        MemoryError, match=r"^Matrices take 2.0 GiB of memory, where 1.0 GiB are free; give fewer.$"
    ):
        told(GIB, 2 * GIB)
    with pytest.warns(UserWarning, match="Matrices take 2.0 GiB of memory, and nothing tells"):
        told(None, 2 * GIB)
