"""What a model of choices must beat, on two public surveys: shares, and conditional logits.

    python experiments/choices/rivals.py DATA [--out rivals.json]

DATA holds `electricity/choices.csv.gz` and `mode_canada/choices.csv.gz`, a row for each
alternative. People whose number is divisible by 5 are held out. Of travellers those that had all
four modes are taken, as in the published analyses (Koppelman & Wen 2000).

A choice read as duels of the chosen one with each of the others has the product of their
probabilities, from a linear probit on the training duels; normalised, it is divided by the sum over
the alternatives.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import log_ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis.rivals import probit_of

FOUR = 4  # alternatives of every set
ATTRIBUTES = ["pf", "cl", "loc", "wk", "tod", "seas"]
MODES = ["train", "air", "bus", "car"]


@dataclass(frozen=True)
class Survey:
    """Choices of one in four, with the columns of a conditional logit by name."""

    name: str
    label: str
    """What tells alternatives apart without attributes."""
    table: pd.DataFrame
    columns: dict[str, dict[str, np.ndarray]]
    """Of each set of columns, those of the rows of the table."""

    @property
    def held_out(self) -> np.ndarray:
        """(rows,)."""
        return (self.table["person"] % 5 == 0).to_numpy()


def electricity(data: Path) -> Survey:
    """Offers of suppliers, told apart by their position."""
    table = pd.read_csv(data / "electricity" / "choices.csv.gz")
    columns = {name: table[name].to_numpy(float) for name in ATTRIBUTES}
    return Survey("electricity", "position", table, {"conditional logit": columns})


def mode_canada(data: Path) -> Survey:
    """Modes of travel, with constants and incomes of all but air, and times in vehicle by mode."""
    table = pd.read_csv(data / "mode_canada" / "choices.csv.gz")
    table = table[table["noalt"] == FOUR].reset_index(drop=True)
    flag = {mode: (table["alternative"] == mode).to_numpy(float) for mode in MODES}

    def by_mode(name: str, modes: list[str]) -> dict[str, np.ndarray]:
        return {f"{name} {mode}": flag[mode] * table[name].to_numpy(float) for mode in modes}

    some = ["bus", "car", "train"]
    columns = {name: table[name].to_numpy(float) for name in ("cost", "freq", "ovt")}
    columns |= flag_columns(flag, some) | by_mode("income", some) | by_mode("ivt", MODES)
    more = columns | by_mode("dist", some) | by_mode("urban", some)
    every = {"conditional logit": columns, "… with dist and urban by mode": more}
    return Survey("mode_canada", "mode", table, every)


def flag_columns(flag: dict[str, np.ndarray], modes: list[str]) -> dict[str, np.ndarray]:
    """Constants."""
    return {f"constant {mode}": flag[mode] for mode in modes}


def predictions(survey: Survey) -> Iterator[tuple[str, np.ndarray]]:
    """Probabilities of the held-out sets, (b, 4), by each rival."""
    table, test = survey.table, survey.held_out
    train = table[~test]
    known = (train["choice_set"], train["chosen"])
    flags = pd.get_dummies(table["alternative"]).to_numpy(float)
    yield "equal shares", np.full((test.sum() // FOUR, FOUR), 1.0 / FOUR)
    shares = spg.conditional_logit(flags[~test], *known, people=train["person"])
    yield (
        f"shares of the {survey.label}",
        shares.predict_choice(flags[test].reshape(-1, FOUR, FOUR)),
    )
    for name, columns in survey.columns.items():
        x = np.column_stack(list(columns.values()))
        new = x[test].reshape(-1, FOUR, x.shape[1])
        for ridge, how in (({"ridge": 0.0}, ""), ({}, ", ridge")):
            logit = spg.conditional_logit(x[~test], *known, people=train["person"], **ridge)
            chosen = f"{how} {logit.ridge:g} by cross-validation" if how else ""
            yield f"{name}{chosen}", logit.predict_choice(new)
    x = np.column_stack(list(next(iter(survey.columns.values())).values()))
    yield "linear probit on duels, product, normalised", of_duels(x / x[~test].std(0), survey)


def of_duels(x: np.ndarray, survey: Survey) -> np.ndarray:
    """(b, 4) products of the probabilities to beat each of the others, over their sum."""
    products = np.exp(log_products(x, survey))
    return products / products.sum(1, keepdims=True)


def log_products(x: np.ndarray, survey: Survey) -> np.ndarray:
    """(b, 4) log of the product of the probabilities to beat each of the others."""
    test, chosen = survey.held_out, survey.table["chosen"].to_numpy().astype(bool)
    sets = x[~test].reshape(-1, FOUR, x.shape[1])
    best = chosen[~test].reshape(-1, FOUR)
    won = np.repeat(sets[best], FOUR - 1, axis=0)
    probit = probit_of(won - sets[~best])
    new = x[test].reshape(-1, FOUR, x.shape[1])
    apart = new[:, :, None] - new[:, None]
    logs = log_ndtr(apart @ probit.coefficients)
    return (logs * (1.0 - np.eye(FOUR))).sum(2)


def rows_of(survey: Survey) -> Iterator[dict[str, object]]:
    """Scores of each rival on the held-out choices."""
    test = survey.table[survey.held_out]
    place = test["chosen"].to_numpy().reshape(-1, FOUR).argmax(1)
    people = test["person"].to_numpy().reshape(-1, FOUR)[:, 0]
    for name, p in predictions(survey):
        figures = spg.score(np.log(p), place, of="choices", groups=people, se_over="people")
        over_choices = spg.score(np.log(p), place, of="choices")["nlp_se"]
        yield {"rival": name, **figures, "nlp_se_over_choices": over_choices}
    x = np.column_stack(list(next(iter(survey.columns.values())).values()))
    logs = log_products(x / x[~survey.held_out].std(0), survey)
    chosen = logs[np.arange(len(place)), place]
    raw = spg.score(chosen, of="rankings", groups=people, se_over="people")
    yield {"rival": "linear probit on duels, product", **raw}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {}
    for survey in (electricity(given.data), mode_canada(given.data)):
        table, test = survey.table, survey.held_out
        names, columns = zip(*next(iter(survey.columns.values())).items(), strict=True)
        whole = spg.conditional_logit(
            np.column_stack(columns), table["choice_set"], table["chosen"], names=names, ridge=0.0
        )
        width = 60
        print(f"\n{survey.name}: {whole}\n")
        print(f"{(~test).sum() // FOUR:,} choices for training, {test.sum() // FOUR:,} held out")
        print(f"{'nats ± over people (over choices)':>{width + 26}}  hit rate  calibration")
        rows = list(rows_of(survey))
        for row in rows:
            line = f"{row['rival']:{width}}  {row['nlp_nats']:.4f} ± {row['nlp_se']:.4f}"
            if "hit_rate" in row:
                line += f" ({row['nlp_se_over_choices']:.4f})"
                line += f"{row['hit_rate']:9.4f}  {row['calibration_error']:11.4f}"
            print(line)
        found[survey.name] = {"log_likelihood": whole.log_likelihood, "rows": rows}
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
