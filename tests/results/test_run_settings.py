"""The one description of a run, and what is derived from it."""

import json
from dataclasses import replace

import pytest

from vicheck.results.run_settings import RunSettings

OWN = RunSettings(
    model="abc",
    observed=("y", "z"),
    quantities=("tau", "theta[0]"),
    num_draws=1000,
    num_datasets=500,
    seeds=(4,),
    family="low_rank",
    rank=2,
    solver="deterministic",
    options={"tolerance": 0.01},
    richer="full_rank",
    chosen="['tau', 'theta[0]']",
    chunk_size=25,
    time_limit=2.0,
    sources="0123",
    versions={"python": "3.11", "vicheck": "0.2", "jax": "0.10", "numpyro": "0.22", "numpy": "2"},
    machines=("this", "that"),
)
USERS = RunSettings("abc", ("y",), ("tau",), 100, 50, (1,), fit="module.function 0123")


@pytest.mark.parametrize("settings", [OWN, USERS], ids=["own", "user's"])
def test_it_comes_back_from_json(settings):
    text = json.dumps(settings.to_dict(), allow_nan=False)
    back = RunSettings.from_dict(json.loads(text))
    assert back.to_dict() == settings.to_dict()
    assert repr(back) == repr(settings)


def test_a_title_names_who_fits_what_and_where():
    assert OWN.title == (
        "low_rank (deterministic) on 500 simulated datasets (y, z), over the prior"
    )
    assert replace(OWN, kind="posterior").title.endswith(", at the observed data")
    assert USERS.title == "fits by module.function on 50 simulated datasets (y), over the prior"


def test_the_code_repeats_the_run():
    assert OWN.provenance.code == (
        "vicheck.vsbc(model, quantities=['tau', 'theta[0]'], family='low_rank', "
        "solver='deterministic', num_datasets=500, num_draws=1000, seed=4, rank=2, time_limit=2.0, "
        "tolerance=0.01)"
    )
    posterior = replace(OWN, kind="posterior", centre_options={}).provenance.code
    assert posterior.endswith("time_limit=2.0, posterior=True)")
    assert replace(OWN, seeds=(4, 5)).provenance.code == ""
    assert USERS.provenance.code == ""


def test_the_provenance_has_what_is_known_and_nothing_else():
    assert OWN.provenance.settings == {
        "true parameters from": "the prior",
        "family": "low_rank",
        "rank": 2,
        "solver": "deterministic",
        "tolerance": 0.01,
        "datasets": 500,
        "draws from each q": 1000,
        "seconds a fit may take": 2.0,
        "quantities": "['tau', 'theta[0]']",
        "computed on": "this; and on that",
        "seed": 4,
    }
    assert OWN.provenance.versions == OWN.versions
    assert OWN.provenance.fingerprint == "abc"
    assert USERS.provenance.settings == {
        "true parameters from": "the prior",
        "solver": "module.function 0123",
        "datasets": 50,
        "draws from each q": 100,
        "seed": 1,
    }
    assert replace(USERS, seeds=(1, 2)).provenance.settings["seed"] == "1, 2"


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "abd"},
        {"quantities": ("tau",)},
        {"kind": "posterior"},
        {"family": "mean_field"},
        {"rank": 3},
        {"solver": "stochastic"},
        {"options": {"tolerance": 0.1}},
        {"centre_options": {"tolerance": 0.01}},
        {"fit": "f 1"},
        {"num_draws": 999},
        {"num_datasets": 501},
        {"chunk_size": 24},
        {"time_limit": None},
        {"seeds": (5,)},
        {"sources": "0124"},
        {"versions": OWN.versions | {"jax": "0.11"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_whatever_a_chunk_depends_on_is_in_the_manifest(changes):
    assert json.dumps(replace(OWN, **changes).manifest) != json.dumps(OWN.manifest)


@pytest.mark.parametrize(
    "changes",
    [{"machines": ()}, {"richer": None}, {"chosen": None}, {"versions": OWN.versions | {"x": "1"}}],
    ids=lambda changes: next(iter(changes)),
)
def test_whatever_a_chunk_does_not_depend_on_is_not(changes):
    assert replace(OWN, **changes).manifest == OWN.manifest


def test_the_readable_copy_holds_what_a_netcdf_file_can():
    attributes = OWN.attributes
    assert attributes["title"] == OWN.title
    assert attributes["family"] == "low_rank"
    assert json.loads(attributes["options"]) == {"tolerance": 0.01}
    assert all(isinstance(value, str | int | float) for value in attributes.values())
    assert "fit" not in attributes


def test_runs_may_differ_in_seed_and_size_and_in_nothing_else():
    other = replace(OWN, seeds=(5,), num_datasets=9, chunk_size=3, sources="x", machines=())
    assert OWN.differences(other) == []
    assert OWN.differences(replace(other, rank=3, model="x")) == [
        ("model", "abc", "x"),
        ("rank", 2, 3),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_draws": 0}, "num_draws must be positive, got 0"),
        ({"chunk_size": -1}, "chunk_size must be positive, got -1"),
        ({"solver": None}, "family and solver must be set together"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(OWN, **changes)
