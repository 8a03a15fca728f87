"""Runs of experiments can be interrupted, go on, and lose nothing."""

import json
import shutil

import numpy as np
import pytest

from vicheck.errors import InputFileError, StoreError
from vicheck.paper import results
from vicheck.paper.catalogue import NAMES, choose
from vicheck.paper.drawing import new_figure
from vicheck.paper.experiment import Experiment, Run, read_json, write_json
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

    def experiment(name):
        """Return an experiment on its own, or one of two that share their numbers."""
        return Experiment(
            name, "three pieces", compute, lambda numbers: new_figure(1, 1)[0],
            lambda numbers: "caption", lambda numbers: [], "another way",
            uses_leukemia=True, shared="" if name == "fig1" else "three",
        )  # fmt: skip

    monkeypatch.setattr(results, "experiment", experiment)
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
    before = (tmp_path / "fig1.json").read_bytes()
    with pytest.raises(StoreError, match="holds a full run of fig1, and a quick run of fig1"):
        run_experiment("fig1", tmp_path, silent, quick=True)
    assert (tmp_path / "fig1.json").read_bytes() == before


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


def test_numbers_that_two_experiments_show_are_computed_and_written_once(counted, tmp_path):
    first = run_experiment("fig3", tmp_path, silent)
    shutil.rmtree(tmp_path / ".pieces")
    second = run_experiment("fig4", tmp_path, silent)
    assert counted["computed"] == [0, 1, 2]
    assert second.is_new
    assert second.numbers == first.numbers
    assert [each.numbers for each in read_results(tmp_path)] == [first.numbers] * 2
    for name in ("fig3", "fig4"):
        record = json.loads((tmp_path / f"{name}.json").read_text())
        assert record["numbers_in"] == "three.json"
        assert "numbers" not in record


def test_shared_numbers_of_other_settings_are_not_used(counted, tmp_path):
    run_experiment("fig3", tmp_path, silent)
    run_experiment("fig4", tmp_path, silent, as_scripted=True)
    assert counted["computed"] == [0, 1, 2, 0, 1, 2]
    assert (tmp_path / "three-as-scripted.json").exists()


def test_shared_numbers_that_are_gone_are_named(counted, tmp_path):
    run_experiment("fig3", tmp_path, silent)
    (tmp_path / "three.json").unlink()
    with pytest.raises(InputFileError, match=r"three\.json, which is not there; remove fig3\.json"):
        run_experiment("fig4", tmp_path, silent)


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


def test_runs_are_written_as_columns_and_read_back_as_they_were(tmp_path):
    runs = [
        {"khat": 0.5, "status": "CONVERGED", "means": {"mu": 1.5, "tau": None}},
        {"khat": None, "status": "FAILED", "means": {"mu": 2.0, "tau": 3.0}},
    ]
    content = {
        "runs": runs, "one": runs[:1], "none": [], "mixed": [{"a": 1}, {"b": 2}],
        "lists": [[1, 2], [3]], "text": ["a, [b]", "{c}"], "empty": {}, "nothing": [{}, {}],
    }  # fmt: skip
    path = tmp_path / "numbers.json"
    write_json(path, content)
    assert read_json(path) == content
    written = json.loads(path.read_text())
    assert written["runs"]["columns"]["khat"] == [0.5, None]
    assert written["runs"]["columns"]["means"]["columns"]["tau"] == [None, 3.0]
    assert written["one"] == runs[:1]


def test_names_are_chosen_in_the_order_of_the_paper():
    assert choose(["fig8", "FIGS1", "invariance"]) == ["invariance", "figS1", "fig8"]
    assert choose(["all"]) == list(NAMES)
    with pytest.raises(ValueError, match="no experiment fig9: there are invariance, fig1"):
        choose(["fig1", "fig9"])
