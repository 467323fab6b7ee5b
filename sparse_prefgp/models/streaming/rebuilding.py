"""A `StreamedGP` rebuilt from its description."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sparse_prefgp.covariances.kernels import between_inducing
from sparse_prefgp.data.answers import Answers, Codes, Covariates, Grades
from sparse_prefgp.engines import Status
from sparse_prefgp.models.codec import decoded
from sparse_prefgp.models.describing import items_of_arrays, roles_of, value_of
from sparse_prefgp.models.seen import SeenDuels
from sparse_prefgp.models.streaming.algebra import size_of
from sparse_prefgp.models.streaming.gaussian import Natural, Size, numbers_of
from sparse_prefgp.models.streaming.hyperparameters import Hyperparameters
from sparse_prefgp.models.streaming.model import SolvedParts, StreamedGP, StreamedResult
from sparse_prefgp.models.terms import Terms
from sparse_prefgp.support.registry import APPROXIMATION, ENGINE


def rebuilt(description: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> StreamedGP:
    """The model that `describing.described` has described."""
    data, inference = description["duels"], dict(description["inference"])
    inference |= {"status": Status[inference["status"]], "rounds": ()}

    def several(kind: Callable[[Any], Any], name: str) -> Any:
        return None if data.get(name) is None else kind(data[name])

    def codes(names: Sequence[Hashable]) -> Codes:
        return Codes(np.empty(0, np.int8), tuple(names))

    parts = decoded(description, arrays)
    labels, named = parts["terms"].labels, dict(data.get("labels", ()))
    if description.get("lean_variance") is not None:  # before, groups leaned
        named = {labels[0]: data.get("groups") or ()}
    covariates = tuple(data.get("covariates", ()))
    said = Answers(
        np.empty(0, np.int64),
        judge=several(codes, "groups"),
        answer=several(lambda names: Grades(np.empty(0, np.int8), tuple(names)), "levels"),
        covariates=Covariates(np.empty((0, len(covariates))), covariates),
        labels={column: codes(names) for column, names in named.items()},
    )
    seen = SeenDuels(
        items_of_arrays(data, arrays),
        said,
        arrays["comparisons"],
        data["number"],
        data["has_items"],
        data.get("ties", 0),
        several(np.array, "grade_counts"),
        several(np.array, "covariate_squares"),
        several(np.array, "group_levels"),
        data.get("has_sets", False),
        roles_of(data),
    )
    parts["terms"] = Terms.of(parts["terms"], seen)  # from here on they know whose they are
    parts["likelihood"] = parts["likelihood"].on(seen)
    levels = tuple(len(seen.label_names[column]) for column in labels)
    parameters = Hyperparameters(**parts, covariates=seen.covariate_names, levels=levels)
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
