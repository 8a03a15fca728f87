"""What is printed of a result: data first, then lines."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.plots.subjects import funnel_check, normal_check
from vicheck.report.text import (
    ROWS_SHOWN,
    Column,
    Kind,
    Line,
    TextTable,
    _table,
    summary_of,
    verdict_lines,
)
from vicheck.results.convergence import PooledModes
from vicheck.results.estimates import Measure, Predictive
from vicheck.results.verdict import NextStep


@pytest.fixture(scope="module")
def check():
    return replace(funnel_check(), title="A funnel", notes=("Read with care.",))


def frame(num_rows, rng):
    """A table with numbers of all sizes, and words."""
    sizes = 10.0 ** rng.integers(-12, 12, size=(num_rows, 3))
    numbers = rng.normal(size=(num_rows, 3)) * sizes
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    numbers[rng.random(numbers.shape) < 0.1] = -np.inf
    table = pd.DataFrame(numbers, columns=["vi_mean", "sd", "a_long_heading"])
    table["use"] = rng.choice(["vi", "psis", "neither"], num_rows)
    table.index = [f"theta[{'1' * int(length)}]" for length in rng.integers(0, 9, num_rows)]
    return table


@pytest.mark.parametrize("seed", range(20))
def test_tables_look_like_those_of_pandas(seed):
    rng = np.random.default_rng(seed)
    table = frame(int(rng.integers(1, ROWS_SHOWN + 1)), rng)
    lines = _table(table, ".moments")[0].lines()
    assert "\n".join(lines) == table.to_string(float_format=lambda number: f"{number:.3g}")


def test_rows_beyond_the_first_are_counted():
    table = frame(ROWS_SHOWN + 3, np.random.default_rng(1))
    shown, more = _table(table, ".tests")
    assert shown.names == tuple(table.index[:ROWS_SHOWN])
    assert more == "... and 3 more quantities in .tests"
    assert _table(table[:ROWS_SHOWN], ".tests")[1] == ""


def test_columns_can_be_left_out_and_rows_renamed():
    columns = (
        Column("mean", ("1", "-2.5"), is_number=True),
        Column("use", ("vi", "neither"), is_number=False),
    )
    table = TextTable(("alpha", "beta"), columns)
    assert table.lines() == [
        "       mean      use",
        "alpha     1       vi",
        "beta   -2.5  neither",
    ]
    assert table.lines(columns[1:], ["a", "b"]) == ["       use", "a       vi", "b  neither"]


def test_a_finding_is_set_off_by_its_mark():
    line = Line(Kind.FINDING, "The fit has converged.", "ok")
    assert str(line) == "  ok      The fit has converged."
    assert len(line.lead) == len(Line(Kind.FINDING, "", "caution").lead)
    assert Line(Kind.NOTE, "A note.").lead == ""


def test_the_summary_of_a_check_is_what_print_shows(check):
    summary = summary_of(check)
    assert summary.level == check.verdict.level == "unreliable"
    assert [line.kind for line in summary.verdict][:2] == [Kind.TITLE, Kind.VERDICT]
    assert summary.verdict[0].text == "A funnel"
    assert summary.verdict[1].text == check.verdict.sentence
    assert summary.verdict[-1] == Line(Kind.ADVICE, f"What to do: {check.verdict.hint}")
    assert summary.notes[-1] == Line(Kind.NOTE, "Read with care.")
    assert summary.table.names == tuple(check.worst_first.index)
    assert summary.quantiles.names == summary.table.names
    assert [column.heading for column in summary.quantiles.columns][:3] == [
        "vi_q5", "psis_q5", "mcse_q5",
    ]  # fmt: skip
    assert "is_mean" not in [column.heading for column in summary.table.columns]
    lines = str(check).splitlines()
    assert lines == str(summary).splitlines()
    assert lines[-3:] == summary.quantiles.lines()[-3:]
    assert lines.count("") == 3


def test_a_line_of_code_follows_what_to_do():
    steps = NextStep("think", "Thinks."), NextStep("draw", "Draws.", "check.resample(10)")
    verdict = replace(normal_check().verdict, next_steps=steps)
    *_, advice, code = verdict_lines(verdict)
    assert advice.kind is Kind.ADVICE
    assert code == Line(Kind.CODE, "  check.resample(10)")
    assert verdict_lines(replace(verdict, next_steps=steps[:1]))[-1] == advice


def test_the_finding_that_has_decided_is_not_repeated(check):
    halves = PooledModes(
        0.3, Measure(0.0, 0.0), 0.5, np.full(2, 0.5), np.zeros((2, 3)),
        ("x[0]",), np.ones(1), np.ones(1),
    )  # fmt: skip
    missed = replace(normal_check(), pooled=halves)
    assert "misses another mode" in missed.verdict.sentence
    for one in (check, missed, normal_check()):
        texts = [line.text for line in summary_of(one).verdict]
        assert len(texts) == len(set(texts))
        marked = [line for line in summary_of(one).verdict if line.kind is Kind.FINDING]
        assert len(marked) == len(one.findings) - 1


def test_what_is_unknown_or_held_out_is_noted(check):
    measure = Measure(-1.5, 0.1, "")
    some = replace(
        check, unnormalized="q has no constant", predictive=Predictive(measure, measure, 7)
    )
    texts = [line.text for line in summary_of(some).notes]
    assert "ELBO" not in texts[0]
    assert "(7 points). It does not tell whether VI worked." in texts[1]
    assert texts[2] == "ELBO and log evidence are unknown: q has no constant."


def test_the_summary_of_a_calibration_has_the_worst_first_and_the_sign():
    some = calibration(mu=(0.0, 1.0), tau=(1.0, 1.0), statuses={3: "FAILED"})
    summary = summary_of(some)
    assert summary.table.names == ("tau", "mu")
    assert summary.table.columns[-1] == Column("direction", ("over", "none"), is_number=False)
    assert summary.notes[0].text.startswith("499 of 500 datasets. p = Pr_q(quantity < truth)")
    assert str(some) == str(summary)


def test_one_dataset_is_one_dataset():
    assert summary_of(calibration(num_datasets=1)).notes[0].text.startswith("1 dataset. ")


def test_names_and_titles_cannot_steer_a_terminal():
    draws = {"a\x1b[2J\nb": np.random.default_rng(1).normal(size=100)}
    some = vicheck.check_draws(draws, np.zeros(100), np.zeros(100))
    summary = summary_of(replace(some, title="\x1b[32mgood", notes=("\x9b1m",)))
    assert not {"\x1b", "\x9b", "\n"} & set("".join(summary.table.names))
    assert not {"\x1b", "\x9b"} & set(str(summary))


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match="result must be a Check or a Calibration, got str"):
        summary_of("a result")
