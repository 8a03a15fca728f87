"""Time to a good mean-field Gaussian: BlackJAX, NumPyro, PyMC and rstan on the same problems.

Every peer's answer is reduced to a location and a scale on NumPyro's unconstrained vector and
judged by the same ELBO. Compiling is timed apart, wherever the peer lets it be done once.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from jax.flatten_util import ravel_pytree
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import potential_energy
from problems import POSITIVE, Problem, log_ratios, problems, prototype, summarise

import vicheck

__all__ = ["PEERS", "Config", "Record", "fit", "grid", "time_to_reach"]

STEP_COUNTS = (*(250 * 2**k for k in range(9)), 100_000)
RATES = ((0.01, "constant"), (0.05, "constant"), (0.05, "cosine"), (0.2, "cosine"))
WARM_UP_BELOW = 1.0  # seconds; in longer runs a cold start hardly shows
SCALE_DRAWS = 5000  # rstan hands out draws, not scales
Gaussian = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Config:
    """One way of calling one peer; a rate of None means the peer's own default optimiser."""

    peer: str
    draws_per_step: int = 1
    steps: int = 10_000
    learning_rate: float | None = 0.01
    schedule: str = "constant"
    dtype: str = "float64"


@dataclass(frozen=True)
class Fitted:
    """A mean-field Gaussian and the seconds it took, warm, with those for compiling apart."""

    loc: np.ndarray
    scale: np.ndarray
    seconds: float
    compile_seconds: float


Run = Callable[[int], Fitted]
"""A fit ready to be run with a seed, as often as one likes."""


@dataclass(frozen=True)
class Record:
    """What one configuration cost and what it gave: seconds is a median over seeds."""

    peer: str
    problem: str
    draws_per_step: int
    steps: int
    learning_rate: float | None
    schedule: str
    dtype: str
    status: str
    seconds: float
    compile_seconds: float
    elbo: float
    elbo_mcse: float
    khat: float
    elbo_by_seed: tuple[float, ...] = ()


def prepare_blackjax(problem: Problem, config: Config) -> Run:
    """Compile `blackjax.meanfield_vi`, the whole run in one scan, started from its defaults."""
    with precision(config):
        zeros, optimizer = prototype(problem), optax.adam(rate(config))

    def run(key: Any, arguments: dict[str, Any]) -> Any:
        def log_density(position: Any) -> Any:
            return -potential_energy(problem.model, (), arguments, position)

        algorithm = blackjax.meanfield_vi(log_density, optimizer, config.draws_per_step)

        def step(state: Any, step_key: Any) -> tuple[Any, None]:
            return algorithm.step(step_key, state)[0], None

        keys = jax.random.split(key, config.steps)
        state, _ = jax.lax.scan(step, algorithm.init(zeros), keys)
        return ravel_pytree(state.mu)[0], ravel_pytree(jax.tree.map(jnp.exp, state.rho))[0]

    return prepare_jax(problem, config, run, jax.random.key)


def prepare_numpyro_scan(problem: Problem, config: Config) -> Run:
    """Compile a scan of `SVI.update` with `AutoNormal`; `SVI.init` is not timed."""
    with precision(config):
        svi = numpyro_svi(problem, config)

    def start(seed: int) -> Any:
        return svi.init(jax.random.key(seed), **problem.arguments)

    def run(state: Any, arguments: dict[str, Any]) -> Any:
        def step(state: Any, _: None) -> tuple[Any, None]:
            return svi.update(state, **arguments)[0], None

        state, _ = jax.lax.scan(step, state, None, length=config.steps)
        return flatten_autonormal(svi.get_params(state))

    return prepare_jax(problem, config, run, start)


def prepare_numpyro_run(problem: Problem, config: Config, progress_bar: bool = True) -> Run:
    """Call `SVI.run` as documented; it compiles anew in every call, so that is in the time."""
    svi = numpyro_svi(problem, config)

    def run(seed: int) -> Fitted:
        with precision(config), contextlib.redirect_stderr(io.StringIO()):
            start = time.perf_counter()
            result = svi.run(
                jax.random.key(seed), config.steps, progress_bar=progress_bar, **problem.arguments
            )
            params = jax.block_until_ready(result.params)
            seconds = time.perf_counter() - start
            return Fitted(*as_gaussian(flatten_autonormal(params)), seconds, 0.0)

    return run


