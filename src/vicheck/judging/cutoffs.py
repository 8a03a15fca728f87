"""The one home of cut-offs: where a number becomes a word.

Four kinds live elsewhere, because rooms below need them too, and are read from there: the bands
and the threshold of khat with their equations (`vicheck.stats.reliability`), when tails of several
lengths contradict each other (`vicheck.stats.tail_lengths`), the limits at which
the iterates of a stochastic run have settled (`vicheck.results.convergence`), and the limits of
R-hat, ESS and divergent transitions for draws by NUTS (`vicheck.results.reference`).
"""

from __future__ import annotations

from vicheck.results.convergence import MAX_ITERATE_MCSE, MAX_RHAT
from vicheck.results.status import FitStatus
from vicheck.stats.reliability import GOOD_BELOW, USABLE_BELOW

__all__ = [
    "ANOTHER_PART",
    "CAUSE_SD",
    "CAUSE_SHARE",
    "CERTAINTY",
    "COARSE",
    "COPIES",
    "COUNTING_PART",
    "DEPENDENT",
    "DRAWS_FOR_GOOD",
    "DRIFT",
    "DRIFT_GROWTH",
    "DRIFT_SHIFT",
    "ENOUGH_CHAINS",
    "ENOUGH_DRAWS",
    "ENOUGH_EFFECTIVE",
    "ENOUGH_STEPS",
    "ERRORS_AWAY",
    "FORGOTTEN",
    "FULL_RUN",
    "GOOD_BELOW",
    "KHAT_GROWTH",
    "KHAT_JUMP",
    "LARGE_STRETCH",
    "LEAST_ACCEPTANCE",
    "LEAST_ARRIVED",
    "LEAST_DATASETS",
    "LEAST_DRAWS",
    "LEVEL_ERRORS",
    "MANY_KHATS_HIGH",
    "MAX_ITERATE_MCSE",
    "MAX_RHAT",
    "MENTIONED",
    "MODE_GROWTH",
    "MODE_SHIFT",
    "MOST_COUNT",
    "MOST_KHATS_HIGH",
    "MOST_MEMORY",
    "MOST_UNCONVERGED",
    "NO_APPROXIMATION",
    "NO_MEAN",
    "ONE_DECIDES",
    "PLAIN_GROWTH",
    "PLAIN_SHIFT",
    "POWER",
    "REJECTED_BELOW",
    "SETTLED",
    "SIGNIFICANT_BELOW",
    "SMALL_BIAS",
    "SMALL_GROWTH",
    "SMALL_KL",
    "SMALL_SHIFT",
    "SMALL_STRETCH",
    "STEADY",
    "STUCK",
    "TOO_COARSE",
    "UNEVEN",
    "UNSURE_ABOVE",
    "USABLE_BELOW",
]

