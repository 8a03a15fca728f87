"""Ratios, convergence and modes of every kind, for tables of verdicts."""

from dataclasses import replace

import numpy as np

import vicheck
from vicheck.results.chains import Drift, Heights, ShortChains
from vicheck.results.convergence import Convergence, GradientTest, PooledModes
from vicheck.results.estimates import Measure
from vicheck.results.modes import ModeSearch
from vicheck.results.psis import PsisStatus
from vicheck.results.screening import Screening
from vicheck.results.status import FitStatus
from vicheck.results.tail_fits import TailFits


def psis_of_shape(k, num_draws):
    """PSIS of ratios with a tail of a known shape."""
    u = np.random.default_rng(1).uniform(size=num_draws)
    return vicheck.psis(-k * np.log(u))


def psis_of(s, num_draws, seed=2):
    """PSIS of q = N(0, s^2) against p = N(0, 1)."""
    theta = s * np.random.default_rng(seed).normal(size=num_draws)
    return vicheck.psis(-(theta**2) / 2 + theta**2 / (2 * s**2))


def lifted():
    """PSIS of so few draws that the prior of khat has lifted it above the threshold."""
    results = (psis_of(0.95, 30, seed=seed) for seed in range(40))
    return next(
        result
        for result in results
        if result.threshold <= result.khat < 0.7 and result.exceedance_probability < 0.5
    )


def ratios():
    """Return one PSIS result for each code that khat can lead to."""
    measured = psis_of_shape(0.3, 100_000)
    return {
        "khat-good": measured,
        "khat-constant": vicheck.psis(np.zeros(100)),
        "khat-usable": psis_of_shape(0.6, 100_000),
        "khat-high": psis_of_shape(1.2, 100_000),
        "khat-few-draws": lifted(),
        "khat-undefined": replace(measured, status=PsisStatus.NOT_FINITE, khat=np.nan),
    }


def not_pareto():
    """Return ratios whose tail is not Pareto: one that is low further out, and one not seen."""
    high = replace(psis_of_shape(1.2, 10_000), khat=3.5)
    khats = {600: 2.0, 300: 3.5, 150: 0.4, 75: 0.4, 37: 0.4}
    return {
        "not-pareto": replace(high, tail_fits=TailFits(khats, 0.4, 150, largest=5.0)),
        "tail-unseen": replace(high, tail_fits=TailFits(khats, np.nan, 0, largest=5.0)),
    }


def screenings():
    """Return draws that are not what they seem, by what is found."""
    fine = Screening(
        num_draws=1000, num_copies=0, tail_length=95, tail_copies=0, num_clipped=0,
        likeness=1.0, resolution=1e-12,
    )  # fmt: skip
    return {
        "": fine,
        "swapped-densities": replace(fine, swapped=True, swapped_khat=1.4),
        "tied-draws": replace(fine, num_copies=900),
        "clipped-ratios": replace(fine, num_clipped=10),
        "dependent-draws": replace(fine, likeness=40.0),
        "coarse-ratios": replace(fine, resolution=0.0625),
        "ratios-too-coarse": replace(fine, resolution=8.0),
    }


GRADIENTS = {
    "zero": GradientTest(size=0.01, p_value=1.0, tolerance=0.1, worst="x", num_draws=1024),
    "moving": GradientTest(size=2.0, p_value=1e-9, tolerance=0.1, worst="tau", num_draws=1024),
    "undefined": GradientTest(np.nan, np.nan, tolerance=0.1, worst="x", num_draws=1024),
}


def ended(status=FitStatus.CONVERGED, gradient="zero", **changes):
    """Return what is known of a fit that ended so."""
    options = {"solver": "deterministic", "family": "mean_field"} | changes
    return Convergence(status=status, gradient=GRADIENTS[gradient], **options)


def searched(num_arrived=48, log_mass=(0.0,), num_reached=1, symmetry="", away=1.0, endless=""):
    """Return a search from 48 starts; ``away`` is the distance of its modes."""
    count = len(log_mass)
    return ModeSearch(
        starts={"approximation": 1, "box": 47},
        num_arrived=num_arrived,
        num_evaluations=1000,
        num_reached=num_reached,
        z=np.zeros((count, 1)),
        log_p=np.zeros(count),
        log_mass=np.array(log_mass),
        counts=np.ones(count),
        away=np.full(count, away),
        symmetry=symmetry,
        endless=endless,
    )


def pooled(missed, khat=0.2):
    """Return a mixture of two optima, 10 sds apart."""
    return PooledModes(
        khat=khat,
        log_evidence=Measure(0.0, 0.1),
        missed=missed,
        masses=np.array([1.0 - missed, missed]),
        locations=np.zeros((2, 1)),
        names=("mu", "other"),
        shift=np.array([10.0 * missed, 0.0]),
        growth=np.array([0.5 * np.log1p(100.0 * missed * (1.0 - missed)), 0.0]),
    )


def drift(shift=0.0, growth=0.0, error=0.02):
    """Return how far two quantities have moved: the first not at all, the second as said."""
    sizes = np.array([[0.0, shift], [0.0, growth]])
    p_values = np.where(sizes == 0.0, 1.0, 1e-9)
    errors = np.full(2, error)
    return Drift(sizes[0], errors, p_values[0], sizes[1], errors, p_values[1])


def heights(memory=0.1, shift=0.0, variance=0.5):
    """Return what log densities do along chains, by default those of chains that have arrived."""
    return Heights(memory, shift, 0.02, variance)


def chains(from_starts=None, from_q=None, **changes):
    """Return chains that have moved nothing but what is said."""
    from_starts = drift() if from_starts is None else from_starts
    options = {
        "names": ("a", "tau"),
        "starts": "weighted",
        "num_chains": 1024,
        "num_left_out": 0,
        "num_steps": 32,
        "num_gradients": 128,
        "step_size": 1.0,
        "acceptance": 0.75,
        "start_mean": np.zeros(2),
        "start_sd": np.ones(2),
        "end_mean": from_starts.shift,
        "end_sd": np.exp(from_starts.growth),
        "from_starts": from_starts,
        "from_q": from_starts if from_q is None else from_q,
        "settling": drift(),
        "memory": np.full(2, 0.1),
        "heights": heights(),
        "rhat": np.ones(2),
    }
    return ShortChains(**(options | changes))
