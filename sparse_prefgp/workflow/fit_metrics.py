"""What `metrics.json` says of a fit: one dictionary, whatever holds the duels."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io.files import id_text
from sparse_prefgp.learning.notes import FEW
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.plain import Record
from sparse_prefgp.workflow.holdout import Holdout, StreamHoldout, Training, groups_of

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

# A term of the kernel whose variance is below this share of the noise's plays no part in a fit.
IDLE_SHARE = 1e-3
# People furthest from the consensus who are named.
FURTHEST = 5


def data_figures(holdout: Holdout | StreamHoldout) -> Record:
    """What was split, and how, ready for JSON."""
    settings, train = holdout.settings, holdout.train
    features = list(train.feature_names or ())
    made = _made_of(train.transform)
    common = {"test_fraction": settings.test_fraction, "seed": settings.seed}
    if isinstance(holdout, StreamHoldout):
        return {
            "read_as": None if train.read_as is None else train.read_as.to_dict(),
            "split": holdout.split,
            **common,
            "data": {
                "items": train.num_items if train.has_items else None,
                **_placed(train.item_rows),
                "features": features,
                **made,
                "covariates": list(train.covariate_names),
                "rows": train.num_rows + holdout.num_test,
                "train_rows": train.num_rows,
                "test_rows": holdout.num_test,
                "train_duels": train.num_duels,
                "train_ties": train.num_ties,
            },
        }
    split, everything, read_as = holdout.split, holdout.everything, holdout.table.read_as
    return {
        "read_as": None if read_as is None else read_as.to_dict(),
        "split": settings.split,
        "split_description": split.description,
        **common,
        "refit": settings.refit,
        "data": {
            "items": holdout.table.num_items,
            **_placed(holdout.table.item_rows),
            "features": features,
            **made,
            "covariates": list(train.covariate_names),
            "duels": everything.num_duels,
            "ties": everything.num_ties,
            "train_duels": holdout.num_train,
            "test_duels": holdout.num_test,
            "dropped_rows": split.dropped,
            "unused_rows": split.unused,
        },
    }


def _made_of(transform: FeatureTransform | None) -> Record:
    """What features were reduced to directions, and how much these keep of each; what was made of
    texts, and how well the score of their words did out of fold. Often nothing."""
    made: Record = {}
    if transform is not None and transform.reduced is not None:
        reduction = transform.reduced.reduction
        made["reduced"] = str(transform.reduced)
        made["reduction"] = {
            "directions": reduction.size,
            "variance_kept": reduction.explained,
            "blocks": [
                {**block._asdict(), "variance_kept": kept}
                for block, kept in zip(reduction.blocks, reduction.shares().values(), strict=True)
            ],
        }
    if transform is not None and transform.texts:
        made["texts"] = [
            {
                "column": one.column,
                "statistics": len(one.transform.statistics),
                "directions": one.transform.directions.size,
                "score": one.transform.score is not None,
                "scored": None if one.transform.scored is None else one.transform.scored._asdict(),
            }
            for one in transform.texts
        ]
    return made


def _placed(rows: ItemRows | None) -> Record:
    """Where rows are of items in contexts or states: how many items, and by which columns."""
    if rows is None:
        return {}
    return {
        "items": rows.num_items,
        "rows_of_items": len(rows),
        "item_column": rows.column,
        "contexts": list(rows.columns),
    }


def fit_figures(holdout: Training, model: Any, report: Any) -> Record:
    """What was fitted and how it went, ready for JSON.

    :param model: what `fit_model` or `refit_model` returned, with its `report`.
    """
    from sparse_prefgp.learning.priors import learned_parameters
    from sparse_prefgp.models.checks import lost_effects
    from sparse_prefgp.models.pair_posterior import pair_share

    settings, inducing = holdout.settings, model.inducing_variable
    likelihood, integration = model.likelihood, model.integration
    margin = _number(likelihood.margin)
    # The duels of a subset are all that its evidence is about.
    duels = model.duels.num_duels if holdout.streamed else model.num_duels_used
    # Of chunks nobody has added the weights up.
    weighed = not holdout.streamed and model.duels.weights is not None
    weight = model.graph.weight if weighed else None
    figures = {
        "approximation": str(settings.approximation_choice),
        "kernel": str(settings.kernel_choice),
        **_kernel_figures(holdout, model),
        "inducing": None if inducing is None else int(inducing.num_inducing),
        "fixed_inducing": settings.fixed_inducing
        if inducing is None
        else not any(p.trainable for p in inducing.parameters),
        "noise_variance": settings.noise_variance,
        "margin": margin,
        "cuts": None if model.duels.levels is None else likelihood.heights.numpy().tolist(),
        "grades": _grades(model),
        "coefficients": [*model.coefficients().table().rows]
        if model.duels.covariate_names
        else None,
        "leans": [
            {
                "by": lean.by,
                "covariate": lean.covariate,
                "groups": len(model.duels.label_names[lean.by]),
                "variance": float(lean.variance.numpy()),
            }
            for lean in model.terms.effects(model.inputs.columns)
        ],
        "tie_model": likelihood.ties,
        "tie_share": _number(likelihood.tie_share),
        "fixed_margin": None
        if margin is None
        else likelihood.ties == "box" and not likelihood.margin.trainable,
        "duels": duels,
        "unit": holdout.train.unit,
        "weight": weight,
        "log_evidence_per_duel": report.log_evidence / (weight or duels),
        "max_iterations": settings.max_iterations,
        "least_gain": settings.least_gain,
        "noise_ratios": _of_groups(model, likelihood.noise_ratio, "ratio"),
        "cut_scales": _of_groups(model, likelihood.cut_scale, "scale"),
        **report.figures(),
        **({} if integration is None else {"integration": asdict(integration)}),
        "learned": learned_parameters(model, {} if integration is None else integration.log_sd),
    }
    if not holdout.streamed:
        return {
            **figures,
            "engine": str(settings.engine_choice),
            "item_effects_warning": lost_effects(model),
            "pair_share": pair_share(model),
            **({"variance_left": _variance_left(model)} if duels < FEW else {}),
        }
    return {
        **figures,
        "parts": settings.parts,
        "local_sweeps": settings.local_sweeps,
        "chunk": settings.chunk,
        "scheduler": settings.scheduler,
        "sites": report.inference.sites,
        "rounds": len(report.inference.rounds),
        "round_log": [asdict(round_) for round_ in report.inference.rounds],
    }


def _variance_left(model: Any) -> float | None:
    """What share of the prior variance of differences, between all two items of the duels, these
    leave; None of utilities that move in time."""
    from sparse_prefgp.covariances.kernels import kernel_matrix

    if model.inputs.layout.dated:
        return None
    items = model.inputs.of_items(np.flatnonzero(model.graph.row_of_item >= 0))
    _, now = model.predict_f(items, full_cov=True)
    rows, posterior = model.inputs.rows(items), model.posterior()
    before = [kernel_matrix(part.kernel, rows).numpy() for part in posterior.parts]
    return _of_differences(now[0].numpy()) / float(
        np.dot(posterior.weights, [_of_differences(one) for one in before])
    )


def _of_differences(covariance: FloatArray) -> float:
    """Sum of the variances of the differences of all two of n, (n, n)."""
    return float(len(covariance) * np.trace(covariance) - np.sum(covariance))


def _number(parameter: Any) -> float | None:
    return None if parameter is None else float(parameter.numpy())


def _kernel_figures(holdout: Training, model: Any) -> Record:
    from sparse_prefgp.covariances.kernels import variance_of

    settings, train = holdout.settings, holdout.train
    names = settings.kernel_choice.term_names(train.num_features, groups_of(train))
    terms = model.kernel.kernels if len(names) > 1 else [model.kernel]
    variances = dict(zip(names, map(variance_of, terms), strict=True))
    least = IDLE_SHARE * settings.noise_variance
    return {
        "kernel_variances": {name: mean for name, (mean, _) in variances.items()},
        "idle_kernel_terms": [name for name, (_, total) in variances.items() if total < least],
    }


def _grades(model: Any) -> Record | None:
    """Levels, worst first, how often each was said by either side, and the steps that the prior
    decides, as nobody used a grade next to them."""
    duels = model.duels
    if duels.levels is None or duels.grade_counts is None:
        return None
    used, names = duels.grade_counts.tolist(), list(duels.levels)
    return {
        "levels": names,
        "ties": used[0] if len(names) % 2 else None,
        "used": {
            name: number for name, number in zip(names[-len(used) + 1 :], used[1:], strict=True)
        },
        "steps_by_prior": [
            i + 1 for i, step in enumerate(model.likelihood.steps) if step.prior is not None
        ],
    }


def _of_groups(model: Any, parameter: Any, what: str) -> Record | None:
    """By what noise variances or cuts of the groups differ from those of the model, and of how
    many duels each is known."""
    duels = model.duels
    if parameter is None or duels.group_levels is None:
        return None
    ratios = parameter.numpy()
    names = [id_text(name) for name in duels.group_names or ()]
    counts = duels.group_levels.sum(1)
    return {
        "groups": len(ratios),
        "min": float(ratios.min()),
        "median": float(np.median(ratios)),
        "max": float(ratios.max()),
        "each": {
            name: {what: ratio, "duels": count}
            for name, ratio, count in zip(names, ratios.tolist(), counts.tolist(), strict=True)
        },
    }


def people_figures(model: PreferenceGP) -> Record:
    """What `metrics.json` says of the people of a model with tastes."""
    from sparse_prefgp.analysis.people import LEVEL, people, taste_share
    from sparse_prefgp.covariances.finite import parts_of
    from sparse_prefgp.covariances.kernels import variance_of

    frame, found = people(model), taste_share(model)
    each, by_features = frame["comparisons"], model.terms.by_features
    # Of the terms of a taste, by their kinds, and of what features of people say.
    variances = {type(term).__name__: variance_of(term)[0] for term in parts_of(model.terms.taste)}
    if by_features is not None:
        variances["features of people"] = float(by_features.numpy())
    return {
        "column": model.duels.roles["person"],
        "number": len(frame),
        "variances": variances,
        "duels_each": {"min": int(each.min()), "mean": float(each.mean()), "max": int(each.max())},
        "share": {
            "of_squares": found.share,
            "level": LEVEL,
            "lower": _plain(found.lower),
            "upper": _plain(found.upper),
        },
        "furthest": [
            {name: _plain(value) for name, value in row.items()}
            for row in frame.head(FURTHEST).to_dict("records")
        ],
    }


def time_figures(model: PreferenceGP) -> Record:
    """What `metrics.json` says of utilities that move: how much, and who was best when."""
    from sparse_prefgp.analysis.history import seasons as seasons_of

    moved, noise = model.in_time.moved_in(1.0), 2.0 * float(model.likelihood.noise.numpy())
    slices = model.in_time.slices
    seasons = seasons_of(model)
    for season in seasons:
        for one in season["best"]:
            one["item"] = id_text(one["item"])
    return {
        "slices": slices if isinstance(slices, str) else "slice",
        "last_date": model.in_time.last_date,
        "moved_in_a_year": moved / float(np.sqrt(noise)),
        "seasons": seasons,
    }


def _plain(value: Any) -> Any:
    """Ids as text; numbers as they are, or None where they are not finite."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, int) else id_text(value)
