"""An interrupted run of the scoreboard goes on where it ended."""

import json

import pytest
from truth import run
from truth.cases import cases_of
from truth.run import Sources, read_records, run_all
from truth.scores import summarise

NAMES = ("q right, 3 dimensions", "q a fifth too narrow, 1 dimensions")


@pytest.mark.slow
def test_an_interrupted_run_goes_on(tmp_path):
    path, sources = tmp_path / "deep" / "records.jsonl", Sources()
    whole = run_all(path, sources, NAMES)
    problems = sources.problems()
    assert {each["key"] for each in whole} == {
        case.key for name in NAMES for case in cases_of(problems[name])
    }
    lines = path.read_text().splitlines(keepends=True)
    kept = [*lines[:4], lines[4][:30]]  # the last one is torn
    path.write_text("".join(kept))
    again = run_all(path, sources, NAMES)
    assert path.read_text().startswith("".join(lines[:4]))
    assert sorted(each["key"] for each in again) == sorted(each["key"] for each in whole)
    assert summarise(again)["all"] == summarise(whole)["all"]


def test_records_of_other_code_are_not_read(tmp_path):
    path = tmp_path / "records.jsonl"
    assert read_records(path, "new") == []
    path.write_text(json.dumps({"code": "old"}) + "\n" + json.dumps({"key": "a"}) + "\n")
    assert read_records(path, "old") == [{"key": "a"}]
    assert read_records(path, "new") == []


def test_code_of_the_library_and_of_the_problems_tells_runs_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ROOT", tmp_path)
    (tmp_path / "src" / "vicheck").mkdir(parents=True)
    before = run.code_digest()
    (tmp_path / "src" / "vicheck" / "new.py").write_text("x = 1\n")
    assert run.code_digest() != before
