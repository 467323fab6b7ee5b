"""From votes on which of two short texts is funnier to texts and duels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparse_prefgp.data.features import require_pandas

PAIRS, SCORES = "pairs.csv", "item_scores.txt"
_LISTS = {
    "homographic_pun": "jokes_homographic_puns.txt",
    "heterographic_pun": "jokes_heterographic_puns.txt",
    "not_a_joke": "nonjokes.txt",
    "joke_without_pun": "jokes_nonpuns.txt",
}


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """Texts in the order of their ids, and the votes in the order of the file, winner first.

    A text's category is the list that has it, whatever letter case, spaces and punctuation are.

    :raises ValueError: a line of the scores that is none, a text in no list or in two, or a vote
        on a text without a score.
    """
    pd = require_pandas()
    category = _categories(files)
    rows = []
    for number, line in enumerate(_lines(files[SCORES]), start=1):
        identity, score, *rest = [*line.split("\t"), ""]
        if not identity.isdigit() or not rest[0]:
            raise ValueError(
                f"Line {number} of {SCORES} is {line[:60]!r}; expected are an id, a score and a "
                "text."
            )
        text = rest[0]
        if len(found := category.get(_plain(text), set())) != 1:
            raise ValueError(
                f"The text {text[:60]!r} is in {len(found)} of the lists; it must be in one."
            )
        rows.append((int(identity), *found, float(score), text))
    items = pd.DataFrame(sorted(rows), columns=["item_id", "category", "bws_score", "text"])
    duels = pd.read_csv(files[PAIRS], header=None, names=["winner", "loser"])
    unknown = ~duels.isin(set(items["item_id"])).all(axis=1)
    if unknown.any():
        row = int(unknown.to_numpy().argmax())
        raise ValueError(
            f"Row {row + 1} of {PAIRS} has a text without a score; leave it out, or give the "
            "public file."
        )
    return {"items.csv.gz": items, "duels.csv.gz": duels}


def _categories(files: Mapping[str, Path]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for category, name in _LISTS.items():
        for text in _lines(files[name]):
            found.setdefault(_plain(text), set()).add(category)
    return found


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def _plain(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())
