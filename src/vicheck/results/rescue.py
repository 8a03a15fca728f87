"""`Rescue`: what was tried to mend an approximation, and the best that came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from vicheck.errors import ArgumentError
from vicheck.results.record import Record
from vicheck.results.reported import reported

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.model import Model
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check
    from vicheck.results.fit import Fit
    from vicheck.results.reference import Reference

__all__ = ["Attempt", "Rescue"]


@dataclass(frozen=True, repr=False)
class Attempt(Record):
    """One remedy that was tried: a row of the trail."""

    remedy: str
    """Its name; "none" for what the rescue began with."""
    khat_before: float
    """Of the best until then, on as many draws as that was looked at."""
    khat_after: float = np.nan
    """khat on fresh draws. If a few of them say that more are not worth it, there is no ``level``.
    NaN if there is nothing to judge."""
    level: str = ""
    effective: float = np.nan
    """Effective draws for each draw."""
    drift: float = np.nan
    """Largest drift of a mean along short chains, in sds."""
    draws: int = 0
    """How many draws ``khat_after`` is that of."""
    evaluations: int = 0
    """Evaluations of the density, with a gradient or without, including those for judging."""
    gradients: int = 0
    """How many of these had a gradient."""
    seconds: float = 0.0
    kept: bool = False
    why: str = ""
    """Why it was kept, rejected or not tried."""


@dataclass(frozen=True, eq=False, repr=False)
class Rescue:
    """The best approximation the remedies have led to, judged on fresh draws, and the trail."""

    check: Check
    """The check of the best approximation, a check like any other."""
    attempts: tuple[Attempt, ...]
    succeeded: bool
    """Whether the check says that the answer can be used, and short chains do not disagree."""
    sentence: str
    """The outcome in one sentence."""
    code: str
    """Lines that repeat it without the search."""
    remedies: tuple[str, ...] = ()
    """The remedies that have led to it, in order: what `vicheck.rescue` and
    `vicheck.rescue_fitter` take to repeat it."""
    fit: Fit | None = None
    """The fit, if the best approximation came from a solver; None if it was built from draws."""
    reference: Reference | None = None
    """Draws by NUTS, if nothing cheaper was enough."""
    doubtful: tuple[str, ...] = ()
    """Quantities whose sd is not to be had from these draws, though their chains have mixed."""
    before: Check | None = None
    """The check that the rescue began with, if it is known."""

    @property
    def by_sampling(self) -> bool:
        """Whether draws by NUTS are to be used, because no approximation can be."""
        return bool((self.moments["source"] == "nuts").all())

    @property
    def num_gradients(self) -> int:
        """Gradients that the whole rescue has taken: fit, remedies, short chains and NUTS."""
        return sum(attempt.gradients for attempt in self.attempts)

    @property
    def num_evaluations(self) -> int:
        """The same, including densities evaluated without a gradient."""
        return sum(attempt.evaluations for attempt in self.attempts)

    @property
    def trail(self) -> pd.DataFrame:
        """What was tried, in order: a row for each remedy."""
        import pandas as pd

        return pd.DataFrame([vars(attempt) for attempt in self.attempts])

    @cached_property
    def moments(self) -> pd.DataFrame:
        """Mean, sd and Monte Carlo error of every quantity, from the source that may be used.

        ``source`` is "nuts" where NUTS was run and has mixed; or else "psis" where the weights
        work, and what the check recommends where they do not: "vi", "psis" or "neither".
        """
        import pandas as pd

        table = self.check.moments
        if self.reference is not None and not self.reference.caution:
            moments = self.reference.moments.reindex(table.index)
            moments.loc[list(self.doubtful), ["sd", "mcse"]] = np.nan
            return moments[["mean", "sd", "mcse"]].assign(source="nuts")
        works = self.check.verdict.weights_work.value == "yes"
        mean, weighted = reported(table, "mean", works)
        columns = {
            "mean": mean,
            "sd": reported(table, "sd", works)[0],
            "mcse": table["mcse"].where(weighted),
            "source": table["use"].where((table["use"] == "neither") | (not works), "psis"),
        }
        return pd.DataFrame(columns, table.index)

    @property
    def changes(self) -> pd.DataFrame:
        """What was estimated before and what is now, by quantity; the largest change first.

        ``change`` is the new mean minus the old one, in new sds; ``before_*`` are plain estimates
        of the approximation that the rescue began with. Undefined where that is not known.
        """
        import pandas as pd

        after = self.moments
        known = None if self.before is None else self.before.moments
        old = pd.DataFrame(index=after.index, columns=["vi_mean", "vi_sd"], dtype=float)
        if known is not None:
            old = known[["vi_mean", "vi_sd"]].reindex(after.index)
        sd = after["sd"].where(after["sd"] > 0.0)
        table = pd.DataFrame(
            {
                "before_mean": old["vi_mean"],
                "before_sd": old["vi_sd"],
                "mean": after["mean"],
                "sd": after["sd"],
                "mcse": after["mcse"],
                "change": (after["mean"] - old["vi_mean"]) / sd,
                "source": after["source"],
            }
        )
        return table.sort_values("change", key=abs, ascending=False, kind="stable")

    def report(
        self, path: str | Path, *, calibration: Calibration | None = None, title: str = ""
    ) -> Path:
        """Write what was tried and the check of the best as one HTML page; return its path.

        The arguments are those of `Check.report`.
        """
        from vicheck.report.page import write_report

        return write_report(
            path, check=self.check, calibration=calibration, title=title, rescue=self
        )

    def save(
        self,
        path: str | Path,
        *,
        draws: bool = True,
        dtype: Literal["float64", "float32"] = "float64",
    ) -> None:
        """Write all of it to one file (``.npz``), which `vicheck.load` reads back.

        Both checks, the trail, draws by NUTS, and the fit without its model, as by `Fit.save`. The
        other arguments are those of `Check.save`, for both checks.
        """
        from vicheck.results.rescue_archive import save_rescue

        save_rescue(path, self, draws=draws, dtype=dtype)

    @classmethod
    def load(cls, path: str | Path, model: Model | None = None) -> Rescue:
        """Read what `save` has written: see `vicheck.load`."""
        from vicheck.results.rescue_archive import load_rescue

        loaded = load_rescue(path)
        return loaded if model is None else loaded.with_model(model)

    def with_model(self, model: Model) -> Self:
        """Return a rescue that was loaded, with the model that its fit belongs to.

        Raises
        ------
        ArgumentError
            When that is another model, or there is no fit: the best was built from draws.
        """
        from vicheck.vi.saving import with_model

        if self.fit is None:
            problem = "goes with a fit, and the best of this rescue was built from draws"
            raise ArgumentError("model", problem, hint="leave it out; its code repeats the rescue")
        fit = with_model(self.fit, model)
        return replace(self, fit=fit, check=replace(self.check, model=model, q=fit.q))

    def with_command(self, command: str) -> Self:
        """Return the same rescue with the command line that made it, for its report."""
        return replace(self, check=self.check.with_command(command))

    def with_prob(self, prob: float | Sequence[float]) -> Self:
        """Return the same rescue with other quantiles in its report: see `Check.with_prob`."""
        return replace(self, check=self.check.with_prob(prob))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, without the draws."""
        return {
            "succeeded": self.succeeded,
            "sentence": self.sentence,
            "code": self.code,
            "by_sampling": self.by_sampling,
            "trail": [dict(vars(attempt)) for attempt in self.attempts],
            "moments": self.moments.to_dict(orient="index"),
            "before": None if self.before is None else self.before.to_dict(),
            "check": self.check.to_dict(),
        }

    def __str__(self) -> str:
        from vicheck.report.rescue_text import rescue_text

        return rescue_text(self)

    def __repr__(self) -> str:
        done = "succeeded" if self.succeeded else "failed"
        return (
            f"Rescue({done}, khat={self.check.khat:.2f}, {len(self.attempts) - 1} remedies tried)"
        )
