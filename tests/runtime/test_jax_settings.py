"""Our own code is shielded from the user's JAX settings."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred
from vicheck.runtime.jax_settings import _OURS, double_precision

SETTINGS = [
    ("jax_debug_nans", True),
    ("jax_debug_infs", True),
    ("jax_numpy_rank_promotion", "raise"),
    ("jax_numpy_dtype_promotion", "strict"),
    ("jax_check_tracer_leaks", True),
    ("jax_transfer_guard", "disallow"),
    ("jax_disable_jit", True),
    ("jax_default_matmul_precision", "bfloat16"),
    ("jax_default_prng_impl", "rbg"),
    ("jax_threefry_partitionable", False),
    ("jax_enable_custom_prng", True),
    ("jax_legacy_prng_key", "error"),
    ("jax_debug_key_reuse", True),
    ("jax_softmax_custom_jvp", True),
    ("jax_enable_x64", True),
]


@pytest.fixture
def setting(request):
    """Change a setting for the whole process, as a user would, and restore it."""
    name, value = request.param
    before = jax.config.values[name]
    jax.config.update(name, value)
    yield name
    jax.config.update(name, before)


def results():
    """Return numbers from everything a user asks for first."""
    model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    fit = vicheck.fit(model, num_starts=1)
    check = vicheck.check(fit, num_draws=2000)
    calibration = vicheck.vsbc(model, num_datasets=4, num_draws=100, progress=False)
    drawn = fit.sample(10)
    data = model.simulate(3)[1]
    return {
        "mean": fit.mean,
        "covariance": fit.covariance,
        "log_p": check.log_p,
        "moments": check.moments["psis_mean"].to_numpy(),
        "probabilities": calibration.probabilities.to_numpy(),
        "khat": calibration.khat,
        "theta": drawn["theta"],
        "y": data["y"],
        "density": model.log_density(np.zeros(model.dim)),
    }


@pytest.fixture(scope="module")
def undisturbed():
    return results()


@pytest.mark.parametrize("setting", SETTINGS, indirect=True, ids=lambda pair: pair[0])
def test_results_are_the_same_bits_under_any_setting(undisturbed, setting):
    for name, value in results().items():
        np.testing.assert_array_equal(value, undisturbed[name], err_msg=name)


@pytest.mark.parametrize("setting", SETTINGS[:7], indirect=True, ids=lambda pair: pair[0])
def test_a_new_model_is_traced_and_compiled_under_any_setting(setting):
    def log_density(x, data):
        scores = jnp.where(x > 0, jnp.log(jnp.abs(x)) * 0.0, 0.0)  # NaN at 0, which is not taken
        return -jnp.sum((x - data["y"]) ** 2) / 2 + jnp.sum(scores * 1)

    model = vicheck.from_log_density(log_density, np.zeros(2), data={"y": np.ones((1, 2))})
    fit = vicheck.fit(model, num_starts=1)
    np.testing.assert_allclose(fit.mean, 1.0, atol=1e-3)


def test_the_settings_of_the_caller_are_left_alone():
    with jax.numpy_rank_promotion("raise"), jax.debug_nans(True):
        with double_precision():
            assert (jnp.zeros((2, 1)) + jnp.zeros(2)).dtype == np.float64
            assert np.isnan(jnp.log(-jnp.ones(()))).all()
        with pytest.raises(ValueError, match="rank"):
            jnp.zeros((2, 1)) + jnp.zeros(2)
        with pytest.raises(FloatingPointError):
            jnp.log(-jnp.ones(()))
    assert jnp.zeros(()).dtype == np.float32


def test_settings_belong_to_a_thread():
    seen = []
    with double_precision():
        thread = threading.Thread(target=lambda: seen.append(jnp.zeros(()).dtype))
        thread.start()
        thread.join()
    assert seen == [np.float32]


def test_the_settings_are_the_defaults_of_jax():
    """So that results are those of a process in which nothing was set."""
    changed = {
        setting._name: value
        for setting, value in _OURS
        if hasattr(setting, "_name") and jax.config.values[setting._name] not in (value, None)
    }
    assert changed == {"jax_enable_x64": True}
