"""What is written of a model, a description in JSON and arrays, and the model that is made of it;
here a `PreferenceGP`."""

from __future__ import annotations

import json
import warnings
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import asdict, fields, replace
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import PITC, Approximation
from sparse_prefgp.covariances.coefficients import on_rows
from sparse_prefgp.covariances.item_effect import item_effects, know_effects, known_effects
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.data.answers import (
    COLUMNS,
    KINDS,
    TIE,
    WIN,
    Answers,
    Codes,
    Covariates,
    Grades,
    arrays_of,
)
from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.items import Items
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.data.roles import columns_of_roles
from sparse_prefgp.engines import InferenceResult, Status
from sparse_prefgp.models.base import DuelGP
from sparse_prefgp.models.codec import decoded, encoded
from sparse_prefgp.models.known import Written
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.models.registry import class_of, named
from sparse_prefgp.models.terms import Term
from sparse_prefgp.support.plain import plain
from sparse_prefgp.support.registry import APPROXIMATION, ENGINE
from sparse_prefgp.support.versions import versions

_ROWS_COMPARED = 50
# What the bytes of JSON texts say.
_TEXTS = ("item_ids", "item_rows", "people_features")
# Of how many items next to inducing inputs a model knew the effects when files did not say it.
_EFFECTS_BEFORE = 1000


def described(model: PreferenceGP) -> Written:
    """The description and the arrays.

    :raises ValueError: what `save` raises about the model.
    """
    description, arrays = described_as_any(model, model.infer(), encoded(model))
    duels, in_blocks = model.duels, model.approximation.has_blocks
    # As it was given where each duel has its block or a weight, else with equal duels merged.
    apart = in_blocks or duels.merged.weights is not None
    names, said = described_events(duels.given if apart else duels.events)
    arrays |= said
    arrays["site_nu"], arrays["site_tau"] = model.inference.sites()
    if in_blocks:
        arrays["blocks"] = given_blocks(model)
    if model.approximation.labels is not None:
        description["approximation"]["fields"]["blocks"] = list(model.approximation.labels)
    # Before, effects were of rows, and of at most 1,000 items; None is all.
    effects = {"effects_of": "items", "effects_known": known_effects(model.kernel)}
    description["duels"] |= names | effects
    _check_rebuilds(model, description, arrays)
    return description, arrays


def rebuilt(description: dict[str, Any], arrays: MutableMapping[str, np.ndarray]) -> PreferenceGP:
    """The model that `described` has described."""
    parts, data = decoded(description, arrays), description["duels"]
    kernel, centre = parts["kernel"], parts.pop("centre")
    items, people = items_of_arrays(data, arrays), _from_bytes(arrays.get("people_features"))
    if people is not None:
        made, names = people["transform"], people["names"]
        people = PeopleFeatures(
            tuple(names),
            np.array(people["values"], dtype=np.float64).reshape(len(names), -1),
            tuple(people["feature_names"]),
            None if made is None else FeatureTransform.from_dict(made),
        )
    if "effects_of" not in data and item_effects(kernel):  # before, each row had one of its own
        items = replace(items, item=None)
    know_effects(kernel, data.get("effects_known", _EFFECTS_BEFORE))
    events = events_of_arrays(data, arrays)
    if description.get("lean_by_group") is not None:  # before, groups leaned
        assert events.judge is not None
        events = events.saying(labels={parts["terms"].labels[0]: events.judge})
    duels = Duels.from_events(items, events, people_features=people, roles=roles_of(data))
    engine, approximation = description["engine"], description["approximation"]
    if engine["type"] == "PartitionedEP":  # before, in memory too, with the steps of ParallelEP
        kept = {k: x for k, x in engine["fields"].items() if k not in ("parts", "local_sweeps")}
        engine = {"type": "ParallelEP", "fields": kept}
    labels = approximation["fields"].get("blocks")
    if isinstance(labels, list):
        blocks = {"blocks": [labels[number] for number in arrays["blocks"]]}
        approximation = {**approximation, "fields": approximation["fields"] | blocks}
    parts["engine"] = value_of(ENGINE, engine)

    def build(approximation: Approximation) -> PreferenceGP:
        with warnings.catch_warnings():  # whoever saved the model has been warned of its kernel
            warnings.simplefilter("ignore")
            return PreferenceGP(duels, approximation=approximation, **parts)

    model = build(value_of(APPROXIMATION, approximation))
    if "blocks" in arrays and not np.array_equal(given_blocks(model), arrays["blocks"]):
        if arrays["blocks"].dtype.kind not in "iu":
            raise ValueError("the blocks are no numbers")
        # Another version of k-means finds others; the sites belong to those that were saved.
        model = build(PITC(arrays["blocks"]))
    model.centre = centre
    result = InferenceResult(**result_of(description))
    model.inference.restore(arrays["site_nu"], arrays["site_tau"], result)
    return model


