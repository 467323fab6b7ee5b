"""Seconds and peak memory of the reduction of vectors in a memory-mapped file.

    python experiments/embeddings/reduction_cost.py --items 200000 --width 768 --folder /tmp

Writes the file of vectors if it is not there, then in a process of its own each: `fit` finds the
directions and makes the features of all items, `svd` does scikit-learn's randomised decomposition
of the standardised matrix, which has to hold it.
"""

import argparse
import multiprocessing
import time
from pathlib import Path

import numpy as np

from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io import with_embedding


def largest_resident():
    """Bytes of the largest resident set of this process (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def write(path, items, width, rng):
    """X = h B + 0.3 noise with 16 latent directions, in chunks."""
    basis = rng.normal(size=(16, width)) / 4.0
    found = np.lib.format.open_memmap(path, "w+", np.float32, (items, width))
    for start in range(0, items, 10_000):
        n = len(found[start : start + 10_000])
        noise = rng.normal(size=(n, width))
        found[start : start + n] = rng.normal(size=(n, 16)) @ basis + 0.3 * noise
    found.flush()


def by_fit(path):
    """The package, as a fit calls it."""
    table = with_embedding(None, path)
    before, begun = largest_resident(), time.perf_counter()
    transform = FeatureTransform.fit(table.frame, (), vectors=[path.stem])
    fitted = time.perf_counter()
    features = transform.apply(table.frame)
    done = time.perf_counter()
    grown = (largest_resident() - before) / 2**20
    print(
        f"fit  {transform.reduced}: directions {fitted - begun:.1f} s, features "
        f"{done - fitted:.1f} s; memory grows by {grown:,.0f} MB, of which "
        f"{features.nbytes / 2**20:,.0f} MB are features, and up to "
        f"{path.stat().st_size / 2**20:,.0f} MB pages of the file that can be dropped"
    )


def by_svd(path):
    """scikit-learn."""
    from sklearn.utils.extmath import randomized_svd

    before, begun = largest_resident(), time.perf_counter()
    matrix = np.load(path)
    matrix -= matrix.mean(0)
    matrix /= matrix.std(0)
    _, singular, _ = randomized_svd(matrix, 128, random_state=0)
    grown = (largest_resident() - before) / 2**20
    share = 100.0 * (singular**2).sum() / matrix.size
    print(
        f"svd  {share:.2f} % of the variance: {time.perf_counter() - begun:.1f} s; memory grows by "
        f"{grown:,.0f} MB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    path = given.folder / f"vectors_{given.items}_{given.width}.npy"
    if not path.exists():
        write(path, given.items, given.width, np.random.default_rng(given.seed))
    for task in (by_fit, by_svd):
        process = multiprocessing.get_context("spawn").Process(target=task, args=(path,))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
