"""What is said of items whose features were reduced: by raw columns and vectors."""

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp import plotting
from sparse_prefgp.analysis.items import feature_parts, resolve_items
from sparse_prefgp.plotting.features import feature_relevance
from tests.tolerances import ROUNDING

N = 120
rng = np.random.default_rng(0)
E = (rng.normal(size=(N, 3)) @ rng.normal(size=(3, 10)) + 0.3 * rng.normal(size=(N, 10))).astype(
    np.float32
)
ITEMS = pd.DataFrame(
    {
        "item_id": [f"i{k}" for k in range(N)],
        "price": rng.normal(size=N),
        "colour": rng.choice(["red", "green", "blue"], N),
    }
)
G = rng.normal(size=(N, 4)).astype(np.float32)
UTILITY = E[:, 0] + E[:, 1] ** 2 - 2.0 * ITEMS["price"].to_numpy()


def duels_of(utility, t=500):
    pairs = rng.permuted(np.tile(np.arange(N), (t, 1)), axis=1)[:, :2]
    order = np.argsort(utility[pairs] + rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    return pd.DataFrame({"winner": [f"i{k}" for k in winners], "loser": [f"i{k}" for k in losers]})


TABLE = ITEMS.assign(e=list(E), g=list(G))
DUELS = duels_of(UTILITY)


def fitted(kernel, **options):
    duels = spg.read_duels(TABLE, DUELS, **options)
    return spg.PreferenceGP(duels, kernel, approximation=spg.Exact())


@pytest.fixture(scope="module")
def linear():
    return fitted(gpflow.kernels.Linear(variance=0.3))


@pytest.fixture(scope="module")
def curved():
    return fitted(gpflow.kernels.Matern52(lengthscales=4.0))


def test_contributions_of_blocks_of_a_linear_utility(linear):
    """They are weights times the parts of the step, and exact."""
    found = spg.explain(linear, "i3", "i8")
    assert found.method.startswith("exact")
    assert set(found.frame["feature"]) == {"price", "colour", "e", "g"}
    items, transform = linear.duels.items, linear.duels.transform
    eye = np.eye(linear.duels.num_features)
    r = transform.reduction.size
    weights = np.asarray(linear.predict_f(eye)[0])[-r:, 0]
    step = items[3, -r:] - items[8, -r:]
    for block, own in transform.reduction.projectors().items():
        row = found.frame[found.frame["feature"] == block].iloc[0]
        assert row["contribution"] == pytest.approx(float(step @ own @ weights), rel=1e-6)
        assert row["first"] == "" and row["sd"] > 0.0
    assert abs(found.residual) < 1e-9


def test_contributions_of_blocks_add_up_along_the_path(curved):
    found = spg.explain(curved, "i3", "i8")
    assert found.converged and found.method == "integrated path"
    assert found.frame["contribution"].sum() == pytest.approx(found.difference, abs=1e-6)
    assert "pc_1" not in str(found)


def test_where_all_directions_are_kept_a_step_is_the_block_itself():
    """Its scores with the block of another item are those of the mixed item."""
    frame = {"w": rng.normal(size=(300, 2)), "v": rng.normal(size=(300, 6))}
    transform = spg.read_duels(
        pd.DataFrame({"item_id": range(300), "w": list(frame["w"]), "v": list(frame["v"])}),
        pd.DataFrame({"winner": [0], "loser": [1]}),
    ).transform
    duels = spg.Duels(transform.apply(frame), [0], [1], transform=transform)
    assert transform.reduction.size == 8
    first, second = duels.items[:1], duels.items[1:2]
    for part, mixed in zip(
        feature_parts(duels),
        ({"w": frame["w"][1:2], "v": frame["v"][:1]}, {"w": frame["w"][:1], "v": frame["v"][1:2]}),
        strict=True,
    ):
        np.testing.assert_allclose(
            part.taken_over(first, second), transform.apply(mixed), atol=1e-5
        )


def test_relevances_are_of_raw_columns(curved):
    names, values = feature_relevance(curved)
    assert names == ("price", "colour", "e", "g")
    assert max(values[1], values[3]) < min(values[0], values[2])


def test_pictures_of_directions_alone(curved):
    pytest.importorskip("matplotlib")
    table = TABLE.drop(columns=["price", "colour"])
    duels = spg.read_duels(table, DUELS)
    model = spg.PreferenceGP(duels, curved.kernel, inducing_variable=duels.items[:9].copy())
    assert feature_relevance(model)[0] == ("e", "g")
    model.inducing_variable.Z.assign(100.0 * duels.items[:9])
    texts = [t.get_text() for t in plotting.inducing_inputs(model).get_legend().get_texts()]
    assert any("9 of 9 outside the range" in text for text in texts)


def test_items_far_away_and_levels_never_seen(curved):
    far = pd.concat([TABLE.iloc[:3], TABLE.iloc[:2]], ignore_index=True)
    far["item_id"] = ["i0", "a", "b", "c", "d"]
    far["e"] = [E[0], E[1], E[2] + 0.01, 40.0 * E[3], E[4]]
    far.loc[4, "colour"] = "mauve"
    with pytest.warns(UserWarning, match="'mauve'"):
        found = resolve_items(curved, far)
    assert found.outside_by_feature["reduced features"].tolist()[:4] == [False, False, False, True]
    assert found.unknown_levels == {"colour": {"mauve": 1}}
    assert resolve_items(curved).outside_features == {}


def test_new_items_and_a_saved_model(curved, tmp_path):
    spg.save(curved, tmp_path / "m")
    again = spg.load(tmp_path / "m")
    assert again.duels.transform == curved.duels.transform
    new = TABLE.iloc[:4].assign(item_id=["a", "b", "c", "d"])
    assert np.array_equal(spg.read_items(new, again), curved.duels.items[:4])
    frames = [spg.rank(model, new).frame for model in (curved, again)]
    pd.testing.assert_frame_equal(*frames)
    more = pd.DataFrame({"winner": ["a"], "loser": ["i5"]})
    grown, report = spg.update(again, more, new)
    assert report.new_items == 4
    assert np.array_equal(grown.duels.items[N:], curved.duels.items[:4])
    changed = TABLE.iloc[5:7].assign(e=[E[5], E[6] + 0.1])
    with pytest.raises(ValueError, match=r"item 'i6' .* along pc_1, but the model knows it with"):
        spg.update(again, more.assign(winner="i6"), changed)
    with pytest.raises(ValueError, match="have no vectors 'e'"):
        spg.rank(again, new.drop(columns="e"))


def test_a_streamed_model_keeps_its_directions(tmp_path):
    pytest.importorskip("pyarrow")
    DUELS.to_parquet(tmp_path / "d.parquet")
    stream = spg.stream_duels(tmp_path / "d.parquet", TABLE)
    kernel = gpflow.kernels.Matern52(lengthscales=4.0)
    model = spg.StreamedGP(stream, kernel, inducing_variable=stream.items[:20])
    model.infer()
    spg.save(model, tmp_path / "m")
    again = spg.load(tmp_path / "m")
    assert again.duels.transform == stream.transform
    new = TABLE.iloc[:4].assign(item_id=["a", "b", "c", "d"])
    frames = [spg.rank(one, new).frame for one in (model, again)]
    pd.testing.assert_frame_equal(*frames)


def test_a_named_column_and_a_context_stay_apart(tmp_path):
    duels = DUELS.assign(surface=rng.choice(["clay", "grass"], len(DUELS)))
    table = spg.read_duels(TABLE, duels, context=["surface"]).keeping_apart(["price"])
    found = table.standardised().transform
    assert found.numeric == ("price",) and found.categorical == ("colour", "surface")
    assert [block.name for block in found.blocks] == ["e", "g"]
    assert found.reduction.size == 14
    rows = spg.read_duels(TABLE.iloc[:40], duels_among(40), context=["surface"]).standardised()
    assert rows.num_items > 40 and rows.transform.reduction.size == 5


def duels_among(n):
    pairs = [(k, (k + 1) % n) for k in range(n)]
    return pd.DataFrame(
        {
            "winner": [f"i{a}" for a, _ in pairs],
            "loser": [f"i{b}" for _, b in pairs],
            "surface": ["clay", "grass"] * (n // 2),
        }
    )


def test_what_needs_units_is_refused(linear, curved):
    with pytest.raises(ValueError, match="'e' was reduced along with others"):
        spg.worth(linear, "e")
    assert spg.worth(linear, "price").frame["attribute"].tolist()
    assert linear.duels.summary().reduced.startswith("vector e (10) and vector g (4) -> ")
    assert "made of" in str(curved.duels.summary())
    share = linear.duels.transform.reduction.explained
    assert 0.0 < share <= 1.0 + ROUNDING
