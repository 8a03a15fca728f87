"""`Calibration` itself: tables, printing, saving, merging, ArviZ."""

import json
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from tests.calibration.made import calibration
from tests.results.saving import assert_a_failed_save_leaves_the_old_file
from vicheck.errors import InputFileError
from vicheck.indexing import Indexing
from vicheck.results import calibration_archive
from vicheck.results.archive import decode_arrays, encode_arrays
from vicheck.results.calibration import Calibration
from vicheck.results.status import FitStatus
from vicheck.stats.calibration import bias, dispersion
from vicheck.stats.symmetry import paper_ks, symmetry_test

SOME = {3: "FAILED", 5: "TIMED_OUT", 8: "MAX_ITERATIONS", 9: "SAMPLING_ERROR", 11: "AT_INFINITY"}
BIASED = {"tau": (0.5, 1.0), "theta[0]": (0.0, 1.0), "theta[1]": (-0.5, 1.0)}


@pytest.fixture
def some():
    return calibration(statuses=SOME, **BIASED)


def changed(calibrated, **variables):
    return replace(calibrated, data=calibrated.data.assign(variables))


def test_the_table_holds_what_the_statistics_say(some):
    p = some.probabilities.to_numpy()[some.used]
    row = some.tests.loc["theta[1]"]
    assert row["p_value"] == symmetry_test(p[:, 2]).p_value
    assert row["p_value_over"] == symmetry_test(p[:, 2]).p_value_over
    assert tuple(row[["median", "bias", "bias_low", "bias_high"]]) == bias(p[:, 2])
    assert row["dispersion"] == dispersion(p[:, 2]).factor
    assert row["ks_p_value"] == paper_ks(p[:, 2]).p_value
    assert list(some.tests.index) == ["tau", "theta[0]", "theta[1]"]
    for name in ("statistic", "p_adjusted", "q_value", "direction", "dispersion_p_value"):
        assert name in some.tests.columns


def test_directions_and_signs(some):
    """A q that sits too high has small probabilities, is said to be over, with a positive bias."""
    assert some.probabilities.sel(quantity="tau").mean() < 0.4
    assert list(some.tests["direction"]) == ["over", "none", "under"]
    assert some.tests.loc["tau", "bias"] == pytest.approx(0.5, abs=0.15)
    assert some.tests.loc["theta[1]", "bias"] == pytest.approx(-0.5, abs=0.15)
    assert (some.tests["p_adjusted"] >= some.tests["q_value"]).all()
    assert (some.tests["q_value"] >= some.tests["p_value"]).all()


def test_fits_without_an_approximation_are_left_out_and_the_others_kept(some):
    left_out = set(np.flatnonzero(~some.used))
    assert left_out == {3, 5, 11}
    assert set(some.tests["num_datasets"]) == {497}
    assert some.symmetric_kl.num_used == 497
    assert int(some.converged.sum()) == 495


def test_failures_can_be_replayed(some):
    assert list(some.failures["dataset"]) == [3, 5, 8, 9, 11]
    assert list(some.failures["status"]) == list(SOME.values())
    assert list(some.failures["seed"]) == some.data["seed"].to_numpy()[[3, 5, 8, 9, 11]].tolist()
    assert some.failures["message"][0] == "what is wrong with 3"
    assert not len(calibration().failures)


def test_unknown_is_neither_converged_nor_failed():
    """As fits by a function of the user's are, which say nothing of how they ended."""
    known = calibration(**BIASED)
    unknown = calibration(statuses=dict.fromkeys(range(500), "UNKNOWN") | {3: "FAILED"}, **BIASED)
    assert not unknown.converged.any()
    assert list(unknown.failures["dataset"]) == [3]
    assert unknown.statuses == {FitStatus.UNKNOWN: 499, FitStatus.FAILED: 1}
    assert unknown.to_dict()["statuses"] == {"FAILED": 1, "UNKNOWN": 499}
    assert unknown.used.sum() == 499
    rest = np.arange(500) != 3
    np.testing.assert_array_equal(unknown.probabilities[rest], known.probabilities[rest])


def test_a_quantity_that_is_nan_somewhere_does_not_spoil_the_others(some):
    p = some.probabilities.copy()
    p[20:40, 1] = np.nan
    p[:, 2] = np.nan
    part = changed(some, probability=p)
    adjusted = ["p_adjusted", "q_value", "dispersion_p_adjusted"]  # for how many there are
    before, after = (each.tests.drop(columns=adjusted).loc["tau"] for each in (some, part))
    assert after.equals(before)
    assert list(part.tests["num_datasets"]) == [497, 477, 0]
    assert np.isnan(part.tests.loc["theta[1]", "p_value"])
    assert part.tests.loc["theta[1]", "direction"] == "none"
    rest = p.to_numpy()[some.used][:, 1]
    expected = symmetry_test(rest[np.isfinite(rest)]).p_value
    assert part.tests.loc["theta[0]", "p_value"] == expected
    gaps = "Probabilities of theta[1], theta[0] are missing, for 497 of 497 datasets"
    assert any(str(finding).startswith(gaps) for finding in part.findings)


