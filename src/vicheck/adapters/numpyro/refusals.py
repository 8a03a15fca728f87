"""Why data cannot be simulated by a NumPyro model, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from numpyro.distributions import Unit

from vicheck.adapters.numpyro.dependencies import Look, Path, look_at
from vicheck.model import Data

__all__ = [
    "Refusal",
    "Target",
    "refuse_doubts",
    "refuse_names",
    "refuse_priors",
    "refuse_redrawing",
    "refuse_what_stays",
]


class Target(NamedTuple):
    """An observed argument, and the site that observes it."""

    path: Path
    site: str


class Refusal(NamedTuple):
    """Why data cannot be simulated, and what to do."""

    sentence: str
    hint: str = ""


def refuse_names(look: Look, targets: tuple[Target, ...], chosen: Iterable[str]) -> Refusal | None:
    """Refuse arguments and sites that were named and do not belong together."""
    for target in targets:
        sites = [each.site for each in targets if each.path == target.path]
        if len(sites) > 1:
            return Refusal(
                f"{_name(target.path)} is observed at several sites, {' and '.join(sites)}, so a "
                "draw of one of them cannot stand for it",
                "give each site an argument of its own",
            )
        if target.site not in look.sites:
            return Refusal(f"the model has no site {target.site!r} to draw {_name(target.path)} at")
    for name in chosen:
        if not any(target.path[0] == name for target in targets):
            changed = [
                site
                for site in look.observed
                if any(path[0] == name for path in look.sources(site, "value")[1])
            ]
            if changed:
                return _changed(changed[0], name)
            return Refusal(f"{name!r} reaches no obs= of the model", "leave it out of observed=")
    return None


def refuse_what_stays(
    look: Look, where: Mapping[str, Path | None], targets: tuple[Target, ...]
) -> Refusal | None:
    """Refuse data that would stay the same although the parameters are redrawn."""
    drawn = {target.site for target in targets}
    for name in look.observed:
        if name in drawn or not look.sources(name, "law", "density")[0]:
            continue
        path = where[name]
        sources = look.sources(name, "value")[1]
        if is_factor(look.sites[name]):
            return Refusal(
                f"nothing can be drawn from the numpyro.factor {name!r}",
                "write it as a distribution: numpyro.sample(..., obs=...)",
            )
        if path is not None:
            return Refusal(
                f"site {name!r} observes {_name(path)}, which observed= leaves out: it would "
                "stay as it is while parameters are redrawn",
                f"name {path[0]!r} in observed= too",
            )
        if sources:
            return _changed(name, sources[0][0])
        return Refusal(
            f"site {name!r} observes an array that was not given as an argument, so no other can "
            "take its place",
            "make it an argument of the model, obs= that, and give the array to from_numpyro",
        )
    if not targets:
        return Refusal(
            "the model observes nothing, so there is nothing to simulate",
            "give an argument of the model to obs= of a numpyro.sample",
        )
    return None


def _changed(site: str, name: str) -> Refusal:
    return Refusal(
        f"site {site!r} observes something that the model computes from {name!r}, so a draw of the "
        f"site cannot stand for {name!r}",
        "compute it beforehand, and give the model what is to be observed",
    )


def refuse_priors(look: Look, targets: tuple[Target, ...]) -> Refusal | None:
    """Refuse parameters drawn before the data that depend on the data nevertheless."""
    order = list(look.sites)
    for target in targets:
        for name in order[: order.index(target.site)]:
            if not look.sites[name]["is_observed"] and target.path in look.sources(name, "law")[1]:
                return Refusal(
                    f"the prior of {name!r} depends on {_name(target.path)}, which is observed",
                    "give the prior numbers of its own",
                )
    return None


def refuse_doubts(
    look: Look, targets: tuple[Target, ...], missing: Iterable[str]
) -> Refusal | None:
    """Refuse what was left out and may be a parameter as well: others depend on it."""
    for target in targets:
        for name, site in look.sites.items():
            other = name != target.site and not is_factor(site)
            depends = other and target.path in look.sources(name, "law")[1]
            if depends and target.path[0] in missing:
                return Refusal(
                    f"{_name(target.path)} was left out, and {name!r} depends on it, so it may be "
                    "data or a parameter",
                    "name all that are observed by observed=, on the command line by --observed",
                )
    return None


def refuse_redrawing(
    function: Callable[..., Any], fixed: Data, data: Data, targets: tuple[Target, ...]
) -> Refusal | None:
    """Refuse to draw sites anew where anything depends on their values."""
    look = look_at(function, fixed, data, frozenset(target.site for target in targets))
    for target in targets:
        dependent = [
            name
            for name, site in look.sites.items()
            if not site["is_observed"] and target.path in look.sources(name, "value", "law")[1]
        ]
        if dependent or look.sites[target.site]["is_observed"]:
            return Refusal(
                f"the model cannot draw {_name(target.path)}: site "
                f"{(dependent or [target.site])[0]!r} needs its values, and without them the model "
                "does not run or draws something of another shape",
                f"let the model draw site {target.site!r} when {_name(target.path)} is None",
            )
    return None


def is_factor(site: Any) -> bool:
    return isinstance(site["fn"], Unit)


def _name(path: Path) -> str:
    return repr(".".join(path))
