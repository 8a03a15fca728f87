"""Data in shards: the same density, fit and check as of the whole, wherever they are evaluated."""

import multiprocessing
import os
import pickle
import signal
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import vicheck
from vicheck.adapters import shard_data
from vicheck.adapters.numpyro import shards as shards_module
from vicheck.adapters.numpyro.shards import _block_size
from vicheck.errors import LostWorkerWarning, ModelError
from vicheck.model import double_precision
from vicheck.runtime.compiling import num_compiled
from vicheck.vi.families.moments import mean_and_sd

CUTS = (0, 40, 80, 120, 151)


def regression(x, y, scale=2.0):
    slopes = numpyro.sample("slopes", dist.Normal(0, scale).expand([x.shape[1]]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    numpyro.deterministic("precision", noise**-2)
    numpyro.deterministic("fitted", x @ slopes)
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ slopes, noise), obs=y)


def rates(deaths, exposed):
    """One parameter, and none of the names is x or y."""
    rate = numpyro.sample("rate", dist.Gamma(2.0, 2.0))
    with numpyro.plate("towns", len(deaths)):
        numpyro.sample("deaths", dist.Poisson(rate * exposed), obs=deaths)


def groups(g, y, num_groups):
    """Parameters in a plate, but not in one over the data; rows on the first of two axes."""
    with numpyro.plate("groups", num_groups):
        level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("columns", 2), numpyro.plate("rows", len(g), dim=-2):
        numpyro.sample("y", dist.Normal(level[g][:, None], 1.0), obs=y)


def summed(y, centre):
    """Log densities without an axis over rows, and observations that no shard has."""
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("centre", dist.Normal(mean, 0.5), obs=centre)
    numpyro.factor("tilt", -0.1 * mean**4)
    numpyro.sample("y", dist.Normal(mean, 1).expand([len(y)]).to_event(1), obs=y)
    with numpyro.handlers.scale(scale=0.5):
        numpyro.factor("more", jnp.sum(-((y - mean) ** 2)))


def data_of(name):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(CUTS[-1], 3))
    return {
        "regression": {"x": x, "y": x @ [1.0, -1.0, 0.5] + rng.normal(size=len(x))},
        "rates": {"deaths": rng.poisson(3.0, len(x)), "exposed": rng.uniform(1, 2, len(x))},
        "groups": {"g": rng.integers(0, 4, len(x)), "y": rng.normal(size=(len(x), 2))},
        "summed": {"y": rng.normal(size=len(x))},
    }[name]


MODELS = {
    "regression": (regression, {}),
    "rates": (rates, {}),
    "groups": (groups, {"num_groups": 4}),
    "summed": (summed, {"centre": np.array(0.3)}),
}


def cut(arrays, cuts=CUTS):
    return [
        {name: array[start:stop] for name, array in arrays.items()}
        for start, stop in pairwise(cuts)
    ]


def saved(directory, shards):
    """Write shards to files, and return their paths."""
    for index, shard in enumerate(shards):
        for name, array in shard.items():
            np.save(directory / f"{name}-{index}.npy", array)
    return [
        {name: directory / f"{name}-{index}.npy" for name in shard}
        for index, shard in enumerate(shards)
    ]


def evaluated(model, z):
    """Return values and gradients, as solvers ask for them."""
    return model.program.density_on_host(model.data)(z)


@pytest.fixture(autouse=True)
def small_blocks(request, monkeypatch):
    """So that shards have several blocks; not in tests whose processes know nothing of it."""
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr(shards_module, "_MOST_ROWS", 32)


