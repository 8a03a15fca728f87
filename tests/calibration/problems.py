"""Models whose posteriors are known, for runs of `vsbc`; light, because workers import it too."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist

import vicheck
from vicheck.calibration.run import vsbc

CHUNK_SIZE, NUM_DATASETS = 5, 200
"""Of runs that are stopped in their midst."""

X = np.array([[1.2, 1.0], [0.8, 1.1], [-0.6, -0.9]])
"""Covariates that are much alike, so that the posterior of their coefficients is correlated."""


def pair(x, y=None):
    """Two regression coefficients: a normal posterior whose covariance does not depend on y."""
    b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.deterministic("total", b[0] + b[1])
    numpyro.sample("y", dist.Normal(x @ b, 1.0), obs=y)


def pair_model(**data):
    return vicheck.from_numpyro(pair, X, **data)


def pair_posterior(y):
    """Return mean and covariance of the posterior of `pair`."""
    covariance = np.linalg.inv(np.eye(2) + X.T @ X)
    return covariance @ X.T @ y, covariance


def independent(y=None):
    """Four means with one observation each: posteriors N(y / 2, 1 / 2)."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([4]).to_event(1))
    numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)


def independent_model():
    return vicheck.from_numpyro(independent)


def draw_exactly(data, seed, *, num_draws=19, shift=0.0, stretch=1.0):
    """Draw from the posterior of `independent`, or from one that is off by so many sds."""
    sd = np.sqrt(0.5)
    noise = np.random.default_rng(seed).normal(size=(num_draws, 4))
    return {"theta": data["y"] / 2 + sd * (shift + stretch * noise)}


def run_foreign(fit=draw_exactly, **options):
    """Calibrate a fit that is not ours, in many small chunks."""
    settings = {
        "num_datasets": NUM_DATASETS,
        "chunk_size": CHUNK_SIZE,
        "quantities": ["theta"],
        "progress": False,
    }
    return vsbc(independent_model(), fit=fit, **settings | options)


def draw_noting(data, seed, *, directory, wait_for=1):
    """Draw, and note in a directory which process has done so with which seed.

    At first wait until so many processes are there.
    """
    log = Path(directory) / f"{os.getpid()}.log"
    with log.open("a") as file:
        file.write(f"{seed}\n")
    deadline = time.monotonic() + 100.0
    while len(list(Path(directory).glob("*.log"))) < wait_for and time.monotonic() < deadline:
        time.sleep(0.01)
    return draw_exactly(data, seed)


def draw_dying(data, seed, *, marker):
    """Draw; but the first process of all that gets here is killed."""
    with suppress(FileExistsError):
        Path(marker).touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)
    return draw_exactly(data, seed)


def bounded(y=None):
    """A parameter that is bounded above only, one below only, and one that is free."""
    top = numpyro.sample("top", dist.TruncatedNormal(0.0, 1.0, high=0.5))
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.5))
    loc = numpyro.sample("loc", dist.Normal(0.0, 1.0))
    numpyro.deterministic("ends", np.array([1.0, -1.0]) * scale + top)
    numpyro.sample("y", dist.Normal(top + np.array([0.0, 1.0, 2.0]) * loc, scale), obs=y)


def bounded_model():
    return vicheck.from_numpyro(bounded)


def saved(calibration, path):
    """Return the bytes of the file that a calibration is saved in."""
    calibration.save(path)
    return path.read_bytes()
