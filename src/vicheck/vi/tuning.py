"""Choose numbers among a model's data by the ELBO of the fit to them.

For numbers that change the coordinates of a posterior and not the posterior itself, the best ELBO
is that of the coordinates which suit the family best. Each value that is tried costs a fit. ELBOs
of different fits are compared on the same draws, which are not those of the fits. The slope of the
best ELBO is that of the log density at fixed draws of q: where q is optimal, its own change with
the numbers adds nothing (the envelope theorem).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray
from scipy.optimize import minimize

from vicheck.errors import ModelError
from vicheck.model import Model, Program, double_precision
from vicheck.results.fit import Fit
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import compiled
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.fitting import fit
from vicheck.vi.solvers.deterministic.noise import make_noise, standardised

__all__ = ["NEGLIGIBLE", "Trial", "Tuning"]

Floats = NDArray[np.float64]

NEGLIGIBLE = 0.01
"""Differences of ELBOs, in nats, that do not matter."""
_NUM_DRAWS = 1024
"""Draws that ELBOs are compared on: errors of differences are below what is negligible."""
_ROWS = 32
"""Of these, how many are evaluated together."""
_SHORTEST, _LONGEST = 0.02, 1.0
"""Bounds of the units that values are measured in while the ELBO is climbed."""
_FAR = 2**32
"""Added to a seed: the noise of no fit."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Values that were tried, and the fit to them."""

    values: tuple[float, ...]
    elbo: float
    """On draws that are the same for all trials; ``-inf`` where there is no fit."""
    slopes: Floats = field(repr=False)
    """Of the best ELBO with respect to the values."""
    status: FitStatus
    fit: Fit | None = field(repr=False)


class _NoMoreFitsError(Exception):
    """There are to be no more fits."""


