"""Terms of the prior besides the kernel of the items: tastes of people, coefficients of covariates,
leans of judges and their like, and terms of one's own."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import gpflow
import numpy as np

from sparse_prefgp.covariances.coefficients import (
    CovariateTerm,
    EntryTerm,
    LeanTerm,
    TermOfDuels,
)
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.leaning import OF_LABELS, Leaning
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.models.known import described_by
from sparse_prefgp.models.parameters import LogParameter, half_t, take_by_name
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_choice, check_kind, check_number, check_shape
from sparse_prefgp.support.words import shortened

# Of a coefficient times the root mean square of its covariate, to begin from.
FIRST_VARIANCE = 0.25
# Each is an inducing value more: P has as many rows and columns.
MOST_COEFFICIENTS = 2000
# Share of the span of the duels after which an item that is new is a newcomer.
ENTERED_AFTER = 0.15


class Columns(NamedTuple):
    """Where a row says what: its layout, and whose columns those after the items are."""

    layout: RowLayout
    covariates: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """The columns of labels that terms look at, in the order of their numbers in a row."""
    levels: tuple[int, ...] | None = None
    """How many labels each has; None for those of the graph, which chunks have not all of."""

    def covariate(self, name: str) -> int:
        """The place in a row of a covariate.

        :raises ValueError: the duels have none of that name.
        """
        hint = "; name it (--covariate, covariates=)"
        check_choice("The covariate of a term", name, self.covariates, hint)
        return self.layout.first_covariate + self.covariates.index(name)

    def level(self, column: str) -> int:
        """The place in a row of the number of a label, below 0 for an unknown one.

        :raises ValueError: no term says in `labels` that it looks at them.
        """
        check_choice("The column of labels of a term", column, self.labels, "; name it in labels")
        return self.layout.first_level + self.labels.index(column)

    def each_level(self, column: str, covariate: str, variance: gpflow.Parameter) -> TermOfDuels:
        """The kernel of a number b_j ~ N(0, variance) of each label j, times a covariate."""
        level = self.level(column)
        levels = None if self.levels is None else self.levels[self.labels.index(column)]
        return LeanTerm(variance, self.covariate(covariate), level, levels)


class Effects(NamedTuple):
    """A number of each level of a column of labels, times a covariate."""

    by: str
    """The column of labels."""
    covariate: str
    place: int
    """Of the covariate in a row."""
    level: int
    """The place in a row of the number of the label."""
    variance: gpflow.Parameter


class Term(gpflow.Module, metaclass=ABCMeta):
    """A term of the prior, beyond the kernel of the items. To be derived from.

    A term of one's own keeps what its constructor takes in attributes of the same names, has
    `gpflow.Parameter`s, and says its kernels on rows. A model has its own copy, made for its duels
    (`on`), which shares the parameters that are there already.
    """

    thing: ClassVar[str | None] = None
    """What it is in the table of what goes together, if anything does not."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of labels of duels (`Duels(labels=)`) that it looks at."""
        return ()

    def on(self, duels: Duels) -> Self:
        """This term with the parameters that some duels need; those that are there stay.

        :param duels: `Duels`, or what stands for them where they are streamed.
        :raises ValueError: duels without what it looks at.
        """
        return self

    @abstractmethod
    def kernels(self, columns: Columns) -> Sequence[TermOfDuels]:
        """Kernels on rows of duels, each with finitely many coefficients."""

    def things(self, duels: Any) -> dict[str, Any]:
        """What it brings into a model besides its `thing`, by the names of `support.together`."""
        return {}

    def __repr__(self) -> str:
        return described_by(self)


