"""Runs whose model or fitter has changed are other runs, and a store says so."""

import types
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import vicheck
from tests.calibration import problems
from tests.calibration.problems import draw_exactly, independent_model
from vicheck.calibration.fingerprint import fingerprint_of_code
from vicheck.calibration.run import vsbc
from vicheck.errors import OtherMachineWarning, StoreError

PRIOR_SD, NOISE = 1.0, np.ones(4)
FITTER_SHIFT = 0.0


def with_globals(y=None):
    theta = numpyro.sample("theta", dist.Normal(0.0, PRIOR_SD).expand([4]).to_event(1))
    numpyro.sample("y", dist.Normal(theta, jnp.asarray(NOISE)), obs=y)


def shifted(data, seed):
    return draw_exactly(data, seed, shift=FITTER_SHIFT)


def by_module(data, seed):
    return problems.draw_exactly(data, seed, shift=problems.CHUNK_SIZE)


def helped(data, seed):
    return _help(data, seed)


def _help(data, seed):
    return draw_exactly(data, seed, shift=FITTER_SHIFT)


class Fitter:
    def __init__(self, shift):
        self.shift = shift

    def __call__(self, data, seed):
        return draw_exactly(data, seed, shift=self.shift)

    def run(self, data, seed):
        return self(data, seed)


def closure(shift):
    def fit(data, seed):
        return draw_exactly(data, seed, shift=shift)

    return fit


def default(shift):
    def fit(data, seed, shift=shift):
        return draw_exactly(data, seed, shift=shift)

    return fit


@pytest.mark.parametrize(("name", "value"), [("PRIOR_SD", 2.0), ("NOISE", np.full(4, 0.5))])
def test_a_store_refuses_a_model_whose_globals_have_changed(name, value, tmp_path, monkeypatch):
    model = vicheck.from_numpyro(with_globals)
    options = {"num_datasets": 8, "num_draws": 50, "store": tmp_path, "progress": False}
    first = vsbc(model, **options)
    assert (vsbc(model, **options).probabilities == first.probabilities).all()
    monkeypatch.setitem(globals(), name, value)
    with pytest.raises(StoreError, match="another run; model: the store has"):
        vsbc(model, **options)


@pytest.mark.slow
def test_a_changed_model_is_simulated_and_fitted_anew(monkeypatch):
    model = vicheck.from_numpyro(with_globals)
    options = {"num_datasets": 8, "num_draws": 50, "progress": False}
    first = vsbc(model, **options)
    monkeypatch.setitem(globals(), "PRIOR_SD", 2.0)
    second = vsbc(model, **options)
    assert first.settings.model != second.settings.model
    assert not np.array_equal(first.probabilities, second.probabilities)
    monkeypatch.setitem(globals(), "PRIOR_SD", 1.0)
    np.testing.assert_array_equal(vsbc(model, **options).probabilities, first.probabilities)


def test_a_store_refuses_a_fitter_whose_globals_have_changed(tmp_path, monkeypatch):
    options = {"num_datasets": 5, "store": tmp_path, "progress": False, "fit": shifted}
    vsbc(independent_model(), quantities=["theta"], **options)
    monkeypatch.setitem(globals(), "FITTER_SHIFT", 1.0)
    with pytest.raises(StoreError, match=r"another run; (solver|fit): the store has"):
        vsbc(independent_model(), quantities=["theta"], **options)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (closure(0.0), closure(1.0)),
        (default(0.0), default(1.0)),
        (Fitter(0.0), Fitter(1.0)),
        (Fitter(0.0).run, Fitter(1.0).run),
        (partial(draw_exactly, shift=0.0), partial(draw_exactly, shift=1.0)),
        (closure(np.zeros(3)), closure(np.ones(3))),
        (closure({"a": [1, 2]}), closure({"a": [1, 3]})),
        (closure(jnp.zeros(3)), closure(jnp.ones(3))),
        (lambda data, seed: {"theta": 1.0}, lambda data, seed: {"theta": 2.0}),
    ],
)
def test_fitters_that_differ_have_other_fingerprints(one, other):
    assert fingerprint_of_code(one) != fingerprint_of_code(other)


