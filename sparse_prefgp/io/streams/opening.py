"""Where a stream of duels comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.items import Items
from sparse_prefgp.io.files import column_names
from sparse_prefgp.io.forms import Stated
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.judgements import COUNT, TIE, Roles, columns_of_codes, names_of_columns
from sparse_prefgp.io.streams.blocks import SIDES, UNREAD, Source, named_columns
from sparse_prefgp.io.streams.contexts import InContexts, placed
from sparse_prefgp.io.streams.dataset import DatasetRows
from sparse_prefgp.io.streams.items import Lookup, items_of, raw_items
from sparse_prefgp.io.streams.memory import DuelRows
from sparse_prefgp.io.streams.parquet import ParquetRows, Renamed, pq_columns
from sparse_prefgp.io.streams.scan import Report, scan_of, standardised
from sparse_prefgp.io.streams.stream import Stream
from sparse_prefgp.io.values import named_levels
from sparse_prefgp.io.votes import votes_in
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.words import listing

PARQUET = (".parquet", ".pq")


def stream_duels(
    duels: Any,
    items: Any = None,
    *,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    counts: str | None = None,
    weights: str | None = None,
    grade: str | None = None,
    grades: str | Sequence[Any] | None = None,
    groups: str | None = None,
    labels: Sequence[str] | Mapping[str, str] = (),
    covariates: Sequence[str] = (),
    context: Sequence[str] = (),
    item: str | None = None,
    person: str | None = None,
    standardise: bool | FeatureTransform = True,
    progress: Report | None = None,
    **form: Any,
) -> Duels:
    """Duels that are read in chunks, again and again, and need not be held in memory.

    All rows are read once here: counted, checked, and, for inline features, averaged.

    :param duels: path of a Parquet file, of a folder of such files (read in the order of their
        names) or a list of paths; or a `tf.data.Dataset` that gives the same elements each time.
        Columns `winner` and `loser` hold ids; or `winner_x` and `loser_x` hold the feature x of
        both sides, and so on. Optional columns are `count`, how often, and `tie`, 1 where it was
        tied between the two and 0 where it was won. Elements of a dataset are mappings with these
        keys, or tuples; inline features are vectors there. Or `Duels`, which are in memory with
        their items: then a `StreamedGP` keeps of its own arrays only a chunk.
    :param items: for ids: path or data frame of items, as for `read_duels`, or an (n, D) array in
        which ids are row numbers. None for inline features.
    :param features: columns of the items, or inline features, to use; None for all.
    :param ignore: those to leave out; columns of the duels that say something else may be named
        too.
    :param counts: column of the duels: how often each was seen; by default `count`, if it is there.
    :param weights: column of the duels: as how many each counts in the likelihood.
    :param grade: column of the duels: how much better the winner, so called, is.
    :param grades: its levels from worst to best, as of `read_duels`; here they have to be named.
    :param groups: column of the duels: who judged.
    :param labels: columns of the duels with more labels, by which `lean_by` may let them lean;
        or these by the names that a model has for them.
    :param covariates: columns, or pairs of columns, of the duels, as of `read_duels`.
    :param context: columns of the duels that become features, as of `read_duels`; found by a pass
        of its own. Each item in each context is then a row in memory.
    :param item: column of the items that says which item a row is of, as of `read_duels`.
    :param person: column of the duels: whose preference each is, as of `read_duels`.
    :param standardise: subtract the mean and divide by the standard deviation of inline features,
        which is recorded in `transform`; or do so by a transform that was recorded, with its
        features. Tables of items always are, arrays never.
    :param progress: called with the rows read so far and their number.
    :param form: fields of `Form`, which say how rows of two sides are read; settled on the first
        rows, which later ones may not contradict.
    :raises ValueError: a file that is missing, empty or not Parquet; neither schema; ids without
        items, or items without ids; an unknown id, an item against itself, a feature that is not
        finite, a count that is not whole and positive, a tie that is neither 0 nor 1, a weight that
        is not positive, a covariate that is not finite, a group or a person that is missing (each
        with its row); no duels; a covariate that is the same in all duels; columns ties, weight or
        weights that are neither named nor ignored; `Duels` with items given once more.
    """
    names = tuple(column_names(covariates, "covariates"))
    together.check(grade=grade is not None, no_levels=grades is None)
    said = grade, named_levels(grade, grades), names
    codes = columns_of_codes(judge=groups, person=person)
    roles = Roles(counts, weights, *said, codes=codes, labels=names_of_columns(labels))
    for column, what in named_columns(roles):
        if column in (*SIDES, TIE) or (column == COUNT and what != "counts"):
            raise ValueError(
                f"The column {column!r} cannot hold {what}, for it says something else of each "
                "duel; give another."
            )
    wanted = tuple(column_names(context, "context"))
    source = _source(
        duels, ignore, roles, wanted, Stated(**form, ignore=tuple(ignore), covariates=names)
    )
    if isinstance(duels, Duels):
        given = {
            "items": items is not None,
            "features": features is not None,
            **{"ignore": ignore, "item": item, "groups": groups, "person": person},
            **{"context": wanted, "counts": counts, "weights": weights, "grade": grade},
            **{"covariates": names, "labels": labels},
        }
        for name, value in given.items():
            together.check(duels_object=True, column=bool(value) and name)
        items = duels
    for label, value in (("context", wanted), ("item", item)):
        if value and (source.inline is not None or isinstance(items, np.ndarray)):
            raise together.refused(items_without_ids=True, column=label)
    together.check(
        named_items=source.inline is None,
        no_items=items is None,
        features_of_sides=source.inline is not None
        and f"features of both sides ({listing(source.inline)})",
        items=items is not None,
    )
    others = source.columns
    recorded = standardise if isinstance(standardise, FeatureTransform) else None
    known: Items | None = None
    lookup: Lookup | None = None
    if wanted and not isinstance(items, InContexts):
        items = placed(raw_items(items, features, ignore, others, item), source)
    if isinstance(items, InContexts):
        known, lookup = items.found_in(source)
    elif items is not None:
        known = items_of(items, features, ignore, others, item)
        lookup = Lookup(known)
    else:
        source = _chosen(source, features if recorded is None else recorded.feature_names, ignore)
    scan = scan_of(source, lookup, None if known is None else len(known), progress)
    if known is None:
        assert source.inline is not None
        made = recorded or (standardised(source, scan) if standardise else None)
        known = Items(np.empty((0, len(source.inline))), None, source.inline, made)
    stream = Stream(source, lookup, scan, scan.totals.said, 0, scan.rows)
    duels, of_all = Duels.from_events(known, stream, roles=source.remembered), scan.totals
    if source.read_as is None:
        return duels
    answers = {"win": of_all.num_events - of_all.num_ties}
    answers |= {"tie": of_all.num_ties} if of_all.num_ties else {}
    return duels.replacing(read_as=replace(source.read_as, answers=answers))


def is_stream(duels: Any) -> bool:
    """Whether duels are read in chunks: what `stream_duels` gave, or a folder of Parquet files."""
    if isinstance(duels, str | os.PathLike):
        return Path(duels).is_dir() and not votes_in(Path(duels))
    return isinstance(duels, Duels) and not duels.held


def holds_duels(folder: Any) -> bool:
    """Whether the Parquet files of a folder may hold duels, and not answers about sets."""
    header = Header(pq_columns(_files_of([folder])[0]))
    plain = all(side in header for side in SIDES)
    return plain or bool(header.sides()) or any(x.startswith(f"{SIDES[0]}_") for x in header.names)


def columns_of(duels: Any, form: Stated) -> tuple[str, ...]:
    """Columns of Parquet files, or of all in a folder, as duels have them.

    :param form: how rows of two sides are read.
    :raises ValueError: what `stream_duels` raises of them.
    """
    return ParquetRows.of(_files_of([duels]), UNREAD, form=form).columns


def _source(
    duels: Any, ignore: Sequence[str], roles: Roles, context: tuple[str, ...], form: Stated
) -> Source:
    if isinstance(duels, Duels):
        return DuelRows(duels)
    if hasattr(duels, "element_spec"):
        return DatasetRows(duels, roles, context)
    called: Mapping[str, str] = {}
    if isinstance(duels, Renamed):
        duels, called = duels
    paths = [duels] if isinstance(duels, str | os.PathLike) else duels
    if not isinstance(paths, list | tuple):
        raise ValueError(
            f"The duels are of type {type(duels).__name__}; give Parquet files, a folder of them, "
            "a tf.data.Dataset, or Duels."
        )
    return ParquetRows.of(_files_of(paths), ignore, roles, context, called, form)


def _files_of(paths: Sequence[Any]) -> list[Any]:
    """The paths, folders being replaced by the Parquet files in them."""
    files: list[Any] = []
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise ValueError(
                f"The list of duels files holds {path!r} of type {type(path).__name__}; give paths."
            )
        if os.path.isdir(path):
            here = sorted(p for p in Path(path).iterdir() if p.suffix.lower() in PARQUET)
            if not here:
                raise ValueError(
                    f"The folder {str(path)!r} has no Parquet files; give one that has."
                )
            files += here
        else:
            files.append(path)
    return files


def _chosen(source: Source, features: Sequence[str] | None, ignore: Sequence[str]) -> Source:
    if features is None and not ignore:
        return source
    assert source.inline is not None
    for name in (*(features or ()), *ignore):
        if name not in source.columns or name in (features or ()):
            check_choice("A feature", name, source.inline, f" ({source.name})")
    if not isinstance(source, ParquetRows):
        raise together.refused(dataset=True, features=True)
    kept = [name for name in features or source.inline if name not in ignore]
    if not kept:
        raise ValueError("All features are ignored; keep at least one.")
    return replace(source, inline=tuple(kept))
