"""The sets of `run.py`: made ones, real ones at hand, and public ones brought from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.time import defaults as dated

HELD_OUT = "held_out"
Rng = np.random.Generator


@dataclass(frozen=True)
class Task:
    """What `spg.fit` is given, and what is known of the held-out events besides."""

    sources: dict[str, Any]
    groups: np.ndarray | None = None
    """(t,) or (t, m) of the held-out events: standard errors are over these."""
    parts: dict[str, np.ndarray] = field(default_factory=dict)
    """Masks (t,) of held-out events that are told apart."""
    texts: pd.Series | None = None
    """By item, for a ridge on their words."""
    ties: bool = False
    """Whether Davidson's model of ties is a rival."""


def halves(duels: pd.DataFrame, new: np.ndarray) -> pd.DataFrame:
    """Duels between two new items, held out, and between two others.

    :param new: mask of items, whose ids are 0, 1, …
    """
    won, lost = new[duels["winner"]], new[duels["loser"]]
    return duels[won == lost].assign(**{HELD_OUT: won[won == lost].astype(int)})


def counted(duels: pd.DataFrame) -> pd.DataFrame:
    """Equal rows as one with a count."""
    return (
        duels.groupby(list(duels.columns), as_index=False).size().rename({"size": "count"}, axis=1)
    )


def between(items: pd.DataFrame, duels: pd.DataFrame, **more: Any) -> Task:
    """A task of items 0, 1, … and duels that say which are held out."""
    ends = duels.loc[duels[HELD_OUT] == 1, ["winner", "loser"]].to_numpy()
    items = items.assign(item_id=np.arange(len(items)))
    return Task({"items": items, "duels": duels}, ends, **more)


def of_texts(texts: pd.Series, duels: pd.DataFrame, **more: Any) -> Task:
    """The same of texts."""
    task = between(pd.DataFrame({"text": texts.to_numpy()}), duels, texts=texts, **more)
    return Task({**task.sources, "text": ["text"]}, task.groups, task.parts, texts)


# ---- made --------------------------------------------------------------------------------------


def edited_pairs(seed: int, pairs: int = 12_000, vocabulary: int = 4000) -> Task:
    """Pairs of texts of 12 words that differ in one; three words of ten count."""
    rng = np.random.default_rng(100 + seed)
    share = np.arange(1, vocabulary + 1) ** -0.9
    share /= share.sum()
    letters = list("bcdfghklmnprst"), list("aeiou")
    words = np.array(
        [
            "".join(
                rng.choice(letters[0], 1)[0] + rng.choice(letters[1], 1)[0]
                for _ in range(rng.integers(2, 4))
            )
            + str(word % 7)
            for word in range(vocabulary)
        ]
    )
    worth = 0.8 * rng.normal(size=vocabulary) * (rng.random(vocabulary) < 0.3)
    edits = rng.choice(vocabulary, 3000, replace=False)
    often = share[edits] ** 0.5 / (share[edits] ** 0.5).sum()
    texts, winner = list[str](), np.empty(pairs, np.int64)
    for pair in range(pairs):
        text = rng.choice(vocabulary, 12, p=share)
        words_put, place = rng.choice(edits, 2, p=often), rng.integers(12)
        for word in words_put:
            edited = text.copy()
            edited[place] = word
            texts.append(" ".join(words[edited]))
        first_won = worth[words_put[0]] - worth[words_put[1]] + rng.normal() > 0
        winner[pair] = 2 * pair + (0 if first_won else 1)
    loser = winner ^ 1
    held = (np.arange(pairs) >= 0.8 * pairs).astype(int)
    duels = pd.DataFrame({"winner": winner, "loser": loser, HELD_OUT: held})
    return of_texts(pd.Series(texts), duels)