class Coefficients(Term):
    """A coefficient `beta_c ~ N(0, variance_c)` of each covariate of the duels.

    A model of duels with covariates has this term, whether it is named or not.

    :param variance: (C,) prior variances to begin from, or one for all; by default 0.25 over the
        mean square of each covariate. They are learned, the root of each with a half-t prior of
        that scale. For other duels those of known covariates stay.
    """

    _names: tuple[str, ...] | None = None

    def __init__(self, variance: Any = None) -> None:
        super().__init__()
        self.variance = variance

    def on(self, duels: Duels) -> Self:
        squares, given = duels.covariate_squares, self.variance
        made = copy.copy(self)
        made._names = names = duels.covariate_names
        learned = isinstance(given, gpflow.Parameter)
        if squares is None:
            made.variance = None if learned else given
            return made
        if learned and self._names in (None, names):
            check_shape("The variance of Coefficients", given.numpy(), len(names))
            return made
        if learned:
            given = None
        for c in np.flatnonzero(squares == 0.0)[:1] if given is None else ():
            raise ValueError(
                f"The covariate {duels.covariate_names[c]!r} is the same for all sides of each "
                "event, so that nothing can be learned of it; leave it out, or give "
                "Coefficients(variance)."
            )
        array = np.asarray(FIRST_VARIANCE / squares if given is None else given)
        good = array.shape in ((), squares.shape) and array.dtype.kind in "iuf"
        if not good or not np.all(array > 0.0):
            raise ValueError(
                f"The variance of Coefficients is {shortened(given)}; give a positive number, or "
                f"one for each of the {len(squares)} covariates."
            )
        made.variance = variance_parameter(np.broadcast_to(array, squares.shape))
        if learned:
            take_by_name(made.variance, names, self.variance, self._names)
            gpflow.set_trainable(made.variance, self.variance.trainable)
        return made

    def kernels(self, columns: Columns) -> Sequence[TermOfDuels]:
        first, count = columns.layout.first_covariate, columns.layout.covariates
        return [CovariateTerm(self.variance, range(first, first + count))] if count else []

    def things(self, duels: Any) -> dict[str, Any]:
        return {"covariate_variance": not isinstance(self.variance, gpflow.Parameter)}


class Lean(Term):
    """By a covariate each level j of a column of labels, such as each judge, leans to a side beyond
    the common coefficient: a number `b_j ~ N(0, variance)` each.

    :param covariate: its name; of one alone it need not be named.
    :param by: the column of labels (`Duels(labels=)`).
    :param variance: to begin from; by default 0.25 over the mean square of the covariate. It is
        learned, its root with a half-t prior of that scale.
    """

    def __init__(
        self, covariate: str | None = None, by: str = "judge", variance: Any = None
    ) -> None:
        super().__init__()
        check_kind("by of a Lean", by, str, "the name of a column of labels")
        check_kind("covariate of a Lean", covariate, str | None, "the name of a covariate")
        self.covariate, self.by, self.variance = covariate, by, variance

    @classmethod
    def several(cls, said: Any, covariates: Sequence[str]) -> list[Lean]:
        """Those of "COLUMN:COVARIATE", or of pairs of both, one or several of either.

        :raises ValueError: what `Leaning.of` raises.
        """
        return [cls(covariate, column) for column, covariate in Leaning.of(said, covariates).pairs]

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.by,)

    def on(self, duels: Duels) -> Self:
        names, covariate = duels.covariate_names, self.covariate
        if covariate is None:
            covariate = names[0] if len(names) == 1 else ""
        Leaning.of([(self.by, covariate)], names, duels.label_names)  # refuses what there is not
        made = copy.copy(self)
        made.covariate = covariate
        if not isinstance(self.variance, gpflow.Parameter):
            squares = duels.covariate_squares
            assert squares is not None
            first = self.variance
            if first is None:
                first = FIRST_VARIANCE / squares[names.index(covariate)]
            check_number("The variance of a Lean", first, above=0.0)
            made.variance = variance_parameter(np.array(float(first)))
        return made

    def kernels(self, columns: Columns) -> Sequence[TermOfDuels]:
        assert self.covariate is not None
        return [columns.each_level(self.by, self.covariate, self.variance)]


