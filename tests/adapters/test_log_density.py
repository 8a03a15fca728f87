"""Models given as a log density."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.adapters.log_density import from_log_density
from vicheck.errors import ModelError

NAMED = from_log_density(
    lambda x, data: -jnp.sum((x["a"] - data["m"]) ** 2),
    {"a": np.zeros(2)},
    data={"m": np.zeros(2)},
)


def test_it_is_the_public_function():
    assert vicheck.from_log_density is from_log_density


def test_a_density_of_a_vector():
    model = from_log_density(lambda x: -jnp.sum(x**2), np.zeros(2))
    assert model.dim == 2
    assert model.coordinates == ("x[0]", "x[1]")
    assert model.data == {}
    assert model.log_density([1.0, 2.0]) == -5.0


def test_a_density_of_a_matrix_and_of_a_scalar():
    model = from_log_density(lambda x: -jnp.sum(x @ x.T), np.zeros((2, 3)))
    assert model.coordinates[:4] == ("x[0, 0]", "x[0, 1]", "x[0, 2]", "x[1, 0]")
    scalar = from_log_density(lambda x: -(x**2), 0.0)
    assert scalar.coordinates == ("x",)
    assert scalar.log_density([3.0]) == -9.0


def test_densities_are_computed_in_double_precision():
    model = from_log_density(lambda x: jnp.sum(x) + 1.0, np.zeros(1, np.float32))
    assert model.log_density([1e-12]) - 1.0 == pytest.approx(1e-12, rel=1e-3)


ERRORS = {
    "no parameters": (lambda: from_log_density(lambda x: 0.0, np.zeros(0)), "no parameters"),
    "no names": (lambda: from_log_density(lambda x: 0.0, {}), "no parameters"),
    "vector": (
        lambda: from_log_density(lambda x: x, np.zeros(2)),
        "must return a scalar, got",
    ),
    "pair": (lambda: from_log_density(lambda x: (x[0], x[1]), np.zeros(2)), "must return a scalar"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message = ERRORS[case]
    with pytest.raises(ModelError, match=message):
        call()


def test_shapes_that_do_not_fit_are_a_model_error():
    with pytest.raises(ModelError, match=r"m \(3,\)"):
        NAMED.given({"m": np.zeros(3)})


def test_unconstrain_refuses_parts_of_the_wrong_shape():
    with pytest.raises(ModelError, match=r"a must have shape \(2,\), got \(3,\)"):
        NAMED.unconstrain({"a": np.zeros(3)})


def test_a_bare_density_says_that_the_trouble_is_its_own():
    bare = from_log_density(lambda x: -jnp.sum(x**2), np.zeros(2))
    assert bare.program.locate_trouble(jnp.zeros(2), {}) == "the log density itself"
    assert not bare.program.has_minibatches


@pytest.mark.parametrize(
    ("log_density", "error", "message"),
    [
        (3, TypeError, "log_density must be a function, got int"),
        (lambda x: np.asarray(x["a"]), ModelError, r"written in JAX: use jax\.numpy"),
        (lambda x: x["b"], ModelError, "log_density asks for 'b', but example has: a"),
        (lambda x: x["a"] * jnp.ones(3), ModelError, r"a scalar, got an array of shape \(3,\)"),
    ],
)
def test_what_is_no_density_of_the_example(log_density, error, message):
    with pytest.raises(error, match=message):
        vicheck.from_log_density(log_density, {"a": 0.0})
