"""Models in Stan: compiled by what httpstan carries, or any object with BridgeStan's interface."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

import vicheck
from tests.cli.command_line import call
from vicheck.adapters.stan.bridge import Bridge, as_json
from vicheck.adapters.stan.compiler import compile_program, digest_of, translate
from vicheck.errors import MissingExtraError, ModelError
from vicheck.model import double_precision
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred, eight_schools_noncentred

PROGRAM = Path(__file__).parents[2] / "docs" / "eight_schools.stan"
SCHOOLS = {"J": 8, **{name: np.asarray(value, float) for name, value in EIGHT_SCHOOLS.items()}}
NATIVE = {1: eight_schools_centred, 0: eight_schools_noncentred}
WAYS = pytest.mark.parametrize("centred", [1, 0], ids=["centred", "non-centred"])
POINTS = np.random.default_rng(1).normal(size=(50, 10))
LOG_2 = np.log(2.0)  # Stan's Cauchy on the half-line is not normalised to it


def stan_model(centred, **options):
    return vicheck.from_stan(PROGRAM, SCHOOLS | {"centred": centred}, **options)


def native_model(centred):
    return vicheck.from_numpyro(NATIVE[centred], **EIGHT_SCHOOLS)


def normal(x, mean, sd):
    return -(((x - mean) / sd) ** 2) / 2.0 - np.log(sd * np.sqrt(2.0 * np.pi))


class InPython:
    """Eight schools, centred, with the methods of BridgeStan's interface that are asked for."""

    def param_unc_num(self):
        return 10

    def param_names(self, *, include_tp=False, include_gq=False):
        return ["mu", "tau", *(f"theta.{j + 1}" for j in range(8))]

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        return self.log_density_gradient(theta_unc, propto=propto, jacobian=jacobian)[0]

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        assert not propto
        assert jacobian
        mu, tau, theta = theta_unc[0], np.exp(theta_unc[1]), theta_unc[2:]
        y, sigma = SCHOOLS["y"], SCHOOLS["sigma"]
        from_mu, from_y = (theta - mu) / tau**2, (theta - y) / sigma**2
        value = (
            normal(mu, 0.0, 5.0) + normal(theta, mu, tau).sum() + normal(y, theta, sigma).sum()
            + np.log(2.0 / (np.pi * 5.0 * (1.0 + (tau / 5.0) ** 2))) + np.log(tau)
        )  # fmt: skip
        by_log_tau = 1.0 - 2.0 * tau**2 / (25.0 + tau**2) - 8.0 + ((theta - mu) ** 2).sum() / tau**2
        return value, np.array([from_mu.sum() - mu / 25.0, by_log_tau, *(-from_mu - from_y)])

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, rng=None):
        theta = np.array(theta_unc)
        theta[1] = np.exp(theta[1])
        return theta

    def param_unconstrain(self, theta):
        z = np.array(theta)
        z[1] = np.log(z[1])
        return z


class Constraints(InPython):
    """Parameters behind other constraints: a is negative, b and c depend on each other."""

    def param_unc_num(self):
        return 3

    def param_names(self, *, include_tp=False, include_gq=False):
        return ["a", "bc.1", "bc.2"] + (["d"] if include_tp else [])

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, rng=None):
        a, b, c = theta_unc
        found = [-np.exp(a), b, b + np.exp(c)]
        return np.array([*found, a + b] if include_tp else found)


@WAYS
def test_the_density_is_that_of_the_same_model_in_numpyro(centred):
    difference = stan_model(centred).log_density(POINTS) - native_model(centred).log_density(POINTS)
    np.testing.assert_allclose(difference, -LOG_2, atol=1e-11)


@pytest.mark.slow
@WAYS
def test_gradient_and_curvature_are_those_of_the_same_model_in_numpyro(centred):
    ours, native = stan_model(centred), native_model(centred)

    def curvature(model):
        slope = jax.grad(lambda z: model.program.log_density(z, model.data))
        gradient, product = jax.linearize(slope, POINTS[0])
        return gradient, product(POINTS[1])

    with double_precision():
        found, expected = curvature(ours), curvature(native)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-5)


