"""Tastes of people in streams and parts, against the same duels in memory."""

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from tests.together import refused
from tests.tolerances import FIXED_POINT, GRADIENT, PARTS, SOLVER

N, PEOPLE, EACH, M = 15, 12, 6, 5
RNG = np.random.default_rng(5)
ITEMS = RNG.normal(size=(N, 2))
ENDS = RNG.permuted(np.tile(np.arange(N), (PEOPLE * EACH, 1)), axis=1)[:, :2]
WHO = np.repeat([f"p{k}" for k in range(PEOPLE)], EACH)
Z = RNG.normal(size=(M, 2))
NEW = RNG.normal(size=(4, 2))


def settings(approximation):
    return {
        "kernel": gpflow.kernels.SquaredExponential(1.2, 1.0),
        "terms": [spg.Taste(gpflow.kernels.SquaredExponential(2.0, 1.5))],
        "approximation": approximation,
        "inducing_variable": Z,
    }


def streamed(folder, approximation, parts):
    folder.mkdir(exist_ok=True)
    frame = pd.DataFrame({"winner": ENDS[:, 0], "loser": ENDS[:, 1], "who": WHO})
    for k, part in enumerate((frame[:30], frame[30:])):
        part.to_parquet(folder / f"{k}.parquet", index=False)
    duels = spg.stream_duels(folder, ITEMS, person="who")
    return spg.StreamedGP(
        duels,
        engine=spg.PartitionedEP(parts=parts, tolerance=SOLVER),
        chunk=20,
        **settings(approximation),
    )


@pytest.mark.parametrize(
    ("approximation", "parts"),
    [(spg.VFE(), 2), pytest.param(spg.FITC(), 1, marks=pytest.mark.slow)],
)
def test_streams_are_duels_in_memory(tmp_path, approximation, parts):
    whole = spg.PreferenceGP(
        spg.Duels(ITEMS, *ENDS.T, people=WHO),
        engine=spg.ParallelEP(tolerance=SOLVER),
        **settings(approximation),
    )
    model = streamed(tmp_path / "duels", approximation, parts)
    value, slopes = model.evidence_and_gradient()
    assert abs(value - whole.log_evidence()) < PARTS

    with tf.GradientTape() as tape:
        objective = whole.maximum_log_likelihood_objective()
    known = {v.shape: v for v in whole.trainable_variables}
    assert len(slopes) == len(whole.trainable_variables) and known
    wanted = tape.gradient(objective, whole.trainable_variables)
    for slope, other in zip(
        sorted(np.concatenate([np.ravel(s) for s in slopes])),
        sorted(np.concatenate([np.ravel(w) for w in wanted])),
        strict=True,
    ):
        assert slope == pytest.approx(other, abs=GRADIENT, rel=GRADIENT)
    met = spg.Duels(ITEMS, [0, 1, 2], [3, 4, 5])
    for one, other in (
        (model, whole),
        (model.of_person(None), whole.of_person(None)),
        (model.meet(met), whole.meet(met)),
    ):
        for mine, theirs in zip(one.predict_f(NEW), other.predict_f(NEW), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=PARTS, atol=PARTS)
    spg.save(model, tmp_path / "model")
    again = spg.load(tmp_path / "model")
    np.testing.assert_allclose(
        again.meet(met).predict_f(NEW)[1], model.meet(met).predict_f(NEW)[1], rtol=PARTS
    )
    if parts == 1:
        alone = model.in_memory().of_person("p3").predict_f(NEW)[0]
        np.testing.assert_allclose(alone, whole.of_person("p3").predict_f(NEW)[0], rtol=FIXED_POINT)
    model.close()


def test_what_streams_of_people_refuse(tmp_path):
    model = streamed(tmp_path / "duels", spg.VFE(), 1)
    with pytest.raises(ValueError, match="not what each person said; give the duels of one to"):
        model.of_person("p1")
    model.close()
    mixed = pd.DataFrame({"winner": [0, 1, 2], "loser": [1, 2, 0], "who": ["a", "b", "a"]})
    mixed.to_parquet(tmp_path / "mixed.parquet", index=False)
    duels = spg.stream_duels(tmp_path / "mixed.parquet", ITEMS, person="who")
    with pytest.raises(ValueError, match=r"person 'a' begins again at row 2.*sort the rows by"):
        spg.StreamedGP(duels, **settings(spg.VFE()))
    with refused("streamed", "item_effects"):
        terms = [spg.Taste(gpflow.kernels.Matern52() + spg.ItemEffect())]
        spg.StreamedGP(duels, **settings(spg.VFE()) | {"terms": terms})
    nobodys = spg.stream_duels(tmp_path / "mixed.parquet", ITEMS)
    with refused("tastes", "duels_of_nobody"):
        spg.StreamedGP(nobodys, **settings(spg.VFE()))
