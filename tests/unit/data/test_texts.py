"""Features of texts: learned from training texts, applied to others."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from pathlib import Path

import gpflow
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparse_prefgp as spg
from sparse_prefgp.data import texts
from sparse_prefgp.data.texts import TextTransform, WordDirections, without_markup, words_of
from tests.cases import DATA
from tests.reference.slow_texts import slow_sentences, slow_without_tags, slow_words
from tests.together import refused
from tests.tolerances import IDENTITY, ROUNDING

WORDS = np.array("apple pear plum fig grape melon berry quince lemon lime date olive".split())


def written(n: int, seed: int = 0) -> list[str]:
    """Texts of which some share words, with sentences and marks that differ."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        topic = rng.permutation(len(WORDS))[:5]
        said = rng.choice(WORDS[topic], rng.integers(3, 15))
        found.append(" ".join(said).capitalize() + rng.choice([".", "!", "? Yes.", ", no"]))
    return found


TRAINING = [*written(59), "Zyxxy apple plum."]
FITTED = TextTransform.fit(TRAINING)


def test_training_texts_have_standard_statistics_and_directions_of_one_scale() -> None:
    found = FITTED.apply(TRAINING)
    k = len(FITTED.statistics)
    assert found.shape == (60, len(FITTED.names))
    np.testing.assert_allclose(found[:, :k].mean(0), 0.0, atol=1e-9)
    np.testing.assert_allclose(found[:, :k].std(0), 1.0)
    assert found[:, k:].var(0).mean() == pytest.approx(1.0)
    assert found[:, k:].std(0).max() > 1.3 * found[:, k:].std(0).min(), "their sizes differ"
    assert "has_url" not in FITTED.statistics, "none has one"


def test_directions_are_those_of_slow_weights() -> None:
    """tf-idf with smooth idf and rows of unit length, by hand."""
    words = [words_of(text) for text in TRAINING]
    names = sorted({word for found in words for word in found})
    counts = np.array([[found.count(name) for name in names] for found in words], dtype=float)
    spread = (counts > 0).sum(0)
    kept = (spread >= 3) & (spread <= 30)
    weights = counts[:, kept] * (np.log(61.0 / (1.0 + spread[kept])) + 1.0)
    weights /= np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-300)
    left, values, _ = np.linalg.svd(weights - weights.mean(0), full_matrices=False)
    rank = FITTED.directions.size
    assert list(FITTED.directions.terms.names) == [n for n, k in zip(names, kept, strict=True) if k]
    np.testing.assert_allclose(
        np.abs(FITTED.directions.scores(words)), np.abs(left * values)[:, :rank], atol=1e-9
    )


def test_many_texts_are_decomposed_without_a_whole_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    words = [[f"w{k}" for k in rng.zipf(1.5, 12) % 90] for _ in range(300)]
    whole = WordDirections.fit(words)
    monkeypatch.setattr(texts, "_WHOLE", 10)
    sparse = WordDirections.fit(words)
    assert whole.size == sparse.size == 32
    np.testing.assert_allclose(sparse.scores(words), whole.scores(words), atol=1e-6)


def test_new_texts_are_seen_with_training_eyes() -> None:
    new = ["Apple pear", "xyzzy plugh", "apple pear"]
    found = FITTED.apply(new)
    rare = list(FITTED.names).index("share_rare_words")
    assert found[1, rare] > found[0, rare]
    k = len(FITTED.statistics)
    np.testing.assert_allclose(found[0, k:], found[2, k:], atol=ROUNDING)
    unknown = -FITTED.directions.centre @ FITTED.directions.directions / FITTED.spread
    np.testing.assert_allclose(found[1, k:], unknown, atol=ROUNDING)


def test_written_and_read_again_to_the_bit() -> None:
    plain = json.loads(json.dumps(FITTED.to_dict()))
    again = TextTransform.from_dict(plain, FITTED.arrays())
    assert again == FITTED and hash(again) == hash(FITTED)
    new = written(9, 3)
    np.testing.assert_array_equal(again.apply(new), FITTED.apply(new))
    assert TextTransform.fit(TRAINING[:30]) != FITTED


def test_features_saved_before_there_were_scores_are_the_same() -> None:
    case = json.loads((DATA / "texts_case.json").read_text())
    arrays = {name: np.array(values) for name, values in case["arrays"].items()}
    again = TextTransform.from_dict(case["transform"], arrays)
    assert again.score is None and list(again.names) == case["names"]
    np.testing.assert_allclose(again.apply(case["texts"]), case["features"], atol=ROUNDING)
    assert again.to_dict() == case["transform"] and {*again.arrays()} == {*arrays}