def test_nothing_at_all_is_still_a_calibration():
    empty = calibration(num_datasets=3, statuses=dict.fromkeys(range(3), "FAILED"))
    assert empty.verdict.level == "none"
    assert empty.tests["p_value"].isna().all()
    assert np.isnan(empty.symmetric_kl.mean)
    assert str(empty.symmetric_kl) == "not known"
    assert "3 FAILED" in str(empty)
    assert len(empty.failures) == 3


def test_one_dataset():
    one = calibration(num_datasets=1)
    assert one.verdict.level == "none"
    assert one.tests.loc["tau", "p_value"] == 1.0
    assert np.isnan(one.symmetric_kl.low)
    assert one.to_arviz()["prior_sbc"]["theta"].shape == (1, 1, 2)


def test_summaries(some):
    terms = some.data["symmetric_kl"].to_numpy()[some.used]
    assert some.symmetric_kl.mean == pytest.approx(terms.mean())
    assert some.symmetric_kl.low < terms.mean() < some.symmetric_kl.high
    assert str(some.symmetric_kl) == (
        f"{terms.mean():.3g} [{some.symmetric_kl.low:.3g}, {some.symmetric_kl.high:.3g}] nats"
    )
    khat = some.khat.to_numpy()[some.used]
    assert some.khat_summary.threshold == pytest.approx(2 / 3)
    assert some.khat_summary.share_above == pytest.approx((khat >= 2 / 3).mean())
    assert some.khat_summary.median == pytest.approx(np.median(khat))


@pytest.mark.parametrize(("term", "words"), [(np.inf, "infinite"), (0.0, "0 [0, 0]")])
def test_extreme_terms_of_the_symmetric_kl(term, words):
    same = xr.DataArray(np.full(500, term), dims="dataset")
    extreme = changed(calibration(), symmetric_kl=same)
    assert str(extreme.symmetric_kl).startswith(words)
    assert words in str(extreme)


def test_unknown_khat_and_kl_are_not_reported():
    nan = xr.DataArray(np.full(500, np.nan), dims="dataset")
    foreign = changed(calibration(), khat=nan, symmetric_kl=nan)
    assert not any("khat" in str(finding) or "KL" in str(finding) for finding in foreign.findings)
    assert foreign.khat_summary.num_used == 0


def test_it_prints_the_worst_first_with_the_sign(some):
    lines = str(some).splitlines()
    assert lines[0] == ("mean_field (deterministic) on 500 simulated datasets (y), over the prior")
    assert lines[1] == str(some.verdict)
    assert any("p = Pr_q(quantity < truth): small when q sits too high" in line for line in lines)
    assert any(line.startswith("What to do: ") for line in lines)
    assert "497 of 500 datasets" in str(some)
    assert lines[-1].startswith("theta[0]")  # the only one without a bias
    assert repr(some) == "Calibration(unreliable, num_datasets=500, quantities=3)"


def test_many_quantities_print_few_lines():
    shifts = {f"x[{i}]": (0.6 if i % 2 else -0.6, 0.7) for i in range(200)}
    shifts |= {f"y[{i}]": (0.0, 0.5) for i in range(200)}
    many = calibration(num_datasets=200, statuses={0: "FAILED"}, **shifts)
    lines = str(many).splitlines()
    assert len(many.findings) <= 8
    assert len(lines) < 30
    assert max(map(len, lines)) < 400
    assert lines[-1] == "... and 388 more quantities in .tests"


@pytest.mark.parametrize("statuses", [None, SOME])
def test_saving_loses_nothing(tmp_path, statuses):
    saved = calibration(statuses=statuses, **BIASED)
    saved.save(tmp_path / "vsbc.npz")
    back = Calibration.load(tmp_path / "vsbc.npz")
    assert str(back) == str(saved)
    assert back.tests.equals(saved.tests)
    assert back.failures.equals(saved.failures)
    xr.testing.assert_equal(back.data, saved.data)
    assert back.data["exact"].dtype == bool
    assert back.data["seed"].dtype == np.int64
    assert back.settings.to_dict() == saved.settings.to_dict()
    assert back.data.attrs == saved.data.attrs
    assert [path.name for path in tmp_path.iterdir()] == ["vsbc.npz"]


