"""`load`: any result from its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vicheck.errors import ArgumentError, InputFileError
from vicheck.results.archive import result_kind

if TYPE_CHECKING:
    from vicheck.model import Model
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check
    from vicheck.results.fit import Fit
    from vicheck.results.reference import Reference
    from vicheck.results.rescue import Rescue

__all__ = ["load"]


def load(
    path: str | Path, model: Model | None = None
) -> Check | Calibration | Fit | Rescue | Reference:
    """Read a saved result: a check, calibration, fit, rescue or reference.

    Parameters
    ----------
    path
        A file written by the ``save`` of a result, or by ``--save`` on the command line. A
        comparison has no file of its own: save its checks.
    model
        For a fit or a rescue: the model that was fitted, with its data. It is not in the file.
        Without it a fit has its approximation with mean, sd and covariance, and some draws; what
        needs the model says so. With it, it is as before.

    Raises
    ------
    InputFileError
        If the file is damaged or holds anything else.
    ArgumentError
        When the log density of the model is not that of the model that was fitted, or the file
        holds a result that takes none.

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
    from vicheck.results.fit import Fit
    from vicheck.results.reference import Reference
    from vicheck.results.rescue import Rescue

    kind = result_kind(path)
    if kind == "fit":
        return Fit.load(path, model)
    if kind == "rescue":
        return Rescue.load(path, model)
    if model is not None and kind is not None:
        raise ArgumentError("model", f"goes with a fit or a rescue, and {path} holds a {kind}")
    if kind == "check":
        return Check.load(path)
    if kind == "calibration":
        return Calibration.load(path)
    if kind == "reference":
        return Reference.load(path)
    hint = "vicheck.check reads fits that were made elsewhere"
    raise InputFileError(f"{path} holds no result that vicheck has saved", hint=hint)
