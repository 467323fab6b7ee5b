"""Means over paired seeds, and paired differences."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

from scipy.special import stdtrit

from sparse_prefgp.lab.measures import NEITHER, Measure
from sparse_prefgp.lab.report.results import NO_M, POINT, Frame, Results

LEVEL = 0.95


class Difference(NamedTuple):
    """A paired comparison: first less second, on a data set, or over several of them, each once."""

    data: str
    first_m: int
    second_m: int
    measure: Measure
    mean: float
    error: float
    """Standard error of the mean."""
    interval: tuple[float, float]
    """Of `LEVEL`, by Student's t; NaN with fewer than two pairs."""
    pairs: int
    """How many seeds (data sets) both have."""
    won: int
    """By the first; ties are neither."""
    lost: int
    unmatched: tuple[int, ...]
    """Seeds that only one of them has."""

    @property
    def m(self) -> int:
        """Of the one that has inducing inputs."""
        return max(self.first_m, self.second_m)


def paired_seeds(by_seed: Frame) -> tuple[list[int], list[Any]]:
    """Seeds (columns) that rows have in common, and the labels of these rows.

    Rows with the fewest seeds are left out, one after the other, until at least half of all seeds
    are common to the rest: one point that mostly failed must not take its seeds from all others.
    """
    known = by_seed.notna()
    known = known[known.any(axis=1)]
    everything = int(known.any().sum())
    while len(known):
        common = known.columns[known.all()]
        if 2 * len(common) >= everything:
            return list(common), list(known.index)
        known = known.drop(known.sum(axis=1).idxmin())
    return [], []


def points_of(results: Results, measure: Measure) -> Frame:
    """Means over seeds that are paired within each data set, by data, method and m.

    Columns are `mean`, `error` (its standard error), `seeds`, `missing` (seeds that others have)
    and `paired`, False where a point has seeds of its own. One whose runs all failed has no seeds.
    """
    import pandas as pd

    rows: dict[tuple[str, str, int], list[Any]] = {}
    place = {label: number for number, label in enumerate(results.methods)}
    for data in results.data:
        by_seed = results.by_seed(measure, data)
        methods = set(by_seed.index.get_level_values("method"))
        tried = results.runs[(results.runs["data"] == data) & results.runs["method"].isin(methods)]
        failed = set(zip(tried["method"], tried["m"], strict=True))
        common, together = paired_seeds(by_seed)
        everything = set(by_seed.columns[by_seed.notna().any()])
        order = sorted(failed | set(by_seed.index), key=lambda own: (place[own[0]], own[1]))
        for own in order if everything else ():
            values = by_seed.loc[own].dropna() if own in by_seed.index else pd.Series(dtype=float)
            paired = own in together
            seeds = common if paired else list(values.index)
            missing = tuple(sorted(everything - set(values.index)))
            values = values[seeds]
            rows[data, *own] = [values.mean(), values.sem(), tuple(seeds), missing, paired]
    columns = ["mean", "error", "seeds", "missing", "paired"]
    index = pd.MultiIndex.from_tuples(rows, names=POINT)
    return pd.DataFrame(rows.values(), index if rows else None, columns)


def notes_of(points: Frame) -> list[str]:
    """What is missing among the points of a measure, and what that did to the others."""
    notes = []
    for data, own in points.groupby(level="data", sort=False):
        empty = own["seeds"].map(len) == 0
        short, alone = own[own["paired"] & (own["missing"].map(len) > 0)], ~own["paired"] & ~empty
        seeds = sorted({seed for missing in short["missing"] for seed in missing})
        if empty.any():
            notes.append(f"{data}: no value for {_listed(own[empty])}.")
        if seeds:
            numbers = ", ".join(map(str, seeds))
            notes.append(f"{data}: without seeds {numbers}, missing for {_listed(short)}.")
        if alone.any():
            notes.append(f"{data}: over fewer seeds than the others: {_listed(own[alone])}.")
    return notes


def _listed(points: Frame, most: int = 3) -> str:
    names = [method + (f" at m = {m:,}" if m else "") for _, method, m in points.index]
    more = len(names) - most
    return "; ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def best_of(by_seed: Frame, better: int) -> set[Any]:
    """Labels of the best row by mean over common seeds, and of those within one paired standard
    error of it; none where neither way is better, or nothing to compare."""
    common, together = paired_seeds(by_seed)
    if better == NEITHER or len(together) < 2:
        return set()
    rivals = better * by_seed.loc[together, common]
    behind = rivals.loc[rivals.mean(axis=1).idxmax()] - rivals
    return set(behind.index[behind.mean(axis=1) <= behind.sem(axis=1).fillna(0.0)])


def largest_common_m(by_seed: Frame) -> dict[str, int]:
    """For each method the m to compare at: the largest that all have which have any, or, where
    they have none in common, the largest of its own."""
    known: dict[str, set[int]] = {}
    for method, m in by_seed.dropna(how="all").index:
        known.setdefault(method, set()).add(m)
    with_m = [ms for ms in known.values() if ms != {NO_M}]
    common = set.intersection(*with_m) if with_m else set()
    return {method: NO_M if ms == {NO_M} else max(common or ms) for method, ms in known.items()}


def differences(results: Results, measure: Measure, first: str, second: str) -> list[Difference]:
    """First less second on the same seeds of the same data, for every m that both have.

    A method without inducing inputs is compared with every m of the other. Where there are several
    data sets and the measure has one scale on all, a row for all of them follows, in which the mean
    over the seeds of each counts once. Sizes or splits of one data set share its duels and are not
    independent, so that such a row holds one size and one split.
    """
    import pandas as pd

    rows: dict[tuple[int, int], list[Difference]] = {}
    for data in results.data:
        by_seed = results.by_seed(measure, data)
        for (a, one), (b, other) in product(by_seed.index, repeat=2):
            if (a, b) == (first, second) and (one == other or NO_M in (one, other)):
                pair = by_seed.loc[[(first, one), (second, other)]]
                both = pair.dropna(axis=1)
                unmatched = tuple(map(int, pair.columns[pair.notna().sum() == 1]))
                apart = both.iloc[0] - both.iloc[1]
                rows.setdefault((one, other), []).append(
                    _difference(data, (one, other), measure, apart, unmatched)
                )
    names = dict(zip(results.runs["data"], results.runs["name"], strict=True))
    ordered = []
    for ms, own in sorted(rows.items()):
        ordered += own
        # Means of the data sets, for each split and size that several of them have.
        means: dict[str, list[float]] = {}
        for row in own if measure.on_one_scale else ():
            if row.pairs:
                means.setdefault(row.data.removeprefix(names[row.data]), []).append(row.mean)
        for condition, each in means.items():
            if len(each) > 1:
                where = f"{len(each)} data sets, each once{condition}"
                ordered.append(_difference(where, ms, measure, pd.Series(each)))
    return ordered


def _difference(
    data: str, ms: tuple[int, int], measure: Measure, apart: Frame, unmatched: tuple[int, ...] = ()
) -> Difference:
    mean, error = float(apart.mean()), float(apart.sem())
    half = float(stdtrit(max(len(apart) - 1, 1), 0.5 + LEVEL / 2)) * error
    won, lost = (int((sign * measure.better * apart > 0).sum()) for sign in (1, -1))
    ends = (mean - half, mean + half)
    return Difference(data, *ms, measure, mean, error, ends, len(apart), won, lost, unmatched)
