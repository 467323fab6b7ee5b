"""Tables and reports, and all who show them."""

import math
import re
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from sparse_prefgp import tell
from sparse_prefgp.tell.markup import as_latex, as_markdown, latex_text
from sparse_prefgp.tell.tables import Column, Table, digits, facts_table, first_of
from sparse_prefgp.tell.terminal import as_rich

ROWS = [
    {"name": "first", "score": 0.25, "number": 1200},
    {"name": "second", "score": -0.5, "number": 3},
    {"name": "by chance", "score": -0.9, "number": 3, "apart": True},
]
COLUMNS = (
    tell.Column("name", "", left=True),
    tell.Column("score", "score", ".2f", better=-1),
    tell.Column("number", "number", ",", spare=1),
    tell.Column("nothing", "nobody has it"),
)
TABLE = tell.Table("a_b", "A title", COLUMNS, ROWS, "How to read it.")


def test_text_has_columns_that_some_row_has() -> None:
    assert str(TABLE).splitlines() == [
        "A title",
        "           score  number",
        "first       0.25   1,200",
        "second     -0.50       3",
        "by chance  -0.90       3",
        "How to read it.",
    ]
    assert str(facts_table("", [("a", "b"), ("longer", "c")])) == "a       b\nlonger  c"
    assert [first_of(n, 30, "items") for n in (30, 20)] == [
        "All items",
        "The first 20 of 30 items",
    ]


def test_the_best_is_bold_and_who_stands_apart_never_is() -> None:
    assert [row[1].best for row in TABLE.cells(ROWS)] == [False, True, False]
    assert not any(row[1].best for row in TABLE.cells(ROWS[:1]))


def test_what_is_not_known_is_a_dash_and_what_is_not_there_is_empty() -> None:
    column = tell.Column("x", "x", ".2f")
    assert [column.cell(row).plain for row in ({"x": math.nan}, {"x": None}, {})] == ["–", "–", ""]


@pytest.mark.parametrize(
    ("mean", "error", "expected"),
    [
        (0.45512, 0.00123, ("0.4551", "0.0012", None)),
        (0.45512, math.nan, ("0.4551", "", None)),
        (0.5, 0.0, ("0.5000", "0", None)),
        (0.0, 0.0, ("0", "0", None)),
        (1234.5, 67.0, ("1234", "67", None)),
        (-3.25e-7, 1.1e-8, ("-3.25", "0.11", -7)),
        (2.5e7, math.nan, ("2.500", "", 7)),
        (10.0, 1e-16, ("10.00", "0", None)),
    ],
)
def test_digits(mean: float, error: float, expected: tuple[str, str, int | None]) -> None:
    assert digits(mean, error) == expected


def made(*cells: tell.Cell, name: str = "a|b", part: str = "set") -> tell.Table:
    columns = [tell.Column(str(i), f"h{i}", left=not i) for i in range(len(cells) + 1)]
    row = {"0": name, **{str(i): cell for i, cell in enumerate(cells, 1)}}
    return tell.Table("a_b", name, columns, caption="100 %.", parts=[(part, [row])])


def test_cells() -> None:
    table = made(tell.Cell(-0.0000251, 0.0000013, best=True, alone=True), tell.Cell())
    assert "(−2.51 ± 0.13) × 10⁻⁵*" in str(table)
    assert r"$\mathbf{(-2.51 \pm 0.13) \times 10^{-5}}^{*}$ & -- \\" in tell.as_latex(table)
    assert "| **(−2.51 ± 0.13) × 10⁻⁵\\*** | – |" in tell.as_markdown(table)


def test_latex_is_escaped_and_complete() -> None:
    hostile = r"50% & $x_1$ {#} ~^\ <a|b>"
    assert re.sub(r"\\[&%$#_{}]|\\text\w+\{\}", "", latex_text(hostile)).strip(" 501xab") == ""
    cells = (tell.Cell(1.0, 0.5, True), tell.Cell(text="λ_1"))
    text = tell.as_latex(made(*cells, name=hostile, part=hostile), "one\ntwo")
    assert text.startswith("% one\n% two\n\\begin{table}")
    assert text.count("\\toprule") == text.count("\\bottomrule") == 1
    assert "\\label{tab:a-b}" in text and "100 \\%." in text
    body = text.partition("\\toprule")[2].partition("\\bottomrule")[0]
    for line in filter(None, body.splitlines()):
        unescaped = len(re.findall(r"(?<!\\)&", line))
        assert unescaped == (0 if "multicolumn" in line or "rule" in line else 2)
    assert "$-$0.50" in tell.as_latex(TABLE) and "\\textbf{$-$0.50}" in tell.as_latex(TABLE)


