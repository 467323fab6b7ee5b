"""Many columns to the few directions in which items differ most: principal components."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.flags import Where
from sparse_prefgp.data.kept import Kept
from sparse_prefgp.data.vectors import VectorRows, refuse_not_finite, rows_at_a_time
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.machine import ask

# Above so many features they are reduced, to at most so many directions, of which each needs so
# many items.
MOST_FEATURES, MOST_DIRECTIONS, ITEMS_EACH = 64, 128, 8
# Columns of a vector have one scale where the mean of their squared correlations is below so much
# divided by the rows, or where their sizes fall: rank correlation with the place of the column. Of
# 256 scores of tf-idf the former is 0.02 to 1.3 (of those of some of the texts) and the latter
# -1 to -0.7; of sentence vectors 3.8 to 18, and 0.
UNCORRELATED, FALLING, FEWEST = 2.0, -0.8, 8
# Of the median standard deviation of a vector's columns; one with less is dead.
_LEAST = 1e-3
# Variances that fall by more are those of something, and then of noise.
GAP = 3.0
# Of the largest variance; a direction with less is rounding.
_RANK = 1e-12
# Products of more columns are in single precision, added up in double: they take half as long.
_DOUBLE = 1024
# Bytes that are worth a word, and those of one number.
_MUCH, _BYTES = 2**30, 8
NUMBERS, VECTOR = "numbers", "vector"
Part = FloatArray | VectorRows


class InputBlock(NamedTuple):
    """Columns side by side that go into a reduction."""

    name: str
    """Of the raw column."""
    kind: str
    """`numbers` or `vector`."""
    width: int
    """How many columns it is."""


@dataclass(frozen=True, eq=False)
class Reduction(Kept):
    """Blocks of columns, centred and scaled, projected onto r directions."""

    blocks: tuple[InputBlock, ...]
    """What the E columns are, in their order."""
    mean: FloatArray
    """(E,) of the training items."""
    scale: FloatArray
    """(E,) what each column is divided by; infinite for one that does not vary."""
    directions: FloatArray
    """(E, r) orthonormal, the one of most variance first; the largest entry of each is positive."""
    variances: FloatArray
    """(r,) of the training items along each, in scaled units."""
    deviations: FloatArray
    """(E,) standard deviation of each column over the training items, in scaled units."""

    @classmethod
    def fit(
        cls,
        parts: Sequence[Part],
        blocks: Sequence[InputBlock],
        where: Where,
        items: int | None = None,
    ) -> Reduction:
        """Find the directions of the rows of some blocks side by side, read in chunks.

        Columns of a vector have variance 1 each, or one scale where they are scores of some
        decomposition, whose sizes mean something: hardly correlated, or smaller and smaller.
        Numbers come scaled. Directions are the leading eigenvectors of the E x E
        covariance (or of the n x n products where items are fewer), exact and alike whatever is
        drawn at random. There are at most 128, one for each 8 items, and only those that hold
        variance.

        :param parts: for each block (n, width) numbers, or vectors.
        :param where: how a message names row i.
        :param items: how many items the rows are of; by default each is one.
        :raises ValueError: vectors that are not finite; no column that varies; more columns than
            fit into memory (`NotEnoughMemory`).
        """
        n, width = len(parts[0]), sum(block.width for block in blocks)
        _ask_memory(n, width)
        source = _SideBySide(parts, blocks, where)
        mean, sd = source.moments()
        if not sd.any():
            names = ", ".join(dict.fromkeys(block.name for block in blocks))
            raise ValueError(
                f"Vectors are constant over the training items ({names}), so that they tell none "
                f"apart; leave them out, as with --ignore {blocks[0].name} "
                f"(ignore=[{blocks[0].name!r}]), or make them again."
            )
        scale = np.ones(width)
        for block, here in _places(blocks):
            if block.kind == VECTOR:
                sd[here] = _alive(sd[here])
                scale[here] = sd[here]
        scale[sd == 0.0] = np.inf  # no part in anything, whatever a new item has there
        kind = _Rows if n < width else _Products
        matrix = kind.of(source, mean, scale)
        for block, here in _places(blocks):
            if block.kind == VECTOR and _has_one_scale(sd[here], matrix.squares(here), n):
                alive = sd[here] > 0.0
                one = math.sqrt(float(np.mean(sd[here][alive] ** 2)))
                matrix.multiply(here, np.where(alive, sd[here] / one, 1.0))
                scale[here] = np.where(alive, one, np.inf)
        most = min(n, width, MOST_DIRECTIONS, max(1, (items or n) // ITEMS_EACH))
        variances, directions = matrix.leading(most)
        kept = variances > _RANK * variances[0]
        directions = directions[:, kept] * (sd > 0.0)[:, None]
        largest = directions[np.abs(directions).argmax(0), np.arange(directions.shape[1])]
        return cls(
            tuple(blocks), mean, scale, directions * np.sign(largest), variances[kept], sd / scale
        )

    @property
    def size(self) -> int:
        """r, the number of directions."""
        return int(self.directions.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """`pc_1`, `pc_2`, …"""
        return tuple(f"pc_{j + 1}" for j in range(self.size))

    @property
    def spread(self) -> float:
        """What all scores are divided by: their variances are 1 on average."""
        return math.sqrt(float(self.variances.mean()))

    @property
    def explained(self) -> float:
        """The share of the variance of all columns that the directions keep."""
        return min(1.0, float(self.variances.sum() / (self.deviations**2).sum()))

    def before_gap(self, least: int = 1) -> int:
        """How many directions come before the largest gap between their variances.

        The number of factors by the ratio of neighbouring eigenvalues (Ahn & Horenstein 2013). A
        gap is a fall to less than a third; without one there is none to stop at: all directions.

        :param least: fewer directions than these are not looked for.
        """
        ratios = self.variances[least - 1 : -1] / self.variances[least:]
        if not len(ratios) or ratios.max() < GAP:
            return self.size
        return least + int(ratios.argmax())

    def shares(self) -> dict[str, float]:
        """The share of its own variance that each block keeps, of the training items."""
        found = {}
        for block, rows in _places(self.blocks):
            kept = (self.directions[rows] ** 2 @ self.variances).sum()
            whole = (self.deviations[rows] ** 2).sum()
            found[block.name] = 1.0 if whole == 0.0 else min(1.0, float(kept / whole))
        return found

    def apply(self, parts: Sequence[Part], where: Where) -> FloatArray:
        """Scores (n, r) of the rows of the same blocks, all divided by one number.

        Rounded to single precision, so that equal rows are equal however they are read.

        :raises ValueError: vectors of another length, or that are not finite.
        """
        for part, block in zip(parts, self.blocks, strict=True):
            if isinstance(part, VectorRows) and part.width != block.width:
                raise ValueError(
                    f"The vectors of {block.name!r} have {part.width} numbers, but the model was "
                    f"fitted to {block.width}; give vectors made in the same way."
                )
        source = _SideBySide(parts, self.blocks, where)
        loadings = self.directions / (self.scale[:, None] * self.spread)
        found = np.empty((source.length, self.size))
        for start, chunk in source.chunks():
            scores = (chunk - self.mean) @ loadings
            found[start : start + len(chunk)] = scores.astype(np.float32)
        return found

    def projectors(self) -> dict[str, FloatArray]:
        """For each block the r x r part of the identity that is its own: a step between two items'
        scores times it is what the block has of the step, as far as scores tell.
        """
        return {
            block.name: self.directions[rows].T @ self.directions[rows]
            for block, rows in _places(self.blocks)
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the rest is in `arrays`."""
        return {"blocks": [list(block) for block in self.blocks]}

    def arrays(self) -> dict[str, FloatArray]:
        """The arrays by name."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> Reduction:
        """The inverse of `to_dict` and `arrays`."""
        blocks = tuple(InputBlock(*block) for block in values["blocks"])
        return cls(blocks, **{name: arrays[name] for name in _ARRAYS})


_ARRAYS = ("mean", "scale", "directions", "variances", "deviations")


@dataclass(frozen=True)
class _SideBySide:
    """Blocks of columns as one matrix that is never there as a whole."""

    parts: Sequence[Part]
    blocks: Sequence[InputBlock]
    where: Where

    @property
    def length(self) -> int:
        return len(self.parts[0])

    def chunks(self) -> Any:
        """Rows (c, E), some at a time, each time with the number of the first."""
        step = rows_at_a_time(sum(block.width for block in self.blocks))
        for start in range(0, self.length, step):
            stop = min(start + step, self.length)
            yield (
                start,
                np.concatenate([self._part(k, start, stop) for k in range(len(self.blocks))], 1),
            )

    def _part(self, k: int, start: int, stop: int) -> FloatArray:
        part, block = self.parts[k], self.blocks[k]
        if not isinstance(part, VectorRows):
            return part[start:stop]
        chunk = part.chunk(start, stop)
        refuse_not_finite(part, chunk, start, block.name, self.where)
        return chunk.astype(np.float64)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each column; 0 for one that is constant but for rounding.

        Chunks are joined by the rule of Chan, Golub & LeVeque (1983).
        """
        n, mean, squares = 0, np.zeros(1), np.zeros(1)
        low, high = np.array(np.inf), np.array(-np.inf)
        for _, chunk in self.chunks():
            c, here = len(chunk), chunk.mean(0)
            gap = here - mean
            squares = squares + ((chunk - here) ** 2).sum(0) + gap**2 * (n * c / (n + c))
            mean, n = mean + gap * (c / (n + c)), n + c
            low, high = np.minimum(low, chunk.min(0)), np.maximum(high, chunk.max(0))
        varies = high - low > 1e-7 * np.maximum(np.abs(low), np.abs(high))
        return mean, np.where(varies, np.sqrt(squares / n), 0.0)


