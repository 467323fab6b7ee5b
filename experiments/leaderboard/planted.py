"""What an audit finds of defects planted in simulated boards, and what it finds in clean ones.

    python experiments/leaderboard/planted.py BOARDS OUT.jsonl [--boards 20] [--fits FOLDER]
    python experiments/leaderboard/planted.py BOARDS OUT.jsonl --prototype
    python experiments/leaderboard/planted.py BOARDS OUT.jsonl --table

BOARDS is a folder with `boards.py`, whose `board(seed, planted=...)` makes a table of battles and
says what is true. Each board is fitted once (15 iterations) and audited, which writes a line to
OUT.jsonl; lines that are there are not made again, and models stay in `--fits`. `--prototype` asks
the code in BOARDS/prototype for the same boards. `--table` prints what OUT.jsonl holds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import sparse_prefgp as spg

CLEAN, ALL, ITERATIONS = "clean", "all", 15
# What was planted, and the finding that says so.
PLANTED = {
    "side": ("side", "side"),
    "lean": ("lean", "side of j03"),
    "careless": ("careless", "j05"),
    "length": ("style", "length"),
    "tie": ("tie", "j10"),
    "drift": ("drift", "m02"),
    "circle": ("circle", "m04, m05, m06"),
    "duplicate": ("duplicate", "m00 and m01"),
    "reverse": ("reversed", "j15"),
}


def defects(name: str) -> tuple[str, ...]:
    """What is planted in a board of this name."""
    return {CLEAN: (), ALL: tuple(PLANTED)}.get(name, (name,))


def duels_of(table: Any) -> spg.Duels:
    """Battles as duels with side and length, in their order."""
    second = (table["winner"] == "model_b").to_numpy()
    winner = np.where(second, table["model_b"], table["model_a"]).astype(str)
    loser = np.where(second, table["model_a"], table["model_b"]).astype(str)
    names = sorted({*winner, *loser})
    side = np.where(second, -1.0, 1.0)
    longer = side * (table["length_a"] - table["length_b"]).to_numpy()
    judge = table["judge"].to_numpy()
    return spg.Duels(
        np.zeros((len(names), 0)),
        winner,
        loser,
        item_ids=names,
        ties=(table["winner"] == "tie").to_numpy(),
        groups=judge,
        labels={"judge": judge},
        covariates=np.column_stack([side, longer]),
        covariate_names=["side", "length"],
    )


def fitted(table: Any, kept: Path | None) -> tuple[spg.PreferenceGP, float | None]:
    """The board, from a folder where it is there, and the seconds of processor of its fit."""
    duels = duels_of(table)
    if kept is not None and (kept / "cpu.txt").exists():
        model = spg.replace(spg.load(kept), duels)  # a saved one has equal battles merged
        return model, float((kept / "cpu.txt").read_text())
    start = time.process_time()
    likelihood = spg.Probit(0.5, by="judge", margin=0.3, cuts_by="judge")
    model = spg.PreferenceGP(
        duels, spg.ItemEffect(), terms=[spg.Lean("side")], likelihood=likelihood
    )
    spg.optimise(model, max_iterations=ITERATIONS)
    seconds = time.process_time() - start
    if kept is not None:
        spg.save(model, kept)
        (kept / "cpu.txt").write_text(str(seconds))
    return model, seconds


def line_of(make: Any, name: str, seed: int, fits: Path | None) -> dict[str, Any]:
    """The audit of one board."""
    table, _ = make(seed, planted=defects(name))
    model, fit = fitted(table, None if fits is None else fits / f"{name}_{seed}")
    model.infer()
    start = time.process_time()
    found = spg.audit(model, table, date="day", category="category")
    audit = time.process_time() - start
    findings = [one.to_dict() for one in found.findings]
    line = {"board": name, "seed": seed, "fit": fit, "audit": audit, "findings": findings}
    return line | ({"printed": str(found)} if name == ALL else {})


def is_planted(finding: dict[str, Any], name: str) -> bool:
    """Whether a finding is what a defect should be found as."""
    kind, about = PLANTED[name]
    if finding["kind"] != kind:
        return False
    if kind == "circle":
        return set(finding["about"].split(" over ")) == set(about.split(", "))
    return bool(finding["about"] == about)


def prototype_of(make: Any, name: str, seed: int) -> dict[str, Any]:
    """What the prototype finds of the defects of one board: whether at 0.01 / 9 in its family.

    It has no test of its own of a judge who reverses, of whom it finds that the votes are noise.
    """
    prototype, audit2, ep = map(import_module, ("audit", "audit2", "ep"))
    table, _ = make(seed, planted=defects(name))
    models = sorted({*table["model_a"], *table["model_b"]})
    place = {model: i for i, model in enumerate(models)}
    verdict = table["winner"].map({"model_a": 1, "tie": 0, "model_b": -1}).to_numpy()
    columns = {
        "a": table["model_a"].map(place).to_numpy(),
        "b": table["model_b"].map(place).to_numpy(),
        "j": table["judge"].str[1:].astype(int).to_numpy(),
        "y": verdict,
        "day": table["day"].to_numpy() / 365 - 0.5,
        "cat": table["category"].astype("category").cat.codes.to_numpy(),
    }
    board = ep.from_table(table).fit()
    p, _, index = prototype.tests(board, columns, seed)
    p["noise"], p["tie"] = audit2.saddle(board)
    at = {
        "side": ("side", 0),
        "lean": ("lean", 3),
        "careless": ("noise", 5),
        "length": ("length", 0),
        "tie": ("tie", 10),
        "drift": ("drift", 2),
        "circle": ("circle", index["tri"].index((4, 5, 6))),
        "duplicate": ("dup", index["idx"][0, 1]),
        "reverse": ("noise", 15),
    }
    hits = {}
    for defect in defects(name):
        family, test = at[defect]
        hits[defect] = bool(test in prototype.bh(p[family], 0.01 / 9))
    return {"board": name, "seed": seed, "prototype": hits}


def lines_in(path: Path) -> Iterator[dict[str, Any]]:
    """What was written."""
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def print_table(lines: list[dict[str, Any]]) -> None:
    """Found of planted, false findings, and seconds of processor."""
    audits = [line for line in lines if "findings" in line]
    print("| planted | boards | found | prototype | false findings | size, planted | fit | audit |")
    print("|---|---|---|---|---|---|---|---|")
    for name in (CLEAN, *PLANTED, ALL):
        own = [line for line in audits if line["board"] == name]
        if not own:
            continue
        wanted, sizes = defects(name), []
        found = {defect: 0 for defect in wanted}
        false = []
        for line in own:
            for one in line["findings"]:
                said = [defect for defect in wanted if is_planted(one, defect)]
                for defect in said:
                    found[defect] += 1
                    sizes.append(one["size"])
                false += [] if said else [f"{one['kind']} {one['about']} ({line['seed']})"]
        asked = [x["prototype"] for x in lines if x["board"] == name and "prototype" in x]
        hits = [sum(x[defect] for x in asked) for defect in wanted]
        known = f"{min(hits)} of {len(asked)}" if asked and len(wanted) == 1 else ""
        share = ", ".join(f"{count}" for count in found.values())
        size = f"{np.median(sizes):.2f}" if sizes and len(wanted) == 1 else ""
        seconds = [np.mean([line[what] for line in own]) for what in ("fit", "audit")]
        cells = [name, len(own), share, known, "; ".join(false) or "0", size]
        print("|", " | ".join(map(str, cells)), f"| {seconds[0]:.1f} | {seconds[1]:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("boards", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--boards", dest="number", type=int, default=20)
    parser.add_argument("--together", type=int, default=3, help="boards with all defects")
    parser.add_argument("--fits", type=Path)
    parser.add_argument("--only", nargs="+", choices=(CLEAN, *PLANTED, ALL), help="these boards")
    parser.add_argument("--prototype", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = list(lines_in(given.out))
    if given.table:
        print_table(lines)
        return
    sys.path[:0] = [str(given.boards), str(given.boards / "prototype")]
    make = import_module("boards").board
    warnings.simplefilter("ignore")
    what = "prototype" if given.prototype else "findings"
    there = {(line["board"], line["seed"]) for line in lines if what in line}
    for seed in range(given.number):
        for name in (CLEAN, *PLANTED, *([ALL] if seed < given.together else [])):
            if (name, seed) in there or (given.prototype and name in (CLEAN, ALL)):
                continue
            if given.only and name not in given.only:
                continue
            line = (
                prototype_of(make, name, seed)
                if given.prototype
                else line_of(make, name, seed, given.fits)
            )
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(name, seed, flush=True)


if __name__ == "__main__":
    main()
