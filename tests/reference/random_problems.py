"""Small random problems out of the product of all features, and how far a model is from dense
matrices on each (`slow_problem.py`).

    python -m tests.reference.random_problems --number 200

prints the largest deviations by feature.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

import sparse_prefgp as spg
from sparse_prefgp.data.answers import KINDS, Answers, Codes, Covariates, Grades
from tests.reference.slow_problem import (
    CONSENSUS,
    NOBODY,
    PAIRS,
    YEAR,
    Problem,
    Said,
    Solved,
    answer_probabilities,
    outcomes,
    sides_of,
    solved,
    utilities,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Terms = tuple[tuple[str, float, Array], ...]
Rng = np.random.Generator

# Features that are answers about sets, and the kind of these.
SETS = {
    "choices": "choice",
    "rankings": "ranking",
    "tops": "top",
    "best_worst": "best_worst",
    "best_worst_at_once": "best_worst_at_once",
}
FEATURES = (
    "counts",
    "weights",
    "ties",
    "margin_only",
    "grades",
    *SETS,
    "contexts",
    "twins",
    "noise_by_judge",
    "cuts_by_judge",
    "tastes",
    "people_features",
    "covariates",
    "leans",
    "item_effect",
    "item_times",
    "pair_effect",
    "in_time",
    "mean",
    "no_features",
)
# What each feature cannot be without: one of each group.
NEEDS = {
    "cuts_by_judge": [("noise_by_judge",), ("ties", "grades")],
    "people_features": [("tastes",)],
    "leans": [("covariates",)],
    "margin_only": [("ties",)],
    "no_features": [("item_effect", "pair_effect", "in_time")],
}
# What does not go together, as `support/together.py` says it, by its names of both.
APART = {
    **{(one, other): ("sets", "margins_or_ties") for one in SETS for other in ("ties", "grades")},
    **{(one, "weights"): ("sets", "shares_of_answers") for one in SETS},
    **{(one, "pair_effect"): ("sets", "pair_effects") for one in SETS},
    **{(one, "in_time"): ("in_time", "sets") for one in SETS},
    ("margin_only", "grades"): ("margin_only", "grades"),
    ("margin_only", "cuts_by_judge"): ("margin_only", "own_cuts"),
    ("tastes", "pair_effect"): ("tastes", "pair_effects"),
    ("tastes", "in_time"): ("in_time", "tastes"),
    ("pair_effect", "in_time"): ("in_time", "pair_effects"),
    ("item_effect", "in_time"): ("in_time", "levels_of_items"),
}
# What is the same thing twice, or has no meaning.
_SENSELESS = {
    ("ties", "grades"),
    *(("no_features", other) for other in ("people_features", "mean", "item_times")),
}
# How many judges, labels and people with answers there are, and items that a model does not know.
OTHERS, NEW = 3, 2
APPROXIMATIONS = {"exact": spg.Exact, "vfe": spg.VFE, "fitc": spg.FITC}


def together(some: set[str]) -> bool:
    """Whether a problem can have all of these."""
    pairs = set(combinations(some, 2))
    apart = {*APART, *_SENSELESS}
    return not any(pair in apart or pair[::-1] in apart for pair in pairs)


def can_be(some: Iterable[str]) -> bool:
    """Whether a problem can have all of these and what they need."""
    groups = [group for name in some for group in NEEDS.get(name, [])]
    return any(together({*some, *more}) for more in product(*groups))


def features(seed: int) -> frozenset[str]:
    """Of every fourth seed one feature with what it needs, else some that go together."""
    rng = np.random.default_rng([seed, 20])  # whose first 200 have every pair
    if seed % 4 == 3:
        wanted = [FEATURES[seed // 4 % len(FEATURES)]]
    else:
        wanted = [name for name in rng.permutation(FEATURES).tolist() if rng.random() < 0.35]
    has: set[str] = set()
    for name in wanted:
        more = {name}
        for group in NEEDS.get(name, []):
            if not set(group) & (has | more):
                more.add(str(rng.choice(group)))
        if together(has | more):
            has |= more
    return frozenset(has)


def drawn(seed: int, has: frozenset[str] | None = None) -> Problem:
    """A problem with these features; by default with those of the seed."""
    rng, has = np.random.default_rng([seed, 2]), features(seed) if has is None else has
    d = 0 if "no_features" in has else int(rng.integers(1, 4))
    n = int(rng.integers(4, 8))
    items, item = rng.normal(size=(n, d)), np.arange(n)
    if "contexts" in has:
        item = np.sort(np.concatenate([item, rng.integers(n, size=n // 2 + 1)]))
        items = items[item]
        if d:
            items[:, -1] = rng.choice([-1.0, 0.0, 0.7], len(item)) + 0.1 * rng.normal(size=n)[item]
    if "twins" in has:
        one, other = rng.choice(len(items), 2, replace=False)
        items[one] = items[other]
    c = int(rng.integers(1, 3)) if "covariates" in has else 0
    top = int(rng.integers(1, 4)) if "grades" in has else 1
    has_ties = "ties" in has or ("grades" in has and bool(rng.random() < 0.7))
    if "grades" in has and not has_ties:  # one level says no more than a win
        top = max(top, 2)
    steps = rng.uniform(0.3, 0.9, top)
    if not has_ties:
        steps[0] = 0.0
    cuts = tuple(np.cumsum(steps).tolist())
    said = tuple(_said(rng, has, item, c, cuts))
    asked = tuple(_asked(rng, has, item, c, cuts, said))
    linear = "in_time" in has and rng.random() < 0.6
    kernel = _kernel(rng, d, only_linear=linear)
    return Problem(
        has=has,
        items=items,
        item=item,
        said=said,
        kernel=kernel,
        inducing=_inducing(rng, d, kernel, len(np.unique(items, axis=0))),
        noise=float(rng.uniform(0.2, 0.8)),
        mean=rng.normal(size=d) if "mean" in has else np.zeros(d),
        cuts=cuts,
        ratios=rng.uniform(0.4, 2.5, OTHERS),
        scales=rng.uniform(0.6, 1.6, OTHERS),
        covariate_variances=rng.uniform(0.2, 1.5, c),
        lean_variance=float(rng.uniform(0.2, 1.5)),
        item_variance=float(rng.uniform(0.2, 1.5)),
        pair_variance=float(rng.uniform(0.2, 1.5)),
        in_time=_in_time(rng) if "in_time" in has else (),
        slice_days=float(rng.choice([1.0, 30.0, 200.0])),
        taste=_kernel(rng, d),
        taste_effect=float(rng.uniform(0.2, 1.0)) if not d or rng.random() < 0.5 else 0.0,
        people=rng.normal(size=(OTHERS + 1, int(rng.integers(1, 3)))),
        people_variance=float(rng.uniform(0.1, 0.8)),
        item_times=_item_times(rng, d),
        new=rng.normal(size=(NEW, d)),
        asked=asked,
    )


def _asked(
    rng: Rng,
    has: frozenset[str],
    item: Ints,
    covariates: int,
    cuts: tuple[float, ...],
    said: tuple[Said, ...],
) -> Iterator[Said]:
    """Questions, of new items too, and of judges, people and labels that nobody knows."""
    last = max(each.day for each in said)
    every = np.concatenate([item, 10_000 + np.arange(NEW)])
    for i, each in enumerate(_said(rng, has, every, covariates, cuts)):
        unknown = rng.random(3) < 0.3
        like = said[int(rng.integers(len(said)))]  # judges and labels that are known
        each = each._replace(judge=like.judge, label=like.label)
        if each.kind not in PAIRS:  # one is slow enough, at twenty noises
            unknown[0] = i == 0
        if "noise_by_judge" in has and "cuts_by_judge" not in has and unknown[0]:
            each = each._replace(judge=-1)
        if "leans" in has and unknown[1] and not SETS.keys() & has:
            each = each._replace(label=-1)
        if "tastes" in has and unknown[2]:
            each = each._replace(person=int(rng.choice([NOBODY, OTHERS])))
        yield each._replace(day=last + float(rng.integers(0, 400)) * ("in_time" in has))


def _item_times(rng: Rng, d: int) -> Terms:
    name = str(rng.choice(["linear", "level"]))
    return ((name, float(rng.uniform(0.3, 1.2)), rng.uniform(0.6, 1.8, d)),)


def _said(
    rng: Rng,
    has: frozenset[str],
    item: Ints,
    covariates: int,
    cuts: tuple[float, ...],
) -> Iterator[Said]:
    kinds = [name for name in SETS if name in has]
    number = int(rng.integers(5, 12) if kinds else rng.integers(6, 26))
    share = 0.0 if {"ties", "grades"} & has else float(rng.choice([0.7, 1.0]))
    for i in range(number):
        kind, size, grade, ordered = "win", 2, 0, 0
        if i < len(kinds) or (kinds and rng.random() < share):
            kind = SETS[kinds[i % len(kinds)]]
            least = 2 if kind in ("choice", "ranking") else 3
            size = int(rng.integers(least, 5))
        elif "grades" in has:
            top = len(cuts)
            levels = [x for x in range(-top, top + 1) if x or cuts[0] > 0.0]
            grade = int(rng.choice(levels))
            kind = "grade" if grade else "tie"
        elif "ties" in has and (i == len(kinds) or rng.random() < 0.3):
            kind = "tie"
        if kind == "top":
            ordered = int(rng.integers(1, size - 1))
        sides = rng.choice(len(item), size, replace=False)
        while "pair_effect" in has and len({*item[sides]}) < size:
            sides = rng.choice(len(item), size, replace=False)
        if "covariates" in has:
            # Of few values, so that some answers are equal.
            values = rng.choice([-1.0, 0.0, 0.5, 1.3], (size, covariates))
        else:
            values = np.zeros((size, 0))
        yield Said(
            kind=kind,
            sides=tuple(sides.tolist()),
            grade=grade,
            ordered=ordered,
            count=int(rng.integers(1, 4)) if "counts" in has else 1,
            weight=float(rng.choice([0.3, 0.8, 1.0, 1.7])) if "weights" in has else 1.0,
            judge=int(rng.integers(OTHERS)) if "noise_by_judge" in has else 0,
            label=int(rng.integers(OTHERS)) if "leans" in has else 0,
            person=int(rng.integers(OTHERS)) if "tastes" in has else CONSENSUS,
            day=15000.0 + float(rng.integers(0, 1200)) if "in_time" in has else 15000.0,
            covariates=tuple(map(tuple, values.tolist())),
        )


def _kernel(rng: Rng, d: int, only_linear: bool = False) -> Terms:
    if not d:
        return ()
    kinds = [["se"], ["se"], ["linear"], ["se", "linear"]][int(rng.integers(4))]
    return tuple(
        (name, float(rng.uniform(0.5, 2.0)), rng.uniform(0.6, 1.8, d))
        for name in (["linear"] if only_linear else kinds)
    )


def _inducing(rng: Rng, d: int, kernel: Terms, distinct: int) -> Array:
    most = max(1, d - 1) if [name for name, *_ in kernel] == ["linear"] else 4
    m = int(rng.integers(1, min(most, distinct) + 1))
    while True:  # until no jitter is needed
        z = rng.normal(size=(m, d))
        apart = np.linalg.norm(z[:, None] - z, axis=-1) + 9.0 * np.eye(m)
        if not d or apart.min() > 0.7:
            return z


def _in_time(rng: Rng) -> tuple[tuple[str, float, float], ...]:
    names = [["wiener"], ["matern12"], ["matern32"], ["constant", "matern12"], ["constant"]]
    return tuple(
        (name, float(rng.uniform(0.3, 1.5)), float(rng.uniform(0.3, 2.0)))
        for name in names[int(rng.integers(len(names)))]
    )


def possible(problem: Problem) -> list[str]:
    """The approximations that a problem can be given."""
    names = list(APPROXIMATIONS)
    if not problem.items.shape[1]:
        return names[:1]
    if "in_time" in problem.has and any(name != "linear" for name, *_ in problem.kernel):
        return names[1:]
    return names


def answers_of(problem: Problem, said: tuple[Said, ...]) -> Answers:
    """Answers or questions, as the package has them."""
    has, number = problem.has, {kind.name: i for i, kind in enumerate(KINDS)}

    def codes(name: str, numbers: list[int]) -> Codes:
        return Codes.of([f"{name}{i}" for i in numbers])

    columns: dict[str, object] = {
        "kind": np.array([number[each.kind] for each in said], np.int8),
        "counts": np.array([each.count for each in said]),
    }
    if any(each.kind == "top" for each in said):
        columns["ordered"] = np.array([each.ordered for each in said])
    if "weights" in has:
        columns["weights"] = np.array([each.count * each.weight for each in said])
    if "grades" in has:
        top = len(problem.cuts)
        names = [str(x) for x in range(-top, top + 1) if x or problem.margin]
        columns["answer"] = Grades(np.array([each.grade for each in said], np.int8), tuple(names))
    if "noise_by_judge" in has:
        columns["judge"] = codes("judge", [each.judge for each in said])
    if "tastes" in has:
        columns["person"] = codes("person", [each.person for each in said])
    if "in_time" in has:
        columns["time"] = np.array([each.day for each in said])
    if "covariates" in has:
        values = np.concatenate([np.array(each.covariates) for each in said])
        columns["covariates"] = Covariates(values, tuple(f"x{i}" for i in range(values.shape[1])))
    if "leans" in has:
        columns["labels"] = {"place": codes("label", [each.label for each in said])}
    sides = np.concatenate([np.array(each.sides) for each in said])
    offsets = np.cumsum([0, *(len(each.sides) for each in said)])
    return Answers(sides, offsets, **columns)


def _gpflow(terms: Terms) -> list[gpflow.kernels.Kernel]:
    return [
        gpflow.kernels.Linear(variance * scales)
        if name == "linear"
        else spg.SameLevel(variance, active_dims=[len(scales) - 1])
        if name == "level"
        else gpflow.kernels.SquaredExponential(variance, scales)
        for name, variance, scales in terms
    ]


def _summed(kernels: list[gpflow.kernels.Kernel]) -> gpflow.kernels.Kernel:
    return kernels[0] if len(kernels) == 1 else gpflow.kernels.Sum(kernels)


def made(problem: Problem, approximation: str) -> spg.PreferenceGP:
    """The package's model of a problem; the one place where it is put together."""
    has, people = problem.has, None
    if "people_features" in has:
        people = {f"person{i}": row for i, row in enumerate(problem.people)}
    answers = answers_of(problem, problem.said)
    duels = spg.Duels.from_events(problem.items, answers, people_features=people, item=problem.item)
    kernels = _gpflow(problem.kernel)
    if "item_effect" in has:
        kernels.append(spg.ItemEffect(problem.item_variance))
    if "item_times" in has:
        kernels += [spg.ItemTimes(kernel) for kernel in _gpflow(problem.item_times)]
    if "pair_effect" in has:
        kernels.append(spg.PairEffect(problem.pair_variance))
    if "in_time" in has:
        parts = [
            spg.markov.Constant(variance)
            if name == "constant"
            else getattr(spg.markov, name.capitalize())(variance, more)
            for name, variance, more in problem.in_time
        ]
        kernels.append(spg.ItemInTime(sum(parts[1:], parts[0]), slices=problem.slice_days))
    terms: list[spg.Term] = []
    if "covariates" in has:
        terms.append(spg.Coefficients(problem.covariate_variances))
    if "leans" in has:
        terms.append(spg.Lean("x0", "place", problem.lean_variance))
    if "tastes" in has:
        effect = [spg.ItemEffect(problem.taste_effect)] if problem.taste_effect else []
        variance = problem.people_variance if "people_features" in has else None
        terms.append(spg.Taste(_summed(_gpflow(problem.taste) + effect), variance))
    mean = None
    if "mean" in has:
        mean = gpflow.functions.Linear(problem.mean[:, None], 0.0)
    graded = "grades" in has
    with warnings.catch_warnings():  # of grades that nobody used
        warnings.simplefilter("ignore")
        model = spg.PreferenceGP(
            duels,
            _summed(kernels),
            approximation=APPROXIMATIONS[approximation](),
            inducing_variable=None if approximation == "exact" else problem.inducing,
            engine=spg.ParallelEP(tolerance=1e-12, max_sweeps=2000),
            mean_function=mean,
            terms=terms,
            likelihood=spg.Probit(
                problem.noise,
                by="judge" if "noise_by_judge" in has else None,
                margin=problem.cuts[0] if problem.margin else None,
                cuts=np.diff(problem.cuts) if graded else None,
                cuts_by="judge" if "cuts_by_judge" in has else None,
                ties="margin-only" if "margin_only" in has else "box",
            ),
        )
    judges = [int(str(name)[len("judge") :]) for name in duels.group_names or ()]
    if model.likelihood.noise_ratio is not None:
        model.likelihood.noise_ratio.assign(problem.ratios[judges])
    if model.likelihood.cut_scale is not None:
        model.likelihood.cut_scale.assign(problem.scales[judges])
    return model


