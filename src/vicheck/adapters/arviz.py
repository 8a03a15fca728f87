"""ArviZ: draws and their weights, or calibration probabilities, as a DataTree."""

from __future__ import annotations

import gc
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.draws import Draws
from vicheck.errors import ArgumentError, InputFileError, MissingExtraError, UnreadableError
from vicheck.files.numpy_reader import explained, most_expanded
from vicheck.indexing import Indexing

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["as_installed", "calibration_datatree", "from_arviz", "group_names", "to_datatree"]

_NEEDED = {".nc": ("h5netcdf", "h5py"), ".zarr": ("zarr",)}
"""What xarray reads files with; netCDF4 does as well."""

_RESAMPLED = "draws of equal weight are not draws of q: write them by to_arviz(resampled=False)"


def to_datatree(
    draws: Mapping[str, NDArray[np.float64]],
    stats: Mapping[str, NDArray[np.float64]],
    attributes: Mapping[str, Any],
    indexing: Indexing,
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
) -> xr.DataTree:
    """Return draws of one chain as ArviZ data: groups ``posterior`` and ``sample_stats``.

    Dimensions without labels are numbered, from one for models in Stan.

    Raises
    ------
    ArgumentError
        When names of dimensions, or labels along them, do not fit the draws.
    """
    from arviz_base import from_dict

    groups = {
        "posterior": {name: array[None] for name, array in draws.items()},
        "sample_stats": {name: array[None] for name, array in stats.items()},
    }
    named, labelled = _fitting(draws, dims, coords)
    # Chains and draws are numbered from zero, whoever wrote the model.
    size = len(next(iter(draws.values())))
    labelled = {"chain": [0], "draw": list(range(size)), **labelled}
    tree = from_dict(groups, dims=named, coords=labelled, index_origin=indexing.origin)
    tree["posterior"].attrs.update(attributes, indexing=indexing.name)
    return tree


def as_installed(tree: xr.DataTree) -> Any:
    """Return ArviZ data as the ArviZ that is installed takes it: before 1.0, an InferenceData."""
    try:
        before = int(version("arviz").partition(".")[0]) < 1
    except PackageNotFoundError:
        return tree
    if not before:
        return tree
    with warnings.catch_warnings():  # it announces version 1.0 when it is imported
        warnings.simplefilter("ignore", FutureWarning)
        from arviz import InferenceData
    return InferenceData.from_datatree(tree)  # type: ignore[no-untyped-call]


