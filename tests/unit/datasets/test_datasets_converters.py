"""Public files, made small by hand in their own form, become the tidy tables."""

from __future__ import annotations

import gzip
import io
import zipfile
from datetime import date, timedelta

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

from sparse_prefgp.datasets import arguments, converters, describe, tennis
from sparse_prefgp.datasets.loading import write
from tests.reference import slow_tennis
from tests.tolerances import ROUNDING

pytestmark = pytest.mark.data


def match(when=19910107, winner=1, loser=2, **other):
    """A row of a tennis file."""
    row = {
        "tourney_id": "1991-301",
        "surface": "Hard",
        "tourney_level": "A",
        "tourney_date": when,
        "score": "6-4 6-1",
        "best_of": 3,
        "round": "R32",
    }
    for side, player in (("winner", winner), ("loser", loser)):
        row |= {
            f"{side}_id": player,
            f"{side}_hand": "R",
            f"{side}_ht": 180.0 + player,
            f"{side}_age": 20.0 + player,
            f"{side}_rank": 10.0 * player,
            f"{side}_rank_points": 100.0 * player,
        }
    return row | other


def tidied(*rows):
    found = tennis.convert(pd.DataFrame(list(rows)))
    return found["items.csv.gz"], found["duels.csv.gz"]


def test_a_tennis_match_becomes_two_items_and_a_duel():
    items, duels = tidied(match(winner=2, loser=1, winner_hand="L", score="6-4 3-0 RET"))
    assert items.to_dict("records") == [
        {
            "item_id": i,
            "player_id": i + 1,
            "date": "1991-01-07",
            "log_rank": round(np.log(10 * (i + 1)), 4),
            "log_points": round(np.log(1 + 100 * (i + 1)), 4),
            "age": 21.0 + i,
            "height_cm": 181.0 + i,
            "height_known": 1,
            "left_handed": i,
            "matches_52w": 0,
            "win_rate_52w": 0.5,
            "surface_matches_104w": 0,
            "surface_win_rate_104w": 0.5,
            "hard": 1,
            "clay": 0,
            "grass": 0,
            "carpet": 0,
        }
        for i in range(2)
    ]
    assert duels.to_dict("records") == [
        {
            "winner": 1,
            "loser": 0,
            "date": "1991-01-07",
            "level": "A",
            "round": "R32",
            "best_of": 3,
            "retired": 1,
        }
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"score": "W/O"},
        {"score": None},
        {"score": "UNP"},
        {"surface": None},
        {"winner_rank": np.nan},
        {"loser_rank_points": np.nan},
        {"loser_age": np.nan},
        {"tourney_date": 19901231},
    ],
)
def test_tennis_matches_that_are_left_out(wrong):
    items, duels = tidied(match(), match(winner=3, loser=4) | wrong)
    assert list(items["player_id"]) == [1, 2]
    assert len(duels) == 1


def test_only_played_matches_count_and_only_earlier_ones():
    items, _ = tidied(
        match(when=19900501),
        match(when=19900601, surface="Clay", score="W/O"),
        match(when=19900701, surface="Clay", winner_rank=np.nan),  # counts, though it is not a duel
        match(),
        match(round="R16"),  # the same date does not count
    )
    assert list(items["matches_52w"]) == [2, 2]
    assert list(items["win_rate_52w"]) == [0.75, 0.25]
    assert list(items["surface_matches_104w"]) == [1, 1]


def test_windows_are_of_364_and_728_days():
    start = date(1995, 1, 2)

    def ago(days):
        return int((start - timedelta(days=days)).strftime("%Y%m%d"))

    before = [match(when=ago(days)) for days in (364, 365, 728, 729)]
    items, _ = tidied(*before, match(when=ago(0)))
    last = items[items["date"] == "1995-01-02"]
    assert list(last["matches_52w"]) == [1, 1]
    assert list(last["surface_matches_104w"]) == [3, 3]


def test_levels_of_qualifying_and_challengers():
    rows = [("G", "Q1"), ("G", "QF"), ("A", "Q3"), ("C", "Q1"), ("C", "SF"), ("F", "RR")]
    made = [match(tourney_level=level, round=name) for level, name in rows]
    assert list(tidied(*made)[1]["level"]) == ["Q", "G", "Q", "C", "C", "F"]


