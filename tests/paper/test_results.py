"""Runs of experiments can be interrupted, go on, and lose nothing."""

import json

import numpy as np
import pytest

from vicheck.errors import InputFileError, StoreError
from vicheck.paper import results
from vicheck.paper.catalogue import NAMES, choose
from vicheck.paper.drawing import new_figure
from vicheck.paper.experiment import Experiment, Run, write_json
from vicheck.paper.results import read_results, run_experiment


@pytest.fixture
def counted(monkeypatch):
    """An experiment of three pieces, of which the third can be made to fail."""
    state = {"computed": [], "fails": False, "source": "synthetic"}

    def piece(index):
        if index == 2 and state["fails"]:
            raise KeyboardInterrupt
        state["computed"].append(index)
        return {"value": index, "none": np.nan}

    def compute(run: Run):
        pieces = [run.piece(f"piece-{i}", lambda i=i: piece(i)) for i in range(3)]
        return {"source": state["source"], "pieces": pieces}

    made = Experiment(
        "fig1", "three pieces", compute, lambda numbers: new_figure(1, 1)[0],
        lambda numbers: "caption", lambda numbers: [], "another way", uses_leukemia=True,
    )  # fmt: skip
    monkeypatch.setattr(results, "experiment", lambda name: made)
    return state


def silent(what):
    pass


def test_an_interrupted_run_goes_on_where_it_was(counted, tmp_path):
    counted["fails"] = True
    with pytest.raises(KeyboardInterrupt):
        run_experiment("fig1", tmp_path, silent)
    assert not (tmp_path / "fig1.json").exists()
    counted["fails"] = False
    result = run_experiment("fig1", tmp_path, silent)
    assert counted["computed"] == [0, 1, 2]
    assert [each["value"] for each in result.numbers["pieces"]] == [0, 1, 2]


def test_what_is_finished_is_not_run_again(counted, tmp_path):
    first = run_experiment("fig1", tmp_path, silent)
    again = run_experiment("fig1", tmp_path, silent)
    assert counted["computed"] == [0, 1, 2]
    assert first.is_new
    assert not again.is_new
    assert again.numbers == first.numbers


def test_a_quick_run_does_not_overwrite_a_full_one(counted, tmp_path):
    counted["source"] = "file"
    run_experiment("fig1", tmp_path, silent, data="leukemia.npz")
    kept = (tmp_path / "fig1.json").read_bytes()
    with pytest.raises(StoreError, match="holds a full run of fig1, and a quick run of fig1"):
        run_experiment("fig1", tmp_path, silent, quick=True)
    assert (tmp_path / "fig1.json").read_bytes() == kept


def test_a_run_on_real_data_does_not_go_on_from_synthetic_ones(counted, tmp_path):
    run_experiment("fig1", tmp_path, silent)
    with pytest.raises(
        StoreError, match="a run of fig1 on synthetic data, and one on the leukemia"
    ):
        run_experiment("fig1", tmp_path, silent, data="leukemia.npz")


def test_the_scripted_variant_lies_beside_the_printed_one(counted, tmp_path):
    run_experiment("fig1", tmp_path, silent)
    run_experiment("fig1", tmp_path, silent, as_scripted=True)
    assert [each.label for each in read_results(tmp_path)] == ["fig1", "fig1-as-scripted"]
    assert counted["computed"] == [0, 1, 2, 0, 1, 2]


def test_a_damaged_file_is_named(counted, tmp_path):
    run_experiment("fig1", tmp_path, silent)
    (tmp_path / "fig1.json").write_text("{")
    with pytest.raises(InputFileError, match=r"fig1\.json"):
        run_experiment("fig1", tmp_path, silent)


def test_numbers_are_written_as_strict_json(tmp_path):
    path = tmp_path / "numbers.json"
    write_json(
        path, {"a": np.float64(1 / 3), "b": [np.nan, np.inf], "c": np.arange(2), "d": "x, y"}
    )
    assert json.loads(path.read_text()) == {
        "a": 0.333333, "b": [None, None], "c": [0, 1], "d": "x, y",
    }  # fmt: skip


def test_names_are_chosen_in_the_order_of_the_paper():
    assert choose(["fig8", "FIGS1", "invariance"]) == ["invariance", "figS1", "fig8"]
    assert choose(["all"]) == list(NAMES)
    with pytest.raises(ValueError, match="no experiment fig9: there are invariance, fig1"):
        choose(["fig1", "fig9"])
