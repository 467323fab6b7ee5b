"""New duels for a fitted model: its parameters stay, its sites start from where they were."""

from __future__ import annotations

import time
import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.analysis.answers import ReadAnswers, load_duels, notes_on, only_one, read_answers
from sparse_prefgp.analysis.items import (
    ROUNDING,
    SINGLE,
    ItemSet,
    far_sentences,
    feature_columns,
    is_array,
    numbers_by_name,
    raw_value,
    resolve_items,
)
from sparse_prefgp.analysis.roles import Columns
from sparse_prefgp.analysis.scoring import said_before
from sparse_prefgp.data.answers import Answers, Codes, Covariates
from sparse_prefgp.data.contexts import names_of_rows
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import NO_FEATURES
from sparse_prefgp.data.roles import LAST_DATE
from sparse_prefgp.engines import InferenceResult, Status
from sparse_prefgp.io.files import id_text, items_named_in
from sparse_prefgp.io.judgements import LOSER, WINNER, warn_of_spellings
from sparse_prefgp.io.people import people_like
from sparse_prefgp.learning.integration import (
    effective_number,
    longer_than_at_mode,
    pairs_of_items,
)
from sparse_prefgp.learning.notes import few_points
from sparse_prefgp.models.filtering import refuse_earlier
from sparse_prefgp.models.integrated import IntegratedGP, Integration
from sparse_prefgp.models.likelihood import steps_to_learn
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.models.preference_gp import replace as replace_answers
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.words import counted, listing
from sparse_prefgp.tell.result import Figures


@dataclass(frozen=True)
class UpdateReport(Figures):
    """What an update added and how inference went; `print` shows it as text."""

    new_duels: int
    """Duels added, counts included."""
    new_items: int
    """Items added."""
    duels: int
    """How many duels there are now."""
    items: int
    """How many items there are now."""
    used_duels: int
    """How many of the duels inference works on: all, but for `SubsetOfData`, which draws its subset
    again from all duels, with its seed.
    """
    sites: int
    """Distinct (winner, loser) pairs now."""
    continued_sites: int
    """How many of these started from their old values; the others began at zero."""
    sweeps: int
    """Sweeps of the inference on all duels."""
    converged: bool
    """Whether the inference on all duels converged."""
    inference: InferenceResult
    """How the inference on all duels went."""
    log_evidence_before: float | None
    """In nats, on the old duels; None where a filter took some of them up."""
    log_evidence: float | None
    """In nats, on the new and the old duels; None after one pass of a filter."""
    new_items_outside_range: int
    """Added items with a feature outside the range of the old training items."""
    outside_features: dict[str, int]
    """How many added items are outside that range, for each feature."""
    unknown_levels: dict[str, dict[str, int]]
    """Levels never seen among the added items, per categorical column."""
    noun: str = "duels"
    """What duels are called: choices, rankings, or answers of several kinds."""
    log_predictive: float | None = None
    """Log probability of the new duels in nats, slice after slice, each given those before; None
    where utilities do not move in time."""
    integration: Integration | None = None
    """How hyperparameters are integrated out now; None where they are not."""

    def __str__(self) -> str:
        lines = [
            f"{counted(self.new_duels, self.noun[:-1])} and "
            f"{counted(self.new_items, 'item')} added: "
            f"{self.duels:,} {self.noun} between {self.items:,} items",
            f"Inference resumed from its earlier results for {self.continued_sites:,} of "
            f"{self.sites:,} sites",
            f"Inference {self.inference}",
        ]
        if self.log_predictive is not None:
            lines.append(
                f"Log probability of the new {self.noun} {self.log_predictive:,.2f} nats, each "
                "given those before its slice of time"
            )
        if self.log_evidence is not None:
            text = f"Log evidence {self.log_evidence:,.2f} nats"
            if self.log_evidence_before is not None:
                text += f", {self.log_evidence_before:,.2f} before, on the old duels alone"
            lines.append(text)
        if self.integration is not None:
            lines.append(
                f"Hyperparameters: {self.integration.points} {self.integration.reason}, of which "
                f"{self.integration.effective_points:.1f} count"
            )
        if self.used_duels < self.duels:
            lines.append(f"Inference uses a subset of {self.used_duels:,} {self.noun}, drawn again")
        far = self.new_items_outside_range, self.outside_features, self.unknown_levels
        lines += far_sentences(*far, "new item")
        return "\n".join(lines)


