"""A `StreamedGP` rebuilt from its description."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparse_prefgp.covariances.kernels import between_inducing
from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.items import Items
from sparse_prefgp.engines import Status
from sparse_prefgp.models.codec import decoded
from sparse_prefgp.models.describing import label_names_of, roles_of, value_of
from sparse_prefgp.models.streaming.algebra import size_of
from sparse_prefgp.models.streaming.gaussian import Natural, Size, numbers_of
from sparse_prefgp.models.streaming.hyperparameters import Hyperparameters
from sparse_prefgp.models.streaming.model import LoadedPosterior, StreamedGP, StreamedResult
from sparse_prefgp.models.streaming.seen import SeenDuels
from sparse_prefgp.models.terms import Terms
from sparse_prefgp.support.registry import APPROXIMATION, ENGINE


def rebuilt(description: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> StreamedGP:
    """The model that `describing.described` has described."""
    data, inference = description["duels"], dict(description["inference"])
    inference |= {"status": Status[inference["status"]], "rounds": ()}
    ids, names, transform = arrays.get("item_ids"), data["feature_names"], data["transform"]
    rows = arrays.get("item_rows")
    known = Items(
        arrays["items"],
        None if ids is None else tuple(json.loads(ids.tobytes().decode("utf-8"))),
        None if names is None else tuple(names),
        None if transform is None else FeatureTransform.from_dict(transform, arrays),
        arrays.get("item"),
        None if rows is None else ItemRows.from_dict(json.loads(rows.tobytes().decode("utf-8"))),
    )
    seen = SeenDuels(
        known,
        arrays["comparisons"],
        data["number"],
        data["has_items"],
        data.get("ties", 0),
        None if data.get("levels") is None else tuple(data["levels"]),
        None if data.get("grade_counts") is None else np.array(data["grade_counts"]),
        tuple(data.get("covariates", ())),
        None if data.get("covariate_squares") is None else np.array(data["covariate_squares"]),
        None if data.get("groups") is None else tuple(data["groups"]),
        None if data.get("group_levels") is None else np.array(data["group_levels"]),
        data.get("has_sets", False),
        label_names_of(data),
        roles_of(data),
    )
    parts = decoded(description, arrays)
    labels = parts["terms"].labels
    if description.get("lean_variance") is not None:  # before, groups leaned
        seen = replace(seen, label_names={labels[0]: seen.group_names or ()})
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
    kept = LoadedPosterior(
        seen,
        Natural.unpacked(natural, size)
        if len(natural) == numbers_of(size)
        else Natural.unpacked(natural, dense).parted(size),
        description["log_evidence"],
        StreamedResult(**inference),
    )
    return StreamedGP.without_duels(
        parameters,
        approximation,
        value_of(ENGINE, description["engine"]),
        kept,
    )
