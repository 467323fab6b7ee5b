"""Configurations of studies: what they expand to, and every mistake in one sentence."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("pydantic")

from sparse_prefgp.lab.ablation import expand, read_study, study_from
from sparse_prefgp.lab.ablation.runs import RunSettings, reference_of
from sparse_prefgp.lab.ablation.study import _PARTS
from tests.conftest import ROOT
from tests.together import sentence

GOOD: dict[str, Any] = {
    "name": "small",
    "title": "A small study",
    "data": {
        "made": {
            "items": 20,
            "features": 2,
            "duels": 60,
            "kernel": "se",
            "variance": 4.0,
            "lengthscale": 1.0,
            "noise": 0.5,
        }
    },
    "split": {"by": "duels", "test_fraction": 0.25},
    "kernels": ["se"],
    "approximations": ["exact", "vfe", "prior-power", "subset:30"],
    "engines": ["ep"],
    "inducing": [4, 8],
    "inducing_inputs": ["kmeans", "learned"],
    "hyperparameters": ["fixed", "joint"],
    "seeds": [0, 1],
    "iterations": 3,
    "exact_reference": True,
    "baselines": True,
}


def changed(**values: Any) -> dict[str, Any]:
    """The good study with other values; a dot leads into a part, and None takes a key out."""
    found = {key: dict(v) if isinstance(v, dict) else v for key, v in GOOD.items()}
    for path, value in values.items():
        *parts, last = path.split("__")
        place = found
        for part in parts:
            place[part] = dict(place[part])
            place = place[part]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return found


def test_expansion() -> None:
    runs = expand(study_from(GOOD))
    # exact and subset have one run for each kind of hyperparameters, m and Z or not.
    per_seed = 2 + 2 * (1 + 1 + 2 * 2 * 2)
    assert len(runs) == 2 * per_seed == len({run.name for run in runs})
    names = {run.name for run in runs}
    assert "made-se-vfe-ep-m4-kmeans-joint-s0" in names
    assert "made-se-prior-power0.5-ep-m8-learned-fixed-s1" in names
    assert "made-se-exact-ep-fixed-s1" in names and "made-se-subset30-ep-joint-s0" in names
    assert "made-linear-probit-s1" in names and "made-coin-s0" in names
    for values, number in (({}, 2), ({"at": {"se": {"variance": 2}}}, 4)):
        study = study_from(changed(**values))
        assert len({reference_of(study, run) for run in expand(study)} - {None}) == number


def test_names_of_runs_are_plain() -> None:
    names = ["pitc:who is it?", "pitc:a/../../../../esc", "pitc:..\\esc"]
    study = study_from(changed(data={"set": "Ä b"}, approximations=names))
    for run in expand(study):
        assert re.fullmatch(r"[A-Za-z0-9._+-]+", run.name), run.name


def test_learning_curves() -> None:
    runs = expand(study_from(changed(split__max_train=[20, 10], seeds=[3])))
    assert {run.max_train for run in runs} == {10, 20}
    assert "made-se-vfe-ep-m4-kmeans-joint-t10-s3" in {run.name for run in runs}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (changed(approximation=["vfe"]), ["unknown key 'approximation'", "'approximations'?"]),
        (changed(data__sett="boston"), ["unknown key 'sett' in 'data'", "did you mean 'set'?"]),
        (changed(data__made__itms=3), ["unknown key 'itms' in 'data.made'", "'items'"]),
        (changed(zzz=3), ["unknown key 'zzz'", "choose from name"]),
        (changed(seeds=None), ["has no 'seeds'; add it"]),
        (changed(data__made__noise=None), ["has no 'noise' in 'data.made'"]),
        (changed(iterations="many"), ["'many' for 'iterations'", "a valid integer"]),
        (changed(iterations=0), ["has 0 for 'iterations'", "equal to 1"]),
        (changed(inducing=[4, 2.5]), ["2.5 for 'inducing.1'"]),
        (changed(seeds=[-1]), ["-1 for 'seeds.0'", "equal to 0"]),
        (changed(seeds=[]), ["[] for 'seeds'", "at least 1 item"]),
        (changed(seeds=[1, 1]), ["'1' twice in seeds"]),
        (changed(approximations=["prior-power", "prior-power:0.5"]), ["'prior-power0.5' twice"]),
        (changed(approximations=["pitc:a b", "pitc:a_b"]), ["'pitca_b' twice"]),
        (changed(approximations=["vfee"]), ["vfee", "vfe"]),
        (changed(engines=["epp"]), ["epp"]),
        (changed(kernels=["rbf"]), ["rbf", "or --import its module"]),
        (changed(kernels=["item"]), [sentence("effects_of_items_alone", "inducing")[:-1]]),
        (changed(inducing_inputs=["k-means"]), ["'k-means' for 'inducing_inputs.0'", "kmeans"]),
        (changed(inducing=None), ["no inducing", "vfe needs", "[16, 32]"]),
        (changed(inducing_inputs=None), ["no inducing_inputs", "[kmeans, learned]"]),
        (changed(hyperparameters=["free"]), ["'free'", "'fixed' or 'joint'"]),
        (changed(exact_reference="yes"), ["'yes' for 'exact_reference'", "boolean"]),
        (changed(exact_reference=False), [sentence("fixed_hyperparameters", "no_exact_reference")]),
        (changed(split__by="colour"), ["colour", "'split'"]),
        (changed(split__by="given:test"), [sentence("stated_split", "seeds")[:-1], "'split'"]),
        (changed(split__test_fraction=1.5), ["1.5 for 'split.test_fraction'", "less than 1"]),
        (changed(split__leave_one_out=True), ["needs one of test_fraction"]),
        (changed(split__test_fraction=None), ["needs one of test_fraction", "'split'"]),
        (changed(split={"by": "items", "leave_one_out": True}), ["by: group:COLUMN"]),
        (
            changed(split={"by": "items", "standard": True}),
            [sentence("standard_parts", "no_targets")],
        ),
        (changed(data={}), ["none of set, files and made", "'data'"]),
        (changed(data__set="boston"), ["set and made", "exactly one"]),
        (changed(data__regression={"duels": 3, "test_duels": 2, "noise": 0}), ["belongs to a set"]),
        (
            changed(data={"set": "x", "regression": {"duels": 3, "test_duels": 2, "noise": 0}}),
            [sentence("targets", "split_but_by_items")],
        ),
        (changed(data__made__kernel="rbf"), ["'rbf' for 'data.made.kernel'", "matern52"]),
        (changed(data__made__variance=float("inf")), ["inf for 'data.made.variance'"]),
        (changed(data__made__items=1), ["has 1 for 'data.made.items'", "equal to 2"]),
        (changed(data={"set": "C:toy"}), ["'C:toy' for 'data.set'"]),
        (changed(data={"set": ""}), ["'' for 'data.set'"]),
        (changed(data={"set": "../own/toy"}), ["'../own/toy' for 'data.set'"]),
        (changed(data={"set": "x", "test": "gold"}), [sentence("gold", "split_of_the_same_pairs")]),
        (changed(at={"matern52": {"variance": 1}}), ["under at for kernel term 'matern52'"]),
        (changed(at={"se": {"lengthscale": 1}}), ["'lengthscale' under at", "lengthscales"]),
        (
            changed(kernels=["additive-se"], at={"additive-se": {}}),
            [sentence("values_of_terms", "special_kernel")],
        ),
        (changed(at={"se": {"variance": -1.0}}), ["has -1 for 'at.se.variance'", "above"]),
        (changed(at={"se": {"variance": "big"}}), ["'big' for 'at.se.variance'"]),
        (changed(at={"se": {"variance": 0}}), ["has 0 for 'at.se.variance'"]),
        (changed(at={"se": {"variance": [1, 2]}}), ["[1.0, 2.0]", "one number"]),
        (changed(at={"se": {"lengthscales": [1, 1e-5]}}), ["1e-05 for 'at.se.lengthscales'"]),
        (changed(at={"se": {"lengthscales": [1, float("nan")]}}), ["nan for 'at.se.lengthscales'"]),
        (changed(at={"se": {"lengthscales": [1, 2, 3]}}), ["3 values", "2 features"]),
        (changed(at={"se": {"lengthscales": []}}), ["[] for 'at.se.lengthscales'"]),
        (changed(split__by="time:date"), [sentence("made_duels", "split_by_a_column")]),
        (changed(name="Böse Namen"), ["'Böse Namen' for 'name'"]),
        (
            changed(engines=["laplace-logit"], noise_variance=1.0),
            [sentence("logistic", "noise_variance")],
        ),
        (changed(data={"files": {"items": "no.csv", "duels": "no.csv"}}), ["is not a file"]),
        ([1, 2], ["holds no keys"]),
    ],
)
def test_mistakes(values: Any, words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        study_from(values)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert text.startswith("The study ") and (text.endswith(".") or text.endswith("'?")), text
    assert "\n" not in text and "pydantic" not in text and text.count(". ") == 0, text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "does not exist"),
        ("folder", "cannot be read as text"),
        ("a: [1, 2\n", "not valid YAML in line 2"),
        ("a: &one [1, 2]\nb: [*one, *one]\n", r"valid YAML in line 2: an alias \(\*\)"),
        ("a: " + 1000 * "[" + 1000 * "]", "more than 50 levels inside each other"),
        (1000 * "{a: " + 1000 * "}", "more than 50 levels inside each other"),
        ("seeds: [1]\nname: x\nseeds: [2]\n", "line 3: the key 'seeds' is there twice"),
        ("", "holds no keys"),
        ("? [1, 2]\n: 3\n", "a key that is not text"),
        ("a: \x00", "characters that YAML does not allow"),
        ("seeds: [1]\nname: 0x_\n", "line 2: '0x_' cannot be read as int"),
        ("name: 2001-02-30", "'2001-02-30' cannot be read as timestamp"),
        ("name: " + 5000 * "9", "'9{57}...' cannot be read as int"),
        ('name: !!int "abc"', "'abc' cannot be read as int"),
        ('name: !!float "x"', "'x' cannot be read as float"),
        ('name: !!bool "x"', "'x' cannot be read as bool"),
        ('name: !!timestamp "x"', "'x' cannot be read as timestamp"),
        ("0x_: 1", "'0x_' cannot be read as int"),
    ],
)
def test_files_that_are_none(text: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    if text == "folder":
        path.mkdir()
    elif text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        read_study(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "inner"), [(a, b) for a in _PARTS for b in _PARTS[a].model_fields]
)
def test_dotted_keys_are_to_be_nested(part: str, inner: str) -> None:
    key = f"{part}.{inner}"
    values = changed(**({key: 1} if part in GOOD else {f"data__{key}": 1}))
    with pytest.raises(ValueError) as caught:
        study_from(values)
    text = str(caught.value)
    assert f"unknown key {key!r}" in text and text.endswith(f"; write {part}: {{{inner}: …}}.")


def test_files_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item_id,a\n1,2\n")
    (tmp_path / "duels.csv").write_text("winner,loser\n")
    path = tmp_path / "study.yaml"
    path.write_text(
        yaml.safe_dump(changed(data={"files": dict(items="items.csv", duels="duels.csv")}))
    )
    study = read_study(path)
    assert study.data.files is not None
    assert Path(study.data.files.duels) == tmp_path / "duels.csv"
    assert study.data.label == "duels"


CONFIGURATIONS = sorted((ROOT / "configs").rglob("*.yaml"))


def test_configurations_are_in_one_place_and_differ() -> None:
    for folder in ("docs", "experiments", "sparse_prefgp", "tests", "tools"):
        assert not [*(ROOT / folder).rglob("*.yaml"), *(ROOT / folder).rglob("*.yml")]
    # A grid is widened in its file, not in a second one.
    grid = {"name", "title", "seeds", "iterations", "inducing", "approximations"}
    seen: dict[str, Path] = {}
    for path in CONFIGURATIONS:
        study = yaml.safe_load(path.read_text(encoding="utf-8"))
        what = json.dumps({key: study[key] for key in study if key not in grid}, sort_keys=True)
        assert what not in seen, f"{path} and {seen[what]} are nearly equal"
        seen[what] = path


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_configuration_is_complete(path: Path) -> None:
    study = read_study(path)
    runs: tuple[RunSettings, ...] = expand(study)
    assert len({run.name for run in runs}) == len(runs) > 1
    assert path.read_text(encoding="utf-8").startswith("# ")
    if path.parent.name == "smoke":
        assert study.name == "smoke-" + path.stem.replace("_", "-")
        assert len(runs) < 20


def test_without_yaml_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(
        ModuleNotFoundError, match=r'with pip install "\.\[studies\]" in the folder'
    ):
        read_study(ROOT / "configs" / "smoke" / "inducing_points.yaml")
