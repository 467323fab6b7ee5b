"""Football by kickscore 0.2.0, with the constants of its authors' examples or those learned here.

Decided matches in the order of their dates, the last 16.5 % held out; the state at the end of the
training part forecasts all of them ("frozen"). Home is one more item on the side that is at home.

    pip install kickscore==0.2.0 pandas     # into an environment of its own
    python experiments/time/kickscore_rival.py $SPARSE_PREFGP_DATA [--wiener 1.53 0.0166]

Maystre, Kristof & Grossglauser (2019), Pairwise comparisons with flexible time-dynamics (KDD).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import kickscore as ks
import numpy as np
import pandas as pd

HELD_OUT = 0.165
HOME = "home"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument(
        "--wiener",
        nargs=2,
        type=float,
        metavar=("VARIANCE", "RATE"),
        help="variance at the first date and growth a year, in place of constant + Matern 1/2",
    )
    parser.add_argument("--sweeps", type=int, default=100, help="at most")
    given = parser.parse_args()
    matches = pd.read_csv(given.data / "football_internationals" / "matches.csv.gz")
    matches = matches[matches.home_score != matches.away_score].sort_values("date", kind="stable")
    years = pd.to_datetime(matches.date)
    matches["year"] = (years - pd.Timestamp("1970-01-01")).dt.days / 365.25
    if given.wiener:
        variance, rate = given.wiener
    model = ks.BinaryModel(obs_type="probit")
    first = matches.melt("year", ["home", "away"], value_name="team").groupby("team").year.min()
    for team, begin in first.items():
        if given.wiener:
            kernel = ks.kernel.Wiener(rate, t0=begin, var_t0=variance)
        else:
            kernel = ks.kernel.Constant(1.0) + ks.kernel.Exponential(1.0, 30.0)
        model.add_item(str(team), kernel=kernel)
    model.add_item(HOME, kernel=ks.kernel.Constant(1.0))

    def sides(match) -> tuple[list[str], list[str]]:
        at_home = [] if match.neutral else [HOME]
        home, away = [str(match.home), *at_home], [str(match.away)]
        return (home, away) if match.home_score > match.away_score else (away, home)

    cut = int(len(matches) * (1.0 - HELD_OUT))
    begun = time.perf_counter()
    for match in matches[:cut].itertuples():
        winners, losers = sides(match)
        model.observe(winners=winners, losers=losers, t=match.year)
    converged = model.fit(max_iter=given.sweeps)
    seconds = time.perf_counter() - begun
    won = []
    for match in matches[cut:].itertuples():
        winners, losers = sides(match)
        won.append(model.probabilities(winners, losers, t=match.year)[0])
    p = np.array(won)
    print(
        f"kickscore {'Wiener' if given.wiener else 'constant + Matern12(1, 30 years)'}: "
        f"{-np.log(p).mean():.4f} nats, {(p > 0.5).mean():.4f} right, {len(p):,} matches; evidence "
        f"{model.log_likelihood:.0f}, {seconds:.0f} s, "
        f"{'converged' if converged else f'not converged in {given.sweeps} sweeps'}"
    )


if __name__ == "__main__":
    main()
