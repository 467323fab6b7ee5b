"""One set of answers in every form of a table; what may be two things is asked."""

import json
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp import read
from sparse_prefgp.data.answers import TIE
from sparse_prefgp.io.forms import Form
from sparse_prefgp.io.reading import asking_for_more
from tests.reference import slow_forms as slow
from tests.reference.slow_forms import POOLS, events_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def table(text):
    """`a,b; 1,2; 3,4` as a data frame of texts."""
    header, *rows = [line.strip().split(",") for line in text.split(";")]
    return pd.DataFrame(rows, columns=header)


def wins(*pairs, **more):
    """Wins such as `ab`, of the first over the second, and ties as `tie="ab"`."""
    ties = more.get("tie", ())
    return Counter([("win", *pair) for pair in pairs] + [("tie", *sorted(tie)) for tie in ties])


# ---- generated -----------------------------------------------------------------------------------


def assert_all_read(written, expected):
    for one in written:
        answers = read(one.table, **one.options)
        assert events_of(answers) == expected, f"{one.form}\n{answers.read_as}"


@pytest.mark.parametrize("seed", range(4))
def test_two_sides_and_a_verdict(seed):
    rng = np.random.default_rng(seed)
    made = slow.meetings(rng, POOLS[seed])
    every = [*slow.with_verdicts(rng, made)]
    assert_all_read(every[seed::4], slow.of_duels(made))


@pytest.mark.parametrize("seed", range(4))
def test_scores_counts_matrices_and_grades(seed):
    rng = np.random.default_rng(seed)
    made = slow.meetings(rng, POOLS[seed])
    assert_all_read(slow.with_scores(rng, made), slow.of_duels(made))
    assert_all_read(slow.with_counts(rng, made), slow.of_duels(made))
    won = [meeting for meeting in made if meeting.way]
    matrix = slow.as_matrix(won)
    answers = read(slow.shuffled(rng, matrix, columns=False))
    assert events_of(answers) == slow.of_duels(won)
    assert "rows beat columns" in str(answers.read_as) and "diagonal, 36 in all" in str(
        answers.read_as
    )
    assert read(matrix.assign(town="Bern")).read_as.unused == ("town",)
    with pytest.raises(ValueError, match=r"a column 'age' and no such row.*--ignore age"):
        read(matrix.assign(age=3))
    assert events_of(read(matrix.assign(age=3), ignore=["age"])) == events_of(read(matrix))
    turned = matrix.set_index("who").T.rename_axis("who").reset_index()
    assert events_of(read(turned, matrix="columns-win")) == slow.of_duels(won)
    for words in slow.GRADES:
        frame, said = slow.graded(rng, POOLS[seed], words)
        assert events_of(read(slow.shuffled(rng, frame))) == said


@pytest.mark.parametrize("seed", range(4))
def test_choices_and_best_and_worst(seed):
    rng = np.random.default_rng(seed)
    made = slow.answers(rng, POOLS[seed])
    choices, both = slow.of_choices(made), slow.of_best_worst(made)
    assert_all_read([*slow.wide(rng, made, ["chosen"])][seed::2], choices)
    assert_all_read([*slow.wide(rng, made, ["best", "worst"])][seed::2], both)
    for yes in ((0, 1), ("no", "yes"), (False, True)):
        assert events_of(read(slow.long(rng, made, ["chosen"], yes))) == choices
        assert events_of(read(slow.long(rng, made, ["best", "worst"], yes))) == both
    scores = slow.long(rng, made, ["score"]).rename(columns={"score": "choice"})
    assert events_of(read(scores)) == both
    words = scores.assign(choice=scores["choice"].map({1: "best", 0: "neither", -1: "worst"}))
    assert events_of(read(words)) == both
    zero = slow.options_of(made[-3:], "option_{}")[1].assign(chosen=["0", "1", "2"])
    assert "position of an option, counted from 0" in str(read(zero).read_as)
    persons = scores.sort_values("set").assign(respondent=lambda frame: frame["set"])
    assert events_of(read(persons.assign(set=1))) == both
    # The number of a row is nobody's.
    numbered = slow.long(rng, made, ["chosen"]).rename_axis("id").reset_index()
    assert events_of(read(numbered, ignore=["id"])) == choices


@pytest.mark.parametrize("seed", range(4))
def test_rankings(seed):
    rng = np.random.default_rng(seed)
    made = slow.answers(rng, POOLS[seed])
    plain = not any("'" in name or " " in name for name in POOLS[seed])
    assert_all_read(slow.ranked(rng, made, plain), slow.of_rankings(made))


