"""Raw columns to model features, recorded so that new items are converted the same way."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.flags import IMPUTATION_HINT, Where, refuse_cells
from sparse_prefgp.data.kept import in_tuples
from sparse_prefgp.data.reduction import (
    MOST_FEATURES,
    NUMBERS,
    VECTOR,
    InputBlock,
    Part,
    Reduction,
)
from sparse_prefgp.data.texts import SCORE, TextTransform
from sparse_prefgp.data.vectors import VectorRows, stacked, vector_rows
from sparse_prefgp.data.word_score import Won
from sparse_prefgp.support.arrays import AnyArray, FloatArray, Texts, first_true
from sparse_prefgp.support.extras import needed
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.plain import plain as plain_of
from sparse_prefgp.support.words import and_so, counted, id_text, shortened

# What a date begins with; numbers such as 20240131 are numbers.
_ISO_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}($|[T ])")
_LEAVE_OUT = ", or leave the column out with ignore= (--ignore)"
_WRITE_DATES = "write dates such as 2024-01-31"
AS_NUMBERS = "make it a number, in pandas with str.replace and astype(float)"


def _plain_row(i: int) -> str:
    return f"row {i} (counted from 0)"


@dataclass(frozen=True)
class FeatureTransform:
    """Numeric columns standardised, categorical columns one-hot encoded, constant ones dropped.

    Vectors, and more than 64 features that are not of texts, are reduced to a few directions,
    `pc_1`, `pc_2`, …, which follow what stays a feature of its own.
    """

    numeric: tuple[str, ...]
    """Names of the numeric columns, in order of the output."""
    mean: tuple[float, ...]
    """Mean of each numeric column, in its raw units."""
    scale: tuple[float, ...]
    """Standard deviation of each numeric column, in its raw units."""
    categorical: tuple[str, ...] = ()
    """Names of the categorical columns, which follow the numeric ones."""
    categories: tuple[tuple[str, ...], ...] = ()
    """The known levels of each, one 0/1 output column per level."""
    dropped: tuple[str, ...] = ()
    """Names of raw columns left out because they were constant."""
    dates: tuple[str, ...] = ()
    """Those of the numeric columns that hold dates, in days since 1970-01-01."""
    reduced: Reduced | None = None
    """What is reduced, and how; None where every feature stands for itself."""
    texts: tuple[TextColumn, ...] = ()
    """Columns of texts, whose features follow the levels."""

    @classmethod
    def fit(
        cls,
        frame: Any,
        numeric: Sequence[str],
        categorical: Sequence[str] = (),
        where: Where = _plain_row,
        *,
        vectors: Sequence[str] = (),
        texts: Sequence[str] = (),
        apart: Sequence[str] = (),
        items: int | None = None,
        won: Won | None = None,
    ) -> FeatureTransform:
        """Learn means, standard deviations, levels and directions from the rows of `frame`, and of
        texts which words win.

        :param frame: a data frame, or a mapping from column name to values, with n training items.
        :param numeric: columns to standardise.
        :param categorical: columns to encode, read as text.
        :param where: how a message names row i.
        :param vectors: columns of vectors, in a mapping (n, E) arrays.
        :param texts: columns of texts, of which features are made.
        :param apart: numeric and categorical columns that are features of their own however many
            there are.
        :param items: how many items the rows are of, by default n; 8 for each direction.
        :param won: training duels between rows of `frame`, for a score of the words of each text;
            by default there is none.
        :raises ValueError: a missing column, a value that is missing, not finite or not a number,
            or columns of which none varies.
        """
        found = cls._of_columns(frame, numeric, categorical, where)
        made = {name: TextTransform.fit(texts_in(frame, name), won) for name in texts}
        found = replace(
            found,
            texts=tuple(TextColumn(name, one) for name, one in made.items() if one.names),
            dropped=(*found.dropped, *(name for name, one in made.items() if not one.names)),
        )
        features = found.feature_names
        if found.dropped and not features and not vectors:
            raise ValueError(
                "Every feature column is constant over the training items "
                f"({', '.join(found.dropped)}), so the items cannot be told apart; add a feature "
                "that varies."
            )
        # Texts have directions of their own words already.
        inputs = found._without((*apart, *texts))
        if len(inputs.feature_names) <= MOST_FEATURES:
            if not vectors:
                return found
            # Next to a vector they would be some columns of hundreds, and lost among them.
            inputs = NO_FEATURES
        reduced = Reduced.fit(frame, inputs, vectors, where, items)
        rest = found._without(inputs.raw_columns)
        return replace(rest, dropped=found.dropped, reduced=reduced)

    @classmethod
    def _of_columns(
        cls,
        frame: Any,
        numeric: Sequence[str],
        categorical: Sequence[str],
        where: Where,
    ) -> FeatureTransform:
        """Numbers and levels, each a feature of its own."""
        numbers: dict[str, tuple[float, float]] = {}
        dropped: list[str] = []
        dates: list[str] = []
        for name in numeric:
            is_date = name in frame and holds_dates(frame[name])
            values = numeric_column(frame, name, where, is_date)
            low, high = float(values.min()), float(values.max())
            # Relative, so that rounding noise on one value is not blown up to unit variance.
            if high - low <= 1e-14 * max(-low, high):
                dropped.append(name)
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                mean, scale = float(values.mean()), float(values.std())
            if not (np.isfinite(mean) and np.isfinite(scale) and scale > 0.0):
                raise ValueError(
                    f"Column {name!r} has values from {low} to {high}, which "
                    "cannot be standardised in double precision; rescale it or leave it out."
                )
            numbers[name] = mean, scale
            dates += [name] if is_date else []
        levels: dict[str, tuple[str, ...]] = {}
        for name in categorical:
            text = text_column(frame, name, where)
            found = tuple(sorted(set(text)))
            if len(found) == 1:
                dropped.append(name)
            else:
                levels[name] = found
        return cls._of(numbers, levels, dropped=tuple(dropped), dates=tuple(dates))

    @classmethod
    def _of(
        cls,
        numbers: Mapping[str, tuple[float, float]],
        levels: Mapping[str, tuple[str, ...]],
        **more: Any,
    ) -> FeatureTransform:
        """Of columns by their names: mean and scale of each, and levels of each."""
        return cls(
            tuple(numbers),
            tuple(mean for mean, _ in numbers.values()),
            tuple(scale for _, scale in numbers.values()),
            tuple(levels),
            tuple(levels.values()),
            **more,
        )

    def _without(self, names: Sequence[str]) -> FeatureTransform:
        """The part of what stands for itself that is not of these raw columns."""
        levels = self.known_levels.items()
        return self._of(
            {name: units for name, units in self.known_units.items() if name not in names},
            {name: of_column for name, of_column in levels if name not in names},
            dates=tuple(name for name in self.dates if name not in names),
            texts=tuple(one for one in self.texts if one.column not in names),
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the D output columns; a level of a categorical column is `column=level`."""
        coded = (f"{name}={one}" for name, levels in self.known_levels.items() for one in levels)
        said = (f"{one.column}: {name}" for one in self.texts for name in one.transform.names)
        directions = () if self.reduced is None else self.reduced.reduction.names
        return (*self.numeric, *coded, *said, *directions)

    @property
    def reduction(self) -> Reduction | None:
        """The directions that features were reduced to; None without."""
        return None if self.reduced is None else self.reduced.reduction

    @property
    def blocks(self) -> tuple[InputBlock, ...]:
        """What the reduction was made of: name, kind and width of each; none without one."""
        return () if self.reduced is None else self.reduced.reduction.blocks

    @property
    def raw_columns(self) -> tuple[str, ...]:
        """All raw columns that features are made of."""
        inner = () if self.reduced is None else self.reduced.names
        return (*self.numeric, *self.categorical, *(one.column for one in self.texts), *inner)

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """All numeric raw columns, reduced or not."""
        return (*self.numeric, *self._inner.numeric)

    @property
    def categorical_columns(self) -> tuple[str, ...]:
        """All categorical raw columns, reduced or not."""
        return (*self.categorical, *self._inner.categorical)

    @property
    def _inner(self) -> FeatureTransform:
        """What of numbers and categories is reduced."""
        return NO_FEATURES if self.reduced is None else self.reduced.inputs

    def stand_in(self, name: str) -> Any:
        """Some value that the raw column can have, whatever table is at hand."""
        for one in (self, self._inner):
            if name in one.numeric:
                return one.known_units[name][0]
            if name in one.categorical:
                return one.levels(name)[0]
        return ""

    @property
    def known_units(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation of each numeric column."""
        units = zip(self.mean, self.scale, strict=True)
        return dict(zip(self.numeric, units, strict=True))

    @property
    def known_levels(self) -> dict[str, tuple[str, ...]]:
        """Those of each categorical column."""
        return dict(zip(self.categorical, self.categories, strict=True))

    def levels(self, name: str) -> tuple[str, ...]:
        """The known levels of a categorical column."""
        return self.known_levels[name]

    def units(self, name: str) -> tuple[float, float] | None:
        """Mean and standard deviation of a numeric column, or of a statistic of a text; None of
        what has no units."""
        if name in self.numeric:
            return self.known_units[name]
        for text in self.texts:
            if name in text.made_of[: len(text.transform.statistics)]:
                j = text.made_of.index(name)
                return float(text.transform.mean[j]), float(text.transform.scale[j])
        return None

    @property
    def columns_made_of(self) -> tuple[str, ...]:
        """The raw column that each of the D output columns is made of, one name for all that are
        made by the reduction; of texts the statistic or the score, and one name for all directions
        of words.
        """
        levels = (name for name, levels in self.known_levels.items() for _ in levels)
        said = (name for one in self.texts for name in one.made_of)
        directions = () if self.reduced is None else (self.reduced.label,) * self.reduced.size
        return (*self.numeric, *levels, *said, *directions)

    @property
    def beyond_numbers(self) -> str | None:
        """What features are made of that are no numbers of the items, the first; None without."""
        if self.categorical:
            return f"the categorical column {self.categorical[0]!r}"
        if self.texts:
            return f"the texts {self.texts[0].column!r}"
        return None if self.reduced is None else f"directions of a reduction ({self.reduced})"

    @property
    def text_columns(self) -> tuple[str, ...]:
        """All raw columns of texts."""
        return tuple(one.column for one in self.texts)

    @property
    def scores(self) -> tuple[str, ...]:
        """The features that are scores of the words of texts."""
        return tuple(one.score for one in self.texts if one.transform.score is not None)

    @property
    def vectors(self) -> tuple[str, ...]:
        """Raw columns of vectors, all of which are reduced."""
        return () if self.reduced is None else self.reduced.vectors

    def apply(self, frame: Any, where: Where = _plain_row) -> FloatArray:
        """Features (n, D) of raw items: a data frame, or a mapping from column name to values.

        Without any column, as for items without features, it must be a data frame.

        A level that was not seen in training is encoded as none of the known ones, with a
        `UserWarning` that counts them.

        :raises ValueError: a missing feature column, or a value that is missing, not finite or not
            a number.
        :raises NotEnoughMemory: more than is free.
        """
        width = len(self.columns_made_of)
        ask(
            2 * 8 * len(frame) * width,
            f"{width:,} features of {len(frame):,} items",
            "give fewer features (--features), or fewer items at a time",
        )
        columns = [
            (numeric_column(frame, name, where, name in self.dates, "")[:, None] - mean) / scale
            for name, (mean, scale) in self.known_units.items()
        ]
        for name, levels in self.known_levels.items():
            text = text_column(frame, name, where, levels)
            columns.append(_one_hot(name, levels, text))
        for one in self.texts:
            columns.append(one.transform.apply(texts_in(frame, one.column)))
        if self.reduced is not None:
            columns.append(self.reduced.apply(frame, where))
        return _joined(columns, len(frame))

    def convert(self, features: FloatArray, made_by: FeatureTransform) -> FloatArray:
        """Features (n, D) of items whose features (n, E) another transform made.

        Raw values are taken back by the other one and standardised again by this one; what both
        make alike stays as it is, to the bit. Raw columns that only the other one has are left out.
        What was reduced has no way back, so that both have to reduce alike.
        A warning names levels that only the other one knows, as `apply` does.

        :raises ValueError: a raw column that the other one lacks, left out as constant or has in
            another form; an item with a level that the other one did not know; features that the
            other one cannot have made.
        """
        if made_by == self:
            return features
        if features.shape[1] != len(made_by.feature_names):
            raise ValueError(
                f"The items have {features.shape[1]} columns, but the transform that they record "
                f"makes {len(made_by.feature_names)}; give the transform that made them, or none."
            )
        columns = []
        for name, (mean, scale) in self.known_units.items():
            j = made_by._place(name, made_by.numeric)
            if (name in self.dates) != (name in made_by.dates):
                kinds = ("numbers", "dates")
                raise ValueError(
                    f"The model has {kinds[name in self.dates]} in the feature {name!r}, but the "
                    f"duels have {kinds[name in made_by.dates]}; give both alike."
                )
            values, (their_mean, their_scale) = features[:, j], (made_by.mean[j], made_by.scale[j])
            if (their_mean, their_scale) != (mean, scale):
                values = ((their_mean - mean) + their_scale * values) / scale
            columns.append(values[:, None])
        ends = len(made_by.numeric) + np.cumsum([0, *map(len, made_by.categories)])
        for name, levels in self.known_levels.items():
            j = made_by._place(name, made_by.categorical)
            block, theirs = features[:, ends[j] : ends[j + 1]], made_by.categories[j]
            if theirs == levels:
                columns.append(block)
                continue
            for i in first_true(~block.any(1)):
                raise ValueError(
                    f"Item {i} (counted from 0) has a level of {name!r} that its duels did "
                    "not know, so that it cannot be told which; give the items as a raw table."
                )
            text = np.array(theirs, dtype=object)[block.argmax(1)]
            columns.append(_one_hot(name, levels, text))
        start, at = int(ends[-1]), {}
        for one in made_by.texts:
            at[one] = start
            start += len(one.transform.names)
        for mine in self.texts:
            if mine not in at:
                raise ValueError(
                    f"The model has made features of the texts of {mine.column!r}, and the items "
                    "do not have the same ones; give them as a raw table, or make them with "
                    "transform=model.duels.transform."
                )
            columns.append(features[:, at[mine] : at[mine] + len(mine.transform.names)])
        if self.reduced is not None:
            if self.reduced != made_by.reduced:
                names = ", ".join(dict.fromkeys(block.name for block in self.blocks))
                raise ValueError(
                    f"The model has reduced {shortened(names)} to {self.reduced.reduction.size} "
                    "directions, and the items were not reduced to the same ones; give them as a "
                    "raw table, or use standardised(transform=model.duels.transform) of read_duels."
                )
            columns.append(features[:, start:])
        return _joined(columns, len(features))

    def _place(self, name: str, columns: tuple[str, ...]) -> int:
        """Where a raw column is among the numeric or the categorical ones."""
        if name in columns:
            return columns.index(name)
        why = "have none of that name"
        if self.reduced is not None and name in self.reduced.names:
            why = "have reduced it along with others"
        elif name in self.dropped:
            why = "left it out as constant, without its value"
        elif name in (*self.numeric, *self.categorical):
            why = f"have it as {'numbers' if name in self.numeric else 'categories'}"
        raise ValueError(
            f"The model has the feature {name!r}, but the duels {why}; give the items as a raw "
            "table with that column."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings, ready for JSON; floats keep every bit.

        Of a reduction the rest is in `arrays`.
        """
        plain = {name: plain_of(getattr(self, name)) for name in _ALWAYS}
        if self.texts:
            plain["texts"] = [
                {"column": one.column, **one.transform.to_dict()} for one in self.texts
            ]
        if self.reduced is not None:
            plain["reduced"] = self.reduced.to_dict()
        return plain

    def arrays(self) -> dict[str, AnyArray]:
        """What belongs to `to_dict` besides, by names that begin with `transform_`; often none."""
        found = {} if self.reduced is None else self.reduced.arrays()
        for k, one in enumerate(self.texts):
            each = one.transform.arrays().items()
            found |= {f"{_PREFIX}text{k}_{name}": array for name, array in each}
        return found

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], arrays: Mapping[str, AnyArray] | None = None
    ) -> FeatureTransform:
        """The inverse of `to_dict` and `arrays`.

        :param arrays: those of `arrays`, perhaps among others.
        :raises ValueError: a missing entry.
        """
        try:
            reduced = values.get("reduced")
            return cls(
                **{name: in_tuples(values[name]) for name in _ALWAYS[:-1]},
                dates=tuple(values.get("dates", ())),
                reduced=None if reduced is None else Reduced.from_dict(reduced, arrays or {}),
                texts=tuple(
                    TextColumn(
                        one["column"],
                        TextTransform.from_dict(one, _beginning(f"{_PREFIX}text{k}_", arrays)),
                    )
                    for k, one in enumerate(values.get("texts", ()))
                ),
            )
        except KeyError as error:
            raise ValueError(
                f"The recorded feature transform has no entry {error.args[0]!r}; write it again "
                "with to_dict."
            ) from None


