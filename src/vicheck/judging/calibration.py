"""The verdict on fits to many simulated datasets: VSBC, the paper's Algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING

from vicheck.judging.cutoffs import (
    LARGE_STRETCH,
    LEAST_DATASETS,
    MOST_KHATS_HIGH,
    POWER,
    SIGNIFICANT_BELOW,
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
    SlightlyAsymmetric,
)
from vicheck.judging.findings.simulations import TooFewDatasets
from vicheck.judging.findings.spread import (
    FarTooNarrow,
    LikelihoodLow,
    LikelihoodOff,
    NotCovering,
    WrongScale,
)
from vicheck.judging.levels import decide, verdict_from
from vicheck.judging.simulations import (
    evidence_of_fits,
    evidence_of_khats,
    evidence_of_origin,
    evidence_of_symmetric_kl,
    too_many_unconverged,
)
from vicheck.judging.sorting import SortedQuantities, sort_quantities
from vicheck.judging.wording import LIKELIHOOD
from vicheck.remedies.ladder import AFTER_CALIBRATION, applicable
from vicheck.remedies.situations import CalibrationSituation
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average, KhatSummary
from vicheck.results.verdict import Verdict
from vicheck.stats.coverage import detectable_stretch

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

    ``good`` means calibrated: for no quantity, the joint log likelihood included, are the
    probabilities found to be asymmetric by more than a shift of 0.1 sds would make them, nor
    central intervals to cover less or more often than those of a q whose sd is off by a factor of
    1.05 (each at 5%, adjusted for the number of quantities). ``usable`` when something is, but no
    bias was shown: point estimates may be right where the posterior is not; or when most fits have
    a khat above the threshold. ``unreliable`` when a quantity is asymmetric and the interval of its
    bias lies beyond 0.1 sds (not where that of its mean does not, and q is not too narrow: then the
    posterior may be skewed); when draws of q explain the data worse than the true parameters do,
    though all other quantities are calibrated; or when q's sd is less than half of what it should
    be and most khats are above the threshold. ``none`` when more than 5% of the fits have not
    converged, or fewer than 20 datasets are left. Fits of which it is not known whether they have
    converged count as neither.

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
        found = sort_quantities(tests)
        calibration = _calibration(found, khat, _advice(family, richer, posterior))
        if found.are_calibrated:
            slight = bool(len(found.slight))
            calibration.insert(0, _no_bias(tests, num_used, slight, posterior, khat))
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


def _calibration(
    found: SortedQuantities, khat: KhatSummary | None, advice: tuple[str, ...]
) -> list[Evidence]:
    """Return what is wrong with the calibration, the worst first."""
    return [
        *_bias(found.biased, advice),
        *_further(found.biased.iloc[1:]),
        *_likelihood(found.likelihood, found.likelihood_is_low, advice),
        *_asymmetry(found.asymmetric),
        *_scale(found.stretched, khat, advice),
        *_coverage(found.uncovered),
        *_slight_asymmetry(found.slight),
    ]


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


def _likelihood(likelihood: pd.DataFrame, is_low: bool, advice: tuple[str, ...]) -> list[Evidence]:
    if not len(likelihood):
        return []
    found = _numbers(likelihood, "bias", "bias_low", "bias_high")
    return [LikelihoodLow(**found, advice=advice) if is_low else LikelihoodOff(**found)]


def _asymmetry(asymmetric: pd.DataFrame) -> list[Evidence]:
    if not len(asymmetric):
        return []
    numbers = _numbers(asymmetric, "bias", "bias_low", "bias_high", "mean_bias")
    return [Asymmetric(_names(asymmetric), len(asymmetric), **numbers)]


def _slight_asymmetry(slight: pd.DataFrame) -> list[Evidence]:
    if not len(slight):
        return []
    numbers = _numbers(slight, "bias", "bias_low", "bias_high")
    return [SlightlyAsymmetric(_names(slight), len(slight), **numbers)]


def _scale(
    stretched: pd.DataFrame, khat: KhatSummary | None, advice: tuple[str, ...]
) -> list[Evidence]:
    if not len(stretched):
        return []
    factors = stretched["dispersion"]
    narrow, wide = _pairs(factors[factors > 1.0]), _pairs(factors[factors < 1.0])
    found = narrow, wide, len(narrow), len(wide)
    if (
        khat is not None
        and _most_are_high(khat)
        and (stretched["dispersion_low"] > LARGE_STRETCH).any()
    ):
        return [FarTooNarrow(*found, khat.share_above, khat.threshold, advice)]
    return [WrongScale(*found)]


def _coverage(uncovered: pd.DataFrame) -> list[Evidence]:
    if not len(uncovered):
        return []
    numbers = _numbers(uncovered, "coverage_50", "coverage_90", "coverage_99")
    return [NotCovering(_names(uncovered), len(uncovered), **numbers)]


def _no_bias(
    tests: pd.DataFrame, num_used: int, slight: bool, posterior: bool, khat: KhatSummary | None
) -> Evidence:
    tested = max(1, int(tests["p_value"].notna().sum()))
    found = (
        tested,
        num_used,
        detectable_bias(num_used, tested),
        detectable_stretch(num_used, SIGNIFICANT_BELOW / tested, stretch=SMALL_STRETCH),
        slight,
        LIKELIHOOD in tests.index and len(tests) > 1,
        posterior,
    )
    # Each quantity is calibrated; still the joint posterior may be missed in most datasets.
    if khat is not None and _most_are_high(khat):
        return JointMissed(*found, khat.share_above, khat.threshold)
    return NoBiasFound(*found)


def _most_are_high(khat: KhatSummary) -> bool:
    return bool(khat.num_used) and khat.share_above > MOST_KHATS_HIGH


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


def _names(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(map(str, rows.index))


def _numbers(rows: pd.DataFrame, *columns: str) -> dict[str, float]:
    """Return numbers of the first row, by their columns."""
    return {column: float(rows[column].iloc[0]) for column in columns}
