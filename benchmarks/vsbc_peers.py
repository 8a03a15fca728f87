"""Calibration by peers on simulated eight schools: NumPyro's own and a loop over rstan's fits."""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fit_peers import R_COMPILE, call_r, has_rstan
from problems import problems

__all__ = ["numpyro_calls", "rstan_loop"]


def numpyro_calls(
    problem: str, num_datasets: int, steps: int, method: str, num_calls: int
) -> dict[str, Any]:
    """Time calls of `vsbc_diagnostic` with everything but the calls themselves done before."""
    import jax
    import numpyro
    from numpyro.infer import Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal
    from numpyro.infer.calibration import vsbc_diagnostic

    warnings.simplefilter("ignore")
    model = problems()[problem].model
    sigma = jax.numpy.asarray(problems()[problem].arguments["sigma"])
    guide, optimizer = AutoNormal(model), numpyro.optim.Adam(0.01)
    calls = []
    for seed in range(num_calls):
        start = time.perf_counter()
        result = vsbc_diagnostic(
            jax.random.PRNGKey(seed),  # it does not take a typed key
            model,
            guide,
            optimizer,
            Trace_ELBO(),
            sigma,
            observed_sites=["y"],
            num_simulations=num_datasets,
            num_svi_steps=steps,
            num_samples=1000,
            chain_method=method,
        )
        calls.append({
            "seconds": time.perf_counter() - start,
            "mean_tau": float(np.mean(result.probabilities["tau"])),
            "p_value_tau": float(result.ks_pvalues["tau"]),
        })  # fmt: skip
    return {"num_datasets": num_datasets, "steps": steps, "method": method, "calls": calls}


def rstan_loop(problem: str, num_datasets: int) -> dict[str, Any] | None:
    """Time a loop of `rstan::vb` over simulated datasets; None without R and rstan."""
    if not has_rstan():
        return None
    stan = problems()[problem]
    folder = Path(tempfile.gettempdir()) / "peers" / "rstan" / stan.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.stan").write_text(stan.stan_code)
    simulated = simulate_schools(stan.arguments["sigma"], num_datasets)
    (folder / "datasets.json").write_text(json.dumps(simulated))
    call_r(folder, R_COMPILE)
    call_r(folder, R_LOOP)
    results = json.loads((folder / "loop.json").read_text())
    return {"num_datasets": num_datasets, **results}


def simulate_schools(sigma: Any, num_datasets: int, seed: int = 0) -> dict[str, Any]:
    """Draw tau and y as the paper's model has them, the same in both parametrizations."""
    rng = np.random.default_rng(seed)
    mu = 5.0 * rng.standard_normal(num_datasets)
    tau = np.abs(5.0 * rng.standard_cauchy(num_datasets))
    theta = mu[:, None] + tau[:, None] * rng.standard_normal((num_datasets, len(sigma)))
    y = theta + sigma * rng.standard_normal(theta.shape)
    return {"sigma": np.asarray(sigma).tolist(), "tau": tau.tolist(), "y": y.tolist()}


R_LOOP = """
suppressMessages(library(rstan))
stored <- readRDS("model.rds")
input <- jsonlite::fromJSON("datasets.json")
count <- length(input$tau)
fit_one <- function(i) {
  invisible(capture.output(
    fit <- vb(stored$model, data = list(sigma = input$sigma, y = input$y[i, ]),
              algorithm = "meanfield", output_samples = 1000, seed = i, refresh = 0)))
  mean(as.matrix(fit, pars = "tau") < input$tau[i])
}
attempt <- function(i) tryCatch(suppressWarnings(fit_one(i)), error = function(e) NA_real_)
invisible(attempt(1))  # loads the compiled model
seconds <- system.time(found <- vapply(seq_len(count), attempt, 0))[["elapsed"]]
result <- list(seconds = seconds, num_failed = sum(is.na(found)),
               mean_tau = mean(found, na.rm = TRUE),
               version = as.character(packageVersion("rstan")))
writeLines(jsonlite::toJSON(result, auto_unbox = TRUE, digits = NA, na = "null"), "loop.json")
"""
