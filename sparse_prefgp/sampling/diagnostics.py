"""Whether chains have converged, and what their averages are worth.

Rank-normalised split R-hat and bulk effective sample size by Vehtari, Gelman, Simpson, Carpenter &
Bürkner (2021), sections 3 and 4; autocorrelations are summed by Geyer's (1992) initial monotone
sequence. All functions take draws (chains, draws) or (chains, draws, q), q quantities at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtri

from sparse_prefgp.support.arrays import FloatArray

# Quantities at a time: bounds the memory of the Fourier transforms.
_CHUNK = 256
# One standard deviation of a normal to either side, as probabilities.
_ONE_SD = (0.15865525393145707, 0.8413447460685429)


def split_rhat(draws: FloatArray) -> FloatArray:
    """Rank-normalised split R-hat of each quantity, (q,): the larger of bulk and folded.

    Below 1.01 the chains agree (Vehtari et al. 2021, section 4). A quantity that never moves has 1.
    """
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded)))


def bulk_ess(draws: FloatArray) -> FloatArray:
    """Bulk effective sample size of each quantity, (q,): of the rank-normalised split chains."""
    return _in_chunks(lambda part: _ess(_normal_scores(part)), _split(draws))


def mean_ess(draws: FloatArray) -> FloatArray:
    """Effective sample size for the mean of each quantity, (q,), of the split chains as they are.

    So many independent draws would have a mean with the same error.
    """
    return _in_chunks(_ess, _split(draws))


def standard_error(draws: FloatArray) -> FloatArray:
    """Monte Carlo standard error of the mean of each quantity, (q,)."""
    halves = _split(draws)
    return np.std(halves, axis=(0, 1), ddof=1) / np.sqrt(mean_ess(draws))


def quantile_error(draws: FloatArray, level: float) -> FloatArray:
    """Monte Carlo standard error of a quantile, (q,) (Vehtari et al. 2021, section 4.4).

    Half the distance between the draws at which the share below the quantile is one standard
    deviation to either side, with the effective sample size of that share.
    """
    halves = _split(draws)
    flat = halves.reshape(-1, halves.shape[-1])
    below = (halves <= np.quantile(flat, level, axis=0)).astype(float)
    size = _in_chunks(_ess, below)
    ends = [betaincinv(size * level + 1.0, size * (1.0 - level) + 1.0, p) for p in _ONE_SD]
    ordered = np.sort(flat, axis=0)
    rows = [np.clip(np.round(e * len(flat)).astype(int) - 1, 0, len(flat) - 1) for e in ends]
    columns = np.arange(flat.shape[1])
    return 0.5 * (ordered[rows[1], columns] - ordered[rows[0], columns])


def _split(draws: FloatArray) -> FloatArray:
    """Each chain as two of half the length; (2 chains, draws // 2, q)."""
    three = draws[..., None] if draws.ndim == 2 else draws
    half = three.shape[1] // 2
    return np.concatenate([three[:, :half], three[:, -half:]])


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Ranks over all chains as normal quantiles (Vehtari et al. 2021, eq. 14)."""
    from scipy import stats

    flat = draws.reshape(-1, draws.shape[-1])
    ranks = stats.rankdata(flat, axis=0)
    return ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(draws.shape)


def _variances(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean variance within chains, and the variance of the posterior by both (eq. 1 to 3)."""
    length = draws.shape[1]
    within = np.mean(np.var(draws, axis=1, ddof=1), axis=0)
    between = np.var(np.mean(draws, axis=1), axis=0, ddof=1)
    return within, (length - 1) / length * within + between


def _rhat(draws: FloatArray) -> FloatArray:
    within, total = _variances(draws)
    still = total <= 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(still, 1.0, np.sqrt(total / within))


def _ess(draws: FloatArray) -> FloatArray:
    """Effective sample size by combined autocorrelations of all chains (eq. 10 to 13)."""
    chains, length = draws.shape[:2]
    count = chains * length
    within, total = _variances(draws)
    still = total <= 0.0
    # Autocovariances of each chain at every lag by Fourier transforms, averaged over chains.
    centred = draws - np.mean(draws, axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * length, axis=1)
    power = np.fft.irfft(np.abs(spectrum) ** 2, n=2 * length, axis=1)
    autocovariance = np.mean(power[:, :length] / length, axis=0)
    # With ddof 1 in the variance within, as in Stan.
    scaled = autocovariance * length / (length - 1)
    rho = 1.0 - (within - scaled) / np.where(still, 1.0, total)
    rho[0] = 1.0
    pairs = rho[0 : length - length % 2 : 2] + rho[1::2]
    positive = np.cumprod(pairs > 0.0, axis=0).astype(bool)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = np.maximum(-1.0 + 2.0 * np.sum(monotone, axis=0), 1.0 / np.log10(count))
    return np.where(still, float(count), count / time)


def _in_chunks(function: Callable[[FloatArray], FloatArray], draws: FloatArray) -> FloatArray:
    """`function` of (chains, draws, q) for some quantities at a time, (q,)."""
    starts = range(0, draws.shape[-1], _CHUNK)
    return np.concatenate([function(draws[..., i : i + _CHUNK]) for i in starts])
