"""Every public way to the probability of a duel, or of a choice between two, through one adaptor.

A *case* is a model and pairs to ask it about, of known and of unknown people, judges and so on; a
*way* gives the probability that the first of each pair beats the second. All ways of one case
agree, or refuse in a sentence (`tests/integration/test_ways.py`); where a way has no word for
what is asked, it is `NotAsked`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, Answers, Codes
from sparse_prefgp.data.slices import days_of
from sparse_prefgp.models.questions import forecast_of
from tests.tolerances import SOLVER

Chances = np.ndarray
ITEMS = pd.DataFrame(
    {"item_id": [f"i{k}" for k in range(6)], "x": [0.1, 1.3, -0.7, 0.4, -1.6, 0.9], "y": range(6)}
)
PAIRS = [("i0", "i1"), ("i3", "i2"), ("i4", "i5")]
# What a model may know besides items, and the option of `read_duels` by which it does.
COLUMNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "items": {},
    "pairs": {},
    "tastes": {"person": "who"},
    "judges": {"groups": "judge"},
    "covariates": {"covariates": ("home",)},
    "leans": {"covariates": ("home",), "labels": ["judge"]},
    "ties": {},
    "grades": {"grade": "grade"},
    "contexts": {"context": ("surface",)},
    "dates": {"time": "date"},
}


class NotAsked(Exception):
    """A way has no word for what a case says besides items."""


@lru_cache
def model_of(features: tuple[str, ...]) -> Any:
    """A small model that knows all this, at its first parameters."""
    has, kinds = set(features), gpflow.kernels
    rng, t = np.random.default_rng(0), 30
    first = rng.integers(0, 6, t)
    second = (first + rng.integers(1, 6, t)) % 6
    duels = pd.DataFrame({"winner": ITEMS["item_id"][first].to_numpy()})
    duels["loser"] = ITEMS["item_id"][second].to_numpy()
    duels["who"] = [f"p{k}" for k in rng.integers(0, 4, t)]
    duels["judge"] = rng.choice(["Ann", "Ben"], t)
    duels["winner_home"], duels["loser_home"] = rng.integers(0, 2, t), rng.integers(0, 2, t)
    duels["surface"] = rng.choice(["clay", "grass"], t)
    duels["date"] = [f"2020-0{k}-10" for k in np.sort(rng.integers(1, 4, t))]
    if "grades" in has:
        duels["grade"] = rng.choice([-2, -1, 0, 1, 2], t)
    if "ties" in has:
        duels["tie"] = (rng.random(t) < 0.2).astype(int)
    options: dict[str, Any] = {}
    for name in features:
        options |= COLUMNS[name]
    read = spg.read_duels(ITEMS, duels, **options)
    kernel = kinds.SquaredExponential(1.5, lengthscales=1.2)
    if "tastes" in has:  # what all share is additive, what each has besides is not
        kernel = kinds.Linear(np.ones(read.num_features))
    if "items" in has:
        kernel += spg.ItemEffect(0.3)
    if "pairs" in has:
        kernel += spg.PairEffect(0.4)
    if "dates" in has:
        kernel += spg.ItemInTime(spg.markov.Wiener(0.5))
    terms: list[spg.Term] = []
    if "tastes" in has:
        terms.append(spg.Taste(kinds.SquaredExponential(1.0, lengthscales=0.8)))
    if "leans" in has:
        terms.append(spg.Lean("home"))
    likelihood = spg.Probit(
        by="judge" if "judges" in has else None,
        margin=0.3 if {"ties", "grades"} & has else None,
    )
    engine = spg.ParallelEP(tolerance=SOLVER)
    model = spg.PreferenceGP(read, kernel, engine=engine, terms=terms, likelihood=likelihood)
    if model.likelihood.noise_ratio is not None:
        model.likelihood.noise_ratio.assign([0.6, 1.7])
    return model


class Case:
    """A small model of some features (names of `COLUMNS`), and pairs to ask it about.

    :ivar table: the pairs as commands take them.
    :ivar said: the same as keywords of `predict_duel`.
    """

    def __init__(self, features: Iterable[str], known: bool = True) -> None:
        self.features, self.known = tuple(features), known
        n = len(PAIRS)
        self.person = "p1" if known and "tastes" in self.features else None
        judge = "Ann" if known else None
        self.table = pd.DataFrame(PAIRS, columns=["first", "second"])
        self.said: dict[str, Any] = {}
        if self.person is not None:
            self.table["who"], self.said["people"] = self.person, self.person
        if known and {"judges", "leans"} & set(self.features):
            self.table["judge"] = judge
            if "judges" in self.features:
                self.said["groups"] = judge
            if "leans" in self.features:
                self.said["labels"] = {"judge": judge}
        if {"covariates", "leans"} & set(self.features):
            self.table["first_home"], self.table["second_home"] = [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]
            self.said["covariates"] = np.array([[1.0], [-1.0], [0.0]])
        if "contexts" in self.features:
            self.table["surface"] = "clay"
        if "dates" in self.features:
            self.table["date"], self.said["at"] = "2020-02-20", np.repeat("2020-02-20", n)

    @property
    def model(self) -> Any:
        return model_of(self.features)

    @property
    def view(self) -> Any:
        """The model of whom is asked about."""
        return self.model if self.person is None else self.model.of_person(self.person)

    @property
    def of_view(self) -> dict[str, Any]:
        """What is said besides."""
        return {name: value for name, value in self.said.items() if name != "people"}

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Both sides as `predict_duel` takes them."""
        ids = list(self.model.duels.item_ids)
        context = " @ surface=clay" if "contexts" in self.features else ""
        numbers = [
            [ids.index(name + context) for name in side] for side in zip(*PAIRS, strict=True)
        ]
        first, second = (self.model.inputs.of_items(side) for side in numbers)
        return first, second

    @property
    def sets(self) -> np.ndarray:
        return np.stack(self.rows, 1)

    @cached_property
    def exported(self) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            spg.export_saved_model(self.view, folder + "/out")
            return tf.saved_model.load(folder + "/out")

    def alone(self) -> None:
        """For ways that have no word for what is said besides.

        :raises NotAsked: something is.
        """
        if self.of_view:
            raise NotAsked


