"""First inducing inputs by name, and how many of them are enough.

Three methods look at the features of the items (`models/inducing_inputs.py`), two at what inducing
inputs leave unexplained under a kernel: of the utilities (Burt, Rasmussen & van der Wilk 2020), or
of the duels. With an `ItemEffect` only the other part of the kernel counts, for inducing inputs
explain nothing of the effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, overload

import gpflow
import numpy as np
import tensorflow as tf
from scipy.linalg.blas import dger

from sparse_prefgp.approximations import FITC
from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.covariances.kernels import (
    as_float,
    between_inducing,
    centred,
    difference_variance,
    kernel_matrix,
    with_inducing,
)
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.inducing_inputs import (
    farthest_inputs,
    kmeans_inputs,
    random_inputs,
)
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import AnyArray, FloatArray
from sparse_prefgp.support.checks import check_choice, check_inducing_count, check_number
from sparse_prefgp.support.defaults import SHARE
from sparse_prefgp.support.linalg import MAX_CONDITION, cholesky_with_jitter

Model = Callable[[FloatArray], PreferenceGP]

METHODS = ("random", "kmeans", "farthest", "variance", "duels")
CRITERIA = ("residual", "gap")
DEFAULT_MAXIMUM = 1024

# A row whose unexplained variance is below this share of the largest prior variance adds nothing
# but a nearly singular K_uu.
EXPLAINED = 1e-10
# How many numbers the residual columns of the candidates may take, unless more are asked for.
_NUMBERS = 2 * 10**7
_COLUMNS = 256
# Scores that have fallen by this much since they were computed afresh have lost their digits.
_STALE = 1e-8
# Where each m must be tried by itself, the number found is within this part of the smallest.
_CLOSE = 16
# Evidence and bound are sums over duels; a gap that is negative by no more is nought.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class AutoInputs:
    """Inducing inputs of a number that was found, and why it is that number.

    NumPy and `PreferenceGP(inducing_variable=...)` take it for its inputs.
    """

    inputs: FloatArray
    """(m, D) inducing inputs."""
    method: str
    criterion: str
    share: float
    """The share that is left at the end."""
    threshold: float
    """The share that was asked for; of sum c k~ / sum c K_vv for the criterion "residual", of (log
    evidence - lower bound) / |log evidence| for "gap".
    """
    reason: str
    """One of "share reached", "maximum" or "all items"; or "bound passed" where the share of the
    gap is negative, which counts as reached: EP's evidence is not a bound and may lie below one.
    """
    trace: tuple[tuple[int, float], ...]
    """(m, share) of every m that was tried, in ascending order."""

    def __array__(self, dtype: Any = None) -> FloatArray:
        return np.asarray(self.inputs, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain values but for the inputs, ready for JSON; `text` is all of it as a sentence."""
        return {
            "number": len(self.inputs),
            "method": self.method,
            "criterion": self.criterion,
            "share": self.share,
            "threshold": self.threshold,
            "reason": self.reason,
            "trace": [list(row) for row in self.trace],
            "text": str(self),
        }

    def __str__(self) -> str:
        what = {
            "residual": "of the prior variance of the duels unexplained",
            "gap": "of the log evidence between it and its lower bound",
        }[self.criterion]
        why = {
            "share reached": f"at most {self.threshold:.3g} was asked for",
            "bound passed": f"at most {self.threshold:.3g} was asked for; the evidence lies below "
            "its own bound, by EP's error, and how near it is cannot be told",
            "maximum": f"the maximum, though at most {self.threshold:.3g} was asked for",
            "all items": f"all distinct items, though at most {self.threshold:.3g} was asked for",
        }[self.reason]
        return f"{len(self.inputs)} inducing inputs ({self.method}): {self.share:.3g} {what}; {why}"


@overload
def initial_inputs(
    method: str,
    duels: Duels,
    kernel: gpflow.kernels.Kernel,
    count: int,
    rng: np.random.Generator,
) -> FloatArray: ...