class Tuning:
    """A search for the best values of some numbers among a model's data, within 0 and 1.

    Parameters
    ----------
    model
        Whose data have the numbers.
    names
        Of the numbers.
    max_fits
        How many fits there may be.
    **options
        Of `vicheck.fit`, without ``num_starts``: there is no search for other modes.
    """

    def __init__(
        self, model: Model, names: tuple[str, ...], *, seed: int, max_fits: int, **options: Any
    ) -> None:
        self.model, self.names, self.seed = model, names, seed
        self.max_fits, self.options = max_fits, options
        self.trials: list[Trial] = []
        """All that has been tried, in order."""
        self.num_evaluations = 0
        """Of the log density, for fits and for their comparison."""

    @property
    def highest(self) -> float:
        """The highest ELBO so far."""
        return max(trial.elbo for trial in self.trials)

    @property
    def best(self) -> Trial:
        """The first trial to which no other is better by more than what is negligible."""
        enough = self.highest - NEGLIGIBLE
        return next(trial for trial in self.trials if trial.elbo >= enough)

    def run(self) -> Trial:
        """Return the best of what is worth trying.

        The search starts with all values 1, 0 or one half. An earlier start is preferred to a later
        one that gains nothing, and ends of the interval to values between them that gain nothing.
        """
        with suppress(_NoMoreFitsError, KeyboardInterrupt):
            for value in (1.0, 0.0, 0.5):
                self.at((value,) * len(self.names))
            self._climb(self.best)
            return self._simplified(self.best)
        if not self.trials:
            raise KeyboardInterrupt
        return self.best

    def at(self, values: tuple[float, ...]) -> Trial:
        """Fit the model with such values, unless that has been done.

        A fit that fails is a value too, and not an exception.
        """
        values = tuple(round(float(value), 2) for value in values)
        for trial in self.trials:
            if trial.values == values:
                return trial
        if len(self.trials) >= self.max_fits:
            raise _NoMoreFitsError
        numbers = dict(zip(self.names, map(np.float64, values), strict=True))
        model = replace(self.model, data=self.model.data | numbers)
        nothing = np.zeros(len(values))
        try:
            fitted = fit(model, num_starts=1, seed=self.seed, **self.options)
        except ModelError:  # the density is nowhere finite
            trial = Trial(values, -np.inf, nothing, FitStatus.FAILED, None)
        else:
            if fitted.status is FitStatus.INTERRUPTED:
                raise _NoMoreFitsError
            self.num_evaluations += fitted.solution.num_evaluations + _NUM_DRAWS
            elbo, slopes = self._elbo(fitted)
            if not (np.isfinite(elbo) and np.isfinite(slopes).all()):
                elbo, slopes = -np.inf, nothing
            trial = Trial(values, elbo, slopes, fitted.status, fitted)
        self.trials.append(trial)
        return trial

    def _elbo(self, fitted: Fit) -> tuple[float, Floats]:
        """Return the ELBO of a fit on fresh draws, and its slopes with respect to the values."""
        q, model = fitted.q, fitted.model
        half = make_noise(_NUM_DRAWS, q.noise_dim, np.array([self.seed + _FAR]))
        half = standardised(half, pairs=False)[0]
        with double_precision():
            noise = jnp.concatenate([half, -half])
            z = np.asarray(jax.vmap(q.transform)(noise))
            mean, slopes = _mean_and_slopes((model.program, self.names), z, model.data)
            return float(mean + entropy_of(q, noise)), np.asarray(slopes)

    def _climb(self, start: Trial) -> None:
        """Follow the slopes upwards until that gains nothing; trials remember where it led."""
        highest = self.highest
        if not np.isfinite(highest):
            return
        lowest = min(trial.elbo for trial in self.trials if np.isfinite(trial.elbo))
        units = self._units(start)

        def loss(at: Floats) -> tuple[float, Floats]:
            trial = self.at(tuple(np.clip(at * units, 0.0, 1.0)))
            return -max(trial.elbo, lowest), -trial.slopes * units

        def stop_without_gain(_: Floats) -> None:
            nonlocal highest
            before, highest = highest, self.highest
            if highest < before + NEGLIGIBLE:
                raise StopIteration

        minimize(
            loss,
            np.array(start.values) / units,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0 / unit) for unit in units],
            callback=stop_without_gain,
            options={"ftol": 0.0, "gtol": NEGLIGIBLE, "maxls": 6},
        )

    def _units(self, start: Trial) -> Floats:
        """Return units in which the ELBO curves as the first step of SciPy's supposes.

        That step is as long as the slope. Curvatures are the differences of slopes between the
        starts; they are taken twice, because the ELBO is often flat but for the surroundings of its
        maximum.
        """
        curvatures = np.zeros(len(self.names))
        for trial in self.trials:
            if trial is not start and np.isfinite(trial.elbo):
                distances = np.abs(np.subtract(trial.values, start.values))
                here = np.abs(trial.slopes - start.slopes) / distances
                curvatures = np.maximum(curvatures, here)
        with np.errstate(divide="ignore"):
            return np.clip(1.0 / np.sqrt(2.0 * curvatures), _SHORTEST, _LONGEST)

    def _simplified(self, chosen: Trial) -> Trial:
        """Return a trial with values at the ends where that loses nothing."""
        enough = self.highest - NEGLIGIBLE
        # What the starts with all values at an end say of the slopes there.
        slopes_at = {
            end: trial.slopes
            for end in (0.0, 1.0)
            for trial in self.trials
            if trial.values == (end,) * len(self.names)
        }
        for index, value in enumerate(chosen.values):
            end = float(value >= 0.5) if 0.0 < value < 1.0 else 1.0
            slope = 0.5 * (chosen.slopes[index] + slopes_at[end][index])
            if chosen.elbo + slope * (end - value) >= enough - NEGLIGIBLE:
                trial = self.at((*chosen.values[:index], end, *chosen.values[index + 1 :]))
                if trial.elbo >= enough:
                    chosen = trial
        return chosen


@compiled("log_density")
def _mean_and_slopes(
    what: tuple[Program, tuple[str, ...]], z: Any, data: Any
) -> tuple[jax.Array, jax.Array]:
    """Return the mean log density, and its derivatives with respect to named numbers."""
    program, names = what

    def total(values: jax.Array, rows: jax.Array) -> jax.Array:
        given = data | dict(zip(names, values, strict=True))
        return jnp.sum(jax.vmap(program.log_density, (0, None))(rows, given))

    values = jnp.stack([data[name] for name in names])
    blocks = z.reshape(-1, _ROWS, z.shape[-1])
    sums, slopes = lax.map(lambda rows: jax.value_and_grad(total)(values, rows), blocks)
    return sums.sum() / len(z), slopes.sum(axis=0) / len(z)
