"""Folders replaced whole: by exchange, file by file where that is impossible, and never halfway."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sparse_prefgp import folders
from sparse_prefgp.folders import contents, replaced_folder


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


@pytest.fixture(params=["exchange", "merge", "mount"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system that exchanges folders, one that cannot, and a folder that cannot be moved."""
    if request.param != "exchange":
        monkeypatch.setattr(folders, "_exchange", lambda first, second: False)
    if request.param == "mount":
        ismount, rename = os.path.ismount, os.rename
        monkeypatch.setattr(
            os.path, "ismount", lambda path: Path(path).name == "target" or ismount(path)
        )

        def busy(source: Any, goal: Any, **more: Any) -> None:
            if "target" in (Path(source).name, Path(goal).name):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(source))
            rename(source, goal, **more)

        monkeypatch.setattr(os, "rename", busy)
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


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real", target_is_directory=True)
    write(link, first="1")
    assert link.is_symlink() and texts(tmp_path / "real") == both(first="1")


def test_exchange_is_one_step_here(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (first / "1").touch()
    if not folders._exchange(first, second):
        pytest.skip("this file system cannot exchange folders")
    assert contents(second) == {"1"} and contents(first) == set()


def test_remains_of_a_killed_process_go_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    target = tmp_path / "target"
    dead, alive = (tmp_path / f".target.{name}.unfinished" for name in ("dead", "alive"))
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "lock").touch()
    with folders._locked(alive / "lock"):
        write(target, first="1")
        assert alive.is_dir() and not dead.exists()
    write(target, first="2")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
