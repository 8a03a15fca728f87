"""Findings on modes: whether others were searched for, found, and what they do to estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import show, stretch

__all__ = [
    "EndlessTail",
    "ModeBeyondReach",
    "ModeMissed",
    "ModesUncertain",
    "NoOtherMode",
    "OtherOptimum",
    "SearchUnfinished",
]

_REMEDY = {
    "order": (
        "Order the components: an ordered prior (in NumPyro, by the transform OrderedTransform) "
        "leaves only one of the copies; or report only what does not depend on the order."
    ),
    "sign": (
        "Fix the sign of one of them, by a positive prior for instance: that leaves only one of "
        "the copies."
    ),
}


def _remedy(symmetry: str) -> str:
    """Say how to reduce copies of a mode to one; nothing if they are not copies."""
    return next((each for word, each in _REMEDY.items() if f"the {word} of" in symmetry), "")


def _copies(symmetry: str) -> str:
    return f" They differ by {symmetry} and are copies of each other." * bool(symmetry)


@dataclass(frozen=True)
class _Search(Evidence):
    """The search, and nothing that it found beyond reach."""

    num_starts: int
    num_arrived: int
    num_negligible: int
    """Modes beyond reach that hold next to nothing."""


@dataclass(frozen=True)
class NoOtherMode(_Search):
    """The search has found no other mode that matters."""

    code = "no-other-mode"
    severity = "ok"
    hint = "A mode that few starts lead to can stay unseen: if you know of one, start a fit there."

    @property
    def sentence(self) -> str:
        if not self.num_negligible:
            return f"{self.num_starts} starts found no other mode."
        modes = "mode" if self.num_negligible == 1 else "modes"
        return (
            f"{self.num_starts} starts found {self.num_negligible} other {modes}, by Laplace's "
            "method with less than one part in 100,000 of the posterior: too little to change a "
            "mean or sd."
        )


@dataclass(frozen=True)
class SearchUnfinished(_Search):
    """Most climbs did not arrive anywhere."""

    code = "search-unfinished"
    severity = "caution"
    hint = "That is to be expected in a funnel. Otherwise look at the scales of the parameters."

    @property
    def sentence(self) -> str:
        return (
            f"Little is known about other modes: only {self.num_arrived} of {self.num_starts} "
            "climbs of the density ended at one."
        )


@dataclass(frozen=True)
class _Modes(Evidence):
    """Other modes that were found and fitted."""

    others: int
    missed: float
    """Share of the posterior that belongs to them."""
    pooled_khat: float
    """Of the mixture of all."""
    worst: str
    """The quantity that they change most."""
    shift: float
    """By which they move its mean, in sds."""
    growth: float
    """By which they change the log of its sd."""
    symmetry: str = ""

    @property
    def hint(self) -> str:
        return _remedy(self.symmetry) or (
            "Look at fit.solution.others; use MCMC, or average over the optima."
        )

    @property
    def _others_were(self) -> str:
        return "Another mode was" if self.others == 1 else f"{self.others} other modes were"

    @property
    def _share(self) -> str:
        return f"about {self.missed:.0%}" if self.missed >= 0.005 else "less than 1%"


@dataclass(frozen=True)
class ModeMissed(_Modes):
    """Another mode changes means or sds that are reported."""

    code = "mode-missed"
    severity = "bad"

    @property
    def sentence(self) -> str:
        what = "another mode" if self.others == 1 else f"{self.others} other modes"
        return (
            f"The approximation misses {what} with {self._share} of the posterior, and khat cannot "
            f"see that: the mean of {self.worst} is {abs(self.shift):.2g} sds off, its sd "
            f"{self._stretch}.{_copies(self.symmetry)}"
        )

    @property
    def _stretch(self) -> str:
        return "right" if abs(self.growth) < math.log(1.005) else stretch(self.growth)


@dataclass(frozen=True)
class ModesUncertain(_Modes):
    """How much of the posterior lies in other modes cannot be estimated."""

    code = "modes-uncertain"
    severity = "bad"

    @property
    def sentence(self) -> str:
        return (
            f"{self._others_were} found, and how much of the posterior lies there cannot be "
            f"estimated (khat of the mixture of all: {show(self.pooled_khat)})."
            f"{_copies(self.symmetry)}"
        )


@dataclass(frozen=True)
class OtherOptimum(_Modes):
    """Another mode holds too little of the posterior to matter."""

    code = "other-optimum"
    severity = "caution"

    @property
    def sentence(self) -> str:
        return (
            f"{self._others_were} found, with {self._share} of the posterior: too little to change "
            "a mean or sd that is reported."
        )


@dataclass(frozen=True)
class ModeBeyondReach(Evidence):
    """Another mode was found, and q cannot be evaluated there: what it holds is a guess."""

    others: int
    share: float
    """Of all modes, by Laplace's method."""
    symmetry: str = ""

    code = "mode-beyond-reach"
    severity = "bad"

    @property
    def hint(self) -> str:
        return _remedy(self.symmetry) or (
            "Start another fit there, or use MCMC: check.modes says where it is."
        )

    @property
    def sentence(self) -> str:
        were = "Another mode was" if self.others == 1 else f"{self.others} other modes were"
        share = f", with about {self.share:.0%} of the posterior by Laplace's method"
        known = share if self.share == self.share else ""
        return (
            f"{were} found that the draws do not reach{known}; khat cannot see that."
            f"{_copies(self.symmetry)}"
        )


@dataclass(frozen=True)
class EndlessTail(Evidence):
    """The density does not end: the posterior is improper, or nearly so."""

    worst: str
    """A coordinate along which it does not end."""

    code = "endless-tail"
    severity = "bad"
    hint = (
        "Give flat priors a scale, and look for parameters that the data do not bound: the "
        "posterior may be improper."
    )

    @property
    def sentence(self) -> str:
        return (
            f"The density decays too slowly: 10,000 sds away it falls off along {self.worst} no "
            f"faster than 1 / |{self.worst}|, so either there is no such distribution, or nearly "
            "all of it lies farther out."
        )
