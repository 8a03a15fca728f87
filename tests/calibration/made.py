"""Calibrations whose truth is known: a posterior N(0, 1) and a normal q, shifted or stretched."""

import numpy as np
import xarray as xr
from scipy.stats import norm

from vicheck.results.calibration import Calibration
from vicheck.results.run_settings import RunSettings


def calibration(
    num_datasets=500, seed=4, statuses=None, settings=None, first=0, seeds=None, **quantities
):
    """Make one from pairs (bias in sds of the posterior, sd of q), by quantity."""
    rng = np.random.default_rng(seed)
    quantities = quantities or {"tau": (0.0, 1.0), "theta[0]": (0.0, 1.0), "theta[1]": (0.0, 1.0)}
    truth = rng.normal(size=(num_datasets, len(quantities)))
    columns = [
        norm.cdf((truth[:, column] - shift) / sd)
        for column, (shift, sd) in enumerate(quantities.values())
    ]
    probability = np.stack(columns, axis=1)
    status = np.array(["CONVERGED"] * num_datasets, dtype=object)
    message = np.array([""] * num_datasets, dtype=object)
    for row, name in (statuses or {}).items():
        status[row] = name
        message[row] = f"what is wrong with {row}"
        if name in ("FAILED", "TIMED_OUT"):
            probability[row] = np.nan
    known = np.isfinite(probability[:, 0])
    one = np.where(known, 1.0, np.nan)
    data = xr.Dataset(
        {
            "probability": (("dataset", "quantity"), probability),
            "status": ("dataset", status.astype(str)),
            "khat": ("dataset", rng.uniform(0.2, 0.8, num_datasets) * one),
            "symmetric_kl": ("dataset", rng.normal(0.25, 0.5, num_datasets) * one),
            "seed": ("dataset", 1000 * seed + np.arange(num_datasets) if seeds is None else seeds),
            "message": ("dataset", message.astype(str)),
            "num_evaluations": ("dataset", rng.integers(50, 90, num_datasets)),
            "gradient_norm": ("dataset", np.full(num_datasets, 1e-5)),
            "sampling_error": ("dataset", np.full(num_datasets, np.nan)),
            "exact": ("quantity", np.ones(len(quantities), bool)),
        },
        {"dataset": first + np.arange(num_datasets), "quantity": list(quantities)},
    )
    described = {
        "model": "abc",
        "observed": ("y",),
        "quantities": tuple(quantities),
        "num_draws": 1000,
        "num_datasets": num_datasets,
        "seeds": (seed,),
        "family": "mean_field",
        "solver": "deterministic",
        "richer": "full_rank",
    }
    return Calibration(data, RunSettings(**described | (settings or {})))
