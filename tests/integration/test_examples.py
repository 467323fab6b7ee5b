"""The worked examples of the documentation: they run, and print and draw what their pages show."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.tolerances import EXAMPLE_ABSOLUTE, EXAMPLE_PIXELS, EXAMPLE_RELATIVE
from tools import examples

pytest.importorskip("matplotlib")

pytestmark = pytest.mark.data

DOCS = ROOT / "docs"
SLOW = pytest.mark.slow
OWN = ROOT / "tests" / "data"  # sets that are small and may be passed on
# Pages and the data set that each needs, None for none.
PAGES = [
    pytest.param("examples/one-dimension.md", None, id="one-dimension"),
    pytest.param("fitting.md", None, id="fitting"),
    pytest.param("ablations.md", None, id="ablations", marks=SLOW),
    pytest.param("ablation_report.md", None, id="ablation_report", marks=SLOW),
    pytest.param("approximations.md", None, id="approximations", marks=SLOW),
    pytest.param("choosing.md", None, id="choosing", marks=SLOW),
    pytest.param("events.md", None, id="events", marks=SLOW),
    pytest.param("model.md", None, id="model", marks=SLOW),
    pytest.param("nothing-yet.md", "llm_votes", id="nothing-yet", marks=SLOW),
    pytest.param("ties.md", None, id="ties", marks=SLOW),
    pytest.param("embeddings.md", "ukp_convincing", id="embeddings", marks=SLOW),
    pytest.param("judges.md", "llm_votes", id="judges", marks=SLOW),
    pytest.param("datasets.md", "electricity", id="datasets", marks=SLOW),
    pytest.param("scale.md", None, id="scale", marks=SLOW),
    pytest.param("demo.md", None, id="demo", marks=SLOW),
    pytest.param("get-started.md", None, id="get-started", marks=SLOW),
    pytest.param("gpflow.md", None, id="gpflow", marks=SLOW),
    pytest.param("write-your-own.md", None, id="write-your-own", marks=SLOW),
    pytest.param("coming-from/bradley-terry.md", "llm_votes", id="bradley-terry", marks=SLOW),
    pytest.param("coming-from/botorch.md", "ev_choice_us", id="botorch", marks=SLOW),
    pytest.param("coming-from/gpflow-svgp.md", "ev_choice_us", id="gpflow-svgp", marks=SLOW),
    pytest.param("coming-from/plackett-luce.md", None, id="plackett-luce", marks=SLOW),
    pytest.param("coming-from/conditional-logit.md", "electricity", id="logit", marks=SLOW),
    pytest.param("coming-from/kickscore.md", "football_internationals", id="kickscore", marks=SLOW),
    pytest.param("duels.md", "train_choice", id="duels", marks=SLOW),
    pytest.param("time.md", "football_internationals", id="time", marks=SLOW),
    pytest.param("choices.md", "electricity", id="choices", marks=SLOW),
    pytest.param("people.md", "electricity", id="people", marks=SLOW),
    pytest.param("rankings.md", "formula_1", id="rankings", marks=SLOW),
    pytest.param("examples/arguments.md", "ukp_convincing", id="arguments", marks=SLOW),
    pytest.param("examples/tennis.md", "tennis_atp", id="tennis", marks=SLOW),
]


# Their commands are run by test_readme.py, one after the other, and by test_ask.py.
RUN_ELSEWHERE = {"command-line.md", "ask.md"}
CODE = re.compile(
    r"^    (?:\$ )?(?:sparse-prefgp |import |from \w+ import|print\("
    r"|\w+ = (?:spg|np|pd|gpflow|model)\.)",
    re.MULTILINE,
)


def test_every_block_of_code_is_run():
    pages = {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md")}
    with_code = {name for name, path in pages.items() if examples.blocks(path)}
    assert with_code == {page.values[0] for page in PAGES}
    for name in pages.keys() - RUN_ELSEWHERE:
        outside = re.sub(
            r"^```.*?^```$", "", pages[name].read_text(encoding="utf-8"), flags=re.S | re.M
        )
        assert CODE.findall(outside) == [], f"{name}: code belongs between fences, where it is run"


def take_data(data_set, request, monkeypatch):
    """Let a page read its data, or skip its test where they are not at hand."""
    if data_set is None:
        return
    folder = OWN if (OWN / data_set).is_dir() else request.getfixturevalue("data_dir")
    if not (folder / data_set).is_dir():
        pytest.skip(f"{data_set} is not in {folder}")
    monkeypatch.setenv(examples.DATA, str(folder))


@pytest.mark.slow
@pytest.mark.parametrize(("page", "data_set"), PAGES)
def test_the_page_states_what_its_code_prints(page, data_set, tmp_path, request, monkeypatch):
    take_data(data_set, request, monkeypatch)
    path = DOCS / page
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a reader would see it, the page does not
        printed = examples.run(path, tmp_path)
    blocks = examples.blocks(path)
    assert blocks
    for block, found in zip(blocks, printed, strict=True):
        problem = examples.difference(block.output, found, EXAMPLE_RELATIVE, EXAMPLE_ABSOLUTE)
        assert not problem, f"{page}, line {block.line}: {problem}"

    shown = set(re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", path.read_text(encoding="utf-8")))
    assert shown == {picture.name for picture in tmp_path.glob("*.png")}
    for name in shown:
        assert _differing_pixels(path.parent / name, tmp_path / name) <= EXAMPLE_PIXELS, name


def _differing_pixels(stated: Path, drawn: Path) -> float:
    from matplotlib.image import imread

    a, b = imread(stated), imread(drawn)
    assert a.shape == b.shape
    return float(np.mean(np.abs(a - b).max(-1) > 0.1))


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        ("mean 2.00, n 1,500, in 9 s\n", ""),
        ("mean 2.05, n  1,510, in 7.5 s\n\n", ""),
        ("mean 2.30, n 1,500, in 9 s\n", "2 is not near 2.3"),
        ("mean -2.00, n 1,500, in 9 s\n", "2 is not near -2"),
        ("median 2.00, n 1,500, in 9 s\n", "printed 'median"),
        ("mean 2.00, n 1,500, in 9 s\nmore\n", "1 lines are stated, 2 printed"),
        ("mean nan, n 1,500, in 9 s\n", "printed 'mean nan"),
    ],
)
def test_outputs_are_compared_as_people_would(printed, problem):
    stated = "mean 2.00, n 1,500, in 3.1 s\n"
    found = examples.difference(stated, printed, 0.05, 0.01)
    assert (problem in found) if problem else (found == "")


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("first\nsecond\nlast\n", True),
        ("first\nlast\n", True),
        ("first\nsecond\n", False),
        ("last\n", False),
    ],
)
def test_three_dots_stand_for_any_lines(printed, same):
    assert (examples.difference("first\n…\nlast\n", printed, 0.05, 0.01) == "") is same


def test_arrays_are_compared_by_their_numbers():
    # NumPy drops the zeros at the end of 0.16176300, and fills up with blanks.
    stated, printed = "tf.Tensor([0.547 0.16034616])\n", "tf.Tensor([0.547 0.161763  ])\n"
    assert examples.difference(stated, printed, 0.05, 0.0) == ""
    problem = examples.difference(stated, printed, 0.005, 0.0)
    assert problem.endswith("0.160346 is not near 0.161763")


def test_a_picture_is_no_larger_than_it_may_be(tmp_path):
    from matplotlib.image import imread, imsave

    drawn, kept = tmp_path / "drawn.png", tmp_path / "kept.png"
    noise = np.random.default_rng(0).uniform(0.4, 0.5, (200, 300, 3))
    imsave(drawn, noise)
    assert drawn.stat().st_size > examples.LARGEST_PICTURE
    examples.keep_picture(drawn, kept)
    assert kept.stat().st_size < examples.LARGEST_PICTURE
    assert _differing_pixels(drawn, kept) == 0.0
    imsave(drawn, np.zeros((20, 30, 3)))
    examples.keep_picture(drawn, kept)
    assert kept.read_bytes() == drawn.read_bytes()
    assert imread(kept).shape == (20, 30, 4)


def test_a_page_is_run_in_one_scope_and_refreshed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```python\nx = 2\n```\n\n```python\nprint(x + 1)\n```\n\n```text\nold\n```\n"
        "\n```sh\necho one; echo two > file\n```\n\n```console\nexit 1\n```\n"
    )
    folder = tmp_path / "run"
    folder.mkdir()
    assert examples.run(page, folder) == ["", "3\n", "one\n"]
    assert (folder / "file").read_text() == "two\n"
    text = examples.refreshed(page, ["", "3\n", "one\n"])
    assert "```text\n3\n```" in text
    assert "old" not in text
    assert text.count("```text") == 2
    assert Path.cwd() != folder


def test_what_a_page_sets_is_undone(tmp_path, monkeypatch):
    """A variable that names a folder which is not there would fail every test after this one."""
    monkeypatch.delenv(examples.DATA, raising=False)
    monkeypatch.setattr(examples, "ROOT", tmp_path / "clone")
    page = tmp_path / "page.md"
    code = (
        "import os",
        f"print(os.environ.get({examples.DATA!r}))",
        f"os.environ[{examples.DATA!r}] = 'nowhere'",
    )
    page.write_text("\n".join(("```python", *code, "```\n")))
    before = dict(os.environ)
    assert examples.run(page, tmp_path) == ["None\n"]
    assert os.environ == before
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert examples.run(page, tmp_path) == [f"{tmp_path / 'shared' / 'data'}\n"]
    assert os.environ == before
