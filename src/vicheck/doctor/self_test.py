"""A short self-test: known values of PSIS, a fit with a closed form, files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from vicheck.runtime.interrupts import check_interrupt

if TYPE_CHECKING:
    from vicheck.results.check import Check

__all__ = ["TRIALS", "Trial", "run_trials"]

_DATA = np.array([0.4, 1.9, 1.1, 0.6])
_PRIOR_SD = 2.0
_AS_IN_LOO = ", as in the R package loo"


@dataclass(frozen=True)
class Trial:
    """One part of the self-test and how it came out."""

    name: str
    passed: bool
    detail: str
    """What was found, or what went wrong."""


def run_trials() -> Iterator[Trial]:
    """Run the parts one after the other; a part that fails does not keep the rest from running."""
    for name, trial in TRIALS.items():
        check_interrupt()
        try:
            yield Trial(name, True, trial())
        except Exception as error:
            check_interrupt()  # an interrupt may be what broke it
            yield Trial(name, False, f"{type(error).__name__}: {error}")


def _psis() -> str:
    """Compare khat with that of the R package loo: `ascending_S500` of tests/reference."""
    from vicheck.stats.psis import psis_khat

    return _same("khat", psis_khat(np.arange(1, 501) / 50), -0.4262766762755714, 1e-9) + _AS_IN_LOO


def _compiled_psis() -> str:
    """Compare khat of compiled code with that of loo: `gpd_k1_S10000` of tests/reference."""
    from vicheck.stats.psis import psis_khat

    state, uniform = 130, np.empty(10_000)
    for i in range(uniform.size):
        state = 16807 * state % 2147483647
        uniform[i] = state / 2147483647
    log_ratios = np.log1p(np.expm1(-np.log1p(-uniform)))
    return _same("khat", psis_khat(log_ratios), 0.8992796669662695, 1e-9) + _AS_IN_LOO


def _precision() -> str:
    """See that vicheck computes in float64 and leaves the caller's JAX as it was."""
    import jax.numpy as jnp

    before = jnp.zeros(()).dtype
    inside = _check().log_p.dtype
    after = jnp.zeros(()).dtype
    if inside != np.float64 or after != before:
        raise AssertionError(f"log densities are {inside}; JAX is at {after}, before at {before}")
    return f"float64 inside, JAX itself stays at {after}"


def _fit() -> str:
    """Compare a fit with the posterior in closed form: a normal mean, the variance known."""
    moments = _check().moments.loc["mu"]
    precision = _DATA.size + _PRIOR_SD**-2
    mean, sd = float(_DATA.sum()) / precision, 1.0 / math.sqrt(precision)
    same_mean = _same("mean", moments["psis_mean"], mean, 0.02)
    return f"{same_mean}, {_same('sd', moments['psis_sd'], sd, 0.02)}, as in closed form"


def _verdict() -> str:
    checked = _check()
    if checked.verdict.level != "good":
        raise AssertionError(f"an exact fit is not good: {checked.verdict.sentence}")
    return f"an exact fit is good, khat {checked.khat:.2f}"


def _files() -> str:
    """Save, load and report in a directory of the system for such files."""
    from vicheck.results.check import Check

    with TemporaryDirectory() as directory:
        path = Path(directory) / "check.npz"
        _check().save(path)
        page = Path(directory) / "page.html"
        Check.load(path).report(page)
        return f"saved, read back, a report of {page.stat().st_size // 1024} kB written"


TRIALS: dict[str, Callable[[], str]] = {
    "PSIS": _psis,
    "PSIS, compiled": _compiled_psis,
    "fit": _fit,
    "check": _verdict,
    "precision": _precision,
    "files": _files,
}
"""The parts of the self-test: each says what it found, or raises."""


@cache
def _check() -> Check:
    """Fit and check once; what fails is tried again by the next part, and fails there too."""
    import numpyro
    import numpyro.distributions as dist

    from vicheck.adapters.numpyro.models import from_numpyro
    from vicheck.checking.run import check
    from vicheck.vi.fitting import fit

    def model(y: np.ndarray | None = None) -> None:
        mu = numpyro.sample("mu", dist.Normal(0.0, _PRIOR_SD))
        numpyro.sample("y", dist.Normal(mu, 1.0).expand([_DATA.size]), obs=y)

    return check(fit(from_numpyro(model, y=_DATA)), num_draws=10_000)


def _same(what: str, value: float, expected: float, tolerance: float) -> str:
    if not abs(value - expected) <= tolerance:
        raise AssertionError(f"{what} is {value:.6g} and not {expected:.6g}")
    return f"{what} {value:.4f}"
