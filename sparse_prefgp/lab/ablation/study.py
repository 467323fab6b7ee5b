"""What a study is, as a YAML file says it: strict models, and mistakes refused in one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from sparse_prefgp.data.splits import says_itself
from sparse_prefgp.support import together
from sparse_prefgp.support.extras import install
from sparse_prefgp.support.words import counted, shortened, spelt_like
from sparse_prefgp.support.yaml_files import read_yaml
from sparse_prefgp.workflow.kernel_grammar import STATIONARY_KERNELS
from sparse_prefgp.workflow.kernel_names import LEAST_LENGTHSCALE, LEAST_VARIANCE, KernelChoice
from sparse_prefgp.workflow.model_names import ApproximationChoice, EngineChoice

try:
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        f"Studies need pydantic; install it with {install('studies')}.", name="pydantic"
    ) from None

FIXED, JOINT = "fixed", "joint"
LEARNED = "learned"

Whole = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
T = TypeVar("T")
Some = Annotated[tuple[T, ...], Field(min_length=1)]
Values = float | Some[float]


class _Strict(BaseModel):
    """Unknown keys are errors, and nothing is converted from another type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _sensible(self) -> _Strict:
        try:
            mistake = next(self._mistakes(), None)
        except ValueError as error:  # of a name
            text = str(error).rstrip(".")
            raise ValueError(f"is wrong: {text[0].lower()}{text[1:]}") from None
        if mistake is not None:
            raise ValueError(mistake)
        return self

    def _mistakes(self) -> Iterator[str]:
        """What makes no sense though each value does, to follow "The configuration … "."""
        yield from ()


class Files(_Strict):
    """Tables of items and duels, and columns that are not features; relative paths begin at the
    folder of the configuration."""

    items: str
    duels: str
    ignore: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()
    """Columns of the duels that tell the sides apart, as of `fit --covariate`."""
    labels: tuple[str, ...] = ()
    """Columns of the duels that `terms` look at."""


class SyntheticData(_Strict):
    """Items with normal features, a utility drawn from a Gaussian process, and random duels."""

    items: Annotated[int, Field(ge=2, le=20_000)]  # all pairs of which have a covariance
    features: Whole
    duels: Whole
    kernel: Literal["se", "matern32", "matern52"]
    variance: Positive
    lengthscale: Positive
    noise: Positive
    """sigma² per side of a duel."""


class Regression(_Strict):
    """How targets become duels: random pairs within training and within test items."""

    items: Whole | None = None
    """At most so many training items, at random."""
    duels: Whole
    test_duels: Whole
    noise: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    """Standard deviation of what is added to either side, as a share of that of the targets."""


class Data(_Strict):
    """Which duels: a `set` by name, `files`, or `made` ones."""

    set: Annotated[str, Field(pattern=r"^[^./\\:\x00-\x1f][^/\\:\x00-\x1f]*$")] | None = None
    files: Files | None = None
    made: SyntheticData | None = None
    regression: Regression | None = None
    """For sets of features and targets."""
    test: Literal["gold"] | None = None
    """Which duels of the held-out items or groups are predicted: gold ones in place of votes."""

    def _mistakes(self) -> Iterator[str]:
        sources = [name for name in ("set", "files", "made") if getattr(self, name) is not None]
        if len(sources) != 1:
            listed = " and ".join(sources) or "none"
            yield f"has {listed} of set, files and made; give exactly one of them"
        for name in ("regression", "test"):
            if getattr(self, name) is not None and self.set is None:
                yield f"has {name}, which belongs to a set; leave it out, or give set"

    @property
    def label(self) -> str:
        """A short name for tables and names of runs."""
        if self.set is not None:
            return self.set
        return "made" if self.files is None else Path(self.files.duels).name.split(".")[0]


class SplitSettings(_Strict):
    """What is held out, again for every seed."""

    by: str
    """`duels`, `items`, `group:COLUMN` or `time:COLUMN`; one of three says how much."""
    test_fraction: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    leave_one_out: bool = False
    """One group whole, the one whose number, from 0, is the seed."""
    standard: bool = False
    """The test items that a regression set came with."""
    max_train: tuple[Whole, ...] = ()
    """At most so many training duels; several numbers make a learning curve."""

    def _mistakes(self) -> Iterator[str]:
        stated = says_itself(self.by) and f"the split by {self.by!r}"
        together.check(stated_split=stated, seeds=True)
        if (self.test_fraction is not None) + self.leave_one_out + self.standard != 1:
            yield "needs one of test_fraction, leave_one_out and standard; give exactly one of them"
        if self.leave_one_out and not self.by.startswith("group:"):
            yield f"leaves one out by {self.by!r}; give by: group:COLUMN"


