"""A changed model is a new model: compiled code is keyed by what is computed."""

import gc
import pickle
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.runtime import compiling
from vicheck.runtime.compiling import ahead, num_compiled, num_kept
from vicheck.runtime.computation import Computation, is_installed
from vicheck.runtime.portable import portable_digest
from vicheck.runtime.tracing import Traced

PRIOR_SD = 1.0
WEIGHTS = np.ones(3)
Y = np.full(3, 5.0)


def with_global(outcome=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, PRIOR_SD))
    numpyro.sample("outcome", dist.Normal(mu, 1.0).expand([3]), obs=outcome)


class Settings:
    prior_sd = 1.0


def with_attribute(settings, outcome=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, settings.prior_sd))
    numpyro.sample("outcome", dist.Normal(mu, 1.0).expand([3]), obs=outcome)


def with_closure():
    held = {"prior_sd": 1.0}

    def model(outcome=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, held["prior_sd"]))
        numpyro.sample("outcome", dist.Normal(mu, 1.0).expand([3]), obs=outcome)

    return model, held


def exact_mean(prior_sd):
    """Posterior mean of a normal mean, three observations of 5 with sd 1."""
    return 15.0 / (3.0 + prior_sd**-2)


def density_with_global(z):
    return jnp.sum(-(z**2)) / (2 * PRIOR_SD**2) - jnp.sum(WEIGHTS * (z - 5.0) ** 2) / 2


def vi_mean(model):
    checked = vicheck.check(vicheck.fit(model, num_starts=1), num_draws=1000)
    assert not checked.notes
    return checked.moments["vi_mean"].iloc[0]


def change_global(value, monkeypatch, name="PRIOR_SD"):
    monkeypatch.setitem(globals(), name, value)


@pytest.mark.slow
def test_a_changed_global_is_seen_by_fit_check_density_and_reference(monkeypatch):
    model = vicheck.from_numpyro(with_global, observed=("outcome",), outcome=Y)
    means, densities, references = [], [], []
    for prior_sd in (1.0, 100.0, 1.0):
        change_global(prior_sd, monkeypatch)
        means.append(vi_mean(model))
        densities.append(model.log_density([1.0]))
        draws = vicheck.reference(model, num_draws=200, num_warmup=200, num_chains=1)
        references.append(draws.moments.loc["mu", "mean"])
    exact = [exact_mean(1.0), exact_mean(100.0), exact_mean(1.0)]
    np.testing.assert_allclose(means, exact, atol=0.1)
    np.testing.assert_allclose(references, exact, atol=0.2)
    assert densities[0] == densities[2] != densities[1]


def test_a_changed_attribute_is_seen():
    settings = Settings()
    model = vicheck.from_numpyro(with_attribute, settings, observed=("outcome",), outcome=Y)
    assert vi_mean(model) == pytest.approx(exact_mean(1.0), abs=0.1)
    settings.prior_sd = 100.0
    assert vi_mean(model) == pytest.approx(exact_mean(100.0), abs=0.1)


def test_a_changed_closure_is_seen():
    function, held = with_closure()
    model = vicheck.from_numpyro(function, observed=("outcome",), outcome=Y)
    assert vi_mean(model) == pytest.approx(exact_mean(1.0), abs=0.1)
    held["prior_sd"] = 100.0
    assert vi_mean(model) == pytest.approx(exact_mean(100.0), abs=0.1)


@pytest.mark.parametrize(
    ("name", "value", "mean"), [("PRIOR_SD", 100.0, 5.0), ("WEIGHTS", np.full(3, 1e-8), 0.0)]
)
def test_a_changed_number_or_array_is_seen_by_a_plain_density(name, value, mean, monkeypatch):
    model = vicheck.from_log_density(density_with_global, jnp.zeros(()))
    assert vi_mean(model) == pytest.approx(3.75, abs=0.1)
    change_global(value, monkeypatch, name)
    assert vi_mean(model) == pytest.approx(mean, abs=0.1)


def test_a_changed_quantity_is_seen():
    held = {"factor": 1.0}
    fit = vicheck.fit(vicheck.from_log_density(density_with_global, jnp.zeros(())), num_starts=1)

    def mean():
        quantities = {"scaled": lambda theta: held["factor"] * theta["x"]}
        return vicheck.check(fit, num_draws=1000, quantities=quantities).moments["vi_mean"].iloc[0]

    first = mean()
    held["factor"] = 3.0
    assert mean() == pytest.approx(3.0 * first)


