"""A rescue as something that fits: for `vicheck.vsbc`, which calibrates what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ArgumentError, ModelError
from vicheck.model import Model
from vicheck.rescuing.run import REMEDIES, rescue
from vicheck.vi.fitting import fit

__all__ = ["RescueFitter", "rescue_fitter"]


@dataclass(frozen=True)
class RescueFitter:
    """A fit of a model by mean field with remedies after it: a function of data and a seed."""

    model: Model
    remedies: tuple[str, ...]
    num_draws: int
    judged_by: int

    def __call__(self, data: Mapping[str, Any], seed: int) -> dict[str, NDArray[np.float64]]:
        """Return draws of all parameters: weighted ones, resampled, or those of NUTS.

        Raises
        ------
        ModelError
            Where the rescue has not succeeded: that is the status of this dataset.
        """
        fitted = fit(self.model, data, seed=seed)
        found = rescue(
            fitted, budget=np.inf, remedies=self.remedies, num_draws=self.judged_by, seed=seed
        )
        if not found.succeeded:
            raise ModelError(found.sentence)
        if found.by_sampling and found.reference is not None:
            return {
                name: np.asarray(array).reshape(-1, *array.shape[2:])[: self.num_draws]
                for name, array in found.reference.draws.items()
            }
        return found.check.resample(self.num_draws, replace=False, seed=seed)


def rescue_fitter(
    model: Model, remedies: Sequence[str], *, num_draws: int = 1000, judged_by: int = 8000
) -> RescueFitter:
    """Return a rescue as a way to fit, so that `vicheck.vsbc` can test its calibration.

    Parameters
    ----------
    model
        As for `vicheck.vsbc`: one that can simulate.
    remedies
        Names of remedies, in this order: those of ``rescued.remedies``.
    num_draws
        Draws that it returns for each dataset.
    judged_by
        Draws that a candidate is judged by.

    Examples
    --------
    >>> import numpy as np
    >>> model = vicheck.from_log_density(lambda x: -x @ x, np.zeros(2))
    >>> fitter = vicheck.rescue_fitter(model, ["richer-family"])
    >>> fitter.remedies
    ('richer-family',)
    """
    if not isinstance(model, Model):
        raise TypeError(f"model must be a vicheck Model, got {type(model).__name__}")
    if isinstance(remedies, str) or not remedies:
        raise ArgumentError("remedies", f"must be a list of names, got {remedies!r}")
    for name in remedies:
        if name not in REMEDIES:
            raise ArgumentError("remedies", f"must be among {', '.join(REMEDIES)}, got {name!r}")
    return RescueFitter(model, tuple(remedies), num_draws, judged_by)
