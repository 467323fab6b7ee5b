"""From the public files of each set to its tidy tables, and from some of these to what is read."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets import arguments, tennis
from sparse_prefgp.datasets.frames import as_known, duels_frame, numbered
from sparse_prefgp.datasets.registry import TARGET, DataSet
from sparse_prefgp.support.yaml_files import read_yaml

Files = Mapping[str, Path]
Tables = dict[str, Any]

CENTS = 100
NOT_STARTED = "DNS"
TIE = "tie"
CROWD, HIGHEST_GRADE = "crowd", 3
# Files of votes by the kind of judge, and of texts by their category.
VOTES = {
    CROWD: "crowd-comparisons.csv",
    "gpt3": "gpt3-crowd-comparisons.csv",
    "gpt4": "gpt4-crowd-comparisons.csv",
}
JOKES = {
    "homographic_pun": "jokes_homographic_puns.txt",
    "heterographic_pun": "jokes_heterographic_puns.txt",
    "not_a_joke": "nonjokes.txt",
    "joke_without_pun": "jokes_nonpuns.txt",
}
# Columns of files that have no names for them.
BOSTON = [*"crim zn indus chas nox rm age dis rad tax ptratio b lstat".split(), TARGET]
KIN40K = [f"x{i + 1}" for i in range(8)]
SARCOS = [f"{what}_{i + 1}" for what in ("position", "velocity", "acceleration") for i in range(7)]
TORQUES = [f"torque_{i + 1}" for i in range(7)]
_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.+)", re.IGNORECASE)


def cars(known: DataSet, files: Files) -> Tables:
    """Car profiles and duels: of three cars in a question, the chosen one beats each of the
    others."""
    pd = require_pandas()
    raw = _csv(known, files)
    items, raw["loser"] = _distinct(raw.iloc[:, : known.features])
    raw["person"] = pd.factorize(raw["person"])[0]
    is_chosen = raw["chosen"] == 1
    winners = raw.loc[is_chosen, ["choice_set", "loser"]].rename(columns={"loser": "winner"})
    duels = raw[~is_chosen].merge(winners, how="left", on="choice_set", validate="many_to_one")
    duels = duels[["winner", "loser", "person", "choice_set", "person_weight"]]
    return {"items.csv": items, "duels.csv.gz": _of_unlike(duels)}


def trains(known: DataSet, files: Files) -> Tables:
    """Train trips, with prices of cents in whole units, and a duel for each row of the file."""
    pd = require_pandas()
    raw = _csv(known, files)
    sides = [raw.filter(like=side).rename(columns=lambda name: name[:-1]) for side in "12"]
    trips = pd.concat(sides, ignore_index=True)
    items, item = _distinct(trips.assign(price=trips["price"] / CENTS))
    is_first, person = raw["choice"] == "choice1", pd.factorize(raw["person"])[0]
    duels = duels_frame(is_first, *item.reshape(2, -1), person=person)
    return {"items.csv": items, "duels.csv": _of_unlike(duels)}


def choices(known: DataSet, files: Files) -> Tables:
    """A row for each alternative, in the order of the public file."""
    raw = _csv(known, files)
    return {"choices.csv.gz": raw.assign(chosen=raw["chosen"].astype(int))}


def matches(known: DataSet, files: Files) -> Tables:
    """Teams in the order of their names, and one row for each match in the order of the file."""
    raw = _csv(known, files, keep_default_na=False)
    names, number = np.unique(raw[["home", "away"]], return_inverse=True)
    raw[["home", "away"]] = number.reshape(-1, 2)
    numbers = raw[["home_score", "away_score", "neutral"]].astype(int)
    teams = numbered(require_pandas().DataFrame({"team": names}))
    return {"teams.csv": teams, "matches.csv.gz": raw.assign(**numbers)}


def duels_of_matches(tables: Mapping[str, Any]) -> Tables:
    """Items and duels, in which teams go by their names.

    The higher score wins; `grade` is by how many goals, 3 for three and more. A draw has `tie` 1
    and stands with the side named first as the winner, so called. `winner_home` and `loser_home`
    say who played at home: neither does on neutral ground.
    """
    teams, played = tables["teams"], tables["matches"]
    name = teams.set_index("item_id")["team"]
    home, away = (name.loc[played[side]].to_numpy() for side in ("home", "away"))
    scores = played[["home_score", "away_score"]].to_numpy()
    lead, at_home = scores[:, 0] - scores[:, 1], 1 - played["neutral"].to_numpy()
    won = lead >= 0
    duels = duels_frame(
        won,
        home,
        away,
        tie=(lead == 0).astype(int),
        date=played["date"],
        winner_home=np.where(won, at_home, 0),
        loser_home=np.where(won, 0, at_home),
        grade=np.minimum(np.abs(lead), HIGHEST_GRADE),
        winner_score=scores.max(axis=1),
        loser_score=scores.min(axis=1),
        tournament=played["tournament"],
    )
    return {"items": teams[["team"]].set_axis(["item_id"], axis=1), "duels": duels}


def votes(known: DataSet, files: Files) -> Tables:
    """Answers of language models, votes of judges, and the models and prompts voted on.

    A tied vote has `tie` 1, and then the answer shown first stands as the winner.
    """
    pd = require_pandas()
    raw = pd.concat(
        [
            _csv(known, {file: files[file]}, keep_default_na=False).assign(judge_kind=kind)
            for kind, file in VOTES.items()
        ],
        ignore_index=True,
    )
    used = {"model": {*raw["model_x"], *raw["model_y"]}, "prompt": {*raw["prompt"]}}
    columns = {"model": ["id", "name", "org", "api_id"], "prompt": ["id", "slug", "type", "text"]}
    about, number = {}, {}
    for what, names in columns.items():
        rows = pd.read_json(files[f"{what}s.jsonl"], lines=True)[names]
        rows = rows[rows["id"].isin(used[what])].rename(columns={"id": "source_id"})
        about[what] = numbered(rows, f"{what}_id")
        number[what] = {source: i for i, source in enumerate(rows["source_id"])}
    answers = pd.read_json(files["results.jsonl"], lines=True, dtype=False, convert_dates=False)
    answers = answers[answers["model"].isin(used["model"]) & answers["prompt"].isin(used["prompt"])]
    items = pd.DataFrame(
        {
            "model": answers["model"].map(number["model"]),
            "prompt": answers["prompt"].map(number["prompt"]),
            "length_chars": answers["result"].str.len(),
            "text": answers["result"],
        }
    )
    item = {pair: i for i, pair in enumerate(zip(answers["model"], answers["prompt"], strict=True))}
    left, right = (
        [item[pair] for pair in zip(raw[side], raw["prompt"], strict=True)]
        for side in ("model_x", "model_y")
    )
    # Workers have numbers of their own, after which the other kinds of judges come.
    people = raw["judge_kind"] == CROWD
    worker = raw["worker"].where(people, -1).astype(int)
    others = {kind: worker.max() + i for i, kind in enumerate(VOTES)}
    duels = duels_frame(
        raw["winner"] != "right",
        left,
        right,
        tie=(raw["winner"] == "tie").astype(int),
        winner_first=(raw["winner"] != "right").astype(int),
        judge=worker.where(people, raw["judge_kind"].map(others)),
        judge_kind=raw["judge_kind"],
        prompt=raw["prompt"].map(number["prompt"]),
        pair_id=raw["id"],
    )
    return {
        "items.csv.gz": numbered(items),
        "duels.csv.gz": duels,
        "models.csv": about["model"],
        "prompts.csv": about["prompt"],
    }


def named_votes(tables: Mapping[str, Any]) -> Tables:
    """Items and duels in which models, prompts and judges go by names; battles of the models.

    `winner_first` and `loser_first` say which answer was shown first. Of a battle that one is of
    `model_a`; `length_a` and `length_b` are the logarithms of the characters, 0 of a blank answer.
    """
    items, duels = tables["items"], tables["duels"]
    model = tables["models"].set_index("model_id")["name"]
    prompt = tables["prompts"].set_index("prompt_id")["slug"]
    worker = "worker " + duels["judge"].astype(str)
    judge = worker.where(duels["judge_kind"] == CROWD, duels["judge_kind"])
    duels = duels.assign(judge=judge, prompt=duels["prompt"].map(prompt))
    after = duels.columns.get_loc("winner_first") + 1
    duels.insert(after, "loser_first", 1 - duels["winner_first"])
    items = items.assign(model=items["model"].map(model), prompt=items["prompt"].map(prompt))
    first = duels["winner_first"] == 1
    shown = {
        "a": items.loc[duels["winner"].where(first, duels["loser"])],
        "b": items.loc[duels["loser"].where(first, duels["winner"])],
    }
    length = {side: _log_lengths(answers) for side, answers in shown.items()}
    verdict = first.map({True: "model_a", False: "model_b"}).mask(duels["tie"] == 1, TIE)
    battles = require_pandas().DataFrame(
        {
            **{f"model_{side}": answers["model"].to_numpy() for side, answers in shown.items()},
            "winner": verdict,
            **duels[["judge", "judge_kind", "prompt"]],
            **{f"length_{side}": values for side, values in length.items()},
        }
    )
    return {"items": items, "duels": duels, "battles": battles}


def _log_lengths(answers: Any) -> Any:
    """Of each answer, 0 where it is blank."""
    blank = answers["text"].str.strip() == ""
    return np.where(blank, 0.0, np.log(answers["length_chars"].clip(lower=1))).round(3)


def jokes(known: DataSet, files: Files) -> Tables:
    """Texts in the order of their ids, and the votes in the order of the file, winner first.

    A text's category is the list that has it, whatever letter case, spaces and punctuation are.
    """
    pd = require_pandas()
    texts = {
        _letters(text): name
        for name, file in JOKES.items()
        for text in files[file].read_text(encoding="utf-8").split("\n")
    }
    lines = files["item_scores.txt"].read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t")[:3] for line in lines if line]
    items = pd.DataFrame(rows, columns=["item_id", "bws_score", "text"])
    items = items.astype({"item_id": int, "bws_score": float}).sort_values("item_id")
    items.insert(1, "category", items["text"].map(_letters).map(texts))
    duels = pd.read_csv(files["pairs.csv"], header=None, names=["winner", "loser"])
    return {"items.csv.gz": items, "duels.csv.gz": duels}


def races(known: DataSet, files: Files) -> Tables:
    """Items, a driver in the car of a season, and rankings, a row for each who started in a race.

    Races come in the order of their files' names. Those who did not finish, or were disqualified,
    have no rank; those who did not start are left out. Who starts from the pit lane has as many
    before him on the grid as start at all.

    :raises ModuleNotFoundError: PyYAML is not installed.
    """
    pd = require_pandas()
    results = []
    for race, name in enumerate(sorted(files), 1):
        text = files[name].read_text(encoding="utf-8")
        frame = pd.DataFrame(read_yaml(text, name, "Reading the results of races"))
        started = frame[frame["position"] != NOT_STARTED]
        results.append(started.assign(ranking=name.removesuffix(".yml"), race=race))
    every = as_known(known, pd.concat(results, ignore_index=True))
    every["car"] = every["constructorId"] + " " + every["ranking"].str[:4]
    every["item_id"] = every["driverId"] + " " + every["car"]
    every["rank"] = pd.to_numeric(every["position"], errors="coerce").astype("Int64")
    last = every.groupby("race")["race"].transform("size")
    every["grid"] = pd.to_numeric(every["gridPosition"], errors="coerce").fillna(last).astype(int)
    items = every[["item_id", "driverId", "car"]].rename(columns={"driverId": "driver"})
    return {
        "items.csv": items.drop_duplicates(ignore_index=True),
        "rankings.csv": every[["ranking", "race", "item_id", "rank", "grid"]],
    }


def arff(known: DataSet, files: Files) -> Tables:
    """The tidy file of a set whose public file is in ARFF, its cells parted by commas or blanks.

    Names become lower case with underscores; an attribute with levels becomes one 0/1 column per
    level, in the order in which the file declares them. The last attribute is the target.
    """
    (path,), (name,) = files.values(), known.files
    text = path.read_text(encoding="utf-8", errors="replace")
    head, data = re.split("(?im)^@data", text, maxsplit=1)
    lines = [line.strip() for line in data.splitlines()]
    rows = [re.split(r"[,\s]+", line) for line in lines if line and not line.startswith("%")]
    attributes = _ATTRIBUTE.findall(head)
    columns: dict[str, Any] = {}
    for (attribute, kind), cells in zip(attributes, zip(*rows, strict=True), strict=True):
        column = _plain_name(attribute)
        if kind.startswith("{"):
            levels = [level.strip() for level in kind.strip("{} \t").split(",")]
            codes = np.array([levels.index(cell) for cell in cells])
            for code, level in enumerate(levels):
                columns[f"{column}_{_plain_name(level)}"] = (codes == code).astype(int)
        else:
            columns[column] = np.array(cells, dtype=np.float64)
    columns[TARGET] = columns.pop(_plain_name(attributes[-1][0]))
    return {name: require_pandas().DataFrame(columns)}


def boston(known: DataSet, files: Files) -> Tables:
    """The file of StatLib: words, then fourteen numbers per home over two lines."""
    (path,) = files.values()
    lines = path.read_text(encoding="latin-1").splitlines()
    numbers = [x for line in lines if re.fullmatch(r"[\d.\s]+", line) for x in line.split()]
    cells = np.array(numbers, dtype=np.float64).reshape(-1, len(BOSTON))
    return {"boston.csv": require_pandas().DataFrame(cells, columns=BOSTON)}


def kin40k(known: DataSet, files: Files) -> Tables:
    """Four files of numbers: inputs and targets, for training and testing."""
    parts = {}
    for part in ("train", "test"):
        x = np.loadtxt(files[f"kin40k_{part}_data.asc"], ndmin=2)
        target = np.loadtxt(files[f"kin40k_{part}_labels.asc"], ndmin=1)
        frame = require_pandas().DataFrame(x, columns=KIN40K)
        parts[f"{part}.csv.gz"] = frame.assign(**{TARGET: target})
    return parts


def sarcos(known: DataSet, files: Files) -> Tables:
    """A MATLAB file with one array: 21 inputs and 7 torques in each row."""
    (path,) = files.values()
    (array,) = (value for value in loadmat(path).values() if isinstance(value, np.ndarray))
    frame = require_pandas().DataFrame(array.astype(np.float32), columns=SARCOS + TORQUES)
    return {"sarcos_test.npz": frame}


def snelson(known: DataSet, files: Files) -> Tables:
    """An archive with the files `train_inputs`, `train_outputs` and `test_inputs` in it."""
    pd = require_pandas()
    (path,) = files.values()
    with zipfile.ZipFile(path) as archive:
        numbers = {
            name.rpartition("/")[2]: np.loadtxt(archive.open(name), ndmin=1)
            for name in archive.namelist()
            if name.endswith(("/train_inputs", "/train_outputs", "/test_inputs"))
        }
    columns = {"x": numbers["train_inputs"], TARGET: numbers["train_outputs"]}
    return {
        "train.csv": pd.DataFrame(columns),
        "test_inputs.csv": pd.DataFrame({"x": numbers["test_inputs"]}),
    }


def _csv(known: DataSet, files: Files, **options: Any) -> Any:
    (path,) = files.values()
    return as_known(known, require_pandas().read_csv(path, **options))


def _of_unlike(duels: Any) -> Any:
    """Without comparisons of two equal profiles."""
    return duels[duels["winner"] != duels["loser"]].reset_index(drop=True)


def _distinct(profiles: Any) -> tuple[Any, Any]:
    """Each profile once, by first appearance, and the number of the profile of each row."""
    numbers = profiles.groupby(list(profiles.columns), sort=False).ngroup().to_numpy()
    return numbered(profiles.drop_duplicates()), numbers


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


def _plain_name(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")


# Of all sets but those in ARFF.
CONVERTERS: dict[str, Callable[[DataSet, Files], Tables]] = {
    "tennis_atp": tennis.tidy,
    "ukp_convincing": arguments.tidy,
    "ev_choice_us": cars,
    "ev_choice_china": cars,
    "train_choice": trains,
    "electricity": choices,
    "mode_canada": choices,
    "football_internationals": matches,
    "llm_votes": votes,
    "humour": jokes,
    "formula_1": races,
    "snelson1d": snelson,
    "boston": boston,
    "kin40k": kin40k,
    "sarcos_test": sarcos,
}
# Of sets whose items and duels are made of more than the two files of these names.
DERIVED: dict[str, Callable[[Mapping[str, Any]], Tables]] = {
    "ukp_convincing": arguments.with_texts,
    "football_internationals": duels_of_matches,
    "llm_votes": named_votes,
}
