"""Approximations and kernels by name, as a command line or a configuration gives them.

Names are checked here without importing TensorFlow; only `build` imports it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import gpflow

    from sparse_prefgp.approximations import Approximation

DEFAULT_APPROXIMATION = "vfe"
DEFAULT_KERNEL = "linear+matern52"
DEFAULT_POWER = 0.5

PLAIN_APPROXIMATIONS = (
    "exact",
    "dtc",
    "vfe",
    "tight-vfe",
    "tight-vfe-rank",
    "tight-vfe-logdet",
    "fitc",
    "hetero-vfe",
)
APPROXIMATION_NAMES = (*PLAIN_APPROXIMATIONS, "prior-power", "subset")
STATIONARY_KERNELS = {"se": "SquaredExponential", "matern32": "Matern32", "matern52": "Matern52"}
KERNEL_NAMES = (*STATIONARY_KERNELS, "linear", "item")


@dataclass(frozen=True)
class ApproximationChoice:
    """An approximation by name.

    name: such as `vfe`. power: of `prior-power`. size: duels of `subset`.
    """

    name: str
    power: float | None = None
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> ApproximationChoice:
        """Read `vfe`, `tight-vfe-rank`, `prior-power:0.5`, `subset:1000` and so on.

        Raises:
            ValueError: an unknown name (the message has the nearest one), or a number that is
                missing, not wanted or out of range.
        """
        name, colon, number = text.strip().lower().partition(":")
        if name not in APPROXIMATION_NAMES:
            raise ValueError(
                f"The approximation {text!r} is unknown; {_nearest(name, APPROXIMATION_NAMES)}"
                f"choose from {', '.join(PLAIN_APPROXIMATIONS)}, prior-power:P, subset:SIZE."
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
        if colon:
            raise ValueError(f"The approximation {text!r} takes no number; write {name}.")
        return cls(name)

    @property
    def needs_inducing(self) -> bool:
        """Whether it has inducing inputs."""
        return self.name not in ("exact", "subset")

    def build(self, seed: int = 0) -> Approximation:
        """The approximation; `seed` draws the duels of `subset`."""
        from sparse_prefgp import approximations as known

        if self.power is not None:
            return known.PriorPower(self.power)
        if self.size is not None:
            return known.SubsetOfData(self.size, seed)
        plain: dict[str, Approximation] = {
            "exact": known.Exact(),
            "dtc": known.DTC(),
            "vfe": known.VFE(),
            "tight-vfe": known.TightVFE(),
            "tight-vfe-rank": known.TightVFE(residual="rank"),
            "tight-vfe-logdet": known.TightVFE(residual="logdet"),
            "fitc": known.FITC(),
            "hetero-vfe": known.HeteroscedasticVFE(),
        }
        return plain[self.name]

    def __str__(self) -> str:
        if self.power is not None:
            return f"{self.name}:{self.power:g}"
        return self.name if self.size is None else f"{self.name}:{self.size}"


@dataclass(frozen=True)
class KernelChoice:
    """A sum of kernels by name.

    parts: names of the terms, such as `("linear", "matern52")`.
    """

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> KernelChoice:
        """Read `se`, `matern32`, `matern52`, `linear`, `item` or a sum such as `linear+matern52`.

        Raises:
            ValueError: an unknown name (the message has the nearest one), or a term twice.
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

    def build(self, num_features: int) -> gpflow.kernels.Kernel:
        """The kernel with starting values for `num_features` standardised features.

        Stationary terms have variance 1 and one lengthscale per feature, at first sqrt(D): the
        size of a typical distance between items. The linear term has one variance per feature, at
        first 1 / D. Item effects have variance 1.
        """
        import gpflow

        from sparse_prefgp.covariances import ItemEffect

        terms: list[gpflow.kernels.Kernel] = []
        for part in self.parts:
            if part == "linear":
                terms.append(
                    gpflow.kernels.Linear(variance=np.full(num_features, 1.0 / num_features))
                )
            elif part == "item":
                terms.append(ItemEffect())
            else:
                make = getattr(gpflow.kernels, STATIONARY_KERNELS[part])
                terms.append(make(lengthscales=np.full(num_features, math.sqrt(num_features))))
        return terms[0] if len(terms) == 1 else gpflow.kernels.Sum(terms)

    def __str__(self) -> str:
        return "+".join(self.parts)


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"did you mean {near[0]}? Otherwise " if near else ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
