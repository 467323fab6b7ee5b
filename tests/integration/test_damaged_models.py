"""A saved model that is damaged is refused in one sentence, or answers what it answered."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.disk import describing
from sparse_prefgp.support.machine import NotEnoughMemory
from tests.damaging import DAMAGED_ARRAYS, Damaged, damages
from tests.saved_models import KINDS, NEW, OTHERS, SAVED
from tests.tolerances import ROUNDING

# Of each kind a few for `make test`: tastes of damage, and not of kinds of models.
FEW, MANY = 12, 150


def answers(model: Any) -> list[Any]:
    new, others = NEW, OTHERS
    if model.duels.num_features == 0:
        new, others = (np.zeros((4, 0)) for _ in range(2))
    return [*model.predict_f(new), model.predict_duel(new, others)]


def check(kind: str, damaged: list[Damaged], place: Path) -> None:
    expected = answers(spg.load(SAVED / kind / "model"))
    wrong = []
    for number, (name, damage) in enumerate(damaged):
        folder = place / str(number) / "model"
        shutil.copytree(SAVED / kind / "model", folder)
        damage(folder)
        try:
            for now, then in zip(answers(spg.load(folder)), expected, strict=True):
                np.testing.assert_allclose(now, then, rtol=ROUNDING, atol=ROUNDING)
        except ValueError as error:
            text = str(error)
            if "\n" in text or not text.endswith("."):
                wrong.append(f"{name}: {text!r}")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]!r}")
        shutil.rmtree(folder.parent)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["weights", "streamed_ties"])
@pytest.mark.covering(every=2)
def test_some_damage(kind: str, tmp_path: Path) -> None:
    every = [*damages(SAVED / kind / "model")]
    some = np.random.default_rng(1).choice(len(every), FEW, replace=False)
    unpacked = [one for one in every if one.name.removeprefix("arrays ") in DAMAGED_ARRAYS]
    check(kind, [*(every[i] for i in some), *unpacked], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_damage(kind: str, tmp_path: Path) -> None:
    every = [*damages(SAVED / kind / "model")]
    some = np.random.default_rng(2).permutation(len(every))[:MANY]
    check(kind, [every[i] for i in some], tmp_path)


def test_too_little_memory_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def rebuilt(*_: Any) -> Any:
        raise NotEnoughMemory("The model needs more memory than there is.")

    monkeypatch.setattr(describing, "rebuilt", rebuilt)
    with pytest.raises(NotEnoughMemory, match=r"^The model needs"):
        spg.load(SAVED / "vfe")
