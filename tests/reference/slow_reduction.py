"""Principal components by a whole singular value decomposition, in plain NumPy."""

import numpy as np
from scipy.stats import spearmanr


def reduced(training, new, vectors=(), keep=128):
    """Scores of new rows.

    :param training: (n, E). new: (k, E).
    :param vectors: slices of columns that are one vector each; the others come scaled.
    """
    mean, scale = training.mean(0), np.ones(training.shape[1])
    for block in vectors:
        sd = training[:, block].std(0)
        off = np.corrcoef(training[:, block].T)[~np.eye(len(sd), dtype=bool)]
        falls = spearmanr(sd, np.arange(len(sd))).statistic < -0.8
        one = falls or np.mean(off**2) < 2.0 / len(training)
        scale[block] = np.sqrt(np.mean(sd**2)) if one else sd
    centred = (training - mean) / scale
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    r = min(training.shape[1], keep, max(1, len(training) // 8))
    kept = right[:r]
    signs = np.sign(kept[np.arange(r), np.abs(kept).argmax(1)])
    variances = singular[:r] ** 2 / len(training)
    scores = ((new - mean) / scale) @ (kept * signs[:, None]).T
    explained = variances.sum() / (singular**2).sum() * len(training)
    return scores / np.sqrt(variances.mean()), explained
