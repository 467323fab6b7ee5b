"""Makes docs/compared.md: what each neighbour knows, and figures measured next to it.

    python experiments/peers/compare.py --peers .venv-peers/bin/python --write docs/compared.md
    python experiments/peers/compare.py --write docs/compared.md    # of what is kept

With `--peers` it first runs the pages "Coming from ..." (`pages.py`) and keeps what they print,
with versions and date; figures are the lines of that output with nats, share right and seconds.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from experiments.peers import pages, run  # noqa: E402

RUN = HERE / "results" / "peers.json"

FIGURE = re.compile(
    r"^(?P<method>[^:\n]+): (?P<nats>\d\.\d{4}) nats, (?P<right>\d\.\d{3}) right"
    r"(?:, (?P<seconds>[\d.]+) s)?$",
    re.MULTILINE,
)
TITLES = {
    "bradley-terry": "Votes on 59 language models, no features",
    "botorch": "Cars, 16 features, eight people",
    "gpflow-svgp": "Cars, 16 features, sixty people",
    "conditional-logit": "Choices of one in four electricity contracts",
    "kickscore": "International football since 2016",
}


@dataclass(frozen=True)
class Neighbour:
    """What a package knows, as its documentation says it."""

    name: str
    page: str
    source: str
    knows: dict[str, str]


QUESTIONS = (
    "answers",
    "features of items",
    "uncertainty",
    "ties",
    "time",
    "people who differ",
    "learned by itself",
    "what to ask next",
    "gradients, devices",
)
YES, NO = "yes", "-"
OURS = {
    "answers": "duels, grades, choices, rankings, best-worst",
    "features of items": "any kernel",
    "uncertainty": "joint posterior",
    "ties": "learned margin, for pairs",
    "time": "Markov kernels in time",
    "people who differ": "taste of each, normal",
    "learned by itself": "kernel, noise of judges, margins, covariates, inducing inputs",
    "what to ask next": "pairs, sets, a new item",
    "gradients, devices": "TensorFlow, processor",
}
NEIGHBOURS = (
    Neighbour(
        "choix", "bradley-terry", "https://choix.lum.li",
        {"answers": "duels, choices, rankings, networks", "features of items": NO,
         "uncertainty": "joint, from EP, of duels", "ties": NO, "time": NO, "people who differ": NO,
         "learned by itself": NO, "what to ask next": NO, "gradients, devices": "NumPy, processor"},
    ),
    Neighbour(
        "evalica", "bradley-terry", "https://github.com/dustalov/evalica",
        {"answers": "duels", "features of items": NO, "uncertainty": "bootstrap",
         "ties": "weight of a tie, given", "time": "order only (Elo)", "people who differ": NO,
         "learned by itself": NO, "what to ask next": NO, "gradients, devices": "Rust"},
    ),
    Neighbour(
        "BoTorch PairwiseGP", "botorch", "https://botorch.org/docs/tutorials/preference_bo",
        {"answers": "duels", "features of items": "any kernel",
         "uncertainty": "joint, Laplace", "ties": NO, "time": NO, "people who differ": NO,
         "learned by itself": "kernel", "what to ask next": "points of a box: EUBO, qNEI",
         "gradients, devices": "PyTorch, GPU"},
    ),
    Neighbour(
        "GPflow SVGP", "gpflow-svgp", "https://gpflow.github.io/GPflow/",
        {"answers": "by a likelihood of yours", "features of items": "any kernel",
         "uncertainty": "joint, variational", "ties": "by a likelihood of yours",
         "time": "by a kernel of yours", "people who differ": "by a kernel of yours",
         "learned by itself": "kernel, inducing inputs, likelihood", "what to ask next": NO,
         "gradients, devices": "TensorFlow, GPU, mini-batches"},
    ),
    Neighbour(
        "PlackettLuce (R)", "plackett-luce", "https://hturner.github.io/PlackettLuce/",
        {"answers": "rankings, partial ones, duels", "features of items": "linear (`pladmm`)",
         "uncertainty": "standard and quasi standard errors", "ties": "learned, of any order",
         "time": NO, "people who differ": "trees; reliability of each ranker",
         "learned by itself": "tie parameters, reliabilities", "what to ask next": NO,
         "gradients, devices": "R"},
    ),
    Neighbour(
        "logitr (R)", "conditional-logit", "https://jhelvy.github.io/logitr/",
        {"answers": "choices", "features of items": "linear",
         "uncertainty": "standard errors, draws", "ties": NO, "time": NO,
         "people who differ": "mixed logit: normal, lognormal, zero-censored normal",
         "learned by itself": "coefficients, their spread", "what to ask next": NO,
         "gradients, devices": "R and C++, several cores"},
    ),
    Neighbour(
        "choice-learn", "conditional-logit", "https://github.com/artefactory/choice-learn",
        {"answers": "choices, baskets", "features of items": "linear, neural networks",
         "uncertainty": "standard errors of the logits", "ties": NO, "time": NO,
         "people who differ": "latent classes", "learned by itself": "weights",
         "what to ask next": NO, "gradients, devices": "TensorFlow, GPU, mini-batches"},
    ),
    Neighbour(
        "kickscore", "kickscore", "https://github.com/lucasmaystre/kickscore",
        {"answers": "duels, ties, differences, counts", "features of items": NO,
         "uncertainty": "of each item", "ties": "given margin", "time": "Markov kernels in time",
         "people who differ": NO, "learned by itself": NO, "what to ask next": NO,
         "gradients, devices": "NumPy, Numba"},
    ),
    Neighbour(
        "TrueSkill", "kickscore", "https://trueskill.org",
        {"answers": "results of teams, rankings", "features of items": NO,
         "uncertainty": "of each item", "ties": "given probability", "time": "drift by match",
         "people who differ": NO, "learned by itself": NO,
         "what to ask next": "quality of a match", "gradients, devices": "Python"},
    ),
)  # fmt: skip


def figures(kept: dict[str, Any]) -> str:
    """A table of what was measured, page by page."""
    lines = ["| data | method | nats | right | seconds |", "|---|---|---|---|---|"]
    for stem, title in TITLES.items():
        if stem not in kept:
            continue
        outputs = [kept[stem]["here"], *(b["output"] for b in kept[stem]["blocks"])]
        found = [m for text in outputs for m in FIGURE.finditer(text)]
        found.sort(key=lambda m: float(m["nats"]))
        first = f"[{title}](coming-from/{stem}.md)"
        for m in found:
            name = m["method"].replace("_", " ").replace("sparse prefgp", "sparse_prefgp")
            lines.append(
                f"| {first} | {name} | {m['nats']} | {float(m['right']):.1%} | "
                f"{m['seconds'] or ''} |".replace("%", " %")
            )
            first = ""
    return "\n".join(lines)


def features() -> str:
    """A table of what each package knows; a row for each, so that it can be read on a phone."""
    lines = []
    for question in QUESTIONS:
        lines += [f"### {question.capitalize()}", "", "| | |", "|---|---|"]
        lines.append(f"| **sparse_prefgp** | {OURS[question]} |")
        lines += [
            f"| {n.name} | {n.knows[question]} |" for n in NEIGHBOURS if n.knows[question] != NO
        ]
        others = [n.name for n in NEIGHBOURS if n.knows[question] == NO]
        lines += ["", f"Not in: {', '.join(others)}." if others else "In all of them.", ""]
    return "\n".join(lines).rstrip()


def versions(kept: dict[str, Any]) -> str:
    """What ran, as a sentence."""
    found: dict[str, str] = {}
    for page in kept.values():
        found |= page["versions"]
    return names(found)


def names(found: dict[str, str]) -> str:
    """Packages with their versions."""
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))


def unrecorded(found: dict[str, str]) -> str:
    """Which of the others' versions are not known, as a sentence if there are any."""
    missing = [name for name in ("botorch", "choix") if name not in found]
    return f"Versions of {' and '.join(missing)} were not recorded. " if missing else ""


