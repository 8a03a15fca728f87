"""Models written in PyMC, and fits that PyMC and pymc-extras made.

Tested with PyMC 5.28, PyTensor 2.38 and pymc-extras 0.10. Only names are used that, by their
sources, PyMC 6.2 and PyTensor 3.3 have too, but these are not tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import xarray as xr

from vicheck.draws import Draws
from vicheck.errors import ModelError, require_count, require_extra
from vicheck.model import Model
from vicheck.runtime.seeds import as_seed

__all__ = ["draws_of_approximation", "from_pymc"]


def from_pymc(model: Any, *, observed: Mapping[str, Any] | Sequence[str] | None = None) -> Model:
    """Take a model written in PyMC.

    Parameters
    ----------
    model
        A ``pymc.Model``. What its variables observe, and every ``pm.Data``, become the model's
        data, which `vicheck.fit` can replace without compiling again. Data observed as a plain
        array goes by the name of the variable, data in a ``pm.Data`` by that of the latter; arrays
        that are used in any other way are fixed.
    observed
        Variables that are observed although the model leaves them free: their names, with the data
        still to be given to `vicheck.fit`, or a dictionary of names and data.

    Returns
    -------
    Model
        It has the log joint density of the flat unconstrained vector, Jacobians included, in
        float64. Models with ``pm.Minibatch`` have the density of all the data.

    Raises
    ------
    ModelError
        For discrete parameters, models in float32, operations that JAX does not have, and data
        that does not fit; the message names the variable.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as coin:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Bernoulli("y", p, observed=[1, 1, 0])
    >>> model = from_pymc(coin)
    >>> model.coordinates
    ('p',)
    """
    require_extra("pymc")
    import pymc as pm

    from vicheck.adapters.pymc.graphs import observing
    from vicheck.adapters.pymc.program import model_of

    if not isinstance(model, pm.Model):
        raise TypeError(f"model must be a pymc.Model, got {type(model).__name__}")
    if not observed:
        return model_of(model)
    names = _observed_names(model, observed)
    taken = model_of(observing(model, names))
    if isinstance(observed, Mapping):
        return taken.given(observed)
    rest = {name: value for name, value in taken.data.items() if name not in names}
    return replace(taken, data=rest, missing=names)


def draws_of_approximation(
    approx: Any, num_draws: int | None = None, seed: int | None = None
) -> Draws:
    """Draw from a fit that PyMC or pymc-extras made, with both log densities at the same draws.

    Parameters
    ----------
    approx
        What ``pymc.fit`` returned, mean-field or full-rank; or, in the context of its model, what
        ``pymc_extras.fit`` returned for ``"dadvi"`` or ``"laplace"``, or for ``"pathfinder"`` with
        ``importance_sampling=None`` and ``store_diagnostics=True``.
    num_draws
        Their number, 100,000 by default; not for Pathfinder, whose result holds its own draws.
    seed
        The same seed gives the same bits; 0 by default. Not for Pathfinder.

    Returns
    -------
    Draws
        Parameters on their own scale and deterministics, log p with the Jacobian, and log q.

    Raises
    ------
    TypeError
        When the density of the approximation is not known, or an argument has no effect.
    """
    require_extra("pymc")
    import pymc as pm
    from pymc.variational.inference import Inference
    from pymc.variational.opvi import Approximation

    from vicheck.adapters.pymc.approximations import draws_of_group_approximation, draws_of_result

    if num_draws is not None:
        num_draws = require_count("num_draws", num_draws)
    if seed is not None:
        seed = as_seed(seed)
    if isinstance(approx, Approximation):
        return draws_of_group_approximation(approx, num_draws, seed)
    if isinstance(approx, xr.DataTree) or type(approx).__name__ == "InferenceData":
        return draws_of_result(approx, num_draws, seed)
    hint = ": give what its method fit returned" if isinstance(approx, Inference) else ""
    if isinstance(approx, pm.Model):
        hint = ": fit it first, vicheck.check(vicheck.fit(vicheck.from_pymc(model)))"
    raise TypeError(
        "approx must be what pymc.fit or pymc_extras.fit returned, got "
        f"{type(approx).__name__}{hint}"
    )


def _observed_names(model: Any, observed: Any) -> tuple[str, ...]:
    if isinstance(observed, str):
        raise ModelError(f"observed must be a tuple of names, got the string {observed!r}")
    free = [rv.name for rv in model.free_RVs]
    for name in observed:
        if name not in free:
            known = ", ".join(free) or "none"
            raise ModelError(f"observed has {name!r}, but the model's free variables are: {known}")
    return tuple(observed)
