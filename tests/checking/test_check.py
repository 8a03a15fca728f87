"""`check`: the numbers behind a verdict, held against exact ones."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.stats import norm

import vicheck
from vicheck.errors import InputFileError, UnreliableWarning
from vicheck.paper import models

REFERENCE = Path(__file__).parents[1] / "reference" / "eight_schools_stan.json"


@pytest.fixture(scope="module")
def exact():
    known = json.loads(REFERENCE.read_text())["reference_moments"]["paper"]["exact_quadrature"]
    names = {f"theta{i + 1}": f"theta[{i}]" for i in range(8)} | {"mu": "mu", "tau": "tau"}
    means = {ours: known["mean"][theirs] for theirs, ours in names.items()}
    return means, known["log_evidence"]


@pytest.fixture(scope="module")
def noncentred():
    return vicheck.from_numpyro(models.eight_schools_noncentred, **models.EIGHT_SCHOOLS)


@pytest.fixture(scope="module")
def centred():
    return vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS)


@pytest.fixture(scope="module")
def checked(noncentred):
    return vicheck.check(vicheck.fit(noncentred))


def test_adjusted_moments_and_evidence_are_the_exact_ones(checked, exact):
    means, log_evidence = exact
    for name, mean in means.items():
        row = checked.moments.loc[name]
        assert abs(row["psis_mean"] - mean) < 3 * row["mcse"], name
    assert checked.log_evidence.value == pytest.approx(log_evidence, abs=0.05)
    tau = checked.moments.loc["tau"]
    assert abs(tau["vi_mean"] - means["tau"]) > 3 * tau["mcse"]
    assert tau["use"] != "vi"
    assert tau["shift"] > 0.1
    assert checked.moments.loc["theta[0]", "use"] == "psis"


def test_khat_of_the_two_parametrizations(centred, noncentred):
    """Medians over 10 seeds; 30 seeds are in docs/fit.md."""
    for model, low, high in ((centred, 0.85, 1.0), (noncentred, 0.50, 0.62)):
        khats = [vicheck.check(vicheck.fit(model, seed=s), seed=s).khat for s in range(10)]
        assert low < np.median(khats) < high


def test_a_converged_fit_with_a_high_khat_needs_another_family(centred):
    checked = vicheck.check(vicheck.fit(centred))
    assert checked.verdict.level == "unreliable"
    assert "has converged, so optimising longer will not help" in checked.verdict.hint
    assert checked.convergence.gradient.p_value > 0.01
    assert (checked.moments["use"] == "neither").any()


@pytest.mark.slow
def test_an_unconverged_fit_is_told_to_keep_optimising(centred):
    fit = vicheck.fit(centred, solver="stan_advi", iter=200, eta=0.1, tol_rel_obj=1e-9)
    checked = vicheck.check(fit, num_draws=20_000)
    assert not fit.converged
    assert checked.convergence.gradient.p_value < 0.01
    (finding,) = [each for each in checked.findings if each.code == "gradient-not-zero"]
    assert finding.hint.startswith("Keep optimising: ")
    assert checked.verdict.hint.startswith("Improve the fit first: ")


def test_moments_have_the_promised_columns_and_names(checked):
    assert list(checked.moments.columns) == [
        "vi_mean", "vi_sd", "is_mean", "is_sd", "psis_mean", "psis_sd", "mcse", "shift", "khat",
        "khat_sd", "use_mean", "use_sd", "use", "chains_mean", "chains_sd", "drift", "drift_error",
        "lr_sd",
    ]  # fmt: skip
    assert list(checked.moments.index[:3]) == ["mu", "tau", "theta_raw[0]"]
    assert "theta[7]" in checked.moments.index
    for column in ("use_mean", "use_sd", "use"):
        assert set(checked.moments[column]) <= {"vi", "psis", "neither"}


def test_khat_grows_with_the_draws_it_is_made_of(checked):
    sizes = list(checked.khat_growth)
    assert sizes == sorted(sizes)
    assert sizes[-1] == 100_000
    assert checked.khat_growth[100_000] == checked.khat
    first = vicheck.psis_khat(checked.log_ratios[: sizes[0]])
    assert checked.khat_growth[sizes[0]] == first


def test_the_same_seed_gives_the_same_bits(noncentred):
    fit = vicheck.fit(noncentred)
    one, two, other = (vicheck.check(fit, num_draws=5000, seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.log_p, two.log_p)
    assert np.array_equal(one.values, two.values)
    assert not np.array_equal(one.log_p, other.log_p)


def test_log_densities_are_those_of_the_model_and_of_q(noncentred):
    fit = vicheck.fit(noncentred)
    checked = vicheck.check(fit, num_draws=500)
    z = np.column_stack(
        [checked.draws["mu"], np.log(checked.draws["tau"]), checked.draws["theta_raw"]]
    )
    np.testing.assert_allclose(checked.log_p, noncentred.log_density(z), rtol=1e-12)
    loc, sd = fit.mean, fit.sd
    log_q = (-0.5 * ((z - loc) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))).sum(axis=1)
    np.testing.assert_allclose(checked.log_q, log_q, rtol=1e-10)


def test_quantities_by_name_and_by_function(noncentred):
    fit = vicheck.fit(noncentred)
    picked = vicheck.check(fit, num_draws=2000, quantities=["tau", "mu"])
    assert list(picked.moments.index) == ["tau", "mu"]
    made = vicheck.check(
        fit,
        num_draws=2000,
        quantities={"log_tau": lambda theta: jnp.log(theta["tau"]), "best": lambda t: t["theta"]},
    )
    assert list(made.moments.index[:2]) == ["log_tau", "best[0]"]
    np.testing.assert_allclose(made.draws["log_tau"], np.log(picked.draws["tau"]), rtol=1e-12)


def test_memory_is_bounded(noncentred, monkeypatch):
    fit = vicheck.fit(noncentred)
    whole = vicheck.check(fit, num_draws=20_000)
    monkeypatch.setattr("vicheck.evaluation.sizes._KEPT_BYTES", 8 * 18 * 3000)
    part = vicheck.check(fit, num_draws=20_000)
    assert part.khat == whole.khat
    assert part.values.shape == (3000, 18)
    assert np.array_equal(part.values, whole.values[:3000])
    assert part.moments.loc["mu", "psis_mean"] == pytest.approx(
        whole.moments.loc["mu", "psis_mean"], abs=0.5
    )
    with warnings.catch_warnings():  # so few draws may be usable in part only
        warnings.simplefilter("ignore", UnreliableWarning)
        assert len(part.resample(10)["mu"]) == 10


def test_a_mode_that_khat_cannot_see_is_reported():
    fit = vicheck.fit(vicheck.from_numpyro(models.two_modes), num_starts=10)
    checked = vicheck.check(fit, num_draws=20_000)
    assert checked.khat < 0.1
    assert checked.verdict.level == "unreliable"
    assert "misses another mode with about 20%" in str(checked.verdict)
    np.testing.assert_allclose(checked.pooled.masses, [0.8, 0.2], atol=0.01)
    assert checked.pooled.log_evidence.value == pytest.approx(0.0, abs=0.01)
    assert checked.pooled.khat < 0.5
    # Draws of q have 80% of the evidence: the error, which would be 1e-3, is what they lack.
    for found in (checked.log_evidence, checked.divergences.kl_q_p):
        assert found.mcse == pytest.approx(-np.log(0.8), abs=0.02)
        assert "other modes" in found.caution
    unsure = replace(checked, pooled=replace(checked.pooled, khat=0.9))
    assert unsure.log_evidence.mcse == np.inf
    assert replace(checked, pooled=None, modes=None).log_evidence.mcse < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"solver": "stochastic", "num_steps": 500}, {"solver": "stan_advi"}]
)
def test_every_solver_looks_for_other_modes(options):
    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 15.0) ** 2))

    model = vicheck.from_log_density(log_density, np.zeros(1))
    checked = vicheck.check(vicheck.fit(model, seed=1, **options), num_draws=20_000)
    assert checked.verdict.level == "unreliable"
    assert checked.modes.num_starts == 48
    assert checked.modes.num_others == 1
    assert (checked.moments[["use_mean", "use_sd"]] == "neither").all(axis=None)


@pytest.mark.parametrize("bound", [0.0, 1.5, 3.0])
def test_a_probability_may_be_used_where_q_is_exact(bound):
    """Products of an indicator are tied, so their tail has no khat; the mean needs none."""
    model = vicheck.from_log_density(lambda x: -0.5 * jnp.sum((x - 0.3) ** 2), np.zeros(2))
    above = {"above": lambda theta: theta["x"][0] > bound}
    checked = vicheck.check(vicheck.fit(model), num_draws=20_000, quantities=above)
    assert checked.verdict.level == "good"
    row = checked.moments.loc["above"]
    assert (row["use_mean"], row["use_sd"]) == ("vi", "vi")
    assert row["vi_mean"] == pytest.approx(norm.sf(bound - 0.3), abs=5 * row["mcse"] + 1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_a_spike_inside_the_bulk_spoils_estimates_where_the_weights_do_not_work(seed):
    """A third of the posterior is a narrow normal that a draw in a thousand hits.

    Short chains do not find into it, so what they say of the means is nothing. The bulk correlates
    a little: if q were exact there, ratios would be tied and khat undefined.
    """
    bulk = np.array([[np.sqrt(1.04), 0.2, 0.0], [0.2, np.sqrt(1.04), 0.0], [0.0, 0.0, 1.0]])

    def log_density(x):
        return jnp.logaddexp(
            jnp.log(2 / 3) - 0.5 * (x - 1.0) @ bulk @ (x - 1.0),
            jnp.log(1 / 3) - 0.5 * jnp.sum((x / 0.05) ** 2) - 3 * jnp.log(0.05),
        )

    fit = vicheck.fit(vicheck.from_log_density(log_density, np.zeros(3)), seed=seed)
    checked = vicheck.check(fit, num_draws=20_000, seed=seed)
    assert checked.verdict.level == "unreliable"
    np.testing.assert_allclose(checked.pooled.masses, [2 / 3, 1 / 3], atol=0.02)
    assert checked.pooled.missed == pytest.approx(1 / 3, abs=0.03)
    assert (checked.moments[["use_mean", "use_sd"]] == "neither").all(axis=None)


def spike_of_five(x):
    """Return the log density of 0.7 N(0, 1) + 0.3 N(1, 0.15): no start leads to the narrow part."""
    return jnp.logaddexp(
        jnp.log(0.7) - 0.5 * jnp.sum(x**2),
        jnp.log(0.3) - 0.5 * jnp.sum(((x - 1.0) / 0.15) ** 2) - 5 * jnp.log(0.15),
    )


def test_draws_higher_than_all_modes_lead_to_another():
    """Some draws in 100,000 hit a mode that the search of the fit has not found."""
    fit = vicheck.fit(vicheck.from_log_density(spike_of_five, np.zeros(5)))
    assert fit.solution.search.num_others == 0
    assert "draw" not in fit.solution.search.starts
    checked = vicheck.check(fit)
    assert checked.modes.starts["draw"] > 0
    assert checked.modes.num_others == 1
    np.testing.assert_allclose(checked.modes.z[-1], 1.0, atol=0.05)
    np.testing.assert_allclose(checked.pooled.masses, [0.7, 0.3], atol=0.02)
    assert checked.verdict.elsewhere.value == "yes"
    assert (checked.moments["use_mean"] == "neither").all()


def test_draws_of_a_fit_made_elsewhere_lead_to_modes_too():
    q = dist.Normal(0.0, 1.0).expand([5]).to_event(1)
    checked = vicheck.check_distribution(q, spike_of_five)
    assert checked.modes.starts["draw"] > 0
    np.testing.assert_allclose(checked.modes.z[-1], 1.0, atol=0.05)
    assert (checked.moments["use_mean"] == "neither").all()


def test_bad_draws_are_counted_and_no_verdict_is_given():
    model = vicheck.from_log_density(
        lambda x: -0.5 * jnp.sum(x**2) + 0.0 * jnp.sum(jnp.sqrt(2.5 - x)), np.zeros(2)
    )
    checked = vicheck.check(vicheck.fit(model), num_draws=20_000)
    count = int(np.isnan(checked.log_p).sum())
    assert 150 < count < 350
    assert checked.verdict.level == "none"
    assert f"{count} of 20000" in str(checked.verdict)
    assert (checked.moments["use"] == "neither").all()
    with pytest.raises(ValueError, match="the draws have no weights"):
        checked.resample(5)


def test_draws_where_p_is_zero_are_counted():
    model = vicheck.from_log_density(
        lambda x: jnp.where(x[0] < 2.5, -0.5 * jnp.sum(x**2), -jnp.inf), np.zeros(2)
    )
    checked = vicheck.check(vicheck.fit(model), num_draws=20_000)
    count = int(np.isneginf(checked.log_p).sum())
    assert count > 0
    assert any(f"{count} of 20000 draws lie where p is zero" in str(f) for f in checked.findings)


@pytest.mark.slow
def test_held_out_data(noncentred):
    linear = vicheck.from_numpyro(
        models.linear, X=np.eye(3).repeat(20, 0), y=np.repeat([1.0, 2.0, 3.0], 20)
    )
    fit = vicheck.fit(linear, data={"y": np.random.default_rng(1).normal(2.0, 1.0, 60)})
    checked = vicheck.check(
        fit, num_draws=5000, test_data={"X": np.eye(3), "y": np.array([2.0, 2.0, 2.0])}
    )
    assert checked.predictive.num_points == 3
    # About three times the log density of N(2, 1) at its mean.
    assert checked.predictive.vi.value == pytest.approx(3 * -0.919, abs=0.6)
    assert checked.predictive.psis.value == pytest.approx(checked.predictive.vi.value, abs=0.2)
    assert "does not tell" in str(checked)


@pytest.mark.slow
def test_true_errors_beside_estimated_ones(noncentred, exact):
    known = vicheck.reference(noncentred, num_draws=500, num_warmup=500, num_chains=2)
    checked = vicheck.check(vicheck.fit(noncentred), num_draws=50_000, reference=known)
    table = checked.moments
    assert abs(table.loc["tau", "psis_error"]) < abs(table.loc["tau", "vi_error"])
    assert table.loc["mu", "ref_mean"] == pytest.approx(exact[0]["mu"], abs=0.6)
    assert np.isfinite(table.loc["mu", "marginal_khat"])
    assert np.isnan(table.loc["theta[0]", "marginal_khat"])  # not a coordinate of q
    assert "Marginal khat can be small" in str(checked)


def test_what_is_not_a_fit_is_refused(noncentred):
    with pytest.raises(TypeError, match=r"got Model: fit the model first"):
        vicheck.check(noncentred)
    fit = vicheck.fit(noncentred)
    with pytest.raises(ValueError, match="num_draws must be a positive integer, got 0"):
        vicheck.check(fit, num_draws=0)
    with pytest.raises(ValueError, match="at least one name or function, got none"):
        vicheck.check(fit, quantities=[])
    with pytest.raises(ValueError, match="quantities has 'nu', but the model has: mu, tau"):
        vicheck.check(fit, quantities=["nu"])
    with pytest.raises(TypeError, match="must be a list of names, got the string 'mu'"):
        vicheck.check(fit, quantities="mu")


def test_quantities_are_those_of_the_one_contract(noncentred):
    """Elements, the likelihood, functions of parameters and data: what `vsbc` takes."""
    fit = vicheck.fit(noncentred)
    names = ["theta[3]", "log_likelihood", "theta[1]", "tau"]
    some = vicheck.check(fit, num_draws=500, quantities=names)
    assert some.names == tuple(names)
    whole = vicheck.check(fit, num_draws=500)
    np.testing.assert_array_equal(some.draws["theta[3]"], whole.draws["theta"][:, 3])

    def likelihood(theta, data):
        return jax.scipy.stats.norm.logpdf(data["y"], theta["theta"], data["sigma"]).sum()

    made = vicheck.check(
        fit, num_draws=500, quantities={"y": likelihood, "large": lambda theta: theta["tau"] > 5.0}
    )
    np.testing.assert_allclose(made.draws["y"], some.draws["log_likelihood"], rtol=1e-10)
    assert set(made.draws["large"]) == {0.0, 1.0}
    both = vicheck.check(fit, num_draws=500, quantities=["theta[3]", "theta"])
    assert both.names == tuple(f"theta[{i}]" for i in range(8))


def test_a_quantity_that_is_nan_at_some_draws_is_noted(noncentred):
    checked = vicheck.check(
        vicheck.fit(noncentred), num_draws=500, quantities={"log_mu": lambda t: jnp.log(t["mu"])}
    )
    count = int(np.isnan(checked.values).sum())
    assert count > 0
    (note,) = checked.notes
    assert note == f"log_mu is NaN at {count} of 500 draws: its estimates are unknown."
    assert np.isnan(checked.moments.loc["log_mu", "psis_mean"])
    assert checked.moments.loc["log_mu", "use"] == "neither"


def test_a_check_knows_its_model_and_q(noncentred, tmp_path):
    fit = vicheck.fit(noncentred)
    checked = vicheck.check(fit, num_draws=500)
    assert checked.q is fit.q
    assert checked.model.coordinates == noncentred.coordinates
    checked.save(tmp_path / "check.npz")
    back = vicheck.Check.load(tmp_path / "check.npz")
    assert back.model is None
    assert back.q is None


def test_a_saved_check_is_read_back(noncentred, tmp_path):
    path = tmp_path / "check.npz"
    checked = vicheck.check(vicheck.fit(noncentred), num_draws=500)
    checked.save(path)
    assert str(vicheck.check(path)) == str(vicheck.check(str(path))) == str(checked)
    with pytest.raises(TypeError, match=r"num_draws and seed do not apply to .*a saved check"):
        vicheck.check(path, num_draws=5, seed=1)


def test_arguments_without_effect_are_refused_by_name(noncentred):
    z = np.random.default_rng(1).normal(size=(1000, 1))
    draws = vicheck.Draws({"z": z}, -(z[:, 0] ** 2) / 2, -(z[:, 0] ** 2) / 2)
    for name, value in {"num_draws": 100_000, "seed": 0, "test_data": {"y": 1.0}}.items():
        with pytest.raises(TypeError, match=f"^{name} does not apply to .*: leave it out"):
            vicheck.check(draws, **{name: value})
    assert vicheck.check(draws).psis.num_draws == 1000


def test_reference_draws_are_for_draws_made_elsewhere_too(noncentred, exact):
    known = vicheck.reference(noncentred, num_draws=200, num_warmup=200, num_chains=2)
    checked = vicheck.check(vicheck.fit(noncentred), num_draws=5000)
    drawn = vicheck.Draws(checked.draws, checked.log_p, checked.log_q)
    table = vicheck.check(drawn, reference=known).moments
    assert table.loc["mu", "ref_mean"] == pytest.approx(exact[0]["mu"], abs=0.8)
    assert np.isnan(table.loc["mu", "marginal_khat"])  # the marginals of q are not known
    other = vicheck.Draws({"z": checked.draws["mu"]}, checked.log_p, checked.log_q)
    with pytest.raises(ValueError, match="shares no quantity with the draws: it has mu"):
        vicheck.check(other, reference=known)


class Unknown:
    pass


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (Unknown(), "check takes a vicheck.Fit, vicheck.Draws, .*got Unknown$"),
        (np.zeros(3), r"got ndarray: arrays go with vicheck.check_draws"),
        (3.0, r"got float: arrays go with vicheck.check_draws"),
        (models.eight_schools_centred, "got function: a guide goes with vicheck.check_numpyro"),
        (None, "got NoneType"),
    ],
)
def test_unknown_objects_are_told_what_is_accepted(what, message):
    with pytest.raises(TypeError, match=message):
        vicheck.check(what)


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InputFileError, match=r"notes.txt is not a file that can be checked.*\.csv"):
        vicheck.check(tmp_path / "notes.txt")


def test_a_reference_that_is_none_is_refused():
    with pytest.raises(TypeError, match=r"reference must be what vicheck\.reference.* got dict"):
        vicheck.check(vicheck.Draws({"x": np.zeros(3)}, np.zeros(3), np.zeros(3)), reference={})


def test_draws_without_names_are_refused():
    with pytest.raises(
        TypeError, match=r"values must be a dictionary of named arrays.* got ndarray"
    ):
        vicheck.Draws(np.zeros((3, 1)), np.zeros(3), np.zeros(3))


@pytest.mark.parametrize(
    ("draws", "log_p", "error", "message"),
    [
        ([["a"]] * 3, np.zeros(3), TypeError, "draws must be real numbers, got dtype <U1"),
        ([["1.5"]] * 3, np.zeros(3), TypeError, "draws must be real numbers, got dtype <U3"),
        ({"gain": ["a"] * 3}, np.zeros(3), TypeError, "gain must be real numbers"),
        ({"gain": np.ones(3) * 1j}, np.zeros(3), TypeError, "gain must be real .* complex128"),
        ({"gain": np.array([1, "a", 2], object)}, np.zeros(3), TypeError, "gain must be real"),
        ([[1.0], [2.0, 3.0], [4.0]], np.zeros(3), ValueError, "draws must be an array of numbers"),
        (np.zeros((3, 1)), np.ones(3) * 1j, TypeError, "log_p must be real numbers"),
        (np.ma.masked_equal([[0.0], [9.0], [1.0]], 9.0), np.zeros(3), TypeError, "1 masked"),
        ([np.ma.masked_equal([9.0], 9.0)] * 3, np.zeros(3), TypeError, "draws must not hide .* 3"),
        ({"gain": np.ma.masked_equal([0.0, 9.0, 1.0], 9.0)}, np.zeros(3), TypeError, "gain must"),
        (np.zeros((3, 1)), np.ma.masked_equal([0.0, 9.0, 1.0], 9.0), TypeError, "log_p must not"),
        (np.zeros((3, 1)), np.zeros((3, 1)), ValueError, r"log_p must have shape \(S,\)"),
        (np.zeros((3, 1)), "abc", ValueError, "log_q must be the name of a column too"),
    ],
)
def test_arrays_that_are_refused_are_named(draws, log_p, error, message):
    with pytest.raises(error, match=message):
        vicheck.check_draws(draws, log_p, np.zeros(3))


def test_a_masked_array_that_hides_nothing_is_an_array():
    z = np.random.default_rng(1).normal(size=(100, 1))
    density = -(z[:, 0] ** 2) / 2
    masked = vicheck.check_draws(np.ma.asarray(z), density, density)
    np.testing.assert_array_equal(masked.values, z)


def test_draws_refuse_densities_that_are_hidden():
    hidden = np.ma.masked_equal([0.0, 9.0, 1.0], 9.0)
    with pytest.raises(TypeError, match="log_q must not hide numbers, got an array with 1 masked"):
        vicheck.Draws({"x": np.zeros(3)}, np.zeros(3), hidden)


def test_columns_of_a_data_frame_keep_their_names():
    z = np.random.default_rng(1).normal(size=(500, 3))
    log_q = -(z**2).sum(axis=1) / 2
    frame = pd.DataFrame(z, columns=["mu", "theta[0]", 7], index=np.arange(500)[::-1])
    check = vicheck.check_draws(frame, pd.Series(0.9 * log_q), pd.Series(log_q))
    assert list(check.moments.index) == ["mu", "theta[0]", "7"]
    plain = vicheck.check_draws(z, 0.9 * log_q, log_q)
    np.testing.assert_array_equal(check.moments["psis_mean"], plain.moments["psis_mean"])
    assert check.khat == plain.khat
    renamed = vicheck.check_draws(frame, 0.9 * log_q, log_q, names=["a", "b", "c"])
    assert list(renamed.moments.index) == ["a", "b", "c"]
    chosen = vicheck.check_draws(frame, 0.9 * log_q, log_q, quantities=["mu"])
    assert list(chosen.moments.index) == ["mu"]


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (pd.DataFrame({"a": [1.0] * 3, "b": ["x"] * 3}), TypeError, "b must be real numbers"),
        (pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"]), ValueError, "2 different names"),
        (pd.DataFrame({"a": [1.0] * 4}), ValueError, "a must have one row for each of the 3"),
        (pd.DataFrame(index=range(3)), ValueError, "draws must hold at least one array"),
    ],
)
def test_data_frames_that_are_refused(frame, error, message):
    with pytest.raises(error, match=message):
        vicheck.check_draws(frame, np.zeros(3), np.zeros(3))