def update(
    model: PreferenceGP,
    duels: Any = None,
    items: Any = None,
    *,
    columns: Columns = None,
    people: Any = None,
    in_one_pass: bool = False,
    slices: Any = None,
    choices: Any = None,
    rankings: Any = None,
    best_worst: Any = None,
    **options: Any,
) -> tuple[PreferenceGP, UpdateReport]:
    """A model of the old duels and new ones, with the same parameters; the old one stays.

    Answers about sets likewise, in place of duels or next to old ones.

    :param model: whose kernel, noise, mean function, inducing inputs, approximation and engine the
        new one gets, as copies.
    :param duels: path or data frame with the columns `winner` and `loser`, which hold item ids, and
        perhaps `count` and, for a model with a margin, `tie`.
    :param items: path or data frame of raw items; those the model does not know are appended, in
        the units recorded by its transform. Known ones may be there, unchanged. For a model without
        recorded transform or ids, an (n, D) array in its units, whose items follow the old ones in
        number. Left out for items without features, those that the new duels name are appended.
    :param columns: those of this table that are called otherwise than in training, as for
        `evaluate`, and the role weight. Judges, people, dates and
        blocks are needed where the old duels have them; without weights each duel is one, without
        grades a win of which nobody said by how much, or a tie. New judges begin at the noise of
        the model, a ratio of 1, new labels as the prior says, new people join its own. Where
        utilities move in time, none of the new duels may be before the last old one.
    :param people: path or data frame with the features of new people, where the old ones have any.
    :param in_one_pass: where utilities move in time, take the new duels up slice by slice and leave
        the past as it is (`model.in_time.filter`); without it inference runs on all duels after the
        pass.
    :param slices: of the pass, as `ItemInTime` takes them; by default those of the model.
    :param choices: in place of duels, choices from sets, as `read_choices` takes them; without item
        ids, alternatives with the features of an item that is known are that item.
    :param rankings: the same, as `read_rankings` takes them.
    :param best_worst: the same, as `read_best_worst` takes them.
    :param options: of these readers, such as `at_once=True`.
    :return: The new model, after inference that began at the old sites, and what was done. Its
        posterior is that of a model made afresh from all duels with these parameters; fit it with
        `optimise` to learn the parameters from all duels, or `new.at_mode` of an `IntegratedGP`,
        which `integrate` makes a mixture of again.
    :raises ValueError: an unknown id, an item against itself or a bad count (with its row); a known
        item with other features; ids that do not fit those of the model; what `resolve_items`
        raises; ties for a model without margin; what `roles_in` raises of judges, people, dates and
        blocks; a new person without features; none of
        duels, choices, rankings and best_worst, or several; for answers about sets what their
        readers raise, and a model with contexts, with a margin or with blocks that were given.
    """
    kind, source = only_one(
        options, duels=duels, choices=choices, rankings=rankings, best_worst=best_worst
    )
    old, named_only = model.duels, False
    if kind != "duels":
        model.allow(answers=True)
    else:
        source, columns = load_duels(model, source, columns)
        named_only = items is None and old.num_features == 0 and old.item_ids is not None
        if named_only:
            items = items_named_in(source, (WINNER, LOSER)).frame
        elif is_array(items):
            together.check(ids_of_items=old.item_ids is not None, array_of_items=True)
            items, n = resolve_items(model, items), old.num_items  # which they follow in number
            items = replace(items, ids=tuple(range(n, n + len(items))))
    how = {"learning": True, "dates": True}
    read = read_answers(model, kind, source, items, columns, how, **options)
    _refuse_changed(old, read.items)
    everything, added, new = read.placed(model)
    if named_only:
        _warn_of_new_names(old, added)
    if model.inputs.layout.dated:
        assert new.time is not None and old.times is not None
        refuse_earlier(new.time, float(old.times.max()), read.table.row)
    new, roles = _last_date_of(old, new)
    data = _joined(old, everything, new, people).replacing(roles=roles)
    _warn_of_repeated(old, data)
    if model.inputs.layout.dated:
        result, facts = _followed(model, data, in_one_pass, slices)
        return result, _report(old, result, added, new, **facts)
    model.allow(in_one_pass=in_one_pass, slices=slices is not None)
    before = model.log_evidence()
    result, continued = _continued(model.at_mode, data, new)
    report = _report(
        *(old, result, added, new),
        continued_sites=continued,
        log_evidence_before=before,
        log_evidence=result.log_evidence(),
    )
    result = _mixed(model, result, data, new)
    return result, replace(report, integration=result.integration)


