"""`vicheck paper` as a user types it."""

import subprocess

import pytest

from tests.test_cli import COMMAND


def run(*arguments, cwd=None):
    return subprocess.run(
        [*COMMAND, "paper", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cli")
    return directory, run("run", "invariance", "--quick", "--out", "site", cwd=directory)


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
                     "bimodal"]  # fmt: skip


def test_a_full_run_beside_a_quick_one_is_refused(done):
    directory, _ = done
    answer = run("run", "invariance", "--out", "site", cwd=directory)
    assert answer.returncode == 74
    assert "holds a quick run of invariance, and a full run of invariance was" in answer.stderr


def test_a_figure_without_a_scripted_variant_says_so():
    answer = run("run", "fig1", "--as-scripted")
    assert answer.returncode == 64
    assert "no variant of fig1 as scripted" in answer.stderr


def test_data_with_a_quick_run_is_refused():
    answer = run("run", "fig7", "--quick", "--data", "leukemia.npz")
    assert answer.returncode == 64
    assert "--data is of no use with --quick" in answer.stderr


def test_an_unknown_name_is_refused_with_those_there_are():
    answer = run("run", "fig9")
    assert answer.returncode == 64
    assert "no experiment fig9" in answer.stderr
    assert "bimodal" in answer.stderr


def test_data_that_cannot_be_read_is_named(tmp_path):
    answer = run("run", "fig7", "--data", "nothing.npz", "--out", str(tmp_path))
    assert answer.returncode == 65
    assert "nothing.npz" in answer.stderr
    assert "Traceback" not in answer.stderr
