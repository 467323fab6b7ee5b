"""Predictions of a model as a TensorFlow SavedModel, which needs nothing but TensorFlow."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpflow
import tensorflow as tf

from sparse_prefgp.disk.folders import check_replaceable, contents, has_format, replaced_folder
from sparse_prefgp.engines import Status
from sparse_prefgp.factors.choice_probabilities import propagated_choices
from sparse_prefgp.models.likelihood import Outcomes
from sparse_prefgp.models.parameters import leaves_of, with_leaves
from sparse_prefgp.models.posterior import CHUNK
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.support.checks import check_kind
from sparse_prefgp.support.quiet import warnings_alone
from sparse_prefgp.support.versions import versions
from sparse_prefgp.support.words import of_the_mode

FORMAT = "sparse_prefgp SavedModel"
_SERVED = ("predict_f", "predict_duel", "predict_choice")
# TensorFlow leaves this folder of a SavedModel to whoever writes one.
_EXTRA, _DESCRIPTION = "assets.extra", "sparse_prefgp.json"
_WRITTEN = {"saved_model.pb", "variables", "assets", "fingerprint.pb", _EXTRA}
# A SavedModel is one protocol buffer, of at most 2 GB. It holds the factor of the features and the
# matrix that reduces the variance.
_MOST_ROWS = 7000


def export_saved_model(model: PreferenceGP, path: str | os.PathLike[str]) -> None:
    """Write the predictions of a model as a TensorFlow SavedModel.

    `tf.saved_model.load(path)` brings back, without this package or GPflow,

    - `predict_f(items)`: a dictionary of `mean` (N, 1) and `variance` (N, 1) of the utility;
    - `predict_duel(first, second)`: `probability` (N,) that each first item beats the second, and
      for a model with a margin `tie_probability` (N,), for one with grades `grade_probabilities`
      (N, L), worst first; with noise by group, of an unknown one; with tastes, for somebody of
      whom nothing is known, or of a view (`model.of_person`) for its person;
    - `predict_choice(items, mask)` for sets, (N, k, D) and (N, k) of truth values, which of them
      there are, one at least: `probability` (N, k) that each is chosen, 0 for none, by expectation
      propagation as `model.predict_choice` has it, and `change` (N,), by how much its sites still
      moved: above 1e-8 the probabilities have not settled,

    also as `signatures`, for any number of rows, in the units of `model.duels.items` and GPflow's
    default float. Parameters and posterior are constants as they are now. With `ItemEffect` the
    items have one more column, the row number of the item, -1 for an unknown one. The folder's
    `assets.extra/sparse_prefgp.json` names the columns.

    :param path: a new or empty folder, or one that holds such an export, which is replaced.
    :raises ValueError: no `PreferenceGP`; logit factors; a folder with other things in it;
        predictions that are not finite; a model too large for a SavedModel.
    """
    check_kind("model", model, PreferenceGP, "a PreferenceGP")
    model.allow(export=True)
    if model.at_mode is not model:
        warnings.warn(of_the_mode("Predictions of the export"), stacklevel=2)
        model = model.at_mode
    module = _predictions(model)
    description = {
        "format": FORMAT,
        "columns": _columns(model),
        "float": gpflow.default_float().__name__,
        "versions": versions(),
    }
    with replaced_folder(Path(path), _check_replaceable) as folder:
        signatures = {name: getattr(module, name) for name in _SERVED}
        # Nobody trains constants, and TensorFlow cannot save the gradients of GPflow's transforms.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        with warnings_alone(tf.get_logger()):  # it would name a folder that is there for a moment
            tf.saved_model.save(module, str(folder), signatures, options)
        extra = folder / _EXTRA
        extra.mkdir()
        text = json.dumps(description, indent=1, allow_nan=False) + "\n"
        (extra / _DESCRIPTION).write_text(text, encoding="utf-8")


def _predictions(model: PreferenceGP) -> tf.Module:
    """A module whose functions hold constants only."""
    if model.infer().status is Status.NOT_FINITE:
        raise ValueError(
            "Inference has not come to finite values, so the model cannot predict and is not "
            f"exported: {model.infer()}."
        )
    ratios, link = model.likelihood.new_ratios(with_cuts=False), model.engine.link_function
    noises, weights = float(model.likelihood.noise.numpy()) * ratios.ratios, ratios.weights
    # A variable would have to be kept by whoever loads a function that reads it: tensors for
    # parameters, at the same sites.
    constant = with_leaves(model, list(map(tf.convert_to_tensor, leaves_of(model))))
    constant.inference.restore(*model.inference.sites(), model.infer())
    # Of groups that nobody knows yet there is the prior, which no tensor has.
    constant.likelihood.noise_ratio = model.likelihood.noise_ratio
    constant.likelihood.cut_scale = model.likelihood.cut_scale
    model = constant
    # With constants for what the kernel of a view has besides the model's parameters.
    utilities, outcomes = (
        replace(posterior, kernel=gpflow.utilities.freeze(posterior.kernel))
        for posterior in (model.posterior(), model.posterior_of_outcomes())
    )
    rows = int(outcomes.terms.weights.shape[0])
    if rows > _MOST_ROWS:
        raise ValueError(
            f"The posterior has {rows} inducing variables or items, but a SavedModel holds at most "
            f"{_MOST_ROWS}; export a model with inducing inputs, or use spg.save."
        )
    columns, dtype = len(_columns(model)), gpflow.default_float()
    items, sets = (tf.TensorSpec([None] * n + [columns], dtype) for n in (1, 2))

    def predict_f(items: tf.Tensor) -> dict[str, tf.Tensor]:
        both = _in_chunks(utilities.marginal, model.inputs.rows(items))
        return {"mean": both[:, :1], "variance": both[:, 1:]}

    def predict_duel(first: tf.Tensor, second: tf.Tensor) -> dict[str, tf.Tensor]:
        both = _in_chunks(outcomes.difference, model.inputs.pairs(first, second))
        said = Outcomes(model.likelihood, link, both[:, 0], both[:, 1])
        found = {"probability": tf.exp(said.win)}
        if model.likelihood.margin is not None:
            found["tie_probability"] = tf.exp(said.tie)
        if model.duels.levels is not None:
            found["grade_probabilities"] = tf.exp(said.grades)
        return found

    def predict_choice(items: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        first = tf.gather(items, tf.argmax(mask, 1), batch_dims=1)
        # What is not there stands in as the first that is.
        there = tf.where(mask[:, :, None], items, first[:, None, :])
        rows = model.inputs.rows(tf.reshape(there, [-1, items.shape[2]]))
        number, size = tf.shape(items)[0], tf.shape(items)[1]
        place = tf.reshape(tf.range(number * size), [number, size])
        pairs = tf.stack([tf.repeat(place, size, axis=1), tf.tile(place, [1, size])], -1)
        both = _in_chunks(outcomes.difference, tf.gather(rows, tf.reshape(pairs, [-1, 2])))
        both = tf.cast(tf.reshape(both, [number, size, size, 2]), tf.float64)
        # Utilities less that of the first.
        apart = both[..., 1]
        covariance = 0.5 * (apart[:, :1, :] + apart[:, :, :1] - apart)
        # One set at each noise, side by side.
        count = len(noises)
        logs, change = propagated_choices(
            tf.repeat(-both[:, 0, :, 0], count, axis=0),
            tf.repeat(covariance, count, axis=0),
            tf.tile(tf.constant(noises, tf.float64), [number]),
            tf.repeat(mask, count, axis=0),
        )
        shares = tf.reshape(tf.exp(logs), [number, count, size])
        found = {
            "probability": tf.einsum("r,brk->bk", tf.constant(weights, tf.float64), shares),
            "change": tf.reduce_max(tf.reshape(change, [number, count]), 1),
        }
        return {name: tf.cast(value, items.dtype) for name, value in found.items()}

    module, mask = tf.Module(), tf.TensorSpec([None, None], tf.bool)
    module.predict_choice = _of_rows(predict_choice, items=sets, mask=mask)
    module.predict_f = _of_rows(predict_f, items=items)
    module.predict_duel = _of_rows(predict_duel, first=items, second=items)
    return module


def _of_rows(function: Callable[..., dict[str, tf.Tensor]], **inputs: tf.TensorSpec) -> Any:
    """A compiled function of named inputs."""
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in inputs.items()]
    return tf.function(function, input_signature=specs, autograph=False)


def _in_chunks(function: Callable[[tf.Tensor], tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
    """What `posterior.in_chunks` does, for a number of rows that is not known beforehand."""
    count = tf.shape(inputs)[0]
    chunks = (count + CHUNK - 1) // CHUNK

    def step(i: tf.Tensor, parts: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        return i + 1, parts.write(i, function(inputs[i * CHUNK : (i + 1) * CHUNK]))

    parts = tf.TensorArray(inputs.dtype, chunks, infer_shape=False, element_shape=[None, 2])
    _, parts = tf.while_loop(lambda i, _: i < chunks, step, (0, parts), parallel_iterations=1)
    return parts.concat()


def _columns(model: PreferenceGP) -> list[str]:
    """Names of the columns of the inputs."""
    names = model.duels.feature_names
    if names is None:
        names = tuple(str(column) for column in range(model.duels.num_features))
    return [*names, "row number of the item"] if model.inputs.layout.numbered else list(names)


def _check_replaceable(folder: Path) -> None:
    ours = has_format(folder / _EXTRA / _DESCRIPTION, FORMAT)
    foreign = sorted(contents(folder) - (_WRITTEN if ours else set()))
    check_replaceable(folder, foreign, "an exported model")
