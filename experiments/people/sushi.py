"""People's own tastes in sushi, of known and of new people, and one utility for all.

    python experiments/people/sushi.py FOLDER [--parts a-small a b new] [--draws 25]

FOLDER holds Kamishima's files, which are for research and no part of this package
(docs/datasets.md). A: rankings of ten kinds; a draw takes 100 people, 5 (a-small) or 20 pairs of
each for training and 25 others for the test. B: ten of 100 kinds for each of 5,000 people, 10 pairs
and 1. new: 1,500 of the people of B are known by 10 pairs each and tested on another one; 500 are
met after 0, 5 and 10 pairs, and asked about 20 others.

Kernels are a squared exponential of the features, whose squared lengthscale is the median squared
distance between the kinds and is held, and an effect of each kind; one kernel for what all share,
one for each person's own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist
from scipy.stats import kendalltau

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score

NUMERIC = ["oiliness", "eaten", "price", "sold"]
PAIRS = np.array(list(combinations(range(10), 2)))  # places in a ranking, winner first
MET = (0, 5, 10)
ASKED = 20
MODELS = TASTES, FEATURES, ALIKE = "tastes", "tastes and features of people", "one utility"


@dataclass(frozen=True)
class Votes:
    """Pairs of people, winner first."""

    person: np.ndarray
    """(t,) numbers of people."""
    pairs: np.ndarray
    """(t, 2) kinds, as rows of the features."""


@dataclass(frozen=True)
class Rankings:
    """Rankings of kinds by people, and the features of the kinds."""

    x: np.ndarray
    """(n, D)."""
    orders: np.ndarray
    """(people, 10) rows of `x`, best first."""
    people: np.ndarray
    """(people, S) gender, age and regions: 29 columns, or their six leading directions."""

    @classmethod
    def of(cls, sushi: spg.datasets.Sushi, which: str) -> Rankings:
        """Those of set `a` or `b`, features standardised over its kinds."""
        orders = sushi.orders[which]
        kinds, place = np.unique(orders, return_inverse=True)
        people = people_features(sushi.people, None if which == "a" else 6)
        return cls(features_of(sushi.items.iloc[kinds]), place.reshape(orders.shape), people)

    def permuted(self, people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The 45 pairs (winner, loser) of each of these people in random order, (p, 45, 2)."""
        return np.stack([self.orders[u][PAIRS[rng.permutation(len(PAIRS))]] for u in people])


def features_of(items: pd.DataFrame) -> np.ndarray:
    """(n, D), standardised; style and major group are one column each."""
    two = [items["style"] == "other", items["major_group"] == "other"]
    groups = pd.get_dummies(items["minor_group"])
    raw = np.column_stack([*two, groups, items[NUMERIC]]).astype(float)
    raw = raw[:, raw.std(0) > 0.0]
    return np.asarray((raw - raw.mean(0)) / raw.std(0))


def people_features(people: pd.DataFrame, directions: int | None) -> np.ndarray:
    """(people, S), standardised."""
    ages, *places = (pd.get_dummies(people[name]) for name in ("age", "grew_up", "lives"))
    raw = np.column_stack([people["gender"] == "male", ages, *places]).astype(float)
    found = (raw - raw.mean(0)) / raw.std(0)
    if directions is not None:
        left, size, _ = np.linalg.svd(found, full_matrices=False)
        found = left[:, :directions] * size[:directions]
        found /= found.std(0)
    return np.asarray(found)


def votes(pairs: np.ndarray, first: int, last: int) -> Votes:
    """Some of the pairs (p, 45, 2) of each person."""
    some = pairs[:, first:last]
    return Votes(np.repeat(np.arange(len(some)), some.shape[1]), some.reshape(-1, 2))


def kernel(x: np.ndarray) -> gpflow.kernels.Kernel:
    """What is shared, or one's own."""
    lengthscale = float(np.sqrt(np.median(pdist(x) ** 2)))
    squared = gpflow.kernels.SquaredExponential(lengthscales=lengthscale)
    gpflow.set_trainable(squared.lengthscales, False)
    return squared + spg.ItemEffect()


def fitted(
    x: np.ndarray, train: Votes, tastes: bool, people: np.ndarray | None = None
) -> tuple[spg.PreferenceGP, float]:
    """The model at the largest evidence, and seconds.

    :param people: (people, S) features of them; None without.
    """
    began = time.perf_counter()
    duels = spg.Duels(x, *train.pairs.T, people=train.person, people_features=people)
    model = spg.PreferenceGP(
        duels,
        kernel(x),
        terms=[spg.Taste(kernel(x))] if tastes else [],
        approximation=spg.Exact(),
    )
    if tastes:
        spg.default_priors(model)
        spg.begin_tastes(model)
    spg.optimise(model)
    return model, time.perf_counter() - began


def chances(model: spg.PreferenceGP, test: Votes, people: np.ndarray | None) -> np.ndarray:
    """Log probabilities of what was said, (t,)."""
    ahead, behind = (model.inputs.of_items(rows) for rows in test.pairs.T)
    return np.log(model.predict_duel(ahead, behind, people=people).numpy())


