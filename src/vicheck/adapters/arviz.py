"""ArviZ: draws and their weights as a DataTree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["to_datatree"]


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
