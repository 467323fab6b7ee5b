"""What somebody who knows answers says of questions, which are answers without their outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.normals import Normals
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table

# What may be asked, and scored.
DUELS, OUTCOMES, GRADES, CHOICES, RANKINGS = "duels", "outcomes", "grades", "choices", "rankings"
# Names of the outcomes of a duel.
FIRST, TIE, SECOND = "first", "tie", "second"


@dataclass(frozen=True, eq=False)
class Forecast(Result):
    """The probabilities of the outcomes of t questions."""

    of: str
    """What is asked, as for `score`: which side wins (`duels`), or whether they tie (`outcomes`),
    the grade of the first over the second (`grades`), who is chosen (`choices`); of rankings and
    other answers about sets, whether they are what is said (`rankings`)."""
    log_p: FloatArray
    """(t, k) natural logarithms; -inf where a set has fewer alternatives. Of rankings k is 1."""
    outcomes: tuple[str, ...]
    """k names: `first`, `tie`, `second`; of grades, worst first; the places of alternatives."""
    mean: FloatArray | None = None
    """(t,) of the utility of the first side of a duel less that of the second; None of sets."""
    variance: FloatArray | None = None
    """(t,) of the same; below 0 only by rounding."""
    normals: Normals | None = None
    """Of the same, where hyperparameters are integrated out."""

    @classmethod
    def of_choices(cls, log_p: FloatArray) -> Forecast:
        """Of the alternatives of sets, (t, k)."""
        return cls(CHOICES, log_p, tuple(str(place + 1) for place in range(log_p.shape[1])))

    @classmethod
    def of_answers(cls, log_p: FloatArray) -> Forecast:
        """Of what was said, (t,)."""
        return cls(RANKINGS, log_p[:, None], ("as said",))

    @classmethod
    def joined(cls, parts: Sequence[Forecast]) -> Forecast:
        """That of the questions of all parts, in their order."""
        widest = max(parts, key=lambda part: len(part.outcomes))
        moments = {
            name: np.concatenate(values)
            for name in ("mean", "variance")
            if (values := [x for part in parts if (x := getattr(part, name)) is not None])
        }
        mixed = [part.normals for part in parts if part.normals is not None]
        return cls(
            widest.of,
            joined([part.log_p for part in parts]),
            widest.outcomes,
            **moments,
            normals=Normals.joined(mixed) if mixed else None,
        )

    @property
    def difference(self) -> Normals:
        """Of the utility of the first side of a duel less that of the second; none of sets."""
        if self.normals is not None:
            return self.normals
        assert self.mean is not None and self.variance is not None
        return Normals.of(self.mean, self.variance)

    @property
    def p(self) -> FloatArray:
        """(t, k) probabilities, which add up to 1 but for rankings."""
        return np.exp(self.log_p)

    @property
    def results(self) -> FloatArray:
        """(t, 3) log probabilities that the first side of a duel wins, ties and loses."""
        if self.of == OUTCOMES:
            return self.log_p
        if self.of == DUELS:
            return np.insert(self.log_p, 1, -np.inf, axis=1)
        half = len(self.outcomes) // 2
        worse, tied, better = np.split(self.log_p, [half, len(self.outcomes) - half], axis=1)
        return np.stack([np.logaddexp.reduce(side, axis=1) for side in (better, tied, worse)], 1)

    @property
    def log_first(self) -> FloatArray:
        """(t,) log probability that the first side wins, given that they do not tie, or is chosen;
        of rankings, of what is said."""
        if self.of not in (OUTCOMES, GRADES):
            return self.log_p[:, 0]
        won, _, lost = self.results.T
        return np.asarray(won - np.logaddexp(won, lost))

    def table(self, most: int | None = None) -> Table:
        """A row for each question."""
        columns = [Column(name, name, ".4f") for name in self.outcomes]
        rows = [dict(zip(self.outcomes, row, strict=True)) for row in self.p[:most].tolist()]
        title = f"Probabilities of {len(self.log_p):,} {self.of}"
        return Table("forecast", title, columns, rows)


def joined(values: Sequence[FloatArray]) -> FloatArray:
    """Those of all parts, (t,) or (t, k); where some have fewer columns, the rest is -inf."""
    if values[0].ndim == 1:
        return np.concatenate(values)
    width = max(each.shape[1] for each in values)
    ends = (((0, 0), (0, width - each.shape[1])) for each in values)
    return np.concatenate(
        [np.pad(each, end, constant_values=-np.inf) for each, end in zip(values, ends, strict=True)]
    )