@pytest.mark.parametrize("seed", range(2))
def test_alternatives_with_attributes_in_columns(seed):
    """Every naming of the columns gives the answers of the long form, with none and without."""
    rng = np.random.default_rng(seed)
    rows, k = 12, 3
    price = rng.permutation(np.arange(100, 100 + rows * k)).reshape(rows, k)
    brand = rng.choice(["X", "Y"], (rows, k))
    chosen = np.append([0, 1, 2], rng.integers(0, k, rows - 3))
    long = pd.DataFrame(
        {
            "choice_set": np.repeat(np.arange(rows), k),
            "price": price.ravel(),
            "brand": brand.ravel(),
            "chosen": (chosen[:, None] == np.arange(k)).astype(int).ravel(),
        }
    )
    expected = events_of(read(long))
    for name in ("alt{0}_{1}", "{1}.{0}", "{1}_{0}", "{1}{0}", "option {0} {1}", "alt.{0}.{1}"):
        cells = {
            name.format(j + 1, what): values[:, j]
            for what, values in (("price", price), ("brand", brand))
            for j in range(k)
        }
        for code in ("{0}", "alt{0}", "{letter}"):
            said = [code.format(j + 1, letter="ABC"[j]) for j in chosen]
            wide = slow.shuffled(rng, pd.DataFrame(cells).assign(choice=said), columns=False)
            answers = read(wide, features=["price", "brand"])
            assert events_of(answers) == expected, (name, code)
            wide.loc[:1, "choice"] = "none"
            of_none = read(wide, features=["price", "brand"], none="none")
            assert len(of_none.events) == rows and set(np.diff(of_none.events.offsets)) == {k + 1}
            with pytest.raises(ValueError, match=r"none of the alternatives 1, 2, 3.*--none none"):
                read(wide)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".json", ".parquet", ".xlsx"])
def test_files(tmp_path, ending):
    """What a file makes of ids and of verdicts that look like numbers."""
    made = [slow.Meeting("007", "NA", 1), slow.Meeting("NA", "8", -1), slow.Meeting("8", "007", 0)]
    frame = slow.two_sided(made, ("model_a", "model_b"), "winner", ("1", "-1", "0"))
    path = tmp_path / f"votes{ending}"
    if ending == ".csv":
        frame.to_csv(path, index=False)
    elif ending == ".parquet":
        frame.to_parquet(path)
    elif ending == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=ending == ".jsonl")
    assert events_of(read(path)) == slow.of_duels(made)


def test_nested_json_lines(tmp_path):
    path = tmp_path / "votes.jsonl"
    rows = [{"pair": {"a": "u", "b": "v"}, "said": {"won": w}} for w in ("u", "v", "tie")]
    path.write_text("\n".join(map(json.dumps, rows)))
    answers = read(path, sides=["pair.a", "pair.b"], outcome="said.won")
    assert events_of(answers) == wins("uv", "vu", tie=["uv"])


# ---- cases from the field ------------------------------------------------------------------------


def evidence(answers):
    duels = answers.standardised()
    margin = 0.2 if (duels.events.kind == TIE).any() else None
    return spg.PreferenceGP(
        duels, spg.ItemEffect(1.0), likelihood=spg.Probit(margin=margin)
    ).log_evidence()


@pytest.fixture(scope="module")
def field_cases(data_dir):
    folder = data_dir.parent / "reference" / "field_cases"
    if not folder.is_dir():
        pytest.skip(f"no cases in {folder}; set SPARSE_PREFGP_DATA to the data beside them")
    return folder


@pytest.mark.parametrize(
    ("case", "other", "words"),
    [
        ("two_sided_table/battles", "battles_as_duels", "tie (bothbad) = tie, both bad (1)"),
        ("two_sided_table/matches", "matches_as_duels", "H = first"),
        ("two_sided_table/labels", "labels_as_duels", "the name of a side = that side (6)"),
        ("win_matrix/wins", "wins_as_duels", "rows beat columns: Ann beat Ben 5 times"),
        ("wins_in_two_columns/series", "series_as_duels", "33 wins"),
        ("wins_in_two_columns/tastings", "tastings_as_duels", "21 wins and 6 ties"),
        ("maxdiff_scores/survey", "survey_as_best_worst", "4 best and worst"),
        ("option_letters/tastings", "tastings_as_names", "the letter of an option"),
    ],
)
def test_cases_from_the_field(field_cases, case, other, words):
    path = field_cases / f"{case}.csv"
    plain, by_hand = read(path, side=False), read(path.with_name(f"{other}.csv"))
    assert words in str(plain.read_as)
    assert events_of(plain) == events_of(by_hand)
    assert evidence(plain) == pytest.approx(evidence(by_hand), abs=1e-9)


