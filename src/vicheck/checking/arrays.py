"""Arrays, dictionaries, DataFrames and tables of draws, as `check_draws` takes them."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.draws import Draws, as_numbers
from vicheck.errors import ArgumentError
from vicheck.indexing import Indexing
from vicheck.stats.psis import as_vector

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["draws_of_arrays", "draws_of_columns"]

Floats = NDArray[np.float64]

_SEEN, _MOST_COLUMNS = 2000, 40
"""Draws, and parameters at most, with which the scale of log_q is looked at."""


def draws_of_arrays(draws: Any, log_p: Any, log_q: Any, names: Sequence[str] | None) -> Draws:
    """Return draws with log densities that are arrays of their own."""
    p, q = as_vector(log_p, "log_p"), as_vector(log_q, "log_q")
    if p.size != q.size:
        raise ValueError(f"log_p and log_q must have one value per draw, got {p.size} and {q.size}")
    arrays = _named(draws, names, p.size)
    for name, array in arrays.items():
        if np.ndim(array) == 0 or len(array) != p.size:
            raise ValueError(
                f"{name} must have one row for each of the {p.size} draws, got shape "
                f"{np.shape(array)}"
            )
    return Draws(arrays, p, q, notes=_scale_notes(arrays, q))


def draws_of_columns(draws: Any, log_p: Any, log_q: Any, names: Sequence[str] | None) -> Draws:
    """Return draws whose log densities are columns among them."""
    from vicheck.adapters.tables import draws_of_table, read_draws

    for name, value in (("log_p", log_p), ("log_q", log_q)):
        if not isinstance(value, str | None):
            problem = f"must be the name of a column too, got {type(value).__name__}"
            raise ArgumentError(name, problem, hint="name both densities, or give both")
    if names is not None:
        raise ArgumentError("names", "go with an array: columns of a table have their own")
    if isinstance(draws, str | os.PathLike):
        drawn = read_draws(Path(draws), log_p, log_q)
    elif isinstance(draws, Mapping):
        drawn = draws_of_table(draws, log_p, log_q)
    elif _is_data_frame(draws):
        labels = [str(label) for label in draws.columns]
        _require_names(labels, len(labels))
        columns = {label: draws.iloc[:, place] for place, label in enumerate(labels)}
        drawn = draws_of_table(columns, log_p, log_q)
    else:
        problem = "must be given with an array of draws, which has no columns of that name"
        raise ArgumentError("log_p" if log_p is None else "log_q", problem)
    return replace(drawn, notes=(*drawn.notes, *_scale_notes(drawn.values, drawn.log_q)))


def _scale_notes(arrays: Mapping[str, Floats], log_q: Floats) -> tuple[str, ...]:
    """Note if log_q turns out to be a density of the parameters on their own scale."""
    from vicheck.stats.density_scale import columns_on_their_own_scale

    size = sum(array[0].size for array in arrays.values()) if len(log_q) else 0
    if size > _MOST_COLUMNS or not len(log_q):
        return ()
    columns = np.concatenate([a[:_SEEN].reshape(len(a[:_SEEN]), -1) for a in arrays.values()], 1)
    constrained = columns_on_their_own_scale(columns, log_q[:_SEEN])
    if not constrained:
        return ()
    names = Indexing.PYTHON.labels({name: array.shape[1:] for name, array in arrays.items()})
    these = ", ".join(names[column] for column in constrained)
    return (
        f"log_q is a density of {these} as they are, not on the unconstrained scale: with a log_p "
        "that includes the Jacobian add it to log_q too (for a positive x that is log x).",
    )


def _named(
    draws: ArrayLike | Mapping[str, ArrayLike] | pd.DataFrame,
    names: Sequence[str] | None,
    num_draws: int,
) -> dict[str, Floats]:
    if _is_data_frame(draws):
        chosen = list(draws.columns) if names is None else names
        _require_names(chosen, draws.shape[1])
        draws = {str(name): draws.iloc[:, place] for place, name in enumerate(chosen)}
        names = None
    if isinstance(draws, Mapping):
        if names is not None:
            raise ValueError("names go with an array; a dictionary of draws has its own")
        if not draws:
            raise ValueError("draws must hold at least one array, got an empty dictionary")
        return {name: as_numbers(name, array) for name, array in draws.items()}
    array = as_numbers("draws", draws)
    if array.ndim == 2 and not array.shape[1]:
        raise ValueError(f"draws must have at least one column, got shape {array.shape}")
    if array.ndim != 2 or len(array) != num_draws:
        raise ValueError(
            f"draws must have shape ({num_draws}, d), one row for each value of log_p, "
            f"got shape {array.shape}"
        )
    if names is None:
        return {"x": array}
    _require_names(names, array.shape[1])
    return {name: array[:, column] for column, name in enumerate(names)}


def _is_data_frame(draws: Any) -> TypeGuard[pd.DataFrame]:
    """Whether something is a pandas table; pandas is not loaded to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(draws, pandas.DataFrame)


def _require_names(names: Collection[Any], num_columns: int) -> None:
    if not len(names) == len({str(name) for name in names}) == num_columns:
        raise ValueError(
            f"names must hold {num_columns} different names, one for each column, got {list(names)}"
        )
