"""The experiments by name, in the order of the paper, each loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from vicheck.paper.experiment import Experiment

__all__ = ["NAMES", "choose", "experiment"]

NAMES = (
    "invariance", "fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "figS1", "fig7", "fig8",
    "bimodal", "tailored",
)  # fmt: skip


def experiment(name: str) -> Experiment:
    """Return the experiment of a name."""
    chosen: Experiment = import_module(f"vicheck.paper.{name.lower()}").EXPERIMENT
    return chosen


def choose(names: Iterable[str]) -> list[str]:
    """Return the experiments asked for, in the order of the paper.

    Raises
    ------
    ValueError
        For an unknown name; the message lists those there are.
    """
    by_lower_case = {name.lower(): name for name in NAMES}
    wanted = [name.lower() for name in names]
    unknown = [name for name in wanted if name not in by_lower_case and name != "all"]
    if unknown:
        raise ValueError(
            f"there is no experiment {', '.join(unknown)}: there are {', '.join(NAMES)}, or all"
        )
    return [name for key, name in by_lower_case.items() if "all" in wanted or key in wanted]
