"""Which estimates are reported follows from what may be used of each."""

import pandas as pd

from vicheck.results.reported import reported

TABLE = pd.DataFrame({
    "use_mean": ["vi", "psis", "neither"],
    "vi_mean": [0.0, 1.0, 2.0],
    "psis_mean": [10.0, 11.0, 12.0],
})  # fmt: skip


def test_where_the_weights_do_not_work_each_has_its_own():
    estimates, weighted = reported(TABLE, "mean", weights_work=False)
    assert list(estimates) == [0.0, 11.0, 2.0]
    assert list(weighted) == [False, True, False]


def test_where_the_weights_work_all_are_weighted():
    estimates, weighted = reported(TABLE, "mean", weights_work=True)
    assert list(estimates) == [10.0, 11.0, 12.0]
    assert weighted.all()