def predict_duel(case: Case) -> Chances:
    return case.model.predict_duel(*case.rows, **case.said).numpy()


def predict_choice(case: Case) -> Chances:
    said, model = dict(case.said), case.model
    if said.pop("at", None) is not None:
        model = model.in_time.at("2020-02-20")
    if "covariates" in said:
        less = said["covariates"]
        said["covariates"] = np.stack([less, np.zeros_like(less)], 1)
    return model.predict_choice(case.sets, **said).numpy()[:, 0]


def by_table(case: Case) -> Chances:
    return spg.predict(case.model, case.table)["probability"].to_numpy()


def choices_by_table(case: Case) -> Chances:
    case.alone()
    wide = case.table.rename(columns={"first": "option_1", "second": "option_2"})
    found = spg.predict(case.model, choices=wide)
    return found["probability"].to_numpy()[::2]


def questions(case: Case) -> Answers:
    """The pairs between `case.rows`, all the first ones first, with what is said of them."""
    n, said = len(PAIRS), case.said

    def every(label: Any) -> Codes | None:
        return None if label is None else Codes.of([label] * n)

    names = case.model.duels.covariate_names if "covariates" in said else ()
    events = Answers.between(
        np.arange(n),
        n + np.arange(n),
        judge=every(said.get("groups")),
        covariates=said.get("covariates"),
        covariate_names=names,
    )
    return events.saying(
        person=every(case.person),
        time=days_of(said["at"], n) if "at" in said else None,
        labels={column: every(label) for column, label in said.get("labels", {}).items()},
    )


def asked(case: Case) -> Chances:
    forecast = case.model.predict(questions(case), np.concatenate(case.rows))
    np.testing.assert_allclose(forecast.p.sum(1), 1.0, rtol=1e-9)
    return np.exp(forecast.results[:, 0])


def asked_choices(case: Case) -> Chances:
    if "at" in case.said:
        raise NotAsked  # utilities of sets are those of the last date
    events = questions(case).saying(kind=np.full(len(PAIRS), CHOICE, np.int8))
    return case.model.predict(events, np.concatenate(case.rows)).p[:, 0]


def by_difference(case: Case) -> Chances:
    said = {**case.said}
    said.pop("groups", None)
    mean, variance = case.model.predict_difference(*case.rows, **said)
    return won(case.model, mean, variance, questions(case).judge)


def won(model: Any, mean: Any, variance: Any, judge: Codes | None = None) -> Chances:
    """From mean and variance of differences."""
    return np.exp(forecast_of(model, mean, variance, judge).results[:, 0])


def by_utilities(case: Case) -> Chances:
    """From the joint posterior of utilities: whose outcomes are asked for, by name."""
    case.alone()
    if "pairs" in case.features:  # which are no part of utilities
        raise NotAsked
    view = case.view
    if case.person is None and case.model.terms.taste is not None:
        view = case.model.of_person(None)
    n = len(PAIRS)
    mean, covariance = (x.numpy() for x in view.predict_f(np.concatenate(case.rows), full_cov=True))
    mean, own = mean[:, 0], np.diag(covariance[0])
    variance = own[:n] + own[n:] - 2.0 * np.diag(covariance[0][:n, n:])
    return won(view, mean[:n] - mean[n:], variance)


