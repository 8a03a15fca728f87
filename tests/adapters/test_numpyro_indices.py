"""Group numbers that count from 1, and integers that are no indices."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import vicheck
from vicheck.errors import ModelError

GROUPS = np.arange(12) % 4


def grouped(county, num_counties, y=None):
    with numpyro.plate("counties", num_counties):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Poisson(jnp.exp(a[county])), obs=y)


def test_groups_from_1_are_refused_by_name():
    y = np.full(12, 9)
    with pytest.raises(
        ModelError, match="county is used as an index and counts from 1: it reaches 4 in "
    ):
        vicheck.from_numpyro(grouped, GROUPS + 1, 4, y=y)
    model = vicheck.from_numpyro(grouped, GROUPS, 4, y=y)
    with pytest.raises(ModelError, match="subtract 1 from county"):
        vicheck.fit(model, {"county": GROUPS + 1})


def test_groups_within_compiled_code_are_seen_too():
    def compiled(county, y=None):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0).expand([4]).to_event(1))
        numpyro.sample("y", dist.Normal(jax.jit(lambda a: a[county])(a), 1.0), obs=y)

    with pytest.raises(ModelError, match="county is used as an index"):
        vicheck.from_numpyro(compiled, GROUPS + 1, y=np.zeros(12))


@pytest.mark.parametrize("counts", [np.arange(12) + 1, np.full(12, 4), GROUPS + 1])
def test_counts_are_no_indices(counts):
    vicheck.from_numpyro(grouped, GROUPS, 4, y=counts)


def test_indices_from_the_end_are_allowed():
    vicheck.from_numpyro(grouped, GROUPS - 4, 4, y=np.ones(12, int))


def test_other_indices_that_are_too_large_are_warned_of():
    with pytest.warns(UserWarning, match=r"index 7 \(county\) in an array of 4 entries"):
        vicheck.from_numpyro(grouped, np.where(GROUPS == 3, 7, GROUPS), 4, y=np.ones(12, int))


@pytest.mark.parametrize("counts", [np.array([1, 2, 3, 3]), np.array([0, 3, 1, 2])])
@pytest.mark.filterwarnings("error")
def test_libraries_that_index_beyond_their_own_arrays_are_not_taken_for_the_data(counts):
    def correlated(group, y=None):
        factor = numpyro.sample("factor", dist.LKJCholesky(3, 2.0))
        numpyro.sample("y", dist.Poisson(jnp.exp(factor[0].sum() + 0.0 * group)), obs=y)

    vicheck.from_numpyro(correlated, np.arange(4), y=counts)
    vicheck.from_numpyro(correlated, np.arange(1, 5), y=counts)