def test_a_check_says_when_the_model_has_changed_since_the_fit(monkeypatch):
    model = vicheck.from_log_density(density_with_global, jnp.zeros(()))
    fit = vicheck.fit(model, num_starts=1)
    change_global(100.0, monkeypatch)
    checked = vicheck.check(fit, num_draws=1000)
    assert any("has changed since it was fitted" in note for note in checked.notes)
    assert "has changed since it was fitted" in str(checked)


@pytest.mark.slow
def test_stochastic_solvers_see_a_changed_global(monkeypatch):
    model = vicheck.from_log_density(density_with_global, jnp.zeros(()))
    for solver, options in (("stochastic", {"num_steps": 2000}), ("stan_advi", {})):
        for prior_sd in (1.0, 100.0):
            change_global(prior_sd, monkeypatch)
            fit = vicheck.fit(model, solver=solver, **options)
            assert fit.mean[0] == pytest.approx(exact_mean(prior_sd), abs=0.4), solver


def test_a_guide_sees_a_changed_global(monkeypatch):
    from numpyro.infer.autoguide import AutoNormal

    guide = AutoNormal(with_global)
    params = {"mu_auto_loc": np.array(4.0), "mu_auto_scale": np.array(0.5)}
    elbos = []
    for prior_sd in (1.0, 100.0):
        change_global(prior_sd, monkeypatch)
        checked = vicheck.check_numpyro(with_global, guide, params, outcome=Y, num_draws=2000)
        elbos.append(checked.divergences.elbo.value)
    # The wide prior has no -4^2/2 at the mean 4, but a lower normalising constant.
    assert elbos[1] - elbos[0] == pytest.approx((16.0 + 0.25) / 2 - np.log(100.0), abs=0.1)


def test_equal_programs_share_code_and_compile_nothing():
    def density(shift):
        return lambda z: -jnp.sum((z - shift) ** 2) / 2

    vicheck.from_log_density(density(0.25), jnp.zeros(2)).log_density(np.zeros(2))
    before = num_compiled()
    for _ in range(5):
        model = vicheck.from_log_density(density(0.25), jnp.zeros(2))
        assert model.log_density(np.zeros(2)) == -0.0625
    assert num_compiled() == before


def test_models_of_numpyro_that_compute_the_same_share_code():
    def model(shift):
        def normal(y=None):
            mu = numpyro.sample("mu", dist.Normal(shift, 1.0))
            numpyro.sample("y", dist.Bernoulli(logits=mu), obs=y)

        return vicheck.from_numpyro(normal, y=np.array([0, 1, 1]), observed=("y",))

    first = model(0.25).log_density(np.zeros(1))
    before = num_compiled()
    assert model(0.25).log_density(np.zeros(1)) == first
    assert num_compiled() == before
    assert model(0.5).log_density(np.zeros(1)) != first


def test_the_same_operations_by_other_names_keep_their_names():
    def named(name):
        def model():
            mu = numpyro.sample("mu", dist.Normal(0.5, 2.0))
            numpyro.deterministic(name, 3.0 * mu)

        return vicheck.from_numpyro(model)

    found = [list(named(name).constrain(np.zeros(1))) for name in ("first", "second")]
    assert found == [["mu", "first"], ["mu", "second"]]
    seen = [named(name).program.computation("constrain", {}) for name in ("first", "second")]
    assert portable_digest(seen[0]) != portable_digest(seen[1])  # nor in the next process


def test_programs_that_differ_share_nothing():
    values = [
        vicheck.from_log_density(lambda z, c=c: c * jnp.sum(z), jnp.zeros(2)).log_density(
            [1.0, 1.0]
        )
        for c in (1.0, 2.0, 3.0)
    ]
    assert values == [2.0, 4.0, 6.0]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists memory maps")
def test_code_of_fresh_closures_is_freed(monkeypatch):
    monkeypatch.setattr(compiling, "MOST_KEPT", 8)

    def maps():
        gc.collect()
        return len(Path("/proc/self/maps").read_text().splitlines())

    def evaluate(shift):
        return vicheck.from_log_density(lambda z: -jnp.sum((z - shift) ** 2), 0.0).log_density(
            [0.0]
        )

    for number in range(20):
        assert evaluate(number / 8) == -((number / 8) ** 2)
    before = maps()
    for number in range(20, 80):
        assert evaluate(number / 8) == -((number / 8) ** 2)
    assert num_kept() <= 8
    # Sixty pieces of code would take hundreds of maps if all were kept.
    assert maps() < before + 60


def test_code_that_jax_cannot_see_is_identified_by_its_function():
    def density(host):
        def log_density(z):
            shape = jax.ShapeDtypeStruct((), z.dtype)
            return jax.pure_callback(host, shape, z, vmap_method="sequential")

        return vicheck.from_log_density(log_density, 0.0)

    first = density(lambda z: np.asarray(-z, z.dtype))
    second = density(lambda z: np.asarray(-2 * z, z.dtype))
    assert (first.log_density([1.0]), second.log_density([1.0])) == (-1.0, -2.0)


