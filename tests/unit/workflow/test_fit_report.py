"""The report: complete, escaped, and in need of no other file."""

import base64
import copy
import re
from html.parser import HTMLParser

import gpflow
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.ranking import rank
from sparse_prefgp.analysis.verdicts import rivals_in, rows_in
from sparse_prefgp.learning.notes import fit_notes, learned_from
from sparse_prefgp.workflow.fit_report import render_report
from sparse_prefgp.workflow.pictures import Picture
from tests.cases import random_duels

SCORES = {
    "model": {
        "accuracy": 0.8,
        "nlp_nats": 0.42,
        "nlp_bits": 0.61,
        "brier": 0.14,
        "calibration_error": 0.03,
        "duels": 1000,
    },
    "linear_probit": {
        "accuracy": 0.75,
        "nlp_nats": 0.51,
        "nlp_bits": 0.73,
        "brier": 0.17,
        "calibration_error": 0.02,
        "duels": 1000,
    },
    "coin": {
        "accuracy": 0.5,
        "nlp_nats": 0.6931,
        "nlp_bits": 1.0,
        "brier": 0.25,
        "calibration_error": 0.0,
        "duels": 1000,
    },
}
FIGURES = {
    "program": "sparse-prefgp",
    "split": "duels",
    "split_description": "Duels held out at random: 1,000 of 5,000.",
    "seed": 3,
    "data": {
        "items": 442,
        "features": ["age", "bmi"],
        "duels": 5000,
        "train_duels": 4000,
        "test_duels": 1000,
        "dropped_rows": 0,
        "unused_rows": 0,
    },
    "fit": {
        "approximation": "vfe",
        "kernel": "linear+se",
        "kernel_variances": {"linear": 0.0939, "se": 0.2456},
        "inducing": 128,
        "noise_variance": 0.5,
        "duels": 4000,
        "log_evidence": -1810.256,
        "log_evidence_per_duel": -0.45256,
        "converged": True,
        "inference": "converged: no site would move by more than the tolerance",
        "jitter": 0.0,
        "clipped": 0.0,
        "iterations": 40,
        "max_iterations": 50,
        "optimiser_converged": True,
        "optimiser_message": "CONVERGENCE",
        "evaluations": 53,
        "failed_evaluations": 0,
        "unconverged_evaluations": 0,
    },
    "held_out": SCORES,
    "held_out_unseen_pairs": {"ordered": SCORES, "either_order": SCORES},
    "versions": {"python": "3.11.7", "gpflow": "2.11.2"},
}
RANKING = {
    "rank": [2, 1],
    "item_id": ["second", "first"],
    "utility": [-0.5, 1.25],
    "sd": [0.1, 0.2],
    "p_best": [float("nan"), 0.0001],
    "outside_range": [False, True],
}
ATTACK = "<script>alert('x')</script> & \"quotes\" {{ 7 * 7 }}"


