"""Models and folders that earlier versions saved load, and predict what they predicted then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

import sparse_prefgp as spg
from sparse_prefgp.data.roles import columns_of_roles
from tests.saved_models import ANSWERS, COMMANDS, FOLDERS, KINDS, SAVED, answers, asked
from tests.tolerances import FIXED_POINT, ROUNDING


def assert_told(now: Any, then: Any, where: str) -> None:
    """Everything that was said then is said now; more may be."""
    if isinstance(then, dict):
        missing = set(then) - set(now)
        assert not missing, f"{where}: {sorted(missing)} are gone"
        for name, value in then.items():
            assert_told(now[name], value, f"{where}/{name}")
    elif isinstance(then, list) and any(isinstance(entry, dict | list | str) for entry in then):
        assert len(now) == len(then), where
        for k, pair in enumerate(zip(now, then, strict=True)):
            assert_told(*pair, f"{where}/{k}")
    elif isinstance(then, str | bool | None):
        assert now == then, where
    else:
        # The linear probit is not part of the folder: it is fitted again for each comparison.
        tolerance = FIXED_POINT if "linear_probit" in where else ROUNDING
        np.testing.assert_allclose(now, then, rtol=tolerance, atol=tolerance, err_msg=where)


def then(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAVED / kind / ANSWERS).read_text(encoding="utf-8"))
    return found


def test_every_kind_is_there() -> None:
    kept = {path.name for path in SAVED.iterdir()}
    assert kept == {*KINDS, *FOLDERS}, "run python -m tests.saved_models"


@pytest.mark.covering(
    "vfe_over_duels", "tight_vfe_rank", "pitc_kmeans", "subset", "item_effects", "contexts"
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_answers_as_before(kind: str) -> None:
    model = spg.load(SAVED / kind / "model")
    assert_told(answers(model), then(kind), kind)
    assert model.duels.roles == columns_of_roles({})


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.covering(every=4)
def test_a_folder_answers_as_before(kind: str, command: str, tmp_path: Path) -> None:
    folder = tmp_path / kind
    shutil.copytree(SAVED / kind, folder)
    assert_told(asked(folder, command), then(kind)[command], f"{kind}/{command}")
