"""From answers of language models, and votes of a crowd and of two models on pairs of them, to
items and duels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.columns import require_columns

CROWD = "crowd"
_VOTES = {  # by the kind of judge, in the order of the tidy form
    CROWD: "crowd-comparisons.csv",
    "gpt3": "gpt3-crowd-comparisons.csv",
    "gpt4": "gpt4-crowd-comparisons.csv",
}
_MODELS = {"id": "source_id", "name": "name", "org": "org", "api_id": "api_id"}
_PROMPTS = {"id": "source_id", "slug": "slug", "type": "type", "text": "text"}
_SIDES = ("left", "tie", "right")


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """Answers, votes, models and prompts; models and prompts are those that were voted on.

    A tied vote has `tie` 1, and then the answer shown first stands as the winner.

    :raises ValueError: a missing column, or a vote that is neither left, right nor tie.
    """
    pd = require_pandas()
    votes = pd.concat([_votes(files[name], kind) for kind, name in _VOTES.items()])
    models = _numbered(files["models.jsonl"], _MODELS, {*votes["model_x"], *votes["model_y"]})
    prompts = _numbered(files["prompts.jsonl"], _PROMPTS, set(votes["prompt"]))
    items = _answers(files["results.jsonl"], models, prompts)
    votes["judge"] = _judges(votes)
    of_model, of_prompt = _number_by_source(models), _number_by_source(prompts)
    prompt = votes["prompt"].map(of_prompt)
    item = {
        (model, asked): i
        for i, model, asked in items[["item_id", "model", "prompt"]].itertuples(index=False)
    }
    left, right = (
        np.array(
            [item[pair] for pair in zip(votes[side].map(of_model), prompt, strict=True)], dtype=int
        )
        for side in ("model_x", "model_y")
    )
    first = (votes["winner"] != "right").to_numpy()
    duels = pd.DataFrame(
        {
            "winner": np.where(first, left, right),
            "loser": np.where(first, right, left),
            "tie": (votes["winner"] == "tie").astype(int).to_numpy(),
            "winner_first": first.astype(int),
            "judge": votes["judge"].to_numpy(),
            "judge_kind": votes["kind"].to_numpy(),
            "prompt": prompt.to_numpy(),
            "pair_id": votes["id"].to_numpy(),
        }
    )
    return {
        "items.csv.gz": items,
        "duels.csv.gz": duels,
        "models.csv": models.rename(columns={"number": "model_id"}),
        "prompts.csv": prompts.rename(columns={"number": "prompt_id"}),
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


def _votes(path: Path, kind: str) -> Any:
    raw = require_pandas().read_csv(path, keep_default_na=False)
    wanted = ["id", "prompt", "model_x", "model_y", "winner"] + ["worker"] * (kind == CROWD)
    require_columns(raw, wanted, path)
    wrong = ~raw["winner"].isin(_SIDES)
    if wrong.any():
        raise ValueError(
            f"{path.name} has the vote {raw['winner'][wrong].iloc[0]!r}; a vote is left, right or "
            "tie."
        )
    return raw[wanted].assign(kind=kind)


def _judges(votes: Any) -> Any:
    """Workers by their own numbers, then a number for each other kind of judge."""
    people = votes["kind"] == CROWD
    workers = votes["worker"].where(people, -1).astype(int)
    others = {kind: i for i, kind in enumerate(list(_VOTES)[1:], start=int(workers.max()) + 1)}
    return workers.where(people, votes["kind"].map(others)).astype(int)


def _numbered(path: Path, columns: Mapping[str, str], used: set[Any]) -> Any:
    """Those of a file that votes use, numbered in its order."""
    raw = require_pandas().read_json(path, lines=True)
    require_columns(raw, columns, path)
    kept = raw[raw["id"].isin(used)]
    table = kept[list(columns)].set_axis(list(columns.values()), axis=1).reset_index(drop=True)
    table.insert(0, "number", np.arange(len(table)))
    return table


def _number_by_source(table: Any) -> Any:
    return table.set_index("source_id")["number"]


def _answers(path: Path, models: Any, prompts: Any) -> Any:
    """The answers of these models to these prompts, in the order of the file."""
    pd = require_pandas()
    raw = pd.read_json(path, lines=True, dtype=False, convert_dates=False)
    require_columns(raw, ["model", "prompt", "result"], path)
    model = raw["model"].map(_number_by_source(models))
    prompt = raw["prompt"].map(_number_by_source(prompts))
    kept = model.notna() & prompt.notna()
    texts = raw["result"][kept].to_list()
    return pd.DataFrame(
        {
            "item_id": range(len(texts)),
            "model": model[kept].astype(int).to_numpy(),
            "prompt": prompt[kept].astype(int).to_numpy(),
            "length_chars": [len(text) for text in texts],
            "text": texts,
        }
    )
