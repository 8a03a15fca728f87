"""`check` and `check_draws`: from anything that says what it is, or from arrays, to a `Check`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from vicheck.checking.arrays import draws_of_arrays, draws_of_columns
from vicheck.checking.chained import Chains, require_chains
from vicheck.checking.elsewhere import check_approximation
from vicheck.checking.enough import BUDGET, NumDraws, require_num_draws
from vicheck.checking.fitted import check_fit
from vicheck.checking.given import check_given
from vicheck.draws import Draws
from vicheck.errors import refuse_unused, require_count
from vicheck.results.check import Check
from vicheck.runtime.interrupts import between_pieces
from vicheck.runtime.progress import Progress, showing
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.runtime.workers import require_executor

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.quantities import Spec
    from vicheck.results.reference import Reference

__all__ = ["check", "check_draws", "is_drawn_from"]


@between_pieces()
def check(
    what: Any,
    *,
    num_draws: NumDraws = None,
    quantities: Spec | None = None,
    reference: Reference | None = None,
    test_data: Mapping[str, Any] | None = None,
    seed: Seed | None = None,
    budget: float | None = None,
    executor: Executor | None = None,
    num_starts: int | None = None,
    chains: Chains = None,
    progress: Progress = True,
) -> Check:
    """Find out whether an approximation can be trusted.

    Parameters
    ----------
    what
        Anything that says what it is: a fit by `vicheck.fit`; `vicheck.Draws`; what ``pymc.fit`` or
        ``pymc_extras.fit`` returned; a ``CmdStanVB``, ``CmdStanPathfinder`` or ``CmdStanLaplace``
        of CmdStanPy; a DataTree or InferenceData with ``log_p`` and ``log_q``; or the path of a
        file: a CSV file from Stan, a ``.nc`` or ``.zarr`` from ArviZ, or the ``.npz`` of a saved
        check, which is read back. A DataFrame, and a ``.csv``, ``.npz`` or ``.parquet``, may hold
        draws from anywhere with their log densities in columns ``log_p`` and ``log_q``, or under
        names like these (``lp``, ``lp__``); for others see `vicheck.check_draws`.
    num_draws
        Draws from q, 100,000 by default. ``"auto"`` begins with 1000 and doubles them until more
        can hardly change the level or the column ``use``, at most to 128,000, or until the budget
        is used up; a note says which. The default does the same where 100,000 draws would take
        longer than the budget. Memory stays bounded: when the quantities at all draws need more
        than 1 GiB, ``moments`` use the first draws that fit into it, and khat all of them. Not for
        draws that already exist.
    quantities
        What to report on: names (``theta``, ``theta[0]``; elements in Stan count from one) and
        ``log_likelihood``; or a dictionary of functions, each from the dictionary of parameters of
        one draw, and the data as an optional second argument, to a scalar or array. For a fit by
        `vicheck.fit` they are compiled, so write them with ``jax.numpy`` and define them only
        once. By default every parameter on its own scale and everything the model derives from
        them.
    reference
        Draws by NUTS from `vicheck.reference`: adds true errors to ``moments``.
    test_data
        Held-out data with the same names as the model's: adds its log predictive density. For fits
        by `vicheck.fit`.
    seed
        An integer or a JAX key; the same seed gives the same bits. 0 by default. Not for draws
        that already exist. An automatic number of draws gives the same bits as that number.
    budget
        Seconds that evaluating the draws may take, where their number is not given; 120 by
        default. It counts from the end of the first chunk, which includes compiling: 1000 draws,
        or 125 where the density is computed on the host. Short chains that would take longer are
        left out.
    executor
        Anything with the interface of `concurrent.futures.Executor`, to evaluate chunks of draws:
        for fits by `vicheck.fit`. The check has the same bits wherever they are evaluated; a chunk
        whose worker dies is evaluated again.
    num_starts
        Starts of the search for modes that draws made elsewhere do not reach, where their model is
        known; 48 by default, 1 for no search. A fit by `vicheck.fit` has searched already.
    chains
        Whether to run short chains: a few dozen steps of Hamiltonian Monte Carlo from about a
        thousand draws of q, weighted where the weights can be trusted. How far a quantity moves is
        a lower bound on its error, with a sign, even where khat is of no use. By default they are
        run where there is a model and they cost no more than about a second or the check itself;
        True always runs them, a number says how many to run, and False runs none. See
        `vicheck.results.chains.ShortChains`.
    progress
        Whether to show a progress line on standard error, after a second and only in a terminal or
        a notebook; or a function to be called with each sentence instead.

    Returns
    -------
    Check
        It has khat and its uncertainty, verdict and findings, moments and divergences.

    Raises
    ------
    TypeError
        For any other object, and for an argument that would have no effect; the message names it.

    Examples
    --------
    >>> from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred
    >>> model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    >>> checked = vicheck.check(vicheck.fit(model), num_draws=20_000)
    >>> checked.verdict.level
    'usable'
    >>> bool(checked.moments.loc["tau", "shift"] > 0.1)     # VI has tau too small
    True
    """
    from vicheck.results.fit import Fit

    number, seconds = require_num_draws(num_draws, budget)
    if seed is not None:
        seed = as_seed(seed)
    require_executor(executor)
    _require_reference(reference)
    if num_starts is not None:
        require_count("num_starts", num_starts, 1)
    chains = require_chains(chains)
    if isinstance(what, Fit):
        refuse_unused({"num_starts": num_starts}, "a fit by vicheck.fit, which takes it")
        with showing(progress, "checking draws"):
            checked = check_fit(
                what, number, quantities, reference, test_data, seed or 0, seconds, executor, chains
            )
        return checked if reference is None else _with_truth(checked, reference)
    of_drawing = {"num_draws": num_draws, "seed": seed, "budget": budget, "executor": executor}
    if _is_saved(what):
        rest = {"quantities": quantities, "reference": reference, "test_data": test_data}
        unused = {**of_drawing, **rest, "num_starts": num_starts, "chains": chains}
        refuse_unused(unused, f"{what}, a saved check")
        return Check.load(what)
    refuse_unused({"test_data": test_data}, "a fit that was made elsewhere")
    with showing(progress, "checking draws"):
        if isinstance(what, Draws):
            refuse_unused(of_drawing, "draws that already exist")
            checked = check_given(
                what, quantities, chains=chains, num_starts=num_starts, budget=seconds
            )
        else:
            refuse_unused({"executor": executor}, "a fit that was made elsewhere")
            checked = _check_elsewhere(what, number, budget, seed, quantities, chains, num_starts)
    return checked if reference is None else _with_truth(checked, reference)


def check_draws(
    draws: ArrayLike | Mapping[str, ArrayLike] | pd.DataFrame | os.PathLike[str],
    log_p: ArrayLike | str | None = None,
    log_q: ArrayLike | str | None = None,
    *,
    names: Sequence[str] | None = None,
    quantities: Spec | None = None,
) -> Check:
    """Check draws made by any algorithm, in any language.

    Parameters
    ----------
    draws
        An array of shape ``(S, d)``, a dictionary of named arrays of shape ``(S, ...)``, or a
        pandas DataFrame, whose columns keep their names; or the path of a ``.csv``, ``.npz`` or
        ``.parquet`` file with such columns. Numbers must be real; masked arrays that hide some are
        refused.
    log_p
        Log joint density of each draw on the unconstrained scale, with the Jacobian if parameters
        were transformed; or the name of its column in ``draws``. By default, as for ``log_q``, the
        column with this name or one like it (``logp``, ``lp``, ``lp__``) is used.
    log_q
        Log density of the approximation at the same draws, on the same scale, normalised.
    names
        Names of the columns of an array; by default ``x[0]``, ``x[1]`` and so on, or those of a
        DataFrame.
    quantities
        As for `vicheck.check`: names, or functions of the named parameters of one draw (``x``, a
        vector, when ``draws`` is an array without names).

    Returns
    -------
    Check
        As from `vicheck.check`, but without findings on convergence.

    Examples
    --------
    >>> import numpy as np
    >>> z = 0.8 * np.random.default_rng(1).normal(size=(10_000, 1))
    >>> normal = lambda z, sd: (-(z**2) / (2 * sd**2) - np.log(sd * np.sqrt(2 * np.pi))).sum(axis=1)
    >>> checked = vicheck.check_draws(z, log_p=normal(z, 1.0), log_q=normal(z, 0.8))
    >>> print(f"khat {checked.khat:.2f}, {checked.verdict.level}")
    khat 0.33, usable
    >>> print(checked.verdict)              # the weights help, but q itself is too narrow
    The approximation is usable only with its weights: judged by plain draws, the sd of x[0] is 1.3
    times too small, and khat says that the weights correct that.
    """
    if isinstance(log_p, str | None) or isinstance(log_q, str | None):
        return check(draws_of_columns(draws, log_p, log_q, names), quantities=quantities)
    return check(draws_of_arrays(draws, log_p, log_q, names), quantities=quantities)


def _check_elsewhere(
    what: Any,
    num_draws: NumDraws,
    budget: float | None,
    seed: int | None,
    quantities: Spec | None,
    chains: Chains,
    num_starts: int | None,
) -> Check:
    """Check a fit of another library, or draws in a file."""
    from vicheck.adapters.sources import can_draw_from, draws_of

    if can_draw_from(what):
        number, seconds = require_num_draws(num_draws, budget)
        return check_approximation(
            lambda count: draws_of(what, count, seed),
            number,
            seconds,
            quantities=quantities,
            seed=seed or 0,
            chains=chains,
            num_starts=num_starts,
        )
    if budget is not None:
        refuse_unused({"budget": budget}, "draws that already exist")
    given: Any = num_draws  # which names what has no effect
    return check_given(
        draws_of(what, given, seed),
        quantities,
        chains=chains,
        num_starts=num_starts,
        seed=seed or 0,
        budget=BUDGET,
    )


def _with_truth(checked: Check, reference: Reference) -> Check:
    """Add true errors, by reference draws from the posterior."""
    from vicheck.checking.truth import errors_against

    columns = errors_against(reference, checked)
    notes = list(checked.notes)
    if columns["marginal_khat"]:
        notes.append(
            "Marginal khat can be small although the marginal is wrong (the paper, section 2.4)."
        )
    if reference.caution:
        notes.append(f"The reference itself is doubtful: {reference.caution}.")
    return replace(checked, extra=checked.extra | columns, notes=tuple(notes))


def _require_reference(reference: Any) -> None:
    from vicheck.results.reference import Reference

    if reference is not None and not isinstance(reference, Reference):
        raise TypeError(
            "reference must be what vicheck.reference(model) returned, got "
            f"{type(reference).__name__}"
        )


def is_drawn_from(what: Any) -> bool:
    """Whether `check` draws from something; if not, it holds the draws that there are."""
    from vicheck.adapters.sources import can_draw_from
    from vicheck.results.fit import Fit

    if isinstance(what, Fit):
        return True
    return not isinstance(what, Draws | Check) and can_draw_from(what)


def _is_saved(what: Any) -> bool:
    """Whether something is the path of a file that `Check.save` writes, and no table of draws."""
    if not isinstance(what, str | os.PathLike) or Path(what).suffix != ".npz":
        return False
    from vicheck.adapters.tables import is_table

    return not is_table(what)
