"""Laws that hold for every member of every family: first of Gaussian ones, then of mixtures too."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vicheck.model import double_precision
from vicheck.vi.families.abilities import (
    HasEntropy,
    HasMarginals,
    HasMoments,
    HasRoots,
    entropy_of,
)
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.low_rank import LowRank
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.families.mixture import Mixture
from vicheck.vi.families.moments import covariance_of, mean_of, sd_of


def make_mean_field(dim, rng):
    return MeanField(rng.normal(size=dim), rng.normal(size=dim))


def make_full_rank(dim, rng):
    factor = np.tril(rng.normal(size=(dim, dim)), -1) + np.diag(np.exp(rng.normal(size=dim)))
    return FullRank(rng.normal(size=dim), factor)


def make_low_rank(rank):
    def make(dim, rng):
        return LowRank(rng.normal(size=dim), rng.normal(size=dim), rng.normal(size=(dim, rank)))

    return make


FAMILIES = {
    "mean_field": make_mean_field,
    "full_rank": make_full_rank,
    "low_rank_1": make_low_rank(1),
    "low_rank_3": make_low_rank(3),
}
MEMBERS = [(name, dim) for name in FAMILIES for dim in (1, 2, 7)]
RNG = np.random.default_rng(7)
POINTS = {dim: RNG.normal(size=(10, dim)) * 3.0 for dim in (1, 2, 7)}
NOISE = RNG.normal(size=10)
NUM_DRAWS = 2000
STEP = RNG.normal(size=100)
UNITS = np.exp(3.0 * RNG.normal(size=7))
DIRECTIONS = RNG.normal(size=(7, 7))


def parameters(q):
    leaves = jax.tree.leaves(q)
    numpy = np if isinstance(leaves[0], np.ndarray) else jnp
    return numpy.concatenate([numpy.ravel(leaf) for leaf in leaves])


def kl_to_standard(q):
    """KL(q, N(0, I)), up to a constant."""
    return 0.5 * (jnp.trace(q.covariance()) + q.loc @ q.loc) - q.entropy()


def rescaled(q, units):
    """Return q of the coordinates ``units * z``."""
    if isinstance(q, MeanField):
        return MeanField(units * q.loc, q.log_scale + jnp.log(units))
    if isinstance(q, FullRank):
        return FullRank(units * q.loc, units[:, None] * q.scale_tril)
    return LowRank(units * q.loc, q.log_diagonal + jnp.log(units), units[:, None] * q.factor)


def gradient_in_sds(q, units):
    """Gradient, by the step, of a divergence of z when q is one of ``units * z``."""

    def divergence(step):
        return kl_to_standard(rescaled(q.displaced(step, q.sd), 1.0 / units))

    return jax.grad(divergence)(jnp.zeros(q.step_dim))


# Compiled without optimisation: that takes longer than the computation.
@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
def compute(q, other, z, noise, step, directions, units):
    """All that the laws are about, in one compiled function: each by itself would take seconds."""
    keys = jax.random.split(jax.random.key(1))
    draws, log_q = jax.vmap(lambda key: q.sample_and_log_prob(key, NUM_DRAWS))(keys)
    shift = jnp.where(jnp.arange(q.step_dim) < q.dim, step, 0.0)
    steps = jnp.stack([jnp.zeros_like(step), step, shift, 1e-6 * step])
    moved = jax.vmap(lambda step: q.displaced(step, q.sd))(steps)
    same, along = (q.displaced(at, directions) for at in (steps[0], shift))
    draw = q.transform(noise)
    points = jnp.concatenate([z, draw[None], draws[0]])
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), q, other)
    return {
        "log_probs": jax.vmap(q.log_prob)(points),
        "entropy": q.entropy(),
        "sd": q.sd,
        "covariance": q.covariance(),
        "draw": draw,
        "draw_and_log_prob": q.transform_and_log_prob(noise),
        "transform_jacobian": jax.jacobian(q.transform)(noise),
        "draws": draws,
        "log_q": log_q[0],
        "cdfs": q.marginal_cdf(points),
        "cdf": q.marginal_cdf(z.reshape(2, 5, q.dim)),
        "moved": moved,
        "moved_covariances": jax.vmap(lambda member: member.covariance())(moved),
        "unmoved_by_matrix": same,
        "shifted_along": along.loc,
        "step_jacobian": jax.jacobian(lambda s: parameters(q.displaced(s, q.sd)))(steps[0]),
        "gradients": jax.vmap(gradient_in_sds)(both, jnp.stack([jnp.ones(q.dim), units])),
    }


class Facts:
    """A member of a family and what is computed from it."""

    def __init__(self, name, dim):
        rng = np.random.default_rng(sum(map(ord, name)) + dim)
        with double_precision():
            self.q = q = jax.tree.map(jnp.asarray, FAMILIES[name](dim, rng))
            units = jnp.asarray(UNITS[:dim])
            self.z, self.noise = POINTS[dim], NOISE[: q.noise_dim]
            self.step, self.directions = STEP[: q.step_dim], DIRECTIONS[:dim, :dim]
            found = compute(
                q,
                rescaled(q, units),
                *map(jnp.asarray, (self.z, self.noise, self.step)),
                jnp.asarray(self.directions),
                units,
            )
        self.q = jax.tree.map(np.asarray, q)
        self.__dict__.update(jax.tree.map(np.asarray, found))
        self.draws, self.other_draws = self.draws
        self.log_prob, self.log_prob_of_draw = self.log_probs[:10], self.log_probs[10]
        self.log_prob_of_draws = self.log_probs[11:]
        self.unmoved, self.displaced, self.shifted, self.near = (
            jax.tree.map(lambda leaf: leaf[i], self.moved)  # noqa: B023
            for i in range(4)
        )

    @property
    def exact(self):
        return stats.multivariate_normal(self.q.loc, self.covariance)


@pytest.fixture(scope="module", params=MEMBERS, ids=lambda param: f"{param[0]}-{param[1]}")
def facts(request):
    return Facts(*request.param)


def test_shapes_and_types(facts):
    dim = facts.q.dim
    shapes = {
        "sd": (dim,),
        "draw": (dim,),
        "log_prob": (10,),
        "entropy": (),
        "log_prob_of_draw": (),
        "covariance": (dim, dim),
        "draws": (NUM_DRAWS, dim),
        "log_q": (NUM_DRAWS,),
        "cdf": (2, 5, dim),
    }
    for name, shape in shapes.items():
        assert getattr(facts, name).shape == shape, name
        assert getattr(facts, name).dtype == np.float64, name


def test_log_prob_is_scipys(facts):
    expected = np.reshape(facts.exact.logpdf(facts.z), 10)
    np.testing.assert_allclose(facts.log_prob, expected, rtol=1e-10, atol=1e-10)


def test_entropy_is_scipys(facts):
    np.testing.assert_allclose(facts.entropy, facts.exact.entropy(), rtol=1e-12, atol=1e-12)


def test_sd_is_the_root_of_the_covariances_diagonal(facts):
    np.testing.assert_allclose(facts.sd, np.sqrt(np.diagonal(facts.covariance)), rtol=1e-14)


def test_the_transforms_jacobian_gives_covariance_and_density(facts):
    jacobian, covariance = facts.transform_jacobian, facts.covariance
    np.testing.assert_allclose(jacobian @ jacobian.T, covariance, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(facts.draw, facts.q.loc + jacobian @ facts.noise, rtol=1e-12)
    if jacobian.shape[0] == jacobian.shape[1]:
        log_det = np.linalg.slogdet(jacobian)[1]
        expected = stats.norm.logpdf(facts.noise).sum() - log_det
        np.testing.assert_allclose(facts.log_prob_of_draw, expected, rtol=1e-9, atol=1e-9)


def test_draws_come_with_their_densities(facts):
    draw, log_q = facts.draw_and_log_prob
    np.testing.assert_allclose(draw, facts.draw, rtol=1e-14)
    np.testing.assert_allclose(log_q, facts.log_prob_of_draw, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(facts.log_q, facts.log_prob_of_draws, rtol=1e-9, atol=1e-9)
    assert len(np.unique(facts.draws[:, 0])) == len(facts.draws)
    assert not np.isin(facts.draws, facts.other_draws).any()


def test_draws_follow_q(facts):
    # Two tests of 12 members at level 1e-5: a false alarm in 1 of 4000 seeds.
    deviations = (facts.draws - facts.q.loc).T
    white = np.linalg.solve(np.linalg.cholesky(facts.covariance), deviations)
    dim = facts.q.dim
    assert stats.kstest((white**2).sum(axis=0), stats.chi2(dim).cdf).pvalue > 1e-5
    assert stats.kstest(white.sum(axis=0) / np.sqrt(dim), "norm").pvalue > 1e-5


def test_marginal_cdf(facts):
    expected = stats.norm.cdf(facts.z.reshape(2, 5, -1), facts.q.loc, facts.sd)
    np.testing.assert_allclose(facts.cdf, expected, rtol=1e-12)


def test_a_marginal_is_a_distribution_of_scipys(facts):
    with double_precision():
        for index in range(facts.q.dim):
            marginal = facts.q.marginal(index)
            expected = facts.cdf.reshape(10, -1)[:, index]
            np.testing.assert_allclose(marginal.cdf(facts.z[:, index]), expected, rtol=1e-12)


def test_marginal_cdf_makes_draws_uniform(facts):
    # 40 margins at level 1e-6: a false alarm in 1 of 25000 seeds.
    for margin in facts.cdfs[11:].T:
        assert stats.kstest(margin, "uniform").pvalue > 1e-6


def test_a_step_of_zero_is_no_step(facts):
    for same in (facts.unmoved, facts.unmoved_by_matrix):
        np.testing.assert_allclose(parameters(same), parameters(facts.q), rtol=1e-15)


def test_steps_stay_in_the_family(facts):
    moved = facts.displaced
    assert type(moved) is type(facts.q)
    assert jax.tree.map(np.shape, moved) == jax.tree.map(np.shape, facts.q)
    assert (np.linalg.eigvalsh(facts.moved_covariances) > 0.0).all()
    if isinstance(moved, FullRank):
        np.testing.assert_array_equal(moved.scale_tril, np.tril(moved.scale_tril))
        assert (np.diagonal(moved.scale_tril) > 0.0).all()


def test_steps_are_smooth_and_reach_every_neighbour(facts):
    jacobian = facts.step_jacobian
    assert np.linalg.matrix_rank(jacobian) == facts.q.step_dim
    change = 1e-6 * jacobian @ facts.step
    np.testing.assert_allclose(
        parameters(facts.near) - parameters(facts.q), change, rtol=1e-4, atol=1e-9
    )


def test_the_mean_moves_by_standard_deviations(facts):
    deviation = facts.shifted.loc - facts.q.loc
    if isinstance(facts.q, FullRank):  # along its own scale
        in_sds = np.linalg.solve(facts.q.scale_tril, deviation)
    else:
        in_sds = deviation / facts.sd
    np.testing.assert_allclose(in_sds, facts.step[: facts.q.dim], rtol=1e-9)
    np.testing.assert_allclose(facts.moved_covariances[2], facts.covariance, rtol=1e-13)


def test_the_mean_moves_along_directions(facts):
    scale = facts.q.scale_tril if isinstance(facts.q, FullRank) else facts.directions
    expected = facts.q.loc + scale @ facts.step[: facts.q.dim]
    np.testing.assert_allclose(facts.shifted_along, expected, rtol=1e-11, atol=1e-12)


def test_the_gradient_in_sd_units_does_not_depend_on_the_units(facts):
    here, elsewhere = facts.gradients
    assert np.abs(here).max() > 1e-3
    np.testing.assert_allclose(elsewhere, here, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dim", [1, 7])
@pytest.mark.parametrize("family", [MeanField, FullRank])
def test_near_a_gaussian_optimum_the_curvature_is_one(family, dim):
    with double_precision():
        scale = jnp.zeros(dim) if family is MeanField else jnp.eye(dim)
        q = family(jnp.zeros(dim), scale)
        hessian = jax.jit(
            lambda q: jax.hessian(lambda step: kl_to_standard(q.displaced(step, q.sd)))(
                jnp.zeros(q.step_dim)
            )
        )(q)
        np.testing.assert_allclose(hessian, np.eye(q.step_dim), atol=1e-12)


def test_low_rank_log_prob_far_out_with_a_dominant_factor():
    """Woodbury's difference of two large numbers keeps enough digits."""
    with double_precision():
        q = LowRank(jnp.zeros(5), jnp.zeros(5), 1e4 * jnp.ones((5, 1)))
        found = float(q.log_prob(1e4 * jnp.ones(5)))
    # z is 1 sd out, along the factor.
    expected = -0.5 * (5e8 / (1.0 + 5e8) + 5.0 * np.log(2.0 * np.pi) + np.log1p(5e8))
    assert found == pytest.approx(expected, abs=1e-6)


