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
_MOST_GRADIENTS, _MOST_NUMBERS = 2**15, 2**27
"""Gradients, and numbers of parameters and data that they go through, which take less than a fifth
of the time of a check of 100,000 draws. So there are at most 32 parameters."""


def response_column(
    fit: Fit, reported: Quantities, gradient: GradientTest
) -> dict[str, dict[str, float]]:
    """Return sds by linear response, a column of ``moments``, where it has a place there.

    That is for mean field, the family whose sds need it, where it takes little of the time of a
    check. It depends on sizes alone, never on the clock.

    Parameters
    ----------
    fit
        The fit, with a snapshot of its model.
    reported
        What the check reports on.
    gradient
        Whether the fit is at an optimum.
    """
    from vicheck.vi.response.linear_response import default_draws, response_of

    if fit.family != "mean_field":
        return {}
    fixed_draws = default_draws(fit.q)
    num_gradients = 2 * fit.q.step_dim * fixed_draws
    if num_gradients > min(_MOST_GRADIENTS, _MOST_NUMBERS // num_numbers(fit.model)):
        return {}
    return {COLUMN: response_of(fit, reported, fixed_draws, gradient).sd_by_name}