def test_heights_are_filled_from_the_player_or_the_median():
    items, _ = tidied(
        match(),
        match(when=19910114, winner=1, loser=3, winner_ht=np.nan, loser_ht=np.nan),
    )
    late = items[items["date"] == "1991-01-14"]
    assert list(late["height_cm"]) == [181.0, 181.5]
    assert list(late["height_known"]) == [0, 0]


def test_a_player_at_two_tournaments_of_a_date_is_two_items():
    items, duels = tidied(match(), match(tourney_id="1991-302", loser=3))
    assert list(items["player_id"]) == [1, 2, 1, 3]
    assert duels[["winner", "loser"]].to_numpy().tolist() == [[0, 1], [2, 3]]


def test_tennis_agrees_with_loops():
    rng = np.random.default_rng(5)
    rows = []
    for i in range(400):
        winner, loser = rng.permutation(12)[:2]
        week = date(1989, 1, 2) + timedelta(weeks=int(rng.integers(200)))
        rows.append(
            match(
                when=int(week.strftime("%Y%m%d")),
                winner=int(winner) + 1,
                loser=int(loser) + 1,
                tourney_id=f"{week.year}-{rng.integers(3)}",
                surface=str(rng.choice(["Hard", "Clay", "Grass", "Carpet"])),
            )
            | ({"winner_rank": np.nan} if i % 17 == 0 else {})
            | ({"surface": None} if i % 23 == 0 else {})
        )
    # One surface for each tournament, as in life.
    surface = {}
    for row in rows:
        key = (row["tourney_id"], row["tourney_date"])
        if row["surface"] is not None:
            row["surface"] = surface.setdefault(key, row["surface"])
    items, duels = tidied(*rows)
    wanted, pairs = slow_tennis.tidy([{**row, "surface": row["surface"] or ""} for row in rows])
    assert len(items) == len(wanted) and len(duels) == len(pairs)
    by_key = {entry["key"]: entry for entry in wanted}
    # The converter's own keys: dates and players, with what tells tournaments of a date apart.
    columns = [name for name in wanted[0] if name not in ("key", "surface")]
    for when, player in {(key[0], key[2]) for key in by_key}:
        text = f"{when // 10_000}-{when // 100 % 100:02d}-{when % 100:02d}"
        mine = items[(items["date"] == text) & (items["player_id"] == player)]
        theirs = [by_key[key] for key in by_key if (key[0], key[2]) == (when, player)]
        assert sorted(map(tuple, mine[columns].to_numpy().tolist())) == sorted(
            tuple(entry[name] for name in columns) for entry in theirs
        )
        names = [s for s in slow_tennis.SURFACES for _ in range(int(mine[s].sum()))]
        assert sorted(names) == sorted(entry["surface"] for entry in theirs)
    players = items["player_id"].to_numpy()
    mine = zip(duels["date"], players[duels["winner"]], players[duels["loser"]], strict=True)
    assert sorted(mine) == sorted(
        (f"{a[0] // 10_000}-{a[0] // 100 % 100:02d}-{a[0] % 100:02d}", a[2], b[2]) for a, b in pairs
    )


def test_tennis_files_of_the_tour_come_first(tmp_path):
    for name, row in (
        ("atp_matches_qual_chall_1991.csv", match(tourney_level="C", tourney_id="a", minutes=9)),
        ("atp_matches_1991.csv", match(tourney_id="b", minutes=8)),
    ):
        pd.DataFrame([row]).to_csv(tmp_path / name, index=False)
    files = {path.name: path for path in tmp_path.iterdir()}
    assert list(tennis.tidy(describe("tennis_atp"), files)["duels.csv.gz"]["level"]) == ["A", "C"]


ARGUMENT = "<{0}><id>{1}</id><text>{2}</text></{0}>"
VOTE = "<mTurkAssignment>{}<value>{}</value></mTurkAssignment>"


def pair(first, second, *votes):
    """A judged pair in the form of the corpus; arguments are (id, text), votes (worker, value)."""
    arguments_of = ARGUMENT.format("arg1", *first) + ARGUMENT.format("arg2", *second)
    said = "".join(
        VOTE.format(f"<turkID>{worker}</turkID>" if worker else "", value)
        for worker, value in votes
    )
    return (
        f"<annotatedArgumentPair><id>{first[0]}_{second[0]}</id>{arguments_of}"
        f"<mTurkAssignments>{said}</mTurkAssignments></annotatedArgumentPair>"
    )


