"""An entry level of newcomers: a covariate in all but that it follows from the first duel."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparse_prefgp as spg
from tests.together import refused

PAIRS = np.array([[0, 1], [1, 2], [0, 3], [2, 3], [0, 4], [1, 4], [4, 3], [2, 0], [1, 3], [0, 2]])
DAYS = np.array([0.0, 30.0, 200.0, 230.0, 400.0, 430.0, 600.0, 630.0, 800.0, 1000.0])
AFTER = 150.0  # items 3 and 4 come later


def duels(**more: Any) -> spg.Duels:
    return spg.Duels(np.empty((6, 0)), *PAIRS.T, times=DAYS, **more)


def kernel() -> spg.ItemInTime:
    return spg.ItemInTime(spg.markov.Wiener(0.7, 0.2), "quarter")


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return spg.PreferenceGP(duels(), kernel(), terms=[spg.EntryLevel(variance=0.8)])


def test_the_evidence_is_that_of_a_covariate(model: spg.PreferenceGP) -> None:
    late = np.isin(PAIRS, [3, 4]).astype(float)
    said = duels(covariates=late[:, :1] - late[:, 1:], covariate_names=["late"])
    same = spg.PreferenceGP(said, kernel(), terms=[spg.Coefficients([0.8])])
    (term,) = model.terms.parts(spg.EntryLevel)
    assert term.after == pytest.approx(AFTER)
    assert model.log_evidence() == pytest.approx(same.log_evidence(), abs=1e-8)
    without = spg.PreferenceGP(duels(), kernel())
    assert abs(model.log_evidence() - without.log_evidence()) > 1e-3
    # Whoever was not met yet has that level, and a founder that nobody has met has none.
    rows = np.full((2, 1), 5.0)
    mean, variance = model.predict_f(rows, at=[1100.0, 100.0])
    known = same.coefficients()
    np.testing.assert_allclose(mean.numpy()[:, 0], [known.mean[0], 0.0], atol=1e-7)
    apart = variance.numpy()[0, 0] - variance.numpy()[1, 0]
    assert apart == pytest.approx(known.covariance[0, 0], abs=1e-7)


def test_a_filter_takes_new_items_for_newcomers(model: spg.PreferenceGP) -> None:
    later = spg.Duels(np.empty((6, 0)), [5], [0], times=[1200.0])
    found = spg.score_ahead(model, later).filtering
    mean, _ = model.predict_f(np.array([[5.0], [0.0]]), at=1200.0)
    assert found.mean[0] == pytest.approx(float(mean[0, 0] - mean[1, 0]), abs=1e-7)
    assert found.model.terms.parts(spg.EntryLevel)[0].after == pytest.approx(AFTER)


def test_a_saved_one_answers_the_same(model: spg.PreferenceGP, tmp_path: Path) -> None:
    spg.save(model, tmp_path / "saved")
    again = spg.load(tmp_path / "saved")
    rows = np.array([[5.0], [3.0], [0.0]])
    np.testing.assert_allclose(
        again.predict_f(rows, at=1100.0), model.predict_f(rows, at=1100.0), rtol=1e-10
    )


def test_what_is_refused() -> None:
    with refused("entry_level", "duels_without_dates"):
        spg.PreferenceGP(
            spg.Duels(np.empty((6, 0)), *PAIRS.T), spg.ItemEffect(), terms=[spg.EntryLevel()]
        )
    with refused("entry_level", "still"):
        spg.PreferenceGP(duels(), spg.ItemEffect(), terms=[spg.EntryLevel()])
    with pytest.raises(ValueError, match=r"variance of an EntryLevel is -1.0"):
        spg.PreferenceGP(duels(), kernel(), terms=[spg.EntryLevel(variance=-1.0)])
    with pytest.raises(ValueError, match=r"date of an EntryLevel is '2010'"):
        spg.EntryLevel(after="2010")
