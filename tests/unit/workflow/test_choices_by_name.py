"""Kernels, approximations and candidates by name."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.workflow.kernel_names import FeatureGroup, KernelChoice, feature_groups
from sparse_prefgp.workflow.model_names import (
    ApproximationChoice,
    Candidate,
    candidates_from,
)
from tests.together import apart
from tests.tolerances import IDENTITY

TRANSFORM = FeatureTransform(
    ("a", "b"), (0.0, 0.0), (1.0, 1.0), ("c", "d"), (("u", "v", "w"), ("x", "y")), ("gone",)
)
GROUPS = (
    FeatureGroup("a", (0,)),
    FeatureGroup("b", (1,)),
    FeatureGroup("c", (2, 3, 4)),
    FeatureGroup("d", (5, 6)),
)


def test_groups_are_numeric_columns_and_blocks_of_levels() -> None:
    assert feature_groups(TRANSFORM) == GROUPS


def test_given_groups_join_columns_and_leave_the_others_single() -> None:
    found = feature_groups(TRANSFORM, [["d", "a"], ["gone"]])
    assert found == (FeatureGroup("a,d", (0, 5, 6)), GROUPS[1], GROUPS[2])


@pytest.mark.parametrize(
    ("given", "text"),
    [([["a", "e"]], "names 'e', which is not a feature"), ([["a", "b"], ["b"]], "'b' is in two")],
)
def test_groups_that_cannot_be_are_refused(given: list[list[str]], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        feature_groups(TRANSFORM, given)


def test_additive_kernel_is_the_sum_of_kernels_on_its_groups() -> None:
    choice = KernelChoice.parse("additive-matern32")
    kernel = choice.build(7, GROUPS)
    x = np.random.default_rng(0).normal(size=(5, 7))
    expected = sum(
        gpflow.kernels.Matern32(variance=0.25, lengthscales=np.full(d, np.sqrt(d)))(
            x[:, list(group.columns)]
        ).numpy()
        for group in GROUPS
        for d in [len(group.columns)]
    )
    np.testing.assert_allclose(kernel(x).numpy(), expected, rtol=IDENTITY)
    assert choice.term_names(7, GROUPS) == tuple(f"additive-matern32[{n}]" for n in "abcd")
    trained = sum(int(np.prod(p.shape)) for p in kernel.trainable_parameters)
    assert trained == choice.num_parameters(7, GROUPS) == 11


@pytest.mark.parametrize("name", ["linear", "se", "item", "linear+matern52", "additive-se+item"])
def test_names_and_numbers_of_parameters_are_those_of_the_kernel(name: str) -> None:
    choice = KernelChoice.parse(name)
    kernel = choice.build(3)
    terms = kernel.kernels if isinstance(kernel, gpflow.kernels.Sum) else [kernel]
    assert len(choice.term_names(3)) == len(terms)
    trained = sum(int(np.prod(p.shape)) for p in kernel.trainable_parameters)
    assert choice.num_parameters(3) == trained
    assert choice.is_additive == name.startswith("additive")


def test_candidates_that_mean_the_same_are_equal() -> None:
    assert Candidate.parse("Matern52+linear/VFE") == Candidate("linear+matern52")
    assert str(Candidate.parse("se/prior-power:0.50/12")) == "se/prior-power:0.5/12"
    assert Candidate.parse("se/vfe/12") != Candidate.parse("se/vfe")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("se/vfe/x", "cannot be read"),
        ("se/vfe/3/4", "cannot be read"),
        ("/vfe", "cannot be read"),
        ("matern25/vfe", "did you mean matern52"),
        ("se/vfc", "did you mean"),
        ("se/exact/30", apart("no_inducing", "inducing_variable")),
        ("se/vfe/0", "at least 1"),
    ],
)
def test_candidates_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Candidate.parse(text)


def test_products_name_those_without_inducing_inputs_once() -> None:
    found = candidates_from(["se", "linear"], ["vfe", "exact"], [16, 32])
    names = ["se/vfe/16", "se/vfe/32", "se/exact", "linear/vfe/16", "linear/vfe/32", "linear/exact"]
    assert [str(candidate) for candidate in found] == names


def test_blocks_by_name() -> None:
    choice = ApproximationChoice.parse("PITC:20")
    assert str(choice) == "pitc:20"
    assert choice.needs_inducing
    assert choice.build(seed=3) == spg.PITC(20, seed=3)
    column = ApproximationChoice.parse("pitc: Person")
    assert str(column) == "pitc:Person" and column.needs_inducing
    assert column.build(labels=["a", "b", "a"]) == spg.PITC(["a", "b", "a"])
    for text in ("pitc", "pitc:", "pitc:0", "pitc:2.5"):
        with pytest.raises(
            ValueError, match="give a whole number, at least 1, of blocks, such as pitc:20"
        ):
            ApproximationChoice.parse(text)