def _fitting(
    draws: Mapping[str, NDArray[np.float64]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
) -> tuple[dict[str, list[str]], dict[str, list[Any]]]:
    """Return dimensions and labels of the draws that there are, or raise what does not fit."""
    named: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for name, given in dims.items():
        if name not in draws:  # a quantity that was not asked for
            continue
        shape = draws[name].shape[1:]
        if isinstance(given, str) or len(given) != len(shape):
            raise ArgumentError(
                "dims", f"must have {len(shape)} names for {name} of shape {shape}, got {given!r}"
            )
        named[name] = list(given)
        for dim, size in zip(given, shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ArgumentError(
                    "dims", f"has {dim!r} with {sizes[dim]} and with {size} entries"
                )
    for dim, size in sizes.items():
        if dim in coords and len(coords[dim]) != size:
            raise ArgumentError(
                "coords", f"must have {size} labels for {dim!r}, got {len(coords[dim])}"
            )
    return named, {dim: list(labels) for dim, labels in coords.items() if dim in sizes}


def from_arviz(data: Any) -> Draws:
    """Read draws with their log densities from ArviZ data.

    Parameters
    ----------
    data
        A DataTree or InferenceData, or the path of a file with one (``.nc`` or ``.zarr``): with a
        group ``posterior``, and ``log_p`` and ``log_q`` in ``sample_stats``, as
        ``Check.to_arviz(resampled=False)`` writes them. Chains are joined.

    Returns
    -------
    Draws
        What `vicheck.check` takes.

    Raises
    ------
    InputFileError
        When a group or a variable is missing, or has another number of draws.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.random.default_rng(1).normal(size=(1000, 2))
    >>> checked = vicheck.check_draws(z, log_p=-(z**2).sum(1), log_q=-(z**2).sum(1) / 2)
    >>> vicheck.check(vicheck.from_arviz(checked.to_arviz(resampled=False))).khat == checked.khat
    True
    """
    if isinstance(data, str | Path):
        return _from_file(Path(data))
    try:
        return _from_groups(data, "the data")
    except UnreadableError as error:
        raise InputFileError(f"the data {error}") from error


def group_names(data: Any) -> dict[str, tuple[str, ...]]:
    """Return the names of the variables in each group of a DataTree or InferenceData."""
    if type(data).__name__ == "InferenceData":
        groups = {name: data[name] for name in data.groups()}
    else:
        groups = dict(getattr(data, "children", {}))  # other types of xarray's have none
    return {name: tuple(map(str, group.data_vars)) for name, group in groups.items()}


def _from_file(path: Path) -> Draws:
    if not path.is_dir():
        path.open("rb").close()  # raises what the libraries below would hide
    with _dropping_in_silence():
        opened = _opened(path)
    if isinstance(opened, str):
        raise InputFileError(f"{path} is not a readable file of ArviZ data: it {opened}")
    return opened


def _opened(path: Path) -> Draws | str:
    """Return what a file holds, or why it cannot be read."""
    import xarray as xr

    if path.exists():
        _require_backend(path)
    try:
        with explained():  # the libraries raise almost anything
            tree = xr.open_datatree(path)
        with tree:
            return _from_groups(tree, str(path), most_expanded(_size(path)))
    except UnreadableError as error:
        return str(error).partition(". ")[0]


def _require_backend(path: Path) -> None:
    """Blame what is not installed, and not the file."""
    needed = _NEEDED.get(path.suffix, ())
    missing = [name for name in needed if find_spec(name) is None]
    if missing and not (path.suffix == ".nc" and find_spec("netCDF4")):
        names = " and ".join(missing)
        raise MissingExtraError(
            f"reading {path} needs {names}, which is not installed",
            hint=f"pip install {' '.join(missing)}",
        )


@contextmanager
def _dropping_in_silence() -> Iterator[None]:
    """Keep h5netcdf from printing a traceback when a file is dropped that it could not open."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
        gc.collect()  # it is in a cycle
    finally:
        sys.unraisablehook = before


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files)


def _from_groups(data: Any, where: str, most_bytes: float = math.inf) -> Draws:
    draws = _arrays(data, "posterior", where, most_bytes)
    stats = _arrays(data, "sample_stats", where, most_bytes)
    for name in ("log_p", "log_q"):
        if name not in stats:
            raise InputFileError(
                f"{where} has no {name} in sample_stats, where the log densities of the draws "
                f"belong; it has: {', '.join(stats) or 'nothing'}",
                hint=_RESAMPLED if "lp" in stats else "",
            )
    sizes = {name: len(array) for name, array in {**draws, **stats}.items()}
    if len(set(sizes.values())) != 1:
        counts = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise InputFileError(f"{where} must have the same number of draws of all, got {counts}")
    attributes = data["posterior"].attrs
    return Draws(
        draws,
        stats["log_p"],
        stats["log_q"],
        title=str(attributes.get("title", "")),
        notes=tuple(str(attributes.get("notes", "")).splitlines()),
        unnormalized=str(attributes.get("unnormalized", "")),
        indexing=Indexing.STAN if attributes.get("indexing") == "STAN" else Indexing.PYTHON,
    )


def _arrays(data: Any, group: str, where: str, most_bytes: float) -> dict[str, NDArray[np.float64]]:
    """Return the variables of a group that have draws, by name."""
    try:
        variables = data[group].data_vars
    except (KeyError, TypeError, AttributeError):
        raise InputFileError(
            f"{where} has no group {group!r}: expected ArviZ data with draws in posterior, and "
            "their log_p and log_q in sample_stats"
        ) from None
    chosen = {
        str(name): array
        for name, array in variables.items()
        if {"chain", "draw"} <= set(array.dims)
    }
    size = sum(array.nbytes for array in chosen.values())
    if size > most_bytes:
        raise UnreadableError(f"claims to hold {size} bytes of draws, far more than its length")
    with explained():
        return {name: _joined(array) for name, array in chosen.items()}


def _joined(array: xr.DataArray) -> NDArray[np.float64]:
    """Return the draws of all chains in one row."""
    rest = [dim for dim in array.dims if dim not in ("chain", "draw")]
    values = array.transpose("chain", "draw", *rest).to_numpy()
    return np.asarray(values, np.float64).reshape(-1, *values.shape[2:])


def calibration_datatree(
    probabilities: NDArray[np.float64],
    names: Sequence[str],
    indexing: Indexing,
    datasets: NDArray[np.int64],
    stats: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, Any],
) -> xr.DataTree:
    """Return calibration probabilities as ArviZ data: what its ``plot_ecdf_pit`` reads.

    The group ``prior_sbc`` has one variable for each parameter, of values between 0 and 1, with
    dimensions ``chain`` (one), ``draw`` (the datasets) and those of the parameter; the group
    ``sample_stats`` has one value for each dataset.
    """
    from arviz_base import from_dict

    arrays = _assembled(probabilities, names, indexing)
    groups = {
        "prior_sbc": {name: array[None] for name, array in arrays.items()},
        "sample_stats": {name: np.asarray(array)[None] for name, array in stats.items()},
    }
    coords: Mapping[str, ArrayLike] = {"chain": [0], "draw": datasets}
    tree = from_dict(groups, coords=coords, index_origin=indexing.origin, check_conventions=False)
    tree["prior_sbc"].attrs.update(attributes)
    return tree


def _assembled(
    columns: NDArray[np.float64], names: Sequence[str], indexing: Indexing
) -> dict[str, NDArray[np.float64]]:
    """Join ``theta[0]``, ``theta[1]`` and so on to arrays; an incomplete array stays in parts."""
    places: dict[str, dict[tuple[int, ...], int]] = {}
    for column, name in enumerate(names):
        array, index = indexing.parsed(name)
        places.setdefault(array, {})[index] = column
    arrays = {}
    for name, indices in places.items():
        rank = max(map(len, indices))
        full = all(len(index) == rank for index in indices)
        shape = tuple(
            1 + max(index[axis] for index in indices) for axis in range(rank if full else 0)
        )
        if full and len(indices) == int(np.prod(shape)):
            order = [indices[index] for index in np.ndindex(*shape)]
            arrays[name] = columns[:, order].reshape(len(columns), *shape)
        else:
            arrays |= {names[column]: columns[:, column] for column in indices.values()}
    return arrays
