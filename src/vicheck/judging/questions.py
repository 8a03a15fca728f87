"""Separate questions about an approximation, and which findings answer them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from vicheck.results.verdict import Answer

__all__ = ["QUESTIONS", "Question", "answers_from"]


@dataclass(frozen=True)
class Question:
    """The findings that answer a question; what says no outweighs doubts, and doubts a yes."""

    no: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    yes: tuple[str, ...] = ()

    def answer(self, codes: Set[str]) -> Answer:
        """Answer it from the codes of findings: unknown where none of them has to do with it."""
        no, unknown, yes = (
            tuple(code for code in deciding if code in codes)
            for deciding in (self.no, self.unknown, self.yes)
        )
        if no:
            return Answer("no", no)
        return Answer("yes", yes) if yes and not unknown else Answer("unknown", unknown)


_SPOILT = (
    "no-approximation",
    "endless-tail",
    "mode-missed",
    "mode-beyond-reach",
    "chains-drift-weighted",
)
_DOUBTFUL = (
    "khat-undefined",
    "swapped-densities",
    "khat-few-draws",
    "modes-uncertain",
    "tail-unseen",
    "tied-draws",
    "dependent-draws",
    "clipped-ratios",
    "ratios-too-coarse",
)

QUESTIONS = {
    "converged": Question(
        no=(
            "no-approximation",
            "not-converged",
            "still-rising",
            "gradient-not-zero",
            "iterates-unsettled",
            "too-many-unconverged",
            "fits-unconverged",
        ),
        unknown=("gradient-undefined", "convergence-unknown", "fits-unknown"),
        yes=("converged", "fits-converged"),
    ),
    "close": Question(
        no=(
            "khat-high",
            *_SPOILT,
            "khat-usable",
            "plain-off",
            "few-effective-draws",
            "chains-drift",
            "bias-found",
            "likelihood-low",
            "far-too-narrow",
            "asymmetric",
            "wrong-scale",
            "not-covering",
            "likelihood-off",
            "joint-missed",
        ),
        unknown=(
            *_DOUBTFUL,
            "not-pareto",
            "not-all-usable",
            "too-many-unconverged",
            "too-few-datasets",
        ),
        yes=("khat-good", "khat-constant", "no-bias-found"),
    ),
    "weights_work": Question(
        no=("khat-high", *_SPOILT, "few-effective-draws", "not-all-usable", "khats-high"),
        unknown=_DOUBTFUL,
        yes=("khat-good", "khat-constant", "khat-usable", "not-pareto", "khats-low"),
    ),
    "elsewhere": Question(
        no=("no-other-mode",),
        unknown=("search-unfinished",),
        yes=(
            "endless-tail",
            "mode-missed",
            "modes-uncertain",
            "mode-beyond-reach",
            "other-optimum",
        ),
    ),
    "chains_agree": Question(
        no=("chains-drift", "chains-drift-weighted"),
        unknown=("chains-undecided",),
        yes=("chains-agree",),
    ),
}
"""The fields of `vicheck.results.verdict.Verdict` that are answers."""


def answers_from(codes: Set[str]) -> dict[str, Answer]:
    """Answer every question."""
    return {name: question.answer(codes) for name, question in QUESTIONS.items()}
