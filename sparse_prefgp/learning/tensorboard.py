"""The progress of `optimise` for TensorBoard, through GPflow's monitor."""

from __future__ import annotations

import os
from collections.abc import Callable

from gpflow.monitor import ModelToTensorBoard, Monitor, MonitorTaskGroup, ScalarToTensorBoard

from sparse_prefgp.learning.report import Progress
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.support.checks import check_number
from sparse_prefgp.support.extras import needed

_SCALARS = ("log_evidence", "gradient_norm", "sweeps")


def to_tensorboard(
    model: PreferenceGP, folder: str | os.PathLike[str], every: int = 1
) -> Callable[[Progress], None]:
    """A callback for `optimise` that writes what TensorBoard shows.

    Log evidence in nats, gradient norm, sweeps, and the scalars and short vectors among the
    model's parameters, by `gpflow.monitor`: `optimise(model, callback=to_tensorboard(model,
    "logs"))`, then `tensorboard --logdir logs`.

    :param folder: for the event files; made if need be.
    :param every: iterations between two entries.
    :raises ValueError: every below 1.
    :raises ModuleNotFoundError: TensorBoard is not installed; TensorFlow does not bring it along.
    """
    needed("tensorboard", "tensorboard", "What is written here", "tensorboard")
    check_number("every", every, least=1, whole=True)
    place = os.fspath(folder)
    latest: list[Progress] = []

    def reader(name: str) -> Callable[[], float]:
        return lambda: float(getattr(latest[0], name))

    tasks = [ScalarToTensorBoard(place, reader(name), name) for name in _SCALARS]
    parameters = ModelToTensorBoard(place, model, left_strip_character="")
    monitor = Monitor(MonitorTaskGroup([*tasks, parameters], period=every))

    def callback(progress: Progress) -> None:
        latest[:] = [progress]
        monitor(progress.iteration)

    return callback
