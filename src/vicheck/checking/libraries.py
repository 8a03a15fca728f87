"""Fits of other libraries that do not themselves say what was fitted.

Those that do can be passed to `check` as they are. Here the adapter draws, and `check` looks at
the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vicheck.checking.elsewhere import check_approximation
from vicheck.checking.enough import NumDraws, require_num_draws
from vicheck.checking.run import check
from vicheck.errors import require_count
from vicheck.runtime.progress import Progress, showing
from vicheck.runtime.seeds import Seed, as_seed

if TYPE_CHECKING:
    from vicheck.quantities import Spec
    from vicheck.results.check import Check

__all__ = [
    "check_blackjax",
    "check_distribution",
    "check_numpyro",
    "check_pyro",
]


def check_numpyro(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    params: Any,
    *args: Any,
    num_draws: int = 100_000,
    quantities: Spec | None = None,
    seed: Seed = 0,
    progress: Progress = True,
    **kwargs: Any,
) -> Check:
    """Check a NumPyro guide after SVI.

    Parameters
    ----------
    model, guide
        What was passed to SVI. The guide may be any that has a density of the parameters,
        automatic (including ``AutoLaplaceApproximation``) or hand-written.
    params
        The fitted parameters: what ``svi.run`` returned, or ``svi.get_params(state)``. With the
        former, a finding says if the ELBO was still rising at the end. With either, its gradient
        is tested on fresh draws, as for fits by vicheck, which tells the optimiser's fault from
        the family's.
    *args, **kwargs
        The arguments of model and guide, as they were passed to SVI. Plates with a
        ``subsample_size`` see all of their data.
    num_draws
        Draws from the guide.
    quantities
        As for `vicheck.check`: names, or functions of the parameters of one draw; by default every
        parameter and everything the model derives from them.
    seed
        An integer or a JAX key; the same seed gives the same bits.
    progress
        As for `vicheck.check`.

    Raises
    ------
    ModelError
        When the guide does not cover a latent site, draws one that the model does not have or that
        has another shape, is a point in some direction, or has auxiliary noise; the message names
        the site.
    """
    from vicheck.adapters.numpyro.guides import draws_of_guide

    require_count("num_draws", num_draws)
    seed = as_seed(seed)
    with showing(progress, "drawing from the guide"):
        drawn = draws_of_guide(model, guide, params, args, kwargs, num_draws, seed)
        return check(drawn, quantities=quantities)


def check_pyro(
    model: Any,
    guide: Any,
    *args: Any,
    num_draws: NumDraws = None,
    quantities: Spec | None = None,
    seed: Seed = 0,
    budget: float | None = None,
    progress: Progress = True,
    **kwargs: Any,
) -> Check:
    """Check a Pyro guide after SVI, with the parameters in Pyro's store.

    Parameters
    ----------
    model, guide
        What was passed to SVI. The guide may be any that has a density, automatic or hand-written.
        The gradient of its ELBO is tested on fresh draws, as for fits by vicheck, so that the
        optimiser and the family are told apart.
    *args, **kwargs
        The arguments of model and guide, as they were passed to ``svi.step``.
    num_draws
        Draws from the guide: as for `vicheck.check`, 100,000 unless they would take longer than
        the budget.
    quantities
        As for `vicheck.check`: names, or functions of the parameters of one draw; by default every
        latent and every deterministic site.
    seed
        An integer or a JAX key; the same seed gives the same bits.
    budget, progress
        As for `vicheck.check`.
    """
    from vicheck.adapters.pyro.guide_gradient import convergence_of_guide
    from vicheck.adapters.pyro.guides import draws_of_guide

    number, seconds = require_num_draws(num_draws, budget)
    seed = as_seed(seed)
    with showing(progress, "drawing from the guide"):
        checked = check_approximation(
            lambda count: draws_of_guide(model, guide, args, kwargs, count, seed),
            number,
            seconds,
            quantities=quantities,
            seed=seed,
        )
        known, note = convergence_of_guide(model, guide, args, kwargs, seed)
    return replace(checked, convergence=known, notes=(*checked.notes, *([note] if note else [])))


def check_blackjax(
    state: Any,
    log_density: Callable[[Any], Any],
    *,
    num_draws: int = 100_000,
    quantities: Spec | None = None,
    seed: Seed = 0,
    progress: Progress = True,
) -> Check:
    """Check a state of BlackJAX's mean field VI, full rank VI or Pathfinder.

    Parameters
    ----------
    state
        The state after the last step, or what ``pathfinder.approximate`` returned first.
    log_density
        The function passed to BlackJAX: of one position, on the unconstrained scale.
    num_draws
        Draws from the approximation.
    quantities
        As for `vicheck.check`: names, or functions of the parameters of one draw.
    seed
        An integer or a JAX key; the same seed gives the same bits.
    progress
        As for `vicheck.check`.
    """
    from vicheck.adapters.blackjax import draws_of_state

    require_count("num_draws", num_draws)
    seed = as_seed(seed)
    with showing(progress, "drawing from q"):
        drawn = draws_of_state(state, log_density, num_draws, seed)
        return check(drawn, quantities=quantities)


def check_distribution(
    q: Any,
    log_density: Callable[[Any], Any],
    *,
    num_draws: int = 100_000,
    quantities: Spec | None = None,
    seed: Seed = 0,
    progress: Progress = True,
) -> Check:
    """Check anything that has the methods ``sample`` and ``log_prob``.

    Parameters
    ----------
    q
        A distribution of NumPyro, Distrax or TensorFlow Probability on JAX, or a similar object:
        ``sample(key, (n,))`` or ``sample(seed=key, sample_shape=n)`` draws, and ``log_prob`` gives
        the log density of draws. If it says, as NumPyro's do, that its support is the whole real
        line, other modes are searched for and short chains are run.
    log_density
        Log joint density of one draw, in JAX, of the same variable as ``log_prob``: when q is a
        distribution of parameters on their own scale, without the Jacobian of a transform. Or
        ``model.log_density`` of a vicheck Model, for a q of its flat unconstrained vector.
    num_draws
        Draws from it.
    quantities
        As for `vicheck.check`: names, or functions of the parameters of one draw.
    seed
        An integer or a JAX key; the same seed gives the same bits.
    progress
        As for `vicheck.check`.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist
    >>> q = dist.Normal(0.0, 0.95).expand([2]).to_event(1)
    >>> checked = vicheck.check_distribution(q, lambda x: -jnp.sum(x**2) / 2)
    >>> checked.verdict.level
    'good'
    """
    from vicheck.adapters.distributions import draws_of_distribution

    require_count("num_draws", num_draws)
    seed = as_seed(seed)
    with showing(progress, "drawing from q"):
        drawn = draws_of_distribution(q, log_density, num_draws, seed)
        return check(drawn, quantities=quantities)
