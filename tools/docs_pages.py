"""What mkdocs writes itself: the command line from the program, the reference from the names.

A page says `<!-- commands -->`, `<!-- names -->` or `<!-- gallery -->` where the generated part
belongs, and `<!-- cards -->` before a list of links to pages: each gets the first picture of its
page, or the one that the link names as its title. Each worked page is also written as a notebook
next to it, to which a line under its title leads.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urljoin

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `mkdocs build` does not look here by itself

from tools import examples, notebooks  # noqa: E402

PICTURE = re.compile(r"!\[(?P<says>[^\]]+)\]\((?P<place>[^):]+)\)")
# `- [Duels](duels.md "duels_ranking.png"): which of two.`
CARD = re.compile(
    r'^- \[(?P<title>[^\]]+)\]\((?P<page>[^) ]+)(?: "(?P<picture>[^"]+)")?\): (?P<says>.+)$',
    re.MULTILINE,
)
# Where the site keeps pictures of studies, which lie outside of `docs`.
STUDIES = "gallery"
# What each of them shows, by its place in `experiments`.
STUDY_PICTURES = {
    "boston_duels/boston_duels.png": "How near the sparse approximations come to exact inference "
    "on duels between homes, as inducing inputs are added",
    "calibration/results/calibration.png": "How often 90 % intervals hold the truth, and what each "
    "approximation loses, in duels drawn from the model",
    "inducing_points/results/abalone/evidence_gap.png": "How far each evidence is from the exact "
    "one, on duels between abalones",
    "inducing_points/results/abalone/kl_from_exact.png": "How far predictions are from exact "
    "inference, on duels between abalones",
    "inducing_points/results/boston/evidence_gap.png": "How far each evidence is from the exact "
    "one, on duels between homes",
    "inducing_points/results/boston/kl_from_exact.png": "How far predictions are from exact "
    "inference, on duels between homes",
    "inducing_points/results/boston/nlp_nats.png": "Scores on new duels between homes, as inducing "
    "inputs are added",
    "inducing_points/results/boston_inputs/evidence_gap.png": "Four ways to place the inducing "
    "inputs, and how far each evidence is from the exact one",
    "inducing_points/results/boston_inputs/kl_from_exact.png": "Four ways to place the inducing "
    "inputs, and how far predictions are from exact inference",
    "inducing_points/results/kin40k/evidence_gap.png": "How far each evidence is from the exact "
    "one, on duels made from a simulated robot arm",
    "inducing_points/results/kin40k/kl_from_exact.png": "How far predictions are from exact "
    "inference, on duels made from a simulated robot arm",
    "inducing_points/results/kin40k/nlp_nats.png": "Scores on new duels made from a simulated "
    "robot arm, as inducing inputs are added",
    "scaling/results/roofline.png": "Where the time of one sweep goes, at a million duels",
    "scaling/results/scaling.png": "How time and memory grow with duels, items, inducing inputs "
    "and parts",
    "scaling/results/stream.png": "How many duels a second are read from files, in one process and "
    "by several workers",
    "takeno/takeno.png": "Errors of three engines against the exact posterior, on seven test "
    "functions",
    "titsias_toy/titsias_toy.png": "Three sparse approximations of ordinary regression, next to "
    "the full Gaussian process",
}

# Sections of the reference, by the module a public name comes from; others follow under the
# module's own name, so that a new name appears by itself.
SECTIONS = {
    "data": "Duels and tables",
    "io": "Duels and tables",
    "models": "The model",
    "covariances": "The model",
    "approximations": "Approximations",
    "engines": "Inference",
    "learning": "Learning",
    "gpflow_blocks": "`spg.gpflow`: with GPflow's own models",
    "gpflow": "`spg.gpflow`: with GPflow's own models",
    "workflow": "Choosing",
    "analysis": "Using a model",
    "sampling": "Using a model",
    "disk": "Using a model",
    "exact": "`spg.exact`: how far a model is from the truth",
    "plotting": "`spg.plotting`: pictures",
    "datasets": "`spg.datasets`: public data sets",
    "lab": "`spg.lab`: studies",
    "results": "`spg.results`: what is returned",
}


def on_files(files: Files, config: Any) -> Files:
    """Add the notebook of each worked page."""
    pages = [file for file in files.documentation_pages() if examples.is_worked(_path(file))]
    for file in pages:
        files.append(File.generated(config, _notebook(file), content=_written(file, files, config)))
    for path in _study_pictures():
        place = f"{STUDIES}/{_study_name(path)}.png"
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def _path(file: File) -> Path:
    assert file.abs_src_path is not None
    return Path(file.abs_src_path)


def _notebook(file: File) -> str:
    return str(Path(file.src_uri).with_suffix(".ipynb").as_posix())


def _written(file: File, files: Files, config: Any) -> str:
    """The notebook's text; its links are whole addresses where the site has one."""

    def link(target: str) -> str:
        name, mark, anchor = target.partition("#")
        found = files.get_file_from_path(
            posixpath.normpath(posixpath.join(posixpath.dirname(file.src_uri), name))
        )
        if found is None:
            raise ValueError(f"{file.src_uri} links to {target}, which is not there.")
        if config.site_url:
            return urljoin(config.site_url, found.url) + mark + anchor
        return found.url_relative_to(file) + mark + anchor

    return notebooks.written(_path(file), link)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Fill in the generated parts of a page."""
    name = _notebook(page.file)
    if files.get_file_from_path(name) is not None:
        title, _line, rest = markdown.partition("\n")
        place = posixpath.basename(name)
        link = f'[This page as a notebook]({place}){{ .notebook download="{place}" }}'
        markdown = f"{title}\n\n{link}\n{rest}"
    for marker, write in (("<!-- commands -->", commands), ("<!-- names -->", names)):
        if marker in markdown:
            markdown = markdown.replace(marker, write())
    if "<!-- gallery -->" in markdown:
        markdown = markdown.replace("<!-- gallery -->", gallery(page.file, config, files))
    while "<!-- cards -->" in markdown:
        before, _marker, rest = markdown.partition("<!-- cards -->\n")
        listed, blank, after = rest.partition("\n\n")
        cards = CARD.sub(lambda found: _card(found, page.file, files), listed)
        markdown = f'{before}<div class="cards" markdown>\n\n{cards}\n\n</div>{blank}{after}'
    return markdown


def gallery(here: File, config: Any, files: Files) -> str:
    """Markdown of all pictures, those of pages in the order of the navigation, then of studies."""
    pages = [files.get_file_from_path(name) for name in _in_order(config.nav)]
    parts = ['<div class="gallery" markdown>']
    shown: set[str] = set()
    for file in pages:
        if file is None or file.src_uri in (here.src_uri, "index.md"):
            continue
        text = file.content_string
        title = text.partition("\n")[0].lstrip("# ")
        link = _relative(file.src_uri, here)
        for found in PICTURE.finditer(text):
            place = posixpath.join(posixpath.dirname(file.src_uri), found["place"])
            if place not in shown:
                parts.append(_figure(found["says"], _relative(place, here), title, link))
            shown.add(place)
    parts += ["</div>", "## Of studies", '<div class="gallery" markdown>']
    for path in _study_pictures():
        name = _study_name(path)
        study = path.relative_to(ROOT / "experiments").parts[0]
        place = _relative(f"{STUDIES}/{name}.png", here)
        about = [one for one in pages if one and f"experiments/{study}" in one.content_string]
        link = _relative(about[0].src_uri, here) if about else place
        says = STUDY_PICTURES.get(path.relative_to(ROOT / "experiments").as_posix())
        if says is None:
            raise ValueError(f"STUDY_PICTURES does not say what {path} shows.")
        parts.append(_figure(says, place, f"experiments/{study}", link))
    return "\n\n".join([*parts, "</div>"])


def _figure(says: str, place: str, title: str, link: str) -> str:
    return f"[![{says}]({place})**{title}**<br>{says}]({link})"


def _card(found: re.Match[str], here: File, files: Files) -> str:
    """A line of the list with a picture of its page, if it has any."""
    place = posixpath.normpath(
        posixpath.join(posixpath.dirname(here.src_uri), found["page"].partition("#")[0])
    )
    file = files.get_file_from_path(place)
    pictures = [] if file is None else list(PICTURE.finditer(file.content_string))
    if wanted := found["picture"]:
        pictures = [one for one in pictures if one["place"] == wanted]
        if not pictures:
            raise ValueError(f"{here.src_uri} wants {wanted!r} of {place}, which does not show it.")
    shown = ""
    for picture in pictures[:1]:
        source = posixpath.join(posixpath.dirname(place), picture["place"])
        shown = f"![{picture['says']}]({_relative(source, here)})"
    return f"- [{shown}**{found['title']}**]({found['page']})<br>{found['says']}"


def _in_order(nav: Any) -> list[str]:
    """Pages of the navigation, in its order."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [name for part in parts for name in _in_order(part)]


