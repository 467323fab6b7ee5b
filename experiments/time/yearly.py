"""Football: results taken up in one pass, next to inference on all matches again each January.

The values are those that the training matches teach; slices are months.

    python experiments/time/yearly.py $SPARSE_PREFGP_DATA
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from football import KERNELS, Football, learned

import sparse_prefgp as spg


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    given = parser.parse_args()
    football = Football(given.data, draws=False)
    train, test = football.train, ~football.train
    first, took = learned(football.duels(train), KERNELS["wiener"]())
    print(took, flush=True)
    first = first.in_time.with_slices("month")
    begun = time.perf_counter()
    passed = spg.score_ahead(first, football.duels(test))
    print(f"one pass: {passed.nats:.5f} nats, {time.perf_counter() - begun:.1f} s", flush=True)
    year = football.day.astype("datetime64[D]").astype("datetime64[Y]").astype(int)
    kernel, nats, begun = first.kernel, [], time.perf_counter()
    for now in np.unique(year[test]):
        before = train | (year < now)
        model = spg.PreferenceGP(
            football.duels(before),
            spg.ItemInTime(kernel.kernel, slices="month"),
            approximation=spg.Exact(),
            terms=first.terms,
        )
        ahead = spg.score_ahead(model, football.duels(test & (year == now) & ~before))
        nats.append((ahead.nats, ahead.num_duels))
        print(f"  {now + 1970}: {ahead.nats:.4f} nats of {ahead.num_duels} matches", flush=True)
    each, counts = np.array(nats).T
    print(
        f"again each January: {np.average(each, weights=counts):.5f} nats, "
        f"{time.perf_counter() - begun:.0f} s"
    )
    whole = spg.PreferenceGP(
        football.duels(np.ones(len(train), bool)),
        spg.ItemInTime(kernel.kernel, slices="month"),
        approximation=spg.Exact(),
        terms=first.terms,
    )
    active = whole.in_time.active()
    ends = [
        each.predict_f(each.inputs.of_items(active)) for each in (passed.filtering.model, whole)
    ]
    (mean, _), (again, variance) = [[np.asarray(x).ravel() for x in end] for end in ends]
    apart = (mean - again) - (mean - again).mean()
    off = np.abs(apart) / np.sqrt(variance)
    print(
        f"ends of {len(active)} teams: {off.mean():.3f} sd apart on average, "
        f"{off.max():.3f} at most"
    )


if __name__ == "__main__":
    main()
