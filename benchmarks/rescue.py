"""What a rescue makes of fits that fail, against known answers and against NUTS; written to docs/.

Run by ``make bench-rescue``. Every problem is fitted by the default mean field and rescued in
900 seconds; the rescued means and sds are held against the truth. NUTS from nothing, four chains of
1000 draws after 1000 steps of warm-up, takes its own gradients.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.stats import beta

import vicheck
from vicheck.paper.fig7 import make_model as horseshoe
from vicheck.paper.leukemia import load_leukemia

sys.path.insert(0, str(Path(__file__).parent))
from truth.problem import Moments, Problem, Truth
from truth.problems import all_problems

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "rescue.json", ROOT / "docs" / "rescue-benchmarks.md"
HONESTY = ROOT / "benchmarks" / "rescue_honesty.json"
SECONDS = 900.0
"""More than any of them takes, so that a busy machine does not decide what is tried."""
TRUTHS = ROOT / "benchmarks" / "rescue_truths.json"
HEAD = """# Rescues, measured

Written by `make bench-rescue` (`benchmarks/rescue.py`); do not edit.

Each problem is fitted by the default mean field and then rescued with a budget of 900 seconds.
khat before is from 8000 draws, or from 32,000 where the 8000 were promising; khat after is from
32,000 fresh ones. The errors are the largest of any quantity: of a mean in posterior sds, of an sd
as a log ratio, and of a mean in Monte Carlo errors (its own and the reference's). They are held
against exact numbers, the reference draws of posteriordb or long runs of NUTS
(`benchmarks/rescue_truths.py`). A mean or sd that a rescue leaves out is not counted. *gradients*
counts all that were evaluated, in the fit, remedies, checks, short chains and, where it was run,
NUTS; *densities* counts evaluations without a gradient, which cost about a third as much. *NUTS*
is the number of gradients of NUTS run from scratch, four chains of 1000 draws after 1000 steps of
warm-up, with a star where its R-hat, effective draws or divergences are not in order. *s* is
processor seconds, including compiling. {when}

| problem | d | khat before | after | level | by | mean | sd | in MCSE \
| gradients | densities | NUTS | s |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of problems; all by default")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data/posteriordb")
    parser.add_argument("--nuts", action="store_true", help="also run NUTS from nothing")
    options = parser.parse_args()
    listed = {problem.name: problem for problem in cases(options.data)}
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.names or listed:
        known = {each: rows.get(name, {}).get(each) for each in ("nuts_gradients", "nuts_caution")}
        rows[name] = rescued(listed[name]) | (nuts(listed[name]) if options.nuts else known)
        print(name, json.dumps(rows[name]), flush=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
        measured = {each: rows[each] for each in listed if "level" in rows.get(each, {})}
        PAGE.write_text(as_markdown(measured, [each for each in listed if each not in measured]))


def cases(data: Path) -> Iterator[Problem]:
    """Yield the problems of the page, those with a known answer from the scoreboard."""
    known = all_problems(data)
    for name in ("eight schools, centred", "eight schools, noncentred"):
        yield known[name]
    yield own("Gaussian, 20 dimensions, correlation 0.95", gaussian, gaussian_truth())
    yield own("logistic regression, correlation 0.99", logistic)
    yield own("independent t(5), 10 dimensions", student, student_truth())
    yield own("gamma-Poisson", gamma_poisson)
    yield own("normals at 0 and 6, 20% there", two_modes, two_modes_truth())
    yield own("20 groups, two varying coefficients", radon)
    yield own("local level, 25 steps", local_level)
    yield own("hierarchical logistic regression, 4 groups, centred", groups)
    yield from (each for each in known.values() if each.kind == "posteriordb")
    if (data.parent / "leukemia.npz").exists():
        leukemia = load_leukemia(str(data.parent))
        yield own("horseshoe, 14,261 parameters", lambda: horseshoe(leukemia))


def own(name: str, make: Any, truth: Truth | None = None) -> Problem:
    return Problem(name, "rescue", lambda: truth or by_long_nuts(name), make)


def by_long_nuts(name: str) -> Truth:
    """Return the moments that ``rescue_truths.py`` has found, if any."""
    known = json.loads(TRUTHS.read_text())
    if name not in known:
        return Truth({}, "not known")
    moments = {label: Moments(*each) for label, each in known[name]["moments"].items()}
    return Truth(moments, "long NUTS", num_draws=known[name]["least_ess"])


def rescued(problem: Problem) -> dict[str, Any]:
    """Fit, rescue, and compare with the truth."""
    assert problem.make is not None
    model = problem.make()
    start = time.process_time()
    found = vicheck.rescue(vicheck.fit(model), quantities=problem.quantities, budget=SECONDS)
    seconds = time.process_time() - start
    errors = compared(found.moments, problem.truth())
    trail = found.trail
    return {
        "parameters": model.dim,
        "measured": date.today().isoformat(),
        "version": vicheck.__version__,
        "khat_before": float(trail["khat_after"][0]),
        "khat_after": float(found.check.khat),
        "level": found.check.verdict.level,
        "succeeded": found.succeeded,
        "by": list(found.remedies),
        "gradients": found.num_gradients,
        "densities": found.num_evaluations - found.num_gradients,
        "seconds": round(seconds, 1),
        **errors,
    }


def compared(moments: Any, truth: Truth) -> dict[str, Any]:
    """Return the largest errors: of a mean in sds, of an sd as a factor, of a mean in MCSEs."""
    known = {name: each for name, each in truth.moments.items() if name in moments.index}
    if not known:
        return {"mean_error": None, "sd_error": None, "in_mcse": None}
    table = moments.loc[list(known)]
    mean = np.array([each.mean for each in known.values()])
    sd = np.array([each.sd for each in known.values()])
    off = np.abs(table["mean"].to_numpy(float) - mean)
    noise = np.hypot(table["mcse"].to_numpy(float), sd / np.sqrt(truth.num_draws))
    return {
        "mean_error": float(np.nanmax(off / sd)),
        "sd_error": float(np.nanmax(np.abs(np.log(table["sd"].to_numpy(float) / sd)))),
        "in_mcse": float(np.nanmax(off / noise)),
    }


def nuts(problem: Problem) -> dict[str, Any]:
    assert problem.make is not None
    sampled = vicheck.reference(problem.make())
    return {"nuts_gradients": sampled.num_gradients, "nuts_caution": sampled.caution}


def gaussian() -> Any:
    precision = np.linalg.inv(0.95 * np.ones((20, 20)) + 0.05 * np.eye(20))
    return vicheck.from_log_density(lambda x: -0.5 * x @ precision @ x, np.zeros(20))


def gaussian_truth() -> Truth:
    return Truth({f"x[{i}]": Moments(0.0, 1.0) for i in range(20)}, "closed form")


def logistic() -> Any:
    rng = np.random.default_rng(99)
    common = rng.normal(size=(200, 1))
    x = np.sqrt(0.99) * common + 0.1 * rng.normal(size=(200, 5))
    y = rng.binomial(1, 1 / (1 + np.exp(-x.sum(axis=1))))

    def model(x: Any, y: Any = None) -> None:
        slope = numpyro.sample("slope", dist.Normal(0, 2.5).expand([5]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ slope), obs=y)

    return vicheck.from_numpyro(model, x, y=y)


def student() -> Any:
    return vicheck.from_log_density(lambda x: dist.StudentT(5.0).log_prob(x).sum(), np.zeros(10))


def student_truth() -> Truth:
    return Truth({f"x[{i}]": Moments(0.0, (5 / 3) ** 0.5) for i in range(10)}, "closed form")


def gamma_poisson() -> Any:
    counts = np.array([0, 1, 0, 7, 2, 0, 12, 1])

    def model(y: Any = None) -> None:
        shape = numpyro.sample("shape", dist.Exponential(1.0))
        rate = numpyro.sample("rate", dist.Exponential(1.0))
        means = numpyro.sample("means", dist.Gamma(shape, rate).expand([8]).to_event(1))
        numpyro.sample("y", dist.Poisson(means).to_event(1), obs=y)

    return vicheck.from_numpyro(model, y=counts)


def two_modes() -> Any:
    normal = dist.Normal(0.0, 1.0)

    def log_density(x: Any) -> Any:
        rest = normal.log_prob(x[1:]).sum()
        return rest + jnp.logaddexp(
            jnp.log(0.8) + normal.log_prob(x[0]), jnp.log(0.2) + normal.log_prob(x[0] - 6.0)
        )

    return vicheck.from_log_density(log_density, np.zeros(3))


def two_modes_truth() -> Truth:
    moments = {"x[0]": Moments(1.2, (1.0 + 0.8 * 0.2 * 36.0) ** 0.5)}
    return Truth(moments | {f"x[{i}]": Moments(0.0, 1.0) for i in (1, 2)}, "closed form")


def radon() -> Any:
    rng = np.random.default_rng(7)
    group = np.repeat(np.arange(20), rng.integers(2, 9, size=20))
    x = rng.normal(size=len(group))
    base, slope = rng.normal(1.0, 0.4, size=20), rng.normal(-0.6, 0.2, size=20)
    y = base[group] + slope[group] * x + 0.7 * rng.normal(size=len(group))

    def model(x: Any, group: Any, y: Any = None) -> None:
        centre = numpyro.sample("centre", dist.Normal(0, 2).expand([2]).to_event(1))
        spread = numpyro.sample("spread", dist.HalfNormal(1).expand([2]).to_event(1))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        with numpyro.plate("groups", 20):
            base = numpyro.sample("base", dist.Normal(centre[0], spread[0]))
            slope = numpyro.sample("slope", dist.Normal(centre[1], spread[1]))
        numpyro.sample("y", dist.Normal(base[group] + slope[group] * x, noise), obs=y)

    return vicheck.from_numpyro(model, x, group, y=y)


def local_level() -> Any:
    rng = np.random.default_rng(25)
    y = np.cumsum(0.5 * rng.normal(size=25)) + rng.normal(size=25)

    def model(y: Any = None) -> None:
        drift = numpyro.sample("drift", dist.HalfNormal(1))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        steps = numpyro.sample("steps", dist.Normal(0, 1).expand([25]).to_event(1))
        level = numpyro.deterministic("level", drift * jnp.cumsum(steps))
        numpyro.sample("y", dist.Normal(level, noise).to_event(1), obs=y)

    return vicheck.from_numpyro(model, y=y)


def groups() -> Any:
    trials, successes = np.array([10, 12, 8, 15]), np.array([8, 5, 6, 4])

    def model(trials: Any, y: Any = None) -> None:
        centre = numpyro.sample("centre", dist.Normal(0, 1.5))
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        effect = numpyro.sample("effect", dist.Normal(centre, spread).expand([4]).to_event(1))
        numpyro.sample("y", dist.Binomial(trials, logits=effect), obs=y)

    return vicheck.from_numpyro(model, trials, y=successes)


def as_markdown(rows: dict[str, dict[str, Any]], missing: list[str]) -> str:
    lines = [HEAD.replace("{when}", when(rows))]
    for name, row in rows.items():
        level = row["level"] if row["succeeded"] else f"{row['level']}, not rescued"
        if row["succeeded"] and "mcmc" in row["by"]:
            level += ", and NUTS has mixed"
        errors = [number(row[each]) for each in ("mean_error", "sd_error", "in_mcse")]
        of_nuts = row.get("nuts_gradients") or ""
        star = "\\*" if row.get("nuts_caution") else ""
        lines.append(
            f"| {name} "
            f"| {row['parameters']} | {row['khat_before']:.2f} | {row['khat_after']:.2f} "
            f"| {level} | {', '.join(row['by'])} | {' | '.join(errors)} | {row['gradients']} "
            f"| {row['densities']} | {of_nuts}{star} | {row['seconds']} |"
        )
    if missing:
        lines += ["", f"Not measured: {'; '.join(missing)}."]
    return "\n".join([*lines, *honesty()]) + "\n"


def when(rows: dict[str, dict[str, Any]]) -> str:
    """Say on which days and with which versions rows were measured."""
    days = sorted({row["measured"] for row in rows.values()})
    versions = ", ".join(sorted({row["version"] for row in rows.values()}))
    span = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
    return f"Rescues were run\n{span}, with vicheck {versions}."


def honesty() -> list[str]:
    """Return what `rescue_honesty.py` has counted, with the interval of Clopper and Pearson."""
    if not HONESTY.exists():
        return []
    known = json.loads(HONESTY.read_text())
    said, of = known["called rescued"], known["repeats"]
    low = beta.ppf(0.025, said, of - said + 1) if said else 0.0
    high = beta.ppf(0.975, said + 1, of - said) if said < of else 1.0
    return [
        "",
        "## False rescues",
        "",
        "A funnel of 15 parameters given as a bare density has no remedy among t's. Of "
        f"{of} rescues by",
        f"`heavier-tails` and `adapt` (`benchmarks/rescue_honesty.py`) {said} were called rescued: "
        "a rate of",
        f"{low:.3f} to {high:.3f} (95%). The lowest khat of a candidate was "
        f"{known['lowest khat']:.2f}, the median of the lowest",
        f"{known['median khat']:.2f}: khat alone would have let some pass. All took "
        f"{known['seconds']} s of the processor.",
    ]


def number(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.2g}"


if __name__ == "__main__":
    main()
