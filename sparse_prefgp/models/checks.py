"""What models of duels refuse, and what they warn of, when they are made."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import Approximation
from sparse_prefgp.approximations.in_time import plan_of
from sparse_prefgp.covariances.finite import feature_part, parts_of
from sparse_prefgp.covariances.item_effect import (
    ItemEffect,
    check_number,
    context_kernels,
    held_effects,
    item_effects,
    numbered_kernel,
    unheld_kernels,
)
from sparse_prefgp.covariances.item_in_time import ItemInTime, beside_time, time_term
from sparse_prefgp.covariances.kernels import as_float, cancelling_parts
from sparse_prefgp.covariances.markov import MarkovKernel
from sparse_prefgp.covariances.pair_effect import pair_effect
from sparse_prefgp.covariances.projected import ProjectedPoints, projection_of
from sparse_prefgp.covariances.residual import MAX_BLOCK
from sparse_prefgp.data.events import AboutSets
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.data.slices import SLICES, Dated
from sparse_prefgp.models.inducing_inputs import check_count
from sparse_prefgp.support.machine import ASKED_ABOVE, ask
from sparse_prefgp.support.words import shortened

if TYPE_CHECKING:
    from sparse_prefgp.models.preference_gp import PreferenceGP


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
    if not isinstance(kernel, gpflow.kernels.Kernel):
        name = type(kernel).__name__
        remedy = ""
        if isinstance(kernel, MarkovKernel):
            remedy = "; write spg.ItemInTime(…) round it, which is one"
        raise ValueError(f"kernel must be a GPflow kernel, not {name}{remedy}.")
    rows = as_float(duels.items[[0, 0]])
    # Everything but effects of items and of pairs, which look at no feature.
    apart = item_effects(kernel) or pair_effect(kernel) or time_term(kernel) is not None
    on_features = feature_part(kernel) if apart else kernel
    of_contexts = context_kernels(kernel)
    looking = [part for part in (on_features, *of_contexts) if part is not None]
    if duels.num_features == 0 and looking:
        raise ValueError(
            f"The kernel {type(looking[0]).__name__} looks at features, but the items have none; "
            "use ItemEffect() alone, or items with features."
        )
    for label, function, shape in (
        (f"The kernel {type(kernel).__name__}", on_features, [2, 2]),
        *((f"The kernel {type(part).__name__}", part, [2, 2]) for part in of_contexts),
        ("The mean function", mean_function, [2, 1]),
    ):
        if function is None:
            continue
        try:
            found = list(function(rows).shape)
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


def check_time(
    kernel: gpflow.kernels.Kernel, duels: Any, approximation: Any, engine: Any, taste: Any
) -> ItemInTime | None:
    """The utilities in time of a kernel, checked; None without.

    :param approximation: None for the default.
    :raises ValueError: duels without dates, an approximation or engine that has no form of it, or
        other effects of items.
    """
    term = time_term(kernel)
    if term is None:
        return None
    if duels.times is None:
        raise ValueError(
            "The kernel has ItemInTime, but the duels have no dates; give them "
            "(Duels(…, times=…)), or leave the term out."
        )
    if any(isinstance(part, ItemEffect) for part in parts_of(kernel)):
        raise ValueError(
            "ItemEffect is a level of each item next to ItemInTime, which has one; leave it out, "
            "and for a level next to form take ItemInTime(spg.markov.Constant() + "
            "spg.markov.Matern12())."
        )
    for inner in unheld_kernels(kernel):
        raise ValueError(
            f"ItemTimes has the kernel {type(inner).__name__}, whose effects of items have no form "
            "next to ItemInTime; take ItemTimes of SameLevel or Linear (item*column, "
            "item*linear(column))."
        )
    if approximation is not None and approximation.has_blocks:
        raise ValueError(
            f"{approximation.name} has blocks of duels, which no filter in time knows; with "
            "ItemInTime take VFE(), FITC() or Exact()."
        )
    if approximation is not None and not approximation.uses_all_duels:
        raise ValueError(
            f"{approximation.name} draws duels at random, of which utilities in time need all "
            "up to a date; give the duels of fewer years and take Exact(), VFE() or FITC()."
        )
    if engine.one_by_one:
        raise ValueError(
            f"{engine!r} updates one site after the other, which a filter in time cannot; take "
            "ParallelEP()."
        )
    if taste is not None or pair_effect(kernel) is not None:
        other = "Tastes of people" if taste is not None else "Effects of pairs"
        raise ValueError(f"{other} have no form with ItemInTime; leave one of them out.")
    return term


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


def check_taste(taste: Any, kernel: gpflow.kernels.Kernel, people: Any) -> None:
    """Refuse tastes of nobody, and kernels that cannot be one's own.

    :param people: of the duels; None where they are nobody's.
    :raises ValueError: see above; effects of pairs, which are of no person.
    """
    if taste is None:
        return
    if people is None:
        raise ValueError(
            "taste was given, but the duels are nobody's; name the person of each "
            "(Duels(…, people=…), read_duels(…, person=…)), or leave it out."
        )
    if not isinstance(taste, gpflow.kernels.Kernel):
        raise ValueError(f"taste must be a GPflow kernel, not {type(taste).__name__}.")
    if set(map(id, taste.parameters)) & set(map(id, kernel.parameters)):
        raise ValueError(
            "kernel and taste share parameters, which would tie what all prefer to what one does; "
            "give taste a kernel of its own."
        )
    if pair_effect(taste) is not None or pair_effect(kernel) is not None:
        raise ValueError(
            "Effects of pairs and tastes of people have no form together; leave PairEffect out, or "
            "taste."
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


def check_sets(graph: DuelGraph, engine: Any, margin: Any) -> None:
    """What answers about sets cannot go together with.

    :param margin: of ties; None without.
    :raises ValueError: weights that are no whole numbers, a margin, ties or grades, logistic noise,
        or an engine that needs noise of each row's own where there is none.
    """
    noises, events = graph.noises, graph.events
    if noises is None or events is None:
        return
    check_about_sets(events.about_sets, margin)
    if not engine.link_function.has_normal_noise:
        raise ValueError(
            f"{engine!r} has logistic noise, but alternatives of a set share normal noise; use a "
            "probit engine, such as ParallelEP()."
        )
    power = getattr(engine, "site_power", None)
    if np.any(noises.own == 0.0) and power != 1.0:
        raise ValueError(
            f"{engine!r} needs noise of each row's own, which an answer of best and worst at once "
            "has none of; use ParallelEP() or SequentialEP()."
        )


def check_about_sets(about: AboutSets, margin: Any) -> None:
    """What answers about sets cannot go together with, whatever the engine.

    :param margin: of ties; None without.
    :raises ValueError: weights that are no whole numbers, a margin, ties or grades.
    """
    if not about.any:
        return
    if about.odd is not None:
        raise ValueError(
            f"An answer about a set counts as {about.odd:g}; give whole numbers of answers, or "
            "leave weights out: a share of an answer about several alternatives has no likelihood "
            "of its own."
        )
    if margin is not None or about.others:
        raise ValueError(
            "There is a margin, or ties or grades of duels, next to answers about sets, which no "
            "margin moves; leave these out, or give them a model of their own."
        )


def check_effects(
    kernel: gpflow.kernels.Kernel, approximation: Approximation, graph: DuelGraph
) -> None:
    """What inducing inputs cannot explain, and is not of finitely many features.

    :raises ValueError: nothing else in the kernel, effects in a context by another kernel, or
        effects of too many items.
    """
    if not approximation.needs_inducing:
        return
    if feature_part(kernel) is None:
        raise ValueError(
            f"{_named(kernel)} alone leaves nothing for the inducing inputs of "
            f"{approximation.name}; add a kernel on the features, or use Exact()."
        )
    for inner in unheld_kernels(kernel):
        raise ValueError(
            f"ItemTimes has the kernel {type(inner).__name__}, whose effects of items no inducing "
            f"variables of {approximation.name} hold; use Exact() (--approximation exact), or "
            "ItemTimes of SameLevel or Linear (item*column, item*linear(column))."
        )
    if not approximation.has_blocks:
        check_number(numbered_kernel(kernel, graph.layout.features), graph, approximation.name)


def _named(kernel: gpflow.kernels.Kernel) -> str:
    if time_term(kernel) is not None:
        return "ItemInTime"
    return " + ".join(dict.fromkeys(type(part).__name__ for part in parts_of(kernel)))


def check_pair_effects(graph: DuelGraph, approximation: Approximation) -> None:
    """What effects of pairs cannot go together with.

    :raises ValueError: answers about sets, or blocks of duels.
    """
    if graph.noises is not None:
        raise ValueError(
            "PairEffect is an effect of two items on the duels between them, but there are answers "
            "about sets; leave it out, or read them as duels (as_duels=True)."
        )
    if approximation.has_blocks:
        raise ValueError(
            f"{approximation.name} has blocks of its own, across which the duels of a pair may "
            "lie; with PairEffect take FITC(), VFE() or Exact()."
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


def lost_effects(model: PreferenceGP) -> str | None:
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
    return (
        f"Of {effects:,} item effects only the {held:,} of the most compared items are inducing "
        f"variables; {model.approximation.name} counts those of all others against the evidence, "
        "so that their common variance falls towards zero. --approximation fitc (FITC()) does not, "
        "at about the time and memory of this fit; --approximation exact (Exact()) learns every "
        f"effect, in {_times(n, m)} the time and with {_gibibytes(n):.1f} GiB."
    )


def _times(n: int, m: int) -> str:
    """How much longer a sweep over n items takes than one with m inducing variables, in words."""
    # n³ against n m², both in matrix products. Measured at 2,200 and 1,128: 4.2, not 3.8.
    return f"{(n / m) ** 2:,.0f} times" if n > 1.5 * m else "about"


def _gibibytes(n: int) -> float:
    """Memory of exact inference over n items, in which 13 matrices of n × n meet."""
    return 13 * 8 * n**2 / 2**30


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
    if not approximation.needs_inducing:
        if given is not None:
            raise ValueError(
                f"{approximation.name}() uses no inducing inputs; leave inducing_variable out, or "
                "choose an approximation such as VFE()."
            )
        return None
    if given is None:
        raise ValueError(
            f"{approximation.name}() needs inducing inputs; give inducing_variable, an (m, D) "
            "array."
        )
    points = given if isinstance(given, gpflow.inducing_variables.InducingPoints) else None
    projection, columns = None if kernel is None else projection_of(kernel), num_features
    try:
        z = np.asarray(given if points is None else points.Z.numpy(), dtype=float)
    except (TypeError, ValueError):
        raise ValueError("inducing_variable must be an (m, D) array of numbers.") from None
    if projection is not None:
        columns = projection.num_directions
        if z.ndim == 2 and z.shape[1] == num_features != columns:
            z = projection.project(z).numpy()
        items = None if items is None else projection.project(items).numpy()
    if z.ndim != 2 or z.shape[1] != columns:
        raise ValueError(f"inducing_variable must be (m, {columns}) like the items, not {z.shape}.")
    if not np.all(np.isfinite(z)):
        row = int(np.argwhere(~np.isfinite(z))[0, 0])
        raise ValueError(f"inducing_variable has a NaN or infinite value in row {row}.")
    check_count(len(z), len(z if items is None else np.unique(items, axis=0)))
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


def noise_parameter(noise_variance: float) -> gpflow.Parameter:
    """sigma² per side of a duel, not trainable: duels determine only its ratio to the kernel's."""
    try:
        value = np.asarray(noise_variance, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"noise_variance must be a number, not {shortened(noise_variance)}."
        ) from None
    if value.ndim != 0 or not np.isfinite(value) or value <= 0.0:
        raise ValueError(
            f"noise_variance must be one positive finite number, not {noise_variance}; "
            "0.5 is the standard probit scale."
        )
    return gpflow.Parameter(value, transform=gpflow.utilities.positive(), trainable=False)
