"""What is known before the first run, so that no study begins that cannot succeed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from sparse_prefgp.lab.ablation.configuration import Study, Values, check_length
from sparse_prefgp.lab.ablation.data import left_out_group
from sparse_prefgp.lab.ablation.fitting import held_out
from sparse_prefgp.lab.ablation.parting import parted
from sparse_prefgp.lab.ablation.runs import RunSettings, expand
from sparse_prefgp.workflow.model_names import ApproximationChoice


def check_study(study: Study) -> None:
    """Part the duels as runs will, and refuse what an approximation fails by for every seed.

    Such as a column that is not there, parts that a set does not have, a subset larger than the
    training duels, or values under `at` for another number of features. What only some seeds, or
    only some m or training sizes fail by is left to their runs.

    :raises ValueError: the first reason.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runs warn of the same, in their records
        first: ValueError | None = None
        for seed in sorted(study.seeds):
            try:
                _check_seed(study, seed)
                return
            except ValueError as error:
                first = first or error
    assert first is not None
    raise first


def _check_seed(study: Study, seed: int) -> None:
    size = max(study.split.max_train, default=None)
    table = parted(study.data, study.split, size, seed).table
    left_out_group(table, study.split, max(study.seeds))
    runs = [run for run in expand(study) if run.seed == seed and run.max_train == size]
    for run in _representatives(runs):
        holdout, _ = held_out(study, run)
        if study.at is not None:
            _check_at(study.at, holdout.train.num_features)


def _representatives(runs: list[RunSettings]) -> list[RunSettings]:
    """One run of each approximation that has a size of its own; of the others one with inducing
    inputs and one without. With the smallest m that there is."""
    found: dict[str | bool, RunSettings] = {}
    for run in sorted(runs, key=lambda run: run.inducing or 0):
        if not run.is_baseline:
            choice = ApproximationChoice.parse(run.approximation)
            own = choice.name in ("subset", "pitc")
            found.setdefault(run.approximation if own else choice.needs_inducing, run)
    return list(found.values())


def _check_at(at: Mapping[str, Mapping[str, Values]], features: int) -> None:
    for term, values in at.items():
        for name, value in values.items():
            if isinstance(value, tuple):
                try:
                    check_length(term, name, len(value), features)
                except ValueError as error:
                    raise ValueError(f"The study {error}.") from None
