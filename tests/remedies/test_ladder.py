"""Which remedies apply when, and their lines of Python: each is run where it is proposed."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.plots.subjects import normal_check
from vicheck.paper import models
from vicheck.remedies import (
    AFTER_CALIBRATION,
    AFTER_CHECK,
    CalibrationSituation,
    CheckSituation,
    applicable,
)
from vicheck.remedies.remedy import joined
from vicheck.results.convergence import Convergence, GradientTest
from vicheck.results.status import FitStatus
from vicheck.stats.psis import psis_quietly
from vicheck.vi.families.registry import family_names, richer_than


@pytest.fixture(scope="module")
def model():
    return vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS)


def psis_of(khat, size=2000):
    u = (np.arange(size) + 0.5) / size
    return vicheck.psis(-khat * np.log1p(-u))


def convergence(
    status=FitStatus.CONVERGED, solver="deterministic", family="mean_field", richer="full_rank"
):
    gradient = GradientTest(0.0, 1.0, 0.1, "tau", 10)
    return Convergence(status, solver, gradient, family=family, richer=richer)


def after_check(khat, known, *findings):
    situation = CheckSituation("unreliable", frozenset(findings), psis_of(khat), known)
    return [remedy.step(situation) for remedy in applicable(AFTER_CHECK, situation)]


def line(khat, known, settled=True):
    return first_line(after_check(khat, known, *([] if settled else ["not-converged"])))


def first_line(steps):
    return next((step.code for step in steps if step.code), "")


def names_of(steps):
    return [step.name for step in steps]


CASES = [
    # what is known of the fit, whether it is settled, what the line must hold
    (convergence(), True, 'family="full_rank"'),
    (convergence(family="full_rank", richer=""), True, "vicheck.rescue(fit)"),
    (convergence(richer="low_rank"), True, 'family="low_rank"'),
    (convergence(family="low_rank", richer=""), True, "vicheck.rescue(fit)"),
    (convergence(solver="stan_advi"), False, 'solver="deterministic"'),
    (convergence(solver="stan_advi", family="full_rank"), False, 'family="full_rank", solver='),
    (convergence(FitStatus.SAMPLING_ERROR), False, "max_draws=65536"),
    (convergence(FitStatus.STALLED), False, 'solver="stochastic"'),
    (convergence(FitStatus.MAX_ITERATIONS), False, "sampling_tolerance=0.01"),
]


@pytest.mark.parametrize(("known", "settled", "part"), CASES)
def test_after_a_fit_of_our_own(model, known, settled, part):
    proposed = line(1.2, known, settled)
    assert part in proposed
    compile(proposed, "line", "exec")
    if "full_rank" in proposed and settled:
        names = {"vicheck": vicheck, "model": model}
        exec(proposed, names)
        assert names["check"].convergence.family == "full_rank"


def test_where_the_model_is_to_be_looked_at_there_is_no_line():
    steps = after_check(1.2, convergence(FitStatus.AT_INFINITY), "no-approximation")
    assert names_of(steps) == ["mend-model"]
    assert first_line(steps) == ""


@pytest.mark.parametrize(
    ("khat", "known", "findings", "names"),
    [
        (1.2, convergence(), (), ["reparametrise", "richer-family", "rescue", "mcmc"]),
        (1.2, convergence(richer=""), (), ["reparametrise", "rescue", "mcmc"]),
        (0.6, convergence(), (),
         ["draw-more", "reparametrise", "richer-family", "rescue", "mcmc"]),
        (1.2, convergence(), ("gradient-not-zero",), ["converge"]),
        (0.6, convergence(), ("iterates-unsettled",), ["converge"]),
        (1.2, convergence(), ("mode-missed", "not-converged"), ["cover-modes"]),
        (1.2, None, (), ["converge", "reparametrise", "richer-family", "mcmc"]),
        (0.6, None, (), ["converge", "draw-more", "reparametrise", "richer-family", "mcmc"]),
        (1.2, convergence(FitStatus.UNKNOWN), ("convergence-unknown",),
         ["converge", "reparametrise", "richer-family", "mcmc"]),
    ],
)  # fmt: skip
def test_what_applies_when(khat, known, findings, names):
    steps = after_check(khat, known, *findings)
    assert names_of(steps) == names
    for step in steps:
        assert step.sentence.endswith(".")
        compile(step.code, step.name, "exec")


def test_each_example_is_a_line_that_the_remedy_gives():
    """What a table shows is what a verdict proposes in some situation."""
    lines = {}
    for known in (None, convergence(), convergence(solver="stan_advi")):
        for findings in ((), ("not-converged",), ("mode-missed",)):
            for khat in (0.6, 1.2):
                for step in after_check(khat, known, *findings):
                    lines.setdefault(step.name, set()).add(step.code)
    for level in ("good", "usable"):
        situation = CheckSituation(level, frozenset(), psis_of(0.3), None)
        (remedy,) = applicable(AFTER_CHECK, situation)
        lines[remedy.name] = {remedy.line(situation)}
    for status in (vicheck.PsisStatus.NOT_FINITE, vicheck.PsisStatus.TIED_AT_CUTOFF):
        undefined = replace(psis_of(0.3), status=status, khat=np.nan)
        situation = CheckSituation("none", frozenset({"khat-undefined"}), undefined, None)
        (remedy,) = applicable(AFTER_CHECK, situation)
        lines[remedy.name] = {remedy.line(situation)}
    for remedy in AFTER_CHECK:
        if remedy.example:
            assert remedy.example in lines[remedy.name]
    for remedy in AFTER_CALIBRATION:
        found = {
            remedy.line(situation)
            for level in ("good", "unreliable", "none")
            for codes in ({"fits-unconverged"}, {"too-few-datasets"})
            for situation in [CalibrationSituation(level, frozenset(codes))]
            if remedy.applies(situation)
        }
        assert remedy.example in found


def test_names_are_unique_and_every_undefined_status_has_a_remedy():
    for ladder in (AFTER_CHECK, AFTER_CALIBRATION):
        names = [remedy.name for remedy in ladder]
        assert len(set(names)) == len(names)
    defined = {vicheck.PsisStatus.OK, vicheck.PsisStatus.CONSTANT}
    for status in set(vicheck.PsisStatus) - defined:
        undefined = replace(psis_of(0.3), status=status, khat=np.nan)
        situation = CheckSituation("none", frozenset({"khat-undefined"}), undefined, None)
        assert len(applicable(AFTER_CHECK, situation)) == 1


def test_families_are_those_of_the_registry():
    families = str((family_names()[0], richer_than(family_names()[0], 1))).replace("'", '"')
    assert f"families={families})" in first_line(after_check(1.2, None))
    proposed = first_line(after_check(1.2, convergence(family="full_rank", richer="low_rank")))
    assert 'family="low_rank"' in proposed


def test_proposing_a_step_loads_no_jax():
    code = (
        "import sys; from vicheck.remedies.options import check_of_fit; "
        "print(check_of_fit('mean_field'), 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "check = vicheck.check(vicheck.fit(model)) False\n"


def test_advice_is_joined_as_in_a_sentence():
    assert joined([]) == ""
    assert joined(["do this"]) == "do this"
    assert joined(["do this", "do that"]) == "do this or do that"
    assert joined(["a", "b", "c"]) == "a, b, or c"


def test_a_fit_made_elsewhere_is_not_asked_for_what_it_has_not():
    assert "vicheck.fit(" not in line(1.2, None)
    assert "vicheck.compare([model]" in line(1.2, None)
    assert line(0.6, None) == ""
    few = vicheck.check_draws(np.zeros((10, 1)), np.arange(10.0), np.zeros(10))
    assert (few.verdict.level, few.verdict.code) == ("none", "")


def test_more_draws_are_more_than_there_were():
    fitted = convergence()
    assert line(0.6, fitted) == "check = vicheck.check(fit, num_draws=100_000)"


def test_a_missed_mode_needs_a_sampler():
    assert "reference" in first_line(after_check(0.1, convergence(), "mode-missed"))


def test_lines_after_checks_that_can_be_used_run():
    good = normal_check(sd=0.95)
    names = {"check": good}
    assert len(eval(good.verdict.code, names)) == 3
    some = normal_check(sd=0.75, dim=2)
    assert some.verdict.level == "usable"
    exec(some.verdict.code, names := {"check": some})
    assert len(names["posterior"]["x"]) == 4000


def test_the_draws_without_a_ratio_are_those_that_the_verdict_counts():
    log_p = np.zeros(1000)
    log_p[:500], log_p[7], log_p[9] = -np.inf, np.nan, np.inf
    check = vicheck.check_draws(np.zeros((1000, 1)), log_p, np.zeros(1000))
    assert eval(check.verdict.code, {"check": check}).tolist() == [7, 9]
    assert "2 of 1000" in str(check.verdict)


def test_ties_are_shown_by_their_line():
    check = vicheck.check_draws(
        np.zeros((1000, 1)), np.repeat([0.0, 5.0], [500, 500]), np.zeros(1000)
    )
    assert psis_quietly(check.log_ratios).status.name == "TIED_AT_MAXIMUM"
    exec(check.verdict.code, names := {"check": check})
    assert names["values"].tolist() == [0.0, 5.0]


@pytest.mark.parametrize(
    ("level", "family", "posterior", "part"),
    [
        ("unreliable", "mean_field", False, 'vicheck.vsbc(model, family="full_rank")'),
        ("unreliable", "mean_field", True, 'family="full_rank", posterior=True'),
        ("unreliable", "full_rank", False, "vicheck.reference(model)"),
        ("good", "full_rank", False, 'vicheck.fit(model, family="full_rank")'),
        ("good", "mean_field", False, "vicheck.check(vicheck.fit(model))"),
        ("usable", "", False, ""),
        ("unreliable", "", False, ""),
    ],
)
def test_after_a_calibration(level, family, posterior, part):
    proposed = after_calibration(level, family, posterior=posterior)
    assert part in proposed if part else proposed == ""
    compile(proposed, "line", "exec")


def after_calibration(level, family, **more):
    situation = CalibrationSituation(level, frozenset(), family, **more)
    remedies = applicable(AFTER_CALIBRATION, situation)
    return first_line([remedy.step(situation) for remedy in remedies])


def test_after_a_calibration_of_a_large_model():
    proposed = after_calibration("unreliable", "mean_field", richer="low_rank")
    assert proposed == 'calibration = vicheck.vsbc(model, family="low_rank")'
    assert "vicheck.reference(model)" in after_calibration("unreliable", "mean_field", richer="")


def test_after_a_calibration_without_a_verdict():
    failed = calibration(60, statuses=dict.fromkeys(range(30), "STALLED"))
    assert failed.verdict.level == "none"
    assert len(eval(failed.verdict.code, {"calibration": failed})) == 30
    few = calibration(5)
    assert few.verdict.code == "calibration = vicheck.vsbc(model, num_datasets=1000)"
    other = calibration(5, settings={"family": "full_rank", "kind": "posterior"})
    assert other.verdict.code == (
        'calibration = vicheck.vsbc(model, family="full_rank", num_datasets=1000, posterior=True)'
    )