def _relative(place: str, here: File) -> str:
    return posixpath.relpath(place, posixpath.dirname(here.src_uri) or ".")


def _study_pictures() -> list[Path]:
    return sorted((ROOT / "experiments").rglob("*.png"))


def _study_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "experiments").with_suffix("").parts
    return "-".join(dict.fromkeys(part for part in parts if part != "results"))


def commands() -> str:
    """Markdown of every command: what it does, usage, options, example."""
    # The width of the terminal must not decide what a page says.
    os.environ["COLUMNS"] = "100"
    import typer

    from sparse_prefgp.cli.app import app

    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="sparse-prefgp")
    parts = [_options_table(group, context)]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        inner = typer.Context(command, parent=context, info_name=name)
        usage = " ".join(["sparse-prefgp", name, *command.collect_usage_pieces(inner)])
        parts += [f"## {name}", " ".join((command.help or "").split()), f"    {usage}"]
        parts.append(_options_table(command, inner))
        if command.epilog:
            title, _, example = command.epilog.partition(":")
            parts += [f"{title.strip()}:", f"    {' '.join(example.split())}"]
    return "\n\n".join(part for part in parts if part)


def _options_table(command: Any, context: Any) -> str:
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        name, text = (" ".join(part.split()) for part in record)
        name = f"`{name}`".replace("|", "\\|")
        rows.append(f"| {name} | {_escaped(text)} |")
    if not rows:
        return ""
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def _escaped(text: str) -> str:
    """Plain text that Markdown leaves as it is."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return text


def names() -> str:
    """Markdown that makes mkdocstrings write about every public name, in sections."""
    import griffe

    import sparse_prefgp

    package = griffe.load("sparse_prefgp")
    sections: dict[str, list[str]] = {title: [] for title in SECTIONS.values()}
    for name, home in sparse_prefgp._HOMES.items():
        room = home.partition(".")[0]
        title = SECTIONS.get(room, f"From `sparse_prefgp.{room}`")
        sections.setdefault(title, []).append(_place(package, home, name))
    # Used as `plotting.utilities(...)`, not under the names of the package.
    shown = {path for paths in sections.values() for path in paths}
    for module in sparse_prefgp.MODULES:
        places = {_place(package, module, name) for name in names_in(module)}
        title = SECTIONS.get(module, f"`spg.{module}`")
        sections.setdefault(title, []).extend(places - shown)
    parts = []
    for title, paths in sections.items():
        if paths:
            parts.append(f"## {title}")
            parts += [f"::: {path}" for path in sorted(set(paths), key=_last_part)]
    return "\n\n".join(parts)


def names_in(module: str) -> list[str]:
    """The public names of one of `sparse_prefgp.MODULES`."""
    import sparse_prefgp

    values = vars(getattr(sparse_prefgp, module))
    plain = [name for name, value in values.items() if not isinstance(value, ModuleType)]
    return [*values.get("__all__", (name for name in plain if not name.startswith("_")))]


def _place(package: Any, home: str, name: str) -> str:
    """Where a name is defined; a module may have the name of the function in it."""
    module = package[home]
    path = f"{module.path}.{name}"
    while name in module.imports:
        path = module.imports[name]
        module = package[path.partition(".")[2].rpartition(".")[0]]
    return str(path)


def _last_part(path: str) -> str:
    return path.rpartition(".")[2].lower()
