"""`compare`: rank approximations, parametrizations and families by khat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

from vicheck.checking.enough import NumDraws, require_num_draws
from vicheck.checking.run import check, is_drawn_from
from vicheck.errors import refuse_unused
from vicheck.results.check import Check
from vicheck.results.comparison import Comparison
from vicheck.runtime.progress import Progress, with_progress
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.runtime.workers import require_executor

__all__ = ["compare"]


@with_progress("comparing")
def compare(
    candidates: Mapping[str, Any] | Iterable[Any],
    *,
    families: tuple[str, ...] | None = None,
    num_draws: NumDraws = None,
    seed: Seed | None = None,
    budget: float | None = None,
    executor: Executor | None = None,
    progress: Progress = True,
    **options: Any,
) -> Comparison:
    """Rank approximations by khat: fits made anywhere, and models fitted here.

    khat compares what an ELBO cannot: parametrizations of the same model, and models of different
    families (the paper's sections 2.3 and 4.3). A smooth change of variables of p and q together
    leaves it unchanged.

    Parameters
    ----------
    candidates
        Models, checks, and anything that `vicheck.check` takes, by name; without names they are
        numbered.
    families
        Families to fit each model with; ``("mean_field",)`` by default. For models only.
    num_draws, seed
        As in `vicheck.check`, for candidates that can be drawn from; ``seed`` also for the fits.
    budget, executor
        As in `vicheck.check`, for each candidate, one after the other; ``executor`` for models and
        for fits of vicheck's own.
    progress
        Whether to show a progress line on standard error, after a second and only in a terminal or
        a notebook; or a function to be called with each sentence instead.
    **options
        Passed to `vicheck.fit`. For models only.

    Raises
    ------
    TypeError
        For an argument that would have no effect on any candidate; the message names it.

    Examples
    --------
    >>> from vicheck.paper import models
    >>> schools = {
    ...     "centred": vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS),
    ...     "non-centred": vicheck.from_numpyro(
    ...         models.eight_schools_noncentred, **models.EIGHT_SCHOOLS
    ...     ),
    ... }
    >>> vicheck.compare(schools, num_draws=20_000).best
    'non-centred'
    """
    from vicheck.model import Model
    from vicheck.results.fit import Fit
    from vicheck.vi.families.registry import entry_of, family_names
    from vicheck.vi.fitting import fit

    if isinstance(candidates, str) or not isinstance(candidates, Iterable):
        raise TypeError(
            "candidates must be a list of fits and models, or a dictionary of them by name, got "
            f"{type(candidates).__name__}: write [candidate]"
        )
    seed = None if seed is None else as_seed(seed)
    require_num_draws(num_draws, budget)  # before anything is fitted
    require_executor(executor)
    if not isinstance(candidates, Mapping):
        candidates = {f"{index}": candidate for index, candidate in enumerate(candidates)}
    if not candidates:
        raise ValueError("candidates must hold at least one fit or model, got none")
    are_models = [isinstance(candidate, Model) for candidate in candidates.values()]
    given = [*(["families"] if families is not None else []), *options]
    if given and not any(are_models):
        plural = len(given) > 1
        raise TypeError(
            f"{', '.join(given)} {'do' if plural else 'does'} not apply to fits that were made "
            f"already, and no candidate is a model: leave {'them' if plural else 'it'} out"
        )
    families = family_names()[:1] if families is None else families
    if isinstance(families, str):
        raise TypeError(f"families must be a tuple of names, got the string {families!r}")
    families = tuple(entry_of(family).name for family in families)
    subjects: dict[str, Any] = {}
    for name, candidate in candidates.items():
        if not isinstance(candidate, Model):
            subjects[name] = candidate
            continue
        for family in families:
            label = name if len(families) == 1 else f"{name}, {family}"
            if label in candidates and label != name:
                raise ValueError(
                    f"candidates must have other names than the fits of models, got {label!r} twice"
                )
            subjects[label] = fit(candidate, family=family, seed=seed or 0, **options)
    drawn = [is_drawn_from(subject) for subject in subjects.values()]
    arguments: dict[str, Any] = {"num_draws": num_draws, "seed": seed, "budget": budget}
    if not any(drawn):
        what = "draws that already exist, and no candidate can be drawn from"
        refuse_unused(arguments | {"executor": executor}, what)
    if not any(isinstance(subject, Fit) for subject in subjects.values()):
        what = "fits that were made elsewhere, and no candidate is a model or a fit by vicheck"
        refuse_unused({"executor": executor}, what)
    checks = {
        name: _checked(subject, arguments if can_draw else {}, executor)
        for (name, subject), can_draw in zip(subjects.items(), drawn, strict=True)
    }
    return Comparison(dict(sorted(checks.items(), key=lambda item: _rank(item[1]))))


def _checked(subject: Any, arguments: dict[str, Any], executor: Executor | None) -> Check:
    from vicheck.results.fit import Fit

    if isinstance(subject, Check):
        return subject
    if isinstance(subject, Fit):
        return check(subject, executor=executor, **arguments)
    return check(subject, **arguments)


def _rank(checked: Check) -> tuple[bool, float]:
    """Sort by khat, and what has none last."""
    return checked.khat != checked.khat, checked.khat
