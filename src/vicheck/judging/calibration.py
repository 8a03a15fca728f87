"""The verdict on fits to many simulated datasets: VSBC, the paper's Algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING

from vicheck.judging.cutoffs import (
    LEAST_DATASETS,
    MOST_KHATS_HIGH,
    POWER,
    SIGNIFICANT_BELOW,
    SMALL_BIAS,
    SMALL_STRETCH,
)
from vicheck.judging.findings import Evidence
from vicheck.judging.findings.calibration import (
    Asymmetric,
    BiasFound,
    JointMissed,
    MoreBiased,
    NoBiasFound,
    PapersTest,
    ProbabilitiesMissing,
    WrongScale,
)
from vicheck.judging.findings.simulations import TooFewDatasets
from vicheck.judging.levels import decide, verdict_from
from vicheck.judging.simulations import (
    evidence_of_fits,
    evidence_of_khats,
    evidence_of_origin,
    evidence_of_symmetric_kl,
    too_many_unconverged,
)
from vicheck.remedies.ladder import AFTER_CALIBRATION, applicable
from vicheck.remedies.situations import CalibrationSituation
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average, KhatSummary
from vicheck.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["detectable_bias", "judge_calibration"]


def judge_calibration(
    tests: pd.DataFrame,
    statuses: Mapping[FitStatus, int],
    num_used: int,
    *,
    khat: KhatSummary | None = None,
    symmetric_kl: Average | None = None,
    ks_size: float = math.nan,
    posterior: bool = False,
    solver: str = "deterministic",
    family: str = "mean_field",
    richer: str = "full_rank",
) -> Verdict:
    """Turn the tests of calibration probabilities into a verdict.

    ``unreliable`` when, after Holm's adjustment at 5%, some quantity is not symmetric, and the
    interval of its bias excludes zero and goes beyond 0.1 sds; ``usable`` when the interval stays
    below that or includes zero, when q is clearly too narrow or too wide, or when most fits have a
    khat above the threshold; ``good`` when none of that was found; ``none`` when more than 5% of
    the fits have not converged, or fewer than 20 datasets are left. Fits of which it is not known
    whether they have converged count as neither.

    Parameters
    ----------
    tests
        `vicheck.Calibration.tests`, one row for each quantity.
    statuses
        How many fits have ended in which way.
    num_used
        Number of datasets that the tests rest on.
    khat, symmetric_kl
        Summaries over the datasets, when they are known.
    ks_size
        True size of the paper's KS test at a nominal 5%.
    posterior
        Whether parameters were drawn from a fitted q and not from the prior.
    solver, family
        What the fits were made with, for hints.
    richer
        The family to try next, if there is one for that many parameters.
    """
    fits = [
        *evidence_of_fits(statuses, solver),
        *evidence_of_khats(khat),
        *evidence_of_symmetric_kl(symmetric_kl),
        *evidence_of_origin(posterior),
    ]
    withheld = too_many_unconverged(statuses, solver)
    evidence: list[Evidence]
    if withheld is not None:
        evidence = [withheld, *fits]
    elif num_used < LEAST_DATASETS:
        evidence = [TooFewDatasets(num_used), *fits]
    else:
        calibration = _calibration(tests, _advice(family, richer, posterior))
        if not calibration:
            calibration = [_no_bias(tests, num_used, posterior, khat)]
        evidence = [*calibration, *_gaps(tests, num_used), *_papers_test(tests, ks_size), *fits]
    _, level = decide(evidence)
    codes = frozenset(each.code for each in evidence)
    situation = CalibrationSituation(level, codes, family, richer, posterior)
    steps = [remedy.step(situation) for remedy in applicable(AFTER_CALIBRATION, situation)]
    return verdict_from(evidence, steps)


def detectable_bias(num_datasets: int, num_quantities: int = 1) -> float:
    """Return the bias, in sds, that the test of symmetry finds with probability 0.8.

    For a normal posterior and a q that is only shifted, by b sds, the walk of signs goes to about
    M (2 Phi(b) - 1). The test rejects when it goes beyond c sqrt(M), where 4 (1 - Phi(c)) is the
    level (reflection), 5% divided by the number of quantities. The end of the walk alone would
    have to lie Phi^-1(0.8) = 0.84 sqrt(M) above that for the power of 0.8; for the whole walk half
    of it will do: exact powers need 0.31 to 0.44 for M from 100 on and up to 20,000 quantities.
    Infinite when so few datasets can show no bias.
    """
    normal = NormalDist()
    critical = normal.inv_cdf(1.0 - SIGNIFICANT_BELOW / (4.0 * num_quantities))
    excess = (critical + 0.5 * normal.inv_cdf(POWER)) / math.sqrt(num_datasets)
    return normal.inv_cdf(0.5 * (1.0 + excess)) if excess < 1.0 else math.inf


def _advice(family: str, richer: str, posterior: bool) -> tuple[str, ...]:
    """Return what helps against a bias."""
    situation = CalibrationSituation(
        "unreliable", frozenset({BiasFound.code}), family, richer, posterior
    )
    remedies = applicable(AFTER_CALIBRATION, situation)
    return tuple(remedy.advice(situation) for remedy in remedies)


def _calibration(tests: pd.DataFrame, advice: tuple[str, ...]) -> list[Evidence]:
    """Return what is wrong with the calibration, the worst first."""
    biased, doubtful, stretched = _split(tests)
    return [
        *_bias(biased, advice),
        *_further(biased.iloc[1:]),
        *_asymmetry(doubtful),
        *_scale(stretched),
    ]


def _split(tests: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the quantities with a bias, with a doubtful or small one, and with a wrong scale."""
    asymmetric = tests[tests["p_adjusted"] < SIGNIFICANT_BELOW]
    low, high = asymmetric["bias_low"], asymmetric["bias_high"]
    small = (low >= -SMALL_BIAS) & (high <= SMALL_BIAS)
    shifted = ((low > 0.0) | (high < 0.0)) & ~small
    biased = asymmetric[shifted]
    nearest = biased[["bias_low", "bias_high"]].abs().min(axis=1)
    biased = biased.loc[nearest.sort_values(ascending=False, kind="stable").index]
    # A bias spreads the probabilities too: it must not be taken for a q that is too narrow.
    narrow = (tests["dispersion_low"] > SMALL_STRETCH) & ~tests.index.isin(biased.index)
    wide = tests["dispersion_high"] < 1.0 / SMALL_STRETCH
    clear = tests["dispersion_p_adjusted"] < SIGNIFICANT_BELOW
    stretched = tests[(narrow | wide) & clear]
    return biased, asymmetric[~shifted], stretched


