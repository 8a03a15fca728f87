"""Findings on draws and densities that are not what they seem."""

from __future__ import annotations

from dataclasses import dataclass

from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import show

__all__ = [
    "ClippedRatios",
    "CoarseRatios",
    "DependentDraws",
    "RatiosTooCoarse",
    "SwappedDensities",
    "TiedDraws",
]


@dataclass(frozen=True)
class SwappedDensities(Evidence):
    """log_p and log_q are the wrong way round, by all that can be seen."""

    swapped_khat: float
    """khat of the ratios the other way round."""

    code = "swapped-densities"
    severity = "bad"
    hint = (
        "Exchange log_p and log_q: log_q is the density of the approximation that was drawn from."
    )

    @property
    def sentence(self) -> str:
        return (
            "No verdict: log_p and log_q seem to be swapped, because the draws have the density "
            f"log_p and not log_q (khat is {show(self.swapped_khat)} the other way round)."
        )


@dataclass(frozen=True)
class TiedDraws(Evidence):
    """Many draws are copies of others."""

    num_copies: int
    num_draws: int
    """Of all draws, or of those with the largest ratios."""
    in_tail: bool

    code = "tied-draws"
    severity = "bad"
    hint = "Check the draws of q as they were made, without resampling, each only once."

    @property
    def sentence(self) -> str:
        where = " with the largest ratios" if self.in_tail else ""
        return (
            f"No verdict: {self.num_copies} of the {self.num_draws} draws{where} are copies of "
            "others, so there are fewer than there seem to be."
        )


@dataclass(frozen=True)
class ClippedRatios(Evidence):
    """The largest ratios are all the same."""

    num_clipped: int
    num_draws: int

    code = "clipped-ratios"
    severity = "bad"
    hint = "Look for a limit on log_p, log_q or their difference, and remove it."

    @property
    def sentence(self) -> str:
        return (
            f"No verdict: the largest {self.num_clipped} of {self.num_draws} ratios are "
            "equal (up to rounding), as if they had been clipped, and khat describes what is left."
        )


@dataclass(frozen=True)
class DependentDraws(Evidence):
    """Draws in a row are alike."""

    likeness: float

    code = "dependent-draws"
    severity = "bad"
    hint = "Draw independently from q; if these are independent and only sorted, shuffle them."

    @property
    def sentence(self) -> str:
        return (
            "No verdict: the draws are not independent. The means of eight in a row vary "
            f"{show(self.likeness)} times as much as they should."
        )


@dataclass(frozen=True)
class _Resolution(Evidence):
    """Log densities are written down with too few digits."""

    resolution: float

    hint = "Compute both log densities in double precision and keep all digits."

    @property
    def _steps(self) -> str:
        return f"the log densities come in steps of {self.resolution:.2g}"


@dataclass(frozen=True)
class CoarseRatios(_Resolution):
    """The steps can be seen in the ratios."""

    code = "coarse-ratios"
    severity = "caution"

    @property
    def sentence(self) -> str:
        return f"The ratios are coarse: {self._steps}."


@dataclass(frozen=True)
class RatiosTooCoarse(_Resolution):
    """The steps are so large that the densities have lost what is looked for."""

    code = "ratios-too-coarse"
    severity = "bad"

    @property
    def sentence(self) -> str:
        return f"No verdict: {self._steps}, and khat reflects their rounding."
