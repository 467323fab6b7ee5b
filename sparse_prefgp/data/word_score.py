"""One score of each text by the words that won: a cross-fitted ridge probit on sparse weights.

What decides between texts often sits in rare words, of which the leading directions of all words
see nothing. A training text is scored by weights that were learned without any of its own duels, a
new one by the mean of all of them, so that a model may take the score for a column like any other.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.support.arrays import AnyArray, FloatArray, IntArray, distinct
from sparse_prefgp.support.machine import ask

FOLDS = 5
# The largest first: each fit starts from the last. They end where none is better.
RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
# Nats: by how much a smaller ridge has to be worse to be the last one, and by how much statistics
# of the texts have to make the score better to join the words.
WORSE, BETTER = 0.002, 0.002
# What statistics with standard deviation 1 are divided by next to weights of words in unit rows.
STATISTICS_OVER = 5.0
# Duels within a fold, both of whose texts the same weights score; with fewer all duels count.
ENOUGH_WITHIN = 500.0
# Terms: words and pairs of neighbouring ones, three to five characters within words, and words that
# texts are given as.
WORDS, PARTS, GIVEN = "words", "parts", "given"
MADE_OF: dict[str, dict[str, Any]] = {
    WORDS: {"ngram_range": (1, 2), "sublinear_tf": True},
    PARTS: {"analyzer": "char_wb", "ngram_range": (3, 5), "sublinear_tf": True},
    GIVEN: {"analyzer": list},
}
# In how many texts they must be to count for the score, and the most that do.
FEWEST, MOST_TERMS = {WORDS: 2, PARTS: 3}, 60_000
# Standard errors by which a score has to be better than a coin.
SURE = 2.0
_STOP = {"maxiter": 500, "gtol": 1e-4, "ftol": 1e-9}
_ENDS = re.compile(r"^\W+|\W+$")  # of a word, what is neither letter nor digit


class Won(NamedTuple):
    """Which of some texts won against which."""

    sides: IntArray
    """(t, 2) numbers of the texts of winner and loser."""
    weight: FloatArray
    """(t,) as how many duels each counts."""

    @classmethod
    def of(cls, events: Answers) -> Won:
        """What events say of pairs that one side won, between rows of items; of an answer about a
        set that each was preferred to each of the others."""
        doors = events.doors()
        won = doors.decided
        weight = np.asarray(doors.weight * events.totals[doors.event], dtype=np.float64)
        return cls(doors.features[won], weight[won])

    def between(self, number: IntArray) -> Won:
        """The same of what items are made of, each pair once, equal ones left out.

        :param number: (n,) which one each row of items has; -1 for none.
        """
        sides, size = number[self.sides], int(number.max(initial=-1)) + 1
        kept = (sides[:, 0] != sides[:, 1]) & (sides >= 0).all(1)
        code, place = distinct(sides[kept] @ [size, 1])
        weight = np.bincount(place, self.weight[kept], len(code)).astype(np.float64)
        return Won(np.stack(np.divmod(code.astype(np.int64), max(size, 1)), 1), weight)


class Scored(NamedTuple):
    """How a score of words came about, or why there is none."""

    nats: float
    """Surprise at the duels that were scored by weights that had not seen them, nats a duel."""
    error: float
    """Its standard error over pairs of texts."""
    ridge: float
    """The precision of the prior of the weights, for all training duels."""
    statistics: bool
    """Whether statistics of the texts joined the words."""
    folds: int
    groups: bool
    """Whether folds are of groups of texts that duels link, not of single texts."""
    within: bool
    """Whether only duels within folds were scored."""

    @property
    def better_than_a_coin(self) -> bool:
        """By two standard errors; only then there is a score."""
        return bool(self.nats + SURE * self.error < np.log(2.0))

    def __str__(self) -> str:
        kept = "a score of words" if self.better_than_a_coin else "no score of words"
        return f"{kept}, {self.nats:.4f} nats out of fold"


@dataclass(frozen=True, eq=False)
class Terms:
    """Words, or parts of words, with what each weighs in a text: 1 + log of how often it is there,
    times its rarity (idf), in rows of unit length."""

    names: tuple[str, ...]
    """p of them, in the order of the columns."""
    idf: FloatArray
    """(p,) the rarity of each."""
    kind: str
    """What they are made of: one of `MADE_OF`."""

    @classmethod
    def of(cls, vectorizer: Any, kind: str) -> Terms:
        """Those of a vectorizer of scikit-learn that has seen its texts."""
        names = tuple(map(str, vectorizer.get_feature_names_out()))
        return cls(names, np.asarray(vectorizer.idf_, dtype=np.float64), kind)

    @classmethod
    def fit(cls, texts: Sequence[str], kind: str) -> Terms:
        """Of texts, those in at least two of them (words) or three (parts); at most 60,000."""
        vectorizer = vectorizer_of(
            kind, min_df=min(FEWEST[kind], len(texts)), max_features=MOST_TERMS
        )
        try:
            vectorizer.fit(texts)
        except ValueError:  # no word at all, or none in enough texts
            return cls((), np.zeros(0), kind)
        return cls.of(vectorizer, kind)

    def weights(self, texts: Sequence[Any]) -> Any:
        """(n, p) sparse, of n texts."""
        from scipy import sparse

        if not self.names:
            return sparse.csr_matrix((len(texts), 0))
        return self._fitted.transform(texts)

    def contributions(self, text: str, weights: FloatArray) -> Counter[str]:
        """What each word of a text adds to its score; parts of a word count for that word.

        :param weights: (p,) of the terms.
        """
        found: Counter[str] = Counter()
        row = self.weights([text])
        each = dict(
            zip(row.indices.tolist(), (row.data * weights[row.indices]).tolist(), strict=True)
        )
        if not each:
            return found
        place, analyse = self._fitted.vocabulary_, self._fitted.build_analyzer()
        here: dict[int, Counter[str]] = {j: Counter() for j in each}
        for token in text.lower().split():
            name = _ENDS.sub("", token) or token
            for term in analyse(token):
                if term in place:
                    here[place[term]][name] += 1
        for term in [] if self.kind == PARTS else analyse(text):
            if " " in term and term in place:
                here[place[term]][term] += 1
        for j, words in here.items():
            number = words.total()
            for name, times in words.items():
                found[name] += each[j] * times / number
        return found

    @cached_property
    def _fitted(self) -> Any:
        found = vectorizer_of(self.kind, vocabulary=self.names)
        found.idf_ = self.idf
        return found


def vectorizer_of(kind: str, **limits: Any) -> Any:
    """A vectorizer of scikit-learn that weighs such terms."""
    from sklearn.feature_extraction import text as feature_extraction

    return feature_extraction.TfidfVectorizer(**MADE_OF[kind], **limits)


@dataclass(frozen=True, eq=False)
class WordScore:
    """Scores of texts by what they are made of."""

    words: Terms
    """Words and pairs of neighbouring words."""
    parts: Terms
    """Three to five characters within words."""
    weights: FloatArray
    """(p + q + k,) of words, parts, and statistics where these joined them: means over folds."""
    mean: float
    """Of the training texts, in units of the noise of a duel."""
    scale: float
    """Standard deviation over the training texts."""
    known: npt.NDArray[np.uint64]
    """(n,) which texts were trained on, as numbers made of them, in ascending order."""
    own: FloatArray
    """(n,) their scores by the weights that were learned without their duels, before mean and
    scale."""

    def apply(self, texts: Sequence[str], statistics: FloatArray) -> FloatArray:
        """(n, 1) standardised scores of n texts without markup.

        :param statistics: (n, k) standardised.
        """
        numbers = _numbers(texts)
        place = np.minimum(np.searchsorted(self.known, numbers), len(self.known) - 1)
        found = self.own[place]
        new = np.flatnonzero(self.known[place] != numbers)
        if len(new):
            some = [texts[i] for i in new]
            p, q = len(self.words.names), len(self.parts.names)
            found[new] = self.words.weights(some) @ self.weights[:p]
            found[new] += self.parts.weights(some) @ self.weights[p : p + q]
            if len(self.weights) > p + q:
                found[new] += statistics[new] / STATISTICS_OVER @ self.weights[p + q :]
        return ((found - self.mean) / self.scale)[:, None]

    def contributions(self, text: str) -> list[tuple[str, float]]:
        """What each word of a text, and each pair of neighbouring ones, adds to its standardised
        score by the mean weights; the largest sizes first."""
        p, q = len(self.words.names), len(self.parts.names)
        found = self.words.contributions(text, self.weights[:p] / self.scale)
        of_parts = self.parts.contributions(text, self.weights[p : p + q] / self.scale)
        for word, much in of_parts.items():
            found[word] += much
        return sorted(found.items(), key=lambda one: (-abs(one[1]), one[0]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the rest is in `arrays`."""
        return {"mean": self.mean, "scale": self.scale}

    def arrays(self) -> dict[str, AnyArray]:
        """The arrays by name; names of terms are lines of bytes."""
        return {
            "words": _bytes_of(self.words.names),
            "words_idf": self.words.idf,
            "parts": _bytes_of(self.parts.names),
            "parts_idf": self.parts.idf,
            "weights": self.weights,
            "known": self.known,
            "own": self.own,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> WordScore:
        """The inverse of `to_dict` and `arrays`."""
        return cls(
            Terms(_lines_in(arrays["words"]), arrays["words_idf"], WORDS),
            Terms(_lines_in(arrays["parts"]), arrays["parts_idf"], PARTS),
            arrays["weights"],
            float(values["mean"]),
            float(values["scale"]),
            arrays["known"],
            arrays["own"],
        )


def learned(
    texts: Sequence[str], statistics: FloatArray, won: Won
) -> tuple[WordScore | None, Scored | None]:
    """The score of words that duels between texts tell, and how it came about.

    Without duels, or without a word in two texts, there is neither; where the score is not better
    than a coin on duels that it has not seen, by two standard errors, only the latter.

    :param texts: n texts without markup; equal ones are one.
    :param statistics: (n, k) standardised; they join the words where that makes the score better by
        0.002 nats.
    :param won: between rows of these.
    """
    arrays = won.sides.astype(np.int64), won.weight.astype(np.float64), statistics
    return _learned(tuple(texts), *(np.ascontiguousarray(array).tobytes() for array in arrays))


# A fit asks for what its training duels tell again when it chooses, and when it fits.
@lru_cache(maxsize=4)
def _learned(
    texts: tuple[str, ...], sides: bytes, weight: bytes, statistics: bytes
) -> tuple[WordScore | None, Scored | None]:
    from scipy import sparse

    numbers, first, number = np.unique(_numbers(texts), return_index=True, return_inverse=True)
    given = Won(np.frombuffer(sides, np.int64).reshape(-1, 2), np.frombuffer(weight))
    won = given.between(number)
    different = [texts[i] for i in first]
    ask(
        50 * sum(map(len, different)),
        "weights of parts of words",
        "give shorter texts, or fewer (--max-train)",
    )
    words, parts = (Terms.fit(different, kind) for kind in (WORDS, PARTS))
    if not len(won.weight) or not words.names:
        return None, None
    seen, sides_seen = distinct(won.sides)
    won = won._replace(sides=sides_seen.reshape(-1, 2))
    compared = [different[i] for i in seen]
    fold, groups = folds_of(len(compared), won.sides)
    columns = sparse.hstack([words.weights(compared), parts.weights(compared)]).tocsr()
    best = _cross_fitted(columns, won, fold, groups)
    each = np.frombuffer(statistics).reshape(len(texts), -1)[first[seen]]
    if each.shape[1]:
        told = sparse.csr_matrix(each / STATISTICS_OVER)
        more = _cross_fitted(sparse.hstack([columns, told]).tocsr(), won, fold, groups, True)
        if more.scored.nats < best.scored.nats - BETTER:
            best = more
    mean, scale = float(best.scores.mean()), float(best.scores.std())
    if not best.scored.better_than_a_coin:
        return None, best.scored
    found = WordScore(words, parts, best.weights, mean, scale, numbers[seen], best.scores)
    return found, best.scored


class _CrossFit(NamedTuple):
    """What the weights of all folds say at the best ridge."""

    scores: FloatArray
    """(n,) of each text by the weights of its fold."""
    weights: FloatArray
    """(p,) means over folds."""
    scored: Scored


def _cross_fitted(
    columns: Any, won: Won, fold: IntArray, groups: bool, statistics: bool = False
) -> _CrossFit:
    """Weights without each fold, for one ridge after the other.

    :param columns: (n, p) sparse, of the texts.
    :param fold: (n,) of each text.
    """
    folds = int(fold.max()) + 1
    ends = fold[won.sides]
    within = ends[:, 0] == ends[:, 1]
    enough = bool(won.weight[within].sum() >= ENOUGH_WITHIN)
    scored = within if enough else np.ones(len(ends), dtype=bool)
    weights = np.zeros((folds, columns.shape[1]))
    best: _CrossFit | None = None
    for ridge in RIDGES:
        scores = np.zeros(len(fold))
        for k in range(folds):
            kept = (ends != k).all(1)
            share = won.weight[kept].sum() / won.weight.sum()
            some = Won(won.sides[kept], won.weight[kept])
            weights[k] = ridge_probit(columns, some, ridge * share, weights[k])
            here = fold == k
            scores[here] = columns[here] @ weights[k]
        nats, error = _surprise(scores, Won(won.sides[scored], won.weight[scored]))
        if best is None or nats < best.scored.nats:
            how = Scored(nats, error, ridge, statistics, folds, groups, enough)
            best = _CrossFit(scores, weights.mean(0), how)
        elif nats > best.scored.nats + WORSE:
            break
    assert best is not None
    return best


def ridge_probit(columns: Any, won: Won, ridge: float, start: FloatArray) -> FloatArray:
    """Weights w (p,) with the least -sum c log Phi((a_winner - a_loser)'w) + ridge |w|²/2.

    :param columns: (n, p) sparse rows a of the texts.
    :param start: (p,) where the search begins.
    """
    from scipy import optimize, special

    if not len(won.weight):
        return np.zeros(columns.shape[1])
    (winner, loser), n = won.sides.T, columns.shape[0]

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        utility = columns @ w
        ahead = utility[winner] - utility[loser]
        log_p = special.log_ndtr(ahead)
        slope = won.weight * np.exp(-0.5 * ahead**2 - 0.5 * np.log(2.0 * np.pi) - log_p)
        of_text = np.bincount(loser, slope, n) - np.bincount(winner, slope, n)
        value = -float(won.weight @ log_p) + 0.5 * ridge * float(w @ w)
        return value, columns.T @ of_text + ridge * w

    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=_STOP)
    return np.asarray(found.x)


