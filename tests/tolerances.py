"""Every tolerance of the tests, each with its reason. Use these names; do not write numbers."""

# Two exact ways to compute one number in float64 (v-form and z-form, items and duels, a
# permutation): only rounding separates them, some 1e-13, and ill-conditioned covariances cost a
# few digits more.
IDENTITY = 1e-9

# EP stopped when no site moves by more than SOLVER: the distance to the fixed point is a small
# multiple of the last step, as sweeps contract slowly at low noise.
FIXED_POINT = 1e-6
SOLVER = 1e-10

# Central differences of the re-converged evidence lose about half of the digits; EP must be
# tighter than that, or its own error is divided by the step.
GRADIENT = 1e-6
GRADIENT_SOLVER = 1e-12

# Tail functions, relative to values with 60 digits: the formulas are good to 1e-13.
TAIL = 1e-12

# Log evidence in nats. It is stationary in the sites, so it is far better than FIXED_POINT; what
# remains is the conditioning of K_uu, factorised without jitter.
EVIDENCE = 1e-7

# A Monte Carlo estimate lies within four standard errors all but once in 16,000 times.
MONTE_CARLO_STANDARD_ERRORS = 4.0

# The same numbers through the same formulas in another order or another batch: rounding only.
ROUNDING = 1e-12

# TensorFlow flushes numbers below the smallest normal float64 to zero.
FLUSHED = 2.3e-308

# How far EP's evidence lies from the truth at 2 sigma² = 1 and correlations as in random duels
# (method section 2: 1.8e-3 nats on such a case): a bound may pass EP's value by that much.
EP_ERROR = 5e-3

# Power 1e-6 in place of the limit 0: what is neglected is of the order of the power.
SMALL_POWER = 1e-4

# float32 carries seven digits; a Cholesky factor and some sweeps cost three or four.
SINGLE = 1e-3

# Sums and gathers in float32 under float64 matrices: seven digits, of which P = I + Phi' T Phi
# costs one or two where it is far from I.
SINGLE_SUMS = 1e-5

# What a worked example prints, against what its page states: a fit of some dozen L-BFGS steps on
# another processor ends a little elsewhere, and numbers are printed with two to four digits.
EXAMPLE_RELATIVE = 0.05
EXAMPLE_ABSOLUTE = 0.01

# Share of pixels of an example's picture that may differ: a curve moved by a line's width does.
EXAMPLE_PIXELS = 0.05

# One-dimensional expectations by Gauss-Legendre panels against 30 digits: 16 nodes on panels this
# short are exact to 1e-14, and the log factors themselves are good to some 1e-13.
EXPECTATION = 1e-12

# The probability of a duel under log r ~ N(0, 1): 20 Gauss–Hermite nodes against the integral.
NOISE_NODES = 1e-8

# The entropy of an outcome whose noise is averaged, under a normal: what `information_gain` states
# for its spline and 128 nodes.
TURNED_ENTROPY = 1e-9
# The same where margins of three times the noise have scales that are averaged too: steps of them
# that the nodes do not resolve, 2e-8 at most.
TURNED_ENTROPY_OF_CUTS = 1e-7

# Greedy gains hold the sites, which neglects what is of second order: the best by them must bring
# this share of the best gain after inference, and the ranks of both correlate by as much. On
# random duels the worst of 18 cases were 0.93 and 0.84, the latter with one inducing input only.
GREEDY_SHARE = 0.9

# Probabilities of choices and rankings of three by 8,192 Sobol points: some 1e-5.
CHOICE_BY_POINTS = 1e-4

# The same by expectation propagation: the worst of random sets, as `predict_choice` says.
CHOICE_BY_EP = 2e-2

# Published tables: four decimals, from another optimiser that stopped where it did. Bounds to
# 0.002 nats, parameters to the third digit.
PUBLISHED_BOUND = 2e-3
PUBLISHED_DIGITS = 5e-4

# A variational bound at its maximum, from two optimisers or two parametrisations: it is stationary
# there, so that what an optimiser leaves is of second order, and jitter moves it by a little more.
OPTIMUM = 1e-5

# R-hat of chains that agree but move slowly: eight half chains of some 50 effective draws each have
# R-hat of about 1 + 1/100, and the largest of 40 quantities was 1.024. Chains that were set apart
# by one standard deviation have 1.05 and more.
RHAT_OF_SLOW_CHAINS = 1.05

# Geyer's initial sequence ends late rather than early, which biases effective sample sizes by about
# this share at thousands of draws.
INITIAL_SEQUENCE = 0.02
# GPflow's SVGP at the optimum of its bound against the fixed point of the variational engine: what
# is promised. Natural gradients stop at 1e-8, GPflow adds jitter of 1e-6 to K_uu.
SVGP_BOUND = 1e-4
SVGP_PROBABILITY = 1e-3

# The posterior of duels in parts, or streamed, against that of all of them in memory, both stopped
# at SOLVER: what is promised whatever the parts.
PARTS = 1e-8

# Parameters of a fit to streamed duels that was resumed: inference begins at zero, so that sites
# stop elsewhere within the loose tolerance of an optimiser. That moves the gradient by some 2e-6,
# which L-BFGS multiplies by the inverse of the curvature; on small streams it came to 1e-5.
RESUMED = 1e-3

# Share of 90 % intervals that hold the truth, EP's next to the sampler's on the same data: two
# points, of 600 intervals that differ only where an end lies near the truth.
COVERAGE_OF_EP = 0.02

# Sums of some dozen terms that partly cancel, and gradients by matrix products of centred inputs up
# to a thousand lengthscales from the centre: 1e3 squared costs six of sixteen digits.
CANCELLING = 1e-9

# Squared distances by dot products: the error in units of columns times the largest |a|² is some
# roundings of 1.1e-16 for each of the three sums.
DOT_PRODUCTS = 4.5e-16

# Log evidence, nats a duel, of two runs of the optimiser that took different steps to one optimum,
# as a resumed run does: what ten iterations bring when a run has settled (`LEAST_GAIN`).
SAME_OPTIMUM = 1e-5

# Utilities after these two runs, in their own posterior standard deviations: evidence is flat at
# its optimum, so that parameters differ by more than it (a thousandth of one is usual).
SAME_UTILITIES = 1e-2

# EP fixed points of utilities in time by dense matrices, run to 3e-15: the same numbers by other
# ways but for rounding (tests/reference/time_cases.json).
TIME_CASE = 1e-10

# Their gradients are central differences of order four, good to about 1e-9.
TIME_CASE_GRADIENT = 1e-7
