"""NumPyro guides, automatic or hand-written, after SVI: draws from them."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.distributions import Delta, biject_to
from numpyro.infer.autoguide import (
    AutoGuide,
    AutoLaplaceApproximation,
    AutoMultivariateNormal,
)
from numpyro.infer.util import log_density

from vicheck.adapters.gradient_test import UNTESTED
from vicheck.adapters.numpyro.guide_gradient import gradient_of_guide
from vicheck.adapters.numpyro.models import from_numpyro
from vicheck.adapters.numpyro.program import NumpyroProgram
from vicheck.adapters.numpyro.traces import WholePlates, tracing
from vicheck.adapters.numpyro.tuples import as_dictionary, is_data, with_tuples
from vicheck.adapters.precision import in_double
from vicheck.draws import Approximation, Draws, require_function
from vicheck.errors import ARGUMENTS_DO_NOT_FIT, ModelError, in_brief
from vicheck.evaluation import SEPARATE_CHUNKS, chunk_size, evaluate_in_chunks, kept_draws
from vicheck.model import Data, Model, double_precision
from vicheck.results.convergence import Convergence
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import compiled
from vicheck.runtime.tracing import Traced

__all__ = ["Guide", "draws_of_guide", "program_of", "rise_at_end"]

Floats = NDArray[np.float64]

_NOT_FINITE = "The loss was not finite at the end of the run."


def draws_of_guide(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    params: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    num_draws: int,
    seed: int,
) -> Draws:
    """Draw from a guide with fitted parameters, with both log densities, in float64."""
    require_function("model", model)
    require_function("guide", guide)
    values, losses = _params_of(params)
    name = type(guide).__name__ if isinstance(guide, AutoGuide) else _name_of(guide)
    by_elbo = not isinstance(guide, AutoLaplaceApproximation)  # its optimum is that of log p
    with double_precision():
        fixed = in_double(values)
        if isinstance(guide, AutoLaplaceApproximation):
            guide, fixed = _as_normal(model, guide, fixed, args, kwargs)
        if any(map(is_data, (*args, *kwargs.values()))):
            model, guide = with_tuples(model), with_tuples(guide)
            args = tuple(as_dictionary(each) if is_data(each) else each for each in args)
            kwargs = {
                key: as_dictionary(each) if is_data(each) else each for key, each in kwargs.items()
            }
        # Not to be simulated, and what the guide draws is a parameter: nothing is left to find out.
        target = from_numpyro(_without_params(model, fixed, args, kwargs), *args,
                              observed=(), **kwargs)  # fmt: skip
        approximation = Guide(program_of(target), guide, _positions(model, args)).snapshot()
        approximation.check(fixed, target.data)
    drawn = _FittedGuide(
        approximation, fixed, target, f"{name} of {target.dim} parameters (NumPyro)"
    ).draws(num_draws, seed)
    trace = np.empty(0) if losses is None else -np.asarray(losses, np.float64)
    notes = [_NOT_FINITE] if trace.size and not np.isfinite(trace[-1]) else []
    convergence = None
    if by_elbo:
        convergence, note = _convergence(approximation, fixed, target, trace, seed)
        notes += [note] if note else []
    return replace(drawn, notes=tuple(notes), elbo_trace=trace, convergence=convergence)


def _convergence(
    approximation: Guide, params: Mapping[str, Any], target: Model, trace: Floats, seed: int
) -> tuple[Convergence | None, str]:
    """Return what is known of the optimiser: the gradient at its end, and whether it still rose.

    A note says why there is no gradient.
    """
    test, note = UNTESTED, ""
    try:
        if approximation.is_smooth(params, target.data):
            test = gradient_of_guide(approximation, params, target.data, seed)
    except Exception as error:  # a check of draws needs no gradient, and must not fail without
        note = f"The gradient of the guide's ELBO could not be tested ({in_brief(error)})."
    rise, steps = rise_at_end(trace)
    if not test.num_draws and not steps:
        return None, note
    known = Convergence(
        FitStatus.UNKNOWN, "SVI", test, elbo_rise=rise, elbo_rise_steps=steps, richer=""
    )
    return known, note


@dataclass(frozen=True, eq=False)
class Guide(Traced):
    """A guide beside the program it approximates.

    Compiled code belongs to one such object: what model and guide compute may depend on numbers
    outside them, which may have changed when the next is made.
    """

    program: NumpyroProgram
    guide: Callable[..., Any]
    positional: tuple[str, ...] = ()
    """Arguments of the model that the guide gets by position: it may call them otherwise."""

    @property
    def dim(self) -> int:
        """Length of z: how large the model is."""
        return self.program.dim

    def check(self, params: Mapping[str, Any], data: Data) -> None:
        """Run the guide once, so that it is set up, and say what does not fit the model."""
        sites = self._trace(jax.random.key(0), params, data)
        drawn = {
            name: site
            for name, site in sites.items()
            if site["type"] == "sample" and not site["is_observed"]
        }
        missing = [
            name for name, site in sites.items() if site["type"] == "param" and name not in params
        ]
        if missing:
            raise ModelError(f"params lacks {', '.join(missing)}, which the guide needs")
        self._check_names(sites, drawn)
        self._check_density(drawn)

    def _check_names(self, sites: Mapping[str, Any], drawn: Mapping[str, Any]) -> None:
        shapes = self.program.shapes
        for name, shape in shapes.items():
            if name not in sites:
                raise ModelError(
                    f"the guide does not cover the latent site {name!r} of the model; it has: "
                    f"{', '.join(drawn) or 'none'}",
                    hint=f"if {name!r} was observed in the fit, give the model's data for it",
                )
            came = jnp.shape(sites[name]["value"])
            if came != shape:
                raise ModelError(
                    f"the guide must draw site {name!r} with shape {shape}, as the model does, got "
                    f"{came}"
                )
        for name, site in drawn.items():
            if name not in shapes and not site["infer"].get("is_auxiliary", False):
                raise ModelError(
                    f"the guide draws a site {name!r} that the model does not have; the model has: "
                    f"{', '.join(shapes)}"
                )

    def _check_density(self, drawn: Mapping[str, Any]) -> None:
        """Refuse a guide that draws fewer or more random numbers than the model has parameters."""
        random = {name: site for name, site in drawn.items() if not _is_point(site["fn"])}
        points = [name for name in drawn if name not in random and name in self.program.shapes]
        count = sum(_num_unconstrained(site["fn"]) for site in random.values())
        if not count:
            raise ModelError(
                "the guide is a point, which has no density, so there is nothing to check: it "
                "finds a mode, and no spread around it, as AutoDelta does",
                hint="fit AutoLaplaceApproximation or AutoNormal in its place",
            )
        draws = f"the guide draws {count} random numbers for {self.program.dim} parameters"
        if count < self.program.dim:
            raise ModelError(
                f"{draws}: it is a point in some directions (of {', '.join(points)}), and has no "
                "density"
            )
        if count > self.program.dim:
            extra = ", ".join(name for name in random if name not in self.program.shapes)
            raise ModelError(
                f"{draws}: its density of the parameters is an integral over auxiliary numbers "
                f"({extra}), which is not known"
            )

    def one(self, key: jax.Array, params: Any, data: Data) -> tuple[jax.Array, jax.Array, Any]:
        """Return log p, log q and the parameters of one draw.

        Both densities are evaluated at the guide's own values, on the parameters' own scale: the
        way to the unconstrained scale and back would lose digits near bounds. The Jacobian is then
        added to both.
        """
        guide = handlers.seed(WholePlates(self.guide), key)
        args, kwargs = self._call(data)
        with tracing():
            log_q, sites = log_density(guide, args, kwargs, params)
        theta = {name: sites[name]["value"] for name in self.program.shapes}
        log_p, values = self.program.log_density_at(theta, data)
        _, log_jacobian = self.program.unconstrain_with_jacobian(theta, data)
        log_jacobian = jnp.where(jnp.isfinite(log_jacobian), log_jacobian, 0.0)
        return log_p + log_jacobian, log_q + log_jacobian, values

    def place(self, key: jax.Array, params: Any, data: Data) -> jax.Array:
        """Return one draw on the unconstrained scale."""
        sites = self._trace(key, params, data)
        theta = {name: sites[name]["value"] for name in self.program.shapes}
        return self.program.unconstrain(theta, data)

    def is_smooth(self, params: Any, data: Data) -> bool:
        """Whether draws have derivatives with respect to all parameters."""
        sites = self._trace(jax.random.key(0), params, data).values()
        drawn = [each for each in sites if each["type"] == "sample" and not each["is_observed"]]
        return all(_is_point(each["fn"]) or each["fn"].has_rsample for each in drawn)

    def draw(
        self, params: Any, data: Data, num_draws: int, seed: int
    ) -> tuple[Floats, Floats, dict[str, Floats]]:
        """Return log p, log q and named draws; of the latter as many as memory allows."""
        width = self.dim + sum(np.size(leaf) for leaf in jax.tree.leaves(data))
        size = chunk_size(num_draws, width, SEPARATE_CHUNKS)
        root = jax.random.key(seed)
        shapes = jax.eval_shape(self.one, root, params, data)[2]

        def evaluate(keys: Any, keep: bool) -> tuple[Any, Any]:
            log_p, log_q, theta = _evaluate(self, keys, params, data)
            return (log_p, log_q), theta if keep else {}

        (log_p, log_q), theta = evaluate_in_chunks(
            lambda index: jax.random.split(jax.random.fold_in(root, index), size),
            evaluate,
            num_draws,
            size,
            kept_draws(num_draws, sum(math.prod(each.shape) for each in shapes.values())),
        )
        order = [name for name, _ in self.program.layout]
        order += [name for name in theta if name not in order]
        return log_p, log_q, {name: theta[name] for name in order}

    def _call(self, data: Data) -> tuple[list[Any], dict[str, Any]]:
        """Return what the guide is called with."""
        arguments = self.program.arguments(data)
        return [arguments.pop(name) for name in self.positional], arguments

    def _trace(self, key: jax.Array, params: Any, data: Data) -> dict[str, Any]:
        guide = handlers.seed(handlers.substitute(WholePlates(self.guide), data=params), key)
        args, kwargs = self._call(data)
        with tracing():
            return dict(handlers.trace(guide).get_trace(*args, **kwargs))


@dataclass(frozen=True, eq=False)
class _FittedGuide(Approximation):
    """A guide at its fitted parameters, beside the model."""

    guide: Guide
    params: Mapping[str, Any]
    target: Model
    title: str

    def draws(self, num_draws: int, seed: int = 0) -> Draws:
        with double_precision():
            log_p, log_q, theta = self.guide.draw(self.params, self.target.data, num_draws, seed)
        return Draws(theta, log_p, log_q, title=self.title, model=self.target, q=self)


@compiled()
def _evaluate(approximation: Guide, keys: Any, params: Any, data: Data) -> Any:
    return jax.vmap(lambda key: approximation.one(key, params, data))(keys)


def rise_at_end(elbos: Floats) -> tuple[float, int]:
    """Return by how much the ELBO was still rising at the end of a run, and over how many steps.

    The last fifth of its estimates in two halves, whose means are compared. Each has fresh random
    numbers, so their spread tells the error. NaN and 0 where nothing is seen to rise.
    """
    if len(elbos) < 100:
        return np.nan, 0
    last = elbos[-(len(elbos) // 5) :]
    before, after = np.array_split(last, 2)
    error = np.sqrt(before.var(ddof=1) / before.size + after.var(ddof=1) / after.size)
    gain = float(after.mean() - before.mean())
    if not gain >= max(3.0 * error, 0.01):
        return np.nan, 0
    return gain, int(after.size)


def _as_normal(
    model: Callable[..., Any],
    guide: AutoLaplaceApproximation,
    params: Mapping[str, Any],
    args: Any,
    kwargs: Any,
) -> tuple[AutoMultivariateNormal, dict[str, Any]]:
    """Return the normal that Laplace's method finds at the mode, as a guide with parameters."""
    with tracing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a singular Hessian is an error here
        if guide.prototype_trace is None:
            handlers.seed(guide, jax.random.key(0))(*args, **kwargs)
        posterior = guide.get_posterior(dict(params))
    scale = np.asarray(posterior.scale_tril)
    if not (np.isfinite(scale).all() and np.diag(scale).all()):
        raise ModelError(
            "AutoLaplaceApproximation has no density: the Hessian of the log density at its point "
            "is not that of a maximum",
            hint="run SVI longer, until it is at a mode, or use AutoNormal",
        )
    normal = AutoMultivariateNormal(model, prefix=guide.prefix)
    loc = {f"{guide.prefix}_loc": posterior.loc, f"{guide.prefix}_scale_tril": scale}
    return normal, dict(params) | loc


