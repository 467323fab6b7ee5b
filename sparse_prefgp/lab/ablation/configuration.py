"""What a study is, as a YAML file says it: strict models, and mistakes refused in one sentence."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from sparse_prefgp.data.splits import says_itself
from sparse_prefgp.lab.ablation.checksums import source_sums
from sparse_prefgp.lab.layout import LAYOUT
from sparse_prefgp.support.extras import install
from sparse_prefgp.support.words import spelt_like
from sparse_prefgp.support.yaml_files import read_yaml
from sparse_prefgp.workflow.kernel_grammar import STATIONARY_KERNELS
from sparse_prefgp.workflow.kernel_names import LEAST_LENGTHSCALE, LEAST_VARIANCE, KernelChoice
from sparse_prefgp.workflow.model_names import (
    ApproximationChoice,
    EngineChoice,
)

try:
    from pydantic import (
        BaseModel,
        ConfigDict,
        Field,
        ValidationError,
        field_validator,
        model_validator,
    )
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        f"Studies need pydantic; install it with {install('studies')}.", name="pydantic"
    ) from None

# What may be a name in a folder: it leads nowhere else, and is not hidden.
PLAIN = re.compile(r"(?!\.)[^/\\:\x00-\x1f]+")
MEANING = 2  # raised whenever the same configuration gives other runs than before
FIXED, JOINT = HYPERPARAMETERS = ("fixed", "joint")
LEARNED = "learned"
# Where each way of choosing inducing inputs starts, as `initial_inputs` calls it.
METHODS = {"random": "random", "kmeans": "kmeans", "greedy": "variance", LEARNED: "kmeans"}

Whole = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Values = float | tuple[float, ...]


class _Strict(BaseModel):
    """Unknown keys are errors, and nothing is converted from another type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Files(_Strict):
    """Tables of items and duels; relative paths begin at the folder of the configuration."""

    items: str = Field(description="the path of a table of items")
    duels: str = Field(description="the path of a table of duels")
    ignore: tuple[str, ...] = Field((), description="names of columns that are not features")


class SyntheticData(_Strict):
    """Items with normal features, a utility drawn from a Gaussian process, and random duels."""

    items: Annotated[int, Field(ge=2)] = Field(description="a whole number of at least 2")
    features: Whole = Field(description="a whole number of at least 1")
    duels: Whole = Field(description="a whole number of at least 1")
    kernel: Literal["se", "matern32", "matern52"] = Field(description="se, matern32 or matern52")
    variance: Positive = Field(description="a positive number")
    lengthscale: Positive = Field(description="a positive number")
    """The same for all features."""
    noise: Positive = Field(description="a positive number")
    """sigma² per side of a duel."""


class Regression(_Strict):
    """How targets become duels: random pairs within training and within test items."""

    items: Whole | None = Field(None, description="a whole number of training items")
    """At most so many training items, at random."""
    duels: Whole = Field(description="a whole number of training duels")
    test_duels: Whole = Field(description="a whole number of held-out duels")
    noise: NotNegative = Field(description="a number of at least 0")
    """Standard deviation of what is added to either side, as a share of that of the targets."""


class Data(_Strict):
    """Which duels: a `set` by name, `files`, or `made` ones."""

    set: str | None = Field(None, description="the name of a data set, such as boston")
    files: Files | None = Field(None, description="items: and duels:, the paths of two tables")
    made: SyntheticData | None = Field(None, description="items:, features:, duels: and so on")
    regression: Regression | None = Field(None, description="duels:, test_duels: and noise:")
    """For sets of features and targets."""
    test: Literal["gold"] | None = Field(None, description="gold")
    """Which duels of the held-out items or groups are predicted, `gold` ones in place of single
    votes.
    """

    @field_validator("set")
    @classmethod
    def _plain_name(cls, name: str | None) -> str | None:
        if name is not None and not PLAIN.fullmatch(name):
            raise ValueError(
                f"has the data set {name!r}, which is a path and not a name; give a name, such as "
                "boston, or the paths of tables under files"
            )
        return name

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        given = [name for name in ("set", "files", "made") if getattr(self, name) is not None]
        if len(given) != 1:
            listed = " and ".join(given) or "none"
            raise ValueError(f"has {listed} of set, files and made; give exactly one of them")
        for name in ("regression", "test"):
            if getattr(self, name) is not None and self.set is None:
                raise ValueError(f"has {name}, which belongs to a set; leave it out, or give set")
        return self

    @property
    def label(self) -> str:
        """A short name for tables and names of runs."""
        if self.set is not None:
            return self.set
        return "made" if self.files is None else _slug(Path(self.files.duels).name.split(".")[0])


