"""Whether a Pyro guide is at an optimum of the ELBO: a test, on fresh draws, of its gradient."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vicheck.adapters.gradient_test import STREAM, judged_gradient
from vicheck.adapters.pyro.guides import Pair, everything_left_as_it_was, noise_for_each_draw
from vicheck.adapters.pyro.sites import (
    latent_sites,
    log_density_of,
    random_sites,
    samples_of_both,
)
from vicheck.errors import in_brief
from vicheck.indexing import Indexing
from vicheck.results.convergence import Convergence, GradientTest
from vicheck.results.status import FitStatus

__all__ = ["convergence_of_guide"]

_BATCHES, _SIZE = 64, 16
"""Torch has gradients of sums: errors come from those of batches, 1024 draws in all."""


def convergence_of_guide(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    seed: int,
) -> tuple[Convergence | None, str]:
    """Return what the gradient says of the optimiser, or a note on why it could not be tested.

    It is with respect to the guide's parameters in Pyro's store, on the scale that is optimised. A
    parameter is measured by how far it moves draws, in sds of q on the unconstrained scale, as for
    guides of NumPyro. Neither for a guide without parameters, such as Laplace's method returns, nor
    for one whose draws have no derivatives.
    """
    import torch

    pair = Pair(model, guide, tuple(args), dict(kwargs))
    try:
        with everything_left_as_it_was(), torch.enable_grad():
            test = _tested(pair, seed)
    except Exception as error:  # a check of draws needs no gradient, and must not fail without
        return None, f"The gradient of the guide's ELBO could not be tested ({in_brief(error)})."
    return None if test is None else Convergence(FitStatus.UNKNOWN, "SVI", test, richer=""), ""


def _tested(pair: Pair, seed: int) -> GradientTest | None:
    import torch

    torch.manual_seed(seed + STREAM)
    free = _parameters(pair)
    if not free:
        return None
    draw = _drawing(pair)
    with torch.no_grad():
        sd = torch.cat([draw(_SIZE)[1] for _ in range(_BATCHES)]).std(dim=0)
    slopes, moves = [], []
    for _ in range(_BATCHES):
        elbo, place = draw(_SIZE)
        # Pulls are random directions: the square of what moves along them is, on average, that
        # along all coordinates, and of a sum over draws the sum.
        pull = torch.where(sd > 0.0, torch.randn_like(place) / sd, 0.0)
        slopes.append(_gradient(elbo.mean(), free, keep=True))
        moves.append(_gradient((place * pull).sum(), free))
    slope, moved = np.stack(slopes), np.stack(moves)
    return judged_gradient(
        slope.mean(axis=0),
        slope.std(axis=0, ddof=1) / np.sqrt(_BATCHES),
        np.sqrt(np.square(moved).mean(axis=0) / _SIZE),
        Indexing.PYTHON.labels({name: tuple(each.shape) for name, each in free.items()}),
        _BATCHES * _SIZE,
    )


def _parameters(pair: Pair) -> dict[str, Any]:
    """Return the parameters that the guide's draws are functions of; none if they have no slope."""
    import pyro

    guide_trace, model_trace = pair.traces()
    guide_sites, _ = samples_of_both(guide_trace, model_trace)
    if not all(site["fn"].has_rsample for site in random_sites(guide_sites).values()):
        return {}
    used = {name for name, site in guide_trace.nodes.items() if site["type"] == "param"}
    stored = pyro.get_param_store().named_parameters()
    return {name: each for name, each in stored if name in used and each.requires_grad}


def _gradient(of: Any, free: Mapping[str, Any], keep: bool = False) -> Any:
    import torch

    values = list(free.values())
    parts = torch.autograd.grad(of, values, retain_graph=keep, allow_unused=True)
    known = (
        torch.zeros_like(value) if part is None else part
        for value, part in zip(values, parts, strict=True)
    )
    return np.concatenate([part.detach().double().cpu().numpy().ravel() for part in known])


def _drawing(pair: Pair) -> Callable[[int], tuple[Any, Any]]:
    """Return a function that makes draws: their log ratios, and where they lie.

    Together where `torch.vmap` can, and one by one otherwise.
    """
    import torch

    def one() -> tuple[Any, Any]:
        guide_trace, model_trace = pair.traces()
        guide_trace.compute_log_prob()
        model_trace.compute_log_prob()
        guide_sites, model_sites = samples_of_both(guide_trace, model_trace)
        log_p = sum(map(log_density_of, model_sites.values()))
        log_q = sum(map(log_density_of, guide_sites.values()))
        return log_p - log_q, _place(model_sites)

    def together(size: int) -> tuple[Any, Any]:
        def draw(zero: Any) -> tuple[Any, Any]:
            with noise_for_each_draw(zero):
                return one()

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return torch.vmap(draw, randomness="different")(torch.zeros(size))

    def one_by_one(size: int) -> tuple[Any, Any]:
        elbo, place = zip(*(one() for _ in range(size)), strict=True)
        return torch.stack(elbo), torch.stack(place)

    try:
        together(2)
    except Exception:  # whatever an operation cannot do in a batch
        return one_by_one
    return together


def _place(model_sites: Mapping[str, Any]) -> Any:
    """Return the draw on the unconstrained scale."""
    import torch
    from torch.distributions import biject_to

    parts = [
        biject_to(site["fn"].support).inv(site["value"]).reshape(-1).double()
        for site in latent_sites(model_sites).values()
    ]
    return torch.cat(parts)
