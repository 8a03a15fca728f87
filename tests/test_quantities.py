"""Which quantities there are, and that each means what its name says."""

import re

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import vicheck
from tests.calibration.problems import bounded_model, draw_exactly, independent_model
from vicheck.calibration.run import vsbc
from vicheck.indexing import Indexing
from vicheck.quantities import choose_quantities, named_quantities

SIZE = 20
NUM_DRAWS = 4000
ALL = ("top", "scale", "loc", "log_likelihood")


def run(quantities=None, model=None, **options):
    """Run on a few datasets, always the same ones."""
    settings = {"num_datasets": SIZE, "chunk_size": SIZE, "num_draws": NUM_DRAWS}
    return vsbc(model or bounded_model(), quantities=quantities, **settings | options)


@pytest.fixture(scope="module")
def default():
    return run()


def probabilities(calibration, *names):
    return calibration.probabilities.sel(quantity=list(names)).to_numpy()


def test_by_default_every_parameter_and_the_likelihood(default):
    assert default.quantities == ALL
    assert default.data["exact"].to_numpy().tolist() == [True, True, True, False]
    assert default.probabilities.dims == ("dataset", "quantity")
    assert default.converged.all()


@pytest.mark.parametrize(
    ("names", "expected", "exact"),
    [
        (["loc"], ("loc",), [True]),
        (["ends"], ("ends[0]", "ends[1]"), [False, False]),
        (["ends[1]"], ("ends[1]",), [False]),
        (["ends[1]", "top"], ("top", "ends[1]"), [True, False]),
        (["log_likelihood", "top"], ("top", "log_likelihood"), [True, False]),
        (["ends[1]", "ends", "loc", "loc"], ("loc", "ends[0]", "ends[1]"), [True, False, False]),
        (("loc", "top"), ("loc", "top"), [True, True]),
    ],
)
def test_names(default, names, expected, exact):
    """Exact ones come first, none comes twice, and the numbers are those of a run with all."""
    found = run(names)
    assert found.quantities == expected
    assert found.data["exact"].to_numpy().tolist() == exact
    same = [name for name in expected if name in ("top", "scale", "loc")]
    np.testing.assert_array_equal(probabilities(found, *same), probabilities(default, *same))
    assert ((found.probabilities > 0.0) & (found.probabilities < 1.0)).all()


def test_elements_of_an_array():
    every = run(["theta"], independent_model(), fit=draw_exactly)
    some = run(["theta[3]", "theta[1]"], independent_model(), fit=draw_exactly)
    assert every.quantities == ("theta[0]", "theta[1]", "theta[2]", "theta[3]")
    assert some.quantities == ("theta[3]", "theta[1]")
    # ranks among 19 draws: the rest is random
    ranks = np.floor(20 * probabilities(every, "theta[3]", "theta[1]"))
    np.testing.assert_array_equal(np.floor(20 * some.probabilities), ranks)


def test_a_bound_above_does_not_turn_the_direction(default):
    """By the exact distribution function and by draws of the parameters on their own scale.

    A share of 4000 draws has a standard error of at most 0.008: four of them are allowed.
    """
    by_draws = run({name: lambda theta, name=name: theta[name] for name in ("top", "scale", "loc")})
    assert not by_draws.data["exact"].any()
    exact = probabilities(default, "top", "scale", "loc")
    np.testing.assert_allclose(by_draws.probabilities, exact, atol=0.032)
    assert np.ptp(exact, axis=0).min() > 0.5  # else they would agree by chance


def test_functions_of_parameters_and_of_data(default):
    def with_data(theta, data):
        mean = theta["top"] + jnp.arange(3.0) * theta["loc"]
        return dist.Normal(mean, theta["scale"]).log_prob(data["y"]).sum()

    found = run(
        {
            "top": lambda theta: theta["top"],
            "ends": lambda theta: jnp.array([1.0, -1.0]) * theta["scale"] + theta["top"],
            "grid": lambda theta: theta["loc"] * jnp.ones((2, 2)),
            "likelihood": with_data,
        }
    )
    grid = [f"grid[{i}, {j}]" for i in (0, 1) for j in (0, 1)]
    assert found.quantities == ("top", "ends[0]", "ends[1]", *grid, "likelihood")
    # Ranks among the same draws; ties and gaps are broken by other random numbers.
    same = np.floor((NUM_DRAWS + 1) * probabilities(found, "likelihood"))
    ranks = np.floor((NUM_DRAWS + 1) * probabilities(default, "log_likelihood"))
    np.testing.assert_array_equal(same, ranks)
    ends = run(["ends"])
    np.testing.assert_array_equal(
        np.floor((NUM_DRAWS + 1) * probabilities(found, "ends[0]", "ends[1]")),
        np.floor((NUM_DRAWS + 1) * probabilities(ends, "ends[0]", "ends[1]")),
    )


def test_a_default_of_a_function_is_no_place_for_data():
    """A loop makes functions like these."""
    found = run({f"{k} loc": lambda theta, k=k: k * theta["loc"] for k in (1.0, -1.0)})
    p = found.probabilities.to_numpy()
    np.testing.assert_allclose(p[:, 0] + p[:, 1], 1.0, atol=2 / NUM_DRAWS)


def test_the_other_direction_has_the_other_probability(default):
    found = run({"minus": lambda theta: -theta["loc"]})
    np.testing.assert_allclose(found.probabilities, 1.0 - probabilities(default, "loc"), atol=0.032)


