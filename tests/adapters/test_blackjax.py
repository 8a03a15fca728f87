"""States of BlackJAX, and anything else with `sample` and `log_prob`."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest
from blackjax.vi import fullrank_vi, meanfield_vi, pathfinder
from scipy import stats

import vicheck
from vicheck.errors import MissingExtraError
from vicheck.model import double_precision
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred, eight_schools_noncentred

pytestmark = pytest.mark.usefixtures("compiled_plainly")
MODELS = pytest.mark.parametrize(
    "model_fn", [eight_schools_centred, eight_schools_noncentred], ids=["centred", "noncentred"]
)


def native(model_fn):
    model = vicheck.from_numpyro(model_fn, **EIGHT_SCHOOLS)
    program, data = model.program, jax.tree.map(jnp.asarray, model.data)
    return model, lambda z: program.log_density(z, data)


def moved(state):
    """Return a state some way from its start; that it is no fit does not matter here."""
    leaves, structure = jax.tree.flatten(state)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    return jax.tree.unflatten(
        structure,
        [leaf + 0.3 * jax.random.normal(key, leaf.shape) if leaf.dtype.kind == "f" else leaf
         for key, leaf in zip(keys, map(jnp.asarray, leaves), strict=True)],
    )  # fmt: skip


@MODELS
def test_mean_field_has_the_khat_of_the_same_q(model_fn):
    model, log_density = native(model_fn)
    state = moved(meanfield_vi.init(jnp.zeros(10), optax.adam(0.02)))
    checked = vicheck.check_blackjax(state, log_density, num_draws=4000)
    z = checked.draws["x"]
    q = stats.norm(np.asarray(state.mu, float), np.exp(np.asarray(state.rho, float)))
    expected = vicheck.psis(model.log_density(z) - q.logpdf(z).sum(axis=1)).khat
    assert checked.khat == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@MODELS
def test_full_rank_has_the_khat_of_the_same_q(model_fn):
    model, log_density = native(model_fn)
    state = moved(fullrank_vi.init(jnp.zeros(10), optax.adam(0.02)))
    checked = vicheck.check_blackjax(state, log_density, num_draws=4000)
    z = checked.draws["x"]
    with double_precision():
        chol = np.asarray(fullrank_vi._unflatten_cholesky(np.asarray(state.chol_params, float), 10))
    q = stats.multivariate_normal(np.asarray(state.mu, float), chol @ chol.T)
    expected = vicheck.psis(model.log_density(z) - q.logpdf(z)).khat
    assert checked.khat == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@MODELS
def test_pathfinder_has_the_khat_of_the_same_q(model_fn):
    model, log_density = native(model_fn)
    key = jax.random.key(2)  # a state as `approximate` returns it, which takes long to compile
    state = pathfinder.PathfinderState(
        elbo=0.0, position=jnp.zeros(10), grad_position=0.1 * jax.random.normal(key, (10,)),
        alpha=jnp.linspace(0.5, 2.0, 10), beta=0.3 * jax.random.normal(key, (10, 4)),
        gamma=0.2 * jnp.eye(4),
    )  # fmt: skip
    checked = vicheck.check_blackjax(state, log_density, num_draws=4000)
    z = checked.draws["x"]
    alpha, beta, gamma, grad, position = (
        np.asarray(part, float)
        for part in (
            state.alpha, state.beta, state.gamma, state.grad_position, state.position,
        )
    )  # fmt: skip
    covariance = np.diag(alpha) + beta @ gamma @ beta.T  # Zhang et al. (2022), equation 4
    q = stats.multivariate_normal(position + covariance @ grad, covariance)
    np.testing.assert_allclose(checked.log_q, q.logpdf(z), atol=1e-6)
    expected = vicheck.psis(model.log_density(z) - q.logpdf(z)).khat
    assert checked.khat == pytest.approx(expected, abs=1e-6)


def test_positions_with_names_keep_them():
    state = meanfield_vi.init({"a": jnp.zeros(2), "b": jnp.zeros(())}, optax.adam(0.1))
    checked = vicheck.check_blackjax(
        state, lambda x: -(x["a"] ** 2).sum() - x["b"] ** 2, num_draws=500, quantities=["b"]
    )
    assert list(checked.moments.index) == ["b"]
    assert vicheck.check_blackjax(state, lambda x: -(x["b"] ** 2), num_draws=500).names == (
        "a[0]", "a[1]", "b",
    )  # fmt: skip


def test_particles_have_no_density():
    state = blackjax.vi.svgd.SVGDState(jnp.zeros((3, 2)), {}, None)
    with pytest.raises(TypeError, match="got SVGDState: particles have no density"):
        vicheck.check_blackjax(state, lambda x: 0.0)
    with pytest.raises(TypeError, match="must be a MFVIState, FRVIState or PathfinderState"):
        vicheck.check_blackjax({"mu": 0.0}, lambda x: 0.0)


def test_without_blackjax_the_command_is_named(monkeypatch):
    monkeypatch.setattr("vicheck.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'vicheck\[blackjax\]'"):
        vicheck.check_blackjax(None, lambda x: 0.0)


def test_a_distribution_of_numpyro():
    scale = np.array([0.9, 1.1])
    q = dist.Normal(0.0, scale).to_event(1)
    checked = vicheck.check_distribution(q, lambda x: -jnp.sum(x**2) / 2, num_draws=5000)
    z = checked.draws["x"]
    log_q = stats.norm(0.0, scale).logpdf(z).sum(axis=1)
    expected = vicheck.psis(-(z**2).sum(axis=1) / 2 - log_q).khat
    assert checked.khat == pytest.approx(expected, abs=1e-6)


class LikeDistrax:
    def sample(self, *, seed, sample_shape):
        return jax.random.normal(seed, sample_shape)

    def log_prob(self, value):
        return jax.scipy.stats.norm.logpdf(value)


def test_an_object_that_takes_a_seed_by_name():
    checked = vicheck.check_distribution(LikeDistrax(), lambda x: -(x**2) / 2, num_draws=300)
    assert checked.khat == 0.0
    assert checked.log_evidence.value == pytest.approx(np.log(2 * np.pi) / 2)


@pytest.mark.parametrize(
    ("q", "log_density", "error", "message"),
    [
        (object(), lambda x: 0.0, TypeError, "q must have a method sample, which object lacks"),
        (dist.Normal(0.0, np.ones(2)), lambda x: 0.0 * x.sum(), ValueError, "to_event in NumPyro"),
        (dist.Normal(0.0, 1.0), lambda x: jnp.ones(3), ValueError, "must return one number"),
    ],
)
def test_what_is_no_distribution_of_one_variable(q, log_density, error, message):
    with pytest.raises(error, match=message):
        vicheck.check_distribution(q, log_density, num_draws=100)


@pytest.mark.parametrize(
    ("state", "log_density", "message"),
    [
        (3, lambda x: x, "state must be a MFVIState, .* got int"),
        (None, 3, "log_density must be a function, got int"),
    ],
)
def test_what_is_no_state_and_no_density(state, log_density, message):
    with pytest.raises(TypeError, match=message):
        vicheck.check_blackjax(state, log_density)


def test_a_density_in_numpy_is_sent_to_jax():
    q = dist.Normal(0.0, 1.0).expand([2]).to_event(1)
    with pytest.raises(TypeError, match=r"log_density must be written in JAX: use jax\.numpy"):
        vicheck.check_distribution(q, lambda x: -np.sum(np.asarray(x) ** 2))
