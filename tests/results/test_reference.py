"""Reference draws: their table, and what speaks against them."""

from dataclasses import replace

import numpy as np
import pytest

import vicheck
from vicheck.results import reference as module
from vicheck.results.reference import Reference, blocks_of


def made_up(rng, rhat=1.0, ess=1000.0, num_divergent=0, **rest):
    x = rng.normal(size=(4, 500, 2))
    names = ["x[0]", "x[1]", *rest]
    values = {"rhat": rhat, "ess": ess, "mcse": 0.1}
    return Reference(
        x,
        {"x": x, **rest},
        **{key: dict.fromkeys(names, value) for key, value in values.items()},
        num_divergent=num_divergent,
    )


def test_moments_have_a_row_per_scalar(rng):
    draws = made_up(rng)
    x = draws.draws["x"].reshape(-1, 2)
    table = draws.moments
    assert list(table.index) == ["x[0]", "x[1]"]
    np.testing.assert_allclose(table["mean"], x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(table["sd"], x.std(axis=0, ddof=1), rtol=1e-12)
    assert list(table["mcse"]) == [0.1, 0.1]
    assert "x[1]" in str(draws)


def test_few_effective_draws_in_the_tails_are_a_caution_too(rng):
    draws = replace(made_up(rng), tail_ess={"x[0]": 900.0, "x[1]": 320.0})
    assert draws.caution == "the smallest tail ESS is 320, below 400"
    assert list(draws.moments["tail_ess"]) == [900.0, 320.0]
    assert made_up(rng).caution == ""


@pytest.mark.parametrize(
    ("options", "caution"),
    [
        ({}, ""),
        ({"rhat": 1.02}, "the largest Rhat is 1.020, above 1.01"),
        ({"ess": 400.0}, "the smallest ESS is 400, below 400"),
        ({"num_divergent": 2}, ""),
        ({"num_divergent": 3}, "3 of 2000 transitions diverged"),
        (
            {"rhat": np.nan, "ess": 1.0},
            "the largest Rhat is nan, above 1.01; the smallest ESS is 1, below 400",
        ),
    ],
)
def test_cautions(rng, options, caution):
    draws = made_up(rng, **options)
    assert draws.caution == caution
    assert draws.reliable == (caution == "")


def test_constant_quantities_do_not_count(rng):
    draws = made_up(rng, c=np.ones((4, 500)))
    draws.rhat["c"] = draws.ess["c"] = np.nan
    assert draws.max_rhat == 1.0
    assert draws.min_ess == 1000.0


def test_blocks_are_bounded_and_in_order(rng, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 4 * 10 * 3)
    draws = {"a": rng.normal(size=(4, 10)), "b": rng.normal(size=(4, 10, 2, 4))}
    blocks = blocks_of(draws)
    assert [block.shape for block in blocks] == [(4, 10, 1), (4, 10, 3), (4, 10, 3), (4, 10, 2)]
    together = np.concatenate(blocks, axis=2)
    np.testing.assert_array_equal(together[..., 0], draws["a"])
    np.testing.assert_array_equal(together[..., 1:], draws["b"].reshape(4, 10, 8))


def test_it_is_a_public_name():
    assert vicheck.Reference is Reference