def described_as_any(model: DuelGP, result: InferenceResult, parts: Written) -> Written:
    """What is written of any model: versions, approximation, engine, how inference went, all
    parameters, and what is known of the items and of people.

    :param parts: what `encoded` gave of the model.
    :raises ValueError: sites that are not finite; ids that are neither text nor numbers; what
        `named_value` raises.
    """
    if result.status is Status.NOT_FINITE:
        raise ValueError(
            "Inference has not come to finite values, so the model cannot predict and is not "
            f"saved: {result}."
        )
    duels, (names, parameters) = model.duels, parts
    for value in duels.item_ids or ():
        one = value.item() if isinstance(value, np.generic) else value
        if not (isinstance(one, str | int) or (isinstance(one, float) and np.isfinite(one))):
            raise ValueError(
                f"The item id {one!r} is of type {type(one).__name__}; a saved model holds ids "
                "that are text or numbers."
            )
    arrays = {**parameters, "items": duels.items}
    if duels.known.item is not None:
        arrays["item"] = duels.known.item
    if duels.transform is not None:
        arrays |= duels.transform.arrays()
    for name in _TEXTS:
        if (known := getattr(duels, name, None)) is not None:
            known = known.to_dict() if hasattr(known, "to_dict") else known
            text = json.dumps(plain(known, float))
            arrays[name] = np.frombuffer(text.encode("utf-8"), np.uint8)
    of_duels = {
        "roles": dict(duels.roles),
        "feature_names": duels.feature_names,
        "transform": None if duels.transform is None else duels.transform.to_dict(),
    }
    description: dict[str, Any] = {
        "versions": versions(),
        "float": gpflow.default_float().__name__,
        "approximation": named_value(model.approximation, "The approximation"),
        "engine": named_value(model.engine, "The engine"),
        "inference": {**asdict(result), "status": result.status.name},
        "duels": of_duels,
        **names,
    }
    return description, arrays


def result_of(description: dict[str, Any]) -> dict[str, Any]:
    """How inference went, by the names of an `InferenceResult`."""
    inference = description["inference"]
    return {**inference, "status": Status[inference["status"]]}


def named_value(value: Any, role: str) -> dict[str, Any]:
    """A frozen value as its class and its fields.

    :raises ValueError: what `registry.named` raises.
    """
    held = {entry.name: getattr(value, entry.name) for entry in fields(value)}
    plain_ones = {k: x.item() if isinstance(x, np.generic) else x for k, x in held.items()}
    return {**named(value, role), "fields": plain_ones}


def value_of(kind: str, entry: dict[str, Any]) -> Any:
    """What `named_value` has described.

    :raises UnknownClass: what `registry.class_of` raises.
    """
    made, held = class_of(kind, entry), entry["fields"]
    for one in fields(made):
        if one.type == "bool" and not isinstance(held.get(one.name, False), bool):
            raise ValueError(f"{one.name} of {entry['type']} is {held[one.name]!r}")
    return made(**held)


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
    return {**values._asdict(), "numbers": None}


def roles_of(data: dict[str, Any]) -> Mapping[str, str]:
    """The columns of roles that a saved model remembers.

    :param data: what its description says of the duels.
    """
    before = {"judge": data.get("group_column"), "person": data.get("person_column")}
    named = {role: column for role, column in before.items() if column is not None}
    return columns_of_roles({**named, **data.get("roles", {})})


def items_of_arrays(data: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Items:
    """The items of a saved model.

    :param data: what its description says of the duels.
    """
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


def events_of_arrays(data: dict[str, Any], arrays: MutableMapping[str, np.ndarray]) -> Answers:
    """The table of events of a saved model, of whichever format.

    :param data: what its description says of the duels.
    """
    names = dict(data["columns"] if "columns" in data else _names_before(data))
    renamed = {since: arrays[name] for name, since in _NAMES_SINCE.items() if name in arrays}
    arrays = ChainMap(renamed, arrays)
    columns: dict[str, Any] = {}
    for name, column in COLUMNS.items():
        if column.holds == "labels":
            columns[name] = {
                of: _named(Codes, arrays[f"{name}_{i}"], fields)
                for i, (of, fields) in enumerate(names.get(name, ()))
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
    if "sides" not in arrays:  # format 2
        if "ties" in arrays:
            columns["kind"] = np.where(arrays["ties"], TIE, WIN).astype(np.int8)
        return Answers.between(arrays["winners"], arrays["losers"], **columns)
    return Answers(arrays["sides"], arrays.get("offsets"), **columns)


_NAMED: dict[str, Any] = {"code": Codes, "grade": Grades, "covariate": Covariates}
# Arrays that had other names before.
_NAMES_SINCE = {"groups": "judge", "people": "person"}


def _named(kind: Any, numbers: np.ndarray, fields: Mapping[str, Any]) -> Any:
    """What `_names_as_plain` has described."""
    return kind(**{**fields, "numbers": numbers, "names": tuple(fields["names"])})


def _names_before(data: dict[str, Any]) -> dict[str, Any]:
    """The names of the columns of a model that was saved before `columns` told them."""
    roles = roles_of(data)
    names = {
        "judge": {"names": data.get("groups"), "column": roles["judge"]},
        "person": {"names": data.get("people"), "column": roles["person"]},
        "answer": {"names": data.get("levels")},
        "covariates": {"names": data.get("covariates", ())},
    }
    labels = [[column, {"names": of, "column": column}] for column, of in data.get("labels", ())]
    return {"labels": labels} | {k: x for k, x in names.items() if x["names"] is not None}


def given_blocks(model: Any) -> np.ndarray:
    """The number of the block of each duel as given."""
    graph = model.graph
    assert graph.blocks is not None
    return graph.of_duels(graph.blocks)
