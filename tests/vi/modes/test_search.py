"""The search for modes, which needs a model and where an approximation already is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.draws import Approximation
from vicheck.model import double_precision
from vicheck.paper import models
from vicheck.results.modes import ModeSearch
from vicheck.runtime.compiling import is_large
from vicheck.vi.curvature import Curvature
from vicheck.vi.density import Density
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.modes.place import Place, place_of
from vicheck.vi.modes.search import (
    _log_share_of_draws,
    find_modes,
    higher_than_modes,
    search_modes,
)
from vicheck.vi.modes.starts import choose_starts, random_starts

CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [-2.0, -3.0]])
LOG_WEIGHTS = np.log([0.6, 0.3, 0.1])
SD = 0.2
HERE = Place(np.zeros(2), np.full(2, SD))


def mixture(weights, centres, sds):
    """Return the log density of a mixture of spherical normals."""
    centres = np.asarray(centres, float)
    constant = np.log(weights) - centres.shape[1] * np.log(np.asarray(sds) * np.sqrt(2 * np.pi))

    def log_density(x):
        squares = jnp.sum((x - centres) ** 2, axis=1) / np.square(sds)
        return jnp.logaddexp.reduce(constant - 0.5 * squares)

    return vicheck.from_log_density(log_density, np.zeros(centres.shape[1]))


@pytest.fixture(scope="module")
def model():
    return mixture(np.exp(LOG_WEIGHTS), CENTRES, [SD] * 3)


def test_all_modes_are_found_those_within_reach_first(model):
    search = search_modes(model, HERE)
    assert search.num_reached == 1
    np.testing.assert_allclose(search.z, CENTRES, atol=1e-4)
    np.testing.assert_allclose(search.log_mass, LOG_WEIGHTS, atol=1e-4)  # each part is normalised
    assert search.counts.sum() == search.num_arrived == search.num_starts == 48
    assert search.num_others == 2
    assert search.share_of_others == pytest.approx(0.4, abs=1e-4)


def test_an_approximation_says_itself_where_it_is(model):
    q = MeanField(np.zeros(2), np.full(2, np.log(SD)))
    np.testing.assert_array_equal(search_modes(model, q).z, search_modes(model, HERE).z)


class Elsewhere(Approximation):
    """A q of another library, close to the first mode."""

    def draws(self, num_draws, seed=0):
        z = SD * np.random.default_rng(seed).normal(size=(num_draws, 2))
        return vicheck.Draws({"x": z}, np.zeros(num_draws), np.zeros(num_draws), q=self)


@pytest.mark.parametrize("around", [Elsewhere(), Elsewhere().draws(500)], ids=["q", "draws"])
def test_a_fit_made_elsewhere_says_where_it_is_by_its_draws(around):
    model = vicheck.from_log_density(
        lambda theta: mixture(np.exp(LOG_WEIGHTS), CENTRES, [SD] * 3).program.log_density(
            theta["x"], {}
        ),
        {"x": np.zeros(2)},
    )
    search = search_modes(model, around)
    assert search.num_reached == 1
    np.testing.assert_allclose(search.z, CENTRES, atol=1e-3)


def test_what_a_wide_approximation_covers_is_not_another_mode(model):
    search = search_modes(model, Place(np.zeros(2), np.ones(2)))
    assert search.num_reached == len(search.log_p) == 3


def test_a_mode_inside_the_bulk_that_is_too_small_to_be_drawn_is_another():
    """Effects with a prior scale of 0.1 or 1: in twelve dimensions q has no draws at the first."""
    y = 1.1 * np.random.default_rng(5).normal(size=12)

    def log_density(b):
        scales = np.array([0.1, 1.0])[:, None]
        priors = -0.5 * (b / scales) ** 2 - jnp.log(scales)
        return jnp.logaddexp.reduce(priors.sum(axis=1)) - 0.5 * jnp.sum((y - b) ** 2)

    model = vicheck.from_log_density(log_density, np.zeros(12))
    wide = Place(0.5 * y, np.full(12, np.sqrt(0.5)))
    search = search_modes(model, wide)
    assert search.num_others == 1
    np.testing.assert_allclose(search.z[-1], y / 101.0, atol=0.02)
    # The marginal likelihoods of the two scales, in closed form.
    log_z = [-0.5 * np.sum(y**2) / (1 + s**2) - 6 * np.log(1 + s**2) for s in (0.1, 1.0)]
    share = 1.0 / (1.0 + np.exp(log_z[1] - log_z[0]))
    assert search.share_of_others == pytest.approx(share, abs=0.02)


def test_draws_are_starts_if_they_are_higher_than_all_modes(model):
    search = search_modes(model, HERE)
    top = search.log_p.max()
    log_p = top + np.array([-1.0, 0.05, 3.0, np.nan, 0.2, np.inf, 1.0, 2.0, 4.0])
    np.testing.assert_array_equal(higher_than_modes(search, log_p), [8, 2, 7, 6])
    assert not len(higher_than_modes(search, log_p[:2]))
    assert not len(higher_than_modes(None, log_p))
    more = CENTRES[2:] + 0.01
    found = find_modes(model, HERE, 1, 0, more=more).search
    assert found.starts == {"approximation": 1, "draw": 1}
    np.testing.assert_allclose(found.z, CENTRES[[0, 2]], atol=1e-4)


def test_the_one_mode_of_heavy_tails_in_many_dimensions_is_no_other():
    """It has e^-9 of the volume of a q with the right sds, but their draws know its mass well."""
    model = vicheck.from_log_density(lambda x: -4.5 * jnp.sum(jnp.log1p(x**2 / 8)), np.zeros(50))
    search = search_modes(model, Place(np.full(50, 0.05), np.full(50, np.sqrt(8 / 6))))
    assert (search.num_reached, search.num_others) == (1, 0)


@pytest.mark.parametrize(("precision", "dim"), [(1.0, 3), (0.2, 3), (3.0, 2), (30.0, 1)])
def test_how_many_draws_know_a_mode_is_what_their_weights_say(precision, dim):
    """Of p with the mode's curvature: 1 / E (p / q)^2, the share of effective draws."""
    place = Place(np.zeros(dim), np.full(dim, 2.0))
    curvature = Curvature(np.ones((1, dim, dim)), None, precision / 4.0 * np.eye(dim)[None])
    z = np.random.default_rng(1).normal(size=(400_000, dim))
    ratios = np.exp(-0.5 * (max(precision, 1.0) - 1.0) * (z**2).sum(axis=1))
    share = ratios.mean() ** 2 / np.square(ratios).mean()
    assert np.exp(_log_share_of_draws(place, curvature)) == pytest.approx(share, rel=0.02)
    unknown = Curvature(np.ones((1, dim)), None)
    assert np.isnan(_log_share_of_draws(place, unknown)).all()