def prepare_pymc(problem: Problem, config: Config) -> Run:
    """Call `pymc.fit`; the time is from the end of its first step, which follows the compile."""
    import pymc as pm

    model = problem.pymc_model()
    options: dict[str, Any] = {"obj_n_mc": config.draws_per_step}
    if config.learning_rate is not None:
        options["obj_optimizer"] = pm.adam(learning_rate=config.learning_rate)

    def run(seed: int) -> Fitted:
        times = [time.perf_counter()]

        def mark(_approximation: Any, _losses: Any, number: int) -> None:
            if number == 1:
                times.append(time.perf_counter())

        with model:
            approximation = pm.fit(
                n=config.steps,
                method="advi",
                random_seed=seed,
                progressbar=False,
                callbacks=[mark],
                **options,
            )
        start, first, end = *times, time.perf_counter()
        seconds = (end - first) * config.steps / (config.steps - 1)
        return Fitted(*flatten_pymc(approximation), seconds, first - start)

    return run


def prepare_rstan(problem: Problem, config: Config) -> Run:
    """Call `rstan::vb`; a rate of None adapts eta. The tolerance is Stan's only by default.

    In `rstan_default` Stan decides when to stop, with its own draws and tolerance; otherwise it
    takes all the steps it is given.
    """
    folder = Path(tempfile.gettempdir()) / "peers" / "rstan" / problem.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.stan").write_text(problem.stan_code)
    (folder / "data.json").write_text(json.dumps(stan_data(problem)))
    call_r(folder, R_COMPILE)

    def run(seed: int) -> Fitted:
        options = "" if config.peer == "rstan_default" else r_options(config)
        call_r(folder, R_FIT % {"seed": seed, "options": options, "draws": SCALE_DRAWS})
        seconds = json.loads((folder / "seconds.json").read_text())
        return Fitted(*flatten_stan(folder), seconds["fit"], seconds["compile"])

    return run


PEERS: dict[str, Callable[[Problem, Config], Run]] = {
    "blackjax": prepare_blackjax,
    "numpyro_scan": prepare_numpyro_scan,
    "numpyro_run": prepare_numpyro_run,
    "numpyro_run_no_bar": partial(prepare_numpyro_run, progress_bar=False),
    "pymc_default": prepare_pymc,
    "pymc_adam": prepare_pymc,
    "rstan_default": prepare_rstan,
    "rstan": prepare_rstan,
}


def grid(peer: str, dtypes: Iterable[str] = ("float64",)) -> list[Config]:
    """Return the configurations of one peer that `time_to_reach` tries."""
    if peer == "rstan_default":
        return [Config(peer, learning_rate=None)]
    if peer in ("pymc_default", "rstan"):
        return [Config(peer, draws, learning_rate=None) for draws in (1, 10)]
    if peer == "pymc_adam":  # PyMC has no schedules of its own
        return [Config(peer, draws, learning_rate=r) for draws in (1, 10) for r in (0.01, 0.05)]
    return [
        Config(peer, draws, learning_rate=r, schedule=schedule, dtype=dtype)
        for dtype in dtypes
        for draws in (1, 10)
        for r, schedule in RATES
    ]


def fit(
    problem: Problem,
    config: Config,
    seeds: Iterable[int] = (0,),
    num_draws: int = 100_000,
    target: float = np.nan,
    tolerance: float = 0.05,
) -> Record:
    """Fit once per seed after a warm-up and judge the first seed's fit.

    Seeds after the first are run only if the first comes within ``tolerance`` of ``target``, or
    if there is no target.
    """
    run = PEERS[config.peer](problem, config)
    fits: list[Fitted] = []
    ratios: list[np.ndarray] = []
    try:
        for seed in seeds:
            fits.append(run(seed))
            ratios.append(log_ratios(problem, fits[-1].loc, fits[-1].scale, num_draws))
            if judge(ratios[0].mean(), target, tolerance) == "not reached":
                break
    except (FloatingPointError, subprocess.CalledProcessError) as error:
        return failed(problem, config, str(error).splitlines()[0])
    estimate, error = summarise(ratios[0])
    return Record(
        problem=problem.name,
        status=judge(estimate, target, tolerance),
        seconds=float(np.median([fitted.seconds for fitted in fits])),
        compile_seconds=fits[0].compile_seconds,
        elbo=estimate,
        elbo_mcse=error,
        khat=float(vicheck.psis_khat(ratios[0])) if np.isfinite(ratios[0]).all() else np.nan,
        elbo_by_seed=tuple(float(values.mean()) for values in ratios),
        **asdict(config),
    )