@WAYS
def test_parameters_go_there_and_back(centred):
    model = stan_model(centred)
    theta = model.constrain(POINTS)
    assert list(theta) == ["mu", "tau", "eta", "theta"]
    assert theta["theta"].shape == (50, 8)
    expected = theta["eta"] if centred else (
        theta["mu"][:, None] + theta["tau"][:, None] * theta["eta"]
    )  # fmt: skip
    np.testing.assert_allclose(theta["theta"], expected, rtol=1e-12)
    back = model.unconstrain({name: array[3] for name, array in theta.items()})
    np.testing.assert_allclose(back, POINTS[3], atol=1e-12)
    assert model.coordinates == ("mu", "tau", *(f"eta[{j}]" for j in range(1, 9)))


@WAYS
def test_the_same_q_has_the_same_khat(centred):
    fitted = vicheck.fit(stan_model(centred), num_starts=1)
    assert fitted.elbo + LOG_2 == pytest.approx(vicheck.fit(native_model(centred)).elbo, abs=0.02)
    checked = vicheck.check(fitted, num_draws=5000)
    draws = checked.draws
    z = np.column_stack([draws["mu"], np.log(draws["tau"]), draws["eta"]])
    log_q = stats.norm(fitted.q.loc, np.exp(fitted.q.log_scale)).logpdf(z).sum(axis=1)
    native = vicheck.psis(native_model(centred).log_density(z) - log_q)
    assert checked.khat == pytest.approx(native.khat, abs=1e-6)


def simulate(rng, data):
    mu, tau = rng.normal(0.0, 5.0), abs(5.0 * rng.standard_cauchy())
    eta = rng.normal(mu, tau, size=8)
    return {"mu": mu, "tau": tau, "eta": eta, "y": rng.normal(eta, data["sigma"])}


@pytest.mark.slow
@pytest.mark.parametrize("simulator", [None, simulate], ids=["in Stan", "in Python"])
def test_vsbc_finds_the_bias_of_tau_and_gives_the_same_bits(simulator):
    model = stan_model(1, simulator=simulator)
    options = {"num_datasets": 48, "quantities": ["mu", "tau"], "progress": False}
    found = vicheck.vsbc(model, **options)
    assert found.tests.loc["tau", "direction"] == "over"
    assert found.tests.loc["mu", "direction"] == "none"
    if simulator is None:
        again = vicheck.vsbc(stan_model(1), **options)
        np.testing.assert_array_equal(found.probabilities, again.probabilities)


@pytest.mark.slow
def test_simulated_data_follow_the_prior():
    simulated = [stan_model(0).simulate(seed) for seed in range(100)]
    tau = np.exp([z[1] for z, _ in simulated])
    assert stats.kstest(tau, stats.halfcauchy(scale=5.0).cdf).pvalue > 1e-3
    noise = [(data["y"] - z[0] - np.exp(z[1]) * z[2:]) / SCHOOLS["sigma"] for z, data in simulated]
    assert stats.kstest(np.ravel(noise), stats.norm.cdf).pvalue > 1e-3


def test_observed_data_may_be_missing_where_python_simulates_them():
    data = {name: value for name, value in SCHOOLS.items() if name != "y"} | {"centred": 1}
    model = vicheck.from_stan(PROGRAM, data, simulator=simulate)
    assert model.missing == ("y",)
    given = model.given({"y": SCHOOLS["y"]})
    assert given.log_density(POINTS[0]) == stan_model(1).log_density(POINTS[0])