@pytest.mark.parametrize("apart", [3.6, 4.4])
def test_modes_that_are_apart_in_many_coordinates_are_two(apart):
    """Although they are close in each single one."""
    model = mixture([0.5, 0.5], [[0.0] * 16, [apart] * 16], [1.0, 1.0])
    for seed in range(5):
        assert search_modes(model, Place(np.zeros(16), np.ones(16)), seed=seed).num_others == 1


@pytest.mark.parametrize(
    ("centres", "sd"),
    [([0.0, 20.0], 1.0), ([-3000.0, 5000.0], 500.0), ([1e-3, 1.3e-2], 1e-3), ([0.0, 60.0], 1.0)],
)
def test_modes_far_beyond_the_unit_scale_are_found_by_every_seed(centres, sd):
    model = mixture([0.3, 0.7], np.reshape(centres, (2, 1)), [sd, sd])
    place = Place(np.array(centres[:1]), np.array([sd]))
    for seed in range(10):
        search = search_modes(model, place, seed=seed)
        assert search.num_others == 1
        assert search.share_of_others == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize(
    ("weights", "centres", "sds"),
    [
        ((0.7, 0.3), np.repeat([[-2000.0], [9000.0]], 2, axis=1), (300.0, 300.0)),
        ((0.995, 0.005), [[0.0], [100.0]], (1.0, 1.0)),
        ((0.7, 0.3), np.repeat([[0.0], [60.0]], 10, axis=1), (1.0, 1.0)),
        ((0.6, 0.4), np.repeat([[0.0], [50.0]], 4, axis=1), (2.0, 2.0)),
    ],
)
def test_starts_are_not_all_near_the_approximation_where_the_density_is_high(weights, centres, sds):
    """The other mode's basin holds a tenth to a third of the widest box, and none of the others."""
    far = mixture(weights, centres, sds)
    place = Place(np.asarray(centres, float)[0], np.full(far.dim, sds[0]))
    found = [search_modes(far, place, seed=seed).num_others for seed in range(12)]
    assert found == [1] * 12


def test_a_small_mode_is_negligible_only_if_it_is_near_enough_to_change_no_sd():
    near, far = (
        search_modes(
            mixture((1.0, 3e-6), [[0.0], [at]], (1.0, 1.0)), Place(np.zeros(1), np.ones(1))
        )
        for at in (12.0, 110.0)
    )
    assert near.num_others == far.num_others == 1
    assert near.away[1] == pytest.approx(12.0, abs=0.01)
    assert near.others_are_negligible  # the sd is 1.0002
    assert not far.others_are_negligible  # the sd is 1.018: for once it is looked at


