"""What a check hands over: tables, draws, pages and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from vicheck.results.check_archive import save_fields

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check

__all__ = ["CheckOutputs"]

Floats = NDArray[np.float64]


class CheckOutputs:
    """Methods of `Check` that hand over what it has found."""

    def quantiles(
        self,
        prob: float | Sequence[float] | None = None,
        quantities: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return quantiles of every quantity by VI and by PSIS, and which to use.

        One row for each quantity and four columns for each probability, named as in R's posterior:
        ``vi_q5`` is the quantile of q, ``psis_q5`` that by the smoothed weights, ``mcse_q5`` the
        Monte Carlo error of the latter and ``use_q5`` which of them may be used. That is what may
        be used of both mean and sd (``use`` in ``moments``), with two cautions: a plain quantile
        that the weights move by more than 0.08 sds gives way to the weighted one, and a weighted
        one beyond which too few draws lie has an infinite error and may not be used.

        Parameters
        ----------
        prob
            Probabilities between 0 and 1, by default those of the median and of the central 90%,
            or what `Check.with_prob` was given.
        quantities
            Names of rows of ``moments``; all by default. Each column is sorted, which takes some
            milliseconds for a hundred thousand draws.
        """
        from vicheck.checking.quantiles import quantiles_table

        check = cast("Check", self)
        return quantiles_table(check, check.prob if prob is None else prob, quantities)

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return what may be reported for every quantity, in columns named as in ArviZ.

        ``mean``, ``sd``, the ends ``eti90_lb`` and ``eti90_ub`` of the equal-tailed interval,
        ``mcse_mean``, ``mcse_sd`` and ``ess_mean``, the number of independent draws from the
        posterior that would give as good a mean. NaN where no estimate may be used. ``source`` is
        "psis" where the weights work; or else "vi", whose error is not chance: ``mcse_mean``,
        ``mcse_sd`` and ``ess_mean`` are then NaN. ``khat`` is that of the quantity. Warns if
        the verdict is "unreliable" or withheld.

        Parameters
        ----------
        ci_prob
            Probability of the interval; its columns are named after it.
        """
        from vicheck.checking.handing_over import warn_unless_reliable
        from vicheck.checking.summary import summary_table

        check = cast("Check", self)
        warn_unless_reliable(check, "estimates of this check are taken for a summary")
        return summary_table(check, ci_prob)

    def resample(self, num_draws: int, *, replace: bool = True, seed: Any = 0) -> dict[str, Floats]:
        """Draw from the posterior, as far as the smoothed weights can: draws of equal weight.

        Warns where the verdict is "unreliable" or withheld.

        Parameters
        ----------
        num_draws
            Their number; without replacement, at most that of the draws with a positive weight.
        replace
            Without replacement no draw occurs twice; the result is then closer to q.
        seed
            An integer or a JAX key; the same seed gives the same draws.

        Raises
        ------
        ValueError
            When the weights are undefined, or too few draws have a positive one.
        """
        from vicheck.checking.handing_over import resampled, warn_unless_reliable

        check = cast("Check", self)
        drawn = resampled(check, num_draws, replace, seed)
        warn_unless_reliable(check, "the draws are resampled by weights that cannot be trusted")
        return drawn

    def to_arviz(
        self,
        *,
        resampled: bool = True,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        seed: Any = 0,
    ) -> Any:
        """Return draws as ArviZ data: of equal weight, for all that ArviZ computes and plots.

        That is an ``InferenceData`` where ArviZ 0.x is installed, and a ``DataTree`` otherwise.
        Warns where the verdict is "unreliable" or withheld.

        Parameters
        ----------
        resampled
            True: the group ``posterior`` has draws of equal weight, as many as are effective and at
            most 4000; draws of q itself where these can be used and weights cannot. False: all
            draws of q in ``posterior``, which are not draws from the posterior, with ``log_p``,
            ``log_q`` and ``log_weights`` in ``sample_stats``, as `from_arviz` reads them.
        dims
            Names of the dimensions of quantities; those of a PyMC model are known.
        coords
            Labels along dimensions; likewise.
        seed
            Of the resampling.
        """
        from vicheck.checking.handing_over import as_arviz, warn_unless_reliable

        check = cast("Check", self)
        warn_unless_reliable(check, "draws that cannot be relied on are handed to ArviZ")
        return as_arviz(check, resampled, dims, coords, seed)

    def report(
        self, path: str | Path, *, calibration: Calibration | None = None, title: str = ""
    ) -> Path:
        """Write everything as one self-contained HTML page, and return its path.

        Parameters
        ----------
        path
            The file; an existing one is replaced when the new one is complete.
        calibration
            What `vicheck.vsbc` has found for the same model, to be shown on the same page.
        title
            The heading of the page; by default that of the check.
        """
        from vicheck.report.page import write_report

        return write_report(path, check=cast("Check", self), calibration=calibration, title=title)

    def save(
        self,
        path: str | Path,
        *,
        draws: bool = True,
        dtype: Literal["float64", "float32"] = "float64",
    ) -> None:
        """Write everything to one file (``.npz``), which `vicheck.load` reads back.

        The same content gives the same bits; an old file stays until the new one is complete. A
        hundred thousand draws of twenty quantities take 18 MB, in float32 10 MB, and without the
        draws 2 MB.

        Parameters
        ----------
        path
            The file: ``.npz``, or any name that does not end like a file of another program.
        draws
            False leaves the draws out. Verdict, moments, quantiles, summary and the report stay;
            what needs the draws then says that they are missing.
        dtype
            Of the draws; the log densities always have float64.
        """
        save_fields(path, cast("Check", self), draws=draws, dtype=dtype)
