"""Folders written next to their place: whole, in the same folder, and nobody else's files lost."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sparse_prefgp.disk import folders
from sparse_prefgp.disk.folders import contents, replaced_folder


def anything(folder: Path) -> None:
    pass


def write(target: Path, **files: str) -> None:
    with replaced_folder(target, anything) as new:
        (new / "sub").mkdir()
        for name, text in files.items():
            (new / name).write_text(text)
            (new / "sub" / name).write_text(text)


def texts(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def both(**files: str) -> dict[str, str]:
    return {**files, **{f"sub/{name}": text for name, text in files.items()}}


@pytest.fixture(params=["plain", "mount"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A plain folder, and one that cannot be moved or moved into from outside."""
    if request.param == "mount":
        ismount, rename, replace = os.path.ismount, os.rename, os.replace
        monkeypatch.setattr(
            os.path, "ismount", lambda path: Path(path).name == "target" or ismount(path)
        )

        def outside(move: Any) -> Any:
            def moved(source: Any, goal: Any, **more: Any) -> None:
                inside = ["target" in Path(path).parts for path in (source, goal)]
                if Path(goal).name == "target" or inside[0] != inside[1]:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source))
                move(source, goal, **more)

            return moved

        monkeypatch.setattr(os, "rename", outside(rename))
        monkeypatch.setattr(os, "replace", outside(replace))
    return str(request.param)


def test_new_then_replaced(system: str, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    if system == "mount":
        target.mkdir(parents=True)
    write(target, first="1", second="2")
    assert texts(target) == both(first="1", second="2")
    write(target, second="3", third="4")
    assert texts(target) == both(second="3", third="4")
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_an_existing_folder_stays_the_same_folder(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    before = target.stat()
    write(target, first="1")
    write(target, first="2")
    after = target.stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_writing_into_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    monkeypatch.chdir(target)
    for text in "12":
        write(Path(), first=text)
        assert Path("first").read_text() == text
        assert Path.cwd() == target


def test_failure_leaves_the_old(system: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "old").write_text("1")
    with pytest.raises(RuntimeError), replaced_folder(target, anything) as new:
        (new / "half").write_text("2")
        raise RuntimeError
    assert texts(tmp_path) == {"target/old": "1"}
    assert contents(target) == {"old"}


def test_what_appears_meanwhile_is_not_lost(system: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()

    def empty(folder: Path) -> None:
        if contents(folder):
            raise ValueError("no longer empty")

    with pytest.raises(ValueError, match="no longer empty"), replaced_folder(target, empty) as new:
        (new / "ours").write_text("1")
        (target / "theirs").write_text("2")
    assert texts(target) == {"theirs": "2"}


def test_new_names_come_first_and_old_ones_go_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process killed between two moves leaves a description that fits the files next to it."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "description").write_text("old")
    (target / "arrays-old").write_text("old")
    states = []
    replace = os.replace

    def watched(source: Any, goal: Any) -> None:
        replace(source, goal)
        states.append(texts(target))

    monkeypatch.setattr(os, "replace", watched)
    with replaced_folder(target, anything) as new:
        (new / "description").write_text("new")
        (new / "arrays-new").write_text("new")
    for state in (*states, texts(target)):
        assert f"arrays-{state['description']}" in state
    assert texts(target) == {"description": "new", "arrays-new": "new"}


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real", target_is_directory=True)
    write(link, first="1")
    assert link.is_symlink() and texts(tmp_path / "real") == both(first="1")


def test_remains_of_a_killed_process_go_and_all_others_stay(tmp_path: Path) -> None:
    target, suffix = tmp_path / "target", folders._UNFINISHED
    dead, alive, foreign = (tmp_path / f".target.{name}{suffix}" for name in ("a", "b", "c"))
    for folder in (dead, alive, foreign):
        folder.mkdir()
        (folder / "lock").write_text("mine" if folder == foreign else folders._MARK)
    with folders._locked(alive / "lock"):
        write(target, first="1")
        assert alive.is_dir() and foreign.is_dir() and not dead.exists()
    write(target, first="2")
    assert sorted(path.name for path in tmp_path.iterdir()) == [foreign.name, "target"]


def test_only_our_own_remains_are_overlooked(tmp_path: Path) -> None:
    (tmp_path / f"thesis{folders._UNFINISHED}").write_text("mine")
    (tmp_path / f".x{folders._UNFINISHED}").mkdir()
    assert len(contents(tmp_path)) == 2
