"""Malformed inputs through every command: one sentence, exit code 2, and no file touched.

`CASES` is the list. Each case breaks one thing, calls one command, and names words that the
sentence must hold.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.together import sentence

pytest.importorskip("typer")
pytest.importorskip("pandas")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from sparse_prefgp.disk.model_folder import checksum

pytestmark = pytest.mark.data

N = 12


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good tables and a model fitted to them; every case gets a copy."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    colours = ["red", "green"] * (N // 2)
    rows = [
        f"i{i},{a:.5f},{b:.5f},{c}" for i, ((a, b), c) in enumerate(zip(x, colours, strict=True))
    ]
    (folder / "items.csv").write_text("\n".join(["item_id,height,width,colour", *rows]) + "\n")
    pairs = rng.permuted(np.tile(np.arange(N), (60, 1)), axis=1)[:, :2]
    order = np.argsort(x.sum(1)[pairs] + rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    duels = [f"i{a},i{b}" for a, b in zip(winners, losers, strict=True)]
    (folder / "duels.csv").write_text("\n".join(["winner,loser", *duels]) + "\n")
    (folder / "pairs.csv").write_text("first,second\ni0,i1\ni2,i3\n")
    (folder / "new.csv").write_text("winner,loser\ni0,i1\n")
    (folder / "choices.csv").write_text(
        "chosen,option_1,option_2,option_3\ni0,i0,i1,i2\ni3,i3,i4,\n"
    )
    (folder / "rankings.csv").write_text("rank_1,rank_2,rank_3\ni0,i1,i2\ni3,i4,\n")
    files = ["--items", folder / "items.csv", "--duels", folder / "duels.csv"]
    more = ["--out", folder / "fitted", "--inducing", "5", "--max-iterations", "2", "--quiet"]
    more += ["--integrate", "no"]
    result = CliRunner().invoke(app, ["fit", *map(str, files + more)])
    assert result.exit_code == 0, result.output
    np.save(folder / "e.npy", rng.normal(size=(N, 3)))
    files += ["--embedding", folder / "e.npy", "--kernel", "linear"]
    more[1] = folder / "with_vectors"
    result = CliRunner().invoke(app, ["fit", *map(str, files + more)])
    assert result.exit_code == 0, result.output
    return folder


class Case(NamedTuple):
    """A command line, in which `{}` is the folder; what is broken first; words of the sentence."""

    command: str
    words: tuple[str, ...]
    breaks: Callable[[Path], Any] = lambda folder: None
    without: str | None = None
    """A package that is not installed."""


def parts(**late: list[Any]) -> Callable[[Path], Any]:
    """Duels in two files; `late` is what the second has in these columns."""

    def made(folder: Path) -> None:
        import pandas as pd

        (folder / "parts").mkdir()
        early = {name: ["bob" if name == "judge" else -1.0] * 2 for name in late}
        for k, columns in enumerate((early, late)):
            frame = pd.DataFrame({"winner": ["i1", "i2"], "loser": ["i2", "i3"], **columns})
            frame.to_parquet(folder / "parts" / f"{k}.parquet", index=False)

    return made


def dated(days: str) -> Callable[[Path], Any]:
    """Duels with a column `day` of these, again and again; a comma stands for none."""

    def made(folder: Path) -> None:
        head, *rows = (folder / "duels.csv").read_text().split()
        each = [day.replace(",", "") for day in days.split()]
        lines = [f"{row},{each[i % len(each)]}" for i, row in enumerate(rows)]
        (folder / "duels.csv").write_text("\n".join([f"{head},day", *lines]) + "\n")

    return made


PARTS = "fit --out {}/new --items {}/items.csv --duels {}/parts --stream --max-iterations 2"
FIT = "fit --out {}/new --max-iterations 2 --items {}/items.csv --duels {}/duels.csv"
CHOICES = "fit --out {}/new --max-iterations 2 --items {}/items.csv --choices {}/choices.csv"
RANKINGS = "fit --out {}/new --max-iterations 2 --items {}/items.csv --rankings {}/rankings.csv"
SELECT = "select --items {}/items.csv --duels {}/duels.csv --max-iterations 2"
RANK = "rank --model {}/fitted"
PREDICT = "predict --model {}/fitted --pairs {}/pairs.csv"
EVALUATE = "evaluate --model {}/fitted --duels {}/new.csv"
UPDATE = "update --model {}/fitted --duels {}/new.csv --out {}/updated"
EXPLAIN = "explain --model {}/fitted"
SUGGEST = "suggest --model {}/fitted"
ALONE = "fit --out {}/new --max-iterations 2 --duels {}/duels.csv"
# Choices among three, and best and worst of four.
THREE = "chosen,option_1,option_2,option_3\n" + "\n".join(
    f"i{i},i{i},i{(i + 1) % N},i{(i + 5) % N}" for i in range(N)
)
FOUR = "best,worst,option_1,option_2,option_3,option_4\n" + "\n".join(
    f"i{i},i{(i + 1) % N},i{i},i{(i + 1) % N},i{(i + 5) % N},i{(i + 7) % N}" for i in range(N)
)
ABLATE = "ablate {}/study.yaml --out {}/new"
STUDY = """
name: small
title: Small
data: {files: {items: items.csv, duels: duels.csv}}
split: {by: duels, test_fraction: 0.25}
kernels: [se]
approximations: [exact]
engines: [ep]
hyperparameters: [joint]
seeds: [0]
iterations: 1
exact_reference: false
baselines: false
"""


def write(name: str, text: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


def replace(name: str, old: str, new: str) -> Callable[[Path], Any]:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit


def arrays(folder: Path) -> Path:
    return next((folder / "fitted" / "model").glob("*.npz"))


def cut_arrays(folder: Path) -> None:
    arrays(folder).write_bytes(arrays(folder).read_bytes()[:1000])


def newer(folder: Path) -> None:
    path = folder / "fitted" / "model" / "model.json"
    values = {**json.loads(path.read_text()), "format_version": 99}
    path.write_text(json.dumps({**values, "checksum": checksum(values)}))


def sheets(name: str, *rows: list[list[Any]]) -> Callable[[Path], Any]:
    """A spreadsheet, each sheet with these rows."""

    def make(folder: Path) -> None:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        book.remove(book.active)
        for number, cells in enumerate(rows, 1):
            sheet = book.create_sheet(f"Sheet{number}")
            for row in cells:
                sheet.append(row)
        book.save(folder / name)

    return make


def bomb(
    name: str, size: int, between: str = "", runs: int = 1, ending: str = ".xml"
) -> Callable[[Path], Any]:
    """A spreadsheet whose one text is so long, or has so many runs, and packed small."""
    text = between.join(runs * ["x" * size])

    def make(folder: Path) -> None:
        sheets("small.xlsx", [["item_id", "a"], ["i0", 1]])(folder)
        with zipfile.ZipFile(folder / "small.xlsx") as old:
            parts = {part: old.read(part) for part in old.namelist()}
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as book:
            for part, content in parts.items():
                content = content.replace(b">item_id<", f">{text}<".encode())
                content = content.replace(b"sheet1.xml", f"sheet1{ending}".encode())
                book.writestr(part.replace("sheet1.xml", f"sheet1{ending}"), content)
        assert (folder / name).stat().st_size < 20_000

    return make


def binary(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(bytes(range(256)) * 4)


def foreign(folder: Path) -> None:
    (folder / "new").mkdir()
    (folder / "new" / "photo.txt").write_text("beach")


def vectors(change: Callable[[Any], Any]) -> Callable[[Path], Any]:
    """Other vectors in place of the good ones."""
    return lambda folder: np.save(folder / "e.npy", change(np.load(folder / "e.npy")))


def archive(**arrays: Any) -> Callable[[Path], Any]:
    """Vectors with ids; `v` is the good ones."""

    def made(folder: Path) -> None:
        good = {"v": np.load(folder / "e.npy")} if "v" not in arrays else {}
        np.savez(folder / "e.npz", **good, **arrays)

    return made


def lists(change: Callable[[list[Any]], Any]) -> Callable[[Path], Any]:
    """Items in Parquet with a column of vectors."""

    def made(folder: Path) -> None:
        import pandas as pd

        column = np.load(folder / "e.npy").tolist()
        change(column)
        items = pd.read_csv(folder / "items.csv").assign(e=pd.Series(column, dtype=object))
        items.to_parquet(folder / "items.parquet", index=False)

    return made


def texts(*said: str) -> Callable[[Path], Any]:
    """Items of nothing but texts, which are said in turn."""
    rows = [f"i{i},{said[i % len(said)]}" for i in range(N)]
    return write("items.csv", "\n".join(["item_id,said", *rows]) + "\n")


def fitted_to_texts(folder: Path) -> None:
    """A model of texts, next to the items of before."""
    before = (folder / "items.csv").read_text()
    texts("one word", "two words or more", "none")(folder)
    command = f"{FIT} --text said --kernel linear --quiet".replace("{}/new", "{}/with_texts")
    result = CliRunner().invoke(app, command.replace("{}", str(folder)).split())
    assert result.exit_code == 0, result.output
    (folder / "items.csv").write_text(before)


def put(value: Any, at: Any) -> Callable[[Any], Any]:
    """An array, or a list, with another value in one place."""

    def changed(values: Any) -> Any:
        values[at] = value
        return values

    return changed


def only_ids(folder: Path) -> None:
    (folder / "items.csv").write_text("\n".join(["item_id", *(f"i{i}" for i in range(N))]) + "\n")


MODEL_JSON = "fitted/model/model.json"
EMBEDDING = FIT + " --embedding {}/e.npy"
ARCHIVE = FIT + " --embedding {}/e.npz"
LISTS = FIT.replace("items.csv", "items.parquet")
RANK_VECTORS = "rank --model {}/with_vectors --items {}/items.csv"
IDS = [f"i{i}" for i in range(N)]


def many_items(folder: Path, number: int = 6000) -> None:
    """So many items, each of which meets the next."""
    items = "".join(f"i{i},{i % 7}\n" for i in range(number))
    duels = "".join(f"i{i},i{i + 1}\n" for i in range(number - 1))
    (folder / "items.csv").write_text("item_id,height\n" + items, encoding="utf-8")
    (folder / "duels.csv").write_text("winner,loser\n" + duels, encoding="utf-8")


def of_people(*names: str, about: str = "") -> Callable[[Path], Any]:
    """Duels of these people by turns, and a table of people with these rows."""

    def made(folder: Path) -> None:
        header, *rows = (folder / "duels.csv").read_text(encoding="utf-8").splitlines()
        said = [f"{row},{names[k % len(names)]}" for k, row in enumerate(rows)]
        text = "\n".join([header + ",who", *said]) + "\n"
        (folder / "duels.csv").write_text(text, encoding="utf-8")
        (folder / "people.csv").write_text("person_id,age\n" + about, encoding="utf-8")

    return made


CASES: dict[str, Case] = {
    # Tables of items and duels, through fit.
    "items missing": Case(
        FIT, ("items.csv", "does not exist"), lambda f: (f / "items.csv").unlink()
    ),
    "items a folder": Case(
        FIT,
        ("items.csv", "is a folder; give one table"),
        lambda f: ((f / "items.csv").unlink(), (f / "items.csv").mkdir()),
    ),
    "items empty": Case(FIT, ("empty",), write("items.csv", "")),
    "items only a header": Case(FIT, ("no items",), write("items.csv", "item_id,height\n")),
    "items binary": Case(FIT, ("cannot be read",), binary("items.csv")),
    "items not gzip": Case(
        FIT.replace("items.csv", "items.csv.gz"), ("cannot be read",), write("items.csv.gz", "a,b")
    ),
    "items gzip cut": Case(
        FIT.replace("items.csv", "items.csv.gz"),
        ("cannot be read",),
        lambda f: (f / "items.csv.gz").write_bytes(
            gzip.compress((f / "items.csv").read_bytes())[:-20]
        ),
    ),
    "items not parquet": Case(
        FIT.replace("items.csv", "items.parquet"), ("cannot be read",), binary("items.parquet")
    ),
    "decimal comma": Case(
        FIT,
        ("'1,5'", "row 2 of items.csv", "write decimal points"),
        write("items.csv", 'item_id,a\ni0,"1,5"\ni1,"2,5"\n'),
    ),
    "decimal commas between tabs": Case(
        FIT,
        ("'1,5'", "row 2 of items.csv", "write decimal points"),
        write("items.csv", "item_id\ta\ni0\t1,5\ni1\t2,5\n"),
    ),
    "decimal commas and points": Case(
        FIT,
        ("'1,5' in row 2", "write decimal points, as '2.5' in row 3"),
        write("items.csv", "item_id;a\ni0;1,5\ni1;2.5\ni2;3,5\n"),
    ),
    "decimal commas and a word": Case(
        FIT,
        ("'tall'", "row 3 of items.csv", "--ignore a"),
        write("items.csv", "item_id;a\ni0;1,5\ni1;tall\ni2;3,5\n"),
    ),
    "semicolons, a duel with nobody": Case(
        FIT, ("'i99'", "ow 3 of duels.csv"), write("duels.csv", "winner;loser\ni1;i2\ni1;i99\n")
    ),
    "a weight with a comma among columns": Case(
        FIT + " --weight worth",
        ("'worth'", "row 2 of duels.csv", "'1,5'"),
        write("duels.csv", 'winner,loser,worth\ni1,i2,"1,5"\n'),
    ),
    "an old spreadsheet": Case(
        FIT.replace("items.csv", "items.xls"),
        ("items.xls", "save it as .xlsx or as CSV"),
        write("items.xls", "item_id,a"),
    ),
    "no spreadsheet": Case(
        FIT.replace("items.csv", "items.xlsx"),
        ("items.xlsx", "cannot be read"),
        binary("items.xlsx"),
    ),
    "a spreadsheet without its reader": Case(
        FIT.replace("items.csv", "items.xlsx"),
        ("needs openpyxl", 'pip install ".[cli]"'),
        binary("items.xlsx"),
        without="openpyxl",
    ),
    "a first sheet without anything": Case(
        FIT.replace("items.csv", "items.xlsx"),
        ("items.xlsx", "its first sheet, 'Sheet1'", "give a header and rows"),
        sheets("items.xlsx", [], [["item_id", "a"], ["i0", 1]]),
    ),
    "a sheet with a duel of nobody": Case(
        FIT.replace("duels.csv", "duels.xlsx"),
        ("'i99'", "ow 4 of duels.xlsx"),
        sheets("duels.xlsx", [["winner", "loser"], ["i0", "i1"], [], ["i99", "i1"]]),
    ),
    "a sheet with a cell above 1 MB": Case(
        FIT.replace("items.csv", "items.xlsx"),
        ("items.xlsx", "a cell of more than 1 MB"),
        bomb("items.xlsx", 3_000_000),
    ),
    "a sheet with a cell above 1 MB in runs": Case(
        FIT.replace("items.csv", "items.xlsx"),
        ("items.xlsx", "a cell of more than 1 MB"),
        bomb("items.xlsx", 30, "</t></r><r><t>", 50_000),
    ),
    "a sheet with a cell above 1 MB in a part of another name": Case(
        FIT.replace("items.csv", "items.xlsx"),
        ("items.xlsx", "a cell of more than 1 MB (in xl/worksheets/sheet1.XML)"),
        bomb("items.xlsx", 3_000_000, ending=".XML"),
    ),
    "a sheet with a column twice": Case(
        FIT.replace("duels.csv", "duels.xlsx"),
        ("'winner' twice",),
        sheets("duels.xlsx", [["winner", "winner"], ["i0", "i1"]]),
    ),
    "a date that is none": Case(
        FIT,
        ("'2020-13-04'", "row 4 of items.csv", "2024-01-31", "--ignore"),
        write("items.csv", "item_id,day\ni0,2020-01-05\ni1,2020-01-06\ni2,2020-13-04\n"),
    ),
    "a date that is missing": Case(
        FIT,
        ("'day'", "missing value", "row 3 of items.csv"),
        write("items.csv", "item_id,day\ni0,2020-01-05\ni1,\ni2,2020-03-04\n"),
    ),
    "dates of March or of May": Case(
        FIT,
        ("'05/03/2020'", "row 2 of items.csv", "2020-03-05 or 2020-05-03", "--day-first"),
        write("items.csv", "item_id,day\ni0,05/03/2020\ni1,05/03/2020\ni2,06/03/2020\n"),
    ),
    "a context of dates with a word": Case(
        FIT + " --context day",
        ("'soon'", "row 3 of duels.csv"),
        write("duels.csv", "winner,loser,day\ni0,i1,2020-01-01\ni1,i2,soon\ni2,i3,2020-01-09\n"),
    ),
    "id twice": Case(FIT, ("'i0'", "used before"), replace("items.csv", "\ni1,", "\ni0,")),
    "id missing": Case(FIT, ("is missing",), replace("items.csv", "\ni1,", "\n,")),
    "column twice": Case(FIT, ("'height' twice",), replace("items.csv", "width", "height")),
    "the id asked for as a feature": Case(
        FIT + " --features item_id", ("says nothing about another item",)
    ),
    "only ids, and one missing": Case(
        FIT, ("not an item id of items.csv",), write("items.csv", "item_id\ni0\ni1\n")
    ),
    "held out by a column that is not there": Case(
        FIT + " --split given:test", ("'test'", "choose from")
    ),
    "held out by a column of something else": Case(
        SELECT + " --split given:test",
        ("'test' has 2", "give 1 for what is held out and 0"),
        write("duels.csv", "winner,loser,test\ni0,i1,0\ni1,i2,1\ni2,i3,2\n"),
    ),
    "held out by a column of ones": Case(
        FIT + " --split given:test",
        ("1 in all duels", "left to learn from"),
        write("duels.csv", "winner,loser,test\ni0,i1,1\ni1,i2,1\n"),
    ),
    "held out by a column of zeros": Case(
        FIT + " --split given:test",
        ("0 in all duels", "nothing is held out"),
        write("duels.csv", "winner,loser,test\ni0,i1,0\ni1,i2,0\n"),
    ),
    "held out by a column, and a share": Case(
        FIT + " --split given:test --test-fraction 0.5",
        (sentence("stated_split", "test_fraction"), "0.5"),
    ),
    "held out by a column, and folds": Case(
        SELECT + " --split given:test --folds 3", (sentence("stated_split", "folds"), "3 folds")
    ),
    "only ids, items held out": Case(
        FIT + " --split items", (sentence("items_without_features", "split_of_items"),), only_ids
    ),
    "only ids, groups of items held out": Case(
        FIT + " --split group:team",
        ("'group:team'", sentence("items_without_features", "split_of_items")),
        write("items.csv", "item_id,team\n" + "\n".join(f"i{i},{i % 3}" for i in range(N)) + "\n"),
    ),
    "only ids, a kernel on features": Case(
        FIT + " --kernel linear+item", ("linear+item, which looks at features",), only_ids
    ),
    "no items, a kernel on features": Case(
        ALONE + " --kernel se", ("se, which looks at features",)
    ),
    "no items, inducing inputs": Case(ALONE + " --approximation vfe", ("exact",)),
    "no items, a number of inducing inputs": Case(
        ALONE + " --inducing 3", (sentence("effects_of_items_alone", "inducing_variable"),)
    ),
    "no items, kernels to compare": Case(
        ALONE + " --kernel auto", (sentence("comparison", "items_without_features"),)
    ),
    "no items, a context": Case(
        ALONE + " --context surface",
        ("'surface'", "tell no items apart", "item+linear"),
        write("duels.csv", "winner,loser,surface\ni0,i1,clay\ni1,i2,lawn\ni2,i0,clay\n"),
    ),
    "no items, a feature": Case(
        ALONE + " --features height", ("'height'", "go together", "--items")
    ),
    "no items, in chunks": Case(
        ALONE + " --stream", ("without features", sentence("chunks", "items_without_features"))
    ),
    "no items, a winner missing": Case(
        ALONE, ("missing winner",), write("duels.csv", "winner,loser\ni0,i1\n,i2\n")
    ),
    "no items, an item with itself": Case(
        ALONE, ("with itself",), write("duels.csv", "winner,loser\ni0,i1\ni2,i2\n")
    ),
    "select without features": Case(
        SELECT, (sentence("comparison", "items_without_features"),), only_ids
    ),
    "an id as the only feature": Case(
        FIT,
        ("player_id", "--kernel linear+matern52+item"),
        write("items.csv", "item_id,player_id\n" + "\n".join(f"i{i},{i}" for i in range(N)) + "\n"),
    ),
    "feature missing": Case(FIT, ("imputation",), write("items.csv", "item_id,a\ni0,1\ni1,\n")),
    "feature infinite": Case(FIT, ("inf",), write("items.csv", "item_id,a\ni0,1\ni1,inf\n")),
    "features constant": Case(
        FIT,
        ("constant",),
        write("items.csv", "item_id,a\n" + "\n".join(f"i{i},1" for i in range(N)) + "\n"),
    ),
    "too many levels": Case(
        FIT,
        ("--ignore name",),
        write("items.csv", "item_id,name\n" + "\n".join(f"i{i},n{i}" for i in range(N)) + "\n"),
    ),
    "duels without loser": Case(
        FIT, ("no column 'loser'", "--sides A,B --outcome C"), replace("duels.csv", "loser", "lost")
    ),
    "duels without sides": Case(
        FIT,
        ("no columns 'winner' and 'loser'; add or rename them", "columns found: a, b, better"),
        write("duels.csv", "a,b,better\ni0,i1,a\ni1,i2,b\n"),
    ),
    "duels empty": Case(FIT, ("no duels",), write("duels.csv", "winner,loser\n")),
    "duel with itself": Case(FIT, ("with itself",), write("duels.csv", "winner,loser\ni1,i1\n")),
    "duel with nobody": Case(FIT, ("'i99'",), write("duels.csv", "winner,loser\ni1,i99\n")),
    "duel with a gap": Case(FIT, ("a missing loser",), write("duels.csv", "winner,loser\ni1,\n")),
    "count half": Case(
        FIT,
        ("'count' has 1.5", "whole number"),
        write("duels.csv", "winner,loser,count\ni1,i2,1.5\n"),
    ),
    "count negative": Case(
        FIT,
        ("'count' has -1", "whole number"),
        write("duels.csv", "winner,loser,count\ni1,i2,-1\n"),
    ),
    # Ties, weights, judges, context.
    "tie neither 0 nor 1": Case(
        FIT, ("'tie' has 'perhaps'", "row 2"), write("duels.csv", "winner,loser,tie\ni1,i2,perhaps")
    ),
    "ties twice": Case(
        FIT + " --ties {}/new.csv",
        ("column 'tie'",),
        write("duels.csv", "winner,loser,tie\ni1,i2,0"),
    ),
    "ties missing": Case(FIT + " --ties {}/nowhere.csv", ("nowhere.csv", "does not exist")),
    "tie of nobody": Case(
        FIT + " --ties {}/ties.csv",
        ("'i99'", "ow 2 of ties.csv"),
        write("ties.csv", "item_a,item_b\ni1,i99\n"),
    ),
    "tie model of nobody": Case(FIT + " --tie-model coin", ("'coin'", "box, margin-only")),
    "ties that tell only the margin without any": Case(
        FIT + " --tie-model margin-only", (sentence("margin_only", "duels_without_ties"),)
    ),
    "grade of no column": Case(FIT + " --grade how", ("duels.csv has no column 'how'",)),
    "grade among no levels": Case(
        FIT + " --grade how --grades worse,tie,better",
        ("'best'", "row 3 of duels.csv", "worse, tie, better"),
        write("duels.csv", "winner,loser,how\ni1,i2,better\ni2,i3,best\n"),
    ),
    "grade in two spellings": Case(
        FIT + " --grade how --grades worse,tie,better",
        ("'Better'", "row 3 of duels.csv", "better, written alike"),
        write("duels.csv", "winner,loser,how\ni1,i2,better\ni2,i3,Better\n"),
    ),
    "grade in words without levels": Case(
        FIT + " --grade how",
        ("'better'", "give whole numbers", "--grades"),
        write("duels.csv", "winner,loser,how\ni1,i2,better\n"),
    ),
    "levels not symmetric": Case(FIT + " --grade how --grades=-1,0,1,2", ("not symmetric",)),
    "a margin held, and found afterwards": Case(
        FIT + " --tie-model margin-only --fixed-margin",
        (sentence("margin_only", "fixed_margin"), "--fixed-margin"),
    ),
    "grades and ties": Case(
        FIT + " --grade how",
        ("'tie'", "'how'", "leave one of them out"),
        write("duels.csv", "winner,loser,how,tie\ni1,i2,1,0\n"),
    ),
    "columns in no form": Case(EVALUATE + " --columns judge", ("such as judge=rater", "'judge'")),
    "a role twice": Case(EVALUATE + " --columns judge=a,judge=b", ("each once",)),
    "a role that there is not": Case(EVALUATE + " --columns umpire=who", ("'umpire'", "judge")),
    "a column of a role that is not there": Case(EVALUATE + " --columns count=n", ("'n'", "new")),
    "item column of no table": Case(FIT + " --item player", ("'player'", "items.csv", "--item")),
    "item column with a gap": Case(
        FIT + " --item player",
        ("player", "row 3 of items.csv"),
        lambda f: (
            write("duels.csv", "winner,loser\ni0,i1\n")(f),
            write("items.csv", "item_id,height,player\ni0,1,Ann\ni1,2,\n")(f),
        ),
    ),
    "ranked at a context of a model without": Case(
        RANK + " --at surface=clay", (sentence("context", "no_contexts"), "surface=clay", "--at")
    ),
    "asked in a context of a model without": Case(
        SUGGEST + " --at surface=clay", ("surface=clay", "--at")
    ),
    "explained in a context of a model without": Case(
        EXPLAIN + " --first i0 --second i1 --at surface=clay",
        (sentence("context", "no_contexts"), "--at"),
    ),
    "weight of no column": Case(FIT + " --weight worth", ("duels.csv has no column 'worth'",)),
    "weight below zero": Case(
        FIT + " --weight worth",
        ("'worth'", "row 2 of duels.csv", "-2"),
        write("duels.csv", "winner,loser,worth\ni1,i2,-2\n"),
    ),
    "judge missing": Case(
        FIT + " --noise-by judge",
        ("'judge'", "row 3 of duels.csv"),
        write("duels.csv", "winner,loser,judge\ni1,i2,ann\ni2,i3,\n"),
    ),
    "judge of no column": Case(FIT + " --noise-by judge", ("duels.csv has no column 'judge'",)),
    "covariate of no column": Case(
        FIT + " --covariate side", ("The covariate 'side' is not a column", "'winner_side'")
    ),
    "covariate that never changes": Case(
        FIT + " --covariate side",
        ("'side' is 1, winner less loser, in all duels",),
        write("duels.csv", "winner,loser,side\ni1,i2,1\ni2,i3,1\n"),
    ),
    "covariate with a gap": Case(
        FIT + " --covariate side",
        ("'side'", "row 3 of duels.csv"),
        write("duels.csv", "winner,loser,side\ni1,i2,1\ni2,i3,\n"),
    ),
    "lean by none of the covariates": Case(
        FIT + " --covariate side --lean-by judge:unknown",
        ("'judge:unknown' were asked for, which is no covariate", "judge:side"),
    ),
    "lean by one of several covariates": Case(
        FIT + " --covariate side,length --lean-by judge",
        ("names no covariate", "judge:side, judge:length"),
    ),
    "covariate missing in a later file of a stream": Case(
        PARTS + " --covariate side", ("'side'", "row 1 of 1.parquet"), parts(side=[1.0, None])
    ),
    "judge missing in a later file of a stream": Case(
        PARTS + " --covariate side --lean-by judge",
        ("'judge'", "missing in row 1 of 1.parquet"),
        parts(side=[1.0, 1.0], judge=["ann", None]),
    ),
    "context missing in a later file of a stream": Case(
        PARTS + " --context place", ("'place'", "row 1 of 1.parquet"), parts(place=["a", None])
    ),
    "context of no column of a stream": Case(
        PARTS + " --context place", ("context 'place' is not a column",), parts(side=[1.0, 1.0])
    ),
    "stream without its judges": Case(
        PARTS + " --noise-by judge", ("column of judges is 'judge'",), parts(side=[1.0, 1.0])
    ),
    "noise by judge from a subset": Case(
        PARTS + " --noise-by judge --gradients subset",
        ("subset", sentence("gradients_of_a_subset", "noise_by_group")),
    ),
    "lean of nobody": Case(
        FIT + " --covariate side --lean-by judge",
        ("duels.csv has no column 'judge'",),
        write("duels.csv", "winner,loser,side\ni1,i2,1\ni2,i3,-1\n"),
    ),
    "lean twice": Case(
        FIT + " --covariate side --lean-by judge --lean-by judge:side",
        ("'judge:side' were asked for twice",),
    ),
    "context of no column": Case(FIT + " --context surface", ("'surface' is not a column",)),
    "context that is a feature": Case(
        FIT + " --context height",
        ("'height' is a column of the items too",),
        write("duels.csv", "winner,loser,height\ni1,i2,3\n"),
    ),
    "context with a gap": Case(
        FIT + " --context surface",
        ("'surface'", "row 3 of duels.csv"),
        write("duels.csv", "winner,loser,surface\ni1,i2,clay\ni2,i3,\n"),
    ),
    "select with ties": Case(
        SELECT,
        (sentence("comparison", "ties"),),
        write("duels.csv", "winner,loser,tie\ni1,i2,1\ni2,i3,1\ni3,i4,0\n"),
    ),
    # Choices and rankings.
    "two ways in": Case(FIT + " --choices {}/choices.csv", ("duels and choices were given",)),
    "no way in": Case("fit --out {}/new --items {}/items.csv", ("no answers to fit to",)),
    "choice of nobody": Case(CHOICES, ("'i99'",), replace("choices.csv", "i2", "i99")),
    "choice without a chosen one": Case(
        CHOICES,
        ("chosen",),
        write("choices.csv", "choice_set,item_id,chosen\n1,i0,0\n1,i1,0\n"),
    ),
    "choice with two chosen": Case(
        CHOICES,
        ("chosen",),
        write("choices.csv", "choice_set,item_id,chosen\n1,i0,1\n1,i1,1\n"),
    ),
    "choice of one": Case(
        CHOICES, ("one item only",), write("choices.csv", "chosen,option_1,option_2\ni0,i0,\n")
    ),
    "judges that differ within a choice": Case(
        CHOICES + " --noise-by judge",
        ("'judge' of choices.csv differs within a set of 'choice_set'",),
        write("choices.csv", "choice_set,item_id,chosen,judge\n1,i0,1,ann\n1,i1,0,ben\n"),
    ),
    "weight of choices of no column": Case(
        CHOICES + " --weight worth", ("choices.csv has no column 'worth'",)
    ),
    "ranking with an item twice": Case(
        RANKINGS, ("'i0' a second time",), write("rankings.csv", "rank_1,rank_2\ni0,i0\n")
    ),
    "ranking of one": Case(
        RANKINGS, ("one item only",), write("rankings.csv", "rank_1,rank_2\ni0,\n")
    ),
    "chosen outside its set": Case(
        CHOICES,
        ("'i3' in row 3 of choices.csv", "not among its options"),
        write("choices.csv", "chosen,option_1,option_2\ni0,i0,i2\ni3,i1,i2\n"),
    ),
    "options that nobody named": Case(
        "fit --out {}/new --choices {}/choices.csv",
        ("'choice_set' and 'item_id'", "'option_1', 'option_2'", "found: pid, left, right, chosen"),
        write("choices.csv", "pid,left,right,chosen\n1,a,b,a\n2,b,c,c\n"),
    ),
    "the name of a column for an item": Case(
        ALONE,
        ("'home' in row 2 of duels.csv", "the name of a column", "--items"),
        write("duels.csv", "home,away,winner,loser\nAjax,Feyenoord,home,away\n"),
    ),
    "alternative twice in a choice": Case(
        CHOICES,
        ("'i1' a second time in the choice",),
        write("choices.csv", "choice_set,item_id,chosen\n1,i0,1\n1,i1,0\n1,i1,0\n"),
    ),
    "attributes twice in a choice": Case(
        "fit --out {}/new --choices {}/choices.csv",
        ("the attributes of row 3 of choices.csv", "a second time"),
        write("choices.csv", "choice_set,price,chosen\n1,2.5,1\n1,3,0\n1,3,0\n"),
    ),
    "choices without ids or attributes": Case(
        "fit --out {}/new --choices {}/choices.csv",
        ("no column 'item_id'", "tells the rows of a choice apart"),
        write("choices.csv", "choice_set,chosen\n1,1\n1,0\n"),
    ),
    "rank missing": Case(
        RANKINGS,
        ("The rank (column 'rank') is missing in row 3", "--unranked-last"),
        write("rankings.csv", "ranking,item_id,rank\n1,i0,1\n1,i1,\n"),
    ),
    "rank doubled": Case(
        RANKINGS,
        ("same rank as row 2",),
        write("rankings.csv", "ranking,item_id,rank\n1,i0,1\n1,i1,1\n"),
    ),
    "best that is worst": Case(
        "fit --out {}/new --items {}/items.csv --best-worst {}/choices.csv",
        ("as the best and as the worst",),
        write("choices.csv", "best,worst,option_1,option_2\ni0,i0,i0,i2\n"),
    ),
    "none of these that is an item": Case(CHOICES + " --none i1", ("'i1'", "has as an item")),
    "weights of choices below 1": Case(
        CHOICES + " --weight worth --kernel linear",
        (sentence("sets", "shares_of_answers"), "whole numbers"),
        write("choices.csv", "worth," + THREE.replace("\n", "\n0.5,")),
    ),
    "logistic noise of choices": Case(
        CHOICES + " --engine laplace-logit --kernel linear",
        ("logistic noise", sentence("sets", "logistic")),
        write("choices.csv", THREE),
    ),
    "laplace of best and worst at once": Case(
        "fit --out {}/new --items {}/items.csv --best-worst {}/choices.csv --at-once "
        "--engine laplace --kernel linear",
        (sentence("best_and_worst_at_once", "own_noise")),
        write("choices.csv", FOUR),
    ),
    "margin of choices": Case(
        CHOICES + " --margin 0.5 --kernel linear", ("margin",), write("choices.csv", THREE)
    ),
    "blocks that cut choices": Case(
        CHOICES + " --approximation pitc:side",
        ("'side'", "the same within a set"),
        write(
            "choices.csv",
            "choice_set,item_id,chosen,side\n1,i0,1,a\n1,i1,0,b\n2,i0,1,a\n2,i2,0,b\n",
        ),
    ),
    "context of one side of a choice": Case(
        CHOICES + " --context home",
        ("'home'", "whole set"),
        write("choices.csv", "chosen,option_1,option_2,winner_home,loser_home\ni1,i1,i2,1,0\n"),
    ),
    "covariate of wide choices": Case(
        CHOICES + " --covariate home", ("'home' belongs to an option", "long form")
    ),
    "choices predicted besides pairs": Case(
        PREDICT + " --choices {}/choices.csv", ("pairs and choices were given",)
    ),
    "predictions of nothing": Case("predict --model {}/fitted", ("none was given",)),
    "choices scored besides duels": Case(
        EVALUATE + " --choices {}/choices.csv", ("duels and choices were given",)
    ),
    "choices of unknown items predicted": Case(
        "predict --model {}/fitted --choices {}/choices.csv",
        ("'i99'", "not an item id"),
        replace("choices.csv", "i2", "i99"),
    ),
    # Options of fit.
    "kernel unknown": Case(FIT + " --kernel matern", ("'matern'", "choose from")),
    "kernel of pairs in a product": Case(FIT + " --kernel se*pair", ("inside a product",)),
    "kernel of pairs in a stream": Case(
        PARTS + " --kernel se+pair", (sentence("streamed", "pair_effects"),), parts()
    ),
    "kernel with a bracket open": Case(
        FIT + " --kernel linear+(se", ("'linear+(se'", "character 8", "never closed")
    ),
    "kernel with nothing after a plus": Case(
        FIT + " --kernel linear+", ("character 8", "a kernel is missing")
    ),
    "more directions than features": Case(
        FIT + " --kernel projected(matern52,40)", ("40 directions", "from 1 to")
    ),
    "a text column that is missing": Case(FIT + " --text nothing", ("no column 'nothing'",)),
    "texts that are numbers": Case(FIT + " --text height", ("'height'", "holds numbers", "--text")),
    "texts without items": Case(
        "fit --duels duels.csv --out out --text said", ("texts", "give a table of items")
    ),
    "texts that say the same": Case(
        FIT + " --text said", ("constant over the training items (said)",), texts("a word")
    ),
    "texts that say nothing": Case(
        FIT + " --text said",
        ("constant over the training items (said)",),
        texts(""),
    ),
    "new items without their texts": Case(
        "rank --model {}/with_texts --items {}/items.csv",
        ("no column 'said'", "height"),
        fitted_to_texts,
    ),
    "no number of directions": Case(
        FIT + " --kernel projected(matern52,many)", ("'many'", "numbers of at least 1")
    ),
    "kernel in time without dates": Case(
        FIT + " --kernel item-in-time(wiener)",
        (sentence("in_time", "duels_without_dates"), "--time"),
    ),
    "dates that are not there": Case(FIT + " --time when", ("no column 'when'",)),
    "dates in another form": Case(
        FIT + " --time day", ("'31/01/2020' in row 3", "2024-01-31"), dated("2020-01-30 31/01/2020")
    ),
    "a duel without its date": Case(
        FIT + " --time day", ("The date (column 'day') is missing in row 3",), dated("2020-01-30 ,")
    ),
    "dates with and without a zone": Case(
        FIT + " --time day",
        ("'2020-01-31T10:00Z' with a time zone in row 3", "without one in row 2"),
        dated("2020-01-30 2020-01-31T10:00Z"),
    ),
    "scores ahead of what does not move": Case(
        EVALUATE + " --ahead", (sentence("still", "ahead"),)
    ),
    "a filter of what does not move": Case(
        UPDATE + " --filter", (sentence("still", "in_one_pass"),)
    ),
    "a prediction at a date of what does not move": Case(
        PREDICT + " --at date=2020-01-31", ("is no date of utilities that move",)
    ),
    "trajectories of what does not move": Case(
        "trajectories --model {}/fitted --item i1", (sentence("still", "trajectories"),)
    ),
    "trajectories drawn to another kind of file": Case(
        "trajectories --model {}/fitted --picture {}/who.txt", (".png",)
    ),
    "dates of a stream": Case(PARTS + " --time day", (sentence("chunks", "time"),), parts()),
    "the order of dates of a stream": Case(
        PARTS + " --day-first", (sentence("chunks", "day_first"),), parts()
    ),
    "dates in two orders": Case(
        FIT + " --time day",
        ("'01/02/2020' in row 2", "2020-02-01 or 2020-01-02", "--day-first or --month-first"),
        dated("01/02/2020"),
    ),
    "dates in another order": Case(
        FIT + " --time day --month-first",
        ("are to be month/day/year, which '31/01/2020' in row 2", "2024-01-31"),
        dated("31/01/2020"),
    ),
    "chess games": Case(
        FIT.replace("duels.csv", "games.pgn"),
        ("games.pgn", "chess.pgn.read_headers"),
        write("games.pgn", '[White "Ann"]'),
    ),
    "broken JSON": Case(
        FIT.replace("duels.csv", "duels.jsonl"),
        ("duels.jsonl", "in line 2"),
        write("duels.jsonl", '{"winner": "i0", "loser": "i1"}\n{"winner": i0}\n'),
    ),
    "an item of JSON that there is not": Case(
        FIT.replace("duels.csv", "duels.jsonl"),
        ("Line 3 of duels.jsonl has the winner 'i99'",),
        write("duels.jsonl", '{"winner":"i0","loser":"i1"}\n\n{"winner":"i99","loser":"i1"}\n'),
    ),
    "dates with tastes": Case(
        FIT + " --time day --person day", (sentence("in_time", "tastes"),), dated("2020-01-30")
    ),
    "a random split in time": Case(
        FIT + " --time day --split group:day",
        ("before the last training one", "no --split, or time:COLUMN"),
        dated("2020-01-30 2020-01-31 2020-02-01 2020-02-02 2020-02-03"),
    ),
    "kernel with iso of another": Case(
        FIT + " --kernel iso(linear)", ("iso takes se", "not 'linear'")
    ),
    "kernel that is a column": Case(
        FIT + " --kernel height+linear", ("'height' in 'height+linear' is unknown", "in brackets")
    ),
    "kernel on a column that is none": Case(
        FIT + " --kernel linear(hight)", ("'hight'", "did you mean height")
    ),
    "kernel on a covariate": Case(
        FIT + " --covariate side --kernel linear(side)",
        ("'side', which is a covariate", "--context"),
        write("duels.csv", "winner,loser,side\ni1,i2,1\ni2,i3,0\ni3,i4,1\ni4,i1,0\ni0,i1,1\n"),
    ),
    "effects in a context that is none": Case(
        FIT + " --kernel linear+item*colour", ("item*colour", "no item is in more", "--context")
    ),
    "effects in a context of nothing": Case(
        FIT + " --kernel linear+item*surface", ("'surface', which is not a feature",)
    ),
    "effects in a context, sparse": Case(
        FIT + " --context speed --kernel linear+item*se(speed)",
        ("SquaredExponential", "--approximation exact"),
        write("duels.csv", "winner,loser,speed\ni1,i2,1\ni2,i3,2\ni3,i1,3\ni1,i3,4\ni2,i1,5\n"),
    ),
    "candidates on a column that is none": Case(
        SELECT + " --kernels linear(height,hight),se", ("'hight'", "did you mean height")
    ),
    "blocks without number": Case(
        FIT + " --approximation pitc", ("'pitc'", "of blocks, such as pitc:20")
    ),
    "blocks by a column that is none": Case(
        FIT + " --approximation pitc:judge", ("'judge'", "or a number, such as pitc:20")
    ),
    "blocks by a column with gaps": Case(
        FIT + " --approximation pitc:judge",
        ("'judge' has a missing value in row 1 of the duels", "give each duel a block"),
        write("duels.csv", "winner,loser,judge\ni0,i1,ann\ni1,i2,\ni2,i3,ben\ni3,i0,ann\n"),
    ),
    "more blocks than pairs": Case(
        FIT + " --approximation pitc:4000", ("PITC(4000)", "distinct pairs", "FITC")
    ),
    "approximation unknown": Case(FIT + " --approximation fit", ("did you mean fitc",)),
    "item effects alone, sparse": Case(
        FIT + " --kernel item --inducing 5", ("--approximation exact",)
    ),
    "inducing inputs few": Case(FIT + " --inducing few", ("'few'", "or auto")),
    "inducing inputs half": Case(FIT + " --inducing 2.5", ("'2.5'", "whole number")),
    "inducing inputs by a wrong share": Case(FIT + " --inducing auto:2", ("'auto:2'", "below 1")),
    "inducing inputs by no share": Case(FIT + " --inducing auto:", ("'auto:'", "auto:0.1")),
    "a number to be found for nothing": Case(
        FIT + " --approximation exact --inducing auto",
        (sentence("no_inducing", "inducing_variable"),),
    ),
    "out is a file": Case(FIT.replace("/new", "/pairs.csv"), ("is a file",)),
    "out not ours": Case(FIT, ("is no part of a fit",), foreign),
    "out a finished fit": Case(
        FIT.replace("/new", "/fitted"), ("holds a finished fit", "--overwrite")
    ),
    "out a finished fit, with nothing to resume": Case(
        FIT.replace("/new", "/fitted") + " --resume", ("holds a finished fit", "--overwrite")
    ),
    "out a finished fit, for the demo": Case(
        "demo --duels 50 --out {}/fitted", ("holds a finished fit", "--overwrite")
    ),
    # select, and automatic choices.
    "candidate twice": Case(SELECT + " --candidates se/vfe,se/vfe", ("se/vfe", "twice")),
    "candidate unknown": Case(SELECT + " --candidates sse/vfe", ("sse", "choose from")),
    "candidate with too many inputs": Case(
        SELECT + " --candidates se/vfe/500", ("500", "distinct items")
    ),
    "somebody's own folder": Case(
        FIT + " --resume",
        ("is no part of a fit",),
        lambda f: (
            (f / "new" / "checkpoint" / "mine").mkdir(parents=True),
            (f / "new" / "checkpoint" / "mine" / "notes.json").write_text("{}"),
        ),
    ),
    "select with two ways in": Case(
        SELECT + " --rankings {}/rankings.csv", ("duels and rankings were given",)
    ),
    "select with no way in": Case("select --items {}/items.csv", ("no answers",)),
    "select over its choices": Case(
        "select --items {}/items.csv --choices {}/choices.csv --out {}/choices.csv",
        ("is an input",),
    ),
    "select keeps fits in a file": Case(SELECT + " --checkpoint {}/pairs.csv", ("is a file",)),
    "select keeps fits in somebody's folder": Case(
        SELECT + " --checkpoint {}/fitted", ("no part of a checkpoint",)
    ),
    "select keeps fits below a file": Case(
        SELECT + " --checkpoint {}/pairs.csv/kept", ("is a file",)
    ),
    "kept fits that are damaged": Case(
        SELECT + " --candidates se/vfe/4 --checkpoint {}/kept --resume",
        ("damaged", "rm "),
        lambda f: (
            (f / "kept").mkdir(),
            (f / "kept" / "candidates.jsonl").write_text('{"duels": "'),
        ),
    ),
    "more folds than duels": Case(SELECT + " --folds 100", ("100 folds",)),
    "no checkpoints": Case(FIT + " --checkpoint-every 0", ("--checkpoint-every is 0", "1")),
    # Saved models.
    "model missing": Case("rank --model {}/nowhere", ("no model folder", "nowhere")),
    "model a file": Case("rank --model {}/items.csv", ("is a file",)),
    "model without description": Case(
        RANK, ("holds no model",), lambda f: (f / MODEL_JSON).unlink()
    ),
    "model cut": Case(RANK, ("damaged",), cut_arrays),
    "model without arrays": Case(RANK, ("damaged",), lambda f: arrays(f).unlink()),
    "model edited": Case(RANK, ("changed after",), replace(MODEL_JSON, '"VFE"', '"FITC"')),
    "model no JSON": Case(PREDICT, ("not readable as JSON",), write(MODEL_JSON, "{")),
    "model of somebody else": Case(
        EVALUATE, ("not that of a saved model",), write(MODEL_JSON, "{}")
    ),
    "model newer": Case(UPDATE, ("format 99", "upgrade"), newer),
    # rank.
    "top above items": Case(RANK + " --top 13", ("13", "only 12 items")),
    "new items lack a feature": Case(
        RANK + " --items {}/few.csv",
        ("no column 'width'",),
        write("few.csv", "item_id,height,colour\ni0,1,red\n"),
    ),
    "new items with a gap": Case(
        RANK + " --items {}/gap.csv",
        ("missing value",),
        write("gap.csv", "item_id,height,width,colour\na,1,,red\n"),
    ),
    "new items with text": Case(
        RANK + " --items {}/text.csv",
        ("'tall'",),
        write("text.csv", "item_id,height,width,colour\na,tall,1,red\n"),
    ),
    "ranking over an input": Case(
        RANK + " --items {}/items.csv --out {}/items.csv --overwrite", ("is an input",)
    ),
    "ranking over a file": Case(RANK + " --out {}/pairs.csv", ("exists already", "--overwrite")),
    "ranking into a file": Case(RANK + " --out {}/pairs.csv/r.csv", ("is a file",)),
    "ranking without ending": Case(RANK + " --out {}/ranking.xlsx", ("must end in .csv",)),
    # predict, evaluate, explain, update.
    "pairs without columns": Case(
        PREDICT, ("'first'", "one, two"), write("pairs.csv", "one,two\ni0,i1\n")
    ),
    "pairs with nobody": Case(PREDICT, ("'i99'",), write("pairs.csv", "first,second\ni0,i99\n")),
    "pairs empty": Case(PREDICT, ("no pairs",), write("pairs.csv", "first,second\n")),
    "evaluate nobody": Case(EVALUATE, ("'i99'",), write("new.csv", "winner,loser\ni99,i0\n")),
    "evaluate in blocks of no blocks": Case(
        EVALUATE + " --columns block=judge",
        ("answers without a block", "'judge'", "--columns"),
        write("new.csv", "winner,loser,judge\ni0,i1,ann\n"),
    ),
    "evaluate nothing": Case(EVALUATE, ("no duels",), write("new.csv", "winner,loser\n")),
    "suggest magic": Case(SUGGEST + " --score magic", ("score is 'magic'", "thompson")),
    "suggest too many": Case(SUGGEST + " --batch 67", ("batch is 67", "only 66 pairs")),
    "suggest sets larger than all": Case(SUGGEST + " --set-size 99", ("set_size is 99", "differ")),
    "suggest sets of the likely best": Case(
        SUGGEST + " --set-size 3 --score eubo", ("--score", "--set-size")
    ),
    "suggest sets of a list of pairs": Case(
        SUGGEST + " --set-size 3 --pairs {}/pairs.csv", ("--pairs", "--set-size")
    ),
    "suggest over the pairs": Case(
        SUGGEST + " --pairs {}/pairs.csv --out {}/pairs.csv --overwrite", ("an input as well",)
    ),
    "suggest an existing file": Case(SUGGEST + " --out {}/new.csv", ("--overwrite",)),
    "suggest pairs of nobody": Case(
        SUGGEST + " --pairs {}/pairs.csv",
        ("'i99'",),
        write("pairs.csv", "first,second\ni0,i99\n"),
    ),
    "suggest an item with itself": Case(
        SUGGEST + " --pairs {}/pairs.csv",
        ("'i0'", "with itself"),
        write("pairs.csv", "first,second\ni0,i0\n"),
    ),
    "suggest items without a feature": Case(
        SUGGEST + " --items {}/items.csv", ("width",), replace("items.csv", "width", "breadth")
    ),
    "explain nobody": Case(EXPLAIN + " --first i0 --second i99", ("'i99'",)),
    "predict for judges of one noise": Case(
        PREDICT + " --columns judge=judge",
        ("answers without a judge",),
        write("pairs.csv", "first,second,judge\ni0,i1,ann\n"),
    ),
    "evaluate only ties": Case(
        EVALUATE, ("all ties",), write("new.csv", "winner,loser,tie\ni0,i1,1\n")
    ),
    "update with ties without a margin": Case(
        UPDATE, (sentence("ties", "no_margin"),), write("new.csv", "winner,loser,tie\ni0,i1,1\n")
    ),
    "rank by the median": Case(RANK + " --order median", ("'median'", "did you mean mean")),
    "rank items with a million duels": Case(
        RANK + " --min-comparisons 1000000", ("no item has more than", "smaller number")
    ),
    "update by duels and rankings": Case(
        UPDATE + " --rankings {}/new.csv",
        ("duels and rankings were given",),
        write("new.csv", "winner,loser\ni0,i1\n"),
    ),
    "update by an unknown alternative": Case(
        "update --model {}/fitted --rankings {}/new.csv --out {}/updated",
        ("'i99'",),
        write("new.csv", "rank_1,rank_2,rank_3\ni0,i1,i99\n"),
    ),
    "update with nobody": Case(UPDATE, ("'i99'",), write("new.csv", "winner,loser\ni99,i0\n")),
    "update into a saved model": Case(
        UPDATE,
        ("holds a saved model", "--overwrite"),
        lambda f: shutil.copytree(f / "fitted" / "model", f / "updated"),
    ),
    "update into a foreign folder": Case(
        UPDATE.replace("/updated", "/new"), ("'photo.txt'",), foreign
    ),
    "update changes an item": Case(
        UPDATE + " --items {}/items.csv",
        ("'i0'", "height"),
        replace("items.csv", "\ni0,", "\ni0,9"),
    ),
    "ablate nothing": Case(ABLATE, ("study.yaml", "does not exist")),
    "ablate an unknown key": Case(
        ABLATE, ("'sedes'", "'seeds'"), write("study.yaml", STUDY.replace("seeds", "sedes"))
    ),
    "ablate a key twice": Case(ABLATE, ("'name'", "twice"), write("study.yaml", STUDY * 2)),
    "ablate at what cannot be learned": Case(
        ABLATE,
        ("1e-07 for 'at.se.lengthscales'", "above 0.0001"),
        write("study.yaml", STUDY + "at: {se: {variance: 1, lengthscales: 1.0e-7}}\n"),
    ),
    "ablate no YAML": Case(ABLATE, ("not valid YAML",), write("study.yaml", "a: [1")),
    "ablate an unknown set": Case(
        ABLATE,
        ("'bostn'", "boston"),
        write(
            "study.yaml",
            STUDY.replace("{files: {items: items.csv, duels: duels.csv}}", "{set: bostn}"),
        ),
    ),
    "ablate no such table": Case(
        ABLATE, ("nobody.csv",), write("study.yaml", STUDY.replace("items.csv", "nobody.csv"))
    ),
    "ablate a path for a set": Case(
        ABLATE,
        ("'../own/toy'", "'data.set'"),
        write(
            "study.yaml",
            STUDY.replace("{files: {items: items.csv, duels: duels.csv}}", "{set: ../own/toy}"),
        ),
    ),
    "ablate a column that is nowhere": Case(
        ABLATE,
        ("column is 'persn'", "choose from"),
        write("study.yaml", STUDY.replace("by: duels", "by: 'group:persn'")),
    ),
    "ablate into a foreign folder": Case(
        ABLATE,
        ("'photo.txt'", "no part of a study"),
        lambda f: (foreign(f), write("study.yaml", STUDY)(f)),
    ),
    # Vectors of items.
    "fewer vectors than items": Case(
        EMBEDDING, ("e.npy has 11 rows", "items.csv has 12 items"), vectors(lambda v: v[:-1])
    ),
    "one vector": Case(EMBEDDING, ("e.npy has 1 dimension (3)",), vectors(lambda v: v[0])),
    "vectors of vectors": Case(
        EMBEDDING, ("3 dimensions (1 x 12 x 3)",), vectors(lambda v: v[None])
    ),
    "vectors of texts": Case(EMBEDDING, ("e.npy", "not numbers"), vectors(lambda v: v.astype(str))),
    "vectors of objects": Case(
        EMBEDDING, ("e.npy holds Python objects",), vectors(lambda v: v.astype(object))
    ),
    "a vector with NaN": Case(
        EMBEDDING,
        ("'e' have a missing value (NaN) in row 6", "place 2"),
        vectors(put(np.nan, (4, 2))),
    ),
    "a vector with infinity": Case(
        EMBEDDING, ("'e' have -inf in row 6", "place 2"), vectors(put(-np.inf, (4, 2)))
    ),
    "vectors that are no array": Case(EMBEDDING, ("e.npy", "cannot be read"), binary("e.npy")),
    "vectors that are nowhere": Case(
        EMBEDDING, ("e.npy", "does not exist"), lambda f: (f / "e.npy").unlink()
    ),
    "vectors that are all equal, alone": Case(
        EMBEDDING + " --ignore height,width,colour",
        ("constant over the training items (e)",),
        vectors(np.ones_like),
    ),
    "vectors that are all equal, next to numbers": Case(
        EMBEDDING, ("Vectors are constant", "(e)", "--ignore e"), vectors(np.ones_like)
    ),
    "vectors without numbers": Case(
        EMBEDDING, ("e.npy has vectors without numbers (12 x 0)",), vectors(lambda v: v[:, :0])
    ),
    "lists for texts": Case(
        LISTS + " --text e", ("'e' of items.parquet holds lists or vectors",), lists(put([1.0], 3))
    ),
    "vectors named like a column": Case(
        FIT + " --embedding height={}/e.npy", ("'height'", "have the name of a column")
    ),
    "vectors twice": Case(
        EMBEDDING + " --embedding {}/e.npy", ("two blocks of vectors named 'e'",)
    ),
    "vectors without some id": Case(
        ARCHIVE, ("'i0' in row 2", "1 of 12"), archive(ids=["x", *IDS[1:]])
    ),
    "vectors with other ids": Case(
        ARCHIVE, ("'i0' in row 2", "ids such as '0'", "12 of 12"), archive(ids=np.arange(N))
    ),
    "vectors with an id twice": Case(
        ARCHIVE, ("e.npz has the id 'i0' twice",), archive(ids=["i0", "i0", *IDS[2:]])
    ),
    "vectors with ids of truth": Case(
        ARCHIVE, ("ids of e.npz", "type bool"), archive(ids=np.ones(N, bool))
    ),
    "vectors with too few ids": Case(
        ARCHIVE, ("one for each of its 12 vectors",), archive(ids=IDS[1:])
    ),
    "two arrays of vectors": Case(
        ARCHIVE, ("2 arrays besides 'ids'",), archive(ids=IDS, w=np.ones((N, 2)))
    ),
    "list of another length": Case(
        LISTS, ("'e' has a vector of 2 numbers in row 3",), lists(put([1.0, 2.0], 3))
    ),
    "list that is missing": Case(LISTS, ("'e' has no vector in row 3",), lists(put(None, 3))),
    "list with a hole": Case(
        LISTS, ("missing value (NaN) in row 3",), lists(put([1.0, None, 2.0], 3))
    ),
    "rank without vectors": Case(RANK_VECTORS, ("no vectors 'e'", "--embedding e=FILE.npy")),
    "rank by shorter vectors": Case(
        RANK_VECTORS + " --embedding {}/e.npy",
        ("'e' have 2 numbers, but the model was fitted to 3",),
        vectors(lambda v: v[:, :2]),
    ),
    "rank by vectors of another name": Case(
        RANK_VECTORS + " --embedding a={}/e.npy --embedding b={}/e.npy",
        ("'a' are none of the model's",),
    ),
    "vectors for a model without": Case(
        RANK + " --items {}/items.csv --embedding {}/e.npy", ("'e' are none of the model's",)
    ),
    "update without the vectors of new items": Case(
        UPDATE.replace("fitted", "with_vectors") + " --items {}/items.csv", ("no vectors 'e'",)
    ),
    "worth in units of a vector": Case(
        "worth --model {}/with_vectors --unit e", ("'e' was reduced along with others",)
    ),
    "a kernel of a vector": Case(
        EMBEDDING + " --kernel matern52(e)", ("names 'e', which was reduced (vector e (3)", "pc_1")
    ),
    "people without features": Case(
        FIT + " --person who --people {}/people.csv",
        ("The person 'bo'", "no row in people.csv", "add one"),
        of_people("ann", "bo", about="ann,30\ncy,40\n"),
    ),
    "people in another case": Case(
        FIT + " --person who --people {}/people.csv",
        ("The person 'bo'", "spells 'Bo'", "write both alike"),
        of_people("ann", "bo", about="ann,30\nBo,40\n"),
    ),
    "duels of nobody": Case(
        FIT + " --person who", ("'who'", "row 3 of duels.csv"), of_people("ann", "", "bo")
    ),
    "no column of people": Case(FIT + " --person whose", ("duels.csv has no column 'whose'",)),
    "people in chunks": Case(
        PARTS + " --person judge", (sentence("chunks", "person"),), parts(judge=["a", "b"])
    ),
    "too much of a person": Case(
        FIT + " --person who --kernel se --approximation vfe",
        ("The person 'ann'", "distinct duels between", "GiB each", "5,000 are the most"),
        lambda f: (many_items(f, 12_000), of_people(*["ann"] * 999, "bo")(f)),
    ),
    "a person for one utility": Case(
        PREDICT + " --person ann", (sentence("one_utility", "people"),)
    ),
    "somebody new for one utility": Case(
        "meet --model {}/fitted --duels {}/new.csv", (sentence("one_utility", "people"),)
    ),
    "new duels of people": Case(
        UPDATE + " --columns person=winner", ("answers without a person", "'winner'")
    ),
    "new people of nobody's duels": Case(
        UPDATE + " --people {}/people.csv",
        ("knows no features of people",),
        of_people("ann", about="ann,30\n"),
    ),
    "effects of too many items": Case(
        FIT + " --kernel linear+item --approximation vfe",
        ("compared items", "GiB", "at most 5,000", "leave the effects out"),
        many_items,
    ),
}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_there_are_at_least_fifty() -> None:
    assert len(CASES) >= 50


@pytest.mark.parametrize("name", CASES)
@pytest.mark.covering(every=36)
def test_one_sentence_and_nothing_touched(
    name: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    if case.without is not None:
        monkeypatch.setitem(sys.modules, case.without, None)
    folder = tmp_path / "work"
    shutil.copytree(source, folder)
    case.breaks(folder)
    before = snapshot(folder)
    arguments = [part.replace("{}", str(folder)) for part in case.command.split()]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("Error: "), result.stderr
    assert lines[0].endswith((".", "?", ")")), lines[0]
    for word in case.words:
        assert word in lines[0], lines[0]
    assert "Traceback" not in result.output
    assert snapshot(folder) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["work"]
