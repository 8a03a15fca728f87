import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicheck.adapters.log_density import from_log_density
from vicheck.adapters.numpyro.models import from_numpyro
from vicheck.errors import ModelError
from vicheck.indexing import Indexing
from vicheck.model import Model, as_data, ravel, unravel
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred
from vicheck.runtime.compiling import num_compiled


def quadratic(x, data):
    return -0.5 * jnp.sum(data["w"] * (x["a"] - data["m"]) ** 2) - x["b"] ** 2


@pytest.fixture
def weighted():
    data = {"w": [1.0, 2.0], "m": np.array([[0.0, 1.0]] * 3)}
    return from_log_density(quadratic, {"a": np.zeros((3, 2)), "b": 0.0}, data=data)


def test_a_density_of_named_parts_and_data(weighted):
    assert weighted.dim == 7
    assert weighted.coordinates == (*weighted.indexing.labels({"a": (3, 2)}), "b")
    z = np.arange(7.0)
    expected = -0.5 * (([1.0, 2.0] * (z[:6].reshape(3, 2) - [0.0, 1.0]) ** 2).sum()) - 36.0
    assert weighted.log_density(z) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("lead", [(), (1,), (4,), (2, 3), (0,)])
def test_log_density_and_constrain_keep_leading_dimensions(weighted, lead, rng):
    z = rng.normal(size=(*lead, 7))
    values = weighted.log_density(z)
    assert np.shape(values) == lead
    assert values.dtype == np.float64
    parts = weighted.constrain(z)
    assert {name: part.shape for name, part in parts.items()} == {"a": (*lead, 3, 2), "b": lead}
    for index in np.ndindex(lead):
        assert values[index] == pytest.approx(weighted.log_density(z[index]), rel=1e-14)
        np.testing.assert_array_equal(parts["b"][index], z[index][6])


def test_unconstrain_undoes_constrain(weighted, rng):
    z = rng.normal(size=7)
    np.testing.assert_array_equal(weighted.unconstrain(weighted.constrain(z)), z)


def test_given_replaces_data_and_leaves_the_model_alone(weighted):
    z = np.ones(7)
    before = weighted.log_density(z)
    changed = weighted.given({"w": [0.0, 0.0]})
    assert changed.log_density(z) == -1.0
    assert weighted.log_density(z) == before
    assert changed.program is weighted.program
    np.testing.assert_array_equal(changed.data["m"], weighted.data["m"])


@pytest.mark.parametrize("nothing", [None, {}])
def test_given_nothing_is_the_same_model(weighted, nothing):
    assert weighted.given(nothing) is weighted


def test_given_fills_in_what_is_missing():
    model = from_numpyro(eight_schools_centred, sigma=EIGHT_SCHOOLS["sigma"])
    assert model.missing == ("y",)
    full = model.given({"y": EIGHT_SCHOOLS["y"]})
    assert full.missing == ()
    same = from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS)
    z = np.full(10, 0.5)
    assert full.log_density(z) == same.log_density(z)


def test_new_data_does_not_compile_again(weighted):
    weighted.log_density(np.zeros(7))
    compiled = num_compiled()
    weighted.given({"w": [5.0, 6.0]}).log_density(np.zeros(7))
    assert num_compiled() == compiled


def test_the_callers_precision_is_left_alone(weighted):
    before = jax.config.jax_enable_x64
    weighted.given({"w": [1.0, 1.0 + 1e-12]})
    value = weighted.log_density(np.full(7, 1e-9))
    weighted.constrain(np.zeros(7))
    assert value.dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(1).dtype == (jnp.float64 if before else jnp.float32)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([1, 2], "i"),
        ([True, False], "b"),
        (np.uint8([1]), "i"),
        (np.float32([1.5]), "f"),
        (3.0, "f"),
        ([], "f"),
        (jnp.ones(2), "f"),
    ],
)
def test_as_data_keeps_integers_and_makes_floats_double(value, kind):
    array = as_data("y", value)
    assert isinstance(array, np.ndarray)
    assert array.dtype.kind == kind
    assert kind != "f" or array.dtype == np.float64
    np.testing.assert_array_equal(array, value)


