"""Laws of charts: what they compute is what JAX derives from the family."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.vi.families.test_toy_family import SinhNormal
from vicheck.model import double_precision
from vicheck.vi.charts.full_rank import FullRankChart
from vicheck.vi.charts.low_rank import LowRankChart, _inverse
from vicheck.vi.charts.mean_field import MeanFieldChart
from vicheck.vi.charts.traced import TracedChart
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.low_rank import LowRank
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.families.moments import mean_and_sd

FITS, DIM, PAIRS = 3, 4, 5
RNG = np.random.default_rng(11)
LOC = RNG.normal(size=(FITS, DIM)) * 10.0
LOG_SCALE = RNG.normal(size=(FITS, DIM))
SCALE_TRIL = np.tril(RNG.normal(size=(FITS, DIM, DIM)), -1) + np.exp(LOG_SCALE)[:, None] * np.eye(
    DIM
)
FACTOR = RNG.normal(size=(FITS, DIM, 2))
AXES = np.exp(RNG.normal(size=(FITS, DIM)))
MATRICES = RNG.normal(size=(FITS, DIM, DIM))


class Own(MeanField):
    """Of the user's: a mean field that draws in another way than its parent says."""

    def transform(self, noise):
        return self.loc - self.sd * noise


class Plain(MeanField):
    """Of the user's: nothing is said about it that JAX could not derive."""


CASES = {
    "mean_field, axes": (MeanField(LOC, LOG_SCALE), AXES, MeanFieldChart),
    "mean_field, matrices": (MeanField(LOC, LOG_SCALE), MATRICES, MeanFieldChart),
    "low_rank, axes": (LowRank(LOC, LOG_SCALE, FACTOR), AXES, LowRankChart),
    "low_rank, matrices": (LowRank(LOC, LOG_SCALE, FACTOR), MATRICES, LowRankChart),
    "full_rank": (FullRank(LOC, SCALE_TRIL), np.zeros((FITS, 0)), FullRankChart),
    "toy": (SinhNormal(LOC, LOG_SCALE), np.zeros((FITS, 0)), TracedChart),
    "subclass, axes": (Own(LOC, LOG_SCALE), AXES, TracedChart),
    "subclass, matrices": (Plain(LOC, LOG_SCALE), MATRICES, TracedChart),
}


def function(z):
    """Something smooth, with a gradient that depends on everything."""
    return jnp.sin(z).sum() + 0.1 * jnp.prod(jnp.tanh(z)) + 0.05 * z @ z


# Compiled without optimisation: that takes longer than the computation.
quickly = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@quickly
def by_jax(anchors, units, steps, noise):
    """All that a chart is about, from the methods of the family."""

    def of_one(q, units, step, noise):
        def draws_of(step):
            return jax.vmap(q.displaced(step, units).transform)(noise)

        def entropy(step):
            return entropy_of(q.displaced(step, units), noise)

        moved, draws = q.displaced(step, units), draws_of(step)
        own = draws_of(jnp.zeros_like(step))
        return {
            "members": moved,
            "draws": draws,
            "gradients": jax.vmap(jax.grad(function))(draws),
            "pulled": jax.grad(lambda step: jax.vmap(function)(draws_of(step)).mean())(step),
            "entropy": jax.value_and_grad(entropy)(step),
            "own": own,
            "scores": jax.vmap(jax.grad(q.log_prob))(own),
            "mean_and_sd": mean_and_sd(moved),
        }

    return jax.vmap(of_one)(anchors, units, steps, noise)


class Facts:
    """A chart of three fits, steps in it, and what JAX says."""

    def __init__(self, name):
        self.anchors, directions, self.type = CASES[name]
        one = jax.tree.map(lambda leaf: leaf[0], self.anchors)
        rng = np.random.default_rng(len(name))
        self.steps = 0.5 * rng.normal(size=(FITS, one.step_dim))
        self.half = rng.normal(size=(FITS, PAIRS, one.noise_dim))
        self.noise = np.concatenate([self.half, -self.half], axis=1)
        with double_precision():
            self.chart = self.anchors.chart(directions)
            units = directions
            if not directions.size:
                units = jax.vmap(lambda q: q.units())(self.anchors)
            self.exact = jax.tree.map(
                np.asarray, by_jax(self.anchors, units, self.steps, self.noise)
            )
        self.one = one


@pytest.fixture(scope="module", params=CASES)
def facts(request):
    return Facts(request.param)


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def assert_close(found, exact, **options):
    found, exact = jax.tree.leaves(found), jax.tree.leaves(exact)
    for one, other in zip(found, exact, strict=True):
        assert np.shape(one) == np.shape(other)
        assert one.dtype == np.float64
        np.testing.assert_allclose(one, other, **({"rtol": 1e-10, "atol": 1e-11} | options))


def test_the_type_and_sizes_of_the_chart(facts):
    assert type(facts.chart) is facts.type
    assert facts.chart.step_dim == facts.one.step_dim
    assert facts.chart.num_shifts == facts.one.num_shifts


def test_members_are_those_that_the_family_is_displaced_to(facts):
    members = facts.chart.members(facts.steps)
    assert type(members) is type(facts.anchors)
    assert_close(members, facts.exact["members"])


def test_no_step_leads_to_the_anchors(facts):
    assert_close(facts.chart.members(np.zeros_like(facts.steps)), facts.anchors, rtol=1e-15)


def test_draws_are_transformed_noise(facts):
    assert_close(facts.chart.draws(facts.steps, facts.noise), facts.exact["draws"])


