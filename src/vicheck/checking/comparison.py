"""`compare`: rank parametrizations and families by khat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vicheck.checking.run import check
from vicheck.results.check import Check

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.model import Model
    from vicheck.results.fit import Fit

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Checks of several approximations, best first."""

    checks: dict[str, Check]

    @property
    def table(self) -> pd.DataFrame:
        """One row for each: khat with its 90% interval, ELBO, verdict."""
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
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    @property
    def best(self) -> str:
        """Name of the one with the smallest khat."""
        return next(iter(self.checks))

    def __repr__(self) -> str:
        return self.table.to_string(float_format=lambda number: f"{number:.3g}")


def compare(
    candidates: Mapping[str, Fit | Model] | Iterable[Fit | Model],
    *,
    families: tuple[str, ...] = ("mean_field",),
    num_draws: int = 100_000,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Rank fits, or models fitted here, by khat.

    khat compares what an ELBO cannot: parametrizations of the same model, and models of different
    families (the paper's sections 2.3 and 4.3). A smooth change of variables of p and q together
    leaves it as it is.

    Parameters
    ----------
    candidates
        Fits or models, by name; without names they are numbered.
    families
        Families to fit each model with.
    num_draws, seed
        As in `vicheck.check`.
    **options
        Handed to `vicheck.fit`.

    Examples
    --------
    >>> from vicheck.paper import models
    >>> schools = {
    ...     "centred": vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS),
    ...     "non-centred": vicheck.from_numpyro(
    ...         models.eight_schools_noncentred, **models.EIGHT_SCHOOLS
    ...     ),
    ... }
    >>> vicheck.compare(schools, num_draws=20_000).best
    'non-centred'
    """
    from vicheck.results.fit import Fit
    from vicheck.vi.fitting import fit

    if not isinstance(candidates, Mapping):
        candidates = {f"{index}": candidate for index, candidate in enumerate(candidates)}
    if not candidates:
        raise ValueError("candidates must hold at least one fit or model, got none")
    fits: dict[str, Fit] = {}
    for name, candidate in candidates.items():
        if isinstance(candidate, Fit):
            fits[name] = candidate
            continue
        for family in families:
            label = name if len(families) == 1 else f"{name}, {family}"
            fits[label] = fit(candidate, family=family, seed=seed, **options)
    checks = {name: check(each, num_draws=num_draws, seed=seed) for name, each in fits.items()}
    return Comparison(dict(sorted(checks.items(), key=lambda item: _rank(item[1]))))


def _rank(checked: Check) -> tuple[bool, float]:
    """Sort by khat, and what has none last."""
    return checked.khat != checked.khat, checked.khat