class EntryLevel(Term):
    """The level at which newcomers come in, next to utilities that move in time (`ItemInTime`): a
    coefficient `b ~ N(0, variance)` that all items share whose first duel is after a date.

    An item that the model has not met yet is a newcomer at its date.

    :param after: the date, in days since 1970; by default 15 % of the span of the duels after the
        first one.
    :param variance: to begin from; by default 0.25. It is learned, its root with a half-t prior of
        that scale.
    :raises ValueError: a variance that is not above 0; a date that is no number.
    """

    thing = "entry_level"

    def __init__(self, after: float | None = None, variance: Any = None) -> None:
        super().__init__()
        if after is not None:
            check_number("The date of an EntryLevel", after, hint=", of days since 1970")
        self.after, self.variance = after, variance

    def on(self, duels: Any) -> Self:
        made = copy.copy(self)
        if made.after is None:
            first, last = float(np.min(duels.times)), float(np.max(duels.times))
            made.after = first + ENTERED_AFTER * (last - first)
        if not isinstance(self.variance, gpflow.Parameter):
            first_variance = FIRST_VARIANCE if self.variance is None else self.variance
            check_number("The variance of an EntryLevel", first_variance, above=0.0)
            made.variance = variance_parameter(np.array([float(first_variance)]))
        return made

    def kernels(self, columns: Columns) -> Sequence[TermOfDuels]:
        assert self.after is not None
        return [EntryTerm(self.variance, columns.layout.date + 1, self.after)]


class Taste(Term):
    """What each person of the duels (`Duels(people=)`) prefers besides what all do.

    `f_u = g + h_u`, `g ~ GP(0, kernel of the model)` shared and `h_u ~ GP(0, kernel)` independent
    between people, integrated out.

    :param kernel: any GPflow kernel on the items, `ItemEffect` too.
    :param by_features: where people have features (`Duels(people_features=)`), the prior variance v
        of the coefficients of `s_u' W x`, which they then prefer besides, `W_jd ~ N(0, v)`, for
        features s_u of a person, less their mean, and x of an item; learned, its root with a
        half-t prior of that scale, by default 0.25 over what the features make of it.
    """

    thing = "tastes"

    def __init__(self, kernel: gpflow.kernels.Kernel, by_features: Any = None) -> None:
        super().__init__()
        check_kind("The kernel of a Taste", kernel, gpflow.kernels.Kernel, "a GPflow kernel")
        self.kernel, self.by_features = kernel, by_features

    def on(self, duels: Any) -> Self:
        features, given = getattr(duels, "people_features", None), self.by_features
        made = copy.copy(self)
        if features is None:
            made.by_features = None
        if features is None or isinstance(given, gpflow.Parameter):
            return made
        of_items, of_people = duels.num_features, features.values.shape[1]
        if not 0 < of_items * of_people <= MOST_COEFFICIENTS:
            raise ValueError(
                f"The people have {of_people:,} features and the items {of_items:,}, which makes "
                f"{of_items * of_people:,} coefficients, and there can be 1 to "
                f"{MOST_COEFFICIENTS:,}; leave the features of people out, or reduce those of the "
                "items."
            )
        if given is None:
            theirs = features.of(duels.people_names or ())
            size = np.sum(np.var(theirs, 0)) * np.sum(np.var(duels.items, 0))
            if not size > 0.0:
                raise ValueError(
                    "All people have the same features, or all items, so that nothing can be "
                    "learned of people by these; leave the features of people out."
                )
            given = FIRST_VARIANCE / size
        check_number("by_features", given, above=0.0)
        made.by_features = variance_parameter(np.array(float(given)))
        return made

    def kernels(self, columns: Columns) -> Sequence[TermOfDuels]:
        return ()

    def things(self, duels: Any) -> dict[str, Any]:
        asked = self.by_features is not None
        unknown = getattr(duels, "people_features", None) is None
        new = asked and not isinstance(self.by_features, gpflow.Parameter)
        return {"people_variance": new, "no_tastes_by_features": unknown}