class Study(_Strict):
    """Every combination that makes sense of what is listed, for every seed."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    title: str
    data: Data
    split: SplitSettings
    kernels: Some[str]
    """By name, as for `fit`; so are the next two."""
    approximations: Some[str]
    engines: Some[str]
    inducing: tuple[Whole, ...] = ()
    inducing_inputs: tuple[Literal["random", "kmeans", "greedy", "learned"], ...] = ()
    """`random` items, `kmeans` centres, `greedy` conditional variance, all of which stay where
    they are, or `learned` from k-means on.
    """
    hyperparameters: Some[Literal["fixed", "joint"]]
    """`fixed` (those that the exact model learns on the same training duels, or `at`) or `joint`
    (learned with the approximation).
    """
    at: dict[str, dict[str, Values]] | None = None
    """Values by kernel term and parameter."""
    seeds: Some[Annotated[int, Field(ge=0)]]
    iterations: Whole
    noise_variance: Positive = 0.5
    """sigma² per side."""
    terms: tuple[str, ...] = ()
    """Of one's own (`ablate --import`), by name, in all models."""
    exact_reference: bool
    """Compare with exact EP where the smaller of distinct items and distinct duels is at most
    `exact_limit`.
    """
    exact_limit: Whole = 2000
    baselines: bool
    """A linear probit and a coin too."""

    def _mistakes(self) -> Iterator[str]:
        approximations = [ApproximationChoice.parse(text) for text in self.approximations]
        kernels = [KernelChoice.parse(text) for text in self.kernels]
        engines = [EngineChoice.parse(text) for text in self.engines]
        named = {"kernels": kernels, "approximations": approximations, "engines": engines}
        listed = dict(self) | named | {"split.max_train": self.split.max_train}
        for name, values in listed.items():
            names = [*map(file_name, map(str, values))] if isinstance(values, list | tuple) else []
            for twice in (one for one in names if names.count(one) > 1):
                yield f"has {twice!r} twice in {name}; once is enough"
        kind, split = self.split.by.partition(":")[0], f"the split by {self.split.by!r}"
        sparse = next((str(one) for one in approximations if one.needs_inducing), None)
        items = next((f"the kernel {kernel}" for kernel in kernels if kernel.only_items), None)
        noise, logit = self.noise_variance, "laplace-logit" in self.engines
        together.check(
            made_duels=self.data.made is not None,
            split_by_a_column=kind not in ("duels", "items") and split,
            targets=self.data.regression is not None,
            split_but_by_items=kind != "items" and split,
            standard_parts=self.split.standard,
            no_targets=self.data.regression is None,
            gold=self.data.test == "gold",
            split_of_the_same_pairs=kind not in ("items", "group") and split,
            effects_of_items_alone=items,
            inducing=sparse and f"the inducing inputs of {sparse}",
            fixed_hyperparameters=FIXED in self.hyperparameters,
            no_exact_reference=self.at is None and not self.exact_reference,
            logistic=logit and "the engine laplace-logit",
            noise_variance=noise != 0.5 and f"noise_variance: {noise:g}",
        )
        for name, example in (("inducing", "[16, 32]"), ("inducing_inputs", "[kmeans, learned]")):
            if sparse and not getattr(self, name):
                yield f"has no {name}, which {sparse} needs; add {name}: {example}"
        yield from self._mistakes_of_values(self.at, kernels) if self.at is not None else ()

    def _mistakes_of_values(
        self, at: Mapping[str, Mapping[str, Values]], kernels: list[KernelChoice]
    ) -> Iterator[str]:
        for kernel in kernels:
            special = (kernel.is_additive or not kernel.plain) and f"the kernel {kernel}"
            together.check(values_of_terms=True, special_kernel=special)
        terms = {part for kernel in kernels for part in kernel.parts}
        for term in sorted(terms ^ set(at)):
            word = "values for no" if term in terms else "values under at for"
            yield f"has {word} kernel term {term!r}; give them for {', '.join(sorted(terms))}"
        for term, name, value in ((a, b, value) for a in at for b, value in at[a].items()):
            known = ("variance", "lengthscales") if term in STATIONARY_KERNELS else ("variance",)
            if name not in known:
                yield f"has {name!r} under at for {term}, which has only {' and '.join(known)}"
            if isinstance(value, tuple) and name != "lengthscales" and term != "linear":
                yield f"has {[*value]} for 'at.{term}.{name}'; give one number, which is all it has"
            least = LEAST_LENGTHSCALE if name == "lengthscales" else LEAST_VARIANCE
            for one in value if isinstance(value, tuple) else (value,):
                if not least < one < float("inf"):
                    yield f"has {one:g} for 'at.{term}.{name}'; give a number above {least:g}"
        if self.data.made is not None:
            self.check_features(self.data.made.features)

    def check_features(self, features: int) -> None:
        """Refuse other numbers of values under `at` than there are features.

        :raises ValueError: neither one value nor as many.
        """
        for term, values in (self.at or {}).items():
            for name, value in values.items():
                if isinstance(value, tuple) and len(value) != features:
                    raise ValueError(
                        f"'at.{term}.{name}' has {counted(len(value), 'value')} for "
                        f"{counted(features, 'feature')}; give as many, or one for all."
                    )