def test_rank_columns_from_the_field(field_cases):
    races = read(field_cases / "rank_columns" / "races.csv")
    assert "0" not in map(str, races.item_ids) and "is nobody" in str(races.read_as)
    survey = read(field_cases / "rank_columns" / "survey.csv")
    assert ("ranking", "tea", "milk", "cola") in events_of(survey)


# ---- what is asked -------------------------------------------------------------------------------

VOTES = "model_a,model_b,winner; u,v,{}; v,u,{}; u,z,{}"
TWICE = "home,away,result,home_score,away_score; u,v,H,0,1; v,u,H,1,0"
PLACED = "set,item,position,chosen; s,u,1,0; s,v,2,1; t,u,2,1; t,v,1,0"
BRANDS = "brand_1,price_1,brand_2,price_2,choice; X,3,Y,4,1; Y,5,X,2,2; X,1,Z,3,1"
PHONES = "cost1,cost2,age0,age1,age2,choice; 1,2,0,1,0,1; 4,3,1,0,0,2"
# A table that may mean two things, words of the message, the option that it names, and what is read
# then.
ASKED = {
    "0 and 1": (
        VOTES.format(1, 0, 1),
        ("'winner'", "0 = second", "0 = tie", "--verdicts 1=first,0=second"),
        {"verdicts": {"1": "first", "0": "second"}},
        wins("uv", "uv", "uz"),
    ),
    "0, 1 and 2": (
        VOTES.format(0, 1, 2),
        ("0 = first, 1 = second, 2 = tie", "0 = tie, 1 = first, 2 = second", "--verdicts"),
        {"verdicts": {"0": "tie", "1": "first", "2": "second"}},
        wins("vu", "zu", tie=["uv"]),
    ),
    "words that nobody knows": (
        VOTES.format("good", "bad", "u"),
        ("'good' in row 0", "'bad' in row 1", "--verdicts"),
        {"verdicts": {"good": "first", "bad": "second"}},
        wins("uv", "uv", "uz"),
    ),
    "no verdict": (
        VOTES.format("u", "", "u"),
        ("'winner' is empty in row 1", '--verdicts "=skip"'),
        {"verdicts": {"": "skip"}},
        wins("uv", "uz"),
    ),
    "an item called tie": (
        "model_a,model_b,winner; tie,u,tie; u,v,u; v,tie,v",
        ("'tie' of 'winner' in row 0", "item of that name or mean tie", "--chosen-by name"),
        {"verdicts": {"tie": "tie"}},
        wins("uv", ("v", "tie"), tie=[("tie", "u")]),
    ),
    "an item called X": (
        "item_1,item_2,winner; X,v,X; v,X,X",
        ("'X' of 'winner' in row 0", "--verdicts"),
        {"verdicts": {"X": "tie"}},
        wins(tie=["vX", "vX"]),
    ),
    "a team called D": (
        "home,away,winner; D,A,D; A,B,B; C,D,C",
        ("'D' of 'winner' in row 0", "--verdicts"),
        {"verdicts": {"D": "tie"}},
        wins("BA", "CD", tie=["DA"]),
    ),
    "items called 1 and 2": (
        "player1,player2,winner; 1,2,1; 2,1,1; 2,3,2; 3,1,1",
        ("'1' of 'winner' in row 1", "item of that name or mean first"),
        {"verdicts": {"1": "first", "2": "second"}},
        wins("12", "21", "32", "31"),
    ),
    "items called 1 and 2, which won": (
        "player1,player2,winner; 1,2,1; 2,1,1; 2,3,2; 3,1,1",
        ("--chosen-by name",),
        {"chosen_by": "name"},
        wins("12", "12", "23", "13"),
    ),
    "an item that is a word for a tie": (
        "model_a,model_b,winner; Both,v,Both; v,z,model_a; z,Both,model_b",
        ("'Both' of 'winner' in row 0", "mean tie"),
        {"verdicts": {"Both": "tie"}},
        wins("vz", ("Both", "z"), tie=[("Both", "v")]),
    ),
    "only 1": (
        "model_a,model_b,winner; u,v,1; v,z,1",
        ("'winner' holds '1'", "--verdicts 1=first"),
        {"verdicts": {"1": "second"}},
        wins("vu", "zv"),
    ),
    "two columns that may be it": (
        "model_a,model_b,winner,label; u,v,model_a,a; v,u,model_b,a; z,u,tie,b",
        ("Both 'winner' and 'label'", "--outcome winner"),
        {"outcome": "winner"},
        wins("uv", "uv", tie=["uz"]),
    ),
    "two pairs of sides": (
        "home,away,player1,player2,winner; u,v,m,n,1; v,u,n,m,2",
        ("'player1' and 'player2' and 'home' and 'away'", "--sides player1,player2"),
        {"sides": ["player1", "player2"]},
        wins("mn", "mn"),
    ),
    "an outcome beside counts": (
        "team_a,team_b,result,wins_a,wins_b; u,v,1,3,4; v,z,0,2,2; z,u,1,5,1",
        ("'result' holds '1', '0'", "--verdicts 1=first,0=second"),
        {"verdicts": {"1": "first", "0": "second"}},
        wins("uv", "zv", "zu"),
    ),
    "scores that say otherwise": (
        TWICE,
        ("row 0", "'result' is 'H'", "'home_score' and 'away_score' are 0 and 1", "--scores"),
        {"ignore": ["result"]},
        wins("vu", "vu"),
    ),
    "a verdict that says otherwise": (
        TWICE,
        ("--outcome", "--ignore the other"),
        {"outcome": "result", "ignore": ["home_score", "away_score"]},
        wins("uv", "vu"),
    ),
    "an item against itself": (
        "left,right,winner; u,u,left; u,v,left",
        ("row 0", "both sides are 'u'", "--drop-self"),
        {"drop_self": True},
        wins("uv"),
    ),
    "a column called side": (
        "model_a,model_b,winner,side; u,v,model_a,1; v,u,model_b,2",
        ("'side'", "--ignore side"),
        {"ignore": ["side"]},
        wins("uv", "uv"),
    ),
    "two options and 0 and 1": (
        "option_1,option_2,chosen; u,v,0; v,u,1; z,u,1",
        ("'chosen' holds '0', '1'", "--verdicts 0=second,1=first"),
        {"verdicts": {"0": "second", "1": "first"}},
        wins("vu", "vu", "zu"),
    ),
    "brands and prices": (
        BRANDS,
        ("'brand_1' and 'brand_2'", "'price_1' and 'price_2'", "--sides", "--choices"),
        {"sides": ["brand_1", "brand_2"]},
        wins("XY", "XY", "XZ"),
    ),
    "numbers of other things": (
        PHONES,
        ("age1, age2, age0", "cost1, cost2", "or --ignore cost1,cost2"),
        {"ignore": ["age0", "age1", "age2"]},
        Counter({("choice", "1", "2"): 1, ("choice", "3", "4"): 1}),
    ),
    "a place and a choice": (
        PLACED,
        ("Both 'position' and 'chosen'", "--choices"),
        {"kind": "choices", "ignore": ["position"]},
        Counter({("choice", "v", "u"): 1, ("choice", "u", "v"): 1}),
    ),
    "places that may be items": (
        "rank_1,rank_2,rank_3; 2,3,1; 3,1,2",
        ("may be items, best first, or the place of each column", "--options rank_1,rank_2,rank_3"),
        {"kind": "rankings", "options": ["rank_1", "rank_2", "rank_3"]},
        Counter({("ranking", "3", "1", "2"): 1, ("ranking", "2", "3", "1"): 1}),
    ),
    "0 and 1 of two alternatives in a row": (
        "task,alt1_price,alt2_price,choice; 1,3,4,1; 2,4,5,0; 1,3,4,0; 2,5,6,1",
        ("holds 0 and 1 alone", "--chosen-by position-from-0"),
        {"chosen_by": "position-from-0", "ignore": ["task"]},
        Counter({("choice", "4", "3"): 1, ("choice", "4", "5"): 1})
        + Counter({("choice", "3", "4"): 1, ("choice", "6", "5"): 1}),
    ),
    "names with commas in one cell": (
        "ranking; Doe > Smith; Smith > Doe > A|B",
        (),
        {},
        Counter({("ranking", "Doe", "Smith"): 1, ("ranking", "Smith", "Doe", "A|B"): 1}),
    ),
    "places of letters": (
        "rank_a,rank_b,rank_c; 2,3,1; 3,1,2",
        ("the place of each column", "--options rank_a,rank_b,rank_c"),
        {"kind": "rankings", "options": ["rank_*"]},
        Counter({("ranking", "c", "a", "b"): 1, ("ranking", "b", "c", "a"): 1}),
    ),
    "0 between others": (
        "rank_1,rank_2,rank_3; 5,0,7; 7,5,9",
        ("Row 0", "0 in 'rank_2'", "--empty 0"),
        {"empty": ["0"]},
        Counter({("ranking", "5", "7"): 1, ("ranking", "7", "5", "9"): 1}),
    ),
    "0 as a place": (
        "race,driver,position; p,u,1; p,v,2; q,u,0; q,v,1; q,z,2",
        ("0 may be nobody", "--empty 0"),
        {"empty": ["0"], "unranked_last": True},
        Counter({("ranking", "u", "v"): 1, ("ranking", "v", "z", "u"): 1}),
    ),
    "none beside sides": (
        "left,right,choice; u,v,left; v,u,none; u,z,right",
        ("'none' in row 1", "--verdicts"),
        {"verdicts": {"none": "tie"}},
        wins("uv", "zu", tie=["uv"]),
    ),
    "items in columns": (
        "u,v,z; 1,2,3; 3,1,2",
        ("'u', 'v' and 'z'", "--rankings FILE --options u,v,z"),
        {"kind": "rankings", "options": ["u", "v", "z"]},
        Counter({("ranking", "u", "v", "z"): 1, ("ranking", "v", "z", "u"): 1}),
    ),
    "a shared place": (
        "ranking; u = v; v > z",
        ("Row 0", "--shared tie"),
        {"shared": "tie"},
        Counter({("tie", "u", "v"): 1, ("ranking", "v", "z"): 1}),
    ),
    "unusual names": (
        "red,blue,who; u,v,red; v,z,blue",
        ("cannot be told", "--sides A,B --outcome C"),
        {"sides": ["red", "blue"], "outcome": "who"},
        wins("uv", "zv"),
    ),
}