class Terms(tuple[Term, ...]):
    """The terms of a model, made for its duels."""

    @classmethod
    def of(cls, terms: Iterable[Term], duels: Duels) -> Terms:
        """Those that were named, and coefficients where there are covariates.

        :raises ValueError: two of a kind that there is once, and what `Term.on` raises.
        """
        named = list(terms)
        if duels.covariate_names and not any(isinstance(x, Coefficients) for x in named):
            named = [Coefficients(), *named]
        for kind in (Coefficients, Taste):
            if sum(isinstance(term, kind) for term in named) > 1:
                raise ValueError(f"There are several {kind.__name__} terms; give one.")
        made = cls(term.on(duels) for term in named)
        for term in made:
            check_kind(f"labels of {term!r}", term.labels, tuple | list, "names of columns")
        for column in made.labels:
            check_choice("The column of labels", column, duels.label_names, OF_LABELS)
        pairs = [(lean.by, lean.covariate) for lean in made.parts(Lean)]
        Leaning.of(pairs, duels.covariate_names)  # refuses the same lean twice
        return made

    def check(self, columns: Columns) -> None:
        """Refuse kernels of one's own terms that no inference could take.

        :param columns: of the rows of a model.
        :raises ValueError: what is no kernel on rows of duels, or a term or an effect twice.
        """
        for i, term in enumerate(self):
            kernels, hint = term.kernels(columns), "a list of kernels"
            check_kind(f"What kernels of {term!r} gives", kernels, list | tuple, hint)
            for kernel in kernels:
                hint = "what columns.each_level makes, or a TermOfDuels"
                check_kind(f"A kernel of {term!r}", kernel, TermOfDuels, hint)
                if kernel.level is not None and not hasattr(kernel, "numbers"):
                    raise ValueError(
                        f"The kernel {type(kernel).__name__} of {term!r} has a level and no "
                        "numbers(graph) of its labels; leave it to columns.each_level."
                    )
            if any(term is other for other in self[:i]):
                raise ValueError(f"The term {term!r} is there twice; once is enough.")
        effects = [(effect.by, effect.covariate) for effect in self.effects(columns)]
        for by, covariate in effects:
            if effects.count((by, covariate)) > 1:
                raise ValueError(
                    f"Two terms are effects of {by!r} times {covariate!r}; leave one of them out."
                )

    def parts(self, kind: type[Term]) -> list[Any]:
        """Those of a kind."""
        return [term for term in self if isinstance(term, kind)]

    @property
    def of_people(self) -> Taste | None:
        """The taste; None for one utility for all."""
        return next(iter(self.parts(Taste)), None)

    @property
    def taste(self) -> gpflow.kernels.Kernel | None:
        """The kernel of the taste; None for one utility for all."""
        return None if self.of_people is None else self.of_people.kernel

    @property
    def by_features(self) -> gpflow.Parameter | None:
        """The variance of what features of people say; None without."""
        return None if self.of_people is None else self.of_people.by_features

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of labels that they look at, in the order of their numbers in a row."""
        return tuple(dict.fromkeys(column for term in self for column in term.labels))

    def names(self, duels: Duels) -> dict[str, tuple[Hashable, ...]]:
        """The labels of each of these columns, by number."""
        return {column: duels.label_names[column] for column in self.labels}

    def kernels(self, columns: Columns) -> list[TermOfDuels]:
        """All kernels on rows."""
        return [kernel for term in self for kernel in term.kernels(columns)]

    def effects(self, columns: Columns) -> list[Effects]:
        """Those of levels, of leans and of one's own."""
        layout, effects = columns.layout, []
        for kernel in self.kernels(columns) if layout.levels else ():
            if kernel.level is not None:
                covariate, level = kernel.columns
                name = columns.covariates[covariate - layout.first_covariate]
                label = columns.labels[level - layout.first_level]
                effects.append(Effects(label, name, covariate, level, kernel.variance))
        return effects


def variance_parameter(value: FloatArray) -> LogParameter:
    """The variance of coefficients, with a prior of its root that is likeliest where it begins."""
    # One coefficient says too little of the variance that it was drawn with: without a prior the
    # most likely one is often 0, and its interval a point.
    return LogParameter.made(value, half_t(np.sqrt(value)), 0.5)