def file_name(text: str) -> str:
    """A part of a file's name: a colon is left out, and whatever is not plain becomes _."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", text.replace(":", ""))


def read_study(path: str | Path) -> Study:
    """Read a study from a YAML file.

    :raises ValueError: a file that is missing or is not YAML; an unknown key (the message has the
        nearest known one), one that is missing or twice there, a value that makes no sense.
    :raises ModuleNotFoundError: PyYAML is not installed.
    """
    path = Path(path)
    where = f"The configuration {str(path)!r}"
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        missing = isinstance(error, FileNotFoundError)
        what = "does not exist" if missing else "cannot be read as text"
        raise ValueError(f"{where} {what}; give the path of a YAML file.") from None
    values = read_yaml(text, where, "Reading a study", "studies")
    return study_from(values, where, path.parent)


def study_from(values: Any, where: str = "The study", folder: str | Path = ".") -> Study:
    """A study from plain values, as `read_study` reads them.

    :param values: a mapping.
    :param where: the beginning of a message.
    :param folder: where relative paths of files begin.
    :raises ValueError: what `read_study` raises of keys and values.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{where} holds no keys; see configs/smoke for an example.")
    try:
        study = Study.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        text = _sentence(error)
        raise ValueError(f"{where} {text}{'' if text.endswith('?') else '.'}") from None
    if study.data.files is None:
        return study
    files = study.data.files
    at = {name: str(Path(folder, getattr(files, name)).resolve()) for name in ("items", "duels")}
    for path in at.values():
        if not Path(path).is_file():
            raise ValueError(f"{where} names {path!r}, which is not a file; correct the path.")
    data = study.data.model_copy(update={"files": files.model_copy(update=at)})
    return study.model_copy(update={"data": data})


_PARTS: dict[int | str, type[_Strict]] = {
    "data": Data,
    "split": SplitSettings,
    "files": Files,
    "made": SyntheticData,
    "regression": Regression,
}


def _sentence(error: ValidationError) -> str:
    """The first mistake, to follow "The configuration … "; unknown keys before all others."""
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    place = [part for part in first["loc"] if not str(part).startswith(("tuple[", "float"))]
    *outer, key = place or [""]
    within = f" in {'.'.join(map(str, outer))!r}" if outer else ""
    if first["type"] == "extra_forbidden":
        known = [*(_PARTS[outer[-1]] if outer else Study).model_fields]
        near = spelt_like(str(key), known, cutoff=0.5)
        remedy = f"did you mean {near!r}?" if near else f"choose from {', '.join(known)}"
        part, _, inner = str(key).partition(".")
        if inner and part in known:
            remedy = f"write {part}: {{{inner}: …}}"
        return f"has an unknown key {key!r}{within}; {remedy}"
    if first["type"] == "missing":
        return f"has no {key!r}{within}; add it"
    path = ".".join(map(str, place))
    if first["type"] == "value_error":
        return str(first["ctx"]["error"]) + (f" in {path!r}" if path else "")
    wanted = first["msg"].replace("Input should", "it should").replace("Tuple", "it")
    return f"has {shortened(first['input'])} for {path!r}; {wanted[0].lower()}{wanted[1:]}"