@dataclass(frozen=True)
class Reduced:
    """Raw columns that are not features of their own, and the directions made of them."""

    inputs: FeatureTransform
    """Numbers and levels, as they would be features; the first columns of the reduction."""
    vectors: tuple[str, ...]
    """Columns of vectors, which follow."""
    reduction: Reduction

    @classmethod
    def fit(
        cls,
        frame: Any,
        inputs: FeatureTransform,
        vectors: Sequence[str],
        where: Where,
        items: int | None = None,
    ) -> Reduced:
        """Find the directions of the rows of `frame`, see `Reduction.fit`."""
        parts = _parts(frame, inputs, vectors, where)
        names = (*inputs.numeric, *inputs.categorical, *vectors)
        blocks = [
            InputBlock(name, VECTOR, part.width)
            if isinstance(part, VectorRows)
            else InputBlock(name, NUMBERS, part.shape[1])
            for name, part in zip(names, parts, strict=True)
        ]
        return cls(inputs, tuple(vectors), Reduction.fit(parts, blocks, where, items))

    @property
    def names(self) -> tuple[str, ...]:
        """The raw columns."""
        return (*self.inputs.raw_columns, *self.vectors)

    @property
    def size(self) -> int:
        """How many directions there are."""
        return self.reduction.size

    def __str__(self) -> str:
        share = 100.0 * self.reduction.explained
        return f"{self.made_of} -> {counted(self.size, 'direction')}, {share:.0f} % of the variance"

    @property
    def made_of(self) -> str:
        """The blocks in words, such as `vector e (768) and 3 columns`."""
        blocks = self.reduction.blocks
        said = [f"vector {name} ({width:,})" for name, kind, width in blocks if kind == VECTOR]
        columns = sum(block.width for block in blocks if block.kind == NUMBERS)
        return and_so([*said, *([counted(columns, "column")] if columns else [])])

    @property
    def label(self) -> str:
        """One name for all directions: that of the only raw column, or `reduced features`."""
        return self.names[0] if len(self.names) == 1 else "reduced features"

    def apply(self, frame: Any, where: Where) -> FloatArray:
        """Scores (n, r), as `FeatureTransform.apply`."""
        return self.reduction.apply(_parts(frame, self.inputs, self.vectors, where), where)

    def to_dict(self) -> dict[str, Any]:
        """As of a `FeatureTransform`."""
        return {
            "inputs": self.inputs.to_dict(),
            "vectors": list(self.vectors),
            "reduction": self.reduction.to_dict(),
        }

    def arrays(self) -> dict[str, AnyArray]:
        """As of a `FeatureTransform`."""
        return {f"{_PREFIX}{name}": array for name, array in self.reduction.arrays().items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Reduced:
        """The inverse."""
        return cls(
            FeatureTransform.from_dict(values["inputs"]),
            tuple(values["vectors"]),
            Reduction.from_dict(values["reduction"], _beginning(_PREFIX, arrays)),
        )


class TextColumn(NamedTuple):
    """A column of texts, and what makes features of it."""

    column: str
    transform: TextTransform

    @property
    def made_of(self) -> tuple[str, ...]:
        """What each feature is made of: a statistic, the words, or those that won."""
        statistics = (f"{self.column}: {name}" for name in self.transform.statistics)
        score = () if self.transform.score is None else (self.score,)
        return (*statistics, *(self.words,) * self.transform.directions.size, *score)

    @property
    def words(self) -> str:
        """What the directions of its words are called together."""
        return f"{self.column}: words"

    @property
    def score(self) -> str:
        """What the score of its words is called, where there is one."""
        return f"{self.column}: {SCORE}"


def _beginning(prefix: str, arrays: Mapping[str, AnyArray] | None) -> dict[str, AnyArray]:
    """The arrays whose names begin so, by the rest of their names."""
    each = (arrays or {}).items()
    return {name.removeprefix(prefix): array for name, array in each if name.startswith(prefix)}


_PREFIX = "transform_"
# What is always kept of a transform.
_ALWAYS = "numeric", "mean", "scale", "categorical", "categories", "dropped", "dates"
NO_FEATURES = FeatureTransform((), (), ())


def _parts(
    frame: Any, inputs: FeatureTransform, vectors: Sequence[str], where: Where
) -> list[Part]:
    """What is reduced, side by side: each input column group (n, some), then the vectors."""
    wide = inputs.apply(frame, where)
    sizes = [1] * len(inputs.numeric) + [len(levels) for levels in inputs.categories]
    found: list[Part] = list(np.split(wide, np.cumsum(sizes)[:-1], axis=1)) if sizes else []
    return found + [vectors_in(frame, name, where) for name in vectors]


def texts_in(frame: Any, name: str) -> list[str]:
    """A column of n texts; missing ones are empty.

    :raises ValueError: the column is missing.
    """
    return ["" if _is_missing(value) else str(value) for value in _column(frame, name)]


def vectors_in(frame: Any, name: str, where: Where) -> VectorRows:
    """A raw column of vectors.

    :param where: how a message names row i.
    :raises ValueError: no such column, or one of something else.
    """
    if name not in frame:
        raise ValueError(
            f"The items have no vectors {name!r}, which the model was fitted to; give them, as a "
            f"column of lists or with --embedding {name}=FILE.npy (spg.with_embedding(items, "
            f"{{{name!r}: vectors}}))."
        )
    column = frame[name]
    rows = vector_rows(column)
    return VectorRows(stacked(column, name, where)) if rows is None else rows


def as_column(rows: VectorRows, index: Any = None) -> Any:
    """Vectors as a pandas series, whose rows move without the matrix.

    :param index: of the series; by default row numbers.
    """
    from sparse_prefgp.data import vector_column

    return require_pandas().Series(vector_column.VectorColumn(rows), index=index)


def _joined(columns: Sequence[FloatArray], n: int) -> FloatArray:
    """Columns (n, some) side by side; there may be none."""
    if not columns:
        return np.empty((n, 0))
    return np.ascontiguousarray(np.concatenate(columns, axis=1))


def require_pandas() -> Any:
    """The pandas module, imported only when a table is read.

    :raises ModuleNotFoundError: pandas is not installed; the message says how to install it.
    """
    return needed("pandas", "pandas", "Reading tables")


def holds_dates(column: Any) -> bool:
    """Whether a column holds dates: stored as such, or as texts of which most are in ISO form."""
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    if kind in "biufcm":
        return False
    if kind == "M":
        return True
    present = [value for value in column if not _is_missing(value)]
    dates = sum(_ISO_DATE.match(str(value)) is not None for value in present)
    return 2 * dates > len(present)


def numeric_column(
    frame: Any,
    name: str,
    where: Where = _plain_row,
    dates: bool = False,
    otherwise: str = _LEAVE_OUT,
) -> FloatArray:
    """One raw column as (n,) finite float64.

    :param dates: it holds dates, of which days since 1970-01-01 are taken.
    :param otherwise: what else a message says to do with a value that is none; nothing where a
        model needs the column.
    :raises ValueError: the column is missing, holds text, or has a value that is not finite.
    """
    raw = _column(frame, name)
    if dates:
        return days_in(raw, name, where, _WRITE_DATES + otherwise)
    try:
        # Nullable integers turn a missing value into NaN only when asked to.
        if hasattr(raw, "to_numpy") and raw.dtype.kind in "biuf":
            values = raw.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.empty(len(raw), dtype=np.float64)
        for i, value in enumerate(raw):
            try:
                # Missing values of any type are reported below, as such.
                values[i] = np.nan if _is_missing(value) else float(value)
            except (TypeError, ValueError, OverflowError):
                remedy = "correct that value"
                if not otherwise and re.search(r"\d", str(value)):
                    remedy += f": {AS_NUMBERS}"
                raise ValueError(
                    f"Column {name!r} has {shortened(value)} in {where(i)} where numbers are "
                    f"needed; {remedy}{otherwise}."
                ) from None
    refuse_cells(~np.isfinite(values), values, name, where, IMPUTATION_HINT)
    return values


def days_in(
    column: Any, name: str, where: Where, remedy: str = _WRITE_DATES + _LEAVE_OUT
) -> FloatArray:
    """Days since 1970-01-01, (n,); a date with a zone is taken in UTC.

    :param remedy: what a message says to do with what is no date.
    :raises ValueError: a date that is missing, or none, with its row.
    """
    pd = require_pandas()
    values = pd.Series(column)
    refuse_cells(values.isna(), values, name, where, IMPUTATION_HINT)
    if values.dtype.kind in "biuf":
        remedy = "give dates such as 2024-01-31, as the model was fitted to"
        refuse_cells([True], values, name, where, remedy)
    stamps = values
    if values.dtype.kind != "M":
        texts = values.astype(str).str.strip()
        stamps = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
        shaped = np.asarray(texts.str.match(_ISO_DATE), dtype=bool)
        refuse_cells(stamps.isna() | ~shaped, texts, name, where, remedy)
    zone = getattr(stamps.dt, "tz", None)
    plain = stamps if zone is None else stamps.dt.tz_convert(None)
    return np.asarray((plain - pd.Timestamp(0)) / pd.Timedelta(days=1), dtype=np.float64)


def text_column(
    frame: Any,
    name: str,
    where: Where = _plain_row,
    levels: Collection[str] = (),
) -> Texts:
    """One raw column as (n,) strings.

    :param levels: that are known: a table of numbers alone holds 1, or 1.0 next to an empty cell,
        where one with words too holds '1'.
    :raises ValueError: the column or a value of it is missing.
    """
    raw = _column(frame, name)
    remedy = "fill it in (imputation), for example with a level of its own such as 'unknown'"
    refuse_cells([_is_missing(value) for value in raw], raw, name, where, remedy)
    result = np.empty(len(raw), dtype=object)
    for i, value in enumerate(raw):
        result[i] = text = str(value)
        if levels and text not in levels and id_text(value) in levels:
            result[i] = id_text(value)
    return result


def _column(frame: Any, name: str) -> Any:
    if name not in frame:
        raise ValueError(
            f"The feature column {name!r} is missing; add it (columns found: "
            f"{', '.join(map(str, frame.keys()))})."
        )
    raw = frame[name]
    return np.asarray(raw) if isinstance(raw, (list, tuple)) else raw


def _is_missing(value: Any) -> bool:
    # pandas.NA and NaT are recognised by name, so that pandas need not be imported.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _one_hot(name: str, levels: tuple[str, ...], text: Texts) -> FloatArray:
    """One 0/1 column per level, (n, levels); a value that is none of them brings a warning."""
    place = {level: j for j, level in enumerate(levels)}
    number = np.array([place.get(value, -1) for value in text], dtype=np.int64)
    known = np.flatnonzero(number >= 0)
    if len(known) < len(text):
        unknown = dict.fromkeys(text[number < 0])
        shown = ", ".join(repr(level) for level in list(unknown)[:5])
        warnings.warn(
            f"Column {name!r}: {len(text) - len(known)} of {len(text)} items have levels "
            f"not seen in training ({shown}), encoded as none of the known ones.",
            stacklevel=3,
        )
    found = np.zeros((len(text), len(levels)))
    found[known, number[known]] = 1.0
    return found
