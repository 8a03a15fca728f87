"""The arrays of a calibration: their names, dimensions and types, listed once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vicheck.results.status import FitStatus

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["VARIABLES", "Variable", "require_variables"]


class Variable(NamedTuple):
    """What an array must be."""

    dims: tuple[str, ...]
    kinds: str
    """NumPy's codes of the types it may have; pandas keeps text as objects."""


VARIABLES = {
    "dataset": Variable(("dataset",), "iu"),
    "quantity": Variable(("quantity",), "UO"),
    "probability": Variable(("dataset", "quantity"), "f"),
    "exact": Variable(("quantity",), "b"),
    "seed": Variable(("dataset",), "iu"),
    "status": Variable(("dataset",), "UO"),
    "message": Variable(("dataset",), "UO"),
    "khat": Variable(("dataset",), "f"),
    "symmetric_kl": Variable(("dataset",), "f"),
    "num_evaluations": Variable(("dataset",), "iuf"),
    "gradient_norm": Variable(("dataset",), "f"),
    "sampling_error": Variable(("dataset",), "f"),
}
"""The variables and coordinates that every calibration has."""


def require_variables(data: xr.Dataset) -> None:
    """Raise `ValueError` unless a dataset holds what a calibration needs."""
    for name, variable in VARIABLES.items():
        dims = data[name].dims if name in data.variables else None
        if dims != variable.dims:
            raise ValueError(
                f"data must have a variable {name!r} with dimensions {variable.dims}, got {dims}"
            )
        if data[name].dtype.kind not in variable.kinds:
            raise ValueError(f"data has the variable {name!r} of type {data[name].dtype}")
    probability = data["probability"].to_numpy()
    if not probability.size:
        raise ValueError("data has no probabilities")
    if not np.all((probability >= 0) & (probability <= 1) | np.isnan(probability)):
        raise ValueError("data has probabilities that do not lie between 0 and 1")
    names = data["quantity"].to_numpy().tolist()
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ValueError(f"data must have quantities of different names, got {twice!r} twice")
    known = FitStatus.__members__
    unknown = sorted({*data["status"].to_numpy().tolist()} - {*known})
    if unknown:
        raise ValueError(
            f"data has the status {', '.join(map(str, unknown))}, but there are: {', '.join(known)}"
        )
