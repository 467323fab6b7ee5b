"""Leans of several columns by several covariates: against a dense covariance, and however made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from tests.reference.slow_ep import slow_ep

N, T, NOISE = 5, 24, 0.5
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 2))
FIRST = RNG.integers(N, size=T)
SECOND = (FIRST + RNG.integers(1, N, size=T)) % N
NAMES = ("first", "length")
SAID = np.column_stack([RNG.choice([-1.0, 1.0], size=T), RNG.normal(size=T)])
LABELS: dict[str, list[Any]] = {
    "judge": RNG.choice(["Ann", "Bob", "Cem"], size=T).tolist(),
    "kind": RNG.choice([1, 2], size=T).tolist(),
}
LEANS = (("judge", "first"), ("kind", "length"), ("kind", "first"))
VARIANCES = [0.6, 0.4]
OF_LEANS = [0.3, 0.5, 0.2]
ENGINE = spg.ParallelEP(tolerance=1e-13, max_sweeps=500)


def terms() -> list[spg.Term]:
    leans = [
        spg.Lean(name, column, variance)
        for (column, name), variance in zip(LEANS, OF_LEANS, strict=True)
    ]
    return [spg.Coefficients(VARIANCES), *leans]


def kernel() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(1.0, lengthscales=[1.0, 1.5])


def duels(**labels: Any) -> spg.Duels:
    said = {"covariates": SAID, "covariate_names": NAMES}
    return spg.Duels(X, FIRST, SECOND, labels={**LABELS, **labels}, **said)


def model(data: spg.Duels | None = None, **more: Any) -> spg.PreferenceGP:
    options = {"engine": ENGINE, "terms": terms(), **more}
    return spg.PreferenceGP(duels() if data is None else data, kernel(), **options)


def covariance(first: Any, second: Any, x: Any, labels: dict[str, Any]) -> Any:
    """Of f(second) - f(first) and what covariates and leans add, (t, t), an entry at a time."""
    k, t = kernel().K(X).numpy(), len(first)
    found = np.zeros((t, t))
    for i in range(t):
        for j in range(t):
            a, b, c, d = first[i], second[i], first[j], second[j]
            found[i, j] = k[a, c] - k[a, d] - k[b, c] + k[b, d]
            found[i, j] += sum(VARIANCES * x[i] * x[j])
            for (column, name), variance in zip(LEANS, OF_LEANS, strict=True):
                one, other, c = labels[column][i], labels[column][j], NAMES.index(name)
                if i == j or (one == other and one is not None):
                    found[i, j] += variance * x[i, c] * x[j, c]
    return found


NEW = {"judge": ["Bob", None, "Dan"], "kind": [2, 1, None]}
NEW_X = np.array([[1.0, 0.7], [-1.0, 0.2], [1.0, -0.4]])
NEW_FIRST, NEW_SECOND = np.array([0, 1, 2]), np.array([3, 4, 0])


def slow(labels: dict[str, Any]) -> tuple[float, Any, Any]:
    """Log evidence, and means and variances of the new differences, by a dense covariance."""
    every = {column: [*labels[column], *NEW[column]] for column in labels}
    whole = covariance(
        np.r_[FIRST, NEW_FIRST], np.r_[SECOND, NEW_SECOND], np.r_[SAID, NEW_X], every
    )
    here = whole[:T, :T] + 2.0 * NOISE * np.eye(T)
    found = slow_ep(np.zeros(T), here, np.full(T, -np.inf), np.zeros(T), tolerance=1e-12)
    gain = np.linalg.solve(here, whole[:T, T:])
    spread = whole[T:, T:] - gain.T @ (here - found.covariance) @ gain
    return found.log_evidence, -gain.T @ found.mean, np.diag(spread)


SPARSE = {"inducing_variable": X}
FORMS: dict[str, dict[str, Any]] = {
    "items": {"approximation": spg.Exact(over="items")},
    "duels": {"approximation": spg.Exact(over="duels")},
    "columns": {"approximation": spg.Exact()},
    "vfe": {"approximation": spg.VFE(over="duels"), **SPARSE},
    "fitc": {"approximation": spg.FITC(), **SPARSE},
}


def check(made: Any, wanted: tuple[float, Any, Any], tolerance: float = 1e-9) -> None:
    assert made.log_evidence() == pytest.approx(wanted[0], abs=tolerance)
    with pytest.warns(UserWarning, match="The judge 'Dan' is unknown to the model"):
        found = made.predict_difference(X[NEW_FIRST], X[NEW_SECOND], NEW_X, NEW)
    np.testing.assert_allclose(found[0], wanted[1], atol=tolerance)
    np.testing.assert_allclose(found[1], wanted[2], atol=tolerance)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.covering(every=5)
def test_as_a_dense_covariance(form: str) -> None:
    check(model(**FORMS[form]), slow(LABELS))


def test_unknown_labels_lean_each_by_itself() -> None:
    judges = [None if i % 5 == 0 else judge for i, judge in enumerate(LABELS["judge"])]
    made, wanted = model(duels(judge=judges)), slow({**LABELS, "judge": judges})
    check(made, wanted)
    assert {*made.coefficients().names} == {*model().coefficients().names}


def test_coefficients_are_those_of_columns_by_hand() -> None:
    columns, names, variances = [*SAID.T], [*NAMES], [*VARIANCES]
    for (column, name), variance in zip(LEANS, OF_LEANS, strict=True):
        for label in dict.fromkeys(LABELS[column]):
            level = np.array([one == label for one in LABELS[column]])
            columns.append(SAID[:, NAMES.index(name)] * level)
            names.append(f"{name} of {column} {label}")
            variances.append(variance)
    data = spg.Duels(X, FIRST, SECOND, covariates=np.column_stack(columns), covariate_names=names)
    plain = spg.PreferenceGP(data, kernel(), engine=ENGINE, terms=[spg.Coefficients(variances)])
    found, wanted = model().coefficients(), plain.coefficients()
    assert found.names == wanted.names
    np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-9)
    np.testing.assert_allclose(found.covariance, wanted.covariance, atol=1e-9)
    np.testing.assert_allclose(found.variance, np.diag(wanted.covariance), atol=1e-9)


def streamed(parts: int, **labels: Any) -> spg.StreamedGP:
    return spg.StreamedGP(
        spg.stream_duels(duels(**labels)),
        kernel(),
        inducing_variable=X,
        engine=spg.PartitionedEP(parts=parts, tolerance=1e-12),
        terms=terms(),
        chunk=5,
    )


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.covering(every=2)
def test_in_chunks_and_in_parts(parts: int, tmp_path: Path) -> None:
    made = streamed(parts)
    check(made, slow(LABELS), 1e-8)
    found, wanted = made.coefficients(), model().coefficients()
    assert found.names == wanted.names
    np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-8)
    np.testing.assert_allclose(found.covariance, wanted.covariance, atol=1e-8)
    spg.save(made, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    np.testing.assert_array_equal(again.coefficients().covariance, found.covariance)
    assert again.terms.labels == made.terms.labels
    if parts == 1:
        check(made.in_memory(), slow(LABELS), 1e-8)


def test_saved_and_loaded(tmp_path: Path) -> None:
    made = model(duels(judge=[None, *LABELS["judge"][1:]]))
    spg.save(made, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    assert again.log_evidence() == made.log_evidence()
    one, other = made.coefficients(), again.coefficients()
    assert one.names == other.names
    np.testing.assert_array_equal(one.covariance, other.covariance)


@pytest.mark.parametrize(
    ("leans", "words"),
    [
        ([("first", "who")], "is 'who'; choose from judge, kind"),
        ([("last",)], "'judge:last' were asked for, which is no covariate of the duels"),
        ([()], "names no covariate; choose from judge:first, judge:length"),
        ([("first",), ("first", "judge")], "asked for twice; leave one of them out"),
        ([("first", "judge", -1.0)], "variance of a Lean is -1.0; give a number, above 0"),
    ],
)
def test_mistakes(leans: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model(terms=[spg.Lean(*lean) for lean in leans])


def test_labels_that_are_refused() -> None:
    with pytest.raises(ValueError, match="'judge' were asked for, but 1 of the streamed duels"):
        streamed(1, judge=[None, *LABELS["judge"][1:]])
    with pytest.raises(ValueError, match="column of labels is 'who'; choose from"):
        model().predict_difference(X[:1], X[1:2], NEW_X[:1], {"who": "Ann"})
    with pytest.raises(ValueError, match=r"The kind of duel 0 is 1\.5; name each by a text"):
        duels(kind=[1.5] * T)
