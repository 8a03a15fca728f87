"""`compare`: parametrizations and families, ranked."""

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