@pytest.mark.parametrize("case", ASKED)
def test_two_readings_are_asked_and_the_option_is_followed(case):
    text, words, options, expected = ASKED[case]
    if words:
        with pytest.raises(ValueError) as asked:
            read(table(text))
        for word in words:
            assert word in str(asked.value)
    assert events_of(read(table(text), **options)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model_a,model_b,winner; u\x00,v,model_a", ("'model_a'", "control character", "row 0")),
        ("option_1,option_2,option_3,chosen; u,v,z,w", ("'w' in row 0", "'u', 'v', 'z'")),
        ("option_1,option_2,option_3,chosen; u,v,z,D", ("'D' in row 0", "letter or column")),
        ("option_1,option_2,option_3,best,worst; u,v,z,C,C", ("'z'", "the best", "the worst")),
        ("option_1,option_2,option_3,chosen; 3,1,2,1; 1,2,3,3", ("item '1'", "position", "row 0")),
        ("option_1,option_2,option_3,chosen; u,v,z,4", ("'4' in row 0", "position")),
        ("model_a,model_b,judge; u,v,ann; v,u,bob", ("'model_a' and 'model_b'", "--outcome")),
        ("first,second,third; u,v,z; v,z,u", ("'first' and 'second'", "--outcome")),
        ("q1,q2,q3,choice; 1,2,3,2; 2,3,4,3", ("columns found: q1, q2, q3, choice",)),
        ("model_a,Winner,winner,model_b; u,u,v,v", ()),
        ("who,u,v,Total; u,0,3,3; v,2,0,2; Total,2,3,5", ("'Total'", "row 2", "a sum")),
        ("who,u,v; u,0,.5; v,.5,0", ("'v'", "whole number")),
        ("team,opponent,result; u,v,W; v,u,L", ("cannot be told", "--sides")),
    ],
)
def test_refused(text, words):
    if not words:  # names that differ in capitals alone
        assert events_of(read(table(text))) == wins("vu")
        return
    with pytest.raises(ValueError) as refused:
        read(table(text))
    for word in words:
        assert word in str(refused.value)


