"""Passes over chunks of duels: what a part computes, whatever the number of its duels.

A chunk comes in, its sites go out, and sums over it stay: `Phi' T Phi` and `Phi' s`, or, where many
duels share few items, `W B` and `A' s` over the items, from which these follow at the end
(docs/method.md, sections 4 and 15). All chunks have one size, the last one being filled up with
duels that count 0, so that everything is compiled once.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy import linalg, sparse

from sparse_prefgp.approximations.form import Form
from sparse_prefgp.approximations.inducing import InducingApproximation, Residual
from sparse_prefgp.covariances.kernels import (
    between_inducing,
    pair_difference_variance,
    with_inducing,
)
from sparse_prefgp.evidence import ep_log_evidence
from sparse_prefgp.graph import fused_squared_distances
from sparse_prefgp.io.streams import Chunk, StreamedDuels
from sparse_prefgp.linalg import MAX_CONDITION, cholesky_with_jitter
from sparse_prefgp.parts.gaussian import FloatArray, Natural, Posterior
from sparse_prefgp.parts.hyperparameters import Hyperparameters, flat_gradient
from sparse_prefgp.sites import (
    Factors,
    Sites,
    cavity,
    damp,
    factor_slopes,
    largest_change,
    match_all_moments,
    portions_of,
    powers_of,
)

_log = logging.getLogger(__name__)
# No correction that is a sum over duels looks at the problem as a whole.
_WHOLE_PROBLEM: Any = None


class SiteSums(NamedTuple):
    """Over the sites of a chunk or of a part.

    change: the largest change that an undamped sweep would make. evidence: what the sites add to
    log Z, -½ log|P| apart. correction: the approximation's, 0 where it was not asked for. clipped:
    the largest amount by which rounding had made a residual negative.
    """

    change: float = 0.0
    evidence: float = 0.0
    correction: float = 0.0
    clipped: float = 0.0

    def plus(self, other: SiteSums) -> SiteSums:
        return SiteSums(
            float(np.maximum(self.change, other.change)),  # a NaN in either shows
            self.evidence + other.evidence,
            self.correction + other.correction,
            max(self.clipped, other.clipped),
        )


class Padded(NamedTuple):
    """A chunk filled up to the size of all chunks.

    winners, losers: (c,) rows of the items, zeros without a table. ahead, behind: (c, D) features
    of both. counts: (c,), weighted. tied: (c,) 1 for a tie, else 0. rows: how many are real.
    """

    winners: npt.NDArray[np.int64]
    losers: npt.NDArray[np.int64]
    ahead: FloatArray
    behind: FloatArray
    counts: FloatArray
    tied: FloatArray
    rows: int


def padded(chunk: Chunk, size: int, items: FloatArray | None) -> Padded:
    """Fill a chunk up with duels of the first row against itself that count 0."""
    rows = len(chunk.counts)
    spare = size - rows

    def fill(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not spare:
            return values
        return np.concatenate([values, np.zeros((spare, *values.shape[1:]), values.dtype)])

    counts = fill(chunk.effective_counts)
    tied = np.zeros(size) if chunk.ties is None else fill(chunk.ties.astype(float))
    if items is None:
        none = np.zeros(size, dtype=np.int64)
        return Padded(none, none, fill(chunk.winners), fill(chunk.losers), counts, tied, rows)
    winners, losers = fill(chunk.winners), fill(chunk.losers)
    return Padded(winners, losers, items[winners], items[losers], counts, tied, rows)


class View(ABC):
    """A chunk under the posterior of a pass; chunks may be viewed at the same time."""

    @abstractmethod
    def marginals(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each z under the posterior, (c,)."""

    @abstractmethod
    def explained(self) -> FloatArray:
        """|Phi_i|², (c,)."""

    @abstractmethod
    def sums(self, precision: FloatArray, shift: FloatArray) -> Any:
        """What T and s of the chunk, (c,) each, add to the sums."""

    @abstractmethod
    def slopes(self, precision: FloatArray, shift: FloatArray, explained: FloatArray) -> Any:
        """The same with the derivative in Phi, `explained` (c,) being that in |Phi_i|²."""


