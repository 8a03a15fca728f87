"""`Comparison`: checks of several approximations, ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vicheck.results.check import Check

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Checks of several approximations, best first."""

    checks: dict[str, Check]

    @property
    def table(self) -> pd.DataFrame:
        """One row for each: khat with its 90% interval, ELBO, verdict, and how the fit went.

        ``status`` is how the solver ended, empty where that is not known; ``seconds`` are those of
        fit and check together, or only of the check for fits made elsewhere.
        """
        import pandas as pd

        rows = {}
        for name, checked in self.checks.items():
            low, high = checked.psis.khat_interval()
            rows[name] = {
                "khat": checked.khat,
                "khat_low": float(low),
                "khat_high": float(high),
                "ess": float(checked.psis.ess),
                "elbo": checked.divergences.elbo.value,
                "verdict": checked.verdict.level,
                "status": "" if checked.convergence is None else checked.convergence.status.name,
                "seconds": checked.seconds,
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    @property
    def best(self) -> str:
        """Name of the one with the smallest khat."""
        return next(iter(self.checks))

    def __repr__(self) -> str:
        return self.table.to_string(float_format=lambda number: f"{number:.3g}")
