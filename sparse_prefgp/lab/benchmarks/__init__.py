"""What `sparse-prefgp bench` runs: every figure a ratio within one run on one machine."""

from __future__ import annotations

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

__all__ = ["BENCHMARKS", "Report", "check_budget", "chosen", "run"]


def chosen(name: str) -> tuple[str, ...]:
    """The benchmarks that a name stands for.

    :raises ValueError: the name is unknown.
    """
    if name == "all":
        return BENCHMARKS
    if name not in BENCHMARKS:
        raise ValueError(_unknown(name))
    return (name,)


def check_budget(budget: float | None) -> None:
    """:raises ValueError: the budget is not a positive number."""
    if budget is not None and not budget > 0.0:
        raise ValueError(f"budget must be a positive number of seconds, not {budget}.")


def run(name: str, *, quick: bool = False, budget: float | None = None) -> Report:
    """Run one benchmark.

    :param name: one of `BENCHMARKS`.
    :param quick: small sizes, seconds instead of minutes; the ratios mean little then.
    :param budget: seconds of optimisation that `svgp` gives to each method on each data set.
    :raises ValueError: the name is unknown, or the budget is not positive.
    """
    check_budget(budget)
    if name not in BENCHMARKS:
        raise ValueError(_unknown(name))
    module = import_module(f"sparse_prefgp.lab.benchmarks.{_MODULE[name]}")
    report: Report = module.run(quick=quick, budget=budget)
    return report


def _unknown(name: str) -> str:
    return f"There is no benchmark {name!r}; choose one of {', '.join(BENCHMARKS)} or all."