def _continued(model: PreferenceGP, data: Duels, new: Answers) -> tuple[PreferenceGP, int]:
    """A model of old and new answers after inference that began at the old sites, and how many."""
    old, approximation = model.duels, model.approximation
    if new.block is not None:  # PITC, with the blocks of the new duels
        labels = _as_named(new.block, approximation.labels or ())
        approximation = approximation.followed_by(labels)
    result = replace_answers(model, data, approximation=approximation)
    margin = result.likelihood.margin
    if margin is not None and old.ties is None and data.ties is not None:
        gpflow.set_trainable(margin, True)  # the first ties, from which it is learned
        margin.prior = None
    if new.answer is not None:
        before, now = old.grade_counts, data.grade_counts
        assert before is not None and now is not None
        # The cuts next to grades that were used for the first time are left to the likelihood.
        learned = zip(steps_to_learn(before), steps_to_learn(now), strict=True)
        for step, (was, free) in zip(result.likelihood.steps, learned, strict=True):
            if free and not was:
                step.prior = None
    nu, tau, continued = continued_sites(model, result)
    result.inference.start_from(nu, tau)
    result.infer()
    return result, continued


def _mixed(model: PreferenceGP, at_mode: PreferenceGP, data: Duels, new: Answers) -> PreferenceGP:
    """The mixture that points of another make of old and new answers: each keeps its
    hyperparameters, and counts by how likely it makes what is new; said where few of them do.
    """
    if model.at_mode is model:
        return at_mode
    started, mixture = time.perf_counter(), model.mixture
    points = [_continued(point, data, new)[0] for point in mixture.points]
    both = zip(points, mixture.points, strict=True)
    likelier = np.array([now.log_evidence() - then.log_evidence() for now, then in both])
    weights = mixture.weights * np.exp(likelier - likelier.max())
    weights /= weights.sum()
    effective = effective_number(weights)
    if few := few_points(effective, len(points)):
        warnings.warn(few, stacklevel=3)
    result = IntegratedGP(at_mode, points, weights)
    before = model.integration or Integration(used=True, reason="")
    result.integration = Integration(
        used=True,
        reason="points of the model before, weighted by what is new",
        parameters=before.parameters,
        directions=before.directions,
        gain=None,
        left=None,
        longer=longer_than_at_mode(result, pairs_of_items(result, np.random.default_rng(0))),
        points=len(points),
        effective_points=effective,
        sweeps=sum(point.infer().sweeps for point in points),
        seconds=time.perf_counter() - started,
    )
    return result


def _last_date_of(old: Duels, new: Answers) -> tuple[Answers, Mapping[str, str]]:
    """New answers, without dates where the old ones keep only the last of these, and the roles of
    both: with their last date where it is known of both."""
    if LAST_DATE not in old.roles:
        return new, old.roles
    roles = {role: column for role, column in old.roles.items() if role != LAST_DATE}
    if new.time is not None:
        roles[LAST_DATE] = repr(max(float(old.roles[LAST_DATE]), float(new.time.max())))
    return new.saying(time=None), roles


def _warn_of_repeated(old: Duels, data: Duels) -> None:
    """Say of new duels that are the model's own that they count twice."""
    given, n = data.given, len(old.merged.rows)
    if not given.in_pairs:
        return
    new = given.take(slice(n, len(given)))
    known = said_before(given.take(slice(n)), new)
    if known:
        date = "" if given.time is None else " at the same date"
        warnings.warn(
            f"{known:,} of these {new.num_events:,} duels are in the model already, the same items "
            f"with the same outcome{date}, and count twice now; if they are the same answers, "
            "leave them out.",
            stacklevel=3,
        )


def _report(
    old: Duels, result: PreferenceGP, added: ItemSet, new: Answers, **facts: Any
) -> UpdateReport:
    """What an update did, `facts` of its sites and evidence next to what its result tells."""
    data, inference = result.duels, result.infer()
    return UpdateReport(
        new_duels=new.num_events,
        new_items=_number_of_items(data) - _number_of_items(old),
        duels=data.num_duels,
        items=_number_of_items(data),
        used_duels=result.num_duels_used,
        sites=result.graph.num_sites,
        sweeps=inference.sweeps,
        converged=inference.converged,
        inference=inference,
        new_items_outside_range=int(added.outside.sum()),
        **notes_on(added),
        noun=data.events.noun,
        **facts,
    )


