"""Figures: what is on their axes, and that nobody's settings change."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import vicheck
from tests.calibration.made import calibration
from tests.plots.rescues import made_rescue
from tests.plots.subjects import funnel_check
from tests.plots.test_check_data import with_trace
from vicheck import plots

CHECKS = ("khat_growth", "khat_scale", "pairs", "solver", "tail")
CALIBRATIONS = ("datasets", "ecdf_difference", "histograms")
RESCUES = ("rescue_trail",)


@pytest.fixture(scope="module")
def check():
    return with_trace(funnel_check(4000), gradient=[3.0, 0.1, 1e-4])


@pytest.fixture(scope="module")
def some():
    return calibration()


def draw(name, check, some):
    if name in RESCUES:
        return getattr(plots, name)(made_rescue())
    return getattr(plots, name)(check if name in CHECKS else some)


@pytest.mark.parametrize("name", [*CHECKS, *CALIBRATIONS, *RESCUES])
def test_every_figure_has_its_numbers_and_names_its_axes(name, check, some):
    figure = draw(name, check, some)
    assert isinstance(figure, Figure)
    assert callable(getattr(plots, f"{name}_data"))
    shown = [axes for axes in figure.axes if axes.axison]
    assert shown
    assert all(axes.get_xlabel() for axes in shown)
    assert all(axes.get_ylabel() or not axes.get_yticks().size for axes in shown)


@pytest.mark.parametrize("name", [*CHECKS, *CALIBRATIONS, *RESCUES])
def test_a_figure_leaves_the_users_settings_alone(name, check, some):
    with mpl.rc_context({"font.size": 23.0, "axes.spines.top": True}):
        before = dict(mpl.rcParams)
        draw(name, check, some)
        assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", ["khat_growth", "khat_scale", "solver", "tail", "datasets"])
def test_one_panel_can_be_drawn_into_another_figure(name, check, some):
    figure = Figure()
    left, right = figure.subplots(1, 2)
    found = getattr(plots, name)(check if name in CHECKS else some, ax=right)
    assert found is figure
    assert right.get_xlabel()
    assert right.has_data()
    assert not left.has_data()


@pytest.mark.parametrize("name", [*CHECKS, *CALIBRATIONS])
def test_notebooks_show_figures_without_pyplot(name, check, some):
    figure = draw(name, check, some)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_signs_and_units_are_on_the_axes(check, some):
    assert "Pr_q(quantity < truth)" in plots.histograms(some).axes[0].get_xlabel()
    assert "sds of q" in plots.solver(check).axes[0].get_ylabel()
    of_elbo = with_trace(check, elbo=[-9e5, -4.0, -3.0])
    assert "nats (higher is better)" in plots.solver(of_elbo).axes[0].get_ylabel()
    assert "log10" in plots.tail(check).axes[0].get_ylabel()


def test_a_khat_beyond_the_scale_is_pointed_to():
    size = 2000
    log_ratios = 3.0 * np.random.default_rng(1).exponential(size=size)  # a Pareto of shape 3
    far = vicheck.check_draws(np.zeros((size, 1)), log_ratios, np.zeros(size))
    assert far.khat > 2.0
    axes = plots.khat_scale(far).axes[0]
    assert f"khat {far.khat:.2f}" in {text.get_text() for text in axes.texts}
    assert axes.get_xlim() == (-0.3, 1.5)


def test_a_khat_below_the_scale_is_pointed_to_as_well():
    size = 2000
    ratios = np.random.default_rng(1).uniform(1.0, 2.0, size)  # a tail that ends
    below = vicheck.check_draws(np.zeros((size, 1)), np.log(ratios), np.zeros(size))
    assert below.khat < -0.3
    assert any(line.get_marker() == "<" for line in plots.khat_scale(below).axes[0].lines)


def test_figures_have_a_ground_of_their_own(check):
    assert plots.tail(check).get_facecolor() == (1.0, 1.0, 1.0, 1.0)


def test_long_names_keep_their_beginning_and_index():
    some = calibration(
        **{"a_very_long_name_of_a_parameter[1234567]": (0.0, 1.0), "tau": (1.0, 1.0)}
    )
    titles = [axes.get_title(loc="left") for axes in plots.histograms(some).axes]
    assert titles[:2] == ["\N{BLACK RIGHT-POINTING TRIANGLE} tau", "a_very_lo..[1234567]"]


def test_a_dollar_in_a_name_is_a_dollar(tmp_path):
    some = calibration(**{"cost $ and $\\frac$": (0.0, 1.0)})
    plots.histograms(some).savefig(tmp_path / "figure.png")
