"""Docstrings as they are written here, made into what the reference understands.

An extension of griffe, which reads them in Google's style. Fields of reST (`:param x:`) become
sections; a paragraph that begins with the name of a parameter or attribute (`damping: share of
...`) becomes a list, where Google's style would see a box with a title.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

FIELD = re.compile(r":(param|raises|returns?)(?: +([^:]+))?:[ \n]*(.*)", re.DOTALL)
TITLES = {"param": "Args", "raises": "Raises", "return": "Returns", "returns": "Returns"}
NAME = r"([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*)"
NAMES = re.compile(r"(?:(?<=^)|(?<=\n)|(?<=[.;] ))" + NAME + r":\s+")


class OurDocstrings(griffe.Extension):
    """Rewrites every docstring of a package as soon as all of it is known."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        _rewrite(pkg)


def _rewrite(holder: griffe.Object) -> None:
    if holder.docstring is not None:
        inherits = isinstance(holder, griffe.Class)
        known = set(holder.all_members if inherits else holder.members)
        known.update(parameter.name for parameter in getattr(holder, "parameters", ()))
        text = listed(holder.docstring.value, known)
        holder.docstring.value = sections(text)
    for member in holder.members.values():
        if isinstance(member, griffe.Object):
            _rewrite(member)


def listed(text: str, known: set[str]) -> str:
    """The docstring with paragraphs that begin with `name: ` as lists, where the name is known."""
    paragraphs = re.split(r"\n[ \t]*\n", text)
    for i, paragraph in enumerate(paragraphs):
        if paragraph.startswith(("Args:\n", "Attributes:\n")):
            paragraphs[i] = _one_each(paragraph, known)
            continue
        starts = [m for m in NAMES.finditer(paragraph) if known.issuperset(m[1].split(", "))]
        if not starts or starts[0].start() > 0:
            continue
        ends = [m.start() for m in starts[1:]] + [len(paragraph)]
        items = []
        for match, end in zip(starts, ends, strict=True):
            said = " ".join(paragraph[match.end() : end].split())
            quoted = ", ".join(f"`{name}`" for name in match[1].split(", "))
            items.append(f"- {quoted}: {said}")
        paragraphs[i] = "\n".join(items)
    return "\n\n".join(paragraphs)


def _one_each(section: str, known: set[str]) -> str:
    """A section with a line of its own for every name in it."""

    def parted(match: re.Match[str]) -> str:
        return f"\n    {match[0]}" if known.issuperset(match[1].split(", ")) else match[0]

    section = re.sub(r"(?<=[.;] )" + NAME + r": ", parted, section)
    # Several names before one colon are not understood: each gets the text.
    title, *entries = re.split(r"\n(?=    \S)", section)
    lines = [title]
    for entry in entries:
        match = re.match(rf"    {NAME}: ", entry)
        names = match[1].split(", ") if match else []
        if match and len(names) > 1 and known.issuperset(names):
            lines += [f"    {name}: {entry[match.end() :].rstrip()}" for name in names]
        else:
            lines.append(entry.rstrip())
    return "\n".join(lines)


def sections(text: str) -> str:
    """The docstring with its fields as Google-style sections, at the place of the first field.

    A field goes on to the next field or the next empty line.
    """
    paragraphs: list[str] = []
    fields: dict[str, list[str]] = {}
    place = 0
    for paragraph in re.split(r"\n[ \t]*\n", text):
        plain, *found = re.split(r"^(?=:(?:param|raises|returns?)\b)", paragraph, flags=re.M)
        if plain.strip():
            paragraphs.append(plain.rstrip())
        if found and not fields:
            place = len(paragraphs)
        for field in found:
            match = FIELD.match(field)
            if match is None:
                raise ValueError(f"The docstring field {field!r} is not understood.")
            kind, name, said = match.groups()
            said = " ".join(said.split())
            entry = said if name is None else f"{name}: {said}"
            fields.setdefault(TITLES[kind], []).append(f"    {entry}")
    if not fields:
        return text
    written = ["\n".join([f"{title}:", *entries]) for title, entries in fields.items()]
    return "\n\n".join(paragraphs[:place] + written + paragraphs[place:])