Deviations = dict[str, float]


def _off(found: object, wanted: object) -> float:
    """The largest deviation relative to max(1, |x|)."""
    one, other = np.asarray(found, float), np.asarray(wanted, float)
    assert one.shape == other.shape, (one.shape, other.shape)
    return float(np.max(np.abs(one - other) / np.maximum(1.0, np.abs(other)), initial=0.0))


def deviations(problem: Problem, approximation: str) -> Deviations:
    """How far the model of a problem is from the reference, by what is asked of it."""
    at, model = solved(problem, approximation), made(problem, approximation)
    found: Deviations = {"evidence": _off(model.log_evidence(), at.log_evidence)}
    rows = np.arange(len(problem.items) + NEW)
    last = max(each.day for each in problem.said) / YEAR
    known = model.inputs.of_items()
    new = np.full((NEW, known.shape[1]), -1.0)
    new[:, : problem.new.shape[1]] = problem.new
    inputs = np.concatenate([known, new])

    def compared(name: str, other: spg.PreferenceGP, person: int, date: float) -> None:
        dated = round(date * YEAR, 6) if "in_time" in problem.has else None
        mean, covariance = other.predict_f(inputs, full_cov=True, at=dated)
        wanted = at.moments(utilities(problem, rows, date, person))
        found[name] = max(_off(mean[:, 0], wanted[0]), _off(covariance[0], wanted[1]))

    compared("posterior", model, CONSENSUS, last)
    if "in_time" in problem.has:
        compared("posterior", model, CONSENSUS, last + 1.3)
    if "tastes" in problem.has:
        person = problem.said[0].person
        compared("of a person", model.of_person(f"person{person}"), person, last)
        compared("of nobody", model.of_person(None), NOBODY, last)
    if "people_features" in problem.has:
        other = len(problem.people) - 1
        compared("of a described person", model.of_person(f"person{other}"), other, last)
    if "covariates" in problem.has:
        said = model.coefficients()
        mean, covariance = at.coefficients()
        if "leans" in problem.has:
            c = len(problem.covariate_variances)
            names = [int(str(x)[len("label") :]) for x in model.duels.label_names["place"]]
            order = [*range(c), *(c + np.unique(names).searchsorted(names))]
            mean, covariance = mean[order], covariance[np.ix_(order, order)]
        found["coefficients"] = max(_off(said.mean, mean), _off(said.covariance, covariance))
    found.update(_predicted(problem, at, model, inputs))
    return found


