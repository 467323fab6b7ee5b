"""What a sweep over football costs, by the size of the slices.

    python experiments/time/cost.py $SPARSE_PREFGP_DATA

N numbers are on the frontier of a slice, p of them are of its items; `sum pN²` is what a sweep
should cost.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from football import KERNELS, Football

import sparse_prefgp as spg
from sparse_prefgp.approximations.in_time import plan_of
from sparse_prefgp.covariances.item_in_time import beside_time

SWEEPS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    given = parser.parse_args()
    football = Football(given.data, draws=False)
    duels = football.duels(football.train)
    print("slices   steps  N mean/max     p   sum pN²   s a sweep   ns per pN²   MB kept")
    for slices in ("year", "quarter", "month", "week", "day"):
        engine = spg.ParallelEP(max_sweeps=SWEEPS, tolerance=1e-30)
        kernel = KERNELS["wiener"]()
        model = spg.PreferenceGP(
            duels, spg.ItemInTime(kernel, slices=slices), approximation=spg.Exact(), engine=engine
        )
        terms = beside_time(model.problem().kernel)
        assert terms is not None
        plan = plan_of(model.graph, terms)
        size, moved = plan.sizes
        work = float(np.sum(moved * size.astype(float) ** 2))
        taken = []
        for _ in range(2):  # the first compiles
            begun = time.perf_counter()
            model.infer(restart=True)
            taken.append((time.perf_counter() - begun) / SWEEPS)
        print(
            f"{slices:8} {len(plan.steps):5,} {size.mean():6.0f} / {size.max():3} "
            f"{moved.mean():6.1f}   {work:.1e} {taken[1]:10.2f} {1e9 * taken[1] / work:12.2f}"
            f" {plan.num_bytes() / 1e6:9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
