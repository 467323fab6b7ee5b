"""What is asked of a model about dates."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.item_in_time import ItemInTime, time_term
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.contexts import names_of_rows
from sparse_prefgp.data.dated import Dated
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.slices import (
    DAYS_A_YEAR,
    check_slices,
    date_text,
    day_of,
    days_of,
    rows_in_force,
)
from sparse_prefgp.models.filtering import Filtering, filtered_by
from sparse_prefgp.models.time_posterior import TimePosterior
from sparse_prefgp.models.trajectories import Trajectories, trajectories_of
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_number
from sparse_prefgp.support.words import shortened

M = TypeVar("M")


@dataclass(frozen=True, eq=False)
class InTimeModel(Generic[M]):
    """A model whose utilities move in time (`ItemInTime`), asked about dates: `model.in_time`.

    Dates are given as `Duels(times=)` has them, and come back as days since 1970. All of it is a
    ValueError of a model whose utilities do not move (`model.inputs.layout.dated`).
    """

    model: Any
    """A `PreferenceGP`."""

    @property
    def known(self) -> Dated:
        """When duels were."""
        if self.model._dated is None:  # looked at often, unlike what `allow` asks
            self.model.allow(trajectories=True)
        return self.model._dated

    @property
    def term(self) -> ItemInTime:
        """The term of the kernel that moves."""
        term = time_term(self.model.kernel)
        if term is None:
            self.model.allow(trajectories=True)
        assert term is not None
        return term

    # Dates of the duels.

    @property
    def slices(self) -> Any:
        """The slices of time in which duels are taken together, as `ItemInTime` has them."""
        return self.term.slices

    @property
    def first_date(self) -> float:
        """The first day on which an item is active."""
        return float(np.nanmin(self.known.from_when))

    @property
    def last_date(self) -> float:
        """Of all duels."""
        return float(np.nanmax(self.known.last))

    @property
    def date(self) -> float:
        """Of utilities that are asked for without one: the last of the duels, or that of a view
        (`at`)."""
        return self.last_date if self.model._date is None else float(self.model._date)

    @property
    def row_starts(self) -> FloatArray:
        """(n,) of each row of `duels.items` the day of its first duel; NaN where it has none."""
        return self.known.starts

    # Items and rows at a date.

    def active(self, at: Any = None, within: float = 2.0) -> IntArray:
        """Numbers of the items that are active at a date: from the first duel of each on, until so
        many years after its last one.

        :param at: the date; by default `date`.
        :param within: years.
        :raises ValueError: a date that is none, or of nobody.
        """
        known, date = self.known, self.date
        check_number("active_within", within, least=0.0, hint=", of years")
        if at is not None:
            date = day_of(at)
        there = (known.from_when <= date) & (date <= known.last + within * DAYS_A_YEAR)
        if not there.any():
            end = float(np.nanmax(known.last)) + within * DAYS_A_YEAR
            raise ValueError(
                f"No item is active on {date_text(date)}, from its first duel on until {within:g} "
                f"years after its last one; give a date from {date_text(self.first_date + 1.0)} "
                f"to {date_text(end)}, or more years (active_within=)."
            )
        return np.flatnonzero(there)

    def rows_at(self, at: Any = None) -> IntArray:
        """Of each item by its number, (I,), its row of `duels.items` at a date: where an item has
        several, that which its latest duel by then had.

        :param at: the date; by default `date`.
        :raises ValueError: a date that is none.
        """
        day = self.date if at is None else day_of(at)
        return rows_in_force(self.model.duels.item, self.row_starts, day)

    def with_dates(self, rows: FloatArray) -> FloatArray:
        """Rows (N, D + 1) of items with their numbers, as rows (N, D + 3) at `date`."""
        inputs = self.model.inputs.rows(rows).numpy()
        return inputs[:, : self.model.inputs.layout.first_covariate]

    def dated(self, rows: Any, at: Any) -> FloatArray:
        """Rows of items (N, D) or (N, D + 1) with their numbers, at a date or (N,) dates.

        :raises ValueError: a date that is none.
        """
        self.model.allow(date=True)
        inputs, given = self.model.inputs, np.asarray(at)
        rows = inputs.with_numbers(np.asarray(rows, float))
        n = len(rows)
        days = days_of(np.broadcast_to(given, (n,)) if given.ndim == 0 else given, n)
        return np.column_stack([rows[:, : inputs.layout.date], days])

    def begun(self, numbers: tf.Tensor) -> BoolArray:
        """Which items, by their numbers in any shape, are not new: an item of whose duels none has
        told anything has a Wiener process that begins in every question, as that of a new one."""
        together.check(compiled=not tf.executing_eagerly(), in_time=True)
        if self.term.kernel.is_stationary:
            return np.full(numbers.shape, True)
        begin, number = np.append(self.known.begin, np.nan), numbers.numpy()
        return ~np.isnan(begin[np.where(number < 0.0, -1, number).astype(np.int64)])

    def columns_of(self, inputs: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        """The date of each row and that of its item's first slice, (N, 2): by default `date`, and
        of a new item its own.

        :param numbers: (N, 1) of the items.
        :raises ValueError: a date before the first duel of an item whose utility begins there.
        """
        known, column = self.known, self.model.inputs.layout.date
        if inputs.shape[-1] > column:
            date = inputs[:, column].numpy()
        else:
            date = np.full(inputs.shape[0], self.date)
        number = numbers[:, 0].numpy().astype(np.int64)
        old = (number >= 0) & (number < len(known.first))
        place = np.where(old, number, 0)
        begin = np.where(old & ~np.isnan(known.begin[place]), known.begin[place], date)
        if not self.term.kernel.is_stationary:
            first = np.where(begin == date, date, known.first[place])
            # Within the first slice it is what it is at its date.
            for i in np.flatnonzero(date < np.minimum(first, begin))[:1]:
                duels = self.model.duels
                names = names_of_rows(duels.item_ids, duels.item_rows)
                item = f"item {number[i]}"
                if names is not None:
                    item = f"the item {shortened(names[int(np.argmax(duels.item == number[i]))])}"
                raise ValueError(
                    f"Row {i} asks for {item} on {date_text(date[i])}, before its first duel on "
                    f"{date_text(first[i])}, where a Wiener process of its own begins; ask for a "
                    "later date, or take a kernel that has always been, such as Matern12() "
                    '(--kernel "item-in-time(matern12)").'
                )
            date = np.maximum(date, begin)
        return tf.constant(np.stack([date, begin], 1), inputs.dtype)

    # Utilities.

    def at(self, date: Any) -> M:
        """This model, its utilities being those of a date.

        A view: parameters and what inference found are those of this model, and all that asks for a
        utility, a prediction or a posterior without a date gets that of this one.

        :raises ValueError: a date that is none.
        """
        self.model.allow(date=True)
        found: Any = copy.copy(self.model)
        found._date = day_of(date)
        return found

    def posterior(self) -> TimePosterior:
        """`posterior`, with what only utilities in time have: the end, any date, jointly."""
        date = self.date
        found: TimePosterior = self.model._inferred().solution.posterior
        return found.with_date(date)

    def moved_in(self, years: float) -> float:
        """Standard deviation of what joins the utility of an item in so many years."""
        kernel = self.term.kernel
        added = np.asarray(kernel.added(as_float(np.array([years]))))[0]
        return float(np.sqrt(kernel.observed @ added @ kernel.observed))

    def trajectories(self, items: Any, dates: Any, active_within: float = 2.0) -> Trajectories:
        """How utilities of items moved, less the average of the items active at each date.

        Levels alone are not known: only differences are, and their bands are of these. An item with
        several rows is followed through them, by `rows_at`; of items in contexts
        `analysis.history` takes the average.

        :param items: (n,) rows of `duels.items`, each of which stands for its item.
        :param dates: (d,), ascending.
        :param active_within: years after its last duel for which an item counts as active.
        :raises ValueError: items in contexts; dates that are none, or of nobody.
        """
        duels = self.model.duels
        contexts = duels.item_rows is not None and bool(duels.item_rows.columns)
        self.model.allow(trajectories=True, trajectory=True, contexts=contexts)
        given, n = np.asarray(items), duels.num_items
        for i in given[(given < 0) | (given >= n)][:1]:
            raise ValueError(f"items has {i}, which is no row of the items; give 0 to {n - 1}.")
        found = trajectories_of(self.model, duels.item[given], dates, active_within)
        return found._replace(items=given)

    # Other slices, and later duels.

    def with_slices(self, slices: Any) -> M:
        """The same model, its duels taken together in other slices of time.

        What was learned on coarse slices holds on finer ones, which follow the latest duels
        closer. Parameters are copies; inference begins from the sites of this model.

        :param slices: as `ItemInTime` takes them.
        :raises ValueError: what `PreferenceGP` raises.
        """
        self.model.allow(slices=True)
        made: Any = self.model._on(self.model.duels, check_slices(slices))
        old, new = self.model.graph, made.graph
        if old.event_of_duel is not None and new.event_of_duel is not None:
            # Where new sites take more duels together, that of the last of these.
            sites = np.zeros((new.num_sites, 2))
            found = np.column_stack(self.model.inference.sites())
            sites[new.sites_of_duels] = found[old.sites_of_duels]
            made.inference.start_from(*sites.T)
        return made

    def filter(self, duels: Duels | None = None, slices: Any = None) -> Filtering:
        """This model and later duels, in one pass: nothing before is done again.

        Each slice is predicted from those before, inference runs within it, and its sites are kept.
        As good ahead as inference on all duels, at about a millisecond a slice; the past is not
        redrawn and nothing is learned (docs/time.md).

        :param duels: none before the last one of the model. Items are the same by their ids, or
            without ids by features and number. None for the duels of the model themselves, from
            the first on, at its parameters.
        :param slices: of the later duels, as `ItemInTime` takes them; by default as before.
        :raises ValueError: earlier duels, duels without dates, other features, ties that tell only
            the margin.
        """
        self.model.allow(filter=True)
        return filtered_by(self.model, duels, None if slices is None else check_slices(slices))
