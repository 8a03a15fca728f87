import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from vicheck import mixing, nuts
from vicheck.adapters.log_density import from_log_density
from vicheck.adapters.numpyro.models import from_numpyro
from vicheck.checking.run import check
from vicheck.errors import ArgumentError, ModelError, OutOfTimeError
from vicheck.nuts import reference
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred, eight_schools_noncentred
from vicheck.results.reference import Reference
from vicheck.runtime.compiling import num_compiled
from vicheck.vi.fitting import fit

# By quadrature; the paper's priors.
EXACT_MEANS = {
    **{f"theta[{i}]": m for i, m in enumerate([6.212, 4.940, 3.927, 4.757, 3.615])},
    **{"theta[5]": 4.043, "theta[6]": 6.297, "theta[7]": 4.854, "mu": 4.397, "tau": 3.598},
}


@pytest.fixture(scope="module")
def schools():
    return from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)


@pytest.fixture(scope="module")
def schools_reference(schools):
    return reference(schools)


@pytest.fixture(scope="module")
def gaussian():
    mean, sd = jnp.array([1.0, -20.0, 0.0]), jnp.array([0.1, 5.0, 1.0])
    return from_log_density(lambda x: -0.5 * jnp.sum(((x - mean) / sd) ** 2), np.zeros(3))


def made_up(draws, num_divergent=0, **rest):
    """Return a reference with the given draws of x, shape (chains, draws)."""
    named = {"x": np.asarray(draws, float), **rest}
    rhat, ess, mcse = (
        {name: of(array[..., None]).item() for name, array in named.items()}
        for of in (mixing.rhat, mixing.bulk_ess, mixing.mcse)
    )
    return Reference(named["x"][..., None], named, rhat, ess, mcse, num_divergent)


def test_moments_of_a_gaussian(gaussian):
    # Six comparisons at 4 standard errors: a false alarm in 1 of 2600 seeds.
    found = reference(gaussian).moments
    assert list(found.index) == ["x[0]", "x[1]", "x[2]"]
    assert list(found.columns) == ["mean", "sd", "mcse", "rhat", "ess", "tail_ess"]
    mean, sd = np.array([1.0, -20.0, 0.0]), np.array([0.1, 5.0, 1.0])
    np.testing.assert_array_less(np.abs(found["mean"] - mean), 4.0 * found["mcse"])
    # The error of an sd is 1 / sqrt(2 ess) of it; 1000 draws at least are effective for it.
    np.testing.assert_allclose(found["sd"], sd, rtol=4.0 / np.sqrt(2.0 * 1000.0))


def test_eight_schools_means_agree_with_quadrature(schools_reference):
    # Ten comparisons at 4 standard errors: a false alarm in 1 of 1600 seeds.
    found = schools_reference.moments
    for name, exact in EXACT_MEANS.items():
        assert abs(found["mean"][name] - exact) < 4.0 * found["mcse"][name], name
    assert schools_reference.reliable
    assert schools_reference.caution == ""


def test_shapes_and_derived_quantities(schools_reference):
    assert schools_reference.z.shape == (4, 1000, 10)
    assert schools_reference.z.dtype == np.float64
    shapes = {name: array.shape for name, array in schools_reference.draws.items()}
    assert shapes == {
        "mu": (4, 1000),
        "tau": (4, 1000),
        "theta_raw": (4, 1000, 8),
        "theta": (4, 1000, 8),
    }
    draws = schools_reference.draws
    theta = draws["mu"][..., None] + draws["tau"][..., None] * draws["theta_raw"]
    np.testing.assert_allclose(draws["theta"], theta, rtol=1e-12)
    np.testing.assert_allclose(draws["tau"], np.exp(schools_reference.z[..., 1]), rtol=1e-12)


def test_the_same_seed_gives_the_same_bits(gaussian):
    one, same, other = (reference(gaussian, seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.z, same.z)
    assert one.rhat == same.rhat
    assert not np.isin(one.z, other.z).any()
    assert not np.isin(one.z[0], one.z[1]).any()


def test_the_callers_precision_is_left_alone(gaussian):
    before = jax.config.jax_enable_x64
    found = reference(gaussian)
    assert found.z.dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(1).dtype == (jnp.float64 if before else jnp.float32)


def test_new_data_does_not_compile_again(schools, schools_reference):
    compiled = num_compiled()
    found = reference(schools, {"y": EIGHT_SCHOOLS["y"] + 10.0})
    assert num_compiled() == compiled
    shift = found.moments["mean"]["theta[0]"] - schools_reference.moments["mean"]["theta[0]"]
    assert 3.0 < shift < 10.0


def test_the_centred_schools_diverge_and_are_not_reliable():
    found = reference(from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS))
    assert found.num_divergent > 4
    assert not found.reliable
    assert f"{found.num_divergent} of 4000 transitions diverged" in found.caution
    assert "Caution" in str(found)


