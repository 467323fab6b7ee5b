"""Any small problem at once by dense matrices: all terms of the prior, all kinds of answers.

Every side of every answer is a row; z is a row less another, and everything else is one covariance
of rows. Only what a term adds to that covariance is written here; sites are found by plain parallel
EP with nothing updated and nothing merged but shares of duels (docs/method.md, sections 1, 2, 14).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr

from tests.reference import slow_time
from tests.reference.slow_grades import box, probability
from tests.reference.slow_residual import pair_term
from tests.reference.slow_sets import rows_of, slow_sets, squared_exponential
from tests.reference.slow_time import conditioned

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# In place of a person: what all share, and somebody of whom nothing is known.
CONSENSUS, NOBODY = -2, -1
PAIRS = ("win", "tie", "grade")
YEAR = 365.25


class Said(NamedTuple):
    """One answer; of what a problem has not, nothing is looked at."""

    kind: str
    sides: tuple[int, ...]
    """Rows of the items, best first; of a grade the first and the second."""
    grade: int = 0
    ordered: int = 0
    count: int = 1
    weight: float = 1.0
    """As how many answers each of `count` counts."""
    judge: int = 0
    person: int = 0
    day: float = 0.0
    label: int = 0
    covariates: tuple[tuple[float, ...], ...] = ()
    """Of each side."""


class Problem(NamedTuple):
    """What a model is made of, in plain numbers."""

    has: frozenset[str]
    """Features, as `random_problems` names them."""
    items: Array
    """(n, D)."""
    item: Ints
    """(n,) which item each row is of."""
    said: tuple[Said, ...]
    kernel: tuple[tuple[str, float, Array], ...]
    """Terms of the kernel of features: a name, a variance and (D,) lengthscales or weights."""
    inducing: Array
    """(m, D)."""
    noise: float
    """sigma² of each side."""
    mean: Array
    """(D,) weights of a linear prior mean."""
    cuts: tuple[float, ...]
    """Of grades, ascending; the first is the margin, 0 where ties cannot be."""
    ratios: Array
    """By what each judge multiplies the noise."""
    scales: Array
    """By what each judge multiplies the cuts."""
    covariate_variances: Array
    """(C,)."""
    lean_variance: float
    """Of leans by the first covariate."""
    item_variance: float
    pair_variance: float
    in_time: tuple[tuple[str, float, float], ...]
    """Terms of utilities in time: a name, a variance, and a rate or lengthscale in years."""
    slice_days: float
    taste: tuple[tuple[str, float, Array], ...]
    taste_effect: float
    """Variance of the effects of items in tastes, 0 for none."""
    people: Array
    """(P, S) features of people, of whom the last has no answers."""
    people_variance: float
    item_times: tuple[tuple[str, float, Array], ...]
    """Terms of effects of items in contexts."""
    new: Array
    """(q, D) items of which nothing is known, with numbers from n on where they are asked for."""
    asked: tuple[Said, ...]
    """Questions, of which judge, person or label may be unknown (-1)."""

    @property
    def margin(self) -> bool:
        """Whether there can be ties."""
        return self.cuts[0] > 0.0


class Rows(NamedTuple):
    """Utilities that may be asked for, r of them."""

    x: Array
    """(r, D)."""
    item: Ints
    """(r,), another number for each new item."""
    date: Array
    """(r,) years."""
    begin: Array
    """(r,) years, of the first slice of the item."""
    covariates: Array
    """(r, C)."""
    label: Ints
    """(r,)."""
    person: Ints
    """(r,)."""

    def followed_by(self, other: Rows) -> Rows:
        return Rows(*(np.concatenate(both) for both in zip(self, other, strict=True)))


class Propagated(NamedTuple):
    """Where EP ended."""

    weights: Array
    """(t,) a, by which a new utility has the mean k(x, z) a."""
    reduction: Array
    """(t, t) M, by which its variance is less by k(x, z) M k(z, x)."""
    log_evidence: float


def kernel_matrix(terms: tuple[tuple[str, float, Array], ...], x: Array, y: Array) -> Array:
    """(n, m)."""
    found = np.zeros((len(x), len(y)))
    for name, variance, scales in terms:
        if name == "linear":
            found += variance * (x * scales) @ y.T
        elif name == "level":  # of the last feature
            found += variance * (x[:, None, -1] == y[:, -1])
        else:
            found += squared_exponential(x, y, variance, scales)
    return found


def dates_of(problem: Problem) -> tuple[Array, dict[int, float]]:
    """Of each answer the mean date of its slice, in years, and of each item that of its first of
    those that tell something."""
    days = np.array([each.day for each in problem.said])
    counts = np.array([each.count for each in problem.said])
    number = np.floor(days / problem.slice_days)
    dates = np.empty(len(days))
    first: dict[int, float] = {}
    for each in np.unique(number):
        here = number == each
        dates[here] = np.average(days[here], weights=counts[here]) / YEAR
    for each, date in zip(problem.said, dates, strict=True):
        for row in each.sides if tells(problem, each) else ():
            item = int(problem.item[row])
            first[item] = min(first.get(item, np.inf), date)
    return dates, first


def tells(problem: Problem, each: Said) -> bool:
    """Whether an answer says something of utilities."""
    return not ("margin_only" in problem.has and each.kind == "tie")


def utilities(problem: Problem, rows: Ints, date: float, person: int = CONSENSUS) -> Rows:
    """Utilities of rows of the items, or of new ones, of whose answers nothing is said.

    :param date: in years; a Wiener process before it began is what it was at its beginning.
    """
    first = dates_of(problem)[1]
    n, new = len(rows), len(problem.new)
    item = np.concatenate([problem.item, 10_000 + np.arange(new)])[rows]
    begin = np.array([first.get(int(i), date) for i in item])
    asked = np.full(n, date)
    if any(name == "wiener" for name, *_ in problem.in_time):
        asked = np.maximum(asked, begin)
    nothing = np.zeros((n, len(problem.covariate_variances)))
    x = np.concatenate([problem.items, problem.new])[rows]
    return Rows(x, item, asked, begin, nothing, np.full(n, -1), np.full(n, person))


def sides_of(problem: Problem, said: tuple[Said, ...]) -> Rows:
    """All sides of some answers or questions, one after the other."""
    parts = []
    for i, each in enumerate(said):
        own = utilities(problem, np.array(each.sides), each.day / YEAR, each.person)
        label = each.label if each.label >= 0 else -1 - i  # another one each time
        label = np.full(len(each.sides), label)
        parts.append(own._replace(covariates=np.array(each.covariates), label=label))
    return Rows(*(np.concatenate(every) for every in zip(*parts, strict=True)))


class Covariances(NamedTuple):
    """Between rows, (r, r) each."""

    full: Array
    """Of what all share."""
    low: Array
    """The same as the approximation has it."""
    own: Array
    """Of tastes without what features of people say."""


def covariances(problem: Problem, rows: Rows, inducing: bool) -> Covariances:
    """Prior covariances of utilities."""
    x, has = rows.x, problem.has
    full = kernel_matrix(problem.kernel, x, x)
    low = full
    if inducing:
        across, inner = np.zeros((len(x), len(problem.inducing))), 0.0
        for term in problem.kernel:
            z = problem.inducing
            if term[0] == "linear":  # values of f less that of the centre
                z = z - problem.items.mean(0)
            across += kernel_matrix((term,), x, z)
            inner = inner + kernel_matrix((term,), z, z)
        low = across @ np.linalg.solve(inner, across.T)
    same_item = rows.item[:, None] == rows.item
    exact = np.zeros_like(full)
    if "item_effect" in has:
        exact += problem.item_variance * same_item
    if "item_times" in has:
        exact += kernel_matrix(problem.item_times, x, x) * same_item
    if "covariates" in has:
        exact += (rows.covariates * problem.covariate_variances) @ rows.covariates.T
    if "leans" in has:
        lean = problem.lean_variance * np.outer(rows.covariates[:, 0], rows.covariates[:, 0])
        exact += lean * (rows.label[:, None] == rows.label)
    if "in_time" in has:
        kernel = slow_time.added(*(time_kernel(*term) for term in problem.in_time))
        # A new item begins anew in every question.
        pairs = np.stack([rows.item, rows.begin])
        item = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
        first = dict(zip(item.tolist(), rows.begin, strict=True))
        exact += slow_time.utilities(kernel, item, rows.date, first)
    own = np.zeros_like(full)
    if "tastes" in has:
        theirs = kernel_matrix(problem.taste, x, x) + problem.taste_effect * same_item
        same = (rows.person[:, None] == rows.person) & (rows.person >= NOBODY)
        own += theirs * same
    if "people_features" in has:
        moved = people_columns(problem, rows)
        exact += problem.people_variance * moved @ moved.T
    return Covariances(full + exact, low + exact, own)


def time_kernel(name: str, variance: float, more: float) -> slow_time.InTime:
    if name == "constant":
        return slow_time.constant(variance)
    return getattr(slow_time, name)(variance, more)


def people_columns(problem: Problem, rows: Rows) -> Array:
    """(r, S D), s_u x' of each row: what the coefficients W are multiplied by."""
    known = np.unique([each.person for each in problem.said])
    centred = problem.people - problem.people[known].mean(0)
    theirs = np.where(rows.person[:, None] >= 0, centred[np.maximum(rows.person, 0)], 0.0)
    return np.einsum("rs,rd->rsd", theirs, rows.x).reshape(len(rows.x), -1)


