"""Short chains in checks: nothing where nothing is wrong, and the right sign and size elsewhere."""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import distributions as dist

import vicheck
from tests.checking.problems import narrow_model, on_host
from vicheck.draws import Draws
from vicheck.model import Model, Program, double_precision, unravel
from vicheck.paper import models
from vicheck.results.check import Check
from vicheck.runtime import interrupts
from vicheck.vi.families.mean_field import MeanField


def normal(x, data):
    """Independent normals."""
    return -0.5 * jnp.sum(((x - data["mean"]) / data["sd"]) ** 2)


def normal_model(dim=3, mean=0.0, sd=1.0):
    parts = {"mean": mean, "sd": sd}
    data = {name: np.broadcast_to(np.asarray(part, float), dim) for name, part in parts.items()}
    return vicheck.from_log_density(normal, np.zeros(dim), data=data)


def fit_with(model, mean=0.0, sd=1.0):
    """Return a fit of a model whose q is what it is told to be."""
    fit = vicheck.fit(model)
    with double_precision():
        q = MeanField(
            jnp.broadcast_to(jnp.asarray(mean, float), model.dim),
            jnp.log(jnp.broadcast_to(jnp.asarray(sd, float), model.dim)),
        )
    return replace(fit, solution=replace(fit.solution, q=q))


def codes(checked):
    return {each.code for each in checked.findings if each.code.startswith("chains")}


@pytest.fixture(scope="module")
def exact():
    """A fit that is the posterior."""
    return fit_with(normal_model())


def test_no_false_alarms(exact):
    """Of 60 checks of an exact q, at a nominal 1%, three would be false once in 3000 times.

    Drifts in units of their errors, 180 of them, are standard normal.
    """
    alarms, drifts = 0, []
    for seed in range(60):
        checked = vicheck.check(exact, num_draws=4000, seed=seed)
        chains = checked.chains
        assert chains.num_chains == 1024
        assert (chains.drift_error < 0.05).all()
        alarms += codes(checked) != {"chains-agree"}
        drifts.append(chains.drift / chains.drift_error)
    assert alarms < 3
    assert np.std(drifts) == pytest.approx(1.0, abs=0.2)
    assert abs(np.mean(drifts)) < 0.3


@pytest.mark.parametrize(
    ("mean", "sd"), [(0.5, 1.0), (-1.5, 1.0), (0.0, 0.3), (0.0, 3.0), (1.0, 0.5)]
)
def test_chains_move_towards_the_truth(mean, sd):
    checked = vicheck.check(fit_with(normal_model(), mean, sd), num_draws=20_000)
    chains = checked.chains
    # By however much the starts are off, weighted or not, the ends are not.
    assert (np.abs(chains.end_mean) < 5 * np.maximum(chains.drift_error, 0.01)).all()
    np.testing.assert_allclose(chains.end_sd, 1.0, atol=0.1)
    found = chains.from_q
    np.testing.assert_allclose(found.shift, -mean, atol=0.15)
    np.testing.assert_allclose(found.growth, -np.log(sd), atol=0.15)
    assert codes(checked) & {"chains-drift", "chains-drift-weighted"}
    assert checked.verdict.level != "good"
    assert str(checked.verdict.chains_agree) == "no"
    assert str(checked.verdict.close) == "no"


def test_weighted_starts_are_corrected_and_plain_ones_are_not():
    wide = vicheck.check(fit_with(normal_model(), sd=2.0))
    assert wide.khat < 0.5
    assert wide.chains.starts == "weighted"
    np.testing.assert_allclose(wide.chains.start_sd, 1.0, atol=0.1)
    assert codes(wide) == {"chains-drift"}
    assert wide.verdict.level == "usable"
    (finding,) = [each for each in wide.findings if each.code == "chains-drift"]
    assert "stay with the weighted draws of q, but leave the plain ones" in str(finding)
    assert str(wide.verdict.weights_work) == "yes"
    narrow = vicheck.check(fit_with(normal_model(), sd=0.3))
    assert narrow.khat > 0.7
    assert narrow.chains.starts == "q"
    np.testing.assert_allclose(narrow.chains.start_sd, 0.3, atol=0.03)
    assert narrow.verdict.decided_by == "khat-high"
    assert codes(narrow) == {"chains-drift"}


