"""Which finding decides, over all combinations; and that each finding can be found."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.judging.situations import (
    chains,
    drift,
    ended,
    not_pareto,
    pooled,
    psis_of,
    psis_of_shape,
    ratios,
    screenings,
    searched,
)
from vicheck.judging import judge_check
from vicheck.judging.findings import CATALOGUE
from vicheck.judging.findings.plain import NotAllUsable
from vicheck.judging.levels import LEVELS
from vicheck.judging.questions import QUESTIONS
from vicheck.remedies.situations import UNSETTLED
from vicheck.report.text import verdict_lines
from vicheck.results.calibration import Calibration
from vicheck.results.status import FitStatus
from vicheck.results.verdict import Verdict
from vicheck.stats.differences import Difference

RATIOS = ratios()

FITS = {
    "none": None,
    "converged": ended(),
    "not-converged": ended(FitStatus.SAMPLING_ERROR),
    "no-approximation": ended(FitStatus.AT_INFINITY),
    "gradient-not-zero": ended(gradient="moving"),
    "gradient-undefined": ended(gradient="undefined"),
    "iterates-unsettled": ended(rhat=1.5),
    "convergence-unknown": ended(FitStatus.UNKNOWN, "undefined"),
}

# Other modes that were fitted, and the search.
MODES = {
    "none": (None, None),
    "no-other-mode": (None, searched()),
    "search-unfinished": (None, searched(num_arrived=10)),
    "other-optimum": (pooled(0.0005), searched(log_mass=(0.0, -8.0))),
    "mode-missed": (pooled(0.3), searched(log_mass=(0.0, -1.0))),
    "modes-uncertain": (pooled(0.3, khat=2.0), searched(log_mass=(0.0, -1.0))),
    "mode-beyond-reach": (None, searched(log_mass=(0.0, -1.0))),
    "endless-tail": (None, searched(endless="x")),
}
MISSED = ("mode-missed", "modes-uncertain", "mode-beyond-reach", "endless-tail")
ELSEWHERE = {"none": "unknown", "search-unfinished": "unknown", "no-other-mode": "no"}

CHAINS = {
    "none": None,
    "chains-agree": chains(),
    "chains-undecided": chains(acceptance=0.1),
    "chains-drift": chains(from_q=drift(0.5)),
    "chains-drift-weighted": chains(drift(0.5)),
}

# What decides, by khat (rows), for a fit that is an approximation and one that is not, without and
# with a mode that it misses.
DECIDES = {
    # an approximation, one that misses a mode, no approximation, and one that misses a mode
    "khat-good":      ("khat-good", "the mode", "no-approximation", "no-approximation"),
    "khat-constant":  ("khat-constant", "the mode", "no-approximation", "no-approximation"),
    "khat-usable":    ("khat-usable", "the mode", "no-approximation", "no-approximation"),
    "khat-high":      ("khat-high", "khat-high", "khat-high", "khat-high"),
    "khat-few-draws": ("khat-few-draws", "khat-few-draws", "khat-few-draws", "khat-few-draws"),
    "khat-undefined": ("khat-undefined", "khat-undefined", "khat-undefined", "khat-undefined"),
}  # fmt: skip

MEANS = {
    "khat-good": "good",
    "khat-constant": "good",
    "khat-usable": "usable",
    "not-converged": "usable",
    "gradient-not-zero": "usable",
    "iterates-unsettled": "usable",
    "khat-high": "unreliable",
    "khat-few-draws": "unreliable",
    "khat-undefined": "none",
    "no-approximation": "unreliable",
    "mode-missed": "unreliable",
    "modes-uncertain": "unreliable",
    "mode-beyond-reach": "unreliable",
    "endless-tail": "unreliable",
    "chains-drift": "usable",
    "chains-drift-weighted": "unreliable",
}

ANSWERS = {
    # The answer to whether the fit has converged, by what is known of it.
    "none": "unknown",
    "converged": "yes",
    "not-converged": "no",
    "no-approximation": "no",
    "gradient-not-zero": "no",
    "gradient-undefined": "unknown",
    "iterates-unsettled": "no",
    "convergence-unknown": "unknown",
}

CLOSE = {
    "khat-good": ("yes", "yes"),  # is q close, and do the weights work, if nothing else is wrong
    "khat-constant": ("yes", "yes"),
    "khat-usable": ("no", "yes"),
    "khat-high": ("no", "no"),
    "khat-few-draws": ("unknown", "unknown"),
    "khat-undefined": ("unknown", "unknown"),
}


@pytest.mark.parametrize("short", CHAINS)
@pytest.mark.parametrize(("khat", "fit", "modes"), list(itertools.product(RATIOS, FITS, MODES)))
def test_every_combination(khat, fit, modes, short):
    verdict = judge_check(RATIOS[khat], {}, FITS[fit], *MODES[modes], chains=CHAINS[short])
    missed = modes in MISSED
    expected = DECIDES[khat][2 * (fit == "no-approximation") + missed]
    expected = modes if expected == "the mode" else expected
    # Chains outweigh a khat that is not high: of weighted draws any, of plain ones a good one.
    overruled = {
        "chains-drift": ("khat-good", "khat-constant"),
        "chains-drift-weighted": ("khat-good", "khat-constant", "khat-usable"),
    }
    expected = short if expected in overruled.get(short, ()) else expected
    if expected in ("khat-good", "khat-constant") and ANSWERS[fit] == "no":
        expected = fit  # what has not converged is not good
    assert verdict.decided_by == expected
    assert verdict.level == MEANS[expected]

    codes = [finding.code for finding in verdict.findings]
    assert {khat, fit, modes, short} - {"none"} <= set(codes)
    assert len(set(codes)) == len(codes)
    (decider,) = [finding for finding in verdict.findings if finding.code == expected]
    assert verdict.sentence == decider.sentence
    assert len(verdict.others) == len(codes) - 1
    # A low khat that was overruled says so; nothing else is changed by what decides.
    overruled = CATALOGUE[khat].severity != "bad" and expected != khat
    assert verdict.findings[0].sentence.startswith("By khat alone: the ") == overruled

    assert str(verdict.converged) == ANSWERS[fit]
    assert {fit} - {"none"} <= set(verdict.converged.because) <= set(codes)
    spoilt = (
        fit == "no-approximation"
        or modes in ("mode-missed", "mode-beyond-reach", "endless-tail")
        or short == "chains-drift-weighted"
    )
    close, works = CLOSE[khat]
    if spoilt:
        close = works = "no"
    if short == "chains-drift":
        close = "no"
    if not spoilt and modes == "modes-uncertain":
        close, works = (each if each == "no" else "unknown" for each in (close, works))
    assert (str(verdict.close), str(verdict.weights_work)) == (close, works)
    assert str(verdict.elsewhere) == ELSEWHERE.get(modes, "yes")
    assert verdict.elsewhere.because == (() if modes == "none" else (modes,))
    agree = {"chains-agree": "yes", "chains-drift": "no", "chains-drift-weighted": "no"}
    assert str(verdict.chains_agree) == agree.get(short, "unknown")
    assert verdict.chains_agree.because == (() if short == "none" else (short,))


def every_verdict():
    """Return verdicts in which, taken together, every finding occurs."""
    yield from (
        judge_check(result, {}, fit, *modes)
        for result, fit, modes in itertools.product(RATIOS.values(), FITS.values(), MODES.values())
    )
    good = RATIOS["khat-good"]
    yield from (judge_check(good, {}, None, None, chains=each) for each in CHAINS.values())
    zeros = np.random.default_rng(1).normal(size=1000)
    zeros[:3] = -np.inf
    yield vicheck.judge_psis(vicheck.psis(zeros))
    yield vicheck.judge_psis(psis_of(0.5, 400))
    stan = ended(relative_change_mean=0.01, relative_change_median=0.02)
    yield judge_check(psis_of_shape(0.3, 100_000), {1000: 0.1, 100_000: 0.8}, stan, None)
    rising = ended(FitStatus.UNKNOWN, solver="SVI", elbo_rise=5.0, elbo_rise_steps=100)
    yield judge_check(psis_of_shape(0.3, 100_000), {}, rising, None)
    off = {"mu": Difference(0.5, 0.01, 0.0, 0.01)}
    good = psis_of_shape(0.3, 100_000)
    yield judge_check(good, {}, None, None, corrections=off)
    yield judge_check(replace(good, ess=9.0), {}, None, None)
    refused = [NotAllUsable("mu", "sd", 0.9, 0.7, 0, 1, 3)]
    yield judge_check(good, {}, None, None, estimates=refused)
    yield judge_check(good, {1000: 4.2, 100_000: 0.3}, stan, None)
    yield from (judge_check(result, {}, None, None) for result in not_pareto().values())
    yield from (judge_check(good, {}, None, None, screening=x) for x in screenings().values())
    yield calibration(x=(0.0, 1.0)).verdict
    yield calibration(
        x=(0.5, 1.0), y=(-0.5, 1.0), z=(0.0, 0.5), settings={"kind": "posterior"}
    ).verdict
    yield calibration(20_000, seed=3, x=(0.05, 1.0)).verdict
    yield calibration(10_000, x=(0.12, 1.0)).verdict
    yield calibration(x=(0.0, 1.0), log_likelihood=(0.5, 1.0)).verdict
    yield calibration(x=(0.0, 1.0), log_likelihood=(-0.5, 1.0)).verdict
    yield calibration(10).verdict
    yield calibration(statuses=dict.fromkeys(range(30), "STALLED")).verdict
    yield calibration(statuses=dict.fromkeys(range(30), "UNKNOWN")).verdict
    one = calibration(x=(0.0, 1.0))
    data = one.data
    high = np.full(data.sizes["dataset"], 5.0)
    terms = data["symmetric_kl"].copy()
    terms[7] = 1e6
    two = calibration(x=(0.0, 1.0), y=(0.0, 1.0))
    missing = two.probabilities.copy()
    missing[:3, 0] = np.nan
    extreme = data.assign(khat=("dataset", high), symmetric_kl=terms)
    yield Calibration(extreme, one.settings).verdict
    lost = one.probabilities.copy()
    lost[::10] = 0.0
    lost[5::10] = 1.0
    far = data.assign(probability=lost, symmetric_kl=data["symmetric_kl"] + 1530.0)
    yield Calibration(far, one.settings).verdict
    tight = calibration(x=(0.0, 0.2))
    yield Calibration(tight.data.assign(khat=("dataset", high)), tight.settings).verdict
    yield Calibration(data.assign(khat=("dataset", 0.0 * high)), one.settings).verdict
    yield Calibration(two.data.assign(probability=missing), two.settings).verdict


def test_every_finding_can_be_found_and_every_verdict_saved():
    codes = set()
    for verdict in every_verdict():
        own = [finding.code for finding in verdict.findings]
        assert len(set(own)) == len(own)
        assert verdict.decided_by in own
        codes |= {*own}
        for finding in verdict.findings:
            assert finding.sentence.endswith(".")
            assert finding.hint.endswith(".")
            begins = finding.sentence[0].isupper() or finding.sentence.split()[0] in ("khat", "q")
            assert begins or finding.sentence[0].isdigit()
        text = re.sub(r": NaN(?=[,}])", ": null", json.dumps(verdict.to_dict()))
        back = Verdict.from_dict(json.loads(text))
        assert repr(back.to_dict()) == repr(verdict.to_dict())
        assert back.code == verdict.code
        assert verdict_lines(back) == verdict_lines(verdict)
    assert codes == set(CATALOGUE)


def test_the_tables_name_no_finding_that_there_is_not():
    asked = {
        code
        for question in QUESTIONS.values()
        for code in (*question.no, *question.unknown, *question.yes)
    }
    assert asked | set(LEVELS) | UNSETTLED <= set(CATALOGUE)
    for code, level in LEVELS.items():
        severity = CATALOGUE[code].severity
        if isinstance(severity, str):
            assert severity == {"good": "ok", "usable": "caution"}.get(level, "bad")


def test_codes_are_in_kebab_case():
    for code in CATALOGUE:
        assert code == code.lower().replace("_", "-").replace(" ", "-")
        assert CATALOGUE[code].code == code


@pytest.mark.parametrize("gradient", ["zero", "moving"])
def test_the_gradient_knows_what_nobody_has_said(gradient):
    verdict = judge_check(RATIOS["khat-good"], {}, ended(FitStatus.UNKNOWN, gradient), None)
    assert str(verdict.converged) == ("yes" if gradient == "zero" else "no")


def test_what_is_not_known_of_a_fit_is_a_caution_and_changes_no_level():
    unknown = judge_check(RATIOS["khat-good"], {}, FITS["convergence-unknown"], None)
    (finding,) = [each for each in unknown.findings if each.code == "convergence-unknown"]
    assert (unknown.level, finding.severity) == ("good", "caution")
    assert str(finding) == "It is not known whether the fit has converged."
    assert finding.hint.startswith("Look at how the optimiser ended")
    assert finding.evidence["status"] == "UNKNOWN"


def test_verdict_lines_leave_out_what_decides_whatever_its_words():
    """Two findings with one sentence: only the code tells which is the verdict's."""
    verdict = judge_check(RATIOS["khat-good"], {}, FITS["no-approximation"], *MODES["mode-missed"])
    assert verdict.decided_by == "no-approximation"
    lines = [line.text for line in verdict_lines(verdict)]
    assert lines[0] == "The fit runs away: the best approximation lies at infinity."
    assert not any("runs away" in line for line in lines[1:])
    assert any("misses another mode" in line for line in lines[1:])