class Sites(NamedTuple):
    """The z of all answers."""

    apart: Array
    """(t, r) A, worse less better of the sides."""
    noise: Array
    """(t, t) N of one copy."""
    counts: Array
    """(t,) as how many each counts."""
    lower: Array
    upper: Array
    ends: Ints
    """(t, 2) the items of worse and better."""

    @property
    def blocks(self) -> Ints:
        """(t,) the look of each: what shares noise."""
        return np.asarray(connected_components(self.noise != 0.0)[1])


def merged(problem: Problem) -> Problem:
    """Equal duels as one that counts as all of them: shares of duels are added up."""
    found: dict[tuple[object, ...], Said] = {}
    dates = dates_of(problem)[0]
    for each, date in zip(problem.said, dates, strict=True):
        sides, covariates, grade = each.sides, each.covariates, each.grade
        rows = [(*problem.items[row], problem.item[row]) for row in sides]
        turned = grade < 0 or (each.kind == "tie" and rows[0] > rows[1])
        if turned:
            rows, covariates, grade = rows[::-1], covariates[::-1], -grade
        key = (each.kind, grade, tuple(rows), each.judge, each.person, each.label, date, covariates)
        before = found.get(key)
        weight = each.count * each.weight + (before.weight if before else 0.0)
        found[key] = (before or each)._replace(count=1, weight=weight)
    return problem._replace(said=tuple(found.values()))


