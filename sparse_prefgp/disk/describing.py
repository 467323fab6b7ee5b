"""What is written of a model, a description in JSON and arrays, and the model that is made of it.

Of a `PreferenceGP` that is its duels and sites; of a `StreamedGP` the posterior, and names and
numbers of the duels.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import PITC, Approximation
from sparse_prefgp.covariances.coefficients import on_rows
from sparse_prefgp.covariances.item_effect import item_effects, know_effects, known_effects
from sparse_prefgp.covariances.kernels import as_float, between_inducing, kernel_matrix
from sparse_prefgp.data.answers import (
    COLUMNS,
    KINDS,
    AboutSets,
    Answers,
    Codes,
    Covariates,
    Grades,
    arrays_of,
)
from sparse_prefgp.data.batches import Totals
from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.items import Items
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.data.roles import columns_of_roles
from sparse_prefgp.disk.upgrading import STREAMED
from sparse_prefgp.engines import InferenceResult, Status
from sparse_prefgp.models.base import DuelGP
from sparse_prefgp.models.codec import decoded, encoded
from sparse_prefgp.models.hyperparameters import Hyperparameters
from sparse_prefgp.models.known import Written
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.models.streaming.algebra import size_of
from sparse_prefgp.models.streaming.gaussian import Natural, Size, numbers_of
from sparse_prefgp.models.streaming.model import (
    SolvedParts,
    StreamedGP,
    StreamedResult,
    without_duels,
)
from sparse_prefgp.models.terms import Term, Terms
from sparse_prefgp.support.plain import plain
from sparse_prefgp.support.versions import versions

_ROWS_COMPARED = 50
# What the bytes of JSON texts say.
_TEXTS = ("item_ids", "item_rows", "people_features")
# What is known of streamed duels besides items, names and comparisons; arrays as lists.
_SEEN = (
    "num_duels",
    "has_items",
    "num_ties",
    "grade_counts",
    "covariate_squares",
    "group_levels",
    "has_sets",
)


def described(model: DuelGP) -> Written:
    """The description and the arrays.

    :raises ValueError: what `save` raises about the model.
    """
    known, duels, approximation = model._inferred(warn=False), model.duels, model.approximation
    if known.result.status is Status.NOT_FINITE:
        raise ValueError(
            "Inference has not come to finite values, so the model cannot predict and is not "
            f"saved: {known.result}."
        )
    labels = approximation.labels
    if labels is not None:  # each once: the duels have their numbers
        approximation = replace(approximation, blocks=labels)
    parts, arrays = encoded(model, approximation=approximation, engine=model.engine)
    data = _described_items(duels, arrays)
    # The log of the rounds is of a run, not of a model.
    inference = {name: x for name, x in vars(known.result).items() if name != "rounds"}
    description = {
        "versions": versions(),
        "float": gpflow.default_float().__name__,
        "inference": inference | {"status": known.result.status.name},
        "duels": data,
        **parts,
    }
    if duels.held:
        in_blocks = approximation.has_blocks
        # As it was given where each duel has its block or a weight, else with equal duels merged.
        apart = in_blocks or duels.merged.weights is not None
        names, said = described_events(duels.given if apart else duels.events)
        arrays["site_nu"], arrays["site_tau"] = model.inference.sites()
        if in_blocks:
            arrays["blocks"] = given_blocks(model)
        # Before, effects were of rows, and of at most 1,000 items; None is all.
        data |= {"effects_of": "items", "effects_known": known_effects(model.kernel)}
        _check_rebuilds(model, description, arrays)
    else:
        names, said = described_events(duels.answers.said)
        data |= {name: plain(getattr(duels, name)) for name in _SEEN}
        arrays |= {"comparisons": duels.comparisons, "natural": known.solution.total.packed()}
        description |= {"kind": STREAMED, "log_evidence": known.solution.log_evidence}
    data |= names
    return description, arrays | said


def rebuilt(description: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> DuelGP:
    """The model that `described` has described."""
    parts = decoded(description, arrays, "approximation", "engine")
    data, inference = description["duels"], description["inference"]
    known = _items_of(data, arrays), events_of_arrays(data, arrays), columns_of_roles(data["roles"])
    result = {**inference, "status": Status[inference["status"]]}
    if description.get("kind") == STREAMED:
        return _streamed(description, arrays, parts, known, result)
    return _in_memory(data, arrays, parts, known, result)


def _in_memory(
    data: dict[str, Any],
    arrays: Mapping[str, np.ndarray],
    parts: dict[str, Any],
    known: tuple[Items, Answers, Mapping[str, str]],
    result: dict[str, Any],
) -> PreferenceGP:
    items, events, roles = known
    kernel, centre, approximation = (parts.pop(x) for x in ("kernel", "centre", "approximation"))
    if data["effects_of"] == "rows" and item_effects(kernel):  # before, each had one of its own
        items = replace(items, item=None)
    know_effects(kernel, data["effects_known"])
    people = _from_bytes(arrays.get("people_features"))
    if people is not None:
        made, names = people["transform"], people["names"]
        people = PeopleFeatures(
            tuple(names),
            np.array(people["values"], dtype=np.float64).reshape(len(names), -1),
            tuple(people["feature_names"]),
            None if made is None else FeatureTransform.from_dict(made),
        )
    duels = Duels.from_events(items, events, people_features=people, roles=roles)
    labels = approximation.labels
    if labels is not None:
        approximation = replace(approximation, blocks=[labels[i] for i in arrays["blocks"]])

    def build(approximation: Approximation) -> PreferenceGP:
        with warnings.catch_warnings():  # whoever saved the model has been warned of its kernel
            warnings.simplefilter("ignore")
            return PreferenceGP(duels, kernel, approximation=approximation, **parts)

    model = build(approximation)
    if "blocks" in arrays and not np.array_equal(given_blocks(model), arrays["blocks"]):
        if arrays["blocks"].dtype.kind not in "iu":
            raise ValueError("the blocks are no numbers")
        # Another version of k-means finds others; the sites belong to those that were saved.
        model = build(PITC(arrays["blocks"]))
    model.centre = centre
    model.inference.restore(arrays["site_nu"], arrays["site_tau"], InferenceResult(**result))
    return model


def _streamed(
    description: dict[str, Any],
    arrays: Mapping[str, np.ndarray],
    parts: dict[str, Any],
    known: tuple[Items, Answers, Mapping[str, str]],
    result: dict[str, Any],
) -> StreamedGP:
    items, said, roles = known
    approximation, engine = parts.pop("approximation"), parts.pop("engine")
    of_duels = {name: description["duels"].get(name) for name in _SEEN}
    numbers: dict[str, Any] = {
        name: np.array(x) if isinstance(x, list) else x for name, x in of_duels.items()
    }
    squares = numbers["covariate_squares"]
    totals = Totals(
        said,
        numbers["num_duels"],
        numbers["num_ties"] or 0,
        comparisons=arrays["comparisons"],
        ends=None if numbers["has_items"] else items.features,
        grade_counts=numbers["grade_counts"],
        judge_levels=numbers["group_levels"],
        squares=None if squares is None else np.append(1.0, squares),
        about_sets=AboutSets(bool(numbers["has_sets"])),
    )
    seen = Duels.from_events(items, totals, roles=roles)
    parts["terms"] = Terms.of(parts["terms"], seen)  # from here on they know whose they are
    parts["likelihood"] = parts["likelihood"].on(seen)
    levels = tuple(map(len, parts["terms"].names(seen).values()))
    parameters = Hyperparameters.of_stream(parts, seen.covariate_names, levels)
    natural = arrays["natural"]
    prior = between_inducing(parameters.inducing_variable, parameters.kernel)
    size = size_of(parameters, approximation, seen.has_sets)
    # Files of before have leans among the coefficients.
    dense = Size(size.whole)
    fits = len(natural) in (numbers_of(size), numbers_of(dense))
    if not (fits and np.all(np.isfinite(natural)) and np.all(np.isfinite(prior))):
        raise ValueError("what the duels say does not fit the inducing inputs")
    if len(natural) == numbers_of(size):
        total = Natural.unpacked(natural, size)
    else:
        total = Natural.unpacked(natural, dense).parted(size)
    solved = SolvedParts(parameters, total, description["log_evidence"])
    ended = StreamedResult(**result | {"rounds": ()})
    return without_duels(seen, approximation, engine, solved, ended)


def _described_items(duels: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What is known of items and of people; what is an array, or long, joins the arrays.

    :raises ValueError: ids that are neither text nor numbers.
    """
    for value in duels.item_ids or ():
        one = value.item() if isinstance(value, np.generic) else value
        if not (isinstance(one, str | int) or (isinstance(one, float) and np.isfinite(one))):
            raise ValueError(
                f"The item id {one!r} is of type {type(one).__name__}; a saved model holds ids "
                "that are text or numbers."
            )
    arrays["items"] = duels.items
    if duels.known.item is not None:
        arrays["item"] = duels.known.item
    if duels.transform is not None:
        arrays |= duels.transform.arrays()
    for name in _TEXTS:
        if (known := getattr(duels, name, None)) is not None:
            known = known.to_dict() if hasattr(known, "to_dict") else known
            text = json.dumps(plain(known, float))
            arrays[name] = np.frombuffer(text.encode("utf-8"), np.uint8)
    return {
        "roles": dict(duels.roles),
        "feature_names": duels.feature_names,
        "transform": None if duels.transform is None else duels.transform.to_dict(),
    }


