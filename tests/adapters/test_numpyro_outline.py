"""What a model computes is seen from its sites: as much as tracing the whole density shows."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.distributions import constraints, transforms
from numpyro.infer.reparam import LocScaleReparam

import vicheck
from vicheck.model import double_precision
from vicheck.runtime import tracing

Y = np.array([0.5, 1.5, -0.25])
NUMBER = 1.0


def computations(function, y=Y, use="log_density"):
    """Return what is seen of a model by its outline and by tracing all of it."""
    model = vicheck.from_numpyro(function, y=y, observed=("y",))
    with double_precision():
        outline = tracing.trace_outline(model.program.outline(use, model.data))
        whole = tracing.trace(*model.program.traces(use, model.data), model.program)
    return outline, whole


def normal_mean(prior=None, likelihood=None, scale=None, mask=None, factor=None):
    prior = prior or (lambda: dist.Normal(0.0, 1.0))
    likelihood = likelihood or (lambda mu: dist.Normal(mu, 1.0))

    def model(y=None):
        mu = numpyro.sample("mu", prior())
        scaled = handlers.scale(scale=scale) if scale else nullcontext()
        with scaled, handlers.mask(mask=mask) if mask is not None else nullcontext():
            numpyro.sample("y", likelihood(mu), obs=y)
        if factor is not None:
            numpyro.factor("more", factor(mu))

    return model


MODELS = {
    "plain": normal_mean(),
    "another number": normal_mean(lambda: dist.Normal(0.0, 2.0)),
    "an integer": normal_mean(lambda: dist.Normal(0, 1.0)),
    "single precision": normal_mean(lambda: dist.Normal(np.float32(0.0), 1.0)),
    "an array": normal_mean(lambda: dist.Normal(jnp.zeros(()), 1.0)),
    "another distribution": normal_mean(lambda: dist.Laplace(0.0, 1.0)),
    "another family of it": normal_mean(lambda: dist.Logistic(0.0, 1.0)),
    "another support": normal_mean(lambda: dist.HalfNormal(1.0)),
    "its bounds": normal_mean(lambda: dist.TruncatedNormal(0.0, 1.0, low=-2.0)),
    "other bounds": normal_mean(lambda: dist.TruncatedNormal(0.0, 1.0, low=-3.0)),
    "bounds on the other side": normal_mean(lambda: dist.TruncatedNormal(0.0, 1.0, high=-2.0)),
    "uniform": normal_mean(lambda: dist.Uniform(-2.0, 2.0)),
    "wider": normal_mean(lambda: dist.Uniform(-2.0, 3.0)),
    "flat": normal_mean(lambda: dist.ImproperUniform(constraints.real, (), ())),
    "flat above": normal_mean(lambda: dist.ImproperUniform(constraints.greater_than(1.0), (), ())),
    "flat above 2": normal_mean(
        lambda: dist.ImproperUniform(constraints.greater_than(2.0), (), ())
    ),
    "transformed": normal_mean(
        lambda: dist.TransformedDistribution(
            dist.Normal(0.0, 1.0), transforms.AffineTransform(1.0, 2.0)
        )
    ),
    "transformed otherwise": normal_mean(
        lambda: dist.TransformedDistribution(
            dist.Normal(0.0, 1.0), transforms.AffineTransform(1.0, 3.0)
        )
    ),
    "exponentiated": normal_mean(
        lambda: dist.TransformedDistribution(dist.Normal(0.0, 1.0), transforms.ExpTransform())
    ),
    "events": normal_mean(likelihood=lambda mu: dist.Normal(mu, 1.0).expand([3]).to_event(1)),
    "batches": normal_mean(likelihood=lambda mu: dist.Normal(mu, 1.0).expand([3])),
    "another likelihood": normal_mean(likelihood=lambda mu: dist.Cauchy(mu, 1.0)),
    "another use of it": normal_mean(likelihood=lambda mu: dist.Normal(jnp.exp(mu), 1.0)),
    "scaled": normal_mean(scale=2.0),
    "scaled more": normal_mean(scale=3.0),
    "masked": normal_mean(mask=np.array([True, False, True])),
    "masked elsewhere": normal_mean(mask=np.array([True, True, False])),
    "masked away": normal_mean(mask=False),
    "more": normal_mean(factor=lambda mu: -(mu**2)),
    "more of it": normal_mean(factor=lambda mu: -(mu**4)),
    "mixture": normal_mean(
        likelihood=lambda mu: dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.5, 0.5])), dist.Normal(mu + jnp.array([0.0, 1.0]), 1.0)
        )
    ),
    "another mixture": normal_mean(
        likelihood=lambda mu: dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.4, 0.6])), dist.Normal(mu + jnp.array([0.0, 1.0]), 1.0)
        )
    ),
    "unchecked": normal_mean(lambda: dist.Normal(0.0, 1.0, validate_args=False)),
    "checked": normal_mean(lambda: dist.Normal(0.0, 1.0, validate_args=True)),
    "circular": normal_mean(lambda: dist.VonMises(0.0, 1.0)),
    "reparametrised": handlers.reparam(
        normal_mean(lambda: dist.Normal(1.0, 2.0)), config={"mu": LocScaleReparam(0.0)}
    ),
    "reparametrised otherwise": handlers.reparam(
        normal_mean(lambda: dist.Normal(1.0, 2.0)), config={"mu": LocScaleReparam(0.5)}
    ),
}


def test_two_models_have_the_same_outline_only_if_they_compute_the_same():
    seen = {name: computations(model) for name, model in MODELS.items()}
    assert None not in [outline for outline, _ in seen.values()]
    for one, (outline, whole) in seen.items():
        assert computations(MODELS[one]) == (outline, whole)
        for other, (its_outline, its_whole) in seen.items():
            if outline == its_outline:
                assert whole == its_whole, (one, other)
    # And outlines are not the same as a rule.
    assert len({whole for _, whole in seen.values()}) >= len(MODELS) - 4


def test_two_models_have_the_same_outline_of_a_simulation_only_if_they_draw_the_same():
    refused = [name for name in MODELS if name.startswith(("flat", "more", "masked", "scaled"))]
    models = {name: model for name, model in MODELS.items() if name not in refused}
    models["drawn otherwise"] = drawn_otherwise(1.0)
    models["drawn otherwise, wider"] = drawn_otherwise(2.0)
    seen = {name: computations(model, use="simulate") for name, model in models.items()}
    known = {name: pair for name, pair in seen.items() if pair[0] is not None}
    assert {"plain", "uniform", "drawn otherwise", "drawn otherwise, wider"} <= {*known}
    for one, (outline, whole) in known.items():
        for other, (its_outline, its_whole) in known.items():
            if outline == its_outline:
                assert whole == its_whole, (one, other)
    assert len({outline for outline, _ in known.values()}) >= len(known) - 4


def drawn_otherwise(width):
    """Return a model whose density does not show how data are drawn."""

    def model(y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, width if y is None else 1.0).expand([3]), obs=y)

    return model


def test_the_order_of_sites_counts():
    def model(first, second):
        def of(y=None):
            z = {name: numpyro.sample(name, dist.Normal(0.0, 1.0)) for name in (first, second)}
            numpyro.sample("y", dist.Normal(z["a"] + z["b"], 1.0), obs=y)

        return of

    assert computations(model("a", "b"))[0] != computations(model("b", "a"))[0]


class Tilted(dist.Normal):
    def log_prob(self, value):
        return super().log_prob(value) + NUMBER * value


class Shifted(transforms.ExpTransform):
    def log_abs_det_jacobian(self, x, y, intermediates=None):
        return NUMBER * x


class Above(constraints.Constraint):
    event_dim = 0

    def __call__(self, x):
        return x > 0

    def tree_flatten(self):
        return (), ((), {})


@transforms.biject_to.register(Above)
def _to_above(constraint):
    return Shifted()


@jax.custom_jvp
def kinked(x):
    return jnp.abs(x)


@kinked.defjvp
def _kinked_jvp(primals, tangents):
    return kinked(primals[0]), NUMBER * tangents[0]


def in_a_loop(y=None):
    def step(before, y):
        x = numpyro.sample("x", dist.Normal(NUMBER * before, 1.0))
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)
        return x, None

    scan(step, 0.0, y, length=3)


OWN = {
    "distribution": normal_mean(lambda: Tilted(0.0, 1.0)),
    "distribution inside": normal_mean(lambda: Tilted(0.0, 1.0).expand([])),
    "transform": normal_mean(
        lambda: dist.TransformedDistribution(dist.Normal(0.0, 1.0), Shifted())
    ),
    "constraint": normal_mean(lambda: dist.ImproperUniform(Above(), (), ())),
    "derivative": normal_mean(factor=lambda mu: -kinked(mu)),
    "loop": in_a_loop,
    "callback": normal_mean(
        factor=lambda mu: jax.pure_callback(
            lambda x: np.asarray(-NUMBER * x**2), jax.ShapeDtypeStruct((), mu.dtype), mu
        )
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_code_of_the_users_that_runs_later_is_traced_whole(name):
    assert computations(OWN[name])[0] is None


@pytest.mark.parametrize("name", [name for name in OWN if name != "callback"])
def test_a_change_of_it_is_seen(name, monkeypatch):
    model = vicheck.from_numpyro(OWN[name], y=Y, observed=("y",))
    with double_precision():
        before = model.program.computation("log_density", model.data)
        assert model.program.computation("log_density", model.data) == before
        monkeypatch.setitem(globals(), "NUMBER", 2.0)
        assert model.program.computation("log_density", model.data) != before


def test_a_transform_of_the_users_for_a_constraint_of_numpyro_is_traced_whole(monkeypatch):
    assert computations(MODELS["circular"])[0] is not None
    kind = type(constraints.circular)
    monkeypatch.setitem(transforms.biject_to._registry, kind, lambda constraint: Shifted())
    assert computations(MODELS["circular"])[0] is None


def test_settings_and_handlers_around_the_call_are_seen():
    constant = normal_mean(likelihood=lambda mu: dist.Normal(0.0, 1.0))
    model = vicheck.from_numpyro(constant, y=Y, observed=("y",))
    with double_precision():
        before = model.program.computation("log_density", model.data)
        with handlers.scale(scale=2.0):
            assert model.program.computation("log_density", model.data) != before
        with numpyro.validation_enabled(not dist.Distribution._validate_args):
            assert model.program.computation("log_density", model.data) != before
        assert model.program.computation("log_density", model.data) == before


def test_a_model_that_was_seen_before_is_not_traced_whole_again(monkeypatch):
    model = vicheck.from_numpyro(normal_mean(), y=Y, observed=("y",))
    first = model.log_density([0.5])

    def fail(*args):
        pytest.fail("it is traced whole")

    monkeypatch.setattr(tracing, "trace", fail)
    assert model.log_density([0.5]) == first
    again = vicheck.from_numpyro(normal_mean(), y=Y, observed=("y",))
    assert again.log_density([0.5]) == first


def test_a_simulation_that_was_seen_before_is_not_traced_whole_again(monkeypatch):
    def seen(function):
        model = vicheck.from_numpyro(function, y=Y, observed=("y",))
        with double_precision():
            return model.program.computation("simulate", model.data)

    first = seen(drawn_otherwise(1.0))
    assert seen(drawn_otherwise(2.0)) != first
    monkeypatch.setattr(tracing, "trace", lambda *args: pytest.fail("it is traced whole"))
    assert seen(drawn_otherwise(1.0)) == first
