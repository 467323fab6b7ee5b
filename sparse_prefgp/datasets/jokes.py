"""From votes on which of two short texts is funnier to texts and duels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparse_prefgp.data.features import require_pandas

_LISTS = {
    "homographic_pun": "jokes_homographic_puns.txt",
    "heterographic_pun": "jokes_heterographic_puns.txt",
    "not_a_joke": "nonjokes.txt",
    "joke_without_pun": "jokes_nonpuns.txt",
}


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """Texts in the order of their ids, and the votes in the order of the file, winner first.

    A text's category is the list that has it, whatever letter case, spaces and punctuation are.
    """
    pd = require_pandas()
    category = {_plain(text): name for name, file in _LISTS.items() for text in _lines(files[file])}
    rows = []
    for line in _lines(files["item_scores.txt"]):
        identity, score, text = line.split("\t")[:3]
        rows.append((int(identity), category[_plain(text)], float(score), text))
    items = pd.DataFrame(sorted(rows), columns=["item_id", "category", "bws_score", "text"])
    duels = pd.read_csv(files["pairs.csv"], header=None, names=["winner", "loser"])
    return {"items.csv.gz": items, "duels.csv.gz": duels}


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def _plain(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())
