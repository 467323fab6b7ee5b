"""Descriptions of saved models as they are written now, of those that were written before."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from sparse_prefgp.models.likelihood import BOX, JUDGE
from sparse_prefgp.support.registry import APPROXIMATION, ENGINE, LIKELIHOOD, TERM

Json = dict[str, Any]
Arrays = MutableMapping[str, np.ndarray]
# The kind of a saved `StreamedGP`; that of a `PreferenceGP` has no name.
STREAMED = "streamed"
# What stands for the column of labels of groups that leaned and came from no table.
GROUPS = "group"
# Of how many items next to inducing inputs a model knew the effects when files did not say it.
EFFECTS_KNOWN = 1000
# What messages called the parameters that judges have one each of, whose priors are of their logs.
_OF_JUDGES = ("the noise ratios", "the scales of the cuts")


def upgraded(description: Json, arrays: Arrays) -> Json:
    """The description of a model in the form of today; arrays get the names of today.

    What files of a format have differs, as they came to have more: it is looked for by its name.
    """
    found = {"centre": None, **description}
    streamed = found.get("kind") == STREAMED
    for entry in found["parameters"]:
        entry.setdefault("power", 1.0 if entry["what"] in _OF_JUDGES else None)
    for name, kind in (("approximation", APPROXIMATION), ("engine", ENGINE)):
        if "fields" in found[name]:
            found[name] = _module(kind, found[name]["type"], {}, **found[name]["fields"])
            found[name] |= {k: x for k, x in description[name].items() if k == "module"}
    engine = found["engine"]
    if engine["type"] == "PartitionedEP" and not streamed:  # with the steps of ParallelEP
        kept = {k: x for k, x in engine["arguments"].items() if k not in ("parts", "local_sweeps")}
        found["engine"] = {**engine, "type": "ParallelEP", "arguments": kept}
    integrated = found.get("integrated")
    if integrated is not None:  # names began with a dot
        known = {name.lstrip("."): sd for name, sd in integrated["log_sd"].items()}
        found["integrated"] = {**integrated, "log_sd": known}
    leans = _leans(found)
    found["duels"] = _duels(found, arrays, leans, streamed)
    if "terms" not in found:
        number = found.get("inducing", found.get("inducing_inputs"))
        width = found.get("num_features", arrays["items"].shape[1])
        points = {"parameter": number, "num_features": width}
        found |= {
            "mean_function": found.get("mean_function"),
            "terms": _terms(found, leans),
            "likelihood": _likelihood(found),
            "inducing_variable": None if number is None else points,
        }
    return found


def _module(kind: str, name: str, parameters: Mapping[str, int | None], /, **plain: Any) -> Json:
    """What the codec writes of an object.

    :param parameters: that its constructor takes too, by number; None for none.
    :param plain: values that its constructor takes.
    """
    numbers = {key: number for key, number in parameters.items() if number is not None}
    of_parameters = {key: {"parameter": number} for key, number in numbers.items()}
    of_values = {key: {"value": value} for key, value in plain.items()}
    arguments = of_parameters | of_values
    return {"kind": kind, "type": name, "arguments": arguments, "parameters": numbers}


def _likelihood(found: Json) -> Json:
    ratio, scale = found.get("noise_ratio"), found.get("cut_scale")
    made = _module(
        LIKELIHOOD,
        "Probit",
        {"noise": found["noise_variance"], "margin": found.get("margin")},
        by=None if ratio is None else JUDGE,
        cuts_by=None if scale is None else JUDGE,
        ties=found.get("tie_model", BOX),
    )
    more = {"noise_ratio": ratio, "cut_scale": scale, "tie_share": found.get("tie_share")}
    made["parameters"] |= {name: number for name, number in more.items() if number is not None}
    made["parameters"]["steps"] = found.get("cut_steps", [])
    return made


def _terms(found: Json, leans: Sequence[Sequence[str]]) -> list[Json]:
    variance, taste = found.get("covariate_variance"), found.get("taste")
    terms = [] if variance is None else [_module(TERM, "Coefficients", {"variance": variance})]
    # There was one lean at most.
    one = found.get("lean_variance")
    variances = found.get("lean_variances", () if one is None else (one,))
    for (column, covariate), number in zip(leans, variances, strict=True):
        terms.append(_module(TERM, "Lean", {"variance": number}, covariate=covariate, by=column))
    if taste is not None:
        terms.append(_module(TERM, "Taste", {"by_features": found.get("people_variance")}))
        terms[-1]["arguments"]["kernel"] = {"module": taste}
    return terms


def _leans(found: Json) -> Sequence[Sequence[str]]:
    """Columns of labels and covariates; before there were columns, groups leaned."""
    duels, covariate = found["duels"], found.get("lean_by_group")
    if covariate is None and found.get("lean_variance") is not None:
        covariate = duels["covariates"][found["leaning"][0]]
    if covariate is not None:
        return [(duels.get("group_column") or GROUPS, covariate)]
    leans: Sequence[Sequence[str]] = found.get("lean_by", ())
    return leans


def _duels(found: Json, arrays: Arrays, leans: Sequence[Sequence[str]], streamed: bool) -> Json:
    """What is said of duels and items."""
    data = {"effects_of": "rows", "effects_known": EFFECTS_KNOWN, **found["duels"]}
    before = {"judge": data.get("group_column"), "person": data.get("person_column")}
    known = {role: column for role, column in before.items() if column is not None}
    data["roles"] = known | data.get("roles", {})
    _renamed(data, {"number": "num_duels", "ties": "num_ties"})
    _renamed(arrays, {"groups": "judge", "people": "person"})
    if "columns" in data:
        return data
    names = {
        "judge": {"names": data.get("groups"), "column": data["roles"].get("judge", "judge")},
        "person": {"names": data.get("people"), "column": data["roles"].get("person", "person")},
        "answer": {"names": data.get("levels")},
        "covariates": {"names": data.get("covariates") or None},
    }
    names = {name: said for name, said in names.items() if said["names"] is not None}
    labels = [[column, {"names": of, "column": column}] for column, of in data.get("labels", ())]
    if streamed:  # none of the answers, but names
        nobody = np.empty(0, np.int64)
        arrays.update({"sides": nobody, "judge": nobody, "answer": nobody.astype(np.int8)})
        arrays["covariates"] = np.empty((0, len(data.get("covariates") or ())))
        arrays.update({f"labels_{i}": nobody for i in range(len(labels))})
    if leans and "lean_by" not in found:  # groups did
        labels = [[leans[0][0], names.get("judge", {"names": ()})]]
        arrays["labels_0"] = arrays["judge"]
    if "sides" not in arrays:
        arrays["sides"] = np.stack([arrays["winners"], arrays["losers"]], 1).reshape(-1)
    if "ties" in arrays:
        arrays["kind"] = np.where(arrays["ties"], 1, 0).astype(np.int8)
    return {"kinds": ["win", "tie"], **data, "columns": {"labels": labels, **names}}


def _renamed(values: MutableMapping[str, Any], names: Mapping[str, str]) -> None:
    for before, since in names.items():
        if before in values:
            values[since] = values.pop(before)
