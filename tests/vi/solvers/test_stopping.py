"""Stan's stopping rule."""

import numpy as np
import pytest

from vicheck.vi.solvers.stopping import relative_changes


class TestRelativeChanges:
    def test_by_hand(self):
        trace = [-200.0, -100.0, -80.0, -64.0]
        assert relative_changes(trace[:1], 10) == (1.0, 1.0)
        assert relative_changes(trace[:2], 10) == (1.0, 1.0)
        mean, median = relative_changes(trace, 10)
        assert mean == pytest.approx((1.0 + 1.0 + 0.25 + 0.25) / 4)
        assert median == 1.0  # the upper of the two in the middle
        assert relative_changes(trace, 2) == (0.25, 0.25)
        assert relative_changes([3.0, 2.0, 4.0], 2) == (0.5, 0.5)

    def test_undefined(self):
        assert np.isnan(relative_changes([], 5)).all()
        assert relative_changes([1.0, 0.0], 1) == (np.inf, np.inf)

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match="window must be at least 1, got 0"):
            relative_changes([1.0], 0)
        with pytest.raises(ValueError, match=r"elbo_trace must have one dimension, got shape"):
            relative_changes([[1.0]], 2)