def explained(case: Case) -> Chances:
    if {"covariates", "groups"} & set(case.said):
        raise NotAsked
    at = "surface=clay" if "contexts" in case.features else None
    at = "date=2020-02-20" if "dates" in case.features else at
    found = [spg.explain(case.model, a, b, at=at, person=case.person) for a, b in PAIRS]
    for one in found:
        adds_up = abs(one.difference - one.frame["contribution"].sum())
        assert adds_up <= one.tolerance and ("add up" in str(one) or not one.converged)
    return np.array([one.probability for one in found])


def suggested(case: Case) -> Chances:
    if {"covariates", "groups", "at"} & set(case.said):
        raise NotAsked
    pairs = case.table.drop(columns=["who"], errors="ignore")
    found = spg.suggest(case.model, pairs=pairs, batch=len(PAIRS), person=case.person).frame
    return pairs.merge(found, on=["first", "second"])["probability"].to_numpy()


def ranked(case: Case) -> Chances:
    """The difference of two utilities in a ranking, with the spread that duels are predicted by."""
    if {"covariates", "groups"} & set(case.said) or {"contexts", "pairs"} & set(case.features):
        raise NotAsked  # in contexts it ranks averages
    at = "date=2020-02-20" if "dates" in case.features else ()
    frame = spg.rank(case.model, at=at, person=case.person, samples=100).frame
    utility = frame.set_index("item_id")["utility"]
    mean = np.array([utility[a] - utility[b] for a, b in PAIRS])
    variance = case.model.predict_difference(*case.rows, **case.said)[1]
    return won(case.model, mean, variance)


def evaluated(case: Case) -> Chances:
    """The loss of each pair as a duel that the first won."""
    names = {"first": "winner", "second": "loser"}
    names |= {f"{old}_home": f"{new}_home" for old, new in names.items()}
    duels, found = case.table.rename(columns=names), []
    if case.model.duels.levels is not None:
        raise NotAsked  # a score of grades is of the grade
    for row in range(len(PAIRS)):
        one = duels.iloc[[row]]
        scores = spg.evaluate(case.model, one)["held_out"]["model"]
        found.append(np.exp(-scores["nlp_nats"]))
    won, _, lost = case.model.predict_outcome(*case.rows, **case.said).numpy().T
    return np.array(found) * (won + lost)  # scores are given that there was no tie


def saved(case: Case) -> Chances:
    with tempfile.TemporaryDirectory() as folder:
        spg.save(case.model, folder + "/model")
        loaded = spg.load(folder + "/model")
    return loaded.predict_duel(*case.rows, **case.said).numpy()


def served(case: Case) -> Chances:
    case.alone()
    found = case.exported.predict_duel(*map(tf.constant, case.rows))
    return found["probability"].numpy()


def served_choice(case: Case) -> Chances:
    case.alone()
    found = case.exported.predict_choice(tf.constant(case.sets), np.ones((len(PAIRS), 2), bool))
    return found["probability"].numpy()[:, 0]


def compiled(case: Case) -> Chances:
    return tf.function(case.model.predict_duel, autograph=False)(
        *map(tf.constant, case.rows), **case.said
    ).numpy()


def compiled_view(case: Case) -> Chances:
    """As one writes it: with AutoGraph."""
    return tf.function(case.view.predict_duel)(*map(tf.constant, case.rows), **case.of_view).numpy()


def compiled_choice(case: Case) -> Chances:
    return tf.function(case.view.predict_choice, autograph=False)(tf.constant(case.sets))


def viewed(case: Case) -> Chances:
    view = case.model
    if view.terms.taste is not None:
        view = view.of_person(case.person)
    return view.predict_duel(*case.rows, **case.of_view).numpy()


def outcome(case: Case) -> Chances:
    return case.model.predict_outcome(*case.rows, **case.said).numpy()[:, 0]


def turned(case: Case) -> Chances:
    said = dict(case.said)
    if "covariates" in said:
        said["covariates"] = -said["covariates"]
    return case.model.predict_outcome(*case.rows[::-1], **said).numpy()[:, 2]


DUELS: dict[str, Callable[[Case], Chances]] = {
    function.__name__: function
    for function in (
        outcome, turned, asked, by_difference, by_utilities, by_table, explained, suggested,
        ranked, evaluated, saved, viewed, served, compiled, compiled_view,
    )
}  # fmt: skip
# Of which a tie is no outcome: without ties those of duels too.
CHOICES: dict[str, Callable[[Case], Chances]] = {
    function.__name__: function
    for function in (
        predict_choice,
        asked_choices,
        choices_by_table,
        served_choice,
        compiled_choice,
    )
}
