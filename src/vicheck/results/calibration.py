"""`Calibration`: what fits to many simulated datasets have shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from vicheck.results.calibration_archive import load_fields, save_fields
from vicheck.results.calibration_data import require_variables
from vicheck.results.provenance import Provenance
from vicheck.results.run_settings import RunSettings
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average, KhatSummary
from vicheck.results.verdict import Finding, Verdict

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from vicheck.results.check import Check

__all__ = ["Calibration"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """What fits to simulated datasets have shown; ``print`` gives a summary.

    A calibration probability is Pr_q(quantity < true value): small when q sits too high. The tests
    use every dataset whose fit gave an approximation, converged or not; fits that gave none are
    left out. How many have not converged is judged separately: above 5% there is no verdict. For
    a fit by the user's own function this may be unknown; it then counts as neither converged nor
    failed.
    """

    data: xr.Dataset
    """All of it, with dimensions ``dataset`` and ``quantity``. Its attributes are a readable copy
    of ``settings``."""
    settings: RunSettings
    """What was calibrated, and how."""
    seconds: float = np.nan
    """Wall time of the run. Neither this nor the command is saved: the same result gives the same
    bits."""
    command: str = ""
    """The command line that made this calibration."""

    def __post_init__(self) -> None:
        require_variables(self.data)
        data = self.data.copy(deep=False)
        data.attrs = {**self.settings.attributes}
        object.__setattr__(self, "data", data)

    @property
    def probabilities(self) -> xr.DataArray:
        """Pr_q(quantity < true value) by dataset and quantity; NaN where a fit gave nothing."""
        return self.data["probability"]

    @property
    def status(self) -> xr.DataArray:
        """How each fit ended: names of `vicheck.FitStatus`."""
        return self.data["status"]

    @property
    def converged(self) -> xr.DataArray:
        """Whether each fit is known to have converged."""
        return self.status == FitStatus.CONVERGED.name

    @property
    def khat(self) -> xr.DataArray:
        """Estimated Pareto shape of each fit's log ratios; NaN where undefined or unknown."""
        return self.data["khat"]

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the quantities."""
        return tuple(map(str, self.data["quantity"].to_numpy()))

    @cached_property
    def used(self) -> NDArray[np.bool_]:
        """Which datasets the tests use: those whose fit gave an approximation."""
        from vicheck.judging import NO_APPROXIMATION

        known = np.isfinite(self.probabilities.to_numpy()).any(axis=1)
        none = [status.name for status in NO_APPROXIMATION]
        return np.asarray(known & ~np.isin(self.status.to_numpy(), none))

    @cached_property
    def tests(self) -> pd.DataFrame:
        """Tests of each quantity, one row each, in the order of the model.

        ``statistic`` and ``p_value`` are those of Butler's exact two-sided test that the
        probabilities are symmetric about 1/2, ``p_adjusted`` and ``q_value`` its adjustments for
        many quantities by Holm and by Benjamini and Hochberg, ``p_value_over`` and
        ``p_value_under`` its one-sided forms. ``direction`` is "none" unless ``p_adjusted`` is
        below 5%; then it is "over" (q over-estimates: probabilities are small) or "under",
        whichever one-sided p-value is smaller. ``median`` is that of the probabilities, and
        ``bias`` the same in sds of q, positive when q sits too high, with its 95% interval;
        ``mean_bias`` is that of q's mean, if q is normal, with its interval. ``dispersion`` is what
        q's sd would have to be multiplied by, above 1 when q is too narrow. ``coverage_50``,
        ``coverage_90`` and ``coverage_99`` say how often q's central intervals of 50%, 90% and 99%
        hold the truth, and
        ``covers`` whether central intervals of all sizes do so as often as they claim (a test at
        5%, adjusted for many quantities), or as often as if q's sd were off by a factor of 1.05.
        ``ks_p_value`` is the paper's test, which rejects about twice as often as it claims.
        Computed when first asked for.
        """
        from vicheck.calibration.tables import tests_table

        return tests_table(self._used_probabilities, self.quantities)

    @property
    def worst_first(self) -> pd.DataFrame:
        """``tests`` with the worst quantities on top.

        First the quantity that decides the verdict, then those that are not symmetric, those that
        do not cover, and the rest; among these, by adjusted p-value and size of the bias.
        """
        from vicheck.calibration.tables import worst_first

        return worst_first(self.tests, self.deciding_quantity)

    @property
    def deciding_quantity(self) -> str:
        """The quantity that the verdict names first; empty when it names none."""
        verdict = self.verdict
        (decider,) = (each for each in verdict.findings if each.code == verdict.decided_by)
        return str(decider.evidence.get("quantity", ""))

    @property
    def provenance(self) -> Provenance:
        """What the numbers rest on: settings, seeds, data, versions."""
        return self.settings.provenance

    @property
    def statuses(self) -> Mapping[FitStatus, int]:
        """How many fits ended in which way."""
        return Counter(FitStatus[name] for name in self.status.to_numpy().tolist())

    @cached_property
    def verdict(self) -> Verdict:
        """The findings and their summary; ``str`` gives the sentence."""
        from vicheck.judging import judge_calibration
        from vicheck.stats.symmetry import paper_ks_size

        num_used = int(self.used.sum())
        return judge_calibration(
            self.tests,
            self.statuses,
            num_used,
            khat=self.khat_summary,
            symmetric_kl=self.symmetric_kl,
            ks_size=paper_ks_size(num_used) if num_used else np.nan,
            posterior=self.settings.kind == "posterior",
            solver=self.settings.solver or self.settings.fit or "",
            family=self.settings.family or "",
            richer=self.settings.richer or "",
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each finding with its severity, evidence and hint."""
        return self.verdict.findings

    @cached_property
    def symmetric_kl(self) -> Average:
        """KL(p, q) + KL(q, p), averaged over the datasets (Domke 2021), in nats."""
        from vicheck.calibration.summaries import average

        return average(self.data["symmetric_kl"].to_numpy()[self.used])

    @cached_property
    def khat_summary(self) -> KhatSummary:
        """Quantiles of khat over the datasets, and how many are above the threshold."""
        from vicheck.calibration.summaries import summarise_khat

        return summarise_khat(self.khat.to_numpy()[self.used], self.settings.num_draws)

    @cached_property
    def failures(self) -> pd.DataFrame:
        """Every fit known not to have converged: with dataset, seed, status and message."""
        fine = [FitStatus.CONVERGED.name, FitStatus.UNKNOWN.name]
        rows = ~np.isin(self.status.to_numpy(), fine)
        part = self.data[["seed", "status", "message"]].isel(dataset=rows)
        return part.reset_coords(drop=True).to_dataframe().reset_index()

    def uniformity(self, level: float = 0.05) -> pd.DataFrame:
        """Test the stricter claim that the probabilities are uniform: q is right in all respects.

        Almost no approximation passes (the paper, section 3.1); exact inference does.

        Parameters
        ----------
        level
            Of the test of each quantity by the simultaneous band of its distribution function.

        Returns
        -------
        DataFrame
            One row for each quantity: whether it is ``inside`` the band, ``p_value`` and
            ``p_adjusted`` (Holm), and the ``point`` and ``excursion`` where it strays farthest. A
            quantity without probabilities is not inside, and its p-value is NaN.
        """
        from vicheck.calibration.tables import uniformity_table

        return uniformity_table(self._used_probabilities, self.quantities, level)

    def merge(self, *others: Calibration) -> Self:
        """Join runs of the same model and settings on different datasets.

        Datasets keep their numbers when these differ, and are renumbered when they do not;
        their seeds stay.

        Raises
        ------
        ValueError
            When models, settings or quantities differ, or a dataset is in more than one run.
        """
        from vicheck.calibration.merging import merge_runs

        runs: list[Calibration] = [self, *others]
        return type(self)(*merge_runs([(run.data, run.settings) for run in runs]))

    def save(self, path: str | Path) -> None:
        """Write everything to one file (``.npz``), which `Calibration.load` reads back.

        The same content gives the same bits; an old file stays until the new one is complete.
        """
        save_fields(path, self.data, self.settings)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` has written.

        Raises
        ------
        InputFileError
            If the file is damaged or holds anything else.
        """
        return load_fields(path, cls)

    def to_arviz(self) -> xr.DataTree:
        """Return the probabilities as ArviZ data, for ``arviz_plots.plot_ecdf_pit``.

        The group ``prior_sbc`` holds those of the datasets that the tests use, ``sample_stats``
        their khat, symmetric KL terms and seeds.
        """
        from vicheck.adapters.arviz import calibration_datatree

        used = self.data.isel(dataset=self.used)
        names = ("khat", "symmetric_kl", "seed")
        return calibration_datatree(
            self._used_probabilities,
            self.quantities,
            self.settings.indexing,
            used["dataset"].to_numpy(),
            {name: used[name].to_numpy() for name in names},
            {"verdict": str(self.verdict), "kind": self.settings.kind},
        )

    def report(self, path: str | Path, *, check: Check | None = None, title: str = "") -> Path:
        """Write all of it as one page of HTML that needs nothing else, and return its path.

        Parameters
        ----------
        path
            The file; one that is there is replaced when the new one is complete.
        check
            What `vicheck.check` has found for the observed data, to be shown on the same page.
        title
            The heading of the page; by default that of the result.
        """
        from vicheck.report.page import write_report

        return write_report(path, check=check, calibration=self, title=title)

    def with_command(self, command: str) -> Self:
        """Return the same calibration with the command line that made it, for its report."""
        return replace(self, command=command)

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, findings and tests as plain values, without the probabilities."""
        counts = {status.name: count for status, count in self.statuses.items()}
        return {
            "num_datasets": self.data.sizes["dataset"],
            "num_used": int(self.used.sum()),
            "statuses": dict(sorted(counts.items())),
            "settings": {"title": self.title} | self.settings.to_dict(),
            "verdict": self.verdict.to_dict(),
            "symmetric_kl": self.symmetric_kl.to_dict(),
            "khat": self.khat_summary.to_dict(),
            "tests": self.tests.to_dict(orient="index"),
            "failures": self.failures.to_dict(orient="records"),
        }

    @property
    def title(self) -> str:
        """What was calibrated."""
        return self.settings.title

    def _repr_html_(self) -> str:
        from vicheck.report.notebook import calibration_html

        return calibration_html(self)

    def __str__(self) -> str:
        from vicheck.report.text import summary_of

        return str(summary_of(self))

    def __repr__(self) -> str:
        return (
            f"Calibration({self.verdict.level}, num_datasets={self.data.sizes['dataset']}, "
            f"quantities={len(self.quantities)})"
        )

    @property
    def _used_probabilities(self) -> Floats:
        return np.asarray(self.probabilities.to_numpy()[self.used], np.float64)