def page(kept: dict[str, Any]) -> str:
    """The page, from what is kept of the last runs."""
    run_kept = json.loads(RUN.read_text(encoding="utf-8"))
    measured = [entry for stem, entry in kept.items() if stem in TITLES]
    dates = sorted(entry["date"] for entry in measured)
    machines = sorted({entry["machine"] for entry in measured})
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    sources = "\n".join(
        f"- **{n.name}**: [{n.source.split('//')[1].strip('/')}]({n.source}); "
        f"[the same ten lines there and here](coming-from/{n.page}.md)"
        for n in NEIGHBOURS
    )
    return f"""# How it compares

Figures that were measured side by side, then what each neighbour knows. For advice, [which tool
when](which-tool.md). `python experiments/peers/compare.py --peers .venv-peers/bin/python --write
docs/compared.md` makes this page.

## Measured

Every pair of tools has the same data and the same part held out; a page for each shows the code
that ran. Nats are the mean negative log probability of what happened, the smaller the better; right
is how often the likelier side won. Seconds are of the processor, for one fit, what it compiles
included. They were taken once and on small data, where compiling is most of ours: compare within
one table, by orders of magnitude. PlackettLuce and logitr are R packages: what they publish stands
on their pages.

{figures(kept)}

Measured {when} on one machine ({", ".join(machines)}, busy with other work), with {versions(kept)}.
One percent of what is forecast is 19 votes on language models, 30 duels of cars, 9 choices of
contracts, 13 matches: small differences mean nothing. BoTorch has its default kernel and priors,
kickscore has constants chosen by hand, and had not converged after the 20 rounds that it was given.

### At larger sizes

Duels were made from a smooth utility over four features, and 5,000 new ones are scored. Between
the 200 items the new duels are of the same items. Times are of the clock, with what each method
compiles. *Whole fit* is until the method stopped by itself. GPflow's `SVGP` did not, and was
stopped after 45 s and its compiling. So the next column has when each was within 0.0003 nats of
its own end, where scores along the way are known. The last one has when our fit by VFE, the
default, was as good as that method at its end.

{large(run_kept)}

Measured {run_kept["date"]} in one run of `experiments/peers/run.py` on one machine
({run_kept["machine"]}, {run_kept["cores"]} cores, busy with other work), with
{names(run_kept["versions"])}.
{unrecorded(run_kept["versions"])}One seed and one utility: compare by orders of magnitude.

## What each knows

From the documentation of each. "Not in" means that the package itself has nothing for it, not that
nobody could build it.

{features()}

## Sources

{sources}

Next: [the model](model.md).
"""


