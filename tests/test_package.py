"""What a stranger gets: a light import, a complete wheel, examples with a known origin."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest
import trove_classifiers
import yaml

ROOT = Path(__file__).parents[1]
HEAVY = (
    "jax", "numpyro", "equinox", "optax", "matplotlib", "pandas", "xarray", "arviz_base", "numba",
    "scipy", "typer", "rich", "pyarrow",
)  # fmt: skip


def modules_after(code):
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in run.stdout.split()}


def test_import_is_light():
    assert not modules_after("import vicheck") & set(HEAVY)


def test_psis_of_a_short_vector_needs_neither_scipy_nor_numba():
    code = "import numpy, vicheck; vicheck.psis(numpy.random.default_rng(1).normal(size=1000))"
    assert not modules_after(code) & set(HEAVY)


def test_every_public_name_is_there():
    import vicheck

    for name in vicheck.__all__:
        assert getattr(vicheck, name) is not None
    assert set(dir(vicheck)) == set(vicheck.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = vicheck.nothing


def test_help_and_completion_load_no_numerical_library():
    loaded = modules_after("import vicheck.cli.commands")
    assert not loaded & ({"numpy", *HEAVY} - {"typer", "rich"})


def test_the_command_for_ratios_does_not_load_jax(tmp_path):
    (tmp_path / "ratios.csv").write_text("\n".join(map(str, range(100))))
    code = f"""
import sys
from vicheck.cli.commands import main
sys.argv = ["vicheck", "psis", {str(tmp_path / "ratios.csv")!r}]
try:
    main()
except SystemExit as stop:
    assert stop.code == 2
"""
    assert not modules_after(code) & (set(HEAVY) - {"typer", "rich", "scipy"})


@pytest.mark.slow
def test_wheel_is_complete(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("vicheck-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in (ROOT / "src" / "vicheck").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert path.relative_to(ROOT / "src").as_posix() in names
    assert "vicheck/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_metadata_are_true():
    """Classifiers exist and name what is tried; the links are those of the citation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = project["classifiers"]
    assert set(own) <= trove_classifiers.classifiers
    pythons = [each.rsplit(" ", 1)[1] for each in own if re.search(r"Python :: 3\.", each)]
    assert project["requires-python"] == f">={pythons[0]}"
    assert f"set -- {' '.join(pythons)};" in (ROOT / ".ci" / "test-wheel").read_text()
    assert "Operating System :: POSIX :: Linux" in own
    assert not any(each.startswith("License ::") for each in own)  # `license` says it
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["urls"] == {"Paper": citation["preferred-citation"]["url"]}


def test_links_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(
    ("script", "page", "parts"),
    [
        ("psis", "benchmarks.md", None),
        ("khat_coverage", "khat-coverage.md", ("coverage", "narrow_normals")),
        ("tail_shape", "tail-shape.md", None),
        ("vsbc_verdicts", "vsbc-verdicts.md", ("verdicts",)),
        ("fit", "fit-benchmarks.md", None),
        ("vsbc", "vsbc-benchmarks.md", None),
        ("engine", "engine-benchmarks.md", None),
        ("acceptance", "fit-accuracy.md", None),
        ("shards", "scale-out.md", None),
        ("truth", "truth.md", None),
    ],
)
def test_measured_pages_are_what_the_scripts_wrote(script, page, parts):
    place = ROOT / "benchmarks" / script
    source = place / "page.py" if place.is_dir() else place.with_suffix(".py")
    spec = importlib.util.spec_from_file_location(script, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = json.loads((ROOT / "benchmarks" / f"{script}.json").read_text())
    arguments = [results[part] for part in parts] if parts else [results]
    text = (ROOT / "docs" / page).read_text()
    if hasattr(module, "BEGIN"):  # a part of the page
        text = text.split(module.BEGIN)[1].split(module.END)[0]
    assert module.as_markdown(*arguments) == text


@pytest.mark.slow
def test_a_system_without_a_place_for_compiled_code():
    """Numba finds no directory for its cache: the code is compiled for the process instead."""
    script = """
import numpy as np
from numba.core import caching
for locator in list(caching.CacheImpl._locator_classes):
    locator.from_function = classmethod(lambda cls, py_func, py_file: None)
import vicheck
print(vicheck.psis(np.arange(5000.0)).status.name)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "OK"


def test_examples_are_the_draws_of_stan():
    for short, name in (("cp", "centred"), ("ncp", "noncentred")):
        stan = ROOT / "tests" / "reference" / "stan_csv" / f"eight_schools_{short}_meanfield.csv"
        lines = [line for line in stan.read_text().splitlines() if not line.startswith("#")]
        header, _mean, *draws = (line.split(",") for line in lines)
        assert header[1:3] == ["log_p__", "log_g__"]
        example = (files("vicheck") / "examples" / f"eight_schools_{name}.csv").read_text()
        assert example.splitlines() == ["log_p,log_q", *(",".join(draw[1:3]) for draw in draws)]
