"""Approximations, engines and candidates by name, as a command line or a configuration gives them.

Names are checked here without TensorFlow; only `build` loads it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_choice, check_number
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.registry import APPROXIMATION, own, spelt
from sparse_prefgp.workflow.kernel_grammar import (
    ADDITIVE_KERNELS,
    STATIONARY_KERNELS,
    split_outside,
)
from sparse_prefgp.workflow.kernel_names import KernelChoice

if TYPE_CHECKING:
    from sparse_prefgp.approximations import Approximation
    from sparse_prefgp.engines import Engine

DEFAULT_APPROXIMATION = "vfe"
DEFAULT_KERNEL = "linear+matern52"
# Where duels have dates, of items with features and without.
ITEM_IN_TIME = "item-in-time(wiener)"
DEFAULT_IN_TIME = f"linear+{ITEM_IN_TIME}"
DEFAULT_POWER = 0.5
DEFAULT_ENGINE = "ep"
# What is to be chosen: a kernel, an approximation, or a number of inducing inputs.
AUTO = "auto"

# By name, the class and what it is made with.
PLAIN_APPROXIMATIONS: dict[str, tuple[str, Record]] = {
    "exact": ("Exact", {}),
    "dtc": ("DTC", {}),
    "vfe": ("VFE", {}),
    "tight-vfe": ("TightVFE", {}),
    "tight-vfe-rank": ("TightVFE", {"residual": "rank"}),
    "tight-vfe-logdet": ("TightVFE", {"residual": "logdet"}),
    "fitc": ("FITC", {}),
    "hetero-vfe": ("HeteroscedasticVFE", {}),
}
APPROXIMATION_NAMES = (*PLAIN_APPROXIMATIONS, "prior-power", "pitc", "subset")
# Facts of the classes, which a test compares: to ask these would load TensorFlow.
WITHOUT_INDUCING = ("exact", "subset")
BOUNDS = ("exact", "vfe", "tight-vfe", "tight-vfe-rank", "tight-vfe-logdet")
# Whose evidence rewards knowing the very people that were seen: 600 of them with 9 choices each,
# new people .8456 nats a choice by fitc, .8138 by vfe, .8139 by hetero-vfe, .8117 by prior-power.
REMEMBERING = ("fitc", "pitc")
SUMMED = ("vfe", "fitc", "dtc", "tight-vfe", "hetero-vfe", "prior-power")
PLAIN_ENGINES: dict[str, tuple[str, Record]] = {
    "ep": ("ParallelEP", {}),
    "laplace": ("Laplace", {}),
    "laplace-logit": ("Laplace", {"link": "logit"}),
    "variational": ("Variational", {}),
}
ENGINE_NAMES = (*PLAIN_ENGINES, "power-ep")
# Of the terms of a candidate, so that equal sums have equal names.
_ORDER = ("linear", *ADDITIVE_KERNELS, *STATIONARY_KERNELS)


@dataclass(frozen=True)
class ApproximationChoice:
    """An approximation by name."""

    name: str
    """Such as `vfe`."""
    power: float | None = None
    """Of `prior-power`."""
    size: int | None = None
    """Duels of `subset`."""
    blocks: int | None = None
    """Of `pitc`, made by k-means, or column: of the duels, each of whose values is a block."""
    column: str | None = None

    @classmethod
    def parse(cls, text: str) -> ApproximationChoice:
        """Read `vfe`, `tight-vfe-rank`, `prior-power:0.5`, `pitc:20`, `pitc:person`, `subset:1000`.

        :raises ValueError: an unknown name (the message has the nearest one), or a number that is
            missing, not wanted or out of range.
        """
        name, colon, number = text.strip().partition(":")
        name, registered = spelt(APPROXIMATION, name), own(APPROXIMATION)
        if name not in APPROXIMATION_NAMES and name not in registered:
            hint = ", prior-power:P, pitc:BLOCKS, pitc:COLUMN, subset:SIZE, or --import its module"
            check_choice("The approximation", text, (*PLAIN_APPROXIMATIONS, *registered), hint)
        if name == "prior-power":
            power = _number(number) if colon else DEFAULT_POWER
            hint = ", such as prior-power:0.5"
            check_number(f"The power of {text!r}", power, above=0.0, most=1.0, hint=hint)
            return cls(name, power=power)
        if name == "subset":
            size = _number(number)
            hint = ", of duels, such as subset:1000"
            check_number(f"The size of {text!r}", size, least=1, whole=True, hint=hint)
            return cls(name, size=int(size))
        if name == "pitc":
            blocks = _number(number)
            if number.strip() and math.isnan(blocks):
                return cls(name, column=number.strip())
            hint = ", of blocks, such as pitc:20, or a column of the duels, such as pitc:person"
            check_number(f"The number of {text!r}", blocks, least=1, whole=True, hint=hint)
            return cls(name, blocks=int(blocks))
        if colon:
            raise ValueError(f"The approximation {text!r} takes no number; write {name}.")
        return cls(name)

    @property
    def needs_inducing(self) -> bool:
        """Whether it has inducing inputs."""
        registered = self._own
        return self.name not in WITHOUT_INDUCING and (not registered or registered.needs_inducing)

    @property
    def remembers_people(self) -> bool:
        """Whether its evidence rewards knowing the very people whose columns answers share."""
        return self.name in REMEMBERING

    @property
    def is_bound(self) -> bool:
        """Whether its evidence is the exact one or below it."""
        return self.name in BOUNDS or bool(self._own and self._own.is_bound)

    @property
    def summed_over_duels(self) -> bool:
        """Whether a fit in chunks can have it."""
        return self.name in SUMMED or bool(self._own and self._own().summed_over_duels)

    @property
    def _own(self) -> Any:
        """The class, where it is one's own."""
        return None if self.name in APPROXIMATION_NAMES else own(APPROXIMATION).get(self.name)

    def build(self, seed: int = 0, labels: Sequence[Any] | None = None) -> Approximation:
        """The approximation; `seed` draws the duels of `subset` and starts `pitc`'s k-means.

        :param labels: of each duel, the values of `column`, where there is one.
        """
        from sparse_prefgp import approximations

        if self.power is not None:
            return approximations.PriorPower(self.power)
        if self.size is not None:
            return approximations.SubsetOfData(self.size, seed)
        if self.blocks is not None:
            return approximations.PITC(self.blocks, seed)
        if self.column is not None:
            assert labels is not None
            return approximations.PITC(labels)
        if self._own is not None:
            return self._own()
        kind, arguments = PLAIN_APPROXIMATIONS[self.name]
        return getattr(approximations, kind)(**arguments)

    def __str__(self) -> str:
        if self.power is not None:
            return f"{self.name}:{self.power:g}"
        detail = next((x for x in (self.size, self.blocks, self.column) if x is not None), None)
        return self.name if detail is None else f"{self.name}:{detail}"


