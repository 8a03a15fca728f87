"""Pyro: draws from a guide, with its log densities and the model's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.pyro.refusals import (
    check_density,
    check_names,
    check_parameters,
    check_plates,
    check_shapes,
    check_was_run,
    parameter_notes,
    rounding_note,
    scale_notes,
)
from vicheck.adapters.pyro.sites import (
    latent_sites,
    log_density_of,
    num_unconstrained,
    outside_support,
    random_sites,
    reported_sites,
    rounding_of,
    samples_of_both,
)
from vicheck.draws import Approximation, Draws
from vicheck.errors import ModelError, require_count, require_extra
from vicheck.evaluation import TORCH_BATCHES, chunk_size, evaluate_in_chunks, kept_draws

__all__ = ["Pair", "draws_of_guide", "everything_left_as_it_was", "noise_for_each_draw"]

Floats = NDArray[np.float64]

_NUM_VERIFIED = 5
"""Draws made together that are computed again one by one."""


def draws_of_guide(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    num_draws: int,
    seed: int,
) -> Draws:
    """Draw from a Pyro guide, and evaluate guide and model at the same values.

    Each draw traces the guide and replays the model against it. Both densities are those of the
    model's own, constrained variables: an automatic guide's ``Delta`` sites carry the Jacobian.
    On the unconstrained scale both would have one more term, the same in each, so ratios, khat,
    ELBO and evidence are those of the unconstrained scale.

    Draws are made together by ``torch.vmap`` where that gives the numbers of draws made one by
    one, and one by one otherwise; nothing is asked of the model's plates or batch shapes.
    Pyro's parameters and validation, and torch's random state, are left as they were.

    Parameters
    ----------
    model, guide
        As given to ``pyro.infer.SVI``; the parameters are those in Pyro's store, or in the modules.
    args, kwargs
        What model and guide are called with.
    num_draws
        How many draws to make.
    seed
        The same seed gives the same bits.

    Returns
    -------
    Draws
        With the values of the model's latent and deterministic sites. Draws outside the support
        of the model have ``log_p`` of minus infinity; other values that are not finite are
        those of Pyro.

    Raises
    ------
    ModelError
        When the guide has not been fitted, is a point, or does not draw exactly the model's latent
        variables; when these are discrete; and when a plate takes a subsample, because the log
        density is then a noisy estimate. The message names the site, plate or parameter.
    """
    require_extra("pyro")
    for name, given in (("model", model), ("guide", guide)):
        if not callable(given):
            raise TypeError(f"{name} must be a Pyro program, got {type(given).__name__}")
    require_count("num_draws", num_draws)
    return _FittedGuide(Pair(model, guide, tuple(args), dict(kwargs))).draws(num_draws, seed)


@dataclass(frozen=True, eq=False)
class _FittedGuide(Approximation):
    """A guide with the parameters that are in Pyro's store when it is drawn from."""

    pair: Pair

    def draws(self, num_draws: int, seed: int = 0) -> Draws:
        with everything_left_as_it_was() as known_parameters:
            _seed(seed)
            seen = _inspected(self.pair, known_parameters)
            size = chunk_size(num_draws, seen.num_numbers, TORCH_BATCHES)
            batches = _batches(self.pair, seen, num_draws, size, seed)
            (log_p, log_q, rounding), values = evaluate_in_chunks(
                lambda _: next(batches),
                _evaluated,
                num_draws,
                size,
                kept_draws(num_draws, seen.num_values),
            )
        notes = (*seen.notes, *rounding_note(log_p, rounding))
        title = _title(self.pair.guide, seen)
        return Draws(values, log_p, log_q, title=title, notes=notes, q=self)


class _Draw(NamedTuple):
    """What one draw gives, or several (then with one more axis in front)."""

    random: dict[str, Any]
    """Values of the guide's sites that are not a function of others."""
    values: dict[str, Any]
    """Values of the model's latent and deterministic sites."""
    log_p: dict[str, Any]
    log_q: dict[str, Any]
    rounding: dict[str, Any]
    """Standard error, by rounding, of the sum over each site; squared."""
    outside: dict[str, Any]
    """Whether the value is outside the support of the model's site, where that was looked at."""