class Page(HTMLParser):
    """Text, tags and addresses of a page; complains of tags that do not match."""

    VOID = ("meta", "img", "link", "br", "hr", "input")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses, self.words = [], [], [], []
        self.feed(text)
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [v for k, v in attributes if k in ("src", "href", "srcset", "data")]
        assert not [k for k, _ in attributes if k.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


def figures(**fit):
    result = copy.deepcopy(FIGURES)
    result["fit"].update(fit)
    return result


@pytest.fixture
def render(tmp_path):
    (tmp_path / "a.png").write_bytes(b"some bytes")
    pictures = [Picture("a.png", "A picture", "What it shows.")]

    def call(values=FIGURES, ranking=RANKING, **options):
        return render_report(values, pictures, ranking, tmp_path, **options)

    return call


def test_all_that_belongs_into_it(render):
    page = Page(render(command=["sparse-prefgp", "fit", "--items", "my items.csv"]))
    for words in (
        "Of 1,000 held-out duels, the model names the winner in 80.0 %",
        "better than those of the linear probit by 0.0900 nats per duel",
        "442 items, 5,000 duels",
        "Pairs never compared in training",
        "linear 0.0939, se 0.246",
        "−1,810.26",
        "age, bmi",
        "What it shows.",
        "sparse-prefgp fit --items 'my items.csv'",
        "gpflow 2.11.2",
        "seed 3",
    ):
        assert words in page.text.replace("\u00a0", " ")
    assert "Before you rely on this" not in page.text


def test_utilities_in_time_are_measured_by_elo(render):
    shifted = {"elo": 0.47, "model_ahead": 0.4, "elo_ahead": 0.39}
    more = {name: {**SCORES["model"], "nlp_nats": nats} for name, nats in shifted.items()}
    text = Page(render({**FIGURES, "held_out": {**SCORES, **more}})).text
    for words in (
        "in 80.0 %, Elo in 80.0 %.",
        "Its probabilities are better than those of Elo by 0.0500 nats per duel.",
        "The updated probabilities are worse than those of Elo by 0.0100 nats per duel.",
    ):
        assert words in text.replace("\u00a0", " ")


def test_a_probit_that_knows_something_is_no_coin(render):
    assert rivals_in(SCORES) == ["coin", "linear_probit"]
    blind = {**SCORES, "linear_probit": SCORES["coin"]}
    assert rivals_in(blind) == ["coin"]
    assert rivals_in({**blind, "elo": SCORES["model"]}) == ["coin", "elo"]
    assert rivals_in({**SCORES, "elo": SCORES["model"]}) == ["coin", "linear_probit", "elo"]
    assert ("linear_probit", "linear probit") in rows_in(SCORES)
    assert rows_in(blind) == [("model", "model"), ("coin", "linear probit, coin")]
    page = Page(render({**FIGURES, "held_out": blind})).text
    assert "linear probit, coin" in page.replace("\u00a0", " ")


def test_coefficients_without_those_of_each_judge(render):
    row = {"name": "length", "mean": 0.5, "sd": 0.1, "lower": 0.336, "upper": 0.664}
    leans = [{"by": "judge", "covariate": "length", "groups": 2, "variance": 0.16}]
    rows = [row, {**row, "name": "length of Ann"}, {**row, "name": "length of Bob"}]
    text = Page(render(figures(coefficients=rows, leans=leans))).text
    assert "length 0.5 (0.336 to 0.664)" in text and "Ann" not in text
    assert "of 2 labels in judge by length, standard deviation 0.4" in text
    alone = Page(render(figures(coefficients=[row], leans=[]))).text
    assert "length 0.5 (0.336 to 0.664)" in alone and "judge" not in alone


def test_it_needs_no_other_file_and_no_script(render):
    text = render()
    page = Page(text)
    picture = base64.b64encode(b"some bytes").decode()
    assert page.addresses == [f"data:image/png;base64,{picture}"]
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?:|url\(|@import", text)
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert policy and policy[1].startswith("default-src 'none'; img-src data:;")
    assert text.index(policy[0]) < text.index("<title>") and "style=" not in text


def test_everything_is_escaped(render):
    values = figures(
        approximation=ATTACK, inference=ATTACK, optimiser_message=ATTACK, converged=False
    )
    values["data"]["features"] = [ATTACK]
    values["split_description"] = ATTACK
    values["versions"] = {ATTACK: ATTACK}
    ranking = {**RANKING, "item_id": [ATTACK, "x"]}
    text = render(
        values,
        ranking,
        command=ATTACK,
        notes=[ATTACK],
        data_rows=[(ATTACK, ATTACK)],
        title=ATTACK,
    )
    page = Page(text)
    assert "script" not in page.tags
    assert "<script" not in text and "49" not in text
    assert page.text.count(ATTACK) >= 11


def test_best_scores_are_bold_but_never_the_coins(render):
    table = render().split("All held-out duels")[1].split("</table>")[0]
    bold = re.findall(r'best">([0-9.]+)<', table)
    assert bold == ["0.8000", "0.4200", "0.6100", "0.1400", "0.0200"]


def test_ranking_in_order_with_marks(render):
    text = Page(render()).text.replace("\u00a0", " ")
    assert "1 first 1.250 0.200 < 0.1 % yes 2 second −0.500 0.100 – no" in text
    assert "outside the range" in text
    inside = Page(render(ranking={**RANKING, "outside_range": [False, False]})).text
    assert "outside the range" not in inside
    assert "The first 2 items" in text and "items of" not in text
    many = {"rank": range(1, 31), "item_id": range(30), "utility": [0.0] * 30, "sd": [1.0] * 30}
    assert "The first 20 items of 30" in Page(render(ranking=many)).text


def test_nothing_held_out_and_few_figures(render):
    text = Page(render({"fit": {"approximation": "exact", "kernel": "se"}})).text
    assert "No duels were held out" in text and "Scores" not in text


def test_a_worse_model_is_said_to_be_worse(render):
    values = copy.deepcopy(FIGURES)
    values["held_out"]["model"]["nlp_nats"] = 0.6
    assert "worse than those of the linear probit by 0.0900 nats" in Page(render(values)).text


def test_infinite_scores_are_shown(render):
    values = copy.deepcopy(FIGURES)
    values["held_out"]["model"]["nlp_nats"] = float("inf")
    text = Page(render(values)).text
    assert "not finite" in text and "names the winner" in text


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        ({"converged": False, "inference": "stopped at 500 sweeps"}, "stopped at 500 sweeps"),
        ({"optimiser_converged": False, "iterations": 50}, "limit of 50 iterations"),
        ({"optimiser_converged": False, "optimiser_message": "ABNORMAL"}, "early: ABNORMAL"),
        (
            {"jitter": 1e-13},
            "A harmless jitter of 1.0e-13 was added to the diagonal of a covariance.",
        ),
        ({"jitter": 1e-5}, "jitter of 1.0e-05 was added to the diagonal of a covariance, which"),
        ({"jitter": 1e-13, "noise_variance": None}, "; compare it with the variance of the kernel"),
        (
            {"jitter": 1e-13, "kernel_variances": {"se": 1e-9}},
            "may move the figures; leave out items or inducing inputs that nearly coincide.",
        ),
        ({"clipped": 1e-6}, "-1.0e-06"),
        ({"failed_evaluations": 2}, "2 of 53 evaluations failed"),
        ({"unconverged_evaluations": 3}, "3 of 53 evaluations"),
        ({"negative_variances_set_to_zero": 4}, "4 variances"),
        ({"idle_kernel_terms": ["linear"]}, "kernel term linear"),
        (
            {"idle_kernel_terms": ["item"], "kernel_variances": {"item": 1e-9}},
            "left to the kernel: the duels tell no item from another.",
        ),
        (
            {"idle_kernel_terms": ["se"], "kernel_variances": {"se": 1e-9}},
            "tell no item from another by its features",
        ),
        ({"weight": 2e-10}, "add up to 2e-10, which is less than one duel"),
    ],
)
def test_notes_say_what_gives_reason_to_doubt(render, fit, words):
    (note,) = fit_notes(figures(**fit))
    assert words in note and note.endswith(".")
    text = Page(render(figures(**fit), notes=["Duels are not independent."])).text
    assert "Before you rely on this" in text
    assert note in text and "Duels are not independent." in text


