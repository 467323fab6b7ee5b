"""A sweep over answers about sets, next to one over as many rows of duels.

python -m experiments.benchmarks.sets
"""

from __future__ import annotations

import numpy as np

import sparse_prefgp as spg
from experiments.benchmarks.shared import (
    FEATURES,
    NOISE_VARIANCE,
    Measured,
    in_turns,
    main,
    milliseconds,
    random_utility,
)
from experiments.benchmarks.sweep import compiled_sweep, settled
from sparse_prefgp.data.answers import CHOICE, RANKING, WIN, Answers
from sparse_prefgp.tell.tables import Column, Table


def measure(count: int, n: int, m: int, repeats: int) -> Measured:
    """Sweeps in turns, so that what else the machine does meets all alike."""
    said = {
        "duels": (answers(WIN, 3 * count, 2, n), None),
        "choices of 4": (answers(CHOICE, count, 4, n), None),
        "rankings of 4": (answers(RANKING, count, 4, n), None),
        "choices of 4, in blocks of rows": (answers(CHOICE, count, 4, n), "duels"),
    }
    ready = {name: settled(duels, m, over) for name, (duels, over) in said.items()}
    taken = in_turns({name: compiled_sweep(*one[1:]) for name, one in ready.items()}, repeats)
    medians = {name: float(np.median(values)) for name, values in taken.items()}
    rows = [
        {
            "answers": name,
            "sites": len(ready[name][2].tau),
            "seconds": value,
            "ratio": value / medians["duels"],
        }
        for name, value in medians.items()
    ]
    table = Table(
        "sets",
        f"One sweep over {3 * count:,} rows, {n:,} items, {m} inducing inputs",
        (
            Column("answers", "answers", left=True),
            Column("sites", "sites", ",d"),
            Column("seconds", "time", milliseconds),
            Column("ratio", "of duels", ".2f"),
        ),
        rows,
        f"Medians of {repeats}, compiled, in turns; VFE.",
    )
    return table, {"n": n, "m": m, "rows": rows}


def answers(kind: int, count: int, size: int, n: int, seed: int = 0) -> spg.Duels:
    """Answers about sets of different items, each with one noise for each alternative of a look."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n, FEATURES))
    utility = random_utility(rng)(items)
    drawn = rng.integers(n, size=(count, size))
    while len(again := np.flatnonzero(np.any(np.diff(np.sort(drawn, 1)) == 0, 1))):
        drawn[again] = rng.integers(n, size=(len(again), size))
    noisy = utility[drawn] + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(drawn.shape)
    sides = np.take_along_axis(drawn, np.argsort(-noisy, 1), 1)
    events = Answers(
        sides.reshape(-1),
        np.arange(count + 1) * size,
        kind=np.full(count, kind, np.int8),
    )
    return spg.Duels.from_events(items, events)


if __name__ == "__main__":
    main(
        __doc__, lambda quick: measure(300, 60, 16, 3) if quick else measure(20_000, 1_000, 128, 15)
    )
