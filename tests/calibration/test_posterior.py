"""Calibration at observed data: truths from a fit to it, then fits to it and to a replicate."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import kstest, norm

import vicheck
from tests.calibration.problems import (
    X,
    draw_exactly,
    independent_model,
    pair_model,
    saved,
)
from vicheck.calibration.run import vsbc
from vicheck.paper import models

SIZE = 25
Y = np.array([3.0, -1.0, 0.5])


@pytest.fixture(scope="module")
def full_rank():
    return vsbc(
        pair_model(y=Y), num_datasets=400, chunk_size=SIZE, family="full_rank", posterior=True
    )


def run(model=None, **options):
    settings = {"num_datasets": SIZE, "chunk_size": SIZE, "family": "full_rank", "posterior": True}
    return vsbc(model or pair_model(y=Y), **settings | options)


def test_exact_fits_are_calibrated_at_the_observed_data(full_rank):
    """If the first q is the posterior, and the others are those of both data, p is uniform."""
    assert full_rank.converged.all()
    for column in full_rank.probabilities.to_numpy().T:
        assert kstest(column, "uniform").pvalue > 1e-3
    assert full_rank.verdict.level == "good"
    assert full_rank.symmetric_kl.mean == pytest.approx(0.0, abs=1e-3)
    assert full_rank.settings.kind == "posterior"
    assert "at the observed data" in full_rank.title


def test_the_caveat_is_a_finding(full_rank):
    (caveat,) = (found for found in full_rank.findings if "fitted q" in found.sentence)
    assert caveat.severity == "caution"
    assert caveat.sentence in str(full_rank)
    over_prior = run(posterior=False)
    assert not any("fitted q" in found.sentence for found in over_prior.findings)
    assert over_prior.settings.kind == "prior"


@pytest.mark.slow
def test_mean_field_is_contaminated_as_theory_says():
    """Truths from a q that is too narrow are too easy; how easy is known for normals.

    With D the variances of the first q, b - (mean of the second q) has the covariance C below.
    """
    found = run(family="mean_field", num_datasets=400)
    assert found.converged.all()
    first, second = np.eye(2) + X.T @ X, np.eye(2) + 2.0 * X.T @ X
    covariance = np.linalg.inv(second)
    narrow = np.diag(1.0 / np.diagonal(first))
    spread = covariance @ (first @ narrow @ first + X.T @ X) @ covariance
    expected = np.sqrt(np.diagonal(spread) * np.diagonal(second))
    if_all_were_right = np.sqrt(np.diagonal(covariance) * np.diagonal(second))
    assert (np.abs(expected - if_all_were_right) > 0.1).all()
    for name, stretch in zip(("b[0]", "b[1]"), expected, strict=True):
        p = found.probabilities.sel(quantity=name).to_numpy()
        assert kstest(norm.ppf(p) / stretch, "norm").pvalue > 1e-3


def test_other_data_are_another_run():
    one, other = run(), run(pair_model(y=Y + 1.0))
    np.testing.assert_array_equal(one.data["seed"], other.data["seed"])
    assert one.settings.model != other.settings.model
    with pytest.raises(ValueError, match="the runs must have the same model"):
        one.merge(other)


def test_the_same_bits_again(full_rank, tmp_path):
    assert saved(run(), tmp_path / "one") == saved(run(), tmp_path / "two")
    np.testing.assert_array_equal(run().probabilities, full_rank.probabilities[:SIZE])


@pytest.mark.slow
def test_one_by_one_is_the_same_up_to_rounding(full_rank):
    found = run(num_datasets=3, chunk_size=3, time_limit=600.0)
    assert found.converged.all()
    np.testing.assert_allclose(found.probabilities, full_rank.probabilities[:3], rtol=1e-6)


def test_missing_data_are_asked_for():
    with pytest.raises(
        vicheck.ModelError,
        match="posterior=True needs the data that were observed, and the model has none for y",
    ):
        run(pair_model())


def test_a_foreign_fit_is_refused():
    with pytest.raises(ValueError, match="posterior=True goes with vicheck's own fits"):
        vsbc(independent_model(), fit=draw_exactly, posterior=True)


def test_the_fit_to_the_observed_data_is_made_as_a_single_fit_is(monkeypatch):
    """Not with the loose options for one dataset among many, which are for errors that average."""
    seen = []

    def note(work, *_):
        seen.append(work)
        raise InterruptedError

    monkeypatch.setattr("vicheck.calibration.run.compute_chunks", note)
    model = vicheck.from_numpyro(models.eight_schools_noncentred, **models.EIGHT_SCHOOLS)
    for options in ({}, {"max_draws": 128}):
        with pytest.raises(InterruptedError):
            vsbc(model, posterior=True, seed=3, **options)
        (work,) = seen
        seen.clear()
        alone = vicheck.fit(model, seed=3, **options).q
        np.testing.assert_array_equal(work.centre.loc, alone.loc)
        np.testing.assert_array_equal(work.centre.sd, alone.sd)
        assert (
            work.options
            == {
                "num_restarts": 0,
                "sampling_tolerance": 0.1,
                "tolerance": 0.01,
                "max_draws": 1024,
            }
            | options
        )


def test_options_that_are_given_and_defaults_of_the_same_value_are_two_runs(tmp_path):
    """The fit to the observed data takes the former alone."""
    run(store=tmp_path / "store", num_datasets=5, chunk_size=5)
    with pytest.raises(vicheck.StoreError, match=r"centre_options.*: the store has"):
        run(store=tmp_path / "store", num_datasets=5, chunk_size=5, tolerance=0.01)


def two_modes(y=None):
    """Observe a magnitude: two modes, of which the one at -2 has 98% of the mass."""
    theta = numpyro.sample("theta", dist.Normal(-1.0, 1.0))
    numpyro.sample("y", dist.Normal(jnp.abs(theta), 0.2), obs=y)


def test_the_fit_to_the_observed_data_takes_several_starts(monkeypatch):
    """From one start, all of these ended in the lesser mode, where all truths then came from."""
    model = vicheck.from_numpyro(two_modes, y=np.full(10, 2.0))
    centres = []

    def note(work, *_):
        centres.append(float(work.centre.loc[0]))
        raise InterruptedError

    monkeypatch.setattr("vicheck.calibration.run.compute_chunks", note)
    for seed in range(4):
        with pytest.raises(InterruptedError):
            vsbc(model, posterior=True, seed=seed)
    assert sum(centre < 0.0 for centre in centres) >= 3


def test_without_observed_data_the_message_says_where_they_go():
    with pytest.raises(
        vicheck.ModelError, match=r"posterior=True needs .* none for y: give them to"
    ):
        vsbc(pair_model(), posterior=True)