def test_the_sign_and_the_name_are_those_of_the_worst():
    model = normal_model(mean=np.array([0.0, 0.0, 0.6]))
    checked = vicheck.check(fit_with(model), num_draws=20_000)
    (finding,) = [each for each in checked.findings if each.code == "chains-drift"]
    assert finding.evidence["quantity"] == "x[2]"
    assert finding.evidence["size"] == pytest.approx(0.6, abs=0.1)
    assert "the mean of x[2] rises by 0." in str(finding)
    assert finding.evidence["others"] == 0


def test_one_wrong_coordinate_among_many_where_khat_is_of_no_use():
    """Scales of q are a little off: khat is high, and only one mean is wrong."""
    dim = 200
    wrong = np.zeros(dim)
    wrong[7] = -0.8
    sd = np.exp(np.random.default_rng(1).normal(scale=0.15, size=dim))
    model = normal_model(dim)
    checked = vicheck.check(fit_with(model, wrong, sd), num_draws=10_000)
    assert checked.khat > 0.7
    (finding,) = [each for each in checked.findings if each.code == "chains-drift"]
    assert finding.evidence["quantity"] == "x[7]"
    assert finding.evidence["moment"] == "mean"
    assert 0.4 < finding.evidence["size"] < 1.0
    right = vicheck.check(fit_with(model), num_draws=10_000)
    assert codes(right) == {"chains-agree"}


@pytest.fixture(scope="module")
def schools():
    return {
        name: vicheck.fit(vicheck.from_numpyro(function, **models.EIGHT_SCHOOLS))
        for name, function in (
            ("centred", models.eight_schools_centred),
            ("noncentred", models.eight_schools_noncentred),
        )
    }


def log_tau(theta):
    return jnp.log(theta["tau"])


def tau(theta):
    return theta["tau"]


@pytest.mark.parametrize("seed", range(3))
def test_centred_schools_drift_down_the_funnel(schools, seed):
    """Exactly, tau has mean 3.6, and VI's is about 6."""
    quantities = {"log_tau": log_tau, "tau": tau}
    checked = vicheck.check(schools["centred"], quantities=quantities, seed=seed)
    row = checked.moments.loc["log_tau"]
    assert checked.chains.starts == "q"
    assert row["drift"] < -0.3
    assert row["drift"] < -8 * row["drift_error"]
    assert checked.moments.loc["tau", "drift"] < -0.1
    assert codes(checked) == {"chains-drift"}
    assert checked.moments.loc["log_tau", "use"] == "neither"


@pytest.mark.parametrize("seed", range(3))
def test_noncentred_schools_have_a_larger_tau_than_q(schools, seed):
    """From VI's 3.1 to 3.60, the exact mean of tau; weighted draws have it right already."""
    checked = vicheck.check(schools["noncentred"], seed=seed)
    chains = checked.chains
    place = chains.names.index("tau")
    assert chains.starts == "weighted"
    assert checked.moments.loc["tau", "vi_mean"] < 3.3
    assert chains.end_mean[place] == pytest.approx(3.60, abs=0.25)
    assert chains.from_q.shift[place] > 0.08
    assert abs(chains.drift[place]) < 5 * chains.drift_error[place]
    assert "chains-drift-weighted" not in codes(checked)


def test_means_are_right_under_a_joint_that_is_not():
    """Correlated normals by a mean field: only the sds are wrong, and chains say just that."""
    checked = vicheck.check(vicheck.fit(narrow_model(0.95)))
    assert checked.verdict.level == "unreliable"
    (finding,) = [each for each in checked.findings if each.code == "chains-drift"]
    assert finding.evidence["moment"] == "sd"
    assert finding.evidence["size"] == pytest.approx(-np.log(np.sqrt(1 - 0.95**2)), abs=0.3)
    assert (np.abs(checked.chains.drift) < 0.1).all()


