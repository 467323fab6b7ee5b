"""Features of short texts: statistics of their surface, and leading directions of their words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.lazy import late

feature_extraction = late("sklearn.feature_extraction.text")

DIRECTIONS = 32
MIN_TEXTS, MAX_SHARE = 3, 0.5  # in how many texts a word must be to count for the directions
LONG_WORD = 7  # letters
RARE_TEXTS = 1  # a word in no more texts than this is rare

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
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


def text_features(texts: Sequence[str]) -> Any:
    """A data frame with one row per text: surface statistics, then `lsa_01`, `lsa_02`, …

    The directions are the left singular vectors, times singular values, of the centred tf-idf
    matrix of words in at least three and at most half of the texts; there are fewer than 32 where
    texts or words are fewer.
    """
    words = [_WORD.findall(text.lower().replace("’", "'")) for text in texts]
    spread = Counter(word for found in words for word in set(found))
    rows = [_surface(text, found, spread) for text, found in zip(texts, words, strict=True)]
    surface = require_pandas().DataFrame(rows).round(5)
    directions = _directions(words).round(5)
    columns = [f"lsa_{i + 1:02d}" for i in range(directions.shape[1])]
    pd = require_pandas()
    return pd.concat([surface, pd.DataFrame(directions, columns=columns)], axis=1)


def _surface(text: str, words: Sequence[str], spread: Counter[str]) -> dict[str, float]:
    n = max(len(words), 1)
    written = _WORD.findall(text)
    sentences = max(len(re.findall(r"[.!?]+(?=\s|$)", text.strip())), 1)
    letters = sum(map(len, words)) / n
    return {
        "log_words": np.log1p(len(words)),
        "log_sentences": np.log1p(sentences),
        "words_per_sentence": n / sentences,
        "chars_per_word": letters,
        "type_token_ratio": len(set(words)) / n,
        "share_long_words": sum(len(word) >= LONG_WORD for word in words) / n,
        "share_rare_words": sum(spread[word] <= RARE_TEXTS for word in words) / n,
        # Automated readability index: Senter & Smith 1967.
        "grade_level": 4.71 * letters + 0.5 * n / sentences - 21.43,
        **{name: sum(word in known for word in words) / n for name, known in _LISTS.items()},
        "share_uppercase_words": sum(len(w) > 1 and w.isupper() for w in written) / n,
        "starts_capital": float(text.lstrip()[:1].isupper()),
        "commas_per_word": text.count(",") / n,
        "questions_per_sentence": text.count("?") / sentences,
        "exclamations_per_sentence": text.count("!") / sentences,
        "quotes_per_word": len(re.findall(r"[\"“”]", text)) / n,
        "digits_share": sum(character.isdigit() for character in text) / max(len(text), 1),
        "has_url": float(bool(re.search(r"https?://|www\.", text))),
        "log_paragraphs": np.log(max(len([line for line in text.splitlines() if line.strip()]), 1)),
        "parentheses_per_word": text.count("(") / n,
    }


def _directions(words: Sequence[Sequence[str]]) -> FloatArray:
    vectorizer = feature_extraction.TfidfVectorizer(
        analyzer=lambda found: found, min_df=min(MIN_TEXTS, len(words)), max_df=MAX_SHARE
    )
    try:
        weights = vectorizer.fit_transform(words).toarray()
    except ValueError:  # no word is in enough texts and in few enough
        return np.zeros((len(words), 0))
    left, values, right = np.linalg.svd(weights - weights.mean(axis=0), full_matrices=False)
    kept = min(DIRECTIONS, int((values > 1e-9 * values[0]).sum()))
    # Singular vectors have no sign of their own: the largest entry over the words is positive.
    largest = np.abs(right).argmax(axis=1)
    signs = np.sign(right[np.arange(len(right)), largest])
    return np.asarray((left * values * signs)[:, :kept], dtype=np.float64)
