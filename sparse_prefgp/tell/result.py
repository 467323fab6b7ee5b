"""Results: what each says is declared once, as sentences and tables, and told in every form."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

from sparse_prefgp.support.plain import plain
from sparse_prefgp.tell.markup import as_latex, as_markdown
from sparse_prefgp.tell.page import parts_as_html
from sparse_prefgp.tell.tables import Table

# Rows of a table that are printed, unless somebody says.
MOST_ROWS = 20


class Figures:
    """A dataclass whose fields are figures."""

    also: ClassVar[Sequence[str]] = ()
    """Properties that are figures too."""
    aside: ClassVar[Sequence[str]] = ("frame",)
    """Fields that are none."""

    def figures(self) -> dict[str, Any]:
        """Those of the whole, ready for JSON: infinities and NaN are None."""
        own = [name for name in self.__dataclass_fields__ if name not in self.aside]  # type: ignore[attr-defined]
        found: dict[str, Any] = plain({name: getattr(self, name) for name in (*own, *self.also)})
        return found

    def to_dict(self) -> dict[str, Any]:
        """All of them."""
        return self.figures()


class Result(Figures):
    """What `print` and notebooks show, and what goes into papers and files."""

    rows_name: ClassVar[str] = "frame"
    """What the rows of its data frame, if it has one, are called among the figures."""

    def table(self, most: int | None = None) -> Table:
        """Its table, or the first one.

        :param most: rows of it; None for all.
        """
        raise NotImplementedError

    def sentences(self) -> Sequence[str]:
        """What to know about the table, one sentence each."""
        return ()

    def parts(self, most: int | None = None) -> Sequence[str | Table]:
        """Sentences and tables as they are read.

        :param most: rows of the first table; None for all.
        """
        return [self.table(most), *self.sentences()]

    def to_dict(self) -> dict[str, Any]:
        """The figures, and the rows of its data frame."""
        rows = {self.rows_name: plain(self.frame)} if hasattr(self, "frame") else {}
        return {**self.figures(), **rows}

    def to_frame(self) -> Any:
        """Rows of the first table as a data frame, not rounded."""
        if hasattr(self, "frame"):
            return self.frame
        import pandas as pd

        table = self.table()
        columns = None if table.rows else [column.key for column in table.columns]
        return pd.DataFrame(list(table.rows), columns=columns)

    def to_latex(self, most: int | None = None) -> str:
        """The first table, to \\input; it needs the package booktabs.

        :param most: rows of it; None for all.
        """
        return as_latex(self.table(most))

    def to_markdown(self, most: int | None = None) -> str:
        """All parts.

        :param most: rows of the first table; None for all.
        """
        return "\n\n".join(
            part if isinstance(part, str) else as_markdown(part) for part in self.parts(most)
        )

    def to_html(self, most: int | None = None) -> str:
        """All parts, without a page around them.

        :param most: rows of the first table; None for all.
        :raises ModuleNotFoundError: jinja2 is not installed.
        """
        return parts_as_html(self.parts(most))

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts(MOST_ROWS)))

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        return self.to_html(MOST_ROWS) if find_spec("jinja2") else None