def test_latex_that_is_longer_than_a_page_is_in_pieces() -> None:
    parts = [(f"part {i}", ROWS[:1]) for i in range(27)] + [("long", ROWS[:1] * 40)]
    text = as_latex(replace(TABLE, rows=(), parts=parts), fitted=True)
    pages = text.split("\\begin{table}")[1:]
    assert len(pages) == 5 and all(page.count("\n") < 48 for page in pages)
    assert text.count("first &") == 67 and text.count("\\emph{long}") == 2
    assert text.count("\\label{tab:a-b}") == 1
    assert text.count("\\addtocounter{table}{-1}\n\\caption{A title (continued)}") == 4


def test_markdown_has_equal_columns() -> None:
    lines = tell.as_markdown(made(tell.Cell(1.0, 0.5), tell.Cell(text="x"))).splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines[2:]} == {4}


def test_a_terminal_spares_columns_that_do_not_fit() -> None:
    console = pytest.importorskip("rich.console").Console
    narrow, wide = console(width=20), console(width=60)
    with narrow.capture() as seen:
        narrow.print(tell.as_rich(TABLE))
    assert "1,200" not in seen.get()
    assert "there is no room for: number." in " ".join(seen.get().split())
    with wide.capture() as seen:
        wide.print(tell.as_rich(TABLE))
    assert "1,200" in seen.get() and "no room" not in seen.get()


def test_a_report_is_told_by_all() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    picture = tell.Picture("p", "Drawn", "Late.", figure.subplots)
    sections = [
        tell.Section(sentences=["It is <so>."], tables=[TABLE], pictures=[picture]),
        tell.Section("Careful", notes=["Not much is known."]),
        tell.Section("More", code="x = 1", folded=True),
    ]
    report = tell.Report("Report", "of a test", sections)
    page = tell.as_html(report)
    assert "It is &lt;so&gt;." in page and "data:image/png;base64,iVBOR" in page
    assert "<summary>More</summary>" in page and '<section class="notes">' in page
    assert "Note: Not much is known." in str(report) and "It is <so>." in str(report)


@dataclass(frozen=True, eq=False, repr=False)
class Found(tell.Result):
    rows_name, also = "people", ("mean",)

    frame: Any
    number: float

    @property
    def mean(self) -> float:
        return self.number / 3.0

    def table(self, most: int | None = None) -> tell.Table:
        return replace(TABLE, rows=self.frame.to_dict("records")[:most])

    def sentences(self) -> list[str]:
        return ["It is <so>."]


class WithoutRows(tell.Result):
    """Of nothing."""

    def table(self, most: int | None = None) -> Table:
        return Table("none", "", [Column("name", "name"), Column("score", "score")], [])


def test_without_rows_a_frame_has_its_columns() -> None:
    pytest.importorskip("pandas")
    assert [*WithoutRows().to_frame().columns] == ["name", "score"]


def test_a_result_is_told_by_all() -> None:
    found = Found(pytest.importorskip("pandas").DataFrame(ROWS), math.inf)
    assert str(found) == repr(found) == f"{found.table()}\nIt is <so>."
    told = found.to_dict()
    assert told["number"] is told["mean"] is None and told["people"][0]["score"] == 0.25
    assert set(found.figures()) == {"number", "mean"} and found.to_frame() is found.frame
    assert "second" not in found.to_latex(1) and "second" in found.to_latex()
    assert found.to_markdown().endswith("|\n\n\nIt is <so>.")
    shown = found._repr_html_() or ""
    assert "<p>It is &lt;so&gt;.</p>" in shown and ">−0.50</td>" in shown


@pytest.mark.parametrize("text", ["[/b] one", "*star", "a|b", "<i>x</i>", "", "50 %_of #1"])
def test_no_text_has_a_meaning_of_the_notation(text: str) -> None:
    """As a title, a heading or a cell, with rows and without."""
    for rows in ([], [{"a": text, "b": 1.0}]):
        table = Table(
            "t", text, [Column("a", text or "a", left=True), Column("b", "b", ".1f")], rows
        )
        latex, markdown = as_latex(table), as_markdown(table)
        assert r"\begin{tabular}{lr}" in latex and r"\caption{}" not in latex
        assert not [line for line in latex.splitlines() if line.startswith(("[", "*"))]
        assert "****" not in markdown and "<i>" not in markdown
        assert {line.replace(r"\|", "").count("|") for line in markdown.splitlines()} <= {0, 3}
        screen = StringIO()
        Console(file=screen, width=80).print(as_rich(table))
        assert text in screen.getvalue()


def test_a_table_of_one_column_is_told() -> None:
    table = Table("one", "Title", [Column("p", "p", ".2f")], [{"p": 0.25}, {"p": 12.0}])
    assert str(table).split() == ["Title", "p", "0.25", "12.00"]
