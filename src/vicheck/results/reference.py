"""Reference: draws of the posterior by MCMC, and whether they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from vicheck.results.reference_archive import (
    REFERENCE_FORMAT,
    described_reference,
    reference_fields,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MAX_DIVERGENT_FRACTION",
    "MAX_RHAT",
    "MIN_ESS_PER_CHAIN",
    "Reference",
    "blocks_of",
]

MAX_RHAT = 1.01
"""Largest Rhat of chains that have mixed (Vehtari et al. 2021, section 4)."""
MIN_ESS_PER_CHAIN = 100
"""Effective draws per chain from which on Rhat and ESS are stable (the same, section 4)."""
MAX_DIVERGENT_FRACTION = 1e-3
"""Our choice: more divergent transitions mean a region that the sampler cannot enter."""

_BLOCK = 2**21
"""Draws that are looked at together: models with many parameters stay in memory."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Reference:
    """Draws of the posterior to compare an approximation with.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.random.default_rng(1).normal(size=(4, 500, 1))
    >>> draws = Reference(
    ...     z, {"x": z[..., 0]}, rhat={"x": 1.0}, ess={"x": 2000.0}, mcse={"x": 0.02},
    ...     num_divergent=7,
    ... )
    >>> draws.caution
    '7 of 2000 transitions diverged'
    """

    z: Floats
    """Unconstrained draws, shape ``(chains, draws, d)``."""
    draws: dict[str, Floats]
    """Parameters and derived quantities by name, shape ``(chains, draws, *shape)``."""
    rhat: dict[str, float]
    """Rhat of each scalar, the larger of bulk and folded; NaN if all its draws are the same."""
    ess: dict[str, float]
    """Bulk effective sample size of each scalar; NaN when all its draws are the same."""
    mcse: dict[str, float]
    """Monte Carlo standard error of the mean of each scalar; 0 when all its draws are the same."""
    num_divergent: int
    """Divergent transitions after warm-up."""
    tail_ess: dict[str, float] = field(default_factory=dict)
    """Effective sample size in the tails of each scalar: the smaller of those of its 5% and 95%
    quantiles. Empty where it is not known."""
    num_gradients: int = 0
    """Gradients of the density that all chains took, including warm-up; 0 if not known."""

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self.z)

    @property
    def moments(self) -> pd.DataFrame:
        """Mean, sd, Monte Carlo error of the mean, Rhat and both ESS, one row per scalar."""
        import pandas as pd

        blocks = blocks_of(self.draws)
        with np.errstate(invalid="ignore"):  # a derived quantity may be infinite
            sd = np.concatenate([block.std(axis=(0, 1), ddof=1) for block in blocks])
        columns = {
            "mean": np.concatenate([block.mean(axis=(0, 1)) for block in blocks]),
            "sd": sd,
            "mcse": list(self.mcse.values()),
            "rhat": list(self.rhat.values()),
            "ess": list(self.ess.values()),
        }
        if self.tail_ess:
            columns["tail_ess"] = list(self.tail_ess.values())
        return pd.DataFrame(columns, index=list(self.rhat))

    @property
    def max_rhat(self) -> float:
        """Largest Rhat; NaN when that of a quantity that varies cannot be computed."""
        return float(np.max(self._of_varying(self.rhat)))

    @property
    def min_ess(self) -> float:
        """Smallest ESS; NaN when that of a quantity that varies cannot be computed."""
        return float(np.min(self._of_varying(self.ess)))

    @property
    def min_tail_ess(self) -> float:
        """Smallest ESS in the tails; infinite where none is known."""
        if not self.tail_ess:
            return math.inf
        return float(np.min(self._of_varying(self.tail_ess)))

    @property
    def caution(self) -> str:
        """The reason not to trust the draws; empty if there is none."""
        reasons = []
        if not self.max_rhat < MAX_RHAT:
            reasons.append(f"the largest Rhat is {self.max_rhat:.3f}, above {MAX_RHAT}")
        least = MIN_ESS_PER_CHAIN * self.num_chains
        if not self.min_ess > least:
            reasons.append(f"the smallest ESS is {self.min_ess:.0f}, below {least}")
        if not self.min_tail_ess > least:
            reasons.append(f"the smallest tail ESS is {self.min_tail_ess:.0f}, below {least}")
        total = self.num_chains * self.z.shape[1]
        if self.num_divergent > MAX_DIVERGENT_FRACTION * total:
            reasons.append(f"{self.num_divergent} of {total} transitions diverged")
        return "; ".join(reasons)

    @property
    def reliable(self) -> bool:
        """Whether Rhat, ESS and divergences are all within their cut-offs."""
        return not self.caution

    def save(self, path: str | Path) -> None:
        """Write all draws to one file (``.npz``), which `vicheck.load` reads back.

        The same content gives the same bits; an old file stays until the new one is complete.
        """
        REFERENCE_FORMAT.save(path, *described_reference(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` has written."""
        return cls(**REFERENCE_FORMAT.load(path, reference_fields))

    def _of_varying(self, by_name: dict[str, float]) -> Floats:
        varies = [(block != block[0, 0]).any(axis=(0, 1)) for block in blocks_of(self.draws)]
        values = np.array(list(by_name.values()))[np.concatenate(varies)]
        return values if values.size else np.array([math.nan])

    def __repr__(self) -> str:
        chains, draws, dim = self.z.shape
        return (
            f"Reference({chains} chains of {draws} draws, {dim} parameters, "
            f"max_rhat={self.max_rhat:.3f}, min_ess={self.min_ess:.0f}, "
            f"num_divergent={self.num_divergent})"
        )

    def __str__(self) -> str:
        caution = f"\nCaution: {self.caution}." if self.caution else ""
        return f"{self!r}{caution}\n{self.moments.to_string(float_format='{:.3f}'.format)}"


def blocks_of(draws: Mapping[str, Floats]) -> list[Floats]:
    """Cut draws into arrays of shape ``(chains, draws, scalars)``, none of them too large."""
    blocks = []
    for array in draws.values():
        flat = array.reshape(*array.shape[:2], -1)
        width = max(1, _BLOCK // (flat.shape[0] * flat.shape[1]))
        blocks += [flat[..., start : start + width] for start in range(0, flat.shape[2], width)]
    return blocks