def _params_of(params: Any) -> tuple[dict[str, Any], Any]:
    """Return the values, and the losses where they are known."""
    losses = getattr(params, "losses", None)
    values = getattr(params, "params", params)
    if not isinstance(values, Mapping):
        raise TypeError(
            "params must be the dictionary that svi.get_params returns, or the result of svi.run, "
            f"got {type(params).__name__}"
        )
    return dict(values), losses


def _without_params(
    model: Callable[..., Any], params: Mapping[str, Any], args: Any, kwargs: Any
) -> Callable[..., Any]:
    """Return the model at fixed values of its own ``numpyro.param`` sites, where it has any."""
    try:
        inspect.signature(model).bind(*args, **kwargs)
    except TypeError as error:
        raise ModelError(
            f"the arguments do not fit the model: {error}", code=ARGUMENTS_DO_NOT_FIT
        ) from error
    with tracing():
        sites = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(*args, **kwargs)
    own = [name for name, site in sites.items() if site["type"] == "param"]
    absent = [name for name in own if name not in params]
    if absent:
        raise ModelError(f"params lacks {', '.join(absent)}, which the model needs")
    if not own:
        return model
    fixed = handlers.substitute(model, data={name: params[name] for name in own})
    return functools.wraps(model)(handlers.block(fixed, hide=own))


def program_of(target: Model) -> NumpyroProgram:
    """Return the program of a model that was written in NumPyro."""
    program = target.program
    assert isinstance(program, NumpyroProgram)
    return program


def _positions(model: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the model's names of the arguments that were given by position."""
    return tuple(inspect.signature(model).parameters)[: len(args)]


def _num_unconstrained(fn: Any) -> int:
    if fn.support.is_discrete:
        return math.prod(fn.shape())
    return math.prod(biject_to(fn.support).inverse_shape(fn.shape()))


def _is_point(fn: Any) -> bool:
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return isinstance(fn, Delta)


def _name_of(function: Any) -> str:
    return f"guide {getattr(function, '__name__', type(function).__name__)}"
