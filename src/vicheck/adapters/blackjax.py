"""BlackJAX: states of mean field VI, full rank VI and Pathfinder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from vicheck.adapters.distributions import model_of, named
from vicheck.adapters.precision import in_double
from vicheck.draws import Approximation, Draws, require_function
from vicheck.errors import require_extra
from vicheck.evaluation import log_densities
from vicheck.model import double_precision

__all__ = ["draws_of_state"]

_KNOWN = "MFVIState, FRVIState or PathfinderState"


@dataclass(frozen=True, eq=False)
class _State(Approximation):
    """What a state describes, beside the density it approximates."""

    state: Any
    log_density: Callable[[Any], Any]

    def draws(self, num_draws: int, seed: int = 0) -> Draws:
        from blackjax.vi import fullrank_vi, meanfield_vi, pathfinder

        state, key = self.state, jax.random.key(seed)
        with double_precision():
            if isinstance(state, meanfield_vi.MFVIState):
                draws = meanfield_vi.sample(key, state, num_draws)
                log_q_of = meanfield_vi.generate_meanfield_logdensity(state.mu, state.rho)
                log_q, kind = log_densities(log_q_of, draws, num_draws), "mean field VI"
            elif isinstance(state, fullrank_vi.FRVIState):
                draws = fullrank_vi.sample(key, state, num_draws)
                log_q_of = fullrank_vi.generate_fullrank_logdensity(state.mu, state.chol_params)
                log_q, kind = log_densities(log_q_of, draws, num_draws), "full rank VI"
            else:
                draws, log_q = pathfinder.sample(key, state, num_draws)
                kind = "Pathfinder"
            log_p = log_densities(self.log_density, draws, num_draws)
        return Draws(
            named(draws),
            log_p,
            np.asarray(log_q, np.float64),
            title=f"{kind} (BlackJAX)",
            model=model_of(self.log_density, draws),
            q=self,
        )


def draws_of_state(
    state: Any, log_density: Callable[[Any], Any], num_draws: int, seed: int
) -> Draws:
    """Draw from what a state describes, with both log densities, in float64."""
    require_extra("blackjax")
    require_function("log_density", log_density)
    _require_state(state)
    with double_precision():
        state = in_double(state)
    return _State(state, log_density).draws(num_draws, seed)


def _require_state(state: Any) -> None:
    """Raise `TypeError` for anything but a state that has a density."""
    from blackjax.vi import fullrank_vi, meanfield_vi, pathfinder

    known = (meanfield_vi.MFVIState, fullrank_vi.FRVIState, pathfinder.PathfinderState)
    if isinstance(state, known):
        return
    name = type(state).__name__
    reasons = {
        "MultipathfinderState": "its draws come from several paths at once: check the paths' own "
        "states one by one",
        "SVGDState": "particles have no density",
        "SchrodingerFollmerState": "its draws have no density",
    }
    reason = f": {reasons[name]}" if name in reasons else ""
    raise TypeError(f"state must be a {_KNOWN} of BlackJAX, got {name}{reason}")
