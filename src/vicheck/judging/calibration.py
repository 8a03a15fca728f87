"""The verdict on fits to many simulated datasets: VSBC, the paper's Algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from vicheck.judging.next_steps import line_after_calibration
from vicheck.judging.simulations import (
    judge_failures,
    judge_khats,
    judge_origin,
    judge_symmetric_kl,
    withhold,
)
from vicheck.judging.wording import Level, show
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average, KhatSummary
from vicheck.results.verdict import Finding, Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SIGNIFICANT_BELOW", "detectable_bias", "judge_calibration"]

SIGNIFICANT_BELOW = 0.05
"""Adjusted p-value below which calibration probabilities are not symmetric."""

_SMALL_BIAS = 0.1
"""Bias, in sds of q, that makes no difference."""

_SMALL_STRETCH = 1.1
"""Factor between the sds of q and of the posterior that makes no difference."""

_POWER = 0.8
_NAMED = 3
"""How many quantities a sentence names."""

_REMEDY = (
    "Reparametrise the model, use a richer family, correct the fit to your own data by PSIS "
    "(vicheck.check), or use MCMC."
)
_SKEWED = (
    "A posterior that is itself skewed, as that of a scale can be, makes the probabilities "
    "asymmetric too: the test assumes symmetry (the paper's Proposition 2)."
)


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
    the fits have not converged, or fewer than 20 datasets are left.

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
    failures = judge_failures(statuses, solver)
    fits = [
        failures,
        *judge_khats(khat),
        *judge_symmetric_kl(symmetric_kl),
        *judge_origin(posterior),
    ]
    withheld = withhold(statuses, num_used, failures)
    if withheld is not None:
        unconverged = sum(statuses.values()) - statuses.get(FitStatus.CONVERGED, 0)
        code = line_after_calibration("none", family, posterior=posterior, unconverged=unconverged)
        return Verdict("none", withheld.sentence, withheld.hint, (withheld, *fits), code)
    biased, doubtful, stretched = _split(tests)
    shape = _judge_dispersion(stretched)
    if len(biased):
        main = _judge_bias(biased)
        found = [*_judge_further(biased.iloc[1:]), *_judge_doubtful(doubtful), *shape]
    elif len(doubtful) or shape:
        main, *found = (*_judge_doubtful(doubtful), *shape)
        main = Finding(
            severity="caution",
            sentence=f"The approximation is usable with care: {main.sentence}",
            evidence=main.evidence,
            hint=main.hint,
        )
    else:
        good = _judge_good(tests, num_used, posterior)
        main, found = _judge_joint(good, khat), []
    level: Level = "unreliable" if len(biased) else "good" if main.severity == "ok" else "usable"
    findings = (main, *found, *_judge_gaps(tests, num_used), *_judge_ks(tests, ks_size), *fits)
    code = line_after_calibration(level, family, posterior=posterior, unconverged=0, richer=richer)
    return Verdict(level, main.sentence, main.hint, findings, code)


def _judge_joint(good: Finding, khat: KhatSummary | None) -> Finding:
    """No marginal is biased; still the joint posterior may be missed in most datasets."""
    if khat is None or not khat.num_used or khat.share_above <= 0.5:
        return good
    return Finding(
        severity="caution",
        sentence=(
            "The approximation is usable with care: no bias was found, but khat of "
            f"{khat.share_above:.0%} of the datasets is above the threshold {khat.threshold:.2f}."
        ),
        evidence=good.evidence | {"share_above": khat.share_above},
        hint=f"Rely on single marginals at most, not on anything joint. {good.hint}",
    )


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
    excess = (critical + 0.5 * normal.inv_cdf(_POWER)) / math.sqrt(num_datasets)
    return normal.inv_cdf(0.5 * (1.0 + excess)) if excess < 1.0 else math.inf


def _split(tests: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the quantities with a bias, with a doubtful or small one, and with a wrong scale."""
    asymmetric = tests[tests["p_adjusted"] < SIGNIFICANT_BELOW]
    low, high = asymmetric["bias_low"], asymmetric["bias_high"]
    small = (low >= -_SMALL_BIAS) & (high <= _SMALL_BIAS)
    shifted = ((low > 0.0) | (high < 0.0)) & ~small
    biased = asymmetric[shifted]
    nearest = biased[["bias_low", "bias_high"]].abs().min(axis=1)
    biased = biased.loc[nearest.sort_values(ascending=False, kind="stable").index]
    # A bias spreads the probabilities too: it must not be taken for a q that is too narrow.
    narrow = (tests["dispersion_low"] > _SMALL_STRETCH) & ~tests.index.isin(biased.index)
    wide = tests["dispersion_high"] < 1.0 / _SMALL_STRETCH
    clear = tests["dispersion_p_adjusted"] < SIGNIFICANT_BELOW
    stretched = tests[(narrow | wide) & clear]
    return biased, asymmetric[~shifted], stretched


def _judge_bias(biased: pd.DataFrame) -> Finding:
    name, row = biased.index[0], biased.iloc[0]
    more = f"; {len(biased)} quantities are biased in all" if len(biased) > 1 else ""
    return Finding(
        severity="bad",
        sentence=f"The approximation is not reliable: q {_described(name, row)}{more}.",
        evidence={"bias": row["bias"], "p_adjusted": row["p_adjusted"], "biased": len(biased)},
        hint=f"{_REMEDY} {_SKEWED}",
    )


