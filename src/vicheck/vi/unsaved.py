"""What stands for the program of a model whose fit was loaded without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import jax

from vicheck.errors import ModelError
from vicheck.indexing import Indexing
from vicheck.model import Data, Layout, Program

__all__ = ["UnsavedProgram"]


@dataclass(frozen=True, eq=False)
class UnsavedProgram(Program):
    """Names and shapes of parameters, and nothing else: a model's code cannot be saved."""

    layout: Layout
    names: tuple[str, ...]
    """Of the entries of z."""
    indexing: Indexing = Indexing.PYTHON

    @property
    def coordinates(self) -> tuple[str, ...]:
        return self.names

    def snapshot(self) -> NoReturn:
        """Say so at once, and not out of JAX: every computation begins with this."""
        _fail()

    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        _fail()

    def constrain(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        _fail()

    def unconstrain(self, theta: Mapping[str, Any], data: Data) -> jax.Array:
        _fail()

    def log_likelihood(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        _fail()

    def locate_trouble(self, z: jax.Array, data: Data) -> str:
        _fail()

    def check_data(self, data: Data) -> None:
        _fail()

    def require_simulation(self) -> None:
        _fail()


def _fail() -> NoReturn:
    raise ModelError(
        "this needs the model, and the fit was loaded without it",
        hint="give the model that was fitted, with its data: vicheck.load(path, model=model)",
    )
