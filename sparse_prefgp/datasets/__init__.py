"""Public data sets by name, and duels from regression sets.

`load("boston")` and `boston()` are the same. Nothing is downloaded before it is asked for.
"""

from __future__ import annotations

from typing import cast

from sparse_prefgp.data.splits import item_parts
from sparse_prefgp.datasets.demo import demo_tables
from sparse_prefgp.datasets.kamishima import Sushi, sushi
from sparse_prefgp.datasets.loading import fetch, load
from sparse_prefgp.datasets.registry import DataSet, RemoteFile, describe, names
from sparse_prefgp.datasets.sets import ChoiceSet, DuelSet, RankingSet, RegressionSet
from sparse_prefgp.datasets.targets import TargetDuels, duels_from_targets

__all__ = [
    "ChoiceSet",
    "DataSet",
    "DuelSet",
    "RankingSet",
    "RegressionSet",
    "RemoteFile",
    "Sushi",
    "TargetDuels",
    "abalone",
    "boston",
    "delta_ailerons",
    "delta_elevators",
    "demo_tables",
    "describe",
    "duels_from_targets",
    "electricity",
    "elevators",
    "ev_choice_china",
    "ev_choice_us",
    "fetch",
    "football_internationals",
    "formula_1",
    "humour",
    "item_parts",
    "kin8nm",
    "kin40k",
    "llm_votes",
    "load",
    "machine_cpu",
    "mode_canada",
    "names",
    "pyrim",
    "sarcos_test",
    "snelson1d",
    "sushi",
    "tennis_atp",
    "train_choice",
    "triazines",
    "ukp_convincing",
]


def tennis_atp() -> DuelSet:
    """Matches of tennis players, 1991-2024; players' states at tournaments are the items."""
    return cast(DuelSet, load("tennis_atp"))


def ukp_convincing() -> DuelSet:
    """Which of two arguments convinces more: single votes, ties, and gold duels."""
    return cast(DuelSet, load("ukp_convincing"))


def ev_choice_us() -> DuelSet:
    """Cars that US buyers chose from three; two duels for each choice."""
    return cast(DuelSet, load("ev_choice_us"))


def ev_choice_china() -> DuelSet:
    """Cars that Chinese buyers chose from three; two duels for each choice."""
    return cast(DuelSet, load("ev_choice_china"))


def train_choice() -> DuelSet:
    """Train trips that people in the Netherlands chose from two in 1987."""
    return cast(DuelSet, load("train_choice"))


def electricity() -> ChoiceSet:
    """Offers of electricity suppliers that US households chose from four."""
    return cast(ChoiceSet, load("electricity"))


def mode_canada() -> ChoiceSet:
    """Train, air, bus or car, of which travellers from Toronto to Montreal chose."""
    return cast(ChoiceSet, load("mode_canada"))


def football_internationals() -> DuelSet:
    """Matches of national teams, 1872-2026, with dates, scores, draws and who was at home."""
    return cast(DuelSet, load("football_internationals"))


def llm_votes() -> DuelSet:
    """Which of two answers of language models is better: votes of a crowd and of two models."""
    return cast(DuelSet, load("llm_votes"))


def humour() -> DuelSet:
    """Which of two short texts is funnier: votes of a crowd."""
    return cast(DuelSet, load("humour"))


def formula_1() -> RankingSet:
    """Where drivers finished in the races of two seasons; a driver in a car is an item."""
    return cast(RankingSet, load("formula_1"))


def snelson1d() -> RegressionSet:
    """Snelson's toy curve of 200 rows, with 301 more inputs."""
    return cast(RegressionSet, load("snelson1d"))


def boston() -> RegressionSet:
    """Median value of homes, capped at 50 thousand dollars."""
    return cast(RegressionSet, load("boston"))


def kin40k() -> RegressionSet:
    """A simulated arm; 10,000 rows for training and 30,000 for testing, inputs scaled."""
    return cast(RegressionSet, load("kin40k"))


def sarcos_test() -> RegressionSet:
    """The first torque of a robot arm, from the official test file alone."""
    return cast(RegressionSet, load("sarcos_test"))


def pyrim() -> RegressionSet:
    """Activity of pyrimidines."""
    return cast(RegressionSet, load("pyrim"))


def triazines() -> RegressionSet:
    """Activity of triazines."""
    return cast(RegressionSet, load("triazines"))


def machine_cpu() -> RegressionSet:
    """Relative performance of computers."""
    return cast(RegressionSet, load("machine_cpu"))


def abalone() -> RegressionSet:
    """Rings of abalones; the first 3,133 rows for training, the last 1,044 for testing."""
    return cast(RegressionSet, load("abalone"))


def elevators() -> RegressionSet:
    """Control signal of an F16's elevators."""
    return cast(RegressionSet, load("elevators"))


def delta_elevators() -> RegressionSet:
    """Change of the control signal of an F16's elevators."""
    return cast(RegressionSet, load("delta_elevators"))


def delta_ailerons() -> RegressionSet:
    """Change of the control signal of an F16's ailerons."""
    return cast(RegressionSet, load("delta_ailerons"))


def kin8nm() -> RegressionSet:
    """A simulated arm with 8,192 rows."""
    return cast(RegressionSet, load("kin8nm"))
