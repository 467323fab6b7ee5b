"""Templates of the pages that studies write, and what goes into them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

from sparse_prefgp.support.extras import install

if TYPE_CHECKING:
    from jinja2 import Template


def page_template(name: str) -> Template:
    """A template of this package, which escapes whatever it is given.

    :raises ModuleNotFoundError: jinja2 is not installed.
    """
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"The report needs jinja2; install it with {install('cli')}."
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sparse_prefgp.workflow", "templates"),
        autoescape=True,  # whatever the ending: ids and levels are anybody's text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def embedded(file: Path, title: str, caption: str) -> dict[str, str]:
    """A PNG as the pages show it.

    :raises OSError: it cannot be read.
    """
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    return {"title": title, "caption": caption, "data": data}