def _described(name: Any, row: Mapping[Any, Any]) -> str:
    verb = "over-estimates" if row["bias"] > 0.0 else "under-estimates"
    size = abs(row["bias"])
    if math.isinf(size):  # most p are exactly 0 or 1
        return f"{verb} {name}, typically by more than 8 of its sds"
    ends = sorted(abs(row[column]) for column in ("bias_low", "bias_high"))
    return (
        f"{verb} {name}, typically by {show(size)} of its sds ({show(ends[0])} to {show(ends[1])})"
    )


def _judge_further(biased: pd.DataFrame) -> list[Finding]:
    if not len(biased):
        return []
    over = int((biased["bias"] > 0.0).sum())
    counts = f" ({over} over-estimated, {len(biased) - over} under-estimated)"
    signed = [f"{name} {bias:+.2f}" for name, bias in biased["bias"].head(_NAMED).items()]
    rest = f" and {len(biased) - _NAMED} more" if len(biased) > _NAMED else ""
    return [
        Finding(
            severity="bad",
            sentence=(
                f"Also biased, in sds of q: {', '.join(signed)}{rest}{counts if rest else ''}."
            ),
            evidence={"over": over, "under": len(biased) - over},
            hint="The table `.tests` has all of them.",
        )
    ]


def _judge_doubtful(doubtful: pd.DataFrame) -> list[Finding]:
    """Judge asymmetries that are a negligible shift, or none that could be shown."""
    if not len(doubtful):
        return []
    largest = float(doubtful[["bias_low", "bias_high"]].abs().max(axis=None))
    if largest <= _SMALL_BIAS:
        size = f"the bias is no more than {show(largest)} of its sds"
        hint = f"Nothing, if a bias of that size does not matter to you. {_SKEWED}"
    else:
        size = f"a bias was not shown (it may be up to {show(largest)} of its sds)"
        hint = f"Simulate more datasets to tell. {_SKEWED}"
    return [
        Finding(
            severity="caution",
            sentence=(
                f"q is not right for {_listed(doubtful.index)}: the calibration probabilities are "
                f"asymmetric, but {size}."
            ),
            evidence={"asymmetric": len(doubtful), "largest_bias": largest},
            hint=hint,
        )
    ]


def _judge_dispersion(stretched: pd.DataFrame) -> list[Finding]:
    if not len(stretched):
        return []
    factors = stretched["dispersion"]
    # The factor is 0 where most p are exactly 1/2, as for a q that is infinitely wide.
    size = factors.map(lambda factor: abs(math.log(factor)) if factor else math.inf)
    size = size.sort_values(ascending=False, kind="stable")
    worst = factors.loc[size.index]
    narrow = int((factors > 1.0).sum())
    parts = []
    for few, word in ((worst[worst > 1.0], "narrow"), (worst[worst < 1.0], "wide")):
        if len(few):
            parts.append(
                f"too {word} for {_listed(few.index)}: "
                f"the sd of {few.index[0]} should be {few.iloc[0]:.2g} times as large"
            )
    return [
        Finding(
            severity="caution",
            sentence=f"q is {'; '.join(parts)}.",
            evidence={"too_narrow": narrow, "too_wide": len(factors) - narrow},
            hint=(
                "Do not report intervals or sds of q: use a richer family (full_rank), PSIS "
                "weights or MCMC."
            ),
        )
    ]


def _judge_good(tests: pd.DataFrame, num_used: int, posterior: bool) -> Finding:
    tested = int(tests["p_value"].notna().sum())
    smallest = detectable_bias(num_used, max(tested, 1))
    power = (
        f"one of {show(smallest)} sds would have been, with probability {_POWER}"
        if math.isfinite(smallest)
        else "so few can hardly show one"
    )
    over = "the fitted q" if posterior else "the prior"
    return Finding(
        severity="ok",
        sentence=f"No bias was found in {_counted(tested)} over {num_used} datasets; {power}.",
        evidence={"quantities": tested, "num_used": num_used, "detectable_bias": smallest},
        hint=(
            f"This is an average over {over}, one quantity at a time, and cannot prove q right "
            "for your data: run vicheck.check on that fit too."
        ),
    )


def _judge_gaps(tests: pd.DataFrame, num_used: int) -> list[Finding]:
    gaps = num_used - tests["num_datasets"]
    gaps = gaps[gaps > 0].sort_values(ascending=False, kind="stable")
    if not len(gaps):
        return []
    return [
        Finding(
            severity="caution",
            sentence=(
                f"Probabilities of {_listed(gaps.index)} are missing, for {gaps.iloc[0]} of "
                f"{num_used} datasets in the case of {gaps.index[0]}."
            ),
            evidence={"quantities": len(gaps), "most_missing": float(gaps.iloc[0])},
            hint="Find where the quantity is NaN or infinite: look at `.probabilities`.",
        )
    ]


def _judge_ks(tests: pd.DataFrame, ks_size: float) -> list[Finding]:
    known = tests["ks_p_value"].dropna()
    rejected = int((known < SIGNIFICANT_BELOW).sum())
    if not len(known):
        return []
    return [
        Finding(
            severity="ok",
            sentence=(
                f"The paper's KS test of p against 1 - p rejects {rejected} of "
                f"{_counted(len(known))} at a nominal 5%; its true size is about {ks_size:.0%}."
            ),
            evidence={"rejected": rejected, "true_size": ks_size},
            hint="It is there to compare with the paper: rely on the exact test of symmetry.",
        )
    ]


def _counted(number: int) -> str:
    return "1 quantity" if number == 1 else f"{number} quantities"


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(map(str, names[:_NAMED]))
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
