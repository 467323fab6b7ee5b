"""What is written of a `StreamedGP`, the posterior without the duels, and the model made of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparse_prefgp.covariances.kernels import between_inducing
from sparse_prefgp.data.answers import AboutSets, Answers, Codes, Covariates, Grades
from sparse_prefgp.data.batches import Totals
from sparse_prefgp.data.duels import Duels
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
from sparse_prefgp.models.streaming.algebra import size_of
from sparse_prefgp.models.streaming.gaussian import Natural, Size, numbers_of
from sparse_prefgp.models.streaming.model import SolvedParts, StreamedGP, StreamedResult
from sparse_prefgp.models.terms import Terms
from sparse_prefgp.support.plain import plain
from sparse_prefgp.support.registry import APPROXIMATION, ENGINE

# The kind of a saved `StreamedGP`; that of a `PreferenceGP` has no name.
STREAMED = "streamed"
# What is known of streamed duels by the names that files have for it; before, there was less.
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
    known, judges, labels = items_of_arrays(data, arrays), data.get("groups"), data.get("labels")
    if description.get("lean_variance") is not None:  # before, groups leaned
        labels = [(parts["terms"].labels[0], judges or ())]
    squares = data.get("covariate_squares")
    totals = Totals(
        _names_alone(judges, data.get("levels"), data.get("covariates"), dict(labels or ())),
        data["number"],
        data.get("ties") or 0,
        comparisons=arrays["comparisons"],
        ends=None if data["has_items"] else known.features,
        grade_counts=_array(data.get("grade_counts")),
        judge_levels=_array(data.get("group_levels")),
        squares=None if squares is None else np.append(1.0, squares),
        about_sets=AboutSets(bool(data.get("has_sets"))),
    )
    seen = Duels.from_events(known, totals, roles=roles_of(data))
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


def _names_alone(
    judges: Iterable[Hashable] | None,
    levels: Iterable[str] | None,
    covariates: Iterable[str] | None,
    labels: Mapping[str, Iterable[Hashable]],
) -> Answers:
    """None of the answers of a stream, but with the names of all."""
    nobody, covariates = np.empty(0, np.int64), tuple(covariates or ())
    return Answers(
        np.empty(0, np.int64),
        judge=None if judges is None else Codes(nobody, tuple(judges)),
        answer=None if levels is None else Grades(np.empty(0, np.int8), tuple(levels)),
        covariates=Covariates(np.empty((0, len(covariates))), covariates),
        labels={column: Codes(nobody, tuple(names)) for column, names in labels.items()},
    )


def _array(value: Any) -> Any:
    return np.array(value) if isinstance(value, list) else value
