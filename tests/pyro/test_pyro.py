import random
import warnings

import numpy as np
import pytest
from scipy import stats

pyro = pytest.importorskip("pyro", reason="make test-large installs Pyro and torch")

import pyro.distributions as dist  # noqa: E402
import torch  # noqa: E402
from pyro import poutine  # noqa: E402
from pyro.infer import SVI, Trace_ELBO, autoguide  # noqa: E402
from pyro.infer.importance import psis_diagnostic  # noqa: E402
from torch.distributions import constraints  # noqa: E402

from vicheck.adapters.numpyro.models import from_numpyro  # noqa: E402
from vicheck.adapters.pyro import guides as adapter  # noqa: E402
from vicheck.checking.libraries import check_pyro  # noqa: E402
from vicheck.checking.run import check_draws  # noqa: E402
from vicheck.errors import ModelError  # noqa: E402
from vicheck.paper import models  # noqa: E402

SIGMA, Y = models.EIGHT_SCHOOLS["sigma"], models.EIGHT_SCHOOLS["y"]
DESIGN = np.random.default_rng(1).normal(size=(30, 3))
RESPONSE = DESIGN @ [1.0, -2.0, 0.5] + np.random.default_rng(2).normal(size=30)


@pytest.fixture(autouse=True)
def _pyro_in_float64():
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    pyro.set_rng_seed(1)
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)


# ---- models and guides


def centred(sigma, y=None):
    mu = pyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(torch.tensor(5.0)))
    theta = pyro.sample("theta", dist.Normal(mu, tau).expand([8]).to_event(1))
    pyro.sample("y", dist.Normal(theta, sigma).to_event(1), obs=y)


def noncentred(sigma, y=None):
    mu = pyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(torch.tensor(5.0)))
    raw = pyro.sample("theta_raw", dist.Normal(0.0, 1.0).expand([8]).to_event(1))
    theta = pyro.deterministic("theta", mu + tau * raw)
    pyro.sample("y", dist.Normal(theta, sigma).to_event(1), obs=y)


