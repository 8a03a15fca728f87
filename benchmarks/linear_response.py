"""What linear response makes of mean field's sds, what VSBC says of them, and what it costs.

    python benchmarks/linear_response.py [--datasets N]

It prints the tables of the section on linear response in docs/when-it-fails.md. Times are processor
times.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import stats

import vicheck
from vicheck.paper import exact, models

SCHOOLS = models.EIGHT_SCHOOLS
_RHO = 0.9


def correlated_design(num_rows=40, dim=5, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num_rows, dim)) + 1.5 * rng.normal(size=(num_rows, 1))


def known_noise(X, y=None):
    """Regression with known noise: its posterior is normal."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(X @ beta, 1.0), obs=y)


def regression_with_known_noise():
    x = correlated_design()
    y = x @ np.full(5, 0.5) + np.random.default_rng(2).normal(size=len(x))
    covariance = np.linalg.inv(x.T @ x + np.eye(5))
    truth = {f"beta[{i}]": sd for i, sd in enumerate(np.sqrt(np.diag(covariance)))}
    return vicheck.from_numpyro(known_noise, X=x, y=y), truth


def logistic_regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    x[:, 1] = 0.95 * x[:, 0] + 0.3 * x[:, 1]
    y = (rng.random(50) < 1 / (1 + np.exp(-x @ [1.0, -0.5]))).astype(float)
    plane = exact.logistic_plane(x, y)
    sds = np.sqrt(plane.second_moment - plane.mean**2)
    truth = {f"beta[{i}]": sd for i, sd in enumerate(sds)}
    return vicheck.from_numpyro(models.logistic, X=x, y=y), truth


def eight_schools():
    prior = stats.halfcauchy(scale=5.0).logpdf
    posterior = exact.eight_schools(SCHOOLS["y"], SCHOOLS["sigma"], 5.0, prior)
    names = ["mu", "log_tau", "tau", "theta[0]", "theta_raw[0]"]
    truth = {name: posterior.sd(name) for name in names}
    return vicheck.from_numpyro(models.eight_schools_noncentred, **SCHOOLS), truth


def print_sds():
    print("| model | quantity | exact sd | mean field | linear response | corrected normal |")
    print("|---|---|---|---|---|---|")
    problems = {
        "regression, known noise": regression_with_known_noise(),
        "logistic regression": logistic_regression(),
        "eight schools, non-centred": eight_schools(),
    }
    for title, (model, truth) in problems.items():
        fitted = vicheck.fit(model)
        response = fitted.linear_response()
        moments = vicheck.check(fitted, chains=False).moments
        drawn = response.sample(100_000)
        for name, sd in truth.items():
            if name == "log_tau":
                place = model.coordinates.index("tau")
                sds = fitted.sd[place], response.coordinates["tau"], np.log(drawn["tau"]).std()
            else:
                array, _, index = name.rstrip("]").partition("[")
                column = drawn[array][:, int(index)] if index else drawn[array]
                sds = moments.loc[name, "vi_sd"], response.sd[name], column.std()
            ratios = " | ".join(f"{each / sd:.2f}" for each in sds)
            print(f"| {title} | {name} | {sd:.3f} | {ratios} |")


def print_calibrations(num_datasets):
    print("\n| model | quantity | dispersion | with lr | in 90% | with lr | without lr |")
    print("|---|---|---|---|---|---|---|")
    problems = {
        "regression, known noise": (
            vicheck.from_numpyro(known_noise, X=correlated_design()),
            ["beta[0]", "beta[1]"],
        ),
        "eight schools, non-centred": (
            vicheck.from_numpyro(models.eight_schools_noncentred, sigma=SCHOOLS["sigma"]),
            ["mu", "tau", "theta_raw[0]", "theta[0]"],
        ),
    }
    for title, (model, names) in problems.items():

        def fit(data, seed, model=model):
            return vicheck.fit(model, data, seed=seed, num_starts=1)

        def draws(data, seed, fit=fit):
            return fit(data, seed).linear_response().sample(seed=seed)

        options = {"num_datasets": num_datasets, "quantities": names, "progress": False}
        runs = [vicheck.vsbc(model, fit=each, **options) for each in (fit, draws)]
        for name in names:
            tests = [run.tests.loc[name] for run in runs]
            numbers = [
                f"{test['dispersion']:.2f} ({test['dispersion_low']:.2f} to "
                f"{test['dispersion_high']:.2f})"
                for test in tests
            ]
            numbers += [f"{test['coverage_90']:.0%}" for test in tests]
            failed = runs[1].statuses.get(vicheck.FitStatus.FAILED, 0)
            print(f"| {title} | {name} | {' | '.join(numbers)} | {failed} of {num_datasets} |")


def print_shares():
    """Print what the column of a check takes of its time, in second calls."""
    import jax.numpy as jnp

    from vicheck.checking.response import response_column
    from vicheck.model import double_precision
    from vicheck.quantities import reported_quantities

    rng = np.random.default_rng(1)
    x = rng.normal(size=(280, 20))
    y = x @ np.full(20, 0.5) + rng.normal(size=280)
    heavy = vicheck.from_log_density(lambda z: -jnp.sum(jnp.log1p(z**2) + z**2 / 2), np.zeros(32))
    problems = {
        "eight schools, 10 parameters": eight_schools()[0],
        "regression, 21 parameters, 280 rows": vicheck.from_numpyro(models.linear, X=x, y=y),
        "a bare density, 32 parameters": heavy,
    }
    print("\n| model | check, seconds | of that for lr_sd |\n|---|---|---|")
    for title, model in problems.items():
        fitted = vicheck.fit(model, num_starts=1)
        gradient = vicheck.check(fitted).convergence.gradient
        times = []
        for _ in range(5):
            start = time.process_time()
            vicheck.check(fitted)
            checked = time.process_time()
            with double_precision():
                now = replace(fitted, model=model.snapshot())
                reported = reported_quantities(now.model, None)
                response_column(now, reported, gradient)  # which traces the model
                began = time.process_time()
                assert response_column(now, reported, gradient)
            times.append((checked - start, time.process_time() - began))
        whole, part = np.median(times, axis=0)
        print(f"| {title} | {whole:.2f} | {part / whole:.0%} |")


def print_costs():
    import jax.numpy as jnp

    def log_density(x):
        return -0.5 * (x[0] ** 2 + jnp.sum((x[1:] - _RHO * x[:-1]) ** 2) / (1 - _RHO**2))

    print("\n| parameters | evaluations | iterations | seconds | sd of x[0], exactly 1 |")
    print("|---|---|---|---|---|")
    for dim in (10, 250, 5000, 15000):
        fitted = vicheck.fit(vicheck.from_log_density(log_density, np.zeros(dim)), num_starts=1)
        fitted.linear_response(["x[0]"])
        start = time.process_time()
        response = fitted.linear_response(["x[0]"])
        seconds = time.process_time() - start
        print(
            f"| {dim:,} | {response.num_evaluations:,} | {response.num_iterations} | "
            f"{seconds:.2f} | {response.sd['x[0]']:.6f} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=500)
    print_sds()
    print_shares()
    print_costs()
    print_calibrations(parser.parse_args().datasets)
