"""A `StreamedGP` rebuilt from its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparse_prefgp.covariances.kernels import between_inducing
from sparse_prefgp.engines import Status
from sparse_prefgp.models.codec import decoded
from sparse_prefgp.models.describing import items_of_arrays, roles_of, value_of
from sparse_prefgp.models.hyperparameters import Hyperparameters
from sparse_prefgp.models.seen import SeenDuels
from sparse_prefgp.models.streaming.algebra import size_of
from sparse_prefgp.models.streaming.gaussian import Natural, Size, numbers_of
from sparse_prefgp.models.streaming.model import SolvedParts, StreamedGP, StreamedResult
from sparse_prefgp.models.terms import Terms
from sparse_prefgp.support.registry import APPROXIMATION, ENGINE


def rebuilt(description: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> StreamedGP:
    """The model that `describing.described` has described."""
    data, inference = description["duels"], dict(description["inference"])
    inference |= {"status": Status[inference["status"]], "rounds": ()}

    def several(kind: Callable[[Any], Any], name: str) -> Any:
        return None if data.get(name) is None else kind(data[name])

    seen = SeenDuels(
        items_of_arrays(data, arrays),
        arrays["comparisons"],
        data["number"],
        data["has_items"],
        data.get("ties", 0),
        several(tuple, "levels"),
        several(np.array, "grade_counts"),
        tuple(data.get("covariates", ())),
        several(np.array, "covariate_squares"),
        several(tuple, "groups"),
        several(np.array, "group_levels"),
        data.get("has_sets", False),
        {column: tuple(names) for column, names in data.get("labels", ())},
        roles_of(data),
    )
    parts = decoded(description, arrays)
    labels = parts["terms"].labels
    if description.get("lean_variance") is not None:  # before, groups leaned
        seen = replace(seen, label_names={labels[0]: seen.group_names or ()})
    parts["terms"] = Terms.of(parts["terms"], seen)  # from here on they know whose they are
    parts["likelihood"] = parts["likelihood"].on(seen)
    levels = tuple(map(len, parts["terms"].names(seen).values()))
    parameters = Hyperparameters.of_stream(parts, seen.covariate_names, levels)
    natural = arrays["natural"]
    prior = between_inducing(parameters.inducing_variable, parameters.kernel)
    approximation = value_of(APPROXIMATION, description["approximation"])
    size = size_of(parameters, approximation, data.get("has_sets", False))
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
        StreamedResult(**inference),
    )
