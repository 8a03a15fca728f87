"""What vicheck runs on."""

import tomllib
from importlib.metadata import version
from pathlib import Path

from vicheck.doctor import environment

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def names_of(requirements):
    return {requirement.split(">")[0].split("=")[0] for requirement in requirements}


def test_every_dependency_has_its_version():
    found = environment.versions()
    assert names_of(PROJECT["dependencies"]) <= set(found)
    assert found["numpy"] == version("numpy")


def test_what_is_not_installed_has_none(monkeypatch):
    monkeypatch.setattr(environment, "_LIBRARIES", ("numpy", "no-such-library"))
    assert environment.versions()["no-such-library"] is None


def test_every_extra_is_there_by_the_package_behind_it():
    extras = PROJECT["optional-dependencies"]
    found = environment.extras()
    assert set(found) == set(extras) - {"dev", "bench", "docs"}
    for extra, package in found.items():
        assert package["package"] in names_of(extras[extra])


def test_the_machine_and_its_devices():
    machine = environment.machine()
    assert machine["cores"] >= 1
    assert machine["memory"] is None or machine["memory"] > 2**20
    assert "cpu:0" in environment.devices()


def test_the_cache_is_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "vicheck" / "stan").mkdir(parents=True)
    (tmp_path / "vicheck" / "one").write_bytes(b"12345")
    (tmp_path / "vicheck" / "stan" / "two").write_bytes(b"123")
    found = environment.cache()
    assert found == {"directory": str(tmp_path / "vicheck"), "bytes": 8, "reason": ""}


def test_why_nothing_is_kept_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert environment.cache()["directory"] == str(tmp_path / "vicheck")
    (tmp_path / "vicheck").chmod(0o777)
    found = environment.cache()
    assert found["directory"] == ""
    assert f"others could write to {tmp_path / 'vicheck'}" in found["reason"]
    monkeypatch.setenv("VICHECK_CACHE", "off")
    found = environment.cache()
    assert found["directory"] == ""
    assert "VICHECK_CACHE is off" in found["reason"]
