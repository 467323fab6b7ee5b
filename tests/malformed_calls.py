"""Malformed calls of every command, made from the options that the commands themselves declare.

    python -m tests.malformed_calls [--calls 2000] [--seed 0] [--first 0]

A call begins as one that makes sense; one to three of its options are then left out, or get a value
that is empty, huge, of another type, a file that is missing, damaged or a folder. Whatever is
given, a command ends with exit code 0, or with 2, one sentence and nothing written. What does
otherwise is printed; `--calls 1 --first PLACE` makes it again.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import typer
from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from tests.cases import DATA

SAVED = DATA / "saved"
# Seconds of the processor that a call of so little data may take.
TOO_LONG = 120
# Calls of a process: what TensorFlow compiles is kept as long as that lives.
EACH = 250

# Calls that make sense, option by option.
DUELS = "--items items.csv --duels duels.csv"
ALONE = "--model fitted"
CALLS = {
    "fit": (
        f"{DUELS} --out new --inducing 3 --max-iterations 1",
        "--items items.csv --choices choices.csv --out new --kernel linear --max-iterations 1",
        "--items items.csv --rankings rankings.csv --out new --kernel linear --max-iterations 1",
        "--items items.csv --best-worst best.csv --out new --kernel linear --max-iterations 1",
        "--duels duels.csv --out new --max-iterations 1 --time day",
        f"{DUELS} --out new --kernel linear --max-iterations 1 --person who --people people.csv",
        "--items items.csv --duels duels.parquet --out new --stream --inducing 3 "
        "--max-iterations 1",
    ),
    "select": (f"{DUELS} --candidates linear/vfe/3 --max-iterations 1 --folds 2",),
    "demo": ("--duels 30 --inducing 3 --max-iterations 1",),
    "datasets": ("", "nothing"),
    "rank": (ALONE, f"{ALONE} --items items.csv", "--model contexts"),
    "predict": (
        f"{ALONE} --pairs pairs.csv",
        f"{ALONE} --choices choices.csv",
        f"{ALONE} --rankings rankings.csv",
        f"{ALONE} --best-worst best.csv",
        f"{ALONE} --pairs pairs.csv --items items.csv --out new.csv",
    ),
    "evaluate": (f"{ALONE} --duels duels.csv", f"{ALONE} --choices choices.csv --out new.json"),
    "explain": (ALONE, f"{ALONE} --first i0 --second i1"),
    "shares": (f"{ALONE} --alternatives sets.csv", f"{ALONE} --alternatives choices.csv"),
    "worth": (f"{ALONE} --unit size",),
    "trajectories": ("--model dated", f"{ALONE} --item i0"),
    "meet": ("--model tastes --duels duels.csv", "--model tastes --choices choices.csv --ask 2"),
    "suggest": (f"{ALONE} --batch 2", f"{ALONE} --pairs pairs.csv --batch 1 --out new.csv"),
    "update": (
        f"{ALONE} --duels duels.csv --out new",
        f"{ALONE} --rankings rankings.csv --out new",
    ),
    "ablate": ("wrong.yaml --out new", "study.yaml --out folder"),
    "report": ("folder", "fitted"),
}
WORDS = (
    "",
    " ",
    ",",
    "a,,b",
    ":",
    "=",
    "i0",
    "nobody",
    "size",
    "size,colour",
    "who",
    "day",
    "auto",
)
WORDS += ("judge", "home", "grade", "worth", "side", "x=1", "=1", "size=nan", "date=2020-02-30")
WORDS += ("date=2020-01-01", "linear", "linear+", "se*se", "(" * 500, "projected(se,99999)", "vfe")
WORDS += ("pitc:2", "subset:1", "group:who", "time:day", "given:home", "items", "given:", "é\u200b")
WORDS += ("\x1b[31mred", "x" * 5000, "-1", "0", "3", "[", "{}", "%s", "None", "2020-13-01", "$(ls)")
FILES = ("items.csv", "duels.csv", "choices.csv", "rankings.csv", "best.csv", "pairs.csv", "e.npy")
FILES += ("people.csv", "sets.csv", "duels.parquet", "nowhere.csv", "nowhere/at/all.csv", "folder")
FILES += ("empty.csv", "header.csv", "binary.csv", "nul.csv", "latin.csv", "ragged.csv", "open.csv")
FILES += ("twice.csv", "long.csv", "cut.xlsx", "cut.parquet", "cut.csv.gz", "cut.npy", "fitted")
FILES += ("contexts", "stream", "broken", "study.yaml", "wrong.yaml", "deep.yaml", "new.csv", "new")
FILES += (
    "new.json",
    "new.png",
    "items.csv/new.csv",
    "e=e.npy",
    "=e.npy",
    "e=",
    "y" * 300,
    "/dev/null",
)
NUMBERS = ("0", "-1", "1", "2", "0.5", "1e3", "1e308", "-1e-320", "nan", "inf", "-inf", "abc", "")
NUMBERS += ("1000000000000", "1" + "0" * 30, "9" * 5000, "0x10", "1,5", "٣", "true")


GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {one.name: one.callback for one in app.registered_commands}
# What no option takes, in the calls of commands that would compute otherwise.
NEVER = ("", " ", "nan", "-inf", "abc", "nowhere.csv", "binary.csv", "empty.csv", "cut.xlsx")


def pools_of(command: str) -> dict[str, tuple[str, ...]]:
    """What each option of a command may get, by its flag; nothing for a flag alone.

    What is given by its place has no flag.
    """
    found = {}
    for asked in COMMANDS[command].options.values():
        one, about = asked.one, asked.option
        typed = str(about.kind or one.type)
        if isinstance(one.default, bool):
            pool: tuple[str, ...] = ()
        elif "int" in typed or "float" in typed:
            pool = NUMBERS
        else:
            pool = FILES if "Path" in typed or one.name == "embedding" else WORDS
        found["" if about.argument else asked.called] = pool
    return found


POOLS = {name: pools_of(name) for name in COMMANDS}


def drawn(rng: np.random.Generator) -> list[str]:
    """The words of a call."""
    name = str(rng.choice(list(CALLS)))
    pools = POOLS[name]
    words = shlex.split(str(rng.choice(list(CALLS[name]))))
    call: list[tuple[str, str | None]] = []
    while words:
        word = words.pop(0)
        if word not in pools:
            call.append(("", word))
        else:
            call.append((word, words.pop(0) if pools[word] else None))
    for _ in range(rng.integers(1, 4)):
        if call and rng.random() < 0.15:
            call.pop(rng.integers(len(call)))
            continue
        flag = str(rng.choice(list(pools)))
        value = None
        if pools[flag]:
            other = (WORDS, FILES, NUMBERS)[rng.integers(3)]
            value = str(rng.choice(pools[flag] if rng.random() < 0.8 else other))
        if flag and rng.random() < 0.9:
            call = [given for given in call if given[0] != flag]
        call.append((flag, value))
    # With =, so that a value may begin with a dash.
    return [name, *(_word(flag, value) for flag, value in call)]


def _word(flag: str, value: str | None) -> str:
    if value is None:
        return flag
    return f"{flag}={value}" if flag else value


def make_world(folder: Path, models: bool = False) -> None:
    """Tables, good and damaged, and saved models.

    :param models: also make those that take a fit.
    """
    import pandas as pd
    import yaml

    rng = np.random.default_rng(0)
    shutil.copytree(SAVED / "fit" / "model", folder / "fitted")
    shutil.copytree(SAVED / "contexts" / "model", folder / "contexts")
    shutil.copytree(SAVED / "fit_stream" / "model", folder / "stream")
    shutil.copytree(SAVED / "fit" / "model", folder / "broken")
    for path in (folder / "broken").rglob("model.json"):
        path.write_text(path.read_text()[:-40])
    shutil.copy(SAVED / "fit" / "items.csv", folder)
    shutil.copy(SAVED / "fit" / "pairs.csv", folder)
    duels = pd.read_csv(SAVED / "fit" / "duels.csv")
    t = len(duels)
    duels = duels.assign(
        who=rng.choice(["ann", "bo", "cy"], t),
        judge=rng.choice(["dee", "ed"], t),
        day=pd.date_range("2020-01-01", periods=t).strftime("%Y-%m-%d"),
        home=rng.integers(0, 2, t),
        side=rng.choice([-1, 1], t),
        grade=rng.integers(-1, 2, t),
        worth=rng.uniform(0.5, 2.0, t).round(3),
    )
    duels.to_csv(folder / "duels.csv", index=False)
    duels[["winner", "loser"]].to_parquet(folder / "duels.parquet", index=False)
    shown = [[f"i{i}" for i in rng.permutation(14)[:4]] for _ in range(20)]
    sets = pd.DataFrame(shown, columns=[f"option_{j}" for j in range(1, 5)])
    sets.assign(chosen=sets["option_2"], who="ann").to_csv(folder / "choices.csv", index=False)
    sets.assign(best=sets["option_2"], worst=sets["option_3"]).to_csv(
        folder / "best.csv", index=False
    )
    sets.to_csv(folder / "sets.csv", index=False)
    ranks = sets.set_axis([f"rank_{j}" for j in range(1, 5)], axis=1)
    ranks.to_csv(folder / "rankings.csv", index=False)
    (folder / "people.csv").write_text("person_id,age\nann,30\nbo,41\ncy,19\n")
    np.save(folder / "e.npy", rng.normal(size=(14, 3)))
    study = {
        "name": "small",
        "title": "Small",
        "data": {"files": {"items": "items.csv", "duels": "duels.csv"}},
        "split": {"by": "duels", "test_fraction": 0.25},
        "kernels": ["se"],
        "approximations": ["exact"],
        "engines": ["ep"],
        "hyperparameters": ["joint"],
        "seeds": [0],
        "iterations": 1,
        "exact_reference": False,
        "baselines": False,
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    (folder / "wrong.yaml").write_text(yaml.safe_dump({**study, "kernels": 7, "seeds": ""}))
    (folder / "deep.yaml").write_text("[" * 3000)
    (folder / "folder").mkdir()
    (folder / "folder" / "photo.txt").write_text("beach")
    good = (folder / "duels.csv").read_bytes()
    damaged = {
        "empty.csv": b"",
        "header.csv": good.splitlines()[0],
        "binary.csv": bytes(range(256)) * 4,
        "nul.csv": good.replace(b"i1", b"i\x00", 1),
        "latin.csv": good.replace(b"i1", b"\xe9", 1),
        "ragged.csv": good + b"i1,i2,i3,i4,i5,i6,i7,i8,i9,i10\n",
        "open.csv": good + b'"i1,i2\n',
        "twice.csv": good.replace(b"loser", b"winner", 1),
        "long.csv": good + b"i" * 200_000 + b",i1\n",
        "cut.xlsx": b"PK\x03\x04" + good[:100],
        "cut.parquet": (folder / "duels.parquet").read_bytes()[:-50],
        "cut.csv.gz": gzip.compress(good)[:-20],
        "cut.npy": (folder / "e.npy").read_bytes()[:-9],
    }
    for name, content in damaged.items():
        (folder / name).write_bytes(content)
    if models:
        make_models(folder)


def make_models(folder: Path) -> None:
    """Of people with tastes, and of utilities that move in time."""
    with contextlib.chdir(folder):
        for name, more in (
            ("tastes", f"{DUELS} --kernel linear --person who"),
            ("dated", "--duels duels.csv --time day"),
        ):
            words = ["fit", *shlex.split(more), "--max-iterations", "1", "--out", name]
            assert CliRunner().invoke(app, words).exit_code == 0
    for name in ("tastes", "dated"):
        shutil.move(folder / name / "model", folder / "kept")
        shutil.rmtree(folder / name)
        shutil.move(folder / "kept", folder / name)


State = dict[str, tuple[int, int]]


def state_of(folder: Path) -> State:
    """What lies there: sizes, and when it was written."""
    found = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        found[str(path.relative_to(folder))] = (
            (0, 0) if path.is_dir() else (about.st_size, about.st_mtime_ns)
        )
    return found


class TookTooLong(BaseException):
    """No mistake, which the command line would show as one."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise where it takes longer."""

    def stop(*_: Any) -> None:
        raise TookTooLong(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class World:
    """A folder in which calls are made, as good as new for each."""

    def __init__(self, source: Path, place: Path) -> None:
        self._source, self._place = source, place
        self._renew()

    def _renew(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        shutil.copytree(self._source, self._place, symlinks=True)
        self._before = state_of(self._place)

    def call(self, words: list[str]) -> tuple[int, str]:
        """The exit code, and what is wrong, if anything."""
        said, problem, code = StringIO(), "", 0
        with (
            contextlib.chdir(self._place),
            within(TOO_LONG),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            try:
                GROUP.main(words, prog_name="sparse-prefgp")
            except SystemExit as error:
                code = error.code
            except Exception as error:
                code, problem = 1, "".join(traceback.format_exception(error))
        text, after = said.getvalue(), state_of(self._place)
        if code not in (0, 2):
            problem = problem or text
        elif "Traceback" in text or (code == 2 and "Error" not in text):
            problem = f"no sentence: {text}"
        elif code == 2 and after != self._before:
            changed = [name for name, _ in set(after.items()) ^ set(self._before.items())]
            problem = f"{sorted(set(changed))} changed: {text}"
        if after != self._before:
            self._renew()
        return code, problem


def calls(number: int, seed: int = 0, first: int = 0) -> Iterator[list[str]]:
    """So many of them; each depends on its place alone."""
    for place in range(first, first + number):
        yield drawn(np.random.default_rng([seed, place]))


def is_quick(words: list[str]) -> bool:
    """Whether a call computes little, or is sure to be refused before."""
    quick = words[0] in ("datasets", "report", "rank", "predict", "trajectories")
    return quick or any(word.partition("=")[2] in NEVER for word in words if "=" in word)


def run(world: World, number: int, seed: int, first: int) -> tuple[Counter[int], int]:
    """Make them, and print what is wrong.

    :return: how often each exit code came, and how many calls were wrong.
    """
    codes: Counter[int] = Counter()
    wrong = 0
    for place, words in enumerate(calls(number, seed, first), first):
        try:
            code, problem = world.call(words)
        except TookTooLong as error:
            code, problem = 1, str(error)
        codes[code] += 1
        if problem:
            wrong += 1
            print(f"--- {place}: sparse-prefgp {shlex.join(words)[:2000]}\n{problem[-3000:]}")
            sys.stdout.flush()
    return codes, wrong


def main() -> int:
    """Make the calls, so many to a process, and print how often each exit code came."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--source", type=Path, help="the folder that calls are made in, if made")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = asked.source or Path(folder, "source")
        if asked.source is None:
            source.mkdir()
            make_world(source, models=True)
        if asked.calls <= EACH:
            codes, wrong = run(
                World(source, Path(folder, "work")), asked.calls, asked.seed, asked.first
            )
            print("codes", *(f"{code}:{number}" for code, number in sorted(codes.items())))
            return int(bool(wrong))
        total: Counter[str] = Counter()
        failed = 0
        for first in range(asked.first, asked.first + asked.calls, EACH):
            number = min(EACH, asked.first + asked.calls - first)
            words = ["--calls", number, "--seed", asked.seed, "--first", first, "--source", source]
            command = [sys.executable, "-m", "tests.malformed_calls", *map(str, words)]
            done = subprocess.run(command, capture_output=True, text=True)
            *said, last = done.stdout.splitlines() or [""]
            print(
                "\n".join(said), *([done.stderr[-2000:]] if done.returncode not in (0, 1) else ())
            )
            for word in last.split()[1:]:
                code, _, count = word.partition(":")
                total[code] += int(count)
            failed += done.returncode != 0
            print(f"=== {first + number}: {dict(total)}", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