def _items_of(data: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Items:
    transform, rows = data["transform"], _from_bytes(arrays.get("item_rows"))
    return Items.of(
        arrays["items"],
        _from_bytes(arrays.get("item_ids")),
        data["feature_names"],
        None if transform is None else FeatureTransform.from_dict(transform, arrays),
        arrays.get("item"),
        None if rows is None else ItemRows.from_dict(rows),
    )


def _from_bytes(array: np.ndarray | None) -> Any:
    """What a JSON text says as whose bytes it was saved; None where there is none."""
    return None if array is None else json.loads(array.tobytes().decode("utf-8"))


def described_events(events: Answers) -> Written:
    """A table of events as it is saved: what its numbers stand for, and the arrays."""
    arrays = {"sides": events.sides, "counts": events.counts}
    if not events.in_pairs:
        arrays["offsets"] = events.offsets
    for name, values in events.columns.items():
        several = COLUMNS[name].holds == "labels"
        for i, array in enumerate(arrays_of(values)):
            arrays[f"{name}_{i}" if several else name] = array
    if events.each_weight is not None:
        arrays["weights"] = events.each_weight
    kinds = [kind.name for kind in KINDS]
    return {"kinds": kinds, "columns": _names_as_plain(events.columns)}, arrays


def _names_as_plain(values: Any) -> Any:
    """What the numbers of a column, or of all, stand for, for JSON."""
    if isinstance(values, Mapping):  # a list, as the order of columns counts
        return [[name, _names_as_plain(one)] for name, one in values.items()]
    if isinstance(values, np.ndarray):
        return {}
    return plain({**values._asdict(), "numbers": None})


def events_of_arrays(data: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Answers:
    """The inverse of `described_events`, which are among these."""
    names, columns = dict(data["columns"]), dict[str, Any]()
    for name, column in COLUMNS.items():
        if column.holds == "labels":
            columns[name] = {
                of: _named(Codes, arrays[f"{name}_{i}"], said)
                for i, (of, said) in enumerate(names.get(name, ()))
            }
        elif column.holds not in _NAMED:
            columns[name] = arrays.get(name)
        elif name in arrays and name in names:
            columns[name] = _named(_NAMED[column.holds], arrays[name], names[name])
    if "weights" in arrays:
        columns["weights"] = arrays["weights"] * arrays["counts"]
    if "kind" in arrays:
        known = {kind.name: i for i, kind in enumerate(KINDS)}
        kinds = np.array([known[name] for name in data["kinds"]], np.int8)
        columns["kind"] = kinds[arrays["kind"]]
    return Answers(arrays["sides"], arrays.get("offsets"), **columns)


_NAMED: dict[str, Any] = {"code": Codes, "grade": Grades, "covariate": Covariates}


def _named(kind: Any, numbers: np.ndarray, said: Mapping[str, Any]) -> Any:
    """What `_names_as_plain` has described."""
    return kind(**{**said, "numbers": numbers, "names": tuple(said["names"])})


def given_blocks(model: Any) -> np.ndarray:
    """The number of the block of each duel as given."""
    graph = model.graph
    assert graph.blocks is not None
    return graph.of_duels(graph.blocks)


def _check_rebuilds(
    model: PreferenceGP, description: dict[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """A class may compute with more than its constructor's arguments; found before it is lost."""
    rows, inputs = as_float(model.graph.rows[:_ROWS_COMPARED]), model.inputs
    features = rows[:, : model.duels.num_features]

    def of_kernel(kernel: gpflow.kernels.Kernel) -> list[np.ndarray]:
        kernel = on_rows(kernel, inputs.layout)
        return [kernel_matrix(kernel, rows).numpy(), kernel(rows, full_cov=False).numpy()]

    def of_mean(mean_function: Any) -> list[np.ndarray]:
        return [] if mean_function is None else [np.asarray(mean_function(features))]

    def of_term(term: Term) -> list[np.ndarray]:
        return [kernel(rows).numpy() for kernel in term.kernels(inputs.columns)]

    again = decoded(description, arrays)
    parts: list[tuple[Any, Any, Callable[[Any], list[np.ndarray]]]] = [
        (model.kernel, again["kernel"], of_kernel),
        (model.mean_function, again["mean_function"], of_mean),
        *((*both, of_term) for both in zip(model.terms, again["terms"], strict=True)),
    ]
    for one, two, computed in parts:
        if not all(map(np.array_equal, computed(one), computed(two))):
            raise ValueError(
                f"The class {type(one).__name__} does not compute the same again from its "
                "constructor's arguments and parameters; let the constructor take everything it "
                "computes with, kernels too, and keep each in an attribute named like its "
                "argument."
            )