def xml(*pairs):
    return f'<?xml version="1.0"?><list>{"".join(pairs)}</list>'.encode()


A, B, C = ("arg20", "Books are good."), ("arg3", "TV wins, I say!"), ("arg100", "No &amp; never.")
D, E = ("7", "Cats."), ("arg1", "Dogs are\nbetter.")
VOTES = {
    "tv_books": xml(
        pair(A, B, ("w1", "a1"), ("w2", "equal"), ("w3", "a2")),
        pair(C, A, ("w3", "a2"), ("w1", "a2")),
    ),
    "pets_dogs": xml(pair(D, E, ("w2", "a2"), (None, "a1"))),
}
GOLD = {
    "tv_book-with-another-name": b"#id\tlabel\ta1\ta2\narg100_arg20\ta2\tNo\tBooks\n",
    "pets_dogs": b"#id\tlabel\ta1\ta2\n7_arg1\ta1\tCats.\tDogs \xc2\xabare\xc2\xbb\n",
}


def test_the_arguments_of_the_corpus(tmp_path):
    found = arguments.tidy(describe("ukp_convincing"), archive(tmp_path / "corpus.zip"))
    items = found["items.csv.gz"]
    # Debates by name, arguments by number.
    assert list(items["source_id"]) == ["arg1", "7", "arg3", "arg20", "arg100"]
    assert list(items["debate"]) == [0, 0, 1, 1, 1]
    assert list(items["item_id"]) == [0, 1, 2, 3, 4]
    duels = found["duels.csv.gz"]
    assert list(duels.columns) == ["winner", "loser", "annotator", "pair_id", "debate"]
    # Workers as they come: w2, somebody unnamed, w1, w3.
    assert duels.to_numpy().tolist() == [
        [0, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [3, 2, 2, 1, 1],
        [2, 3, 3, 1, 1],
        [3, 4, 3, 2, 1],
        [3, 4, 2, 2, 1],
    ]
    assert found["ties.csv.gz"].to_dict("records") == [
        {"item_a": 3, "item_b": 2, "annotator": 0, "pair_id": 1}
    ]
    assert found["gold_duels.csv.gz"].to_numpy().tolist() == [[1, 0, 0], [3, 4, 1]]
    assert list(found["debates.csv"]["name"]) == ["pets_dogs", "tv_books"]
    assert found["texts.csv.gz"]["text"].tolist()[:2] == ["Dogs are\nbetter.", "Cats."]
    assert np.isfinite(items.drop(columns="source_id").to_numpy(dtype=float)).all()


def test_control_characters_in_a_text_are_blanks(tmp_path):
    for number in range(32):
        for written in (f"&#{number};", f"&#x{number:x};", f"&#x{number:X};"):
            votes = {"a": xml(pair(("arg1", f"a{written}b"), B, ("w", "a1")))}
            files = archive(tmp_path / "corpus.zip", {}, votes)
            texts = arguments.tidy(describe("ukp_convincing"), files)["texts.csv.gz"]
            kept = chr(number) if chr(number) in "\t\n\r" else " "
            assert texts["text"][0] == f"a{kept}b"


def archive(path, gold=GOLD, votes=VOTES):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("corpus-master/README.md", "words")
        for name, content in votes.items():
            file.writestr(f"corpus-master/data/UKPConvArg1-full-XML/{name}.xml", content)
        for name, content in gold.items():
            file.writestr(f"corpus-master/data/UKPConvArg1Strict-CSV/{name}.csv", content)
        file.writestr("corpus-master/data/UKPConvArg1Strict-XML/x.xml", "<list/>")
    return {"corpus.zip": path}


def test_the_surface_of_a_text():
    found = arguments.text_features(["I can't see. WOW, really?", "see www.x.org (now)!"])
    first, second = found.to_dict("records")
    assert first["log_words"] == round(np.log(6), 5)
    assert first["log_sentences"] == round(np.log(3), 5)
    assert first["words_per_sentence"] == 2.5
    assert first["share_first_person_sg"] == first["share_negation"] == 0.2
    assert first["share_modal"] == first["share_uppercase_words"] == first["commas_per_word"] == 0.2
    assert first["questions_per_sentence"] == 0.5
    assert first["starts_capital"] == 1 and second["starts_capital"] == 0
    assert first["share_rare_words"] == 0.8  # all but "see"
    assert second["has_url"] == 1 and first["has_url"] == 0
    assert second["exclamations_per_sentence"] == 1
    assert second["parentheses_per_word"] == 0.2
    assert list(found.columns[-1:]) == ["parentheses_per_word"]  # no word is in enough texts


def test_directions_part_texts_by_their_words():
    about = ["cat dog pet food", "pet dog cat bowl", "dog cat pet walk"] * 3
    other = ["stock bond cash tax", "cash bond stock fund", "bond stock cash loan"] * 3
    found = arguments.text_features(about + other)
    lsa = found[[name for name in found.columns if name.startswith("lsa_")]].to_numpy()
    assert (np.sign(lsa[:9, 0]) == np.sign(lsa[0, 0])).all()
    assert (np.sign(lsa[9:, 0]) == -np.sign(lsa[0, 0])).all()
    # Centred, and uncorrelated, to the five digits that are kept.
    np.testing.assert_allclose(lsa.sum(axis=0), 0, atol=len(lsa) * 1e-5)


def test_car_choices(tmp_path):
    names = "hev phev10 phev20 phev40 bev75 bev100 bev150 phevFastcharge bevFastcharge price opCost"
    names = [*names.split(), "accelTime", "american", "japanese", "chinese", "skorean"]
    rows = [
        # id, obsnum, choice, price
        (5, 1, 0, 10),
        (5, 1, 1, 20),
        (5, 1, 0, 30),
        (5, 2, 1, 20),
        (5, 2, 0, 20),  # equal to the chosen one
        (5, 2, 0, 10),
        (9, 3, 1, 40),
        (9, 3, 0, 10),
        (9, 3, 0, 20),
    ]
    lines = [",".join(["id", "obsnum", "choice", *names, "weights"])]
    for person, question, choice, price in rows:
        values = ["0"] * len(names)
        values[names.index("price")] = str(price)
        lines.append(",".join([str(person), str(question), str(choice), *values, f"0.{person}"]))
    path = tmp_path / "cars_us.csv"
    path.write_bytes("\r".join(lines).encode())  # as in the public file
    found = converters.cars(describe("ev_choice_us"), {"cars_us.csv": path})
    items, duels = found["items.csv"], found["duels.csv.gz"]
    assert list(items["price"]) == [10, 20, 30, 40]
    assert list(items.columns)[8:12] == ["phev_fastcharge", "bev_fastcharge", "price", "op_cost"]
    assert duels.to_numpy().tolist() == [
        [1, 0, 0, 1, 0.5],
        [1, 2, 0, 1, 0.5],
        [1, 0, 0, 2, 0.5],
        [3, 0, 1, 3, 0.9],
        [3, 1, 1, 3, 0.9],
    ]


def test_train_choices(tmp_path):
    answers = ("choice1", "choice2")
    names = [f"{name}{end}" for end in "12" for name in ("price", "time", "change", "comfort")]
    rows = [(1, answers[0], 2400, 150, 0, 1, 4000, 150, 0, 1)]
    rows += [(1, answers[1], 4000, 115, 0, 0, 2400, 150, 0, 1)]
    rows += [(7, answers[0], 2975, 108, 0, 0, 4000, 115, 0, 0)]
    table = pd.DataFrame(rows, columns=["id", "choice", *names])
    path = tmp_path / "train_data.csv.gz"
    with gzip.open(path, "wt") as file:
        table.to_csv(file, index=False)
    found = converters.trains(describe("train_choice"), {path.name: path})
    assert found["items.csv"].to_numpy().tolist() == [
        [0, 24.0, 150, 0, 1],
        [1, 40.0, 115, 0, 0],
        [2, 29.75, 108, 0, 0],
        [3, 40.0, 150, 0, 1],
    ]
    assert found["duels.csv"].to_numpy().tolist() == [[0, 3, 0], [0, 1, 0], [2, 1, 1]]


ARFF = """% words, as in the public files
@relation 'abalone'
@attribute 'Sex' { M, F, I}
@attribute 'Whole weight' real
@attribute 'Class_Rings' integer
@data
M,0.514,15
I,0.2255,7
"""


@pytest.mark.parametrize("mark", [",", " ", ", "])
def test_arff(tmp_path, mark):
    path = tmp_path / "abalone.arff"
    head, rows = ARFF.split("@data")
    path.write_text(head + "@data" + rows.replace(",", mark))
    frame = converters.arff(describe("abalone"), {path.name: path})["abalone.csv"]
    assert list(frame.columns) == ["sex_m", "sex_f", "sex_i", "whole_weight", "target"]
    assert frame.to_numpy().tolist() == [[1, 0, 0, 0.514, 15], [0, 0, 1, 0.2255, 7]]
    for broken, reason in (
        ("nothing of the kind", "not enough values to unpack"),
        (ARFF.replace("M,0.514,15", "X,0.514,15"), "'X' is not in list"),
        (ARFF.replace("M,0.514,15", "M,much,15"), "'much'"),
        (ARFF.replace("M,0.514,15", "M,0.514"), r"argument 2 is longer than argument 1"),
        ("<html>", "not enough values to unpack"),
    ):
        path.write_text(broken)
        with pytest.raises(ValueError, match=reason):
            converters.arff(describe("abalone"), {path.name: path})


def test_statlib(tmp_path):
    path = tmp_path / "boston.txt"
    homes = np.arange(28).reshape(2, 14) / 7
    lines = [" The Boston house-price data", " CRIM     per capita crime rate by town", ""]
    for home in homes:
        lines += [" ".join(f"{x:.5f}" for x in half) for half in (home[:11], home[11:])]
    path.write_text("\n".join(lines))
    frame = converters.boston(describe("boston"), {path.name: path})["boston.csv"]
    assert frame.columns[0] == "crim" and frame.columns[-1] == "target" and len(frame) == 2
    np.testing.assert_allclose(frame.to_numpy(), homes.round(5), rtol=ROUNDING)
    path.write_text("\n".join(lines[:-1]))
    with pytest.raises(ValueError, match="reshape array of size 25"):
        converters.boston(describe("boston"), {path.name: path})


def test_kin40k_has_its_two_parts(tmp_path):
    files = {}
    for part, rows in (("train", 2), ("test", 3)):
        for what, width in (("data", 8), ("labels", 1)):
            name = f"kin40k_{part}_{what}.asc"
            files[name] = tmp_path / name
            np.savetxt(files[name], np.arange(rows * width).reshape(rows, width))
    found = converters.kin40k(describe("kin40k"), files)
    assert found["train.csv.gz"].shape == (2, 9) and found["test.csv.gz"].shape == (3, 9)
    assert list(found["test.csv.gz"]["target"]) == [0, 1, 2]
    assert list(found["test.csv.gz"]["x1"]) == [0, 8, 16]


def test_sarcos(tmp_path):
    from scipy.io import savemat

    array = np.arange(56.0).reshape(2, 28)
    path = tmp_path / "sarcos_inv_test.mat"
    savemat(path, {"sarcos_inv_test": array})
    found = converters.sarcos(describe("sarcos_test"), {path.name: path})["sarcos_test.npz"]
    write(tmp_path / "sarcos_test.npz", found)
    with np.load(tmp_path / "sarcos_test.npz") as arrays:
        np.testing.assert_array_equal(arrays["x"], array[:, :21])
        np.testing.assert_array_equal(arrays["y"], array[:, 21:])


def test_snelson(tmp_path):
    path = tmp_path / "SPGP_dist.zip"
    content = {"train_inputs": "1\n2\n", "train_outputs": "3\n4\n", "test_inputs": "5\n6\n7\n"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("SPGP_dist/spgp_lik.m", "code")
        for name, text in content.items():
            file.writestr(f"SPGP_dist/{name}", text)
    path.write_bytes(buffer.getvalue())
    found = converters.snelson(describe("snelson1d"), {path.name: path})
    assert found["train.csv"].to_numpy().tolist() == [[1, 3], [2, 4]]
    assert list(found["test_inputs.csv"]["x"]) == [5, 6, 7]
