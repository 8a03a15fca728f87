"""The last remedy: NUTS, warmed by the best approximation so far."""

from __future__ import annotations

import time

import numpy as np

from vicheck.model import double_precision
from vicheck.nuts import reference
from vicheck.rescuing.ladder import Patient
from vicheck.results.reference import Reference
from vicheck.runtime.tally import count
from vicheck.vi.density import Density

__all__ = ["sampled"]

_NUM_CHAINS, _NUM_DRAWS, _NUM_WARMUP = 4, 1000, 500
_TARGETS = (0.9, 0.99)
"""Acceptance to aim at: where transitions diverge, smaller steps are tried once."""
_STEPS_EXPECTED = 31
"""Gradients of a transition, for what NUTS is expected to cost where it was not run: up to so many
parameters. Beyond, steps get smaller by the fourth root (Beskos et al. 2013)."""
_MANY_PARAMETERS = 100
_STEP_SECONDS = 1e-5
"""Of a step of NUTS beyond its gradient."""
_TIMED = 32
"""Gradients that are timed."""


def sampled(patient: Patient) -> Reference | str:
    """Sample by NUTS around the best candidate, or say what it would cost."""
    left = patient.budget.seconds - patient.budget.elapsed
    steps = _steps_expected(patient.model.dim)
    expected = _seconds_expected(patient, steps)
    if expected > left:
        transitions = f"{_NUM_CHAINS} chains of {_NUM_WARMUP + _NUM_DRAWS} transitions"
        return (
            f"NUTS would take about {_duration(expected)} ({transitions}, some {steps} "
            f"gradients each), and {_duration(max(0.0, left))} of the budget is left"
        )
    weighted = not np.isnan(patient.check.kept_log_weights).any()
    around = patient.check if weighted else patient.candidate.fit
    for target_accept in _TARGETS:
        found = reference(
            patient.model,
            num_chains=_NUM_CHAINS,
            num_draws=_NUM_DRAWS,
            num_warmup=_NUM_WARMUP,
            around=around if _has_parameters(patient) else None,
            seed=patient.seed,
            target_accept=target_accept,
        )
        count(gradients=found.num_gradients)
        if not found.num_divergent or patient.budget.is_used_up:
            break
    return found


def _has_parameters(patient: Patient) -> bool:
    """Whether the check reports on every parameter, so that starts can be had from its draws."""
    return all(name in patient.check.draws for name, _ in patient.model.program.layout)


def _steps_expected(dim: int) -> int:
    return round(_STEPS_EXPECTED * max(1.0, dim / _MANY_PARAMETERS) ** 0.25)


def _seconds_expected(patient: Patient, steps: int) -> float:
    """Return what NUTS is expected to take, by the time of gradients that are computed together."""
    with double_precision():
        now = patient.model.snapshot()
        density = Density(now.program, now.data, {})
        z = np.tile(patient.place()[0], (1, _TIMED, 1))
        lane = np.zeros(1, np.intp)
        density(lane, z)
        begun = time.perf_counter()
        density(lane, z)
        seconds = (time.perf_counter() - begun) / _TIMED
    transitions = _NUM_CHAINS * (_NUM_DRAWS + _NUM_WARMUP)
    return (seconds + _STEP_SECONDS) * transitions * steps


def _duration(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.0f} h"
