"""Yes, but did it work? Diagnostics for variational inference."""

from vicheck.errors import UndefinedKhatWarning
from vicheck.records import PsisResult, PsisStatus
from vicheck.stats.divergences import divergences
from vicheck.stats.estimates import estimates, khat_of
from vicheck.stats.psis import psis, psis_khat
from vicheck.verdict import judge_psis

__all__ = [
    "PsisResult",
    "PsisStatus",
    "UndefinedKhatWarning",
    "__version__",
    "divergences",
    "estimates",
    "judge_psis",
    "khat_of",
    "psis",
    "psis_khat",
]

__version__ = "0.1.0"
