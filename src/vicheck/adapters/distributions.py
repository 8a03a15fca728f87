"""Anything that has the methods ``sample`` and ``log_prob``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from vicheck.adapters.log_density import from_log_density
from vicheck.draws import Approximation, Draws, require_function
from vicheck.evaluation import log_densities
from vicheck.model import Model, double_precision

__all__ = ["draws_of_distribution", "model_of", "named"]


@dataclass(frozen=True, eq=False)
class _Distribution(Approximation):
    """An object that draws and has a density, beside the density it approximates."""

    q: Any
    log_density: Callable[[Any], Any]
    target: Model | None = None
    """The model whose density it is, of its flat unconstrained vector."""

    def draws(self, num_draws: int, seed: int = 0) -> Draws:
        q = self.q
        with double_precision():
            draws = _sample(q, jax.random.key(seed), num_draws)
            log_q = np.asarray(q.log_prob(draws), np.float64)
            if log_q.shape != (num_draws,):
                raise ValueError(
                    f"q.log_prob must return one number for each of {num_draws} draws, got shape "
                    f"{log_q.shape}: make dimensions of the variable events (to_event in NumPyro)"
                )
            if self.target is not None:
                return self._of_target(self.target, np.asarray(draws), log_q)
            log_p = log_densities(self.log_density, draws, num_draws)
        title = f"{type(q).__name__} (sample and log_prob)"
        model = model_of(self.log_density, draws) if _is_unbounded(q) else None
        return Draws(named(draws), log_p, log_q, title=title, model=model, q=self)

    def _of_target(self, target: Model, z: Any, log_q: Any) -> Draws:
        """Return draws of a model's flat vector, by the names that the model has."""
        if z.shape[1:] != (target.dim,):
            raise ValueError(
                f"q must draw the model's unconstrained vector, of shape ({target.dim},), got "
                f"{z.shape[1:]}"
            )
        title = f"{type(self.q).__name__} of {target.dim} parameters (sample and log_prob)"
        theta = target.constrain(z)
        log_p = target.log_density(z)
        return Draws(theta, log_p, log_q, title=title, model=target, q=self)


def draws_of_distribution(
    q: Any, log_density: Callable[[Any], Any], num_draws: int, seed: int
) -> Draws:
    """Draw from a distribution, with its own density and that of a function."""
    for method in ("sample", "log_prob"):
        if not callable(getattr(q, method, None)):
            raise TypeError(f"q must have a method {method}, which {type(q).__name__} lacks")
    target = _model_behind(log_density)
    if target is None:
        require_function("log_density", log_density)
    return _Distribution(q, log_density, target).draws(num_draws, seed)


def _model_behind(log_density: Any) -> Model | None:
    """Return the model whose method this is, or that was given itself."""
    if isinstance(log_density, Model):
        return log_density
    owner = getattr(log_density, "__self__", None)
    is_density = getattr(log_density, "__name__", "") == "log_density"
    return owner if isinstance(owner, Model) and is_density else None


def named(draws: Any) -> dict[str, Any]:
    """Return draws by name: those of a dictionary, or of a tree by the path to each leaf."""
    if isinstance(draws, Mapping) and not any(isinstance(v, Mapping) for v in draws.values()):
        return {name: np.asarray(array, np.float64) for name, array in draws.items()}
    leaves = jax.tree_util.tree_leaves_with_path(draws)
    return {
        (jax.tree_util.keystr(path, simple=True, separator=".") or "x"): np.asarray(leaf, float)
        for path, leaf in leaves
    }


def model_of(log_density: Callable[[Any], Any], draws: Any) -> Model | None:
    """Return the density as a model; None where positions are trees that names do not describe."""
    flat = isinstance(draws, Mapping) and not any(isinstance(v, Mapping) for v in draws.values())
    if not flat and not isinstance(draws, jax.Array | np.ndarray):
        return None
    return from_log_density(log_density, jax.tree.map(lambda leaf: np.asarray(leaf)[0], draws))


def _is_unbounded(q: Any) -> bool:
    """Whether a distribution says, as NumPyro's do, that it is one on all of the real numbers.

    A density is asked nothing beyond the bounds of any other: it need not know them.
    """
    support: Any = getattr(q, "support", None)
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return type(support).__name__ in ("_Real", "_RealVector")


def _sample(q: Any, key: jax.Array, num_draws: int) -> Any:
    names = inspect.signature(q.sample).parameters
    if "seed" in names:  # Distrax and TensorFlow Probability
        return q.sample(seed=key, sample_shape=(num_draws,))
    return q.sample(key, (num_draws,))