# One fit.
UNSURE_ABOVE = 0.05
"""khat is uncertain when the threshold has this much posterior probability on its other side."""
ENOUGH_DRAWS = 1000
"""With fewer draws khat leans on its prior."""
KHAT_GROWTH = 0.1
"""khat that rises by more than this, and than its noise, has not seen the whole tail."""
KHAT_JUMP = 0.3
"""khat of fewer draws that is further away than this, and than its noise, was something else."""
COPIES = 0.1
"""Part of the draws that may be copies of others: what they change is within khat's noise."""
DEPENDENT = 4.0
"""How much more the means of eight draws in a row may vary than those of independent draws; an
autoregression of 0.6 is there."""
COARSE = 0.01
"""Steps of the log densities, in nats, that are worth a word."""
TOO_COARSE = 0.1
"""Steps of the log densities, in nats, with which nothing is called good: a density that is summed
up in so few digits has lost more than its last step."""
REJECTED_BELOW = 0.01
"""p-value below which the gradient at q is not zero."""
MODE_SHIFT = 0.1
"""Sds by which other modes must move a mean that is reported, to spoil the fit."""
MODE_GROWTH = 0.1
"""By how much they must change the log of its sd."""
LEAST_ARRIVED = 0.5
"""Share of climbs that must end at a mode for a search to say that there is no other."""
PLAIN_SHIFT = 0.08
"""Sds by which the weights may correct a mean of a q that is called close. What they correct is
less than what is wrong, if anything: where q is too narrow, so are they; and 0.1 is too much."""
PLAIN_GROWTH = 0.08
"""By how much they may correct the log of an sd of such a q."""
ENOUGH_EFFECTIVE = 100
"""Draws that must count after weighting: with fewer, means have errors above a tenth of an sd."""
SMALL_SHIFT = 0.05
"""Correction of a mean, in sds, that makes no difference."""
SMALL_GROWTH = 0.05
"""Correction of a log sd that makes no difference."""
DRIFT_SHIFT = 0.1
"""Drift of a mean along short chains, in sds, that is tolerated."""
DRIFT_GROWTH = 0.1
"""Relative change of an sd along short chains that is tolerated."""
ENOUGH_CHAINS = 32
"""With fewer short chains nothing is decided."""
ENOUGH_STEPS = 8
"""With fewer steps it cannot be seen whether short chains have arrived."""
SETTLED = 0.05
"""Movement of a mean, in sds, or of a log sd from the middle of chains to their end that makes no
difference; what is within its error makes none, either."""
NO_MEAN = 1.0
"""khat from which on there is no mean to be estimated: theory says so of the Pareto tail."""
ANOTHER_PART = 0.01
"""Share of effective draws that is too large for a khat of 1. Ratios that many small errors make
are about log-normal: where their tail is as heavy as that, fewer than one draw in a thousand
counts. More of them with such a khat are two populations, q being right in one part of the
posterior and knowing nothing of another."""
MOST_COUNT = 0.5
"""Share of effective draws with which, and with a khat of 1, q lies in one part of the posterior
and the rest elsewhere: ratios are all but equal there. Those of a skewed posterior are not."""
FORGOTTEN = 0.4
"""Correlation of the middle of chains with their last quarter below which they forget where they
began: over all of their steps, a bit more than three times as many, 0.05 of it is left."""
LEVEL_ERRORS = 2.0
"""Standard errors by which log densities may rise or fall where they are to have settled. Down a
funnel they do so slowly, long after quantities seem to stand still."""
STUCK = 0.9
"""Such a correlation of log densities from which on chains stay at the heights they are at."""
UNEVEN = 10.0
"""Variance of log densities for each parameter that is too large for one posterior: that of a
log-concave one is at most 1, and that of a funnel may be 6."""
LEAST_ACCEPTANCE = 0.2
"""Acceptance below which short chains have not gone anywhere."""
MOST_MEMORY = 1.5
"""Nested R-hat above which a quantity has hardly moved, so that no drift says little: more than
half of its variance at the ends is that of the starts."""
NO_APPROXIMATION = (
    FitStatus.AT_INFINITY,
    FitStatus.NOT_FINITE,
    FitStatus.NO_STEP_SIZE,
    FitStatus.FAILED,
    FitStatus.TIMED_OUT,
)
"""Statuses of fits that approximate nothing, whatever khat says."""

# Fits to many simulated datasets.
SIGNIFICANT_BELOW = 0.05
"""Adjusted level at which calibration probabilities are not symmetric, or do not cover."""
SMALL_BIAS = 0.1
"""Bias, in sds of q, that makes no difference."""
SMALL_STRETCH = 1.05
"""Factor between the sds of q and of the posterior that makes no difference: 90% intervals of a
normal q then cover 88% to 92%."""
LARGE_STRETCH = 2.0
"""Factor by which q's sd is too small from which on, where weights do not help, its centre is in
doubt too: if q's sd were right, the centre would be off by 1.7 sds, to one side or the other."""
SMALL_KL = 1.0
"""Symmetric KL divergence, in nats, above which q is not close: that of a shift by one sd."""
POWER = 0.8
"""Probability with which a bias or a factor that is called detectable is found."""
MOST_UNCONVERGED = 0.05
"""Share of unconverged fits above which there is no verdict: they have a bias of their own."""
LEAST_DATASETS = 20
"""With fewer datasets, all on one side is no small p-value after adjustment for many quantities."""
MANY_KHATS_HIGH = 0.1
"""Share of datasets with a khat above the threshold that is worth a caution."""
MOST_KHATS_HIGH = 0.5
"""Share of datasets with a khat above the threshold from which on no fit is called good."""
ONE_DECIDES = 0.5
"""Share of one dataset in an average above which that dataset is all it shows."""

# When a check may stop.
FULL_RUN = 100_000
"""The number of draws whose verdict is to be foretold."""
CERTAINTY = 0.95
"""Level of the interval of khat that has to lie on one side of each cut-off."""
STEADY = 0.9
"""Level of the interval in which the khats of a quarter and of half of the draws have to lie."""
DRIFT = 0.03
"""By how much khat may still move with each doubling of the draws, up to a full run."""
DRAWS_FOR_GOOD = 8000
"""Draws without which nothing is called good for good: a rare tail may not have been seen."""
LEAST_DRAWS = 4000
"""Draws without which no khat is settled: a quarter of fewer is too few for a khat of its own."""
ERRORS_AWAY = 3.0
"""Standard errors by which a number must be away from its cut-off."""
COUNTING_PART = 0.1
"""Part of the draws from a mixture of modes that count, when the error of a mass is estimated."""

# Why an approximation is not the posterior.
CAUSE_SHARE = 0.1
"""Share of the variance of the log ratios that a cause accounts for at least."""
CAUSE_SD = 0.1
"""Nats of the sd of the log ratios that it accounts for at least: less hardly changes weights."""
MENTIONED = 0.25
"""Part of the largest number of its kind from which on a coordinate is named with it."""