@overload
def initial_inputs(
    method: str,
    duels: Duels,
    kernel: gpflow.kernels.Kernel,
    count: Literal["auto"],
    rng: np.random.Generator,
) -> AutoInputs: ...


def initial_inputs(
    method: str,
    duels: Duels,
    kernel: gpflow.kernels.Kernel,
    count: int | str,
    rng: np.random.Generator,
) -> FloatArray | AutoInputs:
    """First inducing inputs for duels, by the name of a method.

    :param method: "random" items, "kmeans" centres, "farthest" point, "variance" (the item whose
        utility is least explained), "duels" (the item that explains most of the duels).
    :param kernel: used by the last two, with its parameters as they are.
    :param count: m, or "auto" for as many as `auto_inputs` finds with its defaults.
    :return: (m, D), distinct, in the units of `duels.items`; for "auto" an `AutoInputs`, which
        stands for that array and says why it has so many rows.
    :raises ValueError: an unknown method, count < 1 or more than the distinct items in duels.
    """
    check_choice("method", method, METHODS)
    if isinstance(count, str):
        check_choice("count", count, ("auto",), ", or a whole number")
        return auto_inputs(method, duels, kernel, rng)
    rows, _ = duels.distinct_rows()
    check_inducing_count(count, len(rows))
    return _source(method, duels, rows, kernel, count, rng)(count)


def residual_shares(
    duels: Duels, kernel: gpflow.kernels.Kernel, inputs: AnyArray
) -> tuple[FloatArray, float]:
    """Share sum c k~ / sum c K_vv left unexplained by the first 1, 2, …, m inputs, (m,).

    :param inputs: (m, D). The whole trace takes one factorisation, O(n m² + t m), and n m numbers.
    :return: the shares, which never rise, and the jitter it took.
    """
    graph, part = DuelGraph.from_duels(duels), _on_features(kernel, duels)
    counts = as_float(graph.counts)
    total = float(tf.reduce_sum(counts * difference_variance(part, graph)))
    if total <= 0.0:  # only duels between items that the kernel cannot tell apart
        return np.zeros(len(inputs)), 0.0
    inducing = gpflow.inducing_variables.InducingPoints(inputs)
    factor, jitter = cholesky_with_jitter(between_inducing(inducing, part), MAX_CONDITION)
    k_uf = with_inducing(inducing, part, as_float(graph.rows))
    features = tf.transpose(tf.linalg.triangular_solve(factor, k_uf)).numpy()
    explained = np.cumsum(_quadratic(graph, features))
    return np.maximum(1.0 - explained / total, 0.0), float(jitter)


