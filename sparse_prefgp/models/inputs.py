"""How items become the rows that the kernel of a model takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.models.outcomes import LEANS, known_codes
from sparse_prefgp.models.terms import Columns
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import as_numbers, check_choice, one_each


@dataclass(frozen=True, eq=False)
class Inputs:
    """Items as a model takes them: features, maybe with the number of the item and a date; and as
    its kernel does, with all columns of a row."""

    model: Any
    """`PreferenceGP` or `StreamedGP`."""
    layout: RowLayout
    """What the columns of a row are."""

    @property
    def columns(self) -> Columns:
        """Whose columns of a row those after the items are."""
        duels, terms = self.model.duels, self.model.terms
        return Columns(self.layout, duels.covariate_names, terms.labels)

    def of_items(self, rows: Any = slice(None), at: Any = None) -> FloatArray:
        """Rows of `duels` as `predict_f` takes them, with the number of the item if it has effects.

        :param rows: which rows of `duels.items`; all by default.
        :param at: the date, or (N,) dates, of utilities that move in time; by default the last one
            of the duels.
        :return: (N, D), (N, D + 1) with item effects, or (N, D + 2) with dates.
        """
        duels = self.model.duels
        items: FloatArray = duels.items
        if self.layout.numbered:
            items = np.column_stack([items, duels.item])
        return items[rows] if at is None else self.model.in_time.dated(items[rows], at)

    def rows(self, values: Any, before: Any = 0) -> tf.Tensor:
        """Items as the kernel takes them; `before` counts unknown items of the same call.

        They have the features, or these and the item's number, or all columns of a row.

        :raises ValueError: other columns; a number that no item has.
        """
        inputs = tf.convert_to_tensor(values, dtype=gpflow.default_float())
        layout, found = self.layout, inputs.shape[-1]
        known_widths = {layout.features, layout.first_covariate, layout.width}
        if layout.dated:  # the number of the item, and maybe a date
            known_widths |= {layout.date, layout.date + 1}
        if found not in known_widths:
            more = ", or these and the row number of the item" if layout.numbered else ""
            more += ", maybe with a date" if layout.dated else ""
            raise ValueError(
                f"Items have {layout.features} features, but the new ones have {found}; pass the "
                f"same columns in the same units{more}, for example with read_items(path, "
                "like=model)."
            )
        if layout.plain:
            return inputs
        # Each unknown item, and each unknown label, has a number and so an effect of its own.
        unknown = -1.0 - tf.cast(before + tf.range(tf.shape(inputs)[0]), inputs.dtype)[:, None]

        def known(column: int) -> tf.Tensor:
            if found <= column:
                return unknown
            number = inputs[:, column : column + 1]
            return tf.where(number < 0.0, unknown, number)

        columns = [inputs[:, : layout.features]]
        if layout.numbered:
            columns.append(known(layout.number))
            if found > layout.number and tf.executing_eagerly():
                self._check_numbers(inputs[:, layout.number].numpy())
        if layout.dated:
            in_time = self.model.in_time
            columns[-1] = tf.where(in_time.begun(columns[-1]), columns[-1], unknown)
            columns.append(in_time.columns_of(inputs, columns[-1]))
        if layout.covariates:
            first = layout.first_covariate
            given = inputs[:, first : layout.first_level]
            if found < layout.width:  # nothing is said of the duel
                given = tf.zeros([tf.shape(inputs)[0], layout.covariates], inputs.dtype)
            columns.append(given)
        for column in range(layout.first_level, layout.width):
            # Below -1 are unknown labels that rows share.
            number = inputs[:, column : column + 1] if found > column else unknown
            columns.append(tf.where(number == -1.0, unknown, number))
        return tf.concat(columns, 1)

    def pairs(self, first: Any, second: Any) -> tf.Tensor:
        """Pairs of items as the kernel takes them, stacked: (N, 2, D)."""
        ahead = self.rows(first)
        return tf.stack([ahead, self.rows(second, before=tf.shape(ahead)[0])], 1)

    def in_duels(
        self, Xa: Any, Xb: Any, covariates: Any, labels: Mapping[str, Codes]
    ) -> tuple[FloatArray, FloatArray]:
        """Both items of duels as rows (N, …) that hold the covariates (N, C) of the first less
        those of the second, and the numbers of labels.

        :param labels: as of `known_labels`.
        :raises ValueError: a model without covariates, or covariates of another shape.
        """
        sides = [np.asarray(x, float) for x in (Xa, Xb)]
        n, c = len(sides[0]), self.layout.covariates
        together.check(covariates=True, no_covariates=not c)
        given = np.asarray(covariates, float)
        values = np.broadcast_to(given, (n, c)) if given.shape == (c,) else given
        hint = f", first less second of {', '.join(self.model.duels.covariate_names)}"
        values = as_numbers("covariates", values, n, c, hint=hint)
        numbers, rows = self.levels_of(labels, n), []
        for side, said in zip(sides, (values, np.zeros((n, c))), strict=True):
            rows.append(np.column_stack([self.before_covariates(side), said, numbers]))
        return rows[0], rows[1]

    def known_labels(self, labels: Any, n: int) -> dict[str, Codes]:
        """Labels of n questions that lean, by their columns and by the numbers that the model has
        for them, below 0 for unknown ones, of which a warning tells.

        :param labels: as for `predict_difference`.
        :raises ValueError: a column by which nothing leans, or labels of another length.
        """
        found = {}
        for column, given in (labels or {}).items():
            check_choice("The column of labels", column, self.model.terms.labels)
            every = one_each(f"labels of {column!r}", given, n).tolist()
            names = self.model.duels.label_names[column]
            found[column] = known_codes(Codes.of(every, column), names, column, LEANS)
        return found

    def levels_of(self, labels: Mapping[str, Codes], n: int) -> FloatArray:
        """The numbers of the labels of n questions that lean, (n, number of their columns), below 0
        for unknown ones.

        :param labels: by the numbers of the model, as of `known_labels`.
        """
        columns, none = self.model.terms.labels, np.full(n, -1)
        found = [labels[column].numbers if column in labels else none for column in columns]
        return np.array(found, dtype=np.float64).reshape(len(columns), n).T

    def before_covariates(self, rows: FloatArray) -> FloatArray:
        """Rows of items with all columns that stand before covariates, dates among them."""
        layout = self.layout
        if layout.numbered:
            rows = self.with_numbers(rows)
        return self.rows(rows).numpy()[:, : layout.first_covariate] if layout.dated else rows

    def with_numbers(self, rows: FloatArray) -> FloatArray:
        """Rows of items with their numbers; features alone are of unknown ones."""
        if rows.shape[1] > self.layout.features:
            return rows
        return np.column_stack([rows, np.full(len(rows), -1.0)])

    def _check_numbers(self, numbers: FloatArray) -> None:
        last = self.model.duels.item.max()
        bad = np.flatnonzero((numbers > last) | (numbers != np.floor(numbers)))
        if bad.size:
            raise ValueError(
                f"The last column has {numbers[bad[0]]:g} in row {bad[0]}, which is not a row "
                f"number of an item; give 0 to {last}, or -1 for an unknown item."
            )