@pytest.mark.slow
def test_the_same_content_gives_the_same_bits(some, tmp_path):
    """Also in another process, and after a round trip."""
    some.save(tmp_path / "one.npz")
    Calibration.load(tmp_path / "one.npz").save(tmp_path / "two.npz")
    script = (
        "from vicheck.results.calibration import Calibration; import sys;"
        "Calibration.load(sys.argv[1]).save(sys.argv[2])"
    )
    paths = [str(tmp_path / name) for name in ("one.npz", "three.npz")]
    subprocess.run([sys.executable, "-c", script, *paths], check=True)
    bits = [(tmp_path / f"{name}.npz").read_bytes() for name in ("one", "two", "three")]
    assert bits[0] == bits[1] == bits[2]
    with zipfile.ZipFile(tmp_path / "one.npz") as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_failed_save_leaves_the_old_file(some, tmp_path, monkeypatch):
    path = tmp_path / "vsbc.npz"
    assert_a_failed_save_leaves_the_old_file(path, some, calibration(), monkeypatch)


@pytest.mark.parametrize("damage", ["other", "empty", "text", "cut", "flipped", "array"])
def test_what_is_not_a_calibration_is_refused(some, tmp_path, damage):
    path = tmp_path / "file.npz"
    some.save(path)
    content = path.read_bytes()
    if damage == "other":
        np.savez(path, x=np.zeros(3))
    elif damage == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    else:
        at = content.index(b"probability.npy") + 500
        flipped = content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]
        path.write_bytes(
            {"empty": b"", "text": b"text", "cut": content[:-200], "flipped": flipped}[damage]
        )
    with pytest.raises(InputFileError, match="is not a calibration that vicheck has saved"):
        Calibration.load(path)


WRONG = {
    "no dims": lambda told, arrays: told.pop("dims"),
    "dims of another type": lambda told, arrays: told["dims"].update(khat="dataset"),
    "other dims": lambda told, arrays: told["dims"].update(khat=["quantity"]),
    "a dimension twice": lambda told, arrays: told["dims"].update(
        probability=["dataset", "dataset"]
    ),
    "an unknown coordinate": lambda told, arrays: told["coords"].append("x"),
    "a coordinate twice": lambda told, arrays: told["coords"].append("quantity"),
    "no khat": lambda told, arrays: (arrays.pop("khat"), told["dims"].pop("khat")),
    "an array more": lambda told, arrays: arrays.update(more=arrays["khat"]),
    "fewer seeds": lambda told, arrays: arrays.update(seed=arrays["seed"][1:]),
    "text for numbers": lambda told, arrays: arrays.update(khat=arrays["khat"].astype(str)),
    "an unknown status": lambda told, arrays: arrays["status"].put(0, "FINE"),
    "probabilities above 1": lambda told, arrays: arrays["probability"].put(0, 1.5),
    "infinite probabilities": lambda told, arrays: arrays["probability"].put(0, np.inf),
    "two equal names": lambda told, arrays: arrays["quantity"].put(0, arrays["quantity"][1]),
    "draws of another type": lambda told, arrays: told["settings"].update(num_draws="many"),
    "no draws": lambda told, arrays: told["settings"].update(num_draws=0),
    "a family without a solver": lambda told, arrays: told["settings"].update(solver=None),
    "options of another type": lambda told, arrays: told["settings"].update(options=[1]),
    "versions that are a list": lambda told, arrays: told["settings"].update(versions=[]),
    "seeds that are text": lambda told, arrays: told["settings"].update(seeds=["1"]),
    "another kind": lambda told, arrays: told["settings"].update(kind="both"),
    "a setting more": lambda told, arrays: told["settings"].update(x=1),
    "settings of another type": lambda told, arrays: told.update(settings=[]),
    "no settings": lambda told, arrays: told.pop("settings"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_whose_parts_do_not_fit_is_refused(some, tmp_path, case):
    path = tmp_path / "vsbc.npz"
    some.save(path)
    description, arrays = decode_arrays(path.read_bytes())
    WRONG[case](description, arrays)
    path.write_bytes(encode_arrays(arrays, description))
    with pytest.raises(InputFileError, match="is not a calibration that this version of vich"):
        Calibration.load(path)


def test_another_format_is_refused(some, tmp_path, monkeypatch):
    later = replace(calibration_archive._FORMAT, version=99)
    monkeypatch.setattr(calibration_archive, "_FORMAT", later)
    some.save(tmp_path / "new.npz")
    monkeypatch.undo()
    with pytest.raises(InputFileError, match="has format 99, this version reads 3"):
        Calibration.load(tmp_path / "new.npz")


def test_data_without_what_is_needed_is_refused(some):
    with pytest.raises(ValueError, match=r"a variable 'khat' with dimensions \('dataset',\)"):
        Calibration(some.data.drop_vars("khat"), some.settings)
    with pytest.raises(ValueError, match="a variable 'probability'"):
        Calibration(some.data.assign(probability=some.data["probability"].T), some.settings)


def test_merging_runs_with_other_seeds():
    one, two = calibration(seed=1, statuses=SOME), calibration(num_datasets=50, seed=2)
    both = one.merge(two)
    assert both.probabilities.shape == (550, 3)
    assert list(both.data["dataset"].to_numpy()) == list(range(550))
    seeds = [*one.data["seed"].to_numpy(), *two.data["seed"].to_numpy()]
    assert both.data["seed"].to_numpy().tolist() == seeds
    assert both.settings.seeds == (1, 2)
    assert both.provenance.settings["seed"] == "1, 2"
    assert both.provenance.code == ""
    assert "550 simulated datasets" in both.title
    assert list(both.failures["seed"]) == list(one.failures["seed"])
    assert set(both.tests["num_datasets"]) == {547}
    assert set(one.merge(two, calibration(num_datasets=9, seed=3)).tests["num_datasets"]) == {556}


def test_merging_parts_of_one_run_gives_the_run(tmp_path):
    whole = calibration(num_datasets=60)
    parts = [
        replace(whole, data=whole.data.isel(dataset=rows)) for rows in (slice(40, 60), slice(0, 40))
    ]
    back = parts[0].merge(parts[1])
    assert back.data["dataset"].to_numpy().tolist() == list(range(60))
    xr.testing.assert_equal(back.data, whole.data)
    assert str(back) == str(whole)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"seed": 1}, "the runs share 500 datasets, the first with seed 1000"),
        ({"seed": 2, "settings": {"model": "x"}}, "the same model, got 'abc' and 'x'"),
        ({"seed": 2, "settings": {"family": "full_rank"}}, "the same family"),
        ({"seed": 2, "settings": {"num_draws": 5}}, "the same num_draws, got 1000 and 5"),
        ({"seed": 2, "a": (0.0, 1.0)}, "the same quantities"),
    ],
)
def test_what_does_not_belong_together_is_not_merged(other, message):
    with pytest.raises(ValueError, match=message):
        calibration(seed=1).merge(calibration(**other))


