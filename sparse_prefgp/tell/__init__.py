"""What results say, and how it is shown.

A result makes tables and sentences, which are shown as plain text (`str`), on a terminal, as a
page, in Markdown, in LaTeX or as JSON.
"""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.tell.markup import as_latex as as_latex
    from sparse_prefgp.tell.markup import as_markdown as as_markdown
    from sparse_prefgp.tell.page import as_html as as_html
    from sparse_prefgp.tell.report import Picture as Picture
    from sparse_prefgp.tell.report import Report as Report
    from sparse_prefgp.tell.report import Section as Section
    from sparse_prefgp.tell.result import Figures as Figures
    from sparse_prefgp.tell.result import Result as Result
    from sparse_prefgp.tell.tables import Cell as Cell
    from sparse_prefgp.tell.tables import Column as Column
    from sparse_prefgp.tell.tables import Table as Table
    from sparse_prefgp.tell.terminal import as_rich as as_rich

__getattr__, __dir__ = public(__name__)
