"""A report as one HTML file that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparse_prefgp.support.extras import install
from sparse_prefgp.tell.report import SVG, Picture, Report
from sparse_prefgp.tell.tables import Table, typeset

DPI = 150


def as_html(report: Report) -> str:
    """The text of the page, everything escaped and embedded.

    :raises ModuleNotFoundError: jinja2 is not installed.
    :raises OSError: the file of a picture cannot be read.
    """
    return _rendered("page.html", report=report)


def parts_as_html(parts: Sequence[str | Table]) -> str:
    """Sentences and tables without a page around them, everything escaped.

    :raises ModuleNotFoundError: jinja2 is not installed.
    """
    return _rendered("parts.html", parts=parts)


def _rendered(name: str, **values: Any) -> str:
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"HTML needs jinja2; install it with {install('cli')}."
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sparse_prefgp.tell", "templates"),
        autoescape=True,  # whatever the ending: ids and levels are anybody's text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"typeset": typeset, "embedded": embedded}
    return environment.get_template(name).render(**values)


def embedded(picture: Picture) -> str:
    """A picture as an address that holds all of it, in base 64.

    :raises OSError: its file cannot be read.
    """
    kind = "image/png"
    if isinstance(picture.source, Path):
        data = picture.source.read_bytes()
    else:
        buffer = io.BytesIO()
        _draw(picture, buffer)
        data = buffer.getvalue()
        kind = "image/svg+xml" if picture.form == SVG else kind
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _draw(picture: Picture, buffer: io.BytesIO) -> None:
    """The same bytes for the same picture, whatever the time."""
    assert callable(picture.source)
    figure = picture.source().figure
    if picture.form != SVG:
        figure.savefig(buffer, dpi=DPI, format=picture.form)
        return
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": picture.name}):
        figure.savefig(buffer, format=SVG, metadata={"Date": None})