def test_what_is_simulated_is_observed():
    """Under any name: what generated quantities draw, or what a function returns."""
    assert stan_model(1).observed == ("y",)
    assert stan_model(1, simulator=simulate).observed == ("y",)
    assert stan_model(1, simulator={"sigma": "y_sim"}).observed == ("sigma", "y")

    def other_errors(rng, data):
        errors = {"sigma": np.full(8, 3.0)}
        return simulate(rng, data | errors) | errors | {"unknown": 1.0}

    model = stan_model(1, simulator=other_errors)
    assert model.observed == ("sigma", "y")
    np.testing.assert_array_equal(model.simulate(0)[1]["sigma"], np.full(8, 3.0))


def test_a_program_that_would_simulate_nothing_is_refused():
    with pytest.raises(ModelError, match="cannot simulate data: give from_stan a simulator="):
        stan_model(1, observed=()).simulate(0)
    with pytest.raises(ModelError, match="'log_radon' is to be simulated, but the data are: J, "):
        stan_model(1, observed=("log_radon",))


def test_other_data_need_no_new_program():
    model = stan_model(1)
    moved = model.given({"y": SCHOOLS["y"] + 1.0})
    native = native_model(1).given({"y": SCHOOLS["y"] + 1.0})
    assert moved.program == model.program
    assert moved.log_density(POINTS[0]) + LOG_2 == pytest.approx(native.log_density(POINTS[0]))


def test_programs_are_told_apart_by_their_text():
    code = translate(PROGRAM)
    assert stan_model(1).program.identity == digest_of(code)
    assert digest_of(code) != digest_of(code + " ")


def test_what_a_program_includes_is_part_of_it(tmp_path):
    program, part = tmp_path / "main.stan", tmp_path / "part.stan"
    program.write_text("parameters { real mu; }\nmodel {\n#include part.stan\n}\n")
    part.write_text("mu ~ normal(0, 1);\n")
    before = translate(program)
    part.write_text("mu ~ normal(0, 2);\n")
    assert translate(program) != before
    assert sorted(tmp_path.iterdir()) == [program, part]


def test_any_object_with_the_interface_of_bridgestan():
    model = vicheck.from_stan(InPython())
    assert model.coordinates == ("mu", "tau", *(f"theta[{j}]" for j in range(1, 9)))
    fitted, native = vicheck.fit(model, num_starts=1), vicheck.fit(native_model(1), num_starts=1)
    assert fitted.elbo == pytest.approx(native.elbo, abs=1e-3)


def test_the_bridge_itself_has_the_interface_of_bridgestan():
    bridge = Bridge(str(compile_program(PROGRAM)), SCHOOLS | {"centred": 1})
    model = vicheck.from_stan(bridge)
    assert model.log_density(POINTS[0]) == stan_model(1).log_density(POINTS[0])
    value, gradient = bridge.log_density_gradient(POINTS[0])
    assert value == bridge.log_density(POINTS[0])
    assert gradient.shape == (10,)
    generated = bridge.param_constrain(POINTS[0], include_gq=True, rng=bridge.new_rng(3))
    assert len(generated) == len(bridge.param_names(include_gq=True))
    with pytest.raises(ValueError, match="all constants and the Jacobian"):
        bridge.log_density(POINTS[0], propto=True)


def test_constraints_are_seen_from_outside():
    program = vicheck.from_stan(Constraints()).program
    assert program.layout == (("a", ()), ("bc", (2,)))
    assert program.is_elementwise("a")
    assert program.is_decreasing("a")
    assert not program.is_elementwise("bc")
    assert not program.is_decreasing("bc")


class HangingBounds(Constraints):
    """a falls with z, and is a bound of the first of bc, which rises with z then."""

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, rng=None):
        a, b, c = theta_unc
        found = [5.0 - np.exp(a), np.exp(b) - 5.0 + np.exp(a), c]
        return np.array([*found, a + b] if include_tp else found)


def test_bounds_that_hang_on_a_parameter_do_not_change_its_direction():
    program = vicheck.from_stan(HangingBounds()).program
    assert program.is_decreasing("a")
    assert program.is_elementwise("a")
    assert not program.is_elementwise("bc")


