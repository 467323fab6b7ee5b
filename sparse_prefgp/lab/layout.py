"""What lies in the folder of a study, as `ablate` writes it and `report` reads it."""

LAYOUT = 1
STUDY, RUNS, REFERENCES = "study.json", "runs", "references"
PARQUET, CSV = "results.parquet", "results.csv"
COLUMNS = (
    "study",
    "run",
    "data",
    "split",
    "kernel",
    "approximation",
    "engine",
    "inducing",
    "inducing_inputs",
    "hyperparameters",
    "seed",
    "duels",
    "items",
    "status",
    "reason",
    "metric",
    "group",
    "value",
    "unit",
    "direction",
)
DONE, FAILED = STATUSES = ("done", "failed")
# Of a metric: its group, and which way is better.
HELD_OUT, AGAINST_EXACT, EVIDENCE, COST = "held out", "against exact", "evidence", "cost"
HIGHER, LOWER, NEITHER = DIRECTIONS = ("higher", "lower", "none")