def large(kept: dict[str, Any]) -> str:
    """Every method that `run.py` measured, with what it compiles, and when ours was as good."""
    lines = [
        "| data | method | nats | whole fit | near its end after | VFE as good after |",
        "|---|---|---|---|---|---|",
    ]
    for problem in kept["problems"]:
        rows = [run.Row(**row) for row in problem["rows"]]
        (first,) = (s.title.partition(";")[0] for s in run.SETTINGS if s.name == problem["setting"])
        (ours,) = (row for row in rows if row.method == "sparse_prefgp, VFE")
        for row in rows:
            near, good = run.settled(row), run.reached(ours, row.nats)
            known = row.curve is not None
            cells = [first, row.method, f"{row.nats:.4f}", _seconds(row.seconds, row)]
            cells.append(_seconds(near, row) if known else "")
            other = not row.method.startswith(("sparse_prefgp", "linear"))
            cells.append(_seconds(good, ours) if other and not isnan(good) else "")
            lines.append(f"| {' | '.join(cells)} |")
            first = ""
    return "\n".join(lines)


def _seconds(fit: float, row: run.Row) -> str:
    """With what was compiled before."""
    whole = fit + row.compile_seconds
    return f"{whole:.2f} s" if whole < 1 else f"{whole:.1f} s" if whole < 100 else f"{whole:.0f} s"


def main() -> None:
    """Run the pages where `--peers` is given, and write this one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path, help="the Python that has the other packages")
    parser.add_argument("--write", type=Path, required=True, help="the page to be written")
    given = parser.parse_args()
    if given.peers is not None:
        command = [sys.executable, str(HERE / "pages.py"), "--peers", str(given.peers), "--refresh"]
        subprocess.run(command, check=True, cwd=ROOT)
    kept = json.loads(pages.RESULTS.read_text(encoding="utf-8"))
    given.write.write_text(page(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
