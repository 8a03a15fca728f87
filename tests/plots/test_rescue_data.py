"""What the figure of a rescue shows."""

from dataclasses import replace

import numpy as np
import pytest

from tests.plots.rescues import ATTEMPTS, made_rescue, sampled_rescue
from tests.plots.subjects import normal_check
from vicheck import plots
from vicheck.plots.rescues import cost_in_words


def test_the_trail_is_what_was_tried_in_order():
    data = plots.rescue_trail_data(made_rescue())
    assert data.remedies == ("before", *(attempt.remedy for attempt in ATTEMPTS[1:]))
    assert data.outcomes == ("began here", "not tried", "failed", "not kept", "kept")
    np.testing.assert_array_equal(data.after, [0.91, np.nan, np.nan, 1.8, 0.41])
    np.testing.assert_array_equal(data.before, 0.91)
    assert data.evaluations[3] == 1_234_567
    assert data.cutoffs == (0.5, 0.7)


def test_what_was_judged_again_is_a_closer_look():
    again = replace(ATTEMPTS[0], khat_after=0.4, why="the most promising, judged in full")
    data = plots.rescue_trail_data(made_rescue((*ATTEMPTS, again)))
    assert (data.remedies[-1], data.outcomes[-1]) == ("closer look", "kept")


@pytest.mark.parametrize(("rhat", "outcome"), [(1.0, "sampled"), (1.2, "not mixed")])
def test_nuts_has_no_khat_and_has_mixed_or_not(rhat, outcome):
    data = plots.rescue_trail_data(sampled_rescue(rhat))
    assert data.outcomes[-1] == outcome
    assert np.isnan(data.after[-1])


def test_the_figure_names_what_was_tried_and_what_it_cost():
    axes = plots.rescue_trail(made_rescue()).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["before", "converge", "adapt", "mixture", "reparametrise"]
    texts = [text.get_text() for text in axes.texts]
    assert "kept, 100k evals, 130 s" in texts
    assert "not kept, 1.2M evals, 12.0 s" in texts
    assert "not tried" in texts
    assert [line for line in axes.lines if line.get_marker() == ">"]  # 1.8 lies beyond the scale
    assert list(axes.get_xticks()) == [0.0, 0.5, 0.7, 1.0]


def test_costs_are_short():
    assert cost_in_words(0, 0.0) == "0 evals, 0.0 s"
    assert cost_in_words(999, 1.25) == "999 evals, 1.2 s"
    assert cost_in_words(1000, 99.94) == "1k evals, 99.9 s"
    assert cost_in_words(2_345_678_901, 3600.0) == "2.3G evals, 3600 s"


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match=r"rescue must come from vicheck\.rescue, got Check"):
        plots.rescue_trail(normal_check())
