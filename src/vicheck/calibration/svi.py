"""VSBC of NumPyro's own SVI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicheck.calibration.run import Progress, vsbc
from vicheck.quantities import Spec
from vicheck.runtime.seeds import Seed

if TYPE_CHECKING:
    from vicheck.results.calibration import Calibration

__all__ = ["vsbc_numpyro"]


def vsbc_numpyro(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    optim: Any,
    num_steps: int,
    *args: Any,
    loss: Any = None,
    observed: tuple[str, ...] | Mapping[str, str] | None = None,
    num_datasets: int = 1000,
    quantities: Spec | None = None,
    num_draws: int = 1000,
    executor: Executor | None = None,
    store: str | Path | None = None,
    time_limit: float | None = None,
    seed: Seed = 0,
    progress: Progress = True,
    **kwargs: Any,
) -> Calibration:
    """Find out how NumPyro's SVI is biased with this guide, optimiser and number of steps.

    This calibrates the user's own settings: if they stop too early, the bias found includes that
    of stopping early. Fits whose ELBO was still rising at the end count as not converged.

    Parameters
    ----------
    model, guide, optim, num_steps
        What is passed to SVI. An automatic guide starts as it does when one guide is used for many
        runs: at the values of its first set-up.
    *args, **kwargs
        The model's arguments, except what is observed.
    loss
        By default ``Trace_ELBO()``.
    observed
        As for `vicheck.from_numpyro`: found from the model by default.
    num_datasets, quantities, num_draws, executor, store, time_limit, seed, progress
        As for `vicheck.vsbc`. SVI computes in float64 if that is how JAX is set.
    """
    from vicheck.adapters.numpyro.models import from_numpyro
    from vicheck.adapters.numpyro.svi import fit_by_svi

    if not isinstance(num_steps, int) or isinstance(num_steps, bool) or num_steps < 1:
        raise ValueError(f"num_steps must be a positive integer, got {num_steps!r}")
    target = from_numpyro(model, *args, observed=observed, **kwargs)
    return vsbc(
        target,
        num_datasets=num_datasets,
        quantities=quantities,
        fit=fit_by_svi(target, guide, optim, num_steps, loss, num_draws),
        num_draws=num_draws,
        executor=executor,
        store=store,
        time_limit=time_limit,
        seed=seed,
        progress=progress,
    )
