"""Quantities of a calibration, sorted by what is wrong with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from vicheck.judging.cutoffs import ERRORS_AWAY, SIGNIFICANT_BELOW, SMALL_BIAS, SMALL_STRETCH
from vicheck.judging.wording import LIKELIHOOD

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SortedQuantities", "sort_quantities"]


@dataclass(frozen=True, eq=False)
class SortedQuantities:
    """Rows of the table of tests, in each case the worst first."""

    biased: pd.DataFrame
    """Asymmetric, and the median of q is off by more than a little. So is its mean, or q is too
    narrow: otherwise it is the posterior that is skewed."""
    asymmetric: pd.DataFrame
    """Asymmetric by more than a small shift would make them, but not known to be shifted so far."""
    slight: pd.DataFrame
    """Asymmetric by less."""
    stretched: pd.DataFrame
    """Not biased, and q is clearly too narrow or too wide, everywhere by about the same factor."""
    uncovered: pd.DataFrame
    """Intervals do not hold the truth as often as they claim, for another reason."""
    likelihood: pd.DataFrame
    """The joint log likelihood where it is biased or asymmetric: no bias of a parameter, but a sign
    that q is too narrow or too wide, or has not learned from the data."""
    likelihood_is_low: bool
    """Whether that is clearly too low, and all other quantities are calibrated."""

    @property
    def are_calibrated(self) -> bool:
        """Whether nothing that makes a difference was found."""
        return not any(
            map(
                len,
                (self.biased, self.asymmetric, self.stretched, self.uncovered, self.likelihood),
            )
        )


def sort_quantities(tests: pd.DataFrame) -> SortedQuantities:
    """Sort the quantities of `vicheck.Calibration.tests`.

    Alone, the log likelihood is a quantity like all others: there is nothing beside it that could
    be usable.
    """
    significant = tests["p_adjusted"] < SIGNIFICANT_BELOW
    large = tests["statistic"] > _small_asymmetry() * tests["num_datasets"]
    narrow = tests["dispersion_low"] > SMALL_STRETCH
    # A skewed posterior moves the median away from that of a q with the right mean and sd.
    over = (tests["bias_low"] > SMALL_BIAS) & (narrow | (tests["mean_bias_low"] > SMALL_BIAS))
    under = (tests["bias_high"] < -SMALL_BIAS) & (narrow | (tests["mean_bias_high"] < -SMALL_BIAS))
    biased = significant & (over | under)
    asymmetric = significant & large & ~biased
    likelihood = (tests.index == LIKELIHOOD) & (len(tests) > 1)
    uncovered = ~tests["covers"] & tests["p_value"].notna()
    wide = tests["dispersion_high"] < 1.0 / SMALL_STRETCH
    clear = tests["dispersion_p_adjusted"] < SIGNIFICANT_BELOW
    # A bias spreads the probabilities too: it must not be taken for a q that is too narrow.
    stretched = (
        uncovered & clear & (narrow & ~biased | wide) & _one_factor_explains(tests) & ~likelihood
    )
    off = (biased | asymmetric) & likelihood
    others_wrong = (biased | asymmetric | uncovered) & ~likelihood
    return SortedQuantities(
        biased=_nearest_end_first(tests[biased & ~likelihood]),
        asymmetric=_largest_bias_first(tests[asymmetric & ~likelihood]),
        slight=_largest_bias_first(tests[significant & ~large & ~biased]),
        stretched=_farthest_from_one_first(tests[stretched]),
        uncovered=_least_covering_first(tests[uncovered & ~biased & ~stretched & ~off]),
        likelihood=tests[off],
        likelihood_is_low=bool((likelihood & biased & under).any() and not others_wrong.any()),
    )


def _small_asymmetry() -> float:
    """Return how far the walk of signs goes, per dataset, for a normal q with a small shift."""
    return 2.0 * NormalDist().cdf(SMALL_BIAS) - 1.0


def _one_factor_explains(tests: pd.DataFrame) -> pd.Series:
    """Return whether 99% intervals miss no more often than they would with so much wrong an sd.

    Where they do, some fits are far off and the others are not: another sd would not mend that.
    """
    normal = NormalDist()
    end = normal.inv_cdf(0.995)
    # The factor is 0 where most p are exactly 1/2, as for a q that is infinitely wide.
    held = tests["dispersion_high"].map(
        lambda factor: 2.0 * normal.cdf(end / factor) - 1.0 if factor else 1.0
    )
    error = (held * (1.0 - held) / tests["num_datasets"]) ** 0.5
    return tests["coverage_99"] >= held - ERRORS_AWAY * error


def _nearest_end_first(rows: pd.DataFrame) -> pd.DataFrame:
    return _by(rows, rows[["bias_low", "bias_high"]].abs().min(axis=1))


def _largest_bias_first(rows: pd.DataFrame) -> pd.DataFrame:
    return _by(rows, rows["bias"].abs())


def _farthest_from_one_first(rows: pd.DataFrame) -> pd.DataFrame:
    size = rows["dispersion"].map(lambda factor: abs(math.log(factor)) if factor else math.inf)
    return _by(rows, size)


def _least_covering_first(rows: pd.DataFrame) -> pd.DataFrame:
    return _by(rows, (rows["coverage_90"] - 0.9).abs())


def _by(rows: pd.DataFrame, size: pd.Series) -> pd.DataFrame:
    return rows.loc[size.sort_values(ascending=False, kind="stable").index]