def test_all_mistakes_at_once_and_at_most_five():
    rows = [("u", "v", f"word {k}") for k in range(8)]
    frame = pd.DataFrame([("", "v", "tie"), *rows, ("z", "z", "tie")])
    frame.columns = ["model_a", "model_b", "winner"]
    with pytest.raises(ValueError) as refused:
        read(frame)
    *sentences, last = str(refused.value).split("\n")
    assert len(sentences) == 5 and re.fullmatch(r"And \d more mistakes\.", last)
    few = frame.iloc[[0, 1, 9]]
    with pytest.raises(ValueError) as refused:
        read(few, verdicts={"word 0": "tie"})
    assert len(str(refused.value).split("\n")) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Names of items that are words in other tables.
        ("model_a,model_b,winner; a,b,a; b,c,c; c,a,a", wins("ab", "cb", "ac")),
        ("home,away,result; H,A,tie; A,B,H; B,H,A", wins("AB", "HB", tie=["AH"])),
        ("player1,player2,result; tie,both,1; both,u,2", wins(("tie", "both"), ("u", "both"))),
        # Columns that say something else.
        ("player1,player2,rank1,rank2,winner; u,v,3,7,u; v,z,7,9,z", wins("uv", "zv")),
        ("item_1,item_2,price_1,price_2,winner; u,v,3,4,u; v,u,4,3,u", wins("uv", "uv")),
        ("left,right,label,split; u,v,u,1; v,u,u,2", wins("uv", "uv")),
        ("winner,loser,position_1,position_2; u,v,1,2; v,z,2,1", wins("uv", "vz")),
        ("player1,player2,winner,draw; u,v,u,0; v,u,,1; z,u,z,0", wins("uv", "zu", tie=["uv"])),
        # Two sides that are not called so are those that hold the same items.
        ("pokemon_1,pokemon_2,seed_1,seed_2,winner; u,v,1,2,v; v,u,1,2,v", wins("vu", "vu")),
        (
            "set,item,question_1,question_2,chosen; s,u,1,2,1; s,v,3,4,0",
            Counter({("choice", "u, 1", "v, 3"): 1}),
        ),
    ],
)
def test_names_that_could_mislead(text, expected):
    found = events_of(read(table(text), features=None))
    if any(kind == "choice" for kind, *_ in expected):
        assert [kind for kind, *_ in found] == ["choice"]
    else:
        assert found == expected


