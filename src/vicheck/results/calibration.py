"""`Calibration`: everything that fits to many simulated datasets have shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from vicheck.calibration.origin import provenance_of
from vicheck.calibration.tables import table_of, tests_table, worst_first
from vicheck.errors import InputFileError
from vicheck.judging import NO_APPROXIMATION, judge_calibration
from vicheck.results.calibration_archive import load_dataset, save_dataset
from vicheck.results.provenance import Provenance
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average, KhatSummary
from vicheck.results.verdict import Finding, Verdict
from vicheck.stats.calibration import mean_with_interval
from vicheck.stats.multiplicity import holm
from vicheck.stats.reliability import khat_threshold
from vicheck.stats.symmetry import paper_ks_size
from vicheck.stats.uniformity import uniformity_test

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from vicheck.results.check import Check

__all__ = ["Calibration"]

Floats = NDArray[np.float64]

_DIMS = {
    "probability": ("dataset", "quantity"),
    **dict.fromkeys(("status", "khat", "symmetric_kl", "seed", "message"), ("dataset",)),
}
"""Variables that must be there, and their dimensions."""

_OF_ONE_RUN = ("seed", "title", "version", "versions", "num_datasets", "made_on")
"""Attributes in which runs that are merged may differ."""


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """What fits to simulated datasets have shown; ``print`` gives a summary.

    A calibration probability is Pr_q(quantity < true value): small when q sits too high. The tests
    use every dataset whose fit gave an approximation, converged or not; fits that gave none are
    left out. How many have not converged is judged apart: above 5% there is no verdict.
    """

    data: xr.Dataset
    """All of it, with dimensions ``dataset`` and ``quantity``."""
    seconds: float = np.nan
    """Wall time of the run. Neither this nor the command is saved: the same result gives the same
    bits."""
    command: str = ""
    """The command line that made it."""

    def __post_init__(self) -> None:
        for name, dims in _DIMS.items():
            found = self.data[name].dims if name in self.data else None
            if found != dims:
                raise ValueError(
                    f"data must have a variable {name!r} with dimensions {dims}, got {found}"
                )
        names = self.data["quantity"].to_numpy().tolist()
        if len(set(names)) != len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise ValueError(f"data must have quantities of different names, got {twice!r} twice")
        known = FitStatus.__members__
        unknown = sorted({*self.data["status"].to_numpy().tolist()} - {*known})
        if unknown:
            raise ValueError(
                f"data has the status {', '.join(map(str, unknown))}, but there are: "
                f"{', '.join(known)}"
            )

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
        """Whether each fit has converged."""
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
        ``bias`` the same in sds of q, positive when q sits too high, with its 95% interval.
        ``dispersion`` is what q's sd would have to be multiplied by, above 1 when q is too narrow.
        ``ks_p_value`` is the paper's test, which rejects about twice as often as it claims.
        Computed when first asked for.
        """
        return tests_table(self._used_probabilities, self.quantities)

    @property
    def worst_first(self) -> pd.DataFrame:
        """``tests`` with what is worst on top: the smallest adjusted p-value, the largest bias."""
        return worst_first(self.tests)

    @cached_property
    def provenance(self) -> Provenance:
        """What the numbers rest on: settings, seeds, data, versions."""
        return provenance_of(self.data.attrs)

    @cached_property
    def verdict(self) -> Verdict:
        """The findings and their summary; ``str`` gives the sentence."""
        num_used = int(self.used.sum())
        return judge_calibration(
            self.tests,
            Counter(FitStatus[name] for name in self.status.to_numpy().tolist()),
            num_used,
            khat=self.khat_summary,
            symmetric_kl=self.symmetric_kl,
            ks_size=paper_ks_size(num_used) if num_used else np.nan,
            posterior=self.data.attrs.get("kind") == "posterior",
            solver=str(self.data.attrs.get("solver", "")),
            family=str(self.data.attrs.get("family", "")),
            richer=str(self.data.attrs.get("richer", "full_rank")),
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each finding with its severity, evidence and hint."""
        return self.verdict.findings

    @cached_property
    def symmetric_kl(self) -> Average:
        """KL(p, q) + KL(q, p), averaged over the datasets (Domke 2021), in nats."""
        terms = self.data["symmetric_kl"].to_numpy()[self.used]
        terms = terms[~np.isnan(terms)]
        if not terms.size:
            return Average(np.nan, np.nan, np.nan, 0)
        sizes = np.abs(terms)
        with np.errstate(invalid="ignore"):  # infinite terms have no share, and zeros neither
            share = float(sizes.max() / sizes.sum())
        return Average(*mean_with_interval(terms), num_used=terms.size, largest_share=share)

    @cached_property
    def khat_summary(self) -> KhatSummary:
        """Quantiles of khat over the datasets, and how many are above the threshold."""
        khat = self.khat.to_numpy()[self.used]
        known = khat[~np.isnan(khat)]
        threshold = khat_threshold(max(1, int(self.data.attrs.get("num_draws", 1))))
        median, low, high = np.quantile(known, [0.5, 0.05, 0.95]) if known.size else [np.nan] * 3
        return KhatSummary(
            median=float(median),
            low=float(low),
            high=float(high),
            threshold=threshold,
            share_above=float(np.mean(known >= threshold)) if known.size else np.nan,
            num_used=known.size,
            num_undefined=khat.size - known.size,
        )

    @cached_property
    def failures(self) -> pd.DataFrame:
        """Every fit that has not converged: dataset, seed for replaying it, status, message."""
        part = self.data[["seed", "status", "message"]].isel(dataset=~self.converged.to_numpy())
        return part.reset_coords(drop=True).to_dataframe().reset_index()

    def uniformity(self, level: float = 0.05) -> pd.DataFrame:
        """Test the stricter claim that the probabilities are uniform: q is right in every respect.

        Almost no approximation passes (the paper, section 3.1); exact inference does.

        Parameters
        ----------
        level
            Of the test of each quantity by the simultaneous band of its distribution function.

        Returns
        -------
        DataFrame
            One row for each quantity: whether it is ``inside`` the band, ``p_value`` and
            ``p_adjusted`` (Holm), and the ``point`` and ``excursion`` where it strays most. A
            quantity without probabilities is not inside, and its p-value is NaN.
        """
        columns = ("inside", "p_value", "statistic", "point", "excursion")
        table = table_of(
            self._used_probabilities,
            self.quantities,
            columns,
            lambda p: uniformity_test(p, level),
        )
        table.insert(2, "p_adjusted", holm(table["p_value"].to_numpy()))
        return table.assign(inside=table["inside"] == 1.0)

    def merge(self, *others: Calibration) -> Self:
        """Join runs of the same model and settings on different datasets.

        Datasets keep their numbers when these differ, and are numbered anew when they do not;
        their seeds stay.

        Raises
        ------
        ValueError
            When models, settings or quantities differ, or a dataset is in more than one run.
        """
        import xarray as xr

        for other in others:
            self._require_same_kind(other)
        parts = [self.data, *(other.data for other in others)]
        seeds = np.concatenate([part["seed"].to_numpy() for part in parts])
        repeated = [seed for seed, count in Counter(seeds.tolist()).items() if count > 1]
        if repeated:
            raise ValueError(
                f"the runs share {len(repeated)} datasets, the first with seed {repeated[0]}: "
                "merge runs with different seeds"
            )
        merged = xr.concat(
            parts,
            "dataset",
            data_vars="minimal",
            coords="minimal",
            compat="equals",
            join="exact",
            combine_attrs="override",
        )
        numbers = merged["dataset"].to_numpy()
        if len(set(numbers.tolist())) == len(numbers):
            merged = merged.sortby("dataset")
        else:
            merged = merged.assign_coords(dataset=np.arange(len(numbers)))
        runs = dict.fromkeys(str(part.attrs["seed"]) for part in parts if "seed" in part.attrs)
        before, now = (f"{size} simulated" for size in (self.data.sizes["dataset"], len(numbers)))
        machines = (json.loads(part.attrs.get("made_on") or "[]") for part in parts)
        return type(self)(
            merged.assign_attrs(
                made_on=json.dumps(sorted(set().union(*machines))),
                seed=", ".join(runs),
                num_datasets=len(numbers),
                title=str(merged.attrs.get("title", "")).replace(before, now),
            )
        )

    def save(self, path: str | Path) -> None:
        """Write everything to one file (``.npz``), which `Calibration.load` reads back.

        The same content gives the same bits; an old file stays until the new one is complete.
        """
        save_dataset(path, self.data)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` has written.

        Raises
        ------
        InputFileError
            If the file is damaged or holds anything else.
        """
        data = load_dataset(path)
        try:
            return cls(data)
        except ValueError as error:
            raise InputFileError(f"{path} is no calibration", hint=str(error)) from error

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
            used["dataset"].to_numpy(),
            {name: used[name].to_numpy() for name in names},
            {"verdict": str(self.verdict), "kind": str(self.data.attrs.get("kind", "prior"))},
        )

    def report(self, path: str | Path, *, check: Check | None = None) -> Path:
        """Write all of it as one page of HTML that needs nothing else, and return its path.

        Parameters
        ----------
        path
            The file; one that is there is replaced when the new one is complete.
        check
            What `vicheck.check` has found for the observed data, to be shown on the same page.
        """
        from vicheck.report.page import write_report

        return write_report(path, check=check, calibration=self)

    def with_command(self, command: str) -> Self:
        """Return the same calibration with the command line that made it, for its report."""
        return replace(self, command=command)

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, findings and tests as plain values, without the probabilities."""
        counts = Counter(self.status.to_numpy().tolist())
        return {
            "num_datasets": self.data.sizes["dataset"],
            "num_used": int(self.used.sum()),
            "statuses": dict(sorted(counts.items())),
            "settings": {str(name): value for name, value in self.data.attrs.items()},
            "verdict": self.verdict.to_dict(),
            "symmetric_kl": self.symmetric_kl.to_dict(),
            "khat": self.khat_summary.to_dict(),
            "tests": self.tests.to_dict(orient="index"),
            "failures": self.failures.to_dict(orient="records"),
        }

    @property
    def title(self) -> str:
        """What was calibrated."""
        attrs: Mapping[Any, Any] = self.data.attrs
        return str(attrs.get("title") or f"{attrs.get('family', '')} fits to simulated data")

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

    def _require_same_kind(self, other: Calibration) -> None:
        if self.quantities != other.quantities:
            raise ValueError(
                f"the runs must have the same quantities, got {', '.join(self.quantities[:5])} ... "
                f"and {', '.join(other.quantities[:5])} ..."
            )
        mine, theirs = self.data.attrs, other.data.attrs
        for name in dict.fromkeys([*mine, *theirs]):
            if name not in _OF_ONE_RUN and mine.get(name) != theirs.get(name):
                raise ValueError(
                    f"the runs must have the same {name}, got {mine.get(name)!r} and "
                    f"{theirs.get(name)!r}"
                )
