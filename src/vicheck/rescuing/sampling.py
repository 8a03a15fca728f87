"""The last remedy: NUTS, warmed by the best approximation so far."""

from __future__ import annotations

import numpy as np

from vicheck.errors import OutOfTimeError
from vicheck.nuts import reference, seconds_of_gradient
from vicheck.rescuing.ladder import Patient
from vicheck.results.reference import Reference
from vicheck.runtime.tally import count

__all__ = ["duration", "sampled"]

_NUM_CHAINS, _NUM_DRAWS, _NUM_WARMUP = 4, 1000, 500
_TARGETS = (0.9, 0.99)
"""Acceptance to aim at: where transitions diverge, smaller steps are tried once."""
_STEPS_EXPECTED = 31
"""Gradients of a transition, for what NUTS is expected to cost where it was not run: up to so many
parameters. Beyond, steps get smaller by the fourth root (Beskos et al. 2013)."""
_MANY_PARAMETERS = 100
_STEP_SECONDS = 1e-5
"""Of a step of NUTS beyond its gradient."""


def sampled(patient: Patient) -> Reference | str:
    """Sample by NUTS around the best candidate, or say what it would cost."""
    budget = patient.budget
    left = max(0.0, budget.seconds - budget.elapsed)
    steps = _steps_expected(patient.model.dim)
    gradient = seconds_of_gradient(patient.model, patient.place()[0])
    expected = (gradient + _STEP_SECONDS) * _NUM_CHAINS * (_NUM_DRAWS + _NUM_WARMUP) * steps
    if expected > left:
        transitions = f"{_NUM_CHAINS} chains of {_NUM_WARMUP + _NUM_DRAWS} transitions"
        return (
            f"NUTS would take about {duration(expected)} ({transitions}, some {steps} "
            f"gradients each), and {duration(left)} of the budget is left"
        )
    weighted = not np.isnan(patient.check.kept_log_weights).any()
    around = patient.check if weighted else patient.candidate.fit
    found: Reference | None = None
    for target_accept in _TARGETS:
        try:
            found = reference(
                patient.model,
                num_chains=_NUM_CHAINS,
                num_draws=_NUM_DRAWS,
                num_warmup=_NUM_WARMUP,
                around=around if _has_parameters(patient) else None,
                seed=patient.seed,
                target_accept=target_accept,
                budget=max(1.0, budget.seconds - budget.elapsed),
            )
        except OutOfTimeError as error:
            # The first chains stand, though some transitions of theirs have diverged.
            return found or f"NUTS takes longer than expected: {error.sentence}"
        count(gradients=found.num_gradients)
        if not found.num_divergent or budget.is_used_up:
            break
    assert found is not None
    return found


def _has_parameters(patient: Patient) -> bool:
    """Whether the check reports on every parameter, so that starts can be had from its draws."""
    return all(name in patient.check.draws for name, _ in patient.model.program.layout)


def _steps_expected(dim: int) -> int:
    return round(_STEPS_EXPECTED * max(1.0, dim / _MANY_PARAMETERS) ** 0.25)


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.0f} h"
