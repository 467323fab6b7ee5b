"""Words, sentences and markup of texts, one character at a time."""

from __future__ import annotations

import string
import unicodedata

ALONE = [(0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF)]
ALONE += [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF)]
# Of Chinese and Japanese, Hindi, Urdu and Arabic.
STOPS = "\u3002\uff61\u0964\u06d4\uff01\uff1f\u061f"


def slow_words(text: str) -> list[str]:
    """Letters with the marks on them, with one apostrophe between letters at most."""
    text = text.lower().replace("’", "'")
    found, i = [], 0
    while i < len(text):
        if _alone(text[i]):
            found.append(text[i])
            i += 1
        elif _letter(text[i]):
            end = _run(text, i)
            if text[end : end + 1] == "'" and end + 1 < len(text) and _letter(text[end + 1]):
                end = _run(text, end + 1)
            found.append(text[i:end])
            i = end
        else:
            i += 1
    return found


def slow_sentences(text: str) -> int:
    """Full stops and the like, or several of them, before a blank or the end, and those of scripts
    without blanks, or several, wherever they are; one at least."""
    text = text.strip()
    ends = 0
    for i, character in enumerate(text):
        after = text[i + 1 : i + 2]
        ends += character in ".!?" and (not after or after.isspace())
        ends += character in STOPS and (not after or after not in STOPS)
    return max(ends, 1)


def slow_without_tags(text: str) -> str:
    """A blank in place of each tag and each comment that is closed."""
    found, i = "", 0
    while i < len(text):
        after = _after_tag(text, i) if text[i] == "<" else -1
        found, i = (found + text[i], i + 1) if after < 0 else (found + " ", after)
    return found


def _after_tag(text: str, i: int) -> int:
    if text.startswith("<!--", i):
        end = text.find("-->", i + 4)
        return -1 if end < 0 else end + 3
    if text[i + 1 : i + 2] and text[i + 1] in string.ascii_letters + "/":
        for j in range(i + 2, len(text)):
            if text[j] in "<>":
                return j + 1 if text[j] == ">" else -1
    return -1


def _alone(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in ALONE)


def _letter(character: str) -> bool:
    plain = character.isalnum() and not character.isdecimal()
    return plain and not _alone(character)


def _run(text: str, i: int) -> int:
    while i < len(text) and (_letter(text[i]) or _mark(text[i])):
        i += 1
    return i


def _mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc") and not _alone(character)
