"""The remedies that a rescue carries out, and the order in which it tries them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import MissingExtraError, require_extra
from vicheck.evaluation import unconstrained
from vicheck.model import Model, double_precision
from vicheck.remedies.situations import UNSETTLED
from vicheck.rescuing.bending import MOST_BENT, bent
from vicheck.rescuing.budget import Budget
from vicheck.rescuing.candidate import Candidate
from vicheck.rescuing.conditioning import FEWEST_CONDITIONED, conditioned
from vicheck.rescuing.proposals import (
    MOST_PARAMETERS,
    heavier,
    matched,
    mixed,
    t_around,
)
from vicheck.rescuing.steering import Steering
from vicheck.results.check import Check
from vicheck.stats.renyi import fit_renyi
from vicheck.stats.split_t import split_t
from vicheck.stats.t_mixtures import TMixture
from vicheck.vi.families.moments import covariance_of, mean_of
from vicheck.vi.families.registry import richer_than
from vicheck.vi.families.students import Students
from vicheck.vi.fitting import fit

__all__ = ["LADDER", "ON_REQUEST", "Patient", "Rung", "ordered"]

Floats = NDArray[np.float64]

_PLACE_DRAWS = 2000
"""Draws from which mean and covariance are taken where q itself is not known."""
LEAST_FLOWING = 2
"""Parameters that a flow needs: a layer of it changes some coordinates by the others."""
_MOST_RENYI = 10
"""Parameters up to which a divergence that covers mass can be estimated (Dhaka et al. 2021)."""


@dataclass(frozen=True, eq=False)
class Patient:
    """What a remedy finds: the most promising candidate so far, and what is known of it."""

    candidate: Candidate
    khat: float
    """Of the candidate, on fresh draws, if only a few of them."""
    check: Check
    """Of the candidate or, where it was not worth one, of an earlier one."""
    budget: Budget
    seed: int

    @property
    def model(self) -> Model:
        """The model in the coordinates of the candidate."""
        return self.candidate.model

    @property
    def findings(self) -> frozenset[str]:
        """Codes of what the check has found."""
        return frozenset(finding.code for finding in self.check.findings)

    def place(self) -> tuple[Floats, Floats]:
        """Return mean and covariance of the approximation, on the unconstrained scale."""
        q = self.candidate.q
        if q is not None:
            with double_precision():
                return np.asarray(mean_of(q)), np.asarray(covariance_of(q))
        draws = self.check.draws
        theta = {name: draws[name][:_PLACE_DRAWS] for name, _ in self.model.program.layout}
        with double_precision():
            z = unconstrained(self.model.program, theta, self.model.data)
        return z.mean(axis=0), np.atleast_2d(np.cov(z, rowvar=False))


@dataclass(frozen=True)
class Rung:
    """One remedy: what it is against, and how it is carried out."""

    name: str
    against: frozenset[str]
    """Causes (`Check.explain`) after which it is tried before others."""
    run: Callable[[Patient], Candidate | str]
    """Returns a candidate, or why there is none."""


def ordered(ladder: Sequence[Rung], causes: Sequence[str]) -> list[Rung]:
    """Return the remedies, those first that are against the causes, the worst cause first."""
    ranks = {code: rank for rank, code in enumerate(causes)}

    def rank(rung: Rung) -> int:
        return min((ranks[code] for code in rung.against if code in ranks), default=len(ranks))

    return sorted(ladder, key=rank)


def _converge(patient: Patient) -> Candidate | str:
    """Fit the same family to its optimum, with more draws where it was fitted so before."""
    known = patient.check.convergence
    if isinstance(patient.candidate.q, Students):
        return "a proposal built from draws has nothing to optimise"
    if known is not None and known.solver == "deterministic" and not patient.findings & UNSETTLED:
        return "the fit has converged"
    family = known.family if known is not None and known.family else "mean_field"
    options = {}
    if known is not None and known.solver == "deterministic":
        options = {"num_draws": 1024, "sampling_tolerance": 0.02}
    return _fitted(patient, family, **options)


def _richer_family(patient: Patient) -> Candidate | str:
    """Fit a normal with correlations."""
    fitted, known = patient.candidate.fit, patient.check.convergence
    family = (known.family if known is not None else "") or "mean_field"
    family = fitted.family if fitted is not None else family
    richer = richer_than(family, patient.model.dim)
    if richer in ("", family):
        return f"there is no family of normals richer than {family}"
    return _fitted(patient, richer)


def _reparametrise(patient: Patient) -> Candidate | str:
    """Learn how far to centre location-scale sites, and fit the model in these coordinates."""
    from vicheck.adapters.numpyro.reparametrise import learn_degrees, location_scale_sites

    if not location_scale_sites(patient.model):
        return "the model has no location-scale site whose parameters are unknown"
    learned = learn_degrees(patient.model, seed=patient.seed)
    return Candidate(learned.model, learned.fit.q, learned.fit, tuple(learned.code.splitlines()))


def _heavier_tails(patient: Patient) -> Candidate | str:
    """Take a t, or a split t, around q, as wide as it has to be."""
    start = _start(patient)
    if isinstance(start, str):
        return start
    steering = Steering(patient.model, patient.seed)
    return _proposed(
        patient, heavier(steering, start, split_t(steering.log_p, start)), adapted=False
    )


def _adapt(patient: Patient) -> Candidate | str:
    """Match the moments of weighted draws, and then split and widen."""
    start = _start(patient)
    if isinstance(start, str):
        return start
    steering = Steering(patient.model, patient.seed)
    moved, _ = matched(steering, start)
    return _proposed(patient, heavier(steering, moved, split_t(steering.log_p, moved)))


def _mix(patient: Patient) -> Candidate | str:
    """Adapt a mixture of t to weighted draws."""
    start = _start(patient)
    if isinstance(start, str):
        return start
    steering = Steering(patient.model, patient.seed)
    return _proposed(patient, mixed(steering, *matched(steering, start)))


def _renyi(patient: Patient) -> Candidate | str:
    """Take the t of least Renyi divergence, of an order that khat keeps finite."""
    dim = patient.model.dim
    if dim > _MOST_RENYI:
        return f"{dim} parameters are too many for Renyi variational inference ({_MOST_RENYI})"
    steering = Steering(patient.model, patient.seed)
    found = fit_renyi(steering.log_p, t_around(*patient.place()), None, rng=steering.rng)
    return _proposed(patient, found.q)


def _bend(patient: Patient) -> Candidate | str:
    """Fit a normal that is bent: skewed, heavy-tailed, with widths that depend on other axes."""
    if patient.model.dim > MOST_BENT:
        return f"{patient.model.dim} parameters are too many for a bent normal ({MOST_BENT})"
    return bent(patient.candidate, patient.seed)


def _flow(patient: Patient) -> Candidate | str:
    """Train a normalising flow that begins as the normal with the same mean and covariance."""
    dim = patient.model.dim
    if dim > MOST_PARAMETERS:
        return _too_many(dim)
    if dim < LEAST_FLOWING:
        return "a flow changes coordinates by others, and there is only one"
    try:
        require_extra("flow")
    except MissingExtraError as error:
        return str(error)
    from vicheck.rescuing.flowing import flowing

    return flowing(patient.candidate, *patient.place(), patient.seed)


def _condition(patient: Patient) -> Candidate | str:
    """Find normals of most coordinates given the few on which their widths depend."""
    dim = patient.model.dim
    if dim > MOST_PARAMETERS:
        return _too_many(dim)
    if dim < FEWEST_CONDITIONED:
        return f"{dim} parameters are too few for some to depend on others"
    return conditioned(patient.candidate, patient.seed)


def _cover_modes(patient: Patient) -> Candidate | str:
    """Put a part on each mode that the search has found, and adapt the parts."""
    fitted = patient.candidate.fit
    others = fitted.solution.others if fitted is not None else ()
    if not others:
        return "the search has found no other mode that was fitted"
    if patient.model.dim > MOST_PARAMETERS:
        return _too_many(patient.model.dim)
    members = [patient.place()]
    with double_precision():
        members += [(np.asarray(mean_of(o.q)), np.asarray(covariance_of(o.q))) for o in others]
    parts = [t_around(mean, covariance) for mean, covariance in members]
    mixture = parts[0]
    for count, part in enumerate(parts[1:], start=2):
        mixture = mixture.beside(part, 1.0 / count)
    steering = Steering(patient.model, patient.seed)
    return _proposed(patient, _balanced(steering, mixture))


def _balanced(steering: Steering, mixture: TMixture) -> TMixture:
    """Give each part of a mixture the share, mean and covariance of its own weighted draws."""
    from vicheck.rescuing.proposals import num_steering, refitted

    for _ in range(4):
        look = steering.look(mixture, num_steering(steering.dim) * len(mixture.parts))
        weights, _ = look.weights(max(50.0, 5.0 * steering.dim) * len(mixture.parts))
        mixture = refitted(mixture, look.z, weights)
    return mixture


def _fitted(patient: Patient, family: str, **options: object) -> Candidate:
    found = fit(patient.model, family=family, seed=patient.seed, **options)  # type: ignore[arg-type]
    return Candidate(patient.model, found.q, found, patient.candidate.code)


def _proposed(patient: Patient, mixture: TMixture, adapted: bool = True) -> Candidate:
    """Return a proposal as a candidate; a t around a fit is adapted to draws if that fit was."""
    q, before = Students.made_of(**vars(mixture)), patient.candidate
    return Candidate(patient.model, q, None, before.code, adapted or before.adapted)


def _start(patient: Patient) -> TMixture | str:
    if patient.model.dim > MOST_PARAMETERS:
        return _too_many(patient.model.dim)
    return t_around(*patient.place())


def _too_many(dim: int) -> str:
    return f"{dim} parameters are too many for importance sampling from a t ({MOST_PARAMETERS})"


LADDER: tuple[Rung, ...] = (
    Rung("converge", frozenset({"not-converged"}), _converge),
    Rung("cover-modes", frozenset({"mode"}), _cover_modes),
    Rung("reparametrise", frozenset({"funnel"}), _reparametrise),
    Rung("richer-family", frozenset({"correlation", "scale"}), _richer_family),
    Rung("condition", frozenset({"funnel"}), _condition),
    Rung("heavier-tails", frozenset(), _heavier_tails),
    Rung("adapt", frozenset(), _adapt),
    Rung("bend", frozenset({"heavy-tails", "skewness"}), _bend),
    Rung("mixture", frozenset(), _mix),
    Rung("flow", frozenset(), _flow),
)
"""In the order in which they are tried where no cause says otherwise."""
ON_REQUEST: tuple[Rung, ...] = (Rung("renyi", frozenset(), _renyi),)
"""Tried only where they are asked for by name: they were no better than those of the ladder."""