def columns_of(rng: Rng, items: int, width: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Items with half the columns 0 or 1, and utilities: concave, products, idle columns."""
    x = rng.normal(size=(items, width))
    x[:, width // 2 :] = x[:, width // 2 :] > 0.7
    utility = (
        np.tanh(x[:, 0] + 0.3)
        - 0.4 * np.minimum(x[:, 1], 0.5) ** 2
        + 0.8 * x[:, 0] * x[:, -1]
        + 0.5 * x[:, 2]
        + 0.3 * x[:, 3] * x[:, 4]
        + x[:, -3:-1] @ [0.3, 0.4]
        + x[:, 5:9] @ [0.1, -0.1, 0.15, 0.05]
    )
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(width)]), utility


def random_duels(rng: Rng, utility: np.ndarray, number: int = 12_000) -> pd.DataFrame:
    """Between items of which a quarter is held out; noise of variance 1."""
    n = len(utility)
    first = rng.integers(0, n, number)
    second = (first + 1 + rng.integers(0, n - 1, number)) % n
    ahead = 1.2 * (utility[first] - utility[second]) + rng.normal(size=number) > 0
    duels = pd.DataFrame(
        {"winner": np.where(ahead, first, second), "loser": np.where(ahead, second, first)}
    )
    return halves(duels, rng.random(n) < 0.25)


def many_columns(seed: int) -> Task:
    """Duels between items of 22 columns."""
    rng = np.random.default_rng(seed)
    items, utility = columns_of(rng, 6000, 22)
    return between(items, random_duels(rng, utility))


def wide_choices(seed: int, choices: int = 3000, of: int = 6) -> Task:
    """Choices of 6 alternatives with 21 columns, with Gumbel noise."""
    rng = np.random.default_rng(seed)
    items, utility = columns_of(rng, choices * of, 21)
    noisy = (0.6 * utility + rng.gumbel(size=len(utility))).reshape(choices, of)
    table = items.assign(
        choice_set=np.repeat(np.arange(choices), of),
        chosen=(noisy == noisy.max(1, keepdims=True)).astype(int).reshape(-1),
        held_out=np.repeat((rng.random(choices) < 0.2).astype(int), of),
    )
    return Task({"choices": table})


def people_choose(seed: int, people: int = 600, each: int = 9, of: int = 3) -> Task:
    """Choices of people with tastes of their own and 4 columns, a fifth of them held out."""
    rng = np.random.default_rng(3 + seed)
    person, taste = rng.normal(size=(people, 4)), 1.2 * rng.normal(size=(people, 3))
    x, mode = rng.normal(size=(people, each, of, 3)), np.arange(of)
    utility = (
        x @ [-0.8, -0.6, 0.4]
        + 0.4 * x[..., 0] * person[:, 0, None, None]
        + taste[:, None, :]
        + 0.5 * person[:, 1, None, None] * (mode == 1)
        + rng.gumbel(size=(people, each, of))
    )
    table = pd.DataFrame(x.reshape(-1, 3), columns=["time", "cost", "wait"])
    table["mode"] = np.tile(["a", "b", "c"], people * each)
    table[["p0", "p1", "p2", "p3"]] = np.repeat(person, each * of, 0)
    table["choice_set"] = np.repeat(np.arange(people * each), of)
    table["chosen"] = (mode == utility.argmax(2)[..., None]).astype(int).reshape(-1)
    who = np.repeat(np.arange(people), each * of)
    table[HELD_OUT] = (who % 5 == 0).astype(int)
    held = np.repeat(np.arange(people), each)
    context = ["p0", "p1", "p2", "p3"]
    return Task({"choices": table, "context": context}, held[held % 5 == 0])


def in_time(duels: pd.DataFrame, **more: Any) -> Task:
    """The last fifth of dated duels is held out."""
    duels = duels.sort_values("date", kind="stable").reset_index(drop=True)
    last = duels["date"] > duels["date"][int(0.8 * len(duels))]
    return Task({"duels": duels.assign(**{HELD_OUT: last.astype(int)}), "time": "date", **more})


# ---- real --------------------------------------------------------------------------------------


def read(path: Path) -> pd.DataFrame:
    """A table without missing cells."""
    return pd.read_csv(path, keep_default_na=False)


def humour(data: Path, seed: int) -> Task:
    """Two short texts that nobody compared before, by which is funnier."""
    texts, duels = (read(data / "humour" / f"{name}.csv.gz") for name in ("items", "duels"))
    new = np.random.default_rng(seed).random(len(texts)) < 0.2
    return of_texts(texts["text"], counted(halves(duels, new)))


def arguments(data: Path, fold: int) -> Task:
    """Arguments of debates that nobody voted on: votes, and gold labels."""
    texts, votes, gold = (
        read(data / "ukp_convincing" / f"{name}.csv.gz")
        for name in ("texts", "duels", "gold_duels")
    )
    new = gold[gold["debate"] // 2 % 4 == fold].assign(held_out=1, gold=1)
    votes = votes.assign(held_out=(votes["debate"] // 2 % 4 == fold).astype(int), gold=0)
    columns = ["winner", "loser", HELD_OUT, "gold"]
    duels = counted(pd.concat([votes[columns], new[columns]]))
    is_gold = duels.loc[duels[HELD_OUT] == 1, "gold"].to_numpy() == 1
    parts = {"gold": is_gold, "votes": ~is_gold}
    return of_texts(texts["text"], duels.drop(columns="gold"), parts=parts)


def regression(data: Path, seed: int, name: str) -> Task:
    """6,000 rows of a regression set, of which the larger target tends to win."""
    if name == "sarcos_test":
        with np.load(data / name / f"{name}.npz") as arrays:
            x, y = pd.DataFrame(arrays["x"]).add_prefix("x"), arrays["y"][:, 0]
    else:
        x = read(data / name / f"{name}.csv.gz")
        y = x.pop("target").to_numpy()
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(x))[:6000]
    x, y = x.iloc[some], y[some]
    return between(x.loc[:, x.std() > 0], random_duels(rng, y / y.std()))


def llm_votes(data: Path, seed: int) -> Task:
    """Votes on language models, with ties; a fifth of the tasks is held out."""
    answers, votes = (read(data / "llm_votes" / f"{name}.csv.gz") for name in ("items", "duels"))
    model = "m" + answers["model"].astype(str)
    duels = votes[["tie", "winner_first"]].assign(
        winner=model[votes["winner"]].to_numpy(), loser=model[votes["loser"]].to_numpy()
    )
    return tied_votes(duels, votes["pair_id"].to_numpy(), seed)


def tied_votes(duels: pd.DataFrame, task: np.ndarray, seed: int) -> Task:
    """Votes with ties of which a fifth of the tasks is held out."""
    tasks = pd.unique(task)
    held = np.isin(task, np.random.default_rng(seed).permutation(tasks)[: len(tasks) // 5])
    return Task({"duels": duels.assign(held_out=held.astype(int))}, task[held], ties=True)


def cars(data: Path, seed: int) -> Task:
    """Cars by which of three a person took, as duels; a fifth of the people is held out."""
    items = read(data / "ev_choice_us" / "items.csv").drop(columns="item_id")
    duels = read(data / "ev_choice_us" / "duels.csv.gz")
    held = (duels["person"] % 5 == 0).astype(int)
    task = between(items, duels[["winner", "loser"]].assign(held_out=held))
    return Task(task.sources, duels["person"][held == 1].to_numpy())


# ---- public, brought from elsewhere (README.md says from where) ---------------------------------


def argument_quality(data: Path, seed: int) -> Task:
    """Webis-ArgQuality-20: arguments that nobody compared before, by which is better said."""
    texts = read(data / "webis-argquality20-arguments.csv")
    votes = read(data / "webis-argquality20-raw-rhetorical.csv")
    texts = texts.drop_duplicates(["Discussion ID", "Argument ID"]).reset_index(drop=True)
    row = pd.Series(texts.index, pd.MultiIndex.from_frame(texts[["Discussion ID", "Argument ID"]]))
    a, b = (
        row.reindex(pd.MultiIndex.from_frame(votes[[f"Discussion ID {x}", f"Argument ID {x}"]]))
        for x in "AB"
    )
    ahead = votes["Comparison"].to_numpy() == "A"
    duels = pd.DataFrame({"winner": np.where(ahead, a, b), "loser": np.where(ahead, b, a)})
    duels = duels[votes["Comparison"].isin(["A", "B"])].dropna().astype(int)
    duels = duels[duels["winner"] != duels["loser"]]
    new = np.random.default_rng(seed).random(len(texts)) < 0.3
    return of_texts(texts["Premise"], counted(halves(duels, new)))


def immigration(data: Path, seed: int) -> Task:
    """Which of two described immigrants a person admits: 9 attributes of 50 levels."""
    table = read(data / "immigration.csv")
    who = table["CaseID"].to_numpy()
    people = np.unique(who)
    held = np.isin(who, np.random.default_rng(seed).permutation(people)[: len(people) // 5])
    choices = table.loc[:, "Education":"LanguageSkills"].assign(
        choice_set=table.groupby(["CaseID", "contest_no"]).ngroup(),
        chosen=table["ChosenImmigrant"].astype(int),
        held_out=held.astype(int),
    )
    return Task({"choices": choices}, who[held][::2])


def american_football(data: Path, seed: int) -> Task:
    """Games of the NFL since 1970, with who played at home."""
    games = read(data / "nfl_games.csv")
    games = games[(games["date"] >= "1970") & (games["score1"] != games["score2"])]
    ahead, home = games["score1"] > games["score2"], 1 - games["neutral"]
    duels = pd.DataFrame(
        {
            "winner": np.where(ahead, games["team1"], games["team2"]),
            "loser": np.where(ahead, games["team2"], games["team1"]),
            "date": games["date"],
            "winner_home": np.where(ahead, home, 0),
            "loser_home": np.where(ahead, 0, home),
        }
    )
    return in_time(duels, covariate=["home"])


def fights(data: Path, seed: int) -> Task:
    """Bouts of the UFC since 2018: most fighters have few."""
    bouts, events = (read(data / f"ufc_{name}.csv") for name in ("fight_results", "event_details"))
    day = pd.to_datetime(events.set_index(events["EVENT"].str.strip())["DATE"])
    bouts["EVENT"] = bouts["EVENT"].str.strip()
    bouts = bouts[bouts["OUTCOME"].isin(["W/L", "L/W"]) & bouts["EVENT"].isin(day.index)]
    sides = bouts["BOUT"].str.split(r"\s+vs\. ", n=1, expand=True, regex=True)
    ahead = bouts["OUTCOME"] == "W/L"
    duels = pd.DataFrame(
        {
            "winner": np.where(ahead, sides[0], sides[1]),
            "loser": np.where(ahead, sides[1], sides[0]),
            "date": day[~day.index.duplicated()][bouts["EVENT"]].dt.strftime("%Y-%m-%d").to_numpy(),
        }
    )
    return in_time(duels[duels["date"] >= "2018"])


def translations(data: Path, seed: int) -> Task:
    """WMT16, English to Finnish: which of two systems translated better, with ties."""
    votes = read(data / "wmt16.eng-fin.csv")
    ahead = votes["system1rank"] <= votes["system2rank"]
    duels = pd.DataFrame(
        {
            "winner": np.where(ahead, votes["system1Id"], votes["system2Id"]),
            "loser": np.where(ahead, votes["system2Id"], votes["system1Id"]),
            "tie": (votes["system1rank"] == votes["system2rank"]).astype(int),
        }
    )
    return tied_votes(duels, votes["rankingID"].to_numpy(), seed)


# By name: how many seeds or folds there are, and the task of one. Made ones need no folder.
MADE: dict[str, tuple[int, Callable[[int], Task]]] = {
    "edited pairs": (3, edited_pairs),
    "22 columns": (3, many_columns),
    "choices of 6, 21 columns": (3, wide_choices),
    "people's choices": (3, people_choose),
    **{name: (3, lambda seed, name=name: in_time(dated.drawn(name, seed))) for name in dated.SETS},
}
REAL: dict[str, tuple[int, Callable[[Path, int], Task]]] = {
    "humour": (3, humour),
    "arguments": (4, arguments),
    "elevators": (1, partial(regression, name="elevators")),
    "sarcos_test": (1, partial(regression, name="sarcos_test")),
    "llm_votes": (3, llm_votes),
    "cars": (1, cars),
    "football": (1, lambda data, seed: in_time(dated.football(data), covariate=["home"])),
    "tennis": (1, lambda data, seed: in_time(dated.tennis(data, points=False))),
    "tennis, points": (
        1,
        lambda data, seed: in_time(dated.tennis(data, points=True), covariate=["points"]),
    ),
}
PUBLIC: dict[str, tuple[int, Callable[[Path, int], Task]]] = {
    "Webis-ArgQuality-20": (3, argument_quality),
    "immigration": (3, immigration),
    "NFL": (1, american_football),
    "UFC": (1, fights),
    "WMT16": (3, translations),
}
