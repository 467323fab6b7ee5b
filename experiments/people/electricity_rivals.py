"""What a model of people's choices must beat: a conditional logit, and a mixed logit by xlogit.

    pip install --no-deps --target DIR xlogit
    PYTHONPATH=DIR:$PYTHONPATH python experiments/people/electricity_rivals.py DATA

DATA holds `electricity/choices.csv.gz`: 361 people choose one of four offers, up to twelve times
each. People whose id is divisible by 5 are new; of the others the sets whose number is divisible by
5 are held out, the choices of known people.

The mixed logit has a normal coefficient of each attribute, independent of one another, fitted by
simulated maximum likelihood over whole people. For a known person its draws are weighted by the
likelihood of this person's training choices (Revelt & Train 2000), for a new one they are not; the
draws of the predictions are other ones, 20,000 at random.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

import sparse_prefgp as spg

ATTRIBUTES = ["pf", "cl", "loc", "wk", "tod", "seas"]
FOUR = 4  # offers of every set
DRAWS = 20_000


@dataclass(frozen=True)
class Choices:
    """Sets of four offers each."""

    x: np.ndarray
    """(b, 4, 6) attributes."""
    chosen: np.ndarray
    """(b,) the place of the chosen one."""
    person: np.ndarray
    """(b,)."""


def choices_of(table: pd.DataFrame) -> Choices:
    """Some rows of the table, which hold whole sets."""
    return Choices(
        table[ATTRIBUTES].to_numpy(float).reshape(-1, FOUR, len(ATTRIBUTES)),
        table["chosen"].to_numpy().reshape(-1, FOUR).argmax(1),
        table["person"].to_numpy()[::FOUR],
    )


def parts(data: Path) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """The training choices, and those held out of known and of new people."""
    table = pd.read_csv(data / "electricity" / "choices.csv.gz")
    new = table["person"] % 5 == 0
    held = ~new & (table["choice_set"] % 5 == 0)
    return table[~new & ~held], {"known": table[held], "new": table[new]}


def mixed_logit(train: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    """Means and standard deviations (6,) of the coefficients, and the log likelihood."""
    from xlogit import MixedLogit

    model = MixedLogit()
    model.fit(
        X=train[ATTRIBUTES],
        y=train["chosen"],
        varnames=ATTRIBUTES,
        alts=train["alternative"],
        ids=train["choice_set"],
        panels=train["person"],
        randvars=dict.fromkeys(ATTRIBUTES, "n"),
        n_draws=1000,
        verbose=0,
    )
    by = dict(zip(model.coeff_names, model.coeff_, strict=True))
    mean = np.array([by[name] for name in ATTRIBUTES])
    return mean, np.abs([by[f"sd.{name}"] for name in ATTRIBUTES]), float(model.loglikelihood)


def logs(choices: Choices, betas: np.ndarray) -> np.ndarray:
    """Log probabilities (b, 4, draws) of each offer."""
    utility = choices.x @ betas.T
    return np.asarray(utility - special.logsumexp(utility, axis=1, keepdims=True))


def mixed_predictions(
    train: Choices, test: Choices, mean: np.ndarray, sd: np.ndarray
) -> np.ndarray:
    """Probabilities (b, 4): averages over draws, weighted by what a person chose in training."""
    betas = mean + sd * np.random.default_rng(0).standard_normal((DRAWS, len(mean)))
    found = np.empty((len(test.person), FOUR))
    for person in np.unique(test.person):
        here, before = test.person == person, train.person == person
        weight = np.zeros(DRAWS)
        if before.any():
            past = Choices(train.x[before], train.chosen[before], train.person[before])
            weight = logs(past, betas)[np.arange(before.sum()), past.chosen].sum(0)
        weight = np.exp(weight - special.logsumexp(weight))
        now = Choices(test.x[here], test.chosen[here], test.person[here])
        found[here] = np.exp(logs(now, betas)) @ weight
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    train, held = parts(given.data)
    logit = spg.conditional_logit(
        train[ATTRIBUTES].to_numpy(float),
        train["choice_set"],
        train["chosen"],
        people=train["person"],
    )
    began = time.perf_counter()
    mean, sd, likelihood = mixed_logit(train)
    print(f"mixed logit: log likelihood {likelihood:.2f}, {time.perf_counter() - began:.1f} s")
    for name, m, s in zip(ATTRIBUTES, mean, sd, strict=True):
        print(f"  {name}: mean {m:.3f}, standard deviation {s:.3f}")
    known = choices_of(train)
    for part, table in held.items():
        test = choices_of(table)
        for name, p in (
            ("conditional logit", logit.predict_choice(test.x)),
            ("mixed logit", mixed_predictions(known, test, mean, sd)),
        ):
            found = spg.score(np.log(p), test.chosen, of="choices", groups=test.person)
            print(
                f"{part:6} {name:18} {found['nlp_nats']:.4f} ± {found['nlp_se']:.4f} nats, "
                f"{found['hit_rate']:.3f} right, calibration error "
                f"{found['calibration_error']:.3f}, {found['choices']} choices"
            )


if __name__ == "__main__":
    main()
