"""Features of texts: statistics of their surface, leading directions of their words, and a score.

Learned from training texts, and applied to others by what was kept: which words were common, the
vocabulary with its weights, and the directions (latent semantic analysis: Deerwester, Dumais,
Furnas, Landauer & Harshman 1990). Of the score, which knows who won, see `word_score.py`.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sparse_prefgp.data.flags import Where
from sparse_prefgp.data.kept import Kept
from sparse_prefgp.data.word_score import (
    GIVEN,
    Scored,
    Terms,
    Won,
    WordScore,
    learned,
    vectorizer_of,
)
from sparse_prefgp.support.arrays import AnyArray, FloatArray

DIRECTIONS = 32
MIN_TEXTS, MAX_SHARE = 3, 0.5  # in how many texts a word must be to count for the directions
LONG_WORD = 7  # letters
SCORE = "score"
RARE_TEXTS = 1  # a word in no more texts than this is rare
# Up to so many numbers the matrix of texts and words is decomposed as a whole.
_WHOLE = 20_000_000

# Scripts without blanks between words: each of their letters is a word.
_ALONE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
# Full stops of Chinese, Japanese, Hindi and Urdu, and what else stands for marks of English.
_STOPS = "。｡।۔！？؟"
_SENTENCE_END = re.compile(rf"(?<![.!?])[.!?]+(?=\s|$)|[{_STOPS}]+")
_LIKE_ENGLISH = str.maketrans("！？؟，、،（", "!??,,,(")
# A text with more is a list, or has lost its full stops.
_LONG_SENTENCE = 500  # words
_TAG = re.compile(r"<[a-zA-Z/][^<>]*>")
_TAG_OR_COMMENT = re.compile(r"<(?:[a-zA-Z/][^<>]*|!--.*?--)>", re.DOTALL)
_LONG_ENTITY = re.compile(r"&#([0-9]{8,}|[xX][0-9a-fA-F]{8,});?")
_SHARES = {
    "share_first_person_sg": "i me my mine myself i'm i've i'd i'll",
    "share_first_person_pl": "we us our ours ourselves we're we've we'd we'll",
    "share_second_person": "you your yours yourself yourselves you're you've you'd you'll",
    "share_modal": "can could may might must shall should will would ought cannot can't won't",
    "share_negation": "no not never none nothing nobody neither nor nowhere cannot can't "
    "couldn't don't doesn't didn't isn't aren't wasn't weren't won't wouldn't shouldn't haven't "
    "hasn't hadn't",
    "share_connective": "because therefore thus hence so since however although though but if "
    "while moreover furthermore consequently",
}
_LISTS = {name: frozenset(words.split()) for name, words in _SHARES.items()}


@cache
def _words() -> re.Pattern[str]:
    """A word, whatever its script: a letter and those behind it, with their accents and vowel
    signs, which are no letters."""
    marks = "".join(
        mark
        for mark in map(chr, (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0)))
        if unicodedata.category(mark) in ("Mn", "Mc")
    )
    letter = rf"(?![{_ALONE}])[^\W\d_]"
    letters = rf"{letter}(?:{letter}|(?![{_ALONE}])[{marks}])*"
    return re.compile(rf"[{_ALONE}]|{letters}(?:'{letters})?")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; of scripts without blanks, the letters."""
    return _words().findall(text.lower().replace("’", "'"))


def without_markup(text: str) -> str:
    """The text without HTML tags and with its entities as letters."""
    if "<" in text:
        # Comments are looked for where one can end, or else each start is looked at to the end.
        end = text.rfind("-->") + 3 if "-->" in text else 0
        text = _TAG_OR_COMMENT.sub(" ", text[:end]) + _TAG.sub(" ", text[end:])
    return html.unescape(_LONG_ENTITY.sub(_shorter, text)) if "&" in text else text


def _shorter(entity: re.Match[str]) -> str:
    """Without leading zeros; of a number beyond all letters, the sign for an unknown one."""
    digits = entity[1].lstrip("xX0")
    kind = "x" if entity[1][0] in "xX" else ""
    return f"&#{kind}{digits or 0};" if len(digits) < 8 else "\ufffd"


def common_words(words: Sequence[Sequence[str]]) -> frozenset[str]:
    """Those in more than one of some texts."""
    spread = Counter(word for found in words for word in set(found))
    return frozenset(word for word, number in spread.items() if number > RARE_TEXTS)


