"""What a command on a saved model imports, package by package, and next to plain imports.

    python tools/import_times.py             three fresh processes each way
    python tools/import_times.py --runs 5

Plain: every package imports what it likes. Lean: as the commands import them, by
`sparse_prefgp.cli.console.import_packages`. Seconds of the processor depend on the machine, their
ratio within a run hardly. The table is of the lean way: the time of each package's own modules, by
Python's `-X importtime`.
"""

from __future__ import annotations

import argparse
import collections
import re
import statistics
import subprocess
import sys
import time

PLAIN = "import sparse_prefgp.cli.app, sparse_prefgp.models.preference_gp"
LEAN = (
    "import sparse_prefgp.cli.app\n"
    "from sparse_prefgp.cli.console import import_packages\n"
    "import_packages(lambda: None)"
)
USE = "import sparse_prefgp.analysis.prediction, pandas"
REPORT = "import sys, time; print(time.process_time(), len(sys.modules))"
LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")
SHOWN = 12


def spent(code: str) -> tuple[float, float, int]:
    """Processor seconds, seconds and modules of a fresh process."""
    started = time.perf_counter()
    done = _run(f"{code}\n{USE}\n{REPORT}")
    cpu, modules = done.stdout.split()[-2:]
    return float(cpu), time.perf_counter() - started, int(modules)


def shares(code: str) -> list[tuple[str, float, int]]:
    """Package, its share of the time of importing, how many modules; the largest first."""
    own: collections.Counter[str] = collections.Counter()
    modules: collections.Counter[str] = collections.Counter()
    for microseconds, name in LINE.findall(_run(f"{code}\n{USE}", "-X", "importtime").stderr):
        package = name.partition(".")[0]
        own[package] += int(microseconds)
        modules[package] += 1
    total = sum(own.values())
    return [(name, value / total, modules[name]) for name, value in own.most_common()]


def _run(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    ways = {"plain": PLAIN, "lean": LEAN}
    spent(LEAN)  # so that all is compiled and in the memory of the disk
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, code in ways.items():
            found[name].append(spent(code))
    medians = {name: statistics.median(cpu for cpu, _, _ in rows) for name, rows in found.items()}
    for name, rows in found.items():
        wall = statistics.median(seconds for _, seconds, _ in rows)
        print(
            f"{name}: {medians[name]:.2f} s of processor time, {wall:.2f} s, {rows[0][2]:,} "
            f"modules; {medians[name] / medians['plain']:.2f} of plain"
        )
    print("\n| package | share of importing | modules |\n|---|---|---|")
    listed = shares(LEAN)
    for name, share, modules in listed[:SHOWN]:
        print(f"| {name} | {100 * share:.0f} % | {modules:,} |")
    rest = listed[SHOWN:]
    share, modules = sum(s for _, s, _ in rest), sum(m for *_, m in rest)
    print(f"| {len(rest)} others | {100 * share:.0f} % | {modules:,} |")


if __name__ == "__main__":
    main()