def test_starts_lie_where_the_density_is_finite():
    half = from_log_density(lambda x: jnp.sum(jnp.log(x - 1.0) - x), np.zeros(2))
    starts = nuts._find_starts(half, 4, np.random.default_rng(0))
    assert starts.shape == (4, 2)
    assert (starts > 1.0).all()
    assert (starts < 2.0).all()


def test_quantities_that_are_constant_have_no_rhat(rng):
    found = made_up(rng.normal(size=(4, 1000)), c=np.ones((4, 1000)))
    assert np.isnan(found.rhat["c"])
    assert np.isnan(found.ess["c"])
    assert found.reliable
    assert found.moments["mcse"]["c"] == 0.0


def test_diagnostics_agree_with_arviz(schools_reference, rng):
    import arviz

    slow = np.cumsum(rng.normal(size=(4, 500)), axis=1)
    for draws in (schools_reference.draws["tau"], rng.normal(size=(4, 500)), slow):
        found = made_up(draws)
        assert found.rhat["x"] == pytest.approx(arviz.rhat(draws), rel=1e-9)
        assert found.ess["x"] == pytest.approx(arviz.ess(draws, method="bulk"), rel=0.03)
        mcse = arviz.mcse(draws, method="mean")
        assert found.moments["mcse"]["x"] == pytest.approx(mcse, rel=0.03)


CAUTIONS = {
    "fine": (made_up, ""),
    "few draws": (lambda normal: made_up(normal[:, :60]), r"smallest ESS is \d+, below 400"),
    "chains apart": (
        lambda normal: made_up(normal + np.arange(4)[:, None]),
        r"largest Rhat is \d\.\d+, above 1.01",
    ),
    "one chain wider": (
        lambda normal: made_up(normal * np.array([1, 1, 1, 4])[:, None]),
        r"largest Rhat",
    ),
    "divergent": (lambda normal: made_up(normal, 5), "5 of 4000 transitions diverged"),
    "few divergent": (lambda normal: made_up(normal, 4), ""),
    "stuck": (lambda normal: made_up(np.ones((4, 1000))), "largest Rhat is nan"),
    "stuck apart": (lambda normal: made_up(np.ones((4, 1000)) * np.arange(4)[:, None]), "Rhat"),
    "NaN": (lambda normal: made_up(np.where(normal > 3.0, np.nan, normal)), "Rhat is nan"),
    "constant beside": (lambda normal: made_up(normal, c=np.ones((4, 1000))), ""),
}


@pytest.mark.parametrize("case", CAUTIONS)
def test_what_speaks_against_the_draws(case, rng):
    make, message = CAUTIONS[case]
    found = make(rng.normal(size=(4, 1000)))
    assert found.reliable == (not message)
    assert re.search(message, found.caution)
    assert ("Caution" in str(found)) == bool(message)
    assert "4 chains of" in repr(found)