class Algebra(ABC):
    """What both forms share: factors, sites, evidence, and the gradient outside of Phi.

    :param form: how long chunks are, and how many are worked on at a time.
    :param stream: of a part: for its items, and for whether any duel is a tie.
    """

    def __init__(
        self,
        parameters: Hyperparameters,
        approximation: InducingApproximation,
        form: Form,
        stream: StreamedDuels,
    ) -> None:
        self.parameters = parameters
        self.size, self.at_once = form.chunk, form.at_once
        self._has_ties = stream.scan.ties > 0
        self._approximation = approximation
        m = parameters.size
        self._dtype = gpflow.default_float()
        self._factor = np.zeros((m, m))
        self.jitter = 0.0
        self._posterior = Natural.prior(m).posterior()
        self._values: FloatArray | None = None
        self.num_values = len(parameters.values())
        self._step = tf.function(self._traced_step, autograph=False)
        self._pull = tf.function(self._traced_pull, autograph=False)

    @property
    def needs_residual(self) -> bool:
        """Whether every pass looks at the residual variances, not only one for the correction."""
        return self._approximation.residual_share > 0.0

    @property
    def factor(self) -> FloatArray:
        """L with K_uu = L L', (m, m)."""
        return self._factor

    @property
    def posterior(self) -> Posterior:
        """Of whitened u in this pass."""
        return self._posterior

    @property
    def num_inducing(self) -> int:
        """m."""
        return self.parameters.size

    # One pass.

    def use(self, values: FloatArray) -> None:
        """Take these hyperparameters, unless they are those at hand."""
        if self._values is None or not np.array_equal(self._values, values):
            self._values = None  # until all that follows from them is there
            self.parameters.set(values)
            self._prepare()
            self._values = values.copy()

    def _prepare(self) -> None:
        factor, jitter = self._factorise()
        self._factor, self.jitter = factor.numpy(), float(jitter)

    def begin(self, posterior: Posterior) -> None:
        """Forget the sums, and take the marginals of the coming pass from `posterior`."""
        self._posterior = posterior

    @abstractmethod
    def sums(self) -> Natural:
        """Phi' T Phi and Phi' s over the chunks since `begin`."""

    @abstractmethod
    def add(self, sums: Any) -> None:
        """Add what `step`, `hold` or `pull` found of a chunk to the sums."""

    @abstractmethod
    def _view(self, chunk: Padded) -> View:
        """A chunk under the posterior of this pass."""

    @abstractmethod
    def feature_gradient(self) -> FloatArray:
        """The derivative of the evidence in Phi pulled back to all hyperparameters."""

    def hold(self, chunk: Padded, sites: FloatArray) -> Any:
        """The sums that the sites (2, c) of a chunk make as they are."""
        nu, tau = sites
        return self._view(chunk).sums(chunk.counts * tau, chunk.counts * nu)

    def step(
        self, chunk: Padded, sites: FloatArray, damping: float, correct: bool
    ) -> tuple[FloatArray, SiteSums, Any]:
        """Sites (2, c) after a damped sweep, what was seen before it, and the sums they make."""
        view = self._view(chunk)
        mean, variance = view.marginals()
        looks = correct or self.needs_residual
        explained = view.explained() if looks else np.zeros(self.size)
        given = (*self._told(chunk), *sites, mean, variance, explained)
        tensors = [tf.convert_to_tensor(x, self._dtype) for x in (*given, damping)]
        nu, tau, *seen = self._step(*tensors, portions=self._portions(chunk), correct=correct)
        new = np.stack([nu.numpy(), tau.numpy()])
        sums = view.sums(chunk.counts * new[1], chunk.counts * new[0])
        return new, SiteSums(*map(float, seen)), sums

    def pull(self, chunk: Padded, sites: FloatArray) -> tuple[FloatArray, SiteSums, Any]:
        """The gradient of the evidence, the sites (2, c) held.

        :return: that outside of Phi in all hyperparameters, the sums over sites, and what `add`
            takes for that in Phi.
        """
        view = self._view(chunk)
        mean, variance = view.marginals()
        given = (*self._told(chunk), *sites, mean, variance, view.explained())
        tensors = [tf.convert_to_tensor(x, self._dtype) for x in given]
        gradient, explained, *seen = self._pull(*tensors, portions=self._portions(chunk))
        nu, tau = sites
        slopes = view.slopes(chunk.counts * tau, chunk.counts * nu, explained.numpy())
        return gradient.numpy(), SiteSums(*map(float, seen)), slopes

    @staticmethod
    def _told(chunk: Padded) -> tuple[FloatArray, ...]:
        """What the factors are made of."""
        return chunk.ahead, chunk.behind, chunk.counts, chunk.tied

    def _portions(self, chunk: Padded) -> tf.Tensor | None:
        """`Factors.portions`: chunks with and without are two functions."""
        portions = portions_of(chunk.counts)
        return None if portions is None else tf.convert_to_tensor(portions, self._dtype)

    # In TensorFlow.

    def _factorise(self) -> tuple[tf.Tensor, tf.Tensor]:
        """L with K_uu = L L', and the jitter that took."""
        p = self.parameters
        k_uu = between_inducing(p.inducing_variable, p.kernel)
        return cholesky_with_jitter(k_uu, MAX_CONDITION)

    def _whitened(self, factor: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """L⁻¹ K_ux, (m, N), for rows (N, D)."""
        p = self.parameters
        k_uf = with_inducing(p.inducing_variable, p.kernel, rows)
        return tf.linalg.triangular_solve(factor, k_uf)

    def _factors(
        self,
        ahead: tf.Tensor,
        behind: tf.Tensor,
        counts: tf.Tensor,
        tied: tf.Tensor,
        explained: tf.Tensor,
        portions: tf.Tensor | None,
    ) -> tuple[Factors, tf.Tensor, tf.Tensor]:
        """The factors, the correction and the clipped amount, as `InducingApproximation.prior`."""
        p, approximation = self.parameters, self._approximation
        whole = pair_difference_variance(p.kernel, ahead, behind)
        # A duel between equal rows compares f(x) with itself, whatever white noise a kernel holds.
        same = tf.reduce_all(ahead == behind, -1)
        raw = tf.where(same, tf.zeros_like(whole), whole - explained)
        diagonal = tf.maximum(raw, tf.zeros_like(raw))
        noise = tf.fill(tf.shape(counts), 2.0 * tf.convert_to_tensor(p.noise_variance))
        upper, lower = tf.zeros_like(counts), None
        if p.mean_function is not None:
            upper = p.mean_function(ahead)[:, 0] - p.mean_function(behind)[:, 0]
        if p.margin is not None:
            center, ties, margin = upper, tied > 0.0, tf.convert_to_tensor(p.margin)
            upper = center + tf.where(ties, margin, -margin)
            if self._has_ties:
                never = tf.fill(tf.shape(counts), tf.cast(-np.inf, counts.dtype))
                lower = tf.where(ties, center - margin, never)
        whole = Factors(counts, noise, lower, upper, portions=portions)
        correction = approximation.correction(
            Residual(diagonal, whole, _WHOLE_PROBLEM, _WHOLE_PROBLEM)
        )
        factors = whole._replace(noise=noise + approximation.residual_share * diagonal)
        return factors, correction, tf.reduce_max(diagonal - raw)

    def _traced_step(
        self,
        ahead: tf.Tensor,
        behind: tf.Tensor,
        counts: tf.Tensor,
        tied: tf.Tensor,
        nu: tf.Tensor,
        tau: tf.Tensor,
        mean: tf.Tensor,
        variance: tf.Tensor,
        explained: tf.Tensor,
        damping: tf.Tensor,
        *,
        portions: tf.Tensor | None,
        correct: bool,
    ) -> tuple[tf.Tensor, ...]:
        factors, correction, clipped = self._factors(
            ahead, behind, counts, tied, explained, portions
        )
        zero = tf.zeros([], counts.dtype)
        if not correct:
            correction = zero
        if not (correct or self.needs_residual):
            clipped = zero
        sites = Sites(nu, tau)
        powers = powers_of(factors, 1.0)
        around = cavity(mean, variance, sites, powers)
        proposal, tilted = match_all_moments(around, factors)
        change = largest_change(sites, proposal, variance, portions)
        evidence = ep_log_evidence(sites, around, tilted, zero, counts, powers)
        new = damp(sites, proposal, damping)
        return new.nu, new.tau, change, evidence, correction, clipped

    def _traced_pull(
        self,
        ahead: tf.Tensor,
        behind: tf.Tensor,
        counts: tf.Tensor,
        tied: tf.Tensor,
        nu: tf.Tensor,
        tau: tf.Tensor,
        mean: tf.Tensor,
        variance: tf.Tensor,
        explained: tf.Tensor,
        *,
        portions: tf.Tensor | None,
    ) -> tuple[tf.Tensor, ...]:
        variables = self.parameters.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([*variables, explained])
            factors, correction, clipped = self._factors(
                ahead, behind, counts, tied, explained, portions
            )
            held = Factors(*[None if x is None else tf.stop_gradient(x) for x in factors])
            sites, powers = Sites(nu, tau), powers_of(held, 1.0)
            around = cavity(mean, variance, sites, powers)
            proposal, tilted = match_all_moments(around, held)
            by = factor_slopes(around, held, tilted)  # docs/method.md, section 5
            target = correction
            for slope, values in (
                (by.noise, factors.noise),
                (by.upper, factors.upper),
                (by.lower, factors.lower),
            ):
                if slope is not None and values is not None:
                    finite = tf.where(tf.math.is_inf(values), tf.zeros_like(values), values)
                    target += tf.reduce_sum(tf.stop_gradient(counts / powers * slope) * finite)
        gradient = flat_gradient(tape, target, [*variables, explained])
        split = tf.shape(gradient)[0] - self.size
        change = largest_change(sites, proposal, variance, portions)
        zero = tf.zeros([], counts.dtype)
        evidence = ep_log_evidence(sites, around, tilted, zero, counts, powers)
        return gradient[:split], gradient[split:], change, evidence, correction, clipped


class RowAlgebra(Algebra):
    """Sums over duels, each chunk with its features Phi (c, m): O(c m²) a chunk."""

    def __init__(
        self,
        parameters: Hyperparameters,
        approximation: InducingApproximation,
        form: Form,
        stream: StreamedDuels,
    ) -> None:
        super().__init__(parameters, approximation, form, stream)
        self._sums = _RowSums.zeros(0, 0)
        self._related = _Fused(self._traced_related)
        self._pull_related = _Fused(self._traced_pull_related)
        self._pull_factor = tf.function(self._traced_pull_factor, autograph=False)

    def begin(self, posterior: Posterior) -> None:
        super().begin(posterior)
        self._sums = _RowSums.zeros(self.parameters.size, self.num_values)

    def add(self, sums: _RowSums) -> None:
        self._sums = self._sums.plus(sums)

    def sums(self) -> Natural:
        return self._sums.site

    def feature_gradient(self) -> FloatArray:
        slope = tf.convert_to_tensor(self._sums.factor_slope, self._dtype)
        return self._sums.gradient + self._pull_factor(slope).numpy()

    def _view(self, chunk: Padded) -> _RowView:
        return _RowView(self, chunk)

    def related(self, chunk: Padded) -> FloatArray:
        """K_uz of a chunk, (m, c)."""
        sides = [tf.convert_to_tensor(x, self._dtype) for x in (chunk.ahead, chunk.behind)]
        return np.asarray(self._related(*sides).numpy())

    def pull_related(self, chunk: Padded, slope: FloatArray) -> FloatArray:
        """A derivative in K_uz (m, c) as one in all hyperparameters."""
        given = (chunk.ahead, chunk.behind, slope)
        tensors = [tf.convert_to_tensor(x, self._dtype) for x in given]
        return np.asarray(self._pull_related(*tensors).numpy())

    def _traced_related(self, ahead: tf.Tensor, behind: tf.Tensor) -> tf.Tensor:
        """K_uz, (m, c)."""
        p = self.parameters
        k_uz = with_inducing(p.inducing_variable, p.kernel, behind)
        return k_uz - with_inducing(p.inducing_variable, p.kernel, ahead)

    def _traced_pull_related(
        self, ahead: tf.Tensor, behind: tf.Tensor, slope: tf.Tensor
    ) -> tf.Tensor:
        variables = self.parameters.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            k_uz = self._traced_related(ahead, behind)
        return flat_gradient(tape, k_uz, variables, slope)

    def _traced_pull_factor(self, slope: tf.Tensor) -> tf.Tensor:
        variables = self.parameters.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            factor, _ = self._factorise()
        return flat_gradient(tape, factor, variables, slope)


class _RowSums(NamedTuple):
    """site: Phi' T Phi and Phi' s. gradient: in all hyperparameters by K_uz. factor_slope: in L."""

    site: Natural
    gradient: FloatArray
    factor_slope: FloatArray

    @classmethod
    def zeros(cls, m: int, values: int) -> _RowSums:
        return cls(Natural.zeros(m), np.zeros(values), np.zeros((m, m)))

    def plus(self, other: _RowSums) -> _RowSums:
        return _RowSums(
            self.site.plus(other.site),
            self.gradient + other.gradient,
            self.factor_slope + other.factor_slope,
        )


class _RowView(View):
    def __init__(self, algebra: RowAlgebra, chunk: Padded) -> None:
        self._algebra, self._chunk = algebra, chunk
        self._phi = _solved(algebra.factor, algebra.related(chunk), transposed=False)  # Phi'

    def marginals(self) -> tuple[FloatArray, FloatArray]:
        posterior = self._algebra.posterior
        scaled = posterior.inverse @ self._phi
        return posterior.mean @ self._phi, np.einsum("mc,mc->c", scaled, scaled)

    def explained(self) -> FloatArray:
        return np.asarray(np.einsum("mc,mc->c", self._phi, self._phi))

    def sums(self, precision: FloatArray, shift: FloatArray) -> _RowSums:
        phi = self._phi
        nothing = _RowSums.zeros(len(phi), self._algebra.num_values)
        return nothing._replace(site=Natural((phi * precision) @ phi.T, phi @ shift))

    def slopes(self, precision: FloatArray, shift: FloatArray, explained: FloatArray) -> _RowSums:
        # d(½ h'P⁻¹h - ½ log|P|)/d Phi = s mu' - T Phi (mu mu' + P⁻¹), transposed here
        phi, posterior = self._phi, self._algebra.posterior
        moment = posterior.covariance + np.outer(posterior.mean, posterior.mean)
        slope = np.outer(posterior.mean, shift) - (moment @ phi) * precision + 2.0 * explained * phi
        # Phi' = L⁻¹ K: the derivative in K is L⁻ᵀ slope =: S, that in L is -S Phi
        slope = _solved(self._algebra.factor, slope, transposed=True)
        gradient = self._algebra.pull_related(self._chunk, slope)
        return _RowSums(Natural.zeros(len(phi)), gradient, -np.tril(slope @ phi.T))


class ItemAlgebra(Algebra):
    """Sums over shared items with features B (n, m): O(n m²) a pass and O(c m) a chunk."""

    def __init__(
        self,
        parameters: Hyperparameters,
        approximation: InducingApproximation,
        form: Form,
        stream: StreamedDuels,
    ) -> None:
        super().__init__(parameters, approximation, form, stream)
        assert stream.items is not None
        items = stream.items.features
        self._items = tf.constant(items, self._dtype)
        shape = (len(items), parameters.size)
        self._features = np.zeros(shape)
        self._scaled = tf.zeros(shape, self._dtype)
        self._projected = np.zeros(len(items))
        self._sums = _ItemSums(np.zeros(0), np.zeros(0), None)
        self._of_items = tf.function(self._traced_of_items, autograph=False)
        self._pull_items = tf.function(self._traced_pull_items, autograph=False)

    def _prepare(self) -> None:
        super()._prepare()
        factor = tf.convert_to_tensor(self._factor, self._dtype)
        self._features = self._of_items(factor).numpy()

    def begin(self, posterior: Posterior) -> None:
        super().begin(posterior)
        self._scaled = tf.constant(self._features @ posterior.inverse.T, self._dtype)
        self._projected = self._features @ posterior.mean
        zeros = np.zeros_like(self._features)
        self._sums = _ItemSums(zeros, np.zeros(len(zeros)), None)

    def add(self, sums: _ItemSums) -> None:
        self._sums.join(sums)

    def sums(self) -> Natural:
        precision = self._features.T @ self._sums.weighted
        return Natural(0.5 * (precision + precision.T), self._features.T @ self._sums.shifts)

    def feature_gradient(self) -> FloatArray:
        # d(½ h'P⁻¹h - ½ log|P|)/d B = A's mu' - W B (mu mu' + P⁻¹)
        mean, sums = self._posterior.mean, self._sums
        moment = self._posterior.covariance + np.outer(mean, mean)
        slope = np.outer(sums.shifts, mean) - sums.weighted @ moment
        if sums.slopes is not None:
            slope += sums.slopes
        gradient = self._pull_items(tf.convert_to_tensor(slope, self._dtype))
        return np.asarray(gradient.numpy())

    def _view(self, chunk: Padded) -> _ItemView:
        return _ItemView(self._features, self._scaled, self._projected, chunk)

    def _traced_of_items(self, factor: tf.Tensor) -> tf.Tensor:
        return tf.transpose(self._whitened(factor, self._items))

    def _traced_pull_items(self, slope: tf.Tensor) -> tf.Tensor:
        variables = self.parameters.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            factor, _ = self._factorise()
            features = tf.transpose(self._whitened(factor, self._items))
        return flat_gradient(tape, features, variables, slope)


@dataclass
class _ItemSums:
    """weighted: W B, (n, m). shifts: A's, (n,). slopes: the derivative in B by |Phi_i|², (n, m)."""

    weighted: FloatArray
    shifts: FloatArray
    slopes: FloatArray | None

    def join(self, other: _ItemSums) -> None:
        """Add another to this one, in place."""
        self.weighted += other.weighted
        self.shifts += other.shifts
        if other.slopes is not None:
            self.slopes = other.slopes if self.slopes is None else self.slopes + other.slopes


class _ItemView(View):
    """features: B, (n, m). scaled: B by a root of the covariance. projected: B by the mean."""

    def __init__(
        self, features: FloatArray, scaled: tf.Tensor, projected: FloatArray, chunk: Padded
    ) -> None:
        self._features, self._scaled, self._projected = features, scaled, projected
        self._chunk = chunk

    def marginals(self) -> tuple[FloatArray, FloatArray]:
        mean = self._projected[self._chunk.losers] - self._projected[self._chunk.winners]
        return mean, _squared_lengths(self._scaled, self._chunk)

    def explained(self) -> FloatArray:
        return _squared_lengths(tf.convert_to_tensor(self._features), self._chunk)

    def sums(self, precision: FloatArray, shift: FloatArray) -> _ItemSums:
        n, chunk = len(self._features), self._chunk
        lost, won = (np.bincount(rows, shift, n) for rows in (chunk.losers, chunk.winners))
        shifts = np.asarray(lost - won, dtype=float)
        return _ItemSums(self._laplacian(precision) @ self._features, shifts, None)

    def slopes(self, precision: FloatArray, shift: FloatArray, explained: FloatArray) -> _ItemSums:
        found = self.sums(precision, shift)
        found.slopes = 2.0 * (self._laplacian(explained) @ self._features)
        return found

    def _laplacian(self, weights: FloatArray) -> sparse.csr_matrix:
        """A' diag(weights) A over the items."""
        w, lose = self._chunk.winners, self._chunk.losers
        n = len(self._features)
        degree = np.bincount(w, weights, n) + np.bincount(lose, weights, n)
        every = np.arange(n)
        values = np.concatenate([-weights, -weights, degree])
        places = (np.concatenate([w, lose, every]), np.concatenate([lose, w, every]))
        return sparse.coo_matrix((values, places), shape=(n, n)).tocsr()


class _Fused:
    """A function fused by the compiler, or as it is where a kernel holds what it cannot compile."""

    def __init__(self, function: Callable[..., tf.Tensor]) -> None:
        self._plain = tf.function(function, autograph=False)
        self._chosen = tf.function(function, autograph=False, jit_compile=True)

    def __call__(self, *tensors: tf.Tensor) -> tf.Tensor:
        chosen = self._chosen  # which another thread may replace meanwhile
        try:
            return chosen(*tensors)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            if chosen is self._plain:
                raise
            _log.debug("The kernel is not compiled: %s", error.message.splitlines()[0])
            self._chosen = self._plain
            return self._plain(*tensors)


def _solved(factor: FloatArray, values: FloatArray, *, transposed: bool) -> FloatArray:
    """L⁻¹ values, or L⁻ᵀ values, for values (m, c) in rows, without turning them into columns."""
    columns = np.array(values).T  # a copy to work on; its rows are columns to Fortran
    solve = linalg.get_blas_funcs("trsm", (factor, columns))
    solved = solve(1.0, factor, columns, side=1, lower=1, trans_a=not transposed, overwrite_b=1)
    return np.asarray(solved).T


def _squared_lengths(features: tf.Tensor, chunk: Padded) -> FloatArray:
    ends = [tf.convert_to_tensor(x, tf.int32) for x in (chunk.winners, chunk.losers)]
    return np.asarray(fused_squared_distances(features, *ends).numpy())