def _has_one_scale(sd: FloatArray, squares: float, n: int) -> bool:
    """Whether the columns of a vector keep their sizes, as those mean something.

    Scores of a decomposition: they are no more correlated than independent columns are, whose
    squared correlations have the mean 1 / (n - 1), or they are smaller and smaller.

    :param sd: of its columns. squares: the sum of those of all their correlations. n: rows.
    """
    some = sd[sd > 0.0]
    if (width := len(some)) < FEWEST:
        return False
    correlation = (squares - width) / (width * (width - 1))  # the mean off the diagonal
    ranks = np.argsort(np.argsort(some, kind="stable"))
    falls = np.corrcoef(ranks, np.arange(width))[0, 1] < FALLING
    return bool(falls or correlation < UNCORRELATED / n)


def _alive(sd: FloatArray) -> FloatArray:
    """Standard deviations of the columns of a vector, 0 for a dead one, whose rounding must not be
    blown up."""
    least = _LEAST * float(np.median(sd[sd > 0.0])) if sd.any() else 0.0
    return np.where(sd > least, sd, 0.0)


@dataclass
class _Products:
    """E x E covariances of the columns, each divided by its scale."""

    matrix: FloatArray

    @classmethod
    def of(cls, source: _SideBySide, mean: FloatArray, scale: FloatArray) -> _Products:
        """The sum over chunks."""
        width = len(mean)
        products = np.zeros((width, width))
        exact = np.float64 if width <= _DOUBLE else np.float32
        for _, chunk in source.chunks():
            scaled = ((chunk - mean) / scale).astype(exact, copy=False)
            products += scaled.T @ scaled
        products /= source.length
        return cls(products)

    def squares(self, here: slice) -> float:
        """The sum of squares of what these columns have there."""
        return float(np.sum(self.matrix[here, here] ** 2))

    def multiply(self, here: slice, factor: FloatArray) -> None:
        """Each of these columns by its factor."""
        self.matrix[here] *= factor[:, None]
        self.matrix[:, here] *= factor

    def leading(self, most: int) -> tuple[FloatArray, FloatArray]:
        """The largest eigenvalues and their vectors."""
        return _leading(self.matrix, most)