def _predicted(problem: Problem, at: Solved, model: spg.PreferenceGP, inputs: Array) -> Deviations:
    """Of predictions of questions."""
    with warnings.catch_warnings():  # of what is not known
        warnings.simplefilter("ignore")
        forecast = model.predict(answers_of(problem, problem.asked), inputs)
    rows = sides_of(problem, problem.asked)
    starts = np.cumsum([0, *(len(each.sides) for each in problem.asked)])
    if any(each.kind not in PAIRS for each in problem.asked):
        mean, covariance = at.moments(rows)
        choices = all(each.kind in ("win", "choice") for each in problem.asked)
        wanted = np.zeros_like(forecast.p)
        for i, each in enumerate(problem.asked):
            own = slice(starts[i], starts[i + 1])
            p = answer_probabilities(problem, each, mean[own], covariance[own, own], choices)
            wanted[i, : len(p)] = p
        return {"answers": _off(forecast.p, wanted)}
    leads = np.zeros((len(problem.asked), len(rows.x)))
    for i, start in enumerate(starts[:-1]):
        leads[i, start], leads[i, start + 1] = 1.0, -1.0
    mean, covariance = at.moments(rows, leads)
    variance = np.diag(covariance)
    p = [
        outcomes(problem, each.judge, m, v)
        for each, m, v in zip(problem.asked, mean, variance, strict=True)
    ]
    order = slice(None) if "grades" in problem.has else slice(None, None, -1)
    return {
        "differences": max(_off(forecast.mean, mean), _off(forecast.variance, variance)),
        "outcomes": _off(forecast.p[:, order], p),
    }


