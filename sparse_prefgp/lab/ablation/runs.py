"""From a study to its runs, each with a name that nothing else in the study changes."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from sparse_prefgp.lab.ablation.study import FIXED, Study, file_name
from sparse_prefgp.workflow.kernel_names import KernelChoice
from sparse_prefgp.workflow.model_names import ApproximationChoice, EngineChoice

LINEAR_PROBIT, COIN = BASELINES = ("linear-probit", "coin")
NONE = "none"  # what a run does not have: a baseline its kernel, an exact model its inducing inputs


class RunSettings(NamedTuple):
    """What one run is."""

    data: str
    split: str
    max_train: int | None
    """At most so many training duels; None is all."""
    seed: int
    approximation: str
    kernel: str = NONE
    engine: str = NONE
    inducing: int | None = None
    """m, None without inducing inputs."""
    inducing_inputs: str = NONE
    hyperparameters: str = NONE

    @property
    def is_baseline(self) -> bool:
        return self.approximation in BASELINES

    @property
    def is_fixed(self) -> bool:
        return self.hyperparameters == FIXED

    @property
    def is_exact_ep(self) -> bool:
        return self.approximation == "exact" and self.engine == "ep"

    @property
    def name(self) -> str:
        """Such as `boston-se-vfe-ep-m32-kmeans-joint-s0`; also the name of the record's file."""
        m = NONE if self.inducing is None else f"m{self.inducing}"
        t = NONE if self.max_train is None else f"t{self.max_train}"
        parts = [self.data, self.kernel, self.approximation, self.engine, m, self.inducing_inputs]
        parts += [self.hyperparameters, t, f"s{self.seed}"]
        return "-".join(file_name(part) for part in parts if part != NONE)


class ReferenceKey(NamedTuple):
    """An exact model: its kernel, training size and seed."""

    kernel: str
    max_train: int | None
    seed: int
    at: bool = False
    """It has the values under `at`; otherwise its hyperparameters were learned."""

    @property
    def name(self) -> str:
        """Of the file that keeps it."""
        at = "-at" if self.at else ""
        t = "" if self.max_train is None else f"-t{self.max_train}"
        return file_name(f"{self.kernel}{at}{t}-s{self.seed}")


def reference_of(study: Study, run: RunSettings) -> ReferenceKey | None:
    """Which exact model a run is compared with and may have its hyperparameters from.

    That of the values under `at` for fixed runs, where there are some; else the learned one; None
    for a baseline, or where the study has none.
    """
    if not study.exact_reference or run.is_baseline:
        return None
    at = study.at is not None and run.is_fixed
    return ReferenceKey(run.kernel, run.max_train, run.seed, at)


def expand(study: Study) -> tuple[RunSettings, ...]:
    """All runs of a study; those of the same duels and exact model one after another.

    Combinations that differ in nothing that matters are one run: there is no m, and no way to
    choose inducing inputs, for `exact` and `subset`.
    """
    runs: list[RunSettings] = []
    sizes: list[int | None] = [*sorted(study.split.max_train)] or [None]
    for seed, size in itertools.product(sorted(study.seeds), sizes):
        duels = (study.data.label, study.split.by, size, seed)
        if study.baselines:
            runs += [RunSettings(*duels, name) for name in BASELINES]
        for kernel, hyperparameters, approximation, engine in itertools.product(
            sorted(str(KernelChoice.parse(text)) for text in study.kernels),
            study.hyperparameters,
            map(ApproximationChoice.parse, study.approximations),
            [str(EngineChoice.parse(text)) for text in study.engines],
        ):
            places: list[tuple[int | None, str]] = [(None, NONE)]
            if approximation.needs_inducing:
                places = [*itertools.product(study.inducing, study.inducing_inputs)]
            runs += [
                RunSettings(*duels, str(approximation), kernel, engine, *place, hyperparameters)
                for place in places
            ]
    return tuple(runs)
