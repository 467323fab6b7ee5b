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
from sparse_prefgp.disk.folders import replaced_folder
from sparse_prefgp.io.choices import RANK

MADE = "made.json"  # of the tidy files in the cache: how they were made, and all checksums
FORM = 1  # raised whenever a converter gives something else
_DUELS = ("items", "duels", "ties", "gold_duels")
# What files of data are called, next to the name of their set.
_TABLES = {*_DUELS, CHOICES, RANKINGS, "teams", "matches", "models", "prompts"}
_TABLES |= {"train", "test", "test_inputs"}

Converter = Callable[[Mapping[str, Path]], dict[str, Any]]

# Of all sets but those in ARFF.
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
    known, tidy = describe(name), cache_folder() / name / "tidy"
    made = _made(tidy)
    for file, expected in made["sha256"].items() if _is_there(tidy, known) else ():
        if (found := sha256(tidy / file)) != expected:
            raise ValueError(
                f"The cached file {str(tidy / file)!r} has the checksum {found}, not {expected}, "
                "so it was changed since it was made; delete it to make it again."
            )
    if refresh or not _is_there(tidy, known):
        raw = download(known, made["raw"], refresh=refresh, progress=progress)
        try:
            content = converted(known, raw)
        except (ArithmeticError, LookupError, OSError, SyntaxError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise ValueError(
                f"The public files of the data set {name!r} are not as expected ({reason}); "
                f"delete {str(tidy.parent)!r} to download them again."
            ) from error
        with replaced_folder(tidy, lambda folder: None) as new:
            for file, table in content.items():
                _write(new / file, table)
            sums = {file: sha256(new / file) for file in content}
            made = {"form": FORM, "sha256": sums, "raw": {x: sha256(raw[x]) for x in sorted(raw)}}
            (new / MADE).write_text(json.dumps(made, indent=2, sort_keys=True) + "\n")
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
    return "cache" if _is_there(folder, known) else "download"


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
    for file, expected in SETS[name].files.items():
        if not (place / file).is_file():
            raise ValueError(
                f"{DATA_VARIABLE} names {str(folder)!r}, which has no {name}/{file}; put it there, "
                f"or unset {DATA_VARIABLE} to download the set."
            )
        if expected is not None and (found := sha256(place / file)) != expected:
            raise ValueError(
                f"The file {str(place / file)!r} has the checksum {found}, not {expected}; put "
                "back the known one, or give data of your own a folder of another name."
            )
    return {file: place / file for file in SETS[name].files}


def _made(tidy: Path) -> dict[str, Any]:
    """How the tidy files in the cache were made, and of what; nothing where that is not known."""
    try:
        made = json.loads((tidy / MADE).read_text(encoding="utf-8"))
        return {"form": made["form"], "sha256": dict(made["sha256"]), "raw": made.get("raw", {})}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {"form": None, "sha256": {}, "raw": {}}


def _is_there(tidy: Path, known: DataSet) -> bool:
    """Whether the cache has all tidy files, of the present form."""
    made = _made(tidy)
    whole = made["sha256"].keys() == known.files.keys() and made["form"] == FORM
    return whole and all((tidy / file).is_file() for file in known.files)


def converted(known: DataSet, raw: Mapping[str, Path]) -> dict[str, Any]:
    """The tidy tables of a set by the names of their files, made of its public files."""
    arff = partial(tables.tidy_arff, next(iter(known.files)))
    return _CONVERTERS.get(known.name, arff)(raw)


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
        derived = _DERIVED.get(known.name)
        frames = {table: csv(path) for table, path in paths.items() if derived or table in _DUELS}
        items, duels, *others = map((derived(frames) if derived else frames).get, _DUELS)
        return DuelSet(known, items, duels, *others)
    parts = [pd.read_csv(paths[part]) for part in ("train", "test") if part in paths]
    if known.name == "sarcos_test":
        with np.load(paths[known.name]) as arrays:
            kinds = ("position", "velocity", "acceleration")
            columns = [f"{kind}_{i + 1}" for kind in kinds for i in range(7)]
            frame = pd.DataFrame(arrays["x"].astype(np.float64), columns=columns)
            frame[TARGET] = arrays["y"][:, 0]
    else:
        frame = pd.concat(parts, ignore_index=True) if parts else pd.read_csv(paths[known.name])
    if TARGET not in frame.columns:
        raise ValueError(
            f"The data set {known.name!r} has no column {TARGET!r}; add or rename one."
        )
    first = known.train_rows or (len(parts[0]) if len(parts) > 1 else 0)
    return RegressionSet(
        known,
        frame.drop(columns=TARGET),
        frame[TARGET].to_numpy(dtype=np.float64),
        (np.arange(first), np.arange(first, len(frame))) if first else None,
        pd.read_csv(paths["test_inputs"]) if "test_inputs" in paths else None,
    )


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