ERRORS = {
    "num_draws": ({"num_draws": 3}, ValueError, "num_draws must be at least 4, got 3"),
    "num_warmup": ({"num_warmup": 0}, ValueError, "num_warmup must be at least 1, got 0"),
    "num_chains": ({"num_chains": 0}, ValueError, "num_chains must be at least 1, got 0"),
    "budget": ({"budget": 0.0}, ValueError, "budget must be a positive number of seconds, got 0.0"),
    "target_accept": ({"target_accept": 1.0}, ValueError, "target_accept must lie between 0 and 1"),
    "unknown data": ({"data": {"w": 1.0}}, ModelError, "data has w"),
    "NaN": ({"data": {"y": np.full(8, np.nan)}}, ModelError, "y must be finite"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case, schools):
    options, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        reference(schools, **options)


def test_missing_data_is_named():
    model = from_numpyro(eight_schools_noncentred, sigma=EIGHT_SCHOOLS["sigma"])
    with pytest.raises(ModelError, match="no data for y"):
        reference(model)


def test_a_density_that_is_nowhere_finite():
    def model(y=None):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Uniform(0.0, scale).expand([2]), obs=y)

    with pytest.raises(ModelError, match=r"only 0 of 200 random starts.*site 'y'"):
        reference(from_numpyro(model, y=np.array([0.5, 50.0])), num_chains=2)


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (3, {}, TypeError, "model must be a vicheck Model, got int: make one with"),
        (None, {"seed": -1}, ValueError, "seed must be an integer from 0 on or a JAX key, got -1"),
        (None, {"num_chains": "4"}, TypeError, "num_chains must be an integer, got '4'"),
    ],
)
def test_arguments_that_are_refused_are_named(model, options, error, message):
    standard = from_log_density(lambda x: -(x**2), 0.0)
    with pytest.raises(error, match=message):
        reference(standard if model is None else model, **options)


def test_starts_and_scales_come_from_a_fit(gaussian):
    """Its sds of 0.1 to 5, and means up to 20, need next to no warm-up then."""
    fitted = fit(gaussian)
    sampled = reference(gaussian, num_draws=300, num_warmup=50, around=fitted, seed=1)
    assert not sampled.caution
    np.testing.assert_allclose(sampled.z.std(axis=(0, 1)), [0.1, 5.0, 1.0], rtol=0.2)
    from_nothing = reference(gaussian, num_draws=300, num_warmup=50, seed=1)
    assert sampled.num_gradients < from_nothing.num_gradients


def test_ess_in_the_tails_agrees_with_arviz(rng):
    import arviz

    noise = rng.normal(size=(4, 500))
    walk = np.cumsum(0.3 * rng.normal(size=(4, 500)), axis=1)
    for draws in (noise, walk, np.exp(walk)):
        found = float(mixing.tail_ess(draws[..., None])[0])
        assert found == pytest.approx(arviz.ess(draws, method="tail"), rel=0.03)
    assert np.isnan(mixing.tail_ess(np.ones((4, 500, 1)))[0])


def test_every_other_chain_around_an_approximation_begins_twice_as_far_out(gaussian):
    middle = np.array([1.0, -20.0, 0.0])
    starts = middle + np.array([[0.1, 1.0, 1.0], [0.2, 5.0, -1.0], [0.0, 3.0, 2.0]])
    spread = nuts._spread_out(gaussian, starts, middle)
    np.testing.assert_allclose(spread[[0, 2]], starts[[0, 2]])
    np.testing.assert_allclose(spread[1] - middle, 2.0 * (starts[1] - middle))
    bounded = from_log_density(
        lambda x: jnp.where(jnp.abs(x[1] + 20.0) < 8.0, 0.0, -jnp.inf), np.zeros(3)
    )
    np.testing.assert_allclose(nuts._spread_out(bounded, starts, middle), starts)


def test_around_a_check_without_all_parameters_is_refused(schools):
    checked = check(fit(schools), num_draws=1000, quantities=["mu", "tau"], chains=False)
    with pytest.raises(ArgumentError, match=r"around must have draws of every .* none of theta"):
        reference(schools, num_draws=100, num_warmup=10, around=checked)


def test_a_budget_that_is_used_up_ends_the_chains(gaussian):
    with pytest.raises(OutOfTimeError, match="0 of 4 chains were done and 0% of the next"):
        reference(gaussian, num_draws=10, num_warmup=10, budget=1e-9)


def test_chains_are_the_same_in_other_pieces(gaussian, monkeypatch):
    whole = reference(gaussian, num_draws=70, num_warmup=60, num_chains=2, seed=3)
    monkeypatch.setattr(nuts, "_PIECE", 37)
    pieces = reference(gaussian, num_draws=70, num_warmup=60, num_chains=2, seed=3)
    np.testing.assert_allclose(pieces.z, whole.z, rtol=1e-9)
    assert pieces.num_gradients == whole.num_gradients


def test_ctrl_c_ends_a_chain_at_the_next_piece(gaussian, monkeypatch):
    seen = []

    def check():
        seen.append(None)
        if len(seen) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(nuts, "check_interrupt", check)
    with pytest.raises(KeyboardInterrupt):
        reference(gaussian, num_draws=1000, num_warmup=10)
    assert len(seen) == 4
