"""What the numbers of a page mean, in a sentence each, for readers without the documentation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OF_CALIBRATIONS", "OF_CHECKS", "Entry"]


@dataclass(frozen=True)
class Entry:
    """A word of the page, its meaning, and the page of the documentation that explains it."""

    term: str
    meaning: str
    page: str


OF_CHECKS = (
    Entry(
        "ratio p/q",
        "The posterior density, up to a constant, divided by the density of the approximation q "
        "at a draw of q. If q were exact, all ratios would be equal.",
        "statistics#notation-and-signs",
    ),
    Entry(
        "khat",
        "The shape of the tail of the ratios. Below 0.5 weights correct the error of q quickly; up "
        "to the threshold they still do, slowly; above it they do not. It says nothing about "
        "places that no draw of q has reached.",
        "reading-khat",
    ),
    Entry(
        "threshold",
        "min(1 - 1/log10 S, 0.7) for S draws: with few draws even a moderate khat is too high.",
        "reading-khat#the-verdict",
    ),
    Entry(
        "effective draws",
        "How many independent draws of the posterior the weighted draws are worth.",
        "statistics#pareto-smoothed-importance-sampling",
    ),
    Entry(
        "VI, PSIS",
        "Estimates from the plain draws of q, and from the same draws with Pareto smoothed "
        "importance weights.",
        "fit#what-a-check-contains",
    ),
    Entry(
        "mean by, sd by",
        "The estimate to report: vi, psis, or neither if vicheck vouches for none.",
        "fit#what-a-check-contains",
    ),
    Entry(
        "MCSE",
        "The standard error of a weighted mean, with an allowance for what no draw has seen.",
        "statistics#weighted-estimates",
    ),
    Entry(
        "share",
        "The part of the variance of the log ratios that a cause accounts for.",
        "explain#how-it-works",
    ),
    Entry(
        "drift, nested R-hat",
        "How far a few steps of MCMC move a mean, in posterior sds; and how much the ends of the "
        "chains still depend on their starts, where 1 means not at all.",
        "chains#what-is-computed",
    ),
    Entry(
        "ELBO, log evidence, KL",
        "What VI maximises; what it would reach with an exact q; and divergences between q and "
        "the posterior, in nats. They are left out where khat is too high to estimate them.",
        "statistics#divergences",
    ),
)

OF_CALIBRATIONS = (
    Entry(
        "calibration probability",
        "The probability that q puts below the true value of a simulated dataset: small when q "
        "sits too high. If q is calibrated, all values from 0 to 1 are equally frequent.",
        "reading-vsbc#the-sign",
    ),
    Entry(
        "bias, direction",
        "How far the centre of q lies from the truth, in sds of q, and to which side.",
        "reading-vsbc#the-columns",
    ),
    Entry(
        "dispersion",
        "The factor by which the sds of q would have to be multiplied: above 1, q is too narrow.",
        "reading-vsbc#the-columns",
    ),
    Entry(
        "p, adjusted p",
        "Of the exact test that calibration probabilities are symmetric around 1/2; adjusted for "
        "the number of quantities.",
        "statistics#the-test-of-symmetry",
    ),
)