def test_0_in_a_matrix_of_places():
    said = {"kind": "rankings", "options": ["u", "v", "z"]}
    with pytest.raises(ValueError, match="0 may be nobody; say --empty 0"):
        read(table("u,v,z; 1,2,3; 2,1,0"), **said)
    found = events_of(read(table("u,v,z; 1,2,3; 2,1,0"), empty=["0"], **said))
    assert found == Counter({("ranking", "u", "v", "z"): 1, ("ranking", "v", "u"): 1})
    empty = table("u,v,z; 1,,; 2,1,NA; 1,2,3")
    below = events_of(read(empty, unranked_last=True, **said))
    assert below == Counter(
        [("choice", "u", "v", "z"), ("ranking", "v", "u", "z"), ("ranking", "u", "v", "z")]
    )
    from_0 = events_of(read(table("u,v,z; 1,2,0; 2,1,0"), **said))
    assert from_0 == Counter({("ranking", "z", "u", "v"): 1, ("ranking", "z", "v", "u"): 1})


def test_a_list_in_a_cell_keeps_its_names():
    cells = [json.dumps(["Ann O'Hara", "é, u", "z"]), "['z', 'é, u']", "[z, Ann]"]
    found = events_of(read(pd.DataFrame({"ranking": cells})))
    assert found == Counter(
        [("ranking", "Ann O'Hara", "é, u", "z"), ("ranking", "z", "é, u"), ("ranking", "z", "Ann")]
    )


# ---- the side ------------------------------------------------------------------------------------

FAIR = [("u", "v", "a"), ("v", "u", "a"), ("u", "z", "b"), ("z", "v", "tie"), ("v", "z", "a")]


def votes(rows):
    return pd.DataFrame(rows, columns=["model_a", "model_b", "winner"])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (FAIR, ""),
        ([("u", "v", "a")] * 10 + [("v", "u", "a")] * 12, "the first one wins 100.0 %"),
        ([("u", "v", "b")] * 38 + [("v", "u", "b"), ("v", "u", "a")], "second one wins 97.5 %"),
        ([("u", "v", "a")] * 18 + [("v", "u", "b")] * 2, ""),
        ([("u", "v", "a"), ("v", "z", "b"), ("u", "z", "a")], "stand in one order"),
        ([("v", "u", "a"), ("u", "v", "a")], "it is the same in all duels"),
    ],
)
def test_which_side_is_the_first(rows, reason):
    answers = read(votes(rows))
    names = () if reason else ("side",)
    assert answers.events.covariate_names == names and reason in str(answers.read_as)
    assert read(votes(rows), side=False).events.covariate_names == ()
    if not reason:
        first = {"a": 1.0, "b": -1.0, "tie": 1.0}
        side = answers.given.covariate_differences[:, 0]
        np.testing.assert_array_equal(side, [first[row[2]] for row in rows])
        assert "being the first (model_a) has a coefficient" in str(answers.read_as)
    elif "100.0" not in reason and "same" not in reason:
        assert read(votes(rows), side=True).events.covariate_names == ("side",)


def test_side_of_numbers_is_not_of_texts():
    """9 before 10 before 11, and not as words."""
    rows = [("9", "10", "a"), ("10", "11", "b"), ("9", "11", "a")]
    assert "in one order" in str(read(votes(rows)).read_as)


def test_both_bad():
    rows = [*FAIR, ("u", "v", "tie (bothbad)"), ("v", "u", "both_bad")]
    ties = read(votes(rows))
    assert events_of(ties)["tie", "u", "v"] == 2
    assert ties.context["both_bad"].tolist() == [0] * 5 + [1] * 2
    dropped = read(votes(rows), both_bad="drop")
    assert events_of(dropped) == events_of(read(votes(FAIR)))
    assert "2 rows, in which both were bad" in str(dropped.read_as)


def test_rows_that_are_left_out_are_counted():
    rows = [*FAIR, ("u", "u", "a"), ("u", "v", "spam")]
    answers = read(votes(rows), drop_self=True, verdicts={"spam": "skip"})
    assert events_of(answers) == events_of(read(votes(FAIR)))
    assert answers.read_as.left_out == {
        "whose verdict says nothing": 1,
        "of an item against itself": 1,
    }


