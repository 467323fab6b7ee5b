"""Bradley-Terry and Davidson models of the crowd's votes, by SciPy: what ours is held against.

    python experiments/llm_votes/rivals.py DATA OUT [--splits 5]

A fifth of the tasks (`pair_id`) is held out, by `default_rng(0)`, `default_rng(1)`, … With
d = exp(c_j) (s_a - s_b) + side + l_j for language model a seen first, b second, and judge j,

    P(a wins) : P(tie) : P(b wins)  =  exp(d / 2) : exp(nu + t_j) : exp(-d / 2)

(Davidson 1970, "On extending the Bradley-Terry model to accommodate ties in paired comparison
experiments"). Bradley-Terry learns from decided votes, and ties have their share in training
votes. Strengths s, log scales c, ties t and leans l have normal priors of mean 0, whose
standard deviations are chosen by five-fold cross-validation over the training tasks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import check_grad, minimize
from scipy.special import logsumexp

# Standard deviations that cross-validation chooses from; 0 leaves the term out.
STRENGTHS = (0.25, 0.5, 1.0, 2.0)
TERMS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
BRADLEY_TERRY = "Bradley-Terry"
# By name: whether there is a common side, and the terms that each judge has of his own.
RIVALS = {
    BRADLEY_TERRY: (False, ()),
    "Davidson": (False, ()),
    "Davidson, side": (True, ()),
    "Davidson, side; scale and tie by judge": (True, ("scale", "tie")),
    "Davidson, side; scale, tie and lean by judge": (True, ("scale", "tie", "lean")),
}


@dataclass(frozen=True)
class Votes:
    """Votes in the order in which the two answers were shown."""

    first: np.ndarray
    second: np.ndarray
    judge: np.ndarray
    """Numbers of language models and judges, (n,) each."""
    outcome: np.ndarray
    """(n,): 0 the first won, 1 a tie, 2 the second won."""
    task: np.ndarray
    models: int
    judges: int
    answers: np.ndarray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    """(n, 2): rows of the table of answers, the first and the second."""

    def __getitem__(self, rows: np.ndarray) -> Votes:
        names = ("first", "second", "judge", "outcome", "task")
        some = {name: getattr(self, name)[rows] for name in names}
        return replace(
            self, answers=self.answers[rows] if len(self.answers) else self.answers, **some
        )


def crowd(data: Path) -> Votes:
    """The votes of the crowd on disk."""
    votes = pd.read_csv(data / "llm_votes" / "duels.csv.gz", keep_default_na=False)
    votes = votes[votes["judge_kind"] == "crowd"]
    items = answers(data)
    rows = [items.index.get_indexer(votes[side]) for side in ("winner", "loser")]
    won, lost = (items["model"].to_numpy()[row] for row in rows)
    ahead = votes["winner_first"].to_numpy() == 1
    sides = np.where(ahead[:, None], np.stack(rows, 1), np.stack(rows[::-1], 1))
    judges, codes = np.unique(votes["judge"].to_numpy(), return_inverse=True)
    return Votes(
        first=np.where(ahead, won, lost),
        second=np.where(ahead, lost, won),
        judge=codes,
        outcome=np.where(votes["tie"] == 1, 1, np.where(ahead, 0, 2)),
        task=votes["pair_id"].to_numpy(),
        models=int(items["model"].max()) + 1,
        judges=len(judges),
        answers=sides,
    )


def answers(data: Path) -> pd.DataFrame:
    """The answers of the language models to the prompts, by `item_id`."""
    folder = data / "llm_votes"
    return pd.read_csv(folder / "items.csv.gz", keep_default_na=False).set_index("item_id")


def splits(votes: Votes, number: int) -> Iterator[np.ndarray]:
    """Which votes are held out, (n,) of bool, for each split."""
    tasks = pd.unique(votes.task)
    for seed in range(number):
        held = np.random.default_rng(seed).permutation(tasks)[: len(tasks) // 5]
        yield np.isin(votes.task, held)


@dataclass(frozen=True)
class Rival:
    """A model of `RIVALS` at given standard deviations."""

    side: bool
    strength: float
    terms: dict[str, float]
    """Of each term by judge."""
    ties: bool = True
    """Whether ties have a probability; Bradley-Terry gives them none."""

    def log_odds(self, x: np.ndarray, votes: Votes) -> tuple[np.ndarray, np.ndarray, tuple]:
        """d and nu + t_j of each vote, and what the gradient takes from them."""
        k, n = votes.models, votes.judges
        own = x[k + 2 :].reshape(3, n)[:, votes.judge]  # log scale, tie, lean
        scale, apart = np.exp(own[0]), x[votes.first] - x[votes.second]
        tie = x[k + 1] + own[1] if self.ties else np.full(len(apart), -np.inf)
        return scale * apart + x[k] + own[2], tie, (scale, apart)

    def log_probabilities(self, x: np.ndarray, votes: Votes) -> np.ndarray:
        """(n, 3) of the first, a tie, the second."""
        lead, tie, _ = self.log_odds(x, votes)
        logits = np.column_stack([lead / 2, tie, -lead / 2])
        return np.asarray(logits - logsumexp(logits, axis=1, keepdims=True))

    def precisions(self, votes: Votes) -> np.ndarray:
        """Of the priors, (p,): 0 is a flat one, infinity a parameter that is held at 0."""
        own = [self.terms.get(name, 0.0) for name in ("scale", "tie", "lean")]
        with np.errstate(divide="ignore"):
            return np.concatenate(
                [
                    np.full(votes.models, self.strength**-2.0),
                    [0.0 if self.side else np.inf, 0.0 if self.ties else np.inf],
                    np.repeat(np.array(own) ** -2.0, votes.judges),
                ]
            )

    def loss(self, free: np.ndarray, votes: Votes) -> tuple[float, np.ndarray]:
        """The negative log posterior of the parameters that are free, and its gradient."""
        precision = self.precisions(votes)
        known = np.isinf(precision)
        x = np.zeros(len(precision))
        x[~known] = free
        log = self.log_probabilities(x, votes)
        _, _, (scale, apart) = self.log_odds(x, votes)
        apart_from = np.exp(log)
        apart_from[np.arange(len(log)), votes.outcome] -= 1.0
        by_lead = (apart_from[:, 0] - apart_from[:, 2]) / 2
        by_tie = apart_from[:, 1]
        k, n = votes.models, votes.judges
        slope = np.concatenate(
            [
                np.bincount(votes.first, by_lead * scale, k)
                - np.bincount(votes.second, by_lead * scale, k),
                [by_lead.sum(), by_tie.sum()],
                np.bincount(votes.judge, by_lead * scale * apart, n),
                np.bincount(votes.judge, by_tie, n),
                np.bincount(votes.judge, by_lead, n),
            ]
        )
        value = -log[np.arange(len(log)), votes.outcome].sum()
        value += 0.5 * float(precision[~known] @ free**2)
        return float(value), slope[~known] + precision[~known] * free

    def fit(self, votes: Votes) -> np.ndarray:
        """The parameters at the largest posterior density."""
        known = np.isinf(self.precisions(votes))
        x = np.zeros(len(known))
        found = minimize(
            self.loss,
            x[~known],
            (votes,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2000, "ftol": 1e-9, "gtol": 1e-3},
        )
        if not found.success:
            raise RuntimeError(f"L-BFGS-B stopped: {found.message}")
        x[~known] = found.x
        return x


def chosen(name: str, votes: Votes) -> Rival:
    """The rival at the standard deviations that five folds of the tasks predict best with."""
    side, own = RIVALS[name]
    ties = name != BRADLEY_TERRY
    tasks = np.random.default_rng(0).permutation(pd.unique(votes.task))
    folds = [np.isin(votes.task, part) for part in np.array_split(tasks, 5)]

    def held_out(rival: Rival) -> float:
        total = 0.0
        for fold in folds:
            test = votes[fold]
            log = rival.log_probabilities(rival.fit(votes[~fold]), test)
            total -= log[np.arange(len(log)), test.outcome].sum()
        return total

    best = min((Rival(side, sd, {}, ties) for sd in STRENGTHS), key=held_out)
    for term in own:
        best = min((replace(best, terms={**best.terms, term: sd}) for sd in TERMS), key=held_out)
    return best


def predictions(name: str, votes: Votes, held: np.ndarray) -> tuple[Rival, np.ndarray]:
    """The rival chosen and fitted on what is not held out, and its log probabilities, (n, 3)."""
    train, test = votes[~held], votes[held]
    if name != BRADLEY_TERRY:
        rival = chosen(name, train)
        return rival, rival.log_probabilities(rival.fit(train), test)
    decided = train[train.outcome != 1]
    rival, share = chosen(name, decided), float(np.mean(train.outcome == 1))
    log = rival.log_probabilities(rival.fit(decided), test) + np.log1p(-share)
    log[:, 1] = np.log(share)
    return rival, log


def scores(log: np.ndarray, votes: Votes) -> tuple[np.ndarray, np.ndarray]:
    """Nats of each vote: of win, tie and loss (n,), and of the decided ones by who won (n,), nan
    where there is a tie."""
    all_three = -log[np.arange(len(log)), votes.outcome]
    decided = all_three + np.logaddexp(log[:, 0], log[:, 2])
    return all_three, np.where(votes.outcome == 1, np.nan, decided)


def paired(ours: np.ndarray, theirs: np.ndarray, task: np.ndarray) -> tuple[float, float]:
    """The mean of ours minus theirs over votes, and its standard error over tasks."""
    seen = ~np.isnan(ours)
    apart, task = (ours - theirs)[seen], task[seen]
    mean = float(apart.mean())
    sums = np.bincount(np.unique(task, return_inverse=True)[1], apart - mean)
    return mean, float(np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / len(apart))


def check(votes: Votes) -> None:
    """The gradient against differences, for every rival, where no parameter is 0."""
    some = votes[np.arange(0, len(votes.task), 20)]
    for name, (side, own) in RIVALS.items():
        ties = name != BRADLEY_TERRY
        seen = some if ties else some[some.outcome != 1]
        rival = Rival(side, 0.7, dict.fromkeys(own, 0.6), ties)
        free = int(np.isfinite(rival.precisions(seen)).sum())
        x = np.random.default_rng(0).normal(0.0, 0.3, free)
        error = check_grad(
            lambda x, rival=rival, seen=seen: rival.loss(x, seen)[0],
            lambda x, rival=rival, seen=seen: rival.loss(x, seen)[1],
            x,
            epsilon=1e-6,
        )
        size = float(np.linalg.norm(rival.loss(x, seen)[1]))
        if not error < 1e-5 * size:
            raise AssertionError(f"The gradient is off by {error} of {size}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    given = parser.parse_args()
    votes = crowd(given.data)
    check(votes)
    rows = []
    for seed, held in enumerate(splits(votes, given.splits)):
        test = votes[held]
        for name in RIVALS:
            rival, log = predictions(name, votes, held)
            outcomes, decided = scores(log, test)
            rows.append(
                {
                    "split": seed,
                    "rival": name,
                    "decided": float(np.nanmean(decided)),
                    "outcomes": float(outcomes.mean()),
                    "votes": len(outcomes),
                    "sd": {"strength": rival.strength, **rival.terms},
                }
            )
            print(json.dumps(rows[-1]), flush=True)
            given.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