def test_markup_is_left_out_and_less_than_stays() -> None:
    assert without_markup("a <b class='x'>c</b> &amp; d<!-- e -->").split() == ["a", "c", "&", "d"]
    assert without_markup("1 < 2 and 3 > 2") == "1 < 2 and 3 > 2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Größe ça", ["größe", "ça"]),
        ("я не знаю", ["я", "не", "знаю"]),
        ("我喜欢", ["我", "喜", "欢"]),
        ("العربية جيدة", ["العربية", "جيدة"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
        ("שָׁלוֹם", ["שָׁלוֹם"]),
        ("don’t 12 _x_", ["don't", "x"]),
        ("", []),
    ],
)
def test_words_of_many_languages(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(st.lists(st.text(max_size=60), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_any_text_has_finite_features(some: list[str]) -> None:
    assert np.isfinite(FITTED.apply(some)).all()
    fitted = TextTransform.fit(some)
    assert np.isfinite(fitted.apply([*some, "another"])).all()


@given(st.text(st.sampled_from("ab'’ 1_.!?。？।\n\u0301\u093fह我ก") | st.characters(), max_size=30))
@settings(max_examples=200, deadline=None)
def test_words_and_sentences_are_those_found_one_character_at_a_time(text: str) -> None:
    assert words_of(text) == slow_words(text)
    found = texts.surface(text, words_of(text), frozenset())["log_sentences"]
    assert found == np.log1p(slow_sentences(text))


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("我爱水，你呢？不！好。", "a b c, d e? f g! h."),
        ("पानी सस्ता है। क्यों?", "a b c. d?"),
        ("ماء، أفضل؟ نعم.", "a, b? c."),
    ],
)
def test_marks_of_other_scripts_count_as_those_of_english(text: str, english: str) -> None:
    def marks(text: str) -> list[float]:
        found = texts.surface(text, words_of(text), frozenset())
        names = ("log_sentences", "questions_per_sentence", "exclamations_per_sentence")
        return [*(found[name] for name in names), found["commas_per_word"] * len(words_of(text))]

    assert marks(text) == pytest.approx(marks(english))


def test_every_mark_stays_with_its_letter() -> None:
    alone = re.compile(f"[{texts._ALONE}]")
    for mark in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(mark) in ("Mn", "Mc") and not alone.match(mark):
            assert words_of(f"k{mark}k") == [f"k{mark}k"], hex(ord(mark))


@given(st.text(st.sampled_from("<>!-/a \n"), max_size=30))
@settings(max_examples=300, deadline=None)
def test_tags_and_comments_are_those_found_one_character_at_a_time(text: str) -> None:
    assert without_markup(text) == slow_without_tags(text)


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("&#65;&#x41;&amp;", "AA&"),
        ("&#0000000065;b", "Ab"),
        ("&#x0000000041", "A"),
        ("&#" + "0" * 5_000 + "65;", "A"),
        ("&#" + "9" * 5_000 + "; a", "\ufffd a"),
        ("&#x" + "F" * 5_000, "\ufffd"),
    ],
)
def test_entities_of_any_length_are_letters(text: str, letters: str) -> None:
    assert without_markup(text) == letters


@pytest.mark.parametrize(
    "text",
    ["word <x " * 12_500, "apple " * 20_000, "<" * 100_000, "<!--" * 25_000, "." * 100_000 + "x"],
    ids=["tags", "words", "less than", "comments", "stops"],
)
def test_a_long_text_takes_linear_time(text: str) -> None:
    found = FITTED.apply([text])
    assert np.isfinite(found).all()


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(5)
    items = pd.DataFrame({"item_id": [f"t{k}" for k in range(60)], "said": TRAINING})
    good = np.array([text.lower().count("apple") - text.count("!") for text in TRAINING])
    pairs = np.array([rng.choice(60, 2, replace=False) for _ in range(400)])
    ahead = good[pairs[:, 0]] - good[pairs[:, 1]] + 0.5 * rng.normal(size=400) > 0
    ids = items["item_id"].to_numpy()
    duels = np.where(ahead[:, None], pairs, pairs[:, ::-1])
    return items, pd.DataFrame(ids[duels], columns=["winner", "loser"])