@pytest.mark.parametrize(
    ("dim", "height", "negligible"),
    [(1000, -6000.0, False), (1000, -21_000.0, True), (2, -20.0, False), (2, -40.0, True)],
)
def test_a_mode_of_unknown_mass_is_negligible_if_it_is_too_low_for_any_width(
    dim, height, negligible
):
    """A thousand times as wide in 1000 dimensions is 6908 nats, in two 13.8."""
    found = ModeSearch(
        starts={"box": 48},
        num_arrived=2,
        num_evaluations=1000,
        num_reached=1,
        z=np.zeros((2, dim)),
        log_p=np.array([-9739.0, -9739.0 + height]),
        log_mass=np.full(2, np.nan),
        counts=np.ones(2),
        away=np.array([0.1, 9.0]),
    )
    assert found.others_are_negligible == negligible
    assert not found.is_negligible[0]


def test_a_narrow_mode_far_away_is_found_in_few_dimensions():
    """A hundredth as wide: its basin is one part in 300 of the widest box."""
    far = mixture([0.5, 0.5], [[0.0], [40.0]], [1.0, 0.01])
    place = Place(np.zeros(1), np.ones(1))
    assert [search_modes(far, place, seed=seed).num_others for seed in range(6)] == [1] * 6


def test_the_alias_of_a_frequency_is_found():
    """Measured 25 times at equal intervals: a wave 3 to 4 prior sds away fits nearly as well."""
    rng = np.random.default_rng(2)
    t = np.linspace(0.1, 5.0, 25)
    y = np.sin(9.2 * t) + 0.3 * rng.normal(size=25)

    def log_density(w):
        return -0.5 * (w[0] / 10.0) ** 2 - 0.5 * jnp.sum((y - jnp.sin(w[0] * t)) ** 2) / 0.09

    grid = np.linspace(-60.0, 60.0, 120_001)
    log_p = -0.5 * (grid / 10.0) ** 2
    log_p -= 0.5 * ((y[:, None] - np.sin(t[:, None] * grid)) ** 2).sum(axis=0) / 0.09
    weights = np.exp(log_p - log_p.max())
    far = np.abs(grid - 9.2) > 1.0
    exact = weights[far].sum() / weights.sum()
    search = search_modes(
        vicheck.from_log_density(log_density, np.zeros(1)),
        Place(np.array([grid[weights.argmax()]]), np.array([0.03])),
    )
    assert not search.others_are_negligible
    assert search.share_of_others == pytest.approx(exact, rel=0.1)


def test_no_mode_is_found_where_there_is_only_one():
    """At a gamma on the log scale, a t, a correlated normal, and one that q badly misplaces."""

    def correlated(x):
        return -0.5 * (jnp.sum(x**2) + 50.0 * jnp.sum((x[1:] - x[:-1]) ** 2))

    for log_density, dim, sd in [
        (lambda x: jnp.sum(3.0 * x - jnp.exp(x)), 3, 1.0),
        (lambda x: -2.5 * jnp.sum(jnp.log1p(x**2 / 4.0)), 5, 1.0),
        (correlated, 10, 0.1),
    ]:
        model = vicheck.from_log_density(log_density, np.zeros(dim))
        for place in (
            Place(np.zeros(dim), np.full(dim, sd)),
            Place(np.full(dim, 2.0), np.full(dim, 0.05)),
        ):
            search = search_modes(model, place)
            assert search.num_others == 0
            assert search.num_reached == 1


