"""`Check`: what was found out about an approximation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from vicheck.indexing import Indexing
from vicheck.results.chains import ShortChains
from vicheck.results.check_archive import RECORDS, load_fields
from vicheck.results.check_outputs import CheckOutputs
from vicheck.results.conclusions import Conclusions, table_of
from vicheck.results.convergence import Convergence, PooledModes
from vicheck.results.estimates import Divergences, Measure, Predictive
from vicheck.results.explanation import Explanation
from vicheck.results.modes import ModeSearch
from vicheck.results.provenance import Provenance
from vicheck.results.psis import PsisResult
from vicheck.results.screening import Screening
from vicheck.results.verdict import Finding, Verdict

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.draws import Approximation
    from vicheck.model import Model
    from vicheck.vi.families.family import Family

__all__ = ["Check"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Check(CheckOutputs):
    """What a check of an approximation has found; ``print`` gives a summary."""

    log_p: Floats
    """Log joint density of each draw, on the unconstrained scale."""
    log_q: Floats
    """Log density of the approximation at each draw."""
    values: Floats
    """Quantities at each draw that was kept, shape ``(S, Q)``."""
    shapes: dict[str, tuple[int, ...]]
    """Names and shapes of the quantities, in the order of the columns of ``values``."""
    names: tuple[str, ...]
    """Name of each column."""
    psis: PsisResult
    khat_growth: dict[int, float]
    """khat of the first draws, by their number; it can rise as more of the tail is seen."""
    convergence: Convergence | None = None
    """For a fit of vicheck's own: whether the solver has found its optimum."""
    pooled: PooledModes | None = None
    """The mixture of all optima, if other modes were found."""
    modes: ModeSearch | None = None
    """How other modes were searched for; None where the model is not known."""
    chains: ShortChains | None = None
    """Where short chains led from the draws, if they were run: a lower bound on the error of each
    quantity, with a sign."""
    predictive: Predictive | None = None
    """Log density of the test data, if any were given."""
    title: str = ""
    notes: tuple[str, ...] = ()
    """Sentences to bear in mind when reading the numbers."""
    unnormalized: str = ""
    """Why ``log_q`` lacks its constant, if it does: ELBO and evidence are then unknown."""
    extra: dict[str, dict[str, float]] = field(default_factory=dict)
    """Further columns of ``moments``, by quantity: sds by linear response, and errors against
    reference draws."""
    elbo_trace: Floats = field(default_factory=lambda: np.empty(0))
    """ELBO in the course of the fit, in nats, if it is known."""
    provenance: Provenance | None = None
    """What the numbers rest on: settings, seeds, data, versions."""
    seconds: float = np.nan
    """Wall time of fit and check. Neither this nor the command is saved, so that the same result
    gives the same bits."""
    command: str = ""
    """The command line that made this check."""
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the dimensions of quantities, if the model has them, as those of PyMC do."""
    coords: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Labels along these dimensions."""
    indexing: Indexing = Indexing.PYTHON
    """How elements of arrays are named: as in the language of the model."""
    prob: tuple[float, ...] = (0.05, 0.5, 0.95)
    """Probabilities of the quantiles that are printed and reported; see `with_prob`."""
    conclusions: Conclusions | None = None
    """For a check saved without its draws, or with fewer digits: what followed from all of them."""
    model: Model | None = None
    """The model with its data, if it is known. Neither this nor ``q`` is saved."""
    q: Family | Approximation | None = None
    """What the draws come from, if more can be drawn: for a fit by `vicheck.fit`, a member of its
    family."""

    @property
    def khat(self) -> float:
        """Estimated Pareto shape of the ratios' right tail."""
        return float(self.psis.khat)

    @property
    def log_ratios(self) -> Floats:
        """``log_p - log_q``."""
        with np.errstate(invalid="ignore"):
            return self.log_p - self.log_q

    @cached_property
    def verdict(self) -> Verdict:
        """The findings and their summary; ``str`` gives the sentence."""
        from vicheck.judging import evidence_of_estimates

        if self.conclusions is not None:
            return self.conclusions.verdict
        judged = self._judged_by_ratios
        if judged.level not in ("good", "usable") or not len(self.values):
            return judged
        table = self._estimates
        khats = table["khat"].to_numpy(), table["khat_sd"].to_numpy()
        refused = evidence_of_estimates(
            self.names, table["use_mean"], table["use_sd"], khats, self.psis.threshold
        )
        return self._judged(refused) if refused else judged

    @cached_property
    def _judged_by_ratios(self) -> Verdict:
        """The verdict before single quantities are looked at."""
        return self._judged(())

    def _judged(self, estimates: Sequence[Any]) -> Verdict:
        from vicheck.judging import judge_check

        known = len(self.values) and self.psis.khat < self.psis.threshold
        return judge_check(
            self.psis,
            self.khat_growth,
            self.convergence,
            self.pooled,
            self.modes,
            corrections=dict(zip(self.names, self._corrections, strict=True)) if known else {},
            screening=self.screening,
            chains=self.chains,
            estimates=estimates,
        )

    @cached_property
    def _corrections(self) -> list[Any]:
        """By how much the weights correct each quantity."""
        from vicheck.stats.differences import differences

        return list(differences(self.values, self.kept_log_weights)) if len(self.values) else []

    @cached_property
    def screening(self) -> Screening:
        """Whether the draws are independent and distinct, and the densities exact."""
        from vicheck.stats.screening import screen_draws

        return screen_draws(self.log_p, self.log_q, self.values, may_be_swapped=self.q is None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each finding with its severity, evidence and hint."""
        return self.verdict.findings

    @cached_property
    def divergences(self) -> Divergences:
        """ELBO, log evidence, KL both ways, chi-square and Renyi; errors allow for other modes."""
        from vicheck.checking.modes import divergences_with_modes

        estimated = divergences_with_modes(self.log_ratios, self.psis, self.pooled, self.modes)
        if not self.unnormalized:
            return estimated
        unknown = Measure(np.nan, np.nan, self.unnormalized)
        return replace(estimated, elbo=unknown, log_evidence=unknown)

    @property
    def log_evidence(self) -> Measure:
        """Log of the marginal likelihood of the data."""
        return self.divergences.log_evidence

    @cached_property
    def moments(self) -> pd.DataFrame:
        """Mean and sd of every quantity by VI, IS and PSIS, its khat, and which to use.

        One row for each quantity. ``mcse`` is the error of ``psis_mean``, with an allowance for
        what no draw has seen and for other modes, and infinite if that is not known or ``khat`` is
        1 or more; ``shift`` is PSIS minus VI
        in sds of the posterior, ``khat`` governs the error of this quantity's weighted mean and
        ``khat_sd`` that of its weighted sd. ``use_mean`` and ``use_sd`` say which estimate may be
        used: "vi", "psis" or "neither"; ``use`` is the weaker of the two. Where
        short chains were run, ``chains_mean`` and ``chains_sd`` are those of their ends, and
        ``drift`` is how far the mean has moved from where they began, in posterior sds, with its
        standard error ``drift_error``: from the weighted mean if ``chains.starts`` is "weighted",
        or else from that of q. For a mean-field fit of vicheck's own with up to 32 parameters,
        where that takes little of the check's time, ``lr_sd`` is the sd by linear response
        (`Fit.linear_response`), NaN where the fit is not at an optimum. Computed when first asked
        for.
        """
        if self.conclusions is not None:
            return table_of(self.conclusions.moments, self.names)
        if not len(self.values):
            from vicheck.checking.moments import unknown_moments

            return unknown_moments(self.names)
        table = self._estimates.copy()
        for name, column in self.extra.items():
            table[name] = [column.get(row, np.nan) for row in table.index]
            if name == "ref_sd":  # the errors of the means, in sds of the reference
                for way in ("vi", "psis"):
                    difference = table[f"{way}_mean"] - table["ref_mean"]
                    table[f"{way}_error"] = difference / table["ref_sd"]
        return table

    @cached_property
    def _estimates(self) -> pd.DataFrame:
        """The table of moments without what a reference adds to it."""
        from vicheck.checking.moments import error_by_modes, moments_table, with_use
        from vicheck.judging import has_converged, spoilt_by_modes

        log_ratios = self.log_ratios[: len(self.values)]
        table = moments_table(self.values, log_ratios, self._psis_of_kept, self.names)
        spoilt = spoilt_by_modes(self.names, self.pooled, self.modes, self.psis.threshold)
        if np.isnan(self.kept_log_weights).any():  # the density is not a number somewhere
            spoilt[:] = True
        by_modes = error_by_modes(
            self.names, table["psis_sd"].to_numpy(), self.pooled, spoilt, self.psis.threshold
        )
        table["mcse"] = np.hypot(table["mcse"], by_modes)
        weights_work = self._judged_by_ratios.weights_work.value == "yes"
        errors = np.full((2, len(self.names)), np.nan)
        if self.chains is not None:  # who else would contradict the weights?
            errors[0] = [each.shift_error for each in self._corrections]
            errors[1] = [each.growth_error for each in self._corrections]
        known = spoilt, self.chains, errors, has_converged(self.convergence)
        return with_use(table, self.psis, weights_work, *known)

    @property
    def worst_first(self) -> pd.DataFrame:
        """``moments`` with the worst rows on top: no estimate to use, then the largest shift."""
        from vicheck.checking.moments import worst_first

        return worst_first(self.moments)

    @property
    def draws(self) -> dict[str, Floats]:
        """Named draws from q, shape ``(S, ...)``."""
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        parts = np.split(self.values, np.cumsum(sizes)[:-1], axis=1)
        return {
            name: part.reshape(len(part), *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    @property
    def kept_log_weights(self) -> Floats:
        """Smoothed log weights of the draws in ``values``, normalised; NaN when undefined."""
        return self._psis_of_kept.log_weights if len(self.values) else np.empty(0)

    @cached_property
    def _psis_of_kept(self) -> PsisResult:
        """PSIS of the draws that were kept: all of them, unless memory forbade it."""
        if len(self.values) == self.psis.num_draws:
            return self.psis
        from vicheck.stats.tail_lengths import judged_psis

        return judged_psis(self.log_ratios[: len(self.values)])

    def explain(self) -> Explanation:
        """Say why q is not the posterior, in the model's own names; computed when first asked for.

        Causes are a fit that has not converged, another mode, correlations, a funnel, heavy tails,
        skewness and a wrong scale, with the share of the variance of the log ratios that each
        accounts for. If model and q are known, a few thousand draws are made with gradients,
        always the same ones; otherwise draws and log ratios have to do, and the notes say so.
        """
        if self.conclusions is not None:
            from vicheck.checking.handing_over import require_draws

            require_draws(self)
        return self._explanation

    @cached_property
    def _explanation(self) -> Explanation:
        from vicheck.checking.explaining import explain_check

        return explain_check(self)

    def with_command(self, command: str) -> Self:
        """Return the same check with the command line that made it, for its report."""
        return replace(self, command=command)

    def with_prob(self, prob: float | Sequence[float]) -> Self:
        """Return the same check with other quantiles in what is printed, reported and saved.

        Examples
        --------
        >>> import numpy as np
        >>> z = np.random.default_rng(1).normal(size=(1000, 2))
        >>> checked = vicheck.check_draws(z, log_p=-(z**2).sum(1), log_q=-(z**2).sum(1) / 2)
        >>> checked.with_prob([0.025, 0.975]).quantiles().columns[::4].tolist()
        ['vi_q2.5', 'vi_q97.5']
        """
        from vicheck.checking.quantiles import probabilities

        chosen = replace(self, prob=tuple(probabilities(prob).tolist()))
        if self.conclusions is not None:  # which may not hold them
            chosen.quantiles(quantities=self.names[:1])
        return chosen

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` has written; the weights are computed again from the densities.

        Raises
        ------
        InputFileError
            If the file is damaged or holds anything else.
        """
        return cls.of_fields(load_fields(path))

    @classmethod
    def of_fields(cls, loaded: dict[str, Any]) -> Self:
        """Return the check that a file holds these fields of."""
        from vicheck.stats.tail_lengths import judged_psis

        with np.errstate(invalid="ignore"):
            smoothed = judged_psis(loaded["log_p"] - loaded["log_q"])
        return cls(psis=smoothed, **loaded)

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, findings and the table of moments as plain values, without the draws."""
        low, high = self.psis.khat_interval()
        return {
            "khat": self.khat,
            "khat_interval": [float(low), float(high)],
            "threshold": self.psis.threshold,
            "status": self.psis.status.name,
            "num_draws": self.psis.num_draws,
            "ess": self.psis.ess,
            "khat_growth": {str(size): khat for size, khat in self.khat_growth.items()},
            "verdict": self.verdict.to_dict(),
            "divergences": self.divergences.to_dict(),
            "moments": self.moments.to_dict(orient="index"),
            "quantiles": self.quantiles().to_dict(orient="index"),
        } | {
            name: None if record is None else record.to_dict()
            for name, record in ((name, getattr(self, name)) for name in RECORDS)
        }

    def _repr_html_(self) -> str:
        from vicheck.report.notebook import check_html

        return check_html(self)

    def __str__(self) -> str:
        from vicheck.report.text import summary_of

        return str(summary_of(self))

    def __repr__(self) -> str:
        return (
            f"Check(khat={self.khat:.3f}, {self.verdict.level}, num_draws={self.psis.num_draws}, "
            f"quantities={len(self.names)})"
        )
