"""What the figures of a calibration show, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ArgumentError
from vicheck.results.calibration import Calibration
from vicheck.stats.uniformity import simultaneous_band

__all__ = [
    "Datasets",
    "EcdfDifference",
    "Histogram",
    "datasets_data",
    "ecdf_difference_data",
    "histograms_data",
    "require_calibration",
]

Floats = NDArray[np.float64]

_MOST_BINS, _LEAST_EXPECTED = 20, 10
"""Bins of a histogram: fewer where so many would expect fewer probabilities each."""
_POINTS = 200
"""Points at which an ECDF is evaluated: with more it looks the same."""
_LEVEL = 0.95


def require_calibration(value: Any) -> None:
    """Raise unless this is a calibration."""
    if not isinstance(value, Calibration):
        raise TypeError(f"calibration must come from vicheck.vsbc, got {type(value).__name__}")


@dataclass(frozen=True, eq=False)
class Histogram:
    """Calibration probabilities of one quantity, and their mirror image about 1/2.

    Small probabilities mean that q sits too high. Without bias the two look alike; bars within
    ``low`` and ``high`` are what a uniform distribution gives 99% of the time, bin by bin.
    """

    name: str
    edges: Floats
    counts: NDArray[np.int64]
    mirrored: NDArray[np.int64]
    """Counts of 1 - p."""
    num_below: int
    """How many p lie below 1/2."""
    num_above: int
    low: float
    high: float
    direction: str
    """As in ``tests``: "over" (q sits too high), "under" or "none"."""
    p_adjusted: float
    bias: float
    """In sds of q, positive when q sits too high."""
    coverage_90: float
    """How often q's central 90% interval holds the truth."""
    covers: bool
    """Whether intervals of all sizes do so as often as they claim."""
    decides: bool
    """Whether this is the quantity that the verdict names first."""


def histograms_data(
    calibration: Calibration, quantities: Sequence[str] | None = None, most: int = 6
) -> list[Histogram]:
    """Return histograms of the quantities, by default of the worst ones."""
    from scipy.stats import binom

    histograms = []
    for name, p in _chosen(calibration, quantities, most):
        bins = int(np.clip(p.size // _LEAST_EXPECTED, 4, _MOST_BINS))
        edges = np.linspace(0.0, 1.0, bins + 1)
        low, high = binom.ppf([0.005, 0.995], p.size, 1.0 / bins)
        row = calibration.tests.loc[name]
        counts = np.histogram(p, edges)[0]
        histograms.append(
            Histogram(
                name=name,
                edges=edges,
                counts=counts,
                mirrored=counts[::-1],
                num_below=int((p < 0.5).sum()),
                num_above=int((p > 0.5).sum()),
                low=float(low),
                high=float(high),
                direction=str(row["direction"]),
                p_adjusted=float(row["p_adjusted"]),
                bias=float(row["bias"]),
                coverage_90=float(row["coverage_90"]),
                covers=bool(row["covers"]),
                decides=name == calibration.deciding_quantity,
            )
        )
    return histograms


@dataclass(frozen=True, eq=False)
class EcdfDifference:
    """The distribution function of the probabilities of one quantity, less that of a uniform one.

    Above zero on the left: too many small probabilities, q sits too high.
    """

    name: str
    points: Floats
    difference: Floats
    lower: Floats
    """The simultaneous 95% band of uniform probabilities."""
    upper: Floats
    inside: bool
    """Whether all of it lies in the band."""
    decides: bool
    """Whether this is the quantity that the verdict names first."""


def ecdf_difference_data(
    calibration: Calibration, quantities: Sequence[str] | None = None, most: int = 6
) -> list[EcdfDifference]:
    """Return ECDF minus uniform with its simultaneous band, by default of the worst quantities."""
    differences = []
    for name, p in _chosen(calibration, quantities, most):
        points = min(_POINTS, max(2, p.size))
        band = simultaneous_band(max(1, p.size), _LEVEL, points)
        # i / K may come out just below a p that equals it.
        ecdf = np.searchsorted(np.sort(p), band.points + 1e-12, side="right") / max(1, p.size)
        inside = (ecdf >= band.lower) & (ecdf <= band.upper)
        differences.append(
            EcdfDifference(
                name=name,
                points=np.concatenate([[0.0], band.points]),
                difference=_from_zero(ecdf - band.points),
                lower=_from_zero(band.lower - band.points),
                upper=_from_zero(band.upper - band.points),
                inside=bool(p.size and inside.all()),
                decides=name == calibration.deciding_quantity,
            )
        )
    return differences


@dataclass(frozen=True, eq=False)
class Datasets:
    """How the fits ended, and the khat of each that gave an approximation."""

    statuses: dict[str, int]
    """Number of fits by status, the most frequent first."""
    khat: Floats
    """Sorted; without those that are undefined."""
    threshold: float
    num_undefined: int


def datasets_data(calibration: Calibration) -> Datasets:
    """Return statuses and khats over the simulated datasets."""
    require_calibration(calibration)
    khat = calibration.khat.to_numpy()[calibration.used]
    summary = calibration.khat_summary
    return Datasets(
        statuses=dict(Counter(calibration.status.to_numpy().tolist()).most_common()),
        khat=np.sort(khat[~np.isnan(khat)]),
        threshold=summary.threshold,
        num_undefined=summary.num_undefined,
    )


def _from_zero(values: Floats) -> Floats:
    return np.concatenate([[0.0], values])


def _chosen(
    calibration: Calibration, quantities: Sequence[str] | None, most: int
) -> list[tuple[str, Floats]]:
    """Return names and probabilities of the quantities, as far as these are known."""
    require_calibration(calibration)
    known = calibration.quantities
    _require_names(quantities, most, known)
    names = calibration.worst_first.index[:most] if quantities is None else list(quantities)
    probabilities = calibration.probabilities.to_numpy()[calibration.used]
    columns = (probabilities[:, known.index(name)] for name in names)
    return [(str(name), p[np.isfinite(p)]) for name, p in zip(names, columns, strict=True)]


def _require_names(quantities: Sequence[str] | None, most: int, known: Sequence[str]) -> None:
    """Raise unless these are names of quantities, and at least one."""
    if most < 1:
        raise ArgumentError("most", f"must be at least 1, got {most}")
    if quantities is None:
        return
    if isinstance(quantities, str):
        raise TypeError(f"quantities must be a list of names, got the string {quantities!r}")
    if not len(quantities):
        raise ArgumentError("quantities", "must hold at least one name, got none")
    unknown = [str(name) for name in quantities if name not in known]
    if unknown:
        problem = f"has {', '.join(unknown)}, but the calibration has: {', '.join(known)}"
        raise ArgumentError("quantities", problem)