def folds_of(n: int, sides: IntArray) -> tuple[IntArray, bool]:
    """The fold of each of n texts, and whether folds are of groups that duels link: so it is where
    no group holds a fifth of them, so that a fold can be left out with all of its duels.

    :param sides: (t, 2) numbers of texts.
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    links = sparse.coo_matrix((np.ones(len(sides)), sides.T), (n, n))
    group = csgraph.connected_components(links, directed=False)[1]
    sizes = np.bincount(group)
    if sizes.max() * FOLDS >= n:
        return np.arange(n) % min(FOLDS, n), False
    held, of_group = np.zeros(FOLDS, dtype=np.int64), np.zeros(len(sizes), dtype=np.int64)
    for one in np.argsort(-sizes, kind="stable"):
        of_group[one] = held.argmin()
        held[of_group[one]] += sizes[one]
    return of_group[group], True


def _surprise(scores: FloatArray, won: Won) -> tuple[float, float]:
    """Nats a duel, and the standard error over pairs of texts, in either order."""
    from scipy import special

    lost = -special.log_ndtr(scores[won.sides[:, 0]] - scores[won.sides[:, 1]])
    mean = float(won.weight @ lost / won.weight.sum())
    pair = distinct(np.sort(won.sides, axis=1), 0)[1]
    sums = np.bincount(pair, won.weight * (lost - mean))
    p = len(sums)
    error = np.sqrt(p / (p - 1) * np.sum(sums**2)) / won.weight.sum() if p > 1 else np.inf
    return mean, float(error)


def _numbers(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    """(n,) a number made of each text, as good as random, and the same for the same text."""
    digests = (
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for text in texts
    )
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _bytes_of(names: Sequence[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer("\n".join(names).encode("utf-8", "surrogatepass"), dtype=np.uint8)


def _lines_in(lines: AnyArray) -> tuple[str, ...]:
    text = lines.tobytes().decode("utf-8", "surrogatepass")
    return tuple(text.split("\n")) if text else ()
