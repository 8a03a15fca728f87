"""What is compiled in one piece computes the same, and what cannot be is compiled in many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import vicheck
from vicheck.model import double_precision
from vicheck.runtime.in_one_piece import can_be_in_one_piece, in_one_piece, tracing
from vicheck.vi.density import Density

POINTS = np.random.default_rng(0).normal(size=(3, 2, 2))
SHIFTS = np.array([0.0, 1.0, -2.0])


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def total(rows):
    return lax.map(lambda row: jnp.exp(row).sum(), rows)


def lowered(function, allowed):
    with tracing(allowed=allowed) as pieces:
        code = jax.jit(lambda rows: in_one_piece(function, rows)).trace(POINTS).lower()
    return code, pieces


def test_it_is_marked_and_computes_the_same():
    one, pieces = lowered(total, allowed=True)
    many, none = lowered(total, allowed=False)
    assert pieces.used
    assert not none.used
    assert "xla_cpu_small_call" in one.as_text()
    assert "xla_cpu_small_call" not in many.as_text()
    assert can_be_in_one_piece(one)
    np.testing.assert_allclose(one.compile()(POINTS), many.compile()(POINTS), rtol=1e-14)


def test_calls_of_libraries_and_sorting_are_not_put_into_one_piece():
    square = lambda rows: jnp.linalg.cholesky(rows[0] @ rows[0].T + jnp.eye(2))  # noqa: E731
    assert not can_be_in_one_piece(lowered(square, allowed=True)[0])
    assert not can_be_in_one_piece(lowered(jnp.sort, allowed=True)[0])


def test_where_it_is_not_allowed_another_function_may_be_called():
    whole = lambda rows: jnp.exp(rows).sum(axis=(1, 2))  # noqa: E731
    for allowed, marked in ((True, True), (False, False)):
        with tracing(allowed=allowed):
            code = jax.jit(lambda rows: in_one_piece(total, rows, otherwise=whole)).trace(POINTS)
        text = code.lower().as_text()
        assert ("xla_cpu_small_call" in text) == ("while" in text) == marked


def plain(z, data):
    return -0.5 * ((z - data["shift"]) ** 2).sum()


def by_cholesky(z, data):
    factor = jnp.linalg.cholesky(jnp.array([[2.0, 0.5], [0.5, 1.0]]) + z[0] ** 2 * jnp.eye(2))
    return -jnp.square(factor @ (z - data["shift"])).sum()


@pytest.mark.parametrize("log_density", [plain, by_cholesky])
def test_the_density_of_many_sets_of_data_is_right_either_way(log_density):
    model = vicheck.from_log_density(log_density, np.zeros(2), data={"shift": 0.0})
    density = Density(model.program.snapshot(), {}, {"shift": SHIFTS}, len(SHIFTS))
    values, gradients = density(np.arange(3), POINTS)
    for lane, shift in enumerate(SHIFTS):
        of_one = jax.vmap(jax.value_and_grad(lambda z, s=shift: log_density(z, {"shift": s})))
        value, gradient = of_one(POINTS[lane])
        np.testing.assert_allclose(values[lane], value, rtol=1e-12)
        np.testing.assert_allclose(gradients[lane], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("log_density", [plain, by_cholesky])
def test_the_density_of_a_small_model_is_right_either_way(log_density):
    model = vicheck.from_log_density(log_density, np.zeros(2), data={"shift": 1.0})
    density = Density(model.program.snapshot(), model.data, {})
    values, gradients = density(np.zeros(1, int), POINTS[:1])
    of_one = jax.vmap(jax.value_and_grad(lambda z: log_density(z, {"shift": 1.0})))
    value, gradient = of_one(POINTS[0])
    np.testing.assert_allclose(values[0], value, rtol=1e-12)
    np.testing.assert_allclose(gradients[0], gradient, rtol=1e-9, atol=1e-12)


def test_code_that_xla_refuses_is_compiled_in_many_pieces(monkeypatch):
    refused = []

    def refuse(lowered):
        refused.append(lowered)
        return False

    monkeypatch.setattr("vicheck.runtime.compiling.can_be_in_one_piece", refuse)
    shifted = lambda z, data: plain(z, data) - 0.125  # noqa: E731, compiled here alone
    model = vicheck.from_log_density(shifted, np.zeros(2), data={"shift": 0.0})
    monkeypatch.setenv("VICHECK_CACHE", "off")
    density = Density(model.program.snapshot(), {}, {"shift": SHIFTS}, len(SHIFTS))
    values, _ = density(np.arange(3), POINTS)
    assert len(refused) == 1
    expected = -0.5 * ((POINTS - SHIFTS[:, None, None]) ** 2).sum(-1) - 0.125
    np.testing.assert_allclose(values, expected, rtol=1e-12)
