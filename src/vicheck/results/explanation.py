"""`Explanation` and `Cause`: why ratios p / q have a heavy tail, in the model's own names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vicheck.plain_text import plain
from vicheck.results.record import Floats, Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Cause", "CauseCode", "Explanation"]

CauseCode = Literal[
    "not-converged", "mode", "correlation", "funnel", "heavy-tails", "skewness", "scale"
]


@dataclass(frozen=True, eq=False, repr=False)
class Cause(Record):
    """One reason why q is not the posterior."""

    code: CauseCode
    """Its name: compare this in programs, never the sentence."""
    share: float
    """Part of the variance of the log ratios that it accounts for, between 0 and 1; for a mode,
    the part of the posterior that lies there."""
    names: tuple[str, ...]
    """Coordinates involved, the most important first; for a funnel, the scales first."""
    sentence: str
    remedy: str
    """Name of the remedy in `vicheck.remedies`."""
    hint: str = ""
    """What to do, in words."""

    def __str__(self) -> str:
        return plain(f"{self.sentence} {self.hint}".strip())


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Record):
    """Why an approximation is not the posterior; ``print`` gives the causes, worst first.

    Draws of q are brought to units in which they are standard normal, and the log ratio is expanded
    in them. Numbers by coordinate and by pair are mean derivatives of the log ratio in these units.
    """

    causes: tuple[Cause, ...]
    """Worst first; a mode that q does not reach comes before all others. Empty where nothing
    accounts for a tenth of the variance, or where the log ratios hardly vary."""
    sd: float
    """Sd of the log ratios, in nats, with extremes compressed."""
    num_draws: int
    """Draws that were looked at."""
    coordinates: tuple[str, ...] = ()
    """Rows of ``table``."""
    columns: dict[str, Floats] = field(default_factory=dict)
    """Columns of ``table``."""
    pair_names: tuple[str, ...] = ()
    """First and second coordinate of each row of ``pairs``, one after the other."""
    pair_columns: dict[str, Floats] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Remarks: what can be said if there is no cause, and what could not be looked at."""

    @property
    def table(self) -> pd.DataFrame:
        """One row for each coordinate, the largest part of the log ratio first.

        ``score`` is the root mean square of the slope of the log ratio (NaN where no gradient is
        known); ``tail_shift`` and ``tail_spread`` compare the draws with the largest ratios with
        the others (difference of means in sds of q, ratio of sds); ``linear``, ``quadratic``,
        ``cubic`` and ``quartic`` are its mean derivatives.
        """
        import numpy as np
        import pandas as pd

        table = pd.DataFrame(self.columns, pd.Index(self.coordinates))
        if not len(table):
            return table
        orders = {"linear": 1.0, "quadratic": 2.0, "cubic": 6.0, "quartic": 24.0}
        size = sum(np.square(table[name]) / factor for name, factor in orders.items())
        return table.iloc[np.argsort(-size.to_numpy(), kind="stable")]

    @property
    def pairs(self) -> pd.DataFrame:
        """The pairs that the log ratio depends on most, worst first.

        ``share`` is what their terms account for; ``cross`` the mean mixed derivative: zero without
        a correlation that q lacks; ``scaling`` how the curvature in the second changes with the
        first: zero without a funnel; ``tail_correlation`` the correlation among the draws with the
        largest ratios minus that of the others.
        """
        import pandas as pd

        both = {"first": list(self.pair_names[::2]), "second": list(self.pair_names[1::2])}
        return pd.DataFrame(both | self.pair_columns)

    def __str__(self) -> str:
        lines = [
            f"{number}. {cause.code}, {cause.share:.0%}: {cause}"
            for number, cause in enumerate(self.causes, 1)
        ]
        return "\n".join(plain(line) for line in (*lines, *self.notes))

    def _repr_html_(self) -> str:
        from vicheck.report.notebook import explanation_html

        return explanation_html(self)
