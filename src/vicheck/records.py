"""Result types: frozen, printable, convertible to and from plain dictionaries."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from types import UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from vicheck.plain_text import plain

__all__ = [
    "Average",
    "Convergence",
    "Divergences",
    "Estimate",
    "Finding",
    "FitStatus",
    "GradientTest",
    "KhatPosterior",
    "KhatSummary",
    "Measure",
    "PooledModes",
    "Predictive",
    "PsisResult",
    "PsisStatus",
    "QuantileEstimate",
    "Record",
    "Verdict",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """Base of all results: `to_dict` gives plain lists and numbers, `from_dict` reads them back."""

    _arrays_of: ClassVar[dict[str, type[Enum]]] = {}
    """Fields that hold a member of an enumeration, or an array of members."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values; arrays become lists, statuses their names."""
        return {each.name: _encode(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Rebuild a record from what `to_dict` returned, also by way of JSON; null becomes NaN.

        Raises
        ------
        ValueError
            When a field is missing, unknown, or of another type than the record's.
        """
        if not isinstance(values, dict):
            raise ValueError(f"{cls.__name__} must be a dictionary, got {type(values).__name__}")
        known = {each.name: each for each in fields(cls)}
        needed = {
            name
            for name, each in known.items()
            if each.default is MISSING and each.default_factory is MISSING
        }
        for what, names in (("no", needed - {*values}), ("an unknown", {*values} - {*known})):
            if names:
                raise ValueError(f"{cls.__name__} has {what} field {min(map(str, names))!r}")
        decoded, hints = {}, get_type_hints(cls)
        for name, value in values.items():
            try:
                decoded[name] = _decode_field(value, hints[name], cls._arrays_of.get(name))
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"{name} of {cls.__name__}: {error}") from None
        return cls(**decoded)

    def __repr__(self) -> str:
        parts = (f"{each.name}={_brief(getattr(self, each.name))}" for each in fields(self))
        return f"{type(self).__name__}({', '.join(parts)})"


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


class FitStatus(Enum):
    """How a fit ended."""

    CONVERGED = "the fit has converged"
    SAMPLING_ERROR = "the fit has converged, but on too few draws to be accurate"
    MAX_ITERATIONS = "the fit has not converged within its iterations"
    STALLED = "no step improves the fit any more, although its gradient is not zero"
    AT_INFINITY = "the fit runs away: the best approximation lies at infinity"
    NOT_FINITE = "the log density is not finite where the fit would have to go"
    NO_STEP_SIZE = "no step size that was tried improves on the start"
    INTERRUPTED = "the fit was interrupted"
    FAILED = "the fit raised an error"
    TIMED_OUT = "the fit took longer than its limit"

    def __repr__(self) -> str:
        return f"FitStatus.{self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class KhatPosterior(Record):
    """Posterior of the Pareto shape k, from the grid on which khat was estimated.

    A mixture over the grid points theta_j with the profile weights. Given theta_j, k is
    k_j N / G, G a Gamma(N) variable: this is exact under a prior dk / |k|. The weak prior that
    moves khat towards 0.5 is left out, because intervals keep their coverage without it only.
    Arrays have shape ``(..., grid)``.
    """

    k_grid: Floats
    weights: Floats
    num_exceedances: int

    def exceeds(self, threshold: float) -> Any:
        """Return the posterior probability that k lies above a threshold."""
        cdf = self._cdf(np.full(self.k_grid.shape[:-1], threshold))
        return float(1.0 - cdf) if cdf.ndim == 0 else 1.0 - cdf

    def interval(self, level: float = 0.9) -> Floats:
        """Return the central interval of a level, shape ``(..., 2)``; NaN where no fit was made."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        tails = (0.5 * (1.0 - level), 0.5 * (1.0 + level))
        return np.stack([self._quantile(probability) for probability in tails], axis=-1)

    def _cdf(self, k: Floats) -> Floats:
        from scipy.special import gammainc  # loaded late: importing vicheck stays light

        size, at = self.num_exceedances, k[..., None]
        same_sign = np.sign(at) * np.sign(self.k_grid) > 0.0
        # k <= t means G >= N k_j / t for positive k_j, and G <= N k_j / t for negative k_j.
        with np.errstate(over="ignore"):
            bound = size * np.where(same_sign, self.k_grid / np.where(same_sign, at, 1.0), 0.0)
        below = gammainc(size, bound)
        below = np.where(self.k_grid > 0.0, 1.0 - below, below)
        below = np.where(same_sign, below, at >= self.k_grid)
        return np.asarray((self.weights * below).sum(axis=-1))

    def _quantile(self, probability: float) -> Floats:
        """Invert the distribution function by bisection, all rows at once."""
        reach = 1.0 + 100.0 * np.minimum(np.abs(self.k_grid).max(axis=-1), 1e300)
        low, high = -reach, reach
        for _ in range(45):
            middle = 0.5 * (low + high)
            below = self._cdf(middle) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))


