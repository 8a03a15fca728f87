"""Draws from a q that nobody fitted: too wide, too narrow, beside the posterior, right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats

from truth.problem import Given, Moments, Problem, Truth

KIND = "draws given"
SIZE = 20_000


def problems() -> Iterator[Problem]:
    for dim, shift, spread, what in (
        (1, 0.0, 10.0, "ten times too wide"),
        (1, 0.0, 1.25, "a quarter too wide"),
        (5, 0.0, 2.0, "twice as wide"),
        (1, 0.0, 0.8, "a fifth too narrow"),
        (1, 0.0, 0.5, "half as wide"),
        (1, 1.0, 1.0, "one sd beside it"),
        (3, 0.0, 1.0, "right"),
    ):
        yield normal(dim, shift, spread, what)
    yield normal_for_t()


def normal(dim: int, shift: float, spread: float, what: str) -> Problem:
    """Return draws from N(shift, spread) for independent standard normals."""

    def draw(rng: np.random.Generator) -> Given:
        draws = shift + spread * rng.standard_normal((SIZE, dim))
        log_p = stats.norm.logpdf(draws).sum(axis=1)
        return Given(draws, log_p, stats.norm.logpdf(draws, shift, spread).sum(axis=1))

    moments = {f"x[{i}]": Moments(0.0, 1.0) for i in range(dim)}
    return _problem(f"q {what}, {dim} dimensions", Truth(moments, "closed form", 0.0), draw)


def normal_for_t() -> Problem:
    def draw(rng: np.random.Generator) -> Given:
        draws = rng.standard_normal((SIZE, 1))
        log_p = stats.t.logpdf(draws[:, 0], 5)
        return Given(draws, log_p, stats.norm.logpdf(draws[:, 0]))

    moments = {"x[0]": Moments(0.0, float(np.sqrt(5 / 3)))}
    return _problem("normal q for a t(5)", Truth(moments, "closed form", 0.0), draw)


def _problem(name: str, truth: Truth, draw: Callable[[np.random.Generator], Given]) -> Problem:
    return Problem(name, KIND, lambda: truth, draw=draw, families=("given",), seeds={"none": 5})
