"""Tables in Markdown and in LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sparse_prefgp.tell.tables import Cell, Table, typeset

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "×": r"$\times$",
    "\u00a0": "~",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}
_LATEX |= {
    raised: f"$^{{{plain}}}$" for raised, plain in zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True)
}


def as_markdown(table: Table) -> str:
    """Title, caption and table; parts have a row of their own."""
    heads = [heading.replace("|", "\\|") for heading in table.headings or [" "] * len(table.shown)]
    title = f"**{table.title}.**" if table.caption else f"**{table.title}**"
    marks = "|".join("---" if column.left else "---:" for column in table.shown)
    lines = [f"{title} {table.caption}".rstrip(), "", f"| {' | '.join(heads)} |", f"|{marks}|"]
    for heading, rows in table.blocks:
        if heading:
            lines.append(f"| *{_markdown_text(heading)}* |{' |' * (len(heads) - 1)}")
        for cells in table.cells(rows):
            texts = _texts(table, cells, _markdown_text, _markdown_number)
            lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _texts(
    table: Table,
    cells: Sequence[Cell],
    of_words: Callable[[str], str],
    of_number: Callable[[Cell], str],
) -> list[str]:
    """The cells of a row in some notation."""
    return [
        of_words(cell.plain) if column.left else of_number(cell)
        for column, cell in zip(table.shown, cells, strict=True)
    ]


def _markdown_text(text: str) -> str:
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return text


def _markdown_number(cell: Cell) -> str:
    text = typeset(cell.plain).replace("|", "\\|").replace("*", "\\*")
    return f"**{text}**" if cell.best else text


def as_latex(table: Table, comment: str = "") -> str:
    """A `table` environment to \\input; it needs the package booktabs.

    :param comment: lines for its head.
    """
    width = len(table.shown)
    caption = ". ".join(latex_text(text) for text in (table.title, table.caption) if text)
    lines = [f"% {line}" for line in comment.splitlines()]
    lines += [
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{caption}}}",
        f"\\label{{tab:{table.name.replace('_', '-')}}}",
        f"\\begin{{tabular}}{{{''.join('l' if c.left else 'r' for c in table.shown)}}}",
        r"\toprule",
    ]
    if table.headings:
        lines.append(" & ".join(map(latex_text, table.headings)) + r" \\")
    for i, (heading, rows) in enumerate(table.blocks):
        lines += [r"\midrule"] if i or table.headings else []
        if heading:
            lines.append(f"\\multicolumn{{{width}}}{{l}}{{\\emph{{{latex_text(heading)}}}}} \\\\")
        for cells in table.cells(rows):
            texts = _texts(table, cells, latex_text, _latex_number)
            lines.append(" & ".join(texts) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex_number(cell: Cell) -> str:
    if cell.text is not None:
        text = latex_text(typeset(cell.text))
        return f"\\textbf{{{text}}}" if cell.best else text
    if not math.isfinite(cell.mean):
        return "--"
    body = cell.written(r" \pm ", "-", r"{} \times 10^{{{}}}")
    mark = r"^{*}" if cell.alone else ""
    return f"$\\mathbf{{{body}}}{mark}$" if cell.best else f"${body}{mark}$"


def latex_text(text: str) -> str:
    """Text in which no character has a meaning of LaTeX's own."""
    return "".join(_LATEX.get(character, character) for character in text)
