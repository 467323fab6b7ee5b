"""What `sparse-prefgp bench` runs: every figure a ratio within one run on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from sparse_prefgp.lab.benchmarks.report import Report

# In the order in which `all` runs them, each in the module of its name.
BENCHMARKS = (
    "exact",
    "sweep",
    "sets",
    "roofline",
    "engines",
    "svgp",
    "optimise",
    "stream",
    "scaling",
)
TIMED = "svgp"
"""The one that stops after some time."""
_MODULE = {
    "exact": "exact",
    "sweep": "sweep",
    "sets": "sets",
    "roofline": "roofline",
    "engines": "engines",
    "svgp": "race",
    "optimise": "optimise",
    "stream": "stream",
    "scaling": "scaling",
}

__all__ = ["BENCHMARKS", "TIMED", "Report", "check_budget", "chosen", "run"]


def chosen(name: str) -> tuple[str, ...]:
    """The benchmarks that a name stands for.

    :raises ValueError: the name is unknown.
    """
    if name == "all":
        return BENCHMARKS
    if name not in BENCHMARKS:
        raise ValueError(_unknown(name))
    return (name,)


def check_budget(budget: float | None, names: Sequence[str]) -> None:
    """:raises ValueError: the budget is not a positive number, or of none of these benchmarks."""
    if budget is not None and not budget > 0.0:
        raise ValueError(f"budget must be a positive number of seconds, not {budget}.")
    if budget is not None and TIMED not in names:
        raise ValueError(
            f"A budget of {budget:g} s was given, but only {TIMED} is stopped by time; leave it "
            "out."
        )


def run(name: str, *, quick: bool = False, budget: float | None = None) -> Report:
    """Run one benchmark.

    :param name: one of `BENCHMARKS`.
    :param quick: small sizes, seconds instead of minutes; the ratios mean little then.
    :param budget: seconds of optimisation that `svgp` gives to each method on each data set.
    :raises ValueError: the name is unknown, or the budget is not positive.
    """
    check_budget(budget, [name])
    if name not in BENCHMARKS:
        raise ValueError(_unknown(name))
    module = import_module(f"sparse_prefgp.lab.benchmarks.{_MODULE[name]}")
    report: Report = module.run(quick=quick, budget=budget)
    return report


def _unknown(name: str) -> str:
    return f"There is no benchmark {name!r}; choose one of {', '.join(BENCHMARKS)} or all."