def linear(X, y=None):  # noqa: N803
    beta = pyro.sample("beta", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    sigma = pyro.sample("sigma", dist.Gamma(0.5, 0.5))
    pyro.sample("y", dist.Normal(X @ beta, sigma).to_event(1), obs=y)


def handwritten(sigma, y=None):
    """A guide of the centred schools, in an order of its own."""
    scale = pyro.param("theta_scale", torch.full((8,), 3.0), constraint=constraints.positive)
    loc = pyro.param("theta_loc", torch.full((8,), 4.0))
    pyro.sample("theta", dist.Normal(loc, scale).to_event(1))
    pyro.sample("tau", dist.LogNormal(pyro.param("tau_loc", torch.tensor(1.0)), 0.6))
    pyro.sample("mu", dist.Normal(pyro.param("mu_loc", torch.tensor(4.0)), 3.0))


def normal(y=None):
    x = pyro.sample("x", dist.Normal(0.0, 1.0))
    pyro.sample("y", dist.Normal(x, 1.0), obs=y)


def positive(y=None):
    scale = pyro.sample("scale", dist.Exponential(1.0))
    pyro.sample("y", dist.Normal(0.0, scale), obs=y)


def fitted(model, guide, *args, steps=80, **kwargs):
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
    for _ in range(steps):
        svi.step(*args, **kwargs)
    return guide


def schools_data():
    return torch.tensor(SIGMA), torch.tensor(Y)


def regression_data():
    return torch.tensor(DESIGN), torch.tensor(RESPONSE)


def drawn(model, guide, *args, num_draws=2000, seed=3, **kwargs):
    return adapter.draws_of_guide(model, guide, args, kwargs, num_draws, seed)


def at_optimum_but(**changed):
    """Fit three normals and a log-normal by hand: q is right, but for what is changed."""

    def model(x):
        pyro.sample("z", dist.Normal(x, 1.0).to_event(1))
        pyro.sample("s", dist.LogNormal(0.0, 1.0))

    x = torch.tensor([1.0, 2.0, 3.0])
    ones, zero = torch.ones(4), torch.zeros(())
    exact = {"locs.z": x, "scales.z": ones[:3], "locs.s": zero, "scales.s": ones[0]}
    guide = autoguide.AutoNormal(model)
    guide(x)
    for name, value in (exact | changed).items():
        pyro.get_param_store()[f"AutoNormal.{name}"] = value
        kind, site = name.split(".")
        setattr(getattr(guide, kind), site, value)
    return check_pyro(model, guide, x, num_draws=1000)


@pytest.mark.parametrize(
    ("changed", "distance", "code"),
    [
        ({}, 0.0, "converged"),
        ({"locs.z": torch.tensor([1.0, 2.5, 3.0])}, 0.5, "gradient-not-zero"),
        ({"scales.s": torch.tensor(0.5)}, 0.75, "gradient-not-zero"),
    ],
)
def test_the_gradient_of_a_guide_says_how_far_it_is_from_its_optimum(changed, distance, code):
    checked = at_optimum_but(**changed)
    # In sds of q: a mean one half too high has gradient -1/2; the log of a scale s has 1 - s^2.
    assert checked.convergence.gradient.size == pytest.approx(distance, abs=0.15)
    assert code in {finding.code for finding in checked.findings}
    assert str(checked.verdict.converged) == ("yes" if code == "converged" else "no")
    if changed:
        assert checked.convergence.gradient.worst.startswith(f"AutoNormal.{next(iter(changed))}")


def test_a_guide_without_slopes_or_parameters_has_no_gradient():
    def in_steps(y=None):
        rate = pyro.param("rate", torch.tensor(2.0), constraint=constraints.positive)
        pyro.sample("x", NoSlope(0.3, rate))

    y = torch.tensor(1.0)
    fitted(normal, in_steps, steps=2, y=y)
    assert check_pyro(normal, in_steps, y=y, num_draws=200).convergence is None
    pyro.clear_param_store()
    mode = fitted(normal, autoguide.AutoLaplaceApproximation(normal), y=y)
    laplace = mode.laplace_approximation(y=y)
    assert check_pyro(normal, laplace, y=y, num_draws=200).convergence is None


class NoSlope(dist.Normal):
    has_rsample = False

    def rsample(self, sample_shape=()):
        raise NotImplementedError


def unconstrained(values, positive, model):
    """Return draws as z of the native model, whose only constraint is that one is positive."""
    columns = {name: np.reshape(array, (len(array), -1)) for name, array in values.items()}
    columns[positive] = np.log(columns[positive])
    return np.hstack([columns[name] for name, _ in model.program.layout])


def log_q_of_automatic_guide(guide, values, sites):
    """Return scipy's density of an automatic guide, on its own unconstrained vector."""
    columns = {name: np.reshape(values[name], (len(values[name]), -1)) for name in sites}
    for name in ("tau", "sigma"):
        if name in columns:
            columns[name] = np.log(columns[name])
    z = np.hstack([columns[name] for name in sites])
    loc, scale = guide.loc.detach().numpy(), guide.scale.detach().numpy()
    factor = np.diag(scale)
    if isinstance(guide, autoguide.AutoMultivariateNormal):
        factor = scale[:, None] * guide.scale_tril.detach().numpy()
    return stats.multivariate_normal.logpdf(z, loc, factor @ factor.T)


# ---- the numbers


@pytest.mark.parametrize("kind", ["AutoDiagonalNormal", "AutoMultivariateNormal"])
@pytest.mark.parametrize("case", ["centred", "noncentred", "linear"])
def test_khat_is_that_of_the_same_q_checked_natively(case, kind):
    if case == "linear":
        model, args, positive = linear, regression_data(), "sigma"
        native = from_numpyro(models.linear, DESIGN, RESPONSE)
    else:
        model = {"centred": centred, "noncentred": noncentred}[case]
        args, positive = schools_data(), "tau"
        native = from_numpyro(getattr(models, f"eight_schools_{case}"), SIGMA, Y)
    guide = fitted(model, getattr(autoguide, kind)(model), *args)
    draws = drawn(model, guide, *args)
    latent = {name: draws.values[name] for name in guide.prototype_trace.stochastic_nodes}
    log_p = native.log_density(unconstrained(latent, positive, native))
    log_q = log_q_of_automatic_guide(guide, draws.values, list(latent))
    np.testing.assert_allclose(draws.log_p - draws.log_q, log_p - log_q, rtol=0, atol=1e-9)
    ours = check_pyro(model, guide, *args, num_draws=2000, seed=3)
    theirs = check_draws(latent, log_p, log_q)
    assert ours.khat == pytest.approx(theirs.khat, abs=1e-6)
    assert np.mean(ours.log_ratios) == pytest.approx(np.mean(theirs.log_ratios), abs=1e-9)
    assert ours.title == f"{kind} fit of {native.dim} parameters (Pyro)"
    assert not ours.notes


def test_a_handwritten_guide_against_scipy():
    args = schools_data()
    guide = fitted(centred, handwritten, *args)
    draws = drawn(centred, guide, *args)
    store = {name: value.detach().numpy() for name, value in pyro.get_param_store().items()}
    values = draws.values
    log_q = (
        stats.norm.logpdf(values["theta"], store["theta_loc"], store["theta_scale"]).sum(axis=1)
        + stats.lognorm.logpdf(values["tau"], 0.6, scale=np.exp(store["tau_loc"]))
        + stats.norm.logpdf(values["mu"], store["mu_loc"], 3.0)
    )
    native = from_numpyro(models.eight_schools_centred, SIGMA, Y)
    log_p = native.log_density(unconstrained(values, "tau", native)) - np.log(values["tau"])
    np.testing.assert_allclose(draws.log_q, log_q, rtol=1e-10)
    np.testing.assert_allclose(draws.log_p, log_p, rtol=1e-10)
    assert draws.title == "handwritten fit of 10 parameters (Pyro)"


GUIDES = [
    "AutoNormal", "AutoDiagonalNormal", "AutoMultivariateNormal", "AutoLowRankMultivariateNormal",
    "AutoIAFNormal", "AutoStructured", "AutoGaussian", "AutoNormalMessenger",
]  # fmt: skip


@pytest.mark.parametrize("kind", GUIDES)
def test_the_mean_log_ratio_is_pyros_elbo_without_and_with_a_loop(kind, monkeypatch):
    args = regression_data()
    guide = fitted(linear, getattr(autoguide, kind)(linear), *args, steps=30)
    with torch.no_grad():
        losses = [Trace_ELBO().loss(linear, guide, *args) for _ in range(80)]
    one_by_one = adapter._drawn_one_by_one
    monkeypatch.setattr(adapter, "_drawn_one_by_one", None)
    draws = drawn(linear, guide, *args)
    monkeypatch.setattr(adapter, "_drawn_one_by_one", one_by_one)
    monkeypatch.setattr(adapter, "_drawn_together", None)
    looped = drawn(linear, guide, *args, num_draws=80)
    for each in (draws, looped):
        assert len(np.unique(each.values["beta"])) == 3 * each.num_draws
        ratios = each.log_p - each.log_q
        # Four standard errors: a false alarm in 16,000.
        error = np.hypot(np.std(losses) / np.sqrt(80), np.std(ratios) / np.sqrt(each.num_draws))
        assert abs(np.mean(ratios) + np.mean(losses)) < 4 * error


def test_pyros_own_diagnostic_fails_on_a_regression_and_on_schools():
    """It adds a plate of particles outside, which ``X @ beta`` and ``expand`` cannot take."""
    args = regression_data()
    guide = fitted(linear, autoguide.AutoNormal(linear), *args, steps=10)
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
        psis_diagnostic(linear, guide, *args, num_particles=100)
    args = schools_data()
    guide = fitted(centred, autoguide.AutoNormal(centred), *args, steps=10)
    with pytest.raises(RuntimeError, match="number of sizes provided"):
        psis_diagnostic(centred, guide, *args, num_particles=100)


def test_a_single_covariate_in_a_plate():
    """With one column shapes happen to broadcast in a batch, to a likelihood of n times n terms.

    Pyro's own diagnostic finds that when it packs tensors.
    """

    def model(X, y):  # noqa: N803
        beta = pyro.sample("beta", dist.Normal(0.0, 1.0).expand([1]).to_event(1))
        with pyro.plate("rows", len(X)):
            pyro.sample("y", dist.Normal(X @ beta, 1.0), obs=y)

    X, y = torch.tensor(DESIGN[:, :1]), torch.tensor(RESPONSE)  # noqa: N806
    precision = 1 + float((X[:, 0] ** 2).sum())
    loc, scale = float(X[:, 0] @ y) / precision, precision**-0.5

    def guide(X, y):  # noqa: N803
        pyro.sample("beta", dist.Normal(torch.tensor([loc]), 1.3 * scale).to_event(1))

    draws = drawn(model, guide, X, y)
    beta = draws.values["beta"]
    log_p = stats.norm.logpdf(RESPONSE, beta * DESIGN[:, 0], 1.0).sum(axis=1)
    log_p += stats.norm.logpdf(beta[:, 0])
    np.testing.assert_allclose(draws.log_p, log_p, rtol=1e-12)
    with pytest.raises(ValueError, match="Error while packing tensors at site 'y'"):
        psis_diagnostic(model, guide, X, y, num_particles=100)


def test_control_flow_on_values_is_looped_over():
    def model(y=None):
        x = pyro.sample("x", dist.Normal(0.0, 1.0))
        scale = 1.0 if x > 0 else 2.0
        pyro.sample("y", dist.Normal(x, scale), obs=y)

    def guide(y=None):
        pyro.sample("x", dist.Normal(0.5, 1.0))

    draws = drawn(model, guide, torch.tensor(1.0), num_draws=50)
    x = draws.values["x"]
    expected = stats.norm.logpdf(x) + stats.norm.logpdf(1.0, x, np.where(x > 0, 1.0, 2.0))
    np.testing.assert_allclose(draws.log_p, expected, rtol=1e-12)


def test_batches_that_give_other_numbers_are_not_used(monkeypatch):
    together = adapter._drawn_together

    def wrong(pair, size):
        batch = together(pair, size)
        return batch._replace(log_p={name: 1.001 * part for name, part in batch.log_p.items()})

    def guide(y=None):
        pyro.sample("x", dist.Normal(0.5, 1.0))

    expected = drawn(normal, guide, torch.tensor(1.0), num_draws=20)
    monkeypatch.setattr(adapter, "_drawn_together", wrong)
    draws = drawn(normal, guide, torch.tensor(1.0), num_draws=20)
    x = draws.values["x"]
    np.testing.assert_allclose(draws.log_p, stats.norm.logpdf(x) + stats.norm.logpdf(1.0, x))
    assert not np.array_equal(draws.log_p, expected.log_p)


def test_plates_constraints_and_modules():
    def model(y):
        weights = pyro.sample("weights", dist.Dirichlet(torch.ones(3)))
        with pyro.plate("groups", 3):
            loc = pyro.sample("loc", dist.Normal(0.0, 3.0))
            with pyro.plate("rows", 4):
                pyro.sample("y", dist.Normal(loc, 1.0), obs=y)
        pyro.deterministic("mean", (weights * loc).sum())

    class Guide(pyro.nn.PyroModule):
        def __init__(self):
            super().__init__()
            self.centre = pyro.nn.PyroParam(torch.zeros(3))

        def forward(self, y):
            with pyro.plate("groups", 3):
                pyro.sample("loc", dist.Normal(self.centre, 0.5))
            pyro.sample("weights", dist.Dirichlet(torch.tensor([2.0, 3.0, 4.0])))

    y, guide = torch.arange(12.0).reshape(4, 3) / 6, Guide()
    draws = drawn(model, guide, y, num_draws=100)
    weights, loc = draws.values["weights"], draws.values["loc"]
    log_p = stats.dirichlet.logpdf(weights.T, np.ones(3)) + stats.norm.logpdf(loc, 0.0, 3.0).sum(1)
    log_p += stats.norm.logpdf(y.numpy(), loc[:, None], 1.0).sum((1, 2))
    log_q = stats.dirichlet.logpdf(weights.T, [2.0, 3.0, 4.0])
    log_q += stats.norm.logpdf(loc, 0.0, 0.5).sum(1)
    np.testing.assert_allclose(draws.log_p, log_p, rtol=1e-10)
    np.testing.assert_allclose(draws.log_q, log_q, rtol=1e-10)
    np.testing.assert_allclose(draws.values["mean"], (weights * loc).sum(1), rtol=1e-12)
    assert draws.title == "Guide fit of 5 parameters (Pyro)"
    assert not pyro.get_param_store().keys()


@pytest.mark.parametrize("made", ["_drawn_together", "_drawn_one_by_one"])
def test_memory_is_bounded(made, monkeypatch):
    args = regression_data()
    guide = fitted(linear, autoguide.AutoNormal(linear), *args, steps=10)
    monkeypatch.setattr(adapter, "TORCH_BATCHES", adapter.TORCH_BATCHES._replace(numbers=2000))
    monkeypatch.setattr("vicheck.evaluation.sizes._KEPT_BYTES", 8 * 4 * 130)
    sizes = []
    make = getattr(adapter, made)
    if made == "_drawn_one_by_one":
        monkeypatch.setattr(adapter, "_drawn_together", None)
    monkeypatch.setattr(adapter, made, lambda *given: sizes.append(given[-1]) or make(*given))
    draws = drawn(linear, guide, *args, num_draws=200)
    assert sum(sizes) == 200
    assert max(sizes) < 60
    assert len(np.unique(draws.log_q)) == 200
    assert draws.values["beta"].shape == (130, 3)
    assert draws.values["sigma"].shape == (130,)


def test_outside_the_support_the_density_is_zero():
    def guide(y=None):
        pyro.sample("scale", dist.Normal(0.5, 1.0))

    draws = drawn(positive, guide, torch.tensor(1.0))
    outside = draws.values["scale"] < 0
    assert outside.any()
    assert (draws.log_p[outside] == -np.inf).all()
    assert np.isfinite(draws.log_p[~outside]).all()


def test_nan_is_passed_on():
    def model():
        x = pyro.sample("x", dist.Normal(0.0, 1.0))
        pyro.factor("power", x.log())

    def guide():
        pyro.sample("x", dist.Normal(0.0, 1.0))

    draws = drawn(model, guide)
    np.testing.assert_array_equal(np.isnan(draws.log_p), draws.values["x"] < 0)


# ---- float32


def test_single_precision_is_batched_too(monkeypatch):
    torch.set_default_dtype(torch.float32)
    args = tuple(data.float() for data in regression_data())
    guide = fitted(linear, autoguide.AutoIAFNormal(linear), *args, steps=30)
    monkeypatch.setattr(adapter, "_drawn_one_by_one", None)
    draws = drawn(linear, guide, *args)
    sigma = draws.values["sigma"]
    mean = draws.values["beta"] @ DESIGN.T
    log_p = stats.norm.logpdf(RESPONSE, mean, sigma[:, None]).sum(axis=1)
    log_p += stats.norm.logpdf(draws.values["beta"]).sum(axis=1)
    log_p += stats.gamma.logpdf(sigma, 0.5, scale=2.0)
    np.testing.assert_allclose(draws.log_p, log_p, rtol=1e-4)
    assert not draws.notes


def test_single_precision_is_told_of():
    torch.set_default_dtype(torch.float32)
    y = torch.linspace(-1000.0, 1000.0, 1000)

    def model(y, whole):
        x = pyro.sample("x", dist.Normal(0.0, 1.0))
        law = dist.Normal(x, 10.0).expand([1000])
        pyro.sample("y", law.to_event(1) if whole else law, obs=y)

    def guide(y, whole):
        pyro.sample("x", dist.Normal(0.0, 0.3))

    draws = drawn(model, guide, y, True)
    (note,) = draws.notes
    assert "near -1.67e+06" in note or "near -1.7e+06" in note
    assert "about 0.2 nats only" in note
    assert "torch.set_default_dtype(torch.float64)" in note
    exact = drawn(model, guide, y, False)
    assert not exact.notes  # the terms of one site are added up in float64
    x = exact.values["x"]
    log_p = stats.norm.logpdf(x) + stats.norm.logpdf(y.numpy()[:, None], x, 10.0).sum(axis=0)
    assert np.abs(exact.log_p - log_p).max() < 0.05 < np.abs(draws.log_p - log_p).max()


# ---- what is left alone


def test_the_same_seed_gives_the_same_bits():
    args = regression_data()
    guide = fitted(linear, autoguide.AutoNormal(linear), *args, steps=10)
    first, second = (drawn(linear, guide, *args) for _ in range(2))
    other = drawn(linear, guide, *args, seed=4)
    np.testing.assert_array_equal(first.log_p, second.log_p)
    np.testing.assert_array_equal(first.values["beta"], second.values["beta"])
    assert not np.array_equal(first.log_p, other.log_p)


def test_torch_and_pyro_are_left_as_they_were():
    args = regression_data()
    guide = fitted(linear, autoguide.AutoNormal(linear), *args, steps=10).eval()
    before = pyro.get_param_store().get_state()["params"]
    values = {name: value.clone() for name, value in before.items()}
    state, state_of_numpy, state_of_python = (
        torch.get_rng_state(), np.random.get_state()[1], random.getstate(),  # noqa: NPY002
    )  # fmt: skip
    drawn(linear, guide, *args, num_draws=10)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(np.random.get_state()[1], state_of_numpy)  # noqa: NPY002
    assert random.getstate() == state_of_python
    after = pyro.get_param_store().get_state()["params"]
    assert after.keys() == values.keys()
    assert all(after[name] is before[name] for name in values)
    assert all(torch.equal(after[name], values[name]) for name in values)
    assert torch.is_grad_enabled()
    assert dist.is_validation_enabled()
    assert not guide.training


def test_a_module_brings_its_parameters_without_the_store():
    args = regression_data()
    guide = fitted(linear, autoguide.AutoNormal(linear), *args, steps=10)
    expected = drawn(linear, guide, *args, num_draws=10)
    pyro.clear_param_store()
    np.testing.assert_array_equal(drawn(linear, guide, *args, num_draws=10).log_q, expected.log_q)
    assert not pyro.get_param_store().keys()


def test_notes_on_scales_and_parameters_of_the_model():
    def model(y):
        scale = pyro.param("scale", torch.tensor(1.0))
        x = pyro.sample("x", dist.Normal(0.0, scale))
        with poutine.scale(scale=0.5):
            pyro.sample("y", dist.Normal(x, 1.0), obs=y)

    def guide(y):
        pyro.sample("x", dist.Normal(0.0, 1.0))

    fitted(model, guide, torch.tensor(1.0), steps=1)
    draws = drawn(model, guide, torch.tensor(1.0), num_draws=10)
    assert "Site 'y' of the model is scaled by 0.5" in draws.notes[0]
    assert "parameters of its own (scale)" in draws.notes[1]


# ---- what cannot be used


def subsampled(y, size=2):
    x = pyro.sample("x", dist.Normal(0.0, 1.0))
    with pyro.plate("rows", len(y), subsample_size=size) as rows:
        pyro.sample("y", dist.Normal(x, 1.0), obs=y[rows])


def discrete(y):
    kind = pyro.sample("kind", dist.Bernoulli(0.5))
    x = pyro.sample("x", dist.Normal(kind, 1.0))
    pyro.sample("y", dist.Normal(x, 1.0), obs=y)


def vector(y):
    x = pyro.sample("x", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    pyro.sample("y", dist.Normal(x.sum(), 1.0), obs=y)


def of_x(y, size=None):
    pyro.sample("x", dist.Normal(0.0, 1.0))


def of_nothing(y):
    pass


def of_more(y):
    of_x(y)
    pyro.sample("z", dist.Normal(0.0, 1.0))


def of_hidden(y):
    of_x(y)
    pyro.sample("noise", dist.Normal(0.0, 1.0), infer={"is_auxiliary": True})


def with_parameter(y):
    pyro.sample("x", dist.Normal(pyro.param("loc", torch.tensor(0.0)), 1.0))


def point(y):
    pyro.sample("x", dist.Delta(torch.tensor(0.3)))


def changing(y):
    x = pyro.sample("x", dist.Normal(0.0, 1.0))
    if x > -1.5:
        pyro.sample("y", dist.Normal(x, 1.0), obs=y)


def after_svi(kind, model=normal):
    return fitted(model, getattr(autoguide, kind)(model), torch.tensor(1.0), steps=2)


ERRORS = {
    "misses a site": (normal, of_nothing, "does not draw the model's latent site 'x': .* nothing"),
    "one site more": (normal, of_more, r"draws site 'z', which is not a latent variable .* has x"),
    "auxiliary": (normal, of_hidden, "draws 2 numbers for 1 parameters.*auxiliary noise"),
    "AutoDelta": (normal, lambda: after_svi("AutoDelta"), r"a point \(Delta\) .* at x"),
    "Laplace": (
        normal,
        lambda: after_svi("AutoLaplaceApproximation"),
        r"check what guide.laplace_approximation\(...\) returns",
    ),
    "Delta": (normal, point, "draws 0 numbers for 1 parameters"),
    "never run either": (
        normal,
        lambda: autoguide.AutoNormalMessenger(normal),
        "AutoNormalMessenger has never been run",
    ),
    "never run": (normal, lambda: autoguide.AutoNormal(normal), "AutoNormal has never been run"),
    "not fitted": (normal, with_parameter, "parameter 'loc' of the guide is not in Pyro's"),
    "subsample": (subsampled, of_x, "plate 'rows' of the model takes a subsample of 2 of 10"),
    "discrete": (discrete, of_x, "site 'kind' of the model is a discrete latent variable"),
    "discrete in the guide": (normal, discrete, "site 'kind' of the guide is a discrete"),
    "shape": (vector, of_x, r"site 'x' has shape \(3,\) in the model, but the guide draws \(\)"),
    "scaled": (normal, poutine.scale(of_x, scale=0.1), "'x' of the guide is scaled by 0.1"),
    "no latent": (of_nothing, of_nothing, "the model has no latent variables"),
    "raises": (lambda y: 1 / 0, of_x, "cannot be run with these arguments: ZeroDivisionError"),
    "changing": (changing, of_x, "the sites y are not there in every draw"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    model, guide, message = ERRORS[case]
    if getattr(guide, "__name__", "") == "<lambda>":
        guide = guide()
    y = torch.zeros(10) if model is subsampled else torch.tensor(1.0)
    with pytest.raises(ModelError, match=message):
        drawn(model, guide, y, num_draws=100)
    if case == "not fitted":
        assert not pyro.get_param_store().keys()


def test_a_subsample_that_is_an_argument_can_be_all_data():
    draws = drawn(subsampled, of_x, torch.zeros(10), size=None, num_draws=10)
    x = draws.values["x"]
    expected = stats.norm.logpdf(x) + 10 * stats.norm.logpdf(x)
    np.testing.assert_allclose(draws.log_p, expected, rtol=1e-12)


def test_laplace_approximation():
    args = regression_data()
    guide = fitted(linear, autoguide.AutoLaplaceApproximation(linear), *args)
    draws = drawn(linear, guide.laplace_approximation(*args), *args, num_draws=500)
    assert np.isfinite(draws.log_p - draws.log_q).all()


def test_arguments():
    with pytest.raises(TypeError, match="guide must be a Pyro program, got NoneType"):
        drawn(normal, None)
    with pytest.raises(ValueError, match="num_draws must be a positive integer, got 0"):
        drawn(normal, of_x, torch.tensor(1.0), num_draws=0)


def test_no_warning_of_torch_reaches_the_user():
    args = regression_data()
    guide = fitted(linear, autoguide.AutoRegressiveMessenger(linear), *args, steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(linear, guide, *args, num_draws=10)
