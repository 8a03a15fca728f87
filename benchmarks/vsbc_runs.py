"""Timed calls of `vsbc`, each function to be called in a process of its own by `vsbc.py`."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["calibrate", "calibrate_by_workers"]


def calibrate(
    problem: str,
    num_datasets: int,
    num_calls: int,
    quantities: Sequence[str] | None = None,
    shown: Sequence[str] = ("tau",),
    data: str = "",
) -> dict[str, Any]:
    """Time calls with seeds 0, 1, ... after importing all and making the model."""
    start = time.perf_counter()
    model, design = model_of(problem, data)
    prepared, before = time.perf_counter() - start, peak_mib()
    calls = [one_call(model, num_datasets, seed, quantities, shown) for seed in range(num_calls)]
    return {
        "problem": problem, "design": design, "num_datasets": num_datasets, "dim": model.dim,
        "prepare_seconds": prepared, "calls": calls, "mib_before": before, "peak_mib": peak_mib(),
    }  # fmt: skip


def calibrate_by_workers(
    problem: str, num_datasets: int, num_workers: int, num_calls: int
) -> dict[str, Any]:
    """Time calls on a Dask cluster on this machine, and see how busy its workers are."""
    from distributed import Client, LocalCluster

    model, _ = model_of(problem)
    cluster = LocalCluster(n_workers=num_workers, threads_per_worker=1, dashboard_address=None)
    calls = []
    with cluster, Client(cluster) as client:
        for seed in range(num_calls):
            before = sum(client.run(time.process_time).values())
            call = one_call(model, num_datasets, seed, executor=client.get_executor())
            spent = sum(client.run(time.process_time).values()) - before
            calls.append(call | {"worker_seconds": spent})
    return {"problem": problem, "num_datasets": num_datasets, "num_workers": num_workers,
            "calls": calls}  # fmt: skip


def model_of(problem: str, data: str = "") -> tuple[Any, str]:
    """Return a model and where its covariates come from."""
    import dask.array  # noqa: F401, which xarray would import in the first call

    import vicheck
    import vicheck.calibration.run
    import vicheck.judging

    if problem == "horseshoe":
        from vicheck.paper.models import horseshoe_logistic

        design, source = horseshoe_design(Path(data))
        return vicheck.from_numpyro(horseshoe_logistic, design), source
    from problems import problems

    known = problems()[problem]
    return vicheck.from_numpyro(known.model, **known.arguments), "benchmarks/problems.py"


def horseshoe_design(data: Path) -> tuple[Any, str]:
    import numpy as np

    if (data / "leukemia.npz").exists():
        with np.load(data / "leukemia.npz") as file:
            return file["X"].astype(np.float64), "leukemia"
    return np.random.default_rng(0).standard_normal((72, 7129)), "standard normal numbers"


def one_call(
    model: Any,
    num_datasets: int,
    seed: int,
    quantities: Sequence[str] | None = None,
    shown: Sequence[str] = ("tau",),
    executor: Any = None,
) -> dict[str, Any]:
    """Calibrate once, with tests and verdict, and say what it took and what was found."""
    from vicheck.calibration.run import vsbc

    start = time.perf_counter()
    calibration = vsbc(
        model, num_datasets=num_datasets, quantities=quantities, seed=seed, executor=executor,
        progress=False,
    )  # fmt: skip
    verdict = calibration.verdict
    seconds = time.perf_counter() - start
    khat = calibration.khat_summary
    return {
        "seed": seed,
        "seconds": seconds,
        "statuses": dict(Counter(calibration.status.to_numpy().tolist())),
        "khat": [khat.low, khat.median, khat.high],
        "khat_above": khat.share_above,
        "level": verdict.level,
        "result_mib": calibration.data.nbytes / 2**20,
        "quantities": {
            name: {
                "mean": float(calibration.probabilities.sel(quantity=name).mean()),
                "p_value": float(calibration.tests.loc[name, "p_value"]),
            }
            for name in shown
        },
    }


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
