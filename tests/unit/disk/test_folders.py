"""Folders written next to their place: whole, in the same folder, and nobody else's files lost."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sparse_prefgp.disk import folders
from sparse_prefgp.disk.folders import beside, contents, held, replaced_folder, write_file
from tests.killing import writing_elsewhere


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


def left_behind(place: Path, name: str) -> list[Path]:
    """What a process leaves that is killed while it writes a folder, a file, or tries a place."""
    scratch = place / f".{name}.abcd{folders._UNFINISHED}"
    (scratch / "new").mkdir(parents=True)
    (scratch / "new" / "half").write_text("1")
    file = place / f".{name}.file{folders._UNFINISHED}"
    file.mkdir()
    (file / "new").write_text("1")
    bare, tried = (place / f".{which}{folders._UNFINISHED}" for which in (f"{name}.bare", "try.x"))
    bare.mkdir()
    tried.mkdir(exist_ok=True)
    lock = place / f".{name}{folders._LOCK}"
    lock.write_text(f"{folders._MARK}fit")
    return [scratch, file, bare, tried, lock]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_remains_of_a_killed_process_go_and_all_others_stay(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    left = left_behind(tmp_path, "target")
    assert contents(tmp_path) == set()
    others = left_behind(tmp_path, "other")
    foreign = [tmp_path / f"{name}{folders._UNFINISHED}" for name in (".target.c", ".target.d")]
    foreign[0].mkdir()
    (foreign[0] / "mine").write_text("1")
    foreign[1].write_text("mine")
    if kind == "folder":
        write(target, first="1")
    else:
        write_file(target, "1")
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in (*foreign, *others) if not path.name.startswith(".try"))
    assert contents(tmp_path) == {"target", *(path.name for path in foreign)}


def test_only_our_own_remains_are_overlooked(tmp_path: Path) -> None:
    (tmp_path / f"thesis{folders._UNFINISHED}").write_text("mine")
    (tmp_path / f".x{folders._UNFINISHED}").mkdir()
    (tmp_path / f".x{folders._UNFINISHED}" / "mine").write_text("1")
    (tmp_path / f".x{folders._LOCK}").write_text("mine")
    assert len(contents(tmp_path)) == 3


@pytest.mark.parametrize("deep", ["out", "new/deep/out"])
def test_one_at_a_time(deep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_PATIENCE", 0.0)
    out = tmp_path / deep
    refused = f"Another study is writing to {str(out)!r}; wait until it has ended"
    with writing_elsewhere(out, "study"):
        for attempt in (
            lambda: write(out, first="1"),
            lambda: write_file(out, "1"),
            lambda: held(out).__enter__(),
        ):
            with pytest.raises(ValueError, match=refused.replace("/", "[/]")):
                attempt()
    write(out, first="1")
    assert contents(out.parent) == {"out"} == {path.name for path in out.parent.iterdir()}


def test_within_it_more_can_be_written(tmp_path: Path) -> None:
    with held(tmp_path / "out", "fit"):
        write(tmp_path / "out", first="1")
        write_file(tmp_path / "out" / "first", "2")
        with beside(tmp_path / "out") as scratch:
            scratch.mkdir()
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_whoever_writes_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), held(tmp_path / "new" / "deep" / "out", "fit"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two who write at once have scratch folders of their own, which nobody takes for remains."""

    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(folders.fcntl, "flock", none)
    with replaced_folder(tmp_path / "out", anything) as new:
        (new / "first").write_text("1")
        write(tmp_path / "out", second="2")
    assert texts(tmp_path) == {"out/first": "1"}


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may do whatever permissions say, so that the system is a pretended one."""
    (tmp_path / "out").mkdir()
    make = folders.tempfile.mkdtemp

    def made(*args: Any, dir: Any, **more: Any) -> str:
        if Path(dir).name == "out":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return make(*args, dir=dir, **more)

    monkeypatch.setattr(folders.tempfile, "mkdtemp", made)
    with pytest.raises(ValueError, match=r"not writable \(Read-only file system\)"):
        held(tmp_path / "out", "fit").__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_links_stay_and_those_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    loop, link = tmp_path / "loop", tmp_path / "link"
    loop.symlink_to("loop")
    with pytest.raises(ValueError, match="is a link that leads to itself"):
        held(loop, "fit").__enter__()
    link.symlink_to("file")
    for text in "12":
        write_file(link, text)
        assert link.is_symlink() and (tmp_path / "file").read_text() == text
    with (
        writing_elsewhere(tmp_path / "file", "fit"),
        pytest.raises(ValueError, match="Another fit"),
    ):
        held(link, "fit").__enter__()


def test_files_are_on_the_disk_before_they_are_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        sync(descriptor)
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def replaced(source: Any, goal: Any) -> None:
        assert done == [str(source)]
        replace(source, goal)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_file(tmp_path / "file", "1")
    assert done[1:] == [str(tmp_path)]
