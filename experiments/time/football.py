"""International football: strengths that move in time, frozen and learning day by day, and an Elo.

Matches in the order of their dates; the last 16.5 % are held out. Home is a column, 0 on neutral
ground. Hyperparameters are learned on slices of a year, of the training matches.

    python experiments/time/football.py $SPARSE_PREFGP_DATA
    python experiments/time/football.py $SPARSE_PREFGP_DATA --kernels matern12 constant+matern12
    python experiments/time/football.py $SPARSE_PREFGP_DATA --draws

Without `--draws` matches that nobody won are left out. With it they are, and goal differences are
grades, scored by win, draw and loss next to an Elo with Davidson's draws.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.elo import Elo
from sparse_prefgp.data.answers import TIE, WIN, Answers

HELD_OUT = 0.165
TENTHS = np.linspace(0.5, 1.0, 6)
KERNELS = {
    "wiener": lambda: spg.markov.Wiener(),
    "matern12": lambda: spg.markov.Matern12(),
    "constant+matern12": lambda: spg.markov.Constant() + spg.markov.Matern12(),
    "matern32": lambda: spg.markov.Matern32(),
}


class Football:
    """The matches as duels, winner first; of a draw the home side."""

    def __init__(self, data: Path, draws: bool) -> None:
        folder = data / "football_internationals"
        self.teams = pd.read_csv(folder / "teams.csv").set_index("item_id").team
        frame = pd.read_csv(folder / "matches.csv.gz").sort_values("date", kind="stable")
        goals = (frame.home_score - frame.away_score).to_numpy()
        if not draws:
            frame, goals = frame[goals != 0], goals[goals != 0]
        turned = (goals < 0)[:, None]
        both = frame[["home", "away"]].to_numpy()
        self.first, self.second = np.where(turned, both[:, ::-1], both).T
        at_home = 1.0 - frame.neutral.to_numpy(float)
        self.home = np.where(turned[:, 0], -at_home, at_home)[:, None]
        self.day = frame.date.to_numpy("datetime64[D]").astype(float)
        self.difference = np.abs(goals)
        self.train = np.arange(len(goals)) < int(len(goals) * (1.0 - HELD_OUT))

    def duels(self, some: np.ndarray, levels: int = 0) -> spg.Duels:
        """Some of the matches; with levels the goal difference, at most so many, is the grade."""
        more = {"grades": np.minimum(self.difference[some], levels)} if levels else {}
        return spg.Duels(
            np.empty((len(self.teams), 0)),
            self.first[some],
            self.second[some],
            times=self.day[some],
            covariates=self.home[some],
            covariate_names=["home"],
            **more,
        )

    def matches(self, some: np.ndarray) -> Answers:
        """The same for Elo."""
        return Answers.between(
            self.first[some],
            self.second[some],
            kind=np.where(self.difference[some] == 0, TIE, WIN).astype(np.int8),
            time=self.day[some],
            covariates=self.home[some],
            covariate_names=["home"],
        )


def learned(
    duels: spg.Duels, kernel: Any, priors: bool, likelihood: spg.Probit | None = None
) -> tuple[spg.PreferenceGP, str]:
    """The model at the largest evidence on slices of a year, and what it took."""
    begun, processor = time.perf_counter(), time.process_time()
    term = spg.ItemInTime(kernel, slices="year")
    model = spg.PreferenceGP(duels, term, approximation=spg.Exact(), likelihood=likelihood)
    if priors:
        spg.default_priors(model)
    report = spg.optimise(model)
    took = (
        f"{report.iterations} iterations, {report.evaluations} evaluations, "
        f"{report.sweeps} sweeps, {time.perf_counter() - begun:.0f} s "
        f"({time.process_time() - processor:.0f} s of processor time); "
        f"evidence {report.log_evidence:.1f}"
    )
    return model, took


def values_of(model: spg.PreferenceGP) -> str:
    """The hyperparameters."""
    values = [np.asarray(value.numpy()).round(4).tolist() for value in model.trainable_parameters]
    return "values " + ", ".join(map(str, values))


def tenths(probabilities: np.ndarray) -> str:
    """What was said of the likelier winner, in tenths, and how often it won."""
    said = np.maximum(probabilities, 1.0 - probabilities)
    came = probabilities > 0.5
    place = np.clip(np.digitize(said, TENTHS) - 1, 0, 4)
    return ", ".join(
        f"{said[place == k].mean():.3f} {came[place == k].mean():.3f}" for k in range(5)
    )


def decided(football: Football, kernels: list[str], priors: bool) -> None:
    """Winners of matches that somebody won."""
    train, test = football.train, ~football.train
    elo = Elo.learned(football.matches(train), len(football.teams))
    for name, p in (
        ("frozen", elo.frozen(football.matches(test))[:, 0]),
        ("by day", elo.ahead(football.matches(test))[:, 0]),
    ):
        print(f"Elo, K {elo.rate:.3f}, {name}: {shown(p)}", flush=True)
    for kernel in kernels:
        model, took = learned(football.duels(train), KERNELS[kernel](), priors)
        print(f"{kernel}: {took}; {values_of(model)}", flush=True)
        held = football.duels(test)
        frozen = model.predict_duel(
            model.inputs.of_items(football.first[test]),
            model.inputs.of_items(football.second[test]),
            covariates=football.home[test],
            at=football.day[test],
        ).numpy()
        print(f"  frozen: {shown(frozen)}")
        for slices in ("month", "day"):
            begun = time.perf_counter()
            ahead = spg.score_ahead(model, held, slices=slices)
            seconds = time.perf_counter() - begun
            print(f"  by {slices}: {ahead.nats:.4f} nats, {ahead.accuracy:.4f}, {seconds:.1f} s")
        print(f"  said and came, by day: {tenths(np.exp(ahead.filtering.log_probabilities))}")


def with_draws(football: Football, priors: bool, levels: tuple[int, ...] = (1, 2)) -> None:
    """Win, draw and loss."""
    train, test = football.train, ~football.train
    elo = Elo.learned(football.matches(train), len(football.teams))
    drawn = football.difference[test] == 0
    for name, p in (
        ("frozen", elo.frozen(football.matches(test))),
        ("by day", elo.ahead(football.matches(test))),
    ):
        nats = -np.log(p[np.arange(len(p)), drawn.astype(int)]).mean()
        print(f"Elo with Davidson's draws, {name}: {nats:.4f} nats of win, draw and loss")
    for largest in levels:
        model, took = learned(
            football.duels(train, largest), KERNELS["wiener"](), priors, spg.Probit(margin=0.3)
        )
        print(f"wiener, grades to ±{largest}: {took}; {values_of(model)}", flush=True)
        held = football.duels(test, largest)
        sides = football.first[test], football.second[test]
        given = {"covariates": football.home[test], "at": football.day[test]}
        outcome = model.predict_outcome(*map(model.inputs.of_items, sides), **given)
        frozen = spg.score(np.log(outcome), drawn.astype(int), of="outcomes")
        print(f"  frozen: {frozen}")
        ahead = spg.score_ahead(model, held, slices="day")
        print(f"  by day: {ahead.outcomes}", flush=True)


def shown(p: np.ndarray) -> str:
    return f"{-np.log(p).mean():.4f} nats, {(p > 0.5).mean():.4f} right, {len(p):,} matches"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--kernels", nargs="+", default=["wiener"], choices=list(KERNELS))
    parser.add_argument("--draws", action="store_true")
    parser.add_argument("--priors", default="weak", choices=["weak", "none"])
    given = parser.parse_args()
    football = Football(given.data, given.draws)
    if given.draws:
        with_draws(football, given.priors == "weak")
    else:
        decided(football, given.kernels, given.priors == "weak")


if __name__ == "__main__":
    main()
