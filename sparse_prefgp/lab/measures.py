"""What a study measures: names, units, which way is better, and how it is shown."""

from __future__ import annotations

from typing import NamedTuple

HELD_OUT, AGAINST_EXACT = "Held-out duels", "Distance from exact inference"
EVIDENCE, COST = "Evidence", "Cost"
LOWER, NEITHER, HIGHER = -1, 0, 1
_ONE_SCALE = ("accuracy", "brier", "auc", "kendall_tau", "nlp_", "calibration_", "probability_rmse")


class Measure(NamedTuple):
    """One of the figures of a run."""

    group: str
    better: int
    """1 where more is better, -1 where less is, 0 where neither."""
    name: str
    label: str
    unit: str = ""
    short: str = ""
    """The heading of a narrow column."""

    @property
    def axis(self) -> str:
        """Label and unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def title(self) -> str:
        """Label and unit as a heading."""
        return self.axis[:1].upper() + self.axis[1:]

    @property
    def direction(self) -> str:
        """Which way is better, after a semicolon."""
        return {HIGHER: "; higher is better", LOWER: "; lower is better"}.get(self.better, "")

    @property
    def falls(self) -> bool:
        """Whether it spreads over many orders, and belongs on a logarithmic axis."""
        return self.group == COST or (self.group == AGAINST_EXACT and self.better != NEITHER)

    @property
    def on_one_scale(self) -> bool:
        """Whether it has the same scale on all data sets, so that these can be averaged."""
        return self.name.startswith(_ONE_SCALE) or self.name.endswith("per_duel")


# In the order of a report.
MEASURES = {
    row[1]: Measure(group, *row)
    for group, rows in {
        HELD_OUT: (
            (LOWER, "nlp_nats", "negative log predictive", "nats", "nlp, nats"),
            (HIGHER, "accuracy", "accuracy", "", "accuracy"),
            (LOWER, "brier", "Brier score"),
            (LOWER, "calibration_error", "calibration error"),
            (HIGHER, "auc", "AUC"),
            (HIGHER, "kendall_tau", "Kendall's tau"),
            (LOWER, "nlp_median_nats", "median negative log predictive", "nats"),
            (LOWER, "nlp_bits", "negative log predictive", "bits"),
            (LOWER, "confident_errors", "confident errors", "duels"),
        ),
        AGAINST_EXACT: (
            (NEITHER, "evidence_gap", "log evidence less exact", "nats", "gap, nats"),
            (LOWER, "kl_from_exact", "KL(exact || approximate)", "nats"),
            (LOWER, "kl_to_exact", "KL(approximate || exact)", "nats"),
            (LOWER, "marginal_kl_from_exact", "KL of an item from exact", "nats"),
            (LOWER, "marginal_kl_to_exact", "KL of an item to exact", "nats"),
            (LOWER, "mean_rmse", "root mean square error of means", "utility"),
            (LOWER, "mean_largest", "largest error of means", "utility"),
            (LOWER, "sd_rmse", "root mean square error of sds", "utility"),
            (LOWER, "sd_largest", "largest error of sds", "utility"),
            (LOWER, "probability_rmse", "root mean square error of probabilities"),
            (LOWER, "probability_largest", "largest error of probabilities"),
        ),
        EVIDENCE: (
            (HIGHER, "log_evidence_per_duel", "log evidence per duel", "nats", "evidence"),
            (HIGHER, "log_evidence", "log evidence", "nats"),
            (HIGHER, "lower_bound", "lower bound of the log evidence", "nats"),
        ),
        COST: (
            (LOWER, "fit_seconds", "time to fit", "s", "fit, s"),
            (LOWER, "gradient_seconds", "time of a gradient", "s"),
            (LOWER, "sweeps", "sweeps"),
            (NEITHER, "iterations", "iterations"),
        ),
    }.items()
    for row in rows
}
