"""A model that conditions on observed data and on a replicate of it: posterior SBC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vicheck.model import Data, Layout, Program

__all__ = ["REPLICATE", "ReplicatedProgram"]

REPLICATE = "replicate"
"""Under this name the data hold the replicated observations."""


@dataclass(frozen=True)
class ReplicatedProgram(Program):
    """The posterior of one dataset as the prior of another, drawn from the same parameters."""

    program: Program

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """Names and shapes of the parameters on the unconstrained scale."""
        return self.program.layout

    @property
    def stand_ins(self) -> tuple[tuple[str, str], ...]:  # type: ignore[override]
        """Parameters that are only coordinates, each with what is reported in its place."""
        return self.program.stand_ins

    @property
    def identity(self) -> str:
        """What tells the program apart from others where JAX does not see what is computed."""
        return self.program.identity

    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        observed, replicated = _parts(data)
        sites = self.program.log_likelihood(z, replicated).values()
        return self.program.log_density(z, observed) + sum(jnp.sum(site) for site in sites)

    def log_likelihood(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        observed, replicated = _parts(data)
        again = self.program.log_likelihood(z, replicated)
        return self.program.log_likelihood(z, observed) | {
            f"{name} ({REPLICATE})": value for name, value in again.items()
        }

    def constrain(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        return self.program.constrain(z, _parts(data)[0])

    def unconstrain(self, theta: Mapping[str, Any], data: Data) -> jax.Array:
        return self.program.unconstrain(theta, _parts(data)[0])

    def locate_trouble(self, z: jax.Array, data: Data) -> str:
        observed, replicated = _parts(data)
        return (
            f"{self.program.locate_trouble(z, observed)}, or with the replicate in "
            f"{self.program.locate_trouble(z, replicated)}"
        )

    def check_data(self, data: Data) -> None:
        for part in _parts(data):
            self.program.check_data(part)

    def is_elementwise(self, name: str) -> bool:
        return self.program.is_elementwise(name)

    def is_decreasing(self, name: str) -> bool:
        return self.program.is_decreasing(name)


def _parts(data: Data) -> tuple[Data, Data]:
    """Return the data with the observations, and with the replicate in their place."""
    observed = {name: value for name, value in data.items() if name != REPLICATE}
    return observed, observed | data[REPLICATE]
