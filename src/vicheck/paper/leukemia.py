"""The leukemia microarray data (Golub et al. 1999): a file, a download, or something like it."""

from __future__ import annotations

import io
import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import InputFileError

__all__ = ["FEATURE", "NUM_FEATURES", "NUM_ROWS", "Leukemia", "load_leukemia", "make_synthetic"]

FEATURE = 1833
"""The feature of the paper's Figure 7, 1834 when counting from 1: the probe M23197 (CD33)."""
NUM_ROWS, NUM_FEATURES = 72, 7129

_NUM_AML = 25
_FEW_FEATURES = 2000
_OPENML = "https://www.openml.org/api/v1/json/data/1104"
_FILE = "leukemia.npz"


@dataclass(frozen=True)
class Leukemia:
    """Standardised expression levels of 72 patients, and their kind of leukemia."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    source: str

    @property
    def is_real(self) -> bool:
        """Whether these are the data of the paper."""
        return self.source != "synthetic"


def load_leukemia(source: str | None, *, quick: bool = False) -> Leukemia:
    """Return the data.

    Parameters
    ----------
    source
        A ``.npz`` file with X and y, or a directory that holds leukemia.npz; ``"openml"`` for a
        download; None for synthetic data of the same shape.
    quick
        Synthetic data whatever the source, with fewer features.

    Raises
    ------
    InputFileError
        When the data cannot be read, or are something else.
    """
    if quick:
        return make_synthetic(_FEW_FEATURES)
    if source is None:
        return make_synthetic(NUM_FEATURES)
    if source == "openml":
        return _download()
    path = Path(source)
    path = path / _FILE if path.is_dir() else path
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            design, outcome = arrays["X"], arrays["y"]
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise InputFileError(
            f"cannot read the leukemia data from {path}: {error}",
            hint='give a .npz file with X and y, or say "openml" to download them',
        ) from error
    return _checked(design, outcome, "file")


def _checked(design: np.ndarray, outcome: np.ndarray, source: str) -> Leukemia:
    if design.shape != (NUM_ROWS, NUM_FEATURES) or outcome.shape != (NUM_ROWS,):
        raise InputFileError(
            f"the leukemia data must have X of shape ({NUM_ROWS}, {NUM_FEATURES}) and y of shape "
            f"({NUM_ROWS},), got {design.shape} and {outcome.shape}"
        )
    if not np.isfinite(np.asarray(design, float)).all() or (np.ptp(design, axis=0) == 0).any():
        raise InputFileError("the leukemia data must have finite features that are not constant")
    if sorted(np.unique(outcome).tolist()) != [0, 1] or outcome.sum() != _NUM_AML:
        raise InputFileError(
            f"y of the leukemia data must be 1 for the {_NUM_AML} patients with AML and 0 for the "
            f"others, got the values {np.unique(outcome)[:5].tolist()} with sum {outcome.sum()}"
        )
    return _standardised(design, outcome, source)


def _standardised(design: np.ndarray, outcome: np.ndarray, source: str) -> Leukemia:
    design = np.asarray(design, float)
    design = (design - design.mean(axis=0)) / design.std(axis=0, ddof=1)
    return Leukemia(design, np.asarray(outcome, int), source)


def make_synthetic(num_features: int) -> Leukemia:
    """Make features in blocks that vary together, a few of which tell the classes apart."""
    rng = np.random.default_rng(72)
    blocks = rng.normal(size=(NUM_ROWS, 50))
    loadings = rng.normal(size=(50, num_features)) * (rng.random((50, num_features)) < 0.05)
    design = blocks @ loadings + rng.normal(size=(NUM_ROWS, num_features))
    score = rng.normal(size=NUM_ROWS)
    outcome = (score > np.quantile(score, 47 / 72)).astype(int)
    for index, strength in ((FEATURE, 2.0), (100, 1.0), (200, 1.0)):
        design[:, index] += strength * score
    return _standardised(design, outcome, "synthetic")


def _download(address: str = _OPENML) -> Leukemia:
    from scipy.io import arff

    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            described = json.load(answer)["data_set_description"]
        with urllib.request.urlopen(described["url"], timeout=600) as answer:
            text = answer.read().decode()
        rows, meta = arff.loadarff(io.StringIO(text))
        numeric = [name for name, kind in zip(meta.names(), meta.types(), strict=True)
                   if kind == "numeric"]  # fmt: skip
        (label,) = set(meta.names()) - set(numeric)
        design = np.stack([rows[name] for name in numeric], axis=1)
        outcome = rows[label] == b"AML"
    except Exception as error:  # a network, a server and a format that are not ours
        raise InputFileError(
            f"cannot download the leukemia data from OpenML: {error!r}",
            hint="give a file with --data, or leave --data out for synthetic data",
        ) from error
    return _checked(design, outcome, "OpenML 1104")