@dataclass(frozen=True)
class EngineChoice:
    """An engine by name."""

    name: str
    """Such as `ep`."""
    power: float | None = None
    """The site power of `power-ep`."""

    @classmethod
    def parse(cls, text: str) -> EngineChoice:
        """Read `ep`, `laplace`, `laplace-logit`, `variational` or `power-ep:0.5`.

        :raises ValueError: an unknown name (the message has the nearest one), or a number that is
            missing, not wanted or out of range.
        """
        name, colon, number = text.strip().lower().partition(":")
        if name not in ENGINE_NAMES:
            check_choice("The engine", text, PLAIN_ENGINES, ", power-ep:P")
        if name == "power-ep":
            power = _number(number)
            hint = ", such as power-ep:0.5"
            check_number(f"The power of {text!r}", power, above=0.0, most=1.0, hint=hint)
            return cls(name, power)
        if colon:
            raise ValueError(f"The engine {text!r} takes no number; write {name}.")
        return cls(name)

    def build(self) -> Engine:
        """The engine."""
        from sparse_prefgp import engines

        if self.power is not None:
            return engines.ParallelEP(site_power=self.power)
        kind, arguments = PLAIN_ENGINES[self.name]
        return getattr(engines, kind)(**arguments)

    def __str__(self) -> str:
        return self.name if self.power is None else f"{self.name}:{self.power:g}"


@dataclass(frozen=True)
class Candidate:
    """A kernel, an approximation and a number of inducing inputs, by name.

    :raises ValueError: an unknown name, or m where there are no inducing inputs or below 1.
    """

    kernel: str
    approximation: str = DEFAULT_APPROXIMATION
    inducing: int | None = None
    """m; None is 128, or all distinct items where they are fewer. Names are brought into one form,
    so that candidates that mean the same are equal: `se+linear` is `linear+se`.
    """

    def __post_init__(self) -> None:
        kernel = KernelChoice.parse(self.kernel)
        approximation = ApproximationChoice.parse(self.approximation)
        if self.inducing is not None:
            check_number("The number of inducing inputs", self.inducing, least=1, whole=True)
        together.check(
            no_inducing=not approximation.needs_inducing and f"the approximation {approximation}",
            inducing_variable=self.inducing is not None and f"{self.inducing} inducing inputs",
        )
        object.__setattr__(self, "kernel", "+".join(sorted(kernel.parts, key=_order)))
        object.__setattr__(self, "approximation", str(approximation))

    @classmethod
    def parse(cls, text: str) -> Candidate:
        """Read `kernel`, `kernel/approximation` or `kernel/approximation/m`.

        :raises ValueError: another form, or what `Candidate` raises.
        """
        parts = split_outside(text, "/")
        if len(parts) > 3 or not all(parts) or (len(parts) == 3 and not parts[2].isdecimal()):
            raise ValueError(
                f"The candidate {text!r} cannot be read; write kernel, kernel/approximation or "
                "kernel/approximation/m, such as linear+matern52/vfe/128."
            )
        kernel, approximation, number = [*parts, *(DEFAULT_APPROXIMATION, "")[len(parts) - 1 :]]
        return cls(kernel, approximation, int(number) if number else None)

    @property
    def kernel_choice(self) -> KernelChoice:
        return KernelChoice.parse(self.kernel)

    @property
    def approximation_choice(self) -> ApproximationChoice:
        return ApproximationChoice.parse(self.approximation)

    def __str__(self) -> str:
        number = "" if self.inducing is None else f"/{self.inducing}"
        return f"{self.kernel}/{self.approximation}{number}"


def candidates_from(
    kernels: Sequence[str],
    approximations: Sequence[str] = (DEFAULT_APPROXIMATION,),
    inducing: Sequence[int | None] = (None,),
) -> tuple[Candidate, ...]:
    """Every kernel with every approximation and every m; those without inducing inputs once.

    :raises ValueError: what `Candidate` raises.
    """
    found = []
    for kernel, approximation, number in product(kernels, approximations, inducing):
        needed = ApproximationChoice.parse(approximation).needs_inducing
        if needed or number == inducing[0]:
            found.append(Candidate(kernel, approximation, number if needed else None))
    return tuple(found)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _order(part: str) -> tuple[int, str]:
    if part == "item":  # after terms that are no name alone, such as iso(se)
        return (len(_ORDER) + 1, part)
    return (_ORDER.index(part) if part in _ORDER else len(_ORDER), part)
