"""What the defaults make of many sets, next to the best simple rival on the same split.

    python -m experiments.defaults.run OUT.jsonl [--set NAME ...] [--public FOLDER]
    python -m experiments.defaults.run OUT.jsonl --table

Each fit is `spg.fit` with no option but the roles of columns. A line of OUT.jsonl is one measure of
one fit; a run that was stopped goes on with what has no line. The real sets are in the folder
SPARSE_PREFGP_DATA; without it, and without --public, those are left out. Rivals are all that the
package scores beside (linear probit, conditional logit, Bradley-Terry, Elo, constant shares), of
texts a ridge on TF-IDF, of ties Davidson's model; the best of them is taken after the fact.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gpflow  # noqa: F401  (what importing it takes counts for no fit)
import numpy as np
import pandas as pd

import sparse_prefgp as spg
from experiments.defaults.sets import HELD_OUT, MADE, PUBLIC, REAL, Task
from experiments.llm_votes import rivals as votes
from sparse_prefgp.analysis.metrics import standard_error

# What is ours beside the model itself, and no rival of it.
OURS = ("model", "model_ahead", "without_dates", "one_utility")
BEHIND = 0.003


def seconds() -> float:
    """Of processor time so far, children too."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


# ---- rivals that the package has not ------------------------------------------------------------


def ridges_on_words(texts: pd.Series, duels: pd.DataFrame) -> dict[str, np.ndarray]:
    """Log probabilities of held-out duels by ridge logistic regressions on TF-IDF: of words, and of
    words and characters. The ridge is that of the best score on new texts of the training duels."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    train, test = duels[duels[HELD_OUT] == 0], duels[duels[HELD_OUT] == 1]
    seen = texts.iloc[np.unique(train[["winner", "loser"]])]
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2).fit(seen)
    parts = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, min_df=3, max_features=60_000
    ).fit(seen)
    counts = np.asarray(train.get("count", pd.Series(1.0, train.index)))
    inner = inner_folds(train, len(texts), rng)
    columns = words.transform(texts), parts.transform(texts)
    found = {}
    for name, x in {
        "ridge on words": columns[0],
        "ridge on words and characters": sparse.hstack(columns),
    }.items():
        x = x.tocsr()
        apart = [x[rows["winner"]] - x[rows["loser"]] for rows in (train, test)]

        def scored(
            weight: float, fitted: np.ndarray, held: Any, known: Any = apart[0]
        ) -> np.ndarray:
            half = rng.random(len(fitted)) < 0.5
            sign = np.where(half, 1.0, -1.0)
            model = LogisticRegression(C=weight, fit_intercept=False, max_iter=300)
            model.fit(sparse.diags(sign) @ known[fitted], half, counts[fitted])
            return -np.logaddexp(0.0, -(held @ model.coef_[0]))

        nats = list[float]()
        weights = 10.0 ** np.arange(-2.5, 1.1, 0.5)
        for weight in weights:
            logs = [scored(weight, fit, apart[0][held]) for fit, held in inner]
            held = np.concatenate([rows for _, rows in inner])
            nats.append(-float(np.average(np.concatenate(logs), weights=counts[held])))
            if nats[-1] > min(nats) + 0.004:
                break
        best = weights[int(np.argmin(nats))]
        found[name] = scored(best, np.arange(len(train)), apart[1])
    return found


def inner_folds(
    duels: pd.DataFrame, items: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of duels to fit to and to score, with neither side in what is fitted to: of linked items
    where these are many, else of items; two draws."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    won, lost = duels["winner"].to_numpy(), duels["loser"].to_numpy()
    links = coo_matrix((np.ones(len(won)), (won, lost)), (items, items))
    unit = connected_components(links, directed=False)[1]
    if np.bincount(unit[won]).max() > 0.5 * len(won):
        unit = np.arange(items)
    folds = []
    for _ in range(2):
        new = (rng.random(unit.max() + 1) < 0.3)[unit]
        both, none = new[won] & new[lost], ~(new[won] | new[lost])
        folds.append((np.flatnonzero(none), np.flatnonzero(both)))
    return folds


def davidson(duels: pd.DataFrame) -> dict[str, np.ndarray]:
    """Log probabilities (t, 3) of win, tie and loss of the held-out duels by Davidson's model."""
    names, code = np.unique(duels[["winner", "loser"]].to_numpy().reshape(-1), return_inverse=True)
    won, lost = code.reshape(-1, 2).T
    shown = duels.get("winner_first")
    ahead = np.random.default_rng(0).random(len(duels)) < 0.5 if shown is None else shown == 1
    ahead = np.asarray(ahead)
    tied, held = duels["tie"].to_numpy() == 1, duels[HELD_OUT].to_numpy() == 1
    known = votes.Votes(
        first=np.where(ahead, won, lost),
        second=np.where(ahead, lost, won),
        judge=np.zeros(len(duels), np.int64),
        outcome=np.where(tied, 1, np.where(ahead, 0, 2)),
        task=np.arange(len(duels)),
        models=len(names),
        judges=1,
    )
    found = {}
    for name in ("Davidson", "Davidson, side")[: 1 if shown is None else 2]:
        log = votes.predictions(name, known, held)[1]
        found[name] = np.where(ahead[held][:, None], log, log[:, ::-1])
    return found


