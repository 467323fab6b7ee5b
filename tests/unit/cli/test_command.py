"""Options from fields: what is declared once is what a command takes and what a value has."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, fields
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
from sparse_prefgp.support.options import names, option, option_of, same_as
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.settings import CompareSettings, FitSettings, settings_from

MOST_PARAMETERS = 8


@dataclass(frozen=True)
class Meal:
    dish: str = option("What.", default="soup")
    spices: Sequence[str] = option("With.", default=(), kind=str, parse=names)
    salted: bool = option("Without salt.", default=True)
    hot: bool = option("As it should be.", default=False)
    price: float | None = option("0 for none.", default=9.5, kind=float, parse=lambda x: x or None)
    cook: str = "nobody"

    def __post_init__(self) -> None:
        if self.dish == "stone":
            raise ValueError("Stones are not eaten.")


@dataclass(frozen=True, kw_only=True)
class Guests:
    number: int = option("How many.", least=1)
    dish: str = same_as(Meal, "dish", default="cake", help="To bring.")


@dataclass(frozen=True, kw_only=True)
class Party:
    number: int = same_as(Guests, "number")


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
    told = call(serve, "--number", "1", "--dish", "stone")
    assert told.exit_code == 2 and told.stderr == "Error: Stones are not eaten.\n"


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
    assert one.default == "cake" and option_of(one).help == "To bring."


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
        asked = {one.name for one in fields(kind) if option_of(one).help is not None}
        assert asked and asked <= there


@pytest.mark.parametrize("words", [["--help"], ["rank", "--help"], ["ablate", "--help"]])
def test_nothing_is_typed_behind_a_flag(words: list[str]) -> None:
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "120"}).stdout
    assert "--help" in shown and "bool" not in shown.lower()


@pytest.mark.parametrize("kind", [FitSettings, CompareSettings, Sources])
def test_what_goes_together_names_fields(kind: Any) -> None:
    known = {one.name for one in fields(kind)}
    for one in fields(kind):
        about = option_of(one)
        assert {about.needs, about.excludes} - {None} <= known


def test_no_function_of_the_command_line_has_many_parameters() -> None:
    for path in (Path(sparse_prefgp.__file__).parent / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                taken = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                assert len(taken) <= MOST_PARAMETERS, f"{path}:{node.lineno}"
