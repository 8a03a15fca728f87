"""What a calibration rests on, read from the attributes that are saved with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vicheck.results.provenance import Provenance, python_call

__all__ = ["provenance_of"]


def provenance_of(attributes: Mapping[Any, Any]) -> Provenance:
    """Return settings, fingerprint, versions and the call that repeats a run."""
    given: dict[str, Any] = {str(name): value for name, value in attributes.items()}
    options = json.loads(given.get("options") or "{}")
    settings = {
        "true parameters from": "the fitted q" if given.get("kind") == "posterior" else "the prior",
        "family": given.get("family"),
        "rank": given.get("rank") or None,
        "solver": given.get("solver"),
        **options,
        "datasets": given.get("num_datasets"),
        "draws from each q": given.get("num_draws"),
        "seconds a fit may take": given.get("time_limit") or None,
        "quantities": given.get("chosen"),
        "computed on": "; and on ".join(json.loads(given.get("made_on") or "[]")),
        "seed": given.get("seed"),
    }
    return Provenance(
        settings={name: value for name, value in settings.items() if value not in (None, "")},
        subject="model and data",
        fingerprint=str(given.get("model", "")),
        versions=json.loads(given.get("versions") or "{}")
        or {"vicheck": str(given.get("version", ""))},
        code=_code(given, options),
    )


def _code(given: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Return the call, for vicheck's own fits of one run: merged runs have several seeds."""
    if not given.get("family") or not isinstance(given.get("seed"), int):
        return ""
    more = {name: given[name] for name in ("rank", "time_limit") if given.get(name)}
    more |= {"posterior": True} if given.get("kind") == "posterior" else {}
    names = ("family", "solver", "num_datasets", "num_draws", "seed")
    settings = {name: given[name] for name in names if name in given}
    chosen = [f"quantities={given['chosen']}"] if given.get("chosen") else []
    return python_call("vicheck.vsbc", "model", *chosen, **settings, **more, **options)