def test_notes_of_two_fits_say_whose_they_are_and_stand_once():
    values = figures(limits=["A limit.", "Another."], optimiser_converged=False)
    values["fit"] |= {"iterations": 100, "max_iterations": 100}
    values["refit_fit"] = {**values["fit"], "limits": ["A limit."], "optimiser_converged": True}
    assert fit_notes(values) == [
        "A limit.",
        "The fit to the training duels: Another.",
        "The limit of 100 iterations (max_iterations) ended the fit to the training duels; more "
        "may help.",
    ]


@pytest.mark.parametrize(("gain", "nearly"), [(3.1e-5, True), (2e-4, False), (None, False)])
def test_a_limit_that_came_when_the_fit_had_nearly_settled(gain, nearly):
    more = {"iterations": 100, "max_iterations": 100, "least_gain": 1e-5, "last_gain": gain}
    (note,) = fit_notes(figures(optimiser_converged=False, **more))
    assert note == "The limit of 100 iterations (max_iterations) ended the fit" + (
        ", which had nearly settled: the last 10 iterations brought 3.1e-05 nats per duel."
        if nearly
        else "; more may help."
    )


def test_of_how_many_duels_the_kept_model_has_learned():
    values = {"data": {"duels": 760, "train_duels": 608}, "fit": {"unit": "duel"}}
    some = "Learned from 608 of 760 duels; fit --refit (refit=True) learns from all."
    assert learned_from(values) == some
    assert learned_from({**values, "refit_fit": {}}) == "Learned from all 760 duels."
    assert learned_from({"data": {"rows": 3}}) == learned_from({}) == ""


def test_both_fits_of_a_refit(render):
    values = figures()
    values["refit_fit"] = {**values["fit"], "duels": 5000, "converged": False, "inference": "lost"}
    text = Page(render(values)).text
    assert "The fit to the training duels" in text and "The fit to all duels" in text
    assert "Inference of the fit to all duels did not converge: lost." in text


def test_one_candidate_of_several_sizes_is_the_chosen_one(render):
    made = figures()
    names = ["se/vfe/8", "se/vfe/16", "se/vfe"]
    scored = {"status": "ok", "nlp_nats": 0.4, "nlp_se": 0.1}
    found = [{**scored, "candidate": name} for name in names]
    made["automatic"] = {"candidates": found, "chosen": "se/vfe/16", "reason": "So it is."}
    text = Page(render(made)).text
    rows = [re.search(rf"{name} 0\.4000 .*? (ok|chosen)", text).group(1) for name in names]
    assert rows == ["ok", "chosen", "ok"]


def test_a_picture_that_is_missing(tmp_path):
    with pytest.raises(OSError, match=re.escape("gone.png")):
        render_report(FIGURES, [("gone.png", "Gone", "Gone.")], RANKING, tmp_path)


def test_what_rank_returned_brings_its_own_notes(render):
    model = spg.PreferenceGP(random_duels(1), gpflow.kernels.SquaredExponential())
    ranking = rank(model, top_k=3)
    text = Page(render(ranking=ranking)).text
    assert "chance of the top 3" in text
    assert all(note in text for note in ranking.notes())
    assert "Before you rely on this" not in text  # they explain, they do not warn