@pytest.mark.slow
def test_texts_become_features_that_are_kept_in_the_model(tmp_path: Path) -> None:
    items, duels = tables()
    found = spg.fit(
        items, duels, text=["said"], kernel="linear", max_iterations=10, out=tmp_path / "out"
    )
    scores = found.figures["held_out"]
    assert scores["model"]["nlp_nats"] < scores["coin"]["nlp_nats"] - 0.1
    again = spg.load(tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.pkl"))
    new = pd.DataFrame({"item_id": ["a", "b"], "said": ["Apple apple apple fig.", "Melon lime!"]})
    ours, theirs = (spg.rank(model, items=new).frame for model in (found.model, again))
    pd.testing.assert_frame_equal(ours, theirs)
    assert list(ours["item_id"]) == ["a", "b"]
    with pytest.raises(ValueError, match="no column 'said'"):
        spg.rank(again, items=new.rename(columns={"said": "other"}))
    more = pd.DataFrame({"winner": ["a", "t1"], "loser": ["b", "b"]})
    updated, report = spg.update(again, more, items=new)
    assert report.new_items == 2 and updated.duels.num_items == 62


def test_a_known_item_whose_text_is_another_is_refused() -> None:
    items, duels = tables()
    old = spg.read_duels(items, duels.head(40), text=["said"])
    model = spg.PreferenceGP(old, gpflow.kernels.Linear())
    items.loc[0, "said"] = "Another text!"
    message = r"item 't0' .* has 'said: .*' .*, but the model knows it with"
    with pytest.raises(ValueError, match=message):
        spg.update(model, duels.tail(2), items=items)


def test_vectors_of_texts_by_a_function_of_the_user() -> None:
    items, duels = tables()

    def encode(some: list[str]) -> np.ndarray:
        return np.array([[text.lower().count(word) for word in WORDS] for text in some], float)

    made = spg.read_duels(items, duels, text="said", text_features=encode)
    assert made.transform is not None
    assert made.transform.vectors == ("said vectors",) and made.transform.text_columns == ("said",)
    model = spg.PreferenceGP(made, _linear())
    new = pd.DataFrame({"item_id": ["a", "b"], "said": ["Apple fig.", "Melon!"]})
    with pytest.raises(ValueError, match="said vectors"):
        spg.rank(model, items=new)
    assert len(spg.rank(model, items=spg.with_texts(new, "said", encode)).frame) == 2
    with pytest.raises(ValueError, match="59 vectors of 60 texts"):
        spg.read_duels(items, duels, text="said", text_features=lambda some: np.eye(59))
    with pytest.raises(ValueError, match="is 'minilm', no function"):
        spg.read_duels(items, duels, text="said", text_features="minilm")  # type: ignore[arg-type]
    with refused("no_texts", "text_features"):
        spg.read_duels(items, duels, text_features=encode, ignore=["said"])


def _linear() -> object:
    return gpflow.kernels.Linear(variance=0.1)


def test_what_is_said_of_odd_texts() -> None:
    items, duels = tables()
    odd = items.assign(said=["", "<p>apple</p>", None, "apple fig " * 251, *items["said"][4:]])
    with pytest.warns(UserWarning, match=r"1 text has more than 500 words to a sentence.*row 3"):
        spg.read_duels(odd, duels, text="said")
    with pytest.warns(UserWarning, match=r"2 texts have no words \(the first in .*row"):
        table = spg.read_duels(odd, duels, text="said")
    assert table.raw.texts == ("said",) and table.has_features
    with pytest.raises(ValueError, match="--text said"):
        spg.read_duels(items, duels)
    with pytest.raises(ValueError, match="holds numbers"):
        spg.read_duels(items.assign(said=range(60)), duels, text="said")
    with pytest.raises(ValueError, match="holds lists or vectors"):
        spg.read_duels(items.assign(said=[[1.0, 2.0]] * 60), duels, text="said")
    with pytest.raises(ValueError, match="no column 'x'"):
        spg.read_duels(items, duels, text="x")
    with pytest.raises(ValueError, match="give a table of items"):
        spg.read_duels(None, duels, text="said")
    with pytest.raises(ValueError, match="constant"):
        spg.read_duels(items.assign(said="the same"), duels, text="said").standardised()


def test_texts_that_a_model_is_asked_about_are_checked_too() -> None:
    items, duels = tables()
    model = spg.PreferenceGP(spg.read_duels(items, duels, text="said"), _linear())
    new = pd.DataFrame({"item_id": ["a", "b"], "said": ["<b>Apple</b> fig.", None]})
    with pytest.warns(UserWarning) as said:
        spg.rank(model, items=new)
    assert [re.sub(r" \(the.*", "", str(each.message)) for each in said] == [
        "Of the texts 'said', 1 text has HTML tags or entities, which are left out",
        "Of the texts 'said', 1 text has no words",
    ]
    for values, what in (([1, 2], "numbers, such as 1"), ([[1.0], [2.0]], "lists or vectors")):
        with pytest.raises(ValueError, match=f"holds {what}.*give the texts"):
            spg.rank(model, items=new.assign(said=values))


def test_statistics_of_texts_have_a_worth_and_directions_have_none() -> None:
    items, duels = tables()
    items = items.assign(price=np.linspace(1.0, 3.0, 60))
    made = spg.read_duels(items, duels, text="said")
    found = spg.worth(spg.PreferenceGP(made, _linear()), "price").frame
    assert made.transform is not None
    (text,) = made.transform.texts
    assert list(found["attribute"]) == [f"said: {name}" for name in text.transform.statistics]
    weights = spg.PreferenceGP(made, _linear()).predict_f(np.eye(made.num_features))[0].numpy()
    raw = weights[1 : 1 + len(found), 0] / text.transform.scale
    price = weights[0, 0] / made.transform.scale[0]
    np.testing.assert_allclose(found["worth"], -raw / price, rtol=IDENTITY)
    curved = spg.PreferenceGP(made, gpflow.kernels.Matern52(lengthscales=9.0))
    with refused("plane", "unmeasured"):
        spg.worth(curved, "price")
    with pytest.raises(ValueError, match="no feature"):
        spg.worth(curved, "said: words")


def test_features_of_both_sides_are_no_texts(tmp_path: Path) -> None:
    made = spg.read_duels(*tables(), text="said")
    sides = pd.DataFrame({"winner_price": [1.0, 2.0], "loser_price": [2.0, 1.0]})
    sides.to_parquet(tmp_path / "sides.parquet")
    with refused("features_of_sides", "beyond_numbers"):
        spg.evaluate(spg.PreferenceGP(made, _linear()), tmp_path)


def test_features_of_texts_stay_their_own_however_many_there_are() -> None:
    items, duels = tables()
    three = items.assign(title=written(60, 7), end=written(60, 8))
    made = spg.read_duels(three, duels, text=["said", "title", "end"])
    assert made.transform is not None and made.transform.reduction is None
    assert made.num_features == sum(len(one.transform.names) for one in made.transform.texts) > 64

    # Among more than 64 other columns, which are reduced, too.
    rng = np.random.default_rng(1)
    wide = items.join(pd.DataFrame(rng.normal(size=(60, 65))).add_prefix("x"))
    made = spg.read_duels(wide, duels, text="said")
    transform = made.transform
    assert transform is not None and transform.reduction is not None
    assert [block.name for block in transform.blocks] == [f"x{j}" for j in range(65)]
    (text,) = transform.texts
    assert made.num_features == len(text.transform.names) + transform.reduction.size
    again = spg.data.features.FeatureTransform.from_dict(
        json.loads(json.dumps(transform.to_dict())), transform.arrays()
    )
    np.testing.assert_array_equal(again.apply(wide), transform.apply(wide))
    np.testing.assert_array_equal(again.convert(made.items, transform), made.items)
    model = spg.PreferenceGP(made, _linear(), approximation=spg.Exact())
    found = spg.explain(model, "t3", "t8")
    assert {*text.made_of} <= set(found.frame["feature"]) and set(found.words) == {text.words}
    assert found.frame["contribution"].sum() == pytest.approx(found.difference, rel=IDENTITY)


@pytest.mark.slow
def test_explanations_speak_of_statistics_and_words() -> None:
    items, duels = tables()
    model = spg.fit(
        items, duels, text="said", kernel="linear", max_iterations=10, test_fraction=0
    ).model
    new = pd.DataFrame({"item_id": ["a", "b"], "said": ["Apple apple fig.", "Melon lime!"]})
    found = spg.explain(model, "a", "b", items=new)
    assert {"said: words", "said: exclamations_per_sentence"} <= set(found.frame["feature"])
    assert found.residual == pytest.approx(0.0, abs=1e-5)
    (column, words), *_ = found.words.items()
    assert column == "said: words" and dict(words)["apple"] > 0.0
    assert "said: words that raise expected utility, where a text has them" in str(found)
    shown = found.frame.set_index("feature").loc["said: exclamations_per_sentence"]
    assert (shown["first"], shown["second"]) == (pytest.approx(0.0, abs=1e-9), pytest.approx(1.0))
    assert found.to_dict()["words"]["said: words"][0][0] == words[0][0]
