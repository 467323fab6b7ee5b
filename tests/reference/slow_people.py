"""Tastes of people with explicit dense matrices: every utility is named by its item and its person.

f_u(x) = g(x) + h_u(x) + s_u' W x, with g ~ GP(0, shared), h_u ~ GP(0, own) for each person, and
W_jd ~ N(0, v). What inducing inputs leave out of g is done by `covariance_and_correction`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from tests.reference.slow_approximations import Kernel, covariance_and_correction, gram
from tests.reference.slow_ep import slow_ep

Array = NDArray[np.float64]

# In place of a person: what all share, and somebody of whom nothing is known.
CONSENSUS, NOBODY = -2, -1


class SlowPeople(NamedTuple):
    """What is known after the duels."""

    log_evidence: float
    mean: Array
    """Of the utilities asked for."""
    covariance: Array


class SlowTastes(NamedTuple):
    """The prior."""

    shared: Kernel
    own: Kernel
    noise: float
    """Of each side of a duel."""
    row: str = "exact"
    inducing: Array | None = None
    people: Array | None = None
    """(K, S) features; those of people with duels are centred."""
    variance: float = 0.0
    """v."""

    def of_g(self, x: Array, y: Array, low_rank: bool) -> Array:
        if not low_rank or self.inducing is None:
            return gram(self.shared, x, y)
        z = self.inducing
        inner = np.linalg.inv(gram(self.shared, z, z))
        return gram(self.shared, x, z) @ inner @ gram(self.shared, z, y)

    def of_own(self, x: Array, who: list[int], y: Array, others: list[int]) -> Array:
        """h_u and s_u' W x, entry by entry; nobody is one person without features."""
        found = np.zeros((len(x), len(y)))
        for i, one in enumerate(who):
            for j, other in enumerate(others):
                if CONSENSUS in (one, other):
                    continue
                if one == other:
                    found[i, j] += self.own(x[i], y[j])
                if self.people is not None and min(one, other) >= 0:
                    alike = float(self.people[one] @ self.people[other])
                    found[i, j] += self.variance * alike * float(x[i] @ y[j])
        return found


def after_duels(
    tastes: SlowTastes,
    items: ArrayLike,
    winners: ArrayLike,
    losers: ArrayLike,
    who: list[int],
    asked: Array,
    whose: list[int],
    blocks: list[int] | None = None,
) -> SlowPeople:
    """EP of duels of people, and utilities of items (q, D) for people, by number.

    :param blocks: of the duels, for the row pitc.
    """
    x = np.asarray(items, dtype=float)
    won, lost = x[np.asarray(winners)], x[np.asarray(losers)]
    t, noise = len(who), 2.0 * tastes.noise

    def apart(of: Kernel, first: list[int], second: list[int]) -> Array:
        """Covariances of f(loser) - f(winner)."""
        return sum(
            sign * of(a, first, b, second)
            for sign, a, b in ((1, lost, lost), (-1, lost, won), (-1, won, lost), (1, won, won))
        )

    own = apart(tastes.of_own, who, who)
    q = apart(lambda a, _, b, __: tastes.of_g(a, b, True), who, who)
    full = apart(lambda a, _, b, __: tastes.of_g(a, b, False), who, who)
    taste_alone = apart(tastes._replace(people=None).of_own, who, who)
    if tastes.row == "vfe":  # own tastes are noise to g
        correction = 0.0
        for person in set(who):
            of = np.array([u == person for u in who])
            inner = taste_alone[np.ix_(of, of)] + noise * np.eye(of.sum())
            correction -= 0.5 * np.trace(np.linalg.solve(inner, (full - q)[np.ix_(of, of)]))
        covariance = q + noise * np.eye(t)
    elif tastes.row == "exact":
        covariance, correction = full + noise * np.eye(t), 0.0
    else:
        covariance, correction = covariance_and_correction(
            tastes.row, q, full - q, noise, 0, blocks=blocks
        )
    covariance = covariance + own
    found = slow_ep(np.zeros(t), covariance)

    low = tastes.row != "exact"
    crossed = tastes.of_g(asked, lost, low) - tastes.of_g(asked, won, low)
    crossed += tastes.of_own(asked, whose, lost, who) - tastes.of_own(asked, whose, won, who)
    gain = linalg.solve(covariance, crossed.T, assume_a="pos").T
    prior = gram(tastes.shared, asked, asked) + tastes.of_own(asked, whose, asked, whose)
    return SlowPeople(
        found.log_evidence + correction,
        gain @ found.mean,
        prior - gain @ (covariance - found.covariance) @ gain.T,
    )


def spread(at: SlowPeople, people: int, each: int) -> Array:
    """The second moment of s_u' W x over people, as part of what somebody unknown prefers.

    :param at: of the utilities, person by person, `each` items: of people with features, and at the
        end as many of one without (the consensus), all with no taste of their own.
    """
    base, total = slice(people * each, None), np.zeros((each, each))
    for u in range(people):
        own = slice(u * each, (u + 1) * each)
        step = at.mean[own] - at.mean[base]
        both = at.covariance
        total += both[own, own] - both[own, base] - both[base, own] + both[base, base]
        total += np.outer(step, step)
    return total / people


def meeting(
    tastes: SlowTastes, known: SlowPeople, items: Array, winners: list[int], losers: list[int]
) -> SlowPeople:
    """EP on the duels of a new person, known from what was asked: the utilities of all items.

    What inducing inputs leave of g is related to no duel; it is noise to each, but for vfe.
    """
    n = len(known.mean)
    a = np.zeros((len(winners), n))
    for i, (won, lost) in enumerate(zip(winners, losers, strict=True)):
        a[i, lost] += 1.0
        a[i, won] -= 1.0
    left = np.zeros((n, n))
    if tastes.row != "exact":
        left = tastes.of_g(items, items, False) - tastes.of_g(items, items, True)
    seen = a @ (known.covariance - left)
    covariance = seen @ a.T + 2.0 * tastes.noise * np.eye(len(a))
    if tastes.row != "vfe":
        covariance += np.diag(np.diag(a @ left @ a.T))
    found = slow_ep(a @ known.mean, covariance)
    gain = linalg.solve(covariance, seen, assume_a="pos").T
    return SlowPeople(
        found.log_evidence,
        known.mean + gain @ (found.mean - a @ known.mean),
        known.covariance - gain @ (covariance - found.covariance) @ gain.T,
    )