@dataclass
class _Rows:
    """The same for fewer rows than columns: all rows, as n x n products tell their directions."""

    scaled: FloatArray

    @classmethod
    def of(cls, source: _SideBySide, mean: FloatArray, scale: FloatArray) -> _Rows:
        """Centred and divided by the scales."""
        return cls(np.concatenate([(chunk - mean) / scale for _, chunk in source.chunks()]))

    def squares(self, here: slice) -> float:
        """As of `_Products`: both products have the same sum of squares."""
        part = self.scaled[:, here]
        return float(np.sum((part @ part.T / len(part)) ** 2))

    def multiply(self, here: slice, factor: FloatArray) -> None:
        """Each of these columns by its factor."""
        self.scaled[:, here] *= factor

    def leading(self, most: int) -> tuple[FloatArray, FloatArray]:
        """The largest eigenvalues of the covariance and their vectors."""
        variances, left = _leading(self.scaled @ self.scaled.T / len(self.scaled), most)
        right = self.scaled.T @ left
        lengths = np.linalg.norm(right, axis=0)
        return variances, right / np.where(lengths > 0.0, lengths, 1.0)


def _places(blocks: Sequence[InputBlock]) -> list[tuple[InputBlock, slice]]:
    """Each block, and where its columns are."""
    ends = np.cumsum([block.width for block in blocks])
    return [
        (block, slice(int(end) - block.width, int(end)))
        for block, end in zip(blocks, ends, strict=True)
    ]


def _leading(matrix: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """The largest eigenvalues of a symmetric matrix and their vectors, the largest first."""
    from scipy import linalg

    size = len(matrix)
    values, vectors = linalg.eigh(
        matrix, subset_by_index=[size - most, size - 1], overwrite_a=True, check_finite=False
    )
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _ask_memory(n: int, width: int) -> None:
    """Warn of a reduction that takes much memory, and refuse one that takes more than there is.

    :param n: items.
    :param width: columns.
    :raises NotEnoughMemory: more than is free.
    """
    # A square matrix, its eigenvectors and what finding them takes; all rows where they are fewer.
    rows = 2 * n * width if n < width else 0
    needed, what = _BYTES * (4 * min(n, width) ** 2 + rows), f"Reductions of {width:,} columns"
    ask(
        needed,
        what,
        "give shorter vectors, for example of another model or some columns of a decomposition",
    )
    if needed > _MUCH:
        warnings.warn(f"{what} take some {needed / 2**30:.1f} GiB of memory.", stacklevel=4)