def test_as_data_takes_nested_dictionaries():
    found = as_data("d", {"x": [1.0], "more": {"y": [2]}})
    np.testing.assert_array_equal(found["more"]["y"], [2])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["a"], "y must hold numbers, got an array of type <U1"),
        ([None, 1.0], "y must hold numbers, got an array of type object"),
        ([1j], "y must hold numbers, got an array of type complex128"),
        ([1.0, np.nan, np.inf], "y must be finite, got 2 of 3 values .* the first at index 1$"),
        ([[1.0, 2.0], [3.0, -np.inf]], r"got 1 of 4 values .* the first at index \(1, 1\)$"),
        (np.nan, r"got 1 of 1 values .* the first at index \(\)$"),
        ({"x": {"v": [np.nan]}}, "y.x.v must be finite"),
    ],
)
def test_errors_of_as_data(value, message):
    with pytest.raises(ModelError, match=message):
        as_data("y", value)


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@settings(max_examples=20)
@given(st.dictionaries(st.text("abc", min_size=1), SHAPES, max_size=3))
def test_labels_unravel_and_ravel_agree(shapes):
    layout = tuple(shapes.items())
    names = Indexing.PYTHON.labels(shapes)
    assert len(names) == len(set(names)) == sum(int(np.prod(shape)) for _, shape in layout)
    z = np.arange(float(len(names)))
    parts = unravel(z, layout)
    assert {name: part.shape for name, part in parts.items()} == shapes
    if layout:
        np.testing.assert_array_equal(ravel(parts, layout), z)
    # A scalar's name leads to its number.
    for name, number in zip(names, z, strict=True):
        key, _, index = name.partition("[")
        at = tuple(int(i) for i in re.findall(r"\d+", index))
        assert parts[key][at] == number


BARE = from_log_density(lambda x: -jnp.sum(x**2), np.zeros(2))
NAMED = from_log_density(
    lambda x, data: -jnp.sum((x["a"] - data["m"]) ** 2),
    {"a": np.zeros(2)},
    data={"m": np.zeros(2)},
)
WITHOUT_Y = from_numpyro(eight_schools_centred, sigma=EIGHT_SCHOOLS["sigma"])

ERRORS = {
    "NaN": (lambda: NAMED.given({"m": [np.nan, 0.0]}), "m must be finite, got 1 of 2"),
    "unknown": (lambda: NAMED.given({"w": 1.0}), "data has w, but the model's data are: m"),
    "no data at all": (lambda: BARE.given({"w": 1.0}), "data has w, .* data are: none"),
    "strings": (lambda: NAMED.given({"m": ["a", "b"]}), "m must hold numbers"),
    "lacks": (lambda: NAMED.unconstrain({"b": 1.0}), "theta lacks a"),
    "simulate": (BARE.simulate, "cannot simulate data: it is a bare log density"),
    "missing": (lambda: WITHOUT_Y.log_density(np.zeros(10)), "no data for y: pass data={'y': ...}"),
    "require": (WITHOUT_Y.require_data, "no data for y"),
    "missing unknown": (lambda: WITHOUT_Y.given({"z": 1}), "model's data are: sigma, y"),
    "likelihood": (
        lambda: BARE.program.log_likelihood(jnp.zeros(2), {}),
        "no likelihood of its own",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message = ERRORS[case]
    with pytest.raises(ModelError, match=message):
        call()


@pytest.mark.parametrize("call", ["log_density", "constrain"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_z_of_the_wrong_length_is_refused(call, shape):
    with pytest.raises(ValueError, match=r"z must have shape \(\.\.\., 2\), got"):
        getattr(BARE, call)(np.zeros(shape))


@pytest.mark.parametrize("shape", [(4,), (2, 3)])
def test_z_whose_size_would_fit_is_refused_too(shape):
    with pytest.raises(ValueError, match=r"z must have shape"):
        BARE.constrain(np.zeros(shape))


def test_a_model_is_frozen():
    with pytest.raises(AttributeError):
        BARE.data = {}
    assert isinstance(BARE, Model)


def test_a_model_prints_names_and_no_arrays(weighted):
    assert repr(weighted) == "Model(7 parameters: a, b; data: w, m)"
