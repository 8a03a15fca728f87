"""`PsisResult`: khat, smoothed weights and whether khat could be estimated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from vicheck.results.khat_posterior import KhatPosterior
from vicheck.results.record import Floats, Record
from vicheck.results.tail_fits import TailFits

__all__ = ["PsisResult", "PsisStatus"]


class PsisStatus(Enum):
    """Whether khat could be estimated and, if not, the reason."""

    OK = "khat was estimated"
    CONSTANT = "all ratios are equal: q matches p up to a constant, and khat is 0 by definition"
    TIED_AT_MAXIMUM = "all ratios in the tail are equal, so no distribution can be fitted to them"
    TIED_AT_CUTOFF = "too many of the ratios in the tail equal the cut-off below it"
    TOO_FEW_DRAWS = "fewer than 21 draws are too few to have a tail"
    TOO_FEW_POSITIVE = "fewer ratios are positive than the tail needs; the others are zero"
    ALL_ZERO = "all ratios are zero (log ratio -inf): p vanishes wherever q put a draw"
    NOT_FINITE = "NaN or +inf among the log ratios"

    @property
    def code(self) -> int:
        """Position among the statuses, for arrays of numbers."""
        return list(PsisStatus).index(self)

    def __repr__(self) -> str:
        return f"PsisStatus.{self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class PsisResult(Record):
    """Pareto smoothed importance sampling of one vector of log ratios, or of each in a batch.

    For a batch of shape ``(..., S)``, each number that belongs to one vector becomes an array of
    shape ``(...)``.
    """

    khat: Any
    """Estimated shape of the ratios' right tail; NaN when the status says it is undefined."""
    log_weights: Floats
    """Smoothed log weights in the order of the input; normalised, so they log-sum-exp to 0."""
    ess: Any
    """Effective sample size of the weights, 1 / sum(weights^2)."""
    log_normalizer: Any
    """Log of the sum of the smoothed ratios; less log S, it estimates the log evidence."""
    num_draws: int
    tail_length: int
    threshold: float
    """Largest khat that is reliable with this many draws."""
    min_draws: Any
    """Number of draws from which this khat would be reliable if there were no cap of 0.7."""
    convergence_rate: Any
    """1 if the error falls as with independent draws, 0 if more draws do not help."""
    status: Any
    """`PsisStatus`; for a batch an object array of them."""
    num_zero: Any
    """Number of log ratios that are -inf, and so have weight zero."""
    num_invalid: Any
    """Number of log ratios that are NaN or +inf."""
    first_invalid: Any
    """Index of the first of these, or -1."""
    khat_posterior: KhatPosterior
    """Uncertainty of khat."""
    tail_fits: TailFits | None = None
    """In a check whose ratios have no Pareto tail: what tails of other lengths say. The weights
    are then those of the raw ratios. `vicheck.psis` leaves this out."""

    _arrays_of: ClassVar = {"status": PsisStatus}

    def khat_interval(self, level: float = 0.9) -> Floats:
        """Return the central posterior interval of k, shape ``(..., 2)``."""
        return self.khat_posterior.interval(level)

    @property
    def exceedance_probability(self) -> Any:
        """Posterior probability that k lies above the threshold."""
        return self.khat_posterior.exceeds(self.threshold)

    @property
    def weights_khat(self) -> Any:
        """The khat that governs the error of the weights: further out, where khat is no tail's."""
        return self.khat if self.tail_fits is None else self.tail_fits.khat

    @property
    def weights_tail_length(self) -> int:
        """The number of ratios that this khat was estimated from."""
        return self.tail_length if self.tail_fits is None else self.tail_fits.tail_length

    @property
    def message(self) -> str:
        """What the status means for this input; for a batch, how many vectors have which."""
        if isinstance(self.status, PsisStatus):
            return self._describe(self.status, 0)
        statuses = self.status.ravel()
        groups = {status: np.flatnonzero(statuses == status) for status in PsisStatus}
        return "; ".join(
            f"{len(rows)} of {len(statuses)} vectors {status.name}"
            + ("" if status is PsisStatus.OK else f" (first: {self._describe(status, rows[0])})")
            for status, rows in groups.items()
            if len(rows)
        )

    def _describe(self, status: PsisStatus, row: int) -> str:
        if status is PsisStatus.NOT_FINITE:
            count, first = np.ravel(self.num_invalid)[row], np.ravel(self.first_invalid)[row]
            return f"{status.value}: {count} of {self.num_draws}, the first at index {first}"
        if status is PsisStatus.TOO_FEW_POSITIVE:
            positive = self.num_draws - np.ravel(self.num_zero)[row]
            return f"{status.value}: {positive} positive, tail length {self.tail_length}"
        return str(status.value)

    def __repr__(self) -> str:
        draws = f"num_draws={self.num_draws}, tail_length={self.tail_length}"
        if not isinstance(self.status, PsisStatus):
            defined = np.count_nonzero(~np.isnan(self.khat))
            return f"PsisResult(batch={self.khat.shape}, {draws}, khat defined for {defined})"
        return (
            f"PsisResult(khat={self.khat:.3f}, ess={self.ess:.1f}, {draws}, "
            f"threshold={self.threshold:.3f}, status={self.status.name})"
        )