@dataclass(frozen=True, eq=False, repr=False)
class PsisResult(Record):
    """Pareto smoothed importance sampling of one vector of log ratios, or of each in a batch.

    For a batch of shape ``(..., S)`` each number that belongs to a vector is an array of shape
    ``(...)``.
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
    """Number of draws from which on this khat would be reliable, were there no cap of 0.7."""
    convergence_rate: Any
    """1 when the error falls as with independent draws, 0 when more draws do not help."""
    status: Any
    """`PsisStatus`; for a batch an object array of them."""
    num_zero: Any
    """How many log ratios are -inf, and so have weight zero."""
    num_invalid: Any
    """How many log ratios are NaN or +inf."""
    first_invalid: Any
    """Index of the first of these, or -1."""
    khat_posterior: KhatPosterior
    """Uncertainty of khat."""

    _arrays_of: ClassVar = {"status": PsisStatus}

    def khat_interval(self, level: float = 0.9) -> Floats:
        """Return the central posterior interval of k, shape ``(..., 2)``."""
        return self.khat_posterior.interval(level)

    @property
    def exceedance_probability(self) -> Any:
        """Posterior probability that k lies above the threshold."""
        return self.khat_posterior.exceeds(self.threshold)

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


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Record):
    """Mean and standard deviation of quantities, with Monte Carlo standard errors."""

    mean: Any
    sd: Any
    mcse: Any
    """Monte Carlo standard error of the mean."""
    mcse_sd: Any
    """Monte Carlo standard error of the standard deviation."""
    ess: Any
    """Number of independent posterior draws that would estimate the mean as well."""


@dataclass(frozen=True, eq=False, repr=False)
class QuantileEstimate(Record):
    """Quantiles with Monte Carlo standard errors; the dimension of probabilities comes first."""

    value: Any
    mcse: Any


@dataclass(frozen=True, eq=False, repr=False)
class Measure(Record):
    """A number with its Monte Carlo standard error, or NaN (or infinity) with the reason."""

    value: float
    mcse: float
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.value:.4g} ({self.reason})"
        return f"{self.value:.4g} +- {self.mcse:.2g}"


@dataclass(frozen=True, eq=False, repr=False)
class Divergences(Record):
    """How far q is from p, in nats."""

    elbo: Measure
    log_evidence: Measure
    kl_q_p: Measure
    """KL(q, p), what variational inference minimises."""
    kl_p_q: Measure
    """KL(p, q) = E_p log(p / q)."""
    chi_square: Measure
    """E_q (p / q)^2 - 1."""
    renyi: dict[float, Measure]
    """D_alpha(p || q) by order alpha."""


@dataclass(frozen=True, eq=False, repr=False)
class GradientTest(Record):
    """Whether the expected gradient at q is zero, on fresh draws and up to a tolerance."""

    size: float
    """Largest entry of the mean gradient, in standard deviations of q."""
    p_value: float
    """Of the hypothesis that no entry exceeds the tolerance; Bonferroni over the entries."""
    tolerance: float
    worst: str
    """The parameter with the largest entry."""
    num_draws: int


@dataclass(frozen=True, eq=False, repr=False)
class Convergence(Record):
    """What is known about whether a solver has found the best member of its family."""

    status: FitStatus
    solver: str
    gradient: GradientTest
    gradient_norm: float = np.nan
    """Gradient in sd units on the solver's own draws."""
    sampling_error: float = np.nan
    """Error of means and log sds, in sds, that comes from the solver's finite draws."""
    relative_change_mean: float = np.nan
    """Stan's criterion: mean relative change of the ELBO over its last evaluations."""
    relative_change_median: float = np.nan
    rhat: float = np.nan
    """Largest split R-hat of the last half of the iterates (Dhaka et al. 2020)."""
    iterate_mcse: float = np.nan
    """Largest Monte Carlo error of their average, in sds."""
    family: str = ""
    richer: str = "full_rank"
    """Family to try where this one is too poor, or nothing."""
    gradient_trace: Floats = field(default_factory=lambda: np.empty(0))
    """Largest entry of the gradient, in sds, after each round of the deterministic solver."""


@dataclass(frozen=True, eq=False, repr=False)
class PooledModes(Record):
    """The mixture, in parts by their ELBOs, of all optima that the starts have settled on."""

    khat: float
    log_evidence: Measure
    missed: float
    """Share of the posterior that lies where the fit has no draws."""
    masses: Floats
    """Share of the posterior that belongs to each optimum, the fit itself first."""
    locations: Floats
    """Their means, one row each, on the unconstrained scale."""


