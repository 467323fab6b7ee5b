"""Which of two short texts is funnier, for texts that others voted on: `fit` next to ridges.

`humour`: a fifth of the votes, `default_rng(0).uniform(size=votes) < 0.2`, is held out. `fit` has
the category and an effect of each text, a ridge logistic regression the effects alone, another one
the category too, each with the penalty that is best for the held-out votes themselves. `bws_score`
is made of the votes and left out.

    python experiments/embeddings/humour_known.py
    python experiments/embeddings/humour_known.py --text --no-ridge
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import sparse_prefgp as spg

DATA = Path(os.environ.get("SPARSE_PREFGP_DATA", "../shared/data")) / "humour"
STRENGTHS = (0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)


def ridge(columns: sparse.csr_matrix, held: np.ndarray) -> str:
    """Nats of held-out votes and the penalty; a row of columns is winner less loser."""
    train, test = columns[~held], columns[held]
    # Each vote in both directions: two classes, and no intercept.
    both = sparse.vstack([train, -train]).tocsr()
    classes = np.repeat([1, 0], train.shape[0])
    nats = {}
    for strength in STRENGTHS:
        found = LogisticRegression(C=strength / 2.0, fit_intercept=False, max_iter=2000)
        found.fit(both, classes)
        nats[strength] = -found.predict_log_proba(test)[:, 1].mean()
    best = min(nats, key=nats.__getitem__)
    return f"{nats[best]:.4f} with C = {best}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", action="store_true", help="features of the texts too")
    parser.add_argument("--kernel", default="linear+item", help="of fit")
    parser.add_argument("--no-ridge", action="store_true", help="fit alone")
    given = parser.parse_args()
    items = pd.read_csv(DATA / "items.csv.gz")[["item_id", "category", "text"]]
    duels = pd.read_csv(DATA / "duels.csv.gz")
    held = np.random.default_rng(0).uniform(size=len(duels)) < 0.2
    votes = duels[["winner", "loser"]].assign(held_out=held.astype(int))
    counted = votes.groupby(["winner", "loser", "held_out"], as_index=False).size()
    begun = time.perf_counter()
    found = spg.fit(
        items if given.text else items[["item_id", "category"]],
        counted.rename(columns={"size": "count"}),
        text=["text"] if given.text else (),
        split="given:held_out",
        kernel=given.kernel,
    )
    model, report = found.scores["model"], found.report
    print(
        f"{given.kernel}{' with texts' if given.text else ''}: {model['nlp_nats']:.4f} nats, "
        f"{model['accuracy']:.3f} right, {model['duels']:,} votes, "
        f"{time.perf_counter() - begun:.1f} s in all, {report.seconds:.1f} s the fit, "
        f"{report.iterations} iterations, {report.evaluations} evaluations; linear probit "
        f"{found.scores['linear_probit']['nlp_nats']:.4f}",
        flush=True,
    )
    if given.no_ridge:
        return
    place = pd.Series(np.arange(len(items)), index=items["item_id"])
    rows = np.arange(len(duels))
    one = sparse.csr_matrix(
        (np.ones(len(duels)), (rows, place[duels["winner"]])), (len(rows), len(items))
    )
    two = sparse.csr_matrix((np.ones(len(duels)), (rows, place[duels["loser"]])), one.shape)
    category = sparse.csr_matrix(pd.get_dummies(items["category"]).to_numpy(float))
    print(f"ridge, effects: {ridge(one - two, held)}", flush=True)
    columns = sparse.hstack([one - two, (one - two) @ category]).tocsr()
    print(f"ridge, category and effects: {ridge(columns, held)}", flush=True)


if __name__ == "__main__":
    main()
