"""CmdStanPy: fits by ADVI, Pathfinder and Laplace, read from their CSV files."""

from __future__ import annotations

from typing import Any

from vicheck.adapters.stan.csv_files import read_stan_csv
from vicheck.draws import Draws

__all__ = ["draws_of_cmdstanpy"]

_APPROXIMATIONS = ("CmdStanVB", "CmdStanPathfinder", "CmdStanLaplace")
_OTHERS = {
    "CmdStanMCMC": "holds draws by MCMC, which need no such check: look at its summary()",
    "CmdStanGQ": "holds generated quantities; give the fit they were generated from",
    "CmdStanMLE": "is a point, not an approximation: run laplace_sample, variational or pathfinder",
}


def draws_of_cmdstanpy(fit: Any) -> Draws:
    """Read the draws of a fit by ``CmdStanModel``'s variational, pathfinder or laplace_sample.

    Parameters
    ----------
    fit
        A ``CmdStanVB``, ``CmdStanPathfinder`` or ``CmdStanLaplace``; its CSV file must still be
        there (the default place lasts as long as the Python session).

    Returns
    -------
    Draws
        As from `read_stan_csv`.

    Raises
    ------
    TypeError
        For any other object.
    OSError
        If the CSV file is gone.
    InputFileError
        If the draws cannot be checked; the message says why and what to do.
    """
    names = _cmdstanpy_names(type(fit))
    if not names.intersection(_APPROXIMATIONS):
        why = next((f"{name} {_OTHERS[name]}" for name in sorted(names) if name in _OTHERS), "")
        raise TypeError(
            f"fit must be a {', '.join(_APPROXIMATIONS[:-1])} or {_APPROXIMATIONS[-1]} of "
            f"cmdstanpy, got {type(fit).__name__}" + (f": a {why}" if why else "")
        )
    # CmdStanVB has its runs in public, the later classes have not.
    runs = fit.runset if "CmdStanVB" in names else fit._runset
    return read_stan_csv(list(runs.csv_files))


def _cmdstanpy_names(kind: type) -> set[str]:
    """Return the names of the classes of cmdstanpy that this is, without importing it."""
    return {base.__name__ for base in kind.__mro__ if base.__module__.split(".")[0] == "cmdstanpy"}