@dataclass(frozen=True, eq=False, repr=False)
class Predictive(Record):
    """Log density of held-out data, summed over its points.

    It does not tell whether variational inference worked: a worse posterior can predict better
    (the paper's section 4.2). Only the difference between the two numbers says something.
    """

    vi: Measure
    psis: Measure
    num_points: int


@dataclass(frozen=True, eq=False, repr=False)
class Average(Record):
    """A mean over simulated datasets, in nats, with its 95% interval."""

    mean: float
    low: float
    high: float
    num_used: int
    """Datasets for which the number is known."""
    largest_share: float = np.nan
    """Of a single dataset in the sum of absolute values: near 1, the interval means nothing."""

    def __str__(self) -> str:
        if not self.num_used:
            return "not known"
        if not np.isfinite(self.mean):
            return "infinite"
        # Rounding error of an exact q is shown as 0, and 0.0 turns -0 into it.
        if np.isnan(self.low):  # of a single dataset
            return f"{round(self.mean, 6) + 0.0:.3g} nats"
        mean, low, high = (round(each, 6) + 0.0 for each in (self.mean, self.low, self.high))
        return f"{mean:.3g} [{low:.3g}, {high:.3g}] nats"


@dataclass(frozen=True, eq=False, repr=False)
class KhatSummary(Record):
    """khat over simulated datasets, as far as it is defined."""

    median: float
    low: float
    """Quantile 0.05."""
    high: float
    """Quantile 0.95."""
    threshold: float
    """Largest khat that is reliable with this many draws."""
    share_above: float
    """Share of the datasets whose khat is not below the threshold."""
    num_used: int
    num_undefined: int
    """Datasets that have an approximation but no khat."""


@dataclass(frozen=True, eq=False, repr=False)
class Finding(Record):
    """One sentence about a fit, with how bad it is, the numbers behind it and what to do."""

    severity: Literal["ok", "caution", "bad"]
    sentence: str
    evidence: dict[str, float]
    hint: str

    def __str__(self) -> str:
        return plain(self.sentence)


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Record):
    """The summary of the findings; ``str`` gives the sentence."""

    level: Literal["good", "usable", "unreliable", "none"]
    sentence: str
    hint: str
    findings: tuple[Finding, ...]
    code: str = ""
    """The next step as a line of Python, where there is one."""

    def __str__(self) -> str:
        return plain(self.sentence)


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"<array {value.shape}>" if isinstance(value, np.ndarray) else repr(value)


def _encode(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray | np.generic):
        return _encode(value.tolist())
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value


def _decode_field(value: Any, hint: Any, members: type[Enum] | None) -> Any:
    """Return the value of a field; one that may hold anything holds numbers, alone or in arrays."""
    if members is not None:
        names = np.array(value, dtype=object)
        decoded = np.empty(names.shape, dtype=object)
        for index, name in np.ndenumerate(names):
            decoded[index] = _member(name, members)
        return decoded.item() if decoded.ndim == 0 else decoded
    if hint is not Any:
        return _decode(value, hint)
    if value is None:
        return np.nan
    if not isinstance(value, list):
        return value
    array = np.array(value)
    return array.astype(np.float64) if array.dtype == object else array  # None becomes NaN


def _decode(value: Any, hint: Any) -> Any:
    """Return what a type makes of plain values, or raise `TypeError` or `ValueError`."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or (origin is Literal and value in parts):
        return value
    if origin in (UnionType, Union):  # of a type and None
        return None if value is None else _decode(value, parts[0])
    if origin is None:
        return _decode_single(value, hint)
    if origin is dict and isinstance(value, dict):
        kind = parts[0]  # of the keys, which JSON has as text
        return {kind(key): _decode(item, parts[1]) for key, item in value.items()}
    # An array's type has its alias as origin where that is a type of its own, from NumPy 2.5 on.
    if origin not in (np.ndarray, NDArray, tuple) or not isinstance(value, list):
        raise TypeError(f"expected {hint}, got {type(value).__name__}")
    if origin is tuple:
        return tuple(_decode(item, parts[0]) for item in value)
    return np.array(value, dtype=np.float64)  # None becomes NaN


def _decode_single(value: Any, kind: type[Any]) -> Any:
    if issubclass(kind, Record):
        return kind.from_dict(value)
    if issubclass(kind, Enum):
        return _member(value, kind)
    if kind is float and value is None:
        return np.nan
    if not isinstance(value, int | float if kind is float else kind) or isinstance(value, bool):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return _within_64_bits(value) if kind is int else kind(value)


def _within_64_bits(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ValueError("a number is too large")
    return value


def _member(name: Any, kind: type[Enum]) -> Enum:
    if not isinstance(name, str) or name not in kind.__members__:
        raise ValueError(f"there is no {kind.__name__} {name!r:.40}")
    return kind[name]