def test_to_arviz_is_what_plot_ecdf_pit_reads(some):
    tree = some.to_arviz()
    group = tree["prior_sbc"]
    assert group["tau"].dims == ("chain", "draw")
    assert group["theta"].shape == (1, 497, 2)
    assert float(group["theta"].min()) >= 0.0
    assert float(group["theta"].max()) <= 1.0
    kept = some.probabilities.isel(dataset=some.used)
    assert np.array_equal(group["theta"].to_numpy()[0, :, 1], kept.sel(quantity="theta[1]"))
    assert np.array_equal(group["draw"], kept["dataset"])
    assert np.array_equal(tree["sample_stats"]["khat"][0], some.khat[some.used])


@given(st.lists(st.integers(1, 3), max_size=3), st.sampled_from(Indexing), st.randoms())
def test_arrays_are_put_together_in_any_order(shape, indexing, random):
    from vicheck.adapters.arviz import _assembled

    labels = indexing.labels({"x": tuple(shape)})
    order = random.sample(range(len(labels)), len(labels))
    names = [labels[i] for i in order]
    values = np.arange(2.0 * len(labels)).reshape(2, *shape)
    columns = values.reshape(2, -1)[:, order]
    assert np.array_equal(_assembled(columns, names, indexing)["x"], values)


def test_parts_of_an_array_stay_parts():
    from vicheck.adapters.arviz import _assembled

    names = ["theta[0]", "theta[2]", "tau"]
    parts = _assembled(np.zeros((4, 3)), names, Indexing.PYTHON)
    assert list(parts) == ["theta[0]", "theta[2]", "tau"]


def test_to_dict_is_plain(some):
    plain = json.loads(json.dumps(some.to_dict()))
    assert plain["verdict"]["level"] == "unreliable"
    assert plain["tests"]["tau"]["direction"] == "over"
    assert plain["statuses"] == {"CONVERGED": 495} | dict.fromkeys(SOME.values(), 1)
    assert plain["failures"][0]["dataset"] == 3
    assert plain["num_used"] == 497


def test_uniformity_is_stricter():
    narrow = calibration(x=(0.0, 0.6), y=(0.0, 1.0))
    assert list(narrow.tests["direction"]) == ["none", "none"]
    table = narrow.uniformity()
    assert list(table["inside"]) == [False, True]
    assert table.loc["x", "p_adjusted"] < 1e-6
    assert (table["p_adjusted"] >= table["p_value"]).all()


def test_unknown_statuses_and_equal_names_are_refused(some):
    with pytest.raises(ValueError, match="status BANANA, but there are: CONVERGED"):
        calibration(30, statuses={1: "BANANA"})
    names = ["a", "a", *some.quantities[2:]]
    with pytest.raises(ValueError, match="different names, got 'a' twice"):
        Calibration(some.data.assign_coords(quantity=names), some.settings)
