"""Fits of NumPyro guides by SVI, as `vicheck.vsbc` runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import lax
from numpyro.infer import SVI, Trace_ELBO

from vicheck.adapters.numpyro.guides import Guide, program_of
from vicheck.adapters.numpyro.program import NumpyroProgram
from vicheck.adapters.numpyro.traces import tracing
from vicheck.adapters.precision import in_double
from vicheck.draws import Draws
from vicheck.model import Data, Model, double_precision
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import compiled
from vicheck.runtime.tracing import Traced

__all__ = ["SviFit", "fit_by_svi"]

_LEAST_GAIN = 0.1
"""Nats that the ELBO gains over the last fifth of the steps of a run that has not converged."""


@dataclass(frozen=True)
class SviFit(Traced):
    """Fits a guide by SVI: a function of data and seed, as `vicheck.vsbc` takes it."""

    program: NumpyroProgram
    model: Callable[..., Any]
    guide: Callable[..., Any]
    optim: Any
    loss: Any
    num_steps: int
    num_draws: int
    approximation: Guide
    double: bool
    """Whether the user computes in float64; SVI then does too."""

    def __call__(self, data: Data, seed: int) -> Draws:
        """Run SVI from a fresh start and draw from the guide."""
        approximation = self.approximation
        with jax.enable_x64(self.double):
            before, after = jax.device_get(_run_svi(self, jax.random.key(seed), data))
        with double_precision():
            earlier, (log_p, log_q, theta) = (
                approximation.draw(in_double(each), data, self.num_draws, seed)
                for each in (before, after)
            )
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after)):
            return Draws(theta, log_p, log_q, status=FitStatus.NOT_FINITE)
        # The same random numbers at both ends: their difference is far better known than either.
        gain = (log_p - log_q) - (earlier[0] - earlier[1])
        rising = gain.mean() > max(_LEAST_GAIN, 3.0 * gain.std() / np.sqrt(gain.size))
        status = FitStatus.MAX_ITERATIONS if rising else FitStatus.CONVERGED
        return Draws(theta, log_p, log_q, status=status)

    @property
    def dim(self) -> int:
        """Length of z: how large the model is."""
        return self.program.dim

    def prepare(self, data: Data) -> None:
        """Set the guide up on data of the right shapes: within compiled code it would leak."""
        svi = SVI(self.model, self.guide, self.optim, self.loss)
        with tracing():
            svi.init(jax.random.key(0), **self.program.arguments(data))

    def run(self, key: jax.Array, data: Data) -> tuple[Any, Any]:
        """Return the parameters after four fifths of the steps, and after all of them."""
        svi = SVI(self.model, self.guide, self.optim, self.loss)
        arguments = self.program.arguments(data)

        def step(state: Any, _: Any) -> Any:
            return svi.update(state, **arguments)

        last = max(1, self.num_steps // 5)
        with tracing():
            state = svi.init(key, **arguments)
            state, _ = lax.scan(step, state, None, length=self.num_steps - last)
            early = svi.get_params(state)
            state, _ = lax.scan(step, state, None, length=last)
            return early, svi.get_params(state)


@compiled()
def _run_svi(fit: SviFit, key: jax.Array, data: Data) -> tuple[Any, Any]:
    return fit.run(key, data)


def fit_by_svi(
    target: Model,
    guide: Callable[..., Any],
    optim: Any,
    num_steps: int,
    loss: Any,
    num_draws: int,
) -> SviFit:
    """Return fits of a guide to a model's data, ready to be run."""
    program = program_of(target)
    double = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    fit = SviFit(
        program,
        program.function,
        guide,
        optim,
        loss or Trace_ELBO(),
        num_steps,
        num_draws,
        Guide(program, guide).snapshot(),
        double,
    ).snapshot()
    with jax.enable_x64(double):
        fit.prepare(program.example(target.data, target.missing))
    return fit
