"""What is read of a model's parameters from its trace."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from vicheck.adapters.numpyro.parameters import find_parameters, unconstrained_shape
from vicheck.adapters.numpyro.traces import sites_at_zero
from vicheck.errors import ModelError


def many_kinds(y=None):
    numpyro.sample("shares", dist.Dirichlet(np.ones(3)))
    numpyro.sample("scales", dist.HalfNormal(1.0).expand([2]).to_event(1))
    numpyro.sample("below", dist.TruncatedNormal(high=np.zeros(2)).to_event(1))
    numpyro.sample("inside", dist.Uniform(0.0, 1.0))
    with numpyro.plate("rows", 10, subsample_size=4):
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


def test_layouts_and_kinds():
    sites = sites_at_zero(many_kinds, {}, {"y": np.zeros(10)})
    found = find_parameters(sites)
    assert found.layout == (("shares", (2,)), ("scales", (2,)), ("below", (2,)), ("inside", ()))
    assert dict(found.constrained)["shares"] == (3,)
    assert found.joint == ("shares",)
    assert found.decreasing == ("below",)
    assert found.subsampled == ("rows",)
    assert unconstrained_shape(sites["shares"]) == (2,)


def with_param():
    numpyro.param("loc", 0.0)


def discrete():
    numpyro.sample("k", dist.Poisson(1.0))


def latent_in_part_of_the_data():
    with numpyro.plate("rows", 10, subsample_size=4):
        numpyro.sample("effect", dist.Normal(0.0, 1.0))


def without_parameters():
    numpyro.sample("y", dist.Normal(0.0, 1.0), obs=0.0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (with_param, "site 'loc' is a numpyro.param.*: make it a numpyro.sample"),
        (discrete, "site 'k' is a discrete latent variable: marginalise it out"),
        (latent_in_part_of_the_data, "site 'effect' is a latent variable in a subsampled plate"),
        (without_parameters, "the model has no parameters: every site is observed"),
    ],
)
def test_models_that_cannot_be_used(model, message):
    with pytest.raises(ModelError, match=message):
        find_parameters(sites_at_zero(model, {}, {}))


def test_what_a_function_raises_is_a_model_error_with_shapes():
    def broken(y):
        raise RuntimeError("seven")

    message = r"cannot be run with data of shapes y \(3,\): RuntimeError: seven"
    with pytest.raises(ModelError, match=message):
        sites_at_zero(broken, {}, {"y": np.zeros(3)})