def sites_of(problem: Problem) -> tuple[Sites, Rows]:
    """Copies apart, unless weights are no whole numbers."""
    dates = dates_of(problem)[0]
    given = problem._replace(
        said=tuple(
            each._replace(day=float(date * YEAR))
            for each, date in zip(problem.said, dates, strict=True)
            if tells(problem, each)
        )
    )
    if "weights" in problem.has:
        each_once = merged(given).said
    else:
        each_once = tuple(each._replace(count=1) for each in given.said for _ in range(each.count))
    rows = sides_of(problem, each_once)
    asked = [
        ("choice" if each.kind in PAIRS else each.kind, list(each.sides), each.ordered)
        for each in each_once
    ]
    made = rows_of(len(problem.items), asked)
    owner = np.repeat(np.arange(len(each_once)), [len(each.sides) for each in each_once])
    event = owner[np.argmax(made.sides != 0.0, 1)]
    noise, lower, upper = problem.noise * made.noise, [], []
    for site in event:
        each = each_once[site]
        scale = problem.scales[each.judge] if "cuts_by_judge" in problem.has else 1.0
        cuts = (0.0,) if "margin_only" in problem.has else problem.cuts
        low, high = limits(each, cuts)
        lower.append(scale * low)
        upper.append(scale * high)
    if "noise_by_judge" in problem.has:
        ratio = np.array([problem.ratios[each_once[site].judge] for site in event])
        noise = noise * np.sqrt(np.outer(ratio, ratio))
    counts = np.array([each_once[site].weight for site in event])
    ends = np.stack([rows.item[np.argmax(made.sides * sign, 1)] for sign in (1.0, -1.0)], 1)
    return Sites(made.sides, noise, counts, np.array(lower), np.array(upper), ends), rows


