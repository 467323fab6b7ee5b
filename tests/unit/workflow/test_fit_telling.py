"""What a fit says: complete, escaped, and on a page that needs no other file."""

import base64
import copy
import json
import re
from html.parser import HTMLParser

import gpflow
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.ranking import rank
from sparse_prefgp.learning.notes import fit_notes, learned_from
from sparse_prefgp.tell import Picture, as_html
from sparse_prefgp.workflow.fit_telling import facts_of, fit_report
from tests.cases import random_duels
from tests.golden_metrics import GOLDEN

ATTACK = "<script>alert('x')</script> & \"quotes\" {{ 7 * 7 }}"


def golden(kind):
    """`metrics.json` of a fit that has converged."""
    found = json.loads((GOLDEN / f"{kind}.json").read_text())
    found["fit"] |= {"seconds": 1.5, "optimiser_converged": True, "inference_sweeps": 11}
    found["fit"]["integration"] = None  # of which there is a note
    return {**found, "notes": [], "versions": {"python": "3.11.7", "gpflow": "2.11.2"}}


FIGURES = golden("duels")


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
    pictures = [Picture("a", "A picture", "What it shows.", tmp_path / "a.png")]

    def call(values=FIGURES, ranking=None, **options):
        return as_html(fit_report(values, ranking, pictures, **options))

    return call


@pytest.fixture(scope="module")
def ranking():
    model = spg.PreferenceGP(random_duels(1), gpflow.kernels.SquaredExponential())
    return rank(model, top_k=3)


def test_all_that_belongs_into_it(render):
    page = Page(render(command=["sparse-prefgp", "fit", "--items", "my items.csv"]))
    for words in (
        "Of 48 held-out duels, the model named the winner in 79.2 %, the coin 50.0 %",
        "The model is better than the linear probit by 0.1406",
        "24 items, 240 duels",
        "Duels held out at random: 48 of 240.",
        "pairs never compared in training",
        "Kernel variance, in units of the noise linear 0.0859, matern52 0.724",
        "Log evidence −102.09 nats, −0.5317 per duel, after 4 iterations in 1.5 s",
        "What it shows.",
        "sparse-prefgp fit --items 'my items.csv'",
        "gpflow 2.11.2",
        "seed 0",
    ):
        assert words in page.text
    assert "Before you rely on this" not in page.text


def test_a_page_on_choices_speaks_of_choices(render):
    text = Page(render(golden("choices"))).text
    for words in (
        "Of 48 held-out choices, the model named what was chosen in",
        "Scores on held-out choices",
        "hit rate: how often what was chosen had the largest probability.",
        "per choice, after",
        "training choices",
    ):
        assert words in text
    assert not re.search(r"\bduels?\b|\bcoin\b|winner", text)


