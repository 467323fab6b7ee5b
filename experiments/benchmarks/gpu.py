"""Sweep, gradient and fit on a GPU, in double precision, next to the same on the processor.

python -m experiments.benchmarks.gpu

Ends within `BUDGET` seconds: each place and size is measured in a process of its own, which is
ended when the time is up; what was not measured by then, or does not fit, is said to be so.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any

import tensorflow as tf

import sparse_prefgp as spg
from experiments.benchmarks.scaling import gradient_seconds
from experiments.benchmarks.shared import (
    NOISE_VARIANCE,
    Measured,
    main,
    make_problem,
    median_seconds,
    seconds,
    some_items,
    true_kernel,
)
from experiments.benchmarks.sweep import compiled_sweep, settled
from sparse_prefgp.tell.tables import Column, Table

BUDGET = 450.0
SIZES = [(t, m) for m in (256, 1_024) for t in (100_000, 1_000_000)]
QUICK = [(1_000, 16)]
ITEMS_EACH = 20  # duels to an item
ITERATIONS = 20
GPU, PROCESSOR = "GPU", "CPU"
MEASURES = ("sweep", "gradient", "fit")


def measure(sizes: list[tuple[int, int]], budget: float = BUDGET) -> Measured:
    """All sizes on the card, then on the processor while time is left."""
    ends = time.perf_counter() + budget
    card = in_time(card_name, ends)
    places = (GPU, PROCESSOR) if card else (PROCESSOR,)
    if not card:
        print("There is no GPU that TensorFlow sees: no GPU was measured.", flush=True)
    rows = []
    for place in places:
        for t, m in sizes:
            found = dict(in_time(each_measure, ends, place, t, m))
            rows.append({"place": place, "t": t, "m": m, **dict.fromkeys(MEASURES), **found})
    table = Table(
        "gpu",
        f"On {card[0][1]} and on the processor" if card else "On the processor; no GPU",
        (
            Column("place", "on", left=True),
            Column("t", "duels", ",d"),
            Column("m", "m", ",d"),
            *(Column(name, f"{name}, s", taken_text) for name in MEASURES),
        ),
        rows,
        f"Double precision; t / {ITEMS_EACH} items; a compiled sweep, evidence with gradient, and "
        f"{ITERATIONS} iterations of a fit, compilation included.",
    )
    return table, {"card": card[0][1] if card else None, "rows": rows, "budget": budget}


def taken_text(value: float | str | None) -> str:
    return "not measured" if value is None else value if isinstance(value, str) else f"{value:.3f}"


def in_time(function: Any, ends: float, *given: Any) -> list[tuple[str, Any]]:
    """What it sends from a process of its own, which is ended when the time is up."""
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=function, args=(writer, *given))
    process.start()
    writer.close()
    found = []
    try:
        while reader.poll(max(ends - time.perf_counter(), 0.0)):
            found.append(reader.recv())
    except EOFError:  # it has ended
        pass
    process.kill()
    process.join()
    return found


def card_name(send: Connection) -> None:
    for device in tf.config.list_physical_devices(GPU)[:1]:
        details = tf.config.experimental.get_device_details(device)
        send.send(("card", details.get("device_name", device.name)))


def each_measure(send: Connection, place: str, t: int, m: int) -> None:
    """Sends a time of each, one after the other, until memory does not suffice."""
    if place == PROCESSOR:
        tf.config.set_visible_devices([], GPU)
    duels = make_problem(t, max(t // ITEMS_EACH, 2 * m)).duels
    model = spg.PreferenceGP(
        duels,
        true_kernel(),
        inducing_variable=some_items(duels.items, m),
        noise_variance=NOISE_VARIANCE,
    )
    ways = {
        "sweep": lambda: median_seconds(compiled_sweep(*settled(duels, m, "items")[1:]), 3),
        "gradient": lambda: gradient_seconds(model),
        "fit": lambda: seconds(lambda: spg.optimise(model, ITERATIONS, least_gain=None)),
    }
    for name, way in ways.items():
        try:
            send.send((name, way()))
        except (tf.errors.ResourceExhaustedError, MemoryError):
            send.send((name, "does not fit"))


if __name__ == "__main__":
    main(__doc__, lambda quick: measure(QUICK, 120.0) if quick else measure(SIZES))
