"""What is written of a `StreamedGP`, the posterior without the duels, and the model made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparse_prefgp.covariances.kernels import between_inducing
from sparse_prefgp.disk.describing import (
    described_as_any,
    items_of_arrays,
    result_of,
    roles_of,
    value_of,
)
from sparse_prefgp.models.codec import decoded
from sparse_prefgp.models.hyperparameters import Hyperparameters
from sparse_prefgp.models.known import Written
from sparse_prefgp.models.seen import SeenDuels
from sparse_prefgp.models.streaming.algebra import size_of
from sparse_prefgp.models.streaming.gaussian import Natural, Size, numbers_of
from sparse_prefgp.models.streaming.model import SolvedParts, StreamedGP, StreamedResult
from sparse_prefgp.models.terms import Terms
from sparse_prefgp.support.plain import plain
from sparse_prefgp.support.registry import APPROXIMATION, ENGINE

# The kind of a saved `StreamedGP`; that of a `PreferenceGP` has no name.
STREAMED = "streamed"
# Fields of `SeenDuels` by the names that files have for them; before, there were fewer.
_SEEN = {
    "number": "num_duels",
    "has_items": "has_items",
    "ties": "num_ties",
    "levels": "levels",
    "grade_counts": "grade_counts",
    "covariates": "covariate_names",
    "covariate_squares": "covariate_squares",
    "groups": "group_names",
    "group_levels": "group_levels",
    "has_sets": "has_sets",
}
_READ_AS: dict[str, Callable[[Any], Any]] = {
    "levels": tuple,
    "covariate_names": tuple,
    "group_names": tuple,
    "grade_counts": np.array,
    "covariate_squares": np.array,
    "group_levels": np.array,
}


def described(model: StreamedGP) -> Written:
    """The description and the arrays.

    :raises ValueError: what `save` raises about the model.
    """
    known, seen = model._inferred(), model.duels
    # The log of the rounds is of a run, not of a model.
    result = replace(known.result, rounds=())
    description, arrays = described_as_any(model, result, model.hyperparameters().described())
    arrays |= {"comparisons": seen.comparisons, "natural": known.solution.total.packed()}
    description["duels"] |= {name: plain(getattr(seen, field)) for name, field in _SEEN.items()}
    # In JSON the order of columns would not count.
    description["duels"]["labels"] = list(seen.label_names.items())
    description |= {"kind": STREAMED, "log_evidence": known.solution.log_evidence}
    return description, arrays


def rebuilt(description: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> StreamedGP:
    """The model that `described` has described."""
    data, parts = description["duels"], decoded(description, arrays)
    said = {field: data[name] for name, field in _SEEN.items() if data.get(name) is not None}
    said |= {field: read(said[field]) for field, read in _READ_AS.items() if field in said}
    labels = {column: tuple(names) for column, names in data.get("labels", ())}
    if description.get("lean_variance") is not None:  # before, groups leaned
        labels = {parts["terms"].labels[0]: said.get("group_names", ())}
    items, comparisons = items_of_arrays(data, arrays), arrays["comparisons"]
    seen = SeenDuels(items, comparisons, **said, label_names=labels, roles=roles_of(data))
    parts["terms"] = Terms.of(parts["terms"], seen)  # from here on they know whose they are
    parts["likelihood"] = parts["likelihood"].on(seen)
    levels = tuple(map(len, parts["terms"].names(seen).values()))
    parameters = Hyperparameters.of_stream(parts, seen.covariate_names, levels)
    natural = arrays["natural"]
    prior = between_inducing(parameters.inducing_variable, parameters.kernel)
    approximation = value_of(APPROXIMATION, description["approximation"])
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
    return StreamedGP.without_duels(
        seen,
        approximation,
        value_of(ENGINE, description["engine"]),
        SolvedParts(parameters, total, description["log_evidence"]),
        StreamedResult(**result_of(description) | {"rounds": ()}),
    )
