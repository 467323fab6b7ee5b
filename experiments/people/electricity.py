"""Choices of known and of new people: tastes of one's own, and one taste for all.

    python experiments/people/electricity.py DATA

DATA, and who is held out, are those of `electricity_rivals.py`. Utilities are linear in six
attributes, which are divided by their standard deviation: six normal weights that all share and, of
each person, six of one's own, whose twelve variances are learned: a mixed probit, in which a choice
is one event. As many inducing inputs as attributes span a linear kernel, so that nothing else is
approximated.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd
from electricity_rivals import ATTRIBUTES, FOUR, parts

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, Answers, Codes


def choices_of(table: pd.DataFrame, scale: np.ndarray) -> spg.Duels:
    """The choices of some rows, an event each, of the person who chose."""
    order = np.lexsort((np.arange(len(table)), 1 - table["chosen"], table["choice_set"]))
    x = (table[ATTRIBUTES].to_numpy(float) / scale)[order]
    items, number = np.unique(x, axis=0, return_inverse=True)
    sets = len(table) // FOUR
    events = Answers(
        number.reshape(-1),
        np.arange(0, len(table) + 1, FOUR),
        kind=np.full(sets, CHOICE, np.int8),
        person=Codes.of(table["person"].to_numpy()[order][::FOUR].tolist()),
    )
    return spg.Duels.from_events(items, events, feature_names=ATTRIBUTES)


def fitted(train: spg.Duels, tastes: bool) -> tuple[spg.PreferenceGP, float]:
    """The model at the largest evidence, and seconds."""
    began = time.perf_counter()
    width = train.num_features
    shared, own = (gpflow.kernels.Linear(np.full(width, 1.0 / width)) for _ in range(2))
    model = spg.PreferenceGP(
        train,
        shared,
        terms=[spg.Taste(own)] if tastes else [],
        approximation=spg.DTC(),
        inducing_variable=np.eye(width),
    )
    gpflow.set_trainable(model.inducing_variable, False)
    if tastes:
        spg.default_priors(model)
        spg.begin_tastes(model)
    spg.optimise(model)
    return model, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    train, held = parts(given.data)
    scale = train[ATTRIBUTES].to_numpy(float).std(0)
    known = choices_of(train, scale)
    logs = {}
    for name, tastes in (("one taste", False), ("tastes", True)):
        model, seconds = fitted(known, tastes)
        print(f"{name}: log evidence {model.log_evidence():.2f}, {seconds:.0f} s")
        if tastes:
            each = np.sqrt(model.terms.taste.variance.numpy()) / scale
            shown = ", ".join(f"{n} {v:.3f}" for n, v in zip(ATTRIBUTES, each, strict=True))
            print(f"  standard deviations of own weights, by unit: {shown}")
        for part, table in held.items():
            test = choices_of(table, scale)
            said = test.given if part == "known" else test.given.saying(person=None)
            found = model.predict(said, test.items).log_p
            logs[name, part] = found
            people = test.given.person.labels
            scores = spg.score(found, of="choices", groups=people)
            print(
                f"{part:6} {name:18} {scores['nlp_nats']:.4f} ± {scores['nlp_se']:.4f} nats, "
                f"{scores['hit_rate']:.3f} right, calibration error "
                f"{scores['calibration_error']:.3f}, {scores['choices']} choices"
            )
    for part in held:
        test = choices_of(held[part], scale)
        person = test.given.person.numbers
        gain = logs["tastes", part][:, 0] - logs["one taste", part][:, 0]
        each = np.bincount(person, gain)
        number = np.bincount(person)
        mean = each.sum() / number.sum()
        error = np.sqrt(np.sum((each - mean * number) ** 2)) / number.sum()
        print(f"{part}: tastes gain {mean:.4f} ± {error:.4f} nats a choice (over people)")


if __name__ == "__main__":
    main()
