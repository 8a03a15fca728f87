"""Which quantile may be used: what mean and sd allow, with two cautions for the tails."""

import numpy as np
import pytest

from vicheck.judging import choose_quantile


@pytest.mark.parametrize(
    ("use", "plain", "weighted", "error", "works", "chosen"),
    [
        ("vi", 1.0, 1.0, 0.01, True, "vi"),
        ("vi", 1.0, 1.07, 0.01, True, "vi"),
        ("vi", 1.0, 1.09, 0.01, True, "psis"),  # the weights say otherwise in the tail
        ("vi", 1.0, 1.5, np.inf, True, "vi"),  # they do not know
        ("vi", 1.0, 9.0, 0.01, False, "vi"),  # chains vouch for q
        ("vi", np.nan, np.nan, np.nan, True, "neither"),
        ("psis", 1.0, 1.0, 0.01, True, "psis"),
        ("psis", 1.0, 1.0, np.inf, True, "neither"),
        ("psis", 1.0, 1.0, np.nan, True, "neither"),
        ("neither", 1.0, 1.0, 0.01, True, "neither"),
    ],
)
def test_choice(use, plain, weighted, error, works, chosen):
    one = [np.array([each]) for each in (plain, weighted, error, 1.0)]
    assert choose_quantile([use], *one, works) == [chosen]
