"""The part of a page that is about simulated datasets, as texts and pictures."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from vicheck.plots.calibration_data import (
    EcdfDifference,
    Histogram,
    datasets_data,
    ecdf_difference_data,
    histograms_data,
)
from vicheck.plots.calibrations import datasets, draw_ecdf_differences, draw_histograms
from vicheck.report.figures import Picture, picture_of
from vicheck.report.tables import MOST_BYTES, calibration_table, direction_in_words, show
from vicheck.results.status import FitStatus

if TYPE_CHECKING:
    from vicheck.results.calibration import Calibration

__all__ = ["calibration_part"]

_ABOUT = (
    "p = Pr_q(quantity < truth), one for each simulated dataset: small when q sits too high. On "
    "the left of each pair their histogram, with its mirror image dashed (without bias the two "
    "agree) and the range of 99% of uniform bars in grey. On the right their distribution "
    "function less the uniform one, with the band in which all of it lies 95% of the time if q is "
    "right in every respect. The worst quantities are shown: first, and marked, the one that "
    "decides the verdict."
)


def calibration_part(calibration: Calibration, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return all that a page shows of a calibration."""
    histograms = histograms_data(calibration)
    ecdfs = ecdf_difference_data(calibration)
    return {
        "verdict": calibration.verdict,
        "findings": calibration.verdict.others,
        "about_probabilities": _ABOUT,
        "quantities": [
            _quantity(*both) for both in zip(histograms, ecdfs, strict=True) if both[0].counts.any()
        ],
        "table": calibration_table(calibration.worst_first, most_bytes),
        "datasets": _datasets_picture(calibration),
        "statuses": [
            (name, count, FitStatus[name].value)
            for name, count in datasets_data(calibration).statuses.items()
        ],
    }


def _quantity(histogram: Histogram, ecdf: EcdfDifference) -> tuple[str, Picture, Picture, str]:
    name, bias = histogram.name, show(histogram.bias)
    words = direction_in_words(histogram.direction)
    alternative = (
        f"Histogram of the calibration probabilities of {name}: {histogram.num_below} in the lower "
        f"half, {histogram.num_above} in the upper."
    )
    where = "inside" if ecdf.inside else "outside"
    caption = (
        f"{name}: {words}"
        + (f", bias {bias} sds of q" if bias is not None else "")
        + (f" (adjusted p {show(histogram.p_adjusted)})." if bias is not None else ".")
        + f" The distribution function is {where} its band."
        + _coverage_in_words(histogram)
        + (" This quantity decides the verdict." if histogram.decides else "")
    )
    return (
        name,
        picture_of(partial(draw_histograms, [histogram]), alternative, ""),
        picture_of(
            partial(draw_ecdf_differences, [ecdf]),
            f"Distribution function of the probabilities of {name} less the uniform one: {where} "
            "the simultaneous 95% band.",
            "",
        ),
        caption,
    )


def _coverage_in_words(histogram: Histogram) -> str:
    if not histogram.counts.any():
        return ""
    found = f" Intervals of 90% hold the truth in {histogram.coverage_90:.0%} of the datasets"
    return f"{found}." if histogram.covers else f"{found}; not all sizes cover what they claim."


def _datasets_picture(calibration: Calibration) -> Picture:
    summary = calibration.khat_summary
    if not summary.num_used:
        return Picture(Markup(), "khat of each dataset's fit.", "no fit has a khat")
    largest = show(datasets_data(calibration).khat[-1])
    undefined = f" It is undefined for {summary.num_undefined}." if summary.num_undefined else ""
    caption = (
        f"khat of {summary.num_used} fits, sorted: median {show(summary.median)}, 90% between "
        f"{show(summary.low)} and {show(summary.high)}, {summary.share_above:.0%} above the "
        f"threshold {summary.threshold:.2f}, the largest {largest}.{undefined}"
    )
    return picture_of(partial(datasets, calibration), caption, caption)
