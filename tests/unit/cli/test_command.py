"""Options from fields: what is declared once is what a command takes and what a value has."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import MISSING, dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("typer")

import typer
from typer.testing import CliRunner

import sparse_prefgp
from sparse_prefgp.cli.app import app
from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.options import (
    helps,
    names,
    option,
    option_of,
    required,
    same_as,
    several,
)
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.settings import CompareSettings, FitSettings, settings_from

MOST_PARAMETERS = 8
COMMANDS: list[Any] = app.registered_commands


@dataclass(frozen=True)
class Meal:
    dish: str = option(default="soup")
    """What."""
    spices: Sequence[str] = option(default=(), kind=str, parse=names)
    """With."""
    salted: bool = option(default=True)
    """Without salt."""
    hot: bool = option(default=False)
    """As it should be."""
    price: float | None = option(default=9.5, kind=float, parse=lambda x: x or None)
    """0 for none."""
    cook: str = "nobody"

    def __post_init__(self) -> None:
        if self.dish == "stones":
            whole_number("stones", self.dish, 0)  # a mistake, which a line of the package finds
        if self.dish == "sand":
            int(self.dish)


@dataclass(frozen=True, kw_only=True)
class Guests:
    number: int = required(least=1)
    """How many."""
    dish: str = same_as(Meal, "dish", default="cake")
    """To bring."""


@dataclass(frozen=True, kw_only=True)
class Party:
    number: int = same_as(Guests, "number")


def options_of(command: Any) -> Any:
    """Fields and what they declare, by their names."""
    return command.callback.options


def call(function: Any, *words: str) -> Any:
    one = typer.Typer()
    one.command()(function)
    return CliRunner().invoke(one, words)


@pytest.fixture
def served() -> tuple[Any, list[Any]]:
    found: list[Any] = []

    @command(threads=False)
    def serve(console: Output, party: Party, meal: Meal) -> None:
        """Serve a meal."""
        found.append((party.number, meal))

    return serve, found


def test_fields_keep_their_defaults_and_take_what_is_given(served: tuple[Any, list[Any]]) -> None:
    serve, found = served
    words = ("--number", "3", "--spices", "a, b", "--no-salted", "--hot", "--price", "0")
    for more in ((), ("--dish", "pie")):
        assert call(serve, *words[:2], *more).exit_code == 0
    assert call(serve, *words).exit_code == 0
    assert found == [
        (3, Meal()),
        (3, Meal(dish="pie")),
        (3, Meal(spices=["a", "b"], salted=False, hot=True, price=None)),
    ]
    for wrong, text in (
        ((), "--number"),
        (("--number", "0"), "--number"),
        (("--number", "1", "--cook", "me"), "--cook"),
        (("--number", "1", "--threads", "2"), "--threads"),
    ):
        refused = call(serve, *wrong)
        assert refused.exit_code == 2 and text in refused.output
    told = call(serve, "--number", "1", "--dish", "stones")
    assert told.exit_code == 2 and told.stderr.startswith("Error: stones is 'stones'; give a whole")
    fault = call(serve, "--number", "1", "--dish", "sand")
    assert fault.exit_code == 1 and type(fault.exception) is ValueError and not fault.stderr


def test_help_says_what_the_fields_say(served: tuple[Any, list[Any]]) -> None:
    text = " ".join(call(served[0], "--help").output.split())
    for shown in ("Serve a meal.", "What. [default: soup]", "With.", "How many. [required]", "9.5"):
        assert shown in text or shown.replace(" [", " │ │ [") in text, text
    assert "--cook" not in text and "--salted" not in text.replace("--no-salted", "")


def test_a_class_by_name_is_what_differs_from_its_defaults() -> None:
    found: list[Any] = []

    @command()
    def serve(console: Output, meal: Annotated[dict[str, Any], Meal]) -> None:
        found.append(meal)

    assert call(serve, "--dish", "soup", "--hot", "--threads", "1").exit_code == 0
    assert found == [{"hot": True}]


def test_a_field_like_another_may_differ_in_some() -> None:
    (one,) = (one for one in fields(Guests) if one.name == "dish")
    assert one.default == "cake" and helps(Guests)["dish"] == "To bring."


def test_settings_come_from_options_by_name() -> None:
    assert settings_from(Meal, None, {"hot": True}, "a meal", {"dish": "pie"}) == Meal(
        "pie", hot=True
    )
    given = Meal("pie")
    assert settings_from(Meal, given, {}, "a meal") is given
    with pytest.raises(ValueError, match="no option 'dsh' of a meal; did you mean dish"):
        settings_from(Meal, None, {"dsh": "pie"}, "a meal")
    with pytest.raises(ValueError, match="'dish' was given along with settings"):
        settings_from(Meal, given, {"dish": "pie"}, "a meal")
    with pytest.raises(ValueError, match="settings is a int; give a Meal"):
        settings_from(Meal, 3, {}, "a meal")  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("name", "kinds"), [("fit", (Sources, FitSettings)), ("select", (CompareSettings,))]
)
def test_every_option_of_the_settings_is_one_of_the_command(name: str, kinds: Any) -> None:
    group: Any = typer.main.get_command(app)
    there = {parameter.name for parameter in group.commands[name].params}
    for kind in kinds:
        asked = {one.name for one in fields(kind) if option_of(one).of_command}
        assert asked and asked <= there


@pytest.mark.parametrize("words", [["--help"], ["rank", "--help"], ["ablate", "--help"]])
def test_nothing_is_typed_behind_a_flag(words: list[str]) -> None:
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "120"}).stdout
    assert "--help" in shown and "bool" not in shown.lower()


@pytest.mark.parametrize("kind", [FitSettings, CompareSettings, Sources])
def test_what_goes_together_names_fields(kind: Any) -> None:
    known = {one.name for one in fields(kind)}
    for one in fields(kind):
        for named in (option_of(one).needs, option_of(one).excludes):
            assert set([named] if isinstance(named, str) else named) <= known


EVERY = [(command, name) for command in COMMANDS for name in options_of(command)]


def said_of(command: Any, **given: Any) -> str:
    """What a command says to these values, and to some for what has to be given."""
    typed: dict[str, Any] = {}
    for name, (one, about, *_) in options_of(command).items():
        typed[name] = False if isinstance(one.default, bool) else None
        if one.default is MISSING:
            typed[name] = ["x"] if "list" in str(about.kind or one.type) else "x"
    errors = StringIO()
    with pytest.raises(typer.Exit) as stopped, redirect_stderr(errors):
        command.callback(**typed | given)
    assert stopped.value.exit_code == 2
    (line,) = errors.getvalue().splitlines()
    assert line.startswith("Error: ") and line.endswith("."), line
    return line


def fine(one: Any, about: Any, *_: Any) -> Any:
    """A value of an option that makes sense."""
    typed = str(about.kind or one.type)
    if isinstance(one.default, bool):
        return True
    text = "x=y" if "=" in (about.metavar or "") else "x"
    return 0.5 if "float" in typed else 7 if "int" in typed else text


@pytest.mark.parametrize(
    ("command", "name"), EVERY, ids=lambda value: str(getattr(value, "name", value))
)
def test_every_option_refuses_what_makes_no_sense(command: Any, name: str) -> None:
    """Empty text, an empty part of a list, numbers out of range, and what cannot be given
    together: before anything is read, by what the option declares."""
    options = options_of(command)
    one, about, *_ = options[name]
    flag, typed = options[name].called, str(about.kind or one.type)
    is_flag = isinstance(one.default, bool)
    wrong: list[Any] = []
    if "float" in typed:
        wrong = [math.nan, math.inf, -1.0]
    elif "int" in typed:
        wrong = [-1, 10**30]
    elif "list" in typed or "tuple" in typed:
        wrong = [["a", ""], [" ", "a"]]
    elif not is_flag:
        wrong = ["", " ", *(["a,,b"] if about.parse is names else [])]
    for value in wrong:
        assert said_of(command, **{name: value}).startswith(f"Error: {flag} ")
    good = fine(one, about)
    needed = [other for other in several(about.needs) if other in options]
    if needed and all(options[other][0].default is not MISSING for other in needed):
        assert said_of(command, **{name: good}).startswith(f"Error: {flag} was given without ")
    for other in several(about.excludes):
        if other in options:
            others = {other: fine(*options[other])}
            assert " were both given" in said_of(command, **{name: good}, **others)


def test_no_function_of_the_command_line_has_many_parameters() -> None:
    for path in (Path(sparse_prefgp.__file__).parent / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                taken = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                assert len(taken) <= MOST_PARAMETERS, f"{path}:{node.lineno}"
