"""ArviZ: draws and their weights, or calibration probabilities, as a DataTree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["calibration_datatree", "to_datatree"]

_ELEMENT = re.compile(r"(?P<name>.+)\[(?P<index>\d+(?:, \d+)*)\]")


def to_datatree(
    draws: Mapping[str, NDArray[np.float64]],
    stats: Mapping[str, NDArray[np.float64]],
    attributes: Mapping[str, Any],
) -> xr.DataTree:
    """Return draws of one chain as ArviZ data: groups ``posterior`` and ``sample_stats``."""
    from arviz_base import from_dict

    groups = {
        "posterior": {name: array[None] for name, array in draws.items()},
        "sample_stats": {name: array[None] for name, array in stats.items()},
    }
    tree = from_dict(groups)
    tree["posterior"].attrs.update(attributes)
    return tree


def calibration_datatree(
    probabilities: NDArray[np.float64],
    names: Sequence[str],
    datasets: NDArray[np.int64],
    stats: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, Any],
) -> xr.DataTree:
    """Return calibration probabilities as ArviZ data: what its ``plot_ecdf_pit`` reads.

    The group ``prior_sbc`` has one variable for each parameter, of values between 0 and 1, with
    dimensions ``chain`` (one), ``draw`` (the datasets) and those of the parameter; the group
    ``sample_stats`` has one value for each dataset.
    """
    from arviz_base import from_dict

    groups = {
        "prior_sbc": {
            name: array[None] for name, array in _assembled(probabilities, names).items()
        },
        "sample_stats": {name: np.asarray(array)[None] for name, array in stats.items()},
    }
    tree = from_dict(groups, coords={"draw": datasets}, check_conventions=False)
    tree["prior_sbc"].attrs.update(attributes)
    return tree


def _assembled(
    columns: NDArray[np.float64], names: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Join ``theta[0]``, ``theta[1]`` and so on to arrays; an incomplete array stays in parts."""
    places: dict[str, dict[tuple[int, ...], int]] = {}
    for column, name in enumerate(names):
        match = _ELEMENT.fullmatch(name)
        index = tuple(map(int, match["index"].split(", "))) if match else ()
        places.setdefault(match["name"] if match else name, {})[index] = column
    arrays = {}
    for name, indices in places.items():
        rank = max(map(len, indices))
        full = all(len(index) == rank for index in indices)
        shape = tuple(
            1 + max(index[axis] for index in indices) for axis in range(rank if full else 0)
        )
        if full and len(indices) == int(np.prod(shape)):
            order = [indices[index] for index in np.ndindex(*shape)]
            arrays[name] = columns[:, order].reshape(len(columns), *shape)
        else:
            arrays |= {names[column]: columns[:, column] for column in indices.values()}
    return arrays
