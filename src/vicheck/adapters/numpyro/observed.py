"""Which arguments of a NumPyro function are observed, found from what reaches ``obs=``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr
from numpyro import handlers
from numpyro.distributions import Unit

from vicheck.adapters.numpyro.traces import Redrawn, WholePlates, at_zero, tracing
from vicheck.errors import ModelError
from vicheck.model import Data

__all__ = ["Target", "Wiring", "find_missing", "find_numbers", "find_wiring", "put", "take"]

Path = tuple[str, ...]
"""An argument's name; for an array in a dictionary, the keys that lead to it too."""

Chosen = Mapping[str, str | None] | None
"""Arguments that the user has named, and the sites where these are named too; None for no word."""

SitesOf = Callable[[Data], dict[str, Any]]
"""Traces a model with such data at z = 0."""


class Target(NamedTuple):
    """An observed argument, and the site that observes it."""

    path: Path
    site: str


class Refusal(NamedTuple):
    """Why data cannot be simulated, and what to do."""

    sentence: str
    hint: str = ""


@dataclass(frozen=True)
class Wiring:
    """What a model observes, and how it is drawn."""

    targets: tuple[Target, ...] = ()
    redraws: bool = False
    """Whether sites are drawn in spite of what they observe; else the model draws what is None."""
    refusal: Refusal | None = None
    """Why a draw would not be one of the model."""


@dataclass(frozen=True, eq=False)
class _Look:
    """A trace of a model whose parameters and data are inputs, to see what hangs on what."""

    sites: dict[str, Any]
    paths: tuple[Path, ...]
    """Of the data, in the order of the inputs after the two random ones."""
    labels: tuple[tuple[str, str], ...]
    """Of each output: ``value``, ``law`` or ``density``, and its site."""
    code: ClosedJaxpr

    @property
    def observed(self) -> tuple[str, ...]:
        return tuple(name for name, site in self.sites.items() if site["is_observed"])

    def sources(self, name: str, *kinds: str) -> tuple[bool, tuple[Path, ...]]:
        """Return whether something of a site is random, and what data it hangs on."""
        used = self._reduced(name, kinds)[1]
        return any(used[:2]), tuple(
            path for path, here in zip(self.paths, used[2:], strict=True) if here
        )

    def path_of(self, name: str) -> Path | None:
        """Return the argument that a site observes as it is, up to its shape and type."""
        random, paths = self.sources(name, "value")
        if random or len(paths) != 1:
            return None
        code, used = self._reduced(name, ("value",))
        (place,) = np.flatnonzero(used)
        probe = _probe(self.code.jaxpr.invars[place].aval)
        (value,) = jaxpr_as_fun(ClosedJaxpr(code, self.code.consts))(probe)
        same = np.array_equal(np.ravel(value), np.ravel(probe))
        return paths[0] if same else None

    def _reduced(self, name: str, kinds: Iterable[str]) -> tuple[Any, list[bool]]:
        wanted = [label in {(kind, name) for kind in kinds} for label in self.labels]
        return dce_jaxpr(self.code.jaxpr, wanted)


