"""Data sets by name: from a local folder, from the cache, or from their public addresses."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets import (
    arguments,
    choices,
    jokes,
    matches,
    model_answers,
    races,
    tables,
    tennis,
)
from sparse_prefgp.datasets.fetching import (
    DATA_VARIABLE,
    Progress,
    as_record,
    cache_folder,
    data_folder,
    download,
    sha256,
)
from sparse_prefgp.datasets.registry import (
    CHOICES,
    DUELS,
    RANKINGS,
    REGRESSION,
    SETS,
    TARGET,
    DataSet,
    check_name,
    describe,
)
from sparse_prefgp.datasets.sets import (
    AnySet,
    ChoiceSet,
    DuelSet,
    RankingSet,
    RegressionSet,
)
from sparse_prefgp.disk.folders import replaced_folder, write_file
from sparse_prefgp.io.choices import RANK

MADE = "made.json"  # of the tidy files in the cache: how they were made, and their checksums
FORM = 1  # raised whenever a converter gives something else
TRAIN_ROWS = {"abalone": 3_133}
_DUEL_TABLES = ("items", "duels", "ties", "gold_duels")
# What files of data are called, next to the name of their set.
_TABLES = (
    *_DUEL_TABLES,
    CHOICES,
    RANKINGS,
    "teams",
    "matches",
    "models",
    "prompts",
    "train",
    "test",
    "test_inputs",
)

Converter = Callable[[Mapping[str, Path]], dict[str, Any]]

_CONVERTERS: dict[str, Converter] = {
    "tennis_atp": tennis.tidy,
    "ukp_convincing": arguments.tidy,
    "ev_choice_us": choices.tidy_cars,
    "ev_choice_china": choices.tidy_cars,
    "train_choice": choices.tidy_trains,
    "electricity": choices.tidy_offers,
    "mode_canada": choices.tidy_modes,
    "football_internationals": matches.tidy,
    "llm_votes": model_answers.tidy,
    "humour": jokes.tidy,
    "formula_1": races.tidy,
    "snelson1d": tables.tidy_snelson,
    "boston": tables.tidy_boston,
    "kin40k": tables.tidy_kin40k,
    "sarcos_test": tables.tidy_sarcos,
}

# Of sets whose items and duels are made of more than the two files of these names.
_DERIVED: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "ukp_convincing": arguments.with_texts,
    "football_internationals": matches.as_duels,
    "llm_votes": model_answers.named,
}


def fetch(name: str, *, refresh: bool = False, progress: Progress | None = None) -> dict[str, Path]:
    """The tidy files of a set by their names: local ones, or made from the public files.

    :param name: of the set.
    :param refresh: download the public files again; they must be the same as before.
    :param progress: called with how many public files are there and how many there are in all.
    :raises ValueError: an unknown name, or none at all; a file that is missing in the local folder;
        a checksum that differs; a public file that is not as expected.
    :raises ConnectionError: no network.
    :raises ModuleNotFoundError: pooch or pandas is not installed.
    """
    check_name(name)
    local = data_folder()
    if local is not None:
        if refresh:
            raise ValueError(
                f"Nothing is downloaded while {DATA_VARIABLE} names {str(local)!r}; unset it, or "
                "do not ask to download again."
            )
        return _local(name, local)
    known = describe(name)
    tidy = cache_folder() / name / "tidy"
    if refresh or not _is_made(tidy, known):
        raw = download(known, refresh=refresh, progress=progress)
        _make(known, raw, tidy)
    return {file: tidy / file for file, _ in known.files}


def load(name: str) -> AnySet:
    """A data set by its name; `names()` lists them.

    It is read from the folder that SPARSE_PREFGP_DATA names, else from the cache, else made from
    the public files, which are downloaded and kept. A local folder may hold further sets: a folder
    with `items.csv` and `duels.csv`, one with `items.csv` and `rankings.csv`, one with
    `choices.csv`, or one with a file of its own name and a column `target`.

    Warns if what was made of the public files has another size than it is known to have.

    :raises ValueError: as `fetch`.
    :raises ConnectionError: as `fetch`.
    :raises ModuleNotFoundError: as `fetch`.
    """
    files = fetch(name)
    known = SETS.get(name) or _described(name, files)
    found = _READERS[known.kind](known, files)
    if name in SETS:
        _warn_of_size(found)
    return found


def checksums(name: str) -> dict[str, str]:
    """SHA-256 of the tidy files that `load` reads, by their names.

    :raises ValueError: as `fetch`.
    :raises ConnectionError: as `fetch`.
    :raises ModuleNotFoundError: as `fetch`.
    """
    read = {*_TABLES, name}
    return {
        file: sha256(path)
        for file, path in sorted(fetch(name).items())
        if file.partition(".")[0] in read
    }


def where(known: DataSet) -> str:
    """Where a set would be read from now: `local folder`, `cache` or `download`.

    Without pooch, which knows where the cache is, nothing but a folder that somebody named can be
    read: `download` then.
    """
    local = data_folder()
    if local is not None:
        return "local folder" if (local / known.name).is_dir() else "not in the local folder"
    try:
        folder = cache_folder() / known.name / "tidy"
    except ModuleNotFoundError:
        return "download"
    return "cache" if _sums_made(folder, known) else "download"


def is_derived(name: str) -> bool:
    """Whether `load` makes items and duels of more than the two files of these names."""
    return name in _DERIVED


def _local(name: str, folder: Path) -> dict[str, Path]:
    """Files of the local folder; those of our sets must be the known ones."""
    place = folder / name
    if name not in SETS and not (name and place.is_dir()):
        describe(name)  # says which name is nearest
    if name not in SETS:
        return {path.name: path for path in sorted(place.iterdir()) if path.is_file()}
    files = {}
    for file, expected in SETS[name].files:
        path = files[file] = place / file
        if not path.is_file():
            raise ValueError(
                f"{DATA_VARIABLE} names {str(folder)!r}, which has no {name}/{file}; put it there, "
                f"or unset {DATA_VARIABLE} to download the set."
            )
        if expected is not None and (found := sha256(path)) != expected:
            raise ValueError(
                f"The file {str(path)!r} has the checksum {found}, not {expected}; put back the "
                "known one, or give data of your own a folder of another name."
            )
    return files


def _is_made(tidy: Path, known: DataSet) -> bool:
    """Whether the cache has the tidy files.

    :raises ValueError: it has them, but they were changed.
    """
    sums = _sums_made(tidy, known)
    for file, expected in sums.items():
        path = tidy / file
        if (found := sha256(path)) != expected:
            raise ValueError(
                f"The cached file {str(path)!r} has the checksum {found}, not {expected}, so it "
                "was changed since it was made; delete it to make it again."
            )
    return bool(sums)


def _sums_made(tidy: Path, known: DataSet) -> dict[str, str]:
    """The checksums that the tidy files had when they were made; empty unless all are there."""
    try:
        made = json.loads((tidy / MADE).read_text(encoding="utf-8"))
        sums, form = dict(made["sha256"]), made["form"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    names = {file for file, _ in known.files}
    there = form == FORM and set(sums) == names and all((tidy / name).is_file() for name in names)
    return sums if there else {}


def _make(known: DataSet, raw: Mapping[str, Path], tidy: Path) -> None:
    """Convert public files, and put the tidy ones in place together."""
    convert = _CONVERTERS.get(known.name) or partial(tables.tidy_arff, known.files[0][0])
    content = convert(raw)
    with replaced_folder(tidy, lambda folder: None) as new:
        for file, table in content.items():
            _write(new / file, table)
        sums = {file: sha256(new / file) for file in content}
        write_file(new / MADE, as_record({"form": FORM, "sha256": sums}))


def _write(path: Path, table: Any) -> None:
    if path.suffix == ".npz":
        np.savez_compressed(path, **table)
    elif path.suffix == ".gz":
        # Without the time of day the same table gives the same bytes.
        table.to_csv(path, index=False, compression={"method": "gzip", "mtime": 1})
    else:
        table.to_csv(path, index=False)


def _described(name: str, files: Mapping[str, Path]) -> DataSet:
    """A set of the user's own, by the names of its files."""
    stems = {file.partition(".")[0] for file in files}
    if {"items", "duels"} <= stems:
        kind = DUELS
    elif {"items", RANKINGS} <= stems:
        kind = RANKINGS
    elif CHOICES in stems:
        kind = CHOICES
    elif stems & {name, "train"}:
        kind = REGRESSION
    else:
        raise ValueError(
            f"The folder of the data set {name!r} has neither items.csv and duels.csv or "
            f"rankings.csv nor choices.csv nor {name}.csv with a column {TARGET!r}; add them."
        )
    return DataSet(name, kind, "", 0, 0, 0, "", "", "", (), tuple((file, None) for file in files))


