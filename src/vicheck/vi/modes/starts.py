"""Where climbs begin: in the prior, in boxes of several widths, and where the density is high."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from vicheck.errors import ModelError
from vicheck.model import Data, Model, Program
from vicheck.runtime.compiling import compiled
from vicheck.vi.density import Density
from vicheck.vi.modes.place import Place

__all__ = ["Starts", "choose_starts", "random_starts"]

Floats = NDArray[np.float64]

_BOXES = (2.0, 10.0)
"""Half widths of boxes around zero, on the unconstrained scale."""
_AROUND = (5.0, 25.0, 125.0)
"""Half widths of boxes around the approximation, in its sds."""
_SPREAD = 4.0
"""Half width of the box for starts of fits that could not be begun at zero."""
_PRIOR_DRAWS = 128
"""Draws from the prior: always as many, so that their code is compiled once."""
_CLOUD = 8
"""Points for each start, of which those with a high density are chosen for some of the starts."""
_HIGHEST = 4
"""Starts that are simply the highest points, and those highest against the approximation."""
_FILLED, _FILLING = 3, 2**13
"""Up to how many dimensions a cloud is so large that it fills space, and its points."""
_WIDE = 100.0
"""Half width of one more box around zero for such a cloud."""
_PEAKS, _NEIGHBOURS = 12, 12
"""Starts that are peaks of such a cloud: higher than so many neighbours."""
_KNOWN = 4.0
"""Sds from the approximation's mean within which such a peak is its own."""
_AT_A_TIME = 1000
"""Points that code for few is asked for: code for many would be compiled for this alone."""


class Starts(NamedTuple):
    """Where climbs begin, and how these places were found."""

    z: Floats
    """Shape ``(starts, d)``."""
    origins: tuple[str, ...]
    """One word for each."""


def choose_starts(
    model: Model,
    density: Density,
    place: Place,
    num_starts: int,
    seed: int,
    is_cheap: bool = True,
) -> Starts:
    """Choose where to begin: the approximation's own mean first, then zero.

    Half of the others are as they come, from the prior, where the model has one to draw from, and
    from boxes. The rest are points of a larger cloud of the same kinds: of each box, and of the
    prior, some are drawn in proportion to the density to a power, a *tempered* density, so flat
    that no few points have it all. Of a density that is not cheap there is no larger cloud.
    """
    rng = np.random.default_rng((seed, 1))
    first = np.stack([place.mean, np.zeros_like(place.mean)])[:num_starts]
    count = num_starts - len(first)
    fills = is_cheap and len(place.mean) <= _FILLED
    size = (_FILLING if fills else _CLOUD * count) if is_cheap and count > 1 else count
    cloud, origins, sources = _cloud(model, place, size, fills, rng, seed)
    as_they_come = count if len(cloud) == count else (count + 1) // 2
    rows, labels = list(range(as_they_come)), list(origins[:as_they_come])
    if as_they_come < count:
        log_p = _log_p(density, cloud)
        noise = place.standardised(cloud)
        distances = np.linalg.norm(noise, axis=1)
        peaks = _peaks(log_p, noise, distances) if fills else []
        log_p[:as_they_come] = -np.inf  # these are starts already
        more = [*peaks, *_high(log_p, distances, sources, count - as_they_come, rng)]
        rows += [row for row in dict.fromkeys(more) if row >= as_they_come][: count - as_they_come]
        labels += ["tempered"] * (len(rows) - as_they_come)
    return Starts(
        np.concatenate([first, cloud[rows]]), ("approximation", "zero", *labels)[:num_starts]
    )


def random_starts(num_starts: int, dim: int, seed: int) -> Floats:
    """Return over-dispersed starts of a fit, shape ``(num_starts, d)``."""
    rng = np.random.default_rng((seed, 1))
    return rng.uniform(-_SPREAD, _SPREAD, (num_starts, dim))


def _log_p(density: Density, cloud: Floats) -> Floats:
    parts = np.split(cloud, range(_AT_A_TIME, len(cloud), _AT_A_TIME))
    return np.concatenate([density(np.zeros(1, np.intp), part[None])[0][0] for part in parts])


