"""`RunSettings`: the one description of a calibration run, from which all others are made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from vicheck.indexing import Indexing
from vicheck.results.provenance import Provenance, python_call
from vicheck.results.record import Record

__all__ = ["RunSettings"]

_OF_ONE_RUN = frozenset(
    {"num_datasets", "chunk_size", "seeds", "sources", "versions", "machines"},
)
"""Settings in which runs that are merged may differ."""
_STORED_VERSIONS = ("vicheck", "jax", "numpyro")
"""Versions that all chunks of a store must share; `machines` names those of the other libraries."""


@dataclass(frozen=True, eq=False, repr=False)
class RunSettings(Record):
    """All that the numbers of a calibration depend on.

    Either ``family``, ``solver`` and ``options`` are set, or ``fit``, for a function of the user's.
    """

    model: str
    """Digest of what the model computes, of the quantities and of the data."""
    observed: tuple[str, ...]
    """Names of the data that are simulated."""
    quantities: tuple[str, ...]
    """Names of what is looked at."""
    num_draws: int
    """Draws from each q."""
    num_datasets: int
    seeds: tuple[int, ...]
    """The seed of the run; those of all runs where several are merged."""
    kind: Literal["prior", "posterior"] = "prior"
    """Where the true parameters come from: the prior, or a fit to the observed data."""
    family: str | None = None
    rank: int | None = None
    solver: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the solver, defaults that differ from those of a single fit included."""
    centre_options: dict[str, Any] | None = None
    """For a posterior: options of the fit to the observed data, those that the user has set."""
    richer: str | None = None
    """The family to try next, if there is one for that many parameters."""
    fit: str | None = None
    """Name and digest of a function of the user's that fits."""
    chosen: str | None = None
    """The argument ``quantities`` as it would be typed; None if it was not given."""
    chunk_size: int = 1
    """Datasets that are computed together."""
    time_limit: float | None = None
    """Seconds that a single fit may take."""
    sources: str = ""
    """Digest of the source code of vicheck."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of Python and of the libraries."""
    machines: tuple[str, ...] = ()
    """The kinds of machine that computed it."""
    indexing: Indexing = Indexing.PYTHON
    """How elements of arrays are named among the quantities."""

    def __post_init__(self) -> None:
        for name in ("num_draws", "num_datasets", "chunk_size"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        if (self.family is None) != (self.solver is None):
            raise ValueError("family and solver must be set together, or neither of them")

    @property
    def title(self) -> str:
        """What was calibrated, in a few words."""
        if self.fit is None:
            who = f"{self.family} ({self.solver})"
        else:
            who = f"fits by {self.fit.split(' ')[0]}"
        where = "at the observed data" if self.kind == "posterior" else "over the prior"
        datasets = f"{self.num_datasets} simulated datasets ({', '.join(self.observed)})"
        return f"{who} on {datasets}, {where}"

    @property
    def manifest(self) -> dict[str, Any]:
        """What the chunks of a store depend on: a store belongs to runs that agree in all of it."""
        left_out = {"observed", "seeds", "richer", "chosen", "versions", "machines"}
        entries = {name: value for name, value in self.to_dict().items() if name not in left_out}
        versions = {name: self.versions[name] for name in _STORED_VERSIONS if name in self.versions}
        return entries | {"seed": self.seeds[0], "versions": versions}

    @property
    def provenance(self) -> Provenance:
        """Settings, fingerprint, versions and the call that repeats the run."""
        settings = {
            "true parameters from": "the fitted q" if self.kind == "posterior" else "the prior",
            "family": self.family,
            "rank": self.rank,
            "solver": self.solver or self.fit,
            **self.options,
            "datasets": self.num_datasets,
            "draws from each q": self.num_draws,
            "seconds a fit may take": self.time_limit,
            "quantities": self.chosen,
            "computed on": "; and on ".join(self.machines) or None,
            "seed": self.seeds[0] if len(self.seeds) == 1 else ", ".join(map(str, self.seeds)),
        }
        return Provenance(
            settings={name: value for name, value in settings.items() if value is not None},
            subject="model and data",
            fingerprint=self.model,
            versions=self.versions,
            code=self._code,
        )

    @property
    def attributes(self) -> dict[str, str | int | float]:
        """A readable copy for the attributes of an xarray dataset; nothing reads it back."""
        values = {name: value for name, value in self.to_dict().items() if value is not None}
        return {"title": self.title} | {
            name: value if isinstance(value, str | int | float) else json.dumps(value)
            for name, value in values.items()
        }

    def differences(self, other: RunSettings) -> list[tuple[str, Any, Any]]:
        """Return name and both values of the settings that keep two runs from being merged."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [
            (each.name, mine[each.name], theirs[each.name])
            for each in fields(self)
            if each.name not in _OF_ONE_RUN and mine[each.name] != theirs[each.name]
        ]

    @property
    def _code(self) -> str:
        """The call, for vicheck's own fits of one run: merged runs have several seeds."""
        if self.family is None or len(self.seeds) != 1:
            return ""
        settings: dict[str, Any] = {
            "family": self.family,
            "solver": self.solver,
            "num_datasets": self.num_datasets,
            "num_draws": self.num_draws,
            "seed": self.seeds[0],
            "rank": self.rank,
            "time_limit": self.time_limit,
            "posterior": True if self.kind == "posterior" else None,
        }
        settings = {name: value for name, value in settings.items() if value is not None}
        chosen = [] if self.chosen is None else [f"quantities={self.chosen}"]
        # Defaults that are spelled out would hold for the fit to the observed data too.
        options = self.options if self.centre_options is None else self.centre_options
        return python_call("vicheck.vsbc", "model", *chosen, **settings, **options)