def test_the_one_mode_of_a_large_regression_counts_once():
    """In many dimensions climbs end a little apart; a density so large is not cheap."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 70))
    data = {"x": x, "y": x @ rng.standard_normal(70) + rng.standard_normal(300)}

    def log_density(z, data):
        residuals = (data["y"] - data["x"] @ z[1:]) * jnp.exp(-z[0])
        return -0.5 * (residuals**2).sum() - 300.0 * z[0] - 0.5 * (z**2).sum()

    regression = vicheck.from_log_density(log_density, np.zeros(71), data=data)
    assert is_large(regression.program, regression.data)
    for seed in range(2):
        found = search_modes(regression, vicheck.fit(regression, num_starts=1).q, seed=seed)
        assert (len(found.z), found.num_reached) == (1, 1)


def test_a_saddle_is_no_mode():
    model = mixture([0.5, 0.5], [[-3.0], [3.0]], [1.0, 1.0])
    search = search_modes(model, Place(np.zeros(1), np.array([3.0])))
    np.testing.assert_allclose(np.sort(search.z[:, 0]), [-3.0, 3.0], atol=0.01)


def test_in_a_funnel_few_climbs_arrive():
    model = vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS)
    search = search_modes(model, vicheck.fit(model, num_starts=1).q)
    assert search.num_arrived < 0.5 * search.num_starts
    assert search.starts["prior"] > 0


def test_the_seed_decides(model):
    one, same, other = (search_modes(model, HERE, seed=seed) for seed in (0, 0, 5))
    assert one.to_dict() == same.to_dict()
    assert one.to_dict() != other.to_dict()


def test_the_callers_precision_is_left_alone(model):
    search_modes(model, HERE)
    assert jnp.ones(1).dtype == jnp.float32


ERRORS = {
    "starts": ({"num_starts": 0}, HERE, "num_starts must be a positive integer, got 0"),
    "mean": ({}, Place(np.zeros(3), np.ones(2)), r"a mean of shape \(2,\).*got shape \(3,\)"),
    "sd": ({}, Place(np.zeros(2), 1.0), r"a sd of shape \(2,\), .*got shape \(\)"),
    "negative": ({}, Place([0, 0], [1, -1]), r"finite means and positive sds, .*sd=\[ 1. -1.\]"),
    "infinite": (
        {},
        Place([0, np.inf], [1, 1]),
        r"finite means and positive sds, got mean=\[ 0. inf",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_bad_arguments(model, case):
    options, around, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        search_modes(model, around, **options)


def test_a_density_without_a_top_has_no_mode():
    """Up a slope without an end, which is NaN somewhere on the way."""
    model = vicheck.from_log_density(
        lambda x: jnp.where(x[0] > 30.0, jnp.nan, jnp.sum(x)), np.zeros(2)
    )
    search = search_modes(model, Place(np.zeros(2), np.ones(2)))
    assert len(search.log_p) == search.num_arrived == 0
    assert search.num_starts == 48
    assert np.isnan(search.share_of_others) or search.share_of_others == 0.0


def test_an_expensive_density_gets_fewer_starts_within_the_budget(model, monkeypatch):
    """As one that is computed on the host."""
    monkeypatch.setattr(Density, "is_compiled", False)
    place = HERE
    with double_precision():
        few = find_modes(model, place, 48, 0, budget=1.0).search
        many = find_modes(model, place, 48, 0, budget=1e6).search
    assert few.num_starts < many.num_starts == 48
    assert few.num_evaluations < 1500
    assert few.num_reached == many.num_reached == 1


def test_a_density_that_calls_the_host_keeps_to_its_budget():
    """JAX compiles the call, which is small; what it calls may take seconds."""

    def on_host(x):
        return -0.5 * np.square(x).sum(-1), -np.asarray(x)

    @jax.custom_vjp
    def log_density(x):
        return jax.pure_callback(lambda x: on_host(x)[0], shape, x, vmap_method="broadcast_all")

    def forward(x):
        both = (shape, jax.ShapeDtypeStruct((30,), np.float64))
        return jax.pure_callback(on_host, both, x, vmap_method="broadcast_all")

    log_density.defvjp(forward, lambda gradient, slope: (slope * gradient,))
    shape = jax.ShapeDtypeStruct((), np.float64)
    model = vicheck.from_log_density(log_density, np.zeros(30))
    place = Place(np.zeros(30), np.ones(30))
    with double_precision():
        few = find_modes(model, place, 48, 0, budget=1.0)
        assert not few.is_cheap
    assert few.search.num_starts < 48
    assert few.search.num_evaluations <= 1000
    assert few.search.num_reached == 1


def test_places_have_the_correlations_of_what_they_are_places_of(model):
    root = np.array([[1.0, 0.0], [0.9, 0.1]])
    z = np.random.default_rng(0).normal(size=(1000, 2)) @ root.T
    draws = vicheck.Draws({"x": z}, np.zeros(1000), np.zeros(1000))
    named = vicheck.from_log_density(lambda theta: jnp.sum(theta["x"]), {"x": np.zeros(2)})
    with double_precision():
        place = place_of(draws, named)
    along_the_ridge, across = [3.0, 2.7], [1.0, -0.5]  # the second is 14 sds away
    assert place.reaches(np.array([along_the_ridge, across])).tolist() == [True, False]


def test_starts_come_from_all_kinds_of_places(model):
    with double_precision():
        density = Density(model.program, {}, {})
        starts = choose_starts(model, density, HERE, 48, seed=1)
    assert starts.z.shape == (48, 2)
    np.testing.assert_array_equal(starts.z[:2], [HERE.mean, [0.0, 0.0]])
    assert {*starts.origins} == {"approximation", "zero", "box", "around", "tempered"}
    assert np.isfinite(starts.z).all()


def test_random_starts_are_over_dispersed_and_those_of_the_seed():
    starts = random_starts(1000, 2, seed=3)
    assert starts.shape == (1000, 2)
    assert np.abs(starts).max() <= 4.0
    assert np.abs(starts).mean() == pytest.approx(2.0, abs=0.1)
    np.testing.assert_array_equal(starts, random_starts(1000, 2, seed=3))
