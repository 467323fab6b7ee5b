"""Approximations and kernels by name, as a command line or a configuration gives them.

Names are checked here without TensorFlow; only `build` loads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import Any

import numpy as np

from sparse_prefgp import approximations, covariances, data, engines
from sparse_prefgp.support.lazy import late

gpflow = late("gpflow")

DEFAULT_APPROXIMATION = "vfe"
DEFAULT_KERNEL = "linear+matern52"
DEFAULT_POWER = 0.5
DEFAULT_ENGINE = "ep"
# What is to be chosen: a kernel, an approximation, or a number of inducing inputs.
AUTO = "auto"

# By name, the class and what it is made with.
PLAIN_APPROXIMATIONS: dict[str, tuple[str, dict[str, Any]]] = {
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
SUMMED = ("vfe", "fitc", "dtc", "tight-vfe", "hetero-vfe", "prior-power")
PLAIN_ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "ep": ("ParallelEP", {}),
    "laplace": ("Laplace", {}),
    "laplace-logit": ("Laplace", {"link": "logit"}),
    "variational": ("Variational", {}),
}
ENGINE_NAMES = (*PLAIN_ENGINES, "power-ep")
STATIONARY_KERNELS = {"se": "SquaredExponential", "matern32": "Matern32", "matern52": "Matern52"}
ADDITIVE = "additive-"
ADDITIVE_KERNELS = tuple(f"{ADDITIVE}{name}" for name in STATIONARY_KERNELS)
KERNEL_NAMES = (*STATIONARY_KERNELS, "linear", "item", *ADDITIVE_KERNELS)
# Limits of what is learned, in units of standardised features: a lengthscale of 1e-4 takes any two
# values for unrelated, and one of 1e-10 changes the evidence of a million duels by 1e-4 nats.
LEAST_LENGTHSCALE = 1e-4
LEAST_VARIANCE = 1e-10
# Of the terms of a candidate, so that equal sums have equal names.
_ORDER = ("linear", *ADDITIVE_KERNELS, *STATIONARY_KERNELS, "item")


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
        name = name.lower()
        if name not in APPROXIMATION_NAMES:
            raise ValueError(
                f"The approximation {text!r} is unknown; {_nearest(name, APPROXIMATION_NAMES)}"
                f"choose from {', '.join(PLAIN_APPROXIMATIONS)}, prior-power:P, pitc:BLOCKS, "
                "pitc:COLUMN, subset:SIZE."
            )
        if name == "prior-power":
            power = _number(number) if colon else DEFAULT_POWER
            if not 0.0 < power <= 1.0:
                raise ValueError(
                    f"The approximation {text!r} needs a power above 0 and up to 1, such as "
                    "prior-power:0.5."
                )
            return cls(name, power=power)
        if name == "subset":
            size = _number(number)
            if not (size >= 1 and size.is_integer()):
                raise ValueError(
                    f"The approximation {text!r} needs a whole number of duels, such as "
                    "subset:1000."
                )
            return cls(name, size=int(size))
        if name == "pitc":
            blocks = _number(number)
            if number.strip() and math.isnan(blocks):
                return cls(name, column=number.strip())
            if not (blocks >= 1 and blocks.is_integer()):
                raise ValueError(
                    f"The approximation {text!r} needs a whole number of blocks, such as pitc:20, "
                    "or a column of the duels, such as pitc:person."
                )
            return cls(name, blocks=int(blocks))
        if colon:
            raise ValueError(f"The approximation {text!r} takes no number; write {name}.")
        return cls(name)

    @property
    def needs_inducing(self) -> bool:
        """Whether it has inducing inputs."""
        return self.name not in WITHOUT_INDUCING

    @property
    def summed_over_duels(self) -> bool:
        """Whether a fit in chunks can have it."""
        return self.name in SUMMED

    def build(
        self, seed: int = 0, labels: Sequence[Any] | None = None
    ) -> approximations.Approximation:
        """The approximation; `seed` draws the duels of `subset` and starts `pitc`'s k-means.

        :param labels: of each duel, the values of `column`, where there is one.
        """
        if self.power is not None:
            return approximations.PriorPower(self.power)
        if self.size is not None:
            return approximations.SubsetOfData(self.size, seed)
        if self.blocks is not None:
            return approximations.PITC(self.blocks, seed)
        if self.column is not None:
            assert labels is not None
            return approximations.PITC(labels)
        kind, arguments = PLAIN_APPROXIMATIONS[self.name]
        made: approximations.Approximation = getattr(approximations, kind)(**arguments)
        return made

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
            raise ValueError(
                f"The engine {text!r} is unknown; {_nearest(name, ENGINE_NAMES)}"
                f"choose from {', '.join(PLAIN_ENGINES)}, power-ep:P."
            )
        if name == "power-ep":
            power = _number(number)
            if not 0.0 < power <= 1.0:
                raise ValueError(
                    f"The engine {text!r} needs a power above 0 and up to 1, such as power-ep:0.5."
                )
            return cls(name, power)
        if colon:
            raise ValueError(f"The engine {text!r} takes no number; write {name}.")
        return cls(name)

    def build(self) -> engines.Engine:
        """The engine."""
        if self.power is not None:
            return engines.ParallelEP(site_power=self.power)
        kind, arguments = PLAIN_ENGINES[self.name]
        made: engines.Engine = getattr(engines, kind)(**arguments)
        return made

    def __str__(self) -> str:
        return self.name if self.power is None else f"{self.name}:{self.power:g}"


@dataclass(frozen=True)
class KernelChoice:
    """A sum of kernels by name."""

    parts: tuple[str, ...]
    """Names of the terms, such as `("linear", "matern52")`."""

    @classmethod
    def parse(cls, text: str) -> KernelChoice:
        """Read `se`, `matern32`, `matern52`, `linear`, `item` or a sum such as `linear+matern52`.

        `additive-se` and its like are sums over groups of features; see `feature_groups`.

        :raises ValueError: an unknown name (the message has the nearest one), or a term twice.
        """
        parts = tuple(part.strip() for part in text.lower().split("+"))
        for part in parts:
            if part not in KERNEL_NAMES:
                raise ValueError(
                    f"The kernel {part or text!r} is unknown; {_nearest(part, KERNEL_NAMES)}"
                    f"choose from {', '.join(KERNEL_NAMES)}, or a sum such as linear+matern52."
                )
            if parts.count(part) > 1:
                raise ValueError(f"The kernel {text!r} has {part} twice; once is enough.")
        return cls(parts)

    def build(
        self, num_features: int, groups: Sequence[FeatureGroup] | None = None
    ) -> covariances.Kernel:
        """The kernel with starting values for `num_features` standardised features.

        Stationary terms have variance 1 and one lengthscale per feature, at first sqrt(D): the
        size of a typical distance between items. The linear term has one variance per feature, at
        first 1 / D. Item effects have variance 1. An additive kernel is a sum over `groups`, which
        are by default the single columns; each term sees the columns of its group alone, with
        lengthscales as above for so many features, and the G terms share a variance of 1.

        By their transforms, no lengthscale can be learned below 1e-4 (of the spread of a feature)
        and no variance below 1e-10.

        Terms are in the order of `term_names`.
        """
        terms: list[covariances.Kernel] = []
        for part in self.parts:
            if part == "linear":
                terms.append(
                    gpflow.kernels.Linear(variance=np.full(num_features, 1.0 / num_features))
                )
            elif part == "item":
                terms.append(covariances.ItemEffect())
            elif part.startswith(ADDITIVE):
                make = getattr(gpflow.kernels, STATIONARY_KERNELS[part.removeprefix(ADDITIVE)])
                groups = single_columns(num_features) if groups is None else groups
                terms += [
                    make(
                        variance=1.0 / len(groups),
                        lengthscales=np.full(len(group.columns), math.sqrt(len(group.columns))),
                        active_dims=list(group.columns),
                    )
                    for group in groups
                ]
            else:
                make = getattr(gpflow.kernels, STATIONARY_KERNELS[part])
                terms.append(make(lengthscales=np.full(num_features, math.sqrt(num_features))))
        for term in terms:
            _limit(term)
        return terms[0] if len(terms) == 1 else gpflow.kernels.Sum(terms)

    def term_names(
        self, num_features: int, groups: Sequence[FeatureGroup] | None = None
    ) -> tuple[str, ...]:
        """A name for each term of `build`; those of an additive kernel end in their group."""
        names: list[str] = []
        for part in self.parts:
            if part.startswith(ADDITIVE):
                chosen = single_columns(num_features) if groups is None else groups
                names += [f"{part}[{group.name}]" for group in chosen]
            else:
                names.append(part)
        return tuple(names)

    @property
    def is_additive(self) -> bool:
        """Whether a term is a sum over groups of features."""
        return any(part.startswith(ADDITIVE) for part in self.parts)

    def num_parameters(self, num_features: int, num_groups: int | None = None) -> int:
        """How many kernel parameters are learned; `num_groups` is D by default."""
        groups = num_features if num_groups is None else num_groups
        return sum(
            num_features
            if part == "linear"
            else 1
            if part == "item"
            else num_features + (groups if part.startswith(ADDITIVE) else 1)
            for part in self.parts
        )

    def __str__(self) -> str:
        return "+".join(self.parts)


@dataclass(frozen=True)
class FeatureGroup:
    """Features that one term of an additive kernel sees."""

    name: str
    """Of the raw column, or columns joined by `,`."""
    columns: tuple[int, ...]
    """Their numbers among the features."""


def single_columns(num_features: int) -> tuple[FeatureGroup, ...]:
    """Every column a group of its own, named by its number."""
    return tuple(FeatureGroup(str(i), (i,)) for i in range(num_features))


def feature_groups(
    transform: data.features.FeatureTransform, given: Sequence[Sequence[str]] | None = None
) -> tuple[FeatureGroup, ...]:
    """Groups of features for an additive kernel.

    Each numeric column is a group, and so are the levels of each categorical column.

    :param transform: says which raw column each feature comes from.
    :param given: raw columns that are to form a group together; the others stay single. Columns
        that were dropped because they were constant are passed over.
    :raises ValueError: a column that is not a feature, or that is in two groups.
    """
    blocks: dict[str, tuple[int, ...]] = {name: (i,) for i, name in enumerate(transform.numeric)}
    start = len(blocks)
    for name, levels in zip(transform.categorical, transform.categories, strict=True):
        blocks[name] = tuple(range(start, start + len(levels)))
        start += len(levels)
    merged: list[FeatureGroup] = []
    taken: set[str] = set()
    for names in given or ():
        for name in names:
            if name not in blocks and name not in transform.dropped:
                raise ValueError(
                    f"The group {','.join(names)!r} names {name!r}, which is not a feature; choose "
                    f"from {', '.join(blocks)}."
                )
            if name in taken:
                raise ValueError(
                    f"The feature {name!r} is in two groups; every feature belongs to one."
                )
            taken.add(name)
        here = [name for name in blocks if name in names]
        if here:
            columns = tuple(i for name in here for i in blocks[name])
            merged.append(FeatureGroup(",".join(here), columns))
    rest = [FeatureGroup(name, block) for name, block in blocks.items() if name not in taken]
    return tuple(sorted([*merged, *rest], key=lambda group: group.columns))


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
        if self.inducing is not None and self.inducing < 1:
            raise ValueError(
                f"The number of inducing inputs is {self.inducing}; give a whole number of at "
                "least 1."
            )
        if self.inducing is not None and not approximation.needs_inducing:
            raise ValueError(
                f"The approximation {approximation} has no inducing inputs, but {self.inducing} "
                "were asked for; leave their number out."
            )
        object.__setattr__(self, "kernel", "+".join(sorted(kernel.parts, key=_ORDER.index)))
        object.__setattr__(self, "approximation", str(approximation))

    @classmethod
    def parse(cls, text: str) -> Candidate:
        """Read `kernel`, `kernel/approximation` or `kernel/approximation/m`.

        :raises ValueError: another form, or what `Candidate` raises.
        """
        parts = [part.strip() for part in text.split("/")]
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


def _limit(kernel: covariances.Kernel) -> None:
    """Let no lengthscale or variance be learned below its limit."""
    for name, least in (("lengthscales", LEAST_LENGTHSCALE), ("variance", LEAST_VARIANCE)):
        parameter = getattr(kernel, name, None)
        if parameter is not None:
            transform = gpflow.utilities.positive(lower=least)
            setattr(kernel, name, gpflow.Parameter(parameter.numpy(), transform=transform))


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"did you mean {near[0]}? Otherwise " if near else ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
