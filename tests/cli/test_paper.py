"""`vicheck paper` as a user types it."""

import json

import pytest

from tests.cli.command_line import call


def run(*arguments):
    return call("paper", *arguments)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cli")
    return directory, run("run", "invariance", "--quick", "--out", directory / "site")


def test_an_experiment_tells_its_claims_and_writes_a_page(done):
    directory, answer = done
    assert answer.returncode == 0, answer.stderr
    assert "holds: khat is invariant under any smooth reparametrization" in answer.stdout
    assert "site/index.html" in answer.stdout
    assert {path.name for path in (directory / "site").iterdir() if path.suffix} == {
        "invariance.json", "invariance.svg", "index.html",
    }  # fmt: skip


def test_the_list_has_every_experiment():
    answer = run("list")
    assert answer.returncode == 0, answer.stderr
    names = [line.split()[0] for line in answer.stdout.splitlines() if not line.startswith(" ")]
    assert names == ["invariance", *[f"fig{i}" for i in range(1, 7)], "figS1", "fig7", "fig8",
                     "bimodal", "tailored"]  # fmt: skip


def test_a_full_run_beside_a_quick_one_is_refused(done):
    directory, _ = done
    answer = run("run", "invariance", "--out", directory / "site")
    assert answer.returncode == 74
    assert "holds a quick run of invariance, and a full run of invariance was" in answer.stderr


def test_json_has_the_claims_and_the_page(done):
    directory, _ = done
    again = run("run", "invariance", "--quick", "--json", "--out", directory / "site")
    answer = json.loads(again.stdout)
    assert answer["page"] == str(directory / "site" / "index.html")
    (experiment,) = answer["experiments"]
    assert experiment["name"] == "invariance"
    assert experiment["quick"] is True
    assert {claim["outcome"] for claim in experiment["claims"]} == {"holds"}


def test_the_list_as_json():
    listed = json.loads(run("list", "--json").stdout)
    assert [each["name"] for each in listed][:2] == ["invariance", "fig1"]
    assert all(each["title"] for each in listed)


def test_data_that_cannot_be_read_is_named(tmp_path):
    answer = run("run", "fig7", "--data", "nothing.npz", "--out", str(tmp_path))
    assert answer.returncode == 65
    assert "nothing.npz" in answer.stderr
    assert "Traceback" not in answer.stderr
