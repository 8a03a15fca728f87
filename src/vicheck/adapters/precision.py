"""Numbers of other libraries, which compute in single precision by default."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

__all__ = ["in_double"]


def in_double(tree: Any) -> Any:
    """Return a tree of arrays with all floating-point numbers in float64."""
    return jax.tree.map(_wide, tree)


def _wide(leaf: Any) -> Any:
    array = np.asarray(leaf)
    return array.astype(np.float64) if array.dtype.kind == "f" else array
