"""Tables in Markdown and in LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

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
    heads = [*map(_markdown_text, table.headings or [" "] * len(table.shown))]
    title = f"**{_markdown_text(table.title)}{'.' * bool(table.caption)}**" if table.title else ""
    above = f"{title} {_markdown_text(table.caption)}".strip()
    marks = "|".join("---" if column.left else "---:" for column in table.shown)
    lines = [*([above, ""] if above else []), f"| {' | '.join(heads)} |", f"|{marks}|"]
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


# Of a table with its rules: what fits a page with the caption.
_LINES_OF_PAGE = 30
# Around a table: as small as the line is wide, if it is wider.
_FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def as_latex(table: Table, comment: str = "", *, fitted: bool = False, below: str = "") -> str:
    """A `table` environment to \\input, or several where it is long; it needs booktabs.

    :param comment: lines for its head.
    :param fitted: whether one that is wider than a line becomes smaller; it needs graphicx too.
    :param below: what is said below the table.
    """
    caption = ". ".join(latex_text(text) for text in (table.title, table.caption) if text)
    lines = [f"% {line}" for line in comment.splitlines()]
    head = [f"\\caption{{{caption}}}"] if caption else []
    head.append(f"\\label{{tab:{table.name.replace('_', '-')}}}")
    for page in _latex_pages(table):
        lines += [
            r"\begin{table}",
            r"\centering",
            *head,
            *([_FITTED] if fitted else []),
            f"\\begin{{tabular}}{{{''.join('l' if c.left else 'r' for c in table.shown)}}}",
            r"\toprule",
            *([_latex_row(map(latex_text, table.headings))] if table.headings else []),
            *page,
            r"\bottomrule",
            r"\end{tabular}" + ("}" if fitted else ""),
            *([rf"\par\smallskip\raggedright\footnotesize {latex_text(below)}"] if below else []),
            r"\end{table}",
        ]
        again = f"\\caption{{{latex_text(table.title)} (continued)}}"
        head = [r"\addtocounter{table}{-1}", again] if caption else []
    return "\n".join(lines) + "\n"


def _latex_pages(table: Table) -> list[list[str]]:
    """Lines of each page; a part is broken only where it is longer than one."""
    pages: list[list[str]] = [[]]
    for heading, rows in table.blocks:
        above = f"\\multicolumn{{{len(table.shown)}}}{{l}}{{\\emph{{{latex_text(heading)}}}}} \\\\"
        lines = [_latex_row(_texts(table, c, latex_text, _latex_number)) for c in table.cells(rows)]
        while lines:
            if pages[-1] and len(pages[-1]) + len(lines) > _LINES_OF_PAGE:
                pages.append([])
            rule = [r"\midrule"] if pages[-1] or table.headings else []
            pages[-1] += [*rule, *([above] if heading else []), *lines[:_LINES_OF_PAGE]]
            lines = lines[_LINES_OF_PAGE:]
    return pages


def _latex_row(texts: Iterable[str]) -> str:
    row = " & ".join(texts) + r" \\"
    return "{}" + row if row[0] in "[*" else row  # else the end of the row before takes it


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
