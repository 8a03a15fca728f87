"""From terms to causes: which, in what order, and in what words."""

from dataclasses import replace

import numpy as np
import pytest

from vicheck.judging.causes import FarMode, Subject, causes_of, in_short, without_cause
from vicheck.judging.cutoffs import CAUSE_SD, CAUSE_SHARE
from vicheck.remedies.ladder import AFTER_CHECK
from vicheck.stats.ratio_terms import Funnel, RatioTerms

NAMES = ("tau", "mu", "theta[0]", "theta[1]", "theta[2]")
NOTHING = RatioTerms(
    num_draws=4096,
    sd=1.0,
    slope=np.array([0.0, 0.5, 0.0, 0.0, 0.0]),
    curvature=np.array([0.5, 0.0, 0.0, 0.0, 0.0]),
    cubic=np.array([-0.5, 0.0, 0.0, 0.0, 0.0]),
    quartic=np.array([0.0, 0.0, 0.5, 0.5, 0.0]),
    of_slope=0.0,
    of_curvature=0.0,
    of_correlation=0.0,
    of_skewness=0.0,
    of_heavy_tails=0.0,
    funnels=(),
    correlated=np.array([0.0, 1.0, 1.0, 0.0, 0.0]),
)
DRAWS = Subject(NAMES)
FIT = Subject(NAMES, fitted_here=True)


def codes(terms, subject=DRAWS):
    return [cause.code for cause in causes_of(terms, subject)]


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("of_slope", "not-converged"),
        ("of_curvature", "scale"),
        ("of_correlation", "correlation"),
        ("of_skewness", "skewness"),
        ("of_heavy_tails", "heavy-tails"),
    ],
)
def test_each_kind_of_term_is_a_cause_from_its_cut_off_on(field, code):
    assert codes(replace(NOTHING, **{field: CAUSE_SHARE})) == [code]
    assert codes(replace(NOTHING, **{field: 0.99 * CAUSE_SHARE})) == []
    assert codes(replace(NOTHING, **{field: 1.0, "sd": 0.99 * CAUSE_SD})) == []


def test_the_largest_share_comes_first():
    mixed = replace(NOTHING, of_skewness=0.2, of_correlation=0.5, of_heavy_tails=0.3)
    assert codes(mixed) == ["correlation", "heavy-tails", "skewness"]


def test_a_fit_with_the_wrong_width_has_not_converged():
    wide = replace(NOTHING, of_curvature=0.4, of_slope=0.2)
    assert codes(wide) == ["scale", "not-converged"]
    (cause,) = causes_of(wide, FIT)
    assert (cause.code, cause.share) == ("not-converged", pytest.approx(0.6))
    assert cause.names == ("mu", "tau")


def test_a_family_with_any_covariance_that_lacks_one_has_not_converged():
    assert codes(replace(NOTHING, of_correlation=0.5), FIT) == ["correlation"]
    full = Subject(NAMES, fitted_here=True, has_covariance=True)
    assert codes(replace(NOTHING, of_correlation=0.5), full) == ["not-converged"]


def test_a_funnel_names_scale_and_locations_and_what_to_do():
    funnel = Funnel(np.array([0]), np.array([2, 3, 4]), 1, 0.6)
    subject = Subject(NAMES, fitted_here=True, positive=frozenset({"tau"}))
    (cause,) = causes_of(replace(NOTHING, funnels=(funnel,)), subject)
    assert cause.code == "funnel"
    assert cause.names == ("tau", "theta[0]", "theta[1]", "theta[2]")
    assert "tau with theta[0..2]" in cause.sentence
    assert cause.remedy == "reparametrise"
    assert cause.hint == "Non-centre theta: sample it in units of tau."
    (cause,) = causes_of(replace(NOTHING, funnels=(funnel,)), FIT)
    assert "If tau is not the log of a scale, the posterior is bent" in cause.hint
    inverse = Funnel(np.array([0]), np.array([2, 3, 4]), -1, 0.6)
    (cause,) = causes_of(replace(NOTHING, funnels=(inverse,)), FIT)
    assert cause.hint.startswith("If theta is non-centred, centre it")


def test_a_mode_comes_first_whatever_else_there_is():
    mode = FarMode(0.2, np.array([0.0, 9.0, 0.0, 0.0, 0.0]))
    subject = Subject(NAMES, fitted_here=True, mode=mode)
    causes = causes_of(replace(NOTHING, of_correlation=0.9), subject)
    assert [cause.code for cause in causes] == ["mode", "correlation"]
    assert causes[0].names == ("mu",)
    assert "20%" in causes[0].sentence
    assert [cause.code for cause in causes_of(None, subject)] == ["mode"]


def test_a_mode_of_which_nothing_is_known_is_one_all_the_same():
    (cause,) = causes_of(None, Subject(NAMES, mode=FarMode(np.nan, np.empty(0))))
    assert (cause.code, cause.share, cause.names) == ("mode", 1.0, ())


def test_the_signs_are_said():
    (cause,) = causes_of(replace(NOTHING, of_skewness=0.5), DRAWS)
    assert "to the left" in cause.sentence
    (cause,) = causes_of(replace(NOTHING, of_curvature=0.5), DRAWS)
    assert cause.sentence == "q is too narrow in tau."


def test_every_remedy_is_on_the_ladder():
    full = replace(
        NOTHING, of_slope=0.2, of_curvature=0.2, of_correlation=0.2, of_skewness=0.2,
        of_heavy_tails=0.2, funnels=(Funnel(np.array([0]), np.array([2]), 1, 0.2),),
    )  # fmt: skip
    causes = causes_of(full, Subject(NAMES, mode=FarMode(0.2, np.empty(0))))
    assert len(causes) == 7
    assert {cause.remedy for cause in causes} <= {remedy.name for remedy in AFTER_CHECK}


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["theta[2]", "theta[0]", "theta[1]"], "theta[0..2]"),
        (["theta[0]", "theta[1]"], "theta[0], theta[1]"),
        (["tau", "x[0]", "x[2]", "x[5]", "x[9]"], "tau, x[0], x[2], x[5] and 1 more of x"),
        (["b[0, 1]", "b[0, 2]"], "b[0, 1], b[0, 2]"),
        ([], ""),
    ],
)
def test_names_are_listed_in_short(names, text):
    assert in_short(names) == text


def test_without_a_cause_a_high_khat_is_put_down_to_its_draws():
    assert len(without_cause(0.01, False, np.array([0.0, 3.0]), ("a", "b"))) == 1
    _, where = without_cause(0.01, True, np.array([0.0, -3.0]), ("a", "b"))
    assert "below the others in b: by 3 sds" in where