def limits(each: Said, cuts: tuple[float, ...]) -> tuple[float, float]:
    """Between which v, worse less better, lies."""
    if each.kind in ("tie", "grade"):
        return box(each.grade, list(cuts))
    return -np.inf, -cuts[0]


def tilted(
    mean: Array, variance: Array, noise: Array, lower: Array, upper: Array, power: Array
) -> tuple[Array, Array, Array]:
    """log Z of cavity × factor^power, and its first two derivatives in the mean of the cavity."""
    sd = np.sqrt(variance + noise)
    a, b = (lower - mean) / sd, (upper - mean) / sd
    mass = below(a, b)
    ends = [np.where(np.isfinite(end), end, 0.0) for end in (a, b)]
    density = [np.exp(-0.5 * end**2) / np.sqrt(2.0 * np.pi) for end in (a, b)]
    g = (density[0] - density[1]) / (mass * sd)
    h = (ends[0] * density[0] - ends[1] * density[1]) / (mass * sd**2) - g**2
    log_mass = np.log(mass)
    for i in np.flatnonzero(power < 1.0):  # the trapezoidal rule is exact for such bells
        x = np.linspace(-12.0, 12.0, 4801)
        z, s = mean[i] + np.sqrt(variance[i]) * x, np.sqrt(noise[i])
        factor = below((lower[i] - z) / s, (upper[i] - z) / s) ** power[i]
        weight = factor * np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi) * (x[1] - x[0])
        total = weight.sum()
        first = weight @ x / total
        log_mass[i] = np.log(total)
        g[i] = first / np.sqrt(variance[i])
        h[i] = (weight @ (x - first) ** 2 / total - 1.0) / variance[i]
    return log_mass, g, h


def below(a: Array, b: Array) -> Array:
    """Phi(b) - Phi(a), from the side where both are small."""
    right = a > 0.0
    return np.asarray(ndtr(np.where(right, -a, b)) - ndtr(np.where(right, -b, a)))


def parallel_ep(
    prior: Array, noise: Array, lower: Array, upper: Array, counts: Array
) -> Propagated:
    """EP for lower < z + N(0, noise) < upper, all sites at once, until none moves.

    Of a count above 1 a cavity leaves out one copy, of one below it leaves out all, and its factor
    is that power of it.
    """
    copies, power = np.maximum(counts, 1.0), np.minimum(counts, 1.0)
    t = len(prior)
    tau, nu, damping, best = np.zeros(t), np.zeros(t), 1.0, np.inf
    for sweep in range(5000):
        post = conditioned(prior, copies * tau, copies * nu)
        v = np.diag(post.covariance)
        q = 1.0 - tau * v
        m_c, v_c = (post.mean - nu * v) / q, v / q
        log_mass, g, h = tilted(m_c, v_c, noise, lower, upper, power)
        new_tau, new_nu = -h / (1.0 + v_c * h), (g - m_c * h) / (1.0 + v_c * h)
        change = max(np.max(np.abs(new_tau - tau) * v), np.max(np.abs(new_nu - nu) * np.sqrt(v)))
        if change < 1e-13 or (best < 1e-11 and sweep > 200):
            break
        if sweep % 20 == 19:
            damping = damping if change < 0.5 * best else max(0.5 * damping, 0.1)
            best = min(best, change)
        tau, nu = tau + damping * (new_tau - tau), nu + damping * (new_nu - nu)
    else:
        raise RuntimeError(f"sites still move by {change:g}")
    psi = 0.5 * ((tau * m_c**2 - 2.0 * m_c * nu - v_c * nu**2) / (1.0 + v_c * tau))
    each = copies * (log_mass + psi + 0.5 * np.log1p(v_c * tau))
    total, shift = copies * tau, copies * nu
    root = np.sqrt(total)
    inner = np.eye(t) + root[:, None] * prior * root
    reduction = root[:, None] * np.linalg.solve(inner, np.diag(root))
    evidence = each.sum() + 0.5 * shift @ post.mean - post.half_log_det
    return Propagated(shift - reduction @ (prior @ shift), reduction, float(evidence))