class SplitSettings(_Strict):
    """What is held out, again for every seed."""

    by: str = Field(description="duels, items, group:COLUMN or time:COLUMN")
    """`duels`, `items`, `group:COLUMN` or `time:COLUMN`. One of three says how much: a
    test_fraction.
    """
    test_fraction: Share | None = Field(None, description="a number between 0 and 1")
    leave_one_out: bool = Field(False, description="true or false")
    """One group whole, the one whose number, from 0, is the seed."""
    standard: bool = Field(False, description="true or false")
    """The test items that a regression set came with."""
    max_train: tuple[Whole, ...] = Field((), description="whole numbers, such as [1000, 10000]")
    """At most so many training duels; several numbers make a learning curve."""

    @model_validator(mode="after")
    def _known(self) -> SplitSettings:
        with _as_part_of_a_sentence():
            given = says_itself(self.by)
        if given:
            raise ValueError(
                f"is by {self.by!r}, which is the same for every seed; give by: duels, items, "
                "group:COLUMN or time:COLUMN"
            )
        if (self.test_fraction is not None) + self.leave_one_out + self.standard != 1:
            raise ValueError(
                "needs one of test_fraction, leave_one_out and standard; give exactly one of them"
            )
        if self.leave_one_out and not self.by.startswith("group:"):
            raise ValueError(f"leaves one out by {self.by!r}; give by: group:COLUMN")
        return self


