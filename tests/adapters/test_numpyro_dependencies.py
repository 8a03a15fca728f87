"""What a trace shows of what depends on what, and the paths of data."""

import numpy as np
import numpyro
import numpyro.distributions as dist

from vicheck.adapters.numpyro.dependencies import look_at, put, take


def regression(x, y=None, scale=1.0):
    slope = numpyro.sample("slope", dist.Normal(0.0, scale))
    mean = numpyro.deterministic("mean", slope * x["dose"])
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)
    numpyro.sample("shifted", dist.Normal(0.0, 1.0), obs=y - 1.0)


DATA = {"x": {"dose": np.arange(3.0)}, "y": np.zeros(3)}


def test_laws_and_values_have_their_sources():
    look = look_at(regression, {"scale": 2.0}, DATA)
    assert look.observed == ("y", "shifted")
    assert look.sources("slope", "law") == (False, ())
    assert look.sources("slope", "value")[0]
    assert look.sources("y", "law") == (True, (("x", "dose"),))
    assert look.sources("y", "value") == (False, (("y",),))
    assert look.sources("shifted", "value") == (False, (("y",),))


def test_only_what_is_observed_as_it_is_has_a_path():
    look = look_at(regression, {}, DATA)
    assert look.path_of("y") == ("y",)
    assert look.path_of("shifted") is None
    assert look.path_of("slope") is None


def test_sites_that_are_drawn_anew_observe_nothing():
    look = look_at(regression, {}, DATA, frozenset({"y"}))
    assert look.observed == ("shifted",)
    assert look.sources("y", "value")[0]


def test_paths_lead_through_dictionaries():
    assert take(DATA, ("x", "dose")) is DATA["x"]["dose"]
    assert take(DATA, ("x", "weight")) is None
    assert take(DATA, ("y", "dose")) is None
    changed = put(DATA, ("x", "weight"), 1.0)
    assert set(changed["x"]) == {"dose", "weight"}
    assert set(DATA["x"]) == {"dose"}
    assert put({}, ("a", "b"), 1) == {"a": {"b": 1}}
