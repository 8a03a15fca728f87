"""`load`: any result from its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vicheck.errors import InputFileError
from vicheck.results.archive import result_kind

if TYPE_CHECKING:
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check

__all__ = ["load"]


def load(path: str | Path) -> Check | Calibration:
    """Read a saved result: a check or a calibration, whichever the file holds.

    Parameters
    ----------
    path
        A file written by the ``save`` of a result, or by ``--save`` on the command line. A fit, a
        rescue or a comparison has no file of its own: save its checks.

    Raises
    ------
    InputFileError
        If the file is damaged or holds anything else.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.random.default_rng(1).normal(size=(1000, 2))
    >>> checked = vicheck.check_draws(z, log_p=-(z**2).sum(1), log_q=-(z**2).sum(1) / 2)
    >>> checked.save("check.npz")
    >>> vicheck.load("check.npz").khat == checked.khat
    True
    """
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check

    kind = result_kind(path)
    if kind == "check":
        return Check.load(path)
    if kind == "calibration":
        return Calibration.load(path)
    hint = "vicheck.check reads fits that were made elsewhere"
    raise InputFileError(f"{path} holds no result that vicheck has saved", hint=hint)
