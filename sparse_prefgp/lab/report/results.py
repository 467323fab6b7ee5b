"""What studies left in their folders: runs by data, method and m, and their figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from sparse_prefgp.lab.ablation.execution import DONE
from sparse_prefgp.lab.ablation.runner import STUDY, read_about, read_records
from sparse_prefgp.lab.ablation.runs import BASELINES, COIN, NONE
from sparse_prefgp.lab.measures import MEASURES, Measure
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import spelt_like

Frame = Any  # a data frame or series of pandas, whose labels types cannot tell
SETTINGS = ("approximation", "engine", "inducing_inputs", "hyperparameters", "kernel")
# m of a method without inducing inputs.
NO_M = 0
POINT = ["data", "method", "m"]
APPROXIMATIONS = {
    "vfe": "VFE",
    "dtc": "DTC",
    "fitc": "FITC",
    "pitc": "PITC",
    "tight-vfe": "tight VFE",
    "tight-vfe-rank": "tight VFE (rank)",
    "tight-vfe-logdet": "tight VFE (log det)",
    "hetero-vfe": "heteroscedastic VFE",
    "prior-power": "prior power",
    "subset": "subset of",
    "linear-probit": "linear probit",
}
NUMBERED = {"pitc": " blocks", "subset": " duels"}
VALUES = {"ep": "EP", "laplace": "Laplace", "kmeans": "k-means"}


class Method(NamedTuple):
    """What is compared."""

    label: str
    """The approximation, and those settings by which two methods of one approximation differ."""
    settings: Mapping[str, str]
    """Values of `SETTINGS` by name."""
    has_m: bool
    """Whether it has inducing inputs."""

    @property
    def is_baseline(self) -> bool:
        return self.settings["approximation"] in BASELINES

    @property
    def is_coin(self) -> bool:
        return self.settings["approximation"] == COIN


@dataclass(frozen=True, eq=False)
class Results:
    """The results of one study or several."""

    studies: Sequence[Record]
    """Their configurations."""
    records: Sequence[Record]
    """What each run wrote of itself."""
    runs: Frame
    """One row a run: its settings, `status`, `reason`, `duels`, `items`, `name` (of the data set),
    and what it belongs to, `data`, `method` and `m`, the former two in the order of the studies."""
    methods: Mapping[str, Method]
    """By label, in the order of the studies."""

    @cached_property
    def figures(self) -> Frame:
        """Every figure of every run, by measure, data, method, m and seed; runs that differ in
        nothing else are averaged."""
        import pandas as pd

        metrics = pd.DataFrame([record["metrics"] for record in self.records])
        long = pd.concat([self.runs[[*POINT, "seed"]], metrics.astype(float)], axis=1).melt(
            [*POINT, "seed"], var_name="measure"
        )
        long = long.dropna(subset=["value"])
        return long.groupby(["measure", *POINT, "seed"], observed=True)["value"].mean()

    @cached_property
    def measures(self) -> list[Measure]:
        """Those that some run has, in the order of a report."""
        known = set(self.figures.index.get_level_values("measure"))
        return [measure for name, measure in MEASURES.items() if name in known]

    @property
    def data(self) -> list[str]:
        """Labels of data, in the order of the studies."""
        return list(self.runs["data"].cat.categories)

    def by_seed(self, measure: Measure, data: str | None = None) -> Frame:
        """A measure: a row for each data, method and m, or for each method and m of some data; a
        column for each seed, NaN where there is no figure."""
        wide = self.figures.loc[measure.name].unstack("seed")
        if data is None:
            return wide
        return wide.xs(data) if data in wide.index.get_level_values("data") else wide.iloc[:0]

    def measure(self, name: str) -> Measure:
        """The measure of that name.

        :raises ValueError: there is none; the message has the nearest name.
        """
        names = [measure.name for measure in self.measures]
        if name in names:
            return MEASURES[name]
        raise ValueError(f"The study has no metric {name!r}; {_hint(name, names)}.")

    def method(self, text: str) -> str:
        """The label of a method, found by it or by an approximation that only one method has.

        :raises ValueError: none or several; the message names those there are.
        """
        wanted = text.strip().casefold()
        named: dict[str, list[str]] = {}
        for label, method in self.methods.items():
            name = method.settings["approximation"]
            for called in {name, approximation_label(name).casefold()}:
                named.setdefault(called, []).append(label)
            named[label.casefold()] = [label]
        matching = named.get(wanted, [])
        if len(matching) > 1:
            several = ", ".join(map(repr, matching))
            raise ValueError(f"The method {text!r} can be any of {several}; give one of these.")
        if not matching:
            raise ValueError(f"The method {text!r} is unknown; {_hint(wanted, self.methods)}.")
        return matching[0]


def read_results(folders: Iterable[str | Path]) -> Results:
    """Read the results of studies.

    :param folders: those that `sparse-prefgp ablate` wrote to.
    :raises ValueError: no folder, one that holds no study or no finished run, a damaged record, one
        run in two of the folders.
    """
    import pandas as pd

    places = [Path(folder) for folder in folders]
    studies: list[Record] = []
    records: list[Record] = []
    for place in places:
        if not (place / STUDY).is_file():
            what = f"holds no {STUDY}" if place.exists() else "does not exist"
            raise ValueError(
                f"{str(place)!r} {what}; give a folder that sparse-prefgp ablate wrote to."
            )
        studies.append(read_about(place)["study"])
        records += read_records(place).values()
    named = " and ".join(repr(str(place)) for place in places)
    if not any(record["status"] == DONE for record in records):
        why = f", the first for this reason: {records[0]['reason']}" if records else "."
        raise ValueError(f"There is no run in {named} that has succeeded{why}")
    runs = pd.DataFrame(records)
    for run in runs.loc[runs.duplicated(["study", "run"]), "run"]:
        raise ValueError(f"The run {run!r} is there twice in {named}; give one of them.")
    runs["name"] = runs["data"]
    methods = _methods(runs)
    for column, labels in (("method", [one.label for one in methods]), ("data", _data(runs))):
        runs[column] = pd.Categorical(labels, list(dict.fromkeys(labels)))
    runs["m"] = runs["inducing"].fillna(NO_M).astype(int)
    return Results(studies, records, runs, {method.label: method for method in methods})


def _hint(name: str, names: Iterable[str]) -> str:
    near = spelt_like(name, names)
    return f"{f'did you mean {near!r}? It' if near else 'it'} has {', '.join(map(repr, names))}"


def approximation_label(name: str) -> str:
    """`prior-power:0.5` becomes "prior power 0.5", `subset:1000` "subset of 1,000 duels"."""
    head, _, number = name.partition(":")
    words = APPROXIMATIONS.get(head, head)
    if not number:
        return words
    counted = f"{int(number):,}" if number.isdecimal() else number
    return f"{words} {counted}{NUMBERED.get(head, '')}"


def setting_label(name: str, value: str) -> str:
    """A value of a setting for people."""
    return approximation_label(value) if name == "approximation" else VALUES.get(value, value)


def _methods(runs: Frame) -> list[Method]:
    """Of each run its method."""
    per_approximation = runs.groupby("approximation")[list(SETTINGS[1:])].nunique().max()
    shown = [name for name in SETTINGS[1:] if per_approximation[name] > 1]
    if runs["approximation"].nunique() > 1 or not shown:
        shown = ["approximation", *shown]
    has_m = runs["inducing"].notna().groupby([runs[name] for name in SETTINGS]).transform("any")
    methods = []
    for settings, with_m in zip(runs[list(SETTINGS)].to_dict("records"), has_m, strict=True):
        words = [setting_label(name, settings[name]) for name in shown if settings[name] != NONE]
        methods.append(Method(", ".join(words), settings, with_m))
    return methods


def _data(runs: Frame) -> list[str]:
    """Of each run the label of its duels: the set, and what is not the same of all of its runs."""
    splits = runs.groupby("name")["split"].transform("nunique")
    sizes = runs["max_train"].fillna(0)
    varied = sizes.groupby([runs["name"], runs["split"]]).transform("nunique")
    duels = runs["duels"].groupby([runs["name"], runs["split"], sizes]).transform("median")
    return [
        f"{name}{f', {split}' if several > 1 else ''}{f', t = {t:,.0f}' if many > 1 else ''}"
        for name, split, several, t, many in zip(
            runs["name"], runs["split"], splits, duels, varied, strict=True
        )
    ]
