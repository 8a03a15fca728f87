"""The GitHub Actions file of the documentation: it is one, and its steps do what is said."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "howto" / "pipeline.md").read_text(encoding="utf-8")
WORKFLOW = yaml.load(re.search(r"^```yaml\n(.*?)^```$", PAGE, re.S | re.M)[1], yaml.BaseLoader)
STEPS = WORKFLOW["jobs"]["check"]["steps"]


def test_the_file_is_a_workflow():
    assert set(WORKFLOW) == {"name", "on", "jobs"}
    assert set(WORKFLOW["on"]) <= {"push", "pull_request"}
    for job in WORKFLOW["jobs"].values():
        assert set(job) == {"runs-on", "steps"}
    for step in STEPS:
        assert set(step) <= {"name", "uses", "with", "run", "if"}
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v0"))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "passes"), [("noncentred", True), ("centred", False)])
def test_the_step_stops_at_a_bad_fit_and_keeps_its_report(tmp_path, model, passes):
    shutil.copy(DOCS / "schools.py", tmp_path / "model.py")
    shutil.copy(DOCS / "schools.json", tmp_path / "data.json")
    command = tmp_path / "bin" / "vicheck"
    command.parent.mkdir()
    code = "from vicheck.cli import main; main()"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    command.chmod(0o755)
    step = next(step for step in STEPS if step.get("name") == "Check the fit")
    assert "model.py:noncentred" in step["run"]
    ended = subprocess.run(  # as GitHub runs a step without `shell`
        ["bash", "-e", "-c", step["run"].replace("model.py:noncentred", f"model.py:{model}")],
        cwd=tmp_path, env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode == 0) == passes, ended.stderr
    keep = next(step for step in STEPS if step.get("name") == "Keep the report")
    assert keep["if"] == "always()"
    assert all((tmp_path / name).stat().st_size > 0 for name in keep["with"]["path"].split())


@pytest.mark.slow
def test_an_error_is_no_usable_fit(tmp_path):
    step = next(step for step in STEPS if step.get("name") == "Check the fit")
    code = "from vicheck.cli import main; main()"
    vicheck = f"vicheck() {{ '{sys.executable}' -c '{code}' \"$@\"; }}\n"
    ended = subprocess.run(
        ["bash", "-e", "-c", vicheck + step["run"]], cwd=tmp_path, capture_output=True, check=False
    )
    assert ended.returncode != 0  # there is no model.py
