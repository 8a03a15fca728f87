"""Models written in Stan: JAX asks Stan for densities and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.data_files import read_data
from vicheck.adapters.host_calls import call_on_host
from vicheck.adapters.stan.bridge import as_json
from vicheck.adapters.stan.host_densities import log_density, on_host
from vicheck.adapters.stan.names import StanArray, arrays_of
from vicheck.adapters.stan.probing import probe
from vicheck.adapters.stan.simulation import Generated, Simulation, Simulator, call
from vicheck.adapters.stan.sources import (
    Source,
    StanModel,
    constrain_rows,
    gradient_rows,
    source_of,
)
from vicheck.errors import ModelError
from vicheck.indexing import Indexing
from vicheck.model import Data, Layout, Model, Program, as_data
from vicheck.runtime.progress import Progress, showing

__all__ = ["from_stan"]

Floats = NDArray[np.float64]

_SUFFIX = "_sim"


def from_stan(
    program: Any,
    data: Mapping[str, Any] | str | Path | None = None,
    *,
    observed: tuple[str, ...] | None = None,
    simulator: Simulator | Mapping[str, str] | None = None,
    progress: Progress = True,
) -> Model:
    """Take a model written in Stan.

    Stan itself evaluates the density and its gradient, with all constants (also those that ``~``
    statements drop) and the Jacobian. Programs are compiled by BridgeStan where it is installed
    with its sources, and otherwise with the compiler and headers that ``httpstan`` carries and g++;
    this takes 10 to 30 seconds, and compiled programs are kept in the user's cache directory.

    Parameters
    ----------
    program
        Path of a ``.stan`` file; or an object with the interface of BridgeStan's ``StanModel``,
        which already has its data.
    data
        The program's data by name, or the path of a JSON file with them.
    observed
        Names of the data that are observed, as opposed to sizes and covariates: by default those
        that the simulator draws.
    simulator
        What `vicheck.vsbc` needs: a function of a NumPy generator and the data, which draws from
        the prior and returns all parameters and the observed data by name. Or a dictionary from
        those names to variables of the program's ``generated quantities`` block that are such
        draws; by default the variables with the same names and ``_sim`` at the end, if the block
        has them.
    progress
        Whether to show a line on standard error while the program is compiled, after a second and
        where that is a terminal or a notebook; or a function to call with each sentence instead.

    Returns
    -------
    Model
        For `vicheck.fit`, `vicheck.check` and `vicheck.vsbc`. Transformed parameters count as
        derived quantities; generated quantities, which may be random, do not.

    Raises
    ------
    ModelError
        When the program does not compile or Stan rejects the data; the message is Stan's.
    MissingExtraError
        When neither BridgeStan nor httpstan is installed.
    """
    if isinstance(data, str | Path):
        data = read_data(data)
    arrays = {name: as_data(name, value) for name, value in (data or {}).items()}
    with showing(progress, "reading the program") as say:
        source = source_of(program, say)
    name = Path(program).name if isinstance(program, str | Path) else type(program).__name__
    draft = _StanProgram(source, name)
    if callable(simulator):
        drawn = call(simulator, np.random.default_rng(0), arrays)
        built, observed = draft.with_drawn(arrays, drawn, observed)
        imagined = {each: as_data(each, drawn[each]) for each in observed}
        missing = tuple(each for each in observed if each not in arrays)
    else:
        built, imagined, missing = draft.with_layout(arrays), {}, ()
    built = built.with_simulator(imagined | arrays, observed, simulator)
    return Model(built, arrays, missing, name)


@dataclass(frozen=True)
class _StanProgram(Program):
    """A Stan program without its data, in terms of functions that run on the host."""

    indexing = Indexing.STAN

    source: Source
    name: str
    layout: Layout = ()
    entries: tuple[str, ...] = ()
    """Name of each entry of z."""
    parameters: tuple[tuple[str, StanArray], ...] = ()
    """Parameters among all constrained numbers."""
    derived: tuple[tuple[str, StanArray], ...] = ()
    """Transformed parameters among all constrained numbers."""
    joint: tuple[str, ...] = ()
    """Parameters with elements that depend on several entries of z."""
    decreasing: tuple[str, ...] = ()
    """Parameters that fall where z rises."""
    draw: Callable[[int, Data], tuple[Floats, Data]] | None = None
    """Simulates z and the observed data on the host."""
    simulated: tuple[tuple[str, tuple[int, ...], str], ...] = ()
    """Observed data that are simulated: names, shapes and types."""

    @property
    def coordinates(self) -> tuple[str, ...]:
        return self.entries

    @property
    def identity(self) -> str:
        return self.source.identity

    @property
    def observed(self) -> tuple[str, ...]:
        return tuple(name for name, *_ in self.simulated)

    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        return log_density(self, z, data)

    def density_on_host(self, data: Data) -> Callable[[Any], tuple[Any, Any]]:
        return partial(gradient_rows, self.source.model(data))

    def constrain(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        columns = dict(self.parameters + self.derived)
        width = sum(len(each.places) for each in columns.values())

        def host(model: StanModel, rows: Floats) -> tuple[Floats]:
            return (constrain_rows(model, rows, transformed=True),)

        (flat,) = on_host(self, host, [(width,)], z, data)
        return {name: each.take(flat) for name, each in columns.items()}

    def unconstrain(self, theta: Mapping[str, Any], data: Data) -> jax.Array:
        groups = dict(self.parameters)
        for name, group in groups.items():
            if jnp.shape(theta[name]) != group.shape:
                raise ModelError(
                    f"{name} must have shape {group.shape}, got {jnp.shape(theta[name])}"
                )
        order = np.argsort(np.concatenate([group.places for group in groups.values()]))
        flat = jnp.concatenate([jnp.ravel(jnp.asarray(theta[name], float)) for name in groups])

        def host(model: StanModel, rows: Floats) -> tuple[Floats]:
            return (np.stack([model.param_unconstrain(row) for row in rows]),)

        (z,) = on_host(self, host, [(self.dim,)], flat[order], data)
        return z

    def locate_trouble(self, z: jax.Array, data: Data) -> str:
        model = self.source.model(data)
        gradient_rows(model, np.asarray(z)[None])
        message = getattr(model, "message", "")
        return f"the Stan program {self.name}" + (f" ({message})" if message else "")

    def check_data(self, data: Data) -> None:
        dim = self.source.model(data).param_unc_num()
        if dim != self.dim:
            raise ModelError(
                f"with this data the model has {dim} unconstrained parameters, before {self.dim}: "
                "make a new model with from_stan"
            )

    def is_elementwise(self, name: str) -> bool:
        return name not in self.joint

    def is_decreasing(self, name: str) -> bool:
        return name in self.decreasing

    def require_simulation(self) -> None:
        if self.draw is None:
            raise ModelError(
                "this Stan model cannot simulate data",
                hint="give from_stan a simulator=, or let its generated quantities draw every "
                f"parameter and the observed data: tau as tau{_SUFFIX}, y as y{_SUFFIX}",
            )

    def simulate(self, key: jax.Array, data: Data) -> tuple[jax.Array, Data]:
        self.require_simulation()
        given = {k: v for k, v in data.items() if k not in {name for name, *_ in self.simulated}}
        results: list[Any] = [((self.dim,), np.float64)]
        results += [(shape, dtype) for _, shape, dtype in self.simulated]
        seed = jax.random.bits(key, dtype=jnp.uint32)
        draw: Any = self.draw

        def host(seed: Any, given: Data) -> tuple[Any, ...]:
            z, drawn = draw(int(seed), given)
            return (z, *(drawn[name] for name, *_ in self.simulated))

        z, *drawn = call_on_host(host, results, seed, given, vmap_method="sequential")
        return z, {name: each for (name, *_), each in zip(self.simulated, drawn, strict=True)}

    def replicate(self, key: jax.Array, z: jax.Array, data: Data) -> Data:
        raise ModelError(
            "a Stan model simulates parameters and data together: posterior=True needs data given "
            "parameters"
        )

    def with_layout(self, data: Data) -> _StanProgram:
        """Return the program that knows its parameters, from what moves with each entry of z."""
        model = self.source.model(data)
        dim = model.param_unc_num()
        if not dim:
            raise ModelError(f"{self.name} has no parameters")
        groups = arrays_of(model.param_names(include_tp=False, include_gq=False))
        every = arrays_of(model.param_names(include_tp=True, include_gq=False))
        effects = probe(model, dim)
        layout: list[tuple[str, tuple[int, ...]]] = []
        entries: list[str] = []
        joint, decreasing = [], []
        for name, group in groups.items():
            effect = effects.of_array(group.places)
            if not effect.entries:
                continue
            layout.append((name, group.shape if effect.in_order else (len(effect.entries),)))
            if effect.elements:
                elements = self.indexing.labels({name: group.shape})
                entries += [elements[each] for each in effect.elements]
            else:
                entries += self.indexing.labels(dict(layout[-1:]))
            if not (effect.in_order and effect.alone):
                joint.append(name)
            if effect.falling:
                decreasing.append(name)
        return replace(
            self,
            layout=tuple(layout),
            entries=tuple(entries),
            parameters=tuple((name, group) for name, group in groups.items()),
            derived=tuple((name, group) for name, group in every.items() if name not in groups),
            joint=tuple(joint),
            decreasing=tuple(decreasing),
        )

    def with_drawn(
        self, data: Data, drawn: Mapping[str, Any], observed: tuple[str, ...] | None
    ) -> tuple[_StanProgram, tuple[str, ...]]:
        """Return the program that knows its parameters, and which of a simulator's draws are data.

        The program itself shows which: without its observed data it does not run.
        """
        for name in observed or ():
            if name not in drawn:
                raise ModelError(f"simulator returned no {name}, which is observed")
        if observed is not None:
            imagined = {name: as_data(name, drawn[name]) for name in observed}
            return self.with_layout(imagined | data), observed
        try:
            built, candidates = self.with_layout(data), tuple(data)
        except ModelError:
            imagined = {name: as_data(name, value) for name, value in drawn.items()}
            built, candidates = self.with_layout(imagined | data), tuple(drawn)
        known = dict(built.parameters + built.derived)
        names = tuple(name for name in candidates if name in drawn and name not in known)
        if not names:
            raise ModelError(
                f"simulator returned {', '.join(drawn) or 'nothing'}, of which nothing is data of "
                "the program",
                hint="let it also return what is observed, by name",
            )
        return built, names

    def with_simulator(
        self,
        data: Data,
        observed: tuple[str, ...] | None,
        simulator: Simulator | Mapping[str, str] | None,
    ) -> _StanProgram:
        """Return the program that can simulate, if it has what it takes."""
        if callable(simulator):
            present = tuple(observed or ())
            draw: Any = Simulation(self.source, self.parameters, simulator, present)
        else:
            present = self._drawn_by_stan(data, observed, dict(simulator or {}))
            draw = self._generated(data, present, simulator) if present else None
        simulated = tuple((name, data[name].shape, data[name].dtype.str) for name in present)
        return replace(self, draw=draw, simulated=simulated)

    def _drawn_by_stan(
        self, data: Data, observed: tuple[str, ...] | None, names: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Return the data that are observed: those named, or those that Stan draws."""
        others = [name for name in names if name not in dict(self.parameters)]
        for name in [*others, *(observed or ())]:
            if name not in data:
                known = ", ".join(data) or "none"
                raise ModelError(f"{name!r} is to be simulated, but the data are: {known}")
        if observed is not None:
            return observed
        there = arrays_of(self.source.model(data).param_names(include_tp=True, include_gq=True))
        return tuple(name for name in data if names.get(name, f"{name}{_SUFFIX}") in there)

    def _generated(
        self, data: Data, observed: tuple[str, ...], names: Mapping[str, str] | None
    ) -> Generated | None:
        wanted = [*(name for name, _ in self.parameters), *observed]
        chosen = {name: f"{name}{_SUFFIX}" for name in wanted} | dict(names or {})
        model = self.source.model(data)
        there = arrays_of(model.param_names(include_tp=True, include_gq=True))
        absent = [name for name in wanted if chosen[name] not in there]
        if absent and names is None:
            return None
        if absent:
            raise ModelError(
                f"the program has no {', '.join(chosen[name] for name in absent)} to simulate "
                f"{', '.join(absent)} with"
            )
        places = tuple((name, there[chosen[name]]) for name in wanted)
        example = as_json({name: data[name] for name in observed})
        return Generated(self.source, self.parameters, places, self.dim, example)