def test_a_whole_number_is_a_quantity():
    """Few values and many ties: broken at random, so that calibration stays visible."""
    found = run({"positive": lambda theta: (theta["loc"] > 0.0).astype(int)})
    assert ((found.probabilities > 0.0) & (found.probabilities < 1.0)).all()
    assert len(np.unique(found.probabilities)) == SIZE


def test_a_value_that_is_nan_somewhere_is_nan_there_alone():
    def root(theta):
        return jnp.array([jnp.log(theta["loc"]), theta["loc"]])

    found = run({"root": root}, num_draws=10)
    logarithm, itself = found.probabilities.to_numpy().T
    assert np.isnan(logarithm).any()
    assert np.isfinite(itself).all()
    assert found.tests.loc["root[1]", "num_datasets"] == SIZE
    assert found.tests.loc["root[0]", "num_datasets"] == np.isfinite(logarithm).sum()


def shares(y=None):
    """Three shares that add up to one: two entries of z, and no element depends on one alone."""
    p = numpyro.sample("p", dist.Dirichlet(np.ones(3)))
    numpyro.sample("y", dist.Categorical(p).expand([20]).to_event(1), obs=y)


@pytest.mark.slow
def test_elements_that_are_tied_together_are_ranked_among_draws():
    """The posterior is a Dirichlet: exact draws through fit= know nothing of our entries of z."""

    def exactly(data, seed):
        counts = np.bincount(data["y"], minlength=3)
        return {"p": np.random.default_rng(seed).dirichlet(1.0 + counts, NUM_DRAWS)}

    model = vicheck.from_numpyro(shares)
    ours, theirs = run(["p"], model), run(["p"], model, fit=exactly)
    assert ours.quantities == theirs.quantities == ("p[0]", "p[1]", "p[2]")
    assert not ours.data["exact"].any()
    assert ours.converged.all()
    np.testing.assert_allclose(ours.probabilities, theirs.probabilities, atol=0.1)


def failing(theta):
    return theta["nothing"]


@pytest.mark.parametrize(
    ("quantities", "error", "message"),
    [
        ("loc", TypeError, "quantities must be a list of names, got the string 'loc'"),
        (7, TypeError, "must be a list of names or a dictionary of functions, got int"),
        ([], ValueError, "quantities must hold at least one name or function, got none"),
        ({}, ValueError, "quantities must hold at least one name or function, got none"),
        (["tau"], ValueError, "has 'tau', but the model has: top, scale, loc, ends, log_likel"),
        (["ends[2]"], ValueError, r"quantities has 'ends\[2\]', but the model has"),
        ([lambda theta: 1.0], TypeError, "a function in it: functions go in a dictionary"),
        ({"a": 1.0}, TypeError, r"quantities\['a'\] must be a function, got float"),
        ({"a": failing}, ValueError, "'a'.* fails on the parameters of one draw: KeyError"),
        ({"a": lambda: 1.0}, ValueError, "'a'.* fails on the parameters of one draw: TypeError"),
        ({"a": lambda theta: "high"}, ValueError, "'a'.* fails on .*high"),
        ({"a": lambda theta: None}, ValueError, "'a'.* fails on "),
        ({"a": lambda theta: float(theta["loc"])}, ValueError, "'a'.* written in JAX.*Concretiz"),
        ({"a": lambda theta: np.exp(theta["loc"])}, ValueError, "'a'.*use jax.numpy in place of"),
        ({"a": lambda theta: theta["loc"] + 1j}, ValueError, "'a'.* must return numbers.* complex"),
        ({"a": lambda theta: jnp.zeros(0)}, ValueError, "'a'.* must return numbers.* shape .0,"),
    ],
)
def test_what_is_no_quantity(quantities, error, message):
    """Refused before anything is simulated."""
    with pytest.raises(error, match=message):
        run(quantities)


def test_truth_values_count_as_numbers():
    found = run({"above": lambda theta: theta["loc"] > 0.0})
    assert found.quantities == ("above",)
    assert ((found.probabilities > 0.0) & (found.probabilities < 1.0)).all()


def test_spaces_after_commas_do_not_matter():
    functions = {"grid": lambda theta: theta["loc"] * jnp.ones((2, 2))}
    model = bounded_model()
    names = choose_quantities(
        model, model.program.without_observations(model.data), functions
    ).names
    assert names == ("grid[0, 0]", "grid[0, 1]", "grid[1, 0]", "grid[1, 1]")
    for spelled in ("x[0,1]", "x[0, 1]", "x[0,  1]"):
        (found,) = named_quantities(
            [spelled], {"x": (2, 2)}, Indexing.PYTHON, False, owner="the draws"
        )
        assert (found.name, found.array, found.element) == ("x[0, 1]", "x", 1)


@pytest.mark.parametrize(
    ("indexing", "asked", "elements"),
    [
        (Indexing.PYTHON, "x[2]", "from x[0] to x[1]"),
        (Indexing.STAN, "x[0]", "from x[1] to x[2]"),
        (Indexing.STAN, "S[0, 0]", "from S[1,1] to S[2,2]"),
    ],
)
def test_an_element_that_is_not_there_is_refused_with_those_that_are(indexing, asked, elements):
    shapes = {"x": (2,), "S": (2, 2)}
    with pytest.raises(ValueError, match=re.escape(f"the elements of {asked[0]} go {elements}")):
        named_quantities([asked], shapes, indexing, False, owner="the draws")


def test_without_exact_marginals_everything_is_ranked():
    model = bounded_model()
    data = model.program.without_observations(model.data)
    ranked = choose_quantities(model, data, None, exact=False)
    assert ranked.names == ranked.drawn_names == ALL
    assert choose_quantities(model, data, None).exact_names == ALL[:3]
