"""Which adapter reads an object or a file: the table that `vicheck.check` looks things up in.

Objects are recognised by the module that defines their type, so that no library is imported that
the caller has not imported already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vicheck.draws import Draws
from vicheck.errors import InputFileError, refuse_unused

__all__ = ["ACCEPTED", "can_draw_from", "draws_of"]

ACCEPTED = (
    "a vicheck.Fit, vicheck.Draws, what pymc.fit or pymc_extras.fit returned, a CmdStanVB, "
    "CmdStanPathfinder or CmdStanLaplace of CmdStanPy, a DataTree or InferenceData, a DataFrame "
    "with columns log_p and log_q, or the path of a file (.csv of Stan's, .nc or .zarr of ArviZ's, "
    ".csv, .npz or .parquet with draws, log_p and log_q, .npz of a saved check)"
)
"""What `vicheck.check` takes, in words."""

_OTHER_WAYS = {
    "vicheck.model": "fit the model first, vicheck.check(vicheck.fit(model))",
    "vicheck.results": "it is a result already",
    "numpyro.distributions": "a distribution goes with vicheck.check_distribution(q, log_density)",
    "numpyro": "a guide goes with vicheck.check_numpyro(model, guide, params, ...)",
    "pyro": "a guide goes with vicheck.check_pyro(model, guide, ...)",
    "blackjax": "a state goes with vicheck.check_blackjax(state, log_density)",
    "distrax": "a distribution goes with vicheck.check_distribution(q, log_density)",
    "tensorflow_probability": "a distribution goes with vicheck.check_distribution(q, log_density)",
    "numpy": "arrays go with vicheck.check_draws(draws, log_p, log_q)",
    "jax": "arrays go with vicheck.check_draws(draws, log_p, log_q)",
    "jaxlib": "arrays go with vicheck.check_draws(draws, log_p, log_q)",
    "torch": "arrays go with vicheck.check_draws(draws, log_p, log_q)",
    "builtins": "arrays go with vicheck.check_draws(draws, log_p, log_q)",
}
"""What to do with an object that does not say enough about itself, by where its type comes from."""

_PATHFINDER = "paths_lbfgs_niter"
"""What pymc-extras' Pathfinder writes beside its draws."""


def draws_of(what: Any, num_draws: int | None, seed: int | None) -> Draws:
    """Return draws of a fit made elsewhere, or from a file.

    Parameters
    ----------
    what
        Anything in the table.
    num_draws, seed
        For what can be drawn from; None for the source's own default.

    Raises
    ------
    TypeError
        For an object that is not in the table, and for arguments that would have no effect.
    InputFileError
        For a file that holds something else.
    """
    if isinstance(what, str | os.PathLike):
        read = _FILES.get(Path(what).suffix)
        if read is None:
            raise InputFileError(
                f"{what} is not a file that can be checked: its name must end in "
                f"{', '.join(_FILES)}"
            )
        refuse_unused({"num_draws": num_draws, "seed": seed}, f"the draws in {what}")
        return read(Path(what))
    for root in _roots_of(type(what)):
        if root in _LIBRARIES:
            return _LIBRARIES[root](what, num_draws, seed)
    raise TypeError(f"check takes {ACCEPTED}; got {type(what).__name__}{_way_for(what)}")


def can_draw_from(what: Any) -> bool:
    """Whether new draws can be had from an object, and not only those that it holds."""
    from vicheck.adapters.arviz import group_names

    if isinstance(what, str | os.PathLike):
        return False
    reader = next((_LIBRARIES[root] for root in _roots_of(type(what)) if root in _LIBRARIES), None)
    return reader is _of_pymc or (reader is _of_tree and _is_fitted(group_names(what)))


def _is_fitted(groups: Mapping[str, Any]) -> bool:
    """Whether groups are those of DADVI or Laplace of pymc-extras, which describe their q."""
    return "fit" in groups or "optimizer_result" in groups


def _of_pymc(approx: Any, num_draws: int | None, seed: int | None) -> Draws:
    from vicheck.adapters.pymc import draws_of_approximation

    return draws_of_approximation(approx, num_draws, seed)


def _of_cmdstanpy(fit: Any, num_draws: int | None, seed: int | None) -> Draws:
    from vicheck.adapters.stan.cmdstanpy import draws_of_cmdstanpy

    drawn = draws_of_cmdstanpy(fit)
    refuse_unused({"num_draws": num_draws, "seed": seed}, "the draws that Stan has written")
    return drawn


def _of_tree(tree: Any, num_draws: int | None, seed: int | None) -> Draws:
    """Read ArviZ data with log densities, or a result of pymc-extras in the same form."""
    from vicheck.adapters.arviz import from_arviz, group_names

    groups = group_names(tree)
    if _is_fitted(groups) or _PATHFINDER in groups.get("sample_stats", ()):
        return _of_pymc(tree, num_draws, seed)
    drawn = from_arviz(tree)
    refuse_unused({"num_draws": num_draws, "seed": seed}, "the draws of ArviZ data")
    return drawn


def _of_data_frame(frame: Any, num_draws: int | None, seed: int | None) -> Draws:
    from vicheck.adapters.tables import draws_of_table

    if not hasattr(frame, "columns"):
        raise TypeError(f"check takes {ACCEPTED}; got {type(frame).__name__}")
    columns = {str(name): frame.iloc[:, place] for place, name in enumerate(frame.columns)}
    drawn = draws_of_table(columns, None, None, "the DataFrame")
    refuse_unused({"num_draws": num_draws, "seed": seed}, "the draws of a DataFrame")
    return drawn


def _csv(path: Path) -> Draws:
    """Read Stan's output, or any table with both log densities."""
    from vicheck.adapters.stan.csv_files import read_stan_csv
    from vicheck.adapters.tables import read_draws
    from vicheck.files.csv_reader import parse_csv

    file = parse_csv(path.read_bytes(), str(path))
    names = file.cells(file.lines[0]) if file.lines else []
    stans = any("stan" in each.lower() for each in file.comments)
    stans = stans or any(name.endswith("__") for name in names)
    return read_stan_csv(path) if stans or len(names) < 2 else read_draws(path)


def _table(path: Path) -> Draws:
    from vicheck.adapters.tables import read_draws

    return read_draws(path)


def _arviz_file(path: Path) -> Draws:
    from vicheck.adapters.arviz import from_arviz

    return from_arviz(path)


_LIBRARIES: dict[str, Callable[[Any, int | None, int | None], Draws]] = {
    "pymc": _of_pymc,
    "cmdstanpy": _of_cmdstanpy,
    "xarray": _of_tree,
    "arviz": _of_tree,
    "arviz_base": _of_tree,
    "pandas": _of_data_frame,
}
_FILES: dict[str, Callable[[Path], Draws]] = {
    ".csv": _csv,
    ".npz": _table,
    ".parquet": _table,
    ".nc": _arviz_file,
    ".zarr": _arviz_file,
}


def _roots_of(kind: type) -> list[str]:
    """Return the packages that define a type and its bases."""
    return [base.__module__.split(".")[0] for base in kind.__mro__]


def _way_for(what: Any) -> str:
    modules = [base.__module__ for base in type(what).__mro__ if base is not object]
    if callable(what) and modules[0] == "builtins":
        return ": a guide goes with vicheck.check_numpyro or vicheck.check_pyro"
    for module in modules:
        for root, way in _OTHER_WAYS.items():
            if module == root or module.startswith(f"{root}."):
                return f": {way}"
    return ""
