"""From the corpus UKPConvArg1 to arguments, votes, ties and gold duels.

The public repository has one XML file per debate side with every vote on every pair of arguments,
and one table per side with the pairs that its authors kept as gold (UKPConvArg1-Strict).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.texts import WordDirections, common_words, surface, words_of

VOTES, GOLD = "UKPConvArg1-full-XML", "UKPConvArg1Strict-CSV"
FIRST, SECOND, EQUAL = "a1", "a2", "equal"
# Control characters of a text, which XStream may write although XML 1.0 has none of them.
_CONTROL = re.compile(
    rb"&#(?:x(?:[0-8bcef]|1[0-9a-f])|[0-8]|1[124-9]|2[0-9]|3[01]);", re.IGNORECASE
)


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """The tidy tables from the archive of the repository.

    Debates are numbered in the order of their names, arguments within a debate by the number in
    their id, pairs and workers as they come.
    """
    pd = require_pandas()
    (path,) = files.values()
    with zipfile.ZipFile(path) as archive:
        paths = [PurePosixPath(name) for name in archive.namelist()]
        votes, gold = (
            {
                file.stem: archive.read(str(file))
                for file in sorted(paths)
                if file.parts[-2:-1] == (folder,) and file.suffix == ending
            }
            for folder, ending in ((VOTES, ".xml"), (GOLD, ".csv"))
        )
    texts: dict[str, tuple[int, str]] = {}
    said, pairs = [], 0
    for debate, content in enumerate(votes.values()):
        found = ElementTree.fromstring(_CONTROL.sub(b" ", content)).iter("annotatedArgumentPair")
        for pair in found:
            sides = [pair.findtext(f"{side}/id") or "" for side in ("arg1", "arg2")]
            for side, argument in zip(("arg1", "arg2"), sides, strict=True):
                texts.setdefault(argument, (debate, pair.findtext(f"{side}/text") or ""))
            for vote in pair.iter("mTurkAssignment"):
                said.append(
                    (*sides, vote.findtext("turkID") or "", pairs, debate, vote.findtext("value"))
                )
            pairs += 1
    order = sorted(texts, key=lambda argument: (texts[argument][0], _number(argument), argument))
    row = {argument: i for i, argument in enumerate(order)}
    every = pd.DataFrame(
        said, columns=["item_a", "item_b", "annotator", "pair_id", "debate", "value"]
    )
    every["annotator"] = pd.factorize(every["annotator"])[0]
    for side in ("item_a", "item_b"):
        every[side] = every[side].map(row)
    tied, second = every["value"] == EQUAL, every["value"] == SECOND
    duels = every.rename(columns={"item_a": "winner", "item_b": "loser"})
    duels.loc[second, ["winner", "loser"]] = every.loc[second, ["item_b", "item_a"]].to_numpy()
    kept = []
    for content in gold.values():
        for line in content.decode("utf-8").split("\n"):
            if line.strip() and not line.startswith("#"):
                ids, label, *_ = line.split("\t")
                ends = ids.split("_")[:: 1 if label == FIRST else -1]
                kept.append((*(row[end] for end in ends), texts[ends[0]][0]))
    written = [texts[argument][1] for argument in order]
    items = pd.DataFrame(
        {"item_id": range(len(order)), "source_id": order, "debate": [texts[a][0] for a in order]}
    )
    return {
        "items.csv.gz": pd.concat([items, text_features(written)], axis=1),
        "duels.csv.gz": duels[~tied].drop(columns="value").reset_index(drop=True),
        "ties.csv.gz": every[tied].drop(columns=["debate", "value"]).reset_index(drop=True),
        "gold_duels.csv.gz": pd.DataFrame(kept, columns=["winner", "loser", "debate"]),
        "debates.csv": pd.DataFrame({"debate": range(len(votes)), "name": list(votes)}),
        "texts.csv.gz": pd.DataFrame({"item_id": range(len(order)), "text": written}),
    }


def with_texts(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables, in which each argument has its text."""
    text = tables["texts"].set_index("item_id")["text"]
    items = tables["items"]
    kept = {name: tables[name] for name in ("duels", "ties", "gold_duels")}
    return {"items": items.assign(text=items["item_id"].map(text)), **kept}


def text_features(texts: Sequence[str]) -> Any:
    """A data frame with one row per text: surface statistics, then `lsa_01`, `lsa_02`, …

    The directions are the left singular vectors, times singular values, of the centred tf-idf
    matrix of words in at least three and at most half of the texts; there are fewer than 32 where
    texts or words are fewer.
    """
    pd = require_pandas()
    words = [words_of(text) for text in texts]
    common = common_words(words)
    rows = [surface(text, own, common) for text, own in zip(texts, words, strict=True)]
    scores = WordDirections.fit(words).scores(words).round(5)
    columns = [f"lsa_{i + 1:02d}" for i in range(scores.shape[1])]
    return pd.concat([pd.DataFrame(rows).round(5), pd.DataFrame(scores, columns=columns)], axis=1)


def _number(argument: str) -> int:
    return int(re.sub(r"\D", "", argument) or 0)