def test_chains_that_have_arrived_vouch_for_one_mean_while_another_is_wrong():
    """A banana: its ridge has mean 0 by symmetry, and across it q is a third of an sd too low."""

    def log_density(x):
        return -0.5 * x[0] ** 2 - 0.5 * (x[1] - x[0] ** 2 + 1.0) ** 2

    fit = vicheck.fit(vicheck.from_log_density(log_density, np.zeros(2)))
    checked = vicheck.check(fit, seed=1)  # 2 of 20 seeds doubt the mean of x[0] too
    assert checked.verdict.level == "unreliable"
    assert checked.moments.loc["x[1]", "vi_mean"] == pytest.approx(-0.35 * np.sqrt(3.0), abs=0.05)
    assert checked.chains.heights.memory < 0.2
    assert checked.moments["use_mean"].to_dict() == {"x[0]": "vi", "x[1]": "neither"}


def test_a_drift_from_weighted_draws_is_not_reliable():
    """Ratios that are all about equal, of a model that is another one."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((5000, 2))
    log_q = -0.5 * (z**2).sum(axis=1)
    model = normal_model(2, mean=np.array([0.0, 0.5]))
    for noise in (0.0, 0.01):
        draws = Draws({"x": z}, log_q + noise * rng.standard_normal(5000), log_q, model=model)
        checked = vicheck.check(draws)
        assert checked.khat < 0.5
        assert checked.verdict.decided_by == "chains-drift-weighted"
        assert checked.verdict.level == "unreliable"
        assert "the mean of x[1] rises by 0." in str(checked.verdict)
        assert str(checked.verdict.weights_work) == "no"
        assert checked.moments.loc["x[1]", "use"] == "neither"
        assert checked.moments.loc["x[0]", "use"] == "vi"  # chains have arrived, and it has stayed


# ---- how many, and whether at all


def test_options(exact):
    assert vicheck.check(exact, num_draws=2000, chains=False).chains is None
    assert vicheck.check(exact, num_draws=2000, chains=64).chains.num_chains == 64
    few = vicheck.check(exact, num_draws=100).chains
    assert few.num_chains == 100  # no more than there are draws
    none = vicheck.check(exact, num_draws=20)
    assert none.chains is None
    assert any("fewer than 32 draws" in note for note in none.notes)
    without = vicheck.check(exact, num_draws=2000, chains=False)
    assert "drift" not in without.moments
    assert list(vicheck.check(exact, num_draws=2000).moments.columns[-3:]) == [
        "drift", "drift_error", "lr_sd",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("chains", "error", "message"),
    [
        (3, ValueError, "chains must be at least 32"),
        ("yes", TypeError, "chains must be True, False or a number of chains, got 'yes'"),
        (1.5, TypeError, "chains must be True, False or a number of chains, got 1.5"),
    ],
)
def test_options_that_cannot_be_used(exact, chains, error, message):
    with pytest.raises(error, match=message):
        vicheck.check(exact, num_draws=1000, chains=chains)


def test_draws_without_a_model_have_no_chains():
    z = np.random.default_rng(1).standard_normal((1000, 2))
    draws = Draws({"x": z}, np.zeros(1000), np.zeros(1000))
    assert vicheck.check(draws).chains is None
    assert not vicheck.check(draws).notes
    with pytest.raises(ValueError, match="chains needs a model with its density"):
        vicheck.check(draws, chains=True)


def test_chains_that_cost_more_than_the_check_are_left_out(exact, monkeypatch):
    monkeypatch.setattr("vicheck.chains._FREE", 0)
    dear = vicheck.check(exact, num_draws=4000)
    assert dear.chains is None
    assert any("would take longer than the check itself" in note for note in dear.notes)
    asked = vicheck.check(exact, num_draws=4000, chains=True)
    assert (asked.chains.num_chains, asked.chains.num_gradients) == (256, 32)
    monkeypatch.setattr("vicheck.chains._FREE", 2**29)
    slow = vicheck.check(exact, num_draws="auto", budget=1e-9)
    assert slow.chains is None
    assert any("would take longer than 1e-09 s" in note for note in slow.notes)


def test_the_same_seed_gives_the_same_bits(exact):
    one, two, other = (
        vicheck.check(exact, num_draws=2000, seed=seed, chains=256).chains for seed in (1, 1, 2)
    )
    assert np.array_equal(one.drift, two.drift)
    assert np.array_equal(one.rhat, two.rhat)
    assert not np.array_equal(one.drift, other.drift)


def test_ctrl_c_ends_chains(exact, monkeypatch):
    from vicheck import chains

    step = chains._step

    def pressed(*args, **kwargs):
        monkeypatch.setattr(interrupts._now, "presses", 1)
        return step(*args, **kwargs)

    monkeypatch.setattr(interrupts._now, "raised", False)
    monkeypatch.setattr(chains, "_step", pressed)
    with pytest.raises(KeyboardInterrupt):
        vicheck.check(exact, num_draws=1000)
    monkeypatch.setattr(interrupts._now, "presses", 0)


# ---- densities and fits of every kind


def test_starts_without_a_density_are_left_out_and_counted():
    """A half-normal: q has half of its draws where the density is NaN."""

    def half(x):
        return jnp.where(x[0] > 0.0, -0.5 * x[0] ** 2, jnp.nan)

    z = np.random.default_rng(1).standard_normal((4000, 1))
    log_q = -0.5 * z[:, 0] ** 2
    model = vicheck.from_log_density(half, np.ones(1))
    draws = Draws({"x": z}, np.where(z[:, 0] > 0.0, log_q, np.nan), log_q, model=model)
    chains = vicheck.check(draws).chains
    assert chains.starts == "q"
    assert chains.num_chains + chains.num_left_out == 1024
    assert chains.num_left_out == (z[:1024, 0] <= 0.0).sum()
    nowhere = vicheck.from_log_density(lambda x: jnp.nan * x[0], np.ones(1))
    lost = vicheck.check(replace(draws, model=nowhere))
    assert (lost.chains.num_chains, lost.chains.num_left_out) == (0, 1024)
    assert codes(lost) == {"chains-undecided"}
    assert str(lost.verdict.chains_agree) == "unknown"
    assert "only 0 of 1024 starts have a finite density" in str(lost)


@dataclass(frozen=True)
class HostProgram(Program):
    """A program like Stan's: only the host computes its density, JAX everything else."""

    layout: Any = (("x", (2,)),)

    def log_density(self, z, data):
        raise AssertionError("JAX was asked for the density")

    locate_trouble = check_data = log_density

    def constrain(self, z, data):
        return unravel(z, self.layout)

    def unconstrain(self, theta, data):
        return jnp.ravel(theta["x"])

    def density_on_host(self, data):
        def evaluate(z):
            away = z - data["mean"]
            return -0.5 * (away**2).sum(axis=1), -away

        return evaluate


