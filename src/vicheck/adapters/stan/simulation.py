"""Draws from a Stan program's prior and of its data, on the host."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.stan.names import StanArray, flatten
from vicheck.adapters.stan.sources import Source, constrain_rows
from vicheck.errors import ModelError
from vicheck.model import Data

__all__ = ["Generated", "Simulation", "Simulator", "call"]

Floats = NDArray[np.float64]
Simulator = Callable[[np.random.Generator, Data], Mapping[str, Any]]


@dataclass(frozen=True)
class Simulation:
    """Draws by a user's function."""

    source: Source
    parameters: tuple[tuple[str, StanArray], ...]
    function: Simulator
    observed: tuple[str, ...]

    def __call__(self, seed: int, data: Data) -> tuple[Floats, Data]:
        drawn = call(self.function, np.random.default_rng(seed), data)
        absent = [name for name, _ in self.parameters if name not in drawn]
        if absent:
            raise ModelError(f"simulator returned no {', '.join(absent)}")
        observed = {name: np.asarray(drawn[name]) for name in self.observed}
        model = self.source.model(data | observed)
        return model.param_unconstrain(flatten(drawn, dict(self.parameters))), observed


@dataclass(frozen=True)
class Generated:
    """Draws by the program's generated quantities, which do not depend on parameters."""

    source: Source
    parameters: tuple[tuple[str, StanArray], ...]
    places: tuple[tuple[str, StanArray], ...]
    dim: int
    example: str
    """Some observed data, as JSON: a program cannot run without them."""

    def __call__(self, seed: int, data: Data) -> tuple[Floats, Data]:
        model = self.source.model(json.loads(self.example) | data)
        row = constrain_rows(
            model, np.zeros((1, self.dim)), transformed=True, generated=True, seed=seed
        )[0]
        drawn = {name: columns.take(row) for name, columns in self.places}
        z = model.param_unconstrain(flatten(drawn, dict(self.parameters)))
        known = dict(self.parameters)
        return z, {name: value for name, value in drawn.items() if name not in known}


def call(simulator: Simulator, rng: np.random.Generator, data: Data) -> Mapping[str, Any]:
    """Return what a user's function has drawn."""
    drawn = simulator(rng, dict(data))
    if not isinstance(drawn, Mapping):
        raise ModelError(
            "simulator must return parameters and observed data by name, got "
            f"{type(drawn).__name__}"
        )
    return drawn
