"""What is asked about."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sparse_prefgp.ask import things
from sparse_prefgp.ask.things import demo_things, names_of_people, things_of


def pictures(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"\x89PNG")
    return folder


def test_a_folder_is_its_pictures(tmp_path: Path) -> None:
    media = pictures(tmp_path / "m", "b.png", "a.JPG", "notes.txt")
    (media / "link.png").symlink_to(tmp_path / "secret.png")
    found = things_of(None, media)
    assert list(found.names) == ["a.JPG", "b.png"]
    assert list(found.left_out) == ["link.png", "notes.txt"]
    assert found.path(0) == media / "a.JPG"
    assert found.items["item_id"].tolist() == ["a.JPG", "b.png"]
    # A file that became a link since is none of the folder's.
    (media / "a.JPG").unlink()
    (media / "a.JPG").symlink_to(tmp_path / "secret.png")
    assert found.path(0) is None


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    media = pictures(tmp_path / "m", "a.png", "b.png")
    (media / "caf\udce9.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"no UTF-8, 'caf.*; give it another name"):
        things_of(None, media)


def test_a_table_names_its_pictures(tmp_path: Path) -> None:
    media = pictures(tmp_path / "m", "1.png", "2.png")
    table = pd.DataFrame({"id": ["x", "y"], "file": ["2.png", "1.png"], "words": ["a\nb", None]})
    found = things_of(table, media)
    assert found.shown(0) == {"name": "x", "fields": {"words": "a\nb"}, "media": 0, "shape": None}
    assert found.path(0) == media / "2.png"
    assert found.shown(1)["fields"] == {}
    assert list(found.items.columns) == ["id"]
    assert list(things_of(table, media, ["words"]).items.columns) == ["id", "words"]
    with pytest.raises(ValueError, match=r"1 picture of the column 'file' .* is not in the folder"):
        things_of(table.assign(file=["1.png", "../secret.png"]), media)
    with pytest.raises(ValueError, match="No column of"):
        things_of(table.drop(columns="file"), media)


def test_a_model_learns_from_numbers_and_categories() -> None:
    table = pd.DataFrame({"id": list("abcd"), "size": range(4), "kind": list("xxyy")})
    found = things_of(table.assign(words=["one", "two", "three", "four"]), None)
    assert list(found.items.columns) == ["id", "size", "kind"]
    with pytest.raises(ValueError, match="no column 'prose'"):
        things_of(table, None, ["prose"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"id": ["x"]}), "one item"),
        (pd.DataFrame({"id": ["x", "x"]}), "used before"),
        (pd.DataFrame({"id": ["x", None]}), "missing"),
        (pd.DataFrame({"id": []}), "no items"),
    ],
)
def test_tables_that_will_not_do(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        things_of(table, None)


def test_nothing_missing_and_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="Nothing to ask about"):
        things_of(None, None)
    with pytest.raises(ValueError, match="does not exist"):
        things_of(None, tmp_path / "nowhere")
    media = pictures(tmp_path / "m", "1.png", "2.png")
    monkeypatch.setattr(things, "MOST_BYTES", 3)
    with pytest.raises(ValueError, match=r"1.png, 2.png in .* are larger than"):
        things_of(None, media)


def test_ids_are_any_text() -> None:
    names = ["a/b", '"quoted"', "<b>&", "x" * 2000]
    found = things_of(pd.DataFrame({"id": names}), None)
    assert list(found.names) == names
    texts = pd.DataFrame({"essay": ["x" * 50_000, "y"]})
    with pytest.raises(ValueError, match="name of 50,000 characters; add a column item_id"):
        things_of(texts, None)
    found = things_of(texts.assign(item_id=["a", "b"]), None)
    assert found.shown(0)["fields"]["essay"] == texts["essay"][0]


def test_shapes_need_no_file() -> None:
    assert len(set(demo_things().names)) == 20


def test_people_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("email,name\na@b,Ann\nc@d,Bob\n")
    assert names_of_people(path) == ["Ann", "Bob"]
    path.write_text("name\nAnn\nAnn\n")
    with pytest.raises(ValueError, match="used before"):
        names_of_people(path)


ROWS = 24
NUMBERS = [0.5 + i for i in range(ROWS)]
ALIKE = {
    "constant": ({"topic": ["x"] * ROWS}, "the votes alone: topic is the same for all items"),
    "two constant": (
        {"topic": ["x"] * ROWS, "size": [3] * ROWS},
        "the votes alone: topic, size are the same for all items",
    ),
    "few": (
        {"by": [f"photographer {i % 6}" for i in range(ROWS)]},
        "the votes alone: by tells only 6 of the 24 items apart",
    ),
    "one twice": (
        {"size": [*NUMBERS[1:], NUMBERS[1]], "kind": ["x", "y"] * (ROWS // 2)},
        "size, kind",
    ),
    "one twice alike": (
        {"size": [*NUMBERS[1:], NUMBERS[1]], "kind": ["x"] * ROWS},
        "the votes alone: size tells only 23 of the 24 items apart",
    ),
    "number": ({"number": [*range(ROWS)]}, "the votes alone: number numbers the items"),
    "size": ({"size": NUMBERS, "topic": ["x"] * ROWS}, "size, topic"),
    "nothing": ({}, "the votes alone"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_features_that_do_not_tell_items_apart_are_not_learned_from(name: str) -> None:
    columns, said = ALIKE[name]
    found = things_of(pd.DataFrame({"id": [f"p{i}" for i in range(ROWS)], **columns}), None)
    assert found.learned_from == said
    alone = said.startswith("the votes alone")
    assert list(found.items.columns) == ["id", *([] if alone else columns)]
    assert set(found.fields[0]) == set(columns)  # the page shows them all the same


def test_texts_tell_items_apart() -> None:
    words = ["a dog", "A cat sleeps on the sofa.", "The sea! It was as blue as ever.", "red"]
    table = pd.DataFrame({"id": list("abcd"), "words": words})
    assert things_of(table, None, ["words"]).learned_from == "words"
    same = things_of(table.assign(words="a dog"), None, ["words"])
    assert same.learned_from == "the votes alone: words is the same for all items"


def test_what_fit_refuses_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    pd.DataFrame({"id": list("abcd"), "size": [1.0, 2.5, float("inf"), 4.0]}).to_csv(
        path, index=False
    )
    with pytest.raises(ValueError, match=r"'size' has inf in row 4 of items.csv"):
        things_of(path, None)


def test_a_picture_with_a_line_break_in_its_name_is_refused(tmp_path: Path) -> None:
    media = pictures(tmp_path / "m", "a.png", "b\nc.png")
    with pytest.raises(ValueError, match=r"control character in it, 'b\\nc.png'; give it another"):
        things_of(None, media)