def _bias(biased: pd.DataFrame, advice: tuple[str, ...]) -> list[Evidence]:
    if not len(biased):
        return []
    row = biased.iloc[0]
    return [
        BiasFound(
            quantity=str(biased.index[0]),
            bias=float(row["bias"]),
            bias_low=float(row["bias_low"]),
            bias_high=float(row["bias_high"]),
            p_adjusted=float(row["p_adjusted"]),
            biased=len(biased),
            advice=advice,
        )
    ]


def _further(biased: pd.DataFrame) -> list[Evidence]:
    if not len(biased):
        return []
    over = int((biased["bias"] > 0.0).sum())
    return [MoreBiased(_pairs(biased["bias"]), over, len(biased) - over)]


def _asymmetry(doubtful: pd.DataFrame) -> list[Evidence]:
    if not len(doubtful):
        return []
    largest = float(doubtful[["bias_low", "bias_high"]].abs().max(axis=None))
    return [Asymmetric(tuple(map(str, doubtful.index)), len(doubtful), largest)]


def _scale(stretched: pd.DataFrame) -> list[Evidence]:
    if not len(stretched):
        return []
    factors = stretched["dispersion"]
    # The factor is 0 where most p are exactly 1/2, as for a q that is infinitely wide.
    size = factors.map(lambda factor: abs(math.log(factor)) if factor else math.inf)
    worst = factors.loc[size.sort_values(ascending=False, kind="stable").index]
    narrow, wide = _pairs(worst[worst > 1.0]), _pairs(worst[worst < 1.0])
    return [WrongScale(narrow, wide, len(narrow), len(wide))]


def _no_bias(
    tests: pd.DataFrame, num_used: int, posterior: bool, khat: KhatSummary | None
) -> Evidence:
    tested = int(tests["p_value"].notna().sum())
    smallest = detectable_bias(num_used, max(tested, 1))
    good = tested, num_used, smallest, posterior
    # No marginal is biased; still the joint posterior may be missed in most datasets.
    if khat is not None and khat.num_used and khat.share_above > MOST_KHATS_HIGH:
        return JointMissed(*good, khat.share_above, khat.threshold)
    return NoBiasFound(*good)


def _gaps(tests: pd.DataFrame, num_used: int) -> list[Evidence]:
    gaps = num_used - tests["num_datasets"]
    gaps = gaps[gaps > 0].sort_values(ascending=False, kind="stable")
    if not len(gaps):
        return []
    names = tuple(map(str, gaps.index))
    return [ProbabilitiesMissing(names, len(gaps), int(gaps.iloc[0]), num_used)]


def _papers_test(tests: pd.DataFrame, ks_size: float) -> list[Evidence]:
    known = tests["ks_p_value"].dropna()
    if not len(known):
        return []
    return [PapersTest(int((known < SIGNIFICANT_BELOW).sum()), len(known), ks_size)]


def _pairs(column: pd.Series) -> tuple[tuple[str, float], ...]:
    return tuple((str(name), float(value)) for name, value in column.items())
