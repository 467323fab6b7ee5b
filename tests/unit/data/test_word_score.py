"""The score of words: cross-fitted, against slow code, and what must not move it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import sparse_prefgp as spg
from sparse_prefgp.data import word_score
from sparse_prefgp.data.texts import TextTransform
from sparse_prefgp.data.word_score import Terms, Won, folds_of, learned, ridge_probit
from sparse_prefgp.workflow.automatic import automatic_candidates
from sparse_prefgp.workflow.kernel_names import KernelChoice, default_for
from sparse_prefgp.workflow.settings import FitSettings
from tests.reference.slow_scores import slow_columns, slow_probit, slow_scores
from tests.tolerances import ROUNDING

N, T = 120, 900
SYLLABLES = ["ba", "co", "du", "fe", "gi", "ha", "jo", "ku", "le", "mi"]
WORDS = np.array([a + b for a in SYLLABLES for b in SYLLABLES[:4]])
# Two optimisers, one of which stops at a slope of 1e-4.
STOPPED = 2e-3
SCORE = 'linear("said: score")'


def written(n: int = N, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(4, 9))) for _ in range(n)]


TEXTS = written()


def fought(noise: float = 0.5, seed: int = 1) -> np.ndarray:
    """(T, 2) winner and loser; ten of the words decide."""
    rng = np.random.default_rng(seed)
    good = {word: value for word, value in zip(WORDS[::4], rng.normal(size=10), strict=True)}
    utility = np.array([sum(good.get(word, 0.0) for word in text.split()) for text in TEXTS])
    pairs = np.array([rng.choice(N, 2, replace=False) for _ in range(T)])
    ahead = utility[pairs[:, 0]] - utility[pairs[:, 1]] + noise * rng.normal(size=T) > 0.0
    return np.where(ahead[:, None], pairs, pairs[:, ::-1])


SIDES = fought()


def won(sides: np.ndarray = SIDES) -> Won:
    return Won(sides, np.ones(len(sides)))


def no_statistics(n: int = N) -> np.ndarray:
    return np.empty((n, 0))


FOUND, HOW = learned(TEXTS, no_statistics(), won())


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    items = pd.DataFrame({"item_id": [f"t{k}" for k in range(N)], "said": TEXTS})
    return items, pd.DataFrame(items["item_id"].to_numpy()[SIDES], columns=["winner", "loser"])


def columns_of(texts: list[str]) -> sparse.csr_matrix:
    assert FOUND is not None
    return sparse.hstack([FOUND.words.weights(texts), FOUND.parts.weights(texts)]).tocsr()


def test_weights_of_terms_are_those_counted_by_hand() -> None:
    some = [*TEXTS[:20], "Ba ba, co-du! ba x", "", "a"]
    fast = [Terms.fit(some, parts).weights(some).toarray() for parts in ("words", "parts")]
    np.testing.assert_allclose(np.concatenate(fast, 1), slow_columns(some), atol=ROUNDING)


def test_sparse_weights_are_those_of_a_dense_probit() -> None:
    columns = columns_of(TEXTS)
    fast = ridge_probit(columns, won(), 3.0, np.zeros(columns.shape[1]))
    dense = columns.toarray()
    slow = slow_probit(dense[SIDES[:, 0]] - dense[SIDES[:, 1]], 3.0)
    np.testing.assert_allclose(columns @ fast, dense @ slow, atol=STOPPED)


def test_scores_are_those_of_slow_folds() -> None:
    assert FOUND is not None and HOW is not None
    order = np.argsort(word_score._numbers(TEXTS))  # the order in which folds are dealt
    place = np.argsort(order)
    fold, groups = folds_of(N, place[SIDES])
    assert not groups and not HOW.groups and HOW.folds == 5 and not HOW.statistics
    scores, mean = slow_scores(slow_columns(TEXTS), SIDES, fold[place], HOW.ridge)
    np.testing.assert_array_equal(FOUND.known, word_score._numbers(TEXTS)[order])
    np.testing.assert_allclose(FOUND.own, scores[order], atol=STOPPED)
    new = written(9, 5)
    raw = FOUND.apply(new, no_statistics(9))[:, 0] * FOUND.scale + FOUND.mean
    np.testing.assert_allclose(raw, columns_of(new) @ mean, atol=STOPPED)
    found = FOUND.apply(TEXTS, no_statistics())[:, 0]
    assert found.std() == pytest.approx(1.0) and found.mean() == pytest.approx(0.0, abs=1e-9)


def test_out_of_fold_nats_are_those_of_duels_within_folds() -> None:
    assert HOW is not None and FOUND is not None
    # Fewer than 500 of 900 duels are within one of five folds, so that all count.
    assert not HOW.within
    number = np.argsort(np.argsort(word_score._numbers(TEXTS)))
    ahead = FOUND.own[number[SIDES[:, 0]]] - FOUND.own[number[SIDES[:, 1]]]
    from scipy.special import log_ndtr

    assert HOW.nats == pytest.approx(-log_ndtr(ahead).mean())
    assert HOW.better_than_a_coin and HOW.nats < 0.6
    often = Won(SIDES, np.full(T, 10.0))
    more = learned(TEXTS, no_statistics(), often)[1]
    assert more is not None and more.within


def test_a_training_text_does_not_hear_of_its_own_duels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_score, "RIDGES", (10.0,))
    word_score._learned.cache_clear()
    straight, _ = learned(TEXTS, no_statistics(), won())
    turned = SIDES.copy()
    own = (SIDES == 7).any(1)
    turned[own] = turned[own][:, ::-1]
    other, _ = learned(TEXTS, no_statistics(), won(turned))
    word_score._learned.cache_clear()
    assert straight is not None and other is not None and own.sum() > 5
    here = straight.known == word_score._numbers([TEXTS[7]])[0]
    assert straight.own[here] == other.own[here]
    assert np.abs(straight.own - other.own).max() > 1e-3, "others hear of them"


def test_random_votes_give_no_score() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found, how = learned(TEXTS, no_statistics(), won(rng.permuted(SIDES, axis=1)))
        assert found is None and how is not None and not how.better_than_a_coin
        assert str(how).startswith("no score of words, 0.")
    assert learned(TEXTS, no_statistics(), won(SIDES[:0])) == (None, None)
    assert learned(["a", "b"], no_statistics(2), won(np.array([[0, 1]]))) == (None, None)


def test_folds_are_of_groups_that_duels_link() -> None:
    pairs = np.arange(60).reshape(30, 2)
    fold, groups = folds_of(60, pairs)
    assert groups and (fold[pairs[:, 0]] == fold[pairs[:, 1]]).all()
    np.testing.assert_array_equal(np.bincount(fold), np.full(5, 12))
    fold, groups = folds_of(60, np.array([[k, k + 1] for k in range(11)]))
    assert not groups, "one group holds a fifth"


def test_statistics_are_told_where_they_help() -> None:
    rng = np.random.default_rng(3)
    told = rng.normal(size=(N, 3))
    pairs = np.array([rng.choice(N, 2, replace=False) for _ in range(T)])
    ahead = (told[pairs[:, 0]] - told[pairs[:, 1]])[:, 0] + rng.normal(size=T) > 0.0
    sides = np.where(ahead[:, None], pairs, pairs[:, ::-1])
    found, how = learned(TEXTS, told, won(sides))
    assert found is not None and how is not None and how.statistics
    assert len(found.weights) == len(found.words.names) + len(found.parts.names) + 3
    up = found.apply(["zz", "zz "], np.array([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]))
    assert up[0, 0] > up[1, 0] + 1.0


def test_equal_texts_and_copies_of_duels_are_one() -> None:
    texts, doubled = [*TEXTS, *TEXTS], SIDES + N * (np.arange(T) % 2)[:, None]
    found, how = learned(texts, no_statistics(2 * N), won(doubled))
    assert found is not None and FOUND is not None and how == HOW
    np.testing.assert_array_equal(found.own, FOUND.own)


def test_contributions_of_words_add_up_to_the_score() -> None:
    assert FOUND is not None
    text = "BaBa coco, coco fedu! unknown"
    found = FOUND.contributions(text)
    total = sum(much for _, much in found)
    mean = FOUND.mean / FOUND.scale
    assert total == pytest.approx(FOUND.apply([text], no_statistics(1))[0, 0] + mean)
    assert {"coco", "fedu"} <= {word for word, _ in found}
    assert [abs(much) for _, much in found] == sorted((abs(x) for _, x in found), reverse=True)


def test_written_and_read_again_to_the_bit() -> None:
    fitted = TextTransform.fit(TEXTS, won())
    assert fitted.names[-1] == "score" and fitted.score is not None
    again = TextTransform.from_dict(json.loads(json.dumps(fitted.to_dict())), fitted.arrays())
    assert again == fitted and again.scored == fitted.scored
    new = [*written(9, 5), *TEXTS[:3]]
    np.testing.assert_array_equal(again.apply(new), fitted.apply(new))
    assert TextTransform.fit(TEXTS) != fitted, "which has no score"


def test_only_training_duels_are_heard() -> None:
    items, duels = tables()
    table = spg.read_duels(items, duels, text="said")
    rows = np.arange(600)
    turned = duels.copy()
    turned.loc[600:, ["winner", "loser"]] = duels.loc[600:, ["loser", "winner"]].to_numpy()
    other = spg.read_duels(items, turned, text="said")
    ours, theirs = (one.standardised(rows).transform for one in (table, other))
    assert ours is not None and ours == theirs and ours.scores == ("said: score",)
    assert ours != table.standardised().transform


def test_the_kernel_of_texts_goes_by_the_score() -> None:
    items, duels = tables()
    table = spg.read_duels(items, duels, text="said")
    transform = table.standardised().transform
    assert transform is not None
    assert default_for(transform) == f"{SCORE}+linear+ard(matern52)"
    kernel = KernelChoice.parse(str(default_for(transform)))
    assert kernel.lacking(transform) is None
    without = table.transform_of(np.arange(N), scored=False)
    assert "duels in chunks, or no word in two texts" in str(kernel.lacking(without))
    with pytest.raises(ValueError, match=r"'said: score', which the texts do not have .* leave"):
        kernel.check_columns(without)


def test_the_score_alone_is_a_candidate() -> None:
    items, duels = tables()
    table = spg.read_duels(items, duels, text="said")
    names = [str(one) for one in automatic_candidates(table, approximation="vfe")]
    assert names[:2] == [f"{SCORE}/vfe", f"linear+ard(matern52)+{SCORE}/vfe"]
    vectors = items.assign(v=list(np.random.default_rng(0).normal(size=(N, 20))))
    wide = spg.read_duels(vectors, duels, text="said")
    names = [str(one) for one in automatic_candidates(wide)]
    assert names[0] == f"{SCORE}/vfe" and "linear/vfe" in names
    assert any(name.startswith("iso(matern52") and "prior-power" in name for name in names)


@pytest.mark.slow
def test_a_fold_whose_texts_have_no_score_is_named() -> None:
    items, duels = tables()
    half = np.arange(T) % 3 > 0
    duels = duels.assign(part=np.where(half, "a", "b"))
    flip = np.random.default_rng(0).uniform(size=T) < 0.5
    mixed = half & flip
    duels.loc[mixed, ["winner", "loser"]] = duels.loc[mixed, ["loser", "winner"]].to_numpy()
    table = spg.read_duels(items, duels, text="said", ignore=["part"])
    found = spg.compare(
        [f"{SCORE}/vfe/4", "linear/vfe/4"], table, by="group:part", folds=2, max_iterations=2
    )
    by_name = {str(one.candidate): one for one in found.scores}
    assert by_name[f"{SCORE}/vfe/4"].status == "failed"
    assert "'said: score', which the texts do not have" in by_name[f"{SCORE}/vfe/4"].reason
    assert by_name["linear/vfe/4"].status == "ok"


@pytest.mark.slow
def test_a_fit_of_texts_takes_the_score_and_explains_it(tmp_path: Path) -> None:
    items, duels = tables()
    found = spg.fit(
        items, duels, text=["said"], max_iterations=3, inducing=8, integrate="no", starts=1
    )
    spg.save(found.model, tmp_path / "out")
    assert found.settings.kernel == f"{SCORE}+linear+ard(matern52)"
    (said,) = found.figures["data"]["texts"]
    assert said["score"] and said["scored"]["nats"] < 0.65 and said["column"] == "said"
    again = spg.load(tmp_path / "out")
    new = pd.DataFrame({"item_id": ["a", "b"], "said": ["baba coco fedu", "lele mimi"]})
    for table in (items.iloc[:5], new):
        ours, theirs = (spg.rank(model, items=table).frame for model in (found.model, again))
        pd.testing.assert_frame_equal(ours, theirs)
    told = spg.explain(again, "a", "b", items=new)
    assert set(told.scored["said: score"]) == {"a", "b"}
    assert "said: score of a, what counts" in str(told)
    assert told.frame["contribution"].sum() == pytest.approx(told.difference, abs=1e-5)
    assert not spg.explain(again, "t1", "t2").scored, "the model keeps no texts"
    assert "said: score" in set(told.frame["feature"])


@pytest.mark.slow
def test_fits_in_chunks_of_tables_have_the_score_too() -> None:
    items, duels = tables()
    found = spg.fit(items, duels, text=["said"], stream=True, max_iterations=2, inducing=8)
    assert found.settings.kernel == f"{SCORE}+linear+iso(matern52)"
    assert found.figures["data"]["texts"][0]["score"]


def test_settings_name_no_kernel_before_duels_are_split() -> None:
    from sparse_prefgp.workflow.automatic import settled

    items, duels = tables()
    table = spg.read_duels(items, duels, text="said")
    assert settled(table, FitSettings()).kernel is None
    assert settled(table, FitSettings(kernel="se")).kernel == "se"
