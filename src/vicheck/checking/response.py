"""Linear response as part of a check, where it costs little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vicheck.checking.chained import num_numbers

if TYPE_CHECKING:
    from vicheck.quantities import Quantities
    from vicheck.results.convergence import GradientTest
    from vicheck.results.fit import Fit

__all__ = ["COLUMN", "response_column"]

COLUMN = "lr_sd"
"""Name of the column of ``moments``."""
_FREE = 2**26
"""Numbers, of parameters and data times gradients, that are worked through in about 0.1 s."""
_PART = 15
"""Densities of a check for each gradient that may be added: about a fifth of its time."""


def response_column(
    fit: Fit, reported: Quantities, gradient: GradientTest, num_draws: int
) -> dict[str, dict[str, float]]:
    """Return sds by linear response, a column of ``moments``, where it has a place there.

    That is for mean field, the family whose sds need it, where the Hessian is small enough to be
    factored and takes little of the time of a check. It depends on sizes alone, never on the clock.

    Parameters
    ----------
    fit
        The fit, with a snapshot of its model.
    reported
        What the check reports on.
    gradient
        Whether the fit is at an optimum.
    num_draws
        Draws of q whose density the check has evaluated.
    """
    from vicheck.vi.response.linear_response import MOST_FACTORED, default_draws, response_of

    if fit.family != "mean_field" or fit.q.step_dim > MOST_FACTORED:
        return {}
    fixed_draws = default_draws(fit.q)
    num_gradients = 2 * fit.q.step_dim * fixed_draws
    if num_gradients > max(_FREE // num_numbers(fit.model), num_draws // _PART):
        return {}
    return {COLUMN: response_of(fit, reported, fixed_draws, gradient).sd_by_name}