def judge(value: float, target: float, tolerance: float) -> str:
    if np.isnan(target):
        return "no target"
    return "reached" if value >= target - tolerance else "not reached"


def failed(problem: Problem, config: Config, reason: str) -> Record:
    numbers = ("seconds", "compile_seconds", "elbo", "elbo_mcse", "khat")
    return Record(
        problem=problem.name,
        status=f"failed: {reason}",
        **dict.fromkeys(numbers, float("nan")),
        **asdict(config),
    )


def time_to_reach(
    problem: Problem,
    target_elbo: float,
    configs: Iterable[Config],
    max_seconds: float = 60.0,
    tolerance: float = 0.05,
    repeats: int = 3,
    num_draws: int = 20_000,
    step_counts: Iterable[int] = STEP_COUNTS,
) -> tuple[list[Record], Record | None]:
    """Grow the steps of every configuration until its ELBO is near the target.

    Returns
    -------
    records, fastest
        One record per configuration (the first that reached, else the one with the best ELBO)
        and the quickest of those that reached, or None.
    """
    records = []
    for config in configs:
        tried: list[Record] = []
        for steps in step_counts:
            if tried and tried[-1].seconds * steps / tried[-1].steps > max_seconds:
                break
            record = fit(
                problem,
                replace(config, steps=steps),
                range(repeats),
                num_draws,
                target_elbo,
                tolerance,
            )
            tried.append(record)
            if record.status == "reached" or config.peer == "rstan_default":
                break
        records.append(choose(tried))
        print(describe(records[-1]), flush=True)
    reached = [record for record in records if record.status == "reached"]
    return records, min(reached, key=lambda record: record.seconds, default=None)


def choose(tried: list[Record]) -> Record:
    """Return the last record if it reached the target, else the best."""
    if tried[-1].status == "reached":
        return tried[-1]
    return max(tried, key=lambda record: -np.inf if np.isnan(record.elbo) else record.elbo)


def describe(record: Record) -> str:
    return (
        f"{record.problem} {record.peer} {record.dtype} draws={record.draws_per_step} "
        f"rate={record.learning_rate} {record.schedule} steps={record.steps}: {record.status}, "
        f"{1e3 * record.seconds:.1f} ms (compile {record.compile_seconds:.1f} s), "
        f"ELBO {record.elbo:.3f} ({record.elbo_mcse:.3f}), khat {record.khat:.2f}, "
        f"seeds {[round(value, 2) for value in record.elbo_by_seed]}"
    )


def precision(config: Config) -> Any:
    return jax.enable_x64(config.dtype == "float64")


def rate(config: Config) -> Any:
    if config.schedule == "cosine":
        return optax.cosine_decay_schedule(config.learning_rate, config.steps)
    return config.learning_rate


def numpyro_svi(problem: Problem, config: Config) -> SVI:
    loss = Trace_ELBO(num_particles=config.draws_per_step)
    optimizer = numpyro.optim.Adam(step_size=rate(config))
    return SVI(problem.model, AutoNormal(problem.model), optimizer, loss)


def prepare_jax(
    problem: Problem, config: Config, run: Callable[..., Any], start: Callable[[int], Any]
) -> Run:
    """Compile ``run(start(seed), arguments)`` ahead of time."""
    with precision(config):
        arguments = jax.tree.map(jnp.asarray, problem.arguments)
        first = start(0)
        begin = time.perf_counter()
        compiled = jax.jit(run).lower(first, arguments).compile()
        compile_seconds = time.perf_counter() - begin

    def call(seed: int) -> Fitted:
        with precision(config):
            state = jax.block_until_ready(start(seed))
            begin = time.perf_counter()
            answer = jax.block_until_ready(compiled(state, arguments))
            seconds = time.perf_counter() - begin
            return Fitted(*as_gaussian(answer), seconds, compile_seconds)

    def call_warm(seed: int) -> Fitted:
        fitted = call(seed)
        return call(seed) if fitted.seconds < WARM_UP_BELOW else fitted

    return call_warm


def as_gaussian(pair: Any) -> Gaussian:
    return np.asarray(pair[0], np.float64), np.asarray(pair[1], np.float64)


