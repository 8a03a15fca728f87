"""What each witness alone would have said of means and sds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from truth.outcomes import Outcome

__all__ = ["WITNESSES", "Witness"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Witness:
    """Names the estimate that one witness recommends, or neither; None where it has no say."""

    name: str
    mean: Callable[[Record, Outcome], str | None]
    sd: Callable[[Record, Outcome], str | None]


def _both(name: str, says: Callable[[Record, Outcome], str | None]) -> Witness:
    return Witness(name, says, says)


def _if(passed: bool, way: str) -> str:
    return way if passed else "neither"


def _drift(_: Record, outcome: Outcome) -> str | None:
    if math.isnan(outcome.drift):
        return None
    return _if(abs(outcome.drift) < 0.1 + 2.0 * outcome.drift_error, "vi")


WITNESSES = (
    _both("khat < 0.7: weighted (the paper)", lambda r, _: _if(r["khat"] < 0.7, "psis")),
    _both("khat < 0.5: weighted (the paper)", lambda r, _: _if(r["khat"] < 0.5, "psis")),
    _both("khat < 0.5: plain", lambda r, _: _if(r["khat"] < 0.5, "vi")),
    _both("the quantity's own khat < 0.7: weighted", lambda _, o: _if(o.khat < 0.7, "psis")),
    _both("400 effective draws: weighted", lambda r, _: _if(r["ess"] > 400, "psis")),
    _both("weights move the mean by < 0.05: plain", lambda _, o: _if(abs(o.shift) < 0.05, "vi")),
    _both("the solver converged: plain", lambda r, _: _if(r["status"] == "CONVERGED", "vi")),
    _both(
        "nothing found elsewhere: plain",
        lambda r, _: _if(r["answers"]["elsewhere"] != "yes", "vi"),
    ),
    Witness("short chains do not drift: plain", _drift, lambda _, __: None),
    Witness("vicheck, all together", lambda _, o: o.use_mean, lambda _, o: o.use_sd),
)
"""The paper's first, ours last."""
