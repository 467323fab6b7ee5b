"""Which runs belong together: methods, panels of equal data, values by seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sparse_prefgp.analysis.metrics import CalibrationBin
from sparse_prefgp.lab.layout import FAILED
from sparse_prefgp.lab.report.reading import Results
from sparse_prefgp.lab.report.vocabulary import ReportedMetric, approximation_label, setting_label
from sparse_prefgp.support.words import spelt_like

if TYPE_CHECKING:
    import pandas as pd

SETTINGS = ("approximation", "engine", "inducing_inputs", "hyperparameters", "kernel")
EXACT, SUBSET, COIN = "exact", "subset", "coin"
BASELINES = ("linear-probit", COIN)
NOTHING = ("", "none")  # what a setting says that a method does not have
# Sizes that differ by less between runs are one size: splits by item keep more or fewer duels.
SAME_SIZE = 1.25


@dataclass(frozen=True)
class Method:
    """What is compared."""

    label: str
    settings: tuple[str, ...]
    """Values of `SETTINGS`, without those of a baseline."""
    has_m: bool
    """Whether it has inducing inputs."""

    @property
    def approximation(self) -> str:
        return self.settings[0]

    @property
    def is_exact(self) -> bool:
        return self.approximation == EXACT

    @property
    def is_baseline(self) -> bool:
        return self.approximation in BASELINES

    @property
    def is_coin(self) -> bool:
        return self.approximation == COIN

    def agrees(self, settings: Mapping[str, str]) -> bool:
        """Whether it has these settings, as far as it has them at all."""
        own = dict(zip(SETTINGS, self.settings, strict=True))
        return all(own[name] in (value, *NOTHING) for name, value in settings.items())


@dataclass(frozen=True)
class Panel:
    """Runs on equal data: name of the set, split, and training duels where these were varied."""

    label: str
    data: str
    split: str
    duels: int | None = None


@dataclass(frozen=True)
class Key:
    """Of a point of a curve: m is None without inducing inputs."""

    panel: Panel
    method: Method
    m: int | None


# Values by seed.
BySeed = dict[int, float]


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Results by panel, method and m."""

    methods: tuple[Method, ...]
    """In the order of the study."""
    panels: tuple[Panel, ...]
    """In the order of the study."""
    cells: Mapping[str, Mapping[Key, BySeed]]
    """Of each metric, the values by seed; a value that is not finite is there as NaN."""
    failed: Mapping[Key, frozenset[int]]
    """Seeds of failed runs."""
    duels: Mapping[Key, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What there is to know."""
    bins: Mapping[Key, Mapping[int, Sequence[tuple[CalibrationBin, ...]]]] = field(
        default_factory=dict
    )
    """Of the calibration, by seed those of each of its runs."""

    @cached_property
    def _ms(self) -> dict[tuple[str, Panel, Method], list[int | None]]:
        found: dict[tuple[str, Panel, Method], list[int | None]] = {}
        for name, cells in self.cells.items():
            for key in cells:
                found.setdefault((name, key.panel, key.method), []).append(key.m)
        return found

    def ms(self, metric: ReportedMetric, panel: Panel, method: Method) -> list[int | None]:
        """The m at which a method has a metric, None for a method without inducing inputs."""
        return self._ms.get((metric.name, panel, method), [])

    def has(self, metric: ReportedMetric, method: Method) -> bool:
        """Whether a method has a metric anywhere."""
        return any(self.ms(metric, panel, method) for panel in self.panels)

    def method(self, text: str) -> Method:
        """The method of that label, or of that approximation where only one has it.

        :raises ValueError: none or several; the message names those there are.
        """
        wanted = text.strip().casefold()
        labels = [method.label for method in self.methods]
        found = [method for method in self.methods if method.label.casefold() == wanted]
        found = found or [
            method
            for method in self.methods
            if wanted
            in (method.approximation, approximation_label(method.approximation).casefold())
        ]
        if len(found) == 1:
            return found[0]
        if found:
            several = ", ".join(repr(method.label) for method in found)
            raise ValueError(f"The method {text!r} can be any of {several}; give one of these.")
        near = spelt_like(wanted, labels)
        hint = "" if near is None else repr(near)
        known = ", ".join(map(repr, labels))
        raise ValueError(
            f"The method {text!r} is unknown; {f'did you mean {hint}? ' if hint else ''}"
            f"{'It has' if hint else 'it has'} {known}."
        )


def arrange(results: Results) -> Arrangement:
    """Sort runs into panels and methods.

    A label names the approximation, unless all have the same, and every other setting by which two
    methods of one approximation differ. Values of runs that differ in nothing that the results tell
    are averaged, and a note says so.
    """
    runs = results.runs.reset_index(drop=True)
    settings = [_settings(row) for row in runs[list(SETTINGS)].itertuples(index=False, name=None)]
    with_m = {own for own, m in zip(settings, runs["inducing"], strict=True) if np.isfinite(m)}
    methods = _methods(list(dict.fromkeys(settings)), with_m)
    panels = _panels(runs)
    keys = [
        Key(panel, methods[own], None if np.isnan(m) else int(m))
        for panel, own, m in zip(panels, settings, runs["inducing"], strict=True)
    ]
    place = {pair: i for i, pair in enumerate(zip(runs["study"], runs["run"], strict=True))}
    seeds = runs["seed"].astype(int).to_list()
    lists: dict[str, dict[Key, dict[int, list[float]]]] = {}
    values = results.values
    columns = [values[name].to_list() for name in ("study", "run", "metric", "value")]
    for study, run, metric, value in zip(*columns, strict=True):
        i = place[study, run]
        by_seed = lists.setdefault(metric, {}).setdefault(keys[i], {})
        by_seed.setdefault(seeds[i], []).append(value if np.isfinite(value) else np.nan)
    failed: dict[Key, set[int]] = {}
    for i in np.flatnonzero(runs["status"] == FAILED):
        failed.setdefault(keys[i], set()).add(seeds[i])
    sizes: dict[Key, list[float]] = {}
    for key, size in zip(keys, runs["duels"], strict=True):
        if np.isfinite(size):
            sizes.setdefault(key, []).append(size)
    bins: dict[Key, dict[int, list[tuple[CalibrationBin, ...]]]] = {}
    for pair, own in results.bins.items():
        i = place[pair]
        bins.setdefault(keys[i], {}).setdefault(seeds[i], []).append(own)
    with_values = {key.panel for cells in lists.values() for key in cells}
    return Arrangement(
        tuple(dict.fromkeys(key.method for key in keys)),
        # Where every run failed there is nothing to draw.
        tuple(panel for panel in dict.fromkeys(panels) if panel in with_values),
        {
            name: {
                key: {seed: float(np.mean(values)) for seed, values in by_seed.items()}
                for key, by_seed in cells.items()
            }
            for name, cells in lists.items()
        },
        {key: frozenset(found) for key, found in failed.items()},
        {key: float(np.mean(values)) for key, values in sizes.items()},
        _repeats(keys, seeds, runs["run"].to_list()),
        bins,
    )


def _settings(values: Sequence[str]) -> tuple[str, ...]:
    """As they are; of a baseline only its name, whatever the runs next to it were."""
    return (values[0], "", "", "", "") if values[0] in BASELINES else tuple(values)


def _methods(
    all_settings: Sequence[tuple[str, ...]], with_m: Collection[tuple[str, ...]]
) -> dict[tuple[str, ...], Method]:
    shown = [
        position
        for position in range(1, len(SETTINGS))
        if any(
            len(_values_of(all_settings, name, position)) > 1
            for name in {settings[0] for settings in all_settings}
        )
    ]
    several = len({settings[0] for settings in all_settings}) > 1 or not shown
    methods = {}
    for settings in all_settings:
        parts = [approximation_label(settings[0])] if several else []
        parts += [setting_label(settings[i]) for i in shown if settings[i] not in NOTHING]
        methods[settings] = Method(", ".join(parts) or "no setting", settings, settings in with_m)
    return methods


def _values_of(all_settings: Sequence[tuple[str, ...]], name: str, position: int) -> set[str]:
    return {settings[position] for settings in all_settings if settings[0] == name}


def _panels(runs: pd.DataFrame) -> list[Panel]:
    """The panel of every run."""
    panels: list[Panel | None] = [None] * len(runs)
    for (data, split), part in runs.groupby(["data", "split"], sort=False):
        several = runs.loc[runs["data"] == data, "split"].nunique() > 1
        label = f"{data}, {split}" if several else str(data)
        sizes = part["duels"].to_numpy()
        levels = _levels(sizes) if _sizes_were_varied(part) else {}
        for row, size in zip(part.index, sizes, strict=True):
            duels = levels.get(size)
            with_size = label if duels is None else f"{label}, t = {duels:,}"
            panels[row] = Panel(with_size, str(data), str(split), duels)
    assert all(panel is not None for panel in panels)
    return [panel for panel in panels if panel is not None]


def _sizes_were_varied(runs: pd.DataFrame) -> bool:
    """Whether one method with one m and one seed was run on different numbers of duels."""
    whole = runs[~runs["approximation"].str.startswith((SUBSET, *BASELINES))]
    same = [*SETTINGS, "inducing", "seed"]
    spread = whole.groupby(same, dropna=False)["duels"].agg(["min", "max"])
    return bool((spread["max"] > SAME_SIZE * spread["min"]).any())


def _levels(sizes: np.ndarray) -> dict[float, int]:
    """Each size by the median of those near it; a gap begins another level."""
    known = sorted({float(size) for size in sizes if np.isfinite(size)})
    groups: list[list[float]] = [known[:1]]
    for before, size in pairwise(known):
        if size > SAME_SIZE * before:
            groups.append([])
        groups[-1].append(size)
    return {size: round(float(np.median(group))) for group in groups for size in group}


def _repeats(keys: Sequence[Key], seeds: Sequence[int], runs: Sequence[str]) -> tuple[str, ...]:
    first: dict[tuple[Key, int], str] = {}
    again = []
    for key, seed, run in zip(keys, seeds, runs, strict=True):
        if key.method.is_baseline:  # the same whatever it stands next to
            continue
        other = first.setdefault((key, seed), run)
        if other != run:
            again.append((other, run))
    if not again:
        return ()
    one, two = again[0]
    return (
        f"{len(again):,} runs differ from others in nothing that the results tell, such as {two!r} "
        f"from {one!r}; their values are averaged within a seed.",
    )