def _followed(
    model: PreferenceGP, data: Duels, in_one_pass: bool, slices: Any
) -> tuple[PreferenceGP, dict[str, Any]]:
    """Utilities in time, to which the later ones of all duels are added: one pass over these, and
    from its sites inference on all, unless one pass is all that was asked for."""
    filtered = model.infer().status is Status.FILTERED
    before = None if in_one_pass or filtered else model.log_evidence()
    passed = model.in_time.filter(later_part(model.duels, data), slices)
    result = passed.model
    if not in_one_pass:
        result.inference.start_from(*result.inference.sites())
    result.infer()
    return result, {
        "continued_sites": model.graph.num_sites,
        "log_evidence_before": before,
        "log_evidence": None if in_one_pass else result.log_evidence(),
        "log_predictive": passed.log_predictive,
    }


def later_part(old: Duels, data: Duels) -> Duels:
    """Of old duels and, below them, new ones the new ones alone, between the items of both."""
    given = data.given
    later = given.take(slice(len(old.merged.rows), len(given)))
    people = data.people_features
    return Duels.from_events(data.known, later, people_features=people, roles=data.roles)


def later_duels(model: Any, read: ReadAnswers) -> Duels:
    """New duels as a model takes them up, between its items and new ones."""
    everything, _, new = read.placed(model)
    return later_part(model.duels, _joined(model.duels, everything, new, None))


def _warn_of_new_names(old: Duels, added: ItemSet) -> None:
    """Say which items join a model because duels name them, as a slip would."""
    names = tuple(dict.fromkeys(added.names))
    if names:
        count = counted(len(names), "item")
        warnings.warn(
            f"The new duels name {count} that the model does not know ({listing(names)}); each "
            "joins as an item of which nothing else is known, so correct what is a slip.",
            stacklevel=3,
        )
        known = names_of_rows(old.item_ids, old.item_rows)
        warn_of_spellings((*(known or ()), *names), "items")


def continued_sites(old: PreferenceGP, new: PreferenceGP) -> tuple[FloatArray, FloatArray, int]:
    """Sites (nu, tau) of the new model's graph that its events had in the old one, else zero, and
    how many had any. The items of the old model are the first ones of the new, in their order.

    Of copies of an event that have sites of their own, those beyond the old ones begin where the
    last of these was.
    """
    before, after = old.graph, new.graph
    # The row that each old row has become, by any item on it; -1 where a subset left it out.
    row = np.full(before.num_rows, -1)
    here = np.flatnonzero(before.row_of_item >= 0)
    row[before.row_of_item[here]] = after.row_of_item[here]
    if before.layout.covariates:  # an item has several rows then
        known = {values.tobytes(): i for i, values in enumerate(after.rows)}
        row = np.array([known.get(values.tobytes(), -1) for values in before.rows])
    assert before.events is not None and after.events is not None
    moved = before.events.onto(row)
    both = after.events.followed_by(moved)
    blocks = []
    if new.approximation.labels is not None:
        assert before.blocks is not None and after.blocks is not None
        # New blocks come after the old ones, which keep their numbers.
        each = (after.blocks[after.first_sites], before.blocks[before.first_sites])
        blocks = [np.concatenate(each)]
    _, same = both.alike(*blocks)
    e = len(after.events)
    ours, theirs = same[:e], same[e:]
    # All rows of an event have to be there still.
    whole = np.minimum.reduceat(moved.sides, moved.offsets[:-1]) >= 0
    kept = np.flatnonzero(whole)
    kept = kept[np.argsort(theirs[kept], kind="stable")]
    first, last = (np.searchsorted(theirs[kept], ours, side=side) for side in ("left", "right"))
    known_ones = np.flatnonzero(first < last)
    order = np.argsort(ours, kind="stable")
    equal_before = np.empty(e, np.int64)
    equal_before[order] = np.arange(e) - np.searchsorted(ours[order], ours[order])
    at = np.minimum(first + equal_before, last - 1)[known_ones]
    source = before.sites_of(kept[at])
    target = after.sites_of(known_ones)
    nu, tau = np.zeros(after.num_sites), np.zeros(after.num_sites)
    old_nu, old_tau = old.inference.sites()
    nu[target], tau[target] = old_nu[source], old_tau[source]
    return nu, tau, len(target)


