"""The third witness: where short chains lead from the draws of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ArgumentError, in_brief
from vicheck.results.chains import ShortChains
from vicheck.results.psis import PsisResult, PsisStatus
from vicheck.stats.drift import (
    Known,
    Watched,
    correlations,
    drift_between,
    heights_along,
    nested_rhat,
    settling,
)

if TYPE_CHECKING:
    from vicheck.chains import Ends, Roots
    from vicheck.draws import Draws
    from vicheck.evaluation import Evaluated, Evaluation
    from vicheck.model import Model
    from vicheck.quantities import Quantities, Spec
    from vicheck.vi.density import Density
    from vicheck.vi.families.family import Family

__all__ = [
    "ENOUGH_EFFECTIVE",
    "LEAST_CHAINS",
    "Chains",
    "Found",
    "chains_of_draws",
    "chains_of_fit",
    "draws_of_fit",
    "num_numbers",
    "require_chains",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Chains = bool | int | None
"""What ``chains=`` takes."""
Found = tuple[ShortChains | None, tuple[str, ...]]
"""The chains, where any were run, and notes on why not."""

_BLOCK = 2**15
"""Numbers that are worked on at a time: as many as a small cache holds, with what they become."""
LEAST_CHAINS = 32
"""With fewer, nothing is known of errors."""
ENOUGH_EFFECTIVE = 1000
"""Effective draws with which starts are weighted; half of all draws are enough, too."""
_POOL = 2**23
"""Numbers in the noise of the draws among which weighted starts are chosen."""
_DRAWS_FOR_ROOTS = 4096
"""Draws from which the covariance of q is estimated where it has to be."""
_PILOTS, _PILOTS_ON_HOST = 32, 128
"""Chains that the step size is found with where gradients are dear, or may be: as many as are
evaluated together."""
_STREAM = (0, 17)
"""Added to the seed: other random numbers than those of the draws."""


def require_chains(chains: object) -> Chains:
    """Return the option, or raise when it cannot be used."""
    if chains is None or isinstance(chains, bool):
        return chains
    if isinstance(chains, int | np.integer):
        if chains >= LEAST_CHAINS:
            return int(chains)
        problem = f"must be at least {LEAST_CHAINS}, or True or False, got {chains}"
        raise ArgumentError("chains", problem)
    raise TypeError(f"chains must be True, False or a number of chains, got {chains!r}")


@dataclass(frozen=True, eq=False)
class _Witness:
    """All that chains of one approximation need."""

    model: Model
    """A snapshot."""
    names: tuple[str, ...]
    values: Floats
    """Quantities at draws of q, shape ``(S, Q)``."""
    psis: PsisResult
    log_weights: Floats
    """Of the first of these draws: those among which weighted starts are chosen."""
    z_of: Callable[[Rows], Floats]
    """Returns draws of q by their numbers."""
    values_at: Callable[[Floats], Floats]
    """Returns quantities at the ends of chains."""
    roots: Callable[[], Roots]


def chains_of_fit(
    model: Model,
    q: Family,
    reported: Quantities,
    evaluation: Evaluation,
    drawn: Evaluated,
    smoothed: PsisResult,
    seed: int,
    budget: float,
    chains: Chains,
) -> Found:
    """Run chains from draws of a member of one of vicheck's own families."""
    if chains is False:
        return None, ()
    from vicheck.chains import roots_of_q
    from vicheck.evaluation import values_at

    pool = min(len(drawn.values), max(1, _POOL // max(1, q.noise_dim)))
    witness = _Witness(
        model=model,
        names=reported.drawn_names,
        values=drawn.values,
        psis=smoothed,
        log_weights=smoothed.log_weights[:pool],
        z_of=lambda rows: draws_of_fit(q, evaluation, rows),
        values_at=lambda z: values_at(model.program, reported, z, model.data),
        roots=lambda: roots_of_q(q),
    )
    return _run(witness, seed, budget, chains)


def draws_of_fit(q: Family, evaluation: Evaluation, rows: Rows) -> Floats:
    """Return draws of q by their numbers, on the unconstrained scale."""
    import jax

    anchor: Family = jax.tree.map(lambda leaf: np.asarray(leaf)[None], q)
    chart = anchor.chart(np.zeros((1, q.dim)))
    return chart.draws(np.zeros((1, chart.step_dim)), evaluation.noise_of(rows)[None])[0]


def chains_of_draws(
    draws: Draws,
    values: Floats,
    names: tuple[str, ...],
    quantities: Spec | None,
    smoothed: PsisResult,
    seed: int,
    budget: float,
    chains: Chains,
) -> Found:
    """Run chains from draws that were made elsewhere, where their model is known."""
    model = draws.model
    if chains is False:
        return None, ()
    if model is None:
        if chains:
            raise ArgumentError("chains", "needs a model with its density, got draws without one")
        return None, ()
    from vicheck.model import double_precision

    try:
        with double_precision():
            witness = _witness_of_draws(
                draws, model.snapshot(), values, names, quantities, smoothed
            )
            if isinstance(witness, str):
                return None, (f"Short chains were left out: {witness}.",)
            return _run(witness, seed, budget, chains)
    except Exception as error:
        if chains:
            raise
        # A check of draws needs no gradient, and must not fail because there is none.
        reason = in_brief(error)
        return None, (f"Short chains were left out: the model cannot run them ({reason}).",)


def _witness_of_draws(
    draws: Draws,
    model: Model,
    values: Floats,
    names: tuple[str, ...],
    quantities: Spec | None,
    smoothed: PsisResult,
) -> _Witness | str:
    """Return what chains need, or why they cannot be run."""
    from vicheck.chains import roots_of_draws, roots_of_q
    from vicheck.checking.given import quantities_of_draws
    from vicheck.evaluation import unconstrained

    layout = [name for name, _ in model.program.layout]
    absent = [name for name in layout if name not in draws.values]
    if absent:
        return f"the draws lack {', '.join(absent)}"

    def z_of(rows: Rows) -> Floats:
        theta = {name: draws.values[name][rows] for name in layout}
        return unconstrained(model.program, theta, model.data)

    def theta_at(z: Floats) -> dict[str, Floats]:
        there = model.constrain(z)
        return {name: there[name] for name in draws.values if name in there}

    first = theta_at(z_of(np.zeros(1, np.intp)))
    unknown = [name for name in draws.values if name not in first]
    if unknown:
        return f"the model does not say what {', '.join(unknown)} would be elsewhere"

    def values_at(z: Floats) -> Floats:
        arrays = quantities_of_draws(theta_at(z), quantities, model.indexing, model)
        return np.concatenate([array.reshape(len(z), -1) for array in arrays.values()], axis=1)

    def roots() -> Roots:
        q = draws.q.family() if draws.q is not None else None
        if q is not None:
            return roots_of_q(q)
        return roots_of_draws(z_of(np.arange(min(len(values), _DRAWS_FOR_ROOTS))))

    kept = smoothed.log_weights[: len(values)]
    return _Witness(model, names, values, smoothed, kept, z_of, values_at, roots)


def _run(witness: _Witness, seed: int, budget: float, chains: Chains) -> Found:
    from vicheck.chains import plan_chains, run_chains
    from vicheck.vi.density import Density

    model = witness.model
    plan = plan_chains(num_numbers(model), witness.psis.num_draws)
    if chains is None and not plan.is_affordable:
        cost = "they would take longer than the check itself; chains=True runs them"
        return None, (f"Short chains were left out: {cost}.",)
    if len(witness.values) < LEAST_CHAINS:
        return None, (f"Short chains were left out: there are fewer than {LEAST_CHAINS} draws.",)
    rng = np.random.default_rng((seed, *_STREAM))
    number = plan.num_chains if chains is None or chains is True else chains
    rows, weights = _starts(witness, number, rng)
    density, lane = Density(model.program, model.data, {}), np.zeros(1, np.intp)

    def evaluate(z: Floats) -> tuple[Floats, Floats]:
        log_p, gradients = density(lane, z[None])
        return log_p[0], gradients[0]

    ends = run_chains(
        evaluate,
        witness.values_at,
        witness.z_of(rows),
        witness.roots(),
        plan.num_gradients,
        rng,
        num_pilots=_num_pilots(model, density),
        most_seconds=np.inf if chains else budget,
    )
    if ends is None:
        late = f"they would take longer than {budget:g} s; chains=True runs them"
        return None, (f"Short chains were left out: {late}.",)
    return _summary(witness, rows, weights, ends), ()


def _num_pilots(model: Model, density: Density) -> int | None:
    """Return how many chains find the step size; None where the cost is per call."""
    if not density.is_cheap:
        return _PILOTS
    return _PILOTS_ON_HOST if model.program.runs_unseen_code("log_density", model.data) else None


def num_numbers(model: Model) -> int:
    """Return how many numbers one evaluation of the density goes through."""
    import jax

    if model.program.elsewhere:  # in files, nobody knows how many
        return 2**62
    return model.dim + sum(int(np.size(leaf)) for leaf in jax.tree.leaves(model.data))


def _starts(witness: _Witness, number: int, rng: np.random.Generator) -> tuple[Rows, Floats | None]:
    """Return which draws chains start at, and the weights of all that these are chosen among.

    None where plain draws are better starts: where khat does not allow weights, or where these
    leave so few effective draws that weighted means are known no better than to some percent.
    """
    from vicheck.chains import resampled

    number = min(number, len(witness.values))
    psis = witness.psis
    if psis.status is PsisStatus.CONSTANT:  # draws of q are weighted draws
        return np.arange(number), np.full(len(witness.values), 1.0 / len(witness.values))
    if psis.status is not PsisStatus.OK or not psis.khat < psis.threshold:
        return np.arange(number), None
    with np.errstate(under="ignore"):
        weights = np.exp(witness.log_weights - witness.log_weights.max())
    weights /= weights.sum()
    if np.square(weights).sum() * min(ENOUGH_EFFECTIVE, len(weights) / 2) > 1.0:
        return np.arange(number), None
    return resampled(weights, number, rng), weights


def _summary(witness: _Witness, rows: Rows, weights: Floats | None, ends: Ends) -> ShortChains:
    kept = rows[ends.kept]
    count, width = len(kept), witness.values.shape[1]
    starts = witness.values[kept]
    with np.errstate(all="ignore"):  # where something is not finite, nothing is known
        of_q = of_starts = _known(np.ones(len(witness.values)), witness.values)
        inflation = 1.0
        if weights is not None:
            of_starts = _known(weights, witness.values[: len(weights)])
            # Chains from the same draw share their luck, and draws may count for few.
            inflation = float(np.sqrt(1.0 + count * np.square(weights).sum()))
        end_sd = np.sqrt(ends.late.spreads.mean(axis=0)) if count else np.full(width, np.nan)
    watched = Watched(starts, ends.values, *ends.late)
    from_starts = from_q = drift_between(watched, of_starts, inflation)
    if weights is not None:
        plain = watched._replace(starts=witness.values[:count])
        from_q = drift_between(plain, of_q, inflation)
    return ShortChains(
        names=witness.names,
        starts="q" if weights is None else "weighted",
        num_chains=count,
        num_left_out=len(rows) - count,
        num_steps=ends.num_steps,
        num_gradients=ends.num_gradients,
        step_size=ends.step_size,
        acceptance=ends.acceptance,
        start_mean=of_starts.mean,
        start_sd=np.sqrt(of_starts.variance),
        end_mean=of_starts.mean + from_starts.shift * end_sd,
        end_sd=end_sd,
        from_starts=from_starts,
        from_q=from_q,
        settling=settling(ends.middle, ends.late, inflation),
        memory=correlations(ends.middle.averages, ends.late.averages),
        heights=heights_along(*ends.heights, witness.model.dim),
        rhat=nested_rhat(starts, ends.values),
    )


def _known(weights: Floats, values: Floats) -> Known:
    """Return weighted moments of draws and their errors; what has no weight counts for nothing."""
    both = np.stack([weights, np.square(weights) / weights.sum()]) / weights.sum()
    mean, _ = _summed(both, values, lambda block: block)
    variance, of_mean = _summed(both, values, lambda block: np.square(block - mean))
    _, of_variance = _summed(both, values, lambda block: (np.square(block - mean) - variance) ** 2)
    return Known(mean, np.sqrt(of_mean), variance, np.sqrt(of_variance))


def _summed(weights: Floats, values: Floats, of: Callable[[Floats], Floats]) -> Floats:
    """Return sums over draws of some numbers of their values, for each row of weights."""
    total = np.zeros((len(weights), values.shape[1]))
    height = max(1, _BLOCK // max(1, values.shape[1]))
    for start in range(0, len(values), height):
        weight, block = weights[:, start : start + height], values[start : start + height]
        counts = weight[0] > 0.0
        if not counts.all():
            weight, block = weight[:, counts], block[counts]
        total += weight @ of(block)
    return total
