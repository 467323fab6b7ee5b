"""What is written of a `StreamedGP`: the posterior, without the duels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparse_prefgp.models.describing import (
    STREAMED,
    arrays_of_names,
    described_as_any,
    described_columns,
)
from sparse_prefgp.models.known import Written
from sparse_prefgp.support.plain import plain


def described(model: Any) -> Written:
    """The description and the arrays.

    :raises ValueError: what `save` raises about the model.
    """
    known, seen = model._inferred(), model.duels
    # The log of the rounds is of a run, not of a model.
    whole = described_as_any(model, replace(known.result, rounds=()))
    names, arrays = model.hyperparameters().described()
    arrays = {
        **arrays,
        "items": seen.items,
        "comparisons": seen.comparisons,
        "natural": known.solution.total.packed(),
        **({} if seen.transform is None else seen.transform.arrays()),
        **arrays_of_names(seen),
    }
    if seen.known.item is not None:
        arrays["item"] = seen.known.item
    description = {
        "kind": STREAMED,
        **whole,
        **names,
        "duels": {
            "number": seen.num_duels,
            "ties": seen.num_ties,
            "levels": seen.levels,
            "grade_counts": plain(seen.grade_counts),
            "covariates": seen.covariate_names,
            "covariate_squares": plain(seen.covariate_squares),
            "groups": seen.group_names,
            "roles": dict(seen.roles),
            # In JSON the order of columns would not count.
            "labels": list(seen.label_names.items()),
            "group_levels": plain(seen.group_levels),
            "has_items": seen.has_items,
            "has_sets": seen.has_sets,
            **described_columns(seen),
        },
        "log_evidence": known.solution.log_evidence,
    }
    return description, arrays