def test_spellings_are_joined():
    rows = [("u v", "b", "model_a"), ("U  v", "b", "model_b"), ("u v", "b", "tie")]
    frame = votes(rows)
    assert len(read(frame).item_ids) == 3
    joined = read(frame, join_spellings=True)
    name = ("b", "u v")
    assert events_of(joined) == wins(name[::-1], name, tie=[name])


def test_scores_may_be_grades_and_lower_may_win():
    frame = table("home,away,home_score,away_score; u,v,5,1; v,u,2,1; u,z,0,0; z,v,1,4")
    graded = read(frame, grades_of_margin=[1, 3])
    assert events_of(graded) == Counter(
        [("grade 2", "u", "v"), ("grade 1", "v", "u"), ("tie", "u", "z"), ("grade 2", "v", "z")]
    )
    assert events_of(read(frame, lower_wins=True)) == wins("vu", "uv", "zv", tie=["uz"])
    with pytest.raises(ValueError, match="3, 1; give numbers above 0 that rise"):
        Form(grades_of_margin=(3, 1))


def test_what_belongs_to_a_side_is_a_covariate_of_both():
    frame = votes(FAIR).assign(length_a=[5, 1, 2, 7, 3], length_b=[1, 2, 4, 8, 9])
    answers = read(frame, covariate=["length"], side=False)
    differences = answers.given.covariate_differences[:, 0]
    np.testing.assert_array_equal(differences, [4, -1, 2, -1, -6])  # winner less loser
    assert "length length_a and length_b" in str(answers.read_as)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    rows = [(*rng.choice(list("uvz"), 2, replace=False), rng.choice(["a", "b"])) for _ in range(30)]
    return spg.PreferenceGP(
        read(votes(rows)).standardised(), spg.ItemEffect(1.0), terms=[spg.Coefficients([1.0])]
    )


def test_pairs_know_their_sides(model):
    pairs = pd.DataFrame({"model_a": ["u", "v"], "model_b": ["v", "u"]})
    of_fit = spg.predict(model, pairs)["probability"]
    plain = pairs.rename(columns={"model_a": "first", "model_b": "second"})
    level = spg.predict(model, plain)["probability"]
    first = spg.predict(model, plain, at="side=1")["probability"]
    np.testing.assert_allclose(first, of_fit, rtol=1e-12)
    np.testing.assert_allclose(level.sum(), 1.0, rtol=1e-12)  # nobody stands first
    assert abs(of_fit.sum() - 1.0) > 1e-3


def test_other_tables_of_two_sides_are_scored_and_added(model):
    more = votes(FAIR[:3])
    by_hand = pd.DataFrame({"winner": list("uvz"), "loser": list("vuu"), "side": [1, 1, -1]})
    one, other = (spg.evaluate(model, duels) for duels in (more, by_hand))
    scores = [each["held_out"]["model"]["nlp_nats"] for each in (one, other)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-12)
    (one, *_), (other, *_) = (spg.update(model, duels) for duels in (more, by_hand))
    assert one.log_evidence() == pytest.approx(other.log_evidence(), rel=1e-9)


# ---- in chunks -----------------------------------------------------------------------------------


@pytest.fixture
def parts(tmp_path):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(3)
    made = slow.meetings(rng, POOLS[0], 40)
    frame = slow.two_sided(made, ("model_a", "model_b"), "winner", ("a", "b", "tie"))
    for k, part in enumerate(np.array_split(np.arange(len(frame)), 2)):
        frame.iloc[part].to_parquet(tmp_path / f"{k}.parquet", index=False)
    return tmp_path, frame


ITEMS = pd.DataFrame({"item_id": POOLS[0], "u": [0.0, 1.0, 3.0, -2.0]})


def met(events):
    """Who won against whom, on which side, and how often; of a tie, the smaller number first."""
    seen = Counter()
    rows = zip(
        events.kind, events.pairs, events.covariate_differences[:, 0], events.counts, strict=True
    )
    for kind, (one, other), side, count in rows:
        turned = kind == TIE and one > other
        key = (other, one, -side) if turned else (one, other, side)
        seen[int(kind), *key] += int(count)
    return seen


def test_two_sides_in_chunks(parts):
    folder, frame = parts
    stream, whole = spg.stream_duels(folder, ITEMS), read(frame, ITEMS)
    parts_of = [stream.in_memory(chunk).events for chunk in stream.chunks(20)]
    assert sum(map(met, parts_of), Counter()) == met(whole.events)
    assert {events.covariate_names for events in parts_of} == {("side",)}
    assert stream.read_as.columns == whole.read_as.columns