def surface(text: str, words: Sequence[str], common: frozenset[str]) -> dict[str, float]:
    """Statistics of one text by name.

    :param words: what `words_of` makes of it.
    :param common: words that are not rare.
    """
    n = max(len(words), 1)
    written = _words().findall(text) if text else []
    sentences = _sentences(text)
    marks = text if text.isascii() else text.translate(_LIKE_ENGLISH)
    letters = sum(map(len, words)) / n
    return {
        "log_words": np.log1p(len(words)),
        "log_sentences": np.log1p(sentences),
        "words_per_sentence": n / sentences,
        "chars_per_word": letters,
        "type_token_ratio": len(set(words)) / n,
        "share_long_words": sum(len(word) >= LONG_WORD for word in words) / n,
        "share_rare_words": sum(word not in common for word in words) / n,
        # Automated readability index: Senter & Smith 1967.
        "grade_level": 4.71 * letters + 0.5 * n / sentences - 21.43,
        **{name: sum(word in known for word in words) / n for name, known in _LISTS.items()},
        "share_uppercase_words": sum(len(w) > 1 and w.isupper() for w in written) / n,
        "starts_capital": float(text.lstrip()[:1].isupper()),
        "commas_per_word": marks.count(",") / n,
        "questions_per_sentence": marks.count("?") / sentences,
        "exclamations_per_sentence": marks.count("!") / sentences,
        "quotes_per_word": len(re.findall(r"[\"“”]", text)) / n,
        "digits_share": sum(character.isdigit() for character in text) / max(len(text), 1),
        "has_url": float(bool(re.search(r"https?://|www\.", text))),
        "log_paragraphs": np.log(max(len([line for line in text.splitlines() if line.strip()]), 1)),
        "parentheses_per_word": marks.count("(") / n,
    }


def _sentences(text: str) -> int:
    return max(len(_SENTENCE_END.findall(text.strip())), 1)


STATISTICS = tuple(surface("", [], frozenset()))


@dataclass(frozen=True, eq=False)
class WordDirections:
    """The leading directions of centred tf-idf weights of words."""

    terms: Terms
    """w words, with their weights."""
    centre: FloatArray
    """(w,) mean of the weights over the training texts."""
    directions: FloatArray
    """(w, r) orthonormal; the largest entry of each is positive."""

    @classmethod
    def fit(cls, words: Sequence[Sequence[str]]) -> WordDirections:
        """Of texts as lists of words: of words in at least three and at most half of them.

        There are at most 32 directions, fewer where texts or words are, and none where no word is
        in enough texts and in few enough.
        """
        from sklearn import decomposition

        vectorizer = vectorizer_of(GIVEN, min_df=min(MIN_TEXTS, len(words)), max_df=MAX_SHARE)
        try:
            weights = vectorizer.fit_transform(words)
        except ValueError:  # no word is in enough texts and in few enough
            return cls(Terms((), np.zeros(0), GIVEN), np.zeros(0), np.zeros((0, 0)))
        kept = min(DIRECTIONS, *weights.shape)
        whole = weights.shape[0] * weights.shape[1] <= _WHOLE or kept == min(weights.shape)
        # The centred matrix of many texts is never there.
        components = decomposition.PCA(
            kept, svd_solver="full" if whole else "arpack", random_state=0
        ).fit(weights.toarray() if whole else weights)
        values, right = components.singular_values_, components.components_
        right = right[values > 1e-9 * values[0]]
        # Singular vectors have no sign of their own.
        largest = right[np.arange(len(right)), np.abs(right).argmax(axis=1)]
        found = (right * np.sign(largest)[:, None]).T
        return cls(
            Terms.of(vectorizer, GIVEN),
            np.asarray(components.mean_, dtype=np.float64),
            np.ascontiguousarray(found, dtype=np.float64),
        )

    @property
    def size(self) -> int:
        """r."""
        return int(self.directions.shape[1])

    def scores(self, words: Sequence[Sequence[str]]) -> FloatArray:
        """(n, r) of texts as lists of words."""
        if not self.size:
            return np.zeros((len(words), 0))
        weights = self.terms.weights(words)
        return np.asarray(weights @ self.directions - self.centre @ self.directions)