# What `moved` moves besides terms of kernels and cuts.
_NUMBERS = (
    "noise",
    "ratios",
    "scales",
    "covariate_variances",
    "lean_variance",
    "item_variance",
    "pair_variance",
    "taste_effect",
    "people_variance",
    "mean",
    "inducing",
)


def moved(problem: Problem, step: float) -> Problem:
    """All numbers that a model learns, moved in one random direction."""
    rng = np.random.default_rng(len(problem.said))

    def by(values: Any) -> Any:
        found = np.asarray(values) * np.exp(step * rng.normal(size=np.shape(values)))
        return float(found) if isinstance(values, float) else found

    def of(terms: Terms) -> Terms:
        return tuple((name, by(variance), by(scales)) for name, variance, scales in terms)

    return problem._replace(
        **{name: by(getattr(problem, name)) for name in _NUMBERS},
        cuts=tuple(np.cumsum(by(np.diff([0.0, *problem.cuts]))).tolist()),
        kernel=of(problem.kernel),
        taste=of(problem.taste),
        item_times=of(problem.item_times),
        in_time=tuple((name, by(one), by(other)) for name, one, other in problem.in_time),
    )


def slopes(problem: Problem, approximation: str) -> tuple[float, float]:
    """Of the evidence in that direction, by the gradient of the model and by differences of the
    reference."""
    models = [made(moved(problem, step), approximation) for step in (-1e-5, 0.0, 1e-5)]
    for model in models:
        gpflow.set_trainable(model, True)
        model.warned_about_scale = True
    low, _, high = ([x.numpy() for x in model.trainable_variables] for model in models)
    with tf.GradientTape() as tape:
        evidence = models[1].maximum_log_likelihood_objective()
    gradient = tape.gradient(evidence, models[1].trainable_variables)
    by_model = sum(
        float(np.sum(slope.numpy() * (b - a))) / 2e-5
        for slope, a, b in zip(gradient, low, high, strict=True)
        if slope is not None
    )
    h = 1e-3
    low2, low1, high1, high2 = (
        solved(moved(problem, k * h), approximation).log_evidence for k in (-2.0, -1.0, 1.0, 2.0)
    )
    return by_model, (8.0 * (high1 - low1) - (high2 - low2)) / (12.0 * h)