@pytest.mark.parametrize("name", MODELS)
def test_density_and_gradient_are_those_of_the_whole(name):
    function, shared = MODELS[name]
    whole = vicheck.from_numpyro(function, **data_of(name), **shared)
    model = vicheck.from_shards(function, cut(data_of(name)), **shared)
    z = np.random.default_rng(0).normal(size=(37, whole.dim)) / 2
    with double_precision():
        density = jax.value_and_grad(lambda z: whole.program.log_density(z, whole.data))
        values, gradients = jax.jit(jax.vmap(density))(z)
    found, slopes = evaluated(model, z)
    np.testing.assert_allclose(found, values, rtol=1e-10)
    np.testing.assert_allclose(slopes, gradients, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.log_density(z), values, rtol=1e-10)
    assert model.coordinates == whole.coordinates


@pytest.mark.parametrize("name", ["regression", "rates"])
def test_the_fit_and_the_check_are_those_of_the_whole(name):
    function, shared = MODELS[name]
    whole = vicheck.fit(vicheck.from_numpyro(function, **data_of(name), **shared))
    fit = vicheck.fit(vicheck.from_shards(function, cut(data_of(name)), **shared))
    assert fit.status is whole.status is vicheck.FitStatus.CONVERGED
    mean, sd = mean_and_sd(whole.q)
    other_mean, other_sd = mean_and_sd(fit.q)
    assert np.abs((other_mean - mean) / sd).max() < 1e-6
    assert np.abs(other_sd / sd - 1).max() < 1e-6
    check, other = (vicheck.check(each, num_draws=400) for each in (whole, fit))
    np.testing.assert_allclose(other.log_p, check.log_p, rtol=1e-7)
    assert other.khat == pytest.approx(check.khat, abs=1e-4)


def test_what_is_derived_from_rows_is_left_out():
    model = vicheck.from_shards(regression, cut(data_of("regression")))
    values = model.constrain(np.zeros(model.dim))
    assert list(values) == ["slopes", "noise", "precision"]
    np.testing.assert_allclose(model.unconstrain(values), 0.0, atol=1e-12)


def test_gradients_in_compiled_code_are_the_same():
    model = vicheck.from_shards(rates, cut(data_of("rates")))
    z = np.array([0.4])
    with double_precision():
        slope = jax.jit(jax.grad(lambda z: model.program.log_density(z, model.data)))(z)
    np.testing.assert_allclose(slope, evaluated(model, z[None])[1][0], rtol=1e-12)


# ---- where shards come from ----


def test_files_arrays_and_functions_give_the_same_bits(tmp_path):
    shards = cut(data_of("regression"))
    paths = saved(tmp_path, shards)
    text = [{name: str(path) for name, path in shard.items()} for shard in paths]
    functions = [partial(dict, **shard) for shard in paths]
    z = np.random.default_rng(0).normal(size=(5, 4))
    expected = evaluated(vicheck.from_shards(regression, shards), z)
    for given in (paths, text, functions, [*paths[:2], *functions[2:]]):
        found = evaluated(vicheck.from_shards(regression, given), z)
        assert all(map(np.array_equal, found, expected))


def test_files_are_mapped_and_not_kept(tmp_path, monkeypatch):
    (shard, *_) = shard_data.shards_of(saved(tmp_path, cut(data_of("regression"))))
    assert all(isinstance(array, np.memmap) for array in shard.read().values())
    assert shard_data._HELD.get(shard.key) is None


def test_small_types_are_computed_with_in_double_precision():
    arrays = data_of("regression")
    narrow = {name: array.astype(np.float32) for name, array in arrays.items()}
    wide = {name: array.astype(np.float64) for name, array in narrow.items()}
    z = np.random.default_rng(0).normal(size=(5, 4))
    models = [vicheck.from_shards(regression, cut(each)) for each in (narrow, wide)]
    assert all(map(np.array_equal, *(evaluated(model, z) for model in models)))


