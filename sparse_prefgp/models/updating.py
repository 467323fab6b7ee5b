"""New duels for a fitted model: its parameters stay, its sites go on from where they were."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.approximations import PITC
from sparse_prefgp.duels import Duels
from sparse_prefgp.engines import InferenceResult
from sparse_prefgp.io.files import id_text
from sparse_prefgp.models.items import ItemSet, feature_columns, is_array, own_items, resolve_items
from sparse_prefgp.models.preference_gp import PreferenceGP

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Standardised values of one raw value, read or computed twice, differ by less.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class UpdateReport:
    """What an update added and how inference went; `print` shows it as text.

    Attributes:
        new_duels: duels added, counts included. new_items: items added.
        duels, items: how many there are now.
        used_duels: how many of them inference works on: all, but for `SubsetOfData`, which draws
            its subset anew from all duels, with its seed.
        sites, continued_sites: distinct (winner, loser) pairs now, and how many of them went on
            from their old values; the others began at zero.
        sweeps, converged, inference: of the inference on all duels.
        log_evidence_before: in nats, on the old duels. log_evidence: on the new and the old ones.
        new_items_outside_range: added items with a feature outside the range of the old training
            items, and outside_features, how many for each feature.
        unknown_levels: levels never seen among the added items, per categorical column.
    """

    new_duels: int
    new_items: int
    duels: int
    items: int
    used_duels: int
    sites: int
    continued_sites: int
    sweeps: int
    converged: bool
    inference: InferenceResult
    log_evidence_before: float
    log_evidence: float
    new_items_outside_range: int
    outside_features: dict[str, int]
    unknown_levels: dict[str, dict[str, int]]

    def to_dict(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        figures = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**figures, "inference": str(self.inference)}

    def __str__(self) -> str:
        lines = [
            f"{self.new_duels:,} duels and {self.new_items:,} items added: {self.duels:,} duels "
            f"between {self.items:,} items",
            f"{self.continued_sites:,} of {self.sites:,} sites continued",
            f"Inference {self.inference}",
            f"Log evidence {self.log_evidence:,.2f} nats, {self.log_evidence_before:,.2f} before, "
            "on the old duels alone",
        ]
        if self.used_duels < self.duels:
            lines.append(f"Inference uses a subset of {self.used_duels:,} duels, drawn anew")
        if self.new_items_outside_range:
            each = ", ".join(f"{name} {count:,}" for name, count in self.outside_features.items())
            lines.append(
                f"{self.new_items_outside_range:,} new items lie outside the range of the training "
                f"items ({each})"
            )
        for name, levels in self.unknown_levels.items():
            shown = ", ".join(f"{level!r} {count:,}" for level, count in list(levels.items())[:5])
            lines.append(f"Levels of {name} never seen count as none of the known: {shown}")
        return "\n".join(lines)


def update(model: PreferenceGP, duels: Any, items: Any = None) -> tuple[PreferenceGP, UpdateReport]:
    """A model of the old duels and new ones, with the same parameters; the old one stays.

    Args:
        model: whose kernel, noise, mean function, inducing inputs, approximation and engine the
            new one gets, as copies.
        duels: path or data frame with the columns `winner` and `loser`, which hold item ids, and
            perhaps `count`.
        items: path or data frame of raw items; those the model does not know are appended, in the
            units recorded by its transform. Known ones may be there, unchanged. For a model
            without recorded transform or ids, an (n, D) array in its units, whose items follow
            the old ones in number.

    Returns:
        The new model, after inference that began at the old sites, and what was done. Its
        posterior is that of a model made afresh from all duels with these parameters; fit it with
        `optimise` to learn the parameters from all duels.

    Raises:
        ValueError: an unknown id, an item against itself or a bad count (with its row); a known
            item with other features; ids that do not fit those of the model; what
            `resolve_items` raises; `PITC` with blocks that were given.
    """
    old = model.duels
    if isinstance(model.approximation, PITC) and model.approximation.labels is not None:
        raise ValueError(
            "The blocks of PITC were given for the old duels, and new ones would have none; make "
            "a model of all duels with a block for each, or use PITC(number) from the start."
        )
    own = own_items(model)
    added = None if items is None else _new_items(model, items)
    everything = own if added is None else own.followed_by(added)
    won, lost, counts = everything.read_duels(duels)
    data = _joined(old, everything, won, lost, counts)

    before = model.log_evidence()
    kernel, mean_function, inducing, noise = copy.deepcopy(
        (model.kernel, model.mean_function, model.inducing_variable, model.noise_variance)
    )
    result = PreferenceGP(
        data,
        kernel,
        approximation=model.approximation,
        inducing_variable=inducing,
        engine=model.engine,
        noise_variance=float(model.noise_variance.numpy()),
        mean_function=mean_function,
    )
    # With its transform, prior and whether it is trainable.
    result.noise_variance = noise
    nu, tau, continued = continued_sites(model, result)
    result.start_from(nu, tau)
    inference = result.infer()
    return result, UpdateReport(
        new_duels=int(counts.sum()),
        new_items=data.num_items - old.num_items,
        duels=data.num_duels,
        items=data.num_items,
        used_duels=round(float(result.graph.counts.sum())),
        sites=result.graph.num_sites,
        continued_sites=continued,
        sweeps=inference.sweeps,
        converged=inference.converged,
        inference=inference,
        log_evidence_before=before,
        log_evidence=result.log_evidence(),
        new_items_outside_range=0 if added is None else int(added.outside.sum()),
        outside_features={} if added is None else added.outside_features,
        unknown_levels={} if added is None else added.unknown_levels,
    )


def continued_sites(old: PreferenceGP, new: PreferenceGP) -> tuple[FloatArray, FloatArray, int]:
    """Sites (nu, tau) of the new model's graph that its pairs had in the old one, else zero, and
    how many had any. The items of the old model are the first ones of the new, in their order."""
    before, after = old.graph, new.graph
    # The row that each old row has become, by any item on it; -1 where a subset left it out.
    row = np.full(before.num_rows, -1)
    here = np.flatnonzero(before.row_of_item >= 0)
    row[before.row_of_item[here]] = after.row_of_item[here]
    winners, losers = row[before.winners], row[before.losers]
    keys = after.winners * after.num_rows + after.losers
    order = np.argsort(keys, kind="stable")
    wanted = winners * after.num_rows + losers
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    kept = np.flatnonzero((winners >= 0) & (losers >= 0) & (keys[place] == wanted))
    nu, tau = np.zeros(after.num_sites), np.zeros(after.num_sites)
    old_nu, old_tau = old.sites()
    nu[place[kept]], tau[place[kept]] = old_nu[kept], old_tau[kept]
    return nu, tau, len(kept)


def _new_items(model: PreferenceGP, items: Any) -> ItemSet | None:
    """The items that the model does not know; None where it knows all."""
    found = resolve_items(model, items)
    if is_array(items):
        if model.duels.item_ids is not None:
            raise ValueError(
                "The items are an array without ids, but those of the model have ids; give a table "
                "of raw items with an id column."
            )
        n = model.duels.num_items
        return replace(found, ids=tuple(range(n, n + len(found))))
    _refuse_changed(model.duels, found)
    new = found.select(found.numbers < 0)
    return new if len(new) else None


def _refuse_changed(old: Duels, found: ItemSet) -> None:
    """Refuse known items whose features are others now."""
    known = np.flatnonzero(found.numbers >= 0)
    ours = old.items[found.numbers[known]]
    theirs = found.inputs[known, : old.num_features]
    bad = np.argwhere(np.abs(ours - theirs) > _ROUNDING * (1.0 + np.abs(ours)))
    if len(bad) == 0:
        return
    i, j = (int(k) for k in bad[0])
    row = int(known[i])
    name = feature_columns(old)[j]
    was, now = (_raw_value(old, values[i], j) for values in (ours, theirs))
    level = found.levels_never_seen.get(name, {}).get(row)
    now = now if level is None else repr(level)
    raise ValueError(
        f"The item {str(found.ids[row])!r} of {found.name} has {name!r} {now}, but the model knows "
        f"it with {was}; give the changed item a new id, or leave it out of the table."
    )


def _raw_value(duels: Duels, features: FloatArray, column: int) -> str:
    """How a message shows the value behind a column, in the units of the raw table."""
    transform = duels.transform
    if transform is None:
        return f"{features[column]:.10g}"
    if column < len(transform.numeric):
        return f"{transform.mean[column] + transform.scale[column] * features[column]:.10g}"
    start = len(transform.numeric)
    for levels in transform.categories:
        if column < start + len(levels):
            on = np.flatnonzero(features[start : start + len(levels)])
            return repr(levels[int(on[0])]) if len(on) else "an unknown level"
        start += len(levels)
    raise AssertionError(f"column {column} is beyond the recorded features")


def _joined(old: Duels, items: ItemSet, won: IntArray, lost: IntArray, counts: IntArray) -> Duels:
    """The old duels and then the new ones, between all items."""
    ids: tuple[Hashable, ...] | None = None
    if old.item_ids is not None:
        ids = items.ids
        if len({isinstance(value, str) for value in ids}) > 1:
            # Numbers so far, and now one that is none: then all are texts.
            ids = tuple(id_text(value) for value in ids)
    return Duels.from_rows(
        items.inputs[:, : old.num_features],
        np.concatenate([old.winners, won]),
        np.concatenate([old.losers, lost]),
        np.concatenate([old.counts, counts]),
        item_ids=ids,
        feature_names=old.feature_names,
        transform=old.transform,
    )