@dataclass(frozen=True, eq=False)
class TextTransform(Kept):
    """Texts as features: statistics, each standardised, directions with one scale, and a score."""

    common: tuple[str, ...]
    """Words in more than one training text; others are rare."""
    statistics: tuple[str, ...]
    """Names of those that vary over the training texts."""
    mean: FloatArray
    """(k,) of each of these."""
    scale: FloatArray
    """(k,) standard deviation of each."""
    spread: float
    """What all scores along directions are divided by: their variances are 1 on average."""
    directions: WordDirections
    score: WordScore | None = None
    """By the words that won; None where no duels tell of any."""
    scored: Scored | None = None
    """How the score came about, or why there is none; None where it was not looked for."""

    @classmethod
    def fit(cls, texts: Sequence[str], won: Won | None = None) -> TextTransform:
        """Learn from training texts; of those that differ in nothing there are no features.

        :param won: training duels between rows of them, for the score; without any there is none.
        """
        plain, words = _read(texts)
        common = common_words(words)
        values = _statistics(plain, words, common)
        mean, scale = values.mean(0), values.std(0)
        varies = np.ptp(values, axis=0) > 1e-12 * np.maximum(1.0, np.abs(values).max(0))
        directions = WordDirections.fit(words)
        scores = directions.scores(words)
        spread = float(np.sqrt(scores.var(0).mean())) if directions.size else 1.0
        standard = (values[:, varies] - mean[varies]) / scale[varies]
        found = (None, None) if won is None else learned(plain, standard, won)
        return cls(
            tuple(sorted(common)),
            tuple(name for name, kept in zip(STATISTICS, varies, strict=True) if kept),
            mean[varies],
            scale[varies],
            spread,
            directions,
            *found,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features: those of the statistics, then `lsa_01`, `lsa_02`, …, and `score`."""
        directions = (f"lsa_{j + 1:02d}" for j in range(self.directions.size))
        return (*self.statistics, *directions, *([] if self.score is None else [SCORE]))

    def apply(self, texts: Sequence[str]) -> FloatArray:
        """Features (n, k + r) of texts, or (n, k + r + 1) with a score; words that are new count in
        statistics alone."""
        plain, words = _read(texts)
        kept = [STATISTICS.index(name) for name in self.statistics]
        values = _statistics(plain, words, frozenset(self.common))[:, kept]
        standard = (values - self.mean) / self.scale
        columns = [standard, self.directions.scores(words) / self.spread]
        if self.score is not None:
            columns.append(self.score.apply(plain, standard))
        return np.concatenate(columns, axis=1)

    def word_weights(self, slopes: FloatArray) -> list[tuple[str, float]]:
        """What the directions say of each word, the largest sizes first.

        :param slopes: (k + r,) or (k + r + 1,) how fast something rises with each feature.
        :return: word, and how fast it rises with the tf-idf weight of that word.
        """
        k = len(self.statistics)
        along = self.directions.directions @ (slopes[k : k + self.directions.size] / self.spread)
        order = np.argsort(-np.abs(along), kind="stable")
        return [(self.directions.terms.names[i], float(along[i])) for i in order]

    def to_dict(self) -> dict[str, Any]:
        plain = {
            "common": list(self.common),
            "statistics": list(self.statistics),
            "spread": self.spread,
            "words": list(self.directions.terms.names),
        }
        if self.scored is not None:
            plain["scored"] = self.scored._asdict()
        if self.score is not None:
            plain["score"] = self.score.to_dict()
        return plain

    def arrays(self) -> dict[str, AnyArray]:
        score = {} if self.score is None else self.score.arrays()
        return {
            "mean": self.mean,
            "scale": self.scale,
            "idf": self.directions.terms.idf,
            "centre": self.directions.centre,
            "directions": self.directions.directions,
            **{f"score_{name}": array for name, array in score.items()},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> TextTransform:
        """The inverse of `to_dict` and `arrays`; before there were scores there was none."""
        own = {name.removeprefix("score_"): array for name, array in arrays.items()}
        score, scored = values.get("score"), values.get("scored")
        return cls(
            tuple(values["common"]),
            tuple(values["statistics"]),
            arrays["mean"],
            arrays["scale"],
            float(values["spread"]),
            WordDirections(
                Terms(tuple(values["words"]), arrays["idf"], GIVEN),
                arrays["centre"],
                arrays["directions"],
            ),
            None if score is None else WordScore.from_dict(score, own),
            None if scored is None else Scored(**scored),
        )

    def __repr__(self) -> str:
        return (
            f"TextTransform({len(self.statistics)} statistics, {self.directions.size} directions "
            f"of {len(self.directions.terms.names):,} words)"
        )


def said_of_texts(texts: Sequence[str], where: Where) -> list[str]:
    """What to know of texts before features are made of them, one sentence each."""
    found = []
    plain, words = _read(texts)
    marked = [a != b for a, b in zip(plain, texts, strict=True)]
    empty = [not each for each in words]
    long = [
        len(each) > _LONG_SENTENCE and len(each) > _LONG_SENTENCE * _sentences(text)
        for text, each in zip(plain, words, strict=True)
    ]
    for which, what in (
        (marked, "HTML tags or entities, which are left out"),
        (empty, "no words"),
        (long, f"more than {_LONG_SENTENCE} words to a sentence, far from what statistics can say"),
    ):
        number = sum(which)
        if number:
            first = where(which.index(True))
            have = "text has" if number == 1 else "texts have"
            found.append(f"{number:,} {have} {what} (the first in {first}).")
    return found


def _read(texts: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Texts without markup, and their words."""
    plain = [without_markup(text) for text in texts]
    return plain, [words_of(text) for text in plain]


def _statistics(
    texts: Sequence[str], words: Sequence[Sequence[str]], common: frozenset[str]
) -> FloatArray:
    rows = [
        list(surface(text, found, common).values())
        for text, found in zip(texts, words, strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(len(texts), len(STATISTICS))
