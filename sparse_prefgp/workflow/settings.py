"""How a fit is made, as one value. Everything is checked here without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.splits import split_columns
from sparse_prefgp.io import DuelTable
from sparse_prefgp.support.checks import (
    check_least_gain,
    check_mode,
    check_noise_variance,
    is_number,
)
from sparse_prefgp.support.words import shortened
from sparse_prefgp.workflow.model_names import (
    AUTO,
    DEFAULT_APPROXIMATION,
    DEFAULT_ENGINE,
    DEFAULT_KERNEL,
    ApproximationChoice,
    EngineChoice,
    KernelChoice,
)

DEFAULT_INDUCING = 128
DEFAULT_ITERATIONS = 100
# What ten iterations must bring, in nats a duel: that of `optimise`.
LEAST_GAIN = 1e-5
# Of the prior variance of the duels, what `auto` inducing inputs may leave unexplained.
DEFAULT_SHARE = 0.01
# Of the difference between noisy utilities, whose noise has variance 1 as a rule.
DEFAULT_MARGIN = 0.3
# Of a fit in chunks.
CHUNKS, SUBSET = "chunks", "subset"
# Their corrections are sums over duels.
SUMMED = ("vfe", "fitc", "dtc", "tight-vfe", "hetero-vfe", "prior-power")
# What a field of the settings takes, by its type.
KINDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("bool", lambda value: isinstance(value, bool), "True or False"),
    ("int", lambda value: is_number(value) and float(value).is_integer(), "a whole number"),
    ("float", is_number, "a number"),
    ("str", lambda value: isinstance(value, str), "text"),
    ("Path", lambda value: isinstance(value, Path), "a path"),
)
STREAM_OPTIONS = (
    "parts",
    "scheduler",
    "gradients",
    "polish",
    "sites",
    "local_sweeps",
    "chunk",
    "timeout",
)


@dataclass(frozen=True)
class FitSettings:
    """How to split, what to fit and how long.

    :raises ValueError: an unknown name, a number that makes no sense, what a stream cannot do, or
        an option of streams without one.
    """

    split: str = "duels"
    """What is held out: `duels`, `items`, `group:COLUMN` or `time:COLUMN`."""
    test_fraction: float = 0.2
    """Share to hold out; 0 fits to everything and scores nothing."""
    seed: int = 0
    """Of everything random."""
    approximation: str | None = None
    """By name; None is `vfe`, or `exact` for items without features and for the kernel `item`
    alone. `auto` as for the kernel.
    """
    kernel: str | None = None
    """By name; None is `linear+matern52`, or `item` for items without features. `auto` is chosen
    with the training duels alone, see `choose`.
    """
    inducing: int | str | None = None
    """m; None is 128, or all distinct training items where they are fewer; `auto`, or `auto:SHARE`,
    as many as leave that share (0.01) of the prior variance of the training duels unexplained under
    the kernel as it starts, up to 1,024.
    """
    fixed_inducing: bool = False
    """Leave the inducing inputs where k-means puts them."""
    max_iterations: int = DEFAULT_ITERATIONS
    least_gain: float | None = LEAST_GAIN
    """Of `optimise`."""
    max_train: int | None = None
    """At most this many training duels."""
    noise_variance: float = 0.5
    """sigma² per side of a duel; 0.5 is the standard probit scale."""
    refit: bool = False
    """Fit again on all duels after scoring."""
    mode: str = "nested"
    """"nested" alone."""
    starts: int = 1
    """Of `optimise`; a refit has one start, the fitted model."""
    margin: float | None = None
    """Where learning it starts, for a table with ties by default at 0.3; without ties it stays as
    it is.
    """
    fixed_margin: bool = False
    """Keep the margin at its first value."""
    noise_by_group: bool = False
    """Learn the noise of each group."""
    engine: str = DEFAULT_ENGINE
    """Engine of inference, by name; with `laplace-logit` the noise variance is ignored."""
    stream: bool = False
    """Take the duels in chunks, for more than fit into memory. All that follows is for that alone.
    """
    parts: int = 1
    """Number of parts of the duels."""
    scheduler: str | None = None
    """Where the parts are: `local`, an address, or None for this process."""
    gradients: str = CHUNKS
    """`chunks`, `subset`, or `subset:ROWS`."""
    polish: int = 0
    """Exact steps after those on a subset."""
    sites: Path | None = None
    """A new .npy file for the sites; None for memory."""
    local_sweeps: int = 1
    """Sweeps of a part in a round; 0 until it has settled."""
    chunk: int | None = None
    """Duels worked on at a time; None chooses."""
    timeout: float | None = None
    """Seconds that a part on a scheduler has for an answer; None goes by the last round."""
    inducing_share: float | None = field(init=False, repr=False)
    approximation_choice: ApproximationChoice = field(init=False, repr=False)
    kernel_choice: KernelChoice = field(init=False, repr=False)
    engine_choice: EngineChoice = field(init=False, repr=False)

    @classmethod
    def of_options(cls, given: Mapping[str, Any], **more: Any) -> FitSettings:
        """From whatever `given` has under the names of fields, and `more`, which comes first."""
        names = {one.name for one in fields(cls) if one.init}
        return cls(**{name: given[name] for name in names & given.keys()} | more)

    def first_margin(self, num_ties: int) -> float | None:
        """The margin to start from, for duels of which so many are ties."""
        return DEFAULT_MARGIN if self.margin is None and num_ties else self.margin

    def __post_init__(self) -> None:
        self._check_kinds()
        split_columns(self.split)
        engine = EngineChoice.parse(self.engine)
        if not 0.0 <= self.test_fraction < 1.0:
            raise ValueError(
                f"The test fraction is {self.test_fraction}; give a number of at least 0 and "
                "below 1."
            )
        if self.seed < 0:
            raise ValueError(f"The seed is {self.seed}; give a whole number of at least 0.")
        share = _share(self.inducing) if isinstance(self.inducing, str) else None
        check_mode(self.mode)
        for label, value in (
            ("The number of inducing inputs", None if share else self.inducing),
            ("The number of iterations", self.max_iterations),
            ("The largest number of training duels", self.max_train),
            ("The number of starts", self.starts),
        ):
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{label} is {value}; give a whole number of at least 1.")
        check_noise_variance(self.noise_variance)
        check_least_gain(self.least_gain)
        if self.margin is not None and not (self.margin > 0.0 and math.isfinite(self.margin)):
            raise ValueError(f"The margin is {self.margin}; give a positive number, such as 0.3.")
        if engine.name == "laplace-logit" and self.noise_variance != 0.5:
            raise ValueError(
                f"The noise variance {self.noise_variance} is ignored by the engine {engine}, "
                "whose noise is logistic; leave it out, or use the engine laplace."
            )
        if engine.name == "laplace-logit" and self.noise_by_group:
            raise ValueError(
                f"Noise by group was asked for, but the engine {engine} has logistic noise, the "
                "same for all; leave it out, or use the engine laplace."
            )
        kernel = KernelChoice.parse(_named(self.kernel) or DEFAULT_KERNEL)
        alone = kernel.parts == ("item",)
        default = "exact" if alone else DEFAULT_APPROXIMATION
        approximation = ApproximationChoice.parse(_named(self.approximation) or default)
        if alone and (approximation.needs_inducing or self.inducing is not None):
            raise ValueError(
                "The kernel item leaves nothing for inducing inputs; use --approximation exact, "
                "which has none, or a sum such as --kernel linear+item."
            )
        if self.inducing is not None and not approximation.needs_inducing:
            asked = f"{self.inducing} were" if share is None else f"their number ({AUTO}) was"
            raise ValueError(
                f"The approximation {approximation} has no inducing inputs, but {asked} asked for; "
                "leave their number out, or choose another approximation such as vfe."
            )
        object.__setattr__(self, "inducing_share", share)
        object.__setattr__(self, "approximation_choice", approximation)
        object.__setattr__(self, "kernel_choice", kernel)
        object.__setattr__(self, "engine_choice", engine)
        self._check_stream()

    def of(self, table: DuelTable) -> FitSettings:
        """The settings for a table, whose items may have no features.

        :raises ValueError: a kernel on features that there are not.
        """
        if table.has_features:
            return self
        if _named(self.kernel) is not None and self.kernel_choice.parts != ("item",):
            raise ValueError(
                f"The kernel {self.kernel_choice} looks at features, but the items have none; "
                "leave it out, for an effect of each item, or give items with features."
            )
        return replace(self, kernel="item")

    @property
    def is_automatic(self) -> bool:
        """Whether kernel or approximation are to be chosen."""
        return is_auto(self.kernel) or is_auto(self.approximation)

    # Of streams.

    @property
    def sites_files(self) -> tuple[Path, ...]:
        """The files that the sites are to be in, one for each part."""
        path = self.sites
        if path is None or self.parts == 1:
            return () if path is None else (path,)
        return tuple(path.with_name(f"{path.stem}.{k}{path.suffix}") for k in range(self.parts))

    @property
    def gradients_kind(self) -> str:
        """`chunks` or `subset`."""
        return self.gradients.partition(":")[0]

    @property
    def subset(self) -> int | None:
        """Rows of the subset; None for the default."""
        _, colon, number = self.gradients.partition(":")
        if not colon:
            return None
        if not number.isdecimal():
            raise ValueError(
                f"The gradients {self.gradients!r} need a whole number of rows, such as "
                "subset:20000."
            )
        return int(number)

    def _check_kinds(self) -> None:
        if isinstance(self.sites, str):
            object.__setattr__(self, "sites", Path(self.sites))
        for one in fields(self):
            if not one.init:
                continue
            value = getattr(self, one.name)
            if isinstance(value, np.generic):
                value = value.item()
                object.__setattr__(self, one.name, value)
            may_lack, kinds = "None" in str(one.type), str(one.type)
            fine = (value is None and may_lack) or any(
                word in kinds and test(value) for word, test, _ in KINDS
            )
            if not fine:
                wanted = " or ".join(words for word, _, words in KINDS if word in kinds)
                none = ", or None" if may_lack else ""
                raise ValueError(f"{one.name} is {shortened(value)}; give {wanted}{none}.")
            if "int" in kinds and isinstance(value, float):
                object.__setattr__(self, one.name, int(value))

    def _check_stream(self) -> None:
        if not self.stream:
            for one in fields(self):
                if one.name in STREAM_OPTIONS and getattr(self, one.name) != one.default:
                    name = one.name.replace("_", "-")
                    raise ValueError(
                        f"The option {name} {getattr(self, one.name)} is about a fit in chunks, "
                        f"but stream was not given; give it, or leave {name} out."
                    )
            return
        for name, given in (
            (f"engine {self.engine}", self.engine != DEFAULT_ENGINE),
            (f"starts {self.starts}", self.starts != 1),
            (f"inducing {self.inducing}", self.inducing_share is not None),
            ("refit", self.refit),
            ("noise-by", self.noise_by_group),
            (AUTO, self.is_automatic),
        ):
            if given:
                raise ValueError(in_chunks_never(name))
        if self.parts < 1:
            raise ValueError(f"The number of parts is {self.parts}; give at least 1.")
        if self.local_sweeps < 0:
            raise ValueError(
                f"The number of local sweeps is {self.local_sweeps}; give at least 1, or 0 to go "
                "on until a part has settled."
            )
        if self.chunk is not None and self.chunk < 1:
            raise ValueError(f"A chunk of {self.chunk} duels makes no sense; give at least 1.")
        if self.timeout is not None and self.scheduler is None:
            raise ValueError(
                f"The timeout of {self.timeout:g} s is about parts on a scheduler, but there is "
                "none; give a scheduler, or leave it out."
            )
        if self.timeout is not None and not self.timeout > 0.0:
            raise ValueError(f"A timeout of {self.timeout:g} s makes no sense; give more than 0.")
        approximation = self.approximation_choice
        if approximation.name == "pitc":
            raise ValueError(
                f"fit does not read the blocks of {approximation} from a stream; read the duels "
                "whole, or in Python give StreamedGP(duels, kernel, approximation=PITC(labels))."
            )
        if approximation.name not in SUMMED:
            raise ValueError(
                f"The approximation {approximation} needs all duels at once, which a stream never "
                f"has; choose from {', '.join(SUMMED)}."
            )
        if self.gradients_kind == CHUNKS and self.gradients != CHUNKS:
            raise ValueError(
                f"The gradients {self.gradients!r} tell a number of rows, but chunks are of all "
                "duels; give chunks, or subset:ROWS."
            )
        if self.subset is not None and self.subset < 1:
            raise ValueError(f"The gradients {self.gradients!r} are of no rows; give at least 1.")
        if self.gradients_kind not in (CHUNKS, SUBSET):
            raise ValueError(
                f"The gradients {self.gradients!r} are unknown; choose chunks, subset or "
                "subset:ROWS."
            )
        if self.polish and self.gradients_kind != SUBSET:
            raise ValueError(
                f"The polish of {self.polish} is about steps after those on a subset, but the "
                f"gradients are {self.gradients}; give the gradients subset, or leave it out."
            )


def is_auto(name: str | None) -> bool:
    """Whether a name is left to be chosen."""
    return name is not None and name.strip().lower() == AUTO


def in_chunks_never(name: str) -> str:
    """One sentence on an option that a fit in chunks cannot have."""
    return (
        f"The option {name} needs all duels in memory, which a fit in chunks never has; leave it "
        "out, or leave out stream (and give one table in place of a folder)."
    )


def _named(name: str | None) -> str | None:
    return None if is_auto(name) else name


def _share(text: str) -> float:
    name, colon, number = text.strip().lower().partition(":")
    try:
        share = float(number) if colon else DEFAULT_SHARE
    except ValueError:
        share = math.nan
    if name != AUTO:
        raise ValueError(
            f"The number of inducing inputs is {text!r}; give a whole number of at least 1, or "
            f"{AUTO}."
        )
    if not 0.0 < share < 1.0:
        raise ValueError(
            f"The number of inducing inputs is {text!r}; give {AUTO} a share between 0 and 1, such "
            f"as {AUTO}:0.1, or none."
        )
    return share
