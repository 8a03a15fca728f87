"""`seed=` takes integers and JAX keys, and means the same by both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.errors import ArgumentError
from vicheck.runtime.seeds import as_seed, generators, states


@pytest.mark.parametrize("number", [0, 3, 2**31, 2**32 - 1])
def test_a_key_is_the_integer_that_it_was_made_of(number):
    assert as_seed(jax.random.key(number)) == number
    assert as_seed(jax.random.PRNGKey(number)) == number
    assert as_seed(np.asarray(jax.random.PRNGKey(number))) == number
    assert as_seed(np.int64(number)) == number


def test_split_keys_are_different_seeds_within_63_bits():
    keys = jax.random.split(jax.random.key(0), 200)
    seeds = {as_seed(key) for key in keys}
    assert len(seeds) == 200
    assert max(seeds) + 10**6 < 2**63


def test_a_key_of_another_kind_is_a_seed_too():
    first, second = (as_seed(jax.random.key(number, impl="rbg")) for number in (1, 2))
    assert first != second
    assert first == as_seed(jax.random.key(1, impl="rbg"))


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True, np.random.default_rng(0), jnp.zeros(2)])
def test_anything_else_is_refused(seed):
    with pytest.raises(ArgumentError, match="integer from 0 on or a JAX key"):
        as_seed(seed)


def test_several_keys_are_refused():
    with pytest.raises(ArgumentError, match=r"one JAX key, got keys of shape \(4,\): take one"):
        as_seed(jax.random.split(jax.random.key(0), 4))


def test_every_function_takes_a_key():
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**4), jnp.zeros(2))
    key = jax.random.split(jax.random.key(5))[0]
    number = as_seed(key)

    def results(seed):
        fit = vicheck.fit(model, seed=seed, num_starts=1)
        checked = vicheck.check(fit, seed=seed, num_draws=1000, chains=False)
        chain = vicheck.reference(model, seed=seed, num_draws=4, num_warmup=4, num_chains=1)
        return (
            fit.q.mean,
            fit.sample(5, seed=seed)["x"],
            checked.log_p,
            checked.resample(5, seed=seed)["x"],
            chain.z,
        )

    for of_key, of_number in zip(results(key), results(number), strict=True):
        np.testing.assert_array_equal(of_key, of_number)
    fit = vicheck.fit(model, seed=key, num_starts=1)
    assert fit.seed == number
    code = vicheck.check(fit, seed=key, num_draws=1000, chains=False).provenance.code
    assert f"seed={number}" in code


NUMBERS = np.array([0, 1, 2**31, 2**32 - 1, 2**32, 2**53 - 1, 2**62])


@pytest.mark.parametrize("second", [0, 3, 2**32 + 5])
def test_states_of_many_pairs_are_those_of_numpy(second):
    made = states(NUMBERS, np.full_like(NUMBERS, second), 4)
    for number, words in zip(NUMBERS, made, strict=True):
        pair = (int(number), second)
        assert np.array_equal(words, np.random.SeedSequence(pair).generate_state(4, np.uint64))


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.SFC64])
def test_generators_of_many_seeds_are_those_of_numpy(kind):
    for number, rng in zip(NUMBERS, generators(kind, NUMBERS, 2), strict=True):
        expected = np.random.Generator(kind((int(number), 2)))
        assert np.array_equal(rng.standard_normal(9), expected.standard_normal(9))
