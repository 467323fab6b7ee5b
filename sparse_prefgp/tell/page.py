"""A report as one HTML file that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from sparse_prefgp.support.extras import install
from sparse_prefgp.tell.report import Picture, Report
from sparse_prefgp.tell.tables import typeset

DPI = 150


def as_html(report: Report) -> str:
    """The text of the page, everything escaped and embedded.

    :raises ModuleNotFoundError: jinja2 is not installed.
    :raises OSError: the file of a picture cannot be read.
    """
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"The report needs jinja2; install it with {install('cli')}."
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sparse_prefgp.tell", "templates"),
        autoescape=True,  # whatever the ending: ids and levels are anybody's text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"typeset": typeset, "embedded": embedded}
    return environment.get_template("page.html").render(report=report)


def embedded(picture: Picture) -> str:
    """A picture as the text of its PNG in base 64.

    :raises OSError: its file cannot be read.
    """
    if isinstance(picture.source, Path):
        data = picture.source.read_bytes()
    else:
        buffer = io.BytesIO()
        picture.source().figure.savefig(buffer, dpi=DPI, format="png")
        data = buffer.getvalue()
    return base64.b64encode(data).decode("ascii")