def taus(model: spg.PreferenceGP, orders: np.ndarray) -> float:
    """Kendall's tau of the ten kinds that each person ranked, pooled over people."""
    utility = model.predict_f(model.inputs.of_items())[0].numpy()[:, 0]
    own = (
        model.people.tastes()
        if model.terms.taste is not None
        else np.zeros((len(orders), len(utility)))
    )
    found = np.take_along_axis(utility + own, orders, 1)
    wanted = np.broadcast_to(-np.arange(orders.shape[1]), orders.shape)
    return float(kendalltau(found.reshape(-1), wanted.reshape(-1)).statistic)


def scored(log_probabilities: np.ndarray) -> dict[str, float]:
    found = score(log_probabilities)
    return {
        "accuracy": found["accuracy"],
        "nats": found["nlp_nats"],
        "calibration": found["calibration_error"],
    }


def known_people(
    rankings: Rankings,
    people: np.ndarray,
    rng: np.random.Generator,
    train: int,
    test: int,
    names: Sequence[str],
) -> dict[str, dict[str, float]]:
    """Tastes and one utility for all on held-out pairs of the same people."""
    pairs = rankings.permuted(people, rng)
    first, held = votes(pairs, 0, train), votes(pairs, train, train + test)
    found = {}
    for name in names:
        tastes = name != ALIKE
        known = rankings.people[people] if name == FEATURES else None
        model, seconds = fitted(rankings.x, first, tastes, known)
        logs = chances(model, held, held.person if tastes else None)
        per_duel = model.log_evidence() / len(first.person)
        tau = taus(model, rankings.orders[people])
        found[name] = {**scored(logs), "tau": tau, "evidence": per_duel, "seconds": seconds}
    return found


def averaged(name: str, draws: list[dict[str, dict[str, float]]]) -> None:
    """Print means over draws, with standard errors where there are several."""
    for model in draws[0]:
        values = {key: np.array([draw[model][key] for draw in draws]) for key in draws[0][model]}
        error = values["nats"].std(ddof=1) / np.sqrt(len(draws)) if len(draws) > 1 else np.nan
        shown = ", ".join(f"{key} {each.mean():.4f}" for key, each in values.items())
        print(f"{name:8} {model:12} {shown} (± {error:.4f} nats, {len(draws)} draws)", flush=True)


def new_people(rankings: Rankings, name: str) -> None:
    """Known and new people of B, the new ones after some pairs."""
    rng = np.random.default_rng(0)
    people = rng.permutation(len(rankings.orders))[:2000]
    pairs = rankings.permuted(people, rng)
    known, new = pairs[:1500], pairs[1500:]
    first, held = votes(known, 0, 10), votes(known, 10, 11)
    of_people = rankings.people[people] if name == FEATURES else None
    model, seconds = fitted(
        rankings.x, first, True, None if of_people is None else of_people[:1500]
    )
    found = scored(chances(model, held, held.person))
    print(f"{name}, known people: {_shown(found)}, {seconds:.0f} s")
    plain, _ = fitted(rankings.x, first, False)
    asked = votes(new, max(MET), max(MET) + ASKED)
    print(f"one utility for all, of new people: {_shown(scored(chances(plain, asked, None)))}")
    for number in MET:
        began = time.perf_counter()
        if number or of_people is not None:
            logs = []
            for place, some in enumerate(new):
                duels = spg.Duels(rankings.x, *some[:number].T) if number else None
                own = None if of_people is None else of_people[1500 + place]
                about = Votes(np.zeros(ASKED), some[max(MET) : max(MET) + ASKED])
                logs.append(chances(model.meet(duels, own), about, None))
            found = scored(np.concatenate(logs))
        else:
            found = scored(chances(model, asked, None))
        print(f"{number} pairs of each: {_shown(found)}, {time.perf_counter() - began:.0f} s")


def _shown(found: dict[str, float]) -> str:
    return ", ".join(f"{key} {value:.4f}" for key, value in found.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", nargs="+", default=["a-small", "a", "b", "new"])
    parser.add_argument("--draws", type=int, default=25)
    parser.add_argument("--models", nargs="+", default=[TASTES, ALIKE], choices=MODELS)
    given = parser.parse_args()
    sushi = spg.datasets.sushi(given.folder)
    a, b = (Rankings.of(sushi, which) for which in "ab")
    for name, train in (("a-small", 5), ("a", 20)):
        if name in given.parts:
            draws = []
            for d in range(given.draws):
                chosen = np.random.default_rng(100 + d).choice(len(a.orders), 100, replace=False)
                draws.append(
                    known_people(a, chosen, np.random.default_rng(d), train, 25, given.models)
                )
            averaged(name, draws)
    if "b" in given.parts:
        every = np.arange(len(b.orders))
        averaged("b", [known_people(b, every, np.random.default_rng(0), 10, 1, given.models)])
    if "new" in given.parts:
        for name in given.models:
            if name != ALIKE:
                new_people(b, name)


if __name__ == "__main__":
    main()
