"""What is written of a model: a description in JSON, and arrays; here that of a `PreferenceGP`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.covariances.item_effect import known_effects, numbered_kernel
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
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.items import Items
from sparse_prefgp.data.roles import columns_of_roles
from sparse_prefgp.engines import InferenceResult, Status
from sparse_prefgp.models.base import DuelGP
from sparse_prefgp.models.codec import Decoder, encoded
from sparse_prefgp.models.known import Written
from sparse_prefgp.models.registry import class_of, named
from sparse_prefgp.models.seen import KnownDuels
from sparse_prefgp.models.terms import Term
from sparse_prefgp.support.plain import plain
from sparse_prefgp.support.versions import versions

_ROWS_COMPARED = 50
# What the bytes of JSON texts say.
_NAMES = ("item_ids", "item_rows", "people_features")
# The kind of a saved `StreamedGP`; that of a `PreferenceGP` has no name.
STREAMED = "streamed"


def described(model: Any) -> Written:
    """The description and the arrays.

    :raises ValueError: what `save` raises about the model.
    """
    inference = model.infer()
    parts, parameters = encoded(model)
    duels, (nu, tau) = model.duels, model.inference.sites()
    # As it was given where each duel has its block or a weight, else with equal duels merged.
    in_blocks = model.approximation.has_blocks
    apart = in_blocks or duels.weights_given is not None
    named, said = described_events(duels.given if apart else duels.events)
    if in_blocks:
        said["blocks"] = given_blocks(model)
    if duels.known.item is not None:
        said["item"] = duels.known.item
    arrays = {
        **parameters,
        "items": duels.items,
        **said,
        **({} if duels.transform is None else duels.transform.arrays()),
        "site_nu": nu,
        "site_tau": tau,
        **arrays_of_names(duels),
    }
    there = {name: name if name in arrays else None for name in _NAMES}
    whole = described_as_any(model, inference)
    if model.approximation.labels is not None:
        whole["approximation"]["fields"]["blocks"] = list(model.approximation.labels)
    description = {
        **whole,
        **parts,
        "duels": {
            "item_ids": there["item_ids"],
            **named,
            "roles": dict(duels.roles),
            "people_features": there["people_features"],
            "item_rows": there["item_rows"],
            # Before, effects were of rows.
            "effects_of": "items",
            # Before, at most 1,000 of them; None is all.
            "effects_known": known_effects(model.kernel),
            **described_columns(duels),
        },
    }
    _check_rebuilds(model, description, arrays)
    return description, arrays


def described_as_any(model: DuelGP, result: InferenceResult) -> dict[str, Any]:
    """What is written of any model: versions, approximation, engine, and how inference went.

    :raises ValueError: sites that are not finite; what `named_value` raises.
    """
    if result.status is Status.NOT_FINITE:
        raise ValueError(
            "Inference has not come to finite values, so the model cannot predict and is not "
            f"saved: {result}."
        )
    return {
        "versions": versions(),
        "float": gpflow.default_float().__name__,
        "approximation": named_value(model.approximation, "The approximation"),
        "engine": named_value(model.engine, "The engine"),
        "inference": {**dataclasses.asdict(result), "status": result.status.name},
    }


def described_columns(duels: KnownDuels) -> dict[str, Any]:
    """Names of the features, and how they were made of columns."""
    transform = duels.transform
    made = None if transform is None else transform.to_dict()
    return {"feature_names": duels.feature_names, "transform": made}


def arrays_of_names(duels: KnownDuels) -> dict[str, np.ndarray]:
    """Names of the items, what their rows are, and what is known of people, as far as that is
    there: the bytes of JSON texts.

    :raises ValueError: ids that are neither text nor numbers.
    """
    known: dict[str, Any] = {} if duels.item_ids is None else {"item_ids": duels.item_ids}
    for name in _NAMES[1:]:
        if getattr(duels, name, None) is not None:
            known[name] = getattr(duels, name).to_dict()
    for value in duels.item_ids or ():
        one = value.item() if isinstance(value, np.generic) else value
        if not isinstance(one, str | int | float) or (
            isinstance(one, float) and not np.isfinite(one)
        ):
            raise ValueError(
                f"The item id {one!r} is of type {type(one).__name__}; a saved model holds ids "
                "that are text or numbers."
            )
    texts = {name: json.dumps(plain(values, float)) for name, values in known.items()}
    return {name: np.frombuffer(text.encode("utf-8"), np.uint8) for name, text in texts.items()}


def _check_rebuilds(model: Any, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """A class may compute with more than its constructor's arguments; found before it is lost."""
    decoder = Decoder(description["parameters"], arrays)
    rows, columns = model.graph.rows[:_ROWS_COMPARED], model.duels.num_features
    numbered, features = as_float(rows), as_float(rows[:, :columns])

    def on_rows(kernel: gpflow.kernels.Kernel) -> list[np.ndarray]:
        if not model.inputs.layout.plain:
            kernel = numbered_kernel(kernel, columns)
        return [kernel_matrix(kernel, numbered).numpy(), kernel(numbered, full_cov=False).numpy()]

    def of_term(term: Term) -> list[np.ndarray]:
        return [kernel(numbered).numpy() for kernel in term.kernels(model.inputs.columns)]

    parts: list[tuple[Any, Any, Callable[[Any], list[np.ndarray]]]] = [
        (model.kernel, description["kernel"], on_rows),
        *((*both, of_term) for both in zip(model.terms, description["terms"], strict=True)),
    ]
    if model.mean_function is not None:
        entry = description["mean_function"]
        parts.insert(1, (model.mean_function, entry, lambda of: [np.asarray(of(features))]))
    for part, entry, values in parts:
        pairs = zip(values(part), values(decoder.module(entry)), strict=True)
        if not all(np.array_equal(one, two) for one, two in pairs):
            raise ValueError(
                f"The class {entry['type']} does not compute the same again from its constructor's "
                "arguments and parameters; let the constructor take everything it computes with, "
                "kernels too, and keep each in an attribute named like its argument."
            )


