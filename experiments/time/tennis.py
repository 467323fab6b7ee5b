"""Tennis: a form of each player that moves in time next to features, forecast week by week.

Matches before 12 July 2021 are for training. Features are those of the player in that week: ten
linear ones, among them the square of the age, and 30 random waves of these, which stand for the
squared-exponential kernel that features alone learn on the tour (Rahimi & Recht, NIPS 2007). The
form is a Matern 1/2 process by player, learned on quarters. `--all` takes the values that the tour
since 2010 taught to all matches since 1991, and makes three sweeps. Next to both: the features
alone, with that kernel, and an Elo of players.

    python experiments/time/tennis.py $SPARSE_PREFGP_DATA          # 10 minutes
    python experiments/time/tennis.py $SPARSE_PREFGP_DATA --all    # 10 minutes more
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.elo import Elo
from sparse_prefgp.data.answers import Answers

CUT, TOUR, SINCE = "2021-07-12", "ADFGMO", "2010-01-01"
FEATURES = [
    "log_rank",
    "log_points",
    "age",
    "height_cm",
    "left_handed",
    "matches_52w",
    "win_rate_52w",
    "surface_matches_104w",
    "surface_win_rate_104w",
]
WAVES = 30


class Tennis:
    """Matches between rows, which are players in a week, in the order of their dates."""

    def __init__(self, data: Path, tour: bool) -> None:
        items = pd.read_csv(data / "tennis_atp" / "items.csv.gz")
        played = pd.read_csv(data / "tennis_atp" / "duels.csv.gz")
        if tour:
            played = played[played.level.isin(list(TOUR)) & (played.date >= SINCE)]
        played = played.sort_values("date", kind="stable")
        rows, place = np.unique(played[["winner", "loser"]].to_numpy(), return_inverse=True)
        self.winner, self.loser = place.reshape(-1, 2).T
        self.date = played.date.to_numpy("datetime64[D]")
        self.train = (played.date < CUT).to_numpy()
        self.tour = (played.level.isin(list(TOUR)) & (played.date >= SINCE)).to_numpy()
        x = items[FEATURES].to_numpy(float)[rows]
        x = np.column_stack([x, (x[:, FEATURES.index("age")] - 26.0) ** 2])
        seen = np.unique(place.reshape(-1, 2)[self.train])
        self.x = (x - x[seen].mean(0)) / x[seen].std(0)
        self.player = np.unique(items.player_id.to_numpy()[rows], return_inverse=True)[1]

    def duels(self, some: np.ndarray, lengthscales: np.ndarray) -> spg.Duels:
        """Some of the matches, with waves besides the features.

        :param lengthscales: (10,) of the kernel that the waves stand for.
        """
        sides = self.winner[some], self.loser[some]
        draws = np.random.default_rng(0).normal(size=(len(lengthscales), WAVES))
        phase = (self.x / lengthscales) @ draws
        x = np.column_stack([self.x, np.cos(phase), np.sin(phase)])
        return spg.Duels(x, *sides, times=self.date[some], item=self.player)

    def matches(self, some: np.ndarray) -> Answers:
        """The same for Elo, which knows players alone."""
        sides = self.player[self.winner[some]], self.player[self.loser[some]]
        return Answers.between(*sides, time=self.date[some].astype(float))

    def rivals(self, **scored: np.ndarray) -> np.ndarray:
        """Elo by week and features alone on the matches from the cut on.

        :param scored: by name (k,) which of the held-out matches count.
        :return: (10,) lengthscales that the features alone learned.
        """
        held = ~self.train
        elo = Elo.learned(self.matches(self.train), int(self.player.max()) + 1)
        ahead = elo.ahead(self.matches(held))[:, 0]
        sides = self.winner[self.train], self.loser[self.train]
        rng = np.random.default_rng(0)
        curved = gpflow.kernels.SquaredExponential(0.1, np.full(self.x.shape[1], 3.0))
        model = spg.PreferenceGP(
            spg.Duels(self.x, *sides),
            gpflow.kernels.Linear(np.full(self.x.shape[1], 0.01)) + curved,
            inducing_variable=spg.kmeans_inputs(self.x, 128, rng),
        )
        spg.optimise(model, max_iterations=40)
        alone = model.predict_duel(self.x[self.winner[held]], self.x[self.loser[held]]).numpy()
        for name, some in scored.items():
            print(f"{name}: Elo of players, K {elo.rate:.3f}, by week: {shown(ahead[some])}")
            print(f"{name}: features alone: {shown(alone[some])}", flush=True)
        return curved.lengthscales.numpy()


def of_features() -> gpflow.kernels.Kernel:
    """Linear in the features, each with a variance of its own, and in the waves, all with one."""
    first = len(FEATURES) + 1
    waves = gpflow.kernels.Linear(0.1 / WAVES, active_dims=range(first, first + 2 * WAVES))
    return gpflow.kernels.Linear(np.full(first, 0.01), active_dims=range(first)) + waves


def kernel(form: spg.markov.Matern12 | None = None) -> gpflow.kernels.Kernel:
    moved = spg.ItemInTime(form or spg.markov.Matern12(0.15, 2.0), slices="quarter")
    return of_features() + moved


def shown(p: np.ndarray) -> str:
    return f"{-np.log(p).mean():.4f} nats, {(p > 0.5).mean():.4f} right, {len(p):,} matches"


def told(name: str, begun: tuple[float, float]) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"{name}: {seconds[0]:.0f} s ({seconds[1]:.0f} s of processor time), peak {peak:.1f} GiB")


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--all", action="store_true", help="all matches since 1991 too")
    given = parser.parse_args()
    tour = Tennis(given.data, tour=True)
    lengthscales = tour.rivals(tour=np.ones(np.sum(~tour.train), bool))
    begun = clocks()
    model = spg.PreferenceGP(tour.duels(tour.train, lengthscales), kernel())
    report = spg.optimise(model, max_iterations=25)
    told(f"learned in {report.iterations} iterations, {report.sweeps} sweeps", begun)
    form = model.kernel.kernels[-1].kernel
    print(f"  variance {form.variance.numpy():.3f}, {form.lengthscale.numpy():.2f} years")
    begun = clocks()
    ahead = spg.score_ahead(model, tour.duels(~tour.train, lengthscales), slices="week")
    told("the pass by week", begun)
    print(f"tour, by week: {shown(np.exp(ahead.filtering.log_probabilities))}", flush=True)
    if not given.all:
        return
    every = Tennis(given.data, tour=False)
    held = every.tour[~every.train]
    every.rivals(all=np.ones(len(held), bool), tour=held)
    begun = clocks()
    whole = spg.PreferenceGP(
        every.duels(every.train, lengthscales),
        model.kernel,
        engine=spg.ParallelEP(max_sweeps=3, tolerance=1e-3),
    )
    print(whole.infer())
    told("three sweeps", begun)
    begun = clocks()
    later = spg.score_ahead(whole, every.duels(~every.train, lengthscales), slices="week")
    told("the pass by week", begun)
    p = np.exp(later.filtering.log_probabilities)
    print(f"all, by week: {shown(p)}; of these, tour: {shown(p[held])}")


if __name__ == "__main__":
    main()