def main() -> None:
    """Print the largest deviations by feature, and how often each was drawn."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--number", type=int, default=200)
    given.add_argument("--first", type=int, default=0)
    arguments = given.parse_args()
    worst: dict[str, tuple[float, str]] = {}
    alone, counts, pairs = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for seed in range(arguments.first, arguments.first + arguments.number):
        problem = drawn(seed)
        has = problem.has
        counts.update(has)
        pairs.update(combinations(sorted(has), 2))
        if seed % 4 == 3:
            alone[FEATURES[seed // 4 % len(FEATURES)]] += 1
        for approximation in possible(problem):
            try:
                found = deviations(problem, approximation)
            except Exception as error:
                print(f"{seed} {approximation} {sorted(has)}: {error!r}"[:400], flush=True)
                continue
            what = max(found, key=lambda name: found[name])
            where = f"{what} of seed {seed} by {approximation}"
            for name in (*has, *(f"{one} x {other}" for one, other in combinations(has, 2))):
                worst[name] = max(worst.get(name, (0.0, "")), (found[what], where))
            if found[what] > 1e-9:
                told = {k: f"{v:.1e}" for k, v in found.items()}
                print(seed, approximation, sorted(has), told, flush=True)
    for name in FEATURES:
        value, where = worst.get(name, (0.0, "nothing"))
        print(f"{name:20s} {counts[name]:4d} {alone[name]:4d} alone  {value:.1e}  {where}")
    possible_pairs = [pair for pair in combinations(sorted(FEATURES), 2) if can_be(pair)]
    missing = [pair for pair in possible_pairs if not pairs[pair]]
    print(f"{len(possible_pairs)} pairs can be, {len(missing)} were not: {missing}")


if __name__ == "__main__":
    main()
