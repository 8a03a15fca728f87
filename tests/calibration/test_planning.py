"""Defaults of a run: options of its fits and sizes of its chunks."""

import pytest

import vicheck
from tests.calibration.problems import independent_model, pair_model
from vicheck.calibration.planning import choose_chunk_size, plan_fits
from vicheck.quantities import choose_quantities

LOOSE = {"num_restarts": 0, "sampling_tolerance": 0.1, "tolerance": 0.01, "max_draws": 1024}


def test_the_default_solver_is_loose_and_the_others_are_as_they_are():
    model = pair_model()
    own = plan_fits(model, None, None, None, {})
    assert own == ("mean_field", None, "deterministic", LOOSE, {}, "full_rank", True)
    assert plan_fits(model, None, None, "stan_advi", {"iter": 9}).options == {"iter": 9}


def test_what_is_given_takes_precedence():
    own = plan_fits(pair_model(), "low_rank", 2, "deterministic", {"tolerance": 1e-3})
    assert (own.family, own.rank) == ("low_rank", 2)
    assert own.options == LOOSE | {"tolerance": 1e-3}
    assert own.given == {"tolerance": 1e-3}


def test_a_family_that_begins_with_many_draws_may_have_four_times_as_many():
    def wide(z):
        return -0.5 * (z**2).sum()

    model = vicheck.from_log_density(wide, [0.0] * 300)
    assert plan_fits(model, "full_rank", None, None, {}).options["max_draws"] == 4 * 2048


def test_the_richest_family_has_none_that_is_richer():
    assert plan_fits(pair_model(), "full_rank", None, None, {}).richer is None


@pytest.mark.parametrize(
    ("num_datasets", "num_draws", "size"),
    [
        (1, 1000, 1),  # one dataset
        (3, 1000, 1),  # few: each a chunk of its own
        (16, 1000, 4),  # at least four chunks
        (49, 1000, 13),
        (50, 1000, 50),  # from here on at least 50 in a chunk, which are fitted in one loop
        (100, 1000, 50),
        (170, 1000, 57),
        (1000, 1000, 250),  # four chunks
        (10_000, 1000, 250),  # at most 256 datasets each, in chunks of nearly equal size
        (1000, 100_000, 10),  # many draws: bounded by memory
        (10, 10**9, 1),
    ],
)
def test_chunks_are_neither_few_nor_large(num_datasets, num_draws, size):
    model = independent_model()
    quantities = choose_quantities(model, model.program.without_observations(model.data), None)
    assert choose_chunk_size(model, quantities, num_draws, num_datasets) == size


def test_more_chunks_where_the_model_is_not_small_or_fits_are_made_one_by_one():
    pair = pair_model()
    drawn = choose_quantities(pair, pair.program.without_observations(pair.data), None)
    assert choose_chunk_size(pair, drawn, 1000, 16) == 4
    assert choose_chunk_size(pair, drawn, 1000, 16, in_batches=False) == 2
    model = vicheck.from_log_density(lambda z: -0.5 * (z**2).sum(), [0.0] * 300)
    quantities = choose_quantities(model, model.data, None)
    assert choose_chunk_size(model, quantities, 10, 16) == 2
