"""Derivatives of the means of quantities under q, by steps of q, on fixed draws."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.evaluation import values_at
from vicheck.model import Data, Model, Program
from vicheck.quantities import Quantities
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import check_interrupt
from vicheck.vi.charts.chart import Chart
from vicheck.vi.response.hessian import DIFFERENCE

__all__ = ["of_coordinates", "of_quantities_by_differences", "of_quantities_by_jax"]

Floats = NDArray[np.float64]

_ROWS = 1024
"""Points at which quantities are evaluated together: as many as short chains have ends, whose
compiled code serves here too."""
_FEW = 0.05
"""A quantity that fewer draws than this part respond to jumps, and has no derivative."""


def of_coordinates(chart: Chart) -> Floats:
    """Return those of the means of z, shape ``(d, p)``."""
    steps = DIFFERENCE * np.eye(chart.step_dim)
    both = chart.repeated(2 * len(steps)).mean_and_sd(np.concatenate([steps, -steps]))[0]
    ahead, behind = np.split(both, 2)
    return np.asarray((ahead - behind).T / (2.0 * DIFFERENCE))


def of_quantities_by_differences(
    model: Model, chart: Chart, reported: Quantities, half: Floats
) -> Floats:
    """Return those of quantities, shape ``(Q, p)``, for any model; draws are made of the noise."""
    noise, size = np.concatenate([half, -half]), int(chart.step_dim)
    derivatives, responding = np.empty((size, reported.num_values)), np.zeros(reported.num_values)
    width = max(1, _ROWS // (2 * len(noise)))
    for start in range(0, size, width):
        check_interrupt()
        # Steps that fill up the last block go nowhere: all blocks are of one size.
        steps = np.zeros((width, size))
        some = np.arange(start, min(start + width, size))
        steps[np.arange(len(some)), some] = DIFFERENCE
        both = _values(model, chart, reported, np.concatenate([steps, -steps]), noise)
        change = both[: len(some)] - both[width : width + len(some)]
        derivatives[some] = change.mean(axis=1) / (2.0 * DIFFERENCE)
        responding = np.maximum(responding, (change != 0.0).mean(axis=1).max(axis=0))
    values = _values(model, chart, reported, np.zeros((2 * width, size)), noise)[0]
    return _known(derivatives.T, responding, values)


def of_quantities_by_jax(model: Model, chart: Chart, reported: Quantities, half: Floats) -> Floats:
    """Return the same for a model that JAX can differentiate, however many steps there are."""
    noise = np.concatenate([half, -half])[None]
    still = np.zeros((1, chart.step_dim))
    z = chart.draws(still, noise)[0]
    derivatives = np.empty((reported.num_values, chart.step_dim))
    responding = np.empty(reported.num_values)
    for index, which in enumerate(np.eye(reported.num_values)):
        check_interrupt()
        slopes = np.asarray(_slopes((model.program, reported), z, which, model.data))
        responding[index] = (slopes != 0.0).any(axis=1).mean()
        derivatives[index] = chart.pull_back(still, noise, slopes[None])[0]
    return _known(derivatives, responding, values_at(model.program, reported, z, model.data))


def _values(
    model: Model, chart: Chart, reported: Quantities, steps: Floats, noise: Floats
) -> Floats:
    """Return quantities at the draws of members some steps away, shape ``(steps, n, Q)``."""
    shared = np.broadcast_to(noise, (len(steps), *noise.shape))
    z = chart.repeated(len(steps)).draws(steps, shared)
    values = values_at(model.program, reported, z.reshape(-1, model.dim), model.data)
    return values.reshape(len(steps), len(noise), -1)


def _known(derivatives: Floats, responding: Floats, values: Floats) -> Floats:
    """Return derivatives, NaN where a quantity has none although it varies."""
    jumps = (responding < _FEW) & (values != values[0]).any(axis=0)
    return np.where(jumps[:, None], np.nan, derivatives)


@compiled("log_density", rarely=True)
def _slopes(what: tuple[Program, Quantities], z: Any, which: Any, data: Data) -> jax.Array:
    """Return the gradient of a combination of quantities at each row of z."""
    program, quantities = what
    return jax.vmap(jax.grad(lambda one: quantities.at(program, None, one, data) @ which))(z)
