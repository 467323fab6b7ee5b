"""Are tastes of judges worth anything where judges were to say what is good?

    python experiments/people/judges.py DATA

Votes of a crowd on language models (`llm_votes`, 59 models, an effect of each) and on arguments
(`ukp_convincing`, features of the arguments), the strict ones. A fifth of the tasks (pairs that
were put to several judges) is held out, by `default_rng(0)`: held-out votes are mostly of known
judges. Each judge has a taste of the same kernel, or all have one utility, without or with a noise
of each judge, which explains some of the same.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd

import sparse_prefgp as spg
from sparse_prefgp.analysis.metrics import score


def split(tasks: pd.Series) -> np.ndarray:
    """(t,) which votes are held out."""
    every = np.unique(tasks)
    chosen = np.random.default_rng(0).permutation(every)[: len(every) // 5]
    return np.isin(tasks, chosen)


def llm_votes(data: Path) -> tuple[np.ndarray, pd.DataFrame]:
    """Models without features; winner, loser, judge and task of each vote."""
    folder = data / "llm_votes"
    model = pd.read_csv(folder / "items.csv.gz").set_index("item_id")["model"]
    votes = pd.read_csv(folder / "duels.csv.gz")
    votes = votes[(votes["tie"] == 0) & (votes["judge_kind"] == "crowd")]
    frame = pd.DataFrame(
        {
            "winner": model[votes["winner"]].to_numpy(),
            "loser": model[votes["loser"]].to_numpy(),
            "judge": votes["judge"].to_numpy(),
            "task": votes["pair_id"].to_numpy(),
        }
    )
    frame = frame[frame["winner"] != frame["loser"]].reset_index(drop=True)
    return np.empty((int(model.max()) + 1, 0)), frame


def ukp_convincing(data: Path) -> tuple[np.ndarray, pd.DataFrame]:
    """The same of arguments, with standardised features."""
    folder = data / "ukp_convincing"
    items = pd.read_csv(folder / "items.csv.gz").set_index("item_id")
    x = items.drop(columns=["source_id", "debate"]).to_numpy(float)
    x = x[:, x.std(0) > 0.0]
    votes = pd.read_csv(folder / "duels.csv.gz")
    place = pd.Series(np.arange(len(items)), items.index)
    frame = pd.DataFrame(
        {
            "winner": place[votes["winner"]].to_numpy(),
            "loser": place[votes["loser"]].to_numpy(),
            "judge": votes["annotator"].to_numpy(),
            "task": votes["pair_id"].to_numpy(),
        }
    )
    return (x - x.mean(0)) / x.std(0), frame


def kernel(x: np.ndarray) -> gpflow.kernels.Kernel:
    """An effect of each item without features; linear in them otherwise."""
    if not x.shape[1]:
        return spg.ItemEffect()
    return gpflow.kernels.Linear(1.0 / x.shape[1])


def compared(name: str, x: np.ndarray, frame: pd.DataFrame) -> None:
    """Print held-out scores."""
    test = split(frame["task"])
    train, held = frame[~test], frame[test]
    each = len(train) / train["judge"].nunique()
    known = held["judge"].isin(train["judge"]).mean()
    print(
        f"{name}: {len(train):,} votes of {train['judge'].nunique():,} judges, {each:.0f} each; "
        f"{len(held):,} held out, {known:.1%} of known judges"
    )
    judges = train["judge"].to_numpy()
    logs = {}
    for how, tastes, noise in (
        ("one utility", False, False),
        ("one utility, noise by judge", False, True),
        ("tastes", True, False),
    ):
        began = time.perf_counter()
        duels = spg.Duels(
            x,
            train["winner"].to_numpy(),
            train["loser"].to_numpy(),
            people=judges if tastes else None,
            groups=judges if noise else None,
        )
        more = {"approximation": spg.Exact()}
        if x.shape[1]:
            more = {"approximation": spg.DTC(), "inducing_variable": np.eye(x.shape[1])}
        model = spg.PreferenceGP(
            duels,
            kernel(x),
            terms=[spg.Taste(kernel(x))] if tastes else [],
            likelihood=spg.Probit(by="judge" if noise else None),
            **more,
        )
        if model.inducing_variable is not None:
            gpflow.set_trainable(model.inducing_variable, False)
        if tastes:
            spg.default_priors(model)
            spg.begin_tastes(model)
        spg.optimise(model)
        inputs = model.inputs.of_items()
        who = held["judge"].to_numpy()
        people = np.where(held["judge"].isin(train["judge"]), who, None)
        chance = model.predict_duel(
            inputs[held["winner"]],
            inputs[held["loser"]],
            groups=people if noise else None,
            people=people if tastes else None,
        )
        found = np.log(chance.numpy())
        logs[how] = found
        scores = score(found)
        shares = ""
        if tastes:
            shared, own = (k.variance.numpy().mean() for k in (model.kernel, model.terms.taste))
            shares = f", variance of one's own {own / (own + shared):.2f} of all"
        print(
            f"  {how:28} {scores['nlp_nats']:.4f} nats, {scores['accuracy']:.4f}, calibration "
            f"error {scores['calibration_error']:.3f}, evidence {model.log_evidence():.1f}"
            f"{shares}, {time.perf_counter() - began:.0f} s",
            flush=True,
        )
    for rival in ("one utility", "one utility, noise by judge"):
        gain = pd.Series(logs["tastes"] - logs[rival]).groupby(held["task"].to_numpy()).sum()
        error = float(np.sqrt(((gain - gain.mean()) ** 2).sum()) / len(held))
        print(
            f"  tastes less {rival}: gain {gain.sum() / len(held):.4f} ± {error:.4f} (over tasks)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    compared("llm_votes", *llm_votes(given.data))
    compared("ukp_convincing", *ukp_convincing(given.data))


if __name__ == "__main__":
    main()