def test_a_process_keeps_what_functions_return_up_to_a_number_of_bytes(monkeypatch):
    called = []

    def shard(index):
        called.append(index)
        return {"deaths": np.arange(50), "exposed": np.ones(50)}  # 800 bytes

    held = shard_data._Held()
    monkeypatch.setattr(shard_data, "_HELD", held)
    monkeypatch.setattr(shard_data, "_MOST_HELD", 1700)
    model = vicheck.from_shards(rates, [partial(shard, index) for index in range(4)])
    called.clear()
    evaluated(model, np.zeros((1, 1)))
    evaluated(model, np.zeros((1, 1)))
    assert called == [2, 3, 2, 3]
    vicheck.from_shards(rates, [partial(shard, 4), partial(shard, 5)])
    called.clear()
    evaluated(model, np.zeros((1, 1)))
    assert called[:2] == [0, 1]  # others have taken their place


@pytest.mark.parametrize("num_rows", [1, 2, 7, 31, 32, 33, 64, 65, 1000, 1001])
def test_blocks_are_bounded_and_waste_little(num_rows):
    size = _block_size(num_rows, exact=False)
    blocks = -(-num_rows // size)
    assert size <= 32
    assert blocks == -(-num_rows // 32)
    assert blocks * size <= num_rows + max(blocks * num_rows / 8, blocks)


def test_shards_of_about_the_same_length_share_compiled_code():
    arrays = data_of("rates")
    evaluated(vicheck.from_shards(rates, cut(arrays, (0, 30, 60))), np.zeros((1, 1)))
    before = num_compiled()
    evaluated(vicheck.from_shards(rates, cut(arrays, (0, 30, 59, 88, 118, 148))), np.zeros((1, 1)))
    assert num_compiled() == before


# ---- where they are evaluated ----


def spawned(number):
    return ProcessPoolExecutor(number, multiprocessing.get_context("spawn"))


class Losing(ThreadPoolExecutor):
    """Loses calls: those whose numbers are given."""

    def __init__(self, lost, broken_from=10**9):
        super().__init__(2)
        self.lost, self.broken_from, self.count = lost, broken_from, -1

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        if self.count >= self.broken_from:
            raise BrokenProcessPool("a process has died")
        if self.count not in self.lost:
            return super().submit(fn, *args, **kwargs)
        future = Future()
        future.set_exception(BrokenProcessPool("a process has died"))
        return future


def test_threads_give_the_same_bits(tmp_path):
    shards = cut(data_of("regression"))
    z = np.random.default_rng(0).normal(size=(5, 4))
    expected = evaluated(vicheck.from_shards(regression, shards), z)
    with ThreadPoolExecutor(3) as executor:
        for given in (shards, saved(tmp_path, shards)):
            model = vicheck.from_shards(regression, given, executor=executor)
            assert all(map(np.array_equal, evaluated(model, z), expected))


@pytest.mark.parametrize(
    ("executor", "warns"),
    [
        (partial(Losing, {1, 5}), False),  # twice a shard, and each is computed by another
        (partial(Losing, set(), broken_from=6), True),
        (partial(Losing, set(), broken_from=0), True),
    ],
    ids=["lost on the way", "broken in the middle", "broken from the beginning"],
)
def test_lost_workers_change_nothing(executor, warns, tmp_path, recwarn):
    shards = saved(tmp_path, cut(data_of("regression")))
    z = np.random.default_rng(0).normal(size=(5, 4))
    expected = evaluated(vicheck.from_shards(regression, shards), z)
    with executor() as pool:
        model = vicheck.from_shards(regression, shards, executor=pool)
        found = evaluated(model, z)
    assert all(map(np.array_equal, found, expected))
    assert any(each.category is LostWorkerWarning for each in recwarn) == warns
    with pytest.warns(LostWorkerWarning):  # as after the `with` block of any executor
        assert all(map(np.array_equal, evaluated(model, z), expected))


@pytest.mark.slow
def test_processes_give_the_same_bits_and_one_that_is_killed_changes_nothing(tmp_path):
    shards = cut(data_of("regression"))
    paths = saved(tmp_path, shards)
    alone = vicheck.fit(vicheck.from_shards(regression, paths))
    drawn = vicheck.check(alone, num_draws=200)
    with spawned(2) as executor:
        for given in (paths, shards):
            fit = vicheck.fit(vicheck.from_shards(regression, given, executor=executor))
            check = vicheck.check(fit, num_draws=200)
            np.testing.assert_array_equal(check.log_p, drawn.log_p)
        killed = []

        def kill(_):
            if not killed:
                killed.append(next(iter(executor._processes)))
                os.kill(killed[0], signal.SIGKILL)

        model = vicheck.from_shards(regression, paths, executor=executor)
        with pytest.warns(LostWorkerWarning, match="BrokenProcessPool"):
            fit = vicheck.fit(model, progress=kill)
    for one, other in zip(jax.tree.leaves(fit.q), jax.tree.leaves(alone.q), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_model_can_be_sent_and_leaves_its_executor_behind(tmp_path):
    paths = saved(tmp_path, cut(data_of("rates")))
    with ThreadPoolExecutor(1) as executor:
        model = vicheck.from_shards(rates, paths, executor=executor)
        z = np.zeros((2, 1))
        expected = evaluated(model, z)
        sent = pickle.loads(pickle.dumps(model))
    assert all(map(np.array_equal, evaluated(sent, z), expected))


def test_errors_of_workers_come_back_as_they_are():
    arrays = cut(data_of("rates"))
    arrays[2]["exposed"][3] = np.nan
    functions = [partial(dict, shard) for shard in arrays]
    with ThreadPoolExecutor(2) as executor, pytest.raises(ModelError, match=r"shards\[2\]"):
        vicheck.from_shards(rates, functions, executor=executor)


def test_ctrl_c_is_looked_for_between_shards(monkeypatch):
    model = vicheck.from_shards(rates, cut(data_of("rates")))
    evaluate = model.program.density_on_host(model.data)
    looked = []

    def look():
        looked.append(None)
        if len(looked) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(shards_module, "check_interrupt", look)
    with pytest.raises(KeyboardInterrupt):
        evaluate(np.zeros((1, 1)))
    assert len(looked) == 3


# ---- what cannot be used ----


def changed(index, **arrays):
    shards = cut(data_of("regression"))
    shards[index] = {
        name: array for name, array in (shards[index] | arrays).items() if array is not None
    }
    return shards


def with_nan():
    shards = cut(data_of("regression"))
    shards[1]["x"] = shards[1]["x"].copy()
    shards[1]["x"][[4, 7], 2] = np.nan
    return shards


@pytest.mark.parametrize(
    ("shards", "error", "message"),
    [
        ([], ModelError, "shards must have at least one entry, got an empty list"),
        ({"x": 1}, TypeError, "shards must be a list .* got dict"),
        ("x.npy", TypeError, "shards must be a list .* got str"),
        ([3], TypeError, r"shards\[0\] must be a dictionary .* got int"),
        ([{}], ModelError, r"shards\[0\] has no arrays"),
        (changed(2, y=None), ModelError, r"shards\[2\] must have x, y, as shards\[0\] .* got x"),
        (changed(0, y=None), ModelError, r"shards\[1\] must have x, as shards\[0\]"),
        (changed(1, w=np.ones(40)), ModelError, r"shards\[1\] must have x, y, .* got x, y, w"),
        (
            changed(1, x=np.ones((40, 2))),
            ModelError,
            r"shards\[1\]\['x'\] must have rows of shape \(3,\), as in shards\[0\], got \(2,\)",
        ),
        (
            changed(3, y=np.ones(30)),
            ModelError,
            r"shards\[3\]\['y'\] must have 31 rows, as shards\[3\]\['x'\] has, got 30",
        ),
        (changed(1, y=np.float64(1)), ModelError, r"shards\[1\]\['y'\] must have rows, got a sin"),
        (
            changed(1, x=np.ones((0, 3)), y=np.ones(0)),
            ModelError,
            r"shards\[1\]\['x'\] must have rows, got an array of shape \(0, 3\)",
        ),
        (changed(1, y=np.ones(40, int)), ModelError, r"shards\[1\]\['y'\] .* float64, got int64"),
        (changed(1, y=["a"] * 40), ModelError, r"shards\[1\]\['y'\] must hold numbers"),
        (
            with_nan(),
            ModelError,
            r"shards\[1\]\['x'\] must be finite, got 2 of 120 values .* first at index \(4, 2\)",
        ),
        (changed(2, y="none.npy"), ModelError, r"shards\[2\]\['y'\]: there is no file none.npy"),
        (changed(2, y=__file__), ModelError, r"shards\[2\]\['y'\]: test_shards.py cannot be read"),
        ([lambda: 3], ModelError, r"shards\[0\] must return a dictionary of arrays, got int"),
        ([lambda: 1 / 0], ModelError, r"shards\[0\] raised ZeroDivisionError"),
        ([{"x": np.ones((4, 2))}], ModelError, "shards have no y, which the model observes"),
        (
            [{"x": np.ones((4, 2)), "y": np.ones(4), "w": np.ones(4)}],
            ModelError,
            "unexpected keyword argument 'w'",
        ),
    ],
)
def test_bad_shards_are_named(shards, error, message):
    with pytest.raises(error, match=message):
        vicheck.from_shards(regression, shards)


def row_effects(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        effect = numpyro.sample("effect", dist.Normal(mean, 1))
        numpyro.sample("y", dist.Normal(effect, 1), obs=y)


def subsampled(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", 151, subsample_size=len(y)):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def prior_of_data(y):
    mean = numpyro.sample("mean", dist.Normal(y.mean(), 1))
    numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def prior_of_number(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1 / len(y)))
    numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def standardised(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("z", dist.Normal(mean, 1), obs=(y - y.mean()) / y.std())


def one_size(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([40]))
    numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def nothing_observed(y):
    numpyro.sample("mean", dist.Normal(0, 1))


def left_out(y, other=None):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mean, 1), obs=y)
    numpyro.sample("other", dist.Normal(mean, 1), obs=other)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (row_effects, "parameter 'effect' has an entry for each row"),
        (subsampled, "plate 'rows' has a subsample_size"),
        (prior_of_data, "the prior of 'mean' depends on 'y', of which each shard has a part"),
        (prior_of_number, "the prior depends on the number of rows"),
        (standardised, "site 'z' is not a sum over rows"),
        (one_size, "cannot be run|must have shape"),
        (nothing_observed, "no site of the model observes anything that the shards hold"),
        (left_out, "shards have no other, which the model observes"),
    ],
)
def test_models_that_are_no_sum_over_rows_are_refused(function, message):
    with pytest.raises(ModelError, match=message):
        vicheck.from_shards(function, cut(data_of("summed")))


def test_other_arguments_are_named():
    shards = cut(data_of("regression"))
    with pytest.raises(ModelError, match="y must be in shards or given by name, not both"):
        vicheck.from_shards(regression, shards, y=np.ones(3))
    with pytest.raises(TypeError, match=r"executor must be an Executor .* got int"):
        vicheck.from_shards(regression, shards, executor=2)
    model = vicheck.from_shards(regression, shards)
    assert "x (in shards), y (in shards)" in repr(model)
    with pytest.raises(ModelError, match="data has y, which the model has in shards"):
        vicheck.fit(model, {"y": np.ones(3)})
    with pytest.raises(ModelError, match="cannot simulate data: its data lie in shards"):
        model.simulate()


def test_a_density_that_is_nowhere_finite_is_traced_to_its_shard():
    def impossible(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("y", dist.Uniform(mean, mean + 1e-9), obs=y)

    shards = [{"y": np.zeros(4)}, {"y": np.ones(4)}]
    with pytest.raises(ModelError, match=r"the likelihood of shards\[1\]"):
        vicheck.fit(vicheck.from_shards(impossible, shards))
