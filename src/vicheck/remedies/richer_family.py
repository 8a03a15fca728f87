"""Fit a family that can do more."""

from __future__ import annotations

from vicheck.remedies.options import check_of_fit, default_family, written_options
from vicheck.remedies.remedy import Remedy
from vicheck.remedies.situations import CalibrationSituation, CheckSituation

__all__ = ["RicherFamily", "RicherFamilyForAll"]

_ADVICE = "use a richer family"


class RicherFamily(Remedy[CheckSituation]):
    """Fit the next richer family, or compare families where the fit was made elsewhere."""

    name = "richer-family"
    title = "A richer family"
    when = "the fit has converged, khat is too high, and there is a richer family"
    example = 'check = vicheck.check(vicheck.fit(model, family="full_rank"))'
    effect = "Represents correlations that the present family cannot."

    def applies(self, situation: CheckSituation) -> bool:
        known = situation.convergence
        if not situation.family_too_poor:
            return False
        return known is None or not situation.made_here or known.richer not in ("", known.family)

    def advice(self, situation: CheckSituation) -> str:
        return _ADVICE

    def line(self, situation: CheckSituation) -> str:
        known = situation.convergence
        if known is not None and situation.made_here:
            return check_of_fit(known.richer)
        return _comparison() if situation.khat_is_hopeless else ""


class RicherFamilyForAll(Remedy[CalibrationSituation]):
    """Calibrate the next richer family."""

    name = RicherFamily.name
    title = RicherFamily.title
    when = "the verdict is unreliable, and there is a richer family"
    example = 'calibration = vicheck.vsbc(model, family="full_rank")'
    effect = "Shows whether a family with correlations has the same fault."

    def applies(self, situation: CalibrationSituation) -> bool:
        return situation.level == "unreliable" and (situation.has_richer or not situation.family)

    def advice(self, situation: CalibrationSituation) -> str:
        return _ADVICE

    def line(self, situation: CalibrationSituation) -> str:
        if not situation.has_richer:
            return ""
        also = ", posterior=True" if situation.posterior else ""
        return f"calibration = vicheck.vsbc(model{written_options(family=situation.richer)}{also})"


def _comparison() -> str:
    """Return the line that fits the model of a fit made elsewhere here, with two families."""
    from vicheck.vi.families.registry import richer_than

    default = default_family()
    families = f'("{default}", "{richer_than(default, 1)}")'
    return (
        f"comparison = vicheck.compare([model], families={families})"
        "  # model: by vicheck.from_numpyro, from_pymc, ..."
    )
