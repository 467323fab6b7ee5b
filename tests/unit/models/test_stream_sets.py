"""Answers about sets that are in chunks, in one part and in several, against those in memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.answers import CHOICE, TIE, WIN, Answers, Codes
from sparse_prefgp.engines import PartitionedEP
from tests.together import apart
from tests.tolerances import IDENTITY, PARTS, ROUNDING
from tests.unit.models.test_sets import (
    CASES,
    ITEMS,
    MIXED,
    OF_ROWS,
    ROWS,
    kernel_of,
    mixed,
    said,
    sets,
)

SUMMED = {name: row for name, row in ROWS.items() if row.summed_over_duels}
BLOCKS = spg.PITC(["a", "a", "b", "b", "c", "c", "d"])
JUDGED = MIXED.saying(judge=Codes.of(["a", "b", "a", "b", "b", "c", "b"]))


def engine(parts: int) -> PartitionedEP:
    return PartitionedEP(parts=parts, tolerance=1e-12, max_sweeps=300)


def streamed(
    approximation: spg.Approximation, parts: int = 1, *, events: Answers = MIXED, **more: Any
) -> spg.StreamedGP:
    """`mixed`, in chunks of at most twelve sites."""
    model = spg.StreamedGP(
        spg.stream_duels(spg.Duels.from_events(ITEMS, events)),
        gpflow.kernels.SquaredExponential(1.2, [0.5, 0.6]),
        approximation=approximation,
        inducing_variable=ITEMS[[0, 2, 5]] + 0.1,
        engine=engine(parts),
        **({"likelihood": spg.Probit(0.3), "chunk": 12} | more),
    )
    gpflow.set_trainable(model.likelihood.noise, True)
    return model


def same(mine: spg.StreamedGP, whole: spg.PreferenceGP) -> None:
    with tf.GradientTape() as tape:
        evidence = whole.maximum_log_likelihood_objective()
    theirs = tape.gradient(evidence, whole.trainable_variables)
    value, slopes = mine.evidence_and_gradient()
    np.testing.assert_allclose(value, float(evidence), rtol=IDENTITY)
    for one, other in zip(slopes, theirs, strict=True):
        np.testing.assert_allclose(one, tf.convert_to_tensor(other), atol=1e-7)
    for one, other in zip(mine.predict_f(ITEMS), whole.predict_f(ITEMS), strict=True):
        np.testing.assert_allclose(one, other, atol=IDENTITY)


@pytest.mark.covering("VFE-1")
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", [*SUMMED, "PITC"])
def test_evidence_gradient_and_posterior_are_those_of_memory(name: str, parts: int) -> None:
    approximation = BLOCKS if name == "PITC" else SUMMED[name]
    whole, mine = mixed(approximation), streamed(approximation, parts)
    same(mine, whole)
    assert mine.infer().parts == parts
    assert mine.infer().duels == MIXED.num_events
    nu, tau = np.concatenate(mine._work.parts(mine.hyperparameters()).sites(), 1)
    # Copies have sites of their own in streams, and are counted in memory.
    copies = whole.graph.counts.astype(int)
    theirs = np.sort(np.repeat(np.stack(whole.inference.sites()), copies, 1), 1)
    np.testing.assert_allclose(np.sort(np.stack([nu, tau]), 1), theirs, atol=PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_judges_of_sets(parts: int) -> None:
    whole = mixed(spg.VFE(), events=JUDGED, likelihood=spg.Probit(0.3, by="judge"))
    by_judge = spg.Probit(0.3, by="judge")
    mine = streamed(spg.VFE(), parts, events=JUDGED, likelihood=by_judge)
    assert mine.duels.group_names == whole.duels.group_names == ("a", "b", "c")
    for model in (whole, mine):
        model.likelihood.noise_ratio.assign([0.5, 2.0, 1.3])
    same(mine, whole)
    noise = [m.sample_wins(50, np.random.default_rng(0)).noise for m in (mine, whole)]
    np.testing.assert_allclose(*map(np.unique, noise), rtol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row in SUMMED])
@pytest.mark.parametrize("name", OF_ROWS)
def test_cases_in_parts(name: str, row: str) -> None:
    """A part for each event: the numbers of the cases."""
    approximation = ROWS[row]
    case = CASES[name]
    events, mean = said(case), None
    if "mean_function" in case:
        weights = np.array(case["mean_function"]["weights"])[:, None]
        mean = gpflow.functions.Linear(weights, [0.0])
    model = spg.StreamedGP(
        spg.stream_duels(spg.Duels.from_events(np.array(case["X"]), events)),
        kernel_of(case),
        approximation=approximation,
        inducing_variable=np.array(case["sparse"]["Z"]),
        engine=engine(min(3, len(events))),
        noise_variance=case["noise_variance"],
        mean_function=mean,
    )
    np.testing.assert_allclose(model.log_evidence(), case["sparse"][row], rtol=IDENTITY)


def test_no_chunk_and_no_part_cuts_a_set() -> None:
    stream = spg.stream_duels(spg.Duels.from_events(ITEMS, MIXED))
    of_each = MIXED.sites * MIXED.counts  # z of every copy
    assert stream.batches.num_sites == of_each.sum() > stream.num_rows == len(MIXED)
    for parts, size in itertools.product((1, 2, 3, 7), (1, 4, 9, 100)):
        cut = stream.cut(parts)
        chunks = [chunk for part in cut for chunk in part.chunks(size)]
        assert sum(part.batches.num_sites for part in cut) == stream.batches.num_sites
        first, *others = (chunk.given for chunk in chunks)
        found = first.followed_by(*others)
        for name in ("sides", "offsets", "kind", "counts", "ordered"):
            np.testing.assert_array_equal(getattr(found, name), getattr(MIXED.in_order(), name))


def test_other_answers_than_before_are_noticed() -> None:
    """The middle of a ranking is in the checksum too."""
    stream = spg.stream_duels(spg.Duels.from_events(ITEMS, MIXED)).batches
    sides = MIXED.sides.copy()
    sides[4] = 4  # the second of 3, 2, 0
    other = spg.stream_duels(spg.Duels.from_events(ITEMS, MIXED.saying(sides))).batches
    assert stream.scan.digests != other.scan.digests
    with pytest.raises(ValueError, match="other duels"):
        list(replace(stream, source=other.source).chunks(5))


def test_what_sets_in_streams_cannot_go_with() -> None:
    kind = MIXED.kind.copy()
    kind[MIXED.kind == WIN] = TIE
    for match, approximation, more in (
        (
            apart("sets", "shares_of_answers"),
            spg.VFE(),
            {"events": MIXED.saying(weights=np.full(7, 0.5))},
        ),
        (apart("sets", "margins_or_ties"), spg.VFE(), {"likelihood": spg.Probit(margin=0.2)}),
        (
            apart("sets", "margins_or_ties"),
            spg.VFE(),
            {"likelihood": spg.Probit(margin=0.2), "events": MIXED.saying(kind=kind)},
        ),
        (apart("streamed", "whole"), spg.TightVFE("logdet"), {}),
    ):
        with pytest.raises(ValueError, match=match):
            streamed(approximation, **more)


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = streamed(spg.VFE())
    expected = model.predict_f(ITEMS)
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    assert loaded.duels.has_sets and model.duels.has_sets
    np.testing.assert_allclose(loaded.predict_f(ITEMS), expected, atol=PARTS)


@pytest.mark.parametrize("approximation", [spg.VFE(), BLOCKS], ids=lambda a: a.name)
@pytest.mark.covering(every=2)
def test_in_memory_at_the_same_sites(approximation: spg.Approximation) -> None:
    """Sides without an order have one there, and copies are told apart in another way."""
    model = streamed(approximation)
    ordinary = model.in_memory()
    assert ordinary.infer().sweeps == 1
    np.testing.assert_allclose(ordinary.predict_f(ITEMS), model.predict_f(ITEMS), atol=PARTS)
    assert float(ordinary.log_evidence()) == pytest.approx(model.log_evidence(), rel=PARTS)


@pytest.mark.slow
def test_wins_alone_beside_sets() -> None:
    """A chunk without sets has the noises of alternatives like all others."""
    events = sets([WIN, WIN, CHOICE], [[0, 1], [2, 3], [4, 5, 0]], counts=[2, 3, 1])
    same(streamed(spg.FITC(), events=events, chunk=1), mixed(spg.FITC(), events=events))