def _as_named(codes: Codes, names: Iterable[Hashable]) -> list[Any]:
    """Labels as a model has them, of which those that it knows are compared as text."""
    known = {id_text(name): name for name in names}
    return [known.get(id_text(label), label) for label in codes.labels.tolist()]


def _number_of_items(duels: Duels) -> int:
    """Items, however many rows each has."""
    return duels.num_items if duels.item_rows is None else duels.item_rows.num_items


def _refuse_changed(old: Duels, found: ItemSet) -> None:
    """Refuse known items whose features are others now."""
    known = np.flatnonzero(found.numbers >= 0)
    ours = old.items[found.numbers[known]]
    theirs = found.inputs[known, : old.num_features]
    tolerance = np.full(old.num_features, ROUNDING)
    reduced = (old.transform or NO_FEATURES).reduced
    if reduced is not None:
        tolerance[-reduced.size :] = SINGLE  # rounded, and so by chance up or down
    bad = np.argwhere(np.abs(ours - theirs) > tolerance * (1.0 + np.abs(ours)))
    if len(bad) == 0:
        return
    i, j = (int(k) for k in bad[0])
    row, names = int(known[i]), np.array(feature_columns(old), dtype=object)
    name = names[j]

    def told(features: FloatArray) -> str:
        value = raw_value(old, name, features[names == name])
        if value == "" and old.transform is not None:
            return f"{features[j]:.4g} along {old.transform.feature_names[j]}"
        return repr(value) if isinstance(value, str) else f"{value:.10g}"

    was, now = told(ours[i]), told(theirs[i])
    levels = found.levels_never_seen.get(name)
    now = repr(levels[row]) if levels is not None and levels[row] else now
    raise ValueError(
        f"The item {str(found.ids[row])!r} of {found.name} has {name!r} {now}, but the model knows "
        f"it with {was}; give the changed item a new id, or leave it out of the table."
    )


def _joined(old: Duels, items: ItemSet, new: Answers, people: Any) -> Duels:
    """The old duels and then the new ones, between all items.

    :param people: table of new people.
    :raises ValueError: features of people for a model that has none; what their reader raises.
    """
    ids: tuple[Hashable, ...] | None = None
    if old.item_ids is not None:
        ids = items.ids
        if len({isinstance(value, str) for value in ids}) > 1:
            # Numbers so far, and now one that is none: then all are texts.
            ids = tuple(id_text(value) for value in ids)
    before, added = old.given, new.saying(block=None)
    names = before.covariate_names
    if names and added.covariates is None:  # of which nothing is said, as the reader has warned
        nothing = np.zeros((len(added.sides), len(names)))
        added = added.saying(covariates=Covariates(nothing, names))
    together.check(answers=added.time is None, dated_duels=before.time is not None)
    if added.person is not None and old.people_names is not None:
        who = _as_named(added.person, old.people_names)
        added = added.saying(person=Codes.of(who, added.person.column))
        warn_of_spellings(tuple(dict.fromkeys([*old.people_names, *who])), "people")
    if old.group_names is not None and new.judge is not None:
        added = added.saying(judge=Codes.of(_as_named(new.judge, old.group_names)))
    else:
        before = before.saying(judge=None)
    free = 1 + int(old.item.max())
    new_ones = np.arange(free, free + len(items) - old.num_items)  # items of their own
    if old.item_rows is not None and items.rows is not None:
        known = numbers_by_name(old)
        for k, name in enumerate(items.rows.names[old.num_items :]):
            new_ones[k] = known.setdefault(id_text(name), free)
            free = max(free, 1 + int(new_ones[k]))
    features = old.people_features
    if people is not None:
        more = people_like(people, features)
        features = more if features is None else features.followed_by(more)
    return Duels.from_events(
        items.inputs[:, : old.num_features],
        before.followed_by(added),
        item=np.append(old.item, new_ones),
        item_ids=ids,
        feature_names=old.feature_names,
        transform=old.transform,
        item_rows=items.rows,
        people_features=features,
        roles=old.roles,
    )
