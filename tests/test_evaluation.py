"""The evaluator: one loop, whose chunks nobody can tell apart in the result."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from tests.checking.problems import on_host
from vicheck.errors import ModelError
from vicheck.evaluation import (
    BLOCKS,
    CHUNKS,
    SEPARATE_CHUNKS,
    Drawing,
    Evaluation,
    Sizes,
    chunk_size,
    drawing,
    evaluate_draws_of,
    evaluate_in_chunks,
    kept_draws,
    log_densities,
    rows_in_chunks,
    values_of_draws,
)
from vicheck.evaluation.chunks import drawn_ahead
from vicheck.model import double_precision
from vicheck.quantities import Quantities, reported_quantities
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.families.mixture import Mixture


@pytest.fixture(scope="module")
def model():
    return vicheck.from_log_density(
        lambda x, data: -jnp.sum((x["a"] - data["y"]) ** 2) / 2 - x["b"] ** 2 / 2,
        {"a": np.zeros(3), "b": 0.0},
        data={"y": np.arange(3.0)},
    ).snapshot()


@pytest.fixture(scope="module")
def q():
    with double_precision():
        return MeanField(jnp.array([0.0, 1.0, 2.0, 0.5]), jnp.log(jnp.array([1.0, 0.5, 2.0, 0.9])))


@pytest.mark.parametrize(
    ("num_draws", "width", "sizes", "expected"),
    [
        (100_000, 10, CHUNKS, 7693),  # 13 chunks of about the same size
        (100, 10, CHUNKS, 100),
        (100_000, 10, SEPARATE_CHUNKS, 4096),
        (100, 10, SEPARATE_CHUNKS, 100),
        (1000, 10**9, CHUNKS, 1),
        (1000, 1000, BLOCKS, 250),
        (1000, 10**9, BLOCKS, 63),  # 16 blocks, as near to the least of 64 as equal parts are
        (10, 5, Sizes(numbers=20), 4),
    ],
)
def test_chunks_are_bounded_and_even(num_draws, width, sizes, expected):
    assert chunk_size(num_draws, width, sizes) == expected


def test_as_many_draws_are_kept_as_fit(monkeypatch):
    monkeypatch.setattr("vicheck.evaluation.sizes._KEPT_BYTES", 8 * 300)
    assert kept_draws(1000, 3) == 100
    assert kept_draws(50, 3) == 50
    assert kept_draws(1000, 10**6) == 1
    assert kept_draws(1000, 0) == 300


@pytest.mark.parametrize("size", [1, 3, 4, 10, 12])
def test_chunks_are_joined_in_order_and_cut_to_length(size):
    asked = []

    def evaluate(rows, keep):
        asked.append(keep)
        return (rows, 2.0 * rows), {"values": rows[:, None] * np.ones(2)} if keep else {}

    rows = np.arange(10.0)
    (first, second), kept = evaluate_in_chunks(
        rows_in_chunks(rows, 10, size), evaluate, 10, size, 5
    )
    assert np.array_equal(first, rows)
    assert np.array_equal(second, 2.0 * rows)
    assert np.array_equal(kept["values"], np.column_stack([rows[:5], rows[:5]]))
    assert asked == [start < 5 for start in range(0, 10, size)]


def test_names_keep_their_order():
    def evaluate(rows, keep):
        return (rows,), {"tau": rows, "mu": rows, "alpha": rows}

    rows = np.arange(3.0)
    _, kept = evaluate_in_chunks(rows_in_chunks(rows, 3, 2), evaluate, 3, 2, 3)
    assert list(kept) == ["tau", "mu", "alpha"]
    assert all(np.array_equal(array, rows) for array in kept.values())


def test_an_interrupt_ends_it_between_chunks(monkeypatch):
    drawn = []

    def interrupted():
        if len(drawn) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("vicheck.evaluation.chunks.check_interrupt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate_in_chunks(
            lambda index: drawn.append(index) or np.zeros(1),
            lambda noise, _: ((noise,), ()),
            9,
            1,
            0,
        )
    assert drawn == [0, 1]


@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_chunks_are_drawn_in_order_and_not_too_far_ahead(ahead):
    drawn = []
    with drawn_ahead(lambda index: drawn.append(index) or index, range(10), ahead) as draw:
        for index in range(10):
            assert draw(index) == index
            assert len(drawn) <= index + 1 + ahead
    assert drawn == list(range(10))


def test_an_error_while_drawing_is_raised_where_the_chunk_is_wanted():
    def draw(index):
        if index == 2:
            raise ZeroDivisionError
        return index

    with drawn_ahead(draw, range(5), 2) as drawn:
        assert [drawn(0), drawn(1)] == [0, 1]
        with pytest.raises(ZeroDivisionError):
            drawn(2)


def test_what_is_drawn_by_jax_is_in_double_precision():
    with drawn_ahead(lambda index: jnp.ones(2) / 3, range(1), 1) as drawn:
        assert drawn(0).dtype == np.float64


def test_densities_are_those_of_model_and_q(model, q):
    with double_precision():
        chosen = reported_quantities(model, None)
        log_p, log_q, values = evaluate_draws_of(model, q, chosen, 500, seed=1)
        expected = jax.vmap(q.log_prob)(values)
    assert chosen.drawn_names == ("a[0]", "a[1]", "a[2]", "b")
    np.testing.assert_allclose(log_p, model.log_density(values), rtol=1e-12)
    np.testing.assert_allclose(log_q, expected, rtol=1e-10)
    assert values.mean(axis=0) == pytest.approx(np.asarray(q.loc), abs=5 * 2.0 / 500**0.5)


def test_memory_changes_how_many_values_are_kept_and_nothing_else(model, q, monkeypatch):
    with double_precision():
        chosen = reported_quantities(model, None)
        whole = evaluate_draws_of(model, q, chosen, 1000, seed=1)
        monkeypatch.setattr("vicheck.evaluation.sizes._KEPT_BYTES", 8 * 4 * 300)
        part = evaluate_draws_of(model, q, chosen, 1000, seed=1)
    assert np.array_equal(part.log_p, whole.log_p)
    assert np.array_equal(part.values, whole.values[:300])


@pytest.fixture(params=[0, 700, 40_000], ids=["narrow", "wide", "very wide"])
def wide(request):
    """A model with so many observations that few draws are evaluated together."""
    return vicheck.from_log_density(
        lambda x, data: -jnp.sum(x**2) / 2 - 1e-6 * jnp.sum((x[0] - data["y"]) ** 2),
        np.zeros(2),
        data={"y": np.arange(float(request.param))},
    ).snapshot()


@pytest.fixture
def evaluated_rows(monkeypatch):
    """Numbers of draws that are evaluated, chunk by chunk."""
    rows, evaluate = [], drawing.Drawing.evaluate

    def noting(self, index, noise):
        rows.append(len(noise))
        return evaluate(self, index, noise)

    monkeypatch.setattr(drawing.Drawing, "evaluate", noting)
    return rows


def normal(dim):
    with double_precision():
        return MeanField(jnp.zeros(dim), jnp.zeros(dim))


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor], ids=["here", "executor"])
def test_draws_that_are_doubled_are_those_of_one_run(wide, executor, evaluated_rows):
    """To the bit, and without evaluating any of them again."""
    with double_precision():
        chosen = reported_quantities(wide, None)
        pool = executor and executor(2)
        growing = Evaluation(wide, normal(2), chosen, 3, pool)
        grown = [growing.first(number) for number in (1000, 2000, 4000, 8000, 16_000)]
        total = sum(evaluated_rows)
        for each in grown:
            at_once = evaluate_draws_of(wide, normal(2), chosen, len(each.log_p), 3)
            assert all(map(np.array_equal, each, at_once))
        if pool:
            pool.shutdown()
    longest = grown[-1]
    assert 16_000 <= total < 16_000 + evaluated_rows[0]
    assert all(np.array_equal(each.log_p, longest.log_p[: len(each.log_p)]) for each in grown)
    assert all(np.array_equal(each.values, longest.values[: len(each.values)]) for each in grown)


@pytest.mark.parametrize(("before", "after"), [(100_000, 2000), (20_000, 30_000), (500, 1000)])
def test_other_numbers_of_draws_share_what_is_the_same_and_no_more(before, after, evaluated_rows):
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**2) / 2, np.zeros(2)).snapshot()
    with double_precision():
        chosen = reported_quantities(model, None)
        growing = Evaluation(model, normal(2), chosen, 3)
        assert growing.first(before, lambda done: done < 3000) is None or before == 500
        grown = growing.first(after)
        at_once = evaluate_draws_of(model, normal(2), chosen, after, 3)
    assert all(map(np.array_equal, grown, at_once))


def test_a_family_whose_noise_is_not_made_row_by_row_is_evaluated_afresh(model, q):
    """A mixture shares out the draws of a block, however many these are."""
    with double_precision():
        mixture = Mixture((q, MeanField(q.loc + 50.0, q.log_scale)), jnp.array([0.7, 0.3]))
        chosen = reported_quantities(model, None)
        growing = Evaluation(model, mixture, chosen, 3)
        growing.first(1000)
        grown = growing.first(2000)
        at_once = evaluate_draws_of(model, mixture, chosen, 2000, 3)
    assert all(map(np.array_equal, grown, at_once))


def test_noise_is_what_it_always_was(model, q):
    """13 blocks of 7693 for 100,000 draws, each from its own seed."""
    with double_precision():
        drawn = Drawing(model, q, Quantities(), 100_000, 5)
        noise = np.concatenate([drawn.noise(index) for index in range(drawn.num_chunks)])
    blocks = [np.random.default_rng((5, n)).standard_normal((7693, 4)) for n in range(13)]
    assert drawn.size == 1000
    assert np.array_equal(noise[:100_000], np.concatenate(blocks)[:100_000])


def test_a_function_of_the_host_that_raises_is_named(q):
    def gone(z):
        raise OSError("the server is gone")

    model = on_host(gone).snapshot()
    with double_precision(), pytest.raises(ModelError, match=r"density failed.*the server is gone"):
        evaluate_draws_of(model, normal(2), Quantities(), 100, 0)


def test_a_mixture_is_one_q(model, q):
    """Draws come in its parts, and their density is that of the mixture."""
    with double_precision():
        far = MeanField(q.loc + 50.0, q.log_scale)
        mixture = Mixture((q, far), jnp.array([0.7, 0.3]))
        log_p, log_q, values = evaluate_draws_of(
            model, mixture, reported_quantities(model, None), 1000, seed=1
        )
        expected = jax.vmap(mixture.log_prob)(values)
    assert (values[:, 0] > 25.0).sum() == 300
    np.testing.assert_allclose(log_q, expected, rtol=1e-10)
    np.testing.assert_allclose(log_p, model.log_density(values), rtol=1e-12)


def test_a_density_of_one_draw_is_evaluated_at_many():
    z = np.random.default_rng(1).normal(size=(9000, 2))
    with double_precision():
        found = log_densities(lambda x: -(x["z"] ** 2).sum(), {"z": z}, 9000)
        with pytest.raises(ValueError, match="log_density must return one number per draw"):
            log_densities(lambda x: x["z"], {"z": z}, 9000)
    np.testing.assert_allclose(found, -(z**2).sum(axis=1), rtol=1e-14)


def test_values_of_named_draws(model):
    rng = np.random.default_rng(1)
    theta = {"a": rng.normal(size=(20, 3)), "b": rng.normal(size=20)}
    with double_precision():
        chosen = reported_quantities(model, {"sum": lambda t, data: t["a"].sum() + data["y"][2]})
        found = values_of_draws(model.program, chosen, theta, model.data)
        nothing = values_of_draws(model.program, Quantities(), theta, model.data)
    np.testing.assert_allclose(found[:, 0], theta["a"].sum(axis=1) + 2.0, rtol=1e-14)
    assert nothing.shape == (20, 0)