@dataclass(frozen=True)
class Pair:
    """A model and a guide with their arguments."""

    model: Callable[..., Any]
    guide: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def traces(self, random: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
        """Trace the guide, at given values or at new ones, and the model at the guide's."""
        from pyro import poutine

        with _errors_named():
            with _at(random or {}):
                guide_trace = poutine.trace(self.guide).get_trace(*self.args, **self.kwargs)
            replayed = poutine.replay(self.model, trace=guide_trace)
            return guide_trace, poutine.trace(replayed).get_trace(*self.args, **self.kwargs)

    def draw(self, random: Mapping[str, Any] | None = None) -> _Draw:
        """Make one draw, or evaluate a given one."""
        guide_trace, model_trace = self.traces(random)
        with _errors_named():
            guide_trace.compute_log_prob()
            model_trace.compute_log_prob()
        guide_sites, model_sites = samples_of_both(guide_trace, model_trace)
        return _Draw(
            random={name: site["value"] for name, site in random_sites(guide_sites).items()},
            values={name: site["value"] for name, site in reported_sites(model_sites).items()},
            log_p={name: log_density_of(site) for name, site in model_sites.items()},
            log_q={name: log_density_of(site) for name, site in guide_sites.items()},
            rounding={
                f"{role} {name}": rounding_of(site)
                for role, sites in (("model", model_sites), ("guide", guide_sites))
                for name, site in sites.items()
            },
            outside=outside_support(guide_sites, model_sites),
        )


@contextmanager
def _errors_named() -> Iterator[None]:
    """Say of what a user's program raises that it comes from there."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ModelError(
            "the guide, or the model with the guide's values, cannot be run with these arguments: "
            f"{type(error).__name__}: {reason}"
        ) from error


def _at(values: Mapping[str, Any]) -> Any:
    """Let sample statements take these values; ``poutine.replay`` would lose their ``infer``."""
    from pyro.poutine.messenger import Messenger

    def take(messenger: Any, message: Any) -> None:
        if message["name"] in values:
            message["value"], message["done"] = values[message["name"]], True

    return type("AtValues", (Messenger,), {"_pyro_sample": take})()


@dataclass(frozen=True)
class _Seen:
    """What the first draw tells about all of them."""

    names: frozenset[str]
    """Of all sites, in model or guide."""
    num_parameters: int
    num_values: int
    """Numbers to report for each draw."""
    num_numbers: int
    """Numbers at all sites, for each draw."""
    notes: tuple[str, ...]


def _inspected(pair: Pair, known_parameters: frozenset[str]) -> _Seen:
    """Make a draw, and refuse what has no density that could be compared."""
    check_was_run(pair.guide)
    guide_trace, model_trace = pair.traces()
    for role, program, trace in (
        ("guide", pair.guide, guide_trace),
        ("model", pair.model, model_trace),
    ):
        check_parameters(role, program, trace, known_parameters)
        check_plates(role, trace)
    guide_sites, model_sites = samples_of_both(guide_trace, model_trace)
    check_names(guide_sites, model_sites)
    check_shapes(guide_sites, model_sites)
    check_density(pair.guide, guide_sites, latent_sites(model_sites))
    numbers = [
        max(site["value"].numel(), site["fn"].batch_shape.numel())
        for sites in (guide_sites, model_sites)
        for site in sites.values()
    ]
    return _Seen(
        names=frozenset((*guide_sites, *model_sites)),
        num_parameters=num_unconstrained(latent_sites(model_sites)),
        num_values=sum(site["value"].numel() for site in reported_sites(model_sites).values()),
        num_numbers=sum(numbers),
        notes=(*scale_notes(model_sites), *parameter_notes(model_trace)),
    )


def _title(guide: Any, seen: _Seen) -> str:
    name = getattr(guide, "__name__", type(guide).__name__)
    return f"{name} fit of {seen.num_parameters} parameters (Pyro)"


def _batches(pair: Pair, seen: _Seen, num_draws: int, size: int, seed: int) -> Iterator[_Draw]:
    """Yield draws, stacked; they are made together where that can be verified."""
    _seed(seed)
    batch = _verified(pair, size) if size > 1 else None
    together = batch is not None
    if batch is None:
        _seed(seed)
        batch = _drawn_one_by_one(pair, seen, size)
    yield batch
    for start in range(size, num_draws, size):
        rest = min(size, num_draws - start)
        yield _drawn_together(pair, rest) if together else _drawn_one_by_one(pair, seen, rest)


def _verified(pair: Pair, size: int) -> _Draw | None:
    """Make draws together; None if that fails, or gives other numbers than one by one."""
    import torch

    try:
        batch = _drawn_together(pair, size)
        rows = range(min(size, _NUM_VERIFIED))
        again = _stacked(
            [pair.draw({name: value[row] for name, value in batch.random.items()}) for row in rows]
        )
    except Exception:  # whatever an operation cannot do in a batch; a loop needs none of that
        return None
    tolerance = max(
        (
            torch.finfo(value.dtype).eps ** 0.5
            for value in batch.values.values()
            if value.is_floating_point()
        ),
        default=0.0,
    )
    same = all(
        part.keys() == other.keys()
        and all(_close(part[name][: len(rows)], other[name], tolerance) for name in other)
        for part, other in zip(batch, again, strict=True)
    )
    return batch if same else None


def _close(first: Any, second: Any, tolerance: float) -> bool:
    import torch

    return first.shape == second.shape and torch.allclose(
        first.double(), second.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


def _drawn_together(pair: Pair, size: int) -> _Draw:
    import torch

    def draw(zero: Any) -> _Draw:
        with noise_for_each_draw(zero):
            return pair.draw()

    with warnings.catch_warnings():
        # An operation that torch.vmap loops over is slower, and still faster than Pyro's own cost.
        warnings.filterwarnings("ignore", message="There is a performance drop")
        return torch.vmap(draw, randomness="different")(torch.zeros(size))


def noise_for_each_draw(zero: Any) -> Any:
    """Let in-place random functions, which torch's distributions use, work in ``torch.vmap``.

    They fill a tensor that is the same for all draws, which `torch.vmap` refuses; added to a zero
    of each draw it is one tensor per draw.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    in_place = {
        getattr(torch.Tensor, name)
        for name in ("cauchy_", "exponential_", "log_normal_", "normal_", "uniform_")
    }

    def run(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in in_place:
            args = (args[0] + zero.to(args[0].dtype), *args[1:])
        return func(*args, **(kwargs or {}))

    return type("NoiseForEachDraw", (TorchFunctionMode,), {"__torch_function__": run})()


def _drawn_one_by_one(pair: Pair, seen: _Seen, size: int) -> _Draw:
    draws = [pair.draw() for _ in range(size)]
    for draw in draws:
        changing = seen.names ^ (draw.log_p.keys() | draw.log_q.keys())
        if changing:
            raise ModelError(
                f"the sites {', '.join(sorted(changing))} are not there in every draw: model and "
                "guide must have the same sites whatever the values"
            )
    return _stacked(draws)


def _stacked(draws: Sequence[_Draw]) -> _Draw:
    import torch

    return _Draw(
        *(
            {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
            for parts in zip(*draws, strict=True)
        )
    )


def _evaluated(batch: _Draw, keep: bool) -> tuple[Any, Any]:
    """Return log p, log q and their rounding; and the values, where they are kept."""
    outside = _summed(batch.outside) if batch.outside else 0.0
    log_p = np.where(outside, -np.inf, _summed(batch.log_p))
    densities = (log_p, _summed(batch.log_q), np.sqrt(_summed(batch.rounding)))
    return densities, {name: _array(v) for name, v in batch.values.items()} if keep else {}


def _summed(parts: Mapping[str, Any]) -> Floats:
    with np.errstate(invalid="ignore"):  # infinities of both signs: nan, as in Pyro
        return np.sum([_array(part) for part in parts.values()], axis=0)


def _array(tensor: Any) -> Floats:
    return tensor.detach().double().cpu().numpy()


@contextmanager
def everything_left_as_it_was() -> Iterator[frozenset[str]]:
    """Compute without gradients and validation; give back random state and parameter store.

    Yields the names of the parameters that are in the store.
    """
    import pyro
    import torch

    store = pyro.get_param_store()
    known = frozenset(store.keys())
    with torch.random.fork_rng(), torch.no_grad(), pyro.validation_enabled(False):
        try:
            yield known
        finally:
            for name in set(store.keys()) - known:
                del store[name]


def _seed(seed: int) -> None:
    import torch

    torch.manual_seed(seed)  # pyro.set_rng_seed would also set those of NumPy and Python