@pytest.mark.parametrize(
    "make",
    [
        partial(closure, 0.5),
        partial(default, 0.5),
        partial(Fitter, 0.5),
        partial(closure, np.zeros(3)),
        partial(closure, {"a": {1, 2}}),
        partial(partial, draw_exactly, shift=0.5),
    ],
)
def test_equal_fitters_have_the_same_fingerprint(make):
    assert fingerprint_of_code(make()) == fingerprint_of_code(make())


def test_globals_of_functions_that_are_called_count(monkeypatch):
    before = fingerprint_of_code(helped)
    monkeypatch.setitem(globals(), "FITTER_SHIFT", 1.0)
    assert fingerprint_of_code(helped) != before


def test_values_in_the_users_modules_count(monkeypatch):
    before = fingerprint_of_code(by_module)
    monkeypatch.setattr(problems, "CHUNK_SIZE", 6)
    assert fingerprint_of_code(by_module) != before


def test_functions_that_call_each_other_are_read_once():
    module = types.ModuleType("recursive")
    exec("def a(n): return b(n)\ndef b(n): return a(n)", vars(module))
    assert fingerprint_of_code(module.a).startswith("recursive.a ")


def test_installed_libraries_count_by_name(monkeypatch):
    def fit(data, seed):
        return np.mean(data["y"])

    before = fingerprint_of_code(fit)
    monkeypatch.setattr(np, "mean", np.median)  # not read, unlike a module of the user's
    assert fingerprint_of_code(fit) == before


@pytest.mark.slow
def test_a_run_that_goes_on_on_another_machine_says_so(tmp_path, monkeypatch):
    model = vicheck.from_numpyro(with_globals)
    options = {"num_datasets": 8, "chunk_size": 4, "num_draws": 50, "progress": False}
    alone = vsbc(model, **options)
    vsbc(model, **options, store=tmp_path)
    (tmp_path / "chunk-000001.bin").unlink()
    here = "vicheck.calibration.run.made_on", "vicheck.calibration.work.made_on"
    for name in here:
        monkeypatch.setattr(name, lambda: "another processor")
    with pytest.warns(OtherMachineWarning, match="and this is another processor: .* rounding"):
        mixed = vsbc(model, **options, store=tmp_path)
    told = mixed.provenance.settings["computed on"]
    assert "another processor" in told
    assert alone.provenance.settings["computed on"] in told
    np.testing.assert_array_equal(mixed.probabilities, alone.probabilities)  # it is the same one
    # What is complete is only read, wherever that is; and the result remembers.
    again = vsbc(model, **options, store=tmp_path)
    assert again.provenance.settings["computed on"] == told


def test_a_run_that_goes_on_under_other_random_numbers_of_jax_is_the_same_bits(tmp_path):
    model = vicheck.from_numpyro(with_globals)
    options = {"num_datasets": 8, "chunk_size": 4, "num_draws": 50, "progress": False}
    alone = vsbc(model, **options, store=tmp_path)
    (tmp_path / "chunk-000001.bin").unlink()
    with jax.threefry_partitionable(False), jax.default_prng_impl("rbg"):
        again = vsbc(model, **options, store=tmp_path)
    np.testing.assert_array_equal(again.probabilities, alone.probabilities)


def test_results_of_several_machines_are_merged_with_their_names(monkeypatch):
    model = vicheck.from_numpyro(with_globals)
    options = {"num_datasets": 4, "num_draws": 50, "progress": False}
    first = vsbc(model, **options)
    monkeypatch.setattr("vicheck.calibration.work.made_on", lambda: "another processor")
    merged = first.merge(vsbc(model, **options, seed=1))
    assert "another processor" in merged.provenance.settings["computed on"]
