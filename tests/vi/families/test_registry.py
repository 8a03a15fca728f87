"""The list of families: names, limits, ranks, and what comes next."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.vi.curvature import Curvature
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.families.registry import (
    Kind,
    entry_of,
    family_names,
    kind_of,
    others_for,
    register,
    richer_than,
    unregister,
)
from vicheck.vi.solvers.deterministic.noise import FEWEST
from vicheck.vi.solvers.deterministic.solver import Deterministic
from vicheck.vi.solvers.registry import solver_names

KIND_ERRORS = {
    "name": (("normal", 3, None), "family must be one of mean_field, full_rank, low_rank"),
    "rank elsewhere": (("mean_field", 3, 2), "rank goes with family='low_rank', got"),
    "rank zero": (("low_rank", 3, 0), "rank must lie between 1 and the 3 parameters, got 0"),
    "rank no number": (("low_rank", 3, "2"), "rank must be an integer, got '2'"),
    "rank too large": (("low_rank", 3, 4), "rank must lie between 1 and the 3 parameters, got 4"),
    "too many": (("full_rank", 5000, None), "at most 2000 parameters, the model has 5000"),
}


@pytest.mark.parametrize("case", KIND_ERRORS)
def test_errors_of_kind_of(case):
    arguments, message = KIND_ERRORS[case]
    with pytest.raises(ValueError, match=message):
        kind_of(*arguments)


def test_kinds():
    assert kind_of("low_rank", 3, None) == Kind(entry_of("low_rank"), 3)
    assert kind_of("low_rank", 30, None) == Kind(entry_of("low_rank"), 5)
    assert kind_of("low_rank", 30, 2).noise_dim(30) == 32
    assert kind_of("mean_field", 3, None).noise_dim(3) == 3


def test_what_is_written_about_fit_names_the_families_and_solvers_of_the_lists():
    parameters = vicheck.fit.__doc__.split("\n    seed\n")[0]
    families, solvers = parameters.split("\n    family\n")[1].split("\n    solver\n")
    assert tuple(dict.fromkeys(re.findall(r'``"(\w+)"``', families))) == family_names()
    assert tuple(re.findall(r'``"(\w+)"``', solvers)) == solver_names()
    page = (Path(__file__).parents[3] / "docs" / "fit.md").read_text()
    table = page.partition("| `family=` |")[2].partition("\n\n")[0]
    assert {*re.findall(r'^\| `"(\w+)"`', table, re.MULTILINE)} == {*family_names()}
    defaults = inspect.signature(vicheck.fit).parameters
    assert defaults["family"].default == family_names()[0]
    assert defaults["solver"].default == solver_names()[0]


def test_every_family_is_where_the_list_says():
    for name in family_names():
        family = entry_of(name).load()
        assert family.__module__ == f"vicheck.vi.families.{name}"
        assert kind_of(name, 4, None).shapes(4).dim == 4
        assert entry_of(name).summary
    assert entry_of("full_rank").load() is FullRank


def test_the_list_loads_no_jax():
    code = (
        "import sys; from vicheck.vi.families.registry import family_names, richer_than;"
        "from vicheck.vi.solvers.registry import solver_names;"
        "print(family_names(), richer_than('mean_field', 9), solver_names(), 'jax' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == (
        "('mean_field', 'full_rank', 'low_rank', 'bent') full_rank "
        "('deterministic', 'stochastic', 'stan_advi') False"
    )


def test_others_for_a_dimension():
    assert others_for(2000) == "'low_rank', 'full_rank' or 'mean_field'"
    assert others_for(2001) == "'low_rank' or 'mean_field'"


def test_the_first_number_of_draws_follows_family_and_dimension():
    for dim in (1, 17, 200, 5000):
        assert kind_of("mean_field", dim, None).num_draws(dim) == FEWEST
    for dim, draws in {1: 32, 8: 32, 9: 64, 16: 64, 17: 128, 101: 512, 200: 1024}.items():
        assert kind_of("full_rank", dim, None).num_draws(dim) == draws
    assert kind_of("low_rank", 11, 5).num_draws(11) == 64
    assert kind_of("low_rank", 12, 5).num_draws(12) == 128
    assert kind_of("low_rank", 5000, 5).num_draws(5000) == 64
    assert kind_of("low_rank", 5000, 100).num_draws(5000) == 1024


def test_the_family_to_try_next_is_one_that_can_be_fitted():
    assert richer_than("mean_field", 2000) == "full_rank"
    assert richer_than("mean_field", 2001) == "low_rank"
    assert richer_than("low_rank", 2000) == "full_rank"
    assert richer_than("low_rank", 2001) == ""
    assert richer_than("full_rank", 3) == ""


@pytest.mark.parametrize("module", ["gaussian", "mean_field", "full_rank", "low_rank"])
def test_no_other_room_knows_gaussian_families(module):
    package = Path(vicheck.__file__).parent
    users = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(rf"import .*\b{module}\b|families\.{module}\b", path.read_text("utf-8"))
    ]
    # An adapter says which of our families the Gaussian of its library is; a chart belongs to its
    # family.
    outside = ("adapters/", "vi/charts/")
    rooms = {user.rpartition("/")[0] for user in users if not user.startswith(outside)}
    assert rooms == {"vi/families"}


class Diagonal(FullRank):
    """Of the user's, and written for one fit at a time."""

    @classmethod
    def start(cls, z, curvature, shrink=1.0):
        (dim,) = z.shape
        return cls(z, shrink * np.diag(curvature.precisions[:dim] ** -0.5))