def _duel_set(known: DataSet, files: Mapping[str, Path]) -> DuelSet:
    tables_of = {file.partition(".")[0]: path for file, path in files.items()}
    if known.name in _DERIVED:
        read = _DERIVED[known.name]({name: _csv(path, known) for name, path in tables_of.items()})
    else:
        read = {name: _csv(tables_of[name], known) for name in _DUEL_TABLES if name in tables_of}
    return DuelSet(known, read["items"], read["duels"], read.get("ties"), read.get("gold_duels"))


def _choice_set(known: DataSet, files: Mapping[str, Path]) -> ChoiceSet:
    (path,) = (path for file, path in files.items() if file.partition(".")[0] == CHOICES)
    return ChoiceSet(known, _csv(path, known))


def _ranking_set(known: DataSet, files: Mapping[str, Path]) -> RankingSet:
    by_stem = {file.partition(".")[0]: path for file, path in files.items()}
    # Some cells of ranks are empty.
    rankings = require_pandas().read_csv(by_stem[RANKINGS], dtype={RANK: "Int64"})
    return RankingSet(known, _csv(by_stem["items"], known), rankings)


def _regression_set(known: DataSet, files: Mapping[str, Path]) -> RegressionSet:
    pd = require_pandas()
    by_stem = {file.partition(".")[0]: path for file, path in files.items()}
    parts, more = None, None
    if known.name == "sarcos_test":
        with np.load(by_stem[known.name]) as arrays:
            x, y = arrays["x"], arrays["y"][:, 0]
        kinds = ("position", "velocity", "acceleration")
        columns = [f"{kind}_{i + 1}" for kind in kinds for i in range(7)]
        frame = pd.DataFrame(x.astype(np.float64), columns=columns).assign(**{TARGET: y})
    elif "train" in by_stem and "test" in by_stem:
        halves = [_csv(by_stem["train"]), _csv(by_stem["test"])]
        frame = pd.concat(halves, ignore_index=True)
        parts = _cut(len(halves[0]), len(frame))
    else:
        frame = _csv(by_stem["train"] if "train" in by_stem else by_stem[known.name])
        if "test_inputs" in by_stem:
            more = _csv(by_stem["test_inputs"])
    if TARGET not in frame.columns:
        raise ValueError(
            f"The data set {known.name!r} has no column {TARGET!r}; add or rename one."
        )
    if known.name in TRAIN_ROWS:
        parts = _cut(TRAIN_ROWS[known.name], len(frame))
    target = frame[TARGET].to_numpy(dtype=np.float64)
    return RegressionSet(known, frame.drop(columns=TARGET), target, parts, more)


def _cut(first: int, rows: int) -> tuple[Any, Any]:
    return np.arange(first), np.arange(first, rows)


def _csv(path: Path, known: DataSet | None = None) -> Any:
    # No cell of a public set is missing: an empty one is a text that is blank.
    empty = known is None or known.name not in SETS
    return require_pandas().read_csv(path, keep_default_na=empty)


_READERS: dict[str, Callable[[DataSet, Mapping[str, Path]], AnySet]] = {
    DUELS: _duel_set,
    CHOICES: _choice_set,
    RANKINGS: _ranking_set,
    REGRESSION: _regression_set,
}


def _warn_of_size(found: AnySet) -> None:
    known = found.about
    other = {what: number for what, number in found.size.items() if number != getattr(known, what)}
    if other:
        made = " and ".join(f"{number:,} {what}" for what, number in other.items())
        wanted = " and ".join(f"{getattr(known, what):,}" for what in other)
        warnings.warn(
            f"The data set {known.name!r} has {made} as made from its public files, not {wanted}; "
            "figures of others may not be comparable.",
            stacklevel=3,
        )
