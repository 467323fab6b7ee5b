"""Names for people: of metrics with their axes, and of the settings that make a method."""

from __future__ import annotations

from dataclasses import dataclass

from sparse_prefgp.lab.layout import AGAINST_EXACT, COST, EVIDENCE, HELD_OUT

GROUPS = {
    HELD_OUT: "Held-out duels",
    AGAINST_EXACT: "Distance from exact inference",
    EVIDENCE: "Evidence",
    COST: "Cost",
}

CALIBRATION = "calibration_error"
FIT_SECONDS, PEAK_MEMORY = "fit_seconds", "peak_memory_bytes"
# Which metric stands for the quality of a method, the first that a study has.
HEADLINES = ("nlp_nats", "kl_from_exact", "accuracy", "brier", "log_evidence")
AGAINST_TIME = ("nlp_nats", "kl_from_exact", "accuracy")
SUMMARY = (
    "accuracy",
    "nlp_nats",
    "brier",
    CALIBRATION,
    "kl_from_exact",
    "evidence_gap",
    FIT_SECONDS,
    PEAK_MEMORY,
)
BRIEF = ("accuracy", "nlp_nats", FIT_SECONDS)
# In the order of a report; a name that is not here follows, spelled out.
LABELS = {
    "accuracy": "accuracy",
    "nlp_nats": "negative log predictive",
    "nlp_bits": "negative log predictive",
    "nlp_median_nats": "median negative log predictive",
    "confident_errors": "confident errors",
    "brier": "Brier score",
    CALIBRATION: "calibration error",
    "auc": "AUC",
    "kendall_tau": "Kendall's tau",
    "kl_from_exact": "KL(exact || approximate)",
    "kl_to_exact": "KL(approximate || exact)",
    "marginal_kl_from_exact": "marginal KL(exact || approximate)",
    "marginal_kl_to_exact": "marginal KL(approximate || exact)",
    "evidence_gap": "log evidence less exact",
    "mean_rmse": "root mean square error of means",
    "mean_largest": "largest error of means",
    "sd_rmse": "root mean square error of sds",
    "sd_largest": "largest error of sds",
    "probability_rmse": "root mean square error of duel probabilities",
    "probability_largest": "largest error of duel probabilities",
    "log_evidence": "log evidence",
    "log_evidence_per_duel": "log evidence per duel",
    "lower_bound": "lower bound of the log evidence",
    FIT_SECONDS: "time to fit",
    "sweep_seconds": "time of a sweep",
    "gradient_seconds": "time of a gradient",
    "sweeps": "sweeps",
    "iterations": "iterations",
    PEAK_MEMORY: "memory taken",
}
# Divergences and errors can be 0 and fall by many orders as m grows.
FALLING = frozenset(name for name in LABELS if "kl_" in name or name.endswith(("rmse", "largest")))
# On one scale on all data sets. Sums and largest values over duels or items, distances between
# utilities, seconds and bytes grow with the data.
ON_ONE_SCALE = frozenset(
    {
        "accuracy",
        "nlp_nats",
        "nlp_bits",
        "nlp_median_nats",
        "brier",
        CALIBRATION,
        "auc",
        "kendall_tau",
        "probability_rmse",
        "log_evidence_per_duel",
    }
)
# What is stored in one unit and shown in another: unit, factor.
SHOWN = {"bytes": ("MiB", 2.0**-20)}

APPROXIMATIONS = {
    "exact": "exact",
    "vfe": "VFE",
    "dtc": "DTC",
    "fitc": "FITC",
    "pitc": "PITC",
    "tight-vfe": "tight VFE",
    "tight-vfe-rank": "tight VFE (rank)",
    "tight-vfe-logdet": "tight VFE (log det)",
    "hetero-vfe": "heteroscedastic VFE",
    "prior-power": "prior power",
    "subset": "subset of",
    "linear-probit": "linear probit",
    "svgp": "SVGP",
}
NUMBERED = {"pitc": " blocks", "subset": " duels"}
SETTING_VALUES = {"ep": "EP", "laplace": "Laplace", "kmeans": "k-means"}


@dataclass(frozen=True)
class ReportedMetric:
    """A metric as its rows in the results say: name, unit, direction that is better, family."""

    name: str
    unit: str
    direction: str
    group: str

    @property
    def label(self) -> str:
        return LABELS.get(self.name, self.name.replace("_", " "))

    @property
    def shown_unit(self) -> str:
        """The unit of tables and figures."""
        return SHOWN.get(self.unit, (self.unit, 1.0))[0]

    @property
    def factor(self) -> float:
        """Values times this are in the unit of tables and figures."""
        return SHOWN.get(self.unit, (self.unit, 1.0))[1]

    @property
    def axis(self) -> str:
        """Label and unit, the latter where there is one and it says more than the label."""
        known = self.shown_unit in ("", "none", *self.label.split())
        return self.label if known else f"{self.label} ({self.shown_unit})"

    @property
    def falls(self) -> bool:
        """Whether its values can be 0 and spread over many orders."""
        return self.name in FALLING or self.group == COST

    @property
    def is_on_one_scale(self) -> bool:
        """Whether values of several data sets can be averaged."""
        return self.name in ON_ONE_SCALE

    @property
    def place(self) -> tuple[int, int]:
        """By which metrics are sorted: family, then the order of the list."""
        groups, names = list(GROUPS), list(LABELS)
        return (
            groups.index(self.group) if self.group in groups else len(groups),
            names.index(self.name) if self.name in LABELS else len(names),
        )


def approximation_label(name: str) -> str:
    """`prior-power:0.5` becomes "prior power 0.5", `subset:1000` "subset of 1,000 duels"."""
    head, _, number = name.partition(":")
    words = APPROXIMATIONS.get(head, head)
    if not number:
        return words
    counted = f"{int(number):,}" if number.isdecimal() else number
    return f"{words} {counted}{NUMBERED.get(head, '')}"


def setting_label(value: str) -> str:
    """A value of any other setting, such as `kmeans`."""
    return SETTING_VALUES.get(value, value)
