"""From answers of language models, and votes of a crowd and of two models on pairs of them, to
items and duels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas

CROWD = "crowd"
_VOTES = {  # by the kind of judge, in the order of the tidy form
    CROWD: "crowd-comparisons.csv",
    "gpt3": "gpt3-crowd-comparisons.csv",
    "gpt4": "gpt4-crowd-comparisons.csv",
}


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """Answers, votes, models and prompts; models and prompts are those that were voted on.

    A tied vote has `tie` 1, and then the answer shown first stands as the winner.
    """
    pd = require_pandas()
    read = [
        pd.read_csv(files[file], keep_default_na=False).assign(judge_kind=kind)
        for kind, file in _VOTES.items()
    ]
    votes = pd.concat(read, ignore_index=True)
    models = pd.read_json(files["models.jsonl"], lines=True)[["id", "name", "org", "api_id"]]
    models = _numbered(models, "model", {*votes["model_x"], *votes["model_y"]})
    prompts = pd.read_json(files["prompts.jsonl"], lines=True)[["id", "slug", "type", "text"]]
    prompts = _numbered(prompts, "prompt", set(votes["prompt"]))
    model, prompt = (
        table.set_index("source_id").iloc[:, 0].to_dict() for table in (models, prompts)
    )
    answers = pd.read_json(files["results.jsonl"], lines=True, dtype=False, convert_dates=False)
    answers = answers[answers["model"].isin(model) & answers["prompt"].isin(prompt)]
    items = pd.DataFrame(
        {
            "item_id": range(len(answers)),
            "model": answers["model"].map(model).to_numpy(),
            "prompt": answers["prompt"].map(prompt).to_numpy(),
            "length_chars": answers["result"].str.len().to_numpy(),
            "text": answers["result"].to_numpy(),
        }
    )
    item = {pair: i for i, pair in enumerate(zip(answers["model"], answers["prompt"], strict=True))}
    left, right = (
        np.array([item[pair] for pair in zip(votes[side], votes["prompt"], strict=True)])
        for side in ("model_x", "model_y")
    )
    # Workers have numbers of their own, after which the other kinds of judges come.
    people = votes["judge_kind"] == CROWD
    worker = votes["worker"].where(people, -1).astype(int)
    others = {kind: worker.max() + i for i, kind in enumerate(_VOTES)}
    first = (votes["winner"] != "right").to_numpy()
    duels = pd.DataFrame(
        {
            "winner": np.where(first, left, right),
            "loser": np.where(first, right, left),
            "tie": (votes["winner"] == "tie").astype(int),
            "winner_first": first.astype(int),
            "judge": worker.where(people, votes["judge_kind"].map(others)),
            "judge_kind": votes["judge_kind"],
            "prompt": votes["prompt"].map(prompt),
            "pair_id": votes["id"],
        }
    )
    return {
        "items.csv.gz": items,
        "duels.csv.gz": duels,
        "models.csv": models,
        "prompts.csv": prompts,
    }


def named(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Items and duels in which models, prompts and judges go by names.

    `winner_first` and `loser_first` say which answer was shown first.
    """
    model = tables["models"].set_index("model_id")["name"]
    prompt = tables["prompts"].set_index("prompt_id")["slug"]
    items, duels = tables["items"], tables["duels"]
    people = duels["judge_kind"] == CROWD
    judge = np.where(people, "worker " + duels["judge"].astype(str), duels["judge_kind"])
    named_duels = duels.assign(judge=judge, prompt=duels["prompt"].map(prompt))
    after = list(duels.columns).index("winner_first") + 1
    named_duels.insert(after, "loser_first", 1 - duels["winner_first"])
    return {
        "items": items.assign(model=items["model"].map(model), prompt=items["prompt"].map(prompt)),
        "duels": named_duels,
    }


def _numbered(table: Any, what: str, used: set[Any]) -> Any:
    """Those rows that votes use, numbered in the order of the file."""
    kept = table[table["id"].isin(used)].rename(columns={"id": "source_id"}).reset_index(drop=True)
    kept.insert(0, f"{what}_id", np.arange(len(kept)))
    return kept