class Study(_Strict):
    """A study: every combination that makes sense of what is listed, for every seed."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]*$",
        description="a short name of small letters, digits, - and _",
    )
    """For files and people."""
    title: str = Field(description="a line of text")
    """For files and people."""
    data: Data = Field(description="set:, files: or made:")
    split: SplitSettings = Field(description="by: and test_fraction:")
    kernels: tuple[str, ...] = Field(min_length=1, description="names, such as [se]")
    """By name, as for `fit`."""
    approximations: tuple[str, ...] = Field(
        min_length=1, description="names, such as [exact, vfe, fitc]"
    )
    """By name, as for `fit`."""
    engines: tuple[str, ...] = Field(min_length=1, description="names, such as [ep]")
    """By name, as for `fit`."""
    inducing: tuple[Whole, ...] = Field((), description="whole numbers, such as [16, 32, 64]")
    """Numbers of inducing inputs, and ways to choose them: `random` items, `kmeans` centres,
    `greedy` conditional variance, all of which stay where they are, or `learned` from k-means on.
    """
    inducing_inputs: tuple[Literal["random", "kmeans", "greedy", "learned"], ...] = Field(
        (), description="random, kmeans, greedy or learned, in a list"
    )
    """See `inducing`."""
    hyperparameters: tuple[Literal["fixed", "joint"], ...] = Field(
        min_length=1, description="fixed or joint, in a list"
    )
    """`fixed` (those that the exact model learns on the same training duels, or `at`) or `joint`
    (learned with the approximation).
    """
    at: dict[str, dict[str, Values]] | None = Field(
        None, description="values by kernel term, such as {se: {variance: 2, lengthscales: 1.5}}"
    )
    """Kernel term -> parameter -> value or values."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        min_length=1, description="whole numbers of at least 0, such as [0, 1, 2]"
    )
    iterations: Whole = Field(description="a whole number of at least 1")
    noise_variance: Positive = Field(0.5, description="a positive number, such as 0.5")
    """sigma² per side."""
    exact_reference: bool = Field(description="true or false")
    """Compare with exact EP where the smaller of distinct items and distinct duels is at most
    `exact_limit`.
    """
    exact_limit: Whole = Field(2000, description="a whole number of at least 1")
    baselines: bool = Field(description="true or false")
    """A linear probit and a coin as baselines."""

    @model_validator(mode="after")
    def _sensible(self) -> Study:
        with _as_part_of_a_sentence():
            approximations = [ApproximationChoice.parse(text) for text in self.approximations]
            kernels = [KernelChoice.parse(text) for text in self.kernels]
            engines = [EngineChoice.parse(text) for text in self.engines]
        listed: dict[str, list[Any]] = {
            "kernels": kernels,
            "approximations": approximations,
            "engines": engines,
            "inducing": list(self.inducing),
            "inducing_inputs": list(self.inducing_inputs),
            "hyperparameters": list(self.hyperparameters),
            "seeds": list(self.seeds),
            "split.max_train": list(self.split.max_train),
        }
        for name, values in listed.items():
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise ValueError(f"has {str(twice)!r} twice in {name}; once is enough")
        _check_names(approximations)
        self._check_parts()
        self._check_inducing([str(one) for one in approximations if one.needs_inducing], kernels)
        self._check_hyperparameters(kernels)
        if "laplace-logit" in self.engines and self.noise_variance != 0.5:
            raise ValueError(
                f"has the noise variance {self.noise_variance:g}, which is ignored by the engine "
                "laplace-logit; leave one of them out"
            )
        return self

    def _check_parts(self) -> None:
        by, kind = self.split.by, self.split.by.partition(":")[0]
        if self.data.made is not None and kind not in ("duels", "items"):
            raise ValueError(
                f"has made duels split by {by!r}, which have no such column; give by: duels or by: "
                "items"
            )
        if self.data.regression is not None and kind != "items":
            raise ValueError(f"has duels from targets split by {by!r}; give by: items")
        if self.split.standard and self.data.regression is None:
            raise ValueError(
                "has standard: true, which is for duels from targets; give test_fraction"
            )
        if self.data.test == "gold" and kind not in ("items", "group"):
            raise ValueError(
                f"has test: gold split by {by!r}, which leaves the same pairs in both parts; give "
                "by: items or by: group:COLUMN"
            )

    def _check_inducing(self, sparse: list[str], kernels: list[KernelChoice]) -> None:
        for name in ("inducing", "inducing_inputs"):
            if sparse and not getattr(self, name):
                example = "[16, 32]" if name == "inducing" else "[kmeans, learned]"
                raise ValueError(f"has no {name}, which {sparse[0]} needs; add {name}: {example}")
        if sparse and any(kernel.only_items for kernel in kernels):
            raise ValueError(
                f"has the kernel item, which leaves nothing for the inducing inputs of {sparse[0]};"
                " use a sum such as linear+item, or exact alone"
            )

    def _check_hyperparameters(self, kernels: list[KernelChoice]) -> None:
        if FIXED in self.hyperparameters and self.at is None and not self.exact_reference:
            raise ValueError(
                "has fixed hyperparameters, which are those of the exact model; set "
                "exact_reference: true, or give values under at"
            )
        if self.at is None:
            return
        if any(kernel.is_additive for kernel in kernels):
            raise ValueError(
                "has values under at, which an additive kernel cannot take; leave at out"
            )
        described = next((str(kernel) for kernel in kernels if not kernel.plain), None)
        if described is not None:
            raise ValueError(
                f"has values under at, which only kernels without columns and products can take, "
                f"not {described}; leave at out"
            )
        terms = {part for kernel in kernels for part in kernel.parts}
        for term in [*sorted(terms - set(self.at)), *sorted(set(self.at) - terms)]:
            word = "values for no" if term in terms else "values under at for"
            raise ValueError(
                f"has {word} kernel term {term!r}; give them for {', '.join(sorted(terms))}"
            )
        for term, values in self.at.items():
            known = ("variance", "lengthscales") if term in STATIONARY_KERNELS else ("variance",)
            wrong = next((name for name in values if name not in known), None)
            if wrong is not None:
                raise ValueError(
                    f"has {wrong!r} under at for {term}, which has only {' and '.join(known)}; "
                    "correct the name"
                )
            for name, value in values.items():
                self._check_values(term, name, value)

    def _check_values(self, term: str, name: str, value: Values) -> None:
        """Refuse values under `at` that no parameter can have."""
        given = value if isinstance(value, tuple) else (value,)
        wrong = next((x for x in given if not (x > 0.0 and math.isfinite(x))), None)
        if wrong is not None:
            raise ValueError(
                f"has {wrong:g} for 'at.{term}.{name}'; give a positive number, such as 1.5"
            )
        least = LEAST_LENGTHSCALE if name == "lengthscales" else LEAST_VARIANCE
        if min(given, default=math.inf) <= least:
            raise ValueError(
                f"has {min(given):g} for 'at.{term}.{name}', which kernels by name cannot have; "
                f"give more than {least:g}"
            )
        features = name == "lengthscales" or term == "linear"  # which has a variance for each
        if isinstance(value, tuple) and not features:
            raise ValueError(
                f"has {list(value)} for 'at.{term}.{name}'; give one number, which is all it has"
            )
        if isinstance(value, tuple) and self.data.made is not None:
            check_length(term, name, len(value), self.data.made.features)

    def resolved(self) -> dict[str, Any]:
        """All settings, defaults too, in plain values."""
        return self.model_dump(mode="json")

    def fingerprint(self) -> str:
        """Of all that decides the runs: not the title, and not the order of what is listed.

        Contents of files count, of those of a data set too, and not where they are.

        :raises ValueError: of a data set, as `datasets.fetch`.
        :raises ConnectionError: of a data set, as `datasets.fetch`.
        :raises ModuleNotFoundError: of a data set, as `datasets.fetch`.
        """
        settings = self.resolved()
        del settings["title"]
        settings = {
            key: sorted(value, key=str) if isinstance(value, list) else value
            for key, value in settings.items()
        }
        settings["split"]["max_train"] = sorted(settings["split"]["max_train"])
        if self.data.files is not None:
            del settings["data"]["files"]["items"], settings["data"]["files"]["duels"]
        about = {"meaning": MEANING, "label": self.data.label, "sums": source_sums(self.data)}
        text = json.dumps({"layout": LAYOUT, **about, **settings}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def check_length(term: str, name: str, values: int, features: int) -> None:
    """Refuse another number of values under `at` than there are features.

    :raises ValueError: the end of a sentence, after "The configuration … ".
    """
    if values != features:
        raise ValueError(
            f"has {values} values for 'at.{term}.{name}' and the items have {features} features; "
            "give as many, or one number for all"
        )


def _check_names(approximations: list[ApproximationChoice]) -> None:
    """Refuse columns that are not part of a file's name, and names that files would share."""
    for one in approximations:
        if one.column is not None and not PLAIN.fullmatch(one.column):
            raise ValueError(
                f"has the approximation {str(one)!r}, whose column cannot be part of the name of a "
                "file; rename it without / and \\, or use pitc:20"
            )
    names = [safe_name(str(one)) for one in approximations]
    for i, name in enumerate(names):
        if name in names[:i]:
            same = str(approximations[names.index(name)])
            raise ValueError(
                f"has {same!r} and {str(approximations[i])!r} in approximations, whose runs would "
                "have the same name; leave one of them out"
            )


def safe_name(text: str) -> str:
    """A part of a file's name: a colon is left out, and whatever is not plain becomes _."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", text.replace(":", ""))


def read_study(path: str | Path) -> Study:
    """Read a study from a YAML file.

    :raises ValueError: a file that is missing or is not YAML; an alias; an unknown key (the message
        has the nearest known one), one that is missing or twice there, a value that makes no sense.
    :raises ModuleNotFoundError: PyYAML is not installed.
    """
    path = Path(path)
    where = f"The configuration {str(path)!r}"
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ValueError(f"{where} does not exist; give the path of a YAML file.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not text; give a YAML file.") from None
    values = read_yaml(text, where, "Reading a study", "studies")
    return study_from(values, where, path.parent)


def study_from(values: Any, where: str = "The study", folder: str | Path = ".") -> Study:
    """A study from plain values, as `read_study` finds them.

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
            raise ValueError(f"{where} names {path!r}, which does not exist; correct the path.")
    data = study.data.model_copy(update={"files": files.model_copy(update=at)})
    return study.model_copy(update={"data": data})


@contextmanager
def _as_part_of_a_sentence() -> Iterator[None]:
    """What a message about a name says, to follow "The configuration … "."""
    try:
        yield
    except ValueError as error:
        text = str(error).rstrip(".")
        raise ValueError(f"is wrong: {text[0].lower()}{text[1:]}") from None


def _sentence(error: ValidationError) -> str:
    """The first mistake, to follow "The configuration … "; unknown keys before all others."""
    mistakes = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    first = mistakes[0]
    *before, last = place = list(first["loc"]) or [""]
    path, outer = _path(place), _path(before)
    within = f" in {outer!r}" if outer else ""
    if first["type"] == "extra_forbidden":
        known = list(_model_at(before).model_fields)
        near = spelt_like(str(last), known, cutoff=0.5)
        remedy = f"did you mean {near!r}?" if near else f"choose from {', '.join(known)}"
        return f"has an unknown key {last!r}{within}; {remedy}"
    if first["type"] == "missing":
        return f"has no {last!r}{within}; give {_wanted(place)}"
    if first["type"] == "value_error":
        within = f" in {path!r}" if path else ""
        text = str(first["ctx"]["error"])
        return f"{text}{within}" if ";" not in text else text.replace(";", f"{within};", 1)
    return f"has {_shown(first['input'])} for {path!r}; give {_wanted(place)}"


def _model_at(place: list[int | str]) -> type[_Strict]:
    """The model of the part at a place."""
    parts: dict[str, type[_Strict]] = {
        "data": Data,
        "split": SplitSettings,
        "files": Files,
        "made": SyntheticData,
        "regression": Regression,
    }
    found: type[_Strict] = Study
    for name in place:
        found = parts.get(str(name), found)
    return found


def _wanted(place: list[int | str]) -> str:
    """What a key takes, from the innermost named field; entries of a list go by their list."""
    for end in range(len(place), 0, -1):
        field = _model_at(place[: end - 1]).model_fields.get(str(place[end - 1]))
        if field is not None and field.description:
            return field.description
    return "another value"


def _path(place: list[int | str]) -> str:
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif text != "" and part in ("float", "tuple[float, ...]"):
            continue  # which kind of value was tried
        else:
            text += f".{part}" if text else str(part)
    return text


def _shown(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() or c in "_-" else "-" for c in text.lower()) or "duels"
