"""From a study to its runs, each with a name that nothing else in the study changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sparse_prefgp.lab.ablation.configuration import FIXED, LEARNED, Study, safe_name
from sparse_prefgp.workflow.kernel_names import KernelChoice
from sparse_prefgp.workflow.model_names import ApproximationChoice, EngineChoice

LINEAR_PROBIT, COIN = BASELINES = ("linear-probit", "coin")
NONE = "none"


@dataclass(frozen=True)
class RunSettings:
    """What one run is."""

    data: str
    split: str
    kernel: str
    approximation: str
    engine: str
    inducing: int | None
    """m, None without inducing inputs."""
    inducing_inputs: str
    """The way to choose them, or `none`."""
    hyperparameters: str
    """`fixed` or `joint`."""
    max_train: int | None
    """At most so many training duels; None is all. Baselines have `none` for kernel, engine and
    hyperparameters.
    """
    seed: int

    @property
    def is_baseline(self) -> bool:
        """Whether no Gaussian process is fitted."""
        return self.approximation in BASELINES

    @property
    def learns_inputs(self) -> bool:
        """Whether inducing inputs move."""
        return self.inducing_inputs == LEARNED

    @property
    def is_fixed(self) -> bool:
        """Whether the hyperparameters are given."""
        return self.hyperparameters == FIXED

    @property
    def name(self) -> str:
        """Such as `boston-se-vfe-ep-m32-kmeans-joint-s0`; also the name of the record's file."""
        m = "" if self.inducing is None else f"m{self.inducing}"
        t = "" if self.max_train is None else f"t{self.max_train}"
        parts = [self.data, self.kernel, self.approximation, self.engine, m, self.inducing_inputs]
        parts += [self.hyperparameters, t, f"s{self.seed}"]
        return "-".join(safe_name(part) for part in parts if part not in ("", NONE))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ReferenceKey:
    """An exact model: its kernel, training size and seed."""

    kernel: str
    max_train: int | None
    seed: int
    at: bool = False
    """it has the values under `at`; otherwise its hyperparameters were learned."""

    @property
    def name(self) -> str:
        """Of the file that keeps it."""
        at = "-at" if self.at else ""
        t = "" if self.max_train is None else f"-t{self.max_train}"
        return f"{self.kernel}{at}{t}-s{self.seed}"


def reference_of(study: Study, run: RunSettings) -> ReferenceKey:
    """Which exact model a run is compared with and may have its hyperparameters from.

    That of the values under `at` for fixed runs, where there are some; else the learned one.
    """
    at = study.at is not None and run.is_fixed
    return ReferenceKey(run.kernel, run.max_train, run.seed, at)


def expand(study: Study) -> tuple[RunSettings, ...]:
    """All runs, those that share training duels and exact model after one another.

    Combinations that differ in nothing that matters are one run: there is no m, and no way to
    choose inducing inputs, for `exact` and `subset`.
    """
    found: list[RunSettings] = []
    sizes: list[int | None] = [*sorted(study.split.max_train)] or [None]
    for seed, size in itertools.product(sorted(study.seeds), sizes):
        common: dict[str, Any] = {
            "data": study.data.label,
            "split": study.split.by,
            "max_train": size,
            "seed": seed,
        }
        if study.baselines:
            names = ("kernel", "engine", "inducing_inputs", "hyperparameters")
            none: dict[str, Any] = dict.fromkeys(names, NONE)
            for name in BASELINES:
                found.append(RunSettings(approximation=name, inducing=None, **none, **common))
        for kernel, hyperparameters, approximation, engine in itertools.product(
            sorted(str(KernelChoice.parse(text)) for text in study.kernels),
            study.hyperparameters,
            study.approximations,
            study.engines,
        ):
            choice = ApproximationChoice.parse(approximation)
            found += [
                RunSettings(
                    kernel=kernel,
                    approximation=str(choice),
                    engine=str(EngineChoice.parse(engine)),
                    inducing=m,
                    inducing_inputs=inputs,
                    hyperparameters=hyperparameters,
                    **common,
                )
                for m, inputs in _inducing(choice, study)
            ]
    assert len({run.name for run in found}) == len(found)
    return tuple(found)


def _inducing(choice: ApproximationChoice, study: Study) -> Iterator[tuple[int | None, str]]:
    if not choice.needs_inducing:
        yield None, NONE
        return
    yield from itertools.product(study.inducing, study.inducing_inputs)