def test_data_from_a_file(tmp_path):
    path = tmp_path / "schools.json"
    path.write_text(as_json(SCHOOLS | {"centred": True}))
    model = vicheck.from_stan(PROGRAM, path)
    assert model.log_density(POINTS[0]) == stan_model(1).log_density(POINTS[0])


def test_a_point_that_stan_rejects_has_no_density():
    bridge = Bridge(str(compile_program(PROGRAM)), SCHOOLS | {"centred": 1})
    values, gradients = bridge.log_density_gradients(np.full((1, 10), -1e4))  # tau is 0
    assert values[0] == -np.inf
    assert np.isnan(gradients).all()
    assert "normal_lpdf" in bridge.message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": None}, "variable name=sigma"),
        ({"sigma": -np.ones(8)}, "sigma"),
        ({"J": 7}, "dims declared"),
        ({"y": [np.nan] * 8}, "y must be finite"),
    ],
)
def test_data_that_do_not_fit(change, message):
    data = {k: v for k, v in (SCHOOLS | {"centred": 1} | change).items() if v is not None}
    with pytest.raises(ModelError, match=message):
        vicheck.from_stan(PROGRAM, data)


def test_data_of_other_sizes_need_a_new_model():
    longer = {"J": 9, "y": np.zeros(9), "sigma": np.ones(9)}
    with pytest.raises(ModelError, match="11 unconstrained parameters, before 10"):
        stan_model(1).given(longer)


def test_a_program_with_a_mistake(tmp_path):
    path = tmp_path / "wrong.stan"
    path.write_text("parameters { real mu; }\nmodel { mu ~ norml(0, 1); }\n")
    with pytest.raises(ModelError, match=r"wrong\.stan cannot be compiled by stanc:[\s\S]*norml"):
        vicheck.from_stan(path)


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (3, TypeError, "path of a .stan file or an object .* got int without log_density"),
        ("model.py", ModelError, "must be the path of a .stan file"),
        ("nowhere.stan", FileNotFoundError, "nowhere"),
    ],
)
def test_what_is_no_program(program, error, message):
    with pytest.raises(error, match=message):
        vicheck.from_stan(program)


def test_an_object_has_its_data_already():
    with pytest.raises(ModelError, match="give from_stan the path"):
        vicheck.from_stan(InPython(), {"y": [1.0]})


def test_without_a_simulator_there_is_no_vsbc():
    with pytest.raises(ModelError, match="give from_stan a simulator="):
        vicheck.vsbc(vicheck.from_stan(InPython()), num_datasets=2)


@pytest.mark.parametrize(
    ("simulator", "message"),
    [
        (lambda rng, data: {"mu": 0.0}, "returned mu, of which nothing is data of the program"),
        (lambda rng, data: 3, "must return parameters and observed data by name, got int"),
        ({"tau": "nothing"}, "no nothing"),
    ],
)
def test_simulators_that_do_not_fit(simulator, message):
    with pytest.raises(ModelError, match=message):
        stan_model(1, simulator=simulator)


def test_without_httpstan_the_command_is_named(monkeypatch):
    monkeypatch.setattr("vicheck.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'vicheck\[stan\]'"):
        vicheck.from_stan(PROGRAM, SCHOOLS)


def test_without_a_compiler_it_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ModelError, match=r"install g\+\+, or set CXX"):
        vicheck.from_stan(PROGRAM, SCHOOLS)


def test_the_command_line_takes_a_program(tmp_path):
    data = tmp_path / "schools.json"
    data.write_text(as_json(SCHOOLS | {"centred": 0}))
    done = call("check", PROGRAM, "--data", data, "--draws", "2000", "--json")
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert answer["convergence"]["status"] == "CONVERGED"
    assert "tau" in answer["moments"]
    missing = call("check", "nowhere.stan")
    assert missing.returncode == 66
    assert missing.stderr.startswith("vicheck: cannot read nowhere.stan: No such file")
