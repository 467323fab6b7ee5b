"""What models of duels predict, once they have a posterior of the utility."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from sparse_prefgp.covariances.item_in_time import time_term
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.pair_effect import pair_effect
from sparse_prefgp.data.answers import Answers, Codes, Covariates
from sparse_prefgp.data.contexts import names_of_rows
from sparse_prefgp.data.dated import Dated
from sparse_prefgp.data.forecast import DUELS, FIRST, GRADES, OUTCOMES, SECOND, TIE, Forecast
from sparse_prefgp.data.leaning import Leaning
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.data.slices import date_text, days_of
from sparse_prefgp.factors.links import Link
from sparse_prefgp.factors.noise import NoiseRatios, duel_noise
from sparse_prefgp.models.outcomes import (
    BOX,
    LEANS,
    MARGIN_ONLY,
    NOISE,
    cuts_of,
    group_numbers,
    known_blocks,
    known_codes,
    label_columns,
    new_ratios,
    numbers_of,
)
from sparse_prefgp.models.posterior import Posterior, predictions
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import as_numbers, check_choice, one_each
from sparse_prefgp.support.shapes import check_shapes
from sparse_prefgp.support.words import shortened

# Pairs times noises of one step of an average.
_AVERAGED_AT_ONCE = 1 << 17
# What is said of those that a model does not know.
_UNKNOWN_JUDGE = "group", NOISE
_UNKNOWN_PERSON = "person", "they are predicted as somebody of whom nothing is known"


class DuelPredictions:
    """Utilities, differences and outcomes of duels: what `PreferenceGP` and `StreamedGP` share.

    A model with a kernel, a noise variance, an engine, its `duels` and a `posterior`.
    """

    kernel: gpflow.kernels.Kernel
    noise_variance: gpflow.Parameter
    margin: gpflow.Parameter | None
    cut_steps: tuple[gpflow.Parameter, ...] = ()
    noise_ratio: gpflow.Parameter | None
    cut_scale: gpflow.Parameter | None = None
    tie_model: str = BOX
    tie_share: gpflow.Parameter | None = None
    leaning: Leaning = Leaning()
    # Of what each person prefers besides what all do; None where all are one.
    taste: gpflow.kernels.Kernel | None = None
    # When duels were, where utilities move in time, and the date that a view is of.
    _dated: Dated | None = None
    _date: float | None = None
    # Whose utilities they are, whoever is named; None where nobody is.
    _view: Callable[[Any], Posterior] | None = None

    @property
    def last_date(self) -> float:
        """Of all duels, in days since 1970.

        :raises ValueError: duels without dates.
        """
        times = self.duels.times
        if times is None:
            raise together.refused(date=True, duels_without_dates=True)
        return float(times.max())

    @property
    def date(self) -> float:
        """Of utilities that are asked for without one: the last of the duels, or that of a view
        (`PreferenceGP.at_date`)."""
        return self.last_date if self._date is None else self._date

    def with_dates(self, rows: FloatArray) -> FloatArray:
        """Rows (N, D + 1) of items with their numbers, as rows (N, D + 3) at `date`."""
        inputs = self._inputs(rows).numpy()
        return np.asarray(inputs[:, : self.row_layout.first_covariate])

    def item_inputs(self, rows: Any = slice(None), at: Any = None) -> np.ndarray:
        """Rows of `duels` as `predict_f` takes them, with the number of the item if it has effects.

        :param rows: which rows of `duels.items`; all by default.
        :param at: the date, or (N,) dates, of utilities that move in time; by default the last one
            of the duels.
        :return: (N, D), (N, D + 1) with item effects, or (N, D + 2) with dates.
        """
        items = self.duels.items
        if self.has_item_effect:
            items = np.column_stack([items, self.duels.item])
        items = items[rows]
        return items if at is None else self.dated(items, at)

    @property
    def people(self) -> tuple[Hashable, ...]:
        """The people whose tastes are known; none without tastes."""
        return ()

    @property
    def described_people(self) -> tuple[Hashable, ...]:
        """These, and after them others of whom features alone are known."""
        return self.people

    if TYPE_CHECKING:

        @property
        def duels(self) -> Any: ...

        @property
        def engine(self) -> Any: ...

        @property
        def approximation(self) -> Any: ...

        @property
        def has_item_effect(self) -> bool: ...

        @property
        def row_layout(self) -> RowLayout: ...

        def posterior(self) -> Posterior: ...

        def _differences_in_blocks(self, pairs: tf.Tensor, blocks: IntArray) -> tf.Tensor: ...

        def _differences(self, pairs: Any, people: IntArray | None = None) -> tf.Tensor: ...

    @check_shapes(
        "Xnew: [N, D]",
        "return[0]: [N, 1]",
        "return[1]: [N, 1] if not full_cov",
        "return[1]: [1, N, N] if full_cov",
    )
    def predict_f(
        self,
        Xnew: Any,
        full_cov: bool = False,
        full_output_cov: bool = False,
        at: Any = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N, 1) and variance (N, 1) of the utility at new items, GPflow's shapes.

        Effects of pairs (`PairEffect`) are no part of it.

        Utilities are relative: only differences mean anything. Without `full_cov` any number of
        items takes bounded memory. (docs/method.md, section 6)

        :param Xnew: (N, D) in the units of `duels.items`.
        :param full_cov: the joint covariance (1, N, N) in place of the variances.
        :param full_output_cov: there is one output, so it changes nothing.
        :param at: the date or (N,) dates of utilities that move in time, in days since 1970, as
            `datetime64` or as text; by default that of the last duel.
        """
        asked = Xnew if at is None else self.dated(Xnew, at)
        inputs = self._inputs(asked)  # refused before anything slow
        return predictions(self.posterior(), inputs, full_cov)

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return: [N]")
    def predict_duel(
        self,
        Xa: Any,
        Xb: Any,
        groups: Any = None,
        covariates: Any = None,
        people: Any = None,
        at: Any = None,
        labels: Any = None,
    ) -> tf.Tensor:
        """Probability that each item of Xa (N, D) beats its partner in Xb (N, D), (N,).

        Phi((E[f - f'] - margin) / sqrt(V[f - f'] + 2 sigma²)) with probit factors; with logit ones
        the logistic function is averaged over N(E[f - f'], V[f - f']).

        :param groups: who judges: a label for all pairs or (N,) labels, where the model has noise
            by group. For None and unknown ones, of which a warning tells, the probability is
            averaged over the prior of the ratio of a group's noise (docs/method.md, section 14).
        :param covariates: as for `predict_difference`.
        :param people: as for `predict_difference`.
        :param at: as for `predict_difference`.
        :param labels: as for `predict_difference`.
        """
        mean, variance = self.predict_difference(Xa, Xb, covariates, labels, people, at)
        return tf.exp(self._log_win(mean, variance, self._group_numbers(groups, mean)))

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return: [N, 3]")
    def predict_outcome(
        self,
        Xa: Any,
        Xb: Any,
        groups: Any = None,
        covariates: Any = None,
        people: Any = None,
        at: Any = None,
        labels: Any = None,
    ) -> tf.Tensor:
        """Probabilities that each item of Xa (N, D) wins, ties or loses against Xb's, (N, 3).

        :param groups: as for `predict_duel`.
        """
        mean, variance = self.predict_difference(Xa, Xb, covariates, labels, people, at)
        number = self._group_numbers(groups, mean)
        won, tied, lost = (
            self._log_win(mean, variance, number),
            self._log_tie(mean, variance, number),
            self._log_win(-mean, variance, number),
        )
        return tf.exp(tf.stack([won, tied, lost], 1))

    def forecast_of(self, mean: Any, variance: Any, judge: Codes | None = None) -> Forecast:
        """What `predict` says of duels, from mean and variance of f(first) - f(second), (t,) each.

        :param judge: of each duel, where the model has noise by group.
        """
        number = None
        if judge is not None and self.noise_ratio is not None:
            number = known_codes(judge, self.duels.group_names or (), *_UNKNOWN_JUDGE).numbers
        m, v = as_float(mean), as_float(variance)
        levels = self.duels.levels
        if levels is not None:
            of, names, logs = GRADES, levels, self._log_grades(m, v, number)
        else:
            won, lost = (self._log_win(side, v, number) for side in (m, -m))
            of, names, columns = DUELS, (FIRST, SECOND), [won, lost]
            if self.margin is not None:
                of, names = OUTCOMES, (FIRST, TIE, SECOND)
                columns = [won, self._log_tie(m, v, number), lost]
            logs = tf.stack(columns, 1)
        return Forecast(of, logs.numpy(), names, m.numpy(), v.numpy())

    def as_known(self, events: Answers) -> Answers:
        """Questions with what is of account to the model alone: judges, people, blocks and labels
        by its own numbers, those that it does not know, of which warnings tell, below 0; its
        covariates.

        :raises ValueError: some of the covariates alone.
        """
        duels, judge, person, said = self.duels, None, None, None
        if self.noise_ratio is not None and events.judge is not None:
            judge = known_codes(events.judge, duels.group_names or (), *_UNKNOWN_JUDGE)
        if self.people and self._view is None and events.person is not None:
            person = known_codes(events.person, self.described_people, *_UNKNOWN_PERSON)
        labels = {
            column: known_codes(events.labels[column], duels.label_names[column], column, LEANS)
            for column in label_columns(self, events.labels)
        }
        names, there = duels.covariate_names, events.covariate_names
        missing = [name for name in names if name not in there]
        if len(missing) < len(names):
            for name in missing:
                raise ValueError(
                    f"The duels have no {name!r}, a covariate of the model, but "
                    f"{', '.join(map(repr, there))}; give them the covariates of the model, or "
                    "none."
                )
            assert events.covariates is not None
            values = events.covariates[:, [there.index(name) for name in names]]
            said = Covariates(values, names)
        block = known_blocks(self, events)
        return events.saying(
            judge=judge, person=person, labels=labels, covariates=said, block=block
        )

    def _forecast_of_duels(self, inputs: FloatArray, events: Answers) -> Forecast:
        """What `predict` says of some duels as the model knows them."""
        ends = events.pairs.T
        Xa, Xb = (inputs[end] for end in ends)
        if events.time is not None and self.row_layout.dated:
            Xa, Xb = self.dated(Xa, events.time), self.dated(Xb, events.time)
        # Not even rounding parts an item from itself.
        said, same = events.covariate_differences, ends[0] == ends[1]
        if said is not None:
            Xa, Xb = self.in_duels(Xa, Xb, said, self.levels_of(events.labels, len(events)))
            same &= ~said.any(1)
        pairs = self._pairs(Xa, Xb)
        if self.row_layout.numbered and said is not None:  # nor an effect of its own
            number = np.arange(pairs.shape[2]) == self.row_layout.number
            again = (ends[0] == ends[1])[:, None, None]
            pairs = tf.where(again & number, pairs[:, :1], pairs)
        if events.block is None:
            people = None if events.person is None else events.person.numbers
            moments = self._differences(pairs, people)
        else:
            moments = self._differences_in_blocks(pairs, events.block.numbers)
        mean, variance = np.where(same, 0.0, moments.numpy().T)
        return self.forecast_of(mean, variance, events.judge)

    @property
    def cuts(self) -> tf.Tensor | None:
        """(K,), ascending: by how much a utility, noise included, must exceed the other for each
        level of grades; the first is the margin, or 0 where ties are no level. None without."""
        return cuts_of(self.margin, self.cut_steps)

    # Natural logarithms from mean and variance of f(a) - f(b), (N,) each, a variance that rounding
    # has made negative counting as 0. `number` is that of each group, -1 for an unknown one, None
    # where all are.

    def _log_grades(self, mean: tf.Tensor, variance: tf.Tensor, number: Any = None) -> tf.Tensor:
        """Of each grade of a over b, worst first: (N, 2K + 1), (N, 2K) where ties are no level."""
        if self.tie_model == MARGIN_ONLY:
            lost, won = (self._log_win(side, variance, number) for side in (-mean, mean))
            return tf.stack([lost, self._log_tie(mean, variance, number), won], 1)
        top = len(self.cut_steps) + 1
        better: list[tuple[int | None, int]] = [(-k - 1, -k) for k in range(1, top)]
        better.append((None, -top))
        found = [self._log_between(mean, variance, *ends, number) for ends in better]
        worse = [self._log_between(-mean, variance, *ends, number) for ends in better]
        tied = [] if self.margin is None else [self._log_tie(mean, variance, number)]
        return tf.stack([*reversed(worse), *tied, *found], 1)

    def _log_win(self, mean: tf.Tensor, variance: tf.Tensor, number: Any = None) -> tf.Tensor:
        """That a beats b, (N,)."""
        if self.tie_model == MARGIN_ONLY:
            ahead = self._log_outcome(mean, variance, None, tf.zeros_like(mean), number)
            return ahead + tf.math.log1p(-tf.exp(self._log_tie(mean, variance, number)))
        return self._log_between(mean, variance, None, -1, number)

    def _log_tie(self, mean: tf.Tensor, variance: tf.Tensor, number: Any = None) -> tf.Tensor:
        """Of a tie, (N,); -inf without a margin."""
        if self.margin is None:
            return tf.fill(tf.shape(mean), tf.cast(-np.inf, mean.dtype))
        if self.tie_share is not None:
            return tf.math.log(self.tie_share + tf.zeros_like(mean))
        return self._log_between(mean, variance, -1, 1, number)

    def _log_between(
        self,
        mean: tf.Tensor,
        variance: tf.Tensor,
        lower: int | None,
        upper: int,
        number: IntArray | None,
    ) -> tf.Tensor:
        """That f(b) - f(a), noise included, lies between two cuts, (N,).

        :param lower: the number of the cut with its sign; None for no limit.
        :param upper: the same.
        """
        cuts, zeros = self.cuts, tf.zeros_like(mean)

        def at(cut: int | None) -> tf.Tensor | None:
            if cut is None or cuts is None:
                return None if cut is None else zeros
            return float(np.sign(cut)) * cuts[abs(cut) - 1] + zeros

        return self._log_outcome(mean, variance, at(lower), at(upper), number)

    def allow(self, **asked: Any) -> None:
        """Refuse what does not go together with this model, see `together.check`.

        :param asked: things asked of it, by name.
        :raises ValueError: the model has no form of one of them.
        """
        dated = self.row_layout.dated
        things = {
            "in_time": dated,
            "still": not dated,
            "tastes": self.taste is not None,
            "one_utility": self.taste is None,
            "logistic": not self.engine.link_function.has_normal_noise
            and f"the engine {self.engine!r}",
            "pair_effects": pair_effect(self.kernel) is not None,
            "margin_only": self.tie_model == MARGIN_ONLY,
            "blocks": self.approximation.has_blocks,
            "labels": self.approximation.labels is not None,
        }
        together.check(**{**things, **asked})

    def new_ratios(self) -> NoiseRatios:
        """By what noise and cuts of a duel to come are multiplied where its group is not known.

        :raises ValueError: `noise_ratio` or `cut_scale` with a prior that is not normal in its log.
        """
        return new_ratios(self.noise_ratio, self.cut_scale)

    def _log_outcome(
        self,
        mean: tf.Tensor,
        variance: tf.Tensor,
        lower: tf.Tensor | None,
        upper: tf.Tensor,
        number: IntArray | None,
    ) -> tf.Tensor:
        """log P(lower < f(b) - f(a) + noise < upper), (N,): at the noise of known groups, averaged
        over that of unknown ones."""
        link, variance = self.engine.link_function, tf.maximum(variance, tf.zeros_like(variance))
        noise = duel_noise(self.noise_variance) + tf.zeros_like(mean)
        if self.noise_ratio is None:
            return link.log_probability(-mean, variance, noise, lower, upper)
        if number is None:
            return _averaged(link, self.new_ratios(), -mean, variance, noise, lower, upper)
        new = np.flatnonzero(number < 0)
        # Unknown groups stand as the first one until they are averaged.
        ratio = tf.gather(tf.convert_to_tensor(self.noise_ratio), np.maximum(number, 0))
        low, high = lower, upper
        if self.cut_scale is not None:
            scale = tf.gather(tf.convert_to_tensor(self.cut_scale), np.maximum(number, 0))
            low, high = None if lower is None else scale * lower, scale * upper
        found = link.log_probability(-mean, variance, noise * ratio, low, high)
        if not len(new):
            return found
        some = [None if x is None else tf.gather(x, new) for x in (variance, noise, lower, upper)]
        averaged = _averaged(link, self.new_ratios(), -tf.gather(mean, new), *some)
        return tf.tensor_scatter_nd_update(found, new[:, None], averaged)

    def _group_numbers(self, groups: Any, like: tf.Tensor) -> IntArray | None:
        """The number of each pair's group, (N,), -1 where it is unknown; None without groups."""
        if groups is None:
            return None
        together.check(compiled=like.shape[0] is None, groups=True)
        return group_numbers(groups, like.shape[0], self.duels, self.noise_ratio is not None)

    @check_shapes("Xa: [N, D]", "Xb: [N, E]", "return[0]: [N]", "return[1]: [N]")
    def predict_difference(
        self,
        Xa: Any,
        Xb: Any,
        covariates: Any = None,
        labels: Any = None,
        people: Any = None,
        at: Any = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of f(a) - f(b) for pairs of items (N, D) and (N, D), (N,) each.

        With tastes it is the utility of one person: of somebody of whom nothing is known, unless
        `people` says of whom.

        :param covariates: (N, C) of the first less those of the second, where the model has any:
            then what they add is part of the difference. By default 0.
        :param labels: where labels lean by a covariate, a label for all pairs or (N,) labels by the
            name of their column; those left out, None and unknown ones, of which a warning tells,
            lean as the prior says.
        :param people: whose utility it is, for a model with tastes: a name for all pairs or (N,)
            names, None and unknown ones, of which a warning tells, for somebody of whom nothing is
            known.
        :param at: the date or (N,) dates of utilities that move in time, in days since 1970, as
            `datetime64` or as text; by default that of the last duel.
        :raises ValueError: any of these while a `tf.function` is traced, which takes items alone.
        """
        together.check(
            compiled=not tf.executing_eagerly(),
            covariates=covariates is not None,
            people=people is not None,
            date=at is not None,
        )
        if at is not None:
            Xa, Xb = self.dated(Xa, at), self.dated(Xb, at)
        if covariates is not None:
            numbers = self.levels_of(self.known_labels(labels, len(Xa)), len(Xa))
            Xa, Xb = self.in_duels(Xa, Xb, covariates, numbers)
        pairs = self._pairs(Xa, Xb)
        # The number of pairs is not known while a prediction is compiled.
        whose = None if people is None else self._person_numbers(people, len(pairs))
        both = self._differences(pairs, whose)
        return both[:, 0], both[:, 1]

    def _person_numbers(self, people: Any, pairs: int) -> IntArray | None:
        """(pairs,) of whose utility it is, -1 for somebody unknown; None where nobody said.

        :raises ValueError: people for a model without tastes.
        """
        if people is None:
            return None
        self.allow(people=True)
        return numbers_of(people, pairs, self.described_people, "people", *_UNKNOWN_PERSON)

    def scale_is_free(self) -> bool:
        """Whether kernel variance and noise are both trainable, though only their ratio counts."""
        names = gpflow.utilities.parameter_dict(self.kernel)
        free = any(p.trainable for name, p in names.items() if "variance" in name)
        return free and self.noise_variance.trainable

    # Inside.

    def _pairs(self, first: Any, second: Any) -> tf.Tensor:
        """Pairs of items as the kernel takes them, stacked: (N, 2, D)."""
        ahead = self._inputs(first)
        return tf.stack([ahead, self._inputs(second, before=tf.shape(ahead)[0])], 1)

    def _inputs(self, values: Any, before: Any = 0) -> tf.Tensor:
        """Items as the kernel takes them; `before` counts unknown items of the same call.

        They have the features, or these and the item's number, or all columns of a row.
        """
        inputs = tf.convert_to_tensor(values, dtype=gpflow.default_float())
        layout, found = self.row_layout, inputs.shape[-1]
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
            columns.append(self._dates(inputs, columns[-1]))
        if layout.covariates:
            first = layout.first_covariate
            given = inputs[:, first : layout.first_level]
            if found < layout.width:  # nothing is said of the duel
                given = tf.zeros([tf.shape(inputs)[0], layout.covariates], inputs.dtype)
            columns.append(given)
        columns += [known(layout.first_level + place) for place in range(layout.levels)]
        return tf.concat(columns, 1)

    def in_duels(
        self, Xa: Any, Xb: Any, covariates: Any, numbers: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Both items of duels as rows (N, …) that hold the covariates (N, C) of the first less
        those of the second, and the numbers of labels.

        :param numbers: as of `levels_of`.
        :raises ValueError: a model without covariates, or covariates of another shape.
        """
        layout = self.row_layout
        sides = [np.asarray(x, float) for x in (Xa, Xb)]
        n, c = len(sides[0]), layout.covariates
        together.check(covariates=True, no_covariates=not c)
        given = np.asarray(covariates, float)
        values = np.broadcast_to(given, (n, c)) if given.shape == (c,) else given
        hint = f", first less second of {', '.join(self.duels.covariate_names)}"
        values = as_numbers("covariates", values, n, c, hint=hint)
        rows = []
        for side, said in zip(sides, (values, np.zeros((n, c))), strict=True):
            more = [np.broadcast_to(said, (n, c)), numbers]
            rows.append(np.column_stack([self._before_covariates(side), *more]))
        return rows[0], rows[1]

    def known_labels(self, labels: Any, n: int) -> dict[str, Codes]:
        """Labels of n questions that lean, by their columns and by the numbers that the model has
        for them, below 0 for unknown ones, of which a warning tells.

        :param labels: as for `predict_difference`.
        :raises ValueError: a column by which nothing leans, or labels of another length.
        """
        found = {}
        for column, given in (labels or {}).items():
            check_choice("The column of labels", column, self.leaning.columns)
            every = one_each(f"labels of {column!r}", given, n).tolist()
            names = self.duels.label_names[column]
            found[column] = known_codes(Codes.of(every, column), names, column, LEANS)
        return found

    def levels_of(self, labels: Mapping[str, Codes], n: int) -> FloatArray:
        """The numbers of the labels of n questions that lean, (n, number of their columns), below 0
        for unknown ones.

        :param labels: by the numbers of the model, as of `known_labels`.
        """
        columns, none = self.leaning.columns, np.full(n, -1)
        found = [labels[column].numbers if column in labels else none for column in columns]
        return np.array(found, dtype=np.float64).reshape(len(columns), n).T

    def _before_covariates(self, rows: FloatArray) -> FloatArray:
        """Rows of items with all columns that stand before covariates, dates among them."""
        layout = self.row_layout
        if layout.numbered and rows.shape[1] == layout.features:
            rows = np.column_stack([rows, np.full(len(rows), -1.0)])
        return self._inputs(rows).numpy()[:, : layout.first_covariate] if layout.dated else rows

    def dated(self, rows: Any, at: Any) -> FloatArray:
        """Rows of items (N, D) or (N, D + 1) with their numbers, at a date or (N,) dates.

        :param at: as `Duels(times=)` has them; None leaves the rows as they are.
        :raises ValueError: a model whose utilities do not move in time; a date that is none.
        """
        rows = np.asarray(rows, float)
        if at is None:
            return rows
        self.allow(date=True)
        if rows.shape[1] == self.row_layout.features:
            rows = np.column_stack([rows, np.full(len(rows), -1.0)])
        given, n = np.asarray(at), len(rows)
        days = days_of(np.broadcast_to(given, (n,)) if given.ndim == 0 else given, n)
        return np.column_stack([rows[:, : self.row_layout.date], days])

    def _called(self, number: int) -> str:
        """An item in messages, by its name if it has one."""
        duels = self.duels
        names = names_of_rows(duels.item_ids, duels.item_rows)
        if names is None:
            return f"item {number}"
        return f"the item {shortened(names[int(np.argmax(duels.item == number))])}"

    def _dates(self, inputs: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        """The date of each row and that of its item's first slice, (N, 2): by default the last of
        all duels, and of a new item its own.

        :raises ValueError: a date before the first duel of an item whose utility begins there.
        """
        known = self._dated
        assert known is not None
        together.check(compiled=not tf.executing_eagerly(), in_time=True)
        if inputs.shape[-1] > self.row_layout.date:
            date = inputs[:, self.row_layout.date].numpy()
        else:
            date = np.full(inputs.shape[0], self.date)
        number = numbers[:, 0].numpy().astype(np.int64)
        old = (number >= 0) & (number < len(known.first))
        place = np.where(old, number, 0)
        begin = np.where(old & ~np.isnan(known.begin[place]), known.begin[place], date)
        term = time_term(self.kernel)
        if term is not None and not term.kernel.is_stationary:
            first = np.where(begin == date, date, known.first[place])
            # Within the first slice it is what it is at its date.
            for i in np.flatnonzero(date < np.minimum(first, begin))[:1]:
                raise ValueError(
                    f"Row {i} asks for {self._called(number[i])} on {date_text(date[i])}, before "
                    f"its first duel on {date_text(first[i])}, where a Wiener process of its own "
                    "begins; ask for a later date, or take a kernel that has always been, such as "
                    "Matern12()."
                )
            date = np.maximum(date, begin)
        return tf.constant(np.stack([date, begin], 1), inputs.dtype)

    def _check_numbers(self, numbers: np.ndarray) -> None:
        bad = np.flatnonzero((numbers > self.duels.item.max()) | (numbers != np.floor(numbers)))
        if bad.size:
            raise ValueError(
                f"The last column has {numbers[bad[0]]:g} in row {bad[0]}, which is not a row "
                f"number of an item; give 0 to {self.duels.item.max()}, or -1 for an unknown "
                "item."
            )


def _averaged(
    link: Link,
    ratios: NoiseRatios,
    mean: tf.Tensor,
    variance: tf.Tensor,
    noise: tf.Tensor,
    lower: tf.Tensor | None,
    upper: tf.Tensor,
) -> tf.Tensor:
    """Log of the average of `link.log_probability` over the ratios of noise and cuts, (N,)."""
    count, number = len(ratios.weights), mean.shape[0]
    # So many at once as take bounded memory; one where a graph does not know how many pairs.
    at_once = 1 if number is None else max(1, min(count, _AVERAGED_AT_ONCE // max(number, 1)))
    steps = -(-count // at_once)
    spare = steps * at_once - count
    factor, scale, weight = (
        tf.constant(np.pad(x, (0, spare), constant_values=by).reshape(steps, at_once), mean.dtype)
        for x, by in ((ratios.ratios, 1.0), (ratios.scales, 1.0), (ratios.weights, 0.0))
    )

    def tiled(values: tf.Tensor, by: tf.Tensor) -> tf.Tensor:
        return tf.reshape(by[:, None] * values, [-1])

    def add(k: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        one = tf.ones_like(factor[k])
        ends = (None if x is None else tiled(x, scale[k]) for x in (lower, upper))
        of_both = (tiled(mean, one), tiled(variance, one), tiled(noise, factor[k]))
        found = tf.reshape(link.log_probability(*of_both, *ends), [at_once, -1])
        found = tf.reduce_logsumexp(found + tf.math.log(weight[k])[:, None], 0)
        return k + 1, tfp.math.log_add_exp(total, found)

    nothing = tf.zeros_like(mean) - tf.constant(np.inf, mean.dtype)
    return tf.while_loop(lambda k, _: k < steps, add, (0, nothing))[1]
