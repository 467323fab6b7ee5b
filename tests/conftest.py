"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("SPARSE_PREFGP_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data in {folder}; set SPARSE_PREFGP_DATA to the folder that holds it")
    return folder
