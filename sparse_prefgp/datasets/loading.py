"""Data sets by name: from a local folder, from the cache, or from their public addresses."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.converters import CONVERTERS, DERIVED, SARCOS, TORQUES, arff
from sparse_prefgp.datasets.fetching import (
    DATA_VARIABLE,
    Progress,
    cache_folder,
    data_folder,
    download,
    sha256,
)
from sparse_prefgp.datasets.frames import check_tables
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
from sparse_prefgp.datasets.sets import AnySet, ChoiceSet, DuelSet, RankingSet, RegressionSet
from sparse_prefgp.disk.folders import replaced_folder
from sparse_prefgp.io.choices import RANK

MADE = "made.json"  # of the tidy files in the cache: how they were made, and all checksums
FORM = 1  # raised whenever a converter gives something else
_DUELS = ("items", "duels", "ties", "gold_duels", "battles")
# What files of data are called, next to the name of their set.
_TABLES = {*_DUELS, CHOICES, RANKINGS, "teams", "matches", "models", "prompts"}
_TABLES |= {"train", "test", "test_inputs"}


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
    known, tidy = describe(name), cache_folder() / name / "tidy"
    made = _made(known, tidy)
    for file, expected in made["sha256"].items():
        remedy = "so it was changed since it was made; delete it to make it again"
        _check_sum(tidy / file, expected, remedy)
    if refresh or not made["sha256"]:
        raw = download(known, made["raw"], refresh=refresh, progress=progress)
        tables = converted(known, raw)
        with replaced_folder(tidy, lambda folder: None) as new:
            for file, table in tables.items():
                write(new / file, table)
            sums = {file: sha256(new / file) for file in tables}
            made = {"form": FORM, "sha256": sums, "raw": {x: sha256(raw[x]) for x in sorted(raw)}}
            (new / MADE).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return {file: tidy / file for file in known.files}


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
    found = _read(known, {file.partition(".")[0]: path for file, path in files.items()})
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
    files = sorted(fetch(name).items())
    return {file: sha256(path) for file, path in files if file.partition(".")[0] in read}


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
    return "cache" if _made(known, folder)["sha256"] else "download"


def converted(known: DataSet, raw: Mapping[str, Path]) -> dict[str, Any]:
    """The tidy tables of a set by the names of their files, made of its public files.

    :raises ValueError: a public file is not as expected.
    """
    try:
        tables = CONVERTERS.get(known.name, arff)(known, raw)
        check_tables(tables)
        return tables
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # whatever a damaged file leads to
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ValueError(
            f"The public files of the data set {known.name!r} are not as expected ({reason}); "
            f"delete {str(cache_folder() / known.name)!r} to download them again."
        ) from error


def write(path: Path, table: Any) -> None:
    """Write a tidy table; the same one gives the same bytes."""
    if path.suffix == ".npz":
        x, y = (np.ascontiguousarray(table[names]) for names in (SARCOS, TORQUES))
        np.savez_compressed(path, x=x, y=y)
    else:
        compression = {"method": "gzip", "mtime": 1} if path.suffix == ".gz" else None
        table.to_csv(path, index=False, compression=compression)


def _local(name: str, folder: Path) -> dict[str, Path]:
    """Files of the local folder; those of our sets must be the known ones."""
    place = folder / name
    if name not in SETS and place.is_dir():
        return {path.name: path for path in sorted(place.iterdir()) if path.is_file()}
    known = describe(name)
    for file, expected in known.files.items():
        if not (place / file).is_file():
            raise ValueError(
                f"{DATA_VARIABLE} names {str(folder)!r}, which has no {name}/{file}; put it there, "
                f"or unset {DATA_VARIABLE} to download the set."
            )
        if expected is not None:
            remedy = "put back the known one, or give data of your own a folder of another name"
            _check_sum(place / file, expected, remedy)
    return {file: place / file for file in known.files}


def _check_sum(path: Path, expected: str, remedy: str) -> None:
    if (here := sha256(path)) != expected:
        raise ValueError(
            f"The file {str(path)!r} has the checksum {here}, not {expected}; {remedy}."
        )


def _made(known: DataSet, tidy: Path) -> dict[str, Any]:
    """Checksums of the tidy files in the cache, none unless all are there and of the present form,
    and of the public files of which they were made, where that is known."""
    made: dict[str, Any] = {"form": FORM, "sha256": {}, "raw": {}}
    with suppress(OSError, ValueError):
        made |= json.loads((tidy / MADE).read_text(encoding="utf-8"))
    whole = made["sha256"].keys() == known.files.keys() and made["form"] == FORM
    if not (whole and all((tidy / file).is_file() for file in known.files)):
        made["sha256"] = {}
    return made


def _described(name: str, files: Mapping[str, Path]) -> DataSet:
    """A set of the user's own, by the names of its files."""
    stems = {file.partition(".")[0] for file in files}
    needed = {
        DUELS: {"items", "duels"},
        RANKINGS: {"items", RANKINGS},
        CHOICES: {CHOICES},
        REGRESSION: {name} & stems or {"train"},
    }
    kind = next((kind for kind, some in needed.items() if some <= stems), None)
    if kind is None:
        raise ValueError(
            f"The folder of the data set {name!r} has neither items.csv and duels.csv or "
            f"rankings.csv nor choices.csv nor {name}.csv with a column {TARGET!r}; add them."
        )
    return DataSet(name, kind, dict.fromkeys(files))


def _read(known: DataSet, paths: Mapping[str, Path]) -> AnySet:
    """What a set's files, by their names without endings, hold."""
    pd = require_pandas()
    # No cell of a public set is missing: an empty one is a text that is blank.
    csv = partial(pd.read_csv, keep_default_na=known.name not in SETS)
    if known.kind == CHOICES:
        return ChoiceSet(known, csv(paths[CHOICES]))
    if known.kind == RANKINGS:
        # Some cells of ranks are empty.
        rankings = pd.read_csv(paths[RANKINGS], dtype={RANK: "Int64"})
        return RankingSet(known, csv(paths["items"]), rankings)
    if known.kind == DUELS:
        used = paths if known.name in DERIVED else _DUELS[:-1]
        frames = {table: csv(path) for table, path in paths.items() if table in used}
        items, duels, *others = map(DERIVED.get(known.name, dict)(frames).get, _DUELS)
        return DuelSet(known, items, duels, *others)
    parts = [part for part in ("train", "test") if part in paths] or [known.name]
    tables = [_numbers(paths[part]) for part in parts]
    frame = pd.concat(tables, ignore_index=True)
    if TARGET not in frame.columns:
        raise ValueError(
            f"The data set {known.name!r} has no column {TARGET!r}; add or rename one."
        )
    first = known.train_rows or (len(tables[0]) if len(parts) > 1 else 0)
    return RegressionSet(
        known,
        frame.drop(columns=TARGET),
        frame[TARGET].to_numpy(dtype=np.float64),
        (np.arange(first), np.arange(first, len(frame))) if first else None,
        pd.read_csv(paths["test_inputs"]) if "test_inputs" in paths else None,
    )


def _numbers(path: Path) -> Any:
    """Features and a target; of SARCOS the first of seven."""
    pd = require_pandas()
    if path.suffix != ".npz":
        return pd.read_csv(path)
    with np.load(path) as arrays:
        inputs = pd.DataFrame(arrays["x"].astype(np.float64), columns=SARCOS)
        return inputs.assign(**{TARGET: arrays["y"][:, 0]})


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
