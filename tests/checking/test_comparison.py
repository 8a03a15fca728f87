"""`compare`: parametrizations and families, ranked."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.paper import models


@pytest.fixture(scope="module")
def schools():
    return {
        "centred": vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS),
        "non-centred": vicheck.from_numpyro(
            models.eight_schools_noncentred, **models.EIGHT_SCHOOLS
        ),
    }


@pytest.mark.slow
def test_models_and_families_are_ranked_by_khat(schools):
    result = vicheck.compare(schools, families=("mean_field", "full_rank"), num_draws=20_000)
    table = result.table
    assert len(table) == 4
    assert table["khat"].is_monotonic_increasing
    assert result.best.startswith("non-centred")
    assert "khat" in repr(result)


def test_fits_without_names_are_numbered(schools):
    fits = [vicheck.fit(model) for model in schools.values()]
    result = vicheck.compare(fits, num_draws=5000)
    assert list(result.checks) == ["1", "0"]


def test_nothing_to_compare(schools):
    with pytest.raises(ValueError, match="at least one fit or model, got none"):
        vicheck.compare({})


def draws(scale):
    z = scale * np.random.default_rng(1).normal(size=2000)
    return vicheck.Draws({"z": z}, -(z**2) / 2, -(z**2) / (2 * scale**2) - np.log(scale))


def test_anything_that_can_be_checked_can_be_compared(schools, tmp_path):
    checked = vicheck.check(draws(0.9))
    checked.save(tmp_path / "saved.npz")
    result = vicheck.compare(
        {
            "model": schools["centred"],
            "fit": vicheck.fit(schools["non-centred"]),
            "draws": draws(0.6),
            "check": checked,
            "file": tmp_path / "saved.npz",
            "arviz": checked.to_arviz(resampled=False),
        },
        num_draws=3000,
        seed=1,
    )
    sizes = {name: each.psis.num_draws for name, each in result.checks.items()}
    assert sizes == dict.fromkeys(("model", "fit"), 3000) | dict.fromkeys(
        ("draws", "check", "file", "arviz"), 2000
    )
    assert result.checks["arviz"].khat == result.checks["file"].khat == checked.khat
    assert result.table["khat"].is_monotonic_increasing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"families": ("full_rank",)}, "families does not apply to fits that were made already"),
        ({"num_starts": 2}, "num_starts does not apply to fits that were made already"),
        ({"num_draws": 10}, "num_draws does not apply to draws that already exist"),
        ({"seed": 1}, "seed does not apply to draws that already exist"),
    ],
)
def test_arguments_without_effect_are_refused_by_name(options, message):
    with pytest.raises(TypeError, match=message):
        vicheck.compare([draws(0.9), draws(0.8)], **options)


def test_families_are_names(schools):
    with pytest.raises(TypeError, match="families must be a tuple of names, got the string"):
        vicheck.compare(schools, families="full_rank")


@pytest.mark.parametrize("candidates", ["fit.csv", 3])
def test_one_candidate_must_be_in_a_list(candidates):
    with pytest.raises(TypeError, match=r"candidates must be a list .*: write \[candidate\]"):
        vicheck.compare(candidates)


def test_a_candidate_does_not_take_the_name_of_a_fit():
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**2), jnp.zeros(1))
    checked = vicheck.check_draws(np.zeros((30, 1)), np.arange(30.0), np.zeros(30))
    with pytest.raises(ValueError, match="got 'a, mean_field' twice"):
        vicheck.compare(
            {"a": model, "a, mean_field": checked}, families=("mean_field", "full_rank")
        )