def auto_inputs(
    method: str,
    duels: Duels,
    kernel: gpflow.kernels.Kernel,
    rng: np.random.Generator,
    *,
    share: float = SHARE,
    maximum: int = DEFAULT_MAXIMUM,
    criterion: str = "residual",
    model: Model | None = None,
) -> AutoInputs:
    """As few inducing inputs as leave no more than a share unexplained.

    "residual" finds the smallest m of a nested choice (all methods but kmeans). k-means starts
    afresh for every m and "gap" takes an inference each: there m grows by a quarter at a time, and
    is then narrowed down to a sixteenth.

    :param method: one of `METHODS`.
    :param share: what may be left, in (0, 1).
    :param maximum: the largest m; fewer where there are fewer distinct items.
    :param criterion: "residual", sum c k~ / sum c K_vv, which needs no inference; or "gap", (log
        evidence - lower bound) / |log evidence| at the parameters as they are.
    :param model: for "gap", makes a model with given inducing inputs; by default `FITC()` with
        `PreferenceGP`'s other defaults. Not of `VFE()` or `TightVFE()`, whose evidence is a bound
        itself and may lie below the other.
    :raises ValueError: an unknown method or criterion, a share outside (0, 1), a maximum below 1, a
        model for "gap" whose evidence is a bound or does not depend on the inducing inputs.
    """
    check_choice("method", method, METHODS)
    check_choice("criterion", criterion, CRITERIA)
    check_number("share", share, above=0.0, below=1.0, hint=f", such as {SHARE}")
    check_number("maximum", maximum, least=1)
    rows, _ = duels.distinct_rows()
    largest = min(maximum, len(rows))
    take = _source(method, duels, rows, kernel, largest, rng)
    trace: dict[int, float] = {}

    def left_by(size: int) -> float:
        inputs = take(size)
        if criterion == "gap":
            made = (
                PreferenceGP(duels, kernel, approximation=FITC(), inducing_variable=inputs)
                if model is None
                else model(inputs)
            )
            approximation = made.approximation
            bounds = approximation.is_bound or not approximation.needs_inducing
            together.check(gap=True, no_gap=bounds and approximation.name)
            evidence = made.log_evidence()
            trace[size] = (evidence - made.lower_bound()) / abs(evidence)
        elif method == "kmeans":
            trace[size] = float(residual_shares(duels, kernel, inputs)[0][-1])
        else:
            shares, _ = residual_shares(duels, kernel, inputs)
            trace.update(enumerate((float(x) for x in shares), start=1))
        return trace[size]

    nested = criterion == "residual" and method != "kmeans"
    size, below = min(8, largest), 0
    while not left_by(size) <= share and size < largest:
        below, size = size, min(2 * size if nested else size + max(1, size // 4), largest)
    if nested:
        size = min((m for m, left in trace.items() if left <= share), default=size)
        trace = {m: left for m, left in trace.items() if m <= size}
    elif trace[size] <= share:
        while size - below > max(1, size // _CLOSE):
            middle = (below + size) // 2
            below, size = (below, middle) if left_by(middle) <= share else (middle, size)
    left = trace[size]
    reason = "bound passed" if left < -_ROUNDING else "share reached"
    if not left <= share:  # NaN is not success
        reason = "all items" if size == len(rows) else "maximum"
    return AutoInputs(
        take(size), method, criterion, left, share, reason, tuple(sorted(trace.items()))
    )


def _source(
    method: str,
    duels: Duels,
    rows: FloatArray,
    kernel: gpflow.kernels.Kernel,
    maximum: int,
    rng: np.random.Generator,
) -> Callable[[int], FloatArray]:
    """A function m -> (m, D) for m up to `maximum`; nested in m, but for k-means."""
    if method == "kmeans":
        # The same seed at every m, so that what is found does not depend on the way to it.
        seed = int(rng.integers(2**31))
        return lambda m: kmeans_inputs(rows, m, np.random.default_rng(seed))
    if method in ("random", "farthest"):
        draw = random_inputs if method == "random" else farthest_inputs
        every = draw(rows, maximum, rng)
        return lambda m: every[:m]
    if method == "variance":
        steps = _by_variance(rows, _on_features(kernel, duels), rng)
    else:
        graph = DuelGraph.from_duels(duels)
        size = min(len(rows), max(2 * maximum, _NUMBERS // len(rows)))
        steps = _by_duels(graph, _on_features(kernel, duels), rng, size)
    chosen: list[int] = []

    def take(m: int) -> FloatArray:
        chosen.extend(islice(steps, max(0, m - len(chosen))))
        return rows[chosen[:m]]

    return take


def _by_variance(
    rows: FloatArray, kernel: gpflow.kernels.Kernel, rng: np.random.Generator
) -> Iterator[int]:
    """All rows, each the least explained by those before it."""
    order = rng.permutation(len(rows))
    inputs = as_float(rows[order])
    left = kernel(inputs, full_cov=False).numpy().astype(float)
    floor = EXPLAINED * left.max(initial=0.0)
    features = np.empty((len(rows), 0))

    kernel = gpflow.utilities.freeze(kernel)  # else TensorFlow Probability keeps what is compiled

    @tf.function(autograph=False)
    def covariance(row: tf.Tensor) -> tf.Tensor:  # call by call it takes some five times as long
        return kernel_matrix(kernel, inputs, tf.gather(inputs, row)[None])[:, 0]

    open_ = np.ones(len(rows), dtype=bool)
    while open_.any():
        pivot = int(np.argmax(np.where(open_, left, -np.inf)))
        if not left[pivot] > floor:
            break
        yield int(order[pivot])
        open_[pivot] = False
        used = len(rows) - int(open_.sum()) - 1
        if used == features.shape[1]:
            features = np.pad(features, ((0, 0), (0, max(16, used))))
        column = covariance(tf.constant(pivot)).numpy().astype(float)
        column -= features[:, :used] @ features[pivot, :used]
        features[:, used] = column / np.sqrt(left[pivot])
        left -= features[:, used] ** 2
    yield from (int(i) for i in order[open_])


def _by_duels(
    graph: DuelGraph, kernel: gpflow.kernels.Kernel, rng: np.random.Generator, size: int
) -> Iterator[int]:
    """All rows: of `size` random ones each the one that explains most of the duels, then the rest.

    Unexplained is sum c k~ = tr(W R), with R the residual covariance of the items and W = A'CA the
    weighted Laplacian of the duels, and item x lowers it by (R W R)_xx / R_xx. Joining x takes e e'
    from R, e = R_x / sqrt(R_xx), and all scores follow from one product with W e: O(n s) a step for
    s candidates, whose columns of R, (n, s), are kept. Ties are broken at random.
    """
    order = rng.permutation(graph.num_rows)
    pool = order[:size]
    inputs = as_float(graph.rows)
    columns = np.empty((graph.num_rows, len(pool)), order="F")  # of R
    for begin in range(0, len(pool), _COLUMNS):
        part = tf.gather(inputs, pool[begin : begin + _COLUMNS])
        columns[:, begin : begin + _COLUMNS] = kernel_matrix(kernel, inputs, part).numpy()
    left = kernel(tf.gather(inputs, pool), full_cov=False).numpy().astype(float)  # R_xx
    floor = EXPLAINED * left.max(initial=0.0)
    lowers = _quadratic(graph, columns)  # (R W R)_xx
    scale = lowers.max(initial=0.0)
    open_ = np.ones(len(pool), dtype=bool)
    while True:
        useful = open_ & (left > floor)
        if not useful.any():
            break
        if lowers[useful].max() < _STALE * scale:
            lowers = _quadratic(graph, columns)
            scale = lowers[useful].max()
        scores = np.full(len(pool), -np.inf)
        scores[useful] = lowers[useful] / left[useful]
        best = int(np.argmax(scores))
        yield int(pool[best])
        open_[best] = False
        e = columns[:, best] / np.sqrt(left[best])
        weighted = _laplacian(graph, e[:, None])[:, 0]  # W e
        own = e[pool]
        lowers += own * (own * float(e @ weighted) - 2.0 * (weighted @ columns))
        columns = dger(-1.0, e, own, a=columns, overwrite_a=True)
        left -= own**2
    yield from (int(i) for i in np.concatenate([pool[open_], order[size:]]))


def _quadratic(graph: DuelGraph, columns: FloatArray) -> FloatArray:
    """e'We = sum over duels c (e_loser - e_winner)² for each column e of (n, s), (s,)."""
    parts = [columns[:, i : i + _COLUMNS] for i in range(0, columns.shape[1], _COLUMNS)]
    sums = [np.sum(part * _laplacian(graph, part), axis=0) for part in parts]
    return np.concatenate(sums) if sums else np.zeros(0)


def _laplacian(graph: DuelGraph, columns: FloatArray) -> FloatArray:
    """A'CA columns, (n, s)."""
    product: FloatArray = graph.laplacian.matmul(as_float(graph.counts), as_float(columns)).numpy()
    return product


def _on_features(kernel: gpflow.kernels.Kernel, duels: Duels) -> gpflow.kernels.Kernel:
    """What inducing inputs are for, as duels see it: about the mean of the items."""
    part = centred(feature_part(kernel), np.mean(duels.items, 0, dtype=np.float64))
    if part is None:
        raise together.refused(effects_of_items_alone=True, inducing_variable=True)
    return part
