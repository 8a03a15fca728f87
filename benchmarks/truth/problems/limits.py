"""Known limits: where the verdict ends, beside the scoreboard.

They are listed on the page and are in none of its shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from truth.problem import LIMIT, Problem
from truth.problems import mixtures, shapes, structured

KIND = "known limit"
FEW_DRAWS = 10_000
SEEDS = {"deterministic": 2, "stan_advi": 1}


def problems() -> Iterator[Problem]:
    for name, weights, means, sds, dim in (
        ("half in a mode of sd 0.001, 40 sds away", (0.5, 0.5), (0, 40), (1, 0.001), 1),
        ("half in a mode of sd 0.01 at (10, 10)", (0.5, 0.5), (0, 10), (1, 0.01), 2),
        ("half in a mode of sd 0.1 at 10 in six dimensions", (0.5, 0.5), (0, 10), (1, 0.1), 6),
        ("two widths at one centre, 30 dimensions", (0.5, 0.5), (0, 0), (1, 3), 30),
    ):
        tags = mixtures.FAR_MODES if any(means) else frozenset[str]()
        yield _limit(mixtures.normals(name, weights, means, sds, dim, tags))
    yield _limit(structured.ordinal(), FEW_DRAWS)
    yield _limit(shapes.log_gamma(2.0, 3), FEW_DRAWS)
    yield _limit(shapes.student(10, 3), FEW_DRAWS)


def _limit(problem: Problem, num_draws: int | None = None) -> Problem:
    name = problem.name + (f", {num_draws:,} draws" if num_draws else "")
    tags = problem.tags | {LIMIT}
    return replace(problem, name=name, kind=KIND, tags=tags, num_draws=num_draws, seeds=SEEDS)
