"""The grammar of kernels, and the kernels that it means."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.workflow.kernel_grammar import KERNEL_NAMES, listed, parsed, split_outside
from sparse_prefgp.workflow.kernel_names import KernelChoice, feature_groups
from sparse_prefgp.workflow.model_names import Candidate
from tests.tolerances import IDENTITY

K = gpflow.kernels
# Features: price, age, and the levels clay, grass, hard of "court surface".
TRANSFORM = FeatureTransform(
    ("price", "age"),
    (0.0, 0.0),
    (1.0, 1.0),
    ("court surface",),
    (("clay", "grass", "hard"),),
    ("gone",),
)
COLUMNS = feature_groups(TRANSFORM)
ROOT = float(np.sqrt(2.0))


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=(6, 2)), np.eye(3)[[0, 1, 2, 0, 0, 1]]])


def test_names_of_before_are_what_they_were() -> None:
    for name in KERNEL_NAMES:
        assert KernelChoice.parse(f" {name.upper()} ").parts == (name,)
    assert KernelChoice.parse("Linear + SE").parts == ("linear", "se")
    assert KernelChoice.parse("additive-se+item").parts == ("additive-se", "item")


FROZEN = json.loads((Path(__file__).parents[2] / "data" / "kernels.json").read_text("utf-8"))


class Starts:
    """Where kernels start, as if training duels had said so."""

    def distance(self, columns: Any) -> float:
        return 3.0 if columns is None else 0.5 * len(columns)

    def projection(self, directions: int, columns: Any) -> np.ndarray:
        return np.ones((5 if columns is None else len(columns), directions))


def shown(kernel: Any) -> str:
    """Classes, active dimensions and parameters; `!` is for those that are not learned."""
    dims = getattr(kernel, "active_dims", None)
    seen = "" if dims is None or isinstance(dims, slice) else [int(i) for i in dims]
    own = sorted(name for name, x in vars(kernel).items() if isinstance(x, gpflow.Parameter))
    parts = []
    for name in own:
        parameter = getattr(kernel, name)
        value = np.round(parameter.numpy(), 4).tolist()
        parts.append(f"{name.lstrip('_')}{'' if parameter.trainable else '!'}={value}")
    inner = [*getattr(kernel, "kernels", ())]
    if hasattr(getattr(kernel, "kernel", None), "trainable_parameters"):
        inner.append(kernel.kernel)
    slices = f" {kernel.slices}" if hasattr(kernel, "slices") else ""
    told = "; ".join(filter(None, [",".join(parts), *map(shown, inner)]))
    return f"{type(kernel).__name__}{seen}({told}{slices})"


@pytest.mark.parametrize("text", FROZEN)
@pytest.mark.covering(every=9)
def test_expressions_mean_what_they_always_meant(text: str) -> None:
    """Parts, kernel, facts, columns and tastes of eighty expressions, kept in a file."""
    choice, known = KernelChoice.parse(text), FROZEN[text]
    facts = (
        "is_additive has_items in_time finite_in_time is_projected only_items plain named_columns "
        "cancels_shared"
    ).split()
    try:
        made = shown(choice.build(5, columns=COLUMNS, starts=Starts()))
    except ValueError as error:
        made = f"refused: {error}"
    assert made == known["kernel"]
    assert list(choice.parts) == known["parts"] and KernelChoice.parse(str(choice)) == choice
    assert [fact for fact in facts if getattr(choice, fact)] == known["facts"].split()
    assert list(choice.named_columns) == known["columns"]
    assert list(choice.taste.parts) == known["taste"]
    assert {k: list(v) for k, v in choice.item_columns().items()} == known["of_items"]


def test_utilities_in_time() -> None:
    choice = KernelChoice.parse("linear + Item-in-time( Constant + matern12 , month)")
    assert choice.parts == ("linear", "item-in-time(constant+matern12, month)")
    assert KernelChoice.parse("+".join(choice.parts)) == choice
    assert choice.in_time and choice.finite_in_time and choice.has_items and not choice.only_items
    assert choice.taste.parts == ("linear", "item") and choice.cancels_shared
    term: Any = choice.build(3).kernels[1]
    assert isinstance(term, spg.ItemInTime) and term.slices == "month"
    assert [type(part).__name__ for part in term.kernel.kernels] == ["Constant", "Matern12"]
    alone = KernelChoice.parse("item-in-time(wiener)")
    assert alone.only_items and alone.build(0).slices == "auto"
    assert not KernelChoice.parse("se+item-in-time(wiener)").finite_in_time


def test_projections_and_distances_start_where_the_duels_say() -> None:
    choice = KernelChoice.parse("Projected(matern52) + item")
    assert choice.parts == ("projected(matern52, 4)", "item") and choice.is_projected
    kernel = choice.build(5, starts=Starts())
    assert isinstance(kernel.kernels[0], spg.Projected)
    assert kernel.kernels[0].W.shape == (5, 4)
    assert choice.num_parameters(5) == 1 + 20 + 1
    first = KernelChoice.parse("projected(se, 2, 3)").build(5, starts=Starts())
    assert first.W.shape == (3, 2) and list(first.active_dims) == [0, 1, 2]
    with pytest.raises(ValueError, match="there are 5"):
        KernelChoice.parse("projected(se, 2, 6)").build(5, starts=Starts())
    some = KernelChoice.parse("projected(se(price, age), 1)")
    assert str(some) == "projected(se(price, age), 1)"
    assert some.build(5, columns=COLUMNS, starts=Starts()).W.shape == (2, 1)
    assert KernelChoice.parse("iso(se)").build(5, starts=Starts()).lengthscales.numpy() == 3.0
    np.testing.assert_array_equal(choice.build(5).kernels[0].W, np.eye(5, 4))


def test_many_features_share_the_variance_of_a_linear_term() -> None:
    few, many = (KernelChoice.parse("linear").build(d) for d in (16, 17))
    assert few.variance.shape == (16,) and many.variance.shape == ()
    assert float(many.variance.numpy()) == pytest.approx(1 / 17)


def test_pairs() -> None:
    choice = KernelChoice.parse("se+pair")
    kernel = choice.build(5)
    assert isinstance(kernel.kernels[1], spg.PairEffect) and choice.term_names(5) == ("se", "pair")
    assert not choice.only_items and KernelChoice.parse("item+pair").only_items
    np.testing.assert_array_equal(kernel.kernels[1](rows()), np.zeros((6, 6)))
    for text, words in (("se*pair", "inside a product"), ("item*(se+pair)", "inside a product")):
        with pytest.raises(ValueError, match=words):
            KernelChoice.parse(text)
    assert isinstance(KernelChoice.parse("pair").build(0), spg.PairEffect)


MEANT: dict[str, Callable[[], gpflow.kernels.Kernel]] = {
    "matern52(price, age)": lambda: K.Matern52(1.0, [ROOT, ROOT], active_dims=[0, 1]),
    "linear('court surface')": lambda: K.Linear(np.full(3, 1 / 3), active_dims=[2, 3, 4]),
    "iso(se)": lambda: K.SquaredExponential(1.0, np.sqrt(5.0)),
    "iso(se, 2)": lambda: K.SquaredExponential(1.0, ROOT, active_dims=[0, 1]),
    "iso(matern32(age,price))": lambda: K.Matern32(1.0, ROOT, active_dims=[1, 0]),
    "linear(price)*se(age)": lambda: (
        K.Linear([1.0], active_dims=[0]) * K.SquaredExponential(1.0, [1.0], active_dims=[1])
    ),
    "(linear(price)+linear(age))*se(age)": lambda: (
        (K.Linear([1.0], active_dims=[0]) + K.Linear([1.0], active_dims=[1]))
        * K.SquaredExponential(1.0, [1.0], active_dims=[1])
    ),
    "linear(price)+(se(age)+linear(age))": lambda: (
        K.Linear([1.0], active_dims=[0])
        + K.SquaredExponential(1.0, [1.0], active_dims=[1])
        + K.Linear([1.0], active_dims=[1])
    ),
}


@pytest.mark.parametrize("text", MEANT)
@pytest.mark.covering(every=4)
def test_kernels_are_those_made_by_hand(text: str) -> None:
    choice = KernelChoice.parse(text)
    kernel = choice.build(5, columns=COLUMNS)
    x = rows()
    np.testing.assert_allclose(kernel(x), MEANT[text]()(x), rtol=IDENTITY)
    trained = sum(int(np.prod(p.shape)) for p in kernel.trainable_parameters)
    assert choice.num_parameters(5, columns=COLUMNS) == trained
    assert KernelChoice.parse(str(choice)) == choice


IN_CONTEXT: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "item*'court surface'": lambda x, y: float(np.all(x[2:5] == y[2:5])),
    "'court surface' * item": lambda x, y: float(np.all(x[2:5] == y[2:5])),
    "item*price": lambda x, y: x[0] * y[0],
    "item*linear('court surface')": lambda x, y: x[2:5] @ y[2:5] / 3,
    "item*se(price)": lambda x, y: np.exp(-0.5 * (x[0] - y[0]) ** 2),
    "item*'court surface'*price": lambda x, y: x[0] * y[0] * np.all(x[2:5] == y[2:5]),
}


@pytest.mark.parametrize("text", IN_CONTEXT)
def test_products_with_item_are_of_each_item(text: str) -> None:
    choice = KernelChoice.parse(text)
    kernel = choice.build(5, columns=COLUMNS)
    x = np.column_stack([rows(), [0, 0, 1, 1, 0, 0]])
    expected = [[IN_CONTEXT[text](a, b) * (a[5] == b[5]) for b in x] for a in x]
    np.testing.assert_allclose(kernel(x), expected, atol=IDENTITY)
    assert choice.has_items and choice.only_items and not choice.cancels_shared
    assert choice.parts[0].startswith("item*")
    assert KernelChoice.parse(str(choice)) == choice


def test_an_item_times_a_sum_is_the_sum_of_products() -> None:
    choice = KernelChoice.parse("linear + item*(price+age) + item")
    assert choice.parts == ("linear", "item*price", "item*age", "item")
    kernel = choice.build(5, columns=COLUMNS)
    assert len(kernel.kernels) == len(choice.term_names(5, COLUMNS)) == 4
    assert not choice.only_items and choice.has_items
    assert choice.item_columns() == {"item*price": ("price",), "item*age": ("age",)}


def test_a_product_has_one_variance() -> None:
    kernel = KernelChoice.parse("se(price)*matern52(age)").build(5, columns=COLUMNS)
    assert [k.variance.trainable for k in kernel.kernels] == [True, False]
    kernel = KernelChoice.parse("se(price)*linear(age)").build(5, columns=COLUMNS)
    assert [k.variance.trainable for k in kernel.kernels] == [False, True]


def test_columns_as_they_are_written() -> None:
    (term,) = parsed('linear("a, b", c.d, \'say "x"\', "se")')
    assert str(term) == 'linear("a, b", c.d, \'say "x"\', "se")'
    assert parsed(str(term)) == (term,)


def test_lists_are_parted_outside_brackets_and_quotes() -> None:
    assert listed("se(a, b)/vfe, linear('x,y'),item") == ["se(a, b)/vfe", "linear('x,y')", "item"]
    assert split_outside("linear('a/b')/vfe/3", "/") == ["linear('a/b')", "vfe", "3"]
    candidate = Candidate.parse("item*x + linear(a, 'b/c') + se/vfe/12")
    assert candidate.kernel == 'se+item*x+linear(a, "b/c")'
    assert candidate.inducing == 12 and candidate.kernel_choice.has_items


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("matern", "'matern' is unknown; did you mean matern"),
        ("linear+matern", r"'matern' in 'linear\+matern' is unknown"),
        ("", "character 1: a kernel is missing"),
        ("linear+", "character 8: a kernel is missing"),
        ("linear+*se", "character 8: '\\*' is not expected"),
        ("(linear+se", r"character 1: '\(' was never closed"),
        ("linear)", r"character 7: unmatched '\)'"),
        ("linear(a b)", "character 8: 'a b' is not expected; quote names"),
        ("linear()", r"character 1: 'linear\(\)' is not expected"),
        ("linear(a", r"character 7: '\(' was never closed"),
        ("linear(a,a)", "has a twice; once is enough"),
        ("linear('a)", "character 8: unterminated string literal"),
        ("item(a)", "item takes no columns"),
        ("additive-se(a)", "takes no columns"),
        ("matern25(a)", "did you mean matern52"),
        ("iso(linear)", "character 5: iso takes se, matern32, matern52, not 'linear'"),
        ("iso(se, 0)", "character 9: iso takes numbers of at least 1, not '0'"),
        ("iso(se(price), 2)", "not both"),
        ("ard(se, 2)", r"write ard as ard\(matern52\)"),
        ("iso", r"write iso as iso\(matern52\)"),
        ("projected(matern52, 0)", "character 21: projected takes numbers of at least 1, not '0'"),
        ("projected(linear, 2)", "projected takes se"),
        ("projected(iso(se), 2)", "projected takes se"),
        ("projected(se, 2, 3, 4)", "write projected as"),
        ("projected(se(price), 2, 3)", "not both"),
        ("projected(se, 2, x)", "character 18: projected takes numbers of at least 1, not 'x'"),
        ("item-in-time", r"write item-in-time as item-in-time\(wiener\)"),
        ("item-in-time(se)", "takes wiener, matern12, matern32, constant, not 'se'"),
        ("item-in-time(wienr)", "'wienr'; did you mean wiener"),
        ("item-in-time(wiener, fortnight)", "takes auto, year, .* not 'fortnight'"),
        ("item-in-time(constant)", "does not move"),
        ("item-in-time(constant+wiener)", "begins at a level of its own"),
        ("item-in-time(wiener+wiener)", "has wiener twice"),
        ("item-in-time(wiener)+item-in-time(matern12)", "of which duels see only the sum"),
        ("item+item-in-time(wiener)", "of which duels see only the sum"),
        ("se*item-in-time(wiener)", "inside a product"),
        ("surface*se", "'surface' in 'surface\\*se' is unknown"),
        ("item*item", "has item twice"),
        ("se*(item+linear)", "item inside a product"),
        ("item*surface*surface", "surface twice"),
        ("se*additive-se", "inside a product"),
        ("se+(linear+se)", "has se twice"),
        ("item*a+item*a", r"has item\*a twice"),
        ("+se", r"character 1: '\+se' is not expected"),
        ("se**linear", "character 1: 'se\\*\\*linear' is not expected"),
        ("linear(a)(b)", r"'linear\(a\)' is not expected"),
        ("linear(*a)", r"character 8: '\*a' is not expected"),
        ("linear(**a)", r"is not expected"),
        ("se,linear", "'se,linear' is not expected"),
        ("item*()", r"character 6: '\(\)' is not expected"),
        ("item*'a''b'", "character 6: \"'a''b'\" is not expected"),
        ("item-in-time(wiener*matern12)", "'wiener\\*matern12'"),
        ("lambda: se", "character 9: 'se' is not expected"),
        ("(" * 400 + "se" + ")" * 400, "too many nested parentheses"),
        ("+".join(["linear"] * 5000), "too long"),
    ],
)
def test_what_is_no_kernel_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KernelChoice.parse(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("linear(prize)", "'prize', which is not a feature; did you mean price"),
        ("item*gone", "the same for all training items"),
        ("item+linear(home)", "'home', which is a covariate"),
    ],
)
def test_columns_that_are_no_features_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KernelChoice.parse(text).check_columns(TRANSFORM, ("home",))


def test_columns_are_numbered_where_they_have_no_names() -> None:
    kernel: Any = KernelChoice.parse("linear(1)+item*0").build(3)
    np.testing.assert_array_equal(kernel.kernels[0].active_dims, [1])
    assert isinstance(kernel.kernels[1], spg.ItemTimes)
    with pytest.raises(ValueError, match="'7', which is not a feature"):
        KernelChoice.parse("linear(7)").build(3)