# Laws that need no ability, for a member of each family and for mixtures of them.


def make_mixture(dim, rng):
    members = (make_mean_field(dim, rng), make_full_rank(dim, rng), make_low_rank(2)(dim, rng))
    return Mixture(members, np.array([0.5, 0.3, 0.2]))


ANY = FAMILIES | {"mixture": make_mixture}


class Anything:
    """A member of any family in three dimensions, with draws."""

    def __init__(self, name):
        with double_precision():
            self.q = q = jax.tree.map(jnp.asarray, ANY[name](3, np.random.default_rng(len(name))))
            self.members = q.members if isinstance(q, Mixture) else (q,)
            self.parts = np.asarray(q.parts) if isinstance(q, Mixture) else np.ones(1)
            self.noise = q.draw_noise(np.random.default_rng(1), 20_000)
            noise = jnp.asarray(self.noise)
            draws = jax.jit(jax.vmap(q.transform))(noise), jax.jit(jax.vmap(q.log_prob))
            self.draws, self.log_prob = np.asarray(draws[0]), np.asarray(draws[1](draws[0]))
            both = jax.jit(jax.vmap(q.transform_and_log_prob))(noise)
            self.both = tuple(map(np.asarray, both))
            self.entropy = float(jax.jit(entropy_of)(q, noise))
            self.estimates = tuple(np.asarray(of(q)) for of in (mean_of, sd_of, covariance_of))
            self.means = np.array([member.loc for member in self.members])
            self.covariances = np.array([member.covariance() for member in self.members])

    @property
    def mean(self):
        return self.parts @ self.means

    @property
    def covariance(self):
        deviations = self.means - self.mean
        between = np.einsum("m,mi,mj->ij", self.parts, deviations, deviations)
        return np.einsum("m,mij->ij", self.parts, self.covariances) + between