def test_a_density_of_the_host():
    z = np.random.default_rng(1).standard_normal((4000, 2))
    log_q = -0.5 * (z**2).sum(axis=1)
    for mean, expected in ((0.0, "chains-agree"), (0.5, "chains-drift-weighted")):
        model = Model(HostProgram(), {"mean": np.array([0.0, mean])})
        checked = vicheck.check(Draws({"x": z}, log_q, log_q, model=model), chains=True)
        assert codes(checked) == {expected}
    assert checked.chains.end_mean == pytest.approx([0.0, 0.5], abs=0.1)


def test_a_host_function_inside_compiled_code():
    model = on_host(lambda z: -0.5 * (z**2).sum(axis=-1))
    checked = vicheck.check(fit_with(model), num_draws=2000, chains=64)
    assert checked.chains.num_chains == 64


def test_a_guide_of_numpyro_and_its_quantities():
    """Draws are on the parameters' own scale; chains run on the unconstrained one."""
    import numpyro

    def model(y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
        sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)

    def guide(y=None):
        numpyro.sample("mu", dist.Normal(numpyro.param("loc", 0.0), 0.14))
        numpyro.sample("sigma", dist.LogNormal(0.0, 0.1))

    y = np.random.default_rng(1).standard_normal(50)
    y = (y - y.mean()) / y.std()
    quantities = {"double": lambda theta: 2.0 * theta["mu"]}
    for loc, drift in ((0.0, 0.0), (0.3, -0.3 / 0.145)):
        checked = vicheck.check_numpyro(model, guide, {"loc": loc}, y=y, num_draws=10_000)
        assert checked.names == ("mu", "sigma")
        assert checked.chains.from_q.shift[0] == pytest.approx(drift, abs=0.15)
        other = vicheck.check_numpyro(
            model, guide, {"loc": loc}, y=y, num_draws=10_000, quantities=quantities
        )
        assert other.chains.from_q.shift[0] == pytest.approx(drift, abs=0.15)