def _peaks(log_p: Floats, noise: Floats, distances: Floats) -> list[int]:
    """Return the points beyond the approximation that are higher than those around them.

    With the highest first. In units of the approximation, neighbours lie on all sides.
    """
    known = np.where(np.isfinite(log_p), log_p, -np.inf)
    _, neighbours = cKDTree(noise).query(noise, _NEIGHBOURS + 1)
    is_peak = (known >= known[neighbours].max(axis=1)) & (known > -np.inf) & (distances > _KNOWN)
    rows = np.flatnonzero(is_peak)
    return list(rows[np.argsort(-known[rows], kind="stable")][:_PEAKS].tolist())


def _cloud(
    model: Model, place: Place, size: int, fills: bool, rng: np.random.Generator, seed: int
) -> tuple[Floats, list[str], NDArray[np.intp]]:
    """Return points of all sources in turn, so that any number of the first is a fair share.

    With the kind of each, and the number of its source.
    """
    dim, boxes = len(place.mean), (*_BOXES, _WIDE) if fills else _BOXES
    kinds: dict[str, list[Floats]] = {
        "box": [width * rng.uniform(-1.0, 1.0, (size, dim)) for width in boxes],
        "around": [
            place.mean + width * place.sd * rng.uniform(-1.0, 1.0, (size, dim)) for width in _AROUND
        ],
    }
    prior = _from_prior(model, seed)
    if prior is not None:  # twice in turn, as it knows the scales
        kinds["prior"] = [prior[0::2], prior[1::2]]
    sources = [(kind, points) for kind, several in kinds.items() for points in several]
    rng.shuffle(sources)
    turns = np.concatenate([np.arange(len(points)) for _, points in sources])
    numbers = np.repeat(np.arange(len(sources)), [len(points) for _, points in sources])
    in_turn = np.lexsort((numbers, turns))[:size]
    numbers = numbers[in_turn]
    points = np.concatenate([points for _, points in sources])[in_turn]
    return points.reshape(size, dim), [sources[number][0] for number in numbers], numbers


def _from_prior(model: Model, seed: int) -> Floats | None:
    """Return parameters drawn from the prior, or None for a model that cannot do that."""
    try:
        model.program.require_simulation()
        seeds = seed * _PRIOR_DRAWS + np.arange(_PRIOR_DRAWS)
        z = np.asarray(_draw_from_prior(model.program, seeds, model.data))
    except ModelError:
        return None
    return z[np.isfinite(z).all(axis=1)]


@compiled("simulate", rarely=True)
def _draw_from_prior(program: Program, seeds: Any, data: Data) -> jax.Array:
    def draw(seed: jax.Array) -> jax.Array:
        return program.simulate(jax.random.key(seed), data)[0]

    return lax.map(draw, jnp.asarray(seeds))  # batched random numbers take longer to compile


def _high(
    log_p: Floats,
    distances: Floats,
    sources: NDArray[np.intp],
    count: int,
    rng: np.random.Generator,
) -> list[int]:
    """Choose distinct points: the highest, and others by a tempered density of each source in turn.

    Of all sources together the narrow ones would have the high points, and they lead where the
    approximation is already. What it does not lead one to expect comes early: points that are
    highest against a Gaussian of its size.
    """
    known = np.where(np.isfinite(log_p), log_p, -np.inf)
    by_height, by_surprise = (
        np.argsort(-each, kind="stable")[:_HIGHEST].tolist()
        for each in (known, known + 0.5 * np.square(distances))
    )
    share = -(-count // (sources.max() + 1))
    ranked = []
    for source in range(sources.max() + 1):
        rows = np.flatnonzero((sources == source) & (known > -np.inf))
        ranked.append(rows[_tempered(known[rows], share, rng)].tolist())
    in_turn = [row for turn in zip_longest(*ranked) for row in turn if row is not None]
    chosen = dict.fromkeys([*by_height, *by_surprise, *in_turn])
    return [row for row in chosen if known[row] > -np.inf][:count]


def _tempered(log_p: Floats, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rank points by chance, with weights from the density to a power.

    The power is the largest at which the weights are worth ``count`` points.
    """
    if not len(log_p):
        return np.empty(0, np.intp)
    log_p = log_p - log_p.max()
    powers = 2.0 ** -np.arange(0.0, 60.0)
    with np.errstate(under="ignore"):
        weights = np.exp(powers[:, None] * log_p)
        worth = weights.sum(axis=1) ** 2 / np.square(weights).sum(axis=1)
    power = next((p for p, w in zip(powers, worth, strict=True) if w >= count), 0.0)
    return np.argsort(-(power * log_p + rng.gumbel(size=len(log_p))))