def named_value(value: Any, role: str) -> dict[str, Any]:
    """A frozen value as its class and its fields.

    :raises ValueError: what `registry.named` raises.
    """
    fields = {}
    for entry in dataclasses.fields(value):
        field = getattr(value, entry.name)
        fields[entry.name] = field.item() if isinstance(field, np.generic) else field
    return {**named(value, role), "fields": fields}


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
    transform, rows = data["transform"], from_bytes(arrays.get("item_rows"))
    return Items.of(
        arrays["items"],
        from_bytes(arrays.get("item_ids")),
        data["feature_names"],
        None if transform is None else FeatureTransform.from_dict(transform, arrays),
        arrays.get("item"),
        None if rows is None else ItemRows.from_dict(rows),
    )


def from_bytes(array: np.ndarray | None) -> Any:
    """What a JSON text says as whose bytes it was saved; None where there is none."""
    return None if array is None else json.loads(array.tobytes().decode("utf-8"))


def events_of_arrays(data: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Answers:
    """The table of events of a saved model, of whichever format.

    :param data: what its description says of the duels.
    """
    names = dict(data["columns"] if "columns" in data else _names_before(data))
    arrays = {_NAMES_SINCE.get(name, name): array for name, array in arrays.items()}
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


def value_of(kind: str, entry: dict[str, Any]) -> Any:
    """What `named_value` has described.

    :raises UnknownClass: what `registry.class_of` raises.
    """
    made, fields = class_of(kind, entry), entry["fields"]
    for one in dataclasses.fields(made):
        if one.type == "bool" and not isinstance(fields.get(one.name, False), bool):
            raise ValueError(f"{one.name} of {entry['type']} is {fields[one.name]!r}")
    return made(**fields)