def computation_of(function, *args):
    with double_precision():
        return Computation.of(jax.make_jaxpr(function)(*args))


def test_digests_distinguish_constants_operations_and_shapes():
    x = np.zeros(3)
    digests = [
        computation_of(lambda x: x + 1.0, x).digest,
        computation_of(lambda x: x + 2.0, x).digest,
        computation_of(lambda x: x * 1.0, x).digest,
        computation_of(lambda x: x + 1.0, np.zeros(4)).digest,
        computation_of(lambda x: x + np.arange(3.0), x).digest,
        computation_of(jax.jit(lambda x: x + np.arange(3.0) ** 2), x).digest,
        computation_of(jax.jit(lambda x: x + np.arange(3.0) ** 3), x).digest,
        computation_of(lambda x: (x, x + 1.0), x).digest,
    ]
    assert len(set(digests)) == len(digests)


def test_digests_do_not_depend_on_names_and_places():
    def one(x):
        return jnp.sum(jnp.exp(x))

    def other(y):
        total = jnp.exp(y)
        return jnp.sum(total)

    assert computation_of(one, np.zeros(3)) == computation_of(other, np.zeros(3))


def test_our_own_code_counts_as_installed_and_that_of_the_user_does_not():
    assert is_installed(vicheck.__file__)
    assert is_installed(compiling.__file__)
    assert is_installed(jax.__file__)
    assert not is_installed(__file__)


SLOPE = 1.0


@jax.custom_jvp
def _kinked(x):
    return jnp.abs(x)


@_kinked.defjvp
def _kinked_jvp(primals, tangents):
    return _kinked(primals[0]), SLOPE * tangents[0]


def test_a_changed_differentiation_rule_is_seen(monkeypatch):
    model = vicheck.from_log_density(lambda z: -_kinked(z) - z**2, 0.0)
    with double_precision():
        before = model.program.computation("log_density", {})
        change_global(2.0, monkeypatch, "SLOPE")
        assert model.program.computation("log_density", {}) != before


def test_a_snapshot_is_traced_once_and_pickles(monkeypatch):
    traced = []

    def density(z):
        traced.append(z)
        return -jnp.sum(z**2)

    program = vicheck.from_log_density(density, jnp.zeros(2)).program.snapshot()
    traced.clear()
    with double_precision():
        first, again = (program.computation("log_density", {}) for _ in range(2))
    assert first == again
    assert len(traced) == 1
    sent = pickle.loads(pickle.dumps(Holding(program.layout).snapshot()))
    assert sent.computations == {}


class Holding(Traced):
    def __init__(self, layout):
        self.layout = layout


def test_a_loop_over_partials_is_a_loop_over_models():
    def density(shift, z):
        return -jnp.sum((z - shift) ** 2)

    values = [
        vicheck.from_log_density(partial(density, shift), 0.0).log_density([0.0])
        for shift in (1, 2)
    ]
    assert values == [-1.0, -4.0]


def test_what_is_compiled_ahead_is_zero_until_it_is_called_again():
    traced = []

    def density(z):
        traced.append(z)
        return -jnp.sum((z - 0.75) ** 2)

    model = vicheck.from_log_density(density, jnp.zeros(2))
    before = num_compiled()
    with ahead():
        assert not gc.isenabled()
        traced.clear()
        first = model.log_density(np.ones((3, 2)))
        assert traced
        np.testing.assert_array_equal(first, np.zeros(3))
        np.testing.assert_array_equal(model.log_density(np.ones((3, 2))), np.zeros(3))
    assert gc.isenabled()
    np.testing.assert_array_equal(model.log_density(np.ones((3, 2))), np.full(3, -0.125))
    assert num_compiled() == before + 1
    with ahead():
        np.testing.assert_array_equal(model.log_density(np.ones((3, 2))), np.full(3, -0.125))


def test_what_fails_to_compile_ahead_fails_where_it_is_called(monkeypatch):
    model = vicheck.from_log_density(lambda z: -jnp.sum((z - 0.875) ** 2), jnp.zeros(2))
    monkeypatch.setattr(compiling, "_in_one_piece_if_possible", lambda lowered: 1 / 0)
    monkeypatch.setattr(compiling._Uncompiled, "in_one_piece", True)
    with ahead():
        assert model.log_density(np.ones(2)) == 0.0
    with pytest.raises(ZeroDivisionError):
        model.log_density(np.ones(2))
    monkeypatch.undo()
    assert model.log_density(np.ones(2)) == -0.03125