def test_draws_whose_model_cannot_run_chains_are_checked_all_the_same():
    import jax

    def looping(x):
        return jax.lax.while_loop(lambda y: y[0] > 1e9, lambda y: y, -0.5 * x**2).sum()

    z = np.random.default_rng(1).standard_normal((1000, 2))
    log_q = -0.5 * (z**2).sum(axis=1)
    draws = Draws({"x": z}, log_q, log_q, model=vicheck.from_log_density(looping, np.zeros(2)))
    checked = vicheck.check(draws)
    assert checked.chains is None
    assert any("the model cannot run them" in note for note in checked.notes)
    with pytest.raises(ValueError, match="while_loop"):
        vicheck.check(draws, chains=True)
    absent = replace(draws, values={"y": z}, model=normal_model(2))
    assert any("the draws lack x" in note for note in vicheck.check(absent).notes)
    more = replace(draws, values={"x": z, "y": z}, model=normal_model(2))
    assert any("does not say what y would be" in note for note in vicheck.check(more).notes)


# ---- what becomes of it


def test_saved_loaded_and_shown(exact, tmp_path):
    checked = vicheck.check(exact, num_draws=4000)
    checked.save(tmp_path / "check.npz")
    loaded = Check.load(tmp_path / "check.npz")
    assert repr(loaded.chains) == repr(checked.chains)
    assert np.array_equal(loaded.chains.drift, checked.chains.drift)
    assert np.array_equal(loaded.chains.from_q.growth_p, checked.chains.from_q.growth_p)
    assert str(loaded) == str(checked)
    assert "1024 short chains of" in str(checked)
    assert "Short chains agree" in str(checked)
    assert checked.to_dict()["chains"]["num_chains"] == 1024
    page = checked.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h3>Short chains</h3>" in page
    assert "nested R-hat" in page
    without = vicheck.check(exact, num_draws=4000, chains=False)
    assert "Short chains" not in without.report(tmp_path / "other.html").read_text(encoding="utf-8")
    assert "chains" not in str(without)


def test_few_effective_draws_are_no_starts():
    """Weighted means of few are hardly known, and chains would begin at the same few draws."""
    fit = fit_with(normal_model(), sd=3.0)
    many, few = (vicheck.check(fit, num_draws=size) for size in (100_000, 4000))
    assert many.psis.ess > 1000 > few.psis.ess
    assert few.khat < few.psis.threshold
    assert (many.chains.starts, few.chains.starts) == ("weighted", "q")
    np.testing.assert_allclose(few.chains.start_sd, 3.0, atol=0.3)
    assert few.verdict.level == many.verdict.level == "usable"
