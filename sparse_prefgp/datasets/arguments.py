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
from sparse_prefgp.datasets.frames import as_known, duels_frame, numbered
from sparse_prefgp.datasets.registry import DataSet

VOTES, GOLD = "UKPConvArg1-full-XML", "UKPConvArg1Strict-CSV"
PAIR = "annotatedArgumentPair"
FIRST, SECOND, EQUAL = "a1", "a2", "equal"
# Control characters of a text, which XStream may write although XML 1.0 has none of them.
_CONTROL = re.compile(
    rb"&#(?:x(?:[0-8bcef]|1[0-9a-f])|[0-8]|1[124-9]|2[0-9]|3[01]);", re.IGNORECASE
)


def tidy(known: DataSet, files: Mapping[str, Path]) -> dict[str, Any]:
    """The tidy tables from the archive of the repository.

    Debates are numbered in the order of their names, arguments within a debate by the number in
    their id, pairs and workers as they come.
    """
    pd = require_pandas()
    (path,) = files.values()
    with zipfile.ZipFile(path) as archive:
        paths = sorted(PurePosixPath(name) for name in archive.namelist())
        votes, gold = (
            {file.stem: archive.read(str(file)) for file in paths if file.match(pattern)}
            for pattern in (f"*/{VOTES}/*.xml", f"*/{GOLD}/*.csv")
        )
    pairs = [
        (debate, pair)
        for debate, content in enumerate(votes.values())
        for pair in ElementTree.fromstring(_CONTROL.sub(b" ", content)).iter(PAIR)
    ]
    texts: dict[Any, tuple[int, Any]] = {}
    rows = []
    for pair_id, (debate, pair) in enumerate(pairs):
        sides = [pair.findtext(f"{side}/id") for side in ("arg1", "arg2")]
        for side, argument in zip(("arg1", "arg2"), sides, strict=True):
            texts.setdefault(argument, (debate, pair.findtext(f"{side}/text")))
        for vote in pair.iter("mTurkAssignment"):
            worker = vote.findtext("turkID", "")
            rows.append((*sides, worker, pair_id, debate, vote.findtext("value")))
    order = sorted(texts, key=lambda one: (texts[one][0], int(re.sub(r"\D", "", one) or 0), one))
    row = {argument: i for i, argument in enumerate(order)}
    columns = ["item_a", "item_b", "annotator", "pair_id", "debate", "value"]
    every = as_known(known, pd.DataFrame(rows, columns=columns))
    every = every.assign(
        item_a=every["item_a"].map(row),
        item_b=every["item_b"].map(row),
        annotator=pd.factorize(every["annotator"])[0],
    )
    tied = every["value"] == EQUAL
    decided = every[~tied]
    context = decided[["annotator", "pair_id", "debate"]]
    first, second = decided["item_a"], decided["item_b"]
    settled = pd.DataFrame(
        [
            (*line.split("\t")[0].split("_"), line.split("\t")[1])
            for content in gold.values()
            for line in content.decode("utf-8").split("\n")
            if line.strip() and not line.startswith("#")
        ],
        columns=["first", "second", "label"],
    )
    debates = pd.Series({argument: debate for argument, (debate, _) in texts.items()}, dtype=int)
    items = pd.DataFrame({"source_id": order, "debate": debates[order].to_numpy()})
    written = [texts[argument][1] for argument in order]
    return {
        "items.csv.gz": pd.concat([numbered(items), text_features(written)], axis=1),
        "duels.csv.gz": duels_frame(decided["value"] == FIRST, first, second, **context),
        "ties.csv.gz": every[tied].drop(columns=["debate", "value"]).reset_index(drop=True),
        "gold_duels.csv.gz": duels_frame(
            settled["label"].map([SECOND, FIRST].index),
            settled["first"].map(row),
            settled["second"].map(row),
            debate=settled["first"].map(debates),
        ),
        "debates.csv": numbered(pd.DataFrame({"name": list(votes)}), "debate"),
        "texts.csv.gz": numbered(pd.DataFrame({"text": written})),
    }


def with_texts(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables, in which each argument has its text."""
    text = tables["texts"].set_index("item_id")["text"]
    items = tables["items"]
    return {**tables, "items": items.assign(text=items["item_id"].map(text))}


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
    scores = pd.DataFrame(WordDirections.fit(words).scores(words))
    scores = scores.rename(columns=lambda i: f"lsa_{i + 1:02d}")
    return pd.concat([pd.DataFrame(rows), scores], axis=1).round(5)
