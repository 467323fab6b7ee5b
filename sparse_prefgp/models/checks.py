"""What models of duels refuse, and what they warn of, when they are made."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import Approximation
from sparse_prefgp.approximations.in_time import exact_in_time, plan_of
from sparse_prefgp.covariances.finite import feature_part, parts_of
from sparse_prefgp.covariances.item_effect import (
    ItemEffect,
    context_kernels,
    held_effects,
    item_effects,
    numbered_kernel,
    unheld_kernels,
)
from sparse_prefgp.covariances.item_in_time import beside_time, time_term
from sparse_prefgp.covariances.kernels import as_float, cancelling_parts, kernel_matrix
from sparse_prefgp.covariances.markov import MarkovKernel
from sparse_prefgp.covariances.pair_effect import pair_effect
from sparse_prefgp.covariances.projected import ProjectedPoints, projection_of
from sparse_prefgp.covariances.residual import MAX_BLOCK
from sparse_prefgp.data.answers import AboutSets
from sparse_prefgp.data.dated import Dated
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.data.slices import SLICES
from sparse_prefgp.models.likelihood import USUAL_NOISE, Probit
from sparse_prefgp.models.terms import Taste, Term
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import (
    check_finite,
    check_inducing_count,
    check_kind,
    check_number,
    check_shape,
    numbers,
)
from sparse_prefgp.support.machine import ASKED_ABOVE, ask
from sparse_prefgp.support.words import shortened


def check_parts(
    kernel: Any, mean_function: Any, approximation: Any, engine: Any, duels: Any
) -> None:
    """What TensorFlow would complain about later, and in its own words.

    :param duels: `Duels`, or what stands for them where they are streamed.
    """
    for label, value, good, example in (
        ("approximation", approximation, isinstance(approximation, Approximation), "VFE()"),
        ("engine", engine, hasattr(engine, "run") and not isinstance(engine, type), "ParallelEP()"),
    ):
        if not good:
            raise ValueError(f"{label} must be a value such as spg.{example}, not {value!r}.")
    in_time = ", such as spg.ItemInTime(…) round it" * isinstance(kernel, MarkovKernel)
    check_kind("kernel", kernel, gpflow.kernels.Kernel, f"a GPflow kernel{in_time}")
    rows = as_float(duels.items[[0, 0]])
    # Everything but effects of items and of pairs, which look at no feature.
    apart = item_effects(kernel) or pair_effect(kernel) or time_term(kernel) is not None
    on_features = feature_part(kernel) if apart else kernel
    of_contexts = context_kernels(kernel)
    looking = [part for part in (on_features, *of_contexts) if part is not None]
    for part in looking[:1]:
        name = f"the kernel {type(part).__name__}, which looks at features,"
        together.check(items_without_features=duels.num_features == 0, kernel_of_features=name)
    for label, function, shape in (
        (f"The kernel {type(kernel).__name__}", on_features, [2, 2]),
        *((f"The kernel {type(part).__name__}", part, [2, 2]) for part in of_contexts),
        ("The mean function", mean_function, [2, 1]),
    ):
        if function is None:
            continue
        try:
            kernels = isinstance(function, gpflow.kernels.Kernel)
            found = list((kernel_matrix(function, rows) if kernels else function(rows)).shape)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            reason = re.sub(r"\{\{.*?\}\} ", "", lines[0] if lines else repr(error))[:100]
            raise ValueError(
                f"{label} cannot be evaluated on items with {duels.num_features} features "
                f"({reason}); check lengthscales, weights and active_dims."
            ) from error
        if found != shape:
            raise ValueError(
                f"{label} gives {found} for two items instead of {shape}; a utility has one output."
            )


def check_together(
    approximation: Approximation | None,
    kernel: gpflow.kernels.Kernel,
    engine: Any,
    duels: Any,
    terms: Sequence[Term],
    likelihood: Probit,
    *,
    people: Any,
    about: AboutSets,
    **more: Any,
) -> None:
    """Refuse a model of what does not go together.

    :param approximation: None for the default, which goes with all but effects by a kernel.
    :param duels: `Duels`, or what stands for them where they are streamed.
    :param people: of the duels; None where they are nobody's.
    :param about: sets.
    :param more: things by their names in `together.TABLE`.
    :raises ValueError: see `together.TABLE`.
    """
    levels, even = duels.levels, duels.levels is not None and len(duels.levels) % 2 == 0
    tied = duels.num_ties or (levels is not None and not even)
    things = things_of(approximation, kernel, engine, terms, likelihood)
    for term in terms:
        things |= term.things(duels)
    tastes = [term.kernel for term in terms if isinstance(term, Taste)]
    of_tastes = {id(parameter) for taste in tastes for parameter in taste.parameters}
    things |= {
        "item_effects": any(map(item_effects, (kernel, *tastes))),
        "levels_of_items": any(isinstance(part, ItemEffect) for part in parts_of(kernel)),
        "effects_by_kernel": effects_by_kernel(kernel),
        "effects_of_items_alone": feature_part(kernel) is None
        and "a kernel of effects of items alone",
        "shared_parameters": any(id(one) in of_tastes for one in kernel.parameters),
        "duels_without_dates": duels.times is None,
        "duels_of_nobody": people is None,
        **about.things(),
        "margins_or_ties": likelihood.margin is not None or about.others,
        "ties": tied and f"{duels.num_ties or 'levels with'} ties",
        "levels_without_a_tie": even,
        "duels_without_ties": not duels.num_ties and levels is None,
        "duels_without_judges": duels.group_names is None,
        "duels_without_covariates": not duels.covariate_names,
        "grades": levels is not None and len(levels) > 3,
    }
    together.check(**things | more)


def effects_by_kernel(kernel: gpflow.kernels.Kernel) -> str:
    """What effects of items by a kernel without finitely many features are called, if any are."""
    return "".join(f"ItemTimes of {type(one).__name__}" for one in unheld_kernels(kernel)[:1])


def things_of(
    approximation: Approximation | None,
    kernel: gpflow.kernels.Kernel,
    engine: Any,
    terms: Sequence[Term],
    likelihood: Probit,
) -> dict[str, Any]:
    """What a model is made of but its duels, by the names of `together.TABLE`."""
    tastes = [term.kernel for term in terms if isinstance(term, Taste)]
    in_time = time_term(kernel) is not None
    things: dict[str, Any] = {
        "in_time": in_time,
        "still": not in_time,
        "one_utility": not tastes,
        "pair_effects": any(pair_effect(one) is not None for one in (kernel, *tastes)),
        **{term.thing: True for term in terms if term.thing is not None},
        **likelihood.things(),
        **of_engine(engine),
    }
    if approximation is not None:
        name, inducing = approximation.name, approximation.needs_inducing
        over = getattr(approximation, "over", None)
        things |= {
            "inducing": inducing and f"the inducing inputs of {name}",
            "blocks": approximation.has_blocks and f"{name}, which has blocks",
            "labels": approximation.labels is not None,
            "subset": not approximation.uses_all_duels and name,
            "endless_terms": not inducing and not exact_in_time(kernel),
            "by_items": over == "items" and not inducing and not tastes,
            "by_duels": over == "duels" and inducing,
        }
    return things


def of_engine(engine: Any) -> dict[str, Any]:
    """What an engine brings into a model, by the names of `together.TABLE`."""
    name = f"the engine {engine!r}"
    return {
        "one_by_one": engine.one_by_one and name,
        "logistic": not engine.link_function.has_normal_noise and f"logistic noise ({engine!r})",
        "own_noise": getattr(engine, "site_power", None) != 1.0 and name,
    }


def scale_is_free(model: Any) -> bool:
    """Whether kernel variance and noise are both trainable, though only their ratio counts.

    :param model: a regression has no such likelihood; what it observes has a scale.
    """
    names = gpflow.utilities.parameter_dict(model.kernel)
    free = any(p.trainable for name, p in names.items() if "variance" in name)
    return free and isinstance(model.likelihood, Probit) and bool(model.likelihood.noise.trainable)


# By what the numbers that a sweep keeps are multiplied: they may take .8 of what is free.
_SHARE = 0.8


def check_time_memory(graph: DuelGraph, duels: Any, kernel: gpflow.kernels.Kernel) -> None:
    """Refuse, before the first sweep, what it could not keep.

    :raises NotEnoughMemory: more bytes than are free.
    """
    terms = beside_time(numbered_kernel(kernel, graph.layout.features))
    assert terms is not None
    needed = int(plan_of(graph, terms).num_bytes() / _SHARE)
    if needed <= ASKED_ABOVE:
        return
    told = []
    for name in SLICES:
        plan = plan_of(DuelGraph.from_duels(duels, True, dated=Dated.of(duels, name)), terms)
        n, p = plan.sizes
        gibibytes = plan.num_bytes() / 2**30
        told.append(f"by {name} {n.max():,} and {p.mean():.0f}, {gibibytes:.1f} GiB")
    ask(
        needed,
        "Sweeps over utilities in time",
        "take coarser slices, duels from a later date on, or leave out items that duel rarely, or "
        f"their effects (most active numbers and numbers a slice: {'; '.join(told)})",
    )


def check_size_of_people(graph: DuelGraph, names: tuple[Hashable, ...]) -> None:
    """Refuse a person whose taste would take too large a matrix: of duels, or of the items in them.

    :param names: of the people.
    :raises ValueError: more than 5,000 of either; next to answers about sets, of rows of answers.
    """
    assert graph.people is not None
    duels = np.bincount(graph.people, minlength=len(names))
    if duels.max() <= MAX_BLOCK:
        return
    ends = np.stack([graph.winners, graph.losers]) + graph.num_rows * graph.people
    items = np.bincount(np.unique(ends) // graph.num_rows, minlength=len(names))
    smaller = duels if graph.noises is not None else np.minimum(duels, items)
    u = int(np.argmax(smaller))
    if smaller[u] <= MAX_BLOCK:
        return
    count, noun = int(duels[u]), "rows of answers" if graph.noises is not None else "distinct duels"
    gibibytes = 8.0 * float(smaller[u]) ** 2 / 2**30
    raise ValueError(
        f"The person {shortened(names[u])} has {count:,} {noun} between {int(items[u]):,} items, "
        f"and a taste takes matrices of {int(smaller[u]):,} rows and columns, {gibibytes:.1f} GiB "
        f"each, where {MAX_BLOCK:,} are the most; keep fewer of these, or learn one utility for "
        "all."
    )


def warn_of_cancelling(kernel: gpflow.kernels.Kernel) -> None:
    """Tell whoever makes the model of a part of the kernel that cancels in duels."""
    constant = cancelling_parts(kernel)
    if constant:
        warnings.warn(
            f"The {constant[0]} kernel cancels in duels and changes nothing but wastes an "
            "inducing variable; leave it out.",
            stacklevel=3,
        )


def lost_effects(model: Any) -> str | None:
    """What to know where item effects are learned by an approximation that punishes most of them.

    Effects that are not inducing variables are residual variance of every duel of their items.
    Where the evidence falls with that, learning takes the variance of all effects to zero. None
    where it does not, or where all effects are inducing variables.
    """
    graph, inducing = model.graph, model.inducing_variable
    if inducing is None or not item_effects(model.kernel):
        return None
    held, effects = held_effects(model.kernel, graph)
    if not model.approximation.penalises_residual or held == effects:
        return None
    n, m = graph.num_rows, held + int(inducing.num_inducing)
    # n³ against n m², both in matrix products. Measured at 2,200 and 1,128: 4.2, not 3.8.
    times = f"{(n / m) ** 2:,.0f} times" if n > 1.5 * m else "about"
    gibibytes = 13 * 8 * n**2 / 2**30  # so many matrices of n × n meet in exact inference
    return (
        f"Of {effects:,} item effects only the {held:,} of the most compared items are inducing "
        f"variables; {model.approximation.name} counts those of all others against the evidence, "
        "so that their common variance falls towards zero. --approximation fitc (FITC()) does not, "
        "at about the time and memory of this fit; --approximation exact (Exact()) learns every "
        f"effect, in {times} the time and with {gibibytes:.1f} GiB."
    )


def inducing_points(
    approximation: Approximation,
    given: Any,
    num_features: int,
    items: np.ndarray | None = None,
    kernel: gpflow.kernels.Kernel | None = None,
) -> gpflow.inducing_variables.InducingPoints | None:
    """Inducing inputs that were given, checked; None where the approximation has none.

    :param given: (m, D) numbers, or the `InducingPoints` to take, or None.
    :param num_features: D.
    :param items: of which there are at least as many distinct ones; None for a stream.
    :param kernel: whose projection of the features they lie in, if it is one: then (m, q), or (m,
        D) to be projected.
    :raises ValueError: some for an approximation without, or none for one with; another shape, not
        finite, equal rows, or more than the items.
    """
    needed, there = approximation.needs_inducing, given is not None
    together.check(
        inducing=needed and approximation.name,
        no_inducing=not needed and approximation.name,
        inducing_variable=there,
        no_inducing_variable=not there,
    )
    if not needed:
        return None
    points = given if isinstance(given, gpflow.inducing_variables.InducingPoints) else None
    projection, columns = None if kernel is None else projection_of(kernel), num_features
    z = numbers("inducing_variable", given if points is None else points.Z.numpy())
    if projection is not None:
        columns = projection.num_directions
        if z.ndim == 2 and z.shape[1] == num_features != columns:
            z = projection.project(z).numpy()
        items = None if items is None else projection.project(items).numpy()
    check_shape("inducing_variable", z, "m", columns, hint=", columns like those of the items")
    check_finite("inducing_variable", z)
    check_inducing_count(len(z), len(z if items is None else np.unique(items, axis=0)))
    if len(np.unique(z, axis=0)) < len(z):
        raise ValueError(
            "inducing_variable has equal rows, which make its kernel matrix singular; "
            "pass np.unique(Z, axis=0)."
        )
    if projection is None or isinstance(points, ProjectedPoints):
        return gpflow.inducing_variables.InducingPoints(z) if points is None else points
    found = ProjectedPoints(z, num_features)
    gpflow.set_trainable(found, points is None or points.Z.trainable)
    return found


def checked_terms(terms: Any) -> tuple[Term, ...]:
    """The terms of a model as it is given them.

    :raises ValueError: one alone, or what is no term.
    """
    check_kind("terms", terms, Iterable, "a list of terms, such as [spg.Taste(kernel)]")
    terms = tuple(terms)
    for term in terms:
        check_kind("Each of terms", term, Term, "a term, such as spg.Taste(kernel)")
    return terms


def likelihood_of(likelihood: Probit | None, noise_variance: float | None) -> Probit:
    """The likelihood of a model, for which the variance of its noise is short.

    :raises ValueError: both, or what is no likelihood.
    """
    short = noise_variance is not None
    together.check(
        likelihood=likelihood is not None,
        noise_variance=short and f"noise_variance={noise_variance}",
    )
    if short:
        check_number("noise_variance", noise_variance, above=0.0, hint=USUAL_NOISE)
        return Probit(noise_variance)
    likelihood = Probit() if likelihood is None else likelihood
    check_kind("likelihood", likelihood, Probit, "spg.Probit(noise, by=…, margin=…)")
    return likelihood