@pytest.fixture
def diagonal():
    register("diagonal", Diagonal)
    yield
    unregister("diagonal")


@pytest.mark.usefixtures("diagonal")
@pytest.mark.parametrize(
    ("name", "dense"),
    [
        *((name, True) for name in ("mean_field", "full_rank", "low_rank", "diagonal")),
        *((name, False) for name in ("mean_field", "low_rank", "diagonal")),
    ],
)
def test_starts_of_several_fits_are_those_of_each(name, dense):
    """Whether its Hessian is known or only the diagonal; scales are shrunk by a factor of each."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(3, 4, 4) if dense else (3, 4))
    curvature = Curvature(directions, np.exp(rng.normal(size=(3, 4))))
    z, shrink = rng.normal(size=(3, 4)), np.array([1.0, 0.01, 0.5])
    kind = kind_of(name, 4, None)
    with double_precision():
        together = kind.starts(z, curvature, shrink)
        for i in range(3):
            one = Curvature(directions[i], curvature.precisions[i])
            alone = kind.start(z[i], one, shrink[i])
            pairs = zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True)
            for found, expected in pairs:
                np.testing.assert_allclose(found[i], expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("diagonal")
def test_a_family_derived_from_one_of_vichecks_own_is_fitted():
    """One fit and several: with its own start, and moved as JAX says."""
    model = vicheck.from_log_density(
        lambda x, data: -0.5 * (((x - data["mean"]) / np.array([0.1, 20.0])) ** 2).sum(),
        np.zeros(2),
        data={"mean": np.array([3.0, -40.0])},
    )
    fit = vicheck.fit(model, family="diagonal", num_starts=1)
    assert fit.converged
    assert type(fit.q) is Diagonal
    np.testing.assert_allclose(fit.mean, [3.0, -40.0], rtol=1e-2)
    np.testing.assert_allclose(fit.sd, [0.1, 20.0], rtol=1e-2)
    means = np.array([[3.0, -40.0], [-1.0, 7.0], [0.0, 0.0]])
    with double_precision():
        solved = Deterministic(num_restarts=0).solve_many(
            model.program, kind_of("diagonal", 2, None), {}, {"mean": means}, np.arange(3)
        )
    assert {status.name for status in solved.status} == {"CONVERGED"}
    np.testing.assert_allclose((solved.q.loc - means) / [0.1, 20.0], 0.0, atol=0.05)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("advi", "mean_field"),
        ("meanfield", "mean_field"),
        ("mean-field", "mean_field"),
        ("fullrank", "full_rank"),
        ("fullrank_advi", "full_rank"),
        ("lowrank", "low_rank"),
    ],
)
def test_families_go_by_the_names_that_others_have(alias, name):
    assert entry_of(alias).name == name
    assert kind_of(alias, 3, None).name == name


def test_a_name_that_others_have_for_a_family_cannot_be_registered():
    class Own(MeanField):
        pass

    with pytest.raises(ValueError, match="what others call 'mean_field'"):
        register("advi", Own)
