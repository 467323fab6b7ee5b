"""From the corpus UKPConvArg1 to arguments, votes, ties and gold duels.

The public repository has one XML file per debate side with every vote on every pair of arguments,
and one table per side with the pairs that its authors kept as gold (UKPConvArg1-Strict).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.texts import text_features

VOTES, GOLD = "UKPConvArg1-full-XML", "UKPConvArg1Strict-CSV"
FIRST, SECOND, EQUAL = "a1", "a2", "equal"
# Control characters of a text, which XStream may write although XML 1.0 has none of them.
_CONTROL = re.compile(
    rb"&#(?:x(?:[0-8bcef]|1[0-9a-f])|[0-8]|1[124-9]|2[0-9]|3[01]);", re.IGNORECASE
)


@dataclass(frozen=True)
class Vote:
    """What one worker said of one pair: `a1`, `a2` or `equal`."""

    debate: int
    pair: int
    first: str
    second: str
    worker: str
    value: str


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """The tidy tables from the archive of the repository.

    :raises ValueError: no archive, no file of votes in it, or a file that is not as expected.
    """
    (path,) = files.values()
    try:
        with zipfile.ZipFile(path) as archive:
            votes = _members(archive, VOTES, ".xml")
            gold = _members(archive, GOLD, ".csv")
    except zipfile.BadZipFile:
        raise ValueError(
            f"{path.name} is not an archive; delete it to download it again."
        ) from None
    if not votes:
        raise ValueError(f"{path.name} has no file in a folder {VOTES!r}.")
    return convert(votes, gold)


def convert(votes: Mapping[str, bytes], gold: Mapping[str, bytes]) -> dict[str, Any]:
    """The tidy tables from the contents of the files, by their names without endings.

    Debates are numbered in the order of their names, arguments within a debate by the number in
    their id, pairs and workers as they come.
    """
    pd = require_pandas()
    debates = sorted(votes)
    texts: dict[str, tuple[int, str]] = {}
    said: list[Vote] = []
    pairs = 0
    for debate, name in enumerate(debates):
        for first, second, answers in _pairs(votes[name], name):
            for argument, text in (first, second):
                texts.setdefault(argument, (debate, text))
            said += [Vote(debate, pairs, first[0], second[0], *answer) for answer in answers]
            pairs += 1
    order = sorted(texts, key=lambda argument: (texts[argument][0], _number(argument), argument))
    row = {argument: i for i, argument in enumerate(order)}
    items = pd.DataFrame(
        {"item_id": range(len(order)), "source_id": order, "debate": [texts[a][0] for a in order]}
    )
    features = text_features([texts[argument][1] for argument in order])
    workers, _ = pd.factorize(pd.Series([vote.worker for vote in said], dtype=object))
    wins, ties = [], []
    for vote, worker in zip(said, workers, strict=True):
        first, second = row[vote.first], row[vote.second]
        if vote.value == EQUAL:
            ties.append((first, second, worker, vote.pair))
        else:
            won, lost = (first, second) if vote.value == FIRST else (second, first)
            wins.append((won, lost, worker, vote.pair, vote.debate))
    kept = [
        (row[won], row[lost], texts[won][0])
        for name in sorted(gold)
        for won, lost in _gold(gold[name], name, row)
    ]
    return {
        "items.csv.gz": pd.concat([items, features], axis=1),
        "duels.csv.gz": pd.DataFrame(
            wins, columns=["winner", "loser", "annotator", "pair_id", "debate"]
        ),
        "ties.csv.gz": pd.DataFrame(ties, columns=["item_a", "item_b", "annotator", "pair_id"]),
        "gold_duels.csv.gz": pd.DataFrame(kept, columns=["winner", "loser", "debate"]),
        "debates.csv": pd.DataFrame({"debate": range(len(debates)), "name": debates}),
        "texts.csv.gz": pd.DataFrame(
            {"item_id": range(len(order)), "text": [texts[argument][1] for argument in order]}
        ),
    }


def with_texts(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables, in which each argument has its text."""
    text = tables["texts"].set_index("item_id")["text"]
    items = tables["items"]
    kept = {name: tables[name] for name in ("duels", "ties", "gold_duels")}
    return {"items": items.assign(text=items["item_id"].map(text)), **kept}


def _members(archive: zipfile.ZipFile, folder: str, ending: str) -> dict[str, bytes]:
    paths = [PurePosixPath(name) for name in archive.namelist()]
    return {
        path.stem: archive.read(str(path))
        for path in paths
        if path.parent.name == folder and path.suffix == ending
    }


def _pairs(content: bytes, name: str) -> list[tuple[Any, Any, list[tuple[str, str]]]]:
    """Each pair: id and text of both arguments, and (worker, value) of each vote."""
    try:
        found = ElementTree.fromstring(_CONTROL.sub(b" ", content)).iter("annotatedArgumentPair")
        return [
            (_argument(pair, "arg1"), _argument(pair, "arg2"), _answers(pair)) for pair in found
        ]
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"The votes of debate {name!r} cannot be read ({error}).") from None


def _argument(pair: ElementTree.Element, which: str) -> tuple[str, str]:
    identity, text = pair.findtext(f"{which}/id"), pair.findtext(f"{which}/text")
    if not identity or text is None:
        raise ValueError(f"the pair {pair.findtext('id')!r} lacks id or text of {which}")
    return identity, text


def _answers(pair: ElementTree.Element) -> list[tuple[str, str]]:
    answers = []
    for vote in pair.iter("mTurkAssignment"):
        worker, value = vote.findtext("turkID") or "", vote.findtext("value")
        if value not in (FIRST, SECOND, EQUAL):
            raise ValueError(f"the pair {pair.findtext('id')!r} has the vote {value!r}")
        answers.append((worker, value))
    return answers


def _gold(content: bytes, name: str, known: Mapping[str, int]) -> list[tuple[str, str]]:
    """Winner and loser of each row; columns are split by tabulators: id, label and two texts."""
    duels = []
    for number, line in enumerate(content.decode("utf-8").split("\n"), start=1):
        if line.startswith("#") or not line.strip():
            continue
        pair, label, *_ = [*line.split("\t"), ""]
        first, _, second = pair.partition("_")
        if label not in (FIRST, SECOND) or first not in known or second not in known:
            raise ValueError(
                f"Line {number} of the gold pairs of {name!r} is {line[:60]!r}; expected are the "
                f"ids of two arguments of the votes, then {FIRST} or {SECOND}."
            )
        duels.append((first, second) if label == FIRST else (second, first))
    return duels


def _number(argument: str) -> int:
    digits = re.sub(r"\D", "", argument)
    return int(digits) if digits else 0