class Solved(NamedTuple):
    """What is known after the answers."""

    problem: Problem
    inducing: bool
    rows: Rows
    """Of the sides."""
    sites: Sites
    found: Propagated
    log_evidence: float
    """With the correction of the approximation."""

    def moments(self, asked: Rows, leads: Array | None = None) -> tuple[Array, Array]:
        """Mean and covariance of utilities; or of `leads` (q, r) of some over others."""
        problem, a = self.problem, self.sites.apart
        every = covariances(problem, self.rows.followed_by(asked), self.inducing)
        r = len(self.rows.x)
        step = np.eye(len(asked.x)) if leads is None else leads
        crossed = step @ (every.low + every.own)[r:, :r] @ a.T
        prior = step @ (every.full + every.own)[r:, r:] @ step.T
        if "people_features" in problem.has and np.any(asked.person == NOBODY):
            moved = step @ np.where(asked.person[:, None] == NOBODY, asked.x, 0.0)
            prior += moved @ self.spread() @ moved.T
        if "pair_effect" in problem.has and leads is not None:
            ends = [asked.item[np.argmax(sign * step, 1)] for sign in (1.0, -1.0)]
            both = pair_covariance(problem, np.concatenate([self.sites.ends, np.stack(ends, 1)]))
            t = len(a)
            crossed += both[t:, :t]
            prior += both[t:, t:]
        mean = step @ (asked.x @ problem.mean) + crossed @ self.found.weights
        return mean, prior - crossed @ self.found.reduction @ crossed.T

    def coefficients(self) -> tuple[Array, Array]:
        """Mean and covariance of the coefficients of covariates, then of leans."""
        problem, columns = self.problem, [self.rows.covariates]
        variances = [problem.covariate_variances]
        if "leans" in problem.has:
            labels = np.unique([each.label for each in problem.said])
            columns.append(self.rows.covariates[:, :1] * (self.rows.label[:, None] == labels))
            variances.append(np.full(len(labels), problem.lean_variance))
        return self._linear(np.concatenate(columns, 1), np.concatenate(variances))

    def _linear(self, columns: Array, variances: Array) -> tuple[Array, Array]:
        """Of coefficients by which the columns (r, p) of the rows are multiplied."""
        crossed = (self.sites.apart @ columns * variances).T
        covariance = np.diag(variances) - crossed @ self.found.reduction @ crossed.T
        return crossed @ self.found.weights, covariance

    def spread(self) -> Array:
        """(D, D) the second moment of s_u' W over people with answers, and over W."""
        problem = self.problem
        d, known = problem.items.shape[1], np.unique([each.person for each in problem.said])
        size = problem.people.shape[1]
        columns = people_columns(problem, self.rows)
        mean, covariance = self._linear(columns, np.full(d * size, problem.people_variance))
        moment = (covariance + np.outer(mean, mean)).reshape(size, d, size, d)
        theirs = problem.people[known] - problem.people[known].mean(0)
        return np.einsum("sdte,st->de", moment, theirs.T @ theirs / len(known))


def pair_covariance(problem: Problem, ends: Ints) -> Array:
    """Of the effects of pairs in differences of items (t, 2): an item has none with itself."""
    apart = ends[:, 0] != ends[:, 1]
    return problem.pair_variance * pair_term(*ends.T) * np.outer(apart, apart)


