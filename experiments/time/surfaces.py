"""Tennis players in time, with effects of each on each surface, beside the same without.

    python experiments/time/surfaces.py $SPARSE_PREFGP_DATA

Matches of the tour since 2010 between players without features; the last fifth is held out.
"""

import resource
import sys
import time

import pandas as pd

import sparse_prefgp as spg

SURFACES = ["hard", "clay", "grass", "carpet"]


def matches(data: str) -> pd.DataFrame:
    """Winner, loser, date and surface."""
    duels = pd.read_csv(f"{data}/tennis_atp/duels.csv.gz")
    duels = duels[(duels["date"] >= "2010-01-01") & duels["level"].isin(list("ADFGMO"))]
    duels = duels.sort_values("date", kind="stable")
    items = pd.read_csv(f"{data}/tennis_atp/items.csv.gz", index_col="item_id")
    of_winner, of_loser = (items.loc[duels[side]] for side in ("winner", "loser"))
    table = pd.DataFrame({"winner": "p" + of_winner["player_id"].astype(str).to_numpy()})
    table["loser"] = "p" + of_loser["player_id"].astype(str).to_numpy()
    table["date"] = duels["date"].to_numpy()
    table["surface"] = of_winner[SURFACES].idxmax(axis=1).to_numpy()
    return table


def main() -> None:
    table = matches(sys.argv[1])
    for kernel in sys.argv[2:] or ("item-in-time(wiener)", "item-in-time(wiener)+item*surface"):
        begun = time.process_time()
        fit = spg.fit(duels=table, time="date", context=["surface"], kernel=kernel)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{kernel}: {time.process_time() - begun:.0f} s of processor time, {used:.1f} GiB")
        print(f"  log evidence {fit.figures['fit']['log_evidence']:,.1f}")
        for name, scores in fit.figures["held_out"].items():
            print(f"  {name} {scores['nlp_nats']:.4f}, right {scores['accuracy']:.4f}")


if __name__ == "__main__":
    main()