KINDS = sorted(path.stem for path in GOLDEN.glob("*.json"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fit_is_told(render, kind):
    values = golden(kind)
    told = [str(fact) for fact in facts_of(values["fit"]) if fact.told]
    assert told[0].startswith("Log evidence ") and told[-1].startswith("Inference converged")
    assert not re.search(r"\bNone\b|\bnan\b", Page(render(values)).text)


def test_sentences_on_a_fit():
    row = {"name": "length", "mean": 0.5, "sd": 0.1, "lower": 0.336, "upper": 0.664}
    leans = [{"by": "judge", "covariate": "length", "groups": 2, "variance": 0.16}]
    rows = [row, {**row, "name": "length of Ann"}, {**row, "name": "length of Bob"}]
    ratios = {"groups": 3, "min": 0.5, "max": 2.0, "median": 1.0}
    starts = [{"log_evidence": -3.0}, {"log_evidence": None}]
    fit = {"coefficients": rows, "leans": leans, "noise_ratios": ratios, "starts": starts}
    told = [str(fact) for fact in facts_of(figures(**fit, margin=0.2, fixed_margin=True)["fit"])]
    for words in (
        "Coefficient of length: 0.5 (90 % interval 0.336 to 0.664)",
        "2 labels in judge lean by length with the standard deviation 0.4; each is in "
        "coefficients.csv",
        "Noise variance of 3 groups: 0.5 to 2 times that of the model, median 1",
        "Margin within which a duel is a tie: 0.2, as given",
        "Best of 2 starts: number 1 (log evidence -3.00, not finite)",
        "Inference converged in 11 sweeps",
    ):
        assert words in told
    assert not any("Ann" in line for line in told)
    ratios["groups"] = 1
    one = [str(fact) for fact in facts_of(figures(noise_ratios=ratios)["fit"])]
    assert "Noise variance of the one group: 1 times that of the model" in one


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


def test_everything_is_escaped(render, ranking):
    values = figures(
        approximation=ATTACK, inference=ATTACK, optimiser_message=ATTACK, converged=False
    )
    values["data"]["features"] = [ATTACK]
    values["split_description"] = ATTACK
    values["versions"] = {ATTACK: ATTACK}
    frame = ranking.frame.assign(item_id=ATTACK)
    text = render(
        values,
        spg.results.Ranking(**{**vars(ranking), "frame": frame}),
        command=ATTACK,
        notes=[ATTACK],
        data_rows=[(ATTACK, ATTACK)],
    )
    page = Page(text)
    assert "script" not in page.tags
    assert "<script" not in text
    assert page.text.count(ATTACK) >= 11


def test_best_scores_are_bold_but_never_the_coins(render):
    table = render().split("Held-out duels")[1].split("</table>")[0]
    bold = re.findall(r'best[a-z ]*">([0-9.]+)<', table)
    assert bold == ["0.7917", "0.4699", "0.6779", "0.1559", "0.1170"]


def test_all_items_are_there_and_most_are_folded(render, ranking):
    text = render(ranking=ranking)
    assert "All items" in text and "<details>" not in text
    more = spg.results.Ranking(
        **{**vars(ranking), "frame": ranking.frame.loc[[*ranking.frame.index] * 9].head(30)}
    )
    text = render(ranking=more)
    shown, _, folded = text.partition("<details>")
    assert "The first 20 of 30 items" in shown and "Those from 21 to 30" in folded
    assert folded.partition("</details>")[0].count("<tr>") == 11
    assert "top 3" in Page(text).text and all(n in Page(text).text for n in more.sentences())
    assert "Before you rely on this" not in Page(text).text  # they explain, they do not warn


def test_nothing_held_out(render):
    values = {key: value for key, value in FIGURES.items() if not key.startswith("held_out")}
    text = Page(render(values)).text
    assert "No duels were held out" in text and "Scores" not in text


ALL_WELL = {"jitter": 0.0, "evaluations": 53, "max_iterations": 50, "iterations": 40}


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
    values = figures(**{**ALL_WELL, **fit})
    (note,) = fit_notes(values)
    assert words in note and note.endswith(".")
    text = Page(render(values)).text
    assert note in text
    assert ("Before you rely on this" in text) is ("harmless" not in words)
    assert "Duels are not independent." in Page(render(notes=["Duels are not independent."])).text


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


def test_a_limit_that_ended_a_stage_names_the_sum_of_all():
    (note,) = fit_notes(figures(optimiser_converged=False, iterations=140, max_iterations=100))
    assert note == (
        "The limit of 100 iterations (max_iterations) ended a stage of the fit, which took 140 in "
        "all; more may help."
    )


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, True),
        ({"duels": 100}, False),
        ({"learned": [{"prior": "LogNormal"}]}, False),
        ({"integration": {"used": False, "reason": "so", "log_sd": {}}}, False),
    ],
)
def test_few_duels_of_which_all_counts_as_certain_are_told(more, told):
    values = figures(duels=4, learned=[{"prior": "none"}])
    values["fit"].pop("integration", None)
    values["fit"] |= more
    assert any("sure of nonsense" in note for note in fit_notes(values)) is told


@pytest.mark.parametrize(("left", "told"), [(0.5, True), (0.05, False)])
def test_it_is_told_where_few_duels_leave_much(left, told):
    values = figures(duels=60, variance_left=left)
    said = "60 duels leave 50% of the variance that differences between items had before"
    assert any(said in note for note in fit_notes(values)) is told


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