def solved(problem: Problem, approximation: str) -> Solved:
    """By "exact", "vfe" or "fitc"."""
    sites, rows = sites_of(problem)
    inducing = approximation != "exact"
    every = covariances(problem, rows, inducing)
    a = sites.apart
    z, own, left = (a @ k @ a.T for k in (every.low, every.own, every.full - every.low))
    offset = a @ (rows.x @ problem.mean)
    pairs = np.zeros_like(z)
    if "pair_effect" in problem.has:
        pairs = pair_covariance(problem, sites.ends)
    # Whatever the split of the noise, sites and evidence are the same (events.md, section 2).
    noise, blocks = np.empty(len(a)), sites.blocks
    for block in np.unique(blocks):
        here = blocks == block
        noise[here] = max(np.linalg.eigvalsh(sites.noise[np.ix_(here, here)])[0], 0.0)
    noise[noise < 1e-9 * problem.noise] = 0.0
    prior = z + own + pairs + sites.noise - np.diag(noise)
    correction = 0.0
    if approximation == "vfe":
        # All that is not approximated is noise to what is.
        told = sites.noise / np.sqrt(np.outer(sites.counts, sites.counts)) + own + pairs
        correction = -0.5 * float(np.sum(np.linalg.pinv(told, 1e-11, hermitian=True) * left))
    if approximation == "fitc":
        if "pair_effect" in problem.has:  # duels of a pair are a block
            blocks = np.unique(np.sort(sites.ends, 1), axis=0, return_inverse=True)[1].reshape(-1)
            prior += left * (blocks[:, None] == blocks)
        else:
            within = left * (blocks[:, None] == blocks)
            alone = np.bincount(blocks)[blocks] == 1  # noise of each copy
            noise += np.where(alone, np.diag(left), 0.0)
            prior += np.where(alone[:, None], 0.0, within)
    found = parallel_ep(prior, noise, sites.lower - offset, sites.upper - offset, sites.counts)
    return Solved(problem, inducing, rows, sites, found, found.log_evidence + correction)


def noises(problem: Problem, judge: int) -> tuple[Array, Array]:
    """sigma² of a judge, and 1; or nodes of it for an unknown one, and their weights."""
    if "noise_by_judge" not in problem.has or judge >= 0:
        ratio = problem.ratios[judge] if "noise_by_judge" in problem.has else 1.0
        return np.array([problem.noise * ratio]), np.ones(1)
    x, weights = np.polynomial.hermite.hermgauss(20)  # log r ~ N(0, 1)
    return problem.noise * np.exp(np.sqrt(2.0) * x), weights / np.sqrt(np.pi)


def outcomes(problem: Problem, judge: int, mean: float, variance: float) -> Array:
    """Of a duel whose first leads by N(mean, variance): of each grade, worst first.

    Without grades of a loss, a tie if there can be any, and a win.
    """
    scale = problem.scales[judge] if "cuts_by_judge" in problem.has else 1.0
    top = len(problem.cuts)
    levels = [level for level in range(-top, top + 1) if level or problem.margin]

    def averaged(level: int, cuts: tuple[float, ...]) -> float:
        each = [
            weight * probability(level, mean, variance, 2.0 * noise, list(cuts), scale)
            for noise, weight in zip(*noises(problem, judge), strict=True)
        ]
        return float(sum(each))

    if "margin_only" in problem.has:
        tie = averaged(0, problem.cuts)
        lost, won = ((1.0 - tie) * averaged(level, (0.0,)) for level in (-1, 1))
        return np.array([lost, tie, won])
    return np.array([averaged(level, problem.cuts) for level in levels])


def answer_probabilities(
    problem: Problem, each: Said, mean: Array, covariance: Array, of_choice: bool
) -> Array:
    """By EP: of each alternative of a set, or of what was said.

    :param mean: (k,) of the utilities of the sides, best first.
    :param of_choice: whether of each alternative.
    """
    k = len(each.sides)

    def orthant(kind: str, order: list[int], noise: float) -> float:
        rows = rows_of(k, [(kind, order, each.ordered)])
        spread = rows.items @ covariance @ rows.items.T + noise * rows.noise
        return float(np.exp(slow_sets(spread, -rows.items @ mean).log_evidence))

    def at(noise: float) -> Array:
        if each.kind not in ("win", "choice"):
            return np.array([orthant(each.kind, list(range(k)), noise)])
        orders = [[j, *(i for i in range(k) if i != j)] for j in range(k)]
        every = np.array([orthant("choice", order, noise) for order in orders])
        return every / every.sum() if of_choice else every[:1] / every.sum()

    return np.asarray(
        sum(w * at(noise) for noise, w in zip(*noises(problem, each.judge), strict=True))
    )
