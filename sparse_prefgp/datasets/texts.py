"""Features of short texts as columns of a table, before anything is standardised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.texts import WordDirections, common_words, surface, words_of


def text_features(texts: Sequence[str]) -> Any:
    """A data frame with one row per text: surface statistics, then `lsa_01`, `lsa_02`, …

    The directions are the left singular vectors, times singular values, of the centred tf-idf
    matrix of words in at least three and at most half of the texts; there are fewer than 32 where
    texts or words are fewer.
    """
    pd = require_pandas()
    words = [words_of(text) for text in texts]
    common = common_words(words)
    rows = [surface(text, found, common) for text, found in zip(texts, words, strict=True)]
    scores = WordDirections.fit(words).scores(words).round(5)
    columns = [f"lsa_{i + 1:02d}" for i in range(scores.shape[1])]
    return pd.concat([pd.DataFrame(rows).round(5), pd.DataFrame(scores, columns=columns)], axis=1)