def find_missing(
    function: Callable[..., Any],
    sites_of: SitesOf,
    fixed: Data,
    data: Data,
    absent: tuple[str, ...],
    chosen: Chosen,
) -> Data:
    """Return zeros for arguments without a value that the model would observe, if they had one.

    The model is traced without them, and again with an array for each: what was a parameter and
    is then observed was waiting for data.
    """
    sites = sites_of(data | dict.fromkeys(absent))
    latent = {
        name: site
        for name, site in sites.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    found: Data = {}
    for name in absent:
        given = None if chosen is None else chosen[name]
        site = given or _site_waiting_for(function, fixed, data, absent, name, latent)
        if site is None and chosen is None:
            continue
        if site not in latent:
            raise ModelError(
                f"the model has no site {site or name!r} to draw {name!r} at",
                hint=f"give {name!r}, or say where it goes: observed={{{name!r}: 'site'}}",
            )
        found[name] = _zeros(latent[site])
    return found


def find_numbers(
    function: Callable[..., Any], sites_of: SitesOf, fixed: Data, data: Data
) -> dict[str, Any]:
    """Return the numbers among the fixed arguments that are observed: they are data too."""
    numbers = {
        name: value
        for name, value in fixed.items()
        if isinstance(value, int | float | np.number) and not isinstance(value, bool)
    }
    if not numbers:
        return {}
    sites = [site for site in sites_of(data).values() if site["type"] == "sample"]
    seen = [site["value"] for site in sites if site["is_observed"]]
    found: dict[str, Any] = {}
    for name, number in numbers.items():
        if not any(value is number for value in seen):
            continue
        rest = {k: v for k, v in fixed.items() if k not in {name, *found}}
        try:  # equal numbers may be one object: see where this one goes
            look = _look(function, rest, data | found | {name: np.asarray(number)})
        except Exception:  # whatever a function raises that wants a number here
            continue
        if any(look.path_of(site) == (name,) for site in look.observed):
            found[name] = np.asarray(number)
    return found


def find_wiring(
    function: Callable[..., Any],
    sites_of: SitesOf,
    fixed: Data,
    data: Data,
    missing: Iterable[str],
    chosen: Chosen,
    parameters: tuple[str, ...],
) -> Wiring:
    """Return what a model observes, and whether and how it can be drawn.

    ``data`` has something for all arguments, ``missing`` names those that have been left out.
    """
    if chosen is not None and not chosen:
        return Wiring(refusal=Refusal("nothing is observed, by observed=()"))
    look = _look(function, fixed, data)
    where = {site: look.path_of(site) for site in look.observed}
    targets = _targets(where, chosen)
    refusal = (
        _refuse_names(look, targets, chosen)
        or _refuse_what_stays(look, where, targets)
        or _refuse_priors(look, targets)
        or (_refuse_doubts(look, targets, missing) if chosen is None else None)
    )
    if refusal is not None:
        return Wiring(targets, refusal=refusal)
    if _draws_what_is_none(look, sites_of, data, targets, parameters):
        return Wiring(targets)
    refusal = _refuse_redrawing(function, fixed, data, targets)
    return Wiring(targets, redraws=True, refusal=refusal)


def take(data: Data, path: Path) -> Any:
    """Return the array at a path, or None."""
    value: Any = data
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def put(data: Data, path: Path, value: Any) -> Data:
    """Return data with another value at a path."""
    first, *rest = path
    return data | {first: put(data.get(first, {}), tuple(rest), value) if rest else value}


def _look(
    function: Callable[..., Any], fixed: Data, data: Data, redrawn: frozenset[str] = frozenset()
) -> _Look:
    leaves = dict(_leaves(data))
    sites: dict[str, Any] = {}
    labels: list[tuple[str, str]] = []

    def run(shift: Any, key: Any, arrays: list[Any]) -> list[Any]:
        given = data
        for path, array in zip(leaves, arrays, strict=True):
            given = put(given, path, array)
        traced = handlers.substitute(
            Redrawn(WholePlates(function), redrawn), substitute_fn=partial(at_zero, shift=shift)
        )
        found = handlers.trace(handlers.seed(traced, key)).get_trace(**fixed, **given)
        sites.update({name: site for name, site in found.items() if site["type"] == "sample"})
        outputs = []
        for name, site in sites.items():
            for kind, output in _outputs_of(site, arrays):
                labels.append((kind, name))
                outputs.append(output)
        return outputs

    with tracing():
        code = jax.make_jaxpr(run)(0.0, jax.random.key(0), list(leaves.values()))
    return _Look(sites, tuple(leaves), tuple(labels), code)


def _outputs_of(site: Any, arrays: list[Any]) -> Iterable[tuple[str, Any]]:
    fn, value = site["fn"], site["value"]
    yield "value", jnp.asarray(value)
    for leaf in jax.tree.leaves((fn, site["scale"])):
        if isinstance(leaf, jax.Array):
            yield "law", leaf
    if site["is_observed"] and not any(value is array for array in arrays):
        # What is no argument may be a factor, or data that stay: does a parameter hang on it?
        yield "density", jnp.asarray(fn.log_prob(value))


def _site_waiting_for(
    function: Callable[..., Any],
    fixed: Data,
    data: Data,
    absent: tuple[str, ...],
    name: str,
    latent: Mapping[str, Any],
) -> str | None:
    """Return the parameter that is observed once an argument has a value."""
    order = sorted(latent, key=lambda site: (site != name, -_size(latent[site])))
    examples = {(z.shape, z.dtype.str): z for z in map(_zeros, (latent[site] for site in order))}
    for example in examples.values():
        try:
            look = _look(function, fixed, data | dict.fromkeys(absent) | {name: example})
        except Exception:  # whatever a function raises that wants something else here
            continue
        hits = [s for s in look.observed if s in latent and (name,) in look.sources(s, "value")[1]]
        return hits[0] if hits else None
    return None


def _targets(where: Mapping[str, Path | None], chosen: Chosen) -> tuple[Target, ...]:
    """Return where observed arguments go: as is seen, or as the user says."""
    said = {} if chosen is None else {name: site for name, site in chosen.items() if site}
    seen = [Target(path, site) for site, path in where.items() if path is not None]
    if chosen is not None:
        seen = [each for each in seen if each.path[0] in chosen and each.path[0] not in said]
    return (*seen, *(Target((name,), site) for name, site in said.items()))


def _refuse_names(look: _Look, targets: tuple[Target, ...], chosen: Chosen) -> Refusal | None:
    for target in targets:
        sites = [each.site for each in targets if each.path == target.path]
        if len(sites) > 1:
            return Refusal(
                f"{_name(target.path)} is observed at several sites, {' and '.join(sites)}, so no "
                "draw of one of them can stand for it",
                "give each site an argument of its own",
            )
        if target.site not in look.sites:
            return Refusal(f"the model has no site {target.site!r} to draw {_name(target.path)} at")
    for name in chosen or ():
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


def _refuse_what_stays(
    look: _Look, where: Mapping[str, Path | None], targets: tuple[Target, ...]
) -> Refusal | None:
    """Refuse data that would stay as they are although the parameters are drawn anew."""
    drawn = {target.site for target in targets}
    for name in look.observed:
        if name in drawn or not look.sources(name, "law", "density")[0]:
            continue
        path = where[name]
        sources = look.sources(name, "value")[1]
        if _is_factor(look.sites[name]):
            return Refusal(
                f"nothing can be drawn from the numpyro.factor {name!r}",
                "write it as a distribution: numpyro.sample(..., obs=...)",
            )
        if path is not None:
            return Refusal(
                f"site {name!r} observes {_name(path)}, which observed= leaves out: it would stay "
                "as it is while parameters are drawn anew",
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


def _refuse_priors(look: _Look, targets: tuple[Target, ...]) -> Refusal | None:
    """Refuse parameters drawn before the data that hang on the data nevertheless."""
    order = list(look.sites)
    for target in targets:
        for name in order[: order.index(target.site)]:
            if not look.sites[name]["is_observed"] and target.path in look.sources(name, "law")[1]:
                return Refusal(
                    f"the prior of {name!r} hangs on {_name(target.path)}, which is observed",
                    "give the prior numbers of its own",
                )
    return None


def _refuse_doubts(
    look: _Look, targets: tuple[Target, ...], missing: Iterable[str]
) -> Refusal | None:
    """Refuse what was left out and may be a parameter as well: others hang on it."""
    for target in targets:
        for name, site in look.sites.items():
            other = name != target.site and not _is_factor(site)
            hangs = other and target.path in look.sources(name, "law")[1]
            if hangs and target.path[0] in missing:
                return Refusal(
                    f"{_name(target.path)} was left out, and {name!r} hangs on it, so it may be "
                    "data or a parameter",
                    "name all that are observed by observed=, on the command line by --observed",
                )
    return None


def _draws_what_is_none(
    look: _Look,
    sites_of: SitesOf,
    data: Data,
    targets: tuple[Target, ...],
    parameters: tuple[str, ...],
) -> bool:
    """Whether the model itself draws what it observes, in the same shapes, when that is None."""
    for target in targets:
        data = put(data, target.path, None)
    try:
        sites = sites_of(data)
    except ModelError:
        return False
    return all(
        name in sites and jnp.shape(sites[name]["value"]) == jnp.shape(look.sites[name]["value"])
        for name in parameters
    ) and all(
        target.site in sites
        and not sites[target.site]["is_observed"]
        and _shape(sites[target.site]) == jnp.shape(look.sites[target.site]["value"])
        for target in targets
    )


def _refuse_redrawing(
    function: Callable[..., Any], fixed: Data, data: Data, targets: tuple[Target, ...]
) -> Refusal | None:
    """Refuse to draw sites in spite of what they observe where anything hangs on its values."""
    look = _look(function, fixed, data, frozenset(target.site for target in targets))
    for target in targets:
        hanging = [
            name
            for name, site in look.sites.items()
            if not site["is_observed"] and target.path in look.sources(name, "value", "law")[1]
        ]
        if hanging or look.sites[target.site]["is_observed"]:
            return Refusal(
                f"the model cannot draw {_name(target.path)}: site "
                f"{(hanging or [target.site])[0]!r} needs its values, and without them the model "
                "does not run or draws something of another shape",
                f"let the model draw site {target.site!r} when {_name(target.path)} is None",
            )
    return None


def _leaves(data: Data, before: Path = ()) -> Iterable[tuple[Path, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(dict(value), (*before, name))
        elif value is not None:
            yield (*before, name), value


def _probe(aval: Any) -> np.ndarray:
    """Return numbers that no change leaves as they are, unless it would leave any draw so."""
    numbers = 2 + np.arange(aval.size).reshape(aval.shape)
    return (numbers % 3 == 0) if aval.dtype == bool else numbers.astype(aval.dtype)


def _zeros(site: Any) -> np.ndarray:
    return np.zeros(_shape(site), np.int64 if site["fn"].support.is_discrete else np.float64)


def _shape(site: Any) -> tuple[int, ...]:
    return (*site["kwargs"].get("sample_shape", ()), *site["fn"].shape())


def _size(site: Any) -> int:
    return int(np.prod(_shape(site)))


def _is_factor(site: Any) -> bool:
    return isinstance(site["fn"], Unit)


def _name(path: Path) -> str:
    return repr(".".join(path))