def flatten_autonormal(params: dict[str, Any]) -> tuple[Any, Any]:
    def gather(ending: str) -> Any:
        names = sorted(name for name in params if name.endswith(ending))
        return jnp.concatenate([jnp.ravel(params[name]) for name in names])

    return gather("_auto_loc"), gather("_auto_scale")


def flatten_pymc(approximation: Any) -> Gaussian:
    loc, scale = approximation.mean.eval(), approximation.std.eval()
    places = {
        name.removesuffix("_log__"): entry[1] for name, entry in approximation.ordering.items()
    }
    order = [places[name] for name in sorted(places)]
    return np.concatenate([loc[k] for k in order]), np.concatenate([scale[k] for k in order])


def stan_data(problem: Problem) -> dict[str, Any]:
    data = {name: value.tolist() for name, value in problem.arguments.items()}
    if "X" in data:
        n, d = problem.arguments["X"].shape
        data |= {"n": n, "d": d}
    return data


def r_options(config: Config) -> str:
    adapt = "" if config.learning_rate is None else f"adapt_engaged=0, eta={config.learning_rate},"
    return f"{adapt} grad_samples={config.draws_per_step}, iter={config.steps}, tol_rel_obj=1e-10,"


def flatten_stan(folder: Path) -> Gaussian:
    """Read the location, which Stan reports, and the scales of its draws."""
    with (folder / "draws.csv").open() as file:
        names, *rows = list(csv.reader(file))
    values = np.array(rows, float)
    for column, name in enumerate(names):
        if name in POSITIVE:
            values[:, column] = np.log(values[:, column])
    order = sorted(range(len(names)), key=lambda k: (names[k].split("[")[0], k))
    loc, draws = values[0, order], values[1:, order]
    return loc, np.sqrt(((draws - loc) ** 2).mean(axis=0))


def call_r(folder: Path, code: str) -> None:
    script = folder / "script.R"
    script.write_text(code)
    subprocess.run(["Rscript", script.name], cwd=folder, check=True, capture_output=True, text=True)


R_COMPILE = """
suppressMessages(library(rstan))
# Debian keeps Boost among the system headers: any existing folder passes rstan's check
if (!nzchar(rstan_options("boost_lib"))) invisible(rstan_options(boost_lib = R.home("include")))
code <- paste(readLines("model.stan"), collapse = "\\n")
if (!file.exists("model.rds") || readRDS("model.rds")$code != code) {
  seconds <- system.time(model <- stan_model(model_code = code))[["elapsed"]]
  saveRDS(list(code = code, model = model, seconds = seconds), "model.rds")
}
"""

R_FIT = """
suppressMessages(library(rstan))
stored <- readRDS("model.rds")
data <- jsonlite::fromJSON("data.json")
call <- function(draws) vb(stored$model, data = data, algorithm = "meanfield", %(options)s
                           seed = %(seed)d, output_samples = draws, refresh = 0)
invisible(capture.output({
  fit <- call(%(draws)d)  # warms up, and gives enough draws to read the scales off
  seconds <- system.time(call(1000))[["elapsed"]]
}))
draws <- as.matrix(fit)
draws <- draws[, colnames(draws) != "lp__"]
write.csv(rbind(unlist(fit@sim$est), draws), "draws.csv", row.names = FALSE)
writeLines(jsonlite::toJSON(list(fit = seconds, compile = stored$seconds), auto_unbox = TRUE),
           "seconds.json")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=Path, required=True, help="JSON file: problem to ELBO")
    parser.add_argument("--problems", nargs="+", default=sorted(problems()), choices=problems())
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--dtypes", nargs="+", default=["float64"])
    parser.add_argument("--max-seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, help="JSON file for the records")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    targets, results = json.loads(options.targets.read_text()), {}
    peers = [peer for peer in options.peers if not peer.startswith("rstan") or has_rstan()]
    configs = [config for peer in peers for config in grid(peer, options.dtypes)]
    for name in options.problems:
        records, fastest = time_to_reach(
            problems()[name], targets[name], configs, options.max_seconds
        )
        print("fastest:", describe(fastest) if fastest else "none reached the target")
        results[name] = {
            "target": targets[name],
            "records": [asdict(record) for record in records],
            "fastest": asdict(fastest) if fastest else None,
        }
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


def has_rstan() -> bool:
    """Return whether R with rstan can be called."""
    if shutil.which("Rscript") is None:
        return False
    check = ["Rscript", "-e", "stopifnot(requireNamespace('rstan'), requireNamespace('jsonlite'))"]
    return subprocess.run(check, check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