@pytest.fixture(scope="module", params=ANY)
def anything(request):
    return Anything(request.param)


def test_any_density_is_scipys(anything):
    expected = np.log(
        sum(
            part * stats.multivariate_normal(mean, covariance).pdf(anything.draws)
            for part, mean, covariance in zip(
                anything.parts, anything.means, anything.covariances, strict=True
            )
        )
    )
    np.testing.assert_allclose(anything.log_prob, expected, rtol=1e-8, atol=1e-8)


def test_any_draw_comes_with_its_density(anything):
    draws, log_prob = anything.both
    np.testing.assert_allclose(draws, anything.draws, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(log_prob, anything.log_prob, rtol=1e-8, atol=1e-8)


def test_any_draws_follow_the_density(anything):
    # Three margins of five members at level 1e-6: a false alarm in 1 of 60,000 seeds.
    sds = np.sqrt(np.diagonal(anything.covariances, axis1=1, axis2=2))
    for index in range(3):
        at = anything.draws[:2000, index]
        cdf = stats.norm.cdf(at[:, None], anything.means[:, index], sds[:, index])
        assert stats.kstest(cdf @ anything.parts, "uniform").pvalue > 1e-6


def test_any_moments(anything):
    mean, sd, covariance = anything.estimates
    exact = np.sqrt(np.diagonal(anything.covariance))
    np.testing.assert_allclose((mean - anything.mean) / exact, 0.0, atol=0.05)
    np.testing.assert_allclose(sd, exact, rtol=0.05)
    correlations = (covariance - anything.covariance) / np.outer(exact, exact)
    np.testing.assert_allclose(correlations, 0.0, atol=0.1)


def test_any_entropy_is_minus_the_mean_log_density(anything):
    # Five standard errors of the mean over all draws.
    error = anything.log_prob.std() / np.sqrt(len(anything.log_prob))
    assert anything.entropy == pytest.approx(-anything.log_prob.mean(), abs=5.0 * error)


def test_gaussian_families_have_all_abilities_and_mixtures_none(anything):
    abilities = (HasEntropy, HasMarginals, HasMoments, HasRoots)
    has = [isinstance(anything.q, ability) for ability in abilities]
    assert has == [not isinstance(anything.q, Mixture)] * 4


def test_a_mixture_shares_its_draws_out_as_exactly_as_can_be():
    whole = Anything("mixture")
    with double_precision():
        which = np.asarray(jax.jit(jax.vmap(whole.q.member_of))(whole.noise))
    np.testing.assert_array_equal(np.bincount(which), [10_000, 6_000, 4_000])
    # The first draws too: 500 of 1000 expected, within 5 sds.
    assert abs(np.sum(which[:1000] == 0) - 500) < 80


def test_a_mixture_of_one_is_its_member():
    with double_precision():
        member = jax.tree.map(jnp.asarray, make_full_rank(3, np.random.default_rng(0)))
        mixture = Mixture((member,), jnp.ones(1))
        noise = jnp.asarray(NOISE[:4])
        z, log_q = jax.jit(lambda q: q.transform_and_log_prob(noise))(mixture)
        own, own_log_q = jax.jit(lambda q: q.transform_and_log_prob(noise[:3]))(member)
        np.testing.assert_allclose(z, own, rtol=1e-14)
        np.testing.assert_allclose(log_q, own_log_q, rtol=1e-12)


def test_a_mixture_steps_by_its_parameters():
    with double_precision():
        q = jax.tree.map(jnp.asarray, make_mixture(3, np.random.default_rng(0)))
        assert q.step_dim == parameters(q).size
        units = jax.jit(lambda q: q.units())(q)
        step = jnp.asarray(STEP[: q.step_dim])
        still = q.displaced(jnp.zeros(q.step_dim), units)
        moved = q.displaced(step, units)
        np.testing.assert_allclose(parameters(still), parameters(q), rtol=1e-15)
        np.testing.assert_allclose(parameters(moved) - parameters(q), units * step, rtol=1e-9)
        assert q.entry_name(0, None, ()) == "q's members[0].loc[0]"
        assert q.entry_name(q.step_dim - 1, None, ()) == "q's parts[2]"


def test_a_mixture_cannot_be_started():
    with pytest.raises(TypeError, match="Mixture cannot be fitted: it has no class method `start`"):
        Mixture.start(np.zeros(3), None)
