"""Findings on short chains: whether they stay where q, or its weighted draws, are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vicheck.judging.cutoffs import DRIFT_GROWTH, DRIFT_SHIFT
from vicheck.judging.findings.evidence import Evidence

__all__ = ["ChainsAgree", "ChainsDrift", "ChainsDriftWeighted", "ChainsUndecided"]

_TOLERANCES = f"no mean by more than {DRIFT_SHIFT:g} sd and no sd by more than {DRIFT_GROWTH:.0%}"


@dataclass(frozen=True)
class _Moved(Evidence):
    """The quantity that has moved most, from the draws that chains are compared with."""

    num_chains: int
    num_steps: int
    quantity: str
    moment: str
    """"mean" or "sd"."""
    size: float
    """Of a mean in sds, positive where it has risen; of an sd, the change of its logarithm."""
    error: float
    others: int
    """How many more quantities have moved."""

    @property
    def _movement(self) -> str:
        if self.moment == "mean":
            way = "rises" if self.size > 0.0 else "falls"
            moved = f"mean of {self.quantity} {way} by {abs(self.size):.2f} sd"
        else:
            factor = math.exp(self.size)
            way = "grows" if factor > 1.0 else "shrinks"
            moved = f"sd of {self.quantity} {way} to {factor:.2g} times its size"
        quantities = "quantity moves" if self.others == 1 else "quantities move"
        rest = f", and {self.others} more {quantities}" if self.others else ""
        return f"within {self.num_steps} steps the {moved} (error {self.error:.1g}){rest}"


@dataclass(frozen=True)
class ChainsDrift(_Moved):
    """Chains leave the draws of q."""

    weights_hold: bool
    """Whether they began at weighted draws, and stay there."""

    code = "chains-drift"
    severity = "caution"
    hint = (
        "Plain estimates are off by at least that much. Use weighted ones where khat allows, or a "
        "richer family."
    )

    @property
    def sentence(self) -> str:
        return f"The approximation is usable only with its weights: s{self.aside[1:]}"

    @property
    def aside(self) -> str:
        if self.weights_hold:
            left = "stay with the weighted draws of q, but leave the plain ones"
        else:
            left = "leave the draws of q"
        return f"Short chains {left}: {self._movement}."


@dataclass(frozen=True)
class ChainsDriftWeighted(_Moved):
    """Chains leave even the weighted draws."""

    code = "chains-drift-weighted"
    severity = "bad"
    hint = (
        "Weighted estimates are off by at least that much: reparametrise the model, use a richer "
        "family, or use MCMC."
    )

    @property
    def sentence(self) -> str:
        return f"The approximation is not reliable, whatever khat says: s{self.aside[1:]}"

    @property
    def aside(self) -> str:
        return f"Short chains leave the weighted draws of q: {self._movement}."


@dataclass(frozen=True)
class ChainsAgree(Evidence):
    """Chains stay where they began."""

    num_chains: int
    num_steps: int
    starts: str
    """"q" or "weighted"."""
    quantity: str
    """The one with the largest drift."""
    drift: float
    error: float
    """The largest of all."""

    code = "chains-agree"
    severity = "ok"
    hint = "Chains do not cross from one mode to another, so they do not see what q never visits."

    @property
    def sentence(self) -> str:
        draws = "weighted draws of q" if self.starts == "weighted" else "draws of q"
        return (
            f"Short chains agree: within {self.num_steps} steps, {self.num_chains} chains from "
            f"{draws} change {_TOLERANCES}, as far as their errors can show."
        )


@dataclass(frozen=True)
class ChainsUndecided(Evidence):
    """Chains have been too few, too short or too noisy to say anything."""

    num_chains: int
    num_steps: int
    acceptance: float
    reason: str

    code = "chains-undecided"
    severity = "caution"
    hint = "Ask for more chains, for instance `chains=4096`, or compare with MCMC."

    @property
    def sentence(self) -> str:
        return f"Short chains cannot decide: {self.reason}."