def others(task: Task) -> dict[str, dict[str, np.ndarray]]:
    """By what is scored and rival, log probabilities of the held-out events."""
    if task.texts is not None:
        return {"duels": ridges_on_words(task.texts, task.sources["duels"])}
    if task.ties:
        of_all = davidson(task.sources["duels"])
        of_decided = {
            name: log[:, 0] - np.logaddexp(log[:, 0], log[:, 2]) for name, log in of_all.items()
        }
        return {"outcomes": of_all, "duels": of_decided}
    return {}


# ---- one fit ------------------------------------------------------------------------------------


def measured(task: Task) -> list[dict[str, Any]]:
    """What one default fit says of the held-out events, next to its rivals."""
    before = seconds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = spg.fit(**task.sources, split=f"given:{HELD_OUT}")
    used, of_rival = seconds() - before, seconds()
    extra = others(task)
    fit = fitted.figures["fit"]
    told = {
        "cpu": used,
        "cpu_rivals": seconds() - of_rival,
        "kernel": str(fit["kernel"]),
        "approximation": str(fit["approximation"]),
        # Whether the fit itself names a rival that is surely better, and the option that takes it.
        "named": any(f"; {what} --" in str(fitted) for what in ("take", "leave")),
    }
    lines = []
    for of, scored in fitted.held_out.forecasts.items():
        happened = np.arange(len(scored.event)), scored.happened
        logs = {
            name: values if values.ndim == 1 else values[happened]
            for name, values in scored.log_probabilities.items()
        }
        for name, values in extra.get(of, {}).items():
            values = values[scored.event]
            logs[name] = values if values.ndim == 1 else values[happened]
        counts, groups = np.asarray(scored.counts, float), task.groups
        groups = None if groups is None else groups[scored.event]
        for part, mask in (task.parts or {"": np.ones(len(counts), bool)}).items():
            rows = mask[scored.event] if task.parts else mask
            some = {name: values[rows] for name, values in logs.items()}
            for label, model, rivals in contests(some):
                lines.append(
                    {"of": " ".join(filter(None, (of, part, label))), **told}
                    | compared(
                        some, model, rivals, counts[rows], None if groups is None else groups[rows]
                    )
                )
    return lines


def contests(logs: dict[str, np.ndarray]) -> Iterator[tuple[str, str, list[str]]]:
    """What is said of the measure, the model, and the names of its rivals."""
    rivals = [name for name in logs if name not in OURS]
    if "model_ahead" not in logs:
        yield "", "model", rivals
    else:
        yield "frozen", "model", [name for name in rivals if name != "elo_ahead"]
        yield "by day", "model_ahead", rivals


def compared(
    logs: dict[str, np.ndarray],
    model: str,
    rivals: list[str],
    counts: np.ndarray,
    groups: np.ndarray | None,
) -> dict[str, Any]:
    """Nats of all, the best rival, and how far the model is from it."""
    nats = {name: -float(np.average(values, weights=counts)) for name, values in logs.items()}
    best = min(rivals, key=nats.__getitem__)
    return {
        "held_out": float(counts.sum()),
        "nats": nats[model],
        "rival": best,
        "rival_nats": nats[best],
        "behind": nats[model] - nats[best],
        "se": standard_error(logs[best] - logs[model], counts, groups),
        "all": nats,
    }


# ---- all of them --------------------------------------------------------------------------------


def tasks(public: Path | None) -> dict[str, tuple[int, Callable[[int], Task]]]:
    """By name, how many seeds there are and the task of one."""
    found, real = dict(MADE), os.environ.get("SPARSE_PREFGP_DATA")
    for folder, sets in ((real, REAL), (public, PUBLIC)):
        if folder is not None:
            found |= {name: (n, partial(make, Path(folder))) for name, (n, make) in sets.items()}
    return found


def table(lines: list[dict[str, Any]]) -> str:
    """A row for each measure of each set: means over seeds or folds, and what each was behind."""
    text = [
        "| set (seeds or folds) | what | default | best rival | behind ± se | of each | kernel "
        "| CPU s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, of in dict.fromkeys((line["set"], line["of"]) for line in lines):
        some = [line for line in lines if (line["set"], line["of"]) == (name, of)]
        nats, rival, behind = (
            np.mean([line[what] for line in some]) for what in ("nats", "rival_nats", "behind")
        )
        se = np.sqrt(np.sum([line["se"] ** 2 for line in some])) / len(some)
        each = ", ".join(f"{line['behind']:+.4f}" for line in some)
        rivals, kernels = (
            "; ".join(dict.fromkeys(line[what] for line in some)) for what in ("rival", "kernel")
        )
        cpu, mark = np.mean([line["cpu"] for line in some]), "**" if behind > BEHIND else ""
        text.append(
            f"| {name} ({len(some)}) | {of} | {nats:.4f} | {rival:.4f} {rivals} | "
            f"{mark}{behind:+.4f}{mark} ± {se:.4f} | "
            f"{each} | {kernels} | {cpu:.0f} |"
        )
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", action="append", help="one by its name; all by default")
    parser.add_argument("--seeds", type=int, help="at most so many of each")
    parser.add_argument("--public", type=Path, help="the folder of the public tables")
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    given = parser.parse_args()
    known = tasks(given.public)
    lines = [json.loads(line) for line in given.out.open()] if given.out.exists() else []
    done = {(line["set"], line["seed"]) for line in lines}
    for name in [] if given.table else given.set or known:
        number, make = known[name]
        for seed in range(min(number, given.seeds or number)):
            if (name, seed) in done:
                continue
            new = [{"set": name, "seed": seed, **line} for line in measured(make(seed))]
            with given.out.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in new)
            lines += new
            print(table(new).splitlines()[-len(new) :], flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
