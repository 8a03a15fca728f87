"""How Stan programs are compiled: with which headers, once, whole or not at all."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import vicheck
from vicheck.adapters.stan import compiler, headers
from vicheck.adapters.stan.bridge import Bridge
from vicheck.adapters.stan.compiler import compile_program, library_name, translate
from vicheck.adapters.stan.headers import all_headers, needed_headers
from vicheck.adapters.stan.sources import CompiledProgram, source_of
from vicheck.cli.loading import load_model
from vicheck.errors import ModelError

PROGRAM = Path(__file__).parents[2] / "docs" / "eight_schools.stan"
INCLUDE = compiler._home() / "include"
COMPILE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from pathlib import Path; from vicheck.adapters.stan.compiler import *; "
    "compile_program(Path(sys.argv[1]))"
)
"""A program; in the background of a shell its Ctrl-C would be ignored."""


def included(code):
    return set(re.findall(r"#include <(.*)>", needed_headers(code, INCLUDE)))


@pytest.fixture
def place(monkeypatch, tmp_path):
    """An empty cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vicheck" / "stan"


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Make a compiler of a few lines of shell, where $here has headers.hpp; it logs its runs."""

    def make(does="true", version="1.0"):
        path = tmp_path / "compiler"
        path.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = --version ] && echo {version} && exit 0\n'
            f"echo run >> {tmp_path}/runs\n"
            'while [ "$1" != -o ]; do shift; done\n'
            'here=$(dirname "$2")\n'
            f"{does} || exit 1\n"
            f'echo {version} > "$2"\n'
        )
        path.chmod(0o700)
        compiler._version.cache_clear()
        monkeypatch.setenv("CXX", str(path))

    yield make
    compiler._version.cache_clear()


def runs(tmp_path):
    path = tmp_path / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def start(program=PROGRAM):
    return subprocess.Popen([sys.executable, "-c", COMPILE, str(program)])


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)


def states_of(group):
    """Return the states of the processes of a group, as ps has them."""
    asked = ["ps", "-o", "stat=", "-g", group]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()


# Headers.


def test_a_program_gets_the_headers_of_what_it_mentions():
    found = included(translate(PROGRAM))
    assert {f"stan/math/prim/prob/{name}.hpp" for name in ("normal_lpdf", "cauchy_rng")} <= found
    assert "stan/math/rev/fun/multiply.hpp" in found
    assert "stan/math/prim/prob/wiener_lpdf.hpp" not in found
    assert not any(name.startswith("stan/math/opencl") for name in found)


def test_what_a_header_uses_without_including_it_is_there_too():
    """In Stan, jacobian comes before the integrator that calls it, and from elsewhere."""
    assert "stan/math/rev/functor/jacobian.hpp" in included("stan::math::ode_bdf(f)")


def test_every_function_that_stan_knows_is_found():
    stanc = str(compiler._home() / "stanc")
    done = subprocess.run(
        [stanc, "--dump-stan-math-signatures"], capture_output=True, text=True, check=True
    )
    names = set(re.findall(r"^(\w+)\(", done.stdout, re.MULTILINE))
    assert len(names) > 400
    unknown = {name for name in names if not headers._headers_of(INCLUDE).that_define(f"{name}(")}
    assert unknown == {"lchoose", "std_normal_qf", "integrate_ode"}  # of other names in C++


@pytest.mark.parametrize("wrong", ["needed", "all"])
def test_what_does_not_compile_with_few_headers_is_compiled_with_all(wrong, fake, place, tmp_path):
    fake(
        'grep -q "include <stan/math.hpp>" "$here/headers.hpp"'
        if wrong == "needed"
        else "(echo it is wrong >&2; false)"
    )
    said = []
    if wrong == "needed":
        compile_program(PROGRAM, said.append)
    else:
        with pytest.raises(ModelError, match="cannot be compiled by compiler:\nit is wrong"):
            compile_program(PROGRAM, said.append)
        assert not [path for path in place.iterdir() if path.suffix != ".lock"]
    assert runs(tmp_path) == 2
    assert said[1:] == [
        "compiling eight_schools.stan again, with all of Stan's headers; this takes longer"
    ]
    assert all_headers() == "#include <stan/math.hpp>\n"


# Kept, and made again.


def test_a_library_is_made_again_by_another_version_of_the_compiler(fake, place, tmp_path):
    fake(version="1.0")
    first = compile_program(PROGRAM)
    assert compile_program(PROGRAM) == first
    assert runs(tmp_path) == 1
    fake(version="2.0")
    second = compile_program(PROGRAM)
    assert (first.read_text(), second.read_text()) == ("1.0\n", "2.0\n")
    assert CompiledProgram(str(first)).identity == CompiledProgram(str(second)).identity


def test_a_library_is_made_again_with_other_flags(fake, place, monkeypatch, tmp_path):
    fake()
    first = compile_program(PROGRAM)
    monkeypatch.setattr(compiler, "_FLAGS", (*compiler._FLAGS, "-O3"))
    assert compile_program(PROGRAM) != first
    assert runs(tmp_path) == 2


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_an_interrupt_ends_the_compiler_and_leaves_nothing(fake, place, tmp_path):
    fake(f'(echo half > "$2"; echo $$ > {tmp_path}/pid; sleep 1000)')
    process = start()
    wait_for(tmp_path / "pid")
    process.send_signal(signal.SIGINT)
    assert process.wait() != 0
    assert [path.suffix for path in place.iterdir()] == [".lock"]
    group = (tmp_path / "pid").read_text().strip()
    until = time.monotonic() + 60.0
    while any(not state.startswith("Z") for state in states_of(group)):  # killed, and not yet gone
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_a_killed_process_left_is_removed(fake, place):
    fake()
    left = place / f"{Path(library_name(translate(PROGRAM))).stem}.left"
    left.mkdir(parents=True)
    place.parent.chmod(0o700)
    place.chmod(0o700)
    (left / "program.so").write_text("half")
    library = compile_program(PROGRAM)
    assert not left.exists()
    assert library.read_text() == "1.0\n"


def test_of_two_processes_one_compiles(fake, place, tmp_path):
    fake(f"(touch {tmp_path}/began; until [ -e {tmp_path}/go ]; do sleep 0.05; done)")
    first = start()
    wait_for(tmp_path / "began")
    said = []

    def report(sentence):
        said.append(sentence)
        (tmp_path / "go").touch()

    library = compile_program(PROGRAM, report)
    assert first.wait() == 0
    assert said == ["waiting for another process that is compiling eight_schools.stan"]
    assert runs(tmp_path) == 1
    assert library.read_text() == "1.0\n"


# What is said meanwhile.


def test_it_is_said_that_a_program_is_compiled_and_not_that_it_is_found(fake, place):
    fake()
    said = []
    source_of(PROGRAM, said.append)
    assert said == [
        f"compiling eight_schools.stan, {compiler._DURATION}; it is kept for the next time"
    ]
    source_of(PROGRAM, said.append)
    assert len(said) == 1


def test_the_command_line_shows_it_too(fake, place, tmp_path):
    fake()
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"J": 8}))
    said = []
    with pytest.raises(OSError, match="file too short"):  # what is compiled here is no library
        load_model(str(PROGRAM), str(data), None, said.append)
    assert [each for each in said if each.startswith("compiling eight_schools.stan, about")]


# Data.

ECHO = """
data {
  matrix[2, 3] X;
  array[2, 3, 2] real A;
  array[2] complex z;
  array[2, 2] int k;
  int n;
  array[n] int empty;
  real whole;
}
parameters { real mu; }
model { mu ~ normal(0, 1); }
generated quantities {
  matrix[2, 3] X_ = X;
  array[2, 3, 2] real A_ = A;
  array[2] complex z_ = z;
  array[2, 2] int k_ = k;
  real whole_ = whole;
}
"""
RNG = np.random.default_rng(1)
ECHOED = {
    "X": RNG.normal(size=(2, 3)),
    "A": RNG.normal(size=(2, 3, 2)),
    "z": RNG.normal(size=(2, 2)),
    "k": np.array([[1, -2], [2**31 - 1, 0]]),
    "n": 0,
    "empty": np.array([]),
    "whole": 3,
}


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    path = tmp_path_factory.mktemp("echo") / "echo.stan"
    path.write_text(ECHO)
    return str(compile_program(path))


@pytest.mark.slow
def test_data_arrive_in_their_places(echo):
    bridge = Bridge(echo, ECHOED)
    values = bridge.param_constrain(np.zeros(1), include_gq=True)
    found = dict(zip(bridge.param_names(include_gq=True), values, strict=True))
    for name in ("X", "A", "k"):
        for index, value in np.ndenumerate(ECHOED[name]):
            assert found[".".join([f"{name}_", *(str(i + 1) for i in index)])] == value
    for i, (real, imaginary) in enumerate(ECHOED["z"]):
        assert (found[f"z_.{i + 1}.real"], found[f"z_.{i + 1}.imag"]) == (real, imaginary)
    assert found["whole_"] == 3.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": [[0.5, 1], [1, 1]]}, "int variable contained non-int values.*name=k"),
        ({"k": [[2**31, 1], [1, 1]]}, "int variable contained non-int values.*name=k"),
        ({"empty": [1, 2]}, "name=empty.*declared=.0.; dims found=.2."),
        ({"X": np.zeros((3, 2))}, "name=X.*declared=.2,3.; dims found=.3,2."),
        ({"X": np.array([["a"] * 3] * 2)}, "X must hold numbers, got an array of type <U1"),
    ],
)
def test_data_that_do_not_fit_are_refused(change, message, echo):
    with pytest.raises(ModelError, match=message):
        Bridge(echo, ECHOED | change)


@pytest.mark.slow
def test_what_is_compiled_with_few_headers_is_what_is_compiled_with_all(tmp_path):
    """Functions for other types would be missed in silence only where they compute the same."""
    code = translate(PROGRAM)
    data = {"J": 2, "centred": 0, "y": [1.0, -2.0], "sigma": [1.0, 2.0]}
    (tmp_path / "program.hpp").write_text(code)
    results = []
    tmp_path.chmod(0o700)
    for name, text in (("few", needed_headers(code, INCLUDE)), ("all", all_headers())):
        (tmp_path / "headers.hpp").write_text(text)
        subprocess.run(compiler.command(tmp_path), check=True)
        library = shutil.move(tmp_path / "program.so", tmp_path / f"{name}.so")
        os.chmod(library, 0o700)
        results.append(Bridge(str(library), data).log_density_gradients(np.ones((3, 4))))
    for few, every in zip(*results, strict=True):
        np.testing.assert_allclose(few, every, rtol=1e-14)


def test_the_keyword_of_from_stan_is_called(fake, place):
    fake()
    said = []
    with pytest.raises(OSError, match="file too short"):
        vicheck.from_stan(PROGRAM, {"J": 8}, progress=said.append)
    assert said[0].startswith("compiling eight_schools.stan")
