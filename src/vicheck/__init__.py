"""Yes, but did it work? Diagnostics for variational inference."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vicheck import plots
    from vicheck.adapters.arviz import from_arviz
    from vicheck.adapters.log_density import from_log_density
    from vicheck.adapters.numpyro.models import from_numpyro
    from vicheck.adapters.numpyro.shards import from_shards
    from vicheck.adapters.pymc import from_pymc
    from vicheck.adapters.stan.csv_files import read_stan_csv
    from vicheck.adapters.stan.models import from_stan
    from vicheck.calibration.run import vsbc
    from vicheck.calibration.svi import vsbc_numpyro
    from vicheck.checking.comparison import compare
    from vicheck.checking.libraries import (
        check_blackjax,
        check_distribution,
        check_numpyro,
        check_pyro,
    )
    from vicheck.checking.run import check, check_draws
    from vicheck.draws import Draws
    from vicheck.errors import (
        InputFileError,
        MissingExtraError,
        ModelError,
        NotConvergedWarning,
        StoreError,
        UndefinedKhatWarning,
        UnreliableWarning,
    )
    from vicheck.judging import judge_psis
    from vicheck.model import Model
    from vicheck.nuts import reference
    from vicheck.rescuing.fitter import rescue_fitter
    from vicheck.rescuing.run import rescue
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check
    from vicheck.results.comparison import Comparison
    from vicheck.results.fit import Fit
    from vicheck.results.loading import load
    from vicheck.results.psis import PsisResult, PsisStatus
    from vicheck.results.reference import Reference
    from vicheck.results.rescue import Rescue
    from vicheck.results.status import FitStatus
    from vicheck.results.verdict import Finding, Verdict
    from vicheck.stats.divergences import divergences
    from vicheck.stats.estimates import estimates, khat_of
    from vicheck.stats.psis import psis, psis_khat
    from vicheck.vi.fitting import fit

__all__ = [
    "Calibration",
    "Check",
    "Comparison",
    "Draws",
    "Finding",
    "Fit",
    "FitStatus",
    "InputFileError",
    "MissingExtraError",
    "Model",
    "ModelError",
    "NotConvergedWarning",
    "PsisResult",
    "PsisStatus",
    "Reference",
    "Rescue",
    "StoreError",
    "UndefinedKhatWarning",
    "UnreliableWarning",
    "Verdict",
    "__version__",
    "check",
    "check_blackjax",
    "check_distribution",
    "check_draws",
    "check_numpyro",
    "check_pyro",
    "compare",
    "divergences",
    "estimates",
    "fit",
    "from_arviz",
    "from_log_density",
    "from_numpyro",
    "from_pymc",
    "from_shards",
    "from_stan",
    "judge_psis",
    "khat_of",
    "load",
    "plots",
    "psis",
    "psis_khat",
    "read_stan_csv",
    "reference",
    "rescue",
    "rescue_fitter",
    "vsbc",
    "vsbc_numpyro",
]

__version__ = "0.2.0.dev0"

# Loaded when first used, so that `import vicheck` does not load JAX, NumPyro or pandas.
_HOMES = {
    "Calibration": "vicheck.results.calibration",
    "Check": "vicheck.results.check",
    "Comparison": "vicheck.results.comparison",
    "Draws": "vicheck.draws",
    "Finding": "vicheck.results.verdict",
    "Fit": "vicheck.results.fit",
    "FitStatus": "vicheck.results.status",
    "InputFileError": "vicheck.errors",
    "MissingExtraError": "vicheck.errors",
    "Model": "vicheck.model",
    "ModelError": "vicheck.errors",
    "NotConvergedWarning": "vicheck.errors",
    "PsisResult": "vicheck.results.psis",
    "PsisStatus": "vicheck.results.psis",
    "Reference": "vicheck.results.reference",
    "Rescue": "vicheck.results.rescue",
    "StoreError": "vicheck.errors",
    "UndefinedKhatWarning": "vicheck.errors",
    "UnreliableWarning": "vicheck.errors",
    "Verdict": "vicheck.results.verdict",
    "check": "vicheck.checking.run",
    "check_draws": "vicheck.checking.run",
    "check_blackjax": "vicheck.checking.libraries",
    "check_distribution": "vicheck.checking.libraries",
    "check_numpyro": "vicheck.checking.libraries",
    "check_pyro": "vicheck.checking.libraries",
    "compare": "vicheck.checking.comparison",
    "divergences": "vicheck.stats.divergences",
    "estimates": "vicheck.stats.estimates",
    "fit": "vicheck.vi.fitting",
    "from_arviz": "vicheck.adapters.arviz",
    "from_log_density": "vicheck.adapters.log_density",
    "from_numpyro": "vicheck.adapters.numpyro.models",
    "from_pymc": "vicheck.adapters.pymc",
    "from_shards": "vicheck.adapters.numpyro.shards",
    "from_stan": "vicheck.adapters.stan.models",
    "judge_psis": "vicheck.judging",
    "khat_of": "vicheck.stats.estimates",
    "load": "vicheck.results.loading",
    "psis": "vicheck.stats.psis",
    "psis_khat": "vicheck.stats.psis",
    "read_stan_csv": "vicheck.adapters.stan.csv_files",
    "reference": "vicheck.nuts",
    "rescue": "vicheck.rescuing.run",
    "rescue_fitter": "vicheck.rescuing.fitter",
    "vsbc": "vicheck.calibration.run",
    "vsbc_numpyro": "vicheck.calibration.svi",
}


def __getattr__(name: str) -> Any:
    if name == "plots":
        return import_module("vicheck.plots")
    if name not in _HOMES:
        raise AttributeError(f"module 'vicheck' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
