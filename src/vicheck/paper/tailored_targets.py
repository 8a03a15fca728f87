"""Targets with known means and sds, and proposals around their mean-field fit (section 5.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

import vicheck
from vicheck.paper.experiment import Numbers
from vicheck.paper.schools import PRINTED
from vicheck.stats.renyi import NORMAL_DF, log_mean_power
from vicheck.stats.split_t import split_t
from vicheck.stats.t_mixtures import TMixture, single_t

__all__ = ["DF", "PROPOSALS", "TARGETS", "Target", "judge", "proposals"]

Floats = NDArray[np.float64]

DF = 5.0
"""Degrees of freedom of every t that is proposed."""
_STRETCHES = np.geomspace(0.6, 3.0, 33)
_SCALE_DRAWS = 20_000
_SCHOOLS = [*(f"theta[{index}]" for index in range(8)), "mu", "tau"]

PROPOSALS = {
    "normal": "normal, as VI found it",
    "t": "t, the same scale",
    "t_scaled": "t, scale by chi-square",
    "split_normal": "split normal",
    "split_t": "split t, scale by chi-square",
}


@dataclass(frozen=True, eq=False)
class Target:
    """A posterior whose means and sds are known."""

    title: str
    build: Callable[[], vicheck.Model]
    mean: Floats
    sd: Floats
    is_schools: bool = False

    @cached_property
    def model(self) -> vicheck.Model:
        """Built when first needed."""
        return self.build()

    def log_density(self, z: Floats) -> Floats:
        """Return log densities at the rows of z; minus infinity where one is no number."""
        values = np.asarray(self.model.log_density(z))
        return np.where(np.isnan(values), -np.inf, values)

    def quantities(self, z: Floats) -> Floats:
        """Return what means and sds are known of, shape ``(S, m)``."""
        if not self.is_schools:
            return z
        theta = self.model.constrain(z)
        return np.column_stack([theta["theta"], theta["mu"], theta["tau"]])


def _of_density(title: str, log_density: Any, dim: int, mean: float, sd: float) -> Target:
    def build() -> vicheck.Model:
        return vicheck.from_log_density(log_density, np.zeros(dim))

    return Target(title, build, np.full(dim, mean), np.full(dim, sd))


def _students(x: Any) -> Any:
    return dist.StudentT(5.0).log_prob(x).sum()


def _log_gammas(x: Any) -> Any:
    return (2.0 * x - jnp.exp(x)).sum()


_PRECISION = np.linalg.inv(0.8 * np.ones((5, 5)) + 0.2 * np.eye(5))


def _correlated(x: Any) -> Any:
    return -0.5 * x @ _PRECISION @ x


def _schools(way: str) -> Target:
    exact = PRINTED.exact()
    mean, sd = (np.array([of(name) for name in _SCHOOLS]) for of in (exact.mean, exact.sd))
    title = {"centred": "eight schools, centred", "noncentred": "eight schools, non-centred"}[way]
    return Target(title, lambda: PRINTED.model(way), mean, sd, is_schools=True)


TARGETS: dict[str, Callable[[], Target]] = {
    "students": lambda: _of_density("ten Student-t(5)", _students, 10, 0.0, (5.0 / 3.0) ** 0.5),
    "gammas": lambda: _of_density(
        "five logs of Gamma(2)",
        _log_gammas,
        5,
        float(digamma(2.0)),
        float(polygamma(1, 2.0)) ** 0.5,
    ),
    "correlated": lambda: _of_density("normal, d = 5, correlation 0.8", _correlated, 5, 0.0, 1.0),
    "noncentred": lambda: _schools("noncentred"),
    "centred": lambda: _schools("centred"),
}


def proposals(target: Target, fit: vicheck.Fit, rng: np.random.Generator) -> dict[str, TMixture]:
    """Return each of the proposals around a mean-field fit."""
    loc, root = np.asarray(fit.mean), np.diag(fit.sd)
    normal, heavy = single_t(loc, root, NORMAL_DF), single_t(loc, root, DF)
    split_heavy = split_t(target.log_density, heavy)
    return {
        "normal": normal,
        "t": heavy,
        "t_scaled": _scaled(target, heavy, rng),
        "split_normal": split_t(target.log_density, normal),
        "split_t": _scaled(target, split_heavy, rng),
    }


def _scaled(target: Target, around: TMixture, rng: np.random.Generator) -> TMixture:
    """Choose the scale by the chi-square divergence, estimated from draws of a wide one."""
    wide = _stretched(around, 2.0)
    z = wide.draw(rng, _SCALE_DRAWS)
    log_p, log_b = target.log_density(z), wide.log_density(z)
    candidates = [_stretched(around, factor) for factor in _STRETCHES]
    return min(candidates, key=lambda q: log_mean_power(log_p, q.log_density(z), log_b, 2.0))


def _stretched(around: TMixture, factor: float) -> TMixture:
    return TMixture(**(vars(around) | {"roots": factor * around.roots}))


def judge(target: Target, q: TMixture, num_draws: int, rng: np.random.Generator) -> Numbers:
    """Hold a proposal against the target on fresh draws: khat, efficiency, errors in sds."""
    z = q.draw(rng, num_draws)
    log_ratios = target.log_density(z) - q.log_density(z)
    smoothed = vicheck.psis(log_ratios)
    weights = np.exp(smoothed.log_weights)
    values = target.quantities(z)
    mean = weights @ values
    sd = np.sqrt(weights @ np.square(values - mean))
    return {
        "khat": float(smoothed.khat),
        "efficiency": float(smoothed.ess) / num_draws,
        "mean_error": float(np.sqrt(np.mean(np.square((mean - target.mean) / target.sd)))),
        "sd_error": float(np.sqrt(np.mean(np.square(sd / target.sd - 1.0)))),
    }
