"""Fixtures shared by all tests."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


# Set by pytest for each phase of a test, and by TensorFlow and its companions when first imported.
NOT_OURS = (
    "OPENBLAS_THREAD_TIMEOUT",  # by the package, when first imported
    "PYTEST_",
    "TF2_BEHAVIOR",
    "TPU_ML_PLATFORM",
    "ENABLE_RUNTIME_UPTIME_TELEMETRY",
    "HDF5_PLUGIN_PATH",
    "KMP_",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use real data."""
    for item in items:
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.data)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Of a test marked `covering(*ids)` or `covering(every=n)`, mark all other cases slow."""
    made = yield
    cases = [item for item in made if hasattr(item, "callspec")] if type(made) is list else []
    for mark in cases[0].iter_markers("covering") if cases else ():
        every = mark.kwargs.get("every")
        kept = {item.callspec.id for item in cases[::every]} if every else set(mark.args)
        unknown = kept - {item.callspec.id for item in cases}
        if unknown:
            raise collector.CollectError(f"{cases[0].originalname} has no case {min(unknown)!r}")
        for item in cases:
            if item.callspec.id not in kept:
                item.add_marker(pytest.mark.slow)
    return made


def _surroundings() -> tuple[str, dict[str, str]]:
    known = {k: v for k, v in os.environ.items() if not k.startswith(NOT_OURS)}
    return os.getcwd(), known


@pytest.fixture(autouse=True)
def nothing_left_changed() -> Iterator[None]:
    """Fail a test that leaves the working directory or an environment variable changed."""
    before = _surroundings()
    yield
    folder, known = _surroundings()
    changed = {k for k in known | before[1] if known.get(k) != before[1].get(k)}
    assert not changed, f"left with another value: {', '.join(sorted(changed))}"
    assert folder == before[0], f"left in the working directory {folder}"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("SPARSE_PREFGP_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data in {folder}; set SPARSE_PREFGP_DATA to the folder that holds it")
    return folder


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with items.csv (14 items, two features) and duels.csv (90 duels)."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(14, 2))
    rows = [f"i{i},{a:.6f},{b:.6f}" for i, (a, b) in enumerate(x)]
    (folder / "items.csv").write_text("item_id,a,b\n" + "\n".join(rows) + "\n")
    pairs = rng.permuted(np.tile(np.arange(14), (90, 1)), axis=1)[:, :2]
    order = np.argsort(np.sin(x[:, 0])[pairs] + 0.5 * rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    duels = [f"i{w},i{loser}" for w, loser in zip(winners, losers, strict=True)]
    (folder / "duels.csv").write_text("winner,loser\n" + "\n".join(duels) + "\n")
    return folder
