"""Which verdicts to rely on: thresholds that keep what they promise, and the votes by surprise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.metrics import abstention_curve
from sparse_prefgp.analysis.one_step import Board
from sparse_prefgp.analysis.trust import (
    frame_of,
    one_of_each,
    own_abstention,
    threshold,
    votes_by_surprise,
)
from sparse_prefgp.analysis.verdicts import score_parts
from tests.reference import slow_trust as slow
from tests.together import refused
from tests.tolerances import IDENTITY


def winners(rng: np.random.Generator, votes: int, slope: float = 1.0, sd: float = 0.9) -> Any:
    """Probabilities that a model gave to the winners, of which `slope` of 1 is right."""
    d = rng.normal(0.0, sd, votes)
    won = rng.uniform(size=votes) < ndtr(slope * d)
    return ndtr(np.where(won, d, -d))


@pytest.mark.parametrize("seed", range(12))
def test_it_is_that_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes, risk = int(rng.integers(20, 900)), float(rng.choice([0.05, 0.1, 0.2, 0.3]))
    won = winners(rng, votes, 0.8 + 0.4 * (seed % 2), 1.5)
    if seed % 3 == 0:
        won = np.clip(np.round(won, 1), 0.1, 0.9)  # equal ones, and halves
    found = threshold(np.log(won), risk=risk, confidence=0.9)
    wanted = slow.threshold(won.tolist(), risk, 0.9)
    assert (found.probability is None) == (wanted is None)
    if wanted is not None:
        assert found.probability == pytest.approx(wanted, rel=IDENTITY)
        above = np.maximum(won, 1.0 - won) >= wanted - 1e-12
        assert found.share == pytest.approx(above.mean())
    for step in found.steps:
        assert step.p == pytest.approx(slow.at_most(step.wrong, step.votes, risk), rel=1e-9)


def test_both_answers_are_there() -> None:
    rng = np.random.default_rng(0)
    many = [threshold(np.log(winners(rng, 800)), risk=0.1) for _ in range(20)]
    assert any(one.probability is None for one in many)
    assert any(one.probability is not None for one in many)
    none = threshold(np.log(winners(rng, 25)), risk=0.1)
    assert none.probability is None and none.share == 0.0 and not none.steps
    assert none.sentence.startswith("No threshold keeps wrong verdicts below 10 % with 95 %")
    one = threshold(np.log(np.full(400, 0.97)), risk=0.1, tasks=True)
    assert one.probability == pytest.approx(0.97) and one.share == 1.0
    assert "0.970 or more, 100 % of all, are wrong in at most 10 % of cases" in one.sentence
    assert "400 votes, one of each task" in one.sentence
    assert json.loads(json.dumps(one.to_dict()))["sentence"] == one.sentence


def test_counts_are_votes() -> None:
    won = winners(np.random.default_rng(3), 60, sd=2.0)
    counts = np.random.default_rng(4).integers(1, 9, 60)
    found = threshold(np.log(won), counts, risk=0.2)
    assert found == threshold(np.log(np.repeat(won, counts)), risk=0.2)
    assert found.probability is not None


def test_it_keeps_the_risk() -> None:
    """Of an overconfident model too; the last share of no more wrong ones than that does not."""
    rng, broken, plain = np.random.default_rng(5), 0, 0
    d = rng.normal(0.0, 0.9, 400_000)
    sure, wrong = np.maximum(ndtr(d), ndtr(-d)), ndtr(-0.7 * np.abs(d))
    for _ in range(200):
        won = winners(rng, 800, slope=0.7)
        found = threshold(np.log(won), risk=0.2).probability
        if found is not None:
            broken += wrong[sure >= found].mean() > 0.2
        order = np.argsort(-np.maximum(won, 1.0 - won))
        rate = np.cumsum(won[order] <= 0.5) / np.arange(1, 801)
        kept = np.flatnonzero(rate <= 0.2)
        if len(kept):
            limit = max(won[order[kept[-1]]], 1.0 - won[order[kept[-1]]])
            plain += wrong[sure >= limit].mean() > 0.2
    assert broken <= 10 < 60 < plain


def test_one_vote_of_each_task() -> None:
    tasks = np.array([3, 3, 0, 1, 1, 1, 0, 2])
    drawn = {tuple(one_of_each(tasks, np.random.default_rng(seed))) for seed in range(200)}
    assert len(drawn) == 2 * 2 * 3
    assert all(sorted(tasks[list(one)]) == [0, 1, 2, 3] for one in drawn)


# ---- of a model --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> tuple[spg.PreferenceGP, pd.DataFrame]:
    """A model of duels with ties, and new duels with their tasks."""
    rng = np.random.default_rng(7)
    items = pd.DataFrame({"item_id": [f"i{k}" for k in range(12)], "x": np.linspace(-2, 2, 12)})
    utility = 1.5 * items["x"].to_numpy()

    def votes(number: int) -> pd.DataFrame:
        first = rng.integers(0, 12, number)
        second = (first + rng.integers(1, 12, number)) % 12
        d = utility[first] - utility[second] + rng.normal(size=number)
        won, lost = np.where(d > 0, first, second), np.where(d > 0, second, first)
        ids = items["item_id"].to_numpy()
        frame = pd.DataFrame({"winner": ids[won], "loser": ids[lost]})
        return frame.assign(tie=(np.abs(d) < 0.3).astype(int), task=np.arange(number) // 3)

    training = votes(150)[["winner", "loser", "tie"]]
    duels = spg.read_duels(items, training)
    kernel = gpflow.kernels.SquaredExponential(variance=4.0)
    return spg.PreferenceGP(duels, kernel, likelihood=spg.Probit(margin=0.3)), votes(300)


def test_evaluate_says_what_to_rely_on(made: Any) -> None:
    model, votes = made
    plain = spg.evaluate(model, votes)
    assert "threshold" not in plain and "votes" not in plain
    curve = plain["held_out_abstention"]
    assert next(iter(curve)) == "1" and len(curve) == 10
    assert curve["1"] == pytest.approx(plain["held_out"]["model"]["accuracy"])
    assert curve["0.1"] > curve["1"]
    table = next(x for x in score_parts(plain, "") if getattr(x, "name", "") == "abstention")
    assert "100 %" in str(table) and f"{curve['0.5']:.3f}" in str(table)
    how = {"risk": 0.1, "confidence": 0.9, "task": "none"}
    found = spg.evaluate(model, votes, **how)["threshold"]
    decided = votes[votes["tie"] == 0]
    assert found["tested"] == len(decided) and not found["tasks"]
    p = spg.predict(model, decided.rename(columns={"winner": "first", "loser": "second"}))
    won = p["probability"] / (1.0 - p["tie_probability"])
    assert found["probability"] == pytest.approx(slow.threshold(list(won), 0.1, 0.9), rel=1e-6)
    by_task = spg.evaluate(model, votes, risk=0.3, task="task")["threshold"]
    assert by_task["tasks"] and by_task["tested"] == decided["task"].nunique()
    for name in ("task", "Question ID"):
        with pytest.warns(UserWarning, match=f"Votes of one {name} are not independent"):
            usual = spg.evaluate(model, votes.rename(columns={"task": name}), risk=0.3)
        assert usual["threshold"]["tested"] == by_task["tested"]


def test_the_votes_by_surprise(made: Any) -> None:
    model, votes = made
    found = spg.evaluate(model, votes, trust=True)["votes"]
    assert list(found.columns[-1:]) == ["probability"] and len(found) == len(votes)
    assert found["probability"].is_monotonic_increasing
    assert set(found["task"]) == set(votes["task"])
    row = found.iloc[0]
    pair = pd.DataFrame({"first": [row["winner"]], "second": [row["loser"]]})
    p = spg.predict(model, pair).iloc[0]
    wanted = p["tie_probability"] if row["tie"] else p["probability"]
    assert row["probability"] == pytest.approx(wanted, rel=1e-6)
    own = votes_by_surprise(model)
    with pytest.warns(UserWarning, match="equal to those that the model has learned from"):
        again = spg.evaluate(model, model.duels, trust=True)["votes"]
    one_each = again.loc[again.index.repeat(again["count"])].drop(columns="count")
    pd.testing.assert_frame_equal(own, one_each.reset_index(drop=True))
    assert len(own) == 150 and own["tie"].sum() == model.duels.num_ties
    tasks = np.arange(150)
    by_task = votes_by_surprise(model, task=tasks).set_index("task")
    ids, given = model.duels.item_ids, model.duels.given
    for task, (one, other) in enumerate(given.pairs.tolist()):
        assert tuple(by_task.loc[task, ["winner", "loser"]]) == (ids[one], ids[other])
    some = spg.Duels(np.eye(3), [0, 1, 0], [1, 2, 1], counts=[2, 1, 3])
    seen = votes_by_surprise(spg.PreferenceGP(some, gpflow.kernels.Linear()), task=["a", "b", "c"])
    assert dict(zip(seen["task"], seen["count"], strict=True)) == {"a": 2, "b": 1, "c": 3}
    beside = spg.Duels(np.eye(2), [0, 1], [1, 0], covariates=[[30.0], [-7.0]])
    assert frame_of(beside)["covariate 0"].tolist() == [30.0, -7.0]


def test_the_curve_of_own_votes_leaves_each_out() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 4, 30), rng.integers(1, 4, 30)
    sides = first, (first + second) % 4
    ties, judge = rng.uniform(size=30) < 0.2, rng.choice(["ann", "ben"], 30)
    duels = spg.Duels(np.eye(4), *sides, ties=ties, groups=judge.tolist())
    likelihood = spg.Probit(by="judge", margin=0.3)
    model = spg.PreferenceGP(duels, spg.ItemEffect(), likelihood=likelihood)
    model.likelihood.noise_ratio.assign([0.5, 2.0])
    votes = Votes.of(model)
    logs = []
    for vote in np.flatnonzero(~votes.tied):
        left = Board.of(votes).without(np.arange(30) == vote)
        mean, variance = (part[vote] for part in left.marginals)
        noise, cut = votes.noise[votes.judge.numbers[vote]], votes.margin[0]
        sd = np.sqrt(variance + noise)
        won, lost = ndtr((mean - cut) / sd), ndtr((-mean - cut) / sd)
        logs.append(np.log(won / (won + lost)))
    wanted = {f"{share:g}": right for share, right in abstention_curve(logs).items()}
    assert own_abstention(model) == pytest.approx(wanted, rel=IDENTITY)
    assert 0.0 < wanted["1"] < 1.0
    tied = spg.Duels(np.eye(2), [0], [1], ties=[True])
    alike = spg.PreferenceGP(tied, spg.ItemEffect(), likelihood=spg.Probit(margin=0.3))
    assert own_abstention(alike) == {}


def test_tasks_of_duels_are_among_their_labels(made: Any) -> None:
    model, votes = made
    ids = list(model.duels.item_ids)
    rows = [[ids.index(x) for x in votes[side]] for side in ("winner", "loser")]
    labels = {"task": votes["task"].tolist()}
    ties = votes["tie"].to_numpy() == 1
    duels = spg.Duels(model.duels.items, *rows, ties=ties, labels=labels)
    found = spg.evaluate(model, duels, risk=0.3, task="task")["threshold"]
    assert found["tasks"] and found["tested"] == votes.loc[~ties, "task"].nunique()
    with pytest.raises(ValueError, match="task is 'prompt'; choose from task, the labels"):
        spg.evaluate(model, duels, risk=0.3, task="prompt")


def test_what_a_threshold_cannot_be_made_of(made: Any, tmp_path: Path) -> None:
    model, votes = made
    with refused("risk", "known_duels"):
        spg.evaluate(model, model.duels, risk=0.1)
    with pytest.raises(ValueError, match=r"risk is 1.5; give a number, above 0 and below 1"):
        spg.evaluate(model, votes, risk=1.5)
    with pytest.raises(ValueError, match="confidence is 0; give"):
        spg.evaluate(model, votes, risk=0.1, confidence=0)
    with pytest.raises(ValueError, match="no column 'prompt'; add or rename one"):
        spg.evaluate(model, votes, risk=0.1, task="prompt")
    lost = votes.assign(task=votes["task"].astype(object).where(votes.index != 4))
    with pytest.raises(ValueError, match=r"'task' has a missing value in .*; name the task"):
        spg.evaluate(model, lost, risk=0.1, task="task")
    with refused("no_risk", "task"):
        spg.evaluate(model, votes, task="task")
    with refused("risk", "streamed"):
        spg.evaluate(model, spg.stream_duels(model.duels), risk=0.1)
    with refused("trust", "streamed"):
        spg.evaluate(model, spg.stream_duels(model.duels), trust=True)
    with refused("trust", "answers"):
        spg.evaluate(model, choices=votes, trust=True)
    with refused("risk", "answers"):
        spg.evaluate(model, choices=votes, risk=0.1)


def test_votes_of_which_a_part_was_fitted_are_refused() -> None:
    """With a covariate, by which votes are told apart."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, 160)
    second = (first + rng.integers(1, 6, 160)) % 6
    won = rng.uniform(size=160) < ndtr((second - first) / 2.0)
    frame = pd.DataFrame(
        {
            "winner": np.where(won, first, second),
            "loser": np.where(won, second, first),
            "length": rng.normal(size=160),
        }
    )
    items = pd.DataFrame({"item_id": range(6), "x": np.linspace(-1.0, 1.0, 6)})
    training, new = frame[:80], frame[80:]
    duels = spg.read_duels(items, training, covariates=["length"])
    model = spg.PreferenceGP(
        duels, gpflow.kernels.SquaredExponential(), terms=[spg.Coefficients(variance=1.0)]
    )
    assert spg.evaluate(model, new, risk=0.4)["threshold"]["tested"] == 80
    for fitted, others in ((training[:40], new[:0]), (training[:30], new), (training, new)):
        with pytest.raises(ValueError, match=rf" {len(fitted)} duels that are equal to those"):
            spg.evaluate(model, pd.concat([others, fitted]), risk=0.4)
        with pytest.warns(UserWarning, match=f"{len(fitted)} of these .* has learned from"):
            spg.evaluate(model, pd.concat([others, fitted]))


def test_later_duels_are_refused() -> None:
    items, sides = np.arange(4.0)[:, None], ([0, 1, 2, 0], [1, 2, 3, 3])
    first = spg.Duels(items, *sides, times=[1.0, 2.0, 3.0, 4.0])
    later = spg.Duels(items, *sides, times=[5.0, 6.0, 7.0, 8.0])
    model = spg.PreferenceGP(first, gpflow.kernels.SquaredExponential())
    with refused("risk", "later_duels"):
        spg.evaluate(model, later, risk=0.1)
    moving = spg.PreferenceGP(first, spg.ItemInTime(spg.markov.Matern12()))
    with refused("risk", "in_time"):
        spg.evaluate(moving, later, risk=0.1)
