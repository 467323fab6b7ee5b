"""The crowd's votes as tables for the command line: models in the context of a prompt.

    python experiments/llm_votes/table.py DATA FOLDER

writes `models.csv` and `votes.csv` (winner, loser, tie, prompt, judge, task; `first` is 1 where the
winner was shown first, else -1; `length` and `blank` are the winner's log length and blankness less
the loser's).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from rivals import answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    source = given.data / "llm_votes"
    models = pd.read_csv(source / "models.csv").set_index("model_id")["name"]
    slugs = pd.read_csv(source / "prompts.csv").set_index("prompt_id")["slug"]
    items = answers(given.data)
    votes = pd.read_csv(source / "duels.csv.gz", keep_default_na=False)
    votes = votes[votes["judge_kind"] == "crowd"]
    sides = [items.loc[votes[side]] for side in ("winner", "loser")]
    blank = [(side["text"].str.strip() == "").to_numpy().astype(int) for side in sides]
    length = [
        np.where(b, 0.0, np.log(side["length_chars"].clip(lower=1)))
        for side, b in zip(sides, blank, strict=True)
    ]
    given.folder.mkdir(parents=True, exist_ok=True)
    models.rename_axis("item_id").reset_index()[["name"]].rename(
        columns={"name": "item_id"}
    ).to_csv(given.folder / "models.csv", index=False)
    pd.DataFrame(
        {
            "winner": models.loc[sides[0]["model"]].to_numpy(),
            "loser": models.loc[sides[1]["model"]].to_numpy(),
            "tie": votes["tie"].to_numpy(),
            "prompt": slugs.loc[sides[0]["prompt"]].to_numpy(),
            "judge": votes["judge"].to_numpy(),
            "task": votes["pair_id"].to_numpy(),
            "first": np.where(votes["winner_first"] == 1, 1, -1),
            "length": length[0] - length[1],
            "blank": blank[0] - blank[1],
        }
    ).to_csv(given.folder / "votes.csv", index=False)


if __name__ == "__main__":
    main()
