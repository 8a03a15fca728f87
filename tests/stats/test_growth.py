"""khat by the number of draws: one ladder, for verdict and picture."""

import numpy as np
import pytest

import vicheck
from vicheck.plots import khat_growth_data
from vicheck.stats.growth import khat_growth


@pytest.mark.parametrize(
    ("num_draws", "sizes"),
    [(20_000, (1250, 5000, 20_000)), (4000, (1000, 4000)), (3999, (3999,)), (100, (100,))],
)
def test_quarters_down_to_a_thousand(num_draws, sizes):
    log_ratios = np.random.default_rng(1).normal(size=num_draws)
    growth = khat_growth(log_ratios, vicheck.psis(log_ratios))
    assert growth.sizes == sizes
    assert growth.khats.tolist() == [vicheck.psis_khat(log_ratios[:size]) for size in sizes]
    assert (growth.intervals[:, 0] < growth.khats).all()
    assert (growth.khats < growth.intervals[:, 1]).all()
    assert growth.to_dict() == dict(zip(sizes, growth.khats, strict=True))


def test_picture_and_verdict_have_the_same_numbers():
    z = np.random.default_rng(1).normal(size=(20_000, 1))
    log_q = -(z[:, 0] ** 2) / 2
    check = vicheck.check_draws(z, log_p=log_q / 4, log_q=log_q)
    data = khat_growth_data(check)
    assert dict(zip(data.num_draws.tolist(), data.khat.tolist(), strict=True)) == check.khat_growth