def test_a_later_file_may_not_say_more(parts):
    folder, frame = parts
    odd = frame[:3].assign(winner=["a", "b", "perhaps"])
    odd.to_parquet(folder / "1.parquet", index=False)
    with pytest.raises(ValueError, match=r"'perhaps' in row 2 of 1.parquet"):
        spg.stream_duels(folder, ITEMS)


def test_counts_cannot_be_read_in_chunks(tmp_path):
    pytest.importorskip("pyarrow")
    frame = table("player1,player2,wins1,wins2; fig,pear,3,1; plum,fig,2,2")
    frame.astype({"wins1": int, "wins2": int}).to_parquet(tmp_path / "0.parquet")
    with pytest.raises(ValueError, match=r"how often each won.*without --stream \(2 rows, 0 MiB"):
        spg.stream_duels(tmp_path, ITEMS)


def test_columns_of_a_side_that_are_not_used_have_the_names_of_the_file():
    rows = table("model_a,model_b,winner,len_a,len_b; u,v,model_a,1,2; v,u,model_a,5,3")
    assert read(rows).read_as.unused == ("len_a", "len_b")
    assert read(rows, covariate=["len"]).read_as.unused == ()


def test_positions_of_best_and_worst_begin_alike():
    rows = table("option_1,option_2,option_3,best,worst; u,v,z,0,1; v,z,u,2,1")
    expected = Counter({("best_worst", "u", "z", "v"): 1, ("best_worst", "u", "v", "z"): 1})
    assert events_of(read(rows)) == expected


SHOWN = [("u", "v", 1), ("v", "u", 0), ("u", "w", 0), ("w", "v", 1), ("v", "w", 1), ("w", "u", 0)]


@pytest.mark.parametrize("values", [(1, 0), (1, -1), ("yes", "no"), (1.0, 0.0)])
@pytest.mark.parametrize("name", ["winner_first", "shown_first"])
def test_a_column_of_who_was_shown_first_is_the_side(name, values):
    frame = pd.DataFrame(SHOWN, columns=["winner", "loser", name])
    frame[name] = np.where(frame[name] == 1, *values)
    answers = read(frame)
    assert answers.events.covariate_names == ("side",) and name not in answers.unused_columns
    differences = answers.given.covariate_differences[:, 0]
    assert differences.tolist() == [1, -1, -1, 1, 1, -1]
    said = f"Side: being the first ({name}) has a coefficient of its own (--no-side leaves it out)"
    assert said in answers.read_as.notes
    for how in ({"side": False}, {"ignore": [name]}):
        assert not read(frame, **how).events.covariate_names
    if "yes" not in values:
        assert read(frame, covariate=[name]).events.covariate_names == (name,)


def test_columns_of_who_was_shown_first_may_say_nothing():
    frame = pd.DataFrame(SHOWN, columns=["winner", "loser", "winner_first"])
    both = frame.assign(loser_first=1 - frame["winner_first"])
    assert read(both).events.covariate_names == ("side",) and not read(both).unused_columns
    for odd, words in (
        (frame.assign(winner_first=1), "it is the same in all duels (--side insists)"),
        (frame.assign(winner_first=range(6)), "winner_first is not used, as it holds '2'"),
        (both.assign(loser_first=1), "winner_first is not used, as loser_first contradicts it"),
    ):
        answers = read(odd)
        assert not answers.events.covariate_names
        assert any(words in note for note in answers.read_as.notes)


def test_dates_and_texts_that_nobody_named_are_told_with_the_options_that_take_them():
    frame = pd.DataFrame(SHOWN, columns=["winner", "loser", "round"])
    said = [f"a remark on duel {i} that is long" for i in range(6)]
    for dates in (pd.date_range("2024-01-28", periods=6), [f"{i + 20}/01/2024" for i in range(6)]):
        whole = frame.assign(day=dates, remark=said)
        one, other = asking_for_more(read(whole))
        assert one.startswith("Dates: 'day' is not used; --time day ")
        assert other.startswith("Texts: 'remark' is not used; --text ")
        assert len(asking_for_more(read(whole, time="day"))) == 1
    assert not asking_for_more(read(frame.assign(day=range(6), remark="short")))


def test_people_are_proposed_where_answers_repeat_by_them():
    frame = pd.DataFrame(SHOWN, columns=["winner", "loser", "respondent"])
    (note,) = read(frame).read_as.notes
    assert note.startswith("People: 'respondent' has 2 values with 3 duels each; --person respond")
    assert not read(frame, person="respondent").read_as.notes
    once = frame.assign(respondent=range(6))
    assert not read(once).read_as.notes  # who answers once tells of no taste
    assert not read(frame.rename(columns={"respondent": "prompt"})).read_as.notes
