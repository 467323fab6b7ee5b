"""What `to_tensorboard` leaves for TensorBoard to read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tensorflow as tf

from sparse_prefgp.learning.optimise import optimise
from sparse_prefgp.learning.tensorboard import to_tensorboard
from tests.unit.learning.test_checkpoint import build


def test_without_tensorboard_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"\.\[tensorboard\]\""):
        to_tensorboard(build(), tmp_path)


@pytest.mark.slow
def test_events_hold_the_history(tmp_path: Path) -> None:
    model = build()
    report = optimise(model, 4, callback=to_tensorboard(model, tmp_path / "logs", every=2))
    (file,) = (tmp_path / "logs").iterdir()
    found: dict[str, dict[int, float]] = {}
    for event in tf.compat.v1.train.summary_iterator(str(file)):
        for value in event.summary.value:
            number = float(tf.make_ndarray(value.tensor)) if value.tensor.dtype else None
            if number is not None:
                found.setdefault(value.tag, {})[event.step] = number
    assert {"log_evidence", "gradient_norm", "sweeps"} <= set(found)
    assert found["log_evidence"] == pytest.approx({i: report.history[i - 1] for i in (2, 4)})
    assert any("lengthscales" in tag for tag in found)
    with pytest.raises(ValueError, match="every is 0; give a whole number, at least 1"):
        to_tensorboard(model, tmp_path, every=0)