def test_the_derivative_of_a_mean_by_the_step(facts):
    found = facts.chart.pull_back(facts.steps, facts.noise, facts.exact["gradients"])
    assert_close(found, facts.exact["pulled"])


def test_entropies_and_their_derivatives(facts):
    assert_close(facts.chart.entropy(facts.steps, facts.noise), facts.exact["entropy"])


def test_scores_are_gradients_of_the_log_density(facts):
    assert_close(facts.chart.scores(facts.noise, facts.exact["own"]), facts.exact["scores"])


def test_means_and_sds(facts):
    assert_close(facts.chart.mean_and_sd(facts.steps), facts.exact["mean_and_sd"])


@pytest.mark.parametrize("which", [[2, 0], [1], [0, 0, 1, 2, 2]], ids=["some", "one", "repeated"])
def test_some_of_the_fits(facts, which):
    which = np.array(which, np.intp)
    chart, steps, noise = facts.chart.take(which), facts.steps[which], facts.noise[which]
    gradients = facts.exact["gradients"][which]
    exact = jax.tree.map(lambda leaf: leaf[which], facts.exact)
    assert_close(chart.draws(steps, noise), exact["draws"])
    assert_close(chart.pull_back(steps, noise, gradients), exact["pulled"])
    assert_close(chart.entropy(steps, noise), exact["entropy"])
    assert_close(chart.members(steps), exact["members"])


def test_a_chart_of_one_fit_repeated(facts):
    """As the test of convergence uses it: every pair of draws counts as a fit."""
    one = facts.chart.take(np.array([1]))
    pairs = np.stack([facts.half[1], -facts.half[1]], axis=1)
    steps = np.repeat(facts.steps[1:2], PAIRS, axis=0)
    gradients = np.random.default_rng(0).normal(size=(PAIRS, 2, DIM))
    found = one.repeated(PAIRS).pull_back(steps, pairs, gradients)
    alone = [one.pull_back(steps[:1], pairs[i : i + 1], gradients[i : i + 1]) for i in range(PAIRS)]
    assert_close(found, np.concatenate(alone))


def test_only_independent_normals_correct_inexact_moments(facts):
    assert facts.chart.is_corrected == (facts.type is MeanFieldChart)
    if not facts.chart.is_corrected:
        with pytest.raises(NotImplementedError):
            facts.chart.correction(facts.steps, np.ones((FITS, DIM, DIM)))


@pytest.mark.parametrize("name", ["mean_field, axes", "mean_field, matrices"])
def test_the_correction_makes_the_mean_of_a_quadratic_its_expectation(name):
    facts = Facts(name)
    steps = np.clip(facts.steps, -0.9, 0.9)
    rng = np.random.default_rng(2)
    roots = rng.normal(size=(FITS, DIM, DIM))
    hessian = roots @ np.swapaxes(roots, 1, 2)
    centre = rng.normal(size=(FITS, DIM))
    moments = np.swapaxes(facts.half, 1, 2) @ facts.half / PAIRS
    assert np.abs(moments - np.eye(DIM)).max() > 0.1  # so that there is something to correct

    def expectation(step, q, units, hessian, centre):
        member = q.displaced(step, units)
        shift = member.loc - centre
        return 0.5 * (shift @ hessian @ shift + jnp.sum(jnp.diagonal(hessian) * member.sd**2))

    units = CASES[name][1]
    exact = quickly(jax.vmap(jax.value_and_grad(expectation)))(
        steps, facts.anchors, units, hessian, centre
    )
    deviations = facts.chart.draws(steps, facts.noise) - centre[:, None]
    slopes = deviations @ hessian
    mean = 0.5 * (deviations * slopes).sum(axis=2).mean(axis=1)
    slope = facts.chart.pull_back(steps, facts.noise, slopes)
    excess = hessian * (np.eye(DIM) - moments)
    value_added, slope_added = facts.chart.correction(steps, excess)
    assert np.abs(value_added).min() > 0.01
    np.testing.assert_allclose(mean + value_added, exact[0], rtol=1e-10)
    np.testing.assert_allclose(slope + slope_added, exact[1], rtol=1e-10, atol=1e-10)


def test_far_from_the_anchors_the_correction_grows_no_more():
    """Where the density is less curved than it was at the anchors, it would win in the end."""
    facts = Facts("mean_field, axes")
    excess = np.tile(-2.0 * np.eye(DIM), (FITS, 1, 1))  # of moments that are three times too large
    values = []
    for growth in (0.5, 1.0, 2.0, 50.0):
        steps = np.concatenate([np.zeros((FITS, DIM)), np.full((FITS, DIM), growth)], axis=1)
        value, slope = facts.chart.correction(steps, excess)
        values.append(value)
        assert slope[:, DIM:].any() == (growth < 1.0)
    assert (values[1] < values[0]).all()
    np.testing.assert_array_equal(values[2:], [values[1], values[1]])


def test_arrays_of_jax_are_taken_too():
    """A q read from a fit holds those; they cannot be written to."""
    anchors = jax.tree.map(jnp.asarray, CASES["full_rank"][0])
    chart = anchors.chart(None)
    for leaf in jax.tree.leaves(chart.members(np.zeros((FITS, chart.step_dim)))):
        assert type(leaf) is np.ndarray


def test_a_step_whose_matrix_is_singular_gives_no_slope_and_leaves_other_fits_alone():
    matrices = np.stack([np.eye(2), np.ones((2, 2)), 4.0 * np.eye(2)])
    inverses = _inverse(matrices)
    np.testing.assert_allclose(inverses[[0, 2]], [np.eye(2), 0.25 * np.eye(2)])
    assert np.isnan(inverses[1]).all()
